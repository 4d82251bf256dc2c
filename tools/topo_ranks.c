/* SPDX-License-Identifier: Apache-2.0
 * Ranks for the matrix: those of a running job, as motet status sees it, or as many as asked for, placed as motet run would. */
#include <stdlib.h>
#include <string.h>

#include "status_job.h"
#include "topo.h"

static bool failed(void)
{
    fprintf(stderr, "motet topo: %s\n", motetGetLastError(NULL));
    return false;
}

/* ---- Planned ---- */

/* A host: its memory nodes, and their CPUs. */
struct place {
    const char *host;
    cpu_set_t all, nodes[64];
    int nnodes;
};

static void add_cpus(motetTopo_t topo, int node, cpu_set_t *cpus)
{
    char *list = topo_cpus(topo, node);
    for (char *at = list; at && *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (end == at)
            break;
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET((size_t)cpu, cpus);
        at = *end == ',' ? end + 1 : end;
    }
    free(list);
}

/* The hosts of a topology that have CPUs; returns their number. */
static int find_places(motetTopo_t topo, struct place *places, int most)
{
    int n = 0, nplaces = 0;
    motetTopoCount(topo, &n);
    for (int i = 0; i < n; i++) {
        int p = 0;
        if (topo_kind(topo, i) != motetTopoNumaNode || topo_cpu_count(topo, i) == 0)
            continue;
        while (p < nplaces && strcmp(places[p].host, topo_host(topo, i)) != 0)
            p++;
        if (p == most)
            continue;
        if (p == nplaces)
            places[nplaces++] = (struct place){.host = topo_host(topo, i)};
        add_cpus(topo, i, &places[p].all);
        if (places[p].nnodes < 64) {
            CPU_ZERO(&places[p].nodes[places[p].nnodes]);
            add_cpus(topo, i, &places[p].nodes[places[p].nnodes++]);
        }
    }
    return nplaces;
}

static void write_list(const cpu_set_t *cpus, char *text, size_t len)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t cpu = 0; cpu < CPU_SETSIZE && used + 16 < len; cpu++)
        if (CPU_ISSET(cpu, cpus))
            used += (size_t)snprintf(text + used, len - used, "%s%zu", used ? "," : "", cpu);
}

/* Rank `index` of the `nlocal` of a host. */
static bool add_planned(motetTopo_t topo, const struct place *place, bool several, int rank, int index, int nlocal,
                        enum binding binding)
{
    cpu_set_t cpus = place->all;
    char list[8 * 1024];
    if (binding == BINDING_CORE)
        binding_share(&place->all, index, nlocal, &cpus);
    else if (binding == BINDING_NUMA)
        cpus = place->nodes[(long)index * place->nnodes / nlocal % place->nnodes];
    write_list(&cpus, list, sizeof list);
    return motetTopoAddRank(topo, rank, several ? place->host : NULL, 0, list) == motetSuccess || failed();
}

bool topo_add_planned(motetTopo_t topo, int n, enum binding binding)
{
    enum { MOST = 64 };
    struct place *places = calloc(MOST, sizeof *places);
    int nplaces = places ? find_places(topo, places, MOST) : 0, rank = 0;
    bool good = nplaces > 0;
    if (!good)
        fprintf(stderr, "motet topo: %s\n",
                places ? "the topology does not say which CPUs there are: ranks cannot be placed" : "out of memory");
    for (int p = 0; p < nplaces && good; p++) {
        int nlocal = n / nplaces + (p < n % nplaces);
        for (int i = 0; i < nlocal && good; i++)
            good = add_planned(topo, &places[p], nplaces > 1, rank++, i, nlocal, binding);
    }
    free(places);
    return good;
}

/* ---- Running ---- */

static bool ask(struct status_job *job, int pid, int timeout_ms)
{
    char *text = NULL, why[256];
    if (motetStatus(pid, timeout_ms, &text) != motetSuccess)
        return failed();
    bool added = status_job_add(job, text, why, sizeof why);
    if (!added)
        fprintf(stderr, "motet topo: process %d: %s\n", pid, why);
    free(text);
    return added;
}

/* One process after the other, until all are known. */
static bool ask_all(struct status_job *job, int timeout_ms)
{
    int *pids = NULL, n = 0;
    bool any = false;
    if (motetStatusProcesses(&pids, &n) != motetSuccess)
        return failed();
    for (int i = 0; i < n; i++) {
        bool known = false;
        for (size_t r = 0; r < job->n; r++)
            known |= job->rows[r].pid == pids[i];
        any |= !known && ask(job, pids[i], timeout_ms);
    }
    free(pids);
    if (n == 0)
        fprintf(stderr, "motet topo: no process of this user on this host uses motet\n");
    return any;
}

/* Whether processes run that are not among those of the first n rows. */
static bool has_others(const struct status_job *job, size_t n)
{
    for (size_t i = n; i < job->n; i++) {
        bool among = false;
        for (size_t k = 0; k < n; k++)
            among |= job->rows[i].pid == job->rows[k].pid && strcmp(job->rows[i].host, job->rows[k].host) == 0;
        if (!among)
            return true;
    }
    return false;
}

bool topo_add_running(motetTopo_t topo, int pid, const char *word, int timeout_ms)
{
    struct status_job job = {0};
    bool good = pid ? ask(&job, pid, timeout_ms) : ask_all(&job, timeout_ms);
    if (good && pid)
        status_job_filter_pid(&job, pid);
    if (good && word)
        status_job_filter(&job, word);
    if (good && job.n == 0) {
        fprintf(stderr, "motet topo: there is no such communicator\n");
        good = false;
    }
    size_t n = good ? status_job_comm(&job, 0) : 0; /* the largest comes first */
    for (size_t i = 0; i < n && good; i++)
        good = motetTopoAddRank(topo, job.rows[i].rank, job.rows[i].host, job.rows[i].pid, NULL) == motetSuccess || failed();
    if (good && !pid && has_others(&job, n))
        fprintf(stderr, "motet topo: there are other jobs, too: name a process or a communicator\n");
    status_job_free(&job);
    return good;
}
