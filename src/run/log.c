/* The log of a run. */
#include "run/log.h"

#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the step that a line of the log belongs to, or -1. */
static int64_t step_of_line(const char *line) {
    const char *at = strstr(line, "\"step\": ");
    return at ? strtoll(at + 8, NULL, 10) : -1;
}

/* Keeps the lines up to `step`: a resumed run repeats the steps after its last checkpoint. Also
 * removes an incomplete last line. */
static sl_err trim(const char *path, int64_t step) {
    char *text;
    size_t length;
    if (!sl_file_exists(path))
        return SL_OK;
    SL_TRY(sl_file_read(path, INT64_MAX / 2, &text, &length));
    size_t kept = 0;
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        if (!end)
            break;
        if (step_of_line(line) <= step) {
            size_t size = (size_t)(end + 1 - line);
            memmove(text + kept, line, size);
            kept += size;
        }
        line = end + 1;
    }
    sl_err err = sl_file_write(path, text, kept);
    free(text);
    return err;
}

sl_err sl_run_log_open(struct sl_run_log *log, const char *run, int64_t step) {
    struct sl_text path = {0};
    sl_err err = SL_OK;
    *log = (struct sl_run_log){0};
    sl_text_printf(&path, "%s/log.jsonl", run);
    SL_TRY_OUT(trim(path.at, step));
    log->jsonl = fopen(path.at, "ae");
    if (!log->jsonl)
        SL_TRY_OUT(sl_fail(SL_ERR_SYSTEM, "%s: cannot open: %s", path.at, strerror(errno)));
    SL_TRY_OUT(sl_run_events_open(run, step, &log->events));
out:
    sl_text_free(&path);
    if (err != SL_OK)
        sl_run_log_close(log);
    return err;
}

static sl_err put_line(struct sl_run_log *log, struct sl_text *text) {
    sl_text_put(text, "\n");
    bool bad = fputs(text->at, log->jsonl) < 0 || fflush(log->jsonl) != 0;
    sl_text_free(text);
    return bad ? sl_fail(SL_ERR_SYSTEM, "cannot write log.jsonl: %s", strerror(errno)) : SL_OK;
}

/* Writes why the step was skipped. */
static void put_bad(struct sl_json_out *json, const struct sl_bad *bad) {
    static const char *const kinds[] = {
        [SL_BAD_NONE] = "unknown", [SL_BAD_WEIGHT] = "weight", [SL_BAD_INPUT] = "input",
        [SL_BAD_OP] = "op",        [SL_BAD_SUM] = "sum",       [SL_BAD_SCALE] = "scale",
    };
    sl_json_key(json, "bad");
    sl_json_open(json, '{');
    sl_json_put_string(json, "what", kinds[bad->kind]);
    if (bad->kind != SL_BAD_NONE && bad->kind != SL_BAD_SCALE)
        sl_json_put_string(json, "name", bad->name);
    if (bad->kind == SL_BAD_INPUT || bad->kind == SL_BAD_OP)
        sl_json_put_int(json, "micro", bad->micro);
    if (bad->kind == SL_BAD_OP) {
        sl_json_put_int(json, "stage", bad->stage);
        sl_json_put_string(json, "op", bad->op);
        sl_json_put_string(json, "pass", sl_run_pass_tag_name(bad->pass));
    }
    sl_json_close(json, '}');
}

sl_err sl_run_log_step(struct sl_run_log *log, const struct sl_step_report *r) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text};
    sl_json_open(&json, '{');
    sl_json_put_int(&json, "step", r->step);
    sl_json_put_double(&json, "loss", r->loss);
    sl_json_put_double(&json, "grad_norm", r->norm);
    sl_json_put_double(&json, "lr", r->lr);
    if (r->loss_scale > 0)
        sl_json_put_double(&json, "loss_scale", r->loss_scale);
    sl_json_put_int(&json, "samples", r->samples);
    sl_json_put_bool(&json, "skipped", r->skipped);
    if (r->skipped)
        put_bad(&json, &r->bad);
    sl_json_put_double(&json, "ms", (double)r->dur_ns / 1e6);
    sl_json_put_double(&json, "data_ms", (double)r->data_ns / 1e6);
    if (r->worker_bytes) {
        sl_json_put_double(&json, "bubble", round(1e4 * r->bubble) / 1e4);
        sl_json_put_int(&json, "worker_bytes", r->worker_bytes);
    }
    if (!isnan(r->peak_share))
        sl_json_put_double(&json, "peak_percent", round(1e4 * r->peak_share) / 100);
    sl_json_close(&json, '}');
    SL_TRY(put_line(log, &text));
    SL_TRY(sl_run_events_scalar(log->events, r->step, "train/loss", (float)r->loss));
    if (!isnan(r->norm))
        SL_TRY(sl_run_events_scalar(log->events, r->step, "train/grad_norm", (float)r->norm));
    if (r->loss_scale > 0)
        SL_TRY(
            sl_run_events_scalar(log->events, r->step, "train/loss_scale", (float)r->loss_scale));
    if (r->worker_bytes)
        SL_TRY(sl_run_events_scalar(log->events, r->step, "train/bubble", (float)r->bubble));
    return sl_run_events_scalar(log->events, r->step, "train/lr", (float)r->lr);
}

sl_err sl_run_log_eval(struct sl_run_log *log, const struct sl_eval_report *r) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text};
    sl_json_open(&json, '{');
    sl_json_put_int(&json, "step", r->step);
    sl_json_put_double(&json, "eval_loss", r->loss);
    if (!isnan(r->accuracy))
        sl_json_put_double(&json, "eval_accuracy", r->accuracy);
    sl_json_put_int(&json, "eval_samples", r->samples);
    sl_json_put_double(&json, "ms", (double)r->dur_ns / 1e6);
    sl_json_close(&json, '}');
    SL_TRY(put_line(log, &text));
    if (!isnan(r->accuracy))
        SL_TRY(sl_run_events_scalar(log->events, r->step, "eval/accuracy", (float)r->accuracy));
    return sl_run_events_scalar(log->events, r->step, "eval/loss", (float)r->loss);
}

sl_err sl_run_log_staleness(struct sl_run_log *log, const struct sl_staleness *s) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text};
    sl_json_open(&json, '{');
    sl_json_put_int(&json, "step", s->step);
    sl_json_put_int(&json, "stage", s->stage);
    sl_json_put_string(&json, "pass", s->backward ? "backward" : "forward");
    sl_json_put_int(&json, "base", s->base);
    sl_json_put_int(&json, "s", s->ahead);
    if (s->predicts)
        sl_json_put_double(&json, "rmse_predicted", s->predicted);
    sl_json_put_double(&json, "rmse_stale", s->stale);
    sl_json_close(&json, '}');
    return put_line(log, &text);
}

void sl_run_log_close(struct sl_run_log *log) {
    if (log->jsonl)
        fclose(log->jsonl);
    if (log->events)
        fclose(log->events);
    *log = (struct sl_run_log){0};
}
