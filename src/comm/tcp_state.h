/* State of the TCP transport. Private to tcp*.c. */
#ifndef SL_COMM_TCP_STATE_H
#define SL_COMM_TCP_STATE_H

#include "base/text.h"
#include "comm/post.h"
#include "comm/tcp_seal.h"

/* An early message counts as this many bytes plus its payload, so that lists of them stay short. */
enum { TCP_RANKS_MAX = 1024, TCP_STRAY_BYTES = 16 << 10 };

/* A connection whose other end has proved to be a rank of the job. */
struct sl_comm_tcp_link {
    int fd; /* -1: none, because it is this rank itself */
    bool calls;
    struct sl_comm_tcp_who who;
    struct tcp_nonces nonces;
};

/* tcp_meet.c. Makes one connection to every other rank, links[ranks], and finds the key of the
 * job. */
SL_MUST_CHECK sl_err sl_comm_tcp_meet(const struct sl_comm_job *job, struct sl_comm_tcp_link *links,
                                      unsigned char key[SL_COMM_KEY]);

enum tcp_kind { TCP_DATA = 1, TCP_SYNC, TCP_ACK, TCP_BEAT, TCP_FAIL, TCP_BYE, TCP_KIND_COUNT };

/* A message is a header, then size_bytes of payload. */
struct tcp_head {
    int32_t kind, tag;
    int64_t size_bytes;
    uint64_t serial; /* number of a message that needs an ACK, and of its ACK */
};

/* An outgoing message. */
struct tcp_out {
    struct tcp_out *next;
    struct sl_transfer *op; /* the operation that it completes; NULL: none */
    struct tcp_head head;
    const char *bytes;
    int64_t sent; /* bytes of header and payload that have been written */
    bool acked;   /* the ACK came before the last byte was written (slow link) */
    char own[];   /* payload of control messages */
};

/* A posted receive. */
struct tcp_in {
    struct tcp_in *next;
    struct sl_transfer *op;
    char *bytes;
    int64_t room;
    int tag;
};

/* An early message: its receive was not posted when it began to arrive. */
struct tcp_stray {
    struct tcp_stray *next;
    struct tcp_head head;
    bool complete;
    struct tcp_in *in; /* the receive, if it was posted while the message was arriving */
    /* grows with the arriving bytes, so that an announced size alone takes no memory */
    char *bytes;
    int64_t room;
};

struct tcp_peer {
    int fd;
    struct sl_comm_tcp_who who;
    bool polled_out;
    struct tcp_out *out, **out_end; /* messages to write */
    struct tcp_out *unacked;        /* messages that were written and have no ACK yet */
    struct tcp_in *in;
    struct tcp_stray *stray;
    int64_t stray_bytes;   /* memory of early messages; guarded by the lock */
    struct tcp_seal *seal; /* NULL: not encrypted */
    uint64_t serial;
    /* the message that is arriving; only the thread uses it: */
    struct tcp_head head;
    int64_t got;            /* bytes of header and payload that have arrived */
    char *into;             /* where its payload goes */
    struct tcp_in *reading; /* its receive, if posted */
    struct tcp_stray *straying;
    int64_t heard_ns;
    char *state; /* the last state that the peer has sent */
    int64_t state_bytes, state_ns;
    bool told; /* it has announced a failure or its end */
    bool gone; /* no more messages will arrive */
    bool lost; /* a rank has found it lost */
};

struct tcp_comm {
    struct sl_post post;
    pthread_mutex_t lock; /* guards those fields of peers that several threads use */
    struct tcp_peer *peers;
    pthread_t thread;
    bool has_thread;
    int64_t early_bytes; /* bytes that a rank may send before its messages are expected */
    int poll_fd, wake_fd;
    atomic_bool stop;
    atomic_bool announced; /* our failure has been sent to the other ranks */
    int lost;              /* rank that this process has found lost; -1: none */
    int losing;            /* rank whose loss will be reported; -1: none; only the thread uses it */
    int64_t losing_ns;
    char losing_why[160];
};

static inline struct tcp_comm *tcp_of(struct sl_post *post) { return (struct tcp_comm *)post; }

/* tcp.c. Frees all buffers of a peer. */
void sl_comm_tcp_free_peer(struct tcp_peer *peer);
void sl_comm_tcp_free_stray(struct tcp_peer *peer, struct tcp_stray *stray);

/* tcp_io.c. Under the lock. Queues a message and writes until the socket would block. */
void sl_comm_tcp_queue(struct tcp_comm *comm, int to, struct tcp_out *out);
void sl_comm_tcp_control(struct tcp_comm *comm, int to, struct tcp_head head, const void *bytes);
void sl_comm_tcp_finish(struct tcp_comm *comm, struct sl_transfer *op, int64_t size_bytes);
/* Writes until the rank's socket would block. */
void sl_comm_tcp_write_some(struct tcp_comm *comm, int rank);
/* Called by the thread: reads one piece. Returns false if there are no more data now. */
bool sl_comm_tcp_read_piece(struct tcp_comm *comm, int rank);

/* tcp_thread.c */
SL_MUST_CHECK sl_err sl_comm_tcp_start_thread(struct tcp_comm *comm);
void sl_comm_tcp_stop_thread(struct tcp_comm *comm);
void sl_comm_tcp_wake(struct tcp_comm *comm);

/* tcp_peer.c. Heartbeats, failures and lost ranks; called by the thread. */
void sl_comm_tcp_beat(struct tcp_comm *comm);
void sl_comm_tcp_check_lost(struct tcp_comm *comm, int64_t now_ns, int64_t away_ns);
/* Reports the pending loss after telling_ns, when all ranks have sent what they wait for. */
void sl_comm_tcp_tell_loss(struct tcp_comm *comm, int64_t now_ns);
void sl_comm_tcp_keep_state(struct tcp_comm *comm, int rank, int64_t size_bytes);
bool sl_comm_tcp_look(struct sl_comm *base, int rank, void *out, int64_t size_bytes,
                      int64_t *age_ns);
bool sl_comm_tcp_is_lost(struct sl_comm *base, int rank);
void sl_comm_tcp_who(struct sl_comm *base, int rank, char out[SL_WHO_TEXT]);
void sl_comm_tcp_announce(struct tcp_comm *comm);
void sl_comm_tcp_closed(struct tcp_comm *comm, int rank, const char *why);
void sl_comm_tcp_hear_failure(struct tcp_comm *comm, int rank, const char *bytes,
                              int64_t size_bytes);

#endif
