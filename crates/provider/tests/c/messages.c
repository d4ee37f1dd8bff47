/* Two endpoints of one process and what they say to each other. */
#include "client.h"

#define SELECT FI_SELECTIVE_COMPLETION

static uint64_t caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE;

struct pair {
	struct net net;
	struct side a, b;
};

static struct pair open_pair(int split, uint64_t bind_flags)
{
	struct pair pair;
	pair.net = open_net(caps, split ? FI_THREAD_DOMAIN : FI_THREAD_SAFE);
	pair.a = open_side(&pair.net, FI_CQ_FORMAT_TAGGED, split, bind_flags);
	pair.b = open_side(&pair.net, FI_CQ_FORMAT_TAGGED, split, bind_flags);
	introduce(&pair.a, &pair.b);
	return pair;
}

static void close_pair(struct pair *pair)
{
	close_side(&pair->a);
	close_side(&pair->b);
	close_net(&pair->net);
}

/* One good completion of `cq`. */
static struct fi_cq_tagged_entry good(struct fid_cq *cq, struct side *other)
{
	struct fi_cq_tagged_entry entry;
	memset(&entry, 0xff, sizeof entry);
	IS(wait_for(cq, &entry, other), 1);
	return entry;
}

/* One failed completion of `cq`. */
static struct fi_cq_err_entry bad(struct fid_cq *cq, struct side *other)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	IS(wait_for(cq, &entry, other), -FI_EAVAIL);
	IS(fi_cq_read(cq, &entry, 1), -FI_EAVAIL);
	IS(fi_cq_readerr(cq, &error, 0), 1);
	return error;
}

static void tagged(size_t len, int split)
{
	struct pair p = open_pair(split, 0);
	char *out = malloc(len + 1), *in = calloc(1, len + 1);
	struct fi_cq_tagged_entry entry;
	int c1, c2;

	for (size_t i = 0; i < len; i++)
		out[i] = (char)(i * 7 + len);
	/* Expected, then unexpected. */
	for (int early = 0; early < 2; early++) {
		memset(in, 0, len + 1);
		if (!early)
			OK(fi_trecv(p.b.ep, in, len, NULL, FI_ADDR_UNSPEC, 5,
				    0xf0, &c2));
		OK(fi_tsenddata(p.a.ep, out, len, NULL, 77, 0, 0x35, &c1));
		if (early)
			OK(fi_trecv(p.b.ep, in, len, NULL, 0, 5, 0xf0, &c2));
		entry = good(p.b.rx, &p.a);
		CHECK(entry.op_context == &c2);
		IS(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
		IS(entry.len, len);
		IS(entry.tag, 0x35);
		IS(entry.data, 77);
		CHECK(entry.buf == in);
		CHECK(!memcmp(in, out, len));
		entry = good(p.a.tx, &p.b);
		CHECK(entry.op_context == &c1);
		IS(entry.flags, FI_SEND | FI_TAGGED);
	}
	IS(fi_cq_read(p.a.rx, &entry, 1), -FI_EAGAIN);
	IS(fi_cq_read(p.b.rx, &entry, 1), -FI_EAGAIN);
	free(in);
	free(out);
	close_pair(&p);
}

static void untagged(void)
{
	struct pair p = open_pair(1, 0);
	char in[8] = { 0 };
	struct fi_cq_tagged_entry entry;
	struct iovec iov = { .iov_base = "vector", .iov_len = 7 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .data = 9 };
	fi_addr_t source = 99;

	OK(fi_recv(p.b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, in));
	OK(fi_inject(p.a.ep, "inject", 7, 0));
	double end = seconds() + 10;
	ssize_t got;
	while ((got = fi_cq_readfrom(p.b.rx, &entry, 1, &source)) == -FI_EAGAIN)
		CHECK(seconds() < end);
	IS(got, 1);
	IS(source, 0);
	IS(entry.flags, FI_RECV | FI_MSG);
	CHECK(!strcmp(in, "inject"));
	/* A tagged receive does not take it, nor one from another source. */
	OK(fi_trecv(p.b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 0, ~0ull, NULL));
	OK(fi_recv(p.b.ep, in, sizeof in, NULL, 0, in));
	OK(fi_sendmsg(p.a.ep, &msg, FI_REMOTE_CQ_DATA | FI_INJECT));
	entry = good(p.b.rx, &p.a);
	IS(entry.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
	IS(entry.data, 9);
	CHECK(!strcmp(in, "vector"));
	IS(good(p.a.tx, &p.b).flags, FI_SEND | FI_MSG);
	IS(fi_sendv(p.a.ep, &iov, NULL, 9, 0, NULL), -FI_EINVAL);
	IS(fi_inject(p.a.ep, in, p.net.info->tx_attr->inject_size + 1, 0),
	   -FI_EMSGSIZE);
	IS(fi_send(p.a.ep, in, 1, NULL, 7, NULL), -FI_EINVAL);
	close_pair(&p);
}

static void peek(void)
{
	struct pair p = open_pair(0, SELECT);
	struct fi_context context;
	char in[16] = { 0 };
	struct iovec iov = { .iov_base = in, .iov_len = sizeof in };
	struct fi_msg_tagged msg = { .addr = 0, .tag = 3, .context = &context };
	struct fi_cq_err_entry error;
	struct fi_cq_tagged_entry entry;

	OK(fi_trecvmsg(p.b.ep, &msg, FI_PEEK | FI_COMPLETION));
	error = bad(p.b.rx, &p.a);
	IS(error.err, FI_ENOMSG);
	CHECK(error.op_context == &context);

	OK(fi_tinjectdata(p.a.ep, "claimed", 8, 21, 0, 3));
	OK(fi_tinjectdata(p.a.ep, "dropped", 8, 22, 0, 3));
	OK(fi_tinjectdata(p.a.ep, "taken", 6, 23, 0, 3));
	OK(fi_trecvmsg(p.b.ep, &msg, FI_PEEK | FI_COMPLETION));
	entry = good(p.b.rx, &p.a);
	IS(entry.len, 8);
	IS(entry.data, 21);
	IS(entry.tag, 3);
	CHECK(entry.buf == NULL);
	OK(fi_trecvmsg(p.b.ep, &msg, FI_PEEK | FI_CLAIM | FI_COMPLETION));
	IS(good(p.b.rx, &p.a).data, 21);
	/* A claimed message is nobody else's. */
	msg.context = NULL;
	OK(fi_trecvmsg(p.b.ep, &msg, FI_PEEK | FI_DISCARD | FI_COMPLETION));
	IS(good(p.b.rx, &p.a).data, 22);
	msg.context = &context;
	msg.msg_iov = &iov;
	msg.iov_count = 1;
	OK(fi_trecvmsg(p.b.ep, &msg, FI_CLAIM | FI_COMPLETION));
	IS(good(p.b.rx, &p.a).data, 21);
	CHECK(!strcmp(in, "claimed"));
	IS(fi_trecvmsg(p.b.ep, &msg, FI_CLAIM), -FI_EINVAL);
	OK(fi_trecvmsg(p.b.ep, &msg, FI_COMPLETION));
	IS(good(p.b.rx, &p.a).data, 23);
	CHECK(!strcmp(in, "taken"));
	IS(fi_trecvmsg(p.b.ep, &msg, FI_DISCARD), -FI_EINVAL);
	IS(fi_trecvmsg(p.b.ep, &msg, FI_INJECT), -FI_EBADFLAGS);
	close_pair(&p);
}

static void failures(void)
{
	struct pair p = open_pair(1, 0);
	char in[4], buf[32];
	struct fi_cq_err_entry error;
	struct fi_cq_tagged_entry entry;
	int c;

	/* Truncation, small and large. */
	for (size_t len = 10; len <= 100000; len = len * 10000) {
		char *out = calloc(1, len);
		OK(fi_trecv(p.b.ep, in, sizeof in, NULL, 0, 1, 0, &c));
		OK(fi_tsend(p.a.ep, out, len, NULL, 0, 1, NULL));
		error = bad(p.b.rx, &p.a);
		IS(error.err, FI_ETRUNC);
		IS(error.len, 4);
		IS(error.olen, len - 4);
		CHECK(error.op_context == &c);
		CHECK(strstr(fi_cq_strerror(p.b.rx, error.prov_errno,
					    error.err_data, NULL, 0), "pid "));
		IS(good(p.a.tx, &p.b).flags, FI_SEND | FI_TAGGED);
		free(out);
	}
	/* Cancelling. */
	OK(fi_trecv(p.b.ep, in, sizeof in, NULL, 0, 1, 0, &c));
	OK(fi_cancel(&p.b.ep->fid, &c));
	/* A thread may be at the endpoint just now. */
	IS(wait_for(p.b.rx, &entry, &p.a), -FI_EAVAIL);
	/* An ordinary end, which has no data: whatever the program left there. */
	memset(&error, 0xff, sizeof error);
	IS(fi_cq_readerr(p.b.rx, &error, 0), 1);
	IS(error.err, FI_ECANCELED);
	IS(error.err_data_size, 0);
	CHECK(fi_cq_strerror(p.b.rx, error.prov_errno, NULL, buf, sizeof buf) == buf);
	CHECK(!strncmp(buf, "the operation was cancelled", sizeof buf));
	IS(fi_cancel(&p.b.ep->fid, &c), -FI_ENOENT);
	IS(fi_cq_readerr(p.b.rx, &error, 0), -FI_EAGAIN);
	/* An error does not overtake what was finished before it, nor the other
	 * way about. */
	OK(fi_trecv(p.b.ep, in, 4, NULL, 0, 1, 0, (void *)1));
	OK(fi_trecv(p.b.ep, in, 1, NULL, 0, 2, 0, (void *)2));
	OK(fi_trecv(p.b.ep, in, 4, NULL, 0, 3, 0, (void *)3));
	for (uint64_t tag = 1; tag <= 3; tag++)
		OK(fi_tinject(p.a.ep, "abc", 4, 0, tag));
	struct fi_cq_tagged_entry three[3];
	IS(wait_for(p.b.rx, three, &p.a), 1);
	IS(three[0].tag, 1);
	IS(bad(p.b.rx, &p.a).err, FI_ETRUNC);
	IS(good(p.b.rx, &p.a).tag, 3);
	close_pair(&p);
}

/* A send that has gone, and would wait for its receive: it ends, and may be received. */
static void cancelled_sends(void)
{
	struct pair p = open_pair(1, 0);
	char in[4] = "", out[4] = "abc";
	struct iovec iov = { out, sizeof out };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .tag = 1, .context = out };
	struct fi_cq_err_entry error;

	/* Delivery is told without a receive. */
	OK(fi_tsendmsg(p.a.ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
	CHECK(good(p.a.tx, &p.b).op_context == out);
	OK(fi_trecv(p.b.ep, in, sizeof in, NULL, 0, 1, 0, in));
	CHECK(good(p.b.rx, &p.a).op_context == in && !strcmp(in, out));
	/* A match is not. */
	OK(fi_tsendmsg(p.a.ep, &msg, FI_MATCH_COMPLETE | FI_COMPLETION));
	OK(fi_trecv(p.b.ep, in, sizeof in, NULL, 0, 2, 0, in));
	OK(fi_tinject(p.a.ep, "xyz", 4, 0, 2));
	CHECK(good(p.b.rx, &p.a).op_context == in && !strcmp(in, "xyz"));
	OK(fi_cancel(&p.a.ep->fid, out));
	error = bad(p.a.tx, &p.b);
	IS(error.err, FI_ECANCELED);
	CHECK(error.op_context == out && error.flags == (FI_SEND | FI_TAGGED));
	IS(fi_cancel(&p.a.ep->fid, out), -FI_ENOENT);
	OK(fi_trecv(p.b.ep, in, sizeof in, NULL, 0, 1, 0, in));
	CHECK(good(p.b.rx, &p.a).op_context == in && !strcmp(in, "abc"));
	close_pair(&p);
}

static void selective(void)
{
	struct pair p = open_pair(0, SELECT);
	char in[4];
	struct fi_cq_tagged_entry entry;
	struct fi_msg_tagged msg = { .addr = 0, .tag = 1 };
	uint64_t flags = FI_TRANSMIT;

	/* Neither end asked for a completion. */
	OK(fi_trecv(p.b.ep, in, 4, NULL, 0, 1, 0, NULL));
	OK(fi_tsend(p.a.ep, "abc", 4, NULL, 0, 1, NULL));
	OK(fi_trecv(p.b.ep, in, 4, NULL, 0, 2, 0, NULL));
	OK(fi_tsendmsg(p.a.ep, &msg, 0));
	msg.tag = 2;
	/* Delivered, and said so. */
	OK(fi_tsendmsg(p.a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	IS(good(p.a.rx, &p.b).flags, FI_SEND | FI_TAGGED);
	IS(fi_cq_read(p.b.rx, &entry, 1), -FI_EAGAIN);
	/* Flags of the endpoint make it the default. */
	OK(fi_control(&p.a.ep->fid, FI_GETOPSFLAG, &flags));
	IS(flags, 0);
	flags = FI_TRANSMIT | FI_COMPLETION;
	OK(fi_control(&p.a.ep->fid, FI_SETOPSFLAG, &flags));
	OK(fi_tsend(p.a.ep, "abc", 4, NULL, 0, 1, NULL));
	IS(good(p.a.rx, &p.b).flags, FI_SEND | FI_TAGGED);
	close_pair(&p);
}

static void objects(void)
{
	struct net net = open_net(caps, FI_THREAD_SAFE);
	struct side side = open_side(&net, FI_CQ_FORMAT_CONTEXT, 0, 0);
	struct fid_mr *mr;
	struct fid_eq *eq;
	struct fid_ep *ep;
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr set = { .wait_obj = FI_WAIT_SET };
	struct fid_cq *cq;
	uint32_t event;
	char name[ADDR_BYTES], text[64];
	size_t len = 4;
	fi_addr_t numbers[3];
	int errors[2] = { 1, 1 };

	/* In use. */
	IS(fi_close(&side.rx->fid), -FI_EBUSY);
	IS(fi_close(&side.av->fid), -FI_EBUSY);
	IS(fi_close(&net.domain->fid), -FI_EBUSY);
	IS(fi_close(&net.fabric->fid), -FI_EBUSY);
	/* Names. */
	IS(fi_getname(&side.ep->fid, name, &len), -FI_ETOOSMALL);
	IS(len, ADDR_BYTES);
	memcpy(name, side.name, ADDR_BYTES);
	IS(fi_av_insert(side.av, name, 1, numbers, 0, NULL), 1);
	IS(fi_av_insert(side.av, name, 1, numbers + 1, 0, NULL), 1);
	IS(numbers[1], 1);
	memset(name, 0, sizeof name);
	IS(fi_av_insert(side.av, name, 1, numbers + 2, FI_SYNC_ERR, errors), 0);
	IS(errors[0], FI_EADDRNOTAVAIL);
	IS(numbers[2], FI_ADDR_NOTAVAIL);
	len = sizeof name;
	OK(fi_av_lookup(side.av, 1, name, &len));
	CHECK(!memcmp(name, side.name, ADDR_BYTES));
	len = sizeof text;
	CHECK(strstr(fi_av_straddr(side.av, name, text, &len), "sluice://"));
	OK(fi_av_remove(side.av, numbers, 1, 0));
	IS(fi_av_lookup(side.av, 0, name, &len), -FI_EINVAL);
	IS(fi_tsend(side.ep, NULL, 0, NULL, 0, 0, NULL), -FI_EINVAL);
	/* To itself, by the number that is left. */
	OK(fi_tinject(side.ep, "me", 3, 1, 0));
	OK(fi_trecv(side.ep, text, 3, NULL, 1, 0, 0, text));
	struct fi_cq_entry entry;
	IS(wait_for(side.rx, &entry, &side), 1);
	CHECK(entry.op_context == text);
	CHECK(!strcmp(text, "me"));
	IS(fi_av_insertsvc(side.av, "node", "1", numbers, 0, NULL), -FI_ENOSYS);
	/* Memory regions and event queues. */
	OK(fi_mr_reg(net.domain, text, sizeof text, FI_SEND, 0, 0xc0de, 0, &mr, NULL));
	IS(fi_mr_key(mr), 0xc0de);
	OK(fi_close(&mr->fid));
	OK(fi_eq_open(net.fabric, &eq_attr, &eq, NULL));
	IS(fi_eq_read(eq, &event, text, sizeof text, 0), -FI_EAGAIN);
	IS(fi_eq_write(eq, FI_NOTIFY, "note", 5, 0), 5);
	IS(fi_eq_sread(eq, &event, text, sizeof text, 10, 0), 5);
	IS(event, FI_NOTIFY);
	IS(fi_eq_sread(eq, &event, text, sizeof text, 10, 0), -FI_EAGAIN);
	OK(fi_close(&eq->fid));
	/* What is not offered says so. */
	IS(fi_cq_open(net.domain, &set, &cq, NULL), -FI_ENOSYS);
	IS(fi_scalable_ep(net.domain, net.info, &ep, NULL), -FI_ENOSYS);
	OK(fi_endpoint(net.domain, net.info, &ep, NULL));
	IS(fi_enable(ep), -FI_ENOAV);
	IS(fi_send(ep, text, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
	OK(fi_ep_bind(ep, &side.av->fid, 0));
	IS(fi_enable(ep), -FI_ENOCQ);
	OK(fi_close(&ep->fid));
	IS(fi_cq_sread(side.rx, &entry, 1, NULL, 20), -FI_EAGAIN);
	OK(fi_cq_signal(side.rx));
	IS(fi_cq_sread(side.rx, &entry, 1, NULL, -1), -FI_EAGAIN);
	close_side(&side);
	close_net(&net);
}

int main(void)
{
	const size_t lens[] = { 0, 1, 8, 100, 4096, 8192, 8193, 65536, 1 << 22 };
	for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
		tagged(lens[i], 0);
		tagged(lens[i], 1);
	}
	untagged();
	peek();
	failures();
	cancelled_sends();
	selective();
	objects();
	puts("messages: all as it should be");
	return 0;
}
