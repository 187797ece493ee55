/* The tables of commands, and candidates of completion, as JSON. */
#include "manual/manual.h"

#include <string.h>

static void options_json(struct sl_json_out *json, const struct sl_option *options) {
    for (; options->name; options++) {
        sl_json_open(json, '{');
        sl_json_put_string(json, "name", options->name);
        if (options->arg)
            sl_json_put_string(json, "value", options->arg);
        sl_json_put_string(json, "help", options->help);
        sl_json_put_bool(json, "repeats", options->repeats);
        sl_json_close(json, '}');
    }
}

static void command_json(const struct sl_command_set *set, const struct sl_command *command,
                         struct sl_json_out *json) {
    sl_json_open(json, '{');
    sl_json_put_string(json, "name", command->name);
    sl_json_put_string(json, "synopsis", command->synopsis);
    sl_json_put_string(json, "brief", command->brief);
    sl_json_put_string(json, "detail", command->detail ? command->detail : "");
    sl_json_key(json, "options");
    sl_json_open(json, '[');
    options_json(json, command->options);
    options_json(json, set->common);
    sl_json_close(json, ']');
    sl_json_close(json, '}');
}

void sl_manual_json(const struct sl_command_set *set, const struct sl_command *command,
                    struct sl_text *out) {
    struct sl_json_out json = {.text = out, .indent = 2};
    if (command) {
        command_json(set, command, &json);
    } else {
        sl_json_open(&json, '[');
        for (int i = 0; set->commands[i]; i++)
            command_json(set, set->commands[i], &json);
        sl_json_close(&json, ']');
    }
    sl_text_put(out, "\n");
}

void sl_manual_candidates_json(const struct sl_text *lines, struct sl_json_out *json) {
    struct sl_arena arena = {0};
    sl_json_open(json, '[');
    for (const char *at = lines->at; at && *at;) {
        size_t word = strcspn(at, "\t\n"), line = strcspn(at, "\n");
        sl_json_open(json, '{');
        sl_json_put_string(json, "word", sl_arena_dup(&arena, at, word));
        sl_json_put_string(json, "what",
                           word < line ? sl_arena_dup(&arena, at + word + 1, line - word - 1) : "");
        sl_json_close(json, '}');
        at += line + (at[line] == '\n');
    }
    sl_json_close(json, ']');
    sl_arena_free(&arena);
}
