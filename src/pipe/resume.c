/* Where a schedule begins, where it pauses, and how it goes on from a checkpoint. */
#include "pipe/resume.h"

#include "pipe/reporter.h"
#include "pipe/scale.h"
#include "sched/cut.h"
#include "sched/deps.h"
#include "sched/lag.h"
#include "sched/slots.h"

#include <stdio.h>
#include <string.h>

static bool is_async(const struct sl_pipe *pipe) { return !sl_pipe_is_synchronous(pipe); }

bool sl_pipe_skips(const struct sl_pipe *pipe, const struct sl_action *a) {
    if (!pipe->skipped || pipe->sched->rule == SL_RULE_FORWARD)
        return false;
    return a->kind <= SL_RECV ? a->micro / pipe->sched->micros[a->stage] < pipe->skipped
                              : a->version <= pipe->skipped;
}

/* ---- a new schedule ---- */

/* Puts version 0 into weight slab 0; the last schedule may have left the newest version elsewhere.
 * If the schedule begins after its first iterations, puts every version where these would have left
 * it. */
static sl_err start_seat(struct sl_pipe *pipe, struct sl_pipe_seat *seat) {
    struct sl_worker *worker = seat->train.worker;
    const struct sl_slot_pool *pools = pipe->sched->pools[seat->number];
    int slots = sl_sched_slots(pipe->sched, seat->number);
    int versions = pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count;
    seat->filled = 0;
    if (slots > seat->slots || versions > worker->versions ||
        pools[SL_POOL_GRAD].count > worker->grad_slots)
        return sl_fail(SL_ERR_REFUSED,
                       "stage %d needs %d micro-batches in flight and %d weight versions for a run "
                       "of this length; it was opened with %d and %d",
                       seat->stage, slots, versions, seat->slots, worker->versions);
    if (!pipe->skipped && seat->newest != 0)
        SL_TRY(sl_run_worker_copy_weights(worker, 0, seat->newest));
    if (pipe->skipped && seat->newest != pipe->done % 2) {
        void *newest = worker->param[seat->newest];
        worker->param[seat->newest] = worker->param[1 - seat->newest];
        worker->param[1 - seat->newest] = newest;
    }
    seat->newest = (int)(pipe->done % pools[SL_POOL_WEIGHT].count);
    seat->counted = -1;
    sl_pipe_border_start(seat);
    sl_pipe_staleness_start(seat);
    return SL_OK;
}

/* Prepares everything that the first run of a schedule needs. */
static sl_err open_run(struct sl_pipe *pipe, int64_t iters) {
    const struct sl_plan *plan = pipe->config.plan;
    SL_TRY(sl_pipe_build_sched(pipe, iters));
    SL_TRY(sl_pipe_check_links(pipe));
    for (int i = 0; i < plan->seat_count; i++)
        if (pipe->seat_at[i])
            SL_TRY(start_seat(pipe, pipe->seat_at[i]));
    for (int w = 0; w < plan->worker_count; w++)
        pipe->at[w] = 0;
    for (int64_t i = 0; i < pipe->boxes.count; i++)
        pipe->boxes.at[i]->kept = NULL;
    pipe->traced = false;
    sl_pipe_global_step_start(pipe);
    sl_pipe_scale_start(pipe);
    return SL_OK;
}

/* The longest schedule, in iterations, whose micro-batch numbers still fit. */
static int64_t max_iters(const struct sl_pipe *pipe) {
    return INT32_MAX / 4 / pipe->max_micros - 16;
}

/* 2bw: number of iterations that count as already run. A resumed run uses the schedule of a run
 * that was never stopped. */
static int64_t lead_of(const struct sl_pipe *pipe) {
    enum { FEW = 64 };
    if (!pipe->portable || pipe->previous < 0)
        return 0;
    return pipe->start_step < max_iters(pipe) / 2 ? pipe->start_step : FEW + pipe->start_step % 2;
}

/* Number of steps of the schedule. An asynchronous schedule makes all steps that are left, so that
 * it need not be drained. */
static int64_t horizon(const struct sl_pipe *pipe, int64_t steps) {
    int64_t max = INT32_MAX / 4 / pipe->max_micros - 16,
            left = pipe->train.steps - pipe->start_step;
    if (!is_async(pipe))
        return steps;
    left = left < max ? left : max;
    return left > steps ? left : steps;
}

/* Skips at once all actions before a cut that lies so far back that nothing before it belongs to a
 * running iteration. If there is no such cut, actions are skipped one by one. */
static void skip_far(struct sl_pipe *pipe) {
    int64_t far = pipe->skipped - sl_pipe_terms_ahead(pipe) - 1;
    if (far <= 0 || sl_sched_cut(pipe->sched, (int32_t)far, pipe->at) != SL_OK)
        memset(pipe->at, 0, sizeof *pipe->at * (size_t)pipe->config.plan->worker_count);
}

sl_err sl_pipe_begin(struct sl_pipe *pipe, int64_t steps) {
    int64_t lead = lead_of(pipe), iters = horizon(pipe, steps) + lead;
    pipe->start_step -= lead;
    pipe->start_sample -= lead * pipe->train.batch;
    pipe->done = pipe->skipped = lead;
    SL_TRY(open_run(pipe, iters));
    skip_far(pipe);
    return SL_OK;
}

sl_err sl_pipe_end(struct sl_pipe *pipe, int64_t done) {
    pipe->done = done;
    pipe->under_way = done < pipe->sched->iters;
    if (pipe->under_way)
        return pipe->portable ? SL_OK : sl_pipe_image_take(pipe);
    pipe->start_step += done;
    pipe->start_sample += done * pipe->train.batch;
    pipe->previous = pipe->portable ? (int)(done + 1) % 2 : -1;
    pipe->done = pipe->skipped = 0;
    return SL_OK;
}

/* ---- checkpoints ---- */

struct cut_text {
    int64_t origin;         /* the step after which the schedule begins */
    uint64_t hash, layouts; /* hash: of the actions before the cut; layouts: of the images */
};

static void put_cut(const struct sl_pipe *pipe, char out[SL_CKPT_CUT_TEXT]) {
    snprintf(out, SL_CKPT_CUT_TEXT, "%lld %016llx %016llx", (long long)pipe->start_step,
             (unsigned long long)sl_pipe_cut_hash(pipe->sched, pipe->at),
             (unsigned long long)sl_pipe_layouts(pipe));
}

struct sl_ckpt_place sl_pipe_place(const struct sl_pipe *pipe) {
    struct sl_ckpt_place place =
        sl_run_place(&pipe->train, pipe->start_step + pipe->done,
                     pipe->start_sample + pipe->done * pipe->train.batch, &pipe->scale);
    struct sl_text text = {0};
    place.in_flight = pipe->under_way && !pipe->portable;
    place.previous = pipe->portable && (pipe->under_way || pipe->previous >= 0);
    if (place.in_flight)
        put_cut(pipe, place.cut);
    else if (is_async(pipe) && !pipe->portable && place.step > 0)
        snprintf(place.cut, sizeof place.cut, "drained");
    if (!place.previous || !*place.loss_scale)
        return place;
    sl_text_put(&text, place.loss_scale);
    for (int i = 0; i < SL_PIPE_PAST && pipe->past[i].value > 0; i++) {
        sl_text_put(&text, ";");
        sl_optim_scale_state_put(&text, &pipe->past[i]);
    }
    snprintf(place.loss_scale, sizeof place.loss_scale, "%s", text.at);
    sl_text_free(&text);
    return place;
}

static bool parse_cut(const char *text, struct cut_text *out) {
    long long step;
    unsigned long long hash, layouts;
    char end;
    /* NOLINTNEXTLINE(cert-err34-c) */
    if (sscanf(text, "%lld %llx %llx%c", &step, &hash, &layouts, &end) != 3)
        return false;
    *out = (struct cut_text){step, hash, layouts};
    return true;
}

static sl_err refuse_cut(const struct sl_pipe *pipe, const struct sl_ckpt_place *place,
                         const char *why) {
    return sl_fail(
        SL_ERR_REFUSED,
        "the run would not continue from step %lld with the bits of an undisturbed one: "
        "schedule '%s' %s. Set `allow_change` to begin again there with an empty pipeline",
        (long long)place->step, pipe->sched->name, why);
}

/* Finds the cut of the checkpoint in the schedule of this run. */
static sl_err find_cut(struct sl_pipe *pipe, int64_t origin, int64_t step, int64_t *at) {
    SL_TRY(sl_pipe_build_sched(pipe, pipe->train.steps - origin));
    SL_TRY(sl_pipe_check_links(pipe));
    return sl_sched_cut(pipe->sched, (int32_t)(step - origin), at);
}

sl_err sl_pipe_fits(struct sl_pipe *pipe, const struct sl_ckpt_place *place, bool may_drop,
                    bool *fits) {
    struct cut_text cut;
    *fits = false;
    if (pipe->portable || !is_async(pipe) || !*place->cut || place->step >= pipe->train.steps)
        return SL_OK; /* nothing is in flight, or the run has ended */
    if (!parse_cut(place->cut, &cut) || cut.origin < 0 || cut.origin >= place->step)
        return may_drop ? SL_OK
                        : refuse_cut(pipe, place, "had drained its pipeline at the end of the run");
    sl_err err = find_cut(pipe, cut.origin, place->step, pipe->at);
    bool same = err == SL_OK && sl_pipe_cut_hash(pipe->sched, pipe->at) == cut.hash;
    *fits = same && sl_pipe_layouts(pipe) == cut.layouts;
    if (*fits || may_drop)
        return SL_OK;
    if (same)
        return refuse_cut(pipe, place,
                          "had micro-batches in flight, and this version of Sluice places their "
                          "tensors elsewhere");
    return err != SL_OK ? err
                        : refuse_cut(pipe, place,
                                     "had micro-batches in flight, and with these options it "
                                     "would have run others before this step");
}

/* Reads the loss scales of past steps, in the order in which sl_pipe_place writes them. */
static sl_err read_scales(struct sl_pipe *pipe, struct sl_ckpt_place *place) {
    SL_TRY(sl_run_place_scale(&pipe->train, place, &pipe->scale));
    for (int i = 0; i < SL_PIPE_PAST; i++) {
        char *next = strchr(place->loss_scale, ';');
        if (next)
            memmove(place->loss_scale, next + 1, strlen(next));
        pipe->past[i] = i ? pipe->past[i - 1] : pipe->scale;
        if (next)
            SL_TRY(sl_run_place_scale(&pipe->train, place, &pipe->past[i]));
        else
            place->loss_scale[0] = 0;
    }
    return SL_OK;
}

/* Restores the positions of the workers and their images; the bytes of the images have been
 * loaded. */
static sl_err restore_image(struct sl_pipe *pipe, const struct sl_ckpt_place *place) {
    int64_t *at = pipe->at;
    struct cut_text cut;
    if (!parse_cut(place->cut, &cut))
        return sl_fail(SL_ERR_INPUT, "the checkpoint of step %lld: its cut is '%.60s'",
                       (long long)place->step, place->cut);
    pipe->start_step = cut.origin;
    pipe->done = place->step - cut.origin;
    pipe->start_sample = place->sample - pipe->done * pipe->train.batch;
    SL_TRY(open_run(pipe, pipe->train.steps - cut.origin));
    SL_TRY(find_cut(pipe, cut.origin, place->step, at));
    sl_pipe_terms_grow(pipe, 0);
    SL_TRY(sl_pipe_reporter_start(pipe, 0));
    SL_TRY(sl_pipe_image_apply(pipe));
    pipe->under_way = true;
    return SL_OK;
}

sl_err sl_pipe_restore(struct sl_pipe *pipe, const struct sl_ckpt_place *root) {
    struct sl_ckpt_place at = *root;
    SL_TRY(sl_comm_merge(pipe->comm, &at, sizeof at)); /* `at` is zero on the other ranks */
    pipe->previous = pipe->portable && at.previous ? 0 : -1;
    pipe->start_step = at.step;
    pipe->start_sample = at.sample;
    pipe->done = pipe->skipped = 0;
    pipe->under_way = false;
    for (int s = 0; s < pipe->config.plan->seat_count; s++)
        if (pipe->seat_at[s]) /* the older version was loaded into slab 0, the newest one into
                               * all slabs */
            pipe->seat_at[s]->newest = pipe->previous == 0;
    SL_TRY(read_scales(pipe, &at));
    return at.in_flight ? restore_image(pipe, &at) : SL_OK;
}
