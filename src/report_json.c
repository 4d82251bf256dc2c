/* SPDX-License-Identifier: Apache-2.0
 * The job report for programs: one JSON object on one line, so that several jobs of a process make several lines. Times in nanoseconds. */
#include <string.h>

#include "report.h"

#define U(value) ((unsigned long long)(value))

static void put_string(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            putc(c, out);
    }
    putc('"', out);
}

static void put_transports(FILE *out, const char *name, const uint64_t *bytes)
{
    fprintf(out, "\"%s\":{", name);
    for (int t = 0; t < MOTET_STATS_TRANSPORTS; t++)
        fprintf(out, "%s\"%s\":%llu", t ? "," : "", motet_report_transports[t], U(bytes[t]));
    fprintf(out, "}");
}

static void put_operations(FILE *out, const struct motet_account *a)
{
    bool any = false;
    fprintf(out, "\"operations\":[");
    for (int k = 0; k < MOTET_TALLY_KINDS; k++)
        for (int c = 0; c < MOTET_TALLY_CLASSES; c++) {
            if (a->calls[k][c] == 0)
                continue;
            fprintf(out, "%s{\"operation\":\"%s\",\"up_to\":\"%s\",\"calls\":%llu,\"bytes\":%llu}", any ? "," : "",
                    motet_report_operations[k], motet_report_classes[c], U(a->calls[k][c]), U(a->bytes[k][c]));
            any = true;
        }
    fprintf(out, "]");
}

static void put_waits(FILE *out, const struct motet_account *a)
{
    bool any = false;
    fprintf(out, ",\"waits_for_other_hosts\":[");
    for (int w = 0; w < MOTET_ACCOUNT_WAITS; w++) {
        if (a->waits[w].ns == 0)
            continue;
        fprintf(out, "%s{\"rank\":%d,\"ns\":%llu}", any ? "," : "", (int)a->waits[w].rank, U(a->waits[w].ns));
        any = true;
    }
    fprintf(out, "]");
}

static void put_rank(FILE *out, motetComm_t comm, const struct motet_account *a, int rank)
{
    fprintf(out, "{\"rank\":%d,\"host\":", rank);
    put_string(out, motet_report_host(comm, rank));
    fprintf(out, ",\"known\":%s", a ? "true" : "false");
    if (a) {
        fprintf(
            out,
            ",\"ended\":%s,\"wall_ns\":%llu,\"in_calls_ns\":%llu,\"waiting_ns\":%llu,\"waiting_late_ns\":%llu,\"moving_ns\":%llu,"
            "\"reducing_ns\":%llu,\"exposed_ns\":%llu,\"overlapped_ns\":%llu,\"long_waits\":%llu,",
            a->final || rank == 0 ? "true" : "false", U(a->wall_ns), U(a->time_ns), U(a->wait_ns), U(a->wait_late_ns),
            U(a->time_ns - a->wait_ns - a->reduce_ns), U(a->reduce_ns), U(motet_report_exposed(a)), U(motet_report_overlapped(a)),
            U(a->long_waits));
        put_transports(out, "sent", a->sent);
        putc(',', out);
        put_transports(out, "received", a->received);
        putc(',', out);
        put_operations(out, a);
        fprintf(out, ",\"steps\":{\"count\":%llu,\"ns\":%llu,\"exposed_ns\":%llu,\"longest_ns\":%llu}", U(a->steps), U(a->step_ns),
                U(a->step_exposed_ns), U(a->step_longest_ns));
        fprintf(out, ",\"thread\":{\"seen_ns\":%llu,\"ran_ns\":%llu,\"delayed_ns\":%llu}", U(a->seen_ns), U(a->ran_ns),
                U(a->delayed_ns));
        put_waits(out, a);
        fprintf(out, ",\"communicators\":%llu,\"memory_bytes\":%llu", U(a->communicators), U(a->memory_bytes));
    }
    fprintf(out, "}");
}

static void put_straggler(FILE *out, motetComm_t comm, const struct motet_straggler *s)
{
    char text[512];
    if (s->rank < 0) {
        fprintf(out, "null");
        return;
    }
    motet_report_straggler_text(s, motet_report_host(comm, s->rank), text, sizeof text);
    fprintf(
        out,
        "{\"rank\":%d,\"cause\":\"%s\",\"share\":%.4f,\"saved\":%.4f,\"compared\":%llu,\"p50_ns\":%llu,\"p99_ns\":%llu,\"sentence\":",
        s->rank, motet_straggler_cause_name(s->cause), s->share, s->saved, U(s->compared), U(s->p50_ns), U(s->p99_ns));
    put_string(out, text);
    fprintf(out, "}");
}

void motet_report_print_json(FILE *out, motetComm_t comm, const struct motet_standing *standings)
{
    struct motet_verdict_of_job verdict = motet_report_judge(standings, comm->nranks);
    char text[512];
    const char *remedy;
    fprintf(out, "{\"version\":1,\"comm\":");
    put_string(out, comm->options.name);
    motet_report_verdict_text(&verdict, text, sizeof text);
    fprintf(out, ",\"nranks\":%d,\"nhosts\":%d,\"exposed_share\":%.4f,\"communication_bound\":%s,\"verdict\":", comm->nranks,
            comm->nhosts, verdict.exposed, verdict.communication_bound ? "true" : "false");
    put_string(out, text);
    fprintf(out, ",\"straggler\":");
    put_straggler(out, comm, &verdict.straggler);
    fprintf(out, ",\"remedies\":[");
    for (int i = 0; (remedy = motet_report_remedy(&verdict, i)); i++) {
        fprintf(out, "%s", i ? "," : "");
        put_string(out, remedy);
    }
    fprintf(out, "],\"ranks\":[");
    for (int r = 0; r < comm->nranks; r++) {
        fprintf(out, "%s", r ? "," : "");
        put_rank(out, comm, standings[r].account, r);
    }
    fprintf(out, "]}\n");
}
