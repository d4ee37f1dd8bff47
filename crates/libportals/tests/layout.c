/* Prints what a C compiler makes of portals4.h, as lines of name=value.
 * tests/layout.rs compiles and reads it. names.inc, which it writes, has a line
 * CONSTANT(name) for every constant that the header defines. */
#include "portals4.h"
#include "sluice_job.h"

#include <stddef.h>
#include <stdio.h>

#define PRINT(name, value) printf("%s=%llu\n", name, (unsigned long long)(value))
#define CONSTANT(name) PRINT(#name, name);
#define SIZE(type) PRINT("sizeof " #type, sizeof(type));
#define FIELD(type, field) PRINT(#type "." #field, offsetof(type, field));

int main(void)
{
#include "names.inc"

    SIZE(ptl_size_t) SIZE(ptl_pt_index_t) SIZE(ptl_match_bits_t) SIZE(ptl_hdr_data_t)
    SIZE(ptl_time_t) SIZE(ptl_interface_t) SIZE(ptl_nid_t) SIZE(ptl_pid_t) SIZE(ptl_rank_t)
    SIZE(ptl_uid_t) SIZE(ptl_sr_index_t) SIZE(ptl_sr_value_t) SIZE(ptl_handle_any_t)
    SIZE(ptl_ni_fail_t) SIZE(ptl_list_t) SIZE(ptl_search_op_t) SIZE(ptl_op_t)
    SIZE(ptl_datatype_t) SIZE(ptl_ack_req_t) SIZE(ptl_event_kind_t)

    SIZE(ptl_process_t) FIELD(ptl_process_t, rank)
    FIELD(ptl_process_t, phys.nid) FIELD(ptl_process_t, phys.pid)

    SIZE(ptl_iovec_t) FIELD(ptl_iovec_t, iov_base) FIELD(ptl_iovec_t, iov_len)

    SIZE(ptl_ni_limits_t)
    FIELD(ptl_ni_limits_t, max_entries) FIELD(ptl_ni_limits_t, max_unexpected_headers)
    FIELD(ptl_ni_limits_t, max_mds) FIELD(ptl_ni_limits_t, max_cts)
    FIELD(ptl_ni_limits_t, max_eqs) FIELD(ptl_ni_limits_t, max_pt_index)
    FIELD(ptl_ni_limits_t, max_iovecs) FIELD(ptl_ni_limits_t, max_list_size)
    FIELD(ptl_ni_limits_t, max_triggered_ops) FIELD(ptl_ni_limits_t, max_msg_size)
    FIELD(ptl_ni_limits_t, max_atomic_size) FIELD(ptl_ni_limits_t, max_fetch_atomic_size)
    FIELD(ptl_ni_limits_t, max_waw_ordered_size) FIELD(ptl_ni_limits_t, max_war_ordered_size)
    FIELD(ptl_ni_limits_t, max_volatile_size) FIELD(ptl_ni_limits_t, features)

    SIZE(ptl_md_t) FIELD(ptl_md_t, start) FIELD(ptl_md_t, length) FIELD(ptl_md_t, options)
    FIELD(ptl_md_t, eq_handle) FIELD(ptl_md_t, ct_handle)

    SIZE(ptl_le_t) FIELD(ptl_le_t, start) FIELD(ptl_le_t, length) FIELD(ptl_le_t, ct_handle)
    FIELD(ptl_le_t, uid) FIELD(ptl_le_t, options)

    SIZE(ptl_me_t) FIELD(ptl_me_t, start) FIELD(ptl_me_t, length) FIELD(ptl_me_t, ct_handle)
    FIELD(ptl_me_t, uid) FIELD(ptl_me_t, options) FIELD(ptl_me_t, match_id)
    FIELD(ptl_me_t, match_bits) FIELD(ptl_me_t, ignore_bits) FIELD(ptl_me_t, min_free)

    SIZE(ptl_ct_event_t) FIELD(ptl_ct_event_t, success) FIELD(ptl_ct_event_t, failure)

    SIZE(ptl_event_t) FIELD(ptl_event_t, start) FIELD(ptl_event_t, user_ptr)
    FIELD(ptl_event_t, hdr_data) FIELD(ptl_event_t, match_bits) FIELD(ptl_event_t, rlength)
    FIELD(ptl_event_t, mlength) FIELD(ptl_event_t, remote_offset) FIELD(ptl_event_t, initiator)
    FIELD(ptl_event_t, uid) FIELD(ptl_event_t, pt_index) FIELD(ptl_event_t, type)
    FIELD(ptl_event_t, ptl_list) FIELD(ptl_event_t, ni_fail_type)
    FIELD(ptl_event_t, atomic_operation) FIELD(ptl_event_t, atomic_type)
    return 0;
}
