//! The port's part of a rail that matches messages: what the machine asks of it, and what it
//! is told.

use super::{NET_INPUTS_MAX, World};
use crate::net::Net;
use crate::ofi::Matcher;
use sluice_link::{Full, Machine, TagMatching, TaggedMessage, TaggedWanted, Token};
use sluice_wire::{Nanos, PeerId, PtIndex, Region};

impl World {
    /// Tells what the rail that matches has to tell.
    #[inline(never)]
    pub(super) fn tell_matched<M: Machine>(&mut self, now: Nanos, machine: &mut M) -> usize {
        let mut inputs = 0;
        while inputs < NET_INPUTS_MAX {
            let Some((token, end)) = self.net.as_mut().and_then(|net| net.next_matched()) else {
                break;
            };
            inputs += 1;
            machine.on_tagged(now, self, token, end);
        }
        while let Some((peer, why)) = self.net.as_mut().and_then(|net| net.next_departed()) {
            inputs += 1;
            machine.on_peer_gone(now, self, peer, why);
        }
        inputs
    }

    /// The network, which has a rail that matches.
    fn matching(&mut self) -> &mut Net {
        self.shm.attend_to_others();
        let net = self.net.as_deref_mut().expect("the machine asks where a rail matches");
        net.set_now(self.shm.refresh_now());
        net
    }
}

impl TagMatching for World {
    fn bytes_max(&self) -> u64 {
        Matcher::bytes_max()
    }

    fn post(&mut self, wanted: &TaggedWanted, into: Region, token: Token) -> Result<(), Full> {
        self.matching().post_receive(wanted, into, token)
    }

    fn nobody_waits(&mut self, list: PtIndex) {
        self.matching().end_waiting(list);
    }

    fn cancel(&mut self, token: Token) -> bool {
        self.matching().cancel_receive(token)
    }

    fn send(
        &mut self,
        peer: PeerId,
        message: &TaggedMessage,
        bytes: Region,
        token: Option<Token>,
    ) -> Result<(), Full> {
        // SAFETY: the machine vouches for the bytes, by the contract of `send`.
        unsafe { self.matching().send_tagged(peer, message, bytes, token) }?;
        self.shm.observe_matched(peer, message);
        Ok(())
    }

    fn search(
        &mut self,
        wanted: &TaggedWanted,
        claim: Option<Token>,
    ) -> Option<(PeerId, TaggedMessage)> {
        self.matching().search_tagged(wanted, claim)
    }

    fn claim_first(
        &mut self,
        list: PtIndex,
        wants: &mut dyn FnMut(PeerId, &TaggedMessage) -> bool,
        claim: Token,
    ) -> Option<(PeerId, TaggedMessage)> {
        self.matching().claim_first_tagged(list, wants, claim)
    }

    fn take(&mut self, claim: Token, into: Region) {
        self.matching().take_claimed(claim, into);
    }
}
