/* SPDX-License-Identifier: Apache-2.0
 * The pictures of docs/concepts.md are what the schedules do: each is made again from the algorithm that it names, and must be in the
 * page letter by letter. Started with --write this program puts them there.
 *
 * A picture is the text block after a line <!-- KIND COLLECTIVE ALGORITHM RANKS -->. Kinds: "buffers", send and receive buffers before and
 * after; "steps", what each rank has in hand in each step; "rounds", what it holds after each round; "schedule", rank 0's schedule. */
#include "schedule.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulator.h"

#define RANKS_MAX 8
#define CELL      256

/* The schedules of one picture, run chunk by chunk. */
struct scene {
    const struct motet_algorithm *algorithm;
    int nranks;
    struct motet_schedule schedules[RANKS_MAX];
    struct simulation sim;
    bool single; /* every rank brings one chunk: it needs no number */
};

static int round_of(const struct motet_schedule *schedule, int step)
{
    int round = 0;
    for (int s = 0; s < step; s++)
        round += (schedule->steps[s].flags & MOTET_ENDS_ROUND) != 0;
    return round;
}

/* Runs all that can run in rounds up to `round`. */
static void scene_run(struct scene *scene, int round)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int p = 0; p < scene->nranks; p++)
            for (int s = 0; s < scene->schedules[p].nsteps; s++)
                for (int i = 0; i < simulated_units(&scene->schedules[p].steps[s]); i++) {
                    if (round_of(&scene->schedules[p], s) > round || scene->sim.done[simulated_unit(&scene->sim, p, s, i)] ||
                        !simulated_ready(&scene->sim, p, s, i))
                        continue;
                    simulated_run(&scene->sim, p, s, i);
                    moved = true;
                }
    }
    if (scene->sim.problem)
        fail_msg("%s %s: %s", motet_collective_name(scene->algorithm->collective), scene->algorithm->name, scene->sim.problem);
}

static void scene_open(struct scene *scene, const struct motet_algorithm *algorithm, int nranks)
{
    static const bool in_place[RANKS_MAX];
    const int host_first[2] = {0, nranks};
    memset(scene, 0, sizeof(*scene));
    scene->algorithm = algorithm;
    scene->nranks = nranks;
    int most_steps = 0;
    for (int p = 0; p < nranks; p++) {
        struct motet_shape shape = {.nranks = nranks, .position = p, .nhosts = 1, .host_first = host_first};
        assert_true(!algorithm->fits || algorithm->fits(&shape));
        algorithm->build(&scene->schedules[p], &shape);
        motet_schedule_expand(&scene->schedules[p]);
        assert_false(scene->schedules[p].out_of_memory);
        most_steps = scene->schedules[p].nsteps > most_steps ? scene->schedules[p].nsteps : most_steps;
    }
    assert_null(simulate(algorithm->collective, 0, scene->schedules, nranks, in_place, 1));
    struct simulation *sim = &scene->sim;
    *sim = (struct simulation){.collective = algorithm->collective,
                               .nranks = nranks,
                               .nchunks = motet_schedule_nchunks(&scene->schedules[0]),
                               .parts = scene->schedules[0].parts,
                               .schedules = scene->schedules,
                               .in_place = in_place,
                               .most_steps = most_steps};
    size_t nunits = (size_t)nranks * (size_t)most_steps * ((size_t)sim->nchunks + 1) + 1;
    sim->memory = calloc((size_t)nranks * MOTET_NPLANES * (size_t)sim->nchunks, sizeof(*sim->memory));
    sim->sent = calloc(nunits, sizeof(*sim->sent));
    sim->done = calloc(nunits, sizeof(*sim->done));
    assert_non_null(sim->memory);
    assert_non_null(sim->sent);
    assert_non_null(sim->done);
    simulated_fill(sim);
    bool own_only = algorithm->collective == MOTET_ALLGATHER || algorithm->collective == MOTET_GATHER;
    scene->single = sim->nchunks == 1 || (own_only && sim->parts == 1);
}

static void scene_close(struct scene *scene)
{
    for (int p = 0; p < scene->nranks; p++)
        motet_schedule_free(&scene->schedules[p]);
    free(scene->sim.memory);
    free(scene->sim.sent);
    free(scene->sim.done);
}

/* Which ranks' inputs a value is the sum of, as bits, and of which chunk; 0 if it is none. */
static unsigned ranks_in(const struct scene *scene, struct simulated_value value, int *chunk)
{
    for (unsigned mask = 1; mask < 1u << scene->nranks; mask++)
        for (int c = 0; c < scene->sim.nchunks; c++) {
            uint64_t sum = 0;
            for (int q = 0; q < scene->nranks; q++)
                sum += mask >> q & 1 ? simulated_input(q, c).sum : 0;
            if (sum == value.sum) {
                *chunk = c;
                return mask;
            }
        }
    return 0;
}

/* Appends "a1", "a1+b1", ...: rank 0's input is a, rank 1's b. */
static void add_value(const struct scene *scene, char *text, struct simulated_value value)
{
    int chunk = 0;
    unsigned mask = ranks_in(scene, value, &chunk);
    assert_int_not_equal(mask, 0);
    if (text[0])
        strcat(text, " ");
    for (int q = 0, first = 1; q < scene->nranks; q++) {
        if (!(mask >> q & 1))
            continue;
        size_t len = strlen(text);
        assert_true(len + 8 < CELL);
        snprintf(text + len, CELL - len, scene->single ? "%s%c" : "%s%c%d", first ? "" : "+", 'a' + q, chunk);
        first = 0;
    }
}

/* The chunks of one plane that have a value. */
static void plane_text(const struct scene *scene, int p, int plane, char *text)
{
    text[0] = '\0';
    for (int c = 0; c < scene->sim.nchunks; c++) {
        const struct simulated_value *value = simulated_place(&scene->sim, p, plane, c);
        if (value->state != SIMULATED_POISON)
            add_value(scene, text, *value);
    }
    if (!text[0])
        strcpy(text, "-");
}

/* Of each chunk, what the rank holds most of, outside its input. */
static void holding_text(const struct scene *scene, int p, char *text)
{
    text[0] = '\0';
    for (int c = 0; c < scene->sim.nchunks; c++) {
        struct simulated_value best = {0};
        int most = 0, chunk;
        for (int plane = MOTET_OUTPUT; plane < MOTET_NPLANES; plane++) {
            const struct simulated_value *value = simulated_place(&scene->sim, p, plane, c);
            int count = value->state == SIMULATED_POISON ? 0 : __builtin_popcount(ranks_in(scene, *value, &chunk));
            if (count > most) {
                most = count;
                best = *value;
            }
        }
        if (most)
            add_value(scene, text, best);
    }
    if (!text[0])
        strcpy(text, "-");
}

static void step_text(const struct scene *scene, int p, int s, char *text)
{
    text[0] = '\0';
    if (s < scene->schedules[p].nsteps)
        for (int i = 0; i < scene->schedules[p].steps[s].n; i++)
            add_value(scene, text, scene->sim.sent[simulated_unit(&scene->sim, p, s, i)]);
    if (!text[0])
        strcpy(text, "-");
}

/* A table with a title over each column and one row for each rank. cells: [column][rank]. */
static void print_table(FILE *out, int nranks, int ncolumns, char (*titles)[32], char (*cells)[RANKS_MAX][CELL])
{
    for (int row = -1; row < nranks; row++) {
        char line[8 * CELL];
        int len = row < 0 ? snprintf(line, sizeof(line), "%6s", "") : snprintf(line, sizeof(line), "rank %d", row);
        for (int column = 0; column < ncolumns; column++) {
            int width = (int)strlen(titles[column]);
            for (int p = 0; p < nranks; p++)
                width = (int)strlen(cells[column][p]) > width ? (int)strlen(cells[column][p]) : width;
            len +=
                snprintf(line + len, sizeof(line) - (size_t)len, "   %-*s", width, row < 0 ? titles[column] : cells[column][row]);
            assert_true(len < (int)sizeof(line));
        }
        while (len > 0 && line[len - 1] == ' ')
            len--;
        fprintf(out, "%.*s\n", len, line);
    }
}

static void print_buffers(FILE *out, struct scene *scene)
{
    char titles[2][32] = {"send buffer", "receive buffer"}, (*cells)[RANKS_MAX][CELL] = calloc(2, sizeof(*cells));
    assert_non_null(cells);
    scene_run(scene, INT_MAX);
    for (int p = 0; p < scene->nranks; p++) {
        plane_text(scene, p, MOTET_INPUT, cells[0][p]);
        plane_text(scene, p, MOTET_OUTPUT, cells[1][p]);
    }
    print_table(out, scene->nranks, 2, titles, cells);
    free(cells);
}

static void print_steps(FILE *out, struct scene *scene)
{
    int n = scene->sim.most_steps;
    char(*titles)[32] = calloc((size_t)n, sizeof(*titles)), (*cells)[RANKS_MAX][CELL] = calloc((size_t)n, sizeof(*cells));
    assert_non_null(titles);
    assert_non_null(cells);
    scene_run(scene, INT_MAX);
    for (int s = 0; s < n; s++) {
        snprintf(titles[s], sizeof(titles[s]), "step %d", s);
        for (int p = 0; p < scene->nranks; p++)
            step_text(scene, p, s, cells[s][p]);
    }
    print_table(out, scene->nranks, n, titles, cells);
    free(titles);
    free(cells);
}

static void print_rounds(FILE *out, struct scene *scene)
{
    const struct motet_schedule *first = &scene->schedules[0];
    int n = round_of(first, first->nsteps - 1) + 1;
    char(*titles)[32] = calloc((size_t)n + 1, sizeof(*titles)), (*cells)[RANKS_MAX][CELL] = calloc((size_t)n + 1, sizeof(*cells));
    assert_non_null(titles);
    assert_non_null(cells);
    strcpy(titles[0], "send buffer");
    for (int p = 0; p < scene->nranks; p++)
        plane_text(scene, p, MOTET_INPUT, cells[0][p]);
    for (int round = 0; round < n; round++) {
        scene_run(scene, round);
        snprintf(titles[round + 1], sizeof(titles[0]), "after round %d", round);
        for (int p = 0; p < scene->nranks; p++)
            holding_text(scene, p, cells[round + 1][p]);
    }
    print_table(out, scene->nranks, n + 1, titles, cells);
    free(titles);
    free(cells);
}

/* As builders wrote it, before expansion. */
static void print_schedule(FILE *out, const struct motet_algorithm *algorithm, int nranks)
{
    const int host_first[2] = {0, nranks};
    struct motet_shape shape = {.nranks = nranks, .nhosts = 1, .host_first = host_first};
    struct motet_schedule schedule = {0};
    algorithm->build(&schedule, &shape);
    motet_schedule_print(out, &schedule);
    motet_schedule_free(&schedule);
}

static const struct motet_algorithm *find_algorithm(const char *collective, const char *name)
{
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++)
        if (strcmp(motet_collective_name((enum motet_collective)c), collective) == 0)
            return motet_algorithm_find((enum motet_collective)c, name);
    return NULL;
}

/* The picture that a marker line asks for. */
static void print_picture(FILE *out, const char *marker)
{
    char kind[32], collective[32], name[32];
    int nranks = 0;
    struct scene scene;
    assert_int_equal(sscanf(marker, "<!-- %31s %31s %31s %d -->", kind, collective, name, &nranks), 4);
    assert_in_range(nranks, 2, RANKS_MAX);
    const struct motet_algorithm *algorithm = find_algorithm(collective, name);
    if (!algorithm)
        fail_msg("no such algorithm: %s", marker);
    if (strcmp(kind, "schedule") == 0) {
        print_schedule(out, algorithm, nranks);
        return;
    }
    scene_open(&scene, algorithm, nranks);
    if (strcmp(kind, "buffers") == 0)
        print_buffers(out, &scene);
    else if (strcmp(kind, "steps") == 0)
        print_steps(out, &scene);
    else if (strcmp(kind, "rounds") == 0)
        print_rounds(out, &scene);
    else
        fail_msg("no such kind of picture: %s", marker);
    scene_close(&scene);
}

/* ---- The page ---- */

static void page_path(char *path, size_t size)
{
    const char *file = __FILE__, *end = strstr(file, "tests/unit/");
    assert_non_null(end);
    snprintf(path, size, "%.*sdocs/concepts.md", (int)(end - file), file);
}

static char *read_page(void)
{
    char path[PATH_MAX], *text = NULL;
    size_t len = 0;
    page_path(path, sizeof(path));
    FILE *file = fopen(path, "re");
    if (!file)
        fail_msg("cannot read %s", path);
    assert_int_not_equal(getdelim(&text, &len, '\0', file), -1);
    fclose(file);
    return text;
}

static bool is_marker(const char *line)
{
    static const char *const kinds[] = {"<!-- buffers ", "<!-- steps ", "<!-- rounds ", "<!-- schedule "};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strncmp(line, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

/* The page with all pictures made anew. Malloced. */
static char *print_page(const char *page, int *npictures)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    *npictures = 0;
    bool in_picture = false;
    for (const char *line = page; *line;) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        bool fence = strncmp(line, "```", 3) == 0;
        in_picture &= !fence;
        if (!in_picture)
            fprintf(out, "%.*s\n", (int)(end - line), line);
        if (is_marker(line)) {
            char marker[128];
            snprintf(marker, sizeof(marker), "%.*s", (int)(end - line), line);
            if (strncmp(end + 1, "```text\n", 8) != 0)
                fail_msg("no ```text after %s", marker);
            fprintf(out, "```text\n");
            print_picture(out, marker);
            end += 8;
            in_picture = true;
            ++*npictures;
        }
        line = end + 1;
    }
    fclose(out);
    return text;
}

static void test_docs_concepts_pictures_are_what_schedules_do(void **state)
{
    (void)state;
    int npictures;
    char *page = read_page(), *printed = print_page(page, &npictures);
    assert_true(npictures >= MOTET_NCOLLECTIVES);
    for (const char *a = page, *b = printed; *a || *b;) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || memcmp(a, b, n) != 0)
            fail_msg("docs/concepts.md has\n%.*s\nwhere the schedules give\n%.*s\n(this program with --write puts it right)",
                     (int)n, a, (int)m, b);
        a += n + (a[n] == '\n');
        b += m + (b[m] == '\n');
    }
    free(page);
    free(printed);
}

static void test_docs_concepts_every_collective_has_a_picture(void **state)
{
    (void)state;
    char *page = read_page();
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        char marker[64];
        const char *name = motet_collective_name((enum motet_collective)c);
        snprintf(marker, sizeof(marker), "<!-- %s %s ", c == MOTET_BARRIER ? "schedule" : "buffers", name);
        if (!strstr(page, marker))
            fail_msg("docs/concepts.md has no picture of %s", name);
    }
    free(page);
}

/* Only a pictures' text is replaced: everything else of the page stays as it was. */
static int write_page(void)
{
    char path[PATH_MAX];
    int npictures;
    char *page = read_page(), *printed = print_page(page, &npictures);
    page_path(path, sizeof(path));
    FILE *file = fopen(path, "we");
    bool written = file && fputs(printed, file) >= 0;
    if (file && fclose(file) != 0)
        written = false;
    fprintf(stderr, written ? "%s: %d pictures\n" : "%s: cannot be written (%d pictures)\n", path, npictures);
    free(page);
    free(printed);
    return written ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--write") == 0)
        return write_page();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_docs_concepts_pictures_are_what_schedules_do),
        cmocka_unit_test(test_docs_concepts_every_collective_has_a_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
