/* Plans a graph of another planner under the cost model of its format. */
#include "base/clock.h"
#include "interop/importer.h"
#include "job/defaults.h"
#include "job/plan.h"
#include "planners/registry.h"

#include <string.h>

enum { DEVICES_MAX = 1 << 20 };
static const double default_bandwidth = 1e9; /* bytes per second; PipeDream uses the same */

/* Calls `parse` for each item of "4,8". */
static sl_err split(const char *list, const char *name,
                    sl_err (*parse)(struct sl_peers_query *query, int i, const char *item),
                    struct sl_peers_query *query, int *count) {
    char item[64];
    *count = 0;
    for (const char *at = list;;) {
        size_t length = strcspn(at, ",");
        if (!length || length >= sizeof item)
            return sl_fail(SL_ERR_USAGE, "%s: an item of '%s' is empty or too long", name, list);
        if (*count == SL_PEERS_LEVELS)
            return sl_fail(SL_ERR_USAGE, "%s: more than %d levels", name, SL_PEERS_LEVELS);
        memcpy(item, at, length);
        item[length] = 0;
        SL_TRY(parse(query, (*count)++, item));
        if (!at[length])
            return SL_OK;
        at += length + 1;
    }
}

static sl_err parse_level(struct sl_peers_query *query, int i, const char *item) {
    SL_TRY(sl_parse_int(item, "`levels`", &query->level[i]));
    if (query->level[i] < 1 || query->level[i] > DEVICES_MAX)
        return sl_fail(SL_ERR_USAGE, "`levels`: '%s' is not in 1..%d", item, DEVICES_MAX);
    return SL_OK;
}

static sl_err parse_bandwidth(struct sl_peers_query *query, int i, const char *item) {
    SL_TRY(sl_parse_bandwidth(item, "`bandwidth`", &query->bandwidth[i]));
    if (!(query->bandwidth[i] > 0))
        return sl_fail(SL_ERR_USAGE, "`bandwidth`: '%s' must be positive", item);
    return SL_OK;
}

static sl_err read_levels(const struct sl_job_peer_request *r, struct sl_peers_query *query) {
    int64_t devices = 1;
    query->level_count = 1;
    query->level[0] = query->devices;
    if (!r->levels)
        return SL_OK;
    SL_TRY(split(r->levels, "`levels`", parse_level, query, &query->level_count));
    for (int i = 0; i < query->level_count; i++)
        devices = devices < 1 << 24 ? devices * query->level[i] : devices;
    if (r->devices && devices != query->devices)
        return sl_fail(SL_ERR_USAGE, "`levels`: %s has %lld devices, but `devices` is %lld",
                       r->levels, (long long)devices, (long long)query->devices);
    query->devices = devices;
    return SL_OK;
}

static sl_err read_bandwidths(const struct sl_job_peer_request *r, struct sl_peers_query *query) {
    int count = 1;
    if (r->bandwidths) {
        SL_TRY(split(r->bandwidths, "`bandwidth`", parse_bandwidth, query, &count));
        if (count != query->level_count)
            return sl_fail(SL_ERR_USAGE, "`bandwidth`: %d values for %d levels", count,
                           query->level_count);
    }
    for (int i = count; i < query->level_count; i++)
        query->bandwidth[i] = query->bandwidth[0];
    return SL_OK;
}

/* Fields of the request override the machine in the file. */
static sl_err build_query(const struct sl_job_peer_request *r, const struct sl_layers *layers,
                          struct sl_peers_query *query) {
    int64_t micros = layers->machine.micro ? layers->machine.micro : 1;
    double bandwidth = layers->machine.bandwidth;
    *query =
        (struct sl_peers_query){.devices = r->devices ? r->devices : layers->machine.devices,
                                .memory_bytes = r->memory_bytes >= 0 ? (double)r->memory_bytes
                                                                     : layers->machine.memory_bytes,
                                .micro = r->micros ? r->micros : micros,
                                .cpus = r->cpus >= 0 ? r->cpus : layers->machine.cpus,
                                .bandwidth = {bandwidth > 0 ? bandwidth : default_bandwidth},
                                .all_devices = r->all_devices,
                                .straight = r->straight,
                                .free_links = r->free_links,
                                .scattered = r->scattered};
    SL_TRY(read_levels(r, query));
    SL_TRY(read_bandwidths(r, query));
    if (query->devices < 1)
        return sl_fail(SL_ERR_USAGE,
                       "%s: the file has no number of devices; give devices (K) or "
                       "levels (4,8)",
                       r->file);
    return SL_OK;
}

static sl_err find_planner(const char *name, const struct sl_planner **out) {
    SL_TRY(sl_planners_find(name, out));
    if (!(*out)->plans_imported)
        return sl_fail(SL_ERR_REFUSED, "`planner`: '%s' plans models; even and sluice plan files",
                       name);
    return SL_OK;
}

sl_err sl_job_plan_peer(struct sl_arena *arena, const struct sl_job_peer_request *request,
                        struct sl_report_peer_plan *out) {
    struct sl_peers_plan *plan = SL_NEW(arena, struct sl_peers_plan, 1);
    const struct sl_planner *planner;
    struct sl_peers_query query;
    *out = (struct sl_report_peer_plan){
        .file = request->file, .planner = SL_JOB_OR(request->planner, "sluice"), .plan = plan};
    SL_TRY(find_planner(out->planner, &planner));
    if (request->cost_model)
        SL_TRY(sl_peers_cost_model_find(request->cost_model, &out->model));
    SL_TRY(sl_interop_import(arena, request->file, out->model ? out->model->format : NULL,
                             &out->layers));
    SL_TRY(build_query(request, out->layers, &query));
    out->model = sl_peers_cost_model_of(out->layers->format);
    SL_ASSERT(out->model);
    int64_t start_ns = sl_clock_ns();
    if (request->time_limit_s > 0)
        query.until_ns = start_ns + (int64_t)(request->time_limit_s * 1e9);
    if (planner->even_stages)
        SL_TRY(out->model->even(arena, out->layers, &query, plan));
    else
        SL_TRY(sl_peers_plan(out->model, arena, out->layers, &query, plan));
    out->search_ms = (double)(sl_clock_ns() - start_ns) / 1e6;
    return SL_OK;
}
