/* sluice doctor: print what this host has, what is missing, and the command that adds it. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/terminal.h"
#include "profile/checkup.h"

#include <stdlib.h>
#include <string.h>

static const char *const health_names[] = {
    [SL_HEALTH_OK] = "ok", [SL_HEALTH_MISSING] = "missing", [SL_HEALTH_FAILS] = "fails"};

/* The models found by name depend on the options and the environment of the command. */
static void check_models(struct sl_checkup *c, const struct sl_args *args) {
    struct sl_job_model_names names = sl_cli_model_names(args, c->arena);
    if (names.count)
        sl_profile_checkup_ok(c, "models", "%d by name", names.count);
    else
        sl_profile_checkup_bad(c, (struct sl_finding){.name = "models",
                                                      .health = SL_HEALTH_MISSING,
                                                      .needed = true,
                                                      .what = "the library of models is not found",
                                                      .fix = "export SLUICE_MODELS=DIR"});
}

static const struct {
    const char *name, *brief;
    void (*check)(struct sl_checkup *c);
} groups[] = {
    {"machine", "this machine", sl_profile_checkup_machine},
    {"ranks", "several processes", sl_profile_checkup_ranks},
    {"gpus", "GPUs", sl_profile_checkup_gpus},
    {"tools", "to build and test", sl_profile_checkup_tools},
};

static int count_bad(const struct sl_checkup *c, bool needed) {
    int count = 0;
    for (int64_t i = 0; i < c->found.count; i++)
        count += c->found.at[i].health != SL_HEALTH_OK && c->found.at[i].needed == needed;
    return count;
}

static void put_text(struct sl_text *text, const struct sl_checkup *c, bool colour) {
    static const char *const paint[] = {"\033[32m", "\033[33m", "\033[31m"};
    const char *group = "";
    for (int64_t i = 0; i < c->found.count; i++) {
        const struct sl_finding *f = &c->found.at[i];
        for (int g = 0; g < SL_COUNT(groups); g++)
            if (strcmp(group, f->group) != 0 && strcmp(groups[g].name, f->group) == 0)
                sl_text_printf(text, "%s%s\n", i ? "\n" : "", groups[g].brief);
        group = f->group;
        sl_text_printf(text, "  %s%-7s%s  %-14s %s\n", colour ? paint[f->health] : "",
                       health_names[f->health], colour ? "\033[0m" : "", f->name, f->what);
        if (f->fix)
            sl_text_printf(text, "  %-7s  %-14s try: %s\n", "", "", f->fix);
    }
    int needed = count_bad(c, true), wanted = count_bad(c, false);
    if (needed)
        sl_text_printf(text, "\n%d of what training needs is not good\n", needed);
    else
        sl_text_printf(text, "\nmodels can be trained here%s\n",
                       wanted ? "; what is not ok above is only needed for what it says" : "");
}

static void put_json(struct sl_text *text, const struct sl_checkup *c) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_bool(&json, "ok", count_bad(c, true) == 0);
    sl_json_key(&json, "checks");
    sl_json_open(&json, '[');
    for (int64_t i = 0; i < c->found.count; i++) {
        const struct sl_finding *f = &c->found.at[i];
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "group", f->group);
        sl_json_put_string(&json, "name", f->name);
        sl_json_put_string(&json, "state", health_names[f->health]);
        sl_json_put_bool(&json, "needed", f->needed);
        sl_json_put_string(&json, "what", f->what);
        if (f->fix)
            sl_json_put_string(&json, "fix", f->fix);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_checkup c = {
        .arena = &arena, .path = getenv("PATH"), .quick = sl_args_has(args, "--quick")};
    for (int g = 0; g < SL_COUNT(groups); g++) {
        c.group = groups[g].name;
        groups[g].check(&c);
        if (g == 0)
            check_models(&c, args);
    }
    if (sl_args_has(args, "--json"))
        put_json(&text, &c);
    else
        put_text(&text, &c, sl_cli_colour());
    sl_err err = sl_cli_print(&text);
    if (err == SL_OK && count_bad(&c, true)) {
        sl_err_set_message(""); /* already printed */
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
    .brief = "what this machine has, what is missing and how to get it",
    .detail =
        "Cores and binding, memory, clock, ranks with and without MPI (two of them train one\n"
        "step), GPUs, compilers and libraries. What is not ok comes with a command to try.\n"
        "Exit status 1 only when nothing could be trained here.\n\n"
        "  sluice doctor\n"
        "  sluice doctor --json | jq '.checks[] | select(.state != \"ok\")'",
    .options = options,
    .max_args = 0,
    .run = run,
};
