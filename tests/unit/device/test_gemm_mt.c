/* Matrix products and their fused forms against plain loops in double: odd sizes around every block
 * and tile; same bits with 1 to 3 threads, alone and with guests (device/lend.h); concurrent
 * workers; buffers of exactly the required size.
 */
#include "device/cpu/cpu.h"

#include "base/rng.h"
#include "op/registry.h"
#include "support/guests.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { SEED = 4711, MAX_THREADS = 3 };

struct product {
    int64_t count, m, n, k; /* count 0: b is shared */
    bool ta, tb, bias, add;
    const char *kernel;
};

struct operands {
    float *a, *b, *bias, *other; /* other: r or x, [m,n] */
    float *y, *second;           /* second: [m,n], or sums */
    int64_t a_numel, b_numel, y_numel, second_numel;
};

static float *random_floats(int64_t count, uint64_t stream) {
    float *x = sl_realloc(NULL, sizeof *x * (size_t)(count ? count : 1));
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)sl_rng_uniform(SEED, stream, (uint64_t)i) - 0.5f;
    return x;
}

static bool named(const struct product *p, const char *part) {
    return strstr(p->kernel, part) != NULL;
}

static struct operands operands_of(const struct product *p) {
    int64_t count = p->count ? p->count : 1;
    struct operands o = {
        .a_numel = count * p->m * p->k,
        .b_numel = count * p->k * p->n,
        .y_numel = count * p->m * p->n,
    };
    o.second_numel = named(p, "sum_a") ? p->m : named(p, "sum_b") ? p->n : o.y_numel;
    o.a = random_floats(o.a_numel, 1);
    o.b = random_floats(o.b_numel, 2);
    o.bias = p->bias ? random_floats(p->n, 3) : NULL;
    o.other = random_floats(o.y_numel, 4);
    return o;
}

static void free_operands(struct operands *o) {
    free(o->a);
    free(o->b);
    free(o->bias);
    free(o->other);
    free(o->y);
    free(o->second);
}

static struct sl_shape matrix_shape(int64_t count, int64_t rows, int64_t cols) {
    return count ? SL_SHAPE(3, 0, count, rows, cols) : SL_SHAPE(2, 0, rows, cols);
}

/* Runs the kernel on new outputs, which contain random numbers before. */
static void run(const struct sl_device_cpu_kernel *kernel, const struct product *p,
                struct operands *o, struct sl_device_pool *pool) {
    union sl_attr attr[2] = {{.i = p->ta}, {.i = p->tb}};
    struct sl_operand in[4] = {{0}}, out[2] = {{0}};
    in[0].shape = matrix_shape(p->count, p->ta ? p->k : p->m, p->ta ? p->m : p->k);
    in[1].shape = matrix_shape(p->count, p->tb ? p->n : p->k, p->tb ? p->k : p->n);
    struct sl_instr instr = {.op = sl_op_find(sl_str("matmul")),
                             .kernel = p->kernel,
                             .attr = attr,
                             .in_count = named(p, "_add") ? 4 : 3,
                             .out_count = 2,
                             .in = in,
                             .out = out,
                             .accumulate = p->add};
    size_t size = (size_t)kernel->scratch_bytes(&instr, sl_device_pool_threads(pool));
    void *scratch = aligned_alloc(64, (size + 63) / 64 * 64);
    memset(scratch, 0xFF, (size + 63) / 64 * 64);
    free(o->y);
    free(o->second);
    o->y = random_floats(o->y_numel, 5);
    o->second = random_floats(o->second_numel, 6);
    struct sl_device_cpu_call call = {.instr = &instr,
                                      .in = {o->a, o->b, o->bias},
                                      .out = {o->y, o->second},
                                      .pool = pool,
                                      .scratch = scratch,
                                      .add = p->add};
    if (named(p, "_add"))
        call.in[3] = o->other;
    if (named(p, "_dx"))
        call.in[2] = o->other;
    kernel->run(&call);
    free(scratch);
}

static double gelu(const struct product *p, double x) {
    if (named(p, "erf"))
        return 0.5 * x * erfc(-x * sqrt(0.5));
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

struct score {
    double off, size;
};

static void compare(struct score *s, double want, double got) {
    s->off += (want - got) * (want - got);
    s->size += want * want;
}

static double dot(const struct product *p, const struct operands *o, int64_t l, int64_t i,
                  int64_t j) {
    const float *a = o->a + l * p->m * p->k, *b = o->b + l * p->k * p->n;
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++)
        sum += (double)a[p->ta ? k * p->m + i : i * p->k + k] *
               (double)b[p->tb ? j * p->k + k : k * p->n + j];
    return sum;
}

static void compare_element(const struct product *p, const struct operands *o, struct score s[2],
                            int64_t index) {
    int64_t l = index / (p->m * p->n), i = index / p->n % p->m, j = index % p->n;
    double want = dot(p, o, l, i, j) + (o->bias && !named(p, "_dx") ? (double)o->bias[j] : 0);
    double other = (double)o->other[index];
    if (p->add)
        want += sl_rng_uniform(SEED, 5, (uint64_t)index) - 0.5;
    if (named(p, "_add"))
        want += other;
    if (named(p, "_dx"))
        want *= (gelu(p, other + 1e-4) - gelu(p, other - 1e-4)) / 2e-4;
    else if (named(p, "gelu"))
        compare(&s[1], gelu(p, want), (double)o->second[index]);
    compare(&s[0], want, (double)o->y[index]);
}

static void compare_sums(const struct product *p, const struct operands *o, struct score *s) {
    bool of_a = named(p, "sum_a");
    for (int64_t i = 0; i < o->second_numel; i++) {
        double want = p->add ? sl_rng_uniform(SEED, 6, (uint64_t)i) - 0.5 : 0;
        for (int64_t k = 0; k < p->k; k++)
            want += (double)(of_a ? o->a[k * p->m + i] : o->b[p->tb ? i * p->k + k : k * p->n + i]);
        compare(s, want, (double)o->second[i]);
    }
}

static void check(const struct product *p, const struct operands *o, const char *isa) {
    struct score s[2] = {{0}};
    for (int64_t i = 0; i < o->y_numel; i++)
        compare_element(p, o, s, i);
    if (named(p, "sum"))
        compare_sums(p, o, &s[1]);
    for (int i = 0; i < 2; i++)
        if (!(s[i].off <= 1e-10 * s[i].size))
            fail_msg("%s %s count=%d m=%d n=%d k=%d ta=%d tb=%d: output %d is off by %.3g", isa,
                     p->kernel, (int)p->count, (int)p->m, (int)p->n, (int)p->k, p->ta, p->tb, i,
                     sqrt(s[i].off / s[i].size));
}

/* All instruction sets and pools; every pool gives the bits of the first. */
static void try_pools(const struct product *p, struct sl_device_pool *const pools[], int count) {
    for (int t = 0; sl_device_cpu_tables[t]; t++) {
        const struct sl_device_cpu_kernel *kernel =
            sl_device_cpu_table_find(sl_device_cpu_tables[t], p->kernel);
        if (!kernel)
            continue;
        struct operands o = operands_of(p), other = operands_of(p);
        run(kernel, p, &o, pools[0]);
        check(p, &o, sl_device_cpu_tables[t]->isa);
        for (int i = 0; i < count; i++) {
            run(kernel, p, &other, pools[i]);
            assert_memory_equal(o.y, other.y, sizeof(float) * (size_t)o.y_numel);
            assert_memory_equal(o.second, other.second, sizeof(float) * (size_t)o.second_numel);
        }
        free_operands(&o);
        free_operands(&other);
    }
}

/* All numbers of threads. */
static void try_product(const struct product *p, struct sl_device_pool *const pools[]) {
    try_pools(p, pools, MAX_THREADS);
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

/* Below, at and above every tile, vector and block. */
static void sizes_and_sides(void **state) {
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},     {14, 32, 16}, {15, 33, 17},
                                       {13, 47, 31}, {29, 35, 385}, {171, 5, 19}, {5, 803, 3},
                                       {1, 97, 401}, {97, 1, 53},   {17, 37, 769}};
    for (int i = 0; i < SL_COUNT(sizes); i++)
        for (int sides = 0; sides < 4; sides++)
            for (int more = 0; more < 3; more++)
                try_product(&(struct product){.m = sizes[i][0],
                                              .n = sizes[i][1],
                                              .k = sizes[i][2],
                                              .ta = sides & 1,
                                              .tb = sides & 2,
                                              .bias = more == 1,
                                              .add = more == 2,
                                              .kernel = "matmul"},
                            *state);
}

static void batches(void **state) {
    for (int64_t count = 1; count <= 7; count += 2)
        for (int sides = 0; sides < 4; sides++)
            for (int add = 0; add < 2; add++)
                try_product(&(struct product){.count = count,
                                              .m = 17,
                                              .n = 37,
                                              .k = 11,
                                              .ta = sides & 1,
                                              .tb = sides & 2,
                                              .add = add,
                                              .kernel = "matmul"},
                            *state);
}

static void fused(void **state) {
    static const char *const kernels[] = {"matmul_add",     "matmul_gelu",        "matmul_gelu_erf",
                                          "matmul_gelu_dx", "matmul_gelu_erf_dx", "matmul_sum_a",
                                          "matmul_sum_b"};
    for (int i = 0; i < SL_COUNT(kernels); i++)
        for (int sides = 0; sides < 4; sides++)
            for (int more = 0; more < 2; more++) {
                struct product p = {.m = 31,
                                    .n = 53,
                                    .k = 397,
                                    .ta = sides & 1,
                                    .tb = sides & 2,
                                    .bias = more,
                                    .kernel = kernels[i]};
                if (named(&p, "sum")) {
                    p.bias = false;
                    p.add = more;
                    p.ta = p.ta || named(&p, "sum_a");
                }
                try_product(&p, *state);
            }
}

/* Several blocks of k, packed together and in several rounds; several pieces of the inner side. */
static void deep(void **state) {
    static const struct product products[] = {
        {.m = 37, .n = 211, .k = 900, .ta = true, .kernel = "matmul_sum_b"},
        {.m = 211, .n = 37, .k = 900, .ta = true, .add = true, .kernel = "matmul_sum_a"},
        {.m = 12, .n = 20, .k = 26000, .ta = true, .add = true, .kernel = "matmul_sum_b"},
    };
    for (int i = 0; i < SL_COUNT(products); i++)
        try_product(&products[i], *state);
}

/* Enough rows for one, two or all threads to pack b jointly: several strips of columns and rounds
 * of k, with the bits of the division into parts. */
static void jointly(void **state) {
    static const struct product products[] = {
        {.m = 131, .n = 1301, .k = 260, .tb = true, .bias = true, .kernel = "matmul_gelu"},
        {.m = 259, .n = 1301, .k = 70, .ta = true, .add = true, .kernel = "matmul_sum_a"},
        {.m = 131, .n = 67, .k = 3400, .ta = true, .add = true, .kernel = "matmul_sum_b"},
        {.m = 391, .n = 130, .k = 515, .bias = true, .kernel = "matmul_add"},
        {.count = 2, .m = 391, .n = 35, .k = 33, .tb = true, .kernel = "matmul"},
        {.m = 2050, .n = 33, .k = 19, .kernel = "matmul_gelu_dx"},
        {.m = 391, .n = 5, .k = 4100, .ta = true, .add = true, .kernel = "matmul_sum_a"},
    };
    for (int i = 0; i < SL_COUNT(products); i++)
        try_product(&products[i], *state);
}

/* Few columns and large k: scratch does not grow with k. */
static void narrow(void **state) {
    enum { M = 4096, N = 13, K = 65536, THREADS = 8, BLOCK_BYTES = 320 << 12 };
    union sl_attr attr[2] = {{.i = 1}, {.i = 0}};
    struct sl_operand in[2] = {{.shape = matrix_shape(0, K, M)}, {.shape = matrix_shape(0, K, N)}};
    struct sl_instr instr = {.op = sl_op_find(sl_str("matmul")),
                             .kernel = "matmul",
                             .attr = attr,
                             .in_count = 2,
                             .in = in};
    (void)state;
    for (int t = 0; sl_device_cpu_tables[t]; t++) {
        const struct sl_device_cpu_kernel *kernel =
            sl_device_cpu_table_find(sl_device_cpu_tables[t], "matmul");
        if (!kernel || strstr(sl_device_cpu_tables[t]->isa, "amx"))
            continue;
        assert_in_range(kernel->scratch_bytes(&instr, THREADS), 1,
                        THREADS * (2 * BLOCK_BYTES + 1024));
    }
}

/* Parts are cut into pieces, and guests compute some of them. */
static void with_guests(void **state) {
    static const struct product products[] = {
        {.m = 40, .n = 530, .k = 300, .ta = true, .add = true, .kernel = "matmul_sum_a"},
        {.m = 290, .n = 61, .k = 500, .tb = true, .add = true, .kernel = "matmul_sum_b"},
        {.m = 290, .n = 300, .k = 70, .bias = true, .kernel = "matmul_gelu"},
        {.m = 33, .n = 270, .k = 64, .tb = true, .bias = true, .kernel = "matmul_add"},
        {.count = 2, .m = 140, .n = 300, .k = 50, .ta = true, .kernel = "matmul"},
        {.m = 391, .n = 67, .k = 1100, .ta = true, .add = true, .kernel = "matmul_sum_b"},
        {.count = 9, .m = 17, .n = 37, .k = 11, .add = true, .kernel = "matmul"},
    };
    struct sl_device_pool *const *alone = *state, *pools[1 + GUESTS_HOSTS] = {alone[0]};
    assert_true(guests_open(pools + 1));
    for (int i = 0; i < SL_COUNT(products); i++)
        try_pools(&products[i], pools, SL_COUNT(pools));
    printf("count: %lld pieces done by guests\n", (long long)guests_close());
}

/* Concurrent workers, each with its own threads and memory. */
struct worker {
    pthread_t id;
    const struct product *product;
    const struct sl_device_cpu_kernel *kernel;
    struct operands operands;
    bool failed;
};

static void *work(void *arg) {
    struct worker *w = arg;
    struct sl_device_pool *pool;
    if (sl_device_pool_open(2, &pool) != SL_OK)
        return NULL;
    struct operands o = operands_of(w->product);
    for (int i = 0; i < 10; i++) {
        run(w->kernel, w->product, &o, pool);
        if (memcmp(o.y, w->operands.y, sizeof(float) * (size_t)o.y_numel) != 0)
            w->failed = true;
    }
    free_operands(&o);
    sl_device_pool_close(pool);
    return NULL;
}

static void workers_do_not_disturb_each_other(void **state) {
    struct sl_device_pool **pools = *state;
    const struct product p = {.m = 37, .n = 67, .k = 401, .tb = true, .kernel = "matmul"};
    struct worker workers[4];
    struct operands o = operands_of(&p);
    const struct sl_device_cpu_kernel *kernel = sl_device_cpu_find("matmul");
    run(kernel, &p, &o, pools[0]);
    for (int i = 0; i < SL_COUNT(workers); i++) {
        workers[i] = (struct worker){.product = &p, .kernel = kernel, .operands = o};
        assert_int_equal(pthread_create(&workers[i].id, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < SL_COUNT(workers); i++) {
        pthread_join(workers[i].id, NULL);
        assert_false(workers[i].failed);
    }
    free_operands(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_sides), cmocka_unit_test(batches),
        cmocka_unit_test(fused),           cmocka_unit_test(deep),
        cmocka_unit_test(jointly),         cmocka_unit_test(narrow),
        cmocka_unit_test(with_guests),     cmocka_unit_test(workers_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
