/* Heartbeats, failures, and who is lost.
 *
 * Whatever arrives is a sign of life; when there is nothing to say, a heartbeat is, twice a second.
 * Lost is who closes the connection without a word, or is silent for lost_ns. The thread of
 * connections does all this: it answers while workers compute, and not when the process is stopped.
 */
#include "comm/tcp_state.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

static const int64_t lost_ns = 4000000000;

struct failure {
    int32_t err;
    char message[2048];
};

void tcp_beat(struct tcp_comm *comm) {
    pthread_mutex_lock(&comm->lock);
    for (int r = 0; r < comm->post.base.ranks; r++) {
        struct tcp_peer *peer = &comm->peers[r];
        if (peer->fd >= 0 && !peer->gone && !peer->out) /* else there is something to say */
            tcp_control(comm, r, (struct tcp_head){.kind = TCP_BEAT}, NULL);
    }
    pthread_mutex_unlock(&comm->lock);
}

static void lose(struct tcp_comm *comm, int rank, const char *why) {
    const struct tcp_who *who = &comm->peers[rank].who;
    sl_err err = sl_fail(SL_ERR_PEER, "rank %d (host %s, process %d) is lost: %s", rank, who->host,
                         who->pid, why);
    pthread_mutex_lock(&comm->post.base.gate.mutex);
    if (comm->post.base.explain)
        comm->post.base.explain(comm->post.base.explain_ctx, rank);
    pthread_mutex_unlock(&comm->post.base.gate.mutex);
    sl_gate_fail(&comm->post.base.gate, err);
}

/* A process that was stopped itself has heard nobody: that time does not count. */
void tcp_check_lost(struct tcp_comm *comm, int64_t now_ns, int64_t away_ns) {
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

void tcp_closed(struct tcp_comm *comm, int rank, const char *why) {
    struct tcp_peer *peer = &comm->peers[rank];
    pthread_mutex_lock(&comm->lock);
    bool told = peer->told;
    peer->gone = true;
    epoll_ctl(comm->poll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
    pthread_mutex_unlock(&comm->lock);
    if (!told && !atomic_load(&comm->post.base.gate.failed))
        lose(comm, rank, why);
    sl_gate_ring(&comm->post.base.gate);
}

/* The first error here goes to all others, once. What came from another names its rank already. */
void tcp_announce(struct tcp_comm *comm) {
    struct failure failure = {0};
    bool heard = false;
    if (comm->announced)
        return;
    comm->announced = true;
    for (int r = 0; r < comm->post.base.ranks; r++)
        heard |= comm->peers[r].told || comm->peers[r].gone;
    failure.err = (int32_t)sl_gate_error(&comm->post.base.gate);
    if (heard)
        snprintf(failure.message, sizeof failure.message, "%s", sl_err_message());
    else
        snprintf(failure.message, sizeof failure.message, "rank %d: %s", comm->post.base.rank,
                 sl_err_message());
    struct tcp_head head = {.kind = TCP_FAIL, .size_bytes = sizeof failure};
    pthread_mutex_lock(&comm->lock);
    for (int r = 0; r < comm->post.base.ranks; r++)
        if (comm->peers[r].fd >= 0 && !comm->peers[r].gone)
            tcp_control(comm, r, head, &failure);
    pthread_mutex_unlock(&comm->lock);
}

void tcp_hear_failure(struct tcp_comm *comm, int rank, const char *bytes, int64_t size_bytes) {
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
    sl_gate_fail(&comm->post.base.gate, (sl_err)failure.err);
}
