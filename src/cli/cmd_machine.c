/* sluice machine: list, show, check and discover machines to plan for. */
#include "base/json.h"
#include "cli/command.h"
#include "job/work.h"
#include "profile/devices.h"
#include "profile/host_info.h"
#include "profile/machine_file.h"

#include <string.h>

static void put_list(struct sl_text *text) {
    for (int i = 0; i < sl_cost_machine_row_count; i++)
        sl_text_printf(text, "  %-12s  %s\n", sl_cost_machine_rows[i].name,
                       sl_cost_machine_rows[i].brief);
}

static void list_json(struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '[');
    for (int i = 0; i < sl_cost_machine_row_count; i++) {
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "name", sl_cost_machine_rows[i].name);
        sl_json_put_string(&json, "brief", sl_cost_machine_rows[i].brief);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_text_put(text, "\n");
}

static void put_summary(struct sl_text *text, const struct sl_machine *m) {
    char bytes[SL_HUMAN_BYTES], speed[SL_HUMAN_BYTES];
    sl_text_printf(text, "%s: %s\n  %d devices on %d host%s\n", m->name, m->brief, m->device_count,
                   m->hosts_in_all, m->hosts_in_all == 1 ? "" : "s");
    for (int k = 0; k < m->kind_count; k++) {
        int count = 0;
        for (int d = 0; d < m->device_count; d++)
            count += m->kind_of[d] == k;
        const struct sl_cost_device_kind *kind = &m->kinds[k];
        sl_text_printf(text, "  %4d x %-12s %s, %sFLOP/s in fp32", count, kind->name,
                       sl_human_bytes(kind->memory_bytes, bytes),
                       sl_human_count(kind->flops[SL_MATH_FP32], speed));
        sl_text_printf(text, ", %sB/s to memory\n", sl_human_count(kind->stream, speed));
    }
    for (int l = -1; l < m->level_count; l++) {
        const struct sl_link *link = &m->links[l < 0 ? m->hosts[0].link : m->levels[l].link];
        char latency[SL_HUMAN_BYTES];
        sl_text_printf(text, "  %-8s %s, %sB/s", l < 0 ? "host" : m->levels[l].name, link->name,
                       sl_human_count(link->bandwidth, speed));
        sl_text_printf(text, ", %s\n", sl_human_ns(link->latency_ns, latency));
    }
}

static void kinds_json(struct sl_json_out *json, const struct sl_machine *m) {
    sl_json_key(json, "kinds");
    sl_json_open(json, '[');
    for (int k = 0; k < m->kind_count; k++) {
        const struct sl_cost_device_kind *kind = &m->kinds[k];
        int64_t count = 0;
        for (int d = 0; d < m->device_count; d++)
            count += m->kind_of[d] == k;
        sl_json_open(json, '{');
        sl_json_put_string(json, "name", kind->name);
        sl_json_put_int(json, "count", count);
        sl_json_put_int(json, "memory_bytes", kind->memory_bytes);
        sl_json_put_double(json, "memory_bytes_per_s", kind->stream);
        for (int i = 0; i < SL_MATH_COUNT; i++)
            sl_json_put_double(json, sl_cost_math_names[i],
                               kind->flops[i] > 0 ? kind->flops[i] : kind->flops[SL_MATH_FP32]);
        sl_json_put_double(json, "efficiency", kind->efficiency);
        sl_json_put_int(json, "overhead_ns", kind->overhead_ns);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

static void machine_json(struct sl_text *text, const struct sl_machine *m) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "name", m->name);
    sl_json_put_string(&json, "brief", m->brief);
    sl_json_put_int(&json, "devices", m->device_count);
    sl_json_put_int(&json, "hosts", m->hosts_in_all);
    kinds_json(&json, m);
    sl_json_key(&json, "levels"); /* innermost first */
    sl_json_open(&json, '[');
    for (int l = -1; l < m->level_count; l++) {
        const struct sl_link *link = &m->links[l < 0 ? m->hosts[0].link : m->levels[l].link];
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "name", l < 0 ? "host" : m->levels[l].name);
        sl_json_put_int(&json, "hosts", l < 0 ? 1 : m->levels[l].hosts);
        sl_json_put_string(&json, "link", link->name);
        sl_json_put_double(&json, "bytes_per_s", link->bandwidth);
        sl_json_put_int(&json, "latency_ns", link->latency_ns);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}

static const char *const verbs[] = {"check", "discover", "ls", "show"};

static const char *verb_name(const void *ctx, int i) {
    (void)ctx;
    return verbs[i];
}

/* The cores of this host, or the devices of --device. */
static sl_err discover(const struct sl_args *args, struct sl_arena *arena,
                       const struct sl_machine **out) {
    const struct sl_device_row *row;
    SL_TRY(sl_job_device_find(sl_args_text(args, "--device", "cpu"), &row));
    return row->is_host ? sl_profile_machine_here(arena, out)
                        : sl_profile_machine_devices(arena, row, out);
}

/* Other devices of this host. */
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
    if (strcmp(verb, "ls") == 0) {
        if (sl_args_has(args, "--json"))
            list_json(&text);
        else
            put_list(&text);
        SL_TRY_OUT(sl_cli_print(&text));
        goto out;
    }
    SL_TRY_OUT(find(args, &arena, verb, &machine));
    sl_cost_machine_write(machine, &file);
    if (path)
        SL_TRY_OUT(sl_file_write(path, file.at, file.length));
    if (sl_args_has(args, "--json"))
        machine_json(&text, machine);
    else if (strcmp(verb, "check") == 0)
        sl_text_printf(&text, "%s: ok, %d devices\n", args->positional[1], machine->device_count);
    else if (sl_args_has(args, "--text"))
        sl_text_put(&text, file.at);
    else
        put_summary(&text, machine);
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
    .brief = "machines to plan for: the built-in ones, files, this computer",
    .detail = "MACHINE is a name, a file, 'here', or HOSTSxDEVICES:mem=16G,intra=100GB/s,"
              "inter=10Gb/s.\n\n"
              "  sluice machine show summit --text\n"
              "  sluice machine discover -o here.machine",
    .options = options,
    .max_args = 2,
    .run = run,
};
