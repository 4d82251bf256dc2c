/* SPDX-License-Identifier: Apache-2.0
 * A topology as XML: two spaces per level, attributes in their order, so that what was written, read and written again is the same text. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/topo.h"

struct text {
    char *bytes;
    size_t len, capacity;
    bool failed;
};

static void put(struct text *text, const char *bytes, size_t len)
{
    if (text->len + len + 1 > text->capacity) {
        size_t capacity = 2 * (text->len + len) + 4096;
        char *grown = text->failed ? NULL : realloc(text->bytes, capacity);
        if (!grown) {
            text->failed = true;
            return;
        }
        text->bytes = grown;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
    text->bytes[text->len] = '\0';
}

static void put_text(struct text *text, const char *bytes)
{
    put(text, bytes, strlen(bytes));
}

/* Space other than blanks would come back as blanks. */
static void put_value(struct text *text, const char *value)
{
    for (const char *c = value; *c; c++) {
        const char *escaped = *c == '&'    ? "&amp;"
                              : *c == '<'  ? "&lt;"
                              : *c == '"'  ? "&quot;"
                              : *c == '\n' ? "&#10;"
                              : *c == '\t' ? "&#9;"
                              : *c == '\r' ? "&#13;"
                                           : NULL;
        if (escaped)
            put_text(text, escaped);
        else
            put(text, c, 1);
    }
}

static void indent(struct text *text, int depth)
{
    for (int i = 0; i < depth; i++)
        put_text(text, "  ");
}

static void put_start(struct text *text, const struct motet_topo_node *node)
{
    indent(text, node->depth);
    put_text(text, "<");
    put_text(text, node->element);
    for (int i = 0; i < node->nattributes; i++) {
        put_text(text, " ");
        put_text(text, node->attributes[i].name);
        put_text(text, "=\"");
        put_value(text, node->attributes[i].value);
        put_text(text, "\"");
    }
    put_text(text, node->first_child < 0 ? "/>\n" : ">\n");
}

static void put_end(struct text *text, const struct motet_topo_node *node)
{
    indent(text, node->depth);
    put_text(text, "</");
    put_text(text, node->element);
    put_text(text, ">\n");
}

motetResult_t motet_topo_print(const struct motetTopo *topo, char **xml)
{
    struct text text = {0};
    for (int i = topo->n > 0 ? 0 : -1; i >= 0;) {
        const struct motet_topo_node *nodes = topo->nodes;
        put_start(&text, &nodes[i]);
        if (nodes[i].first_child >= 0) {
            i = nodes[i].first_child;
            continue;
        }
        while (i >= 0 && nodes[i].next < 0) {
            i = nodes[i].parent;
            if (i >= 0)
                put_end(&text, &nodes[i]);
        }
        i = i < 0 ? -1 : nodes[i].next;
    }
    if (text.failed || !text.bytes) {
        free(text.bytes);
        return motet_fail_quiet(motetSystemError, "%s: out of memory", topo->name);
    }
    *xml = text.bytes;
    return motetSuccess;
}
