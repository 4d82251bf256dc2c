/* SPDX-License-Identifier: Apache-2.0
 * What MOTET_ALGO and MOTET_PROTO say, in NCCL's grammar: [collective:]list[;collective:list]..., names in any case, ^ before a list
 * excludes it. The first entry may leave out the collective: it applies wherever such an algorithm exists, and the other collectives stay
 * automatic. Knows the table of algorithms, not their cost or shape. */
#ifndef MOTET_PREFERENCE_H
#define MOTET_PREFERENCE_H

#include "coll/coll.h"
#include "motet.h"

/* How payload may travel. SIMPLE, staged, serves everything and is always allowed. */
enum motet_protocol {
    MOTET_PROTO_LL = 1,     /* payload in the line of its sequence word, if it fits */
    MOTET_PROTO_SIMPLE = 2, /* through staging */
    MOTET_PROTO_DIRECT = 4, /* readers take it from the sender's buffers, if they are mapped */
    MOTET_PROTO_ALL = 7,
};

enum motet_preference_kind {
    MOTET_PREFER_NOTHING,   /* automatic */
    MOTET_PREFER_OTHERS,    /* some rows are excluded, the choice among the rest is automatic */
    MOTET_PREFER_SOMEWHERE, /* a list for all collectives names rows of this one */
    MOTET_PREFER_NAMED,     /* an entry for this collective names rows */
};

struct motet_preference {
    bool *allowed; /* by row of the table */
    enum motet_preference_kind kind[MOTET_NCOLLECTIVES];
    uint8_t protocols[MOTET_NCOLLECTIVES]; /* sets of enum motet_protocol */
};

/* Parses both texts ("" = automatic). An unknown collective, algorithm or protocol, and an algorithm that the named collective lacks, is
 * motetInvalidUsage with the names that exist. Frees itself on failure. */
motetResult_t motet_preference_parse(struct motet_preference *preference, const char *algorithms, const char *protocols);
void motet_preference_free(struct motet_preference *preference);

/* Names of the rows of one collective, or of all: "ring, tree, ...", into text. Returns text. */
char *motet_algorithm_names(char *text, size_t len, int collective_or_all);
#define MOTET_ALL_COLLECTIVES (-1)

const char *motet_protocol_name(enum motet_protocol protocol); /* "LL" */

#endif
