//! How each rail to one peer is: whether it can be used, is silent, is down, or returns.
//!
//! A rail is expected to say something once it was asked for something. One that is silent
//! while a sibling speaks is *suspect*: nothing more is given to it, what it owes goes over
//! the others, and it is probed. All are silent where the peer's core is busy, so without a
//! sibling that speaks it is waited for longer. A suspect rail that speaks is up again at
//! once, and from then on it is waited for twice as long as it was silent, for a while:
//! else one whose answers take longer than the wait would be asked in vain for ever. The wait
//! shrinks again once its answers come sooner. One
//! that stays silent, or breaks, is *down*: it is closed, and opened anew after a while that
//! doubles. A peer all of whose rails have been down for long is *gone*.
//!
//! A rail may be *cut*: the device that it goes by carries nothing, as the system says
//! ([`Rails::cut`]). It is closed at once, whether something is expected of it or not, and
//! is hardly tried until it is mended. Each attempt would leave behind a host that the system
//! looks for in vain, and goes on looking for once a second when the link is there again.
//!
//! Time counts only while somebody looks: whoever was away longer than all may be silent goes on
//! as if it had not been.
//!
//! A rail may be *spare*: it is not opened before somebody needs it ([`Rails::wake`]), or another
//! one is suspect or down.
//!
//! Invariant: after [`Verdict::Close`] a rail is not used until it has been opened.

use crate::RailId;
use sluice_wire::Nanos;

/// So much more seldom is a cut rail tried than one that fails again and again.
const CUT_RETRIES: u64 = 10;

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Silence after which a rail is suspect while a sibling speaks.
    pub suspect_ns: u64,
    /// The same where no sibling does.
    pub suspect_alone_ns: u64,
    /// Silence of a suspect rail after which it is down.
    pub down_ns: u64,
    /// How long opening may take.
    pub open_ns: u64,
    /// From a rail's end until it is opened anew, the first time.
    pub retry_ns_min: u64,
    /// The longest such time; it doubles with each failure.
    pub retry_ns_max: u64,
    /// How long a peer may be without any rail.
    pub gone_ns: u64,
    /// Time between two probes of a rail that nothing is expected of, to a peer whose end
    /// somebody waits for.
    pub idle_probe_ns: u64,
}

impl Default for Timing {
    /// Measured on shaped links: asking elsewhere after 10 to 50 ms of silence leaves no gap
    /// above 5 ms; a busy core silences all rails for 50 to 300 ms.
    fn default() -> Timing {
        Timing {
            suspect_ns: 15_000_000,
            suspect_alone_ns: 500_000_000,
            down_ns: 1_000_000_000,
            open_ns: 2_000_000_000,
            retry_ns_min: 10_000_000,
            retry_ns_max: 1_000_000_000,
            gone_ns: 30_000_000_000,
            idle_probe_ns: 1_000_000_000,
        }
    }
}

/// How a rail is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RailState {
    /// Nobody has needed it so far, so it was not opened.
    Spare,
    /// It is being opened.
    Opening,
    /// It can be used.
    Up,
    /// It is silent; nothing more is given to it.
    Suspect,
    /// It is closed, and will be opened anew.
    Down,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Open this rail.
    Open(RailId),
    /// Give this rail nothing more, and ask it for an answer.
    Suspect(RailId),
    /// Ask this rail for an answer.
    Probe(RailId),
    /// Close this rail: nothing of it may arrive after that.
    Close(RailId),
    /// Nothing more is to be tried.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Rail {
    state: RailState,
    /// When anything came from it last, or it was opened.
    heard: Nanos,
    /// Since when something is expected of it.
    expected: Option<Nanos>,
    /// When the state began.
    since: Nanos,
    /// When it was probed last.
    probed: Nanos,
    /// The next time before it is opened anew.
    retry_ns: u64,
    /// What its state leads to at last is to happen now: one that is down is opened, any
    /// other is closed.
    is_due: bool,
    /// The device that it goes by carries nothing.
    is_cut: bool,
    /// Silence after which it is suspect while a sibling speaks, and since when that is so.
    patience_ns: u64,
    patient_since: Nanos,
    /// Its longest silence since then that was followed by an answer.
    silent_ns_max: u64,
    /// It was never open.
    is_fresh: bool,
}

/// The rails to one peer.
#[derive(Clone, Debug)]
pub struct Rails {
    timing: Timing,
    rails: Vec<Rail>,
    /// Since when no rail could be used.
    none_since: Option<Nanos>,
    is_gone: bool,
    is_watched: bool,
    /// When [`Rails::next_verdict`] was asked last.
    looked: Nanos,
}

impl Rails {
    /// `count` rails, all of which are to be opened.
    ///
    /// # Panics
    /// If there are none, or more than [`RailId::COUNT_MAX`].
    #[must_use]
    pub fn new(timing: Timing, count: usize, now: Nanos) -> Rails {
        assert!((1..=RailId::COUNT_MAX).contains(&count), "{count} rails");
        let rail = Rail {
            state: RailState::Down,
            heard: now,
            expected: None,
            since: now,
            probed: now,
            retry_ns: 0,
            is_due: true,
            is_cut: false,
            patience_ns: timing.suspect_ns,
            patient_since: now,
            silent_ns_max: 0,
            is_fresh: true,
        };
        Rails {
            timing,
            rails: vec![rail; count],
            none_since: Some(now),
            is_gone: false,
            is_watched: false,
            looked: now,
        }
    }

    /// How a rail is.
    #[must_use]
    pub fn state(&self, rail: RailId) -> RailState {
        self.rails[rail.index()].state
    }

    /// Rails other than this one are opened only when they are needed.
    pub fn spare_others(&mut self, first: RailId) {
        for (rail, at) in self.rails.iter_mut().zip(0..) {
            if RailId(at) != first && rail.is_fresh && rail.state == RailState::Down {
                (rail.state, rail.is_due) = (RailState::Spare, false);
            }
        }
    }

    /// Spare rails are needed: they are opened by the next verdicts. Says whether there are
    /// any.
    pub fn wake(&mut self) -> bool {
        let mut spares = self.rails.iter_mut().filter(|rail| rail.state == RailState::Spare);
        let mut is_any = false;
        for rail in &mut spares {
            (rail.state, rail.retry_ns, rail.is_due) = (RailState::Down, 0, !rail.is_cut);
            is_any = true;
        }
        is_any
    }

    /// Whether a rail was never open.
    #[must_use]
    pub fn is_fresh(&self, rail: RailId) -> bool {
        self.rails[rail.index()].is_fresh
    }

    /// The rails that can be used.
    pub fn usable(&self) -> impl Iterator<Item = RailId> {
        let up = |(_, rail): &(usize, &Rail)| rail.state == RailState::Up;
        self.rails.iter().enumerate().filter(up).map(|(at, _)| RailId(at as u8))
    }

    /// Whether the peer was declared gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Somebody waits for the peer's end, also if nothing is expected of it.
    pub fn watch(&mut self) {
        self.is_watched = true;
    }

    /// A rail is open, whichever side has opened it: a peer that comes before this side
    /// has tried again is welcome, or both might miss each other for ever. False if the
    /// peer is gone, or the rail is open already: the new one is to be closed again. Whoever
    /// wants it in the place of the old one closes that first, and says so
    /// ([`Rails::broke`]).
    #[must_use]
    pub fn opened(&mut self, rail: RailId, now: Nanos) -> bool {
        let known = &mut self.rails[rail.index()];
        if self.is_gone || matches!(known.state, RailState::Up | RailState::Suspect) {
            return false;
        }
        known.enter(RailState::Up, now);
        (known.heard, known.expected, known.is_fresh) = (now, None, false);
        // Whatever the system says, it carries something.
        known.is_cut = false;
        self.none_since = None;
        true
    }

    /// The device that a rail goes by carries nothing any more: it is closed by the next
    /// verdicts, and hardly tried until it is mended.
    pub fn cut(&mut self, rail: RailId) {
        let known = &mut self.rails[rail.index()];
        known.is_cut = true;
        known.is_due = match known.state {
            RailState::Spare | RailState::Down => false,
            RailState::Opening | RailState::Up | RailState::Suspect => true,
        };
    }

    /// The device that a rail goes by carries something again: one that is down is opened by
    /// the next verdicts.
    pub fn mended(&mut self, rail: RailId) {
        let known = &mut self.rails[rail.index()];
        if std::mem::take(&mut known.is_cut) && known.state == RailState::Down {
            (known.retry_ns, known.is_due) = (0, true);
        }
    }

    /// A rail has broken, or could not be opened. It is closed already.
    pub fn broke(&mut self, rail: RailId, now: Nanos) {
        self.rails[rail.index()].fall(&self.timing, now);
        self.count(now);
        self.wake();
    }

    /// Something was asked of a rail, so it will say something.
    pub fn expect(&mut self, rail: RailId, now: Nanos) {
        self.rails[rail.index()].expected.get_or_insert(now);
    }

    /// Something has come from a rail; `is_owed` says whether more is expected of it.
    /// Says whether it can be used again by that.
    pub fn heard(&mut self, rail: RailId, now: Nanos, is_owed: bool) -> bool {
        let known = &mut self.rails[rail.index()];
        known.learn_patience(&self.timing, now);
        known.heard = now;
        known.expected = is_owed.then_some(now);
        known.retry_ns = 0;
        if known.state != RailState::Suspect {
            return false;
        }
        known.enter(RailState::Up, now);
        self.none_since = None;
        true
    }

    /// The peer's host takes what is sent on a rail, whatever the process does: the rail
    /// is not what is silent. Says whether it can be used again by that.
    pub fn alive(&mut self, rail: RailId, now: Nanos, is_owed: bool) -> bool {
        let known = &mut self.rails[rail.index()];
        match known.state {
            RailState::Spare | RailState::Down => return false,
            RailState::Opening => known.since = now,
            RailState::Up | RailState::Suspect => return self.heard(rail, now, is_owed),
        }
        self.none_since = self.none_since.map(|_| now);
        false
    }

    /// A network has changed: what is down is tried again at once, unless it is cut, and what
    /// is suspect is closed and opened anew. Its connection would wait for its own next try,
    /// which is the later the longer the network was away.
    pub fn retry(&mut self) {
        for rail in self.rails.iter_mut().filter(|rail| !rail.is_cut) {
            match rail.state {
                RailState::Down => (rail.retry_ns, rail.is_due) = (0, true),
                RailState::Suspect => rail.is_due = true,
                RailState::Spare | RailState::Opening | RailState::Up => {}
            }
        }
    }

    /// What is to be done now; to be called until it says `None`, and again at
    /// [`Rails::deadline`].
    pub fn next_verdict(&mut self, now: Nanos) -> Option<Verdict> {
        if self.is_gone {
            return None;
        }
        self.forgive_absence(now);
        if self.none_since.is_some_and(|since| now.since(since).0 >= self.timing.gone_ns) {
            self.is_gone = true;
            return Some(Verdict::Gone);
        }
        let speaks_since = self.latest_heard();
        (0..self.rails.len()).find_map(|at| {
            let verdict = self.verdict_of(RailId(at as u8), speaks_since, now)?;
            self.count(now);
            if matches!(verdict, Verdict::Suspect(_) | Verdict::Close(_)) {
                self.wake();
            }
            Some(verdict)
        })
    }

    /// When [`Rails::next_verdict`] is to be asked next, if nothing happens before; `None`
    /// if there is nothing to wait for.
    #[must_use]
    pub fn deadline(&self, now: Nanos) -> Option<Nanos> {
        let is_due = !self.is_gone && self.rails.iter().any(|rail| rail.is_due);
        is_due.then_some(now).into_iter().chain(self.end_of_waits(now)).min()
    }

    /// When the first of what is waited for has taken too long.
    fn end_of_waits(&self, now: Nanos) -> Option<Nanos> {
        if self.is_gone {
            return None;
        }
        let timing = self.timing;
        let Timing { suspect_alone_ns, down_ns, open_ns, .. } = timing;
        let Timing { gone_ns, idle_probe_ns, .. } = timing;
        let of = |rail: &Rail| match rail.state {
            // What is due now is nothing that was waited for until then.
            _ if rail.is_due => None,
            RailState::Spare => None,
            RailState::Opening => Some(rail.since.saturating_add(Nanos(open_ns))),
            RailState::Down => Some(rail.since.saturating_add(Nanos(rail.closed_ns(&timing)))),
            RailState::Suspect => Some(rail.since.saturating_add(Nanos(down_ns))),
            RailState::Up => match rail.expected {
                Some(since) => {
                    // Past the first of the two it is for a sibling to speak, which is told.
                    let silent_since = since.max(rail.heard);
                    let soon = silent_since.saturating_add(Nanos(rail.patience_ns));
                    let late = silent_since.saturating_add(Nanos(suspect_alone_ns));
                    Some(if soon > now { soon } else { late })
                }
                None if self.is_watched => {
                    Some(rail.heard.max(rail.probed).saturating_add(Nanos(idle_probe_ns)))
                }
                None => None,
            },
        };
        let gone = self.none_since.map(|since| since.saturating_add(Nanos(gone_ns)));
        self.rails.iter().filter_map(of).chain(gone).min()
    }

    fn verdict_of(&mut self, id: RailId, speaks_since: Nanos, now: Nanos) -> Option<Verdict> {
        let timing = self.timing;
        let rail = &mut self.rails[id.index()];
        let in_state_ns = now.since(rail.since).0;
        match rail.state {
            RailState::Down if rail.is_due || in_state_ns >= rail.closed_ns(&timing) => {
                rail.enter(RailState::Opening, now);
                Some(Verdict::Open(id))
            }
            RailState::Opening | RailState::Up | RailState::Suspect if rail.is_due => {
                rail.fall(&timing, now);
                rail.is_due = !rail.is_cut;
                Some(Verdict::Close(id))
            }
            RailState::Opening if in_state_ns >= timing.open_ns => {
                rail.fall(&timing, now);
                Some(Verdict::Close(id))
            }
            RailState::Suspect if in_state_ns >= timing.down_ns => {
                rail.fall(&timing, now);
                Some(Verdict::Close(id))
            }
            RailState::Up => match rail.expected {
                Some(since) => {
                    let silent_ns = now.since(since.max(rail.heard)).0;
                    let sibling_speaks =
                        speaks_since > rail.heard && now.since(speaks_since).0 < timing.suspect_ns;
                    let patience_ns =
                        if sibling_speaks { rail.patience_ns } else { timing.suspect_alone_ns };
                    (silent_ns >= patience_ns).then(|| {
                        rail.enter(RailState::Suspect, now);
                        Verdict::Suspect(id)
                    })
                }
                None => {
                    let since = rail.heard.max(rail.probed);
                    let is_due = self.is_watched && now.since(since).0 >= timing.idle_probe_ns;
                    is_due.then(|| {
                        (rail.probed, rail.expected) = (now, Some(now));
                        Verdict::Probe(id)
                    })
                }
            },
            _ => None,
        }
    }

    /// Time does not count in which this process computed, and neither read what had come nor
    /// opened what was down: on its return a peer would be gone that waits for it.
    fn forgive_absence(&mut self, now: Nanos) {
        let due = self.end_of_waits(self.looked);
        let timing = self.timing;
        let Timing { open_ns, retry_ns_max, suspect_alone_ns, .. } = timing;
        let closed_ns = self.rails.iter().map(|rail| rail.closed_ns(&timing));
        // Who waits for a rail looks at least so often.
        let looks_ns = closed_ns.chain([open_ns, retry_ns_max]).max().unwrap_or(0);
        let looks_ns = looks_ns.saturating_add(suspect_alone_ns);
        let away = Nanos(now.since(self.looked).0.saturating_sub(looks_ns));
        self.none_since = self.none_since.map(|since| since.saturating_add(away).min(now));
        self.looked = now;
        let Some(late) = due.map(|due| now.since(due)) else { return };
        if late.0 <= suspect_alone_ns {
            return;
        }
        let later = |at: Nanos| at.saturating_add(late).min(now);
        for rail in &mut self.rails {
            rail.heard = later(rail.heard);
            rail.since = later(rail.since);
            rail.probed = later(rail.probed);
            rail.expected = rail.expected.map(later);
        }
    }

    fn latest_heard(&self) -> Nanos {
        let up = self.rails.iter().filter(|rail| rail.state == RailState::Up);
        up.map(|rail| rail.heard).max().unwrap_or(Nanos(0))
    }

    /// Notes since when no rail can be used.
    fn count(&mut self, now: Nanos) {
        let is_alive = |rail: &Rail| matches!(rail.state, RailState::Up | RailState::Suspect);
        if self.rails.iter().any(is_alive) {
            self.none_since = None;
        } else {
            self.none_since.get_or_insert(now);
        }
    }
}

impl Rail {
    fn enter(&mut self, state: RailState, now: Nanos) {
        (self.state, self.since, self.is_due) = (state, now, false);
    }

    /// How long it stays closed.
    fn closed_ns(&self, timing: &Timing) -> u64 {
        if self.is_cut {
            // Its address may have gone to another device.
            timing.retry_ns_max.saturating_mul(CUT_RETRIES)
        } else {
            self.retry_ns
        }
    }

    /// It speaks: how long it is waited for the next time.
    fn learn_patience(&mut self, timing: &Timing, now: Nanos) {
        let silent_ns = self.expected.map_or(0, |since| now.since(since.max(self.heard)).0);
        self.silent_ns_max = self.silent_ns_max.max(silent_ns);
        let patience_ns = if self.state == RailState::Suspect && self.expected.is_some() {
            let most = timing.suspect_alone_ns.max(timing.suspect_ns);
            self.patience_ns.max(silent_ns.saturating_mul(2).min(most))
        } else if now.since(self.patient_since).0 >= timing.down_ns {
            // Not below twice what its answers still take. Otherwise it would be suspected
            // again, and its answers be dropped because others were asked meanwhile.
            let needed_ns = self.silent_ns_max.saturating_mul(2).min(self.patience_ns);
            (self.patience_ns / 2).max(needed_ns).max(timing.suspect_ns)
        } else {
            return;
        };
        (self.patience_ns, self.patient_since) = (patience_ns, now);
        self.silent_ns_max = 0;
    }

    /// It is down. The first time it is tried again soon, then after ever longer times.
    fn fall(&mut self, timing: &Timing, now: Nanos) {
        let doubled = self.retry_ns.saturating_mul(2);
        self.retry_ns = doubled.clamp(timing.retry_ns_min, timing.retry_ns_max);
        self.expected = None;
        self.patience_ns = timing.suspect_ns;
        self.enter(RailState::Down, now);
    }
}
