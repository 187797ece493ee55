/* From the files of Sailor to a simulated step. */
#include "job/sailor.h"

#include "base/json.h"
#include "interop/sailor.h"
#include "job/sim.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

struct forecast {
    struct sl_sailor_forecast of;
    const struct sl_sailor_plan *plan;
    int64_t step_ns, peak_bytes;
    int peak_stage;
};

static sl_err add_file(struct sl_sailor *s, struct sl_arena *arena, const char *path) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, SL_SAILOR_FILE_MAX, &text, &length));
    sl_err err = sl_interop_sailor_add(s, arena, path, text, length);
    free(text);
    return err;
}

/* Finds `name` next to one of the files, or in the folder above it. */
static const char *find_in_folder(struct sl_arena *arena, const struct sl_job_sailor_request *r,
                                  const char *name) {
    static const char *const folders[] = {"", "../"};
    for (int i = 0; i < r->file_count; i++) {
        const char *slash = strrchr(r->files[i], '/');
        int length = slash ? (int)(slash - r->files[i]) + 1 : 0;
        for (int k = 0; k < SL_COUNT(folders); k++) {
            const char *path =
                sl_arena_printf(arena, "%.*s%s%s", length, r->files[i], folders[k], name);
            if (sl_file_exists(path))
                return path;
        }
    }
    return NULL;
}

static sl_err add_files(struct sl_sailor *s, struct sl_arena *arena,
                        const struct sl_job_sailor_request *r) {
    const char *path;
    for (int i = 0; i < r->file_count; i++)
        SL_TRY(add_file(s, arena, r->files[i]));
    if (!s->models.count && (path = find_in_folder(arena, r, "llm_info.json")))
        SL_TRY(add_file(s, arena, path));
    if (!s->links.count && (path = find_in_folder(arena, r, "network.json")))
        SL_TRY(add_file(s, arena, path));
    return SL_OK;
}

static sl_err simulate(struct sl_arena *arena, struct forecast *f) {
    const struct sl_job_sched_request request = {.iters = 1};
    const struct sl_plan *plan = f->of.plan;
    const struct sl_sim_opts opts = {.timeline = false};
    struct sl_schedule_opts with;
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    SL_TRY(sl_job_sched_opts(arena, &request, plan, &with));
    SL_TRY(sl_schedules_build(arena, plan, &with, &sched));
    SL_TRY(sl_sim_run(arena, sched, &opts, &sim));
    f->step_ns = sim->step_ns;
    for (int i = 0; i < plan->seat_count; i++)
        if (sim->seats[i].peak_bytes > f->peak_bytes) {
            f->peak_bytes = sim->seats[i].peak_bytes;
            f->peak_stage = plan->seats[i].stage;
        }
    return SL_OK;
}

/* --- output --- */

static double error_of(double predicted, double measured) {
    return measured > 0 ? predicted / measured - 1 : 0;
}

static void put_json(const struct forecast *f, struct sl_text *out) {
    struct sl_json_out json = {.text = out, .indent = 2};
    double step = (double)f->step_ns / 1e9;
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", f->of.model);
    sl_json_put_string(&json, "times_of", f->of.table);
    sl_json_put_int(&json, "stages", f->plan->stage_count);
    sl_json_put_int(&json, "micro_batches", f->of.micros);
    sl_json_put_double(&json, "step_s", step);
    sl_json_put_int(&json, "peak_bytes", f->peak_bytes);
    sl_json_put_string(&json, "peak_stage", f->of.plan->stages[f->peak_stage].name);
    if (f->plan->real > 0) {
        sl_json_put_double(&json, "measured_step_s", f->plan->real);
        sl_json_put_double(&json, "step_error", error_of(step, f->plan->real));
    }
    if (f->plan->peak_bytes > 0) {
        sl_json_put_double(&json, "measured_peak_bytes", f->plan->peak_bytes);
        sl_json_put_double(&json, "peak_error",
                           error_of((double)f->peak_bytes, f->plan->peak_bytes));
    }
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}

static void put_text(const struct forecast *f, struct sl_text *out) {
    char bytes[SL_HUMAN_BYTES], measured[SL_HUMAN_BYTES];
    double step = (double)f->step_ns / 1e9;
    sl_text_printf(out, "%s: %d stages on %d workers, %d micro-batches of %lld\n", f->of.model,
                   f->plan->stage_count, f->of.plan->worker_count, f->of.micros,
                   (long long)f->plan->micro);
    if (f->of.table != f->of.model)
        sl_text_printf(out,
                       "the profiles have the layers of %s: those with equal bytes of activations "
                       "take equal time\n",
                       f->of.table);
    sl_text_printf(out, "step    %.4g s", step);
    if (f->plan->real > 0)
        sl_text_printf(out, "   measured %.4g s, error %+.1f %%", f->plan->real,
                       100 * error_of(step, f->plan->real));
    sl_text_printf(out, "\nmemory  %s (stage %s)", sl_human_bytes(f->peak_bytes, bytes),
                   f->of.plan->stages[f->peak_stage].name);
    if (f->plan->peak_bytes > 0)
        sl_text_printf(out, "   measured %s, error %+.1f %%",
                       sl_human_bytes((int64_t)f->plan->peak_bytes, measured),
                       100 * error_of((double)f->peak_bytes, f->plan->peak_bytes));
    sl_text_put(out, "\n");
}

/* Writes the costs per kind of GPU: x.plan -> x.GH-96.cost. */
static sl_err write_costs(struct sl_arena *arena, const struct forecast *f, const char *to) {
    const char *slash = strrchr(to, '/'), *dot = strrchr(slash ? slash : to, '.');
    int stem = dot ? (int)(dot - to) : (int)strlen(to);
    for (int i = 0; i < f->of.cost_count; i++) {
        struct sl_text text = {0};
        sl_cost_write(f->of.costs[i], &text);
        sl_err err = sl_file_write(sl_arena_printf(arena, "%.*s.%s.cost", stem, to, f->of.gpus[i]),
                                   text.at, text.length);
        sl_text_free(&text);
        SL_TRY(err);
    }
    return SL_OK;
}

static sl_err write_files(struct sl_arena *arena, const struct forecast *f, const char *to) {
    struct sl_text text = {0};
    sl_plan_write(f->of.plan, &text);
    sl_err err = sl_file_write(to, text.at, text.length);
    sl_text_free(&text);
    SL_TRY(err);
    return write_costs(arena, f, to);
}

static sl_err run(struct sl_arena *arena, struct sl_sailor *s,
                  const struct sl_job_sailor_request *r, struct sl_text *out) {
    struct forecast f = {0};
    SL_TRY(add_files(s, arena, r));
    SL_TRY(sl_interop_sailor_forecast(s, arena, r->model, &f.of));
    f.plan = s->plan;
    SL_TRY(simulate(arena, &f));
    if (r->to)
        SL_TRY(write_files(arena, &f, r->to));
    if (r->json)
        put_json(&f, out);
    else
        put_text(&f, out);
    return SL_OK;
}

sl_err sl_job_sailor(const struct sl_job_sailor_request *request, struct sl_text *out) {
    struct sl_arena arena = {0};
    struct sl_sailor s = {0};
    sl_err err = run(&arena, &s, request, out);
    sl_interop_sailor_free(&s);
    sl_arena_free(&arena);
    return err;
}
