/* SPDX-License-Identifier: Apache-2.0
 * The smallest motet program: every rank has a number, all learn the average.
 *
 *   motet run -n 4 average */
#include <stdio.h>

#include "motet.h"

int main(void)
{
    motetComm_t comm;
    int rank, nranks;
    if (motetCommInitEnv(&comm, NULL) != motetSuccess) {
        fprintf(stderr, "average: %s\n", motetGetLastError(NULL));
        return 1;
    }
    motetCommUserRank(comm, &rank);
    motetCommCount(comm, &nranks);
    float mine = (float)(rank * rank), average = -1;
    if (motetAllReduce(&mine, &average, 1, motetFloat32, motetAvg, comm, NULL) != motetSuccess) {
        fprintf(stderr, "average: %s\n", motetGetLastError(comm));
        return 1;
    }
    printf("rank %d of %d has %g, the average is %g\n", rank, nranks, mine, average);
    return motetCommDestroy(comm) == motetSuccess ? 0 : 1;
}
