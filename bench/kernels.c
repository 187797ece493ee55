/* Speed of the pointwise CPU kernels on the sizes of a small GPT and of a ResNet: GB/s of the bytes
 * they must read and write, compared with a copy of the same bytes (identity) that alternates with
 * them.
 *
 *   kernels [--threads N] [--isa avx512|avx2|any] [--only NAME] [--seconds S] [--python PYTHON]
 *
 * With the Python of a PyTorch installation, adds torch_us and ratio (torch / ours).
 */
#include "base/clock.h"
#include "base/rng.h"
#include "device/cpu/optim.h"
#include "op/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { INPUTS = 6 };

/* Shapes as text. A leading i: an int input with values below the number after the colon; s: a
 * state; B: the first axis is the micro-batch. */
struct row {
    const char *kernel;
    const char *in[INPUTS];
    int64_t attr; /* of the first attribute */
    double attr_f;
};

static const struct row rows[] = {
    {"identity", {"2048,1536"}, 0, 0},
    {"add", {"2048,384", "2048,384"}, 0, 0},
    {"add", {"2048,1536", "1536"}, 0, 0},
    {"mul", {"2048,1536", "2048,1536"}, 0, 0},
    {"scale", {"2048,1536"}, 0, 0.5},
    {"relu", {"2048,1536"}, 0, 0},
    {"relu_dx", {"2048,1536", "2048,1536"}, 0, 0},
    {"gelu", {"128,1536"}, 0, 0},
    {"gelu", {"2048,1536"}, 0, 0},
    {"gelu_dx", {"2048,1536", "2048,1536"}, 0, 0},
    {"gelu", {"128,1536"}, 1, 0},
    {"gelu", {"2048,1536"}, 1, 0},
    {"gelu_dx", {"2048,1536", "2048,1536"}, 1, 0},
    {"silu", {"2048,1536"}, 0, 0},
    {"tanh", {"2048,1536"}, 0, 0},
    {"sigmoid", {"2048,1536"}, 0, 0},
    {"exp", {"128,1536"}, 0, 0},
    {"dropout", {"B2048,384"}, 0, 0.1},
    {"softmax", {"12288,256"}, 0, 0},
    {"softmax_dx", {"12288,256", "12288,256"}, 0, 0},
    {"layernorm", {"2048,384", "384", "384"}, 0, 1e-5},
    {"layernorm_dx", {"2048,384", "2048,384", "384", "2048", "2048"}, 0, 0},
    {"layernorm_dw", {"2048,384", "2048,384", "2048", "2048"}, 0, 0},
    {"rmsnorm", {"2048,384", "384"}, 0, 1e-5},
    {"embed", {"50257,384", "i2048:50257"}, 0, 0},
    {"embed_dw", {"2048,384", "i2048:50257"}, 50257, 0},
    {"cross_entropy", {"256,50257", "i256:50257"}, -100, 0},
    {"cross_entropy_dx", {"", "256,50257", "i256:50257", "256"}, -100, 0},
    {"cross_entropy", {"2048,256", "i2048:256"}, -100, 0},
    {"mse", {"2048,1536", "2048,1536"}, 0, 0},
    {"bce_with_logits", {"2048,1536", "2048,1536"}, 0, 1},
    {"batchnorm", {"64,64,32,32", "64", "64", "s64", "s64"}, 0, 1e-5},
    {"batchnorm_dx", {"64,64,32,32", "64,64,32,32", "64", "64", "64"}, 0, 0},
    {"batchnorm", {"64,512,4,4", "512", "512", "s512", "s512"}, 0, 1e-5},
    {"global_avgpool", {"64,512,4,4"}, 0, 0},
    {"rope", {"8,256,6,64"}, 0, 10000},
    {"dot_interaction", {"256,27,64"}, 0, 0},
    {"dot_interaction_dx", {"256,351", "256,27,64"}, 0, 0},
};

/* Ops whose first attribute is a shape or a list. */
struct shaped {
    const char *kernel, *in, *label;
    union sl_attr attr[3];
};

static const struct shaped shaped[] = {
    {"sum_to", "2048,1536", "1536", {{.shape = {.rank = 1, .dim = {1536}}}}},
    {"sum_to", "2048,384", "384", {{.shape = {.rank = 1, .dim = {384}}}}},
    {"sum_to", "64,64,32,32", "1,64,1,1", {{.shape = {.rank = 4, .dim = {1, 64, 1, 1}}}}},
    {"transpose", "8,256,6,64", "0,2,1,3", {{.ints = {4, {0, 2, 1, 3}}}}},
    {"transpose", "2048,1536", "1,0", {{.ints = {2, {1, 0}}}}},
    {"slice", "2048,1152", "last third", {{.i = 1}, {.i = 384}, {.i = 768}}},
};

struct options {
    int threads;
    const char *isa, *only;
    double seconds;
};

struct bench {
    struct sl_graph *graph;
    struct sl_instr instr;
    struct sl_operand in[SL_INSTR_IN], out[SL_INSTR_OUT];
    struct sl_device_cpu_call call;
    const struct sl_device_cpu_kernel *kernel;
    double bytes;
};

static void must(sl_err err) {
    if (err == SL_OK)
        return;
    fprintf(stderr, "kernels: %s\n", sl_err_message());
    exit(1);
}

static struct sl_shape parse(const char *text) {
    struct sl_shape shape = {.batch = *text == 'B'};
    for (const char *at = text + shape.batch; *at && *at != ':';) {
        char *end;
        shape.dim[shape.rank++] = strtoll(at, &end, 10);
        at = end + (*end == ',');
    }
    return shape;
}

static void *fill(int64_t count, int64_t below) {
    size_t page = count * 4 < 1 << 21 ? 64 : 1 << 21,
           size = ((size_t)count * 4 + page) / page * page;
    float *memory = aligned_alloc(page, size);
    madvise(memory, size, MADV_HUGEPAGE); /* as the device does */
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = sl_rng_u32(1, 2, (uint64_t)i);
        if (below)
            ((int32_t *)memory)[i] = (int32_t)(word % (uint32_t)below);
        else
            memory[i] = (float)word * 0x1p-31f - 0.999f;
    }
    return memory;
}

static int add_input(struct bench *b, const char *text, int index) {
    char name[16];
    int value;
    bool is_int = *text == 'i', is_state = *text == 's';
    const char *below = strchr(text, ':');
    struct sl_shape shape = parse(text + (is_int || is_state));
    snprintf(name, sizeof name, "x%d", index);
    if (is_state)
        must(sl_graph_state(b->graph, name, shape, (struct sl_init){0}, &value));
    else
        must(sl_graph_input(b->graph, name, is_int ? SL_INT : SL_FLOAT, shape, 0, &value));
    int64_t count = sl_graph_shape_numel(&shape, 1);
    b->call.in[index] = fill(count, below ? atoll(below + 1) : 0);
    b->in[index] = (struct sl_operand){.shape = shape, .numel = count};
    return value;
}

static void find_kernel(struct bench *b, const char *name, const char *isa) {
    for (int t = 0; sl_device_cpu_tables[t] && !b->kernel; t++)
        if (!isa || strcmp(isa, sl_device_cpu_tables[t]->isa) == 0)
            b->kernel = sl_device_cpu_table_find(sl_device_cpu_tables[t], name);
    if (!b->kernel) {
        fprintf(stderr, "kernels: no kernel '%s' for %s\n", name, isa ? isa : "this machine");
        exit(1);
    }
}

static void bench_open(struct bench *b, const char *kernel, const char *const in[],
                       const union sl_attr *attr) {
    int value[INPUTS], out, count = 0;
    b->graph = sl_graph_open("bench", sl_op_find);
    for (; count < INPUTS && in[count]; count++)
        value[count] = add_input(b, in[count], count);
    must(sl_graph_apply(b->graph, kernel, count, value, attr, &out));
    const struct sl_node *node = &b->graph->nodes.at[0];
    for (int i = 0; i < node->out_count; i++) {
        b->out[i].shape = sl_graph_value(b->graph, node->out[i])->shape;
        b->out[i].numel = sl_graph_shape_numel(&b->out[i].shape, 1);
        b->call.out[i] = fill(b->out[i].numel, 0);
    }
    struct sl_op_view view;
    sl_graph_view(b->graph, node, 1, &view);
    for (int i = 0; i < count; i++)
        b->bytes += 4.0 * (double)b->in[i].numel;
    for (int i = 0; i < node->out_count; i++)
        b->bytes += 4.0 * (double)b->out[i].numel;
    if (node->op->bytes)
        b->bytes = node->op->bytes(&view);
    b->instr = (struct sl_instr){.op = node->op,
                                 .kernel = kernel,
                                 .attr = node->attr,
                                 .in_count = count,
                                 .out_count = node->out_count,
                                 .in = b->in,
                                 .out = b->out};
    b->call.instr = &b->instr;
    b->call.samples = 1;
}

static void bench_close(struct bench *b) {
    for (int i = 0; i < b->instr.in_count; i++)
        free((void *)b->call.in[i]);
    for (int i = 0; i < b->instr.out_count; i++)
        free(b->call.out[i]);
    free(b->call.scratch);
    sl_graph_close(b->graph);
}

/* One thread is measured by its CPU time, which excludes time without a core. */
static int64_t now(bool alone) {
    struct timespec used;
    if (!alone)
        return sl_clock_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1000000000 + used.tv_nsec;
}

static int64_t time_of(struct bench *b) {
    bool alone = sl_device_pool_threads(b->call.pool) == 1;
    int64_t start = now(alone);
    b->kernel->run(&b->call);
    return now(alone) - start;
}

static int64_t time_copy(char *to, const char *from, int64_t bytes) {
    int64_t start = now(true);
    memcpy(to, from, (size_t)bytes);
    return now(true) - start;
}

/* Best times of the kernel and of a copy of half its bytes (read + written: the same traffic), five
 * of each, alternating. On a shared machine the best time is the least disturbed. */
static void measure(struct bench *b, const struct options *o, const char *label) {
    int64_t half = (int64_t)(b->bytes / 2), end, best = INT64_MAX, copy = INT64_MAX;
    char *from = fill(half / 4 + 1, 0), *to = fill(half / 4 + 1, 0);
    time_of(b);
    end = sl_clock_ns() + (int64_t)(o->seconds * 1e9);
    do {
        for (int i = 0; i < 5; i++) {
            int64_t ns = time_of(b);
            best = ns < best ? ns : best;
        }
        for (int i = 0; i < 5; i++) {
            int64_t ns = time_copy(to, from, half);
            copy = ns < copy ? ns : copy;
        }
    } while (sl_clock_ns() < end);
    printf("RESULT bench=kernels kernel=%s shape=%s isa=%s threads=%d us=%.1f gbs=%.1f "
           "copy1_gbs=%.1f of_copy1=%.2f\n",
           b->instr.kernel, label, o->isa ? o->isa : "best", o->threads, (double)best / 1e3,
           b->bytes / (double)best, b->bytes / (double)copy, (double)copy / (double)best);
    fflush(stdout);
    free(from);
    free(to);
}

static void run_row(const char *kernel, const char *const in[], const union sl_attr *attr,
                    const struct options *o, struct sl_device_pool *pool) {
    struct bench b = {.call = {.pool = pool}};
    char label[96] = "";
    if (o->only && strcmp(o->only, kernel) != 0)
        return;
    find_kernel(&b, kernel, o->isa);
    bench_open(&b, kernel, in, attr);
    if (b.kernel->scratch_bytes) {
        size_t size = (size_t)b.kernel->scratch_bytes(&b.instr, o->threads);
        b.call.scratch = aligned_alloc(64, (size + 127) / 64 * 64);
    }
    const char *erf = strncmp(kernel, "gelu", 4) == 0 && attr[0].i ? "/erf" : "";
    const char *first = *in[0] ? in[0] : in[1];
    snprintf(label, sizeof label, "%s%s%s%s", first, in[1] ? "x" : "", in[1] ? in[1] : "", erf);
    measure(&b, o, label);
    bench_close(&b);
}

static void bench_ops(const struct options *o, struct sl_device_pool *pool) {
    for (int i = 0; i < SL_COUNT(rows); i++) {
        const struct sl_op *op = sl_op_find(sl_str(rows[i].kernel));
        union sl_attr attr[SL_MAX_ATTR] = {{0}};
        int count = sl_graph_op_attr_count(op);
        if (count)
            must(sl_graph_op_defaults(op, 1, attr));
        if (count && op->attrs[0].kind == SL_ATTR_FLOAT)
            attr[0].f = rows[i].attr_f;
        else if (count)
            attr[0].i = rows[i].attr;
        run_row(rows[i].kernel, rows[i].in, attr, o, pool);
    }
    for (int i = 0; i < SL_COUNT(shaped); i++)
        run_row(shaped[i].kernel, (const char *const[INPUTS]){shaped[i].in}, shaped[i].attr, o,
                pool);
}

/* ---- optimizers ---- */

static void bench_optimizer(const char *name, const struct options *o,
                            struct sl_device_pool *pool) {
    struct sl_optim optim;
    struct sl_optim_shape shape = {.rank = 2, .dim = {1536, 2048}};
    if (o->only && (strncmp(o->only, "step_", 5) != 0 || strcmp(o->only + 5, name) != 0))
        return;
    must(sl_optim_parse(name, &optim));
    struct sl_optim_param param = sl_optim_for(&optim, &shape);
    struct sl_step_item item = {.param = &param, .coef = sl_optim_coef(&param, 1, 1e-3, 1)};
    item.io = (struct sl_step_io){.count = param.count,
                                  .w = fill(param.count, 0),
                                  .g = fill(param.count, 0),
                                  .state = {fill(param.count, 0), fill(param.count, 0)}};
    for (int64_t i = 0; i < param.count; i++)
        item.io.state[1][i] *= item.io.state[1][i];
    struct sl_device_cpu_room room = {0};
    item.io.rows = shape.dim[0];
    item.io.cols = shape.dim[1];
    item.io.scratch = fill(sl_optim_scratch_bytes(&param) / 4 + 1, 0);
    int tensors = 3 + 2 * optim.row->state_count; /* w read and written, g read, state both */
    int64_t best = INT64_MAX;
    for (int i = 0; i < (optim.row->whole_matrix ? 3 : 25); i++) {
        int64_t start = now(o->threads == 1);
        sl_device_cpu_step(sl_device_cpu_optim_best(), pool, &item, 1, &room);
        int64_t ns = now(o->threads == 1) - start;
        best = ns < best ? ns : best;
    }
    printf("RESULT bench=kernels kernel=step_%s shape=1536,2048 isa=best threads=%d us=%.1f "
           "gbs=%.1f\n",
           name, o->threads, (double)best / 1e3,
           4.0 * tensors * (double)param.count / (double)best);
    free(item.io.w);
    free((void *)item.io.g);
    free(item.io.state[0]);
    free(item.io.state[1]);
    free(item.io.scratch);
    free(room.at);
}

static void bench_norm(const struct options *o, struct sl_device_pool *pool) {
    int64_t count = 1536 * 2048, best = INT64_MAX;
    double sum;
    struct sl_norm_item item = {fill(count, 0), count, &sum};
    struct sl_device_cpu_room room = {0};
    for (int i = 0; i < 25; i++) {
        int64_t start = now(o->threads == 1);
        sl_device_cpu_norm_sq(sl_device_cpu_optim_best(), pool, &item, 1, &room);
        int64_t ns = now(o->threads == 1) - start;
        best = ns < best ? ns : best;
    }
    printf("RESULT bench=kernels kernel=norm_sq shape=1536,2048 isa=best threads=%d us=%.1f "
           "gbs=%.1f\n",
           o->threads, (double)best / 1e3, 4.0 * (double)count / (double)best);
    free(room.at);
    free((void *)item.x);
}

/* The script alternates this program and PyTorch. */
static int compare(const char *python, const char *self, const struct options *o) {
    const char *dir = getenv("SRC_DIR");
    char script[512], threads[16], seconds[16];
    snprintf(script, sizeof script, "%s/bench/kernels_torch.py", dir ? dir : ".");
    snprintf(threads, sizeof threads, "%d", o->threads);
    snprintf(seconds, sizeof seconds, "%g", o->seconds);
    execlp(python, python, script, self, threads, seconds, (char *)NULL);
    perror(python);
    return 1;
}

int main(int argc, char **argv) {
    struct options o = {.threads = 1, .seconds = 0.15};
    struct sl_device_pool *pool;
    const char *python = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0)
            o.threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--isa") == 0)
            o.isa = argv[i + 1];
        else if (strcmp(argv[i], "--only") == 0)
            o.only = argv[i + 1];
        else if (strcmp(argv[i], "--python") == 0)
            python = argv[i + 1];
        else if (strcmp(argv[i], "--seconds") == 0)
            o.seconds = atof(argv[i + 1]);
        else
            return fprintf(stderr, "kernels: unknown option %s\n", argv[i]), 2;
    }
    if (python)
        return compare(python, argv[0], &o);
    must(sl_device_pool_open(o.threads, &pool));
    bench_ops(&o, pool);
    for (int i = 0; i < sl_optim_row_count; i++)
        bench_optimizer(sl_optim_rows[i]->name, &o, pool);
    if (!o.only || strcmp(o.only, "norm_sq") == 0)
        bench_norm(&o, pool);
    sl_device_pool_close(pool);
    return 0;
}
