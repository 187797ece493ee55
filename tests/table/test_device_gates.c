/* Fused kernels that recompute or join what other kernels compute apart, on every device of this
 * machine that has them: the same bits, also in place.
 *
 *   rmsnorm_grad                rmsnorm_dx, rmsnorm_dw, add
 *   silu_mul, gelu_mul          silu or gelu, mul
 *   silu_mul_grad, ...          mul, mul, silu_dx or gelu_dx
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

enum { SEED = 91, MOST = 6 };

/* A kernel, its operands and what it computed. */
struct run {
    struct bench b;
    union sl_attr attr[1];
    char *work;
};

static struct sl_array drawn(int which, struct sl_shape shape, double from) {
    struct sl_array array = bench_array(shape, false);
    for (int64_t j = 0; j < sl_op_numel(&shape); j++)
        array.f[j] = 4 * sl_rng_uniform(SEED, (uint64_t)which, (uint64_t)j) + from;
    return array;
}

/* The values of an output. */
static struct sl_array taken(const struct run *r, int out) {
    struct sl_array array = bench_array(r->b.out[out].shape, false);
    for (int64_t j = 0; j < r->b.out[out].numel; j++)
        array.f[j] = bench_load(r->work + r->b.out[out].offset, r->b.out[out].dtype, j);
    return array;
}

struct operands {
    const char *op, *kernel;
    int in_count, out_count, over; /* over: the input that output 0 lies on, or BENCH_PLAIN */
    int64_t approx;
    const struct sl_array *in[MOST];
    enum sl_dtype in_type[MOST], out_type[3];
    struct sl_shape out[3];
};

static void run(struct run *r, struct sl_device *device, enum sl_dtype dtype,
                const struct operands *o) {
    *r = (struct run){.attr = {{.i = o->approx}}};
    r->b = (struct bench){.instr = {.op = sl_op_find(sl_str(o->op)),
                                    .kernel = o->kernel,
                                    .attr = r->attr,
                                    .in_count = o->in_count,
                                    .out_count = o->out_count}};
    r->b.ref = (struct sl_ref){
        .samples = 1, .in_count = o->in_count, .out_count = o->out_count, .attr = r->attr};
    r->b.instr.in = r->b.in;
    r->b.instr.out = r->b.out;
    for (int i = 0; i < o->in_count; i++)
        if (o->in[i])
            bench_take_input(&r->b, i, o->in[i], o->in_type[i]);
    for (int i = 0; i < o->out_count; i++) {
        r->b.out[i] = bench_operand(&r->b, o->out[i], o->out_type[i]);
        r->b.ref.out[i] = bench_array(o->out[i], false);
    }
    r->work = bench_run(&r->b, device, dtype, o->over);
}

static void end(struct run *r) {
    free(r->work);
    bench_close(&r->b);
}

static void same(const struct run *a, int i, const struct run *b, int j, const char *what,
                 enum sl_dtype dtype) {
    if (memcmp(a->work + a->b.out[i].offset, b->work + b->b.out[j].offset,
               (size_t)sl_pass_operand_bytes(&a->b.out[i])) == 0)
        return;
    bench_failures++;
    print_error("%s: %s and %s, %s, %lld elements: other bits\n", what, a->b.instr.kernel,
                b->b.instr.kernel, bench_dtypes[dtype], (long long)a->b.out[i].numel);
}

static void add(struct run *r, struct sl_device *device, enum sl_dtype t, const struct sl_array *a,
                const struct sl_array *b) {
    struct operands o = {"add", "add", 2, 1, BENCH_PLAIN, 0, {a, b}, {t, t}, {t}, {a->shape}};
    run(r, device, t, &o);
}

/* ---- rmsnorm_grad ---- */

enum { DY, X, RSTD, W, R, E };

struct norm {
    struct sl_device *device;
    enum sl_dtype t;
    struct sl_array in[MOST];
    struct sl_shape rows, weights;
};

static void joined(struct run *r, const struct norm *z, const struct sl_array *dy, bool with_r,
                   bool with_e, int over) {
    struct operands o = {"rmsnorm_dx",
                         SL_FUSED_RMSNORM_GRAD,
                         with_e ? 6 : 5,
                         2,
                         over,
                         0,
                         {dy, &z->in[X], &z->in[RSTD], &z->in[W], with_r ? &z->in[R] : NULL,
                          with_e ? &z->in[E] : NULL},
                         {z->t, z->t, SL_FLOAT, SL_FLOAT, z->t, z->t},
                         {z->t, SL_FLOAT},
                         {z->rows, z->weights}};
    if (!with_r && !with_e)
        o.in_count = 4;
    run(r, z->device, z->t, &o);
}

static void judge(struct run *r, const struct norm *z) {
    struct sl_ref dx = {.in_count = 4, .out_count = 1}, dw = {.in_count = 3, .out_count = 1};
    struct bench_where at = {SL_FUSED_RMSNORM_GRAD, "fused", z->device, z->t, z->rows.dim[0]};
    memcpy(dx.in, r->b.ref.in, 4 * sizeof *dx.in);
    memcpy(dw.in, r->b.ref.in, 3 * sizeof *dw.in);
    dx.out[0] = r->b.ref.out[0];
    dw.out[0] = r->b.ref.out[1];
    sl_op_find(sl_str("rmsnorm_dx"))->ref(&dx);
    sl_op_find(sl_str("rmsnorm_dw"))->ref(&dw);
    bench_judge(&r->b, r->work, 0, "fused", &at);
}

static void try_rows(const struct norm *z) {
    struct run dx, dw, sum, more, whole, fused;
    struct operands of_dx = {"rmsnorm_dx",
                             "rmsnorm_dx",
                             4,
                             1,
                             BENCH_PLAIN,
                             0,
                             {&z->in[DY], &z->in[X], &z->in[RSTD], &z->in[W]},
                             {z->t, z->t, SL_FLOAT, SL_FLOAT},
                             {z->t},
                             {z->rows}};
    struct operands of_dw = {"rmsnorm_dw",
                             "rmsnorm_dw",
                             3,
                             1,
                             BENCH_PLAIN,
                             0,
                             {&z->in[DY], &z->in[X], &z->in[RSTD]},
                             {z->t, z->t, SL_FLOAT},
                             {SL_FLOAT},
                             {z->weights}};
    run(&dx, z->device, z->t, &of_dx);
    run(&dw, z->device, z->t, &of_dw);
    for (int over = BENCH_PLAIN; over <= X; over++) {
        joined(&fused, z, &z->in[DY], false, false, over);
        if (over == BENCH_PLAIN)
            judge(&fused, z);
        same(&fused, 0, &dx, 0, "dx", z->t);
        same(&fused, 1, &dw, 0, "dw", z->t);
        end(&fused);
    }
    struct sl_array alone = taken(&dx, 0);
    add(&sum, z->device, z->t, &alone, &z->in[R]);
    joined(&fused, z, &z->in[DY], true, false, BENCH_PLAIN);
    same(&fused, 0, &sum, 0, "dx + r", z->t);
    same(&fused, 1, &dw, 0, "dw with r", z->t);
    end(&fused);
    add(&more, z->device, z->t, &z->in[DY], &z->in[E]);
    struct sl_array dy = taken(&more, 0);
    for (int with_r = 0; with_r < 2; with_r++) {
        joined(&whole, z, &dy, with_r, false, BENCH_PLAIN);
        joined(&fused, z, &z->in[DY], with_r, true, with_r ? R : BENCH_PLAIN);
        same(&fused, 0, &whole, 0, "dx of dy + e", z->t);
        same(&fused, 1, &whole, 1, "dw of dy + e", z->t);
        end(&whole);
        end(&fused);
    }
    free(alone.f);
    free(dy.f);
    end(&dx);
    end(&dw);
    end(&sum);
    end(&more);
}

static void try_norms(struct sl_device *device, enum sl_dtype dtype) {
    static const int64_t sizes[][2] = {{1, 8},     {37, 131},  {300, 264},  {129, 768},  {70, 1024},
                                       {33, 1280}, {41, 2048}, {70, 3072},  {9, 4096},   {7, 5120},
                                       {5, 8192},  {3, 8200},  {20001, 40}, {2100, 1288}};
    for (int s = 0; s < SL_COUNT(sizes); s++) {
        int64_t n = sizes[s][0], width = sizes[s][1];
        struct sl_shape of_stats = SL_SHAPE(1, 0, n);
        struct norm z = {.device = device,
                         .t = dtype,
                         .rows = SL_SHAPE(2, 0, n, width),
                         .weights = SL_SHAPE(1, 0, width)};
        for (int i = 0; i < MOST; i++)
            z.in[i] = drawn(i,
                            i == RSTD ? of_stats
                            : i == W  ? z.weights
                                      : z.rows,
                            i == RSTD ? 0.5 : -2);
        for (int64_t j = 0; j < n; j++) /* of rows that an rmsnorm made */
            z.in[RSTD].f[j] /= 4;
        try_rows(&z);
        for (int i = 0; i < MOST; i++)
            free(z.in[i].f);
    }
}

/* ---- gates ---- */

struct gate {
    const char *f, *f_dx, *forward, *backward;
    int64_t approx;
};

static void try_gate(const struct gate *z, struct sl_device *device, enum sl_dtype t, int64_t n) {
    struct sl_shape shape = SL_SHAPE(1, 0, n);
    struct sl_array g = drawn(0, shape, -2), u = drawn(1, shape, -2), dh = drawn(2, shape, -2);
    struct run f, h, du, ds, dg, fused;
    struct operands one = {z->f, z->f, 1, 1, BENCH_PLAIN, z->approx, {&g}, {t}, {t}, {shape}};
    run(&f, device, t, &one);
    struct sl_array s = taken(&f, 0);
    struct operands two = {"mul", "mul", 2, 1, BENCH_PLAIN, 0, {&s, &u}, {t, t}, {t}, {shape}};
    run(&h, device, t, &two);
    two.in[0] = &dh;
    run(&ds, device, t, &two);
    two.in[1] = &s;
    run(&du, device, t, &two);
    struct sl_array slope = taken(&ds, 0);
    struct operands back = {z->f_dx,   z->f_dx,      2,      1,   BENCH_PLAIN,
                            z->approx, {&slope, &g}, {t, t}, {t}, {shape}};
    run(&dg, device, t, &back);
    for (int over = BENCH_PLAIN; over < 3; over++) {
        struct operands both = {z->f,      z->forward, 2,      1,   over,
                                z->approx, {&g, &u},   {t, t}, {t}, {shape}};
        struct operands grads = {
            .op = z->f_dx,
            .kernel = z->backward,
            .in_count = 3,
            .out_count = over < 2 ? 2 : 3, /* with or without h */
            .over = over,
            .approx = z->approx,
            .in = {&dh, &g, &u},
            .in_type = {t, t, t},
            .out_type = {t, t, t},
            .out = {shape, shape, shape},
        };
        if (over < 2) {
            run(&fused, device, t, &both);
            same(&fused, 0, &h, 0, "h", t);
            end(&fused);
        }
        run(&fused, device, t, &grads);
        same(&fused, 0, &dg, 0, "dg", t);
        same(&fused, 1, &du, 0, "du", t);
        if (over == 2)
            same(&fused, 2, &h, 0, "h again", t);
        end(&fused);
    }
    struct run *all[] = {&f, &h, &du, &ds, &dg};
    for (int i = 0; i < SL_COUNT(all); i++)
        end(all[i]);
    free(g.f);
    free(u.f);
    free(dh.f);
    free(s.f);
    free(slope.f);
}

static void try_gates(struct sl_device *device, enum sl_dtype dtype) {
    static const struct gate gates[] = {
        {"silu", "silu_dx", SL_FUSED_SILU_MUL, SL_FUSED_SILU_MUL_GRAD, 0},
        {"gelu", "gelu_dx", SL_FUSED_GELU_MUL, SL_FUSED_GELU_MUL_GRAD, 0},
        {"gelu", "gelu_dx", SL_FUSED_GELU_MUL, SL_FUSED_GELU_MUL_GRAD, 1},
    };
    static const int64_t sizes[] = {1, 7, 64, 1003, 70000};
    for (int i = 0; i < SL_COUNT(gates); i++)
        for (int s = 0; s < SL_COUNT(sizes); s++)
            try_gate(&gates[i], device, dtype, sizes[s]);
}

static void rmsnorm_grad_is_what_it_stands_for(void **state) {
    (void)state;
    on_each_device(SL_FUSED_RMSNORM_GRAD, try_norms);
}

static void gates_are_what_they_stand_for(void **state) {
    (void)state;
    on_each_device(SL_FUSED_SILU_MUL, try_gates);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_grad_is_what_it_stands_for),
        cmocka_unit_test(gates_are_what_they_stand_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
