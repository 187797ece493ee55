/* Random executable schedules, their files, and a plain judge of passes. Nothing of src/sched is used.
 *
 *     graph of stages -> play: run a random pass that is ready, note it on its worker -> lists -> text
 *     asynchronous chain -> F1 .. Ff B1 F(f+1) B2 ..., cut into prologue, period, epilogue -> text
 */
#ifndef SL_TESTS_FREE_SCHED_H
#define SL_TESTS_FREE_SCHED_H

#include "base/text.h"
#include "support/sched_cases.h"

enum {
    FREE_STAGES = 8,
    FREE_EDGES = 24,
    FREE_MICROS = 8,
    FREE_PASSES = 3 * FREE_STAGES * FREE_MICROS
};

struct free_graph {
    int stages, edges, workers, micros;
    int edge[FREE_EDGES][2]; /* from, to; from < to */
    int worker_of[FREE_STAGES];
};

struct free_pass {
    char kind; /* F B I W */
    int stage, micro;
};

struct free_sched {
    struct free_graph graph;
    int iters;
    int count[FREE_STAGES]; /* [worker] */
    struct free_pass list[FREE_STAGES][FREE_PASSES + 8];
};

/* A chain, or a graph with skips; stages on random workers. */
void free_graph_draw(struct dice *dice, struct free_graph *out);
void free_sched_draw(struct dice *dice, const struct free_graph *graph, struct free_sched *out);
/* One change. False: it changed nothing. */
bool free_sched_mutate(struct dice *dice, struct free_sched *sched);
/* NULL: every pass runs exactly once, and the run completes. Else: why not. */
const char *free_sched_judge(const struct free_sched *sched);
/* Micro-batches of a stage in the order of its forwards, or of its sums. */
void free_sched_order(const struct free_sched *sched, int stage, bool sums, int out[FREE_MICROS]);

void free_sched_text(const struct free_sched *sched, struct sl_text *out); /* .sched */
void free_sched_csv(const struct free_sched *sched, struct sl_text *out);  /* a chain */

/* An asynchronous chain, a stage per worker; window[stage] micro-batches in flight. */
void free_stream_text(const char *rule, int stages, int micros, const int *window,
                      struct sl_text *out);

#endif
