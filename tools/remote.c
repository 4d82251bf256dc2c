/* SPDX-License-Identifier: Apache-2.0 */
#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

#define SSH_WORDS 64

static void lose(struct remote *remote, const char *why)
{
    if (remote->state == REMOTE_GONE)
        return;
    remote->state = REMOTE_GONE;
    remote->calls.lost(remote->calls.context, remote, why);
}

static void read_hello(struct remote *remote, const struct frame *frame)
{
    const char *name;
    json_t *hello = json_loadb(frame->data, frame->len, 0, NULL);
    if (hello && !json_unpack(hello, "{s:s s:i s:i s:i}", "host", &name, "cpus", &remote->cpus, "master_port", &remote->master_port,
                              "root_port", &remote->root_port)) {
        snprintf(remote->name, sizeof remote->name, "%s", name);
        if (remote->state == REMOTE_CONNECTING)
            remote->state = REMOTE_IDLE;
    } else {
        lose(remote, "its agent's greeting cannot be read");
    }
    json_decref(hello);
}

static void handle(struct remote *remote, const struct frame *frame)
{
    struct death death;
    switch (frame->type) {
    case FRAME_HELLO:
        read_hello(remote, frame);
        return;
    case FRAME_STDOUT:
    case FRAME_STDERR:
        if (frame->number >= remote->host->first_rank && frame->number < remote->host->first_rank + remote->host->ranks)
            remote->calls.text(remote->calls.context, frame->number, frame->type == FRAME_STDERR, frame->data, frame->len);
        return;
    case FRAME_ENDED:
        if (!death_from_text(frame->data, frame->len, &death)) {
            lose(remote, "its agent sent something that cannot be read");
            return;
        }
        if (remote->alive <= 0)
            return; /* ended with a refusal */
        remote->alive--;
        snprintf(death.host, sizeof death.host, "%s", remote->host->name);
        remote->calls.ended(remote->calls.context, &death);
        return;
    case FRAME_REFUSED: {
        char why[512];
        snprintf(why, sizeof why, "%.*s", (int)frame->len, frame->data);
        remote->calls.refused(remote->calls.context, remote, frame->number, why);
        return;
    }
    case FRAME_DONE:
        remote->state = REMOTE_IDLE;
        return;
    default:
        lose(remote, "its agent sent something unexpected");
    }
}

static void on_out(void *context, int fd, short events)
{
    struct remote *remote = context;
    char data[65536];
    struct frame frame;
    int more = 0;
    (void)events;
    ssize_t n = read(fd, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        loop_forget(remote->loop, fd);
        return;
    }
    if (!frame_feed(&remote->reader, data, (size_t)n)) {
        lose(remote, "out of memory");
        return;
    }
    if (!remote->greeted)
        remote->greeted = frame_skip_greeting(&remote->reader);
    while (remote->greeted && (more = frame_next(&remote->reader, &frame)) > 0)
        handle(remote, &frame);
    if (more < 0)
        lose(remote, "its agent sent something that cannot be read");
}

static void on_err(void *context, int fd, short events)
{
    struct remote *remote = context;
    char data[4096];
    (void)events;
    ssize_t n = read(fd, data, sizeof data - 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        loop_forget(remote->loop, fd);
        return;
    }
    data[n] = '\0';
    char *save;
    for (char *line = strtok_r(data, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
        snprintf(remote->last_words, sizeof remote->last_words, "%s", line);
        remote->calls.said(remote->calls.context, remote, line);
    }
}

/* Argument vector of ssh; `words` is a copy of the command that is cut into pieces. */
static int ssh_words(char *words, const char *host, char *remote_command, char **argv)
{
    int n = 0;
    char *save;
    for (char *word = strtok_r(words, " ", &save); word && n < SSH_WORDS - 3; word = strtok_r(NULL, " ", &save))
        argv[n++] = word;
    argv[n++] = (char *)(uintptr_t)host;
    argv[n++] = remote_command;
    argv[n] = NULL;
    return n;
}

static void __attribute__((noreturn)) ssh_child(char **argv, const int pipes[6])
{
    sigset_t none;
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (dup2(pipes[0], 0) >= 0 && dup2(pipes[3], 1) >= 0 && dup2(pipes[5], 2) >= 0) {
        for (int number = 1; number < NSIG; number++)
            if (number != SIGKILL && number != SIGSTOP)
                signal(number, SIG_DFL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execvp(argv[0], argv);
        dprintf(2, "cannot run %s: %s\n", argv[0], strerror(errno));
    }
    _exit(EXIT_NOT_FOUND);
}

bool remote_open(struct remote *remote, struct loop *loop, const struct host *host, const char *ssh_command, const char *program,
                 char *error, size_t len)
{
    char *argv[SSH_WORDS];
    char words[1024], command[4200];
    int pipes[6];
    remote->host = host;
    remote->loop = loop;
    remote->state = REMOTE_CONNECTING;
    snprintf(words, sizeof words, "%s", ssh_command);
    snprintf(command, sizeof command, "exec '%s' run --agent", program);
    if (ssh_words(words, host->name, command, argv) < 3) {
        snprintf(error, len, "--ssh is empty");
        return false;
    }
    if (pipe2(pipes, O_CLOEXEC) || pipe2(pipes + 2, O_CLOEXEC) || pipe2(pipes + 4, O_CLOEXEC)) {
        snprintf(error, len, "cannot make pipes to host %s: %s", host->name, strerror(errno));
        return false;
    }
    remote->pid = fork();
    if (remote->pid == 0)
        ssh_child(argv, pipes);
    close(pipes[0]);
    close(pipes[3]);
    close(pipes[5]);
    remote->in_fd = pipes[1];
    remote->out_fd = pipes[2];
    remote->err_fd = pipes[4];
    fcntl(remote->in_fd, F_SETFL, O_NONBLOCK);
    if (remote->pid < 0 || !sink_open(&remote->in, loop, remote->in_fd) ||
        !loop_watch(loop, remote->out_fd, POLLIN, on_out, remote) || !loop_watch(loop, remote->err_fd, POLLIN, on_err, remote)) {
        snprintf(error, len, "cannot start ssh to host %s: %s", host->name, strerror(errno));
        return false;
    }
    return true;
}

bool remote_start(struct remote *remote, const struct job_share *share)
{
    char *text = job_to_text(share);
    if (!text)
        return false;
    remote->state = REMOTE_RUNNING;
    remote->alive = share->n;
    frame_write(&remote->in, FRAME_JOB, 0, text, strlen(text));
    free(text);
    return true;
}

void remote_signal(struct remote *remote, int signal_number)
{
    if (remote->state == REMOTE_RUNNING)
        frame_write(&remote->in, FRAME_SIGNAL, signal_number, "", 0);
}

void remote_exited(struct remote *remote, int status)
{
    char why[400];
    /* What is still in the pipes counts: the last words, the last deaths. */
    for (int i = 0; i < 1000; i++) {
        struct pollfd polls[2] = {{.fd = remote->out_fd, .events = POLLIN}, {.fd = remote->err_fd, .events = POLLIN}};
        if (poll(polls, 2, 0) <= 0 || !((polls[0].revents | polls[1].revents) & POLLIN))
            break;
        if (polls[0].revents & POLLIN)
            on_out(remote, remote->out_fd, POLLIN);
        if (polls[1].revents & POLLIN)
            on_err(remote, remote->err_fd, POLLIN);
    }
    remote->pid = 0;
    if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "ssh was killed by %s", death_signal_name(WTERMSIG(status)));
    else
        snprintf(why, sizeof why, "ssh ended with code %d%s%s", WEXITSTATUS(status), remote->last_words[0] ? ": " : "",
                 remote->last_words);
    lose(remote, why);
}

void remote_throttle(struct remote *remote, bool pause)
{
    loop_change(remote->loop, remote->out_fd, pause ? 0 : POLLIN);
}

void remote_close(struct remote *remote)
{
    if (!remote->loop)
        return;
    sink_drain(&remote->in, 1000);
    sink_close(&remote->in);
    close(remote->in_fd);
    loop_forget(remote->loop, remote->out_fd);
    loop_forget(remote->loop, remote->err_fd);
    close(remote->out_fd);
    close(remote->err_fd);
    frame_reader_free(&remote->reader);
    remote->loop = NULL;
}
