/* SPDX-License-Identifier: Apache-2.0
 * Bytes that reach the root: first byte chooses how far the sender has come (a stranger, one that has proved itself, a welcomed rank),
 * the rest is sent in portions through a socket pair to a session, as the network would. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void drain(int fd)
{
    char sink[4096];
    while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
        ;
}

static struct motet_session *new_session(struct motet_job *job, const struct motet_secret *secret, int ends[2])
{
    union motet_address nobody;
    memset(&nobody, 0, sizeof(nobody));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    struct motet_session *session = motet_session_new(job, secret, -1, ends[1], &nobody);
    if (!session)
        abort();
    return session;
}

static void welcome(struct motet_job *job, struct motet_session *session, uint32_t rank)
{
    struct motet_hello hello = {.protocol = MOTET_BOOT_PROTOCOL, .rank = rank, .nranks = 3, .pid = 1 + rank, .host = "fuzz"};
    if (motet_job_join(job, session, &hello) != MOTET_JOB_WELCOME)
        abort();
    session->state = MOTET_SESSION_RANK;
    session->rank = (int)rank;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct motet_secret secret = {{1, 2, 3}};
    static struct motet_job job;
    int sender[2], other[2];
    if (size < 2)
        return 0;
    struct motet_session *session = new_session(&job, &secret, sender), *bystander = new_session(&job, &secret, other);
    unsigned stage = data[0] % 3, portion = 1 + data[1];
    welcome(&job, bystander, 1);
    if (stage == 1)
        session->state = MOTET_SESSION_HELLO;
    if (stage == 2)
        welcome(&job, session, 0);
    for (size_t at = 2; at < size && !session->dead; at += portion) {
        size_t len = size - at < portion ? size - at : portion;
        if (send(sender[0], data + at, len, MSG_NOSIGNAL) < 0)
            break;
        motet_session_read(session);
        motet_session_flush(session);
        drain(sender[0]);
        drain(other[0]);
    }
    motet_session_end(session, "end");
    motet_session_end(bystander, "end");
    motet_session_free(session);
    motet_session_free(bystander);
    close(sender[0]);
    close(other[0]);
    motet_job_reset(&job);
    return 0;
}
