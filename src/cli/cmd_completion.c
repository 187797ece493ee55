/* sluice completion: the scripts that teach shells our words, and the words. */
#include "cli/command.h"
#include "cli/complete.h"

#include <string.h>

extern const unsigned char sl_asset_completion_bash[], sl_asset_completion_fish[],
    sl_asset_completion_zsh[];
extern const size_t sl_asset_completion_bash_size, sl_asset_completion_fish_size,
    sl_asset_completion_zsh_size;

static sl_err put_script(struct sl_text *text, const char *shell) {
    const struct {
        const char *name;
        const unsigned char *script;
        size_t size;
    } shells[] = {
        {"bash", sl_asset_completion_bash, sl_asset_completion_bash_size},
        {"fish", sl_asset_completion_fish, sl_asset_completion_fish_size},
        {"zsh", sl_asset_completion_zsh, sl_asset_completion_zsh_size},
    };
    for (int i = 0; i < SL_COUNT(shells); i++)
        if (strcmp(shells[i].name, shell) == 0) {
            sl_text_put_bytes(text, shells[i].script, shells[i].size);
            return SL_OK;
        }
    return sl_fail(SL_ERR_USAGE, "completion: '%s' is none of bash, fish, zsh, words", shell);
}

static sl_err run(const struct sl_args *args) {
    struct sl_text text = {0};
    sl_err err = SL_OK;
    if (strcmp(args->positional[0], "words") == 0 && args->positional_count > 1)
        SL_TRY_OUT(sl_complete(args, args->positional + 1, args->positional_count - 1, &text));
    else
        SL_TRY_OUT(put_script(&text, args->positional[0]));
    SL_TRY_OUT(sl_print(&text));
out:
    sl_text_free(&text);
    return err;
}

const struct sl_command sl_cmd_completion = {
    .name = "completion",
    .synopsis = "SHELL | words -- WORD...",
    .brief = "completion of commands, options and names in bash, fish or zsh",
    .detail = "Prints the script; an installation puts it where the shells look. The script asks\n"
              "the program what may come next ('words'), so that it is never out of date.\n\n"
              "  source <(sluice completion bash)\n"
              "  sluice completion fish >~/.config/fish/completions/sluice.fish",
    .options = (const struct sl_option[]){{0}},
    .min_args = 1,
    .max_args = -1,
    .run = run,
};
