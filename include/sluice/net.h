/* A net: a model as a graph of tensors and ops, built op by op or read from a model text.
 *
 *     open -> input, param, op, ... loss -> check -> autodiff -> stat, print -> close
 *
 * A tensor is a number that the net assigns. Shapes, initializers and attributes use the syntax of
 * model files (docs/formats.md): "[B,64]", "normal(0.02)", "axis = 1, mode = \"sum\"". After
 * sl_net_check a net is read-only.
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

/* Opens an empty net. */
SL_API sl_err sl_net_open(const char *name, struct sl_net **out);

/* Reads and checks a model file. `sets` overrides sizes ("L=4,C=128") or is NULL. A `use` statement
 * searches the directory of the file, then the directory `models` (NULL: none). */
SL_API sl_err sl_net_read(const char *file, const char *models, const char *sets,
                          struct sl_net **out);

/* Reads and checks a model text in memory. Messages name it `name`. It must not contain `use`. */
SL_API sl_err sl_net_read_text(const char *name, const char *text, size_t length, const char *sets,
                               struct sl_net **out);

/* Frees the net; NULL is allowed. Closing it twice is reported, not a crash. */
SL_API void sl_net_close(struct sl_net *net);

/* Adds an input of a type such as "float[B,784]" or "int[B,64] < 256". */
SL_API sl_err sl_net_input(struct sl_net *net, const char *name, const char *type, int *tensor);
/* Adds a trained parameter. `init` is "zeros", "ones", "const(c)", "normal(std)" or
 * "uniform(from, to)". */
SL_API sl_err sl_net_param(struct sl_net *net, const char *name, const char *shape,
                           const char *init, int *tensor);
/* Adds a state: a tensor that persists from micro-batch to micro-batch and is not trained. */
SL_API sl_err sl_net_state(struct sl_net *net, const char *name, const char *shape,
                           const char *init, int *tensor);
/* Prefixes the following names with `scope` and a dot; "" removes the prefix. */
SL_API sl_err sl_net_scope(struct sl_net *net, const char *scope);
/* Applies an op ('sluice list ops') to tensors; -1 omits an optional input. `attributes` may be
 * NULL. *tensor is the first output. */
SL_API sl_err sl_net_op(struct sl_net *net, const char *op, const int *inputs, int count,
                        const char *attributes, int *tensor);
/* Finds output `index` of the op that produced `tensor`; index 0 is the first. */
SL_API sl_err sl_net_op_output(const struct sl_net *net, int tensor, int index, int *out);

/* Names a tensor as an output of the net. */
SL_API sl_err sl_net_output(struct sl_net *net, const char *name, int tensor);
/* Adds a scalar loss. The total loss is the sum of weight times loss. */
SL_API sl_err sl_net_loss(struct sl_net *net, const char *name, int tensor, double weight);

/* Checks order and types, that losses are scalars, and that every parameter reaches a loss. Makes
 * the net read-only. */
SL_API sl_err sl_net_check(struct sl_net *net);
/* Adds the backward pass: once, after the check. */
SL_API sl_err sl_net_autodiff(struct sl_net *net);

enum sl_net_stat {
    SL_NET_PARAMETERS,       /* elements of all parameters; a shared one counts once */
    SL_NET_STATES,           /* elements of all states */
    SL_NET_FORWARD_FLOPS,    /* operations per sample */
    SL_NET_BACKWARD_FLOPS,   /* operations per sample; 0 before autodiff */
    SL_NET_ACTIVATION_BYTES, /* bytes per sample that the backward pass needs; 0 before autodiff */
    SL_NET_NODES,            /* nodes of the forward pass */
    SL_NET_BACKWARD_NODES,
};
/* Returns a size or cost of the net; NAN on an error. */
SL_API double sl_net_stat(const struct sl_net *net, enum sl_net_stat stat);

/* Shape of a tensor as text, "[B,64]"; "" if there is no such tensor. Valid until the next call
 * with the same net. */
SL_API const char *sl_net_shape(struct sl_net *net, int tensor);

/* The net as a flat model text, one op per line. Valid until the next call with the same net. NULL on
 * an error. */
SL_API const char *sl_net_print(struct sl_net *net);

#ifdef __cplusplus
}
#endif

#endif
