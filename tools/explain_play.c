/* SPDX-License-Identifier: Apache-2.0
 * Round by round: the messages of a round, then what each rank has of each chunk. A cell lists the ranks whose input is in it: "0-3". */
#include <string.h>
#include <unistd.h>

#include "explain.h"
#include "quantity.h"

#define CELL        40
#define CHUNKS_MOST 64

/* "0,2-5", and the chunk it comes from if that is another one. */
static int cell_text(const motetExplainHolding_t *holding, int chunk, char *text)
{
    int used = 0;
    for (int rank = 0; rank < 64 && used < CELL - 12; rank++) {
        int last = rank;
        if (!(holding->ranks >> rank & 1))
            continue;
        while (last + 1 < 64 && (holding->ranks >> (last + 1) & 1))
            last++;
        used += snprintf(text + used, CELL - (size_t)used, last > rank ? "%s%d-%d" : "%s%d", used ? "," : "", rank, last);
        rank = last;
    }
    if (holding->ranks && holding->chunk != chunk)
        used += snprintf(text + used, CELL - (size_t)used, ":%d", holding->chunk);
    if (holding->isResult)
        used += snprintf(text + used, CELL - (size_t)used, "=");
    if (!used)
        used = snprintf(text, CELL, ".");
    return used;
}

static bool measure(const struct explain_view *view, int chunks, int *width)
{
    const motetExplainCandidate_t *shown = &view->candidates[view->shown];
    char text[CELL];
    *width = 2;
    for (int round = 0; round <= shown->rounds; round++)
        for (int rank = 0; rank < view->query->nranks; rank++)
            for (int chunk = 0; chunk < chunks; chunk++) {
                motetExplainHolding_t holding;
                if (motetExplainHolding(view->explanation, view->shown, round, rank, chunk, &holding) != motetSuccess)
                    return false;
                int len = cell_text(&holding, chunk, text);
                *width = len > *width ? len : *width;
            }
    return true;
}

static bool print_frame(const struct explain_view *view, int round, int chunks, int width, bool bold)
{
    printf("  %-8s", "chunk");
    for (int chunk = 0; chunk < chunks; chunk++)
        printf(" %-*d", width + 1, chunk);
    printf("\n");
    for (int rank = 0; rank < view->query->nranks; rank++) {
        printf("  rank %-3d", rank);
        for (int chunk = 0; chunk < chunks; chunk++) {
            motetExplainHolding_t holding;
            char text[CELL];
            if (motetExplainHolding(view->explanation, view->shown, round, rank, chunk, &holding) != motetSuccess)
                return false;
            cell_text(&holding, chunk, text);
            if (bold && holding.isNew)
                printf(" \033[1;32m%-*s\033[0m", width + 1, text);
            else
                printf(" %s%-*s", holding.isNew ? ">" : " ", width, text);
        }
        printf("\n");
    }
    return true;
}

static bool print_messages(const struct explain_view *view, int round, int nmessages)
{
    motetExplainMessage_t message;
    char size[QUANTITY_MAX];
    for (int m = 0, n = 0; m < nmessages; m++) {
        if (motetExplainMessage(view->explanation, view->shown, m, &message) != motetSuccess)
            return false;
        if (message.round != round || n++ >= 64)
            continue;
        if (message.chunks == 0)
            printf("  %d -> %d  signal\n", message.from, message.to);
        else
            printf("  %d -> %d  %d chunk%s from %d%s, %s\n", message.from, message.to, message.chunks,
                   message.chunks == 1 ? "" : "s", message.chunk, message.sum ? ", summed" : "",
                   quantity_bytes(message.bytes, size));
    }
    return true;
}

/* Enter goes on; q and the end of the input stop. */
static bool go_on(void)
{
    int letter = getchar(), first = letter;
    while (letter != '\n' && letter != EOF)
        letter = getchar();
    return letter != EOF && first != 'q';
}

bool explain_play(const struct explain_view *view, bool wait)
{
    const motetExplainCandidate_t *shown = &view->candidates[view->shown];
    bool blocks = strcmp(view->collective, "AllReduce") != 0 && strcmp(view->collective, "Reduce") != 0 &&
                  strcmp(view->collective, "Broadcast") != 0;
    int chunks = shown->parts * (blocks ? view->query->nranks : 1), width = 2, nmessages;
    if (!view->moves || chunks > CHUNKS_MOST)
        chunks = view->moves ? CHUNKS_MOST : 0;
    if (motetExplainMessageCount(view->explanation, view->shown, &nmessages) != motetSuccess || !measure(view, chunks, &width))
        return false;
    printf("%s %s, %s, %d ranks: %s\n", view->collective, shown->name, view->what, view->query->nranks, shown->title);
    if (shown->tiles > 1)
        printf("Shown is the first of %.0f tiles, which all run like this.\n", shown->tiles);
    printf("A cell lists the ranks whose input is in the chunk; \"=\" is a result in its place, \">\" is new, \".\" is nothing.\n");
    for (int round = 0; round <= shown->rounds; round++) {
        printf("\n%s", round ? "" : "before\n");
        if (round)
            printf("round %d of %d\n", round, shown->rounds);
        if (round && !print_messages(view, round, nmessages))
            return false;
        if (chunks && !print_frame(view, round, chunks, width, wait && isatty(STDOUT_FILENO)))
            return false;
        if (!wait || round == shown->rounds)
            continue;
        printf("Enter: the next round, q: enough ");
        fflush(stdout);
        if (!go_on())
            return true;
    }
    return true;
}
