/* SPDX-License-Identifier: Apache-2.0
 * Messages with a fixed header over a stream socket. Nothing blocks, no signal is raised, and no byte beyond the current message is read. */
#include "message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/descriptor.h"

#define OUTPUT_MAX (1u << 20)

_Static_assert(sizeof(struct motet_message) == 24, "the wire header has no padding");

void motet_mailbox_open(struct motet_mailbox *box, int fd)
{
    *box = (struct motet_mailbox){.fd = fd};
}

void motet_mailbox_close(struct motet_mailbox *box)
{
    for (int i = 0; i < box->nfiles; i++)
        motet_descriptor_close(box->files[i]);
    free(box->body);
    free(box->output);
    motet_descriptor_close(box->fd);
    *box = (struct motet_mailbox){.fd = -1};
}

static void keep_files(struct motet_mailbox *box, struct msghdr *header)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        int n = (int)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + (size_t)i * sizeof(int), sizeof(int));
            fd = motet_descriptor_keep(fd);
            if (box->nfiles < MOTET_MESSAGE_FILES)
                box->files[box->nfiles++] = fd;
            else
                motet_descriptor_close(fd);
        }
    }
}

/* Reads at most len bytes: bytes, 0 = none now, negative errno. */
static ssize_t receive(struct motet_mailbox *box, void *bytes, size_t len, bool take_files)
{
    union {
        char space[CMSG_SPACE(MOTET_MESSAGE_FILES * sizeof(int))];
        struct cmsghdr aligned;
    } files;
    struct iovec part = {bytes, len};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (take_files) {
        header.msg_control = files.space;
        header.msg_controllen = sizeof(files.space);
    }
    ssize_t got;
    do
        got = recvmsg(box->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
    if (take_files)
        keep_files(box, &header);
    return got > 0 ? got : -ESHUTDOWN;
}

int motet_mailbox_read(struct motet_mailbox *box, bool take_files)
{
    const size_t head = sizeof(box->message);
    if (box->got >= head && box->got == head + box->message.len)
        box->got = 0; /* the message before was complete */
    while (box->got < head || box->got < head + box->message.len) {
        bool in_head = box->got < head;
        void *to = in_head ? (uint8_t *)&box->message + box->got : box->body + (box->got - head);
        size_t len = in_head ? head - box->got : head + box->message.len - box->got;
        ssize_t got = receive(box, to, len, take_files);
        if (got <= 0)
            return (int)got;
        box->got += (size_t)got;
        if (in_head && box->got == head) {
            if (box->message.magic != MOTET_MESSAGE_MAGIC || box->message.len > MOTET_MESSAGE_BODY_MAX)
                return -EBADMSG;
            if (!box->body && !(box->body = malloc(MOTET_MESSAGE_BODY_MAX)))
                return -ENOMEM;
        }
    }
    return 1;
}

/* Sends parts, once, with descriptors: bytes taken, 0 = none now, negative errno. */
static ssize_t transmit(int fd, struct iovec *parts, size_t nparts, const int *files, int nfiles)
{
    union {
        char space[CMSG_SPACE(MOTET_MESSAGE_FILES * sizeof(int))];
        struct cmsghdr aligned;
    } ancillary;
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = nparts};
    if (nfiles > 0) {
        memset(&ancillary, 0, sizeof(ancillary));
        header.msg_control = ancillary.space;
        header.msg_controllen = CMSG_SPACE((size_t)nfiles * sizeof(int));
        struct cmsghdr *part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN((size_t)nfiles * sizeof(int));
        memcpy(CMSG_DATA(part), files, (size_t)nfiles * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
    return sent;
}

static int keep_output(struct motet_mailbox *box, const void *bytes, size_t len)
{
    if (box->output_at > 0) {
        memmove(box->output, box->output + box->output_at, box->output_len - box->output_at);
        box->output_len -= box->output_at;
        box->output_at = 0;
    }
    size_t need = box->output_len + len;
    if (need > OUTPUT_MAX)
        return -ENOBUFS;
    if (need > box->output_capacity) {
        size_t capacity = need < 8192 ? 8192 : 2 * need;
        uint8_t *moved = realloc(box->output, capacity);
        if (!moved)
            return -ENOMEM;
        box->output = moved;
        box->output_capacity = capacity;
    }
    memcpy(box->output + box->output_len, bytes, len);
    box->output_len = need;
    return 0;
}

int motet_mailbox_flush(struct motet_mailbox *box)
{
    while (motet_mailbox_pending(box)) {
        struct iovec part = {box->output + box->output_at, box->output_len - box->output_at};
        ssize_t sent = transmit(box->fd, &part, 1, NULL, 0);
        if (sent <= 0)
            return (int)sent;
        box->output_at += (size_t)sent;
    }
    free(box->output);
    box->output = NULL;
    box->output_at = box->output_len = box->output_capacity = 0;
    return 0;
}

int motet_mailbox_send(struct motet_mailbox *box, uint32_t kind, uint64_t key, const void *body, size_t len, const int *files,
                       int nfiles)
{
    struct motet_message head = {.magic = MOTET_MESSAGE_MAGIC, .kind = kind, .len = (uint32_t)len, .key = key};
    struct iovec parts[2] = {{&head, sizeof(head)}, {(void *)body, len}};
    size_t sent = 0;
    int error = motet_mailbox_flush(box);
    if (error < 0)
        return error;
    if (!motet_mailbox_pending(box)) {
        ssize_t now = transmit(box->fd, parts, len > 0 ? 2 : 1, files, nfiles);
        if (now < 0)
            return (int)now;
        sent = (size_t)now;
    }
    if (sent == 0 && nfiles > 0) /* kept bytes would lose their descriptors */
        return -EAGAIN;
    if (sent < sizeof(head)) {
        error = keep_output(box, (const uint8_t *)&head + sent, sizeof(head) - sent);
        sent = sizeof(head);
    }
    if (error == 0 && sent < sizeof(head) + len)
        error = keep_output(box, (const uint8_t *)body + (sent - sizeof(head)), sizeof(head) + len - sent);
    return error;
}
