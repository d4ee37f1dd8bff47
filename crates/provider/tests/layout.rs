//! The hand-written structures and constants against the installed headers: a
//! C file of static assertions, made from what Rust says, must compile.

mod support;

use sluice_fabric::ffi::{self, *};
use std::fmt::Write;
use std::mem::{offset_of, size_of};
use std::process::Command;

/// Size of a structure and offsets of all its members.
macro_rules! same {
    ($out:ident, $($name:ident { $($field:ident),* $(,)? })*) => {$(
        size!($out, stringify!($name) => $name;);
        members!($out, $name { $($field),* });
    )*};
}

macro_rules! members {
    ($out:ident, $name:ident { $($field:ident),* }) => {$(
        let (c_name, at) = (stringify!($field).trim_end_matches('_'), offset_of!($name, $field));
        writeln!($out, "_Static_assert(offsetof(struct {}, {c_name}) == {at}, \"{c_name}\");",
            stringify!($name)).unwrap();
    )*};
}

/// Size of a structure by its C name. Tables of operations grow at their end
/// from version to version, and say how far theirs goes.
macro_rules! size {
    ($out:ident, $($c_name:expr => $type:ty;)*) => {$(
        let least = if $c_name.starts_with("fi_ops") { "SAME_OR_LONGER" } else { "==" };
        writeln!($out, "_Static_assert(sizeof(struct {}) {least} {}, \"size\");",
            $c_name, size_of::<$type>()).unwrap();
    )*};
}

macro_rules! constants {
    ($out:ident, $($name:ident)*) => {$(
        writeln!($out, "_Static_assert((unsigned long long) {0} == {1}ull, \"{0}\");",
            stringify!($name), $name as u64).unwrap();
    )*};
}

#[test]
fn structures_and_constants_are_those_of_the_headers() {
    let mut out = String::from(
        "#include <stddef.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n\
         #include <rdma/fi_endpoint.h>\n#include <rdma/fi_tagged.h>\n#include <rdma/fi_rma.h>\n\
         #include <rdma/fi_atomic.h>\n#include <rdma/fi_collective.h>\n#include <rdma/fi_cm.h>\n\
         #include <rdma/fi_errno.h>\n#include <rdma/providers/fi_prov.h>\n\
         #include <rdma/providers/fi_log.h>\n\
         #if FI_MAJOR_VERSION >= 2\n#define SAME_OR_LONGER >=\n#else\n\
         #define SAME_OR_LONGER ==\n#endif\n",
    );
    info_structures(&mut out);
    objects(&mut out);
    queues(&mut out);
    all_constants(&mut out);

    let dir = support::scratch("layout");
    let source = dir.join("layout.c");
    std::fs::write(&source, out).expect("the directory can be written");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-fsyntax-only"]);
    if let Some(include) = std::env::var_os("LIBFABRIC_INCLUDE") {
        cc.arg("-I").arg(include);
    }
    support::succeed(cc.arg(source));
}

fn info_structures(out: &mut String) {
    same!(out,
        fi_tx_attr { caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit,
            rma_iov_limit, tclass }
        fi_rx_attr { caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size,
            iov_limit }
        fi_ep_attr { type_, protocol, protocol_version, max_msg_size, msg_prefix_size,
            max_order_raw_size, max_order_war_size, max_order_waw_size, mem_tag_format,
            tx_ctx_cnt, rx_ctx_cnt, auth_key_size, auth_key }
        fi_fabric_attr { fabric, name, prov_name, prov_version, api_version }
        fi_info { next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr,
            handle, tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic }
        fi_link_attr { address, mtu, speed, state, network_type }
        fid_nic { fid, device_attr, bus_attr, link_attr, prov_attr }
        fi_provider { version, fi_version, context, name, getinfo, fabric, cleanup }
    );
    // The part that every version has, under its C name; the rest below.
    #[allow(non_camel_case_types)]
    type fi_domain_attr = DomainHints;
    members!(
        out,
        fi_domain_attr {
            domain,
            name,
            threading,
            control_progress,
            data_progress,
            resource_mgmt,
            av_type,
            mr_mode,
            mr_key_size,
            cq_data_size,
            cq_cnt,
            ep_cnt,
            tx_ctx_cnt,
            rx_ctx_cnt,
            max_ep_tx_ctx,
            max_ep_rx_ctx,
            max_ep_stx_ctx,
            max_ep_srx_ctx,
            cntr_cnt,
            mr_iov_limit,
            caps,
            mode,
            auth_key,
            auth_key_size,
            max_err_data,
            mr_cnt,
            tclass
        }
    );
    type Whole = ffi::fi_domain_attr;
    writeln!(out, "#if FI_MAJOR_VERSION >= 2").unwrap();
    size!(out, "fi_domain_attr" => Whole;);
    for (name, at) in [
        ("max_ep_auth_key", offset_of!(Whole, max_ep_auth_key)),
        ("max_group_id", offset_of!(Whole, max_group_id)),
        ("max_cntr_value", offset_of!(Whole, max_cntr_value)),
        ("max_err_cntr_value", offset_of!(Whole, max_err_cntr_value)),
    ] {
        writeln!(out, "_Static_assert(offsetof(struct fi_domain_attr, {name}) == {at}, \"\");")
            .unwrap();
    }
    writeln!(out, "#else").unwrap();
    size!(out, "fi_domain_attr" => DomainHints;);
    writeln!(out, "#endif").unwrap();
}

fn objects(out: &mut String) {
    same!(out,
        fid { fclass, context, ops }
        fi_ops { size, close, bind, control, ops_open, tostr, ops_set }
        fi_ops_fabric { size, domain, passive_ep, eq_open, wait_open, trywait, domain2 }
        fid_fabric { fid, ops, api_version }
        fi_av_attr { type_, rx_ctx_bits, count, ep_per_node, name, map_addr, flags }
        fi_ops_domain { size, av_open, cq_open, endpoint, scalable_ep, cntr_open, poll_open,
            stx_ctx, srx_ctx, query_atomic, query_collective, endpoint2 }
        fi_ops_mr { size, reg, regv, regattr }
        fid_domain { fid, ops, mr }
        fid_mr { fid, mem_desc, key }
        fi_ops_av { size, insert, insertsvc, insertsym, remove, lookup, straddr, av_set }
        fid_av { fid, ops }
        fi_ops_eq { size, read, readerr, write, sread, strerror }
        fid_eq { fid, ops }
        fi_ops_cq { size, read, readfrom, readerr, sread, sreadfrom, signal, strerror }
        fid_cq { fid, ops }
        fi_ops_ep { size, cancel, getopt, setopt, tx_ctx, rx_ctx, rx_size_left, tx_size_left }
        fi_ops_cm { size, setname, getname, getpeer, connect, listen, accept, reject, shutdown,
            join }
        fi_ops_msg { size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata,
            injectdata }
        fi_ops_tagged { size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata,
            injectdata }
        fid_ep { fid, ops, cm, msg, rma, tagged, atomic, collective }
    );
    members!(
        out,
        fi_mr_attr {
            mr_iov,
            iov_count,
            access,
            offset,
            requested_key,
            context,
            auth_key_size,
            auth_key,
            iface,
            device
        }
    );
    size!(out,
        "fi_ops_collective" => NoOps<11>;
    );
}

fn queues(out: &mut String) {
    same!(out,
        fi_rma_iov { addr, len, key }
        fi_msg_rma { msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, context, data }
        fi_ops_rma { size, read, readv, readmsg, write, writev, writemsg, inject, writedata,
            injectdata }
        fi_ioc { addr, count }
        fi_rma_ioc { addr, count, key }
        fi_msg_atomic { msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, datatype, op,
            context, data }
        fi_atomic_attr { count, size }
        fi_ops_atomic { size, write, writev, writemsg, inject, readwrite, readwritev,
            readwritemsg, compwrite, compwritev, compwritemsg, writevalid, readwritevalid,
            compwritevalid }
        fi_cntr_attr { events, wait_obj, wait_set, flags }
        fi_ops_cntr { size, read, readerr, add, set, wait, adderr, seterr }
        fid_cntr { fid, ops }
        fi_eq_attr { size, flags, wait_obj, signaling_vector, wait_set }
        fi_eq_entry { fid, context, data }
        fi_eq_err_entry { fid, context, data, err, prov_errno, err_data, err_data_size }
        fi_cq_attr { size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set }
        fi_cq_entry { op_context }
        fi_cq_msg_entry { op_context, flags, len }
        fi_cq_data_entry { op_context, flags, len, buf, data }
        fi_cq_tagged_entry { op_context, flags, len, buf, data, tag }
        fi_msg { msg_iov, desc, iov_count, addr, context, data }
        fi_msg_tagged { msg_iov, desc, iov_count, addr, tag, ignore, context, data }
    );
    members!(
        out,
        fi_cq_err_entry {
            op_context,
            flags,
            len,
            buf,
            data,
            tag,
            olen,
            err,
            prov_errno,
            err_data,
            err_data_size
        }
    );
    writeln!(out, "#if FI_MAJOR_VERSION >= 2 || FI_MINOR_VERSION >= 20").unwrap();
    size!(out, "fi_cq_err_entry" => fi_cq_err_entry;);
    members!(out, fi_cq_err_entry { src_addr });
    writeln!(out, "#else").unwrap();
    let at = offset_of!(fi_cq_err_entry, src_addr);
    writeln!(out, "_Static_assert(sizeof(struct fi_cq_err_entry) == {at}, \"\");").unwrap();
    writeln!(out, "#endif").unwrap();
}

fn all_constants(out: &mut String) {
    constants!(out,
        FI_MSG FI_RMA FI_ATOMIC FI_READ FI_WRITE FI_REMOTE_READ FI_REMOTE_WRITE FI_MULTI_RECV
        FI_FENCE FI_RMA_EVENT FI_FETCH_ATOMIC FI_COMPARE_ATOMIC FI_CLASS_CNTR
        FI_ORDER_ATOMIC_RAR FI_ORDER_ATOMIC_RAW FI_ORDER_ATOMIC_WAR FI_ORDER_ATOMIC_WAW
        FI_OPT_MIN_MULTI_RECV FI_CNTR_EVENTS_COMP FI_EACCES FI_EKEYREJECTED FI_ETIMEDOUT FI_ENOKEY FI_MR_LOCAL FI_MR_VIRT_ADDR FI_MR_ALLOCATED
        FI_MR_PROV_KEY FI_MR_ENDPOINT FI_CONTEXT FI_CONTEXT2 FI_SOCKADDR FI_SOCKADDR_IN
        FI_SOCKADDR_IN6 FI_GETWAIT FI_WAIT_FD FI_TAGGED FI_RECV FI_SEND FI_TRANSMIT FI_REMOTE_CQ_DATA FI_MORE FI_PEEK
        FI_COMPLETION FI_EVENT FI_INJECT FI_INJECT_COMPLETE FI_TRANSMIT_COMPLETE
        FI_DELIVERY_COMPLETE FI_MATCH_COMPLETE FI_LOCAL_COMM FI_REMOTE_COMM FI_SOURCE
        FI_DIRECTED_RECV FI_CLAIM FI_DISCARD FI_SELECTIVE_COMPLETION FI_SYNC_ERR FI_ADDR_UNSPEC
        FI_ADDR_NOTAVAIL FI_FORMAT_UNSPEC FI_AV_UNSPEC FI_AV_MAP FI_AV_TABLE
        FI_PROGRESS_AUTO FI_PROGRESS_MANUAL FI_THREAD_SAFE FI_THREAD_DOMAIN FI_THREAD_ENDPOINT
        FI_RM_ENABLED FI_ORDER_SAS FI_EP_UNSPEC FI_EP_RDM FI_CLASS_FABRIC FI_CLASS_DOMAIN
        FI_CLASS_EP FI_CLASS_AV FI_CLASS_MR FI_CLASS_EQ FI_CLASS_CQ FI_GETOPSFLAG FI_SETOPSFLAG
        FI_ENABLE FI_GETWAITOBJ FI_WAIT_NONE FI_WAIT_UNSPEC FI_WAIT_YIELD FI_CQ_FORMAT_UNSPEC
        FI_CQ_FORMAT_CONTEXT FI_CQ_FORMAT_MSG FI_CQ_FORMAT_DATA FI_CQ_FORMAT_TAGGED
        FI_AV_COMPLETE FI_OPT_ENDPOINT FI_OPT_CM_DATA_SIZE FI_OPT_TX_SIZE FI_OPT_RX_SIZE
        FI_OPT_FI_HMEM_P2P FI_HMEM_P2P_REQUIRED FI_EAGAIN FI_EBUSY FI_ECANCELED FI_ECONNABORTED
        FI_ECONNREFUSED FI_EFAULT FI_EHOSTUNREACH FI_EINVAL FI_EIO FI_EMSGSIZE FI_ENODATA
        FI_ENOENT FI_ENOMEM FI_ENOMSG FI_ENOPROTOOPT FI_ENOSYS FI_EOPNOTSUPP FI_EADDRNOTAVAIL
        FI_EOTHER FI_ETOOSMALL FI_EOPBADSTATE FI_EAVAIL FI_EBADFLAGS FI_ENOCQ FI_ETRUNC FI_ENOAV
        FI_LOG_WARN FI_LOG_INFO FI_LOG_CORE FI_LOG_FABRIC FI_LOG_EP_CTRL FI_LOG_AV FI_LOG_CQ
        FI_PARAM_STRING FI_PARAM_BOOL FI_PARAM_SIZE_T
    );
    writeln!(out, "#if FI_MAJOR_VERSION >= 2").unwrap();
    constants!(out, FI_PROGRESS_CONTROL_UNIFIED FI_TAG_MAX_FORMAT FI_OPT_CUDA_API_PERMITTED
        FI_OPT_SHARED_MEMORY_PERMITTED FI_OPT_MAX_MSG_SIZE FI_OPT_MAX_TAGGED_SIZE
        FI_OPT_INJECT_MSG_SIZE FI_OPT_INJECT_TAGGED_SIZE);
    writeln!(out, "#else").unwrap();
    constants!(out, FI_MR_BASIC FI_MR_SCALABLE FI_PRIORITY FI_PROV_SPECIFIC);
    writeln!(out, "#endif").unwrap();
}
