/* SPDX-License-Identifier: Apache-2.0
 * What a small call costs in this process, without the time for which ranks wait for each other: one thread drives all ranks, and every
 * message is there when it is looked for. So the instructions are the same in each run, and can be counted; tests/unit/
 * test_instructions.sh compares them with bench/instructions.txt.
 *
 *   bench_call                   nanoseconds per call of everything below
 *   bench_call WHAT CALLS        that many calls of one of them: for callgrind, and perf stat
 *
 *   allreduce   8 bytes, a communicator of one rank: checks, ticket, record, copy, counters
 *   broadcast   8 bytes, two ranks, two calls: what the root publishes, the other one finds
 *   exchange    8 bytes to oneself: a group of Send and Recv
 *   record      of each such call: number, fingerprint, flight record, its end, counters, the look at faults. Nothing else */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm.h"
#include "motet.h"
#include "recorder.h"
#include "ticket.h"
#include "timing.h"

#define NBATCHES 25
#define NCALLS   100000 /* per batch; the best batch counts, since neighbours disturb */

static motetComm_t one, pair[2];

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void must(motetResult_t result)
{
    if (result == motetSuccess)
        return;
    fprintf(stderr, "%s\n", motetGetLastError(NULL));
    exit(1);
}

static void allreduce(long n)
{
    double in = 1, out;
    for (long i = 0; i < n; i++)
        must(motetAllReduce(&in, &out, 1, motetFloat64, motetSum, one, NULL));
}

static void broadcast(long n)
{
    double in = 1, out;
    for (long i = 0; i < n; i++) {
        must(motetBroadcast(&in, &in, 1, motetFloat64, 0, pair[0], NULL));
        must(motetBroadcast(NULL, &out, 1, motetFloat64, 0, pair[1], NULL));
    }
}

static void exchange(long n)
{
    double in = 1, out;
    for (long i = 0; i < n; i++) {
        must(motetGroupStart());
        must(motetSend(&in, 1, motetFloat64, 0, one, NULL));
        must(motetRecv(&out, 1, motetFloat64, 0, one, NULL));
        must(motetGroupEnd());
    }
}

/* As motet_flat_run does it. */
static void record(long n)
{
    const struct motet_call call = {.collective = MOTET_ALLREDUCE, .name = "AllReduce", .count = 1, .dtype = motetFloat64};
    const struct motet_record template = motet_ticket_record(&call, 1);
    uint64_t fingerprint = motet_ticket_fingerprint(&call, 0);
    for (long i = 0; i < n; i++) {
        struct motet_timing timing;
        struct motet_ticket ticket = motet_ticket_take(one, &template, fingerprint);
        timing.begin_ns = 0;
        timing.split = false;
        motet_timing_begin(&timing, one, ticket.seq, 8);
        must(motet_comm_check(one));
        motet_record_end(one, ticket.record, MOTET_RECORD_DONE, 8);
        motet_timing_end(&timing, one, ticket.seq);
        motet_timing_count(one, MOTET_ALLREDUCE, NULL, 8, 1);
    }
}

static const struct {
    const char *name;
    void (*run)(long n);
    int calls; /* of one turn */
} rows[] = {{"allreduce", allreduce, 1}, {"broadcast", broadcast, 2}, {"exchange", exchange, 1}, {"record", record, 1}};

#define NROWS (sizeof rows / sizeof *rows)

static double best_ns(void (*run)(long n), int calls)
{
    double best = 1e30;
    for (int batch = 0; batch < NBATCHES; batch++) {
        double begin = now_ns();
        run(NCALLS / calls);
        double ns = (now_ns() - begin) / NCALLS;
        best = ns < best ? ns : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    motetUniqueId id;
    must(motetGetUniqueId(&id));
    must(motetCommInitRank(&one, 1, id, 0));
    must(motetCommInitAll(pair, 2, NULL));
    for (size_t i = 0; i < NROWS; i++) {
        rows[i].run(10); /* learns the short way */
        if (argc == 3 && strcmp(argv[1], rows[i].name) == 0)
            rows[i].run(atol(argv[2]) / rows[i].calls);
        if (argc == 1)
            printf("%-10s %7.1f ns\n", rows[i].name, best_ns(rows[i].run, rows[i].calls));
    }
    must(motetCommDestroy(one));
    for (int rank = 0; rank < 2; rank++)
        must(motetCommDestroy(pair[rank]));
    return 0;
}
