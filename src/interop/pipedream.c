/* PipeDream graph.txt: a profile, one node or edge a line.
 *
 *   node4 -- Embedding(32320, 1024) -- forward_compute_time=0.073, backward_compute_time=6.949,
 *            activation_size=6291456.0, parameter_size=132382720.000 [-- stage_id=0]   (one line)
 *   <tab>node4 -- node5
 *
 * Times are milliseconds of a mini-batch, sizes bytes; an activation_size may be a list [a; b; c],
 * which counts as its sum.
 */
#include "interop/draft.h"
#include "interop/importer.h"

#include <stdlib.h>

struct input {
    struct sl_draft draft;
    struct sl_arena *arena;
    const char *at, *line_end, *end;
};

static bool starts(const struct input *input, const char *word) {
    size_t length = strlen(word);
    return (size_t)(input->line_end - input->at) >= length && memcmp(input->at, word, length) == 0;
}

static sl_err expect(struct input *input, const char *word) {
    if (!starts(input, word))
        return sl_interop_draft_fail(&input->draft, input->at, "expected '%s'", word);
    input->at += strlen(word);
    return SL_OK;
}

static sl_err take_node(struct input *input, int64_t *id) {
    const char *start = input->at;
    SL_TRY(expect(input, "node"));
    const char *digits = input->at;
    *id = 0;
    while (input->at < input->line_end && *input->at >= '0' && *input->at <= '9') {
        if (input->at - digits >= 15)
            return sl_interop_draft_fail(&input->draft, start, "the number of a node is too long");
        *id = *id * 10 + (*input->at++ - '0');
    }
    if (input->at == digits)
        return sl_interop_draft_fail(&input->draft, start, "expected a node, such as node12");
    return SL_OK;
}

static sl_err take_number(struct input *input, double *out) {
    char text[64];
    size_t length = 0;
    while (input->at + length < input->line_end && length < sizeof text - 1 &&
           strchr("+-0123456789.eE", input->at[length]) && input->at[length]) {
        text[length] = input->at[length];
        length++;
    }
    text[length] = 0;
    if (sl_parse_double(text, "number", out) != SL_OK)
        return sl_interop_draft_fail(&input->draft, input->at, "expected a number");
    input->at += length;
    return SL_OK;
}

/* Reads a number, or the sum of [a; b; c]. */
static sl_err take_size(struct input *input, double *out) {
    if (!starts(input, "["))
        return take_number(input, out);
    *out = 0;
    do {
        double part;
        input->at++; /* skips [ or ; */
        while (starts(input, " "))
            input->at++;
        SL_TRY(take_number(input, &part));
        *out += part;
    } while (starts(input, ";"));
    return expect(input, "]");
}

static sl_err read_edge(struct input *input) {
    struct sl_draft_edge edge = {.at = input->at + 1};
    input->at++; /* skips the tab */
    SL_TRY(take_node(input, &edge.from));
    SL_TRY(expect(input, " -- "));
    SL_TRY(take_node(input, &edge.to));
    if (input->at != input->line_end)
        return sl_interop_draft_fail(&input->draft, input->at, "unexpected text after the edge");
    if (input->draft.edges.count >= SL_LAYER_EDGE_MAX)
        return sl_interop_draft_fail(&input->draft, edge.at, "more than %d edges",
                                     SL_LAYER_EDGE_MAX);
    SL_PUSH(&input->draft.edges, edge);
    return SL_OK;
}

/* Reads up to the " -- " before the costs; a description may contain anything else. */
static sl_err take_description(struct input *input, const char **out) {
    const char *start = input->at;
    for (; input->at < input->line_end; input->at++)
        if (starts(input, " -- forward_compute_time=")) {
            *out = sl_arena_dup(input->arena, start, (size_t)(input->at - start));
            return SL_OK;
        }
    return sl_interop_draft_fail(&input->draft, start,
                                 "no ' -- forward_compute_time=' on this line");
}

static sl_err read_node(struct input *input) {
    struct sl_layer layer = {.color = -1};
    const char *at = input->at;
    SL_TRY(take_node(input, &layer.id));
    SL_TRY(expect(input, " -- "));
    SL_TRY(take_description(input, &layer.name));
    SL_TRY(expect(input, " -- forward_compute_time="));
    SL_TRY(take_number(input, &layer.forward));
    SL_TRY(expect(input, ", backward_compute_time="));
    SL_TRY(take_number(input, &layer.backward));
    SL_TRY(expect(input, ", activation_size="));
    SL_TRY(take_size(input, &layer.output_bytes));
    SL_TRY(expect(input, ", parameter_size="));
    SL_TRY(take_number(input, &layer.params_bytes));
    if (starts(input, " -- stage_id="))
        input->at = input->line_end; /* ignores a stage assignment */
    if (input->at != input->line_end)
        return sl_interop_draft_fail(&input->draft, input->at, "unexpected text after the node");
    if (input->draft.layers.count >= SL_LAYER_MAX)
        return sl_interop_draft_fail(&input->draft, at, "more than %d nodes", SL_LAYER_MAX);
    SL_PUSH(&input->draft.layers, layer);
    SL_PUSH(&input->draft.places, at);
    return SL_OK;
}

static sl_err read_lines(struct input *input) {
    while (input->at < input->end) {
        const char *newline = memchr(input->at, '\n', (size_t)(input->end - input->at));
        const char *next = newline ? newline + 1 : input->end;
        input->line_end = newline ? newline : input->end;
        if (input->line_end > input->at && input->line_end[-1] == '\r')
            input->line_end--;
        if (input->at < input->line_end) {
            if (*input->at == '\t')
                SL_TRY(read_edge(input));
            else
                SL_TRY(read_node(input));
        }
        input->at = next;
    }
    return SL_OK;
}

static sl_err read(struct sl_arena *arena, const char *file, const char *text, size_t length,
                   const struct sl_layers **out) {
    struct input input = {.draft = {.file = file, .start = text, .id_prefix = "node"},
                          .arena = arena,
                          .at = text,
                          .end = text + length};
    sl_err err = SL_OK;
    *out = NULL;
    SL_TRY_OUT(read_lines(&input));
    SL_TRY_OUT(sl_interop_draft_link(&input.draft));
    SL_TRY_OUT(sl_interop_draft_build(&input.draft, arena, "pipedream", out));
out:
    sl_interop_draft_free(&input.draft);
    return err;
}

const struct sl_importer sl_interop_import_pipedream = {
    .name = "pipedream",
    .brief = "graph.txt of msr-fiddle/pipedream (profiles, SOSP 2019)",
    .mark = "forward_compute_time=",
    .example = "node1 -- Input0 -- forward_compute_time=3.000, backward_compute_time=0.000, "
               "activation_size=0.0, parameter_size=0.000\n"
               "node2 -- ReLU -- forward_compute_time=7.125, backward_compute_time=11.5, "
               "activation_size=[64.0; 32.0], parameter_size=60.000\n"
               "\tnode1 -- node2\n",
    .read = read,
};
