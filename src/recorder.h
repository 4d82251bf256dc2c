/* SPDX-License-Identifier: Apache-2.0
 * The flight recorder: writing the records of region.h. Each call writes one line that nobody else writes, and its rank's progress line:
 * plain stores, no clock, no read-modify-write. Whoever reads them sees a record whole or not at all (its seq tells). Reading is in
 * board.h, printing in dump.c. */
#ifndef MOTET_RECORDER_H
#define MOTET_RECORDER_H

#include "clock.h"
#include "comm.h"

#define AT(field, offset) _Static_assert(offsetof(struct motet_record, field) == (offset), "motet_record_write puts it there")
AT(begin_ns, 8);
AT(count, 24);
AT(history, 32);
AT(root, 40);
AT(collective, 44);
AT(state, 47);
AT(algorithm, 48);
AT(transports, 54);
AT(place, 56);
AT(queued_us, 60);
#undef AT

/* The words of a record that say what is called; the others are filled in when it is written. */
struct motet_record_words {
    uint64_t count, hashes, kind, how;
};

/* Put together in registers (the byte order is little-endian on all machines that motet runs on): small stores that are read back as words
 * would wait for each other, longer than all of this takes. For descriptions that have just been made. */
static inline __attribute__((always_inline)) struct motet_record_words motet_record_pack(const struct motet_record *from)
{
    uint64_t kind = from->collective | (uint64_t)from->dtype << 8 | (uint64_t)from->op << 16 | (uint64_t)from->state << 24;
    return (struct motet_record_words){.count = from->count,
                                       .hashes = from->history | (uint64_t)from->counts_hash << 32,
                                       .kind = (uint32_t)from->root | kind << 32,
                                       .how = from->algorithm | (uint64_t)from->group << 16 | (uint64_t)from->counts << 32 |
                                              (uint64_t)from->protocol << 40 | (uint64_t)from->transports << 48};
}

/* Writes a record of the given number in its ring, with the time and the place. Only the thread that runs the operation calls. */
static inline __attribute__((always_inline)) struct motet_record *motet_record_write(motetComm_t comm, struct motet_record *record,
                                                                                     uint64_t number,
                                                                                     struct motet_record_words words)
{
    uint64_t *to = (uint64_t *)(void *)record;
    uint64_t begin_ns = motet_clock_now(), last = comm->places++;
    if (__builtin_expect(comm->queued_ns != 0, 0)) {
        last |= (begin_ns - comm->queued_ns) / 1000 << 32;
        comm->queued_ns = 0;
    }
    atomic_store_explicit(&record->seq, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* a reader that sees new fields sees seq 0 or the new seq */
#define STORE(word, value) __atomic_store_n(&to[word], (value), __ATOMIC_RELAXED)
    STORE(1, begin_ns);
    STORE(2, 0);
    STORE(3, words.count);
    STORE(4, words.hashes);
    STORE(5, words.kind);
    STORE(6, words.how);
    STORE(7, last);
#undef STORE
    atomic_store_explicit(&record->seq, number + 1, memory_order_release);
    return record;
}

/* A collective begins: comm->seq is its number. The description is read by words: made long ago, best. */
static inline __attribute__((always_inline)) struct motet_record *motet_record_call(motetComm_t comm,
                                                                                    const struct motet_record *description,
                                                                                    uint32_t history)
{
    uint64_t words[sizeof *description / sizeof(uint64_t)];
    __builtin_memcpy(words, description, sizeof words);
    struct motet_record *record =
        motet_record_write(comm, motet_region_record(&comm->layout, comm->region, comm->seq), comm->seq,
                           (struct motet_record_words){words[3], (words[4] & ~0xffffffffull) | history, words[5], words[6]});
    /* release: who sees the number finds the record. */
    atomic_store_explicit(&comm->control->progress.calls, comm->seq, memory_order_release);
    return record;
}

/* A message begins; returns its number, by which its end is told. */
static inline uint64_t motet_record_message(motetComm_t comm, struct motet_record *description)
{
    uint64_t number = ++comm->messages;
    motet_record_write(comm, motet_region_message(&comm->layout, comm->region, number), number, motet_record_pack(description));
    atomic_store_explicit(&comm->control->progress.messages, number, memory_order_release);
    return number;
}

/* What was chosen for it. */
static inline void motet_record_choice(struct motet_record *record, uint16_t algorithm, enum motet_record_protocol protocol,
                                       uint8_t transports)
{
    __atomic_store_n(&record->algorithm, algorithm, __ATOMIC_RELAXED);
    __atomic_store_n(&record->protocol, (uint8_t)protocol, __ATOMIC_RELAXED);
    __atomic_store_n(&record->transports, transports, __ATOMIC_RELAXED);
}

/* It ended; `bytes` of payload count where it succeeded. */
static inline void motet_record_end(motetComm_t comm, struct motet_record *record, enum motet_record_state state, size_t bytes)
{
    struct motet_progress *progress = &comm->control->progress;
    uint64_t now = motet_clock_now();
    __atomic_store_n(&record->end_ns, now, __ATOMIC_RELAXED);
    __atomic_store_n(&record->state, (uint8_t)state, __ATOMIC_RELAXED);
    atomic_store_explicit(&progress->end_ns, now, memory_order_relaxed);
    if (state == MOTET_RECORD_DONE)
        atomic_store_explicit(&progress->bytes, atomic_load_explicit(&progress->bytes, memory_order_relaxed) + bytes,
                              memory_order_relaxed);
}

/* The message of that number ended, unless so many came after it that its record is gone. */
static inline void motet_record_message_end(motetComm_t comm, uint64_t number, enum motet_record_state state, size_t bytes)
{
    struct motet_record *record = motet_region_message(&comm->layout, comm->region, number);
    if (atomic_load_explicit(&record->seq, memory_order_relaxed) == number + 1)
        motet_record_end(comm, record, state, bytes);
}

/* By which transport a peer is reached. */
static inline uint8_t motet_record_transport(const struct motet_peer *peer)
{
    return peer->same_process ? MOTET_RECORD_THREADS : peer->mapped ? MOTET_RECORD_SHM : MOTET_RECORD_NET;
}

#endif
