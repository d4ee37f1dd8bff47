//! Shared memory that a peer writes over: two processes exchange messages by mailboxes, and any
//! word of these may be anything at any time. Both take what they find, or give the other up.
//!
//! Bulk data takes the mailbox here, because both processes are this one: what a peer is told to
//! write directly would be written into the fuzzer. Where it is not, `handed` says what may be written over.

use crate::mailbox::{
    BELL_AT, CLAIMS_AT, ENTRIES_AT, PUBLISHED_AT, Process, RING_AT, acquaint, changed, open,
    word_at,
};
use crate::{Input, handed};
use sluice_proto::{Delivery, Recv, Send, Space};
use sluice_rail::shm::{BulkKind, CreditKind};
use sluice_wire::{Addr, Region};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const CALLS_MAX: usize = 120;
const BYTES: usize = 3000;
/// One of the two, and its messages.
struct Side {
    process: Process,
    out: Box<[u8; BYTES]>,
    into: Box<[u8; BYTES]>,
    contexts: u64,
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
    let mut both = both.map(Side::new);
    for _ in 0..CALLS_MAX {
        if input.is_empty() {
            break;
        }
        let who = input.below(2);
        match input.byte() % 8 {
            0 | 1 => both[who].send(&mut input),
            2 | 3 => both[who].receive(&mut input),
            4 | 5 => both[who].poll(),
            6 => scribble(&both[who].process.mailbox, &mut input),
            _ => slot(&both[who].process.mailbox, &mut input),
        }
    }
    for turn in 0..20 {
        both[turn % 2].poll();
    }
    // What a process has lent to the rail it has until then.
    let [first, second] = both;
    drop(first.process.context);
    drop(second.process.context);
}

impl Side {
    fn new(process: Process) -> Side {
        Side { process, out: Box::new([7; BYTES]), into: Box::new([0; BYTES]), contexts: 0 }
    }

    fn send(&mut self, input: &mut Input<'_>) {
        self.contexts += 1;
        let len = u64::from(input.byte()) * input.pick(&[0, 1, 10]);
        let send = Send {
            space: Space::Tagged,
            peer: self.process.peer,
            buf: region(&mut self.out[..], len),
            tag: u64::from(input.byte() & 1),
            data: None,
            context: self.contexts,
            report: true,
            inject: input.one_in(4),
            delivery: input.pick(&[None, None, Some(Delivery::Arrived), Some(Delivery::Matched)]),
        };
        let (now, endpoint, port) = self.process.context.parts();
        let _ = endpoint.send(now, port, &send);
        endpoint.check_invariants();
    }

    fn receive(&mut self, input: &mut Input<'_>) {
        self.contexts += 1;
        let recv = Recv {
            space: Space::Tagged,
            source: Some(self.process.peer).filter(|_| input.flag()),
            buf: region(&mut self.into[..], BYTES as u64),
            tag: u64::from(input.byte() & 1),
            ignore: 0,
            context: self.contexts,
            report: true,
        };
        let (now, endpoint, port) = self.process.context.parts();
        let _ = endpoint.recv(now, port, &recv);
        endpoint.check_invariants();
    }

    fn poll(&mut self) {
        self.process.context.world_mut().refresh_now();
        self.process.context.poll();
        while self.process.context.machine_mut().pop().is_some() {}
        self.process.context.machine().check_invariants();
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
    let Some(now) = word_at(mailbox, at) else { return };
    let word = changed(now, input);
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
