/* sluice doctor: print what this host has, what is missing, and the command that adds it
 * (profile/checkup.c). */
#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/terminal.h"
#include "profile/checkup.h"

#include <stdlib.h>

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_checkup c = {.arena = &arena,
                           .path = getenv("PATH"),
                           .quick = sl_args_has(args, "--quick"),
                           .model_count =
                               sl_job_model_names(sl_cli_model_dirs(args, &arena), &arena).count};
    sl_profile_checkup_run(&c);
    if (sl_args_has(args, "--json"))
        sl_profile_checkup_json(&c, &text);
    else
        sl_profile_checkup_put(&c, sl_cli_colour(), &text);
    sl_err err = sl_cli_print(&text);
    if (err == SL_OK && sl_profile_checkup_bad_count(&c, true)) {
        sl_err_set_message(""); /* the findings have been printed */
        err = SL_ERR_REFUSED;
    }
    SL_VEC_FREE(&c.found);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {
    {"--quick", NULL, "start no other program: skip ranks and compilers", false},
    {"--models", "DIR", "first directory to search for models by name", false},
    {0},
};

const struct sl_command sl_cli_cmd_doctor = {
    .name = "doctor",
    .synopsis = "[--quick] [--json]",
    .brief = "check this machine: what is missing and how to get it",
    .detail =
        "Checks cores and binding, memory, clock, ranks with and without MPI (two ranks train one\n"
        "step), GPUs, compilers and libraries. Each problem is printed with a command to try. "
        "Exit\n"
        "status 1 only if training is impossible.\n"
        "\n"
        "  sluice doctor\n"
        "  sluice doctor --json | jq '.checks[] | select(.state != \"ok\")'",
    .options = options,
    .max_args = 0,
    .run = run,
};
