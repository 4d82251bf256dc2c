/* SPDX-License-Identifier: Apache-2.0
 * The grammar of MOTET_ALGO and MOTET_PROTO. One reader walks entries and tokens; what a token means is a small function per setting. */
#include "preference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"

#define NAME_MAX_LEN 64
#define NAMES_MAX    768

/* ---- Names ---- */

const char *motet_protocol_name(enum motet_protocol protocol)
{
    return protocol == MOTET_PROTO_LL ? "LL" : protocol == MOTET_PROTO_SIMPLE ? "Simple" : "Direct";
}

static void append_name(char *text, size_t len, const char *name)
{
    size_t used = strlen(text);
    snprintf(text + used, len - used, "%s%s", used ? ", " : "", name);
}

char *motet_algorithm_names(char *text, size_t len, int collective_or_all)
{
    text[0] = '\0';
    for (int a = 0; a < motet_nalgorithms; a++) {
        const struct motet_algorithm *row = &motet_algorithms[a];
        bool seen = false;
        if (collective_or_all >= 0 && (int)row->collective != collective_or_all)
            continue;
        for (int b = 0; b < a && collective_or_all < 0; b++)
            seen |= strcmp(motet_algorithms[b].name, row->name) == 0;
        if (!seen)
            append_name(text, len, row->name);
    }
    return text;
}

static char *collective_names(char *text, size_t len)
{
    text[0] = '\0';
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++)
        append_name(text, len, motet_collective_name((enum motet_collective)c));
    return text;
}

/* Row of this collective, by any of its names; -1. */
static int find_row(int collective, const char *name)
{
    const struct motet_algorithm *row = motet_algorithm_find((enum motet_collective)collective, name);
    return row ? (int)(row - motet_algorithms) : -1;
}

/* ---- One list ---- */

struct list {
    const char *setting; /* "MOTET_ALGO" */
    struct motet_preference *preference;
    int collective; /* MOTET_ALL_COLLECTIVES for the entry that names none */
    bool excludes;
    bool *named;        /* rows of the table that a token named */
    unsigned protocols; /* protocols that a token named */
};

static motetResult_t name_algorithm(struct list *list, const char *token)
{
    char names[NAMES_MAX];
    bool found = false;
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        int row = list->collective < 0 || list->collective == c ? find_row(c, token) : -1;
        if (row >= 0)
            list->named[row] = found = true;
    }
    if (found)
        return motetSuccess;
    motet_algorithm_names(names, sizeof(names), list->collective);
    if (list->collective < 0)
        return motet_fail(motetInvalidUsage, "%s: unknown algorithm \"%s\"; there are %s", list->setting, token, names);
    return motet_fail(motetInvalidUsage, "%s: %s has no algorithm \"%s\"; it has %s", list->setting,
                      motet_collective_name((enum motet_collective)list->collective), token, names);
}

static motetResult_t name_protocol(struct list *list, const char *token)
{
    static bool said; /* once per process, however many communicators it has */
    static const struct {
        const char *name;
        enum motet_protocol protocol;
    } protocols[] = {
        {"LL", MOTET_PROTO_LL}, {"Simple", MOTET_PROTO_SIMPLE}, {"Direct", MOTET_PROTO_DIRECT}, {"LL128", MOTET_PROTO_LL}};
    for (size_t p = 0; p < sizeof(protocols) / sizeof(protocols[0]); p++) {
        if (strcasecmp(token, protocols[p].name) != 0)
            continue;
        list->protocols |= protocols[p].protocol;
        if (strcasecmp(token, "LL128") == 0 && !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
            INFO(MOTET_LOG_ENV | MOTET_LOG_TUNING, "%s: LL128 is read as LL: a line is 64 bytes here", list->setting);
        return motetSuccess;
    }
    return motet_fail(motetInvalidUsage, "%s: unknown protocol \"%s\"; there are LL, Simple, Direct", list->setting, token);
}

/* Turns what the list named into what is allowed for one collective. */
static motetResult_t apply_algorithms(struct list *list, int collective)
{
    struct motet_preference *preference = list->preference;
    int named = 0, rows = 0;
    for (int a = 0; a < motet_nalgorithms; a++) {
        rows += (int)motet_algorithms[a].collective == collective;
        named += (int)motet_algorithms[a].collective == collective && list->named[a];
    }
    bool exhausts = list->excludes && named == rows;
    if (exhausts && list->collective >= 0)
        return motet_fail(motetInvalidUsage, "%s excludes every algorithm of %s", list->setting,
                          motet_collective_name((enum motet_collective)collective));
    bool automatic = named == 0 || exhausts;
    for (int a = 0; a < motet_nalgorithms; a++) {
        if ((int)motet_algorithms[a].collective == collective)
            preference->allowed[a] = automatic || list->named[a] != list->excludes;
    }
    preference->kind[collective] = automatic               ? MOTET_PREFER_NOTHING
                                   : list->excludes        ? MOTET_PREFER_OTHERS
                                   : list->collective >= 0 ? MOTET_PREFER_NAMED
                                                           : MOTET_PREFER_SOMEWHERE;
    return motetSuccess;
}

static motetResult_t apply_protocols(struct list *list, int collective)
{
    unsigned allowed = list->excludes ? MOTET_PROTO_ALL & ~list->protocols : list->protocols;
    list->preference->protocols[collective] = (uint8_t)(allowed | MOTET_PROTO_SIMPLE);
    return motetSuccess;
}

/* ---- The grammar ---- */

struct setting {
    const char *name;
    motetResult_t (*token)(struct list *list, const char *token);
    motetResult_t (*apply)(struct list *list, int collective);
};

static motetResult_t read_collective(const char *setting, const char *text, size_t len, int *collective)
{
    char names[NAMES_MAX];
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        const char *name = motet_collective_name((enum motet_collective)c);
        if (strlen(name) == len && strncasecmp(name, text, len) == 0) {
            *collective = c;
            return motetSuccess;
        }
    }
    return motet_fail(motetInvalidUsage, "%s: unknown collective \"%.*s\"; there are %s", setting, (int)len, text,
                      collective_names(names, sizeof(names)));
}

/* Reads "a,b,c" of len bytes. */
static motetResult_t read_tokens(const struct setting *setting, struct list *list, const char *text, size_t len)
{
    char token[NAME_MAX_LEN];
    for (const char *end = text + len, *at = text; at <= end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t token_len = (size_t)((comma ? comma : end) - at);
        if (token_len == 0)
            return motet_fail(motetInvalidUsage, "%s: a name is missing in \"%.*s\"", setting->name, (int)len, text);
        snprintf(token, sizeof(token), "%.*s", (int)token_len, at);
        TRY(setting->token(list, token));
        at += token_len + 1;
    }
    return motetSuccess;
}

/* Reads one "[collective:][^]list" of len bytes and applies it. */
static motetResult_t read_entry(const struct setting *setting, struct list *list, const char *text, size_t len, bool is_first)
{
    const char *colon = memchr(text, ':', len);
    list->collective = MOTET_ALL_COLLECTIVES;
    list->protocols = 0;
    memset(list->named, 0, (size_t)motet_nalgorithms * sizeof(*list->named));
    if (colon) {
        TRY(read_collective(setting->name, text, (size_t)(colon - text), &list->collective));
        len -= (size_t)(colon + 1 - text);
        text = colon + 1;
    } else if (!is_first) {
        return motet_fail(motetInvalidUsage, "%s: \"%.*s\" names no collective; only the first entry may leave it out",
                          setting->name, (int)len, text);
    }
    list->excludes = len > 0 && text[0] == '^';
    TRY(read_tokens(setting, list, text + list->excludes, len - list->excludes));
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        if (list->collective < 0 || list->collective == c)
            TRY(setting->apply(list, c));
    }
    return motetSuccess;
}

static motetResult_t read_setting(const struct setting *setting, struct motet_preference *preference, const char *text)
{
    bool *named = calloc((size_t)motet_nalgorithms, sizeof(*named));
    struct list list = {.setting = setting->name, .preference = preference, .named = named};
    motetResult_t result = named ? motetSuccess : motet_fail(motetSystemError, "out of memory for %s", setting->name);
    for (const char *at = text; result == motetSuccess && *at;) {
        size_t len = strcspn(at, ";");
        result = read_entry(setting, &list, at, len, at == text);
        at += len + (at[len] == ';');
    }
    free(named);
    return result;
}

motetResult_t motet_preference_parse(struct motet_preference *preference, const char *algorithms, const char *protocols)
{
    static const struct setting algo = {"MOTET_ALGO", name_algorithm, apply_algorithms};
    static const struct setting proto = {"MOTET_PROTO", name_protocol, apply_protocols};
    *preference = (struct motet_preference){.allowed = malloc((size_t)motet_nalgorithms * sizeof(bool))};
    if (!preference->allowed)
        return motet_fail(motetSystemError, "out of memory for MOTET_ALGO");
    memset(preference->allowed, true, (size_t)motet_nalgorithms * sizeof(bool));
    memset(preference->protocols, MOTET_PROTO_ALL, sizeof(preference->protocols));
    motetResult_t result = read_setting(&algo, preference, algorithms);
    if (result == motetSuccess)
        result = read_setting(&proto, preference, protocols);
    if (result != motetSuccess)
        motet_preference_free(preference);
    return result;
}

void motet_preference_free(struct motet_preference *preference)
{
    free(preference->allowed);
    preference->allowed = NULL;
}
