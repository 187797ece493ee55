/* Forecasts a plan of Sailor: converts Sailor's tables to times and bytes of our plan.
 *
 *     stage  pass = largest over its replicas of the sum over its layers + exchanges
 *            DeepSpeed exchanges with a neighbour before a pass, activation and gradient one after
 *            the other, and both ends wait:
 *
 *     stage 0   |F|<->|B|   |F|<->|B|        <-> : activation down, gradient up
 *     stage 1       <->|F|<->|B| ...         an inner stage waits for both neighbours
 *
 * docs/sailor.md has all rules and their sources. */
#include "interop/sailor.h"

#include "base/map.h"

#include <math.h>
#include <string.h>

enum { FLOAT_BYTES = 4, COPIES = 6 };
static const double exchange_short = 3; /* greatest depth of a short pipeline; see exchange_of */

struct maker {
    const struct sl_sailor *s;
    const struct sl_sailor_plan *plan;
    struct sl_arena *arena;
    /* the model of the plan, and the model whose layers were measured */
    const struct sl_sailor_model *model, *table;
};

/* --- times of layers --- */

static const struct sl_sailor_profile *profile_of(const struct maker *m, const char *gpu) {
    for (int64_t i = 0; i < m->s->profiles.count; i++) {
        const struct sl_sailor_profile *p = &m->s->profiles.at[i];
        if (strcmp(p->gpu, gpu) == 0 && strcmp(p->model, m->model->name) == 0)
            return p;
    }
    return NULL;
}

static const struct sl_sailor_layer *layer_of(const struct sl_sailor_model *model, int tensor,
                                              int layer) {
    int low = 0, high = model->count;
    while (low < high) {
        int middle = (low + high) / 2;
        const struct sl_sailor_layer *l = &model->at[middle];
        if (l->tensor < tensor || (l->tensor == tensor && l->layer < layer))
            low = middle + 1;
        else
            high = middle;
    }
    bool found =
        low < model->count && model->at[low].tensor == tensor && model->at[low].layer == layer;
    return found ? &model->at[low] : NULL;
}

/* Finds the rows of a layer at a degree: [*first, end). */
static int rows_of(const struct sl_sailor_profile *p, int tensor, int layer, int *first) {
    int low = 0, high = p->count;
    while (low < high) {
        int middle = (low + high) / 2;
        const struct sl_sailor_time *t = &p->times[middle];
        if (t->tensor < tensor || (t->tensor == tensor && t->layer < layer))
            low = middle + 1;
        else
            high = middle;
    }
    *first = low;
    while (low < p->count && p->times[low].tensor == tensor && p->times[low].layer == layer)
        low++;
    return low;
}

/* Returns the smallest time from row `at` on: a pass on fewer samples takes no longer than one on
 * more. */
static struct sl_sailor_time envelope(const struct sl_sailor_profile *p, int at, int end) {
    struct sl_sailor_time t = p->times[at];
    for (int i = at + 1; i < end; i++) {
        const struct sl_sailor_time *u = &p->times[i];
        t.forward = u->forward < t.forward ? u->forward : t.forward;
        t.backward = u->backward < t.backward ? u->backward : t.backward;
    }
    return t;
}

/* Interpolates linearly between micro-batches; continues with the last slope beyond them. */
static struct sl_sailor_time interpolate(const struct sl_sailor_profile *p, int first, int end,
                                         double micro) {
    int at = first;
    while (at + 2 < end && p->times[at + 1].micro < micro)
        at++;
    struct sl_sailor_time a = envelope(p, at, end), b;
    if (micro <= a.micro)
        return a;
    if (at + 1 == end) { /* only one size was measured */
        a.forward *= micro / a.micro;
        a.backward *= micro / a.micro;
        return a;
    }
    b = envelope(p, at + 1, end);
    double share = (micro - a.micro) / (double)(b.micro - a.micro);
    a.forward += share * (b.forward - a.forward);
    a.backward += share * (b.backward - a.backward);
    return a;
}

/* Returns the measured layer that stands for layer `layer`: the first for the first, the last for
 * the last. */
static int measured_layer(const struct maker *m, int layer) {
    int inner = m->table->layers - 2;
    if (m->table == m->model || layer == 0)
        return layer;
    if (layer == m->model->layers - 1)
        return m->table->layers - 1;
    return layer < inner ? layer : inner;
}

static sl_err time_of(const struct maker *m, const char *gpu, int tensor, int layer,
                      struct sl_sailor_time *out) {
    const struct sl_sailor_profile *p = profile_of(m, gpu);
    int first, from = measured_layer(m, layer);
    double micro = (double)m->plan->micro;
    if (!p)
        return sl_fail(SL_ERR_INPUT, "%s: no profile of %s on %s is given (%s.%s.json)",
                       m->plan->file, m->model->name, gpu, m->model->name, gpu);
    int end = rows_of(p, tensor, from, &first);
    if (first == end)
        return sl_fail(SL_ERR_INPUT, "%s: no times of layer %d at tensor degree %d", p->file, from,
                       tensor);
    if (m->table != m->model) { /* assumes that equal bytes of activations take equal time */
        const struct sl_sailor_layer *a = layer_of(m->model, tensor, layer);
        const struct sl_sailor_layer *b = layer_of(m->table, tensor, from);
        if (!a || !b || !(b->saved > 0))
            return sl_fail(SL_ERR_INPUT, "%s: no bytes of layer %d at tensor degree %d",
                           m->model->file, layer, tensor);
        micro *= a->saved / b->saved;
    }
    *out = interpolate(p, first, end, micro);
    return SL_OK;
}

/* --- a stage --- */

struct stage_cost {
    double forward, backward, update, sync, exchange; /* in seconds */
    double params, saved, largest, reserve;           /* floats of the layers; reserve: bytes */
    int tensor;
};

/* Bytes outside the tensors: context, kernels, buffers of collectives. These are numbers of
 * Sailor's authors (sailor/Planner/simulations/runtime_simulator.py: check_config_fits and,
 * measured on GH200, get_memory_footprint_on_gpu). */
static double reserve_of(const char *gpu, int tensor) {
    static const struct {
        const char *gpu;
        double bytes;
    } measured[] = {{"GH-96", 4.76e9}};
    for (int i = 0; i < SL_COUNT(measured); i++)
        if (strcmp(gpu, measured[i].gpu) == 0)
            return measured[i].bytes;
    return tensor == 1 ? 2e9 : 3e9;
}

static sl_err cost_replica(const struct maker *m, const struct sl_sailor_stage *stage,
                           const struct sl_sailor_replica *r, struct stage_cost *out) {
    double forward = 0, backward = 0, update = 0;
    for (int g = 0; g < r->gpu_count; g++) { /* takes the slowest kind of its hosts */
        double f = 0, b = 0, u = 0;
        for (int i = 0; i < stage->layer_count; i++) {
            struct sl_sailor_time t;
            SL_TRY(time_of(m, r->gpus[g], r->tensor, stage->layers[i], &t));
            f += t.forward;
            b += t.backward;
            u = t.update > u ? t.update : u;
        }
        if (f + b > forward + backward) {
            forward = f;
            backward = b;
        }
        update = u > update ? u : update;
        double reserve = reserve_of(r->gpus[g], r->tensor);
        out->reserve = reserve > out->reserve ? reserve : out->reserve;
    }
    if (forward + backward > out->forward + out->backward) {
        out->forward = forward;
        out->backward = backward;
    }
    out->update = update > out->update ? update : out->update;
    return SL_OK;
}

static sl_err cost_bytes(const struct maker *m, const struct sl_sailor_stage *stage,
                         struct stage_cost *out) {
    for (int i = 0; i < stage->layer_count; i++) {
        const struct sl_sailor_layer *l = layer_of(m->model, out->tensor, stage->layers[i]);
        if (!l)
            return sl_fail(SL_ERR_INPUT, "%s: no layer %d of %s at tensor degree %d",
                           m->model->file, stage->layers[i], m->model->name, out->tensor);
        out->params += l->params;
        out->saved += l->saved;
        out->largest = l->saved > out->largest ? l->saved : out->largest;
    }
    return SL_OK;
}

/* Costs the ring of the replicas. Every GPU of a replica reduces its shard, and these share the
 * links of the host. */
static sl_err cost_sync(const struct maker *m, const struct sl_sailor_stage *stage,
                        struct stage_cost *out) {
    int n = stage->replica_count;
    double bytes = 2.0 * (n - 1) / n * out->params * FLOAT_BYTES;
    for (int i = 0; i < n && n > 1 && bytes > 0; i++) {
        const struct sl_sailor_replica *a = &stage->replicas[i], *b = &stage->replicas[(i + 1) % n];
        double rate = sl_interop_sailor_bandwidth(m->s, a, b, out->tensor, bytes);
        if (!(rate > 0))
            return sl_fail(SL_ERR_INPUT, "%s: no network from %s to %s is given", m->plan->file,
                           a->gpus[0], b->gpus[0]);
        double sync = bytes * out->tensor / rate;
        out->sync = sync > out->sync ? sync : out->sync;
    }
    return SL_OK;
}

/* Costs one transfer between stage `at` and the next: that of the slowest pair of replicas. */
static sl_err cost_transfer(const struct maker *m, int at, double *out) {
    const struct sl_sailor_stage *a = &m->plan->stages[at], *b = a + 1;
    const struct sl_sailor_layer *l =
        layer_of(m->model, m->model->at[0].tensor, a->layers[a->layer_count - 1]);
    int pairs = a->replica_count > b->replica_count ? a->replica_count : b->replica_count;
    if (!l)
        return sl_fail(SL_ERR_INPUT, "%s: no layer %d of %s", m->model->file,
                       a->layers[a->layer_count - 1], m->model->name);
    double bytes = l->output * FLOAT_BYTES * (double)m->plan->micro;
    *out = 0;
    for (int i = 0; i < pairs && bytes > 0; i++) {
        const struct sl_sailor_replica *x = &a->replicas[i % a->replica_count];
        const struct sl_sailor_replica *y = &b->replicas[i % b->replica_count];
        double rate = sl_interop_sailor_bandwidth(m->s, x, y, 1, bytes);
        if (!(rate > 0))
            return sl_fail(SL_ERR_INPUT, "%s: no network from %s to %s is given", m->plan->file,
                           x->gpus[0], y->gpus[0]);
        *out = bytes / rate > *out ? bytes / rate : *out;
    }
    return SL_OK;
}

/* Returns the seconds that stage i spends in exchanges per micro-batch: an activation and a
 * gradient with every neighbour. In a pipeline of up to three stages, Sailor's authors count only
 * one transfer at the first stage. */
static double exchange_of(const double *transfer, int i, int stages) {
    double before = i ? 2 * transfer[i - 1] : 0, after = i + 1 < stages ? 2 * transfer[i] : 0;
    return i == 0 && stages <= exchange_short ? after / 2 : before + after;
}

static sl_err cost_stages(const struct maker *m, struct stage_cost *costs) {
    double *transfer = SL_NEW(m->arena, double, m->plan->stage_count);
    for (int i = 0; i + 1 < m->plan->stage_count; i++)
        SL_TRY(cost_transfer(m, i, &transfer[i]));
    for (int i = 0; i < m->plan->stage_count; i++) {
        const struct sl_sailor_stage *stage = &m->plan->stages[i];
        costs[i].tensor = stage->replicas[0].tensor;
        for (int r = 0; r < stage->replica_count; r++) {
            int tensor = stage->replicas[r].tensor;
            costs[i].tensor = tensor < costs[i].tensor ? tensor : costs[i].tensor;
            SL_TRY(cost_replica(m, stage, &stage->replicas[r], &costs[i]));
        }
        SL_TRY(cost_bytes(m, stage, &costs[i]));
        SL_TRY(cost_sync(m, stage, &costs[i]));
        costs[i].exchange = exchange_of(transfer, i, m->plan->stage_count);
    }
    return SL_OK;
}

/* --- Sluice's plan --- */

static int64_t ns_of(double seconds) {
    return seconds < 9e9 ? (int64_t)llround(seconds * 1e9) : INT64_MAX;
}

static int64_t bytes_of(double bytes) { return bytes < 9e18 ? (int64_t)llround(bytes) : INT64_MAX; }

/* Fills memory: Adam in fp32 under DeepSpeed has weights, gradients, two moments, one copy by
 * DeepSpeed and one buffer for communication. A backward pass holds gradients of the activations of
 * one layer. */
static void put_stage(const struct stage_cost *c, int64_t micro, struct sl_stage *stage) {
    double params = c->params * FLOAT_BYTES, sample = FLOAT_BYTES * (double)micro;
    stage->shards = c->tensor;
    stage->micro_size = micro;
    stage->bytes = (struct sl_stage_bytes){
        .params = bytes_of(params),
        .grads = bytes_of(params),
        .state = bytes_of((COPIES - 2) * params),
        .stash = bytes_of(c->saved * sample),
        .work = bytes_of(c->largest * sample + c->reserve),
    };
    int64_t f = ns_of(c->forward + c->exchange / 2), b = ns_of(c->backward + c->exchange / 2);
    stage->times = (struct sl_stage_times){.f = f,
                                           .b = b,
                                           .i = b / 2,
                                           .w = b - b / 2,
                                           .recompute = f,
                                           .reduce = ns_of(c->sync),
                                           .step = ns_of(c->update)};
}

static sl_err build_plan(const struct maker *m, const struct stage_cost *costs, int64_t batch,
                         const struct sl_plan **out) {
    int count = m->plan->stage_count, workers = 0;
    struct sl_stage *stages = SL_NEW(m->arena, struct sl_stage, count);
    struct sl_edge *edges = SL_NEW(m->arena, struct sl_edge, count);
    for (int i = 0; i < count; i++) {
        const struct sl_sailor_stage *from = &m->plan->stages[i];
        int *places = SL_NEW(m->arena, int, from->replica_count);
        for (int r = 0; r < from->replica_count; r++)
            places[r] = workers++;
        stages[i].name = sl_arena_printf(m->arena, "s%d", i);
        stages[i].width = from->replica_count;
        stages[i].workers = places;
        put_stage(&costs[i], m->plan->micro, &stages[i]);
        const struct sl_sailor_layer *l =
            layer_of(m->model, m->model->at[0].tensor, from->layers[from->layer_count - 1]);
        edges[i] = (struct sl_edge){
            .from = i, .to = i + 1, .sample_bytes = bytes_of(l ? l->output * FLOAT_BYTES : 0)};
    }
    const struct sl_plan draft = {.model = m->model->name,
                                  .stages = stages,
                                  .stage_count = count,
                                  .edges = edges,
                                  .edge_count = count - 1,
                                  .worker_count = workers,
                                  .memory_bytes = SL_NEW(m->arena, int64_t, workers),
                                  .schedule = "1f1b",
                                  .batch = batch};
    return sl_plan_build(m->arena, &draft, out);
}

/* --- Sluice's cost tables --- */

static sl_err build_cost(const struct maker *m, const struct sl_sailor_profile *p,
                         const struct sl_cost **out) {
    struct sl_cost_row *rows = SL_NEW(m->arena, struct sl_cost_row, p->count);
    for (int i = 0; i < p->count; i++) {
        const struct sl_sailor_time *t = &p->times[i];
        const char *name = sl_arena_printf(m->arena, "layer %d tensor %d", t->layer, t->tensor);
        const char *key = sl_arena_printf(m->arena, "sailor %s %s", p->model, name);
        int64_t b = ns_of(t->backward);
        rows[i] = (struct sl_cost_row){.signature = sl_hash(key, strlen(key)),
                                       .micro = t->micro,
                                       .f = ns_of(t->forward),
                                       .i = b / 2,
                                       .w = b - b / 2,
                                       .seen = 1,
                                       .name = name};
    }
    const struct sl_cost draft = {.model = p->model,
                                  .device = p->gpu,
                                  .threads = 1,
                                  .busy = 1,
                                  .rows = rows,
                                  .row_count = p->count};
    SL_TRY(sl_cost_build(m->arena, &draft, out));
    return SL_OK;
}

static sl_err build_costs(const struct maker *m, struct sl_sailor_forecast *out) {
    int64_t max = m->s->profiles.count;
    out->costs = SL_NEW(m->arena, const struct sl_cost *, max);
    out->gpus = SL_NEW(m->arena, const char *, max);
    for (int64_t i = 0; i < max; i++) {
        const struct sl_sailor_profile *p = &m->s->profiles.at[i];
        if (strcmp(p->model, m->model->name) != 0 || profile_of(m, p->gpu) != p)
            continue;
        SL_TRY(build_cost(m, p, &out->costs[out->cost_count]));
        out->gpus[out->cost_count++] = p->gpu;
    }
    return SL_OK;
}

/* --- choosing the model --- */

static const struct sl_sailor_model *model_named(const struct sl_sailor *s, const char *name) {
    for (int64_t i = 0; i < s->models.count; i++)
        if (strcmp(s->models.at[i].name, name) == 0)
            return &s->models.at[i];
    return NULL;
}

static int layers_of(const struct sl_sailor_plan *plan) {
    int count = 0;
    for (int i = 0; i < plan->stage_count; i++)
        count += plan->stages[i].layer_count;
    return count;
}

/* Chooses the model with as many layers as the plan, among those that have profiles. */
static sl_err choose_model(const struct maker *m, const char *name,
                           const struct sl_sailor_model **out) {
    int layers = layers_of(m->plan);
    *out = name ? model_named(m->s, name) : NULL;
    if (name && !*out)
        return sl_fail(SL_ERR_INPUT, "%s: no list of the layers of %s is given (llm_info.json)",
                       m->plan->file, name);
    for (int64_t i = 0; i < m->s->profiles.count && !name; i++) {
        const struct sl_sailor_model *found = model_named(m->s, m->s->profiles.at[i].model);
        if (!found || found->layers != layers || found == *out)
            continue;
        if (*out)
            return sl_fail(SL_ERR_INPUT, "%s: %s and %s have %d layers; --model names one",
                           m->plan->file, (*out)->name, found->name, layers);
        *out = found;
    }
    if (!*out || (*out)->layers != layers)
        return sl_fail(SL_ERR_INPUT,
                       "%s: the plan has %d layers, but no model with a profile and a list of "
                       "layers (llm_info.json) has as many",
                       m->plan->file, layers);
    return SL_OK;
}

/* Chooses the measured layers. A profile with another number of layers belongs to another model. */
static sl_err choose_table(struct maker *m) {
    int layers = 0;
    for (int64_t i = 0; i < m->s->profiles.count; i++) {
        const struct sl_sailor_profile *p = &m->s->profiles.at[i];
        if (strcmp(p->model, m->model->name) != 0)
            continue;
        if (layers && p->layers != layers)
            return sl_fail(SL_ERR_INPUT, "%s: %d layers; another profile of %s has %d", p->file,
                           p->layers, p->model, layers);
        layers = p->layers;
    }
    m->table = m->model;
    if (!layers || layers == m->model->layers)
        return SL_OK;
    m->table = NULL;
    for (int64_t i = 0; i < m->s->models.count; i++)
        if (m->s->models.at[i].layers == layers && !m->table)
            m->table = &m->s->models.at[i];
        else if (m->s->models.at[i].layers == layers)
            m->table = m->model;
    if (!m->table || m->table == m->model || layers < 3)
        return sl_fail(SL_ERR_INPUT,
                       "the profiles of %s have %d layers and the model %d; no single model has as "
                       "many as the profiles",
                       m->model->name, layers, m->model->layers);
    return SL_OK;
}

sl_err sl_interop_sailor_forecast(const struct sl_sailor *s, struct sl_arena *arena,
                                  const char *model, struct sl_sailor_forecast *out) {
    struct maker m = {.s = s, .plan = s->plan, .arena = arena};
    if (!s->plan)
        return sl_fail(SL_ERR_USAGE, "sailor: no plan is given");
    int64_t batch = s->plan->batch ? s->plan->batch : s->batch;
    if (!batch)
        return sl_fail(SL_ERR_INPUT, "%s: gbs is missing; a training configuration has it too",
                       s->plan->file);
    *out = (struct sl_sailor_forecast){0};
    SL_TRY(choose_model(&m, model, &m.model));
    SL_TRY(choose_table(&m));
    struct stage_cost *costs = SL_NEW(arena, struct stage_cost, s->plan->stage_count);
    SL_TRY(cost_stages(&m, costs));
    int64_t round = s->plan->micro * s->plan->stages[0].replica_count;
    out->micros = (int)((batch + round - 1) / round);
    SL_TRY(build_plan(&m, costs, out->micros * round, &out->plan));
    SL_TRY(build_costs(&m, out));
    out->model = m.model->name;
    out->table = m.table->name;
    return SL_OK;
}
