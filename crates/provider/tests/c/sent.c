/* A message that is complete at its sender arrives, though the sender makes no further call.
 * Over TCP, whose frames wait for each other in bursts. */
#include "client.h"
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 4096
#define ROUNDS 300

static char data[BYTES];

static void give(int to, const void *bytes, size_t len)
{
	IS(write(to, bytes, len), len);
}

static void take(int from, void *bytes, size_t len)
{
	IS(read(from, bytes, len), len);
}

static void one_completion(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry;
	ssize_t got;
	while ((got = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		;
	IS(got, 1);
}

int main(void)
{
	int down[2], up[2], status;
	char peer[ADDR_BYTES], word = 0;
	fi_addr_t number;

	OK(pipe(down));
	OK(pipe(up));
	/* Whoever waits in vain ends. */
	alarm(60);
	pid_t child = fork();
	int receives = child == 0, from = receives ? down[0] : up[0], to = receives ? up[1] : down[1];
	if (receives)
		alarm(60);
	struct net net = open_net(FI_TAGGED, FI_THREAD_SAFE);
	struct side side = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	give(to, side.name, ADDR_BYTES);
	take(from, peer, ADDR_BYTES);
	IS(fi_av_insert(side.av, peer, 1, &number, 0, NULL), 1);
	for (int count = 1; count <= ROUNDS; count += 7) {
		for (int nth = 0; nth < count; nth++) {
			ssize_t taken;
			while ((taken = receives ? fi_trecv(side.ep, data, BYTES, NULL, number, 1, 0, NULL)
						 : fi_tsend(side.ep, data, BYTES, NULL, number, 1, NULL))
			       == -FI_EAGAIN)
				fi_cq_read(side.rx, NULL, 0);
			OK(taken);
			one_completion(side.rx);
		}
		/* The sender waits outside of the library. */
		if (receives)
			give(to, &word, 1);
		else
			take(from, &word, 1);
	}
	if (receives)
		_exit(0);
	IS(waitpid(child, &status, 0), child);
	IS(status, 0);
	close_side(&side);
	close_net(&net);
	return 0;
}
