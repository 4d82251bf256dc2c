/* SPDX-License-Identifier: Apache-2.0
 * One collective call and what it must do to memory. A seat is one rank's buffers for one case: poisoned memory with guard zones
 * and inputs in it, and an image of how every byte must look afterwards. Whatever the call was not allowed to touch is part of
 * the image too: inputs, gaps between blocks, buffers of ranks that are not the root. Knows only motet.h and the oracle. */
#ifndef MOTET_TESTS_MULTI_JUDGE_H
#define MOTET_TESTS_MULTI_JUDGE_H

#include <stdio.h>
#include <stdlib.h>

#include "oracle.h"

#define JUDGE_MAX_RANKS 16
#define JUDGE_GUARD     96
#define JUDGE_BLOCK     1024

enum judge_coll {
    JUDGE_ALLREDUCE,
    JUDGE_REDUCE,
    JUDGE_REDUCESCATTER,
    JUDGE_REDUCESCATTERV,
    JUDGE_BROADCAST,
    JUDGE_BCAST,
    JUDGE_ALLGATHER,
    JUDGE_ALLTOALL,
    JUDGE_GATHER,
    JUDGE_SCATTER,
    JUDGE_ALLGATHERV,
    JUDGE_ALLTOALLV,
    JUDGE_GATHERV,
    JUDGE_SCATTERV,
    JUDGE_NCOLLS
};

static const char *const judge_names[JUDGE_NCOLLS] = {"AllReduce",  "Reduce",    "ReduceScatter", "ReduceScatterV", "Broadcast",
                                                      "Bcast",      "AllGather", "AlltoAll",      "Gather",         "Scatter",
                                                      "AllGatherV", "AlltoAllV", "GatherV",       "ScatterV"};

enum judge_in_place { JUDGE_OUT_OF_PLACE, JUDGE_IN_PLACE, JUDGE_MIXED };

struct judge_case {
    enum judge_coll coll;
    motetDataType_t dtype;
    motetRedOp_t op; /* of the oracle: Sum when premul */
    bool premul;
    size_t count; /* v-variants: the largest block */
    int root, nranks;
    enum judge_in_place in_place;
    bool unaligned, on_stream;
    bool exact; /* floats are small integers: for algorithms with an order of their own */
    uint64_t seed;
};

/* Blocks of one buffer: how many elements, where they lie, and their place in the rank's logical input. */
struct judge_layout {
    int nblocks;
    size_t counts[JUDGE_MAX_RANKS], displs[JUDGE_MAX_RANKS], logical[JUDGE_MAX_RANKS], extent;
};

struct judge_seat {
    uint8_t *memory[2], *image[2]; /* [0] of send or of both, [1] of recv */
    size_t bytes[2];
    uint8_t *send, *recv, *recv_image;
    struct judge_layout send_layout, recv_layout;
    bool expects; /* this rank's recv is written */
};

static inline bool judge_is_v(enum judge_coll coll)
{
    return coll == JUDGE_REDUCESCATTERV || coll >= JUDGE_ALLGATHERV;
}

static inline bool judge_is_rooted(enum judge_coll coll)
{
    return coll == JUDGE_REDUCE || coll == JUDGE_BROADCAST || coll == JUDGE_BCAST || coll == JUDGE_GATHER ||
           coll == JUDGE_SCATTER || coll == JUDGE_GATHERV || coll == JUDGE_SCATTERV;
}

static inline void judge_describe(const struct judge_case *c, int rank, char *text, size_t size)
{
    snprintf(text, size, "%s %s %s%s count %zu root %d of %d ranks, rank %d%s%s%s, seed %llu", judge_names[c->coll],
             oracle_types[c->dtype].name, c->premul ? "premul" : "", oracle_ops[c->op], c->count, c->root, c->nranks, rank,
             c->in_place == JUDGE_MIXED ? ", mixed in place"
             : c->in_place              ? ", in place"
                                        : "",
             c->unaligned ? ", unaligned" : "", c->on_stream ? ", on a stream" : "", (unsigned long long)c->seed);
}

/* Elements that go from src to dst (for one-to-all and all-to-one forms only the other end matters). */
static inline size_t judge_count(const struct judge_case *c, int src, int dst)
{
    if (!judge_is_v(c->coll) || c->count == 0)
        return c->count;
    uint64_t pair = c->coll == JUDGE_ALLTOALLV ? (uint64_t)(src * 64 + dst) : (uint64_t)(dst < 0 ? src : dst);
    uint64_t h = oracle_mix(c->seed * 31 + pair + 5);
    return h % 4 == 0 ? 0 : h % 4 == 1 ? c->count : (h >> 8) % (c->count + 1);
}

/* Whether this case's displacements are NULL. */
static inline bool judge_packed(const struct judge_case *c)
{
    return !judge_is_v(c->coll) || c->coll == JUDGE_REDUCESCATTERV || c->seed % 3 == 0;
}

/* Lays blocks out one after the other, or from the last to the first with gaps. */
static inline void judge_place(const struct judge_case *c, struct judge_layout *layout)
{
    size_t at = 0, logical = 0;
    bool packed = judge_packed(c) || layout->nblocks == 1;
    for (int i = 0; i < layout->nblocks; i++) {
        int block = packed ? i : layout->nblocks - 1 - i;
        at += packed ? 0 : (size_t)(block * 2 + 1);
        layout->displs[block] = at;
        at += layout->counts[block];
        layout->logical[i] = logical;
        logical += layout->counts[i];
    }
    layout->extent = at;
}

static inline void judge_layouts(const struct judge_case *c, int rank, struct judge_layout *send, struct judge_layout *recv)
{
    bool many_in = c->coll == JUDGE_REDUCESCATTER || c->coll == JUDGE_REDUCESCATTERV || c->coll == JUDGE_SCATTER ||
                   c->coll == JUDGE_SCATTERV || c->coll == JUDGE_ALLTOALL || c->coll == JUDGE_ALLTOALLV;
    bool many_out = c->coll == JUDGE_ALLGATHER || c->coll == JUDGE_ALLGATHERV || c->coll == JUDGE_GATHER ||
                    c->coll == JUDGE_GATHERV || c->coll == JUDGE_ALLTOALL || c->coll == JUDGE_ALLTOALLV;
    send->nblocks = many_in ? c->nranks : 1;
    recv->nblocks = many_out ? c->nranks : 1;
    for (int i = 0; i < send->nblocks; i++)
        send->counts[i] = many_in ? judge_count(c, rank, i) : judge_count(c, rank, -1);
    for (int i = 0; i < recv->nblocks; i++)
        recv->counts[i] = many_out ? judge_count(c, i, c->coll == JUDGE_ALLTOALLV ? rank : -1) : judge_count(c, -1, rank);
    judge_place(c, send);
    judge_place(c, recv);
}

/* dst[0..n) = elements start.. of rank r's input, multiplied by the rank's scalar if the case says so. */
static inline void judge_input(const struct judge_case *c, int r, size_t start, size_t n, void *dst)
{
    oracle_fill(c->dtype, c->op, c->seed, r, start, n, dst);
    if (c->exact)
        oracle_make_exact(c->dtype, c->op, n, dst);
}

static inline void judge_scalar(const struct judge_case *c, int r, void *scalar)
{
    oracle_fill(c->dtype, motetProd, c->seed + 77, r, 0, 1, scalar);
    if (c->exact)
        oracle_make_exact(c->dtype, motetProd, 1, scalar);
}

/* dst[0..n) = the reduction over all ranks of elements start.. */
static inline void judge_reduce(const struct judge_case *c, size_t start, size_t n, uint8_t *dst)
{
    size_t size = oracle_types[c->dtype].size;
    static __thread uint8_t block[JUDGE_MAX_RANKS][JUDGE_BLOCK * 16];
    void *blocks[JUDGE_MAX_RANKS];
    for (size_t done = 0; done < n; done += JUDGE_BLOCK) {
        size_t len = n - done < JUDGE_BLOCK ? n - done : JUDGE_BLOCK;
        for (int r = 0; r < c->nranks; r++) {
            uint8_t scalar[16];
            blocks[r] = block[r];
            judge_input(c, r, start + done, len, block[r]);
            judge_scalar(c, r, scalar);
            for (size_t i = 0; c->premul && i < len; i++)
                oracle_scale(c->dtype, scalar, block[r] + i * size, block[r] + i * size);
        }
        for (size_t i = 0; i < len; i++)
            oracle_store(c->dtype, c->op, c->nranks, oracle_tree(c->dtype, c->op, blocks, 0, c->nranks, i),
                         dst + (done + i) * size);
    }
}

/* Writes what `rank` must receive over `recv`. */
static inline void judge_expect(const struct judge_case *c, int rank, const struct judge_seat *seat, uint8_t *recv)
{
    size_t size = oracle_types[c->dtype].size;
    const struct judge_layout *layout = &seat->recv_layout;
    for (int b = 0; b < layout->nblocks; b++) {
        uint8_t *at = recv + layout->displs[b] * size;
        size_t n = layout->counts[b];
        if (c->coll == JUDGE_ALLREDUCE || c->coll == JUDGE_REDUCE) {
            judge_reduce(c, 0, n, at);
        } else if (c->coll == JUDGE_REDUCESCATTER || c->coll == JUDGE_REDUCESCATTERV) {
            judge_reduce(c, seat->send_layout.logical[rank], n, at);
        } else if (c->coll == JUDGE_BROADCAST || c->coll == JUDGE_BCAST) {
            judge_input(c, c->root, 0, n, at);
        } else if (c->coll == JUDGE_SCATTER || c->coll == JUDGE_SCATTERV) {
            judge_input(c, c->root, seat->send_layout.logical[rank], n, at);
        } else if (c->coll == JUDGE_ALLTOALL || c->coll == JUDGE_ALLTOALLV) {
            struct judge_layout peer_send, peer_recv;
            judge_layouts(c, b, &peer_send, &peer_recv);
            judge_input(c, b, peer_send.logical[rank], n, at);
        } else {
            judge_input(c, b, 0, n, at);
        }
    }
}

/* Whether this rank works in place in this case; `*send_at`, `*recv_at`: element offsets in the joint buffer. */
static inline bool judge_joint(const struct judge_case *c, int rank, const struct judge_seat *seat, size_t *send_at,
                               size_t *recv_at)
{
    *send_at = *recv_at = 0;
    if (c->coll == JUDGE_BCAST)
        return true;
    bool wanted = c->in_place == JUDGE_IN_PLACE || (c->in_place == JUDGE_MIXED && (oracle_mix(c->seed + (uint64_t)rank) & 1));
    bool at_root_only =
        c->coll == JUDGE_GATHER || c->coll == JUDGE_GATHERV || c->coll == JUDGE_SCATTER || c->coll == JUDGE_SCATTERV;
    if (!wanted || c->coll == JUDGE_ALLTOALL || c->coll == JUDGE_ALLTOALLV || (at_root_only && rank != c->root))
        return false;
    if (seat->recv_layout.nblocks > 1)
        *send_at = seat->recv_layout.displs[rank];
    else if (seat->send_layout.nblocks > 1)
        *recv_at = seat->send_layout.displs[rank];
    return true;
}

static inline int judge_seat_prepare(struct judge_seat *seat, const struct judge_case *c, int rank)
{
    size_t size = oracle_types[c->dtype].size, send_at, recv_at;
    *seat = (struct judge_seat){.expects = true};
    judge_layouts(c, rank, &seat->send_layout, &seat->recv_layout);
    bool joint = judge_joint(c, rank, seat, &send_at, &recv_at);
    size_t extents[2] = {(send_at + seat->send_layout.extent) * size, (recv_at + seat->recv_layout.extent) * size};
    size_t misaligned[2] = {c->unaligned ? 1 + oracle_mix(c->seed + 3 * (uint64_t)rank) % 15 : 0,
                            c->unaligned ? 1 + oracle_mix(c->seed + 5 * (uint64_t)rank + 1) % 15 : 0};
    if (joint)
        extents[0] = extents[0] > extents[1] ? extents[0] : extents[1];
    for (int i = 0; i < (joint ? 1 : 2); i++) {
        seat->bytes[i] = JUDGE_GUARD * 2 + misaligned[i] + extents[i];
        seat->memory[i] = aligned_alloc(64, (seat->bytes[i] + 63) / 64 * 64);
        seat->image[i] = malloc(seat->bytes[i]);
        if (!seat->memory[i] || !seat->image[i])
            return 1;
        for (size_t at = 0; at < seat->bytes[i]; at++)
            seat->memory[i][at] = (uint8_t)(0xA5 ^ (at * 13));
    }
    int home = joint ? 0 : 1;
    seat->send = seat->memory[0] + JUDGE_GUARD + misaligned[0] + send_at * size;
    seat->recv = seat->memory[home] + JUDGE_GUARD + misaligned[home] + recv_at * size;
    seat->recv_image = seat->image[home] + (seat->recv - seat->memory[home]);
    for (int b = 0; b < seat->send_layout.nblocks; b++)
        judge_input(c, rank, seat->send_layout.logical[b], seat->send_layout.counts[b],
                    seat->send + seat->send_layout.displs[b] * size);
    for (int i = 0; i < (joint ? 1 : 2); i++)
        memcpy(seat->image[i], seat->memory[i], seat->bytes[i]);
    if ((c->coll == JUDGE_REDUCE || c->coll == JUDGE_GATHER || c->coll == JUDGE_GATHERV) && rank != c->root)
        seat->expects = false;
    if (seat->expects)
        judge_expect(c, rank, seat, seat->recv_image);
    return 0;
}

/* Pointers that the root rule says are not used are NULL in every third case. */
static inline void judge_hide_unused(const struct judge_case *c, int rank, const struct judge_seat *seat, const void **send,
                                     void **recv)
{
    bool hide = oracle_mix(c->seed + 11 + (uint64_t)rank) % 3 == 0 && rank != c->root;
    *send = hide && (c->coll == JUDGE_BROADCAST || c->coll == JUDGE_SCATTER || c->coll == JUDGE_SCATTERV) ? NULL : seat->send;
    *recv = hide && !seat->expects ? NULL : seat->recv;
}

static inline motetResult_t judge_call(const struct judge_case *c, int rank, const struct judge_seat *seat, motetRedOp_t op,
                                       motetComm_t comm, motetStream_t stream)
{
    const void *send;
    void *recv;
    judge_hide_unused(c, rank, seat, &send, &recv);
    const struct judge_layout *s = &seat->send_layout, *r = &seat->recv_layout;
    const size_t *sdispls = judge_packed(c) ? NULL : s->displs, *rdispls = judge_packed(c) ? NULL : r->displs;
    bool root = rank == c->root;
    switch (c->coll) {
    case JUDGE_ALLREDUCE:
        return motetAllReduce(send, recv, c->count, c->dtype, op, comm, stream);
    case JUDGE_REDUCE:
        return motetReduce(send, recv, c->count, c->dtype, op, c->root, comm, stream);
    case JUDGE_REDUCESCATTER:
        return motetReduceScatter(send, recv, c->count, c->dtype, op, comm, stream);
    case JUDGE_REDUCESCATTERV:
        return motetReduceScatterV(send, recv, s->counts, c->dtype, op, comm, stream);
    case JUDGE_BROADCAST:
        return motetBroadcast(send, recv, c->count, c->dtype, c->root, comm, stream);
    case JUDGE_BCAST:
        return motetBcast(recv, c->count, c->dtype, c->root, comm, stream);
    case JUDGE_ALLGATHER:
        return motetAllGather(send, recv, c->count, c->dtype, comm, stream);
    case JUDGE_ALLTOALL:
        return motetAlltoAll(send, recv, c->count, c->dtype, comm, stream);
    case JUDGE_GATHER:
        return motetGather(send, recv, c->count, c->dtype, c->root, comm, stream);
    case JUDGE_SCATTER:
        return motetScatter(send, recv, c->count, c->dtype, c->root, comm, stream);
    case JUDGE_ALLGATHERV:
        return motetAllGatherV(send, s->counts[0], recv, r->counts, rdispls, c->dtype, comm, stream);
    case JUDGE_ALLTOALLV:
        return motetAlltoAllV(send, s->counts, sdispls, recv, r->counts, rdispls, c->dtype, comm, stream);
    case JUDGE_GATHERV:
        return motetGatherV(send, s->counts[0], recv, root ? r->counts : NULL, root ? rdispls : NULL, c->dtype, c->root, comm,
                            stream);
    default:
        return motetScatterV(send, root ? s->counts : NULL, root ? sdispls : NULL, recv, r->counts[0], c->dtype, c->root, comm,
                             stream);
    }
}

/* Prints where memory differs from its image; returns the number of wrong buffers. */
static inline int judge_seat_verify(struct judge_seat *seat, const struct judge_case *c, int rank)
{
    size_t size = oracle_types[c->dtype].size;
    int wrong = 0;
    for (int b = 0; seat->expects && b < seat->recv_layout.nblocks; b++) { /* a NaN may have any payload */
        for (size_t i = 0; i < seat->recv_layout.counts[b]; i++) {
            size_t at = (seat->recv_layout.displs[b] + i) * size;
            if (memcmp(seat->recv + at, seat->recv_image + at, size) != 0 &&
                oracle_same(c->dtype, seat->recv + at, seat->recv_image + at))
                memcpy(seat->recv + at, seat->recv_image + at, size);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (!seat->memory[i] || memcmp(seat->memory[i], seat->image[i], seat->bytes[i]) == 0)
            continue;
        char text[256];
        size_t at = 0, last = seat->bytes[i] - 1, ndiffer = 0;
        while (seat->memory[i][at] == seat->image[i][at])
            at++;
        while (seat->memory[i][last] == seat->image[i][last])
            last--;
        for (size_t k = at; k <= last; k++)
            ndiffer += seat->memory[i][k] != seat->image[i][k];
        judge_describe(c, rank, text, sizeof text);
        const uint8_t *base = i == 0 && seat->memory[1] ? seat->send : seat->recv;
        fprintf(stderr, "%s: %s buffer: %zu bytes wrong, from byte %td to %td of the data; first is %02x, must be %02x\n", text,
                !seat->memory[1] ? "joint"
                : i == 0         ? "send"
                                 : "recv",
                ndiffer, seat->memory[i] + at - base, seat->memory[i] + last - base, seat->memory[i][at], seat->image[i][at]);
        wrong++;
    }
    return wrong;
}

/* Adds what all ranks must have received alike to a checksum, NaN payloads included. */
static inline uint64_t judge_seat_checksum(const struct judge_seat *seat, const struct judge_case *c, uint64_t sum)
{
    bool alike = c->coll == JUDGE_ALLREDUCE || c->coll == JUDGE_BROADCAST || c->coll == JUDGE_ALLGATHER;
    size_t len = seat->recv_layout.extent * oracle_types[c->dtype].size;
    for (size_t i = 0; alike && i < len; i++)
        sum = (sum ^ seat->recv[i]) * 0x100000001b3u;
    return sum;
}

static inline void judge_seat_free(struct judge_seat *seat)
{
    for (int i = 0; i < 2; i++) {
        free(seat->memory[i]);
        free(seat->image[i]);
    }
}

#endif
