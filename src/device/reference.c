/* The reference device: runs every instruction by the double-precision reference of its op. It is
 * slow. Tests compare other devices with it. It also runs ops for which other devices have no
 * kernel. */
#include "device/device.h"

#include "base/clock.h"
#include "optim/norm.h"

#include <stdlib.h>
#include <string.h>

extern const struct sl_device_row sl_device_cpu;

/* A program bound to this device. */
struct ref_exec {
    const struct sl_program *program;
    struct sl_arena arena; /* memory for the double copies of one instruction's operands */
};

static const char *ref_missing(void) { return NULL; }

static sl_err ref_open(const struct sl_device_config *config, struct sl_device **out) {
    extern const struct sl_device_row sl_device_reference;
    (void)config;
    struct sl_device *device = calloc(1, sizeof *device);
    if (!device)
        sl_out_of_memory(sizeof *device);
    *device = (struct sl_device){&sl_device_reference, 1};
    *out = device;
    return SL_OK;
}

static void ref_close(struct sl_device *device) { free(device); }

/* These use the memory functions of the CPU, which ignore the device. */
static sl_err ref_alloc(struct sl_device *device, int64_t size_bytes, void **out) {
    return sl_device_cpu.alloc(device, size_bytes, out);
}

static void ref_free(struct sl_device *device, void *memory) { sl_device_cpu.free(device, memory); }

static sl_err ref_copy(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                       int64_t size_bytes) {
    (void)device;
    (void)stream;
    memcpy(to, from, (size_t)size_bytes);
    return SL_OK;
}

static sl_err ref_sync(struct sl_device *device, enum sl_stream stream) {
    (void)device;
    (void)stream;
    return SL_OK;
}

static sl_err ref_bind(struct sl_device *device, const struct sl_program *program,
                       struct sl_exec **out) {
    (void)device;
    for (int i = 0; i < program->instr_count; i++)
        SL_TRY(sl_device_refuse_plan_only(program->instrs[i].op));
    struct ref_exec *exec = calloc(1, sizeof *exec);
    if (!exec)
        sl_out_of_memory(sizeof *exec);
    exec->program = program;
    *out = (struct sl_exec *)exec;
    return SL_OK;
}

static void ref_unbind(struct sl_device *device, struct sl_exec *exec) {
    (void)device;
    if (!exec)
        return;
    sl_arena_free(&((struct ref_exec *)exec)->arena);
    free(exec);
}

static int64_t ref_scratch_bytes(const struct sl_device *device, const struct sl_exec *exec) {
    (void)device;
    (void)exec;
    return 0;
}

static void *address(const struct sl_operand *operand, const struct sl_device_args *args) {
    return (char *)args->base[operand->space] + operand->offset;
}

/* Returns the offset of element i. An operand that is a part of wider rows has gaps. */
static int64_t place(const struct sl_operand *operand, int64_t i) {
    return operand->row ? i / operand->run * operand->row + i % operand->run : i;
}

static struct sl_array widen(struct ref_exec *exec, const struct sl_operand *operand,
                             const struct sl_device_args *args, bool read) {
    struct sl_array array = {.shape = operand->shape};
    if (operand->space == SL_SPACE_NONE)
        return array;
    if (operand->dtype == SL_INT) {
        array.i = address(operand, args);
        return array;
    }
    array.f = SL_NEW(&exec->arena, double, operand->numel);
    const float *from = address(operand, args);
    for (int64_t i = 0; read && i < operand->numel; i++)
        array.f[i] = from[place(operand, i)];
    return array;
}

static void narrow(const struct sl_array *array, const struct sl_operand *operand,
                   const struct sl_device_args *args, bool add) {
    if (operand->space == SL_SPACE_NONE || operand->dtype == SL_INT)
        return;
    float *to = address(operand, args);
    for (int64_t i = 0; i < operand->numel; i++) {
        float *at = &to[place(operand, i)];
        *at = add ? *at + (float)array->f[i] : (float)array->f[i];
    }
}

static void run_instr(struct ref_exec *exec, const struct sl_instr *instr,
                      const struct sl_device_args *args) {
    struct sl_arena_mark mark = sl_arena_mark(&exec->arena);
    struct sl_ref call = {
        .attr = instr->attr,
        .in_count = instr->in_count,
        .out_count = instr->out_count,
        .seed = args->seed,
        .first_sample = args->first_sample,
        .samples = exec->program->samples,
    };
    for (int i = 0; i < instr->in_count; i++)
        call.in[i] = widen(exec, &instr->in[i], args, true);
    for (int i = 0; i < instr->out_count; i++)
        call.out[i] = widen(exec, &instr->out[i], args, false);
    instr->op->ref(&call);
    for (int i = 0; i < instr->out_count; i++)
        narrow(&call.out[i], &instr->out[i], args, i == 0 && instr->accumulate && args->accumulate);
    sl_arena_release(&exec->arena, mark);
}

static sl_err ref_run(struct sl_device *device, struct sl_exec *handle,
                      const struct sl_device_args *args) {
    struct ref_exec *exec = (struct ref_exec *)handle;
    (void)device;
    int begin =
        args->recompute_done ? exec->program->end[SL_PHASE_R] : exec->program->begin[args->phase];
    for (int i = begin; i < exec->program->end[args->phase]; i++) {
        int64_t start = args->op_ns ? sl_clock_ns() : 0;
        run_instr(exec, &exec->program->instrs[i], args);
        if (args->op_ns)
            args->op_ns[i] += sl_clock_ns() - start;
        if (args->after)
            SL_TRY(args->after(args->ctx, i));
    }
    return SL_OK;
}

static sl_err ref_add(struct sl_device *device, void *y, const void *x, int64_t numel) {
    (void)device;
    float *to = y;
    const float *from = x;
    for (int64_t i = 0; i < numel; i++)
        to[i] += from[i];
    return SL_OK;
}

static sl_err ref_step(struct sl_device *device, const struct sl_step_item *items, int count) {
    (void)device;
    for (int i = 0; i < count; i++)
        items[i].param->optim.row->step(&items[i].coef, &items[i].io);
    return SL_OK;
}

static sl_err ref_predict(struct sl_device *device, const struct sl_step_item *items, int count,
                          double ahead) {
    (void)device;
    for (int i = 0; i < count; i++) {
        const struct sl_step_item *item = &items[i];
        struct sl_step_io io = item->io;
        bool made = item->param->optim.row->delta_from == SL_DELTA_STATE;
        if (made) {
            io.delta = sl_realloc(NULL, sizeof *io.delta * (size_t)io.count);
            item->param->optim.row->delta(&item->coef, &io);
        }
        sl_optim_predict(io.count, io.w, io.delta, item->lr, ahead, item->out);
        if (made)
            free(io.delta);
    }
    return SL_OK;
}

static sl_err ref_norm_sq(struct sl_device *device, const struct sl_norm_item *items, int count) {
    (void)device;
    for (int i = 0; i < count; i++)
        *items[i].sum = sl_optim_norm_sq(items[i].x, items[i].count);
    return SL_OK;
}

const struct sl_device_row sl_device_reference = {
    .name = "reference",
    .brief = "double-precision reference of every op; slow; for checks",
    .is_host = true,
    .missing = ref_missing,
    .open = ref_open,
    .close = ref_close,
    .alloc = ref_alloc,
    .free = ref_free,
    .upload = ref_copy,
    .download = ref_copy,
    .copy = ref_copy,
    .sync = ref_sync,
    .bind = ref_bind,
    .unbind = ref_unbind,
    .run = ref_run,
    .scratch_bytes = ref_scratch_bytes,
    .add = ref_add,
    .step = ref_step,
    .predict = ref_predict,
    .norm_sq = ref_norm_sq,
};
