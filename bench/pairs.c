// Two ranks: half round trips by size (latency: from a buffer that is not written again, as most
// benchmarks have it; returned: each sends what it has just received), bandwidth with a window of
// 64 from one buffer, from distinct ones, from distinct ones that were received before (relayed: the
// window goes back and forth), and from ones that are in no cache (cold), message by message
// (single), 8-byte rate. Of the streams only relayed writes its buffers between two sends.
// With PAIRS_CORES=0,1 rank 0 stays on core 0 and rank 1 on core 1.
// With "memory" as the only argument: any number of ranks, an all-to-all of 1 KiB,
// then the memory of each process.  Every line of output is one JSON object.
//
// Usage: pairs TEST SECONDS SIZE..., TEST one of latency, returned, bandwidth, distinct, relayed,
// cold, single, rate; or pairs memory
#define _GNU_SOURCE
#include "ranks.h"
#include <mpi.h>
#include <stdint.h>

#define WINDOW 64
#define SAMPLES_MAX 200000
// More than any cache holds.
#define COLD_BYTES ((size_t)256 << 20)

static int rank, ranks;
static double samples[SAMPLES_MAX];

static double at(int count, double part) {
    return samples[(int)(part * (count - 1))];
}

// A message carries its number in its first bytes, so a wrong one is seen.
static void expect(const char *what, unsigned char got, unsigned char want) {
    if (got != want) {
        fprintf(stderr, "pairs: %s: rank %d received byte %u instead of %u: the data "
                "are wrong. Run the tests of this transport first.\n",
                what, rank, got, want);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void round_trip(unsigned char *out, unsigned char *in, int size, unsigned char n) {
    if (rank == 0) {
        out[0] = n;
        MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        out[0] = in[0];
        MPI_Send(out, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}

static int agree(int value) {
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return value;
}

static void latency(const char *test, int size, double seconds) {
    int returns = !strcmp(test, "returned");
    unsigned char *out = malloc(size), *in = returns ? out : malloc(size);
    memset(in, 2, size);
    memset(out, 1, size);
    // The count is chosen from a short run, so that both ranks know it.
    int trial = size <= 8192 ? 2000 : 20;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < trial / 2; i++) round_trip(out, in, size, (unsigned char)i);
    double start = MPI_Wtime();
    for (int i = 0; i < trial; i++) round_trip(out, in, size, (unsigned char)i);
    double each = (MPI_Wtime() - start) / trial;
    // The clock costs something, so small messages are timed ten at a time.
    int batch = each < 20e-6 ? 10 : 1;
    double wanted = seconds / (each * batch);
    int count = agree(wanted < 10 ? 10 : wanted > SAMPLES_MAX ? SAMPLES_MAX : (int)wanted);
    batch = agree(batch);
    for (int i = 0; i < count; i++) {
        double t = MPI_Wtime();
        for (int k = 0; k < batch; k++) round_trip(out, in, size, (unsigned char)(i + k));
        samples[i] = (MPI_Wtime() - t) / batch / 2 * 1e9;
        if (rank == 0) expect(test, in[0], (unsigned char)(i + batch - 1));
    }
    if (rank == 0) {
        qsort(samples, count, sizeof *samples, ascending);
        printf("{\"test\":\"%s\",\"size\":%d,\"half_rtt_ns\":{\"min\":%.1f,\"p50\":%.1f,"
               "\"p90\":%.1f,\"p99\":%.1f},\"samples\":%d}\n",
               test, size, samples[0], at(count, .5), at(count, .9), at(count, .99), count);
    }
    free(out);
    if (!returns) free(in);
}

// Buffers of one size, used in turn. With one buffer the figure is the transport's, as in the
// usual MPI benchmarks; with many it is also that of the caches.
struct buffers {
    unsigned char *base;
    size_t bytes, at;
};

static unsigned char *next(struct buffers *buffers, int size) {
    if (buffers->at + size > buffers->bytes) buffers->at = 0;
    unsigned char *buffer = buffers->base + buffers->at;
    buffers->at += size;
    return buffer;
}

// Rank `from` sends a window, the other one answers with one byte when it has all of it.
static double window(struct buffers *buffers, int size, int count, int from) {
    MPI_Request requests[WINDOW];
    unsigned char token = 0;
    int other = 1 - rank;
    double t = MPI_Wtime();
    if (rank == from) {
        for (int i = 0; i < count; i++)
            MPI_Isend(next(buffers, size), size, MPI_BYTE, other, 2, MPI_COMM_WORLD, requests + i);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(&token, 1, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        for (int i = 0; i < count; i++)
            MPI_Irecv(next(buffers, size), size, MPI_BYTE, other, 2, MPI_COMM_WORLD, requests + i);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        MPI_Send(&token, 1, MPI_BYTE, other, 3, MPI_COMM_WORLD);
    }
    return MPI_Wtime() - t;
}

// The same buffers go to rank 1 and back. Each time other bytes do, so an old one is seen.
static double relay(struct buffers *buffers, int size, int count) {
    static unsigned char n;
    n++;
    buffers->at = 0;
    double t = MPI_Wtime();
    if (rank == 0)
        for (int i = 0; i < count; i++) next(buffers, size)[0] = n;
    for (int from = 0; from < 2; from++) {
        window(buffers, size, count, from);
        if (rank != from)
            for (int i = 0; i < count; i++) expect("relayed", next(buffers, size)[0], n);
    }
    return (MPI_Wtime() - t) / 2;
}

static double one_window(const char *test, struct buffers *buffers, int size, int count) {
    if (!strcmp(test, "relayed")) return relay(buffers, size, count);
    return window(buffers, size, count, 0);
}

static void stream(const char *test, int size, double seconds) {
    int each_window = strcmp(test, "single") ? WINDOW : 1;
    size_t bytes = size;
    if (!strcmp(test, "distinct") || !strcmp(test, "relayed")) bytes = (size_t)size * WINDOW;
    if (!strcmp(test, "cold") && bytes < COLD_BYTES) bytes = COLD_BYTES;
    struct buffers buffers = {malloc(bytes), bytes, 0};
    if (!buffers.base) {
        fprintf(stderr, "pairs: %s of %d bytes: no memory for its buffers. "
                "Choose a smaller size.\n", test, size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memset(buffers.base, rank == 0 ? 0x5a : 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double each = one_window(test, &buffers, size, each_window);
    for (int i = 0; i < 2; i++) each = one_window(test, &buffers, size, each_window);
    if (size <= 65536)
        for (int i = 0; i < 20; i++) each = one_window(test, &buffers, size, each_window);
    double wanted = seconds / each;
    int count = agree(wanted < 5 ? 5 : wanted > SAMPLES_MAX ? SAMPLES_MAX : (int)wanted);
    for (int i = 0; i < count; i++) samples[i] = one_window(test, &buffers, size, each_window);
    if (rank == 1)
        for (int i = strcmp(test, "relayed") ? 0 : 1; i < size; i++)
            expect(test, buffers.base[i], 0x5a);
    if (rank == 0) {
        qsort(samples, count, sizeof *samples, ascending);
        // A long time is a low speed: p99 is what 99 % of the windows reach.
        if (!strcmp(test, "rate"))
            printf("{\"test\":\"rate\",\"size\":%d,\"msgs_per_s\":{\"p50\":%.0f,\"p99\":%.0f},"
                   "\"samples\":%d}\n", size, each_window / at(count, .5), each_window / at(count, .99), count);
        else
            printf("{\"test\":\"%s\",\"size\":%d,\"mib_per_s\":{\"p50\":%.1f,\"p99\":%.1f},"
                   "\"samples\":%d}\n", test, size, each_window * (double)size / at(count, .5) / 1048576,
                   each_window * (double)size / at(count, .99) / 1048576, count);
    }
    free(buffers.base);
}

static void memory(void) {
    enum { EACH = 1024 };
    char *out = malloc((size_t)ranks * EACH), *in = malloc((size_t)ranks * EACH);
    memset(out, rank, (size_t)ranks * EACH);
    for (int i = 0; i < 10; i++)
        MPI_Alltoall(out, EACH, MPI_BYTE, in, EACH, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        expect("memory", (unsigned char)in[(size_t)i * EACH], (unsigned char)i);
    long high = -1, now = -1;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        sscanf(line, "VmHWM: %ld", &high);
        sscanf(line, "VmRSS: %ld", &now);
    }
    if (status) fclose(status);
    printf("{\"test\":\"memory\",\"rank\":%d,\"ranks\":%d,\"vmhwm_kib\":%ld,\"vmrss_kib\":%ld}\n",
           rank, ranks, high, now);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    stay(rank);
    if (argc == 2 && !strcmp(argv[1], "memory")) {
        memory();
    } else if (argc >= 4 && ranks == 2) {
        double seconds = atof(argv[2]);
        for (int i = 3; i < argc; i++) {
            int size = atoi(argv[i]);
            if (size < 1) size = 1;
            int timed = !strcmp(argv[1], "latency") || !strcmp(argv[1], "returned");
            if (timed) latency(argv[1], size, seconds);
            else stream(argv[1], size, seconds);
        }
    } else {
        if (rank == 0)
            fprintf(stderr, "usage: two ranks of pairs latency|returned|bandwidth|distinct|relayed|cold|single|"
                    "rate SECONDS SIZE..., "
                    "or any number of ranks of pairs memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
