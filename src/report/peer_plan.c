/* Stages of a plan of an imported graph, as a table and as JSON. */
#include "report/peer_plan.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>

static void put_stage(struct sl_text *out, const struct sl_report_peer_plan *report,
                      const struct sl_peers_stage *stage, int number, int depth) {
    const struct sl_layer *first = &report->layers->at[stage->layers[0]];
    const struct sl_layer *last = &report->layers->at[stage->layers[stage->count - 1]];
    int turned = 0;
    for (int i = 0; stage->options && i < stage->count; i++)
        turned += stage->options[i] != 0;
    sl_text_printf(out, "%*sstage %-3d %5d layers  %s%" PRId64 " .. %s%" PRId64 "  d=%d t=%d",
                   2 * depth, "", number, stage->count, report->layers->id_prefix, first->id,
                   report->layers->id_prefix, last->id, stage->d, stage->t);
    if (stage->on_cpu)
        sl_text_put(out, " on a CPU");
    if (turned)
        sl_text_printf(out, "  %d not by their first option", turned);
    sl_text_printf(out, "  %.6g\n", stage->time);
    for (int i = 0; i < stage->inner_count; i++)
        put_stage(out, report, &stage->inner[i], i, depth + 1);
}

void sl_report_peer_plan(const struct sl_report_peer_plan *report, struct sl_text *out) {
    const struct sl_peers_plan *plan = report->plan;
    for (int i = 0; i < plan->stage_count; i++)
        put_stage(out, report, &plan->stages[i], i, 0);
    sl_text_printf(out, "objective %.9g (%s)\n", plan->objective, report->model->unit);
    if (plan->proven)
        sl_text_put(out, "proven: nothing better exists in this cost model\n");
    else if (plan->lower_bound > 0)
        sl_text_printf(out, "lower bound %.9g, gap %.2f %%\n", plan->lower_bound,
                       100 * (plan->objective - plan->lower_bound) / plan->lower_bound);
    if (plan->timed_out)
        sl_text_put(out, "stopped by the time limit: this is the best plan so far\n");
    sl_text_printf(out, "search %.1f ms, %" PRId64 " cuts, %" PRId64 " stages looked at\n",
                   report->search_ms, plan->ideals, plan->pairs);
}

static void put_id(struct sl_json_out *json, const struct sl_layers *layers, int layer) {
    char text[64];
    if (!*layers->id_prefix) {
        sl_json_int(json, layers->at[layer].id);
        return;
    }
    snprintf(text, sizeof text, "%s%" PRId64, layers->id_prefix, layers->at[layer].id);
    sl_json_string(json, text);
}

static void put_options(struct sl_json_out *json, const struct sl_layers *layers,
                        const struct sl_peers_stage *stage) {
    char text[64];
    sl_json_key(json, "options");
    sl_json_open(json, '{');
    for (int i = 0; stage->options && i < stage->count; i++) {
        const struct sl_layer *layer = &layers->at[stage->layers[i]];
        snprintf(text, sizeof text, "%s%" PRId64, layers->id_prefix, layer->id);
        sl_json_put_string(json, text, layer->options[stage->options[i]].name);
    }
    sl_json_close(json, '}');
}

static void put_stages(struct sl_json_out *json, const struct sl_layers *layers,
                       const struct sl_peers_stage *stages, int count) {
    sl_json_open(json, '[');
    for (int i = 0; i < count; i++) {
        const struct sl_peers_stage *stage = &stages[i];
        sl_json_open(json, '{');
        sl_json_key(json, "nodes");
        sl_json_open(json, '[');
        for (int l = 0; l < stage->count; l++)
            put_id(json, layers, stage->layers[l]);
        sl_json_close(json, ']');
        sl_json_put_int(json, "d", stage->d);
        sl_json_put_int(json, "t", stage->t);
        sl_json_put_string(json, "device", stage->on_cpu ? "cpu" : "accelerator");
        sl_json_put_double(json, "time", stage->time);
        put_options(json, layers, stage);
        if (stage->inner_count) {
            sl_json_key(json, "inner");
            put_stages(json, layers, stage->inner, stage->inner_count);
        }
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

void sl_report_peer_plan_json(const struct sl_report_peer_plan *report, struct sl_text *out) {
    struct sl_json_out json = {.text = out};
    const struct sl_peers_plan *plan = report->plan;
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "file", report->file);
    sl_json_put_string(&json, "cost_model", report->model->name);
    sl_json_put_string(&json, "planner", report->planner);
    sl_json_put_string(&json, "unit", report->model->unit);
    sl_json_put_double(&json, "objective", plan->objective);
    sl_json_put_double(&json, "lower_bound", plan->lower_bound);
    sl_json_put_bool(&json, "proven", plan->proven);
    sl_json_put_bool(&json, "timed_out", plan->timed_out);
    sl_json_put_double(&json, "search_ms", report->search_ms);
    sl_json_put_int(&json, "cuts", plan->ideals);
    sl_json_key(&json, "stages");
    put_stages(&json, report->layers, plan->stages, plan->stage_count);
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}
