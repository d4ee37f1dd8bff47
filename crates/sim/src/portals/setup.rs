//! What a seed draws before the first step: processes, mailboxes, interfaces, network.

use crate::rails::RailsSetup;
use crate::swarm::Draw;
use sluice_link::{Grant, Layout};
use sluice_portals::Scheme;
use sluice_wire::payload_bytes_max;

/// Bytes of an operand, which is in the payload too, at most.
const OPERAND_BYTES_MAX: u64 = 48;
/// Headers that no world needs.
const HEADERS_MANY: usize = 1_000;
/// Of a hundred worlds, in how many hosts may be several.
const RAILS_PERCENT: u64 = 60;
/// Of a hundred worlds, in how many processes are stopped, and the part of a peer's patience that
/// one stop takes at most.
const STOPS_PERCENT: u64 = 25;
const PATIENCE: u64 = 14;
/// Of a hundred worlds, in how many a process ends, and in how many of those with several hosts
/// these may be apart for longer than peers are waited for.
const DEATHS_PERCENT: u64 = 35;
const LASTING_PERCENT: u64 = 60;
/// Places of an event queue that never runs out.
pub const QUEUE_MAX: usize = 4_096;
/// Of a hundred worlds, in how many interfaces recover from exhaustion.
const RECOVERING_PERCENT: u64 = 35;
/// More triggered operations than a program arms, and of a hundred worlds in how many there is
/// room for a few.
const TRIGGERED_MANY: u32 = 1 << 20;
const TRIGGERED_PERCENT: u64 = 15;
/// Of a hundred worlds, in how many interfaces match.
const MATCHING_PERCENT: u64 = 80;

/// A process does nothing for a while, as if stopped, once so many calls into engines were made.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    pub who: usize,
    pub after_steps: u64,
    pub ns: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Of each process's mailbox.
    pub layouts: Vec<Layout>,
    /// Whether interfaces match bits and sources (`PTL_NI_MATCHING`).
    pub matching: bool,
    /// `max_unexpected_headers`.
    pub headers_max: usize,
    /// `max_triggered_ops`.
    pub triggered_max: u32,
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
    /// How interfaces recover from exhaustion, if they do.
    pub recovery: Option<Scheme>,
    /// Places of the event queues of a process.
    pub queues_max: [usize; 2],
    /// Of a hundred looks at a queue, in how many a process takes what is there.
    pub taking_percent: u64,
    /// What is between hosts.
    pub rails: RailsSetup,
    /// In the order in which they begin.
    pub stops: Vec<Stop>,
    /// Which process ends, after so many calls into engines.
    pub death: Option<(usize, u64)>,
}

impl Setup {
    pub fn draw(seed: u64) -> Setup {
        let mut draw = Draw::stream(seed, 101);
        let count = draw.between(2, 4);
        let alike = draw.percent(60).then(|| mailbox(&mut draw, count as u16));
        let mut layouts: Vec<Layout> =
            (0..count).map(|_| alike.unwrap_or_else(|| mailbox(&mut draw, count as u16))).collect();
        if layouts.iter().any(|layout| layout.dynamic_slots > 0) {
            layouts.iter_mut().for_each(for_dynamic);
        }
        let eager = draw.pick(&[0, 64, 256, 4096]).min(room(&layouts, |at| {
            // A sender at rest has half of its quota at least, and the longest packet needs no
            // more, as where `Layout::divide` divides.
            u32::from(at.grant.data_slots / 2)
        }));
        let atomic = eager.min(room(&layouts, |at| u32::from(at.reply_slots)));
        let headers_max = draw.pick(&[2, 4, 1_000, 1_000]);
        let mut recovers = Draw::stream(seed, 107);
        let recovery = recovers
            .percent(RECOVERING_PERCENT)
            .then(|| recovers.pick(&[Scheme::Resume, Scheme::Resume, Scheme::Pause]));
        let queues_max = [(); 2].map(|()| match recovery {
            Some(_) => recovers.pick(&[4, 6, 10, 20, QUEUE_MAX]),
            None => QUEUE_MAX,
        });
        // An append may tell of all headers by two events each, which must fit.
        let headers_fit = (queues_max[0].min(queues_max[1]) - 2) / 2;
        let rails = rails(seed, layouts.len());
        Setup {
            recovery,
            queues_max,
            stops: stops(seed, layouts.len(), &rails),
            death: death(seed, layouts.len()),
            rails,
            taking_percent: recovers.pick(if recovery.is_some() { &[5, 20, 60] } else { &[100] }),
            matching: draw.percent(MATCHING_PERCENT),
            headers_max: headers_max.min(headers_fit),
            triggered_max: triggered_max(seed),
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

    /// Whether a process may end, or be given up.
    pub fn may_lose(&self) -> bool {
        self.death.is_some() || self.rails.has_lasting_partitions()
    }

    /// How many faults there are: those of rails, then stops, then the end of a process.
    pub fn faults(&self) -> usize {
        self.rails.faults.len() + self.stops.len() + usize::from(self.death.is_some())
    }

    /// Leaves out the faults that are not kept.
    pub fn keep_faults(&mut self, is_kept: impl Fn(usize) -> bool) {
        let mut number = 0..;
        let mut is_left = || number.next().is_some_and(&is_kept);
        self.rails.faults.retain(|_| is_left());
        self.stops.retain(|_| is_left());
        self.death = self.death.filter(|_| is_left());
    }

    /// Whether headers may run out.
    pub fn has_few_headers(&self) -> bool {
        self.headers_max < HEADERS_MANY
    }
}

/// What is between the hosts of so many processes, if there are several.
/// Triggered operations that may wait at a process at once.
fn triggered_max(seed: u64) -> u32 {
    let mut draw = Draw::stream(seed, 116);
    if draw.percent(TRIGGERED_PERCENT) { draw.pick(&[0, 1, 2, 4]) } else { TRIGGERED_MANY }
}

fn rails(seed: u64, processes: usize) -> RailsSetup {
    if !Draw::stream(seed, 110).percent(RAILS_PERCENT) {
        return RailsSetup::one_host(processes);
    }
    let mut rails = RailsSetup::draw(seed, processes);
    if !Draw::stream(seed, 115).percent(LASTING_PERCENT) {
        rails.drop_lasting_partitions();
    }
    rails
}

/// Processes that are stopped, for less than others wait for them.
fn stops(seed: u64, processes: usize, rails: &RailsSetup) -> Vec<Stop> {
    let mut draw = Draw::stream(seed, 112);
    let count = if draw.percent(STOPS_PERCENT) { draw.between(1, 2) } else { 0 };
    let stop = |_| {
        let steps = draw.pick(&[10, 100, 400]);
        let most = draw.pick(&[2_000, 100_000, 2_000_000]).min(rails.timing.gone_ns / PATIENCE);
        let who = draw.below(processes as u64) as usize;
        Stop { who, after_steps: draw.below(steps), ns: 1 + draw.below(most) }
    };
    let mut stops: Vec<Stop> = (0..count).map(stop).collect();
    stops.sort_by_key(|stop| stop.after_steps);
    stops
}

/// Which process ends, and when.
fn death(seed: u64, processes: usize) -> Option<(usize, u64)> {
    let mut draw = Draw::stream(seed, 113);
    let ends = draw.percent(DEATHS_PERCENT);
    let most = draw.pick(&[30, 200, 800]);
    ends.then(|| (draw.below(processes as u64) as usize, draw.below(most)))
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
    divided(Layout { grant, dynamic_slots, senders_max: senders, reply_slots, ring_slots: 0 })
}

/// Two places for credit packets of the data region, as where `Layout::divide_dynamic` divides:
/// with an only one, a sender into a dynamic region has to announce what is longer than a slot.
fn for_dynamic(layout: &mut Layout) {
    layout.grant.credit_slots = layout.grant.credit_slots.max(4);
    *layout = divided(*layout);
}

/// With a ring as long as it has to be.
fn divided(layout: Layout) -> Layout {
    let shares = u32::from(layout.senders_max) * layout.grant.total();
    let sum = shares + layout.dynamic_slots + u32::from(layout.reply_slots);
    let layout = Layout { ring_slots: (sum + 1).next_power_of_two(), ..layout };
    layout.check().expect("a mailbox that can be");
    layout
}
