/* The rules against torch.optim: tests/fixtures/optim.safetensors, made by make_optim.py. */
#include "base/safetensors.h"
#include "optim/lr.h"
#include "optim/norm.h"
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

static struct sl_st fixture;

static double *load(const char *name, struct sl_st_tensor *tensor) {
    int64_t index = sl_st_find(&fixture, name);
    if (index < 0)
        fail_msg("no tensor %s in the fixture", name);
    sl_st_get(&fixture, index, tensor);
    assert_int_equal(tensor->dtype, SL_ST_F64);
    double *out = sl_realloc(NULL, (size_t)tensor->size_bytes + 1);
    assert_int_equal(sl_st_read(&fixture, tensor, 0, tensor->size_bytes, out), SL_OK);
    return out;
}

/* Largest difference over the trajectory, relative to the largest weight. */
static double distance(int64_t count, const double *expect, const double *got) {
    double max = 0, size = 1e-30;
    for (int64_t i = 0; i < count; i++) {
        max = fmax(max, fabs(expect[i] - got[i]));
        size = fmax(size, fabs(expect[i]));
    }
    return max / size;
}

struct run {
    struct sl_optim_param param;
    int64_t steps;
    const double *lr, *g, *w; /* of torch */
};

static double run_double(const struct run *run) {
    int64_t n = run->param.count;
    double *all = calloc((size_t)(4 * n), sizeof *all), worst = 0;
    for (int64_t i = 0; i < n; i++)
        all[i] = run->w[i];
    for (int64_t t = 1; t <= run->steps; t++) {
        struct sl_step_ref io = {.t = t,
                                 .lr = run->lr[t - 1],
                                 .scale = 1,
                                 .count = n,
                                 .rows = run->param.shape.dim[0],
                                 .cols = n / run->param.shape.dim[0],
                                 .w = all,
                                 .g = run->g + (t - 1) * n,
                                 .state = {all + n, all + 2 * n},
                                 .delta = all + 3 * n};
        run->param.optim.row->ref(&run->param, &io);
        worst = fmax(worst, distance(n, run->w + t * n, all));
    }
    free(all);
    return worst;
}

static double run_float(const struct run *run) {
    int64_t n = run->param.count;
    float *all = calloc((size_t)(4 * n), sizeof *all);
    double *wide = calloc((size_t)n, sizeof *wide), worst = 0;
    void *scratch = sl_realloc(NULL, (size_t)sl_optim_scratch_bytes(&run->param) + 16);
    for (int64_t i = 0; i < n; i++)
        all[i] = (float)run->w[i];
    for (int64_t t = 1; t <= run->steps; t++) {
        for (int64_t i = 0; i < n; i++)
            all[3 * n + i] = (float)run->g[(t - 1) * n + i];
        struct sl_step_io io = {.count = n,
                                .rows = run->param.shape.dim[0],
                                .cols = n / run->param.shape.dim[0],
                                .w = all,
                                .g = all + 3 * n,
                                .state = {all + n, all + 2 * n},
                                .scratch = scratch};
        struct sl_step_coef coef = sl_optim_coef(&run->param, t, run->lr[t - 1], 1);
        run->param.optim.row->step(&coef, &io);
        for (int64_t i = 0; i < n; i++)
            wide[i] = all[i];
        worst = fmax(worst, distance(n, run->w + t * n, wide));
    }
    free(all);
    free(wide);
    free(scratch);
    return worst;
}

static void trajectories_agree_with_torch(void **state) {
    (void)state;
    int64_t cases;
    double worst_double = 0, worst_float = 0;
    assert_int_equal(sl_parse_int(sl_st_note(&fixture, "cases"), "cases", &cases), SL_OK);
    for (int64_t c = 0; c < cases; c++) {
        char name[32];
        struct sl_optim optim;
        struct sl_st_tensor lr, g, w;
        snprintf(name, sizeof name, "%d.spec", (int)c);
        const char *spec = sl_st_note(&fixture, name);
        if (sl_optim_parse(spec, &optim) != SL_OK)
            fail_msg("%s: %s", spec, sl_err_message());
        snprintf(name, sizeof name, "%d.lr", (int)c);
        double *lr_at = load(name, &lr);
        snprintf(name, sizeof name, "%d.g", (int)c);
        double *g_at = load(name, &g);
        snprintf(name, sizeof name, "%d.w", (int)c);
        double *w_at = load(name, &w);
        struct sl_optim_shape shape = {.rank = w.rank - 1};
        for (int i = 0; i < shape.rank; i++)
            shape.dim[i] = w.dim[i + 1];
        struct run run = {sl_optim_for(&optim, &shape), lr.dim[0], lr_at, g_at, w_at};
        double in_double = run_double(&run), in_float = run_float(&run);
        if (!(in_double <= 1e-6) || !(in_float <= 1e-5))
            fail_msg("%s, rank %d: relative error %g in double, %g in float", spec, shape.rank,
                     in_double, in_float);
        worst_double = fmax(worst_double, in_double);
        worst_float = fmax(worst_float, in_float);
        free(lr_at);
        free(g_at);
        free(w_at);
    }
    printf("count: %d trajectories of torch %s; worst relative error %.2g double, %.2g float\n",
           (int)cases, sl_st_note(&fixture, "torch"), worst_double, worst_float);
}

static double sum_of(const char *name, float *first) {
    struct sl_st_tensor tensor;
    double *wide = load(name, &tensor);
    float *x = sl_realloc(NULL, sizeof *x * (size_t)tensor.dim[0]);
    for (int64_t i = 0; i < tensor.dim[0]; i++)
        x[i] = (float)wide[i];
    double sum = sl_optim_norm_sq(x, tensor.dim[0]);
    *first = x[0];
    free(wide);
    free(x);
    return sum;
}

static void clipping_agrees_with_torch(void **state) {
    (void)state;
    struct sl_st_tensor tensor;
    float first, unused;
    double *norm = load("clip.norm", &tensor), *clipped = load("clip.first", &tensor);
    double sum = sum_of("clip.a", &first);
    sum += sum_of("clip.b", &unused);
    struct sl_norm_verdict verdict = sl_optim_norm_judge(sum, 1, 1.5);
    assert_true(verdict.finite);
    assert_true(fabs(verdict.norm - *norm) <= 1e-12 * *norm);
    assert_true(fabs((double)(first * verdict.scale) - *clipped) <= 1e-6 * fabs(*clipped));
    free(norm);
    free(clipped);
}

static void rates_agree_with_torch(void **state) {
    (void)state;
    static const char *const names[] = {"cosine", "linear"};
    for (int k = 0; k < 2; k++) {
        struct sl_st_tensor tensor;
        struct sl_lr lr;
        char name[32], text[64];
        snprintf(name, sizeof name, "lr.%s", names[k]);
        snprintf(text, sizeof text, "%s:warmup=10,total=100,min=0.1", names[k]);
        double *expect = load(name, &tensor);
        assert_int_equal(sl_optim_lr_parse(text, 0, &lr), SL_OK);
        for (int64_t i = 0; i < tensor.dim[0]; i++)
            if (!(fabs(sl_optim_lr_at(&lr, 0.4, 10 + i) - expect[i]) <= 1e-14))
                fail_msg("%s: lr(%d) = %.17g, torch has %.17g", text, (int)(10 + i),
                         sl_optim_lr_at(&lr, 0.4, 10 + i), expect[i]);
        free(expect);
    }
}

int main(void) {
    if (sl_st_open(SL_TEST_SRC_DIR "/tests/fixtures/optim.safetensors", &fixture) != SL_OK) {
        fprintf(stderr, "%s\n", sl_err_message());
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trajectories_agree_with_torch),
        cmocka_unit_test(clipping_agrees_with_torch),
        cmocka_unit_test(rates_agree_with_torch),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sl_st_close(&fixture);
    return failed;
}
