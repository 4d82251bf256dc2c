/* SPDX-License-Identifier: Apache-2.0
 * libhwloc and libexpat, loaded when they are first needed: libmotet itself needs neither, so that programs which never look at a topology
 * neither install nor map them. Versions 2 of hwloc (libhwloc.so.15) and 2 of expat (libexpat.so.1) have had these names for years. */
#ifndef MOTET_TOPO_LOADED_H
#define MOTET_TOPO_LOADED_H

#include <expat.h>
#include <hwloc.h>

#include "motet.h"

/* name; the functions that are used. Types are those of the headers. */
#define MOTET_HWLOC_FUNCTIONS(X)          \
    X(hwloc_topology_init)                \
    X(hwloc_topology_set_components)      \
    X(hwloc_topology_set_flags)           \
    X(hwloc_topology_set_io_types_filter) \
    X(hwloc_topology_load)                \
    X(hwloc_topology_destroy)             \
    X(hwloc_topology_get_allowed_cpuset)  \
    X(hwloc_topology_is_thissystem)       \
    X(hwloc_get_type_depth)               \
    X(hwloc_get_nbobjs_by_depth)          \
    X(hwloc_get_obj_by_depth)             \
    X(hwloc_bitmap_next)

#define MOTET_EXPAT_FUNCTIONS(X)      \
    X(XML_ParserCreate)               \
    X(XML_ParserFree)                 \
    X(XML_SetUserData)                \
    X(XML_SetElementHandler)          \
    X(XML_SetStartDoctypeDeclHandler) \
    X(XML_Parse)                      \
    X(XML_StopParser)                 \
    X(XML_GetErrorCode)               \
    X(XML_ErrorString)                \
    X(XML_GetCurrentLineNumber)

#define MOTET_LOADED_MEMBER(name) __typeof__(name) *name;
struct motet_hwloc {
    MOTET_HWLOC_FUNCTIONS(MOTET_LOADED_MEMBER)
};
/* Later versions of expat deprecate one of these for a new name that earlier ones do not have; the old one stays. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct motet_expat {
    MOTET_EXPAT_FUNCTIONS(MOTET_LOADED_MEMBER)
};
#pragma GCC diagnostic pop
#undef MOTET_LOADED_MEMBER

/* motetSystemError names the library and its Debian package. They stay loaded. Any thread. */
motetResult_t motet_loaded_hwloc(const struct motet_hwloc **hwloc);
motetResult_t motet_loaded_expat(const struct motet_expat **expat);

#endif
