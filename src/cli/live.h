/* The dashboard of a training run: keeps what it shows, draws it when it is time. */
#ifndef SL_CLI_LIVE_H
#define SL_CLI_LIVE_H

#include "cli/run_stats.h"
#include "report/dashboard.h"

struct sl_live {
    bool on;
    struct sl_dashboard shown;
    struct sl_dashboard_room room;
    struct sl_arena arena; /* of the picture */
    struct sl_picture lanes;
    bool has_lanes;
    int64_t drawn_ns; /* when it was drawn last */
};

/* On a terminal that can redraw; elsewhere it stays off and lines are printed. */
void sl_cli_live_open(struct sl_live *live, const struct sl_pipe_config *config);
void sl_cli_live_close(struct sl_live *live); /* the last picture stays on the screen */
void sl_cli_live_trace(struct sl_live *live, const struct sl_timeline *timeline);
void sl_cli_live_step(struct sl_live *live, const struct sl_step_report *r);
/* A step that will come again, with those before it: the curve waits for that. */
void sl_cli_live_provisional(struct sl_live *live, const struct sl_step_report *r);

#endif
