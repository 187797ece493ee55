/* Target dot: the graph of stages for Graphviz. */
#include "interop/exporter.h"

static void put_quoted(struct sl_text *out, const char *text) {
    sl_text_put(out, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\' || *text == '\n')
            sl_text_put(out, "\\");
        sl_text_put_bytes(out, *text == '\n' ? "n" : text, 1);
    }
    sl_text_put(out, "\"");
}

static void put_stage(const struct sl_plan *plan, int s, struct sl_text *out) {
    const struct sl_stage *stage = &plan->stages[s];
    const struct sl_stage_bytes *b = &stage->bytes;
    char held[SL_HUMAN_BYTES], stash[SL_HUMAN_BYTES];
    sl_text_printf(out, "    %d [label=", s);
    struct sl_text label = {0};
    sl_text_printf(&label, "%s\nworker", stage->name);
    for (int r = 0; r < stage->width; r++)
        sl_text_printf(&label, "%s%d", r ? "," : " ", stage->workers[r]);
    if (stage->node_count)
        sl_text_printf(&label, "\n%d nodes", stage->node_count);
    sl_text_printf(&label, "\n%s held, %s a micro-batch",
                   sl_human_bytes(b->params + b->grads + b->state, held),
                   sl_human_bytes(stage->recompute ? b->saved : b->stash, stash));
    if (stage->recompute)
        sl_text_put(&label, "\nrecomputes");
    put_quoted(out, label.at);
    sl_text_free(&label);
    sl_text_put(out, "];\n");
}

static sl_err write_dot(const struct sl_export *what, struct sl_text *out) {
    const struct sl_plan *plan = what->plan;
    char bytes[SL_HUMAN_BYTES];
    sl_text_put(out, "digraph ");
    put_quoted(out, plan->model ? plan->model : "plan");
    sl_text_put(out, " {\n    rankdir=LR;\n    node [shape=box];\n");
    for (int s = 0; s < plan->stage_count; s++)
        put_stage(plan, s, out);
    for (int e = 0; e < plan->edge_count; e++)
        sl_text_printf(out, "    %d -> %d [label=\"%s a sample\"];\n", plan->edges[e].from,
                       plan->edges[e].to, sl_human_bytes(plan->edges[e].sample_bytes, bytes));
    for (int t = 0; t < plan->tie_count; t++)
        for (int i = 1; i < plan->ties[t].count; i++) {
            sl_text_printf(out, "    %d -> %d [dir=none, style=dashed, constraint=false, label=",
                           plan->ties[t].stages[i - 1], plan->ties[t].stages[i]);
            put_quoted(out, plan->ties[t].name);
            sl_text_put(out, "];\n");
        }
    sl_text_put(out, "}\n");
    return SL_OK;
}

const struct sl_exporter sl_interop_export_dot = {
    .name = "dot",
    .brief = "the graph of stages for Graphviz",
    .write = write_dot,
};
