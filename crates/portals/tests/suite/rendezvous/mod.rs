//! The offloaded rendezvous (`docs/offload.md`) as a Portals program: processes
//! that send and receive messages as MPI does, with what the engine offers and
//! nothing else. Every call of the engine is counted, so that a test can say
//! that a process made none.
//!
//! A message of up to [`Job::eager_bytes`] is one put. A longer one is an entry
//! at the sender and a put of one byte more than that; so many bytes set off the
//! get that its receive has prepared, which meets the entry.

#![allow(dead_code, reason = "each test program uses its part of it")]

use crate::codes::{TAGS, WILDCARD};
use crate::matcher::Wanted;
use crate::pair::net::{Event as NetEvent, Mode, POISON};
use crate::pair::{PT, Pair, Side, program_limits};
use sluice_link::{Layout, LocalMemory};
use sluice_portals::{
    Command, Ct, Event, EventKind, Handle, List, Local, MdOptions, Me, MeOptions, MeSpec, NiFail,
    PtOptions, SearchOp, Target, Vector,
};
use sluice_wire::{MatchBits, PeerId, PtIndex, Region};

/// Where puts go; [`PT`] has the queue that tells of them.
pub const MESSAGES: PtIndex = PT;
/// Where gets go. It needs no queue: counters tell the sender all.
pub const DATA: PtIndex = PtIndex(5);
/// Eager messages of a job, unless a test wants others: with one byte more a put
/// still travels with its header.
pub const EAGER_BYTES: u64 = 63;
/// The communicator: what is left of the match bits.
const COMMUNICATOR: u64 = 0x0C0_FFEE << 36;
/// Memory for the first bytes of messages that nobody waits for.
const OVERFLOW_BYTES: usize = 1 << 17;
/// The user pointer of a search that is no receive.
const PROBE: u64 = u64::MAX;

pub struct Job {
    pub pair: Pair,
    pub eager_bytes: u64,
    pub sends: Vec<Sending>,
    pub receives: Vec<Receiving>,
    /// Calls of each process.
    pub calls: Vec<u64>,
    /// What the last look among early messages found.
    probed: Option<Header>,
}

#[derive(Debug)]
pub struct Sending {
    pub from: usize,
    pub to: usize,
    pub tag: u32,
    pub bytes: Vec<u8>,
    /// Counts the get of a long message.
    ct: Option<Handle<Ct>>,
}

#[derive(Debug)]
pub struct Receiving {
    pub who: usize,
    pub wanted: Wanted,
    pub region: Region,
    ct: Option<Handle<Ct>>,
    me: Option<Handle<Me>>,
    header: Option<Header>,
    /// What the get has brought.
    reply: Option<Result<u64, NiFail>>,
    /// Told, or taken back.
    is_over: bool,
}

/// What a receiver learns from the put.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub source: usize,
    pub tag: u32,
    pub len: u64,
}

/// A message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub source: usize,
    pub tag: u32,
    /// Of the message, though less may have fitted.
    pub len: u64,
    pub bytes: Vec<u8>,
}

impl Job {
    pub fn new(processes: usize) -> Job {
        let layouts = vec![crate::pair::net::roomy(); processes];
        Job::with(&layouts, Mode::default(), EAGER_BYTES)
    }

    pub fn with(layouts: &[Layout], mode: Mode, eager_bytes: u64) -> Job {
        let options = MdOptions { event_send_disable: true, ..MdOptions::default() };
        let mut pair = Pair::with_limits(layouts, mode, options, program_limits());
        for side in &mut pair.sides {
            side.ni.pt_alloc(DATA, PtOptions::default(), None).unwrap();
            let overflow = MeSpec {
                region: side.port.alloc(&vec![POISON; OVERFLOW_BYTES]),
                ignore_bits: u64::MAX,
                // A put that did not fit whole would not be recognised as long.
                min_free: eager_bytes + 1,
                options: MeOptions {
                    op_put: true,
                    manage_local: true,
                    event_comm_disable: true,
                    ..silent()
                },
                ..MeSpec::default()
            };
            side.ni.me_append(&mut side.port, MESSAGES, List::Overflow, overflow).unwrap();
        }
        let calls = vec![0; layouts.len()];
        Job { pair, eager_bytes, sends: Vec::new(), receives: Vec::new(), calls, probed: None }
    }

    /// Sends a message, and returns its name.
    pub fn send(&mut self, from: usize, to: usize, tag: u32, bytes: &[u8]) -> usize {
        self.calls[from] += 1;
        let id = self.sends.len();
        let Side { ni, port, md, .. } = &mut self.pair.sides[from];
        let data = port.alloc(bytes);
        let is_long = data.len > self.eager_bytes;
        let ct = is_long.then(|| ni.ct_alloc().unwrap());
        if is_long {
            // Before the put: whoever has heard of the message finds its data.
            let entry = MeSpec {
                region: data,
                match_bits: MatchBits(COMMUNICATOR | word(Some(tag))),
                ignore_bits: word(Some(tag)),
                source: Some(PeerId(to as u32)),
                options: MeOptions {
                    op_get: true,
                    use_once: true,
                    ct_comm: true,
                    event_comm_disable: true,
                    ..silent()
                },
                ct,
                ..MeSpec::default()
            };
            ni.me_append(port, DATA, List::Priority, entry).unwrap();
        }
        let first = data.len.min(self.eager_bytes + 1);
        let put = Command::Put {
            from: Local { md: *md, offset: data.addr.0, length: first },
            ack: None,
            target: target(to, MESSAGES, word(Some(tag)), 0),
            hdr_data: data.len,
            user_ptr: 0,
        };
        ni.issue(port, &put).unwrap();
        ni.check_invariants();
        self.sends.push(Sending { from, to, tag, bytes: bytes.to_vec(), ct });
        id
    }

    /// Whether the memory of a message is the sender's again.
    pub fn is_sent(&mut self, send: usize) -> bool {
        let Sending { from, ct, .. } = self.sends[send];
        self.calls[from] += 1;
        let counted = ct.and_then(|ct| self.pair.sides[from].ni.ct(ct));
        counted.is_none_or(|count| count.success == 1)
    }

    /// Posts a receive for so many bytes, and returns its name. All that it ever
    /// asks of the engine is asked here.
    pub fn receive(&mut self, who: usize, wanted: Wanted, len: u64) -> usize {
        let id = self.prepare(who, wanted, len);
        // Before the entry: that may find its message at once.
        self.arm(id);
        self.append(id);
        id
    }

    /// Prepares the get of a receive.
    pub fn arm(&mut self, receive: usize) {
        let first = self.eager_bytes + 1;
        let Receiving { who, wanted, region, ct, .. } = self.receives[receive];
        let Side { ni, port, md, .. } = &mut self.pair.sides[who];
        let rest = region.len.saturating_sub(first);
        let into = Local { md: *md, offset: region.addr.0 + (region.len - rest), length: rest };
        let user_ptr = receive as u64;
        let get = match wanted.source {
            Some(source) => {
                let target = target(source, DATA, word(wanted.tag), first);
                Command::Get { into, target, user_ptr }
            }
            // The extension: the message says whom to ask, and for what.
            None => Command::GetFromHeader { into, pt_index: DATA, remote_offset: first, user_ptr },
        };
        ni.trigger(port, get, ct.expect("a receive has a counter"), first).unwrap();
        ni.check_invariants();
    }

    /// Appends the entry of a receive.
    pub fn append(&mut self, receive: usize) {
        let first = self.eager_bytes + 1;
        let Receiving { who, wanted, region, ct, .. } = self.receives[receive];
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        let mut entry = entry(receive, wanted, region, ct);
        if region.len < first {
            // So that a long message is counted as one, also where it is cut.
            let spill = port.alloc(&vec![POISON; (first - region.len) as usize]);
            let pieces = [region, spill].into_iter().filter(|piece| piece.len > 0);
            let vector = Vector::new(pieces.collect()).unwrap();
            entry.vector = Some(ni.vector_bind(vector).unwrap());
            entry.region = Region { len: first, ..Region::EMPTY };
        }
        self.receives[receive].me = ni.me_append(port, MESSAGES, List::Priority, entry).unwrap();
        ni.check_invariants();
    }

    /// A receive without its get and its entry.
    pub fn prepare(&mut self, who: usize, wanted: Wanted, len: u64) -> usize {
        self.calls[who] += 1;
        let id = self.receives.len();
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        let region = port.alloc(&vec![0; len as usize]);
        let ct = Some(ni.ct_alloc().unwrap());
        let (me, header, reply, is_over) = (None, None, None, false);
        self.receives.push(Receiving { who, wanted, region, ct, me, header, reply, is_over });
        id
    }

    /// What a receive has got, once it is complete; told once.
    pub fn test(&mut self, receive: usize) -> Option<Received> {
        let who = self.receives[receive].who;
        self.take_events(who);
        let receiving = &mut self.receives[receive];
        let Header { source, tag, len } = receiving.header?;
        let is_long = len > self.eager_bytes;
        if receiving.is_over || is_long && receiving.reply.is_none() {
            return None;
        }
        receiving.is_over = true;
        let region = receiving.region.truncated(len);
        if is_long {
            let rest = region.len.saturating_sub(self.eager_bytes + 1);
            assert_eq!(receiving.reply, Some(Ok(rest)), "the get brings what is left");
        }
        // A get that nothing has set off goes with its counter.
        if let Some(ct) = receiving.ct {
            assert!(self.pair.sides[who].ni.ct_free(ct));
        }
        Some(Received { source, tag, len, bytes: self.pair.bytes(who, region) })
    }

    /// Takes a receive back. False if it has got a message.
    pub fn cancel(&mut self, receive: usize) -> bool {
        let Receiving { who, me, ct, .. } = self.receives[receive];
        self.calls[who] += 1;
        let ni = &mut self.pair.sides[who].ni;
        // The entry first. What it has got must be fetched.
        let is_unlinked = me.is_some_and(|me| ni.me_unlink(me).is_ok());
        if is_unlinked {
            assert!(ct.is_some_and(|ct| ni.ct_free(ct)));
            self.receives[receive].is_over = true;
        }
        is_unlinked
    }

    /// The wrong half of that alone.
    pub fn cancel_get_only(&mut self, receive: usize) {
        let Receiving { who, ct, .. } = self.receives[receive];
        self.calls[who] += 1;
        let ct = ct.expect("a receive has a counter");
        self.pair.sides[who].ni.ct_cancel_triggered(ct).unwrap();
    }

    /// Looks for a message that has arrived.
    pub fn probe(&mut self, who: usize, wanted: Wanted) -> Option<Header> {
        self.search(who, wanted, SearchOp::Only, PROBE);
        self.probed.take()
    }

    /// Takes a message that has arrived, and fetches it then and there.
    pub fn matched_probe(&mut self, who: usize, wanted: Wanted) -> Option<usize> {
        let id = self.matched_probe_only(who, wanted)?;
        self.fetch(id);
        Some(id)
    }

    /// The first half of that.
    pub fn matched_probe_only(&mut self, who: usize, wanted: Wanted) -> Option<usize> {
        let early = self.probe(who, wanted)?;
        let id = self.prepare(who, wanted, early.len);
        self.search(who, wanted, SearchOp::Delete, id as u64);
        assert_eq!(self.receives[id].header.map(|header| header.len), Some(early.len));
        Some(id)
    }

    /// The second: a get from the source and with the tag that it turned out to
    /// have.
    pub fn fetch(&mut self, receive: usize) {
        let Receiving { who, region, header, .. } = self.receives[receive];
        self.calls[who] += 1;
        let Header { source, tag, len } = header.expect("it was taken");
        let first = self.eager_bytes + 1;
        if len < first {
            return;
        }
        let Side { ni, port, md, .. } = &mut self.pair.sides[who];
        let into = Local { md: *md, offset: region.addr.0 + first, length: len - first };
        let target = target(source, DATA, word(Some(tag)), first);
        ni.issue(port, &Command::Get { into, target, user_ptr: receive as u64 }).unwrap();
    }

    fn search(&mut self, who: usize, wanted: Wanted, op: SearchOp, user_ptr: u64) {
        self.calls[who] += 1;
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        let spec = entry(0, wanted, Region::EMPTY, None);
        ni.me_search(port, MESSAGES, op, &MeSpec { user_ptr, ..spec }).unwrap();
        self.take_events(who);
    }

    fn take_events(&mut self, who: usize) {
        self.calls[who] += 1;
        for event in self.pair.events(who) {
            match event.kind {
                EventKind::Search => {
                    self.probed = event.outcome.is_ok().then(|| Header::of(&event));
                }
                EventKind::Reply => {
                    let receiving = &mut self.receives[event.user_ptr as usize];
                    let reply = event.outcome.map(|()| event.mlength);
                    assert!(receiving.reply.replace(reply).is_none(), "{event:?}");
                }
                EventKind::Put | EventKind::PutOverflow => self.got(who, &event),
                _ => panic!("nobody has asked for {event:?}"),
            }
        }
    }

    /// A receive has got its message, or the first bytes of it.
    fn got(&mut self, who: usize, event: &Event) {
        let receiving = &mut self.receives[event.user_ptr as usize];
        assert_eq!(event.outcome, Ok(()));
        let header = Header::of(event);
        assert!(receiving.header.replace(header).is_none(), "{event:?}");
        let first = event.mlength.min(receiving.region.len);
        if event.kind == EventKind::PutOverflow && first > 0 {
            self.pair.sides[who].port.copy(event.start, receiving.region.addr, first);
        }
    }

    /// One thing happens in the network, and the engines deal with it.
    pub fn happen(&mut self, event: NetEvent) {
        self.pair.happen(event);
    }

    /// Everything that is on its way arrives.
    pub fn settle(&mut self) {
        self.pair.settle();
    }

    /// What the memory of a receive holds, as the process sees it by itself.
    pub fn memory(&self, receive: usize) -> Vec<u8> {
        let Receiving { who, region, .. } = self.receives[receive];
        self.pair.bytes(who, region)
    }

    /// Entries of long messages that nobody has fetched yet.
    pub fn unfetched(&mut self) -> Vec<usize> {
        let sends = (0..self.sends.len()).collect::<Vec<_>>();
        sends.into_iter().filter(|&send| !self.is_sent(send)).collect()
    }
}

impl Header {
    fn of(event: &Event) -> Header {
        let word = event.match_bits.0 & ((1 << TAGS.bits) - 1);
        let tag = TAGS.tag(word).expect("a sender puts a tag");
        Header { source: event.peer.index(), tag: tag as u32, len: event.hdr_data }
    }
}

/// The match bits of a tag; those of any are the wildcard.
pub fn word(tag: Option<u32>) -> u64 {
    tag.map_or(WILDCARD, |tag| TAGS.word(u64::from(tag)).expect("all tags have words"))
}

pub fn target(peer: usize, pt_index: PtIndex, word: u64, remote_offset: u64) -> Target {
    let match_bits = MatchBits(COMMUNICATOR | word);
    Target { peer: PeerId(peer as u32), pt_index, match_bits, remote_offset }
}

/// What takes a message at its receiver. Bytes are counted, early ones too.
pub fn entry(id: usize, wanted: Wanted, region: Region, ct: Option<Handle<Ct>>) -> MeSpec {
    MeSpec {
        region,
        match_bits: MatchBits(COMMUNICATOR | word(wanted.tag)),
        ignore_bits: if wanted.tag.is_none() { (1 << TAGS.bits) - 1 } else { 0 },
        source: wanted.source.map(|source| PeerId(source as u32)),
        options: MeOptions {
            op_put: true,
            use_once: true,
            ct_comm: ct.is_some(),
            ct_overflow: ct.is_some(),
            ct_bytes: true,
            ..silent()
        },
        ct,
        user_ptr: id as u64,
        ..MeSpec::default()
    }
}

/// Links and unlinks are not told.
fn silent() -> MeOptions {
    MeOptions { event_link_disable: true, event_unlink_disable: true, ..MeOptions::default() }
}
