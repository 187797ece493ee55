/* sluice compare: compare two checkpoints bit for bit. */
#include "base/json.h"
#include "ckpt/compare.h"
#include "cli/command.h"

static void put_text(struct sl_text *text, const struct sl_ckpt_comparison *all) {
    char human[SL_HUMAN_BYTES];
    const struct sl_ckpt_difference *first = &all->first;
    if (!all->differing && sl_ckpt_same_place(all)) {
        sl_text_printf(text, "equal: step %lld, %lld tensors, %s\n",
                       (long long)sl_ckpt_step(all->a), (long long)all->tensors,
                       sl_human_bytes(all->size_bytes, human));
        return;
    }
    if (!sl_ckpt_same_place(all))
        sl_text_printf(text, "step %lld and %lld, seed %llu and %llu, cursor %lld and %lld\n",
                       (long long)sl_ckpt_step(all->a), (long long)sl_ckpt_step(all->b),
                       (unsigned long long)sl_ckpt_seed(all->a),
                       (unsigned long long)sl_ckpt_seed(all->b), (long long)sl_ckpt_cursor(all->a),
                       (long long)sl_ckpt_cursor(all->b));
    sl_text_printf(text, "%lld of %lld tensors differ\n", (long long)all->differing,
                   (long long)all->tensors);
    if (!all->differing)
        return;
    if (*first->reason)
        sl_text_printf(text, "first: '%s': %s\n", first->name, first->reason);
    else
        sl_text_printf(text, "first: '%s': %lld of %lld elements; element %lld is %.9g and %.9g\n",
                       first->name, (long long)first->elements, (long long)first->count,
                       (long long)first->first, first->a, first->b);
    if (all->largest_name)
        sl_text_printf(text, "largest difference: %.9g in '%s'\n", all->largest, all->largest_name);
}

static void put_json(struct sl_text *text, const struct sl_ckpt_comparison *all) {
    struct sl_json_out json = {.text = text, .indent = 2};
    const struct sl_ckpt_difference *first = &all->first;
    sl_json_open(&json, '{');
    sl_json_put_bool(&json, "equal", !all->differing && sl_ckpt_same_place(all));
    sl_json_put_bool(&json, "same_step_seed_cursor", sl_ckpt_same_place(all));
    sl_json_put_int(&json, "step_a", sl_ckpt_step(all->a));
    sl_json_put_int(&json, "step_b", sl_ckpt_step(all->b));
    sl_json_put_int(&json, "tensors", all->tensors);
    sl_json_put_int(&json, "bytes", all->size_bytes);
    sl_json_put_int(&json, "differing", all->differing);
    if (all->differing) {
        sl_json_put_string(&json, "first", first->name);
        sl_json_put_string(&json, "reason", *first->reason ? first->reason : "values");
        sl_json_put_int(&json, "first_elements", first->elements);
        sl_json_put_double(&json, "first_largest", first->largest);
        sl_json_put_double(&json, "largest", all->largest);
    }
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}

static sl_err run(const struct sl_args *args) {
    struct sl_ckpt_comparison all = {.weights_only = sl_args_has(args, "--weights")};
    struct sl_text text = {0};
    int64_t step = -1;
    sl_err err = SL_OK;
    SL_TRY(sl_args_int(args, "--step", 0, INT64_MAX, &step));
    SL_TRY_OUT(sl_ckpt_open(args->positional[0], step, &all.a));
    SL_TRY_OUT(sl_ckpt_open(args->positional[1], step, &all.b));
    SL_TRY_OUT(sl_ckpt_compare(&all));
    if (sl_args_has(args, "--json"))
        put_json(&text, &all);
    else
        put_text(&text, &all);
    SL_TRY_OUT(sl_cli_print(&text));
    if (all.differing || !sl_ckpt_same_place(&all))
        err = sl_fail(SL_ERR_REFUSED, "compare: %s and %s differ", sl_ckpt_dir(all.a),
                      sl_ckpt_dir(all.b));
out:
    sl_text_free(&text);
    sl_ckpt_close(all.a);
    sl_ckpt_close(all.b);
    return err;
}

static const struct sl_option options[] = {
    {"--step", "N", "step of both (default: the latest of each)", false},
    {"--weights", NULL, "skip optimizer state and older weight versions", false},
    {0},
};

const struct sl_command sl_cli_cmd_compare = {
    .name = "compare",
    .synopsis = "RUN_A RUN_B [--step N] [--weights] [--json]",
    .brief = "compare checkpoints bit for bit",
    .detail =
        "RUN is a run's directory, its ckpt/ or one step's directory. Tensors are compared by "
        "name,\nso the number of workers and the cut do not matter; every checksum is "
        "verified.\nExit status 0: equal, also in step, seed and data cursor; 1: they differ.",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
