/* SPDX-License-Identifier: Apache-2.0
 * The public memory calls: segment memory that local peers map, registrations, windows. */
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "segment.h"

struct allocation {
    void *at;
    struct allocation *next;
};

#define REGISTRATION_MAGIC 0x6d6f746574726567ull

/* Allocations hold the process open, so that the segment outlives communicators. */
static struct {
    pthread_mutex_t lock;
    struct allocation *first;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

motetResult_t motetMemAlloc(void **ptr, size_t size)
{
    struct motet_process process;
    if (!ptr)
        return motet_fail(motetInvalidArgument, "MemAlloc: ptr is NULL");
    *ptr = NULL;
    if (size == 0)
        return motetSuccess;
    TRY(motet_settings_load());
    TRY(motet_process_open(&process));
    struct allocation *allocation = malloc(sizeof *allocation);
    motetResult_t result =
        allocation ? motet_segment_alloc(size, &allocation->at) : motet_fail(motetSystemError, "MemAlloc: out of memory");
    if (result != motetSuccess) {
        free(allocation);
        motet_process_close();
        return result;
    }
    pthread_mutex_lock(&memory.lock);
    allocation->next = memory.first;
    memory.first = allocation;
    pthread_mutex_unlock(&memory.lock);
    *ptr = allocation->at;
    return motetSuccess;
}

motetResult_t motetMemFree(void *ptr)
{
    if (!ptr)
        return motetSuccess;
    pthread_mutex_lock(&memory.lock);
    struct allocation **link = &memory.first, *found;
    while (*link && (*link)->at != ptr)
        link = &(*link)->next;
    found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&memory.lock);
    if (!found)
        return motet_fail(motetInvalidArgument, "MemFree: %p was not allocated by MemAlloc or is freed already", ptr);
    free(found);
    motet_segment_free(ptr);
    motet_process_close();
    return motetSuccess;
}

/* ---- Registrations: hints. Segment memory is direct without them; other memory cannot be mapped by peers. ---- */

static motetResult_t add(motetComm_t comm, void *buff, size_t size, const char *function, struct motet_registration **out)
{
    uint64_t offset;
    struct motet_registration *registration = malloc(sizeof *registration);
    if (!registration)
        return motet_fail(motetSystemError, "%s: out of memory", function);
    *registration =
        (struct motet_registration){.magic = REGISTRATION_MAGIC, .buff = buff, .size = size, .next = comm->registrations};
    comm->registrations = registration;
    motet_tally_add(&comm->registered_total, size);
    if (!motet_segment_offset(buff, size, &offset))
        INFO(MOTET_LOG_REG,
             "%s: %p (%zu bytes) was not allocated by motetMemAlloc: local processes cannot map it, it is a hint only", function,
             buff, size);
    *out = registration;
    return motetSuccess;
}

static motetResult_t drop(motetComm_t comm, struct motet_registration *registration, const char *function)
{
    struct motet_registration **link = &comm->registrations;
    while (*link && *link != registration)
        link = &(*link)->next;
    if (!*link)
        return motet_fail(motetInvalidArgument, "%s: not a registration of communicator %s", function, comm->options.name);
    *link = registration->next;
    motet_tally_add(&comm->registered_total, -(uint64_t)registration->size);
    free(registration);
    return motetSuccess;
}

motetResult_t motetCommRegister(const motetComm_t comm, void *buff, size_t size, void **handle)
{
    TRY(motet_check_comm(comm, "CommRegister"));
    if (!handle || (!buff && size > 0))
        return motet_fail(motetInvalidArgument, "CommRegister: %s is NULL", handle ? "buff" : "handle");
    struct motet_registration *registration;
    TRY(add(comm, buff, size, "CommRegister", &registration));
    *handle = registration;
    return motetSuccess;
}

motetResult_t motetCommDeregister(const motetComm_t comm, void *handle)
{
    TRY(motet_check_comm(comm, "CommDeregister"));
    return handle ? drop(comm, handle, "CommDeregister") : motetSuccess;
}

/* All ranks tell their sizes; symmetric windows must agree. */
static motetResult_t agree_on_sizes(motetComm_t comm, size_t size, int flags)
{
    uint64_t mine = size, *all = calloc((size_t)comm->nranks, sizeof *all);
    if (!all)
        return motet_fail(motetSystemError, "CommWindowRegister: out of memory");
    const struct motet_call call = {.collective = MOTET_ALLGATHER,
                                    .name = "CommWindowRegister",
                                    .send = &mine,
                                    .recv = all,
                                    .count = sizeof mine,
                                    .dtype = motetUint8,
                                    .root = flags};
    motetResult_t result = motet_engine_run(comm, &call);
    for (int r = 0; result == motetSuccess && (flags & MOTET_WIN_COLL_SYMMETRIC) && r < comm->nranks; r++)
        if (all[r] != size)
            result = motet_fail(motetInvalidArgument,
                                "CommWindowRegister: symmetric windows must be of one size: rank %d has %zu bytes, rank %d %zu",
                                comm->rank, size, r, (size_t)all[r]);
    free(all);
    return result;
}

motetResult_t motetCommWindowRegister(motetComm_t comm, void *buff, size_t size, motetWindow_t *win, int winFlags)
{
    TRY(motet_check_comm(comm, "CommWindowRegister"));
    if (!win || (!buff && size > 0))
        return motet_fail(motetInvalidArgument, "CommWindowRegister: %s is NULL", win ? "buff" : "win");
    if (winFlags & ~(MOTET_WIN_COLL_SYMMETRIC | MOTET_WIN_STRICT_ORDERING))
        return motet_fail(motetInvalidArgument, "CommWindowRegister: unknown flags 0x%x", winFlags);
    TRY(motet_comm_enter(comm, "CommWindowRegister"));
    struct motet_registration *registration;
    motetResult_t result = motet_queue_drain(comm);
    if (result == motetSuccess)
        result = agree_on_sizes(comm, size, winFlags);
    if (result == motetSuccess)
        result = add(comm, buff, size, "CommWindowRegister", &registration);
    if (result == motetSuccess)
        *win = (motetWindow_t)registration;
    motet_comm_leave(comm);
    return result;
}

motetResult_t motetCommWindowDeregister(motetComm_t comm, motetWindow_t win)
{
    TRY(motet_check_comm(comm, "CommWindowDeregister"));
    return win ? drop(comm, (struct motet_registration *)win, "CommWindowDeregister") : motetSuccess;
}

motetResult_t motetWinGetUserPtr(motetComm_t comm, motetWindow_t win, void **outUserPtr)
{
    TRY(motet_check_comm(comm, "WinGetUserPtr"));
    struct motet_registration *registration = (struct motet_registration *)win;
    if (!win || !outUserPtr || registration->magic != REGISTRATION_MAGIC)
        return motet_fail(motetInvalidArgument, "WinGetUserPtr: %s", outUserPtr ? "not a window" : "outUserPtr is NULL");
    *outUserPtr = registration->buff;
    return motetSuccess;
}
