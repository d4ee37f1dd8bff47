//! The protocol endpoint of libfabric's endpoint: a context of the runtime, and what
//! is counted and said of it.

use crate::log::{self, About};
use sluice_link::Machine as _;
use sluice_proto::selection::{MemoryKind, Thresholds};
use sluice_proto::{
    Completion, Endpoint, Exposed, Kind, Probe, Recv, Refused, RegionId, Rma, Send,
};
use sluice_rail::net::{Net, NetStats};
use sluice_rail::observer::Request;
use sluice_rail::shm::{self, Config, OpenError, Warn};
use sluice_rail::snapshot::Snapshot;
use sluice_rail::tune::{self, Tuned};
use sluice_runtime::{Context, Polled as _, Settings};
use sluice_wire::{PeerId, Region};
use std::process;
use std::sync::OnceLock;

pub use sluice_rail::{ADDRESS_BYTES, Address, AddressError};

/// By which lengths protocols are chosen: what is set, and for the rest what moves
/// cost here, found out once in a process.
fn thresholds(settings: &Settings) -> Thresholds {
    static TUNED: OnceLock<Tuned> = OnceLock::new();
    let tuned = TUNED.get_or_init(|| {
        let tuned = tune::load(&shm::COSTS, &settings.tune);
        for warning in &tuned.warnings {
            log::warn(About::Endpoint, warning);
        }
        for notice in &tuned.notices {
            log::info(About::Endpoint, || notice.clone());
        }
        tuned
    });
    let set = settings.lengths.set();
    let found = Thresholds::of(tuned.costs.as_ref(), MemoryKind::Host, &set);
    for (threshold, value, source) in found.iter() {
        log::info(About::Endpoint, || format!("{} is {value} ({source})", threshold.name()));
    }
    found
}

/// What a trace shows of the end of a message.
#[inline(always)]
fn request_of(ended: &Completion) -> Option<Request> {
    let (len, tag, is_good) = (ended.len, ended.tag, ended.outcome.is_ok());
    match ended.kind {
        Kind::Send => Some(Request::Sent { len, tag, is_good }),
        Kind::Recv => Some(Request::Received { len, tag, is_good }),
        _ => None,
    }
}

/// An endpoint at work.
#[derive(Debug)]
pub struct Engine {
    context: Context<Endpoint>,
    /// The process that opened it.
    pid: u32,
}

impl Engine {
    /// Opens a mailbox for `peers` senders; 0 if the program does not say.
    /// `sleeps`: a thread may sleep until somebody writes into it.
    pub fn open(settings: &Settings, peers: usize, sleeps: bool) -> Result<Engine, OpenError> {
        let config = Config {
            sleeps,
            warn: Warn(|line| log::warn(About::Endpoint, line)),
            ..settings.rail.config(peers, Endpoint::data_slots_within)
        };
        let world = settings.network.open(config)?;
        let context = Context::new(world, |layout| {
            let Thresholds { table, network, .. } = thresholds(settings);
            let proto = sluice_proto::Config {
                inject_bytes_max: settings.inject_kept_bytes,
                network_eager_bytes_max: network.eager_bytes_max,
                ..sluice_proto::Config::default()
            };
            Endpoint::new(proto.with_table(&table), layout)
        });
        let mut engine = Engine { context, pid: process::id() };
        engine.tell_notices();
        Ok(engine)
    }

    /// What the runtime shares between threads.
    #[inline]
    pub fn context(&self) -> &Context<Endpoint> {
        &self.context
    }

    /// As [`Engine::context`].
    #[inline]
    pub fn context_mut(&mut self) -> &mut Context<Endpoint> {
        &mut self.context
    }

    /// Whether this process opened it, and not one of which it is a fork.
    pub fn is_own(&self) -> bool {
        self.pid == process::id()
    }

    /// The address of this endpoint.
    pub fn address(&self) -> Address {
        self.context.world().address()
    }

    /// The peer at an address.
    pub fn peer(&mut self, address: &Address) -> Result<PeerId, AddressError> {
        self.context.world_mut().peer(address)
    }

    /// The address of a peer.
    pub fn peer_address(&self, peer: PeerId) -> Option<Address> {
        self.context.world().peer_address(peer)
    }

    /// A peer's name for people.
    pub fn describe(&self, peer: PeerId) -> String {
        self.context.world().describe(peer)
    }

    /// Takes in what has arrived and does what has become possible.
    #[inline]
    pub fn poll(&mut self) {
        self.context.poll();
    }

    /// As [`Engine::poll`], for who may have slept. Says how much there was.
    pub fn poll_after_rest(&mut self) -> usize {
        self.context.poll_after_sleep()
    }

    /// Where each request goes that was injected and is still here.
    pub fn promised(&self) -> impl Iterator<Item = PeerId> {
        self.context.machine().promised()
    }

    /// Withdraws each receive that no message has met.
    pub fn withdraw_receives(&mut self) {
        let contexts: Vec<u64> = self.context.machine().posted().collect();
        let (now, endpoint, port) = self.context.parts();
        for context in contexts {
            endpoint.cancel(now, port, context);
        }
    }

    /// Where not all has come that has left this process, and how much has not: bytes or packets.
    pub fn undelivered(&self) -> Vec<(PeerId, u64)> {
        self.context.world().net().map_or_else(Vec::new, Net::undelivered)
    }

    /// Tells every end from now on, for counters.
    pub fn count_all(&mut self) {
        self.context.machine_mut().count_all();
    }

    /// Whether a request has ended that was not removed yet.
    #[inline]
    pub fn has_completions(&self) -> bool {
        self.context.machine().has_completions()
    }

    /// What was sent goes, as a completion of it is about to be told.
    #[inline]
    pub fn send_held(&mut self) {
        self.context.world_mut().send_held();
    }

    /// The next ended request.
    #[inline]
    pub fn first(&self) -> Option<&Completion> {
        self.context.machine().first()
    }

    /// The next ended request is told, or kept to be.
    #[inline]
    pub fn remove_first(&mut self) {
        let (_, endpoint, world) = self.context.parts();
        if let Some(ended) = endpoint.first()
            && let Some(request) = request_of(ended)
        {
            world.note_request(ended.peer, request);
        }
        endpoint.remove_first();
    }

    /// Takes a message to send. Refused for want of room, it makes room and
    /// tries once more, so that a program that only ever repeats the call gets
    /// on.
    #[inline]
    pub fn send(&mut self, send: &Send) -> Result<(), Refused> {
        self.note_send(send, send.buf.len);
        self.look_first(send.buf.len);
        let (now, endpoint, port) = self.context.parts();
        if let Err(why) = endpoint.send(now, port, send) {
            return self.send_again(send, why);
        }
        self.context.world_mut().count_sent(send.buf.len);
        Ok(())
    }

    /// A message was refused.
    #[cold]
    fn send_again(&mut self, send: &Send, why: Refused) -> Result<(), Refused> {
        let mut answer = Err(why);
        if why == Refused::Again {
            self.poll();
            let (now, endpoint, port) = self.context.parts();
            answer = endpoint.send(now, port, send);
        }
        if answer.is_ok() {
            self.context.world_mut().count_sent(send.buf.len);
        }
        self.note_answer(answer)
    }

    /// Takes a message whose bytes lie in several pieces. As [`Engine::send`].
    pub fn send_pieces(&mut self, send: &Send, pieces: &[Region]) -> Result<(), Refused> {
        let bytes = pieces.iter().map(|piece| piece.len).sum();
        self.note_send(send, bytes);
        let (now, endpoint, port) = self.context.parts();
        let answer = match endpoint.send_pieces(now, port, send, pieces) {
            Err(Refused::Again) => {
                self.poll();
                let (now, endpoint, port) = self.context.parts();
                endpoint.send_pieces(now, port, send, pieces)
            }
            answer => answer,
        };
        if answer.is_ok() {
            self.context.world_mut().count_sent(bytes);
        }
        self.note_answer(answer)
    }

    /// Takes a receive.
    #[inline]
    pub fn recv(&mut self, recv: &Recv) -> Result<(), Refused> {
        self.note_post(recv, recv.buf.len);
        self.look_before_recv(recv.buf.len);
        let (now, endpoint, port) = self.context.parts();
        let answer = endpoint.recv(now, port, recv);
        self.note_answer(answer)
    }

    /// Takes a receive whose buffer lies in several pieces.
    pub fn recv_pieces(&mut self, recv: &Recv, pieces: &[Region]) -> Result<(), Refused> {
        let len = pieces.iter().map(|piece| piece.len).sum();
        self.note_post(recv, len);
        self.look_before_recv(len);
        let (now, endpoint, port) = self.context.parts();
        let answer = endpoint.recv_pieces(now, port, recv, pieces);
        self.note_answer(answer)
    }

    /// Takes a buffer for many messages.
    pub fn recv_many(&mut self, recv: &Recv, left_min: u64) -> Result<(), Refused> {
        self.note_post(recv, recv.buf.len);
        let (now, endpoint, port) = self.context.parts();
        let answer = endpoint.recv_many(now, port, recv, left_min);
        self.note_answer(answer)
    }

    /// What became of a request: one that was refused is not to be in a trace.
    #[inline(always)]
    fn note_answer(&mut self, answer: Result<(), Refused>) -> Result<(), Refused> {
        if answer.is_err() {
            self.context.world_mut().withdraw_request();
        }
        answer
    }

    /// A receive is posted, which a trace is to show.
    #[inline(always)]
    fn note_post(&mut self, recv: &Recv, len: u64) {
        let Recv { source, tag, ignore, .. } = *recv;
        self.context.world_mut().note_request(source, Request::Post { len, tag, ignore });
    }

    /// A message is to be sent, which a trace is to show.
    #[inline(always)]
    fn note_send(&mut self, send: &Send, len: u64) {
        let request = Request::Send { len, tag: send.tag };
        self.context.world_mut().note_request(Some(send.peer), request);
    }

    /// Takes in what has arrived, if that matters to a request of this length.
    #[inline]
    fn look_first(&mut self, len: u64) {
        if self.context.machine().should_poll_first(len) {
            self.context.take_in();
        }
    }

    /// The same for a receive.
    #[inline]
    fn look_before_recv(&mut self, len: u64) {
        if self.context.machine().should_poll_first(len) {
            self.context.take_in_for_recv();
        }
    }

    /// Looks for a message, after a look at the mailbox.
    pub fn probe(&mut self, probe: &Probe) -> Result<(), Refused> {
        self.poll();
        let (now, endpoint, port) = self.context.parts();
        endpoint.probe(now, port, probe)
    }

    /// Fetches a claimed message.
    pub fn recv_claimed(&mut self, context: u64, buf: Region, report: bool) -> Result<(), Refused> {
        let (now, endpoint, port) = self.context.parts();
        endpoint.recv_claimed(now, port, context, buf, report)
    }

    /// Fetches a claimed message into several pieces.
    pub fn recv_claimed_pieces(
        &mut self,
        context: u64,
        pieces: &[Region],
        report: bool,
    ) -> Result<(), Refused> {
        let (now, endpoint, port) = self.context.parts();
        endpoint.recv_claimed_pieces(now, port, context, pieces, report)
    }

    /// Drops a claimed message.
    pub fn discard_claimed(&mut self, context: u64, report: bool) -> Result<(), Refused> {
        let (now, endpoint, port) = self.context.parts();
        endpoint.discard_claimed(now, port, context, report)
    }

    /// Begins an operation on a peer's memory. As [`Engine::send`].
    pub fn rma(&mut self, rma: &Rma) -> Result<(), Refused> {
        let (now, endpoint, port) = self.context.parts();
        match endpoint.rma(now, port, rma) {
            Err(Refused::Again) => {
                self.poll();
                let (now, endpoint, port) = self.context.parts();
                endpoint.rma(now, port, rma)
            }
            answer => answer,
        }
    }

    /// Whether an earlier operation on this peer has not ended.
    pub fn is_busy_with(&self, peer: PeerId) -> bool {
        self.context.machine().is_busy_with(peer)
    }

    /// Exposes memory to peers.
    pub fn expose(&mut self, exposed: &Exposed) -> Result<RegionId, Refused> {
        let (_, endpoint, port) = self.context.parts();
        endpoint.expose(port, exposed)
    }

    /// Exposes it no more.
    pub fn hide(&mut self, region: RegionId) {
        let (_, endpoint, port) = self.context.parts();
        endpoint.hide(port, region);
    }

    /// Cancels a receive, or a send if none has this context.
    pub fn cancel(&mut self, context: u64) -> bool {
        let (now, endpoint, port) = self.context.parts();
        endpoint.cancel(now, port, context) || endpoint.cancel_send(now, port, context).is_some()
    }

    /// How many messages were taken to be sent, and of how many bytes.
    pub fn sent(&self) -> (u64, u64) {
        let said = self.context.machine().stats();
        (said.eager_sent + said.rendezvous_sent, self.context.world().sent_bytes())
    }

    /// The network devices that are used, and how many bytes went by each.
    pub fn carried(&self) -> Vec<(&str, u64)> {
        self.context.world().net().map_or_else(Vec::new, Net::carried)
    }

    /// What was done, for programs.
    pub fn snapshot(&self) -> Snapshot {
        self.context.world().snapshot(self.context.machine())
    }

    /// What was done, in words for people.
    pub fn summary(&self) -> String {
        let (said, world) = (self.context.machine().stats(), self.context.world());
        let rail = world.stats();
        let peers = self.context.machine().told().peers;
        let stalls: u64 = peers.iter().map(|peer| peer.stalls).sum();
        let stalled_ns: u64 = peers.iter().map(|peer| peer.stalled.0).sum();
        let network = world.net().map(Net::stats).map_or(String::new(), |net| {
            let NetStats { opened, broken, altered, .. } = net;
            let by_device = self.carried().into_iter().filter(|&(_, bytes)| bytes > 0);
            let by_device: String =
                by_device.map(|(name, bytes)| format!(", {} KiB by {name}", bytes >> 10)).collect();
            format!(
                "; network: {opened} connections opened, {broken} broken, {altered} altered{by_device}"
            )
        });
        format!(
            "{} messages sent eagerly, {} announced; {} arrived unexpected, holding at most \
             {} KiB, {} asked for; {} MiB read directly, {} written; {} packets out, {} in; \
             {} of those out by bounce buffers; {} peers gone, {} violations; {stalls} found no \
             credit, for {} ms in all{network}",
            said.eager_sent,
            said.rendezvous_sent,
            said.unexpected,
            said.unexpected_bytes_peak.div_ceil(1024),
            said.asked_for,
            rail.read_bytes >> 20,
            rail.written_bytes >> 20,
            rail.packets_out,
            rail.packets_in,
            rail.bounces_out,
            rail.peers_gone,
            said.violations + rail.violations,
            stalled_ns / 1_000_000,
        )
    }

    /// Logs what the rail has found out about its surroundings.
    pub fn tell_notices(&mut self) {
        for notice in self.context.new_notices() {
            log::info(About::Endpoint, || notice.clone());
        }
    }
}
