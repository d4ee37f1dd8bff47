//! Handles as the numbers that C programs hold.
//!
//! | bits | what |
//! |---|---|
//! | 63..61 | kind, from 1 to 6 |
//! | 60..58 | slot of the interface, 0 to 7 |
//! | 57..54 | generation of the slot: how often an interface was opened in it, modulo 16 |
//! | 53..22 | generation of the entry in its table |
//! | 21..0 | index of the entry |
//!
//! All zero is no handle, and neither are the header's three constants, whose
//! kind is 7. A handle of an interface has zeros for the entry.
//!
//! The engine's generations are kept whole. Fewer bits would not do: a slot at
//! the head of the free list is taken again for every message, and after a few
//! seconds its handles would no longer be found. What it costs is that a table
//! may have no more than [`ENTRIES_MAX`] entries.

/// Interfaces that a process may have open at a time.
pub const SLOTS: u8 = 8;

/// The most entries that a table may have for its handles to be packed: every
/// limit of an interface is at most this.
pub const ENTRIES_MAX: u32 = 1 << INDEX_BITS;

/// How many interfaces a process can have.
pub const INTERFACES: usize = 4;

/// How many lives of a slot are told apart.
pub const LIVES: u8 = 16;

const INDEX_BITS: u32 = 22;
const ENTRY_BITS: u32 = 54;

/// What a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A network interface.
    Ni = 1,
    /// An event queue.
    Eq = 2,
    /// A counter.
    Ct = 3,
    /// A memory descriptor.
    Md = 4,
    /// A list entry.
    Le = 5,
    /// A match list entry.
    Me = 6,
}

impl Kind {
    const fn from_code(code: u64) -> Option<Kind> {
        Some(match code {
            1 => Kind::Ni,
            2 => Kind::Eq,
            3 => Kind::Ct,
            4 => Kind::Md,
            5 => Kind::Le,
            6 => Kind::Me,
            _ => return None,
        })
    }
}

/// An interface: which slot, and which of those that were opened in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Iface {
    slot: u8,
    generation: u8,
}

impl Iface {
    /// The interface in a slot, after so many before it; nothing if there is no
    /// such slot.
    #[must_use]
    pub const fn new(slot: u8, before: u64) -> Option<Iface> {
        if slot < SLOTS {
            Some(Iface { slot, generation: (before % LIVES as u64) as u8 })
        } else {
            None
        }
    }

    /// The slot, below [`SLOTS`].
    #[must_use]
    pub const fn slot(self) -> usize {
        self.slot as usize
    }
}

/// A handle, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packed {
    kind: Kind,
    iface: Iface,
    /// Generation and index, as the handle has them.
    entry: u64,
}

impl Packed {
    /// The handle of an interface.
    #[must_use]
    pub const fn of_iface(iface: Iface) -> Packed {
        Packed { kind: Kind::Ni, iface, entry: 0 }
    }

    /// The handle of an entry that has this number in the engine
    /// (`sluice_portals::Handle::to_u64`). Nothing if its index does not fit,
    /// which the limits rule out, or for an interface, which is no entry.
    #[must_use]
    #[inline]
    pub const fn of_entry(kind: Kind, iface: Iface, number: u64) -> Option<Packed> {
        let (generation, index) = (number >> 32, number as u32);
        if matches!(kind, Kind::Ni) || index >= ENTRIES_MAX {
            return None;
        }
        Some(Packed { kind, iface, entry: generation << INDEX_BITS | index as u64 })
    }

    /// What a program's number says, whatever it is.
    #[must_use]
    #[inline]
    pub const fn from_u64(number: u64) -> Option<Packed> {
        let Some(kind) = Kind::from_code(number >> 61) else { return None };
        let iface = Iface { slot: (number >> 58 & 7) as u8, generation: (number >> 54 & 15) as u8 };
        let entry = number & ((1 << ENTRY_BITS) - 1);
        if matches!(kind, Kind::Ni) && entry != 0 {
            return None;
        }
        Some(Packed { kind, iface, entry })
    }

    /// What a program's number says, if it names something of this kind.
    #[must_use]
    #[inline]
    pub fn of_kind(number: u64, kind: Kind) -> Option<Packed> {
        Packed::from_u64(number).filter(|packed| packed.kind == kind)
    }

    /// As the program holds it.
    #[must_use]
    #[inline]
    pub fn to_u64(self) -> u64 {
        let iface = u64::from(self.iface.slot) << 58 | u64::from(self.iface.generation) << 54;
        (self.kind as u64) << 61 | iface | self.entry
    }

    /// What it names.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// The interface that it belongs to, or is.
    #[must_use]
    pub const fn iface(self) -> Iface {
        self.iface
    }

    /// The entry's number in the engine (`sluice_portals::Handle::from_u64`).
    #[must_use]
    #[inline]
    pub const fn number(self) -> u64 {
        (self.entry >> INDEX_BITS) << 32 | self.entry & (ENTRIES_MAX as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consts::{PTL_CT_NONE, PTL_EQ_NONE, PTL_INVALID_HANDLE};

    const KINDS: [Kind; 6] = [Kind::Ni, Kind::Eq, Kind::Ct, Kind::Md, Kind::Le, Kind::Me];

    #[test]
    fn what_is_packed_comes_back() {
        for kind in &KINDS[1..] {
            for (slot, generation) in [(0, 0), (3, 9), (7, 15)] {
                for number in [1 << 32, u64::MAX << 32 | 0x3f_ffff, 0x1234_5678 << 32 | 77] {
                    let iface = Iface::new(slot, generation).unwrap();
                    let packed = Packed::of_entry(*kind, iface, number).unwrap();
                    let back = Packed::of_kind(packed.to_u64(), *kind).unwrap();
                    assert_eq!(back, packed);
                    assert_eq!(back.number(), number);
                    assert_eq!((back.iface().slot(), back.iface()), (slot.into(), iface));
                }
            }
        }
    }

    #[test]
    fn the_bits_are_where_the_table_says() {
        let iface = Iface::new(5, 16 + 3).unwrap();
        assert_eq!(Packed::of_iface(iface).to_u64(), 1 << 61 | 5 << 58 | 3 << 54);
        let entry = Packed::of_entry(Kind::Me, iface, 2 << 32 | 9).unwrap();
        assert_eq!(entry.to_u64(), 6 << 61 | 5 << 58 | 3 << 54 | 2 << 22 | 9);
    }

    #[test]
    fn constants_and_zero_name_nothing() {
        for number in [0, PTL_INVALID_HANDLE, PTL_EQ_NONE, PTL_CT_NONE] {
            assert_eq!(Packed::from_u64(number), None);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let iface = Iface::new(0, 0).unwrap();
        assert_eq!(Packed::of_entry(Kind::Md, iface, u64::from(ENTRIES_MAX)), None);
        assert_eq!(Packed::of_entry(Kind::Ni, iface, 1 << 32), None);
        assert_eq!(Iface::new(SLOTS, 0), None);
        // An interface with an entry.
        assert_eq!(Packed::from_u64(1 << 61 | 1), None);
    }

    #[test]
    fn kinds_and_lives_are_told_apart() {
        let iface = Iface::new(1, 4).unwrap();
        let ct = Packed::of_entry(Kind::Ct, iface, 1 << 32).unwrap().to_u64();
        assert_eq!(Packed::of_kind(ct, Kind::Eq), None);
        assert_ne!(Packed::from_u64(ct).unwrap().iface(), Iface::new(1, 5).unwrap());
    }

    #[test]
    fn the_engine_keeps_generations_in_the_upper_half() {
        let mut table = sluice_portals::Table::new(4);
        let handle = table.insert('a').unwrap();
        let iface = Iface::new(0, 0).unwrap();
        let packed = Packed::of_entry(Kind::Ct, iface, handle.to_u64()).unwrap();
        let back = sluice_portals::Handle::from_u64(packed.number());
        assert_eq!(table.get(back), Some(&'a'));
        table.remove(back);
        let again = table.insert('b').unwrap();
        assert_ne!(Packed::of_entry(Kind::Ct, iface, again.to_u64()), Some(packed));
    }
}
