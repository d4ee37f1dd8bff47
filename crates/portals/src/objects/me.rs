//! Match list entries: the target's memory (Portals 4, section 3.12).

use crate::lists::{Criteria, Record, Slab, Waiting};
use crate::objects::ct::Ct;
use crate::objects::vector::{Span, Vector};
use crate::table::Handle;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{List, MatchBits, PeerId, PtIndex, Region};

/// Options of an entry. The default allows nothing and reports everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeOptions {
    /// Puts are allowed.
    pub op_put: bool,
    /// Gets are allowed.
    pub op_get: bool,
    /// Unlinked by its first match.
    pub use_once: bool,
    /// The entry keeps the offset, not the initiator; unlinked when less than
    /// `min_free` is left.
    pub manage_local: bool,
    /// With `manage_local`, when appended: every header that it takes moves the
    /// offset by what was asked for.
    pub inc_by_rlength: bool,
    /// A message that would not fit does not match.
    pub no_truncate: bool,
    /// No link event.
    pub event_link_disable: bool,
    /// No events for operations on it.
    pub event_comm_disable: bool,
    /// No events for operations that succeed.
    pub event_success_disable: bool,
    /// No overflow events.
    pub event_over_disable: bool,
    /// No unlink and free events.
    pub event_unlink_disable: bool,
    /// No event if this entry's operation made its portal table entry disabled.
    pub event_flowctrl_disable: bool,
    /// Count operations.
    pub ct_comm: bool,
    /// Count headers taken, and what searches find.
    pub ct_overflow: bool,
    /// Count bytes instead of operations.
    pub ct_bytes: bool,
    /// On the overflow list: keep no header of what lands here.
    pub unexpected_hdr_disable: bool,
    /// On the overflow list: the entry has no memory of its own; each message
    /// is kept in memory that the port lends, and is acknowledged then, or
    /// when the client has ended its hold on it if the initiator asks for that
    /// ([`AckKind::Matched`](sluice_wire::AckKind)). An extension (`docs/decisions/0001`).
    pub lent: bool,
    /// A get-done unlinks the entry. An extension.
    pub get_done: bool,
    /// Offsets in the entry count from address zero, so its first byte has its address for
    /// an offset. Of one without a vector. An extension.
    pub addressed: bool,
}

/// What an entry is made from. The default has no memory and allows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeSpec {
    /// The memory; of a vector, its total length from address zero.
    pub region: Region,
    /// The pieces of the memory, if it is an I/O vector.
    pub vector: Option<Handle<Vector>>,
    /// Bits that an operation must have.
    pub match_bits: MatchBits,
    /// Bits that do not matter.
    pub ignore_bits: u64,
    /// The initiator that it accepts; `None` accepts any.
    pub source: Option<PeerId>,
    /// The user that it accepts; `None` accepts any.
    pub uid: Option<u32>,
    /// With `manage_local`: unlink when less than this is left. Zero: never.
    pub min_free: u64,
    /// Its options.
    pub options: MeOptions,
    /// Where it counts.
    pub ct: Option<Handle<Ct>>,
    /// Returned in its events.
    pub user_ptr: u64,
}

/// What a search does with the headers it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOp {
    /// Reports them and leaves them (`PTL_SEARCH_ONLY`).
    Only,
    /// Takes them, as an appended entry would (`PTL_SEARCH_DELETE`).
    Delete,
}

macro_rules! flags {
    ($($option:ident: $bit:literal,)*) => {
        /// Those of [`MeOptions`] that matter to an entry once it is appended,
        /// a bit each.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Flags(u16);

        impl Flags {
            #[inline(always)]
            pub const fn of(options: &MeOptions) -> Flags {
                Flags($((options.$option as u16) << $bit)|*)
            }

            $(
                #[inline(always)]
                pub const fn $option(self) -> bool {
                    self.0 & 1 << $bit != 0
                }
            )*
        }
    };
}

flags! {
    op_put: 0,
    op_get: 1,
    use_once: 2,
    manage_local: 3,
    no_truncate: 4,
    event_comm_disable: 5,
    event_success_disable: 6,
    event_unlink_disable: 7,
    event_flowctrl_disable: 8,
    ct_comm: 9,
    ct_bytes: 10,
    unexpected_hdr_disable: 11,
    lent: 12,
    get_done: 13,
    addressed: 14,
}

/// An entry as the engine keeps it: with sixteen bytes of its list one cache
/// line, which the search reads anyway. What few entries have is in a slab beside.
#[derive(Clone, Copy, Debug, Default)]
pub struct Me {
    bits: MatchBits,
    ignore: u64,
    pub(crate) region: Region,
    pub(crate) user_ptr: u64,
    /// The initiator that it accepts, unless it accepts any.
    source: PeerId,
    pub(crate) flags: Flags,
    pub(crate) pt_index: PtIndex,
    /// What its list has noted, in the low bits, and notes of the engine's.
    notes: u8,
}

const _: () = assert!(size_of::<Me>() == 48);

const MARK: u8 = 0x0f;
const OVERFLOW: u8 = 1 << 4;
const ANY_SOURCE: u8 = 1 << 5;
/// Its unlinking has been told.
const UNLINK_TOLD: u8 = 1 << 6;
/// It has a [`ColdMe`].
const COLD: u8 = 1 << 7;

/// What few entries have, beside them in the slab.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColdMe {
    pub(crate) local_offset: u64,
    pub(crate) min_free: u64,
    pub(crate) ct: Option<Handle<Ct>>,
    pub(crate) vector: Option<Handle<Vector>>,
    pub(crate) uid: Option<u32>,
    /// Overflow list: unexpected headers whose bytes lie in this entry.
    pub(crate) headers: u32,
    /// Operations whose data is still on its way.
    pub(crate) busy: u32,
}

impl Flags {
    /// Whether the entry takes one put, whatever its length, and tells of that alone.
    #[inline(always)]
    pub fn is_for_one_message(self) -> bool {
        let options = MeOptions {
            op_put: true,
            use_once: true,
            event_unlink_disable: true,
            ..MeOptions::default()
        };
        self == Flags::of(&options)
    }

    /// Whether an operation's offset is not simply the one asked for.
    #[inline(always)]
    pub const fn moves_offset(self) -> bool {
        self.manage_local() || self.addressed()
    }
}

impl Me {
    #[inline(always)]
    pub(crate) fn new(spec: &MeSpec, pt_index: PtIndex, list: List) -> Me {
        let overflow = if list == List::Overflow { OVERFLOW } else { 0 };
        let any_source = if spec.source.is_none() { ANY_SOURCE } else { 0 };
        Me {
            bits: spec.match_bits,
            ignore: spec.ignore_bits,
            region: spec.region,
            user_ptr: spec.user_ptr,
            source: spec.source.unwrap_or(PeerId(0)),
            flags: Flags::of(&spec.options),
            pt_index,
            notes: overflow | any_source,
        }
    }

    /// What a list is to look for.
    #[inline(always)]
    pub(crate) fn criteria_of(spec: &MeSpec) -> Criteria {
        Criteria { bits: spec.match_bits, ignore: spec.ignore_bits, source: spec.source }
    }

    #[inline(always)]
    pub(crate) fn list(&self) -> List {
        if self.notes & OVERFLOW == 0 { List::Priority } else { List::Overflow }
    }

    /// Whether it has something that few entries have.
    #[inline(always)]
    pub(crate) fn has_cold(&self) -> bool {
        self.notes & COLD != 0
    }

    /// Notes that its unlinking is told. False if it was already.
    pub(crate) fn tell_unlink(&mut self) -> bool {
        let was = self.notes;
        self.notes |= UNLINK_TOLD;
        was & UNLINK_TOLD == 0
    }
}

impl Record for Me {
    type Cold = ColdMe;
}

impl Waiting for Me {
    #[inline(always)]
    fn criteria(&self) -> Criteria {
        let source = (self.notes & ANY_SOURCE == 0).then_some(self.source);
        Criteria { bits: self.bits, ignore: self.ignore, source }
    }

    #[inline(always)]
    fn mark(&self) -> u8 {
        self.notes & MARK
    }

    #[inline(always)]
    fn set_mark(&mut self, mark: u8) {
        self.notes = self.notes & !MARK | mark;
    }
}

impl Slab<Me> {
    /// What few entries have, of one that was just added.
    #[inline(always)]
    pub(crate) fn complete(&mut self, slot: u32, spec: &MeSpec, local_offset: u64) {
        let is_plain = spec.ct.is_none()
            && spec.vector.is_none()
            && spec.uid.is_none()
            && !spec.options.manage_local;
        if !is_plain {
            let MeSpec { min_free, ct, vector, uid, .. } = *spec;
            let cold = ColdMe { local_offset, min_free, ct, vector, uid, headers: 0, busy: 0 };
            *self.cold_mut(slot) = cold;
        }
    }

    /// What few entries have, of this one.
    #[inline]
    pub(crate) fn cold(&self, slot: u32) -> ColdMe {
        if self.at(slot).has_cold() { *self.beside(slot) } else { ColdMe::default() }
    }

    /// The same, to be changed.
    #[inline(never)]
    pub(crate) fn cold_mut(&mut self, slot: u32) -> &mut ColdMe {
        let me = self.at_mut(slot);
        let is_new = !me.has_cold();
        me.notes |= COLD;
        let cold = self.beside_mut(slot);
        if is_new {
            *cold = ColdMe::default();
        }
        cold
    }

    /// `len` bytes of an entry's memory from `offset` on.
    pub(crate) fn span(&self, slot: u32, offset: u64, len: u64) -> Span {
        Span::new(self.at(slot).region, self.cold(slot).vector, offset, len)
    }

    /// Where in an entry an operation of `rlength` bytes lands, and how many of
    /// them fit. An offset beyond its end, which comes from another process,
    /// lands at its end.
    #[inline(always)]
    pub(crate) fn place(&self, slot: u32, remote_offset: u64, rlength: u64) -> (u64, u64) {
        let me = self.at(slot);
        let wanted = if me.flags.moves_offset() {
            self.moved_offset(slot, remote_offset)
        } else {
            remote_offset
        };
        place_in(me.region.len, wanted, rlength)
    }

    /// The offset in an entry that does not take the one asked for as it is. What lies
    /// before the entry counts as beyond its end.
    fn moved_offset(&self, slot: u32, remote_offset: u64) -> u64 {
        let me = self.at(slot);
        if me.flags.manage_local() {
            return self.cold(slot).local_offset;
        }
        remote_offset.checked_sub(me.region.addr.0).unwrap_or(u64::MAX)
    }

    /// Moves the managed offset. True if the entry must be unlinked for it, or
    /// because it takes one operation only.
    #[inline(always)]
    pub(crate) fn consume(&mut self, slot: u32, mlength: u64) -> bool {
        let me = self.at(slot);
        let (once, len) = (me.flags.use_once(), me.region.len);
        if !me.flags.manage_local() {
            return once;
        }
        let cold = self.cold_mut(slot);
        if !mutants::is(Mutant::ManagesNoOffset) {
            cold.local_offset = cold.local_offset.saturating_add(mlength);
        }
        let left = len.saturating_sub(cold.local_offset);
        let keeps = mutants::is(Mutant::IgnoresMinFree);
        once || cold.min_free != 0 && left < cold.min_free && !keeps
    }
}

/// Where in an entry of `len` bytes an operation of `rlength` bytes at `wanted` is
/// done, and how many of its bytes fit. A message of no bytes always fits.
#[inline(always)]
pub(crate) fn place_in(len: u64, wanted: u64, rlength: u64) -> (u64, u64) {
    let offset = wanted.min(len);
    (offset, rlength.min(len - offset))
}

impl Slab<Me> {
    /// Events for which places are kept while data moves: of the operation,
    /// and of the unlinking and freeing of the entry, which wait for it.
    pub(crate) fn events_of_move(&self, slot: u32) -> usize {
        let me = self.at(slot);
        let flags = me.flags;
        let may_unlink =
            flags.use_once() || (flags.manage_local() && self.cold(slot).min_free != 0);
        let unlinks = may_unlink && !flags.event_unlink_disable();
        let frees = unlinks && me.list() == List::Overflow;
        usize::from(!flags.event_comm_disable()) + usize::from(unlinks) + usize::from(frees)
    }

    /// How many events an operation on this entry may cause at once.
    pub(crate) fn events_due(&self, slot: u32, remote_offset: u64, rlength: u64) -> usize {
        let me = self.at(slot);
        let flags = me.flags;
        let comm = !flags.event_comm_disable() && !flags.event_success_disable();
        let (offset, fits) = self.place(slot, remote_offset, rlength);
        let left = me.region.len - offset - fits;
        let exhausted = flags.manage_local() && left < self.cold(slot).min_free;
        let unlinks = (flags.use_once() || exhausted) && !flags.event_unlink_disable();
        let frees = unlinks && me.list() == List::Overflow && flags.unexpected_hdr_disable();
        usize::from(comm) + usize::from(unlinks) + usize::from(frees)
    }
}
