/* SPDX-License-Identifier: Apache-2.0
 * See footprint.h. */
#include "footprint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/log.h"
#include "tally.h"

#define PAGE 4096

static const struct {
    const char *name, *settings;
} parts[MOTET_FOOTPRINT_PARTS] = {
    [MOTET_FOOTPRINT_STAGING] = {"staging", "MOTET_BUFFSIZE, MOTET_NCHANNELS"},
    [MOTET_FOOTPRINT_LINES] = {"lines", "MOTET_NCHANNELS"},
    [MOTET_FOOTPRINT_MESSAGES] = {"message rings", "MOTET_EAGER"},
    [MOTET_FOOTPRINT_RECORDER] = {"recorder", "MOTET_RECORDS"},
    [MOTET_FOOTPRINT_COUNTERS] = {"counters", ""},
    [MOTET_FOOTPRINT_MIRRORS] = {"mirrors of remote ranks", "MOTET_BUFFSIZE, MOTET_NCHANNELS"},
    [MOTET_FOOTPRINT_SCRATCH] = {"scratch", "MOTET_BUFFSIZE, MOTET_NCHANNELS"},
    [MOTET_FOOTPRINT_SCHEDULES] = {"schedules", ""},
    [MOTET_FOOTPRINT_SOCKETS] = {"socket buffers", "MOTET_NSOCKS"},
    [MOTET_FOOTPRINT_REGISTRATIONS] = {"registrations", ""},
};

const char *motet_footprint_name(enum motet_footprint_part part)
{
    return parts[part].name;
}

const char *motet_footprint_settings(enum motet_footprint_part part)
{
    return parts[part].settings;
}

static uint64_t mirrors(motetComm_t comm)
{
    uint64_t bytes = 0;
    for (int p = 0; comm->peers && p < comm->nranks; p++)
        bytes += !comm->peers[p].mapped && comm->peers[p].region ? comm->layout.total : 0;
    return bytes;
}

static uint64_t sockets(motetComm_t comm)
{
    uint64_t bytes = 0;
    for (int p = 0; comm->peers && p < comm->nranks; p++)
        if (comm->peers[p].endpoint && !comm->peers[p].mapped)
            bytes += motet_endpoint_buffers(comm->peers[p].endpoint);
    return bytes;
}

uint64_t motet_footprint_part_bytes(motetComm_t comm, enum motet_footprint_part part)
{
    const struct motet_layout *layout = &comm->layout;
    bool region = layout->total > 0; /* also while it is being made: what it needs */
    uint64_t staging = (uint64_t)layout->nlanes * layout->lane_bytes;
    switch (part) {
    case MOTET_FOOTPRINT_STAGING:
        return region ? staging : 0;
    case MOTET_FOOTPRINT_LINES:
        return region ? layout->records + (layout->ring_heads - layout->lanes) - staging : 0;
    case MOTET_FOOTPRINT_MESSAGES:
        return region ? layout->tally - layout->ring_heads : 0;
    case MOTET_FOOTPRINT_RECORDER:
        return region ? layout->lanes - layout->records : 0;
    case MOTET_FOOTPRINT_COUNTERS:
        return region ? layout->total - layout->tally : 0;
    case MOTET_FOOTPRINT_MIRRORS:
        return mirrors(comm);
    case MOTET_FOOTPRINT_SCRATCH:
        return motet_tally_read(&comm->scratch_total);
    case MOTET_FOOTPRINT_SCHEDULES:
        return motet_tally_read(&comm->schedules_total);
    case MOTET_FOOTPRINT_SOCKETS:
        return sockets(comm);
    default:
        return motet_tally_read(&comm->registered_total);
    }
}

uint64_t motet_footprint_total(motetComm_t comm)
{
    uint64_t sum = 0;
    for (int part = 0; part < MOTET_FOOTPRINT_REGISTRATIONS; part++)
        sum += motet_footprint_part_bytes(comm, (enum motet_footprint_part)part);
    return sum;
}

/* Pages of [at, at + len) that are in memory. */
static uint64_t resident(char *at, size_t len)
{
    unsigned char pages[1024];
    uint64_t sum = 0;
    for (size_t done = 0; done < len; done += sizeof pages * PAGE) {
        size_t n = len - done < sizeof pages * PAGE ? len - done : sizeof pages * PAGE;
        if (mincore(at + done, n, pages) != 0)
            return sum;
        for (size_t i = 0; i < (n + PAGE - 1) / PAGE; i++)
            sum += pages[i] & 1 ? PAGE : 0;
    }
    return sum;
}

uint64_t motet_footprint_resident(motetComm_t comm)
{
    uint64_t sum = comm->region ? resident(comm->region, comm->layout.total) : 0;
    for (int p = 0; comm->peers && p < comm->nranks; p++)
        if (!comm->peers[p].mapped && comm->peers[p].region)
            sum += resident(comm->peers[p].region, comm->layout.total);
    return sum;
}

enum motet_footprint_part motet_footprint_warn(motetComm_t comm)
{
    int largest = MOTET_FOOTPRINT_STAGING;
    uint64_t most = 0;
    for (int part = 0; part < MOTET_FOOTPRINT_PARTS; part++) {
        uint64_t have = motet_footprint_part_bytes(comm, (enum motet_footprint_part)part);
        const char *settings = parts[part].settings;
        if (have > 0)
            WARN(MOTET_LOG_ALLOC, "memory of comm \"%s\" rank %d: %-24s %10.1f KB%s%s", comm->options.name, comm->rank,
                 parts[part].name, (double)have / 1024, settings[0] ? "  lowered by " : "", settings);
        if (settings[0] && have >= most) {
            most = have;
            largest = part;
        }
    }
    return (enum motet_footprint_part)largest;
}

motetResult_t motet_footprint_fail(motetComm_t comm, size_t bytes, const char *what)
{
    int error = errno;
    enum motet_footprint_part largest = motet_footprint_warn(comm);
    return motet_fail(
        motetSystemError, "comm \"%s\" (%d ranks), rank %d: no memory for %zu bytes of %s (%s); smaller %s lowers what it needs",
        comm->options.name, comm->nranks, comm->rank, bytes, what, strerror(error ? error : ENOMEM), parts[largest].settings);
}
