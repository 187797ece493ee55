/* sluice ckpt: list, verify and convert checkpoints. */
#include "base/json.h"
#include "ckpt/convert.h"
#include "ckpt/files.h"
#include "cli/command.h"

#include <string.h>

/* ---- ls ---- */

static void put_row(struct sl_text *text, const struct sl_ckpt *ckpt, bool latest) {
    char human[SL_HUMAN_BYTES];
    sl_text_printf(text, "%10lld  %7lld  %10s  %7d%s\n", (long long)sl_ckpt_step(ckpt),
                   (long long)sl_ckpt_count(ckpt), sl_human_bytes(sl_ckpt_size_bytes(ckpt), human),
                   sl_ckpt_writers(ckpt), latest ? "  latest" : "");
}

static void put_object(struct sl_json_out *json, const struct sl_ckpt *ckpt, bool latest) {
    sl_json_open(json, '{');
    sl_json_put_int(json, "step", sl_ckpt_step(ckpt));
    sl_json_put_string(json, "dir", sl_ckpt_dir(ckpt));
    sl_json_put_int(json, "tensors", sl_ckpt_count(ckpt));
    sl_json_put_int(json, "bytes", sl_ckpt_size_bytes(ckpt));
    sl_json_put_int(json, "writers", sl_ckpt_writers(ckpt));
    sl_json_put_int(json, "cursor", sl_ckpt_cursor(ckpt));
    sl_json_put_bool(json, "latest", latest);
    sl_json_close(json, '}');
}

static void put_damaged(struct sl_text *text, struct sl_json_out *json, bool as_json,
                        const struct sl_ckpt_list *list, int i) {
    if (!as_json) {
        sl_text_printf(text, "%10lld  damaged: %s\n", (long long)list->step[i], sl_err_message());
        return;
    }
    sl_json_open(json, '{');
    sl_json_put_int(json, "step", list->step[i]);
    sl_json_put_string(json, "dir", list->dir[i]);
    sl_json_put_string(json, "damaged", sl_err_message());
    sl_json_close(json, '}');
}

static sl_err run_ls(const struct sl_args *args, const char *path) {
    struct sl_arena arena = {0};
    struct sl_ckpt_list list;
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text, .indent = 2};
    bool as_json = sl_args_has(args, "--json");
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_ckpt_list_any(path, &arena, &list));
    if (as_json)
        sl_json_open(&json, '[');
    else
        sl_text_put(&text, "      step  tensors        size  writers\n");
    for (int i = 0; i < list.count; i++) {
        struct sl_ckpt *ckpt;
        if (sl_ckpt_open(list.dir[i], -1, &ckpt) != SL_OK) {
            put_damaged(&text, &json, as_json, &list, i);
            continue;
        }
        if (as_json)
            put_object(&json, ckpt, i == list.latest);
        else
            put_row(&text, ckpt, i == list.latest);
        sl_ckpt_close(ckpt);
    }
    if (as_json) {
        sl_json_close(&json, ']');
        sl_text_put(&text, "\n");
    }
    SL_TRY_OUT(sl_cli_print(&text));
out:
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

/* ---- verify ---- */

static sl_err verify_one(const char *path, int64_t *found, int64_t *size_bytes) {
    struct sl_ckpt *ckpt;
    SL_TRY(sl_ckpt_open(path, -1, &ckpt));
    *found = sl_ckpt_step(ckpt);
    *size_bytes = sl_ckpt_size_bytes(ckpt);
    sl_err err = sl_ckpt_verify(ckpt);
    sl_ckpt_close(ckpt);
    return err;
}

struct results {
    struct sl_text text;
    struct sl_json_out json;
    bool as_json;
    int checked, damaged;
};

static void put_result(struct results *out, const char *path) {
    char human[SL_HUMAN_BYTES];
    int64_t found = -1, size_bytes = 0;
    bool ok = verify_one(path, &found, &size_bytes) == SL_OK;
    out->checked++;
    out->damaged += !ok;
    if (out->as_json) {
        sl_json_open(&out->json, '{');
        sl_json_put_string(&out->json, "path", path);
        sl_json_put_int(&out->json, "step", found);
        sl_json_put_bool(&out->json, "ok", ok);
        if (ok)
            sl_json_put_int(&out->json, "bytes", size_bytes);
        else
            sl_json_put_string(&out->json, "damaged", sl_err_message());
        sl_json_close(&out->json, '}');
    } else if (ok) {
        sl_text_printf(&out->text, "step %lld: ok, %s\n", (long long)found,
                       sl_human_bytes(size_bytes, human));
    } else {
        sl_text_printf(&out->text, "damaged: %s\n", sl_err_message());
    }
}

static sl_err run_verify(const struct sl_args *args, const char *path) {
    struct sl_arena arena = {0};
    struct sl_ckpt_list list;
    struct sl_ckpt_latest latest;
    struct results out = {.as_json = sl_args_has(args, "--json")};
    int64_t step = -1;
    sl_err err = SL_OK;
    out.json = (struct sl_json_out){.text = &out.text, .indent = 2};
    SL_TRY_OUT(sl_args_int(args, "--step", 0, INT64_MAX, &step));
    SL_TRY_OUT(sl_ckpt_list_any(path, &arena, &list));
    if (out.as_json)
        sl_json_open(&out.json, '[');
    for (int i = 0; i < list.count; i++)
        if (step < 0 || list.step[i] == step)
            put_result(&out, list.dir[i]);
    if (!out.checked)
        SL_TRY_OUT(sl_fail(SL_ERR_INPUT,
                           "%s: no checkpoint of step %lld; 'sluice ckpt ls' names "
                           "them",
                           path, (long long)step));
    if (out.as_json)
        sl_json_close(&out.json, ']');
    if (out.as_json)
        sl_text_put(&out.text, "\n");
    SL_TRY_OUT(sl_cli_print(&out.text));
    /* checks the file `latest` and the checkpoint that it names */
    if (step < 0 && sl_ckpt_latest_read(sl_ckpt_root(&arena, path), &arena, &latest) != SL_OK)
        err = SL_ERR_REFUSED;
    else if (step < 0 && latest.name && list.latest < 0)
        err =
            sl_fail(SL_ERR_REFUSED, "%s: 'latest' names %s, which is not there", path, latest.name);
    else if (out.damaged)
        err = sl_fail(SL_ERR_REFUSED, "%d of %d checkpoints are damaged", out.damaged, out.checked);
out:
    sl_text_free(&out.text);
    sl_arena_free(&arena);
    return err;
}

/* ---- convert ---- */

static sl_err run_convert(const struct sl_args *args, const char *path) {
    const char *target = sl_args_text(args, "-o", NULL);
    struct sl_ckpt *ckpt = NULL;
    int64_t step = -1;
    bool state = sl_args_has(args, "--state");
    SL_TRY(sl_args_int(args, "--step", 0, INT64_MAX, &step));
    if (!target)
        return sl_fail(SL_ERR_USAGE, "ckpt convert: -o FILE.safetensors is missing ('-': standard "
                                     "output)");
    SL_TRY(sl_ckpt_open(path, step, &ckpt));
    sl_err err = sl_ckpt_convert(ckpt, state, target);
    sl_ckpt_close(ckpt);
    if (err == SL_OK && sl_args_has(args, "--json") && strcmp(target, "-") != 0)
        err = sl_cli_print_written(args, "-o");
    return err;
}

/* ---- the command ---- */

static const struct verb {
    const char *name;
    sl_err (*run)(const struct sl_args *args, const char *path);
} verbs[] = {{"convert", run_convert}, {"ls", run_ls}, {"verify", run_verify}};

static const char *verb_name(const void *ctx, int i) {
    (void)ctx;
    return verbs[i].name;
}

static sl_err run(const struct sl_args *args) {
    const char *wanted = args->positional[0];
    for (int i = 0; i < SL_COUNT(verbs); i++)
        if (strcmp(verbs[i].name, wanted) == 0)
            return verbs[i].run(args, args->positional[1]);
    const char *near = sl_nearest(wanted, SL_COUNT(verbs), verb_name, NULL);
    return sl_fail(SL_ERR_USAGE, "ckpt: unknown verb '%s'%s%s%s; there are convert, ls, verify",
                   wanted, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static const struct sl_option options[] = {
    {"--step", "N", "step (default: the latest; verify: all)", false},
    {"--state", NULL, "convert: also optimizer state and older weight versions", false},
    {"-o", "FILE", "convert: safetensors file to write, '-' for standard output", false},
    {0},
};

const struct sl_command sl_cli_cmd_ckpt = {
    .name = "ckpt",
    .synopsis = "ls|verify|convert RUN [--step N] [--state] [-o FILE] [--json]",
    .brief = "list, verify and convert checkpoints",
    .detail = "ls       list the checkpoints of a run\n"
              "verify   read everything and check every checksum; exit status 1 if one is wrong\n"
              "convert  write the weights as one safetensors file\n"
              "\n"
              "RUN is a run directory, its ckpt/ or the directory of one step.",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
