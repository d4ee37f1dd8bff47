//! Receives and sends, as they are asked of the endpoint.

use super::{Channel, Node};
use crate::access::Access;
use crate::read::Reader;
use anyhow::{Result, bail};
use sluice_proto::{Recv, Refused, Send, Space};
use sluice_runtime::Context;
use sluice_wire::{Addr, Region};

/// Tags and contexts from here on are those of numbered messages.
pub(super) const NUMBERED: u64 = 1 << 32;

impl<A: Access> Node<A> {
    #[inline]
    pub(super) fn recv_of(&self, channel: Channel, buf: Region) -> Recv {
        Recv {
            space: Space::Tagged,
            source: Some(self.peer),
            buf,
            tag: channel as u64,
            ignore: 0,
            context: channel as u64,
            report: true,
        }
    }

    #[inline]
    pub(super) fn post(&mut self, recv: &Recv) -> Result<()> {
        self.look_first(recv.buf.len, Context::take_in_for_recv);
        loop {
            match self.access.with(|context| recv_with(context, recv)) {
                Ok(()) => return Ok(()),
                Err(Refused::Again) => self.poll_or_yield()?,
                Err(refused) => bail!("a receive was refused: {refused}"),
            }
        }
    }

    #[inline]
    pub(super) fn send_of(&self, channel: Channel, buf: Region, report: bool) -> Send {
        Send {
            space: Space::Tagged,
            peer: self.peer,
            buf,
            tag: channel as u64,
            data: None,
            context: channel as u64,
            report,
            inject: false,
            delivery: None,
        }
    }

    #[inline]
    pub(super) fn send(&mut self, send: &Send) -> Result<()> {
        self.look_first(send.buf.len, Context::take_in);
        match self.access.with(|context| send_with(context, send)) {
            Ok(()) => Ok(()),
            Err(refused) => self.send_again(send, refused),
        }
    }

    /// Apart from the first try, which would else compute beforehand what all tries
    /// have in common: 100 instructions that the provider does not spend.
    #[cold]
    #[inline(never)]
    fn send_again(&mut self, send: &Send, mut refused: Refused) -> Result<()> {
        while refused == Refused::Again {
            self.poll_or_yield()?;
            match self.access.with(|context| send_with(context, send)) {
                Ok(()) => return Ok(()),
                Err(why) => refused = why,
            }
        }
        bail!("a send was refused: {refused}")
    }

    /// Takes in what has arrived, if that matters to a request of this length.
    #[inline]
    fn look_first(&mut self, len: u64, take_in: impl FnOnce(&mut Context<Reader>)) {
        self.access.with(|context| {
            if context.machine().endpoint.should_poll_first(len) {
                take_in(context);
            }
        });
    }
}

#[inline(always)]
fn recv_with(context: &mut Context<Reader>, recv: &Recv) -> Result<(), Refused> {
    let (now, Reader { endpoint, .. }, port) = context.parts();
    endpoint.recv(now, port, recv)
}

#[inline(always)]
fn send_with(context: &mut Context<Reader>, send: &Send) -> Result<(), Refused> {
    let (now, Reader { endpoint, .. }, port) = context.parts();
    endpoint.send(now, port, send)
}

/// The bytes of a buffer as the endpoint names them. They are exposed: the
/// rail reads and writes them by address.
#[inline]
pub fn region(buf: &mut [u8]) -> Region {
    Region { addr: Addr(buf.as_mut_ptr().expose_provenance() as u64), len: buf.len() as u64 }
}
