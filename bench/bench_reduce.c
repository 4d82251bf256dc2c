/* SPDX-License-Identifier: Apache-2.0
 * Speed of the reduction kernels: GB/s (10^9 bytes, operands read plus result written) per datatype, operation, number of operands,
 * working set and instruction set; best of many short batches, since neighbours disturb. Data stay where they fit: the first
 * column of each set is the L1 cache, then L2, then memory.
 *
 *   bench_reduce [dtype [op]]     for instance: bench_reduce bfloat16 sum */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reduce/kernels.h"

#define NBATCHES 15
#define BATCH_NS 400000
#define MAX_K    8

/* Bytes of all operands and the result together. */
static const size_t working_sets[] = {24 << 10, 384 << 10, 96 << 20};
static const char *const places[] = {"L1", "L2", "memory"};
static const int operand_counts[] = {2, 4, 8};

static unsigned char *memory;

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Small positive numbers in every datatype: no NaN, no overflow, no denormal on the way. */
static void fill(motetDataType_t dtype, size_t len)
{
    static const unsigned char one[motetNumTypes][8] = {
        [motetFloat16] = {0, 0x3c},
        [motetBfloat16] = {0x80, 0x3f},
        [motetFloat32] = {0, 0, 0x80, 0x3f},
        [motetFloat64] = {0, 0, 0, 0, 0, 0, 0xf0, 0x3f},
        [motetFloat8e4m3] = {0x38},
        [motetFloat8e5m2] = {0x3c},
        [motetComplex64] = {0, 0, 0x80, 0x3f},
        [motetComplex128] = {0, 0, 0, 0, 0, 0, 0xf0, 0x3f},
    };
    size_t size = motet_dtype_row(dtype)->size < 8 ? motet_dtype_row(dtype)->size : 8;
    for (size_t i = 0; i + size <= len; i += size)
        memcpy(memory + i, one[dtype], size);
}

static double gigabytes_per_second(const struct motet_reduction *reduction, int k, size_t working_set)
{
    size_t len = working_set / (size_t)(k + 1) / 64 * 64, n = len / reduction->size;
    struct motet_operand operands[MAX_K];
    for (int i = 0; i < k; i++)
        operands[i] = (struct motet_operand){memory + (size_t)(i + 1) * len, false};
    double best = 1e30;
    int ncalls = 1;
    for (int batch = 0; batch < NBATCHES; batch++) {
        double start = now_ns();
        for (int i = 0; i < ncalls; i++)
            motet_reduce(reduction, memory, false, operands, k, n);
        double call = (now_ns() - start) / ncalls;
        if (batch && call < best)
            best = call;
        if (!batch)
            ncalls = call < BATCH_NS ? (int)(BATCH_NS / call) + 1 : 1;
    }
    return (double)len * (k + 1) / best;
}

static void measure(motetDataType_t dtype, motetRedOp_t op)
{
    const struct motet_kernel_set *set;
    for (int i = 0; (set = motet_kernel_set(i)) != NULL; i++) {
        struct motet_reduction reduction;
        if (!set->rows[dtype].combine[op] || motet_reduction_init_with(&reduction, dtype, op, 4, set) != motetSuccess)
            continue;
        printf("%-11s %-5s %-7s", motet_dtype_row(dtype)->name, motet_op_name(op), set->name);
        for (size_t place = 0; place < sizeof(working_sets) / sizeof(working_sets[0]); place++)
            for (size_t j = 0; j < sizeof(operand_counts) / sizeof(operand_counts[0]); j++)
                printf(" %7.2f", gigabytes_per_second(&reduction, operand_counts[j], working_sets[place]));
        printf("\n");
        fflush(stdout);
    }
}

/* What a small message pays beside its data. */
static void measure_call(void)
{
    struct motet_reduction reduction;
    if (motet_reduction_init(&reduction, motetFloat32, motetSum, 2) != motetSuccess)
        return;
    for (size_t n = 2; n <= 128; n *= 4) {
        struct motet_operand operands[2] = {{memory + 4096, false}, {memory + 8192, false}};
        double best = 1e30;
        for (int batch = 0; batch < NBATCHES; batch++) {
            double start = now_ns();
            for (int i = 0; i < 10000; i++)
                motet_reduce(&reduction, memory, false, operands, 2, n);
            double call = (now_ns() - start) / 10000;
            best = call < best ? call : best;
        }
        printf("float32 sum of 2 x %zu elements, %s: %.1f ns per call\n", n, motet_reduce_isa(), best);
    }
}

int main(int argc, char **argv)
{
    size_t len = working_sets[2];
    if (posix_memalign((void **)&memory, 4096, len))
        return 1;
    printf("%-25s", "GB/s");
    for (size_t place = 0; place < sizeof(places) / sizeof(places[0]); place++)
        for (size_t j = 0; j < sizeof(operand_counts) / sizeof(operand_counts[0]); j++)
            printf(" %5s%dx", j ? "" : places[place], operand_counts[j]);
    printf("\n");
    for (int dtype = 0; dtype < motetNumTypes; dtype++) {
        if (argc > 1 && strcmp(argv[1], "all") && strcmp(argv[1], motet_dtype_row((motetDataType_t)dtype)->name))
            continue;
        fill((motetDataType_t)dtype, len);
        for (int op = 0; op < motetNumOps; op++)
            if (argc <= 2 || !strcmp(argv[2], motet_op_name((motetRedOp_t)op)))
                measure((motetDataType_t)dtype, (motetRedOp_t)op);
    }
    measure_call();
    free(memory);
    return 0;
}
