/* One rank of a kill test: messages of all lengths to and from every other rank,
 * over libfabric itself. When it is told that a rank was killed, all its operations
 * on that rank must end with an error that names the process, and so must new ones;
 * those with the others must go on.
 *
 *     kills RANK RANKS SEED SECONDS
 *
 * It says `address HEX`, and is told `PID HEX` of each rank; then it begins. It is
 * told `dead RANK`, says `done` and its figures when all is as it should be within
 * SECONDS, and goes on until it is told `stop`. Or it is told `starve`: it gets no more
 * memory, and goes on asking for it until that ends it. */
#include "client.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

enum { RANKS_MAX = 8, SLOTS = 6, LEN_MAX = 1 << 18, AFTER = 5, GOES_ON = 40 };
enum kind { FREE, SEND, RECV, PROBE };

/* An operation; its context is its address. */
struct op {
	enum kind kind;
	int peer;
	uint64_t number;
	size_t len;
	char *buf;
};

struct peer {
	fi_addr_t addr;
	int pid;
	/* It has failed, or was said to be dead. */
	int ended;
	unsigned pending;
	/* Messages begun and ended, each way. */
	uint64_t sent, posted, got, delivered;
	struct op sends[SLOTS], recvs[SLOTS], probe;
};

static struct net net;
static struct side side;
static struct peer peers[RANKS_MAX];
static int self, ranks, dead = -1;
static uint64_t seed, noise;
static unsigned failed;
/* All is as it should be: the others may stop first. */
static int finished;

static uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t draw(uint64_t end)
{
	noise = mix(noise);
	return noise % end;
}

/* What is known of a message on both sides. */
static uint64_t message(int from, int to, uint64_t number)
{
	return mix(seed ^ mix((uint64_t)from << 8 | (uint64_t)to) ^ mix(number));
}

static size_t length(uint64_t what)
{
	static const size_t lens[] = { 0, 8, 8, 64, 500, 4000, 20000, LEN_MAX };
	return lens[what % 8];
}

static void mark(char *buf, size_t len, uint64_t what)
{
	if (len >= 8) {
		memcpy(buf, &what, 8);
		memcpy(buf + len - 8, &what, 8);
	}
}

static void check_mark(const char *buf, size_t len, uint64_t what)
{
	if (len >= 8) {
		CHECK(!memcmp(buf, &what, 8));
		CHECK(!memcmp(buf + len - 8, &what, 8));
	}
}

static struct op *free_op(struct op *ops)
{
	for (int i = 0; i < SLOTS; i++)
		if (ops[i].kind == FREE)
			return &ops[i];
	return NULL;
}

/* True if it was taken. */
static int begun(struct op *op, enum kind kind, int to, ssize_t result)
{
	if (result == -FI_EAGAIN)
		return 0;
	OK(result);
	op->kind = kind;
	op->peer = to;
	peers[to].pending++;
	return 1;
}

static int try_send(int to)
{
	struct peer *peer = &peers[to];
	struct op *op = free_op(peer->sends);
	if (!op)
		return 0;
	uint64_t what = message(self, to, peer->sent);
	op->len = length(what);
	mark(op->buf, op->len, what);
	if (op->len <= 64 && what >> 32 & 1) {
		ssize_t result = fi_tinject(side.ep, op->buf, op->len,
					    peer->addr, peer->sent);
		if (result == -FI_EAGAIN)
			return 0;
		if (result == -FI_ECONNABORTED || result == -FI_EHOSTUNREACH) {
			peer->ended = 1;
			failed++;
			return 1;
		}
		OK(result);
		peer->sent++;
		peer->delivered++;
		return 1;
	}
	if (!begun(op, SEND, to, fi_tsend(side.ep, op->buf, op->len, NULL,
					  peer->addr, peer->sent, op)))
		return 0;
	peer->sent++;
	return 1;
}

static int try_recv(int from)
{
	struct peer *peer = &peers[from];
	struct op *op = free_op(peer->recvs);
	if (!op)
		return 0;
	uint64_t what = message(from, self, peer->posted);
	op->number = peer->posted;
	op->len = length(what);
	/* Receives of one source meet its messages in order, also with any tag. */
	uint64_t ignore = what >> 33 & 1 ? UINT64_MAX : 0;
	if (!begun(op, RECV, from, fi_trecv(side.ep, op->buf, op->len, NULL,
					    peer->addr, peer->posted, ignore, op)))
		return 0;
	peer->posted++;
	return 1;
}

static int try_probe(int of)
{
	struct op *op = &peers[of].probe;
	struct fi_msg_tagged wanted = { .addr = peers[of].addr,
					.ignore = UINT64_MAX, .context = op };
	if (op->kind != FREE)
		return 0;
	return begun(op, PROBE, of, fi_trecvmsg(side.ep, &wanted, FI_PEEK));
}

static void end(struct op *op)
{
	CHECK(op->kind != FREE);
	peers[op->peer].pending--;
	op->kind = FREE;
}

static void succeeded(struct op *op, const struct fi_cq_tagged_entry *entry)
{
	struct peer *peer = &peers[op->peer];
	if (op->kind == SEND) {
		peer->delivered++;
	} else if (op->kind == RECV) {
		IS(entry->tag, op->number);
		IS(entry->len, op->len);
		check_mark(op->buf, op->len,
			   message(op->peer, self, op->number));
		peer->got++;
	}
	end(op);
}

/* Whether an error tells of the end of a process, and which. */
static int tells_of_end(const struct fi_cq_err_entry *error, const char *said, int pid)
{
	char ended[64];
	snprintf(ended, sizeof ended, "peer pid %d has ended", pid);
	return error->err == FI_ECONNABORTED && !strcmp(said, ended);
}

/* The only failures are of the dead, which they name, and probes in vain. */
static void read_error(void)
{
	struct fi_cq_err_entry error = { 0 };
	IS(fi_cq_readerr(side.rx, &error, 0), 1);
	struct op *op = error.op_context;
	CHECK(op);
	struct peer *peer = &peers[op->peer];
	if (op->kind == PROBE && error.err == FI_ENOMSG)
		return end(op);
	const char *said = fi_cq_strerror(side.rx, error.prov_errno,
					  error.err_data, NULL, 0);
	if (!tells_of_end(&error, said, peer->pid)) {
		fprintf(stderr, "rank %d: operation %d on rank %d: %s: %s\n",
			self, op->kind, op->peer, fi_strerror(error.err), said);
		exit(1);
	}
	if (dead >= 0 && op->peer != dead && !finished) {
		fprintf(stderr, "rank %d: rank %d has ended too\n", self, op->peer);
		exit(1);
	}
	peer->ended = 1;
	failed++;
	end(op);
}

static void progress(void)
{
	struct fi_cq_tagged_entry entries[8];
	ssize_t got = fi_cq_read(side.rx, entries, 8);
	if (got == -FI_EAVAIL)
		return read_error();
	if (got == -FI_EAGAIN) {
		sched_yield();
		return;
	}
	CHECK(got > 0);
	for (ssize_t i = 0; i < got; i++)
		succeeded(entries[i].op_context, &entries[i]);
}

/* A little of everything with a rank that lives. */
static void act(void)
{
	int with = (int)draw((uint64_t)ranks);
	if (with == self || peers[with].ended)
		return;
	switch (draw(8)) {
	case 0: case 1: case 2:
		try_send(with);
		return;
	case 3: case 4: case 5:
		try_recv(with);
		return;
	case 6:
		try_probe(with);
		return;
	default:
		return;
	}
}

/* What is said to this rank, a line at a time; NULL if nothing is. */
static char *told(void)
{
	static char line[256];
	static size_t len;
	for (;;) {
		ssize_t got = read(0, line + len, 1);
		if (got == 0)
			exit(1);
		if (got < 0)
			return NULL;
		CHECK(len + 1 < sizeof line);
		if (line[len] == '\n') {
			line[len] = 0;
			len = 0;
			return line;
		}
		len++;
	}
}

/* Posts receives that nothing meets, for whose records there will be no memory. */
static void starve(void)
{
	unsigned long pages;
	FILE *sizes = fopen("/proc/self/statm", "r");
	CHECK(sizes);
	IS(fscanf(sizes, "%lu", &pages), 1);
	fclose(sizes);
	rlim_t now = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
	OK(setrlimit(RLIMIT_AS, &(struct rlimit){ now, now }));
	for (;;)
		OK(fi_trecv(side.ep, NULL, 0, NULL, FI_ADDR_UNSPEC,
			    UINT64_MAX, 0, NULL));
}

static int stopped;

/* Runs until `done`, for at most as long as that. */
static void run(int (*done)(void), double for_seconds, const char *what)
{
	double until = seconds() + for_seconds;
	for (unsigned turn = 0; !done(); turn++) {
		act();
		progress();
		if (turn % 64)
			continue;
		char *line = told();
		if (line && !strcmp(line, "stop"))
			stopped = 1;
		else if (line && !strcmp(line, "starve"))
			starve();
		else if (line)
			IS(sscanf(line, "dead %d", &dead), 1);
		if (seconds() < until)
			continue;
		fprintf(stderr, "rank %d: not within %g s: %s;", self, for_seconds, what);
		for (int rank = 0; rank < ranks; rank++)
			fprintf(stderr, " with rank %d %u pending", rank,
				peers[rank].pending);
		fprintf(stderr, "\n");
		exit(1);
	}
}

static int is_told_of_a_death(void)
{
	return dead >= 0;
}

static int is_rid_of_the_dead(void)
{
	return peers[dead].pending == 0;
}

static uint64_t goal[RANKS_MAX][2];

static int goes_on(void)
{
	for (int rank = 0; rank < ranks; rank++)
		if (rank != self && rank != dead &&
		    (peers[rank].got < goal[rank][0] ||
		     peers[rank].delivered < goal[rank][1]))
			return 0;
	return 1;
}

static int is_told_to_stop(void)
{
	return stopped;
}

/* New operations on the dead, of each kind. */
static void begin_anew(void)
{
	for (int i = 0; i < AFTER; i++) {
		CHECK(try_recv(dead));
		CHECK(try_send(dead));
	}
	CHECK(try_probe(dead));
}

/* Once the death is known, a call whose end nobody is told says so at once. Until
 * then the message is swallowed: what the dead had sent may have met all receives. */
static int inject_fails(void)
{
	struct peer *peer = &peers[dead];
	ssize_t result = fi_tinject(side.ep, peer->sends[0].buf, 8, peer->addr, 0);
	CHECK(result == 0 || result == -FI_EAGAIN || result == -FI_ECONNABORTED);
	return result == -FI_ECONNABORTED;
}

static void meet(void)
{
	printf("address ");
	for (int i = 0; i < ADDR_BYTES; i++)
		printf("%02x", (unsigned char)side.name[i]);
	printf("\n");
	fflush(stdout);
	for (int rank = 0; rank < ranks; rank++) {
		struct peer *peer = &peers[rank];
		char hex[2 * ADDR_BYTES + 1], name[ADDR_BYTES];
		char *line;
		while (!(line = told()))
			sched_yield();
		IS(sscanf(line, "%d %128s", &peer->pid, hex), 2);
		for (int i = 0; i < ADDR_BYTES; i++)
			IS(sscanf(hex + 2 * i, "%2hhx", (unsigned char *)&name[i]), 1);
		IS(fi_av_insert(side.av, name, 1, &peer->addr, 0, NULL), 1);
		for (int i = 0; i < SLOTS; i++) {
			peer->sends[i].buf = malloc(LEN_MAX);
			peer->recvs[i].buf = malloc(LEN_MAX);
			CHECK(peer->sends[i].buf && peer->recvs[i].buf);
		}
	}
}

int main(int argc, char **argv)
{
	IS(argc, 5);
	self = atoi(argv[1]);
	ranks = atoi(argv[2]);
	seed = strtoull(argv[3], NULL, 10);
	double limit = atof(argv[4]);
	CHECK(ranks <= RANKS_MAX);
	noise = mix(seed + (uint64_t)self);
	net = open_net(FI_TAGGED | FI_DIRECTED_RECV, FI_THREAD_SAFE);
	side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	OK(fcntl(0, F_SETFL, O_NONBLOCK));
	meet();

	run(is_told_of_a_death, 120, "a death");
	double begin = seconds();
	peers[dead].ended = 1;
	unsigned pending = peers[dead].pending;
	run(is_rid_of_the_dead, limit, "the end of what was asked of the dead");
	double ended = seconds() - begin;
	for (int rank = 0; rank < ranks; rank++) {
		goal[rank][0] = peers[rank].got + GOES_ON;
		goal[rank][1] = peers[rank].delivered + GOES_ON;
	}
	begin_anew();
	begin = seconds();
	run(is_rid_of_the_dead, limit, "the end of what was asked of it later");
	double later = seconds() - begin;
	run(inject_fails, limit, "an injected message to it to be refused");
	run(goes_on, 60, "messages between those who live");
	printf("done %.3f %.3f %u %u\n", 1e3 * ended, 1e3 * later, pending, failed);
	fflush(stdout);
	finished = 1;
	run(is_told_to_stop, 120, "the end");
	return 0;
}
