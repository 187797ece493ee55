/* Convolutions against plain loops in double: wide enough for AMX and narrow ones, more images than
 * fit into a group. 1 to 3 threads give the same bits. Scratch has exactly the required size. */
#include "device/cpu/cpu.h"

#include "base/rng.h"
#include "op/registry.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_THREADS = 3 };

struct conv_case {
    int64_t b, c, size, o, k, stride, pad, groups;
    bool bias, add;
};

static const struct conv_case cases[] = {
    {.b = 5, .c = 6, .size = 20, .o = 98, .k = 3, .stride = 1, .pad = 1, .groups = 1, .bias = true},
    {.b = 7, .c = 97, .size = 17, .o = 5, .k = 3, .stride = 1, .pad = 1, .groups = 1, .add = true},
    {.b = 9, .c = 4, .size = 15, .o = 100, .k = 3, .stride = 2, .pad = 1, .groups = 1, .add = true},
    {.b = 2, .c = 98, .size = 4, .o = 196, .k = 1, .stride = 1, .groups = 2, .bias = true},
    {.b = 7, .c = 26, .size = 9, .o = 40, .k = 3, .stride = 2, .pad = 1, .groups = 2, .add = true},
    {.b = 11, .c = 9, .size = 13, .o = 12, .k = 3, .stride = 1, .pad = 1, .groups = 3},
};

struct tensor {
    struct sl_shape shape;
    int64_t numel;
    float *at;
};

static struct tensor tensor_of(struct sl_shape shape, uint64_t stream) {
    struct tensor t = {.shape = shape, .numel = sl_graph_shape_numel(&shape, 1)};
    t.at = sl_realloc(NULL, sizeof *t.at * (size_t)t.numel);
    for (int64_t i = 0; i < t.numel; i++)
        t.at[i] = (float)sl_rng_uniform(7, stream, (uint64_t)i) - 0.5f;
    return t;
}

/* x, w, y and bias, all random; one of them becomes the result. */
struct sides {
    struct tensor x, w, y, bias;
};

static struct sides sides_of(const struct conv_case *v) {
    int64_t out = (v->size + 2 * v->pad - v->k) / v->stride + 1;
    return (struct sides){
        .x = tensor_of(SL_SHAPE(4, 0, v->b, v->c, v->size, v->size), 1),
        .w = tensor_of(SL_SHAPE(4, 0, v->o, v->c / v->groups, v->k, v->k), 2),
        .y = tensor_of(SL_SHAPE(4, 0, v->b, v->o, out, out), 3),
        .bias = tensor_of(SL_SHAPE(1, 0, v->o), 4),
    };
}

static void free_sides(struct sides *s) {
    free(s->x.at);
    free(s->w.at);
    free(s->y.at);
    free(s->bias.at);
}

enum which { FORWARD, DX, DW };
static const char *const kernels[] = {"conv2d", "conv2d_dx", "conv2d_dw"};

static struct tensor *result_of(struct sides *s, enum which which) {
    return which == FORWARD ? &s->y : which == DX ? &s->x : &s->w;
}

static void run(const struct sl_device_cpu_kernel *kernel, const struct conv_case *v,
                enum which which, struct sides *s, struct sl_device_pool *pool) {
    struct tensor *in[3] = {which == FORWARD ? &s->x : &s->y, which == DW ? &s->x : &s->w,
                            which == FORWARD && v->bias ? &s->bias : NULL};
    struct tensor *out = result_of(s, which);
    struct sl_operand operand[4] = {{0}};
    union sl_attr attr[4] = {{0}};
    struct sl_instr instr = {.kernel = kernel->name,
                             .attr = attr,
                             .in = operand,
                             .out = &operand[3],
                             .in_count = which == FORWARD ? 3 : 2,
                             .out_count = 1};
    struct sl_device_cpu_call call = {
        .instr = &instr, .out = {out->at}, .pool = pool, .add = v->add};
    attr[0].ints = (struct sl_ints){2, {v->stride, v->stride}};
    attr[1].ints = (struct sl_ints){2, {v->pad, v->pad}};
    attr[2].ints = (struct sl_ints){2, {1, 1}};
    attr[3].i = v->groups;
    for (int i = 0; i < 3 && in[i]; i++) {
        operand[i].shape = in[i]->shape;
        call.in[i] = in[i]->at;
    }
    operand[3].shape = out->shape;
    size_t size = (size_t)kernel->scratch_bytes(&instr, sl_device_pool_threads(pool));
    call.scratch = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_non_null(call.scratch);
    for (size_t i = 0; i < size / 4; i++) /* NaN; as an index, out of range */
        ((uint32_t *)call.scratch)[i] = 0x7fc00000;
    kernel->run(&call);
    free(call.scratch);
}

/* The result in double: adds every tap of every pixel. */
static void add_taps(const struct conv_case *v, enum which which, const struct sides *s,
                     const int64_t at[4], double *want) {
    const int64_t *y = s->y.shape.dim, cg = v->c / v->groups;
    int64_t pixel = ((at[0] * y[1] + at[1]) * y[2] + at[2]) * y[3] + at[3];
    for (int64_t c = 0; c < cg; c++)
        for (int64_t r = 0; r < v->k; r++)
            for (int64_t q = 0; q < v->k; q++) {
                int64_t row = at[2] * v->stride + r - v->pad, col = at[3] * v->stride + q - v->pad;
                if (row < 0 || row >= v->size || col < 0 || col >= v->size)
                    continue;
                int64_t channel = at[1] / (v->o / v->groups) * cg + c;
                int64_t x = ((at[0] * v->c + channel) * v->size + row) * v->size + col;
                int64_t w = ((at[1] * cg + c) * v->k + r) * v->k + q;
                if (which == FORWARD)
                    want[pixel] += (double)s->x.at[x] * (double)s->w.at[w];
                else if (which == DX)
                    want[x] += (double)s->y.at[pixel] * (double)s->w.at[w];
                else
                    want[w] += (double)s->y.at[pixel] * (double)s->x.at[x];
            }
}

static double *expected(const struct conv_case *v, enum which which, struct sides *s) {
    const int64_t *y = s->y.shape.dim;
    const struct tensor *out = result_of(s, which);
    double *want = sl_realloc(NULL, sizeof *want * (size_t)out->numel);
    for (int64_t i = 0; i < out->numel; i++) {
        want[i] = v->add ? (double)out->at[i] : 0;
        if (which == FORWARD && v->bias)
            want[i] += (double)s->bias.at[i / (y[2] * y[3]) % y[1]];
    }
    for (int64_t i = 0; i < s->y.numel; i++)
        add_taps(v, which, s,
                 (int64_t[]){i / (y[1] * y[2] * y[3]), i / (y[2] * y[3]) % y[1], i / y[3] % y[2],
                             i % y[3]},
                 want);
    return want;
}

static void check(const struct tensor *got, const double *want, const char *kernel,
                  const char *isa) {
    double off = 0, size = 0;
    for (int64_t i = 0; i < got->numel; i++) {
        off += pow((double)got->at[i] - want[i], 2);
        size += want[i] * want[i];
    }
    if (!(off <= 1e-11 * size))
        fail_msg("%s %s is off by %.3g", isa, kernel, sqrt(off / size));
}

static void try_case(const struct conv_case *v, enum which which,
                     struct sl_device_pool *const pools[]) {
    struct sides start = sides_of(v);
    double *want = expected(v, which, &start);
    for (int t = 0; sl_device_cpu_tables[t]; t++) {
        const struct sl_device_cpu_kernel *kernel =
            sl_device_cpu_table_find(sl_device_cpu_tables[t], kernels[which]);
        if (!kernel)
            continue;
        struct sides first = sides_of(v);
        run(kernel, v, which, &first, pools[0]);
        check(result_of(&first, which), want, kernels[which], sl_device_cpu_tables[t]->isa);
        for (int threads = 2; threads <= MAX_THREADS; threads++) {
            struct sides other = sides_of(v);
            run(kernel, v, which, &other, pools[threads - 1]);
            assert_memory_equal(result_of(&first, which)->at, result_of(&other, which)->at,
                                sizeof(float) * (size_t)result_of(&first, which)->numel);
            free_sides(&other);
        }
        free_sides(&first);
    }
    free(want);
    free_sides(&start);
}

static void same_bits_and_right(void **state) {
    (void)state;
    struct sl_device_pool *pools[MAX_THREADS];
    for (int t = 0; t < MAX_THREADS; t++)
        assert_int_equal(sl_device_pool_open(t + 1, &pools[t]), SL_OK);
    for (int i = 0; i < SL_COUNT(cases); i++)
        for (enum which which = FORWARD; which <= DW; which++)
            try_case(&cases[i], which, pools);
    for (int t = 0; t < MAX_THREADS; t++)
        sl_device_pool_close(pools[t]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits_and_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
