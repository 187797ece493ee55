/* The TCP transport: ranks on one host or several, without MPI. 'sluice launch' starts them.
 *
 * A sender writes to the socket until it would block; a thread (tcp_thread.c) writes the rest and
 * reads. A message goes directly to the memory of its posted receive; an early one is buffered.
 */
#include "comm/tcp.h"

#include "base/arena.h"
#include "base/clock.h"
#include "comm/tcp_state.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- tagged messages ---- */

static void lock(struct sl_post *post) { pthread_mutex_lock(&tcp_of(post)->lock); }

static void unlock(struct sl_post *post) { pthread_mutex_unlock(&tcp_of(post)->lock); }

/* The error for a failed allocation. Code under the lock must not exit the process; it returns
 * errors to its caller. */
static sl_err no_memory(size_t size_bytes) {
    return sl_fail(SL_ERR_SYSTEM, "no memory for a message (%zu bytes)", size_bytes);
}

static sl_err start_send(struct tcp_comm *comm, const struct tcp_out *what, int to) {
    struct tcp_out *out = malloc(sizeof *out);
    if (!out)
        return no_memory(sizeof *out);
    *out = *what;
    atomic_store_explicit(&out->op->busy, true, memory_order_relaxed);
    sl_comm_tcp_queue(comm, to, out);
    return SL_OK;
}

static sl_err post_send(struct sl_post *post, struct sl_transfer *op, const void *bytes,
                        int64_t size_bytes, int to, int tag) {
    struct tcp_out out = {
        .op = op, .head = {.kind = TCP_DATA, .tag = tag, .size_bytes = size_bytes}, .bytes = bytes};
    return start_send(tcp_of(post), &out, to);
}

static sl_err post_send_sync(struct sl_post *post, struct sl_transfer *op, const void *bytes,
                             int64_t size_bytes, int to, int tag) {
    struct tcp_out out = {.op = op,
                          .head = {.kind = TCP_SYNC,
                                   .tag = tag,
                                   .size_bytes = size_bytes,
                                   .serial = ++tcp_of(post)->peers[to].serial},
                          .bytes = bytes};
    return start_send(tcp_of(post), &out, to);
}

/* Takes a message that came before its receive was posted. */
static sl_err take_stray(struct tcp_comm *comm, int from, struct tcp_stray **at,
                         struct tcp_in *in) {
    struct tcp_stray *stray = *at;
    if (stray->head.size_bytes > in->room) {
        sl_err err = sl_fail(SL_ERR_PEER, "rank %d sent %lld bytes where %lld are expected", from,
                             (long long)stray->head.size_bytes, (long long)in->room);
        free(in);
        return err;
    }
    if (stray->head.kind == TCP_SYNC)
        sl_comm_tcp_control(comm, from,
                            (struct tcp_head){.kind = TCP_ACK, .serial = stray->head.serial}, NULL);
    if (!stray->complete) {
        stray->in = in;
        return SL_OK;
    }
    *at = stray->next;
    if (stray->head.size_bytes)
        memcpy(in->bytes, stray->bytes, (size_t)stray->head.size_bytes);
    sl_comm_tcp_finish(comm, in->op, stray->head.size_bytes);
    sl_comm_tcp_free_stray(&comm->peers[from], stray);
    free(in);
    return SL_OK;
}

static sl_err post_receive(struct sl_post *post, struct sl_transfer *op, void *bytes,
                           int64_t size_bytes, int from, int tag) {
    struct tcp_comm *comm = tcp_of(post);
    struct tcp_in *in = malloc(sizeof *in), **end = &comm->peers[from].in;
    if (!in)
        return no_memory(sizeof *in);
    *in = (struct tcp_in){.op = op, .bytes = bytes, .room = size_bytes, .tag = tag};
    atomic_store_explicit(&op->busy, true, memory_order_relaxed);
    for (struct tcp_stray **at = &comm->peers[from].stray; *at; at = &(*at)->next)
        if ((*at)->head.tag == tag && !(*at)->in)
            return take_stray(comm, from, at, in);
    while (*end)
        end = &(*end)->next;
    *end = in;
    return SL_OK;
}

static bool drop_in(struct tcp_in **list, const struct sl_transfer *op) {
    for (struct tcp_in **at = list; *at; at = &(*at)->next)
        if ((*at)->op == op) {
            struct tcp_in *in = *at;
            *at = in->next;
            free(in);
            return true;
        }
    return false;
}

static bool drop_out(struct tcp_out **list, const struct sl_transfer *op) {
    for (struct tcp_out **at = list; *at; at = &(*at)->next)
        if ((*at)->op == op) {
            struct tcp_out *out = *at;
            *at = out->next;
            free(out);
            return true;
        }
    return false;
}

/* Drops an operation. A message that is being read or written continues, but its operation is not
 * completed. */
static bool drop_from(struct tcp_peer *peer, const struct sl_transfer *op) {
    if (drop_in(&peer->in, op) || drop_out(&peer->unacked, op))
        return true;
    if (peer->reading && peer->reading->op == op) {
        peer->reading->op = NULL;
        return false;
    }
    for (struct tcp_out *out = peer->out; out; out = out->next)
        if (out->op == op) {
            out->op = NULL;
            return false;
        }
    for (struct tcp_stray *stray = peer->stray; stray; stray = stray->next)
        if (stray->in && stray->in->op == op)
            stray->in->op = NULL; /* the message is no longer copied to the receive */
    return true;
}

static bool post_drop(struct sl_post *post, struct sl_transfer *op) {
    bool idle = true;
    if (!atomic_load_explicit(&op->busy, memory_order_acquire))
        return true;
    for (int r = 0; r < post->base.ranks; r++)
        idle &= drop_from(&tcp_of(post)->peers[r], op);
    return idle;
}

static const struct sl_post_row post_row = {
    .lock = lock,
    .unlock = unlock,
    .send = post_send,
    .send_sync = post_send_sync,
    .receive = post_receive,
    .drop = post_drop,
};

/* ---- start and end ---- */

void sl_comm_tcp_free_stray(struct tcp_peer *peer, struct tcp_stray *stray) {
    peer->stray_bytes -= TCP_STRAY_BYTES + stray->room;
    free(stray->bytes);
    free(stray);
}

void sl_comm_tcp_free_peer(struct tcp_peer *peer) {
    if (peer->fd >= 0)
        close(peer->fd);
    while (peer->out) {
        struct tcp_out *out = peer->out;
        peer->out = out->next;
        free(out);
    }
    while (peer->unacked) {
        struct tcp_out *out = peer->unacked;
        peer->unacked = out->next;
        free(out);
    }
    while (peer->in) {
        struct tcp_in *in = peer->in;
        peer->in = in->next;
        free(in);
    }
    while (peer->stray) {
        struct tcp_stray *stray = peer->stray;
        peer->stray = stray->next;
        free(stray->in);
        sl_comm_tcp_free_stray(peer, stray);
    }
    sl_comm_tcp_seal_close(peer->seal);
    free(peer->reading);
    free(peer->state);
    if (peer->got >= (int64_t)sizeof peer->head && peer->head.kind > TCP_SYNC)
        free(peer->into);
}

static void free_comm(struct tcp_comm *comm) {
    sl_comm_tcp_stop_thread(comm);
    for (int r = 0; comm->peers && r < comm->post.base.ranks; r++)
        sl_comm_tcp_free_peer(&comm->peers[r]);
    free(comm->peers);
    sl_comm_post_close(&comm->post);
    sl_comm_done(&comm->post.base);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

static sl_err meet(struct tcp_comm *comm, const struct sl_comm_job *job) {
    struct sl_arena arena = {0};
    struct sl_comm_tcp_link *links = SL_NEW(&arena, struct sl_comm_tcp_link, job->ranks);
    unsigned char key[SL_COMM_KEY];
    sl_err err = sl_comm_tcp_meet(job, links, key);
    comm->post.base.rank = job->rank;
    comm->post.base.ranks = job->ranks;
    comm->peers = calloc((size_t)job->ranks, sizeof *comm->peers);
    if (!comm->peers)
        sl_out_of_memory((size_t)job->ranks * sizeof *comm->peers);
    for (int r = 0; r < job->ranks; r++) {
        comm->peers[r] = (struct tcp_peer){.fd = links[r].fd, .who = links[r].who};
        comm->peers[r].out_end = &comm->peers[r].out;
        if (err == SL_OK && job->encrypt && links[r].fd >= 0)
            err =
                sl_comm_tcp_seal_open(key, &links[r].nonces, links[r].calls, &comm->peers[r].seal);
    }
    sl_arena_free(&arena);
    return err;
}

static sl_err open_comm(const struct sl_comm_job *job, struct sl_comm **out) {
    const struct sl_comm_job alone = {.ranks = 1, .meet_fd = -1};
    struct tcp_comm *comm = sl_realloc(NULL, sizeof *comm);
    *comm = (struct tcp_comm){.post = {.base = {.row = &sl_comm_transport_tcp, .ranks = 1},
                                       .row = &post_row,
                                       .last_tag = INT_MAX},
                              .early_bytes = (int64_t)256 << 20,
                              .poll_fd = -1,
                              .wake_fd = -1,
                              .lost = -1,
                              .losing = -1};
    sl_comm_init(&comm->post.base);
    pthread_mutex_init(&comm->lock, NULL);
    sl_err err = meet(comm, job ? job : &alone);
    if (err == SL_OK) {
        sl_comm_post_open(&comm->post);
        if (comm->post.base.ranks > 1)
            err = sl_comm_tcp_start_thread(comm);
    }
    if (err != SL_OK)
        free_comm(comm);
    else
        *out = &comm->post.base;
    return err;
}

/* Waits until every other rank has failed, ended or is lost, or until the timeout. */
static void hear_all(struct tcp_comm *comm, bool ended, int64_t timeout_ns) {
    const struct timespec nap = {.tv_nsec = 1000000};
    int64_t end = sl_clock_ns() + timeout_ns;
    for (bool all = false; !all && sl_clock_ns() < end; nanosleep(&nap, NULL)) {
        all = true;
        pthread_mutex_lock(&comm->lock);
        for (int r = 0; r < comm->post.base.ranks; r++) {
            const struct tcp_peer *peer = &comm->peers[r];
            if (peer->fd >= 0 && !peer->gone)
                all &= ended ? peer->told && !peer->out : peer->told;
        }
        pthread_mutex_unlock(&comm->lock);
    }
}

static void choose_speaker(struct tcp_comm *comm) {
    struct sl_comm *base = &comm->post.base;
    pthread_mutex_lock(&comm->lock);
    base->speaker = base->rank;
    for (int r = base->rank - 1; r >= 0; r--)
        if (!comm->peers[r].lost && (!comm->peers[r].gone || comm->peers[r].told))
            base->speaker = r;
    pthread_mutex_unlock(&comm->lock);
}

static sl_err settle(struct sl_comm *base, sl_err err) {
    struct tcp_comm *comm = (struct tcp_comm *)base;
    if (err == SL_OK) /* the final barrier: no rank leaves while another works */
        err = sl_comm_post_merge(&comm->post, &comm->post.everyone, NULL, NULL, 0);
    if (err != SL_OK)
        sl_comm_fail(base, err);
    sl_err first = sl_comm_gate_error(&base->gate);
    if (first != SL_OK) {
        hear_all(comm, false, 2000000000);
        choose_speaker(comm);
    }
    return first;
}

static void close_comm(struct sl_comm *base) {
    struct tcp_comm *comm = (struct tcp_comm *)base;
    /* a rank that failed and cannot report it (its thread has ended) must not close cleanly: the
     * others would wait for it */
    bool polite = !atomic_load(&base->gate.failed) || atomic_load(&comm->announced);
    pthread_mutex_lock(&comm->lock);
    for (int r = 0; r < base->ranks; r++)
        if (polite && comm->peers[r].fd >= 0 && !comm->peers[r].gone)
            sl_comm_tcp_control(comm, r, (struct tcp_head){.kind = TCP_BYE}, NULL);
    pthread_mutex_unlock(&comm->lock);
    /* first, because closing a socket with data in transit would lose the data */
    hear_all(comm, true, 1000000000);
    free_comm(comm);
}

static void told(struct sl_comm *base) { sl_comm_tcp_wake((struct tcp_comm *)base); }

const struct sl_transport sl_comm_transport_tcp = {
    .name = "tcp",
    .brief = "workers are processes on one host or several ('sluice launch')",
    .open = open_comm,
    .settle = settle,
    .close = close_comm,
    .failed = told,
    .look = sl_comm_tcp_look,
    .is_lost = sl_comm_tcp_is_lost,
    .who = sl_comm_tcp_who,
    SL_POST_FUNCTIONS,
};
