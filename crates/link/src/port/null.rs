//! A port without a world, to measure a machine alone.

use super::{
    Connect, LocalMemory, NoShared, PeerError, Port, Remote, RemoteCaps, RemoteMemory, Rights,
    Token, Transmitted, Transport,
};
use crate::quota::Opened;
use sluice_wire::{Addr, HeadBuf, PeerId, Region, RemoteKey};

/// A [`Port`] that does nothing and keeps nothing. It drops every packet and copies no
/// byte. What is read is zero, all local memory counts as mapped, and remote memory
/// cannot be reached.
///
/// So what a machine takes in time or memory is the machine's own. The port suits
/// messages without bytes and programs that look at no payload.
#[derive(Clone, Copy, Debug)]
pub struct NullPort {
    /// What the mailbox of each peer grants.
    pub opened: Opened,
}

impl Transport for NullPort {
    fn connect(&mut self, _: PeerId) -> Result<Connect, PeerError> {
        Ok(Connect::Ready(self.opened))
    }

    fn watch(&mut self, _: PeerId) {}

    fn refuse(&mut self, _: PeerId) {}

    fn transmit(&mut self, _: PeerId, _: &HeadBuf, _: Region, _: Token) -> Transmitted {
        Transmitted::Done
    }

    fn is_looking(&mut self, _: PeerId, _: u64) -> bool {
        false
    }

    fn uid(&self, _: PeerId) -> u32 {
        0
    }
}

impl LocalMemory for NullPort {
    fn copy_payload(&mut self, _: u32, _: Addr, _: u32) -> bool {
        true
    }

    fn payload(&self, _: u32, into: &mut [u8]) {
        into.fill(0);
    }

    fn copy(&mut self, _: Addr, _: Addr, _: u64) {}

    fn lend(&mut self, _: u32) -> Addr {
        Addr(0)
    }

    fn give_back(&mut self, _: Addr, _: u32) {}

    fn readable(&self, _: Region) -> bool {
        true
    }

    fn writable(&self, _: Region) -> bool {
        true
    }

    fn load(&self, _: Addr, into: &mut [u8]) {
        into.fill(0);
    }

    fn store(&mut self, _: Addr, _: &[u8]) {}

    fn compare_exchange(&mut self, _: Addr, _: u32, _: u64, _: u64) -> Result<(), u64> {
        Ok(())
    }
}

impl RemoteMemory for NullPort {
    fn caps(&self, _: PeerId) -> RemoteCaps {
        RemoteCaps::default()
    }

    fn expose(&mut self, _: PeerId, _: Region, _: Rights) -> RemoteKey {
        RemoteKey::NONE
    }

    fn revoke(&mut self, _: PeerId, _: RemoteKey) {}

    fn read_remote(&mut self, _: PeerId, _: Remote, _: Region, _: Token) {}

    fn write_remote(&mut self, _: PeerId, _: Region, _: Remote, _: Token) {}
}

impl Port for NullPort {
    type Shared = NoShared;

    fn shared(&mut self) -> Option<&mut NoShared> {
        None
    }
}
