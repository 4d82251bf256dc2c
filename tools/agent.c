/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "binding.h"
#include "command.h"
#include "crew.h"
#include "descendants.h"
#include "frames.h"
#include "shepherd.h"

struct agent {
    struct loop loop;
    struct sink out;
    struct sink input; /* towards rank 0 */
    bool input_open, input_ended;
    struct frame_reader reader;
    struct job_share share;
    struct crew crew;
    bool running, leave;
    int signals;
};

void agent_free_ports(int ports[2])
{
    int sockets[2];
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in6 address = {.sin6_family = AF_INET6};
        socklen_t len = sizeof address;
        ports[i] = 0;
        sockets[i] = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (sockets[i] < 0) {
            /* Without IPv6. The family and port stand at the same place in both address forms. */
            sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            address.sin6_family = AF_INET;
            len = sizeof(struct sockaddr_in);
        }
        if (sockets[i] >= 0 && !bind(sockets[i], (struct sockaddr *)&address, len) &&
            !getsockname(sockets[i], (struct sockaddr *)&address, &len))
            ports[i] = ntohs(address.sin6_port);
    }
    for (int i = 0; i < 2; i++)
        if (sockets[i] >= 0)
            close(sockets[i]);
}

static void on_text(void *context, int rank, int stream, const char *data, size_t len)
{
    struct agent *agent = context;
    frame_write(&agent->out, stream ? FRAME_STDERR : FRAME_STDOUT, rank, data, len);
}

static void on_ended(void *context, const struct death *death)
{
    struct agent *agent = context;
    char *text = death_to_text(death);
    if (text)
        frame_write(&agent->out, FRAME_ENDED, death->rank, text, strlen(text));
    free(text);
}

static bool on_full(void *context)
{
    struct agent *agent = context;
    return sink_is_full(&agent->out);
}

static void close_input(struct agent *agent)
{
    if (!agent->input_open)
        return;
    sink_close(&agent->input);
    close(agent->crew.stdin_fd);
    agent->crew.stdin_fd = -1;
    agent->input_open = false;
}

static void start_job(struct agent *agent, const struct frame *frame)
{
    char error[512];
    int exit_code;
    if (agent->running || !job_from_text(frame->data, frame->len, &agent->share)) {
        const char text[] = "the launcher sent a job that cannot be read";
        frame_write(&agent->out, FRAME_REFUSED, EXIT_FAILED, text, strlen(text));
        return;
    }
    agent->running = true;
    agent->crew.loop = &agent->loop;
    agent->crew.calls = (struct crew_calls){agent, on_text, on_ended, on_full};
    bool ok = crew_start(&agent->crew, &agent->share.job, agent->share.node, agent->share.first_rank, agent->share.n,
                         agent->share.wants_stdin ? -2 : -1, error, sizeof error, &exit_code);
    if (!ok) {
        frame_write(&agent->out, FRAME_REFUSED, exit_code, error, strlen(error));
        crew_signal(&agent->crew, SIGKILL);
    }
    agent->input_ended = false;
    agent->input_open = agent->crew.stdin_fd >= 0 && sink_open(&agent->input, &agent->loop, agent->crew.stdin_fd);
}

/* A rank of another host has ended: the ranks of this one may read why. */
static void note_death(struct agent *agent, const struct frame *frame)
{
    struct death death;
    if (agent->running && death_from_text(frame->data, frame->len, &death))
        deaths_append(&agent->crew.deaths, &death);
}

static void obey(struct agent *agent, const struct frame *frame)
{
    switch (frame->type) {
    case FRAME_JOB:
        start_job(agent, frame);
        break;
    case FRAME_SIGNAL:
        crew_signal(&agent->crew, frame->number);
        break;
    case FRAME_INPUT:
        if (agent->input_open)
            sink_write(&agent->input, frame->data, frame->len);
        break;
    case FRAME_INPUT_END:
        agent->input_ended = true;
        break;
    case FRAME_DEATH:
        note_death(agent, frame);
        break;
    default:
        agent->leave = true;
        break;
    }
}

static void on_stdin(void *context, int fd, short events)
{
    struct agent *agent = context;
    char data[65536];
    struct frame frame;
    int more = 0;
    (void)events;
    ssize_t n = read(fd, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0 || !frame_feed(&agent->reader, data, (size_t)n)) {
        agent->leave = true;
        return;
    }
    while (!agent->leave && (more = frame_next(&agent->reader, &frame)) > 0)
        obey(agent, &frame);
    if (more < 0)
        agent->leave = true;
}

static void on_signal(void *context, int fd, short events)
{
    struct agent *agent = context;
    struct signalfd_siginfo info;
    (void)events;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP || info.ssi_signo == SIGINT)
            agent->leave = true;
}

static void on_lifeline(void *context, int fd, short events)
{
    struct agent *agent = context;
    (void)fd;
    (void)events;
    agent->leave = true;
}

static void reap(struct agent *agent)
{
    siginfo_t info;
    for (;;) {
        info.si_pid = 0;
        if (agent->running)
            crew_reap(&agent->crew);
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
            return;
        if (!crew_owns(&agent->crew, info.si_pid))
            waitpid(info.si_pid, NULL, WNOHANG);
    }
}

static void finish_job(struct agent *agent)
{
    close_input(agent);
    descendants_end(agent->share.grace_ms);
    crew_read_rest(&agent->crew);
    crew_free(&agent->crew);
    job_share_free(&agent->share);
    agent->running = false;
    frame_write(&agent->out, FRAME_DONE, 0, "", 0);
}

static void greet(struct agent *agent)
{
    int ports[2];
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    agent_free_ports(ports);
    json_t *hello =
        json_pack("{s:s s:i s:i s:i}", "host", host, "cpus", binding_cpu_count(), "master_port", ports[0], "root_port", ports[1]);
    char *text = json_dumps(hello, JSON_COMPACT);
    json_decref(hello);
    sink_write(&agent->out, FRAME_GREETING, strlen(FRAME_GREETING));
    frame_write(&agent->out, FRAME_HELLO, 0, text ? text : "{}", text ? strlen(text) : 2);
    free(text);
}

int agent_main(void *context, int lifeline)
{
    struct agent agent = {.crew = {.stdin_fd = -1}};
    (void)context;
    agent.signals = shepherd_signalfd();
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    if (agent.signals < 0 || !sink_open(&agent.out, &agent.loop, STDOUT_FILENO) ||
        !loop_watch(&agent.loop, STDIN_FILENO, POLLIN, on_stdin, &agent) ||
        !loop_watch(&agent.loop, agent.signals, POLLIN, on_signal, &agent) ||
        !loop_watch(&agent.loop, lifeline, POLLIN, on_lifeline, &agent))
        return EXIT_FAILED;
    greet(&agent);
    while (!agent.leave) {
        loop_wait(&agent.loop, -1);
        reap(&agent);
        if (agent.running)
            crew_throttle(&agent.crew);
        if (agent.input_open && agent.input_ended && !agent.input.len)
            close_input(&agent);
        if (agent.running && !agent.crew.alive)
            finish_job(&agent);
    }
    descendants_end(agent.running ? agent.share.grace_ms : 0);
    sink_drain(&agent.out, 1000);
    frame_reader_free(&agent.reader);
    loop_free(&agent.loop);
    return EXIT_OK;
}
