/* Optimizer steps, predictions and norms of every device of this machine have the bits of the
 * optimizers' own functions; many parameters at once. The products of muon may be summed in another
 * order. */
#include "device_here.h"

#include "base/rng.h"
#include "optim/norm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 3, PARAMS = 6, TENSORS = 6 };
enum { W, G, S0, S1, DELTA, OUT };

static const int64_t shapes[PARAMS][2] = {{7, 1}, {13, 5}, {1, 1}, {61, 67}, {1031, 3}, {257, 263}};

struct tensors { /* the same numbers on the host and on the device */
    int64_t count;
    float *host[TENSORS];
    void *there[TENSORS], *host_scratch, *scratch;
};

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static void open_tensors(struct tensors *t, const struct sl_optim_param *param, int index,
                         struct sl_device *device) {
    t->count = param->count;
    size_t bytes = sizeof(float) * (size_t)t->count;
    for (int i = 0; i < TENSORS; i++) {
        t->host[i] = memset(sl_realloc(NULL, bytes), 0, bytes);
        for (int64_t j = 0; i <= G && j < t->count; j++)
            t->host[i][j] = (float)sl_rng_normal(3, (uint64_t)(index + 100 * i), (uint64_t)j);
        must(device->row->alloc(device, (int64_t)bytes, &t->there[i]));
        must(device->row->upload(device, SL_STREAM_COMPUTE, t->there[i], t->host[i],
                                 (int64_t)bytes));
    }
    int64_t scratch = sl_optim_scratch_bytes(param) + 64;
    t->host_scratch = sl_realloc(NULL, (size_t)scratch);
    must(device->row->alloc(device, scratch, &t->scratch));
}

static void close_tensors(struct tensors *t, struct sl_device *device) {
    for (int i = 0; i < TENSORS; i++) {
        free(t->host[i]);
        device->row->free(device, t->there[i]);
    }
    free(t->host_scratch);
    device->row->free(device, t->scratch);
}

static struct sl_step_item item_of(const struct sl_optim_param *param, const struct tensors *t,
                                   int step, bool there) {
    void *at[TENSORS];
    for (int i = 0; i < TENSORS; i++)
        at[i] = there ? t->there[i] : t->host[i];
    return (struct sl_step_item){
        .param = param,
        .coef = sl_optim_coef(param, step, 0.01, 0.5f),
        .io = {.count = t->count,
               .rows = param->shape.dim[0],
               .cols = param->shape.dim[1],
               .w = at[W],
               .g = at[G],
               .state = {at[S0], at[S1]},
               .delta = at[DELTA],
               .scratch = there ? t->scratch : t->host_scratch},
        .lr = 0.01,
        .out = at[OUT],
    };
}

static void compare(const struct sl_optim_param *param, const struct tensors *t,
                    struct sl_device *device, int which) {
    size_t bytes = sizeof(float) * (size_t)t->count;
    float *got = sl_realloc(NULL, bytes);
    const struct sl_optimizer *row = param->optim.row;
    must(device->row->download(device, SL_STREAM_COMPUTE, got, t->there[which], (int64_t)bytes));
    must(device->row->sync(device, SL_STREAM_COMPUTE));
    double off = 0, size = 0;
    for (int64_t i = 0; i < t->count; i++) {
        double d = (double)got[i] - (double)t->host[which][i];
        off += d * d;
        size += (double)t->host[which][i] * (double)t->host[which][i];
    }
    bool same = memcmp(got, t->host[which], bytes) == 0;
    if (!row->whole_matrix ? !same : !(sqrt(off) <= 2e-3 * sqrt(size)))
        fail_msg("%s, %s: tensor %d of %lld elements is off by %.3g", device->row->name, row->name,
                 which, (long long)t->count, sqrt(off / (size > 0 ? size : 1)));
    free(got);
}

static void predict_on_host(const struct sl_step_item *item, struct tensors *t) {
    const struct sl_optimizer *row = item->param->optim.row;
    struct sl_step_io io = item->io;
    if (row->delta_from == SL_DELTA_STATE)
        row->delta(&item->coef, &io);
    sl_optim_predict(t->count, io.w, io.delta, item->lr, 3, item->out);
}

static void try_optimizer(const char *name, struct sl_device *device) {
    struct sl_optim optim;
    struct sl_optim_param params[PARAMS];
    struct tensors tensors[PARAMS];
    struct sl_step_item host[PARAMS], there[PARAMS];
    must(sl_optim_parse(name, &optim));
    for (int i = 0; i < PARAMS; i++) {
        struct sl_optim_shape shape = {.rank = 2, .dim = {shapes[i][0], shapes[i][1]}};
        params[i] = sl_optim_for(&optim, &shape);
        open_tensors(&tensors[i], &params[i], i, device);
    }
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < PARAMS; i++) {
            host[i] = item_of(&params[i], &tensors[i], step, false);
            there[i] = item_of(&params[i], &tensors[i], step, true);
            params[i].optim.row->step(&host[i].coef, &host[i].io);
        }
        must(device->row->step(device, there, PARAMS));
    }
    must(device->row->predict(device, there, PARAMS, 3));
    for (int i = 0; i < PARAMS; i++) {
        predict_on_host(&host[i], &tensors[i]);
        for (int k = 0; k < TENSORS; k++)
            if (k != DELTA || params[i].optim.row->delta_from == SL_DELTA_KEPT)
                compare(&params[i], &tensors[i], device, k);
        close_tensors(&tensors[i], device);
    }
}

static void for_each(void (*body)(struct sl_device *device)) {
    struct sl_device_config config = {.threads = 2};
    struct sl_device *device;
    int at = 0;
    for (const struct sl_device_row *row; (row = next_device(&at));) {
        must(row->open(&config, &device));
        body(device);
        device->row->close(device);
    }
}

static void try_all(struct sl_device *device) {
    for (int i = 0; i < sl_optim_row_count; i++)
        try_optimizer(sl_optim_rows[i]->name, device);
}

static void steps_have_the_bits_of_the_rules(void **state) {
    (void)state;
    for_each(try_all);
}

static void try_norms(struct sl_device *device) {
    static const int64_t counts[] = {1, 31, 1024, 1025, 3 * 1024 + 7, 1024 * 1024 + 5, 2500037};
    struct sl_norm_item items[SL_COUNT(counts)];
    double want[SL_COUNT(counts)], got[SL_COUNT(counts)];
    void *there[SL_COUNT(counts)];
    for (int i = 0; i < SL_COUNT(counts); i++) {
        float *x = sl_realloc(NULL, sizeof *x * (size_t)counts[i]);
        for (int64_t j = 0; j < counts[i]; j++)
            x[j] = (float)(sl_rng_uniform(5, (uint64_t)i, (uint64_t)j) - 0.5);
        want[i] = sl_optim_norm_sq(x, counts[i]);
        must(device->row->alloc(device, 4 * counts[i], &there[i]));
        must(device->row->upload(device, SL_STREAM_COMPUTE, there[i], x, 4 * counts[i]));
        must(device->row->sync(device, SL_STREAM_COMPUTE));
        free(x);
        items[i] = (struct sl_norm_item){there[i], counts[i], &got[i]};
    }
    must(device->row->norm_sq(device, items, SL_COUNT(counts)));
    for (int i = 0; i < SL_COUNT(counts); i++) {
        if (got[i] != want[i])
            fail_msg("%s: the norm of %lld elements is %.17g, not %.17g", device->row->name,
                     (long long)counts[i], got[i], want[i]);
        device->row->free(device, there[i]);
    }
}

static void norms_are_canonical(void **state) {
    (void)state;
    for_each(try_norms);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_the_bits_of_the_rules),
        cmocka_unit_test(norms_are_canonical),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
