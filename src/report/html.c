/* A self-contained page: data as JSON, a script and a style sheet. The script draws small timelines
 * as SVG elements and large ones on a canvas. */
#include "report/assets.h"
#include "report/markup.h"
#include "report/picture.h"

#include <string.h>

/* Writes one flat array per lane: kind, stage, micro, version, start, duration, bytes, critical. */
static void put_lanes(const struct sl_picture *p, struct sl_json_out *json) {
    sl_json_key(json, "lanes");
    sl_json_open(json, '[');
    for (int l = 0; l < p->lane_count; l++) {
        sl_json_open(json, '[');
        for (int64_t i = p->lane_at[l]; i < p->lane_at[l + 1]; i++) {
            const struct sl_bar *bar = &p->bars[i];
            sl_json_int(json, bar->kind);
            sl_json_int(json, bar->stage);
            sl_json_int(json, bar->micro);
            sl_json_int(json, bar->version);
            sl_json_int(json, bar->start_ns);
            sl_json_int(json, bar->end_ns - bar->start_ns);
            sl_json_int(json, bar->bytes);
            sl_json_int(json, bar->critical);
        }
        sl_json_close(json, ']');
    }
    sl_json_close(json, ']');
}

/* Writes from, to, from stage, to stage, micro, start, left, end, flags (1 gradient, 2
 * critical). */
static void put_arrows(const struct sl_picture *p, struct sl_json_out *json) {
    sl_json_key(json, "arrows");
    sl_json_open(json, '[');
    for (int64_t i = 0; i < p->arrow_count; i++) {
        const struct sl_arrow *a = &p->arrows[i];
        sl_json_int(json, a->from);
        sl_json_int(json, a->to);
        sl_json_int(json, a->from_stage);
        sl_json_int(json, a->to_stage);
        sl_json_int(json, a->micro);
        sl_json_int(json, a->start_ns);
        sl_json_int(json, a->left_ns);
        sl_json_int(json, a->end_ns);
        sl_json_int(json, a->grad + 2 * a->critical);
    }
    sl_json_close(json, ']');
}

static void put_picture(const struct sl_picture *p, struct sl_json_out *json) {
    sl_json_open(json, '{');
    sl_json_put_string(json, "title", p->title);
    sl_json_put_string(json, "detail", p->detail);
    sl_json_put_bool(json, "measured", p->measured);
    sl_json_put_bool(json, "sketch", p->sketch);
    sl_json_put_int(json, "end", p->end_ns);
    sl_json_key(json, "critical");
    sl_json_open(json, '[');
    sl_json_int(json, p->pass_ns);
    sl_json_int(json, p->weight_ns);
    sl_json_int(json, p->transfer_ns);
    sl_json_int(json, p->gap_ns);
    sl_json_close(json, ']');
    sl_json_key(json, "stages");
    sl_json_open(json, '[');
    for (int i = 0; i < p->stage_count; i++)
        sl_json_string(json, p->stages[i]);
    sl_json_close(json, ']');
    put_lanes(p, json);
    put_arrows(p, json);
    sl_json_close(json, '}');
}

/* Escapes '<', which may not appear in a script element; in JSON it occurs only in strings. */
static void put_guarded(struct sl_text *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        size_t run = strcspn(text + i, "<");
        sl_text_put_bytes(out, text + i, run);
        i += run;
        if (i < length)
            sl_text_put(out, "\\u003c");
    }
}

void sl_report_html(const struct sl_picture *pictures, int count, struct sl_text *out) {
    struct sl_text data = {0};
    struct sl_json_out json = {.text = &data};
    sl_json_open(&json, '{');
    sl_json_key(&json, "kinds");
    sl_json_open(&json, '[');
    for (int k = 0; k < SL_KIND_COUNT; k++)
        sl_json_string(&json, sl_sched_kind_name((enum sl_kind)k));
    sl_json_close(&json, ']');
    sl_json_key(&json, "colours");
    sl_json_open(&json, '[');
    for (int k = 0; k < SL_KIND_COUNT; k++)
        sl_json_string(&json, sl_report_colour((enum sl_kind)k));
    sl_json_close(&json, ']');
    sl_json_key(&json, "pictures");
    sl_json_open(&json, '[');
    for (int i = 0; i < count; i++)
        put_picture(&pictures[i], &json);
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_report_markup_head(out);
    for (int i = 0; i < count; i++) {
        sl_text_put(out, i ? " and " : "");
        sl_report_markup_escape(out, pictures[i].title);
    }
    sl_text_put(out, " - Sluice</title>\n<style>\n");
    sl_text_put_bytes(out, sl_asset_page_css, sl_asset_page_css_size);
    sl_text_put(out, "</style></head>\n<body>\n<script type=\"application/json\" id=\"data\">");
    put_guarded(out, data.at, data.length);
    sl_text_put(out, "</script>\n<script>\n");
    sl_text_put_bytes(out, sl_asset_page_js, sl_asset_page_js_size);
    sl_text_put(out, "</script>\n</body></html>\n");
    sl_text_free(&data);
}
