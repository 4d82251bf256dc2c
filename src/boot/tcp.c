/* SPDX-License-Identifier: Apache-2.0
 * The client of the root. Until the root has proved itself every failure is tried again: refused (not started yet), reset (its accept
 * queue overflowed), silence (a firewall, or some other program). After that a failure is the root's end. */
#include "boot/tcp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/interface.h"
#include "base/log.h"
#include "base/os.h"
#include "base/settings.h"
#include "boot/frame.h"
#include "boot/handshake.h"

#define MS                   1000000ull
#define CONNECT_FIRST_NS     (250 * MS)
#define CONNECT_LONGEST_NS   (4000 * MS)
#define HANDSHAKE_FIRST_NS   (2000 * MS)
#define HANDSHAKE_LONGEST_NS (30000 * MS)
#define PAUSE_FIRST_NS       (2 * MS)
#define PAUSE_LONGEST_NS     (250 * MS)
#define GONE_AFTER_NS        (1500 * MS) /* refused so long by a root that listened before the id was made: it has ended */
#define CANCEL_NS            (1000 * MS) /* for the root's answer to a cancelled get */
#define GIVE_UP_NS           (1000 * MS)

struct tcp {
    int fd;
    bool broken;
    uint8_t head[MOTET_FRAME_HEAD_LEN]; /* frame that is being read: an interrupted read goes on here */
    size_t head_len, body_len;
    uint8_t *body;
    struct motet_frame frame;
};

/* ---- frames */

static motetResult_t lost(struct motet_boot *boot, const char *reason)
{
    struct tcp *tcp = boot->state;
    tcp->broken = true;
    return motet_fail(motetRemoteError, "rank %d: the root at %s is gone (%s): its process died or the network broke", boot->rank,
                      boot->where, reason);
}

/* Reads into buf from *have on, so that a timeout loses nothing. */
static motetResult_t read_some(struct motet_boot *boot, uint8_t *buf, size_t *have, size_t len, uint64_t deadline_ns)
{
    struct tcp *tcp = boot->state;
    while (*have < len) {
        ssize_t got = recv(tcp->fd, buf + *have, len - *have, 0);
        if (got > 0)
            *have += (size_t)got;
        else if (got == 0)
            return lost(boot, "connection closed");
        else if (errno == EAGAIN)
            TRY(motet_net_wait(tcp->fd, POLLIN, deadline_ns, boot->abort));
        else if (errno != EINTR)
            return lost(boot, strerror(errno));
    }
    return motetSuccess;
}

/* Next frame; *value is malloced, the caller frees it. A FAIL is returned as the error that it tells. */
static motetResult_t read_frame(struct motet_boot *boot, enum motet_frame_type *type, void **value, size_t *len,
                                uint64_t deadline_ns)
{
    struct tcp *tcp = boot->state;
    TRY(read_some(boot, tcp->head, &tcp->head_len, sizeof(tcp->head), deadline_ns));
    if (!tcp->body) {
        if (!motet_frame_parse_head(tcp->head, &tcp->frame) || tcp->frame.key_len != 0)
            return lost(boot, "it sent a malformed message");
        tcp->body = malloc(tcp->frame.value_len + 1);
        if (!tcp->body)
            return motet_fail(motetSystemError, "rank %d: out of memory for %zu bytes", boot->rank, tcp->frame.value_len);
    }
    TRY(read_some(boot, tcp->body, &tcp->body_len, tcp->frame.value_len, deadline_ns));
    *type = tcp->frame.type;
    *value = tcp->body;
    *len = tcp->frame.value_len;
    tcp->body = NULL;
    tcp->head_len = tcp->body_len = 0;
    if (*type != MOTET_FRAME_FAIL)
        return motetSuccess;
    char text[900];
    motetResult_t code = motet_failure_parse(*value, *len, text, sizeof(text));
    free(*value);
    *value = NULL;
    tcp->broken = boot->heard = true;
    return motet_fail(code, "%s", text);
}

/* Writes a frame. When the connection broke, what the root said before that is the better error. */
static motetResult_t write_frame(struct motet_boot *boot, enum motet_frame_type type, const char *key, const void *value,
                                 size_t len, uint64_t deadline_ns)
{
    struct tcp *tcp = boot->state;
    size_t key_len = strlen(key), total = MOTET_FRAME_HEAD_LEN + key_len + len;
    uint8_t *bytes = malloc(total);
    if (!bytes)
        return motet_fail(motetSystemError, "rank %d: out of memory for %zu bytes", boot->rank, total);
    motet_frame_head(bytes, type, key_len, len);
    memcpy(bytes + MOTET_FRAME_HEAD_LEN, key, key_len);
    if (len > 0)
        memcpy(bytes + MOTET_FRAME_HEAD_LEN + key_len, value, len);
    motetResult_t result = motet_net_write(tcp->fd, bytes, total, deadline_ns, boot->abort);
    free(bytes);
    if (result == motetTimeout)
        tcp->broken = true; /* half a frame may be out */
    if (result != motetRemoteError)
        return result;
    enum motet_frame_type ignored;
    void *rest = NULL;
    size_t rest_len;
    do {
        free(rest);
        result = read_frame(boot, &ignored, &rest, &rest_len, motet_now_ns() + CANCEL_NS);
    } while (result == motetSuccess);
    return result == motetTimeout && !tcp->broken ? lost(boot, "Broken pipe") : result;
}

static motetResult_t check_usable(struct motet_boot *boot)
{
    struct tcp *tcp = boot->state;
    if (tcp->broken)
        return motet_fail_quiet(motetInvalidUsage, "rank %d: the connection to the root at %s has failed before", boot->rank,
                                boot->where);
    return motetSuccess;
}

/* ---- the kind */

static motetResult_t put(struct motet_boot *boot, const char *key, const void *value, size_t len, uint64_t deadline_ns)
{
    TRY(check_usable(boot));
    return write_frame(boot, MOTET_FRAME_PUT, key, value, len, deadline_ns);
}

static motetResult_t get(struct motet_boot *boot, const char *key, void **value, size_t *len, uint64_t deadline_ns)
{
    struct tcp *tcp = boot->state;
    enum motet_frame_type type;
    *value = NULL;
    TRY(check_usable(boot));
    TRY(write_frame(boot, MOTET_FRAME_GET, key, NULL, 0, deadline_ns));
    motetResult_t result = read_frame(boot, &type, value, len, deadline_ns);
    if (result == motetTimeout && !tcp->broken) {
        TRY(write_frame(boot, MOTET_FRAME_CANCEL, "", NULL, 0, motet_now_ns() + CANCEL_NS));
        result = read_frame(boot, &type, value, len, motet_now_ns() + CANCEL_NS);
        if (result == motetTimeout && !tcp->broken)
            return lost(boot, "no answer");
    }
    TRY(result);
    if (type == MOTET_FRAME_VALUE)
        return motetSuccess;
    free(*value);
    *value = NULL;
    return type == MOTET_FRAME_NONE ? motet_fail_quiet(motetTimeout, "no %s at %s yet", key, boot->where)
                                    : lost(boot, "it sent a message out of turn");
}

static void give_up(struct motet_boot *boot, motetResult_t code, const char *text)
{
    struct tcp *tcp = boot->state;
    uint8_t value[900];
    if (tcp->broken)
        return;
    write_frame(boot, MOTET_FRAME_FAIL, "", value, motet_failure_encode(code, text, value, sizeof(value)),
                motet_now_ns() + GIVE_UP_NS);
    tcp->broken = true;
}

static motetResult_t check(struct motet_boot *boot)
{
    struct tcp *tcp = boot->state;
    enum motet_frame_type type;
    void *value = NULL;
    size_t len;
    char byte;
    TRY(check_usable(boot));
    if (tcp->head_len == 0 && recv(tcp->fd, &byte, 1, MSG_PEEK) < 0 && (errno == EAGAIN || errno == EINTR))
        return motetSuccess;
    /* Between two exchanges the root says nothing but a failure. */
    motetResult_t result = read_frame(boot, &type, &value, &len, motet_now_ns() + CANCEL_NS);
    free(value);
    return result == motetSuccess ? lost(boot, "it sent a message out of turn") : result;
}

static void close_tcp(struct motet_boot *boot)
{
    struct tcp *tcp = boot->state;
    if (!tcp)
        return;
    if (tcp->fd >= 0 && (!tcp->broken || boot->gave_up)) {
        uint8_t head[MOTET_FRAME_HEAD_LEN];
        motet_frame_head(head, MOTET_FRAME_BYE, 0, 0);
        motet_net_write(tcp->fd, head, sizeof(head), motet_now_ns() + GIVE_UP_NS, NULL); /* nobody cares if the root is gone */
    }
    if (tcp->fd >= 0)
        close(tcp->fd);
    free(tcp->body);
    free(tcp);
    boot->state = NULL;
}

static const struct motet_boot_kind tcp_kind = {
    .name = "tcp", .put = put, .get = get, .give_up = give_up, .check = check, .close = close_tcp};

/* ---- opening */

enum attempt { ATTEMPT_FAILED, ATTEMPT_REFUSED, ATTEMPT_AGAIN, ATTEMPT_DONE, ATTEMPT_FINAL };

struct search {
    uint64_t connect_ns, handshake_ns, pause_ns; /* limits of the next attempts */
    uint64_t refused_since_ns;                   /* all addresses have refused since; 0: not so */
    unsigned ntries, nbroken;                    /* broken: connected or timed out, but not refused */
    motetResult_t result;                        /* of an attempt that is final */
    char reasons[400];                           /* last reason per address */
};

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The other end of a Unix socket must be this user's process. */
static bool is_same_user(int fd, const union motet_address *address)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    return address->any.sa_family != AF_UNIX ||
           (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == geteuid() || peer.uid == 0));
}

/* Sends proof and hello in one packet and waits for the verdict: without limit of its own, for the root has proved to be ours. */
static enum attempt introduce(struct motet_boot *boot, const uint8_t *proof, struct search *search)
{
    struct tcp *tcp = boot->state;
    struct motet_hello hello = {
        .protocol = MOTET_BOOT_PROTOCOL, .rank = (uint32_t)boot->rank, .nranks = (uint32_t)boot->nranks, .pid = (uint32_t)getpid()};
    uint8_t bytes[MOTET_HANDSHAKE_PROOF_LEN + MOTET_FRAME_HEAD_LEN + MOTET_HELLO_LEN];
    snprintf(hello.host, sizeof(hello.host), "%s", motet_host_name());
    memcpy(bytes, proof, MOTET_HANDSHAKE_PROOF_LEN);
    motet_frame_head(bytes + MOTET_HANDSHAKE_PROOF_LEN, MOTET_FRAME_HELLO, 0, MOTET_HELLO_LEN);
    motet_hello_encode(&hello, bytes + MOTET_HANDSHAKE_PROOF_LEN + MOTET_FRAME_HEAD_LEN);
    search->result = motet_net_write(tcp->fd, bytes, sizeof(bytes), boot->deadline_ns, boot->abort);
    if (search->result == motetSuccess)
        search->result = motet_net_read(tcp->fd, tcp->head, sizeof(tcp->head), boot->deadline_ns, boot->abort);
    if (search->result == motetRemoteError)
        return ATTEMPT_FAILED; /* it does not know us yet, so it may be tried again */
    enum motet_frame_type type = MOTET_FRAME_NONE;
    void *value = NULL;
    size_t len;
    if (search->result == motetSuccess) {
        tcp->head_len = sizeof(tcp->head);
        search->result = read_frame(boot, &type, &value, &len, boot->deadline_ns);
    }
    free(value);
    if (search->result != motetSuccess)
        return ATTEMPT_FINAL;
    if (type == MOTET_FRAME_WELCOME)
        return ATTEMPT_DONE;
    if (type == MOTET_FRAME_AGAIN)
        return ATTEMPT_AGAIN;
    search->result = lost(boot, "it sent a message out of turn");
    return ATTEMPT_FINAL;
}

static enum attempt handshake(struct motet_boot *boot, const struct motet_secret *secret, struct search *search)
{
    struct tcp *tcp = boot->state;
    struct motet_handshake_nonces nonces;
    uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN], reply[MOTET_HANDSHAKE_REPLY_LEN], proof[MOTET_HANDSHAKE_PROOF_LEN];
    uint64_t deadline_ns = earlier(boot->deadline_ns, motet_now_ns() + search->handshake_ns);
    motetResult_t result = motet_handshake_open(&nonces, opening);
    if (result == motetSuccess)
        result = motet_net_write(tcp->fd, opening, sizeof(opening), deadline_ns, boot->abort);
    if (result == motetSuccess)
        result = motet_net_read(tcp->fd, reply, sizeof(reply), deadline_ns, boot->abort);
    if (result == motetTimeout)
        motet_fail_quiet(motetTimeout, "it accepts connections but does not answer the handshake");
    if (result == motetSuccess)
        result = motet_handshake_prove(&nonces, secret, "boot", reply, proof);
    if (result == motetSuccess)
        return introduce(boot, proof, search);
    search->result = result;
    return result == motetRemoteError || result == motetTimeout ? ATTEMPT_FAILED : ATTEMPT_FINAL;
}

static enum attempt try_address(struct motet_boot *boot, const struct motet_root_place *place, const union motet_address *address,
                                struct search *search)
{
    struct tcp *tcp = boot->state;
    uint64_t deadline_ns = earlier(boot->deadline_ns, motet_now_ns() + search->connect_ns);
    search->ntries++;
    search->result = motet_net_connect(address, deadline_ns, boot->abort, &tcp->fd);
    if (search->result == motetInvalidUsage || search->result == motetSystemError)
        return ATTEMPT_FINAL;
    if (search->result != motetSuccess)
        return strcmp(motet_error_text(), strerror(ECONNREFUSED)) == 0 ? ATTEMPT_REFUSED : ATTEMPT_FAILED;
    motet_address_host_port(address, boot->where);
    enum attempt attempt = ATTEMPT_FAILED;
    if (is_same_user(tcp->fd, address))
        attempt = handshake(boot, &place->secret, search);
    else
        motet_fail_quiet(motetRemoteError, "it belongs to another user");
    if (attempt == ATTEMPT_DONE) {
        boot->root = *address;
        return attempt;
    }
    close(tcp->fd);
    free(tcp->body);
    *tcp = (struct tcp){.fd = -1};
    return attempt;
}

static void add_reason(char *reasons, size_t size, const union motet_address *address, const char *reason)
{
    char text[MOTET_ADDRESS_TEXT_MAX];
    size_t at = strlen(reasons);
    motet_address_host_port(address, text);
    if (at + 1 < size)
        snprintf(reasons + at, size - at, "%s%s: %s", at ? "; " : "", text, reason);
}

/* Once around the addresses. A round that the deadline cut short does not replace the reasons of the one before. */
static enum attempt try_all(struct motet_boot *boot, const struct motet_root_place *place, struct search *search)
{
    enum attempt worst = ATTEMPT_REFUSED;
    char reasons[sizeof(search->reasons)] = "";
    for (int i = 0; i < place->naddresses; i++) {
        enum attempt attempt = try_address(boot, place, &place->addresses[i], search);
        if (attempt >= ATTEMPT_AGAIN)
            return attempt;
        add_reason(reasons, sizeof(reasons), &place->addresses[i], motet_error_text());
        if (attempt == ATTEMPT_FAILED) {
            worst = ATTEMPT_FAILED;
            search->nbroken++;
        }
    }
    if (search->reasons[0] == '\0' || motet_now_ns() < boot->deadline_ns)
        memcpy(search->reasons, reasons, sizeof(reasons));
    return place->naddresses > 0 ? worst : ATTEMPT_FAILED;
}

/* A bridge has the same address on every host: then the root that was looked for here may well live elsewhere. */
static const char *own_address_hint(const struct motet_root_place *place, char text[256])
{
    struct motet_interface *all = NULL;
    int nall = 0;
    text[0] = '\0';
    if (motet_interfaces_list(&all, &nall) != motetSuccess)
        return text;
    for (int i = 0; i < nall && text[0] == '\0'; i++) {
        char host[MOTET_ADDRESS_TEXT_MAX];
        for (int k = 0; k < place->naddresses; k++)
            if (!all[i].loopback && motet_address_same_host(&all[i].address, &place->addresses[k]))
                snprintf(
                    text, 256,
                    "; %.60s is an address of this host too (%s): if the root is on another host, name an interface that tells "
                    "them apart in MOTET_SOCKET_IFNAME",
                    motet_address_host(&all[i].address, host), all[i].name);
    }
    free(all);
    return text;
}

static motetResult_t not_found(struct motet_boot *boot, const struct motet_root_place *place, const struct motet_place_name *name,
                               const struct search *search)
{
    char where[320], hint[256];
    if (name)
        motet_place_text(name, where);
    else
        snprintf(where, sizeof(where), "%s", boot->where);
    return motet_fail(motetTimeout, "rank %d of %d found no root at %s within %.1f s (%u tries; %s)%s%s", boot->rank, boot->nranks,
                      where, (double)(motet_now_ns() - boot->opened_ns) / 1e9, search->ntries, search->reasons,
                      search->nbroken == 0 ? ": did rank 0 get the same address?"
                                           : ": another program on that port, or a firewall? see MOTET_PORT_RANGE",
                      own_address_hint(place, hint));
}

static motetResult_t gone(struct motet_boot *boot, const struct motet_root_place *place, const struct search *search)
{
    char hint[256];
    return motet_fail(motetRemoteError,
                      "rank %d of %d: no root at %s any more (%s): its process has ended, or the unique id was used before%s",
                      boot->rank, boot->nranks, boot->where, search->reasons, own_address_hint(place, hint));
}

/* Longer limits and pauses, a little different by rank so that retries of many ranks spread. */
static motetResult_t pause_between(struct motet_boot *boot, struct search *search, enum attempt last)
{
    uint64_t jitter = (uint64_t)boot->rank * 2654435761u % 1024 * search->pause_ns / 2048;
    uint64_t wake_ns = motet_now_ns() + search->pause_ns + jitter;
    if (last == ATTEMPT_FAILED) {
        search->connect_ns = earlier(2 * search->connect_ns, CONNECT_LONGEST_NS);
        search->handshake_ns = earlier(2 * search->handshake_ns, HANDSHAKE_LONGEST_NS);
    }
    search->pause_ns = earlier(2 * search->pause_ns, last == ATTEMPT_AGAIN ? PAUSE_LONGEST_NS / 8 : PAUSE_LONGEST_NS);
    return motet_net_sleep(earlier(wake_ns, boot->deadline_ns), boot->abort);
}

static void say_late(struct motet_boot *boot, const struct search *search)
{
    int64_t warn_ms = motet_setting_int(MOTET_SET_WARN_AFTER);
    uint64_t now_ns = motet_now_ns();
    if (boot->warn_ns == 0)
        boot->warn_ns = warn_ms > 0 ? boot->opened_ns + (uint64_t)warn_ms * 1000000 : UINT64_MAX;
    if (now_ns < boot->warn_ns)
        return;
    boot->warn_ns = now_ns + (uint64_t)warn_ms * 1000000;
    WARN(MOTET_LOG_BOOTSTRAP, "rank %d of %d: init waits for %.1f s: no root yet (%s)", boot->rank, boot->nranks,
         (double)(now_ns - boot->opened_ns) / 1e9, search->reasons);
}

static bool is_gone(struct search *search, const struct motet_root_place *place, enum attempt last)
{
    uint64_t now = motet_now_ns();
    if (last != ATTEMPT_REFUSED || !place->listens) {
        search->refused_since_ns = 0;
        return false;
    }
    if (search->refused_since_ns == 0)
        search->refused_since_ns = now;
    return now - search->refused_since_ns > GONE_AFTER_NS;
}

static motetResult_t find_root(struct motet_boot *boot, struct motet_root_place *place, const struct motet_place_name *name,
                               struct search *search)
{
    for (;;) {
        enum attempt attempt = ATTEMPT_FAILED;
        if (name && place->naddresses == 0 && motet_place_resolve(name, place) != motetSuccess)
            snprintf(search->reasons, sizeof(search->reasons), "%s", motet_error_text());
        if (place->naddresses > 0)
            attempt = try_all(boot, place, search);
        if (attempt == ATTEMPT_DONE)
            return motetSuccess;
        if (attempt == ATTEMPT_FINAL && (search->result != motetTimeout || boot->heard))
            return search->result;
        if (is_gone(search, place, attempt))
            return gone(boot, place, search);
        if (motet_now_ns() >= boot->deadline_ns)
            return not_found(boot, place, name, search);
        say_late(boot, search);
        TRY(pause_between(boot, search, attempt));
    }
}

motetResult_t motet_tcp_open(struct motet_boot *boot, struct motet_root_place *place, const struct motet_place_name *name)
{
    struct search search = {.connect_ns = CONNECT_FIRST_NS, .handshake_ns = HANDSHAKE_FIRST_NS, .pause_ns = PAUSE_FIRST_NS};
    struct tcp *tcp = calloc(1, sizeof(*tcp));
    if (!tcp)
        return motet_fail(motetSystemError, "out of memory for the connection to the root");
    tcp->fd = -1;
    boot->state = tcp;
    boot->kind = &tcp_kind;
    boot->secret = place->secret;
    if (place->naddresses > 0)
        motet_address_host_port(&place->addresses[0], boot->where);
    motetResult_t result = find_root(boot, place, name, &search);
    if (result != motetSuccess) {
        close_tcp(boot);
        boot->kind = NULL;
        return result;
    }
    if (search.nbroken > 0)
        INFO(MOTET_LOG_BOOTSTRAP,
             "rank %d reached the root at %s after %u tries (%u of them broken); when many ranks start at once a "
             "larger net.core.somaxconn on its host helps",
             boot->rank, boot->where, search.ntries, search.nbroken);
    return motetSuccess;
}
