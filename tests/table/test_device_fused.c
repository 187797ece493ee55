/* Fused kernels of every device of this machine: those of products against the CPU's,
 * layernorm_grad and cross_entropy_grad against the kernels that they replace.
 */
#include "base/rng.h"
#include "each_device.h"
#include "op/registry.h"
#include "pass/fused.h"

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
        for (int64_t j = 0; j < sl_op_numel(&array.shape); j++)
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
                if (fused[i].sums) { /* as the pass creates them */
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
        for (int i = 0; i < SL_COUNT(device_dtypes); i++)
            if (sl_device_takes(row, device_dtypes[i]))
                try_fused(device, cpu, device_dtypes[i]);
        device->row->close(device);
    }
    cpu->row->close(cpu);
    assert_int_equal(bench_failures, 0);
}

/* ---- layernorm_grad: close to the reference, bits of the three kernels it replaces ---- */

enum { R = 5, E }; /* the inputs that are added to dx and to dy */

static struct sl_shape norm_shape(int which, int64_t rows, int64_t n) {
    return which < 2 || which >= R ? SL_SHAPE(2, 0, rows, n)
           : which == 2            ? SL_SHAPE(1, 0, n)
                                   : SL_SHAPE(1, 0, rows);
}

static void open_norm(struct bench *b, int64_t rows, int64_t n, enum sl_dtype dtype, bool sum) {
    int count = sum ? R + 1 : R;
    *b = (struct bench){.instr = {.op = sl_op_find(sl_str("layernorm_dx")),
                                  .kernel = SL_FUSED_LAYERNORM_GRAD,
                                  .in_count = count,
                                  .out_count = 3,
                                  .accumulate = true}};
    b->ref = (struct sl_ref){.samples = 1, .in_count = count, .out_count = 3};
    for (int i = 0; i < count; i++) {
        struct sl_array array = bench_array(norm_shape(i, rows, n), false);
        for (int64_t j = 0; j < sl_op_numel(&array.shape); j++)
            array.f[j] = sl_rng_uniform(SEED, (uint64_t)i, (uint64_t)j) - (i == 4 ? -0.5 : 0.5);
        bench_take_input(b, i, &array, i < 2 || i >= R ? dtype : SL_FLOAT);
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
    for (int64_t j = 0; sum && j < rows * n; j++)
        b->ref.out[0].f[j] += b->ref.in[R].f[j];
}

/* One of the three kernels on the same inputs; its output `out` must have the same bits. */
static void try_apart(struct bench *b, const struct bench_where *at, const char *kernel, int out,
                      const char *global_step) {
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
    if (memcmp(work + result.offset, global_step + result.offset,
               (size_t)sl_pass_operand_bytes(&result)) != 0) {
        bench_failures++;
        print_error("%s: layernorm_grad and %s differ in bits\n", at->device->row->name, kernel);
    }
    free(work);
}

static void same_bits(const struct bench_where *at, const struct sl_operand *one, const char *work,
                      const struct sl_operand *other, const char *other_work, const char *what) {
    if (memcmp(work + one->offset, other_work + other->offset,
               (size_t)sl_pass_operand_bytes(one)) == 0)
        return;
    bench_failures++;
    print_error("%s, %s: %s, %s: other bits\n", at->device->row->name, bench_dtypes[at->dtype],
                at->op, what);
}

/* The values of an operand after a run. */
static struct sl_array taken(const struct sl_operand *operand, const char *work) {
    struct sl_array array = bench_array(operand->shape, false);
    for (int64_t j = 0; j < operand->numel; j++)
        array.f[j] = bench_load(work + operand->offset, operand->dtype, j);
    return array;
}

/* With another gradient r added to dx: same bits as a separate add, also if dx overwrites r. alone:
 * without it. */
static void try_norm_sum(struct bench *b, const struct bench_where *at, const char *alone) {
    struct bench sum, add = {.instr = {.op = sl_op_find(sl_str("add")),
                                       .kernel = "add",
                                       .in_count = 2,
                                       .out_count = 1}};
    open_norm(&sum, b->out[0].shape.dim[0], b->out[0].shape.dim[1], at->dtype, true);
    struct sl_array in[] = {taken(&b->out[0], alone), sum.ref.in[R]};
    add.ref = (struct sl_ref){.samples = 1, .in_count = 2};
    for (int i = 0; i < 2; i++)
        bench_take_input(&add, i, &in[i], at->dtype);
    add.out[0] = bench_operand(&add, b->out[0].shape, at->dtype);
    add.instr.in = add.in;
    add.instr.out = add.out;
    char *added = bench_run(&add, at->device, at->dtype, BENCH_PLAIN);
    for (int over = 0; over < 2; over++) {
        char *work = bench_run(&sum, at->device, at->dtype, over ? R : BENCH_PLAIN);
        bench_judge(&sum, work, 0, "with a sum", at);
        same_bits(at, &sum.out[0], work, &add.out[0], added, "with a sum and before it");
        for (int i = 1; i < 3; i++)
            same_bits(at, &sum.out[i], work, &b->out[i], alone, "with a sum and without");
        free(work);
    }
    free(added);
    free(in[0].f);
    bench_close(&add);
    bench_close(&sum);
}

/* dy as a sum of two: same bits as a separate add, also if dx overwrites the second. */
static void try_norm_parts(const struct bench_where *at, int64_t rows, int64_t n) {
    struct bench whole, parts,
        add = {
            .instr = {
                .op = sl_op_find(sl_str("add")), .kernel = "add", .in_count = 2, .out_count = 1}};
    open_norm(&whole, rows, n, at->dtype, true);
    open_norm(&parts, rows, n, at->dtype, true);
    struct sl_array second = bench_array(norm_shape(E, rows, n), false);
    for (int64_t j = 0; j < rows * n; j++)
        second.f[j] = sl_rng_uniform(SEED, E, (uint64_t)j) - 0.5;
    bench_take_input(&parts, E, &second, at->dtype);
    parts.instr.in_count = parts.ref.in_count = E + 1;
    add.ref = (struct sl_ref){.samples = 1, .in_count = 2};
    bench_take_input(&add, 0, &parts.ref.in[0], at->dtype);
    bench_take_input(&add, 1, &parts.ref.in[E], at->dtype);
    add.out[0] = bench_operand(&add, parts.in[0].shape, at->dtype);
    add.instr.in = add.in;
    add.instr.out = add.out;
    char *added = bench_run(&add, at->device, at->dtype, BENCH_PLAIN);
    struct sl_array dy = taken(&add.out[0], added);
    free(whole.ref.in[0].f);
    free(whole.memory[0]);
    bench_take_input(&whole, 0, &dy, at->dtype);
    char *once = bench_run(&whole, at->device, at->dtype, BENCH_PLAIN);
    for (int over = 0; over < 2; over++) {
        char *work = bench_run(&parts, at->device, at->dtype, over ? E : BENCH_PLAIN);
        for (int i = 0; i < 3; i++)
            same_bits(at, &parts.out[i], work, &whole.out[i], once, "of dy in two parts");
        free(work);
    }
    free(once);
    free(added);
    free(dy.f);
    free(second.f);
    bench_close(&add);
    bench_close(&whole);
    bench_close(&parts);
}

static void try_norm_grad(struct sl_device *device, enum sl_dtype dtype) {
    static const int64_t sizes[][2] = {{1, 8},      {37, 131},  {300, 264}, {129, 768},  {70, 1024},
                                       {20001, 40}, {33, 1280}, {41, 2048}, {70, 3072},  {9, 4096},
                                       {7, 5120},   {5, 8192},  {3, 8200},  {2100, 1288}};
    for (int s = 0; s < SL_COUNT(sizes); s++) {
        struct bench b;
        struct bench_where at = {"layernorm_grad", "fused", device, dtype, sizes[s][0]};
        open_norm(&b, sizes[s][0], sizes[s][1], dtype, false);
        char *work = bench_run(&b, device, dtype, BENCH_PLAIN);
        bench_judge(&b, work, 0, "fused", &at);
        try_apart(&b, &at, "layernorm_dx", 0, work);
        try_apart(&b, &at, "layernorm_dw", 1, work);
        try_apart(&b, &at, "sum_to", 2, work);
        try_norm_sum(&b, &at, work);
        try_norm_parts(&at, sizes[s][0], sizes[s][1]);
        free(work);
        bench_close(&b);
    }
}

static void layernorm_grad_is_the_three_it_stands_for(void **state) {
    (void)state;
    on_each_device(SL_FUSED_LAYERNORM_GRAD, try_norm_grad);
}

/* ---- cross_entropy_grad: close to the reference, bits of the two kernels it replaces ---- */

struct entropy {
    int64_t rows, n;
    double smoothing;
};

static struct sl_array entropy_input(int which, const struct entropy *z) {
    struct sl_shape shapes[] = {SL_SHAPE(2, 0, z->rows, z->n), SL_SHAPE(1, 0, z->rows), {0}};
    struct sl_array array = bench_array(shapes[which], which == 1);
    for (int64_t j = 0; j < sl_op_numel(&shapes[which]); j++) {
        double drawn = sl_rng_uniform(SEED, (uint64_t)which, (uint64_t)j);
        if (which == 1)
            array.i[j] = j % 5 == 3 ? -100 : (int32_t)(drawn * (double)z->n);
        else
            array.f[j] = which ? 0.5 + drawn : 8 * drawn - 4;
    }
    return array;
}

/* A kernel with these inputs and no outputs yet. */
static void open_kernel(struct bench *b, const char *kernel, const union sl_attr *attr,
                        const struct sl_array *in, const enum sl_dtype *types, int in_count) {
    *b = (struct bench){.instr = {.kernel = kernel, .attr = attr, .in_count = in_count}};
    b->ref = (struct sl_ref){.attr = attr, .samples = 1, .in_count = in_count};
    b->instr.op = sl_op_find(sl_str(strcmp(kernel, "cross_entropy_dx") ? "cross_entropy" : kernel));
    b->instr.in = b->in;
    b->instr.out = b->out;
    for (int i = 0; i < in_count; i++)
        bench_take_input(b, i, &in[i], types[i]);
}

static void give_output(struct bench *b, struct sl_shape shape, enum sl_dtype dtype) {
    int i = b->instr.out_count++;
    b->ref.out[i] = bench_array(shape, false);
    b->ref.out_count = b->instr.out_count;
    b->out[i] = bench_operand(b, shape, dtype);
}

static void refer_entropy(struct bench *b) {
    struct sl_ref loss = {.attr = b->ref.attr, .in_count = 2, .out_count = 2};
    struct sl_ref dx = {.attr = b->ref.attr, .in_count = 4, .out_count = 1};
    loss.in[0] = dx.in[1] = b->ref.in[0];
    loss.in[1] = dx.in[2] = b->ref.in[1];
    dx.in[0] = b->ref.in[2];
    loss.out[0] = b->ref.out[1];
    loss.out[1] = dx.in[3] = b->ref.out[2];
    dx.out[0] = b->ref.out[0];
    sl_op_find(sl_str("cross_entropy"))->ref(&loss);
    sl_op_find(sl_str("cross_entropy_dx"))->ref(&dx);
}

static void try_entropy(struct sl_device *device, enum sl_dtype dtype, const struct entropy *z) {
    struct bench_where at = {"cross_entropy_grad", "fused", device, dtype, z->rows};
    union sl_attr attr[2] = {{.i = -100}, {.f = z->smoothing}};
    struct sl_array x = entropy_input(0, z), t = entropy_input(1, z), seed = entropy_input(2, z);
    struct sl_shape scalar = {0};
    struct bench both, loss, dx;
    open_kernel(&both, SL_FUSED_CROSS_ENTROPY_GRAD, attr, (struct sl_array[]){x, t, seed},
                (enum sl_dtype[]){dtype, SL_INT, SL_FLOAT}, 3);
    give_output(&both, x.shape, dtype);
    give_output(&both, scalar, SL_FLOAT);
    give_output(&both, t.shape, SL_FLOAT);
    refer_entropy(&both);
    char *work = bench_run(&both, device, dtype, BENCH_PLAIN);
    bench_judge(&both, work, 0, "fused", &at);
    char *over = bench_run(&both, device, dtype, 0);
    for (int i = 0; i < 3; i++)
        same_bits(&at, &both.out[i], work, &both.out[i], over, "in place");
    open_kernel(&loss, "cross_entropy", attr, (struct sl_array[]){x, t},
                (enum sl_dtype[]){dtype, SL_INT}, 2);
    give_output(&loss, scalar, SL_FLOAT);
    give_output(&loss, t.shape, SL_FLOAT);
    char *loss_work = bench_run(&loss, device, dtype, BENCH_PLAIN);
    struct sl_array lse = taken(&loss.out[1], loss_work);
    open_kernel(&dx, "cross_entropy_dx", attr, (struct sl_array[]){seed, x, t, lse},
                (enum sl_dtype[]){SL_FLOAT, dtype, SL_INT, SL_FLOAT}, 4);
    give_output(&dx, x.shape, dtype);
    char *dx_work = bench_run(&dx, device, dtype, BENCH_PLAIN);
    same_bits(&at, &both.out[0], work, &dx.out[0], dx_work, "dx apart");
    same_bits(&at, &both.out[1], work, &loss.out[0], loss_work, "loss apart");
    same_bits(&at, &both.out[2], work, &loss.out[1], loss_work, "lse apart");
    void *all[] = {work, over, loss_work, dx_work, x.f, t.i, seed.f, lse.f};
    for (int i = 0; i < SL_COUNT(all); i++)
        free(all[i]);
    bench_close(&both);
    bench_close(&loss);
    bench_close(&dx);
}

static void try_entropies(struct sl_device *device, enum sl_dtype dtype) {
    static const struct entropy sizes[] = {{5, 7, 0},     {37, 131, 0.1},  {9, 1000, 0},
                                           {5, 50304, 0}, {6, 30522, 0.1}, {3, 120001, 0}};
    for (int i = 0; i < SL_COUNT(sizes); i++)
        try_entropy(device, dtype, &sizes[i]);
}

static void cross_entropy_grad_is_the_two_it_stands_for(void **state) {
    (void)state;
    on_each_device(SL_FUSED_CROSS_ENTROPY_GRAD, try_entropies);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_kernels_agree_with_the_cpu),
        cmocka_unit_test(layernorm_grad_is_the_three_it_stands_for),
        cmocka_unit_test(cross_entropy_grad_is_the_two_it_stands_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
