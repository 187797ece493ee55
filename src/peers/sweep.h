/* The bottleneck search shared by the peers' cost models: can every stage be at most T?
 *
 * Downsets are visited from the full one to the empty one, so that a stage knows what comes after
 * it. On each the sweep keeps the states (devices used, replicas used by later stages) that no
 * other state dominates: fewer devices leave more for the rest, fewer later replicas mean fewer
 * micro-batches in flight. For one limit T only the smallest replication of a stage that stays
 * within T is of interest, so a sweep is cheap; the best T is found by bisection on real plans:
 *
 *     lower bound ----- infeasible T ------[ gap ]------ objective of the best plan so far
 *
 * and a last sweep just below the best plan proves it. Sweeps are the dearer the looser their
 * limit: one that takes more than half of the effort left is stopped, and the search goes on with
 * tighter ones. What makes sweeps cheap on wide graphs is the device count: the work of a downset
 * that is still to do needs work / T devices, and a pair of downsets is looked at only when the
 * stage between them leaves enough for it.
 */
#ifndef SL_PEERS_SWEEP_H
#define SL_PEERS_SWEEP_H

#include "base/vec.h"
#include "graph/ideals.h"

#include <math.h>

struct sl_sweep_state {
    int ideal;    /* what is still to do */
    int devices;  /* used by this stage and all later ones */
    int replicas; /* the same in replicas (or in CPUs: whatever the model counts second) */
    int from;     /* state after this stage; -1: none */
    int d, t;     /* replication and tensor parallelism of the stage, or what the model means */
    int next;     /* state of the same ideal; -1: none */
};

struct sl_sweep_corner {
    int devices, replicas;
};

struct sl_sweep {
    const struct sl_ideals *ideals; /* sorted by `work` */
    const double *work;             /* device time an ideal needs at least */
    int devices, replicas;          /* most of them */
    double free_work;               /* per unit of T: work that needs no device (CPUs) */
    int stage_devices;              /* most of one stage */
    int step_replicas;              /* least that a stage on devices adds */
    bool (*without)(struct sl_sweep *sweep, int larger, int smaller); /* a stage without devices? */
    /* May the stage fit in memory? A larger one fits no better. NULL: there is no telling. */
    bool (*holds)(struct sl_sweep *sweep, int larger, int smaller);
    /* Adds the states that the stage larger \ smaller makes possible, for every state of larger. */
    void (*pair)(struct sl_sweep *sweep, int larger, int smaller);
    /* The plan that ends in this state; returns its objective, at most the limit. */
    double (*accept)(struct sl_sweep *sweep, int state);
    void *ctx;
    /* [ideals] what a stage on one device pays for an end here, at least, when its work is at least
     * border_from. NULL: no more than its work is known. Only where stages have one device. */
    const double *border;
    double border_from;
    bool nested; /* each downset contains all smaller ones */
    /* the running sweep */
    double limit;
    int left;                       /* devices that the larger downset of the pair leaves at most */
    int *head;                      /* [ideals] first state or -1 */
    int *need;                      /* [ideals] devices that the rest takes at least */
    int *need_tight, *need_alone;   /* the same with borders; without free work */
    double *cheapest;               /* [level][ideals] least border of the 2^level from one on */
    struct sl_sweep_corner *corner; /* [ideals] one of the states, beside one another in memory */
    SL_VEC(struct sl_sweep_state) states;
    int64_t pairs, sweeps; /* statistics over all sweeps */
    /* Steps of some nanoseconds, which pair() counts, too: the same input takes the same number.
     * A sweep that is stopped says nothing. */
    int64_t effort, effort_max; /* of all sweeps; 0: as usual */
    int64_t effort_now;         /* how far the running one may go */
    int64_t until_ns;           /* sl_clock_ns at which to stop; 0: never */
    bool may_stop; /* for effort: a plan is there, or need not be; set when one is found */
    bool stopped, timed_out;
};

void sl_peers_sweep_open(struct sl_sweep *sweep, struct sl_arena *arena);
void sl_peers_sweep_close(struct sl_sweep *sweep);

/* With borders: what the running limit makes of them (sweep_border.c). */
void sl_peers_sweep_border_open(struct sl_sweep *sweep, struct sl_arena *arena);
void sl_peers_sweep_border_needs(struct sl_sweep *sweep);

/* Offer a state; dropped when it breaks a limit or is dominated. */
void sl_peers_sweep_add(struct sl_sweep *sweep, struct sl_sweep_state state);

/* Smallest objective, to 1e-9 of itself. `*low` is a proven lower bound that rises, `*high` the
 * best plan so far (INFINITY: none) that falls; they meet unless effort or time ran out.
 * False: no plan was found. */
bool sl_peers_sweep_search(struct sl_sweep *sweep, double *low, double *high);

#endif
