/* A peer that dies with operations pending: each ends with an error that names
 * it. */
#include "client.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char big[1 << 20];

/* A process with an endpoint that does nothing, and what it is called. */
static pid_t start_child(char *name)
{
	int up[2];
	OK(pipe(up));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct net net = open_net(FI_TAGGED, FI_THREAD_SAFE);
		struct side side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
		IS(write(up[1], side.name, ADDR_BYTES), ADDR_BYTES);
		for (;;)
			pause();
	}
	IS(read(up[0], name, ADDR_BYTES), ADDR_BYTES);
	OK(close(up[0]));
	OK(close(up[1]));
	return child;
}

static void end_child(pid_t child)
{
	OK(kill(child, SIGKILL));
	IS(waitpid(child, NULL, 0), child);
}

/* The next operation ends, and its error names the process; its context. */
static void *failed(struct side *side, pid_t named)
{
	char text[8];
	/* Its beginning goes into the program's own buffer. */
	struct fi_cq_err_entry error = { .err_data = text, .err_data_size = sizeof text };
	struct fi_cq_tagged_entry entry;
	char wanted[64];
	snprintf(wanted, sizeof wanted, "peer pid %d has ended", (int)named);
	IS(fi_cq_sread(side->rx, &entry, 1, NULL, 20000), -FI_EAVAIL);
	IS(fi_cq_readerr(side->rx, &error, 0), 1);
	IS(error.err, FI_ECONNABORTED);
	CHECK(error.err_data == text && error.err_data_size == sizeof text);
	CHECK(!strncmp(text, wanted, sizeof text));
	const char *said = fi_cq_strerror(side->rx, error.prov_errno,
					  error.err_data, NULL, 0);
	puts(said);
	CHECK(!strcmp(said, wanted));
	return error.op_context;
}

/* A large message that nobody fetches, and an answer that never comes. */
static void after_a_message(void)
{
	char name[ADDR_BYTES];
	fi_addr_t peer;
	struct fi_cq_tagged_entry entry;
	pid_t child = start_child(name);
	struct net net = open_net(FI_TAGGED | FI_DIRECTED_RECV, FI_THREAD_SAFE);
	struct side side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	IS(fi_av_insert(side.av, name, 1, &peer, 0, NULL), 1);
	OK(fi_tsend(side.ep, big, sizeof big, NULL, peer, 1, big));
	OK(fi_trecv(side.ep, big, sizeof big, NULL, peer, 2, 0, name));
	IS(fi_cq_read(side.rx, &entry, 1), -FI_EAGAIN);
	end_child(child);
	void *first = failed(&side, child), *second = failed(&side, child);
	CHECK((first == big && second == name) || (first == name && second == big));
	close_side(&side);
	close_net(&net);
}

/* Short receives from a process that has neither spoken nor been spoken to,
 * posted before and after its death. */
static void before_a_word(void)
{
	char name[ADDR_BYTES], word[8];
	fi_addr_t peer;
	struct fi_cq_tagged_entry entry;
	for (int send_first = 0; send_first < 2; send_first++) {
		pid_t child = start_child(name);
		struct net net = open_net(FI_TAGGED | FI_DIRECTED_RECV,
					  FI_THREAD_SAFE);
		struct side side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
		IS(fi_av_insert(side.av, name, 1, &peer, 0, NULL), 1);
		OK(fi_trecv(side.ep, word, 8, NULL, peer, 2, 0, word));
		IS(fi_cq_read(side.rx, &entry, 1), -FI_EAGAIN);
		end_child(child);
		if (send_first) {
			OK(fi_tsend(side.ep, big, 8, NULL, peer, 1, big));
			void *first = failed(&side, child);
			void *second = failed(&side, child);
			CHECK((first == big && second == word) ||
			      (first == word && second == big));
		} else {
			CHECK(failed(&side, child) == word);
		}
		OK(fi_trecv(side.ep, word, 8, NULL, peer, 3, 0, name));
		CHECK(failed(&side, child) == name);
		close_side(&side);
		close_net(&net);
	}
}

int main(void)
{
	after_a_message();
	before_a_word();
	return 0;
}
