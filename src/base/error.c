/* SPDX-License-Identifier: Apache-2.0
 * The last sentence of each thread. Knows nothing of communicators: the layer that owns one copies the text. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>

#include "base/log.h"
#include "base/text.h"

static _Thread_local char sentence[MOTET_ERROR_TEXT_MAX];

/* Formats aside first: a caller may pass the old sentence as an argument of the new one. */
static void store(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

static void store(const char *format, va_list args)
{
    char text[MOTET_ERROR_TEXT_MAX];
    size_t len = motet_text_format(text, sizeof(text), format, args);
    __builtin_memcpy(sentence, text, len + 1);
}

motetResult_t motet_fail(motetResult_t code, const char *format, ...)
{
    int saved_errno = errno;
    va_list args;
    va_start(args, format);
    store(format, args);
    va_end(args);
    motet_log(MOTET_LOG_WARN, MOTET_LOG_ALL, "%s", sentence);
    errno = saved_errno;
    return code;
}

motetResult_t motet_fail_quiet(motetResult_t code, const char *format, ...)
{
    int saved_errno = errno;
    va_list args;
    va_start(args, format);
    store(format, args);
    va_end(args);
    errno = saved_errno;
    return code;
}

const char *motet_error_text(void)
{
    return sentence;
}

void motet_error_clear(void)
{
    sentence[0] = '\0';
}
