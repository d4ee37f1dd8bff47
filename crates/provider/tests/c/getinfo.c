/* fi_getinfo with the hints of real programs, and with hints that cannot fit. */
#include "client.h"

static int asked(uint32_t version, uint64_t flags, struct fi_info *hints,
		 struct fi_info **info)
{
	*info = NULL;
	return fi_getinfo(version, NULL, NULL, flags, hints, info);
}

/* Hints that must not match, however they are changed by `change`. */
#define REFUSED(change)                                                        \
	do {                                                                   \
		struct fi_info *hints = ask(FI_TAGGED), *info;                 \
		change;                                                        \
		IS(asked(FI_VERSION(1, 17), 0, hints, &info), -FI_ENODATA);    \
		fi_freeinfo(hints);                                            \
	} while (0)

static struct fi_info *find(struct fi_info *list)
{
	for (; list; list = list->next)
		if (!strcmp(list->fabric_attr->prov_name, "sluice"))
			return list;
	return NULL;
}

static void no_hints(void)
{
	struct fi_info *list, *info;
	OK(asked(FI_VERSION(1, 5), 0, NULL, &list));
	info = find(list);
	CHECK(info);
	CHECK(info->caps & FI_MSG && info->caps & FI_TAGGED);
	CHECK(info->domain_attr->mr_mode == 0);
	CHECK(info->domain_attr->threading == FI_THREAD_SAFE);
	CHECK(info->ep_attr->mem_tag_format >> 63);
	CHECK(!strcmp(info->fabric_attr->name, "sluice"));
	CHECK(!strcmp(info->domain_attr->name, "shm"));
	/* As MPICH goes on: the capabilities advertised, by name. */
	struct fi_info *hints = ask(info->caps), *again;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->domain_attr->mr_mode = FI_MR_ENDPOINT;
	hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	hints->rx_attr->op_flags = FI_COMPLETION;
	hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV | FI_RX_CQ_DATA;
	OK(asked(FI_VERSION(1, 14), 0, hints, &again));
	CHECK(again->caps == info->caps);
	CHECK(again->domain_attr->threading == FI_THREAD_DOMAIN);
	CHECK(again->domain_attr->av_type == FI_AV_TABLE);
	CHECK(again->domain_attr->mr_mode == 0);
	CHECK(again->mode == 0);
	CHECK(again->tx_attr->op_flags == (FI_COMPLETION | FI_DELIVERY_COMPLETE));
	/* A copy by this version of libfabric, as programs make. */
	struct fi_info *copy = fi_dupinfo(again);
	CHECK(copy && copy->ep_attr->max_msg_size == again->ep_attr->max_msg_size);
	fi_freeinfo(copy);
	fi_freeinfo(again);
	fi_freeinfo(hints);
	fi_freeinfo(list);
}

static void open_mpi(void)
{
	struct fi_info *hints = fi_allocinfo(), *list, *info;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->tx_attr->op_flags = hints->rx_attr->op_flags = FI_COMPLETION;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->cq_data_size = sizeof(int);
	hints->domain_attr->av_type = FI_AV_MAP;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	OK(asked(FI_VERSION(1, 5), 0, hints, &list));
	info = find(list);
	CHECK(info);
	CHECK(!(info->caps & FI_MSG));
	CHECK(info->caps & FI_DIRECTED_RECV);
	CHECK(info->domain_attr->max_ep_tx_ctx == 1);
	/* What belongs to a direction, and no more. */
	IS(info->tx_attr->caps, FI_TAGGED | FI_SEND | FI_FENCE);
	IS(info->rx_attr->caps, FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_RMA_EVENT);
	fi_freeinfo(list);
	fi_freeinfo(hints);
}

static void addresses(void)
{
	struct net net = open_net(FI_MSG, FI_THREAD_SAFE);
	struct side side = open_side(&net, FI_CQ_FORMAT_CONTEXT, 0, 0);
	struct fi_info *hints = ask(FI_MSG), *info;
	hints->addr_format = net.info->addr_format;
	hints->dest_addr = malloc(ADDR_BYTES);
	hints->dest_addrlen = ADDR_BYTES;
	memcpy(hints->dest_addr, side.name, ADDR_BYTES);
	OK(asked(FI_VERSION(1, 17), FI_SOURCE, hints, &info));
	IS(info->dest_addrlen, ADDR_BYTES);
	/* Its own is nobody's yet. */
	IS(info->src_addrlen, ADDR_BYTES);
	fi_addr_t number;
	IS(fi_av_insert(side.av, info->src_addr, 1, &number, 0, NULL), 0);
	IS(number, FI_ADDR_NOTAVAIL);
	CHECK(!memcmp(info->dest_addr, side.name, ADDR_BYTES));
	fi_freeinfo(info);
	*(char *)hints->dest_addr ^= 1;
	IS(asked(FI_VERSION(1, 17), 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
	close_side(&side);
	close_net(&net);
}

static void versions(void)
{
	struct fi_info *hints = ask(FI_TAGGED), *info;
	hints->domain_attr->mr_mode = FI_MR_UNSPEC;
	OK(asked(FI_VERSION(1, 4), 0, hints, &info));
	IS(info->domain_attr->mr_mode, FI_MR_SCALABLE);
	fi_freeinfo(info);
	hints->domain_attr->mr_mode = FI_MR_BASIC;
	OK(asked(FI_VERSION(1, 17), 0, hints, &info));
	IS(info->domain_attr->mr_mode, FI_MR_BASIC);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* What is asked for is answered, unless the environment rules it out. */
static void progress(void)
{
	const char *set = getenv("FI_SLUICE_PROGRESS");
	int poll = set && !strcmp(set, "poll"), thread = set && !strcmp(set, "thread");
	struct fi_info *hints = ask(FI_TAGGED), *info;

	OK(asked(FI_VERSION(1, 17), 0, hints, &info));
	IS(info->domain_attr->data_progress, thread ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL);
	IS(info->domain_attr->control_progress, thread ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL);
	fi_freeinfo(info);
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	OK(asked(FI_VERSION(1, 17), 0, hints, &info));
	IS(info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
	fi_freeinfo(info);
	hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	IS(asked(FI_VERSION(1, 17), 0, hints, &info), poll ? -FI_ENODATA : 0);
	if (!poll) {
		IS(info->domain_attr->data_progress, FI_PROGRESS_AUTO);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
	/* Who asks for one-sided operations alone is a target that nothing makes call. */
	hints = ask(FI_RMA | FI_ATOMIC);
	OK(asked(FI_VERSION(1, 17), 0, hints, &info));
	IS(info->domain_attr->data_progress, poll ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

int main(void)
{
	progress();
	no_hints();
	open_mpi();
	addresses();
	versions();
	REFUSED(hints->ep_attr->type = FI_EP_MSG);
	REFUSED(hints->ep_attr->type = FI_EP_DGRAM);
	REFUSED(hints->caps |= FI_HMEM);
	REFUSED(hints->caps |= FI_COLLECTIVE);
	REFUSED(hints->domain_attr->name = strdup("lo"));
	REFUSED(hints->fabric_attr->name = strdup("ether"));
	REFUSED(hints->addr_format = FI_SOCKADDR_IN);
	REFUSED(hints->domain_attr->cq_data_size = 16);
	REFUSED(hints->tx_attr->inject_size = 1 << 20);
	REFUSED(hints->tx_attr->iov_limit = 9);
	REFUSED(hints->rx_attr->iov_limit = 9);
	REFUSED(hints->tx_attr->comp_order = FI_ORDER_STRICT);
	REFUSED(hints->ep_attr->tx_ctx_cnt = 2);
	REFUSED(hints->ep_attr->max_order_raw_size = 1);
	REFUSED(hints->ep_attr->max_order_war_size = 1);
	REFUSED(hints->ep_attr->max_order_waw_size = 1);
	REFUSED(hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT);
	REFUSED(hints->ep_attr->auth_key_size = 8);
	REFUSED(hints->domain_attr->mr_mode = FI_MR_BASIC | FI_MR_LOCAL);
	puts("getinfo: all as it should be");
	return 0;
}
