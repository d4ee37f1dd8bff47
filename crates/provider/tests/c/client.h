/* What the test programs share: checks, and endpoints as a program opens them. */
#ifndef CLIENT_H
#define CLIENT_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(that)                                                            \
	do {                                                                   \
		if (!(that)) {                                                 \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__,       \
				__LINE__, #that);                              \
			exit(1);                                               \
		}                                                              \
	} while (0)

#define IS(call, wanted)                                                       \
	do {                                                                   \
		long got_ = (long)(call), wanted_ = (long)(wanted);            \
		if (got_ != wanted_) {                                         \
			fprintf(stderr, "%s:%d: %s is %ld (%s), not %ld\n",    \
				__FILE__, __LINE__, #call, got_,               \
				got_ < 0 ? fi_strerror((int)-got_) : "-",      \
				wanted_);                                      \
			exit(1);                                               \
		}                                                              \
	} while (0)

#define OK(call) IS(call, 0)

#define ADDR_BYTES 64

struct side {
	struct fid_ep *ep;
	struct fid_cq *tx, *rx;
	struct fid_av *av;
	char name[ADDR_BYTES];
};

struct net {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};

static inline struct fi_info *ask(uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();
	CHECK(hints);
	hints->fabric_attr->prov_name = strdup("sluice");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = caps;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR;
	return hints;
}

static inline struct net open_net(uint64_t caps, enum fi_threading threading)
{
	struct net net;
	struct fi_info *hints = ask(caps);
	hints->domain_attr->threading = threading;
	OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &net.info));
	fi_freeinfo(hints);
	OK(fi_fabric(net.info->fabric_attr, &net.fabric, NULL));
	OK(fi_domain(net.fabric, net.info, &net.domain, NULL));
	return net;
}

static inline void close_net(struct net *net)
{
	OK(fi_close(&net->domain->fid));
	OK(fi_close(&net->fabric->fid));
	fi_freeinfo(net->info);
}

/* An endpoint with one or two queues, the second made only if `split`. */
static inline struct side open_side(struct net *net, enum fi_cq_format format,
				    int split, uint64_t bind_flags)
{
	struct side side;
	struct fi_cq_attr cq = { .format = format };
	struct fi_av_attr av = { .type = FI_AV_TABLE, .count = 4 };
	size_t len = ADDR_BYTES;

	OK(fi_endpoint(net->domain, net->info, &side.ep, NULL));
	OK(fi_cq_open(net->domain, &cq, &side.rx, NULL));
	side.tx = side.rx;
	if (split)
		OK(fi_cq_open(net->domain, &cq, &side.tx, NULL));
	OK(fi_av_open(net->domain, &av, &side.av, NULL));
	OK(fi_ep_bind(side.ep, &side.av->fid, 0));
	if (split) {
		OK(fi_ep_bind(side.ep, &side.tx->fid, FI_TRANSMIT | bind_flags));
		OK(fi_ep_bind(side.ep, &side.rx->fid, FI_RECV | bind_flags));
	} else {
		OK(fi_ep_bind(side.ep, &side.rx->fid,
			      FI_TRANSMIT | FI_RECV | bind_flags));
	}
	OK(fi_enable(side.ep));
	OK(fi_getname(&side.ep->fid, side.name, &len));
	IS(len, ADDR_BYTES);
	return side;
}

static inline void close_side(struct side *side)
{
	OK(fi_close(&side->ep->fid));
	if (side->tx != side->rx)
		OK(fi_close(&side->tx->fid));
	OK(fi_close(&side->rx->fid));
	OK(fi_close(&side->av->fid));
}

/* Each gets the other as number 0. */
static inline void introduce(struct side *a, struct side *b)
{
	fi_addr_t number = 99;
	IS(fi_av_insert(a->av, b->name, 1, &number, 0, NULL), 1);
	IS(number, 0);
	IS(fi_av_insert(b->av, a->name, 1, &number, 0, NULL), 1);
	IS(number, 0);
}

static inline double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reads one entry of `cq` while the other side moves too; its result. */
static inline ssize_t wait_for(struct fid_cq *cq, void *entry,
			       struct side *other)
{
	double end = seconds() + 10;
	for (;;) {
		ssize_t got = fi_cq_read(cq, entry, 1);
		if (got != -FI_EAGAIN)
			return got;
		CHECK(seconds() < end);
		/* Manual progress: a look that takes nothing away. */
		fi_cq_read(other->rx, NULL, 0);
	}
}

#endif
