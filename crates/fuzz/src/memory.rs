//! Shared memory that a peer writes over: two processes exchange messages by mailboxes, and any
//! word of these may be anything at any time. Both take what they find, or give the other up.
//!
//! Bulk data takes the mailbox here, because both processes are this one: what a peer is told to
//! write directly would be written into the fuzzer. Where it is not, `handed` says what may be written over.

use crate::{Input, handed};
use sluice_proto::{Config as Messages, Endpoint, Recv, Send, Space};
use sluice_rail::World;
use sluice_rail::shm::{BulkKind, Config, CreditKind, SegmentKind, Warn};
use sluice_runtime::Context;
use sluice_wire::{Addr, PeerId, Region};
use std::fs::{File, OpenOptions, read_dir, read_link};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

const CALLS_MAX: usize = 120;
const BYTES: usize = 3000;
/// Where things begin in a mailbox (`docs/wire.md`).
const BELL_AT: u64 = 384;
pub(crate) const CLAIMS_AT: u64 = 4096;
const PUBLISHED_AT: u64 = 20480;
const ENTRIES_AT: u64 = 28672;
/// In the first entry.
pub(crate) const BOUNCES_READ_AT: u64 = ENTRIES_AT + 136;
pub(crate) const ENTRY_BYTES: u64 = 256;
/// The page behind the entries of four senders.
pub(crate) const RING_AT: u64 = 32768;

pub(crate) struct Process {
    pub(crate) context: Context<Endpoint>,
    pub(crate) mailbox: File,
    pub(crate) peer: PeerId,
    pub(crate) ring_slots: u64,
    out: Box<[u8; BYTES]>,
    into: Box<[u8; BYTES]>,
    contexts: u64,
}

/// Mailboxes of this process that are open now.
fn mailboxes() -> Vec<PathBuf> {
    let all = read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_mailbox = |path: &PathBuf| {
        read_link(path).is_ok_and(|to| to.to_string_lossy().contains("sluice-mailbox"))
    };
    all.map(|entry| entry.path()).filter(is_mailbox).collect()
}

pub(crate) fn open(credits: CreditKind, bulk: BulkKind, slots_max: u32) -> Process {
    let before = mailboxes();
    let config = Config {
        senders_max: 4,
        slots_max,
        credits,
        segment: SegmentKind::Memfd,
        bulk,
        warn: Warn(|_| {}),
        ..Config::default()
    };
    let world = World::open(config).expect("shared memory is to be had");
    let own = mailboxes().into_iter().find(|path| !before.contains(path));
    let mailbox = OpenOptions::new().read(true).write(true).open(own.expect("a memfd"));
    let messages = Messages { eager_bytes_max: 1000, requests_max: 64, ..Messages::default() };
    let mut ring_slots = 0;
    let context = Context::new(world, |layout| {
        ring_slots = layout.ring_slots.into();
        Endpoint::new(messages, layout)
    });
    Process {
        context,
        ring_slots,
        mailbox: mailbox.expect("its own file"),
        peer: PeerId(0),
        out: Box::new([7; BYTES]),
        into: Box::new([0; BYTES]),
        contexts: 0,
    }
}

/// Whatever is written, books are in order, and no call panics or waits.
pub fn shared_memory(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let first = input.byte();
    let credits = if first & 1 == 1 { CreditKind::Static } else { CreditKind::Dynamic };
    if first & 2 == 2 {
        return handed::long_messages(credits, &mut input);
    }
    let mut both = [0; 2].map(|_| open(credits, BulkKind::Ring, 4096));
    acquaint(&mut both);
    for _ in 0..CALLS_MAX {
        if input.is_empty() {
            break;
        }
        let who = input.below(2);
        match input.byte() % 8 {
            0 | 1 => both[who].send(&mut input),
            2 | 3 => both[who].receive(&mut input),
            4 | 5 => both[who].poll(),
            6 => scribble(&both[who].mailbox, &mut input),
            _ => slot(&both[who].mailbox, &mut input),
        }
    }
    for turn in 0..20 {
        both[turn % 2].poll();
    }
    // What a process has lent to the rail it has until then.
    let [first, second] = both;
    drop(first.context);
    drop(second.context);
}

/// Each learns the address of the other.
pub(crate) fn acquaint(both: &mut [Process; 2]) {
    for who in 0..2 {
        let address = both[1 - who].context.world().address();
        both[who].peer = both[who].context.world_mut().peer(&address).expect("a good address");
    }
}

impl Process {
    fn send(&mut self, input: &mut Input<'_>) {
        self.contexts += 1;
        let len = u64::from(input.byte()) * input.pick(&[0, 1, 10]);
        let send = Send {
            space: Space::Tagged,
            peer: self.peer,
            buf: region(&mut self.out[..], len),
            tag: u64::from(input.byte() & 1),
            data: None,
            context: self.contexts,
            report: true,
            inject: input.one_in(4),
            delivery: input.one_in(4),
        };
        let (now, endpoint, port) = self.context.parts();
        let _ = endpoint.send(now, port, &send);
        endpoint.check_invariants();
    }

    fn receive(&mut self, input: &mut Input<'_>) {
        self.contexts += 1;
        let recv = Recv {
            space: Space::Tagged,
            source: Some(self.peer).filter(|_| input.flag()),
            buf: region(&mut self.into[..], BYTES as u64),
            tag: u64::from(input.byte() & 1),
            ignore: 0,
            context: self.contexts,
            report: true,
        };
        let (now, endpoint, port) = self.context.parts();
        let _ = endpoint.recv(now, port, &recv);
        endpoint.check_invariants();
    }

    fn poll(&mut self) {
        self.context.world_mut().refresh_now();
        self.context.poll();
        while self.context.machine_mut().pop().is_some() {}
        self.context.machine().check_invariants();
    }
}

fn region(bytes: &mut [u8], len: u64) -> Region {
    let len = len.min(bytes.len() as u64);
    Region { addr: Addr(bytes.as_mut_ptr().expose_provenance() as u64), len }
}

/// A word of a mailbox becomes another one.
fn scribble(mailbox: &File, input: &mut Input<'_>) {
    let near = u64::from(input.byte());
    let at = match input.byte() % 9 {
        0 => near % 32 * 8,
        1 => 128,
        2 => 192,
        3 => 256,
        4 => BELL_AT,
        5 => CLAIMS_AT + near % 64 * 8,
        6 => ENTRIES_AT + near % 128 * 8,
        7 => PUBLISHED_AT + near * 8,
        _ => RING_AT + near * 8,
    };
    let mut now = [0; 8];
    if mailbox.read_exact_at(&mut now, at).is_err() {
        return;
    }
    let was = u64::from_le_bytes(now);
    let word = match input.byte() % 6 {
        0 => 0,
        1 => u64::MAX,
        2 => was.wrapping_add(u64::from(input.byte())),
        3 => was.wrapping_sub(u64::from(input.byte())),
        4 => was ^ 1 << (input.byte() % 64),
        _ => input.word(),
    };
    let _ = mailbox.write_all_at(&word.to_le_bytes(), at);
}

/// Bytes of a slot that is there become others: most often its stamp stays.
fn slot(mailbox: &File, input: &mut Input<'_>) {
    let at = RING_AT + u64::from(input.byte() % 64) * 64;
    let offset = if input.one_in(8) { 0 } else { 6 } + u64::from(input.byte() % 24);
    let len = 1 + usize::from(input.byte() % 30);
    let bytes = input.take(len);
    let _ = mailbox.write_all_at(bytes, at + offset);
}
