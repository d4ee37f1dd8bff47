/* Several threads at one endpoint: all send, all read the one queue. */
#include "client.h"
#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4
#define EACH 5000

static struct net net;
static struct side a, b;
static _Atomic long sent, received, sum;

static void *work(void *arg)
{
	long me = (long)arg;
	long posted = 0, injected = 0;
	struct fi_cq_tagged_entry entry[8];
	double end = seconds() + 60;

	while (injected < EACH || received < THREADS * EACH) {
		CHECK(seconds() < end);
		if (posted < EACH && posted < injected + 16) {
			OK(fi_trecv(b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
			posted++;
		}
		if (injected < EACH) {
			ssize_t ret = fi_tinjectdata(a.ep, NULL, 0,
						     (uint64_t)(me * EACH + injected), 0, 1);
			CHECK(ret == 0 || ret == -FI_EAGAIN);
			if (!ret) {
				injected++;
				sent++;
			}
		}
		fi_cq_read(a.rx, entry, 8);
		ssize_t got = fi_cq_read(b.rx, entry, 8);
		CHECK(got > 0 || got == -FI_EAGAIN);
		for (ssize_t i = 0; i < got; i++) {
			sum += (long)entry[i].data;
			received++;
		}
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	net = open_net(FI_TAGGED, FI_THREAD_SAFE);
	a = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	b = open_side(&net, FI_CQ_FORMAT_TAGGED, 0, 0);
	introduce(&a, &b);
	for (long i = 0; i < THREADS; i++)
		OK(pthread_create(&threads[i], NULL, work, (void *)i));
	for (long i = 0; i < THREADS; i++)
		OK(pthread_join(threads[i], NULL));
	IS(sent, THREADS * EACH);
	IS(received, THREADS * EACH);
	IS(sum, (long)THREADS * EACH * (THREADS * EACH - 1) / 2);
	close_side(&a);
	close_side(&b);
	close_net(&net);
	puts("threads: all as it should be");
	return 0;
}
