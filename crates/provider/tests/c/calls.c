/* Each data call in the forms that the other programs do not use, and the counters of an
 * endpoint and of a region: endpoints of one process. */
#include "client.h"
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#define KEY 42
#define REGION 4096

static struct net net;
static struct side a, b;
static struct fid_mr *mr;
static uint64_t memory[REGION / 8];

/* The next completion of `side`. */
static struct fi_cq_tagged_entry done(struct side *side, struct side *other)
{
	struct fi_cq_tagged_entry entry;
	memset(&entry, 0xff, sizeof entry);
	IS(wait_for(side->rx, &entry, other), 1);
	return entry;
}

static void messages(void)
{
	char in[8] = "", out[8] = "abcdef";
	struct iovec here = { in, sizeof in }, pieces[2] = { { out, 2 }, { out + 2, 5 } };
	struct fi_cq_tagged_entry entry;
	fi_addr_t source = 99;

	OK(fi_recvv(b.ep, &here, NULL, 1, FI_ADDR_UNSPEC, in));
	OK(fi_senddata(a.ep, out, 7, NULL, 5, 0, out));
	entry = done(&b, &a);
	IS(entry.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
	IS(entry.data, 5);
	CHECK(entry.op_context == in && !strcmp(in, out));
	CHECK(done(&a, &b).op_context == out);

	OK(fi_recv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, in));
	OK(fi_injectdata(a.ep, out, 7, 6, 0));
	IS(done(&b, &a).data, 6);

	memset(in, 0, sizeof in);
	OK(fi_recv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, in));
	OK(fi_sendv(a.ep, pieces, NULL, 2, 0, pieces));
	IS(done(&b, &a).len, 7);
	CHECK(!strcmp(in, out));
	CHECK(done(&a, &b).op_context == pieces);

	memset(in, 0, sizeof in);
	OK(fi_trecvv(b.ep, &here, NULL, 1, FI_ADDR_UNSPEC, 9, 0, in));
	OK(fi_tsendv(a.ep, pieces, NULL, 2, 0, 9, pieces));
	IS(done(&b, &a).tag, 9);
	CHECK(!strcmp(in, out));
	IS(done(&a, &b).flags, FI_SEND | FI_TAGGED);

	OK(fi_recv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, in));
	OK(fi_send(a.ep, out, 7, NULL, 0, out));
	CHECK(done(&a, &b).op_context == out);
	IS(fi_cq_sreadfrom(b.rx, &entry, 1, &source, NULL, 10000), 1);
	IS(source, 0);
}

static void remote_memory(void)
{
	char in[8] = "", out[8] = "abcdef", *there = (char *)memory;
	struct iovec pieces[2] = { { out, 2 }, { out + 2, 5 } };
	struct iovec back[2] = { { in, 4 }, { in + 4, 3 } };
	struct fi_cq_tagged_entry entry;

	OK(fi_writev(a.ep, pieces, NULL, 2, 0, 3, KEY, pieces));
	IS(done(&a, &b).flags, FI_RMA | FI_WRITE);
	CHECK(!strcmp(there + 3, out));
	OK(fi_readv(a.ep, back, NULL, 2, 0, 3, KEY, back));
	IS(done(&a, &b).flags, FI_RMA | FI_READ);
	CHECK(!strcmp(in, out));

	OK(fi_writedata(a.ep, out, 7, NULL, 11, 0, 100, KEY, out));
	CHECK(done(&a, &b).op_context == out);
	entry = done(&b, &a);
	IS(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	IS(entry.data, 11);
	CHECK(!strcmp(there + 100, out));
	OK(fi_inject_writedata(a.ep, out, 7, 12, 0, 200, KEY));
	IS(done(&b, &a).data, 12);
	CHECK(!strcmp(there + 200, out));
}

static void atomics(void)
{
	uint64_t two[2] = { 1, 2 }, was[2] = { 0, 0 }, compare = 13;
	struct fi_ioc here[2] = { { two, 1 }, { two + 1, 1 } };
	struct fi_ioc back[2] = { { was, 1 }, { was + 1, 1 } }, operand = { &compare, 1 };

	memory[0] = 10, memory[1] = 20;
	OK(fi_atomic(a.ep, two, 2, NULL, 0, 0, KEY, FI_UINT64, FI_SUM, two));
	IS(done(&a, &b).flags, FI_ATOMIC | FI_WRITE);
	OK(fi_atomicv(a.ep, here, NULL, 2, 0, 0, KEY, FI_UINT64, FI_SUM, two));
	IS(done(&a, &b).flags, FI_ATOMIC | FI_WRITE);
	/* Done in their order. */
	OK(fi_inject_atomic(a.ep, two, 1, 0, 0, KEY, FI_UINT64, FI_SUM));
	OK(fi_fetch_atomic(a.ep, two, 2, NULL, was, NULL, 0, 0, KEY, FI_UINT64, FI_BOR, was));
	IS(done(&a, &b).flags, FI_ATOMIC | FI_READ);
	IS(was[0], 13);
	IS(was[1], 24);
	OK(fi_compare_atomic(a.ep, two, 1, NULL, &compare, NULL, was, NULL, 0, 0, KEY, FI_UINT64,
			     FI_CSWAP, was));
	IS(done(&a, &b).flags, FI_ATOMIC | FI_READ);
	IS(was[0], 13);
	IS(memory[0], 1);
	compare = 7;
	OK(fi_compare_atomicv(a.ep, here, NULL, 1, &operand, NULL, 1, back, NULL, 1, 0, 0, KEY,
			      FI_UINT64, FI_CSWAP_GE, was));
	done(&a, &b);
	IS(was[0], 1);
	OK(fi_fetch_atomicv(a.ep, here, NULL, 2, back, NULL, 2, 0, 0, KEY, FI_UINT64,
			    FI_ATOMIC_WRITE, was));
	done(&a, &b);
	IS(was[1], 26);
	IS(memory[1], 2);
}

/* Waits until `cntr` counts so many, while all move. */
static void counts(struct fid_cntr *cntr, uint64_t wanted)
{
	double end = seconds() + 10;
	while (fi_cntr_read(cntr) < wanted) {
		fi_cq_read(a.rx, NULL, 0);
		fi_cq_read(b.rx, NULL, 0);
		CHECK(seconds() < end);
	}
	IS(fi_cntr_read(cntr), wanted);
	IS(fi_cntr_readerr(cntr), 0);
}

static void counters(void)
{
	const uint64_t flags[4] = { FI_SEND, FI_RECV, FI_REMOTE_WRITE, FI_REMOTE_READ };
	struct fid_cntr *cntr[4], *of_region;
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct side c = { .av = a.av };
	size_t len = ADDR_BYTES;
	fi_addr_t number;
	char in[8], out[8] = "counted";

	OK(fi_endpoint(net.domain, net.info, &c.ep, NULL));
	OK(fi_cq_open(net.domain, &cq, &c.rx, NULL));
	OK(fi_ep_bind(c.ep, &c.rx->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(c.ep, &c.av->fid, 0));
	for (int n = 0; n < 4; n++) {
		OK(fi_cntr_open(net.domain, NULL, &cntr[n], NULL));
		OK(fi_ep_bind(c.ep, &cntr[n]->fid, flags[n]));
	}
	OK(fi_enable(c.ep));
	OK(fi_getname(&c.ep->fid, c.name, &len));
	IS(fi_av_insert(a.av, c.name, 1, &number, 0, NULL), 1);

	OK(fi_trecv(c.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, in));
	OK(fi_tsend(a.ep, out, 8, NULL, number, 1, out));
	counts(cntr[1], 1);
	OK(fi_tsend(c.ep, out, 8, NULL, 0, 2, out));
	counts(cntr[0], 1);
	OK(fi_write(a.ep, out, 8, NULL, number, 0, KEY, out));
	counts(cntr[2], 1);
	OK(fi_read(a.ep, in, 8, NULL, number, 0, KEY, in));
	counts(cntr[3], 1);
	IS(fi_cntr_read(cntr[2]), 1);
	/* Of a region, at whichever endpoint. */
	OK(fi_cntr_open(net.domain, NULL, &of_region, NULL));
	OK(fi_mr_bind(mr, &of_region->fid, FI_REMOTE_WRITE));
	OK(fi_write(a.ep, out, 8, NULL, 0, 0, KEY, out));
	counts(of_region, 1);
	OK(fi_write(a.ep, out, 8, NULL, number, 0, KEY, out));
	counts(of_region, 2);
	counts(cntr[2], 2);
	/* An operation of several parts is one, at each region that it reaches. */
	static char second[5016], elsewhere[8192];
	struct fid_mr *other;
	struct fid_cntr *of_other;
	struct iovec pieces[3] = { { second, 8 }, { second + 8, 5000 }, { second + 5008, 8 } };
	struct fi_rma_iov there[3] = { { 0, 8, KEY }, { 0, 5000, KEY + 1 }, { 8, 8, KEY } };
	struct fi_msg_rma msg = { .msg_iov = pieces, .iov_count = 3, .addr = number,
				  .rma_iov = there, .rma_iov_count = 3, .context = out };
	OK(fi_mr_reg(net.domain, elsewhere, sizeof elsewhere,
		     FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY + 1, 0, &other, NULL));
	OK(fi_cntr_open(net.domain, NULL, &of_other, NULL));
	OK(fi_mr_bind(other, &of_other->fid, FI_REMOTE_WRITE));
	OK(fi_writemsg(a.ep, &msg, 0));
	counts(of_region, 3);
	counts(of_other, 1);
	counts(cntr[2], 3);
	OK(fi_readmsg(a.ep, &msg, 0));
	counts(cntr[3], 2);
	OK(fi_writev(a.ep, pieces, NULL, 2, number, 0, KEY + 1, out));
	counts(of_other, 3);
	counts(cntr[2], 4);
	IS(fi_cntr_read(of_region), 4);
	IS(fi_cntr_read(cntr[3]), 2);
	OK(fi_close(&other->fid));
	OK(fi_close(&of_other->fid));

	OK(fi_close(&c.ep->fid));
	OK(fi_close(&c.rx->fid));
	for (int n = 0; n < 4; n++)
		OK(fi_close(&cntr[n]->fid));
	OK(fi_close(&mr->fid));
	OK(fi_close(&of_region->fid));
}

/* Offsets that are addresses, keys that are the provider's, and numbers of a map: as a program
 * asks for them of its domain. A wait for a counter ends with a failure. */
static void other_modes(void)
{
	static uint64_t there, all;
	struct fi_av_attr map = { .type = FI_AV_MAP };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_info *info = fi_dupinfo(net.info);
	struct fid_domain *domain;
	struct fid_mr *regions[2];
	struct fid_cntr *cntr;
	struct side c;
	size_t len = ADDR_BYTES;
	fi_addr_t number;
	uint64_t value = 5;

	info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
	OK(fi_domain(net.fabric, info, &domain, NULL));
	OK(fi_endpoint(domain, info, &c.ep, NULL));
	OK(fi_cq_open(domain, &cq, &c.rx, NULL));
	c.tx = c.rx;
	OK(fi_av_open(domain, &map, &c.av, NULL));
	OK(fi_cntr_open(domain, NULL, &cntr, NULL));
	OK(fi_ep_bind(c.ep, &c.rx->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(c.ep, &c.av->fid, 0));
	OK(fi_ep_bind(c.ep, &cntr->fid, FI_WRITE));
	OK(fi_enable(c.ep));
	OK(fi_getname(&c.ep->fid, c.name, &len));
	IS(fi_av_insert(c.av, c.name, 1, &number, 0, NULL), 1);
	/* The same key is asked for twice; the second region is all of memory. */
	OK(fi_mr_reg(domain, &there, sizeof there, FI_REMOTE_WRITE, 0, KEY, 0, &regions[0], NULL));
	OK(fi_mr_reg(domain, NULL, SIZE_MAX, FI_REMOTE_WRITE, 0, KEY, 0, &regions[1], NULL));
	CHECK(fi_mr_key(regions[0]) != fi_mr_key(regions[1]));
	OK(fi_write(c.ep, &value, 8, NULL, number, (uint64_t)&there, fi_mr_key(regions[0]), &value));
	IS(done(&c, &a).flags, FI_RMA | FI_WRITE);
	IS(there, 5);
	OK(fi_write(c.ep, &value, 8, NULL, number, (uint64_t)&all, fi_mr_key(regions[1]), &value));
	done(&c, &a);
	IS(all, 5);
	IS(fi_cntr_read(cntr), 2);
	/* Outside of the first one. */
	OK(fi_write(c.ep, &value, 8, NULL, number, (uint64_t)&there + 1, fi_mr_key(regions[0]),
		    &value));
	IS(fi_cntr_wait(cntr, 3, 10000), -FI_EAVAIL);
	IS(fi_cntr_readerr(cntr), 1);
	close_side(&c);
	OK(fi_close(&regions[0]->fid));
	OK(fi_close(&regions[1]->fid));
	OK(fi_close(&cntr->fid));
	OK(fi_close(&domain->fid));
	fi_freeinfo(info);
}

/* Each level of completion, a claim that is given up, and looks at untagged messages. */
static void flags(void)
{
	const uint64_t levels[] = { FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
				    FI_MATCH_COMPLETE, FI_MORE };
	char in[8] = "", out[8] = "abcdef";
	struct iovec iov = { out, 7 };
	struct fi_msg what = { .msg_iov = &iov, .iov_count = 1, .context = out };
	struct fi_msg look = { .addr = FI_ADDR_UNSPEC, .context = in };

	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
		OK(fi_recv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, in));
		OK(fi_sendmsg(a.ep, &what, levels[i]));
		IS(done(&b, &a).len, 7);
		CHECK(done(&a, &b).op_context == out);
	}
	OK(fi_sendmsg(a.ep, &what, FI_TRANSMIT_COMPLETE));
	done(&a, &b);
	OK(fi_recvmsg(b.ep, &look, FI_PEEK | FI_CLAIM));
	IS(done(&b, &a).len, 7);
	OK(fi_recvmsg(b.ep, &look, FI_CLAIM | FI_DISCARD));
	CHECK(done(&b, &a).op_context == in);
}

int main(void)
{
	net = open_net(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE, FI_THREAD_SAFE);
	OK(fi_mr_reg(net.domain, memory, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
		     NULL));
	a = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	b = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	IS(fi_av_insert(a.av, b.name, 1, NULL, 0, NULL), 1);
	IS(fi_av_insert(b.av, a.name, 1, NULL, 0, NULL), 1);
	messages();
	remote_memory();
	atomics();
	flags();
	other_modes();
	counters();
	close_side(&a);
	close_side(&b);
	close_net(&net);
	puts("all as it should be");
	return 0;
}
