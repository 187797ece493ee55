/* NeMo Automodel: the part `distributed` of a recipe, with the modules of every stage.
 *
 *     distributed:
 *       pp_size: 4
 *       pipeline:
 *         pp_schedule: Interleaved1F1B
 *         module_fqns_per_model_part:
 *           - [model.embed_tokens, model.layers.0, model.rotary_emb]
 *
 * Automodel cuts decoders of Hugging Face, whose names our models use. Every stage needs the
 * rotary embedding, which has no parameters. */
#include "interop/export_modules.h"
#include "schedules/schedule.h"

#include <string.h>

static const char rotary[] = "model.rotary_emb", layers[] = "model.layers.";

/* Checks the placement: stages must be in a V if torch's schedule of that name is one, else in a
 * loop. */
static sl_err check_layout(const struct sl_export *x) {
    const struct sl_schedule *row = x->schedule;
    bool v = row && row->layout == SL_LAYOUT_V;
    if (v && !row->automodel_v)
        return sl_fail(SL_ERR_REFUSED,
                       "automodel places the stages of %s in turn, and it needs a V; plan with "
                       "--schedule zb-v or interleaved",
                       row->name);
    return sl_interop_export_check_row(x, "automodel", v ? SL_LAYOUT_V : SL_LAYOUT_LOOP);
}

/* Writes the schedule. One without a name in torch is read from a CSV; the name then only places
 * the stages. */
static void put_schedule(const struct sl_export *x, struct sl_text *out) {
    const struct sl_schedule *row = sl_interop_export_torch_row(x);
    sl_text_printf(out, "    pp_schedule: %s\n", row ? row->torchtitan_name : "Interleaved1F1B");
    if (!row && x->schedule)
        sl_text_printf(out,
                       "    # X.csv has schedule %s: sluice export --to csv -o X.csv\n"
                       "    pp_schedule_csv: X.csv\n",
                       x->plan->schedule);
}

static void put_modules(const struct sl_export_modules *modules, bool rotates,
                        struct sl_text *out) {
    sl_text_put(out, "    module_fqns_per_model_part:\n");
    for (int64_t i = 0; i < modules->count; i++) {
        bool first = !i || modules->at[i].stage != modules->at[i - 1].stage;
        bool last = i + 1 == modules->count || modules->at[i].stage != modules->at[i + 1].stage;
        sl_text_printf(out, "%s%s", first ? "      - [" : ", ", modules->at[i].name);
        if (last)
            sl_text_printf(out, "%s%s]\n", rotates ? ", " : "", rotates ? rotary : "");
    }
}

static sl_err write_in(const struct sl_export *x, struct sl_arena *arena, struct sl_text *out) {
    const struct sl_plan *plan = x->plan;
    struct sl_export_modules modules;
    bool rotates = false;
    SL_TRY(check_layout(x));
    if (plan->stages[0].zero1)
        return sl_fail(SL_ERR_REFUSED, "automodel divides weights together with optimizer state, "
                                       "and the plan only the state (zero1); plan with --no-zero1");
    SL_TRY(sl_interop_export_modules(arena, x, "automodel", NULL, &modules));
    for (int64_t i = 0; i < modules.count; i++)
        rotates |= strncmp(modules.at[i].name, layers, sizeof layers - 1) == 0;
    if (!rotates)
        return sl_fail(SL_ERR_REFUSED,
                       "automodel cuts decoders of Hugging Face, and %s has no parameter called "
                       "%s0....; write the names of Hugging Face into the model",
                       x->graph->name, layers);
    sl_text_printf(out, "distributed:\n  strategy: fsdp2\n  pp_size: %d\n",
                   sl_interop_export_ranks(plan));
    if (plan->stages[0].recompute)
        sl_text_put(out, "  activation_checkpointing: full\n");
    if (plan->stages[0].shards > 1)
        sl_text_printf(out, "  tp_size: %d\n", plan->stages[0].shards);
    if (plan->stages[0].width > 1)
        sl_text_printf(out, "  dp_size: %d\n", plan->stages[0].width);
    sl_text_put(out, "  pipeline:\n");
    put_schedule(x, out);
    sl_text_printf(out, "    pp_microbatch_size: %lld\n", (long long)plan->stages[0].micro_size);
    if (plan->batch)
        sl_text_printf(out, "    pp_batch_size: %lld\n",
                       (long long)(plan->batch / plan->stages[0].width));
    put_modules(&modules, rotates, out);
    return SL_OK;
}

static sl_err write_automodel(const struct sl_export *x, struct sl_text *out) {
    struct sl_arena arena = {0};
    sl_err err = write_in(x, &arena, out);
    sl_arena_free(&arena);
    return err;
}

const struct sl_exporter sl_interop_export_automodel = {
    .name = "automodel",
    .brief = "a part of a recipe of NeMo Automodel, with the modules of every stage",
    .needs_graph = true,
    .write = write_automodel,
};
