/* SPDX-License-Identifier: Apache-2.0
 * The job report: judging, and where it goes. How it looks is in report_text.c and report_json.c. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/settings.h"

#define BOUND_SHARE 0.30 /* exposed: from here on faster communication makes the program noticeably faster */

const char *const motet_report_operations[MOTET_TALLY_KINDS] = {
    "AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter", "Barrier", "Send", "Recv"};
const char *const motet_report_classes[MOTET_TALLY_CLASSES] = {"64 B", "1 KB", "16 KB", "256 KB", "4 MB", "64 MB", "1 GB", "more"};
const char *const motet_report_transports[MOTET_STATS_TRANSPORTS] = {"threads", "shm", "net"};

bool motet_report_wanted(void)
{
    return motet_setting_string(MOTET_SET_REPORT)[0] != '\0';
}

const char *motet_report_host(motetComm_t comm, int rank)
{
    return comm->peers[comm->position_of[rank]].endpoint->process.host_name;
}

/* ---- Judging ---- */

uint64_t motet_report_exposed(const struct motet_account *account)
{
    return account->time_ns - account->stream_ns + account->blocked_ns;
}

uint64_t motet_report_overlapped(const struct motet_account *account)
{
    return account->stream_ns > account->blocked_ns ? account->stream_ns - account->blocked_ns : 0;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : part > whole ? 1 : (double)part / (double)whole;
}

struct motet_verdict_of_job motet_report_judge(const struct motet_standing *standings, int nranks)
{
    uint64_t wall = 0, exposed = 0, time = 0, waiting = 0, late = 0;
    for (int r = 0; r < nranks; r++) {
        const struct motet_account *account = standings[r].account;
        if (!account)
            continue;
        wall += account->wall_ns;
        exposed += motet_report_exposed(account);
        time += account->time_ns;
        waiting += account->wait_ns;
        late += account->wait_late_ns;
    }
    struct motet_verdict_of_job verdict = {
        .exposed = share(exposed, wall), .waiting = share(waiting, time), .late = share(late, waiting)};
    verdict.communication_bound = verdict.exposed >= BOUND_SHARE;
    verdict.straggler = motet_straggler_find(standings, nranks);
    return verdict;
}

void motet_report_verdict_text(const struct motet_verdict_of_job *verdict, char *text, size_t len)
{
    double exposed = 100 * verdict->exposed, waiting = 100 * verdict->waiting, late = 100 * verdict->late;
    if (!verdict->communication_bound)
        snprintf(text, len,
                 "not communication-bound: %.0f %% of the time is exposed communication (%.0f %% of communication is waiting)",
                 exposed, waiting);
    else if (late >= 50)
        snprintf(
            text, len,
            "communication-bound: %.0f %% of the time is exposed communication; %.0f %% of communication is waiting, most of it for "
            "late ranks",
            exposed, waiting);
    else
        snprintf(text, len,
                 "communication-bound: %.0f %% of the time is exposed communication; %.0f %% of communication is waiting", exposed,
                 waiting);
}

void motet_report_straggler_text(const struct motet_straggler *straggler, const char *host, char *text, size_t len)
{
    text[0] = '\0';
    if (straggler->rank < 0)
        return;
    const char *cause = motet_straggler_cause_name(straggler->cause);
    if (straggler->compared > 0)
        snprintf(
            text, len,
            "rank %d (host %s) last in %.0f %% of %llu compared calls, p50 %.0f us, p99 %.0f us behind; without it %.0f %% less "
            "waiting; cause: %s",
            straggler->rank, host, 100 * straggler->share, (unsigned long long)straggler->compared, (double)straggler->p50_ns / 1e3,
            (double)straggler->p99_ns / 1e3, 100 * straggler->saved, cause);
    else
        snprintf(text, len,
                 "rank %d (host %s) has a part in %.0f %% of the waiting between hosts; without it %.0f %% less waiting; cause: %s",
                 straggler->rank, host, 100 * straggler->share, 100 * straggler->saved, cause);
}

const char *motet_report_remedy(const struct motet_verdict_of_job *verdict, int index)
{
    static const char *const causes[] = {
        [motetLateComputing] = "give the slow rank as much work as the others, or a CPU as fast as theirs",
        [motetLateNotRunning] = "give the slow rank a CPU of its own: other programs, its priority or a quota keep it from running",
        [motetLateSleeping] = "see what the slow rank waits for outside of communication: input, disk, locks",
        [motetLateSlowLink] = "look at the slow rank's link: rate, errors, cable, other traffic",
        [motetLateUnknown] = "see what the slow rank does",
    };
    static const char *const bound[] = {
        "larger batches: the same communication for more work",
        "gradient accumulation: communicate every k-th step",
        "a smaller datatype (bfloat16 instead of float32) or compression",
        "overlap: call on a stream and compute meanwhile",
        "a faster link between the hosts, or more ranks per host",
    };
    bool has_straggler = verdict->straggler.rank >= 0;
    if (has_straggler && index == 0)
        return causes[verdict->straggler.cause];
    index -= has_straggler;
    return verdict->communication_bound && index < (int)(sizeof bound / sizeof *bound) ? bound[index] : NULL;
}

/* ---- Where it goes ---- */

static bool is_json(const char *path)
{
    size_t len = strlen(path);
    return len > 5 && !strcmp(path + len - 5, ".json");
}

/* The first report of a process begins the file, later ones are added. */
static void put(const char *path, const char *text, size_t len)
{
    static _Atomic(_Bool) begun;
    bool to_stderr = !strcmp(path, "-");
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (atomic_exchange(&begun, true) ? O_APPEND : O_TRUNC);
    int file = to_stderr ? STDERR_FILENO : motet_descriptor_lift(open(path, flags, 0666));
    int error = file < 0 ? errno : motet_descriptor_write(file, text, len);
    if (file >= 0 && !to_stderr && close(file) != 0 && !error)
        error = errno;
    if (error)
        WARN(MOTET_LOG_INIT, "the report could not be written to %s (MOTET_REPORT): %s", path, strerror(error));
}

void motet_report_write(motetComm_t comm, const struct motet_standing *standings)
{
    const char *path = motet_setting_string(MOTET_SET_REPORT);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out) {
        WARN(MOTET_LOG_INIT, "out of memory for the report");
        return;
    }
    if (is_json(path))
        motet_report_print_json(out, comm, standings);
    else
        motet_report_print_text(out, comm, standings);
    if (fclose(out) == 0)
        put(path, text, len);
    free(text);
}
