/* SPDX-License-Identifier: Apache-2.0
 * Short messages over a non-blocking stream socket: the greeting and the control connection. Each message is read exactly, never ahead,
 * so that descriptors that travel with one are asked for only when the reader expects them. Bytes may come from a stranger. */
#ifndef MOTET_MESSAGE_H
#define MOTET_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOTET_MESSAGE_BODY_MAX 4096
#define MOTET_MESSAGE_FILES    4

struct motet_message {
    uint32_t magic;
    uint32_t kind;
    uint32_t len; /* of the body */
    uint32_t reserved;
    uint64_t key;
};

/* Kinds on a control connection beside enum motet_control. */
enum motet_message_kind {
    MOTET_MESSAGE_BYE = 100, /* nothing more will come; the body is the error that made the sender leave, if one did */
    MOTET_MESSAGE_ASK,       /* a question about this process, and its answer: status.c */
    MOTET_MESSAGE_TELL,
    MOTET_MESSAGE_OBITUARY, /* why another process ended: life.c */
};

#define MOTET_MESSAGE_MAGIC 0x6d63746du /* "mtcm" */

/* One socket's reading and writing state. Not thread safe: the owner locks writing against writing; one thread reads. */
struct motet_mailbox {
    int fd;
    size_t got; /* bytes of the incoming message so far */
    struct motet_message message;
    uint8_t *body; /* MOTET_MESSAGE_BODY_MAX bytes, made on first use */
    int files[MOTET_MESSAGE_FILES];
    int nfiles;
    uint8_t *output; /* what the socket did not take */
    size_t output_at, output_len, output_capacity;
};

void motet_mailbox_open(struct motet_mailbox *box, int fd);

/* Frees memory and received descriptors that nobody took; closes the socket unless it is -1. */
void motet_mailbox_close(struct motet_mailbox *box);

/* Reads the next message: 1 = complete in message and body (valid until the next call), 0 = not yet, negative errno = gone, -ESHUTDOWN
 * at the end of the stream, -EBADMSG when it makes no sense. take_files: accept descriptors with it. */
int motet_mailbox_read(struct motet_mailbox *box, bool take_files);

/* Sends a message, with descriptors where nfiles > 0 (Unix sockets): 0 = taken (what the socket refuses is kept), negative errno =
 * gone; -ENOBUFS when more than 1 MB waits. Never blocks. */
int motet_mailbox_send(struct motet_mailbox *box, uint32_t kind, uint64_t key, const void *body, size_t len, const int *files,
                       int nfiles);

/* Sends what is kept: 0 or a negative errno. */
int motet_mailbox_flush(struct motet_mailbox *box);

static inline bool motet_mailbox_pending(const struct motet_mailbox *box)
{
    return box->output_len > box->output_at;
}

#endif
