/* Optimizer steps, predictions and norms of the CPU device have the bits of the optimizers' own
 * functions: every optimizer and table that this machine supports, 1 to 3 threads, many parameters.
 */
#include "base/rng.h"
#include "device/cpu/optim.h"
#include "optim/norm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_THREADS = 3, STEPS = 3, PARAMS = 6 };

/* Odd sizes, smaller and larger than a grain; several parameters in one range. */
static const int64_t shapes[PARAMS][2] = {{7, 1}, {13, 5}, {1, 1}, {61, 67}, {1031, 3}, {257, 263}};

struct tensors {
    int64_t count;
    float *w, *g, *state[SL_OPTIM_STATE], *delta, *out;
    void *scratch;
};

static float *draw(int64_t count, uint64_t stream) {
    float *x = sl_realloc(NULL, sizeof *x * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)sl_rng_normal(3, stream, (uint64_t)i);
    return x;
}

static float *zeros(int64_t count) {
    float *x = sl_realloc(NULL, sizeof *x * (size_t)count);
    return memset(x, 0, sizeof *x * (size_t)count);
}

static void tensors_open(struct tensors *t, const struct sl_optim_param *param, int index) {
    t->count = param->count;
    t->w = draw(t->count, (uint64_t)index);
    t->g = draw(t->count, (uint64_t)index + 100);
    t->delta = zeros(t->count);
    t->out = zeros(t->count);
    for (int i = 0; i < SL_OPTIM_STATE; i++)
        t->state[i] = zeros(t->count);
    t->scratch = sl_realloc(NULL, (size_t)sl_optim_scratch_bytes(param) + 16);
}

static void tensors_close(struct tensors *t) {
    free(t->w);
    free(t->g);
    free(t->delta);
    free(t->out);
    free(t->scratch);
    for (int i = 0; i < SL_OPTIM_STATE; i++)
        free(t->state[i]);
}

static struct sl_step_item item_of(const struct sl_optim_param *param, const struct tensors *t,
                                   int step, bool delta) {
    return (struct sl_step_item){
        .param = param,
        .coef = sl_optim_coef(param, step, 0.01, 0.5f),
        .io = {.count = t->count,
               .rows = param->shape.dim[0],
               .cols = param->shape.dim[1],
               .w = t->w,
               .g = t->g,
               .state = {t->state[0], t->state[1]},
               .delta = delta ? t->delta : NULL,
               .scratch = t->scratch},
        .lr = 0.01,
        .out = t->out,
    };
}

/* Same bits for elementwise rules; the products of muon are summed in another order. */
static void check_same(const char *what, const struct sl_optimizer *row, const char *isa,
                       const float *a, const float *b, int64_t count) {
    double off = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        off += (double)(a[i] - b[i]) * (double)(a[i] - b[i]);
        size += (double)b[i] * (double)b[i];
    }
    if (row->whole_matrix && off <= 1e-10 * size)
        return;
    for (int64_t i = 0; i < count; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0)
            fail_msg("%s, %s: %s[%d] is %.9g, not %.9g", row->name, isa, what, (int)i, (double)a[i],
                     (double)b[i]);
}

/* W - lr*s*Delta, by the functions of the optimizer. */
static void predict_slowly(const struct sl_step_item *item, double ahead) {
    struct sl_step_io io = item->io;
    float *delta = zeros(io.count);
    if (item->param->optim.row->delta_from == SL_DELTA_STATE) {
        io.delta = delta;
        item->param->optim.row->delta(&item->coef, &io);
    }
    sl_optim_predict(io.count, io.w, io.delta, item->lr, ahead, item->out);
    free(delta);
}

struct bench {
    struct sl_optim_param param[PARAMS];
    struct tensors fast[PARAMS], slow[PARAMS];
};

static void compare(const struct bench *b, const char *isa) {
    for (int p = 0; p < PARAMS; p++) {
        const struct tensors *x = &b->fast[p], *y = &b->slow[p];
        const struct sl_optimizer *row = b->param[p].optim.row;
        check_same("w", row, isa, x->w, y->w, x->count);
        check_same("delta", row, isa, x->delta, y->delta, x->count);
        check_same("state", row, isa, x->state[0], y->state[0], x->count);
        check_same("state", row, isa, x->state[1], y->state[1], x->count);
        check_same("prediction", row, isa, x->out, y->out, x->count);
    }
}

static void try_optimizer(const struct sl_optimizer *row, const struct sl_device_cpu_optim *table,
                          struct sl_device_pool *pool) {
    struct bench b;
    struct sl_device_cpu_room room = {0};
    struct sl_optim optim;
    char text[64];
    snprintf(text, sizeof text, "%s:wd=0.03", row->name);
    assert_int_equal(sl_optim_parse(text, &optim), SL_OK);
    for (int p = 0; p < PARAMS; p++) {
        struct sl_optim_shape shape = {.rank = 2, .dim = {shapes[p][0], shapes[p][1]}};
        shape.rank = p == 0 ? 1 : 2;
        shape.lookup = p > 3; /* the reference step of muon is slow on large matrices */
        b.param[p] = sl_optim_for(&optim, &shape);
        tensors_open(&b.fast[p], &b.param[p], p);
        tensors_open(&b.slow[p], &b.param[p], p);
    }
    for (int t = 1; t <= STEPS; t++) {
        struct sl_step_item items[PARAMS];
        for (int p = 0; p < PARAMS; p++) {
            bool kept = b.param[p].optim.row->delta_from == SL_DELTA_KEPT || t == 2;
            struct sl_step_item slow = item_of(&b.param[p], &b.slow[p], t, kept);
            items[p] = item_of(&b.param[p], &b.fast[p], t, kept);
            b.param[p].optim.row->step(&slow.coef, &slow.io);
            predict_slowly(&slow, 1.7);
        }
        sl_device_cpu_step(table, pool, items, PARAMS, &room);
        sl_device_cpu_predict(table, pool, items, PARAMS, 1.7);
        compare(&b, table->isa);
    }
    for (int p = 0; p < PARAMS; p++) {
        tensors_close(&b.fast[p]);
        tensors_close(&b.slow[p]);
    }
    free(room.at);
}

static void steps_are_the_optimizers_own(void **state) {
    struct sl_device_pool *const *pools = *state;
    for (int i = 0; sl_device_cpu_optims[i]; i++)
        for (int t = 0; t < MAX_THREADS && sl_device_cpu_optims[i]->supported(); t++)
            for (int r = 0; r < sl_optim_row_count; r++)
                try_optimizer(sl_optim_rows[r], sl_device_cpu_optims[i], pools[t]);
}

/* Every elementwise optimizer has a rule in every table. */
static void no_rule_is_missing(void **state) {
    (void)state;
    for (int i = 0; sl_device_cpu_optims[i]; i++)
        for (int r = 0; r < sl_optim_row_count; r++) {
            const struct sl_device_cpu_rule *rule = sl_device_cpu_optims[i]->rules;
            while (rule->name && strcmp(rule->name, sl_optim_rows[r]->name) != 0)
                rule++;
            assert_true(rule->name || sl_optim_rows[r]->whole_matrix);
        }
}

static void norms_are_canonical(void **state) {
    static const int64_t counts[] = {1, 31, 1024, 1025, 65536, 65537, 200003, 131072, 7};
    enum { COUNT = SL_COUNT(counts) };
    struct sl_device_pool *const *pools = *state;
    struct sl_norm_item items[COUNT];
    double sums[COUNT];
    struct sl_device_cpu_room room = {0};
    for (int i = 0; i < COUNT; i++)
        items[i] = (struct sl_norm_item){draw(counts[i], (uint64_t)i), counts[i], &sums[i]};
    for (int table = 0; sl_device_cpu_optims[table]; table++)
        for (int t = 0; t < MAX_THREADS && sl_device_cpu_optims[table]->supported(); t++) {
            sl_device_cpu_norm_sq(sl_device_cpu_optims[table], pools[t], items, COUNT, &room);
            for (int i = 0; i < COUNT; i++)
                if (sums[i] != sl_optim_norm_sq(items[i].x, counts[i]))
                    fail_msg("%d elements, %s: %.17g", (int)counts[i],
                             sl_device_cpu_optims[table]->isa, sums[i]);
        }
    for (int i = 0; i < COUNT; i++)
        free((void *)items[i].x);
    free(room.at);
}

/* The functions of the device row give the same results. */
static void device_row_steps(void **state) {
    (void)state;
    const struct sl_device_row *row = sl_device_find("cpu");
    struct sl_device *device;
    struct sl_optim optim;
    struct tensors t;
    double sum;
    assert_int_equal(row->open(&(struct sl_device_config){.threads = 2}, &device), SL_OK);
    assert_int_equal(sl_optim_parse("adamw", &optim), SL_OK);
    struct sl_optim_param param =
        sl_optim_for(&optim, &(struct sl_optim_shape){2, {61, 67}, false});
    tensors_open(&t, &param, 1);
    struct sl_step_item item = item_of(&param, &t, 1, true);
    struct sl_norm_item norm = {t.w, t.count, &sum};
    assert_int_equal(row->step(device, &item, 1), SL_OK);
    assert_int_equal(row->predict(device, &item, 1, 0.0), SL_OK);
    check_same("prediction", param.optim.row, "cpu", t.out, t.w, t.count);
    assert_int_equal(row->norm_sq(device, &norm, 1), SL_OK);
    assert_true(sum == sl_optim_norm_sq(t.w, t.count));
    tensors_close(&t);
    row->close(device);
}

static int setup(void **state) {
    static struct sl_device_pool *pools[MAX_THREADS];
    for (int t = 0; t < MAX_THREADS; t++)
        if (sl_device_pool_open(t + 1, &pools[t]) != SL_OK)
            return -1;
    *state = pools;
    return 0;
}

static int teardown(void **state) {
    struct sl_device_pool **pools = *state;
    for (int t = 0; t < MAX_THREADS; t++)
        sl_device_pool_close(pools[t]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rule_is_missing),
        cmocka_unit_test(steps_are_the_optimizers_own),
        cmocka_unit_test(norms_are_canonical),
        cmocka_unit_test(device_row_steps),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
