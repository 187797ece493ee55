/* The model reader. An accepted model must differentiate, and write(read(write(x))) must equal
 * write(x). Lines "%%" separate the main text from the texts of `use a`, `use b` and `use c`. */
#include "fuzz/meter.h"
#include "graph/model.h"
#include "graph/stats.h"
#include "op/registry.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTS = 4, NODES_MAX = 2000, NODE_BYTES = 2048 };

struct parts {
    struct sl_str at[PARTS];
};

static void divide(const char *text, size_t size, struct parts *parts) {
    const char *end = text + size;
    for (int i = 0; i < PARTS; i++) {
        const char *stop = i + 1 < PARTS ? memmem(text, (size_t)(end - text), "\n%%\n", 4) : NULL;
        parts->at[i] = (struct sl_str){text, (size_t)((stop ? stop : end) - text)};
        text = stop ? stop + 4 : end;
    }
}

static sl_err find_used(const void *ctx, const char *from, const char *name,
                        struct sl_model_source *out) {
    const struct parts *parts = ctx;
    (void)from;
    if (name[1] || name[0] < 'a' || name[0] > 'c')
        return sl_fail(SL_ERR_INPUT, "there is no '%s'", name);
    struct sl_str text = parts->at[name[0] - 'a' + 1];
    *out = (struct sl_model_source){strdup(name), malloc(text.length + 1), text.length};
    if (text.length)
        memcpy(out->text, text.at, text.length);
    return SL_OK;
}

static void check_again(const struct sl_text *first, struct sl_model_options *options) {
    struct sl_graph *graph = NULL;
    struct sl_text second = {0};
    options->find_used = NULL;
    options->set_count = 0;
    sl_err err = sl_graph_model_read("again", first->at, first->length, options, &graph);
    SL_ASSERT(err == SL_OK);
    sl_graph_model_write(graph, &second);
    SL_ASSERT(second.length == first->length && memcmp(second.at, first->at, first->length) == 0);
    sl_text_free(&second);
    sl_graph_close(graph);
}

/* Read the first line alone, and the statements as a piece of a graph that a program builds. */
static void try_pieces(const struct sl_str *text, const struct sl_model_options *options) {
    struct sl_arena arena = {0};
    struct sl_model_header header;
    struct sl_graph *graph = sl_graph_open("piece", sl_op_find);
    int x, result;
    sl_err err = sl_graph_model_peek("peek", text->at, text->length, &arena, &header);
    SL_ASSERT(err != SL_OK || header.name);
    err = sl_graph_input(graph, "in", SL_FLOAT, SL_SHAPE(2, 1, 1, 5), 0, &x);
    SL_ASSERT(err == SL_OK);
    graph->node_limit = options->node_limit;
    struct sl_model_piece piece = {.text = sl_arena_dup(&arena, text->at, text->length),
                                   .scope = "s",
                                   .values = &x,
                                   .value_count = 1,
                                   .result = text->length % 2 ? &result : NULL};
    if (sl_graph_model_extend(graph, options, &piece) == SL_OK)
        err = sl_graph_check(graph);
    sl_graph_close(graph);
    sl_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct sl_model_set sets[] = {{"L", 3}};
    struct parts parts;
    struct sl_graph *graph = NULL;
    struct sl_text text = {0}, dot = {0};
    struct sl_graph_stats stats;
    divide((const char *)data, size, &parts);
    struct sl_model_options options = {
        .find_op = sl_op_find,
        .nearest_op = sl_op_nearest,
        .sets = sets,
        .set_count = size % 2,
        .eval = size % 3 == 0,
        .node_limit = NODES_MAX,
        .step_limit = 20000,
        .find_used = find_used,
        .find_ctx = &parts,
    };
    if (size % 5 == 0)
        try_pieces(&parts.at[0], &options);
    sl_meter_start();
    sl_err err = sl_graph_model_read("fuzz", parts.at[0].at, parts.at[0].length, &options, &graph);
    /* A text is a program: the limits bound its memory, not its length. */
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES + NODES_MAX * NODE_BYTES);
    if (err != SL_OK) {
        SL_ASSERT(*sl_err_message());
        return 0;
    }
    sl_graph_model_write(graph, &text);
    if (sl_graph_autodiff(graph) == SL_OK) {
        sl_graph_stats(graph, &stats);
        sl_graph_model_write_dot(graph, &dot);
    }
    sl_graph_close(graph);
    check_again(&text, &options);
    sl_text_free(&text);
    sl_text_free(&dot);
    return 0;
}
