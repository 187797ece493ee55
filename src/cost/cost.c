/* The cost table: freezing, checking, lookup. Also computes signatures of units. */
#include "cost/cost.h"

#include "base/hash.h"
#include "base/sort.h"
#include "base/vec.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static bool is_plain(const char *text) {
    for (const char *at = text; at && *at; at++)
        if (!isprint((unsigned char)*at) || *at == '"' || *at == '\\')
            return false;
    return text != NULL;
}

static bool is_rate(double x) { return isfinite(x) && x >= 0 && x < 1e24; }

static sl_err check_row(const struct sl_cost_row *row) {
    const int64_t max = INT64_MAX >> 16;
    if (!is_plain(row->name))
        return sl_fail(SL_ERR_INPUT, "the name of a unit has an invalid character");
    if (row->micro < 1 || row->micro > INT32_MAX)
        return sl_fail(SL_ERR_INPUT, "unit %s: micro is not in 1..%d", row->name, INT32_MAX);
    if (row->f < 0 || row->i < 0 || row->w < 0 || row->f > max || row->i > max || row->w > max)
        return sl_fail(SL_ERR_INPUT, "unit %s: a time is out of range", row->name);
    if (!is_rate(row->spread) || row->seen < 1)
        return sl_fail(SL_ERR_INPUT, "unit %s: needs a spread and a number of measurements",
                       row->name);
    return SL_OK;
}

static bool is_cold(int64_t ns) { return ns >= 0 && ns <= SL_COLD_MAX_NS; }

static sl_err check_tempo(const struct sl_tempo *tempo) {
    bool none = !tempo->workers && !tempo->passes;
    if (!none && (tempo->workers < 1 || tempo->workers > SL_TEMPO_WORKERS || tempo->passes < 1 ||
                  tempo->passes > SL_TEMPO_PASSES))
        return sl_fail(SL_ERR_INPUT, "tempo has 1 to %d passes of 1 to %d workers", SL_TEMPO_PASSES,
                       SL_TEMPO_WORKERS);
    for (int64_t i = 0; i < (int64_t)tempo->workers * tempo->passes; i++)
        if (tempo->millionths[i] < 0 || tempo->millionths[i] > SL_TEMPO_MAX)
            return sl_fail(SL_ERR_INPUT, "tempo is in millionths, 0..%d", SL_TEMPO_MAX);
    return SL_OK;
}

static int compare_rows(const void *a, const void *b) {
    const struct sl_cost_row *x = a, *y = b;
    if (x->signature != y->signature)
        return x->signature < y->signature ? -1 : 1;
    return (x->micro > y->micro) - (x->micro < y->micro);
}

sl_err sl_cost_check(const struct sl_cost *c) {
    if (!is_plain(c->model) || !is_plain(c->device) || !*c->device)
        return sl_fail(SL_ERR_INPUT, "a cost table names a model and a device");
    if (c->threads < 1 || c->busy < 1)
        return sl_fail(SL_ERR_INPUT, "a cost table needs threads and busy workers, at least one");
    if (!is_rate(c->step_bytes_per_s) || !is_rate(c->version_bytes_per_s) ||
        !is_rate(c->link_bytes_per_s) || c->link_latency_ns < 0 ||
        c->link_latency_ns > 1000000000000 || c->action_ns < 0 || c->action_ns > 1000000000)
        return sl_fail(SL_ERR_INPUT, "step, link or action of the cost table is out of range");
    if (!is_cold(c->cold.f_ns) || !is_cold(c->cold.b_ns) || !is_cold(c->cold.after_ns))
        return sl_fail(SL_ERR_INPUT, "cold of the cost table is not in 0..%d ns", SL_COLD_MAX_NS);
    if (c->recompute < 0 || c->recompute > SL_TEMPO_MAX)
        return sl_fail(SL_ERR_INPUT, "again of the cost table is not in 0..%d millionths",
                       SL_TEMPO_MAX);
    SL_TRY(check_tempo(&c->tempo));
    for (int i = 0; i < c->row_count; i++) {
        SL_TRY(check_row(&c->rows[i]));
        if (i && compare_rows(&c->rows[i - 1], &c->rows[i]) >= 0)
            return sl_fail(SL_ERR_INPUT,
                           "unit %s: rows are not in order of signature and micro, or twice",
                           c->rows[i].name);
    }
    return SL_OK;
}

sl_err sl_cost_build(struct sl_arena *arena, const struct sl_cost *draft,
                     const struct sl_cost **out) {
    struct sl_cost *c = SL_NEW(arena, struct sl_cost, 1);
    *c = *draft;
    struct sl_cost_row *rows = sl_vec_freeze(arena, draft->rows, draft->row_count, sizeof *rows);
    sl_sort(rows, c->row_count, sizeof *rows, compare_rows);
    c->rows = rows;
    SL_TRY(sl_cost_check(c));
    for (int i = 0; i < c->row_count; i++)
        rows[i].name = sl_arena_dup(arena, rows[i].name, strlen(rows[i].name));
    c->model = sl_arena_dup(arena, c->model, strlen(c->model));
    c->device = sl_arena_dup(arena, c->device, strlen(c->device));
    c->tempo.millionths =
        sl_vec_freeze(arena, c->tempo.millionths, (int64_t)c->tempo.workers * c->tempo.passes,
                      sizeof *c->tempo.millionths);
    *out = c;
    return SL_OK;
}

/* ---- looking up ---- */

static int64_t between(int64_t low, int64_t high, double share) {
    double x = (double)low + share * ((double)high - (double)low);
    return x > 0 ? (int64_t)llround(x) : 0;
}

bool sl_cost_find(const struct sl_cost *c, uint64_t signature, int64_t micro,
                  struct sl_cost_row *out) {
    int low = 0, high = c->row_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (c->rows[middle].signature < signature)
            low = middle + 1;
        else
            high = middle;
    }
    int first = low;
    while (high < c->row_count && c->rows[high].signature == signature)
        high++;
    if (first == high)
        return false;
    *out = c->rows[first];
    if (high - first == 1) { /* only one size was measured: time is proportional */
        double share = (double)micro / (double)out->micro;
        out->f = (int64_t)llround((double)out->f * share);
        out->i = (int64_t)llround((double)out->i * share);
        out->w = (int64_t)llround((double)out->w * share);
        out->micro = micro;
        return true;
    }
    int at = first;
    while (at + 2 < high && c->rows[at + 1].micro < micro)
        at++;
    const struct sl_cost_row *a = &c->rows[at], *b = a + 1;
    double share = (double)(micro - a->micro) / (double)(b->micro - a->micro);
    out->f = between(a->f, b->f, share);
    out->i = between(a->i, b->i, share);
    out->w = between(a->w, b->w, share);
    out->micro = micro;
    return true;
}

/* ---- signatures ---- */

static void put_shape(struct sl_text *text, const struct sl_graph *graph, int value, bool frozen) {
    const struct sl_value *v = value < 0 ? NULL : sl_graph_value(graph, value);
    if (!v)
        sl_text_put(text, " -");
    else
        sl_text_printf(text, " %d", (int)v->kind);
    for (int i = 0; v && i < v->shape.rank; i++)
        sl_text_printf(text, ",%lld%s", (long long)v->shape.dim[i],
                       v->shape.batch >> i & 1 ? "B" : "");
    if (v && frozen && v->kind == SL_VALUE_PARAM && graph->params.at[v->index].frozen)
        sl_text_put(text, " frozen");
}

static bool has_frozen(const struct sl_graph *graph) {
    bool any = false;
    for (int64_t i = 0; i < graph->params.count; i++)
        any |= graph->params.at[i].frozen;
    return any;
}

static uint64_t sign(const struct sl_graph *graph, const int *nodes, int count, bool frozen) {
    struct sl_text text = {0};
    bool back = false, trains = false;
    sl_text_put(&text, "unit");
    for (int n = 0; n < count; n++) {
        const struct sl_node *node = &graph->nodes.at[nodes[n]];
        sl_text_printf(&text, "\n%s", node->op->name);
        for (int i = 0; i < node->in_count; i++)
            put_shape(&text, graph, node->in[i], frozen);
        back |= node->back;
        trains |= node->trains;
        sl_text_put(&text, " :");
        for (int i = 0; node->op->attrs && node->op->attrs[i].name; i++) {
            sl_text_put(&text, " ");
            sl_graph_attr_put(&text, &node->op->attrs[i], &node->attr[i]);
        }
    }
    if (frozen)
        sl_text_put(&text, trains ? "\nW" : back ? "\nI" : "\nF");
    uint64_t hash = sl_hash(text.at, text.length);
    sl_text_free(&text);
    return hash;
}

uint64_t sl_cost_signature(const struct sl_graph *graph, const int *nodes, int count) {
    return sign(graph, nodes, count, has_frozen(graph));
}

uint64_t sl_cost_signature_whole(const struct sl_graph *graph, const int *nodes, int count) {
    return sign(graph, nodes, count, false);
}
