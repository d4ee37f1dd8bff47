//! The protocol endpoint and the rail beneath it, as one thing. What else is used
//! of the rail crate moves no messages: the progress thread (`ep/attendant`),
//! yielding, and the kinds of tuning in `param`.

use crate::log::{self, About};
use crate::param::{Bulk, Credits, Params, Segment};
use sluice_link::Machine;
use sluice_proto::selection::{MemoryKind, Thresholds};
use sluice_proto::{Completion, Endpoint, Probe, Recv, Refused, Send};
use sluice_rail::shm::{self, BulkKind, CreditKind, SegmentKind, Shm};
use sluice_rail::tune::{self, Tuned};
use sluice_wire::{Nanos, PeerId, Region};
use std::sync::OnceLock;

pub use sluice_rail::shm::{ADDRESS_BYTES, Address, AddressError, Doorbell};

/// Most packets taken in by one poll, so that a call that reads completions
/// returns even if peers send faster than it reads.
const POLL_BUDGET: usize = 64;

/// Mailboxes are sized for as many senders as the program says, and this many
/// more: those that join later.
const SENDERS_MARGIN: usize = 8;
/// The fewest senders to expect. Programs say too little: Open MPI gives the
/// number of slots of the allocation, which is less than the number of ranks
/// when there are more ranks than cores.
const SENDERS_MIN: usize = 64;
/// Slots per sender beyond which the limit on a mailbox is raised for large
/// jobs: a little more than the least quota.
const SLOTS_PER_SENDER: u32 = 256;

/// By which lengths protocols are chosen: what is set, and for the rest what moves
/// cost here, found out once in a process.
fn thresholds(params: &Params) -> Thresholds {
    static TUNED: OnceLock<Tuned> = OnceLock::new();
    let tuned = TUNED.get_or_init(|| {
        let tuned = tune::load(&shm::COSTS, &params.tune);
        for warning in &tuned.warnings {
            log::warn(About::Endpoint, warning);
        }
        for notice in &tuned.notices {
            log::info(About::Endpoint, || notice.clone());
        }
        tuned
    });
    let found = Thresholds::of(tuned.costs.as_ref(), MemoryKind::Host, &params.thresholds);
    for (threshold, value, source) in found.iter() {
        log::info(About::Endpoint, || format!("{} is {value} ({source})", threshold.name()));
    }
    found
}

/// An endpoint at work.
#[derive(Debug)]
pub struct Engine {
    endpoint: Endpoint,
    port: Shm,
    notices_told: usize,
    /// Of all messages that were taken to be sent.
    sent_bytes: u64,
}

impl Engine {
    /// Opens a mailbox for `peers` senders; 0 if the program does not say.
    /// `sleeps`: a thread may sleep until somebody writes into it.
    pub fn open(params: &Params, peers: usize, sleeps: bool) -> Result<Engine, shm::OpenError> {
        let wanted = peers.saturating_add(SENDERS_MARGIN).max(SENDERS_MIN);
        let senders_max = params.peers_max.unwrap_or(u16::try_from(wanted).unwrap_or(u16::MAX));
        let slots_needed = u32::from(senders_max) * SLOTS_PER_SENDER;
        let slots_max = match params.mailbox_slots {
            Some(slots) => slots,
            None => slots_needed.next_power_of_two().max(shm::Config::default().slots_max),
        };
        let config = shm::Config {
            senders_max,
            slots_max,
            data_slots_max: Endpoint::data_slots_within(params.unexpected_bytes),
            credits: match params.credits {
                Credits::Dynamic => CreditKind::Dynamic,
                Credits::Static => CreditKind::Static,
            },
            segment: match params.segment {
                Segment::Auto => SegmentKind::Auto,
                Segment::Memfd => SegmentKind::Memfd,
                Segment::File => SegmentKind::File,
            },
            bulk: match params.bulk {
                Bulk::Auto => BulkKind::Auto,
                Bulk::Direct => BulkKind::Direct,
                Bulk::Ring => BulkKind::Ring,
            },
            sleeps,
            warn: shm::Warn(|line| log::warn(About::Endpoint, line)),
            ..shm::Config::default()
        };
        let port = Shm::open(config)?;
        let proto = sluice_proto::Config {
            inject_bytes_max: params.inject_kept_bytes,
            ..sluice_proto::Config::default()
        };
        let proto = proto.with_table(&thresholds(params).table);
        let endpoint = Endpoint::new(proto, port.layout());
        let mut engine = Engine { endpoint, port, notices_told: 0, sent_bytes: 0 };
        engine.tell_notices();
        Ok(engine)
    }

    /// The address of this endpoint.
    pub fn address(&self) -> Address {
        self.port.address()
    }

    /// The peer at an address.
    pub fn peer(&mut self, address: &Address) -> Result<PeerId, AddressError> {
        self.port.peer(address)
    }

    /// The address of a peer.
    pub fn peer_address(&self, peer: PeerId) -> Option<Address> {
        self.port.peer_address(peer)
    }

    /// A peer's name for people.
    pub fn describe(&self, peer: PeerId) -> String {
        self.port.describe(peer)
    }

    /// Takes in what has arrived and does what has become possible.
    #[inline]
    pub fn poll(&mut self) -> usize {
        let now = self.now();
        self.port.poll(now, &mut self.endpoint, POLL_BUDGET)
    }

    /// As [`Engine::poll`], for a thread that may have slept: the time it has
    /// missed counts.
    pub fn poll_after_sleep(&mut self) -> usize {
        self.port.refresh_now();
        self.poll()
    }

    /// For how long, in nanoseconds, a poll would find nothing to do unless
    /// somebody rings; zero if it would find something.
    pub fn rest_ns(&mut self) -> u64 {
        let rest_ns = self.port.rest_ns();
        match self.endpoint.deadline() {
            Some(deadline) => rest_ns.min(deadline.0.saturating_sub(self.port.refresh_now().0)),
            None => rest_ns,
        }
    }

    /// Whether something is left to be done that no peer will ring for.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.port.is_busy() || self.endpoint.deadline().is_some()
    }

    /// What a thread sleeps by until somebody writes.
    pub fn doorbell(&self) -> Doorbell {
        self.port.doorbell()
    }

    /// Whether a request has ended that was not popped yet.
    pub fn has_completions(&self) -> bool {
        self.endpoint.has_completions()
    }

    /// The next ended request.
    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        self.endpoint.pop()
    }

    /// Takes a message to send. Refused for want of room, it makes room and
    /// tries once more, so that a program that only ever repeats the call gets
    /// on.
    #[inline]
    pub fn send(&mut self, send: &Send) -> Result<(), Refused> {
        self.look_first(send.buf.len);
        let answer = match self.endpoint.send(self.now(), &mut self.port, send) {
            Err(Refused::Again) => {
                self.poll();
                self.endpoint.send(self.now(), &mut self.port, send)
            }
            answer => answer,
        };
        if answer.is_ok() {
            self.sent_bytes += send.buf.len;
        }
        answer
    }

    /// Takes a receive.
    #[inline]
    pub fn recv(&mut self, recv: &Recv) -> Result<(), Refused> {
        self.look_first(recv.buf.len);
        self.endpoint.recv(self.now(), &mut self.port, recv)
    }

    /// Takes in what has arrived, if that matters to a request of this length.
    #[inline]
    fn look_first(&mut self, len: u64) {
        if self.endpoint.should_poll_first(len) {
            let now = self.now();
            self.port.take_in(now, &mut self.endpoint, POLL_BUDGET);
        }
    }

    /// Looks for a message, after a look at the mailbox.
    pub fn probe(&mut self, probe: &Probe) -> Result<(), Refused> {
        self.poll();
        self.endpoint.probe(self.now(), &mut self.port, probe)
    }

    /// Fetches a claimed message.
    pub fn recv_claimed(&mut self, context: u64, buf: Region, report: bool) -> Result<(), Refused> {
        self.endpoint.recv_claimed(self.now(), &mut self.port, context, buf, report)
    }

    /// Drops a claimed message.
    pub fn discard_claimed(&mut self, context: u64, report: bool) -> Result<(), Refused> {
        self.endpoint.discard_claimed(self.now(), &mut self.port, context, report)
    }

    /// Cancels a receive.
    pub fn cancel(&mut self, context: u64) -> bool {
        self.endpoint.cancel(self.now(), &mut self.port, context)
    }

    /// How many messages were taken to be sent, and of how many bytes.
    pub fn sent(&self) -> (u64, u64) {
        let said = self.endpoint.stats();
        (said.eager_sent + said.rendezvous_sent, self.sent_bytes)
    }

    /// What was done, in words for people.
    pub fn summary(&self) -> String {
        let (said, rail) = (self.endpoint.stats(), self.port.stats());
        format!(
            "{} messages sent eagerly, {} announced; {} arrived unexpected, holding at most \
             {} KiB, {} asked for; {} MiB read directly, {} written; {} packets out, {} in; \
             {} peers gone, {} violations",
            said.eager_sent,
            said.rendezvous_sent,
            said.unexpected,
            said.unexpected_bytes_peak.div_ceil(1024),
            said.asked_for,
            rail.read_bytes >> 20,
            rail.written_bytes >> 20,
            rail.packets_out,
            rail.packets_in,
            rail.peers_gone,
            said.violations + rail.violations,
        )
    }

    /// Logs what the rail has found out about its surroundings.
    pub fn tell_notices(&mut self) {
        for notice in &self.port.notices()[self.notices_told..] {
            log::info(About::Endpoint, || notice.clone());
        }
        self.notices_told = self.port.notices().len();
    }

    #[inline]
    fn now(&self) -> Nanos {
        self.port.now()
    }
}
