//! Units as types, so that a count of bytes never meets a count of slots.

/// A point in time, or a span of it, in nanoseconds. The origin is whatever the
/// driver of the machines chose; only differences mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The later point, at the end of time instead of past it.
    #[must_use]
    pub fn saturating_add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A local memory address as a number. The machines only hand it on; only a
/// driver turns it into a pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addr(pub u64);

impl Addr {
    /// The address `bytes` further on. Wraps like the hardware does: a region
    /// that wraps is refused where it is made ([`Region::new`]).
    #[must_use]
    pub fn offset(self, bytes: u64) -> Addr {
        Addr(self.0.wrapping_add(bytes))
    }
}

/// A span of local memory: `len` bytes from `addr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    /// First byte.
    pub addr: Addr,
    /// Length in bytes.
    pub len: u64,
}

impl Region {
    /// No bytes at all.
    pub const EMPTY: Region = Region { addr: Addr(0), len: 0 };

    /// The region, unless it would run past the end of the address space.
    #[must_use]
    pub fn new(addr: Addr, len: u64) -> Option<Region> {
        addr.0.checked_add(len).map(|_| Region { addr, len })
    }

    /// The first `len` bytes, or all of them if there are fewer.
    #[must_use]
    pub fn truncated(self, len: u64) -> Region {
        Region { addr: self.addr, len: self.len.min(len) }
    }
}
