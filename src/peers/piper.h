/* piper-tps: tables over a list of downsets, and the price of a stage. See piper.c. Private to
 * piper*.c. */
#ifndef SL_PEERS_PIPER_H
#define SL_PEERS_PIPER_H

#include "peers/knapsack.h"
#include "peers/peers.h"
#include "peers/sweep.h"

enum { SL_PIPER_TENSORS = 16, SL_PIPER_FLIGHT = 4096 };

/* Sums over the members of each downset, for one tensor-parallel degree. "fast" sums the fastest
 * option of each layer; "low" sums the minimum of each quantity separately: a lower bound. */
struct sl_piper_table {
    double *missing; /* layers that do not offer this degree */
    double *time;
    double *params, *params_low;
    double *micro, *micro_low, *fixed, *fixed_low;
    double *out, *out_low, *in, *in_low; /* traffic across the border: ends inside, ends outside */
    const double *both, *both_low;       /* [edges] traffic of both ends */
};

struct sl_piper_cuts {
    struct sl_ideals ideals;
    const double *work;
    struct sl_piper_table table[SL_PIPER_TENSORS];
    const int *cross_at, *cross; /* edges that leave each downset */
};

/* A stage's sums. */
struct sl_piper_sums {
    double time, params, params_low, bytes, bytes_low;
    double micro, micro_low, fixed, fixed_low;
};

struct sl_piper_memo {
    uint64_t *keys;      /* 0: free */
    double *least, *max; /* known bounds on the price */
    int64_t room, count;
};

struct sl_piper {
    struct sl_arena *arena;
    const struct sl_layers *layers;
    const struct sl_peers_query *query;
    int tensor_count, tensors[SL_PIPER_TENSORS];
    int *fast[SL_PIPER_TENSORS];  /* [layers] option, -1: none */
    int *divisors, divisor_count; /* of the number of micro-batches, up to the devices */
    const struct sl_piper_cuts *cuts;
    double *rate[SL_PIPER_TENSORS]; /* [SL_PIPER_FLIGHT] least time per byte saved; 0: unknown */
    struct sl_knapsack sack;
    struct sl_piper_memo memo;
    bool exact;   /* no knapsack stopped undecided */
    bool stopped; /* the last search stopped before all cuts were examined */
    struct sl_peers_plan *plan;
};

/* Sorts the list of downsets and fills its tables. */
void sl_peers_piper_tabulate(struct sl_piper *piper, struct sl_piper_cuts *cuts);
void sl_peers_piper_sum(const struct sl_piper *piper, int tensor, int larger, int smaller,
                        struct sl_piper_sums *out);

/* Minimum over the options of this degree of time lost per byte saved, against the fast option,
 * with `in_flight` micro-batches; INFINITY: no option saves bytes. */
double sl_peers_piper_rate(struct sl_piper *piper, int tensor, int in_flight);

/* The price of a stage: time per micro-batch with options that fit and cost at most `enough`.
 * INFINITY: none were found; piper->sack.least is a lower bound. piper->sack has the chosen options
 * (one item per member, ascending). */
struct sl_piper_stage {
    const uint64_t *larger, *smaller; /* smaller NULL: the empty set */
    int tensor;                       /* index into tensors */
    int d, in_flight;
};
double sl_peers_piper_price(struct sl_piper *piper, const struct sl_piper_stage *stage,
                            double enough);

#endif
