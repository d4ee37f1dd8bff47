//! Senders that have run out of credits, and asking them for what the receives and
//! probes of this process want (`stall_cursor`).

use crate::core::Core;
use crate::order::{Asker, Order};
use crate::probes::Probes;
use crate::recvs::Recvs;
use crate::request::{ProbeOp, RecvOp};
use crate::stall_cursor::Word;
use crate::wanted::Wanted;
use sluice_link::{PeerError, Port};
use sluice_portals::{Handle, PtlError};
use sluice_wire::PeerId;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Exhausted {
    /// Peers that may have messages they have no credits for. Each is here once.
    peers: Vec<PeerId>,
    /// While there are such peers: what is posted, in order.
    order: Option<Box<Order>>,
}

impl Exhausted {
    /// Whether posted receives have places here.
    #[inline(always)]
    pub fn is_tracking(&self) -> bool {
        self.order.is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// One after the other.
    pub fn get(&self, nth: usize) -> Option<PeerId> {
        self.peers.get(nth).copied()
    }

    /// Those that could fill a receive from `source`.
    pub fn able_to_fill(&self, source: Option<PeerId>) -> Vec<PeerId> {
        let can_fill = |peer: &&PeerId| source.is_none_or(|source| source == **peer);
        self.peers.iter().filter(can_fill).copied().collect()
    }

    /// This peer may have messages that it has no credits for.
    pub fn note(&mut self, core: &mut Core, recvs: &Recvs, peer: PeerId) {
        if !self.peers.contains(&peer) {
            self.peers.push(peer);
            // It is to have a cursor.
            core.peers.state_mut(peer);
        }
        self.order.get_or_insert_with(|| order_of_posted(recvs));
    }

    /// A message of the queue of `peer` is not in the matching any more, and its
    /// sender is told so when its bytes are here.
    pub fn note_taken(&mut self, core: &mut Core, recvs: &Recvs, peer: PeerId) {
        core.peers.state_mut(peer).cursor.note_taken();
        self.note(core, recvs, peer);
    }

    /// Forgets the senders that have credits again: they help themselves.
    pub fn forget_supplied(&mut self, core: &Core) {
        self.peers.retain(|&peer| may_be_stalled(core, peer));
    }

    /// Forgets a peer that is gone.
    pub fn forget(&mut self, peer: PeerId) {
        self.peers.retain(|exhausted| *exhausted != peer);
    }

    /// A receive was posted that nothing here matches, and takes its place. Forgets
    /// all places if they have not been of use for long.
    pub fn enter_recv(
        &mut self,
        probes: &Probes,
        source: Option<PeerId>,
        serial: u64,
        handle: Handle<RecvOp>,
    ) {
        let Some(order) = &mut self.order else { return };
        order.insert(source, serial, Asker::Recv(handle));
        if !self.peers.is_empty() {
            order.idle_posts = 0;
            return;
        }
        order.idle_posts += 1;
        // What building it again would cost has been paid by now.
        if order.idle_posts > order.len() && probes.is_empty() {
            self.order = None;
        }
    }

    /// A probe waits for answers, and takes its place among the receives.
    pub fn enter_probe(&mut self, source: Option<PeerId>, serial: u64, handle: Handle<ProbeOp>) {
        if let Some(order) = &mut self.order {
            order.insert(source, serial, Asker::Probe(handle));
        }
    }

    /// A receive or a probe has ended, or met its message.
    pub fn leave(&mut self, source: Option<PeerId>, serial: u64) {
        if let Some(order) = &mut self.order {
            order.remove(source, serial);
        }
    }

    /// Says and asks what there is to be said to `peer` and asked of it, as far
    /// as control credits allow.
    ///
    /// # Errors
    /// Why `peer` cannot be reached: it has sent, and has no room for what is sent to
    /// it. Receives wait for what it may still send; no probe can wait for it.
    pub fn ask<P: Port>(
        &self,
        core: &mut Core,
        recvs: &Recvs,
        probes: &Probes,
        port: &mut P,
        peer: PeerId,
    ) -> Result<(), PeerError> {
        if core.peers.gone(peer).is_some() {
            return Ok(());
        }
        while let Some(word) = self.next_word(core, recvs, probes, peer) {
            let packet = core.peers.state_mut(peer).cursor.packet(&word);
            match core.ni.tell(port, peer, &packet) {
                Ok(()) => core.peers.state_mut(peer).cursor.on_said(word),
                Err(PtlError::NoCredit { .. }) => {
                    core.peers.note_pending_control(peer);
                    return Ok(());
                }
                Err(PtlError::Peer(why)) => return Err(why),
                Err(error) => unreachable!("a word needs nothing but a credit: {error}"),
            }
        }
        Ok(())
    }

    /// What is to be said to `peer` next: no question before the declines, and
    /// one of a kind at a time.
    fn next_word(&self, core: &Core, recvs: &Recvs, probes: &Probes, peer: PeerId) -> Option<Word> {
        let cursor = &core.peers.get(peer)?.cursor;
        if let Some(decline) = cursor.next_decline() {
            return Some(decline);
        }
        // A probe that counts on an answer gets it, though the sender may have
        // credits by now; a receive then meets what comes by itself.
        if cursor.is_searching() || !(may_be_stalled(core, peer) || probes.await_answer_of(peer)) {
            return None;
        }
        cursor.next_question(peer, self.order.as_ref()?, |asker| match asker {
            Asker::Recv(handle) => recvs.get(handle).map(|op| Wanted::of(&op.recv)),
            Asker::Probe(handle) => probes.wanted_of(handle, peer),
        })
    }

    /// Panics unless the places of receives and probes are in order.
    pub fn check_invariants(&self, core: &Core, recvs: &Recvs, probes: &Probes) {
        let Some(order) = &self.order else {
            return assert!(probes.is_empty(), "a probe waits without a place");
        };
        let posted = recvs.iter().filter(|(_, op)| op.is_posted());
        let posted = posted.map(|(handle, op)| (op.recv.source, op.serial, Asker::Recv(handle)));
        let probes = probes.iter().map(|(handle, op)| {
            assert!(!op.pending.is_empty(), "a probe waits for nobody");
            (op.probe.source, op.serial, Asker::Probe(handle))
        });
        let mut count = 0;
        for (source, serial, asker) in posted.chain(probes) {
            assert!(order.holds(source, serial, asker), "a receive has no place");
            count += 1;
        }
        assert!(count == order.len(), "a place is nobody's");
        for state in core.peers.iter() {
            state.cursor.check_invariants();
        }
    }
}

/// Whether `peer` may have messages that it cannot send by itself.
fn may_be_stalled(core: &Core, peer: PeerId) -> bool {
    let is_held_back = core.peers.get(peer).is_some_and(|state| state.cursor.is_held_back());
    (is_held_back || core.ni.is_exhausted(peer)) && core.peers.gone(peer).is_none()
}

/// Every posted receive, in order.
fn order_of_posted(recvs: &Recvs) -> Box<Order> {
    let mut order = Box::<Order>::default();
    for (handle, op) in recvs.iter().filter(|(_, op)| op.is_posted()) {
        order.insert(op.recv.source, op.serial, Asker::Recv(handle));
    }
    order
}
