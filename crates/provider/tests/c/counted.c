/* What counters of an endpoint count: every message, whether or not it has an entry in a
 * queue; and what may be bound, and called, when. */
#include "client.h"

static struct net net;

/* An endpoint that reports nothing unless told, with its counters. */
struct counting {
	struct side side;
	struct fid_cntr *sent, *received;
};

static struct counting open_counting(void)
{
	struct counting it;
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fid_cntr *second;
	size_t len = ADDR_BYTES;

	OK(fi_endpoint(net.domain, net.info, &it.side.ep, NULL));
	OK(fi_cq_open(net.domain, &cq, &it.side.rx, NULL));
	it.side.tx = it.side.rx;
	OK(fi_av_open(net.domain, &av, &it.side.av, NULL));
	OK(fi_cntr_open(net.domain, NULL, &it.sent, NULL));
	OK(fi_cntr_open(net.domain, NULL, &it.received, NULL));
	OK(fi_ep_bind(it.side.ep, &it.side.av->fid, 0));
	OK(fi_ep_bind(it.side.ep, &it.side.rx->fid,
		      FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	OK(fi_ep_bind(it.side.ep, &it.sent->fid, FI_SEND));
	OK(fi_ep_bind(it.side.ep, &it.received->fid, FI_RECV));
	/* A second one takes the place of none. */
	OK(fi_cntr_open(net.domain, NULL, &second, NULL));
	IS(fi_ep_bind(it.side.ep, &second->fid, FI_SEND | FI_READ), -FI_EINVAL);
	OK(fi_close(&second->fid));
	/* It has a name before it is enabled, and does nothing else. */
	OK(fi_getname(&it.side.ep->fid, it.side.name, &len));
	IS(fi_tinject(it.side.ep, "", 0, 0, 1), -FI_EOPBADSTATE);
	IS(fi_trecv(it.side.ep, NULL, 0, NULL, 0, 1, 0, NULL), -FI_EOPBADSTATE);
	char name[ADDR_BYTES];
	OK(fi_enable(it.side.ep));
	OK(fi_getname(&it.side.ep->fid, name, &len));
	CHECK(!memcmp(name, it.side.name, ADDR_BYTES));
	return it;
}

static void close_counting(struct counting *it)
{
	close_side(&it->side);
	OK(fi_close(&it->sent->fid));
	OK(fi_close(&it->received->fid));
}

/* Both move until `cntr` counts so many. */
static void counts(struct fid_cntr *cntr, uint64_t wanted, struct fid_cntr *other)
{
	double end = seconds() + 10;
	while (fi_cntr_read(cntr) < wanted) {
		fi_cntr_read(other);
		CHECK(seconds() < end);
	}
	IS(fi_cntr_read(cntr), wanted);
	IS(fi_cntr_readerr(cntr), 0);
}

static void messages_without_entries(size_t len)
{
	struct counting a = open_counting(), b = open_counting();
	char *out = calloc(1, len), *in = calloc(1, len);
	struct fi_cq_tagged_entry entry;
	struct iovec there = { in, len }, here = { out, len };
	struct fi_msg_tagged told = { .msg_iov = &there, .iov_count = 1, .tag = 1 };

	introduce(&a.side, &b.side);
	for (uint64_t nth = 1; nth <= 5; nth++) {
		OK(fi_trecv(b.side.ep, in, len, NULL, 0, 1, 0, NULL));
		if (nth % 2 && len <= 64)
			OK(fi_tinject(a.side.ep, out, len, 0, 1));
		else
			OK(fi_tsend(a.side.ep, out, len, NULL, 0, 1, NULL));
		counts(b.received, nth, a.sent);
		counts(a.sent, nth, b.received);
	}
	IS(fi_cq_read(a.side.tx, &entry, 1), -FI_EAGAIN);
	IS(fi_cq_read(b.side.rx, &entry, 1), -FI_EAGAIN);
	/* One that is to be told of is counted once. */
	OK(fi_trecvmsg(b.side.ep, &told, FI_COMPLETION));
	told.msg_iov = &here;
	OK(fi_tsendmsg(a.side.ep, &told, FI_COMPLETION));
	IS(wait_for(b.side.rx, &entry, &a.side), 1);
	IS(wait_for(a.side.tx, &entry, &b.side), 1);
	IS(fi_cntr_read(b.received), 6);
	IS(fi_cntr_read(a.sent), 6);
	close_counting(&a);
	close_counting(&b);
	free(out);
	free(in);
}

int main(void)
{
	net = open_net(FI_TAGGED, FI_THREAD_SAFE);
	messages_without_entries(64);
	messages_without_entries(1000000);
	close_net(&net);
	return 0;
}
