/* A peer that dies with operations pending: each ends with an error that names
 * it. */
#include "client.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char big[1 << 20];

int main(void)
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
	struct net net = open_net(FI_TAGGED | FI_DIRECTED_RECV, FI_THREAD_SAFE);
	struct side side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	char name[ADDR_BYTES], wanted[64];
	fi_addr_t peer;
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_tagged_entry entry;
	IS(read(up[0], name, ADDR_BYTES), ADDR_BYTES);
	IS(fi_av_insert(side.av, name, 1, &peer, 0, NULL), 1);

	/* A large message that nobody fetches, and an answer that never comes. */
	OK(fi_tsend(side.ep, big, sizeof big, NULL, peer, 1, big));
	OK(fi_trecv(side.ep, big, sizeof big, NULL, peer, 2, 0, name));
	IS(fi_cq_read(side.rx, &entry, 1), -FI_EAGAIN);
	OK(kill(child, SIGKILL));
	IS(waitpid(child, NULL, 0), child);

	snprintf(wanted, sizeof wanted, "peer pid %d has ended", (int)child);
	for (int i = 0; i < 2; i++) {
		IS(fi_cq_sread(side.rx, &entry, 1, NULL, 20000), -FI_EAVAIL);
		IS(fi_cq_readerr(side.rx, &error, 0), 1);
		IS(error.err, FI_ECONNABORTED);
		CHECK(error.op_context == big || error.op_context == name);
		const char *said = fi_cq_strerror(side.rx, error.prov_errno,
						  error.err_data, NULL, 0);
		puts(said);
		CHECK(!strcmp(said, wanted));
	}
	close_side(&side);
	close_net(&net);
	return 0;
}
