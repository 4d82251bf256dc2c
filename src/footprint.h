/* SPDX-License-Identifier: Apache-2.0
 * The memory of one communicator on one rank, by what it is for, and which setting lowers it. Address space is one thing, memory another:
 * regions and mirrors are sparse, only what was touched is resident. */
#ifndef MOTET_FOOTPRINT_H
#define MOTET_FOOTPRINT_H

#include "comm.h"

enum motet_footprint_part {
    MOTET_FOOTPRINT_STAGING,
    MOTET_FOOTPRINT_LINES,
    MOTET_FOOTPRINT_MESSAGES,
    MOTET_FOOTPRINT_RECORDER,
    MOTET_FOOTPRINT_COUNTERS,
    MOTET_FOOTPRINT_MIRRORS,
    MOTET_FOOTPRINT_SCRATCH,
    MOTET_FOOTPRINT_SCHEDULES,
    MOTET_FOOTPRINT_SOCKETS,
    MOTET_FOOTPRINT_REGISTRATIONS,
    MOTET_FOOTPRINT_PARTS
};

/* Bytes of one part. Works on a communicator that is still being made, as far as it has come. */
uint64_t motet_footprint_part_bytes(motetComm_t comm, enum motet_footprint_part part);

/* Of regions and mirrors: what is in memory. Asks the kernel page by page: for questions of people. */
uint64_t motet_footprint_resident(motetComm_t comm);

/* All parts but registrations, which are the caller's own memory. Cheap: sockets are counted as the library sets them. */
uint64_t motet_footprint_total(motetComm_t comm);

/* "staging", and the settings that lower it ("MOTET_BUFFSIZE, MOTET_NCHANNELS"); "" where none does. */
const char *motet_footprint_name(enum motet_footprint_part part);
const char *motet_footprint_settings(enum motet_footprint_part part);

/* Prints all parts as WARN lines, with the settings that lower them. Returns the largest that a setting lowers. */
enum motet_footprint_part motet_footprint_warn(motetComm_t comm);

/* An allocation of `bytes` for `what` failed: the table of all parts, and motetSystemError with the settings that lower the largest. */
motetResult_t motet_footprint_fail(motetComm_t comm, size_t bytes, const char *what);

#endif
