/* The oracle of asynchronous runs: a plain loop over micro-batches and an array of weight versions.
 *
 * The loop uses no schedule, no lowering and no pipeline. It runs micro-batches k = 1, 2, 3, ... in
 * order through all stages, forward then backward, and steps all stages after every m-th. A stage
 * stores all its weight versions, each with the direction Delta of its step. Formulas give the
 * version that a pass reads and its look-ahead.
 *
 * The formulas. A stage whose longest path to a sink has h edges runs 1F1B with f = h + 1 micro-
 * batches in flight: F1 .. Ff B1 F(f+1) B2 F(f+2) ... So before forward k it has done max(k - f, 0)
 * backwards, before backward k it has done k - 1, and it has stepped after every m-th backward:
 *
 *     newest version in forward k     N(k) = floor(max(k - f, 0) / m)
 *     newest version in backward k    M(k) = floor((k - 1) / m)
 *
 *     2bw          forward max(floor((k-1)/m) - 1, 0), backward the same   (PipeDream-2BW)
 *     stash        forward N(k), backward the same                          (PipeDream)
 *     vsync        forward N(k) with the f of the entry (the longest path of all), backward the
 *                  same
 *     async, paci  forward N(k), backward M(k)                              (PACI: m > 1)
 *
 * With m = 1 on a chain of n stages, stash gives PipeDream's w(t+1) = w(t) - lr g(w_1(t-n+1), ...,
 * w_n(t)): micro-batch k = t+1 reads N = t+1-f = t-n+r on stage r = n+1-f.
 *
 * A drained run that continues counts k from 1, on its current weights.
 *
 * Replicas. A stage with w of them gives micro-batch k of a step of m to replica (k-1) mod m mod w.
 * f is then the number of replicas on the longest path to a sink. A replica runs its own micro-
 * batches in the order of keys 2(k-1) - f for forward k and 2(k-1) + f - 1 for backward k, and it has
 * version v once the last of its micro-batches of step v is behind it. The gradient is summed over
 * the micro-batches of each replica, then over the replicas. (vsync: f of the entry is as large as
 * any other stage's plus w-1.) The formulas below hold with m/w for m and with heights in passes of
 * one replica: h = ceil(f/w) - 1, r = floor((F-f)/w), N = h+r+1, where F is the largest f.
 *
 * Clip scope stage: a stage clips by the norm of its own gradient, and skips its step if that is not
 * finite. Tied parameters do not count; each is clipped and skipped by its own norm.
 *
 * Clip scope global: all stages step or skip by one decision, the norm of the gradient over all
 * parameters, summed in graph order. A stage then makes version v not after its backward vm, but
 * L = r + 1 + ceil(r/2) of its own passes later, r = N-1-h (2bw: before it is first read, which
 * changes nothing). Its passes are numbered F1 .. Ff B1 F(f+1) B2 ..., K micro-batches in all:
 *
 *     place of forward k     k-1 + max(k-f, 0)
 *     place of backward k    k-1 + min(K, f+k-1)
 *     newest version at place q: the largest v with place(backward vm) + L < q
 *
 * Policies, with N = depth and r = N-1-h (sources: src/optim/policy_*.c); W(v) is version v:
 *
 *     a pass reads W(v) - (lr(v)*s) * Delta(v); s*reach where that is not 1
 *     spectrain    s = floor((k-1 + floor(r/2)) / m) - v; global: floor((k-1)/m) - v
 *     pipeoptim    forward s = floor((k-1)/m) - v, backward 0
 *     xpipe        forward s = round((m + N - r/2 - 2)/m), backward s = floor((m + floor(r/2) -
 *                  1)/m); v is that of the first micro-batch of the step
 *     2bw-predict  s = floor((k-1)/m) - v
 *     pipemare     backward reads W(v) - tau * velocity(v), tau = (2h+1)/m; rate lr/max(tau,1)^p
 *     lr-rescale   rate lr/(1 + delay), delay = h/m (2bw: 1, vsync: (N-1)/m); global: ceil(L/2)
 *                  more forwards of delay
 *                  (rates and decay, for a tied parameter: by the largest h of its holders)
 *     nesterov-async  momentum 0.99
 *     error-feedback  w + lr(t-1) Delta(t-1), step t, - lr(t-1) Delta(t)
 */
#ifndef SL_TEST_ASYNC_LOOP_H
#define SL_TEST_ASYNC_LOOP_H

#include "support/pipe_case.h"

enum { LOOP_STAGES = 8, LOOP_STEPS = 6 };

/* A pass: micro-batch (from 1), micro-batches per step, in flight on this stage, at most on any, and
 * at the entry (vsync); replicas here and at the entry. */
struct loop_at {
    int64_t k, m, f, top_f, entry_f, w, entry_w;
};

struct loop_rule {
    const char *schedule;
    int64_t (*forward)(struct loop_at at), (*backward)(struct loop_at at);
};

extern const struct loop_rule loop_rules[];
extern const int loop_rule_count;
const struct loop_rule *loop_rule_find(const char *schedule);

struct loop {
    const struct sl_train_config *config; /* policy and clipping included */
    bool global_step;
    const struct loop_rule *rule; /* of the run at hand */
    int slots;                    /* micro-batches that a stage keeps; 0: one */
    const int *stage_of;
    int stages;
    const int *height; /* [stages] */
    const int *width;  /* [stages] replicas; NULL: 1 */
    const int *flight; /* [stages] f; NULL: height + 1 */
    struct sl_device *device;
    struct sl_worker *worker[LOOP_STAGES];
    char *memory, *sum; /* one message, one gradient */
    double loss[LOOP_STEPS], norm[LOOP_STEPS];
    bool skipped[LOOP_STEPS];
    float *delta[LOOP_STAGES][LOOP_STEPS + 1];    /* [stage][version] laid out as the weights */
    float *velocity[LOOP_STAGES][LOOP_STEPS + 1]; /* PipeMare's */
};

void loop_open(struct loop *l);
void loop_close(struct loop *l);
/* `steps` steps from step `start` on, as one run of the pipeline. */
void loop_run(struct loop *l, const struct loop_rule *rule, int64_t start, int64_t steps);

/* Synchronous: all forwards of a stage in the order forwards[stage][m], then all backwards in the
 * order sums[stage][m]. Set slots to m, and global_step. */
void loop_run_ordered(struct loop *l, const int *const *forwards, const int *const *sums,
                      int64_t steps);

/* What differs first on a stage of the pipeline after LOOP_STEPS steps, or NULL. Of replica 0, and of
 * any one, without running statistics. */
const char *loop_difference(const struct loop *l, const struct sl_pipe *pipe, int stage);
const char *loop_replica_difference(const struct loop *l, const struct sl_pipe *pipe, int stage,
                                    int replica);

#endif
