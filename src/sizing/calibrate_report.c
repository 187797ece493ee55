/* Writes the report of a calibration (calibrate_report.h). */
#include "sizing/calibrate_report.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const struct sl_calibrate_group sl_sizing_calibrate_groups[SL_CALIBRATE_GROUPS] = {
    {"device",
     "in one host",
     {{SL_CALIBRATE_EFFICIENCY, 0.05, 0.95, 0.5},
      {SL_CALIBRATE_HALF, 1e6, 1e12, 5e9},
      {SL_CALIBRATE_SCORE, 0.1, 300, 10},
      {SL_CALIBRATE_STREAM, 0.05, 1, 1},
      {SL_CALIBRATE_LAUNCH, 100, 1e6, 5e4},
      {SL_CALIBRATE_MEET, 10, 1e7, 2e4},
      {SL_CALIBRATE_MESSAGE, 100, 5e7, 3e5}},
     7},
    {"network",
     "over several hosts",
     {{SL_CALIBRATE_SUM, 1e-3, 4, 0.8}, {SL_CALIBRATE_SUM_LATENCY, 1e3, 1e9, 1e5}},
     2},
};

struct errors {
    int count;
    /* of |predicted / measured - 1|; bias: mean of predicted / measured - 1 */
    double mean, median, p90, worst, bias;
};

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct errors errors_of(const double *at, int rows) {
    struct errors e = {0};
    double *sorted = sl_realloc(NULL, sizeof *sorted * (size_t)(rows + 1));
    for (int i = 0; i < rows; i++) {
        if (isnan(at[i]))
            continue;
        sorted[e.count++] = fabs(at[i]);
        e.mean += fabs(at[i]);
        e.bias += at[i];
    }
    qsort(sorted, (size_t)e.count, sizeof *sorted, compare);
    if (e.count) {
        e.mean /= e.count;
        e.bias /= e.count;
        e.median = (sorted[(e.count - 1) / 2] + sorted[e.count / 2]) / 2;
        e.p90 = sorted[(e.count * 9 + 9) / 10 - 1];
        e.worst = sorted[e.count - 1];
    }
    free(sorted);
    return e;
}

static void put_errors(const char *what, const double *at, int rows, struct sl_text *out) {
    struct errors e = errors_of(at, rows);
    sl_text_printf(out,
                   "  %s: mean error %.1f %%, median %.1f %%, p90 %.1f %%, worst %.1f %%, bias "
                   "%+.1f %%\n",
                   what, 100 * e.mean, 100 * e.median, 100 * e.p90, 100 * e.worst, 100 * e.bias);
}

void sl_sizing_calibrate_report(const struct sl_machine *machine,
                                const struct sl_calibrate_result *results, int rows,
                                struct sl_text *out) {
    for (int g = 0; g < SL_CALIBRATE_GROUPS; g++) {
        const struct sl_calibrate_result *r = &results[g];
        if (!r->rows)
            continue;
        sl_text_printf(out, "%d rows %s, recompute %s:\n", r->rows,
                       sl_sizing_calibrate_groups[g].rows, r->recompute);
        if (r->held) {
            char what[64];
            snprintf(what, sizeof what, "rows held out, %d folds", r->folds);
            put_errors(what, r->held, rows, out);
        }
        put_errors(r->folds ? "all rows, fitted" : "all rows", r->fitted, rows, out);
    }
    sl_text_put(out, "\n");
    sl_cost_machine_write(machine, out);
}

static void put_errors_json(struct sl_json_out *json, const char *key, const double *at, int rows) {
    struct errors e = errors_of(at, rows);
    sl_json_key(json, key);
    sl_json_open(json, '{');
    sl_json_put_int(json, "rows", e.count);
    sl_json_put_double(json, "mean", e.mean);
    sl_json_put_double(json, "median", e.median);
    sl_json_put_double(json, "p90", e.p90);
    sl_json_put_double(json, "worst", e.worst);
    sl_json_put_double(json, "bias", e.bias);
    sl_json_close(json, '}');
}

void sl_sizing_calibrate_report_json(const struct sl_machine *machine,
                                     const struct sl_calibrate_result *results, int rows,
                                     struct sl_text *out) {
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "machine", machine->name);
    for (int g = 0; g < SL_CALIBRATE_GROUPS; g++) {
        const struct sl_calibrate_result *r = &results[g];
        if (!r->rows)
            continue;
        sl_json_key(&json, sl_sizing_calibrate_groups[g].name);
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "recompute", r->recompute);
        sl_json_put_int(&json, "folds", r->folds);
        if (r->held)
            put_errors_json(&json, "held_out", r->held, rows);
        put_errors_json(&json, r->folds ? "fitted" : "checked", r->fitted, rows);
        sl_json_key(&json, "errors");
        sl_json_open(&json, '[');
        for (int i = 0; i < rows; i++)
            if (!isnan(r->fitted[i]))
                sl_json_double(&json, r->fitted[i]);
        sl_json_close(&json, ']');
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}
