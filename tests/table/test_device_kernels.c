/* Every kernel of every device of this machine against the op's reference in double, through the
 * device interface: binds and runs a program of one instruction. fp32 on all devices; bf16 and fp16
 * activations if the device supports them.
 *
 * The result is close to the reference and has the same bits when repeated. It can be added to the
 * output, and it can overwrite the inputs that pass/inplace.c allows. Fused kernels:
 * test_device_fused.c.
 */
#include "op_cases.h"

#include "device_here.h"
#include "pass/inplace.h"
#include "support/kernel_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

/* As in pass/dtype.c: scalars, statistics (all but the first output of most ops) and the results of
 * an lstm stay fp32 in 16-bit programs. */
static enum sl_dtype dtype_of(const struct sl_graph *graph, int value, enum sl_dtype dtype) {
    const struct sl_value *v = &graph->values.at[value];
    const char *op = v->kind == SL_VALUE_NODE ? graph->nodes.at[v->node].op->name : "";
    bool many = strcmp(op, "split") == 0 || strcmp(op, "attention_dqkv") == 0;
    bool exact =
        v->kind == SL_VALUE_NODE && (graph->nodes.at[v->node].op->exact_out >> v->slot & 1);
    if (v->dtype == SL_INT)
        return SL_INT;
    return v->shape.rank == 0 || exact || strncmp(op, "lstm", 4) == 0 ||
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
            bench_take_input(b, i, &run->arrays[node->in[i]],
                             dtype_of(run->graph, node->in[i], dtype));
    for (int i = 0; i < node->out_count; i++) {
        const struct sl_array *like = &run->arrays[node->out[i]];
        b->ref.out[i] = bench_array(like->shape, like->i != NULL);
        b->out[i] = bench_operand(b, like->shape, dtype_of(run->graph, node->out[i], dtype));
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

static void try_modes(struct bench *b, const struct bench_where *at) {
    if (b->backward && b->ref.out_count == 1 && b->ref.out[0].f) {
        char *sum = bench_run(b, at->device, at->dtype, BENCH_ADD);
        bench_judge(b, sum, (double)bench_earlier, "added", at);
        free(sum);
    }
    unsigned inplace = sl_pass_inplace_inputs(b->instr.kernel);
    for (int i = 0; i < b->ref.in_count; i++) {
        if (!(inplace >> i & 1) || !b->memory[i] || b->in[i].numel != b->out[0].numel ||
            b->in[i].dtype != b->out[0].dtype)
            continue;
        char *over = bench_run(b, at->device, at->dtype, i);
        bench_judge(b, over, 0, "in place", at);
        free(over);
    }
}

static void try_bench(struct bench *b, const struct bench_where *at) {
    char *first = bench_run(b, at->device, at->dtype, BENCH_PLAIN);
    char *again = bench_run(b, at->device, at->dtype, BENCH_PLAIN);
    bench_judge(b, first, 0, "plain", at);
    if (memcmp(first, again, (size_t)b->bytes) != 0) {
        bench_failures++;
        print_error("%s: two runs of %s differ (case %s.%s)\n", at->device->row->name,
                    b->instr.kernel, at->op, at->label);
    }
    for (int i = 0; i < b->ref.in_count; i++) /* inputs and guards are unchanged */
        if (b->memory[i] && memcmp(first + b->in[i].offset, b->memory[i],
                                   (size_t)sl_pass_operand_bytes(&b->in[i])) != 0)
            fail_msg("%s writes on its input %d", b->instr.kernel, i);
    try_modes(b, at);
    free(first);
    free(again);
}

static void try_case(const struct sl_op_case *the, int64_t batch, struct sl_device *device,
                     enum sl_dtype dtype) {
    struct sl_trial trial;
    struct bench_where at = {the->op, the->label, device, dtype, batch};
    bench_must(sl_trial_open(&trial, the, batch, sl_op_find), the->op);
    sl_trial_forward(&trial);
    sl_trial_backward(&trial);
    for (int64_t n = 0; n < trial.graph->nodes.count; n++) {
        struct bench b;
        open_node(&b, trial.run, n, dtype);
        try_bench(&b, &at);
        bench_close(&b);
    }
    sl_trial_close(&trial);
}

/* ---- tests ---- */

/* Sizes that fill tiles and vectors, plus a remainder. */
static const struct sl_op_case large[] = {
    {"argmax", "large", {SL_C("B,7,331", -2, 2)}, NULL, 0},
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
     "mask_tiles",
     {SL_X("B,192,3,64"), SL_X("B,128,3,64"), SL_X("B,128,3,64"), SL_I("B,128", 2)},
     NULL,
     0},
    {"attention",
     "mask_blind",
     {SL_X("B,128,2,64"), SL_X("B,64,2,64"), SL_X("B,64,2,64"), SL_I("B,64", 1)},
     NULL,
     0},
    {"attention",
     "mask_some64",
     {SL_X("B*5,9,2,64"), SL_X("B*5,2,2,64"), SL_X("B*5,2,2,64"), SL_I("B*5,2", 2)},
     NULL,
     0},
    {"attention",
     "padding64",
     {SL_X("B*4,64,2,64"), SL_X("B*4,128,2,64"), SL_X("B*4,128,2,64"), SL_M("B*4,128")},
     NULL,
     0},
    {"attention",
     "padding_odd64",
     {SL_X("B*4,50,1,64"), SL_X("B*4,71,1,64"), SL_X("B*4,71,1,64"), SL_M("B*4,71")},
     NULL,
     0},
    {"attention",
     "padding128",
     {SL_X("B*4,20,1,128"), SL_X("B*4,64,1,128"), SL_X("B*4,64,1,128"), SL_M("B*4,64")},
     NULL,
     0},
    {"attention",
     "heads128",
     {SL_X("B,96,4,128"), SL_X("B,96,2,128"), SL_X("B,96,2,128")},
     "causal=1",
     0},
    {"attention", "heads80", {SL_X("B,70,6,80"), SL_X("B,70,2,80"), SL_X("B,70,2,80")}, NULL, 0},
    {"attention",
     "heads_mask",
     {SL_X("B*4,64,4,64"), SL_X("B*4,96,1,64"), SL_X("B*4,96,1,64"), SL_M("B*4,96")},
     NULL,
     0},
    {"attention",
     "heads_ahead",
     {SL_X("B,40,4,32"), SL_X("B,104,2,32"), SL_X("B,104,2,32")},
     "causal=1",
     0},
    {"attention", "odd40", {SL_X("B,77,2,40"), SL_X("B,131,2,40"), SL_X("B,131,2,40")}, NULL, 0},
    {"attention", "wide", {SL_X("B,128,2,64"), SL_X("B,256,2,64"), SL_X("B,256,2,64")}, NULL, 0},
    {"conv2d", "eights", {SL_X("B,16,9,13"), SL_W("24,16,3,3"), SL_W("24")}, "pad=1 stride=2", 0},
    {"conv2d", "patches", {SL_X("B,3,17,16"), SL_W("16,3,8,8"), SL_W("16")}, "stride=8", 0},
    {"conv2d", "small_patches", {SL_X("B,8,7,11"), SL_W("24,8,3,2")}, "stride=3,2", 0},
    {"conv2d", "pixels", {SL_X("B,3,11,7"), SL_W("8,3,5,3")}, "pad=2,1", 0},
    {"conv2d", "large", {SL_X("B,19,11,37"), SL_W("23,19,3,3"), SL_W("23")}, "pad=1", 0},
    {"cos", "wide", {SL_XR("B,7,331", -20000, 20000)}, NULL, 0},
    {"cumsum", "runs", {SL_X("B,37,263")}, "exclusive=1 reverse=1", 0},
    {"cumsum", "large", {SL_X("B,37,263")}, "axis=1", 0},
    {"div", "large", {SL_X("B,37,263"), SL_WR("263", 0.5, 2)}, NULL, 0},
    {"cross_entropy", "odd", {SL_XR("B,5,1031", -9, 9), SL_I("B,5", 1031)}, NULL, 0},
    {"cross_entropy", "large", {SL_XR("B,5,2056", -9, 9), SL_IM("B,5", 2056, -100)}, NULL, 0},
    {"embed", "few", {SL_W("3,40"), SL_I("B,331", 3)}, NULL, 0},
    {"embed", "large", {SL_W("97,72"), SL_I("B,131", 97)}, NULL, 0},
    {"erf", "large", {SL_XR("B,37,263", -4, 4)}, NULL, 0},
    {"gru",
     "large",
     {SL_X("B,7,61"), SL_W("159,61"), SL_W("159,53"), SL_W("159"), SL_W("159"), SL_X("B,53")},
     NULL,
     0},
    {"grouped_matmul", "large", {SL_X("B*4,137"), SL_W("3,137,61"), SL_R("3,2")}, NULL, 0},
    {"groupnorm", "large", {SL_X("B,24,9,13"), SL_W("24"), SL_W("24")}, "groups=4", 0},
    {"gather", "large", {SL_X("B,37,53"), SL_I("B,61,53", 37)}, "axis=1", 0},
    {"index_select", "large", {SL_X("B,37,53"), SL_I("61", 37)}, "axis=1", 0},
    {"layernorm", "large", {SL_X("B,137,264"), SL_W("264"), SL_W("264")}, NULL, 0},
    {"layernorm", "long", {SL_X("B,37,1064"), SL_W("1064"), SL_W("1064")}, NULL, 0},
    {"layernorm", "longer", {SL_X("B,7,2304"), SL_W("2304"), SL_W("2304")}, NULL, 0},
    {"layernorm", "longest", {SL_X("B,3,8200"), SL_W("8200"), SL_W("8200")}, NULL, 0},
    {"lstm",
     "large",
     {SL_X("B,7,61"), SL_W("212,61"), SL_W("212,53"), SL_W("212"), SL_W("212"), SL_X("B,53"),
      SL_X("B,53")},
     NULL,
     0},
    {"log", "wide", {SL_XR("B,37,263", 1e-6, 6e4)}, NULL, 0},
    {"max", "large", {SL_X("B,37,263"), SL_X("B,37,1")}, NULL, 0},
    {"maxpool", "large", {SL_X("B,8,37,21")}, "kernel=3 stride=2 pad=1", 0},
    {"matmul", "large", {SL_X("B,37,136"), SL_W("136,216"), SL_W("216")}, NULL, 0},
    {"mish", "large", {SL_XR("B,37,263", -30, 30)}, NULL, 0},
    {"pad", "large", {SL_X("B,37,53")}, "before=0,3,5 after=0,0,7 mode=reflect", 0},
    {"pow", "large", {SL_XR("B,37,263", 0.1, 3), SL_XR("B,37,263", -2, 3)}, NULL, 0},
    {"reduce_max", "large", {SL_X("B,61,97,3")}, "axes=1,3", 0},
    {"reduce_max", "rows", {SL_X("B,61,1097")}, "axes=2", 0},
    {"reduce_min", "columns", {SL_X("B,61,1097")}, "axes=0,1", 0},
    {"reduce_var", "large", {SL_X("B,61,97,3")}, "axes=1,3", 0},
    {"reduce_var", "rows", {SL_X("B,61,1097")}, "axes=2 correction=1", 0},
    {"reduce_var", "columns", {SL_X("B,61,1097")}, "axes=1", 0},
    {"reduce_sum", "large", {SL_X("B,61,97,3")}, "axes=1,3", 0},
    {"rmsnorm", "large", {SL_X("B,7,1024"), SL_W("1024")}, NULL, 0},
    {"rmsnorm", "long", {SL_X("B,7,2048"), SL_W("2048")}, NULL, 0},
    {"rmsnorm", "longer", {SL_X("B,5,5120"), SL_W("5120")}, NULL, 0},
    {"rope", "heads", {SL_X("B,37,5,64")}, "base=500.0 offset=3", 0},
    {"rope", "neighbours", {SL_X("B,37,5,48")}, "style=interleaved", 0},
    {"rope", "odd", {SL_X("B,37,3,20")}, NULL, 0},
    {"sum_to", "large", {SL_X("B,70,1032")}, "shape=1032", 0},
    {"roll", "large", {SL_X("B,37,53")}, "shift=5,-9 axes=1,2", 0},
    {"scatter_add", "large", {SL_X("B,37,53"), SL_I("B,91,53", 37), SL_X("B,91,53")}, "axis=1", 0},
    {"topk", "large", {SL_X("B,37,331")}, "k=9", 0},
    {"topk", "sorted", {SL_X("B,37,331")}, "k=99", 0},
    {"where", "large", {SL_I("B,37,263", 2), SL_X("B,37,1"), SL_X("263")}, NULL, 0},
    {"transpose", "heads", {SL_X("B,41,7,37")}, "perm=0,2,1,3", 0},
};

/* SL_TEST_PART=2/6: only the third of six parts of the cases, for slow tools
 * (bench/cuda_sanitize.sh). */
static bool is_mine(int number) {
    const char *part = getenv("SL_TEST_PART");
    int which, count;
    return !part || sscanf(part, "%d/%d", &which, &count) != 2 || number % count == which;
}

static void try_device(const struct sl_device_row *row, enum sl_dtype dtype) {
    struct sl_device_config config = {.threads = 1};
    struct sl_device *device;
    int number = 0;
    bench_must(row->open(&config, &device), row->name);
    for (int g = 0; g < sl_op_group_count; g++)
        for (int i = 0; i < sl_op_groups[g]->case_count; i++)
            for (int64_t batch = 1; batch <= 4; batch += 3)
                if (is_mine(number++))
                    try_case(&sl_op_groups[g]->cases[i], batch, device, dtype);
    for (int i = 0; i < SL_COUNT(large); i++)
        if (is_mine(number++))
            try_case(&large[i], 3, device, dtype);
    print_message("%s, %s: worst relative error %.2g\n", row->name, bench_dtypes[dtype],
                  bench_worst[dtype]);
    bench_worst[dtype] = 0;
    device->row->close(device);
}

static void kernels_agree_with_references(void **state) {
    int at = 0;
    (void)state;
    for (const struct sl_device_row *row; (row = next_device(&at));) {
        for (int i = 0; i < SL_COUNT(device_dtypes); i++)
            if (sl_device_takes(row, device_dtypes[i]))
                try_device(row, device_dtypes[i]);
    }
    assert_int_equal(bench_failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_agree_with_references)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
