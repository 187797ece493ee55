/* torchtitan: options of its command line, with the modules of every stage.
 *
 *     --parallelism.module_fqns_per_model_part tok_embeddings,layers.0 layers.1,norm,lm_head
 *
 * A module is a prefix of a parameter's name: its numbered block, or all but the last component.
 * Names of Hugging Face decoders are translated to those of torchtitan. */
#include "interop/exporter.h"

#include "base/sort.h"
#include "base/vec.h"
#include "graph/blocks.h"
#include "schedules/schedule.h"

struct module {
    const char *name; /* in torchtitan */
    int stage, node;  /* its stage; the first node that reads one of its parameters */
};

typedef SL_VEC(struct module) module_vec;

static const struct {
    const char *theirs, *ours;
    bool begins; /* compare the beginning; else the whole name */
} renames[] = {
    {"tok_embeddings", "model.embed_tokens", false},
    {"layers.", "model.layers.", true},
    {"norm", "model.norm", false},
};

static const char *module_name(struct sl_arena *arena, const char *param) {
    const char *dot = strrchr(param, '.');
    size_t length = sl_graph_block_length(param);
    if (!length)
        length = dot ? (size_t)(dot - param) : strlen(param);
    const char *name = sl_arena_dup(arena, param, length);
    for (int i = 0; i < SL_COUNT(renames); i++) {
        size_t size = strlen(renames[i].ours);
        if (renames[i].begins ? strncmp(name, renames[i].ours, size) == 0
                              : strcmp(name, renames[i].ours) == 0)
            return sl_arena_printf(arena, "%s%s", renames[i].theirs, name + size);
    }
    return name;
}

static sl_err add_use(const struct sl_export *x, const struct sl_param_grad *use, const char *name,
                      module_vec *modules) {
    int stage = x->stage_of[use->node];
    for (int64_t i = 0; i < modules->count; i++) {
        struct module *m = &modules->at[i];
        if (strcmp(m->name, name) != 0)
            continue;
        if (m->stage != stage)
            return sl_fail(SL_ERR_REFUSED,
                           "torchtitan has a module in one stage, and %s is read in %s and in %s; "
                           "plan with --whole-layers%s",
                           name, x->plan->stages[m->stage].name, x->plan->stages[stage].name,
                           sl_graph_block_length(name) ? "" : ", or untie the weights");
        m->node = use->node < m->node ? use->node : m->node;
        return SL_OK;
    }
    SL_PUSH(modules, ((struct module){name, stage, use->node}));
    return SL_OK;
}

static int compare_modules(const void *a, const void *b) {
    const struct module *x = a, *y = b;
    return x->stage != y->stage ? (x->stage > y->stage) - (x->stage < y->stage)
                                : (x->node > y->node) - (x->node < y->node);
}

/* The row of the plan's schedule if torch has that schedule by name, else NULL. */
static const struct sl_schedule *named_row(const struct sl_plan *plan) {
    const struct sl_schedule *row = plan->schedule ? sl_schedules_row_find(plan->schedule) : NULL;
    return row && row->torchtitan_name ? row : NULL;
}

static void put_schedule(const struct sl_plan *plan, struct sl_text *out) {
    const struct sl_schedule *row = named_row(plan);
    if (row)
        sl_text_printf(out, "--parallelism.pipeline_parallel_schedule %s\n", row->torchtitan_name);
    else if (plan->schedule)
        sl_text_printf(out,
                       "# X.csv has schedule %s: sluice export --to csv -o X.csv\n"
                       "--parallelism.pipeline_parallel_schedule PipelineScheduleMulti\n"
                       "--parallelism.pipeline_parallel_schedule_csv X.csv\n",
                       plan->schedule);
}

static void put_modules(const struct sl_plan *plan, const module_vec *modules,
                        struct sl_text *out) {
    int64_t at = 0;
    sl_text_put(out, "--parallelism.module_fqns_per_model_part");
    for (int s = 0; s < plan->stage_count; s++)
        for (bool first = true; at < modules->count && modules->at[at].stage == s; at++) {
            sl_text_printf(out, "%s%s", first ? " " : ",", modules->at[at].name);
            first = false;
        }
    sl_text_put(out, "\n");
}

/* A stage without a module cannot be written. */
static sl_err check_filled(const struct sl_plan *plan, const module_vec *modules) {
    int64_t at = 0;
    for (int s = 0; s < plan->stage_count; s++) {
        if (at == modules->count || modules->at[at].stage != s)
            return sl_fail(SL_ERR_REFUSED,
                           "torchtitan's stages have modules, and no parameter is in %s; plan with "
                           "--whole-layers",
                           plan->stages[s].name);
        while (at < modules->count && modules->at[at].stage == s)
            at++;
    }
    return SL_OK;
}

static sl_err write_in(const struct sl_export *x, struct sl_arena *arena, module_vec *modules,
                       struct sl_text *out) {
    const struct sl_plan *plan = x->plan;
    const struct sl_schedule *row = named_row(plan);
    SL_TRY(sl_interop_export_check_row(plan, "torchtitan", row ? row->layout : SL_LAYOUT_LOOP));
    for (int64_t g = 0; g < x->graph->grads.count; g++) {
        const struct sl_param_grad *use = &x->graph->grads.at[g];
        const char *name = module_name(arena, x->graph->params.at[use->param].name);
        SL_TRY(add_use(x, use, name, modules));
    }
    sl_sort(modules->at, modules->count, sizeof *modules->at, compare_modules);
    SL_TRY(check_filled(plan, modules));
    sl_text_printf(out, "--parallelism.pipeline_parallel_degree %d\n",
                   sl_interop_export_ranks(plan));
    if (plan->stages[0].width > 1)
        sl_text_printf(out, "--parallelism.data_parallel_replicate_degree %d\n",
                       plan->stages[0].width);
    put_schedule(plan, out);
    sl_text_printf(out, "--parallelism.pipeline_parallel_microbatch_size %lld\n",
                   (long long)plan->stages[0].micro_size);
    if (plan->batch)
        sl_text_printf(out, "--training.local_batch_size %lld\n",
                       (long long)(plan->batch / plan->stages[0].width));
    sl_text_put(out, "--training.disable_cuda_graphs\n"); /* refused with a pipeline */
    put_modules(plan, modules, out);
    return SL_OK;
}

static sl_err write_torchtitan(const struct sl_export *x, struct sl_text *out) {
    struct sl_arena arena = {0};
    module_vec modules = {0};
    sl_err err = write_in(x, &arena, &modules, out);
    SL_VEC_FREE(&modules);
    sl_arena_free(&arena);
    return err;
}

const struct sl_exporter sl_interop_export_torchtitan = {
    .name = "torchtitan",
    .brief = "options of torchtitan, with the modules of every stage",
    .needs_graph = true,
    .write = write_torchtitan,
};
