/* Receives into several pieces of memory, and sends from several: what lies where. */
#include "client.h"

#define PIECES 8
#define LONGEST (1 << 21)
#define UNTOUCHED ((char)0xaa)

static uint64_t caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV;
static struct net net;
static struct side a, b;
static char *out, *in, *expected;
static int c1, c2;

/* What is written to memory that is to be filled in pieces. */
struct cut {
	struct iovec iov[PIECES];
	size_t count;
};

/* `len` bytes in pieces of growing size, some empty, in memory from the last to the first
 * with a byte between them. */
static struct cut cut(size_t len, size_t count)
{
	struct cut cut = { .count = count };
	size_t left = len;
	char *end = in + LONGEST + 64;

	for (size_t i = 0; i < count; i++) {
		size_t share = i + 1 == count ? left : i % 3 == 1 ? 0 : left / (count - i);
		end -= share + 1;
		cut.iov[i] = (struct iovec){ end, share };
		left -= share;
	}
	return cut;
}

static void prepare(void)
{
	memset(in, UNTOUCHED, LONGEST + 64);
	memset(expected, UNTOUCHED, LONGEST + 64);
}

/* The message lies in the pieces as far as it fits, and nothing else was written. */
static void compare(const struct cut *cut, size_t len)
{
	const char *from = out;
	for (size_t i = 0; i < cut->count; i++) {
		size_t here = cut->iov[i].iov_len < len ? cut->iov[i].iov_len : len;
		memcpy(expected + ((char *)cut->iov[i].iov_base - in), from, here);
		from += here;
		len -= here;
	}
	CHECK(!memcmp(in, expected, LONGEST + 64));
}

static struct fi_cq_tagged_entry good(struct fid_cq *cq, struct side *other)
{
	struct fi_cq_tagged_entry entry;
	IS(wait_for(cq, &entry, other), 1);
	return entry;
}

static struct fi_cq_err_entry bad(struct fid_cq *cq, struct side *other)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	IS(wait_for(cq, &entry, other), -FI_EAVAIL);
	IS(fi_cq_readerr(cq, &error, 0), 1);
	return error;
}

static void receive(int call, const struct iovec *iov, size_t count, void *context,
		    uint64_t flags)
{
	struct fi_msg msg = { .msg_iov = iov, .iov_count = count, .context = context };
	struct fi_msg_tagged tagged = { .msg_iov = iov, .iov_count = count, .tag = 5,
					.context = context };
	if (call % 2)
		OK(fi_trecvmsg(b.ep, &tagged, flags));
	else
		OK(fi_recvmsg(b.ep, &msg, flags));
}

/* One receive by each of the four calls. */
static void post(int call, const struct cut *cut)
{
	if (call == 0)
		OK(fi_recvv(b.ep, cut->iov, NULL, cut->count, FI_ADDR_UNSPEC, &c2));
	else if (call == 1)
		OK(fi_trecvv(b.ep, cut->iov, NULL, cut->count, 0, 5, 0, &c2));
	else
		receive(call, cut->iov, cut->count, &c2, FI_COMPLETION);
}

/* Looks for a message until there is one. Buffers do not matter to who looks. */
static void look(int call, void *context, uint64_t flags)
{
	struct iovec none[2] = { { 0 } };
	double end = seconds() + 10;
	for (;;) {
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry error = { 0 };
		receive(call, none, 2, context, FI_PEEK | flags | FI_COMPLETION);
		if (wait_for(b.rx, &entry, &a) == 1)
			return;
		IS(fi_cq_readerr(b.rx, &error, 0), 1);
		IS(error.err, FI_ENOMSG);
		CHECK(seconds() < end);
		/* It may wait at its sender for credits that are on their way. */
		fi_cq_read(a.rx, NULL, 0);
	}
}

static void give(int call, size_t len)
{
	if (call % 2)
		OK(fi_tsenddata(a.ep, out, len, NULL, 77, 0, 5, &c1));
	else
		OK(fi_senddata(a.ep, out, len, NULL, 77, 0, &c1));
}

/* Expected and unexpected, of all that is there or less, or more than fits. */
static void received(int call, size_t len, size_t count)
{
	const size_t given[] = { len, len / 2, len + 100 };
	for (int i = 0; i < 6; i++) {
		size_t sent = given[i / 2], fits = sent < len ? sent : len;
		struct cut pieces = cut(len, count);
		prepare();
		if (i % 2) {
			give(call, sent);
			look(call, NULL, 0);
			post(call, &pieces);
		} else {
			post(call, &pieces);
			give(call, sent);
		}
		if (sent > len) {
			struct fi_cq_err_entry error = bad(b.rx, &a);
			CHECK(error.op_context == &c2);
			IS(error.err, FI_ETRUNC);
			IS(error.len, len);
			IS(error.olen, sent - len);
		} else {
			struct fi_cq_tagged_entry entry = good(b.rx, &a);
			CHECK(entry.op_context == &c2);
			IS(entry.len, sent);
			IS(entry.data, 77);
			IS(entry.flags, FI_RECV | FI_REMOTE_CQ_DATA |
						(call % 2 ? FI_TAGGED : FI_MSG));
		}
		CHECK(good(a.tx, &b).op_context == &c1);
		compare(&pieces, fits);
	}
}

/* Looked for, claimed, dropped. */
static void claimed(size_t len)
{
	struct cut pieces = cut(len, PIECES);
	struct fi_context context;
	struct fi_msg_tagged msg = { .msg_iov = pieces.iov, .iov_count = PIECES, .addr = 0,
				     .tag = 5, .context = &context };

	prepare();
	IS(fi_trecvmsg(b.ep, &msg, FI_CLAIM), -FI_EINVAL);
	give(1, len);
	look(1, &context, FI_CLAIM);
	OK(fi_trecvmsg(b.ep, &msg, FI_CLAIM | FI_COMPLETION));
	struct fi_cq_tagged_entry entry = good(b.rx, &a);
	CHECK(entry.op_context == &context);
	IS(entry.len, len);
	CHECK(good(a.tx, &b).op_context == &c1);
	compare(&pieces, len);
}

static void refused(void)
{
	struct cut pieces = cut(100, PIECES);
	struct fi_msg msg = { .msg_iov = pieces.iov, .iov_count = 2 };
	const struct iovec much[2] = { { out, 1 << 26 }, { out, 1 << 26 } };

	prepare();
	post(1, &pieces);
	OK(fi_cancel(&b.ep->fid, &c2));
	IS(bad(b.rx, &a).err, FI_ECANCELED);
	compare(&pieces, 0);
	/* A buffer for many messages is one piece. */
	IS(fi_recvmsg(b.ep, &msg, FI_MULTI_RECV), -FI_EINVAL);
	/* What is sent from several pieces is copied. */
	IS(fi_tsendv(a.ep, much, NULL, 2, 0, 5, &c1), -FI_EMSGSIZE);
}

/* From pieces into other pieces. */
static void both(size_t len)
{
	struct cut pieces = cut(len, 5);
	struct iovec from[3] = { { out, len / 3 }, { out + len / 3, 0 },
				 { out + len / 3, len - len / 3 } };
	prepare();
	post(1, &pieces);
	OK(fi_tsendv(a.ep, from, NULL, 3, 0, 5, &c1));
	IS(good(b.rx, &a).len, len);
	CHECK(good(a.tx, &b).op_context == &c1);
	compare(&pieces, len);
}

int main(void)
{
	const size_t lens[] = { 0, 1, 8, 100, 5000, 8193, 65536, LONGEST };
	net = open_net(caps, FI_THREAD_SAFE);
	IS(net.info->rx_attr->iov_limit, PIECES);
	IS(net.info->tx_attr->iov_limit, PIECES);
	a = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	b = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	introduce(&a, &b);
	out = malloc(LONGEST + 100);
	in = malloc(LONGEST + 64);
	expected = malloc(LONGEST + 64);
	for (size_t i = 0; i < LONGEST + 100; i++)
		out[i] = (char)(i * 7 + i / 251);

	for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
		for (int call = 0; call < 4; call++) {
			received(call, lens[i], 2);
			received(call, lens[i], PIECES);
		}
		claimed(lens[i]);
		both(lens[i]);
	}
	refused();
	close_side(&a);
	close_side(&b);
	close_net(&net);
	free(out);
	free(in);
	free(expected);
	puts("pieces: all as it should be");
	return 0;
}
