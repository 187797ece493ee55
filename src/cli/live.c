/* The live dashboard of a training run. */
#define _POSIX_C_SOURCE 200809L
#include "cli/live.h"

#include "base/clock.h"
#include "base/log.h"
#include "job/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool has_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < SL_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strstr(value, "UTF-8") || strstr(value, "utf8");
    }
    return false;
}

/* Measures the terminal, whose size may change at any time. */
static void measure_room(struct sl_live *live) {
    struct winsize size;
    live->room.columns = 80;
    live->room.rows = 24;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        live->room.columns = size.ws_col;
        live->room.rows = size.ws_row;
    }
    live->room.columns--; /* a full line might wrap */
    live->room.rows -= 2; /* leaves room for the shell prompt and a note */
}

void sl_cli_live_open(struct sl_live *live, const struct sl_pipe_config *config) {
    *live = (struct sl_live){.on = sl_log_is_terminal()};
    if (!live->on)
        return;
    live->room.colour = sl_log_has_colour();
    live->room.unicode = has_utf8();
    live->shown.steps = config->train->steps;
    live->shown.eval_loss = NAN;
    live->shown.title =
        config->plan
            ? sl_arena_printf(&live->arena, "%s, %s on %d workers", config->train->graph->name,
                              config->schedule, config->plan->worker_count)
            : sl_arena_printf(&live->arena, "%s, one worker", config->train->graph->name);
}

void sl_cli_live_trace(struct sl_live *live, const struct sl_timeline *timeline) {
    static const char nothing[] = "";
    struct sl_arena old = live->arena;
    if (!live->on)
        return;
    live->arena = (struct sl_arena){0};
    live->shown.title = sl_arena_dup(&live->arena, live->shown.title, strlen(live->shown.title));
    sl_report_picture_build(&live->arena, timeline, nothing, nothing, &live->lanes);
    live->has_lanes = true;
    sl_arena_free(&old);
}

static void draw(struct sl_live *live) {
    struct sl_text frame = {0};
    measure_room(live);
    sl_report_dashboard_put(&live->shown, live->has_lanes ? &live->lanes : NULL, &live->room,
                            &frame);
    sl_log_frame(frame.at);
    sl_text_free(&frame);
    live->drawn_ns = sl_clock_ns();
}

void sl_cli_live_step(struct sl_live *live, const struct sl_step_report *r) {
    if (!live->on)
        return;
    sl_report_dashboard_add(&live->shown, r->loss);
    sl_cli_live_provisional(live, r);
}

void sl_cli_live_provisional(struct sl_live *live, const struct sl_step_report *r) {
    enum { FRAME_NS = 100000000 };
    struct sl_dashboard *d = &live->shown;
    if (!live->on)
        return;
    d->step = r->step;
    d->loss = r->loss;
    d->norm = r->norm;
    d->lr = r->lr;
    d->bubble = r->worker_bytes ? r->bubble : NAN;
    d->bytes = r->worker_bytes ? r->worker_bytes : sl_job_peak_bytes();
    if (r->step == d->steps || sl_clock_ns() - live->drawn_ns > FRAME_NS)
        draw(live);
}

void sl_cli_live_close(struct sl_live *live) {
    if (live->on && live->shown.step)
        draw(live);
    if (live->on)
        sl_log_keep_frame();
    sl_arena_free(&live->arena);
}
