/* Text of branches: one line per group of equal parallel branches, then counts. */
#include "graph/branch.h"

#include <stdio.h>

enum { WORTH_A_LINE = 2 }; /* at least this many layers with weights, on at least two branches */

static const char *const layer_names[SL_LAYER_KINDS][2] = {
    [SL_LAYER_ATTENTION] = {"attention layer", "attention layers"},
    [SL_LAYER_CONV] = {"convolution", "convolutions"},
    [SL_LAYER_LSTM] = {"lstm layer", "lstm layers"},
    [SL_LAYER_PRODUCT] = {"matrix product", "matrix products"},
    [SL_LAYER_EMBED] = {"embedding", "embeddings"},
};

/* A component, described by its main kind of layer. */
struct kind {
    int what, count; /* SL_LAYER_KINDS stands for plain nodes; count: how many */
    int times;       /* number of components of the segment with this kind */
};

static struct kind kind_of(const struct sl_component *c) {
    for (int i = 0; i < SL_LAYER_KINDS; i++)
        if (c->layers[i])
            return (struct kind){i, c->layers[i], 1};
    return (struct kind){SL_LAYER_KINDS, c->node_count, 1};
}

static void put_kind(struct sl_text *text, const struct kind *kind) {
    const char *one = "node", *many = "nodes";
    if (kind->what < SL_LAYER_KINDS) {
        one = layer_names[kind->what][0];
        many = layer_names[kind->what][1];
    }
    sl_text_printf(text, "%d %s", kind->count, kind->count == 1 ? one : many);
}

/* Writes "8 attention layers each" or "7 of 4 matrix products, 7 of 1 embedding". */
static void put_kinds(struct sl_text *text, const struct sl_component *components, int count) {
    enum { MAX = 8 };
    struct kind kinds[MAX];
    int found = 0, others = 0;
    for (int i = 0; i < count; i++) {
        struct kind kind = kind_of(&components[i]);
        int k = 0;
        while (k < found && (kinds[k].what != kind.what || kinds[k].count != kind.count))
            k++;
        if (k < found)
            kinds[k].times++;
        else if (found < MAX)
            kinds[found++] = kind;
        else
            others++;
    }
    for (int k = 0; k < found; k++) {
        sl_text_put(text, k ? ", " : "");
        if (found > 1)
            sl_text_printf(text, "%d of ", kinds[k].times);
        put_kind(text, &kinds[k]);
    }
    if (found == 1)
        sl_text_put(text, " each");
    if (others)
        sl_text_printf(text, ", %d others", others);
}

static bool is_worth_a_line(const struct sl_branches *b, const struct sl_segment *segment) {
    int large = 0;
    for (int i = 0; i < segment->count; i++)
        large += b->components[segment->first + i].weighted >= WORTH_A_LINE;
    return large >= 2;
}

static void put_segment(const struct sl_graph *graph, const struct sl_branches *b,
                        const struct sl_segment *segment, struct sl_text *text) {
    sl_text_printf(text, "%d parallel branches (", segment->count);
    put_kinds(text, b->components + segment->first, segment->count);
    if (segment->to < 0)
        sl_text_put(text, "), never joined");
    else
        sl_text_printf(text, ") joined by %s", graph->nodes.at[segment->to].op->name);
    if (segment->level)
        sl_text_put(text, ", inside a branch");
}

/* Lines in the order of their first segment, each with its number of occurrences. */
struct lines {
    struct sl_arena arena;
    struct sl_map index;
    SL_VEC(char *) text;
    SL_VEC(int64_t) times;
};

static void add_line(struct lines *lines, const struct sl_text *text) {
    struct sl_str key = {text->at, text->length};
    int64_t *found = sl_map_find(&lines->index, key);
    if (found) {
        lines->times.at[*found]++;
        return;
    }
    char *copy = sl_arena_dup(&lines->arena, text->at, text->length);
    sl_map_put(&lines->index, (struct sl_str){copy, text->length}, lines->text.count);
    SL_PUSH(&lines->text, copy);
    SL_PUSH(&lines->times, 1);
}

static void put_count(struct sl_text *text, const char *what, int64_t count) {
    if (count)
        sl_text_printf(text, "%s: %lld\n", what, (long long)count);
}

void sl_graph_branches_put(const struct sl_graph *graph, const struct sl_branches *b,
                           struct sl_text *text) {
    struct lines lines = {0};
    struct sl_text line = {0};
    int64_t small = 0, tangled = 0;
    for (int i = 0; i < b->segment_count; i++) {
        const struct sl_segment *segment = &b->segments[i];
        if (segment->count == 1) {
            tangled++;
            continue;
        }
        if (!is_worth_a_line(b, segment)) {
            small++;
            continue;
        }
        line.length = 0;
        put_segment(graph, b, segment, &line);
        add_line(&lines, &line);
    }
    for (int64_t i = 0; i < lines.text.count; i++) {
        if (lines.times.at[i] > 1)
            sl_text_printf(text, "%lld x ", (long long)lines.times.at[i]);
        sl_text_printf(text, "%s\n", lines.text.at[i]);
    }
    if (!lines.text.count)
        sl_text_put(text, tangled ? "no parallel branches that join again\n"
                          : small ? "a chain of layers\n"
                                  : "a chain\n");
    put_count(text, "residual and other short skip edges", b->skip_count - b->long_skip_count);
    put_count(text, "long skip edges", b->long_skip_count);
    put_count(text, "small branchings (fewer than two layers with weights on a side)", small);
    put_count(text, "parts that are neither a chain nor parallel", tangled);
    SL_VEC_FREE(&lines.text);
    SL_VEC_FREE(&lines.times);
    sl_map_free(&lines.index);
    sl_arena_free(&lines.arena);
    sl_text_free(&line);
}
