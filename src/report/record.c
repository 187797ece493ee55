/* Reading log.jsonl. */
#include "report/record.h"

#include "base/json.h"
#include "base/vec.h"

#include <math.h>

enum { STAGE_MAX = 65535 };

/* The keys of a line; bit i of `has` says whether key i is present. */
enum { STEP, SAMPLES, LOSS, NORM, LR, MS, EVAL, ACCURACY, STAGE, BASE, AHEAD, PREDICTED, STALE };
static const char *const keys[] = {"step", "samples",        "loss",          "grad_norm", "lr",
                                   "ms",   "eval_loss",      "eval_accuracy", "stage",     "base",
                                   "s",    "rmse_predicted", "rmse_stale"};

struct line {
    double value[SL_COUNT(keys)]; /* NAN: null or absent */
    unsigned has;
    bool backward;
};

struct reader {
    SL_VEC(struct sl_record_step) steps;
    SL_VEC(struct sl_record_eval) evals;
    SL_VEC(struct sl_record_stale) stales;
};

static sl_err take_value(struct sl_json_in *json, struct sl_str key, struct line *line) {
    int i = 0;
    while (i < SL_COUNT(keys) && !sl_str_is(key, keys[i]))
        i++;
    SL_TRY(sl_json_next(json));
    if (sl_str_is(key, "pass") && json->event == SL_JSON_STRING)
        line->backward = sl_str_is(json->string, "backward");
    if (i == SL_COUNT(keys))
        return sl_json_skip(json);
    if (json->event != SL_JSON_NUMBER && json->event != SL_JSON_NULL)
        return sl_json_fail(json, "'%s' is not a number", keys[i]);
    line->has |= 1U << i;
    line->value[i] = json->event == SL_JSON_NUMBER ? json->number : (double)NAN;
    return SL_OK;
}

/* Returns a required integer of the line. */
static sl_err whole(const struct sl_json_in *json, const struct line *line, int key, double max,
                    int64_t *out) {
    double value = line->value[key];
    if (!(value >= 0 && value <= max) || floor(value) != value)
        return sl_json_fail(json, "'%s' is not a whole number from 0 to %.0f", keys[key], max);
    *out = (int64_t)value;
    return SL_OK;
}

static sl_err keep_stale(const struct sl_json_in *json, const struct line *line, struct reader *r) {
    struct sl_record_stale s = {.backward = line->backward,
                                .predicted = line->value[PREDICTED],
                                .stale = line->value[STALE]};
    int64_t stage, ahead;
    SL_TRY(whole(json, line, STEP, 1e15, &s.step));
    SL_TRY(whole(json, line, BASE, 1e15, &s.base));
    SL_TRY(whole(json, line, STAGE, STAGE_MAX, &stage));
    SL_TRY(whole(json, line, AHEAD, 1e9, &ahead));
    s.stage = (int)stage;
    s.ahead = (int)ahead;
    SL_PUSH(&r->stales, s);
    return SL_OK;
}

static sl_err keep(const struct sl_json_in *json, const struct line *line, struct reader *r) {
    const double *v = line->value;
    if (line->has >> STALE & 1)
        return keep_stale(json, line, r);
    if (line->has >> EVAL & 1) {
        struct sl_record_eval e = {.loss = v[EVAL], .accuracy = v[ACCURACY]};
        SL_TRY(whole(json, line, STEP, 1e15, &e.step));
        SL_PUSH(&r->evals, e);
    } else if (line->has >> LOSS & 1) {
        struct sl_record_step s = {.loss = v[LOSS], .norm = v[NORM], .lr = v[LR], .ms = v[MS]};
        SL_TRY(whole(json, line, STEP, 1e15, &s.step));
        if (line->has >> SAMPLES & 1)
            SL_TRY(whole(json, line, SAMPLES, 1e15, &s.samples));
        SL_PUSH(&r->steps, s);
    }
    return SL_OK;
}

static sl_err read_line(struct sl_json_in *json, struct reader *r) {
    struct line line = {0};
    for (int i = 0; i < SL_COUNT(keys); i++)
        line.value[i] = (double)NAN;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        SL_TRY(take_value(json, json->string, &line));
    }
    SL_TRY(sl_json_take(json, SL_JSON_END));
    return keep(json, &line, r);
}

static sl_err read_lines(const char *file, const char *text, size_t length, struct reader *r) {
    const char *end = text + length, *stop;
    for (const char *at = text; at < end && (stop = memchr(at, '\n', (size_t)(end - at)));
         at = stop + 1) {
        struct sl_json_in json;
        sl_json_read(&json, file, at, (size_t)(stop - at));
        json.start = text; /* so that errors count lines from the top of the file */
        SL_TRY(read_line(&json, r));
    }
    return SL_OK;
}

sl_err sl_report_record_read(struct sl_arena *arena, const char *file, const char *text,
                             size_t length, const struct sl_record **out) {
    struct reader r = {0};
    sl_err err = read_lines(file, text, length, &r);
    if (err == SL_OK) {
        struct sl_record *record = SL_NEW(arena, struct sl_record, 1);
        *record = (struct sl_record){.steps = SL_VEC_FREEZE(&r.steps, arena),
                                     .evals = SL_VEC_FREEZE(&r.evals, arena),
                                     .stales = SL_VEC_FREEZE(&r.stales, arena),
                                     .step_count = r.steps.count,
                                     .eval_count = r.evals.count,
                                     .stale_count = r.stales.count};
        *out = record;
    }
    SL_VEC_FREE(&r.steps);
    SL_VEC_FREE(&r.evals);
    SL_VEC_FREE(&r.stales);
    return err;
}
