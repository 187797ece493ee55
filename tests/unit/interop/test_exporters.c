/* Exporters: the output reads back as the plan, and plans beyond a target's features are refused with
 * the reason. The readers here implement the target's rules and share no code with the writers. */
#include "interop/exporter.h"

#include "base/json.h"
#include "base/rng.h"
#include "graph/blocks.h"
#include "schedules/schedule.h"
#include "support/pipe_case.h"
#include "support/pipe_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 7 };
static const char llama[] = "V=64,T=8,L=7,C=32,H=4,K=2,F=48";

/* Stage of every layer, ascending; embedding first, head last. */
static void cut_layers(struct pipe_case *c, const int *layer_stage, int stages) {
    struct sl_train_config config = pipe_case_config(c, "sgd", 8, 2, 1);
    struct sl_blocks blocks;
    int nodes = c->graph->forward_count, *keep = SL_NEW(&c->arena, int, nodes + 1);
    sl_graph_blocks(&c->arena, c->graph, &blocks);
    assert_string_equal(blocks.row, "model.layers");
    assert_int_equal(blocks.count, LAYERS);
    sl_graph_blocks_keep(&blocks, nodes, keep);
    c->stage_of = SL_NEW(&c->arena, int, nodes + 1);
    for (int n = 0; n < nodes; n++)
        c->stage_of[n] = keep[n] == LAYERS       ? 0
                         : keep[n] == LAYERS + 1 ? stages - 1
                                                 : layer_stage[keep[n]];
    pipe_case_plan(c, &config, stages, NULL);
}

/* Every stage of 2 .. has a layer of its own. */
static int random_layers(uint64_t seed, int *layer_stage) {
    int stages = 2 + (int)(sl_rng_u32(seed, 1, 0) % 5);
    for (int i = 0; i < LAYERS; i++)
        layer_stage[i] =
            i < stages ? i : (int)(sl_rng_u32(seed, 2, (uint64_t)i) % (uint32_t)stages);
    for (int i = 1; i < LAYERS; i++) /* ascending */
        for (int k = i; k > 0 && layer_stage[k] < layer_stage[k - 1]; k--) {
            int swap = layer_stage[k];
            layer_stage[k] = layer_stage[k - 1];
            layer_stage[k - 1] = swap;
        }
    return stages;
}

static sl_err export_to(const char *target, const struct pipe_case *c, struct sl_text *out) {
    const struct sl_exporter *row;
    struct sl_export what = {.plan = c->plan, .graph = c->graph, .stage_of = c->stage_of};
    if (c->plan->schedule)
        what.schedule = sl_schedules_row_find(c->plan->schedule);
    assert_int_equal(sl_interop_exporter_find(target, &row), SL_OK);
    return row->write(&what, out);
}

/* Megatron's rules: commas mean nothing, x*n is x n times, | is the next stage. */
static void expand(const char *layout, struct sl_text *out) {
    for (const char *at = layout; *at && *at != '\''; at++) {
        long times = 1;
        char letter[2] = {*at, 0};
        if (*at == ',')
            continue;
        if (at[1] == '*') {
            char *end;
            times = strtol(at + 2, &end, 10);
            at = end - 1;
        }
        while (times-- > 0)
            sl_text_put(out, letter);
    }
}

static void megatron_round_trip(void **state) {
    (void)state;
    struct pipe_case c;
    int layer_stage[LAYERS];
    pipe_case_open_zoo(&c, "llama", llama);
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct sl_text text = {0}, flat = {0}, want = {0};
        int stages = random_layers(seed, layer_stage);
        cut_layers(&c, layer_stage, stages);
        if (export_to("megatron", &c, &text) != SL_OK)
            fail_msg("seed %d: %s", (int)seed, sl_err_message());
        const char *layout = strstr(text.at, "--pipeline-model-parallel-layout '");
        assert_non_null(layout);
        expand(strchr(layout, '\'') + 1, &flat);
        for (int s = 0; s < stages; s++) {
            sl_text_put(&want, s ? "|" : "E");
            for (int i = 0; i < LAYERS; i++)
                if (layer_stage[i] == s)
                    sl_text_put(&want, "t");
        }
        sl_text_put(&want, "L");
        assert_string_equal(flat.at, want.at);
        assert_non_null(strstr(text.at, "--num-layers 7\n"));
        assert_non_null(strstr(text.at, "--micro-batch-size 4\n"));
        sl_text_free(&text);
        sl_text_free(&flat);
        sl_text_free(&want);
    }
    pipe_case_close(&c);
}

/* A list of stages, each a list of names with commas: which stage has this name? -1: none; fails if
 * it is in two. */
static int part_of(const char *text, const char *name) {
    int part = 0, found = -1;
    size_t length = strlen(name);
    for (const char *at = strstr(text, "_model_part ") + 12; *at && *at != '\n'; at++) {
        part += *at == ' ';
        if (strncmp(at, name, length) != 0 || !strchr(", \n", at[length]) || !strchr(", ", at[-1]))
            continue;
        assert_int_equal(found, -1);
        found = part;
    }
    return found;
}

static void torchtitan_covers(void **state) {
    (void)state;
    struct pipe_case c;
    int layer_stage[LAYERS];
    pipe_case_open_zoo(&c, "llama", llama);
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct sl_text text = {0};
        int stages = random_layers(seed, layer_stage), names = 0;
        cut_layers(&c, layer_stage, stages);
        if (export_to("torchtitan", &c, &text) != SL_OK)
            fail_msg("seed %d: %s", (int)seed, sl_err_message());
        assert_int_equal(part_of(text.at, "tok_embeddings"), 0);
        assert_int_equal(part_of(text.at, "norm"), stages - 1);
        assert_int_equal(part_of(text.at, "lm_head"), stages - 1);
        for (int i = 0; i < LAYERS; i++) {
            char name[32];
            snprintf(name, sizeof name, "layers.%d", i);
            assert_int_equal(part_of(text.at, name), layer_stage[i]);
        }
        for (const char *at = strstr(text.at, "_model_part "); *at && *at != '\n'; at++)
            names += *at == ',' || *at == ' ';
        assert_int_equal(names, LAYERS + 3); /* and nothing else */
        sl_text_free(&text);
    }
    pipe_case_close(&c);
}

/* The plan of `c` with its stages on half as many workers, as the row's layout has it. */
static void fold(struct pipe_case *c, const struct sl_schedule *row) {
    struct sl_plan draft = *c->plan;
    int n = draft.stage_count, p = n / 2;
    struct sl_stage *stages = SL_NEW(&c->arena, struct sl_stage, n);
    int *workers = SL_NEW(&c->arena, int, n);
    memcpy(stages, draft.stages, sizeof *stages * (size_t)n);
    for (int s = 0; s < n; s++) {
        workers[s] = s < p ? s : row->layout == SL_LAYOUT_V ? n - 1 - s : s - p;
        stages[s].workers = &workers[s];
    }
    draft.stages = stages;
    draft.worker_count = p;
    draft.schedule = row->name;
    assert_int_equal(sl_plan_build(&c->arena, &draft, &c->plan), SL_OK);
}

/* Every schedule that torchtitan has is exported by torchtitan's name and in its layout. */
static void torchtitan_schedules(void **state) {
    (void)state;
    struct pipe_case c;
    static const int layer_stage[LAYERS] = {0, 0, 1, 1, 2, 2, 3};
    int rows, named = 0;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    pipe_case_open_zoo(&c, "llama", llama);
    for (int r = 0; r < rows; r++) {
        struct sl_text text = {0};
        char line[80];
        if (!registry[r]->torchtitan_name || registry[r]->layout == SL_LAYOUT_CROSS)
            continue;
        cut_layers(&c, layer_stage, 4);
        fold(&c, registry[r]);
        if (export_to("torchtitan", &c, &text) != SL_OK)
            fail_msg("%s: %s", registry[r]->name, sl_err_message());
        snprintf(line, sizeof line, "--parallelism.pipeline_parallel_schedule %s\n",
                 registry[r]->torchtitan_name);
        assert_non_null(strstr(text.at, line));
        assert_non_null(strstr(text.at, "pipeline_parallel_degree 2\n"));
        named++;
        sl_text_free(&text);
    }
    assert_int_equal(named, 5);
    const struct sl_schedule *row = sl_schedules_row_find("dualpipe-v");
    struct sl_text text = {0};
    cut_layers(&c, layer_stage, 4);
    fold(&c, row);
    assert_int_equal(export_to("torchtitan", &c, &text), SL_OK);
    assert_non_null(strstr(text.at, "pipeline_parallel_schedule DualPipeV\n"));
    sl_text_free(&text);
    text = (struct sl_text){0};
    assert_int_equal(export_to("megatron", &c, &text), SL_ERR_REFUSED); /* it has no V */
    assert_non_null(strstr(sl_err_message(), "in turn"));
    sl_text_free(&text);
    pipe_case_close(&c);
}

/* ---- json ---- */

static int64_t number_after(const char **text, const char *key) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    *text = strstr(*text, quoted);
    assert_non_null(*text);
    *text += strlen(quoted);
    return strtoll(*text, NULL, 10);
}

static void json_says_all(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    struct sl_text text = {0};
    struct sl_json_in json;
    static const char file[] =
        "sluice-plan 1\nmodel x nodes 3\nschedule \"gpipe\"\nbatch 30\nworkers 3\n"
        "memory 1 4099\n"
        "stage a width 2 micro 3 on 0 1 recompute input\n"
        "bytes a params 43 grads 13 state 17 stash 19 saved 23 kept 29 work 31\nnodes a 0 2\n"
        "stage b width 1 micro 5 on 2\nbytes b params 47 grads 0 state 0 stash 0 saved 0 kept 0 "
        "work 0\nnodes b 1\nedge a b 37\ntie w 41 a b\n";
    if (sl_plan_read(&arena, "t", file, sizeof file - 1, &plan) != SL_OK)
        fail_msg("%s", sl_err_message());
    const struct sl_exporter *row;
    assert_int_equal(sl_interop_exporter_find("json", &row), SL_OK);
    assert_int_equal(row->write(&(struct sl_export){.plan = plan}, &text), SL_OK);
    sl_json_read(&json, "t", text.at, text.length);
    for (;;) { /* it is JSON */
        assert_int_equal(sl_json_next(&json), SL_OK);
        if (json.event == SL_JSON_END)
            break;
    }
    const char *at = text.at;
    static const struct {
        const char *key;
        int64_t value;
    } want[] = {{"version", 1},
                {"nodes", 3},
                {"batch", 30},
                {"memory_bytes", 0},
                {"memory_bytes", 4099},
                {"micro_size", 3},
                {"height", 1},
                {"params", 43},
                {"grads", 13},
                {"state", 17},
                {"stash", 19},
                {"saved", 23},
                {"kept", 29},
                {"work", 31},
                {"micro_size", 5},
                {"params", 47},
                {"from", 0},
                {"to", 1},
                {"sample_bytes", 37},
                {"bytes", 41}};
    for (int i = 0; i < SL_COUNT(want); i++)
        assert_int_equal(number_after(&at, want[i].key), want[i].value);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

/* ---- refusals ---- */

static const char chain[] =
    "sluice-plan 1\nmodel m nodes 2\nschedule \"1f1b\"\nbatch 12\nworkers 2\n"
    "stage a width 1 micro 3 on 0 input\nnodes a 0\n"
    "stage b width 1 micro 3 on 1\nnodes b 1\nedge a b 5\n";

static const struct {
    const char *old, *new, *reason;
} broken[] = {
    {"schedule \"1f1b\"", "schedule \"2bw\"", "flushes"},
    {"stage b width 1 micro 3", "stage b width 1 micro 6", "one micro-batch size"},
    {"on 1\n", "on 1 recompute\n", "recomputes on all stages or on none"},
    {"workers 2\nstage a width 1 micro 3 on 0 input\nnodes a 0\nstage b width 1 micro 3 on 1",
     "workers 4\nstage a width 2 micro 3 on 0 2 input\nnodes a 0\nstage b width 1 micro 3 on 1",
     "replicates all stages alike"},
    {"edge a b 5\n", "", "in a row only"},
};

static void refuses(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(broken); i++) {
        struct sl_arena arena = {0};
        struct sl_text text = {0};
        const struct sl_plan *plan;
        const char *at = strstr(chain, broken[i].old);
        assert_non_null(at);
        sl_text_put_bytes(&text, chain, (size_t)(at - chain));
        sl_text_put(&text, broken[i].new);
        sl_text_put(&text, at + strlen(broken[i].old));
        if (sl_plan_read(&arena, "t", text.at, text.length, &plan) != SL_OK)
            fail_msg("%s", sl_err_message());
        const struct sl_export x = {
            .plan = plan,
            .schedule = plan->schedule ? sl_schedules_row_find(plan->schedule) : NULL};
        assert_int_equal(sl_interop_export_check_row(&x, "Them", SL_LAYOUT_LOOP), SL_ERR_REFUSED);
        if (!strstr(sl_err_message(), broken[i].reason) || !strstr(sl_err_message(), "Them"))
            fail_msg("row %d: %s", i, sl_err_message());
        sl_text_free(&text);
        sl_arena_free(&arena);
    }
    const struct sl_exporter *row;
    assert_int_equal(sl_interop_exporter_find("megatrom", &row), SL_ERR_USAGE);
    assert_non_null(strstr(sl_err_message(), "megatron"));
}

/* A graph of stages, a layer in two stages, tied weights in two stages. */
static void refuses_models(void **state) {
    (void)state;
    struct pipe_case c;
    struct sl_text text = {0};
    pipe_case_open_zoo(&c, "llama", llama);
    struct sl_train_config config = pipe_case_config(&c, "sgd", 8, 2, 1);
    bool cut = false; /* an even cut into many stages goes through a layer */
    pipe_case_cut(&c, &config, 6, NULL);
    assert_int_equal(export_to("megatron", &c, &text), SL_ERR_REFUSED);
    cut = strstr(sl_err_message(), "and parts of") || strstr(sl_err_message(), "keeps the whole");
    if (!cut)
        fail_msg("%s", sl_err_message());
    pipe_case_close(&c);
    pipe_case_open_zoo(&c, "gpt2", "V=64,T=8,P=8,L=4,C=32,H=4");
    config = pipe_case_config(&c, "sgd", 8, 2, 1);
    pipe_case_cut(&c, &config, 2, NULL);
    assert_int_equal(export_to("torchtitan", &c, &text), SL_ERR_REFUSED);
    if (!strstr(sl_err_message(), "in one stage"))
        fail_msg("%s", sl_err_message());
    pipe_case_close(&c);
    pipe_case_open(&c, pipe_model_branches);
    config = pipe_case_config(&c, "sgd", 8, 2, 1);
    pipe_case_cut_by_name(&c, &config, 4, NULL);
    assert_int_equal(export_to("megatron", &c, &text), SL_ERR_REFUSED);
    if (!strstr(sl_err_message(), "in a row only"))
        fail_msg("%s", sl_err_message());
    pipe_case_close(&c);
    sl_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_round_trip),
        cmocka_unit_test(torchtitan_covers),
        cmocka_unit_test(torchtitan_schedules),
        cmocka_unit_test(json_says_all),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
