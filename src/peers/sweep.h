/* The bottleneck search of piper-tps and dnn-max-load finds the smallest T for which a plan has
 * no stage that takes longer than T.
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
 * tighter limits. On wide graphs the number of devices prunes: the remaining work of a downset
 * needs work / T devices, so a pair that leaves fewer devices is skipped. */
#ifndef SL_PEERS_SWEEP_H
#define SL_PEERS_SWEEP_H

#include "base/vec.h"
#include "graph/ideals.h"

#include <math.h>

struct sl_sweep_state {
    int ideal;    /* the downset that remains to be planned */
    int devices;  /* number used by this stage and all later ones */
    int replicas; /* number of replicas of these stages; dnn-max-load: CPU cores they use */
    int from;     /* state after this stage; -1: this is the last stage */
    /* replicas and tensor-parallel degree of the stage; the cost model decides what they mean */
    int d, t;
    int next; /* next state of the same downset; -1: none */
};

struct sl_sweep_corner {
    int devices, replicas;
};

struct sl_sweep {
    const struct sl_ideals *ideals; /* sorted by `work` */
    const double *work;             /* [ideals] lower bound on the device time of a downset */
    int devices, replicas;          /* most devices and replicas of a plan */
    double free_work;               /* work per unit of T that needs no device (CPUs) */
    int stage_devices;              /* most devices of one stage */
    int step_replicas;              /* least number of replicas that a stage on devices adds */
    /* can the stage run without devices? */
    bool (*without)(struct sl_sweep *sweep, int larger, int smaller);
    /* Can the stage fit in memory? Monotone: a larger stage fits no better. NULL: unknown. */
    bool (*holds)(struct sl_sweep *sweep, int larger, int smaller);
    /* Adds the states of `smaller` that the stage larger \ smaller makes from the states of
     * `larger`. */
    void (*pair)(struct sl_sweep *sweep, int larger, int smaller);
    /* Builds the plan that ends in this state; returns its objective, at most the limit. */
    double (*accept)(struct sl_sweep *sweep, int state);
    void *ctx;
    /* [ideals] lower bound on the cost of a border at this downset, for a stage on one device whose
     * work is at least border_from. NULL: none. Allowed only if every stage has one device. */
    const double *border;
    double border_from;
    bool nested; /* each downset contains all smaller ones */
    /* fields of the running sweep: */
    double limit;
    int left;  /* most devices that the larger downset of the pair leaves */
    int *head; /* [ideals] first state; -1: none */
    int *need; /* [ideals] lower bound on the number of devices for the rest */
    /* [ideals] the same with costs of borders; the same without free work */
    int *need_tight, *need_alone;
    double *cheapest; /* [level][ideals] least border of 2^level consecutive downsets */
    struct sl_sweep_corner *corner; /* [ideals] the last state added, for a quick test */
    SL_VEC(struct sl_sweep_state) states;
    int64_t pairs, sweeps; /* statistics over all sweeps */
    /* Effort counts elementary steps, so it is deterministic; pair() adds its own steps. A stopped
     * sweep decides nothing. */
    /* effort so far, and its limit, over all sweeps; 0: the default limit */
    int64_t effort, effort_max;
    int64_t effort_now; /* limit of the running sweep */
    int64_t until_ns;   /* deadline by sl_clock_ns; 0: none */
    bool may_stop;      /* the limit on effort applies; set when a plan has been found */
    bool stopped, timed_out;
};

void sl_peers_sweep_open(struct sl_sweep *sweep, struct sl_arena *arena);
void sl_peers_sweep_close(struct sl_sweep *sweep);

/* Functions of sweep_border.c. needs: updates need_tight and need_alone for the running limit. */
void sl_peers_sweep_border_open(struct sl_sweep *sweep, struct sl_arena *arena);
void sl_peers_sweep_border_needs(struct sl_sweep *sweep);

/* Adds a state, unless it exceeds a limit or is dominated. */
void sl_peers_sweep_add(struct sl_sweep *sweep, struct sl_sweep_state state);

/* Finds the smallest objective, to a relative 1e-9. Raises *low, a proven lower bound, and lowers
 * *high, the objective of the best plan (INFINITY: none). They meet unless effort or time runs out.
 * False: no plan was found. */
bool sl_peers_sweep_search(struct sl_sweep *sweep, double *low, double *high);

#endif
