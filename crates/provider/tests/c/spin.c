/* Whoever asks in vain again and again gives the core away: each call that a
 * program can wait at without blocking. Yields are counted by a function of this
 * program in the place of the system's. */
#include "client.h"
#include <rdma/fi_eq.h>

/* As many looks in vain are followed by a yield on a core that nobody else has
 * wanted yet (LOOKS_ALONE of the rail). */
#define LOOKS 500
/* More than fit. */
#define POSTS_MAX 1000000

static long yields;

/* Gives nothing away, so that nobody else runs, and a count is exact. */
int sched_yield(void)
{
	yields++;
	return 0;
}

/* The next call of `attempt` after so many less one in vain yields, and none before. */
#define YIELDS_AT_LAST(attempt, looks)                                         \
	do {                                                                   \
		yields = 0;                                                    \
		for (int look_ = 1; look_ < (looks); look_++) {                \
			attempt;                                               \
			IS(yields, 0);                                         \
		}                                                              \
		attempt;                                                       \
		IS(yields, 1);                                                 \
	} while (0)

static void look(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry;
	IS(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
}

static void look_from(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t source;
	IS(fi_cq_readfrom(cq, &entry, 1, &source), -FI_EAGAIN);
}

static void reads(struct net *net)
{
	struct side side = open_side(net, FI_CQ_FORMAT_TAGGED, 1, 0);
	YIELDS_AT_LAST(look(side.rx), LOOKS);
	YIELDS_AT_LAST(look_from(side.tx), LOOKS);
	close_side(&side);
}

static void a_completion_begins_the_count_anew(struct net *net)
{
	struct side a = open_side(net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct side b = open_side(net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct fi_cq_tagged_entry entry;
	char in, out = 1;

	introduce(&a, &b);
	yields = 0;
	for (int round = 0; round < 3; round++) {
		OK(fi_trecv(b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
		for (int i = 1; i < LOOKS; i++)
			look(b.rx);
		OK(fi_tinject(a.ep, &out, 1, 0, 1));
		IS(fi_cq_read(b.rx, &entry, 1), 1);
	}
	IS(yields, 0);
	YIELDS_AT_LAST(look(b.rx), LOOKS);
	close_side(&a);
	close_side(&b);
}

static void a_wait_of_no_time(struct net *net)
{
	struct side side = open_side(net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct fi_cq_tagged_entry entry;

	yields = 0;
	for (int i = 0; i < LOOKS; i++)
		IS(fi_cq_sread(side.rx, &entry, 1, NULL, 0), -FI_EAGAIN);
	CHECK(yields > 0);
	close_side(&side);
}

/* Ways of sending that are refused when there is no memory for another copy. */
static char byte;

static ssize_t tinject(struct fid_ep *ep)
{
	return fi_tinject(ep, &byte, 1, 0, 1);
}

static ssize_t inject(struct fid_ep *ep)
{
	return fi_inject(ep, &byte, 1, 0);
}

static ssize_t tsendmsg(struct fid_ep *ep)
{
	struct iovec iov = { &byte, 1 };
	struct fi_msg_tagged what = { .msg_iov = &iov, .iov_count = 1, .context = &byte };
	return fi_tsendmsg(ep, &what, FI_INJECT);
}

static void refused(struct net *net, ssize_t (*post)(struct fid_ep *))
{
	struct side a = open_side(net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct side b = open_side(net, FI_CQ_FORMAT_TAGGED, 0, 0);
	long posts = 0;
	ssize_t got;

	introduce(&a, &b);
	while (!(got = post(a.ep)) && posts < POSTS_MAX)
		posts++;
	IS(got, -FI_EAGAIN);
	/* One refusal has been counted. */
	YIELDS_AT_LAST(IS(post(a.ep), -FI_EAGAIN), LOOKS - 1);
	close_side(&a);
	close_side(&b);
}

/* The answer of each is read, as it would be in a program that waits for a message
 * by asking whether there is one. */
static void probe(struct side *side)
{
	struct fi_msg_tagged what = { .addr = FI_ADDR_UNSPEC, .tag = 3, .context = &byte };
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };

	OK(fi_trecvmsg(side->ep, &what, FI_PEEK));
	IS(fi_cq_read(side->rx, &entry, 1), -FI_EAVAIL);
	IS(fi_cq_readerr(side->rx, &error, 0), 1);
	IS(error.err, FI_ENOMSG);
}

static void probes(struct net *net)
{
	struct side side = open_side(net, FI_CQ_FORMAT_TAGGED, 0, 0);
	YIELDS_AT_LAST(probe(&side), LOOKS);
	close_side(&side);
}

static void look_for_event(struct fid_eq *eq)
{
	struct fi_eq_entry entry;
	uint32_t event;
	IS(fi_eq_read(eq, &event, &entry, sizeof entry, 0), -FI_EAGAIN);
}

static void events(struct net *net)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fid_eq *eq;

	OK(fi_eq_open(net->fabric, &attr, &eq, NULL));
	YIELDS_AT_LAST(look_for_event(eq), LOOKS);
	OK(fi_close(&eq->fid));
}

int main(void)
{
	struct net net = open_net(FI_TAGGED | FI_MSG, FI_THREAD_SAFE);

	reads(&net);
	a_completion_begins_the_count_anew(&net);
	a_wait_of_no_time(&net);
	refused(&net, tinject);
	refused(&net, inject);
	refused(&net, tsendmsg);
	probes(&net);
	events(&net);
	close_net(&net);
	return 0;
}
