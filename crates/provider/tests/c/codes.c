/* What is not there says so, with the code that the manual pages name, and so does what is
 * asked for wrongly. */
#include "client.h"
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#define KEY 42
/* Bits that later versions name. */
#define AV_USER_ID (1ull << 41)
#define MR_DMABUF (1ull << 40)
/* Behind the last type of all. */
#define BEYOND 20

static struct net net;
static struct side side;
static char bytes[4096];

static void capabilities_and_orders(void)
{
	/* Multicast, collectives, triggers, and from bit 41 on what 1.17 and 2.x name. */
	const int caps[] = { 5, 6, 20, 41, 43, 44, 45, 46, 47, 48, 49, 50, 53, 58 };
	const int orders[] = { 0, 1, 2, 3, 4, 5, 6, 7, 32, 33, 34, 35 };
	struct fi_info *info;

	for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
		struct fi_info *hints = ask(FI_TAGGED | FI_RMA | 1ull << caps[i]);
		IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), -FI_ENODATA);
		fi_freeinfo(hints);
	}
	for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
		struct fi_info *hints = ask(FI_TAGGED | FI_RMA);
		hints->tx_attr->msg_order = 1ull << orders[i];
		IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), -FI_ENODATA);
		fi_freeinfo(hints);
	}
	struct fi_info *hints = ask(FI_TAGGED);
	IS(fi_getinfo(FI_VERSION(1, 17), "localhost", "7", 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

/* Hints that must not match, however they are changed by `change`. */
#define REFUSED(change)                                                        \
	do {                                                                   \
		struct fi_info *hints = ask(FI_TAGGED | FI_RMA), *info;        \
		change;                                                        \
		IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), \
		   -FI_ENODATA);                                               \
		fi_freeinfo(hints);                                            \
	} while (0)

static void attributes(void)
{
	struct fi_info *hints = ask(FI_RMA | FI_READ | FI_REMOTE_WRITE), *info;

	REFUSED(hints->fabric_attr->prov_version = FI_VERSION(9, 0));
	REFUSED(hints->domain_attr->mr_key_size = 9);
	REFUSED(hints->domain_attr->mr_iov_limit = 9);
	REFUSED(hints->domain_attr->max_err_data = 257);
	REFUSED(hints->domain_attr->cntr_cnt = 65537);
	REFUSED(hints->domain_attr->mr_cnt = 65537);
	REFUSED(hints->domain_attr->caps = FI_SHARED_AV);
	REFUSED(hints->domain_attr->auth_key_size = 8);
	REFUSED(hints->ep_attr->protocol = FI_PROTO_SHM);
	REFUSED(hints->ep_attr->protocol_version = 2);
	REFUSED(hints->ep_attr->max_msg_size = SIZE_MAX);
	REFUSED(hints->ep_attr->msg_prefix_size = 8);
	REFUSED(hints->tx_attr->size = 4097);
	REFUSED(hints->rx_attr->size = 4097);
	REFUSED(hints->tx_attr->rma_iov_limit = 9);
	REFUSED(hints->tx_attr->op_flags = FI_FENCE);
	/* The directions that are named, and no others. */
	OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	IS(info->caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE),
	   FI_READ | FI_REMOTE_WRITE);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* Names and attributes that were not those of an answer. */
static void altered(void)
{
	struct fi_info *info = fi_dupinfo(net.info);
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;

	info->fabric_attr->name[0] ^= 1;
	IS(fi_fabric(info->fabric_attr, &fabric, NULL), -FI_ENODATA);
	info->domain_attr->name[0] ^= 1;
	IS(fi_domain(net.fabric, info, &domain, NULL), -FI_EINVAL);
	info->ep_attr->type = FI_EP_MSG;
	IS(fi_endpoint(net.domain, info, &ep, NULL), -FI_EINVAL);
	info->ep_attr->type = FI_EP_RDM;
	info->caps |= FI_TRIGGER;
	IS(fi_endpoint(net.domain, info, &ep, NULL), -FI_EINVAL);
	info->caps = net.info->caps;
	info->tx_attr->op_flags = FI_FENCE;
	IS(fi_endpoint(net.domain, info, &ep, NULL), -FI_EINVAL);
	fi_freeinfo(info);
}

static void objects(void)
{
	struct fid_ep *ep;
	struct fid_pep *pep;
	struct fid_stx *stx;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_av_set *set;
	struct fid_wait *wait;
	struct fid_poll *poll;
	struct fid_mc *mc;
	struct fi_wait_attr wait_attr = { 0 };
	struct fi_poll_attr poll_attr = { 0 };
	struct fi_av_set_attr set_attr = { 0 };
	struct fid *fids[1] = { &side.rx->fid };
	void *ops;

	IS(fi_passive_ep(net.fabric, net.info, &pep, NULL), -FI_ENOSYS);
	IS(fi_scalable_ep(net.domain, net.info, &ep, NULL), -FI_ENOSYS);
	IS(fi_stx_context(net.domain, NULL, &stx, NULL), -FI_ENOSYS);
	IS(fi_srx_context(net.domain, NULL, &ep, NULL), -FI_ENOSYS);
	IS(fi_tx_context(side.ep, 0, NULL, &ep, NULL), -FI_ENOSYS);
	IS(fi_rx_context(side.ep, 0, NULL, &ep, NULL), -FI_ENOSYS);
	IS(fi_ep_alias(side.ep, &ep, 0), -FI_ENOSYS);
	IS(side.ep->ops->rx_size_left(side.ep), -FI_ENOSYS);
	IS(side.ep->ops->tx_size_left(side.ep), -FI_ENOSYS);
	IS(net.fabric->ops->wait_open(net.fabric, &wait_attr, &wait), -FI_ENOSYS);
	IS(net.domain->ops->poll_open(net.domain, &poll_attr, &poll), -FI_ENOSYS);
	IS(fi_trywait(net.fabric, fids, 1), -FI_EINVAL);
	IS(fi_domain2(net.fabric, net.info, &domain, FI_PEEK, NULL), -FI_EBADFLAGS);
	IS(fi_endpoint2(net.domain, net.info, &ep, FI_PEEK, NULL), -FI_EBADFLAGS);
	IS(fi_open_ops(&net.domain->fid, "ops", 0, &ops, NULL), -FI_ENOSYS);
	IS(fi_set_ops(&net.domain->fid, "ops", 0, NULL, NULL), -FI_ENOSYS);
	/* Connections and groups. */
	IS(fi_setname(&side.ep->fid, bytes, ADDR_BYTES), -FI_ENOSYS);
	IS(fi_connect(side.ep, bytes, NULL, 0), -FI_ENOSYS);
	IS(fi_accept(side.ep, NULL, 0), -FI_ENOSYS);
	IS(fi_shutdown(side.ep, 0), -FI_ENOSYS);
	size_t len = sizeof bytes;
	IS(fi_getpeer(side.ep, bytes, &len), -FI_ENOSYS);
	IS(fi_join(side.ep, bytes, 0, &mc, NULL), -FI_ENOSYS);
	IS(fi_av_set(side.av, &set_attr, &set, NULL), -FI_ENOSYS);
	IS(fi_query_collective(net.domain, FI_BARRIER, NULL, 0), -FI_ENOSYS);
	IS(fi_barrier(side.ep, 0, NULL), -FI_ENOSYS);
	IS(fi_broadcast(side.ep, bytes, 1, NULL, 0, 0, FI_INT8, 0, NULL), -FI_ENOSYS);
	IS(fi_alltoall(side.ep, bytes, 1, NULL, bytes, NULL, 0, FI_INT8, 0, NULL), -FI_ENOSYS);
	IS(fi_allreduce(side.ep, bytes, 1, NULL, bytes, NULL, 0, FI_INT8, FI_SUM, 0, NULL),
	   -FI_ENOSYS);
	IS(fi_allgather(side.ep, bytes, 1, NULL, bytes, NULL, 0, FI_INT8, 0, NULL), -FI_ENOSYS);
	IS(fi_reduce_scatter(side.ep, bytes, 1, NULL, bytes, NULL, 0, FI_INT8, FI_SUM, 0, NULL),
	   -FI_ENOSYS);
	IS(fi_reduce(side.ep, bytes, 1, NULL, bytes, NULL, 0, 0, FI_INT8, FI_SUM, 0, NULL),
	   -FI_ENOSYS);
	IS(fi_scatter(side.ep, bytes, 1, NULL, bytes, NULL, 0, 0, FI_INT8, 0, NULL), -FI_ENOSYS);
	IS(fi_gather(side.ep, bytes, 1, NULL, bytes, NULL, 0, 0, FI_INT8, 0, NULL), -FI_ENOSYS);
	/* Vectors that processes share, names, and services. */
	struct fi_av_attr named = { .type = FI_AV_TABLE, .name = "shared" };
	struct fi_av_attr users = { .type = FI_AV_TABLE, .flags = AV_USER_ID };
	struct fi_av_attr regular = { .type = FI_AV_TABLE, .flags = FI_SYMMETRIC };
	IS(fi_av_open(net.domain, &named, &av, NULL), -FI_ENOSYS);
	IS(fi_av_open(net.domain, &users, &av, NULL), -FI_EBADFLAGS);
	OK(fi_av_open(net.domain, &regular, &av, NULL));
	OK(fi_close(&av->fid));
	fi_addr_t number;
	IS(fi_av_insertsym(side.av, "node", 1, "1", 1, &number, 0, NULL), -FI_ENOSYS);
	IS(fi_av_insert(side.av, side.name, 1, &number, AV_USER_ID, NULL), -FI_EBADFLAGS);
	IS(fi_av_insert(side.av, side.name, 1, &number, FI_SYNC_ERR, NULL), -FI_EINVAL);
	number = 77;
	IS(fi_av_remove(side.av, &number, 1, 0), -FI_EINVAL);
}

static void queues(void)
{
	const enum fi_wait_obj waits[] = { FI_WAIT_SET, FI_WAIT_MUTEX_COND, FI_WAIT_POLLFD };
	struct fid_cq *cq;
	struct fid_eq *eq;
	struct fid_cntr *cntr;
	void *object;
	enum fi_wait_obj has;

	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
		struct fi_cq_attr cq_attr = { .wait_obj = waits[i] };
		struct fi_eq_attr eq_attr = { .wait_obj = waits[i] };
		struct fi_cntr_attr cntr_attr = { .wait_obj = waits[i] };
		IS(fi_cq_open(net.domain, &cq_attr, &cq, NULL), -FI_ENOSYS);
		IS(fi_eq_open(net.fabric, &eq_attr, &eq, NULL), -FI_ENOSYS);
		IS(fi_cntr_open(net.domain, &cntr_attr, &cntr, NULL), -FI_ENOSYS);
	}
	struct fi_cq_attr format = { .format = 99 };
	struct fi_cntr_attr in_bytes = { .events = 1 }, flags = { .flags = 1 };
	IS(fi_cq_open(net.domain, &format, &cq, NULL), -FI_EINVAL);
	IS(fi_cq_open(net.domain, NULL, &cq, NULL), -FI_EINVAL);
	const enum fi_wait_obj there[] = { FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_YIELD };
	for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
		struct fi_cq_attr attr = { .wait_obj = there[i] };
		OK(fi_cq_open(net.domain, &attr, &cq, NULL));
		IS(fi_cq_sread(cq, bytes, 1, NULL, 1), -FI_EAGAIN);
		OK(fi_close(&cq->fid));
	}
	IS(fi_cntr_open(net.domain, &in_bytes, &cntr, NULL), -FI_EINVAL);
	IS(fi_cntr_open(net.domain, &flags, &cntr, NULL), -FI_EINVAL);
	IS(fi_control(&side.rx->fid, FI_GETWAIT, &object), -FI_ENOSYS);
	OK(fi_control(&side.rx->fid, FI_GETWAITOBJ, &has));
	IS(has, FI_WAIT_NONE);
	OK(fi_cntr_open(net.domain, NULL, &cntr, NULL));
	IS(fi_control(&cntr->fid, FI_GETWAIT, &object), -FI_ENOSYS);
	OK(fi_control(&cntr->fid, FI_GETWAITOBJ, &has));
	IS(has, FI_WAIT_NONE);
	OK(fi_close(&cntr->fid));
	/* A queue of events is all that a domain is bound to. */
	OK(fi_eq_open(net.fabric, NULL, &eq, NULL));
	OK(fi_domain_bind(net.domain, &eq->fid, 0));
	IS(fi_domain_bind(net.domain, &eq->fid, FI_REG_MR), -FI_EBADFLAGS);
	IS(fi_domain_bind(net.domain, &side.rx->fid, 0), -FI_EINVAL);
	IS(fi_control(&eq->fid, FI_GETWAIT, &object), -FI_ENOSYS);
	IS(fi_control(&net.domain->fid, FI_QUEUE_WORK, NULL), -FI_ENOSYS);
	OK(fi_close(&eq->fid));
}

static void bindings(void)
{
	struct fid_ep *ep;
	struct fid_cntr *cntr;

	OK(fi_cntr_open(net.domain, NULL, &cntr, NULL));
	OK(fi_endpoint(net.domain, net.info, &ep, NULL));
	IS(fi_ep_bind(ep, &side.rx->fid, 0), -FI_EINVAL);
	IS(fi_ep_bind(ep, &side.rx->fid, FI_TRANSMIT | FI_READ), -FI_EBADFLAGS);
	IS(fi_ep_bind(ep, &cntr->fid, 0), -FI_EBADFLAGS);
	IS(fi_ep_bind(ep, &cntr->fid, FI_SELECTIVE_COMPLETION), -FI_EBADFLAGS);
	IS(fi_ep_bind(ep, &net.domain->fid, 0), -FI_EINVAL);
	OK(fi_ep_bind(ep, &side.rx->fid, FI_RECV));
	IS(fi_ep_bind(ep, &side.rx->fid, FI_RECV), -FI_EINVAL);
	OK(fi_ep_bind(ep, &side.av->fid, 0));
	IS(fi_ep_bind(ep, &side.av->fid, 0), -FI_EINVAL);
	IS(fi_cancel(&ep->fid, NULL), -FI_EOPBADSTATE);
	OK(fi_close(&ep->fid));
	/* Enabled it takes counters of reads and writes, as Sandia OpenSHMEM binds them, and nothing else. */
	struct side late = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	IS(fi_ep_bind(late.ep, &late.rx->fid, FI_RECV), -FI_EOPBADSTATE);
	IS(fi_ep_bind(late.ep, &cntr->fid, FI_SEND), -FI_EOPBADSTATE);
	IS(fi_ep_bind(late.ep, &cntr->fid, FI_WRITE | FI_RECV), -FI_EOPBADSTATE);
	OK(fi_ep_bind(late.ep, &cntr->fid, FI_READ | FI_WRITE));
	IS(fi_ep_bind(late.ep, &cntr->fid, FI_WRITE), -FI_EINVAL);
	IS(fi_close(&cntr->fid), -FI_EBUSY);
	close_side(&late);
	OK(fi_close(&cntr->fid));
}

/* A counter of regions holds no endpoint once they are gone or have another one, and may outlive
 * them. It counts as long as there is one. */
static void counted_regions(void)
{
	struct fid_cntr *both, *first, *second;
	struct fid_mr *mr[3];
	fi_addr_t number;

	OK(fi_cntr_open(net.domain, NULL, &both, NULL));
	OK(fi_cntr_open(net.domain, NULL, &first, NULL));
	OK(fi_cntr_open(net.domain, NULL, &second, NULL));
	struct side late = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	IS(fi_av_insert(side.av, late.name, 1, &number, 0, NULL), 1);
	for (int i = 0; i < 3; i++) {
		struct fid_cntr *cntr = i < 2 ? both : first;
		OK(fi_mr_reg(net.domain, bytes, sizeof bytes, FI_REMOTE_WRITE, 0, KEY + i, 0, &mr[i],
			     NULL));
		OK(fi_mr_bind(mr[i], &cntr->fid, FI_REMOTE_WRITE));
	}
	OK(fi_mr_bind(mr[2], &second->fid, FI_REMOTE_WRITE));
	OK(fi_close(&mr[0]->fid));
	IS(fi_close(&both->fid), -FI_EBUSY);
	OK(fi_inject_write(side.ep, "x", 1, number, 0, KEY + 1));
	OK(fi_inject_write(side.ep, "y", 1, number, 1, KEY + 2));
	OK(fi_cntr_wait(both, 1, 10000));
	OK(fi_cntr_wait(second, 1, 10000));
	IS(fi_cntr_read(first), 0);
	for (int i = 1; i < 3; i++)
		OK(fi_close(&mr[i]->fid));
	close_side(&late);
	OK(fi_close(&both->fid));
	OK(fi_close(&first->fid));
	OK(fi_close(&second->fid));
}

static void regions(void)
{
	struct iovec iov = { bytes, sizeof bytes };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_WRITE,
				   .requested_key = KEY };
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	uint64_t base, key;
	uint8_t raw[8];
	size_t len = sizeof raw;

	/* A buffer of a device is not taken for memory. */
	IS(fi_mr_regattr(net.domain, &attr, MR_DMABUF, &mr), -FI_EBADFLAGS);
	struct iovec many[9] = { { bytes, 1 } };
	IS(fi_mr_regv(net.domain, many, 9, FI_REMOTE_READ, 0, 1, 0, &mr, NULL), -FI_EINVAL);
	OK(fi_mr_regattr(net.domain, &attr, 0, &mr));
	IS(fi_mr_key(mr), KEY);
	CHECK(!fi_mr_desc(mr));
	OK(fi_mr_enable(mr));
	OK(fi_cntr_open(net.domain, NULL, &cntr, NULL));
	OK(fi_mr_bind(mr, &side.ep->fid, 0));
	IS(fi_mr_bind(mr, &side.rx->fid, 0), -FI_EINVAL);
	IS(fi_mr_bind(mr, &cntr->fid, FI_SEND), -FI_EBADFLAGS);
	IS(fi_mr_refresh(mr, &iov, 1, 0), -FI_ENOSYS);
	IS(fi_mr_raw_attr(mr, &base, raw, &len, 0), -FI_ENOSYS);
	IS(fi_mr_map_raw(net.domain, 0, raw, sizeof raw, &key, 0), -FI_ENOSYS);
	IS(fi_mr_unmap_key(net.domain, KEY), -FI_ENOSYS);
	OK(fi_close(&mr->fid));
	OK(fi_close(&cntr->fid));
}

static void options(void)
{
	const struct { int name; size_t value; } sizes[] = {
		{ FI_OPT_MIN_MULTI_RECV, 64 }, { FI_OPT_CM_DATA_SIZE, 0 },
		{ FI_OPT_TX_SIZE, 4096 }, { FI_OPT_RX_SIZE, 4096 },
	};
	size_t value, len;
	int p2p = FI_HMEM_P2P_REQUIRED;

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		len = sizeof value;
		OK(fi_getopt(&side.ep->fid, FI_OPT_ENDPOINT, sizes[i].name, &value, &len));
		IS(value, sizes[i].value);
		OK(fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, sizes[i].name, &value, len));
	}
	/* Of 2.x: lengths of messages and of injected ones, and of what is not told. */
	for (int name = 12; name <= 19; name++) {
		int is_message = name != 14 && name != 15 && name < 18;
		len = sizeof value;
		IS(fi_getopt(&side.ep->fid, FI_OPT_ENDPOINT, name, &value, &len),
		   is_message ? 0 : -FI_ENOPROTOOPT);
		if (is_message)
			IS(value, name < 16 ? INT64_MAX : (long)net.info->tx_attr->inject_size);
	}
	value = 4097;
	IS(fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &value, sizeof value),
	   -FI_EINVAL);
	len = 1;
	IS(fi_getopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &value, &len),
	   -FI_ETOOSMALL);
	IS(len, sizeof value);
	IS(fi_getopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_BUFFERED_MIN, &value, &len),
	   -FI_ENOPROTOOPT);
	IS(fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SEND_BUF_SIZE, &value, len),
	   -FI_ENOPROTOOPT);
	IS(fi_getopt(&side.ep->fid, 1, FI_OPT_TX_SIZE, &value, &len), -FI_ENOPROTOOPT);
	IS(fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &p2p, sizeof p2p),
	   -FI_EOPNOTSUPP);
	p2p = FI_HMEM_P2P_DISABLED;
	OK(fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &p2p, sizeof p2p));
	/* Flags of operations that have none of their own. */
	uint64_t flags = FI_TRANSMIT | FI_MORE;
	IS(fi_control(&side.ep->fid, FI_SETOPSFLAG, &flags), -FI_EBADFLAGS);
	flags = FI_TRANSMIT | FI_RECV;
	IS(fi_control(&side.ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	IS(fi_control(&side.ep->fid, FI_GETFIDFLAG, &flags), -FI_ENOSYS);
}

static void flags_and_limits(void)
{
	const uint64_t none[] = { FI_TRIGGER, FI_COMMIT_COMPLETE, FI_MULTICAST };
	struct iovec iov[9] = { { bytes, 1 }, { bytes, 1 } };
	struct fi_rma_iov there = { 0, 1, KEY };
	struct fi_msg msg = { .msg_iov = iov, .iov_count = 1 };
	struct fi_msg_tagged tagged = { .msg_iov = iov, .iov_count = 1 };
	struct fi_msg_rma rma = { .msg_iov = iov, .iov_count = 1, .rma_iov = &there,
				  .rma_iov_count = 1 };
	struct fi_ioc ioc = { bytes, 1 }, result = { bytes, 1 };
	struct fi_rma_ioc target = { 0, 1, KEY };
	struct fi_msg_atomic atomic = { .msg_iov = &ioc, .iov_count = 1, .rma_iov = &target,
					.rma_iov_count = 1, .datatype = FI_UINT8,
					.op = FI_SUM };

	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		IS(fi_sendmsg(side.ep, &msg, none[i]), -FI_EBADFLAGS);
		IS(fi_recvmsg(side.ep, &msg, none[i]), -FI_EBADFLAGS);
		IS(fi_tsendmsg(side.ep, &tagged, none[i]), -FI_EBADFLAGS);
		IS(fi_trecvmsg(side.ep, &tagged, none[i]), -FI_EBADFLAGS);
		IS(fi_readmsg(side.ep, &rma, none[i]), -FI_EBADFLAGS);
		IS(fi_writemsg(side.ep, &rma, none[i]), -FI_EBADFLAGS);
		IS(fi_atomicmsg(side.ep, &atomic, none[i]), -FI_EBADFLAGS);
		IS(fi_fetch_atomicmsg(side.ep, &atomic, &result, NULL, 1, none[i]),
		   -FI_EBADFLAGS);
	}
	IS(fi_readmsg(side.ep, &rma, FI_REMOTE_CQ_DATA), -FI_EBADFLAGS);
	IS(fi_atomicmsg(side.ep, &atomic, FI_TAGGED), -FI_EBADFLAGS);
	/* As many pieces as the attributes say, and no more. */
	IS(fi_recvv(side.ep, iov, NULL, 9, FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
	IS(fi_trecvv(side.ep, iov, NULL, 9, FI_ADDR_UNSPEC, 0, 0, NULL), -FI_EINVAL);
	IS(fi_tsendv(side.ep, iov, NULL, 9, 0, 0, NULL), -FI_EINVAL);
	IS(fi_readv(side.ep, iov, NULL, 9, 0, 0, KEY, NULL), -FI_EINVAL);
	IS(fi_writev(side.ep, iov, NULL, 9, 0, 0, KEY, NULL), -FI_EINVAL);
	IS(fi_send(side.ep, bytes, SIZE_MAX, NULL, 0, NULL), -FI_EMSGSIZE);
	const struct iovec halves[3] = { { bytes, SIZE_MAX / 2 }, { bytes, SIZE_MAX / 2 },
					 { bytes, SIZE_MAX / 2 } };
	IS(fi_trecvv(side.ep, halves, NULL, 3, FI_ADDR_UNSPEC, 0, 0, NULL), -FI_EMSGSIZE);
	/* Messages in a buffer for many are told of by their addresses. */
	msg.iov_count = 2;
	IS(fi_recvmsg(side.ep, &msg, FI_MULTI_RECV), -FI_EINVAL);
	msg.iov_count = 1;
	IS(fi_inject_write(side.ep, bytes, net.info->tx_attr->inject_size + 1, 0, 0, KEY),
	   -FI_EMSGSIZE);
	IS(fi_atomic(side.ep, bytes, 121, NULL, 0, 0, KEY, FI_UINT64, FI_SUM, NULL),
	   -FI_EMSGSIZE);
	IS(fi_compare_atomic(side.ep, bytes, 2, NULL, bytes, NULL, bytes, NULL, 0, 0, KEY,
			     FI_UINT64, FI_CSWAP, NULL), -FI_EMSGSIZE);
	/* Atomic operations that are none. */
	struct fi_atomic_attr attr;
	size_t count;
	IS(fi_atomicvalid(side.ep, BEYOND, FI_SUM, &count), -FI_EOPNOTSUPP);
	IS(fi_atomicvalid(side.ep, FI_INT8, FI_CSWAP, &count), -FI_EOPNOTSUPP);
	IS(fi_compare_atomicvalid(side.ep, FI_INT8, FI_SUM, &count), -FI_EOPNOTSUPP);
	OK(fi_compare_atomicvalid(side.ep, FI_INT8, FI_MSWAP, &count));
	IS(count, 1);
	IS(fi_query_atomic(net.domain, FI_INT8, FI_SUM, &attr, FI_TAGGED), -FI_EOPNOTSUPP);
	IS(fi_query_atomic(net.domain, FI_INT8, FI_SUM, &attr,
			   FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC), -FI_EBADFLAGS);
}

/* Insertions whose ends are events: none before there is a queue for them. */
static void asynchronous_insertions(void)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = FI_EVENT };
	char names[2 * ADDR_BYTES] = "";
	fi_addr_t numbers[2];
	struct fi_eq_entry entry;
	struct fi_eq_err_entry error = { 0 };
	struct fid_av *av;
	struct fid_eq *eq;
	uint32_t event;

	memcpy(names, side.name, ADDR_BYTES);
	OK(fi_av_open(net.domain, &attr, &av, NULL));
	IS(fi_av_insert(av, names, 2, numbers, 0, NULL), -FI_ENOEQ);
	OK(fi_eq_open(net.fabric, NULL, &eq, NULL));
	IS(fi_av_bind(av, &side.rx->fid, 0), -FI_EINVAL);
	OK(fi_av_bind(av, &eq->fid, 0));
	OK(fi_av_insert(av, names, 2, numbers, 0, names));
	IS(fi_eq_read(eq, &event, &entry, sizeof entry, 0), -FI_EAVAIL);
	IS(fi_eq_readerr(eq, &error, 0), sizeof error);
	IS(error.err, FI_EADDRNOTAVAIL);
	IS(error.data, 1);
	CHECK(error.fid == &av->fid && error.context == names);
	CHECK(strlen(fi_eq_strerror(eq, error.prov_errno, NULL, NULL, 0)) > 0);
	IS(fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
	IS(fi_eq_read(eq, &event, &entry, 1, 0), -FI_ETOOSMALL);
	IS(fi_eq_read(eq, &event, &entry, sizeof entry, FI_PEEK), sizeof entry);
	IS(fi_eq_read(eq, &event, &entry, sizeof entry, 0), sizeof entry);
	IS(event, FI_AV_COMPLETE);
	IS(entry.data, 1);
	CHECK(entry.fid == &av->fid && entry.context == names);
	IS(fi_close(&eq->fid), -FI_EBUSY);
	OK(fi_close(&av->fid));
	OK(fi_close(&eq->fid));
}

static void counters(void)
{
	struct fid_cntr *cntr;

	OK(fi_cntr_open(net.domain, NULL, &cntr, NULL));
	OK(fi_cntr_set(cntr, 7));
	OK(fi_cntr_add(cntr, 2));
	IS(fi_cntr_read(cntr), 9);
	OK(fi_cntr_seterr(cntr, 3));
	OK(fi_cntr_adderr(cntr, 1));
	IS(fi_cntr_readerr(cntr), 4);
	OK(fi_cntr_wait(cntr, 9, -1));
	IS(fi_cntr_wait(cntr, 10, 1), -FI_ETIMEDOUT);
	OK(fi_close(&cntr->fid));
}

int main(void)
{
	fi_addr_t number;

	capabilities_and_orders();
	attributes();
	net = open_net(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC, FI_THREAD_SAFE);
	side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	IS(fi_av_insert(side.av, side.name, 1, &number, 0, NULL), 1);
	altered();
	objects();
	queues();
	bindings();
	regions();
	counted_regions();
	options();
	flags_and_limits();
	asynchronous_insertions();
	counters();
	close_side(&side);
	close_net(&net);
	puts("all as it should be");
	return 0;
}
