/* Every kernel of every device that is here against the op's reference in double, through the
 * device's own interface: a program of one instruction is bound and run. fp32 on all devices, and
 * bf16 activations where a device has them.
 *
 * Inputs are the reference's values rounded to the dtype; outputs start as NaN. The result is near
 * the reference, the same bits when repeated, added to what is there when asked, and it may lie on
 * the inputs that pass/inplace.c names. Fused kernels are compared with the CPU's.
 */
#include "op_cases.h"

#include "base/rng.h"
#include "device_here.h"
#include "op/common.h"
#include "pass/fused.h"
#include "pass/inplace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { SEED = 77, ALIGN = 256, GUARD = 256 };

static const float earlier = 0.625f; /* what an accumulator holds before a run adds to it */
enum { PLAIN = -1, ADD = -2 };       /* or the number of the input that output 0 lies on */

/* ---- numbers ---- */

static uint16_t to_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return 0x7FC0;
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float from_half(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float rounded(float x, enum sl_dtype dtype) {
    return dtype == SL_BF16 ? from_half(to_half(x)) : x;
}

static void store(void *memory, enum sl_dtype dtype, int64_t i, float x) {
    if (dtype == SL_BF16)
        ((uint16_t *)memory)[i] = to_half(x);
    else
        ((float *)memory)[i] = x;
}

static double load(const void *memory, enum sl_dtype dtype, int64_t i) {
    if (dtype == SL_INT)
        return ((const int32_t *)memory)[i];
    return (double)(dtype == SL_BF16 ? from_half(((const uint16_t *)memory)[i])
                                     : ((const float *)memory)[i]);
}

/* ---- one instruction ---- */

struct bench {
    struct sl_instr instr;
    struct sl_operand in[SL_INSTR_IN], out[SL_INSTR_OUT];
    struct sl_ref ref; /* inputs as rounded; outputs when there is a reference */
    void *memory[SL_INSTR_IN];
    int64_t bytes; /* of WORK */
    bool backward;
};

static int64_t take_place(struct bench *b, const struct sl_operand *operand) {
    int64_t at = b->bytes;
    b->bytes += (sl_operand_bytes(operand) + GUARD + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static struct sl_operand make_operand(struct bench *b, struct sl_shape shape, enum sl_dtype dtype) {
    struct sl_operand operand = {
        .space = SL_SPACE_WORK, .dtype = dtype, .numel = sl_numel(&shape), .shape = shape};
    operand.offset = take_place(b, &operand);
    return operand;
}

static struct sl_array new_array(struct sl_shape shape, bool is_int) {
    struct sl_array array = {.shape = shape};
    size_t count = (size_t)sl_numel(&shape) + 1;
    if (is_int)
        array.i = sl_realloc(NULL, count * sizeof *array.i);
    else
        array.f = sl_realloc(NULL, count * sizeof *array.f);
    return array;
}

static void take_input(struct bench *b, int i, const struct sl_array *from, enum sl_dtype dtype) {
    int64_t count = sl_numel(&from->shape);
    b->in[i] = make_operand(b, from->shape, from->i ? SL_INT : dtype);
    b->ref.in[i] = new_array(from->shape, from->i != NULL);
    b->memory[i] = sl_realloc(NULL, 4 * (size_t)count + 1);
    for (int64_t j = 0; j < count; j++) {
        if (from->i) {
            b->ref.in[i].i[j] = ((int32_t *)b->memory[i])[j] = from->i[j];
            continue;
        }
        store(b->memory[i], dtype, j, (float)from->f[j]);
        b->ref.in[i].f[j] = (double)rounded((float)from->f[j], dtype);
    }
}

/* As pass/dtype.c has it: scalars, statistics (all but the first output, of most ops) and an lstm's
 * results stay fp32 in bf16 programs. */
static enum sl_dtype dtype_of(const struct sl_graph *graph, int value, enum sl_dtype dtype) {
    const struct sl_value *v = &graph->values.at[value];
    const char *op = v->kind == SL_VALUE_NODE ? graph->nodes.at[v->node].op->name : "";
    bool many = strcmp(op, "split") == 0 || strcmp(op, "attention_dqkv") == 0;
    if (v->dtype == SL_INT)
        return SL_INT;
    return v->shape.rank == 0 || strncmp(op, "lstm", 4) == 0 ||
                   (v->kind == SL_VALUE_NODE && v->slot > 0 && !many)
               ? SL_FLOAT
               : dtype;
}

static void open_node(struct bench *b, const struct sl_ref_run *run, int64_t n,
                      enum sl_dtype dtype) {
    const struct sl_node *node = &run->graph->nodes.at[n];
    *b = (struct bench){.backward = node->pass != SL_PASS_F};
    b->ref = (struct sl_ref){.attr = node->attr,
                             .in_count = node->in_count,
                             .out_count = node->out_count,
                             .seed = run->seed,
                             .first_sample = run->first_sample,
                             .samples = run->batch};
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0)
            take_input(b, i, &run->arrays[node->in[i]], dtype_of(run->graph, node->in[i], dtype));
    for (int i = 0; i < node->out_count; i++) {
        const struct sl_array *like = &run->arrays[node->out[i]];
        b->ref.out[i] = new_array(like->shape, like->i != NULL);
        b->out[i] = make_operand(b, like->shape, dtype_of(run->graph, node->out[i], dtype));
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

static void close_bench(struct bench *b) {
    for (int i = 0; i < b->ref.in_count; i++) {
        free(b->ref.in[i].f);
        free(b->ref.in[i].i);
        free(b->memory[i]);
    }
    for (int i = 0; i < b->ref.out_count; i++) {
        free(b->ref.out[i].f);
        free(b->ref.out[i].i);
    }
}

/* ---- one run ---- */

static void must(sl_err err, const char *what) {
    if (err != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
}

/* The image of WORK before the run: everything that no input fills is NaN. */
static char *fill_work(const struct bench *b, int mode) {
    char *work = memset(sl_realloc(NULL, (size_t)b->bytes), 0xFF, (size_t)b->bytes);
    for (int i = 0; i < b->ref.in_count; i++)
        if (b->memory[i])
            memcpy(work + b->in[i].offset, b->memory[i], (size_t)sl_operand_bytes(&b->in[i]));
    for (int64_t j = 0; mode == ADD && j < b->out[0].numel; j++)
        store(work + b->out[0].offset, b->out[0].dtype, j, earlier);
    return work;
}

/* Returns WORK after the run. */
static char *run_bench(struct bench *b, struct sl_device *device, enum sl_dtype dtype, int mode) {
    struct sl_exec *exec;
    struct sl_program program = {.samples = b->ref.samples ? b->ref.samples : 1,
                                 .dtype = dtype,
                                 .instrs = &b->instr,
                                 .instr_count = 1,
                                 .end = {[SL_PHASE_F] = 1},
                                 .work_bytes = b->bytes};
    struct sl_run_args args = {.phase = SL_PHASE_F,
                               .accumulate = mode == ADD,
                               .seed = b->ref.seed,
                               .first_sample = b->ref.first_sample};
    int64_t place = b->out[0].offset;
    b->instr.accumulate = mode == ADD;
    if (mode >= 0)
        b->out[0].offset = b->in[mode].offset;
    char *work = fill_work(b, mode);
    must(device->row->alloc(device, b->bytes, &args.base[SL_SPACE_WORK]), b->instr.kernel);
    void *memory = args.base[SL_SPACE_WORK];
    must(device->row->upload(device, SL_STREAM_COMPUTE, memory, work, b->bytes), b->instr.kernel);
    must(device->row->bind(device, &program, &exec), b->instr.kernel);
    must(device->row->run(device, exec, &args), b->instr.kernel);
    must(device->row->download(device, SL_STREAM_COMPUTE, work, memory, b->bytes), "download");
    must(device->row->sync(device, SL_STREAM_COMPUTE), b->instr.kernel);
    device->row->unbind(device, exec);
    device->row->free(device, memory);
    if (mode >= 0) {
        memmove(work + place, work + b->out[0].offset, (size_t)sl_operand_bytes(&b->out[0]));
        b->out[0].offset = place;
    }
    return work;
}

/* ---- judging ---- */

static double square_size(const struct sl_array *array) {
    double size = 0;
    for (int64_t j = 0; array->f && j < sl_numel(&array->shape); j++)
        size += array->f[j] * array->f[j];
    return size;
}

/* As in test_cpu_kernels: of a sum whose terms cancel, a tenth of the size of the terms. */
static double scale_of(const struct bench *b, int i, double before) {
    double count = (double)b->out[i].numel;
    double size = square_size(&b->ref.out[i]) + before * before * count;
    double terms = 0.01 * square_size(&b->ref.in[0]);
    if ((strncmp(b->instr.kernel, "reduce_", 7) == 0 || strcmp(b->instr.kernel, "sum_to") == 0) &&
        size < terms)
        size = terms;
    return sqrt(size > 1e-6 * count ? size : 1e-6 * count);
}

static double distance(const struct bench *b, int i, const char *work, double before) {
    const struct sl_array *want = &b->ref.out[i];
    double off = 0;
    for (int64_t j = 0; j < b->out[i].numel; j++) {
        double w = want->i ? want->i[j] : want->f[j] + before;
        double g = load(work + b->out[i].offset, b->out[i].dtype, j);
        if (want->i && g != w)
            return INFINITY;
        off += (g - w) * (g - w);
    }
    return sqrt(off) / scale_of(b, i, before);
}

struct where {
    const char *op, *label;
    struct sl_device *device;
    enum sl_dtype dtype;
    int64_t batch;
};

static double worst[3];
static int failures;

static void judge(const struct bench *b, const char *work, double before, const char *mode,
                  const struct where *at) {
    double tolerance = at->dtype == SL_BF16 ? 1e-2 : 1e-5;
    for (int i = 0; i < b->ref.out_count; i++) {
        double off = distance(b, i, work, i == 0 ? before : 0);
        if (off > worst[at->dtype])
            worst[at->dtype] = off;
        if (off <= tolerance)
            continue;
        failures++;
        print_error("%s, %s: %s of case %s.%s, B=%d, %s: output %d is off by %.3g\n",
                    at->device->row->name, at->dtype == SL_BF16 ? "bf16" : "fp32", b->instr.kernel,
                    at->op, at->label, (int)at->batch, mode, i, off);
    }
}

static void try_modes(struct bench *b, const struct where *at) {
    if (b->backward && b->ref.out_count == 1 && b->ref.out[0].f) {
        char *sum = run_bench(b, at->device, at->dtype, ADD);
        judge(b, sum, (double)earlier, "added", at);
        free(sum);
    }
    unsigned inplace = sl_inplace_inputs(b->instr.kernel);
    for (int i = 0; i < b->ref.in_count; i++) {
        if (!(inplace >> i & 1) || !b->memory[i] || b->in[i].numel != b->out[0].numel ||
            b->in[i].dtype != b->out[0].dtype)
            continue;
        char *over = run_bench(b, at->device, at->dtype, i);
        judge(b, over, 0, "in place", at);
        free(over);
    }
}

static void try_bench(struct bench *b, const struct where *at) {
    char *first = run_bench(b, at->device, at->dtype, PLAIN);
    char *again = run_bench(b, at->device, at->dtype, PLAIN);
    judge(b, first, 0, "plain", at);
    if (memcmp(first, again, (size_t)b->bytes) != 0) {
        failures++;
        print_error("%s: two runs of %s differ (case %s.%s)\n", at->device->row->name,
                    b->instr.kernel, at->op, at->label);
    }
    for (int i = 0; i < b->ref.in_count; i++) /* inputs and guards are as they were */
        if (b->memory[i] &&
            memcmp(first + b->in[i].offset, b->memory[i], (size_t)sl_operand_bytes(&b->in[i])) != 0)
            fail_msg("%s writes on its input %d", b->instr.kernel, i);
    try_modes(b, at);
    free(first);
    free(again);
}

static void try_case(const struct sl_op_case *the, int64_t batch, struct sl_device *device,
                     enum sl_dtype dtype) {
    struct sl_trial trial;
    struct where at = {the->op, the->label, device, dtype, batch};
    must(sl_trial_open(&trial, the, batch, sl_op_find), the->op);
    sl_trial_forward(&trial);
    sl_trial_backward(&trial);
    for (int64_t n = 0; n < trial.graph->nodes.count; n++) {
        struct bench b;
        open_node(&b, trial.run, n, dtype);
        try_bench(&b, &at);
        close_bench(&b);
    }
    sl_trial_close(&trial);
}

/* ---- tests ---- */

/* Sizes that fill tiles and vectors, and a bit more. */
static const struct sl_op_case large[] = {
    {"attention", "large", {SL_X("B,131,3,37"), SL_X("B,131,3,37"), SL_X("B,131,3,37")}, NULL, 0},
    {"attention",
     "heads64",
     {SL_X("B,192,4,64"), SL_X("B,192,2,64"), SL_X("B,192,2,64")},
     "causal=1",
     0},
    {"attention",
     "odd64",
     {SL_X("B,100,3,64"), SL_X("B,137,3,64"), SL_X("B,137,3,64"), SL_I("B,137", 2)},
     "causal=1",
     0},
    {"attention",
     "short64",
     {SL_X("B,150,1,64"), SL_X("B,70,1,64"), SL_X("B,70,1,64")},
     "causal=1",
     0},
    {"attention",
     "equal64",
     {SL_X("B,192,3,64"), SL_X("B,192,3,64"), SL_X("B,192,3,64")},
     "causal=1",
     0},
    {"attention",
     "odd128",
     {SL_X("B,150,2,128"), SL_X("B,150,2,128"), SL_X("B,150,2,128")},
     "causal=1 scale=0.3",
     0},
    {"attention",
     "mask64",
     {SL_X("B,150,2,64"), SL_X("B,131,2,64"), SL_X("B,131,2,64"), SL_I("B,131", 2)},
     NULL,
     0},
    {"attention",
     "mask_some64",
     {SL_X("B*5,9,2,64"), SL_X("B*5,2,2,64"), SL_X("B*5,2,2,64"), SL_I("B*5,2", 2)},
     NULL,
     0},
    {"attention", "odd40", {SL_X("B,77,2,40"), SL_X("B,131,2,40"), SL_X("B,131,2,40")}, NULL, 0},
    {"attention", "wide", {SL_X("B,128,2,64"), SL_X("B,256,2,64"), SL_X("B,256,2,64")}, NULL, 0},
    {"conv2d", "eights", {SL_X("B,16,9,13"), SL_W("24,16,3,3"), SL_W("24")}, "pad=1 stride=2", 0},
    {"conv2d", "pixels", {SL_X("B,3,11,7"), SL_W("8,3,5,3")}, "pad=2,1", 0},
    {"conv2d", "large", {SL_X("B,19,11,37"), SL_W("23,19,3,3"), SL_W("23")}, "pad=1", 0},
    {"cross_entropy", "odd", {SL_XR("B,5,1031", -9, 9), SL_I("B,5", 1031)}, NULL, 0},
    {"cross_entropy", "large", {SL_XR("B,5,2056", -9, 9), SL_IM("B,5", 2056, -100)}, NULL, 0},
    {"embed", "few", {SL_W("3,40"), SL_I("B,331", 3)}, NULL, 0},
    {"embed", "large", {SL_W("97,72"), SL_I("B,131", 97)}, NULL, 0},
    {"layernorm", "large", {SL_X("B,137,264"), SL_W("264"), SL_W("264")}, NULL, 0},
    {"layernorm", "long", {SL_X("B,37,1064"), SL_W("1064"), SL_W("1064")}, NULL, 0},
    {"lstm",
     "large",
     {SL_X("B,7,61"), SL_W("212,61"), SL_W("212,53"), SL_W("212"), SL_W("212"), SL_X("B,53"),
      SL_X("B,53")},
     NULL,
     0},
    {"maxpool", "large", {SL_X("B,8,37,21")}, "kernel=3 stride=2 pad=1", 0},
    {"matmul", "large", {SL_X("B,37,136"), SL_W("136,216"), SL_W("216")}, NULL, 0},
    {"reduce_sum", "large", {SL_X("B,61,97,3")}, "axes=1,3", 0},
    {"rmsnorm", "large", {SL_X("B,7,1024"), SL_W("1024")}, NULL, 0},
    {"sum_to", "large", {SL_X("B,70,1032")}, "shape=1032", 0},
    {"transpose", "heads", {SL_X("B,41,7,37")}, "perm=0,2,1,3", 0},
};

static void try_device(const struct sl_device_row *row, enum sl_dtype dtype) {
    struct sl_device_config config = {.threads = 1};
    struct sl_device *device;
    must(row->open(&config, &device), row->name);
    for (int g = 0; g < sl_op_group_count; g++)
        for (int i = 0; i < sl_op_groups[g]->case_count; i++)
            for (int64_t batch = 1; batch <= 4; batch += 3)
                try_case(&sl_op_groups[g]->cases[i], batch, device, dtype);
    for (int i = 0; i < SL_COUNT(large); i++)
        try_case(&large[i], 3, device, dtype);
    print_message("%s, %s: worst relative error %.2g\n", row->name,
                  dtype == SL_BF16 ? "bf16" : "fp32", worst[dtype]);
    worst[dtype] = 0;
    device->row->close(device);
}

static void kernels_agree_with_references(void **state) {
    int at = 0;
    (void)state;
    for (const struct sl_device_row *row; (row = next_device(&at));) {
        try_device(row, SL_FLOAT);
        if (row->halves)
            try_device(row, SL_BF16);
    }
    assert_int_equal(failures, 0);
}

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
        struct sl_array array = new_array(shape_of(f->in[i], z), false);
        for (int64_t j = 0; j < sl_numel(&array.shape); j++)
            array.f[j] = sl_rng_uniform(SEED, (uint64_t)i, (uint64_t)j) - 0.5;
        take_input(b, i, &array, dtype);
        free(array.f);
        b->instr.in_count = b->ref.in_count = i + 1;
    }
    for (int i = 0; i < 4 && f->out[i]; i++) {
        b->out[i] = make_operand(b, shape_of(f->out[i], z), f->sums ? SL_FLOAT : dtype);
        b->ref.out[i] = new_array(b->out[i].shape, false);
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
    char *work = run_bench(&exact, cpu, SL_FLOAT, PLAIN);
    for (int i = 0; i < b->ref.out_count; i++)
        for (int64_t j = 0; j < b->out[i].numel; j++)
            b->ref.out[i].f[j] = load(work + exact.out[i].offset, SL_FLOAT, j);
    free(work);
    close_bench(&exact);
}

static void try_fused(struct sl_device *device, struct sl_device *cpu, enum sl_dtype dtype) {
    static const int64_t sizes[][3] = {{31, 53, 397}, {64, 128, 96}, {200, 24, 72}};
    for (int i = 0; i < SL_COUNT(fused); i++)
        for (int s = 0; s < SL_COUNT(sizes); s++)
            for (int sides = 0; sides < 4; sides++) {
                struct sizes z = {sizes[s][0], sizes[s][1], sizes[s][2], sides & 1, sides & 2};
                struct where at = {fused[i].kernel, "fused", device, dtype, s};
                struct bench b;
                if (fused[i].sums) { /* as the pass makes them */
                    z.ta = true;
                    z.tb = false;
                }
                union sl_attr attr[2] = {{.i = z.ta}, {.i = z.tb}};
                open_fused(&b, &fused[i], &z, attr, dtype);
                refer_to_cpu(&b, &fused[i], &z, attr, cpu);
                char *work = run_bench(&b, device, dtype, PLAIN);
                judge(&b, work, 0, "fused", &at);
                free(work);
                close_bench(&b);
            }
}

static void fused_kernels_agree_with_the_cpu(void **state) {
    struct sl_device_config config = {.threads = 1};
    struct sl_device *cpu, *device;
    int at = 0;
    (void)state;
    failures = 0;
    must(sl_device_find("cpu")->open(&config, &cpu), "cpu");
    for (const struct sl_device_row *row; (row = next_device(&at));) {
        must(row->open(&config, &device), row->name);
        try_fused(device, cpu, SL_FLOAT);
        if (row->halves)
            try_fused(device, cpu, SL_BF16);
        device->row->close(device);
    }
    cpu->row->close(cpu);
    assert_int_equal(failures, 0);
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
        struct sl_array array = new_array(norm_shape(i, rows, n), false);
        for (int64_t j = 0; j < sl_numel(&array.shape); j++)
            array.f[j] = sl_rng_uniform(SEED, (uint64_t)i, (uint64_t)j) - (i == 4 ? -0.5 : 0.5);
        take_input(b, i, &array, i < 2 ? dtype : SL_FLOAT);
        free(array.f);
    }
    for (int i = 0; i < 3; i++) {
        b->ref.out[i] = new_array(i ? norm_shape(2, rows, n) : norm_shape(0, rows, n), false);
        b->out[i] = make_operand(b, b->ref.out[i].shape, i ? SL_FLOAT : dtype);
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
static void try_apart(struct bench *b, const struct where *at, const char *kernel, int out,
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
    char *work = run_bench(&alone, at->device, at->dtype, PLAIN);
    if (memcmp(work + result.offset, together + result.offset, (size_t)sl_operand_bytes(&result)) !=
        0) {
        failures++;
        print_error("%s: layernorm_grad and %s differ in bits\n", at->device->row->name, kernel);
    }
    free(work);
}

static void try_norm_grad(struct sl_device *device, enum sl_dtype dtype) {
    static const int64_t sizes[][2] = {{1, 8},     {37, 131},  {300, 264},
                                       {129, 768}, {70, 1024}, {20001, 40}};
    for (int s = 0; s < SL_COUNT(sizes); s++) {
        struct bench b;
        struct where at = {"layernorm_grad", "fused", device, dtype, sizes[s][0]};
        open_norm(&b, sizes[s][0], sizes[s][1], dtype);
        char *work = run_bench(&b, device, dtype, PLAIN);
        judge(&b, work, 0, "fused", &at);
        try_apart(&b, &at, "layernorm_dx", 0, work);
        try_apart(&b, &at, "layernorm_dw", 1, work);
        try_apart(&b, &at, "sum_to", 2, work);
        free(work);
        close_bench(&b);
    }
}

static void layernorm_grad_is_the_three_it_stands_for(void **state) {
    struct sl_device_config config = {.threads = 1};
    struct sl_device *device;
    int at = 0;
    (void)state;
    failures = 0;
    for (const struct sl_device_row *row; (row = next_device(&at));) {
        if (!row->has_kernel(SL_FUSED_LAYERNORM_GRAD))
            continue;
        must(row->open(&config, &device), row->name);
        try_norm_grad(device, SL_FLOAT);
        if (row->halves)
            try_norm_grad(device, SL_BF16);
        device->row->close(device);
    }
    assert_int_equal(failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_with_references),
        cmocka_unit_test(fused_kernels_agree_with_the_cpu),
        cmocka_unit_test(layernorm_grad_is_the_three_it_stands_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
