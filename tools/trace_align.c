/* SPDX-License-Identifier: Apache-2.0
 * Clocks of hosts, from calls that no rank can leave before all have come: in true time b began before a ended, and a began before b
 * ended. With t = clock of b's host minus clock of a's: begin_b - end_a <= t <= end_b - begin_a. All calls together leave a window. */
#include <string.h>

#include "trace.h"

struct window {
    int64_t low, high;
    bool any;
};

static const struct trace_file *file_of(const struct trace *trace, size_t member)
{
    return &trace->files[trace->members[member].file];
}

static void narrow(struct window *window, const struct trace *trace, size_t a, size_t b, int64_t number)
{
    const struct trace_entry *x = trace_find(trace, a, false, number), *y = trace_find(trace, b, false, number);
    if (!x || !y || !x->complete || !y->complete || !trace_synchronizes(x) || strcmp(x->what, y->what) != 0)
        return;
    int64_t error = file_of(trace, a)->error_ns + file_of(trace, b)->error_ns;
    int64_t low = y->begin_ns - x->end_ns - error, high = y->end_ns - x->begin_ns + error;
    window->low = !window->any || low > window->low ? low : window->low;
    window->high = !window->any || high < window->high ? high : window->high;
    window->any = true;
}

/* All calls of the communicators in which both hosts have ranks; one rank of each host is enough per communicator. */
static struct window look(const struct trace *trace, const char *reference, const char *host)
{
    struct window window = {0};
    int64_t lowest, highest;
    for (size_t first = 0, n; first < trace->nmembers; first += n) {
        size_t a = SIZE_MAX, b = SIZE_MAX;
        n = trace_comm(trace, first);
        for (size_t m = first; m < first + n; m++) {
            a = a == SIZE_MAX && strcmp(file_of(trace, m)->host_id, reference) == 0 ? m : a;
            b = b == SIZE_MAX && strcmp(file_of(trace, m)->host_id, host) == 0 ? m : b;
        }
        if (a == SIZE_MAX || b == SIZE_MAX || !trace_range(trace, a, &lowest, &highest))
            continue;
        for (size_t i = 0; i < trace->nentries; i++)
            if (trace->entries[i].member == a && !trace->entries[i].is_message)
                narrow(&window, trace, a, b, trace->entries[i].number);
    }
    return window;
}

static void apply(struct trace *trace)
{
    for (size_t i = 0; i < trace->nentries; i++) {
        struct trace_entry *entry = &trace->entries[i];
        int64_t offset = file_of(trace, entry->member)->offset_ns;
        entry->begin_ns -= offset;
        entry->end_ns -= entry->end_ns ? offset : 0;
    }
    for (size_t i = 0; i < trace->nsteps; i++) {
        int64_t offset = file_of(trace, trace->steps[i].member)->offset_ns;
        trace->steps[i].begin_ns -= offset;
        trace->steps[i].end_ns -= offset;
    }
}

size_t trace_align(struct trace *trace)
{
    size_t unknown = 0;
    for (size_t f = 1; f < trace->nfiles; f++) {
        struct trace_file *file = &trace->files[f];
        size_t same = 0;
        while (strcmp(trace->files[same].host_id, file->host_id) != 0)
            same++;
        if (same < f) { /* one clock per host */
            file->offset_ns = trace->files[same].offset_ns;
            continue;
        }
        struct window window = look(trace, trace->files[0].host_id, file->host_id);
        if (!window.any)
            unknown++;
        else if (window.low > 0 || window.high < 0) /* the wall clocks cannot both be right */
            file->offset_ns = window.low + (window.high - window.low) / 2;
    }
    apply(trace);
    trace_profile_align(trace);
    return unknown;
}
