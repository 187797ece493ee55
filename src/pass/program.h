/* Program: the passes of one stage as a flat list of instructions with fixed memory offsets.
 *
 * sl_pass_program_build takes a differentiated graph, the forward nodes of a stage and a
 * micro-batch size. It fixes the order of instructions, the stash between forward and backward, the
 * recomputed part and every offset. Planner, verifier, profiler and runtime read this object, so
 * they agree on every byte.
 *
 * Memory of a worker that runs the program with s micro-batches in flight:
 *
 *     PARAM  weights that are trained, one slab per version
 *     FIXED  frozen weights, one slab
 *     GRAD   accumulators, one per use of a parameter
 *     STATE  running statistics
 *     SLOT   s slabs, one per micro-batch, used from F to the end of its backward pass
 *     WORK   temporaries, shared by all slots; empty in an evaluation program, which uses only SLOT
 *
 * SLOT and WORK are planned on one timeline (F, then B or I and W). A temporary may use a hole in
 * the slot of its own micro-batch, before a stashed value is written or after its last read.
 */
#ifndef SL_PASS_PROGRAM_H
#define SL_PASS_PROGRAM_H

#include "graph/graph.h"

enum sl_space {
    SL_SPACE_NONE,
    SL_SPACE_PARAM,
    SL_SPACE_FIXED,
    SL_SPACE_GRAD,
    SL_SPACE_STATE,
    SL_SPACE_SLOT,
    SL_SPACE_WORK,
    SL_SPACE_COUNT
};

struct sl_operand {
    enum sl_space space; /* SL_SPACE_NONE: the operand is absent */
    enum sl_dtype dtype;
    int64_t offset; /* bytes */
    int64_t numel;
    struct sl_shape shape; /* with a number for B */
    int value;             /* the graph value that owns the memory */
    /* A part of each row of a wider tensor (q, k, v of one projection): `run` contiguous elements,
     * repeated every `row` elements. 0: the operand is contiguous. */
    int64_t row, run;
    int64_t within; /* distance in bytes from the start of that tensor; `offset` includes it */
};

enum { SL_INSTR_IN = SL_MAX_IN, SL_INSTR_OUT = SL_MAX_OUT };

struct sl_instr {
    const struct sl_op *op;
    const char *kernel;        /* name of the op, or a name of pass/fused.h */
    const union sl_attr *attr; /* attributes of the op */
    int node;                  /* graph node; if fused, the first of the fused nodes */
    int in_count, out_count;
    struct sl_operand *in, *out; /* in the arena of the program */
    bool accumulate; /* out[0] is a gradient accumulator: the first micro-batch writes it, others
                     * add to it */
    enum sl_graph_pass pass;
    double flops;
};

/* A parameter of this stage. */
struct sl_program_param {
    int param;             /* index in graph->params */
    int64_t offset, numel; /* in PARAM; of frozen parameters in FIXED */
    /* range in `uses`: its accumulators, in the order in which they are summed */
    int first_use, use_count;
};

struct sl_program_use {
    int grad;       /* index in graph->grads */
    int64_t offset; /* in GRAD */
};

/* A value that enters or leaves the stage, and its place in the slot. */
struct sl_program_port {
    int value; /* value of the graph */
    int index; /* index in graph->inputs, losses or outputs */
    int peer;  /* the other stage, for activations and gradients */
    struct sl_operand operand;
};

struct sl_ports {
    int count;
    struct sl_program_port *at;
};

/* R is the first part of I or B in a program that recomputes: it repeats the forward pass. It reads
 * nothing that a neighbour sends after F, and writes its results to WORK. */
enum sl_phase { SL_PHASE_F, SL_PHASE_I, SL_PHASE_W, SL_PHASE_B, SL_PHASE_R, SL_PHASE_COUNT };

struct sl_program {
    struct sl_arena arena;
    const struct sl_graph *graph;
    int64_t samples;     /* samples of a micro-batch */
    enum sl_dtype dtype; /* of activations: SL_FLOAT or 16 bits; weights and sums are always fp32 */
    bool split, recompute;
    struct sl_instr *instrs;
    int instr_count;
    /* Ranges in instrs, per phase. Without split, B holds the I and W instructions interleaved. */
    int begin[SL_PHASE_COUNT], end[SL_PHASE_COUNT];
    struct sl_program_param *params; /* trained parameters */
    struct sl_program_use *uses;
    int param_count, use_count;
    struct sl_program_param *fixed; /* frozen parameters */
    int fixed_count;
    struct sl_program_param *states; /* first_use: index in graph->updates, or -1 */
    int state_count;
    struct sl_ports inputs, recv_act, send_act, recv_grad, send_grad, seeds, losses;
    struct sl_ports outputs; /* outputs of the model; evaluation only */
    int64_t param_bytes, fixed_bytes, grad_bytes, state_bytes, slot_bytes, work_bytes;
    int64_t stash_bytes; /* the part of slot_bytes that is live between F and the backward pass */
};

struct sl_program_spec {
    const struct sl_graph *graph; /* differentiated graph, or an evaluation graph (F only) */
    const int *stage_of;          /* [forward nodes] stage of each; NULL: there is one stage */
    int stage;
    int64_t samples;
    /* Does the device have this fused kernel? NULL: it has no fused kernels. */
    bool (*has_kernel)(const char *name);
    enum sl_dtype dtype; /* type of activations: SL_FLOAT, SL_BF16 or SL_FP16; see dtype.c */
    bool split;          /* I and W are separate phases */
    /* stash only the stage's inputs, and repeat F before the backward pass; no effect on a stage
     * without a backward pass */
    bool recompute;
};

int64_t sl_pass_dtype_bytes(enum sl_dtype dtype); /* bytes of one element in a program */
int64_t sl_pass_operand_bytes(const struct sl_operand *operand);

SL_MUST_CHECK sl_err sl_pass_program_build(const struct sl_program_spec *spec,
                                           struct sl_program **out);
void sl_pass_program_close(struct sl_program *program);
/* The checker. It derives lifetimes from the instructions and proves: no operand is overwritten
 * while it is live; every operand lies inside its space; every node of the stage occurs exactly
 * once. sl_pass_program_build calls it. */
SL_MUST_CHECK sl_err sl_pass_program_check(const struct sl_program *program);
void sl_pass_program_write(const struct sl_program *program, struct sl_text *text);

/* Groups the forward nodes that must be in one stage because kernels fuse them or their gradients.
 * Sets group[n] (graph->forward_count entries) to the first node of the group of node n. */
void sl_pass_glue(const struct sl_graph *graph, bool (*has_kernel)(const char *name), int *group);

/* Units: the smallest groups of forward nodes that a stage may consist of (fused nodes; a view and
 * its source). Sets unit_of[n] (forward_count entries) and returns the number of units. Unit
 * numbers are a topological order. */
int sl_pass_units(struct sl_arena *arena, const struct sl_graph *graph,
                  bool (*has_kernel)(const char *name), int *unit_of);
/* Like sl_pass_units, but nodes with equal keep[n] >= 0 also stay together (graph/blocks.h). */
int sl_pass_units_kept(struct sl_arena *arena, const struct sl_graph *graph,
                       bool (*has_kernel)(const char *name), const int *keep, int *unit_of);

/* Sets the stage of every node, including backward nodes, from the stages of the forward nodes. A
 * sum of gradients belongs to the stage of its readers if they are all in one stage, else to the
 * stage of the producer. `out` has graph->nodes.count entries. */
void sl_pass_place(const struct sl_graph *graph, const int *stage_of, int *out);

/* What the backward pass of a stage computes. Frozen parameters have no gradient, so a stage may
 * compute only gradients of activations, or nothing. */
struct sl_pass_backward {
    bool any;    /* it computes some gradient */
    bool trains; /* it computes gradients of parameters */
};
/* `stage_of` NULL: there is one stage. `out` has `stages` entries. */
void sl_pass_backward_of(const struct sl_graph *graph, const int *stage_of, int stages,
                         struct sl_pass_backward *out);

#endif
