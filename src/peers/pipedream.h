/* pipedream-stage-time: the states (antichains of the graph) and their sums. See pipedream.c.
 * Private to pipedream*.c. */
#ifndef SL_PEERS_PIPEDREAM_H
#define SL_PEERS_PIPEDREAM_H

#include "graph/ideals.h"
#include "peers/peers.h"

/* The states, sorted by compute time, so that no state contains a later one. The last is the whole
 * graph. */
struct sl_pipedream_states {
    struct sl_ideals ideals; /* over all layers; removed layers are in none */
    double *compute;         /* seconds of all layers up to the state */
    double *activation, *params;
    double *out; /* bytes across the cut, as PipeDream counts them */
};

struct sl_pipedream_graph {
    const struct sl_layers *layers;
    const bool *removed; /* inputs and unused __getitem__ layers */
    struct sl_dag dag;   /* without the removed layers */
    int words;
    const uint64_t *before; /* [layers][words] bits of its ancestors */
    int first;              /* the source from which states grow; -1: none */
};

void sl_peers_pipedream_open(struct sl_arena *arena, const struct sl_layers *layers,
                             struct sl_pipedream_graph *out);
/* Lists all states. False: there are more than `max`, or the deadline came. */
bool sl_peers_pipedream_list(struct sl_arena *arena, const struct sl_pipedream_graph *graph,
                             int max, int64_t until_ns, struct sl_pipedream_states *out);
/* Lists the states along one topological order; `more`: also the states of minimum cuts near it.
 * False: the deadline came. */
bool sl_peers_pipedream_chain(struct sl_arena *arena, const struct sl_pipedream_graph *graph,
                              bool more, int64_t until_ns, struct sl_pipedream_states *out);
/* Lists at most `max` states, evenly along one topological order. */
void sl_peers_pipedream_sketch(struct sl_arena *arena, const struct sl_pipedream_graph *graph,
                               int max, struct sl_pipedream_states *out);
/* Returns minimum cuts [*count][words], one per class of pipedream_bound.c; *count is 0 after the
 * deadline. */
const uint64_t *sl_peers_pipedream_cuts(struct sl_arena *arena,
                                        const struct sl_pipedream_graph *graph, int64_t until_ns,
                                        int *count);
/* Keeps at most `max` states whose cut has at most `bytes`, those with the fewest bytes first, and
 * the last state. Returns how many states with such a cut it dropped. */
int sl_peers_pipedream_thin(struct sl_arena *arena, struct sl_pipedream_states *states,
                            double bytes, int max);

/* Returns a lower bound on the objective, at most `objective`; 0: the graph is too large. `all`:
 * the states of the graph if they are listed, or NULL (pipedream_bound.c). */
double sl_peers_pipedream_bound(const struct sl_pipedream_graph *graph,
                                const struct sl_pipedream_states *all,
                                const struct sl_peers_query *query, double objective);

#endif
