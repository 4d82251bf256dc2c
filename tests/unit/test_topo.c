/* SPDX-License-Identifier: Apache-2.0
 * Topologies from XML: what is read is what is written, files of the shapes that clouds provide, paths, what is flagged, and files that are
 * wrong in every way that somebody has met. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "motet.h"
#include "topo/cpuset.h"

static motetTopo_t parse(const char *text)
{
    motetTopo_t topo = NULL;
    if (motetTopoParse("file.xml", text, strlen(text), &topo) != motetSuccess)
        fail_msg("%s", motet_error_text());
    return topo;
}

/* The text is refused, and the sentence has `wanted` in it. */
static void refuse(const char *text, size_t len, const char *wanted)
{
    motetTopo_t topo = (motetTopo_t)1;
    assert_int_equal(motetTopoParse("file.xml", text, len, &topo), motetInvalidArgument);
    assert_null(topo);
    if (!strstr(motet_error_text(), wanted))
        fail_msg("\"%s\" has no \"%s\"", motet_error_text(), wanted);
    assert_int_equal(strncmp(motet_error_text(), "file.xml:", 9), 0);
    assert_true(atoi(motet_error_text() + 9) >= 1);
}

static int find(motetTopo_t topo, const char *element, const char *attribute, const char *value)
{
    int n = 0;
    motetTopoCount(topo, &n);
    for (int i = 0; i < n; i++) {
        motetTopoNode_t node;
        const char *got = NULL;
        motetTopoNode(topo, i, &node);
        motetTopoAttribute(topo, i, attribute, &got);
        if (strcmp(node.element, element) == 0 && got && strcmp(got, value) == 0)
            return i;
    }
    fail_msg("no <%s %s=\"%s\">", element, attribute, value);
    return -1;
}

static const char *path(motetTopo_t topo, int a, int b)
{
    motetTopoPath_t there, back;
    assert_int_equal(motetTopoPath(topo, a, b, &there), motetSuccess);
    assert_int_equal(motetTopoPath(topo, b, a, &back), motetSuccess);
    assert_int_equal(there, back);
    return motetTopoPathName(there);
}

static const char *findings(motetTopo_t topo, int *n)
{
    static char all[8192];
    int node;
    const char *sentence;
    all[0] = '\0';
    assert_int_equal(motetTopoFindingCount(topo, n), motetSuccess);
    for (int i = 0; i < *n; i++) {
        assert_int_equal(motetTopoFinding(topo, i, &node, &sentence), motetSuccess);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s\n", sentence);
    }
    return all;
}

/* Two sockets of two memory nodes; node 0: L3 over two L2, of which one is shared by two cores, one core with two CPUs; a switch with a
 * switch below it. */
static const char big[] =
    "<?xml version=\"1.0\"?>\n<!-- a comment -->\n<system version=\"1\" host=\"here\">\r\n"
    " <cpu numaid=\"0\" affinity=\"000000ff\" package=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"1\">\n"
    "  <cache level=\"3\" size=\"33554432\" affinity=\"0000003f\">\n"
    "   <cache level=\"2\" size=\"1048576\" affinity=\"7\"><core id=\"0\" affinity=\"3\"/><core id=\"1\" affinity=\"4\"/></cache>\n"
    "   <cache level=\"2\" affinity=\"38\"><core id=\"2\" affinity=\"38\"/></cache>\n"
    "  </cache>\n"
    "  <core id=\"3\" affinity=\"40\"/><core id=\"4\" affinity=\"80\"/>\n"
    "  <pci busid=\"0000:01:00.0\" class=\"0x060400\" host_bridge=\"pci0000:00\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
    "   <pci busid=\"0000:02:00.0\" class=\"0x030200\"><gpu dev=\"0\"/></pci>\n"
    "   <pci busid=\"0000:03:00.0\" class=\"0x020000\"><nic><net name=\"eth0\" dev=\"0\" speed=\"100000\"/></nic></pci>\n"
    "   <pci busid=\"0000:04:00.0\" class=\"0x060400\"><pci busid=\"0000:05:00.0\" class=\"0x030200\"/></pci>\n"
    "  </pci>\n"
    "  <pci busid=\"0000:06:00.0\" class=\"0x020000\" host_bridge=\"pci0000:00\"><nic><net name=\"eth1\" dev=\"1\"/></nic></pci>\n"
    "  <pci busid=\"0000:06:00.1\" class=\"0x020000\" host_bridge=\"pci0000:00\"><nic><net name=\"eth2\" dev=\"2\"/></nic></pci>\n"
    "  <pci busid=\"0000:86:00.0\" class=\"0x020000\" host_bridge=\"pci0000:80\"><nic><net name=\"eth3\" dev=\"3\"/></nic></pci>\n"
    "  <nic><net name=\"virtual\" dev=\"9\"/></nic>\n"
    " </cpu>\n"
    " <cpu numaid=\"1\" affinity=\"0000ff00\" package=\"0\"/>\n"
    " <cpu numaid=\"2\" affinity=\"00ff0000\" package=\"1\">\n"
    "  <pci busid=\"0001:01:00.0\" class=\"0x020000\"><nic><net name=\"far\" dev=\"4\"/></nic></pci></cpu>\n"
    "</system>\n";

static void test_topo_written_and_read_again_is_the_same(void **state)
{
    static const char odd[] = "<system version='1' name='&lt;&amp;&quot;&#10;&#9;&#xe4;&apos;'><cpu numaid='0'/>"
                              "<strange a='1'><pci b='2'/></strange><c2c bw='1'/></system>";
    static const char *const texts[] = {big, odd};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char *first = NULL, *second = NULL;
        motetTopo_t topo = parse(texts[i]), again;
        assert_int_equal(motetTopoPrint(topo, &first), motetSuccess);
        again = parse(first);
        assert_int_equal(motetTopoPrint(again, &second), motetSuccess);
        assert_string_equal(first, second);
        int n = 0, m = -1;
        motetTopoCount(topo, &n);
        motetTopoCount(again, &m);
        assert_int_equal(n, m);
        for (int k = 0; k < n; k++) {
            motetTopoNode_t a, b;
            motetTopoNode(topo, k, &a);
            motetTopoNode(again, k, &b);
            assert_string_equal(a.element, b.element);
            assert_int_equal(a.parent, b.parent);
            assert_int_equal(a.nAttributes, b.nAttributes);
            for (int t = 0; t < a.nAttributes; t++) {
                const char *names[2], *values[2];
                motetTopoAttributeAt(topo, k, t, &names[0], &values[0]);
                motetTopoAttributeAt(again, k, t, &names[1], &values[1]);
                assert_string_equal(names[0], names[1]);
                assert_string_equal(values[0], values[1]);
            }
        }
        free(first);
        free(second);
        motetTopoFree(topo);
        motetTopoFree(again);
    }
}

static void test_topo_paths_are_named_by_what_is_shared(void **state)
{
    motetTopo_t topo = parse(big);
    int core[5], gpu, eth[4], inner = find(topo, "pci", "busid", "0000:05:00.0"), far = find(topo, "net", "name", "far"), node[3];
    char number[8], name[8];
    (void)state;
    for (int i = 0; i < 5; i++) {
        snprintf(number, sizeof number, "%d", i);
        core[i] = find(topo, "core", "id", number);
        snprintf(name, sizeof name, "eth%d", i < 4 ? i : 0);
        eth[i % 4] = find(topo, "net", "name", name);
        node[i % 3] = i < 3 ? find(topo, "cpu", "numaid", number) : node[i % 3];
    }
    eth[0] = find(topo, "net", "name", "eth0");
    gpu = find(topo, "gpu", "dev", "0");
    assert_string_equal(path(topo, core[0], core[0]), "X");
    assert_string_equal(path(topo, core[0], core[1]), "L2");
    assert_string_equal(path(topo, core[0], core[2]), "L3");
    assert_string_equal(path(topo, core[0], core[3]), "NODE");
    assert_string_equal(path(topo, core[3], core[4]), "NODE");
    assert_string_equal(path(topo, node[0], node[1]), "SOCK");
    assert_string_equal(path(topo, core[4], node[1]), "SOCK");
    assert_string_equal(path(topo, node[1], node[2]), "SYS");
    assert_string_equal(path(topo, gpu, eth[0]), "PIX");
    assert_string_equal(path(topo, gpu, find(topo, "pci", "busid", "0000:01:00.0")), "PIX");
    assert_string_equal(path(topo, gpu, inner), "PXB");
    assert_string_equal(path(topo, eth[1], eth[2]), "PIX"); /* one card */
    assert_string_equal(path(topo, eth[0], eth[1]), "PHB");
    assert_string_equal(path(topo, eth[1], eth[3]), "NODE");
    assert_string_equal(path(topo, eth[1], far), "SYS");
    assert_string_equal(path(topo, core[1], eth[3]), "PHB");
    assert_string_equal(path(topo, core[1], far), "SYS");
    assert_string_equal(path(topo, core[1], find(topo, "net", "name", "virtual")), "HOST");
    motetTopoFree(topo);
}

static void test_topo_ranks_are_placed_by_all_cpus_they_may_use(void **state)
{
    static const struct {
        int a, b;
        const char *wanted;
    } rows[] = {{0, 1, "CORE"}, {0, 2, "L2"},  {0, 3, "L3"},   {0, 4, "SOCK"}, {4, 5, "SYS"},
                {0, 6, "CPU"},  {6, 7, "NET"}, {7, 8, "PROC"}, {7, 9, "HOST"}, {0, 10, "HOST"}};
    motetTopo_t topo = parse(big);
    int ranks[11], n;
    (void)state;
    assert_int_equal(motetTopoAddRank(topo, 0, NULL, 0, "0"), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 1, NULL, 0, "1"), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 2, "here", 0, "2"), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 3, "here", 0, "3-5"), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 4, "here", 0, "0,15"), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 5, "here", 0, "16-23\n"), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 6, "here", 0, "0"), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 7, "elsewhere", 42, NULL), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 8, "elsewhere", 42, NULL), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 9, "elsewhere", 43, NULL), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 10, "here", 0, NULL), motetSuccess);
    motetTopoCount(topo, &n);
    for (int i = 0; i < 11; i++)
        ranks[i] = n - 11 + i;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(path(topo, ranks[rows[i].a], ranks[rows[i].b]), rows[i].wanted);
    assert_string_equal(path(topo, ranks[0], find(topo, "net", "name", "eth0")), "PHB");
    assert_string_equal(path(topo, ranks[4], find(topo, "net", "name", "eth0")), "SYS");
    assert_string_equal(path(topo, ranks[7], find(topo, "net", "name", "eth0")), "NET");
    assert_int_equal(motetTopoAddRank(topo, 3, NULL, 0, "0"), motetInvalidArgument);
    assert_int_equal(motetTopoAddRank(topo, 11, NULL, 0, "0-"), motetInvalidArgument);
    assert_int_equal(motetTopoAddRank(topo, -1, NULL, 0, "0"), motetInvalidArgument);
    char *xml = NULL, *list = NULL;
    assert_int_equal(motetTopoCpus(topo, ranks[4], &list), motetSuccess);
    assert_string_equal(list, "0,15");
    assert_int_equal(motetTopoPrint(topo, &xml), motetSuccess);
    motetTopo_t again = parse(xml);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(path(again, ranks[rows[i].a], ranks[rows[i].b]), rows[i].wanted);
    free(xml);
    free(list);
    motetTopoFree(again);
    motetTopoFree(topo);
}

static void test_topo_hosts_are_told_apart_by_their_hash(void **state)
{
    motetTopo_t topo =
        parse("<system version=\"1\"><cpu host_hash=\"0x1\" numaid=\"0\" affinity=\"f\"><pci busid=\"0000:01:00.0\"><nic>"
              "<net name=\"a\"/></nic></pci></cpu><cpu host_hash=\"0x2\" numaid=\"0\" affinity=\"f\"><pci "
              "busid=\"0000:01:00.0\"><nic><net name=\"b\"/></nic></pci></cpu></system>");
    (void)state;
    assert_string_equal(path(topo, 1, 5), "NET");
    assert_string_equal(path(topo, find(topo, "net", "name", "a"), find(topo, "net", "name", "b")), "NET");
    assert_int_equal(motetTopoAddRank(topo, 0, "0x1", 0, "0"), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 1, "0x2", 0, "0"), motetSuccess);
    assert_int_equal(motetTopoAddRank(topo, 2, "0x2", 0, "1"), motetSuccess);
    assert_string_equal(path(topo, find(topo, "rank", "id", "0"), find(topo, "rank", "id", "1")), "NET");
    assert_string_equal(path(topo, find(topo, "rank", "id", "1"), find(topo, "rank", "id", "2")), "NODE");
    assert_string_equal(path(topo, find(topo, "rank", "id", "1"), find(topo, "net", "name", "b")), "PHB");
    assert_string_equal(path(topo, find(topo, "rank", "id", "0"), find(topo, "net", "name", "b")), "NET");
    motetTopoFree(topo);
}

/* ---- Shapes of clouds' files ---- */

/* Switches with invented addresses, GPUs and cards as bare devices, masks of several words, speeds with and without a unit behind. */
static void test_topo_files_of_clouds_are_read(void **state)
{
    static const char *const speeds[] = {"8 GT/s", "32.0 GT/s PCIe", "32 GT/s PCIe/s", "Unknown", ""};
    char text[16384], line[1024];
    (void)state;
    for (size_t s = 0; s < sizeof speeds / sizeof speeds[0]; s++) {
        strcpy(text, "<!--\nstatic\n-->\n<system version=\"1\">\n");
        for (int node = 0; node < 2; node++) {
            snprintf(line, sizeof line,
                     "<cpu numaid=\"%d\" affinity=\"%s\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n",
                     node, node ? "ffffff00,0000ffff,ff000000" : "000000ff,ffff0000,00ffffff");
            strcat(text, line);
            for (int k = 0; k < 4; k++) {
                int id = 4 * node + k + 1;
                snprintf(line, sizeof line,
                         "<pci busid=\"ffff:ff:%02x.0\" class=\"0x060400\" link_speed=\"%s\" link_width=\"16\" vendor=\"0x0000\" "
                         "device=\"0x0000\" subsystem_vendor=\"0x0000\" subsystem_device=\"0x0000\">"
                         "<pci busid=\"%04x:00:00.0\" class=\"0x030200\" link_speed=\"%s\" link_width=\"16\"/><!-- GPU -->"
                         "<pci busid=\"01%02x:00:00.0\" class=\"0x020700\" link_speed=\"%s\" link_width=\"16\"/></pci>\n",
                         id, speeds[s], id, speeds[s], id, speeds[s]);
                strcat(text, line);
            }
            strcat(text, "</cpu>\n");
        }
        strcat(text, "</system>\n");
        motetTopo_t topo = parse(text);
        int n;
        assert_string_equal(findings(topo, &n), "");
        assert_string_equal(path(topo, find(topo, "pci", "busid", "0001:00:00.0"), find(topo, "pci", "busid", "0101:00:00.0")),
                            "PIX");
        assert_string_equal(path(topo, find(topo, "pci", "busid", "0001:00:00.0"), find(topo, "pci", "busid", "0002:00:00.0")),
                            "PHB");
        assert_string_equal(path(topo, find(topo, "pci", "busid", "0001:00:00.0"), find(topo, "pci", "busid", "0105:00:00.0")),
                            "SYS");
        char *list = NULL;
        motetTopoCpus(topo, find(topo, "cpu", "numaid", "0"), &list);
        assert_string_equal(list, "0-23,48-71");
        free(list);
        motetTopoFree(topo);
    }
}

/* With gpu and net elements, NVLinks to GPUs and switches, and a cpu that says nothing of itself. */
static void test_topo_files_of_nccl_are_read(void **state)
{
    motetTopo_t topo = parse(
        "<system version=\"1\">"
        "<cpu numaid=\"0\"><pci busid=\"0000:45:00.0\"><pci busid=\"0000:4f:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"90\" rank=\"0\" "
        "gdr=\"1\"><nvlink target=\"0000:05:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
        "<pci busid=\"0000:50:00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" link_width=\"8\"><nic><net name=\"rdmap79s0\" "
        "dev=\"0\" speed=\"100000\" port=\"1\" latency=\"0.0\" guid=\"0xfe86f9c2ff2f0a00\" maxconn=\"1024\" gdr=\"1\" coll=\"0\" "
        "keep=\"1\"/></nic></pci></pci>"
        "<pci busid=\"0000:60:00.0\" class=\"0x030200\"><gpu dev=\"1\" sm=\"80\"><nvlink target=\"0000:70:00.0\" count=\"4\" "
        "tclass=\"0x030200\"/><c2c bw=\"1\"/></gpu></pci>"
        "<pci busid=\"0000:70:00.0\" class=\"0x030200\"><gpu dev=\"2\"><nvlink target=\"0000:05:00.0\" tclass=\"0x068000\"/></gpu></pci>"
        "</cpu></system>");
    int n;
    (void)state;
    int gpu[3] = {find(topo, "gpu", "dev", "0"), find(topo, "gpu", "dev", "1"), find(topo, "gpu", "dev", "2")};
    assert_string_equal(path(topo, gpu[0], gpu[2]), "NVL");
    motetTopoPath_t one;
    assert_int_equal(motetTopoPath(topo, gpu[1], gpu[2], &one), motetSuccess);
    assert_int_equal(one, motetTopoNvlinked);
    assert_string_equal(path(topo, gpu[0], gpu[1]), "PHB");
    assert_string_equal(findings(topo, &n), "");
    motetTopoFree(topo);
}

/* ---- What is flagged ---- */

static void test_topo_cards_that_cannot_reach_their_speed_are_flagged(void **state)
{
    static const char form[] =
        "<system version=\"1\"><cpu numaid=\"0\" affinity=\"f\"><pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"%s\" "
        "link_width=\"%d\"><pci busid=\"0000:02:00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\" "
        "current_link_speed=\"%s\" current_link_width=\"%d\" irq_cpus=\"%s\"><nic><net name=\"mlx5_0\" speed=\"%d\" guid=\"1\"/><net "
        "name=\"ens1\" speed=\"%d\"/></nic></pci></pci></cpu><cpu numaid=\"1\" affinity=\"f0\"/></system>";
    static const struct {
        const char *bridge;
        int bridge_width;
        const char *now;
        int width;
        const char *interrupts;
        int speed, n;
        const char *wanted;
    } rows[] = {
        {"16.0 GT/s PCIe", 16, "16.0 GT/s PCIe", 16, "0-3", 200000, 0, ""},
        {"16.0 GT/s PCIe", 16, "16.0 GT/s PCIe", 16, "0-3", 252060, 0, ""}, /* 31.5077 GB/s fit */
        {"16.0 GT/s PCIe", 16, "16.0 GT/s PCIe", 16, "0-3", 252070, 1, "NIC mlx5_0, ens1 moves 31.51 GB/s each way, but its slot"},
        {"16.0 GT/s PCIe", 16, "8.0 GT/s PCIe", 16, "0-3", 100000, 1,
         "link of 0000:02:00.0 runs at PCIe 3 x16, 15.8 GB/s; both ends"},
        {"16.0 GT/s PCIe", 16, "16.0 GT/s PCIe", 4, "0-3", 100000, 2, "its slot (0000:02:00.0) carries only PCIe 4 x4, 7.88 GB/s"},
        {"8.0 GT/s PCIe", 8, "16.0 GT/s PCIe", 16, "0-3", 100000, 1, "its bridge (0000:01:00.0) carries only PCIe 3 x8, 7.88 GB/s"},
        {"2.5 GT/s PCIe", 1, "16.0 GT/s PCIe", 16, "0-3", 1000, 0, ""},
        {"2.5 GT/s PCIe", 1, "16.0 GT/s PCIe", 16, "0-3", 2500, 1, "carries only PCIe 1 x1, 0.25 GB/s"},
        {"16.0 GT/s PCIe", 16, "16.0 GT/s PCIe", 16, "2,5-6", 1000, 1,
         "interrupts of NIC mlx5_0, ens1 are served by CPUs 5-6, but"},
        {"Unknown", 0, "Unknown", 255, "", 1000, 0, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[2048];
        int n;
        snprintf(text, sizeof text, form, rows[i].bridge, rows[i].bridge_width, rows[i].now, rows[i].width, rows[i].interrupts,
                 rows[i].speed, rows[i].speed);
        motetTopo_t topo = parse(text);
        const char *all = findings(topo, &n);
        if (n != rows[i].n || !strstr(all, rows[i].wanted))
            fail_msg("row %zu: %d findings: %s", i, n, all);
        motetTopoFree(topo);
    }
    assert_true(motetTopoPciGBs(64, 16) > 120 && motetTopoPciGBs(64, 16) < 128);
    assert_true(motetTopoPciGBs(0, 16) == 0 && motetTopoPciGBs(16, 0) == 0);
}

static void test_topo_interrupts_of_cpus_that_are_left_out_are_not_flagged(void **state)
{
    static const struct {
        const char *attributes;
        int n;
    } rows[] = {{"irq_cpus=\"2-3\"", 0}, /* of this node, but not shown */
                {"irq_cpus=\"2-4\"", 1},
                {"irq_cpus=\"2-3\" local_cpus=\"0-3\"", 0},
                {"irq_cpus=\"9\" local_cpus=\"0-3\"", 1},
                {"irq_cpus=\"9\"", 0}}; /* nothing is known of CPU 9 */
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        int n;
        snprintf(text, sizeof text,
                 "<system version=\"1\" left_out=\"2-3\"><cpu numaid=\"0\" affinity=\"3\"><pci busid=\"0000:01:00.0\" %s><nic><net "
                 "name=\"eth0\"/></nic></pci></cpu><cpu numaid=\"1\" affinity=\"f0\"/></system>",
                 rows[i].attributes);
        motetTopo_t topo = parse(text);
        const char *all = findings(topo, &n);
        if (n != rows[i].n)
            fail_msg("row %zu: %d findings: %s", i, n, all);
        motetTopoFree(topo);
    }
}

static void test_topo_unknown_words_are_reported_and_kept(void **state)
{
    int n;
    motetTopo_t topo = parse("<system version=\"1\">\n<cpu numaid=\"0\" colour=\"red\"/>\n<cpuu/>\n</system>");
    (void)state;
    const char *all = findings(topo, &n);
    assert_int_equal(n, 2);
    assert_non_null(strstr(all, "file.xml:2: <cpu> has an attribute colour"));
    assert_non_null(strstr(all, "file.xml:3: <cpuu> is not known"));
    motetTopoFree(topo);
}

/* ---- Files that are wrong ---- */

static void test_topo_wrong_files_name_line_and_element(void **state)
{
    static const struct {
        const char *text, *wanted;
    } rows[] = {
        {"", "not XML: no element found"},
        {"\n\n<system", "file.xml:3: not XML"},
        {"<system version=\"1\">\n<cpu numaid=\"0\">\n</cpuu></system>", "file.xml:3: not XML: mismatched tag, in <cpu> of line 2"},
        {"<system version=\"1\">\n<cpu numaid=\"0\">\n", "in <cpu> of line 2"},
        {"<system version=\"1\"/><system version=\"1\"/>", "file.xml:1: not XML: junk after document element"},
        {"<system version=\"2\"/>", "file.xml:1: <system> attribute version is not 1"},
        {"<system version=\"one\"/>", "<system> attribute version is \"one\", not a whole number"},
        {"<cpu numaid=\"0\"/>", "file.xml:1: <cpu> cannot be the outermost element"},
        {"<topology version=\"2.0\"/>", "is a file of hwloc"},
        {"<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology/>", "this is a file of hwloc"},
        {"<!DOCTYPE a [<!ENTITY b \"cc\"><!ENTITY d \"&b;&b;\">]><system name=\"&d;\"/>",
         "file.xml:1: <!DOCTYPE a>: a topology has no"},
        {"<system version=\"1\">\n<cpu affinity=\"f\"/></system>", "file.xml:2: <cpu> attribute numaid is missing"},
        {"<system version=\"1\"><cpu numaid=\"0\" numaid=\"0\"/></system>", "not XML: duplicate attribute"},
        {"<system version=\"1\"><cpu numaid=\"0\" affinity=\"xyz\"/></system>", "<cpu> attribute affinity is \"xyz\", not a mask"},
        {"<system version=\"1\"><cpu numaid=\"0\"/>\n<cpu numaid=\"0\"/></system>", "file.xml:2: <cpu> is there twice (numaid 0"},
        {"<system version=\"1\"><cpu numaid=\"0\"><pci/></cpu></system>", "<pci> attribute busid is missing"},
        {"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"1\"/></cpu></system>", "not a PCI address"},
        {"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:AA:00.0\"/>\n<pci busid=\"0000:aa:00.0\"/></cpu></system>",
         "file.xml:2: <pci> is there twice (busid 0000:aa:00.0"},
        {"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" link_speed=\"fast\"/></cpu></system>",
         "not a speed such"},
        {"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"bridge\"/></cpu></system>",
         "not a hexadecimal"},
        {"<system version=\"1\"><net name=\"a\"/></system>", "<net> may not stand in <system>"},
        {"<system version=\"1\"><cpu numaid=\"0\"><gpu dev=\"0\"/></cpu></system>", "<gpu> may not stand in <cpu>"},
        {"<system version=\"1\"><cpu numaid=\"0\"><nic><net speed=\"nan\"/></nic></cpu></system>",
         "<net> attribute speed is \"nan\""},
        {"<system version=\"1\"><rank id=\"1\"/><rank id=\"1\"/></system>", "<rank> is there twice (id 1)"},
        {"<system version=\"1\" name=\"\xff\xfe\"/>", "not XML: not well-formed (invalid token)"},
        {"<system version=\"1\"><cpu numaid=\"0\"><core id=\"0\"/></cpu></system>", "<core> attribute affinity is missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuse(rows[i].text, strlen(rows[i].text), rows[i].wanted);
    refuse("<system\0version=\"1\"/>", 21, "not XML");
    motetTopo_t topo;
    static const char marked[] = "\xef\xbb\xbf<system version=\"1\">\r\n<cpu numaid=\"0\"/>\r\n</system>\r\n";
    assert_int_equal(motetTopoParse("file.xml", marked, strlen(marked), &topo), motetSuccess);
    motetTopoFree(topo);
}

static void test_topo_every_truncation_and_flipped_bit_is_survived(void **state)
{
    size_t len = strlen(big), read = 0;
    char *copy = malloc(len);
    (void)state;
    for (size_t cut = 0; cut < len - 1; cut += cut % 50 == 0 ? 1 : 49)
        refuse(big, cut < len - strlen("\n") - strlen("</system>") ? cut : 7, "not XML");
    for (size_t bit = 0; bit < 8 * len; bit += 5) {
        motetTopo_t topo = NULL;
        memcpy(copy, big, len);
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
        if (motetTopoParse("file.xml", copy, len, &topo) != motetSuccess)
            continue;
        int n = 0, found;
        read++;
        motetTopoCount(topo, &n);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++) {
                motetTopoPath_t any;
                assert_int_equal(motetTopoPath(topo, i, k, &any), motetSuccess);
            }
        assert_int_equal(motetTopoFindingCount(topo, &found), motetSuccess);
        motetTopoFree(topo);
    }
    assert_true(read > 100); /* in numbers and names */
    free(copy);
}

static void test_topo_huge_files_are_refused_in_bounded_memory(void **state)
{
    size_t len = 17u << 20;
    char *text = malloc(len);
    (void)state;
    memset(text, ' ', len);
    motetTopo_t topo;
    assert_int_equal(motetTopoParse("file.xml", text, len, &topo), motetInvalidArgument);
    assert_non_null(strstr(motet_error_text(), "more than 16 MB"));
    char *at = text;
    at += sprintf(at, "<system version=\"1\">");
    for (int i = 0; i < 10000; i++)
        at += sprintf(at, "<a>");
    refuse(text, (size_t)(at - text), "<a> is nested too deeply");
    at = text + sprintf(text, "<system version=\"1\">");
    for (int i = 0; i < 210000; i++)
        at += sprintf(at, "<cpuu n=\"%d\"/>\n", i);
    at += sprintf(at, "</system>");
    assert_int_equal(motetTopoParse("file.xml", text, (size_t)(at - text), &topo), motetInvalidArgument);
    assert_non_null(strstr(motet_error_text(), "more than 200000 elements"));
    at = text + sprintf(text, "<system version=\"1\" name=\"");
    memset(at, 'x', 5000);
    at += 5000;
    at += sprintf(at, "\"/>");
    refuse(text, (size_t)(at - text), "<system> attribute name is too long");
    at = text + sprintf(text, "<system ");
    for (int i = 0; i < 70; i++)
        at += sprintf(at, "a%d=\"\" ", i);
    at += sprintf(at, "/>");
    refuse(text, (size_t)(at - text), "attribute a64 is one too many");
    free(text);
}

static void test_topo_what_is_no_file_is_refused_at_once(void **state)
{
    char folder[] = "/tmp/motet-topo-XXXXXX", name[64];
    motetTopo_t topo;
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(motetTopoRead(folder, &topo), motetInvalidArgument);
    assert_non_null(strstr(motet_error_text(), "not a file but a folder"));
    snprintf(name, sizeof name, "%s/pipe", folder);
    assert_int_equal(mkfifo(name, 0600), 0);
    assert_int_equal(motetTopoRead(name, &topo), motetInvalidArgument);
    assert_non_null(strstr(motet_error_text(), "device or pipe"));
    unlink(name);
    assert_int_equal(motetTopoRead(name, &topo), motetInvalidArgument);
    assert_non_null(strstr(motet_error_text(), "No such file"));
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, big, strlen(big)), (ssize_t)strlen(big));
    close(fd);
    assert_int_equal(motetTopoRead(name, &topo), motetSuccess);
    motetTopoFree(topo);
    unlink(name);
    rmdir(folder);
    assert_int_equal(motetTopoRead(NULL, &topo), motetInvalidArgument);
    assert_non_null(strstr(motet_error_text(), "MOTET_TOPO_FILE is not set"));
}

/* ---- Sets of CPUs ---- */

static void test_topo_cpus_are_read_as_lists_and_masks(void **state)
{
    static const char *const bad_lists[] = {"a", "1-", "-1", "3-1", "1,", "1,,2", "8192", "1 2", "0-8192", "99999999999"};
    static const char *const bad_masks[] = {"g", ",1", "1,", "1,,2", "123456789,1", "0x,"};
    struct motet_cpuset set, other;
    char text[MOTET_CPUSET_TEXT_MAX], list[256];
    (void)state;
    for (size_t i = 0; i < sizeof bad_lists / sizeof bad_lists[0]; i++)
        if (motet_cpuset_parse_list(bad_lists[i], &set))
            fail_msg("the list \"%s\" was read", bad_lists[i]);
    for (size_t i = 0; i < sizeof bad_masks / sizeof bad_masks[0]; i++)
        if (motet_cpuset_parse_mask(bad_masks[i], &set))
            fail_msg("the mask \"%s\" was read", bad_masks[i]);
    assert_true(motet_cpuset_parse_list("0-2,63-64,8191\n", &set));
    assert_int_equal(motet_cpuset_count(&set), 6);
    assert_string_equal(motet_cpuset_list(&set, list, sizeof list), "0-2,63-64,8191");
    assert_true(motet_cpuset_parse_mask(motet_cpuset_mask(&set, text), &other));
    assert_true(motet_cpuset_equals(&set, &other));
    assert_string_equal(motet_cpuset_list(&set, list, 12), "0-2...");
    assert_true(motet_cpuset_parse_mask("0x1,00000002", &set));
    assert_string_equal(motet_cpuset_list(&set, list, sizeof list), "1,32");
    assert_true(motet_cpuset_parse_mask("100000002", &set));
    assert_string_equal(motet_cpuset_list(&set, list, sizeof list), "1,32");
    assert_true(motet_cpuset_parse_mask("", &set) && motet_cpuset_count(&set) == 0);
    assert_string_equal(motet_cpuset_mask(&set, text), "00000000");
}

/* ---- This machine ---- */

static void test_topo_of_this_machine_has_the_cpus_it_may_use(void **state)
{
    motetTopo_t topo;
    struct motet_cpuset all = {{0}}, one, allowed = motet_cpuset_allowed();
    int n = 0, measured;
    (void)state;
    assert_int_equal(motetTopoDetect(NULL, 1, &topo), motetSuccess);
    motetTopoCount(topo, &n);
    for (int i = 0; i < n; i++) {
        motetTopoNode_t node;
        char *list;
        motetTopoNode(topo, i, &node);
        if (node.kind != motetTopoCore)
            continue;
        assert_int_equal(motetTopoCpus(topo, i, &list), motetSuccess);
        assert_true(motet_cpuset_parse_list(list, &one));
        assert_true(!motet_cpuset_meets(&all, &one)); /* each CPU is of one core */
        motet_cpuset_unite(&all, &one);
        free(list);
    }
    assert_true(motet_cpuset_equals(&all, &allowed));
    assert_int_equal(motetTopoMeasure(topo, 200, &measured), motetSuccess);
    assert_true(measured <= 8);
    struct motet_cpuset after = motet_cpuset_allowed();
    assert_true(motet_cpuset_equals(&after, &allowed)); /* the caller was left where it was */
    assert_int_equal(motetTopoMeasure(topo, 9, &measured), motetInvalidArgument);
    char *xml = NULL;
    assert_int_equal(motetTopoPrint(topo, &xml), motetSuccess);
    motetTopo_t again = parse(xml);
    char *second = NULL;
    assert_int_equal(motetTopoPrint(again, &second), motetSuccess);
    assert_string_equal(xml, second);
    free(xml);
    free(second);
    motetTopoFree(again);
    motetTopoFree(topo);
}

static void test_topo_wrong_arguments_are_refused(void **state)
{
    motetTopo_t topo = parse(big);
    motetTopoNode_t node;
    motetTopoPath_t there;
    const char *value;
    int n;
    (void)state;
    motetTopoCount(topo, &n);
    assert_int_equal(motetTopoDetect(NULL, 0, NULL), motetInvalidArgument);
    assert_int_equal(motetTopoRead("x", NULL), motetInvalidArgument);
    assert_int_equal(motetTopoParse(NULL, "", 0, &topo), motetInvalidArgument);
    assert_int_equal(motetTopoNode(topo, -1, &node), motetInvalidArgument);
    assert_int_equal(motetTopoNode(topo, n, &node), motetInvalidArgument);
    assert_int_equal(motetTopoNode(NULL, 0, &node), motetInvalidArgument);
    assert_int_equal(motetTopoPath(topo, 0, n, &there), motetInvalidArgument);
    assert_int_equal(motetTopoAttribute(topo, 0, NULL, &value), motetInvalidArgument);
    assert_int_equal(motetTopoAttribute(topo, 0, "none", &value), motetSuccess);
    assert_null(value);
    assert_string_equal(motetTopoPathName((motetTopoPath_t)99), "?");
    assert_string_equal(motetTopoPathMeaning((motetTopoPath_t)99), "");
    assert_int_equal(motetTopoFree(NULL), motetSuccess);
    motetTopoFree(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topo_written_and_read_again_is_the_same),
        cmocka_unit_test(test_topo_paths_are_named_by_what_is_shared),
        cmocka_unit_test(test_topo_ranks_are_placed_by_all_cpus_they_may_use),
        cmocka_unit_test(test_topo_hosts_are_told_apart_by_their_hash),
        cmocka_unit_test(test_topo_files_of_clouds_are_read),
        cmocka_unit_test(test_topo_files_of_nccl_are_read),
        cmocka_unit_test(test_topo_cards_that_cannot_reach_their_speed_are_flagged),
        cmocka_unit_test(test_topo_interrupts_of_cpus_that_are_left_out_are_not_flagged),
        cmocka_unit_test(test_topo_unknown_words_are_reported_and_kept),
        cmocka_unit_test(test_topo_wrong_files_name_line_and_element),
        cmocka_unit_test(test_topo_every_truncation_and_flipped_bit_is_survived),
        cmocka_unit_test(test_topo_huge_files_are_refused_in_bounded_memory),
        cmocka_unit_test(test_topo_what_is_no_file_is_refused_at_once),
        cmocka_unit_test(test_topo_cpus_are_read_as_lists_and_masks),
        cmocka_unit_test(test_topo_of_this_machine_has_the_cpus_it_may_use),
        cmocka_unit_test(test_topo_wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
