/* Finds whether a model fits, by simulating layouts (fits.h). */
#include "sizing/fits.h"

#include "job/defaults.h"
#include "profile/machine_file.h"

/* Does the error mean that the machine, the batch or the model does not allow the layout? */
static bool is_impossible(sl_err err) { return err == SL_ERR_REFUSED || err == SL_ERR_USAGE; }

static sl_err try(struct sl_arena *arena, const struct sl_sizing_request *request,
                  struct sl_report_model_sim *out, bool *possible) {
    sl_err err = sl_sizing_sim(arena, request, out);
    *possible = err == SL_OK;
    return is_impossible(err) ? SL_OK : err;
}

/* ---- open degrees ---- */

/* Finds the smallest degrees: first the fewest devices per replica; of equally many, more shards
 * and fewer stages. */
static sl_err find_smallest(struct sl_arena *arena, struct sl_sizing_request *request, int devices,
                            int in_host, struct sl_report_fits *out) {
    struct sl_sizing_request r = *request;
    struct sl_report_model_sim sim;
    int64_t least = INT64_MAX;
    for (int each = 1; each <= devices; each *= 2)
        for (int t = each < in_host ? each : in_host; t >= 1; t--) {
            bool possible = each % t == 0 && in_host % t == 0;
            r.plan.tp = t;
            r.plan.pp = each / t;
            if (possible)
                SL_TRY(try(arena, &r, &sim, &possible));
            if (!possible || sim.score.over_bytes >= least)
                continue;
            least = sim.score.over_bytes;
            out->sim = sim;
            *request = r;
            if (least <= 0)
                return SL_OK;
        }
    if (least == INT64_MAX) /* the message of this simulation says why */
        return sl_sizing_sim(arena, request, &out->sim);
    return SL_OK;
}

static sl_err open_degrees(struct sl_arena *arena, struct sl_sizing_request *request,
                           struct sl_report_fits *out) {
    const struct sl_machine *m;
    SL_TRY(sl_profile_machine_argument(arena, SL_JOB_OR(request->plan.machine, "here"), &m));
    int in_host = 0;
    for (int d = 0; d < m->device_count && m->host_of[d] == 0; d++)
        in_host++;
    out->searched = true;
    return find_smallest(arena, request, m->device_count, in_host, out);
}

/* ---- changes ---- */

static sl_err add_change(struct sl_arena *arena, const struct sl_sizing_request *request,
                         const char *what, struct sl_report_fits *out) {
    struct sl_report_model_sim sim;
    bool possible;
    SL_TRY(try(arena, request, &sim, &possible));
    if (!possible)
        return SL_OK;
    out->changes[out->change_count++] = (struct sl_fits_change){.what = what,
                                                                .peak_bytes = sim.score.peak_bytes,
                                                                .step_ns = sim.score.sim_ns,
                                                                .fits = sim.score.over_bytes <= 0};
    return SL_OK;
}

/* Tries changes of one option at a time. More shards or stages take devices from the replicas. */
static sl_err try_changes(struct sl_arena *arena, const struct sl_sizing_request *request,
                          struct sl_report_fits *out) {
    const struct sl_problem *p = out->sim.detail->problem;
    int t = sl_search_problem_shards(p), pp = out->sim.pp, d = out->sim.detail->c.width[0];
    int64_t size = p->sizes[0];
    struct sl_sizing_request base = *request, r;
    base.plan.dp = d;
    base.plan.pp = pp;
    r = base;
    r.plan.recompute = "all";
    if (p->recompute != SL_RECOMPUTE_ALWAYS)
        SL_TRY(add_change(arena, &r, "--recompute all", out));
    r = base;
    r.plan.zero1 = true;
    if (d > 1 && !p->zero1 && !r.plan.no_zero1)
        SL_TRY(add_change(arena, &r, "--zero1", out));
    r = base;
    r.plan.micro_size = size / 2;
    r.plan.micros = 0;
    if (size > 1 && size % 2 == 0)
        SL_TRY(add_change(arena, &r,
                          sl_arena_printf(arena, "--micro-batch %lld", (long long)size / 2), out));
    r = base;
    r.plan.tp = 2 * t;
    r.plan.dp = 0;
    SL_TRY(add_change(arena, &r, sl_arena_printf(arena, "--tp %d", 2 * t), out));
    r = base;
    r.plan.pp = 2 * (int64_t)pp;
    r.plan.dp = 0;
    return add_change(arena, &r, sl_arena_printf(arena, "--pp %d", 2 * pp), out);
}

sl_err sl_sizing_fits(struct sl_arena *arena, const struct sl_sizing_request *request,
                      struct sl_report_fits *out) {
    struct sl_sizing_request r = *request;
    *out = (struct sl_report_fits){.searched = false};
    if (r.plan.tp <= 0 && !r.plan.pp && !r.plan.dp)
        SL_TRY(open_degrees(arena, &r, out));
    else
        SL_TRY(sl_sizing_sim(arena, &r, &out->sim));
    sl_report_fits_measure(&out->sim, &out->bytes);
    return try_changes(arena, &r, out);
}
