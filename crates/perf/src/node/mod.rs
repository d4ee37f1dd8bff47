//! One process of a measurement: its rail, its endpoint, the other process,
//! and waits that end.

use crate::access::Access;
use crate::cores::pin;
use crate::other::{Other, Second};
use crate::rail::{self, Opening};
use crate::read::{self, Reader};
use crate::step::{STEP_BYTES, Step};
use anyhow::{Context as _, Result, bail};
use sluice_link::{Remote, RemoteMemory, Rights};
use sluice_proto::{Completion, Endpoint, Kind, Recv, Refused, Send, Space, Stats};
use sluice_runtime::Context;
use sluice_wire::{Addr, PeerId, Region, RemoteKey};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What a message is, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// What to do next, from the first process to the second.
    Step = 1,
    /// The answer to a step: ready, done, or what was found.
    Answer = 2,
    /// What is measured.
    Data = 3,
}

const CHANNELS: usize = 4;

/// Tags and contexts from here on are those of numbered messages.
const NUMBERED: u64 = 1 << 32;

/// The end of a receive of a numbered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Which.
    pub number: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The out-of-band data that came with it.
    pub data: Option<u64>,
}

/// Bytes of an answer: a word, and as many more as figures of all versions have had.
const ANSWER_BYTES: usize = 32;

/// Longest wait in which nothing at all happens.
const PATIENCE: Duration = Duration::from_secs(30);
/// Polls without anything between two looks at the clock and the other process.
const POLLS_PER_LOOK: u32 = 1 << 14;

/// How long nothing has happened.
#[derive(Debug, Default)]
pub struct Idle {
    polls: u32,
    since: Option<Instant>,
}

/// One process of a measurement, with its endpoint to itself unless it is said otherwise.
#[derive(Debug)]
pub struct Node<A: Access = Context<Reader>> {
    access: A,
    peer: PeerId,
    other: Other,
    /// Whether to give the core away after every poll without anything.
    yields: bool,
    /// Receives that have ended, by channel.
    received: [u64; CHANNELS],
    /// Steps received before the one whose receive is posted.
    steps_seen: u64,
    /// Sends that have ended, of those that report.
    sent: u64,
    /// Numbered messages received and not yet asked for; no more than are posted.
    numbered: VecDeque<Numbered>,
    /// What went wrong, found while handling completions.
    failure: Option<String>,
    /// Names what is sent, as the other process was told for direct reads.
    exposed: RemoteKey,
    /// What is sent and what is received; they stay where they are.
    send_buf: Vec<u8>,
    recv_buf: Vec<u8>,
    small_out: Box<[u8; STEP_BYTES]>,
    small_in: Box<[u8; STEP_BYTES]>,
}

impl<A: Access> Node<A> {
    /// Opens the rail, on `core` if it is given.
    pub fn open(
        core: Option<usize>,
        opening: &Opening,
        other: Other,
        yields: bool,
    ) -> Result<Node<A>> {
        if let Some(core) = core {
            pin(core)?;
        }
        let context = rail::open_for_two(opening)?;
        Ok(Node {
            access: A::of(context),
            peer: PeerId(0),
            other,
            yields,
            received: [0; CHANNELS],
            steps_seen: 0,
            sent: 0,
            numbered: VecDeque::new(),
            failure: None,
            exposed: RemoteKey::NONE,
            send_buf: Vec::new(),
            recv_buf: Vec::new(),
            small_out: Box::new([0; STEP_BYTES]),
            small_in: Box::new([0; STEP_BYTES]),
        })
    }

    /// The address to be given to the other process.
    pub fn address(&self) -> Vec<u8> {
        self.access.look(rail::address)
    }

    /// Takes the other process's address.
    pub fn meet(&mut self, address: &[u8]) -> Result<()> {
        self.peer = self.access.with(|context| rail::meet(context, address))?;
        Ok(())
    }

    /// What leads to the endpoint.
    pub fn access(&self) -> &A {
        &self.access
    }

    /// Where this process is reached over the network, if it is.
    pub fn own_host(&self) -> Option<SocketAddr> {
        self.access.look(|context| context.world().address().host())
    }

    /// Where the other one is.
    pub fn peer_host(&self) -> Option<SocketAddr> {
        self.access.look(|context| context.world().peer_address(self.peer)?.host())
    }

    /// Whether a wait gives the core away.
    pub fn yields(&self) -> bool {
        self.yields
    }

    /// The second process, for the first one.
    pub fn second(&mut self) -> Result<&mut Second> {
        match &mut self.other {
            Other::Second(second) => Ok(second),
            Other::First(_) | Other::Distant => bail!("this is the second process"),
        }
    }

    /// Whether large messages are read directly from the other one's memory.
    pub fn reads_directly(&self) -> bool {
        self.access.look(|context| rail::reads_directly(context, self.peer))
    }

    /// Makes both buffers at least this long, with every page present.
    pub fn reserve(&mut self, bytes: u64) {
        self.revoke_exposed();
        let len = bytes as usize;
        for buf in [&mut self.send_buf, &mut self.recv_buf] {
            if buf.len() < len {
                *buf = vec![1; len];
            }
        }
    }

    /// What data messages are sent from.
    pub fn send_buf(&mut self) -> &mut [u8] {
        &mut self.send_buf
    }

    /// What data messages are received into.
    pub fn recv_buf(&mut self) -> &mut [u8] {
        &mut self.recv_buf
    }

    /// Data messages received so far.
    #[inline]
    pub fn data_received(&self) -> u64 {
        self.received[Channel::Data as usize]
    }

    /// Posts a receive of one data message.
    #[inline]
    pub fn post_data(&mut self, size: u64) -> Result<()> {
        let buf = region(&mut self.recv_buf[..size as usize]);
        self.post(&self.recv_of(Channel::Data, buf))
    }

    /// Sends one data message. The bytes must stay until the other process has
    /// shown that it has them.
    #[inline]
    pub fn send_data(&mut self, size: u64) -> Result<()> {
        let buf = region(&mut self.send_buf[..size as usize]);
        self.send(&self.send_of(Channel::Data, buf, false))
    }

    /// Sends one data message whose end is told.
    #[inline]
    pub fn send_data_reported(&mut self, size: u64) -> Result<()> {
        let buf = region(&mut self.send_buf[..size as usize]);
        self.send(&self.send_of(Channel::Data, buf, true))
    }

    /// Sends that have ended so far, of those whose end is told.
    #[inline]
    pub fn sends_ended(&self) -> u64 {
        self.sent
    }

    /// Waits until so many of those have ended in all.
    #[inline]
    pub fn wait_sends_ended(&mut self, count: u64) -> Result<()> {
        self.wait(|node| node.sent >= count)
    }

    /// Waits until so many data messages have been received in all.
    #[inline]
    pub fn wait_data(&mut self, count: u64) -> Result<()> {
        self.wait(|node| node.received[Channel::Data as usize] >= count)
    }

    /// Tells the second process what to do, and waits until it is ready.
    pub fn begin(&mut self, step: &Step) -> Result<()> {
        self.ask(step).map(|_| ())
    }

    /// Tells the second process what to do, and waits for its answer.
    pub fn ask(&mut self, step: &Step) -> Result<u64> {
        self.tell(step)?;
        self.wait_answer()
    }

    /// Tells the second process what to do; it does not answer.
    pub fn tell(&mut self, step: &Step) -> Result<()> {
        *self.small_out = step.to_bytes();
        self.send_small(Channel::Step, STEP_BYTES)
    }

    /// Exposes the bytes that data messages are sent from, for direct reads until
    /// buffers are reserved again. The bits of their key.
    pub fn expose(&mut self) -> u64 {
        self.revoke_exposed();
        let region = region(&mut self.send_buf);
        let peer = self.peer;
        let expose =
            |context: &mut Context<_>| context.world_mut().expose(peer, region, Rights::READ);
        self.exposed = self.access.with(expose);
        self.exposed.bits()
    }

    /// Reads from the other process's memory, past all protocol. False if the
    /// system does not let it.
    pub fn read_directly(&mut self, from: u64, size: u64) -> Result<bool> {
        self.begin_read(0, from, 0, 0, size);
        let mut idle_since = None;
        let mut polls = 0u32;
        loop {
            self.poll()?;
            if let Some((_, is_done)) = self.next_read() {
                return Ok(is_done);
            }
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_PER_LOOK) {
                self.look(&mut idle_since)?;
            }
        }
    }

    /// Begins the read of this number: `size` bytes at `offset` of what the other process
    /// has exposed, to `at` of the receive buffer.
    pub fn begin_read(&mut self, read: u64, from: u64, offset: u64, at: u64, size: u64) {
        let to = region(&mut self.recv_buf[at as usize..(at + size) as usize]);
        let from = Remote { key: RemoteKey::from_bits(from), offset };
        let (peer, token) = (self.peer, read::token(read));
        self.access.with(|context| context.world_mut().read_remote(peer, from, to, token));
    }

    /// The next read that has ended, and whether it has brought its bytes.
    pub fn next_read(&mut self) -> Option<(u64, bool)> {
        let (read, outcome) = self.access.with(|context| context.machine_mut().ended.pop())?;
        Some((read, outcome.is_ok()))
    }

    /// Waits for the next step.
    pub fn next_step(&mut self) -> Result<Step> {
        self.wait_small(Channel::Step, STEP_BYTES)?;
        Step::from_bytes(&self.small_in)
    }

    /// Answers: ready, or what was found.
    pub fn answer(&mut self, word: u64) -> Result<()> {
        self.small_out[..8].copy_from_slice(&word.to_le_bytes());
        self.send_small(Channel::Answer, ANSWER_BYTES)
    }

    /// Posts the receive of the next answer, so that it is expected.
    pub fn post_answer(&mut self) -> Result<()> {
        let buf = region(&mut self.small_in[..ANSWER_BYTES]);
        self.post(&self.recv_of(Channel::Answer, buf))
    }

    /// Answers received so far.
    #[inline]
    pub fn answers_received(&self) -> u64 {
        self.received[Channel::Answer as usize]
    }

    /// Waits until so many answers have been received in all.
    #[inline]
    pub fn wait_answers(&mut self, count: u64) -> Result<()> {
        self.wait(|node| node.received[Channel::Answer as usize] >= count)
    }

    /// Waits for an answer.
    pub fn wait_answer(&mut self) -> Result<u64> {
        self.wait_small(Channel::Answer, ANSWER_BYTES)?;
        Ok(self.answer_word())
    }

    /// What the answer says that came last.
    pub fn answer_word(&self) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.small_in[..8]);
        u64::from_le_bytes(word)
    }

    /// Sends the message of this number, `size` bytes at `at` of the send
    /// buffer, with its number beside it. They must stay until the send has ended.
    pub fn send_numbered(&mut self, number: u64, at: u64, size: u64) -> Result<()> {
        let buf = region(&mut self.send_buf[at as usize..(at + size) as usize]);
        let tag = NUMBERED + number;
        self.send(&Send { tag, data: Some(number), ..self.send_of(Channel::Data, buf, false) })
    }

    /// Posts a receive of the message of this number, to `at` of the receive
    /// buffer.
    pub fn post_numbered(&mut self, number: u64, at: u64, size: u64) -> Result<()> {
        let buf = region(&mut self.recv_buf[at as usize..(at + size) as usize]);
        let tag = NUMBERED + number;
        self.post(&Recv { tag, context: tag, ..self.recv_of(Channel::Data, buf) })
    }

    /// Posts a receive of any numbered message, to `at` of the receive buffer. Its end has
    /// the number `place`, and that of the message as its data.
    pub fn post_any_numbered(&mut self, place: u64, at: u64, size: u64) -> Result<()> {
        let buf = region(&mut self.recv_buf[at as usize..(at + size) as usize]);
        let context = NUMBERED + place;
        let all = NUMBERED - 1;
        let any = Recv { tag: NUMBERED, ignore: all, ..self.recv_of(Channel::Data, buf) };
        self.post(&Recv { context, ..any })
    }

    /// The next end of a receive of a numbered message that is there already.
    pub fn next_numbered(&mut self) -> Option<Numbered> {
        self.numbered.pop_front()
    }

    /// Sends the message of this number from `at` of the send buffer, and its end is told.
    pub fn send_numbered_reported(&mut self, number: u64, at: u64, size: u64) -> Result<()> {
        let buf = region(&mut self.send_buf[at as usize..(at + size) as usize]);
        let tag = NUMBERED + (number & (NUMBERED - 1));
        self.send(&Send { tag, data: Some(number), ..self.send_of(Channel::Data, buf, true) })
    }

    /// Posts the receive of the next step, which is then there when
    /// [`Node::posted_step`] gives it.
    pub fn post_step(&mut self) -> Result<()> {
        self.steps_seen = self.received[Channel::Step as usize];
        let buf = region(&mut self.small_in[..STEP_BYTES]);
        self.post(&self.recv_of(Channel::Step, buf))
    }

    /// The step whose receive was posted, if it has come.
    pub fn posted_step(&mut self) -> Result<Option<Step>> {
        if self.received[Channel::Step as usize] == self.steps_seen {
            return Ok(None);
        }
        Step::from_bytes(&self.small_in).map(Some)
    }

    /// Does what there is to do, and rests if that is nothing.
    pub fn turn(&mut self, idle: &mut Idle) -> Result<()> {
        if self.poll()? {
            *idle = Idle::default();
            Ok(())
        } else {
            self.rest(idle)
        }
    }

    /// Waits for the next end of a receive of a numbered message.
    pub fn wait_numbered(&mut self) -> Result<Numbered> {
        self.wait(|node| !node.numbered.is_empty())?;
        self.numbered.pop_front().context("a message was waited for")
    }

    /// Waits until every send has ended.
    pub fn wait_sends(&mut self) -> Result<()> {
        let left = |context: &Context<Reader>| context.machine().endpoint.pending().sends;
        self.wait(|node| node.access.look(left) == 0)
    }

    /// Lets messages arrive for a while and wants none.
    pub fn look_on(&mut self, span: Duration) -> Result<()> {
        let until = Instant::now() + span;
        while Instant::now() < until {
            self.poll_or_yield()?;
        }
        Ok(())
    }

    /// The bound on what the endpoint keeps of messages not yet matched.
    pub fn unexpected_bytes_max(&self) -> u64 {
        let layout = self.access.look(|context| context.world().layout());
        Endpoint::unexpected_bytes_max(&layout)
    }

    /// What the endpoint has done and holds.
    pub fn stats(&self) -> Stats {
        self.access.look(|context| context.machine().endpoint.stats())
    }

    fn revoke_exposed(&mut self) {
        let key = std::mem::replace(&mut self.exposed, RemoteKey::NONE);
        if key.is_some() {
            let peer = self.peer;
            self.access.with(|context| context.world_mut().revoke(peer, key));
        }
    }

    fn wait_small(&mut self, channel: Channel, len: usize) -> Result<()> {
        let count = self.received[channel as usize] + 1;
        let buf = region(&mut self.small_in[..len]);
        self.post(&self.recv_of(channel, buf))?;
        self.wait(|node| node.received[channel as usize] >= count)
    }

    fn send_small(&mut self, channel: Channel, len: usize) -> Result<()> {
        let count = self.sent + 1;
        let buf = region(&mut self.small_out[..len]);
        self.send(&self.send_of(channel, buf, true))?;
        self.wait_sends_ended(count)
    }

    #[inline]
    fn recv_of(&self, channel: Channel, buf: Region) -> Recv {
        Recv {
            space: Space::Tagged,
            source: Some(self.peer),
            buf,
            tag: channel as u64,
            ignore: 0,
            context: channel as u64,
            report: true,
        }
    }

    #[inline]
    fn post(&mut self, recv: &Recv) -> Result<()> {
        self.look_first(recv.buf.len);
        loop {
            match self.access.with(|context| recv_with(context, recv)) {
                Ok(()) => return Ok(()),
                Err(Refused::Again) => self.poll_or_yield()?,
                Err(refused) => bail!("a receive was refused: {refused}"),
            }
        }
    }

    #[inline]
    fn send_of(&self, channel: Channel, buf: Region, report: bool) -> Send {
        Send {
            space: Space::Tagged,
            peer: self.peer,
            buf,
            tag: channel as u64,
            data: None,
            context: channel as u64,
            report,
            inject: false,
            delivery: false,
        }
    }

    #[inline]
    fn send(&mut self, send: &Send) -> Result<()> {
        self.look_first(send.buf.len);
        match self.access.with(|context| send_with(context, send)) {
            Ok(()) => Ok(()),
            Err(refused) => self.send_again(send, refused),
        }
    }

    /// Apart from the first try, which would else compute beforehand what all tries
    /// have in common: 100 instructions that the provider does not spend.
    #[cold]
    #[inline(never)]
    fn send_again(&mut self, send: &Send, mut refused: Refused) -> Result<()> {
        while refused == Refused::Again {
            self.poll_or_yield()?;
            match self.access.with(|context| send_with(context, send)) {
                Ok(()) => return Ok(()),
                Err(why) => refused = why,
            }
        }
        bail!("a send was refused: {refused}")
    }

    /// Takes in what has arrived, if that matters to a request of this length.
    #[inline]
    fn look_first(&mut self, len: u64) {
        self.access.with(|context| {
            if context.machine().endpoint.should_poll_first(len) {
                context.take_in();
            }
        });
    }

    fn poll_or_yield(&mut self) -> Result<()> {
        if !self.poll()? {
            rustix::thread::sched_yield();
        }
        Ok(())
    }

    /// Waits until `done`. Ends with an error if the other process does, or if
    /// nothing happens for too long.
    #[inline]
    fn wait(&mut self, done: impl Fn(&Node<A>) -> bool) -> Result<()> {
        let mut idle = Idle::default();
        while !done(self) {
            if self.poll()? {
                idle = Idle::default();
            } else {
                self.rest(&mut idle)?;
            }
        }
        Ok(())
    }

    /// After a poll without anything: gives the core away if it is shared, and
    /// looks now and then whether the other process is there.
    #[inline]
    pub fn rest(&mut self, idle: &mut Idle) -> Result<()> {
        idle.polls += 1;
        if self.yields {
            rustix::thread::sched_yield();
        }
        if idle.polls.is_multiple_of(POLLS_PER_LOOK) {
            self.look(&mut idle.since)?;
        }
        Ok(())
    }

    #[cold]
    fn look(&mut self, idle_since: &mut Option<Instant>) -> Result<()> {
        // Whoever else wants this core gets it now and then.
        rustix::thread::sched_yield();
        self.other.check()?;
        let since = *idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE {
            bail!("nothing has happened for {} seconds; giving up", PATIENCE.as_secs());
        }
        Ok(())
    }

    /// Lets the endpoint do what there is to do. Whether there was anything.
    #[inline]
    fn poll(&mut self) -> Result<bool> {
        let mut any = self.access.with(Context::poll) > 0;
        let pop = |context: &mut Context<Reader>| context.machine_mut().endpoint.pop();
        while let Some(completion) = self.access.with(pop) {
            any = true;
            self.note(&completion);
        }
        if self.failure.is_some() { self.fail() } else { Ok(any) }
    }

    #[inline]
    fn note(&mut self, completion: &Completion) {
        if let Err(failure) = &completion.outcome {
            self.failure = Some(failure.to_string());
            return;
        }
        match completion.kind {
            Kind::Recv if completion.context >= NUMBERED => {
                let number = completion.context - NUMBERED;
                let Completion { len, data, .. } = *completion;
                self.numbered.push_back(Numbered { number, len, data });
            }
            Kind::Recv => {
                if let Some(count) = self.received.get_mut(completion.context as usize) {
                    *count += 1;
                }
            }
            Kind::Send => self.sent += 1,
            Kind::Probe => {}
        }
    }

    /// The end of the other process explains most failures; it is looked for
    /// first, with a little time for its end to be known.
    #[cold]
    fn fail(&mut self) -> Result<bool> {
        let failure = self.failure.take().unwrap_or_default();
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            self.other.check().context("a message was lost with it")?;
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("a message failed: {failure}")
    }
}

impl<A: Access> Drop for Node<A> {
    fn drop(&mut self) {
        self.revoke_exposed();
    }
}

#[inline(always)]
fn recv_with(context: &mut Context<Reader>, recv: &Recv) -> Result<(), Refused> {
    let (now, Reader { endpoint, .. }, port) = context.parts();
    endpoint.recv(now, port, recv)
}

#[inline(always)]
fn send_with(context: &mut Context<Reader>, send: &Send) -> Result<(), Refused> {
    let (now, Reader { endpoint, .. }, port) = context.parts();
    endpoint.send(now, port, send)
}

/// The bytes of a buffer as the endpoint names them. They are exposed: the
/// rail reads and writes them by address.
#[inline]
fn region(buf: &mut [u8]) -> Region {
    Region { addr: Addr(buf.as_mut_ptr().expose_provenance() as u64), len: buf.len() as u64 }
}
