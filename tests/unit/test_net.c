/* SPDX-License-Identifier: Apache-2.0
 * Sockets, addresses and the choice of an interface. The choice is tried on made-up hosts, so that it needs no devices. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/interface.h"
#include "base/os.h"
#include "child.h"

#define SECOND 1000000000ull

static union motet_address address_of(const char *text, uint16_t port)
{
    union motet_address address;
    memset(&address, 0, sizeof(address));
    if (strchr(text, ':')) {
        address.in6.sin6_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, text, &address.in6.sin6_addr), 1);
    } else if (text[0] != '\0') {
        address.in.sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, text, &address.in.sin_addr), 1);
    }
    motet_address_set_port(&address, port);
    return address;
}

/* ---- addresses */

static void test_address_text_has_nccl_form_and_url_form(void **state)
{
    (void)state;
    static const struct {
        const char *host, *log, *url;
        uint16_t port;
    } cases[] = {{"10.0.0.1", "10.0.0.1<4711>", "10.0.0.1:4711", 4711},
                 {"fd00::2", "fd00::2<1>", "[fd00::2]:1", 1},
                 {"::1", "::1<65535>", "[::1]:65535", 65535},
                 {"", "no address", "no address", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[MOTET_ADDRESS_TEXT_MAX];
        union motet_address address = address_of(cases[i].host, cases[i].port);
        assert_string_equal(motet_address_text(&address, text), cases[i].log);
        assert_string_equal(motet_address_host_port(&address, text), cases[i].url);
    }
    char text[MOTET_ADDRESS_TEXT_MAX];
    union motet_address name = {.un = {.sun_family = AF_UNIX, .sun_path = "\0motet-0-abc"}};
    assert_string_equal(motet_address_text(&name, text), "@motet-0-abc");
    assert_int_equal(motet_address_len(&name), offsetof(struct sockaddr_un, sun_path) + 12);
}

static void test_host_port_split_takes_names_and_brackets(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        int port; /* 0: refused */
    } cases[] = {{"node1:29500", "node1", 29500},
                 {"10.0.0.1:1", "10.0.0.1", 1},
                 {"[fd00::2]:65535", "fd00::2", 65535},
                 {"[::1]:80", "::1", 80},
                 {"eth0:7", "eth0", 7},
                 {"", "", 0},
                 {"node1", "", 0},
                 {"node1:", "", 0},
                 {":80", "", 0},
                 {"node1:0", "", 0},
                 {"node1:65536", "", 0},
                 {"node1:8x", "", 0},
                 {"node1:-1", "", 0},
                 {"node1: 80", "", 0},
                 {"fd00::2:80", "", 0},
                 {"[]:80", "", 0},
                 {"[fd00::2]", "", 0},
                 {"[fd00::2]80", "", 0},
                 {"a:99999999999999999999", "", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char host[256];
        uint16_t port = 0;
        motetResult_t result = motet_host_port_split("MOTET_COMM_ID", cases[i].text, host, &port);
        assert_int_equal(result, cases[i].port ? motetSuccess : motetInvalidArgument);
        if (cases[i].port) {
            assert_string_equal(host, cases[i].host);
            assert_int_equal(port, cases[i].port);
        } else {
            assert_non_null(strstr(motet_error_text(), "MOTET_COMM_ID="));
        }
    }
    char longest[400], host[256];
    uint16_t port;
    memset(longest, 'a', 255);
    strcpy(longest + 255, ":5");
    assert_int_equal(motet_host_port_split("x", longest, host, &port), motetSuccess);
    memset(longest, 'a', 256);
    strcpy(longest + 256, ":5");
    assert_int_equal(motet_host_port_split("x", longest, host, &port), motetInvalidArgument);
}

static void test_address_resolve_knows_numbers_interfaces_and_names(void **state)
{
    (void)state;
    union motet_address list[4];
    int count;
    char text[MOTET_ADDRESS_TEXT_MAX];
    assert_int_equal(motet_address_resolve("127.0.0.1", 99, list, 4, &count), motetSuccess);
    assert_int_equal(count, 1);
    assert_string_equal(motet_address_host_port(&list[0], text), "127.0.0.1:99");
    assert_int_equal(motet_address_resolve("lo", 98, list, 4, &count), motetSuccess);
    assert_string_equal(motet_address_host_port(&list[0], text), "127.0.0.1:98");
    assert_int_equal(motet_address_resolve("localhost", 97, list, 1, &count), motetSuccess);
    assert_int_equal(count, 1);
    assert_true(motet_address_is_loopback(&list[0]));
    assert_int_equal(motet_address_resolve("no-such-host.invalid", 97, list, 4, &count), motetSystemError);
    assert_non_null(strstr(motet_error_text(), "no-such-host.invalid"));
    assert_int_equal(count, 0);
}

static void test_port_range_parse_refuses_nonsense(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int first, last; /* -1: refused */
    } cases[] = {{"", 0, 0},
                 {"40000-40010", 40000, 40010},
                 {"1-65535", 1, 65535},
                 {"5000", 5000, 5000},
                 {"7-7", 7, 7},
                 {"0-10", -1, 0},
                 {"10-5", -1, 0},
                 {"1-65536", -1, 0},
                 {"a-b", -1, 0},
                 {"1-", -1, 0},
                 {"-5", -1, 0},
                 {"1-2-3", -1, 0},
                 {"1 -2", -1, 0},
                 {"1-2 ", -1, 0},
                 {"+1-2", -1, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint16_t first, last;
        motetResult_t result = motet_port_range_parse(cases[i].text, &first, &last);
        assert_int_equal(result, cases[i].first < 0 ? motetInvalidArgument : motetSuccess);
        if (cases[i].first >= 0) {
            assert_int_equal(first, cases[i].first);
            assert_int_equal(last, cases[i].last);
        } else {
            assert_non_null(strstr(motet_error_text(), "MOTET_PORT_RANGE="));
        }
    }
}

/* ---- choice of interfaces */

static struct motet_interface interface_of(const char *name, const char *state, const char *address)
{
    struct motet_interface one;
    memset(&one, 0, sizeof(one));
    snprintf(one.name, sizeof(one.name), "%s", name);
    one.up = strcmp(state, "down") != 0;
    one.running = strcmp(state, "up") == 0;
    one.loopback = strcmp(name, "lo") == 0;
    one.address = address_of(address, 0);
    return one;
}

static struct motet_interface host_interfaces[16];
static int nhost_interfaces;

static void add_interface(const char *name, const char *state, const char *address)
{
    host_interfaces[nhost_interfaces++] = interface_of(name, state, address);
}

static void make_host(void)
{
    nhost_interfaces = 0;
    add_interface("lo", "up", "127.0.0.1");
    add_interface("lo", "up", "::1");
    add_interface("docker0", "no carrier", "172.17.0.1");
    add_interface("virbr0", "up", "192.168.122.1");
    add_interface("eth0", "up", "fe80::1");
    add_interface("eth0", "up", "fd00::10");
    add_interface("eth0", "up", "10.0.0.1");
    add_interface("eth0.5", "up", "10.5.0.1");
    add_interface("eth0x", "up", "10.6.0.1");
    add_interface("eno1", "up", "10.1.0.1");
    add_interface("eno2", "down", "10.2.0.1");
    add_interface("eno3", "up", "");
    add_interface("ib0", "no carrier", "10.3.0.1");
}

/* "name/address name/address ..." of the choice; "error" when there is none. */
static const char *choice(const char *ifname, const char *family, const char *toward)
{
    static char text[600];
    struct motet_interface chosen[16];
    int nchosen = 0;
    union motet_address local = address_of(toward, 0);
    if (motet_interfaces_filter(host_interfaces, nhost_interfaces, ifname, family, &local, chosen, &nchosen) != motetSuccess)
        return "error";
    text[0] = '\0';
    for (int i = 0; i < nchosen; i++) {
        char host[MOTET_ADDRESS_TEXT_MAX];
        size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "%s%s/%s", i ? " " : "", chosen[i].name,
                 motet_address_host(&chosen[i].address, host));
    }
    return text;
}

static void test_interfaces_named_by_prefix_exact_exclude_and_list(void **state)
{
    (void)state;
    make_host();
    assert_string_equal(choice("eth0", "", ""), "eth0/10.0.0.1 eth0.5/10.5.0.1 eth0x/10.6.0.1 eth0/fd00::10");
    assert_string_equal(choice("=eth0", "", ""), "eth0/10.0.0.1 eth0/fd00::10");
    assert_string_equal(choice("=eth0", "AF_INET", ""), "eth0/10.0.0.1");
    assert_string_equal(choice("eth", "AF_INET6", ""), "eth0/fd00::10");
    assert_string_equal(choice("eno1,=eth0", "AF_INET", ""), "eno1/10.1.0.1"); /* = is for the whole value, in front */
    assert_string_equal(choice("eno1,eth0.", "AF_INET", ""), "eno1/10.1.0.1 eth0.5/10.5.0.1");
    assert_string_equal(choice("=eno1,eth0x", "AF_INET", ""), "eno1/10.1.0.1 eth0x/10.6.0.1");
    assert_string_equal(choice("eth0,eth", "AF_INET", ""), "eth0/10.0.0.1 eth0.5/10.5.0.1 eth0x/10.6.0.1");
    assert_string_equal(choice("^eth0", "AF_INET", ""), "eno1/10.1.0.1");
    assert_string_equal(choice("^=eth0", "AF_INET", ""), "eth0.5/10.5.0.1 eth0x/10.6.0.1 eno1/10.1.0.1");
    assert_string_equal(choice("^eth,eno", "AF_INET", ""), "docker0/172.17.0.1 virbr0/192.168.122.1 ib0/10.3.0.1");
    assert_string_equal(choice("^eth,eno,docker,virbr,ib", "AF_INET", ""), "lo/127.0.0.1");
    assert_string_equal(choice("^lo,docker", "AF_INET", ""), "eth0/10.0.0.1 eth0.5/10.5.0.1 eth0x/10.6.0.1 eno1/10.1.0.1");
    assert_string_equal(choice("lo", "", ""), "lo/127.0.0.1 lo/::1");
    assert_string_equal(choice("docker0", "", ""), "docker0/172.17.0.1");
    assert_string_equal(choice(",,eno1,", "", ""), "eno1/10.1.0.1");
}

static void test_interfaces_without_setting_prefers_real_ones(void **state)
{
    (void)state;
    make_host();
    assert_string_equal(choice("", "", ""), "eth0/10.0.0.1 eth0.5/10.5.0.1 eth0x/10.6.0.1 eno1/10.1.0.1 eth0/fd00::10");
    assert_string_equal(choice("", "AF_INET6", ""), "eth0/fd00::10");
    nhost_interfaces = 4; /* lo, docker0, virbr0 */
    assert_string_equal(choice("", "", ""), "docker0/172.17.0.1 virbr0/192.168.122.1");
    nhost_interfaces = 2;
    assert_string_equal(choice("", "", ""), "lo/127.0.0.1 lo/::1");
}

static void test_interfaces_route_to_the_root_goes_first(void **state)
{
    (void)state;
    make_host();
    assert_string_equal(choice("", "AF_INET", "10.6.0.1"), "eth0x/10.6.0.1 eth0/10.0.0.1 eth0.5/10.5.0.1 eno1/10.1.0.1");
    assert_string_equal(choice("", "AF_INET", "127.0.0.1"),
                        "lo/127.0.0.1 eth0/10.0.0.1 eth0.5/10.5.0.1 eth0x/10.6.0.1 eno1/10.1.0.1");
    assert_string_equal(choice("", "AF_INET", "172.17.0.1"),
                        "docker0/172.17.0.1 eth0/10.0.0.1 eth0.5/10.5.0.1 eth0x/10.6.0.1 eno1/10.1.0.1");
    assert_string_equal(choice("^eth0x", "AF_INET", "10.6.0.1"), "eth0/10.0.0.1 eth0.5/10.5.0.1 eno1/10.1.0.1");
    assert_string_equal(choice("eno1", "AF_INET", "10.6.0.1"), "eno1/10.1.0.1"); /* the user's word stands */
    assert_string_equal(choice("", "AF_INET", "10.99.0.1"), "eth0/10.0.0.1 eth0.5/10.5.0.1 eth0x/10.6.0.1 eno1/10.1.0.1");
}

static void test_interfaces_value_without_match_lists_what_there_is(void **state)
{
    (void)state;
    static const char *const values[] = {"wlan0", "=eth", "eno2", "eno3", "^lo,docker,virbr,eth,eno,ib", "=", "^"};
    make_host();
    for (size_t i = 0; i + 1 < sizeof(values) / sizeof(values[0]); i++) {
        assert_string_equal(choice(values[i], "", ""), "error");
        assert_non_null(strstr(motet_error_text(), "MOTET_SOCKET_IFNAME="));
        assert_non_null(strstr(motet_error_text(), values[i]));
        assert_non_null(strstr(motet_error_text(), "eth0 10.0.0.1 (up)"));
        assert_non_null(strstr(motet_error_text(), "eno2 10.2.0.1 (down)"));
        assert_non_null(strstr(motet_error_text(), "eno3 no address (up)"));
        assert_non_null(strstr(motet_error_text(), "ib0 10.3.0.1 (up, no carrier)"));
    }
    assert_string_equal(choice("^", "AF_INET", ""),
                        "eth0/10.0.0.1 eth0.5/10.5.0.1 eth0x/10.6.0.1 eno1/10.1.0.1"); /* excludes nothing */
    assert_string_equal(choice("eno1", "AF_INET6", ""), "error");
    assert_non_null(strstr(motet_error_text(), "AF_INET6"));
    assert_string_equal(choice("", "ipv4", ""), "error");
    assert_non_null(strstr(motet_error_text(), "MOTET_SOCKET_FAMILY=ipv4"));
}

static void choose_loopback(void)
{
    struct motet_interface *list = NULL;
    int count = 0;
    CHILD_CHECK(motet_interfaces_choose(NULL, &list, &count) == motetSuccess);
    CHILD_CHECK(count >= 1 && strcmp(list[0].name, "lo") == 0);
    free(list);
}

static void choose_nothing(void)
{
    struct motet_interface *list = NULL;
    int count = 0;
    CHILD_CHECK(motet_interfaces_choose(NULL, &list, &count) == motetInvalidArgument);
    CHILD_CHECK(list == NULL && strstr(motet_error_text(), "nosuch0") && strstr(motet_error_text(), "lo 127.0.0.1 (up)"));
}

static void test_interfaces_choice_follows_the_environment(void **state)
{
    (void)state;
    static struct child child;
    child_run(&child, (const char *const[]){"MOTET_SOCKET_IFNAME==lo", NULL}, choose_loopback);
    assert_int_equal(child.status, 0);
    child_run(&child, (const char *const[]){"MOTET_SOCKET_IFNAME=nosuch0", "MOTET_DEBUG=NONE", NULL}, choose_nothing);
    assert_int_equal(child.status, 0);
}

static void test_interface_toward_loopback_is_loopback(void **state)
{
    (void)state;
    union motet_address local, peer = address_of("127.0.0.1", 0);
    motet_interface_toward(&peer, &local);
    assert_true(motet_address_same_host(&local, &peer));
    peer = (union motet_address){.un = {.sun_family = AF_UNIX}};
    motet_interface_toward(&peer, &local);
    assert_int_equal(local.any.sa_family, AF_UNSPEC);
}

/* ---- listening */

static int listen_on(union motet_address *address)
{
    int fd;
    assert_int_equal(motet_net_listen(address, false, &fd), motetSuccess);
    assert_true(fd >= 0);
    return fd;
}

static void test_listen_taken_port_names_address_and_holder(void **state)
{
    (void)state;
    static const char *const hosts[] = {"127.0.0.1", "::1", "0.0.0.0", "::"};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        union motet_address address = address_of(hosts[i], 0), wanted;
        char text[MOTET_ADDRESS_TEXT_MAX], pid[64];
        int fd = listen_on(&address), second;
        assert_int_not_equal(motet_address_port(&address), 0);
        wanted = address_of(i < 2 ? hosts[i] : "127.0.0.1", motet_address_port(&address));
        uint64_t before = motet_now_ns();
        assert_int_equal(motet_net_listen(&wanted, true, &second), motetSystemError);
        assert_int_equal(second, -1);
        assert_true(motet_now_ns() - before < 10 * SECOND);
        snprintf(pid, sizeof(pid), "in use by process %d (test_net", (int)getpid());
        assert_non_null(strstr(motet_error_text(), motet_address_host_port(&wanted, text)));
        assert_non_null(strstr(motet_error_text(), pid));
        close(fd);
        fd = listen_on(&wanted); /* free again at once */
        close(fd);
    }
}

static void listen_in_range(void)
{
    int fds[4];
    bool used[3] = {false, false, false};
    for (int i = 0; i < 3; i++) {
        union motet_address address = {.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
        CHILD_CHECK(motet_net_listen(&address, false, &fds[i]) == motetSuccess);
        int port = motet_address_port(&address);
        CHILD_CHECK(port >= 23110 && port <= 23112 && !used[port - 23110]);
        used[port - 23110] = true;
    }
    union motet_address address = {.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    CHILD_CHECK(motet_net_listen(&address, false, &fds[3]) == motetSystemError);
    CHILD_CHECK(strstr(motet_error_text(), "MOTET_PORT_RANGE=23110-23112"));
}

static void test_listen_stays_inside_the_port_range(void **state)
{
    (void)state;
    static struct child child;
    child_run(&child, (const char *const[]){"MOTET_PORT_RANGE=23110-23112", "MOTET_DEBUG=NONE", NULL}, listen_in_range);
    assert_int_equal(child.status, 0);
}

static void test_accept_without_connection_is_not_an_error(void **state)
{
    (void)state;
    union motet_address address = address_of("127.0.0.1", 0), peer;
    int listener = listen_on(&address), fd = 0;
    assert_int_equal(motet_net_accept(listener, &fd, &peer), motetSuccess);
    assert_int_equal(fd, -1);
    close(listener);
}

static void test_accept_v4_peer_of_v6_wildcard_is_shown_as_v4(void **state)
{
    (void)state;
    union motet_address any = address_of("::", 0), peer, target;
    int listener = listen_on(&any), client, fd = -1;
    char text[MOTET_ADDRESS_TEXT_MAX];
    target = address_of("127.0.0.1", motet_address_port(&any));
    assert_int_equal(motet_net_connect(&target, motet_deadline_ns(2000), NULL, &client), motetSuccess);
    assert_int_equal(motet_net_accept(listener, &fd, &peer), motetSuccess);
    assert_true(fd >= 0);
    assert_string_equal(motet_address_host(&peer, text), "127.0.0.1");
    close(fd);
    close(client);
    close(listener);
}

/* ---- connections */

static void make_pair(int ends[2])
{
    union motet_address address = address_of("127.0.0.1", 0), peer;
    int listener = listen_on(&address);
    assert_int_equal(motet_net_connect(&address, motet_deadline_ns(2000), NULL, &ends[0]), motetSuccess);
    assert_int_equal(motet_net_accept(listener, &ends[1], &peer), motetSuccess);
    assert_true(ends[1] >= 0);
    close(listener);
}

static void test_connect_refused_says_so_at_once(void **state)
{
    (void)state;
    union motet_address address = address_of("127.0.0.1", 0);
    int fd = listen_on(&address);
    close(fd);
    uint64_t before = motet_now_ns();
    assert_int_equal(motet_net_connect(&address, motet_deadline_ns(60000), NULL, &fd), motetRemoteError);
    assert_int_equal(fd, -1);
    assert_string_equal(motet_error_text(), strerror(ECONNREFUSED));
    assert_true(motet_now_ns() - before < 30 * SECOND);
}

static void test_read_returns_at_the_deadline_and_on_abort(void **state)
{
    (void)state;
    int ends[2];
    char byte;
    _Atomic(_Bool) abort_now = true;
    make_pair(ends);
    uint64_t before = motet_now_ns();
    assert_int_equal(motet_net_read(ends[0], &byte, 1, before + SECOND / 10, NULL), motetTimeout);
    assert_in_range(motet_now_ns() - before, SECOND / 10, SECOND);
    assert_int_equal(motet_net_read(ends[0], &byte, 1, UINT64_MAX, &abort_now), motetInvalidUsage);
    assert_int_equal(motet_net_sleep(UINT64_MAX, &abort_now), motetInvalidUsage);
    close(ends[1]);
    assert_int_equal(motet_net_read(ends[0], &byte, 1, UINT64_MAX, NULL), motetRemoteError);
    assert_non_null(strstr(motet_error_text(), "closed"));
    close(ends[0]);
}

static void test_write_to_closed_peer_raises_no_signal(void **state)
{
    (void)state;
    int ends[2];
    static char block[1 << 20];
    make_pair(ends);
    close(ends[1]);
    motetResult_t result = motetSuccess;
    for (int i = 0; i < 100 && result == motetSuccess; i++)
        result = motet_net_write(ends[0], block, sizeof(block), motet_deadline_ns(2000), NULL);
    assert_int_equal(result, motetRemoteError); /* and not dead of SIGPIPE */
    close(ends[0]);
}

static _Atomic int nsignals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&nsignals, 1);
}

struct stream {
    int fd;
    size_t len;
    uint8_t seed;
};

static uint8_t stream_byte(uint8_t seed, size_t i)
{
    return (uint8_t)(seed + i * 131 + (i >> 8));
}

static void *write_stream(void *argument)
{
    struct stream *stream = argument;
    uint8_t *bytes = malloc(stream->len);
    for (size_t i = 0; i < stream->len; i++)
        bytes[i] = stream_byte(stream->seed, i);
    for (size_t at = 0, part; at < stream->len; at += part) { /* portions that never match the reader's */
        part = stream->len - at < 7777 ? stream->len - at : 7777;
        if (motet_net_write(stream->fd, bytes + at, part, motet_deadline_ns(20000), NULL) != motetSuccess)
            break;
    }
    free(bytes);
    return NULL;
}

static void test_read_and_write_survive_signals_and_short_transfers(void **state)
{
    (void)state;
    int ends[2];
    struct sigaction action = {.sa_handler = count_signal}, before;
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    pthread_t thread;
    make_pair(ends);
    struct stream stream = {.fd = ends[0], .len = 20 << 20, .seed = 9};
    uint8_t *bytes = calloc(1, stream.len);
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0); /* no SA_RESTART */
    assert_int_equal(setitimer(ITIMER_REAL, &every_ms, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, write_stream, &stream), 0);
    size_t bad = 0;
    for (size_t at = 0, part; at < stream.len; at += part) {
        part = stream.len - at < 65539 ? stream.len - at : 65539;
        assert_int_equal(motet_net_read(ends[1], bytes + at, part, motet_deadline_ns(20000), NULL), motetSuccess);
    }
    pthread_join(thread, NULL);
    while (atomic_load(&nsignals) < 5)
        assert_int_equal(motet_net_sleep(motet_now_ns() + SECOND / 100, NULL), motetSuccess);
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &before, NULL);
    for (size_t i = 0; i < stream.len; i++)
        bad += bytes[i] != stream_byte(stream.seed, i);
    assert_int_equal(bad, 0);
    free(bytes);
    close(ends[0]);
    close(ends[1]);
}

static void test_descriptors_are_closed_on_exec_and_non_blocking(void **state)
{
    (void)state;
    int ends[2], pipes[2];
    make_pair(ends);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(motet_net_adopt(pipes[0]), motetSuccess);
    const int all[] = {ends[0], ends[1], pipes[0]};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fcntl(all[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_equal(fcntl(all[i], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
        close(all[i]);
    }
    close(pipes[1]);
    assert_int_equal(motet_net_adopt(pipes[0]), motetSystemError);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: their children read the environment, which a process does once. */
        cmocka_unit_test(test_interfaces_choice_follows_the_environment),
        cmocka_unit_test(test_listen_stays_inside_the_port_range),
        cmocka_unit_test(test_address_text_has_nccl_form_and_url_form),
        cmocka_unit_test(test_host_port_split_takes_names_and_brackets),
        cmocka_unit_test(test_address_resolve_knows_numbers_interfaces_and_names),
        cmocka_unit_test(test_port_range_parse_refuses_nonsense),
        cmocka_unit_test(test_interfaces_named_by_prefix_exact_exclude_and_list),
        cmocka_unit_test(test_interfaces_without_setting_prefers_real_ones),
        cmocka_unit_test(test_interfaces_route_to_the_root_goes_first),
        cmocka_unit_test(test_interfaces_value_without_match_lists_what_there_is),
        cmocka_unit_test(test_interface_toward_loopback_is_loopback),
        cmocka_unit_test(test_listen_taken_port_names_address_and_holder),
        cmocka_unit_test(test_accept_without_connection_is_not_an_error),
        cmocka_unit_test(test_accept_v4_peer_of_v6_wildcard_is_shown_as_v4),
        cmocka_unit_test(test_connect_refused_says_so_at_once),
        cmocka_unit_test(test_read_returns_at_the_deadline_and_on_abort),
        cmocka_unit_test(test_write_to_closed_peer_raises_no_signal),
        cmocka_unit_test(test_read_and_write_survive_signals_and_short_transfers),
        cmocka_unit_test(test_descriptors_are_closed_on_exec_and_non_blocking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
