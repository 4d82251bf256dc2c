/* SPDX-License-Identifier: Apache-2.0
 * Hosts of a job: what --hosts and --hostfile accept, and how ranks are dealt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hosts.h"

/* "name:slots=ranks@first ..." of the hosts after dealing, or the error. */
static const char *dealt(const char *list, int nranks)
{
    static char text[512];
    struct hosts hosts = {0};
    size_t used = 0;
    text[0] = '\0';
    if (hosts_parse_list(&hosts, list, text, sizeof text) && hosts_deal(&hosts, nranks, text, sizeof text) >= 0)
        for (int i = 0; i < hosts.n; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%d@%d", i ? " " : "", hosts.items[i].name,
                                     hosts.items[i].ranks, hosts.items[i].first_rank);
    hosts_free(&hosts);
    return text;
}

static void test_hosts_of_a_list_get_blocks_of_ranks(void **state)
{
    (void)state;
    assert_string_equal(dealt("a,b", 0), "a=1@0 b=1@1");
    assert_string_equal(dealt("a,b", 4), "a=2@0 b=2@2");
    assert_string_equal(dealt("a,b", 5), "a=3@0 b=2@3");
    assert_string_equal(dealt("a,b:2", 0), "a=1@0 b=2@1");
    assert_string_equal(dealt("a:2,b:2", 3), "a=2@0 b=1@2");
    assert_string_equal(dealt("a:2,b,a:2", 0), "a=4@0 b=1@4");
    assert_string_equal(dealt("a,b,c", 2), "a=1@0 b=1@1 c=0@2");
    assert_string_equal(dealt("[fe80::1]:4,10.0.0.2:1", 0), "fe80::1=4@0 10.0.0.2=1@4");
    assert_string_equal(dealt("fe80::1", 2), "fe80::1=2@0");
}

static void test_hosts_that_are_wrong_are_named(void **state)
{
    (void)state;
    assert_non_null(strstr(dealt("a:2,b:2", 5), "5 ranks do not fit into the 4 slots"));
    assert_non_null(strstr(dealt("a:x", 0), "\"x\" is not a number of ranks"));
    assert_non_null(strstr(dealt("a:0", 0), "\"0\" is not a number of ranks"));
    assert_non_null(strstr(dealt("a,,b", 0), "not the name of a host"));
    assert_non_null(strstr(dealt("", 0), "not the name of a host"));
    /* A name that ssh would take for an option. */
    assert_non_null(strstr(dealt("-oProxyCommand=x", 0), "not the name of a host"));
}

static void test_hosts_of_a_file_are_read_with_comments(void **state)
{
    char path[] = "/tmp/motet-hosts-XXXXXX", error[256] = "";
    const char text[] = "# cluster\n\na slots=2\n  b:3 # fast\nc 4\nd\n";
    struct hosts hosts = {0};
    int fd = mkstemp(path);
    (void)state;
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    assert_true(hosts_parse_file(&hosts, path, error, sizeof error));
    assert_int_equal(hosts_deal(&hosts, 0, error, sizeof error), 10);
    assert_int_equal(hosts.n, 4);
    assert_string_equal(hosts.items[2].name, "c");
    assert_int_equal(hosts.items[2].first_rank, 5);
    hosts_free(&hosts);
    unlink(path);
    assert_false(hosts_parse_file(&hosts, path, error, sizeof error));
    assert_non_null(strstr(error, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts_of_a_list_get_blocks_of_ranks),
        cmocka_unit_test(test_hosts_that_are_wrong_are_named),
        cmocka_unit_test(test_hosts_of_a_file_are_read_with_comments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
