/* What an asynchronous run means, as a plain loop.
 *
 * The loop knows nothing of schedules, lowering or pipelines. It takes micro-batches k = 1, 2, 3,
 * ... one after the other through all stages, forward then backward, and steps all stages after
 * every m-th. Each stage keeps every weight version it ever made in an array, with the direction
 * Delta of the step that made it; which version a pass reads, and how far ahead of it, is a
 * formula.
 *
 * The formulas. A stage whose longest path to a sink has h edges runs 1F1B with f = h + 1 micro-
 * batches in flight: F1 .. Ff B1 F(f+1) B2 F(f+2) ... So before forward k it has done max(k - f, 0)
 * backwards, before backward k it has done k - 1, and it has stepped after every m-th backward:
 *
 *     newest version in forward k     N(k) = floor(max(k - f, 0) / m)
 *     newest version in backward k    M(k) = floor((k - 1) / m)
 *
 *     2bw          forward max(floor((k-1)/m) - 1, 0), backward the same   (papers.md A.2)
 *     stash        forward N(k), backward the same                          (D.2)
 *     vsync        forward N(k) with the f of the entry (the longest path of all), backward the
 *                  same
 *     async, paci  forward N(k), backward M(k)                              (E.1; paci: m > 1)
 *
 * With m = 1 on a chain of n stages, stash gives D.2's w(t+1) = w(t) - lr g(w_1(t-n+1), ...,
 * w_n(t)): micro-batch k = t+1 reads N = t+1-f = t-n+r on stage r = n+1-f.
 *
 * A run that is drained and started again starts its count of k again, on the weights it has.
 *
 * Without a verdict of all, a stage whose own gradient is not finite skips its own step.
 *
 * Stepping together. All stages step, or skip, on one verdict: the norm of the gradient over all
 * parameters, added up in graph order. So a stage makes version v not behind its backward vm, but
 * L = r + 1 + ceil(r/2) of its own passes later, r = N-1-h (2bw: before it is first read, which
 * changes nothing). Its passes are numbered F1 .. Ff B1 F(f+1) B2 ..., K micro-batches in all:
 *
 *     place of forward k     k-1 + max(k-f, 0)
 *     place of backward k    k-1 + min(K, f+k-1)
 *     newest version at place q: the largest v with place(backward vm) + L < q
 *
 * Policies, with N = depth and r = N-1-h (papers.md B.3, D.5-D.8, E); W(v) is version v:
 *
 *     a pass reads W(v) - (lr(v)*s) * Delta(v); s*reach where that is not 1
 *     spectrain    s = floor((k-1 + floor(r/2)) / m) - v; together: floor((k-1)/m) - v
 *     pipeoptim    forward s = floor((k-1)/m) - v, backward 0
 *     xpipe        forward s = round((m + N - r/2 - 2)/m), backward s = floor((m + floor(r/2) -
 *                  1)/m); v is what it was for the first micro-batch of the step
 *     2bw-predict  s = floor((k-1)/m) - v
 *     pipemare     backward reads W(v) - tau * velocity(v), tau = (2h+1)/m; rate lr/max(tau,1)^p
 *     lr-rescale   rate lr/(1 + delay), delay = h/m (2bw: 1, vsync: (N-1)/m); together: ceil(L/2)
 *                  forwards more are behind
 *                  (rates and decay, for a tied parameter: by the largest h of its holders)
 *     nesterov-async  momentum 0.99
 *     error-feedback  w + lr(t-1) Delta(t-1), step t, - lr(t-1) Delta(t)
 */
#ifndef SL_TEST_ASYNC_LOOP_H
#define SL_TEST_ASYNC_LOOP_H

#include "support/pipe_case.h"

enum { LOOP_STAGES = 8, LOOP_STEPS = 6 };

/* Where a pass stands: micro-batch (from 1), micro-batches per step, in flight here and at most. */
struct loop_at {
    int64_t k, m, f, entry_f;
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
    int depth;
    const int *stage_of;
    int stages;
    const int *height; /* [stages] */
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

/* What differs first on a stage of the pipeline after LOOP_STEPS steps, or NULL. */
const char *loop_difference(const struct loop *l, const struct sl_pipe *pipe, int stage);

#endif
