/* Planners under the published cost models against brute force on random graphs: chains,
 * series-parallel ones and general DAGs, with memory limits, replication, options, CPUs, levels. */
#include "base/rng.h"
#include "base/vec.h"
#include "peers/pipedream.h"
#include "support/plan_brute.h"
#include "support/plan_eval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SEED = 7, LAYERS_MAX = 12, EDGES_MAX = 64, OPTIONS = 3 };

static int64_t stopped[2]; /* by time, by effort */

struct random_graph {
    struct sl_layer layers[2 * LAYERS_MAX];
    struct sl_layer_edge edges[2 * EDGES_MAX];
    int count, edge_count;
    uint64_t stream, drawn;
};

static int64_t below(struct random_graph *g, int64_t count) {
    return sl_rng_below(SEED, g->stream, g->drawn++, count);
}

static bool joined(const struct random_graph *g, int from, int to) {
    for (int e = 0; e < g->edge_count; e++)
        if (g->edges[e].from == from && g->edges[e].to == to)
            return true;
    return false;
}

static void join(struct random_graph *g, int from, int to, double cost) {
    if (from != to && !joined(g, from, to) && g->edge_count < EDGES_MAX)
        g->edges[g->edge_count++] = (struct sl_layer_edge){from, to, cost};
}

/* 0 chain, 1 series-parallel (fork and join), 2 general with one source. */
static void draw_shape(struct random_graph *g, int shape, int count) {
    g->count = count;
    for (int i = 1; i < count; i++) {
        if (shape == 0 || (shape == 1 && i % 3 == 1))
            join(g, i - 1, i, (double)(1 + below(g, 97)));
        else if (shape == 1)
            join(g, i - (i % 3 == 2 ? 2 : 2), i, (double)(1 + below(g, 97)));
        else
            for (int tries = 0; tries < 2; tries++)
                join(g, (int)below(g, i), i, (double)(1 + below(g, 97)));
        if (shape == 1 && i % 3 == 0)
            join(g, i - 1, i, (double)(1 + below(g, 97)));
    }
    for (int i = 0; i < count; i++) {
        g->layers[i].id = 10 + 3 * i;
        g->layers[i].color = -1;
    }
}

static const struct sl_layers *freeze(struct sl_arena *arena, struct random_graph *g,
                                      const char *format) {
    const struct sl_layers *layers;
    struct sl_layers draft = {.format = format,
                              .id_prefix = "",
                              .at = g->layers,
                              .count = g->count,
                              .edges = g->edges,
                              .edge_count = g->edge_count};
    assert_int_equal(sl_cost_layers_build(arena, &draft, NULL, &layers), SL_OK);
    return layers;
}

/* A stopped search returns a plan with the reported objective, and valid bounds. */
static void stop_early(const char *model, const struct sl_layers *layers,
                       const struct sl_peers_query *query, double brute, uint64_t number) {
    struct sl_peers_query limited = *query;
    struct sl_arena arena = {0};
    struct sl_peers_plan plan;
    const char *reason = "";
    limited.effort = (int64_t)(number % 7) * 40; /* 0: the default */
    limited.until_ns = number % 3 == 0;          /* a deadline in the past */
    sl_err err = sl_peers_plan(sl_peers_cost_model_of(model), &arena, layers, &limited, &plan);
    stopped[0] += err == SL_OK && plan.timed_out;
    stopped[1] += err == SL_OK && !plan.timed_out && !plan.proven;
    if (err != SL_OK) {
        assert_int_equal(err, SL_ERR_REFUSED);
    } else if (fabs(sl_eval_plan(model, layers, query, &plan, &reason) - plan.objective) >
                   1e-9 * brute ||
               plan.objective < brute * (1 - 2e-9) || plan.lower_bound > brute * (1 + 2e-9) ||
               (plan.proven && plan.objective > brute * (1 + 2e-9))) {
        fail_msg("%s, graph %llu, stopped: %.17g, bound %.17g, brute force %.17g %s", model,
                 (unsigned long long)number, plan.objective, plan.lower_bound, brute, reason);
    }
    sl_arena_free(&arena);
}

static void compare(const char *model, const struct sl_layers *layers,
                    const struct sl_peers_query *query, double brute, uint64_t number) {
    struct sl_arena arena = {0};
    struct sl_peers_plan plan;
    const char *reason;
    sl_err err = sl_peers_cost_model_of(model)->plan(&arena, layers, query, &plan);
    if ((err == SL_OK) != (brute < INFINITY))
        fail_msg("%s, graph %llu: %s, brute force %.17g", model, (unsigned long long)number,
                 err == SL_OK ? "a plan" : sl_err_message(), brute);
    if (err == SL_OK) {
        double again = sl_eval_plan(model, layers, query, &plan, &reason);
        if (fabs(plan.objective - brute) > 2e-9 * brute ||
            fabs(again - plan.objective) > 1e-9 * brute)
            fail_msg("%s, graph %llu: %.17g, brute force %.17g, re-evaluated %.17g %s", model,
                     (unsigned long long)number, plan.objective, brute, again, reason);
        assert_true(plan.proven);
    } else {
        assert_int_equal(err, SL_ERR_REFUSED);
    }
    if (sl_peers_cost_model_of(model)->even(&arena, layers, query, &plan) == SL_OK)
        assert_true(plan.objective >= brute * (1 - 2e-9));
    sl_arena_free(&arena);
    stop_early(model, layers, query, brute, number);
}

static int64_t graphs_wanted(int64_t all) {
    const char *full = getenv("SL_TEST_FULL");
    return full && full[0] == '1' ? all : (all + 49) / 50;
}

/* ---- piper ---- */

static void draw_options(struct sl_arena *arena, struct random_graph *g, struct sl_layer *layer) {
    struct sl_layer_option *options = SL_NEW(arena, struct sl_layer_option, 2 * OPTIONS);
    int tensors = 1 + (int)below(g, 2);
    for (int t = 1; t <= tensors; t++) {
        int count = 1 + (int)below(g, OPTIONS);
        for (int o = 0; o < count; o++) {
            double *bytes = SL_NEW(arena, double, layer->in_count + layer->out_count + 1);
            for (int e = 0; e < layer->in_count + layer->out_count; e++)
                bytes[e] = t > 1 ? (double)below(g, 53) : 0;
            options[layer->option_count++] =
                (struct sl_layer_option){.name = o ? "other" : "plain",
                                         .tensor = t,
                                         .time = (double)(10 + below(g, 991)) / t * (1 + 0.3 * o),
                                         .params_bytes = (double)below(g, 10007),
                                         .micro_bytes = (double)below(g, 101) / (o + 1),
                                         .fixed_bytes = (double)below(g, 211),
                                         .in_bytes = bytes,
                                         .out_bytes = bytes + layer->in_count};
        }
    }
    layer->options = options;
}

static void test_piper(void **state) {
    int64_t wanted = graphs_wanted(5000), fits = 0;
    static const int micros[] = {1, 4, 6, 12};
    (void)state;
    for (int64_t n = 0; n < wanted; n++) {
        struct sl_arena arena = {0};
        struct random_graph g = {.stream = (uint64_t)n};
        int shape = (int)(n % 3), max = shape == 0 ? 10 : 9;
        draw_shape(&g, shape, 1 + (int)below(&g, max));
        sl_cost_layers_link(&arena, g.layers, g.count, g.edges, g.edge_count);
        for (int i = 0; i < g.count; i++)
            draw_options(&arena, &g, &g.layers[i]);
        struct sl_peers_query query = {.level_count = 1, .bandwidth = {0.7}};
        query.devices = 1 + below(&g, 6);
        query.level[0] = query.devices;
        query.micro = micros[below(&g, 4)];
        query.memory_bytes = (double)(150 + below(&g, 1500));
        const struct sl_layers *layers = freeze(&arena, &g, "piper");
        double brute = sl_brute_piper(layers, &query);
        fits += brute < INFINITY;
        compare("piper", layers, &query, brute, (uint64_t)n);
        sl_arena_free(&arena);
    }
    printf("count: %lld random graphs under Piper's model, %lld with a plan\n", (long long)wanted,
           (long long)fits);
}

/* ---- dnn-partitioning ---- */

/* Every layer gets a backward twin, every edge a backward edge. */
static void add_backward(struct random_graph *g) {
    int count = g->count, edges = g->edge_count;
    double cost[2 * LAYERS_MAX];
    for (int i = count - 1; i >= 0; i--) {
        g->layers[2 * i] = (struct sl_layer){.id = 2 * i, .color = i};
        g->layers[2 * i + 1] = (struct sl_layer){.id = 2 * i + 1, .color = i, .is_backward = true};
    }
    for (int i = 0; i < 2 * count; i++) {
        struct sl_layer *layer = &g->layers[i];
        layer->forward = (double)(1 + below(g, 499));
        layer->cpu = layer->forward * (double)(1 + below(g, 9));
        layer->size_bytes = (double)below(g, 97);
        cost[i] = (double)below(g, 151);
    }
    if (below(g, 4) == 0)
        g->layers[2 * below(g, count)].cpu_only = true;
    for (int e = 0; e < edges; e++) {
        int from = g->edges[e].from, to = g->edges[e].to;
        g->edges[e] = (struct sl_layer_edge){2 * from, 2 * to, cost[2 * from]};
        g->edges[edges + e] = (struct sl_layer_edge){2 * to + 1, 2 * from + 1, cost[2 * to + 1]};
    }
    g->edge_count = 2 * edges;
    g->count = 2 * count;
}

static void test_dnnpart(void **state) {
    int64_t wanted = graphs_wanted(5000), fits = 0;
    (void)state;
    for (int64_t n = 0; n < wanted; n++) {
        struct sl_arena arena = {0};
        struct random_graph g = {.stream = 100000 + (uint64_t)n};
        int shape = (int)(n % 3), max = shape == 0 ? 10 : 9;
        draw_shape(&g, shape, 1 + (int)below(&g, max));
        add_backward(&g);
        struct sl_peers_query query = {.devices = 1 + below(&g, 6), .cpus = below(&g, 3)};
        query.memory_bytes = (double)(80 + below(&g, 900));
        const struct sl_layers *layers = freeze(&arena, &g, "dnn-partitioning");
        double brute = sl_brute_dnnpart(layers, &query);
        fits += brute < INFINITY;
        compare("dnn-partitioning", layers, &query, brute, (uint64_t)n);
        sl_arena_free(&arena);
    }
    printf("count: %lld random graphs under dnn-partitioning's model, %lld with a plan\n",
           (long long)wanted, (long long)fits);
}

/* ---- pipedream ---- */

/* The bound for large graphs also holds on small ones, for any known plan; measures its gap. */
static bool check_bound(struct sl_arena *arena, const struct sl_layers *layers,
                        const struct sl_peers_query *query, double brute) {
    struct sl_pipedream_graph graph;
    double share = 0;
    sl_peers_pipedream_open(arena, layers, &graph);
    struct sl_pipedream_states states;
    assert_true(sl_peers_pipedream_list(arena, &graph, 1 << 16, 0, &states));
    double bound = sl_peers_pipedream_bound(&graph, NULL, query, 3 * brute);
    double other = sl_peers_pipedream_bound(&graph, &states, query, 3 * brute);
    if (bound > brute * (1 + 1e-9) || other > brute * (1 + 1e-9))
        fail_msg("bounds %.17g and %.17g, best plan %.17g", bound, other, brute);
    for (int i = 0; i < layers->count; i++)
        share += graph.removed[i] ? 0 : (layers->at[i].forward + layers->at[i].backward) / 1000.0;
    return bound > share / (double)query->devices * (1 + 1e-6);
}

static void test_pipedream(void **state) {
    int64_t wanted = graphs_wanted(5000), stronger = 0;
    (void)state;
    for (int64_t n = 0; n < wanted; n++) {
        struct sl_arena arena = {0};
        struct random_graph g = {.stream = 200000 + (uint64_t)n};
        bool two = n % 2;
        draw_shape(&g, (int)(n % 3), 1 + (int)below(&g, two ? 6 : 9));
        for (int i = 0; i < g.count; i++) {
            g.layers[i].forward = (double)below(&g, 499);
            g.layers[i].backward = (double)(1 + below(&g, 997));
            g.layers[i].output_bytes = (double)below(&g, 301);
            g.layers[i].params_bytes = (double)below(&g, 1009);
        }
        struct sl_peers_query query = {.level_count = two ? 2 : 1, .bandwidth = {3001, 1009}};
        query.level[0] = 1 + below(&g, two ? 2 : 6);
        query.level[1] = 1 + below(&g, 3);
        query.devices = query.level[0] * (two ? query.level[1] : 1);
        const struct sl_layers *layers = freeze(&arena, &g, "pipedream");
        double brute = sl_brute_pipedream(layers, &query);
        compare("pipedream", layers, &query, brute, (uint64_t)n);
        stronger += check_bound(&arena, layers, &query, brute);
        sl_arena_free(&arena);
    }
    printf("count: %lld random graphs under PipeDream's model, on %lld the bound is above an even "
           "share of the work\n",
           (long long)wanted, (long long)stronger);
    assert_true(stronger > wanted / 4);
}

static void test_stopped(void **state) {
    (void)state;
    printf("count: %lld searches stopped by their time, %lld by their effort\n",
           (long long)stopped[0], (long long)stopped[1]);
    assert_true(stopped[0] > 0 && stopped[1] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_piper), cmocka_unit_test(test_dnnpart),
        cmocka_unit_test(test_pipedream), cmocka_unit_test(test_stopped), /* counters */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
