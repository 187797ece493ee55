/* The stage graph: boxes in columns by depth, each with the blocks of the model it holds.
 *
 *     +--------+     +--------+
 *     | s0     | --> | s1     |        a column is one step further from the inputs;
 *     | wte    |     | h.4    |        boxes of a column are stacked
 *     | h.0..3 |     | h.5    |
 *     +--------+     +--------+
 */
#include "report/markup.h"
#include "report/run_pipeline.h"

#include <stdio.h>
#include <string.h>

enum { BOX_W = 168, BOX_H = 86, GAP_X = 46, GAP_Y = 18, EDGE = 12, LINES = 3, NAME = 26 };

struct place {
    int column, row;
};

static int x_of(const struct place *p) { return EDGE + p->column * (BOX_W + GAP_X); }
static int y_of(const struct place *p) { return EDGE + p->row * (BOX_H + GAP_Y); }

/* Places the boxes. Column: longest path from a source. Row: order in the plan. */
static void place_all(struct sl_arena *arena, const struct sl_plan *plan, struct place *at,
                      int *columns, int *rows) {
    int *filled = SL_NEW(arena, int, plan->stage_count);
    *columns = *rows = 0;
    for (int i = 0; i < plan->stage_count; i++) {
        int s = plan->topo[i];
        at[s].column = 0;
        for (int e = 0; e < plan->stages[s].in_count; e++) {
            int from = plan->edges[plan->stages[s].in[e]].from;
            if (at[from].column + 1 > at[s].column)
                at[s].column = at[from].column + 1;
        }
        at[s].row = filled[at[s].column]++;
        *columns = at[s].column + 1 > *columns ? at[s].column + 1 : *columns;
        *rows = at[s].row + 1 > *rows ? at[s].row + 1 : *rows;
    }
}

static void put_edges(const struct sl_plan *plan, const struct place *at, struct sl_text *out) {
    char bytes[SL_HUMAN_BYTES];
    for (int e = 0; e < plan->edge_count; e++) {
        const struct sl_edge *edge = &plan->edges[e];
        const struct place *from = &at[edge->from], *to = &at[edge->to];
        int x0 = x_of(from) + BOX_W, y0 = y_of(from) + BOX_H / 2;
        int x1 = x_of(to), y1 = y_of(to) + BOX_H / 2, bend = (x1 - x0) / 2;
        sl_text_printf(out, "<path class=\"edge\" d=\"M%d %dC%d %d %d %d %d %d\"><title>", x0, y0,
                       x0 + bend, y0, x1 - bend, y1, x1, y1);
        sl_report_markup_escape(out, plan->stages[edge->from].name);
        sl_text_put(out, " to ");
        sl_report_markup_escape(out, plan->stages[edge->to].name);
        sl_text_printf(out, ": %s a sample</title></path>\n",
                       sl_human_bytes(edge->sample_bytes, bytes));
    }
}

/* Returns the block of a node: "h.3" for "h.3.attn", "vision" for "vision.h.0"; at the top level
 * the op. */
static const char *block_of(const struct sl_node *node, int *length) {
    const char *name = *node->scope ? node->scope : node->op->name;
    size_t first = strcspn(name, ".");
    bool number = name[first] && name[first + 1] >= '0' && name[first + 1] <= '9';
    *length = (int)(number ? first + 1 + strcspn(name + first + 1, ".") : first);
    return name;
}

/* Writes the first, ..., last block of a stage, in up to three lines. */
static void put_blocks(const struct sl_stage *stage, const struct sl_graph *graph, int x, int y,
                       struct sl_text *out) {
    const char *seen = NULL, *last = NULL;
    int length = 0, blocks = 0, line = 0;
    for (int i = 0; i < stage->node_count; i++) {
        int now;
        const char *name = block_of(&graph->nodes.at[stage->nodes[i]], &now);
        if (seen && now == length && strncmp(seen, name, (size_t)now) == 0)
            continue;
        seen = last = name;
        length = now;
        if (++blocks >= LINES)
            continue;
        char text[NAME + 1];
        snprintf(text, sizeof text, "%.*s", now < NAME ? now : NAME, name);
        sl_text_printf(out, "<text x=\"%d\" y=\"%d\">", x + 10, y + 38 + 14 * line++);
        sl_report_markup_escape(out, text);
        sl_text_put(out, "</text>");
    }
    if (blocks < LINES)
        return;
    char text[NAME + 16];
    snprintf(text, sizeof text, "%s%.*s", blocks > LINES ? "... " : "",
             length < NAME - 4 ? length : NAME - 4, last);
    sl_text_printf(out, "<text x=\"%d\" y=\"%d\">", x + 10, y + 38 + 14 * line);
    sl_report_markup_escape(out, text);
    sl_text_put(out, "</text>");
}

static void put_box(const struct sl_plan *plan, int s, const struct sl_graph *graph,
                    const struct place *at, struct sl_text *out) {
    const struct sl_stage *stage = &plan->stages[s];
    char bytes[SL_HUMAN_BYTES];
    int x = x_of(at), y = y_of(at);
    sl_text_printf(out,
                   "<g class=\"stage\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                   "rx=\"7\"/><text class=\"name\" x=\"%d\" y=\"%d\">",
                   x, y, BOX_W, BOX_H, x + 10, y + 20);
    sl_report_markup_escape(out, stage->name);
    sl_text_printf(out, "</text><text class=\"side\" x=\"%d\" y=\"%d\">worker %d%s</text>",
                   x + BOX_W - 10, y + 20, stage->workers[0], stage->width > 1 ? " ..." : "");
    if (graph)
        put_blocks(stage, graph, x, y, out);
    sl_text_printf(out, "<title>");
    sl_report_markup_escape(out, stage->name);
    sl_text_printf(out, ": %d nodes, %d replica%s, weights %s%s</title></g>\n", stage->node_count,
                   stage->width, stage->width == 1 ? "" : "s",
                   sl_human_bytes(stage->bytes.params + stage->bytes.fixed, bytes),
                   stage->recompute ? ", recomputes" : "");
}

void sl_report_stage_graph_put(const struct sl_plan *plan, const struct sl_graph *graph,
                               struct sl_text *out) {
    struct sl_arena arena = {0};
    struct place *at = SL_NEW(&arena, struct place, plan->stage_count);
    int columns, rows;
    place_all(&arena, plan, at, &columns, &rows);
    int width = 2 * EDGE + columns * (BOX_W + GAP_X) - GAP_X;
    int height = 2 * EDGE + rows * (BOX_H + GAP_Y) - GAP_Y;
    sl_text_printf(
        out,
        "<div class=\"wide\"><svg class=\"stages\" role=\"img\" aria-label=\"%d stages\" "
        "width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" style=\"width:%dpx\">\n",
        plan->stage_count, width, height, width, height, width);
    put_edges(plan, at, out);
    for (int s = 0; s < plan->stage_count; s++)
        put_box(plan, s, graph, &at[s], out);
    sl_text_put(out, "</svg></div>\n");
    sl_arena_free(&arena);
}
