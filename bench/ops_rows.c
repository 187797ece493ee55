/* Time of each operator of the rows below on the CPU, by its kernel: best of many runs, in CPU time of
 * one thread. bench/ops.py times the same rows in PyTorch and prints the ratios.
 *
 *   ops_rows [NAME]      rows of one operator, or all
 */
#include "base/rng.h"
#include "device/cpu/cpu.h"
#include "op/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INPUTS = 6 };

/* Inputs: sizes; a leading p: numbers in (0.1, 2); i...:n: ints below n; r: the rows of four experts,
 * equally many. Attributes as in model texts, lists with commas. */
static const struct row {
    const char *op, *in[INPUTS], *attrs;
} rows[] = {
    {"abs", {"2048,1536"}, ""},
    {"adaptive_avgpool", {"16,64,56,56"}, "out=7,7"},
    {"argmax", {"2048,1536"}, ""},
    {"clamp", {"2048,1536"}, "min=-0.5 max=0.5"},
    {"conv2d", {"8,64,56,56", "64,1,3,3"}, "pad=1,1 groups=64"},
    {"conv_transpose2d", {"8,64,28,28", "64,32,2,2"}, "stride=2,2"},
    {"cos", {"2048,1536"}, ""},
    {"cumsum", {"2048,1536"}, ""},
    {"div", {"2048,1536", "p2048,1536"}, ""},
    {"elu", {"2048,1536"}, ""},
    {"equal", {"i2048,1536:9", "i2048,1536:9"}, ""},
    {"erf", {"2048,1536"}, ""},
    {"flip", {"256,128,96"}, "axes=1"},
    {"gather", {"2048,1536", "i2048,64:1536"}, "axis=1"},
    {"groupnorm", {"16,64,32,32", "64", "64"}, "groups=8"},
    {"grouped_matmul", {"2048,256", "4,512,256", "r4,2"}, "tb=1"},
    {"hardswish", {"2048,1536"}, ""},
    {"huber", {"2048,1536", "2048,1536"}, ""},
    {"index_select", {"4096,384", "i2048:4096"}, ""},
    {"kl", {"2048,1536", "p2048,1536"}, ""},
    {"l1", {"2048,1536", "2048,1536"}, ""},
    {"leaky_relu", {"2048,1536"}, ""},
    {"log", {"p2048,1536"}, ""},
    {"log1p", {"p2048,1536"}, ""},
    {"matmul", {"16,128,64", "16,64,128"}, ""},
    {"max", {"2048,1536", "2048,1536"}, ""},
    {"mish", {"2048,1536"}, ""},
    {"neg", {"2048,1536"}, ""},
    {"nll", {"2048,1536", "i2048:1536"}, ""},
    {"one_hot", {"i4096:384"}, "size=384"},
    {"pad", {"16,64,56,56"}, "before=0,0,1,1 after=0,0,1,1 mode=reflect"},
    {"pow", {"p2048,384", "2048,384"}, ""},
    {"power", {"2048,1536"}, "by=2"},
    {"reduce_max", {"2048,1536"}, "axes=1"},
    {"reduce_var", {"2048,1536"}, "axes=1"},
    {"roll", {"16,56,56,96"}, "shift=3,3 axes=1,2"},
    {"rsqrt", {"p2048,1536"}, ""},
    {"scatter_add", {"2048,384", "i2048,64:384", "2048,64"}, "axis=1"},
    {"sin", {"2048,1536"}, ""},
    {"softplus", {"2048,1536"}, ""},
    {"sqrt", {"p2048,1536"}, ""},
    {"topk", {"2048,256"}, "k=8"},
    {"where", {"i2048,1536:2", "2048,1536", "2048,1536"}, ""},
};

static void must(sl_err err) {
    if (err != SL_OK) {
        fprintf(stderr, "ops_rows: %s\n", sl_err_message());
        exit(1);
    }
}

static void numbers(const char *text, int64_t *at, int *count) {
    for (*count = 0; *text >= '-' && *text <= '9' && *count < SL_MAX_RANK;) {
        char *end;
        at[(*count)++] = strtoll(text, &end, 10);
        text = end + (*end == ',');
    }
}

static void parse_attrs(const struct sl_op *op, const char *text, union sl_attr *attr) {
    unsigned given = 0;
    while (*text) {
        size_t name = strcspn(text, "="), value = strcspn(text + name, " ");
        int i = sl_graph_op_find_attr(op, (struct sl_str){text, name});
        const char *from = text + name + 1;
        SL_ASSERT(i >= 0);
        if (op->attrs[i].kind == SL_ATTR_INTS)
            numbers(from, attr[i].ints.at, &attr[i].ints.count);
        else if (op->attrs[i].kind == SL_ATTR_FLOAT)
            attr[i].f = strtod(from, NULL);
        else if (op->attrs[i].kind == SL_ATTR_ENUM)
            attr[i].i = sl_graph_attr_choice(&op->attrs[i], (struct sl_str){from, value - 1});
        else
            attr[i].i = strtoll(from, NULL, 10);
        given |= 1u << i;
        text += name + value;
        text += strspn(text, " ");
    }
    must(sl_graph_op_defaults(op, given, attr));
}

static void *fill(const char *text, int64_t count) {
    const char *below = strchr(text, ':');
    float *memory = aligned_alloc(64, ((size_t)count * 4 + 127) / 64 * 64);
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = sl_rng_u32(1, 2, (uint64_t)i);
        if (*text == 'i')
            ((int32_t *)memory)[i] = (int32_t)(word % (uint32_t)atoll(below + 1));
        else if (*text == 'r')
            ((int32_t *)memory)[i] = (int32_t)((i + 1) / 2 * 512);
        else
            memory[i] = (float)word * 0x1p-32f * (*text == 'p' ? 1.9f : 2.0f) +
                        (*text == 'p' ? 0.1f : -1.0f);
    }
    return memory;
}

struct bench {
    struct sl_graph *graph;
    struct sl_instr instr;
    struct sl_operand in[SL_INSTR_IN], out[SL_INSTR_OUT];
    struct sl_device_cpu_call call;
};

static void bench_open(struct bench *b, const struct row *row) {
    const struct sl_op *op = sl_op_find(sl_str(row->op));
    union sl_attr attr[SL_MAX_ATTR] = {{0}};
    int value[INPUTS], count = 0, out;
    b->graph = sl_graph_open("bench", sl_op_find);
    for (; count < INPUTS && row->in[count]; count++) {
        const char *text = row->in[count];
        bool is_int = *text == 'i' || *text == 'r';
        struct sl_shape shape = {0};
        char name[16];
        snprintf(name, sizeof name, "x%d", count);
        numbers(text + (*text > '9'), shape.dim, &shape.rank);
        must(sl_graph_input(b->graph, name, is_int ? SL_INT : SL_FLOAT, shape, 0, &value[count]));
        b->in[count] = (struct sl_operand){.shape = shape, .dtype = is_int ? SL_INT : SL_FLOAT};
        b->in[count].numel = sl_graph_shape_numel(&shape, 1);
        b->call.in[count] = fill(text, b->in[count].numel);
    }
    parse_attrs(op, row->attrs, attr);
    must(sl_graph_apply(b->graph, row->op, count, value, attr, &out));
    const struct sl_node *node = &b->graph->nodes.at[0];
    for (int i = 0; i < node->out_count; i++) {
        const struct sl_value *v = sl_graph_value(b->graph, node->out[i]);
        b->out[i] = (struct sl_operand){.shape = v->shape, .dtype = v->dtype};
        b->out[i].numel = sl_graph_shape_numel(&v->shape, 1);
        b->call.out[i] = fill("", b->out[i].numel);
    }
    b->instr = (struct sl_instr){.op = node->op,
                                 .kernel = row->op,
                                 .attr = node->attr,
                                 .in_count = count,
                                 .out_count = node->out_count,
                                 .in = b->in,
                                 .out = b->out};
    b->call.instr = &b->instr;
    b->call.samples = 1;
}

static int64_t now(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1000000000 + used.tv_nsec;
}

static void run_row(const struct row *row, struct sl_device_pool *pool) {
    struct bench b = {.call = {.pool = pool}};
    const struct sl_device_cpu_kernel *kernel = sl_device_cpu_find(row->op);
    int64_t best = INT64_MAX, begin;
    bench_open(&b, row);
    if (kernel->scratch_bytes)
        b.call.scratch =
            aligned_alloc(64, ((size_t)kernel->scratch_bytes(&b.instr, 1) + 127) / 64 * 64);
    begin = now();
    for (int i = 0; i < 20 || now() - begin < 100000000; i++) {
        int64_t start = now();
        kernel->run(&b.call);
        int64_t ns = now() - start;
        best = ns < best ? ns : best;
    }
    printf("RESULT bench=ops op=%s us=%.1f", row->op, (double)best / 1e3);
    for (int i = 0; i < b.instr.in_count; i++)
        printf(" in%d=%s", i, row->in[i]);
    printf("%s%s\n", *row->attrs ? " " : "", row->attrs);
    fflush(stdout);
    for (int i = 0; i < b.instr.in_count; i++)
        free((void *)b.call.in[i]);
    for (int i = 0; i < b.instr.out_count; i++)
        free(b.call.out[i]);
    free(b.call.scratch);
    sl_graph_close(b.graph);
}

int main(int argc, char **argv) {
    struct sl_device_pool *pool;
    must(sl_device_pool_open(1, &pool));
    for (int i = 0; i < SL_COUNT(rows); i++)
        if (argc < 2 || strcmp(argv[1], rows[i].op) == 0)
            run_row(&rows[i], pool);
    sl_device_pool_close(pool);
    return 0;
}
