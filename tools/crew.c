/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "rank_environment.h"

/* Everything the child needs between fork and exec, made beforehand: the launcher may have threads, so the child may only make
 * system calls. */
struct birth {
    const struct job *job;
    char **environment;
    bool bind;
    cpu_set_t cpus;
    int in, out, err, report; /* report: errno of exec, closed by a successful one */
    int deaths;               /* inherited by the program; -1: none */
    pid_t parent;
};

static void __attribute__((noreturn)) child_fail(const struct birth *birth, int where)
{
    int report[2] = {errno, where};
    ssize_t n = write(birth->report, report, sizeof report);
    (void)n;
    _exit(127);
}

/* Signals that the launcher blocks or ignores go back to their defaults, else the program inherits that; nohup's SIGHUP stays. */
static void child_reset_signals(void)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP && number != SIGHUP)
            signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void __attribute__((noreturn)) child_main(const struct birth *birth)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != birth->parent)
        _exit(128 + SIGKILL); /* the launcher died before prctl */
    if (birth->bind)
        sched_setaffinity(0, sizeof birth->cpus, &birth->cpus);
    if (dup2(birth->in, 0) < 0 || dup2(birth->out, 1) < 0 || dup2(birth->err, 2) < 0)
        child_fail(birth, 0);
    if (birth->job->directory && chdir(birth->job->directory))
        child_fail(birth, 1);
    if (birth->deaths >= 0)
        fcntl(birth->deaths, F_SETFD, 0);
    child_reset_signals();
    execvpe(birth->job->argv[0], birth->job->argv, birth->environment);
    child_fail(birth, 2);
}

static void close_all(int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void read_output(void *context, int fd, short events)
{
    struct crew_rank *rank = context;
    struct crew *crew = rank->crew;
    int stream = fd == rank->out[1];
    char data[65536];
    (void)events;
    ssize_t n = read(fd, data, sizeof data);
    if (n > 0)
        crew->calls.text(crew->calls.context, rank->rank, stream, data, (size_t)n);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        loop_forget(crew->loop, fd);
        close(fd);
        rank->out[stream] = -1;
    }
    crew_throttle(crew);
}

static void describe_exec_failure(const struct birth *birth, const int report[2], char *error, size_t len, int *exit_code)
{
    *exit_code = report[0] == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
    if (report[1] == 1)
        snprintf(error, len, "cannot enter the directory %s: %s", birth->job->directory, strerror(report[0]));
    else
        snprintf(error, len, "cannot run %s: %s", birth->job->argv[0], strerror(report[0]));
}

/* Forks and waits for exec, so that a program that does not exist is one clear error instead of n dead ranks. */
static bool fork_rank(struct crew_rank *rank, struct birth *birth, char *error, size_t len, int *exit_code)
{
    int pipes[6] = {-1, -1, -1, -1, -1, -1}; /* stdout, stderr, report */
    int failure[2];
    bool ok = false;
    if (pipe2(pipes, O_CLOEXEC) || pipe2(pipes + 2, O_CLOEXEC) || pipe2(pipes + 4, O_CLOEXEC)) {
        snprintf(error, len, "cannot make pipes for rank %d: %s", rank->rank, strerror(errno));
        close_all(pipes, 6);
        return false;
    }
    birth->out = pipes[1];
    birth->err = pipes[3];
    birth->report = pipes[5];
    birth->parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        child_main(birth);
    close(pipes[1]);
    close(pipes[3]);
    close(pipes[5]);
    if (pid < 0) {
        snprintf(error, len, "cannot start rank %d: %s", rank->rank, strerror(errno));
    } else if (read(pipes[4], failure, sizeof failure) == (ssize_t)sizeof failure) {
        describe_exec_failure(birth, failure, error, len, exit_code);
        waitpid(pid, NULL, 0);
    } else {
        ok = true;
    }
    close(pipes[4]);
    if (!ok) {
        close(pipes[0]);
        close(pipes[2]);
        return false;
    }
    rank->pid = pid;
    rank->out[0] = pipes[0];
    rank->out[1] = pipes[2];
    return true;
}

static bool start_rank(struct crew *crew, struct crew_rank *rank, const struct job *job, int index, int in, char *error, size_t len,
                       int *exit_code)
{
    struct birth birth = {.job = job, .in = in, .deaths = crew->deaths.reading};
    birth.bind = binding_cpus(job->binding, index, crew->n, &birth.cpus);
    birth.environment =
        rank_environment_make(job, crew->node, rank->rank, index, crew->n, crew_threads(job, crew->n), crew->deaths.reading);
    if (!birth.environment) {
        snprintf(error, len, "out of memory");
        return false;
    }
    bool ok = fork_rank(rank, &birth, error, len, exit_code);
    rank_environment_free(birth.environment);
    if (!ok)
        return false;
    crew->alive++;
    for (int i = 0; i < 2; i++) {
        fcntl(rank->out[i], F_SETFL, O_NONBLOCK);
        if (!loop_watch(crew->loop, rank->out[i], POLLIN, read_output, rank))
            return false;
    }
    return true;
}

/* Opens what rank 0 and the others read. */
static bool open_inputs(struct crew *crew, int stdin_fd, int *first_in, int *other_in)
{
    int pipe_fds[2];
    *other_in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    *first_in = stdin_fd >= 0 ? stdin_fd : *other_in;
    if (stdin_fd == -2) {
        if (pipe2(pipe_fds, O_CLOEXEC))
            return false;
        *first_in = pipe_fds[0];
        crew->stdin_fd = pipe_fds[1];
        fcntl(crew->stdin_fd, F_SETFL, O_NONBLOCK);
    }
    return *other_in >= 0;
}

bool crew_start(struct crew *crew, const struct job *job, int node, int first_rank, int n, int stdin_fd, char *error,
                size_t error_len, int *exit_code)
{
    int first_in, other_in;
    bool ok = true;
    *exit_code = EXIT_FAILED;
    crew->node = node;
    crew->n = n;
    crew->alive = 0;
    crew->paused = false;
    crew->stdin_fd = -1;
    gethostname(crew->host, sizeof crew->host - 1);
    oom_baseline_read(&crew->oom);
    deaths_open(&crew->deaths);
    crew->ranks = calloc((size_t)n, sizeof *crew->ranks);
    if (!crew->ranks || !open_inputs(crew, stdin_fd, &first_in, &other_in)) {
        snprintf(error, error_len, "cannot start the ranks: %s", strerror(errno));
        return false;
    }
    for (int i = 0; i < n; i++)
        crew->ranks[i] = (struct crew_rank){.rank = first_rank + i, .out = {-1, -1}, .crew = crew};
    for (int i = 0; ok && i < n; i++) {
        int in = first_rank + i == 0 ? first_in : other_in;
        ok = start_rank(crew, &crew->ranks[i], job, i, in, error, error_len, exit_code);
    }
    if (stdin_fd == -2)
        close(first_in);
    close(other_in);
    return ok;
}

int crew_threads(const struct job *job, int nlocal)
{
    const char *given = rank_environment_get(job, "OMP_NUM_THREADS");
    int threads = given ? atoi(given) : binding_cpu_count() / nlocal;
    return threads > 0 ? threads : 1;
}

void crew_signal(struct crew *crew, int signal_number)
{
    for (int i = 0; i < crew->n; i++) {
        if (!crew->ranks[i].pid)
            continue;
        /* The group exists once the child has called setsid; exec has happened, so it has. */
        kill(-crew->ranks[i].pid, signal_number);
        if (signal_number == SIGTERM || signal_number == SIGINT || signal_number == SIGHUP)
            kill(-crew->ranks[i].pid, SIGCONT);
    }
}

static void drain_rank(struct crew *crew, struct crew_rank *rank)
{
    for (int i = 0; i < 2; i++) {
        char data[65536];
        ssize_t n;
        while (rank->out[i] >= 0 && (n = read(rank->out[i], data, sizeof data)) > 0)
            crew->calls.text(crew->calls.context, rank->rank, i, data, (size_t)n);
    }
}

static void finish_rank(struct crew *crew, struct crew_rank *rank, int status)
{
    struct death death = {.rank = rank->rank};
    snprintf(death.host, sizeof death.host, "%s", crew->host);
    death_describe(&death, rank->pid, status, &crew->oom);
    deaths_append(&crew->deaths, &death);
    waitpid(rank->pid, NULL, 0);
    drain_rank(crew, rank);
    rank->pid = 0;
    crew->alive--;
    crew->calls.ended(crew->calls.context, &death);
}

/* The wait status of a rank that has ended but is not reaped; false while it runs. */
static bool peek_status(pid_t pid, int *status)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != pid)
        return false;
    bool core = info.si_code == CLD_DUMPED;
    *status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status | (core ? 0x80 : 0);
    return true;
}

void crew_reap(struct crew *crew)
{
    enum { BY_SIGNAL, BY_CODE, CLEAN, KINDS };
    int *statuses = calloc((size_t)(crew->n ? crew->n : 1), sizeof *statuses);
    if (!statuses)
        return;
    for (int i = 0; i < crew->n; i++)
        if (!crew->ranks[i].pid || !peek_status(crew->ranks[i].pid, &statuses[i]))
            statuses[i] = -1;
    for (int kind = BY_SIGNAL; kind < KINDS; kind++)
        for (int i = 0; i < crew->n; i++) {
            if (statuses[i] < 0)
                continue;
            int its_kind = WIFSIGNALED(statuses[i]) ? BY_SIGNAL : WEXITSTATUS(statuses[i]) ? BY_CODE : CLEAN;
            if (its_kind == kind)
                finish_rank(crew, &crew->ranks[i], statuses[i]);
        }
    free(statuses);
}

bool crew_owns(const struct crew *crew, pid_t pid)
{
    for (int i = 0; i < crew->n; i++)
        if (crew->ranks[i].pid == pid)
            return true;
    return false;
}

void crew_read_rest(struct crew *crew)
{
    for (int i = 0; i < crew->n; i++)
        drain_rank(crew, &crew->ranks[i]);
}

void crew_throttle(struct crew *crew)
{
    bool pause = crew->calls.full(crew->calls.context);
    if (pause == crew->paused)
        return;
    crew->paused = pause;
    for (int i = 0; i < crew->n; i++)
        for (int stream = 0; stream < 2; stream++)
            if (crew->ranks[i].out[stream] >= 0)
                loop_change(crew->loop, crew->ranks[i].out[stream], pause ? 0 : POLLIN);
}

void crew_free(struct crew *crew)
{
    for (int i = 0; i < crew->n; i++)
        for (int stream = 0; stream < 2; stream++)
            if (crew->ranks[i].out[stream] >= 0) {
                loop_forget(crew->loop, crew->ranks[i].out[stream]);
                close(crew->ranks[i].out[stream]);
            }
    if (crew->stdin_fd >= 0) {
        loop_forget(crew->loop, crew->stdin_fd);
        close(crew->stdin_fd);
    }
    if (crew->ranks)
        deaths_close(&crew->deaths);
    free(crew->ranks);
    crew->ranks = NULL;
    crew->n = 0;
    crew->stdin_fd = -1;
}
