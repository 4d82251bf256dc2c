/* SPDX-License-Identifier: Apache-2.0
 * What the launcher reads from another host and an agent from the launcher: the greeting, frames in pieces of any size, and the JSON
 * of jobs and deaths inside them. The first byte is the size of the pieces. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever is accepted must survive being written and read again. */
static void read_inside(const struct frame *frame)
{
    struct job_share share, again;
    struct death death = {0};
    if (frame->len && !frame->data)
        abort();
    if (frame->type == FRAME_ENDED && death_from_text(frame->data, frame->len, &death) &&
        memchr(death.cause, '\0', sizeof death.cause) == NULL)
        abort();
    if (frame->type != FRAME_JOB || !job_from_text(frame->data, frame->len, &share))
        return;
    char *text = job_to_text(&share);
    if (text && (!job_from_text(text, strlen(text), &again) || again.n != share.n || strcmp(again.job.argv[0], share.job.argv[0])))
        abort();
    if (text)
        job_share_free(&again);
    free(text);
    job_share_free(&share);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_reader reader = {0};
    struct frame frame;
    bool greeted = false;
    int more = 0;
    size_t piece = size ? data[0] + 1u : 1;
    for (size_t at = 1; at < size && more >= 0; at += piece) {
        if (!frame_feed(&reader, data + at, piece < size - at ? piece : size - at))
            break;
        greeted = greeted || frame_skip_greeting(&reader);
        while (greeted && (more = frame_next(&reader, &frame)) > 0)
            read_inside(&frame);
    }
    frame_reader_free(&reader);
    return 0;
}
