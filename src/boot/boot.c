/* SPDX-License-Identifier: Apache-2.0
 * All-gather over put and get: each rank stores its blob, rank 0 reads them all and stores one combined value. So each rank waits for
 * one key only, and the root moves every byte twice at most. Knows no kind by name. */
#include "boot/boot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/deaths.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "base/settings.h"
#include "boot/frame.h"
#include "boot/meeting.h"

#define BLOB_MAX         ((size_t)1 << 30)
#define ALIGNMENT        16u
#define SLICE_FIRST_NS   (50 * 1000000ull)
#define SLICE_LONGEST_NS (1000 * 1000000ull)
#define PROBE_NS         (1 * 1000000ull)    /* to ask once whether a key is there */
#define PROBES_NS        (2000 * 1000000ull) /* for all such questions after a timeout */

static const char failed_key[] = "failed";

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whether a rank of a kind without give_up has left word of a failure. */
static motetResult_t look_for_failure(struct motet_boot *boot)
{
    void *value = NULL;
    size_t len = 0;
    motetResult_t result = boot->kind->get(boot, failed_key, &value, &len, motet_now_ns() + PROBE_NS);
    if (result == motetTimeout)
        return motetSuccess;
    TRY(result);
    char text[900];
    motetResult_t code = motet_failure_parse(value, len, text, sizeof(text));
    free(value);
    boot->heard = true;
    return motet_fail(code, "%s", text);
}

/* Whether a rank of the job has ended: nobody leaves an init that others are still in, so this one cannot succeed any more. */
static bool find_death(const struct motet_boot *boot, struct motet_death *death)
{
    for (off_t at = 0; boot->launched && motet_deaths_next(&at, death);)
        if (death->rank >= 0 && death->rank < boot->nranks && death->rank != boot->rank)
            return true;
    return false;
}

static motetResult_t fail_by_death(const struct motet_death *death)
{
    return motet_fail(motetRemoteError, "rank %d (pid %d on %s) ended during init: %s", death->rank, death->pid, death->host,
                      death->cause);
}

static motetResult_t say_late(struct motet_boot *boot);

/* As the kind's get; a wait that lasts says for whom. */
static motetResult_t get(struct motet_boot *boot, const char *key, void **value, size_t *len, uint64_t until_ns)
{
    int64_t warn_ms = motet_setting_int(MOTET_SET_WARN_AFTER);
    if (!boot->gathers)
        return boot->kind->get(boot, key, value, len, until_ns);
    for (;;) {
        if (boot->warn_ns == 0)
            boot->warn_ns = warn_ms > 0 ? boot->opened_ns + (uint64_t)warn_ms * 1000000 : UINT64_MAX;
        motetResult_t result = boot->kind->get(boot, key, value, len, earlier(until_ns, boot->warn_ns));
        if (result != motetTimeout || boot->heard || motet_now_ns() >= until_ns)
            return result;
        boot->warn_ns = motet_now_ns() + (uint64_t)warn_ms * 1000000;
        TRY(say_late(boot));
    }
}

/* A root tells of the ranks that came to it; of others only the launcher knows. */
static motetResult_t wait_and_look_for_deaths(struct motet_boot *boot, const char *key, void **value, size_t *len)
{
    struct motet_death death;
    for (uint64_t slice_ns = SLICE_FIRST_NS;; slice_ns = earlier(2 * slice_ns, SLICE_LONGEST_NS)) {
        bool is_dead = find_death(boot, &death); /* before the wait: what the dead one said itself is the better reason */
        uint64_t until_ns = earlier(motet_now_ns() + slice_ns, boot->deadline_ns);
        motetResult_t result = get(boot, key, value, len, until_ns);
        if (result != motetTimeout || boot->heard || motet_now_ns() >= boot->deadline_ns)
            return result;
        if (is_dead)
            return fail_by_death(&death);
        TRY(motet_boot_check(boot));
    }
}

motetResult_t motet_boot_wait(struct motet_boot *boot, const char *key, void **value, size_t *len)
{
    if (boot->kind->give_up && boot->launched && motet_deaths_are_told())
        return wait_and_look_for_deaths(boot, key, value, len);
    if (boot->kind->give_up)
        return get(boot, key, value, len, boot->deadline_ns);
    for (uint64_t slice_ns = SLICE_FIRST_NS;; slice_ns = earlier(2 * slice_ns, SLICE_LONGEST_NS)) {
        uint64_t until_ns = earlier(motet_now_ns() + slice_ns, boot->deadline_ns);
        motetResult_t result = get(boot, key, value, len, until_ns);
        if (result != motetTimeout)
            return result;
        TRY(look_for_failure(boot));
        if (motet_now_ns() >= boot->deadline_ns)
            return motetTimeout;
    }
}

motetResult_t motet_boot_check(struct motet_boot *boot)
{
    if (!boot->kind)
        return motetSuccess;
    if (boot->kind->check)
        return boot->kind->check(boot);
    return boot->kind->give_up ? motetSuccess : look_for_failure(boot);
}

/* ---- timeouts */

/* "0, 2-5" of the ranks whose mark is `wanted`. */
static void list_ranks(const uint8_t *marks, int nranks, uint8_t wanted, char *text, size_t size)
{
    size_t at = 0;
    snprintf(text, size, "none");
    for (int rank = 0; rank < nranks && at + 24 < size; rank++) {
        if (marks[rank] != wanted)
            continue;
        int last = rank;
        while (last + 1 < nranks && marks[last + 1] == wanted)
            last++;
        at += (size_t)snprintf(text + at, size - at, last > rank ? "%s%d-%d" : "%s%d", at ? ", " : "", rank, last);
        rank = last;
    }
    if (at + 24 >= size)
        snprintf(text + at, size - at, ", ...");
}

/* Asks for every rank's key: marks 0 missing, 1 came, 2 not asked. A failure that others tell meanwhile is returned: they were first. */
static motetResult_t probe_ranks(struct motet_boot *boot, const char *stage, const char *suffix, uint8_t *marks, int *ncame)
{
    char key[MOTET_BOOT_KEY_MAX + 1];
    uint64_t stop_ns = motet_now_ns() + PROBES_NS;
    *ncame = 0;
    for (int rank = 0; rank < boot->nranks; rank++) {
        void *value = NULL;
        size_t len;
        motetResult_t result = motetSuccess;
        snprintf(key, sizeof(key), "%s.%d%s", stage, rank, suffix);
        if (rank != boot->rank && motet_now_ns() > stop_ns) {
            marks[rank] = 2;
            continue;
        }
        if (rank != boot->rank)
            result = boot->kind->get(boot, key, &value, &len, motet_now_ns() + PROBE_NS);
        free(value);
        if (boot->heard || (result != motetSuccess && result != motetTimeout))
            return result;
        marks[rank] = result == motetSuccess;
        *ncame += marks[rank];
    }
    return motetSuccess;
}

/* One line for all: by the lowest of the ranks that came. */
static motetResult_t say_late(struct motet_boot *boot)
{
    char stage[32], missing[200], came[200];
    uint8_t *marks = calloc((size_t)boot->nranks, 1);
    int ncame = 0, lowest = 0;
    if (!marks)
        return motetSuccess;
    snprintf(stage, sizeof(stage), "gather%u", boot->round);
    motetResult_t result = probe_ranks(boot, stage, ".0", marks, &ncame);
    while (lowest < boot->nranks - 1 && marks[lowest] != 1)
        lowest++;
    if (result == motetSuccess && lowest == boot->rank && ncame < boot->nranks) {
        list_ranks(marks, boot->nranks, 0, missing, sizeof(missing));
        list_ranks(marks, boot->nranks, 1, came, sizeof(came));
        WARN(MOTET_LOG_BOOTSTRAP, "rank %d of %d: init waits for %.1f s at %s: missing ranks: %s; %d of %d ranks came: %s",
             boot->rank, boot->nranks, (double)(motet_now_ns() - boot->opened_ns) / 1e9, boot->where, missing, ncame, boot->nranks,
             came);
    }
    free(marks);
    return result;
}

motetResult_t motet_boot_timed_out(struct motet_boot *boot, const char *stage, const char *suffix)
{
    char missing[200], came[200];
    double waited = (double)(motet_now_ns() - boot->opened_ns) / 1e9;
    uint8_t *marks = calloc((size_t)boot->nranks, 1);
    int ncame = 0;
    motetResult_t result = marks ? probe_ranks(boot, stage, suffix, marks, &ncame) : motetSystemError;
    if (marks && result == motetSuccess) {
        list_ranks(marks, boot->nranks, 0, missing, sizeof(missing));
        list_ranks(marks, boot->nranks, 1, came, sizeof(came));
        result = motet_fail(motetTimeout,
                            "rank %d of %d: timed out after %.1f s in exchange %u at %s: missing ranks: %s; %d of %d ranks "
                            "came: %s",
                            boot->rank, boot->nranks, waited, boot->round, boot->where, missing, ncame, boot->nranks, came);
    } else if (!marks) {
        result =
            motet_fail(motetTimeout, "rank %d of %d: timed out after %.1f s at %s", boot->rank, boot->nranks, waited, boot->where);
    }
    free(marks);
    return result;
}

/* ---- long values */

motetResult_t motet_boot_put_long(struct motet_boot *boot, const char *prefix, const void *bytes, size_t len)
{
    char key[MOTET_BOOT_KEY_MAX + 1];
    size_t first = len < MOTET_BOOT_VALUE_MAX - 8 ? len : MOTET_BOOT_VALUE_MAX - 8;
    uint8_t *piece = malloc(first + 8);
    if (!piece)
        return motet_fail(motetSystemError, "rank %d: out of memory for %zu bytes", boot->rank, first + 8);
    motet_store_u64(piece, len);
    if (first > 0)
        memcpy(piece + 8, bytes, first);
    snprintf(key, sizeof(key), "%s.0", prefix);
    motetResult_t result = boot->kind->put(boot, key, piece, first + 8, boot->deadline_ns);
    free(piece);
    size_t at = first;
    for (unsigned index = 1; result == motetSuccess && at < len; index++) {
        size_t part = len - at < MOTET_BOOT_VALUE_MAX ? len - at : MOTET_BOOT_VALUE_MAX;
        snprintf(key, sizeof(key), "%s.%u", prefix, index);
        result = boot->kind->put(boot, key, (const uint8_t *)bytes + at, part, boot->deadline_ns);
        at += part;
    }
    return result;
}

motetResult_t motet_boot_get_long(struct motet_boot *boot, const char *prefix, uint8_t **bytes, size_t *len)
{
    char key[MOTET_BOOT_KEY_MAX + 1];
    size_t at = 0;
    *bytes = NULL;
    *len = 0;
    for (unsigned index = 0; index == 0 || at < *len; index++) {
        void *piece = NULL;
        size_t piece_len = 0, head = index == 0 ? 8 : 0;
        snprintf(key, sizeof(key), "%s.%u", prefix, index);
        motetResult_t result = motet_boot_wait(boot, key, &piece, &piece_len);
        if (result == motetSuccess && index == 0 && piece_len >= 8)
            *len = motet_load_u64(piece);
        bool fits = piece_len >= head && *len <= BLOB_MAX && piece_len - head <= *len - at && (piece_len > head || *len == 0);
        if (result == motetSuccess && !fits)
            result = motet_fail(motetInternalError, "rank %d: %s at %s is malformed", boot->rank, key, boot->where);
        if (result == motetSuccess && index == 0 && !(*bytes = malloc(*len + 1)))
            result = motet_fail(motetSystemError, "rank %d: out of memory for %zu bytes", boot->rank, *len);
        if (result == motetSuccess)
            memcpy(*bytes + at, (uint8_t *)piece + head, piece_len - head);
        at += result == motetSuccess ? piece_len - head : 0;
        free(piece);
        if (result != motetSuccess) {
            free(*bytes);
            *bytes = NULL;
            return result;
        }
    }
    return motetSuccess;
}

/* ---- all-gather */

static size_t aligned(size_t len)
{
    return (len + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* One block: pointers, lengths, blobs; the lengths are filled in. NULL: out of memory. */
static void **lay_out(int nranks, const size_t *lens, size_t **lens_out)
{
    size_t n = (size_t)nranks, total = aligned(n * (sizeof(void *) + sizeof(size_t)));
    for (int rank = 0; rank < nranks; rank++)
        total += aligned(lens[rank]);
    void **all = calloc(1, total + ALIGNMENT);
    if (!all)
        return NULL;
    *lens_out = (size_t *)(void *)(all + n);
    char *at = (char *)all + aligned(n * (sizeof(void *) + sizeof(size_t)));
    for (int rank = 0; rank < nranks; rank++) {
        all[rank] = at;
        (*lens_out)[rank] = lens[rank];
        at += aligned(lens[rank]);
    }
    return all;
}

bool motet_boot_unpack(const uint8_t *bytes, size_t len, int nranks, void ***all, size_t **lens)
{
    size_t head = (size_t)nranks * 8, at = head;
    *all = NULL;
    *lens = NULL;
    size_t *claimed = len >= head ? malloc((size_t)nranks * sizeof(*claimed)) : NULL;
    if (!claimed)
        return false;
    bool right = true;
    for (int rank = 0; rank < nranks && right; rank++) {
        uint64_t one = motet_load_u64(bytes + 8 * rank);
        right = one <= len - at;
        claimed[rank] = right ? (size_t)one : 0;
        at += claimed[rank];
    }
    right = right && at == len && (*all = lay_out(nranks, claimed, lens)) != NULL;
    free(claimed);
    if (!right)
        return false;
    at = head;
    for (int rank = 0; rank < nranks; rank++) {
        memcpy((*all)[rank], bytes + at, (*lens)[rank]);
        at += (*lens)[rank];
    }
    return true;
}

/* Appends to a growing byte string. */
static bool append(uint8_t **bytes, size_t *len, size_t *capacity, const void *more, size_t more_len)
{
    if (*len + more_len > *capacity) {
        size_t larger = 2 * (*len + more_len);
        uint8_t *moved = realloc(*bytes, larger);
        if (!moved)
            return false;
        *bytes = moved;
        *capacity = larger;
    }
    if (more_len > 0)
        memcpy(*bytes + *len, more, more_len);
    *len += more_len;
    return true;
}

/* Rank 0: reads every rank's blob, in any order of arrival since gets wait. */
static motetResult_t combine(struct motet_boot *boot, const void *blob, size_t len, uint8_t **combined, size_t *combined_len)
{
    size_t head = (size_t)boot->nranks * 8, capacity = head + (size_t)boot->nranks * (len + 64);
    char prefix[64];
    *combined_len = head;
    *combined = calloc(1, capacity);
    if (!*combined)
        return motet_fail(motetSystemError, "rank 0: out of memory for %zu bytes", capacity);
    for (int rank = 0; rank < boot->nranks; rank++) {
        uint8_t *theirs = NULL;
        size_t theirs_len = len;
        snprintf(prefix, sizeof(prefix), "gather%u.%d", boot->round, rank);
        if (rank != 0)
            TRY(motet_boot_get_long(boot, prefix, &theirs, &theirs_len));
        bool fits = append(combined, combined_len, &capacity, rank == 0 ? blob : theirs, theirs_len);
        motet_store_u64(*combined + 8 * rank, theirs_len);
        free(theirs);
        if (!fits)
            return motet_fail(motetSystemError, "rank 0: out of memory for the blobs of %d ranks", boot->nranks);
    }
    return motetSuccess;
}

static motetResult_t exchange(struct motet_boot *boot, const void *blob, size_t len, uint8_t **combined, size_t *combined_len)
{
    char prefix[64];
    *combined = NULL;
    if (boot->rank == 0) {
        snprintf(prefix, sizeof(prefix), "gather%u.0", boot->round); /* only says that rank 0 is there */
        TRY(motet_boot_put_long(boot, prefix, NULL, 0));
        motetResult_t result = combine(boot, blob, len, combined, combined_len);
        snprintf(prefix, sizeof(prefix), "all%u", boot->round);
        return result == motetSuccess ? motet_boot_put_long(boot, prefix, *combined, *combined_len) : result;
    }
    snprintf(prefix, sizeof(prefix), "gather%u.%d", boot->round, boot->rank);
    TRY(motet_boot_put_long(boot, prefix, blob, len));
    snprintf(prefix, sizeof(prefix), "all%u", boot->round);
    return motet_boot_get_long(boot, prefix, combined, combined_len);
}

/* Alone, or without a meeting point. */
static motetResult_t gather_own(const void *blob, size_t len, void ***all, size_t **lens)
{
    *all = lay_out(1, &len, lens);
    if (!*all)
        return motet_fail(motetSystemError, "out of memory for %zu bytes", len);
    if (len > 0)
        memcpy((*all)[0], blob, len);
    return motetSuccess;
}

motetResult_t motet_boot_allgather(struct motet_boot *boot, const void *blob, size_t len, void ***all, size_t **lens)
{
    uint8_t *combined = NULL;
    size_t combined_len = 0;
    char stage[32];
    *all = NULL;
    *lens = NULL;
    if (boot->nranks == 1)
        return gather_own(blob, len, all, lens);
    boot->gathers = true;
    motetResult_t result = len > BLOB_MAX ? motet_fail(motetInternalError, "a blob of %zu bytes", len)
                                          : exchange(boot, blob, len, &combined, &combined_len);
    snprintf(stage, sizeof(stage), "gather%u", boot->round);
    if (result == motetTimeout && !boot->heard)
        result = motet_boot_timed_out(boot, stage, ".0");
    if (result == motetSuccess && !motet_boot_unpack(combined, combined_len, boot->nranks, all, lens))
        result = motet_fail(motetInternalError, "rank %d: exchange %u at %s is malformed", boot->rank, boot->round, boot->where);
    free(combined);
    boot->gathers = false;
    boot->round++;
    if (result != motetSuccess)
        motet_boot_give_up(boot, result, motet_error_text());
    return result;
}

void motet_boot_give_up(struct motet_boot *boot, motetResult_t code, const char *text)
{
    char copy[700], whole[800];
    uint8_t value[900];
    if (!boot->kind || boot->gave_up || boot->heard || boot->nranks == 1)
        return;
    boot->gave_up = true;
    snprintf(copy, sizeof(copy), "%s", text); /* text may be this thread's last sentence, which the next failure replaces */
    if (boot->kind->give_up) {
        boot->kind->give_up(boot, code, copy);
    } else {
        snprintf(whole, sizeof(whole), "rank %d (pid %d on %s) gave up: %s", boot->rank, (int)getpid(), motet_host_name(), copy);
        /* The first to fail wins; later ones find the key taken, which is as it should be. */
        boot->kind->put(boot, failed_key, value, motet_failure_encode(code, whole, value, sizeof(value)),
                        motet_now_ns() + 1000000000ull);
    }
    motet_fail_quiet(code, "%s", copy); /* the caller's error is still the one to report */
}

void motet_boot_close(struct motet_boot *boot)
{
    char text[MOTET_ERROR_TEXT_MAX];
    snprintf(text, sizeof(text), "%s", motet_error_text());
    if (boot->kind)
        boot->kind->close(boot);
    boot->kind = NULL;
    /* Closing is no cause of anything: the sentence that brought the caller here stays. */
    if (text[0] != '\0')
        motet_fail_quiet(motetInternalError, "%s", text);
    explicit_bzero(&boot->secret, sizeof(boot->secret));
}
