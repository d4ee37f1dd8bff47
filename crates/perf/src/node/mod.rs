//! One process of a measurement: its rail, its endpoint, the other process,
//! and waits that end.
//!
//! | file | what it holds |
//! |---|---|
//! | `messages` | what is measured: data, and messages that have a number |
//! | `steps` | what the two processes tell each other |
//! | `remote` | operations on the other process's memory |
//! | `requests` | receives and sends, as they are asked of the endpoint |
//! | `ends` | what has ended, counted |
//! | `waits` | polls, and what is looked after while they find nothing |

mod ends;
mod messages;
mod remote;
mod requests;
mod steps;
mod waits;

use crate::access::Access;
use crate::cores::pin;
use crate::other::{Other, Second};
use crate::rail::{self, Opening};
use crate::read::{self, Reader};
use crate::step::STEP_BYTES;
use anyhow::{Result, bail};
use ends::Ends;
pub use requests::region;
use sluice_link::{Remote, RemoteMemory, Rights};
use sluice_proto::{Endpoint, Stats};
use sluice_rail::net::{Net, NetStats};
use sluice_runtime::Context;
use sluice_wire::{PeerId, RemoteKey};
use std::net::SocketAddr;
pub use waits::Idle;
use waits::POLLS_PER_LOOK;

/// What a message is, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// What to do next, from the first process to the second.
    Step = 1,
    /// The answer to a step: ready, done, or what was found.
    Answer = 2,
    /// What is measured.
    Data = 3,
}

const CHANNELS: usize = 4;

/// The end of a receive of a numbered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Which.
    pub number: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The out-of-band data that came with it.
    pub data: Option<u64>,
}

/// One process of a measurement, with its endpoint to itself unless it is said otherwise.
#[derive(Debug)]
pub struct Node<A: Access = Context<Reader>> {
    access: A,
    peer: PeerId,
    other: Other,
    /// Whether to give the core away after every poll without anything.
    yields: bool,
    /// Requests that have ended.
    ends: Ends,
    /// Steps received before the one whose receive is posted.
    steps_seen: u64,
    /// Names what is sent, as the other process was told for direct reads.
    exposed: RemoteKey,
    /// What is sent and what is received; they stay where they are.
    send_buf: Vec<u8>,
    recv_buf: Vec<u8>,
    small_out: Box<[u8; STEP_BYTES]>,
    small_in: Box<[u8; STEP_BYTES]>,
}

impl<A: Access> Node<A> {
    /// Opens the rail, on `core` if it is given.
    pub fn open(
        core: Option<usize>,
        opening: &Opening,
        other: Other,
        yields: bool,
    ) -> Result<Node<A>> {
        if let Some(core) = core {
            pin(core)?;
        }
        let context = rail::open_for_two(opening)?;
        Ok(Node {
            access: A::of(context),
            peer: PeerId(0),
            other,
            yields,
            ends: Ends::default(),
            steps_seen: 0,
            exposed: RemoteKey::NONE,
            send_buf: Vec::new(),
            recv_buf: Vec::new(),
            small_out: Box::new([0; STEP_BYTES]),
            small_in: Box::new([0; STEP_BYTES]),
        })
    }

    /// The address to be given to the other process.
    pub fn address(&self) -> Vec<u8> {
        self.access.look(rail::address)
    }

    /// Takes the other process's address.
    pub fn meet(&mut self, address: &[u8]) -> Result<()> {
        self.peer = self.access.with(|context| rail::meet(context, address))?;
        Ok(())
    }

    /// What leads to the endpoint.
    pub fn access(&self) -> &A {
        &self.access
    }

    /// Where this process is reached over the network, if it is.
    pub fn own_host(&self) -> Option<SocketAddr> {
        self.access.look(|context| context.world().address().host())
    }

    /// Where the other one is.
    pub fn peer_host(&self) -> Option<SocketAddr> {
        self.access.look(|context| context.world().peer_address(self.peer)?.host())
    }

    /// Whether a wait gives the core away.
    pub fn yields(&self) -> bool {
        self.yields
    }

    /// The second process, for the first one.
    pub fn second(&mut self) -> Result<&mut Second> {
        match &mut self.other {
            Other::Second(second) => Ok(second),
            Other::First(_) | Other::Distant => bail!("this is the second process"),
        }
    }

    /// Whether large messages are read directly from the other one's memory.
    pub fn reads_directly(&self) -> bool {
        self.access.look(|context| rail::reads_directly(context, self.peer))
    }

    /// Makes both buffers at least this long, with every page present.
    pub fn reserve(&mut self, bytes: u64) {
        self.revoke_exposed();
        grow(&mut self.send_buf, bytes);
        grow(&mut self.recv_buf, bytes);
    }

    /// The same for the buffer that messages are sent from alone.
    pub fn reserve_sent(&mut self, bytes: u64) {
        self.revoke_exposed();
        grow(&mut self.send_buf, bytes);
    }

    /// The same for the buffer that messages are received into alone.
    pub fn reserve_received(&mut self, bytes: u64) {
        grow(&mut self.recv_buf, bytes);
    }

    /// What data messages are sent from.
    pub fn send_buf(&mut self) -> &mut [u8] {
        &mut self.send_buf
    }

    /// What data messages are received into.
    pub fn recv_buf(&mut self) -> &mut [u8] {
        &mut self.recv_buf
    }

    /// Exposes the bytes that data messages are sent from, for direct reads until
    /// buffers are reserved again. The bits of their key.
    pub fn expose(&mut self) -> u64 {
        self.revoke_exposed();
        let region = region(&mut self.send_buf);
        let peer = self.peer;
        let expose =
            |context: &mut Context<_>| context.world_mut().expose(peer, region, Rights::READ);
        self.exposed = self.access.with(expose);
        self.exposed.bits()
    }

    /// Reads from the other process's memory, past all protocol. False if the
    /// system does not let it.
    pub fn read_directly(&mut self, from: u64, size: u64) -> Result<bool> {
        self.begin_read(0, from, 0, 0, size);
        let mut idle_since = None;
        let mut polls = 0u32;
        loop {
            self.poll()?;
            if let Some((_, is_done)) = self.next_read() {
                return Ok(is_done);
            }
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_PER_LOOK) {
                self.look(&mut idle_since)?;
            }
        }
    }

    /// Begins the read of this number: `size` bytes at `offset` of what the other process
    /// has exposed, to `at` of the receive buffer.
    pub fn begin_read(&mut self, read: u64, from: u64, offset: u64, at: u64, size: u64) {
        let to = region(&mut self.recv_buf[at as usize..(at + size) as usize]);
        let from = Remote { key: RemoteKey::from_bits(from), offset };
        let (peer, token) = (self.peer, read::token(read));
        self.access.with(|context| context.world_mut().read_remote(peer, from, to, token));
    }

    /// The next read that has ended, and whether it has brought its bytes.
    pub fn next_read(&mut self) -> Option<(u64, bool)> {
        let (read, outcome) = self.access.with(|context| context.machine_mut().ended.pop())?;
        Some((read, outcome.is_ok()))
    }

    /// The bound on what the endpoint keeps of messages not yet matched.
    pub fn unexpected_bytes_max(&self) -> u64 {
        let layout = self.access.look(|context| context.world().layout());
        Endpoint::unexpected_bytes_max(&layout)
    }

    /// What has happened to connections.
    pub fn net_stats(&self) -> NetStats {
        self.access.look(|context| context.world().net().map(Net::stats)).unwrap_or_default()
    }

    /// What the endpoint has done and holds.
    pub fn stats(&self) -> Stats {
        self.access.look(|context| context.machine().endpoint.stats())
    }

    fn revoke_exposed(&mut self) {
        let key = std::mem::replace(&mut self.exposed, RemoteKey::NONE);
        if key.is_some() {
            let peer = self.peer;
            self.access.with(|context| context.world_mut().revoke(peer, key));
        }
    }
}

/// Makes a buffer at least this long, with every page present.
fn grow(buf: &mut Vec<u8>, bytes: u64) {
    let len = bytes as usize;
    if buf.len() < len {
        *buf = vec![1; len];
    }
}

impl<A: Access> Drop for Node<A> {
    fn drop(&mut self) {
        self.revoke_exposed();
    }
}
