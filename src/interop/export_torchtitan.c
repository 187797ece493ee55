/* torchtitan: options of its command line, with the modules of every stage.
 *
 *     --parallelism.module_fqns_per_model_part tok_embeddings,layers.0 layers.1,norm,lm_head
 *
 * Names of Hugging Face decoders are translated to those of torchtitan. */
#include "interop/export_modules.h"
#include "schedules/schedule.h"

static const struct {
    const char *theirs, *ours;
    bool begins; /* compare only the beginning; false: the whole name */
} renames[] = {
    {"tok_embeddings", "model.embed_tokens", false},
    {"layers.", "model.layers.", true},
    {"norm", "model.norm", false},
};

static const char *rename_module(struct sl_arena *arena, const char *name) {
    for (int i = 0; i < SL_COUNT(renames); i++) {
        size_t size = strlen(renames[i].ours);
        if (renames[i].begins ? strncmp(name, renames[i].ours, size) == 0
                              : strcmp(name, renames[i].ours) == 0)
            return sl_arena_printf(arena, "%s%s", renames[i].theirs, name + size);
    }
    return name;
}

static void put_schedule(const struct sl_export *x, struct sl_text *out) {
    const struct sl_schedule *row = sl_interop_export_torch_row(x);
    if (row)
        sl_text_printf(out, "--parallelism.pipeline_parallel_schedule %s\n", row->torchtitan_name);
    else if (x->schedule)
        sl_text_printf(out,
                       "# X.csv has schedule %s: sluice export --to csv -o X.csv\n"
                       "--parallelism.pipeline_parallel_schedule PipelineScheduleMulti\n"
                       "--parallelism.pipeline_parallel_schedule_csv X.csv\n",
                       x->plan->schedule);
}

static void put_modules(const struct sl_export_modules *modules, struct sl_text *out) {
    sl_text_put(out, "--parallelism.module_fqns_per_model_part");
    for (int64_t i = 0; i < modules->count; i++) {
        bool first = !i || modules->at[i].stage != modules->at[i - 1].stage;
        sl_text_printf(out, "%s%s", first ? " " : ",", modules->at[i].name);
    }
    sl_text_put(out, "\n");
}

static sl_err write_in(const struct sl_export *x, struct sl_arena *arena, struct sl_text *out) {
    const struct sl_plan *plan = x->plan;
    const struct sl_schedule *row = sl_interop_export_torch_row(x);
    struct sl_export_modules modules;
    SL_TRY(sl_interop_export_check_row(x, "torchtitan", row ? row->layout : SL_LAYOUT_LOOP));
    if (plan->stages[0].zero1)
        return sl_fail(SL_ERR_REFUSED, "torchtitan divides weights together with optimizer state, "
                                       "and the plan only the state (zero1); plan with --no-zero1");
    SL_TRY(sl_interop_export_modules(arena, x, "torchtitan", rename_module, &modules));
    if (plan->stages[0].shards > 1)
        sl_text_printf(out, "--parallelism.tensor_parallel_degree %d\n", plan->stages[0].shards);
    sl_text_printf(out, "--parallelism.pipeline_parallel_degree %d\n",
                   sl_interop_export_ranks(plan));
    if (plan->stages[0].width > 1)
        sl_text_printf(out, "--parallelism.data_parallel_replicate_degree %d\n",
                       plan->stages[0].width);
    put_schedule(x, out);
    sl_text_printf(out, "--parallelism.pipeline_parallel_microbatch_size %lld\n",
                   (long long)plan->stages[0].micro_size);
    if (plan->batch)
        sl_text_printf(out, "--training.local_batch_size %lld\n",
                       (long long)(plan->batch / plan->stages[0].width));
    put_modules(&modules, out);
    sl_text_put(out, "--training.disable_cuda_graphs\n"); /* a pipeline refuses these graphs */
    /* a subcommand, which must come after all options */
    sl_text_printf(out, "activation-checkpoint:%s\n", plan->stages[0].recompute ? "full" : "none");
    return SL_OK;
}

static sl_err write_torchtitan(const struct sl_export *x, struct sl_text *out) {
    struct sl_arena arena = {0};
    sl_err err = write_in(x, &arena, out);
    sl_arena_free(&arena);
    return err;
}

const struct sl_exporter sl_interop_export_torchtitan = {
    .name = "torchtitan",
    .brief = "options of torchtitan, with the modules of every stage",
    .needs_graph = true,
    .write = write_torchtitan,
};
