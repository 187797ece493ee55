/* piper-tps: tables over a list of downsets, and the price of a stage. See piper.c. Private to
 * piper*.c. */
#ifndef SL_PEERS_PIPER_H
#define SL_PEERS_PIPER_H

#include "peers/knapsack.h"
#include "peers/peers.h"
#include "peers/sweep.h"

enum { SL_PIPER_TENSORS = 16, SL_PIPER_FLIGHT = 4096 };

/* Sums over the layers of each downset, for one tensor-parallel degree. "fast" sums the fastest
 * option of each layer. "low" sums the minimum of each quantity separately, which gives a lower
 * bound. */
struct sl_piper_table {
    double *missing; /* number of layers without an option for this degree */
    double *time;
    double *params, *params_low;
    double *micro, *micro_low, *fixed, *fixed_low;
    /* traffic across the border; out: of the ends inside, in: of the ends outside */
    double *out, *out_low, *in, *in_low;
    const double *both, *both_low; /* [edges] sum of the traffic of both ends */
};

struct sl_piper_cuts {
    struct sl_ideals ideals;
    const double *work;
    struct sl_piper_table table[SL_PIPER_TENSORS];
    /* edges that leave downset i: cross[cross_at[i]] .. cross[cross_at[i + 1] - 1] */
    const int *cross_at, *cross;
};

/* The sums of a stage. */
struct sl_piper_sums {
    double time, params, params_low, bytes, bytes_low;
    double micro, micro_low, fixed, fixed_low;
};

struct sl_piper_memo {
    uint64_t *keys;      /* 0: the entry is free */
    double *least, *max; /* known lower and upper bounds on the price */
    int64_t room, count;
};

struct sl_piper {
    struct sl_arena *arena;
    const struct sl_layers *layers;
    const struct sl_peers_query *query;
    int tensor_count, tensors[SL_PIPER_TENSORS];
    int *fast[SL_PIPER_TENSORS]; /* [layers] fastest option; -1: none */
    /* divisors of the number of micro-batches, up to the number of devices */
    int *divisors, divisor_count;
    const struct sl_piper_cuts *cuts;
    /* [SL_PIPER_FLIGHT] least loss of time per saved byte; 0: unknown */
    double *rate[SL_PIPER_TENSORS];
    struct sl_knapsack sack;
    struct sl_piper_memo memo;
    bool exact;   /* no knapsack has stopped undecided */
    bool stopped; /* the last search stopped before it had examined all cuts */
    struct sl_peers_plan *plan;
};

/* Sorts the list of downsets and fills its tables. */
void sl_peers_piper_tabulate(struct sl_piper *piper, struct sl_piper_cuts *cuts);
void sl_peers_piper_sum(const struct sl_piper *piper, int tensor, int larger, int smaller,
                        struct sl_piper_sums *out);

/* Returns the least time lost per saved byte, compared with the fast option, over all options of
 * this degree, with `in_flight` micro-batches; INFINITY: no option saves bytes. */
double sl_peers_piper_rate(struct sl_piper *piper, int tensor, int in_flight);

/* The price of a stage: its time per micro-batch with options that fit and cost at most `enough`.
 * INFINITY: there are none; then piper->sack.least is a lower bound. piper->sack has the chosen
 * options (one item per layer, ascending). */
struct sl_piper_stage {
    /* the stage is larger \ smaller; smaller NULL: the empty set */
    const uint64_t *larger, *smaller;
    int tensor; /* index of the tensor-parallel degree in `tensors` */
    int d, in_flight;
};
double sl_peers_piper_price(struct sl_piper *piper, const struct sl_piper_stage *stage,
                            double enough);

#endif
