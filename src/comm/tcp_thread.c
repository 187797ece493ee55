/* The thread of the TCP transport: reads all messages, writes the rest of blocked sends, and sends
 * heartbeats. */
#include "comm/tcp_state.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { BEAT_MS = 500, LOSING_MS = 50 }; /* LOSING_MS: interval while a loss is to be reported */

/* Is there text that was decrypted with an earlier record? The socket does not announce it
 * again. */
static bool holds_text(const struct tcp_peer *peer) {
    return peer->seal && sl_comm_tcp_seal_is_full(peer->seal);
}

static void serve(struct tcp_comm *comm, const struct epoll_event *event) {
    enum { PIECES_MAX = 64 }; /* most pieces read per peer and round */
    if (event->data.u32 == UINT32_MAX) {
        uint64_t drained;
        while (read(comm->wake_fd, &drained, sizeof drained) > 0)
            continue;
        return;
    }
    int rank = (int)event->data.u32;
    if (event->events & EPOLLOUT) {
        pthread_mutex_lock(&comm->lock);
        sl_comm_tcp_write_some(comm, rank);
        pthread_mutex_unlock(&comm->lock);
    }
    const struct tcp_peer *peer = &comm->peers[rank];
    for (int i = 0; (i < PIECES_MAX || holds_text(peer)) && !peer->gone; i++)
        if (!sl_comm_tcp_read_piece(comm, rank))
            break;
}

static void *thread_main(void *arg) {
    enum { EVENTS = 64 };
    struct tcp_comm *comm = arg;
    struct epoll_event events[EVENTS];
    int64_t beat_ns = 0, last_ns = sl_clock_ns();
    while (!atomic_load(&comm->stop)) {
        int wait_ms = comm->losing >= 0 ? LOSING_MS : BEAT_MS / 2;
        int count = epoll_wait(comm->poll_fd, events, EVENTS, wait_ms);
        int64_t now = sl_clock_ns(), away = now - last_ns;
        last_ns = now;
        for (int i = 0; i < count; i++)
            serve(comm, &events[i]);
        if (now - beat_ns >= BEAT_MS * 1000000LL || comm->losing >= 0) {
            beat_ns = now;
            sl_comm_tcp_beat(comm);
        }
        if (atomic_load(&comm->post.base.gate.failed)) {
            comm->losing = -1;
            sl_comm_tcp_announce(comm);
        } else if (comm->losing >= 0) {
            sl_comm_tcp_tell_loss(comm, now);
        } else {
            sl_comm_tcp_check_lost(comm, now, away);
        }
    }
    return NULL;
}

void sl_comm_tcp_wake(struct tcp_comm *comm) {
    uint64_t one = 1;
    if (comm->wake_fd >= 0 && write(comm->wake_fd, &one, sizeof one) < 0)
        return; /* the counter is full, so the thread is awake */
}

sl_err sl_comm_tcp_start_thread(struct tcp_comm *comm) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    comm->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    comm->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (comm->poll_fd < 0 || comm->wake_fd < 0 ||
        epoll_ctl(comm->poll_fd, EPOLL_CTL_ADD, comm->wake_fd, &event) != 0)
        return sl_fail(SL_ERR_SYSTEM, "cannot watch connections: %s", strerror(errno));
    for (int r = 0; r < comm->post.base.ranks; r++) {
        event.data.u32 = (uint32_t)r;
        comm->peers[r].heard_ns = sl_clock_ns();
        if (comm->peers[r].fd >= 0 &&
            epoll_ctl(comm->poll_fd, EPOLL_CTL_ADD, comm->peers[r].fd, &event) != 0)
            return sl_fail(SL_ERR_SYSTEM, "cannot watch connections: %s", strerror(errno));
    }
    if (pthread_create(&comm->thread, NULL, thread_main, comm) != 0)
        return sl_fail(SL_ERR_SYSTEM, "cannot start the thread of connections");
    comm->has_thread = true;
    return SL_OK;
}

void sl_comm_tcp_stop_thread(struct tcp_comm *comm) {
    atomic_store(&comm->stop, true);
    sl_comm_tcp_wake(comm);
    if (comm->has_thread)
        pthread_join(comm->thread, NULL);
    comm->has_thread = false;
    if (comm->wake_fd >= 0)
        close(comm->wake_fd);
    if (comm->poll_fd >= 0)
        close(comm->poll_fd);
    comm->wake_fd = comm->poll_fd = -1;
}
