/* A simulation from the command line: what to play, on which links. Shared by sim and report. */
#ifndef SL_CLI_SIM_ARGS_H
#define SL_CLI_SIM_ARGS_H

#include "base/opt.h"
#include "report/picture.h"
#include "sim/sim.h"

#define SL_SIM_OPTIONS                                                                             \
    {"--links", "L", "'latency=5us,bandwidth=10Gb/s,duplex=half,sharing=all,receive=early'",       \
     false},                                                                                       \
        {"--cold", "C", "what a pass takes more after a wait: 'F=40us,B=90us,after=5ms'", false},  \
    {                                                                                              \
        "--send", "MODE", "overlap (default), rendezvous or blocking", false                       \
    }

struct sl_cli_sim {
    const struct sl_sched *sched; /* verified */
    const struct sl_sim *sim;
    struct sl_picture picture; /* when asked for */
    bool has_picture;
};

/* Plays `path` (X.plan, X.sched, X.csv; NULL: --chain or --dag). `schedule` overrides --schedule
 * when it is not NULL. */
SL_MUST_CHECK sl_err sl_cli_simulate(const struct sl_args *args, const char *path,
                                     const char *schedule, struct sl_arena *arena,
                                     struct sl_cli_sim *out);

/* X.trace.json of sim, run or report. */
SL_MUST_CHECK sl_err sl_cli_trace(const char *path, struct sl_arena *arena, struct sl_picture *out);

/* Writes pictures to a file by its ending: .html, .svg, .json (Chrome trace), .txt (grid). */
SL_MUST_CHECK sl_err sl_cli_draw(const char *path, const struct sl_picture *pictures, int count);

bool sl_cli_ends(const char *path, const char *ending);

/* Is standard output a terminal that wants colour; its columns, or 120. */
bool sl_cli_colour(void);
int sl_cli_columns(void);

#endif
