/* SPDX-License-Identifier: Apache-2.0
 * The list of regions behind the token in the first page of the segment. The own process's readers hold the lock; readers of other
 * processes cannot, so they check every offset, copy word by word, and live with a row that is torn or missing while it changes. */
#include "board.h"

#include <pthread.h>
#include <string.h>

#include "segment.h"

#define BOARD_AT    64 /* in the first page */
#define CARD_MAGIC  0x6d6f746574636172ull
#define ENTRIES_MAX (64 * 1024) /* a list that is longer is a circle */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic uint64_t *first_of(char *segment)
{
    return (_Atomic uint64_t *)(void *)(segment + BOARD_AT);
}

void motet_board_post(char *region)
{
    char *segment = motet_segment_base();
    struct motet_card *card = &motet_region_control(region)->card;
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&card->next, atomic_load(first_of(segment)), memory_order_relaxed);
    atomic_store_explicit(&card->magic, CARD_MAGIC, memory_order_relaxed);
    /* release: who finds the region finds its card written. */
    atomic_store_explicit(first_of(segment), (uint64_t)(region - segment), memory_order_release);
    pthread_mutex_unlock(&lock);
}

void motet_board_remove(char *region)
{
    char *segment = motet_segment_base();
    uint64_t offset = (uint64_t)(region - segment);
    pthread_mutex_lock(&lock);
    _Atomic uint64_t *at = first_of(segment);
    while (*at != 0 && *at != offset)
        at = &motet_region_control(segment + *at)->card.next;
    if (*at == offset) {
        struct motet_card *card = &motet_region_control(region)->card;
        atomic_store(&card->magic, 0);
        atomic_store(at, atomic_load(&card->next));
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Reading ---- */

/* Copies memory that its owner may be writing, word by word; len is a multiple of 8. */
static void copy_words(void *to, const void *from, size_t len)
{
    const uint64_t *source = from;
    uint64_t *target = to;
    for (size_t i = 0; i < len / sizeof *source; i++)
        target[i] = __atomic_load_n(&source[i], __ATOMIC_RELAXED);
}

static bool makes_sense(const struct motet_board_entry *entry, size_t room)
{
    const struct motet_card *card = &entry->card;
    uint64_t ring = card->nrecords * sizeof(struct motet_record);
    return card->magic == CARD_MAGIC && card->nrecords > 0 && card->nrecords <= 1u << 20 &&
           (card->nrecords & (card->nrecords - 1)) == 0 && card->nranks > 0 && card->rank >= 0 && card->rank < card->nranks &&
           card->records <= room && ring <= room - card->records && card->messages <= room && ring <= room - card->messages &&
           card->records % 8 == 0 && card->messages % 8 == 0;
}

static void copy_entry(struct motet_board_entry *entry, const char *region)
{
    const struct motet_control_area *control = (const struct motet_control_area *)(const void *)region;
    const struct motet_progress *progress = &control->progress;
    memset(entry, 0, sizeof *entry);
    entry->region = region;
    copy_words(&entry->card, &control->card, sizeof entry->card);
    entry->card.name[sizeof entry->card.name - 1] = entry->card.host[sizeof entry->card.host - 1] = '\0';
    /* acquire, and the numbers first: the records of the numbers seen are there. */
    entry->calls = atomic_load_explicit(&progress->calls, memory_order_acquire);
    entry->messages = atomic_load_explicit(&progress->messages, memory_order_acquire);
    entry->bytes = atomic_load_explicit(&progress->bytes, memory_order_relaxed);
    entry->end_ns = atomic_load_explicit(&progress->end_ns, memory_order_relaxed);
    entry->wait_ns = atomic_load_explicit(&progress->wait_ns, memory_order_relaxed);
    entry->waits_for = atomic_load_explicit(&progress->waits_for, memory_order_relaxed) - 1;
    entry->queued = atomic_load_explicit(&progress->queued, memory_order_relaxed);
    entry->state = atomic_load_explicit(&control->state, memory_order_relaxed);
    entry->failed = atomic_load_explicit(&control->fault.state, memory_order_acquire) == 2;
    if (entry->failed) {
        entry->fault_code = control->fault.code;
        copy_words(entry->fault, control->fault.text, sizeof entry->fault);
        entry->fault[sizeof entry->fault - 1] = '\0';
    }
}

void motet_board_read(const char *segment, size_t len, void (*visit)(void *context, const struct motet_board_entry *entry),
                      void *context)
{
    struct motet_board_entry entry;
    bool own = segment == motet_segment_base();
    if (!segment || len < BOARD_AT + sizeof(uint64_t))
        return;
    if (own)
        pthread_mutex_lock(&lock);
    uint64_t at = atomic_load_explicit(first_of((char *)(uintptr_t)segment), memory_order_acquire);
    for (int n = 0; n < ENTRIES_MAX && at != 0; n++) {
        if (at % MOTET_LINE != 0 || at > len || len - at < sizeof(struct motet_control_area))
            break;
        copy_entry(&entry, segment + at);
        if (entry.card.magic != CARD_MAGIC)
            break;
        if (makes_sense(&entry, len - at))
            visit(context, &entry);
        at = atomic_load_explicit(&entry.card.next, memory_order_relaxed);
    }
    if (own)
        pthread_mutex_unlock(&lock);
}

static bool read_record(const struct motet_board_entry *entry, uint64_t ring, uint64_t number, struct motet_record *out)
{
    const struct motet_record *record =
        (const struct motet_record *)(const void *)(entry->region + ring) + (number & (entry->card.nrecords - 1));
    if (atomic_load_explicit(&record->seq, memory_order_acquire) != number + 1)
        return false;
    motet_record_copy(out, record);
    atomic_init(&out->seq, number + 1);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&record->seq, memory_order_relaxed) == number + 1;
}

bool motet_board_call(const struct motet_board_entry *entry, uint64_t number, struct motet_record *out)
{
    return read_record(entry, entry->card.records, number, out);
}

bool motet_board_message(const struct motet_board_entry *entry, uint64_t number, struct motet_record *out)
{
    return read_record(entry, entry->card.messages, number, out);
}
