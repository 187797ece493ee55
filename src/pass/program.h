/* A stage's passes as flat programs over planned memory.
 *
 * sl_pass_program_build takes a differentiated graph, the set of forward nodes that make up a stage and
 * a micro-batch size, and decides everything before anything runs: the order of instructions, what
 * is stashed from forward to backward, what is recomputed, every offset. Planner, verifier,
 * profiler and runtime speak of the same bytes because they all read this object.
 *
 * Memory of a worker that runs the program with s micro-batches in flight:
 *
 *     PARAM  weights, one slab per version          GRAD  accumulators, one per use of a parameter
 *     STATE  running statistics                     SLOT  s slabs: what one micro-batch needs from
 *     WORK   temporaries, shared by all slots             F to the end of its backward
 *            (none in a program for evaluation: there everything lies in SLOT)
 *
 * SLOT and WORK are planned on one timeline (F, then B or I and W): a temporary may lie in a hole
 * of its own micro-batch's slot, before a stashed value is born or after it died.
 */
#ifndef SL_PASS_PROGRAM_H
#define SL_PASS_PROGRAM_H

#include "graph/graph.h"

enum sl_space {
    SL_SPACE_NONE,
    SL_SPACE_PARAM,
    SL_SPACE_GRAD,
    SL_SPACE_STATE,
    SL_SPACE_SLOT,
    SL_SPACE_WORK,
    SL_SPACE_COUNT
};

struct sl_operand {
    enum sl_space space; /* NONE: absent */
    enum sl_dtype dtype;
    int64_t offset; /* bytes */
    int64_t numel;
    struct sl_shape shape; /* B put in */
    int value;             /* of the graph: whose memory this is */
    /* A part of each row of a wider tensor (q, k, v inside of one projection): `run` elements
     * lie together, the next ones begin `row` elements after them. 0: all lie together. */
    int64_t row, run;
    int64_t within; /* bytes from the start of that tensor; counted in offset */
};

enum { SL_INSTR_IN = SL_MAX_IN, SL_INSTR_OUT = SL_MAX_OUT };

struct sl_instr {
    const struct sl_op *op;
    const char *kernel;        /* name of the kernel: the op's, or a fused one's */
    const union sl_attr *attr; /* of the op */
    int node;                  /* of the graph: the first of those it stands for */
    int in_count, out_count;
    struct sl_operand *in, *out; /* in the program's arena */
    bool accumulate; /* out[0] is a gradient accumulator: add, unless this is the first micro-batch
                      */
    enum sl_pass_tag pass;
    double flops;
};

/* A parameter of this stage. */
struct sl_program_param {
    int param;                /* index in graph->params */
    int64_t offset, numel;    /* in PARAM */
    int first_use, use_count; /* in uses: accumulators to be summed in this order */
};

struct sl_program_use {
    int grad;       /* index in graph->grads */
    int64_t offset; /* in GRAD */
};

/* Something that enters or leaves: where it lies in the slot. */
struct sl_program_port {
    int value; /* of the graph */
    int index; /* inputs: index in graph->inputs; losses and outputs: likewise */
    int peer;  /* activations and gradients: the other stage */
    struct sl_operand operand;
};

struct sl_ports {
    int count;
    struct sl_program_port *at;
};

/* R: what I or B of a program that recomputes begins with, the forward pass again; it reads nothing
 * that comes from a neighbour after F, and leaves its results in WORK. */
enum sl_phase { SL_PHASE_F, SL_PHASE_I, SL_PHASE_W, SL_PHASE_B, SL_PHASE_R, SL_PHASE_COUNT };

struct sl_program {
    struct sl_arena arena;
    const struct sl_graph *graph;
    int64_t samples;     /* micro-batch */
    enum sl_dtype dtype; /* of activations: SL_FLOAT or 16 bits; weights and sums are fp32 */
    bool split, recompute;
    struct sl_instr *instrs;
    int instr_count;
    int begin[SL_PHASE_COUNT], end[SL_PHASE_COUNT]; /* ranges in instrs; B is I and W interleaved
                                                       when the program is not split */
    struct sl_program_param *params;
    struct sl_program_use *uses;
    int param_count, use_count;
    struct sl_program_param *states; /* first_use: index in updates, or -1 */
    int state_count;
    struct sl_ports inputs, recv_act, send_act, recv_grad, send_grad, seeds, losses;
    struct sl_ports outputs; /* evaluation only */
    int64_t param_bytes, grad_bytes, state_bytes, slot_bytes, work_bytes;
    int64_t stash_bytes; /* part of slot_bytes that is live between F and backward */
};

struct sl_program_spec {
    const struct sl_graph *graph; /* differentiated, or eval (then only F exists) */
    const int *stage_of;          /* [forward nodes], NULL: one stage */
    int stage;
    int64_t samples;
    /* Which kernels the device has: fused ones are used where it has them. NULL: none. */
    bool (*has_kernel)(const char *name);
    enum sl_dtype dtype; /* SL_BF16, SL_FP16: activations are stored so; see dtype.c */
    bool split;          /* I and W are separate phases */
    bool recompute;      /* stash only what enters; F is run again before the backward */
};

int64_t sl_pass_dtype_bytes(enum sl_dtype dtype); /* of one element in a program */
int64_t sl_pass_operand_bytes(const struct sl_operand *operand);

SL_MUST_CHECK sl_err sl_pass_program_build(const struct sl_program_spec *spec,
                                           struct sl_program **out);
void sl_pass_program_close(struct sl_program *program);
/* The checker: recomputes liveness from the instructions and proves that no operand is overwritten
 * while it is live, that every operand lies inside its space, and that every node of the stage is
 * in it exactly once. Run by sl_pass_program_build too. */
SL_MUST_CHECK sl_err sl_pass_program_check(const struct sl_program *program);
void sl_pass_program_write(const struct sl_program *program, struct sl_text *text);

/* Forward nodes that must be in one stage because kernels fuse them (or their gradients): nodes
 * with the same group[] belong together. `group` has graph->forward_count entries; the number of a
 * group is its first node. */
void sl_pass_glue(const struct sl_graph *graph, bool (*has_kernel)(const char *name), int *group);

/* Units: the smallest groups of forward nodes that a stage may consist of (glued nodes, views with
 * what they show). unit_of has forward_count entries; returns how many units there are. They are
 * numbered in an order in which no value goes backwards. */
int sl_pass_units(struct sl_arena *arena, const struct sl_graph *graph,
                  bool (*has_kernel)(const char *name), int *unit_of);
/* The same where nodes with one number keep[n] >= 0 stay together, too (graph/blocks.h). */
int sl_pass_units_kept(struct sl_arena *arena, const struct sl_graph *graph,
                       bool (*has_kernel)(const char *name), const int *keep, int *unit_of);

/* The stage of every node, backward nodes included, given that of the forward nodes. A sum of
 * gradients belongs to the readers' stage when all of them are there, else to the producer's.
 * `out` has graph->nodes.count entries. */
void sl_pass_place(const struct sl_graph *graph, const int *stage_of, int *out);

#endif
