/* Staleness policies: corrections for passes that read old weights.
 *
 *   "pipemare:K=200" --sl_optim_policy_parse--> sl_policy_use (row + values)
 *        sl_optim_policy_serves(use, rule, optimizer)   --> SL_OK if the combination is sound
 *        sl_optim_policy_ahead(use, pass)               --> s: steps to predict beyond the version
 *        sl_optim_policy_rate(use, at, t)               --> factor of a stage's learning rate
 *
 * Schedules, policies and optimizers are three registries that combine. A policy sees a schedule
 * only as numbers. It can do the following:
 *
 *   predict   a pass reads W^ = W(v) - lr*s*Delta(v) instead of W(v); Delta is the optimizer's last
 *             direction (optim.h). The value `reach` multiplies s. Lowering sets s in the action
 *             (`ahead`), and the verifier checks it. Predicted weights have their own slots.
 *   correct   a pass reads u = W(v) - tau*velocity, velocity an average of the steps (PipeMare T2);
 *             tau is `ahead` micro-batches, that is ahead/m steps.
 *   rate      a stage's learning rate is multiplied by a factor (PipeMare T1, lr-rescale).
 *   momentum  a stage's optimizer gets another momentum (asynchronous Nesterov).
 *   feedback  a step replaces the stale direction of the previous step by the correct one (error
 *             feedback for a delay of one step).
 *
 * The height of a stage is the number of edges on its longest path to a sink: N-1-k for stage k of
 * a chain of N. `depth` is the number of stages on the longest path. Each of w replicas of a
 * stage runs a w-th of the micro-batches, so the stage completes w of them while a replica runs
 * one. */
#ifndef SL_OPTIM_POLICY_H
#define SL_OPTIM_POLICY_H

#include "optim/optim.h"

struct sl_policy;

/* A policy with the values of its hyper-parameters; row NULL: no policy. */
struct sl_policy_use {
    const struct sl_policy *row;
    double hyper[SL_OPTIM_HYPER]; /* in the order of row->hyper */
};

/* A stage as policies see it. */
struct sl_policy_at {
    int64_t height, depth;
    int64_t micros; /* m: number of micro-batches of a step */
    int64_t width;  /* w: number of replicas */
    double delay;   /* mean staleness of its forward weights, in steps */
};

/* A pass of a stage. */
struct sl_policy_pass {
    int64_t height, depth, micros, width;
    int64_t micro;   /* k: number of the micro-batch, from 0 over the whole run */
    int64_t version; /* version of the weights that the prediction starts from */
    bool backward;
    bool global_step; /* all stages step at the same time */
};

enum sl_policy_kept {
    SL_KEPT_NOTHING,
    SL_KEPT_DELTA,    /* Delta of the last step, unless the optimizer computes it from its state */
    SL_KEPT_ALWAYS,   /* Delta of the last step, for every optimizer */
    SL_KEPT_VELOCITY, /* average of w_new - w_old */
};

struct sl_policy {
    const char *name, *brief;
    const char *note;          /* formula and source, in a line or two */
    const char *rules;         /* version rules that it can serve, separated by spaces */
    const char *why;           /* why it cannot serve other rules */
    bool needs_nesterov;       /* it serves only optimizers with Nesterov's momentum */
    const char *why_optimizer; /* why it cannot serve other optimizers */
    const struct sl_hyper *hyper;
    enum sl_policy_kept kept;
    /* In each direction, the first pass of an iteration on a stage fixes version and prediction for
     * the other passes (XPipe's bellwether). */
    bool bellwether;
    bool feedback;
    int64_t (*ahead)(const struct sl_policy_use *use, const struct sl_policy_pass *pass);
    /* Returns the factor of the learning rate in step t (from 1); NULL: 1. */
    double (*rate)(const struct sl_policy_use *use, const struct sl_policy_at *at, int64_t t);
    /* Changes the hyper-parameters of the optimizer on a stage; NULL: no change. */
    void (*momentum)(const struct sl_policy_use *use, const struct sl_policy_at *at,
                     struct sl_optim *optim);
    /* SL_KEPT_VELOCITY: returns the decay gamma of the average on a stage. */
    double (*decay)(const struct sl_policy_use *use, const struct sl_policy_at *at);
};

/* All rows in alphabetical order. */
extern const struct sl_policy *const sl_optim_policies[];
extern const int sl_optim_policy_count;
const struct sl_policy *sl_optim_policy_find(struct sl_str name); /* NULL if there is none */

/* Parses "pipemare:K=200"; "none" gives row NULL. For an unknown name the error suggests the
 * nearest. */
SL_MUST_CHECK sl_err sl_optim_policy_parse(const char *text, struct sl_policy_use *out);
bool sl_optim_policy_is_none(const char *text);
void sl_optim_policy_put(struct sl_text *text, const struct sl_policy_use *use);
double sl_optim_policy_value(const struct sl_policy_use *use, const char *name);

/* SL_ERR_REFUSED with the reason if the policy does not serve the version rule or the optimizer
 * (NULL: not checked). */
SL_MUST_CHECK sl_err sl_optim_policy_serves(const struct sl_policy_use *use, const char *rule,
                                            const struct sl_optim *optim);

/* Returns the number of steps to predict ahead; 0: read the weights without prediction. */
int64_t sl_optim_policy_ahead(const struct sl_policy_use *use, const struct sl_policy_pass *pass);
double sl_optim_policy_rate(const struct sl_policy_use *use, const struct sl_policy_at *at,
                            int64_t t);

/* Returns the checkpoint name of the tensor that the policy keeps per parameter; NULL: it keeps
 * none. */
const char *sl_optim_policy_kept_name(const struct sl_policy_use *use,
                                      const struct sl_optim *optim);

#endif
