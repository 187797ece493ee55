/* Chooses the checkpoint that a run continues from: the one that `latest` names, else the newest
 * undamaged one. */
#include "ckpt/choose.h"

#include "base/hash.h"
#include "ckpt/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

sl_err sl_ckpt_exists(const char *path, bool *out) {
    struct sl_arena arena = {0};
    struct sl_ckpt_names names;
    struct stat info;
    sl_err err = SL_OK;
    *out = false;
    if (stat(path, &info) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return SL_OK;
    const char *root = sl_arena_printf(&arena, "%s/ckpt", path);
    if (stat(root, &info) != 0 && errno == ENOENT)
        root = path;
    SL_TRY_OUT(sl_ckpt_names(root, &arena, &names));
    for (int64_t i = 0; i < names.count; i++)
        *out |= sl_ckpt_dir_step(names.at[i]) >= 0 || strcmp(names.at[i], "latest") == 0 ||
                strcmp(names.at[i], "manifest.json") == 0;
out:
    sl_arena_free(&arena);
    return err;
}

static void skip(struct sl_text *skipped, const char *what, const char *why) {
    sl_text_printf(skipped, "%s%s%s%s", skipped->length ? "\n" : "", what, *what ? ": " : "", why);
}

sl_err sl_ckpt_choices_open(const char *run, int64_t step, struct sl_text *skipped,
                            struct sl_ckpt_choices *out) {
    struct sl_arena *arena = &out->arena;
    struct sl_ckpt_names names;
    struct sl_ckpt_latest latest;
    *out = (struct sl_ckpt_choices){0};
    const char *root = sl_ckpt_root(arena, run);
    out->root = root;
    SL_TRY(sl_ckpt_names(root, arena, &names));
    out->name = SL_NEW(arena, const char *, names.count + 1);
    sl_err err = sl_ckpt_latest_read(root, arena, &latest);
    if (err != SL_OK && err != SL_ERR_INPUT)
        return err;
    if (err != SL_OK || !latest.name) {
        skip(skipped, "", err != SL_OK ? sl_err_message() : "there is no file 'latest'");
        latest.name = NULL;
    }
    if (latest.name && (step < 0 || sl_ckpt_dir_step(latest.name) == step)) {
        out->name[out->count++] = latest.name;
        out->hash = latest.hash;
        out->has_latest = true;
    }
    for (int64_t i = names.count - 1; i >= 0; i--) { /* newest first */
        int64_t at = sl_ckpt_dir_step(names.at[i]);
        if (at >= 0 && (step < 0 || at == step) &&
            !(latest.name && strcmp(latest.name, names.at[i]) == 0))
            out->name[out->count++] = names.at[i];
    }
    return SL_OK;
}

void sl_ckpt_choices_close(struct sl_ckpt_choices *choices) { sl_arena_free(&choices->arena); }

sl_err sl_ckpt_choice_open(struct sl_ckpt_choices *choices, int index, struct sl_ckpt **out) {
    const char *name = choices->name[index],
               *dir = sl_arena_printf(&choices->arena, "%s/%s", choices->root, name);
    struct stat info;
    if (stat(sl_arena_printf(&choices->arena, "%s/manifest.json", dir), &info) != 0)
        return sl_fail(sl_file_absence(errno), "manifest.json: %s", strerror(errno));
    SL_TRY(sl_ckpt_open(dir, -1, out));
    if (index == 0 && choices->has_latest && sl_ckpt_hash(*out) != choices->hash) {
        sl_ckpt_close(*out);
        return sl_fail(SL_ERR_INPUT, "%s: damaged: it is not the checkpoint that 'latest' names",
                       dir);
    }
    return SL_OK;
}

void sl_ckpt_choice_skip(const struct sl_ckpt_choices *choices, int index,
                         struct sl_text *skipped) {
    char text[1024];
    snprintf(text, sizeof text, "%s", sl_err_message());
    skip(skipped, choices->name[index], text);
}

/* Changes `latest` first, so that a kill at any time leaves a run that continues from the same
 * checkpoint. */
sl_err sl_ckpt_roll_back(const struct sl_ckpt *ckpt) {
    const struct sl_ckpt_files *files = &sl_ckpt_system_files;
    struct sl_arena arena = {0};
    struct sl_ckpt_names names;
    struct sl_text text = {0};
    const char *dir = sl_ckpt_dir(ckpt), *slash = strrchr(dir, '/');
    const char *root = sl_arena_dup(&arena, dir, (size_t)(slash - dir));
    const char *fresh = sl_arena_printf(&arena, "%s/.tmp-latest", root);
    sl_err err = SL_OK;
    sl_ckpt_latest_put(&text, slash + 1, sl_ckpt_hash(ckpt));
    SL_TRY_OUT(sl_ckpt_write_file(files, fresh, &text));
    SL_TRY_OUT(sl_ckpt_rename(files, fresh, sl_arena_printf(&arena, "%s/latest", root)));
    SL_TRY_OUT(sl_ckpt_sync_dir(files, root));
    SL_TRY_OUT(sl_ckpt_names(root, &arena, &names));
    for (int64_t i = 0; i < names.count; i++) {
        if (sl_ckpt_dir_step(names.at[i]) < sl_ckpt_step(ckpt) ||
            strcmp(names.at[i], slash + 1) == 0)
            continue;
        const char *aside = sl_arena_printf(&arena, "%s/left-%s", root, names.at[i]);
        for (int k = 1; sl_file_exists(aside); k++)
            aside = sl_arena_printf(&arena, "%s/left-%s-%d", root, names.at[i], k);
        SL_TRY_OUT(
            sl_ckpt_rename(files, sl_arena_printf(&arena, "%s/%s", root, names.at[i]), aside));
    }
    SL_TRY_OUT(sl_ckpt_sync_dir(files, root));
out:
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}
