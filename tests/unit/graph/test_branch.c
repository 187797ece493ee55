/* Branch structure: models of known shape, random graphs against brute force over sets, time. */
#include "base/clock.h"
#include "base/rng.h"
#include "graph/branch.h"
#include "op/registry.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

/* mix: any number of tensors [B,4] into one; the only op of random graphs. */
static sl_err infer_mix(struct sl_infer *c) {
    c->out[0] = SL_SHAPE(2, 1, 1, 4);
    return SL_OK;
}

static double one_flop(const struct sl_op_view *view) {
    (void)view;
    return 1;
}

static const struct sl_op mix = {
    .name = "mix", .inputs = "xs*", .outputs = "y", .infer = infer_mix, .flops = one_flop};

static const struct sl_op *find(struct sl_str name) {
    return sl_str_is(name, "mix") ? &mix : sl_op_find(name);
}

static int input(struct sl_graph *graph, struct sl_shape shape) {
    char name[24];
    int out;
    snprintf(name, sizeof name, "in%d", (int)graph->inputs.count);
    must(sl_graph_input(graph, name, SL_FLOAT, shape, 0, &out));
    return out;
}

static int param(struct sl_graph *graph, int64_t rows, int64_t columns) {
    char name[24];
    int out;
    snprintf(name, sizeof name, "p%d", (int)graph->params.count);
    must(sl_graph_param(graph, name, SL_SHAPE(2, 0, rows, columns), (struct sl_init){0}, &out));
    return out;
}

static int apply(struct sl_graph *graph, const char *op, int a, int b, const union sl_attr *attr) {
    int out;
    must(sl_graph_apply(graph, op, b < 0 ? 1 : 2, (int[]){a, b}, attr, &out));
    return out;
}

static int linear(struct sl_graph *graph, int x, int64_t from, int64_t to) {
    return apply(graph, "matmul", x, param(graph, from, to), NULL);
}

static int concat(struct sl_graph *graph, int count, const int *in) {
    int out;
    union sl_attr attr[1] = {{.i = -1}};
    must(sl_graph_apply(graph, "concat", count, in, attr, &out));
    return out;
}

static void finish(struct sl_graph *graph, int value) {
    must(sl_graph_loss(graph, "loss", apply(graph, "reduce_sum", value, -1, NULL), 1));
    must(sl_graph_check(graph));
}

enum { T = 3, HEADS = 2, D = 5, C = HEADS * D };

static int heads(struct sl_graph *graph, int x) {
    union sl_attr attr[1] = {{.shape = SL_SHAPE(4, 1, 1, T, HEADS, D)}};
    return apply(graph, "reshape", linear(graph, x, C, C), -1, attr);
}

/* x + proj(attention(q, k, v)), then x + ffn(x) */
static int transformer(struct sl_graph *graph, int x) {
    union sl_attr flat[1] = {{.shape = SL_SHAPE(3, 1, 1, T, C)}};
    int qkv[3] = {heads(graph, x), heads(graph, x), heads(graph, x)}, y;
    must(sl_graph_apply(graph, "attention", 3, qkv, NULL, &y));
    y = apply(graph, "reshape", y, -1, flat);
    x = apply(graph, "add", x, linear(graph, y, C, C), NULL);
    y = apply(graph, "relu", linear(graph, x, C, 7), -1, NULL);
    return apply(graph, "add", x, linear(graph, y, 7, C), NULL);
}

static int tower(struct sl_graph *graph, int layers) {
    int x = linear(graph, input(graph, SL_SHAPE(3, 1, 1, T, C)), C, C);
    for (int i = 0; i < layers; i++)
        x = transformer(graph, x);
    return x;
}

/* ---- models of known shape ---- */

static void expect_line(const struct sl_graph *graph, const struct sl_branches *b,
                        const char *line) {
    struct sl_text text = {0};
    sl_graph_branches_put(graph, b, &text);
    if (!strstr(text.at, line))
        fail_msg("no line '%s' in:\n%s", line, text.at);
    sl_text_free(&text);
}

static void towers_are_found(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_graph *graph = sl_graph_open("mmt", find);
    int ends[4];
    for (int i = 0; i < 4; i++)
        ends[i] = tower(graph, 3);
    finish(graph, linear(graph, concat(graph, 4, ends), 4 * C, 2));
    const struct sl_branches *b = sl_graph_branches(graph, &arena);
    expect_line(graph, b, "4 parallel branches (3 attention layers each) joined by concat\n");
    expect_line(graph, b, "short skip edges: 24\n");
    expect_line(graph, b, "weights on a side): 12\n"); /* q, k, v */
    assert_int_equal(b->long_skip_count, 0);
    assert_int_equal(b->cut_count, 3); /* concat, product, sum */
    assert_int_equal(b->segments[0].from, -1);
    assert_string_equal(graph->nodes.at[b->segments[0].to].op->name, "concat");
    for (int i = 0; i < 4; i++) {
        const struct sl_component *c = &b->components[b->segments[0].first + i];
        assert_int_equal(c->node_count, 1 + 3 * 14);
        assert_int_equal(c->weighted, 1 + 3 * 6);
        assert_int_equal(c->parameters, C * C + 3 * (4 * C * C + 2 * 7 * C));
    }
    sl_graph_close(graph);
    sl_arena_free(&arena);
}

static void unequal_towers_and_separate_losses(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_graph *graph = sl_graph_open("two", find);
    int stem = tower(graph, 1);
    int a = transformer(graph, stem), b = linear(graph, linear(graph, stem, C, 5), 5, 1);
    must(sl_graph_loss(graph, "a", apply(graph, "reduce_sum", a, -1, NULL), 1));
    must(sl_graph_loss(graph, "b", apply(graph, "reduce_sum", b, -1, NULL), 1));
    must(sl_graph_check(graph));
    const struct sl_branches *found = sl_graph_branches(graph, &arena);
    expect_line(graph, found,
                "2 parallel branches (1 of 1 attention layer, 1 of 2 matrix products), never "
                "joined\n");
    sl_graph_close(graph);
    sl_arena_free(&arena);
}

static void long_skips_are_told_from_residuals(void **state) {
    (void)state;
    enum { DEPTH = 4 };
    struct sl_arena arena = {0};
    struct sl_graph *graph = sl_graph_open("u-net", find);
    int x = input(graph, SL_SHAPE(2, 1, 1, 4)), kept[DEPTH];
    for (int i = 0; i < DEPTH; i++)
        x = kept[i] = apply(graph, "add", linear(graph, x, 4, 4), linear(graph, x, 4, 4), NULL);
    x = linear(graph, x, 4, 4);
    for (int i = DEPTH - 1; i >= 0; i--) {
        x = linear(graph, concat(graph, 2, (int[]){x, kept[i]}), 8, 4);
        x = apply(graph, "add", x, linear(graph, x, 4, 4), NULL);
    }
    finish(graph, x);
    const struct sl_branches *b = sl_graph_branches(graph, &arena);
    assert_int_equal(b->long_skip_count, DEPTH);
    assert_int_equal(b->skip_count, 2 * DEPTH);
    expect_line(graph, b, "long skip edges: 4\n");
    for (int i = 0; i + 1 < b->skip_count; i++)
        assert_true(b->skips[i].to <= b->skips[i + 1].to);
    assert_int_equal(b->skips[0].length, 1);                                 /* over the product */
    assert_int_equal(b->skips[b->skip_count - 2].length, 3 * 2 + 1 + 3 * 4); /* outermost */
    sl_graph_close(graph);
    sl_arena_free(&arena);
}

/* Labels, masks and sliced parameters are no branches. */
static void side_nodes_are_no_branches(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_graph *graph = sl_graph_open("side", find);
    int wide[1] = {param(graph, 2, 3)};
    union sl_attr flat[1] = {{.shape = SL_SHAPE(1, 0, 6)}};
    int x = input(graph, SL_SHAPE(2, 1, 1, 6));
    x = apply(graph, "scale", x, -1, (union sl_attr[]){{.f = 3}});
    x = apply(graph, "add", x, apply(graph, "reshape", wide[0], -1, flat), NULL);
    x = linear(graph, x, 6, 6);
    int label = apply(graph, "relu", input(graph, SL_SHAPE(2, 1, 1, 6)), -1, NULL);
    finish(graph, apply(graph, "sub", x, label, NULL));
    const struct sl_branches *b = sl_graph_branches(graph, &arena);
    assert_int_equal(b->segment_count, 0);
    assert_int_equal(b->node_count, 4);
    assert_int_equal(b->cut_count, 4);
    assert_int_equal(b->side_count, 3);
    expect_line(graph, b, "a chain");
    sl_graph_close(graph);
    sl_arena_free(&arena);
}

static void graphs_without_weights_have_no_structure(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_graph *graph = sl_graph_open("empty", find);
    for (int i = 0; i < 2; i++) {
        const struct sl_branches *b = sl_graph_branches(graph, &arena);
        assert_int_equal(b->node_count + b->cut_count + b->component_count + b->skip_count, 0);
        expect_line(graph, b, "a chain");
        int x = apply(graph, "relu", input(graph, SL_SHAPE(1, 1, 1)), -1, NULL);
        must(sl_graph_loss(graph, i ? "b" : "a", apply(graph, "reduce_sum", x, -1, NULL), 1));
    }
    sl_graph_close(graph);
    sl_arena_free(&arena);
}

/* ---- random graphs against brute force ---- */

enum { MAX_NODES = 22, MAX_SETS = 256 };

struct brute {
    int count;
    unsigned in[MAX_NODES], out[MAX_NODES];           /* edges, as sets */
    unsigned flow_in[MAX_NODES], flow_out[MAX_NODES]; /* without skip edges */
    bool ends[MAX_NODES];
    unsigned starts; /* read no node */
    struct {
        unsigned set;
        int level;
    } found[MAX_SETS];
    int found_count, skip_count;
};

/* Nodes reachable from `from` inside `within`. */
static unsigned reach(const unsigned *out, unsigned from, unsigned within) {
    unsigned seen = from & within, before = 0;
    while (seen != before) {
        before = seen;
        for (int i = 0; i < MAX_NODES; i++)
            if (seen >> i & 1)
                seen |= out[i] & within;
    }
    return seen;
}

static bool removes(const struct brute *g, int a, int b) { /* a dominates b */
    unsigned all = (1u << g->count) - 1;
    return a == b || !(reach(g->out, g->starts, all & ~(1u << a)) >> b & 1);
}

static void drop_skips(struct brute *g) {
    memcpy(g->flow_in, g->in, sizeof g->in);
    memcpy(g->flow_out, g->out, sizeof g->out);
    for (int v = 0; v < g->count; v++)
        for (int u = 0; u < v; u++) {
            bool skip = false;
            for (int p = 0; p < v && (g->in[v] >> u & 1); p++)
                skip |= p != u && (g->in[v] >> p & 1) && removes(g, u, p);
            if (!skip)
                continue;
            g->flow_in[v] &= ~(1u << u);
            g->flow_out[u] &= ~(1u << v);
            g->skip_count++;
        }
}

/* The cuts of a set of nodes: every path from an entry to an exit passes each of them. */
static unsigned brute_cuts(const struct brute *g, unsigned set) {
    unsigned entries = 0, exits = 0, cuts = 0;
    for (int i = 0; i < g->count; i++) {
        if (!(set >> i & 1))
            continue;
        if ((g->starts >> i & 1) || (g->flow_in[i] & ~set))
            entries |= 1u << i;
        if (g->ends[i] || (g->flow_out[i] & ~set))
            exits |= 1u << i;
    }
    for (int i = 0; i < g->count; i++)
        if ((set >> i & 1) && !(reach(g->flow_out, entries, set & ~(1u << i)) & exits & ~(1u << i)))
            cuts |= 1u << i;
    return cuts;
}

static void brute_divide(struct brute *g, unsigned set, int level) {
    unsigned cuts = brute_cuts(g, set), left = set & ~cuts, joined[MAX_NODES];
    for (int i = 0; i < MAX_NODES; i++)
        joined[i] = g->flow_in[i] | g->flow_out[i];
    while (left && level < 8) {
        unsigned part = reach(joined, left & -left, set & ~cuts);
        left &= ~part;
        if (part == set && level)
            return; /* tangled */
        assert_true(g->found_count < MAX_SETS);
        g->found[g->found_count].set = part;
        g->found[g->found_count++].level = level;
        if (part != set && (part & (part - 1)))
            brute_divide(g, part, level + 1);
    }
}

static struct sl_graph *random_graph(uint64_t seed, struct brute *g) {
    struct sl_graph *graph = sl_graph_open("random", find);
    uint64_t at = 0;
    int last, x = input(graph, SL_SHAPE(2, 1, 1, 4)), p = param(graph, 4, 4);
    int nodes = 3 + (int)sl_rng_below(seed, 1, at++, MAX_NODES - 6);
    int reachback = 2 + (int)sl_rng_below(seed, 1, at++, 6);
    for (int n = 0; n < nodes; n++) {
        int in[8], count = 0;
        for (int k = (int)sl_rng_below(seed, 1, at++, 3); n && k >= 0; k--) {
            int far = (int)sl_rng_below(seed, 1, at++, reachback);
            in[count++] = graph->nodes.at[far < n ? n - 1 - far : 0].out[0];
        }
        if (sl_rng_below(seed, 1, at++, 9) == 0)
            count = 0;
        if (!count)
            in[count++] = x;
        in[count++] = p;
        must(sl_graph_apply(graph, "mix", count, in, NULL, &last));
    }
    for (int losses = 1 + (int)sl_rng_below(seed, 1, at++, 2), i = 0; i < losses; i++) {
        char name[16];
        snprintf(name, sizeof name, "loss%d", i);
        int from = nodes - 1 - 2 * i;
        must(sl_graph_loss(graph, name,
                           apply(graph, "reduce_sum", graph->nodes.at[from].out[0], -1, NULL), 1));
    }
    must(sl_graph_check(graph));
    *g = (struct brute){.count = (int)graph->nodes.count};
    return graph;
}

/* Only nodes that reach a loss; numbers are kept. */
static void fill_brute(const struct sl_graph *graph, struct brute *g, unsigned *looked_at) {
    unsigned live = 0;
    for (int64_t i = 0; i < graph->losses.count; i++) {
        int node = graph->values.at[graph->losses.at[i].value].node;
        g->ends[node] = true;
        live |= 1u << node;
    }
    for (int n = g->count - 1; n >= 0; n--) {
        const struct sl_node *node = &graph->nodes.at[n];
        if (!(live >> n & 1))
            continue;
        for (int i = 0; i < node->in_count; i++) {
            const struct sl_value *v = &graph->values.at[node->in[i]];
            if (v->kind != SL_VALUE_NODE)
                continue;
            g->in[n] |= 1u << v->node;
            g->out[v->node] |= 1u << n;
            live |= 1u << v->node;
        }
        if (!g->in[n])
            g->starts |= 1u << n;
    }
    *looked_at = live;
}

static bool was_found(const struct brute *g, unsigned set, int level) {
    for (int i = 0; i < g->found_count; i++)
        if (g->found[i].set == set && g->found[i].level == level)
            return true;
    return false;
}

static void compare(uint64_t seed, const struct sl_branches *b, const struct brute *g,
                    unsigned cuts) {
    unsigned mine = 0;
    for (int i = 0; i < b->cut_count; i++)
        mine |= 1u << b->cuts[i];
    if (mine != cuts || b->skip_count != g->skip_count || b->component_count != g->found_count)
        fail_msg("seed %llu: cuts %x not %x, skips %d not %d, components %d not %d",
                 (unsigned long long)seed, mine, cuts, b->skip_count, g->skip_count,
                 b->component_count, g->found_count);
    for (int i = 0; i < b->component_count; i++) {
        const struct sl_component *c = &b->components[i];
        unsigned set = 0;
        for (int k = 0; k < c->node_count; k++)
            set |= 1u << c->nodes[k];
        if (!was_found(g, set, b->segments[c->segment].level))
            fail_msg("seed %llu: no component %x", (unsigned long long)seed, set);
        assert_true(i >= b->segments[c->segment].first &&
                    i < b->segments[c->segment].first + b->segments[c->segment].count);
    }
}

static void random_graphs_agree_with_brute_force(void **state) {
    (void)state;
    const char *full = getenv("SL_TEST_FULL");
    uint64_t trials = full && *full == '1' ? 100000 : 2000;
    int64_t components = 0, skips = 0;
    for (uint64_t seed = 1; seed <= trials; seed++) {
        struct sl_arena arena = {0};
        struct brute g;
        unsigned live;
        struct sl_graph *graph = random_graph(seed, &g);
        fill_brute(graph, &g, &live);
        drop_skips(&g);
        brute_divide(&g, live, 0);
        const struct sl_branches *b = sl_graph_branches(graph, &arena);
        compare(seed, b, &g, brute_cuts(&g, live));
        components += b->component_count;
        skips += b->skip_count;
        sl_graph_close(graph);
        sl_arena_free(&arena);
    }
    print_message("%d random graphs: %lld components, %lld skip edges\n", (int)trials,
                  (long long)components, (long long)skips);
    assert_true(components > 0 && skips > 0);
}

/* ---- time ---- */

enum { MANY = 100000 };

enum shape { CHAIN, RESIDUAL, NESTED_SKIPS, CHAINS, ANYTHING, NESTED_FORKS, FAR_JOINS, SHAPES };

/* The inputs of node n; in[0] is the node before it. */
static void choose(const struct sl_graph *graph, enum shape shape, int n, int in[3]) {
    const struct sl_node *nodes = graph->nodes.at;
    int back = n - MANY / 3; /* NESTED_FORKS: after the forks, a side and a join for each */
    switch (shape) {
    case RESIDUAL:
        if (n % 3 == 2)
            in[2] = nodes[n - 2].out[0];
        break;
    case NESTED_SKIPS:
        if (n > MANY / 2)
            in[2] = nodes[MANY - n].out[0];
        break;
    case CHAINS: in[0] = n < 300 ? graph->inputs.at[0].value : nodes[n - 300].out[0]; break;
    case ANYTHING:
        if (n > 2)
            in[2] = nodes[sl_rng_below(7, 7, (uint64_t)n, n - 1)].out[0];
        break;
    case NESTED_FORKS:
        if (back >= 0 && back % 2 == 0)
            in[0] = nodes[MANY / 3 - 1 - back / 2].out[0];
        else if (back > 0)
            in[2] = nodes[n - 2].out[0];
        break;
    case FAR_JOINS: /* common ancestors are half the graph away, every time */
        if (n >= MANY / 2) {
            in[1] = nodes[MANY / 2 - 1].out[0];
            in[2] = nodes[1].out[0];
        }
        break;
    default: break;
    }
}

static struct sl_graph *large_graph(enum shape shape) {
    struct sl_graph *graph = sl_graph_open("large", find);
    int last = input(graph, SL_SHAPE(2, 1, 1, 4)), p = param(graph, 4, 4);
    for (int n = 0; n < MANY - MANY % 3; n++) {
        int in[3] = {last, p, p};
        choose(graph, shape, n, in);
        must(sl_graph_apply(graph, "mix", 3, in, NULL, &last));
    }
    if (shape == CHAINS) { /* join the chains, 60 at a time */
        int ends[300], groups[5];
        for (int i = 0; i < 300; i++)
            ends[i] = graph->nodes.at[graph->nodes.count - 300 + i].out[0];
        for (int i = 0; i < 5; i++)
            must(sl_graph_apply(graph, "mix", 60, ends + i * 60, NULL, &groups[i]));
        must(sl_graph_apply(graph, "mix", 5, groups, NULL, &last));
    }
    finish(graph, last);
    return graph;
}

/* A quadratic algorithm would take minutes: the time limit of the test catches it. */
static void large_graphs_take_little_time(void **state) {
    (void)state;
    for (enum shape shape = 0; shape < SHAPES; shape++) {
        struct sl_arena arena = {0};
        struct sl_text text = {0};
        struct sl_graph *graph = large_graph(shape);
        int64_t start_ns = sl_clock_ns();
        const struct sl_branches *b = sl_graph_branches(graph, &arena);
        sl_graph_branches_put(graph, b, &text);
        print_message("shape %d: %.0f ms\n", (int)shape, (double)(sl_clock_ns() - start_ns) / 1e6);
        sl_text_free(&text);
        sl_graph_close(graph);
        sl_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(towers_are_found),
        cmocka_unit_test(unequal_towers_and_separate_losses),
        cmocka_unit_test(long_skips_are_told_from_residuals),
        cmocka_unit_test(side_nodes_are_no_branches),
        cmocka_unit_test(graphs_without_weights_have_no_structure),
        cmocka_unit_test(random_graphs_agree_with_brute_force),
        cmocka_unit_test(large_graphs_take_little_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
