/* SPDX-License-Identifier: Apache-2.0
 * The environments of launchers. Each reader trusts a complete set of its launcher's variables and names the one that is nonsense.
 *
 * motet run hosts the root itself and passes a unique id. Started by hand with MOTET_RANK, MOTET_NRANKS and MOTET_ROOT=host:port, rank 0
 * serves that address.
 *
 * Ports: torchrun's agent (or torch itself) holds MASTER_PORT, so the root takes the first free of the eight after it. srun gives no
 * port: eight are derived from job and step. Both stay inside MOTET_PORT_RANGE when that is set. mpirun gives no address either: ranks
 * of one host meet at an abstract Unix socket named after user and job; across hosts MOTET_COMM_ID must say where. */
#include "boot/launch.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/settings.h"
#include "boot/frame.h"
#include "boot/handshake.h"

#define PORTS          MOTET_PLACE_PORTS_MAX
#define DERIVED_FIRST  20000 /* below Linux' ephemeral ports, so that nothing takes them by chance */
#define DERIVED_COUNT  12000
#define RANKS_MAX      (1 << 20)
#define SECRET_MIN_LEN 32

struct launcher {
    const char *name;
    bool (*is_present)(void);
    motetResult_t (*read)(struct motet_launch *launch);
};

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] != '\0' ? value : NULL;
}

static motetResult_t read_number(const char *name, int min, int max, int *number)
{
    const char *text = env(name);
    char *end = NULL;
    long value = text && isdigit((unsigned char)text[0]) ? strtol(text, &end, 10) : -1;
    if (!end || *end != '\0' || value < min || value > max)
        return motet_fail(motetInvalidArgument, "%s=%.100s: expected a number in %d-%d", name, text ? text : "", min, max);
    *number = (int)value;
    return motetSuccess;
}

static motetResult_t read_rank_and_size(struct motet_launch *launch, const char *rank, const char *size)
{
    TRY(read_number(size, 1, RANKS_MAX, &launch->nranks));
    return read_number(rank, 0, launch->nranks - 1, &launch->rank);
}

/* Appends "name=value;" of a variable that is set. */
static void identify(struct motet_launch *launch, const char *name, const char *value)
{
    size_t at = strlen(launch->identity);
    if (value)
        snprintf(launch->identity + at, sizeof(launch->identity) - at, "%s=%s;", name, value);
}

motetResult_t motet_launch_secret(const char *kind, const char *identity, struct motet_secret *secret)
{
    const char *text = motet_setting_string(MOTET_SET_SECRET);
    char whole[600];
    size_t len = strlen(text);
    if (len > 0 && (len < SECRET_MIN_LEN || strspn(text, "0123456789abcdefABCDEF") != len))
        return motet_fail(motetInvalidArgument, "MOTET_SECRET: expected at least %d hexadecimal digits", SECRET_MIN_LEN);
    snprintf(whole, sizeof(whole), "%s\n%s", kind, identity);
    return motet_secret_derive(len > 0 ? text : "motet without a secret", whole, secret);
}

/* Eight consecutive ports from `start` on, in the range first-last, around its end if need be. */
static void fill_ports(struct motet_place_name *name, unsigned start, unsigned first, unsigned last)
{
    unsigned count = last - first + 1;
    name->nports = count < PORTS ? (int)count : PORTS;
    for (int i = 0; i < name->nports; i++)
        name->ports[i] = (uint16_t)(first + (start + (unsigned)i) % count);
}

/* Ports that all ranks compute alike: after `base`, or from the identity when base is 0. */
static motetResult_t derive_ports(struct motet_launch *launch, int base)
{
    uint16_t first, last;
    struct motet_secret hash;
    TRY(motet_port_range_parse(motet_setting_string(MOTET_SET_PORT_RANGE), &first, &last));
    TRY(motet_secret_derive("ports", launch->identity, &hash));
    unsigned number = motet_load_u32(hash.bytes);
    if (first != 0)
        fill_ports(&launch->name, number % (last - first + 1u), first, last);
    else if (base != 0)
        fill_ports(&launch->name, (unsigned)base, 1, 65535); /* port = 1 + base + i: base + 1 is the first */
    else
        fill_ports(&launch->name, number % DERIVED_COUNT / PORTS * PORTS, DERIVED_FIRST, DERIVED_FIRST + DERIVED_COUNT - 1);
    return motetSuccess;
}

/* ---- motet run */

static bool is_motet_run(void)
{
    return env("MOTET_RANK") && env("MOTET_NRANKS");
}

static motetResult_t read_motet_run(struct motet_launch *launch)
{
    TRY(read_rank_and_size(launch, "MOTET_RANK", "MOTET_NRANKS"));
    launch->has_id = env("MOTET_UNIQUE_ID");
    if (launch->has_id)
        return motet_unique_id_from_text("MOTET_UNIQUE_ID", env("MOTET_UNIQUE_ID"), &launch->id);
    if (!env("MOTET_ROOT") && !env("MOTET_COMM_ID") && launch->nranks > 1)
        return motet_fail(motetInvalidUsage,
                          "rank %d of %d: MOTET_RANK and MOTET_NRANKS are set, but none of MOTET_UNIQUE_ID, MOTET_ROOT "
                          "and MOTET_COMM_ID says where to meet",
                          launch->rank, launch->nranks);
    if (!env("MOTET_ROOT"))
        return motetSuccess;
    identify(launch, "root", env("MOTET_ROOT"));
    launch->name.exact = true;
    return motet_place_parse("MOTET_ROOT", env("MOTET_ROOT"), &launch->name);
}

/* ---- torchrun */

static bool is_torchrun(void)
{
    return env("RANK") && env("WORLD_SIZE") && env("MASTER_ADDR") && env("MASTER_PORT");
}

static motetResult_t read_torchrun(struct motet_launch *launch)
{
    int port;
    TRY(read_rank_and_size(launch, "RANK", "WORLD_SIZE"));
    TRY(read_number("MASTER_PORT", 1, 65535, &port));
    snprintf(launch->name.host, sizeof(launch->name.host), "%s", env("MASTER_ADDR"));
    identify(launch, "address", env("MASTER_ADDR"));
    identify(launch, "port", env("MASTER_PORT"));
    identify(launch, "run", env("TORCHELASTIC_RUN_ID"));
    identify(launch, "restart", env("TORCHELASTIC_RESTART_COUNT"));
    identify(launch, "size", env("WORLD_SIZE"));
    return derive_ports(launch, port);
}

/* ---- srun */

static bool is_srun(void)
{
    const char *pmi_rank = env("PMI_RANK"), *rank = env("SLURM_PROCID");
    /* Inside a batch script SLURM_PROCID is 0 for a single process; and Hydra starts its proxies by srun. */
    return rank && env("SLURM_STEP_ID") && env("SLURM_JOB_ID") && (env("SLURM_STEP_NUM_TASKS") || env("SLURM_NTASKS")) &&
           (!pmi_rank || strcmp(pmi_rank, rank) == 0);
}

bool motet_launch_first_host(const char *list, char *host, size_t size)
{
    size_t at = 0;
    for (const char *from = list; *from != '\0' && *from != ','; from++) {
        if (at + 1 >= size || isspace((unsigned char)*from) || *from == ']')
            return false;
        if (*from != '[') {
            host[at++] = *from;
            continue;
        }
        size_t len = strcspn(from + 1, ",-]"); /* of "[01-04,7]": "01" */
        if (len == 0 || at + len >= size)
            return false;
        memcpy(host + at, from + 1, len);
        at += len;
        from = strchr(from, ']');
        if (!from)
            return false;
    }
    host[at] = '\0';
    return at > 0;
}

static motetResult_t read_srun(struct motet_launch *launch)
{
    const char *nodes = env("SLURM_STEP_NODELIST") ? env("SLURM_STEP_NODELIST") : env("SLURM_JOB_NODELIST");
    TRY(read_rank_and_size(launch, "SLURM_PROCID", env("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS"));
    if (!nodes || !motet_launch_first_host(nodes, launch->name.host, sizeof(launch->name.host)))
        return motet_fail(motetInvalidArgument,
                          "SLURM_STEP_NODELIST=%.200s: no host can be read from it; set MOTET_COMM_ID=host:port",
                          nodes ? nodes : "");
    identify(launch, "job", env("SLURM_JOB_ID"));
    identify(launch, "step", env("SLURM_STEP_ID"));
    identify(launch, "nodes", nodes);
    identify(launch, "restart", env("SLURM_RESTART_COUNT"));
    return derive_ports(launch, 0);
}

/* ---- mpirun */

/* Pid, name, parent and start time of a process, from /proc/PID/stat. */
static bool read_process(int pid, char name[32], int *parent, unsigned long long *started)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = motet_descriptor_read(path);
    size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    text[len] = '\0';
    char *open = strchr(text, '('), *close = strrchr(text, ')'); /* the name may hold any character */
    if (!open || !close || close < open)
        return false;
    snprintf(name, 32, "%.*s", (int)(close - open - 1), open + 1);
    return sscanf(close + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", parent, started) ==
           2;
}

static bool is_mpi_starter(const char *name)
{
    static const char *const starters[] = {"hydra_pmi_proxy", "pmi_proxy", "mpiexec", "mpirun", "mpiexec.hydra",     "orted",
                                           "prted",           "prterun",   "orterun", "prte",   "hydra_bstrap_proxy"};
    for (size_t i = 0; i < sizeof(starters) / sizeof(starters[0]); i++)
        if (strncmp(name, starters[i], 15) == 0) /* the kernel keeps 15 characters */
            return true;
    return false;
}

/* The process that started all ranks of this host: the nearest ancestor that is an MPI launcher, else the parent. */
static void identify_by_ancestor(struct motet_launch *launch)
{
    char name[32], value[64] = "";
    unsigned long long started = 0;
    int parent = 0, pid = getppid();
    for (int depth = 0; depth < 8 && pid > 1 && read_process(pid, name, &parent, &started); depth++) {
        if (depth == 0 || is_mpi_starter(name))
            snprintf(value, sizeof(value), "%d@%llu", pid, started);
        if (is_mpi_starter(name))
            break;
        pid = parent;
    }
    identify(launch, "starter", value);
}

/* Ranks of one host meet at an abstract Unix socket: nothing is left behind, other users are told by the kernel. */
static motetResult_t meet_on_host(struct motet_launch *launch, bool one_host, const char *job)
{
    struct motet_secret hash;
    if (motet_setting_string(MOTET_SET_COMM_ID)[0] != '\0' || launch->nranks == 1)
        return motetSuccess;
    if (!one_host)
        return motet_fail(motetInvalidUsage,
                          "rank %d of %d: %s started ranks on several hosts and does not say where they can meet: set "
                          "MOTET_COMM_ID=host:port for all ranks, host being rank 0's",
                          launch->rank, launch->nranks, launch->launcher);
    if (job)
        identify(launch, "job", job);
    else
        identify_by_ancestor(launch);
    TRY(motet_secret_derive("name", launch->identity, &hash));
    snprintf(launch->name.host, sizeof(launch->name.host), "@motet-%u-%08x%08x", (unsigned)geteuid(), motet_load_u32(hash.bytes),
             motet_load_u32(hash.bytes + 4));
    return motetSuccess;
}

static bool is_open_mpi(void)
{
    return env("OMPI_COMM_WORLD_RANK") && env("OMPI_COMM_WORLD_SIZE");
}

static motetResult_t read_open_mpi(struct motet_launch *launch)
{
    int local = 0;
    TRY(read_rank_and_size(launch, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"));
    if (env("OMPI_COMM_WORLD_LOCAL_SIZE"))
        TRY(read_number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, RANKS_MAX, &local));
    identify(launch, "launcher", env("OMPI_MCA_orte_hnp_uri"));
    identify(launch, "size", env("OMPI_COMM_WORLD_SIZE"));
    return meet_on_host(launch, local == 0 || local == launch->nranks, env("PMIX_NAMESPACE"));
}

static bool is_pmi(void)
{
    return env("PMI_RANK") && env("PMI_SIZE");
}

static motetResult_t read_pmi(struct motet_launch *launch)
{
    int local = 0;
    TRY(read_rank_and_size(launch, "PMI_RANK", "PMI_SIZE"));
    if (env("MPI_LOCALNRANKS"))
        TRY(read_number("MPI_LOCALNRANKS", 1, RANKS_MAX, &local));
    identify(launch, "size", env("PMI_SIZE"));
    return meet_on_host(launch, local == 0 || local == launch->nranks, env("PMI_JOBID"));
}

/* ---- all */

static const struct launcher launchers[] = {
    {"motet run", is_motet_run, read_motet_run},       {"torchrun", is_torchrun, read_torchrun},
    {"mpirun (Open MPI)", is_open_mpi, read_open_mpi}, {"srun", is_srun, read_srun},
    {"mpirun (MPICH, Intel MPI)", is_pmi, read_pmi},
};

motetResult_t motet_launch_read(struct motet_launch *launch)
{
    *launch = (struct motet_launch){.launcher = "no launcher", .rank = 0, .nranks = 1};
    TRY(motet_settings_load());
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        if (!launchers[i].is_present())
            continue;
        launch->launcher = launchers[i].name;
        TRY(launchers[i].read(launch));
        break;
    }
    const char *comm_id = motet_setting_string(MOTET_SET_COMM_ID);
    if (comm_id[0] == '\0' || launch->has_id || launch->nranks == 1)
        return motetSuccess;
    /* The user's word replaces the launcher's place; the identity stays, so that jobs do not mix. */
    TRY(motet_place_parse("MOTET_COMM_ID", comm_id, &launch->name));
    launch->name.exact = true;
    return motetSuccess;
}
