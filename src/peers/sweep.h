/* The bottleneck search of piper-tps and dnn-max-load: the smallest T such that every stage takes
 * at most T.
 *
 * A sweep visits the downsets from the full one to the empty one, so a stage knows its later
 * stages. Each downset keeps the states (devices used, replicas of later stages) that no other
 * state dominates: fewer devices leave more for the rest, fewer later replicas mean fewer
 * micro-batches in flight. For one limit T only the smallest replication of a stage within T
 * matters, so a sweep is cheap. Bisection on real plans finds the best T:
 *
 *     lower bound ----- infeasible T ------[ gap ]------ objective of the best plan so far
 *
 * and a last sweep just below the best plan proves it. Looser limits make sweeps slower. A sweep
 * that takes more than half of the remaining effort is stopped, and the search continues with
 * tighter limits. On wide graphs the device count prunes: the remaining work of a downset needs
 * work / T devices, so pairs that leave fewer devices are skipped.
 */
#ifndef SL_PEERS_SWEEP_H
#define SL_PEERS_SWEEP_H

#include "base/vec.h"
#include "graph/ideals.h"

#include <math.h>

struct sl_sweep_state {
    int ideal;    /* the remaining downset */
    int devices;  /* used by this stage and all later ones */
    int replicas; /* used by them; dnn-max-load: CPU cores */
    int from;     /* state after this stage; -1: none */
    int d, t;     /* replicas and tensor-parallel degree of the stage; defined by the cost model */
    int next;     /* state of the same ideal; -1: none */
};

struct sl_sweep_corner {
    int devices, replicas;
};

struct sl_sweep {
    const struct sl_ideals *ideals; /* sorted by `work` */
    const double *work;             /* lower bound on the device time of an ideal */
    int devices, replicas;          /* max */
    double free_work;               /* per unit of T: work that needs no device (CPUs) */
    int stage_devices;              /* max of one stage */
    int step_replicas;              /* min replicas that a stage on devices adds */
    bool (*without)(struct sl_sweep *sweep, int larger, int smaller); /* a stage without devices? */
    /* May the stage fit in memory? Monotone: a larger stage fits no better. NULL: unknown. */
    bool (*holds)(struct sl_sweep *sweep, int larger, int smaller);
    /* Adds the states of `smaller` that the stage larger \ smaller gives, for every state of
     * `larger`. */
    void (*pair)(struct sl_sweep *sweep, int larger, int smaller);
    /* The plan that ends in this state; returns its objective, at most the limit. */
    double (*accept)(struct sl_sweep *sweep, int state);
    void *ctx;
    /* [ideals] lower bound on the cost of a border at this downset for a stage on one device whose
     * work is at least border_from. NULL: none. Only if every stage has one device. */
    const double *border;
    double border_from;
    bool nested; /* each downset contains all smaller ones */
    /* the running sweep */
    double limit;
    int left;                       /* max devices that the larger downset of the pair leaves */
    int *head;                      /* [ideals] first state or -1 */
    int *need;                      /* [ideals] lower bound on the devices for the rest */
    int *need_tight, *need_alone;   /* the same with borders; without free work */
    double *cheapest;               /* [level][ideals] minimum border of 2^level downsets */
    struct sl_sweep_corner *corner; /* [ideals] the last added state, for a quick test */
    SL_VEC(struct sl_sweep_state) states;
    int64_t pairs, sweeps; /* statistics over all sweeps */
    /* Elementary steps, deterministic; pair() adds its own. A stopped sweep decides nothing. */
    int64_t effort, effort_max; /* of all sweeps; 0: the default */
    int64_t effort_now;         /* limit of the running one */
    int64_t until_ns;           /* deadline by sl_clock_ns; 0: none */
    bool may_stop;              /* the limit on effort applies; set when a plan is found */
    bool stopped, timed_out;
};

void sl_peers_sweep_open(struct sl_sweep *sweep, struct sl_arena *arena);
void sl_peers_sweep_close(struct sl_sweep *sweep);

/* Updates need_tight and need_alone for the running limit (sweep_border.c). */
void sl_peers_sweep_border_open(struct sl_sweep *sweep, struct sl_arena *arena);
void sl_peers_sweep_border_needs(struct sl_sweep *sweep);

/* Adds a state unless it exceeds a limit or is dominated. */
void sl_peers_sweep_add(struct sl_sweep *sweep, struct sl_sweep_state state);

/* Smallest objective, to a relative 1e-9. *low: proven lower bound, raised; *high: objective of the
 * best plan (INFINITY: none), lowered. They meet unless effort or time ran out. False: no plan was
 * found. */
bool sl_peers_sweep_search(struct sl_sweep *sweep, double *low, double *high);

#endif
