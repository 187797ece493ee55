/* State while a program is built. Private to pass/.
 *
 *   select nodes -> emit instructions -> find items and lifetimes -> share in place -> offsets
 *
 * An item is a piece of memory in SLOT or WORK. Its lifetime is counted in instructions:
 *
 *   time        -1     0 .. f-1        f .. n-1        n
 *             inputs   forward         backward        sent gradients, outputs
 */
#ifndef SL_PASS_BUILD_H
#define SL_PASS_BUILD_H

#include "pass/program.h"

struct sl_item {
    int value;
    /* position among items of equal size; does not depend on the numbering of values */
    int64_t order;
    int64_t size_bytes;
    int born, dies; /* first write and last read, as instruction numbers */
    /* must be in SLOT: it lives longer than a phase, is a port, or the program has only F */
    bool slot;
    int into;       /* item whose memory it uses; -1: none */
    int64_t offset; /* below slot_bytes: offset in SLOT; from there on: in WORK */
};

struct sl_fused_pair {
    int first, second; /* nodes */
};

struct sl_build {
    const struct sl_program_spec *spec; /* spec: &own; own: the copy */
    struct sl_program_spec own;
    const struct sl_graph *graph;
    struct sl_program *program;
    struct sl_arena scratch;
    int *stage;                             /* [nodes] */
    int *root;                              /* [values] the value whose memory a view uses */
    int64_t *part_row, *part_run, *part_at; /* [values] see sl_operand; row 0: the whole root */
    bool *gone;                             /* [nodes] a split or concat that became a view */
    bool *early;           /* [nodes] tagged W but computed with I, because the result is sent */
    int *readers;          /* [values] number of instructions of this stage that read a root */
    bool *again;           /* [values] forward values that a backward kernel computes again */
    int *users, *users_at; /* fuse.c: users_at[v] .. users_at[v + 1] are v's instructions */
    int *item_f, *item_b;  /* [values] items of a root in the forward and in the backward pass */
    SL_VEC(struct sl_instr) instrs;
    SL_VEC(struct sl_item) items;
    SL_VEC(struct sl_fused_pair) fused;
    int forward_end;   /* instructions [0, forward_end) are F */
    int recompute_end; /* instructions [forward_end, recompute_end) recompute the forward pass */
    int split_at;      /* first W instruction of a split program, else instrs.count */
};

bool sl_pass_build_own(const struct sl_build *b, int node); /* does this stage run the node? */
/* Is this node a view that needs no instruction? */
bool sl_pass_build_is_view(const struct sl_build *b, int node);
/* is it produced by an own node? */
bool sl_pass_build_own_value(const struct sl_build *b, int value);

/* dtype.c. Returns the dtype in which this program stores a value. */
enum sl_dtype sl_pass_build_dtype(const struct sl_build *b, int value);

/* views.c. Finds the values that are a part of another value's memory. */
void sl_pass_build_views(struct sl_build *b);
/* fuse.c */
void sl_pass_build_fuse(struct sl_build *b);
/* items.c */
void sl_pass_build_items(struct sl_build *b);
/* A value that enters the stage has one item. A computed value that is computed again has a second
 * item that starts in the backward pass. Does an instruction at `time` use the second? */
bool sl_pass_build_second_item(const struct sl_build *b, int value, int time);
void sl_pass_build_share(struct sl_build *b);
/* layout.c */
void sl_pass_build_layout(struct sl_build *b);
/* ports.c */
void sl_pass_build_ports(struct sl_build *b);
void sl_pass_build_params(struct sl_build *b);

#endif
