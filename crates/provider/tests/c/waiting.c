/* Descriptors to wait by (FI_WAIT_FD): of completion queues, in a domain that is not asked to
 * make progress by itself, and of event queues. */
#include "client.h"
#include <poll.h>
#include <rdma/fi_eq.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (1 << 20)
#define ROUNDS 50
#define PATIENCE_MS 60000

static struct net net;
static char data[BYTES];

static int descriptor_of(struct fid *queue)
{
	enum fi_wait_obj has;
	int fd = -1;
	OK(fi_control(queue, FI_GETWAITOBJ, &has));
	IS(has, FI_WAIT_FD);
	OK(fi_control(queue, FI_GETWAIT, &fd));
	CHECK(fd >= 0);
	return fd;
}

static int is_readable(int fd, int timeout_ms)
{
	struct pollfd asked = { .fd = fd, .events = POLLIN };
	return poll(&asked, 1, timeout_ms);
}

static struct side open_waiting(void)
{
	struct side side;
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	size_t len = ADDR_BYTES;
	OK(fi_cq_open(net.domain, &cq, &side.rx, NULL));
	side.tx = side.rx;
	OK(fi_endpoint(net.domain, net.info, &side.ep, NULL));
	OK(fi_av_open(net.domain, &av, &side.av, NULL));
	OK(fi_ep_bind(side.ep, &side.av->fid, 0));
	OK(fi_ep_bind(side.ep, &side.rx->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(side.ep));
	OK(fi_getname(&side.ep->fid, side.name, &len));
	return side;
}

/* The next completion, for which this waits outside of the library. */
static void *waited_for(struct side *side, int fd)
{
	struct fid *queues[1] = { &side->rx->fid };
	struct fi_cq_tagged_entry entry;
	for (;;) {
		ssize_t got = fi_cq_read(side->rx, &entry, 1);
		if (got == 1)
			return entry.op_context;
		IS(got, -FI_EAGAIN);
		int may = fi_trywait(net.fabric, queues, 1);
		if (may == -FI_EAGAIN)
			continue;
		OK(may);
		IS(is_readable(fd, PATIENCE_MS), 1);
	}
}

/* The other process: it answers each message, and is told when to send by the first. */
static void answers(int from, int to)
{
	char name[ADDR_BYTES];
	fi_addr_t number;
	struct fi_cq_tagged_entry entry;
	net = open_net(FI_TAGGED, FI_THREAD_SAFE);
	struct side side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	IS(write(to, side.name, ADDR_BYTES), ADDR_BYTES);
	IS(read(from, name, ADDR_BYTES), ADDR_BYTES);
	IS(fi_av_insert(side.av, name, 1, &number, 0, NULL), 1);
	for (int round = 0; round < ROUNDS; round++) {
		size_t len = round % 2 ? BYTES : 8;
		OK(fi_trecv(side.ep, data, BYTES, NULL, number, 1, 0, NULL));
		IS(fi_cq_sread(side.rx, &entry, 1, NULL, PATIENCE_MS), 1);
		OK(fi_tsend(side.ep, data, len, NULL, number, 2, NULL));
		IS(fi_cq_sread(side.rx, &entry, 1, NULL, PATIENCE_MS), 1);
	}
	IS(read(from, name, 1), 1);
	close_side(&side);
	close_net(&net);
	_exit(0);
}

static void completions(void)
{
	int down[2], up[2], status;
	char name[ADDR_BYTES];
	fi_addr_t number;
	OK(pipe(down));
	OK(pipe(up));
	pid_t child = fork();
	if (child == 0)
		answers(down[0], up[1]);
	net = open_net(FI_TAGGED | FI_DIRECTED_RECV, FI_THREAD_DOMAIN);
	IS(net.info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
	struct side side = open_waiting();
	struct fid *queues[1] = { &side.rx->fid };
	int fd = descriptor_of(&side.rx->fid);
	OK(fi_trywait(net.fabric, queues, 1));
	IS(is_readable(fd, 0), 0);
	IS(read(up[0], name, ADDR_BYTES), ADDR_BYTES);
	IS(write(down[1], side.name, ADDR_BYTES), ADDR_BYTES);
	IS(fi_av_insert(side.av, name, 1, &number, 0, NULL), 1);
	for (int round = 0; round < ROUNDS; round++) {
		size_t len = round % 3 ? 8 : BYTES;
		OK(fi_trecv(side.ep, data, BYTES, NULL, number, 2, 0, &number));
		OK(fi_tsend(side.ep, data, len, NULL, number, 1, data));
		void *first = waited_for(&side, fd), *second = waited_for(&side, fd);
		CHECK((first == data && second == &number) || (first == &number && second == data));
	}
	/* Somebody else wakes who waits. */
	OK(fi_trywait(net.fabric, queues, 1));
	OK(fi_cq_signal(side.rx));
	IS(is_readable(fd, PATIENCE_MS), 1);
	IS(fi_trywait(net.fabric, queues, 1), -FI_EAGAIN);
	OK(fi_trywait(net.fabric, queues, 1));
	IS(is_readable(fd, 0), 0);
	/* The end of a peer is something to read. */
	OK(fi_trecv(side.ep, data, 8, NULL, number, 3, 0, data));
	IS(write(down[1], name, 1), 1);
	IS(waitpid(child, &status, 0), child);
	IS(status, 0);
	struct fi_cq_tagged_entry entry;
	ssize_t got;
	while ((got = fi_cq_read(side.rx, &entry, 1)) == -FI_EAGAIN)
		if (fi_trywait(net.fabric, queues, 1) == 0)
			IS(is_readable(fd, PATIENCE_MS), 1);
	IS(got, -FI_EAVAIL);
	close_side(&side);
	close_net(&net);
}

static void events(void)
{
	struct fi_eq_attr attr = { .flags = FI_WRITE, .wait_obj = FI_WAIT_FD };
	struct fi_eq_entry entry = { 0 };
	struct fid_eq *eq;
	uint32_t event;
	OK(fi_eq_open(net.fabric, &attr, &eq, NULL));
	struct fid *queues[1] = { &eq->fid };
	int fd = descriptor_of(&eq->fid);
	for (int nth = 0; nth < 2; nth++) {
		OK(fi_trywait(net.fabric, queues, 1));
		IS(is_readable(fd, 0), 0);
		IS(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0), sizeof entry);
		IS(fi_trywait(net.fabric, queues, 1), -FI_EAGAIN);
		IS(is_readable(fd, 0), 1);
		IS(fi_eq_read(eq, &event, &entry, sizeof entry, 0), sizeof entry);
	}
	OK(fi_close(&eq->fid));
}

/* What has no descriptor, or cannot have one. */
static void without(void)
{
	const enum fi_wait_obj others[] = { FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_YIELD };
	struct fi_cq_attr fd = { .wait_obj = FI_WAIT_FD };
	struct fid_cq *cq;
	struct fid_ep *early;
	enum fi_wait_obj has;
	int descriptor;
	for (size_t i = 0; i < 3; i++) {
		struct fi_cq_attr attr = { .wait_obj = others[i] };
		OK(fi_cq_open(net.domain, &attr, &cq, NULL));
		struct fid *queues[1] = { &cq->fid };
		IS(fi_control(&cq->fid, FI_GETWAIT, &descriptor), -FI_ENOSYS);
		OK(fi_control(&cq->fid, FI_GETWAITOBJ, &has));
		IS(has, others[i]);
		IS(fi_trywait(net.fabric, queues, 1), -FI_EINVAL);
		OK(fi_close(&cq->fid));
	}
	/* An endpoint that was there before has no thread that could raise it. */
	OK(fi_endpoint(net.domain, net.info, &early, NULL));
	const char *set = getenv("FI_SLUICE_PROGRESS");
	int refused = set && !strcmp(set, "poll");
	IS(fi_cq_open(net.domain, &fd, &cq, NULL), refused ? -FI_ENOSYS : 0);
	if (!refused) {
		IS(fi_ep_bind(early, &cq->fid, FI_RECV), -FI_EOPNOTSUPP);
		OK(fi_close(&cq->fid));
	}
	OK(fi_close(&early->fid));
}

int main(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "without"))
		completions();
	net = open_net(FI_TAGGED, FI_THREAD_SAFE);
	events();
	without();
	close_net(&net);
	return 0;
}
