/* Reading .sched: a plan, the numbers, then one action per line.
 *
 *     sluice-sched 1
 *     ...the lines of a plan...
 *     program "2bw" rule twobw [policy "2bw-predict"] [slack 1] [together] lowered    or: passes
 *     samples 8 last 8 iters 8 reps 5
 *     time s0 F 1 B 2 I 1 W 1 RECOMPUTE 1 SEND 0 RECV 0 REDUCE 0 STEP 0 PREDICT 0
 *     pools s0 0  3 1 37  0 0 37 ...      per seat: slots, turn, bytes of every pool
 *     worker 0
 *     prologue
 *     F s0 3 v 1 w 1 s 0                  stage, micro-batch; version, weight slot, stash slot
 *     SEND act s0 3 peer 1 edge 0 other 3 s 1
 *     REDUCE s0 v 2 s 0
 *     STEP s0 v 2 w 0 s 1
 *     PREDICT s0 v 2 w 2 p 1 s 0          p: how far ahead; w: where it goes; s: made from
 *     period
 *     ...
 */
#include "plan/text.h"
#include "base/lex.h"
#include "base/vec.h"
#include "sched/deps.h"

#include <string.h>

enum { NUMBER_MAX = INT32_MAX / 4 };

typedef SL_VEC(struct sl_action) action_vec;

struct reader {
    struct sl_lex *lex;
    struct sl_arena *arena;
    struct sl_sched *sched;
    struct sl_slot_pool **pools;
    int64_t (*dur_ns)[SL_KIND_COUNT];
    action_vec *lists; /* [segment * workers + worker] */
    int worker, segment;
};

static sl_err take_range(struct sl_lex *lex, const char *what, int64_t low, int64_t high,
                         int64_t *out) {
    struct sl_pos pos = lex->tok.pos;
    SL_TRY(sl_lex_take_int(lex, what, out));
    if (*out < low || *out > high)
        return sl_lex_fail_at(lex, pos, "%s %lld is not in %lld..%lld", what, (long long)*out,
                              (long long)low, (long long)high);
    return SL_OK;
}

static sl_err take_word(struct sl_lex *lex, const char *word) {
    char found[64];
    if (!sl_lex_is_name(lex, word))
        return sl_lex_fail(lex, "expected '%s', found %s", word, sl_lex_found(lex, found));
    return sl_lex_next(lex);
}

static sl_err take_stage(struct reader *r, int *out) {
    struct sl_pos pos = r->lex->tok.pos;
    struct sl_str name;
    SL_TRY(sl_lex_take_name(r->lex, "the name of a stage", &name));
    /* try the stages of the current worker first: they are few, and most lines are about them */
    const struct sl_plan *plan = r->sched->plan;
    for (int i = 0; r->worker >= 0 && i < plan->worker_seat_count[r->worker]; i++) {
        int stage = plan->seats[plan->worker_seats[r->worker][i]].stage;
        if (sl_str_is(name, plan->stages[stage].name)) {
            *out = stage;
            return SL_OK;
        }
    }
    *out = sl_plan_find_stage(plan, name);
    return *out >= 0 ? SL_OK
                     : sl_lex_fail_at(r->lex, pos, "no stage is called '%.*s'", (int)name.length,
                                      name.at);
}

/* --- head --- */

static sl_err read_rule(struct reader *r) {
    SL_TRY(take_word(r->lex, "rule"));
    char found[64];
    for (int i = 0; i < SL_RULE_COUNT; i++)
        if (sl_lex_is_name(r->lex, sl_sched_rule_name((enum sl_rule)i))) {
            r->sched->rule = (enum sl_rule)i;
            return sl_lex_next(r->lex);
        }
    return sl_lex_fail(r->lex,
                       "expected a rule (sync, twobw, stash, vsync, newest, forward), found %s",
                       sl_lex_found(r->lex, found));
}

static sl_err read_policy(struct reader *r) {
    struct sl_pos pos = r->lex->tok.pos;
    struct sl_str text;
    if (!sl_lex_is_name(r->lex, "policy"))
        return SL_OK;
    SL_TRY(sl_lex_next(r->lex));
    SL_TRY(sl_lex_take_string(r->lex, "a policy in quotes", &text));
    if (sl_optim_policy_parse(sl_arena_dup(r->arena, text.at, text.length), &r->sched->policy) !=
        SL_OK) {
        const char *why = sl_arena_dup(r->arena, sl_err_message(), strlen(sl_err_message()));
        return sl_lex_fail_at(r->lex, pos, "%s", why);
    }
    return SL_OK;
}

static sl_err read_program(struct reader *r) {
    struct sl_str name;
    SL_TRY(take_word(r->lex, "program"));
    SL_TRY(sl_lex_take_string(r->lex, "the name of the schedule in quotes", &name));
    r->sched->name = sl_arena_dup(r->arena, name.at, name.length);
    SL_TRY(read_rule(r));
    SL_TRY(read_policy(r));
    if (sl_lex_is_name(r->lex, "slack")) {
        int64_t slack;
        SL_TRY(sl_lex_next(r->lex));
        SL_TRY(take_range(r->lex, "slack", 1, 1 << 20, &slack));
        r->sched->slack = (int32_t)slack;
    }
    r->sched->global_step = sl_lex_is_name(r->lex, "together");
    if (r->sched->global_step)
        SL_TRY(sl_lex_next(r->lex));
    r->sched->lowered = sl_lex_is_name(r->lex, "lowered");
    SL_TRY(take_word(r->lex, r->sched->lowered ? "lowered" : "passes"));
    return sl_lex_take_newline(r->lex);
}

static sl_err read_samples(struct reader *r) {
    struct sl_sched *s = r->sched;
    struct sl_pos pos = r->lex->tok.pos;
    int64_t iters, reps;
    SL_TRY(take_word(r->lex, "samples"));
    SL_TRY(take_range(r->lex, "samples", 1, INT64_MAX >> 16, &s->batch));
    SL_TRY(take_word(r->lex, "last"));
    SL_TRY(take_range(r->lex, "last", 1, s->batch, &s->last_batch));
    SL_TRY(take_word(r->lex, "iters"));
    SL_TRY(take_range(r->lex, "iters", 1, NUMBER_MAX, &iters));
    SL_TRY(take_word(r->lex, "reps"));
    SL_TRY(take_range(r->lex, "reps", 0, iters, &reps));
    s->iters = (int32_t)iters;
    s->reps = (int32_t)reps;
    int32_t *micros = SL_NEW(r->arena, int32_t, s->plan->stage_count);
    for (int i = 0; i < s->plan->stage_count; i++) {
        int64_t size = s->plan->stages[i].micro_size, n = (s->batch - 1) / size + 1;
        if (n > NUMBER_MAX / iters)
            return sl_lex_fail_at(r->lex, pos, "too many micro-batches");
        micros[i] = (int32_t)n;
    }
    s->micros = micros;
    return sl_lex_take_newline(r->lex);
}

static sl_err read_times(struct reader *r) {
    while (sl_lex_is_name(r->lex, "time")) {
        int stage;
        SL_TRY(sl_lex_next(r->lex));
        SL_TRY(take_stage(r, &stage));
        for (int k = 0; k < SL_KIND_COUNT; k++) {
            SL_TRY(take_word(r->lex, sl_sched_kind_name((enum sl_kind)k)));
            SL_TRY(take_range(r->lex, "nanoseconds", 0, INT64_MAX >> 24, &r->dur_ns[stage][k]));
        }
        SL_TRY(sl_lex_take_newline(r->lex));
    }
    return SL_OK;
}

static sl_err read_pools(struct reader *r) {
    const struct sl_plan *plan = r->sched->plan;
    while (sl_lex_is_name(r->lex, "pools")) {
        int stage;
        int64_t replica, count, turn, bytes;
        SL_TRY(sl_lex_next(r->lex));
        SL_TRY(take_stage(r, &stage));
        SL_TRY(take_range(r->lex, "replica", 0, plan->stages[stage].width - 1, &replica));
        int pools = sl_sched_pool_count(&plan->stages[stage]);
        struct sl_slot_pool *at = SL_NEW(r->arena, struct sl_slot_pool, pools);
        for (int i = 0; i < pools; i++) {
            SL_TRY(take_range(r->lex, "slots", 0, NUMBER_MAX, &count));
            SL_TRY(take_range(r->lex, "turn", 0, NUMBER_MAX, &turn));
            SL_TRY(take_range(r->lex, "bytes", 0, INT64_MAX >> 16, &bytes));
            at[i] = (struct sl_slot_pool){(int32_t)count, (int32_t)turn, bytes};
        }
        r->pools[plan->stages[stage].seat + replica] = at;
        SL_TRY(sl_lex_take_newline(r->lex));
    }
    for (int i = 0; r->sched->lowered && i < plan->seat_count; i++)
        if (!r->pools[i])
            return sl_lex_fail(r->lex, "the pools of stage %s, replica %d are missing",
                               plan->stages[plan->seats[i].stage].name, plan->seats[i].replica);
    return SL_OK;
}

/* --- actions --- */

static sl_err read_fields(struct reader *r, struct sl_action *a) {
    bool message = a->kind == SL_SEND || a->kind == SL_RECV;
    while (r->lex->tok.kind == SL_TOK_NAME) {
        struct sl_str key = r->lex->tok.text;
        int64_t value;
        SL_TRY(sl_lex_next(r->lex));
        SL_TRY(take_range(r->lex, "number", -NUMBER_MAX, NUMBER_MAX, &value));
        bool is_short = value >= 0 && value <= UINT16_MAX, is_byte = value >= 0 && value <= 255;
        if (sl_str_is(key, "s"))
            a->slot = (int32_t)value;
        else if (sl_str_is(key, "k"))
            a->slot2 = (int32_t)value;
        else if (message && sl_str_is(key, "other"))
            a->other = (int32_t)value;
        else if (message && is_short && sl_str_is(key, "peer"))
            a->peer = (uint16_t)value;
        else if (message && is_short && sl_str_is(key, "edge"))
            a->edge = (uint16_t)value;
        else if (!message && sl_str_is(key, "v"))
            a->version = (int32_t)value;
        else if (!message && is_short && sl_str_is(key, "w"))
            a->weight_slot = (uint16_t)value;
        else if (!message && is_byte && sl_str_is(key, "p"))
            a->ahead = (uint8_t)value;
        else if (!message && is_byte && sl_str_is(key, "g"))
            a->grad_slot = (uint8_t)value;
        else
            return sl_lex_fail(r->lex, "'%.*s %lld' does not belong to %s", (int)key.length, key.at,
                               (long long)value, sl_sched_kind_name(a->kind));
    }
    return SL_OK;
}

static sl_err read_action(struct reader *r, int kind) {
    struct sl_action a = {.kind = (uint8_t)kind};
    int stage;
    int64_t micro = 0;
    if (r->worker < 0 || r->segment < 0)
        return sl_lex_fail(r->lex, "actions come after a worker and a segment");
    SL_TRY(sl_lex_next(r->lex));
    if (kind == SL_SEND || kind == SL_RECV) {
        a.flags = sl_lex_is_name(r->lex, "grad") ? SL_GRAD : 0;
        SL_TRY(take_word(r->lex, a.flags ? "grad" : "act"));
    }
    SL_TRY(take_stage(r, &stage));
    a.stage = (uint16_t)stage;
    if (kind <= SL_RECV)
        SL_TRY(take_range(r->lex, "micro-batch", -NUMBER_MAX, NUMBER_MAX, &micro));
    a.micro = (int32_t)micro;
    if (!r->sched->lowered && r->lex->tok.kind == SL_TOK_NAME)
        return sl_lex_fail(
            r->lex,
            "'%.*s' does not belong to %s in a file of passes, which have a stage and "
            "a micro-batch",
            (int)r->lex->tok.text.length, r->lex->tok.text.at,
            sl_sched_kind_name((enum sl_kind)kind));
    SL_TRY(read_fields(r, &a));
    SL_PUSH(&r->lists[r->segment * r->sched->plan->worker_count + r->worker], a);
    return sl_lex_take_newline(r->lex);
}

static sl_err read_line(struct reader *r) {
    static const char *const segments[] = {"prologue", "period", "epilogue"};
    char found[64];
    for (int k = 0; k < SL_KIND_COUNT; k++)
        if (sl_lex_is_name(r->lex, sl_sched_kind_name((enum sl_kind)k)))
            return read_action(r, k);
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        if (sl_lex_is_name(r->lex, segments[s])) {
            if (s == SL_PERIOD && !r->sched->reps)
                return sl_lex_fail(r->lex, "a period that is repeated 0 times");
            r->segment = s;
            SL_TRY(sl_lex_next(r->lex));
            return sl_lex_take_newline(r->lex);
        }
    if (sl_lex_is_name(r->lex, "worker")) {
        int64_t worker;
        SL_TRY(sl_lex_next(r->lex));
        SL_TRY(take_range(r->lex, "worker", 0, r->sched->plan->worker_count - 1, &worker));
        r->worker = (int)worker;
        r->segment = -1;
        return sl_lex_take_newline(r->lex);
    }
    return sl_lex_fail(r->lex, "expected an action, 'worker' or a segment, found %s",
                       sl_lex_found(r->lex, found));
}

static sl_err read_body(struct reader *r) {
    const struct sl_plan *plan = r->sched->plan;
    sl_err err;
    r->worker = r->segment = -1;
    SL_TRY(read_program(r));
    SL_TRY(read_samples(r));
    r->dur_ns = sl_arena_alloc(r->arena, (int64_t)sizeof *r->dur_ns * plan->stage_count);
    r->pools = SL_NEW(r->arena, struct sl_slot_pool *, plan->seat_count);
    SL_TRY(read_times(r));
    SL_TRY(read_pools(r));
    int lists = SL_SEGMENT_COUNT * plan->worker_count;
    r->lists = SL_NEW(r->arena, action_vec, lists);
    while (r->lex->tok.kind != SL_TOK_END)
        SL_TRY_OUT(read_line(r));
    for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
        r->sched->lists[s] = SL_NEW(r->arena, struct sl_actions, plan->worker_count);
        for (int w = 0; w < plan->worker_count; w++) {
            action_vec *vec = &r->lists[s * plan->worker_count + w];
            r->sched->lists[s][w] = (struct sl_actions){SL_VEC_FREEZE(vec, r->arena), vec->count};
        }
    }
    err = SL_OK;
out:
    for (int i = 0; i < lists; i++)
        SL_VEC_FREE(&r->lists[i]);
    return err;
}

sl_err sl_sched_read(struct sl_arena *arena, const char *file, const char *text, size_t length,
                     struct sl_sched **out) {
    struct sl_lex lex;
    struct reader r = {.lex = &lex, .arena = arena};
    int64_t format;
    r.sched = SL_NEW(arena, struct sl_sched, 1);
    SL_TRY(sl_lex_open(&lex, file, text, length, true));
    SL_TRY(sl_lex_skip_newlines(&lex));
    SL_TRY(take_word(&lex, "sluice-sched"));
    SL_TRY(take_range(&lex, "format", 1, 1, &format));
    SL_TRY(sl_lex_take_newline(&lex));
    SL_TRY(sl_plan_read_lines(arena, &lex, &r.sched->plan));
    SL_TRY(read_body(&r));
    r.sched->dur_ns = (const int64_t(*)[SL_KIND_COUNT])r.dur_ns;
    if (r.sched->lowered)
        r.sched->pools = r.pools;
    *out = r.sched;
    return SL_OK;
}
