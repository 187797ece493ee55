/* Building a program. Private to pass/.
 *
 *   select nodes -> emit instructions -> find items and lifetimes -> share in place -> offsets
 *
 * An item is a piece of memory in SLOT or WORK with a lifetime on the timeline of instructions:
 *
 *   time        -1     0 .. f-1        f .. n-1        n
 *             inputs   forward         backward        sent gradients, outputs
 */
#ifndef SL_PASS_BUILD_H
#define SL_PASS_BUILD_H

#include "pass/program.h"

struct sl_item {
    int value;
    int64_t size_bytes;
    int born, dies; /* first write and last read, as instruction numbers */
    bool slot;      /* must lie in SLOT: it crosses the border of a phase, or a port, or there is
                       nothing but a forward pass */
    int into;       /* shares the memory of another item, -1: has its own */
    int64_t offset; /* in SLOT below slot_bytes, else in WORK from there on */
};

struct sl_fused_pair {
    int first, second; /* nodes */
};

struct sl_build {
    const struct sl_program_spec *spec;
    const struct sl_graph *graph;
    struct sl_program *program;
    struct sl_arena scratch;
    int *stage;                             /* [nodes] */
    int *root;                              /* [values] through views */
    int64_t *part_row, *part_run, *part_at; /* [values] see sl_operand; row 0: the whole root */
    bool *gone;                             /* [nodes] a split or concat that became a view */
    bool *early;                            /* [nodes] W by its tag, but made with I: it is sent */
    int *readers;         /* [values] instructions of this stage that read a root */
    int *item_f, *item_b; /* [values] root -> item of the forward life and of the backward life */
    SL_VEC(struct sl_instr) instrs;
    SL_VEC(struct sl_item) items;
    SL_VEC(struct sl_fused_pair) fused;
    int forward_end;   /* instructions [0, forward_end) are F */
    int recompute_end; /* [forward_end, again_end) is the forward pass again */
    int split_at;      /* first W instruction of a split program, else instrs.count */
};

bool sl_pass_build_own(const struct sl_build *b, int node);
/* Is this node a view that needs no instruction? */
bool sl_pass_build_is_view(const struct sl_build *b, int node);
bool sl_pass_build_own_value(const struct sl_build *b, int value); /* produced by an own node */

/* dtype.c: how this program stores a value. */
enum sl_dtype sl_pass_build_dtype(const struct sl_build *b, int value);

/* views.c: values that are parts of others' memory. */
void sl_pass_build_views(struct sl_build *b);
/* fuse.c */
void sl_pass_build_fuse(struct sl_build *b);
/* items.c */
void sl_pass_build_items(struct sl_build *b);
void sl_pass_build_share(struct sl_build *b);
/* layout.c */
void sl_pass_build_layout(struct sl_build *b);
/* ports.c */
void sl_pass_build_ports(struct sl_build *b);
void sl_pass_build_params(struct sl_build *b);

#endif
