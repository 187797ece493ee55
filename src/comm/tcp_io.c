/* Messages of the TCP transport: writes as much as a socket takes, and reads what has arrived. */
#include "comm/tcp_state.h"

#include "base/arena.h"
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { HEAD = sizeof(struct tcp_head), CONTROL_MAX = 1 << 20, STRAY_FIRST = 1 << 16 };

static const int64_t message_max = (int64_t)1 << 40;

/* ---- writing; under the lock ---- */

static void watch_out(struct tcp_comm *comm, int rank, bool on) {
    struct tcp_peer *peer = &comm->peers[rank];
    struct epoll_event event = {.events = EPOLLIN | (on ? (uint32_t)EPOLLOUT : 0),
                                .data.u32 = (uint32_t)rank};
    if (peer->polled_out == on || peer->gone)
        return;
    peer->polled_out = on;
    epoll_ctl(comm->poll_fd, EPOLL_CTL_MOD, peer->fd, &event);
}

void sl_comm_tcp_finish(struct tcp_comm *comm, struct sl_transfer *op, int64_t size_bytes) {
    if (!op)
        return;
    if (op->done)
        op->done(op, size_bytes);
    atomic_store_explicit(&op->busy, false, memory_order_release);
    sl_comm_gate_ring(&comm->post.base.gate);
}

/* Called when a message has been written: it is complete, or waits for its ACK. */
static void written(struct tcp_comm *comm, struct tcp_peer *peer) {
    struct tcp_out *out = peer->out;
    peer->out = out->next;
    if (!peer->out)
        peer->out_end = &peer->out;
    if (out->head.kind == TCP_SYNC && out->op && !out->acked) {
        out->next = peer->unacked;
        peer->unacked = out;
        return;
    }
    sl_comm_tcp_finish(comm, out->op, out->head.size_bytes);
    free(out);
}

/* Writes until the socket would block. Errors are left to the reader, which sees them too. */
void sl_comm_tcp_write_some(struct tcp_comm *comm, int rank) {
    struct tcp_peer *peer = &comm->peers[rank];
    while (peer->out && !peer->gone) {
        struct tcp_out *out = peer->out;
        int64_t payload = out->sent > HEAD ? out->sent - HEAD : 0;
        int64_t head_left = out->sent < HEAD ? HEAD - out->sent : 0;
        struct iovec parts[2] = {
            {(char *)&out->head + HEAD - head_left, (size_t)head_left},
            {(char *)(uintptr_t)out->bytes + payload, (size_t)(out->head.size_bytes - payload)}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t put = peer->seal ? sl_comm_tcp_seal_send(peer->seal, peer->fd, parts)
                                 : sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            break;
        out->sent += put;
        if (out->sent == HEAD + out->head.size_bytes)
            written(comm, peer);
    }
    watch_out(comm, rank, peer->out != NULL);
}

void sl_comm_tcp_queue(struct tcp_comm *comm, int to, struct tcp_out *out) {
    struct tcp_peer *peer = &comm->peers[to];
    bool first = peer->out == NULL;
    out->next = NULL;
    *peer->out_end = out;
    peer->out_end = &out->next;
    if (first)
        sl_comm_tcp_write_some(comm, to);
}

void sl_comm_tcp_control(struct tcp_comm *comm, int to, struct tcp_head head, const void *bytes) {
    struct tcp_out *out = malloc(sizeof *out + (size_t)head.size_bytes);
    if (!out) { /* this code holds the lock, so it must not exit */
        sl_comm_gate_fail(&comm->post.base.gate, sl_fail(SL_ERR_SYSTEM, "no memory for a message"));
        return;
    }
    *out = (struct tcp_out){.head = head};
    if (bytes)
        memcpy(out->own, bytes, (size_t)head.size_bytes);
    out->bytes = out->own;
    sl_comm_tcp_queue(comm, to, out);
}

/* ---- reading; by the transport's thread ---- */

static struct tcp_in *take_in(struct tcp_peer *peer, int tag) {
    for (struct tcp_in **at = &peer->in; *at; at = &(*at)->next)
        if ((*at)->tag == tag) {
            struct tcp_in *found = *at;
            *at = found->next;
            return found;
        }
    return NULL;
}

static void add_stray(struct tcp_peer *peer, struct tcp_stray *stray) {
    peer->stray_bytes += TCP_STRAY_BYTES;
    struct tcp_stray **at = &peer->stray;
    while (*at)
        at = &(*at)->next;
    *at = stray;
}

/* Refuses too many early messages. A channel may be two rings ahead (post_channel.c); early_bytes
 * are for messages before channels open. */
static sl_err check_early(struct tcp_comm *comm, int rank) {
    int64_t bytes = comm->peers[rank].stray_bytes;
    if (bytes <= comm->early_bytes + 2 * atomic_load(&comm->post.base.bytes))
        return SL_OK;
    return sl_fail(SL_ERR_PEER, "rank %d has sent %lld bytes that no worker here expects", rank,
                   (long long)bytes);
}

/* Chooses where the payload of a message goes. */
static sl_err place_message(struct tcp_comm *comm, int rank) {
    struct tcp_peer *peer = &comm->peers[rank];
    const struct tcp_head *head = &peer->head;
    sl_err err = SL_OK;
    pthread_mutex_lock(&comm->lock);
    peer->reading = take_in(peer, head->tag);
    if (!peer->reading) {
        peer->straying = malloc(sizeof *peer->straying);
        if (peer->straying) {
            *peer->straying = (struct tcp_stray){.head = *head};
            add_stray(peer, peer->straying);
            err = check_early(comm, rank);
        }
    } else {
        peer->into = peer->reading->bytes;
        if (head->kind == TCP_SYNC)
            sl_comm_tcp_control(comm, rank,
                                (struct tcp_head){.kind = TCP_ACK, .serial = head->serial}, NULL);
    }
    pthread_mutex_unlock(&comm->lock);
    if (!peer->reading && !peer->straying)
        return sl_fail(SL_ERR_SYSTEM, "no memory for a message");
    if (peer->reading && peer->reading->room < head->size_bytes)
        return sl_fail(SL_ERR_PEER, "rank %d sent %lld bytes where %lld are expected", rank,
                       (long long)head->size_bytes, (long long)peer->reading->room);
    return err;
}

/* Grows the buffer of an early message. */
static sl_err grow_stray(struct tcp_comm *comm, int rank) {
    struct tcp_peer *peer = &comm->peers[rank];
    struct tcp_stray *stray = peer->straying;
    int64_t size = peer->head.size_bytes, have = peer->got - HEAD;
    if (!stray || have < stray->room || have == size)
        return SL_OK;
    int64_t room = stray->room ? 2 * stray->room : STRAY_FIRST;
    room = room < size ? room : size;
    pthread_mutex_lock(&comm->lock);
    peer->stray_bytes += room - stray->room;
    sl_err err = check_early(comm, rank);
    if (err != SL_OK)
        peer->stray_bytes -= room - stray->room;
    pthread_mutex_unlock(&comm->lock);
    SL_TRY(err);
    char *bytes = realloc(stray->bytes, (size_t)room);
    if (!bytes)
        return sl_fail(SL_ERR_SYSTEM, "cannot allocate %lld bytes for a message", (long long)room);
    stray->bytes = peer->into = bytes;
    stray->room = room;
    return SL_OK;
}

static sl_err begin_message(struct tcp_comm *comm, int rank) {
    struct tcp_peer *peer = &comm->peers[rank];
    const struct tcp_head *head = &peer->head;
    bool data = head->kind == TCP_DATA || head->kind == TCP_SYNC;
    peer->into = NULL;
    if (head->kind <= 0 || head->kind >= TCP_KIND_COUNT || head->size_bytes < 0 ||
        head->size_bytes > message_max || (!data && head->size_bytes > CONTROL_MAX))
        return sl_fail(SL_ERR_PEER, "rank %d sent something that is no message", rank);
    if (data)
        return place_message(comm, rank);
    peer->into = sl_realloc(NULL, (size_t)head->size_bytes + 1);
    return SL_OK;
}

static void acknowledged(struct tcp_comm *comm, struct tcp_peer *peer) {
    for (struct tcp_out **at = &peer->unacked; *at; at = &(*at)->next)
        if ((*at)->head.serial == peer->head.serial) {
            struct tcp_out *out = *at;
            *at = out->next;
            sl_comm_tcp_finish(comm, out->op, out->head.size_bytes);
            free(out);
            return;
        }
    for (struct tcp_out *out = peer->out; out; out = out->next)
        out->acked |= out->head.kind == TCP_SYNC && out->head.serial == peer->head.serial;
}

static void end_data(struct tcp_comm *comm, struct tcp_peer *peer) {
    if (peer->reading) {
        sl_comm_tcp_finish(comm, peer->reading->op, peer->head.size_bytes);
        free(peer->reading);
        peer->reading = NULL;
        return;
    }
    struct tcp_stray *stray = peer->straying;
    peer->straying = NULL;
    stray->complete = true;
    if (!stray->in)
        return;
    for (struct tcp_stray **at = &peer->stray; *at; at = &(*at)->next)
        if (*at == stray) {
            *at = stray->next;
            break;
        }
    if (stray->in->op && stray->head.size_bytes)
        memcpy(stray->in->bytes, stray->bytes, (size_t)stray->head.size_bytes);
    sl_comm_tcp_finish(comm, stray->in->op, stray->head.size_bytes);
    free(stray->in);
    sl_comm_tcp_free_stray(peer, stray);
}

static void end_message(struct tcp_comm *comm, int rank) {
    struct tcp_peer *peer = &comm->peers[rank];
    int kind = peer->head.kind;
    int64_t size = peer->head.size_bytes;
    peer->got = 0;
    pthread_mutex_lock(&comm->lock);
    if (kind == TCP_DATA || kind == TCP_SYNC)
        end_data(comm, peer);
    else if (kind == TCP_ACK)
        acknowledged(comm, peer);
    else if (kind == TCP_BYE)
        peer->told = true;
    pthread_mutex_unlock(&comm->lock);
    if (kind == TCP_DATA || kind == TCP_SYNC)
        return;
    peer->into[size] = 0;
    if (kind == TCP_FAIL)
        sl_comm_tcp_hear_failure(comm, rank, peer->into, size);
    else if (kind == TCP_BEAT)
        sl_comm_tcp_keep_state(comm, rank, size);
    free(peer->into);
    peer->into = NULL;
}

static ssize_t receive(struct tcp_peer *peer, void *into, size_t want) {
    return peer->seal ? sl_comm_tcp_seal_receive(peer->seal, peer->fd, into, want)
                      : recv(peer->fd, into, want, MSG_DONTWAIT);
}

bool sl_comm_tcp_read_piece(struct tcp_comm *comm, int rank) {
    struct tcp_peer *peer = &comm->peers[rank];
    bool in_head = peer->got < HEAD;
    char *into = in_head ? (char *)&peer->head + peer->got : peer->into + (peer->got - HEAD);
    int64_t end = peer->straying ? peer->straying->room : peer->head.size_bytes;
    int64_t want = in_head ? HEAD - peer->got : end - (peer->got - HEAD);
    ssize_t got = want ? receive(peer, into, (size_t)want) : 0;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    if (got < 0 || (got == 0 && want)) {
        sl_comm_tcp_closed(comm, rank, got < 0 ? strerror(errno) : "its connection has closed");
        return false;
    }
    peer->got += got;
    peer->heard_ns = sl_clock_ns();
    if (!in_head && (peer->head.kind == TCP_DATA || peer->head.kind == TCP_SYNC))
        atomic_fetch_add_explicit(&comm->post.base.moved, got, memory_order_relaxed);
    sl_err err = peer->got == HEAD && in_head ? begin_message(comm, rank) : SL_OK;
    if (err == SL_OK && peer->got >= HEAD)
        err = grow_stray(comm, rank);
    if (err != SL_OK) {
        sl_comm_gate_fail(&comm->post.base.gate, err);
        sl_comm_tcp_closed(comm, rank, "it does not speak our language");
        return false;
    }
    if (peer->got >= HEAD && peer->got == HEAD + peer->head.size_bytes)
        end_message(comm, rank);
    return true;
}
