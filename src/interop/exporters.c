/* The exporters, in alphabetical order, and checks that several of them share. */
#include "interop/exporter.h"

#include "schedules/schedule.h"

#include <string.h>

extern const struct sl_exporter sl_interop_export_automodel, sl_interop_export_csv,
    sl_interop_export_dot, sl_interop_export_json, sl_interop_export_megatron,
    sl_interop_export_torchtitan;

const struct sl_exporter *const sl_interop_exporters[] = {
    &sl_interop_export_automodel,
    &sl_interop_export_csv,
    &sl_interop_export_dot,
    &sl_interop_export_json,
    &sl_interop_export_megatron,
    &sl_interop_export_torchtitan,
    NULL,
};

static const char *name_of(const void *ctx, int i) {
    (void)ctx;
    return sl_interop_exporters[i]->name;
}

sl_err sl_interop_exporter_find(const char *name, const struct sl_exporter **out) {
    int count = 0;
    for (; sl_interop_exporters[count]; count++)
        if (strcmp(sl_interop_exporters[count]->name, name) == 0) {
            *out = sl_interop_exporters[count];
            return SL_OK;
        }
    const char *near = sl_nearest(name, count, name_of, NULL);
    return sl_fail(
        SL_ERR_USAGE,
        "--to: '%s' is unknown; automodel, csv, dot, json, megatron and torchtitan are%s%s%s", name,
        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int sl_interop_export_ranks(const struct sl_plan *plan) {
    int ranks = 0; /* number of stages before the first one on a worker that is already used */
    for (; ranks < plan->stage_count; ranks++)
        for (int s = 0; s < ranks; s++)
            if (plan->stages[s].workers[0] == plan->stages[ranks].workers[0])
                return ranks;
    return ranks;
}

/* A planner that makes chains of equal stages: of the schedule's layout, or with one stage per
 * worker. */
static const char *planner_for(const struct sl_export *x) {
    const struct sl_schedule *row = x->schedule;
    return row && (row->layout_chunks || row->layout == SL_LAYOUT_V) ? "balanced" : "2bw";
}

/* No target has options for weights that are not trained. */
static sl_err check_trains(const struct sl_export *x, const char *target) {
    for (int64_t i = 0; x->graph && i < x->graph->params.count; i++)
        if (x->graph->params.at[i].frozen)
            return sl_fail(SL_ERR_REFUSED,
                           "%s has no options for frozen weights, and %s is frozen here; plan "
                           "without --freeze and --lora",
                           target, x->graph->params.at[i].name);
    for (int s = 0; s < x->plan->stage_count; s++)
        if (x->plan->stages[s].passes != SL_STAGE_TRAINS)
            return sl_fail(SL_ERR_REFUSED,
                           "%s trains every stage, and %s is frozen here; plan without --freeze "
                           "and --lora",
                           target, x->plan->stages[s].name);
    return SL_OK;
}

static sl_err check_chain(const struct sl_export *x, const char *target) {
    const struct sl_plan *plan = x->plan;
    for (int i = 0; i < plan->edge_count; i++) {
        const struct sl_edge *e = &plan->edges[i];
        if (e->to != e->from + 1)
            return sl_fail(SL_ERR_REFUSED,
                           "%s has stages in a row only, and this plan has an edge from %s to %s; "
                           "plan a chain: --planner %s",
                           target, plan->stages[e->from].name, plan->stages[e->to].name,
                           planner_for(x));
    }
    if (plan->edge_count != plan->stage_count - 1)
        return sl_fail(SL_ERR_REFUSED,
                       "%s has stages in a row only, and these %d stages have %d edges; plan a "
                       "chain: --planner %s",
                       target, plan->stage_count, plan->edge_count, planner_for(x));
    return SL_OK;
}

static sl_err check_equal(const struct sl_export *x, const char *target) {
    const struct sl_plan *plan = x->plan;
    const struct sl_stage *first = &plan->stages[0];
    for (int s = 1; s < plan->stage_count; s++) {
        const struct sl_stage *stage = &plan->stages[s];
        if (stage->width != first->width)
            return sl_fail(SL_ERR_REFUSED,
                           "%s replicates all stages alike, and here %s has %d replicas and %s "
                           "has %d; plan with --uniform or --straight",
                           target, first->name, first->width, stage->name, stage->width);
        if (stage->micro_size != first->micro_size)
            return sl_fail(SL_ERR_REFUSED,
                           "%s has one micro-batch size, and here %s has %lld and %s has %lld "
                           "samples; plan with --micro N",
                           target, first->name, (long long)first->micro_size, stage->name,
                           (long long)stage->micro_size);
        if (stage->shards != first->shards || stage->zero1 != first->zero1)
            return sl_fail(SL_ERR_REFUSED,
                           "%s has one tensor-parallel size and one kind of optimizer state, and "
                           "here %s and %s differ",
                           target, first->name, stage->name);
        if (stage->recompute != first->recompute)
            return sl_fail(SL_ERR_REFUSED,
                           "%s recomputes on all stages or on none, and here %s and %s differ; "
                           "plan with --uniform",
                           target, first->name, stage->name);
    }
    return SL_OK;
}

/* Returns the stage, of the first `ranks`, that is on the same worker as stage s. */
static int first_on_worker(int s, int ranks, enum sl_layout layout) {
    return layout == SL_LAYOUT_V && s / ranks % 2 == 1 ? ranks - 1 - s % ranks : s % ranks;
}

const struct sl_schedule *sl_interop_export_torch_row(const struct sl_export *x) {
    const struct sl_plan *plan = x->plan;
    const struct sl_schedule *row = x->schedule;
    int64_t micros = plan->batch / (plan->stages[0].width * plan->stages[0].micro_size);
    if (!row || !row->torchtitan_name)
        return NULL;
    return row->torch_fills && plan->batch && micros < plan->stage_count ? NULL : row;
}

sl_err sl_interop_export_check_row(const struct sl_export *x, const char *target,
                                   enum sl_layout layout) {
    const struct sl_plan *plan = x->plan;
    const struct sl_schedule *row = x->schedule;
    SL_TRY(check_trains(x, target));
    SL_TRY(check_chain(x, target));
    SL_TRY(check_equal(x, target));
    if (row && row->rule != SL_RULE_SYNC)
        return sl_fail(SL_ERR_REFUSED,
                       "%s flushes its pipeline at every step, and %s does not; plan with "
                       "--schedule 1f1b",
                       target, plan->schedule);
    int64_t round = plan->stages[0].width * plan->stages[0].micro_size;
    if (plan->batch % round)
        return sl_fail(SL_ERR_REFUSED,
                       "%s has whole micro-batches only, as many for each of %d replicas, and a "
                       "batch of %lld is no multiple of %d x %lld samples; plan with another batch",
                       target, plan->stages[0].width, (long long)plan->batch, plan->stages[0].width,
                       (long long)plan->stages[0].micro_size);
    if (row && row->layout == SL_LAYOUT_CROSS)
        return sl_fail(SL_ERR_REFUSED,
                       "%s has no crossing pipelines, and %s has two on every worker; plan with "
                       "--schedule 1f1b",
                       target, plan->schedule);
    int ranks = sl_interop_export_ranks(plan);
    SL_ASSERT(ranks > 0);
    if (plan->stage_count % ranks)
        return sl_fail(SL_ERR_REFUSED,
                       "%s has as many stages on every rank, and here %d stages are on %d ranks; "
                       "plan with --planner %s",
                       target, plan->stage_count, ranks, planner_for(x));
    for (int s = ranks; s < plan->stage_count; s++) {
        int first = first_on_worker(s, ranks, layout);
        if (plan->stages[s].workers[0] != plan->stages[first].workers[0])
            return sl_fail(SL_ERR_REFUSED,
                           "%s assigns stages to ranks %s, so %s must be on the rank of %s", target,
                           layout == SL_LAYOUT_V ? "in a V" : "in turn", plan->stages[s].name,
                           plan->stages[first].name);
    }
    return SL_OK;
}
