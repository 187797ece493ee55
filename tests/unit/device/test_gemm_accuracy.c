/* Accuracy of matrix products: error of every element against double, relative to the sum of the
 * absolute values of its terms. The bound is that of a chain of float operations, for every
 * instruction set. Factors span ten powers of ten, so that products of fewer bits fail. Infinities
 * and NaN stay non-finite. */
#include "device/cpu/cpu.h"

#include "base/rng.h"
#include "op/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { SEED = 99, M = 37, N = 45, MAX_K = 1100 };

struct factors {
    int64_t k;
    float a[M * MAX_K], b[MAX_K * N], y[M * N];
};

static float spread(uint64_t stream, int64_t at) {
    double sign = sl_rng_uniform(SEED, stream, (uint64_t)at) - 0.5;
    return (float)(sign * pow(10, 10 * sl_rng_uniform(SEED, stream + 1, (uint64_t)at) - 5));
}

static void fill(struct factors *f, int64_t k) {
    f->k = k;
    for (int64_t i = 0; i < M * k; i++)
        f->a[i] = spread(1, i);
    for (int64_t i = 0; i < k * N; i++)
        f->b[i] = spread(3, i);
}

static const struct sl_device_cpu_kernel *matmul_of(const struct sl_device_cpu_table *table) {
    return sl_device_cpu_table_find(table, "matmul");
}

static void multiply(const struct sl_device_cpu_kernel *kernel, struct factors *f,
                     struct sl_device_pool *pool) {
    union sl_attr attr[2] = {{.i = 0}, {.i = 0}};
    struct sl_operand in[2] = {{.shape = SL_SHAPE(2, 0, M, f->k)},
                               {.shape = SL_SHAPE(2, 0, f->k, N)}};
    struct sl_operand out[1] = {{.shape = SL_SHAPE(2, 0, M, N)}};
    struct sl_instr instr = {.op = sl_op_find(sl_str("matmul")),
                             .kernel = "matmul",
                             .attr = attr,
                             .in_count = 2,
                             .out_count = 1,
                             .in = in,
                             .out = out};
    size_t size = ((size_t)kernel->scratch_bytes(&instr, 1) + 63) / 64 * 64;
    void *scratch = aligned_alloc(64, size);
    struct sl_device_cpu_call call = {
        .instr = &instr, .in = {f->a, f->b}, .out = {f->y}, .pool = pool, .scratch = scratch};
    kernel->run(&call);
    free(scratch);
}

/* The maximum error relative to the sum of absolute terms. */
static double worst(const struct factors *f) {
    double max = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < f->k; k++) {
                double term = (double)f->a[i * f->k + k] * (double)f->b[k * N + j];
                sum += term;
                size += fabs(term);
            }
            max = fmax(max, fabs((double)f->y[i * N + j] - sum) / size);
        }
    return max;
}

/* Half a bit per product and per addition would be k 2^-24; errors of random sign leave about the
 * root of k. Products of 16 bits (two parts of bf16) have errors of 4e-6 and more. */
static void test_every_element(void **state) {
    static struct factors f;
    const int64_t lengths[] = {1, 16, 31, 64, 385, MAX_K};
    for (int t = 0; sl_device_cpu_tables[t]; t++) {
        const struct sl_device_cpu_kernel *kernel = matmul_of(sl_device_cpu_tables[t]);
        for (int i = 0; kernel && i < SL_COUNT(lengths); i++) {
            fill(&f, lengths[i]);
            multiply(kernel, &f, *state);
            double found = worst(&f), bound = 6e-8 * (4 + sqrt((double)f.k) / 2);
            if (!(found <= bound))
                fail_msg("%s k=%d: error %.3g, bound %.3g", sl_device_cpu_tables[t]->isa, (int)f.k,
                         found, bound);
        }
    }
}

/* A non-finite factor affects exactly its row or column. */
static void test_not_finite(void **state) {
    static struct factors f;
    const uint32_t bits[] = {0x7F800000, 0xFF800000, 0x7FC00000,
                             0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001};
    for (int t = 0; sl_device_cpu_tables[t]; t++) {
        const struct sl_device_cpu_kernel *kernel = matmul_of(sl_device_cpu_tables[t]);
        for (int n = 0; kernel && n < 2 * SL_COUNT(bits); n++) {
            bool in_a = n % 2;
            fill(&f, 100);
            memcpy(in_a ? &f.a[5 * 100 + 17] : &f.b[17 * N + 5], &bits[n / 2], sizeof bits[0]);
            multiply(kernel, &f, *state);
            for (int i = 0; i < M * N; i++)
                if ((isfinite(f.y[i]) != 0) == (in_a ? i / N == 5 : i % N == 5))
                    fail_msg("%s: %08x in %s: element %d is %g", sl_device_cpu_tables[t]->isa,
                             bits[n / 2], in_a ? "a" : "b", i, (double)f.y[i]);
        }
    }
}

/* Tiny and denormal factors stay small: their low bf16 part has bits where other parts have none.
 * Row 5 of a, then column 5 of b. */
static void test_tiny(void **state) {
    static struct factors f;
    for (int t = 0; sl_device_cpu_tables[t]; t++) {
        const struct sl_device_cpu_kernel *kernel = matmul_of(sl_device_cpu_tables[t]);
        for (int n = 0; kernel && n < 2; n++) {
            fill(&f, 100);
            for (uint32_t k = 0; k < 100; k++) {
                uint32_t bits = (k % 3 * 0x03000000u) + 0x7F12u + k * 977u; /* 0 to 1e-33 */
                memcpy(n ? &f.b[k * N + 5] : &f.a[5 * 100 + k], &bits, sizeof bits);
            }
            multiply(kernel, &f, *state);
            for (int i = 0; i < M * N; i++)
                if ((n ? i % N == 5 : i / N == 5) && !(fabsf(f.y[i]) < 1e-20f))
                    fail_msg("%s: element %d is %g", sl_device_cpu_tables[t]->isa, i,
                             (double)f.y[i]);
        }
    }
}

/* sl_device_cpu_limit: no better kernel than allowed; the error lists the instruction sets. */
static void test_limit(void **state) {
    (void)state;
    for (int t = 0; sl_device_cpu_tables[t]; t++) {
        const struct sl_device_cpu_kernel *kernel = matmul_of(sl_device_cpu_tables[t]);
        if (!kernel)
            continue;
        assert_int_equal(sl_device_cpu_limit(sl_device_cpu_tables[t]->isa), SL_OK);
        assert_ptr_equal(sl_device_cpu_find("matmul"), kernel);
    }
    assert_int_equal(sl_device_cpu_limit("sse9"), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "'sse9'"));
    assert_int_equal(sl_device_cpu_limit(NULL), SL_OK);
}

static int setup(void **state) {
    static struct sl_device_pool *pool;
    if (sl_device_pool_open(1, &pool) != SL_OK)
        return 1;
    *state = pool;
    return 0;
}

static int teardown(void **state) {
    sl_device_pool_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_element),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
