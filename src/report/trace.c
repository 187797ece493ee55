/* Chrome's trace event format (Perfetto, chrome://tracing): one thread per worker for its actions,
 * one for its outgoing messages, flow arrows from each message to its arrival, and a counter of
 * bytes. The format has microseconds; the arguments of events keep exact nanoseconds, so that
 * sl_report_trace_read restores the picture. */
#include "report/picture.h"

static void put_us(struct sl_json_out *json, const char *key, int64_t ns) {
    sl_json_key(json, key);
    sl_json_double(json, (double)ns / 1000);
}

static void open_event(struct sl_json_out *json, const char *phase, const char *name, int lane,
                       int thread) {
    sl_json_open(json, '{');
    sl_json_put_string(json, "ph", phase);
    sl_json_put_string(json, "name", name);
    sl_json_put_int(json, "pid", lane);
    sl_json_put_int(json, "tid", thread);
}

static void put_names(const struct sl_picture *p, struct sl_json_out *json, int lane) {
    static const char *const threads[] = {"actions", "sends", "receives"};
    char name[32];
    struct sl_text text = {0};
    sl_text_printf(&text, "worker %d", lane);
    for (size_t i = 0; i <= text.length && i < sizeof name; i++)
        name[i] = text.at[i];
    sl_text_free(&text);
    open_event(json, "M", "process_name", lane, 0);
    sl_json_key(json, "args");
    sl_json_open(json, '{');
    sl_json_put_string(json, "name", name);
    sl_json_close(json, '}');
    sl_json_close(json, '}');
    for (int i = 0; i < (p->arrow_count ? 3 : 1); i++) {
        open_event(json, "M", "thread_name", lane, i);
        sl_json_key(json, "args");
        sl_json_open(json, '{');
        sl_json_put_string(json, "name", threads[i]);
        sl_json_close(json, '}');
        sl_json_close(json, '}');
    }
}

static void put_bar(const struct sl_picture *p, struct sl_json_out *json, int lane,
                    const struct sl_bar *bar) {
    struct sl_text name = {0};
    sl_text_printf(&name, "%s ", sl_sched_kind_name((enum sl_kind)bar->kind));
    if (bar->micro >= 0)
        sl_text_printf(&name, "%d", bar->micro);
    else
        sl_text_printf(&name, "v%d", bar->version);
    open_event(json, "X", name.at, lane, 0);
    sl_text_free(&name);
    sl_json_put_string(json, "cat", sl_sched_kind_name((enum sl_kind)bar->kind));
    put_us(json, "ts", bar->start_ns);
    put_us(json, "dur", bar->end_ns - bar->start_ns);
    sl_json_key(json, "args");
    sl_json_open(json, '{');
    sl_json_put_string(json, "stage", p->stages[bar->stage]);
    sl_json_put_int(json, "micro", bar->micro);
    sl_json_put_int(json, "version", bar->version);
    sl_json_put_int(json, "bytes", bar->bytes);
    sl_json_put_int(json, "start_ns", bar->start_ns);
    sl_json_put_int(json, "end_ns", bar->end_ns);
    if (bar->since_ns)
        sl_json_put_int(json, "since_ns", bar->since_ns);
    sl_json_put_bool(json, "critical", bar->critical);
    sl_json_close(json, '}');
    sl_json_close(json, '}');
}

/* Writes reductions that overlap passes on a separate track, which Perfetto shows above them. */
static void put_sum(const struct sl_picture *p, struct sl_json_out *json, int lane,
                    const struct sl_bar *bar, int64_t id) {
    struct sl_text name = {0};
    sl_text_printf(&name, "sum of %s v%d", p->stages[bar->stage], bar->version);
    for (int end = 0; end < 2; end++) {
        open_event(json, end ? "e" : "b", name.at, lane, 0);
        sl_json_put_string(json, "cat", "sum");
        sl_json_put_int(json, "id", id);
        put_us(json, "ts", end ? bar->end_ns : bar->since_ns);
        sl_json_close(json, '}');
    }
    sl_text_free(&name);
}

static void put_counter(struct sl_json_out *json, int lane, const struct sl_bar *bar) {
    open_event(json, "C", "bytes", lane, 0);
    put_us(json, "ts", bar->start_ns);
    sl_json_key(json, "args");
    sl_json_open(json, '{');
    sl_json_put_int(json, "bytes", bar->bytes);
    sl_json_close(json, '}');
    sl_json_close(json, '}');
}

static void put_end(const struct sl_picture *p, struct sl_json_out *json, const struct sl_arrow *a,
                    int64_t id, bool send) {
    struct sl_text name = {0};
    int lane = send ? a->from : a->to;
    int64_t until = send ? a->left_ns : a->end_ns;
    sl_text_printf(&name, "%s %s %d", send ? "send" : "recv", a->grad ? "grad" : "act", a->micro);
    open_event(json, "X", name.at, lane, send ? 1 : 2);
    sl_text_free(&name);
    sl_json_put_string(json, "cat", send ? "SEND" : "RECV");
    put_us(json, "ts", a->start_ns);
    put_us(json, "dur", until - a->start_ns);
    sl_json_key(json, "args");
    sl_json_open(json, '{');
    sl_json_put_int(json, "message", id);
    sl_json_put_string(json, "from", p->stages[a->from_stage]);
    sl_json_put_string(json, "to", p->stages[a->to_stage]);
    sl_json_put_int(json, "micro", a->micro);
    sl_json_put_bool(json, "grad", a->grad);
    sl_json_put_int(json, "peer", send ? a->to : a->from);
    sl_json_put_int(json, "start_ns", a->start_ns);
    sl_json_put_int(json, "end_ns", until);
    sl_json_put_bool(json, "critical", a->critical);
    sl_json_close(json, '}');
    sl_json_close(json, '}');
    open_event(json, send ? "s" : "f", "message", lane, send ? 1 : 2);
    sl_json_put_string(json, "cat", "message");
    sl_json_put_int(json, "id", id);
    if (!send)
        sl_json_put_string(json, "bp", "e");
    put_us(json, "ts", send ? a->start_ns : a->end_ns);
    sl_json_close(json, '}');
}

void sl_report_trace(const struct sl_picture *p, struct sl_text *out) {
    struct sl_json_out json = {.text = out};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "displayTimeUnit", "ns");
    sl_json_key(&json, "sluice");
    sl_json_open(&json, '{');
    sl_json_put_int(&json, "version", 1);
    sl_json_put_string(&json, "title", p->title);
    sl_json_put_string(&json, "detail", p->detail);
    sl_json_put_bool(&json, "measured", p->measured);
    if (p->sketch)
        sl_json_put_bool(&json, "sketch", true);
    sl_json_put_int(&json, "workers", p->lane_count);
    sl_json_put_int(&json, "end_ns", p->end_ns);
    sl_json_key(&json, "critical_ns");
    sl_json_open(&json, '[');
    sl_json_int(&json, p->pass_ns);
    sl_json_int(&json, p->weight_ns);
    sl_json_int(&json, p->transfer_ns);
    sl_json_int(&json, p->gap_ns);
    sl_json_close(&json, ']');
    sl_json_key(&json, "stages");
    sl_json_open(&json, '[');
    for (int i = 0; i < p->stage_count; i++)
        sl_json_string(&json, p->stages[i]);
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_json_key(&json, "traceEvents");
    sl_json_open(&json, '[');
    for (int l = 0; l < p->lane_count; l++) {
        put_names(p, &json, l);
        for (int64_t i = p->lane_at[l]; i < p->lane_at[l + 1]; i++) {
            sl_text_put(out, "\n");
            put_bar(p, &json, l, &p->bars[i]);
            put_counter(&json, l, &p->bars[i]);
            if (p->bars[i].since_ns)
                put_sum(p, &json, l, &p->bars[i], i);
        }
    }
    for (int64_t i = 0; i < p->arrow_count; i++) {
        sl_text_put(out, "\n");
        put_end(p, &json, &p->arrows[i], i, true);
        put_end(p, &json, &p->arrows[i], i, false);
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}
