//! What programs pass in, checked and turned into what the engine takes. What
//! is not one of the header's values is refused; nothing here looks at memory
//! or needs an interface.

use crate::consts::*;
use crate::handle::{Kind, Packed};
use crate::types::{ptl_handle_ct_t, ptl_handle_eq_t, ptl_le_t, ptl_md_t, ptl_me_t, ptl_process_t};
use sluice_portals::{List, MdOptions, MeOptions, PtOptions, SearchOp};
use sluice_wire::{AckKind, AtomicOp, Datatype};
use std::ffi::c_uint;

/// An argument that is not valid: `PTL_ARG_INVALID`. The text says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid argument: {0}")]
pub struct Invalid(pub &'static str);

/// What a check gives.
pub type Checked<T> = Result<T, Invalid>;

/// Refuses bits that the mask does not have.
const fn known(bits: c_uint, mask: c_uint, what: &'static str) -> Checked<()> {
    if bits & !mask == 0 { Ok(()) } else { Err(Invalid(what)) }
}

/// The kind of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NiKind {
    /// Its lists hold match list entries.
    pub matching: bool,
    /// Processes are ranks.
    pub logical: bool,
}

impl NiKind {
    /// From `PTL_NI_*`.
    ///
    /// # Errors
    /// When not exactly one of each pair is given.
    pub fn from_options(options: c_uint) -> Checked<NiKind> {
        known(options, PTL_NI_INIT_OPTIONS_MASK, "unknown interface options")?;
        let either = |yes: c_uint, no: c_uint, what| match (options & yes, options & no) {
            (0, 0) => Err(Invalid(what)),
            (_, 0) => Ok(true),
            (0, _) => Ok(false),
            _ => Err(Invalid(what)),
        };
        Ok(NiKind {
            matching: either(
                PTL_NI_MATCHING,
                PTL_NI_NO_MATCHING,
                "one of PTL_NI_MATCHING and PTL_NI_NO_MATCHING",
            )?,
            logical: either(
                PTL_NI_LOGICAL,
                PTL_NI_PHYSICAL,
                "one of PTL_NI_LOGICAL and PTL_NI_PHYSICAL",
            )?,
        })
    }

    /// The slot for it, from 0 to 3: a process has one interface of each kind.
    #[must_use]
    pub const fn slot(self) -> u8 {
        self.matching as u8 | (self.logical as u8) << 1
    }
}

/// Options of a portal table entry, from `PTL_PT_*`. Hints are accepted and
/// change nothing.
///
/// # Errors
/// For unknown bits.
pub fn pt_options(options: c_uint) -> Checked<PtOptions> {
    known(options, PTL_PT_ALLOC_OPTIONS_MASK, "unknown portal table options")?;
    Ok(PtOptions {
        flow_control: options & PTL_PT_FLOWCTRL != 0,
        disabled: options & PTL_PT_ALLOC_DISABLED != 0,
    })
}

/// Options of a memory descriptor, from `PTL_MD_*`. `PTL_MD_UNORDERED` and
/// `PTL_MD_UNRELIABLE` allow what this engine does not do; `PTL_IOVEC` is about
/// where the memory is.
///
/// # Errors
/// For unknown bits.
pub fn md_options(options: c_uint) -> Checked<MdOptions> {
    known(options, PTL_MD_OPTIONS_MASK, "unknown options of a memory descriptor")?;
    let has = |bit| options & bit != 0;
    Ok(MdOptions {
        event_success_disable: has(PTL_MD_EVENT_SUCCESS_DISABLE),
        event_send_disable: has(PTL_MD_EVENT_SEND_DISABLE),
        ct_send: has(PTL_MD_EVENT_CT_SEND),
        ct_reply: has(PTL_MD_EVENT_CT_REPLY),
        ct_ack: has(PTL_MD_EVENT_CT_ACK),
        ct_bytes: has(PTL_MD_EVENT_CT_BYTES),
        volatile: has(PTL_MD_VOLATILE),
        ..MdOptions::default()
    })
}

/// Options of a list entry or a match list entry, from `PTL_LE_*` or
/// `PTL_ME_*`. Alignment, accessibility and 4.2's `ACK_DISABLE` change nothing;
/// `PTL_IOVEC` is about where the memory is.
///
/// # Errors
/// For unknown bits, such as those of matching without it.
pub fn entry_options(options: c_uint, matching: bool) -> Checked<MeOptions> {
    if matching {
        known(options, PTL_ME_APPEND_OPTIONS_MASK, "unknown options of a match list entry")?;
    } else {
        known(options, PTL_LE_APPEND_OPTIONS_MASK, "unknown options of a list entry")?;
    }
    let has = |bit| options & bit != 0;
    Ok(MeOptions {
        op_put: has(PTL_ME_OP_PUT),
        op_get: has(PTL_ME_OP_GET),
        use_once: has(PTL_ME_USE_ONCE),
        manage_local: has(PTL_ME_MANAGE_LOCAL),
        inc_by_rlength: has(PTL_ME_LOCAL_INC_UH_RLENGTH),
        no_truncate: has(PTL_ME_NO_TRUNCATE),
        event_link_disable: has(PTL_ME_EVENT_LINK_DISABLE),
        event_comm_disable: has(PTL_ME_EVENT_COMM_DISABLE),
        event_success_disable: has(PTL_ME_EVENT_SUCCESS_DISABLE),
        event_over_disable: has(PTL_ME_EVENT_OVER_DISABLE),
        event_unlink_disable: has(PTL_ME_EVENT_UNLINK_DISABLE),
        event_flowctrl_disable: has(PTL_ME_EVENT_FLOWCTRL_DISABLE),
        ct_comm: has(PTL_ME_EVENT_CT_COMM),
        ct_overflow: has(PTL_ME_EVENT_CT_OVERFLOW),
        ct_bytes: has(PTL_ME_EVENT_CT_BYTES),
        unexpected_hdr_disable: has(PTL_ME_UNEXPECTED_HDR_DISABLE),
        ..MeOptions::default()
    })
}

impl ptl_md_t {
    /// Its options, checked.
    ///
    /// # Errors
    /// For unknown bits.
    pub fn checked_options(&self) -> Checked<MdOptions> {
        md_options(self.options)
    }
}

impl ptl_me_t {
    /// Its options, checked.
    ///
    /// # Errors
    /// For unknown bits.
    pub fn checked_options(&self) -> Checked<MeOptions> {
        entry_options(self.options, true)
    }
}

impl ptl_le_t {
    /// Its options, checked.
    ///
    /// # Errors
    /// For unknown bits, those of matching among them.
    pub fn checked_options(&self) -> Checked<MeOptions> {
        entry_options(self.options, false)
    }

    /// The match list entry that does the same where everything matches.
    #[must_use]
    pub fn as_me(&self) -> ptl_me_t {
        ptl_me_t {
            start: self.start,
            length: self.length,
            ct_handle: self.ct_handle,
            uid: self.uid,
            options: self.options,
            match_id: ptl_process_t::from_phys(PTL_NID_ANY, PTL_PID_ANY),
            match_bits: 0,
            ignore_bits: u64::MAX,
            min_free: 0,
        }
    }
}

/// The event queue named where there may be none.
///
/// # Errors
/// If it is no handle of an event queue.
pub fn eq_or_none(eq: ptl_handle_eq_t) -> Checked<Option<Packed>> {
    if eq == PTL_EQ_NONE {
        return Ok(None);
    }
    Packed::of_kind(eq, Kind::Eq).map(Some).ok_or(Invalid("handle of an event queue"))
}

/// The counter named where there may be none. `PTL_INVALID_HANDLE` is none too:
/// Sandia OpenSHMEM leaves it in an entry that does not count.
///
/// # Errors
/// If it is no handle of a counter.
pub fn ct_or_none(ct: ptl_handle_ct_t) -> Checked<Option<Packed>> {
    if ct == PTL_CT_NONE || ct == PTL_INVALID_HANDLE {
        return Ok(None);
    }
    Packed::of_kind(ct, Kind::Ct).map(Some).ok_or(Invalid("handle of a counter"))
}

/// Which list.
///
/// # Errors
/// If it is neither.
pub fn list(list: u8) -> Checked<List> {
    match list {
        PTL_PRIORITY_LIST => Ok(List::Priority),
        PTL_OVERFLOW_LIST => Ok(List::Overflow),
        _ => Err(Invalid("unknown list")),
    }
}

/// What a search does.
///
/// # Errors
/// If it is unknown.
pub fn search_op(op: u8) -> Checked<SearchOp> {
    match op {
        PTL_SEARCH_ONLY => Ok(SearchOp::Only),
        PTL_SEARCH_DELETE => Ok(SearchOp::Delete),
        _ => Err(Invalid("unknown search operation")),
    }
}

/// What comes back, from `PTL_*_ACK_REQ`.
///
/// # Errors
/// If it is unknown.
pub fn ack_req(req: u8) -> Checked<Option<AckKind>> {
    match req {
        PTL_NO_ACK_REQ => Ok(None),
        PTL_ACK_REQ => Ok(Some(AckKind::Full)),
        PTL_CT_ACK_REQ => Ok(Some(AckKind::Count)),
        PTL_OC_ACK_REQ => Ok(Some(AckKind::OperationCompleted)),
        _ => Err(Invalid("unknown kind of acknowledgment")),
    }
}

/// Which function an atomic operation came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicCall {
    /// `PtlAtomic` or `PtlFetchAtomic`.
    Combine,
    /// `PtlSwap`.
    Swap,
}

/// An operation and its type, for `length` bytes.
///
/// # Errors
/// If either is unknown, if the operation is not one of the call, or if the
/// length is not one of whole items. Which types an operation is defined for,
/// the engine knows.
pub fn atomic(
    op: u8,
    datatype: u8,
    length: u64,
    call: AtomicCall,
) -> Checked<(AtomicOp, Datatype)> {
    let op = AtomicOp::from_code(op).ok().filter(|op| op.is_of_portals());
    let op = op.ok_or(Invalid("unknown atomic operation"))?;
    let datatype = Datatype::from_code(datatype).ok().filter(|datatype| datatype.is_of_portals());
    let datatype = datatype.ok_or(Invalid("unknown datatype"))?;
    if op.is_swap() != (call == AtomicCall::Swap) {
        return Err(Invalid("atomic operation of another function"));
    }
    let item = datatype.bytes() as u64;
    if op.has_operand() && length != item {
        return Err(Invalid("length other than one item"));
    }
    if !length.is_multiple_of(item) {
        return Err(Invalid("length other than of whole items"));
    }
    Ok((op, datatype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_of_exactly_one_kind() {
        let kind = NiKind::from_options(PTL_NI_MATCHING | PTL_NI_LOGICAL).unwrap();
        assert_eq!(kind, NiKind { matching: true, logical: true });
        let mut slots = Vec::new();
        for list in [PTL_NI_MATCHING, PTL_NI_NO_MATCHING] {
            for id in [PTL_NI_LOGICAL, PTL_NI_PHYSICAL] {
                slots.push(NiKind::from_options(list | id).unwrap().slot());
            }
        }
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2, 3]);
        for wrong in [0, PTL_NI_MATCHING, PTL_NI_LOGICAL, 0xf, 0x7, 0xb, 0x10 | 0x5] {
            assert!(NiKind::from_options(wrong).is_err(), "{wrong:#x}");
        }
    }

    #[test]
    fn every_known_option_is_accepted_and_no_other() {
        for bit in (0..32).map(|shift| 1u32 << shift) {
            assert_eq!(md_options(bit).is_ok(), bit & PTL_MD_OPTIONS_MASK != 0, "{bit:#x}");
            let me = entry_options(bit, true).is_ok();
            assert_eq!(me, bit & PTL_ME_APPEND_OPTIONS_MASK != 0, "{bit:#x}");
            let le = entry_options(bit, false).is_ok();
            assert_eq!(le, bit & PTL_LE_APPEND_OPTIONS_MASK != 0, "{bit:#x}");
            assert_eq!(pt_options(bit).is_ok(), bit & PTL_PT_ALLOC_OPTIONS_MASK != 0, "{bit:#x}");
        }
    }

    #[test]
    fn the_masks_are_made_of_the_options() {
        let of = |prefixes: &[&str]| {
            let ours = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
            ALL.iter()
                .filter(|(name, _)| ours(name) && !name.ends_with("_MASK"))
                .fold(0, |bits, (_, value)| bits | value)
        };
        assert_eq!(of(&["PTL_MD_", "PTL_IOVEC"]), PTL_MD_OPTIONS_MASK.into());
        assert_eq!(of(&["PTL_ME_", "PTL_IOVEC"]), PTL_ME_APPEND_OPTIONS_MASK.into());
        assert_eq!(of(&["PTL_LE_", "PTL_IOVEC"]), PTL_LE_APPEND_OPTIONS_MASK.into());
    }

    #[test]
    fn each_option_becomes_its_own() {
        let md = md_options(PTL_MD_VOLATILE | PTL_MD_EVENT_CT_REPLY | PTL_IOVEC).unwrap();
        assert_eq!(md, MdOptions { volatile: true, ct_reply: true, ..MdOptions::default() });
        // Options that change nothing leave the default.
        let idle = [PTL_ME_MAY_ALIGN, PTL_ME_IS_ACCESSIBLE, PTL_ME_ACK_DISABLE, PTL_IOVEC];
        for idle in idle {
            assert_eq!(entry_options(idle, true).unwrap(), MeOptions::default());
        }
        // All others make a difference, each one of its own.
        let live = (0..20).map(|shift| 1u32 << shift).filter(|bit| !idle.contains(bit));
        let seen: Vec<_> = live.map(|bit| entry_options(bit, true).unwrap()).collect();
        for (index, one) in seen.iter().enumerate() {
            assert_ne!(*one, MeOptions::default());
            assert!(!seen[..index].contains(one), "{one:?}");
        }
    }

    #[test]
    fn no_queue_and_no_counter_are_not_errors() {
        assert_eq!(eq_or_none(PTL_EQ_NONE), Ok(None));
        assert_eq!(ct_or_none(PTL_CT_NONE), Ok(None));
        assert_eq!(ct_or_none(PTL_INVALID_HANDLE), Ok(None));
        assert!(eq_or_none(PTL_CT_NONE).is_err());
        assert!(eq_or_none(PTL_INVALID_HANDLE).is_err());
        assert!(ct_or_none(0).is_err());
        assert!(ct_or_none(0xffff_ffff).is_err());
    }

    #[test]
    fn atomics_fit_their_call_and_their_length() {
        use AtomicCall::{Combine, Swap};
        assert!(atomic(PTL_SUM, PTL_INT64_T, 24, Combine).is_ok());
        assert!(atomic(PTL_SUM, PTL_INT64_T, 0, Combine).is_ok());
        assert!(atomic(PTL_SUM, PTL_INT64_T, 20, Combine).is_err());
        assert!(atomic(PTL_SUM, PTL_INT64_T, 8, Swap).is_err());
        assert!(atomic(PTL_SWAP, PTL_INT64_T, 16, Swap).is_ok());
        assert!(atomic(PTL_SWAP, PTL_INT64_T, 16, Combine).is_err());
        assert!(atomic(PTL_CSWAP, PTL_INT64_T, 8, Swap).is_ok());
        assert!(atomic(PTL_CSWAP, PTL_INT64_T, 16, Swap).is_err());
        assert!(atomic(PTL_OP_LAST, PTL_INT8_T, 1, Combine).is_err());
        assert!(atomic(AtomicOp::Diff.code(), PTL_INT8_T, 1, Combine).is_err());
        assert!(atomic(PTL_MIN, PTL_DATATYPE_LAST, 1, Combine).is_err());
    }

    #[test]
    fn numbers_of_the_header_and_of_the_wire_agree() {
        for &op in AtomicOp::ALL {
            assert_eq!(op.is_of_portals(), op.code() < PTL_OP_LAST, "{op:?}");
        }
        for &datatype in Datatype::ALL {
            let is_known = datatype.code() < PTL_DATATYPE_LAST;
            assert_eq!(datatype.is_of_portals(), is_known, "{datatype:?}");
        }
        assert_eq!(AtomicOp::from_code(PTL_BXOR), Ok(AtomicOp::Bxor));
        assert_eq!(AtomicOp::from_code(PTL_CSWAP_GT), Ok(AtomicOp::CswapGt));
        assert_eq!(AtomicOp::from_code(PTL_MSWAP), Ok(AtomicOp::Mswap));
        assert_eq!(Datatype::from_code(PTL_FLOAT), Ok(Datatype::Float));
        assert_eq!(Datatype::from_code(PTL_UINT64_T), Ok(Datatype::Uint64));
        assert_eq!(Datatype::from_code(PTL_LONG_DOUBLE_COMPLEX), Ok(Datatype::LongDoubleComplex));
    }

    #[test]
    fn the_rest_is_as_the_header_says() {
        assert_eq!(list(PTL_OVERFLOW_LIST), Ok(List::Overflow));
        assert!(list(2).is_err());
        assert_eq!(search_op(PTL_SEARCH_DELETE), Ok(SearchOp::Delete));
        assert!(search_op(2).is_err());
        assert_eq!(ack_req(PTL_OC_ACK_REQ), Ok(Some(AckKind::OperationCompleted)));
        assert!(ack_req(4).is_err());
    }
}
