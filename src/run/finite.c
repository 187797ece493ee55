/* Searches for the first value that is not finite. Slow, so it runs only for skipped steps. */
#include "run/finite.h"

#include <math.h>
#include <stdio.h>

enum { PIECE = 4096 }; /* floats fetched at a time */

/* In infinities and NaN all exponent bits are set. */
static bool is_finite_half(uint16_t half, enum sl_dtype dtype) {
    uint16_t exponent = dtype == SL_FP16 ? 0x7C00 : 0x7F80;
    return (half & exponent) != exponent;
}

static sl_err finite_range(struct sl_worker *w, const char *device, enum sl_dtype dtype,
                           int64_t count, bool *finite) {
    const struct sl_device_row *row = w->device->row;
    int64_t size = sl_pass_dtype_bytes(dtype);
    union {
        float f[PIECE];
        uint16_t half[PIECE];
    } piece;
    for (int64_t at = 0; *finite && at < count; at += PIECE) {
        int64_t n = count - at < PIECE ? count - at : PIECE;
        SL_TRY(row->download(w->device, SL_STREAM_COMPUTE, &piece, device + at * size, n * size));
        SL_TRY(row->sync(w->device, SL_STREAM_COMPUTE));
        for (int64_t i = 0; i < n; i++)
            *finite = *finite && (sl_dtype_is_half(dtype) ? is_finite_half(piece.half[i], dtype)
                                                          : isfinite(piece.f[i]));
    }
    return SL_OK;
}

sl_err sl_run_finite_operand(struct sl_worker *w, const struct sl_worker_pass *pass,
                             const struct sl_operand *operand, bool *finite) {
    const char *at = sl_run_worker_operand(w, pass, operand);
    *finite = true;
    if (!at || operand->dtype == SL_INT)
        return SL_OK;
    if (!operand->row)
        return finite_range(w, at, operand->dtype, operand->numel, finite);
    int64_t stride = operand->row * sl_pass_dtype_bytes(operand->dtype);
    for (int64_t i = 0; *finite && i < operand->numel / operand->run; i++)
        SL_TRY(finite_range(w, at + i * stride, operand->dtype, operand->run, finite));
    return SL_OK;
}

struct look {
    struct sl_worker *worker;
    const struct sl_worker_pass *pass;
    struct sl_bad *bad;
};

static sl_err look(void *ctx, int index) {
    struct look *l = ctx;
    const struct sl_program *p = l->worker->programs[l->pass->program];
    const struct sl_instr *instr = &p->instrs[index];
    bool finite = true;
    for (int i = 0; finite && !l->bad->kind && i < instr->out_count; i++)
        SL_TRY(sl_run_finite_operand(l->worker, l->pass, &instr->out[i], &finite));
    if (finite)
        return SL_OK;
    l->bad->kind = SL_BAD_OP;
    l->bad->node = instr->node;
    l->bad->pass = instr->pass;
    l->bad->op = instr->kernel;
    sl_graph_value_name(p->graph, p->graph->nodes.at[instr->node].out[0], l->bad->name);
    return SL_OK;
}

sl_err sl_run_finite_pass(struct sl_worker *worker, const struct sl_worker_pass *pass,
                          struct sl_bad *bad) {
    struct sl_worker_pass looking = *pass;
    struct look ctx = {worker, pass, bad};
    looking.after = look;
    looking.ctx = &ctx;
    return sl_run_worker_pass(worker, &looking);
}

static void name_param(const struct sl_worker *w, const struct sl_program_param *param,
                       enum sl_bad_kind kind, struct sl_bad *bad) {
    bad->kind = kind;
    snprintf(bad->name, sizeof bad->name, "%s", w->graph->params.at[param->param].name);
}

sl_err sl_run_finite_weights(struct sl_worker *w, int version, struct sl_bad *bad) {
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    for (int i = 0; !bad->kind && i < p->param_count; i++) {
        bool finite = true;
        SL_TRY(finite_range(w, sl_run_worker_weight(w, version, i), SL_FLOAT, p->params[i].numel,
                            &finite));
        if (!finite)
            name_param(w, &p->params[i], SL_BAD_WEIGHT, bad);
    }
    for (int i = 0; !bad->kind && i < p->fixed_count; i++) {
        bool finite = true;
        SL_TRY(finite_range(w, (char *)w->fixed + p->fixed[i].offset, SL_FLOAT, p->fixed[i].numel,
                            &finite));
        if (!finite)
            name_param(w, &p->fixed[i], SL_BAD_WEIGHT, bad);
    }
    return SL_OK;
}

sl_err sl_run_finite_inputs(struct sl_worker *w, const struct sl_worker_pass *pass,
                            struct sl_bad *bad) {
    const struct sl_program *p = w->programs[pass->program];
    for (int i = 0; !bad->kind && i < p->inputs.count; i++) {
        bool finite;
        SL_TRY(sl_run_finite_operand(w, pass, &p->inputs.at[i].operand, &finite));
        if (finite)
            continue;
        bad->kind = SL_BAD_INPUT;
        snprintf(bad->name, sizeof bad->name, "%s",
                 p->graph->inputs.at[p->inputs.at[i].index].name);
    }
    return SL_OK;
}

sl_err sl_run_finite_sums(struct sl_worker *w, int grad_slot, struct sl_bad *bad) {
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    SL_TRY(sl_run_worker_sum_uses(w, grad_slot));
    for (int i = 0; !bad->kind && i < p->param_count; i++) {
        bool finite = true;
        SL_TRY(finite_range(w, sl_run_worker_grad(w, grad_slot, i), SL_FLOAT, p->params[i].numel,
                            &finite));
        if (!finite)
            name_param(w, &p->params[i], SL_BAD_SUM, bad);
    }
    return SL_OK;
}

const char *sl_run_pass_tag_name(enum sl_graph_pass pass) {
    static const char *const names[] = {
        [SL_PASS_F] = "forward", [SL_PASS_I] = "input gradient", [SL_PASS_W] = "weight gradient"};
    return names[pass];
}

void sl_run_bad_put(struct sl_text *text, const struct sl_bad *bad) {
    switch (bad->kind) {
    case SL_BAD_NONE: sl_text_put(text, "where is not known"); break;
    case SL_BAD_WEIGHT:
        sl_text_printf(text, "weight %s was not finite before the step", bad->name);
        break;
    case SL_BAD_INPUT:
        sl_text_printf(text, "input %s of micro-batch %lld is not finite", bad->name,
                       (long long)bad->micro);
        break;
    case SL_BAD_OP:
        sl_text_printf(text, "first in %s (%s, %s) of stage %d, micro-batch %lld", bad->name,
                       bad->op, sl_run_pass_tag_name(bad->pass), bad->stage, (long long)bad->micro);
        break;
    case SL_BAD_SUM:
        sl_text_printf(text, "first in the sum of the gradients of %s", bad->name);
        break;
    case SL_BAD_SCALE: sl_text_put(text, "the loss was scaled by too much"); break;
    }
}
