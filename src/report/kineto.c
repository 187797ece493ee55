/* Reading traces of PyTorch's profiler (kineto.h).
 *
 * Events are kept in 32 bytes each, so memory is a small multiple of the file. */
#include "report/kineto.h"

#include "base/map.h"
#include "base/vec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LANE_MAX = 4096, FILES_MAX = 4096 };
static const int64_t time_max = INT64_MAX / 4;

struct range { /* an action or a kernel */
    int64_t start_ns, end_ns;
    int32_t micro;  /* of a kernel: index of its action; -1: none */
    uint16_t stage; /* of a kernel: its stream */
    uint8_t kind;
};

struct launch {              /* a launch by the host, or the kernel itself */
    int64_t correlation, at; /* at: time in ns, or index of the kernel */
};

struct bar_at {
    struct sl_bar bar;
    int32_t lane;
};

struct event { /* the fields of one event while they are read */
    struct sl_str name, category, phase;
    int64_t start_ns, length_ns, correlation, stream;
};

struct rank_file {
    int64_t rank;
    const char *file;
};

struct reader {
    struct sl_arena *arena;
    struct sl_json_in json;
    int64_t base_ns, rank;
    SL_VEC(struct range) actions;
    SL_VEC(struct range) kernels;
    SL_VEC(struct launch) launches;
    SL_VEC(struct launch) runs; /* of kernels */
    /* of all files */
    SL_VEC(struct rank_file) ranks;
    SL_VEC(struct bar_at) bars;
    SL_VEC(const char *) stages;
    SL_VEC(int64_t) lane_keys; /* rank << 20 | (stream + 1); stream 0: the host */
    struct sl_map names;
    bool numbered;
};

/* ---- events ---- */

/* Reads microseconds with decimals as integer nanoseconds. */
static sl_err take_us(struct reader *r, int64_t *out) {
    SL_TRY(sl_json_next(&r->json));
    if (r->json.event != SL_JSON_NUMBER)
        return sl_json_skip(&r->json);
    struct sl_str text = r->json.string;
    int64_t us, ns = 0;
    if (memchr(text.at, 'e', text.length) || memchr(text.at, 'E', text.length)) {
        if (!(r->json.number >= 0 && 1000 * r->json.number < (double)time_max))
            return sl_json_fail(&r->json, "a time is out of range");
        *out = (int64_t)(1000 * r->json.number + 0.5);
        return SL_OK;
    }
    if (!sl_report_kineto_number(&text, time_max / 1000, &us)) /* negative */
        return sl_json_fail(&r->json, "a time is out of range");
    if (sl_report_kineto_prefix(&text, "."))
        for (int64_t digit = 100; digit && text.length && isdigit((unsigned char)*text.at);
             digit /= 10, text.at++, text.length--)
            ns += digit * (*text.at - '0');
    *out = 1000 * us + ns;
    return SL_OK;
}

static sl_err take_number_or_skip(struct reader *r, int64_t *out) {
    SL_TRY(sl_json_next(&r->json));
    if (r->json.event == SL_JSON_NUMBER && r->json.number >= 0 && r->json.number < 1e15)
        *out = (int64_t)r->json.number;
    return sl_json_skip(&r->json);
}

static sl_err take_text(struct reader *r, struct sl_str *out) {
    SL_TRY(sl_json_next(&r->json));
    if (r->json.event == SL_JSON_STRING)
        *out = r->json.string;
    return sl_json_skip(&r->json);
}

static sl_err read_args(struct reader *r, struct event *e) {
    SL_TRY(sl_json_next(&r->json));
    if (r->json.event != SL_JSON_OBJECT)
        return sl_json_skip(&r->json);
    for (;;) {
        SL_TRY(sl_json_next(&r->json));
        if (r->json.event == SL_JSON_OBJECT_END)
            return SL_OK;
        int64_t other = 0, *out = sl_str_is(r->json.string, "correlation") ? &e->correlation
                                  : sl_str_is(r->json.string, "stream")    ? &e->stream
                                                                           : &other;
        SL_TRY(take_number_or_skip(r, out));
    }
}

static sl_err read_event(struct reader *r, struct event *e) {
    *e = (struct event){.start_ns = -1, .correlation = -1, .stream = -1};
    for (;;) {
        SL_TRY(sl_json_next(&r->json));
        if (r->json.event == SL_JSON_OBJECT_END)
            return SL_OK;
        struct sl_str key = r->json.string;
        if (sl_str_is(key, "name"))
            SL_TRY(take_text(r, &e->name));
        else if (sl_str_is(key, "cat"))
            SL_TRY(take_text(r, &e->category));
        else if (sl_str_is(key, "ph"))
            SL_TRY(take_text(r, &e->phase));
        else if (sl_str_is(key, "ts"))
            SL_TRY(take_us(r, &e->start_ns));
        else if (sl_str_is(key, "dur"))
            SL_TRY(take_us(r, &e->length_ns));
        else if (sl_str_is(key, "args"))
            SL_TRY(read_args(r, e));
        else {
            SL_TRY(sl_json_next(&r->json));
            SL_TRY(sl_json_skip(&r->json));
        }
    }
}

/* Returns the stage with that name, and adds it if it is new. Stages without a name become s0, s1,
 * ... */
static sl_err stage_of(struct reader *r, const struct sl_kineto_action *a, uint16_t *out) {
    const char *name = a->part.length ? sl_arena_dup(r->arena, a->part.at, a->part.length)
                                      : sl_arena_printf(r->arena, "s%lld", (long long)a->stage);
    const int64_t *known = sl_map_find(&r->names, sl_str(name));
    r->numbered &= !a->part.length;
    *out = (uint16_t)(known ? *known : r->stages.count);
    if (known)
        return SL_OK;
    if (r->stages.count >= SL_STAGE_MAX)
        return sl_json_fail(&r->json, "more than %d stages", SL_STAGE_MAX);
    sl_map_put(&r->names, sl_str(name), r->stages.count);
    SL_PUSH(&r->stages, name);
    return SL_OK;
}

/* Adds the actions of a range. Two actions divide it: B takes about twice as long as F. */
static sl_err put_actions(struct reader *r, struct sl_str name, struct range range) {
    struct sl_kineto_action actions[SL_KINETO_ACTIONS];
    int count = sl_report_kineto_name(name, r->rank, actions);
    int64_t start = range.start_ns, length = range.end_ns - start, units = 0, done = 0;
    for (int i = 0; i < count; i++)
        units += actions[i].kind == SL_BACKWARD ? 2 : 1;
    for (int i = 0; i < count; i++) {
        range.start_ns = start + length / units * done;
        done += actions[i].kind == SL_BACKWARD ? 2 : 1;
        range.end_ns = done == units ? start + length : start + length / units * done;
        range.micro = (int32_t)actions[i].micro;
        range.kind = actions[i].kind;
        SL_TRY(stage_of(r, &actions[i], &range.stage));
        SL_PUSH(&r->actions, range);
    }
    return SL_OK;
}

static sl_err put_event(struct reader *r, const struct event *e) {
    if (!sl_str_is(e->phase, "X") || e->start_ns < 0 || e->length_ns > time_max - e->start_ns)
        return SL_OK;
    struct range range = {.start_ns = e->start_ns, .end_ns = e->start_ns + e->length_ns};
    bool host = !e->category.length || sl_str_is(e->category, "user_annotation");
    bool device = sl_str_is(e->category, "kernel") || sl_str_is(e->category, "gpu_memcpy") ||
                  sl_str_is(e->category, "gpu_memset");
    if (device && e->correlation >= 0) {
        range.micro = -1;
        range.stage = (uint16_t)(e->stream >= 0 && e->stream < UINT16_MAX ? e->stream : 0);
        SL_PUSH(&r->runs, ((struct launch){e->correlation, r->kernels.count}));
        SL_PUSH(&r->kernels, range);
    } else if (!device && !host && e->correlation >= 0) {
        SL_PUSH(&r->launches, ((struct launch){e->correlation, e->start_ns}));
    } else if (host) {
        return put_actions(r, e->name, range);
    }
    return SL_OK;
}

static sl_err read_events(struct reader *r) {
    struct event event;
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

/* Reads the rank from {"rank": 0, ...}. */
static sl_err read_rank(struct reader *r) {
    SL_TRY(sl_json_next(&r->json));
    if (r->json.event != SL_JSON_OBJECT)
        return sl_json_skip(&r->json);
    for (;;) {
        SL_TRY(sl_json_next(&r->json));
        if (r->json.event == SL_JSON_OBJECT_END)
            return SL_OK;
        int64_t other;
        SL_TRY(take_number_or_skip(r, sl_str_is(r->json.string, "rank") ? &r->rank : &other));
    }
}

/* Reads an array of events, or an object with one. */
static sl_err read_top(struct reader *r) {
    bool events = false;
    SL_TRY(sl_json_next(&r->json));
    if (r->json.event == SL_JSON_ARRAY)
        return read_events(r);
    while (r->json.event == SL_JSON_OBJECT) {
        SL_TRY(sl_json_next(&r->json));
        if (r->json.event != SL_JSON_KEY)
            break;
        struct sl_str key = r->json.string;
        if (sl_str_is(key, "traceEvents")) {
            SL_TRY(sl_json_take(&r->json, SL_JSON_ARRAY));
            SL_TRY(read_events(r));
            events = true;
        } else if (sl_str_is(key, "distributedInfo")) {
            SL_TRY(read_rank(r));
        } else if (sl_str_is(key, "baseTimeNanoseconds")) {
            SL_TRY(sl_json_take_int(&r->json, 0, time_max, &r->base_ns));
        } else {
            SL_TRY(sl_json_next(&r->json));
            SL_TRY(sl_json_skip(&r->json));
        }
        r->json.event = SL_JSON_OBJECT; /* so that the object continues after its last value */
    }
    return events ? SL_OK : sl_json_fail(&r->json, "no traceEvents");
}

/* ---- lanes ---- */

static int by_start(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return x->start_ns != y->start_ns ? (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns)
                                      : (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

static int by_correlation(const void *a, const void *b) {
    const struct launch *x = a, *y = b;
    return x->correlation != y->correlation
               ? (x->correlation > y->correlation) - (x->correlation < y->correlation)
               : (x->at > y->at) - (x->at < y->at);
}

static sl_err lane_of(struct reader *r, int64_t key, int32_t *out) {
    for (int64_t i = r->lane_keys.count - 1; i >= 0; i--)
        if (r->lane_keys.at[i] == key) {
            *out = (int32_t)i;
            return SL_OK;
        }
    if (r->lane_keys.count == LANE_MAX)
        return sl_json_fail(&r->json, "more than %d ranks and streams", LANE_MAX);
    *out = (int32_t)r->lane_keys.count;
    SL_PUSH(&r->lane_keys, key);
    return SL_OK;
}

static sl_err put_bar(struct reader *r, const struct range *action, const struct range *when,
                      int64_t key) {
    struct bar_at at = {.bar = {.start_ns = when->start_ns + r->base_ns,
                                .end_ns = when->end_ns + r->base_ns,
                                .micro = action->micro,
                                .stage = action->stage,
                                .kind = action->kind}};
    SL_TRY(lane_of(r, key, &at.lane));
    SL_PUSH(&r->bars, at);
    return SL_OK;
}

/* Returns the last action that begins before the launch, if it has not ended by then; actions are
 * sorted. */
static int64_t action_at(const struct reader *r, int64_t ns) {
    int64_t low = 0, high = r->actions.count;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (r->actions.at[mid].start_ns <= ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low && r->actions.at[low - 1].end_ns >= ns ? low - 1 : -1;
}

/* Assigns every kernel to the action within which the host launched it. */
static void place_kernels(struct reader *r) {
    if (r->launches.count)
        qsort(r->launches.at, (size_t)r->launches.count, sizeof *r->launches.at, by_correlation);
    if (r->runs.count)
        qsort(r->runs.at, (size_t)r->runs.count, sizeof *r->runs.at, by_correlation);
    for (int64_t i = 0, k = 0; i < r->runs.count; i++) {
        while (k < r->launches.count && r->launches.at[k].correlation < r->runs.at[i].correlation)
            k++;
        if (k < r->launches.count && r->launches.at[k].correlation == r->runs.at[i].correlation)
            r->kernels.at[r->runs.at[i].at].micro = (int32_t)action_at(r, r->launches.at[k].at);
    }
}

/* A bar covers the kernels of one range that follow each other on a stream. */
static sl_err put_kernels(struct reader *r) {
    enum { STREAMS = 1 << 16 };
    struct open {
        int64_t bar; /* index + 1; 0: none */
        int32_t action;
    } *last = calloc(STREAMS, sizeof *last); /* [stream] */
    sl_err err = SL_OK;
    if (!last)
        sl_out_of_memory(STREAMS * sizeof *last);
    if (r->kernels.count)
        qsort(r->kernels.at, (size_t)r->kernels.count, sizeof *r->kernels.at, by_start);
    for (int64_t i = 0; i < r->kernels.count && err == SL_OK; i++) {
        const struct range *kernel = &r->kernels.at[i];
        struct open *open = &last[kernel->stage];
        if (kernel->micro < 0)
            continue;
        if (open->bar && open->action == kernel->micro) {
            struct sl_bar *bar = &r->bars.at[open->bar - 1].bar;
            int64_t end = kernel->end_ns + r->base_ns;
            bar->end_ns = end > bar->end_ns ? end : bar->end_ns;
            continue;
        }
        err =
            put_bar(r, &r->actions.at[kernel->micro], kernel, r->rank << 20 | (kernel->stage + 1));
        *open = (struct open){r->bars.count, kernel->micro};
    }
    free(last);
    return err;
}

/* A rank is in one file. Files without a number count in their order. */
static sl_err note_rank(struct reader *r, const char *file) {
    for (int64_t i = 0; i < r->ranks.count; i++)
        if (r->ranks.at[i].rank == r->rank)
            return sl_fail(SL_ERR_INPUT, "%s: rank %lld was already read from %s", file,
                           (long long)r->rank, r->ranks.at[i].file);
    SL_PUSH(&r->ranks, ((struct rank_file){r->rank, file}));
    return SL_OK;
}

static sl_err read_text(struct reader *r, const struct sl_report_kineto_text *text, int64_t rank) {
    r->actions.count = r->kernels.count = r->launches.count = r->runs.count = 0;
    r->base_ns = 0;
    r->rank = rank;
    sl_json_read(&r->json, text->file, text->text, text->length);
    SL_TRY(read_top(r));
    r->rank = r->rank < FILES_MAX ? r->rank : rank;
    SL_TRY(note_rank(r, text->file));
    if (r->actions.count)
        qsort(r->actions.at, (size_t)r->actions.count, sizeof *r->actions.at, by_start);
    place_kernels(r);
    SL_TRY(put_kernels(r));
    for (int64_t i = 0; i < r->actions.count && !r->kernels.count; i++)
        SL_TRY(put_bar(r, &r->actions.at[i], &r->actions.at[i], r->rank << 20));
    return SL_OK;
}

/* ---- the picture ---- */

/* Orders lanes by rank, then by stream. */
static int32_t *sort_lanes(struct reader *r) {
    int32_t *place = SL_NEW(r->arena, int32_t, r->lane_keys.count + 1);
    for (int64_t i = 0; i < r->lane_keys.count; i++)
        for (int64_t k = 0; k < r->lane_keys.count; k++)
            place[i] += r->lane_keys.at[k] < r->lane_keys.at[i];
    return place;
}

static int by_lane(const void *a, const void *b) {
    const struct bar_at *x = a, *y = b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->bar.start_ns != y->bar.start_ns)
        return x->bar.start_ns < y->bar.start_ns ? -1 : 1;
    return (x->bar.end_ns > y->bar.end_ns) - (x->bar.end_ns < y->bar.end_ns);
}

/* Numbers stage s<i> as stage i, so that a chain can be followed. False: their numbers are not 0 to
 * n - 1. */
static bool number_stages(struct reader *r, uint16_t *place) {
    for (int64_t i = 0; i < r->stages.count; i++) {
        int64_t number = strtoll(r->stages.at[i] + 1, NULL, 10);
        if (number >= r->stages.count)
            return false;
        place[i] = (uint16_t)number;
    }
    return true;
}

static void fill(struct reader *r, struct sl_picture *out) {
    int64_t first = INT64_MAX, *lane_at = SL_NEW(r->arena, int64_t, r->lane_keys.count + 1);
    uint16_t *stage = SL_NEW(r->arena, uint16_t, r->stages.count + 1);
    const char **names = SL_NEW(r->arena, const char *, r->stages.count + 1);
    struct sl_bar *bars = SL_NEW(r->arena, struct sl_bar, r->bars.count);
    int32_t *place = sort_lanes(r);
    bool numbered = r->numbered && number_stages(r, stage);
    for (int64_t i = 0; i < r->stages.count; i++) {
        stage[i] = numbered ? stage[i] : (uint16_t)i;
        names[stage[i]] = r->stages.at[i];
    }
    for (int64_t i = 0; i < r->bars.count; i++) {
        r->bars.at[i].lane = place[r->bars.at[i].lane];
        first = r->bars.at[i].bar.start_ns < first ? r->bars.at[i].bar.start_ns : first;
    }
    qsort(r->bars.at, (size_t)r->bars.count, sizeof *r->bars.at, by_lane);
    for (int64_t i = 0; i < r->bars.count; i++) {
        bars[i] = r->bars.at[i].bar;
        bars[i].stage = stage[bars[i].stage];
        bars[i].start_ns -= first;
        bars[i].end_ns -= first;
        if (i && r->bars.at[i - 1].lane == r->bars.at[i].lane &&
            bars[i].start_ns < bars[i - 1].end_ns) /* ranges are nested: the outer one ends here */
            bars[i].start_ns =
                bars[i - 1].end_ns < bars[i].end_ns ? bars[i - 1].end_ns : bars[i].end_ns;
        if (i && r->bars.at[i - 1].lane == r->bars.at[i].lane &&
            bars[i].end_ns < bars[i - 1].end_ns)
            bars[i].start_ns = bars[i].end_ns = bars[i - 1].end_ns;
        lane_at[r->bars.at[i].lane + 1]++;
    }
    for (int64_t l = 0; l < r->lane_keys.count; l++)
        lane_at[l + 1] += lane_at[l];
    *out = (struct sl_picture){.title = "trace",
                               .sketch = true,
                               .stages = names,
                               .stage_count = (int)r->stages.count,
                               .lane_count = (int)r->lane_keys.count,
                               .bars = bars,
                               .lane_at = lane_at,
                               .measured = true};
    sl_report_kineto_link(r->arena, out, bars, numbered);
}

static void close_reader(struct reader *r) {
    SL_VEC_FREE(&r->ranks);
    SL_VEC_FREE(&r->actions);
    SL_VEC_FREE(&r->kernels);
    SL_VEC_FREE(&r->launches);
    SL_VEC_FREE(&r->runs);
    SL_VEC_FREE(&r->bars);
    SL_VEC_FREE(&r->stages);
    SL_VEC_FREE(&r->lane_keys);
    sl_map_free(&r->names);
}

sl_err sl_report_kineto_read(struct sl_arena *arena, const struct sl_report_kineto_text *texts,
                             int count, struct sl_picture *out) {
    struct reader r = {.arena = arena, .numbered = true};
    sl_err err = SL_OK;
    for (int i = 0; i < count && err == SL_OK; i++)
        err = read_text(&r, &texts[i], i);
    if (err == SL_OK && !r.bars.count)
        err =
            sl_fail(SL_ERR_INPUT,
                    "%s: no event is named like an action of a pipeline: 'PP:0F1', 'Forward 1' or "
                    "'attn(F)'. PyTorch's schedules of several stages per rank, GPipe and CSVs "
                    "name them; for others use torch.profiler.record_function",
                    texts[0].file);
    if (err == SL_OK) {
        fill(&r, out);
        out->detail = sl_arena_printf(arena, "%d trace%s of PyTorch's profiler", count,
                                      count == 1 ? "" : "s");
    }
    close_reader(&r);
    return err;
}
