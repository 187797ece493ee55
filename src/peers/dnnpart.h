/* dnn-partitioning's model: layers fused into groups that stay together, tensors as nets of groups.
 * See dnnpart.c. */
#ifndef SL_PEERS_DNNPART_H
#define SL_PEERS_DNNPART_H

#include "peers/peers.h"
#include "peers/sweep.h"

struct sl_dnnpart_net {
    int first, count; /* of `spans`: the groups that make or read the tensor, two at least */
    double cost;
};

struct sl_dnnpart_groups {
    int count;
    const int *of;        /* [layers] group of each layer */
    const double *time;   /* on an accelerator; 0 where it must not run on one */
    const double *cpu;    /* on a CPU */
    const double *size;   /* bytes */
    const double *barred; /* 1: not on an accelerator */
    struct sl_dag dag;    /* forward order */
    const struct sl_dnnpart_net *nets;
    int net_count;
    const int *spans;
};

/* Colour classes, cycles between them and idle leaves fused, as the published program does. */
void sl_peers_dnnpart_group(struct sl_arena *arena, const struct sl_layers *layers,
                            struct sl_dnnpart_groups *out);

/* Device of each group (accelerators, then CPU cores): in, a plan that fits; out, the best that
 * annealing finds when sets need not be contiguous (dnnpart_scatter.c). */
void sl_peers_dnnpart_scatter(struct sl_arena *arena, const struct sl_dnnpart_groups *groups,
                              const struct sl_peers_query *query, int *device_of);

#endif
