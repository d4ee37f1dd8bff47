//! One process of a measurement through `libportals`: its interface, the memory
//! that is put from, put to and got from, and how often each has happened.
//!
//! Whoever puts uses a descriptor whose counter counts acknowledgements; the
//! target's entry stays linked and its counter counts what arrives. No events
//! are asked for.

use crate::cores::pin;
use crate::measured::NiKind;
use crate::verify::{fill, first_wrong};
use anyhow::{Context, Result, bail, ensure};
use portals::program::{Counter, Descriptor, Interface, Memory, Op, Process, Target};

/// Where puts go.
const PUTS_AT: u32 = 1;
/// Where gets are answered.
const GETS_AT: u32 = 2;
const MATCH_BITS: u64 = 0x0053_4C55_4943_4500;

/// One process of a measurement.
#[derive(Debug)]
pub struct PortalsNode {
    ni: Interface,
    peer: Process,
    /// Put from here, and got from here by the other process.
    outgoing: Memory,
    /// Put to by the other process, and got into.
    incoming: Memory,
    puts: Descriptor,
    gets: Descriptor,
    acks: Counter,
    replies: Counter,
    arrivals: Counter,
    /// What the counters will have counted when all that was waited for is there.
    acked: u64,
    replied: u64,
    arrived: u64,
}

impl PortalsNode {
    /// Opens an interface, on `core` if it is given, for messages of `bytes` at
    /// the most. The thread that the library starts runs where this one does.
    pub fn open(core: Option<usize>, kind: NiKind, bytes: u64) -> Result<PortalsNode> {
        if let Some(core) = core {
            pin(core)?;
        }
        let ni = Interface::open(kind == NiKind::Matching)?;
        let len = bytes.max(1) as usize;
        let (outgoing, incoming) = (ni.memory(len), ni.memory(len));
        let (acks, replies, arrivals) = (ni.counter()?, ni.counter()?, ni.counter()?);
        ni.expose(&incoming, Op::Put, PUTS_AT, MATCH_BITS, Some(arrivals))?;
        ni.expose(&outgoing, Op::Get, GETS_AT, MATCH_BITS, None)?;
        Ok(PortalsNode {
            peer: ni.identity()?,
            outgoing,
            incoming,
            puts: ni.bind(&outgoing, Op::Put, acks)?,
            gets: ni.bind(&incoming, Op::Get, replies)?,
            acks,
            replies,
            arrivals,
            acked: 0,
            replied: 0,
            arrived: 0,
            ni,
        })
    }

    /// This process, for [`PortalsNode::meet`] of the other one.
    pub fn address(&self) -> Result<Vec<u8>> {
        let own = self.ni.identity()?;
        Ok([own.nid.to_le_bytes(), own.pid.to_le_bytes()].concat())
    }

    /// Takes the other process's address.
    pub fn meet(&mut self, address: &[u8]) -> Result<()> {
        let (nid, pid) = address.split_first_chunk().context("an address too short")?;
        let pid = pid.try_into().context("an address of another length")?;
        self.peer = Process { nid: u32::from_le_bytes(*nid), pid: u32::from_le_bytes(pid) };
        Ok(())
    }

    #[inline]
    fn at(&self, portal: u32) -> Target {
        Target { process: self.peer, portal, match_bits: MATCH_BITS }
    }

    /// Puts; nothing comes back.
    #[inline]
    pub fn put(&self, size: u64) -> Result<()> {
        Ok(self.ni.put(self.puts, size, false, &self.at(PUTS_AT))?)
    }

    /// Puts; the acknowledgement is counted.
    #[inline]
    pub fn put_counted(&mut self, size: u64) -> Result<()> {
        self.acked += 1;
        Ok(self.ni.put(self.puts, size, true, &self.at(PUTS_AT))?)
    }

    /// Waits until all counted puts are acknowledged.
    #[inline]
    pub fn wait_acked(&self) -> Result<()> {
        Ok(self.ni.wait(self.acks, self.acked)?)
    }

    /// Waits until so many more puts have arrived.
    #[inline]
    pub fn wait_arrived(&mut self, count: u64) -> Result<()> {
        self.arrived += count;
        Ok(self.ni.wait(self.arrivals, self.arrived)?)
    }

    /// Gets, and waits until the bytes are here.
    #[inline]
    pub fn get(&mut self, size: u64) -> Result<()> {
        self.replied += 1;
        self.ni.get(self.gets, size, &self.at(GETS_AT))?;
        Ok(self.ni.wait(self.replies, self.replied)?)
    }

    /// Fills what is put and got from.
    pub fn prepare(&self, size: u64, seed: u64) -> Result<()> {
        let mut bytes = vec![0; size as usize];
        fill(&mut bytes, seed);
        Ok(self.outgoing.write(0, &bytes)?)
    }

    /// Clears what is put to and got into.
    pub fn clear(&self, size: u64) -> Result<()> {
        Ok(self.incoming.write(0, &vec![0; size as usize])?)
    }

    /// An error unless what has come is what was prepared with this seed.
    pub fn check(&self, size: u64, seed: u64, what: &str) -> Result<()> {
        let mut bytes = vec![0; size as usize];
        self.incoming.read(0, &mut bytes)?;
        if let Some(wrong) = first_wrong(&bytes, seed) {
            bail!("data altered on its way: byte {wrong} of a {what} of {size} bytes is wrong");
        }
        Ok(())
    }

    /// An error if more has arrived or was answered than was waited for.
    pub fn check_counts(&self) -> Result<()> {
        let counts = [
            (self.acks, self.acked, "acknowledgements"),
            (self.replies, self.replied, "replies"),
            (self.arrivals, self.arrived, "puts"),
        ];
        for (counter, expected, what) in counts {
            let count = self.ni.count(counter)?;
            ensure!(count == expected, "{count} {what} have come in place of {expected}");
        }
        Ok(())
    }
}
