/* SPDX-License-Identifier: Apache-2.0
 * Answers to "what are you doing?", on the service thread. A client of the same user asks over a Unix socket whose name only those know
 * who may read this process's segment. Ranks that this process maps are read from memory, stopped or not; other processes are asked over
 * the control connections. Half-way to the deadline the neighbours of those that are silent are asked for them.
 * Everything here but open, closing and close runs on the service thread, so there are no locks. */
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "dump.h"
#include "link.h"
#include "process.h"
#include "segment.h"
#include "transport/rows.h"

#define CLIENTS_MAX  16
#define CLIENT_NS    (60ull * 1000 * 1000 * 1000) /* a client that neither asks nor reads is dropped after this long */
#define DEADLINE_MAX 60000                        /* ms */
#define TELL_BYTES   (MOTET_MESSAGE_BODY_MAX - sizeof(struct tell))
#define ANSWER_MAX   (64u << 20)

enum question_kind { ASK_STATUS, ASK_DUMP };

struct ask { /* body of MOTET_MESSAGE_ASK */
    uint64_t id;
    uint32_t kind;
    uint32_t neighbours; /* also those whose memory is mapped there */
};

struct tell { /* head of MOTET_MESSAGE_TELL; a part of the rows follows */
    uint64_t id;
    uint32_t last, reserved;
};

struct asked {       /* one other process */
    uint64_t serial; /* of its link */
    struct motet_process process;
    bool answered, proxy; /* proxy: asked for its neighbours, after it had answered for itself */
    struct motet_json rows;
};

struct client {
    struct motet_watch watch;
    char line[MOTET_STATUS_LINE_MAX];
    size_t got, sent;
    uint64_t give_up_ns;
    /* The question. */
    bool asking;
    enum question_kind kind;
    uint64_t id, half_ns, deadline_ns;
    struct asked *asked;
    int nasked;
    struct motet_json answer;
    struct client *next;
};

struct waiting_for_dump { /* a process that asked for one */
    uint64_t serial, id;
    struct waiting_for_dump *next;
};

static struct motet_watch listener = {.fd = -1};
static struct client *clients;
static struct waiting_for_dump *dumps;
static uint64_t last_id;

/* ---- Links ---- */

/* The links of other processes that stand, each with a reference; malloced. */
static struct motet_link **hold_links(int *n)
{
    int count = 0;
    pthread_mutex_lock(&motet_links_lock);
    for (struct motet_link *link = motet_links; link; link = link->next)
        count++;
    struct motet_link **links = calloc((size_t)count + 1, sizeof(struct motet_link *));
    *n = 0;
    for (struct motet_link *link = motet_links; links && link; link = link->next) {
        if (link->state != MOTET_LINK_READY || link->endpoint.transport == &motet_direct_transport || atomic_load(&link->broken))
            continue;
        motet_endpoint_retain(&link->endpoint);
        links[(*n)++] = link;
    }
    pthread_mutex_unlock(&motet_links_lock);
    return links;
}

static void drop_links(struct motet_link **links, int n)
{
    for (int i = 0; i < n; i++)
        motet_endpoint_release(&links[i]->endpoint);
    free(links);
}

static void say_by_serial(uint64_t serial, uint32_t kind, const void *bytes, size_t len)
{
    int n;
    struct motet_link **links = hold_links(&n);
    for (int i = 0; i < n; i++)
        if (links[i]->serial == serial)
            motet_link_say(links[i], kind, 0, bytes, len);
    drop_links(links, n);
}

/* ---- Rows ---- */

static void write_rows(struct motet_json *json, bool neighbours)
{
    int n = 0;
    motet_status_rows(json, motet_segment_base(), motet_segment_len());
    struct motet_link **links = neighbours ? hold_links(&n) : NULL;
    for (int i = 0; i < n; i++)
        if (links[i]->endpoint.segment)
            motet_status_rows(json, links[i]->endpoint.segment, links[i]->endpoint.process.segment_len);
    drop_links(links, n);
}

/* Sends rows in parts, the last one marked. */
static void tell(uint64_t serial, uint64_t id, const struct motet_json *json)
{
    struct {
        struct tell head;
        char text[TELL_BYTES];
    } message;
    size_t at = 0;
    do {
        size_t n = json->len - at < TELL_BYTES ? json->len - at : TELL_BYTES;
        message.head = (struct tell){.id = id, .last = at + n == json->len};
        if (n > 0)
            memcpy(message.text, json->text + at, n);
        say_by_serial(serial, MOTET_MESSAGE_TELL, &message, sizeof message.head + n);
        at += n;
    } while (at < json->len);
}

/* ---- Questions of other processes ---- */

static void note_dump(uint64_t serial, uint64_t id)
{
    struct waiting_for_dump *entry = calloc(1, sizeof *entry);
    if (!entry)
        return; /* the asker's deadline covers it */
    *entry = (struct waiting_for_dump){serial, id, dumps};
    dumps = entry;
    motet_dump_start("asked for", true);
}

static void answer_ask(const struct motet_link *link, const struct ask *ask)
{
    struct motet_json json = {.limit = MOTET_STATUS_ROWS_MAX};
    if (ask->kind == ASK_DUMP) {
        note_dump(link->serial, ask->id);
        return;
    }
    write_rows(&json, ask->neighbours);
    tell(link->serial, ask->id, &json);
    motet_json_free(&json);
}

static void tell_dumps(void)
{
    struct motet_json row = {0};
    if (!dumps || !motet_dump_finished(&row))
        return;
    while (dumps) {
        struct waiting_for_dump *entry = dumps;
        dumps = entry->next;
        tell(entry->serial, entry->id, &row);
        free(entry);
    }
    motet_json_free(&row);
}

/* ---- Questions of clients ---- */

static void drop_client(struct client *client)
{
    struct client **at = &clients;
    while (*at && *at != client)
        at = &(*at)->next;
    if (*at)
        *at = client->next;
    motet_service_unwatch(&client->watch);
    motet_descriptor_close(client->watch.fd);
    for (int i = 0; i < client->nasked; i++)
        motet_json_free(&client->asked[i].rows);
    free(client->asked);
    motet_json_free(&client->answer);
    free(client);
}

static void ask(const struct client *client, struct asked *asked, bool neighbours)
{
    struct ask question = {.id = client->id, .kind = client->kind, .neighbours = neighbours};
    say_by_serial(asked->serial, MOTET_MESSAGE_ASK, &question, sizeof question);
}

/* Asks all others whose memory cannot be read here; for a dump, all others. */
static void ask_others(struct client *client)
{
    int n;
    struct motet_link **links = hold_links(&n);
    client->asked = calloc((size_t)n + 1, sizeof *client->asked);
    for (int i = 0; client->asked && i < n; i++)
        if (client->kind == ASK_DUMP || !links[i]->endpoint.segment)
            client->asked[client->nasked++] =
                (struct asked){.serial = links[i]->serial, .process = links[i]->endpoint.process, .rows = {.limit = ANSWER_MAX}};
    drop_links(links, n);
    for (int i = 0; i < client->nasked; i++)
        ask(client, &client->asked[i], false);
}

/* Time is half over: somebody on the host of a silent process may know what it does. */
static void ask_neighbours(struct client *client)
{
    client->half_ns = UINT64_MAX;
    for (int i = 0; client->kind == ASK_STATUS && i < client->nasked; i++)
        for (int k = 0; !client->asked[i].answered && k < client->nasked; k++) {
            struct asked *neighbour = &client->asked[k];
            if (!neighbour->answered || neighbour->proxy || neighbour->process.host_id != client->asked[i].process.host_id)
                continue;
            neighbour->proxy = true;
            neighbour->answered = false;
            ask(client, neighbour, true);
            break;
        }
}

static bool all_answered(const struct client *client)
{
    for (int i = 0; i < client->nasked; i++)
        if (!client->asked[i].answered)
            return false;
    return true;
}

static void begin_question(struct client *client, enum question_kind kind, int64_t timeout_ms)
{
    uint64_t now = motet_now_ns();
    client->asking = true;
    client->kind = kind;
    client->id = ++last_id;
    client->half_ns = now + (uint64_t)timeout_ms * 500000;
    client->deadline_ns = now + (uint64_t)timeout_ms * 1000000;
    if (kind == ASK_DUMP)
        motet_dump_start("asked for", true);
    ask_others(client);
}

static void send_answer(struct client *client)
{
    while (client->sent < client->answer.len) {
        ssize_t n = send(client->watch.fd, client->answer.text + client->sent, client->answer.len - client->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            motet_service_rewatch(&client->watch, EPOLLOUT);
            return;
        }
        if (n <= 0)
            break;
        client->sent += (size_t)n;
    }
    drop_client(client);
}

static void finish_question(struct client *client)
{
    struct motet_json *json = &client->answer;
    const struct motet_process *self = motet_process_self();
    json->limit = ANSWER_MAX;
    motet_json_begin(json, NULL, '{');
    motet_json_text(json, "version", MOTET_VERSION_STRING);
    motet_json_int(json, "pid", self->pid);
    motet_json_text(json, "host", self->host_name);
    motet_json_begin(json, "rows", '[');
    if (client->kind == ASK_STATUS)
        write_rows(json, true);
    else if (!motet_dump_finished(json))
        INFO(MOTET_LOG_PROXY, "the dump is not complete at the asker's deadline");
    for (int i = 0; i < client->nasked; i++)
        if (client->asked[i].answered || client->asked[i].proxy)
            motet_json_splice(json, client->asked[i].rows.text, client->asked[i].rows.len);
    motet_json_end(json, ']');
    motet_json_begin(json, "silent", '[');
    for (int i = 0; i < client->nasked; i++)
        if (!client->asked[i].answered && !client->asked[i].proxy) {
            motet_json_begin(json, NULL, '{');
            motet_json_int(json, "pid", client->asked[i].process.pid);
            motet_json_text(json, "host", client->asked[i].process.host_name);
            motet_json_end(json, '}');
        }
    motet_json_end(json, ']');
    motet_json_end(json, '}');
    client->asking = false;
    client->give_up_ns = motet_now_ns() + CLIENT_NS;
    if (json->failed)
        drop_client(client);
    else
        send_answer(client);
}

/* ---- Answers of other processes ---- */

static void take_tell(const struct motet_link *link, const struct tell *head, const char *text, size_t len)
{
    for (struct client *client = clients; client; client = client->next)
        for (int i = 0; client->asking && client->id == head->id && i < client->nasked; i++) {
            struct asked *asked = &client->asked[i];
            if (asked->serial != link->serial || asked->answered)
                continue;
            /* The second answer repeats the own rows: they are taken once, by whoever prints. */
            if (asked->rows.len > 0 && asked->rows.text[asked->rows.len - 1] == '}' && len > 0 && text[0] == '{')
                motet_json_splice(&asked->rows, text, len);
            else
                motet_json_append(&asked->rows, text, len);
            asked->answered = head->last;
        }
}

static void take_message(struct motet_link *link, uint32_t kind, const void *bytes, size_t len)
{
    const struct tell *head = bytes;
    if (kind == MOTET_MESSAGE_ASK && len == sizeof(struct ask))
        answer_ask(link, bytes);
    else if (kind == MOTET_MESSAGE_TELL && len >= sizeof *head)
        take_tell(link, head, (const char *)(head + 1), len - sizeof *head);
}

/* ---- The socket ---- */

/* The same user, or root. */
static bool may_ask(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

static void take_line(struct client *client)
{
    char word[16], end;
    long long timeout_ms;
    if (sscanf(client->line, "%15s %lld %c", word, &timeout_ms, &end) != 2 || timeout_ms < 1 || timeout_ms > DEADLINE_MAX ||
        (strcmp(word, "status") != 0 && strcmp(word, "dump") != 0))
        drop_client(client);
    else
        begin_question(client, strcmp(word, "dump") == 0 ? ASK_DUMP : ASK_STATUS, timeout_ms);
}

static void client_ready(void *context, uint32_t events)
{
    struct client *client = context;
    if (client->answer.len > 0 && (events & EPOLLOUT)) {
        send_answer(client);
        return;
    }
    if (client->asking || client->answer.len > 0) { /* it has nothing more to say: it left */
        drop_client(client);
        return;
    }
    ssize_t n = recv(client->watch.fd, client->line + client->got, sizeof client->line - 1 - client->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    if (n <= 0) {
        drop_client(client);
        return;
    }
    client->got += (size_t)n;
    client->line[client->got] = '\0';
    if (strchr(client->line, '\n'))
        take_line(client);
    else if (client->got == sizeof client->line - 1)
        drop_client(client);
}

static void listener_ready(void *context, uint32_t events)
{
    (void)context;
    (void)events;
    int fd = motet_descriptor_keep(accept4(listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)), n = 0;
    if (fd < 0)
        return;
    for (struct client *client = clients; client; client = client->next)
        n++;
    struct client *client = n < CLIENTS_MAX && may_ask(fd) ? calloc(1, sizeof *client) : NULL;
    if (!client) {
        motet_descriptor_close(fd);
        return;
    }
    client->watch = (struct motet_watch){.fd = fd, .ready = client_ready, .context = client};
    client->give_up_ns = motet_now_ns() + CLIENT_NS;
    client->next = clients;
    clients = client;
    if (motet_service_watch(&client->watch, EPOLLIN | EPOLLRDHUP) != motetSuccess)
        drop_client(client);
}

/* ---- The guest of the process ---- */

static void open_listener(void)
{
    char name[MOTET_STATUS_NAME_MAX];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    motet_status_socket_name(motet_segment_token(), name);
    memcpy(address.sun_path + 1, name, strlen(name));
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    listener = (struct motet_watch){.ready = listener_ready};
    listener.fd = motet_descriptor_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (listener.fd >= 0 && bind(listener.fd, (struct sockaddr *)&address, len) == 0 && listen(listener.fd, CLIENTS_MAX) == 0 &&
        motet_service_watch(&listener, EPOLLIN) == motetSuccess)
        return;
    INFO(MOTET_LOG_INIT, "motet status will read this process's memory only, its socket could not be made: %s", strerror(errno));
    motet_descriptor_close(listener.fd);
    listener.fd = -1;
}

static motetResult_t guest_open(void)
{
    open_listener();
    return motet_dump_open();
}

static void guest_close(void)
{
    motet_descriptor_close(listener.fd);
    listener.fd = -1;
    while (clients)
        drop_client(clients);
    while (dumps) {
        struct waiting_for_dump *entry = dumps;
        dumps = entry->next;
        free(entry);
    }
    motet_dump_close();
}

static void guest_forked(void)
{
    listener.fd = -1;
    clients = NULL;
    dumps = NULL;
}

static bool is_due(const struct client *client, uint64_t now_ns)
{
    struct motet_json unused = {0};
    bool complete = all_answered(client) && (client->kind == ASK_STATUS || motet_dump_finished(&unused));
    motet_json_free(&unused);
    return complete || now_ns >= client->deadline_ns;
}

static uint64_t guest_tick(uint64_t now_ns)
{
    uint64_t wake_ns = UINT64_MAX;
    if (motet_dump_signalled())
        motet_dump_start("signal", true);
    tell_dumps();
    for (struct client *client = clients, *next; client; client = next) {
        next = client->next;
        if (client->asking && now_ns >= client->half_ns)
            ask_neighbours(client);
        uint64_t when =
            client->asking ? (client->half_ns < client->deadline_ns ? client->half_ns : client->deadline_ns) : client->give_up_ns;
        wake_ns = when < wake_ns ? when : wake_ns;
        if (client->asking && is_due(client, now_ns))
            finish_question(client); /* may free it */
        else if (!client->asking && now_ns >= client->give_up_ns)
            drop_client(client);
    }
    return wake_ns;
}

const struct motet_guest motet_guest = {
    .open = guest_open,
    .tick = guest_tick,
    .message = take_message,
    .closing = motet_dump_closing,
    .close = guest_close,
    .forked = guest_forked,
};
