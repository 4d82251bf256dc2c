/* SPDX-License-Identifier: Apache-2.0
 * Keys of the meeting: hello.R = who rank R is and its nonce; welcome = the secret, the number of ranks, all nonces. A rank that does not
 * find its own nonce in the welcome shares its number with another process, or reads what an earlier job has left. */
#include "boot/meeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/os.h"
#include "boot/frame.h"

#define NONCE_LEN        MOTET_MEETING_NONCE_LEN
#define CARD_LEN         (MOTET_HELLO_LEN + NONCE_LEN)
#define PROBE_NS         1000000ull /* to ask once whether a key is there */
#define SLICE_FIRST_NS   (50 * 1000000ull)
#define SLICE_LONGEST_NS (1000 * 1000000ull)
#define WELCOME_HEAD     (32 + 4 + 4) /* secret, protocol, number of ranks */

static const char welcome_key[] = "welcome";

static void describe(const struct motet_hello *hello, char text[128])
{
    snprintf(text, 128, "rank %u (pid %u on %s)", hello->rank, hello->pid, hello->host);
}

/* Another process has stored a hello under this rank's number. */
static motetResult_t came_twice(struct motet_boot *boot, const uint8_t *card, size_t len)
{
    struct motet_hello other = {0};
    if (len < CARD_LEN || !motet_hello_parse(card, len, &other))
        return motet_fail(motetInvalidUsage, "rank %d: foreign data under this rank's key at %s", boot->rank, boot->where);
    return motet_fail(motetInvalidUsage,
                      "rank %d came twice: pid %u on %s and pid %d on %s (met at %s); if one of them is of an earlier "
                      "job, every communicator needs a meeting point of its own",
                      boot->rank, other.pid, other.host, (int)getpid(), motet_host_name(), boot->where);
}

static motetResult_t check_card(struct motet_boot *boot, int rank, const uint8_t *card, size_t len)
{
    struct motet_hello hello;
    char who[128];
    if (len < CARD_LEN || !motet_hello_parse(card, len, &hello))
        return motet_fail(motetInternalError, "the hello of rank %d at %s is malformed", rank, boot->where);
    describe(&hello, who);
    if (hello.protocol != MOTET_BOOT_PROTOCOL)
        return motet_fail(motetInvalidUsage, "%s speaks bootstrap protocol %u, rank 0 (pid %d on %s) speaks protocol %u", who,
                          hello.protocol, (int)getpid(), motet_host_name(), MOTET_BOOT_PROTOCOL);
    if (hello.nranks != (uint32_t)boot->nranks || hello.rank != (uint32_t)rank)
        return motet_fail(motetInvalidUsage, "%s says that there are %u ranks, rank 0 (pid %d on %s) says %d (met at %s)", who,
                          hello.nranks, (int)getpid(), motet_host_name(), boot->nranks, boot->where);
    return motetSuccess;
}

/* Rank 0: the welcome from everybody's hello. */
static motetResult_t fill_welcome(struct motet_boot *boot, const uint8_t *own_card, uint8_t *welcome)
{
    char key[64];
    memcpy(welcome, boot->secret.bytes, sizeof(boot->secret.bytes));
    motet_store_u32(welcome + 32, MOTET_BOOT_PROTOCOL);
    motet_store_u32(welcome + 36, (uint32_t)boot->nranks);
    for (int rank = 0; rank < boot->nranks; rank++) {
        void *card = NULL;
        size_t len = 0;
        snprintf(key, sizeof(key), "hello.%d", rank);
        TRY(motet_boot_wait(boot, key, &card, &len));
        motetResult_t result = check_card(boot, rank, card, len);
        if (result == motetSuccess)
            memcpy(welcome + WELCOME_HEAD + (size_t)rank * NONCE_LEN, (uint8_t *)card + MOTET_HELLO_LEN, NONCE_LEN);
        if (result == motetSuccess && rank == 0 && memcmp(card, own_card, CARD_LEN) != 0)
            result = came_twice(boot, card, len);
        free(card);
        TRY(result);
    }
    return motetSuccess;
}

static motetResult_t welcome_all(struct motet_boot *boot, const uint8_t *own_card)
{
    void *earlier = NULL;
    size_t len = WELCOME_HEAD + (size_t)boot->nranks * NONCE_LEN;
    char key[64];
    snprintf(key, sizeof(key), "%s.0", welcome_key);
    motetResult_t result = boot->kind->get(boot, key, &earlier, &(size_t){0}, motet_now_ns() + PROBE_NS);
    free(earlier);
    if (result == motetSuccess)
        return motet_fail(motetInvalidUsage,
                          "rank 0: %s has served a communicator before: every communicator needs a meeting point of its own",
                          boot->where);
    if (result != motetTimeout)
        return result;
    TRY(motet_random(boot->secret.bytes, sizeof(boot->secret.bytes)));
    uint8_t *welcome = malloc(len);
    if (!welcome)
        return motet_fail(motetSystemError, "rank 0: out of memory for %zu bytes", len);
    result = fill_welcome(boot, own_card, welcome);
    if (result == motetSuccess)
        result = motet_boot_put_long(boot, welcome_key, welcome, len);
    explicit_bzero(welcome, len);
    free(welcome);
    return result;
}

static motetResult_t check_welcome(struct motet_boot *boot, const uint8_t *own_card, const uint8_t *welcome, size_t len)
{
    if (len < WELCOME_HEAD)
        return motet_fail(motetInternalError, "rank %d: the welcome at %s is malformed", boot->rank, boot->where);
    uint32_t protocol = motet_load_u32(welcome + 32), nranks = motet_load_u32(welcome + 36);
    if (protocol != MOTET_BOOT_PROTOCOL)
        return motet_fail(motetInvalidUsage,
                          "rank %d (pid %d on %s) speaks bootstrap protocol %u, rank 0 speaks protocol %u (met at %s)", boot->rank,
                          (int)getpid(), motet_host_name(), MOTET_BOOT_PROTOCOL, protocol, boot->where);
    if (nranks != (uint32_t)boot->nranks)
        return motet_fail(motetInvalidUsage, "rank %d (pid %d on %s) says that there are %d ranks, rank 0 says %u (met at %s)",
                          boot->rank, (int)getpid(), motet_host_name(), boot->nranks, nranks, boot->where);
    size_t at = WELCOME_HEAD + (size_t)boot->rank * NONCE_LEN;
    if (len != WELCOME_HEAD + (size_t)nranks * NONCE_LEN)
        return motet_fail(motetInternalError, "rank %d: the welcome at %s is malformed", boot->rank, boot->where);
    if (memcmp(welcome + at, own_card + MOTET_HELLO_LEN, NONCE_LEN) == 0) {
        memcpy(boot->secret.bytes, welcome, sizeof(boot->secret.bytes));
        return motetSuccess;
    }
    char key[64];
    void *card = NULL;
    size_t card_len = 0;
    snprintf(key, sizeof(key), "hello.%d", boot->rank);
    motetResult_t result = boot->kind->get(boot, key, &card, &card_len, motet_now_ns() + PROBE_NS);
    bool other = result == motetSuccess && (card_len != CARD_LEN || memcmp(card, own_card, CARD_LEN) != 0);
    result = other ? came_twice(boot, card, card_len)
                   : motet_fail(motetInvalidUsage,
                                "rank %d: the welcome at %s is meant for another process of this rank: a duplicate, or "
                                "left by an earlier job",
                                boot->rank, boot->where);
    free(card);
    return result;
}

/* A store cannot refuse a second hello of one rank, so each looks whether its own is still there while it waits. */
static motetResult_t await_welcome(struct motet_boot *boot, const uint8_t *own_card)
{
    char welcome[64], hello[64];
    snprintf(welcome, sizeof(welcome), "%s.0", welcome_key);
    snprintf(hello, sizeof(hello), "hello.%d", boot->rank);
    for (uint64_t slice_ns = SLICE_FIRST_NS;; slice_ns = slice_ns < SLICE_LONGEST_NS ? 2 * slice_ns : SLICE_LONGEST_NS) {
        void *value = NULL;
        size_t len = 0;
        uint64_t until_ns = motet_now_ns() + slice_ns;
        motetResult_t result =
            boot->kind->get(boot, welcome, &value, &len, until_ns < boot->deadline_ns ? until_ns : boot->deadline_ns);
        free(value);
        if (result != motetTimeout)
            return result;
        TRY(motet_boot_check(boot));
        result = boot->kind->get(boot, hello, &value, &len, motet_now_ns() + PROBE_NS);
        bool other = result == motetSuccess && (len != CARD_LEN || memcmp(value, own_card, CARD_LEN) != 0);
        if (other)
            result = came_twice(boot, value, len);
        free(value);
        if (other || (result != motetSuccess && result != motetTimeout))
            return result;
        if (motet_now_ns() >= boot->deadline_ns)
            return motetTimeout;
    }
}

static motetResult_t be_welcomed(struct motet_boot *boot, const uint8_t *own_card)
{
    uint8_t *welcome = NULL;
    size_t len = 0;
    TRY(await_welcome(boot, own_card));
    TRY(motet_boot_get_long(boot, welcome_key, &welcome, &len));
    motetResult_t result = check_welcome(boot, own_card, welcome, len);
    explicit_bzero(welcome, len);
    free(welcome);
    return result;
}

static motetResult_t say_hello(struct motet_boot *boot, uint8_t card[CARD_LEN])
{
    struct motet_hello hello = {
        .protocol = MOTET_BOOT_PROTOCOL, .rank = (uint32_t)boot->rank, .nranks = (uint32_t)boot->nranks, .pid = (uint32_t)getpid()};
    char key[64];
    void *other = NULL;
    size_t len = 0;
    snprintf(hello.host, sizeof(hello.host), "%s", motet_host_name());
    motet_hello_encode(&hello, card);
    TRY(motet_random(card + MOTET_HELLO_LEN, NONCE_LEN));
    snprintf(key, sizeof(key), "hello.%d", boot->rank);
    motetResult_t result = boot->kind->get(boot, key, &other, &len, motet_now_ns() + PROBE_NS), stored = motetInternalError;
    if (result == motetTimeout)
        result = stored = boot->kind->put(boot, key, card, CARD_LEN, boot->deadline_ns);
    if (stored == motetInvalidUsage) /* somebody was faster by a moment */
        result = boot->kind->get(boot, key, &other, &len, motet_now_ns() + PROBE_NS);
    if (stored != motetSuccess && result == motetSuccess)
        result = came_twice(boot, other, len);
    free(other);
    return result;
}

motetResult_t motet_meeting_hold(struct motet_boot *boot)
{
    uint8_t card[CARD_LEN];
    motetResult_t result = say_hello(boot, card);
    if (result == motetSuccess)
        result = boot->rank == 0 ? welcome_all(boot, card) : be_welcomed(boot, card);
    if (result == motetTimeout && !boot->heard)
        result = motet_boot_timed_out(boot, "hello", "");
    if (result != motetSuccess)
        motet_boot_give_up(boot, result, motet_error_text());
    return result;
}
