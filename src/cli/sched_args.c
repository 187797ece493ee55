/* A schedule from the command line, and its summary. */
#include "cli/sched_args.h"

#include "base/json.h"
#include "interop/torch_csv.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_GIB = 8 };

static sl_err read_plan(const char *path, struct sl_arena *arena, const struct sl_plan **out) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, (int64_t)1 << 30, &text, &length));
    sl_err err = sl_plan_read(arena, path, text, length, out);
    free(text);
    return err;
}

static sl_err sketch_chain(const struct sl_args *args, struct sl_arena *arena, int64_t stages,
                           const struct sl_plan **out) {
    const struct sl_schedule *row = sl_sched_row_find(sl_args_text(args, "--schedule", "1f1b"));
    enum sl_layout layout = row ? row->layout : SL_LAYOUT_LOOP;
    int64_t workers = stages, chunks = row && row->layout_chunks ? 2 : 1;
    SL_TRY(sl_args_int(args, "--chunks", 1, stages, &chunks));
    if (stages % chunks)
        return sl_fail(SL_ERR_REFUSED, "%lld stages cannot be put on workers in chunks of %lld",
                       (long long)stages, (long long)chunks);
    workers = stages / chunks;
    SL_TRY(sl_args_int(args, "--ranks", 1, SL_WORKER_MAX, &workers));
    return sl_plan_chain(arena, (int)stages, (int)workers, layout, out);
}

sl_err sl_cli_plan(const struct sl_args *args, struct sl_arena *arena, const struct sl_plan **out) {
    int64_t stages = 0, workers = 0;
    bool dag = sl_args_has(args, "--dag"), chain = sl_args_has(args, "--chain");
    if (dag + chain + (args->positional_count > 0) != 1)
        return sl_fail(SL_ERR_USAGE, "%s: give one of X.plan, --chain N and --dag EDGES",
                       args->command);
    if (args->positional_count)
        return read_plan(args->positional[0], arena, out);
    if (chain) {
        SL_TRY(sl_args_int(args, "--chain", 1, SL_STAGE_MAX, &stages));
        return sketch_chain(args, arena, stages, out);
    }
    SL_TRY(sl_args_int(args, "--ranks", 1, SL_WORKER_MAX, &workers));
    return sl_plan_dag(arena, sl_args_text(args, "--dag", ""), (int)workers, out);
}

static sl_err set_costs(const struct sl_args *args, struct sl_arena *arena,
                        const struct sl_plan *plan, struct sl_sched_opts *out) {
    const char *text = sl_args_text(args, "--costs", NULL);
    if (!text)
        return SL_OK;
    int64_t(*dur)[SL_KIND_COUNT] = sl_arena_alloc(arena, (int64_t)sizeof *dur * plan->stage_count);
    SL_TRY(sl_sim_costs(plan, text, dur));
    out->dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    return SL_OK;
}

sl_err sl_cli_sched_opts(const struct sl_args *args, struct sl_arena *arena,
                         const struct sl_plan *plan, struct sl_sched_opts *out) {
    *out = (struct sl_sched_opts){.schedule = sl_args_text(args, "--schedule", plan->schedule),
                                  .batch = plan->batch};
    if (!out->schedule)
        return sl_fail(SL_ERR_USAGE,
                       "%s: --schedule is missing; 'sluice list schedules' shows "
                       "what there is",
                       args->command);
    if (sl_args_has(args, "--micro"))
        out->batch = 0;
    SL_TRY(sl_args_int(args, "--micro", 1, INT32_MAX / 4, &out->micros));
    SL_TRY(sl_args_int(args, "--batch", 1, INT64_MAX >> 16, &out->batch));
    SL_TRY(sl_args_int(args, "--last-batch", 1, INT64_MAX >> 16, &out->last_batch));
    SL_TRY(sl_args_int(args, "--iters", 1, INT32_MAX / 4, &out->iters));
    SL_TRY(sl_args_int(args, "--group", 1, INT32_MAX / 4, &out->group));
    out->global_step = sl_args_has(args, "--together");
    SL_TRY(sl_args_int(args, "--slack", 0, 1 << 20, &out->slack));
    if (sl_args_has(args, "--policy")) {
        struct sl_policy_use *policy = SL_NEW(arena, struct sl_policy_use, 1);
        SL_TRY(sl_optim_policy_parse(sl_args_text(args, "--policy", "none"), policy));
        out->policy = policy;
    }
    if (!out->batch && !out->micros)
        return sl_fail(SL_ERR_USAGE, "%s: --micro M or --batch B is missing", args->command);
    return set_costs(args, arena, plan, out);
}

sl_err sl_cli_sched_read(const char *path, struct sl_arena *arena, struct sl_sched **out) {
    char *text;
    size_t length, tail = strlen(path);
    bool csv = tail > 4 && strcmp(path + tail - 4, ".csv") == 0;
    SL_TRY(sl_file_read(path, (int64_t)FILE_MAX_GIB << 30, &text, &length));
    sl_err err = csv ? sl_interop_torch_csv_read(arena, path, text, length, out)
                     : sl_sched_read(arena, path, text, length, out);
    free(text);
    return err;
}

/* --- summary --- */

void sl_cli_sched_measure(const struct sl_sched *sched, int seat, int64_t *live, int64_t *delay) {
    int worker = sched->plan->seats[seat].worker, stage = sched->plan->seats[seat].stage;
    int64_t now = 0;
    *live = *delay = 0;
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        for (int64_t i = 0; i < sched->lists[s][worker].count; i++) {
            const struct sl_action *a = &sched->lists[s][worker].at[i];
            if (a->stage != stage || a->kind > SL_BACKWARD_INPUT)
                continue;
            now += a->kind == SL_FORWARD ? 1 : -1;
            *live = now > *live ? now : *live;
            int64_t behind = a->micro / sched->micros[stage] - a->version;
            if (a->kind == SL_FORWARD && behind > *delay)
                *delay = behind;
        }
}

static void summary_json(const struct sl_sched *sched, const struct sl_sim *sim,
                         struct sl_text *out) {
    const struct sl_plan *plan = sched->plan;
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "schedule", sched->name);
    sl_json_put_string(&json, "rule", sl_sched_rule_name(sched->rule));
    sl_json_put_bool(&json, "verified", true);
    sl_json_put_int(&json, "iterations", sched->iters);
    sl_json_put_int(&json, "repetitions", sched->reps);
    sl_json_put_int(&json, "depth", plan->depth);
    sl_json_put_int(&json, "actions", sl_sched_action_count(sched));
    if (sim)
        sl_json_put_int(&json, "step_ns", sim->step_ns);
    sl_json_key(&json, "stages");
    sl_json_open(&json, '[');
    for (int i = 0; i < plan->seat_count; i++) {
        const struct sl_seat *seat = &plan->seats[i];
        int64_t live, delay;
        sl_cli_sched_measure(sched, i, &live, &delay);
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "stage", plan->stages[seat->stage].name);
        sl_json_put_int(&json, "replica", seat->replica);
        sl_json_put_int(&json, "worker", seat->worker);
        sl_json_put_int(&json, "micro_batches", sched->micros[seat->stage]);
        sl_json_put_int(&json, "live", live);
        sl_json_put_int(&json, "live_samples", live * plan->stages[seat->stage].micro_size);
        if (sim)
            sl_json_put_int(&json, "bubble_ns", sl_sim_bubble(sim, seat->worker));
        sl_json_put_int(&json, "versions", sched->pools[i][SL_POOL_WEIGHT].count);
        sl_json_put_int(&json, "delay", delay);
        if (sim)
            sl_json_put_int(&json, "peak_bytes", sim->seats[i].peak_bytes);
        sl_json_put_int(&json, "worker_bytes", sl_sched_worker_bytes(sched, seat->worker));
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}

void sl_cli_sched_summary(const struct sl_sched *sched, const struct sl_sim *sim, bool json,
                          struct sl_text *out) {
    const struct sl_plan *plan = sched->plan;
    char bytes[SL_HUMAN_BYTES];
    if (json) {
        summary_json(sched, sim, out);
        return;
    }
    sl_text_printf(out,
                   "%s (%s): %d stages, %d workers, depth %d, %d iterations, %lld actions: "
                   "verified\n",
                   sched->name, sl_sched_rule_name(sched->rule), plan->stage_count,
                   plan->worker_count, plan->depth, sched->iters,
                   (long long)sl_sched_action_count(sched));
    sl_text_put(out, "stage             worker  micro-batches  live  versions  delay  memory of "
                     "worker\n");
    for (int i = 0; i < plan->seat_count; i++) {
        const struct sl_seat *seat = &plan->seats[i];
        int64_t live, delay;
        sl_cli_sched_measure(sched, i, &live, &delay);
        sl_text_printf(out, "%-16s  %6d  %13d  %4lld  %8d  %5lld  %s\n",
                       plan->stages[seat->stage].name, seat->worker, sched->micros[seat->stage],
                       (long long)live, sched->pools[i][SL_POOL_WEIGHT].count, (long long)delay,
                       sl_human_bytes(sl_sched_worker_bytes(sched, seat->worker), bytes));
    }
}
