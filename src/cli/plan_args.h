/* The options that plan and sim share, for a model on a machine. */
#ifndef SL_CLI_PLAN_ARGS_H
#define SL_CLI_PLAN_ARGS_H

#include "base/opt.h"
#include "job/plan.h"

/* Rows of their option tables. */
#define SL_DEGREE_OPTIONS                                                                          \
    {"--tp", "T", "tensor-parallel shards of every stage, or auto: the best number", false},       \
        {"--dp", "D", "replicas of every stage", false},                                           \
        {"--pp", "P", "workers in a pipeline", false},                                             \
        {"--zero1", NULL, "replicas divide the optimizer state among them", false},                \
        {"--no-zero1", NULL, "every replica keeps the whole optimizer state", false}, {            \
        "--micro-batch", "M", "samples of a micro-batch, instead of --micro", false                \
    }

/* Fills the request from the options that both commands have. */
SL_MUST_CHECK sl_err sl_cli_plan_request(const struct sl_args *args,
                                         struct sl_job_plan_request *out);
/* Reads --dp and --pp; 0: not given. */
SL_MUST_CHECK sl_err sl_cli_degrees(const struct sl_args *args, int64_t *dp, int64_t *pp);

#endif
