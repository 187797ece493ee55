/* The loop; async_loop.h says what it does. */
#include "support/async_formulas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FORESEEN = LOOP_STEPS + 1, SLABS }; /* weight slab of predictions */

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

void loop_open(struct loop *l) {
    enum { MEMORY = 1 << 20 };
    const struct sl_train_config *c = l->config;
    struct sl_device_config device = {.threads = 1};
    int64_t full = (c->batch + c->micros - 1) / c->micros;
    must(c->device->open(&device, &l->device));
    for (int s = 0; s < l->stages; s++) {
        struct sl_worker_config config = {
            .graph = c->graph,
            .stage_of = l->stage_of,
            .stage = s,
            .samples = full,
            .last_samples = c->batch - full * (c->micros - 1),
            .has_kernel = c->device->has_kernel,
            .slots = l->slots ? l->slots : 1,
            .versions = SLABS,
            .grad_slots = loop_width_of(l, s),
            .state_count = 2,
            .seed = c->seed,
        };
        must(sl_run_worker_open(l->device, &config, &l->worker[s]));
        size_t bytes = (size_t)l->worker[s]->programs[SL_WORKER_FULL]->param_bytes + 4;
        for (int v = 0; v <= LOOP_STEPS; v++) {
            l->delta[s][v] = calloc(bytes, 1);
            l->velocity[s][v] = calloc(bytes, 1);
        }
    }
    l->memory = malloc(MEMORY);
    l->sum = malloc(MEMORY);
}

void loop_close(struct loop *l) {
    for (int s = 0; s < l->stages; s++) {
        sl_run_worker_close(l->worker[s]);
        for (int v = 0; v <= LOOP_STEPS; v++) {
            free(l->delta[s][v]);
            free(l->velocity[s][v]);
        }
    }
    l->device->row->close(l->device);
    free(l->memory);
    free(l->sum);
}

struct micro {
    int64_t first, count, batch_first, step;
    enum sl_worker_program program;
    int64_t index; /* in its batch */
    int slot;
};

static double share(const struct loop *l, int loss, int64_t first, int64_t count) {
    int input = l->config->graph->losses.at[loss].count_input;
    int64_t valid = count;
    if (input >= 0)
        must(sl_data_count_valid(l->config->data, SL_DATA_TRAIN, first, count, input, &valid));
    return (double)valid;
}

static void put_inputs(struct loop *l, int s, const struct micro *u) {
    const struct sl_program *p = l->worker[s]->programs[u->program];
    for (int i = 0; i < p->inputs.count; i++) {
        must(sl_data_fill(l->config->data, SL_DATA_TRAIN, u->first, u->count, p->inputs.at[i].index,
                          l->memory));
        must(sl_run_worker_put(l->worker[s], u->slot, &p->inputs.at[i], l->memory));
    }
    for (int i = 0; i < p->seeds.count; i++) {
        int loss = p->seeds.at[i].index;
        double total = share(l, loss, u->batch_first, l->config->batch);
        float seed = (float)(l->config->graph->losses.at[loss].weight *
                             share(l, loss, u->first, u->count) / total);
        must(sl_run_worker_put(l->worker[s], u->slot, &p->seeds.at[i], &seed));
    }
}

static const struct sl_ports *ports(const struct sl_program *p, bool grad, bool send) {
    return grad ? (send ? &p->send_grad : &p->recv_grad) : (send ? &p->send_act : &p->recv_act);
}

/* Every port of the reader is filled from the port of the same value in the stage it names. */
static void move(struct loop *l, int s, const struct micro *u, bool grad) {
    const struct sl_ports *to = ports(l->worker[s]->programs[u->program], grad, false);
    for (int i = 0; i < to->count; i++) {
        int peer = to->at[i].peer, found = 0;
        const struct sl_ports *from = ports(l->worker[peer]->programs[u->program], grad, true);
        for (int j = 0; j < from->count; j++) {
            if (from->at[j].peer != s || from->at[j].value != to->at[i].value)
                continue;
            must(sl_run_worker_get(l->worker[peer], u->slot, &from->at[j], l->memory));
            must(sl_run_worker_put(l->worker[s], u->slot, &to->at[i], l->memory));
            found++;
        }
        assert_int_equal(found, 1);
    }
}

static void pass(struct loop *l, int s, const struct micro *u, enum sl_phase phase,
                 int64_t version) {
    struct sl_worker_pass p = {
        .program = u->program,
        .phase = phase,
        .slot = u->slot,
        .version = (int)version,
        .grad_slot = (int)(u->index % loop_width_of(l, s)),
        .accumulate = u->index >= loop_width_of(l, s),
        .seed = l->config->seed * 0x9E3779B97F4A7C15u + (uint64_t)u->step,
        .first_sample = u->first,
    };
    must(sl_run_worker_pass(l->worker[s], &p));
}

static void add_losses(struct loop *l, int s, const struct micro *u) {
    const struct sl_program *p = l->worker[s]->programs[u->program];
    for (int i = 0; i < p->losses.count; i++) {
        int loss = p->losses.at[i].index;
        float value;
        must(sl_run_worker_get(l->worker[s], u->slot, &p->losses.at[i], &value));
        l->loss[u->step] += l->config->graph->losses.at[loss].weight * (double)value *
                            share(l, loss, u->first, u->count) /
                            share(l, loss, u->batch_first, l->config->batch);
    }
}

/* The gradient of a parameter: all its uses, on whatever stages, in graph order. */
static const float *sum_uses(struct loop *l, int param) {
    const struct sl_graph *graph = l->config->graph;
    float *sum = (float *)(void *)l->sum;
    bool first = true;
    for (int64_t g = 0; g < graph->grads.count; g++) {
        if (graph->grads.at[g].param != param)
            continue;
        const struct sl_worker *w = l->worker[l->stage_of[graph->grads.at[g].node]];
        const struct sl_program *p = w->programs[SL_WORKER_FULL];
        int64_t numel =
            sl_graph_shape_numel(&sl_graph_value(graph, graph->params.at[param].value)->shape, 1);
        for (int u = 0; u < p->use_count; u++) {
            if (p->uses[u].grad != g)
                continue;
            const float *use =
                (const float *)(const void *)((char *)w->grad[0] + p->uses[u].offset);
            for (int64_t i = 0; i < numel; i++)
                sum[i] = first ? use[i] : sum[i] + use[i];
        }
        first = false;
    }
    assert_false(first);
    return sum;
}

/* A tensor of a stage in something laid out as its weights. */
static float *part(const struct loop *l, int s, const void *slab, int i) {
    const struct sl_program *p = l->worker[s]->programs[SL_WORKER_FULL];
    return (float *)(uintptr_t)((const char *)slab + p->params[i].offset);
}

/* out = w - by*x, product and difference rounded to float. */
static void moved(float *out, const float *w, float by, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float step = by * x[i];
        out[i] = w[i] - step;
    }
}

/* The weights that a pass reads: a version, or, in a slab of their own, what is foreseen. */
static int64_t weights_for(struct loop *l, int s, struct loop_at at, bool forward, int64_t start,
                           int64_t v) {
    struct sl_worker *w = l->worker[s];
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    int64_t far = loop_look_ahead(l, at, forward, v), version = start + v;
    bool back = loop_is_policy(l, "pipemare") && !forward;
    assert_true(far >= 0);
    if (!far && !back)
        return version;
    for (int i = 0; i < p->param_count; i++) {
        const float *direction =
            part(l, s, back ? l->velocity[s][version] : l->delta[s][version], i);
        double lr = version ? loop_rate(l, p->params[i].param, version) : 0;
        float by = back ? (float)loop_tau_of(l, s) : (float)(lr * ((double)far * loop_reach_of(l)));
        moved(sl_run_worker_weight(w, FORESEEN, i), sl_run_worker_weight(w, (int)version, i), by,
              direction, p->params[i].numel);
    }
    return FORESEEN;
}

static struct sl_optim_param param_of(const struct loop *l, int param) {
    const struct sl_graph *graph = l->config->graph;
    const struct sl_shape *shape = &sl_graph_value(graph, graph->params.at[param].value)->shape;
    struct sl_optim optim = l->config->optim;
    struct sl_optim_shape os = {.rank = shape->rank};
    memcpy(os.dim, shape->dim, sizeof os.dim);
    for (int64_t g = 0; g < graph->grads.count; g++)
        if (graph->grads.at[g].param == param)
            os.lookup |=
                strncmp(graph->nodes.at[graph->grads.at[g].node].op->name, "embed", 5) == 0;
    for (int i = 0; loop_is_policy(l, "nesterov-async") && optim.row->hyper[i].name; i++)
        if (strcmp(optim.row->hyper[i].name, "beta1") == 0 ||
            strcmp(optim.row->hyper[i].name, "beta") == 0)
            optim.hyper[i] = 0.99;
    return sl_optim_for(&optim, &os);
}

/* Version t of one parameter of a stage from version t-1. */
static void step_one(struct loop *l, int s, int i, int64_t t, float scale, void *scratch) {
    struct sl_worker *w = l->worker[s];
    int param = w->programs[SL_WORKER_FULL]->params[i].param;
    struct sl_optim_param op = param_of(l, param);
    float *to = sl_run_worker_weight(w, (int)t, i), *from = sl_run_worker_weight(w, (int)t - 1, i);
    float *delta = part(l, s, l->delta[s][t], i), *last = part(l, s, l->delta[s][t - 1], i);
    bool feedback = loop_is_policy(l, "error-feedback") && t > 1;
    double lr = loop_rate(l, param, t), lr_last = feedback ? loop_rate(l, param, t - 1) : 0;
    memcpy(to, from, sizeof *to * (size_t)op.count);
    if (feedback)
        moved(to, to, -(float)lr_last, last, op.count);
    struct sl_step_item item = {
        .param = &op,
        .coef = sl_optim_coef(&op, t, lr, scale),
        .lr = lr,
        .io = {.count = op.count,
               .rows = op.shape.rank > 0 ? op.shape.dim[0] : 1,
               .w = to,
               .g = sum_uses(l, param),
               .state = {sl_run_worker_opt(w, 0, i), sl_run_worker_opt(w, 1, i)},
               .delta = delta,
               .scratch = scratch},
    };
    item.io.cols = item.io.count / item.io.rows;
    must(l->device->row->step(l->device, &item, 1));
    if (feedback)
        moved(to, to, (float)lr_last, delta, op.count);
    if (loop_is_policy(l, "pipemare")) {
        float *velocity = part(l, s, l->velocity[s][t], i);
        const float *old = part(l, s, l->velocity[s][t - 1], i);
        float rest = (float)(1 - pow(0.135, 1 / loop_tau_of(l, loop_param_stage(l, param))));
        for (int64_t e = 0; e < op.count; e++) {
            float lost = from[e] - to[e], less = rest * old[e], more = rest * lost;
            velocity[e] = old[e] - less;
            velocity[e] = velocity[e] - more;
        }
    }
}

/* A step that is left out: the same weights; the direction is what the state says, or the last. */
static void skip_one(struct loop *l, int s, int i, int64_t t) {
    struct sl_worker *w = l->worker[s];
    struct sl_optim_param op = param_of(l, w->programs[SL_WORKER_FULL]->params[i].param);
    float *delta = part(l, s, l->delta[s][t], i);
    size_t bytes = sizeof(float) * (size_t)op.count;
    memcpy(sl_run_worker_weight(w, (int)t, i), sl_run_worker_weight(w, (int)t - 1, i), bytes);
    memcpy(delta, part(l, s, l->delta[s][t - 1], i), bytes);
    memcpy(part(l, s, l->velocity[s][t], i), part(l, s, l->velocity[s][t - 1], i), bytes);
    if (loop_is_policy(l, "error-feedback") || !op.optim.row->delta)
        return;
    struct sl_step_coef coef =
        sl_optim_coef(&op, t, loop_rate(l, w->programs[SL_WORKER_FULL]->params[i].param, t), 1);
    struct sl_step_io io = {.count = op.count,
                            .state = {sl_run_worker_opt(w, 0, i), sl_run_worker_opt(w, 1, i)},
                            .delta = delta};
    op.optim.row->delta(&coef, &io);
}

/* Is it used on several stages? */
static bool is_tied(const struct loop *l, int param) {
    const struct sl_graph *graph = l->config->graph;
    int stage = -1;
    for (int64_t g = 0; g < graph->grads.count; g++)
        if (graph->grads.at[g].param == param) {
            int at = l->stage_of[graph->grads.at[g].node];
            if (stage >= 0 && at != stage)
                return true;
            stage = at;
        }
    return false;
}

/* Sum of squares of all gradients in graph order, or of those of a stage in the stage's order. */
static double norm_sq(struct loop *l, int stage) {
    const struct sl_graph *graph = l->config->graph;
    double sum = 0;
    if (stage >= 0) {
        const struct sl_program *p = l->worker[stage]->programs[SL_WORKER_FULL];
        for (int i = 0; i < p->param_count; i++)
            if (!is_tied(l, p->params[i].param))
                sum += sl_optim_norm_sq(sum_uses(l, p->params[i].param), p->params[i].numel);
        return sum;
    }
    for (int param = 0; param < graph->params.count; param++) {
        if (graph->params.at[param].frozen)
            continue;
        const struct sl_value *value = sl_graph_value(graph, graph->params.at[param].value);
        sum += sl_optim_norm_sq(sum_uses(l, param), sl_graph_shape_numel(&value->shape, 1));
    }
    return sum;
}

/* The gradients of replicas, one after another; one without micro-batches adds zeros. */
static void add_replicas(struct loop *l, int s) {
    struct sl_worker *w = l->worker[s];
    int64_t count = w->programs[SL_WORKER_FULL]->grad_bytes / 4;
    float *sum = w->grad[0];
    for (int r = 1; r < loop_width_of(l, s); r++) {
        const float *more = w->grad[r];
        for (int64_t i = 0; i < count; i++)
            sum[i] = sum[i] + (r < l->config->micros ? more[i] : 0);
    }
}

/* Stage by stage: its own norm, or that of the tied parameter. */
static struct sl_norm_verdict judge_alone(struct loop *l, int s, int param) {
    double sum = norm_sq(l, s), clip = l->config->clip;
    if (is_tied(l, param)) {
        const struct sl_graph *graph = l->config->graph;
        const struct sl_value *value = sl_graph_value(graph, graph->params.at[param].value);
        sum = sl_optim_norm_sq(sum_uses(l, param), sl_graph_shape_numel(&value->shape, 1));
    }
    return sl_optim_norm_judge(sum, 1, clip);
}

/* Version t of all stages from version t-1 and the gradient that has come together. */
static void step_all(struct loop *l, int64_t t) {
    enum { SCRATCH = 1 << 20 };
    void *scratch = aligned_alloc(64, SCRATCH);
    for (int s = 0; s < l->stages; s++)
        add_replicas(l, s);
    struct sl_norm_verdict all = sl_optim_norm_judge(norm_sq(l, -1), 1, l->config->clip);
    l->norm[t - 1] = all.norm;
    l->skipped[t - 1] = !all.finite;
    for (int s = 0; s < l->stages; s++) {
        const struct sl_program *p = l->worker[s]->programs[SL_WORKER_FULL];
        for (int i = 0; i < p->param_count; i++) {
            struct sl_norm_verdict v = l->global_step ? all : judge_alone(l, s, p->params[i].param);
            if (v.finite)
                step_one(l, s, i, t, v.scale, scratch);
            else
                skip_one(l, s, i, t);
        }
    }
    free(scratch);
}

void loop_run(struct loop *l, const struct loop_rule *rule, int64_t start, int64_t steps) {
    const struct sl_train_config *c = l->config;
    int64_t m = c->micros, full = (c->batch + m - 1) / m;
    int64_t all = steps * m;
    l->rule = rule;
    for (int64_t k = 1; k <= all; k++) {
        int64_t t = (k - 1) / m, j = (k - 1) % m;
        struct micro u = {.step = start + t, .index = j};
        u.batch_first = u.step * c->batch;
        u.first = u.batch_first + j * full;
        u.count = j == m - 1 ? c->batch - j * full : full;
        u.program = sl_run_worker_program_for(l->worker[0], u.count);
        for (int s = 0; s < l->stages; s++) {
            struct loop_at at = loop_at_of(l, s, k), first = at;
            if (loop_is_policy(l, "xpipe")) /* the replica's first micro-batch of the step */
                first.k = t * m + 1 + j % at.w;
            put_inputs(l, s, &u);
            move(l, s, &u, false);
            pass(l, s, &u, SL_PHASE_F,
                 weights_for(l, s, at, true, start, loop_version_of(l, rule, first, true, all)));
            add_losses(l, s, &u);
        }
        for (int s = l->stages - 1; s >= 0; s--) {
            struct loop_at at = loop_at_of(l, s, k), first = at;
            if (loop_is_policy(l, "xpipe")) /* the replica's first micro-batch of the step */
                first.k = t * m + 1 + j % at.w;
            move(l, s, &u, true);
            pass(l, s, &u, SL_PHASE_B,
                 weights_for(l, s, at, false, start, loop_version_of(l, rule, first, false, all)));
        }
        if (j == m - 1)
            step_all(l, start + t + 1);
    }
}

static struct micro micro_of(const struct loop *l, int64_t step, int64_t j) {
    const struct sl_train_config *c = l->config;
    int64_t m = c->micros, full = (c->batch + m - 1) / m;
    struct micro u = {.step = step, .index = j, .slot = (int)j, .batch_first = step * c->batch};
    u.first = u.batch_first + j * full;
    u.count = j == m - 1 ? c->batch - j * full : full;
    u.program = sl_run_worker_program_for(l->worker[0], u.count);
    return u;
}

void loop_run_ordered(struct loop *l, const int *const *forwards, const int *const *sums,
                      int64_t steps) {
    int64_t m = l->config->micros;
    l->rule = &loop_rules[0]; /* of rates, which have no policy here */
    for (int64_t t = 0; t < steps; t++) {
        for (int s = 0; s < l->stages; s++)
            for (int64_t j = 0; j < m; j++) {
                struct micro u = micro_of(l, t, forwards[s][j]);
                put_inputs(l, s, &u);
                move(l, s, &u, false);
                pass(l, s, &u, SL_PHASE_F, t);
            }
        for (int64_t j = 0; j < m; j++)
            for (int s = 0; s < l->stages; s++) {
                struct micro u = micro_of(l, t, j);
                add_losses(l, s, &u);
            }
        for (int s = l->stages - 1; s >= 0; s--)
            for (int64_t j = 0; j < m; j++) {
                struct micro u = micro_of(l, t, sums[s][j]);
                u.index = j;
                move(l, s, &u, true);
                pass(l, s, &u, SL_PHASE_B, t);
            }
        step_all(l, t + 1);
    }
}

/* ---- the comparison ---- */

static const char *differing_tensor(const struct loop *l, const struct sl_pipe *pipe, int s,
                                    int replica, int i) {
    const struct sl_worker *want = l->worker[s], *got = sl_pipe_replica(pipe, s, replica);
    const struct sl_program *p = got->programs[SL_WORKER_FULL];
    const struct sl_optimizer *row = param_of(l, p->params[i].param).optim.row;
    size_t bytes = (size_t)p->params[i].numel * 4;
    if (memcmp(sl_run_worker_weight(got, sl_pipe_replica_newest(pipe, s, replica), i),
               sl_run_worker_weight(want, LOOP_STEPS, i), bytes) != 0)
        return l->config->graph->params.at[p->params[i].param].name;
    for (int o = 0; o < row->state_count; o++)
        if (memcmp(sl_run_worker_opt(got, o, i), sl_run_worker_opt(want, o, i), bytes) != 0)
            return "optimizer state";
    const char *kept = sl_optim_policy_kept_name(&l->config->policy, &l->config->optim);
    if (!kept)
        return NULL;
    const void *mine = part(
        l, s, strcmp(kept, "velocity") == 0 ? l->velocity[s][LOOP_STEPS] : l->delta[s][LOOP_STEPS],
        i);
    return memcmp(sl_run_worker_opt(got, got->state_count - 1, i), mine, bytes) != 0 ? kept : NULL;
}

const char *loop_replica_difference(const struct loop *l, const struct sl_pipe *pipe, int s,
                                    int replica) {
    const struct sl_program *p = sl_pipe_replica(pipe, s, replica)->programs[SL_WORKER_FULL];
    for (int i = 0; i < p->param_count; i++) {
        const char *name = differing_tensor(l, pipe, s, replica, i);
        if (name)
            return name;
    }
    return NULL;
}

const char *loop_difference(const struct loop *l, const struct sl_pipe *pipe, int s) {
    const struct sl_worker *want = l->worker[s], *got = sl_pipe_worker(pipe, s);
    const struct sl_program *p = got->programs[SL_WORKER_FULL];
    const char *name = loop_replica_difference(l, pipe, s, 0);
    if (name)
        return name;
    for (int i = 0; i < p->state_count; i++)
        if (memcmp((char *)got->state + p->states[i].offset,
                   (char *)want->state + p->states[i].offset, (size_t)p->states[i].numel * 4) != 0)
            return "statistics";
    return NULL;
}
