/* SPDX-License-Identifier: Apache-2.0
 * motet_endpoint_connect: the caller's side of connecting. It puts the links it wants into the table, makes the job's secret known, and
 * sleeps until the service thread has made them all or one cannot be made. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/os.h"
#include "connect.h"
#include "greeting.h"
#include "process.h"

#define SLICE_NS          20000000ull /* how often the abort flag is looked at */
#define SPARE_DESCRIPTORS 16          /* for sockets that are in between, files, the caller */

/* ---- descriptors ---- */

static int open_descriptors(void)
{
    DIR *folder = motet_descriptor_list("/proc/self/fd");
    int n = 0;
    if (!folder)
        return 64;
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* Descriptors that links to peers that are not linked yet will take; the lock is held. */
static int needed_descriptors(const struct motet_process *const peers[], int n)
{
    const struct motet_process *me = motet_process_self();
    int needed = 0;
    for (int i = 0; i < n; i++) {
        const struct motet_transport *transport = NULL;
        for (int k = 0; motet_transports[k] && !transport; k++)
            if (motet_transports[k]->reach(me, peers[i]))
                transport = motet_transports[k];
        if (transport && transport->dial && !motet_links_find(peers[i]->token))
            needed += transport->lanes ? 1 + transport->lanes() : 3;
    }
    return needed;
}

/* Raises the soft limit where it would not do; says at once what would otherwise fail in the middle. */
static motetResult_t ensure_descriptors(const struct motet_process *const peers[], int n)
{
    struct rlimit limit;
    pthread_mutex_lock(&motet_links_lock);
    int needed = needed_descriptors(peers, n);
    pthread_mutex_unlock(&motet_links_lock);
    if (needed == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return motetSuccess;
    rlim_t total = (rlim_t)(open_descriptors() + needed + SPARE_DESCRIPTORS);
    if (total <= limit.rlim_cur)
        return motetSuccess;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = total + 64 < limit.rlim_max ? total + 64 : limit.rlim_max;
    if (total <= limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return motetSuccess;
    return motet_fail(motetSystemError,
                      "connecting to %d processes needs about %llu descriptors, the limit is %llu (ulimit -n; hard limit %llu)", n,
                      (unsigned long long)total, (unsigned long long)before, (unsigned long long)limit.rlim_max);
}

/* ---- waiting ---- */

static motetResult_t want_links(const struct motet_process *const peers[], int n, struct motet_link *links[])
{
    bool complete = true;
    pthread_mutex_lock(&motet_links_lock);
    for (int i = 0; i < n && complete; i++) {
        links[i] = motet_links_find(peers[i]->token);
        /* A link that breaks right now will be buried soon: a new one takes its place. */
        if (links[i] && atomic_load(&links[i]->broken))
            links[i] = NULL;
        if (links[i])
            motet_endpoint_retain(&links[i]->endpoint);
        else if ((links[i] = motet_link_make(peers[i])))
            motet_links_add(links[i]);
        complete = links[i] != NULL;
    }
    pthread_mutex_unlock(&motet_links_lock);
    return complete ? motetSuccess : motet_fail(motetSystemError, "out of memory for endpoints");
}

static motetResult_t fail_link(const struct motet_link *link, motetResult_t code, const char *why)
{
    const struct motet_process *peer = &link->endpoint.process;
    return motet_fail(code, "no connection to pid %d on %s: %s%s%s", peer->pid, peer->host_name, why,
                      why[0] && link->failure[0] ? "; " : "", link->failure);
}

/* Under the lock: motetInProgress, motetSuccess or the first link's failure. */
static motetResult_t check_links(struct motet_link *const links[], int n, const struct motet_link **waiting)
{
    motetResult_t result = motetSuccess;
    for (int i = 0; i < n; i++) {
        const struct motet_link *link = links[i];
        if (link->state == MOTET_LINK_FAILED)
            return fail_link(link, link->code, "");
        if (atomic_load_explicit(&link->caused, memory_order_acquire))
            return fail_link(link, motetRemoteError, link->endpoint.cause);
        if (link->state == MOTET_LINK_CONNECTING) {
            *waiting = link;
            result = motetInProgress;
        }
    }
    return result;
}

static void sleep_locked(uint64_t until_ns)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t mono_ns = motet_now_ns(), ns = until_ns > mono_ns ? until_ns - mono_ns : 0;
    ns = (ns < SLICE_NS ? ns : SLICE_NS) + (uint64_t)now.tv_nsec;
    struct timespec until = {.tv_sec = now.tv_sec + (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    pthread_cond_timedwait(&motet_links_changed, &motet_links_lock, &until);
}

/* The boot may ask a store of the caller's: not under the lock. */
static motetResult_t hear_others(struct motet_boot *boot)
{
    pthread_mutex_unlock(&motet_links_lock);
    motetResult_t result = motet_boot_check(boot);
    pthread_mutex_lock(&motet_links_lock);
    return result == motetSuccess ? motetInProgress : result;
}

static motetResult_t await_links(struct motet_link *const links[], int n, uint64_t deadline_ns, const _Atomic(_Bool) *abort,
                                 struct motet_boot *boot)
{
    const struct motet_link *waiting = NULL;
    motetResult_t result;
    uint64_t hear_ns = motet_now_ns() + SLICE_NS;
    pthread_mutex_lock(&motet_links_lock);
    while ((result = check_links(links, n, &waiting)) == motetInProgress) {
        if (abort && atomic_load(abort))
            result = motet_fail_quiet(motetInvalidUsage, "aborted while connecting");
        else if (motet_now_ns() >= deadline_ns)
            result = fail_link(waiting, motetTimeout, "not in time");
        else if (boot && motet_now_ns() >= hear_ns) {
            result = hear_others(boot);
            hear_ns = motet_now_ns() + SLICE_NS;
        }
        if (result != motetInProgress)
            break;
        sleep_locked(deadline_ns);
    }
    pthread_mutex_unlock(&motet_links_lock);
    return result;
}

static motetResult_t connect_links(const struct motet_process *const peers[], int n, const struct motet_secret *secret,
                                   uint64_t deadline_ns, const _Atomic(_Bool) *abort, struct motet_boot *boot,
                                   struct motet_endpoint *endpoints[])
{
    struct motet_link **links = calloc((size_t)n + 1, sizeof(struct motet_link *));
    if (!links)
        return motet_fail(motetSystemError, "out of memory for %d endpoints", n);
    motetResult_t result = ensure_descriptors(peers, n);
    if (result == motetSuccess)
        result = motet_secret_add(secret);
    if (result == motetSuccess) {
        result = want_links(peers, n, links);
        motet_connect_kick();
        if (result == motetSuccess)
            result = await_links(links, n, deadline_ns, abort, boot);
        motet_secret_remove(secret);
    }
    for (int i = 0; i < n; i++) {
        endpoints[i] = result == motetSuccess ? &links[i]->endpoint : NULL;
        if (result != motetSuccess && links[i])
            motet_link_unref(links[i]);
    }
    free(links);
    if (result != motetSuccess)
        motet_connect_kick(); /* links that nobody wants any more are dropped */
    return result;
}

motetResult_t motet_endpoint_connect(const struct motet_process *const peers[], int n, const struct motet_secret *secret,
                                     uint64_t deadline_ns, const _Atomic(_Bool) *abort, struct motet_endpoint *endpoints[])
{
    return connect_links(peers, n, secret, deadline_ns, abort, NULL, endpoints);
}

motetResult_t motet_endpoint_connect_in(struct motet_boot *boot, const struct motet_process *const peers[], int n,
                                        struct motet_endpoint *endpoints[])
{
    return connect_links(peers, n, &boot->secret, boot->deadline_ns, boot->abort, boot, endpoints);
}
