/* The TCP transport against a peer that this test plays byte by byte. */
#include "comm/tcp.h"
#include "comm/tcp_state.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BIG = 1 << 22 }; /* more than a socket takes at once */

struct world {
    struct tcp_comm comm;
    struct tcp_peer peers[2];
    int peer_fd; /* the peer's end */
    char *bytes;
};

static void read_all(int fd, void *into, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t got = read(fd, (char *)into + at, size - at);
        assert_true(got > 0);
        at += (size_t)got;
    }
}

/* Heartbeats arrive in between. */
static struct tcp_head read_head(int fd, int kind) {
    struct tcp_head head;
    for (;;) {
        read_all(fd, &head, sizeof head);
        if (head.kind == kind)
            return head;
        assert_int_equal(head.kind, TCP_BEAT);
        assert_int_equal(head.size_bytes, 0);
    }
}

static void send_head(int fd, struct tcp_head head) {
    assert_int_equal(write(fd, &head, sizeof head), sizeof head);
}

static bool holds(struct world *w, bool (*what)(const struct world *w)) {
    pthread_mutex_lock(&w->comm.lock);
    bool is = what(w);
    pthread_mutex_unlock(&w->comm.lock);
    return is;
}

/* Run the pending work of the thread. */
static void await(struct world *w, bool (*what)(const struct world *w)) {
    while (!holds(w, what))
        sched_yield();
}

static bool is_told(const struct world *w) { return w->peers[1].told; }
static bool is_marked(const struct world *w) { return w->peers[1].stray != NULL; }
static bool is_written(const struct world *w) { return !w->peers[1].out; }
static bool is_acked(const struct world *w) { return !w->peers[1].unacked; }

/* An early message: when it has arrived, all before it have. */
static void mark(struct world *w) {
    send_head(w->peer_fd, (struct tcp_head){.kind = TCP_DATA, .tag = 9});
    await(w, is_marked);
}

static void open_world(struct world *w) {
    int pair[2];
    *w = (struct world){.comm = {.post = {.base = {.row = &sl_comm_transport_tcp, .ranks = 2}},
                                 .peers = w->peers,
                                 .early_bytes = BIG,
                                 .poll_fd = -1,
                                 .wake_fd = -1,
                                 .lost = -1,
                                 .losing = -1}};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    sl_comm_init(&w->comm.post.base);
    pthread_mutex_init(&w->comm.lock, NULL);
    w->peer_fd = pair[1];
    for (int r = 0; r < 2; r++) {
        w->peers[r].fd = r ? pair[0] : -1;
        w->peers[r].out_end = &w->peers[r].out;
    }
    w->bytes = calloc(1, BIG);
    assert_non_null(w->bytes);
    assert_int_equal(sl_comm_tcp_start_thread(&w->comm), SL_OK);
    send_head(w->peer_fd, (struct tcp_head){.kind = TCP_BYE}); /* it may be silent for long now */
    await(w, is_told);
}

static void close_world(struct world *w) {
    sl_comm_tcp_stop_thread(&w->comm);
    close(w->peer_fd);
    sl_comm_tcp_free_peer(&w->peers[1]);
    sl_comm_done(&w->comm.post.base);
    pthread_mutex_destroy(&w->comm.lock);
    free(w->bytes);
}

static void send_big(struct world *w, struct sl_transfer *op) {
    struct tcp_out *out = malloc(sizeof *out);
    assert_non_null(out);
    *out = (struct tcp_out){
        .op = op,
        .head = {.kind = TCP_SYNC, .tag = 7, .size_bytes = BIG, .serial = ++w->peers[1].serial},
        .bytes = w->bytes};
    atomic_store(&op->busy, true);
    pthread_mutex_lock(&w->comm.lock);
    sl_comm_tcp_queue(&w->comm, 1, out);
    pthread_mutex_unlock(&w->comm.lock);
}

/* A large message in transit: its header has arrived. */
static struct tcp_head begin(struct world *w, struct sl_transfer *op) {
    open_world(w);
    send_big(w, op);
    return read_head(w->peer_fd, TCP_SYNC);
}

/* A slow link: the receiver sends the ACK after the header. */
static void an_ack_overtakes_its_message(void **state) {
    struct world w;
    struct sl_transfer op = {0};
    char *got = malloc(BIG);
    (void)state;
    struct tcp_head head = begin(&w, &op);
    assert_int_equal(head.size_bytes, BIG);
    send_head(w.peer_fd, (struct tcp_head){.kind = TCP_ACK, .serial = head.serial});
    mark(&w);
    assert_true(atomic_load(&op.busy)); /* its memory is still being read */
    assert_false(holds(&w, is_written));
    read_all(w.peer_fd, got, BIG);
    await(&w, is_written);
    assert_true(holds(&w, is_acked));
    assert_false(atomic_load(&op.busy));
    close_world(&w);
    free(got);
}

/* And the next message; a message is complete only after its bytes. */
static void an_ack_follows_its_message(void **state) {
    struct world w;
    struct sl_transfer op = {0};
    char *got = malloc(BIG);
    (void)state;
    struct tcp_head head = begin(&w, &op);
    read_all(w.peer_fd, got, BIG);
    await(&w, is_written);
    assert_true(atomic_load(&op.busy));
    send_head(w.peer_fd,
              (struct tcp_head){.kind = TCP_ACK, .serial = head.serial + 1}); /* not it */
    mark(&w);
    assert_true(atomic_load(&op.busy));
    send_head(w.peer_fd, (struct tcp_head){.kind = TCP_ACK, .serial = head.serial});
    await(&w, is_acked);
    assert_false(atomic_load(&op.busy));
    close_world(&w);
    free(got);
}

/* Messages that nobody expects fill no memory, neither one of any size nor any number of empty ones. */
static void early_messages_are_bounded(void **state) {
    (void)state;
    for (int large = 0; large < 2; large++) {
        struct world w;
        struct tcp_head head = {
            .kind = TCP_DATA, .tag = 5, .size_bytes = large ? (int64_t)1 << 38 : 0};
        int64_t sent = 0;
        open_world(&w);
        send_head(w.peer_fd, head);
        while (sent < 64 * (int64_t)BIG && !atomic_load(&w.comm.post.base.gate.failed)) {
            ssize_t put = large ? send(w.peer_fd, w.bytes, 1 << 16, MSG_DONTWAIT)
                                : send(w.peer_fd, &head, sizeof head, MSG_DONTWAIT);
            assert_true(put < 0 || large || put == (ssize_t)sizeof head);
            sent += put > 0 ? put : 0;
        }
        assert_true(atomic_load(&w.comm.post.base.gate.failed));
        assert_int_equal(sl_comm_gate_error(&w.comm.post.base.gate), SL_ERR_PEER);
        assert_non_null(strstr(sl_err_message(), "that no worker here expects"));
        assert_true(w.peers[1].stray_bytes < 2 * BIG);
        close_world(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ack_overtakes_its_message),
        cmocka_unit_test(an_ack_follows_its_message),
        cmocka_unit_test(early_messages_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
