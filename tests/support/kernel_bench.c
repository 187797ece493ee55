/* See kernel_bench.h. */
#include "support/kernel_bench.h"

#include "base/half.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { ALIGN = 256, GUARD = 256 };

/* ---- numbers ---- */

static uint16_t to_half(float x, enum sl_dtype dtype) {
    return dtype == SL_FP16 ? sl_fp16_of(x) : sl_bf16_of(x);
}

static float from_half(uint16_t half, enum sl_dtype dtype) {
    return dtype == SL_FP16 ? sl_from_fp16(half) : sl_from_bf16(half);
}

static float rounded(float x, enum sl_dtype dtype) {
    return sl_dtype_is_half(dtype) ? from_half(to_half(x, dtype), dtype) : x;
}

static void store(void *memory, enum sl_dtype dtype, int64_t i, float x) {
    if (sl_dtype_is_half(dtype))
        ((uint16_t *)memory)[i] = to_half(x, dtype);
    else
        ((float *)memory)[i] = x;
}

double bench_load(const void *memory, enum sl_dtype dtype, int64_t i) {
    if (dtype == SL_INT)
        return ((const int32_t *)memory)[i];
    return (double)(sl_dtype_is_half(dtype) ? from_half(((const uint16_t *)memory)[i], dtype)
                                            : ((const float *)memory)[i]);
}

/* ---- one instruction ---- */

static int64_t take_place(struct bench *b, const struct sl_operand *operand) {
    int64_t at = b->bytes;
    b->bytes += (sl_pass_operand_bytes(operand) + GUARD + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

struct sl_operand bench_operand(struct bench *b, struct sl_shape shape, enum sl_dtype dtype) {
    struct sl_operand operand = {
        .space = SL_SPACE_WORK, .dtype = dtype, .numel = sl_op_numel(&shape), .shape = shape};
    operand.offset = take_place(b, &operand);
    return operand;
}

struct sl_array bench_array(struct sl_shape shape, bool is_int) {
    struct sl_array array = {.shape = shape};
    size_t count = (size_t)sl_op_numel(&shape) + 1;
    if (is_int)
        array.i = sl_realloc(NULL, count * sizeof *array.i);
    else
        array.f = sl_realloc(NULL, count * sizeof *array.f);
    return array;
}

void bench_take_input(struct bench *b, int i, const struct sl_array *from, enum sl_dtype dtype) {
    int64_t count = sl_op_numel(&from->shape);
    b->in[i] = bench_operand(b, from->shape, from->i ? SL_INT : dtype);
    b->ref.in[i] = bench_array(from->shape, from->i != NULL);
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

void bench_close(struct bench *b) {
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

void bench_must(sl_err err, const char *what) {
    if (err != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
}

/* The image of WORK before the run: everything that no input fills is NaN. */
static char *fill_work(const struct bench *b, int mode) {
    char *work = memset(sl_realloc(NULL, (size_t)b->bytes), 0xFF, (size_t)b->bytes);
    for (int i = 0; i < b->ref.in_count; i++)
        if (b->memory[i])
            memcpy(work + b->in[i].offset, b->memory[i], (size_t)sl_pass_operand_bytes(&b->in[i]));
    for (int64_t j = 0; mode == BENCH_ADD && j < b->out[0].numel; j++)
        store(work + b->out[0].offset, b->out[0].dtype, j, bench_earlier);
    return work;
}

/* Returns WORK after the run. */
char *bench_run(struct bench *b, struct sl_device *device, enum sl_dtype dtype, int mode) {
    struct sl_exec *exec;
    struct sl_program program = {.samples = b->ref.samples ? b->ref.samples : 1,
                                 .dtype = dtype,
                                 .instrs = &b->instr,
                                 .instr_count = 1,
                                 .end = {[SL_PHASE_F] = 1},
                                 .work_bytes = b->bytes};
    struct sl_device_args args = {.phase = SL_PHASE_F,
                                  .accumulate = mode == BENCH_ADD,
                                  .seed = b->ref.seed,
                                  .first_sample = b->ref.first_sample};
    int64_t place = b->out[0].offset;
    b->instr.accumulate = mode == BENCH_ADD;
    if (mode >= 0)
        b->out[0].offset = b->in[mode].offset;
    char *work = fill_work(b, mode);
    bench_must(device->row->alloc(device, b->bytes, &args.base[SL_SPACE_WORK]), b->instr.kernel);
    void *memory = args.base[SL_SPACE_WORK];
    bench_must(device->row->upload(device, SL_STREAM_COMPUTE, memory, work, b->bytes),
               b->instr.kernel);
    bench_must(device->row->bind(device, &program, &exec), b->instr.kernel);
    bench_must(device->row->run(device, exec, &args), b->instr.kernel);
    bench_must(device->row->download(device, SL_STREAM_COMPUTE, work, memory, b->bytes),
               "download");
    bench_must(device->row->sync(device, SL_STREAM_COMPUTE), b->instr.kernel);
    device->row->unbind(device, exec);
    device->row->free(device, memory);
    if (mode >= 0) {
        memmove(work + place, work + b->out[0].offset, (size_t)sl_pass_operand_bytes(&b->out[0]));
        b->out[0].offset = place;
    }
    return work;
}

/* ---- judging ---- */

static double square_size(const struct sl_array *array) {
    double size = 0;
    for (int64_t j = 0; array->f && j < sl_op_numel(&array->shape); j++)
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
        double g = bench_load(work + b->out[i].offset, b->out[i].dtype, j);
        if (want->i && g != w)
            return INFINITY;
        off += (g - w) * (g - w);
    }
    return sqrt(off) / scale_of(b, i, before);
}

double bench_worst[SL_DTYPES];
const char *const bench_dtypes[SL_DTYPES] = {"fp32", "int", "bf16", "fp16"};
int bench_failures;

void bench_judge(const struct bench *b, const char *work, double before, const char *mode,
                 const struct bench_where *at) {
    static const double tolerances[SL_DTYPES] = {1e-5, 0, 1e-2, 2e-3};
    double tolerance = tolerances[at->dtype];
    for (int i = 0; i < b->ref.out_count; i++) {
        double off = distance(b, i, work, i == 0 ? before : 0);
        if (off > bench_worst[at->dtype])
            bench_worst[at->dtype] = off;
        if (off <= tolerance)
            continue;
        bench_failures++;
        print_error("%s, %s: %s of case %s.%s, B=%d, %s: output %d is off by %.3g\n",
                    at->device->row->name, bench_dtypes[at->dtype], b->instr.kernel, at->op,
                    at->label, (int)at->batch, mode, i, off);
    }
}
