/* The list of hosts of a launch: names, addresses, blocks of ranks, the agent; a probe of a place. */
#include "launch/parts.h"
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sl_launch l; /* large */

static sl_err read_hosts(int64_t ranks, const char *hosts, const char *agent) {
    memset(&l, 0, sizeof l);
    l.ranks = ranks;
    return sl_launch_read_hosts(&l, hosts, agent);
}

static void refuse(int64_t ranks, const char *hosts, const char *agent, const char *why) {
    assert_int_equal(read_hosts(ranks, hosts, agent), SL_ERR_USAGE);
    if (!strstr(sl_err_message(), why))
        fail_msg("'%s' is not in: %s", why, sl_err_message());
}

static void test_list(void **state) {
    (void)state;
    assert_int_equal(read_hosts(7, "a,b=10.0.0.2,user@c.d-e_f=[::1]", " ssh  -p 22 "), SL_OK);
    assert_int_equal(l.host_count, 3);
    assert_string_equal(l.hosts[0].name, "a");
    assert_string_equal(l.hosts[0].address, "a");
    assert_string_equal(l.hosts[1].name, "b");
    assert_string_equal(l.hosts[1].address, "10.0.0.2");
    assert_string_equal(l.hosts[2].name, "user@c.d-e_f");
    assert_string_equal(l.hosts[2].address, "[::1]");
    assert_int_equal(l.hosts[0].ranks + l.hosts[1].ranks + l.hosts[2].ranks, 7);
    assert_string_equal(l.agent[0], "ssh");
    assert_string_equal(l.agent[1], "-p");
    assert_string_equal(l.agent[2], "22");
    assert_null(l.agent[3]);
}

/* Ranks are in blocks: the host of a rank never decreases. */
static void test_ranks(void **state) {
    (void)state;
    for (int64_t ranks = 3; ranks <= 11; ranks++) {
        int seen[3] = {0}, last = 0;
        assert_int_equal(read_hosts(ranks, "a,b,c", "ssh"), SL_OK);
        for (int r = 0; r < ranks; r++) {
            int h = (int)(sl_launch_host_of(&l, r) - l.hosts);
            assert_in_range(h, last, 2);
            seen[h]++;
            last = h;
        }
        for (int h = 0; h < 3; h++) {
            assert_int_equal(seen[h], l.hosts[h].ranks);
            assert_in_range(seen[h], ranks / 3, (ranks + 2) / 3);
        }
    }
    /* Hosts that are lost have no ranks; the first that is left is the place to meet. */
    assert_int_equal(read_hosts(6, "a,b=10.1.1.1,c", "ssh"), SL_OK);
    l.hosts[0].lost = true;
    for (int r = 0; r < 4; r++)
        assert_string_equal(sl_launch_host_of(&l, r)->name, r < 2 ? "b" : "c");
    assert_int_equal(sl_launch_choose_meet(&l), SL_OK);
    assert_memory_equal(l.meet, "10.1.1.1:2", 10);
    assert_int_equal(strlen(l.meet), 14);
    l.hosts[1].lost = true;
    assert_int_equal(sl_launch_choose_meet(&l), SL_OK);
    assert_memory_equal(l.meet, "c:2", 3);
}

/* An address with colons gets brackets, once. */
static void test_meet(void **state) {
    (void)state;
    assert_int_equal(read_hosts(1, "a=fe80::1", "ssh"), SL_OK);
    assert_int_equal(sl_launch_choose_meet(&l), SL_OK);
    assert_memory_equal(l.meet, "[fe80::1]:2", 11);
    assert_int_equal(read_hosts(1, "a=[fe80::1]", "ssh"), SL_OK);
    assert_int_equal(sl_launch_choose_meet(&l), SL_OK);
    assert_memory_equal(l.meet, "[fe80::1]:2", 11);
}

static void test_refused(void **state) {
    char name[80] = "", many[400] = "", agent[600];
    (void)state;
    static const char *const bad[] = {"",     "a,",        ",a",    "a,,b", "=b",
                                      "a=",   "-oProxy=x", "a b",   "a;b",  "a=b;c",
                                      "$(x)", "a=`x`",     "a=b c", "a/b",  "a='b'"};
    for (int i = 0; i < SL_COUNT(bad); i++)
        refuse(8, bad[i], "ssh", "is not NAME or NAME=ADDRESS");
    memset(name, 'n', 63);
    assert_int_equal(read_hosts(1, name, "ssh"), SL_OK);
    assert_string_equal(l.hosts[0].name, name);
    name[63] = 'n';
    refuse(1, name, "ssh", "is not NAME");
    memmove(name + 2, name, 64);
    memcpy(name, "a=", 2);
    refuse(1, name, "ssh", "is not NAME");
    name[65] = 0;
    assert_int_equal(read_hosts(1, name, "ssh"), SL_OK);
    for (int i = 0; i < SL_LAUNCH_HOSTS_MAX; i++)
        strcat(many, i ? ",h" : "h");
    assert_int_equal(read_hosts(SL_LAUNCH_HOSTS_MAX, many, "ssh"), SL_OK);
    assert_int_equal(l.host_count, SL_LAUNCH_HOSTS_MAX);
    strcat(many, ",h");
    refuse(1000, many, "ssh", "more than 64");
    refuse(2, "a,b,c", "ssh", "3 hosts for 2 ranks");
    refuse(2, "a,b", "", "the command is empty");
    refuse(2, "a,b", "   ", "the command is empty");
    memset(agent, 'x', sizeof agent);
    agent[sizeof l.agent_text - 1] = 0;
    assert_int_equal(read_hosts(2, "a,b", agent), SL_OK);
    agent[sizeof l.agent_text - 1] = 'x';
    agent[sizeof l.agent_text] = 0;
    refuse(2, "a,b", agent, "too long");
}

/* A host that refuses a connection is alive; a name that nobody knows is not. */
static void test_probe(void **state) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t length = sizeof at;
    char place[64];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    (void)state;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    snprintf(place, sizeof place, "127.0.0.1:%d", ntohs(at.sin_port));
    assert_int_equal(sl_launch_probe(place), SL_OK); /* refuses: nobody listens */
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(sl_launch_probe(place), SL_OK);
    close(fd);
    assert_int_not_equal(sl_launch_probe("no such host:1"), SL_OK);
    assert_int_not_equal(sl_launch_probe("127.0.0.1"), SL_OK);
    assert_int_equal(sl_launch_probe("255.255.255.255:9"),
                     SL_ERR_PEER); /* no route: an error at once */
}

/* The agent is a program that answers for some hosts: sh -c 'case $0 in ...' HOST sluice launch ... */
static void test_lost(void **state) {
    static const char *const scripts[] = {"exit 0", "[ $1 != b ]", "[ $1 = c ]", "exit 1"};
    static const int left[] = {6, 4, 2, 0}, first[] = {0, 0, 2, -1};
    (void)state;
    for (int i = 0; i < SL_COUNT(scripts); i++) {
        char agent[600];
        snprintf(agent, sizeof agent, "sh %s", sl_test_text("agent", scripts[i]));
        assert_int_equal(read_hosts(6, "a,b,c", agent), SL_OK);
        static const char *const command[] = {"sluice", "train", "m", "--stages", "6"};
        for (l.argc = 0; l.argc < SL_COUNT(command); l.argc++)
            l.argv[l.argc] = command[l.argc];
        sl_err err = sl_launch_probe_hosts(&l);
        assert_int_equal(err, left[i] ? SL_OK : SL_ERR_PEER);
        if (!left[i])
            continue;
        assert_int_equal(l.ranks, left[i]);
        assert_ptr_equal(sl_launch_host_of(&l, 0), &l.hosts[first[i]]);
        char want[8];
        snprintf(want, sizeof want, "%d", left[i]);
        assert_string_equal(sl_launch_argument(&l, "--stages"), want);
        assert_memory_equal(l.meet, l.hosts[first[i]].address, 1); /* the others had to reach it */
        /* Once more: a host that is lost stays lost. */
        for (int h = 0; h < 3; h++)
            assert_int_equal(l.hosts[h].lost, i == 1 ? h == 1 : i == 2 ? h != 2 : 0);
    }
    sl_test_folder_remove();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),    cmocka_unit_test(test_ranks), cmocka_unit_test(test_meet),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_lost),  cmocka_unit_test(test_probe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
