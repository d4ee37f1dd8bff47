/* Remote memory, atomic operations, counters and buffers for many messages, as a program
 * calls them: two endpoints of one process. */
#include "client.h"
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#define REGION 65536
#define KEY 42
/* Numbers of libfabric 2.x, which the headers of 1.17 lack. */
#define INT128 14
#define BFLOAT16 17
#define DIFF 19

struct pair {
	struct net net;
	struct side a, b;
	struct fid_cntr *reads, *writes;
	struct fid_mr *mr;
	char *memory;
};

static struct pair open_pair(void)
{
	struct pair p = { .net = open_net(FI_MSG | FI_RMA | FI_ATOMIC | FI_MULTI_RECV,
					  FI_THREAD_SAFE) };
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP };

	p.memory = calloc(1, REGION);
	OK(fi_mr_reg(p.net.domain, p.memory, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY,
		     0, &p.mr, NULL));
	IS(fi_mr_key(p.mr), KEY);
	p.a = open_side(&p.net, FI_CQ_FORMAT_DATA, 0, FI_SELECTIVE_COMPLETION);
	p.b = open_side(&p.net, FI_CQ_FORMAT_DATA, 0, 0);
	IS(fi_av_insert(p.a.av, p.b.name, 1, NULL, 0, NULL), 1);
	IS(fi_av_insert(p.b.av, p.a.name, 1, NULL, 0, NULL), 1);
	OK(fi_cntr_open(p.net.domain, &attr, &p.reads, NULL));
	OK(fi_cntr_open(p.net.domain, &attr, &p.writes, NULL));
	return p;
}

static void close_pair(struct pair *p)
{
	close_side(&p->a);
	close_side(&p->b);
	OK(fi_close(&p->mr->fid));
	OK(fi_close(&p->reads->fid));
	OK(fi_close(&p->writes->fid));
	close_net(&p->net);
	free(p->memory);
}

/* The next completion of `side`, while `other` makes progress. */
static struct fi_cq_data_entry next(struct side *side, struct side *other)
{
	struct fi_cq_data_entry entry, none;
	time_t end = time(NULL) + 20;

	while (fi_cq_read(side->rx, &entry, 1) != 1) {
		IS(fi_cq_read(other->rx, &none, 1), -FI_EAGAIN);
		CHECK(time(NULL) < end);
	}
	return entry;
}

/* The next error of `side`. */
static int next_error(struct side *side, struct side *other)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error = { 0 };
	time_t end = time(NULL) + 20;

	while (fi_cq_read(side->rx, &entry, 1) != -FI_EAVAIL) {
		IS(fi_cq_read(other->rx, &entry, 1), -FI_EAGAIN);
		CHECK(time(NULL) < end);
	}
	IS(fi_cq_readerr(side->rx, &error, 0), 1);
	return error.err;
}

static void reads_and_writes(struct pair *p)
{
	char *here = malloc(REGION);
	struct fi_cq_data_entry entry;

	for (size_t len = 1; len < REGION; len = len * 3 + 1) {
		memset(here, (int)len, REGION);
		struct iovec iov = { here, len };
		struct fi_rma_iov there = { 1, len, KEY };
		struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .rma_iov = &there,
					  .rma_iov_count = 1, .context = here, .data = len };
		OK(fi_writemsg(p->a.ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA));
		/* The target is told with the data, the initiator that it is done. */
		struct fi_cq_data_entry told = { 0 };
		time_t end = time(NULL) + 20;
		entry.flags = 0;
		while (!told.flags || !entry.flags) {
			fi_cq_read(p->b.rx, &told, 1);
			fi_cq_read(p->a.rx, &entry, 1);
			CHECK(time(NULL) < end);
		}
		IS(told.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		IS(told.data, len);
		IS(p->memory[len], (char)len);
		IS(entry.flags, FI_RMA | FI_WRITE);
		CHECK(entry.op_context == here);
		memset(here, 0, REGION);
		OK(fi_readmsg(p->a.ep, &msg, FI_COMPLETION));
		entry = next(&p->a, &p->b);
		IS(entry.flags, FI_RMA | FI_READ);
		IS(here[len - 1], (char)len);
	}
	/* A message behind a fence begins when what was asked before is done. */
	struct iovec all = { here, REGION };
	struct fi_msg fenced = { .msg_iov = &all, .iov_count = 0, .context = &all };
	time_t end = time(NULL) + 20;
	uint64_t *first = (uint64_t *)p->memory, one = 1;
	*first = 6;
	OK(fi_atomic(p->a.ep, &one, 1, NULL, 0, 0, KEY, FI_UINT64, FI_SUM, here));
	if (!getenv("FI_SLUICE_PROGRESS"))
		IS(fi_sendmsg(p->a.ep, &fenced, FI_FENCE), -FI_EAGAIN);
	while (fi_sendmsg(p->a.ep, &fenced, FI_COMPLETION | FI_FENCE)) {
		fi_cq_read(p->b.rx, NULL, 0);
		CHECK(time(NULL) < end);
	}
	IS(*first, 7);
	CHECK(next(&p->a, &p->b).op_context == &all);
	OK(fi_recv(p->b.ep, here, 8, NULL, FI_ADDR_UNSPEC, here));
	CHECK(next(&p->b, &p->a).op_context == here);
	/* Several stretches on both sides. */
	struct iovec iov[2] = { { "abc", 3 }, { "defgh", 5 } };
	struct fi_rma_iov there[2] = { { 100, 4, KEY }, { 200, 4, KEY } };
	struct fi_msg_rma msg = { .msg_iov = iov, .iov_count = 2, .rma_iov = there,
				  .rma_iov_count = 2, .context = here };
	OK(fi_writemsg(p->a.ep, &msg, FI_COMPLETION));
	next(&p->a, &p->b);
	CHECK(!memcmp(p->memory + 100, "abcd", 4) && !memcmp(p->memory + 200, "efgh", 4));
	/* The target is told the data of all of it, once. */
	struct fi_cq_data_entry told = { 0 };
	end = time(NULL) + 20;
	entry.flags = 0;
	iov[0].iov_base = "ABC";
	msg.data = 77;
	OK(fi_writemsg(p->a.ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA));
	while (!told.flags || !entry.flags) {
		fi_cq_read(p->b.rx, &told, 1);
		fi_cq_read(p->a.rx, &entry, 1);
		CHECK(time(NULL) < end);
	}
	IS(told.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	IS(told.data, 77);
	CHECK(!memcmp(p->memory + 100, "ABCd", 4) && !memcmp(p->memory + 200, "efgh", 4));
	IS(fi_cq_read(p->b.rx, &told, 1), -FI_EAGAIN);
	msg.rma_iov_count = msg.iov_count = 0;
	IS(fi_writemsg(p->a.ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA), -FI_EINVAL);
	msg.rma_iov_count = msg.iov_count = 2;
	there[1].len = 5;
	IS(fi_writemsg(p->a.ep, &msg, FI_COMPLETION), -FI_EINVAL);
	/* No such key, and beyond the end. */
	OK(fi_read(p->a.ep, here, 8, NULL, 0, 0, KEY + 1, here));
	IS(next_error(&p->a, &p->b), FI_EKEYREJECTED);
	OK(fi_write(p->a.ep, here, 8, NULL, 0, REGION - 7, KEY, here));
	IS(next_error(&p->a, &p->b), FI_EKEYREJECTED);
	free(here);
}

/* Reads and writes need no call of the target, where the system lets its memory be reached. */
static void passive(struct pair *p)
{
	struct fi_cq_data_entry entry;
	char here[8] = "passive", back[8] = "";
	struct iovec iov = { here, 8 };
	struct fi_rma_iov there = { 16, 8, KEY };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .rma_iov = &there,
				  .rma_iov_count = 1, .context = here };

	OK(fi_writemsg(p->a.ep, &msg, FI_COMPLETION));
	IS(fi_cq_read(p->a.rx, &entry, 1), 1);
	CHECK(!memcmp(p->memory + 16, here, 8));
	iov.iov_base = back;
	OK(fi_readmsg(p->a.ep, &msg, FI_COMPLETION));
	IS(fi_cq_read(p->a.rx, &entry, 1), 1);
	CHECK(!memcmp(back, here, 8));
}

static void regions(struct pair *p)
{
	char bytes[64] = "only to be read", here[64] = "";
	struct iovec pieces[2] = { { bytes, 5 }, { bytes + 8, 20 } };
	struct fid_mr *mr, *same;

	OK(fi_mr_regv(p->net.domain, pieces, 2, FI_REMOTE_READ, 0, 7, 0, &mr, NULL));
	IS(fi_mr_reg(p->net.domain, bytes, 8, FI_REMOTE_READ, 0, 7, 0, &same, NULL), -FI_ENOKEY);
	struct iovec iov = { here, 12 };
	struct fi_rma_iov there = { 0, 12, 7 };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .rma_iov = &there,
				  .rma_iov_count = 1, .context = here };
	OK(fi_readmsg(p->a.ep, &msg, FI_COMPLETION));
	next(&p->a, &p->b);
	CHECK(!memcmp(here, "only be read", 12));
	OK(fi_writemsg(p->a.ep, &msg, FI_COMPLETION));
	IS(next_error(&p->a, &p->b), FI_EACCES);
	OK(fi_close(&mr->fid));
	OK(fi_readmsg(p->a.ep, &msg, FI_COMPLETION));
	IS(next_error(&p->a, &p->b), FI_EKEYREJECTED);
}

/* What libfabric 2.x has beyond 1.17. */
static void later_atomics(struct pair *p)
{
	__int128 wide = 1, before = 0, *wide_there = (__int128 *)(p->memory + 128);
	uint16_t half = 0x4000, *half_there = (uint16_t *)(p->memory + 160);
	size_t count;
	struct fi_ioc ioc = { &wide, 1 }, result = { &before, 1 };
	struct fi_rma_ioc target = { 128, 1, KEY };
	struct fi_msg_atomic msg = { .msg_iov = &ioc, .iov_count = 1, .rma_iov = &target,
				     .rma_iov_count = 1, .datatype = INT128, .op = DIFF };

	OK(fi_fetch_atomicvalid(p->a.ep, INT128, DIFF, &count));
	IS(count, 60);
	IS(fi_compare_atomicvalid(p->a.ep, INT128, DIFF, &count), -FI_EOPNOTSUPP);
	*wide_there = (__int128)5 << 64;
	OK(fi_fetch_atomicmsg(p->a.ep, &msg, &result, NULL, 1, FI_COMPLETION));
	next(&p->a, &p->b);
	CHECK(before == (__int128)5 << 64);
	CHECK(*wide_there == ((__int128)5 << 64) - 1);
	wide = -((__int128)1 << 100);
	msg.op = FI_MIN;
	OK(fi_atomicmsg(p->a.ep, &msg, FI_COMPLETION));
	next(&p->a, &p->b);
	CHECK(*wide_there == wide);
	/* 0.5 less 2 of bfloat16 is -1.5. */
	*half_there = 0x3f00;
	ioc.addr = &half;
	target.addr = 160;
	msg.datatype = BFLOAT16;
	msg.op = DIFF;
	OK(fi_atomicmsg(p->a.ep, &msg, FI_COMPLETION));
	next(&p->a, &p->b);
	IS(*half_there, 0xbfc0);
}

static void atomics(struct pair *p)
{
	uint64_t *there = (uint64_t *)p->memory, value = 5, was = 0, compare = 12;
	double doubles[2] = { 1.5, 2.5 }, *doubles_there = (double *)(p->memory + 64);
	size_t count;

	OK(fi_atomicvalid(p->a.ep, FI_UINT64, FI_SUM, &count));
	IS(count, 120);
	OK(fi_fetch_atomicvalid(p->a.ep, FI_LONG_DOUBLE_COMPLEX, FI_ATOMIC_READ, &count));
	IS(fi_atomicvalid(p->a.ep, FI_DOUBLE, FI_BOR, &count), -FI_EOPNOTSUPP);
	struct fi_atomic_attr attr;
	OK(fi_query_atomic(p->net.domain, FI_INT32, FI_CSWAP, &attr, FI_COMPARE_ATOMIC));
	IS(attr.size, 4);
	*there = 7;
	struct fi_ioc ioc = { &value, 1 }, result = { &was, 1 }, operand = { &compare, 1 };
	struct fi_rma_ioc target = { 0, 1, KEY };
	struct fi_msg_atomic msg = { .msg_iov = &ioc, .iov_count = 1, .rma_iov = &target,
				     .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM,
				     .context = &was };
	OK(fi_fetch_atomicmsg(p->a.ep, &msg, &result, NULL, 1, FI_COMPLETION));
	IS(next(&p->a, &p->b).flags, FI_ATOMIC | FI_READ);
	IS(was, 7);
	IS(*there, 12);
	msg.op = FI_CSWAP;
	OK(fi_compare_atomicmsg(p->a.ep, &msg, &operand, NULL, 1, &result, NULL, 1,
				FI_COMPLETION));
	next(&p->a, &p->b);
	IS(was, 12);
	IS(*there, 5);
	msg.op = FI_ATOMIC_READ;
	was = 0;
	OK(fi_fetch_atomicmsg(p->a.ep, &msg, &result, NULL, 1, FI_COMPLETION));
	next(&p->a, &p->b);
	IS(was, 5);
	doubles_there[0] = doubles_there[1] = 1;
	struct fi_ioc two = { doubles, 2 };
	struct fi_rma_ioc two_there = { 64, 2, KEY };
	msg.msg_iov = &two;
	msg.rma_iov = &two_there;
	msg.datatype = FI_DOUBLE;
	msg.op = FI_PROD;
	OK(fi_atomicmsg(p->a.ep, &msg, FI_COMPLETION));
	IS(next(&p->a, &p->b).flags, FI_ATOMIC | FI_WRITE);
	CHECK(doubles_there[0] == 1.5 && doubles_there[1] == 2.5);
	msg.op = FI_ATOMIC_WRITE;
	doubles[0] = 9;
	OK(fi_atomicmsg(p->a.ep, &msg, FI_COMPLETION));
	next(&p->a, &p->b);
	CHECK(doubles_there[0] == 9);
	later_atomics(p);
}

/* Operations that no queue is told of are counted. */
static void counters(struct pair *p)
{
	struct side c;
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA };
	struct fi_av_attr av = { .type = FI_AV_TABLE, .count = 4 };
	struct fi_cq_data_entry entry;
	char bytes[8] = "counted";

	OK(fi_endpoint(p->net.domain, p->net.info, &c.ep, NULL));
	OK(fi_cq_open(p->net.domain, &cq, &c.rx, NULL));
	c.tx = c.rx;
	OK(fi_av_open(p->net.domain, &av, &c.av, NULL));
	OK(fi_ep_bind(c.ep, &c.av->fid, 0));
	OK(fi_ep_bind(c.ep, &c.rx->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	OK(fi_ep_bind(c.ep, &p->reads->fid, FI_READ));
	OK(fi_enable(c.ep));
	OK(fi_ep_bind(c.ep, &p->writes->fid, FI_WRITE));
	IS(fi_ep_bind(c.ep, &p->writes->fid, FI_WRITE), -FI_EINVAL);
	IS(fi_av_insert(c.av, p->b.name, 1, NULL, 0, NULL), 1);
	for (int n = 0; n < 20; n++) {
		OK(fi_inject_write(c.ep, bytes, sizeof bytes, 0, 8 * n, KEY));
		OK(fi_write(c.ep, bytes, sizeof bytes, NULL, 0, 8 * n, KEY, NULL));
	}
	time_t end = time(NULL) + 20;
	while (fi_cntr_read(p->writes) < 40) {
		IS(fi_cq_read(p->b.rx, &entry, 1), -FI_EAGAIN);
		CHECK(time(NULL) < end);
	}
	IS(fi_cntr_wait(p->writes, 40, 0), 0);
	IS(fi_cntr_wait(p->reads, 1, 10), -FI_ETIMEDOUT);
	IS(fi_cntr_readerr(p->writes), 0);
	CHECK(!memcmp(p->memory + 8 * 19, bytes, 8));
	/* One that fails is counted apart, and waits no longer. */
	OK(fi_write(c.ep, bytes, 8, NULL, 0, 0, KEY + 1, NULL));
	while (fi_cntr_readerr(p->writes) < 1) {
		IS(fi_cq_read(p->b.rx, &entry, 1), -FI_EAGAIN);
		CHECK(time(NULL) < end);
	}
	OK(fi_cntr_add(p->writes, 2));
	IS(fi_cntr_read(p->writes), 42);
	IS(fi_close(&p->writes->fid), -FI_EBUSY);
	close_side(&c);
}

static void buffers_for_many(struct pair *p)
{
	static char buffer[256], later[64];
	size_t least = 40;
	struct iovec iov = { buffer, sizeof buffer };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
			      .context = buffer };
	struct fi_cq_data_entry entry;
	char text[64];
	size_t at = 0;

	OK(fi_setopt(&p->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
	OK(fi_recvmsg(p->b.ep, &msg, FI_MULTI_RECV));
	/* It meets nothing that the buffer has room for. */
	OK(fi_recv(p->b.ep, later, sizeof later, NULL, FI_ADDR_UNSPEC, later));
	for (int n = 0; at <= sizeof buffer - least; n++) {
		size_t len = 10 + 3 * n;
		memset(text, 'a' + n, sizeof text);
		OK(fi_inject(p->a.ep, text, len, 0));
		entry = next(&p->b, &p->a);
		IS(entry.flags, FI_RECV | FI_MSG);
		IS(entry.len, len);
		CHECK(entry.op_context == buffer && entry.buf == buffer + at);
		IS(buffer[at], 'a' + n);
		at += len;
	}
	entry = next(&p->b, &p->a);
	IS(entry.flags, FI_MULTI_RECV);
	CHECK(entry.op_context == buffer);
	OK(fi_inject(p->a.ep, "later", 5, 0));
	entry = next(&p->b, &p->a);
	CHECK(entry.op_context == later && entry.len == 5);
	/* Tags name one message. */
	struct fi_msg_tagged tagged = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC };
	IS(fi_trecvmsg(p->b.ep, &tagged, FI_MULTI_RECV), -FI_EBADFLAGS);
}

int main(void)
{
	struct pair p = open_pair();

	/* The first operation of all needs no call of the target either. */
	if (getenv("FI_SLUICE_BULK") && !strcmp(getenv("FI_SLUICE_BULK"), "auto"))
		passive(&p);
	reads_and_writes(&p);
	regions(&p);
	atomics(&p);
	counters(&p);
	buffers_for_many(&p);
	close_pair(&p);
	puts("all as it should be");
	return 0;
}
