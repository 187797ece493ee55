/* Moving data between workers: channels and groups over a transport.
 *
 * A transport connects processes (ranks); several workers may live in one. Every rank opens all
 * channels and groups in the same order, also those it has no part in, so that they agree on who
 * is who. What is open is used by one thread per end and per member.
 *
 *   channel   one way, from one worker to another, a ring of places:
 *                sender:    reserve(n) fill send(n)         receiver:  receive(n) read release(n)
 *   group     workers that meet again and again: to wait for each other, to share small tables,
 *             to add up large vectors in a fixed order
 *
 * When one worker fails (sl_comm_fail), everyone who waits, in every process, gets its error.
 * Results never depend on the transport: the same bits on all.
 */
#ifndef SL_COMM_COMM_H
#define SL_COMM_COMM_H

#include "comm/gate.h"
#include "comm/life.h"
#include "device/device.h"

struct sl_transport;

/* A transport that is open: this process's view. Transports put their own fields behind. */
struct sl_comm {
    const struct sl_transport *row;
    struct sl_gate gate;
    int rank, ranks;
    bool broken;                /* after settling: some rank did not answer, and close ends all */
    int64_t bytes;              /* of the channels and groups of this process, both ends' rings */
    int speaker;                /* who says what went wrong: 0, unless it is lost */
    atomic_int_least64_t moved; /* grows while messages come in */
    /* A transport that brings signs of life, for one that has none; NULL: none, or this itself. */
    struct sl_comm *life;
    pthread_mutex_t hooks_mutex; /* never taken under another lock of the transport */
    struct sl_comm_hooks hooks;
    void (*say)(const char *message); /* at once, when a rank is lost; NULL: at the end */
    bool said;
};

/* What all transports begin and end with. */
void sl_comm_init(struct sl_comm *comm);
void sl_comm_done(struct sl_comm *comm);

/* Which rank of which job this process is, for transports whose launcher does not tell. */
struct sl_comm_job {
    int rank, ranks;
    char meet[320]; /* HOST:PORT of rank 0; "": there is one rank */
    bool anywhere;  /* rank 0 listens at all its addresses: HOST may mean another one there */
    int meet_fd;    /* that listens there already, or -1 */
    uint64_t key;   /* of the job: strangers are turned away */
    int64_t patience_ns;
};
/* job.c: from SLUICE_RANK, SLUICE_RANKS, SLUICE_MEET, SLUICE_KEY, ..., else from what srun sets;
 * lookup is getenv. One rank where nothing is set. */
SL_MUST_CHECK sl_err sl_comm_job_read(char *(*lookup)(const char *name), struct sl_comm_job *out);
/* Is this process one of several tasks of a Slurm step? */
bool sl_comm_job_is_step(char *(*lookup)(const char *name));

SL_MUST_CHECK sl_err sl_comm_open(const struct sl_transport *row, const struct sl_comm_job *job,
                                  struct sl_comm **out);
/* Before the end: `err` is how it went here; waits for the others and returns the first error of
 * all. Then close; launchers may kill what is left when the first rank has gone, so everything is
 * said between the two. */
SL_MUST_CHECK sl_err sl_comm_settle(struct sl_comm *comm, sl_err err);
void sl_comm_close(struct sl_comm *comm); /* NULL is fine */
/* This worker failed with the error recorded in its thread. */
void sl_comm_fail(struct sl_comm *comm, sl_err err);

/* Let a transport that needs it move what is under way; cheap. Called between actions. */
void sl_comm_poll(struct sl_comm *comm);

/* Workers are dealt over the ranks in blocks. */
int sl_comm_rank_of(const struct sl_comm *comm, int worker, int worker_count);

/* Bitwise or of all ranks' bytes, everywhere; one thread per rank, while no worker runs. Used for
 * tables in which every entry has one owner and is zero elsewhere. */
SL_MUST_CHECK sl_err sl_comm_merge(struct sl_comm *comm, void *bytes, int64_t size_bytes);

/* All ranks come with the same hash of `what`, or all fail and name who does not. */
SL_MUST_CHECK sl_err sl_comm_agree(struct sl_comm *comm, const char *what, uint64_t hash);

/* Before something that all ranks do together: `err` is how this one got there. SL_OK only if all
 * are well, else the error of the first that is not, everywhere; nothing has failed by that. */
SL_MUST_CHECK sl_err sl_comm_consent(struct sl_comm *comm, sl_err err);

/* ---- channels ---- */

struct sl_channel_spec {
    int from, to; /* ranks */
    int places;
    int64_t size_bytes;       /* of the largest message */
    struct sl_device *device; /* of who receives: places are its memory; NULL: the host's */
    struct sl_device *sender; /* of who sends, where it is here; NULL: it fills from the host */
    bool ipc; /* devices of both are of one kind and apart, as all ranks know: may share memory */
};

struct sl_channel {
    struct sl_comm *comm;
    struct sl_channel_spec spec;
};

/* A message that has arrived. */
struct sl_message {
    const char *at;
    int64_t size_bytes;
    int64_t arrived_ns; /* sl_clock_ns of this process */
};

SL_MUST_CHECK sl_err sl_comm_channel_open(struct sl_comm *comm, const struct sl_channel_spec *spec,
                                          struct sl_channel **out);
void sl_comm_channel_close(struct sl_channel *channel); /* NULL is fine */
/* Message n lies in place n mod places, from reserve to release; within a place, messages come in
 * the order they were sent, and both ends use it in the same order.
 * Wait for the place to be free; fill `*out`; then send. */
SL_MUST_CHECK sl_err sl_comm_channel_reserve(struct sl_channel *channel, int64_t n, char **out);
SL_MUST_CHECK sl_err sl_comm_channel_send(struct sl_channel *channel, int64_t n,
                                          int64_t size_bytes);
/* Wait for message n; read it; then release. */
SL_MUST_CHECK sl_err sl_comm_channel_receive(struct sl_channel *channel, int64_t n,
                                             struct sl_message *out);
SL_MUST_CHECK sl_err sl_comm_channel_release(struct sl_channel *channel, int64_t n);

/* ---- groups ---- */

struct sl_group_spec {
    int member_count;
    const int *ranks;                 /* [member_count] where each member lives */
    int64_t table_max;                /* entries of the largest table, 0: none */
    int term_count;                   /* of a sum, 0: none */
    const int *terms;                 /* [term_count] whose each one is, in the order of the sum */
    int64_t sum_max;                  /* floats of the longest sum */
    struct sl_device *const *devices; /* [member_count] of the members here: they add */
    bool ipc;                         /* of all members, as for channels */
};

struct sl_group {
    struct sl_comm *comm;
    struct sl_group_spec spec; /* copied */
};

SL_MUST_CHECK sl_err sl_comm_group_open(struct sl_comm *comm, const struct sl_group_spec *spec,
                                        struct sl_group **out);
void sl_comm_group_close(struct sl_group *group); /* NULL is fine */

/* All members call the same functions in the same order. */
SL_MUST_CHECK sl_err sl_comm_group_meet(struct sl_group *group, int member);
/* A table in which every entry has one owner and is zero (all bits) with the others: afterwards
 * everyone has all of it. */
SL_MUST_CHECK sl_err sl_comm_group_merge(struct sl_group *group, int member, double *table,
                                         int64_t count);
/* out[i] = terms[0][i] + terms[1][i] + ..., added in this order with one rounding each. A member
 * gives its own terms, in ascending order, and must leave them and `out` alone until the end has
 * returned; `out` may be one of them, and no member may touch another's. Between begin and end a
 * member can work on other things; each poke does what can be done by then without waiting. */
SL_MUST_CHECK sl_err sl_comm_group_sum_begin(struct sl_group *group, int member,
                                             const float *const *terms, int64_t count, float *out);
SL_MUST_CHECK sl_err sl_comm_group_sum_poke(struct sl_group *group, int member);
SL_MUST_CHECK sl_err sl_comm_group_sum_end(struct sl_group *group, int member);

/* ---- transports ---- */

struct sl_transport {
    const char *name, *brief;
    const char *module;   /* file that holds the rest of the row; NULL: this build does */
    const char *made_for; /* of a module: the library it was built for; NULL: none */
    bool one_process;     /* connects threads of one process: there is one rank */
    bool has_launcher;    /* its own launcher numbers the ranks (MPI): open ignores the job */
    sl_err (*open)(const struct sl_comm_job *job, struct sl_comm **out); /* job: may be NULL */
    sl_err (*settle)(struct sl_comm *comm, sl_err err);
    void (*close)(struct sl_comm *comm);
    void (*failed)(struct sl_comm *comm); /* the gate has failed here; NULL: it finds out */
    sl_err (*merge)(struct sl_comm *comm, void *bytes, int64_t size_bytes);
    /* Signs of life; NULL where there are none. */
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

/* All that this build knows, in alphabetical order; ends with NULL. */
extern const struct sl_transport *const sl_comm_transports[];
/* Loads the module of the row where it has one. SL_ERR_USAGE when there is none of that name. */
SL_MUST_CHECK sl_err sl_comm_transport_find(const char *name, const struct sl_transport **out);

#endif
