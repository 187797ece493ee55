/* The report of a check as text and as JSON. */
#include "base/json.h"
#include "pipe/check.h"

#include <stdio.h>

static const char *const kinds[] = {
    [SL_CHECK_SAME] = "",
    [SL_CHECK_WEIGHT] = "weights",
    [SL_CHECK_STATE] = "statistics",
    [SL_CHECK_OPTIM] = "optimizer state",
    [SL_CHECK_LOSS] = "loss",
    [SL_CHECK_LOG] = "log",
};

/* Names the reference that the pipeline agrees with. */
static const char *reference_of(const struct sl_check_report *r) {
    return r->stale         ? "one process that keeps all weight versions"
           : r->other_order ? "its stages in one thread, in the order of the schedule"
                            : "one worker";
}

void sl_pipe_check_json(const struct sl_check_config *c, const struct sl_check_report *r,
                        struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", c->pipe.train->graph->name);
    sl_json_put_string(&json, "schedule", c->pipe.schedule);
    sl_json_put_int(&json, "stages", c->pipe.plan->stage_count);
    sl_json_put_int(&json, "workers", c->pipe.plan->worker_count);
    sl_json_put_int(&json, "steps", c->pipe.train->steps);
    sl_json_put_int(&json, "tensors", r->tensors);
    sl_json_put_int(&json, "elements", r->elements);
    sl_json_put_string(&json, "reference", reference_of(r));
    sl_json_put_bool(&json, "same", r->kind == SL_CHECK_SAME);
    if (r->kind != SL_CHECK_SAME) {
        sl_json_put_string(&json, "what", kinds[r->kind]);
        sl_json_put_string(&json, "tensor", r->tensor);
        sl_json_put_int(&json, "step", r->step);
        sl_json_put_int(&json, "stage", r->stage);
        sl_json_put_int(&json, "element", r->element);
        sl_json_put_double(&json, "pipeline", r->pipe);
        sl_json_put_double(&json, "one_worker", r->one);
    }
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}

void sl_pipe_check_put(const struct sl_check_config *c, const struct sl_check_report *r,
                       struct sl_text *text) {
    if (r->kind != SL_CHECK_SAME)
        return;
    sl_text_printf(text,
                   "%s, %d stages on %d workers, schedule %s, %lld steps: %lld tensors "
                   "(%lld values) and all losses are those of %s, bit for bit\n",
                   c->pipe.train->graph->name, c->pipe.plan->stage_count,
                   c->pipe.plan->worker_count, c->pipe.schedule, (long long)c->pipe.train->steps,
                   (long long)r->tensors, (long long)r->elements, reference_of(r));
}

sl_err sl_pipe_check_verdict(const struct sl_check_config *c, const struct sl_check_report *r) {
    char step[96];
    if (r->kind == SL_CHECK_SAME)
        return SL_OK;
    snprintf(step, sizeof step, "after step %lld", (long long)r->step);
    if (r->step == 0)
        snprintf(step, sizeof step, "after %lld steps in one run (not step by step)",
                 (long long)c->pipe.train->steps);
    if (r->kind == SL_CHECK_LOSS || r->kind == SL_CHECK_LOG)
        return sl_fail(SL_ERR_REFUSED, "the %s differs %s: %.17g, the reference (%s) has %.17g",
                       r->tensor, step, r->pipe, reference_of(r), r->one);
    return sl_fail(SL_ERR_REFUSED,
                   "%s of '%s' differ %s, first on stage %d (%s): element %lld is %.9g, the "
                   "reference (%s) has %.9g",
                   kinds[r->kind], r->tensor, step, r->stage, c->pipe.plan->stages[r->stage].name,
                   (long long)r->element, r->pipe, reference_of(r), r->one);
}
