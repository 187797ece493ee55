/* Computes the bytes of a stage on a worker. */
#include "plan/bytes.h"

#include "graph/stats.h"

#include <string.h>

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

struct sl_optim_shape sl_plan_optim_shape(const struct sl_graph *graph, int param) {
    int value = graph->params.at[param].value;
    const struct sl_shape *shape = &sl_graph_value(graph, value)->shape;
    struct sl_optim_shape out = {.rank = shape->rank};
    memcpy(out.dim, shape->dim, sizeof out.dim);
    for (int64_t g = 0; g < graph->grads.count; g++)
        if (graph->grads.at[g].param == param) {
            const struct sl_op *op = graph->nodes.at[graph->grads.at[g].node].op;
            out.lookup |= op->layer == SL_LAYER_EMBED;
        }
    return out;
}

int sl_plan_optim_slabs(const struct sl_optim *optim) {
    if (!optim || !optim->row)
        return 0;
    int count = optim->row->state_count;
    const struct sl_optimizer *other = optim->row->fallback;
    return other && other->state_count > count ? other->state_count : count;
}

int sl_plan_slabs(const struct sl_optim *optim, const struct sl_policy_use *policy) {
    bool kept = optim && optim->row && policy && sl_optim_policy_kept_name(policy, optim);
    return sl_plan_optim_slabs(optim) + kept;
}

/* Where the range of replica k begins: at a cache line near k/width of the slab, and at the nearer end
 * of a parameter that must stay whole. */
static int64_t owned_from(const struct sl_program *p, const struct sl_optim *optim, int width,
                          int k) {
    enum { LINE = 16 }; /* floats */
    int64_t floats = p->param_bytes / 4, at = floats / LINE * k / width * LINE;
    if (k == width)
        return floats;
    for (int i = 0; i < p->param_count && optim && optim->row; i++) {
        int64_t first = p->params[i].offset / 4, end = first + p->params[i].numel;
        struct sl_optim_shape shape = sl_plan_optim_shape(p->graph, p->params[i].param);
        if (first < at && at < end && sl_optim_for(optim, &shape).optim.row->whole_matrix)
            return at - first < end - at ? first : end;
    }
    return at;
}

struct sl_owned sl_plan_owned(const struct sl_program *p, const struct sl_optim *optim, int width,
                              int replica) {
    int64_t first = owned_from(p, optim, width, replica);
    return (struct sl_owned){first, owned_from(p, optim, width, replica + 1) - first};
}

/* Optimizer state of the replica that has most. */
static int64_t state_bytes(const struct sl_bytes_spec *spec) {
    int64_t most = spec->full->param_bytes / 4;
    for (int k = 0; k < spec->divided; k++) {
        int64_t count = sl_plan_owned(spec->full, spec->optim, spec->divided, k).count;
        most = k == 0 ? count : larger(most, count);
    }
    return sl_plan_slabs(spec->optim, spec->policy) * most * 4;
}

int64_t sl_plan_optim_scratch(const struct sl_program *program, const struct sl_optim *optim) {
    int64_t max = 64;
    for (int i = 0; optim && optim->row && i < program->param_count; i++) {
        struct sl_optim_shape shape = sl_plan_optim_shape(program->graph, program->params[i].param);
        struct sl_optim_param param = sl_optim_for(optim, &shape);
        max = larger(max, sl_optim_scratch_bytes(&param));
    }
    return max;
}

int64_t sl_plan_staging_bytes(const struct sl_program *program) {
    int64_t max = 64;
    for (int i = 0; i < program->inputs.count; i++)
        max = larger(max, program->inputs.at[i].operand.numel * 4);
    return max;
}

/* Returns the bytes that all passes of a worker share, with those of its programs. */
static int64_t work_bytes(const struct sl_bytes_spec *spec, int64_t slot) {
    const struct sl_program *programs[] = {spec->full, spec->last, spec->eval};
    int64_t work = 0, extra = 0, staging = 0, objects = 0;
    for (int i = 0; i < SL_COUNT(programs); i++) {
        const struct sl_program *p = programs[i];
        if (!p)
            continue;
        work = larger(work, p->work_bytes);
        if (p == spec->eval && p->slot_bytes > slot) /* evaluation needs more than any slot has */
            work = larger(work, p->slot_bytes);
        staging = larger(staging, sl_plan_staging_bytes(p));
        if (spec->extra_bytes)
            extra = larger(extra, spec->extra_bytes(p, spec->threads));
        objects += p->arena.used_bytes + (i != 1 ? sl_graph_bytes(p->graph) : 0);
    }
    return work + extra + staging + objects + sl_plan_optim_scratch(spec->full, spec->optim);
}

void sl_plan_bytes(const struct sl_bytes_spec *spec, struct sl_stage_bytes *out) {
    const struct sl_program *p = spec->full;
    int64_t slot = p->slot_bytes;
    slot = larger(slot, spec->last ? spec->last->slot_bytes : 0);
    /* param_bytes are trained parameters only: pass/ports.c puts frozen ones into fixed_bytes. */
    *out = (struct sl_stage_bytes){
        .params = p->param_bytes,
        .fixed = p->fixed_bytes,
        .grads = p->grad_bytes,
        .state = state_bytes(spec) + p->state_bytes,
        /* A stage recomputes in its workspace; its slots hold what F saved. */
        .stash = p->recompute ? 0 : slot,
        .saved = p->recompute ? slot : 0,
        .kept = slot, /* from I to W a micro-batch keeps its slot */
        .work = work_bytes(spec, slot),
    };
}

int64_t sl_plan_shared_bytes(const struct sl_graph *graph,
                             int64_t (*extra_bytes)(const struct sl_program *program,
                                                    int threads)) {
    /* without programs and threads, only the memory remains that a process maps for the device */
    const struct sl_program nothing = {.graph = graph};
    return sl_graph_bytes(graph) + (extra_bytes ? extra_bytes(&nothing, 0) : 0);
}

int64_t sl_plan_stage_bytes_total(const struct sl_stage_bytes *b) {
    return b->params + b->fixed + b->grads + b->state + b->stash + b->saved + b->work;
}
