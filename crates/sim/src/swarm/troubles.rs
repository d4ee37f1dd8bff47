//! What befalls a process on any host: it is stopped, takes what comes slowly, its clock
//! jumps. Each begins once so many calls into the machines have been made, and ends by itself.
//! Clocks only go ahead: what processes read never goes back.

use super::draw::Draw;
use super::world::World;
use crate::rails::{Kind, Note};

/// Of a hundred worlds, in how many something befalls processes.
const PERCENT: u64 = 25;
/// Most that does, so that processes of other hosts do not give one up for it.
const COUNT_MAX: u64 = 3;
/// The part of a peer's patience that one of them takes at most.
const PART: u64 = 14;
/// By how much a process looks more seldom while it is slow.
const SLOW: u64 = 200;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trouble {
    pub kind: Kind,
    pub who: usize,
    after_steps: u64,
    ns: u64,
}

/// What a seed draws of them, in the order in which they begin. No process of another host
/// gives up one that does not answer for less than `gone_ns`.
pub(super) fn draw(seed: u64, processes: usize, gone_ns: u64) -> Vec<Trouble> {
    let mut draw = Draw::stream(seed, 41);
    let count = if draw.percent(PERCENT) { draw.between(1, COUNT_MAX) } else { 0 };
    let trouble = |_| {
        let kind = draw.pick(&[Kind::Stopped, Kind::SlowSink, Kind::ClockJump]);
        let steps = draw.pick(&[10, 100, 400]);
        let most = match kind {
            Kind::ClockJump => draw.pick(&[1_000, 20_000_000, 1_000_000_000, 2 * gone_ns]),
            _ => draw.pick(&[2_000, 100_000, 2_000_000]).min(gone_ns / PART),
        };
        Trouble {
            kind,
            who: draw.below(processes as u64) as usize,
            after_steps: draw.below(steps),
            ns: 1 + draw.below(most),
        }
    };
    let mut troubles: Vec<Trouble> = (0..count).map(trouble).collect();
    troubles.sort_by_key(|trouble| trouble.after_steps);
    troubles
}

impl World<'_> {
    /// Something of this kind has happened in this world.
    pub fn befall(&mut self, kind: Kind) {
        self.rails.fault_counts.note(kind);
        self.trace.set_faults(self.rails.fault_counts);
    }

    /// Begins what is due.
    pub(super) fn begin_troubles(&mut self) {
        while let Some(&trouble) = self.setup.troubles.get(self.troubles_begun) {
            if self.steps < trouble.after_steps {
                return;
            }
            self.troubles_begun += 1;
            if !self.is_dead(trouble.who) {
                self.begin_trouble(trouble);
            }
        }
    }

    fn begin_trouble(&mut self, trouble: Trouble) {
        let Trouble { kind, who, ns, .. } = trouble;
        self.befall(kind);
        self.note(who, super::trace::What::Rails(Note::Fault(kind, who, ns)));
        let until = self.now_ns + ns;
        match kind {
            Kind::Stopped => self.rails.stop(who, until),
            Kind::SlowSink => self.slow_until[who] = until.max(self.slow_until[who]),
            Kind::ClockJump => self.on_rails(|rails, cx| rails.jump(cx, who, ns)),
            _ => unreachable!("it is drawn here"),
        }
        self.rouse(who);
    }

    /// Whether a process takes what comes slowly now.
    pub fn is_slow(&self, who: usize) -> bool {
        self.slow_until[who] > self.now_ns
    }

    /// A process will look after a while.
    pub fn rouse(&mut self, who: usize) {
        let slow = if self.is_slow(who) { SLOW } else { 1 };
        self.wake(who, self.now_ns + self.setup.poll_ns[who] * slow);
    }
}
