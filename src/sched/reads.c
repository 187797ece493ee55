/* Reading the weights of passes from the lists of actions. */
#include "sched/reads.h"

#include "sched/deps.h"

struct filling {
    struct sl_reads *reads;
    bool statistics;
};

static sl_err refuse(const struct sl_sched *sched, int stage, const char *why) {
    return sl_fail(SL_ERR_REFUSED,
                   "schedule '%s' cannot run on one worker with the bits of its pipeline: stage %s "
                   "%s",
                   sched->name, sched->plan->stages[stage].name, why);
}

static sl_err check_plan(const struct sl_sched *sched) {
    const struct sl_plan *plan = sched->plan;
    for (int s = 0; s < plan->stage_count; s++) {
        if (plan->stages[s].width > 1)
            return refuse(sched, s, "has replicas, which add gradients in another order");
        if (sched->micros[s] != sched->micros[0] ||
            plan->stages[s].micro_size != plan->stages[0].micro_size)
            return refuse(sched, s, "has another micro-batch size than the first stage");
    }
    return SL_OK;
}

/* ---- lists ---- */

static bool is_pass(const struct sl_action *a, int stage, int backward) {
    bool is_backward = a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_INPUT;
    return a->stage == stage && (backward ? is_backward : a->kind == SL_FORWARD);
}

static int64_t count_passes(const struct sl_sched *sched, int stage, int backward, int segment) {
    const struct sl_actions *list =
        &sched->lists[segment][sched->plan->seats[sched->plan->stages[stage].seat].worker];
    int64_t count = 0;
    for (int64_t i = 0; i < list->count && (segment != SL_PERIOD || sched->reps); i++)
        count += is_pass(&list->at[i], stage, backward);
    return count;
}

/* First micro-batch of a segment; the period: of its first repetition. */
static int64_t first_of(const struct sl_reads *r, const struct sl_reads_list *list, int segment) {
    if (segment == SL_PROLOGUE)
        return 0;
    return list->count[SL_PROLOGUE] +
           (segment == SL_EPILOGUE ? (int64_t)r->sched->reps * r->micros : 0);
}

static sl_err fill_segment(const struct filling *f, int stage, int backward, int segment,
                           struct sl_arena *arena) {
    const struct sl_sched *sched = f->reads->sched;
    int seat = sched->plan->stages[stage].seat;
    const struct sl_actions *actions = &sched->lists[segment][sched->plan->seats[seat].worker];
    struct sl_reads_list *list = &f->reads->of[stage][backward];
    int64_t count = list->count[segment], first = first_of(f->reads, list, segment), next = first;
    bool ordered = backward || f->statistics;
    char *seen = SL_NEW(arena, char, count + 1);
    for (int64_t i = 0; count && i < actions->count; i++) {
        if (!is_pass(&actions->at[i], stage, backward))
            continue;
        struct sl_action a =
            sl_sched_at(sched, seat, &actions->at[i], segment == SL_EPILOGUE ? sched->reps : 0);
        int64_t at = a.micro - first;
        if (at < 0 || at >= count || seen[at])
            return refuse(sched, stage, "runs micro-batches of one segment of its list in another");
        if (ordered && a.micro != next++)
            return refuse(sched, stage,
                          backward
                              ? "adds its gradients in another order than one worker"
                              : "runs its forward passes in another order than one worker, and "
                                "the model has running statistics");
        seen[at] = 1;
        list->at[segment][at] = (struct sl_read){a.version, a.ahead};
    }
    return SL_OK;
}

static sl_err fill_stage(const struct filling *f, int stage, struct sl_arena *arena) {
    struct sl_reads *r = f->reads;
    struct sl_arena scratch = {0};
    sl_err err = SL_OK;
    for (int b = 0; b < 2; b++) {
        struct sl_reads_list *list = &r->of[stage][b];
        for (int g = 0; g < SL_SEGMENT_COUNT; g++) {
            list->count[g] = count_passes(r->sched, stage, b, g);
            list->at[g] = SL_NEW(arena, struct sl_read, list->count[g] + 1);
        }
        if (list->count[SL_PERIOD] && list->count[SL_PERIOD] != r->micros)
            SL_TRY_OUT(refuse(r->sched, stage, "runs more than one iteration in its period"));
        for (int g = 0; g < SL_SEGMENT_COUNT; g++)
            SL_TRY_OUT(fill_segment(f, stage, b, g, &scratch));
    }
out:
    sl_arena_free(&scratch);
    return err;
}

/* ---- reading ---- */

struct sl_read sl_sched_read_of(const struct sl_reads *r, int stage, bool backward, int64_t micro) {
    const struct sl_reads_list *list = &r->of[stage][backward];
    int64_t at = micro - list->count[SL_PROLOGUE], period = (int64_t)r->sched->reps * r->micros;
    if (backward && !list->count[SL_PROLOGUE] && !list->count[SL_PERIOD] &&
        !list->count[SL_EPILOGUE])
        return sl_sched_read_of(r, stage, false, micro);
    if (at < 0)
        return list->at[SL_PROLOGUE][micro];
    if (at >= period) {
        SL_ASSERT(at - period < list->count[SL_EPILOGUE]);
        return list->at[SL_EPILOGUE][at - period];
    }
    struct sl_read read = list->at[SL_PERIOD][at % r->micros];
    read.version += (int32_t)(at / r->micros);
    return read;
}

int64_t sl_sched_reads_sample(const struct sl_reads *r, int64_t n) {
    int64_t iters = r->sched->iters, around = 2 * r->border;
    if (iters > 2 * around && n >= around)
        n += iters - 2 * around;
    return n < iters ? n : -1;
}

static bool same_read(struct sl_read a, struct sl_read b) {
    return a.version == b.version && a.ahead == b.ahead;
}

bool sl_sched_reads_equal(const struct sl_reads *r, int a, int b) {
    for (int64_t n = 0, t; (t = sl_sched_reads_sample(r, n)) >= 0; n++)
        for (int64_t k = t * r->micros; k < (t + 1) * r->micros; k++)
            for (int back = 0; back < 2; back++)
                if (!same_read(sl_sched_read_of(r, a, back, k), sl_sched_read_of(r, b, back, k)))
                    return false;
    return true;
}

static void find_facts(struct sl_reads *r) {
    r->same = r->newest[0] = r->newest[1] = r->uniform = true;
    for (int s = 1; s < r->sched->plan->stage_count; s++)
        r->uniform = r->uniform && sl_sched_reads_equal(r, 0, s);
    for (int s = 0; s < r->sched->plan->stage_count; s++)
        for (int64_t n = 0, t; (t = sl_sched_reads_sample(r, n)) >= 0; n++)
            for (int64_t k = t * r->micros; k < (t + 1) * r->micros; k++) {
                struct sl_read newest = {.version = (int32_t)t};
                struct sl_read f = sl_sched_read_of(r, s, false, k);
                struct sl_read b = sl_sched_read_of(r, s, true, k);
                r->same = r->same && same_read(f, b);
                r->newest[0] = r->newest[0] && same_read(f, newest);
                r->newest[1] = r->newest[1] && same_read(b, newest);
            }
}

sl_err sl_sched_reads_open(struct sl_arena *arena, const struct sl_sched *sched, bool statistics,
                           struct sl_reads *out) {
    struct filling f = {out, statistics};
    *out = (struct sl_reads){.sched = sched, .micros = sched->micros[0]};
    SL_TRY(check_plan(sched));
    out->of = sl_arena_alloc(arena, sched->plan->stage_count * (int64_t)sizeof *out->of);
    for (int s = 0; s < sched->plan->stage_count; s++)
        SL_TRY(fill_stage(&f, s, arena));
    out->border = sched->iters - sched->reps + 2;
    find_facts(out);
    return SL_OK;
}
