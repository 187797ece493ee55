/* sluice machine: list, show, check and discover machines to plan for. */
#include "cli/command.h"
#include "job/work.h"
#include "profile/devices.h"
#include "profile/host_info.h"
#include "profile/machine_file.h"
#include "report/machine.h"

#include <string.h>

static const char *const verbs[] = {"check", "discover", "ls", "show"};

static const char *verb_name(const void *ctx, int i) {
    (void)ctx;
    return verbs[i];
}

/* Describes the cores of this host, or the devices of --device. */
static sl_err discover(const struct sl_args *args, struct sl_arena *arena,
                       const struct sl_machine **out) {
    const struct sl_device_row *row;
    SL_TRY(sl_job_device_find(sl_args_text(args, "--device", "cpu"), &row));
    return row->is_host ? sl_profile_machine_here(arena, out)
                        : sl_profile_machine_devices(arena, row, out);
}

/* Lists the other devices of this host. */
static void put_others(struct sl_text *text, struct sl_arena *arena) {
    for (int i = 0; sl_device_rows[i]; i++) {
        const char *here = sl_profile_devices_text(arena, sl_device_rows[i]);
        if (here)
            sl_text_printf(text, "  also here: %s (--device %s)\n", here, sl_device_rows[i]->name);
    }
}

static sl_err find(const struct sl_args *args, struct sl_arena *arena, const char *verb,
                   const struct sl_machine **out) {
    bool known = false;
    for (int i = 0; i < SL_COUNT(verbs); i++)
        known |= strcmp(verb, verbs[i]) == 0;
    if (strcmp(verb, "discover") == 0)
        return discover(args, arena, out);
    if (known && args->positional_count < 2)
        return sl_fail(SL_ERR_USAGE, "machine %s: name a machine; see 'sluice machine ls'", verb);
    if (strcmp(verb, "check") == 0)
        return sl_profile_machine_file(arena, args->positional[1], out);
    if (strcmp(verb, "show") == 0)
        return sl_profile_machine_argument(arena, args->positional[1], out);
    const char *near = sl_nearest(verb, SL_COUNT(verbs), verb_name, NULL);
    return sl_fail(SL_ERR_USAGE, "machine: '%s' is none of check, discover, ls, show%s%s%s", verb,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0}, file = {0};
    const struct sl_machine *machine;
    const char *verb = args->positional_count ? args->positional[0] : "ls";
    const char *path = sl_args_text(args, "-o", NULL);
    sl_err err = SL_OK;
    if (strcmp(verb, "ls") == 0)
        return sl_cli_print_list(args, "machines");
    SL_TRY_OUT(find(args, &arena, verb, &machine));
    sl_cost_machine_write(machine, &file);
    if (path)
        SL_TRY_OUT(sl_file_write(path, file.at, file.length));
    if (sl_args_has(args, "--json"))
        sl_report_machine_json(machine, &text);
    else if (strcmp(verb, "check") == 0)
        sl_text_printf(&text, "%s: ok, %d devices\n", args->positional[1], machine->device_count);
    else if (sl_args_has(args, "--text"))
        sl_text_put(&text, file.at);
    else
        sl_report_machine(machine, &text);
    if (strcmp(verb, "discover") == 0 && !sl_args_has(args, "--device") &&
        !sl_args_has(args, "--text"))
        put_others(&text, &arena);
    SL_TRY_OUT(sl_cli_print(&text));
out:
    sl_text_free(&text);
    sl_text_free(&file);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {
    {"--text", NULL, "print the .machine file", false},
    {"-o", "FILE", "write the .machine file", false},
    {"--device", "D", "discover: cpu (default) for cores, cuda for GPUs", false},
    {0},
};

const struct sl_command sl_cli_cmd_machine = {
    .name = "machine",
    .synopsis = "ls | show MACHINE | check FILE | discover [--device D] [-o X.machine]",
    .brief = "list, show, check and discover machines to plan for",
    .detail = "MACHINE is a name, a file, 'here', or HOSTSxDEVICES:mem=16G,intra=100GB/s,"
              "inter=10Gb/s.\n\n"
              "  sluice machine show summit --text\n"
              "  sluice machine discover -o here.machine",
    .options = options,
    .max_args = 2,
    .run = run,
};
