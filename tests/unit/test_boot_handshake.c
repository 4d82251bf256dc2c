/* SPDX-License-Identifier: Apache-2.0
 * The handshake, the unique id and the frames: right ones pass, each wrong one is refused for its own reason. */
#include <pthread.h>
#include <sys/socket.h>

#include "boot/frame.h"
#include "boot/handshake.h"
#include "boot_ranks.h"

struct end {
    int fd;
    struct motet_secret secret;
    const char *role;
    bool is_server;
    int64_t timeout_ms;
    motetResult_t result;
    char text[200];
};

static void *run_end(void *argument)
{
    struct end *end = argument;
    end->result = motet_handshake(end->fd, &end->secret, end->role, end->is_server, motet_deadline_ns(end->timeout_ms));
    snprintf(end->text, sizeof(end->text), "%s", motet_error_text());
    shutdown(end->fd, SHUT_RDWR);
    return NULL;
}

static void shake(struct end *client, struct end *server)
{
    int fds[2];
    pthread_t thread;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    client->fd = fds[0];
    server->fd = fds[1];
    server->is_server = true;
    assert_int_equal(pthread_create(&thread, NULL, run_end, server), 0);
    run_end(client);
    pthread_join(thread, NULL);
    close(fds[0]);
    close(fds[1]);
}

static struct end make_end(uint8_t first, const char *role)
{
    struct end end = {.role = role, .timeout_ms = 5000};
    for (int i = 0; i < 32; i++)
        end.secret.bytes[i] = (uint8_t)(first + i);
    return end;
}

static void test_handshake_same_secret_passes_on_both_sides(void **state)
{
    (void)state;
    static const char *const roles[] = {"boot", "unix", "tcp"};
    for (int i = 0; i < 3; i++) {
        struct end client = make_end(7, roles[i]), server = make_end(7, roles[i]);
        shake(&client, &server);
        assert_int_equal(client.result, motetSuccess);
        assert_int_equal(server.result, motetSuccess);
    }
}

static void test_handshake_other_secret_is_refused_by_both_sides(void **state)
{
    (void)state;
    for (int byte = 0; byte < 32; byte++) {
        struct end client = make_end(7, "tcp"), server = make_end(7, "tcp");
        server.secret.bytes[byte] ^= 0x10;
        shake(&client, &server);
        assert_int_equal(client.result, motetRemoteError);
        assert_int_equal(server.result, motetRemoteError);
        assert_non_null(strstr(client.text, "does not know this job's secret"));
    }
}

static void test_handshake_other_role_is_refused(void **state)
{
    (void)state;
    struct end client = make_end(7, "tcp"), server = make_end(7, "unix");
    shake(&client, &server);
    assert_int_equal(client.result, motetRemoteError);
    assert_int_equal(server.result, motetRemoteError);
}

/* Two clients connected to each other: neither may take the other's messages for a server's. */
static void test_handshake_reflected_messages_are_refused(void **state)
{
    (void)state;
    struct motet_secret secret = make_end(9, "tcp").secret;
    struct motet_handshake_nonces client, mirror;
    uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN], reply[MOTET_HANDSHAKE_REPLY_LEN], proof[32], again[32];
    assert_int_equal(motet_handshake_open(&client, opening), motetSuccess);
    assert_int_equal(motet_handshake_reply(&mirror, &secret, "tcp", opening, reply), motetSuccess);
    assert_int_equal(motet_handshake_prove(&client, &secret, "tcp", reply, proof), motetSuccess);
    assert_int_equal(motet_handshake_check(&mirror, &secret, "tcp", proof), motetSuccess);
    /* The server's own proof sent back is not a client's proof. */
    assert_int_equal(motet_handshake_check(&mirror, &secret, "tcp", reply + MOTET_NONCE_LEN), motetRemoteError);
    /* A recorded proof does not fit new nonces. */
    assert_int_equal(motet_handshake_reply(&mirror, &secret, "tcp", opening, reply), motetSuccess);
    assert_int_equal(motet_handshake_check(&mirror, &secret, "tcp", proof), motetRemoteError);
    assert_int_equal(motet_handshake_prove(&client, &secret, "tcp", reply, again), motetSuccess);
    assert_memory_not_equal(proof, again, 32);
}

/* What a stranger may do instead of a handshake: bytes, then silence or the end. */
static void test_handshake_strangers_are_refused_in_time(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        bool closes;
    } strangers[] = {{"", 0, true},
                     {"m", 1, true},
                     {"GET / HTTP/1.0\r\n\r\n", 18, true},
                     {"motethsX", 8, false},
                     {"motet", 5, false},
                     {"", 0, false},
                     {"motethszzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", 60, false}};
    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        int fds[2];
        struct motet_secret secret = {{1}};
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        assert_int_equal(write(fds[0], strangers[i].bytes, strangers[i].len), strangers[i].len);
        if (strangers[i].closes)
            shutdown(fds[0], SHUT_WR);
        uint64_t before = motet_now_ns();
        assert_int_equal(motet_handshake(fds[1], &secret, "boot", true, motet_deadline_ns(100)), motetRemoteError);
        assert_true(motet_now_ns() - before < 20000000000u);
        close(fds[0]);
        close(fds[1]);
    }
}

/* Every message in single bytes. */
static void test_handshake_short_reads_pass(void **state)
{
    (void)state;
    int fds[2];
    struct end server = make_end(3, "tcp");
    struct motet_handshake_nonces nonces;
    uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN], reply[MOTET_HANDSHAKE_REPLY_LEN], proof[32];
    pthread_t thread;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    server.fd = fds[1];
    server.is_server = true;
    assert_int_equal(pthread_create(&thread, NULL, run_end, &server), 0);
    assert_int_equal(motet_handshake_open(&nonces, opening), motetSuccess);
    for (size_t i = 0; i < sizeof(opening); i++) {
        assert_int_equal(write(fds[0], opening + i, 1), 1);
        usleep(500);
    }
    assert_int_equal(motet_net_read(fds[0], reply, sizeof(reply), motet_deadline_ns(5000), NULL), motetSuccess);
    assert_int_equal(motet_handshake_prove(&nonces, &server.secret, "tcp", reply, proof), motetSuccess);
    for (size_t i = 0; i < sizeof(proof); i++) {
        assert_int_equal(write(fds[0], proof + i, 1), 1);
        usleep(500);
    }
    pthread_join(thread, NULL);
    assert_int_equal(server.result, motetSuccess);
    close(fds[0]);
    close(fds[1]);
}

/* ---- unique id */

static struct motet_root_place make_place(int nv4, int nv6)
{
    struct motet_root_place place = {.listens = true};
    for (int i = 0; i < nv4 + nv6; i++) {
        union motet_address *address = &place.addresses[place.naddresses++];
        address->any.sa_family = i < nv4 ? AF_INET : AF_INET6;
        motet_address_set_port(address, (uint16_t)(40000 + 7 * i));
        if (i < nv4)
            address->in.sin_addr.s_addr = htonl(0x0a000001u + (uint32_t)i);
        else
            for (int k = 0; k < 16; k++)
                address->in6.sin6_addr.s6_addr[k] = (uint8_t)(0xf0 + i + k);
    }
    for (int i = 0; i < 32; i++)
        place.secret.bytes[i] = (uint8_t)(200 - 3 * i);
    return place;
}

static void test_unique_id_decodes_to_what_was_encoded(void **state)
{
    (void)state;
    static const struct {
        int nv4, nv6, kept;
    } cases[] = {{1, 0, 1}, {0, 1, 1}, {2, 2, 4}, {11, 0, 11}, {12, 0, 11}, {0, 4, 4}, {0, 5, 4}, {3, 3, 6}, {6, 4, 8}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct motet_root_place place = make_place(cases[i].nv4, cases[i].nv6), back;
        motetUniqueId id;
        memset(&id, 0x5a, sizeof(id));
        assert_int_equal(motet_unique_id_encode(&place, &id), motetSuccess);
        assert_int_equal(motet_unique_id_decode(&id, &back), motetSuccess);
        assert_int_equal(back.naddresses, cases[i].kept);
        assert_true(back.listens);
        assert_memory_equal(back.secret.bytes, place.secret.bytes, 32);
        for (int k = 0; k < back.naddresses; k++) {
            assert_true(motet_address_same_host(&back.addresses[k], &place.addresses[k]));
            assert_int_equal(motet_address_port(&back.addresses[k]), motet_address_port(&place.addresses[k]));
        }
    }
}

static void test_unique_id_any_changed_bit_is_noticed(void **state)
{
    (void)state;
    struct motet_root_place place = make_place(2, 1), back;
    motetUniqueId id, changed;
    assert_int_equal(motet_unique_id_encode(&place, &id), motetSuccess);
    for (int bit = 0; bit < 8 * MOTET_UNIQUE_ID_BYTES; bit++) {
        changed = id;
        changed.internal[bit / 8] = (char)((uint8_t)changed.internal[bit / 8] ^ 1u << bit % 8);
        assert_int_equal(motet_unique_id_decode(&changed, &back), motetInvalidArgument);
    }
}

static void test_unique_id_empty_or_foreign_is_named_so(void **state)
{
    (void)state;
    struct motet_root_place back;
    motetUniqueId id;
    memset(&id, 0, sizeof(id));
    assert_int_equal(motet_unique_id_decode(&id, &back), motetInvalidArgument);
    assert_non_null(strstr(motet_error_text(), "all zeros"));
    memset(&id, 'x', sizeof(id));
    assert_int_equal(motet_unique_id_decode(&id, &back), motetInvalidArgument);
    assert_non_null(strstr(motet_error_text(), "not made by motetGetUniqueId"));
}

static void test_unique_id_text_of_wrong_length_or_digits_is_an_error(void **state)
{
    (void)state;
    struct motet_root_place place = make_place(1, 1);
    motetUniqueId id, back;
    char text[2 * MOTET_UNIQUE_ID_BYTES + 3];
    assert_int_equal(motet_unique_id_encode(&place, &id), motetSuccess);
    for (int i = 0; i < MOTET_UNIQUE_ID_BYTES; i++)
        snprintf(text + 2 * i, 3, i % 2 ? "%02x" : "%02X", (uint8_t)id.internal[i]);
    assert_int_equal(motet_unique_id_from_text("MOTET_UNIQUE_ID", text, &back), motetSuccess);
    assert_memory_equal(&id, &back, sizeof(id));
    text[17] = 'g';
    assert_int_equal(motet_unique_id_from_text("MOTET_UNIQUE_ID", text, &back), motetInvalidArgument);
    assert_non_null(strstr(motet_error_text(), "MOTET_UNIQUE_ID"));
    text[17] = '0';
    text[255] = '\0';
    assert_int_equal(motet_unique_id_from_text("MOTET_UNIQUE_ID", text, &back), motetInvalidArgument);
    assert_int_equal(motet_unique_id_from_text("MOTET_UNIQUE_ID", "", &back), motetInvalidArgument);
}

/* ---- frames */

static void test_frame_is_complete_only_with_its_last_byte(void **state)
{
    (void)state;
    uint8_t bytes[MOTET_FRAME_HEAD_LEN + 3 + 5] = {0};
    struct motet_frame frame;
    motet_frame_head(bytes, MOTET_FRAME_PUT, 3, 5);
    memcpy(bytes + MOTET_FRAME_HEAD_LEN, "keyvalue", 8);
    for (size_t len = 0; len < sizeof(bytes); len++)
        assert_int_equal(motet_frame_parse(bytes, len, &frame), 0);
    assert_int_equal(motet_frame_parse(bytes, sizeof(bytes), &frame), 1);
    assert_int_equal(frame.type, MOTET_FRAME_PUT);
    assert_memory_equal(frame.key, "key", 3);
    assert_memory_equal(frame.value, "value", 5);
    assert_int_equal(motet_frame_len(&frame), sizeof(bytes));
}

static void test_frame_out_of_bounds_is_refused(void **state)
{
    (void)state;
    static const struct {
        int type;
        size_t key_len, value_len;
        int expected;
    } cases[] = {{0, 1, 0, -1},
                 {MOTET_FRAME_TYPES, 1, 0, -1},
                 {255, 1, 0, -1},
                 {MOTET_FRAME_GET, MOTET_BOOT_KEY_MAX + 1, 0, -1},
                 {MOTET_FRAME_GET, 65535, 0, -1},
                 {MOTET_FRAME_PUT, 1, MOTET_BOOT_VALUE_MAX + 1, -1},
                 {MOTET_FRAME_PUT, 1, 0xffffffffu, -1},
                 {MOTET_FRAME_PUT, MOTET_BOOT_KEY_MAX, MOTET_BOOT_VALUE_MAX, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t head[MOTET_FRAME_HEAD_LEN];
        struct motet_frame frame;
        motet_frame_head(head, (enum motet_frame_type)cases[i].type, cases[i].key_len, cases[i].value_len);
        assert_int_equal(motet_frame_parse(head, sizeof(head), &frame), cases[i].expected);
    }
    uint8_t spaced[MOTET_FRAME_HEAD_LEN + 2];
    struct motet_frame frame;
    motet_frame_head(spaced, MOTET_FRAME_GET, 2, 0);
    memcpy(spaced + MOTET_FRAME_HEAD_LEN, "a\n", 2);
    assert_int_equal(motet_frame_parse(spaced, sizeof(spaced), &frame), -1);
}

static void test_failure_text_is_printable_and_code_is_an_error(void **state)
{
    (void)state;
    uint8_t value[64];
    char text[16];
    size_t len = motet_failure_encode(motetTimeout, "a\033[31mb", value, sizeof(value));
    assert_int_equal(motet_failure_parse(value, len, text, sizeof(text)), motetTimeout);
    assert_string_equal(text, "a?[31mb");
    len = motet_failure_encode((motetResult_t)0, "ok?", value, sizeof(value));
    assert_int_equal(motet_failure_parse(value, len, text, sizeof(text)), motetRemoteError);
    len = motet_failure_encode((motetResult_t)77, "a text that does not fit", value, sizeof(value));
    assert_int_equal(motet_failure_parse(value, len, text, sizeof(text)), motetRemoteError);
    assert_string_equal(text, "a text that doe");
    assert_int_equal(motet_failure_parse(value, 3, text, sizeof(text)), motetRemoteError);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshake_same_secret_passes_on_both_sides),
        cmocka_unit_test(test_handshake_other_secret_is_refused_by_both_sides),
        cmocka_unit_test(test_handshake_other_role_is_refused),
        cmocka_unit_test(test_handshake_reflected_messages_are_refused),
        cmocka_unit_test(test_handshake_strangers_are_refused_in_time),
        cmocka_unit_test(test_handshake_short_reads_pass),
        cmocka_unit_test(test_unique_id_decodes_to_what_was_encoded),
        cmocka_unit_test(test_unique_id_any_changed_bit_is_noticed),
        cmocka_unit_test(test_unique_id_empty_or_foreign_is_named_so),
        cmocka_unit_test(test_unique_id_text_of_wrong_length_or_digits_is_an_error),
        cmocka_unit_test(test_frame_is_complete_only_with_its_last_byte),
        cmocka_unit_test(test_frame_out_of_bounds_is_refused),
        cmocka_unit_test(test_failure_text_is_printable_and_code_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
