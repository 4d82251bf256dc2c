/* SPDX-License-Identifier: Apache-2.0
 * motet topo as JSON: the nodes as they are in the file, the matrix by names, findings. */
#include <jansson.h>

#include "topo.h"

static json_t *node_json(const struct topo_view *view, int index)
{
    motetTopoNode_t node;
    json_t *object = json_object(), *attributes = json_object();
    if (motetTopoNode(view->topo, index, &node) != motetSuccess)
        return object;
    for (int i = 0; i < node.nAttributes; i++) {
        const char *name, *value;
        if (motetTopoAttributeAt(view->topo, index, i, &name, &value) == motetSuccess)
            json_object_set_new(attributes, name, json_string(value));
    }
    json_object_set_new(object, "element", json_string(node.element));
    json_object_set_new(object, "parent", json_integer(node.parent));
    json_object_set_new(object, "attributes", attributes);
    return object;
}

static json_t *row_json(const struct topo_view *view, int row)
{
    json_t *object = json_object(), *paths = json_array();
    for (int i = 0; i < view->n; i++) {
        motetTopoPath_t path = motetTopoInHost;
        motetTopoPath(view->topo, view->rows[row].node, view->rows[i].node, &path);
        json_array_append_new(paths, json_string(motetTopoPathName(path)));
    }
    json_object_set_new(object, "name", json_string(view->rows[row].name));
    json_object_set_new(object, "node", json_integer(view->rows[row].node));
    json_object_set_new(object, "paths", paths);
    return object;
}

static json_t *findings_json(const struct topo_view *view)
{
    json_t *list = json_array();
    int n = 0, node;
    const char *sentence;
    motetTopoFindingCount(view->topo, &n);
    for (int i = 0; i < n; i++)
        if (motetTopoFinding(view->topo, i, &node, &sentence) == motetSuccess)
            json_array_append_new(list, json_pack("{s:i, s:s}", "node", node, "sentence", sentence));
    return list;
}

bool topo_print_json(const struct topo_view *view)
{
    json_t *root = json_object(), *nodes = json_array(), *rows = json_array(), *legend = json_object();
    int n = 0;
    motetTopoCount(view->topo, &n);
    for (int i = 0; i < n; i++)
        json_array_append_new(nodes, node_json(view, i));
    for (int i = 0; i < view->n; i++)
        json_array_append_new(rows, row_json(view, i));
    for (int path = 0; path < MOTET_TOPO_PATHS; path++)
        json_object_set_new(legend, motetTopoPathName((motetTopoPath_t)path),
                            json_string(motetTopoPathMeaning((motetTopoPath_t)path)));
    json_object_set_new(root, "nodes", nodes);
    json_object_set_new(root, "matrix", rows);
    json_object_set_new(root, "findings", findings_json(view));
    json_object_set_new(root, "legend", legend);
    bool printed = json_dumpf(root, stdout, JSON_INDENT(1)) == 0;
    printf("\n");
    json_decref(root);
    return printed;
}
