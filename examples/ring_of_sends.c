/* SPDX-License-Identifier: Apache-2.0
 * Point to point: an all-reduce written by hand as a ring, beside motetAllReduce. Ranks are threads of this process.
 *
 *   ring_of_sends [ranks [count]]
 *
 * Block b starts at rank b and travels around the ring, each rank adding its own values (N - 1 steps); then the finished blocks
 * travel around once more (N - 1 steps). Send and Recv of one step are in a group, so that a ring of ranks that all send at once
 * cannot deadlock. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "motet.h"

#define CALL(call)                                                                                          \
    do {                                                                                                    \
        motetResult_t result_ = (call);                                                                     \
        if (result_ != motetSuccess) {                                                                      \
            fprintf(stderr, "%s: %s (%s)\n", #call, motetGetErrorString(result_), motetGetLastError(NULL)); \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)

struct rank {
    pthread_t thread;
    motetComm_t comm;
    int rank, nranks;
    size_t block; /* elements; the vector has nranks blocks */
    size_t wrong;
    double ring_us, library_us;
};

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* Sends one block to the next rank while another arrives from the previous one. */
static void shift(const struct rank *self, const int64_t *out, int64_t *in)
{
    int next = (self->rank + 1) % self->nranks, previous = (self->rank + self->nranks - 1) % self->nranks;
    CALL(motetGroupStart());
    CALL(motetSend(out, self->block, motetInt64, next, self->comm, NULL));
    CALL(motetRecv(in, self->block, motetInt64, previous, self->comm, NULL));
    CALL(motetGroupEnd());
}

static void ring_all_reduce(const struct rank *self, int64_t *data, int64_t *arrived)
{
    int n = self->nranks, me = self->rank;
    for (int step = 0; step < n - 1; step++) {
        int64_t *mine = data + (size_t)((me - step - 1 + n) % n) * self->block;
        shift(self, data + (size_t)((me - step + n) % n) * self->block, arrived);
        for (size_t i = 0; i < self->block; i++)
            mine[i] += arrived[i];
    }
    for (int step = 0; step < n - 1; step++)
        shift(self, data + (size_t)((me + 1 - step + n) % n) * self->block, data + (size_t)((me - step + n) % n) * self->block);
}

static void *run(void *pointer)
{
    struct rank *self = pointer;
    size_t count = self->block * (size_t)self->nranks;
    int64_t *data = malloc(count * 8 + 8), *sum = malloc(count * 8 + 8), *arrived = malloc(self->block * 8 + 8);
    if (!data || !sum || !arrived)
        exit(1);
    for (size_t i = 0; i < count; i++)
        data[i] = (int64_t)i * (self->rank + 1);
    memset(arrived, 0, self->block * 8);
    CALL(motetAllReduce(data, sum, count, motetInt64, motetSum, self->comm, NULL)); /* warm: pages, connections, schedule */
    CALL(motetBarrier(self->comm, NULL));
    double start = now_us();
    CALL(motetAllReduce(data, sum, count, motetInt64, motetSum, self->comm, NULL));
    self->library_us = now_us() - start;
    CALL(motetBarrier(self->comm, NULL));
    start = now_us();
    ring_all_reduce(self, data, arrived);
    self->ring_us = now_us() - start;
    for (size_t i = 0; i < count; i++)
        self->wrong += data[i] != sum[i] || sum[i] != (int64_t)i * self->nranks * (self->nranks + 1) / 2;
    free(data);
    free(sum);
    free(arrived);
    return NULL;
}

int main(int argc, char **argv)
{
    int nranks = argc > 1 ? atoi(argv[1]) : 4;
    size_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000, wrong = 0;
    struct rank ranks[64];
    motetComm_t comms[64];
    if (nranks < 1 || nranks > 64) {
        fprintf(stderr, "usage: ring_of_sends [ranks 1..64 [count]]\n");
        return 2;
    }
    CALL(motetCommInitAll(comms, nranks, NULL));
    for (int i = 0; i < nranks; i++) {
        ranks[i] = (struct rank){.comm = comms[i], .rank = i, .nranks = nranks, .block = count / (size_t)nranks};
        if (pthread_create(&ranks[i].thread, NULL, run, &ranks[i]) != 0)
            return 1;
    }
    for (int i = 0; i < nranks; i++) {
        pthread_join(ranks[i].thread, NULL);
        CALL(motetCommDestroy(comms[i]));
        wrong += ranks[i].wrong;
    }
    printf("%d ranks, %zu elements: ring of sends %.0f us, motetAllReduce %.0f us, %zu wrong\n", nranks,
           ranks[0].block * (size_t)nranks, ranks[0].ring_us, ranks[0].library_us, wrong);
    return wrong ? 1 : 0;
}
