/* The live dashboard of a training run, redrawn at most ten times per second. */
#ifndef SL_CLI_LIVE_H
#define SL_CLI_LIVE_H

#include "pipe/pipe.h"
#include "report/dashboard.h"

struct sl_live {
    bool on;
    struct sl_dashboard shown;
    struct sl_dashboard_room room;
    struct sl_arena arena; /* arena of the picture */
    struct sl_picture lanes;
    bool has_lanes;
    int64_t drawn_ns; /* time of the last frame */
};

/* Opens the dashboard, which stays off unless standard error is a terminal that can redraw. */
void sl_cli_live_open(struct sl_live *live, const struct sl_pipe_config *config);
void sl_cli_live_close(struct sl_live *live); /* leaves the last frame on the screen */
void sl_cli_live_trace(struct sl_live *live, const struct sl_timeline *timeline);
void sl_cli_live_step(struct sl_live *live, const struct sl_step_report *r);
/* Shows a step without its final report, which is not yet in the loss curve. */
void sl_cli_live_provisional(struct sl_live *live, const struct sl_step_report *r);

#endif
