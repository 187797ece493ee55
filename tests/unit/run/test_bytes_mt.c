/* Predicted bytes of one worker equal the allocated bytes; planner and verifier predict the same
 * for the stage. e2e.memory compares predictions with the process's high-water mark. */
#include "graph/model.h"
#include "graph/stats.h"
#include "op/registry.h"
#include "schedules/schedule.h"
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A device that counts its allocations; it has no scratch. */
extern const struct sl_device_row sl_device_reference;
static struct sl_device_row counting;
static int64_t allocated;

static sl_err counting_open(const struct sl_device_config *config, struct sl_device **out) {
    sl_err err = sl_device_reference.open(config, out);
    if (err == SL_OK)
        (*out)->row = &counting;
    return err;
}

static sl_err counting_alloc(struct sl_device *device, int64_t size_bytes, void **out) {
    allocated += size_bytes;
    return sl_device_reference.alloc(device, size_bytes, out);
}

static const struct row {
    const char *model, *sets, *optimizer;
    int64_t batch, micros;
    bool recompute, eval;
} rows[] = {
    {"gpt-nano", "V=37,T=12,P=12,L=3,C=20,H=5", "adamw", 6, 1, false, false},
    {"gpt-nano", "V=37,T=12,P=12,L=3,C=20,H=5", "adamw", 6, 3, false, true},
    {"gpt-nano", "V=37,T=12,P=12,L=3,C=20,H=5", "momentum", 7, 2, false, true},
    {"gpt-nano", "V=37,T=12,P=12,L=3,C=20,H=5", "sgd", 6, 1, true, false},
    {"gpt-nano", "V=37,T=12,P=12,L=3,C=20,H=5", "muon", 7, 3, true, true},
    {"lenet", "", "nadam", 5, 2, false, true},
    {"resnet18", "cifar=1,classes=7", "lion", 3, 1, false, true},
};

static struct sl_graph *eval_graph(const struct row *row) {
    static const char *const dirs[] = {SL_MODELS_SRC_DIR, NULL};
    struct sl_model_options options = {.find_op = sl_op_find,
                                       .nearest_op = sl_op_nearest,
                                       .find_used = sl_graph_model_find_used,
                                       .find_ctx = dirs,
                                       .eval = true};
    struct sl_arena arena = {0};
    struct sl_graph *graph = NULL;
    const char *file = sl_arena_printf(&arena, "%s/%s.model", SL_MODELS_SRC_DIR, row->model);
    if (sl_graph_model_parse_sets(row->sets, &arena, &options) != SL_OK ||
        sl_graph_model_read_file(file, &options, &graph) != SL_OK)
        fail_msg("%s: %s", row->model, sl_err_message());
    sl_arena_free(&arena);
    return graph;
}

static struct sl_train_config open_row(const struct row *row, struct pipe_case *c) {
    pipe_case_open_zoo(c, row->model, row->sets);
    struct sl_train_config config = pipe_case_config(c, row->optimizer, row->batch, row->micros, 1);
    config.recompute = row->recompute;
    return config;
}

/* Host memory that a prediction counts: one input, the programs and the graphs. */
static int64_t host_bytes(const struct sl_train *train) {
    int64_t staging = 0, objects = 0;
    for (int i = 0; i < SL_WORKER_PROGRAMS; i++) {
        const struct sl_program *p = train->worker->programs[i];
        if (!p)
            continue;
        objects += p->arena.used_bytes;
        if (i != SL_WORKER_LAST)
            objects += sl_graph_bytes(p->graph);
        if (sl_plan_staging_bytes(p) > staging)
            staging = sl_plan_staging_bytes(p);
    }
    return staging + objects;
}

static void predicted_is_allocated(void **state) {
    (void)state;
    counting = sl_device_reference;
    counting.open = counting_open;
    counting.alloc = counting_alloc;
    for (int i = 0; i < SL_COUNT(rows); i++) {
        struct pipe_case c;
        struct sl_train *train;
        struct sl_train_config config = open_row(&rows[i], &c);
        struct sl_graph *eval = rows[i].eval ? eval_graph(&rows[i]) : NULL;
        config.eval_graph = eval;
        config.device = &counting;
        allocated = 0;
        assert_int_equal(sl_run_train_open(&config, &train), SL_OK);
        struct sl_stage_bytes bytes = sl_run_train_bytes(train);
        int64_t predicted = sl_plan_stage_bytes_total(&bytes) - host_bytes(train);
        /* An empty slab is allocated with 64 bytes. */
        if (predicted > allocated || predicted + 4 * 64 < allocated)
            fail_msg("row %d: predicted %lld, allocated %lld", i, (long long)predicted,
                     (long long)allocated);
        sl_run_train_close(train);
        sl_graph_close(eval);
        pipe_case_close(&c);
    }
}

/* One stage, one micro-batch in flight: planner and verifier predict the same as the run. */
static void planner_and_verifier_agree(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(rows); i++) {
        struct pipe_case c;
        struct sl_train *train;
        const struct sl_sched *sched;
        struct sl_arena arena = {0};
        struct sl_train_config config = open_row(&rows[i], &c);
        config.batch -= config.batch % config.micros; /* a plan has full micro-batches only */
        config.threads = 2;
        pipe_case_cut(&c, &config, 1, NULL);
        struct sl_schedule_opts opts = {.schedule = "1f1b", .batch = config.batch, .iters = 2};
        if (sl_schedules_build(&arena, c.plan, &opts, &sched) != SL_OK)
            fail_msg("row %d: %s", i, sl_err_message());
        assert_int_equal(sl_run_train_open(&config, &train), SL_OK);
        struct sl_stage_bytes bytes = sl_run_train_bytes(train);
        int64_t total = sl_plan_stage_bytes_total(&bytes);
        assert_true(total > train->worker->bytes);
        assert_true(sl_plan_stage_bytes_total(&c.plan->stages[0].bytes) == total);
        if (sl_sched_worker_bytes(sched, 0) != total)
            fail_msg("row %d: the verifier says %lld, the run %lld", i,
                     (long long)sl_sched_worker_bytes(sched, 0), (long long)total);
        sl_run_train_close(train);
        sl_arena_free(&arena);
        pipe_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicted_is_allocated),
        cmocka_unit_test(planner_and_verifier_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
