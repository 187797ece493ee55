/* Planning a graph that came from another planner, under that planner's own cost model. */
#include "base/clock.h"
#include "cli/command.h"
#include "cli/layers_file.h"
#include "cli/plan_kinds.h"
#include "cli/plan_report.h"
#include "search/planner.h"

#include <stdlib.h>
#include <string.h>

/* The items of "4,8"; each goes to `take`. */
static sl_err split(const char *list, const char *name,
                    sl_err (*take)(struct sl_peer_query *query, int i, const char *item),
                    struct sl_peer_query *query, int *count) {
    char item[64];
    *count = 0;
    for (const char *at = list;;) {
        size_t length = strcspn(at, ",");
        if (!length || length >= sizeof item)
            return sl_fail(SL_ERR_USAGE, "plan: %s: an item of '%s' is empty or too long", name,
                           list);
        if (*count == SL_PEER_LEVELS)
            return sl_fail(SL_ERR_USAGE, "plan: %s: more than %d levels", name, SL_PEER_LEVELS);
        memcpy(item, at, length);
        item[length] = 0;
        SL_TRY(take(query, (*count)++, item));
        if (!at[length])
            return SL_OK;
        at += length + 1;
    }
}

static sl_err take_level(struct sl_peer_query *query, int i, const char *item) {
    SL_TRY(sl_parse_int(item, "--levels", &query->level[i]));
    if (query->level[i] < 1 || query->level[i] > 1 << 20)
        return sl_fail(SL_ERR_USAGE, "plan: --levels: '%s' is out of range", item);
    return SL_OK;
}

static sl_err take_bandwidth(struct sl_peer_query *query, int i, const char *item) {
    SL_TRY(sl_parse_bandwidth(item, "--bandwidth", &query->bandwidth[i]));
    if (!(query->bandwidth[i] > 0))
        return sl_fail(SL_ERR_USAGE, "plan: --bandwidth: '%s' must be positive", item);
    return SL_OK;
}

static sl_err read_levels(const struct sl_args *args, struct sl_peer_query *query) {
    int bandwidths = 0;
    const char *levels = sl_args_text(args, "--levels", NULL);
    const char *bandwidth = sl_args_text(args, "--bandwidth", NULL);
    query->level_count = 1;
    if (levels) {
        SL_TRY(split(levels, "--levels", take_level, query, &query->level_count));
        int64_t devices = 1;
        for (int i = 0; i < query->level_count; i++)
            devices = devices < 1 << 24 ? devices * query->level[i] : devices;
        if (sl_args_has(args, "--devices") && devices != query->devices)
            return sl_fail(SL_ERR_USAGE, "plan: --levels makes %lld devices, --devices says %lld",
                           (long long)devices, (long long)query->devices);
        query->devices = devices;
    } else {
        query->level[0] = query->devices;
    }
    if (bandwidth)
        SL_TRY(split(bandwidth, "--bandwidth", take_bandwidth, query, &bandwidths));
    if (bandwidth && bandwidths != query->level_count)
        return sl_fail(SL_ERR_USAGE, "plan: %d bandwidths for %d levels", bandwidths,
                       query->level_count);
    for (int i = bandwidth ? bandwidths : 1; i < query->level_count; i++)
        query->bandwidth[i] = query->bandwidth[0];
    return SL_OK;
}

/* What the file says about the machine, then what the command line says. */
static sl_err read_query(const struct sl_args *args, const struct sl_layers *layers,
                         struct sl_peer_query *query) {
    int64_t memory = 0;
    *query = (struct sl_peer_query){.devices = layers->machine.devices,
                                    .memory_bytes = layers->machine.memory_bytes,
                                    .micro = layers->machine.micro ? layers->machine.micro : 1,
                                    .cpus = layers->machine.cpus,
                                    .bandwidth = {layers->machine.bandwidth},
                                    .all_devices = sl_args_has(args, "--all-devices"),
                                    .straight = sl_args_has(args, "--straight"),
                                    .free_links = sl_args_has(args, "--free-links"),
                                    .scattered = sl_args_has(args, "--non-contiguous")};
    if (!(query->bandwidth[0] > 0))
        query->bandwidth[0] = 1e9; /* PipeDream's default */
    SL_TRY(sl_args_int(args, "--devices", 1, 1 << 20, &query->devices));
    SL_TRY(sl_args_int(args, "--micro", 1, 1 << 30, &query->micro));
    SL_TRY(sl_args_int(args, "--cpus", 0, 1 << 20, &query->cpus));
    SL_TRY(sl_args_bytes(args, "--memory", &memory));
    if (sl_args_has(args, "--memory"))
        query->memory_bytes = (double)memory;
    SL_TRY(read_levels(args, query));
    if (query->devices < 1)
        return sl_fail(SL_ERR_USAGE, "plan: how many devices? --devices K or --levels 4,8");
    return SL_OK;
}

static sl_err find_planner(const char *name, bool *even) {
    const struct sl_planner *row;
    *even = strcmp(name, "even") == 0;
    if (*even || strcmp(name, "sluice") == 0)
        return SL_OK;
    SL_TRY(sl_search_planner_find(name, &row));
    return sl_fail(SL_ERR_REFUSED,
                   "plan: planner '%s' plans models; of files there are even and sluice", name);
}

sl_err sl_cli_plan_imported(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_peer_query query;
    struct sl_peers_plan plan;
    const struct sl_layers *layers;
    sl_err err = SL_OK;
    bool even;
    struct sl_cli_plan_report report = {.file = args->positional[0],
                                        .planner = sl_args_text(args, "--planner", "sluice"),
                                        .plan = &plan};
    if (sl_args_has(args, "-o"))
        SL_TRY_OUT(sl_fail(SL_ERR_USAGE, "plan: -o writes plans of models; of this one --json has "
                                         "everything"));
    SL_TRY_OUT(find_planner(report.planner, &even));
    SL_TRY_OUT(
        sl_cli_layers_open(&arena, report.file, sl_args_text(args, "--cost-model", NULL), &layers));
    SL_TRY_OUT(read_query(args, layers, &query));
    report.layers = layers;
    report.model = sl_peers_model_find(layers->format);
    SL_ASSERT(report.model);
    int64_t start = sl_clock_ns();
    SL_TRY_OUT(sl_cli_plan_until(args, &query.until_ns));
    if (even)
        SL_TRY_OUT(report.model->even(&arena, layers, &query, &plan));
    else
        SL_TRY_OUT(sl_peers_plan(report.model, &arena, layers, &query, &plan));
    report.search_ms = (double)(sl_clock_ns() - start) / 1e6;
    if (sl_args_has(args, "--json"))
        sl_cli_plan_report_json(&report, &text);
    else
        sl_cli_plan_report(&report, &text);
    SL_TRY_OUT(sl_cli_print(&text));
out:
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}
