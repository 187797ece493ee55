/* Authentication and encryption of connections between ranks, with both ends in this process. */
#include "comm/tcp_seal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const unsigned char key[SL_COMM_KEY] = "the key of this job";
static const unsigned char other_key[SL_COMM_KEY] = "the key of that job";

/* A caller and an answerer. What one says is passed to the other by this test, which may change it. */
struct pair {
    struct tcp_talk talk[2]; /* 0: caller */
    int wire[2];             /* the test's ends */
};

static void open_pair(struct pair *p) {
    for (int i = 0; i < 2; i++) {
        int ends[2];
        struct tcp_card card = {.who = {.rank = 3 + i, .pid = 10 + i}, .ranks = 9};
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        assert_int_equal(sl_comm_tcp_talk_open(&p->talk[i], ends[0], i == 0, &card), SL_OK);
        p->wire[i] = ends[1];
    }
    assert_true(sl_comm_tcp_talk_call(&p->talk[0]));
}

static void close_pair(struct pair *p) {
    for (int i = 0; i < 2; i++) {
        close(p->talk[i].fd);
        close(p->wire[i]);
    }
}

/* What an end has said. */
static size_t hear(struct pair *p, int end, unsigned char *bytes, size_t room) {
    ssize_t got = recv(p->wire[end], bytes, room, MSG_DONTWAIT);
    return got > 0 ? (size_t)got : 0;
}

static void say(struct pair *p, int end, const void *bytes, size_t size) {
    assert_int_equal(write(p->wire[end], bytes, size), size);
}

/* Passes on what `from` has said, with byte `flip` of it changed (-1: none); the other end's result. */
static enum tcp_talk_result pass(struct pair *p, int from, int flip, const unsigned char *k) {
    unsigned char bytes[1024];
    size_t size = hear(p, from, bytes, sizeof bytes);
    assert_true(size > 0);
    if (flip >= 0)
        bytes[(size_t)flip % size] ^= 1;
    say(p, 1 - from, bytes, size);
    return sl_comm_tcp_talk_step(&p->talk[1 - from], k);
}

static void test_both_know_each_other(void **state) {
    struct pair p;
    (void)state;
    open_pair(&p);
    assert_int_equal(pass(&p, 0, -1, key), TCP_TALK_MORE);
    assert_int_equal(pass(&p, 1, -1, key), TCP_TALK_MORE);
    assert_int_equal(pass(&p, 0, -1, key), TCP_TALK_DONE);
    assert_int_equal(pass(&p, 1, -1, key), TCP_TALK_DONE);
    assert_int_equal(p.talk[0].other.who.rank, 4);
    assert_int_equal(p.talk[1].other.who.rank, 3);
    assert_int_equal(p.talk[1].other.who.pid, 10);
    assert_memory_equal(&p.talk[0].nonces, &p.talk[1].nonces, sizeof p.talk[0].nonces);
    close_pair(&p);
}

/* The answerer says nothing that depends on its key to a caller without it. */
static void test_another_key(void **state) {
    struct pair p;
    unsigned char bytes[1024];
    (void)state;
    open_pair(&p);
    assert_int_equal(pass(&p, 0, -1, key), TCP_TALK_MORE);
    assert_int_equal(pass(&p, 1, -1, other_key), TCP_TALK_MORE);
    assert_int_equal(pass(&p, 0, -1, key), TCP_TALK_STRANGER);
    assert_int_equal(hear(&p, 1, bytes, sizeof bytes), 0);
    close_pair(&p);
}

/* One changed byte, anywhere in any of the four messages. */
static void test_changed_bytes(void **state) {
    (void)state;
    for (int message = 0; message < 4; message++)
        for (int flip = 0;
             flip < (int)(message < 2 ? sizeof(struct tcp_hello) : sizeof(struct tcp_proof));
             flip++) {
            struct pair p;
            enum tcp_talk_result last = TCP_TALK_MORE;
            int done = 0;
            open_pair(&p);
            for (int i = 0; i < 4 && last != TCP_TALK_STRANGER; i++) {
                last = pass(&p, i % 2, i == message ? flip : -1, key);
                done += last == TCP_TALK_DONE;
            }
            assert_int_equal(last, TCP_TALK_STRANGER);
            assert_true(done <= (message == 3)); /* the answerer has finished before the last one */
            close_pair(&p);
        }
}

/* A recorded caller, and an answerer that is given its own words. */
static void test_repeated_words(void **state) {
    struct pair p;
    unsigned char hello[64], proof[1024], bytes[1024];
    (void)state;
    open_pair(&p);
    size_t first = hear(&p, 0, hello, sizeof hello);
    say(&p, 1, hello, first);
    assert_int_equal(sl_comm_tcp_talk_step(&p.talk[1], key), TCP_TALK_MORE);
    assert_int_equal(pass(&p, 1, -1, key), TCP_TALK_MORE);
    size_t second = hear(&p, 0, proof, sizeof proof);
    say(&p, 1, proof, second);
    assert_int_equal(sl_comm_tcp_talk_step(&p.talk[1], key), TCP_TALK_DONE);
    close_pair(&p);
    open_pair(&p); /* the same words to a new answerer */
    say(&p, 1, hello, first);
    say(&p, 1, proof, second);
    assert_int_equal(sl_comm_tcp_talk_step(&p.talk[1], key), TCP_TALK_STRANGER);
    close_pair(&p);
    open_pair(&p); /* a caller that hears itself */
    for (int i = 0; i < 2; i++) {
        size_t size = hear(&p, 0, bytes, sizeof bytes);
        assert_true(size > 0);
        say(&p, 0, bytes, size);
        assert_int_equal(sl_comm_tcp_talk_step(&p.talk[0], key),
                         i ? TCP_TALK_STRANGER : TCP_TALK_MORE);
    }
    close_pair(&p);
}

static void test_purposes_differ(void **state) {
    struct tcp_nonces nonces = {{1}, {2}}, swapped = {{2}, {1}};
    unsigned char a[SL_SHA256_BYTES], b[SL_SHA256_BYTES];
    (void)state;
    sl_comm_tcp_prove(key, "join", &nonces, "x", 1, a);
    sl_comm_tcp_prove(key, "join", &nonces, "x", 1, b);
    assert_memory_equal(a, b, sizeof a);
    sl_comm_tcp_prove(key, "table", &nonces, "x", 1, b);
    assert_memory_not_equal(a, b, sizeof a);
    sl_comm_tcp_prove(key, "join", &swapped, "x", 1, b);
    assert_memory_not_equal(a, b, sizeof a);
    sl_comm_tcp_prove(other_key, "join", &nonces, "x", 1, b);
    assert_memory_not_equal(a, b, sizeof a);
    sl_comm_tcp_prove(key, "join", &nonces, "y", 1, b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* ---- encryption ---- */

struct sealed {
    struct tcp_seal *seal[2];
    int fd[2]; /* of the sender, and of the receiver */
};

static void open_sealed(struct sealed *s) {
    struct tcp_nonces nonces = {{1}, {2}};
    sl_err err = sl_comm_tcp_seal_open(key, &nonces, true, &s->seal[0]);
    if (err == SL_ERR_REFUSED) {
        assert_non_null(strstr(sl_err_message(), "libsodium"));
        skip();
    }
    assert_int_equal(sl_comm_tcp_seal_open(key, &nonces, false, &s->seal[1]), SL_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s->fd), 0);
}

static void close_sealed(struct sealed *s) {
    for (int i = 0; i < 2; i++) {
        sl_comm_tcp_seal_close(s->seal[i]);
        close(s->fd[i]);
    }
}

/* More than a record and a socket take at once. */
static void test_sealed_bytes(void **state) {
    enum { SIZE = 1000003 };
    struct sealed s;
    char *text = malloc(SIZE), *got = malloc(SIZE);
    size_t out = 0, in = 0;
    (void)state;
    for (int i = 0; i < SIZE; i++)
        text[i] = (char)(i * 7 + i / 251);
    open_sealed(&s);
    while (in < SIZE) {
        size_t half = (SIZE - out) / 2;
        struct iovec parts[2] = {{text + out, half}, {text + out + half, SIZE - out - half}};
        ssize_t put = out < SIZE ? sl_comm_tcp_seal_send(s.seal[0], s.fd[0], parts) : 0;
        assert_true(put >= 0 || errno == EAGAIN);
        out += put > 0 ? (size_t)put : 0;
        ssize_t took = sl_comm_tcp_seal_receive(s.seal[1], s.fd[1], got + in, 1 + in % 50000);
        assert_true(took > 0 || errno == EAGAIN);
        in += took > 0 ? (size_t)took : 0;
        assert_true(in <= SIZE);
    }
    assert_memory_equal(text, got, SIZE);
    assert_false(sl_comm_tcp_seal_is_full(s.seal[1]));
    close_sealed(&s);
    free(text);
    free(got);
}

/* Records of this text, as they travel. */
static size_t seal_text(struct sealed *s, const char *text, unsigned char *out, size_t room) {
    struct iovec parts[2] = {{(char *)(uintptr_t)text, strlen(text)}, {NULL, 0}};
    assert_int_equal(sl_comm_tcp_seal_send(s->seal[0], s->fd[0], parts), strlen(text));
    ssize_t got = recv(s->fd[1], out, room, 0);
    assert_true(got > 0);
    return (size_t)got;
}

static ssize_t open_bytes(struct sealed *s, const unsigned char *bytes, size_t size, char *text) {
    assert_int_equal(write(s->fd[0], bytes, size), size);
    return sl_comm_tcp_seal_receive(s->seal[1], s->fd[1], text, 100);
}

static void test_forged_records(void **state) {
    unsigned char a[200], b[200];
    char text[100];
    struct sealed s;
    (void)state;
    open_sealed(&s);
    size_t size = seal_text(&s, "weights", a, sizeof a);
    close_sealed(&s);
    assert_int_equal(size, TCP_RECORD_HEAD + 7 + TCP_TAG);
    for (size_t i = 0; i + 1 < size; i++)
        assert_memory_not_equal(a + i, "weights", i + 7 < size ? 7 : size - i);
    for (size_t flip = 0; flip < size; flip++) {
        open_sealed(&s);
        memcpy(b, a, size);
        b[flip] ^= 4;
        ssize_t got = open_bytes(&s, b, size, text);
        assert_true(got < 0); /* a longer length waits for more */
        assert_true(errno == EBADMSG || (errno == EAGAIN && flip < TCP_RECORD_HEAD));
        close_sealed(&s);
    }
    open_sealed(&s); /* once is fine, twice is not */
    assert_int_equal(open_bytes(&s, a, size, text), 7);
    assert_memory_equal(text, "weights", 7);
    assert_true(open_bytes(&s, a, size, text) < 0 && errno == EBADMSG);
    close_sealed(&s);
    open_sealed(&s); /* the first one dropped */
    seal_text(&s, "weights", a, sizeof a);
    size = seal_text(&s, "weights", b, sizeof b);
    assert_memory_not_equal(a, b, size);
    assert_true(open_bytes(&s, b, size, text) < 0 && errno == EBADMSG);
    close_sealed(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_know_each_other), cmocka_unit_test(test_another_key),
        cmocka_unit_test(test_changed_bytes),        cmocka_unit_test(test_repeated_words),
        cmocka_unit_test(test_purposes_differ),      cmocka_unit_test(test_sealed_bytes),
        cmocka_unit_test(test_forged_records)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
