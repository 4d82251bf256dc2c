/* SPDX-License-Identifier: Apache-2.0
 * The public functions about topologies: checks, then down. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/settings.h"
#include "topo/topo.h"

static motetResult_t check(const char *function, motetTopo_t topo, const void *out)
{
    if (topo && out)
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "%s: %s is NULL", function, topo ? "the result" : "topo");
}

static motetResult_t check_node(const char *function, motetTopo_t topo, int index, const void *out)
{
    TRY(check(function, topo, out));
    if (index >= 0 && index < topo->n)
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "%s: node %d is not in [0, %d)", function, index, topo->n);
}

motetResult_t motetTopoDetect(const char *root, int bound, motetTopo_t *topo)
{
    if (!topo)
        return motet_fail(motetInvalidArgument, "TopoDetect: topo is NULL");
    *topo = NULL;
    return motet_topo_detect(root ? root : "", bound != 0, topo);
}

motetResult_t motetTopoRead(const char *file, motetTopo_t *topo)
{
    if (!topo)
        return motet_fail(motetInvalidArgument, "TopoRead: topo is NULL");
    return motet_topo_read(file, topo);
}

motetResult_t motetTopoParse(const char *name, const char *text, size_t len, motetTopo_t *topo)
{
    if (!topo || !name || !text)
        return motet_fail(motetInvalidArgument, "TopoParse: %s is NULL", !topo ? "topo" : !name ? "name" : "text");
    return motet_topo_parse(name, text, len, topo);
}

motetResult_t motetTopoFree(motetTopo_t topo)
{
    motet_topo_free(topo);
    return motetSuccess;
}

motetResult_t motetTopoPrint(motetTopo_t topo, char **xml)
{
    TRY(check("TopoPrint", topo, xml));
    return motet_topo_print(topo, xml);
}

motetResult_t motetTopoCount(motetTopo_t topo, int *count)
{
    TRY(check("TopoCount", topo, count));
    *count = topo->n;
    return motetSuccess;
}

motetResult_t motetTopoNode(motetTopo_t topo, int index, motetTopoNode_t *node)
{
    TRY(check_node("TopoNode", topo, index, node));
    const struct motet_topo_node *found = &topo->nodes[index];
    *node = (motetTopoNode_t){.kind = found->kind,
                              .element = found->element,
                              .parent = found->parent,
                              .depth = found->depth,
                              .nAttributes = found->nattributes};
    return motetSuccess;
}

motetResult_t motetTopoAttribute(motetTopo_t topo, int index, const char *name, const char **value)
{
    TRY(check_node("TopoAttribute", topo, index, value));
    if (!name)
        return motet_fail(motetInvalidArgument, "TopoAttribute: name is NULL");
    *value = motet_topo_get(topo, index, name);
    return motetSuccess;
}

motetResult_t motetTopoAttributeAt(motetTopo_t topo, int index, int number, const char **name, const char **value)
{
    TRY(check_node("TopoAttributeAt", topo, index, name));
    TRY(check("TopoAttributeAt", topo, value));
    if (number < 0 || number >= topo->nodes[index].nattributes)
        return motet_fail(motetInvalidArgument, "TopoAttributeAt: attribute %d is not in [0, %d)", number,
                          topo->nodes[index].nattributes);
    *name = topo->nodes[index].attributes[number].name;
    *value = topo->nodes[index].attributes[number].value;
    return motetSuccess;
}

motetResult_t motetTopoCpus(motetTopo_t topo, int index, char **list)
{
    static const struct motet_cpuset none;
    TRY(check_node("TopoCpus", topo, index, list));
    const struct motet_cpuset *cpus = topo->nodes[index].cpus ? topo->nodes[index].cpus : &none;
    size_t len = (size_t)motet_cpuset_count(cpus) * 6 + 8;
    *list = malloc(len);
    if (!*list)
        return motet_fail(motetSystemError, "TopoCpus: out of memory");
    motet_cpuset_list(cpus, *list, len);
    return motetSuccess;
}

motetResult_t motetTopoAddRank(motetTopo_t topo, int rank, const char *host, int pid, const char *cpus)
{
    TRY(check_node("TopoAddRank", topo, 0, topo));
    return motet_topo_add_rank(topo, rank, host, pid, cpus);
}

motetResult_t motetTopoPath(motetTopo_t topo, int a, int b, motetTopoPath_t *path)
{
    TRY(check_node("TopoPath", topo, a, path));
    TRY(check_node("TopoPath", topo, b, path));
    *path = motet_topo_path(topo, a, b);
    return motetSuccess;
}

motetResult_t motetTopoFindingCount(motetTopo_t topo, int *count)
{
    TRY(check("TopoFindingCount", topo, count));
    TRY(motet_topo_look(topo));
    *count = topo->nfindings;
    return motetSuccess;
}

motetResult_t motetTopoFinding(motetTopo_t topo, int number, int *index, const char **sentence)
{
    TRY(check("TopoFinding", topo, index));
    TRY(check("TopoFinding", topo, sentence));
    TRY(motet_topo_look(topo));
    if (number < 0 || number >= topo->nfindings)
        return motet_fail(motetInvalidArgument, "TopoFinding: finding %d is not in [0, %d)", number, topo->nfindings);
    *index = topo->findings[number].node;
    *sentence = topo->findings[number].sentence;
    return motetSuccess;
}

motetResult_t motetTopoMeasure(motetTopo_t topo, int timeoutMs, int *measured)
{
    TRY(check_node("TopoMeasure", topo, 0, measured));
    if (timeoutMs < 10 || timeoutMs > 60000)
        return motet_fail(motetInvalidArgument, "TopoMeasure: timeoutMs is %d, not 10 to 60000", timeoutMs);
    return motet_topo_measure(topo, timeoutMs, measured);
}
