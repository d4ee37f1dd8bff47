//! What goes wrong with rails, and when: once so many frames have been given to
//! sockets, so that it happens while something is done. Each fault ends; but for the lasting
//! ones all of them together take less than half of the time after which a peer
//! counts as gone.

use super::Rails;
use super::connection::{EndState, Reach, Spoil};
use super::frame::Cx;
use super::kinds::Kind;
use crate::swarm::Draw;
use sluice_multirail::Timing;

/// Those that are drawn, but for the lasting ones.
const DRAWN: [Kind; 15] = [
    Kind::Lost,
    Kind::LostAtOneEnd,
    Kind::Refused,
    Kind::Flapping,
    Kind::Silence,
    Kind::Swallowed,
    Kind::Slow,
    Kind::Late,
    Kind::AcksLost,
    Kind::Partition,
    Kind::Computes,
    Kind::FrameAltered,
    Kind::FrameLost,
    Kind::FrameTwice,
    Kind::FramesSwapped,
];

/// One fault of a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub kind: Kind,
    pub after_frames: u64,
    /// How long it takes.
    pub ns: u64,
    /// Decides whom it hits.
    aim: u64,
}

/// Most faults of a world but for the lasting ones, and so the part of a peer's
/// patience that one of them takes at most.
const FAULTS_MAX: u64 = 5;

impl Fault {
    pub fn draw(draw: &mut Draw, timing: &Timing) -> Fault {
        let kind = draw.pick(&DRAWN);
        let most = timing.gone_ns / (2 * FAULTS_MAX + 4);
        let times = [
            timing.suspect_ns / 4,
            2 * timing.suspect_ns,
            2 * timing.suspect_alone_ns,
            timing.suspect_alone_ns + timing.down_ns + timing.open_ns,
        ];
        let ns = draw.pick(&times).min(most);
        let frames = draw.pick(&[20, 100, 500, 2_000]);
        Fault { kind, after_frames: draw.below(frames), ns: 1 + draw.below(ns), aim: draw.bits() }
    }

    /// One that takes longer than a peer is waited for.
    pub fn lasting(kind: Kind, draw: &mut Draw, timing: &Timing) -> Fault {
        let after_frames = draw.pick(&[0, 30, 200]);
        let ns = timing.gone_ns + draw.below(timing.gone_ns);
        Fault { kind, after_frames: draw.below(after_frames + 1), ns, aim: draw.bits() }
    }
}

/// A fault that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    kind: Kind,
    /// Between which hosts, or which process computes.
    at: usize,
    /// On which rail, if on one.
    rail: Option<usize>,
    /// Only what this side of each pair sends, the one of the lower number or the other.
    from_lower: Option<bool>,
    until: u64,
    /// How often it is still to strike.
    strikes: u64,
    /// Between two strikes.
    period: u64,
}

impl Active {
    /// Whether nothing arrives that goes this way.
    fn silences(&self, pair: usize, rail: usize, from_lower: bool) -> bool {
        let is_silence = matches!(
            self.kind,
            Kind::Silence | Kind::AcksLost | Kind::Partition | Kind::LastingPartition
        );
        is_silence && self.is_about(pair, rail) && self.from_lower.is_none_or(|it| it == from_lower)
    }

    fn is_about(&self, pair: usize, rail: usize) -> bool {
        self.at == pair && self.rail.is_none_or(|one| one == rail) && !self.kind.is_of_process()
    }
}

impl Rails {
    /// Begins the faults that are due.
    pub(super) fn begin_faults(&mut self, cx: &mut Cx<'_>) {
        while let Some(&fault) = self.setup.faults.get(self.faults_begun) {
            let is_met = self.sides.iter().flatten().next().is_some();
            if self.frames < fault.after_frames || !is_met {
                return;
            }
            self.faults_begun += 1;
            self.begin_fault(cx, fault);
        }
    }

    fn begin_fault(&mut self, cx: &mut Cx<'_>, fault: Fault) {
        let used = self.connections.iter().filter(|one| one.ends != [EndState::Closed; 2]);
        let used: Vec<usize> = used.map(|one| one.index).collect();
        let any = |from: &[usize]| from[(fault.aim >> 8) as usize % from.len()];
        let mut active = Active {
            kind: fault.kind,
            at: 0,
            rail: None,
            from_lower: None,
            until: cx.now + fault.ns,
            strikes: 0,
            period: 0,
        };
        if fault.kind.is_of_process() {
            let who = self.sides.iter().flatten().map(|side| side.who).collect::<Vec<_>>();
            let living: Vec<usize> = who.into_iter().filter(|&who| !self.dead[who]).collect();
            if living.is_empty() {
                return;
            }
            active.at = any(&living);
            let until = &mut self.computes_until[active.at];
            *until = (*until).max(active.until);
        } else {
            if used.is_empty() {
                return;
            }
            let hit = &self.connections[any(&used)];
            active.at = self.setup.host_pair(hit.who[0], hit.who[1]);
            let is_partition = matches!(fault.kind, Kind::Partition | Kind::LastingPartition);
            active.rail = (!is_partition).then_some(hit.rail);
            let is_one_way = fault.kind == Kind::AcksLost
                || Spoil::of(fault.kind).is_some()
                || (fault.kind == Kind::Silence && fault.aim.is_multiple_of(3));
            active.from_lower = is_one_way.then_some((fault.aim >> 3).is_multiple_of(2));
        }
        self.fault_counts.note(fault.kind);
        self.note_fault(fault.kind, active.at, fault.ns);
        match fault.kind {
            Kind::Lost | Kind::Refused => self.strike(cx, &active, [true, true]),
            Kind::LostAtOneEnd => {
                let lower = fault.aim.is_multiple_of(2);
                self.strike(cx, &active, [lower, !lower]);
            }
            Kind::Flapping => {
                self.strike(cx, &active, [true, true]);
                active.strikes = 2 + fault.aim % 6;
                active.period = fault.ns / (active.strikes + 1) + 1;
            }
            Kind::Swallowed => {
                for connection in self.struck(&active) {
                    self.connections[connection].swallow();
                }
            }
            Kind::LastingPartition => self.has_lasted[active.at] = true,
            kind => self.spoil(&active, Spoil::of(kind)),
        }
        self.schedule_fault(cx, &active);
        self.active.push(active);
    }

    /// The next frame that goes one way on some connections does not arrive as it was sent.
    fn spoil(&mut self, active: &Active, spoil: Option<Spoil>) {
        let Some(spoil) = spoil else { return };
        for connection in self.struck(active) {
            let one = &mut self.connections[connection];
            let from_lower = active.from_lower == Some(true);
            let from = usize::from((one.who[0] < one.who[1]) != from_lower);
            // A gap that nobody has noticed yet stays one.
            one.ways[from].spoil.get_or_insert(spoil);
        }
    }

    fn schedule_fault(&mut self, cx: &Cx<'_>, active: &Active) {
        let next = active.until.saturating_sub(active.strikes * active.period);
        self.later.push((next.max(cx.now), super::Event::Fault));
    }

    /// A fault strikes again, or ends.
    pub(super) fn go_on_with_faults(&mut self, cx: &mut Cx<'_>) {
        for at in 0..self.active.len() {
            let active = &mut self.active[at];
            let due = active.until.saturating_sub(active.strikes * active.period);
            if active.strikes > 0 && due <= cx.now {
                active.strikes -= 1;
                let active = *active;
                self.strike(cx, &active, [true, true]);
                self.schedule_fault(cx, &active);
            }
        }
        let is_over = |active: &Active| active.until <= cx.now;
        let over: Vec<Active> = self.active.iter().copied().filter(is_over).collect();
        self.active.retain(|active| !is_over(active));
        for active in over.iter().filter(|active| active.kind == Kind::AcksLost) {
            self.strike(cx, active, [true, true]);
        }
        if !over.is_empty() {
            // What was kept back arrives.
            for connection in 0..self.connections.len() {
                for from in 0..2 {
                    self.arm_arrival(cx, connection, from);
                }
            }
        }
    }

    /// The connections that a fault is about.
    fn struck(&self, active: &Active) -> Vec<usize> {
        let is_struck = |one: &&super::connection::Connection| {
            let pair = self.setup.host_pair(one.who[0], one.who[1]);
            one.ends != [EndState::Closed; 2] && active.is_about(pair, one.rail)
        };
        self.connections.iter().filter(is_struck).map(|one| one.index).collect()
    }

    /// Connections end; by side, the lower first, who notices.
    fn strike(&mut self, cx: &mut Cx<'_>, active: &Active, noticed: [bool; 2]) {
        for connection in self.struck(active) {
            for end in 0..2 {
                let [own, other] = [end, 1 - end].map(|end| self.connections[connection].who[end]);
                if noticed[usize::from(own > other)] {
                    self.lose_end(cx, connection, end);
                }
            }
        }
    }

    /// Whether a rail takes no new connection.
    pub(super) fn is_refused(&self, pair: usize, rail: usize) -> bool {
        let refuses =
            |active: &&Active| active.kind == Kind::Refused && active.is_about(pair, rail);
        self.active.iter().any(|active| refuses(&active))
    }

    /// How what goes one way on a rail fares now.
    pub(super) fn reach(&self, connection: usize, from: usize) -> Reach {
        let one = &self.connections[connection];
        let [own, other] = [from, 1 - from].map(|end| one.who[end]);
        let pair = self.setup.host_pair(own, other);
        let about = |kind: Kind| {
            self.active.iter().any(|active| active.kind == kind && active.is_about(pair, one.rail))
        };
        Reach {
            is_silent: self
                .active
                .iter()
                .any(|active| active.silences(pair, one.rail, own < other)),
            is_slow: about(Kind::Slow),
            is_late: about(Kind::Late),
        }
    }
}
