/* SPDX-License-Identifier: Apache-2.0
 * How an error travels inside motet: every function that can fail returns a motetResult_t, 0 is success. Text is added
 * exactly once, where the cause is known, by motet_fail; callers pass the code on with TRY and add nothing. The sentence
 * is kept per thread and is copied into the communicator by the layer that owns one (motetGetLastError reads it there). */
#ifndef MOTET_BASE_ERROR_H
#define MOTET_BASE_ERROR_H

#include "motet.h"

/* Longest sentence kept, terminator included. Longer ones are cut at a character boundary and end in "...". */
#define MOTET_ERROR_TEXT_MAX 1024

/* Returns the error of `expr` to the caller, if it has one. */
#define TRY(expr)                                             \
    do {                                                      \
        motetResult_t try_result_ = (expr);                   \
        if (__builtin_expect(try_result_ != motetSuccess, 0)) \
            return try_result_;                               \
    } while (0)

/* Stores a sentence (printf style, no trailing newline) for this thread, logs it at WARN, returns `code`. */
motetResult_t motet_fail(motetResult_t code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* As motet_fail, but not logged: for outcomes that a caller expects to handle (a retry, a probe). */
motetResult_t motet_fail_quiet(motetResult_t code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* The sentence this thread stored last; "" when there is none. Valid until the thread's next failure. */
const char *motet_error_text(void);

/* Forgets this thread's sentence. */
void motet_error_clear(void);

#endif
