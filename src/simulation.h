/* SPDX-License-Identifier: Apache-2.0
 * Collectives on a simulated cluster: the schedules of coll/ run message by message in a discrete-event simulation of links and cores.
 * Takes costs of steps from the cost model, and where ranks are and what is chosen from explanation.h; knows no algorithm. */
#ifndef MOTET_SIMULATION_H
#define MOTET_SIMULATION_H

#include "motet.h"

motetResult_t motet_simulation_make(const motetSimulateQuery_t *query, struct motetSimulation **simulation);
void motet_simulation_free(struct motetSimulation *simulation);

/* What the public functions of these names return; indexes have been checked. */
void motet_simulation_result(const struct motetSimulation *simulation, motetSimulateResult_t *result);
void motet_simulation_operation(const struct motetSimulation *simulation, int operation, motetSimulateOperationResult_t *result);
void motet_simulation_rank(const struct motetSimulation *simulation, int rank, motetSimulateRank_t *result);
void motet_simulation_link(const struct motetSimulation *simulation, int link, motetSimulateLinkUse_t *use);
void motet_simulation_path(const struct motetSimulation *simulation, motetSimulatePath_t *path);
void motet_simulation_message(const struct motetSimulation *simulation, int message, motetSimulateMessage_t *result);
void motet_simulation_use(const struct motetSimulation *simulation, int row, int bin, double *share, int *link);

#endif
