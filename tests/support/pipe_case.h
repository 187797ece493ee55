/* A small model with data, cut into stages by hand or evenly: what the pipeline tests start from.
 *
 * By hand: a node belongs to the stage that the parameter it reads is named after ("s2_w": stage
 * 2); a node that reads none belongs to the last stage among those of its inputs. */
#ifndef SL_TEST_PIPE_CASE_H
#define SL_TEST_PIPE_CASE_H

#include "pipe/pipe.h"

struct pipe_case {
    struct sl_graph *graph;
    struct sl_graph *eval_graph; /* of a model of models/ */
    struct sl_data *data;
    struct sl_data_input inputs[16];
    struct sl_arena arena; /* of the cut and the plan */
    int *stage_of;
    const struct sl_plan *plan;
    bool split; /* plans are for programs whose backward is split; set after opening */
};

void pipe_case_open(struct pipe_case *c, const char *model);
/* A model of models/ with other sizes ("C=8,L=2"). */
void pipe_case_open_zoo(struct pipe_case *c, const char *name, const char *sets);
/* The same with frozen parameters (tune/tune.h). */
void pipe_case_open_frozen(struct pipe_case *c, const char *name, const char *sets,
                           const char *freeze);
void pipe_case_close(struct pipe_case *c);

/* The CPU, or what SL_TEST_DEVICE names: a device, or "apart" (support/apart.h). */
const struct sl_device_row *pipe_case_device(void);

/* Batch, micro-batches, optimizer and steps; adam-sized learning rate, no clipping, seed 5. */
struct sl_train_config pipe_case_config(const struct pipe_case *c, const char *optimizer,
                                        int64_t batch, int64_t micros, int64_t steps);

/* Sets stage_of and plan. `worker_of` NULL: a worker per stage. */
void pipe_case_cut(struct pipe_case *c, const struct sl_train_config *config, int stages,
                   const int *worker_of);
/* The same; false: it has not so many places to cut. */
bool pipe_case_try_cut(struct pipe_case *c, const struct sl_train_config *config, int stages,
                       const int *worker_of);
void pipe_case_cut_by_name(struct pipe_case *c, const struct sl_train_config *config, int stages,
                           const int *worker_of);
/* Along the model's branches into about `stages`, on `workers`; false: it has none, or cannot be.
 */
bool pipe_case_cut_branches(struct pipe_case *c, const struct sl_train_config *config, int stages,
                            int workers);
/* Runs of a random topological order: any legal cut may come out. */
bool pipe_case_cut_random(struct pipe_case *c, const struct sl_train_config *config, int stages,
                          const int *worker_of, uint64_t seed);
/* A plan for the cut that is in c->stage_of; and one in which stages have replicas, micro-batch
 * sizes (NULL: of the batch) and recomputation of their own. */
void pipe_case_plan(struct pipe_case *c, const struct sl_train_config *config, int stages,
                    const int *worker_of);
struct pipe_layout {
    int stages, workers;
    const int *width_of;
    const int *const *workers_of;
    const int64_t *micro_of;
    bool recompute;
};
void pipe_case_lay_out(struct pipe_case *c, const struct sl_train_config *config,
                       const struct pipe_layout *layout);

#endif
