/* SPDX-License-Identifier: Apache-2.0
 * One row of status: what one rank of one communicator says in its region. Ages, not times, since clocks of hosts differ. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/os.h"
#include "call_text.h"
#include "counters.h"
#include "segment.h"
#include "status.h"

#define MESSAGES_LOOKED_AT 256 /* a group of more messages than that shows its newest ones */

void motet_status_socket_name(const uint8_t *token, char name[MOTET_STATUS_NAME_MAX])
{
    int at = snprintf(name, MOTET_STATUS_NAME_MAX, "motet-status-");
    for (int i = 0; i < MOTET_SEGMENT_TOKEN_BYTES; i++)
        at += snprintf(name + at, MOTET_STATUS_NAME_MAX - (size_t)at, "%02x", token[i]);
}

bool motet_status_process(int pid, uint64_t *start_ticks, char *state)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = motet_descriptor_lift(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    const char *at = strrchr(text, ')'); /* the command's name may hold anything */
    unsigned long long start;
    if (!at ||
        sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", state, &start) != 2)
        return false;
    *start_ticks = start;
    return true;
}

bool motet_status_expand(const char *pattern, char *path, size_t size)
{
    size_t len = 0;
    for (const char *at = pattern; *at; at++) {
        bool special = at[0] == '%' && at[1] && strchr("hp%", at[1]);
        int added = !special       ? snprintf(path + len, size - len, "%c", *at)
                    : at[1] == 'h' ? snprintf(path + len, size - len, "%s", motet_host_name())
                    : at[1] == 'p' ? snprintf(path + len, size - len, "%d", (int)getpid())
                                   : snprintf(path + len, size - len, "%%");
        at += special;
        len += (size_t)added;
        if (len >= size)
            return false;
    }
    path[len < size ? len : size - 1] = '\0';
    return len < size;
}

static double seconds(uint64_t from_ns, uint64_t now_ns)
{
    return now_ns > from_ns ? (double)(now_ns - from_ns) / 1e9 : 0;
}

/* What the rank is in: a collective that has begun, else the oldest message of the last ones that has. */
static bool find_current(const struct motet_board_entry *entry, struct motet_record *out)
{
    struct motet_record record;
    bool found = false;
    if (entry->calls > 0 && motet_board_call(entry, entry->calls, out) && out->state == MOTET_RECORD_STARTED)
        return true;
    uint64_t span = entry->card.nrecords < MESSAGES_LOOKED_AT ? entry->card.nrecords : MESSAGES_LOOKED_AT;
    for (uint64_t n = entry->messages; n > 0 && n + span > entry->messages; n--)
        if (motet_board_message(entry, n, &record) && record.state == MOTET_RECORD_STARTED) {
            *out = record;
            found = true;
        }
    return found;
}

/* What it completed last, by place. */
static bool find_last(const struct motet_board_entry *entry, struct motet_record *out)
{
    struct motet_record record;
    bool found = false;
    for (uint64_t n = entry->calls; !found && n > 0 && n + 2 > entry->calls; n--)
        found = motet_board_call(entry, n, out) && out->state != MOTET_RECORD_STARTED;
    for (uint64_t n = entry->messages; n > 0 && n + MESSAGES_LOOKED_AT > entry->messages; n--)
        if (motet_board_message(entry, n, &record) && record.state != MOTET_RECORD_STARTED) {
            if (!found || (int32_t)(record.place - out->place) > 0)
                *out = record;
            return true;
        }
    return found;
}

static void write_call(struct motet_json *json, const char *key, const struct motet_record *record, uint64_t now_ns)
{
    char text[160];
    motet_json_begin(json, key, '{');
    motet_json_text(json, "what", motet_call_text(text, sizeof text, record));
    motet_json_text(json, "name", motet_call_name(text, sizeof text, record));
    motet_json_bool(json, "is_message", motet_call_is_message(record));
    motet_json_int(json, "number", (int64_t)atomic_load_explicit(&record->seq, memory_order_relaxed) - 1);
    if (motet_call_is_message(record))
        motet_json_int(json, "peer", record->root);
    else
        motet_json_int(json, "history", record->history);
    motet_json_real(json, "began_s", seconds(record->begin_ns, now_ns));
    if (record->end_ns)
        motet_json_real(json, "ended_s", seconds(record->end_ns, now_ns));
    motet_json_bool(json, "failed", record->state == MOTET_RECORD_FAILED);
    motet_json_text(json, "algorithm", motet_call_algorithm(record));
    motet_json_text(json, "protocol", motet_call_protocol(record));
    motet_json_text(json, "transport", motet_call_transports(text, sizeof text, record->transports));
    motet_json_end(json, '}');
}

static void write_who(struct motet_json *json, const struct motet_board_entry *entry)
{
    static const char *const states[] = {"alive", "finalized", "aborted"};
    const struct motet_card *card = &entry->card;
    uint64_t start_ticks;
    char state[2] = "?";
    motet_json_text(json, "comm", card->name);
    motet_json_hex(json, "id", card->id);
    motet_json_int(json, "nranks", card->nranks);
    motet_json_int(json, "rank", card->rank);
    motet_json_int(json, "pid", card->pid);
    motet_json_text(json, "host", card->host);
    motet_json_text(json, "state", entry->state <= MOTET_RANK_ABORTED ? states[entry->state] : "?");
    if (!motet_status_process(card->pid, &start_ticks, state) || start_ticks != card->start_ticks)
        state[0] = '?'; /* another pid namespace, or gone */
    motet_json_text(json, "process", state);
    motet_json_begin(json, "peers", '{');
    motet_json_int(json, "P2P/direct", card->nthreads);
    motet_json_int(json, "SHM", card->nshm);
    motet_json_int(json, "NET/Socket", card->nnet);
    motet_json_end(json, '}');
    motet_json_real(json, "timeout_s", (double)card->timeout_ms / 1e3);
}

struct rows {
    struct motet_json *json;
    uint64_t now_ns;
};

/* A row that does not fit is left out whole. */
static void write_row(void *context, const struct motet_board_entry *entry)
{
    struct rows *rows = context;
    struct motet_json *json = rows->json;
    struct motet_record record;
    size_t before = json->len;
    motet_json_begin(json, NULL, '{');
    write_who(json, entry);
    motet_json_int(json, "calls", (int64_t)entry->calls);
    motet_json_int(json, "messages", (int64_t)entry->messages);
    motet_json_int(json, "bytes", (int64_t)entry->bytes);
    motet_json_int(json, "queued", entry->queued);
    if (find_current(entry, &record))
        write_call(json, "current", &record, rows->now_ns);
    if (find_last(entry, &record))
        write_call(json, "last", &record, rows->now_ns);
    motet_json_real(json, "idle_s", seconds(entry->end_ns ? entry->end_ns : entry->card.created_ns, rows->now_ns));
    if (entry->wait_ns) {
        motet_json_real(json, "waits_s", seconds(entry->wait_ns, rows->now_ns));
        motet_json_int(json, "waits_for", entry->waits_for);
    }
    motet_counters_write(json, entry->region);
    if (entry->failed)
        motet_json_text(json, "error", entry->fault);
    motet_json_end(json, '}');
    if (json->failed)
        motet_json_cut(json, before);
}

void motet_status_rows(struct motet_json *json, const char *segment, size_t len)
{
    struct rows rows = {.json = json, .now_ns = motet_now_ns()};
    motet_board_read(segment, len, write_row, &rows);
}
