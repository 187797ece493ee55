/* A worker: the memory of a stage on a device, and single passes of micro-batches. */
#include "run/worker.h"

#include "plan/bytes.h"
#include "run/audit.h"

#include <stdlib.h>
#include <string.h>

static sl_err alloc_bytes(struct sl_worker *w, int64_t size_bytes, void **out) {
    w->bytes += size_bytes;
    return w->device->row->alloc(w->device, size_bytes ? size_bytes : 64, out);
}

static sl_err alloc_slabs(struct sl_worker *w, int count, int64_t size_bytes, void ***out) {
    *out = calloc((size_t)count + 1, sizeof **out);
    if (!*out)
        sl_out_of_memory((size_t)count);
    for (int i = 0; i < count; i++)
        SL_TRY(alloc_bytes(w, size_bytes, &(*out)[i]));
    return SL_OK;
}

static void free_slabs(struct sl_worker *w, int count, void **slabs) {
    for (int i = 0; slabs && i < count; i++)
        w->device->row->free(w->device, slabs[i]);
    free(slabs);
}

static sl_err build_program(struct sl_worker *w, enum sl_worker_program which,
                            const struct sl_program_spec *spec) {
    SL_TRY(sl_pass_program_build(spec, &w->programs[which]));
    SL_TRY(w->device->row->bind(w->device, w->programs[which], &w->execs[which]));
    w->bytes += w->device->row->scratch_bytes(w->device, w->execs[which]);
    return SL_OK;
}

static sl_err build_programs(struct sl_worker *w, const struct sl_worker_config *config) {
    struct sl_program_spec spec = {
        .graph = config->graph,
        .stage_of = config->stage_of,
        .stage = config->stage,
        .samples = config->samples,
        .has_kernel = config->has_kernel,
        .dtype = config->dtype,
        .split = config->split,
        .recompute = config->recompute,
    };
    SL_TRY(build_program(w, SL_WORKER_FULL, &spec));
    spec.samples = config->last_samples;
    if (spec.samples && spec.samples != config->samples)
        SL_TRY(build_program(w, SL_WORKER_LAST, &spec));
    spec.graph = config->eval_graph;
    spec.samples = config->eval_samples;
    if (spec.graph)
        SL_TRY(build_program(w, SL_WORKER_EVAL, &spec));
    return SL_OK;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Lends the work area, and finds a slot for evaluation, which runs between training passes. It uses
 * a training slot if one is large enough, else WORK, which is free then. */
void sl_run_worker_lend(struct sl_worker *w, void *work, void *staging) {
    w->work = work;
    w->staging = staging;
    w->slot[w->slots] = w->eval_in_work ? work : w->slot[0];
}

static sl_err alloc_work(struct sl_worker *w) {
    void *work = NULL;
    if (w->borrows)
        return SL_OK;
    SL_TRY(alloc_bytes(w, w->work_bytes, &work));
    sl_run_worker_lend(w, work, sl_realloc(NULL, (size_t)w->staging_bytes));
    return SL_OK;
}

static sl_err alloc_memory(struct sl_worker *w) {
    const struct sl_program *full = w->programs[SL_WORKER_FULL];
    const struct sl_program *eval = w->programs[SL_WORKER_EVAL];
    int64_t slot = 0, work = 0, staging = 0;
    for (int i = 0; i < SL_WORKER_PROGRAMS; i++) {
        const struct sl_program *p = w->programs[i];
        if (!p)
            continue;
        SL_ASSERT(p->param_bytes == full->param_bytes && p->state_bytes == full->state_bytes &&
                  p->fixed_bytes == full->fixed_bytes);
        /* the evaluation program comes last and has no slot of its own */
        if (i != SL_WORKER_EVAL) {
            slot = larger(slot, p->slot_bytes);
            w->train_work_bytes = larger(w->train_work_bytes, p->work_bytes);
        } else if (w->eval_in_flight || p->slot_bytes > slot) {
            work = larger(work, p->slot_bytes);
        }
        work = larger(work, p->work_bytes);
        staging = larger(staging, sl_plan_staging_bytes(p));
    }
    w->slot_bytes = slot;
    SL_TRY(alloc_slabs(w, w->slots, slot, &w->slot));
    SL_TRY(alloc_slabs(w, w->versions, full->param_bytes, &w->param));
    SL_TRY(alloc_slabs(w, w->grad_slots, full->grad_bytes, &w->grad));
    SL_TRY(alloc_slabs(w, w->state_count, w->own.count * 4, &w->opt));
    if (full->fixed_bytes)
        SL_TRY(alloc_bytes(w, full->fixed_bytes, &w->fixed));
    SL_TRY(alloc_bytes(w, full->state_bytes, &w->state));
    w->work_bytes = work;
    w->staging_bytes = staging;
    w->eval_in_work = w->slots == 0 || w->eval_in_flight || (eval && eval->slot_bytes > slot);
    SL_TRY(alloc_work(w));
    w->tied = calloc((size_t)full->param_count + 1, sizeof *w->tied);
    if (!w->tied)
        sl_out_of_memory((size_t)full->param_count);
    return SL_OK;
}

static struct sl_part own_of(const struct sl_worker *w, const struct sl_worker_config *config) {
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    if (!config->divides)
        return (struct sl_part){0, p->param_bytes / 4};
    struct sl_owned own = sl_plan_owned(p, config->divides, config->width, config->replica);
    return (struct sl_part){own.first, own.count};
}

sl_err sl_run_worker_open(struct sl_device *device, const struct sl_worker_config *config,
                          struct sl_worker **out) {
    struct sl_worker *w = calloc(1, sizeof *w);
    if (!w)
        sl_out_of_memory(sizeof *w);
    sl_err err = SL_OK;
    w->device = device;
    w->graph = config->graph;
    w->stage = config->stage;
    w->slots = config->slots;
    w->versions = config->versions;
    w->grad_slots = config->grad_slots;
    w->state_count = config->state_count;
    w->borrows = config->borrows;
    w->eval_in_flight = config->eval_in_flight;
    if (!sl_device_takes(device->row, config->dtype))
        SL_TRY_OUT(sl_fail(SL_ERR_REFUSED, "device '%s' has no %s; set `dtype` to fp32",
                           device->row->name, config->dtype == SL_FP16 ? "fp16" : "bf16"));
    SL_TRY_OUT(build_programs(w, config));
    w->own = own_of(w, config);
    SL_TRY_OUT(alloc_memory(w));
    SL_TRY_OUT(sl_run_worker_init(w, config->seed));
    if (config->audit)
        SL_TRY_OUT(sl_run_audit_open(w, config->audit, config->seed));
    *out = w;
out:
    if (err != SL_OK)
        sl_run_worker_close(w);
    return err;
}

void sl_run_worker_close(struct sl_worker *w) {
    if (!w)
        return;
    sl_run_audit_close(w);
    free_slabs(w, w->slots, w->slot);
    free_slabs(w, w->versions, w->param);
    free_slabs(w, w->grad_slots, w->grad);
    free_slabs(w, w->state_count, w->opt);
    if (w->fixed)
        w->device->row->free(w->device, w->fixed);
    w->device->row->free(w->device, w->state);
    if (!w->borrows) {
        w->device->row->free(w->device, w->work);
        free(w->staging);
    }
    for (int i = 0; i < SL_WORKER_PROGRAMS; i++) {
        w->device->row->unbind(w->device, w->execs[i]);
        sl_pass_program_close(w->programs[i]);
    }
    free(w->tied);
    free(w);
}

enum sl_worker_program sl_run_worker_program_for(const struct sl_worker *w, int64_t samples) {
    if (w->programs[SL_WORKER_FULL]->samples == samples)
        return SL_WORKER_FULL;
    SL_ASSERT(w->programs[SL_WORKER_LAST] && w->programs[SL_WORKER_LAST]->samples == samples);
    return SL_WORKER_LAST;
}

static void *base_of(const struct sl_worker *w, const struct sl_worker_pass *pass,
                     enum sl_space space) {
    switch (space) {
    case SL_SPACE_PARAM: return w->param[pass->version];
    case SL_SPACE_FIXED: return w->fixed;
    case SL_SPACE_GRAD: return w->grad[pass->grad_slot];
    case SL_SPACE_STATE: return w->state;
    case SL_SPACE_SLOT: return w->slot[pass->slot];
    case SL_SPACE_WORK: return w->work;
    default: return NULL;
    }
}

void *sl_run_worker_operand(const struct sl_worker *w, const struct sl_worker_pass *pass,
                            const struct sl_operand *operand) {
    char *base = base_of(w, pass, operand->space);
    return base ? base + operand->offset : NULL;
}

sl_err sl_run_worker_pass(struct sl_worker *w, const struct sl_worker_pass *pass) {
    return w->audit && pass->program != SL_WORKER_EVAL ? sl_run_audit_pass(w, pass)
                                                       : sl_run_worker_run(w, pass);
}

sl_err sl_run_worker_run(struct sl_worker *w, const struct sl_worker_pass *pass) {
    struct sl_device_args args = {
        .phase = pass->phase,
        .recompute_done = pass->recompute_done,
        .accumulate = pass->accumulate,
        .seed = pass->seed,
        .first_sample = pass->first_sample,
        .op_ns = pass->op_ns,
        .after = pass->after,
        .ctx = pass->ctx,
    };
    for (int space = 0; space < SL_SPACE_COUNT; space++)
        args.base[space] = base_of(w, pass, (enum sl_space)space);
    return w->device->row->run(w->device, w->execs[pass->program], &args);
}

static char *port_address(const struct sl_worker *w, int slot, const struct sl_operand *operand) {
    char *base = operand->space == SL_SPACE_WORK ? w->work : w->slot[slot];
    return base + operand->offset;
}

sl_err sl_run_worker_put(struct sl_worker *w, int slot, const struct sl_program_port *port,
                         const void *host) {
    return w->device->row->upload(w->device, SL_STREAM_COMPUTE,
                                  port_address(w, slot, &port->operand), host,
                                  port->operand.numel * 4);
}

sl_err sl_run_worker_get(struct sl_worker *w, int slot, const struct sl_program_port *port,
                         void *host) {
    return sl_run_worker_get_part(w, slot, port, (struct sl_part){0, port->operand.numel}, host);
}

sl_err sl_run_worker_get_part(struct sl_worker *w, int slot, const struct sl_program_port *port,
                              struct sl_part part, void *host) {
    const char *from = port_address(w, slot, &port->operand) + part.first * 4;
    SL_ASSERT(part.first >= 0 && part.first + part.count <= port->operand.numel);
    SL_TRY(w->device->row->download(w->device, SL_STREAM_COMPUTE, host, from, part.count * 4));
    return w->device->row->sync(w->device, SL_STREAM_COMPUTE);
}

struct sum {
    struct sl_worker *worker;
    int grad_slot;
};

static sl_err sum_uses(void *ctx, bool repeated) {
    struct sl_worker *w = ((struct sum *)ctx)->worker;
    int grad_slot = ((struct sum *)ctx)->grad_slot;
    const struct sl_program *p = w->programs[0];
    (void)repeated;
    for (int i = 0; i < p->param_count; i++) {
        const struct sl_program_use *uses = &p->uses[p->params[i].first_use];
        char *slab = w->grad[grad_slot];
        for (int u = 1; !w->tied[i] && u < p->params[i].use_count; u++)
            SL_TRY(w->device->row->add(w->device, slab + uses[0].offset, slab + uses[u].offset,
                                       p->params[i].numel));
    }
    return SL_OK;
}

sl_err sl_run_worker_sum_uses(struct sl_worker *w, int grad_slot) {
    struct sum sum = {w, grad_slot};
    struct sl_audited audited = {
        .what = "a sum of gradients",
        .regions = {{w->grad[grad_slot], w->programs[0]->grad_bytes, "gradients"}},
        .region_count = 1,
        .act = sum_uses,
        .ctx = &sum,
    };
    return sl_run_audit_act(w, &audited);
}

sl_err sl_run_worker_copy_weights(struct sl_worker *w, int to, int from) {
    return w->device->row->copy(w->device, SL_STREAM_COMPUTE, w->param[to], w->param[from],
                                w->programs[SL_WORKER_FULL]->param_bytes);
}

enum { PART = 4096 }; /* floats copied through the host at a time */

sl_err sl_run_worker_clear_grads(struct sl_worker *w, int grad_slot) {
    static const float zeros[PART];
    int64_t bytes = w->programs[0]->grad_bytes;
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof zeros) {
        int64_t part = bytes - at < (int64_t)sizeof zeros ? bytes - at : (int64_t)sizeof zeros;
        SL_TRY(w->device->row->upload(w->device, SL_STREAM_COMPUTE, (char *)w->grad[grad_slot] + at,
                                      zeros, part));
    }
    return w->device->row->sync(w->device, SL_STREAM_COMPUTE);
}

sl_err sl_run_worker_scale_state(struct sl_worker *w, float by) {
    float part[PART];
    int64_t bytes = w->programs[0]->state_bytes;
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof part) {
        int64_t size = bytes - at < (int64_t)sizeof part ? bytes - at : (int64_t)sizeof part;
        char *memory = (char *)w->state + at;
        SL_TRY(w->device->row->download(w->device, SL_STREAM_COMPUTE, part, memory, size));
        SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE));
        for (int64_t i = 0; i < size / (int64_t)sizeof *part; i++)
            part[i] *= by;
        SL_TRY(w->device->row->upload(w->device, SL_STREAM_COMPUTE, memory, part, size));
        SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE));
    }
    return SL_OK;
}

const struct sl_program_param *sl_run_worker_find(const struct sl_program_param *list, int count,
                                                  int index) {
    for (int i = 0; i < count; i++)
        if (list[i].param == index)
            return &list[i];
    return NULL;
}

void *sl_run_worker_weight(const struct sl_worker *w, int version, int param) {
    return (char *)w->param[version] + w->programs[0]->params[param].offset;
}

void *sl_run_worker_grad(const struct sl_worker *w, int grad_slot, int param) {
    const struct sl_program *p = w->programs[0];
    return (char *)w->grad[grad_slot] + p->uses[p->params[param].first_use].offset;
}

struct sl_part sl_run_worker_own(const struct sl_worker *w, int param) {
    const struct sl_program_param *p = &w->programs[0]->params[param];
    int64_t at = p->offset / 4, first = larger(w->own.first - at, 0);
    int64_t end = w->own.first + w->own.count - at;
    end = end < p->numel ? end : p->numel;
    return (struct sl_part){first, larger(end - first, 0)};
}

void *sl_run_worker_opt(const struct sl_worker *w, int state, int param) {
    int64_t at = w->programs[0]->params[param].offset / 4 - w->own.first;
    return (char *)w->opt[state] + larger(at, 0) * 4;
}
