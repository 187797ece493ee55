/* sluice compare: compare two checkpoints bit for bit. */
#include "ckpt/compare.h"
#include "cli/command.h"

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
        sl_ckpt_compare_json(&all, &text);
    else
        sl_ckpt_compare_put(&all, &text);
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
        "RUN is a run directory, its ckpt/ or the directory of one step. Tensors are compared by\n"
        "name, so workers and cut may differ. Every checksum is verified. Exit status 0: tensors,\n"
        "step, seed and data cursor are equal; 1: something differs.",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
