/* From --stages and --schedule (or --plan) to a plan for the model. */
#ifndef SL_CLI_PIPE_OPTIONS_H
#define SL_CLI_PIPE_OPTIONS_H

#include "cli/run_options.h"

#define SL_PIPE_OPTIONS                                                                            \
    {"--stages", "N", "cut the model into N stages, a worker thread each", false},                 \
        {"--workers", "W", "workers that hold the stages (default: one each)", false},             \
        {"--slack", "K", "micro-batches that may wait between stages (2bw: 1, others: 0)", false}, \
        {"--replicas", "W", "of every stage, each with every W-th micro-batch (default 1)",        \
         false},                                                                                   \
        {"--cut", "WAY", "even (default), or branches: along those of the model", false},          \
        {"--schedule", "S", "see 'sluice list schedules' (default 1f1b)", false}, {                \
        "--plan", "X.plan", "stages and workers from a file", false                                \
    }

struct sl_pipe_choice {
    const struct sl_plan *plan; /* NULL: one worker */
    int *stage_of;
    const char *schedule;
    int64_t slack;
};

SL_MUST_CHECK sl_err sl_cli_pipe_choose(const struct sl_args *args,
                                        const struct sl_train_config *config,
                                        struct sl_arena *arena, struct sl_pipe_choice *out);

#endif
