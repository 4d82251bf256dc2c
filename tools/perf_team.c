/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_team.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"

int team_launched_processes(const char **launcher)
{
    static const struct {
        const char *launcher, *rank, *size;
    } known[] = {
        {"motet run", "MOTET_RANK", "MOTET_NRANKS"},
        {"torchrun", "RANK", "WORLD_SIZE"},
        {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI", "PMI_RANK", "PMI_SIZE"},
        {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    };
    *launcher = NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *size = getenv(known[i].size);
        int64_t n;
        if (!size || !getenv(known[i].rank) || !options_parse_int(size, &n) || n < 1 || n > 1 << 24)
            continue;
        *launcher = known[i].launcher;
        return (int)n;
    }
    return 1;
}

static bool set_error(struct team *team, const char *what, motetComm_t comm)
{
    snprintf(team->error, sizeof team->error, "%s: %s", what, motetGetLastError(comm));
    team->failed = true;
    return false;
}

/* All processes must have the same number of threads; rank 0 hands out the id of the communicator that is measured. */
static bool agree(struct team *team)
{
    int64_t mine = team->nlocal, range[2] = {mine, -mine}, agreed[2];
    if (motetAllReduce(range, agreed, 2, motetInt64, motetMin, team->processes, NULL) != motetSuccess)
        return set_error(team, "the processes cannot agree", team->processes);
    if (agreed[0] != -agreed[1]) {
        snprintf(team->error, sizeof team->error, "the processes have different numbers of ranks: from %lld to %lld (-t times -g)",
                 (long long)agreed[0], (long long)-agreed[1]);
        team->failed = true;
        return false;
    }
    if (team->process == 0 && motetGetUniqueId(&team->id) != motetSuccess)
        return set_error(team, "motetGetUniqueId", NULL);
    if (motetBroadcast(&team->id, &team->id, sizeof team->id, motetInt8, 0, team->processes, NULL) != motetSuccess)
        return set_error(team, "the processes cannot exchange an id", team->processes);
    return true;
}

bool team_open(struct team *team, int nlocal)
{
    const char *launcher;
    *team = (struct team){.nlocal = nlocal, .nprocesses = 1};
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->turn, NULL);
    team->numbers = calloc((size_t)nlocal, sizeof *team->numbers);
    if (team_launched_processes(&launcher) > 1) {
        if (motetCommInitEnv(&team->processes, NULL) != motetSuccess)
            return set_error(team, launcher, NULL);
        motetCommCount(team->processes, &team->nprocesses);
        motetCommUserRank(team->processes, &team->process);
    }
    team->nranks = nlocal * team->nprocesses;
    team->members = calloc((size_t)team->nranks, sizeof *team->members);
    if (!team->numbers || !team->members) {
        snprintf(team->error, sizeof team->error, "out of memory");
        return false;
    }
    if (team->processes)
        return agree(team);
    return motetGetUniqueId(&team->id) == motetSuccess || set_error(team, "motetGetUniqueId", NULL);
}

bool team_fail(struct team_rank *self, const char *format, ...)
{
    struct team *team = self->team;
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&team->lock);
    if (!team->failed) {
        int used = snprintf(team->error, sizeof team->error, "rank %d: ", self->rank);
        vsnprintf(team->error + used, sizeof team->error - (size_t)used, format, args);
    }
    team->failed = true;
    pthread_cond_broadcast(&team->turn);
    pthread_mutex_unlock(&team->lock);
    va_end(args);
    /* Peers that wait in a call for this rank hear of it. */
    if (self->comm)
        motetCommAbort(self->comm);
    self->comm = NULL;
    return false;
}

/* Waits for the local ranks. The last one in does `work` (with the lock held) for all. */
static bool local_turn(struct team_rank *self, bool (*work)(struct team_rank *self, void *context), void *context)
{
    struct team *team = self->team;
    pthread_mutex_lock(&team->lock);
    unsigned generation = team->generation;
    if (!team->failed && ++team->waiting == team->nlocal) {
        if (work && !work(self, context))
            team->failed = true;
        team->waiting = 0;
        team->generation++;
        pthread_cond_broadcast(&team->turn);
    }
    while (!team->failed && generation == team->generation)
        pthread_cond_wait(&team->turn, &team->lock);
    bool ok = !team->failed;
    pthread_mutex_unlock(&team->lock);
    return ok;
}

static bool work_barrier(struct team_rank *self, void *context)
{
    struct team *team = self->team;
    (void)context;
    if (team->processes && motetBarrier(team->processes, NULL) != motetSuccess)
        return set_error(team, "barrier between the processes", team->processes);
    return true;
}

bool team_barrier(struct team_rank *self)
{
    return local_turn(self, work_barrier, NULL);
}

static motetRedOp_t operation_of(enum team_mode mode)
{
    return mode == TEAM_MIN ? motetMin : mode == TEAM_MAX ? motetMax : motetSum;
}

static bool work_combine(struct team_rank *self, void *context)
{
    struct team *team = self->team;
    enum team_mode mode = *(enum team_mode *)context;
    double result = team->numbers[0];
    for (int i = 1; i < team->nlocal && mode != TEAM_FIRST; i++) {
        double number = team->numbers[i];
        if (mode == TEAM_MIN || mode == TEAM_MAX)
            result = (mode == TEAM_MIN) == (number < result) ? number : result;
        else
            result += number;
    }
    if (team->processes && mode == TEAM_FIRST) {
        if (motetBroadcast(&result, &result, 1, motetFloat64, 0, team->processes, NULL) != motetSuccess)
            return set_error(team, "the processes cannot combine a number", team->processes);
    } else if (team->processes) {
        if (motetAllReduce(&result, &result, 1, motetFloat64, operation_of(mode), team->processes, NULL) != motetSuccess)
            return set_error(team, "the processes cannot combine a number", team->processes);
    }
    team->combined = mode == TEAM_MEAN ? result / team->nranks : result;
    return true;
}

bool team_combine(struct team_rank *self, double number, enum team_mode mode, double *combined)
{
    struct team *team = self->team;
    team->numbers[self->local] = number;
    if (!local_turn(self, work_combine, &mode))
        return false;
    *combined = team->combined;
    /* Nobody writes its next number before all have read. */
    return local_turn(self, NULL, NULL);
}

static void read_cpu_model(char *model, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(model, size, "CPU");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(model, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
        break;
    }
    if (file)
        fclose(file);
}

static void describe_self(struct team_member *member)
{
    member->pid = (int32_t)getpid();
    member->cpu = (int32_t)sched_getcpu();
    gethostname(member->host, sizeof member->host - 1);
    member->host[strcspn(member->host, ".")] = '\0';
    read_cpu_model(member->model, sizeof member->model);
}

static bool work_members(struct team_rank *self, void *context)
{
    struct team *team = self->team;
    (void)context;
    struct team_member *mine = team->members + team->process * team->nlocal;
    if (team->processes &&
        motetAllGather(mine, team->members, (size_t)team->nlocal * sizeof *mine, motetInt8, team->processes, NULL) != motetSuccess)
        return set_error(team, "the processes cannot exchange their descriptions", team->processes);
    return true;
}

bool team_join(struct team_rank *self)
{
    struct team *team = self->team;
    describe_self(&team->members[self->rank]);
    if (!local_turn(self, work_members, NULL))
        return false;
    if (motetCommInitRank(&self->comm, team->nranks, team->id, self->rank) != motetSuccess) {
        self->comm = NULL;
        return team_fail(self, "motetCommInitRank: %s", motetGetLastError(NULL));
    }
    return team_barrier(self);
}

void team_leave(struct team_rank *self)
{
    if (self->stream)
        motetStreamDestroy(self->stream);
    motetComm_t comm = self->comm;
    self->comm = NULL; /* the handle is dead whatever Destroy returns */
    if (comm && motetCommDestroy(comm) != motetSuccess)
        team_fail(self, "motetCommDestroy: %s", motetGetLastError(NULL));
    self->stream = NULL;
}

void team_close(struct team *team)
{
    if (team->processes && team->failed)
        motetCommAbort(team->processes);
    else if (team->processes)
        motetCommDestroy(team->processes);
    pthread_mutex_destroy(&team->lock);
    pthread_cond_destroy(&team->turn);
    free(team->members);
    free(team->numbers);
}
