//! Operations on the memory of the other process.

use super::Node;
use super::requests::region;
use crate::access::Access;
use crate::read::Reader;
use anyhow::{Result, bail};
use sluice_proto::{Access as Rights, Deed, Exposed, Part, Refused, Rma};
use sluice_runtime::Context;
use sluice_wire::ITEM_BYTES_MAX;

/// What the second process calls its receive buffer.
const KEY: u64 = 1;

impl<A: Access> Node<A> {
    /// Lets the other process write, read and combine with the receive buffer, as long as
    /// this one lives. It must not be reserved anew.
    pub fn share(&mut self) -> Result<()> {
        let buf = region(&mut self.recv_buf);
        let exposed = Exposed {
            key: KEY,
            pieces: &[buf],
            access: Rights { read: true, write: true },
            addressed: false,
            told: None,
        };
        let shared = self.access.with(|context| {
            let (_, Reader { endpoint, .. }, port) = context.parts();
            endpoint.expose(port, &exposed)
        });
        match shared {
            Ok(_) => Ok(()),
            Err(refused) => bail!("the buffer was not exposed: {refused}"),
        }
    }

    /// Begins an operation on `size` bytes at the beginning of what the other process shares:
    /// with those of the send buffer, or into the receive buffer.
    #[inline]
    pub fn begin_remote(&mut self, deed: Deed, size: u64, operand: u64) -> Result<()> {
        let from = region(&mut self.send_buf[..size as usize]);
        let into = region(&mut self.recv_buf[..size as usize]);
        let mut bytes = [0; ITEM_BYTES_MAX];
        bytes[..8].copy_from_slice(&operand.to_le_bytes());
        let local = if deed == Deed::Read { into } else { from };
        let parts = [Part { local, key: KEY, offset: 0, result: into.addr, operand: bytes }];
        let (peer, data, context) = (self.peer, None, 0);
        let (report, inject, fence) = (true, false, false);
        let rma = Rma { deed, peer, parts: &parts, data, context, report, inject, fence };
        loop {
            match self.access.with(|context| begin_with(context, &rma)) {
                Ok(()) => return Ok(()),
                Err(Refused::Again) => self.poll_or_yield()?,
                Err(refused) => bail!("an operation was refused: {refused}"),
            }
        }
    }

    /// Operations on the other process's memory that have ended so far.
    #[inline]
    pub fn remote_ended(&self) -> u64 {
        self.ends.remote
    }

    /// Waits until so many of them have ended in all.
    #[inline]
    pub fn wait_remote(&mut self, count: u64) -> Result<()> {
        self.wait(|node| node.ends.remote >= count)
    }
}

#[inline(always)]
fn begin_with(context: &mut Context<Reader>, rma: &Rma) -> Result<(), Refused> {
    let (now, Reader { endpoint, .. }, port) = context.parts();
    endpoint.rma(now, port, rma)
}
