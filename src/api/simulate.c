/* SPDX-License-Identifier: Apache-2.0
 * The public questions about collectives on a simulated cluster. */
#include "base/error.h"
#include "simulation.h"

static motetResult_t check_index(const char *function, motetSimulation_t simulation, int index, int n, const char *what,
                                 const void *out)
{
    if (!simulation || !out)
        return motet_fail(motetInvalidArgument, "%s: %s is NULL", function, simulation ? "the result" : "simulation");
    if (index >= 0 && index < n)
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "%s: %s %d is not in [0, %d)", function, what, index, n);
}

/* Counts of a simulation that may be NULL. */
static motetSimulateResult_t counts_of(motetSimulation_t simulation)
{
    motetSimulateResult_t result = {0};
    if (simulation)
        motet_simulation_result(simulation, &result);
    return result;
}

motetResult_t motetSimulate(const motetSimulateQuery_t *query, motetSimulation_t *simulation)
{
    if (!simulation)
        return motet_fail(motetInvalidArgument, "Simulate: simulation is NULL");
    *simulation = NULL;
    if (!query)
        return motet_fail(motetInvalidArgument, "Simulate: query is NULL");
    if (query->size != sizeof(*query) || query->call.size != sizeof(query->call))
        return motet_fail(motetInvalidArgument,
                          "Simulate: query->size is %zu and query->call.size is %zu, they must be %zu and %zu: use "
                          "MOTET_SIMULATE_QUERY_INITIALIZER",
                          query->size, query->call.size, sizeof(*query), sizeof(query->call));
    return motet_simulation_make(query, simulation);
}

motetResult_t motetSimulateFree(motetSimulation_t simulation)
{
    motet_simulation_free(simulation);
    return motetSuccess;
}

motetResult_t motetSimulateResult(motetSimulation_t simulation, motetSimulateResult_t *result)
{
    TRY(check_index("SimulateResult", simulation, 0, 1, "", result));
    motet_simulation_result(simulation, result);
    return motetSuccess;
}

motetResult_t motetSimulateOperation(motetSimulation_t simulation, int operation, motetSimulateOperationResult_t *result)
{
    TRY(check_index("SimulateOperation", simulation, operation, counts_of(simulation).operations, "operation", result));
    motet_simulation_operation(simulation, operation, result);
    return motetSuccess;
}

motetResult_t motetSimulateRank(motetSimulation_t simulation, int rank, motetSimulateRank_t *result)
{
    TRY(check_index("SimulateRank", simulation, rank, counts_of(simulation).ranks, "rank", result));
    motet_simulation_rank(simulation, rank, result);
    return motetSuccess;
}

motetResult_t motetSimulateLink(motetSimulation_t simulation, int link, motetSimulateLinkUse_t *use)
{
    TRY(check_index("SimulateLink", simulation, link, counts_of(simulation).links, "link", use));
    motet_simulation_link(simulation, link, use);
    return motetSuccess;
}

motetResult_t motetSimulatePath(motetSimulation_t simulation, motetSimulatePath_t *path)
{
    TRY(check_index("SimulatePath", simulation, 0, 1, "", path));
    motet_simulation_path(simulation, path);
    return motetSuccess;
}

motetResult_t motetSimulateMessage(motetSimulation_t simulation, int message, motetSimulateMessage_t *result)
{
    TRY(check_index("SimulateMessage", simulation, message, counts_of(simulation).logged, "message", result));
    motet_simulation_message(simulation, message, result);
    return motetSuccess;
}

motetResult_t motetSimulateUse(motetSimulation_t simulation, int row, int bin, double *share, int *link)
{
    motetSimulateResult_t counts = counts_of(simulation);
    TRY(check_index("SimulateUse", simulation, row, counts.rows, "row", share));
    TRY(check_index("SimulateUse", simulation, bin, counts.bins, "bin", link));
    motet_simulation_use(simulation, row, bin, share, link);
    return motetSuccess;
}
