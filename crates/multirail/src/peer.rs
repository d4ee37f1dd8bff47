//! One peer: its stream, its rails and what is read from it, as one machine.
//!
//! Whoever moves bytes tells it what happens to rails and what has come, and does what it
//! asks for ([`Below`]). The stream is on one rail at a time, the first that can be used in
//! the order of their latency. When that one cannot be used any more the stream goes on over
//! another, from the first packet that is not acknowledged; the peer drops what it has. Chunks
//! go over all rails that can be used.
//!
//! Invariants:
//! - Packets are given only to a rail that can be used, in the order of their numbers,
//!   beginning with the first that is kept when the stream comes to it.
//! - After the peer is gone nothing is asked for.

use crate::{
    Arrival, Ask, ChunkId, Landing, Misnumbered, Number, Pace, RailId, RailState, Rails, ReadId,
    Session, Stripes, Striping, Timing, Verdict,
};
use sluice_wire::Nanos;

/// Time between two looks at chunks that are late.
const LOOK_NS: u64 = 1_000_000;

/// What is to be done below, on rails.
pub trait Below {
    /// Opens a rail. [`Peer::opened`] or [`Peer::broke`] follows, or it is closed.
    fn open(&mut self, rail: RailId);

    /// Closes a rail: nothing of it is told any more.
    fn close(&mut self, rail: RailId);

    /// Asks the peer on a rail for an answer, whatever it is.
    fn probe(&mut self, rail: RailId);

    /// The stream goes on over this rail: all that is kept goes first, beginning with this
    /// number.
    fn resume(&mut self, rail: RailId, first: Number);

    /// Asks for a chunk.
    fn ask(&mut self, ask: Ask);

    /// So many of the oldest packets need not be kept any more.
    fn release(&mut self, count: u64);

    /// The peer is gone: nothing more comes of it.
    fn gone(&mut self);
}

/// What a rail is, before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailSpec {
    /// What its device claims, in bytes per second.
    pub bytes_per_s: u64,
    /// What is expected from asking to the first byte.
    pub latency_ns: u64,
}

/// One peer over several rails.
#[derive(Debug)]
pub struct Peer {
    session: Session,
    rails: Rails,
    stripes: Stripes,
    /// The rails in the order in which the stream prefers them.
    preferred: Vec<RailId>,
    /// The rail that the stream is on.
    current: Option<RailId>,
    next_look: Nanos,
    /// The rail of the frame that came last, and when that was.
    last_heard: Option<(RailId, Nanos)>,
}

impl Peer {
    /// A peer that has these rails in common with this process; [`Peer::advance`] opens
    /// them.
    ///
    /// # Panics
    /// If there are none, or more than [`RailId::COUNT_MAX`].
    #[must_use]
    pub fn new(specs: &[RailSpec], timing: Timing, striping: Striping, now: Nanos) -> Peer {
        let mut stripes = Stripes::new(striping);
        for spec in specs {
            let rail = stripes.add_rail(spec.bytes_per_s, spec.latency_ns);
            stripes.set_usable(rail, false);
        }
        let mut preferred: Vec<RailId> = (0..specs.len()).map(|at| RailId(at as u8)).collect();
        preferred.sort_by_key(|rail| (specs[rail.index()].latency_ns, rail.0));
        Peer {
            session: Session::default(),
            rails: Rails::new(timing, specs.len(), now),
            stripes,
            preferred,
            current: None,
            next_look: now,
            last_heard: None,
        }
    }

    /// How a rail is.
    #[must_use]
    pub fn state(&self, rail: RailId) -> RailState {
        self.rails.state(rail)
    }

    /// How fast a rail is, as far as it is known.
    #[must_use]
    pub fn pace(&self, rail: RailId) -> Pace {
        self.stripes.pace(rail)
    }

    /// How many bytes of chunks may come on a rail before it matters that somebody looks.
    #[must_use]
    pub fn may_gather(&self, rail: RailId) -> u64 {
        self.stripes.may_gather(rail)
    }

    /// Whether the peer was declared gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.rails.is_gone()
    }

    /// How many packets are kept until they are acknowledged.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.session.kept()
    }

    /// Rails other than this one, which is open or is about to be, are opened only when there
    /// is something to stripe, or another one cannot be used.
    pub fn spare_others(&mut self, first: RailId) {
        self.rails.spare_others(first);
    }

    /// Opens spare rails now, if there are any.
    pub fn open_spares(&mut self, now: Nanos, below: &mut impl Below) {
        if self.rails.wake() {
            self.advance(now, below);
        }
    }

    /// Whether a rail was never open.
    #[must_use]
    pub fn is_fresh(&self, rail: RailId) -> bool {
        self.rails.is_fresh(rail)
    }

    /// Somebody waits for the peer's end.
    pub fn watch(&mut self) {
        self.rails.watch();
    }

    /// Numbers a packet, which is kept. It goes on the rail named, behind those before it;
    /// without one it goes when the stream has a rail again ([`Below::resume`]).
    pub fn send(&mut self, now: Nanos) -> (Number, Option<RailId>) {
        if let Some(rail) = self.current {
            self.rails.expect(rail, now);
        }
        (self.session.number(), self.current)
    }

    /// Begins a read of `len` bytes, at least one.
    ///
    /// # Panics
    /// If it has no bytes, or has begun already.
    pub fn read(&mut self, now: Nanos, below: &mut impl Below, id: ReadId, len: u64) {
        self.stripes.begin(id, len);
        if self.stripes.is_worth_spreading() {
            self.open_spares(now, below);
        }
        self.ask(now, below);
    }

    /// Ends a read now; what still comes of it is dropped.
    pub fn cancel(&mut self, now: Nanos, below: &mut impl Below, id: ReadId) {
        self.stripes.cancel(id);
        self.ask(now, below);
    }

    /// A rail is open, whichever side has opened it. False if it is not wanted: it is to be
    /// closed. One that takes the place of another, which is closed, comes after
    /// [`Peer::broke`] of that.
    #[must_use]
    pub fn opened(&mut self, now: Nanos, below: &mut impl Below, rail: RailId) -> bool {
        let is_wanted = self.rails.opened(rail, now);
        if is_wanted {
            self.settle(now, below);
        }
        is_wanted
    }

    /// A rail has broken, or could not be opened. It is closed already.
    pub fn broke(&mut self, now: Nanos, below: &mut impl Below, rail: RailId) {
        self.rails.broke(rail, now);
        self.settle(now, below);
    }

    /// Something has come on a rail that says that the peer has got all packets before
    /// `acknowledged`. To be told of every frame, before what else is in it.
    ///
    /// # Errors
    /// So many were never sent. The peer is to be given up.
    pub fn heard(
        &mut self,
        now: Nanos,
        below: &mut impl Below,
        rail: RailId,
        acknowledged: Number,
    ) -> Result<(), Misnumbered> {
        self.last_heard = Some((rail, now));
        let fresh = self.session.acknowledge(acknowledged)?;
        if fresh > 0 {
            below.release(fresh);
        }
        if self.rails.heard(rail, now, self.owes(rail)) {
            self.settle(now, below);
        }
        Ok(())
    }

    /// Whether [`Peer::heard`] was told the same just now: to tell it again changes nothing.
    #[must_use]
    #[inline]
    pub fn has_heard(&self, now: Nanos, rail: RailId, acknowledged: Number) -> bool {
        self.last_heard == Some((rail, now)) && self.session.first_kept() == acknowledged
    }

    /// As [`Peer::heard`] of a rail that can be used, where nothing is to be done but to
    /// release so many packets, which it says. `None` if that is another rail, or the peer says
    /// what is not so: then [`Peer::heard`] is to be told.
    #[inline]
    pub fn heard_in_use(&mut self, now: Nanos, rail: RailId, acknowledged: Number) -> Option<u64> {
        if self.rails.state(rail) != RailState::Up {
            return None;
        }
        let fresh = self.session.acknowledge(acknowledged).ok()?;
        self.last_heard = Some((rail, now));
        self.rails.heard(rail, now, self.owes(rail));
        Some(fresh)
    }

    /// The peer's host takes what is sent on a rail, though the process may say nothing: it
    /// computes, or was stopped. Rails that are being opened are waited for then.
    pub fn alive(&mut self, now: Nanos, below: &mut impl Below, rail: RailId) {
        if self.rails.alive(rail, now, self.owes(rail)) {
            self.settle(now, below);
        }
    }

    /// A network has changed, a link is there again perhaps: rails that are down are
    /// opened by the next [`Peer::advance`].
    pub fn retry(&mut self) {
        self.rails.retry();
    }

    /// The device that a rail goes by carries nothing any more: the rail is closed, and hardly
    /// tried until [`Peer::mended`].
    pub fn cut(&mut self, now: Nanos, below: &mut impl Below, rail: RailId) {
        self.rails.cut(rail);
        self.advance(now, below);
    }

    /// The device that a rail goes by carries something again: the rail is opened by the next
    /// [`Peer::advance`].
    pub fn mended(&mut self, rail: RailId) {
        self.rails.mended(rail);
    }

    /// Whether something is expected on a rail, or it is being opened or probed: whether
    /// it matters if the peer's host takes what is sent on it.
    #[must_use]
    pub fn is_awaited(&self, rail: RailId) -> bool {
        match self.rails.state(rail) {
            RailState::Spare | RailState::Down => false,
            RailState::Opening | RailState::Suspect => true,
            RailState::Up => self.owes(rail),
        }
    }

    /// A packet has come, in the frame that [`Peer::heard`] was told of last. One that is
    /// new is to be delivered.
    ///
    /// # Errors
    /// One that it follows has not. The peer is to be given up.
    pub fn receive(&mut self, number: Number) -> Result<Arrival, Misnumbered> {
        if let Some((rail, now)) = self.last_heard {
            self.stripes.note_packet(rail, now);
        }
        self.session.receive(number)
    }

    /// What to acknowledge in a frame that goes now.
    #[must_use]
    pub fn tell(&mut self) -> Number {
        self.session.tell()
    }

    /// How many packets have come that the peer has not been told of.
    #[must_use]
    pub fn untold(&self) -> u64 {
        self.session.untold()
    }

    /// Where the next bytes of a chunk go that come on `rail`.
    #[must_use]
    pub fn landing(&self, rail: RailId, chunk: ChunkId) -> Landing {
        self.stripes.landing(rail, chunk)
    }

    /// The process looks now at what has come since then ([`Stripes::note_gap`]). To be told
    /// before [`Peer::arrived`].
    pub fn note_gap(&mut self, since: Nanos) {
        self.stripes.note_gap(since);
    }

    /// Bytes of a chunk have come, no more than it has left. Says which read has ended.
    ///
    /// # Panics
    /// If they are more.
    pub fn arrived(
        &mut self,
        now: Nanos,
        below: &mut impl Below,
        rail: RailId,
        chunk: ChunkId,
        bytes: u64,
    ) -> Option<ReadId> {
        let ended = self.stripes.arrived(now, rail, chunk, bytes);
        if self.rails.heard(rail, now, self.owes(rail)) {
            self.settle(now, below);
        }
        self.ask(now, below);
        ended
    }

    /// The peer says that it does not let this process read what a chunk is of. Says which
    /// read has ended by that; what still comes of it is dropped.
    pub fn failed(
        &mut self,
        now: Nanos,
        below: &mut impl Below,
        rail: RailId,
        chunk: ChunkId,
    ) -> Option<ReadId> {
        let ended = self.stripes.fail(rail, chunk);
        if self.rails.heard(rail, now, self.owes(rail)) {
            self.settle(now, below);
        }
        self.ask(now, below);
        ended
    }

    /// Does what is due. To be called at [`Peer::deadline`].
    pub fn advance(&mut self, now: Nanos, below: &mut impl Below) {
        while let Some(verdict) = self.rails.next_verdict(now) {
            match verdict {
                Verdict::Open(rail) => below.open(rail),
                Verdict::Close(rail) => below.close(rail),
                Verdict::Suspect(rail) | Verdict::Probe(rail) => below.probe(rail),
                Verdict::Gone => below.gone(),
            }
        }
        if now >= self.next_look {
            self.next_look = now.saturating_add(Nanos(LOOK_NS));
            self.stripes.look(now);
        }
        self.settle(now, below);
    }

    /// When [`Peer::advance`] is to be called next; `None` if there is nothing to wait for.
    #[must_use]
    pub fn deadline(&self, now: Nanos) -> Option<Nanos> {
        let looks = self.stripes.may_be_late() && !self.is_gone();
        let look = looks.then_some(self.next_look.max(Nanos(now.0 + 1)));
        self.rails.deadline(now).into_iter().chain(look).min()
    }

    /// Panics unless all books are in order.
    pub fn check_invariants(&self) {
        self.stripes.check_invariants();
        let is_up = |rail: RailId| self.rails.state(rail) == RailState::Up;
        assert!(self.current.is_none_or(is_up), "the stream is on a rail that can be used");
    }

    /// Whether something is expected on a rail.
    fn owes(&self, rail: RailId) -> bool {
        self.stripes.under_way(rail) > 0 || self.current == Some(rail) && self.session.kept() > 0
    }

    /// Has the stream and the chunks where rails can be used.
    fn settle(&mut self, now: Nanos, below: &mut impl Below) {
        for &rail in &self.preferred {
            let is_up = self.rails.state(rail) == RailState::Up;
            if is_up != self.stripes.is_usable(rail) {
                self.stripes.set_usable(rail, is_up);
            }
        }
        let is_up = |rail: RailId| self.rails.state(rail) == RailState::Up;
        if !self.current.is_some_and(is_up) {
            self.current = self.preferred.iter().copied().find(|&rail| is_up(rail));
            if let Some(rail) = self.current {
                below.resume(rail, self.session.first_kept());
                if self.session.kept() > 0 {
                    self.rails.expect(rail, now);
                }
            }
        }
        self.ask(now, below);
    }

    fn ask(&mut self, now: Nanos, below: &mut impl Below) {
        if self.is_gone() {
            return;
        }
        while let Some(ask) = self.stripes.next_ask(now) {
            self.rails.expect(ask.rail, now);
            below.ask(ask);
        }
    }
}
