/* Functions of device/cpu/vec_math.h through the kernels that use them: relative errors over dense
 * sweeps, infinities and NaN; for every instruction set of this machine. */
#include "device/cpu/cpu.h"
#include "op/registry.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 200003 };

struct sweep {
    const char *kernel;
    union sl_attr attr[1];
    double low, high;
    double (*exact)(double x);
    double tolerance;
};

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus_of_minus(double x) { return log1p(exp(-x)) - x; } /* weight 2 of positives */
static double selu(double x) {
    return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * expm1(x));
}
static double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double silu(double x) { return x * sigmoid(x); }

/* gelu by erf: the error of erf plus two roundings. */
static const struct sweep sweeps[] = {
    {"exp", {{0}}, -87.3, 88.7, exp, 2e-7},
    {"exp", {{0}}, -0.01, 0.01, exp, 2e-7},
    {"tanh", {{0}}, -11, 11, tanh, 2e-7},
    {"tanh", {{0}}, -1e-3, 1e-3, tanh, 2e-7},
    {"sigmoid", {{0}}, -86, 86, sigmoid, 2.5e-7},
    {"silu", {{0}}, -80, 80, silu, 3e-7},
    {"selu", {{0}}, -20, 20, selu, 4e-7},
    {"selu", {{0}}, -1e-3, 1e-3, selu, 4e-7},
    {"gelu", {{.i = 1}}, 0, 9, gelu, 2e-7},
    {"bce_with_logits_dt", {{.f = 2}}, -60, 0, softplus_of_minus, 3e-7},
};

static void run(const struct sl_device_cpu_kernel *kernel, const union sl_attr *attr, float *y,
                const float *x, int64_t count) {
    struct sl_operand shape = {.shape = {.rank = 1, .dim = {count}}, .numel = count};
    struct sl_operand in[2] = {{.numel = 1}, shape};
    float each = (float)count; /* bce: cancels the division by the count */
    struct sl_instr instr = {.attr = attr, .in_count = 2, .out_count = 1, .in = in, .out = &shape};
    struct sl_device_cpu_call call = {.instr = &instr, .out = {y}};
    bool is_loss = strncmp(kernel->name, "bce", 3) == 0;
    call.in[0] = is_loss ? &each : x;
    call.in[1] = x;
    if (!is_loss)
        in[0] = shape;
    if (sl_device_pool_open(1, &call.pool) != SL_OK)
        fail_msg("%s", sl_err_message());
    kernel->run(&call);
    sl_device_pool_close(call.pool);
}

static void check_sweep(const struct sl_device_cpu_table *table, const struct sweep *s) {
    const struct sl_device_cpu_kernel *kernel = sl_device_cpu_table_find(table, s->kernel);
    if (!kernel)
        return;
    float *x = sl_realloc(NULL, sizeof *x * COUNT), *y = sl_realloc(NULL, sizeof *y * COUNT);
    double worst = 0, where = 0;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(s->low + (s->high - s->low) * (i + 0.5) / COUNT);
    run(kernel, s->attr, y, x, COUNT);
    for (int i = 0; i < COUNT; i++) {
        double want = s->exact((double)x[i]), off = fabs((double)y[i] - want) / fabs(want);
        if (!(off <= worst)) {
            worst = off;
            where = (double)x[i];
        }
    }
    print_message("%-7s %-20s [%g, %g]: %.2g\n", table->isa, s->kernel, s->low, s->high, worst);
    if (!(worst <= s->tolerance))
        fail_msg("%s, %s at %.9g: relative error %.3g", table->isa, s->kernel, where, worst);
    free(x);
    free(y);
}

static void functions_are_exact_enough(void **state) {
    (void)state;
    for (int t = 0; sl_device_cpu_tables[t]; t++)
        for (int i = 0; i < SL_COUNT(sweeps); i++)
            check_sweep(sl_device_cpu_tables[t], &sweeps[i]);
}

static void limits_are_kept(void **state) {
    (void)state;
    static const float x[5] = {INFINITY, -INFINITY, NAN, 0.0f, -200.0f};
    static const struct {
        const char *kernel;
        float y[4]; /* expected, without NaN */
    } rows[] = {
        {"exp", {INFINITY, 0, 1, 0}},
        {"tanh", {1, -1, 0, -1}},
        {"sigmoid", {1, 0, 0.5f, 0}},
        {"relu", {INFINITY, 0, 0, 0}},
    };
    for (int t = 0; sl_device_cpu_tables[t]; t++)
        for (int i = 0; i < SL_COUNT(rows); i++) {
            const struct sl_device_cpu_kernel *kernel =
                sl_device_cpu_table_find(sl_device_cpu_tables[t], rows[i].kernel);
            float y[5];
            if (!kernel)
                continue;
            run(kernel, NULL, y, x, 5);
            assert_true(isnan(y[2]));
            assert_true(y[0] == rows[i].y[0] && fabsf(y[1] - rows[i].y[1]) < 1e-37f);
            assert_true(y[3] == rows[i].y[2] && fabsf(y[4] - rows[i].y[3]) < 1e-37f);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_exact_enough),
        cmocka_unit_test(limits_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
