//! Local memory: what a machine has copied, lent or looked at within its own
//! process.

use sluice_wire::{Addr, Region};

/// The memory of this process, and the payload of the packet being handled.
pub trait LocalMemory {
    /// Copies `len` payload bytes of the packet being handled, from `offset`
    /// within the payload, to `to`. Only within [`Machine::on_packet`](super::Machine::on_packet).
    /// False if the payload is *cut*: its sender ended while it still wrote it, or never will.
    /// What was copied is nothing then.
    #[must_use]
    fn copy_payload(&mut self, offset: u32, to: Addr, len: u32) -> bool;

    /// Copies payload bytes of the packet being handled, from `offset` within
    /// the payload, into the machine. Only within [`Machine::on_packet`](super::Machine::on_packet).
    fn payload(&self, offset: u32, into: &mut [u8]);

    /// Copies within this process. The regions do not overlap.
    fn copy(&mut self, from: Addr, to: Addr, len: u64);

    /// Lends `len` bytes, never zero, for a message that arrived unexpected or
    /// an injected one that waits, to be returned by [`LocalMemory::give_back`].
    /// Credits bound what is lent for the former, a limit of the machine's what
    /// is lent for the latter.
    fn lend(&mut self, len: u32) -> Addr;

    /// Returns what [`LocalMemory::lend`] lent.
    fn give_back(&mut self, addr: Addr, len: u32);

    /// Whether all bytes of a local region may be read now. A world whose
    /// client vouches for its memory says yes without looking.
    fn readable(&self, region: Region) -> bool;

    /// Whether all bytes of a local region may be written now.
    fn writable(&self, region: Region) -> bool;

    /// Copies local memory into the machine, which needs the values: operands
    /// of atomic operations. The region is readable.
    fn load(&self, from: Addr, into: &mut [u8]);

    /// Copies values of the machine to local memory. The region is writable.
    fn store(&mut self, to: Addr, bytes: &[u8]);

    /// Replaces the `width` bytes (1, 2, 4 or 8, aligned) at `at` by the low
    /// bytes of `new` if they are `old`, in one step for every other thread and
    /// process; else says what they are. The region is writable.
    ///
    /// # Errors
    /// The value found, if it is not `old`.
    fn compare_exchange(&mut self, at: Addr, width: u32, old: u64, new: u64) -> Result<(), u64>;
}
