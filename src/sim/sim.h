/* The simulator runs a verified schedule on a cost table, in exact integer nanoseconds.
 *
 *     sl_sched + sl_sim_opts --sl_sim_run--> sl_sim: times per worker and seat, step, peak bytes
 *
 * Rules of time (docs/design/0007-simulator.md):
 *   - A worker runs its actions in order. A pass starts when the worker is free, its inputs have
 *     arrived and the buffers it writes are free. It takes dur_ns of its stage and kind; a short
 *     micro-batch takes its share, rounded up. A pass after a wait may take longer (cost/cold.h),
 *     and workers may have a tempo (cost/tempo.h).
 *   - RECV posts and takes no time. SEND depends on the mode, below. The transfer starts when both
 *     are posted and every wire of its route is free. It takes
 *         bytes / bandwidth of the slowest wire   (wires are busy)
 *         + latency                               (wires are free)
 *     A wire carries one transfer at a time; the one that is ready first goes first.
 *   - REDUCE waits for its group; the reduction lasts as long as the longest REDUCE in it.
 *   - Bytes count from the action that takes a slot to the action that frees it, in program order,
 *     so they do not depend on times. */
#ifndef SL_SIM_SIM_H
#define SL_SIM_SIM_H

#include "cost/cold.h"
#include "cost/tempo.h"
#include "sched/timeline.h"

enum sl_sim_send {
    SL_SEND_OVERLAP,    /* returns at once; the next writer of the buffer waits for the transfer */
    SL_SEND_RENDEZVOUS, /* waits until the receive is posted; the verifier assumes this */
    SL_SEND_BLOCKING,   /* waits until the data has left */
};

/* A network is a function from two workers to the wires between them. A wire is any number; routes
 * with the same number share the wire. */
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
    /* As in a real run, the transport posts receives into its own buffers from the start: a
     * transfer does not wait for its RECV, which only takes a message that has arrived. */
    bool early;
};

/* A network of equal links. */
enum sl_sim_sharing {
    SL_SHARE_NONE,   /* a link between every two workers */
    SL_SHARE_WORKER, /* each worker has one port */
    SL_SHARE_ALL,    /* one wire for all */
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
    struct sl_cold cold;                    /* see cost/cold.h; all 0: no extra time */
    struct sl_tempo tempo;                  /* see cost/tempo.h; passes 0: no variation */
    int64_t first_pass; /* index in the tempo of the first pass of every worker */
    enum sl_sim_send send;
    struct sl_sim_net net; /* route NULL: messages take no time */
    /* false: computes totals only, in memory that does not grow with the repetitions */
    bool timeline;
};

struct sl_sim_worker {
    int64_t busy_ns;           /* time of passes, REDUCE, STEP, PREDICT */
    int64_t first_ns, last_ns; /* start of its first and end of its last action that takes time */
    int64_t peak_bytes;        /* never more than sl_sched_worker_bytes */
};

struct sl_sim_seat {
    int64_t busy_ns;    /* time of the passes of this stage replica */
    int64_t live;       /* most micro-batches between F and B or I */
    int64_t peak_bytes; /* weights, gradients, state, slots in use, workspace */
};

struct sl_sim {
    int64_t end_ns;  /* end of the last action or transfer */
    int64_t step_ns; /* one iteration: end_ns; several: mean time between steps, rounded */
    int64_t actions, transfers, moved_bytes; /* numbers for the whole run, with its repetitions */
    int32_t played_reps; /* repetitions that were simulated; the others repeat them exactly */
    const struct sl_sim_worker *workers; /* [worker] */
    const struct sl_sim_seat *seats;     /* [seat] */
    const struct sl_timeline *timeline;  /* NULL unless opts.timeline */
};

/* Simulates a schedule that has passed sl_sched_verify (sl_schedules_build calls it).
 * SL_ERR_REFUSED if times do not fit into 64 bits. */
SL_MUST_CHECK sl_err sl_sim_run(struct sl_arena *arena, const struct sl_sched *sched,
                                const struct sl_sim_opts *opts, const struct sl_sim **out);

/* Returns the idle time of a worker within the whole run. */
int64_t sl_sim_bubble(const struct sl_sim *sim, int worker);
/* Returns a lower bound on the run if workers w, w + devices, w + 2 devices, ... share device w:
 * the largest total busy time of a device. */
int64_t sl_sim_shared_ns(const struct sl_sim *sim, int workers, int devices);

/* Parses 'F=3,I=2,W=2', or per stage 'a:F=3,B=4;b:F=5,B=6' (names or numbers; a part without a
 * stage holds for all stages), into dur[stage][kind]. Values are nanoseconds or have a unit: ns us
 * ms s. Defaults: B = I + W, I = W = B/2, RECOMPUTE = F. SL_ERR_USAGE if the text is wrong. */
SL_MUST_CHECK sl_err sl_sim_costs(const struct sl_plan *plan, const char *text,
                                  int64_t (*dur)[SL_KIND_COUNT]);
/* Parses
 * 'latency=5us,bandwidth=10Gb/s,duplex=half,sharing=none|worker|all,receive=early|posted'. */
SL_MUST_CHECK sl_err sl_sim_links_parse(const char *text, struct sl_sim_links *out);
/* Parses 'F=40us,B=90us,after=5ms': extra time of a pass after a wait (cost/cold.h). */
SL_MUST_CHECK sl_err sl_sim_cold_parse(const char *text, struct sl_cold *out);

#endif
