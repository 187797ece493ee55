/* The options that sched, sim and report share, which build or simulate a schedule. */
#ifndef SL_CLI_SCHED_ARGS_H
#define SL_CLI_SCHED_ARGS_H

#include "base/opt.h"
#include "job/sim.h"

/* Rows of their option tables. */
#define SL_SCHED_OPTIONS                                                                           \
    {"--chain", "N", "N stages in a row", false},                                                  \
        {"--dag", "EDGES", "a graph of stages: 'a>b,a>c,b>d,c>d'", false},                         \
        {"--schedule", "S", "see 'sluice list schedules'; or X.sched, X.csv", false},              \
        {"--schedule-module", "X.so", "schedule by the generator of a module", false},             \
        {"--micro", "M", "micro-batches per iteration", false},                                    \
        {"--batch", "B", "samples per iteration, instead of --micro", false},                      \
        {"--last-batch", "B", "samples of the last iteration", false},                             \
        {"--ranks", "R", "workers (default: one per stage)", false},                               \
        {"--chunks", "V", "stages per worker, instead of --ranks", false},                         \
        {"--policy", "P", "staleness policy; see 'sluice list policies'", false},                  \
        {"--global-step", NULL, "asynchronous: one global norm and skip decision per step",        \
         false},                                                                                   \
        {"--together", NULL, "old name of --global-step", false},                                  \
        {"--iters", "I", "iterations (optimizer steps, default 1)", false},                        \
        {"--slack", "K", "micro-batches that may wait between stages (default 0)", false},         \
        {"--group", "K", "k of kfkb and graph (default 1)", false}, {                              \
        "--costs", "COSTS", "nanoseconds: 'F=3,I=2,W=2' or per stage 'a:F=3,I=2,W=2;b:F=1'", false \
    }

#define SL_SIM_OPTIONS                                                                             \
    {"--links", "L", "'latency=5us,bandwidth=10Gb/s,duplex=half,sharing=all,receive=early'",       \
     false},                                                                                       \
        {"--cold", "C", "extra time of a pass after a wait: 'F=40us,B=90us,after=5ms'", false}, {  \
        "--send", "MODE", "overlap (default), rendezvous or blocking", false                       \
    }

/* Fills the request from the options. `path` is X.plan, or NULL for --chain or --dag. */
SL_MUST_CHECK sl_err sl_cli_sched_request(const struct sl_args *args, const char *path,
                                          struct sl_job_sched_request *out);
/* The same for a simulation; `path` may also be X.sched or X.csv. */
SL_MUST_CHECK sl_err sl_cli_sim_request(const struct sl_args *args, const char *path,
                                        struct sl_job_sim_request *out);

#endif
