/* A schedule from the command line: a plan, a chain or a graph, and a row of the registry. Shared
 * by the commands that build one. */
#ifndef SL_CLI_SCHED_ARGS_H
#define SL_CLI_SCHED_ARGS_H

#include "base/opt.h"
#include "sched/schedule.h"
#include "sim/sim.h"

/* Rows for the option tables of those commands. */
#define SL_SCHED_OPTIONS                                                                           \
    {"--chain", "N", "N stages in a row", false},                                                  \
        {"--dag", "EDGES", "a graph of stages: 'a>b,a>c,b>d,c>d'", false},                         \
        {"--schedule", "S", "which one; see 'sluice list schedules'", false},                      \
        {"--micro", "M", "micro-batches per iteration", false},                                    \
        {"--batch", "B", "samples per iteration, instead of --micro", false},                      \
        {"--last-batch", "B", "samples of the last iteration", false},                             \
        {"--ranks", "R", "workers; the default is one per stage", false},                          \
        {"--chunks", "V", "stages per worker, instead of --ranks", false},                         \
        {"--policy", "P", "against staleness; see 'sluice list policies'", false},                 \
        {"--together", NULL, "asynchronous: one verdict for all stages before a step", false},     \
        {"--iters", "I", "iterations (optimizer steps); the default is 1", false},                 \
        {"--slack", "K", "micro-batches that may wait between stages (default 0)", false},         \
        {"--group", "K", "k of kfkb and graph; the default is 1", false}, {                        \
        "--costs", "COSTS", "nanoseconds: 'F=3,I=2,W=2' or per stage 'a:F=3,I=2,W=2;b:F=1'", false \
    }

/* The plan that the arguments describe (positional X.plan, --chain or --dag). */
SL_MUST_CHECK sl_err sl_cli_plan(const struct sl_args *args, struct sl_arena *arena,
                                 const struct sl_plan **out);
/* The options for it. */
SL_MUST_CHECK sl_err sl_cli_sched_opts(const struct sl_args *args, struct sl_arena *arena,
                                       const struct sl_plan *plan, struct sl_sched_opts *out);

/* A .sched file, or a PyTorch .csv. As it is. */
SL_MUST_CHECK sl_err sl_cli_sched_read(const char *path, struct sl_arena *arena,
                                       struct sl_sched **out);

/* Most micro-batches of a seat between F and B or I; most steps its forwards are behind. */
void sl_cli_sched_measure(const struct sl_sched *sched, int seat, int64_t *live, int64_t *delay);

/* The summary of a verified schedule, as text or JSON; without `sim` it tells no times and peaks.
 */
void sl_cli_sched_summary(const struct sl_sched *sched, const struct sl_sim *sim, bool json,
                          struct sl_text *out);

#endif
