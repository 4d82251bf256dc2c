/* SPDX-License-Identifier: Apache-2.0
 * The owner's side of PreMulSum: every element times one scalar, rounded to the datatype. A product of two operands, of which
 * the second is a block of copies of the scalar; only complex numbers, which have no product kernel, multiply here. */
#include "reduce/reduce.h"

#include <string.h>

#include "base/error.h"
#include "reduce/float_environment.h"
#include "reduce/kernels.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* Bytes of copies of the scalar. */
#define BLOCK 4096

#define MULTIPLY_COMPLEX(name, type)                                                             \
    static void name(unsigned char *dst, const unsigned char *src, const void *scalar, size_t n) \
    {                                                                                            \
        type by[2], x[2];                                                                        \
        memcpy(by, scalar, sizeof(by));                                                          \
        for (size_t i = 0; i < n; i++) {                                                         \
            memcpy(x, src + i * sizeof(x), sizeof(x));                                           \
            type product[2] = {x[0] * by[0] - x[1] * by[1], x[0] * by[1] + x[1] * by[0]};        \
            memcpy(dst + i * sizeof(x), product, sizeof(x));                                     \
        }                                                                                        \
    }

MULTIPLY_COMPLEX(multiply_complex64, float)
MULTIPLY_COMPLEX(multiply_complex128, double)

static void multiply(motetDataType_t dtype, unsigned char *dst, const unsigned char *src, const void *scalar, size_t n)
{
    struct motet_reduction product;
    if (motet_reduction_init_with(&product, dtype, motetProd, 1, motet_kernel_set_chosen()) != motetSuccess)
        return;
    unsigned char copies[BLOCK];
    size_t size = product.size, block = BLOCK / size;
    for (size_t i = 0; i < block && i < n; i++)
        memcpy(copies + i * size, scalar, size);
    for (size_t at = 0; at < n; at += block) {
        struct motet_operand factors[2] = {{src + at * size, false}, {copies, false}};
        motet_reduce(&product, dst + at * size, false, factors, 2, n - at < block ? n - at : block);
    }
}

void motet_premultiply(motetDataType_t dtype, void *dst, const void *src, const void *scalar, size_t n)
{
    if (dtype != motetComplex64 && dtype != motetComplex128) {
        multiply(dtype, dst, src, scalar, n);
        return;
    }
    uint64_t mode = motet_float_enter();
    if (dtype == motetComplex64)
        multiply_complex64(dst, src, scalar, n);
    else
        multiply_complex128(dst, src, scalar, n);
    motet_float_leave(mode);
}
