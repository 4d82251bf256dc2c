/* SPDX-License-Identifier: Apache-2.0
 * Recorded calls in words. Bytes of a record may come from another process, so every table is indexed with care. */
#include "call_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "coll/coll.h"
#include "p2p.h"
#include "reduce/reduce.h"

const char *motet_call_name(char *text, size_t len, const struct motet_record *record)
{
    if (motet_call_is_message(record))
        snprintf(text, len, "%s%s", record->collective == MOTET_RECORD_SEND ? "Send" : "Recv",
                 (int32_t)record->counts_hash == MOTET_UNTAGGED ? "" : "Tag");
    else if (record->collective < MOTET_NCOLLECTIVES)
        snprintf(text, len, "%s%s", motet_collective_name((enum motet_collective)record->collective), record->counts ? "V" : "");
    else
        snprintf(text, len, "?");
    return text;
}

static const char *dtype_name(const struct motet_record *record)
{
    const struct motet_dtype *dtype = motet_dtype_row((motetDataType_t)record->dtype);
    return dtype ? dtype->name : "?";
}

/* Appends to text; what does not fit is cut. */
#define APPEND(...) used += used < len ? (size_t)snprintf(text + used, len - used, __VA_ARGS__) : 0

static void print_message(char *text, size_t len, const struct motet_record *record)
{
    size_t used = 0;
    int32_t tag = (int32_t)record->counts_hash;
    APPEND("(%" PRIu64 " x %s", record->count, dtype_name(record));
    if (tag == MOTET_ANY_TAG)
        APPEND(", any tag");
    else if (tag != MOTET_UNTAGGED)
        APPEND(", tag %d", tag);
    APPEND(") %s ", record->collective == MOTET_RECORD_SEND ? "to" : "from");
    if (record->root >= 0)
        APPEND("rank %d", record->root);
    else
        APPEND("any rank");
}

static void print_collective(char *text, size_t len, const struct motet_record *record)
{
    size_t used = 0;
    if (record->collective >= MOTET_NCOLLECTIVES || record->collective == MOTET_BARRIER) {
        APPEND("()");
        return;
    }
    if (record->counts)
        APPEND("(counts of hash %08x x %s", record->counts_hash, dtype_name(record));
    else
        APPEND("(%" PRIu64 " x %s", record->count, dtype_name(record));
    if (record->op != 0xff)
        APPEND(", %s", motet_op_name((motetRedOp_t)record->op));
    if (motet_collective_has_root((enum motet_collective)record->collective))
        APPEND(", root %d", record->root);
    APPEND("%s)", record->group ? ", in a group" : "");
}

const char *motet_call_text(char *text, size_t len, const struct motet_record *record)
{
    size_t used = 0;
    motet_call_name(text, len, record);
    while (text[used])
        used++;
    if (motet_call_is_message(record))
        print_message(text + used, len - used, record);
    else
        print_collective(text + used, len - used, record);
    return text;
}

const char *motet_call_protocol(const struct motet_record *record)
{
    static const char *const names[] = {"", "LL", "Simple", "Direct"};
    return record->protocol < sizeof names / sizeof names[0] ? names[record->protocol] : "";
}

const char *motet_call_transports(char *text, size_t len, unsigned transports)
{
    size_t used = 0;
    text[0] = '\0';
    if (transports & MOTET_RECORD_THREADS)
        APPEND("P2P/direct");
    if (transports & MOTET_RECORD_SHM)
        APPEND("%sSHM", used ? "+" : "");
    if (transports & MOTET_RECORD_NET)
        APPEND("%sNET/Socket", used ? "+" : "");
    return text;
}

const char *motet_call_algorithm(const struct motet_record *record)
{
    return !motet_call_is_message(record) && record->algorithm < motet_nalgorithms ? motet_algorithms[record->algorithm].name : "";
}
