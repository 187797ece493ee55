/* A model as a graph: built op by op, or read from a model text.
 *
 *     open -> input, param, op, ... loss -> check -> autodiff -> stat, print -> close
 *
 * Tensors are numbers that the net gives out. Shapes, initialisers and attributes are written as in
 * model files (docs/formats.md): "[B,64]", "normal(0.02)", "axis = 1, mode = \"sum\"". After the
 * check a net does not change any more.
 */
#ifndef SLUICE_NET_H
#define SLUICE_NET_H

#include "sluice/err.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sl_net;

/* An empty net. */
sl_err sl_net_open(const char *name, struct sl_net **out);

/* A model file; `sets` overrides sizes ("L=4,C=128") or is NULL. The net is checked. `use` looks
 * beside the file, then in `models` (a directory, or NULL). */
sl_err sl_net_read(const char *file, const char *models, const char *sets, struct sl_net **out);

/* A model text in memory; `name` is for messages. Such a text may not use other models. */
sl_err sl_net_read_text(const char *name, const char *text, size_t length, const char *sets,
                        struct sl_net **out);

/* NULL is allowed. */
void sl_net_close(struct sl_net *net);

/* An input, e.g. "float[B,784]" or "int[B,64] < 256". */
sl_err sl_net_input(struct sl_net *net, const char *name, const char *type, int *tensor);
/* A parameter: its shape, and how it starts: "zeros", "ones", "const(c)", "normal(std)",
 * "uniform(from, to)". */
sl_err sl_net_param(struct sl_net *net, const char *name, const char *shape, const char *init,
                    int *tensor);
/* What is kept from micro-batch to micro-batch but not trained. */
sl_err sl_net_state(struct sl_net *net, const char *name, const char *shape, const char *init,
                    int *tensor);
/* Names of what follows start with `scope` and a dot; "" ends it. */
sl_err sl_net_scope(struct sl_net *net, const char *scope);
/* Apply an op ('sluice list ops') to tensors; an optional one that is left out is -1. `attributes`
 * may be NULL. *tensor is the first output. */
sl_err sl_net_op(struct sl_net *net, const char *op, const int *inputs, int count,
                 const char *attributes, int *tensor);
/* The output `index` of the op that made `tensor` (0 is the first). */
sl_err sl_net_op_output(const struct sl_net *net, int tensor, int index, int *out);

sl_err sl_net_output(struct sl_net *net, const char *name, int tensor);
/* A scalar; the total loss is the sum of weight times loss. */
sl_err sl_net_loss(struct sl_net *net, const char *name, int tensor, double weight);

/* Order, types, a scalar loss, every parameter reaches it. Freezes the net. */
sl_err sl_net_check(struct sl_net *net);
/* Add the backward pass (after the check, once). */
sl_err sl_net_autodiff(struct sl_net *net);

enum sl_net_stat {
    SL_NET_PARAMETERS,       /* elements; a shared parameter counts once */
    SL_NET_STATES,           /* elements */
    SL_NET_FORWARD_FLOPS,    /* per sample */
    SL_NET_BACKWARD_FLOPS,   /* per sample; 0 before autodiff, as the next */
    SL_NET_ACTIVATION_BYTES, /* per sample, kept for the backward pass */
    SL_NET_NODES,            /* of the forward pass */
    SL_NET_BACKWARD_NODES,
};
double sl_net_stat(const struct sl_net *net, enum sl_net_stat stat);

/* The shape of a tensor, "[B,64]", for people; "" when there is no such tensor. Valid until the
 * next call with the same net. */
const char *sl_net_shape(struct sl_net *net, int tensor);

/* The flat model text, one op a line. Valid until the next call with the same net. */
const char *sl_net_print(struct sl_net *net);

#ifdef __cplusplus
}
#endif

#endif
