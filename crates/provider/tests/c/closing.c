/* Endpoints that close with injected messages which their receivers have not taken yet: far more
 * than there are credits for. */
#include "client.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 20000
#define WORDS 10

/* A process at the other end of two pipes. */
struct other {
	pid_t child;
	int from, to;
};

static void give(struct other *it, const void *bytes, size_t len)
{
	IS(write(it->to, bytes, len), len);
}

static void take(struct other *it, void *bytes, size_t len)
{
	IS(read(it->from, bytes, len), len);
}

/* Divides the process in two, each of which has an endpoint that knows the other's. */
static struct other divide(struct net *net, struct side *side)
{
	int down[2], up[2];
	char name[ADDR_BYTES];
	fi_addr_t number;
	OK(pipe(down));
	OK(pipe(up));
	pid_t child = fork();
	CHECK(child >= 0);
	/* Whoever waits in vain ends. */
	alarm(120);
	struct other it = { child, child ? up[0] : down[0], child ? down[1] : up[1] };
	OK(close(child ? up[1] : down[1]));
	OK(close(child ? down[0] : up[0]));
	*net = open_net(FI_TAGGED, FI_THREAD_SAFE);
	*side = open_side(net, FI_CQ_FORMAT_TAGGED, 0, 0);
	give(&it, side->name, ADDR_BYTES);
	take(&it, name, ADDR_BYTES);
	IS(fi_av_insert(side->av, name, 1, &number, 0, NULL), 1);
	IS(number, 0);
	return it;
}

/* The child ends, and the parent sees that it ended well. */
static void unite(struct other *it)
{
	int status;
	OK(close(it->from));
	OK(close(it->to));
	if (it->child == 0)
		_exit(0);
	IS(waitpid(it->child, &status, 0), it->child);
	IS(status, 0);
}

static void inject_all(struct side *side)
{
	int words[WORDS] = { 0 };
	for (words[0] = 0; words[0] < COUNT; words[0]++) {
		ssize_t said;
		while ((said = fi_tinject(side->ep, words, sizeof words, 0, 5)) == -FI_EAGAIN)
			fi_cq_read(side->rx, NULL, 0);
		OK(said);
	}
}

static void receive_all(struct side *side)
{
	int words[WORDS];
	for (int nth = 0; nth < COUNT; nth++) {
		struct fi_cq_tagged_entry entry;
		ssize_t got;
		OK(fi_trecv(side->ep, words, sizeof words, NULL, 0, 5, 0, NULL));
		while ((got = fi_cq_read(side->rx, &entry, 1)) == -FI_EAGAIN)
			;
		IS(got, 1);
		IS(words[0], nth);
	}
}

/* What the child has injected comes, though the child closes before any of it is received. */
static void nothing_is_lost(void)
{
	struct net net;
	struct side side;
	char word = 0;
	struct other it = divide(&net, &side);
	if (it.child == 0) {
		inject_all(&side);
		give(&it, &word, 1);
	} else {
		take(&it, &word, 1);
		receive_all(&side);
	}
	close_side(&side);
	close_net(&net);
	unite(&it);
}

/* Nobody receives anything, and both end. */
static void both_close(void)
{
	struct net net;
	struct side side;
	char word = 0;
	struct other it = divide(&net, &side);
	inject_all(&side);
	give(&it, &word, 1);
	take(&it, &word, 1);
	close_side(&side);
	close_net(&net);
	unite(&it);
}

/* The receiver is killed meanwhile. */
static void receiver_dies(void)
{
	struct net net;
	struct side side;
	struct other it = divide(&net, &side);
	if (it.child == 0)
		for (;;)
			pause();
	inject_all(&side);
	OK(kill(it.child, SIGKILL));
	IS(waitpid(it.child, NULL, 0), it.child);
	close_side(&side);
	close_net(&net);
}

/* The receiver lives, and takes nothing. */
static void receiver_rests(void)
{
	struct net net;
	struct side side;
	char word;
	struct other it = divide(&net, &side);
	if (it.child == 0) {
		take(&it, &word, 1);
	} else {
		inject_all(&side);
		close_side(&side);
		give(&it, &word, 1);
	}
	unite(&it);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	if (!strcmp(argv[1], "vain")) {
		receiver_rests();
		return 0;
	}
	nothing_is_lost();
	both_close();
	receiver_dies();
	return 0;
}
