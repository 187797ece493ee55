/* The simulator: plays a verified schedule on costs, in exact integer nanoseconds.
 *
 * What is assumed about time (docs/design/0007-simulator.md has the page):
 *   - A worker does its actions in order. A pass starts when the worker is free, its inputs have
 *     arrived and the buffers it writes are free; it takes dur_ns of its stage and kind. A short
 *     micro-batch takes its share, rounded up.
 *     A pass that had to wait may take longer (cost/cold.h), and workers may have a tempo
 *     (cost/tempo.h).
 *   - RECV posts and takes no time. SEND depends on the mode, below; the transfer itself starts
 * when both are there and every wire of its route is free, and takes bytes / bandwidth of the
 * slowest wire (wires are busy)  +  latency (wires are free) A wire carries one transfer at a time;
 * the first that is ready goes first.
 *   - REDUCE meets the others of its group; the meeting lasts the longest REDUCE of its members.
 *   - Bytes count from the action that takes a slot to the one that gives it back, in program
 * order, so that they do not depend on times.
 */
#ifndef SL_SIM_SIM_H
#define SL_SIM_SIM_H

#include "cost/cold.h"
#include "cost/tempo.h"
#include "sched/timeline.h"

enum sl_sim_send {
    SL_SEND_OVERLAP,    /* hands the buffer over and goes on; who fills that buffer again waits */
    SL_SEND_RENDEZVOUS, /* waits until the receive is posted: what the verifier proves with */
    SL_SEND_BLOCKING,   /* waits until the data has left */
};

/* A network is a function from two workers to the wires between them. Wires are named by any
 * number; the same number is the same wire, however many routes use it. */
enum { SL_SIM_WIRES = 4 };

struct sl_sim_wire {
    uint64_t name;
    int64_t bytes_per_s; /* 0: no limit */
};

struct sl_sim_route {
    struct sl_sim_wire wires[SL_SIM_WIRES];
    int wire_count;
    int64_t latency_ns;
};

struct sl_sim_net {
    void (*route)(const void *ctx, int from, int to, struct sl_sim_route *out);
    const void *ctx;
    /* Receives are posted from the start, into places of the transport, as in a run: a transfer
     * does not wait for its RECV, which only takes what has come. */
    bool early;
};

/* Links that are all alike. */
enum sl_sim_sharing {
    SL_SHARE_NONE,   /* a link between every two workers */
    SL_SHARE_WORKER, /* each worker has one port */
    SL_SHARE_ALL,    /* one wire for everybody */
};

struct sl_sim_links {
    int64_t latency_ns, bytes_per_s;
    bool half_duplex; /* both directions share the link or port */
    bool early;       /* see sl_sim_net */
    enum sl_sim_sharing sharing;
};
struct sl_sim_net sl_sim_uniform(const struct sl_sim_links *links); /* keeps the pointer */

struct sl_sim_opts {
    const int64_t (*dur_ns)[SL_KIND_COUNT]; /* [stage]; NULL: those in the schedule */
    struct sl_cold cold;                    /* cost/cold.h; all 0: none */
    struct sl_tempo tempo;                  /* cost/tempo.h; no passes: every pass as it stands */
    int64_t first_pass;                     /* of the tempo, for every worker's first */
    enum sl_sim_send send;
    struct sl_sim_net net; /* route NULL: messages take no time */
    bool timeline;         /* else totals only, in memory that does not grow with
                              the number of repetitions */
};

struct sl_sim_worker {
    int64_t busy_ns;           /* passes, REDUCE, STEP, PREDICT */
    int64_t first_ns, last_ns; /* start of its first, end of its last timed action */
    int64_t peak_bytes;        /* never more than sl_sched_worker_bytes */
};

struct sl_sim_seat {
    int64_t busy_ns;    /* passes of this stage replica */
    int64_t live;       /* micro-batches between F and B or I, the most at any time */
    int64_t peak_bytes; /* weights, gradients, state, slots in use, workspace */
};

struct sl_sim {
    int64_t end_ns;  /* of the last action or transfer */
    int64_t step_ns; /* one iteration: end_ns; several: mean time from step to step, rounded */
    int64_t actions, transfers, moved_bytes; /* of the whole run, repetitions included */
    int32_t played_reps;                     /* the rest repeat them exactly and are only counted */
    const struct sl_sim_worker *workers;     /* [worker] */
    const struct sl_sim_seat *seats;         /* [seat] */
    const struct sl_timeline *timeline;      /* NULL unless asked for */
};

/* `sched` must have passed sl_sched_verify (sl_sched_build sees to it). SL_ERR_REFUSED when times do not
 * fit into 64 bits. */
SL_MUST_CHECK sl_err sl_sim_run(struct sl_arena *arena, const struct sl_sched *sched,
                                const struct sl_sim_opts *opts, const struct sl_sim **out);

/* Idle time of a worker within the whole run. */
int64_t sl_sim_bubble(const struct sl_sim *sim, int worker);
/* Workers w, w + devices, w + 2 devices, ... on device w: what those of one compute together, of
 * the device with the most. Where they share its time, the run takes at least that. */
int64_t sl_sim_shared_ns(const struct sl_sim *sim, int workers, int devices);

/* 'F=3,I=2,W=2' or per stage 'a:F=3,B=4;b:F=5,B=6' (names or numbers; a part without a stage is for
 * all). Values are nanoseconds, or carry ns us ms s. B is I + W when it is not given, and the other
 * way round I and W halve B; RECOMPUTE is F. Fills dur[stage][kind]. SL_ERR_USAGE. */
SL_MUST_CHECK sl_err sl_sim_costs(const struct sl_plan *plan, const char *text,
                                  int64_t (*dur)[SL_KIND_COUNT]);
/* 'latency=5us,bandwidth=10Gb/s,duplex=half,sharing=none|worker|all,receive=early|posted' */
SL_MUST_CHECK sl_err sl_sim_links_parse(const char *text, struct sl_sim_links *out);
/* 'F=40us,B=90us,after=5ms': what a pass takes more after a wait, as cost/cold.h has it. */
SL_MUST_CHECK sl_err sl_sim_cold_parse(const char *text, struct sl_cold *out);

#endif
