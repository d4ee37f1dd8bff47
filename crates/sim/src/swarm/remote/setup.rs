//! What a seed draws of remote memory before the first step.

use super::super::draw::Draw;
use sluice_link::Layout;
use sluice_wire::{REPLY_HEADER_BYTES, SLOT_BYTES, payload_bytes_max};

/// Of a hundred worlds, in how many remote memory is used.
const PERCENT: u64 = 40;
/// The longest write that travels with its header, and the most bytes of values.
const TOGETHER_BYTES_MAX: u64 = 4096;
/// Control slots of mailboxes as they ship: with as many, operations on remote memory never wait
/// for messages to be received.
const CONTROL_SLOTS_MIN: u8 = 32;
/// Bytes that go in a packet of one slot.
const ONE_SLOT_BYTES: u64 = 8;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct RemoteSetup {
    /// Of a hundred operations, how many are on remote memory.
    pub percent: u64,
    /// Most regions of a process.
    pub regions_max: u32,
    /// Most bytes that travel with the header of a write, or of an operation on values: every
    /// mailbox takes them. A longer write is more than [`TOGETHER_BYTES_MAX`].
    pub together_bytes_max: u64,
    /// The same of values that come back, which every reply region takes.
    pub back_bytes_max: u64,
    /// Operations never wait for messages to be received: there are control credits for them.
    pub never_waits: bool,
    /// Of a hundred regions, how many are long.
    pub long_percent: u64,
    /// Regions that a process publishes at most: others on its host move their bytes themselves.
    pub published_max: usize,
    /// Half of what they try comes at a wrong moment, and has to be asked for.
    pub misses_published: bool,
}

impl RemoteSetup {
    /// The shortest write whose bytes are fetched.
    pub const LONG_BYTES: u64 = TOGETHER_BYTES_MAX + 1;

    /// The longest read that a process with such a mailbox asks to have with the reply.
    pub fn reply_bytes_max(layout: &Layout) -> u64 {
        match layout.reply_slots / 2 {
            0 | 1 => SLOT_BYTES as u64 - REPLY_HEADER_BYTES,
            slots => payload_bytes_max(u64::from(slots)).min(TOGETHER_BYTES_MAX),
        }
    }

    /// What a seed draws, if its world has any.
    pub fn draw(seed: u64, layouts: &[Layout]) -> Option<RemoteSetup> {
        let mut draw = Draw::stream(seed, 60);
        if !draw.percent(PERCENT) {
            return None;
        }
        let quota = layouts.iter().map(quota_at_rest);
        let together_bytes_max = room(quota.min().unwrap_or(1));
        let controls = layouts.iter().map(|layout| layout.grant.control_slots);
        let mut publishing = Draw::stream(seed, 61);
        let reply = layouts.iter().map(|layout| u64::from(layout.reply_slots));
        Some(RemoteSetup {
            percent: draw.pick(&[15, 40, 40, 85]),
            never_waits: controls.min().unwrap_or(0) >= CONTROL_SLOTS_MIN,
            regions_max: draw.pick(&[1, 2, 3, 100, 100]),
            together_bytes_max,
            back_bytes_max: room(reply.min().unwrap_or(1)).min(together_bytes_max),
            long_percent: draw.pick(&[0, 10, 60]),
            published_max: publishing.pick(&[0, 2, 128, 128]),
            misses_published: publishing.percent(50),
        })
    }
}

/// Slots that a sender has at rest: half of its quota at least, and all of it where that is one.
/// One, if a credit packet of a dynamic region may find its only place taken.
fn quota_at_rest(layout: &Layout) -> u64 {
    let is_only = layout.dynamic_slots > 0 && layout.grant.credit_slots < 4;
    if is_only { 1 } else { u64::from(layout.grant.data_slots / 2) }
}

/// Bytes that so many slots take with a header.
fn room(slots: u64) -> u64 {
    if slots < 2 { ONE_SLOT_BYTES } else { payload_bytes_max(slots).min(TOGETHER_BYTES_MAX) }
}
