/* Fused kernels of every device that is here: those of products against the CPU's, layernorm_grad
 * against the three it stands for.
 */
#include "base/rng.h"
#include "device_here.h"
#include "op/registry.h"
#include "pass/fused.h"
#include "support/kernel_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { SEED = 77 };

/* ---- fused kernels against the CPU's ---- */

struct fused {
    const char *kernel;
    int in[4], out[4]; /* kinds of operands, 0: no more */
    bool sums;
};

enum { NOT, A, B, BIAS, Y, ROWS_A, ROWS_B };

static const struct fused fused[] = {
    {"matmul_add", {A, B, BIAS, Y}, {Y}, false},   {"matmul_gelu", {A, B, BIAS}, {Y, Y}, false},
    {"matmul_gelu_dx", {A, B, Y}, {Y}, false},     {"matmul_gelu_erf", {A, B, BIAS}, {Y, Y}, false},
    {"matmul_gelu_erf_dx", {A, B, Y}, {Y}, false}, {"matmul_sum_a", {A, B}, {Y, ROWS_A}, true},
    {"matmul_sum_b", {A, B}, {Y, BIAS}, true},
};

struct sizes {
    int64_t m, n, k;
    bool ta, tb;
};

static struct sl_shape shape_of(int kind, const struct sizes *z) {
    switch (kind) {
    case A: return z->ta ? SL_SHAPE(2, 0, z->k, z->m) : SL_SHAPE(2, 0, z->m, z->k);
    case B: return z->tb ? SL_SHAPE(2, 0, z->n, z->k) : SL_SHAPE(2, 0, z->k, z->n);
    case BIAS: return SL_SHAPE(1, 0, z->n);
    case ROWS_A: return SL_SHAPE(1, 0, z->m);
    default: return SL_SHAPE(2, 0, z->m, z->n);
    }
}

static void open_fused(struct bench *b, const struct fused *f, const struct sizes *z,
                       const union sl_attr *attr, enum sl_dtype dtype) {
    *b = (struct bench){.instr = {.op = sl_op_find(sl_str("matmul")), .kernel = f->kernel}};
    b->ref.samples = 1;
    for (int i = 0; i < 4 && f->in[i]; i++) {
        struct sl_array array = bench_array(shape_of(f->in[i], z), false);
        for (int64_t j = 0; j < sl_numel(&array.shape); j++)
            array.f[j] = sl_rng_uniform(SEED, (uint64_t)i, (uint64_t)j) - 0.5;
        bench_take_input(b, i, &array, dtype);
        free(array.f);
        b->instr.in_count = b->ref.in_count = i + 1;
    }
    for (int i = 0; i < 4 && f->out[i]; i++) {
        b->out[i] = bench_operand(b, shape_of(f->out[i], z), f->sums ? SL_FLOAT : dtype);
        b->ref.out[i] = bench_array(b->out[i].shape, false);
        b->instr.out_count = b->ref.out_count = i + 1;
    }
    b->instr.attr = attr;
    b->instr.in = b->in;
    b->instr.out = b->out;
}

/* The CPU's fp32 result on the same (rounded) inputs is the reference. */
static void refer_to_cpu(struct bench *b, const struct fused *f, const struct sizes *z,
                         const union sl_attr *attr, struct sl_device *cpu) {
    struct bench exact;
    open_fused(&exact, f, z, attr, SL_FLOAT);
    for (int i = 0; i < b->ref.in_count; i++)
        for (int64_t j = 0; j < b->in[i].numel; j++)
            ((float *)exact.memory[i])[j] = (float)b->ref.in[i].f[j];
    char *work = bench_run(&exact, cpu, SL_FLOAT, BENCH_PLAIN);
    for (int i = 0; i < b->ref.out_count; i++)
        for (int64_t j = 0; j < b->out[i].numel; j++)
            b->ref.out[i].f[j] = bench_load(work + exact.out[i].offset, SL_FLOAT, j);
    free(work);
    bench_close(&exact);
}

static void try_fused(struct sl_device *device, struct sl_device *cpu, enum sl_dtype dtype) {
    static const int64_t sizes[][3] = {{31, 53, 397}, {64, 128, 96}, {200, 24, 72}};
    for (int i = 0; i < SL_COUNT(fused); i++)
        for (int s = 0; s < SL_COUNT(sizes); s++)
            for (int sides = 0; sides < 4; sides++) {
                struct sizes z = {sizes[s][0], sizes[s][1], sizes[s][2], sides & 1, sides & 2};
                struct bench_where at = {fused[i].kernel, "fused", device, dtype, s};
                struct bench b;
                if (fused[i].sums) { /* as the pass makes them */
                    z.ta = true;
                    z.tb = false;
                }
                union sl_attr attr[2] = {{.i = z.ta}, {.i = z.tb}};
                open_fused(&b, &fused[i], &z, attr, dtype);
                refer_to_cpu(&b, &fused[i], &z, attr, cpu);
                char *work = bench_run(&b, device, dtype, BENCH_PLAIN);
                bench_judge(&b, work, 0, "fused", &at);
                free(work);
                bench_close(&b);
            }
}

static void fused_kernels_agree_with_the_cpu(void **state) {
    struct sl_device_config config = {.threads = 1};
    struct sl_device *cpu, *device;
    int at = 0;
    (void)state;
    bench_failures = 0;
    bench_must(sl_device_find("cpu")->open(&config, &cpu), "cpu");
    for (const struct sl_device_row *row; (row = next_device(&at));) {
        bench_must(row->open(&config, &device), row->name);
        try_fused(device, cpu, SL_FLOAT);
        if (row->halves)
            try_fused(device, cpu, SL_BF16);
        device->row->close(device);
    }
    cpu->row->close(cpu);
    assert_int_equal(bench_failures, 0);
}

/* ---- layernorm_grad against the three it stands for: near the reference, and their bits ---- */

static struct sl_shape norm_shape(int which, int64_t rows, int64_t n) {
    return which < 2    ? SL_SHAPE(2, 0, rows, n)
           : which == 2 ? SL_SHAPE(1, 0, n)
                        : SL_SHAPE(1, 0, rows);
}

static void open_norm(struct bench *b, int64_t rows, int64_t n, enum sl_dtype dtype) {
    *b = (struct bench){.instr = {.op = sl_op_find(sl_str("layernorm_dx")),
                                  .kernel = SL_FUSED_LAYERNORM_GRAD,
                                  .in_count = 5,
                                  .out_count = 3,
                                  .accumulate = true}};
    b->ref = (struct sl_ref){.samples = 1, .in_count = 5, .out_count = 3};
    for (int i = 0; i < 5; i++) {
        struct sl_array array = bench_array(norm_shape(i, rows, n), false);
        for (int64_t j = 0; j < sl_numel(&array.shape); j++)
            array.f[j] = sl_rng_uniform(SEED, (uint64_t)i, (uint64_t)j) - (i == 4 ? -0.5 : 0.5);
        bench_take_input(b, i, &array, i < 2 ? dtype : SL_FLOAT);
        free(array.f);
    }
    for (int i = 0; i < 3; i++) {
        b->ref.out[i] = bench_array(i ? norm_shape(2, rows, n) : norm_shape(0, rows, n), false);
        b->out[i] = bench_operand(b, b->ref.out[i].shape, i ? SL_FLOAT : dtype);
    }
    b->instr.in = b->in;
    b->instr.out = b->out;
    struct sl_ref dx = {.in_count = 5, .out_count = 1}, dw = {.in_count = 4, .out_count = 1};
    memcpy(dx.in, b->ref.in, sizeof dx.in);
    dx.out[0] = b->ref.out[0];
    dw.out[0] = b->ref.out[1];
    for (int i = 0; i < 4; i++)
        dw.in[i] = b->ref.in[i < 2 ? i : i + 1];
    sl_op_find(sl_str("layernorm_dx"))->ref(&dx);
    sl_op_find(sl_str("layernorm_dw"))->ref(&dw);
    for (int64_t j = 0; j < rows * n; j++)
        b->ref.out[2].f[j % n] = (j < n ? 0 : b->ref.out[2].f[j % n]) + b->ref.in[0].f[j];
}

/* One of the three alone, on the same memory; its output `out` must have the same bits. */
static void try_apart(struct bench *b, const struct bench_where *at, const char *kernel, int out,
                      const char *together) {
    static const int from[3][5] = {{0, 1, 2, 3, 4}, {0, 1, 3, 4}, {0}};
    static const int counts[] = {5, 4, 1};
    struct bench alone = *b;
    union sl_attr attr[1] = {{.shape = b->out[2].shape}};
    alone.instr.op = sl_op_find(sl_str(kernel));
    alone.instr.kernel = kernel;
    alone.instr.attr = attr;
    alone.instr.accumulate = false;
    alone.instr.in_count = counts[out];
    alone.instr.out_count = 1;
    struct sl_operand in[5], result = b->out[out];
    for (int i = 0; i < counts[out]; i++)
        in[i] = b->in[from[out][i]];
    alone.instr.in = in;
    alone.instr.out = &result;
    char *work = bench_run(&alone, at->device, at->dtype, BENCH_PLAIN);
    if (memcmp(work + result.offset, together + result.offset, (size_t)sl_operand_bytes(&result)) !=
        0) {
        bench_failures++;
        print_error("%s: layernorm_grad and %s differ in bits\n", at->device->row->name, kernel);
    }
    free(work);
}

static void try_norm_grad(struct sl_device *device, enum sl_dtype dtype) {
    static const int64_t sizes[][2] = {{1, 8},     {37, 131},  {300, 264},
                                       {129, 768}, {70, 1024}, {20001, 40}};
    for (int s = 0; s < SL_COUNT(sizes); s++) {
        struct bench b;
        struct bench_where at = {"layernorm_grad", "fused", device, dtype, sizes[s][0]};
        open_norm(&b, sizes[s][0], sizes[s][1], dtype);
        char *work = bench_run(&b, device, dtype, BENCH_PLAIN);
        bench_judge(&b, work, 0, "fused", &at);
        try_apart(&b, &at, "layernorm_dx", 0, work);
        try_apart(&b, &at, "layernorm_dw", 1, work);
        try_apart(&b, &at, "sum_to", 2, work);
        free(work);
        bench_close(&b);
    }
}

static void layernorm_grad_is_the_three_it_stands_for(void **state) {
    struct sl_device_config config = {.threads = 1};
    struct sl_device *device;
    int at = 0;
    (void)state;
    bench_failures = 0;
    for (const struct sl_device_row *row; (row = next_device(&at));) {
        if (!row->has_kernel(SL_FUSED_LAYERNORM_GRAD))
            continue;
        bench_must(row->open(&config, &device), row->name);
        try_norm_grad(device, SL_FLOAT);
        if (row->halves)
            try_norm_grad(device, SL_BF16);
        device->row->close(device);
    }
    assert_int_equal(bench_failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_kernels_agree_with_the_cpu),
        cmocka_unit_test(layernorm_grad_is_the_three_it_stands_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
