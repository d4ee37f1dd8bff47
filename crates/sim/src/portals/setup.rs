//! What a seed draws before the first step: processes, mailboxes, interfaces, network.

use crate::swarm::Draw;
use sluice_link::{Grant, Layout};
use sluice_wire::payload_bytes_max;

/// Bytes of an operand, which is in the payload too, at most.
const OPERAND_BYTES_MAX: u64 = 48;
/// Headers that no world needs.
const HEADERS_MANY: usize = 1_000;
/// Of a hundred worlds, in how many interfaces match.
const MATCHING_PERCENT: u64 = 80;

/// See the module.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Of each process's mailbox.
    pub layouts: Vec<Layout>,
    /// Whether interfaces match bits and sources (`PTL_NI_MATCHING`).
    pub matching: bool,
    /// `max_unexpected_headers`.
    pub headers_max: usize,
    /// Longest put that travels with its header.
    pub eager_bytes_max: u32,
    /// Longest atomic operation.
    pub atomic_bytes_max: u64,
    /// Longest put and get.
    pub bytes_max: u64,
    pub poll_ns: u64,
    pub batch: u64,
    pub latency_ns: u64,
    pub jitter_ns: u64,
    pub slot_ns: u64,
    pub kib_ns: u64,
    /// Of a hundred pairs, how many cannot read or write each other's memory, and how many find
    /// that out by trying.
    pub unreadable_percent: u64,
    pub forbidden_percent: u64,
    /// Whether packets are taken before their memory is read.
    pub is_late: bool,
    /// Of a hundred payloads, how many the rail puts in their place.
    pub placing_percent: u64,
    /// Most that it takes to open a connection; zero: every one is open.
    pub connecting_ns: u64,
    /// Calls of all processes together.
    pub calls: u64,
    /// Of a hundred turns, in how many a process calls; in the others time passes.
    pub call_percent: u64,
}

impl Setup {
    pub fn draw(seed: u64) -> Setup {
        let mut draw = Draw::stream(seed, 101);
        let count = draw.between(2, 4);
        let alike = draw.percent(60).then(|| mailbox(&mut draw, count as u16));
        let layouts: Vec<Layout> =
            (0..count).map(|_| alike.unwrap_or_else(|| mailbox(&mut draw, count as u16))).collect();
        let eager = draw.pick(&[0, 64, 256, 4096]).min(room(&layouts, |at| {
            // A sender at rest has half of its quota at least, and the longest packet needs no
            // more, as where `Layout::divide` divides.
            u32::from(at.grant.data_slots / 2)
        }));
        let atomic = eager.min(room(&layouts, |at| u32::from(at.reply_slots)));
        let headers_max = draw.pick(&[2, 4, 1_000, 1_000]);
        Setup {
            matching: draw.percent(MATCHING_PERCENT),
            headers_max,
            eager_bytes_max: eager as u32,
            atomic_bytes_max: atomic,
            bytes_max: draw.pick(&[100, 400, 400, 3_000]),
            poll_ns: draw.pick(&[1, 20, 100, 4_000]),
            batch: draw.pick(&[1, 2, 8]),
            latency_ns: draw.pick(&[0, 100, 1_000, 30_000]),
            jitter_ns: draw.pick(&[0, 50, 1_000, 50_000]),
            slot_ns: draw.pick(&[0, 10, 64]),
            kib_ns: draw.pick(&[0, 100, 900]),
            unreadable_percent: draw.pick(&[0, 50, 100]),
            forbidden_percent: draw.pick(&[0, 0, 30]),
            is_late: draw.percent(15) && headers_max >= HEADERS_MANY,
            placing_percent: draw.pick(&[0, 50, 100]),
            connecting_ns: draw.pick(&[0, 0, 300, 20_000]),
            calls: draw.between(20, 160),
            call_percent: draw.pick(&[15, 35, 60, 95]),
            layouts,
        }
    }

    /// Whether headers may run out.
    pub fn has_few_headers(&self) -> bool {
        self.headers_max < HEADERS_MANY
    }
}

/// Bytes of a payload that so many slots of any of these mailboxes take.
fn room(layouts: &[Layout], slots: impl Fn(&Layout) -> u32) -> u64 {
    let least = layouts.iter().map(slots).min().unwrap_or(2);
    payload_bytes_max(least.into()).saturating_sub(OPERAND_BYTES_MAX)
}

/// A mailbox for `senders`, mostly a small one.
fn mailbox(draw: &mut Draw, senders: u16) -> Layout {
    let grant = Grant {
        data_slots: draw.pick(&[8, 8, 10, 30, 160]),
        control_slots: draw.pick(&[1, 1, 2, 4, 32]),
        credit_slots: draw.between(2, 8) as u8,
    };
    let reply_slots = draw.pick(&[4, 5, 12, 20, 400]);
    let dynamic_slots = draw.pick(&[0, 0, 0, 20, 100]);
    let sum = u32::from(senders) * grant.total() + dynamic_slots + u32::from(reply_slots);
    let ring_slots = (sum + 1).next_power_of_two();
    let layout = Layout { grant, dynamic_slots, senders_max: senders, reply_slots, ring_slots };
    layout.check().expect("a mailbox that can be");
    layout
}
