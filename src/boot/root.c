/* SPDX-License-Identifier: Apache-2.0
 * The root's thread: listeners, connections, lifetime. Ends when all ranks have left, a moment after a failure that all connected ranks
 * have heard, or at its deadline. A process that exits meanwhile waits a little for ranks that still read. The lock exists for fork and for later roots of the same address; the thread gives it up only while it
 * sleeps. */
#include "boot/root.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "boot/session.h"

#define STRANGERS_MAX        512
#define STRANGER_LIMIT_NS    (10 * 1000000000ull) /* from accept to hello */
#define STRANGER_PATIENCE_NS (1 * 1000000000ull)  /* the same when descriptors are scarce */
#define WARN_EVERY_NS        (30 * 1000000000ull)
#define LINGER_NS            (1 * 1000000000ull) /* after a failure: for ranks that come late, so that they hear it too */
#define REBIND_NS            (500 * 1000000ull)  /* a port may be about to become free */
#define EXIT_WAIT_NS         (5 * 1000000000ull) /* most that exit waits for ranks of a job that goes well */
#define LEAVE_WAIT_NS        (200 * 1000000ull)  /* for the goodbye of this process's own ranks to be read */
#define EVENTS               64

struct root {
    struct root *next; /* list of all roots of the process */
    pthread_mutex_t lock;
    int epoll, wake;
    int listeners[MOTET_ROOT_ADDRESSES_MAX];
    union motet_address addresses[MOTET_ROOT_ADDRESSES_MAX];
    int nlisteners;
    struct motet_secret secret;
    struct motet_root_options options;
    _Atomic(_Bool) stop;
    struct motet_session *oldest, *newest;
    struct motet_job job;
    uint64_t idle_since_ns; /* failed and nobody here since; 0: not so */
    uint64_t next_warning_ns;
    unsigned nstrangers, nrefused; /* strangers now; refused since the last warning */
};

static pthread_mutex_t roots_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a root's own lock */
static struct root *roots;
static struct root *inherited; /* a forked child's copies: without thread and descriptors, kept reachable */
static pthread_once_t handlers_once = PTHREAD_ONCE_INIT;

/* ---- fork: the child must not keep the job's connections open */

static void before_fork(void)
{
    pthread_mutex_lock(&roots_lock);
    for (struct root *root = roots; root; root = root->next)
        pthread_mutex_lock(&root->lock);
}

static void after_fork_in_parent(void)
{
    for (struct root *root = roots; root; root = root->next)
        pthread_mutex_unlock(&root->lock);
    pthread_mutex_unlock(&roots_lock);
}

static void after_fork_in_child(void)
{
    for (struct root *root = roots; root; root = root->next) {
        close(root->epoll);
        close(root->wake);
        for (int i = 0; i < root->nlisteners; i++)
            close(root->listeners[i]);
        for (struct motet_session *session = root->oldest; session; session = session->next)
            close(session->fd);
        pthread_mutex_unlock(&root->lock);
    }
    if (roots)
        inherited = roots;
    roots = NULL;
    pthread_mutex_unlock(&roots_lock);
}

/* ---- exit: the last value may still be on its way to others when the root's process is done */

/* Ranks that are still connected to roots of this process: its own and others'. A root that is about to end counts as other. */
static void count_ranks(int *nown, int *nothers)
{
    *nown = *nothers = 0;
    pthread_mutex_lock(&roots_lock);
    for (struct root *root = roots; root; root = root->next) {
        pthread_mutex_lock(&root->lock);
        *nothers += !root->options.keep && root->job.nranks > 0 && root->job.ngone == root->job.nranks;
        for (int rank = 0; rank < root->job.nranks && root->job.failure == motetSuccess && !root->options.keep; rank++) {
            const struct motet_job_rank *one = &root->job.ranks[rank];
            bool own = one->pid == (uint32_t)getpid() && strcmp(one->host, motet_host_name()) == 0;
            *(own ? nown : nothers) += one->state == MOTET_RANK_HERE;
        }
        pthread_mutex_unlock(&root->lock);
    }
    pthread_mutex_unlock(&roots_lock);
}

static void before_exit(void)
{
    uint64_t start_ns = motet_now_ns(), now_ns = start_ns;
    int nown, nothers;
    for (count_ranks(&nown, &nothers); nothers > 0; count_ranks(&nown, &nothers)) {
        /* Own ranks that do not leave are in the middle of init: the others shall hear of this exit. */
        if (now_ns - start_ns > (nown > 0 ? LEAVE_WAIT_NS : EXIT_WAIT_NS))
            break;
        now_ns = motet_now_ns();
        motet_net_sleep(now_ns + 1000000, NULL);
    }
}

static void register_handlers(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    motet_handshake_keep_libcrypto(); /* it still works while before_exit waits; where the program had it clean up, handlers run in reverse */
    OPENSSL_init_crypto(OPENSSL_INIT_ADD_ALL_DIGESTS, NULL);
    atexit(before_exit);
}

/* ---- sessions */

static void unlink_session(struct root *root, struct motet_session *session)
{
    *(session->previous ? &session->previous->next : &root->oldest) = session->next;
    *(session->next ? &session->next->previous : &root->newest) = session->previous;
}

static void warn_of_stranger(struct root *root, const struct motet_session *session)
{
    char text[MOTET_ADDRESS_TEXT_MAX];
    uint64_t now = motet_now_ns();
    root->nrefused++;
    if (now < root->next_warning_ns)
        return;
    motet_address_text(&session->peer, text);
    if (root->nrefused == 1)
        WARN(MOTET_LOG_BOOTSTRAP, "root at %s: ignored a connection from %s that is not of this job: %s", root->job.where, text,
             session->reason);
    else
        WARN(MOTET_LOG_BOOTSTRAP, "root at %s: ignored %u more connections that are not of this job, the last from %s: %s",
             root->job.where, root->nrefused, text, session->reason);
    root->nrefused = 0;
    root->next_warning_ns = now + WARN_EVERY_NS;
}

/* Frees the dead. A death may fail the job, and telling others of that may find more dead. */
static void bury(struct root *root)
{
    while (root->job.dying) {
        root->job.dying = false;
        for (struct motet_session *session = root->oldest, *next; session; session = next) {
            next = session->next;
            if (!session->dead)
                continue;
            if (session->state != MOTET_SESSION_RANK && !session->close_when_sent)
                warn_of_stranger(root, session);
            unlink_session(root, session);
            motet_session_free(session);
        }
    }
}

static void end_all_sessions(struct root *root)
{
    for (struct motet_session *session = root->oldest, *next; session; session = next) {
        next = session->next;
        motet_session_end(session, "the root ends");
        unlink_session(root, session);
        motet_session_free(session);
    }
}

static bool is_stranger(const struct motet_session *session)
{
    return session->state != MOTET_SESSION_RANK && !session->dead;
}

/* Ends strangers that have said nothing for longer than limit_ns, and at least one when there are more than `most`. Counts those that
 * stay. */
static bool review_strangers(struct root *root, uint64_t limit_ns, unsigned most)
{
    uint64_t now = motet_now_ns();
    bool ended = false, crowded = root->nstrangers > most;
    root->nstrangers = 0;
    for (struct motet_session *session = root->oldest; session; session = session->next) {
        if (!is_stranger(session))
            continue;
        bool late = now - session->since_ns > limit_ns;
        if (late || (crowded && !ended)) {
            motet_session_end(session, late ? "it did not prove itself in time" : "too many unproven connections");
            ended = true;
        } else {
            root->nstrangers++;
        }
    }
    bury(root);
    return ended;
}

static void close_listeners(struct root *root)
{
    for (int i = 0; i < root->nlisteners; i++) {
        epoll_ctl(root->epoll, EPOLL_CTL_DEL, root->listeners[i], NULL); /* a forked child's copy would keep it reporting */
        close(root->listeners[i]);
    }
    root->nlisteners = 0;
}

/* Descriptors have run out: the soft limit is raised, then strangers go; when only ranks are left the job fails rather than hangs.
 * Whether accept may be tried again. */
static bool find_descriptor(struct root *root)
{
    struct rlimit limit = {0};
    bool own_limit = errno == EMFILE; /* else the system's, or memory */
    if (own_limit && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
            return true;
    }
    if (review_strangers(root, STRANGER_PATIENCE_NS, STRANGERS_MAX))
        return true;
    if (root->nstrangers > 0 || !own_limit) { /* they will be ranks or gone in a moment */
        motet_net_sleep(motet_now_ns() + 2000000, NULL);
        return false;
    }
    motet_job_fail(
        &root->job, motetSystemError,
        "the root at %s has run out of descriptors (limit %llu) after %d of %d ranks: it needs about %d more; raise ulimit -n",
        root->job.where, (unsigned long long)limit.rlim_cur, root->job.nhere, root->job.nranks, root->job.nranks - root->job.nhere);
    close_listeners(root);
    return false;
}

/* Unix peers of other users are strangers whatever they know. */
static bool is_same_user(int fd, const union motet_address *address)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (address->any.sa_family != AF_UNIX)
        return true;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

static void add_session(struct root *root, int fd, const union motet_address *peer, const union motet_address *local)
{
    struct motet_session *session = motet_session_new(&root->job, &root->secret, root->epoll, fd, peer);
    if (!session)
        return;
    session->previous = root->newest;
    *(root->newest ? &root->newest->next : &root->oldest) = session;
    root->newest = session;
    if (!is_same_user(fd, local))
        motet_session_end(session, "another user's process");
    if (++root->nstrangers > STRANGERS_MAX)
        review_strangers(root, STRANGER_LIMIT_NS, STRANGERS_MAX);
}

static void accept_some(struct root *root, int index)
{
    for (int i = 0; i < EVENTS && index < root->nlisteners; i++) {
        union motet_address peer;
        int fd;
        motetResult_t result = motet_net_accept(root->listeners[index], &fd, &peer);
        if (result != motetSuccess && !find_descriptor(root))
            return;
        if (result == motetSuccess && fd < 0)
            return;
        if (fd >= 0)
            add_session(root, fd, &peer, &root->addresses[index]);
    }
}

/* ---- the thread */

static int timeout_ms(const struct root *root)
{
    if (root->nstrangers > 0 || root->job.failure != motetSuccess)
        return 100;
    if (root->options.keep || root->options.deadline_ns == UINT64_MAX)
        return -1;
    uint64_t now = motet_now_ns(), left = root->options.deadline_ns > now ? root->options.deadline_ns - now : 0;
    uint64_t ms = left / 1000000u + 1;
    return ms > 60000 ? 60000 : ms < 100 ? 100 : (int)ms;
}

/* Whether the job has ended one way or another. */
static bool is_job_over(struct root *root)
{
    const struct motet_job *job = &root->job;
    uint64_t now = motet_now_ns();
    if (job->nhere > 0 || (job->failure == motetSuccess && job->ngone == 0)) {
        root->idle_since_ns = 0;
        return false;
    }
    if (job->nranks > 0 && job->ngone == job->nranks)
        return true;
    if (job->failure == motetSuccess)
        return false;
    if (root->idle_since_ns == 0)
        root->idle_since_ns = now;
    return now - root->idle_since_ns > LINGER_NS;
}

static bool is_over(struct root *root)
{
    if (atomic_load_explicit(&root->stop, memory_order_acquire))
        return true;
    if (is_job_over(root)) {
        if (!root->options.keep)
            return true;
        motet_job_reset(&root->job);
        root->idle_since_ns = 0;
    }
    return !root->options.keep && root->job.nhere == 0 && motet_now_ns() >= root->options.deadline_ns;
}

static void handle(struct root *root, const struct epoll_event *event)
{
    uint64_t ignored;
    if (event->data.u64 == 0) { /* the wake descriptor: is_over looks at the reason */
        while (read(root->wake, &ignored, sizeof(ignored)) < 0 && errno == EINTR)
            ;
    } else if (event->data.u64 <= MOTET_ROOT_ADDRESSES_MAX) {
        accept_some(root, (int)event->data.u64 - 1);
    } else {
        struct motet_session *session = event->data.ptr;
        if (event->events & EPOLLOUT)
            motet_session_flush(session);
        if (event->events & (EPOLLIN | EPOLLERR | EPOLLHUP))
            motet_session_read(session);
    }
}

/* A session that an earlier event of the batch has freed must not be touched: accept frees strangers, so connections go first. */
static void handle_batch(struct root *root, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++)
        if (events[i].data.u64 > MOTET_ROOT_ADDRESSES_MAX)
            handle(root, &events[i]);
    for (int i = 0; i < count; i++)
        if (events[i].data.u64 <= MOTET_ROOT_ADDRESSES_MAX)
            handle(root, &events[i]);
    bury(root);
    if (root->nstrangers > 0)
        review_strangers(root, STRANGER_LIMIT_NS, STRANGERS_MAX);
}

static void free_root(struct root *root)
{
    end_all_sessions(root);
    motet_job_reset(&root->job);
    close_listeners(root);
    if (root->epoll >= 0)
        close(root->epoll);
    if (root->wake >= 0)
        close(root->wake);
    pthread_mutex_destroy(&root->lock);
    explicit_bzero(&root->secret, sizeof(root->secret));
    free(root);
}

static void *serve(void *argument)
{
    struct root *root = argument;
    struct epoll_event events[EVENTS];
    bool over = false;
    motet_log_set_rank(-1);
    while (!over) {
        int count = epoll_wait(root->epoll, events, EVENTS, timeout_ms(root));
        pthread_mutex_lock(&root->lock);
        handle_batch(root, events, count > 0 ? count : 0);
        over = is_over(root);
        pthread_mutex_unlock(&root->lock);
    }
    pthread_mutex_lock(&roots_lock);
    struct root **at = &roots;
    while (*at != root)
        at = &(*at)->next;
    *at = root->next;
    /* Freed under the lock, so that fork never sees half of it, and a new root finds the port free once this one is off the list. */
    free_root(root);
    /* Else libcrypto takes its locks when the thread exits, and a fork at that moment gives them to the child for ever. */
    OPENSSL_thread_stop();
    pthread_mutex_unlock(&roots_lock);
    return NULL;
}

/* ---- start */

/* Whether a root of this process listens there. One whose job has failed is asked to end. */
static bool holds(const union motet_address *address)
{
    bool found = false;
    pthread_mutex_lock(&roots_lock);
    for (struct root *root = roots; root; root = root->next) {
        pthread_mutex_lock(&root->lock);
        for (int i = 0; i < root->nlisteners; i++) {
            const union motet_address *own = &root->addresses[i];
            if (!motet_address_same_host(own, address) || motet_address_port(own) != motet_address_port(address))
                continue;
            found = true;
            if (root->job.failure != motetSuccess && root->job.nhere == 0) {
                atomic_store_explicit(&root->stop, true, memory_order_release);
                while (write(root->wake, &(uint64_t){1}, sizeof(uint64_t)) < 0 && errno == EINTR)
                    ;
            }
        }
        pthread_mutex_unlock(&root->lock);
    }
    pthread_mutex_unlock(&roots_lock);
    return found;
}

static motetResult_t add_listener(struct root *root, union motet_address *address, bool quiet)
{
    int fd;
    TRY(motet_net_listen(address, quiet, &fd));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)root->nlisteners + 1};
    if (epoll_ctl(root->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        close(fd);
        return motet_fail(motetSystemError, "epoll: %s", strerror(errno));
    }
    root->listeners[root->nlisteners] = fd;
    root->addresses[root->nlisteners++] = *address;
    return motetSuccess;
}

static motetResult_t listen_everywhere(struct root *root, const struct motet_root_place *place)
{
    for (int i = 0; i < place->naddresses; i++) {
        union motet_address address = place->addresses[i], same_port = address;
        if (motet_address_port(&address) == 0 && root->nlisteners > 0) { /* one port on all addresses suits firewalls */
            motet_address_set_port(&same_port, motet_address_port(&root->addresses[0]));
            if (add_listener(root, &same_port, true) == motetSuccess)
                continue;
        }
        if (add_listener(root, &address, true) != motetSuccess)
            INFO(MOTET_LOG_BOOTSTRAP, "root: %s", motet_error_text());
    }
    if (root->nlisteners > 0)
        return motetSuccess;
    union motet_address first = place->addresses[0];
    return add_listener(root, &first, false);
}

static motetResult_t listen_first(struct root *root, const struct motet_root_place *place, const _Atomic(_Bool) *abort)
{
    uint64_t give_up_ns = motet_now_ns() + REBIND_NS;
    union motet_address address;
    for (;;) {
        bool own = false;
        for (int i = 0; i < place->naddresses; i++) {
            address = place->addresses[i];
            if (add_listener(root, &address, true) == motetSuccess)
                return motetSuccess;
            own = holds(&address) || own;
        }
        if (motet_now_ns() >= (own ? root->options.deadline_ns : give_up_ns))
            break;
        TRY(motet_net_sleep(motet_now_ns() + 2000000, abort));
    }
    address = place->addresses[0];
    return add_listener(root, &address, false);
}

static motetResult_t start_thread(struct root *root)
{
    sigset_t all, before;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_once(&handlers_once, register_handlers);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_mutex_lock(&roots_lock);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, serve, root);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        pthread_setname_np(thread, "motet-root");
        root->next = roots;
        roots = root;
    }
    pthread_mutex_unlock(&roots_lock);
    pthread_attr_destroy(&attributes);
    return error == 0 ? motetSuccess : motet_fail(motetSystemError, "cannot start the root's thread: %s", strerror(error));
}

motetResult_t motet_root_start(struct motet_root_place *place, const struct motet_root_options *options,
                               const _Atomic(_Bool) *abort)
{
    struct root *root = calloc(1, sizeof(*root));
    if (!root)
        return motet_fail(motetSystemError, "out of memory for the root");
    pthread_mutex_init(&root->lock, NULL);
    root->secret = place->secret;
    root->options = *options;
    root->epoll = motet_descriptor_lift(epoll_create1(EPOLL_CLOEXEC));
    root->wake = motet_descriptor_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    motetResult_t result = motetSuccess;
    if (root->epoll < 0 || root->wake < 0 || epoll_ctl(root->epoll, EPOLL_CTL_ADD, root->wake, &event) < 0)
        result = motet_fail(motetSystemError, "cannot make the root's descriptors: %s", strerror(errno));
    if (result == motetSuccess)
        result = options->listen == MOTET_ROOT_FIRST ? listen_first(root, place, abort) : listen_everywhere(root, place);
    if (result == motetSuccess) {
        motet_address_host_port(&root->addresses[0], root->job.where);
        place->naddresses = root->nlisteners;
        memcpy(place->addresses, root->addresses, (size_t)root->nlisteners * sizeof(root->addresses[0]));
        INFO(MOTET_LOG_BOOTSTRAP, "root listens at %s", root->job.where);
        result = start_thread(root);
    }
    if (result != motetSuccess)
        free_root(root);
    return result;
}

int motet_root_count(void)
{
    int count = 0;
    pthread_mutex_lock(&roots_lock);
    for (struct root *root = roots; root; root = root->next)
        count++;
    pthread_mutex_unlock(&roots_lock);
    return count;
}
