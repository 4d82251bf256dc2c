/* SPDX-License-Identifier: Apache-2.0 */
#include "shepherd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "death.h"
#include "descendants.h"

#define TERMINAL_CHECK_MS 500

static void fill_signals(sigset_t *set)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
    struct sigaction hangup;
    sigemptyset(set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(set, numbers[i]);
    /* Under nohup a hangup stays ignored; blocked signals would be delivered. */
    if (!sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler == SIG_IGN)
        sigdelset(set, SIGHUP);
}

int shepherd_signalfd(void)
{
    sigset_t set;
    fill_signals(&set);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

struct front {
    pid_t behind;
    int signals;
    int input; /* write end towards the process behind when stdin is a terminal; -1 */
    bool ended;
    int status;
};

static void on_signal(struct front *front)
{
    struct signalfd_siginfo info;
    while (read(front->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD) {
            pid_t pid;
            int status;
            while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                if (pid == front->behind) {
                    front->ended = true;
                    front->status = status;
                }
            continue;
        }
        kill(front->behind, number);
        /* Ctrl-Z stops the ranks (done behind) and then this process, so that the shell gets its prompt. */
        if (number == SIGTSTP)
            raise(SIGSTOP);
    }
}

/* Passes on what was typed, only while this is the foreground job: a background job that reads would be stopped. */
static void pass_input(struct front *front)
{
    char data[4096];
    if (tcgetpgrp(STDIN_FILENO) != getpgrp())
        return;
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    for (ssize_t done = 0; n > 0 && done < n;) {
        ssize_t part = write(front->input, data + done, (size_t)(n - done));
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0) {
            n = 0;
            break;
        }
        done += part;
    }
    if (n == 0) {
        close(front->input);
        front->input = -1;
    }
}

static int watch(struct front *front)
{
    while (!front->ended) {
        bool foreground = front->input >= 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
        struct pollfd polls[2] = {{.fd = front->signals, .events = POLLIN},
                                  {.fd = foreground ? STDIN_FILENO : -1, .events = POLLIN}};
        poll(polls, 2, front->input >= 0 && !foreground ? TERMINAL_CHECK_MS : -1);
        if (polls[0].revents)
            on_signal(front);
        if (polls[1].revents && !front->ended)
            pass_input(front);
    }
    if (WIFEXITED(front->status))
        return WEXITSTATUS(front->status);
    fprintf(stderr, "motet run: the launcher's own process was killed by %s; ending what it started\n",
            death_signal_name(WTERMSIG(front->status)));
    return 128 + WTERMSIG(front->status);
}

int shepherd_run(int (*body)(void *context, int lifeline), void *context)
{
    struct front front = {.input = -1};
    sigset_t set, old;
    int lifeline[2], input[2] = {-1, -1};
    bool terminal = isatty(STDIN_FILENO);
    fill_signals(&set);
    sigprocmask(SIG_BLOCK, &set, &old);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    front.signals = shepherd_signalfd();
    if (front.signals < 0 || pipe2(lifeline, O_CLOEXEC) || (terminal && pipe2(input, O_CLOEXEC)))
        return usage_error("run", "cannot start: %s", strerror(errno)), EXIT_FAILED;
    front.behind = fork();
    if (front.behind < 0)
        return usage_error("run", "cannot start: %s", strerror(errno)), EXIT_FAILED;
    if (front.behind == 0) {
        setpgid(0, 0);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        close(lifeline[1]);
        close(front.signals);
        if (terminal) {
            dup2(input[0], STDIN_FILENO);
            close(input[0]);
            close(input[1]);
        }
        _exit(body(context, lifeline[0]));
    }
    close(lifeline[0]);
    if (terminal) {
        close(input[0]);
        front.input = input[1];
    }
    int code = watch(&front);
    descendants_end(0);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return code;
}
