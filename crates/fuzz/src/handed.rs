//! Long messages between two processes that are near each other, and hand chunks over in bounce
//! buffers, while somebody writes over what that depends on: what both say of it in the line of the
//! claims, the claims, the packets of handed chunks, the counts of portions and of buffers that were
//! read, and the buffers.
//!
//! Both processes are this one, and copy by the system too. So no packet of a machine is written over
//! here: it says where in this process something is to be written.

use crate::Input;
use crate::mailbox::{
    BOUNCES_READ_AT, CLAIMS_AT, ENTRY_BYTES, Process, RING_AT, acquaint, changed, open, word_at,
};
use sluice_proto::{Recv, Send, Space};
use sluice_rail::shm::{BulkKind, CreditKind};
use sluice_wire::{Addr, Region};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LENS: [usize; 4] = [100_000, 300_000, (512 << 10) + 40, 1 << 20];
/// What is before and behind a destination, and stays as it is: more than a chunk.
const MARGIN: usize = 300 << 10;
const MARGIN_BYTE: u8 = 0xa5;
/// Most polls between which something may be written over.
const TURNS_MAX: usize = 200;
/// How long a message may take, whatever was written over. Claims that contradict each other are
/// looked at for half a second.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where the counts of the owner are in a mailbox (`docs/wire.md`), and a bit of the second.
const PORTIONS_AT: u64 = 512;
const LOOK_AT: u64 = 640;
const AT_WORK: u64 = 1 << 63;
/// What the first word of a packet with a handed chunk has in its upper bits.
const HANDED: u64 = 0xfe00;
const SLOTS_MAX: u32 = 16_384;
const SLOTS_USED: u64 = 128;

static CHUNKS_HANDED: AtomicU64 = AtomicU64::new(0);

/// How many chunks were handed over in all runs of this process.
pub fn chunks_handed() -> u64 {
    CHUNKS_HANDED.load(Ordering::Relaxed)
}

/// A message on its way, and whether both ends know how it went.
struct Message {
    from: usize,
    out: Vec<u8>,
    into: Vec<u8>,
    sent: Option<bool>,
    received: Option<bool>,
}

const SENT: u64 = 1;
const RECEIVED: u64 = 2;

/// Whatever is written over, both messages end, no byte beside a destination changes, and one that has
/// ended well when nobody wrote any more is whole.
pub fn long_messages(credits: CreditKind, input: &mut Input<'_>) {
    let mut both = [0; 2].map(|_| open(credits, BulkKind::Auto, SLOTS_MAX));
    acquaint(&mut both);
    let len = input.pick(&LENS);
    // Each is to know where the other one counts what it has read.
    for from in 0..2 {
        let mut hello = Message::begin(&mut both, from, 8, true);
        hello.end(&mut both);
        assert!(hello.is_whole());
    }
    let mut tampered = Message::begin(&mut both, input.below(2), len, input.flag());
    let mut may_be_wrong = false;
    for _ in 0..TURNS_MAX {
        if tampered.is_over() || input.is_empty() {
            break;
        }
        let who = input.below(2);
        if input.one_in(2) {
            may_be_wrong |= scribble(&both[who], input);
        } else {
            tampered.poll(&mut both, who);
        }
    }
    tampered.end(&mut both);
    assert!(may_be_wrong || !tampered.is_good() || tampered.is_whole(), "bytes that nobody sent");
    let mut after = Message::begin(&mut both, 1 - tampered.from, len, input.flag());
    after.end(&mut both);
    assert!(!after.is_good() || after.is_whole(), "bytes that nobody sent, afterwards");
    for process in &both {
        let handed = process.context.world().stats().chunks_handed;
        CHUNKS_HANDED.fetch_add(handed, Ordering::Relaxed);
    }
    // What a process has lent to the rail it has until then.
    let [first, second] = both;
    drop(first.context);
    drop(second.context);
}

impl Message {
    /// One of these ends posts its request first.
    fn begin(both: &mut [Process; 2], from: usize, len: usize, is_sent_first: bool) -> Message {
        let mut message = Message {
            from,
            out: (0..len).map(|at| (at * 7 + at / 251) as u8).collect(),
            into: vec![MARGIN_BYTE; MARGIN + len + MARGIN],
            sent: None,
            received: None,
        };
        if is_sent_first {
            message.send(&mut both[from]);
        }
        message.receive(&mut both[1 - from]);
        if !is_sent_first {
            message.poll(both, from);
            message.send(&mut both[from]);
        }
        message
    }

    fn send(&mut self, process: &mut Process) {
        let buf = region(&mut self.out);
        let send = Send {
            space: Space::Tagged,
            peer: process.peer,
            buf,
            tag: 1,
            data: None,
            context: SENT,
            report: true,
            inject: false,
            delivery: None,
        };
        let (now, endpoint, port) = process.context.parts();
        if endpoint.send(now, port, &send).is_err() {
            self.sent = Some(false);
        }
    }

    fn receive(&mut self, process: &mut Process) {
        let end = self.into.len() - MARGIN;
        let recv = Recv {
            space: Space::Tagged,
            source: Some(process.peer),
            buf: region(&mut self.into[MARGIN..end]),
            tag: 1,
            ignore: 0,
            context: RECEIVED,
            report: true,
        };
        let (now, endpoint, port) = process.context.parts();
        if endpoint.recv(now, port, &recv).is_err() {
            self.received = Some(false);
        }
    }

    /// One polls, and finds the other in the library when it looks.
    fn poll(&mut self, both: &mut [Process; 2], who: usize) {
        let look = |mailbox: &File, change: fn(u64) -> u64| {
            let word = word_at(mailbox, LOOK_AT).unwrap_or(0);
            let _ = mailbox.write_all_at(&change(word).to_le_bytes(), LOOK_AT);
        };
        look(&both[1 - who].mailbox, |word| word | AT_WORK);
        let context = &mut both[who].context;
        context.world_mut().refresh_now();
        context.poll();
        while let Some(ended) = context.machine_mut().pop() {
            let end = if ended.context == SENT { &mut self.sent } else { &mut self.received };
            assert!(end.is_none(), "a request ends once");
            *end = Some(ended.outcome.is_ok());
        }
        context.machine().check_invariants();
        look(&both[1 - who].mailbox, |word| word.wrapping_add(1) & !AT_WORK);
    }

    fn end(&mut self, both: &mut [Process; 2]) {
        let begin = Instant::now();
        while !self.is_over() {
            for who in 0..2 {
                self.poll(both, who);
            }
            if begin.elapsed() > PATIENCE {
                let stats = [0, 1].map(|who| both[who].context.world().stats());
                panic!("sent {:?}, received {:?}: {stats:#?}", self.sent, self.received);
            }
        }
        let (before, behind) = (&self.into[..MARGIN], &self.into[self.into.len() - MARGIN..]);
        let mut margins = before.iter().chain(behind);
        assert!(margins.all(|&byte| byte == MARGIN_BYTE), "bytes beside the destination");
    }

    fn is_over(&self) -> bool {
        self.sent.is_some() && self.received.is_some()
    }

    fn is_good(&self) -> bool {
        self.received == Some(true)
    }

    /// It may have been written by the system.
    fn is_whole(&self) -> bool {
        std::hint::black_box(&self.into)[MARGIN..][..self.out.len()] == self.out
    }
}

fn region(bytes: &mut [u8]) -> Region {
    Region { addr: Addr(bytes.as_mut_ptr().expose_provenance() as u64), len: bytes.len() as u64 }
}

/// Something becomes something else. Says whether a message may have other bytes for it.
fn scribble(process: &Process, input: &mut Input<'_>) -> bool {
    let mailbox = &process.mailbox;
    let (kind, place) = (input.byte() % 8, u64::from(input.byte()));
    // Eight lines take turns where one transfer is under way.
    let line = CLAIMS_AT + place % 8 * 64;
    let at = match kind {
        // The claims, the peer's record, and what both say.
        0 | 1 => line + place / 8 % 4 * 8,
        2 => LOOK_AT,
        3 => PORTIONS_AT,
        4 => BOUNCES_READ_AT + place % 4 * ENTRY_BYTES,
        5 | 6 => match handed_slot(process, place) {
            Some(slot) => slot + [8, 16, 56][place as usize % 3],
            None => return false,
        },
        _ => return scribble_buffers(process, input),
    };
    let Some(now) = word_at(mailbox, at) else { return false };
    let value = if kind == 3 || kind > 4 && at % 64 == 56 {
        not_awaited(now, at % 64 == 56, input)
    } else {
        changed(now, input)
    };
    let _ = mailbox.write_all_at(&value.to_le_bytes(), at);
    // One word of the claims alone fakes nothing; two might.
    !matches!(kind, 2 | 3)
}

/// A count of portions, or what a packet says of it and of its buffer, for which no portion is waited
/// for: that is for a minute, if its sender lives.
fn not_awaited(now: u64, is_packet: bool, input: &mut Input<'_>) -> u64 {
    let (step, portions) = (u64::from(input.byte()), 1 << 20);
    match input.byte() % 3 {
        0 if is_packet => now & !0x7fff | step << 3,
        0 => now.wrapping_add(step),
        1 if is_packet => now.wrapping_add(portions << 16),
        _ if is_packet => now & 0x7fff,
        _ => now.wrapping_sub(portions),
    }
}

/// A slot with a handed chunk, that was taken in or not.
fn handed_slot(process: &Process, from: u64) -> Option<u64> {
    // Messages that are so long take few.
    let mut slots = (0..SLOTS_USED).map(|slot| RING_AT + (slot + from) % SLOTS_USED * 64);
    slots.find(|&at| word_at(&process.mailbox, at).is_some_and(|word| word >> 48 == HANDED))
}

/// Payload in the owner's buffers, which are last in its mailbox.
fn scribble_buffers(process: &Process, input: &mut Input<'_>) -> bool {
    let begin = RING_AT + process.ring_slots * 64;
    let at = begin + u64::from(input.byte()) * 2048;
    let bytes = input.take(16);
    let _ = process.mailbox.write_all_at(bytes, at);
    true
}
