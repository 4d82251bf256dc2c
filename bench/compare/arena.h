/* SPDX-License-Identifier: Apache-2.0
 * A few lines of memory that all ranks of the benchmark map: a barrier, a ping-pong and numbers, so that neither motet nor the peer times
 * itself. Lives in a file that the script removes. */
#ifndef BENCH_ARENA_H
#define BENCH_ARENA_H

#define ARENA_RANKS 64

/* Maps the file `path`, which is made by whoever comes first. All ranks call it. */
void arena_open(const char *path, int rank, int nranks);

/* Spins, and yields when ranks outnumber the cores. */
void arena_barrier(void);

/* Round trip of one cache line between ranks 0 and 1, nanoseconds; 0 with one rank. All ranks call it. */
double arena_line_ns(void);

/* The largest value that a rank passes. */
double arena_max(double value);

/* Rank 0's value. */
double arena_of_root(double value);

double now_ns(void);

#endif
