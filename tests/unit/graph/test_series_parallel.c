/* Series-parallel trees of random orders: composed ones come back, others are only extended. */
#include "graph/series_parallel.h"

#include "base/vec.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { MAX = 14 };

struct order {
    int count;
    bool before[MAX][MAX];
};

static uint64_t dice_state;

static int dice(int below) {
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((dice_state >> 33) % (uint64_t)below);
}

/* Composes vertices [from, to) at random. */
static void compose(struct order *o, int from, int to) {
    if (to - from < 2)
        return;
    int middle = from + 1 + dice(to - from - 1);
    bool series = dice(2);
    compose(o, from, middle);
    compose(o, middle, to);
    for (int a = from; series && a < middle; a++)
        for (int b = middle; b < to; b++)
            o->before[a][b] = true;
}

static void close_order(struct order *o) {
    for (int k = 0; k < o->count; k++)
        for (int a = 0; a < o->count; a++)
            for (int b = 0; b < o->count; b++)
                o->before[a][b] |= o->before[a][k] && o->before[k][b];
}

/* Numbers are shuffled, and edges that follow from others are left out half of the time. */
static struct sl_dag dag_of(struct sl_arena *arena, const struct order *o, int name[MAX],
                            struct order *named) {
    SL_VEC(struct sl_dag_edge) edges = {0};
    *named = (struct order){.count = o->count};
    for (int i = 0; i < o->count; i++)
        name[i] = i;
    for (int i = o->count - 1; i > 0; i--) {
        int j = dice(i + 1), swap = name[i];
        name[i] = name[j];
        name[j] = swap;
    }
    for (int a = 0; a < o->count; a++)
        for (int b = 0; b < o->count; b++) {
            bool implied = false;
            for (int k = 0; k < o->count; k++)
                implied |= o->before[a][k] && o->before[k][b];
            named->before[name[a]][name[b]] = o->before[a][b];
            if (o->before[a][b] && !(implied && dice(2)))
                SL_PUSH(&edges, ((struct sl_dag_edge){name[a], name[b]}));
        }
    struct sl_dag dag = sl_graph_dag_build(arena, o->count, edges.at, (int)edges.count);
    SL_VEC_FREE(&edges);
    return dag;
}

/* The order that a tree describes, and its form. */
static void read_tree(const struct sl_sp *node, struct order *out, int *seen) {
    if (node->kind == SL_SP_LEAF) {
        assert_int_equal(node->vertex_count, 1);
        seen[node->vertex]++;
        return;
    }
    int total = 0;
    assert_true(node->child_count >= 2);
    for (int i = 0; i < node->child_count; i++) {
        const struct sl_sp *child = node->children[i];
        assert_true(child->kind != node->kind);
        read_tree(child, out, seen);
        for (int k = 0; k < i && node->kind == SL_SP_SERIES; k++)
            for (int a = 0; a < node->children[k]->vertex_count; a++)
                for (int b = 0; b < child->vertex_count; b++)
                    out->before[node->children[k]->vertices[a]][child->vertices[b]] = true;
        assert_memory_equal(node->vertices + total, child->vertices,
                            sizeof(int) * (size_t)child->vertex_count);
        total += child->vertex_count;
    }
    assert_int_equal(total, node->vertex_count);
}

/* Relations of the tree that the order lacks; it must lack none of the order's. */
static int64_t compare(const struct sl_sp_tree *tree, const struct order *o) {
    struct order described = {.count = o->count};
    int seen[MAX] = {0};
    int64_t added = 0;
    read_tree(tree->root, &described, seen);
    for (int a = 0; a < o->count; a++) {
        assert_int_equal(seen[a], 1);
        for (int b = 0; b < o->count; b++) {
            assert_true(described.before[a][b] || !o->before[a][b]);
            added += described.before[a][b] && !o->before[a][b];
        }
    }
    return added;
}

static void check_example(const struct sl_sp_tree *tree, const struct order *o) {
    int a = tree->example[0], b = tree->example[1], c = tree->example[2], d = tree->example[3];
    assert_true(o->before[a][c] && o->before[b][c] && o->before[b][d]);
    assert_false(o->before[a][b] || o->before[b][a] || o->before[a][d] || o->before[d][a] ||
                 o->before[c][d] || o->before[d][c]);
}

static bool has_n(const struct order *o) {
    for (int a = 0; a < o->count; a++)
        for (int b = 0; b < o->count; b++)
            for (int c = 0; c < o->count; c++)
                for (int d = 0; d < o->count; d++)
                    if (a != b && c != d && a != d && b != c && o->before[a][c] &&
                        o->before[b][c] && o->before[b][d] && !o->before[a][b] &&
                        !o->before[b][a] && !o->before[a][d] && !o->before[d][a] &&
                        !o->before[c][d] && !o->before[d][c])
                        return true;
    return false;
}

static void run_case(bool composed) {
    struct sl_arena arena = {0};
    struct order o = {.count = 1 + dice(MAX)}, named;
    struct sl_sp_tree tree;
    int name[MAX];
    if (composed)
        compose(&o, 0, o.count);
    for (int a = 0; !composed && a < o.count; a++)
        for (int b = a + 1; b < o.count; b++)
            o.before[a][b] = dice(4) == 0;
    close_order(&o);
    struct sl_dag dag = dag_of(&arena, &o, name, &named);
    sl_graph_sp_build(&arena, &dag, &tree);
    assert_int_equal(tree.added, compare(&tree, &named));
    assert_true((tree.added > 0) == has_n(&named));
    assert_true(!composed || tree.added == 0);
    if (tree.added)
        check_example(&tree, &named);
    sl_arena_free(&arena);
}

static void test_random_orders(void **state) {
    (void)state;
    for (int i = 0; i < 4000; i++) {
        dice_state = (uint64_t)i;
        dice(2);
        run_case(i % 2);
    }
}

static void test_no_vertices(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_dag dag = sl_graph_dag_build(&arena, 0, NULL, 0);
    struct sl_sp_tree tree;
    sl_graph_sp_build(&arena, &dag, &tree);
    assert_null(tree.root);
    sl_arena_free(&arena);
}

/* A long chain with skip connections is one series. */
static void test_chain(void **state) {
    (void)state;
    enum { LONG = 3000 };
    struct sl_arena arena = {0};
    struct sl_sp_tree tree;
    struct sl_dag_edge *edges = calloc(2 * LONG, sizeof *edges);
    int count = 0;
    for (int i = 1; i < LONG; i++) {
        edges[count++] = (struct sl_dag_edge){i - 1, i};
        if (i < LONG - 1 - i)
            edges[count++] = (struct sl_dag_edge){i, LONG - 1 - i};
    }
    struct sl_dag dag = sl_graph_dag_build(&arena, LONG, edges, count);
    sl_graph_sp_build(&arena, &dag, &tree);
    assert_int_equal(tree.added, 0);
    assert_int_equal(tree.root->kind, SL_SP_SERIES);
    assert_int_equal(tree.root->child_count, LONG);
    free(edges);
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_orders),
        cmocka_unit_test(test_no_vertices),
        cmocka_unit_test(test_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
