/* Opening a run directory again. */
#include "cli/run_dir.h"

#include "base/json.h"
#include "op/registry.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT = 1 << 20 };

/* What config.json holds and which option it stands for. */
static const struct {
    const char *key;
    struct sl_option option;
    bool number;
} keys[] = {
    {"data", {"--data", "S", "", false}, false},
    {"tokenizer", {"--tokenizer", "S", "", false}, false},
    {"validation", {"--validation", "X", "", false}, true},
    {"device", {"--device", "D", "", false}, false},
    {"dtype", {"--dtype", "T", "", false}, false},
    {"threads", {"--threads", "T", "", false}, true},
    {"batch", {"--batch", "B", "", false}, true},
    {"micro", {"--micro", "M", "", false}, true},
    {"seed", {"--seed", "S", "", false}, true},
};

/* Use a value of the configuration unless the command line has one. */
static void add_default(struct sl_args *args, const struct sl_option *option, const char *value) {
    if (sl_args_has(args, option->name) || args->option_count == SL_ARGS_MAX || !*value)
        return;
    args->option[args->option_count] = option;
    args->value[args->option_count++] = value;
}

/* Numbers as they are written: an option is text too, and a seed may not fit into a double. */
static sl_err take_value(struct sl_json_in *json, struct sl_arena *arena, bool number,
                         const char **out) {
    if (!number)
        return sl_json_take_string(json, arena, out);
    SL_TRY(sl_json_take(json, SL_JSON_NUMBER));
    *out = sl_arena_dup(arena, json->string.at, json->string.length);
    return SL_OK;
}

static sl_err read_config(struct sl_json_in *json, struct sl_arena *arena, struct sl_args *args) {
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        int found = -1;
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return SL_OK;
        for (int i = 0; i < SL_COUNT(keys); i++)
            if (sl_str_is(json->string, keys[i].key))
                found = i;
        if (found < 0) {
            SL_TRY(sl_json_next(json));
            SL_TRY(sl_json_skip(json));
            continue;
        }
        const char *value;
        SL_TRY(take_value(json, arena, keys[found].number, &value));
        add_default(args, &keys[found].option, value);
    }
}

static sl_err load_config(const char *run, struct sl_arena *arena, struct sl_args *args) {
    struct sl_json_in json;
    char *text;
    size_t length;
    const char *path = sl_arena_printf(arena, "%s/config.json", run);
    if (!sl_file_exists(path))
        return sl_fail(SL_ERR_INPUT, "%s is not a run directory: it has no config.json", run);
    SL_TRY(sl_file_read(path, CONFIG_LIMIT, &text, &length));
    sl_json_read(&json, path, text, length);
    sl_err err = read_config(&json, arena, args);
    free(text);
    return err;
}

sl_err sl_cli_run_dir_open(const struct sl_args *given, const char *run, int64_t samples,
                           struct sl_run_dir *dir) {
    struct sl_args args = *given;
    struct sl_train_config config;
    struct sl_model_options options = {
        .find_op = sl_op_find, .nearest_op = sl_op_nearest, .eval = true};
    *dir = (struct sl_run_dir){0};
    struct sl_arena *arena = &dir->inputs.arena;
    SL_TRY(load_config(run, arena, &args));
    const char *model = sl_arena_printf(arena, "%s/model.model", run);
    SL_TRY(sl_graph_model_read_file(model, &options, &dir->inputs.graph));
    SL_TRY(sl_cli_run_open_data(&args, &dir->inputs));
    SL_TRY(sl_cli_run_config(&args, &dir->inputs, &config));
    config.batch = samples ? samples : (config.batch + config.micros - 1) / config.micros;
    config.micros = 1;
    SL_TRY(sl_run_train_open(&config, &dir->train));
    return sl_run_train_load(dir->train, run, true);
}

void sl_cli_run_dir_close(struct sl_run_dir *dir) {
    sl_run_train_close(dir->train);
    sl_cli_run_close(&dir->inputs);
}
