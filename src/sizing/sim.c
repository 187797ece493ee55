/* Turns degrees of parallelism into a candidate and simulates it (sim.h). */
#include "sizing/sim.h"

#include "graph/blocks.h"
#include "job/defaults.h"
#include "job/planning.h"
#include "planners/parts.h"

#include <string.h>

struct layout {
    struct sl_arena *arena;
    const struct sl_sizing_request *request;
    const struct sl_schedule *row;
    const struct sl_problem *problem;
    int pp, dp, chunks;
    int *stage_of; /* [unit] */
};

/* ---- degrees ---- */

static sl_err check_degrees(const struct layout *l) {
    const struct sl_problem *p = l->problem;
    int64_t micros = (p->batch + p->sizes[0] - 1) / p->sizes[0];
    int devices = p->machine->device_count;
    if ((int64_t)l->pp * l->dp > devices)
        return sl_fail(SL_ERR_REFUSED,
                       "`tp`, `dp`, `pp`: %d x %d x %d = %lld devices, and machine %s has %lld",
                       sl_search_problem_shards(p), l->dp, l->pp,
                       (long long)sl_search_problem_shards(p) * l->dp * l->pp, p->machine->name,
                       (long long)devices * sl_search_problem_shards(p));
    if (l->dp > micros)
        return sl_fail(SL_ERR_REFUSED,
                       "`dp`: %d replicas of %lld micro-batches; a larger `batch` or a smaller "
                       "`micro_batch` has one for each",
                       l->dp, (long long)micros);
    if (l->row->layout == SL_LAYOUT_CROSS && l->pp % 2)
        return sl_fail(SL_ERR_REFUSED,
                       "`pp`: schedule %s needs an even number of stages, not %d: the middle one "
                       "would have both replicas on one device",
                       l->row->name, l->pp);
    if (l->row->layout == SL_LAYOUT_CROSS && l->dp % 2)
        return sl_fail(SL_ERR_REFUSED, "`dp`: schedule %s runs pairs of pipelines; %d is odd",
                       l->row->name, l->dp);
    return SL_OK;
}

static sl_err set_degrees(struct layout *l) {
    const struct sl_sizing_request *r = l->request;
    int devices = l->problem->machine->device_count;
    bool shares = sl_search_schedule_shares(l->row->name);
    bool fixed = l->row->layout != SL_LAYOUT_LOOP;
    l->pp = r->plan.pp ? (int)r->plan.pp : 1;
    l->chunks = r->chunks ? (int)r->chunks : shares ? 2 : 1;
    if (l->row->layout == SL_LAYOUT_CROSS)
        l->chunks = 1;
    if ((fixed && r->chunks && r->chunks != l->chunks) || (!shares && l->chunks > 1))
        return sl_fail(SL_ERR_USAGE, "`chunks`: schedule %s has %d stages on a worker",
                       l->row->name, shares ? 2 : 1);
    if (r->group > 1 && !l->row->groups)
        return sl_fail(SL_ERR_USAGE, "`group`: schedule %s has no groups", l->row->name);
    if (r->plan.dp)
        l->dp = (int)r->plan.dp;
    else
        l->dp = devices / l->pp;
    int64_t micros = (l->problem->batch + l->problem->sizes[0] - 1) / l->problem->sizes[0];
    if (!r->plan.dp && l->dp > micros)
        l->dp = (int)micros;
    l->dp = l->dp ? l->dp : 1;
    return check_degrees(l);
}

/* ---- stages ---- */

static bool goes_forward(const struct layout *l) {
    const struct sl_problem *p = l->problem;
    for (int t = 0; t < p->tensor_count; t++)
        for (int i = 0; i < p->tensors[t].to_count; i++)
            if (l->stage_of[p->tensors[t].from] > l->stage_of[p->tensors[t].to[i]])
                return false;
    return true;
}

/* Gives every stage the same number of layers. False: the model has no such layers. */
static bool cut_layers(struct layout *l, const int *order, int stages) {
    const struct sl_problem *p = l->problem;
    struct sl_blocks blocks;
    int layer = 0;
    sl_graph_blocks(l->arena, l->request->plan.graph, &blocks);
    if (!blocks.count || blocks.count % stages)
        return false;
    for (int i = 0; i < p->unit_count; i++) {
        int block = blocks.of[p->units[order[i]].nodes[0]];
        layer = block > layer ? block : layer;
        l->stage_of[order[i]] = (int)((int64_t)layer * stages / blocks.count);
    }
    return goes_forward(l);
}

static sl_err cut(struct layout *l) {
    const struct sl_problem *p = l->problem;
    int stages = l->pp * l->chunks, *order = SL_NEW(l->arena, int, p->unit_count + 1);
    l->stage_of = SL_NEW(l->arena, int, p->unit_count + 1);
    SL_ASSERT(sl_graph_dag_order(l->arena, &p->dag, order));
    if (cut_layers(l, order, stages))
        return SL_OK;
    int made = sl_planners_even_cut(p, order, 0, stages, l->stage_of);
    if (made != stages)
        return sl_fail(SL_ERR_REFUSED,
                       "`pp`: %d stages (`pp` times `chunks`), and model '%s' has %d parts that a "
                       "border can separate evenly",
                       stages, p->model, made);
    return SL_OK;
}

/* ---- simulation ---- */

static void fill_candidate(struct layout *l, bool *recompute, struct sl_candidate *c) {
    int stages = l->pp * l->chunks, *width = SL_NEW(l->arena, int, stages);
    int *group = l->request->group > 1 ? SL_NEW(l->arena, int, stages) : NULL;
    for (int s = 0; s < stages; s++) {
        width[s] = l->dp;
        if (group)
            group[s] = (int)l->request->group;
    }
    *c = (struct sl_candidate){.stage_count = stages,
                               .stage_of = l->stage_of,
                               .width = width,
                               .group_of = group,
                               .recompute = recompute,
                               .schedule = l->row->name,
                               .ranks = sl_search_schedule_shares(l->row->name) ? l->pp : 0};
}

static sl_err play(struct layout *l, const bool *recompute, struct sl_candidate_detail *detail,
                   struct sl_candidate_play *out) {
    struct sl_candidate c;
    fill_candidate(l, NULL, &c);
    c.recompute = recompute;
    sl_search_candidate_expand(l->arena, l->problem, &c, detail);
    return sl_search_candidate_play(l->arena, detail, l->request->picture, out);
}

/* Simulates with recomputation as requested: all stages, none, or those that would not fit. */
static sl_err play_fitting(struct layout *l, struct sl_candidate_detail *detail,
                           struct sl_candidate_play *out) {
    int stages = l->pp * l->chunks;
    bool *none = SL_NEW(l->arena, bool, stages), *all = SL_NEW(l->arena, bool, stages);
    bool *some = SL_NEW(l->arena, bool, stages);
    memset(all, 1, sizeof *all * (size_t)stages);
    if (l->problem->recompute != SL_RECOMPUTE_ALWAYS)
        SL_TRY(play(l, none, detail, out));
    else
        return play(l, all, detail, out);
    if (out->score.over_bytes <= 0 || l->problem->recompute == SL_RECOMPUTE_NEVER)
        return SL_OK;
    SL_TRY(play(l, all, detail, out));
    if (!sl_search_candidate_drop_recompute(detail, 1, some))
        return SL_OK;
    struct sl_candidate_detail other = *detail;
    struct sl_candidate_play less;
    SL_TRY(play(l, some, &other, &less));
    if (less.score.over_bytes <= 0) {
        *detail = other;
        *out = less;
    }
    return SL_OK;
}

static sl_err simulate(struct layout *l, struct sl_report_model_sim *out) {
    struct sl_candidate_detail *detail = SL_NEW(l->arena, struct sl_candidate_detail, 1);
    struct sl_candidate_play played;
    SL_TRY(sl_schedules_row_require(SL_JOB_OR(l->request->plan.schedule, "1f1b"), &l->row));
    SL_TRY(set_degrees(l));
    SL_TRY(cut(l));
    SL_TRY(play_fitting(l, detail, &played));
    *out = (struct sl_report_model_sim){
        .detail = detail,
        .score = played.score,
        .sim = {.sched = played.sched, .sim = played.sim, .has_picture = l->request->picture},
        .pp = l->pp,
        .chunks = l->chunks,
    };
    if (l->request->picture)
        sl_report_picture_build(l->arena, played.sim->timeline, l->row->name, l->problem->model,
                                &out->sim.picture);
    return SL_OK;
}

sl_err sl_sizing_sim(struct sl_arena *arena, const struct sl_sizing_request *request,
                     struct sl_report_model_sim *out) {
    struct sl_job_plan_request plan = request->plan;
    struct sl_job_planning p = {0};
    struct layout l = {.arena = arena, .request = request};
    int64_t batch = plan.batch ? plan.batch : SL_JOB_BATCH;
    if (!plan.micros && !plan.micro_size) /* takes samples one by one */
        plan.micro_size = 1;
    if (plan.micro_size && batch % plan.micro_size)
        return sl_fail(SL_ERR_USAGE, "`batch`: %lld is no multiple of the micro-batch of %lld",
                       (long long)batch, (long long)plan.micro_size);
    plan.whole_layers = true;
    sl_err err = sl_job_planning_open(arena, &plan, &p);
    l.problem = p.problem;
    if (err == SL_OK)
        err = simulate(&l, out);
    sl_graph_close(p.shard);
    return err;
}
