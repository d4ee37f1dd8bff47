/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * portals4.h: the Portals 4 network programming interface, as Sluice offers it.
 *
 * It has everything of versions 4.2 and 4.3 of the specification. Link with
 * -lportals. Start at portals4(7); each function has a page in section 3.
 *
 * Comments that begin with slash, star, star document the function below them:
 *   @brief   one sentence
 *   @param[in|out|inout] name   what it is, with its unit
 *   @retval NAME   when that is returned
 *   @note    what a program must know besides
 *   @see     related functions
 * scripts/man.py makes the manual pages from them.
 *
 * Functions may be called from any thread, and not from a signal handler. Every
 * function may also return PTL_FAIL if the library itself fails; it then says why
 * on standard error.
 */
#ifndef PORTALS4_H
#define PORTALS4_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the specification, as major * 100 + minor. */
#define PTL_VERSION 403

/* --------------------------------------------------------------- return codes */

#define PTL_OK              0 /* done */
#define PTL_ARG_INVALID     1 /* an argument, a handle among them, is not valid */
#define PTL_CT_NONE_REACHED 2 /* time is over and no counter has reached its value */
#define PTL_EQ_DROPPED      3 /* here is an event, and some before it were lost */
#define PTL_EQ_EMPTY        4 /* there is no event */
#define PTL_FAIL            5 /* it failed for another reason */
#define PTL_IGNORED         6 /* it was already so; nothing was changed */
#define PTL_IN_USE          7 /* something still works with the object */
#define PTL_LIST_TOO_LONG   8 /* the list has its max_list_size entries */
#define PTL_NO_INIT         9 /* PtlInit has not been called */
#define PTL_NO_SPACE       10 /* no memory, or a limit of the interface is reached */
#define PTL_PID_IN_USE     11 /* another process has the process identifier */
#define PTL_PT_FULL        12 /* every portal table entry is taken */
#define PTL_PT_EQ_NEEDED   13 /* flow control without an event queue */
#define PTL_PT_IN_USE      14 /* the portal table entry is taken, or not empty */
#define PTL_ABORTED        15 /* PtlAbort was called (4.3) */
#define PTL_INTERRUPTED    16 /* a wait was interrupted (4.2). Never returned */
#define PTL_STATUS_LAST    17 /* one past the last code */

/* ------------------------------------------------------------------ base types */

typedef uint64_t     ptl_size_t;       /* bytes, or a count */
typedef uint32_t     ptl_pt_index_t;   /* index into a portal table */
typedef uint64_t     ptl_match_bits_t; /* match bits */
typedef uint64_t     ptl_hdr_data_t;   /* data that travels in the header */
typedef unsigned int ptl_time_t;       /* milliseconds */
typedef unsigned int ptl_interface_t;  /* number of a network */
typedef uint32_t     ptl_nid_t;        /* node */
typedef uint32_t     ptl_pid_t;        /* process of a node */
typedef uint32_t     ptl_rank_t;       /* process of a job */
typedef uint32_t     ptl_uid_t;        /* user */
typedef unsigned int ptl_sr_index_t;   /* PTL_SR_*: a status register */
typedef int          ptl_sr_value_t;   /* value of a status register */

/* Handles are numbers. They may be compared with ==, and a handle of an object
 * that is gone is refused, not mistaken for another. All bits zero is no handle. */
typedef uint64_t         ptl_handle_any_t; /* any of the following */
typedef ptl_handle_any_t ptl_handle_ni_t;  /* network interface */
typedef ptl_handle_any_t ptl_handle_eq_t;  /* event queue */
typedef ptl_handle_any_t ptl_handle_ct_t;  /* counter */
typedef ptl_handle_any_t ptl_handle_md_t;  /* memory descriptor */
typedef ptl_handle_any_t ptl_handle_le_t;  /* list entry */
typedef ptl_handle_any_t ptl_handle_me_t;  /* match list entry */

#define PTL_INVALID_HANDLE ((ptl_handle_any_t)-1) /* names nothing */
#define PTL_EQ_NONE        ((ptl_handle_eq_t)-2)  /* no event queue */
#define PTL_CT_NONE        ((ptl_handle_ct_t)-3)  /* no counter */

#define PTL_IFACE_DEFAULT 0xffffffffu      /* the one network there is; so is 0 */
#define PTL_NID_ANY       0xffffffffu      /* any node */
#define PTL_PID_ANY       0xffffffffu      /* any process of the node */
#define PTL_PID_MAX       0x003fffffu      /* greatest process identifier */
#define PTL_RANK_ANY      0xffffffffu      /* any process of the job */
#define PTL_UID_ANY       0xffffffffu      /* any user */
#define PTL_PT_ANY        0xffffffffu      /* any free portal table entry */
#define PTL_TIME_FOREVER  0xffffffffu      /* no end of waiting */
#define PTL_SIZE_MAX      ((ptl_size_t)-1) /* the greatest ptl_size_t */

/* A process. Which member counts depends on the kind of the interface. */
typedef union {
    ptl_rank_t rank;   /* PTL_NI_LOGICAL: its index in the map */
    struct {
        ptl_nid_t nid; /* PTL_NI_PHYSICAL: its node ... */
        ptl_pid_t pid; /* ... and its number there */
    } phys;
} ptl_process_t;

/* With this bit in the options of a descriptor or an entry, start points to an
 * array of ptl_iovec_t and length counts its elements. The pieces act as one
 * region. The array must stay unchanged as long as the descriptor or entry is. */
#define PTL_IOVEC 0x00000001

typedef struct {
    void      *iov_base; /* where the piece begins */
    ptl_size_t iov_len;  /* bytes of the piece */
} ptl_iovec_t;

/* -------------------------------------------------------------- network interface */

#define PTL_NI_MATCHING          0x1 /* lists hold match list entries */
#define PTL_NI_NO_MATCHING       0x2 /* lists hold list entries */
#define PTL_NI_LOGICAL           0x4 /* processes are ranks */
#define PTL_NI_PHYSICAL          0x8 /* processes are node and process identifiers */
#define PTL_NI_INIT_OPTIONS_MASK 0xf /* all of these */

/* Features of an interface. */
#define PTL_TARGET_BIND_INACCESSIBLE 0x1 /* entries and descriptors may span unmapped memory */
#define PTL_TOTAL_DATA_ORDERING      0x2 /* data of ordered operations is ordered at any length */
#define PTL_COHERENT_ATOMICS         0x4 /* atomic also towards the processor's own (4.3) */

/* Status registers. */
#define PTL_SR_DROP_COUNT            0 /* messages that found no place */
#define PTL_SR_PERMISSION_VIOLATIONS 1 /* messages of users that an entry does not admit */
#define PTL_SR_OPERATION_VIOLATIONS  2 /* operations that an entry does not admit */
#define PTL_SR_LAST                  3 /* number of registers */

/* Why an operation failed: ni_fail_type of an event. */
typedef unsigned char ptl_ni_fail_t;
#define PTL_NI_OK             0 /* it did not */
#define PTL_NI_UNDELIVERABLE  1 /* the target cannot be reached */
#define PTL_NI_DROPPED        2 /* no entry and no space for it */
#define PTL_NI_PT_DISABLED    3 /* the portal table entry is disabled */
#define PTL_NI_PERM_VIOLATION 4 /* the entry is for another user */
#define PTL_NI_OP_VIOLATION   5 /* the entry does not admit this operation */
#define PTL_NI_NO_MATCH       6 /* a search found nothing */
#define PTL_NI_SEGV           7 /* memory of a descriptor or entry is not accessible */

/* Limits. Counts are limited to 16777215 each. */
typedef struct {
    int          max_entries;            /* list entries at any one time */
    int          max_unexpected_headers; /* messages kept whose entry was in the overflow list */
    int          max_mds;                /* memory descriptors */
    int          max_cts;                /* counters */
    int          max_eqs;                /* event queues */
    int          max_pt_index;           /* greatest portal table index; at least 63 */
    int          max_iovecs;             /* elements of one I/O vector */
    int          max_list_size;          /* entries of one list */
    int          max_triggered_ops;      /* triggered operations that wait */
    ptl_size_t   max_msg_size;           /* bytes of one put, get or reply */
    ptl_size_t   max_atomic_size;        /* bytes of one PtlAtomic */
    ptl_size_t   max_fetch_atomic_size;  /* bytes of one PtlFetchAtomic or PtlSwap */
    ptl_size_t   max_waw_ordered_size;   /* bytes up to which data of a write keeps before a
                                            write or read that follows; at least 64 */
    ptl_size_t   max_war_ordered_size;   /* bytes up to which data of a read keeps before a
                                            write that follows; at least 8 */
    ptl_size_t   max_volatile_size;      /* bytes of one operation with PTL_MD_VOLATILE */
    unsigned int features;               /* PTL_TARGET_BIND_INACCESSIBLE and so on, ORed */
} ptl_ni_limits_t;

/* --------------------------------------------------------------- portal table */

#define PTL_PT_ONLY_USE_ONCE      0x01 /* hint: all entries will have USE_ONCE */
#define PTL_PT_FLOWCTRL           0x02 /* disable the entry where messages would be lost */
#define PTL_PT_ONLY_TRUNCATE      0x04 /* hint: no entry will have NO_TRUNCATE */
#define PTL_PT_MATCH_UNORDERED    0x08 /* hint: the order of messages does not matter (4.3) */
#define PTL_PT_ALLOC_DISABLED     0x10 /* begin disabled (4.3) */
#define PTL_PT_ALLOC_OPTIONS_MASK 0x1f /* all of these */

/* ----------------------------------------------------------- memory descriptors */

#define PTL_MD_EVENT_CT_SEND         0x00000002 /* count SEND */
#define PTL_MD_EVENT_CT_REPLY        0x00000004 /* count REPLY */
#define PTL_MD_EVENT_CT_ACK          0x00000008 /* count acknowledgments */
#define PTL_MD_UNORDERED             0x00000010 /* messages may overtake one another */
#define PTL_MD_EVENT_SUCCESS_DISABLE 0x00000020 /* no events for what succeeds */
#define PTL_MD_VOLATILE              0x00000040 /* memory is the program's again on return */
#define PTL_MD_EVENT_SEND_DISABLE    0x00000080 /* no SEND events for what succeeds */
#define PTL_MD_UNRELIABLE            0x00000100 /* messages may be lost (4.3); here none are */
#define PTL_MD_EVENT_CT_BYTES        0x00004000 /* count bytes in place of operations */
#define PTL_MD_OPTIONS_MASK          0x000041ff /* all of these, with PTL_IOVEC */

typedef struct {
    void           *start;     /* begin of the region, or of an array of ptl_iovec_t */
    ptl_size_t      length;    /* bytes of the region, or elements of the array */
    unsigned int    options;   /* PTL_MD_* and PTL_IOVEC, ORed */
    ptl_handle_eq_t eq_handle; /* takes the events; or PTL_EQ_NONE */
    ptl_handle_ct_t ct_handle; /* counts; or PTL_CT_NONE */
} ptl_md_t;

/* --------------------------------------------------------------- lists and entries */

typedef unsigned char ptl_list_t;
#define PTL_PRIORITY_LIST 0 /* entries for what is expected; tried first */
#define PTL_OVERFLOW_LIST 1 /* entries for what is not; their messages are kept to be found */

typedef unsigned char ptl_search_op_t;
#define PTL_SEARCH_ONLY   0 /* look whether there is an unexpected message */
#define PTL_SEARCH_DELETE 1 /* and take it */

#define PTL_ME_OP_PUT                 0x00000002 /* admit puts, atomics, fetching atomics */
#define PTL_ME_OP_GET                 0x00000004 /* admit gets, fetching atomics */
#define PTL_ME_USE_ONCE               0x00000008 /* unlink with the first message */
#define PTL_ME_UNEXPECTED_HDR_DISABLE 0x00000010 /* overflow list: keep no headers */
#define PTL_ME_IS_ACCESSIBLE          0x00000020 /* all memory of the entry is mapped */
#define PTL_ME_EVENT_LINK_DISABLE     0x00000040 /* no LINK event if it succeeds */
#define PTL_ME_EVENT_COMM_DISABLE     0x00000080 /* no events of messages */
#define PTL_ME_EVENT_FLOWCTRL_DISABLE 0x00000100 /* no PT_DISABLED events */
#define PTL_ME_EVENT_SUCCESS_DISABLE  0x00000200 /* no events of messages that succeed */
#define PTL_ME_EVENT_OVER_DISABLE     0x00000400 /* no *_OVERFLOW events */
#define PTL_ME_EVENT_UNLINK_DISABLE   0x00000800 /* no AUTO_UNLINK and AUTO_FREE events */
#define PTL_ME_EVENT_CT_COMM          0x00001000 /* count messages */
#define PTL_ME_EVENT_CT_OVERFLOW      0x00002000 /* count unexpected messages found */
#define PTL_ME_EVENT_CT_BYTES         0x00004000 /* count bytes in place of operations */
#define PTL_ME_MANAGE_LOCAL           0x00008000 /* messages follow one another; their offset is ignored */
#define PTL_ME_NO_TRUNCATE            0x00010000 /* do not match what does not fit */
#define PTL_ME_MAY_ALIGN              0x00020000 /* messages that follow may be aligned */
#define PTL_ME_LOCAL_INC_UH_RLENGTH   0x00040000 /* leave room for the unexpected messages found */
#define PTL_ME_ACK_DISABLE            0x00080000 /* 4.2; has no effect here */
#define PTL_ME_APPEND_OPTIONS_MASK    0x000fffff /* all of these, with PTL_IOVEC */

#define PTL_LE_OP_PUT                 PTL_ME_OP_PUT
#define PTL_LE_OP_GET                 PTL_ME_OP_GET
#define PTL_LE_USE_ONCE               PTL_ME_USE_ONCE
#define PTL_LE_UNEXPECTED_HDR_DISABLE PTL_ME_UNEXPECTED_HDR_DISABLE
#define PTL_LE_IS_ACCESSIBLE          PTL_ME_IS_ACCESSIBLE
#define PTL_LE_EVENT_LINK_DISABLE     PTL_ME_EVENT_LINK_DISABLE
#define PTL_LE_EVENT_COMM_DISABLE     PTL_ME_EVENT_COMM_DISABLE
#define PTL_LE_EVENT_FLOWCTRL_DISABLE PTL_ME_EVENT_FLOWCTRL_DISABLE
#define PTL_LE_EVENT_SUCCESS_DISABLE  PTL_ME_EVENT_SUCCESS_DISABLE
#define PTL_LE_EVENT_OVER_DISABLE     PTL_ME_EVENT_OVER_DISABLE
#define PTL_LE_EVENT_UNLINK_DISABLE   PTL_ME_EVENT_UNLINK_DISABLE
#define PTL_LE_EVENT_CT_COMM          PTL_ME_EVENT_CT_COMM
#define PTL_LE_EVENT_CT_OVERFLOW      PTL_ME_EVENT_CT_OVERFLOW
#define PTL_LE_EVENT_CT_BYTES         PTL_ME_EVENT_CT_BYTES
#define PTL_LE_ACK_DISABLE            PTL_ME_ACK_DISABLE
#define PTL_LE_APPEND_OPTIONS_MASK    0x00087fff

/* An entry of an interface without matching. */
typedef struct {
    void           *start;     /* begin of the region, or of an array of ptl_iovec_t */
    ptl_size_t      length;    /* bytes of the region, or elements of the array */
    ptl_handle_ct_t ct_handle; /* counts; or PTL_CT_NONE */
    ptl_uid_t       uid;       /* whose messages are admitted; or PTL_UID_ANY */
    unsigned int    options;   /* PTL_LE_* and PTL_IOVEC, ORed */
} ptl_le_t;

/* An entry of an interface with matching. Begins like ptl_le_t. */
typedef struct {
    void            *start;
    ptl_size_t       length;
    ptl_handle_ct_t  ct_handle;
    ptl_uid_t        uid;
    unsigned int     options;     /* PTL_ME_* and PTL_IOVEC, ORed */
    ptl_process_t    match_id;    /* whose messages match; PTL_RANK_ANY, or PTL_NID_ANY and
                                     PTL_PID_ANY, for all */
    ptl_match_bits_t match_bits;  /* match bits that a message must have ... */
    ptl_match_bits_t ignore_bits; /* ... except where this has ones */
    ptl_size_t       min_free;    /* PTL_ME_MANAGE_LOCAL: unlink when fewer bytes are left; 0: never */
} ptl_me_t;

/* -------------------------------------------------------------------- counters */

typedef struct {
    ptl_size_t success; /* operations, or bytes, that succeeded */
    ptl_size_t failure; /* operations that failed */
} ptl_ct_event_t;

/* What a counter counts. Of the options' words; no function takes it. */
typedef unsigned int ptl_ct_type_t;
#define PTL_CT_OPERATION 0
#define PTL_CT_BYTE      1

/* ----------------------------------------------------------------------- atomics */

typedef unsigned char ptl_op_t;
#define PTL_MIN       0 /* the lesser value stays */
#define PTL_MAX       1 /* the greater value stays */
#define PTL_SUM       2 /* sum */
#define PTL_PROD      3 /* product */
#define PTL_LOR       4 /* logical or */
#define PTL_LAND      5 /* logical and */
#define PTL_BOR       6 /* bitwise or */
#define PTL_BAND      7 /* bitwise and */
#define PTL_LXOR      8 /* logical exclusive or */
#define PTL_BXOR      9 /* bitwise exclusive or */
#define PTL_SWAP     10 /* the value sent stays */
#define PTL_CSWAP    11 /* swap if operand == target */
#define PTL_CSWAP_NE 12 /* swap if operand != target */
#define PTL_CSWAP_LE 13 /* swap if operand <= target */
#define PTL_CSWAP_LT 14 /* swap if operand <  target */
#define PTL_CSWAP_GE 15 /* swap if operand >= target */
#define PTL_CSWAP_GT 16 /* swap if operand >  target */
#define PTL_MSWAP    17 /* swap the bits where the operand has ones */
#define PTL_OP_LAST  18 /* number of operations */

typedef unsigned char ptl_datatype_t;
#define PTL_INT8_T               0
#define PTL_UINT8_T              1
#define PTL_INT16_T              2
#define PTL_UINT16_T             3
#define PTL_INT32_T              4
#define PTL_UINT32_T             5
#define PTL_FLOAT                6
#define PTL_INT64_T              7
#define PTL_UINT64_T             8
#define PTL_DOUBLE               9
#define PTL_FLOAT_COMPLEX       10
#define PTL_DOUBLE_COMPLEX      11
#define PTL_LONG_DOUBLE         12 /* the C compiler's, 16 bytes */
#define PTL_LONG_DOUBLE_COMPLEX 13
#define PTL_DATATYPE_LAST       14 /* number of types */

typedef unsigned char ptl_ack_req_t;
#define PTL_NO_ACK_REQ 0 /* nothing comes back */
#define PTL_ACK_REQ    1 /* an ACK event, with what became of the operation */
#define PTL_CT_ACK_REQ 2 /* only the counter learns of it */
#define PTL_OC_ACK_REQ 3 /* the counter learns that the operation is over, matched or not */

/* ------------------------------------------------------------------------ events */

typedef unsigned char ptl_event_kind_t;
/* At the target. */
#define PTL_EVENT_GET                    0 /* a get was answered */
#define PTL_EVENT_GET_OVERFLOW           1 /* an earlier get was found by an append or a search */
#define PTL_EVENT_PUT                    2 /* a put has arrived */
#define PTL_EVENT_PUT_OVERFLOW           3 /* an earlier put was found */
#define PTL_EVENT_ATOMIC                 4 /* an atomic was done */
#define PTL_EVENT_ATOMIC_OVERFLOW        5 /* an earlier atomic was found */
#define PTL_EVENT_FETCH_ATOMIC           6 /* a fetching atomic or swap was done */
#define PTL_EVENT_FETCH_ATOMIC_OVERFLOW  7 /* an earlier one was found */
/* At the initiator. */
#define PTL_EVENT_REPLY                  8 /* the data of a get, fetching atomic or swap is here */
#define PTL_EVENT_SEND                   9 /* the memory may be used again */
#define PTL_EVENT_ACK                   10 /* the target has acknowledged */
/* At the target. */
#define PTL_EVENT_PT_DISABLED           11 /* flow control disabled the portal table entry */
#define PTL_EVENT_LINK                  12 /* an entry is in its list */
#define PTL_EVENT_AUTO_UNLINK           13 /* an entry has left its list by itself */
#define PTL_EVENT_AUTO_FREE             14 /* nothing refers to an overflow entry's memory any more */
#define PTL_EVENT_SEARCH                15 /* a search is over */

/* An event. Members that say nothing for its type are zero. */
typedef struct {
    void            *start;            /* where at the target the data is */
    void            *user_ptr;         /* as given with the operation, or with the entry */
    ptl_hdr_data_t   hdr_data;         /* as given by the initiator */
    ptl_match_bits_t match_bits;       /* as given by the initiator */
    ptl_size_t       rlength;          /* bytes asked for */
    ptl_size_t       mlength;          /* bytes moved */
    ptl_size_t       remote_offset;    /* at the target: as asked; at the initiator: as used */
    ptl_process_t    initiator;        /* who began it */
    ptl_uid_t        uid;              /* the initiator's user */
    ptl_pt_index_t   pt_index;         /* the portal table entry */
    ptl_event_kind_t type;             /* PTL_EVENT_* */
    ptl_list_t       ptl_list;         /* list of the entry that took it */
    ptl_ni_fail_t    ni_fail_type;     /* PTL_NI_* */
    ptl_op_t         atomic_operation; /* of an atomic */
    ptl_datatype_t   atomic_type;      /* of an atomic */
} ptl_event_t;
