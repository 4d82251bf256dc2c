/* SPDX-License-Identifier: Apache-2.0
 * Faults at random moments. Each run is a job of random size and placement whose ranks work until something happens to one of them: a
 * signal, an exit, an abort, a broken connection, a cut cable, a limit. No rank may hang, get a wrong value, blame somebody else, or leave
 * anything behind; a rank that was only stopped or disturbed must not be blamed at all.
 *
 * SEEDS=N runs N seeds, SEED=s one of them; by default as many as fit into about 40 s. CHAOS_JSON=file writes the counts and the times
 * from fault to error. */
/* test: serial timeout=300 */
#include <limits.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/resource.h>

#include "arena.h"

#define DEFAULT_SECONDS 40
#define INIT_TIMEOUT_S  12

enum { BUCKETS = 12 };
static const double bucket_ms[BUCKETS] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000};

enum kind {
    KILL,
    KILL_BESIDE_STOPPED, /* another process stands still meanwhile */
    SEGV,
    ABORT_SIGNAL,
    EXIT_3,
    EXIT_HANDLERS,
    EXIT_0,
    COMM_ABORT,
    STOP,
    STORM,
    RESET,
    CUT,
    BLACKHOLE,
    SLOW,
    FEW_FDS,
    LITTLE_MEMORY,
    FEW_THREADS,
    NKINDS
};

#define EVERYWHERE ((1u << ARENA_NPLACES) - 1)
#define NETWORK    (1u << ARENA_NETNS)

static const struct kind_row {
    const char *name;
    unsigned places;
    bool ends;         /* the job cannot go on */
    const char *cause; /* what the sentences say where the status can be seen; NULL: no fixed words */
} kinds[NKINDS] = {
    [KILL] = {"SIGKILL", EVERYWHERE, true, "killed by SIGKILL"},
    [KILL_BESIDE_STOPPED] = {"SIGKILL, one stopped", EVERYWHERE & ~(1u << ARENA_THREADS), true, "killed by SIGKILL"},
    [SEGV] = {"SIGSEGV", EVERYWHERE, true, "killed by SIGSEGV"},
    [ABORT_SIGNAL] = {"abort()", EVERYWHERE, true, "killed by SIGABRT"},
    [EXIT_3] = {"exit 3", EVERYWHERE, true, "exited with code 3"},
    [EXIT_HANDLERS] = {"exit() of a thread", EVERYWHERE, true, "exited with code 3"},
    [EXIT_0] = {"exit 0", EVERYWHERE, true, NULL},
    [COMM_ABORT] = {"CommAbort", EVERYWHERE, true, "aborted"},
    [STOP] = {"SIGSTOP, SIGCONT", EVERYWHERE, false, NULL},
    [STORM] = {"signal storm", EVERYWHERE, false, NULL},
    [RESET] = {"connection reset", NETWORK, false, NULL},
    [CUT] = {"cable cut", NETWORK, true, "silent"},
    [BLACKHOLE] = {"packets lost one way", NETWORK, true, "is gone: "},
    [SLOW] = {"slow cable", NETWORK, false, NULL},
    [FEW_FDS] = {"few descriptors", EVERYWHERE & ~NETWORK, false, NULL},
    [LITTLE_MEMORY] = {"little memory", EVERYWHERE & ~NETWORK & ~(1u << ARENA_THREADS), false, NULL},
    [FEW_THREADS] = {"few threads", EVERYWHERE & ~NETWORK & ~(1u << ARENA_THREADS), false, NULL},
};

struct plan {
    enum kind kind;
    int victim;
    bool in_init;    /* the moment counts from the start, not from the first round */
    double after_s;  /* the moment */
    uint64_t random; /* for the fault's own choices */
};

struct tally {
    int runs, failed;
    int by_kind[NKINDS + 1], by_place[ARENA_NPLACES]; /* the last row: whatever happened during init */
    int times, buckets[NKINDS + 1][BUCKETS + 1];
    double worst_s[NKINDS + 1];
};

static struct tally tally;
static bool strict; /* with SEEDS set the times are held exactly; else a loaded machine is given three times as long */

/* ---- faults that a process brings on itself, or that limit it from the start ---- */

static void bring_about(enum kind kind, int victim)
{
    switch (kind) {
    case SEGV:
        raise(SIGSEGV);
        break;
    case ABORT_SIGNAL:
        abort();
    case EXIT_3:
        _exit(3);
    case EXIT_HANDLERS:
        exit(3);
    case EXIT_0:
        _exit(0);
    case COMM_ABORT:
        if (atomic_load(&arena_comms[victim]) && !atomic_exchange(&arena_aborted[victim], 1))
            motetCommAbort(arena_comms[victim]);
        break;
    default:
        kill(getpid(), SIGKILL);
    }
}

static void *fault_thread(void *context)
{
    struct arena *arena = context;
    const struct plan *plan = arena->argument;
    while (!plan->in_init && arena->page->at_work < arena->nranks)
        arena_sleep(0.0002);
    arena_sleep(plan->after_s);
    atomic_store(&arena->page->fault_s, arena_now());
    bring_about(plan->kind, plan->victim);
    return NULL;
}

static void limit(int resource, rlim_t most)
{
    struct rlimit limits = {most, most};
    setrlimit(resource, &limits);
}

static void on_storm(int number)
{
    (void)number;
}

static void prepare(struct arena *arena, int first)
{
    const struct plan *plan = arena->argument;
    pthread_t thread;
    if (plan->victim < first || plan->victim >= first + arena->per_process)
        return;
    uint64_t random = plan->random;
    switch (plan->kind) {
    case FEW_FDS:
        limit(RLIMIT_NOFILE, 6 + work_next(&random) % 40);
        break;
    case LITTLE_MEMORY:
        limit(RLIMIT_AS, (8 + work_next(&random) % 600) << 20);
        break;
    case FEW_THREADS:
        if (setgid(65534) == 0 && setuid(65534) == 0)
            limit(RLIMIT_NPROC, work_next(&random) % 4);
        break;
    case KILL:
    case KILL_BESIDE_STOPPED:
    case STOP:
    case STORM:
    case RESET:
    case CUT:
    case BLACKHOLE:
    case SLOW:
        break; /* from outside */
    default:
        if (pthread_create(&thread, NULL, fault_thread, arena) == 0)
            pthread_detach(thread);
    }
}

/* ---- faults from outside ---- */

static void break_connection(const struct arena *arena, uint64_t random)
{
    (void)arena;
    namespace_shell(
        "nsenter -t %d -n sh -c 'n=$(ss -Htn state established dst 10.78.0.0/24 | wc -l); [ $n -gt 0 ] || exit 0; set -- $(ss -Htn "
        "state established dst 10.78.0.0/24 | sed -n $((%d %% n + 1))p | tr -s \" \"); [ -z \"$4\" ] || ss -K -t src $3 dst $4 >/dev/null'",
        (int)arena_hosts[random % 2], (int)(random >> 8 & 0xffff));
}

/* Some process that is not the victim's. */
static int bystander(const struct arena *arena, const struct plan *plan)
{
    int rank = (plan->victim + 1 + (int)(plan->random % (uint64_t)(arena->nranks - 1))) % arena->nranks;
    return arena_process_of(arena, rank);
}

static void kill_beside_stopped(struct arena *arena, const struct plan *plan, pid_t victim)
{
    pid_t stopped = arena->processes[bystander(arena, plan)];
    uint64_t random = plan->random;
    kill(stopped, SIGSTOP);
    arena_sleep((double)(work_next(&random) % 30) * 0.001);
    atomic_store(&arena->page->fault_s, arena_now());
    kill(victim, SIGKILL);
    arena_sleep((double)(work_next(&random) % 2500) * 0.001);
    atomic_store(&arena->page->woken_s, arena_now());
    kill(stopped, SIGCONT);
}

/* Host `to` loses all packets that the cable brings: only the rule for addresses of its own comes before any other, and is moved. */
static void lose_packets(int to)
{
    namespace_shell(
        "nsenter -t %d -n sh -c 'ip rule add pref 100 lookup local && ip rule del pref 0 && ip rule add pref 10 iif cable "
        "blackhole'",
        (int)arena_hosts[to]);
}

static void slow_down(int from, int mbit)
{
    namespace_shell("nsenter -t %d -n tc qdisc add dev cable root tbf rate %dmbit burst 32kb limit 64kb", (int)arena_hosts[from],
                    mbit);
}

static void mend_cable(enum kind kind)
{
    for (int i = 0; i < 2; i++)
        if (kind == CUT)
            namespace_shell("nsenter -t %d -n ip link set cable up", (int)arena_hosts[i]);
        else if (kind == BLACKHOLE)
            namespace_shell(
                "nsenter -t %d -n sh -c 'ip rule del pref 10 && ip rule add pref 0 lookup local && ip rule del pref 100' "
                "2>/dev/null",
                (int)arena_hosts[i]);
        else if (kind == SLOW)
            namespace_shell("nsenter -t %d -n tc qdisc del dev cable root 2>/dev/null", (int)arena_hosts[i]);
}

static void disturb(struct arena *arena, const struct plan *plan)
{
    pid_t victim = arena->processes[arena_process_of(arena, plan->victim)];
    uint64_t random = plan->random;
    switch (plan->kind) {
    case KILL:
        kill(victim, SIGKILL);
        break;
    case KILL_BESIDE_STOPPED:
        kill_beside_stopped(arena, plan, victim);
        break;
    case STOP:
        for (int i = 0; i < 3; i++) {
            kill(victim, SIGSTOP);
            arena_sleep((double)(work_next(&random) % 400) * 0.001);
            kill(victim, SIGCONT);
            arena_sleep((double)(work_next(&random) % 20) * 0.001);
        }
        break;
    case STORM:
        for (int i = 0; i < 2000; i++) {
            for (int r = 0; r < arena->nranks; r += arena->per_process)
                kill(arena->processes[r], SIGUSR1);
            arena_sleep(0.0001);
        }
        break;
    case RESET:
        break_connection(arena, work_next(&random));
        break;
    case CUT:
        namespace_shell("nsenter -t %d -n ip link set cable down", (int)arena_hosts[work_next(&random) % 2]);
        break;
    case BLACKHOLE:
        lose_packets((int)(work_next(&random) % 2));
        break;
    case SLOW:
        slow_down((int)(work_next(&random) % 2), 50 + (int)(plan->random % 400));
        break;
    default:
        break;
    }
}

static void act(struct arena *arena, const struct plan *plan, double deadline_s)
{
    const unsigned outside =
        1u << KILL | 1u << KILL_BESIDE_STOPPED | 1u << STOP | 1u << STORM | 1u << RESET | 1u << CUT | 1u << BLACKHOLE | 1u << SLOW;
    if (!(outside >> plan->kind & 1))
        return;
    while (!plan->in_init && arena->page->at_work < arena->nranks && arena_now() < deadline_s)
        arena_sleep(0.0002);
    arena_sleep(plan->after_s);
    atomic_store(&arena->page->fault_s, arena_now());
    disturb(arena, plan);
}

/* ---- the verdict ---- */

static bool complain(const struct arena *arena, const struct plan *plan, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool complain(const struct arena *arena, const struct plan *plan, int rank, const char *format, ...)
{
    char text[1600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "SEED=%llu: %s of rank %d (pid %d) %.1f ms after the %s, %d ranks, %d per process, %s: rank %d: %s\n",
            (unsigned long long)arena->seed, kinds[plan->kind].name, plan->victim, arena->page->ranks[plan->victim].pid,
            plan->after_s * 1e3, plan->in_init ? "start" : "first round", arena->nranks, arena->per_process,
            arena_places[arena->place], rank, text);
    return false;
}

static bool same_process(const struct arena *arena, int a, int b)
{
    return arena_process_of(arena, a) == arena_process_of(arena, b);
}

/* Whether a process that lives on, and does not stand still, sees the victim's process end. */
static bool has_witness(const struct arena *arena, const struct plan *plan)
{
    int victim = plan->victim, stopped = plan->kind == KILL_BESIDE_STOPPED ? bystander(arena, plan) : -1;
    bool one_host = arena->place == ARENA_SHM || arena->place == ARENA_THREADS;
    for (int r = 0; arena->place != ARENA_TCP && r < arena->nranks; r++)
        if ((one_host || arena_host_of(arena, r) == arena_host_of(arena, victim)) && !same_process(arena, r, victim) &&
            r != stopped)
            return true;
    return false;
}

/* A communicator made by a split has ranks of its own: there the pid tells. */
static bool names_rank(const struct arena *arena, const char *text, int rank)
{
    char words[32];
    snprintf(words, sizeof words, "(pid %d on ", arena->page->ranks[rank].pid);
    if (strstr(text, words))
        return true;
    int n = snprintf(words, sizeof words, "rank %d", rank);
    for (const char *at = text; (at = strstr(at, words)); at += n)
        if (at[n] < '0' || at[n] > '9')
            return true;
    return false;
}

/* Whether a survivor's sentence names the one to blame, and why where that can be known. */
static bool blames_right(const struct arena *arena, const struct plan *plan, int rank)
{
    const char *text = arena->page->ranks[rank].text, *cause = kinds[plan->kind].cause;
    bool named = false;
    for (int r = 0; r < arena->nranks; r++)
        named = named || (names_rank(arena, text, r) && (plan->kind == CUT ? arena_host_of(arena, r) != arena_host_of(arena, rank)
                                                         : plan->kind == COMM_ABORT ? r == plan->victim
                                                                                    : same_process(arena, r, plan->victim)));
    if (plan->kind == BLACKHOLE) /* whoever finds it first hangs up, which the other end may still see */
        return strstr(text, "rank ") && strstr(text, "(pid ") && strstr(text, cause);
    if (plan->in_init)
        return named || strstr(text, "root") || strstr(text, "pid ") || strstr(text, "missing ranks: ");
    if (plan->kind == RESET) /* who it is between is chance; each end names the other one */
        return strstr(text, "rank ") && strstr(text, "(pid ");
    if (plan->kind == EXIT_0)
        return named && (!has_witness(arena, plan) || strstr(text, "exited with code 0") || strstr(text, "finished normally"));
    /* In the middle of a split one member may have the child, and another one hear of the parent's end first, and leave. */
    if (plan->kind == COMM_ABORT && strcmp(arena->page->ranks[rank].operation, "CommSplit") == 0)
        return (named && strstr(text, cause)) || strstr(text, "left");
    return named && (!cause || !has_witness(arena, plan) || strstr(text, cause));
}

static void count_time(int kind, double seconds)
{
    int bucket = 0;
    while (bucket < BUCKETS && seconds * 1e3 > bucket_ms[bucket])
        bucket++;
    tally.times++;
    tally.buckets[kind][bucket]++;
    if (seconds > tally.worst_s[kind])
        tally.worst_s[kind] = seconds;
}

/* A rank that lived on after a fault that ends the job. */
static bool judge_survivor(const struct arena *arena, const struct plan *plan, int r)
{
    const struct arena_rank *rank = &arena->page->ranks[r];
    /* Who waits for the stopped one alone needs the dead one only when that goes on. */
    double fault_s = atomic_load(&arena->page->fault_s), woken_s = atomic_load(&arena->page->woken_s);
    double seconds = rank->heard_s - (woken_s > fault_s && rank->heard_s > woken_s ? woken_s : fault_s);
    double limit_s = arena->place == ARENA_NETNS || arena->place == ARENA_HOSTS ? 5 : 2;
    if (plan->in_init && strstr(rank->text, "missing ranks: ")) /* who died before it reached the meeting, unknown to anybody */
        limit_s = INIT_TIMEOUT_S + 2;
    else if (plan->in_init && strstr(rank->text, "no root at ")) /* the same of the root: it may be slow to come */
        limit_s = 4;
    if (rank->result == motetInProgress)
        return complain(arena, plan, r, "heard of nothing");
    if (arena->page->ready != 1) /* there never was a job */
        return true;
    if (!blames_right(arena, plan, r))
        return complain(arena, plan, r, "%s blames: %s", rank->operation, rank->text);
    if (plan->kind == CUT || plan->kind == BLACKHOLE)
        limit_s += 1; /* the limit of a silent host is a setting of 5 s, and it is looked at once per second */
    if (seconds > limit_s * (strict ? 1 : 3))
        return complain(arena, plan, r, "%s heard after %.3f s: %s", rank->operation, seconds, rank->text);
    count_time(plan->in_init ? NKINDS : (int)plan->kind, seconds > 0 ? seconds : 0);
    return true;
}

/* Whether a process ended as it must. */
static bool judge_status(const struct arena *arena, const struct plan *plan, int process)
{
    int status = arena->statuses[process];
    bool is_victim = process == arena_process_of(arena, plan->victim);
    int signal_number = plan->kind == KILL || plan->kind == KILL_BESIDE_STOPPED ? SIGKILL
                        : plan->kind == SEGV                                    ? SIGSEGV
                        : plan->kind == ABORT_SIGNAL                            ? SIGABRT
                                                                                : 0;
    if (status == -2)
        return complain(arena, plan, process, "hangs in %s",
                        arena->page->ranks[process].stage == ARENA_IN_INIT ? "init" : "its work");
    if (is_victim && signal_number)
        return WIFSIGNALED(status) && WTERMSIG(status) == signal_number ? true
                                                                        : complain(arena, plan, process, "status 0x%x", status);
    if (is_victim && (plan->kind == EXIT_3 || plan->kind == EXIT_HANDLERS))
        return WIFEXITED(status) && WEXITSTATUS(status) == 3 ? true : complain(arena, plan, process, "status 0x%x", status);
    return status == 0 ? true : complain(arena, plan, process, "status 0x%x", status);
}

static bool judge(const struct arena *arena, const struct plan *plan)
{
    bool good = true, any_error = false;
    bool dies = plan->kind <= EXIT_0;
    for (int r = 0; r < arena->nranks; r += arena->per_process)
        good = judge_status(arena, plan, r) && good;
    for (int r = 0; r < arena->nranks; r++)
        any_error = any_error || arena->page->ranks[r].result != motetInProgress;
    for (int r = 0; good && r < arena->nranks; r++) {
        const struct arena_rank *rank = &arena->page->ranks[r];
        if (rank->wrong)
            good = complain(arena, plan, r, "%d wrong results", rank->wrong);
        if (dies && same_process(arena, r, plan->victim))
            continue;
        if (rank->left_fds || rank->left_threads)
            good =
                complain(arena, plan, r, "left %d descriptors and %d threads (%s)", rank->left_fds, rank->left_threads, rank->text);
        if (plan->kind == STOP || plan->kind == STORM || plan->kind == SLOW)
            good = rank->result == motetInProgress ? good : complain(arena, plan, r, "%s blames: %s", rank->operation, rank->text);
        else if (!kinds[plan->kind].ends && any_error && rank->result == motetInProgress && rank->rounds < arena->rounds)
            good = complain(arena, plan, r, "heard of nothing");
        else if (plan->kind == RESET && any_error && rank->result != motetInProgress)
            good = judge_survivor(arena, plan, r) && good;
        else if (kinds[plan->kind].ends && (dies || plan->kind == CUT || plan->kind == BLACKHOLE || r != plan->victim))
            good = judge_survivor(arena, plan, r) && good;
    }
    return good;
}

/* ---- one run ---- */

static void invent(uint64_t seed, bool hosts, struct arena *arena, struct plan *plan)
{
    uint64_t random = seed * 7919 + 17;
    *arena = (struct arena){.seed = seed,
                            .per_process = 1,
                            .prepare = prepare,
                            .argument = plan,
                            .environment = {"MOTET_INIT_TIMEOUT=12s", "MOTET_TIMEOUT=30s", "MOTET_DEBUG=NONE"}};
    do
        plan->kind = (enum kind)(work_next(&random) % NKINDS);
    while (((kinds[plan->kind].places & ~NETWORK) == 0 && !hosts) ||
           (ARENA_SANITIZED && plan->kind == LITTLE_MEMORY) ||                          /* the runtime's own memory comes first */
           ((plan->kind == CUT || plan->kind == BLACKHOLE) && work_next(&random) % 4)); /* they take seconds */
    do
        arena->place = (enum arena_place)(work_next(&random) % ARENA_NPLACES);
    while (!(kinds[plan->kind].places >> arena->place & 1) || (arena->place == ARENA_NETNS && !hosts));
    arena->nranks = 2 + (int)(work_next(&random) % 5);
    if (arena->place == ARENA_THREADS)
        arena->per_process = (arena->nranks + 1) / 2;
    plan->victim = (int)(work_next(&random) % (uint64_t)arena->nranks);
    plan->in_init =
        work_next(&random) % 4 == 0 &&
        !(1u << plan->kind & (1u << CUT | 1u << BLACKHOLE | 1u << RESET | 1u << COMM_ABORT | 1u << KILL_BESIDE_STOPPED));
    plan->after_s = (double)(work_next(&random) % 1000) * (plan->in_init ? 1e-5 : 1e-4) * (double)(1 + work_next(&random) % 3);
    plan->random = work_next(&random);
    arena->rounds = kinds[plan->kind].ends ? 0 : 40;
}

/* All that the page of a run that failed tells. */
static void print_ranks(const struct arena *arena)
{
    fprintf(stderr, "SEED=%llu: ready %d, %d at work, fault at %.4f s, %d rounds wanted\n", (unsigned long long)arena->seed,
            arena->page->ready, arena->page->at_work, atomic_load(&arena->page->fault_s), arena->rounds);
    for (int r = 0; r < arena->nranks; r++) {
        const struct arena_rank *rank = &arena->page->ranks[r];
        fprintf(stderr,
                "  rank %d: pid %d, status 0x%x, stage %d, %d rounds, result %d in %s, heard at %.4f s, %d wrong, left %d "
                "descriptors and %d threads: %s\n",
                r, rank->pid, (unsigned)arena->statuses[arena_process_of(arena, r)], rank->stage, rank->rounds, rank->result,
                rank->operation[0] ? rank->operation : "nothing", rank->heard_s, rank->wrong, rank->left_fds, rank->left_threads,
                rank->text);
    }
}

static bool run(uint64_t seed, bool hosts)
{
    struct arena arena;
    struct plan plan;
    invent(seed, hosts, &arena, &plan);
    int files = count_entries("/dev/shm");
    signal(SIGUSR1, on_storm); /* the ranks inherit it */
    double deadline_s = arena_now() + 60 * (ARENA_SANITIZED ? 4 : 1);
    bool good = arena_start(&arena);
    if (good) {
        act(&arena, &plan, deadline_s);
        arena_wait(&arena, deadline_s);
        good = judge(&arena, &plan);
    }
    mend_cable(plan.kind);
    if (count_entries("/dev/shm") > files)
        good = complain(&arena, &plan, 0, "files are left in /dev/shm");
    if (!good)
        print_ranks(&arena);
    tally.runs++;
    tally.failed += !good;
    tally.by_kind[plan.in_init ? NKINDS : (int)plan.kind]++;
    tally.by_place[arena.place]++;
    arena_end(&arena);
    return good;
}

/* ---- the report ---- */

static void print_text(void)
{
    printf("%d runs, %d failed; %d times from fault to error\n", tally.runs, tally.failed, tally.times);
    for (int p = 0; p < ARENA_NPLACES; p++)
        printf("%s%s %d", p ? ", " : "", arena_places[p], tally.by_place[p]);
    printf("\n%-18s %5s %9s ", "fault", "runs", "worst ms");
    for (int b = 0; b <= BUCKETS; b++)
        printf(b < BUCKETS ? " <=%-5.0f" : " more", b < BUCKETS ? bucket_ms[b] : 0);
    for (int k = 0; k <= NKINDS; k++) {
        printf("\n%-18s %5d %9.1f ", k < NKINDS ? kinds[k].name : "any, during init", tally.by_kind[k], tally.worst_s[k] * 1e3);
        for (int b = 0; b <= BUCKETS; b++)
            printf(" %-7d", tally.buckets[k][b]);
    }
    printf("\n");
}

static void print_json(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "{\"runs\": %d, \"failed\": %d, \"times\": %d, \"bucket_ms\": [", tally.runs, tally.failed, tally.times);
    for (int b = 0; b < BUCKETS; b++)
        fprintf(file, "%s%.0f", b ? ", " : "", bucket_ms[b]);
    fprintf(file, "], \"places\": {");
    for (int p = 0; p < ARENA_NPLACES; p++)
        fprintf(file, "%s\"%s\": %d", p ? ", " : "", arena_places[p], tally.by_place[p]);
    fprintf(file, "}, \"faults\": [");
    for (int k = 0; k <= NKINDS; k++) {
        fprintf(file, "%s\n {\"fault\": \"%s\", \"runs\": %d, \"worst_ms\": %.3f, \"counts\": [", k ? "," : "",
                k < NKINDS ? kinds[k].name : "any, during init", tally.by_kind[k], tally.worst_s[k] * 1e3);
        for (int b = 0; b <= BUCKETS; b++)
            fprintf(file, "%s%d", b ? ", " : "", tally.buckets[k][b]);
        fprintf(file, "]}");
    }
    fprintf(file, "\n]}\n");
    fclose(file);
}

static void test_chaos_faults_at_random_moments_are_heard_by_all(void **state)
{
    const char *seeds = getenv("SEEDS"), *one = getenv("SEED"), *json = getenv("CHAOS_JSON"), *first = getenv("FIRST_SEED");
    bool hosts = arena_hosts_open();
    (void)state;
    strict = seeds != NULL;
    if (!hosts)
        fprintf(stderr, "without network namespaces: needs root, ip, ss and nsenter\n");
    if (one) {
        run(strtoull(one, NULL, 10), hosts);
    } else {
        double end_s = arena_now() + DEFAULT_SECONDS;
        uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
        for (long left = seeds ? strtol(seeds, NULL, 10) : LONG_MAX; left > 0 && (seeds || arena_now() < end_s); left--)
            run(seed++, hosts);
    }
    arena_hosts_close();
    print_text();
    if (json)
        print_json(json);
    assert_int_equal(tally.failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chaos_faults_at_random_moments_are_heard_by_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
