/* SPDX-License-Identifier: Apache-2.0
 * A program as NCCL users write them, with its data in host memory and the default stream. It names only NCCL; ported by
 *
 *   sed 's/nccl/motet/g; s/NCCL/MOTET/g' moving_average.c > ported.c && cc ported.c -lmotet
 *
 * One process drives all its ranks, as on a machine with several devices: each rank holds a part of a series, ranks exchange the
 * edges of their parts with their neighbours, smooth, and agree on the largest change and the mean. */
#include <math.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define NCCLCHECK(cmd)                                                                                 \
    do {                                                                                               \
        ncclResult_t res = cmd;                                                                        \
        if (res != ncclSuccess) {                                                                      \
            fprintf(stderr, "NCCL failure %s:%d '%s'\n", __FILE__, __LINE__, ncclGetErrorString(res)); \
            exit(EXIT_FAILURE);                                                                        \
        }                                                                                              \
    } while (0)

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 10, 0)
#error "ncclSend, ncclRecv and ncclAvg are needed"
#endif

#define MAX_DEVICES 8
#define PART        1000

typedef struct {
    ncclComm_t comm;
    float *x;    /* PART values with one edge value on each side */
    float *next; /* smoothed */
    float change, mean, gathered_mean[MAX_DEVICES];
    double weighted;
} device_t;

static void exchange_edges(device_t *dev, int n)
{
    NCCLCHECK(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        int left = (i + n - 1) % n, right = (i + 1) % n;
        NCCLCHECK(ncclSend(&dev[i].x[1], 1, ncclFloat, left, dev[i].comm, NULL));
        NCCLCHECK(ncclRecv(&dev[i].x[PART + 1], 1, ncclFloat, right, dev[i].comm, NULL));
        NCCLCHECK(ncclSend(&dev[i].x[PART], 1, ncclFloat, right, dev[i].comm, NULL));
        NCCLCHECK(ncclRecv(&dev[i].x[0], 1, ncclFloat, left, dev[i].comm, NULL));
    }
    NCCLCHECK(ncclGroupEnd());
}

static void smooth(device_t *d)
{
    double sum = 0;
    d->change = 0;
    for (int k = 1; k <= PART; k++) {
        d->next[k] = 0.25f * d->x[k - 1] + 0.5f * d->x[k] + 0.25f * d->x[k + 1];
        d->change = fmaxf(d->change, fabsf(d->next[k] - d->x[k]));
    }
    for (int k = 1; k <= PART; k++) {
        d->x[k] = d->next[k];
        sum += d->x[k];
    }
    d->mean = (float)(sum / PART);
}

static void agree(device_t *dev, int n)
{
    NCCLCHECK(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        NCCLCHECK(ncclAllGather(&dev[i].mean, dev[i].gathered_mean, 1, ncclFloat32, dev[i].comm, NULL));
        NCCLCHECK(ncclAllReduce(&dev[i].change, &dev[i].change, 1, ncclFloat32, ncclMax, dev[i].comm, NULL));
        NCCLCHECK(ncclAllReduce(&dev[i].mean, &dev[i].mean, 1, ncclFloat32, ncclAvg, dev[i].comm, NULL));
    }
    NCCLCHECK(ncclGroupEnd());
}

/* sum over ranks of weight * value, by a custom operation; the result must be 1 + 2 + ... + n halves */
static void weighted_sum(device_t *dev, int n)
{
    double weights[MAX_DEVICES];
    ncclRedOp_t ops[MAX_DEVICES];
    for (int i = 0; i < n; i++) {
        weights[i] = 0.5;
        dev[i].weighted = i + 1;
        NCCLCHECK(ncclRedOpCreatePreMulSum(&ops[i], &weights[i], ncclDouble, ncclScalarHostImmediate, dev[i].comm));
    }
    NCCLCHECK(ncclGroupStart());
    for (int i = 0; i < n; i++)
        NCCLCHECK(ncclAllReduce(&dev[i].weighted, &dev[i].weighted, 1, ncclDouble, ops[i], dev[i].comm, NULL));
    NCCLCHECK(ncclGroupEnd());
    for (int i = 0; i < n; i++)
        NCCLCHECK(ncclRedOpDestroy(ops[i], dev[i].comm));
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 4, version, wrong = 0;
    int devices[MAX_DEVICES];
    ncclComm_t comms[MAX_DEVICES];
    device_t dev[MAX_DEVICES];
    if (n < 1 || n > MAX_DEVICES)
        return 2;
    for (int i = 0; i < n; i++)
        devices[i] = i;
    NCCLCHECK(ncclGetVersion(&version));
    NCCLCHECK(ncclCommInitAll(comms, n, devices));
    for (int i = 0; i < n; i++) {
        int rank, count, device;
        ncclResult_t state;
        NCCLCHECK(ncclCommUserRank(comms[i], &rank));
        NCCLCHECK(ncclCommCount(comms[i], &count));
        NCCLCHECK(ncclCommCuDevice(comms[i], &device));
        NCCLCHECK(ncclCommGetAsyncError(comms[i], &state));
        wrong += rank != i || count != n || device != i || state != ncclSuccess;
        dev[i].comm = comms[i];
        NCCLCHECK(ncclMemAlloc((void **)&dev[i].x, (PART + 2) * sizeof(float)));
        NCCLCHECK(ncclMemAlloc((void **)&dev[i].next, (PART + 2) * sizeof(float)));
        for (int k = 1; k <= PART; k++)
            dev[i].x[k] = (float)((i * PART + k) * 37 % 101);
    }
    for (int step = 0; step < 50; step++) {
        exchange_edges(dev, n);
        for (int i = 0; i < n; i++)
            smooth(&dev[i]);
        agree(dev, n);
    }
    weighted_sum(dev, n);
    for (int i = 0; i < n; i++) {
        float mean = 0;
        for (int k = 0; k < n; k++)
            mean += dev[i].gathered_mean[k] / (float)n;
        wrong += dev[i].change != dev[0].change || dev[i].mean != dev[0].mean || fabsf(mean - dev[i].mean) > 1e-3f;
        wrong += dev[i].weighted != n * (n + 1) / 4.0;
    }
    printf("version %d: %d devices, last change %g, mean %g, %d wrong\n", version, n, dev[0].change, dev[0].mean, wrong);
    for (int i = 0; i < n; i++) {
        NCCLCHECK(ncclMemFree(dev[i].x));
        NCCLCHECK(ncclMemFree(dev[i].next));
        NCCLCHECK(ncclCommFinalize(comms[i]));
        NCCLCHECK(ncclCommDestroy(comms[i]));
    }
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
