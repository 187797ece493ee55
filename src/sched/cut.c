/* Finding a cut with the verifier's machine. */
#include "sched/cut.h"

#include "sched/verify.h"

#include <string.h>

int64_t sl_sched_length(const struct sl_sched *sched, int worker) {
    return sched->lists[SL_PROLOGUE][worker].count + sched->lists[SL_EPILOGUE][worker].count +
           sched->lists[SL_PERIOD][worker].count * sched->reps;
}

struct sl_spot sl_sched_spot(const struct sl_sched *sched, int worker, int64_t number) {
    int64_t prologue = sched->lists[SL_PROLOGUE][worker].count;
    int64_t period = sched->lists[SL_PERIOD][worker].count;
    if (number < prologue)
        return (struct sl_spot){SL_PROLOGUE, 0, number};
    number -= prologue;
    if (number < period * sched->reps)
        return (struct sl_spot){SL_PERIOD, (int32_t)(number / period), number % period};
    return (struct sl_spot){SL_EPILOGUE, sched->reps, number - period * sched->reps};
}

static const struct sl_action *action_at(const struct sl_sched *sched, int worker,
                                         struct sl_spot spot) {
    return &sched->lists[spot.segment][worker].at[spot.index];
}

/* ---- playing ---- */

struct play {
    struct sl_ver v;
    int64_t *at; /* [worker] actions run so far */
    /* [worker] it must run at least this many, because another worker waits for one of them */
    int64_t *least;
    int32_t version;
};

/* May the worker stop here? Not before the step of all its stages. Not between a RECOMPUTE and its
 * pass, nor between a complete gradient and its sum over the replicas. Not inside a sum: the other
 * members continue with the part that it has contributed. */
static bool may_stop(const struct play *p, int worker) {
    const struct sl_ver *v = &p->v;
    bool may = p->at[worker] >= p->least[worker] && !v->entered[worker];
    for (int i = 0; may && i < v->plan->worker_seat_count[worker]; i++) {
        int number = v->plan->worker_seats[worker][i];
        const struct sl_seat *seat = &v->plan->seats[number];
        const struct sl_ver_seat *s = &v->seats[number];
        int width = v->plan->stages[seat->stage].width;
        may = s->newest >= p->version && s->full < 0;
        for (int g = 0; width > 1 && g < v->view.pools[number][SL_POOL_GRAD].count; g++)
            may &= s->grads[g].iter < 0 || s->grads[g].reduced > 0 ||
                   s->grads[g].count <
                       sl_sched_deps_share(sl_sched_micros(&v->view, seat->stage, s->grads[g].iter),
                                           width, seat->replica);
    }
    return may || p->at[worker] == sl_sched_length(&v->view, worker);
}

static sl_err advance(struct play *p, int worker, bool *moved) {
    struct sl_ver *v = &p->v;
    for (bool went = true; !may_stop(p, worker); p->at[worker]++, *moved = true) {
        struct sl_spot spot = sl_sched_spot(&v->view, worker, p->at[worker]);
        v->segment = spot.segment;
        v->rep = spot.rep;
        v->at[worker] = spot.index;
        SL_TRY(sl_sched_verify_action(v, worker, action_at(&v->view, worker, spot), &went));
        if (!went)
            return SL_OK;
    }
    return SL_OK;
}

/* Lets one stopped worker run its next action, if another worker waits for it. */
static bool release_one(struct play *p) {
    int count = p->v.plan->worker_count;
    for (int w = 0; w < count; w++) {
        int last = w;
        for (int i = 0; i < count && !may_stop(p, last); i++)
            last = p->v.waits[last].on;
        if (last != w && may_stop(p, last) && p->at[last] < sl_sched_length(&p->v.view, last)) {
            p->least[last] = p->at[last] + 1;
            return true;
        }
    }
    return false;
}

static sl_err play(struct play *p) {
    for (bool moved, all;;) {
        moved = false;
        all = true;
        for (int w = 0; w < p->v.plan->worker_count; w++) {
            SL_TRY(advance(p, w, &moved));
            all &= may_stop(p, w);
        }
        if (all)
            return SL_OK;
        if (!moved && !release_one(p))
            return sl_sched_report_blocked(&p->v.view, p->v.waits);
    }
}

static sl_err check_steps(const struct play *p) {
    const struct sl_plan *plan = p->v.plan;
    for (int i = 0; i < plan->seat_count; i++)
        if (p->v.seats[i].newest != p->version)
            return sl_fail(
                SL_ERR_REFUSED,
                "worker %d makes step n+%d of stage %s before other stages have made step "
                "n, so the run cannot pause between them; give each stage its own "
                "worker, use a larger `micro`, or emulate the pipeline (`emulate`)",
                plan->seats[i].worker, p->v.seats[i].newest - p->version,
                plan->stages[plan->seats[i].stage].name);
    return SL_OK;
}

/* Plays a schedule that is short enough to be played whole. */
static sl_err cut_short(const struct sl_sched *sched, int32_t version, int64_t *at) {
    struct play p = {.v = {.plan = sched->plan, .view = *sched}, .version = version};
    int count = sched->plan->worker_count;
    sl_sched_verify_open(&p.v);
    p.at = SL_NEW(&p.v.arena, int64_t, count);
    p.least = SL_NEW(&p.v.arena, int64_t, count);
    sl_err err = play(&p);
    if (err == SL_OK)
        err = check_steps(&p);
    if (err == SL_OK)
        memcpy(at, p.at, sizeof *at * (size_t)count);
    sl_sched_verify_close(&p.v);
    return err;
}

/* Repetitions far from both ends of the period differ only by a shift of one iteration each. So the
 * cut is found in a schedule with a few of them. */
sl_err sl_sched_cut(const struct sl_sched *sched, int32_t version, int64_t *at) {
    int32_t around = sched->iters - sched->reps, few = 2 * around + 8;
    struct sl_sched view = sched->reps > few ? sl_sched_shorten(sched, few) : *sched;
    int32_t left_out = sched->reps - view.reps, shift = version - view.iters / 2;
    SL_ASSERT(version >= 1 && version <= sched->iters);
    shift = shift < 0 ? 0 : shift > left_out ? left_out : shift;
    if (version == sched->iters) {
        for (int w = 0; w < sched->plan->worker_count; w++)
            at[w] = sl_sched_length(sched, w);
        return SL_OK;
    }
    SL_TRY(cut_short(&view, version - shift, at));
    for (int w = 0; w < sched->plan->worker_count; w++)
        at[w] += shift * sched->lists[SL_PERIOD][w].count;
    return SL_OK;
}
