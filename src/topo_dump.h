/* SPDX-License-Identifier: Apache-2.0
 * The topology of a running job as a file, for MOTET_TOPO_DUMP_FILE. */
#ifndef MOTET_TOPO_DUMP_H
#define MOTET_TOPO_DUMP_H

#include "comm.h"

/* Rank 0 of a communicator has just been made: writes the topology of its host with all ranks, if MOTET_TOPO_DUMP_FILE is set and this is the
 * first such communicator of the process. What goes wrong is one WARN line and harms nothing. One load where the setting is unset. */
void motet_topo_dump(motetComm_t comm);

#endif
