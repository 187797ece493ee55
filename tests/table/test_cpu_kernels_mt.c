/* Every CPU kernel against the op's reference in double: all ops, all cases, forward and backward
 * nodes, every table this machine supports, 1 to 3 threads.
 *
 * Each node runs alone. Its inputs are the reference's values rounded to fp32; outputs and scratch
 * have exactly the required size and start as NaN. Checks: the result is close to the reference and
 * has the same bits when repeated; it can be added to the output; it can overwrite the inputs that
 * pass/inplace.c allows.
 */
#include "op_cases.h"

#include "base/rng.h"
#include "device/cpu/cpu.h"
#include "op/common.h"
#include "pass/inplace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const double tolerance = 1e-5;
enum { MAX_THREADS = 3, SEED = 77 };

/* ---- one node ---- */

struct node_bench {
    const char *what; /* "gelu.erf" */
    const struct sl_op *op;
    struct sl_instr instr;
    struct sl_operand in[SL_INSTR_IN], out[SL_INSTR_OUT];
    struct sl_ref ref;
    void *memory[SL_INSTR_IN]; /* fp32 or int32 copies of the inputs */
    int64_t samples;
    bool backward;
};

static size_t bytes_of(const struct sl_array *array) {
    return 4 * (size_t)sl_op_numel(&array->shape);
}

static struct sl_array new_array(struct sl_shape shape, bool is_int) {
    struct sl_array array = {.shape = shape};
    size_t count = (size_t)sl_op_numel(&shape);
    if (is_int)
        array.i = sl_realloc(NULL, count * sizeof *array.i + 1);
    else
        array.f = sl_realloc(NULL, count * sizeof *array.f + 1);
    return array;
}

static struct sl_operand operand_of(const struct sl_array *array, bool present) {
    return (struct sl_operand){
        .space = present ? SL_SPACE_WORK : SL_SPACE_NONE,
        .dtype = array->i ? SL_INT : SL_FLOAT,
        .numel = present ? sl_op_numel(&array->shape) : 0,
        .shape = array->shape,
    };
}

static void take_input(struct node_bench *b, int i, const struct sl_array *from) {
    b->ref.in[i] = new_array(from->shape, from->i != NULL);
    b->memory[i] = sl_realloc(NULL, bytes_of(from));
    for (int64_t j = 0; j < sl_op_numel(&from->shape); j++) {
        if (from->i) {
            b->ref.in[i].i[j] = ((int32_t *)b->memory[i])[j] = from->i[j];
        } else {
            ((float *)b->memory[i])[j] = (float)from->f[j];
            b->ref.in[i].f[j] = (double)((float *)b->memory[i])[j];
        }
    }
}

static void node_open(struct node_bench *b, const struct sl_ref_run *run, int64_t n) {
    const struct sl_node *node = &run->graph->nodes.at[n];
    *b = (struct node_bench){.op = node->op, .samples = run->batch};
    b->backward = node->pass != SL_PASS_F;
    b->ref = (struct sl_ref){.attr = node->attr,
                             .in_count = node->in_count,
                             .out_count = node->out_count,
                             .seed = run->seed,
                             .first_sample = run->first_sample,
                             .samples = run->batch};
    for (int i = 0; i < node->in_count; i++) {
        if (node->in[i] >= 0)
            take_input(b, i, &run->arrays[node->in[i]]);
        b->in[i] = operand_of(&b->ref.in[i], node->in[i] >= 0);
    }
    for (int i = 0; i < node->out_count; i++) {
        const struct sl_array *like = &run->arrays[node->out[i]];
        b->ref.out[i] = new_array(like->shape, like->i != NULL);
        b->out[i] = operand_of(like, true);
    }
    node->op->ref(&b->ref);
    b->instr = (struct sl_instr){.op = node->op,
                                 .kernel = node->op->name,
                                 .attr = node->attr,
                                 .in_count = node->in_count,
                                 .out_count = node->out_count,
                                 .in = b->in,
                                 .out = b->out,
                                 .pass = node->pass};
}

static void free_array(struct sl_array *array) {
    free(array->f);
    free(array->i);
}

static void node_close(struct node_bench *b) {
    for (int i = 0; i < b->ref.in_count; i++) {
        free_array(&b->ref.in[i]);
        free(b->memory[i]);
    }
    for (int i = 0; i < b->ref.out_count; i++)
        free_array(&b->ref.out[i]);
}

/* ---- one run of one kernel ---- */

struct outcome {
    void *out[SL_INSTR_OUT];
};

static const float earlier = 0.625f; /* content of an accumulator before a run */

enum { PLAIN = -1, ADD = -2 }; /* or the index of the input that output 0 overwrites */

static void *poisoned(size_t size) { return memset(sl_realloc(NULL, size + 1), 0xFF, size + 1); }

static struct outcome run_kernel(struct node_bench *b, const struct sl_device_cpu_kernel *kernel,
                                 struct sl_device_pool *pool, int mode) {
    struct outcome o;
    struct sl_device_cpu_call call = {.instr = &b->instr,
                                      .pool = pool,
                                      .add = mode == ADD,
                                      .seed = b->ref.seed,
                                      .first_sample = b->ref.first_sample,
                                      .samples = b->samples};
    b->instr.accumulate = mode == ADD;
    void *scratch = NULL;
    if (kernel->scratch_bytes) {
        size_t size = (size_t)kernel->scratch_bytes(&b->instr, sl_device_pool_threads(pool));
        call.scratch = scratch = memset(aligned_alloc(64, (size + 127) / 64 * 64), 0xFF, size);
    }
    for (int i = 0; i < b->ref.in_count; i++)
        call.in[i] = b->memory[i];
    for (int i = 0; i < b->ref.out_count; i++)
        call.out[i] = o.out[i] = poisoned(bytes_of(&b->ref.out[i]));
    for (int64_t j = 0; mode == ADD && j < sl_op_numel(&b->ref.out[0].shape); j++)
        ((float *)o.out[0])[j] = earlier;
    if (mode >= 0) {
        memcpy(o.out[0], b->memory[mode], bytes_of(&b->ref.out[0]));
        call.in[mode] = o.out[0];
    }
    kernel->run(&call);
    free(scratch);
    return o;
}

static void free_outcome(const struct node_bench *b, struct outcome *o) {
    for (int i = 0; i < b->ref.out_count; i++)
        free(o->out[i]);
}

static bool same_bits(const struct node_bench *b, const struct outcome *p,
                      const struct outcome *q) {
    for (int i = 0; i < b->ref.out_count; i++)
        if (memcmp(p->out[i], q->out[i], bytes_of(&b->ref.out[i])) != 0)
            return false;
    return true;
}

static double square_size(const struct sl_array *array) {
    double size = 0;
    for (int64_t j = 0; array->f && j < sl_op_numel(&array->shape); j++)
        size += array->f[j] * array->f[j];
    return size;
}

/* The scale of an error: the norm of the result and of the accumulator. For sums whose terms
 * cancel, a tenth of the norm of the terms. At least 1e-3 per element. */
static double scale_of(const struct node_bench *b, int i, double before) {
    double count = (double)sl_op_numel(&b->ref.out[i].shape);
    double size = square_size(&b->ref.out[i]) + before * before * count;
    double terms = 0.01 * square_size(&b->ref.in[0]);
    if ((strncmp(b->op->name, "reduce_", 7) == 0 || strcmp(b->op->name, "sum_to") == 0) &&
        size < terms)
        size = terms;
    return sqrt(size > 1e-6 * count ? size : 1e-6 * count);
}

/* Relative distance to the reference; NaN if an element was not written. */
static double distance(const struct node_bench *b, int i, const void *got, double before) {
    const struct sl_array *want = &b->ref.out[i];
    double off = 0;
    for (int64_t j = 0; j < sl_op_numel(&want->shape); j++) {
        double w = want->i ? want->i[j] : want->f[j] + before;
        double g = want->i ? ((const int32_t *)got)[j] : (double)((const float *)got)[j];
        off += (g - w) * (g - w);
        if (want->i && g != w)
            return INFINITY;
    }
    return sqrt(off) / scale_of(b, i, before);
}

struct where {
    const struct sl_op_case *the;
    const char *isa, *mode;
    int threads;
    int64_t batch;
};

static double worst;
static char worst_name[96];

static void check_outcome(const struct node_bench *b, const struct outcome *o, double before,
                          const struct where *at) {
    for (int i = 0; i < b->ref.out_count; i++) {
        double off = distance(b, i, o->out[i], i == 0 ? before : 0);
        if (!(off <= tolerance))
            fail_msg("%s of case %s.%s, B=%d, %s, %d threads, %s: output %d is off by %.3g",
                     b->op->name, at->the->op, at->the->label, (int)at->batch, at->isa, at->threads,
                     at->mode, i, off);
        if (off > worst) {
            worst = off;
            snprintf(worst_name, sizeof worst_name, "%s, %s.%s, %s", b->op->name, at->the->op,
                     at->the->label, at->isa);
        }
    }
}

/* ---- all ways to run one node ---- */

/* Product kernels: their results may depend on the number of threads. */
static bool is_product(const char *name) {
    static const char *const products[] = {"matmul", "attention", "conv2d", "lstm"};
    for (int i = 0; i < SL_COUNT(products); i++)
        if (strncmp(name, products[i], strlen(products[i])) == 0)
            return true;
    return false;
}

static void try_modes(struct node_bench *b, const struct sl_device_cpu_kernel *kernel,
                      struct sl_device_pool *pool, struct where at) {
    if (b->backward && b->ref.out_count == 1 && b->ref.out[0].f) {
        struct outcome sum = run_kernel(b, kernel, pool, ADD);
        at.mode = "added";
        check_outcome(b, &sum, (double)earlier, &at);
        free_outcome(b, &sum);
    }
    unsigned inplace = sl_pass_inplace_inputs(b->instr.kernel);
    for (int i = 0; i < b->ref.in_count; i++) {
        if (!(inplace >> i & 1) || !b->memory[i] ||
            bytes_of(&b->ref.in[i]) != bytes_of(&b->ref.out[0]))
            continue;
        struct outcome over = run_kernel(b, kernel, pool, i);
        at.mode = "in place";
        check_outcome(b, &over, 0, &at);
        free_outcome(b, &over);
    }
}

static void try_table(struct node_bench *b, const struct sl_device_cpu_table *table,
                      struct sl_device_pool *const pools[], struct where at) {
    const struct sl_device_cpu_kernel *kernel = sl_device_cpu_table_find(table, b->instr.kernel);
    struct outcome first = {{0}};
    if (!kernel)
        return;
    for (int t = 0; t < MAX_THREADS; t++) {
        struct outcome o = run_kernel(b, kernel, pools[t], PLAIN);
        struct outcome again = run_kernel(b, kernel, pools[t], PLAIN);
        at.isa = table->isa;
        at.threads = t + 1;
        at.mode = "plain";
        check_outcome(b, &o, 0, &at);
        if (!same_bits(b, &o, &again))
            fail_msg("%s: two runs differ (%s, %d threads)", b->op->name, table->isa, t + 1);
        if (t > 0 && !is_product(b->op->name) && !same_bits(b, &o, &first))
            fail_msg("%s: 1 and %d threads differ (%s)", b->op->name, t + 1, table->isa);
        try_modes(b, kernel, pools[t], at);
        free_outcome(b, &again);
        if (t == 0)
            first = o;
        else
            free_outcome(b, &o);
    }
    free_outcome(b, &first);
}

static void try_case(const struct sl_op_case *the, int64_t batch,
                     struct sl_device_pool *const pools[]) {
    struct sl_trial trial;
    if (sl_trial_open(&trial, the, batch, sl_op_find) != SL_OK)
        fail_msg("%s.%s: %s", the->op, the->label, sl_err_message());
    sl_trial_forward(&trial);
    sl_trial_backward(&trial);
    for (int64_t n = 0; n < trial.graph->nodes.count; n++) {
        struct node_bench bench;
        node_open(&bench, trial.run, n);
        for (int t = 0; sl_device_cpu_tables[t]; t++)
            try_table(&bench, sl_device_cpu_tables[t], pools,
                      (struct where){.the = the, .batch = batch});
        node_close(&bench);
    }
    sl_trial_close(&trial);
}

/* ---- tests ---- */

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

static void every_op_has_a_kernel(void **state) {
    (void)state;
    int missing = 0;
    for (int i = 0; i < sl_op_count; i++) {
        const struct sl_op *op = sl_op_rows[i];
        if (op->plan_only || (op->expand && !op->ref) || sl_device_cpu_find(op->name))
            continue;
        print_error("no kernel for '%s'\n", sl_op_rows[i]->name);
        missing++;
    }
    assert_int_equal(missing, 0);
}

static void kernels_agree_with_references(void **state) {
    for (int g = 0; g < sl_op_group_count; g++)
        for (int i = 0; i < sl_op_groups[g]->case_count; i++)
            for (int64_t batch = 1; batch <= 7; batch += 3)
                try_case(&sl_op_groups[g]->cases[i], batch, *state);
    print_message("worst relative error %.2g (%s)\n", worst, worst_name);
}

/* Large enough for work on all threads and for full blocks, plus a remainder. */
static const struct sl_op_case large[] = {
    {"add", "large", {SL_X("B,37,131"), SL_W("131")}, NULL, 0},
    {"attention", "large", {SL_X("B,131,3,37"), SL_X("B,131,3,37"), SL_X("B,131,3,37")}, NULL, 0},
    {"attention",
     "large_causal",
     {SL_X("B,131,6,16"), SL_X("B,151,2,16"), SL_X("B,151,2,16"), SL_I("B,151", 2)},
     "causal=1",
     0},
    {"attention", "tiles", {SL_X("B,131,1,32"), SL_X("B,151,1,32"), SL_X("B,151,1,32")}, NULL, 0},
    {"attention",
     "tiles_causal",
     {SL_X("B,77,4,64"), SL_X("B,77,2,64"), SL_X("B,77,2,64"), SL_I("B,77", 2)},
     "causal=1",
     0},
    {"attention",
     "tiles_short",
     {SL_X("B,97,1,32"), SL_X("B,40,1,32"), SL_X("B,40,1,32")},
     "causal=1",
     0},
    {"conv2d", "large", {SL_X("B,19,11,37"), SL_W("23,19,3,3"), SL_W("23")}, "pad=1", 0},
    {"conv2d",
     "large_stride",
     {SL_X("B,18,13,17"), SL_W("34,9,3,3")},
     "pad=1 stride=2 groups=2",
     0},
    {"conv2d", "large_tiles", {SL_X("B,17,9,10"), SL_W("101,17,3,3")}, "pad=1", 0},
    {"conv2d", "large_tiny", {SL_X("B,33,4,4"), SL_W("37,33,3,3")}, "pad=1", 0},
    {"lstm",
     "large",
     {SL_X("B,7,61"), SL_W("212,61"), SL_W("212,53"), SL_W("212"), SL_W("212"), SL_X("B,53"),
      SL_X("B,53")},
     NULL,
     0},
    {"matmul", "large", {SL_X("B,37,131"), SL_W("131,211"), SL_W("211")}, NULL, 0},
    {"broadcast_to", "large", {SL_X("B,37,1")}, "shape=B,37,131", 0},
    {"concat", "large", {SL_X("B,37,61"), SL_X("B,37,83")}, NULL, 0},
    {"cross_entropy", "large", {SL_XR("B,5,2053", -9, 9), SL_IM("B,5", 2053, -100)}, NULL, 0},
    {"dropout", "large", {SL_X("B,37,131")}, "p=0.2 stream=5", 0},
    {"embed", "large", {SL_W("97,67"), SL_I("B,131", 97)}, NULL, 0},
    {"embed_bag", "large", {SL_W("97,67"), SL_I("B,31,5", 97)}, NULL, 0},
    {"gelu", "large", {SL_XR("B,37,131", -5, 5)}, NULL, 0},
    {"layernorm", "large", {SL_X("B,137,67"), SL_W("67"), SL_W("67")}, NULL, 0},
    {"mse", "large", {SL_X("B,37,131"), SL_X("B,37,131")}, NULL, 0},
    {"reduce_sum", "large", {SL_X("B,61,97,3")}, "axes=1,3", 0},
    {"reduce_mean", "large", {SL_X("B,61,97")}, "axes=1", 0},
    {"rmsnorm", "large", {SL_X("B,7,1031"), SL_W("1031")}, NULL, 0},
    {"slice", "large", {SL_X("B,37,191")}, "axis=2 from=64 to=128", 0},
    {"softmax", "large", {SL_XR("B,37,131", -9, 9)}, NULL, 0},
    {"sum_to", "large", {SL_X("B,7,1031")}, "shape=1031", 0},
    {"transpose", "large", {SL_X("B,41,7,37")}, "perm=0,3,1,2", 0},
    {"transpose", "heads", {SL_X("B,41,7,37")}, "perm=0,2,1,3", 0},
};

static void large_kernels_agree(void **state) {
    for (int i = 0; i < SL_COUNT(large); i++)
        try_case(&large[i], 3, *state);
    print_message("worst relative error %.2g (%s)\n", worst, worst_name);
}

/* add_layernorm against add, then layernorm. */
static void fill_shape(struct node_bench *b, int i, struct sl_shape shape, uint64_t stream) {
    struct sl_array array = new_array(shape, false);
    for (int64_t j = 0; j < sl_op_numel(&shape); j++)
        array.f[j] = sl_rng_normal(SEED, stream, (uint64_t)j);
    take_input(b, i, &array);
    b->in[i] = operand_of(&array, true);
    free_array(&array);
}

static void run_refs(struct node_bench *b) {
    struct sl_ref sum = {.in_count = 2, .out_count = 1, .in = {b->ref.in[0], b->ref.in[1]}};
    struct sl_ref norm = {.attr = b->ref.attr, .in_count = 3, .out_count = 3};
    sum.out[0] = b->ref.out[0];
    sl_op_find(sl_str("add"))->ref(&sum);
    norm.in[0] = b->ref.out[0];
    for (int i = 1; i < 3; i++)
        norm.in[i] = b->ref.in[i + 1];
    for (int i = 0; i < 3; i++)
        norm.out[i] = b->ref.out[i + 1];
    b->op->ref(&norm);
}

static void fused_layernorm_agrees(void **state) {
    static const struct sl_op_case the = {.op = "add_layernorm", .label = "fused"};
    union sl_attr eps[1] = {{.f = 1e-5}};
    for (int64_t rows = 1; rows < 200; rows += 66) {
        struct node_bench b = {.op = sl_op_find(sl_str("layernorm")), .samples = 1};
        struct sl_shape x = SL_SHAPE(2, 0, rows, 131), w = SL_SHAPE(1, 0, 131);
        struct sl_shape stat = SL_SHAPE(1, 0, rows), outs[4] = {x, x, stat, stat};
        b.ref = (struct sl_ref){.attr = eps, .in_count = 4, .out_count = 4};
        for (int i = 0; i < 4; i++) {
            fill_shape(&b, i, i < 2 ? x : w, (uint64_t)i);
            b.ref.out[i] = new_array(outs[i], false);
            b.out[i] = operand_of(&b.ref.out[i], true);
        }
        run_refs(&b);
        b.instr = (struct sl_instr){.op = b.op,
                                    .kernel = "add_layernorm",
                                    .attr = eps,
                                    .in_count = 4,
                                    .out_count = 4,
                                    .in = b.in,
                                    .out = b.out};
        for (int t = 0; sl_device_cpu_tables[t]; t++)
            try_table(&b, sl_device_cpu_tables[t], *state,
                      (struct where){.the = &the, .batch = rows});
        node_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_kernel),
        cmocka_unit_test(kernels_agree_with_references),
        cmocka_unit_test(large_kernels_agree),
        cmocka_unit_test(fused_layernorm_agrees),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
