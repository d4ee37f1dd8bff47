//! From handles to the interfaces that they belong to.

use crate::codes::Code;
use crate::handle::{Iface, Kind, Packed};
use crate::ni_slot::{NiSlot, slot_at};
use crate::ni_state::NiState;
use crate::types::ptl_handle_any_t;
use sluice_portals::Handle;

/// A handle taken apart, of an interface that was open when that was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub slot: &'static NiSlot,
    pub generation: u32,
    packed: Packed,
}

impl Parts {
    /// The engine's handle.
    #[inline]
    pub fn table<T>(&self) -> Handle<T> {
        Handle::from_u64(self.packed.number())
    }

    /// The index of the interface's slot.
    pub fn slot_index(&self) -> usize {
        self.packed.iface().slot()
    }

    /// What it names.
    pub fn kind(&self) -> Kind {
        self.packed.kind()
    }

    /// Whether the object that it names is there.
    pub fn is_there(&self, state: &NiState) -> bool {
        let ni = state.ni();
        match self.kind() {
            Kind::Ni => true,
            Kind::Eq => ni.has_eq(self.table()),
            Kind::Ct => ni.ct(self.table()).is_some(),
            Kind::Md => ni.has_md(self.table()),
            Kind::Le | Kind::Me => ni.has_me(self.table()),
        }
    }

    /// Whether both are of the same interface.
    #[inline]
    pub fn is_beside(&self, other: &Parts) -> bool {
        self.packed.iface() == other.packed.iface()
    }

    /// The handle of an object of the engine's, of the same interface. The
    /// interface's limits keep every index small enough.
    #[inline]
    pub fn pack<T>(&self, kind: Kind, handle: Handle<T>) -> Result<ptl_handle_any_t, Code> {
        let packed = Packed::of_entry(kind, self.packed.iface(), handle.to_u64());
        packed.map(Packed::to_u64).ok_or(Code::NoSpace)
    }

    /// The handle of the interface.
    pub fn ni(&self) -> ptl_handle_any_t {
        Packed::of_iface(self.packed.iface()).to_u64()
    }
}

/// The handle of the interface in a slot.
pub(crate) fn pack_ni(slot: u8, generation: u32) -> Result<ptl_handle_any_t, Code> {
    let iface = Iface::new(slot, u64::from(generation)).ok_or(Code::Fail)?;
    Ok(Packed::of_iface(iface).to_u64())
}

/// Takes a handle of this kind apart.
///
/// # Errors
/// [`Code::ArgInvalid`] for a handle of another kind, or of an interface that
/// is not open any more.
#[inline]
pub(crate) fn unpack(kind: Kind, handle: ptl_handle_any_t) -> Result<Parts, Code> {
    parts(Packed::of_kind(handle, kind))
}

/// Takes a handle of any kind apart.
///
/// # Errors
/// As [`unpack`].
#[inline]
pub(crate) fn unpack_any(handle: ptl_handle_any_t) -> Result<Parts, Code> {
    parts(Packed::from_u64(handle))
}

#[inline]
fn parts(packed: Option<Packed>) -> Result<Parts, Code> {
    let packed = packed.ok_or(Code::ArgInvalid)?;
    let index = packed.iface().slot();
    let slot = slot_at(index).ok_or(Code::ArgInvalid)?;
    let generation = slot.generation();
    if Iface::new(index as u8, u64::from(generation)) != Some(packed.iface()) {
        return Err(Code::ArgInvalid);
    }
    Ok(Parts { slot, generation, packed })
}
