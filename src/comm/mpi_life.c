/* Heartbeats of MPI ranks over connections of the TCP transport, which carry nothing else. A dying
 * process closes them, a stopped one goes silent. Both are detected before mpirun kills the job.
 *
 *   rank 0 listens and broadcasts its addresses by MPI; each rank looks for one that it can reach;
 *   when all have found one, they connect like ranks of 'sluice launch' */
#include "comm/mpi_state.h"

#include "base/clock.h"
#include "base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES_MAX = 16, RANKS_MAX = 256, TRY_MS = 2000 };

/* What rank 0 broadcasts. */
struct place {
    unsigned char key[SL_COMM_KEY];
    int32_t port, count; /* count 0: there are no heartbeats */
    struct in_addr at[ADDRESSES_MAX];
};

static void add_interfaces(struct place *place) {
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i && place->count < ADDRESSES_MAX; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) ||
            i->ifa_flags & IFF_LOOPBACK)
            continue;
        struct sockaddr_in at;
        memcpy(&at, i->ifa_addr, sizeof at);
        place->at[place->count++] = at.sin_addr;
    }
    freeifaddrs(all);
}

/* Listens on all addresses; on the loopback device if all ranks are on one host. */
static int listen_here(bool one_host, struct place *place) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t length = sizeof at;
    at.sin_addr.s_addr = htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&at, length) != 0 || listen(fd, 4 * RANKS_MAX) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &length) != 0 ||
        getrandom(place->key, sizeof place->key, 0) != (ssize_t)sizeof place->key) {
        close(fd);
        return -1;
    }
    place->port = ntohs(at.sin_port);
    if (one_host)
        place->at[place->count++] = at.sin_addr;
    else
        add_interfaces(place);
    return fd;
}

/* Does a connection to the address succeed before the timeout? */
static bool is_reached(struct in_addr to, int port) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = to};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t length = sizeof error;
    if (fd < 0)
        return false;
    bool ok = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (!ok && errno == EINPROGRESS) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        ok = poll(&ready, 1, TRY_MS) == 1 &&
             getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
    }
    close(fd);
    return ok;
}

/* Do all ranks have the same host name? */
static bool is_one_host(const struct mpi_comm *comm) {
    char name[64] = "", first[64];
    int same, all = 0;
    gethostname(name, sizeof name - 1);
    memcpy(first, name, sizeof first);
    if (MPI_Bcast(first, (int)sizeof first, MPI_CHAR, 0, comm->control) != MPI_SUCCESS)
        return false;
    same = memcmp(first, name, sizeof first) == 0;
    MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, comm->control);
    return all;
}

/* Do all ranks say yes? */
static bool all_say(const struct mpi_comm *comm, bool yes) {
    int here = yes, all = 0;
    MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_MIN, comm->control);
    return all;
}

static sl_err meet(struct mpi_comm *comm, const struct place *place, struct in_addr at, int fd) {
    struct sl_comm *base = &comm->post.base;
    const struct sl_transport *tcp;
    char text[INET_ADDRSTRLEN];
    struct sl_comm_job job = {.rank = base->rank,
                              .ranks = base->ranks,
                              .meet_fd = fd,
                              .has_key = true,
                              .timeout_ns = 20000000000};
    memcpy(job.key, place->key, sizeof job.key);
    inet_ntop(AF_INET, &at, text, sizeof text);
    snprintf(job.meet, sizeof job.meet, "%s:%d", text, place->port);
    SL_TRY(sl_comm_transport_find("tcp", &tcp));
    SL_TRY(sl_comm_open(tcp, &job, &base->life));
    sl_comm_gate_set_outer(&base->life->gate, &base->gate);
    return SL_OK;
}

void sl_comm_mpi_life_open(struct mpi_comm *comm) {
    struct sl_comm *base = &comm->post.base;
    struct place place = {0};
    int fd = -1, at = 0;
    bool one_host = is_one_host(comm), first = base->rank == 0;
    if (first && base->ranks <= RANKS_MAX)
        fd = listen_here(one_host, &place);
    if (MPI_Bcast(&place, (int)sizeof place, MPI_BYTE, 0, comm->control) != MPI_SUCCESS)
        return;
    while (!first && at < place.count && !is_reached(place.at[at], place.port))
        at++;
    bool go = all_say(comm, at < place.count);
    sl_err err = go ? meet(comm, &place, place.at[at < place.count ? at : 0], fd) : SL_OK;
    if (!go && fd >= 0)
        close(fd);
    if (!all_say(comm, go && err == SL_OK)) {
        sl_log_note("no heartbeats between ranks: only mpirun detects a lost rank");
        sl_comm_mpi_life_close(comm);
    }
}

void sl_comm_mpi_life_close(struct mpi_comm *comm) {
    struct sl_comm *base = &comm->post.base;
    if (base->life) {
        sl_comm_gate_set_outer(&base->life->gate, NULL);
        sl_comm_close(base->life);
    }
    base->life = NULL;
}

int sl_comm_mpi_life_lost(struct mpi_comm *comm) {
    int lost = 0;
    for (int r = 0; comm->post.base.life && r < comm->post.base.ranks; r++)
        lost += r != comm->post.base.rank && sl_comm_is_lost(&comm->post.base, r);
    return lost;
}
