/* SPDX-License-Identifier: Apache-2.0
 * Rules in the CSV that NCCL's example tuner reads: collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks and
 * optionally numPipeOps,regBuff. Lines that begin with # and empty ones are passed over. What has no meaning here (protocol, channels, the
 * last two) is checked and not used; a rule that names an algorithm which only NCCL has is left out, with one line that says so. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"
#include "tuning.h"

#define LINE_MOST 512
#define FIELDS    10
#define NEEDED    8

static const char *const fields[FIELDS] = {"collective_type", "min_bytes", "max_bytes", "algorithm",  "protocol",
                                           "channels",        "nNodes",    "nRanks",    "numPipeOps", "regBuff"};

/* Where a rule stands, for complaints. */
struct place {
    const char *name;
    int line;
};

static motetResult_t complain(const struct place *place, int field, const char *value, const char *problem)
{
    return motet_fail_quiet(motetInvalidArgument, "%s:%d: %s \"%.40s\" %s", place->name, place->line, fields[field], value,
                            problem);
}

/* Cuts a line into fields without the spaces around; the number of fields, FIELDS + 1 where there are more. */
static int cut(char *line, char *values[FIELDS])
{
    int n = 0;
    for (char *at = line; at && n <= FIELDS; n++) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        while (isspace((unsigned char)*at))
            at++;
        for (char *end = at + strlen(at); end > at && isspace((unsigned char)end[-1]);)
            *--end = '\0';
        if (n < FIELDS)
            values[n] = at;
        at = comma ? comma + 1 : NULL;
    }
    return n;
}

static motetResult_t read_bytes(const struct place *place, char *const *values, int field, double *bytes)
{
    char *end;
    unsigned long long value = strtoull(values[field], &end, 10);
    if (!isdigit((unsigned char)values[field][0]) || *end)
        return complain(place, field, values[field], "is not a number of bytes");
    *bytes = (double)value;
    return motetSuccess;
}

/* -1 (any), or from 0 on. */
static motetResult_t read_number(const struct place *place, char *const *values, int field, int *number)
{
    char *end;
    long value = strtol(values[field], &end, 10);
    if (end == values[field] || *end || value < -1 || value > 1 << 24)
        return complain(place, field, values[field], "is neither a number nor -1");
    *number = (int)value;
    return motetSuccess;
}

static bool is_one_of(const char *value, const char *const *words)
{
    for (; *words; words++)
        if (strcasecmp(value, *words) == 0)
            return true;
    return false;
}

static motetResult_t read_collective(const struct place *place, char *const *values, enum motet_collective *collective)
{
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        *collective = (enum motet_collective)c;
        if (strcasecmp(values[0], motet_collective_name(*collective)) == 0)
            return motetSuccess;
    }
    return complain(place, 0, values[0], "is not a collective");
}

/* *row: -1 where only NCCL has the algorithm. */
static motetResult_t read_algorithm(const struct place *place, char *const *values, enum motet_collective collective, int *row)
{
    static const char *const nccl[] = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat", NULL};
    const struct motet_algorithm *found = motet_algorithm_find(collective, values[3]);
    *row = found ? (int)(found - motet_algorithms) : -1;
    if (found)
        return motetSuccess;
    if (!is_one_of(values[3], nccl))
        return complain(place, 3, values[3], "is not an algorithm of this collective");
    INFO(MOTET_LOG_TUNING, "%s:%d: left out: %s has no algorithm %s here", place->name, place->line,
         motet_collective_name(collective), values[3]);
    return motetSuccess;
}

static motetResult_t read_rule(const struct place *place, char *line, struct motet_tuning_rule *rule)
{
    static const char *const protocols[] = {"ll", "ll128", "simple", "direct", NULL};
    char *values[FIELDS];
    int n = cut(line, values), unused;
    if (n < NEEDED || n > FIELDS)
        return motet_fail_quiet(motetInvalidArgument, "%s:%d: %d fields, there must be %d to %d: collective_type,min_bytes,...",
                                place->name, place->line, n, NEEDED, FIELDS);
    TRY(read_collective(place, values, &rule->collective));
    TRY(read_bytes(place, values, 1, &rule->min_bytes));
    TRY(read_bytes(place, values, 2, &rule->max_bytes));
    TRY(read_algorithm(place, values, rule->collective, &rule->row));
    if (!is_one_of(values[4], protocols))
        return complain(place, 4, values[4], "is not a protocol");
    TRY(read_number(place, values, 5, &unused));
    TRY(read_number(place, values, 6, &rule->nhosts));
    TRY(read_number(place, values, 7, &rule->nranks));
    for (int field = NEEDED; field < n; field++)
        TRY(read_number(place, values, field, &unused));
    return motetSuccess;
}

static motetResult_t add_rule(struct motet_tuning *tuning, const struct place *place, char *line)
{
    struct motet_tuning_rule rule;
    TRY(read_rule(place, line, &rule));
    if (rule.row < 0)
        return motetSuccess;
    if (tuning->nrules == MOTET_TUNING_RULES_MAX)
        return motet_fail_quiet(motetInvalidArgument, "%s:%d: more than %d rules", place->name, place->line,
                                MOTET_TUNING_RULES_MAX);
    if ((tuning->nrules & (tuning->nrules - 1)) == 0) { /* 0 and powers of two: room for as many again */
        size_t room = tuning->nrules ? 2 * (size_t)tuning->nrules : 1;
        struct motet_tuning_rule *grown = realloc(tuning->rules, room * sizeof(*grown));
        if (!grown)
            return motet_fail_quiet(motetSystemError, "%s: out of memory for its rules", place->name);
        tuning->rules = grown;
    }
    tuning->rules[tuning->nrules++] = rule;
    return motetSuccess;
}

motetResult_t motet_tuning_parse_csv(const char *name, const char *text, size_t len, struct motet_tuning *tuning)
{
    struct place place = {.name = name};
    char line[LINE_MOST];
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        place.line++;
        if (n >= sizeof(line) || memchr(text + at, '\0', n))
            return motet_fail_quiet(motetInvalidArgument, "%s:%d: %s", name, place.line,
                                    n >= sizeof(line) ? "the line is too long" : "not a text");
        memcpy(line, text + at, n);
        line[n] = '\0';
        at += n + 1;
        const char *first = line + strspn(line, " \t\r");
        if (*first && *first != '#')
            TRY(add_rule(tuning, &place, line));
    }
    return motetSuccess;
}
