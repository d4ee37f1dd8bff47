/* Progress by a thread: what happens while the program does not call.
 *
 * The argument names the scene. Where a scene says "computes", the process makes
 * no call of libfabric: it looks at memory until what it waits for is there. */
#define _GNU_SOURCE
#include "client.h"
#include <dirent.h>
#include <rdma/fi_atomic.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 60.0
#define SIZES 6
#define SENDS (2 * SIZES)

static const size_t sizes[SIZES] = { 8, 4096, 20000, 64 << 10, 1 << 20, 16 << 20 };

/* What the two processes of a scene see of each other. */
static struct {
	char names[2][ADDR_BYTES];
	_Atomic int named[2];
	_Atomic int posted, sent, taken;
} *shared;

static struct net open_auto(void)
{
	struct net net;
	struct fi_info *hints = ask(FI_TAGGED);
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &net.info));
	IS(net.info->domain_attr->data_progress, FI_PROGRESS_AUTO);
	fi_freeinfo(hints);
	OK(fi_fabric(net.info->fabric_attr, &net.fabric, NULL));
	OK(fi_domain(net.fabric, net.info, &net.domain, NULL));
	return net;
}

/* Computes until `*flag` is at least `value`. */
static void await(_Atomic int *flag, int value)
{
	double end = seconds() + PATIENCE;
	while (*flag < value)
		CHECK(seconds() < end);
}

static void meet(struct side *side, int own)
{
	fi_addr_t number;
	memcpy(shared->names[own], side->name, ADDR_BYTES);
	shared->named[own] = 1;
	await(&shared->named[!own], 1);
	IS(fi_av_insert(side->av, shared->names[!own], 1, &number, 0, NULL), 1);
}

static unsigned char byte_of(int which, size_t at)
{
	return (unsigned char)(1 + which * 31 + at * 7 + at / 4096);
}

/* Whether a thread waits for the network on behalf of those who sleep: it is there once
 * somebody has slept. One that has ended is none. */
static int is_watcher(const char *task)
{
	char path[64], name[32] = "";
	snprintf(path, sizeof path, "/proc/self/task/%.16s/comm", task);
	FILE *file = fopen(path, "r");
	if (!file)
		return 1;
	if (!fgets(name, sizeof name, file))
		name[0] = 0;
	fclose(file);
	return !strcmp(name, "sluice-net\n");
}

static int threads_of_process(void)
{
	int count = 0;
	DIR *tasks = opendir("/proc/self/task");
	CHECK(tasks);
	for (struct dirent *entry; (entry = readdir(tasks));)
		count += entry->d_name[0] != '.' && !is_watcher(entry->d_name);
	closedir(tasks);
	return count;
}

/* A thread that was joined may be in the list for a moment yet. */
static void await_threads(int wanted)
{
	double end = seconds() + PATIENCE;
	while (threads_of_process() != wanted)
		CHECK(seconds() < end);
}

static double cpu_seconds(void)
{
	struct rusage usage;
	OK(getrusage(RUSAGE_SELF, &usage));
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Processor time of the calling thread. */
static double own_cpu_seconds(void)
{
	struct timespec used;
	OK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used));
	return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static void receive_away(void)
{
	static unsigned char *in[SENDS];
	struct net net = open_auto();
	struct side side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct fi_cq_tagged_entry entry;

	meet(&side, 0);
	for (int i = 0; i < SENDS; i++) {
		size_t size = sizes[i / 2];
		/* Every other message is there before its receive. */
		if (i % 2)
			await(&shared->sent, i + 1);
		in[i] = calloc(1, size);
		/* From anybody: nobody is told where the bytes are wanted. */
		OK(fi_trecv(side.ep, in[i], size, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0, in[i]));
		shared->posted = i + 1;
		await(&shared->taken, i + 1);
		for (size_t at = 0; at < size; at++)
			CHECK(((volatile unsigned char *)in[i])[at] == byte_of(i, at));
	}
	for (int i = 0; i < SENDS; i++) {
		/* The thread may be at the endpoint just now. */
		IS(wait_for(side.rx, &entry, &side), 1);
		CHECK(entry.op_context == in[i] && entry.len == sizes[i / 2]);
	}
	IS(fi_cq_read(side.rx, &entry, 1), -FI_EAGAIN);
	close_side(&side);
	close_net(&net);
}

static void send_to_away(void)
{
	struct net net = open_net(FI_TAGGED, FI_THREAD_DOMAIN);
	struct side side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct fi_cq_tagged_entry entry;
	double end = seconds() + PATIENCE;

	meet(&side, 1);
	for (int i = 0; i < SENDS; i++) {
		size_t size = sizes[i / 2];
		unsigned char *out = malloc(size);
		struct iovec iov = { out, size };
		struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .tag = (uint64_t)i,
					     .context = out };
		for (size_t at = 0; at < size; at++)
			out[at] = byte_of(i, at);
		if (i % 2 == 0)
			await(&shared->posted, i + 1);
		/* Complete when the bytes are in the receiver's buffer. */
		OK(fi_tsendmsg(side.ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
		shared->sent = i + 1;
		while (fi_cq_read(side.rx, &entry, 1) == -FI_EAGAIN)
			CHECK(seconds() < end);
		CHECK(entry.op_context == out);
		shared->taken = i + 1;
		free(out);
	}
	close_side(&side);
	close_net(&net);
}

/* The receiver computes between posting a receive and finding its bytes. */
static void away(void)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		receive_away();
		exit(0);
	}
	send_to_away();
	IS(waitpid(child, &status, 0), child);
	IS(status, 0);
}

/* A thread with nothing to do takes no processor time worth naming. */
static void idle(void)
{
	struct net net = open_auto();
	struct side side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct timespec second = { 1, 0 };
	double before;

	await_threads(2);
	before = cpu_seconds();
	OK(nanosleep(&second, NULL));
	CHECK(cpu_seconds() - before < 0.1);
	close_side(&side);
	await_threads(1);
	close_net(&net);
}

/* Beside a program that polls the threads keep back, though messages come all the time. */
static void attentive(void)
{
	struct net net = open_auto();
	struct side a = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct side b = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct fi_cq_tagged_entry entry;
	double began = seconds(), others = cpu_seconds() - own_cpu_seconds();
	char in[8];

	introduce(&a, &b);
	while (seconds() < began + 0.5) {
		OK(fi_trecv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 1, 0, in));
		OK(fi_tinject(a.ep, "x", 1, 0, 1));
		IS(wait_for(b.rx, &entry, &a), 1);
	}
	others = cpu_seconds() - own_cpu_seconds() - others;
	/* Two or three in a hundred; with threads that always stood in, 25 and more. */
	CHECK(others < 0.2 * (seconds() - began));
	close_side(&a);
	close_side(&b);
	close_net(&net);
}

struct waking { struct side *from; struct fid_cq *cq; };

static void *send_one(void *arg)
{
	struct waking *waking = arg;
	struct timespec while_ = { 0, 300000000 };
	OK(nanosleep(&while_, NULL));
	OK(fi_tinject(waking->from->ep, "x", 1, 0, 1));
	return NULL;
}

static void *signal_one(void *arg)
{
	struct waking *waking = arg;
	struct timespec while_ = { 0, 300000000 };
	OK(nanosleep(&while_, NULL));
	OK(fi_cq_signal(waking->cq));
	return NULL;
}

/* Who waits in the library sleeps, and is woken by what comes. */
static void sread(void)
{
	struct net net = open_auto();
	struct side a = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct side b = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct fi_cq_tagged_entry entry;
	struct waking waking = { &a, b.rx };
	pthread_t thread;
	char in[8];
	double before, began;

	introduce(&a, &b);
	before = cpu_seconds(), began = seconds();
	IS(fi_cq_sread(b.rx, &entry, 1, NULL, 300), -FI_EAGAIN);
	CHECK(seconds() - began >= 0.3);
	CHECK(cpu_seconds() - before < 0.1);

	OK(fi_trecv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 1, 0, in));
	OK(pthread_create(&thread, NULL, send_one, &waking));
	IS(fi_cq_sread(b.rx, &entry, 1, NULL, -1), 1);
	CHECK(entry.op_context == in && in[0] == 'x');
	OK(pthread_join(thread, NULL));

	OK(pthread_create(&thread, NULL, signal_one, &waking));
	IS(fi_cq_sread(b.rx, &entry, 1, NULL, -1), -FI_EAGAIN);
	OK(pthread_join(thread, NULL));
	close_side(&a);
	close_side(&b);
	close_net(&net);
}

/* Closing with transfers under way, again and again. */
static void closing(void)
{
	enum { BYTES = 4 << 20 };
	char *out = malloc(BYTES), *in = malloc(BYTES);
	struct net net = open_auto();

	for (int i = 0; i < 50; i++) {
		struct side a = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
		struct side b = open_side(&net, FI_CQ_FORMAT_TAGGED, 1, 0);
		introduce(&a, &b);
		await_threads(3);
		OK(fi_trecv(b.ep, in, BYTES, NULL, FI_ADDR_UNSPEC, 1, 0, in));
		OK(fi_tsend(a.ep, out, BYTES, NULL, 0, 1, out));
		if (i % 3 == 0)
			sched_yield();
		close_side(i % 2 ? &a : &b);
		close_side(i % 2 ? &b : &a);
		await_threads(1);
	}
	close_net(&net);
	free(out);
	free(in);
}

/* One-sided operations alone: a thread that nobody asked for. It begins with a region, an
 * operation or a wait, and serves a target that does not call. */
static void one_sided(void)
{
	struct net net = open_net(FI_RMA | FI_ATOMIC, FI_THREAD_DOMAIN);
	_Atomic int there = 0;
	int one = 1;
	struct fid_mr *mr;
	struct fi_cq_tagged_entry entry;

	IS(net.info->domain_attr->data_progress, FI_PROGRESS_AUTO);
	struct side a = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct side b = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	introduce(&a, &b);
	await_threads(1);
	IS(fi_cq_sread(b.rx, &entry, 1, NULL, 0), -FI_EAGAIN);
	IS(fi_cq_sread(b.rx, &entry, 1, NULL, 10), -FI_EAGAIN);
	await_threads(2);
	close_side(&b);
	await_threads(1);
	close_side(&a);

	a = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	await_threads(1);
	OK(fi_mr_reg(net.domain, (void *)&there, sizeof there, FI_REMOTE_WRITE, 0, 7, 0, &mr,
		     NULL));
	await_threads(2);
	/* Exposed at once, so its thread begins as it is enabled. */
	b = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	introduce(&a, &b);
	await_threads(3);
	OK(fi_atomic(b.ep, &one, 1, NULL, 0, 0, fi_mr_key(mr), FI_INT32, FI_SUM, NULL));
	await(&there, 1);
	OK(fi_close(&mr->fid));
	close_side(&a);
	close_side(&b);
	await_threads(1);
	close_net(&net);
}

/* A fork has no such thread; it may close what it has and end. */
static void forked(void)
{
	struct net net = open_auto();
	struct side a = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct side b = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct fi_cq_tagged_entry entry;
	char in[8];

	introduce(&a, &b);
	for (int i = 0; i < 20; i++) {
		int status;
		pid_t child;
		OK(fi_tinject(a.ep, "x", 1, 0, 1));
		child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			alarm((unsigned)PATIENCE);
			OK(fi_close(&a.ep->fid));
			OK(fi_close(&b.ep->fid));
			_exit(0);
		}
		IS(waitpid(child, &status, 0), child);
		IS(status, 0);
		OK(fi_trecv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 1, 0, in));
		IS(wait_for(b.rx, &entry, &a), 1);
	}
	close_side(&a);
	close_side(&b);
	close_net(&net);
}

/* A program that ends without closing anything. */
static void ending(void)
{
	struct net net = open_auto();
	struct side a = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	struct side b = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	introduce(&a, &b);
	for (int i = 0; i < 100; i++)
		OK(fi_tinject(a.ep, "x", 1, 0, 1));
	await_threads(3);
}

/* Stays where it is until the threads know their core, or know that they get none. */
static void cores(int one)
{
	cpu_set_t only;
	struct net net;
	struct side side;
	struct timespec while_ = { 0, 500000000 };

	if (one) {
		CPU_ZERO(&only);
		CPU_SET((size_t)sched_getcpu(), &only);
		OK(sched_setaffinity(0, sizeof only, &only));
	}
	net = open_auto();
	side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	OK(nanosleep(&while_, NULL));
	close_side(&side);
	close_net(&net);
}

int main(int argc, char **argv)
{
	const char *scene = argc > 1 ? argv[1] : "";

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	CHECK(shared != MAP_FAILED);
	if (!strcmp(scene, "away"))
		away();
	else if (!strcmp(scene, "idle"))
		idle();
	else if (!strcmp(scene, "attentive"))
		attentive();
	else if (!strcmp(scene, "sread"))
		sread();
	else if (!strcmp(scene, "closing"))
		closing();
	else if (!strcmp(scene, "one-sided"))
		one_sided();
	else if (!strcmp(scene, "forked"))
		forked();
	else if (!strcmp(scene, "ending"))
		ending();
	else if (!strcmp(scene, "cores") || !strcmp(scene, "one-core"))
		cores(scene[0] == 'o');
	else
		CHECK(!"a scene");
	puts("progress: all as it should be");
	return 0;
}
