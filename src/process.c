/* SPDX-License-Identifier: Apache-2.0
 * Start and end of the library in a process: what is shared by all communicators (segment, doorbell, transports, service thread, the
 * link to itself) comes with the first user and goes with the last. In a child of fork nothing of it exists: its copies of descriptors
 * are closed, so that peers see the parent's death, and using the library there is refused. */
#include "process.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "base/settings.h"
#include "clock.h"
#include "connect.h"
#include "obituary.h"
#include "segment.h"
#include "speeds.h"
#include "transport/rows.h"

#define FAREWELL_MS 2000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;
static struct motet_process self;
pid_t motet_process_forked_from;
static _Atomic uint64_t closing_ns; /* not 0: the service thread ends by then */

const struct motet_process *motet_process_self(void)
{
    return &self;
}

static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER;
static char failure[300];

void motet_process_note_failure(const char *text)
{
    pthread_mutex_lock(&failure_lock);
    snprintf(failure, sizeof(failure), "%s", text ? text : "");
    pthread_mutex_unlock(&failure_lock);
}

void motet_process_failure(char text[300])
{
    pthread_mutex_lock(&failure_lock);
    memcpy(text, failure, sizeof(failure));
    pthread_mutex_unlock(&failure_lock);
}

/* ---- fork ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&motet_links_lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&motet_links_lock);
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    if (users > 0) {
        motet_process_forked_from = self.pid;
        motet_descriptors_close_all();
        motet_service_forked();
        motet_doorbell_forked();
        motet_guest.forked();
    }
    pthread_mutex_unlock(&motet_links_lock);
    pthread_mutex_unlock(&lock);
}

static void install_fork_handlers(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- start ---- */

static motetResult_t describe(void)
{
    self = (struct motet_process){.host_id = motet_host_id(), .pid = getpid(), .segment_len = motet_segment_len()};
    int limit = motet_cgroup_cpu_limit("");
    self.cpu_limit = limit > 0 ? limit : 0;
    self.cpus = motet_cpus_allowed();
    motet_speeds_get(&self.speeds);
    snprintf(self.host_name, sizeof(self.host_name), "%s", motet_host_name());
    motet_obituary_open();
    return motet_random(self.token, sizeof(self.token));
}

static motetResult_t open_transports(void)
{
    for (int i = 0; motet_transports[i]; i++) {
        if (!motet_transports[i]->open)
            continue;
        motetResult_t result = motet_transports[i]->open(&self, motet_doorbell_descriptor());
        if (result == motetInvalidArgument)
            return result;
        if (result != motetSuccess)
            WARN(MOTET_LOG_INIT, "%s cannot be used by this process: %s", motet_transports[i]->name, motet_error_text());
    }
    return motetSuccess;
}

static void shut_transports(void)
{
    for (int i = 0; motet_transports[i]; i++)
        if (motet_transports[i]->shutdown)
            motet_transports[i]->shutdown();
}

/* Ranks of this process reach each other by a link to itself. */
static motetResult_t link_self(void)
{
    struct motet_link *link = motet_link_make(&self);
    if (!link)
        return motet_fail(motetSystemError, "out of memory");
    motetResult_t result = motet_link_attach(link, &motet_direct_transport, NULL, NULL);
    link->state = MOTET_LINK_READY;
    pthread_mutex_lock(&motet_links_lock);
    motet_links_add(link);
    pthread_mutex_unlock(&motet_links_lock);
    motet_link_unref(link);
    return result;
}

static void drop_links(void)
{
    pthread_mutex_lock(&motet_links_lock);
    while (motet_links) {
        motet_link_unwatch(motet_links);
        motet_links_remove(motet_links);
    }
    pthread_mutex_unlock(&motet_links_lock);
}

static uint64_t (*_Atomic also)(uint64_t now_ns);

void motet_process_also(uint64_t (*more)(uint64_t now_ns))
{
    atomic_store(&also, more);
}

static uint64_t tick(uint64_t now_ns)
{
    uint64_t deadline_ns = atomic_load(&closing_ns);
    uint64_t links_ns = motet_links_tick(now_ns);
    if (deadline_ns != 0) {
        if (motet_links_finish(now_ns, deadline_ns)) {
            motet_connect_close();
            drop_links();
            return 0;
        }
        return links_ns < deadline_ns ? links_ns : deadline_ns;
    }
    uint64_t connect_ns = motet_connect_tick(now_ns), clock_ns = motet_clock_tick(now_ns);
    uint64_t guest_ns = motet_guest.tick(now_ns);
    uint64_t (*more)(uint64_t) = atomic_load(&also);
    uint64_t also_ns = more ? more(now_ns) : UINT64_MAX;
    links_ns = links_ns < also_ns ? links_ns : also_ns;
    links_ns = links_ns < clock_ns ? links_ns : clock_ns;
    links_ns = links_ns < guest_ns ? links_ns : guest_ns;
    return links_ns < connect_ns ? links_ns : connect_ns;
}

/* Lets peers' threads that are about to sleep interrupt this process's publishers (membarrier) instead of a fence on every publish. */
static void register_membarrier(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0)
        INFO(MOTET_LOG_INIT, "membarrier is not available: %s", strerror(errno));
}

static motetResult_t start_service(void)
{
    atomic_store(&closing_ns, 0);
    TRY(motet_service_open());
    motet_clock_open(motet_setting_string(MOTET_SET_TRACE)[0] != '\0');
    motetResult_t result = motet_connect_open(&self);
    if (result == motetSuccess) {
        result = motet_guest.open();
        if (result == motetSuccess)
            result = motet_service_start(tick);
        if (result != motetSuccess)
            motet_guest.close();
    }
    if (result != motetSuccess) {
        motet_clock_close();
        motet_connect_close();
        motet_service_close();
    }
    return result;
}

static motetResult_t start(void)
{
    static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
    pthread_once(&fork_once, install_fork_handlers);
    register_membarrier();
    TRY(motet_settings_load());
    TRY(motet_segment_hold());
    motetResult_t result = motet_doorbell_open();
    if (result == motetSuccess)
        result = describe();
    if (result == motetSuccess)
        result = open_transports();
    if (result == motetSuccess)
        result = link_self();
    if (result == motetSuccess)
        result = start_service();
    if (result == motetSuccess)
        return motetSuccess;
    drop_links();
    shut_transports();
    motet_doorbell_close();
    motet_segment_drop();
    return result;
}

motetResult_t motet_process_open(struct motet_process *me)
{
    pthread_mutex_lock(&lock);
    motetResult_t result = motetSuccess;
    if (motet_process_forked_from)
        result = motet_process_check_fork();
    else if (users == 0)
        result = start();
    if (result == motetSuccess) {
        users++;
        *me = self;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- end ---- */

bool motet_process_close(void)
{
    pthread_mutex_lock(&lock);
    bool last = users > 0 && --users == 0 && !motet_process_forked_from;
    if (last) {
        motet_guest.closing();
        atomic_store(&closing_ns, motet_deadline_ns(FAREWELL_MS));
        motet_clock_close();
        motet_service_wake();
        motet_service_join();
        motet_guest.close();
        motet_service_close();
        shut_transports();
        motet_doorbell_close();
        motet_segment_drop();
    }
    pthread_mutex_unlock(&lock);
    return last;
}

motetResult_t motet_process_fork_error(void)
{
    return motet_fail(motetInvalidUsage, "communicator belongs to pid %d (forked); pid %d cannot use it or make its own",
                      motet_process_forked_from, getpid());
}
