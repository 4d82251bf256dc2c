/* SPDX-License-Identifier: Apache-2.0
 * The tree over the operands, cut into blocks that stay in the first-level cache, with kernels at its nodes. The shape of the tree
 * depends on the number of operands alone; short cuts must be the same tree. Knows nothing of instruction sets. */
#include "reduce/reduce.h"

#include "base/error.h"
#include "reduce/float_environment.h"
#include "reduce/kernels.h"

/* Bytes of accumulators in a block: a node of the tree is one such buffer on the stack. */
#define BLOCK 4096

/* One call of motet_reduce, in numbers rather than elements (a complex element is two). NULL widen: accumulators are of the
 * datatype. NULL finish: they are the result. */
struct work {
    motet_combine_kernel *combine;
    motet_widen_kernel *widen;
    motet_finish_kernel *finish;
    const struct motet_kernel_row *row;
    int nranks;
    bool is_sum; /* the short cuts apply to what is accumulated */
    size_t narrow_size, wide_size;
    const struct motet_operand *operands;
};

/* Where a call has operands in one width only. */
enum width { ALL_NARROW, ALL_WIDE, MIXED };

motetResult_t motet_reduction_init_with(struct motet_reduction *reduction, motetDataType_t dtype, motetRedOp_t op, int nranks,
                                        const struct motet_kernel_set *set)
{
    const struct motet_dtype *type = motet_dtype_row(dtype);
    if (!type)
        return motet_fail(motetInvalidArgument, "datatype %d does not exist", (int)dtype);
    if ((unsigned)op >= motetNumOps)
        return motet_fail(motetInvalidArgument, "operation %d on %s: no such built-in operation", (int)op, type->name);
    const struct motet_kernel_row *row = &set->rows[dtype];
    if (!row->combine[op])
        return motet_fail(motetInvalidArgument, "%s is not defined on %s", motet_op_name(op), type->name);
    if (nranks < 1)
        return motet_fail(motetInvalidArgument, "%s of %s over %d ranks: at least one is needed", motet_op_name(op), type->name,
                          nranks);
    bool is_integer = type->kind == MOTET_KIND_INT || type->kind == MOTET_KIND_UINT;
    size_t wide_size = type->size;
    if (row->narrow)
        wide_size = sizeof(float);
    else if (is_integer && op == motetAvg)
        wide_size = sizeof(int64_t);
    *reduction = (struct motet_reduction){dtype, op, nranks, type->size, wide_size, row};
    return motetSuccess;
}

motetResult_t motet_reduction_init(struct motet_reduction *reduction, motetDataType_t dtype, motetRedOp_t op, int nranks)
{
    TRY(motet_kernel_set_check());
    return motet_reduction_init_with(reduction, dtype, op, nranks, motet_kernel_set_chosen());
}

static enum width width_of(const struct motet_operand *operands, int k)
{
    int nwide = 0;
    for (int i = 0; i < k; i++)
        nwide += operands[i].wide;
    return nwide == 0 ? ALL_NARROW : nwide == k ? ALL_WIDE : MIXED;
}

/* Whether one kernel takes these operands, or at most MOTET_FUSED of them once they are widened. */
static bool is_leaf(const struct work *work, int first, int k)
{
    if (k <= MOTET_FUSED)
        return true;
    if (k != MOTET_FUSED_SUM || !work->is_sum)
        return false;
    enum width width = work->widen ? width_of(work->operands + first, k) : ALL_WIDE;
    return width == ALL_WIDE || (width == ALL_NARROW && work->row->sum_wide);
}

static const void *number(const struct work *work, int operand, size_t at)
{
    const struct motet_operand *from = &work->operands[operand];
    return (const char *)from->at + at * (from->wide ? work->wide_size : work->narrow_size);
}

/* dst = tree over src, of which those that are narrow are widened first. Apart from its caller, which recursion multiplies, for
 * the sake of the stack. */
static __attribute__((noinline)) void combine_widened(const struct work *work, void *dst, const void **src, int first, int k,
                                                      size_t n)
{
    _Alignas(64) unsigned char widened[MOTET_FUSED][BLOCK];
    for (int i = 0; i < k; i++)
        if (!work->operands[first + i].wide) {
            work->widen(widened[i], src[i], n);
            src[i] = widened[i];
        }
    work->combine(dst, src, k, n);
}

/* A leaf of the tree: dst, accumulators, = tree over as many operands as a kernel takes. */
static void combine_leaf(const struct work *work, void *dst, int first, int k, size_t at, size_t n)
{
    const void *src[MOTET_FUSED_SUM];
    for (int i = 0; i < k; i++)
        src[i] = number(work, first + i, at);
    enum width width = work->widen ? width_of(work->operands + first, k) : ALL_WIDE;
    if (width == ALL_WIDE)
        work->combine(dst, src, k, n);
    else if (width == ALL_NARROW && k == 1)
        work->widen(dst, src[0], n);
    else if (width == ALL_NARROW && work->is_sum && work->row->sum_wide)
        work->row->sum_wide(dst, src, k, n);
    else
        combine_widened(work, dst, src, first, k, n);
}

static int left_half(int k)
{
    return 1 << (31 - __builtin_clz((unsigned)k - 1));
}

/* dst, a buffer that is no operand, = tree over operands [first, first + k). One buffer per level, so log2 k of them at most. */
static void combine_node(const struct work *work, void *dst, int first, int k, size_t at, size_t n)
{
    if (is_leaf(work, first, k)) {
        combine_leaf(work, dst, first, k, at, n);
        return;
    }
    _Alignas(64) unsigned char right[BLOCK];
    int half = left_half(k);
    combine_node(work, dst, first, half, at, n);
    combine_node(work, right, first + half, k - half, at, n);
    work->combine(dst, (const void *[]){dst, right}, 2, n);
}

/* The root for one block. dst may be an operand, so only the last kernel writes to it. */
static void reduce_block(const struct work *work, void *dst, int k, size_t at, size_t n)
{
    _Alignas(64) unsigned char left[BLOCK], right[BLOCK];
    void *sum = work->finish ? left : dst;
    if (is_leaf(work, 0, k)) {
        combine_leaf(work, sum, 0, k, at, n);
    } else {
        int half = left_half(k);
        combine_node(work, left, 0, half, at, n);
        combine_node(work, right, half, k - half, at, n);
        work->combine(sum, (const void *[]){left, right}, 2, n);
    }
    if (work->finish)
        work->finish(dst, left, n, work->nranks);
}

/* The kernel that takes the whole length of narrow operands, or of a narrow and a wide one, in one pass; NULL if there is none.
 * Rounding is part of these kernels, dividing is not. */
static motet_combine_kernel *short_cut(const struct work *work, enum width width, int k)
{
    bool rounds = work->finish != NULL;
    if (!work->is_sum || (rounds && work->finish != work->row->narrow))
        return NULL;
    if (width == ALL_NARROW && k > 1)
        return rounds ? work->row->sum_narrow : work->row->sum_wide;
    if (width == MIXED && k == 2)
        return rounds ? work->row->sum_mixed_narrow : work->row->sum_mixed_wide;
    return NULL;
}

/* The whole length by one kernel, where there is one for it. Says whether there was. */
static bool reduce_at_once(const struct work *work, void *dst, int k, size_t n)
{
    if (!is_leaf(work, 0, k))
        return false;
    const struct motet_operand *operands = work->operands;
    const void *src[MOTET_FUSED_SUM];
    for (int i = 0; i < k; i++)
        src[i] = operands[i].at;
    enum width width = work->widen ? width_of(operands, k) : ALL_WIDE;
    if (width == ALL_WIDE && !work->finish) {
        work->combine(dst, src, k, n);
        return true;
    }
    if (width == ALL_WIDE && k == 1) {
        work->finish(dst, src[0], n, work->nranks);
        return true;
    }
    motet_combine_kernel *kernel = short_cut(work, width, k);
    if (!kernel)
        return false;
    if (width == MIXED && operands[0].wide) /* the kernel wants the narrow one first; the order of two does not matter */
        kernel(dst, (const void *[]){src[1], src[0]}, k, n);
    else
        kernel(dst, src, k, n);
    return true;
}

static void reduce_in_blocks(const struct work *work, void *dst, bool dst_wide, int k, size_t n)
{
    size_t dst_size = dst_wide ? work->wide_size : work->narrow_size, block = BLOCK / work->wide_size;
    for (size_t at = 0; at < n; at += block)
        reduce_block(work, (char *)dst + at * dst_size, k, at, n - at < block ? n - at : block);
}

static motet_finish_kernel *finisher(const struct motet_kernel_row *row, bool average, bool widens)
{
    if (average)
        return row->average;
    return widens ? row->narrow : NULL;
}

static void reduce(const struct motet_reduction *reduction, void *dst, bool dst_wide, const struct motet_operand *operands, int k,
                   size_t n)
{
    const struct motet_kernel_row *row = reduction->kernels;
    bool average = reduction->op == motetAvg, widens = reduction->wide_size != reduction->size;
    size_t parts = (size_t)row->parts;
    const struct work work = {
        .combine = row->combine[reduction->op],
        .widen = widens ? row->widen : NULL,
        .finish = dst_wide ? NULL : finisher(row, average, widens),
        .row = row,
        .nranks = reduction->nranks,
        .is_sum = reduction->op == motetSum || average,
        .narrow_size = reduction->size / parts,
        .wide_size = reduction->wide_size / parts,
        .operands = operands,
    };
    if (!reduce_at_once(&work, dst, k, n * parts))
        reduce_in_blocks(&work, dst, dst_wide, k, n * parts);
}

/* Two operands of a datatype that is its own accumulator are what the smallest messages have: nothing but the kernel for them. */
void motet_reduce(const struct motet_reduction *reduction, void *dst, bool dst_wide, const struct motet_operand *operands, int k,
                  size_t n)
{
    const struct motet_kernel_row *row = reduction->kernels;
    uint64_t mode = motet_float_enter();
    if (k == 2 && reduction->wide_size == reduction->size && reduction->op != motetAvg)
        row->combine[reduction->op](dst, (const void *[]){operands[0].at, operands[1].at}, 2, n * (size_t)row->parts);
    else
        reduce(reduction, dst, dst_wide, operands, k, n);
    motet_float_leave(mode);
}
