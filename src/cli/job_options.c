/* Options that fill a job, and the names of these options in messages. */
#include "cli/job_options.h"

#include "base/log.h"
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

/* Returns the field of an option: "lr_schedule" for "--lr-schedule"; "" if the name is too long for
 * any. */
static const char *key_of(const char *option, char key[32]) {
    *key = 0;
    if (strncmp(option, "--", 2) != 0 || strlen(option) >= 32)
        return key;
    snprintf(key, 32, "%s", strcmp(option, "--set") == 0 ? "sizes" : option + 2);
    for (char *at = key; *at; at++)
        *at = *at == '-' ? '_' : *at;
    return key;
}

sl_err sl_cli_job_fill(const struct sl_args *args, struct sl_job *job) {
    char key[32];
    for (int i = 0; i < args->option_count; i++) {
        const char *name = args->option[i]->name;
        const struct sl_job_field *field = sl_job_field_find(key_of(name, key));
        if (!field)
            continue;
        if (strcmp(field->key, key) != 0)
            sl_log_note("%s is now --%s; the old name works until the next version", name,
                        strcmp(field->key, "clip_scope") == 0 ? "clip-scope global|stage"
                                                              : field->key);
        struct sl_arena arena = {0};
        bool joins = args->option[i]->repeats && field->kind == SL_JOB_TEXT;
        const char *value = joins ? sl_cli_joined(args, name, &arena) : args->value[i];
        sl_err err = sl_job_set(job, key, value ? value : "true");
        sl_arena_free(&arena);
        SL_TRY(err);
    }
    return SL_OK;
}

/* Returns the option of a command that sets a field; NULL: none. */
static const char *option_of(const char *command, const char *field, size_t length) {
    char key[32];
    const struct sl_command *row = sl_manual_find(&sl_cli_commands, command, NULL);
    for (const struct sl_option *o = row ? row->options : NULL; o && o->name; o++)
        if (sl_str_is((struct sl_str){field, length}, key_of(o->name, key)))
            return o->name;
    return NULL;
}

void sl_cli_name_options(const char *message, const char *command, struct sl_text *out) {
    sl_text_put(out, "");
    for (const char *at = message; *at;) {
        size_t plain = strcspn(at, "`");
        const char *field = at + plain + 1, *close = at[plain] ? strchr(field, '`') : NULL;
        sl_text_put_bytes(out, at, close ? plain : strlen(at));
        if (!close)
            return;
        const char *name = option_of(command, field, (size_t)(close - field));
        if (name)
            sl_text_put(out, name);
        else
            sl_text_put_bytes(out, field, (size_t)(close - field));
        at = close + 1;
    }
}
