//! One message over several rails in virtual time: `multirail` as it ships, at rates and
//! lengths that no machine at hand has.
//!
//! Two processes send a message to and fro. A short one goes eagerly, a longer one is
//! announced, and the receiver reads it over all rails. Both sides keep the peer that ships
//! ([`sluice_multirail::Peer`]), which numbers and acknowledges packets, and says which rail
//! takes what. There are no bytes, so a message of gigabytes costs as much as its chunks.
//!
//! A rail is a way in each direction with a rate and a latency. What is put on a way leaves
//! behind what was put there before. The bytes of a chunk come in pieces, as a socket or an
//! interface shows them. Nothing fails: for that there is the swarm.
//!
//! | room | what it holds |
//! |---|---|
//! | `config` | the rails, the message, and how it is divided |
//!
//! Invariant: a run is a function of its configuration.

mod config;

pub use config::{Config, Cut};

use crate::error::ConfigError;
use crate::queue::Queue;
use crate::rails::{Do, Todo};
use serde::{Deserialize, Serialize};
use sluice_multirail::{Arrival, ChunkId, Landing, Number, Peer, RailId, ReadId, Timing};
use sluice_wire::Nanos;

/// Bytes of a chunk that come at once.
const PIECE_BYTES: u64 = 64 << 10;
/// Of a frame without its body, and of what asks for a chunk, as on a TCP rail.
const HEADER_BYTES: u64 = 24;
const ASK_BYTES: u64 = 24;
/// Of a packet without a message.
const PACKET_BYTES: u64 = 64;
/// Events between two questions whether to go on.
const EVENTS_BETWEEN_TICKS: u64 = 1 << 10;
const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// What a run has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Of a message.
    pub message_bytes: u64,
    /// What all rails together carry in one direction, in megabits per second.
    pub rails_mbit_per_s: u64,
    /// Messages that count.
    pub messages: u32,
    /// From the sender's call until the receiver has the message, the sum of them.
    pub time_ns: u64,
    /// Parts that the last message was read in.
    pub chunks: u64,
    /// Those on the rail that had most of them.
    pub rail_chunks_max: u64,
    /// Bytes of it on the rail that had most.
    pub rail_bytes_max: u64,
    /// Simulated events.
    pub events: u64,
}

/// Runs a configuration. `None`: `go_on` did not want to.
///
/// # Errors
/// The key at fault.
pub fn run(
    config: &Config,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Outcome>, ConfigError> {
    config.check()?;
    Ok(Stripes::new(config).run(go_on))
}

#[derive(Clone, Copy, Debug)]
enum Body {
    /// A packet of the stream.
    Packet(Number, Packet),
    /// A chunk is wanted.
    Ask(ChunkId, u64),
    /// So many bytes of a chunk.
    Piece(ChunkId, u64),
    /// An acknowledgement alone.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
enum Packet {
    /// A message, or word of one.
    Message,
    Announcement,
    /// The answer to it: the receiver has all.
    Answer,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A message begins.
    Begin,
    Arrival {
        to: usize,
        rail: RailId,
        acknowledged: Number,
        body: Body,
    },
    /// The receiver's program has the message.
    Received,
    /// A deadline of a side.
    Wake {
        side: usize,
    },
}

#[derive(Debug)]
struct Side {
    peer: Peer,
    todo: Todo,
    wakes_at: Option<u64>,
    /// By rail: when all that it was given has left.
    free_at_ns: Vec<u64>,
}

#[derive(Debug)]
struct Stripes<'c> {
    config: &'c Config,
    now_ns: u64,
    queue: Queue<Event>,
    sides: [Side; 2],
    /// Messages begun, and when the last one was.
    begun: u32,
    began_ns: u64,
    /// Of this message, by rail: parts, and their bytes.
    parts: Vec<(u64, u64)>,
    outcome: Outcome,
    is_over: bool,
}

impl<'c> Stripes<'c> {
    fn new(config: &'c Config) -> Stripes<'c> {
        let specs = config.specs();
        let side = || Side {
            peer: Peer::new(&specs, Timing::default(), config.striping(), Nanos(0)),
            todo: Todo::default(),
            wakes_at: None,
            free_at_ns: vec![0; specs.len()],
        };
        let mut queue = Queue::new();
        queue.add(0, Event::Begin);
        let rails_mbit_per_s = config.gbit_per_s.iter().map(|gbit| u64::from(*gbit) * 1000).sum();
        let outcome = Outcome {
            message_bytes: config.bytes,
            rails_mbit_per_s,
            messages: config.repetitions,
            ..Outcome::default()
        };
        Stripes {
            config,
            now_ns: 0,
            queue,
            sides: [side(), side()],
            begun: 0,
            began_ns: 0,
            parts: vec![(0, 0); specs.len()],
            outcome,
            is_over: false,
        }
    }

    fn run(mut self, go_on: &mut dyn FnMut() -> bool) -> Option<Outcome> {
        let rails = self.config.gbit_per_s.len() as u8;
        for side in [SENDER, RECEIVER] {
            // What opens is open: connections are no part of this.
            self.call(side, |peer, now, todo| {
                peer.advance(now, todo);
                let is_wanted = (0..rails).all(|rail| peer.opened(now, todo, RailId(rail)));
                assert!(is_wanted, "each rail opens once");
            });
        }
        while !self.is_over {
            let (now_ns, event) = self.queue.take().expect("a message is on its way");
            self.now_ns = now_ns;
            self.outcome.events += 1;
            if self.outcome.events.is_multiple_of(EVENTS_BETWEEN_TICKS) && !go_on() {
                return None;
            }
            self.happen(event);
        }
        self.outcome.chunks = self.parts.iter().map(|(count, _)| count).sum();
        self.outcome.rail_chunks_max = self.parts.iter().map(|(count, _)| *count).max()?;
        self.outcome.rail_bytes_max = self.parts.iter().map(|(_, bytes)| *bytes).max()?;
        Some(self.outcome)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Begin => self.begin(),
            Event::Received => self.received(),
            Event::Wake { side } => {
                if self.sides[side].wakes_at == Some(self.now_ns) {
                    self.sides[side].wakes_at = None;
                    self.call(side, |peer, now, todo| peer.advance(now, todo));
                }
            }
            Event::Arrival { to, rail, acknowledged, body } => {
                self.call(to, |peer, now, todo| {
                    peer.heard(now, todo, rail, acknowledged).expect("what was sent");
                });
                self.arrive(to, rail, body);
            }
        }
    }

    /// The sender's program sends the next message.
    fn begin(&mut self) {
        self.begun += 1;
        self.began_ns = self.now_ns;
        self.parts.fill((0, 0));
        let is_eager = self.config.bytes <= self.config.eager_bytes_max;
        let packet = if is_eager { Packet::Message } else { Packet::Announcement };
        self.send(SENDER, packet, self.config.message_ns);
    }

    /// The receiver's program has it, and the other way takes as long.
    fn received(&mut self) {
        let took_ns = self.now_ns - self.began_ns;
        if self.begun > self.config.warm_up {
            self.outcome.time_ns += took_ns;
        }
        self.is_over = self.begun == self.config.warm_up + self.config.repetitions;
        self.send(RECEIVER, Packet::Answer, 0);
        self.queue.add(self.now_ns + took_ns.max(2 * self.config.latency_ns), Event::Begin);
    }

    fn arrive(&mut self, who: usize, rail: RailId, body: Body) {
        let received_ns = self.now_ns + self.config.message_ns;
        match body {
            Body::Packet(number, packet) => {
                let arrival = self.sides[who].peer.receive(number).expect("in order");
                assert_eq!(arrival, Arrival::New, "nothing is sent twice");
                match packet {
                    Packet::Message => self.queue.add(received_ns, Event::Received),
                    Packet::Announcement => {
                        let (id, len) = (ReadId(u64::from(self.begun)), self.config.bytes);
                        self.call(who, |peer, now, todo| peer.read(now, todo, id, len));
                    }
                    Packet::Answer => self.put(who, rail, Body::Nothing, 0),
                }
            }
            Body::Ask(chunk, len) => self.serve(who, rail, chunk, len),
            Body::Nothing => {}
            Body::Piece(chunk, len) => {
                let landing = self.sides[who].peer.landing(rail, chunk);
                if landing == Landing::Nowhere {
                    return;
                }
                let mut ended = None;
                self.call(who, |peer, now, todo| {
                    ended = peer.arrived(now, todo, rail, chunk, len);
                });
                if ended.is_some() {
                    self.queue.add(received_ns, Event::Received);
                }
            }
        }
    }

    /// An interface sends a chunk: the bytes of all its pieces leave one behind the other.
    fn serve(&mut self, who: usize, rail: RailId, chunk: ChunkId, len: u64) {
        let (count, bytes) = &mut self.parts[rail.index()];
        (*count, *bytes) = (*count + 1, *bytes + len);
        let mut left = len;
        while left > 0 {
            let piece = left.min(PIECE_BYTES);
            let begins_ns = if left == len { self.config.chunk_ns } else { 0 };
            left -= piece;
            self.put(who, rail, Body::Piece(chunk, piece), begins_ns);
        }
    }

    /// A packet goes by the rail that the stream is on, `after_ns` from now.
    fn send(&mut self, who: usize, packet: Packet, after_ns: u64) {
        let (number, rail) = self.sides[who].peer.send(Nanos(self.now_ns));
        let rail = rail.expect("rails are open");
        self.put(who, rail, Body::Packet(number, packet), after_ns);
    }

    /// Puts a frame on a rail. Its first byte leaves in `begins_ns` at the earliest; what is
    /// there before goes on meanwhile.
    fn put(&mut self, who: usize, rail: RailId, body: Body, begins_ns: u64) {
        let bytes = HEADER_BYTES
            + match body {
                Body::Packet(_, Packet::Message) => PACKET_BYTES + self.config.bytes,
                Body::Packet(..) => PACKET_BYTES,
                Body::Ask(..) => ASK_BYTES,
                Body::Piece(_, bytes) => bytes,
                Body::Nothing => 0,
            };
        let mbit_per_s = u64::from(self.config.gbit_per_s[rail.index()]) * 1_000;
        let side = &mut self.sides[who];
        let free_at_ns = &mut side.free_at_ns[rail.index()];
        let from_ns = (*free_at_ns).max(self.now_ns + begins_ns);
        *free_at_ns = from_ns + (bytes * 8_000).div_ceil(mbit_per_s);
        let (at, acknowledged) = (*free_at_ns + self.config.latency_ns, side.peer.tell());
        self.queue.add(at, Event::Arrival { to: 1 - who, rail, acknowledged, body });
    }

    /// Calls a side's machine, and does what it wants done.
    fn call(&mut self, who: usize, call: impl FnOnce(&mut Peer, Nanos, &mut Todo)) {
        let side = &mut self.sides[who];
        call(&mut side.peer, Nanos(self.now_ns), &mut side.todo);
        while let Some(what) = self.sides[who].todo.0.pop_front() {
            match what {
                Do::Ask(ask) => self.put(who, ask.rail, Body::Ask(ask.chunk, ask.len), 0),
                Do::Open(_) | Do::Resume(..) | Do::Release(_) => {}
                Do::Probe(_) | Do::Close(_) | Do::Gone => {
                    unreachable!("rails that always answer are never given up: {what:?}")
                }
            }
        }
        let side = &mut self.sides[who];
        let due = side.peer.deadline(Nanos(self.now_ns)).map(|due| due.0.max(self.now_ns + 1));
        if let Some(due) = due
            && side.wakes_at.is_none_or(|wakes_at| due < wakes_at)
        {
            side.wakes_at = Some(due);
            self.queue.add(due, Event::Wake { side: who });
        }
    }
}

#[cfg(test)]
mod tests;
