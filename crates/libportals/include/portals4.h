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

/* Limits. Counts are limited to 4194304 each. */
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

/* ======================================================================= functions */

/* -------------------------------------------------------------- begin and end */

/**
 * @brief Make the library ready.
 * @retval PTL_OK    It is ready.
 * @retval PTL_FAIL  It cannot work here; standard error says why.
 * @note Every call needs a PtlFini of its own.
 * @see PtlFini PtlNIInit
 */
int PtlInit(void);

/**
 * @brief Undo one PtlInit.
 * @note The last one ends all interfaces that are left and frees everything. Operations
 *   that are under way are given up; a program that cares waits for their events first.
 * @see PtlInit PtlNIFini
 */
void PtlFini(void);

/**
 * @brief Make every waiting function return PTL_ABORTED, now and from now on.
 * @note Threads in PtlEQWait, PtlEQPoll, PtlCTWait and PtlCTPoll leave, so that another
 *   thread may free what they waited for. It lasts until the last PtlFini. PtlEQGet and
 *   PtlCTGet still work.
 * @see PtlEQWait PtlCTWait PtlFini
 */
void PtlAbort(void);

/* -------------------------------------------------------------- network interfaces */

/**
 * @brief Open a network interface.
 * @param[in] iface    the network: PTL_IFACE_DEFAULT or 0
 * @param[in] options  one of PTL_NI_MATCHING and PTL_NI_NO_MATCHING, ORed with one of
 *   PTL_NI_LOGICAL and PTL_NI_PHYSICAL
 * @param[in] pid      the process identifier wanted, up to PTL_PID_MAX, or PTL_PID_ANY for
 *   one that is free
 * @param[in] desired  the limits wanted, or NULL for the default ones
 * @param[out] actual  the limits that hold, or NULL if of no interest
 * @param[out] ni_handle  the interface
 * @retval PTL_OK           It is open.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  There is no such network, the options do not fit each other, pid is
 *   too great or other than that of this process's other interfaces, or ni_handle is NULL.
 * @retval PTL_PID_IN_USE   Another process has that pid, or a port that follows from it in a job
 *   with a key.
 * @retval PTL_NO_SPACE     There is not enough memory for the interface.
 * @note A process has at most one interface of each of the four kinds; to open one again gives
 *   the same handle, with the limits it has, and asks for one more PtlNIFini. All interfaces of
 *   a process have the same process identifier. A desired limit is a wish: actual may be more or
 *   less. After the last PtlNIFini, an interface opened anew may have other limits.
 * @see PtlNIFini PtlSetMap PtlGetPhysId
 */
int PtlNIInit(ptl_interface_t        iface,
              unsigned int           options,
              ptl_pid_t              pid,
              const ptl_ni_limits_t *desired,
              ptl_ni_limits_t       *actual,
              ptl_handle_ni_t       *ni_handle);

/**
 * @brief Close a network interface.
 * @param[in] ni_handle  the interface
 * @retval PTL_OK           It is closed, or one PtlNIInit of several is undone.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not one of an open interface.
 * @note If others may still send to it, the last call goes on serving them until nothing has come
 *   for 50 ms, and 500 ms at most. Everything that belongs to it goes with it; handles of those
 *   become invalid. Threads that wait at it return PTL_ARG_INVALID.
 * @see PtlNIInit
 */
int PtlNIFini(ptl_handle_ni_t ni_handle);

/**
 * @brief Read a status register.
 * @param[in] ni_handle        the interface
 * @param[in] status_register  PTL_SR_DROP_COUNT, PTL_SR_PERMISSION_VIOLATIONS or
 *   PTL_SR_OPERATION_VIOLATIONS
 * @param[out] status          number of messages counted so far
 * @retval PTL_OK           status is set.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, there is no such register, or status is NULL.
 */
int PtlNIStatus(ptl_handle_ni_t ni_handle,
                ptl_sr_index_t  status_register,
                ptl_sr_value_t *status);

/**
 * @brief Find the interface of an object.
 * @param[in] handle      any object, or an interface
 * @param[out] ni_handle  the interface that it belongs to
 * @retval PTL_OK           ni_handle is set.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or ni_handle is NULL.
 */
int PtlNIHandle(ptl_handle_any_t handle,
                ptl_handle_ni_t *ni_handle);

/**
 * @brief Say which process has which rank.
 * @param[in] ni_handle  an interface of kind PTL_NI_LOGICAL
 * @param[in] map_size   number of ranks
 * @param[in] mapping    for each rank, from 0, the physical identity of the process
 * @retval PTL_OK           The map is set.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid or the interface is physical, the map is empty
 *   or NULL, or the calling process is not in it.
 * @retval PTL_NO_SPACE     There is not enough memory.
 * @retval PTL_IGNORED      There is a map already; it stays.
 * @note Every process of the job sets the same map. A program learns the identities of the
 *   others with its launcher's help; SluiceJobMap does both.
 * @see PtlGetMap PtlGetPhysId SluiceJobMap
 */
int PtlSetMap(ptl_handle_ni_t      ni_handle,
              ptl_size_t           map_size,
              const ptl_process_t *mapping);

/**
 * @brief Read the map of ranks.
 * @param[in] ni_handle         an interface of kind PTL_NI_LOGICAL
 * @param[in] map_size          number of elements that mapping has room for
 * @param[out] mapping          the first map_size elements of the map; NULL if map_size is 0
 * @param[out] actual_map_size  number of ranks in the map, or NULL
 * @retval PTL_OK           The map, or as much as there is room for, is in mapping.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, the interface is physical, or mapping is NULL
 *   although map_size is not 0.
 * @retval PTL_NO_SPACE     No map has been set.
 * @see PtlSetMap
 */
int PtlGetMap(ptl_handle_ni_t ni_handle,
              ptl_size_t      map_size,
              ptl_process_t  *mapping,
              ptl_size_t     *actual_map_size);

/* ------------------------------------------------------------ portal table entries */

/**
 * @brief Allocate a portal table entry.
 * @param[in] ni_handle     the interface
 * @param[in] options       PTL_PT_*, ORed, or 0
 * @param[in] eq_handle     takes the events of the entry, or PTL_EQ_NONE
 * @param[in] pt_index_req  the index wanted, or PTL_PT_ANY
 * @param[out] pt_index     the index
 * @retval PTL_OK            It is allocated and, without PTL_PT_ALLOC_DISABLED, enabled.
 * @retval PTL_NO_INIT       PtlInit has not been called.
 * @retval PTL_ARG_INVALID   A handle is not valid, the options have unknown bits, the index is
 *   greater than max_pt_index, or pt_index is NULL.
 * @retval PTL_PT_FULL       PTL_PT_ANY, and every index is taken.
 * @retval PTL_PT_IN_USE     The index wanted is taken.
 * @retval PTL_PT_EQ_NEEDED  PTL_PT_FLOWCTRL without an event queue.
 * @note With PTL_PT_FLOWCTRL, a message for which there is no entry, no space for its header or
 *   no room in the event queue disables the portal table entry. The target gets one
 *   PTL_EVENT_PT_DISABLED; this and all further messages fail at their initiators with
 *   PTL_NI_PT_DISABLED, until PtlPTEnable. Without it, messages without an entry are dropped,
 *   and events without room are lost.
 * @see PtlPTFree PtlPTDisable PtlPTEnable
 */
int PtlPTAlloc(ptl_handle_ni_t ni_handle,
               unsigned int    options,
               ptl_handle_eq_t eq_handle,
               ptl_pt_index_t  pt_index_req,
               ptl_pt_index_t *pt_index);

/**
 * @brief Free a portal table entry.
 * @param[in] ni_handle  the interface
 * @param[in] pt_index   the index
 * @retval PTL_OK           It is free.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or the index is not allocated.
 * @retval PTL_PT_IN_USE    There are still list entries or unexpected messages, or a message is
 *   just being received.
 * @see PtlPTAlloc
 */
int PtlPTFree(ptl_handle_ni_t ni_handle,
              ptl_pt_index_t  pt_index);

/**
 * @brief Stop receiving at a portal table entry.
 * @param[in] ni_handle  the interface
 * @param[in] pt_index   the index
 * @retval PTL_OK           It is disabled, and no message is being received any more.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or the index is not allocated.
 * @note It waits until what has begun is complete with its events, and gives no event of its
 *   own. Messages fail at their initiators with PTL_NI_PT_DISABLED from then on. Lists may be
 *   changed and searched as before.
 * @see PtlPTEnable
 */
int PtlPTDisable(ptl_handle_ni_t ni_handle,
                 ptl_pt_index_t  pt_index);

/**
 * @brief Receive at a portal table entry again.
 * @param[in] ni_handle  the interface
 * @param[in] pt_index   the index
 * @retval PTL_OK           It is enabled.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or the index is not allocated.
 * @see PtlPTDisable
 */
int PtlPTEnable(ptl_handle_ni_t ni_handle,
                ptl_pt_index_t  pt_index);

/* ------------------------------------------------------------------- identities */

/**
 * @brief Tell whose process this is.
 * @param[in] ni_handle  the interface
 * @param[out] uid       the user's number, as list entries name it
 * @retval PTL_OK           uid is set.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or uid is NULL.
 */
int PtlGetUid(ptl_handle_ni_t ni_handle,
              ptl_uid_t      *uid);

/**
 * @brief Tell who this process is, as the interface names processes.
 * @param[in] ni_handle  the interface
 * @param[out] id        a logical interface: the rank, PTL_RANK_ANY before PtlSetMap; a physical
 *   one: node and process identifier
 * @retval PTL_OK           id is set.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or id is NULL.
 * @see PtlGetPhysId
 */
int PtlGetId(ptl_handle_ni_t ni_handle,
             ptl_process_t  *id);

/**
 * @brief Tell the node and process identifier of this process.
 * @param[in] ni_handle  the interface, of any kind
 * @param[out] id        node and process identifier
 * @retval PTL_OK           id is set.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or id is NULL.
 * @see PtlGetId PtlSetMap
 */
int PtlGetPhysId(ptl_handle_ni_t ni_handle,
                 ptl_process_t  *id);

/* ----------------------------------------------------------- memory descriptors */

/**
 * @brief Make a memory descriptor, from which operations take their memory.
 * @param[in] ni_handle   the interface
 * @param[in] md          what it describes; not needed any more on return
 * @param[out] md_handle  the descriptor
 * @retval PTL_OK           It is made.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  A handle is not valid or of another interface, the options have unknown
 *   bits, an I/O vector is too long, or a pointer is NULL that must not be.
 * @retval PTL_NO_SPACE     max_mds is reached, or there is not enough memory.
 * @note Memory need not be mapped when the descriptor is made: one with start NULL and length
 *   PTL_SIZE_MAX spans all memory, and local offsets are then addresses. What an operation
 *   touches must be mapped, or it fails with PTL_NI_SEGV.
 * @note A counter counts only what the PTL_MD_EVENT_CT_* options name.
 * @see PtlMDRelease PtlPut PtlGet
 */
int PtlMDBind(ptl_handle_ni_t  ni_handle,
              const ptl_md_t  *md,
              ptl_handle_md_t *md_handle);

/**
 * @brief Release a memory descriptor.
 * @param[in] md_handle  the descriptor
 * @retval PTL_OK           The handle is not valid any more.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid.
 * @note Operations with it that are under way go on, and their events and counts come; its
 *   memory must stay as long. Triggered operations that still wait do nothing when their time
 *   comes.
 * @see PtlMDBind
 */
int PtlMDRelease(ptl_handle_md_t md_handle);

/* --------------------------------------------------------------- list entries */

/**
 * @brief Append an entry to a list of a portal table entry, without matching.
 * @param[in] ni_handle   an interface of kind PTL_NI_NO_MATCHING
 * @param[in] pt_index    the portal table entry
 * @param[in] le          what messages may do where; not needed any more on return
 * @param[in] ptl_list    PTL_PRIORITY_LIST or PTL_OVERFLOW_LIST
 * @param[in] user_ptr    given back with the entry's events
 * @param[out] le_handle  the entry
 * @retval PTL_OK             It is appended, or an unexpected message has used it up.
 * @retval PTL_NO_INIT        PtlInit has not been called.
 * @retval PTL_ARG_INVALID    A handle is not valid or of another interface, the interface is one
 *   with matching, the index is not allocated, the list or the options are unknown, an I/O vector
 *   is too long, or a pointer is NULL that must not be.
 * @retval PTL_NO_SPACE       max_entries is reached, or there is not enough memory.
 * @retval PTL_LIST_TOO_LONG  The list has max_list_size entries.
 * @note A new entry of the priority list first takes the unexpected messages there are, with one
 *   *_OVERFLOW event for each. With PTL_LE_USE_ONCE it takes one, and is then unlinked, not linked.
 *   Otherwise it is linked, which PTL_EVENT_LINK tells. An unexpected message's data is where
 *   start of the event says: in the memory of the overflow entry that received it.
 * @see PtlLEUnlink PtlLESearch PtlMEAppend
 */
int PtlLEAppend(ptl_handle_ni_t  ni_handle,
                ptl_pt_index_t   pt_index,
                const ptl_le_t  *le,
                ptl_list_t       ptl_list,
                void            *user_ptr,
                ptl_handle_le_t *le_handle);

/**
 * @brief Take a list entry out of its list.
 * @param[in] le_handle  the entry
 * @retval PTL_OK           It is gone; no message will use it.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid; the entry may have been unlinked by itself.
 * @retval PTL_IN_USE       A message is using it, or unexpected messages of it have not been taken.
 * @note It gives no event.
 * @see PtlLEAppend
 */
int PtlLEUnlink(ptl_handle_le_t le_handle);

/**
 * @brief Look for unexpected messages, without matching.
 * @param[in] ni_handle      an interface of kind PTL_NI_NO_MATCHING
 * @param[in] pt_index       the portal table entry
 * @param[in] le             an entry that would take the messages; its memory is not used
 * @param[in] ptl_search_op  PTL_SEARCH_ONLY or PTL_SEARCH_DELETE
 * @param[in] user_ptr       given back with the events
 * @retval PTL_OK           The answer comes as events.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlLEAppend; or ptl_search_op is unknown.
 * @note What is found comes as PTL_EVENT_SEARCH, or with PTL_SEARCH_DELETE as the message's
 *   *_OVERFLOW event. If nothing is, PTL_EVENT_SEARCH has PTL_NI_NO_MATCH. Without
 *   PTL_LE_USE_ONCE every message is found that the entry would take.
 * @see PtlLEAppend PtlMESearch
 */
int PtlLESearch(ptl_handle_ni_t ni_handle,
                ptl_pt_index_t  pt_index,
                const ptl_le_t *le,
                ptl_search_op_t ptl_search_op,
                void           *user_ptr);

/* --------------------------------------------------------- match list entries */

/**
 * @brief Append an entry to a list of a portal table entry, with matching.
 * @param[in] ni_handle   an interface of kind PTL_NI_MATCHING
 * @param[in] pt_index    the portal table entry
 * @param[in] me          which messages match, and what they may do where; not needed any more on
 *   return
 * @param[in] ptl_list    PTL_PRIORITY_LIST or PTL_OVERFLOW_LIST
 * @param[in] user_ptr    given back with the entry's events
 * @param[out] me_handle  the entry
 * @retval PTL_OK             It is appended, or an unexpected message has used it up.
 * @retval PTL_NO_INIT        PtlInit has not been called.
 * @retval PTL_ARG_INVALID    A handle is not valid or of another interface, the interface is one
 *   without matching, the index is not allocated, the list or the options are unknown, match_id is
 *   no process, an I/O vector is too long, or a pointer is NULL that must not be.
 * @retval PTL_NO_SPACE       max_entries is reached, or there is not enough memory.
 * @retval PTL_LIST_TOO_LONG  The list has max_list_size entries.
 * @note A message takes the oldest entry that it matches, of the priority list if there is one,
 *   else of the overflow list. It matches if its initiator is match_id and its match bits differ
 *   from match_bits only where ignore_bits has ones; with PTL_ME_NO_TRUNCATE it must also fit.
 * @note A new entry of the priority list first takes the unexpected messages that match it, as
 *   with PtlLEAppend.
 * @see PtlMEUnlink PtlMESearch PtlLEAppend
 */
int PtlMEAppend(ptl_handle_ni_t  ni_handle,
                ptl_pt_index_t   pt_index,
                const ptl_me_t  *me,
                ptl_list_t       ptl_list,
                void            *user_ptr,
                ptl_handle_me_t *me_handle);

/**
 * @brief Take a match list entry out of its list.
 * @param[in] me_handle  the entry
 * @retval PTL_OK           It is gone; no message will use it.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid; the entry may have been unlinked by itself.
 * @retval PTL_IN_USE       A message is using it, or unexpected messages of it have not been taken.
 * @note It gives no event.
 * @see PtlMEAppend
 */
int PtlMEUnlink(ptl_handle_me_t me_handle);

/**
 * @brief Look for unexpected messages, with matching.
 * @param[in] ni_handle      an interface of kind PTL_NI_MATCHING
 * @param[in] pt_index       the portal table entry
 * @param[in] me             an entry that would take the messages; its memory is not used
 * @param[in] ptl_search_op  PTL_SEARCH_ONLY or PTL_SEARCH_DELETE
 * @param[in] user_ptr       given back with the events
 * @retval PTL_OK           The answer comes as events.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlMEAppend; or ptl_search_op is unknown.
 * @note The events are those of PtlLESearch. An entry with PTL_ME_NO_TRUNCATE finds only what
 *   fits its length.
 * @see PtlMEAppend PtlLESearch
 */
int PtlMESearch(ptl_handle_ni_t ni_handle,
                ptl_pt_index_t  pt_index,
                const ptl_me_t *me,
                ptl_search_op_t ptl_search_op,
                void           *user_ptr);

/* ------------------------------------------------------------------ event queues */

/**
 * @brief Allocate an event queue.
 * @param[in] ni_handle   the interface
 * @param[in] count       number of events that it must have room for
 * @param[out] eq_handle  the queue
 * @retval PTL_OK           It is allocated.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or eq_handle is NULL.
 * @retval PTL_NO_SPACE     max_eqs is reached, or there is not enough memory.
 * @see PtlEQFree PtlEQGet PtlEQWait PtlEQPoll
 */
int PtlEQAlloc(ptl_handle_ni_t  ni_handle,
               ptl_size_t       count,
               ptl_handle_eq_t *eq_handle);

/**
 * @brief Free an event queue, with the events in it.
 * @param[in] eq_handle  the queue
 * @retval PTL_OK           It is gone.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid.
 * @note What still uses the queue gives no events any more. No thread may wait for it: see
 *   PtlAbort.
 * @see PtlEQAlloc PtlAbort
 */
int PtlEQFree(ptl_handle_eq_t eq_handle);

/**
 * @brief Take an event, if there is one.
 * @param[in] eq_handle  the queue
 * @param[out] event     the oldest event
 * @retval PTL_OK           There was one.
 * @retval PTL_EQ_DROPPED   There was one, and events before it were lost for lack of room.
 * @retval PTL_EQ_EMPTY     There was none.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or event is NULL.
 * @see PtlEQWait PtlEQPoll
 */
int PtlEQGet(ptl_handle_eq_t eq_handle,
             ptl_event_t    *event);

/**
 * @brief Wait for an event and take it.
 * @param[in] eq_handle  the queue
 * @param[out] event     the oldest event
 * @retval PTL_OK           There is one.
 * @retval PTL_EQ_DROPPED   There is one, and events before it were lost for lack of room.
 * @retval PTL_ABORTED      PtlAbort was called.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or became so while waiting, or event is NULL.
 * @see PtlEQGet PtlEQPoll PtlAbort
 */
int PtlEQWait(ptl_handle_eq_t eq_handle,
              ptl_event_t    *event);

/**
 * @brief Wait for an event in one of several queues and take it.
 * @param[in] eq_handles  the queues, all of one interface
 * @param[in] size        number of queues
 * @param[in] timeout     milliseconds to wait: 0 only looks, PTL_TIME_FOREVER has no end
 * @param[out] event      the oldest event of a queue
 * @param[out] which      index of that queue in eq_handles
 * @retval PTL_OK           There is one.
 * @retval PTL_EQ_DROPPED   There is one, and events before it were lost for lack of room.
 * @retval PTL_EQ_EMPTY     There was none in that time.
 * @retval PTL_ABORTED      PtlAbort was called.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  A handle is not valid, or became so while waiting, the queues belong to
 *   several interfaces, size is 0, or a pointer is NULL.
 * @note Each call begins its look at the next queue, so that none is neglected.
 * @see PtlEQGet PtlEQWait PtlAbort
 */
int PtlEQPoll(const ptl_handle_eq_t *eq_handles,
              unsigned int           size,
              ptl_time_t             timeout,
              ptl_event_t           *event,
              unsigned int          *which);

/* ------------------------------------------------------------------------ counters */

/**
 * @brief Allocate a counter.
 * @param[in] ni_handle   the interface
 * @param[out] ct_handle  the counter; both its numbers are 0
 * @retval PTL_OK           It is allocated.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or ct_handle is NULL.
 * @retval PTL_NO_SPACE     max_cts is reached, or there is not enough memory.
 * @see PtlCTFree PtlCTGet PtlCTWait
 */
int PtlCTAlloc(ptl_handle_ni_t  ni_handle,
               ptl_handle_ct_t *ct_handle);

/**
 * @brief Free a counter.
 * @param[in] ct_handle  the counter
 * @retval PTL_OK           It is gone.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid.
 * @note Operations that it would have triggered are cancelled. No thread may wait for it: see
 *   PtlAbort.
 * @see PtlCTAlloc PtlAbort
 */
int PtlCTFree(ptl_handle_ct_t ct_handle);

/**
 * @brief Cancel all operations that a counter has not triggered yet.
 * @param[in] ct_handle  the counter
 * @retval PTL_OK           They are gone, without events. The counter keeps its value.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid.
 * @see PtlTriggeredPut
 */
int PtlCTCancelTriggered(ptl_handle_ct_t ct_handle);

/**
 * @brief Read a counter.
 * @param[in] ct_handle  the counter
 * @param[out] event     its value
 * @retval PTL_OK           event is set.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or event is NULL.
 * @see PtlCTWait
 */
int PtlCTGet(ptl_handle_ct_t ct_handle,
             ptl_ct_event_t *event);

/**
 * @brief Wait until a counter has reached a value, or something has failed.
 * @param[in] ct_handle  the counter
 * @param[in] test       the value for success
 * @param[out] event     the counter's value
 * @retval PTL_OK           success is at least test, or failure is not 0.
 * @retval PTL_ABORTED      PtlAbort was called.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or became so while waiting, or event is NULL.
 * @see PtlCTGet PtlCTPoll PtlAbort
 */
int PtlCTWait(ptl_handle_ct_t ct_handle,
              ptl_size_t      test,
              ptl_ct_event_t *event);

/**
 * @brief Wait until one of several counters has reached its value, or counted a failure.
 * @param[in] ct_handles  the counters, all of one interface
 * @param[in] tests       for each counter, the value for success
 * @param[in] size        number of counters
 * @param[in] timeout     milliseconds to wait: 0 only looks, PTL_TIME_FOREVER has no end
 * @param[out] event      the value of the counter that has reached its value
 * @param[out] which      index of that counter in ct_handles
 * @retval PTL_OK               One has.
 * @retval PTL_CT_NONE_REACHED  None has in that time.
 * @retval PTL_ABORTED          PtlAbort was called.
 * @retval PTL_NO_INIT          PtlInit has not been called.
 * @retval PTL_ARG_INVALID      A handle is not valid, or became so while waiting, the counters
 *   belong to several interfaces, size is 0, or a pointer is NULL.
 * @see PtlCTWait PtlAbort
 */
int PtlCTPoll(const ptl_handle_ct_t *ct_handles,
              const ptl_size_t      *tests,
              unsigned int           size,
              ptl_time_t             timeout,
              ptl_ct_event_t        *event,
              unsigned int          *which);

/**
 * @brief Set a counter.
 * @param[in] ct_handle  the counter
 * @param[in] new_ct     its new value
 * @retval PTL_OK           It is set, and what it triggers is on its way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid.
 * @see PtlCTInc PtlTriggeredCTSet
 */
int PtlCTSet(ptl_handle_ct_t ct_handle,
             ptl_ct_event_t  new_ct);

/**
 * @brief Add to a counter.
 * @param[in] ct_handle  the counter
 * @param[in] increment  what to add; one of its members must be 0
 * @retval PTL_OK           It is added, and what it triggers is on its way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or both members are other than 0.
 * @see PtlCTSet PtlTriggeredCTInc
 */
int PtlCTInc(ptl_handle_ct_t ct_handle,
             ptl_ct_event_t  increment);

/* ------------------------------------------------------------------ moving data */

/**
 * @brief Write data into the memory of an entry at the target.
 * @param[in] md_handle      the descriptor that the data is taken from
 * @param[in] local_offset   begin of the data in the descriptor, in bytes
 * @param[in] length         bytes
 * @param[in] ack_req        PTL_ACK_REQ, PTL_CT_ACK_REQ, PTL_OC_ACK_REQ or PTL_NO_ACK_REQ
 * @param[in] target_id      the target
 * @param[in] pt_index       portal table entry at the target
 * @param[in] match_bits     match bits; only matching interfaces look at them
 * @param[in] remote_offset  begin in the target's entry, in bytes, unless that manages its offset
 * @param[in] user_ptr       given back with the events here
 * @param[in] hdr_data       given to the target with its event
 * @retval PTL_OK           It is under way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle or the target is not valid, the data reaches beyond the
 *   descriptor or is longer than max_msg_size, ack_req is unknown or asks for what the descriptor
 *   has no queue or counter for, or PTL_MD_VOLATILE and it is longer than max_volatile_size.
 * @retval PTL_NO_SPACE     There is not enough memory.
 * @note PTL_EVENT_SEND tells that the memory may be used again, PTL_EVENT_ACK what became of the
 *   put at the target: mlength bytes were written. An ACK that says success also implies that the
 *   memory may be used again.
 * @see PtlGet PtlTriggeredPut PtlMDBind
 */
int PtlPut(ptl_handle_md_t  md_handle,
           ptl_size_t       local_offset,
           ptl_size_t       length,
           ptl_ack_req_t    ack_req,
           ptl_process_t    target_id,
           ptl_pt_index_t   pt_index,
           ptl_match_bits_t match_bits,
           ptl_size_t       remote_offset,
           void            *user_ptr,
           ptl_hdr_data_t   hdr_data);

/**
 * @brief Read data from the memory of an entry at the target.
 * @param[in] md_handle      the descriptor that the data is written to
 * @param[in] local_offset   begin of the data in the descriptor, in bytes
 * @param[in] length         bytes
 * @param[in] target_id      the target
 * @param[in] pt_index       portal table entry at the target
 * @param[in] match_bits     match bits; only matching interfaces look at them
 * @param[in] remote_offset  begin in the target's entry, in bytes, unless that manages its offset
 * @param[in] user_ptr       given back with the events here
 * @retval PTL_OK           It is under way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle or the target is not valid, the data reaches beyond the
 *   descriptor or is longer than max_msg_size.
 * @retval PTL_NO_SPACE     There is not enough memory.
 * @note PTL_EVENT_REPLY tells that the data is there, mlength bytes of it.
 * @see PtlPut PtlTriggeredGet PtlMDBind
 */
int PtlGet(ptl_handle_md_t  md_handle,
           ptl_size_t       local_offset,
           ptl_size_t       length,
           ptl_process_t    target_id,
           ptl_pt_index_t   pt_index,
           ptl_match_bits_t match_bits,
           ptl_size_t       remote_offset,
           void            *user_ptr);

/**
 * @brief Combine data with the memory of an entry at the target.
 * @param[in] md_handle      the descriptor that the data is taken from
 * @param[in] local_offset   begin of the data in the descriptor, in bytes
 * @param[in] length         bytes, a multiple of the type's size
 * @param[in] ack_req        PTL_ACK_REQ, PTL_CT_ACK_REQ, PTL_OC_ACK_REQ or PTL_NO_ACK_REQ
 * @param[in] target_id      the target
 * @param[in] pt_index       portal table entry at the target
 * @param[in] match_bits     match bits; only matching interfaces look at them
 * @param[in] remote_offset  begin in the target's entry, in bytes, unless that manages its offset
 * @param[in] user_ptr       given back with the events here
 * @param[in] hdr_data       given to the target with its event
 * @param[in] operation      PTL_MIN, PTL_MAX, PTL_SUM, PTL_PROD, or one of the logical and bitwise
 *   ones
 * @param[in] datatype       type of an item
 * @retval PTL_OK           It is under way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlPut, with max_atomic_size for the length; or operation and
 *   datatype do not fit each other, or length is not a multiple of the type's size.
 * @retval PTL_NO_SPACE     There is not enough memory.
 * @note Each item is combined as a whole: of several atomics with the same type none is lost or
 *   halved. At the target an item must be aligned as its type is. The events are those of PtlPut.
 * @see PtlFetchAtomic PtlSwap PtlAtomicSync
 */
int PtlAtomic(ptl_handle_md_t  md_handle,
              ptl_size_t       local_offset,
              ptl_size_t       length,
              ptl_ack_req_t    ack_req,
              ptl_process_t    target_id,
              ptl_pt_index_t   pt_index,
              ptl_match_bits_t match_bits,
              ptl_size_t       remote_offset,
              void            *user_ptr,
              ptl_hdr_data_t   hdr_data,
              ptl_op_t         operation,
              ptl_datatype_t   datatype);

/**
 * @brief Combine data with the target's, and fetch what was there before.
 * @param[in] get_md_handle     the descriptor that the former data is written to
 * @param[in] local_get_offset  begin of the former data in that descriptor, in bytes
 * @param[in] put_md_handle     the descriptor that the data is taken from
 * @param[in] local_put_offset  begin of the data in that descriptor, in bytes
 * @param[in] length            bytes, a multiple of the type's size
 * @param[in] target_id         the target
 * @param[in] pt_index          portal table entry at the target
 * @param[in] match_bits        match bits; only matching interfaces look at them
 * @param[in] remote_offset     begin in the target's entry, in bytes, unless that manages its offset
 * @param[in] user_ptr          given back with the events here
 * @param[in] hdr_data          given to the target with its event
 * @param[in] operation         PTL_MIN, PTL_MAX, PTL_SUM, PTL_PROD, or one of the logical and
 *   bitwise ones
 * @param[in] datatype          type of an item
 * @retval PTL_OK           It is under way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlAtomic, with max_fetch_atomic_size for the length; or the
 *   descriptors belong to different interfaces.
 * @retval PTL_NO_SPACE     There is not enough memory.
 * @note PTL_EVENT_SEND belongs to the put descriptor, PTL_EVENT_REPLY to the get descriptor. The
 *   two regions must not overlap.
 * @see PtlAtomic PtlSwap PtlTriggeredFetchAtomic
 */
int PtlFetchAtomic(ptl_handle_md_t  get_md_handle,
                   ptl_size_t       local_get_offset,
                   ptl_handle_md_t  put_md_handle,
                   ptl_size_t       local_put_offset,
                   ptl_size_t       length,
                   ptl_process_t    target_id,
                   ptl_pt_index_t   pt_index,
                   ptl_match_bits_t match_bits,
                   ptl_size_t       remote_offset,
                   void            *user_ptr,
                   ptl_hdr_data_t   hdr_data,
                   ptl_op_t         operation,
                   ptl_datatype_t   datatype);

/**
 * @brief Exchange data with the target's, perhaps under a condition or a mask.
 * @param[in] get_md_handle     the descriptor that the former data is written to
 * @param[in] local_get_offset  begin of the former data in that descriptor, in bytes
 * @param[in] put_md_handle     the descriptor that the data is taken from
 * @param[in] local_put_offset  begin of the data in that descriptor, in bytes
 * @param[in] length            bytes: a multiple of the type's size for PTL_SWAP, else one item
 * @param[in] target_id         the target
 * @param[in] pt_index          portal table entry at the target
 * @param[in] match_bits        match bits; only matching interfaces look at them
 * @param[in] remote_offset     begin in the target's entry, in bytes, unless that manages its offset
 * @param[in] user_ptr          given back with the events here
 * @param[in] hdr_data          given to the target with its event
 * @param[in] operand           one item: the value to compare with, or the mask; read before the
 *   call returns. PTL_SWAP does not look at it
 * @param[in] operation         PTL_SWAP, PTL_CSWAP or a variant of it, or PTL_MSWAP
 * @param[in] datatype          type of an item
 * @retval PTL_OK           It is under way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlFetchAtomic; or operand is NULL but needed.
 * @retval PTL_NO_SPACE     There is not enough memory.
 * @note The former data always comes back. The conditional swaps compare operand, on the left,
 *   with the target's item. The events are those of PtlFetchAtomic.
 * @see PtlFetchAtomic PtlTriggeredSwap
 */
int PtlSwap(ptl_handle_md_t  get_md_handle,
            ptl_size_t       local_get_offset,
            ptl_handle_md_t  put_md_handle,
            ptl_size_t       local_put_offset,
            ptl_size_t       length,
            ptl_process_t    target_id,
            ptl_pt_index_t   pt_index,
            ptl_match_bits_t match_bits,
            ptl_size_t       remote_offset,
            void            *user_ptr,
            ptl_hdr_data_t   hdr_data,
            const void      *operand,
            ptl_op_t         operation,
            ptl_datatype_t   datatype);

/**
 * @brief Make what atomics have done here safe to change by other means.
 * @retval PTL_OK       Items that atomics of others have worked on may be changed by the program.
 * @retval PTL_NO_INIT  PtlInit has not been called.
 * @see PtlAtomic
 */
int PtlAtomicSync(void);

/* ----------------------------------------------------------- triggered operations */

/**
 * @brief Put as soon as a counter has reached a value.
 * @param[in] md_handle       as for PtlPut
 * @param[in] local_offset    as for PtlPut
 * @param[in] length          as for PtlPut
 * @param[in] ack_req         as for PtlPut
 * @param[in] target_id       as for PtlPut
 * @param[in] pt_index        as for PtlPut
 * @param[in] match_bits      as for PtlPut
 * @param[in] remote_offset   as for PtlPut
 * @param[in] user_ptr        as for PtlPut
 * @param[in] hdr_data        as for PtlPut
 * @param[in] trig_ct_handle  the counter, of the same interface
 * @param[in] threshold       the value for success and failure together
 * @retval PTL_OK           It waits for the counter, or is under way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlPut; or trig_ct_handle is not valid or of another interface.
 * @retval PTL_NO_SPACE     max_triggered_ops are waiting, or there is not enough memory.
 * @note If the counter is there already, it begins at once. Operations with the same threshold
 *   begin in the order of their calls. The data is read when it begins.
 * @see PtlPut PtlCTCancelTriggered
 */
int PtlTriggeredPut(ptl_handle_md_t  md_handle,
                    ptl_size_t       local_offset,
                    ptl_size_t       length,
                    ptl_ack_req_t    ack_req,
                    ptl_process_t    target_id,
                    ptl_pt_index_t   pt_index,
                    ptl_match_bits_t match_bits,
                    ptl_size_t       remote_offset,
                    void            *user_ptr,
                    ptl_hdr_data_t   hdr_data,
                    ptl_handle_ct_t  trig_ct_handle,
                    ptl_size_t       threshold);

/**
 * @brief Get as soon as a counter has reached a value.
 * @param[in] md_handle       as for PtlGet
 * @param[in] local_offset    as for PtlGet
 * @param[in] length          as for PtlGet
 * @param[in] target_id       as for PtlGet
 * @param[in] pt_index        as for PtlGet
 * @param[in] match_bits      as for PtlGet
 * @param[in] remote_offset   as for PtlGet
 * @param[in] user_ptr        as for PtlGet
 * @param[in] trig_ct_handle  the counter, of the same interface
 * @param[in] threshold       the value for success and failure together
 * @retval PTL_OK           It waits for the counter, or is under way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlGet; or trig_ct_handle is not valid or of another interface.
 * @retval PTL_NO_SPACE     max_triggered_ops are waiting, or there is not enough memory.
 * @note The notes of PtlTriggeredPut hold here too.
 * @see PtlGet PtlTriggeredPut PtlCTCancelTriggered
 */
int PtlTriggeredGet(ptl_handle_md_t  md_handle,
                    ptl_size_t       local_offset,
                    ptl_size_t       length,
                    ptl_process_t    target_id,
                    ptl_pt_index_t   pt_index,
                    ptl_match_bits_t match_bits,
                    ptl_size_t       remote_offset,
                    void            *user_ptr,
                    ptl_handle_ct_t  trig_ct_handle,
                    ptl_size_t       threshold);

/**
 * @brief Do an atomic as soon as a counter has reached a value.
 * @param[in] md_handle       as for PtlAtomic
 * @param[in] local_offset    as for PtlAtomic
 * @param[in] length          as for PtlAtomic
 * @param[in] ack_req         as for PtlAtomic
 * @param[in] target_id       as for PtlAtomic
 * @param[in] pt_index        as for PtlAtomic
 * @param[in] match_bits      as for PtlAtomic
 * @param[in] remote_offset   as for PtlAtomic
 * @param[in] user_ptr        as for PtlAtomic
 * @param[in] hdr_data        as for PtlAtomic
 * @param[in] operation       as for PtlAtomic
 * @param[in] datatype        as for PtlAtomic
 * @param[in] trig_ct_handle  the counter, of the same interface
 * @param[in] threshold       the value for success and failure together
 * @retval PTL_OK           It waits for the counter, or is under way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlAtomic; or trig_ct_handle is not valid or of another
 *   interface.
 * @retval PTL_NO_SPACE     max_triggered_ops are waiting, or there is not enough memory.
 * @note The notes of PtlTriggeredPut hold here too.
 * @see PtlAtomic PtlTriggeredPut PtlCTCancelTriggered
 */
int PtlTriggeredAtomic(ptl_handle_md_t  md_handle,
                       ptl_size_t       local_offset,
                       ptl_size_t       length,
                       ptl_ack_req_t    ack_req,
                       ptl_process_t    target_id,
                       ptl_pt_index_t   pt_index,
                       ptl_match_bits_t match_bits,
                       ptl_size_t       remote_offset,
                       void            *user_ptr,
                       ptl_hdr_data_t   hdr_data,
                       ptl_op_t         operation,
                       ptl_datatype_t   datatype,
                       ptl_handle_ct_t  trig_ct_handle,
                       ptl_size_t       threshold);

/**
 * @brief Do a fetching atomic as soon as a counter has reached a value.
 * @param[in] get_md_handle     as for PtlFetchAtomic
 * @param[in] local_get_offset  as for PtlFetchAtomic
 * @param[in] put_md_handle     as for PtlFetchAtomic
 * @param[in] local_put_offset  as for PtlFetchAtomic
 * @param[in] length            as for PtlFetchAtomic
 * @param[in] target_id         as for PtlFetchAtomic
 * @param[in] pt_index          as for PtlFetchAtomic
 * @param[in] match_bits        as for PtlFetchAtomic
 * @param[in] remote_offset     as for PtlFetchAtomic
 * @param[in] user_ptr          as for PtlFetchAtomic
 * @param[in] hdr_data          as for PtlFetchAtomic
 * @param[in] operation         as for PtlFetchAtomic
 * @param[in] datatype          as for PtlFetchAtomic
 * @param[in] trig_ct_handle    the counter, of the same interface
 * @param[in] threshold         the value for success and failure together
 * @retval PTL_OK           It waits for the counter, or is under way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlFetchAtomic; or trig_ct_handle is not valid or of another
 *   interface.
 * @retval PTL_NO_SPACE     max_triggered_ops are waiting, or there is not enough memory.
 * @note The notes of PtlTriggeredPut hold here too.
 * @see PtlFetchAtomic PtlTriggeredPut PtlCTCancelTriggered
 */
int PtlTriggeredFetchAtomic(ptl_handle_md_t  get_md_handle,
                            ptl_size_t       local_get_offset,
                            ptl_handle_md_t  put_md_handle,
                            ptl_size_t       local_put_offset,
                            ptl_size_t       length,
                            ptl_process_t    target_id,
                            ptl_pt_index_t   pt_index,
                            ptl_match_bits_t match_bits,
                            ptl_size_t       remote_offset,
                            void            *user_ptr,
                            ptl_hdr_data_t   hdr_data,
                            ptl_op_t         operation,
                            ptl_datatype_t   datatype,
                            ptl_handle_ct_t  trig_ct_handle,
                            ptl_size_t       threshold);

/**
 * @brief Swap as soon as a counter has reached a value.
 * @param[in] get_md_handle     as for PtlSwap
 * @param[in] local_get_offset  as for PtlSwap
 * @param[in] put_md_handle     as for PtlSwap
 * @param[in] local_put_offset  as for PtlSwap
 * @param[in] length            as for PtlSwap
 * @param[in] target_id         as for PtlSwap
 * @param[in] pt_index          as for PtlSwap
 * @param[in] match_bits        as for PtlSwap
 * @param[in] remote_offset     as for PtlSwap
 * @param[in] user_ptr          as for PtlSwap
 * @param[in] hdr_data          as for PtlSwap
 * @param[in] operand           as for PtlSwap; it too is read before the call returns
 * @param[in] operation         as for PtlSwap
 * @param[in] datatype          as for PtlSwap
 * @param[in] trig_ct_handle    the counter, of the same interface
 * @param[in] threshold         the value for success and failure together
 * @retval PTL_OK           It waits for the counter, or is under way.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlSwap; or trig_ct_handle is not valid or of another interface.
 * @retval PTL_NO_SPACE     max_triggered_ops are waiting, or there is not enough memory.
 * @note The notes of PtlTriggeredPut hold here too.
 * @see PtlSwap PtlTriggeredPut PtlCTCancelTriggered
 */
int PtlTriggeredSwap(ptl_handle_md_t  get_md_handle,
                     ptl_size_t       local_get_offset,
                     ptl_handle_md_t  put_md_handle,
                     ptl_size_t       local_put_offset,
                     ptl_size_t       length,
                     ptl_process_t    target_id,
                     ptl_pt_index_t   pt_index,
                     ptl_match_bits_t match_bits,
                     ptl_size_t       remote_offset,
                     void            *user_ptr,
                     ptl_hdr_data_t   hdr_data,
                     const void      *operand,
                     ptl_op_t         operation,
                     ptl_datatype_t   datatype,
                     ptl_handle_ct_t  trig_ct_handle,
                     ptl_size_t       threshold);

/**
 * @brief Add to a counter as soon as a counter has reached a value.
 * @param[in] ct_handle       as for PtlCTInc
 * @param[in] increment       as for PtlCTInc
 * @param[in] trig_ct_handle  the counter that is waited for, of the same interface; may be the same
 * @param[in] threshold       the value for success and failure together
 * @retval PTL_OK           It waits for the counter, or is done.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlCTInc; or trig_ct_handle is not valid or of another interface.
 * @retval PTL_NO_SPACE     max_triggered_ops are waiting, or there is not enough memory.
 * @note The notes of PtlTriggeredPut hold here too.
 * @see PtlCTInc PtlTriggeredPut PtlCTCancelTriggered
 */
int PtlTriggeredCTInc(ptl_handle_ct_t ct_handle,
                      ptl_ct_event_t  increment,
                      ptl_handle_ct_t trig_ct_handle,
                      ptl_size_t      threshold);

/**
 * @brief Set a counter as soon as a counter has reached a value.
 * @param[in] ct_handle       as for PtlCTSet
 * @param[in] new_ct          as for PtlCTSet
 * @param[in] trig_ct_handle  the counter that is waited for, of the same interface; may be the same
 * @param[in] threshold       the value for success and failure together
 * @retval PTL_OK           It waits for the counter, or is done.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  As for PtlCTSet; or trig_ct_handle is not valid or of another interface.
 * @retval PTL_NO_SPACE     max_triggered_ops are waiting, or there is not enough memory.
 * @note The notes of PtlTriggeredPut hold here too.
 * @see PtlCTSet PtlTriggeredPut PtlCTCancelTriggered
 */
int PtlTriggeredCTSet(ptl_handle_ct_t ct_handle,
                      ptl_ct_event_t  new_ct,
                      ptl_handle_ct_t trig_ct_handle,
                      ptl_size_t      threshold);

/* ----------------------------------------------------------------------- bundles */

/**
 * @brief Tell that several operations follow, which need not begin one by one.
 * @param[in] ni_handle  the interface
 * @retval PTL_OK           Operations may be held back until PtlEndBundle.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid.
 * @note Bundles may be nested. Here nothing is held back: each operation begins at once.
 * @see PtlEndBundle
 */
int PtlStartBundle(ptl_handle_ni_t ni_handle);

/**
 * @brief Begin what PtlStartBundle held back.
 * @param[in] ni_handle  the interface
 * @retval PTL_OK           Nothing is held back any more, or a bundle around this one is open.
 * @retval PTL_NO_INIT      PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not valid, or no bundle is open.
 * @see PtlStartBundle
 */
int PtlEndBundle(ptl_handle_ni_t ni_handle);

/* ----------------------------------------------------------------------- handles */

/**
 * @brief Tell whether two handles name the same object.
 * @param[in] handle1  a handle of any kind
 * @param[in] handle2  a handle of any kind
 * @retval 1  They are equal.
 * @retval 0  They are not.
 * @note Works without PtlInit. Two invalid handles are equal.
 */
int PtlHandleIsEqual(ptl_handle_any_t handle1,
                     ptl_handle_any_t handle2);

#ifdef __cplusplus
}
#endif

#endif /* PORTALS4_H */
