/* Writes the tables of a profile: time per kernel, cost per unit. */
#include "report/profile.h"

#include "base/json.h"

static int64_t sum_ns(const struct sl_report_op_time *rows, int count) {
    int64_t total = 0;
    for (int i = 0; i < count; i++)
        total += rows[i].dur_ns;
    return total;
}

void sl_report_ops(const struct sl_report_op_time *rows, int count, struct sl_text *text) {
    int64_t total = sum_ns(rows, count);
    char time[SL_HUMAN_BYTES];
    sl_text_printf(text, "%-20s %6s %12s %7s %10s\n", "kernel", "calls", "time", "share",
                   "GFLOP/s");
    for (int i = 0; i < count; i++)
        sl_text_printf(text, "%-20s %6d %12s %6.1f%% %10.1f\n", rows[i].kernel, rows[i].calls,
                       sl_human_ns(rows[i].dur_ns, time),
                       100.0 * (double)rows[i].dur_ns / (double)(total ? total : 1),
                       rows[i].dur_ns ? rows[i].flops / (double)rows[i].dur_ns : 0.0);
    sl_text_printf(text, "%-20s %6s %12s\n", "all", "", sl_human_ns(total, time));
}

void sl_report_ops_json(const struct sl_report_op_time *rows, int count, struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_int(&json, "total_ns", sum_ns(rows, count));
    sl_json_key(&json, "kernels");
    sl_json_open(&json, '[');
    for (int i = 0; i < count; i++) {
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "kernel", rows[i].kernel);
        sl_json_put_int(&json, "calls", rows[i].calls);
        sl_json_put_int(&json, "ns", rows[i].dur_ns);
        sl_json_put_double(&json, "flops", rows[i].flops);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}

void sl_report_cost(const struct sl_cost *cost, struct sl_text *text) {
    char f[SL_HUMAN_BYTES], b[SL_HUMAN_BYTES], w[SL_HUMAN_BYTES];
    sl_text_printf(text, "%-40s %6s %10s %10s %10s %7s %5s\n", "unit", "micro", "F", "I", "W",
                   "spread", "seen");
    for (int i = 0; i < cost->row_count; i++) {
        const struct sl_cost_row *row = &cost->rows[i];
        sl_text_printf(text, "%-40.40s %6lld %10s %10s %10s %6.1f%% %5lld\n", row->name,
                       (long long)row->micro, sl_human_ns(row->f, f), sl_human_ns(row->i, b),
                       sl_human_ns(row->w, w), 100 * row->spread, (long long)row->seen);
    }
}

void sl_report_cost_json(const struct sl_cost *cost, struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", cost->model);
    sl_json_put_string(&json, "device", cost->device);
    sl_json_put_int(&json, "threads", cost->threads);
    sl_json_put_int(&json, "busy", cost->busy);
    sl_json_put_double(&json, "step_bytes_per_s", cost->step_bytes_per_s);
    sl_json_put_double(&json, "link_bytes_per_s", cost->link_bytes_per_s);
    sl_json_put_int(&json, "link_latency_ns", cost->link_latency_ns);
    sl_json_put_int(&json, "action_ns", cost->action_ns);
    sl_json_put_int(&json, "cold_f_ns", cost->cold.f_ns);
    sl_json_put_int(&json, "cold_b_ns", cost->cold.b_ns);
    sl_json_put_int(&json, "cold_after_ns", cost->cold.after_ns);
    sl_json_key(&json, "units");
    sl_json_open(&json, '[');
    for (int i = 0; i < cost->row_count; i++) {
        const struct sl_cost_row *row = &cost->rows[i];
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "name", row->name);
        sl_json_put_int(&json, "micro", row->micro);
        sl_json_put_int(&json, "f_ns", row->f);
        sl_json_put_int(&json, "i_ns", row->i);
        sl_json_put_int(&json, "w_ns", row->w);
        sl_json_put_double(&json, "spread", row->spread);
        sl_json_put_int(&json, "seen", row->seen);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}
