/* Rendezvous of ranks over TCP.
 *
 *   rank 0 listens at every address of HOST:PORT; every other rank calls all of them and takes the
 *   first one that proves the key; its card says where it listens itself; when all have connected,
 *   rank 0 sends the table of cards; then each rank calls the lower ranks.
 *   The first connections stay open as the connections to rank 0.
 *
 * One loop serves all connections that have not proved themselves yet, so that none delays
 * another. */
#include "base/clock.h"
#include "comm/key.h"
#include "comm/tcp_socket.h"
#include "comm/tcp_state.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* most callers that have not proved themselves; a new one then replaces the oldest */
    GUESTS_MAX = 256,
    ACCEPTS_MAX = 64, /* most new callers before other connections are served again */
    GUEST_S = 10,     /* seconds that a caller has to prove itself */
    NAP_MS = 20,      /* time before a call is repeated; doubles */
    LONG_NAP_MS = 500,
};

/* A rank to call until it is connected. */
struct wish {
    int rank;
    struct sl_address at;
    struct tcp_talk talk; /* fd -1: no call is in progress */
    int listener;         /* our listener at the address of this connection; -1: none */
    int64_t next_ns, nap_ns;
};

/* Somebody who called us. */
struct guest {
    struct tcp_talk talk;
    int64_t end_ns;
};

struct meeting {
    struct sl_comm_job job; /* contains the key as soon as that is known */
    struct sl_comm_tcp_link *links;
    struct tcp_card own, *table; /* table: [ranks] cards of all */
    int listeners[SL_ADDRESSES_MAX], listener_count;
    struct wish *wishes;
    int wish_count;
    struct guest *guests[GUESTS_MAX];
    int guest_count;
    int strangers;     /* number of connections that did not have the key */
    char refusal[256]; /* why the last call failed */
    int64_t end_ns;
    sl_err err;
};

static struct tcp_card card_of(const struct sl_comm_job *job) {
    struct tcp_card card = {.ranks = job->ranks, .encrypt = job->encrypt};
    card.who.rank = job->rank;
    card.who.pid = (int32_t)getpid();
    gethostname(card.who.host, sizeof card.who.host - 1);
    return card;
}

/* ---- ranks that have connected ---- */

static sl_err check_card(const struct meeting *m, const struct tcp_card *card) {
    if (card->ranks != m->job.ranks)
        return sl_fail(SL_ERR_REFUSED,
                       "rank %d was started as one of %d ranks, rank %d as one of %d",
                       card->who.rank, card->ranks, m->job.rank, m->job.ranks);
    if (card->encrypt != m->own.encrypt)
        return sl_fail(SL_ERR_REFUSED, "rank %d has %s--encrypt, rank %d has not%s", card->who.rank,
                       card->encrypt ? "" : "no ", m->job.rank, card->encrypt ? "" : " none");
    return SL_OK;
}

/* Takes a connection to a rank. A rank that connects again has lost its first connection. */
static void take(struct meeting *m, struct tcp_talk *talk) {
    int r = talk->other.who.rank;
    struct sl_comm_tcp_link *link = &m->links[r];
    if (link->fd >= 0)
        close(link->fd);
    *link = (struct sl_comm_tcp_link){
        .fd = talk->fd, .calls = talk->calls, .who = talk->other.who, .nonces = talk->nonces};
    m->table[r] = talk->other;
    talk->fd = -1;
}

static bool all_there(const struct meeting *m, int first, int last) {
    for (int r = first; r <= last; r++)
        if (r != m->job.rank && m->links[r].fd < 0)
            return false;
    return true;
}

static sl_err fail_missing(const struct meeting *m, int first, int last) {
    struct sl_text text = {0};
    for (int r = first; r <= last; r++)
        if (r != m->job.rank && m->links[r].fd < 0)
            sl_text_printf(&text, "%s%d", text.length ? ", " : "", r);
    if (first == 0)
        sl_text_printf(&text, " (%s) was not reached by rank %d", m->job.meet, m->job.rank);
    else
        sl_text_printf(&text, " did not come to rank %d (%s)", m->job.rank, m->job.meet);
    sl_text_printf(&text, " within %lld s", (long long)(m->job.timeout_ns / 1000000000));
    if (*m->refusal)
        sl_text_printf(&text, ": %s", m->refusal);
    if (m->strangers)
        sl_text_printf(&text, "; %d connections without the key of this job were closed",
                       m->strangers);
    sl_err err = sl_fail(SL_ERR_PEER, "rank %s", text.at);
    sl_text_free(&text);
    return err;
}

/* ---- callers ---- */

static void drop_guest(struct meeting *m, int i) {
    if (m->guests[i]->talk.fd >= 0)
        close(m->guests[i]->talk.fd);
    free(m->guests[i]);
    m->guest_count--;
    memmove(&m->guests[i], &m->guests[i + 1],
            sizeof *m->guests * (size_t)(m->guest_count - i)); /* keeps the oldest first */
}

static void admit(struct meeting *m, int listener) {
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int fd = sl_comm_tcp_accept(listener);
        if (fd < 0)
            return;
        if (m->guest_count == GUESTS_MAX)
            drop_guest(m, 0);
        struct guest *guest = m->guests[m->guest_count++] = sl_realloc(NULL, sizeof *guest);
        sl_err err = sl_comm_tcp_talk_open(&guest->talk, fd, false, &m->own);
        guest->end_ns = sl_clock_ns() + GUEST_S * 1000000000LL;
        if (m->err == SL_OK)
            m->err = err;
    }
}

/* Serves one caller. Returns false if the caller is no longer in the list. */
static bool serve_guest(struct meeting *m, int i, bool ready) {
    struct tcp_talk *talk = &m->guests[i]->talk;
    enum tcp_talk_result result = TCP_TALK_MORE;
    if (ready)
        result = sl_comm_tcp_talk_step(talk, m->job.key);
    if (result == TCP_TALK_MORE && sl_clock_ns() < m->guests[i]->end_ns)
        return true;
    int rank = talk->other.who.rank;
    sl_err err = result == TCP_TALK_DONE ? check_card(m, &talk->other) : SL_OK;
    if (m->err == SL_OK)
        m->err = err;
    if (result == TCP_TALK_DONE && rank >= 0 && rank < m->job.ranks && rank != m->job.rank)
        take(m, talk);
    else
        m->strangers += result != TCP_TALK_CLOSED;
    drop_guest(m, i);
    return false;
}

/* ---- calls ---- */

static void hang_up(struct meeting *m, struct wish *wish, const char *why) {
    if (wish->talk.fd >= 0)
        close(wish->talk.fd);
    if (wish->listener >= 0)
        close(wish->listener);
    wish->talk.fd = wish->listener = -1;
    wish->next_ns = sl_clock_ns() + wish->nap_ns;
    wish->nap_ns =
        wish->nap_ns * 2 < LONG_NAP_MS * 1000000LL ? wish->nap_ns * 2 : LONG_NAP_MS * 1000000LL;
    snprintf(m->refusal, sizeof m->refusal, "%s", why);
}

/* Reads the key of a step. Its file may not exist yet, or hold the key of an earlier start of the
 * step. */
static bool find_key(struct meeting *m, const struct wish *wish) {
    if (wish->rank > 0 || !*m->job.key_file)
        return true;
    if (sl_comm_key_read(&m->job, m->job.key_file) == SL_OK)
        return true;
    snprintf(m->refusal, sizeof m->refusal, "%s", sl_err_message());
    return false;
}

static void call(struct meeting *m, struct wish *wish) {
    int fd = -1;
    if (!find_key(m, wish)) {
        hang_up(m, wish, "");
        snprintf(m->refusal, sizeof m->refusal, "%s", sl_err_message());
        return;
    }
    if (sl_comm_tcp_start_connect(&wish->at, &fd) != SL_OK) {
        hang_up(m, wish, sl_err_message());
        return;
    }
    sl_err err = sl_comm_tcp_talk_open(&wish->talk, fd, true, &m->own);
    if (m->err == SL_OK)
        m->err = err;
}

/* Called when a call is connected: listens at this address, unless it listens already, and sends
 * hello. */
static void begin_talk(struct meeting *m, struct wish *wish) {
    struct sl_address own;
    sl_err err = sl_comm_tcp_connected(wish->talk.fd, &own);
    if (err == SL_OK && m->listener_count == 0) {
        sl_address_set_port(&own, 0);
        err = sl_comm_tcp_listen(&own, "own address", &wish->listener);
        if (err == SL_OK)
            err = sl_comm_tcp_own_address(wish->listener, &own);
        wish->talk.own.at = own.at;
        wish->talk.own.length = (int32_t)own.length;
    }
    if (err != SL_OK)
        hang_up(m, wish, sl_err_message());
    else if (!sl_comm_tcp_talk_call(&wish->talk))
        hang_up(m, wish, "the connection has closed");
}

static void serve_wish(struct meeting *m, struct wish *wish) {
    if (wish->talk.connecting) {
        begin_talk(m, wish);
        return;
    }
    enum tcp_talk_result result = sl_comm_tcp_talk_step(&wish->talk, m->job.key);
    bool right = wish->talk.other.who.rank == wish->rank;
    if (result == TCP_TALK_MORE)
        return;
    if (result != TCP_TALK_DONE || !right || m->links[wish->rank].fd >= 0) {
        hang_up(m, wish,
                result == TCP_TALK_STRANGER || (result == TCP_TALK_DONE && !right)
                    ? "the process that answers there does not have the key of this job"
                    : "the connection has closed");
        return;
    }
    m->err = check_card(m, &wish->talk.other);
    if (wish->listener >= 0) {
        m->own = wish->talk.own;
        m->listeners[m->listener_count++] = wish->listener;
        wish->listener = -1;
    }
    take(m, &wish->talk);
}

static void start_calls(struct meeting *m) {
    for (int i = 0; i < m->wish_count; i++) {
        struct wish *wish = &m->wishes[i];
        bool done = m->links[wish->rank].fd >= 0;
        if (wish->talk.fd >= 0 && done)
            hang_up(m, wish, ""); /* another address of the rank was faster */
        else if (wish->talk.fd < 0 && !done && sl_clock_ns() >= wish->next_ns)
            call(m, wish);
    }
}

/* ---- the loop ---- */

static int list_fds(const struct meeting *m, struct pollfd *fds) {
    int count = 0;
    for (int i = 0; i < m->listener_count; i++)
        fds[count++] = (struct pollfd){.fd = m->listeners[i], .events = POLLIN};
    for (int i = 0; i < m->wish_count; i++)
        fds[count++] = (struct pollfd){.fd = m->wishes[i].talk.fd,
                                       .events = m->wishes[i].talk.connecting ? POLLOUT : POLLIN};
    for (int i = 0; i < m->guest_count; i++)
        fds[count++] = (struct pollfd){.fd = m->guests[i]->talk.fd, .events = POLLIN};
    return count;
}

/* Waits for events and serves them once. */
static void serve_once(struct meeting *m, struct pollfd *fds) {
    int listeners = m->listener_count, wishes = m->wish_count, guests = m->guest_count;
    int count = list_fds(m, fds);
    if (poll(fds, (nfds_t)count, NAP_MS) < 0)
        return;
    /* from the end, because removing a caller moves those after it */
    for (int i = guests - 1; i >= 0; i--)
        serve_guest(m, i, fds[listeners + wishes + i].revents != 0);
    for (int i = 0; i < wishes; i++)
        if (m->wishes[i].talk.fd >= 0 && fds[listeners + i].revents)
            serve_wish(m, &m->wishes[i]);
    for (int i = 0; i < listeners; i++)
        if (fds[i].revents)
            admit(m, fds[i].fd);
}

/* Serves connections until ranks first..last are connected. */
static sl_err meet(struct meeting *m, int first, int last) {
    size_t room = (size_t)SL_ADDRESSES_MAX + GUESTS_MAX + (size_t)m->wish_count;
    struct pollfd *fds = sl_realloc(NULL, room * sizeof *fds);
    m->err = SL_OK;
    while (m->err == SL_OK && !all_there(m, first, last)) {
        start_calls(m);
        serve_once(m, fds);
        if (m->err == SL_OK && !all_there(m, first, last) && sl_clock_ns() > m->end_ns)
            m->err = fail_missing(m, first, last);
    }
    for (int i = 0; i < m->wish_count; i++)
        if (m->wishes[i].talk.fd >= 0)
            hang_up(m, &m->wishes[i], "");
    free(fds);
    return m->err;
}

/* ---- parts of the rendezvous ---- */

static void wish_for(struct meeting *m, int rank, const struct sl_address *at) {
    m->wishes[m->wish_count++] = (struct wish){
        .rank = rank, .at = *at, .talk.fd = -1, .listener = -1, .nap_ns = NAP_MS * 1000000LL};
}

/* Finds the addresses to listen at. Slurm gives the name of a host, which may mean a loopback
 * address on the host itself. */
static sl_err find_places(const struct sl_comm_job *job, struct sl_addresses *out) {
    bool outside = !job->many_hosts;
    SL_TRY(sl_address_find(job->meet, "SLUICE_MEET", out));
    for (int i = 0; i < out->count; i++)
        outside |= !sl_address_is_loopback(&out->at[i]);
    return outside ? SL_OK : sl_address_find_any(job->meet, "SLUICE_MEET", out);
}

/* Listens at all addresses. One that this host lacks (IPv6 may be off) is left out if another
 * remains. */
static sl_err listen_everywhere(struct meeting *m) {
    struct sl_addresses places;
    sl_err err = SL_OK;
    if (m->job.meet_fd >= 0) {
        m->listeners[m->listener_count++] = m->job.meet_fd;
        return sl_comm_tcp_unblock(m->job.meet_fd);
    }
    SL_TRY(find_places(&m->job, &places));
    for (int i = 0; i < places.count; i++) {
        sl_err this =
            sl_comm_tcp_listen(&places.at[i], m->job.meet, &m->listeners[m->listener_count]);
        if (this == SL_OK)
            m->listener_count++;
        else
            err = this;
    }
    return m->listener_count ? SL_OK : err;
}

static sl_err meet_as_first(struct meeting *m) {
    size_t bytes = sizeof *m->table * (size_t)m->job.ranks;
    unsigned char mac[SL_SHA256_BYTES];
    SL_TRY(listen_everywhere(m));
    SL_TRY(meet(m, 1, m->job.ranks - 1));
    m->table[0] = m->own;
    for (int r = 1; r < m->job.ranks; r++) {
        sl_comm_tcp_prove(m->job.key, "table", &m->links[r].nonces, m->table, bytes, mac);
        if (!sl_comm_tcp_write_all(m->links[r].fd, mac, sizeof mac, m->end_ns) ||
            !sl_comm_tcp_write_all(m->links[r].fd, m->table, bytes, m->end_ns))
            return sl_fail(SL_ERR_PEER, "rank %d went away while all were coming", r);
    }
    return SL_OK;
}

static sl_err read_table(struct meeting *m) {
    size_t bytes = sizeof *m->table * (size_t)m->job.ranks;
    unsigned char mac[SL_SHA256_BYTES], want[SL_SHA256_BYTES];
    if (!sl_comm_tcp_read_all(m->links[0].fd, mac, sizeof mac, m->end_ns) ||
        !sl_comm_tcp_read_all(m->links[0].fd, m->table, bytes, m->end_ns))
        return sl_fail(SL_ERR_PEER, "rank 0 (%s) ended before all ranks were there", m->job.meet);
    sl_comm_tcp_prove(m->job.key, "table", &m->links[0].nonces, m->table, bytes, want);
    bool right = sl_bytes_equal(mac, want, sizeof mac);
    for (int r = 1; r < m->job.ranks && right; r++)
        right = m->table[r].length > 0 && m->table[r].length <= (int32_t)sizeof m->table[r].at;
    return right ? SL_OK
                 : sl_fail(SL_ERR_PEER, "rank 0 (%s) sent something that is no table of ranks",
                           m->job.meet);
}

static sl_err meet_as_other(struct meeting *m) {
    struct sl_addresses found;
    SL_TRY(sl_address_find(m->job.meet, "SLUICE_MEET", &found));
    for (int i = 0; i < found.count; i++)
        wish_for(m, 0, &found.at[i]);
    SL_TRY(meet(m, 0, 0));
    SL_TRY(read_table(m));
    m->wish_count = 0;
    *m->refusal = 0;
    for (int r = 1; r < m->job.rank; r++) {
        struct sl_address at = {.at = m->table[r].at, .length = (socklen_t)m->table[r].length};
        wish_for(m, r, &at);
    }
    return meet(m, 1, m->job.ranks - 1);
}

/* ---- the whole rendezvous ---- */

static sl_err check_key(const struct sl_comm_job *job) {
    if (job->ranks == 1 || job->has_key || job->insecure || *job->key_file)
        return SL_OK;
    return sl_fail(SL_ERR_REFUSED,
                   "%d ranks without a secret would let anybody in who reaches %s: set "
                   "SLUICE_KEY_FILE to a file that only you can read%s, or use --insecure",
                   job->ranks, job->meet,
                   *job->step ? ", or --out DIR on a shared file system" : "");
}

static void close_all(struct meeting *m) {
    while (m->guest_count)
        drop_guest(m, m->guest_count - 1);
    for (int i = 0; i < m->listener_count; i++)
        close(m->listeners[i]);
    free(m->table);
    free(m->wishes);
    free(m);
}

sl_err sl_comm_tcp_meet(const struct sl_comm_job *job, struct sl_comm_tcp_link *links,
                        unsigned char key[SL_COMM_KEY]) {
    int on = 1;
    SL_TRY(check_key(job));
    struct meeting *m = sl_realloc(NULL, sizeof *m);
    *m = (struct meeting){.job = *job, .links = links, .own = card_of(job)};
    m->end_ns = sl_clock_ns() + job->timeout_ns;
    m->table = sl_realloc(NULL, sizeof *m->table * (size_t)job->ranks);
    memset(m->table, 0, sizeof *m->table * (size_t)job->ranks);
    m->wishes = sl_realloc(NULL, sizeof *m->wishes * (size_t)(job->ranks + SL_ADDRESSES_MAX));
    for (int r = 0; r < job->ranks; r++)
        links[r] = (struct sl_comm_tcp_link){.fd = -1};
    sl_err err = SL_OK;
    if (job->ranks > 1)
        err = job->rank == 0 ? meet_as_first(m) : meet_as_other(m);
    links[job->rank].who = m->own.who;
    memcpy(key, m->job.key, SL_COMM_KEY);
    for (int r = 0; r < job->ranks; r++) {
        if (links[r].fd >= 0 && err == SL_OK) {
            setsockopt(links[r].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        } else if (links[r].fd >= 0) {
            close(links[r].fd);
            links[r].fd = -1;
        }
    }
    sl_comm_key_forget(job);
    close_all(m);
    return err;
}
