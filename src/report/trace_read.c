/* Reads a trace file into a picture. Events that sl_report_trace does not write are skipped. */
#include "base/map.h"
#include "base/vec.h"
#include "report/picture.h"

#include <string.h>

enum { LANE_MAX = SL_WORKER_MAX };

struct event {
    struct sl_str phase, kind, stage, from, to;
    int64_t lane, micro, version, bytes, start_ns, end_ns, since_ns, message, peer;
    bool critical, grad, timed;
};

struct bar_at {
    struct sl_bar bar;
    int64_t lane, order;
};

struct reader {
    struct sl_arena *arena;
    struct sl_json_in json;
    struct sl_picture *out;
    SL_VEC(const char *) stages;
    struct sl_map names;
    SL_VEC(struct bar_at) bars;
    SL_VEC(struct sl_arrow) arrows; /* by message number; from < 0: no event of this message yet */
    int64_t lanes;
};

static sl_err take_ns(struct reader *r, int64_t *out) {
    return sl_json_take_int(&r->json, INT64_MIN / 4, INT64_MAX / 4, out);
}

static sl_err take_text(struct reader *r, struct sl_str *out) {
    SL_TRY(sl_json_take(&r->json, SL_JSON_STRING));
    *out = r->json.string;
    return SL_OK;
}

static sl_err take_bool(struct reader *r, bool *out) {
    SL_TRY(sl_json_take(&r->json, SL_JSON_BOOL));
    *out = r->json.boolean;
    return SL_OK;
}

static sl_err skip_value(struct reader *r) {
    SL_TRY(sl_json_next(&r->json));
    return sl_json_skip(&r->json);
}

static sl_err read_arg(struct reader *r, struct event *e, struct sl_str key) {
    struct {
        const char *name;
        int64_t *out;
    } numbers[] = {{"micro", &e->micro},       {"version", &e->version},  {"bytes", &e->bytes},
                   {"start_ns", &e->start_ns}, {"end_ns", &e->end_ns},    {"message", &e->message},
                   {"peer", &e->peer},         {"since_ns", &e->since_ns}};
    for (int i = 0; i < SL_COUNT(numbers); i++)
        if (sl_str_is(key, numbers[i].name)) {
            e->timed |= numbers[i].out == &e->end_ns;
            return take_ns(r, numbers[i].out);
        }
    if (sl_str_is(key, "stage"))
        return take_text(r, &e->stage);
    if (sl_str_is(key, "from"))
        return take_text(r, &e->from);
    if (sl_str_is(key, "to"))
        return take_text(r, &e->to);
    if (sl_str_is(key, "critical"))
        return take_bool(r, &e->critical);
    if (sl_str_is(key, "grad"))
        return take_bool(r, &e->grad);
    return skip_value(r);
}

static sl_err read_event(struct reader *r, struct event *e) {
    *e = (struct event){.micro = -1, .message = -1, .peer = -1};
    for (;;) {
        SL_TRY(sl_json_next(&r->json));
        if (r->json.event == SL_JSON_OBJECT_END)
            return SL_OK;
        struct sl_str key = r->json.string;
        if (sl_str_is(key, "ph")) {
            SL_TRY(take_text(r, &e->phase));
        } else if (sl_str_is(key, "cat")) {
            SL_TRY(take_text(r, &e->kind));
        } else if (sl_str_is(key, "pid")) {
            SL_TRY(sl_json_take_int(&r->json, 0, INT64_MAX / 4, &e->lane));
        } else if (sl_str_is(key, "args")) {
            SL_TRY(sl_json_take(&r->json, SL_JSON_OBJECT));
            for (;;) {
                SL_TRY(sl_json_next(&r->json));
                if (r->json.event == SL_JSON_OBJECT_END)
                    break;
                SL_TRY(read_arg(r, e, r->json.string));
            }
        } else {
            SL_TRY(skip_value(r));
        }
    }
}

static sl_err stage_of(struct reader *r, struct sl_str raw, uint16_t *out) {
    if (!raw.at)
        raw = SL_STR("?");
    int64_t *known = sl_map_find(&r->names, raw);
    if (!known) {
        if (r->stages.count >= SL_STAGE_MAX)
            return sl_json_fail(&r->json, "more than %d stages", SL_STAGE_MAX);
        sl_map_put(&r->names, raw, r->stages.count);
        r->json.string = raw;
        SL_PUSH(&r->stages, sl_json_unescape(&r->json, r->arena));
        *out = (uint16_t)(r->stages.count - 1);
        return SL_OK;
    }
    *out = (uint16_t)*known;
    return SL_OK;
}

static sl_err put_arrow(struct reader *r, const struct event *e, bool send) {
    if (e->message < 0 || e->message > r->arrows.count || e->peer < 0 || e->peer >= LANE_MAX)
        return sl_json_fail(&r->json, "message numbers must count up from 0, with a peer");
    if (e->message == r->arrows.count)
        SL_PUSH(&r->arrows, ((struct sl_arrow){.from = -1, .to = -1}));
    struct sl_arrow *a = &r->arrows.at[e->message];
    a->micro = (int32_t)e->micro;
    a->grad = e->grad;
    a->critical |= e->critical;
    a->start_ns = e->start_ns;
    SL_TRY(stage_of(r, e->from, &a->from_stage));
    SL_TRY(stage_of(r, e->to, &a->to_stage));
    a->from = (int32_t)(send ? e->lane : e->peer);
    a->to = (int32_t)(send ? e->peer : e->lane);
    if (send)
        a->left_ns = e->end_ns;
    a->end_ns = e->end_ns > a->end_ns ? e->end_ns : a->end_ns;
    r->lanes = a->from >= r->lanes ? a->from + 1 : r->lanes;
    r->lanes = a->to >= r->lanes ? a->to + 1 : r->lanes;
    return SL_OK;
}

static sl_err put_event(struct reader *r, const struct event *e) {
    int kind = 0;
    if (!sl_str_is(e->phase, "X") || !e->timed)
        return SL_OK;
    if (e->lane >= LANE_MAX || e->start_ns < 0 || e->end_ns < e->start_ns || e->micro < -1 ||
        e->micro > INT32_MAX || e->version < 0 || e->version > INT32_MAX || e->bytes < 0 ||
        e->since_ns < 0 || e->since_ns > e->end_ns)
        return sl_json_fail(&r->json, "an event is out of range");
    while (kind < SL_KIND_COUNT && !sl_str_is(e->kind, sl_sched_kind_name((enum sl_kind)kind)))
        kind++;
    if (kind == SL_KIND_COUNT)
        return SL_OK;
    if (kind == SL_SEND || kind == SL_RECV)
        return put_arrow(r, e, kind == SL_SEND);
    struct bar_at at = {.lane = e->lane,
                        .order = r->bars.count,
                        .bar = {.start_ns = e->start_ns,
                                .end_ns = e->end_ns,
                                .bytes = e->bytes,
                                .since_ns = e->since_ns,
                                .micro = (int32_t)e->micro,
                                .version = (int32_t)e->version,
                                .kind = (uint8_t)kind,
                                .critical = e->critical}};
    SL_TRY(stage_of(r, e->stage, &at.bar.stage));
    SL_PUSH(&r->bars, at);
    r->lanes = e->lane >= r->lanes ? e->lane + 1 : r->lanes;
    return SL_OK;
}

static sl_err read_events(struct reader *r) {
    struct event event;
    SL_TRY(sl_json_take(&r->json, SL_JSON_ARRAY));
    for (;;) {
        SL_TRY(sl_json_next(&r->json));
        if (r->json.event == SL_JSON_ARRAY_END)
            return SL_OK;
        if (r->json.event != SL_JSON_OBJECT)
            return sl_json_fail(&r->json, "an event is an object");
        SL_TRY(read_event(r, &event));
        SL_TRY(put_event(r, &event));
    }
}

static sl_err read_critical(struct reader *r) {
    int64_t *out[] = {&r->out->pass_ns, &r->out->weight_ns, &r->out->transfer_ns, &r->out->gap_ns};
    SL_TRY(sl_json_take(&r->json, SL_JSON_ARRAY));
    for (int i = 0; i < SL_COUNT(out); i++)
        SL_TRY(take_ns(r, out[i]));
    return sl_json_take(&r->json, SL_JSON_ARRAY_END);
}

static sl_err read_head(struct reader *r) {
    SL_TRY(sl_json_take(&r->json, SL_JSON_OBJECT));
    for (;;) {
        int64_t version;
        SL_TRY(sl_json_next(&r->json));
        if (r->json.event == SL_JSON_OBJECT_END)
            return SL_OK;
        struct sl_str key = r->json.string;
        if (sl_str_is(key, "title"))
            SL_TRY(sl_json_take_string(&r->json, r->arena, &r->out->title));
        else if (sl_str_is(key, "detail"))
            SL_TRY(sl_json_take_string(&r->json, r->arena, &r->out->detail));
        else if (sl_str_is(key, "measured"))
            SL_TRY(take_bool(r, &r->out->measured));
        else if (sl_str_is(key, "sketch"))
            SL_TRY(take_bool(r, &r->out->sketch));
        else if (sl_str_is(key, "end_ns"))
            SL_TRY(take_ns(r, &r->out->end_ns));
        else if (sl_str_is(key, "version"))
            SL_TRY(sl_json_take_int(&r->json, 1, 1, &version));
        else if (sl_str_is(key, "critical_ns"))
            SL_TRY(read_critical(r));
        else
            SL_TRY(skip_value(r));
    }
}

static int by_lane(const void *a, const void *b) {
    const struct bar_at *x = a, *y = b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->bar.start_ns != y->bar.start_ns)
        return x->bar.start_ns < y->bar.start_ns ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static sl_err finish(struct reader *r) {
    struct sl_picture *p = r->out;
    if (!r->bars.count)
        return sl_fail(SL_ERR_INPUT,
                       "%s: no event with start_ns, end_ns and a kind of action: not "
                       "a trace of sluice",
                       r->json.file);
    qsort(r->bars.at, (size_t)r->bars.count, sizeof *r->bars.at, by_lane);
    struct sl_bar *bars = SL_NEW(r->arena, struct sl_bar, r->bars.count);
    int64_t *lane_at = SL_NEW(r->arena, int64_t, r->lanes + 1);
    for (int64_t i = 0; i < r->bars.count; i++) {
        const struct bar_at *at = &r->bars.at[i], *last = i ? at - 1 : NULL;
        if (last && last->lane == at->lane && last->bar.end_ns > at->bar.start_ns)
            return sl_fail(SL_ERR_INPUT, "%s: two actions of worker %lld overlap at %lld ns",
                           r->json.file, (long long)at->lane, (long long)at->bar.start_ns);
        bars[i] = at->bar;
        lane_at[at->lane + 1]++;
        p->end_ns = at->bar.end_ns > p->end_ns ? at->bar.end_ns : p->end_ns;
    }
    for (int64_t l = 0; l < r->lanes; l++)
        lane_at[l + 1] += lane_at[l];
    for (int64_t i = 0; i < r->arrows.count; i++) { /* one end of a message may be missing */
        struct sl_arrow *a = &r->arrows.at[i];
        a->left_ns = a->left_ns > a->start_ns ? a->left_ns : a->start_ns;
        a->end_ns = a->end_ns > a->left_ns ? a->end_ns : a->left_ns;
        p->end_ns = a->end_ns > p->end_ns ? a->end_ns : p->end_ns;
    }
    p->title = p->title ? p->title : "trace";
    p->detail = p->detail ? p->detail : "";
    p->stage_count = (int)r->stages.count;
    p->stages = SL_VEC_FREEZE(&r->stages, r->arena);
    p->lane_count = (int)r->lanes;
    p->bars = bars;
    p->lane_at = lane_at;
    p->arrow_count = r->arrows.count;
    p->arrows = SL_VEC_FREEZE(&r->arrows, r->arena);
    return SL_OK;
}

static sl_err read_all(struct reader *r) {
    SL_TRY(sl_json_take(&r->json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(&r->json));
        if (r->json.event == SL_JSON_OBJECT_END)
            break;
        if (sl_str_is(r->json.string, "sluice")) /* not an entry: a key */
            SL_TRY(read_head(r));
        else if (sl_str_is(r->json.string, "traceEvents"))
            SL_TRY(read_events(r));
        else
            SL_TRY(skip_value(r));
    }
    SL_TRY(sl_json_next(&r->json)); /* only the end may follow */
    return finish(r);
}

sl_err sl_report_trace_read(struct sl_arena *arena, const char *file, const char *text,
                            size_t length, struct sl_picture *out) {
    struct reader r = {.arena = arena, .out = out};
    *out = (struct sl_picture){0};
    sl_json_read(&r.json, file, text, length);
    sl_err err = read_all(&r);
    sl_map_free(&r.names);
    SL_VEC_FREE(&r.stages);
    SL_VEC_FREE(&r.bars);
    SL_VEC_FREE(&r.arrows);
    return err;
}
