/* SPDX-License-Identifier: Apache-2.0
 * The caller's key-value store as a meeting point. Its callbacks run on the thread that calls init, a get never longer than asked. A
 * store cannot refuse a second set, so duplicates show in the meeting. */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "boot/boot.h"
#include "boot/meeting.h"

#define SLICE_MS 100 /* the abort flag is looked at between callbacks */

static const char prefix[] = "motet/";

static motetResult_t put(struct motet_boot *boot, const char *key, const void *value, size_t len, uint64_t deadline_ns)
{
    const motetStore_t *store = boot->state;
    char name[160];
    (void)deadline_ns;
    snprintf(name, sizeof(name), "%s%s", prefix, key);
    int status = store->set(store->context, name, value, len);
    if (status != 0)
        return motet_fail(motetRemoteError, "rank %d: the caller's store refused to set %s (%zu bytes): error %d", boot->rank, name,
                          len, status);
    return motetSuccess;
}

/* 1 = not yet, as the callback. */
static int ask(const motetStore_t *store, const char *name, void *value, size_t *len, uint64_t now_ns, uint64_t deadline_ns)
{
    uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns + 999999) / 1000000 : 0;
    *len = 0;
    return store->get(store->context, name, value, MOTET_BOOT_VALUE_MAX, len, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS);
}

static motetResult_t get(struct motet_boot *boot, const char *key, void **value, size_t *len, uint64_t deadline_ns)
{
    const motetStore_t *store = boot->state;
    char name[160];
    snprintf(name, sizeof(name), "%s%s", prefix, key);
    *value = malloc(MOTET_BOOT_VALUE_MAX);
    if (!*value)
        return motet_fail(motetSystemError, "rank %d: out of memory", boot->rank);
    for (;;) {
        uint64_t now_ns = motet_now_ns();
        bool aborted = boot->abort && atomic_load_explicit(boot->abort, memory_order_relaxed);
        int status = aborted ? 1 : ask(store, name, *value, len, now_ns, deadline_ns);
        if (status == 0 && *len <= MOTET_BOOT_VALUE_MAX)
            return motetSuccess;
        if (status == 1 && !aborted && motet_now_ns() < deadline_ns)
            continue;
        free(*value);
        *value = NULL;
        if (aborted)
            return motet_fail_quiet(motetInvalidUsage, "rank %d: aborted while waiting for %s", boot->rank, name);
        if (status == 1)
            return motet_fail_quiet(motetTimeout, "rank %d: no %s in the caller's store yet", boot->rank, name);
        return motet_fail(motetRemoteError, "rank %d: the caller's store failed to get %s: error %d", boot->rank, name, status);
    }
}

static void close_store(struct motet_boot *boot)
{
    free(boot->state);
    boot->state = NULL;
}

static const struct motet_boot_kind store_kind = {.name = "store", .put = put, .get = get, .close = close_store};

motetResult_t motet_boot_open_store(struct motet_boot *boot, const motetStore_t *store, int nranks, int rank, uint64_t deadline_ns,
                                    const _Atomic(_Bool) *abort)
{
    *boot = (struct motet_boot){.rank = rank,
                                .nranks = nranks,
                                .deadline_ns = deadline_ns,
                                .abort = abort,
                                .opened_ns = motet_now_ns(),
                                .where = "the caller's store"};
    motetStore_t *copy = malloc(sizeof(*copy));
    if (!copy)
        return motet_fail(motetSystemError, "rank %d: out of memory", rank);
    *copy = *store;
    boot->state = copy;
    boot->kind = &store_kind;
    motetResult_t result = nranks == 1 ? motet_random(boot->secret.bytes, sizeof(boot->secret.bytes)) : motet_meeting_hold(boot);
    if (result != motetSuccess)
        motet_boot_close(boot);
    return result;
}
