//! A naive model of Portals: lists that are vectors, memory that is bytes, and
//! for each operation what its two sides are still to be told. It follows the
//! requests in the order in which they reach their target, which is the only
//! thing that it is told of the network.

#![allow(dead_code, reason = "each test program uses its part of it")]

use crate::pair::net::random::Random;
use sluice_portals::{Event, EventKind, Handle, List, Me, MeOptions, NiFail, PtOptions, SearchOp};
use sluice_wire::{AckKind, AtomicOp, Packet, PeerId, PtIndex, Region};
use std::collections::VecDeque;

pub const PTS: [PtIndex; 2] = [super::pair::PT, PtIndex(5)];
/// User pointers of entries begin here; below are those of operations.
pub const ENTRIES: u64 = 1 << 32;
/// Every entry begins with bytes that nobody writes, then items for atomic
/// operations; then comes a place for each put, so that no two overlap.
pub const STATIC: u64 = 192;
pub const ITEMS: u64 = 64;

pub type Outcome = Result<(), NiFail>;

#[derive(Clone, Debug)]
pub struct Entry {
    pub who: usize,
    pub pt: usize,
    pub list: List,
    pub class: u64,
    pub ignore: u64,
    pub source: Option<u32>,
    pub min_free: u64,
    pub options: MeOptions,
    pub bytes: Vec<u8>,
    pub pieces: Vec<Region>,
    /// Bytes that an operation which failed may have changed.
    pub unknown: Vec<std::ops::Range<usize>>,
    pub local_offset: u64,
    pub linked: bool,
    pub auto_unlinked: bool,
    pub handle: Option<Handle<Me>>,
    /// Headers in it that have not been told as taken.
    pub headers: usize,
    pub moving: usize,
    pub freed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Put,
    Get,
    Atomic(AtomicOp),
    Fetch(AtomicOp),
}

#[derive(Clone, Debug)]
pub struct Op {
    pub kind: Kind,
    pub from: usize,
    pub to: usize,
    pub pt: usize,
    pub class: u64,
    pub len: u64,
    pub offset: u64,
    pub ack: Option<AckKind>,
    /// What it sends, operand included.
    pub sent: Vec<u8>,
    /// Where its answer goes.
    pub answer: Vec<Region>,
    /// It reached its target, and this came of it.
    pub verdict: Option<(Outcome, u64)>,
    pub entry: Option<usize>,
    pub landed: u64,
    pub reply: Vec<u8>,
    pub send_due: bool,
    pub ack_due: bool,
    pub reply_due: bool,
    pub comm_due: bool,
    /// The entry that has taken its header, until that is told.
    pub over_due: Option<u64>,
    /// That entry, if it is linked and the header's data was still moving.
    pub claimer: Option<usize>,
    /// How it ended at the target.
    pub done: Option<Outcome>,
}

#[derive(Clone, Debug, Default)]
pub struct Pt {
    pub options: PtOptions,
    pub disabled: bool,
    pub event_owed: bool,
    pub priority: Vec<usize>,
    pub overflow: Vec<usize>,
    pub unexpected: Vec<usize>,
}

#[derive(Debug)]
pub struct Model {
    pub pts: Vec<[Pt; 2]>,
    pub entries: Vec<Entry>,
    pub ops: Vec<Op>,
    /// Operations in order of issue, for each pair of processes.
    pub on_the_way: Vec<Vec<VecDeque<usize>>>,
    pub headers_max: usize,
    /// Headers of each process that are kept.
    pub headers: Vec<usize>,
    pub links_due: Vec<u64>,
    pub unlinks_due: Vec<u64>,
    pub searches_due: Vec<(u64, Option<usize>)>,
    pub dead: Option<usize>,
    pub pull: u64,
    pub claimed_arriving: usize,
}

impl Entry {
    fn accepts(&self, class: u64, from: usize) -> bool {
        (self.class ^ class) & !self.ignore & 0xFF == 0
            && self.source.is_none_or(|source| source == from as u32)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn place(&self, remote: u64, rlength: u64) -> (u64, u64) {
        let at = if self.options.manage_local { self.local_offset } else { remote };
        let at = at.min(self.len());
        (at, rlength.min(self.len() - at))
    }

    fn user_ptr(id: usize) -> u64 {
        ENTRIES + id as u64
    }
}

impl Model {
    pub fn new(processes: usize, headers_max: usize) -> Model {
        let pts = || {
            let flow = PtOptions { flow_control: true, ..PtOptions::default() };
            [Pt::default(), Pt { options: flow, ..Pt::default() }]
        };
        Model {
            pts: (0..processes).map(|_| pts()).collect(),
            entries: Vec::new(),
            ops: Vec::new(),
            on_the_way: vec![vec![VecDeque::new(); processes]; processes],
            headers_max,
            headers: vec![0; processes],
            links_due: Vec::new(),
            unlinks_due: Vec::new(),
            searches_due: Vec::new(),
            dead: None,
            pull: 0,
            claimed_arriving: 0,
        }
    }

    fn concerns_dead(&self, op: &Op) -> bool {
        self.dead.is_some_and(|dead| op.from == dead || op.to == dead)
    }

    /// An operation goes to its interface.
    pub fn issued(&mut self, id: usize) {
        let op = &mut self.ops[id];
        op.send_due = op.kind != Kind::Get;
        op.ack_due = op.ack == Some(AckKind::Full);
        op.reply_due = matches!(op.kind, Kind::Get | Kind::Fetch(_));
        self.on_the_way[op.from][op.to].push_back(id);
    }

    /// A packet reaches its target.
    pub fn arrives(&mut self, from: usize, to: usize, packet: &Packet) {
        let bits = match packet {
            Packet::Put(put) => put.match_bits,
            Packet::Get(get) => get.match_bits,
            Packet::Atomic(atomic) => atomic.match_bits,
            Packet::Pull(_) => {
                self.pull += 1;
                return;
            }
            _ => return,
        };
        let id = (bits.0 >> 16) as usize;
        let front = self.on_the_way[from][to].pop_front();
        assert_eq!(front, Some(id), "operations from {from} to {to} keep their order");
        let verdict = self.admit(id);
        self.ops[id].verdict = Some(match verdict {
            Ok(entry) => (Ok(()), self.take(id, entry)),
            Err(why) => (Err(why), 0),
        });
    }

    fn admit(&mut self, id: usize) -> Result<usize, NiFail> {
        let Op { from, to, class, len, offset, kind, pt: at, .. } = self.ops[id];
        let pt = &mut self.pts[to][at];
        if pt.disabled {
            return Err(NiFail::PtDisabled);
        }
        let entries = &self.entries;
        let fits = |&entry: &usize| {
            let entry = &entries[entry];
            entry.accepts(class, from)
                && (!entry.options.no_truncate || entry.place(offset, len).1 == len)
        };
        let found = pt.priority.iter().copied().find(fits);
        let found = found.or_else(|| pt.overflow.iter().copied().find(fits));
        let full = self.headers[to] >= self.headers_max;
        let refused = match found.map(|entry| (entry, &entries[entry])) {
            None => true,
            Some((_, Entry { options, list, .. })) => {
                let allowed = match kind {
                    Kind::Put | Kind::Atomic(_) => options.op_put,
                    Kind::Get => options.op_get,
                    Kind::Fetch(_) => options.op_put && options.op_get,
                };
                if !allowed {
                    return Err(NiFail::OpViolation);
                }
                full && *list == List::Overflow && !options.unexpected_hdr_disable
            }
        };
        if !refused {
            return Ok(found.expect("not refused"));
        }
        if !pt.options.flow_control {
            return Err(NiFail::NoMatch);
        }
        (pt.disabled, pt.event_owed) = (true, true);
        Err(NiFail::PtDisabled)
    }

    fn take(&mut self, id: usize, at: usize) -> u64 {
        let entry = &mut self.entries[at];
        let op = &mut self.ops[id];
        let (offset, fits) = entry.place(op.offset, op.len);
        let is_atomic = matches!(op.kind, Kind::Atomic(_) | Kind::Fetch(_));
        let mlength = if is_atomic { fits - fits % 8 } else { fits };
        if entry.options.manage_local {
            entry.local_offset += mlength;
        }
        let left = entry.len().saturating_sub(entry.local_offset);
        let exhausted = entry.options.manage_local && left < entry.min_free;
        let range = offset as usize..(offset + mlength) as usize;
        (op.entry, op.landed, op.comm_due) = (Some(at), offset, true);
        op.reply = entry.bytes[range.clone()].to_vec();
        entry.moving += 1;
        match op.kind {
            Kind::Put => entry.bytes[range].copy_from_slice(&op.sent[..mlength as usize]),
            Kind::Get => {}
            Kind::Atomic(what) | Kind::Fetch(what) => {
                let (operand, values) = op.sent.split_at(if what.has_operand() { 8 } else { 0 });
                for (item, value) in
                    entry.bytes[range].chunks_exact_mut(8).zip(values.chunks_exact(8))
                {
                    combine(what, item, value, operand);
                }
            }
        }
        let (who, pt, list, options) = (entry.who, entry.pt, entry.list, entry.options);
        if list == List::Overflow && !options.unexpected_hdr_disable {
            entry.headers += 1;
            self.headers[who] += 1;
            self.pts[who][pt].unexpected.push(id);
        }
        if options.use_once || exhausted {
            self.unlinked(at);
            self.entries[at].auto_unlinked = true;
            self.unlinks_due.push(Entry::user_ptr(at));
        }
        mlength
    }

    /// An entry leaves its list.
    pub fn unlinked(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        entry.linked = false;
        let pt = &mut self.pts[entry.who][entry.pt];
        pt.priority.retain(|&linked| linked != at);
        pt.overflow.retain(|&linked| linked != at);
    }

    /// The headers that an entry finds, in order.
    fn next_header(&self, entry: &Entry, offset: u64, after: usize) -> Option<usize> {
        let headers = &self.pts[entry.who][entry.pt].unexpected;
        let fits = |&id: &usize| {
            let op = &self.ops[id];
            let from = if entry.options.manage_local { offset } else { op.offset };
            let room = entry.len().saturating_sub(from);
            let whole = !entry.options.no_truncate || op.len <= room;
            entry.accepts(op.class, op.from) && whole
        };
        headers.iter().skip(after).position(fits).map(|at| at + after)
    }

    fn claim(&mut self, entry: &Entry, at: usize, user_ptr: u64) {
        let id = self.pts[entry.who][entry.pt].unexpected.remove(at);
        self.ops[id].over_due = Some(user_ptr);
        if self.ops[id].done.is_some() {
            self.header_done(id);
        } else {
            self.claimed_arriving += 1;
        }
    }

    /// A header that an entry has taken is done with.
    fn header_done(&mut self, id: usize) {
        let entry = &mut self.entries[self.ops[id].entry.expect("it was taken")];
        entry.headers -= 1;
        self.headers[entry.who] -= 1;
    }

    /// Appends an entry; true if it is linked.
    pub fn append(&mut self, mut entry: Entry) -> (usize, bool) {
        let id = self.entries.len();
        let (who, at, user_ptr) = (entry.who, entry.pt, Entry::user_ptr(id));
        let mut used_up = false;
        let mut arriving = Vec::new();
        if entry.list == List::Priority {
            let mut offset = 0;
            while let (false, Some(header)) = (used_up, self.next_header(&entry, offset, 0)) {
                let managed = entry.options.manage_local;
                if managed && entry.options.inc_by_rlength {
                    offset += self.ops[self.pts[who][at].unexpected[header]].len;
                }
                let exhausted = managed && entry.len().saturating_sub(offset) < entry.min_free;
                used_up = entry.options.use_once || exhausted;
                let op = self.pts[who][at].unexpected[header];
                if self.ops[op].done.is_none() {
                    arriving.push(op);
                }
                self.claim(&entry, header, user_ptr);
            }
            entry.local_offset = offset;
        }
        entry.linked = !used_up;
        if used_up {
            self.unlinks_due.push(user_ptr);
        } else {
            let pt = &mut self.pts[who][at];
            match entry.list {
                List::Priority => pt.priority.push(id),
                List::Overflow => pt.overflow.push(id),
            }
            if !entry.options.event_link_disable {
                self.links_due.push(user_ptr);
            }
            entry.moving = arriving.len();
            for op in arriving {
                self.ops[op].claimer = Some(id);
            }
        }
        self.entries.push(entry);
        (id, !used_up)
    }

    pub fn search(&mut self, op: SearchOp, entry: &Entry, user_ptr: u64) {
        let (mut found, mut after) = (0, 0);
        while let Some(header) = self.next_header(entry, 0, after) {
            found += 1;
            match op {
                SearchOp::Only => {
                    let id = self.pts[entry.who][entry.pt].unexpected[header];
                    self.searches_due.push((user_ptr, Some(id)));
                    after = header + 1;
                }
                SearchOp::Delete => self.claim(entry, header, user_ptr),
            }
            if entry.options.use_once {
                break;
            }
        }
        if found == 0 {
            self.searches_due.push((user_ptr, None));
        }
    }

    /// An event of process `who`: it must be due, and say what the model says.
    pub fn event(&mut self, who: usize, event: &Event) {
        let id = (event.match_bits.0 >> 16) as usize;
        match event.kind {
            EventKind::Send | EventKind::Ack | EventKind::Reply => self.ended(who, event),
            EventKind::Put | EventKind::Get | EventKind::Atomic | EventKind::FetchAtomic => {
                let concerns_dead = self.concerns_dead(&self.ops[id]);
                let op = &mut self.ops[id];
                let entry = op.entry.expect("it was taken");
                assert!(std::mem::take(&mut op.comm_due), "told twice");
                assert_eq!((op.to, PTS[op.pt]), (who, event.pt_index));
                assert_eq!(event.user_ptr, Entry::user_ptr(entry));
                let verdict = op.verdict.expect("it arrived");
                assert_eq!((event.rlength, event.mlength), (op.len, verdict.1));
                assert_eq!(event.list, self.entries[entry].list);
                assert_eq!(event.peer, PeerId(op.from as u32));
                assert!(event.outcome.is_ok() || concerns_dead, "{event:?}");
                let landed = op.landed as usize..(op.landed + verdict.1) as usize;
                (op.done, self.entries[entry].moving) =
                    (Some(event.outcome), self.entries[entry].moving - 1);
                if event.outcome.is_err() {
                    self.entries[entry].unknown.push(landed);
                }
                if self.ops[id].over_due.is_some() {
                    self.header_done(id);
                }
                if let Some(claimer) = self.ops[id].claimer.take() {
                    self.entries[claimer].moving -= 1;
                }
            }
            EventKind::PutOverflow
            | EventKind::GetOverflow
            | EventKind::AtomicOverflow
            | EventKind::FetchAtomicOverflow => {
                let op = &mut self.ops[id];
                assert_eq!(op.over_due.take(), Some(event.user_ptr), "{event:?}");
                assert_eq!((op.to, Some(event.outcome)), (who, op.done));
                assert_eq!(event.mlength, op.verdict.expect("it arrived").1);
            }
            EventKind::Link => remove(&mut self.links_due, &event.user_ptr),
            EventKind::AutoUnlink => {
                remove(&mut self.unlinks_due, &event.user_ptr);
                let entry = &self.entries[(event.user_ptr - ENTRIES) as usize];
                assert_eq!(entry.moving, 0, "unlinked while data moves");
            }
            EventKind::AutoFree => {
                let entry = &mut self.entries[(event.user_ptr - ENTRIES) as usize];
                assert!(!std::mem::replace(&mut entry.freed, true), "freed twice");
                assert!(entry.auto_unlinked && entry.headers == 0 && entry.moving == 0);
                assert_eq!(entry.list, List::Overflow);
                assert!(!self.unlinks_due.contains(&event.user_ptr), "unlinked, then freed");
            }
            EventKind::Search => {
                let found = event.outcome.is_ok().then_some(id);
                remove(&mut self.searches_due, &(event.user_ptr, found));
            }
            EventKind::PtDisabled => {
                let at = PTS.iter().position(|&pt| pt == event.pt_index).expect("one of ours");
                assert!(std::mem::take(&mut self.pts[who][at].event_owed), "disabled twice");
                let under_way = |op: &Op| op.to == who && op.pt == at && op.comm_due;
                assert!(!self.ops.iter().any(under_way), "told before all is quiet");
            }
            EventKind::GetDone => panic!("nobody asks for it"),
        }
    }

    /// An event of an initiator.
    fn ended(&mut self, who: usize, event: &Event) {
        let id = event.user_ptr as usize;
        let concerns_dead = self.concerns_dead(&self.ops[id]);
        let op = &mut self.ops[id];
        assert_eq!(op.from, who);
        assert!(event.rlength == op.len && event.mlength <= op.len, "{event:?} of {op:?}");
        let due = match event.kind {
            EventKind::Send => &mut op.send_due,
            EventKind::Ack => &mut op.ack_due,
            _ => &mut op.reply_due,
        };
        assert!(std::mem::take(due), "told twice: {event:?} of {op:?}");
        if event.kind == EventKind::Ack {
            assert!(!op.send_due, "the memory is free before the acknowledgement");
        }
        if event.outcome.is_err() && concerns_dead {
            return;
        }
        if event.kind == EventKind::Send {
            assert_eq!((event.outcome, event.mlength), (Ok(()), op.len));
            return;
        }
        let verdict = op.verdict.expect("an answer to what arrived");
        assert_eq!((event.outcome, event.mlength), verdict, "{event:?} of {op:?}");
        assert_eq!(event.remote_offset, op.landed, "where it was done");
        let list = op.entry.map_or(List::Priority, |entry| self.entries[entry].list);
        assert_eq!(event.list, list, "{event:?} of {op:?}");
    }

    /// Everything was told.
    pub fn check_end(&self) {
        for op in &self.ops {
            let gone = |who: usize| self.dead == Some(who);
            let told = !op.send_due && !op.ack_due && !op.reply_due;
            assert!(told || gone(op.from), "the initiator was not told all: {op:?}");
            let told = !op.comm_due && op.over_due.is_none();
            assert!(told || gone(op.to), "the target was not told all: {op:?}");
        }
        let alive =
            |user_ptr: &u64| self.dead != Some(self.entries[(user_ptr - ENTRIES) as usize].who);
        assert!(!self.links_due.iter().any(alive), "link events");
        assert!(!self.unlinks_due.iter().any(alive), "unlink events");
        for entry in self.entries.iter().filter(|entry| self.dead != Some(entry.who)) {
            let free = entry.list == List::Overflow && entry.auto_unlinked && entry.headers == 0;
            assert_eq!(entry.freed, free, "{entry:?}");
        }
        for (who, pts) in self.pts.iter().enumerate() {
            assert!(self.dead == Some(who) || !pts.iter().any(|pt| pt.event_owed), "PT_DISABLED");
        }
    }
}

fn remove<T: PartialEq + std::fmt::Debug>(due: &mut Vec<T>, what: &T) {
    let at = due.iter().position(|one| one == what);
    due.remove(at.unwrap_or_else(|| panic!("{what:?} is not due")));
}

fn combine(op: AtomicOp, item: &mut [u8], value: &[u8], operand: &[u8]) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let (old, new) = (number(item), number(value));
    let new = match op {
        AtomicOp::Sum => old.wrapping_add(new),
        AtomicOp::Bxor => old ^ new,
        AtomicOp::Max => old.max(new),
        AtomicOp::Swap => new,
        AtomicOp::Cswap if number(operand) == old => new,
        AtomicOp::Cswap => old,
        AtomicOp::Mswap => (number(operand) & new) | (!number(operand) & old),
        other => panic!("the model has no {other:?}"),
    };
    item.copy_from_slice(&new.to_le_bytes());
}

/// Bytes cut into a few pieces of odd lengths, some of them empty.
pub fn cut(draw: &mut Random, len: u64) -> Vec<u64> {
    let mut left = len;
    let mut pieces = Vec::new();
    for _ in 0..draw.between(1, 3) {
        let piece = draw.below(left + 1);
        pieces.push(piece);
        left -= piece;
    }
    pieces.push(left);
    pieces
}
