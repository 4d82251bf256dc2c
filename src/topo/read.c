/* SPDX-License-Identifier: Apache-2.0
 * Reading a topology with expat. The text is not trusted: its size, depth, elements, attributes and values are bounded, document types (and
 * with them entities) are refused, and the first thing that is wrong ends it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/settings.h"
#include "topo/loaded.h"
#include "topo/topo.h"

#define FILE_MOST ((size_t)16 << 20)

struct reading {
    const struct motet_expat *expat;
    XML_Parser parser;
    struct motetTopo *topo;
    int current, depth;
    motetResult_t result; /* what a handler found wrong */
};

/* After it handlers may still be called a last time. */
static void stop(struct reading *reading, motetResult_t result)
{
    reading->result = result;
    reading->expat->XML_StopParser(reading->parser, XML_FALSE);
}

static motetResult_t take_attributes(struct reading *reading, int index, const XML_Char **list)
{
    struct motetTopo *topo = reading->topo;
    for (int i = 0; list[2 * i]; i++) {
        const char *name = list[2 * i], *value = list[2 * i + 1];
        const char *problem = i >= MOTET_TOPO_ATTRIBUTES_MAX ? "is one too many" : NULL;
        if (strlen(name) > MOTET_TOPO_VALUE_MAX || strlen(value) >= MOTET_TOPO_VALUE_MAX)
            problem = "is too long";
        if (problem)
            return motet_fail_quiet(motetInvalidArgument, "%s:%lu: <%.64s> attribute %.64s %s", topo->name, topo->nodes[index].line,
                                    topo->nodes[index].element, name, problem);
        TRY(motet_topo_set(topo, index, name, value));
    }
    return motetSuccess;
}

static motetResult_t take_element(struct reading *reading, const char *element, const XML_Char **list)
{
    int index;
    struct motetTopo *topo = reading->topo;
    unsigned long line = reading->expat->XML_GetCurrentLineNumber(reading->parser);
    if (reading->depth >= MOTET_TOPO_DEPTH_MAX || strlen(element) > MOTET_TOPO_VALUE_MAX)
        return motet_fail_quiet(motetInvalidArgument, "%s:%lu: <%.64s> %s", topo->name, line, element,
                                reading->depth >= MOTET_TOPO_DEPTH_MAX ? "is nested too deeply" : "has a name that is too long");
    TRY(motet_topo_add(topo, reading->current, element, &index));
    topo->nodes[index].line = line;
    reading->current = index;
    reading->depth++;
    TRY(take_attributes(reading, index, list));
    return motet_topo_check(topo, index);
}

static void on_start(void *context, const XML_Char *element, const XML_Char **list)
{
    struct reading *reading = context;
    motetResult_t result = reading->result == motetSuccess ? take_element(reading, element, list) : motetSuccess;
    if (result != motetSuccess)
        stop(reading, result);
}

static void on_end(void *context, const XML_Char *element)
{
    struct reading *reading = context;
    (void)element;
    if (reading->result == motetSuccess && reading->depth > 0) {
        reading->current = reading->topo->nodes[reading->current].parent;
        reading->depth--;
    }
}

static void on_doctype(void *context, const XML_Char *name, const XML_Char *system_id, const XML_Char *public_id, int has_subset)
{
    struct reading *reading = context;
    (void)system_id, (void)public_id, (void)has_subset;
    stop(reading, motet_fail_quiet(motetInvalidArgument, "%s:%lu: <!DOCTYPE %.64s>: a topology has no document type%s",
                                   reading->topo->name, reading->expat->XML_GetCurrentLineNumber(reading->parser), name,
                                   strcmp(name, "topology") == 0 ? "; this is a file of hwloc" : ""));
}

/* What expat found wrong, with the element that was open. */
static motetResult_t complain(const struct reading *reading)
{
    const struct motetTopo *topo = reading->topo;
    char where[128] = "";
    if (reading->current >= 0)
        snprintf(where, sizeof where, ", in <%.64s> of line %lu", topo->nodes[reading->current].element,
                 topo->nodes[reading->current].line);
    return motet_fail_quiet(motetInvalidArgument, "%s:%lu: not XML: %s%s", topo->name,
                            reading->expat->XML_GetCurrentLineNumber(reading->parser),
                            reading->expat->XML_ErrorString(reading->expat->XML_GetErrorCode(reading->parser)), where);
}

static motetResult_t parse(struct reading *reading, const char *text, size_t len)
{
    const struct motet_expat *expat = reading->expat;
    expat->XML_SetUserData(reading->parser, reading);
    expat->XML_SetElementHandler(reading->parser, on_start, on_end);
    expat->XML_SetStartDoctypeDeclHandler(reading->parser, on_doctype);
    enum XML_Status status = expat->XML_Parse(reading->parser, text, (int)len, XML_TRUE);
    if (reading->result != motetSuccess)
        return reading->result;
    return status == XML_STATUS_OK ? motet_topo_check_all(reading->topo) : complain(reading);
}

motetResult_t motet_topo_parse(const char *name, const char *text, size_t len, struct motetTopo **topo)
{
    struct reading reading = {.current = -1};
    *topo = NULL;
    TRY(motet_loaded_expat(&reading.expat));
    if (len > FILE_MOST)
        return motet_fail_quiet(motetInvalidArgument, "%s: more than %zu MB", name, FILE_MOST >> 20);
    reading.topo = motet_topo_new(name);
    if (!reading.topo)
        return motetSystemError;
    reading.topo->from_file = true;
    reading.parser = reading.expat->XML_ParserCreate(NULL);
    motetResult_t result =
        reading.parser ? parse(&reading, text, len) : motet_fail_quiet(motetSystemError, "%s: out of memory", name);
    if (reading.parser)
        reading.expat->XML_ParserFree(reading.parser);
    if (result != motetSuccess) {
        motet_topo_free(reading.topo);
        return result;
    }
    *topo = reading.topo;
    return motetSuccess;
}

/* ---- Files ---- */

static motetResult_t complain_of_file(const char *name, int error)
{
    if (error == EISDIR || error == EINVAL)
        return motet_fail_quiet(motetInvalidArgument, "%s: not a file but a %s", name,
                                error == EISDIR ? "folder" : "device or pipe");
    if (error == EFBIG)
        return motet_fail_quiet(motetInvalidArgument, "%s: more than %zu MB", name, FILE_MOST >> 20);
    if (error == ENOMEM)
        return motet_fail_quiet(motetSystemError, "%s: out of memory", name);
    return motet_fail_quiet(motetInvalidArgument, "%s: %s", name, strerror(error));
}

motetResult_t motet_topo_read(const char *file, struct motetTopo **topo)
{
    char name[4200], *text;
    size_t len;
    const char *path = file ? file : motet_setting_string(MOTET_SET_TOPO_FILE);
    *topo = NULL;
    snprintf(name, sizeof name, "%s%.4096s", file ? "" : "MOTET_TOPO_FILE: ", path);
    if (!path[0])
        return motet_fail_quiet(motetInvalidArgument, "MOTET_TOPO_FILE is not set");
    int error = motet_descriptor_read_file(path, FILE_MOST, &text, &len);
    if (error)
        return complain_of_file(name, error);
    motetResult_t result = motet_topo_parse(name, text, len, topo);
    free(text);
    return result;
}

motetResult_t motet_topo_obtain(struct motetTopo **topo)
{
    return motet_setting_is_set(MOTET_SET_TOPO_FILE) ? motet_topo_read(NULL, topo) : motet_topo_detect("", false, topo);
}
