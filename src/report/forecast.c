/* Reading and writing forecast.json. */
#include "report/forecast.h"

#include "base/json.h"

#include <math.h>

void sl_report_forecast_write(const struct sl_forecast *f, struct sl_text *out) {
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "cost", f->cost);
    sl_json_put_int(&json, "step_ns", f->step_ns);
    if (f->high_ns) {
        sl_json_put_int(&json, "low_ns", f->low_ns);
        sl_json_put_int(&json, "high_ns", f->high_ns);
    }
    sl_json_put_double(&json, "bubble", f->bubble);
    sl_json_put_string(&json, "costs", f->costs);
    if (f->cold)
        sl_json_put_string(&json, "cold", f->cold);
    sl_json_put_string(&json, "links", f->links);
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}

static sl_err take_member(struct sl_json_in *json, struct sl_arena *arena,
                          struct sl_forecast *out) {
    const struct {
        const char *key;
        const char **text;
    } texts[] = {
        {"cost", &out->cost}, {"costs", &out->costs}, {"links", &out->links}, {"cold", &out->cold}};
    for (int i = 0; i < SL_COUNT(texts); i++)
        if (sl_str_is(json->string, texts[i].key))
            return sl_json_take_string(json, arena, texts[i].text);
    if (sl_str_is(json->string, "step_ns"))
        return sl_json_take_int(json, 0, INT64_MAX, &out->step_ns);
    if (sl_str_is(json->string, "low_ns"))
        return sl_json_take_int(json, 0, INT64_MAX, &out->low_ns);
    if (sl_str_is(json->string, "high_ns"))
        return sl_json_take_int(json, 0, INT64_MAX, &out->high_ns);
    if (sl_str_is(json->string, "bubble"))
        return sl_json_take_double(json, &out->bubble);
    SL_TRY(sl_json_next(json));
    return sl_json_skip(json);
}

static sl_err check(const struct sl_forecast *f, const char *file) {
    if (!f->cost || !f->costs || !f->links)
        return sl_fail(SL_ERR_INPUT, "%s: a forecast has cost, costs and links", file);
    if (f->step_ns < 1)
        return sl_fail(SL_ERR_INPUT, "%s: step_ns is not positive", file);
    if (f->high_ns && !(f->low_ns <= f->step_ns && f->step_ns <= f->high_ns))
        return sl_fail(SL_ERR_INPUT, "%s: step_ns is not between low_ns and high_ns", file);
    if (!(f->bubble >= 0 && f->bubble <= 1))
        return sl_fail(SL_ERR_INPUT, "%s: bubble is not in 0..1", file);
    return SL_OK;
}

sl_err sl_report_forecast_read(struct sl_arena *arena, const char *file, const char *text,
                               size_t length, const struct sl_forecast **out) {
    struct sl_forecast *f = SL_NEW(arena, struct sl_forecast, 1);
    struct sl_json_in json;
    sl_json_read(&json, file, text, length);
    SL_TRY(sl_json_take(&json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(&json));
        if (json.event == SL_JSON_OBJECT_END)
            break;
        SL_TRY(take_member(&json, arena, f));
    }
    SL_TRY(sl_json_take(&json, SL_JSON_END));
    *out = f;
    return check(f, file);
}
