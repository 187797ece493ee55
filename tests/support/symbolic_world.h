/* The judge's world: what its files share. Private to symbolic*.c. */
#ifndef SL_SUPPORT_SYMBOLIC_WORLD_H
#define SL_SUPPORT_SYMBOLIC_WORLD_H

#include "support/symbolic.h"

#include <stdlib.h>
#include <string.h>

enum { UNROLLED = 4 };

typedef uint64_t symbol; /* 0: nothing */

struct message { /* what a RECV expects and a SEND brings */
    int edge, grad;
    int64_t reader, writer; /* micro-batches */
    int pool_slot;
};

struct fifo {
    struct message *at;
    int head, count, room;
};

struct input { /* what a micro-batch gets over an edge */
    int posted, arrived;
    int slot; /* where, -1: nowhere yet */
};

struct cell {       /* a message buffer */
    symbol *pieces; /* by position of the writer among those that overlap the reader */
    int64_t micro;
};

struct seat {
    symbol *stash, *kept, full;
    symbol *weights;
    int *tag, *tag_ahead;
    symbol *grad;                /* [slot] what has been added */
    int *grad_iter, *grad_count; /* [slot] iteration (from 1) and micro-batches in it */
    int64_t *added;              /* micro-batches in the order in which they were added */
    int64_t added_count, added_room;
    int steps, last_slot;
    int bell_iter[2], bell_version[2];   /* of forwards, of backwards; iterations from 1 */
    struct cell **in_cells, **out_cells; /* [place][slot]; in: acts then grads readers */
};

struct world {
    const struct sl_sched *s;
    const struct sl_plan *p;
    int iters, reps;
    struct seat *seats;
    struct fifo *fifos;       /* [from * workers + to] */
    struct input **inputs[2]; /* [grad][edge][reader micro] */
    uint8_t **count[5];       /* [kind][stage][micro] how often it ran */
    symbol **made;            /* [stage][micro] by its forward */
    int **read[2];            /* [0 F, 1 B/I][stage][micro] version read */
    int **far[2];             /* how far ahead of it */
    symbol ***parts;          /* [group][version][seat] */
    int **part_count;         /* [group][version] */
    int64_t *at;              /* [worker] position over all segments */
    bool *inside;             /* [worker] in a group */
    const char *broken;
    int max_overlap;
};

/* symbolic_world.c: building it, and its numbers. */
symbol sym_mix(symbol a, uint64_t b);
void *sym_zeros(size_t count, size_t size);
int64_t sym_micros_of(const struct world *w, int stage, int64_t iter);
int64_t sym_per_iter(const struct world *w, int stage);
int64_t sym_total_of(const struct world *w, int stage);
int sym_seat_of(const struct world *w, int stage, int64_t micro);
/* symbolic_policy.c: how far ahead of its version a pass reads. */
int64_t sym_want_ahead(const struct world *w, const struct sl_action *a);
bool sym_has_policy(const struct world *w, const char *name);
int sym_worker_of(const struct world *w, int stage, int64_t micro);
int64_t sym_nth_of_seat(const struct world *w, int stage, int64_t micro);
void sym_overlap(const struct world *w, int stage, int64_t micro, int other, int64_t out[2]);
int sym_pool_index(const struct world *w, int edge, bool at_to, bool grad);
const struct sl_slot_pool *sym_pool_of(const struct world *w, int seat, int pool);
struct sl_action sym_resolve(const struct world *w, int seat, struct sl_action a, int rep);
void sym_open_world(struct world *w);
void sym_close_world(struct world *w);

/* symbolic_act.c: actions. */
symbol sym_foreseen(symbol weights, int64_t ahead);
symbol sym_forward_symbol(int stage, int64_t micro, symbol weights, symbol inputs);
symbol sym_backward_symbol(int64_t micro, symbol forward, symbol weights, symbol inputs);
int sym_group_count(const struct world *w);
bool sym_member(const struct world *w, int group, int stage);
int sym_do_action(struct world *w, int worker, const struct sl_action *raw, int rep);

#endif
