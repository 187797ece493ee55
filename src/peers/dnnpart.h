/* dnn-max-load: layers fused into groups that stay together, and tensors as nets of groups. See
 * dnnpart.c. Private to dnnpart*.c. */
#ifndef SL_PEERS_DNNPART_H
#define SL_PEERS_DNNPART_H

#include "peers/peers.h"
#include "peers/sweep.h"

struct sl_dnnpart_net {
    int first, count; /* part of `spans`: the groups that write or read the tensor, at least two */
    double cost;
};

struct sl_dnnpart_groups {
    int count;
    const int *of;        /* [layers] group of each layer */
    const double *time;   /* time on an accelerator; 0 if the group must not run on one */
    const double *cpu;    /* time on a CPU */
    const double *size;   /* bytes */
    const double *barred; /* 1: must not run on an accelerator */
    struct sl_dag dag;    /* the forward order */
    const struct sl_dnnpart_net *nets;
    int net_count;
    const int *spans;
};

/* Fuses colour classes, cycles between them and idle leaves, as the published program does. */
void sl_peers_dnnpart_group(struct sl_arena *arena, const struct sl_layers *layers,
                            struct sl_dnnpart_groups *out);

/* Improves a plan by annealing, without the rule that sets are contiguous (dnnpart_scatter.c).
 * device_of is the device of each group (accelerators, then CPU cores): on input a plan that fits,
 * on output the best plan found. */
void sl_peers_dnnpart_scatter(struct sl_arena *arena, const struct sl_dnnpart_groups *groups,
                              const struct sl_peers_query *query, int *device_of);

#endif
