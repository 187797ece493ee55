/* The formulas of the plain loop; async_loop.h derives them. */
#ifndef SL_TEST_ASYNC_FORMULAS_H
#define SL_TEST_ASYNC_FORMULAS_H

#include "support/async_loop.h"

/* The version that a pass reads, in a run of `all` micro-batches. */
int64_t loop_version_of(const struct loop *l, const struct loop_rule *rule, struct loop_at at,
                        bool forward, int64_t all);
/* How far ahead of version v (of this run) the pass reads. */
int64_t loop_look_ahead(const struct loop *l, struct loop_at at, bool forward, int64_t v);

bool loop_is_policy(const struct loop *l, const char *name);
double loop_reach_of(const struct loop *l);
double loop_tau_of(const struct loop *l, int stage);
/* The highest stage that uses a parameter decides how all its holders step it. */
int loop_param_stage(const struct loop *l, int param);
int loop_width_of(const struct loop *l, int stage);
struct loop_at loop_at_of(const struct loop *l, int stage, int64_t k);
/* The learning rate of a parameter in step t. */
double loop_rate(const struct loop *l, int param, int64_t t);

#endif
