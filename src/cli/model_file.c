/* Finds and reads a MODEL argument. */
#define _GNU_SOURCE
#include "cli/model_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SL_MODELS_SRC_DIR /* set in a build tree, to run without installing */
#define SL_MODELS_SRC_DIR NULL
#endif

/* Returns the directory of installed models: PREFIX/bin/sluice -> PREFIX/share/sluice/models. */
static const char *installed_dir(struct sl_arena *arena) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return NULL;
    path[length] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return NULL;
        *slash = 0;
    }
    return sl_arena_printf(arena, "%s/share/sluice/models", path);
}

const char **sl_cli_model_dirs(const struct sl_args *args, struct sl_arena *arena) {
    const char **dirs = SL_NEW(arena, const char *, 5);
    const char *candidates[4] = {
        sl_args_text(args, "--models", NULL),
        getenv("SLUICE_MODELS"),
        installed_dir(arena),
        SL_MODELS_SRC_DIR,
    };
    int count = 0;
    for (int i = 0; i < SL_COUNT(candidates); i++)
        if (candidates[i])
            dirs[count++] = candidates[i];
    return dirs;
}

const char *sl_cli_joined(const struct sl_args *args, const char *option, struct sl_arena *arena) {
    const char *all = "", *text;
    for (int n = 0; (text = sl_args_nth(args, option, n)) != NULL; n++)
        all = sl_arena_printf(arena, "%s%s%s", all, n ? "," : "", text);
    return all;
}

sl_err sl_cli_model_open(const struct sl_args *args, const char *name, bool eval,
                         struct sl_graph **out) {
    struct sl_arena arena = {0};
    sl_err err = sl_job_model_open(
        &(struct sl_job_model_request){.name = name,
                                       .dirs = sl_cli_model_dirs(args, &arena),
                                       .sizes = sl_cli_joined(args, "--set", &arena),
                                       .loss = sl_args_text(args, "--loss", NULL),
                                       .freeze = sl_cli_joined(args, "--freeze", &arena),
                                       .lora = sl_args_text(args, "--lora", NULL)},
        eval ? NULL : out, eval ? out : NULL);
    sl_arena_free(&arena);
    return err;
}
