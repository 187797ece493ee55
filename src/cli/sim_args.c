/* A simulation from the command line. */
#define _DEFAULT_SOURCE
#include "cli/sim_args.h"

#include "cli/sched_args.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const int64_t picture_max = 20000000; /* actions: about 2 GiB */

bool sl_cli_ends(const char *path, const char *ending) {
    size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && strcmp(path + length - tail, ending) == 0;
}

bool sl_cli_colour(void) {
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && term && strcmp(term, "dumb") != 0;
}

int sl_cli_columns(void) {
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
        return size.ws_col;
    return 120;
}

static sl_err set_links(const struct sl_args *args, struct sl_arena *arena,
                        struct sl_sim_opts *opts) {
    static const char *const modes[] = {[SL_SEND_OVERLAP] = "overlap",
                                        [SL_SEND_RENDEZVOUS] = "rendezvous",
                                        [SL_SEND_BLOCKING] = "blocking"};
    const char *links = sl_args_text(args, "--links", NULL);
    const char *cold = sl_args_text(args, "--cold", NULL);
    const char *mode = sl_args_text(args, "--send", "overlap");
    int at = 0;
    while (at < SL_COUNT(modes) && strcmp(modes[at], mode) != 0)
        at++;
    if (at == SL_COUNT(modes))
        return sl_fail(SL_ERR_USAGE, "--send: '%s'; overlap, rendezvous or blocking", mode);
    opts->send = (enum sl_sim_send)at;
    if (cold)
        SL_TRY(sl_sim_cold_parse(cold, &opts->cold));
    if (!links)
        return SL_OK;
    struct sl_sim_links *parsed = SL_NEW(arena, struct sl_sim_links, 1);
    SL_TRY(sl_sim_links_parse(links, parsed));
    opts->net = sl_sim_uniform(parsed);
    return SL_OK;
}

/* A file of passes or a lowered program; --costs goes before the times in the file. */
static sl_err open_file(const struct sl_args *args, const char *path, struct sl_arena *arena,
                        const struct sl_sched **out) {
    const char *costs = sl_args_text(args, "--costs", NULL);
    struct sl_sched *sched;
    SL_TRY(sl_cli_sched_read(path, arena, &sched));
    if (costs) {
        int64_t(*dur)[SL_KIND_COUNT] =
            sl_arena_alloc(arena, (int64_t)sizeof *dur * sched->plan->stage_count);
        SL_TRY(sl_sim_costs(sched->plan, costs, dur));
        sched->dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    }
    if (!sched->lowered)
        SL_TRY(sl_sched_lower(arena, sched, &sched));
    *out = sched;
    return sl_sched_verify(sched);
}

static sl_err build(const struct sl_args *args, const char *path, const char *schedule,
                    struct sl_arena *arena, const struct sl_sched **out) {
    const struct sl_plan *plan;
    struct sl_sched_opts opts;
    struct sl_args only = *args;
    only.positional_count = path != NULL; /* report may have several */
    only.positional[0] = path;
    SL_TRY(sl_cli_plan(&only, arena, &plan));
    SL_TRY(sl_cli_sched_opts(&only, arena, plan, &opts));
    if (schedule)
        opts.schedule = schedule;
    return sl_sched_build(arena, plan, &opts, out);
}

static const char *detail_of(struct sl_arena *arena, const struct sl_sched *sched) {
    return sl_arena_printf(arena, "%d stages on %d workers, %d micro-batches, %d iteration%s",
                           sched->plan->stage_count, sched->plan->worker_count, sched->micros[0],
                           sched->iters, sched->iters == 1 ? "" : "s");
}

static int64_t action_total(const struct sl_sched *sched) {
    int64_t count = 0;
    for (int w = 0; w < sched->plan->worker_count; w++)
        count += sched->lists[SL_PROLOGUE][w].count + sched->lists[SL_EPILOGUE][w].count +
                 sched->reps * sched->lists[SL_PERIOD][w].count;
    return count;
}

sl_err sl_cli_simulate(const struct sl_args *args, const char *path, const char *schedule,
                       struct sl_arena *arena, struct sl_cli_sim *out) {
    struct sl_sim_opts opts = {0};
    bool file = path && !sl_cli_ends(path, ".plan");
    SL_TRY(set_links(args, arena, &opts));
    SL_TRY(file ? open_file(args, path, arena, &out->sched)
                : build(args, path, schedule, arena, &out->sched));
    opts.timeline = out->has_picture;
    if (out->has_picture && action_total(out->sched) > picture_max)
        return sl_fail(SL_ERR_REFUSED,
                       "%lld actions are too many for a picture; fewer --iters or "
                       "micro-batches show the same",
                       (long long)action_total(out->sched));
    SL_TRY(sl_sim_run(arena, out->sched, &opts, &out->sim));
    if (out->has_picture)
        sl_report_picture_build(arena, out->sim->timeline, out->sched->name,
                                detail_of(arena, out->sched), &out->picture);
    return SL_OK;
}

sl_err sl_cli_trace(const char *path, struct sl_arena *arena, struct sl_picture *out) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, (int64_t)4 << 30, &text, &length));
    sl_err err = sl_report_trace_read(arena, path, text, length, out);
    free(text);
    return err;
}

sl_err sl_cli_draw(const char *path, const struct sl_picture *pictures, int count) {
    struct sl_text text = {0};
    bool one = !sl_cli_ends(path, ".html");
    if (one && count > 1)
        return sl_fail(SL_ERR_USAGE, "%s: only .html compares two", path);
    if (!one)
        sl_report_html(pictures, count, &text);
    else if (sl_cli_ends(path, ".svg"))
        sl_report_svg(pictures, 1200, &text);
    else if (sl_cli_ends(path, ".json"))
        sl_report_trace(pictures, &text);
    else if (sl_cli_ends(path, ".txt"))
        sl_report_grid(pictures, &(struct sl_grid_opts){.critical = true}, &text);
    else
        return sl_fail(SL_ERR_USAGE,
                       "%s: the ending says what to write: .html, .svg, .trace.json "
                       "or .txt",
                       path);
    sl_err err = sl_file_write(path, text.at, text.length);
    sl_text_free(&text);
    return err;
}
