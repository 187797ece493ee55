/* Moving data between workers: channels and groups over a transport.
 *
 * A transport connects processes (ranks); a process may run several workers. Every rank opens
 * all channels and groups in the same order, even those that it does not use, so that ids agree.
 * One thread uses each end of a channel and each member of a group.
 *
 *   channel   one way, from one worker to another, a ring of places:
 *                sender:    reserve(n) fill send(n)         receiver:  receive(n) read release(n)
 *   group     a set of workers with collectives: barrier, merge of small tables, and sum of large
 *             vectors in a fixed order
 *
 *   open -> channels and groups -> settle (exchange the first error) -> close
 *
 * When a worker fails (sl_comm_fail), all waiting workers of all processes return its error.
 * Results do not depend on the transport: all give the same bits. */
#ifndef SL_COMM_COMM_H
#define SL_COMM_COMM_H

#include "comm/gate.h"
#include "comm/job.h"
#include "comm/life.h"
#include "device/device.h"

struct sl_transport;

/* An open transport, as this process sees it. A transport appends its own fields. */
struct sl_comm {
    const struct sl_transport *row;
    struct sl_gate gate;
    int rank, ranks;
    bool broken;                /* set by settle: a rank did not answer, so close ends the job */
    atomic_int_least64_t bytes; /* bytes of memory of this process's channels and groups */
    int speaker; /* the rank that prints the error: 0, or the lowest rank that is not lost */
    /* number of messages or bytes that have arrived; a change is progress */
    atomic_int_least64_t moved;
    /* The transport that carries heartbeats instead of this one; NULL: this one does, or none. */
    struct sl_comm *life;
    pthread_mutex_t hooks_mutex; /* no other lock of the transport may be held when it is taken */
    struct sl_comm_hooks hooks;
    void (*say)(
        const char *message); /* called as soon as a rank is lost; NULL: the loss is reported at
                               * the end */
    bool said;
};

/* The parts of open and close that all transports share. */
void sl_comm_init(struct sl_comm *comm);
void sl_comm_done(struct sl_comm *comm);

SL_MUST_CHECK sl_err sl_comm_open(const struct sl_transport *row, const struct sl_comm_job *job,
                                  struct sl_comm **out);
/* Exchanges results before close: `err` is the result of this rank. Waits for all ranks and returns
 * the first error of any. Print everything before close: launchers may kill the other ranks after
 * the first one exits. */
SL_MUST_CHECK sl_err sl_comm_settle(struct sl_comm *comm, sl_err err);
void sl_comm_close(struct sl_comm *comm); /* comm may be NULL */
/* Records that this worker failed, with the error of its thread. */
void sl_comm_fail(struct sl_comm *comm, sl_err err);

/* Makes progress, for transports without a thread (MPI). Cheap; called between actions. */
void sl_comm_poll(struct sl_comm *comm);

/* Returns the rank of a worker; ranks have consecutive blocks of workers. */
int sl_comm_rank_of(const struct sl_comm *comm, int worker, int worker_count);

/* All-reduce by bitwise or, called by one thread per rank while no worker runs. For tables in which
 * every entry is set by one rank and zero on the others. */
SL_MUST_CHECK sl_err sl_comm_merge(struct sl_comm *comm, void *bytes, int64_t size_bytes);

/* Compares a hash of `what` over all ranks. If they differ, all ranks fail, and the message names
 * the rank that differs. */
SL_MUST_CHECK sl_err sl_comm_agree(struct sl_comm *comm, const char *what, uint64_t hash);

/* Exchanges errors before a collective operation: `err` is the state of this rank. Returns SL_OK if
 * all ranks passed SL_OK, else, on all ranks, the error of the first rank that did not. The
 * transport stays usable. */
SL_MUST_CHECK sl_err sl_comm_consent(struct sl_comm *comm, sl_err err);

/* ---- channels ---- */

struct sl_channel_spec {
    int from, to; /* ranks */
    int places;
    int64_t size_bytes; /* bytes of the largest message */
    /* the receiver's device, whose memory holds the places; NULL: host memory */
    struct sl_device *device;
    /* the sender's device if the sender is in this process; NULL: host memory */
    struct sl_device *sender;
    bool ipc; /* both devices are of one kind and have their own memory: try to share it (ipc.h) */
};

struct sl_channel {
    struct sl_comm *comm;
    struct sl_channel_spec spec;
};

/* A message that has arrived. */
struct sl_message {
    const char *at;
    int64_t size_bytes;
    int64_t arrived_ns; /* when it arrived, by sl_clock_ns of this process */
};

SL_MUST_CHECK sl_err sl_comm_channel_open(struct sl_comm *comm, const struct sl_channel_spec *spec,
                                          struct sl_channel **out);
void sl_comm_channel_close(struct sl_channel *channel); /* channel may be NULL */
/* Message n occupies place n mod places from reserve to release. Messages in one place arrive in
 * the order in which they were sent.
 * reserve waits for a free place: fill `*out`, then call send. */
SL_MUST_CHECK sl_err sl_comm_channel_reserve(struct sl_channel *channel, int64_t n, char **out);
SL_MUST_CHECK sl_err sl_comm_channel_send(struct sl_channel *channel, int64_t n,
                                          int64_t size_bytes);
/* receive waits for message n: read it, then call release. */
SL_MUST_CHECK sl_err sl_comm_channel_receive(struct sl_channel *channel, int64_t n,
                                             struct sl_message *out);
SL_MUST_CHECK sl_err sl_comm_channel_release(struct sl_channel *channel, int64_t n);

/* ---- groups ---- */

struct sl_group_spec {
    int member_count;
    const int *ranks;  /* [member_count] rank of each member */
    int64_t table_max; /* entries of the largest table; 0: there are no tables */
    int term_count;    /* number of terms of a sum; 0: there are no sums */
    const int *terms;  /* [term_count] the member that has each term, in the order of the sum */
    int64_t sum_max;   /* floats of the longest sum */
    struct sl_device *const *devices; /* [member_count] devices of the members in this process */
    bool ipc; /* share device memory between all members, as in sl_channel_spec */
};

struct sl_group {
    struct sl_comm *comm;
    struct sl_group_spec spec; /* a copy */
};

SL_MUST_CHECK sl_err sl_comm_group_open(struct sl_comm *comm, const struct sl_group_spec *spec,
                                        struct sl_group **out);
void sl_comm_group_close(struct sl_group *group); /* group may be NULL */

/* All members call the same functions in the same order. */
SL_MUST_CHECK sl_err sl_comm_group_meet(struct sl_group *group, int member);
/* All-gather of a table in which every entry is set by one member and zero (all bits) on the
 * others. */
SL_MUST_CHECK sl_err sl_comm_group_merge(struct sl_group *group, int member, double *table,
                                         int64_t count);
/* out[i] = terms[0][i] + terms[1][i] + ..., added in this order with one rounding each. A member
 * passes its own terms in ascending order and must not touch them or `out` until sum_end returns;
 * `out` may be one of them. Between begin and end a member can do other work; each call of
 * sum_poke makes progress without waiting. */
SL_MUST_CHECK sl_err sl_comm_group_sum_begin(struct sl_group *group, int member,
                                             const float *const *terms, int64_t count, float *out);
SL_MUST_CHECK sl_err sl_comm_group_sum_poke(struct sl_group *group, int member);
SL_MUST_CHECK sl_err sl_comm_group_sum_end(struct sl_group *group, int member);

/* ---- transports ---- */

struct sl_transport {
    const char *name, *brief;
    const char *module; /* file with the rest of the row; NULL: the row is complete in this build */
    const char *made_for; /* library that the module was built for; NULL: there is no module */
    bool one_process;     /* connects threads of one process, so there is one rank */
    bool has_launcher;    /* its launcher numbers the ranks (MPI), so open ignores the job */
    sl_err (*open)(const struct sl_comm_job *job, struct sl_comm **out); /* job may be NULL */
    sl_err (*settle)(struct sl_comm *comm, sl_err err);
    void (*close)(struct sl_comm *comm);
    void (*failed)(
        struct sl_comm
            *comm); /* called after a failure in this process; NULL: the transport polls for
                     * failures */
    sl_err (*merge)(struct sl_comm *comm, void *bytes, int64_t size_bytes);
    /* Heartbeats; NULL: the transport has none. */
    bool (*look)(struct sl_comm *comm, int rank, void *out, int64_t size_bytes, int64_t *age_ns);
    bool (*is_lost)(struct sl_comm *comm, int rank);
    void (*who)(struct sl_comm *comm, int rank, char out[SL_WHO_TEXT]);

    sl_err (*channel_open)(struct sl_comm *comm, const struct sl_channel_spec *spec,
                           struct sl_channel **out);
    void (*channel_close)(struct sl_channel *channel);
    sl_err (*reserve)(struct sl_channel *channel, int64_t n, char **out);
    sl_err (*send)(struct sl_channel *channel, int64_t n, int64_t size_bytes);
    sl_err (*receive)(struct sl_channel *channel, int64_t n, struct sl_message *out);
    sl_err (*release)(struct sl_channel *channel, int64_t n);

    sl_err (*group_open)(struct sl_comm *comm, const struct sl_group_spec *spec,
                         struct sl_group **out);
    void (*group_close)(struct sl_group *group);
    sl_err (*group_merge)(struct sl_group *group, int member, double *table, int64_t count);
    sl_err (*sum_begin)(struct sl_group *group, int member, const float *const *terms,
                        int64_t count, float *out);
    sl_err (*sum_poke)(struct sl_group *group, int member);
    sl_err (*sum_end)(struct sl_group *group, int member);
};

/* All rows of this build in alphabetical order; ends with NULL. */
extern const struct sl_transport *const sl_comm_transports[];
/* Finds a transport, and loads the module of its row if it has one. SL_ERR_USAGE if there is no
 * transport of that name. */
SL_MUST_CHECK sl_err sl_comm_transport_find(const char *name, const struct sl_transport **out);

#endif
