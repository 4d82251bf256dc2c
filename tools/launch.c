/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "command.h"
#include "crew.h"
#include "descendants.h"
#include "frames.h"
#include "meeting.h"
#include "rank_environment.h"
#include "relay.h"
#include "remote.h"
#include "shepherd.h"

#define SECONDARY_SHOWN 5

enum phase { STARTING, RUNNING, ENDING, KILLING };
enum reason { FINISHED, FAILED, REFUSED, INTERRUPTED, TIMED_OUT, ABANDONED };

struct launch {
    const struct launch_settings *settings;
    struct loop loop;
    struct relay relay;
    char **prefixes;
    int signals, lifeline;

    /* this attempt */
    struct job job;
    struct meeting meeting;
    struct crew crew;
    struct remote *remotes;
    int nremotes;
    int alive, left; /* ranks that run; ranks that exited with code 0 */
    enum phase phase;
    enum reason reason;
    struct death first;
    bool has_first;
    int secondary;
    int interrupt; /* the signal of INTERRUPTED */
    int exit_code; /* of REFUSED */
    int restart;
    int64_t deadline_ms; /* of the phase; 0: none */
    int64_t job_deadline_ms;

    struct sink input; /* towards rank 0, where it is not given the descriptor itself */
    bool input_open, input_watched;
};

static void signal_all(struct launch *launch, int signal_number)
{
    crew_signal(&launch->crew, signal_number);
    for (int i = 0; i < launch->nremotes; i++)
        remote_signal(&launch->remotes[i], signal_number);
}

/* SIGTERM (or the user's own signal) to all, SIGKILL after the grace time. */
static void begin_ending(struct launch *launch, enum reason reason, int signal_number)
{
    if (launch->phase >= ENDING)
        return;
    launch->phase = ENDING;
    launch->reason = reason;
    launch->deadline_ms = loop_now_ms() + launch->settings->grace_ms;
    signal_all(launch, signal_number);
}

static void kill_now(struct launch *launch)
{
    launch->phase = KILLING;
    launch->deadline_ms = 0;
    signal_all(launch, SIGKILL);
}

static void on_text(void *context, int rank, int stream, const char *data, size_t len)
{
    struct launch *launch = context;
    relay_text(&launch->relay, rank, stream, data, len);
}

static bool on_full(void *context)
{
    struct launch *launch = context;
    return relay_is_full(&launch->relay);
}

static void on_first_failure(struct launch *launch, const struct death *death)
{
    char before[64] = "";
    launch->first = *death;
    launch->has_first = true;
    if (launch->left)
        snprintf(before, sizeof before, "; %d rank%s had left before with code 0", launch->left, launch->left > 1 ? "s" : "");
    relay_say(&launch->relay, "rank %d (pid %d, host %s) failed first: it %s%s%s", death->rank, (int)death->pid, death->host,
              death->cause, before,
              !launch->alive                 ? ""
              : launch->settings->keep_going ? "; the others go on"
                                             : "; ending the others");
    if (launch->settings->keep_going)
        launch->reason = FAILED;
    else
        begin_ending(launch, FAILED, SIGTERM);
}

/* The agents tell the ranks of their hosts. */
static void tell_death(struct launch *launch, const struct death *death)
{
    char *text = launch->nremotes > 1 ? death_to_text(death) : NULL;
    for (int i = 0; text && i < launch->nremotes; i++)
        if (launch->remotes[i].state == REMOTE_RUNNING)
            frame_write(&launch->remotes[i].in, FRAME_DEATH, death->rank, text, strlen(text));
    free(text);
}

static void on_ended(void *context, const struct death *death)
{
    struct launch *launch = context;
    tell_death(launch, death);
    launch->alive--;
    relay_end_rank(&launch->relay, death->rank);
    if (!death->exit_code) {
        launch->left++;
        return;
    }
    if (launch->phase < ENDING && !launch->has_first) {
        on_first_failure(launch, death);
        return;
    }
    if (!launch->has_first) {
        launch->first = *death;
        launch->has_first = true;
    }
    int number = death->signal_number;
    bool by_launcher = launch->phase >= ENDING && number && (number == SIGTERM || number == SIGKILL || number == launch->interrupt);
    if (by_launcher || launch->reason != FAILED || launch->settings->quiet)
        return;
    if (launch->secondary++ < SECONDARY_SHOWN)
        relay_say(&launch->relay, "after that, rank %d (pid %d, host %s) %s", death->rank, (int)death->pid, death->host,
                  death->cause);
}

static void on_refused(void *context, struct remote *remote, int exit_code, const char *why)
{
    struct launch *launch = context;
    if (launch->phase < ENDING)
        relay_say(&launch->relay, "host %s: %s", remote->host->name, why);
    launch->exit_code = exit_code;
    launch->alive -= remote->alive;
    remote->alive = 0;
    begin_ending(launch, REFUSED, SIGTERM);
}

static void on_lost(void *context, struct remote *remote, const char *why)
{
    struct launch *launch = context;
    if (launch->phase < ENDING)
        relay_say(&launch->relay, "host %s: %s", remote->host->name, why);
    launch->exit_code = EXIT_FAILED;
    launch->alive -= remote->alive;
    remote->alive = 0;
    begin_ending(launch, REFUSED, SIGTERM);
}

static void on_said(void *context, struct remote *remote, const char *line)
{
    struct launch *launch = context;
    relay_say(&launch->relay, "host %s: %s", remote->host->name, line);
}

/* ---- input of rank 0 */

static void close_input(struct launch *launch)
{
    if (launch->input_watched)
        loop_forget(&launch->loop, STDIN_FILENO);
    launch->input_watched = false;
    if (!launch->input_open)
        return;
    sink_drain(&launch->input, 100);
    sink_close(&launch->input);
    close(launch->crew.stdin_fd);
    launch->crew.stdin_fd = -1;
    launch->input_open = false;
}

static void on_input(void *context, int fd, short events)
{
    struct launch *launch = context;
    char data[4096];
    (void)events;
    struct remote *remote = launch->nremotes ? &launch->remotes[0] : NULL;
    if ((launch->input_open && sink_is_full(&launch->input)) || (remote && sink_is_full(&remote->in)))
        return;
    ssize_t n = read(fd, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0 && launch->input_open)
        sink_write(&launch->input, data, (size_t)n);
    else if (n > 0 && remote)
        frame_write(&remote->in, FRAME_INPUT, 0, data, (size_t)n);
    if (n > 0)
        return;
    loop_forget(&launch->loop, fd);
    launch->input_watched = false;
    if (remote)
        frame_write(&remote->in, FRAME_INPUT_END, 0, "", 0);
    else
        close_input(launch);
}

static void watch_input(struct launch *launch)
{
    launch->input_open = launch->crew.stdin_fd >= 0 && sink_open(&launch->input, &launch->loop, launch->crew.stdin_fd);
    if (launch->input_open || launch->nremotes)
        launch->input_watched = loop_watch(&launch->loop, STDIN_FILENO, POLLIN, on_input, launch);
}

/* ---- signals and children */

static void on_user_signal(struct launch *launch, int number)
{
    switch (number) {
    case SIGTSTP:
        signal_all(launch, SIGSTOP);
        return;
    case SIGUSR1:
    case SIGUSR2:
    case SIGCONT:
    case SIGQUIT:
        signal_all(launch, number);
        return;
    default:
        break;
    }
    if (launch->phase >= ENDING) {
        kill_now(launch);
        return;
    }
    launch->interrupt = number;
    if (!launch->settings->quiet)
        relay_say(&launch->relay, "%s: ending the job; a second one kills it", death_signal_name(number));
    begin_ending(launch, INTERRUPTED, number);
}

static void reap(struct launch *launch)
{
    siginfo_t info;
    for (;;) {
        int status;
        struct remote *owner = NULL;
        crew_reap(&launch->crew);
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
            return;
        if (crew_owns(&launch->crew, info.si_pid))
            continue;
        waitpid(info.si_pid, &status, WNOHANG);
        for (int i = 0; i < launch->nremotes; i++)
            if (launch->remotes[i].pid == info.si_pid)
                owner = &launch->remotes[i];
        if (owner)
            remote_exited(owner, status);
    }
}

static void on_signal(void *context, int fd, short events)
{
    struct launch *launch = context;
    struct signalfd_siginfo info;
    (void)events;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            on_user_signal(launch, (int)info.ssi_signo);
}

static void on_lifeline(void *context, int fd, short events)
{
    struct launch *launch = context;
    (void)events;
    loop_forget(&launch->loop, fd);
    launch->phase = ENDING;
    launch->reason = ABANDONED;
    kill_now(launch);
}

/* ---- the loop */

static int time_to_next(struct launch *launch)
{
    int64_t now = loop_now_ms();
    int64_t next = -1;
    int64_t candidates[2] = {launch->deadline_ms, launch->phase < ENDING ? launch->job_deadline_ms : 0};
    for (int i = 0; i < 2; i++)
        if (candidates[i]) {
            int64_t left = candidates[i] > now ? candidates[i] - now : 0;
            next = next < 0 || left < next ? left : next;
        }
    int flush = relay_flush_old(&launch->relay);
    if (flush >= 0 && (next < 0 || flush < next))
        next = flush;
    return next > 60000 ? 60000 : (int)next;
}

static void check_deadlines(struct launch *launch)
{
    int64_t now = loop_now_ms();
    if (launch->phase == ENDING && launch->deadline_ms && now >= launch->deadline_ms)
        kill_now(launch);
    if (launch->phase < ENDING && launch->job_deadline_ms && now >= launch->job_deadline_ms) {
        relay_say(&launch->relay, "the job's time (%lld ms) is over: ending it", (long long)launch->settings->timeout_ms);
        begin_ending(launch, TIMED_OUT, SIGTERM);
    }
    if (launch->phase == STARTING && launch->deadline_ms && now >= launch->deadline_ms) {
        for (int i = 0; i < launch->nremotes; i++)
            if (launch->remotes[i].state == REMOTE_CONNECTING)
                relay_say(&launch->relay, "host %s has not answered within %lld ms", launch->remotes[i].host->name,
                          (long long)launch->settings->start_timeout_ms);
        launch->exit_code = EXIT_FAILED;
        begin_ending(launch, REFUSED, SIGTERM);
    }
}

static void throttle(struct launch *launch)
{
    crew_throttle(&launch->crew);
    for (int i = 0; i < launch->nremotes; i++)
        remote_throttle(&launch->remotes[i], relay_is_full(&launch->relay));
}

static void turn(struct launch *launch)
{
    loop_wait(&launch->loop, time_to_next(launch));
    reap(launch);
    check_deadlines(launch);
    throttle(launch);
}

static bool remotes_busy(const struct launch *launch, enum remote_state state)
{
    for (int i = 0; i < launch->nremotes; i++)
        if (launch->remotes[i].state == state)
            return true;
    return false;
}

/* ---- starting */

static bool connect_remotes(struct launch *launch)
{
    const struct launch_settings *settings = launch->settings;
    const struct remote_calls calls = {launch, on_text, on_ended, on_refused, on_lost, on_said};
    launch->remotes = calloc((size_t)settings->hosts.n, sizeof *launch->remotes);
    if (!launch->remotes)
        return false;
    launch->phase = STARTING;
    launch->deadline_ms = settings->start_timeout_ms ? loop_now_ms() + settings->start_timeout_ms : 0;
    for (int i = 0; i < settings->hosts.n; i++) {
        char error[512];
        if (!settings->hosts.items[i].ranks)
            continue;
        struct remote *remote = &launch->remotes[launch->nremotes++];
        remote->calls = calls;
        if (!remote_open(remote, &launch->loop, &settings->hosts.items[i], settings->ssh, settings->program, error, sizeof error)) {
            relay_say(&launch->relay, "%s", error);
            return false;
        }
    }
    while (launch->phase == STARTING && remotes_busy(launch, REMOTE_CONNECTING))
        turn(launch);
    launch->deadline_ms = 0;
    return launch->phase == STARTING;
}

static bool prepare_job(struct launch *launch, char **root)
{
    const struct launch_settings *settings = launch->settings;
    char error[1200];
    int ports[2];
    struct remote *first = launch->nremotes ? &launch->remotes[0] : NULL;
    if (!meeting_open(&launch->meeting, error, sizeof error)) {
        relay_say(&launch->relay, "%s", error);
        return false;
    }
    if (first) {
        ports[0] = first->master_port + launch->restart;
        ports[1] = first->root_port + launch->restart;
    } else {
        agent_free_ports(ports);
    }
    const char *address = settings->master_address ? settings->master_address : first ? first->host->name : "127.0.0.1";
    free(*root);
    if (asprintf(root, strchr(address, ':') ? "[%s]:%d" : "%s:%d", address, ports[1]) < 0) {
        *root = NULL;
        return false;
    }
    launch->job = (struct job){.argv = settings->argv,
                               .variables = settings->variables,
                               .directory = settings->directory,
                               .nranks = settings->nranks,
                               .nnodes = first ? launch->nremotes : 1,
                               .master_address = address,
                               .master_port = settings->master_port ? settings->master_port : ports[0],
                               .root = *root,
                               .secret = launch->meeting.secret,
                               .unique_id = launch->meeting.unique_id,
                               .run_id = launch->meeting.run_id,
                               .restart = launch->restart,
                               .max_restarts = settings->max_restarts,
                               .binding = settings->binding};
    return true;
}

static void say_resources(struct launch *launch, const char *where, int cpus, int nlocal)
{
    const char *given = rank_environment_get(&launch->job, "OMP_NUM_THREADS");
    int threads = given ? atoi(given) : cpus / nlocal > 0 ? cpus / nlocal : 1;
    if (launch->settings->quiet || launch->restart)
        return;
    if (given)
        relay_say(&launch->relay, "%s%d ranks on %d CPUs, OMP_NUM_THREADS=%d (as set), binding: %s", where, nlocal, cpus, threads,
                  binding_name(launch->settings->binding));
    else
        relay_say(&launch->relay, "%s%d ranks on %d CPUs, OMP_NUM_THREADS=%d (CPUs / ranks), binding: %s", where, nlocal, cpus,
                  threads, binding_name(launch->settings->binding));
}

static bool start_local(struct launch *launch)
{
    char error[512];
    int code;
    say_resources(launch, "", binding_cpu_count(), launch->job.nranks);
    /* A terminal's input comes through a pipe from the front process: rank 0 may have that as it is. */
    if (crew_start(&launch->crew, &launch->job, 0, 0, launch->job.nranks, STDIN_FILENO, error, sizeof error, &code)) {
        launch->alive = launch->crew.alive;
        return true;
    }
    relay_say(&launch->relay, "%s", error);
    launch->alive = launch->crew.alive;
    launch->exit_code = code;
    begin_ending(launch, REFUSED, SIGKILL);
    return false;
}

static bool start_remote(struct launch *launch)
{
    for (int i = 0; i < launch->nremotes; i++) {
        struct remote *remote = &launch->remotes[i];
        char where[96];
        struct job_share share = {.job = launch->job,
                                  .node = i,
                                  .first_rank = remote->host->first_rank,
                                  .n = remote->host->ranks,
                                  .wants_stdin = i == 0,
                                  .grace_ms = (int)launch->settings->grace_ms};
        snprintf(where, sizeof where, "host %s: ", remote->host->name);
        say_resources(launch, where, remote->cpus, remote->host->ranks);
        if (!remote_start(remote, &share)) {
            relay_say(&launch->relay, "the arguments of the program must be UTF-8 to be sent to other hosts");
            launch->exit_code = EXIT_FAILED;
            begin_ending(launch, REFUSED, SIGKILL);
            return false;
        }
        launch->alive += share.n;
    }
    watch_input(launch);
    return true;
}

/* One attempt: starts all ranks, waits until all have ended, leaves nothing of them. */
static void attempt(struct launch *launch, char **root)
{
    launch->phase = RUNNING;
    launch->reason = FINISHED;
    launch->has_first = false;
    launch->alive = launch->left = launch->secondary = 0;
    if (!prepare_job(launch, root)) {
        launch->exit_code = EXIT_FAILED;
        launch->reason = REFUSED;
        return;
    }
    if (launch->nremotes)
        start_remote(launch);
    else
        start_local(launch);
    while (launch->alive > 0 || remotes_busy(launch, REMOTE_RUNNING))
        turn(launch);
    close_input(launch);
    if (!launch->nremotes)
        descendants_end(launch->reason == ABANDONED || launch->phase == KILLING ? 0 : (int)launch->settings->grace_ms);
    crew_read_rest(&launch->crew);
    crew_free(&launch->crew);
    launch->deadline_ms = 0;
}

static int exit_code_of(const struct launch *launch)
{
    switch (launch->reason) {
    case TIMED_OUT:
        return EXIT_TIMED_OUT;
    case REFUSED:
        return launch->exit_code;
    case ABANDONED:
        return 128 + SIGKILL;
    case INTERRUPTED:
        if (!launch->has_first && launch->left == launch->settings->nranks)
            return EXIT_OK; /* all ranks ended cleanly on the signal */
        return !launch->has_first || launch->first.signal_number ? 128 + launch->interrupt : launch->first.exit_code;
    case FAILED:
        return launch->first.exit_code;
    default:
        return EXIT_OK;
    }
}

static bool make_prefixes(struct launch *launch)
{
    const struct launch_settings *settings = launch->settings;
    if (!settings->prefixes)
        return true;
    launch->prefixes = calloc((size_t)settings->nranks, sizeof *launch->prefixes);
    for (int rank = 0; launch->prefixes && rank < settings->nranks; rank++) {
        const char *host = NULL;
        for (int i = 0; i < settings->hosts.n; i++)
            if (rank >= settings->hosts.items[i].first_rank)
                host = settings->hosts.items[i].ranks ? settings->hosts.items[i].name : host;
        if (asprintf(&launch->prefixes[rank], host ? "%2$s:%1$d" : "%1$d", rank, host) < 0)
            return false;
    }
    return launch->prefixes != NULL;
}

static void run_attempts(struct launch *launch)
{
    char *root = NULL;
    const struct launch_settings *settings = launch->settings;
    for (;;) {
        attempt(launch, &root);
        if (launch->reason != FAILED || launch->restart >= settings->max_restarts)
            break;
        launch->restart++;
        relay_say(&launch->relay, "starting again (%d of %d)", launch->restart, settings->max_restarts);
    }
    free(root);
}

static void finish(struct launch *launch)
{
    for (int i = 0; i < launch->nremotes; i++)
        remote_close(&launch->remotes[i]);
    /* The agents end by themselves now; ssh is given the time to see it. */
    descendants_end(launch->nremotes ? (int)launch->settings->grace_ms : 0);
    relay_close(&launch->relay, launch->reason == ABANDONED ? 0 : 5000);
    for (int rank = 0; launch->prefixes && rank < launch->settings->nranks; rank++)
        free(launch->prefixes[rank]);
    free(launch->prefixes);
    free(launch->remotes);
    loop_free(&launch->loop);
}

int launch_main(void *context, int lifeline)
{
    struct launch launch = {.settings = context, .lifeline = lifeline, .crew = {.stdin_fd = -1}};
    const struct launch_settings *settings = context;
    launch.crew.loop = &launch.loop;
    launch.crew.calls = (struct crew_calls){&launch, on_text, on_ended, on_full};
    launch.signals = shepherd_signalfd();
    launch.job_deadline_ms = settings->timeout_ms ? loop_now_ms() + settings->timeout_ms : 0;
    if (launch.signals < 0 || !make_prefixes(&launch) ||
        !relay_open(&launch.relay, &launch.loop, settings->nranks, launch.prefixes) ||
        !loop_watch(&launch.loop, launch.signals, POLLIN, on_signal, &launch) ||
        !loop_watch(&launch.loop, lifeline, POLLIN, on_lifeline, &launch))
        return EXIT_FAILED;
    launch.exit_code = EXIT_FAILED;
    launch.reason = REFUSED;
    if (!settings->hosts.n || connect_remotes(&launch))
        run_attempts(&launch);
    int code = exit_code_of(&launch);
    finish(&launch);
    return code;
}
