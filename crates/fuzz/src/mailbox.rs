//! Two processes with mailboxes that can be written over, and what is written.

use crate::Input;
use sluice_proto::{Config as Messages, Endpoint};
use sluice_rail::World;
use sluice_rail::shm::{BulkKind, Config, CreditKind, SegmentKind, Warn};
use sluice_runtime::Context;
use sluice_wire::PeerId;
use std::fs::{File, OpenOptions, read_dir, read_link};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// Where things begin in a mailbox (`docs/wire.md`).
pub(crate) const BELL_AT: u64 = 384;
pub(crate) const CLAIMS_AT: u64 = 4096;
pub(crate) const PUBLISHED_AT: u64 = 20480;
pub(crate) const ENTRIES_AT: u64 = 28672;
/// In the first entry.
pub(crate) const BOUNCES_READ_AT: u64 = ENTRIES_AT + 136;
pub(crate) const ENTRY_BYTES: u64 = 256;
/// The page behind the entries of four senders.
pub(crate) const RING_AT: u64 = 32768;

/// A process, its mailbox, and the other one.
pub(crate) struct Process {
    pub(crate) context: Context<Endpoint>,
    pub(crate) mailbox: File,
    pub(crate) peer: PeerId,
    pub(crate) ring_slots: u64,
}

/// Each learns the address of the other.
pub(crate) fn acquaint(both: &mut [Process; 2]) {
    for who in 0..2 {
        let address = both[1 - who].context.world().address();
        both[who].peer = both[who].context.world_mut().peer(&address).expect("a good address");
    }
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
    Process { context, ring_slots, mailbox: mailbox.expect("its own file"), peer: PeerId(0) }
}

/// A word of a mailbox; `None` behind its end.
pub(crate) fn word_at(mailbox: &File, at: u64) -> Option<u64> {
    let mut word = [0; 8];
    mailbox.read_exact_at(&mut word, at).ok()?;
    Some(u64::from_le_bytes(word))
}

/// What a word becomes.
pub(crate) fn changed(now: u64, input: &mut Input<'_>) -> u64 {
    match input.byte() % 6 {
        0 => 0,
        1 => u64::MAX,
        2 => now.wrapping_add(u64::from(input.byte())),
        3 => now.wrapping_sub(u64::from(input.byte())),
        4 => now ^ 1 << (input.byte() % 64),
        _ => input.word(),
    }
}

/// Mailboxes of this process that are open now.
fn mailboxes() -> Vec<PathBuf> {
    let all = read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_mailbox = |path: &PathBuf| {
        read_link(path).is_ok_and(|to| to.to_string_lossy().contains("sluice-mailbox"))
    };
    all.map(|entry| entry.path()).filter(is_mailbox).collect()
}
