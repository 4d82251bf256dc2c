/* SPDX-License-Identifier: Apache-2.0
 * The queue of events leaves in order, and every network leads from everywhere to everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulation_network.h"
#include "simulation_queue.h"

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ z >> 31;
}

/* Some leave, some come, many at equal times; numbers tell the order in which equal ones came. */
static void test_queue_of_many_events_is_ordered_and_stable(void **state)
{
    (void)state;
    for (int spread = 1; spread <= 40; spread += 13) {
        struct motet_simulation_queue queue = {0};
        struct motet_simulation_event event, before = {0};
        uint64_t random = (uint64_t)spread;
        uint32_t added = 0, taken = 0;
        while (taken < 20000) {
            bool add = added < 20000 && (queue.n == 0 || next_random(&random) % 3 > 0);
            if (add) {
                uint64_t later = next_random(&random) >> (64 - spread);
                motet_simulation_queue_add(&queue,
                                           (struct motet_simulation_event){.time = queue.now + later, .what = added++, .kind = 1});
                continue;
            }
            assert_true(motet_simulation_queue_take(&queue, &event));
            assert_true(event.time >= before.time);
            if (taken > 0 && event.time == before.time)
                assert_true(event.what > before.what);
            before = event;
            taken++;
        }
        assert_int_equal(queue.n, 0);
        assert_false(motet_simulation_queue_take(&queue, &event));
        motet_simulation_queue_free(&queue);
    }
}

static void walk(struct motet_network *network, int32_t src, int32_t dst, const char *text, int most)
{
    char name[MOTET_NETWORK_NAME];
    int32_t at = src;
    for (int hops = 0; at != dst; hops++) {
        int32_t behind = -1, link = motet_network_next(network, at, src, dst, &behind);
        if (link < 0 || link >= network->nlinks || behind < 0 || behind >= network->nnodes || hops == most)
            fail_msg("%s: from %d to %d, at %d: link %d of %d, node %d of %d, after %d links", text, src, dst, at, link,
                     network->nlinks, behind, network->nnodes, hops);
        motet_network_name(network, link, name);
        assert_true(name[0] && strlen(name) < sizeof(name) - 1);
        assert_true(motet_network_bytes_per_ns(network, link) > 0);
        at = behind;
    }
}

static void test_network_of_each_kind_leads_everywhere(void **state)
{
    static const struct {
        const char *text;
        int nhosts, most; /* links of a way */
    } networks[] = {
        {"flat", 9, 2},
        {"hosts", 9, 2},
        {"hosts:nics=3", 9, 2},
        {"fat-tree:radix=4", 9, 6},
        {"fat-tree:radix=8,over=3", 30, 6},
        {"fat-tree:radix=16,levels=2", 60, 4},
        {"fat-tree:radix=6,over=2,levels=3", 40, 6},
        {"torus", 12, 6},
        {"torus:dims=7", 7, 3},
        {"torus:dims=5x3", 15, 3},
        {"torus:dims=4x3x2", 24, 4},
        {"torus:dims=2x2x2x2", 16, 4},
        {"dragonfly:routers=4,hosts=2,global=2", 60, 5},
        {"dragonfly:routers=2,hosts=1,global=1", 6, 5},
        {"dragonfly:nics=2", 20, 5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) {
        int host_first[65];
        for (int h = 0; h <= networks[i].nhosts; h++)
            host_first[h] = h;
        struct motet_network_request request = {.nranks = networks[i].nhosts,
                                                .nhosts = networks[i].nhosts,
                                                .host_first = host_first,
                                                .latency_ns = 1000,
                                                .bytes_per_ns = 1};
        struct motet_network network;
        if (motet_network_make(networks[i].text, &request, &network) != motetSuccess)
            fail_msg("%s: %s", networks[i].text, motetGetLastError(NULL));
        for (int32_t src = 0; src < network.nendpoints; src++) {
            for (int32_t dst = 0; dst < network.nendpoints; dst++) {
                if (src != dst)
                    walk(&network, src, dst, networks[i].text, networks[i].most);
            }
        }
        motet_network_free(&network);
    }
}

/* Two ways of equal length between two halves: pairs are spread over both, and each keeps its own. */
static void test_network_of_links_spreads_pairs_over_equal_ways(void **state)
{
    (void)state;
    motetSimulateLink_t links[24];
    int n = 0, used[2] = {0, 0}, host_first[5] = {0, 1, 2, 3, 4};
    for (int h = 0; h < 4; h++) {
        for (int s = 4; s < 6; s++) {
            links[n++] = (motetSimulateLink_t){.from = h, .to = s, .GBs = 1};
            links[n++] = (motetSimulateLink_t){.from = s, .to = h, .GBs = 1};
        }
    }
    struct motet_network_request request = {
        .nranks = 4, .nhosts = 4, .host_first = host_first, .links = links, .nlinks = n, .nswitches = 2};
    struct motet_network network;
    assert_int_equal(motet_network_make(NULL, &request, &network), motetSuccess);
    for (int src = 0; src < 4; src++) {
        for (int dst = 0; dst < 4; dst++) {
            int32_t behind, again;
            if (src == dst)
                continue;
            assert_true(motet_network_next(&network, src, src, dst, &behind) >= 0);
            assert_true(motet_network_next(&network, src, src, dst, &again) >= 0);
            assert_int_equal(behind, again);
            used[behind - 4]++;
            walk(&network, src, dst, "two switches", 2);
        }
    }
    assert_true(used[0] > 2 && used[1] > 2);
    motet_network_free(&network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_of_many_events_is_ordered_and_stable),
        cmocka_unit_test(test_network_of_each_kind_leads_everywhere),
        cmocka_unit_test(test_network_of_links_spreads_pairs_over_equal_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
