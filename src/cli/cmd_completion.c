/* sluice completion: print completion scripts of shells, and candidates for a command line. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/model_file.h"

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

static sl_err print_json(const char *shell, const struct sl_text *said) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text, .indent = 2};
    if (shell) {
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "shell", shell);
        sl_json_put_string(&json, "script", said->at);
        sl_json_close(&json, '}');
    } else {
        sl_manual_candidates_json(said, &json);
    }
    sl_text_put(&text, "\n");
    sl_err err = sl_cli_print(&text);
    sl_text_free(&text);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_text text = {0};
    struct sl_arena arena = {0};
    struct sl_manual_completion request = {&sl_cli_commands, sl_cli_model_dirs(args, &arena),
                                           args->positional + 1, args->positional_count - 1};
    sl_err err = SL_OK;
    bool words = strcmp(args->positional[0], "words") == 0 && args->positional_count > 1;
    if (words)
        SL_TRY_OUT(sl_manual_complete(&request, &text));
    else
        SL_TRY_OUT(put_script(&text, args->positional[0]));
    if (sl_args_has(args, "--json"))
        err = print_json(words ? NULL : args->positional[0], &text);
    else
        err = sl_cli_print(&text);
out:
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

const struct sl_command sl_cli_cmd_completion = {
    .name = "completion",
    .synopsis = "SHELL | words -- WORD...",
    .brief = "complete commands, options and names in bash, fish or zsh",
    .detail =
        "Prints the completion script of a shell. Packages install it where shells look for it. "
        "The\n"
        "script calls 'sluice completion words' for the candidates, so it never is out of date.\n"
        "\n"
        "  source <(sluice completion bash)\n"
        "  sluice completion fish >~/.config/fish/completions/sluice.fish",
    .options = (const struct sl_option[]){{0}},
    .min_args = 1,
    .max_args = -1,
    .run = run,
};
