/* Heartbeats, failures and lost ranks.
 *
 * Any message counts as a heartbeat; an idle rank sends one twice a second. A rank is lost if it
 * closes its connection without a message or is silent for lost_ns. The TCP thread does this, so
 * a rank answers while its workers compute, but not while the process is stopped.
 *
 * A heartbeat carries the current actions of the rank. When a connection closes, the ranks
 * exchange their actions at once. They report the loss telling_ns later, when all waits for the
 * lost rank are known. */
#include "comm/tcp_state.h"

#include "base/arena.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static const int64_t lost_ns = 4000000000, telling_ns = 200000000;

struct failure {
    int32_t err, lost; /* lost: the rank that was lost; -1: none */
    char message[2048];
};

void sl_comm_tcp_beat(struct tcp_comm *comm) {
    struct sl_comm *base = &comm->post.base;
    struct tcp_head head = {.kind = TCP_BEAT};
    char *state = NULL;
    pthread_mutex_lock(&base->hooks_mutex);
    if (base->hooks.state) {
        head.size_bytes = base->hooks.state_bytes;
        state = sl_realloc(NULL, (size_t)head.size_bytes);
        base->hooks.state(base->hooks.ctx, state);
    }
    pthread_mutex_unlock(&base->hooks_mutex);
    pthread_mutex_lock(&comm->lock);
    for (int r = 0; r < base->ranks; r++) {
        struct tcp_peer *peer = &comm->peers[r];
        if (peer->fd >= 0 && !peer->gone &&
            !peer->out) /* otherwise a message in the queue serves as a heartbeat */
            sl_comm_tcp_control(comm, r, head, state);
    }
    pthread_mutex_unlock(&comm->lock);
    free(state);
}

/* Stores the payload that has arrived as the state of the rank. */
void sl_comm_tcp_keep_state(struct tcp_comm *comm, int rank, int64_t size_bytes) {
    struct tcp_peer *peer = &comm->peers[rank];
    if (size_bytes == 0)
        return;
    pthread_mutex_lock(&comm->lock);
    char *old = peer->state;
    peer->state = peer->into;
    peer->state_bytes = size_bytes;
    peer->state_ns = peer->heard_ns;
    peer->into = old; /* the next state is read into it, and the reader frees it */
    pthread_mutex_unlock(&comm->lock);
}

bool sl_comm_tcp_look(struct sl_comm *base, int rank, void *out, int64_t size_bytes,
                      int64_t *age_ns) {
    struct tcp_comm *comm = (struct tcp_comm *)base;
    struct tcp_peer *peer = &comm->peers[rank];
    pthread_mutex_lock(&comm->lock);
    bool found = peer->state && peer->state_bytes == size_bytes;
    if (found) {
        memcpy(out, peer->state, (size_t)size_bytes);
        *age_ns = sl_clock_ns() - peer->state_ns;
    }
    pthread_mutex_unlock(&comm->lock);
    return found;
}

bool sl_comm_tcp_is_lost(struct sl_comm *base, int rank) {
    struct tcp_comm *comm = (struct tcp_comm *)base;
    pthread_mutex_lock(&comm->lock);
    bool lost = comm->peers[rank].lost;
    pthread_mutex_unlock(&comm->lock);
    return lost;
}

void sl_comm_tcp_who(struct sl_comm *base, int rank, char out[SL_WHO_TEXT]) {
    const struct sl_comm_tcp_who *who = &((struct tcp_comm *)base)->peers[rank].who;
    snprintf(out, SL_WHO_TEXT, "rank %d, host %s, process %d", rank, who->host, who->pid);
}

/* The lowest remaining rank reports the thread's error at once. */
static void say_loss(struct tcp_comm *comm, int rank) {
    struct sl_comm *base = &comm->post.base;
    int speaker = 0;
    pthread_mutex_lock(&comm->lock);
    comm->peers[rank].lost = true;
    while (comm->peers[speaker].lost)
        speaker++;
    pthread_mutex_unlock(&comm->lock);
    pthread_mutex_lock(&base->hooks_mutex);
    if (base->say && !base->said && speaker == base->rank) {
        base->say(sl_err_message());
        base->said = true;
    }
    pthread_mutex_unlock(&base->hooks_mutex);
}

static void lose(struct tcp_comm *comm, int rank, const char *why) {
    const struct sl_comm_tcp_who *who = &comm->peers[rank].who;
    sl_err err = sl_fail(SL_ERR_PEER, "rank %d (host %s, process %d) is lost: %s", rank, who->host,
                         who->pid, why);
    struct sl_comm *base = &comm->post.base;
    pthread_mutex_lock(&comm->lock);
    comm->peers[rank].lost = true;
    pthread_mutex_unlock(&comm->lock);
    pthread_mutex_lock(&base->hooks_mutex);
    if (base->hooks.explain)
        base->hooks.explain(base->hooks.ctx, rank);
    pthread_mutex_unlock(&base->hooks_mutex);
    say_loss(comm, rank);
    comm->lost = rank;
    sl_comm_gate_fail(&base->gate, err);
}

void sl_comm_tcp_tell_loss(struct tcp_comm *comm, int64_t now_ns) {
    if (now_ns - comm->losing_ns < telling_ns)
        return;
    lose(comm, comm->losing, comm->losing_why);
    comm->losing = -1;
}

/* Finds lost ranks. Time in which this process itself was stopped does not count as silence. */
void sl_comm_tcp_check_lost(struct tcp_comm *comm, int64_t now_ns, int64_t away_ns) {
    for (int r = 0; r < comm->post.base.ranks; r++) {
        struct tcp_peer *peer = &comm->peers[r];
        char why[128];
        if (peer->fd < 0 || peer->gone || peer->told)
            continue;
        if (away_ns > lost_ns / 4)
            peer->heard_ns += away_ns;
        if (now_ns - peer->heard_ns < lost_ns)
            continue;
        snprintf(why, sizeof why,
                 "no sign of life for %.1f s: it is stopped, its host is, or the network is cut",
                 (double)(now_ns - peer->heard_ns) * 1e-9);
        pthread_mutex_lock(&comm->lock);
        peer->gone = true;
        epoll_ctl(comm->poll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
        pthread_mutex_unlock(&comm->lock);
        lose(comm, r, why);
        return;
    }
}

void sl_comm_tcp_closed(struct tcp_comm *comm, int rank, const char *why) {
    struct tcp_peer *peer = &comm->peers[rank];
    pthread_mutex_lock(&comm->lock);
    bool told = peer->told;
    peer->gone = true;
    epoll_ctl(comm->poll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
    pthread_mutex_unlock(&comm->lock);
    if (!told && !atomic_load(&comm->post.base.gate.failed) && comm->losing < 0) {
        comm->losing = rank;
        comm->losing_ns = sl_clock_ns();
        snprintf(comm->losing_why, sizeof comm->losing_why, "%s", why);
        sl_comm_tcp_beat(comm);
    }
    sl_comm_gate_ring(&comm->post.base.gate);
}

/* Sends the first error to all others, once. A received error already names its rank. */
void sl_comm_tcp_announce(struct tcp_comm *comm) {
    struct failure failure = {.lost = comm->lost};
    bool heard = false;
    if (atomic_load(&comm->announced))
        return;
    for (int r = 0; r < comm->post.base.ranks; r++)
        heard |= comm->peers[r].told || comm->peers[r].gone;
    failure.err = (int32_t)sl_comm_gate_error(&comm->post.base.gate);
    if (heard)
        snprintf(failure.message, sizeof failure.message, "%s", sl_err_message());
    else
        snprintf(failure.message, sizeof failure.message, "rank %d: %s", comm->post.base.rank,
                 sl_err_message());
    struct tcp_head head = {.kind = TCP_FAIL, .size_bytes = sizeof failure};
    pthread_mutex_lock(&comm->lock);
    for (int r = 0; r < comm->post.base.ranks; r++)
        if (comm->peers[r].fd >= 0 && !comm->peers[r].gone)
            sl_comm_tcp_control(comm, r, head, &failure);
    atomic_store(&comm->announced, true);
    pthread_mutex_unlock(&comm->lock);
}

void sl_comm_tcp_hear_failure(struct tcp_comm *comm, int rank, const char *bytes,
                              int64_t size_bytes) {
    struct failure failure;
    if (size_bytes != sizeof failure)
        return;
    memcpy(&failure, bytes, sizeof failure);
    failure.message[sizeof failure.message - 1] = 0;
    pthread_mutex_lock(&comm->lock);
    comm->peers[rank].told = true;
    pthread_mutex_unlock(&comm->lock);
    if (failure.err <= SL_OK || failure.err > SL_ERR_PEER)
        failure.err = SL_ERR_PEER;
    sl_err_set_message(failure.message);
    int lost = failure.lost;
    if (lost >= 0 && lost < comm->post.base.ranks && lost != comm->post.base.rank &&
        !atomic_load(&comm->post.base.gate.failed))
        say_loss(comm, lost);
    sl_comm_gate_fail(&comm->post.base.gate, (sl_err)failure.err);
}
