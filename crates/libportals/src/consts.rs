//! The constants of `portals4.h`, with its names. The header says what they
//! mean; return codes and failures are in [`crate::codes`].

use crate::types::{
    ptl_ack_req_t, ptl_datatype_t, ptl_event_kind_t, ptl_handle_any_t, ptl_list_t, ptl_op_t,
    ptl_search_op_t, ptl_size_t, ptl_sr_index_t,
};
use std::ffi::c_uint;

/// Defines constants, and a table of all of them.
macro_rules! constants {
    ($($name:ident: $kind:ty = $value:expr, $doc:literal;)*) => {
        $(#[doc = $doc] pub const $name: $kind = $value;)*

        /// Every constant of this module, by name, as the test against the
        /// header wants them.
        #[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
        pub const ALL: &[(&str, u64)] = &[$((stringify!($name), $name as u64)),*];
    };
}

constants! {
    PTL_VERSION: c_uint = 403, "Version of the specification.";
    PTL_STATUS_LAST: c_uint = 17, "One past the last code.";
    PTL_INVALID_HANDLE: ptl_handle_any_t = u64::MAX, "Names nothing.";
    PTL_EQ_NONE: ptl_handle_any_t = u64::MAX - 1, "No event queue.";
    PTL_CT_NONE: ptl_handle_any_t = u64::MAX - 2, "No counter.";
    PTL_IFACE_DEFAULT: c_uint = 0xffff_ffff, "The one network there is; so is 0.";
    PTL_NID_ANY: u32 = 0xffff_ffff, "Any node.";
    PTL_PID_ANY: u32 = 0xffff_ffff, "Any process of the node.";
    PTL_PID_MAX: u32 = 0x003f_ffff, "Greatest process identifier.";
    PTL_RANK_ANY: u32 = 0xffff_ffff, "Any process of the job.";
    PTL_UID_ANY: u32 = 0xffff_ffff, "Any user.";
    PTL_PT_ANY: u32 = 0xffff_ffff, "Any free portal table entry.";
    PTL_TIME_FOREVER: c_uint = 0xffff_ffff, "No end of waiting.";
    PTL_SIZE_MAX: ptl_size_t = u64::MAX, "The greatest ptl_size_t.";
    PTL_IOVEC: c_uint = 0x0000_0001, "Start points to pieces; length counts them.";
    PTL_NI_MATCHING: c_uint = 0x1, "Lists hold match list entries.";
    PTL_NI_NO_MATCHING: c_uint = 0x2, "Lists hold list entries.";
    PTL_NI_LOGICAL: c_uint = 0x4, "Processes are ranks.";
    PTL_NI_PHYSICAL: c_uint = 0x8, "Processes are node and process identifiers.";
    PTL_NI_INIT_OPTIONS_MASK: c_uint = 0xf, "All of these.";
    PTL_TARGET_BIND_INACCESSIBLE: c_uint = 0x1, "Entries and descriptors may span unmapped memory.";
    PTL_TOTAL_DATA_ORDERING: c_uint = 0x2, "Data of ordered operations is ordered at any length.";
    PTL_COHERENT_ATOMICS: c_uint = 0x4, "Atomic also towards the processor's own (4.3).";
    PTL_SR_DROP_COUNT: ptl_sr_index_t = 0, "Messages that found no place.";
    PTL_SR_PERMISSION_VIOLATIONS: ptl_sr_index_t = 1, "Messages of users that an entry does not admit.";
    PTL_SR_OPERATION_VIOLATIONS: ptl_sr_index_t = 2, "Operations that an entry does not admit.";
    PTL_SR_LAST: ptl_sr_index_t = 3, "Number of registers.";
    PTL_PT_ONLY_USE_ONCE: c_uint = 0x01, "Hint: all entries will have USE_ONCE.";
    PTL_PT_FLOWCTRL: c_uint = 0x02, "Disable the entry where messages would be lost.";
    PTL_PT_ONLY_TRUNCATE: c_uint = 0x04, "Hint: no entry will have NO_TRUNCATE.";
    PTL_PT_MATCH_UNORDERED: c_uint = 0x08, "Hint: the order of messages does not matter (4.3).";
    PTL_PT_ALLOC_DISABLED: c_uint = 0x10, "Begin disabled (4.3).";
    PTL_PT_ALLOC_OPTIONS_MASK: c_uint = 0x1f, "All of these.";
    PTL_MD_EVENT_CT_SEND: c_uint = 0x0000_0002, "Count SEND.";
    PTL_MD_EVENT_CT_REPLY: c_uint = 0x0000_0004, "Count REPLY.";
    PTL_MD_EVENT_CT_ACK: c_uint = 0x0000_0008, "Count acknowledgments.";
    PTL_MD_UNORDERED: c_uint = 0x0000_0010, "Messages may overtake one another.";
    PTL_MD_EVENT_SUCCESS_DISABLE: c_uint = 0x0000_0020, "No events for what succeeds.";
    PTL_MD_VOLATILE: c_uint = 0x0000_0040, "Memory is the program's again on return.";
    PTL_MD_EVENT_SEND_DISABLE: c_uint = 0x0000_0080, "No SEND events for what succeeds.";
    PTL_MD_UNRELIABLE: c_uint = 0x0000_0100, "Messages may be lost (4.3); here none are.";
    PTL_MD_EVENT_CT_BYTES: c_uint = 0x0000_4000, "Count bytes in place of operations.";
    PTL_MD_OPTIONS_MASK: c_uint = 0x0000_41ff, "All of these, with PTL_IOVEC.";
    PTL_PRIORITY_LIST: ptl_list_t = 0, "Entries for what is expected; tried first.";
    PTL_OVERFLOW_LIST: ptl_list_t = 1, "Entries for what is not; their messages are kept to be found.";
    PTL_SEARCH_ONLY: ptl_search_op_t = 0, "Look whether there is an unexpected message.";
    PTL_SEARCH_DELETE: ptl_search_op_t = 1, "And take it.";
    PTL_ME_OP_PUT: c_uint = 0x0000_0002, "Admit puts, atomics, fetching atomics.";
    PTL_ME_OP_GET: c_uint = 0x0000_0004, "Admit gets, fetching atomics.";
    PTL_ME_USE_ONCE: c_uint = 0x0000_0008, "Unlink with the first message.";
    PTL_ME_UNEXPECTED_HDR_DISABLE: c_uint = 0x0000_0010, "Overflow list: keep no headers.";
    PTL_ME_IS_ACCESSIBLE: c_uint = 0x0000_0020, "All memory of the entry is mapped.";
    PTL_ME_EVENT_LINK_DISABLE: c_uint = 0x0000_0040, "No LINK event if it succeeds.";
    PTL_ME_EVENT_COMM_DISABLE: c_uint = 0x0000_0080, "No events of messages.";
    PTL_ME_EVENT_FLOWCTRL_DISABLE: c_uint = 0x0000_0100, "No PT_DISABLED events.";
    PTL_ME_EVENT_SUCCESS_DISABLE: c_uint = 0x0000_0200, "No events of messages that succeed.";
    PTL_ME_EVENT_OVER_DISABLE: c_uint = 0x0000_0400, "No *_OVERFLOW events.";
    PTL_ME_EVENT_UNLINK_DISABLE: c_uint = 0x0000_0800, "No AUTO_UNLINK and AUTO_FREE events.";
    PTL_ME_EVENT_CT_COMM: c_uint = 0x0000_1000, "Count messages.";
    PTL_ME_EVENT_CT_OVERFLOW: c_uint = 0x0000_2000, "Count unexpected messages found.";
    PTL_ME_EVENT_CT_BYTES: c_uint = 0x0000_4000, "Count bytes in place of operations.";
    PTL_ME_MANAGE_LOCAL: c_uint = 0x0000_8000, "Messages follow one another; their offset is ignored.";
    PTL_ME_NO_TRUNCATE: c_uint = 0x0001_0000, "Do not match what does not fit.";
    PTL_ME_MAY_ALIGN: c_uint = 0x0002_0000, "Messages that follow may be aligned.";
    PTL_ME_LOCAL_INC_UH_RLENGTH: c_uint = 0x0004_0000, "Leave room for the unexpected messages found.";
    PTL_ME_ACK_DISABLE: c_uint = 0x0008_0000, "4.2; has no effect here.";
    PTL_ME_APPEND_OPTIONS_MASK: c_uint = 0x000f_ffff, "All of these, with PTL_IOVEC.";
    PTL_LE_OP_PUT: c_uint = PTL_ME_OP_PUT, "As for match list entries.";
    PTL_LE_OP_GET: c_uint = PTL_ME_OP_GET, "As for match list entries.";
    PTL_LE_USE_ONCE: c_uint = PTL_ME_USE_ONCE, "As for match list entries.";
    PTL_LE_UNEXPECTED_HDR_DISABLE: c_uint = PTL_ME_UNEXPECTED_HDR_DISABLE, "As for match list entries.";
    PTL_LE_IS_ACCESSIBLE: c_uint = PTL_ME_IS_ACCESSIBLE, "As for match list entries.";
    PTL_LE_EVENT_LINK_DISABLE: c_uint = PTL_ME_EVENT_LINK_DISABLE, "As for match list entries.";
    PTL_LE_EVENT_COMM_DISABLE: c_uint = PTL_ME_EVENT_COMM_DISABLE, "As for match list entries.";
    PTL_LE_EVENT_FLOWCTRL_DISABLE: c_uint = PTL_ME_EVENT_FLOWCTRL_DISABLE, "As for match list entries.";
    PTL_LE_EVENT_SUCCESS_DISABLE: c_uint = PTL_ME_EVENT_SUCCESS_DISABLE, "As for match list entries.";
    PTL_LE_EVENT_OVER_DISABLE: c_uint = PTL_ME_EVENT_OVER_DISABLE, "As for match list entries.";
    PTL_LE_EVENT_UNLINK_DISABLE: c_uint = PTL_ME_EVENT_UNLINK_DISABLE, "As for match list entries.";
    PTL_LE_EVENT_CT_COMM: c_uint = PTL_ME_EVENT_CT_COMM, "As for match list entries.";
    PTL_LE_EVENT_CT_OVERFLOW: c_uint = PTL_ME_EVENT_CT_OVERFLOW, "As for match list entries.";
    PTL_LE_EVENT_CT_BYTES: c_uint = PTL_ME_EVENT_CT_BYTES, "As for match list entries.";
    PTL_LE_ACK_DISABLE: c_uint = PTL_ME_ACK_DISABLE, "As for match list entries.";
    PTL_LE_APPEND_OPTIONS_MASK: c_uint = 0x0008_7fff, "As for match list entries.";
    PTL_CT_OPERATION: c_uint = 0, "Counts operations.";
    PTL_CT_BYTE: c_uint = 1, "Counts bytes.";
    PTL_MIN: ptl_op_t = 0, "The lesser value stays.";
    PTL_MAX: ptl_op_t = 1, "The greater value stays.";
    PTL_SUM: ptl_op_t = 2, "Sum.";
    PTL_PROD: ptl_op_t = 3, "Product.";
    PTL_LOR: ptl_op_t = 4, "Logical or.";
    PTL_LAND: ptl_op_t = 5, "Logical and.";
    PTL_BOR: ptl_op_t = 6, "Bitwise or.";
    PTL_BAND: ptl_op_t = 7, "Bitwise and.";
    PTL_LXOR: ptl_op_t = 8, "Logical exclusive or.";
    PTL_BXOR: ptl_op_t = 9, "Bitwise exclusive or.";
    PTL_SWAP: ptl_op_t = 10, "The value sent stays.";
    PTL_CSWAP: ptl_op_t = 11, "Swap if operand == target.";
    PTL_CSWAP_NE: ptl_op_t = 12, "Swap if operand != target.";
    PTL_CSWAP_LE: ptl_op_t = 13, "Swap if operand <= target.";
    PTL_CSWAP_LT: ptl_op_t = 14, "Swap if operand <  target.";
    PTL_CSWAP_GE: ptl_op_t = 15, "Swap if operand >= target.";
    PTL_CSWAP_GT: ptl_op_t = 16, "Swap if operand >  target.";
    PTL_MSWAP: ptl_op_t = 17, "Swap the bits where the operand has ones.";
    PTL_OP_LAST: ptl_op_t = 18, "Number of operations.";
    PTL_INT8_T: ptl_datatype_t = 0, "Type of an item.";
    PTL_UINT8_T: ptl_datatype_t = 1, "Type of an item.";
    PTL_INT16_T: ptl_datatype_t = 2, "Type of an item.";
    PTL_UINT16_T: ptl_datatype_t = 3, "Type of an item.";
    PTL_INT32_T: ptl_datatype_t = 4, "Type of an item.";
    PTL_UINT32_T: ptl_datatype_t = 5, "Type of an item.";
    PTL_FLOAT: ptl_datatype_t = 6, "Type of an item.";
    PTL_INT64_T: ptl_datatype_t = 7, "Type of an item.";
    PTL_UINT64_T: ptl_datatype_t = 8, "Type of an item.";
    PTL_DOUBLE: ptl_datatype_t = 9, "Type of an item.";
    PTL_FLOAT_COMPLEX: ptl_datatype_t = 10, "Type of an item.";
    PTL_DOUBLE_COMPLEX: ptl_datatype_t = 11, "Type of an item.";
    PTL_LONG_DOUBLE: ptl_datatype_t = 12, "The C compiler's, 16 bytes.";
    PTL_LONG_DOUBLE_COMPLEX: ptl_datatype_t = 13, "Type of an item.";
    PTL_DATATYPE_LAST: ptl_datatype_t = 14, "Number of types.";
    PTL_NO_ACK_REQ: ptl_ack_req_t = 0, "Nothing comes back.";
    PTL_ACK_REQ: ptl_ack_req_t = 1, "An ACK event, with what became of the operation.";
    PTL_CT_ACK_REQ: ptl_ack_req_t = 2, "Only the counter learns of it.";
    PTL_OC_ACK_REQ: ptl_ack_req_t = 3, "The counter learns that the operation is over, matched or not.";
    PTL_EVENT_GET: ptl_event_kind_t = 0, "A get was answered.";
    PTL_EVENT_GET_OVERFLOW: ptl_event_kind_t = 1, "An earlier get was found by an append or a search.";
    PTL_EVENT_PUT: ptl_event_kind_t = 2, "A put has arrived.";
    PTL_EVENT_PUT_OVERFLOW: ptl_event_kind_t = 3, "An earlier put was found.";
    PTL_EVENT_ATOMIC: ptl_event_kind_t = 4, "An atomic was done.";
    PTL_EVENT_ATOMIC_OVERFLOW: ptl_event_kind_t = 5, "An earlier atomic was found.";
    PTL_EVENT_FETCH_ATOMIC: ptl_event_kind_t = 6, "A fetching atomic or swap was done.";
    PTL_EVENT_FETCH_ATOMIC_OVERFLOW: ptl_event_kind_t = 7, "An earlier one was found.";
    PTL_EVENT_REPLY: ptl_event_kind_t = 8, "The data of a get, fetching atomic or swap is here.";
    PTL_EVENT_SEND: ptl_event_kind_t = 9, "The memory may be used again.";
    PTL_EVENT_ACK: ptl_event_kind_t = 10, "The target has acknowledged.";
    PTL_EVENT_PT_DISABLED: ptl_event_kind_t = 11, "Flow control disabled the portal table entry.";
    PTL_EVENT_LINK: ptl_event_kind_t = 12, "An entry is in its list.";
    PTL_EVENT_AUTO_UNLINK: ptl_event_kind_t = 13, "An entry has left its list by itself.";
    PTL_EVENT_AUTO_FREE: ptl_event_kind_t = 14, "Nothing refers to an overflow entry's memory any more.";
    PTL_EVENT_SEARCH: ptl_event_kind_t = 15, "A search is over.";
}
