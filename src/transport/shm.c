/* SPDX-License-Identifier: Apache-2.0
 * SHM: another process of this host. Over an abstract Unix socket (no file, gone with the process) each side hands over its segment's
 * memfd, its doorbell, and a pidfd of itself, which means the same in every pid namespace. Each maps the other's segment and reads the
 * other's random token through the mapping: only that proves locality; host names and boot ids only make it worth a try. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/settings.h"
#include "segment.h"
#include "transport/rows.h"

#define BACKLOG 4096
#define NAME    "SHM"

/* What an offer's bytes mean. */
struct shm_offer {
    uint64_t len; /* of the segment */
    uint8_t token[MOTET_SEGMENT_TOKEN_BYTES];
};

/* Order of an offer's descriptors. */
enum { OFFER_SEGMENT, OFFER_DOORBELL, OFFER_PIDFD };

struct motet_channel {
    char *base;
    size_t len;
    int doorbell, pidfd;
};

static int listener_fd = -1, pidfd_self = -1, doorbell_self = -1;

static bool shm_reach(const struct motet_process *me, const struct motet_process *peer)
{
    size_t len;
    return me->host_id == peer->host_id && !motet_setting_int(MOTET_SET_SHM_DISABLE) && motet_address_find(me, NAME, &len) &&
           motet_address_find(peer, NAME, &len);
}

/* "\0motet-<token>" */
static socklen_t address_of(const struct motet_process *process, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int at = 1 + sprintf(address->sun_path + 1, "motet-");
    for (size_t i = 0; i < sizeof(process->token); i++)
        at += sprintf(address->sun_path + at, "%02x", process->token[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)at);
}

static void shm_shutdown(void)
{
    motet_descriptor_close(listener_fd);
    motet_descriptor_close(pidfd_self);
    listener_fd = pidfd_self = doorbell_self = -1;
}

static motetResult_t shm_open_process(struct motet_process *me, int doorbell)
{
    static const uint8_t version = 1;
    struct sockaddr_un address;
    socklen_t len = address_of(me, &address);
    listener_fd = motet_descriptor_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (listener_fd < 0 || bind(listener_fd, (struct sockaddr *)&address, len) != 0 || listen(listener_fd, BACKLOG) != 0) {
        int error = errno;
        shm_shutdown();
        return motet_fail_quiet(motetSystemError, "no Unix socket: %s", strerror(error));
    }
    pidfd_self =
        motet_descriptor_keep((int)syscall(SYS_pidfd_open, getpid(), 0)); /* missing before Linux 5.3: then the socket tells */
    doorbell_self = doorbell;
    if (!motet_address_record(me, NAME, &version, sizeof(version)))
        return motet_fail_quiet(motetInternalError, "no room in the process's description");
    return motetSuccess;
}

static int shm_listener(int i)
{
    return i == 0 ? listener_fd : -1;
}

static int shm_dial(const struct motet_process *me, const struct motet_process *peer, int index, char where[MOTET_WHERE_MAX])
{
    struct sockaddr_un address;
    (void)me;
    if (index > 0)
        return -ENOENT;
    socklen_t len = address_of(peer, &address);
    snprintf(where, MOTET_WHERE_MAX, "@%.100s", address.sun_path + 1);
    int fd = motet_descriptor_lift(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&address, len) == 0)
        return fd;
    int error = errno;
    close(fd);
    return -error;
}

static motetResult_t shm_make_offer(struct motet_offer *mine)
{
    struct shm_offer offer = {.len = motet_segment_len()};
    _Static_assert(sizeof(offer) <= MOTET_OFFER_BYTES, "fits");
    memcpy(offer.token, motet_segment_token(), sizeof(offer.token));
    memset(mine->bytes, 0, sizeof(mine->bytes));
    memcpy(mine->bytes, &offer, sizeof(offer));
    mine->files[OFFER_SEGMENT] = motet_segment_fd();
    mine->files[OFFER_DOORBELL] = doorbell_self;
    mine->files[OFFER_PIDFD] = pidfd_self;
    mine->nfiles = pidfd_self >= 0 ? 3 : 2;
    return motetSuccess;
}

/* A segment shorter than it says, or one that its owner can shorten, would end this process by SIGBUS. */
static motetResult_t check_segment(int fd, const struct shm_offer *offer)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || offer->len < MOTET_SEGMENT_TOKEN_BYTES || (uint64_t)status.st_size < offer->len)
        return motet_fail_quiet(motetRemoteError, "the peer's segment is not what it says");
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return motet_fail_quiet(motetRemoteError, "the peer's segment could shrink");
    return motetSuccess;
}

static motetResult_t map_segment(struct motet_channel *channel, int fd, const struct shm_offer *offer)
{
    void *base;
    TRY(check_segment(fd, offer));
    TRY(motet_segment_map(fd, offer->len, &base));
    channel->base = base;
    channel->len = offer->len;
    if (memcmp(channel->base, offer->token, sizeof(offer->token)) != 0)
        return motet_fail_quiet(motetRemoteError, "the probe failed: the mapping does not show the peer's memory");
    return motetSuccess;
}

static void shm_close(struct motet_channel *channel)
{
    if (channel->base)
        munmap(channel->base, channel->len);
    motet_descriptor_close(channel->doorbell);
    motet_descriptor_close(channel->pidfd);
    free(channel);
}

static motetResult_t shm_join(const struct motet_process *peer, struct motet_offer *theirs, const int *lanes, int nlanes,
                              struct motet_channel **joined)
{
    struct shm_offer offer;
    (void)peer;
    (void)lanes;
    (void)nlanes;
    struct motet_channel *channel = calloc(1, sizeof(*channel));
    motetResult_t result = channel ? motetSuccess : motet_fail(motetSystemError, "out of memory");
    if (channel) {
        channel->doorbell = theirs->nfiles > OFFER_DOORBELL ? theirs->files[OFFER_DOORBELL] : -1;
        channel->pidfd = theirs->nfiles > OFFER_PIDFD ? theirs->files[OFFER_PIDFD] : -1;
        memcpy(&offer, theirs->bytes, sizeof(offer));
        if (channel->doorbell < 0)
            result = motet_fail_quiet(motetRemoteError, "descriptors are missing in the peer's offer");
        else
            result = map_segment(channel, theirs->files[OFFER_SEGMENT], &offer);
    }
    /* The mapping keeps the segment; of the rest only the doorbell and the pidfd stay, in the channel. */
    for (int i = 0; i < theirs->nfiles; i++)
        if (!channel || (i != OFFER_DOORBELL && i != OFFER_PIDFD))
            motet_descriptor_close(theirs->files[i]);
    if (result != motetSuccess && channel) {
        shm_close(channel);
        channel = NULL;
    }
    *joined = channel;
    return result;
}

static void *shm_map(struct motet_channel *channel, size_t *len)
{
    *len = channel->len;
    return channel->base;
}

static void shm_ring(struct motet_channel *channel)
{
    int saved_errno = errno;
    uint64_t one = 1;
    while (write(channel->doorbell, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
    errno = saved_errno;
}

static int shm_watch(struct motet_channel *channel)
{
    return channel->pidfd;
}

const struct motet_transport motet_shm_transport = {
    .name = NAME,
    .mapped = true,
    .reach = shm_reach,
    .open = shm_open_process,
    .shutdown = shm_shutdown,
    .listener = shm_listener,
    .dial = shm_dial,
    .offer = shm_make_offer,
    .join = shm_join,
    .map = shm_map,
    .ring = shm_ring,
    .watch = shm_watch,
    .close = shm_close,
};
