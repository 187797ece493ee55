/* Instructions with bf16 operands: kernels compute in float, on copies in scratch.
 *
 *     scratch   [ of the kernel | in 0 | in 2 | out 0 ]      only bf16 operands have copies
 *
 * Inputs are widened before the kernel, which is exact. Sums and intermediate values are float. The
 * result is rounded into its operand after the kernel: once. */
#include "device/cpu/halves.h"

struct widened {
    struct sl_instr instr;
    struct sl_operand in[SL_INSTR_IN], out[SL_INSTR_OUT];
};

static struct sl_operand as_float(const struct sl_operand *operand) {
    struct sl_operand wide = *operand;
    if (operand->dtype == SL_BF16) {
        wide.dtype = SL_FLOAT;
        wide.row = wide.run = wide.within = 0;
    }
    return wide;
}

static void widen(const struct sl_instr *instr, struct widened *w) {
    w->instr = *instr;
    w->instr.in = w->in;
    w->instr.out = w->out;
    for (int i = 0; i < instr->in_count; i++)
        w->in[i] = as_float(&instr->in[i]);
    for (int i = 0; i < instr->out_count; i++)
        w->out[i] = as_float(&instr->out[i]);
}

static bool is_half(const struct sl_operand *operand) {
    return operand->space != SL_SPACE_NONE && operand->dtype == SL_BF16;
}

static int64_t copy_bytes(const struct sl_operand *operand) {
    return is_half(operand) ? sl_device_whole_lines(operand->numel * (int64_t)sizeof(float)) : 0;
}

static int64_t own_bytes(const struct sl_device_cpu_kernel *kernel, const struct widened *w,
                         int threads) {
    return kernel->scratch_bytes ? sl_device_whole_lines(kernel->scratch_bytes(&w->instr, threads))
                                 : 0;
}

int64_t sl_device_cpu_halves_bytes(const struct sl_device_cpu_kernel *kernel,
                                   const struct sl_instr *instr, int threads) {
    struct widened w;
    widen(instr, &w);
    int64_t bytes = own_bytes(kernel, &w, threads);
    for (int i = 0; i < instr->in_count; i++)
        bytes += copy_bytes(&instr->in[i]);
    for (int i = 0; i < instr->out_count; i++)
        bytes += copy_bytes(&instr->out[i]);
    return bytes;
}

/* Converts one operand from bf16 to float, or back. */
static void convert(const struct sl_device_cpu_call *call, const char *kernel,
                    const struct sl_operand *operand, const void *from, void *to) {
    struct sl_operand one = *operand;
    struct sl_instr instr = {.in_count = 1, .out_count = 1, .in = &one, .out = &one};
    struct sl_device_cpu_call inner = {
        .instr = &instr, .in = {from}, .out = {to}, .pool = call->pool};
    sl_device_cpu_find(kernel)->run(&inner);
}

void sl_device_cpu_halves_run(const struct sl_device_cpu_kernel *kernel,
                              const struct sl_device_cpu_call *call) {
    const struct sl_instr *instr = call->instr;
    struct widened w;
    struct sl_device_cpu_call inner = *call;
    widen(instr, &w);
    inner.instr = &w.instr;
    char *room = (char *)call->scratch + own_bytes(kernel, &w, sl_device_pool_threads(call->pool));
    for (int i = 0; i < instr->in_count; i++) {
        if (!is_half(&instr->in[i]))
            continue;
        convert(call, "bf16_widen", &instr->in[i], call->in[i], room);
        inner.in[i] = room;
        room += copy_bytes(&instr->in[i]);
    }
    for (int i = 0; i < instr->out_count; i++)
        if (is_half(&instr->out[i])) {
            if (i == 0 && call->add)
                convert(call, "bf16_widen", &instr->out[i], call->out[i], room);
            inner.out[i] = room;
            room += copy_bytes(&instr->out[i]);
        }
    kernel->run(&inner);
    for (int i = 0; i < instr->out_count; i++)
        if (is_half(&instr->out[i]))
            convert(call, "bf16_round", &instr->out[i], inner.out[i], call->out[i]);
}
