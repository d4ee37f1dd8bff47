//! A peer of `multirail` that breaks a rule, if a test says so: what the swarm must find.

use sluice_multirail::{
    Arrival, Ask, Below, ChunkId, Landing, Misnumbered, Number, RailId, RailSpec, RailState,
    ReadId, Striping, Timing,
};
use sluice_wire::Nanos;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// It says that it has got one packet more than it has.
    AcknowledgesOneTooMany,
    /// It does not hear what is acknowledged.
    IgnoresAcknowledgements,
    /// What is kept is lost when the stream moves.
    ForgetsToResume,
    /// The stream goes on behind the first packet that the peer lacks.
    ResumesTooLate,
    /// What comes again is delivered again.
    DeliversDuplicates,
    /// A packet in fifty is taken for one that has come.
    LosesPackets,
    /// A packet in ten goes on another rail than the stream.
    LeavesTheStream,
    /// It keeps one packet less than is not acknowledged.
    ReleasesOneTooMany,
    /// What was asked for on a rail that is given up is not asked for elsewhere.
    NeverAsksAgain,
    /// Bytes of a chunk that was given up land.
    LandsLateBytes,
    /// A read ends with its first chunk.
    EndsReadsEarly,
    /// A chunk whose key does not reach is waited for.
    IgnoresFaults,
    /// A silent rail is taken to be well.
    TrustsSilentRails,
    /// A rail that is given up stays open.
    ForgetsToClose,
    /// A rail is opened once.
    OpensOnce,
    /// Nobody is told that the peer is gone.
    ForgetsGone,
    /// The peer is gone when one rail breaks.
    GivesUpEarly,
    /// Nobody looks whether a peer lives.
    ForgetsToWatch,
    /// Who computes is not waited for, though its host lives.
    IgnoresHosts,
}

impl Mutant {
    pub const ALL: [Mutant; 19] = [
        Mutant::AcknowledgesOneTooMany,
        Mutant::IgnoresAcknowledgements,
        Mutant::ForgetsToResume,
        Mutant::ResumesTooLate,
        Mutant::DeliversDuplicates,
        Mutant::LosesPackets,
        Mutant::LeavesTheStream,
        Mutant::ReleasesOneTooMany,
        Mutant::NeverAsksAgain,
        Mutant::LandsLateBytes,
        Mutant::EndsReadsEarly,
        Mutant::IgnoresFaults,
        Mutant::TrustsSilentRails,
        Mutant::ForgetsToClose,
        Mutant::OpensOnce,
        Mutant::ForgetsGone,
        Mutant::GivesUpEarly,
        Mutant::ForgetsToWatch,
        Mutant::IgnoresHosts,
    ];
}

thread_local! {
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Runs with peers that break this rule.
pub(crate) fn with<R>(mutant: Mutant, run: impl FnOnce() -> R) -> R {
    MUTANT.set(Some(mutant));
    let result = run();
    MUTANT.set(None);
    result
}

fn is(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

/// See the module.
#[derive(Debug)]
pub(super) struct Peer {
    inner: sluice_multirail::Peer,
    count: u64,
    seen: Seen,
}

/// What a rule that is broken is about.
#[derive(Debug, Default)]
struct Seen {
    rails_opened: BTreeSet<RailId>,
    /// Bytes of reads that were asked for.
    asked: BTreeSet<(u64, u64)>,
    chunks: BTreeMap<(RailId, u32), (Ask, u64)>,
    suspects: Vec<RailId>,
}

/// Passes on what is wanted, but for what a rule that is broken leaves out.
struct Filter<'a, B> {
    below: &'a mut B,
    seen: &'a mut Seen,
}

impl<B: Below> Below for Filter<'_, B> {
    fn open(&mut self, rail: RailId) {
        if self.seen.rails_opened.insert(rail) || !is(Mutant::OpensOnce) {
            self.below.open(rail);
        }
    }

    fn close(&mut self, rail: RailId) {
        if !is(Mutant::ForgetsToClose) {
            self.below.close(rail);
        }
    }

    fn probe(&mut self, rail: RailId) {
        self.seen.suspects.push(rail);
        self.below.probe(rail);
    }

    fn resume(&mut self, rail: RailId, first: Number) {
        if is(Mutant::ForgetsToResume) {
            return;
        }
        let more = u64::from(is(Mutant::ResumesTooLate));
        self.below.resume(rail, Number(first.0 + more));
    }

    fn ask(&mut self, ask: Ask) {
        self.seen.chunks.insert((ask.rail, ask.chunk.bits()), (ask, 0));
        let is_new = self.seen.asked.insert((ask.read.0, ask.offset));
        if is_new || !is(Mutant::NeverAsksAgain) {
            self.below.ask(ask);
        }
    }

    fn release(&mut self, count: u64) {
        self.below.release(count + u64::from(is(Mutant::ReleasesOneTooMany)));
    }

    fn gone(&mut self) {
        if !is(Mutant::ForgetsGone) {
            self.below.gone();
        }
    }
}

impl Peer {
    pub fn new(specs: &[RailSpec], timing: Timing, striping: Striping, now: Nanos) -> Peer {
        let inner = sluice_multirail::Peer::new(specs, timing, striping, now);
        Peer { inner, count: 0, seen: Seen::default() }
    }

    pub fn state(&self, rail: RailId) -> RailState {
        self.inner.state(rail)
    }

    pub fn kept(&self) -> u64 {
        self.inner.kept()
    }

    pub fn untold(&self) -> u64 {
        self.inner.untold()
    }

    pub fn deadline(&self, now: Nanos) -> Option<Nanos> {
        self.inner.deadline(now)
    }

    pub fn check_invariants(&self) {
        self.inner.check_invariants();
    }

    pub fn spare_others(&mut self, first: RailId) {
        self.inner.spare_others(first);
    }

    pub fn watch(&mut self) {
        if !is(Mutant::ForgetsToWatch) {
            self.inner.watch();
        }
    }

    pub fn send(&mut self, now: Nanos) -> (Number, Option<RailId>) {
        self.count += 1;
        let (number, rail) = self.inner.send(now);
        if !is(Mutant::LeavesTheStream) || !self.count.is_multiple_of(10) {
            return (number, rail);
        }
        let other = (0..16).map(RailId).take(self.seen.rails_opened.len());
        let is_other = |at: &RailId| Some(*at) != rail && self.inner.state(*at) == RailState::Up;
        (number, other.into_iter().find(is_other).or(rail))
    }

    pub fn read(&mut self, now: Nanos, below: &mut impl Below, id: ReadId, len: u64) {
        self.inner.read(now, &mut Filter { below, seen: &mut self.seen }, id, len);
    }

    pub fn cancel(&mut self, now: Nanos, below: &mut impl Below, id: ReadId) {
        self.inner.cancel(now, &mut Filter { below, seen: &mut self.seen }, id);
    }

    pub fn opened(&mut self, now: Nanos, below: &mut impl Below, rail: RailId) -> bool {
        self.inner.opened(now, &mut Filter { below, seen: &mut self.seen }, rail)
    }

    pub fn broke(&mut self, now: Nanos, below: &mut impl Below, rail: RailId) {
        self.inner.broke(now, &mut Filter { below, seen: &mut self.seen }, rail);
        if is(Mutant::GivesUpEarly) {
            below.gone();
        }
    }

    pub fn heard(
        &mut self,
        now: Nanos,
        below: &mut impl Below,
        rail: RailId,
        acknowledged: Number,
    ) -> Result<(), Misnumbered> {
        let acknowledged =
            if is(Mutant::IgnoresAcknowledgements) { Number(0) } else { acknowledged };
        let mut below = Filter { below, seen: &mut self.seen };
        self.inner.heard(now, &mut below, rail, acknowledged)
    }

    pub fn alive(&mut self, now: Nanos, below: &mut impl Below, rail: RailId) {
        if !is(Mutant::IgnoresHosts) {
            self.inner.alive(now, &mut Filter { below, seen: &mut self.seen }, rail);
        }
    }

    pub fn is_awaited(&self, rail: RailId) -> bool {
        self.inner.is_awaited(rail)
    }

    pub fn receive(&mut self, number: Number) -> Result<Arrival, Misnumbered> {
        self.count += 1;
        let arrival = self.inner.receive(number)?;
        match arrival {
            Arrival::Duplicate if is(Mutant::DeliversDuplicates) => Ok(Arrival::New),
            Arrival::New if is(Mutant::LosesPackets) && self.count.is_multiple_of(50) => {
                Ok(Arrival::Duplicate)
            }
            _ => Ok(arrival),
        }
    }

    pub fn tell(&mut self) -> Number {
        let told = self.inner.tell();
        Number(told.0 + u64::from(is(Mutant::AcknowledgesOneTooMany)))
    }

    pub fn landing(&self, rail: RailId, chunk: ChunkId) -> Landing {
        let landing = self.inner.landing(rail, chunk);
        let was = self.seen.chunks.get(&(rail, chunk.bits()));
        match (landing, was) {
            (Landing::Nowhere, Some((ask, come))) if is(Mutant::LandsLateBytes) => {
                Landing::Into { read: ask.read, offset: ask.offset + come, len: ask.len - come }
            }
            _ => landing,
        }
    }

    pub fn arrived(
        &mut self,
        now: Nanos,
        below: &mut impl Below,
        rail: RailId,
        chunk: ChunkId,
        bytes: u64,
    ) -> Option<ReadId> {
        let landing = self.inner.landing(rail, chunk);
        if let Some((_, come)) = self.seen.chunks.get_mut(&(rail, chunk.bits())) {
            *come += bytes;
        }
        let mut below = Filter { below, seen: &mut self.seen };
        let ended = self.inner.arrived(now, &mut below, rail, chunk, bytes);
        match landing {
            Landing::Into { read, len, .. } if is(Mutant::EndsReadsEarly) && len == bytes => {
                self.inner.cancel(now, &mut below, read);
                Some(read)
            }
            _ => ended,
        }
    }

    pub fn failed(
        &mut self,
        now: Nanos,
        below: &mut impl Below,
        rail: RailId,
        chunk: ChunkId,
    ) -> Option<ReadId> {
        if is(Mutant::IgnoresFaults) {
            return None;
        }
        self.inner.failed(now, &mut Filter { below, seen: &mut self.seen }, rail, chunk)
    }

    pub fn advance(&mut self, now: Nanos, below: &mut impl Below) {
        self.inner.advance(now, &mut Filter { below, seen: &mut self.seen });
        for rail in std::mem::take(&mut self.seen.suspects) {
            if is(Mutant::TrustsSilentRails) && self.inner.state(rail) == RailState::Suspect {
                let mut below = Filter { below, seen: &mut self.seen };
                let heard = self.inner.heard(now, &mut below, rail, Number(0));
                heard.expect("nothing is acknowledged by that");
            }
        }
    }
}
