/* Asynchronous pipelines of width x depth against the plain loop (support/async_loop.h), bit for
 * bit: random chains and graphs of stages, replicas, schedules, policies, optimizers, clip scopes,
 * clipping, loss scales, gradients that are not finite, tied weights. On threads and over ranks. */
#include "base/rng.h"
#include "support/async_loop.h"
#include "support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = LOOP_STEPS, MAX_STAGES = 5, MAX_WIDTH = 3, COLUMNS = 160, SAMPLE_ROOM = 128, C = 6 };

struct random_case {
    int number;
    int stages, width[MAX_STAGES], height[MAX_STAGES], flight[MAX_STAGES];
    bool graph, tied; /* graph: s0 > s1, s2 > s3; tied: between the first and the last stage */
    int64_t batch, micros;
    int poisoned;  /* stage whose gradient is not finite once, -1: none */
    int64_t micro; /* and the micro-batch */
    const char *schedule, *policy, *optimizer, *scale;
    bool global_step, recompute;
    double clip;
    char text[320];
};

static int below(uint64_t seed, uint64_t *drawn, int count) {
    return (int)sl_rng_below(seed, 23, (*drawn)++, count);
}

/* ---- the model ---- */

/* The poisoned stage multiplies a parameter that stays zero (its input is zero) by a huge factor in
 * one sample: forward 0, gradient infinite. */
static void write_stage(const struct random_case *r, struct sl_text *out, int s, int column,
                        double over, double huge) {
    bool last = s == r->stages - 1, join = r->graph && last;
    char in[16];
    snprintf(in, sizeof in, s == 0 ? "x" : "y%d", r->graph ? 0 : s - 1);
    if (join)
        sl_text_put(out, "joined = concat([y1, y2], axis = 1)\n");
    sl_text_printf(out, "param s%d_w[%d, %d] ~ normal(%g)\n", s, C,
                   s == 0 ? COLUMNS
                   : join ? 2 * C
                          : C,
                   s ? 0.3 : 0.08);
    sl_text_printf(out, "y%d = matmul(%s, s%d_w, tb = 1)\n", s, join ? "joined" : in, s);
    if (r->tied && (s == 0 || last))
        sl_text_printf(out, "y%d = y%d * s0_t\n", s, s);
    if (s == r->poisoned)
        sl_text_printf(out,
                       "param s%d_p[%d] ~ zeros\nparam s%d_c[1] ~ const(%.17g)\n"
                       "p = relu(slice(x, 1, %d, %d) - s%d_c) * %.9g\n"
                       "y%d = y%d + (p * s%d_p) * 100000000000000000000.0\n",
                       s, C, s, over, column, column + 1, s, huge, s, s, s);
    if (last)
        sl_text_printf(out,
                       "param s%d_h[4, %d] ~ normal(0.3)\n"
                       "loss cross_entropy(matmul(y%d, s%d_h, tb = 1), label)\n",
                       s, C, s, s);
}

static void write_model(const struct random_case *r, struct sl_text *out, int column, double over,
                        double huge) {
    sl_text_printf(out, "model wide\ninput x : float[B, %d]\ninput label : int[B] < 4\n", COLUMNS);
    if (r->tied)
        sl_text_printf(out, "param s0_t[%d] ~ normal(0.7)\n", C);
    for (int s = 0; s < r->stages; s++)
        write_stage(r, out, s, column, over, huge);
}

/* Finds a column of the data in which this sample has the largest value, the middle between that
 * and the second largest, and a factor that makes their difference nearly infinite. */
static bool find_column(const struct pipe_case *c, int64_t samples, int64_t target, int *column,
                        double *over, double *huge) {
    float data[SAMPLE_ROOM * COLUMNS];
    assert_true(samples <= SAMPLE_ROOM);
    assert_int_equal(sl_data_fill(c->data, SL_DATA_TRAIN, 0, samples, 0, data), SL_OK);
    for (*column = 0; *column < COLUMNS; ++*column) {
        double own = (double)data[target * COLUMNS + *column], second = -1e30;
        for (int64_t i = 0; i < samples; i++)
            if (i != target && (double)data[i * COLUMNS + *column] > second)
                second = (double)data[i * COLUMNS + *column];
        *over = (own + second) / 2;
        *huge = 1e35 / (own - *over);
        if (own > second + 0.01)
            return true;
    }
    return false;
}

static void open_model(struct random_case *r, struct pipe_case *c) {
    struct sl_text model = {0};
    int column = 0;
    double over = 1e30, huge = 1;
    int64_t full = (r->batch + r->micros - 1) / r->micros;
    write_model(r, &model, column, over, huge); /* the data do not depend on these numbers */
    pipe_case_open(c, model.at);
    int64_t first = r->micro / r->micros * r->batch + r->micro % r->micros * full, count = full;
    if (r->micro % r->micros == r->micros - 1)
        count = r->batch - (r->micros - 1) * full;
    bool found = r->poisoned < 0;
    for (int64_t i = 0; i < count && !found; i++)
        found = find_column(c, STEPS * r->batch, first + i, &column, &over, &huge);
    if (!found)
        r->poisoned = -1;
    pipe_case_close(c);
    model.length = 0;
    write_model(r, &model, column, over, huge);
    pipe_case_open(c, model.at);
    sl_text_free(&model);
}

/* A node belongs to the last stage that its inputs name; the second use of the tied parameter and
 * the join of the branches belong to the last stage. */
static int stage_of(const struct random_case *r, const struct pipe_case *c,
                    const struct sl_node *node, int *uses) {
    int stage = strcmp(node->op->name, "concat") == 0 ? r->stages - 1 : 0;
    for (int i = 0; i < node->in_count; i++) {
        const struct sl_value *v = sl_graph_value(c->graph, node->in[i]);
        const char *name = v->kind == SL_VALUE_PARAM ? c->graph->params.at[v->index].name : "s0";
        int of = v->kind == SL_VALUE_NODE ? c->stage_of[v->node] : name[1] - '0';
        if (strcmp(name, "s0_t") == 0 && (*uses)++)
            of = r->stages - 1;
        stage = of > stage ? of : stage;
    }
    return stage;
}

static void cut(const struct random_case *r, struct pipe_case *c,
                const struct sl_train_config *config) {
    static int at[MAX_STAGES][MAX_WIDTH];
    static const int *workers_of[MAX_STAGES];
    int workers = 0, uses = 0;
    sl_arena_free(&c->arena);
    c->stage_of = SL_NEW(&c->arena, int, c->graph->forward_count);
    for (int64_t n = 0; n < c->graph->forward_count; n++)
        c->stage_of[n] = stage_of(r, c, &c->graph->nodes.at[n], &uses);
    for (int s = 0; s < r->stages; s++) {
        for (int k = 0; k < r->width[s]; k++)
            at[s][k] = workers++;
        workers_of[s] = at[s];
    }
    struct pipe_layout layout = {.stages = r->stages,
                                 .workers = workers,
                                 .width_of = r->width,
                                 .workers_of = workers_of,
                                 .recompute = r->recompute};
    pipe_case_lay_out(c, config, &layout);
}

/* Longest ways down: edges, and replicas. */
static void measure(struct random_case *r, const struct sl_plan *plan) {
    for (int s = r->stages - 1; s >= 0; s--) { /* edges go to larger numbers */
        r->height[s] = 0;
        r->flight[s] = r->width[s];
        for (int e = 0; e < plan->edge_count; e++) {
            int to = plan->edges[e].to;
            if (plan->edges[e].from != s)
                continue;
            assert_true(to > s);
            if (r->height[to] + 1 > r->height[s])
                r->height[s] = r->height[to] + 1;
            if (r->flight[to] + r->width[s] > r->flight[s])
                r->flight[s] = r->flight[to] + r->width[s];
        }
    }
}

/* ---- the comparison ---- */

static void compare(const struct random_case *r, const struct loop *l, const struct sl_pipe *pipe,
                    const struct sl_step_report *reports) {
    for (int i = 0; i < STEPS; i++) {
        if (r->global_step && reports[i].skipped != l->skipped[i])
            fail_msg("%s: step %d is %sskipped", r->text, i + 1, reports[i].skipped ? "" : "not ");
        if (reports[i].loss != l->loss[i])
            fail_msg("%s: step %d has loss %.17g, not %.17g", r->text, i + 1, reports[i].loss,
                     l->loss[i]);
        if (r->global_step && !l->skipped[i] && reports[i].norm != l->norm[i])
            fail_msg("%s: step %d has norm %.17g, not %.17g", r->text, i + 1, reports[i].norm,
                     l->norm[i]);
    }
    /* a replica without micro-batches predicts nothing, and so keeps no velocity */
    bool velocity = strcmp(r->policy, "pipemare") == 0;
    for (int s = 0; s < r->stages; s++)
        for (int k = 0; k < r->width[s] && !(velocity && k >= r->micros); k++) {
            const char *name = sl_pipe_replica(pipe, s, k) ? loop_replica_difference(l, pipe, s, k)
                                                           : NULL; /* of another rank */
            if (name)
                fail_msg("%s: %s differs on stage %d, replica %d", r->text, name, s, k);
        }
}

static void run(struct random_case *r) {
    struct pipe_case c;
    open_model(r, &c);
    struct sl_train_config config = pipe_case_config(&c, r->optimizer, r->batch, r->micros, STEPS);
    config.clip = r->clip;
    assert_int_equal(sl_optim_policy_parse(r->policy, &config.policy), SL_OK);
    cut(r, &c, &config);
    measure(r, c.plan);
    struct sl_train_config scaled = config; /* powers of two change no bit */
    assert_int_equal(sl_optim_loss_scale_parse(r->scale, &scaled.loss_scale), SL_OK);
    struct loop l = {.config = &config,
                     .global_step = r->global_step,
                     .stage_of = c.stage_of,
                     .stages = r->stages,
                     .height = r->height,
                     .width = r->width,
                     .flight = r->flight};
    struct sl_pipe_config pc = {.train = &scaled,
                                .plan = c.plan,
                                .stage_of = c.stage_of,
                                .schedule = r->schedule,
                                .global_step = r->global_step,
                                .comm = ranks_comm(),
                                .stall_ns = ranks_stall_ns};
    const struct loop_rule *rule = loop_rule_find(r->schedule);
    struct sl_pipe *pipe = NULL;
    struct sl_step_report reports[STEPS];
    loop_open(&l);
    loop_run(&l, rule, 0, STEPS);
    if (sl_pipe_open(&pc, &pipe) != SL_OK || sl_pipe_run(pipe, STEPS, reports) != SL_OK)
        fail_msg("%s: %s", r->text, sl_err_message());
    compare(r, &l, pipe, reports);
    sl_pipe_close(pipe);
    loop_close(&l);
    pipe_case_close(&c);
    ranks_renew();
}

/* ---- random cases ---- */

static const char *const schedules[] = {"2bw", "stash", "vsync", "async", "paci"};
static const char *const rules[] = {"twobw", "stash", "vsync", "newest", "newest"};
static const char *const optimizers[] = {"momentum", "adamw", "muon", "nadam:decoupled=1"};

static void draw_policy(struct random_case *r, const char *rule, uint64_t seed, uint64_t *n) {
    struct sl_policy_use use;
    struct sl_optim optim;
    assert_int_equal(sl_optim_parse(r->optimizer, &optim), SL_OK);
    r->policy = "none";
    for (int tries = below(seed, n, 4); tries > 0; tries--) {
        const char *name = sl_optim_policies[below(seed, n, sl_optim_policy_count)]->name;
        assert_int_equal(sl_optim_policy_parse(name, &use), SL_OK);
        if (sl_optim_policy_serves(&use, rule, &optim) == SL_OK)
            r->policy = name;
    }
}

static void draw(struct random_case *r, int number) {
    static const char *const scales[] = {"none", "1024", "dynamic:start=64,every=1",
                                         "dynamic:start=1024,every=2"};
    static const double clips[] = {0, 0.05, 1};
    uint64_t seed = (uint64_t)number, n = 0;
    *r = (struct random_case){.number = number, .poisoned = -1};
    int which = below(seed, &n, SL_COUNT(schedules)), uniform = 1 + below(seed, &n, MAX_WIDTH);
    bool mixed = below(seed, &n, 3) == 0;
    r->graph = below(seed, &n, 4) == 0;
    r->stages = r->graph ? 4 : 2 + below(seed, &n, MAX_STAGES - 1);
    for (int s = 0; s < r->stages; s++)
        r->width[s] = mixed ? 1 + below(seed, &n, MAX_WIDTH) : uniform;
    r->tied = below(seed, &n, 2);
    r->micros = 1 + below(seed, &n, 6);
    r->batch = r->micros * (1 + below(seed, &n, 3));
    if (r->batch >= 2 * r->micros && below(seed, &n, 2)) /* the last micro-batch is shorter */
        r->batch--;
    if (below(seed, &n, 3)) {
        r->poisoned = below(seed, &n, r->stages);
        r->micro = below(seed, &n, (int)(STEPS * r->micros));
    }
    r->schedule = schedules[which];
    r->optimizer = optimizers[below(seed, &n, SL_COUNT(optimizers))];
    draw_policy(r, rules[which], seed, &n);
    r->global_step = below(seed, &n, 2);
    r->scale = scales[below(seed, &n, r->global_step ? 4 : 2)];
    r->clip = clips[below(seed, &n, SL_COUNT(clips))];
    r->recompute = which < 3 && below(seed, &n, 4) == 0; /* others: another gradient */
    snprintf(r->text, sizeof r->text,
             "case %d: %s %s %s, %d stages (%s%s) of %d %d %d %d %d, m = %lld, batch %lld, scope "
             "%s, clip %g, scale %s, poison %d at %lld%s",
             number, r->schedule, r->policy, r->optimizer, r->stages, r->graph ? "graph" : "chain",
             r->tied ? ", tied" : "", r->width[0], r->width[1], r->width[2], r->width[3],
             r->width[4], (long long)r->micros, (long long)r->batch,
             r->global_step ? "global" : "stage", r->clip, r->scale, r->poisoned,
             (long long)r->micro, r->recompute ? ", recompute" : "");
}

static int worker_count(const struct random_case *r) {
    int count = 0;
    for (int s = 0; s < r->stages; s++)
        count += r->width[s];
    return count;
}

static void test_random(void **state) {
    (void)state;
    enum { ALL = 500 };
    const char *full = getenv("SL_TEST_FULL"), *only = getenv("SL_TEST_CASE");
    int every = full && strcmp(full, "1") == 0 ? 1 : ranks_short() ? 125 : 25;
    int ran = 0, wide = 0, poisoned = 0, tied = 0, global = 0;
    for (int i = 0; i < ALL; i++) {
        struct random_case r;
        draw(&r, i);
        if (only ? atoi(only) != i : i % every != 0 || !ranks_fit(worker_count(&r)))
            continue;
        run(&r);
        ran++;
        wide += worker_count(&r) > r.stages;
        poisoned += r.poisoned >= 0;
        tied += r.tied;
        global += r.global_step;
    }
    printf(
        "count: %d asynchronous pipelines are the loop (%d with replicas, %d with a gradient that "
        "is not finite, %d tied, %d by the global norm)%s\n",
        ran, wide, poisoned, tied, global, ranks_text());
    assert_true(only || wide > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    ranks_open();
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
