//! Limits of an interface: what a program wishes, and what it gets (Portals 4,
//! section 3.6).

use crate::consts::{PTL_COHERENT_ATOMICS, PTL_TARGET_BIND_INACCESSIBLE};
use crate::handle::ENTRIES_MAX;
use crate::ni_state::NiState;
use crate::resolve::IOVECS_MAX;
use crate::types::ptl_ni_limits_t;
use sluice_portals::Limits;
use std::ffi::{c_int, c_uint};

/// Bytes that travel in one packet with their header; what is longer is
/// fetched. The quota of a sender holds several.
const EAGER_BYTES: u32 = 4096;
/// The longest message, whose length must fit a packet's field.
const MSG_BYTES_MAX: u64 = u32::MAX as u64;
/// The greatest portal table index.
const PT_INDEX_MAX: u8 = u8::MAX;
/// Processes that may write to one interface, unless `PTL_PEERS_MAX` says
/// otherwise.
const PEERS_MAX: u16 = 128;

/// What of each thing there is for a program that wishes nothing.
const DEFAULT: Limits = Limits {
    entries_max: 1 << 20,
    unexpected_headers_max: 1 << 20,
    mds_max: 1 << 16,
    cts_max: 1 << 16,
    eqs_max: 1 << 12,
    pt_index_max: PT_INDEX_MAX,
    operations_max: 1 << 20,
    vectors_max: 1 << 20,
    list_size_max: 1 << 20,
    triggered_ops_max: 1 << 12,
    eager_bytes_max: EAGER_BYTES,
    credits_until_matched: false,
    by_control_from: None,
    recovery: None,
};

/// How many processes may write to an interface.
pub(crate) fn peers_max() -> u16 {
    let wish = std::env::var("PTL_PEERS_MAX").ok().and_then(|value| value.parse().ok());
    wish.filter(|&wish: &u16| wish > 0).unwrap_or(PEERS_MAX)
}

/// The engine's limits and the features for what a program wishes.
pub(crate) fn of(desired: Option<&ptl_ni_limits_t>) -> (Limits, c_uint) {
    let features = PTL_TARGET_BIND_INACCESSIBLE | PTL_COHERENT_ATOMICS;
    let Some(desired) = desired else { return (DEFAULT, features) };
    // Tables grow as they are used, so a great wish costs nothing by itself.
    let count = |wish: c_int| u32::try_from(wish).unwrap_or(0).clamp(1, ENTRIES_MAX);
    let pt_index = desired.max_pt_index.clamp(63, c_int::from(PT_INDEX_MAX));
    let limits = Limits {
        entries_max: count(desired.max_entries),
        unexpected_headers_max: count(desired.max_unexpected_headers),
        mds_max: count(desired.max_mds),
        cts_max: count(desired.max_cts),
        eqs_max: count(desired.max_eqs),
        pt_index_max: pt_index as u8,
        list_size_max: count(desired.max_list_size),
        triggered_ops_max: count(desired.max_triggered_ops),
        ..DEFAULT
    };
    (limits, features)
}

/// What an interface has, as the header's structure says it.
pub(crate) fn actual(state: &NiState) -> ptl_ni_limits_t {
    let limits = state.ni().limits();
    let count = |count: u32| c_int::try_from(count).unwrap_or(c_int::MAX);
    let eager = u64::from(limits.eager_bytes_max);
    ptl_ni_limits_t {
        max_entries: count(limits.entries_max),
        max_unexpected_headers: count(limits.unexpected_headers_max),
        max_mds: count(limits.mds_max),
        max_cts: count(limits.cts_max),
        max_eqs: count(limits.eqs_max),
        max_pt_index: c_int::from(limits.pt_index_max),
        max_iovecs: IOVECS_MAX as c_int,
        max_list_size: count(limits.list_size_max),
        max_triggered_ops: count(limits.triggered_ops_max),
        max_msg_size: MSG_BYTES_MAX,
        max_atomic_size: eager,
        max_fetch_atomic_size: eager,
        max_waw_ordered_size: eager,
        max_war_ordered_size: eager,
        max_volatile_size: limits.volatile_bytes_max(),
        features: state.features,
    }
}
