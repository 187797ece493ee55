/* Plans: text round trip, derived fields, and refusals of the checker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/plan.h"

#include <string.h>

static const char full[] = "sluice-plan 1\n"
                           "model gpt-tiny nodes 8\n"
                           "schedule \"1f1b\"\n"
                           "batch 48\n"
                           "workers 4\n"
                           "memory 1 17179869184\n"
                           "stage a width 2 micro 3 on 0 1 recompute input\n"
                           "bytes a params 11 grads 13 state 17 stash 19 saved 23 kept 29 work 31\n"
                           "nodes a 0..2 5\n"
                           "stage b width 1 micro 6 on 2\n"
                           "bytes b params 7 grads 7 state 0 stash 0 saved 0 kept 0 work 0\n"
                           "nodes b 3 4\n"
                           "stage c width 1 micro 3 on 3 input\n"
                           "bytes c params 7 grads 0 state 0 stash 0 saved 0 kept 0 work 0\n"
                           "takes c f 37 b 83 i 41 w 43 recompute 31 reduce 3 step 5\n"
                           "nodes c 6 7\n"
                           "edge a b 4099\n"
                           "edge a c 5\n"
                           "edge b c 7\n"
                           "tie embed 5 a c\n";

static sl_err read_text(struct sl_arena *arena, const char *text, const struct sl_plan **out) {
    return sl_plan_read(arena, "x.plan", text, strlen(text), out);
}

static void test_round_trip(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    struct sl_text text = {0};
    (void)state;
    assert_int_equal(read_text(&arena, full, &plan), SL_OK);
    sl_plan_write(plan, &text);
    /* runs of nodes are written as ranges */
    assert_non_null(strstr(text.at, "nodes b 3..4\n"));
    struct sl_text again = {0};
    const struct sl_plan *second;
    assert_int_equal(read_text(&arena, text.at, &second), SL_OK);
    sl_plan_write(second, &again);
    assert_string_equal(text.at, again.at);
    sl_text_free(&text);
    sl_text_free(&again);
    sl_arena_free(&arena);
}

static const char sharded[] =
    "sluice-plan 1\n"
    "workers 4\n"
    "stage a width 2 micro 3 group 2 shards 3 zero1 on 0 1 recompute input\n"
    "bytes a params 11 grads 13 state 17 stash 19 saved 23 kept 29 work 31\n"
    "collective a f sum 4096 24\n"
    "collective a f gather 12\n"
    "collective a b sum 4096\n"
    "collective a w scatter 8\n"
    "stage b width 1 micro 6 on 2\n"
    "bytes b params 7 grads 7 state 0 stash 0 saved 0 kept 0 work 0\n"
    "stage c width 1 micro 6 shards 3 on 1 input\n"
    "bytes c params 7 grads 7 state 0 stash 0 saved 0 kept 0 work 0\n"
    "edge a b 4099\n";

static void test_shards(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    struct sl_text text = {0};
    (void)state;
    assert_int_equal(read_text(&arena, sharded, &plan), SL_OK);
    sl_plan_write(plan, &text);
    assert_string_equal(text.at, sharded);
    assert_int_equal(plan->stages[0].shards, 3);
    assert_true(plan->stages[0].zero1);
    assert_int_equal(plan->stages[1].shards, 1);
    assert_int_equal(plan->stages[0].collective_count, 4);
    assert_int_equal(plan->stages[0].collectives[0].count, 24);
    assert_int_equal(plan->stages[0].collectives[3].kind, SL_COLLECTIVE_SCATTER);
    assert_int_equal(plan->shards, 3);
    const int devices[] = {0, 3, 6, 7, 8}; /* worker 3 has no stage: one device */
    for (int w = 0; w <= plan->worker_count; w++)
        assert_int_equal(plan->worker_device[w], devices[w]);
    assert_int_equal(plan->worker_shards[1], 3);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

/* Ring algorithms: a device sends (t-1)/t of the tensor, in an all-reduce twice. */
static void test_collective_traffic(void **state) {
    (void)state;
    assert_int_equal(sl_plan_collective_traffic(SL_COLLECTIVE_SUM, 4, 4096), 6144);
    assert_int_equal(sl_plan_collective_traffic(SL_COLLECTIVE_GATHER, 4, 4096), 3072);
    assert_int_equal(sl_plan_collective_traffic(SL_COLLECTIVE_SCATTER, 2, 4096), 2048);
    assert_int_equal(sl_plan_collective_traffic(SL_COLLECTIVE_SUM, 1, 4096), 0);
}

/* Names and bytes do not change a layout; nodes, workers and replicas do. */
static void test_same_layout(void **state) {
    static const struct {
        const char *from, *to; /* in `full` */
        bool same;
    } edits[] = {
        {"edge b c 7", "edge b c 8", true},
        {"tie embed 5", "tie other 6", true},
        {"schedule \"1f1b\"", "schedule \"gpipe\"", true},
        {"work 31", "work 32", true},
        {"memory 1 17179869184\n", "", true},
        {"on 2\n", "on 0\n", false},
        {"micro 6 on 2", "micro 6 shards 2 on 2", false},
        {"micro 6 on 2", "micro 6 zero1 on 2", true},
        {"micro 6", "micro 12", false},
        {"recompute input", "input", false},
        {"5\n"
         "stage b width 1 micro 6 on 2\n"
         "bytes b params 7 grads 7 state 0 stash 0 saved 0 kept 0 work 0\n"
         "nodes b 3 4\n",
         "4 5\n"
         "stage b width 1 micro 6 on 2\n"
         "bytes b params 7 grads 7 state 0 stash 0 saved 0 kept 0 work 0\n"
         "nodes b 3\n",
         false},
        {"step 5", "step 6", false},
        {"edge a c 5\n", "", false},
    };
    (void)state;
    for (int i = 0; i < SL_COUNT(edits); i++) {
        struct sl_arena arena = {0};
        struct sl_text text = {0};
        const struct sl_plan *a, *b;
        const char *at = strstr(full, edits[i].from);
        assert_int_equal(read_text(&arena, full, &a), SL_OK);
        assert_non_null(at);
        sl_text_put_bytes(&text, full, (size_t)(at - full));
        sl_text_put(&text, edits[i].to);
        sl_text_put(&text, at + strlen(edits[i].from));
        assert_int_equal(read_text(&arena, text.at, &b), SL_OK);
        assert_true(sl_plan_same_layout(a, b) == edits[i].same);
        sl_text_free(&text);
        sl_arena_free(&arena);
    }
}

static void test_derived(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    (void)state;
    assert_int_equal(read_text(&arena, full, &plan), SL_OK);
    assert_int_equal(plan->depth, 3);
    assert_int_equal(plan->stages[0].height, 2);
    assert_int_equal(plan->stages[1].height, 1);
    assert_int_equal(plan->stages[2].height, 0);
    assert_int_equal(plan->seat_count, 4);
    assert_int_equal(plan->stages[2].seat, 3);
    assert_int_equal(plan->stages[2].in_count, 2);
    assert_int_equal(plan->edges[2].to_place, 1);
    assert_int_equal(plan->worker_seats[3][0], 3);
    assert_int_equal(plan->topo[0], 0);
    sl_arena_free(&arena);
}

/* The two-branch case study of GraphPipe: 8 stages, depth 8 as a chain, 4 branches-wise + join. */
static void test_depth(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    (void)state;
    assert_int_equal(sl_plan_chain(&arena, 8, 8, SL_LAYOUT_LOOP, &plan), SL_OK);
    assert_int_equal(plan->depth, 8);
    assert_int_equal(sl_plan_dag(&arena, "a1>a2>a3>a4,b1>b2>b3>b4", 0, &plan), SL_OK);
    assert_int_equal(plan->stage_count, 8);
    assert_int_equal(plan->depth, 4);
    sl_arena_free(&arena);
}

static void refuse_in(const char *whole, const char *from, const char *to, const char *message) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    struct sl_text text = {0};
    const char *at = strstr(whole, from);
    assert_non_null(at);
    sl_text_put_bytes(&text, whole, (size_t)(at - whole));
    sl_text_put(&text, to);
    sl_text_put(&text, at + strlen(from));
    assert_int_equal(read_text(&arena, text.at, &plan), SL_ERR_INPUT);
    if (!strstr(sl_err_message(), message))
        fail_msg("'%s' is not in '%s'", message, sl_err_message());
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static void refuse(const char *from, const char *to, const char *message) {
    refuse_in(full, from, to, message);
}

static void test_shards_refused(void **state) {
    (void)state;
    refuse_in(sharded, "shards 3 zero1", "shards 0", "shards 0 is not in 1..");
    refuse_in(sharded, "shards 3 zero1", "shards 2 zero1",
              "worker 1: stage a has 2 shards, stage c has 3");
    refuse_in(sharded, "shards 3 on 1", "on 1", "worker 1: stage a has 3 shards, stage c has 1");
    refuse_in(sharded, "edge a", "collective b f sum 8\nedge a",
              "stage b has collectives but one shard");
    refuse_in(sharded, "b sum 4096", "f sum 4096 0", "count 0 is not in");
    refuse_in(sharded, "w scatter", "w broadcast", "expected sum, gather or scatter");
    refuse_in(sharded, "w scatter", "f scatter", "those of f come first");
    refuse_in(sharded, "shards 3 zero1 on 0 1", "shards 1000 zero1 on 0 1", "worker 1: stage a");
}

static void test_refused(void **state) {
    (void)state;
    refuse("edge b c 7\n", "edge b c 7\nedge c a 1\n", "cycle");
    refuse("edge b c 7\n", "edge b b 7\n", "cannot feed itself");
    refuse("on 0 1", "on 1 1", "two replicas on worker 1");
    refuse("on 3", "on 4", "worker 4 of 4");
    refuse("nodes b 3 4", "nodes b 2 3 4", "node 2 is in stage a and in stage b");
    refuse("nodes b 3 4", "nodes b 3", "in no stage");
    refuse("edge a b", "stage b width 1 micro 1 on 0\nedge a b", "two stages are called b");
    refuse("micro 6", "micro 0", "x.plan:10:23: micro 0 is not in");
    refuse("tie embed 5 a c", "tie embed 9 a c", "fewer parameter bytes");
    refuse("tie embed 5 a c", "tie embed 5 a", "two stages or more");
    refuse("edge b c 7", "edge b d 7", "no stage is called 'd'");
    refuse("workers 4", "workers 4000000", "not in 1..65535");
    refuse("takes c f 37", "takes c f 999999999999", "nanoseconds 999999999999 is not in");
    refuse("takes c f 37", "takes d f 37", "no stage is called 'd'");
    refuse("recompute 31 reduce", "reduce", "expected 'recompute'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_same_layout),
        cmocka_unit_test(test_derived),        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_shards_refused), cmocka_unit_test(test_collective_traffic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
