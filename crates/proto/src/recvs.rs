//! Pending receives: those that are posted, and those whose message is on its way.

use crate::api::Recv;
use crate::core::Core;
use crate::multi::Multis;
use crate::rendezvous::pull::Pull;
use crate::request::{RecvOp, RecvState};
use sluice_portals::{Handle, Me, Table};
use sluice_wire::{PeerId, Region};

/// See the module.
#[derive(Debug)]
pub(crate) struct Recvs {
    ops: Table<RecvOp>,
    next_serial: u64,
    pub multis: Multis,
}

impl Recvs {
    pub fn new(requests_max: u32) -> Recvs {
        Recvs { ops: Table::new(requests_max), next_serial: 0, multis: Multis::new(requests_max) }
    }

    pub fn len(&self) -> u32 {
        self.ops.len()
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.ops.is_full()
    }

    /// The name that the next receive will have.
    #[inline]
    pub fn next_handle(&self) -> Handle<RecvOp> {
        self.ops.next_handle()
    }

    #[inline]
    pub fn get(&self, handle: Handle<RecvOp>) -> Option<&RecvOp> {
        self.ops.get(handle)
    }

    #[inline]
    pub fn get_mut(&mut self, handle: Handle<RecvOp>) -> Option<&mut RecvOp> {
        self.ops.get_mut(handle)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Handle<RecvOp>, &RecvOp)> {
        self.ops.iter()
    }

    /// Places of receives and probes that were given.
    pub fn serials_given(&self) -> u64 {
        self.next_serial
    }

    /// The place of a receive or a probe in the order of their calls.
    #[inline]
    pub fn take_serial(&mut self) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        serial
    }

    /// A receive that waits behind `entry` for a message; without one, for that which
    /// was there already. Its name and its place.
    ///
    /// # Panics
    /// If there are as many as may be.
    #[inline]
    pub fn insert(&mut self, recv: &Recv, entry: Option<Handle<Me>>) -> (Handle<RecvOp>, u64) {
        self.insert_as(recv, RecvState::Posted(entry))
    }

    /// The same for one that the rail matches.
    pub fn insert_at_rail(&mut self, recv: &Recv) -> Handle<RecvOp> {
        self.insert_as(recv, RecvState::AtRail).0
    }

    #[inline(always)]
    fn insert_as(&mut self, recv: &Recv, state: RecvState) -> (Handle<RecvOp>, u64) {
        let serial = self.next_serial;
        let op = RecvOp { recv: *recv, serial, state, announced: None, multi: None };
        let Ok(handle) = self.ops.insert(op) else { unreachable!("room was checked") };
        self.next_serial += 1;
        (handle, serial)
    }

    /// A receive has ended; this was all of it that counts.
    #[inline]
    pub fn discard(&mut self, handle: Handle<RecvOp>) {
        self.ops.discard(handle);
    }

    pub fn remove(&mut self, handle: Handle<RecvOp>) -> Option<RecvOp> {
        self.ops.remove(handle)
    }

    /// Takes a posted receive back.
    pub fn unpost(&mut self, core: &mut Core, handle: Handle<RecvOp>) -> Option<RecvOp> {
        let op = self.ops.remove(handle)?;
        if let RecvState::Posted(Some(entry)) = op.state {
            let unlinked = core.ni.me_unlink(entry);
            assert!(unlinked.is_ok(), "a posted receive's entry is linked");
        }
        Some(op)
    }

    /// The oldest one with this context that has met no message.
    pub fn oldest_posted(&self, context: u64) -> Option<Handle<RecvOp>> {
        let posted = self.ops.iter().filter(|(_, op)| op.recv.context == context);
        let oldest = posted.filter(|(_, op)| op.is_posted()).min_by_key(|(_, op)| op.serial);
        oldest.map(|(handle, _)| handle)
    }

    /// Those that only `peer` could fill.
    pub fn only_from(&self, peer: PeerId) -> Vec<Handle<RecvOp>> {
        let waits =
            |op: &RecvOp| op.recv.source == Some(peer) && matches!(op.state, RecvState::Posted(_));
        self.ops.iter().filter(|(_, op)| waits(op)).map(|(handle, _)| handle).collect()
    }

    /// Those that the rail matches and that `is_meant`, oldest first.
    pub fn at_rail(&self, is_meant: impl Fn(&Recv) -> bool) -> Vec<Handle<RecvOp>> {
        let at_rail = self.ops.iter().filter(|(_, op)| matches!(op.state, RecvState::AtRail));
        let meant = at_rail.filter(|(_, op)| is_meant(&op.recv));
        let mut meant: Vec<_> = meant.map(|(handle, op)| (op.serial, handle)).collect();
        meant.sort_unstable_by_key(|(serial, _)| *serial);
        meant.into_iter().map(|(_, handle)| handle).collect()
    }

    /// Those whose message is on its way from `peer`.
    pub fn pulled_from(&self, peer: PeerId) -> Vec<Handle<RecvOp>> {
        let is_pulled =
            |op: &RecvOp| matches!(&op.state, RecvState::Pulling(pull) if pull.event.peer == peer);
        self.ops.iter().filter(|(_, op)| is_pulled(op)).map(|(handle, _)| handle).collect()
    }

    /// The buffer of a receive whose message is on its way, and the message.
    pub fn pulling(&mut self, handle: Handle<RecvOp>) -> Option<(Region, &mut Pull)> {
        let op = self.ops.get_mut(handle)?;
        match &mut op.state {
            RecvState::Pulling(pull) => Some((op.recv.buf, pull)),
            RecvState::Posted(_) | RecvState::AtRail => None,
        }
    }

    /// The message that is on its way to a receive.
    pub fn pull_mut(&mut self, handle: Handle<RecvOp>) -> Option<&mut Pull> {
        match &mut self.ops.get_mut(handle)?.state {
            RecvState::Pulling(pull) => Some(pull),
            RecvState::Posted(_) | RecvState::AtRail => None,
        }
    }
}
