/* Programs against the whole-graph reference. Random cuts into stages, with and without I/W split
 * and recomputation, run two micro-batches on the reference device. The gradients must equal those
 * of the graph run node by node. */
#include "base/rng.h"
#include "device/device.h"
#include "op/registry.h"
#include "pass/holes.h"
#include "pass/program.h"
#include "support/model_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_STAGES = 6, MICROS = 2 };

static const char *const models[] = {
    /* a transformer layer with tied embeddings, dropout and a skip to the end */
    "size V = 11, T = 3, C = 8, H = 2\n"
    "input tokens : int[B, T] < V\ninput targets : int[B, T] < V\n"
    "param wte[V, C] ~ normal(0.5)\nparam wpe[T, C] ~ normal(0.5)\n"
    "fn linear(x, n) {\nparam w[n, dim(x, -1)] ~ normal(0.3)\nparam b[n] ~ normal(0.1)\n"
    "return matmul(x, w, b, tb = 1)\n}\n"
    "fn norm(x) {\nparam w[C] ~ ones\nparam b[C] ~ zeros\nreturn layernorm(x, w, b)\n}\n"
    "x = dropout(embed(wte, tokens) + wpe, 0.1)\nfirst = x\n"
    "repeat i in 0..2 as h {\n"
    "n = norm(x) as ln1\nqkv = linear(n, 3 * C) as qkv\n"
    "q, k, v = split(qkv, parts = 3)\n"
    "q = reshape(q, [B, T, H, C / H])\nk = reshape(k, [B, T, H, C / H])\n"
    "v = reshape(v, [B, T, H, C / H])\n"
    "a = reshape(attention(q, k, v, causal = 1), [B, T, C])\n"
    "x = x + linear(a, C) as proj\n"
    "x = x + linear(gelu(linear(norm(x) as ln2, 4 * C) as up), C) as down\n}\n"
    "x = norm(x + first) as lnf\n"
    "loss cross_entropy(matmul(x, wte, tb = 1), targets)\n",
    /* convolutions, running statistics, a long skip edge, two losses, a shared dy for a bias */
    "size C = 3, N = 6\ninput image : float[B, 2, N, N]\ninput label : int[B] < 5\n"
    "input goal : float[B, C, N, N]\n"
    "fn conv(x, n) {\nparam w[n, dim(x, 1), 3, 3] ~ normal(0.3)\n"
    "return conv2d(x, w, stride = 1, pad = 1)\n}\n"
    "fn bn(x) {\nparam w[dim(x, 1)] ~ ones\nparam b[dim(x, 1)] ~ zeros\n"
    "state mean[dim(x, 1)] ~ zeros\nstate var[dim(x, 1)] ~ ones\n"
    "return batchnorm(x, w, b, mean, var)\n}\n"
    "a = relu(bn(conv(image, C) as c1) as b1)\n"
    "p = maxpool(a, kernel = 2, stride = 2)\n"
    "d = relu(bn(conv(p, C) as c2) as b2)\n"
    "param shift[C, N, N] ~ normal(0.1)\n"
    "u = concat([upsample(d, factor = 2), a], axis = 1)\n"
    "y = conv(u, C) as c3\n"
    "loss mse(y + shift, goal) weight 0.3\n"
    "g = global_avgpool(d)\nparam wl[5, C] ~ normal(0.4)\n"
    "loss cross_entropy(matmul(g, wl, tb = 1), label)\n",
    /* four branches of unequal length joined, parameters reused in two of them */
    "size N = 5, W = 7\ninput x : float[B, N]\ninput y : float[B, 1]\nxs = []\n"
    "param s[W, N] ~ normal(0.5)\n"
    "fn dense(x, n) {\nparam w[n, dim(x, -1)] ~ normal(0.4)\nparam b[n] ~ normal(0.4)\n"
    "return tanh(matmul(x, w, b, tb = 1))\n}\n"
    "repeat i in 0..4 as branch {\nh = matmul(x * (i + 1), s, tb = 1)\n"
    "repeat j in 0..i as layer {\nh = dense(h, W)\n}\nxs = xs + [h]\n}\n"
    "z = concat(xs, axis = 1)\nloss mse(dense(dense(z, W) as j1, 1) as j2, y)\n",
    /* values computed from parameters alone and read by several stages: their gradients are sent */
    "size N = 5, W = 7\ninput x : float[B, N]\ninput y : float[B, W]\n"
    "param g[3, W] ~ normal(0.5)\nparam w[W, N] ~ normal(0.5)\nparam v[W, W] ~ normal(0.5)\n"
    "s = slice(g, axis = 0, to = 1)\nt = tanh(s) * s\n"
    "h = tanh(matmul(x, w, tb = 1) * t)\nh = tanh(matmul(h + s, v, tb = 1)) * t\n"
    "loss mse(h + t, y)\n",
};

/* Random input values, the same for the oracle and the programs. */
static void fill_input(const struct sl_graph *graph, int input, int64_t first, int64_t count,
                       double *f, int32_t *i) {
    uint64_t stream = 1000 + (uint64_t)input;
    for (int64_t k = 0; k < count; k++) {
        uint64_t at = (uint64_t)(first + k);
        if (i)
            i[k] = (int32_t)sl_rng_below(7, stream, at, graph->inputs.at[input].below);
        else
            f[k] = (float)sl_rng_normal(7, stream, at);
    }
}

struct pipeline {
    const struct sl_graph *graph;
    int stages;
    int64_t samples;
    struct sl_device *device;
    struct sl_program *program[MAX_STAGES];
    struct sl_lives *lives[MAX_STAGES];
    struct sl_exec *exec[MAX_STAGES];
    void *base[MAX_STAGES][SL_SPACE_COUNT];
};

static void *alloc(struct pipeline *p, int64_t bytes) {
    void *memory;
    assert_int_equal(p->device->row->alloc(p->device, bytes + 64, &memory), SL_OK);
    memset(memory, 0xff, (size_t)bytes); /* NaN: makes reads of unwritten memory visible */
    return memory;
}

static void init_params(struct pipeline *p, int s, const struct sl_ref_run *ref) {
    const struct sl_program *prog = p->program[s];
    for (int i = 0; i < prog->param_count; i++) {
        float *to = (float *)((char *)p->base[s][SL_SPACE_PARAM] + prog->params[i].offset);
        int value = p->graph->params.at[prog->params[i].param].value;
        for (int64_t j = 0; j < prog->params[i].numel; j++)
            to[j] = (float)ref->arrays[value].f[j];
    }
    for (int i = 0; i < prog->state_count; i++) {
        float *to = (float *)((char *)p->base[s][SL_SPACE_STATE] + prog->states[i].offset);
        int value = p->graph->states.at[prog->states[i].param].value;
        for (int64_t j = 0; j < prog->states[i].numel; j++)
            to[j] = (float)ref->arrays[value].f[j];
    }
}

static void open_pipeline(struct pipeline *p, const int *stage_of, bool split, bool recompute,
                          const struct sl_ref_run *ref) {
    struct sl_device_config config = {.threads = 1};
    assert_int_equal(sl_device_find("reference")->open(&config, &p->device), SL_OK);
    for (int s = 0; s < p->stages; s++) {
        struct sl_program_spec spec = {.graph = p->graph,
                                       .stage_of = stage_of,
                                       .stage = s,
                                       .samples = p->samples,
                                       .split = split,
                                       .recompute = recompute};
        if (sl_pass_program_build(&spec, &p->program[s]) != SL_OK)
            fail_msg("stage %d: %s", s, sl_err_message());
        const struct sl_program *prog = p->program[s];
        p->lives[s] = sl_pass_lives_open(prog);
        assert_int_equal(p->device->row->bind(p->device, prog, &p->exec[s]), SL_OK);
        p->base[s][SL_SPACE_PARAM] = alloc(p, prog->param_bytes);
        p->base[s][SL_SPACE_GRAD] = alloc(p, prog->grad_bytes);
        p->base[s][SL_SPACE_STATE] = alloc(p, prog->state_bytes);
        p->base[s][SL_SPACE_SLOT] = alloc(p, prog->slot_bytes);
        p->base[s][SL_SPACE_WORK] = alloc(p, prog->work_bytes);
        init_params(p, s, ref);
    }
}

static void close_pipeline(struct pipeline *p) {
    for (int s = 0; s < p->stages; s++) {
        for (int k = 1; k < SL_SPACE_COUNT; k++)
            p->device->row->free(p->device, p->base[s][k]);
        p->device->row->unbind(p->device, p->exec[s]);
        sl_pass_lives_close(p->lives[s]);
        sl_pass_program_close(p->program[s]);
    }
    p->device->row->close(p->device);
}

static char *port_at(struct pipeline *p, int s, const struct sl_program_port *port) {
    assert_int_equal(port->operand.space, SL_SPACE_SLOT);
    return (char *)p->base[s][SL_SPACE_SLOT] + port->operand.offset;
}

/* Copy the sent values of stage s to the stages that receive them. */
static void hand_over(struct pipeline *p, int s, bool grad) {
    const struct sl_ports *sent = grad ? &p->program[s]->send_grad : &p->program[s]->send_act;
    for (int i = 0; i < sent->count; i++) {
        int peer = sent->at[i].peer;
        const struct sl_ports *got =
            grad ? &p->program[peer]->recv_grad : &p->program[peer]->recv_act;
        bool found = false;
        for (int k = 0; k < got->count; k++)
            if (got->at[k].value == sent->at[i].value && got->at[k].peer == s) {
                memcpy(port_at(p, peer, &got->at[k]), port_at(p, s, &sent->at[i]),
                       (size_t)sent->at[i].operand.numel * 4);
                found = true;
            }
        assert_true(found);
    }
}

static void poison_work(struct pipeline *p, int s) {
    memset(p->base[s][SL_SPACE_WORK], 0xff, (size_t)p->program[s]->work_bytes);
}

struct spoiler {
    struct pipeline *p;
    int stage;
};

static int64_t holes_seen;

/* Overwrite the largest hole of a size 2^k, as an instruction's scratch would. */
static sl_err spoil_hole(void *ctx, int instr) {
    const struct spoiler *s = ctx;
    int64_t size = 1 << 20;
    struct sl_hole hole = {SL_SPACE_NONE, 0};
    for (; size >= 16 && hole.space == SL_SPACE_NONE; size /= 2)
        hole = sl_pass_lives_hole(s->p->lives[s->stage], instr, size);
    if (hole.space == SL_SPACE_NONE)
        return SL_OK;
    memset((char *)s->p->base[s->stage][hole.space] + hole.offset, 0xff, (size_t)(2 * size));
    holes_seen++;
    return SL_OK;
}

/* Every second micro-batch recomputes before its gradients arrive. */
static bool computes_early(const struct pipeline *p, int s, int micro) {
    return p->program[s]->recompute && micro % 2 == 0;
}

static void run_phase(struct pipeline *p, int s, enum sl_phase phase, int micro) {
    struct spoiler spoiler = {p, s};
    struct sl_device_args args = {
        .after = spoil_hole,
        .ctx = &spoiler,
        .phase = phase,
        .recompute_done = computes_early(p, s, micro) && phase != SL_PHASE_F &&
                          phase != SL_PHASE_W && phase != SL_PHASE_R,
        .accumulate = micro > 0,
        .seed = 5,
        .first_sample = micro * p->samples,
    };
    memcpy(args.base, p->base[s], sizeof args.base);
    assert_int_equal(p->device->row->run(p->device, p->exec[s], &args), SL_OK);
    if (phase != SL_PHASE_R)
        poison_work(p, s);
}

static void load_inputs(struct pipeline *p, int s, int micro) {
    const struct sl_program *prog = p->program[s];
    for (int i = 0; i < prog->inputs.count; i++) {
        const struct sl_program_port *port = &prog->inputs.at[i];
        int64_t n = port->operand.numel;
        double *f = malloc(sizeof *f * (size_t)n);
        bool is_int = port->operand.dtype == SL_INT;
        fill_input(p->graph, port->index, micro * n, n, f,
                   is_int ? (int32_t *)port_at(p, s, port) : NULL);
        for (int64_t k = 0; !is_int && k < n; k++)
            ((float *)port_at(p, s, port))[k] = (float)f[k];
        free(f);
    }
    for (int i = 0; i < prog->seeds.count; i++)
        *(float *)port_at(p, s, &prog->seeds.at[i]) =
            (float)p->graph->losses.at[prog->seeds.at[i].index].weight;
}

static void run_micro(struct pipeline *p, int micro) {
    for (int s = 0; s < p->stages; s++) {
        load_inputs(p, s, micro);
        run_phase(p, s, SL_PHASE_F, micro);
        hand_over(p, s, false);
    }
    for (int s = 0; s < p->stages; s++)
        if (computes_early(p, s, micro))
            run_phase(p, s, SL_PHASE_R, micro);
    for (int s = p->stages - 1; s >= 0; s--) {
        bool split = p->program[s]->split;
        run_phase(p, s, split ? SL_PHASE_I : SL_PHASE_B, micro);
        hand_over(p, s, true);
        if (split)
            run_phase(p, s, SL_PHASE_W, micro);
    }
}

/* The oracle: node by node in double; gradients per use, summed over micro-batches. */
static double **oracle(const struct sl_graph *graph, struct sl_ref_run *ref) {
    double **sums = calloc((size_t)graph->grads.count, sizeof *sums);
    for (int m = 0; m < MICROS; m++) {
        ref->first_sample = m * ref->batch;
        ref->seed = 5;
        for (int64_t i = 0; i < graph->inputs.count; i++) {
            struct sl_array *array = &ref->arrays[graph->inputs.at[i].value];
            int64_t n = sl_graph_shape_numel(&array->shape, 1);
            fill_input(graph, (int)i, m * n, n, array->f, array->i);
        }
        sl_op_ref_nodes(ref, 0, graph->nodes.count);
        for (int64_t u = 0; u < graph->updates.count; u++) {
            struct sl_array *to = &ref->arrays[graph->states.at[graph->updates.at[u].state].value];
            memcpy(to->f, ref->arrays[graph->updates.at[u].value].f,
                   sizeof(double) * (size_t)sl_graph_shape_numel(&to->shape, 1));
        }
        for (int64_t g = 0; g < graph->grads.count; g++) {
            const struct sl_array *array = &ref->arrays[graph->grads.at[g].value];
            int64_t n = sl_graph_shape_numel(&array->shape, 1);
            if (!sums[g])
                sums[g] = calloc((size_t)n, sizeof **sums);
            for (int64_t k = 0; k < n; k++)
                sums[g][k] += array->f[k];
        }
    }
    return sums;
}

static void compare(const struct pipeline *p, double **sums, const struct sl_ref_run *ref) {
    int uses = 0;
    for (int s = 0; s < p->stages; s++) {
        const struct sl_program *prog = p->program[s];
        for (int i = 0; i < prog->param_count; i++)
            for (int u = 0; u < prog->params[i].use_count; u++, uses++) {
                const struct sl_program_use *use = &prog->uses[prog->params[i].first_use + u];
                const float *got =
                    (const float *)((const char *)p->base[s][SL_SPACE_GRAD] + use->offset);
                double error = 0, norm = 0;
                for (int64_t k = 0; k < prog->params[i].numel; k++) {
                    error += pow(got[k] - sums[use->grad][k], 2);
                    norm += pow(sums[use->grad][k], 2);
                }
                if (!(sqrt(error) <= 2e-5 * (sqrt(norm) + 1e-3)))
                    fail_msg("gradient of %s differs: %g of %g",
                             p->graph->params.at[prog->params[i].param].name, sqrt(error),
                             sqrt(norm));
            }
        for (int i = 0; i < prog->state_count; i++) {
            const float *got =
                (const float *)((const char *)p->base[s][SL_SPACE_STATE] + prog->states[i].offset);
            int value = p->graph->states.at[prog->states[i].param].value;
            for (int64_t k = 0; k < prog->states[i].numel; k++)
                assert_true(fabs(got[k] - ref->arrays[value].f[k]) < 1e-5);
        }
    }
    assert_int_equal(uses, p->graph->grads.count);
}

/* A random stage for every node, not before the stages of its inputs; branches may be parallel. */
static void random_cut(const struct sl_graph *graph, int stages, uint64_t seed, int *stage_of) {
    for (int n = 0; n < graph->forward_count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        int least = 0;
        for (int i = 0; i < node->in_count; i++) {
            const struct sl_value *v = node->in[i] < 0 ? NULL : &graph->values.at[node->in[i]];
            if (v && v->kind == SL_VALUE_NODE && stage_of[v->node] > least)
                least = stage_of[v->node];
        }
        bool jump = sl_rng_below(seed, 1, (uint64_t)n, 4) == 0;
        int room = stages - least;
        stage_of[n] = least + (jump ? (int)sl_rng_below(seed, 2, (uint64_t)n, room) : 0);
    }
}

static void check_cut(const struct sl_graph *graph, uint64_t seed, bool split, bool recompute) {
    struct pipeline p = {.graph = graph, .samples = 3};
    int *stage_of = calloc((size_t)graph->nodes.count, sizeof *stage_of);
    p.stages = 1 + (int)sl_rng_below(seed, 3, 0, MAX_STAGES);
    random_cut(graph, p.stages, seed, stage_of);
    struct sl_ref_run *ref = sl_op_ref_open(graph, p.samples, 3);
    open_pipeline(&p, stage_of, split, recompute, ref);
    for (int m = 0; m < MICROS; m++)
        run_micro(&p, m);
    double **sums = oracle(graph, ref);
    compare(&p, sums, ref);
    for (int64_t g = 0; g < graph->grads.count; g++)
        free(sums[g]);
    free(sums);
    sl_op_ref_close(ref);
    close_pipeline(&p);
    free(stage_of);
}

static void test_cuts(void **state) {
    (void)state;
    const char *full = getenv("SL_TEST_FULL");
    int cuts = full && *full == '1' ? 200 : 6, count = 0;
    for (int m = 0; m < SL_COUNT(models); m++) {
        struct sl_graph *graph = model_of_text(models[m]);
        for (int c = 0; c < cuts; c++)
            for (int mode = 0; mode < 4; mode++, count++)
                check_cut(graph, (uint64_t)(m * 1000 + c), mode & 1, mode & 2);
        sl_graph_close(graph);
    }
    printf("count: %d programs compared with the whole graph, %lld holes spoilt\n", count,
           (long long)holes_seen);
    assert_true(holes_seen > 0);
}

static void test_recompute_stashes_less(void **state) {
    (void)state;
    struct sl_graph *graph = model_of_text(models[0]);
    struct sl_program *plain, *again;
    struct sl_program_spec spec = {.graph = graph, .samples = 4};
    assert_int_equal(sl_pass_program_build(&spec, &plain), SL_OK);
    spec.recompute = true;
    assert_int_equal(sl_pass_program_build(&spec, &again), SL_OK);
    assert_true(again->stash_bytes < plain->stash_bytes / 4);
    assert_true(again->instr_count > plain->instr_count);
    sl_pass_program_close(plain);
    sl_pass_program_close(again);
    sl_graph_close(graph);
}

/* bf16: weights and their gradients keep their size, activations have half, statistics and losses
 * stay fp32, offsets of row parts follow the dtype. The checker verifies all of it. */
static void test_bf16_halves_activations(void **state) {
    (void)state;
    struct sl_graph *graph = model_of_text(models[0]);
    struct sl_program *full, *half;
    struct sl_program_spec spec = {.graph = graph, .samples = 4};
    int64_t halves = 0, floats = 0;
    assert_int_equal(sl_pass_program_build(&spec, &full), SL_OK);
    spec.dtype = SL_BF16;
    assert_int_equal(sl_pass_program_build(&spec, &half), SL_OK);
    assert_int_equal(half->param_bytes, full->param_bytes);
    assert_int_equal(half->grad_bytes, full->grad_bytes);
    assert_int_equal(half->instr_count, full->instr_count);
    assert_true(half->stash_bytes < full->stash_bytes * 6 / 10);
    for (int i = 0; i < half->instr_count; i++)
        for (int k = 0; k < half->instrs[i].out_count; k++) {
            const struct sl_operand *o = &half->instrs[i].out[k];
            halves += o->dtype == SL_BF16;
            floats += o->dtype == SL_FLOAT;
            assert_true(o->dtype != SL_BF16 || o->space == SL_SPACE_SLOT ||
                        o->space == SL_SPACE_WORK);
            assert_int_equal(o->within % sl_pass_dtype_bytes(o->dtype), 0);
        }
    assert_true(halves > 0 && floats > 0);
    for (int i = 0; i < half->losses.count; i++)
        assert_int_equal(half->losses.at[i].operand.dtype, SL_FLOAT);
    /* sabotage: operands of twice the bytes in the same memory */
    for (int i = 0; i < half->instr_count; i++)
        for (int k = 0; k < half->instrs[i].in_count; k++)
            half->instrs[i].in[k].dtype = SL_FLOAT;
    assert_int_equal(sl_pass_program_check(half), SL_ERR_REFUSED);
    sl_pass_program_close(full);
    sl_pass_program_close(half);
    sl_graph_close(graph);
}

/* Sabotage: move each operand of a good program by 64 bytes; the checker must notice. */
static void test_sabotage(void **state) {
    (void)state;
    struct sl_graph *graph = model_of_text(models[0]);
    struct sl_program *program;
    struct sl_program_spec spec = {.graph = graph, .samples = 4};
    int caught = 0, tried = 0;
    assert_int_equal(sl_pass_program_build(&spec, &program), SL_OK);
    for (int i = 0; i < program->instr_count; i++)
        for (int k = 0; k < program->instrs[i].in_count; k++) {
            struct sl_operand *operand = &program->instrs[i].in[k];
            if (operand->space != SL_SPACE_SLOT && operand->space != SL_SPACE_WORK)
                continue;
            operand->offset += 64;
            tried++;
            caught += sl_pass_program_check(program) == SL_ERR_REFUSED;
            operand->offset -= 64;
        }
    assert_int_equal(sl_pass_program_check(program), SL_OK);
    assert_int_equal(caught, tried);
    printf("count: %d moved operands, all rejected\n", tried);
    sl_pass_program_close(program);
    sl_graph_close(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_recompute_stashes_less),
        cmocka_unit_test(test_bf16_halves_activations),
        cmocka_unit_test(test_sabotage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
