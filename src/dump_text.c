/* SPDX-License-Identifier: Apache-2.0
 * A dump as JSON, in the shape of PyTorch's dump_nccl_trace as far as it fits: version, pg_config, pg_status, entries; ours beside it:
 * clock, steps, and in each entry rank, root, algorithm, protocol, transport. One process may hold several ranks. */
#include "dump_text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "board.h"
#include "call_text.h"
#include "counters.h"
#include "ledger.h"
#include "coll/coll.h"
#include "reduce/reduce.h"
#include "segment.h"
#include "steps.h"

#define SCHEDULED_MAX (4u << 20) /* records in all: a queue that is longer is cut */
#define KEPT_MAX      256        /* communicators of a traced process that are remembered after their end */

/* A region's records, copied so that the board is not held while they are printed. In order of place. */
struct snapshot {
    struct motet_board_entry entry;
    struct motet_record *records;
    size_t n;
    uint64_t scheduled_calls;               /* of them: collectives that have not begun */
    char late[MOTET_COUNTERS_SENTENCE_MAX]; /* who keeps the others waiting */
    struct snapshot *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct snapshot *kept, **kept_end = &kept;
static int nkept;

/* ---- Snapshots ---- */

static int compare_places(const void *a, const void *b)
{
    const struct motet_record *x = a, *y = b;
    int32_t difference = (int32_t)(x->place - y->place);
    return (difference > 0) - (difference < 0);
}

static uint64_t oldest(const struct motet_board_entry *entry, uint64_t newest)
{
    return newest > entry->card.nrecords ? newest - entry->card.nrecords + 1 : 1;
}

/* Appends what stands in the queue and had not begun when the rings were read. */
static void add_scheduled(void *context, motetComm_t comm)
{
    struct snapshot *snapshot = context;
    struct motet_record record;
    uint32_t place = snapshot->n > 0 ? snapshot->records[snapshot->n - 1].place : 0;
    pthread_mutex_lock(&comm->queue_lock);
    for (const struct motet_scheduled *at = comm->scheduled_first; at; at = at->next)
        for (int i = 0; at->describe(at, i, &record); i++) {
            bool message = motet_call_is_message(&record);
            uint64_t number = message ? at->messages + (uint64_t)i : at->calls;
            struct motet_record *grown =
                number > (message ? snapshot->entry.messages : snapshot->entry.calls) && snapshot->n < SCHEDULED_MAX
                    ? realloc(snapshot->records, (snapshot->n + 1) * sizeof *grown)
                    : NULL;
            if (!grown)
                continue;
            snapshot->records = grown;
            record.begin_ns = at->since_ns;
            record.place = ++place;
            atomic_init(&record.seq, number + 1);
            snapshot->records[snapshot->n++] = record;
            snapshot->scheduled_calls += !message;
        }
    pthread_mutex_unlock(&comm->queue_lock);
}

static struct snapshot *take_snapshot(const struct motet_board_entry *entry)
{
    uint64_t first_call = oldest(entry, entry->calls), first_message = oldest(entry, entry->messages);
    size_t room = (size_t)(entry->calls + 1 - first_call + entry->messages + 1 - first_message);
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    struct motet_record *records = snapshot ? malloc(room * sizeof *records + MOTET_LINE) : NULL;
    if (!records) {
        free(snapshot);
        return NULL;
    }
    snapshot->entry = *entry;
    motet_counters_late(entry->region, snapshot->late);
    snapshot->records = records;
    for (uint64_t n = first_call; n <= entry->calls; n++)
        snapshot->n += motet_board_call(entry, n, &records[snapshot->n]);
    for (uint64_t n = first_message; n <= entry->messages; n++)
        snapshot->n += motet_board_message(entry, n, &records[snapshot->n]);
    qsort(records, snapshot->n, sizeof *records, compare_places);
    motet_ledger_find(entry->region, add_scheduled, snapshot);
    return snapshot;
}

static void free_snapshot(struct snapshot *snapshot)
{
    free(snapshot->records);
    free(snapshot);
}

struct collection {
    struct snapshot *first, **end;
    const char *only; /* this region; NULL: all */
};

static void collect(void *context, const struct motet_board_entry *entry)
{
    struct collection *collection = context;
    struct snapshot *snapshot = collection->only && collection->only != entry->region ? NULL : take_snapshot(entry);
    if (!snapshot)
        return;
    *collection->end = snapshot;
    collection->end = &snapshot->next;
}

void motet_dump_keep(const char *region)
{
    struct collection collection = {.only = region};
    collection.end = &collection.first;
    if (!atomic_load(&motet_steps_on))
        return;
    motet_board_read(motet_segment_base(), motet_segment_len(), collect, &collection);
    pthread_mutex_lock(&lock);
    if (collection.first && nkept < KEPT_MAX) {
        *kept_end = collection.first;
        kept_end = &collection.first->next;
        nkept++;
        collection.first = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (collection.first)
        free_snapshot(collection.first);
}

/* ---- Printing ---- */

struct clock_offset {
    int64_t real_ns; /* wall clock minus monotonic */
};

static int64_t wall(const struct clock_offset *offset, uint64_t ns)
{
    return ns ? (int64_t)ns + offset->real_ns : 0;
}

static void write_sizes(struct motet_json *json, const char *key, uint64_t elements)
{
    motet_json_begin(json, key, '[');
    motet_json_begin(json, NULL, '[');
    motet_json_int(json, NULL, (int64_t)elements);
    motet_json_end(json, ']');
    motet_json_end(json, ']');
}

static void write_dtypes(struct motet_json *json, const char *key, const struct motet_record *record)
{
    const struct motet_dtype *dtype = motet_dtype_row((motetDataType_t)record->dtype);
    motet_json_begin(json, key, '[');
    motet_json_text(json, NULL, dtype ? dtype->name : "?");
    motet_json_end(json, ']');
}

/* Elements of the two buffers of a rank that uses both; 0 where ranks may differ (v-variants). */
static void find_sizes(const struct motet_record *record, int nranks, uint64_t *in, uint64_t *out)
{
    uint64_t all = record->count * (uint64_t)nranks;
    bool gathers = record->collective == MOTET_ALLGATHER || record->collective == MOTET_GATHER;
    bool scatters = record->collective == MOTET_REDUCESCATTER || record->collective == MOTET_SCATTER;
    bool both = record->collective == MOTET_ALLTOALL;
    *in = scatters || both ? all : record->collective == MOTET_RECORD_RECV ? 0 : record->count;
    *out = gathers || both ? all : record->collective == MOTET_RECORD_SEND ? 0 : record->count;
}

static void write_detail(struct motet_json *json, const struct motet_record *record)
{
    char text[160];
    motet_json_text(json, "what", motet_call_text(text, sizeof text, record));
    motet_json_int(json, motet_call_is_message(record) ? "peer" : "root", record->root);
    if (record->op != 0xff)
        motet_json_text(json, "op", motet_op_name((motetRedOp_t)record->op));
    if (!motet_call_is_message(record))
        motet_json_int(json, "history", record->history);
    motet_json_int(json, "group", record->group);
    motet_json_text(json, "algorithm", motet_call_algorithm(record));
    motet_json_text(json, "protocol", motet_call_protocol(record));
    motet_json_text(json, "transport", motet_call_transports(text, sizeof text, record->transports));
}

static void write_entry(struct motet_json *json, const struct snapshot *snapshot, int pg, const struct motet_record *record,
                        const struct clock_offset *offset)
{
    static const char *const states[] = {"scheduled", "started", "completed", "failed"};
    const struct motet_card *card = &snapshot->entry.card;
    bool message = motet_call_is_message(record);
    int64_t number = (int64_t)atomic_load_explicit(&record->seq, memory_order_relaxed) - 1;
    char name[64], text[96];
    uint64_t in, out;
    find_sizes(record, card->nranks, &in, &out);
    snprintf(text, sizeof text, "motet:%s", motet_call_name(name, sizeof name, record));
    motet_json_begin(json, NULL, '{');
    motet_json_int(json, "record_id", record->place);
    motet_json_int(json, "pg_id", pg);
    motet_json_begin(json, "process_group", '[');
    motet_json_hex(json, NULL, card->id);
    motet_json_text(json, NULL, card->name);
    motet_json_end(json, ']');
    motet_json_int(json, "rank", card->rank);
    motet_json_int(json, "collective_seq_id", message ? 0 : number);
    motet_json_int(json, "p2p_seq_id", message ? number : 0);
    motet_json_int(json, "op_id", record->place);
    motet_json_text(json, "profiling_name", text);
    motet_json_int(json, "time_created_ns", wall(offset, record->begin_ns - record->queued_us * 1000ull));
    if (record->state != MOTET_RECORD_SCHEDULED)
        motet_json_int(json, "time_discovered_started_ns", wall(offset, record->begin_ns));
    if (record->end_ns) {
        motet_json_int(json, "time_discovered_completed_ns", wall(offset, record->end_ns));
        motet_json_real(json, "duration_ms", (double)(record->end_ns - record->begin_ns) / 1e6);
    }
    write_sizes(json, "input_sizes", in);
    write_dtypes(json, "input_dtypes", record);
    write_sizes(json, "output_sizes", out);
    write_dtypes(json, "output_dtypes", record);
    motet_json_text(json, "state", states[record->state & 3]);
    motet_json_int(json, "timeout_ms", card->timeout_ms);
    motet_json_bool(json, "is_p2p", message);
    motet_json_bool(json, "retired", record->state == MOTET_RECORD_DONE || record->state == MOTET_RECORD_FAILED);
    write_detail(json, record);
    motet_json_end(json, '}');
}

static void write_pg(struct motet_json *json, const struct snapshot *snapshot, int pg)
{
    const struct motet_card *card = &snapshot->entry.card;
    char key[16];
    snprintf(key, sizeof key, "%d", pg);
    motet_json_begin(json, key, '{');
    motet_json_hex(json, "name", card->id);
    motet_json_text(json, "desc", card->name);
    motet_json_int(json, "rank", card->rank);
    motet_json_int(json, "nranks", card->nranks);
    motet_json_int(json, "created_ns", (int64_t)card->created_ns);
    if (snapshot->entry.failed)
        motet_json_text(json, "error", snapshot->entry.fault);
    motet_json_end(json, '}');
}

/* Newest calls. */
static void write_pg_status(struct motet_json *json, const struct snapshot *snapshot, int pg)
{
    struct motet_record newest;
    const struct motet_board_entry *entry = &snapshot->entry;
    int64_t calls = (int64_t)entry->calls;
    bool busy = false;
    char key[16];
    for (size_t i = 0; i < snapshot->n; i++) {
        newest = snapshot->records[i];
        if (newest.state == MOTET_RECORD_SCHEDULED)
            break;
        busy |= !motet_call_is_message(&newest) && newest.state == MOTET_RECORD_STARTED;
    }
    snprintf(key, sizeof key, "%d", pg);
    motet_json_begin(json, key, '{');
    motet_json_int(json, "last_enqueued_collective", calls + (int64_t)snapshot->scheduled_calls);
    motet_json_int(json, "last_started_collective", calls);
    motet_json_int(json, "last_completed_collective", calls - busy);
    motet_json_int(json, "messages", (int64_t)entry->messages);
    motet_json_int(json, "bytes", (int64_t)entry->bytes);
    motet_json_int(json, "waits_for", entry->wait_ns ? entry->waits_for : -1);
    if (snapshot->late[0])
        motet_json_text(json, "late", snapshot->late);
    motet_json_end(json, '}');
}

static void write_steps(struct motet_json *json, const struct clock_offset *offset)
{
    size_t n;
    uint64_t lost;
    struct motet_step_note *notes = motet_steps_copy(&n, &lost);
    motet_json_int(json, "steps_lost", (int64_t)lost);
    motet_json_begin(json, "steps", '[');
    for (size_t i = 0; i < n; i++) {
        const struct motet_step_note *note = &notes[i];
        motet_json_begin(json, NULL, '{');
        motet_json_hex(json, "comm", note->comm_id);
        motet_json_int(json, "rank", note->rank);
        motet_json_int(json, "seq", (int64_t)note->seq);
        motet_json_int(json, "tile", note->tile);
        motet_json_int(json, "round", note->round);
        motet_json_int(json, "step", note->step);
        motet_json_int(json, "peer", note->peer);
        motet_json_int(json, "npeers", note->npeers);
        motet_json_int(json, "bytes", (int64_t)note->bytes);
        motet_json_int(json, "begin_ns", wall(offset, note->begin_ns));
        motet_json_int(json, "end_ns", wall(offset, note->end_ns));
        motet_json_end(json, '}');
    }
    motet_json_end(json, ']');
    free(notes);
}

static void write_head(struct motet_json *json, const char *reason, struct clock_offset *offset)
{
    struct timespec real;
    uint64_t now = motet_now_ns();
    clock_gettime(CLOCK_REALTIME, &real);
    int64_t real_ns = (int64_t)real.tv_sec * 1000000000 + real.tv_nsec;
    offset->real_ns = real_ns - (int64_t)now;
    motet_json_text(json, "version", "2.10"); /* of the shape */
    motet_json_text(json, "motet", MOTET_VERSION_STRING);
    motet_json_text(json, "reason", reason);
    motet_json_text(json, "host", motet_host_name());
    motet_json_hex(json, "host_id", motet_host_id());
    motet_json_int(json, "pid", getpid());
    motet_json_begin(json, "clock", '{');
    motet_json_int(json, "now_ns", real_ns);
    motet_json_int(json, "error_ns", (int64_t)motet_clock_error_ns());
    motet_json_end(json, '}');
}

static void write_all(struct motet_json *json, const struct snapshot *const lists[], const struct clock_offset *offset)
{
    int pg = 0;
    motet_json_begin(json, "pg_config", '{');
    for (int k = 0; k < 2; k++)
        for (const struct snapshot *s = lists[k]; s; s = s->next)
            write_pg(json, s, pg++);
    motet_json_end(json, '}');
    motet_json_begin(json, "pg_status", '{');
    pg = 0;
    for (int k = 0; k < 2; k++)
        for (const struct snapshot *s = lists[k]; s; s = s->next)
            write_pg_status(json, s, pg++);
    motet_json_end(json, '}');
    motet_json_begin(json, "entries", '[');
    pg = 0;
    for (int k = 0; k < 2; k++)
        for (const struct snapshot *s = lists[k]; s; s = s->next, pg++)
            for (size_t i = 0; i < s->n; i++)
                write_entry(json, s, pg, &s->records[i], offset);
    motet_json_end(json, ']');
}

void motet_dump_text(struct motet_json *json, const char *reason)
{
    struct collection live = {.only = NULL};
    struct clock_offset offset;
    live.end = &live.first;
    motet_board_read(motet_segment_base(), motet_segment_len(), collect, &live);
    motet_json_begin(json, NULL, '{');
    write_head(json, reason, &offset);
    pthread_mutex_lock(&lock);
    write_all(json, (const struct snapshot *const[]){kept, live.first}, &offset);
    pthread_mutex_unlock(&lock);
    write_steps(json, &offset);
    motet_json_end(json, '}');
    motet_json_append(json, "\n", 1);
    while (live.first) {
        struct snapshot *snapshot = live.first;
        live.first = snapshot->next;
        free_snapshot(snapshot);
    }
}
