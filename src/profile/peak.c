/* Measures the peak of a device with a program that computes y = x w with square matrices. */
#include "profile/peak.h"

#include "base/clock.h"
#include "op/registry.h"

enum { SIDE = 512 };

struct bench {
    struct sl_graph *graph;
    struct sl_program *program;
    struct sl_device *device;
    struct sl_exec *exec;
    struct sl_device_args args;
    int64_t last_ns, best_ns; /* processor time of the last product and of the fastest */
};

static sl_err build(struct bench *b, const struct sl_device_row *row) {
    const int64_t side = SIDE;
    struct sl_init normal = {SL_INIT_NORMAL, 1, 0};
    int x, w, y, sum;
    b->graph = sl_graph_open("peak", sl_op_find);
    SL_TRY(sl_graph_input(b->graph, "x", SL_FLOAT, SL_SHAPE(2, 1, 1, side), 0, &x));
    SL_TRY(sl_graph_param(b->graph, "w", SL_SHAPE(2, 0, side, side), normal, &w));
    SL_TRY(sl_graph_apply(b->graph, "matmul", 2, (int[]){x, w}, NULL, &y));
    SL_TRY(sl_graph_apply(b->graph, "reduce_sum", 1, &y, NULL, &sum));
    SL_TRY(sl_graph_loss(b->graph, "loss", sum, 1));
    SL_TRY(sl_graph_check(b->graph));
    struct sl_program_spec spec = {
        .graph = b->graph, .samples = side, .has_kernel = row->has_kernel};
    return sl_pass_program_build(&spec, &b->program);
}

static sl_err open_memory(struct bench *b) {
    const struct sl_program *p = b->program;
    const struct sl_device_row *row = b->device->row;
    const int64_t bytes[SL_SPACE_COUNT] = {
        [SL_SPACE_PARAM] = p->param_bytes,
        [SL_SPACE_SLOT] = p->slot_bytes,
        [SL_SPACE_WORK] = p->work_bytes,
    };
    for (int s = 0; s < SL_SPACE_COUNT; s++)
        if (bytes[s])
            SL_TRY(row->alloc(b->device, bytes[s], &b->args.base[s]));
    return row->bind(b->device, p, &b->exec);
}

static bool is_product(const struct sl_instr *instr) {
    return instr->op->layer == SL_LAYER_PRODUCT;
}

static sl_err after(void *ctx, int instr) {
    struct bench *b = ctx;
    int64_t now = sl_clock_cpu_ns(), took = now - b->last_ns;
    b->last_ns = now;
    if (is_product(&b->program->instrs[instr]) && took > 0 && took < b->best_ns)
        b->best_ns = took;
    return SL_OK;
}

/* The memory is zero; the time of a product does not depend on the values. */
static sl_err measure(struct bench *b, int64_t budget_ns) {
    int64_t start = sl_clock_ns();
    b->best_ns = INT64_MAX;
    b->args.after = after;
    b->args.ctx = b;
    do {
        b->last_ns = sl_clock_cpu_ns();
        SL_TRY(b->device->row->run(b->device, b->exec, &b->args));
    } while (sl_clock_ns() - start < budget_ns);
    return SL_OK;
}

static double product_flops(const struct sl_program *p) {
    double flops = 0;
    for (int i = 0; i < p->instr_count; i++)
        flops += is_product(&p->instrs[i]) ? p->instrs[i].flops : 0;
    return flops;
}

sl_err sl_profile_peak(const struct sl_device_row *row, int64_t budget_ns, double *flops_per_s) {
    struct bench b = {0};
    struct sl_device_config config = {.threads = 1};
    sl_err err = SL_OK;
    SL_TRY_OUT(build(&b, row));
    SL_TRY_OUT(row->open(&config, &b.device));
    SL_TRY_OUT(open_memory(&b));
    err = measure(&b, budget_ns);
    *flops_per_s = 1e9 * product_flops(b.program) / (double)b.best_ns;
out:
    if (b.device) {
        row->unbind(b.device, b.exec);
        for (int s = 0; s < SL_SPACE_COUNT; s++)
            row->free(b.device, b.args.base[s]);
        row->close(b.device);
    }
    if (b.program)
        sl_pass_program_close(b.program);
    if (b.graph)
        sl_graph_close(b.graph);
    return err;
}
