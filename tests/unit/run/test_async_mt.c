/* Asynchronous schedules against a plain loop, bit for bit.
 *
 * The loop knows nothing of schedules, lowering or pipelines. It takes micro-batches k = 1, 2, 3,
 * ... one after the other through all stages, forward then backward, and steps all stages after
 * every m-th. Each stage keeps every weight version it ever made in an array, and which one a pass
 * reads is a formula.
 *
 * The formulas. A stage whose longest path to a sink has h edges runs 1F1B with f = h + 1 micro-
 * batches in flight: F1 .. Ff B1 F(f+1) B2 F(f+2) ... So before forward k it has done max(k - f, 0)
 * backwards, before backward k it has done k - 1, and it has stepped after every m-th backward:
 *
 *     newest version in forward k     N(k) = floor(max(k - f, 0) / m)
 *     newest version in backward k    M(k) = floor((k - 1) / m)
 *
 *     2bw          forward max(floor((k-1)/m) - 1, 0), backward the same   (papers.md A.2)
 *     stash        forward N(k), backward the same                          (D.2)
 *     vsync        forward N(k) with the f of the entry (the longest path of all), backward the
 * same async, paci  forward N(k), backward M(k)                              (E.1; paci: m > 1)
 *
 * With m = 1 on a chain of n stages, stash gives D.2's w(t+1) = w(t) - lr g(w_1(t-n+1), ...,
 * w_n(t)): micro-batch k = t+1 reads N = t+1-f = t-n+r on stage r = n+1-f.
 *
 * A run that is drained and started again starts its count of k again, on the weights it has. */
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES_MOST = 8, STEPS = 6 };

/* ---- the formulas ---- */

struct at {
    int64_t k, m, f, entry_f;
};

static int64_t newest(int64_t k, int64_t f, int64_t m) { return (k > f ? k - f : 0) / m; }
static int64_t twobw(struct at at) { return at.k > 2 * at.m ? (at.k - 1) / at.m - 1 : 0; }
static int64_t local(struct at at) { return newest(at.k, at.f, at.m); }
static int64_t entry(struct at at) { return newest(at.k, at.entry_f, at.m); }
static int64_t late(struct at at) { return (at.k - 1) / at.m; }

static const struct rule {
    const char *schedule;
    int64_t (*forward)(struct at at), (*backward)(struct at at);
} rules[] = {
    {"2bw", twobw, twobw},  {"stash", local, local}, {"vsync", entry, entry},
    {"async", local, late}, {"paci", local, late},
};

/* ---- the loop ---- */

struct loop {
    const struct sl_train_config *config;
    const int *stage_of;
    int stages;
    const int *height; /* [stages] */
    struct sl_device *device;
    struct sl_worker *worker[STAGES_MOST];
    char *memory, *sum; /* one message, one gradient */
    double loss[STEPS];
};

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static void loop_open(struct loop *l) {
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
            .slots = 1,
            .versions = STEPS + 1,
            .grad_slots = 1,
            .state_count = 2,
            .seed = c->seed,
        };
        must(sl_worker_open(l->device, &config, &l->worker[s]));
    }
    l->memory = malloc(MEMORY);
    l->sum = malloc(MEMORY);
}

static void loop_close(struct loop *l) {
    for (int s = 0; s < l->stages; s++)
        sl_worker_close(l->worker[s]);
    l->device->row->close(l->device);
    free(l->memory);
    free(l->sum);
}

struct micro {
    int64_t first, count, batch_first, step;
    enum sl_worker_program program;
    bool fresh; /* first of its batch */
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
        must(sl_worker_put(l->worker[s], 0, &p->inputs.at[i], l->memory));
    }
    for (int i = 0; i < p->seeds.count; i++) {
        int loss = p->seeds.at[i].index;
        double total = share(l, loss, u->batch_first, l->config->batch);
        float seed = (float)(l->config->graph->losses.at[loss].weight *
                             share(l, loss, u->first, u->count) / total);
        must(sl_worker_put(l->worker[s], 0, &p->seeds.at[i], &seed));
    }
}

static const struct sl_ports *ports(const struct sl_program *p, bool grad, bool send) {
    return grad ? (send ? &p->send_grad : &p->recv_grad) : (send ? &p->send_act : &p->recv_act);
}

/* Every port of the reader is filled from the port of the same value in the stage it names. */
static void move(struct loop *l, int s, enum sl_worker_program program, bool grad) {
    const struct sl_ports *to = ports(l->worker[s]->programs[program], grad, false);
    for (int i = 0; i < to->count; i++) {
        int peer = to->at[i].peer, found = 0;
        const struct sl_ports *from = ports(l->worker[peer]->programs[program], grad, true);
        for (int j = 0; j < from->count; j++) {
            if (from->at[j].peer != s || from->at[j].value != to->at[i].value)
                continue;
            must(sl_worker_get(l->worker[peer], 0, &from->at[j], l->memory));
            must(sl_worker_put(l->worker[s], 0, &to->at[i], l->memory));
            found++;
        }
        assert_int_equal(found, 1);
    }
}

static void pass(struct loop *l, int s, const struct micro *u, enum sl_phase phase,
                 int64_t version) {
    struct sl_pass p = {
        .program = u->program,
        .phase = phase,
        .version = (int)version,
        .accumulate = !u->fresh,
        .seed = l->config->seed * 0x9E3779B97F4A7C15u + (uint64_t)u->step,
        .first_sample = u->first,
    };
    assert_true(version <= u->step); /* it exists */
    must(sl_worker_pass(l->worker[s], &p));
}

static void add_losses(struct loop *l, int s, const struct micro *u) {
    const struct sl_program *p = l->worker[s]->programs[u->program];
    for (int i = 0; i < p->losses.count; i++) {
        int loss = p->losses.at[i].index;
        float value;
        must(sl_worker_get(l->worker[s], 0, &p->losses.at[i], &value));
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
            sl_shape_numel(&sl_graph_value(graph, graph->params.at[param].value)->shape, 1);
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

/* Version t of all stages from version t-1 and the gradient that has come together. */
static void step_all(struct loop *l, int64_t t) {
    const struct sl_train_config *c = l->config;
    double lr = sl_lr_at(&c->lr, c->base_lr, t);
    for (int s = 0; s < l->stages; s++) {
        struct sl_worker *w = l->worker[s];
        const struct sl_program *p = w->programs[SL_WORKER_FULL];
        memcpy(w->param[t], w->param[t - 1], (size_t)p->param_bytes);
        for (int i = 0; i < p->param_count; i++) {
            int param = p->params[i].param;
            const struct sl_shape *shape =
                &sl_graph_value(c->graph, c->graph->params.at[param].value)->shape;
            struct sl_optim_shape os = {.rank = shape->rank};
            memcpy(os.dim, shape->dim, sizeof os.dim);
            struct sl_optim_param op = sl_optim_for(&c->optim, &os);
            struct sl_step_coef coef = sl_optim_coef(&op, t, lr, 1);
            struct sl_step_io io = {.count = op.count,
                                    .w = sl_worker_weight(w, (int)t, i),
                                    .g = sum_uses(l, param),
                                    .state = {sl_worker_opt(w, 0, i), sl_worker_opt(w, 1, i)}};
            op.optim.row->step(&coef, &io);
        }
    }
}

/* `steps` steps from step `start` on, as one run of the pipeline. */
static void loop_run(struct loop *l, const struct rule *rule, int64_t start, int64_t steps) {
    const struct sl_train_config *c = l->config;
    int64_t m = c->micros, full = (c->batch + m - 1) / m, entry_f = 0;
    for (int s = 0; s < l->stages; s++)
        entry_f = l->height[s] + 1 > entry_f ? l->height[s] + 1 : entry_f;
    for (int64_t k = 1; k <= steps * m; k++) {
        int64_t t = (k - 1) / m, j = (k - 1) % m;
        struct micro u = {.step = start + t, .fresh = j == 0};
        u.batch_first = u.step * c->batch;
        u.first = u.batch_first + j * full;
        u.count = j == m - 1 ? c->batch - j * full : full;
        u.program = sl_worker_program_for(l->worker[0], u.count);
        for (int s = 0; s < l->stages; s++) {
            struct at at = {k, m, l->height[s] + 1, entry_f};
            put_inputs(l, s, &u);
            move(l, s, u.program, false);
            pass(l, s, &u, SL_PHASE_F, start + rule->forward(at));
            add_losses(l, s, &u);
        }
        for (int s = l->stages - 1; s >= 0; s--) {
            struct at at = {k, m, l->height[s] + 1, entry_f};
            move(l, s, u.program, true);
            pass(l, s, &u, SL_PHASE_B, start + rule->backward(at));
        }
        if (j == m - 1)
            step_all(l, start + t + 1);
    }
}

/* ---- the comparison ---- */

/* What differs first on a stage, or NULL. */
static const char *difference(const struct loop *l, const struct sl_pipe *pipe, int s) {
    const struct sl_worker *want = l->worker[s], *got = sl_pipe_worker(pipe, s);
    const struct sl_program *p = got->programs[SL_WORKER_FULL];
    const struct sl_graph *graph = l->config->graph;
    for (int i = 0; i < p->param_count; i++) {
        size_t bytes = (size_t)p->params[i].numel * 4;
        const char *name = graph->params.at[p->params[i].param].name;
        if (memcmp(sl_worker_weight(got, sl_pipe_newest(pipe, s), i),
                   sl_worker_weight(want, STEPS, i), bytes) != 0)
            return name;
        for (int o = 0; o < got->state_count; o++)
            if (memcmp(sl_worker_opt(got, o, i), sl_worker_opt(want, o, i), bytes) != 0)
                return "optimizer state";
    }
    for (int i = 0; i < p->state_count; i++)
        if (memcmp((char *)got->state + p->states[i].offset,
                   (char *)want->state + p->states[i].offset, (size_t)p->states[i].numel * 4) != 0)
            return "statistics";
    return NULL;
}

struct cut {
    const struct pipe_case *c;
    const struct sl_train_config *config;
    const int *height;
};

/* Number of differing stages. */
static int check_rule(const struct cut *cut, const struct rule *rule, int64_t first_run,
                      const char *schedule, bool expect) {
    struct loop l = {.config = cut->config,
                     .stage_of = cut->c->stage_of,
                     .stages = cut->c->plan->stage_count,
                     .height = cut->height};
    struct sl_pipe_config pc = {.train = cut->config,
                                .plan = cut->c->plan,
                                .stage_of = cut->c->stage_of,
                                .schedule = schedule};
    struct sl_pipe *pipe = NULL;
    struct sl_step_report reports[STEPS];
    char what[160];
    snprintf(what, sizeof what,
             "%s %s %s, %d stages on %d workers, m = %lld, runs of %lld and %lld",
             cut->c->graph->name, schedule, cut->config->optim.row->name, l.stages,
             cut->c->plan->worker_count, (long long)cut->config->micros, (long long)first_run,
             (long long)(STEPS - first_run));
    for (int s = 0; s < l.stages; s++) /* the cut is the one in the picture */
        assert_int_equal(cut->c->plan->stages[s].height, cut->height[s]);
    loop_open(&l);
    loop_run(&l, rule, 0, first_run);
    if (sl_pipe_open(&pc, &pipe) != SL_OK || sl_pipe_run(pipe, first_run, reports) != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
    if (first_run < STEPS) {
        loop_run(&l, rule, first_run, STEPS - first_run);
        if (sl_pipe_run(pipe, STEPS - first_run, reports + first_run) != SL_OK)
            fail_msg("%s: %s", what, sl_err_message());
    }
    int wrong = 0;
    for (int s = 0; s < l.stages; s++) {
        const char *name = difference(&l, pipe, s);
        if (name && expect)
            fail_msg("%s: %s differs on stage %d", what, name, s);
        wrong += name != NULL;
    }
    for (int i = 0; expect && i < STEPS; i++)
        if (reports[i].loss != l.loss[i])
            fail_msg("%s: loss of step %d is %.17g, not %.17g", what, i + 1, reports[i].loss,
                     l.loss[i]);
    sl_pipe_close(pipe);
    loop_close(&l);
    return wrong;
}

static const char *const optimizers[] = {"sgd", "momentum", "adam", "adamw"};
static const int64_t batches[] = {3, 4, 6, 11}, micros[] = {1, 2, 6, 4};

/* Under a sanitizer every optimizer meets one batch instead of all. */
static bool is_left_out(int optimizer, int batch) {
    const char *preset = getenv("SL_PRESET");
    return preset && strcmp(preset, "release") != 0 && (optimizer + batch) % SL_COUNT(batches) != 0;
}

static int check_all(const struct cut *cut) {
    int count = 0;
    for (int r = 0; r < SL_COUNT(rules); r++, count += 2) {
        check_rule(cut, &rules[r], STEPS, rules[r].schedule, true);
        check_rule(cut, &rules[r], 3, rules[r].schedule, true);
    }
    return count;
}

/* ---- chains ---- */

static const char gpt[] =
    "model gpt\nsize V = 13, T = 4, C = 8, H = 2\n"
    "input tokens : int[B, T] < V\ninput targets : int[B, T] < V\n"
    "param wte[V, C] ~ normal(0.5)\nparam wpe[T, C] ~ normal(0.5)\n"
    "fn linear(x, n) {\nparam w[n, dim(x, -1)] ~ normal(0.3)\nparam b[n] ~ normal(0.1)\n"
    "return matmul(x, w, b, tb = 1)\n}\n"
    "x = dropout(embed(wte, tokens) + wpe, 0.1)\n"
    "repeat i in 0..4 as h {\n"
    "x = x + linear(gelu(linear(x, 2 * C) as up), C) as down\n}\n"
    "loss cross_entropy(matmul(x, wte, tb = 1), targets)\n";

static const char image[] =
    "model image\nsize N = 4\ninput image : float[B, 2, N, N]\ninput label : int[B] < 5\n"
    "fn bn(x) {\nparam w[dim(x, 1)] ~ ones\nparam b[dim(x, 1)] ~ zeros\n"
    "state mean[dim(x, 1)] ~ zeros\nstate var[dim(x, 1)] ~ ones\n"
    "return batchnorm(x, w, b, mean, var)\n}\n"
    "fn mix(x) {\nparam w[dim(x, 1), 1, 1] ~ normal(0.5)\nreturn relu(bn(x * w) as bn)\n}\n"
    "a = mix(image) as m1\nb = mix(a) as m2\nc = mix(b) as m3\nd = mix(c) as m4\ne = mix(d) as m5\n"
    "param wl[5, 2] ~ normal(0.4)\n"
    "loss cross_entropy(matmul(global_avgpool(e), wl, tb = 1), label)\n";

static void test_chains(void **state) {
    (void)state;
    static const char *const models[] = {gpt, image};
    static const int heights[] = {3, 2, 1, 0};
    int count = 0;
    for (int i = 0; i < SL_COUNT(models); i++) {
        struct pipe_case c;
        pipe_case_open(&c, models[i]);
        for (int o = 0; o < SL_COUNT(optimizers); o++)
            for (int b = 0; b < SL_COUNT(batches); b++) {
                if (is_left_out(o, b))
                    continue;
                struct sl_train_config config =
                    pipe_case_config(&c, optimizers[o], batches[b], micros[b], STEPS);
                for (int p = 2; p <= 4; p++) {
                    pipe_case_cut(&c, &config, p, NULL);
                    struct cut cut = {&c, &config, heights + 4 - p};
                    count += check_all(&cut);
                }
            }
        pipe_case_close(&c);
    }
    printf("count: %d runs of asynchronous chains are the formulas, bit for bit\n", count);
}

/* ---- graphs of stages ---- */

/*  s0 - s1 - s3      s0 also goes to s3 directly, s2 has an input of its own:
 *    \______/ |      heights 2 1 1 0
 *        s2 -/                                                                            */
static const char branches[] =
    "model branches\ninput x : float[B, 6]\ninput y : float[B, 5]\ninput label : int[B] < 4\n"
    "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[6, 7] ~ normal(0.4)\n"
    "param s2_w[5, 5] ~ normal(0.4)\nparam s3_w[4, 18] ~ normal(0.4)\n"
    "a = relu(matmul(x, s0_w, tb = 1))\nb = relu(matmul(a, s1_w, tb = 1))\n"
    "c = dropout(relu(matmul(y, s2_w, tb = 1)), 0.2)\n"
    "loss cross_entropy(matmul(concat([a, b, c], axis = 1), s3_w, tb = 1), label)\n";

/*  s0 - s1 - s2 \
 *    \_ s3 ------ s4     s3 carries a loss of its own: heights 3 2 1 1 0                   */
static const char diamond[] =
    "model diamond\ninput x : float[B, 6]\ninput label : int[B] < 4\n"
    "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[6, 7] ~ normal(0.4)\n"
    "param s2_w[6, 6] ~ normal(0.4)\nparam s3_w[4, 7] ~ normal(0.4)\n"
    "param s4_w[4, 10] ~ normal(0.4)\n"
    "a = relu(matmul(x, s0_w, tb = 1))\nb = relu(matmul(a, s1_w, tb = 1))\n"
    "c = relu(matmul(b, s2_w, tb = 1))\nd = matmul(a, s3_w, tb = 1)\n"
    "loss cross_entropy(d, label) weight 0.3\n"
    "loss cross_entropy(matmul(concat([c, d], axis = 1), s4_w, tb = 1), label) weight 0.7\n";

/*  s0 \
 *  s1 - s2 - s3     s2 has no parameters: heights 2 2 1 0                                */
static const char bare[] =
    "model bare\ninput x : float[B, 6]\ninput y : float[B, 5]\ninput label : int[B] < 4\n"
    "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[6, 5] ~ normal(0.4)\n"
    "param s3_w[4, 13] ~ normal(0.4)\n"
    "j = concat([matmul(x, s0_w, tb = 1), matmul(y, s1_w, tb = 1)], axis = 1)\n"
    "loss cross_entropy(matmul(dropout(j, 0.2), s3_w, tb = 1), label)\n";

static void test_graphs(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int stages, height[5], worker_of[5];
    } cases[] = {
        {bare, 4, {2, 2, 1, 0}, {0, 1, 2, 3}},
        {branches, 4, {2, 1, 1, 0}, {0, 1, 2, 3}},
        {branches, 4, {2, 1, 1, 0}, {0, 0, 1, 1}},
        {branches, 4, {2, 1, 1, 0}, {0, 1, 2, 2}},
        {diamond, 5, {3, 2, 1, 1, 0}, {0, 1, 2, 3, 4}},
        {diamond, 5, {3, 2, 1, 1, 0}, {0, 1, 1, 2, 2}},
    };
    int count = 0;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct pipe_case c;
        pipe_case_open(&c, cases[i].model);
        for (int o = 0; o < SL_COUNT(optimizers); o++)
            for (int b = 0; b < SL_COUNT(batches); b++) {
                if (is_left_out(o, b))
                    continue;
                struct sl_train_config config =
                    pipe_case_config(&c, optimizers[o], batches[b], micros[b], STEPS);
                pipe_case_cut_by_name(&c, &config, cases[i].stages, cases[i].worker_of);
                struct cut cut = {&c, &config, cases[i].height};
                count += check_all(&cut);
            }
        pipe_case_close(&c);
    }
    printf("count: %d runs of asynchronous graphs of stages are the formulas, bit for bit\n",
           count);
}

/* Sabotage: where two rules say different things, the wrong one is noticed. */
static void test_wrong_formulas(void **state) {
    (void)state;
    static const int heights[] = {3, 2, 1, 0};
    struct pipe_case c;
    int count = 0;
    pipe_case_open(&c, gpt);
    struct sl_train_config config = pipe_case_config(&c, "adam", 4, 2, STEPS);
    pipe_case_cut(&c, &config, 4, NULL);
    struct cut cut = {&c, &config, heights};
    for (int a = 0; a < SL_COUNT(rules); a++)
        for (int b = 0; b < SL_COUNT(rules); b++) {
            if (rules[a].forward == rules[b].forward && rules[a].backward == rules[b].backward)
                continue;
            if (check_rule(&cut, &rules[a], STEPS, rules[b].schedule, false) == 0)
                fail_msg("%s runs as %s", rules[b].schedule, rules[a].schedule);
            count++;
        }
    pipe_case_close(&c);
    printf("count: %d wrong formulas noticed\n", count);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains),
                                       cmocka_unit_test(test_wrong_formulas),
                                       cmocka_unit_test(test_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
