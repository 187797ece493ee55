/* Results of a study as Markdown and JSON. */
#include "base/json.h"
#include "study/run.h"

void sl_study_put_markdown(const struct sl_study_run *run, struct sl_text *out) {
    const struct sl_study *s = run->pool.study;
    SL_VEC(struct sl_study_cell) all = {0};
    for (int64_t i = 0; i < run->tuning.count; i++)
        SL_PUSH(&all, run->tuning.at[i]);
    for (int64_t i = 0; i < run->cells.count; i++)
        SL_PUSH(&all, run->cells.at[i]);
    sl_study_put_table(&run->table, out);
    sl_study_put_tuning(s, run->tuning.at, run->tuning.count, out);
    sl_study_put_cost(s, all.at, all.count, out);
    if (run->pool.left)
        sl_text_printf(out, "\n%lld runs of this study have not been made yet.\n",
                       (long long)run->pool.left);
    SL_VEC_FREE(&all);
}

void sl_study_put_json(const struct sl_study_table *table, struct sl_text *out) {
    const struct sl_study *s = table->study;
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '[');
    for (int i = 0; i < table->count; i++) {
        const struct sl_study_row *r = &table->rows[i];
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "task", s->tasks[r->task].name);
        sl_json_put_string(&json, "mode", s->modes[r->mode].name);
        sl_json_put_string(&json, "against", s->modes[r->mode].against);
        sl_json_put_double(&json, "rate", r->rate);
        sl_json_put_int(&json, "seeds", r->seeds);
        sl_json_put_double(&json, "last", r->last);
        sl_json_put_double(&json, "last_percent", r->last_diff.mean);
        sl_json_put_double(&json, "last_interval", r->last_diff.half);
        sl_json_put_double(&json, "best", r->best);
        sl_json_put_double(&json, "best_percent", r->best_diff.mean);
        sl_json_put_double(&json, "best_interval", r->best_diff.half);
        sl_json_put_double(&json, "target", r->target);
        sl_json_put_double(&json, "steps_to_target", r->reached);
        sl_json_put_double(&json, "sooner_simulated", r->sooner);
        sl_json_put_double(&json, "step_ms", r->step_ms);
        sl_json_put_double(&json, "sooner_measured", r->sooner_measured);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_text_put(out, "\n");
}
