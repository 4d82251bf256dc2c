/* SPDX-License-Identifier: Apache-2.0
 * The last sentence of each thread. Knows nothing of communicators: the layer that owns one copies the text. */
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/text.h"

/* On the heap: a library that is loaded into a running program finds little room for thread-local storage of the fast kind, which the
 * depth of groups needs. Freed when the thread ends. */
static _Thread_local char *sentence;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* Another destructor of this thread may fail later: it gets a new one. */
static void drop(void *text)
{
    free(text);
    sentence = NULL;
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, drop) == 0;
}

/* The destructor that unloads the library takes the key with it: no thread may call code that is gone. */
static __attribute__((destructor)) void delete_key(void)
{
    if (has_key)
        pthread_key_delete(key);
}

/* Whether the thread has room for a sentence. Without memory its errors stay without one. */
static bool has_room(void)
{
    if (sentence)
        return true;
    pthread_once(&once, make_key);
    char *made = has_key ? malloc(MOTET_ERROR_TEXT_MAX) : NULL;
    if (!made || pthread_setspecific(key, made)) {
        free(made);
        return false;
    }
    made[0] = '\0';
    sentence = made;
    return true;
}

/* Formats aside first: a caller may pass the old sentence as an argument of the new one. */
static void store(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

static void store(const char *format, va_list args)
{
    char text[MOTET_ERROR_TEXT_MAX];
    size_t len = motet_text_format(text, sizeof(text), format, args);
    if (has_room())
        __builtin_memcpy(sentence, text, len + 1);
}

motetResult_t motet_fail(motetResult_t code, const char *format, ...)
{
    int saved_errno = errno;
    va_list args;
    va_start(args, format);
    store(format, args);
    va_end(args);
    motet_log(MOTET_LOG_WARN, MOTET_LOG_ALL, "%s", motet_error_text());
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
    return sentence ? sentence : "";
}

void motet_error_clear(void)
{
    if (sentence)
        sentence[0] = '\0';
}
