/* Export: makes the nodes in memory, then writes the file from beginning to end, tensors piece
 * by piece.
 *
 *   model = versions, graph = nodes, name, tensors, inputs, outputs
 *
 * A message begins with its length, so the lengths of all tensors are computed before any is read.
 */
#include "emit/export.h"

#include "base/outfile.h"
#include "base/version.h"
#include "emit/out.h"
#include "emit/pb.h"

#include <stdlib.h>

/* Field numbers of the format's messages. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_VERSION = 2 };
enum { GRAPH_NAME = 2, GRAPH_TENSOR = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, TENSOR_EXTERNAL = 13 };
enum { TENSOR_LOCATION = 14, EXTERNAL = 1 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { INFO_NAME = 1, INFO_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEM = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };

enum {
    IR_VERSION = 9, /* the version that belongs to operator set 20 */
    PIECE = 1 << 16,
    ALIGN = 64, /* alignment of external tensors */
};
#define INLINE_MAX (((int64_t)1 << 31) - (64 << 20)) /* protobuf allows files up to 2 GiB */

struct tensor { /* a parameter or a statistic */
    const char *name;
    struct sl_shape shape;
    int64_t count, offset;
};

struct export {
    struct sl_emit o;
    SL_VEC(struct tensor) tensors;
    struct sl_outfile file, data;
    int64_t size_bytes; /* bytes of all tensors */
    bool external;
};

/* ---- choosing tensors and results ---- */

/* Number of results: outputs, or the losses of a graph without outputs. */
static int64_t result_count(const struct sl_graph *graph) {
    return graph->outputs.count ? graph->outputs.count : graph->losses.count;
}

static struct sl_output result_at(const struct sl_graph *graph, int64_t i) {
    return graph->outputs.count
               ? graph->outputs.at[i]
               : (struct sl_output){graph->losses.at[i].name, graph->losses.at[i].value};
}

static void mark(struct export *e) {
    const struct sl_graph *graph = e->o.graph;
    for (int64_t i = 0; i < result_count(graph); i++)
        e->o.needed[result_at(graph, i).value] = true;
    for (int64_t n = graph->nodes.count - 1; n >= 0; n--) {
        const struct sl_node *node = &graph->nodes.at[n];
        bool any = false;
        for (int i = 0; i < node->out_count; i++)
            any |= e->o.needed[node->out[i]];
        for (int i = 0; any && i < node->in_count; i++)
            if (node->in[i] >= 0)
                e->o.needed[node->in[i]] = true;
    }
}

static void name_value(struct export *e, const char *name, int value) {
    e->o.names[value] = name;
    sl_map_put(&e->o.used, sl_str(name), 1);
}

static void add_tensor(struct export *e, const struct sl_param *p) {
    struct tensor tensor = {p->name, sl_graph_value(e->o.graph, p->value)->shape, 0, 0};
    tensor.count = sl_graph_shape_numel(&tensor.shape, 1);
    name_value(e, p->name, p->value);
    SL_PUSH(&e->tensors, tensor);
}

/* Is it a statistic of a batchnorm? These are tensors. Other states are constants, so that nobody
 * who imports the file trains them. */
static bool is_statistic(const struct export *e, int value) {
    const struct sl_graph *graph = e->o.graph;
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] == value && sl_graph_op_find_input(node->op, SL_STR("var")) >= 0)
                return true;
    }
    return false;
}

static sl_err read_values(const struct sl_graph *graph, const char *name, int64_t from,
                          int64_t count, float *out) {
    if (!graph->stored.read)
        return sl_fail(SL_ERR_INPUT, "tensor '%s' has no value", name);
    return graph->stored.read(graph->stored.ctx, name, from, count, out);
}

static sl_err add_constant(struct export *e, const struct sl_param *p) {
    const struct sl_shape *shape = &sl_graph_value(e->o.graph, p->value)->shape;
    int64_t count = sl_graph_shape_numel(shape, 1);
    float *values = sl_realloc(NULL, sizeof *values * (size_t)(count + 1));
    sl_err err = read_values(e->o.graph, p->name, 0, count, values);
    e->o.scope = p->name;
    if (err == SL_OK)
        e->o.names[p->value] = sl_emit_put_table(&e->o, shape->rank, shape->dim, values);
    free(values);
    return err;
}

static sl_err name_leaves(struct export *e) {
    const struct sl_graph *graph = e->o.graph;
    for (int64_t i = 0; i < graph->inputs.count; i++)
        if (e->o.needed[graph->inputs.at[i].value])
            name_value(e, graph->inputs.at[i].name, graph->inputs.at[i].value);
    for (int64_t i = 0; i < result_count(graph); i++)
        sl_map_put(&e->o.used, sl_str(result_at(graph, i).name), 1);
    for (int64_t i = 0; i < graph->params.count; i++)
        if (e->o.needed[graph->params.at[i].value])
            add_tensor(e, &graph->params.at[i]);
    for (int64_t i = 0; i < graph->states.count; i++) {
        const struct sl_param *p = &graph->states.at[i];
        if (e->o.needed[p->value] && is_statistic(e, p->value))
            add_tensor(e, p);
        else if (e->o.needed[p->value])
            SL_TRY(add_constant(e, p));
    }
    return SL_OK;
}

static sl_err write_node(struct export *e, const struct sl_node *node) {
    const struct sl_emit_row *row = sl_emit_row_find(node->op);
    char name[SL_NAME_TEXT];
    bool any = false;
    for (int i = 0; i < node->out_count; i++)
        any |= e->o.needed[node->out[i]];
    if (!any)
        return SL_OK;
    e->o.node = node;
    sl_graph_value_name(e->o.graph, node->out[0], name);
    e->o.scope = sl_arena_printf(&e->o.arena, "%s", name);
    if (!row)
        sl_emit_refuse(&e->o, "ONNX has no operator for it");
    else
        row->write(&e->o, row->onnx);
    return e->o.err;
}

/* Gives outputs the names that they have in the model. */
static sl_err name_results(struct export *e) {
    const struct sl_graph *graph = e->o.graph;
    for (int64_t i = 0; i < result_count(graph); i++) {
        struct sl_output result = result_at(graph, i);
        const char *from[1] = {e->o.names[result.value]}, *to[1] = {result.name};
        sl_emit_put_many(&e->o, "Identity", (struct sl_emit_names){1, from},
                         (struct sl_emit_names){1, to});
    }
    return SL_OK;
}

/* ---- messages ---- */

static void put_dim(struct sl_text *shape, struct sl_dim size) {
    struct sl_text dim = {0}, name = {0};
    if (size.n != 1)
        sl_text_printf(&name, "%lld*", (long long)size.n);
    sl_text_put(&name, "batch");
    if (size.batch)
        sl_emit_pb_string(&dim, DIM_PARAM, name.at);
    else
        sl_emit_pb_int(&dim, DIM_VALUE, size.n);
    sl_emit_pb_message(shape, SHAPE_DIM, &dim);
    sl_text_free(&dim);
    sl_text_free(&name);
}

static void put_info(struct sl_text *graph, int field, const char *name,
                     const struct sl_value *value) {
    struct sl_text info = {0}, type = {0}, tensor = {0}, shape = {0};
    sl_emit_pb_int(&tensor, TENSOR_ELEM,
                   value->dtype == SL_INT ? SL_EMIT_TO_INT : SL_EMIT_TO_FLOAT);
    for (int i = 0; i < value->shape.rank; i++)
        put_dim(&shape, sl_graph_shape_dim(&value->shape, i));
    sl_emit_pb_message(&tensor, TENSOR_SHAPE, &shape);
    sl_emit_pb_message(&type, TYPE_TENSOR, &tensor);
    sl_emit_pb_string(&info, INFO_NAME, name);
    sl_emit_pb_message(&info, INFO_TYPE, &type);
    sl_emit_pb_message(graph, field, &info);
    sl_text_free(&info);
    sl_text_free(&type);
    sl_text_free(&tensor);
    sl_text_free(&shape);
}

static void put_entry(struct sl_text *tensor, const char *key, const char *value) {
    struct sl_text entry = {0};
    sl_emit_pb_string(&entry, ENTRY_KEY, key);
    sl_emit_pb_string(&entry, ENTRY_VALUE, value);
    sl_emit_pb_message(tensor, TENSOR_EXTERNAL, &entry);
    sl_text_free(&entry);
}

static void put_external(const struct tensor *t, const char *location, struct sl_text *tensor) {
    struct sl_text number = {0};
    put_entry(tensor, "location", location);
    sl_text_printf(&number, "%lld", (long long)t->offset);
    put_entry(tensor, "offset", number.at);
    number.length = 0;
    sl_text_printf(&number, "%lld", (long long)t->count * 4);
    put_entry(tensor, "length", number.at);
    sl_emit_pb_int(tensor, TENSOR_LOCATION, EXTERNAL);
    sl_text_free(&number);
}

/* Writes the field of a tensor in the graph; its values follow, unless they are external. */
static void put_tensor(const struct export *e, const struct tensor *t, struct sl_text *out) {
    struct sl_text tensor = {0};
    const char *slash = strrchr(e->file.path, '/');
    for (int i = 0; i < t->shape.rank; i++)
        sl_emit_pb_int(&tensor, TENSOR_DIM, t->shape.dim[i]);
    sl_emit_pb_int(&tensor, TENSOR_TYPE, SL_EMIT_TO_FLOAT);
    sl_emit_pb_string(&tensor, TENSOR_NAME, t->name);
    if (e->external)
        put_external(t,
                     sl_arena_printf((struct sl_arena *)(uintptr_t)&e->o.arena, "%s.data",
                                     slash ? slash + 1 : e->file.path),
                     &tensor);
    else
        sl_emit_pb_open(&tensor, TENSOR_RAW, t->count * 4);
    sl_emit_pb_open(out, GRAPH_TENSOR, (int64_t)tensor.length + (e->external ? 0 : t->count * 4));
    sl_text_put_bytes(out, tensor.at, tensor.length);
    sl_text_free(&tensor);
}

/* ---- the file ---- */

static sl_err write_values(const struct export *e, const struct tensor *t,
                           struct sl_outfile *file) {
    float *buffer = sl_realloc(NULL, sizeof *buffer * PIECE);
    sl_err err = SL_OK;
    for (int64_t from = 0, n; err == SL_OK && from < t->count; from += n) {
        n = t->count - from < PIECE ? t->count - from : PIECE;
        err = read_values(e->o.graph, t->name, from, n, buffer);
        if (err == SL_OK)
            err = sl_outfile_write(file, buffer, sizeof *buffer * (size_t)n);
    }
    free(buffer);
    return err;
}

static sl_err write_text(struct sl_outfile *file, struct sl_text *text) {
    sl_err err = sl_outfile_write(file, text->at, text->length);
    text->length = 0;
    return err;
}

static void put_model(struct sl_text *out, const struct sl_graph *graph, int64_t graph_bytes) {
    struct sl_text opset = {0};
    (void)graph;
    sl_emit_pb_int(out, MODEL_IR, IR_VERSION);
    sl_emit_pb_string(out, MODEL_PRODUCER, "sluice");
    sl_emit_pb_string(out, MODEL_VERSION, sl_version());
    sl_emit_pb_int(&opset, OPSET_VERSION, SL_EMIT_OPSET);
    sl_emit_pb_message(out, MODEL_OPSET, &opset);
    sl_emit_pb_open(out, MODEL_GRAPH, graph_bytes);
    sl_text_free(&opset);
}

/* Writes inputs and outputs, the end of the graph. */
static void put_ends(struct export *e, struct sl_text *out) {
    const struct sl_graph *graph = e->o.graph;
    sl_emit_pb_string(out, GRAPH_NAME, graph->name);
    for (int64_t i = 0; i < graph->inputs.count; i++)
        if (e->o.needed[graph->inputs.at[i].value])
            put_info(out, GRAPH_INPUT, graph->inputs.at[i].name,
                     sl_graph_value(graph, graph->inputs.at[i].value));
    for (int64_t i = 0; i < result_count(graph); i++)
        put_info(out, GRAPH_OUTPUT, result_at(graph, i).name,
                 sl_graph_value(graph, result_at(graph, i).value));
}

static sl_err write_file(struct export *e, struct sl_text *ends) {
    struct sl_text text = {0};
    int64_t bytes = (int64_t)(e->o.nodes.length + ends->length);
    sl_err err = SL_OK;
    for (int64_t i = 0; i < e->tensors.count; i++) {
        put_tensor(e, &e->tensors.at[i], &text);
        bytes += (int64_t)text.length + (e->external ? 0 : e->tensors.at[i].count * 4);
        text.length = 0;
    }
    put_model(&text, e->o.graph, bytes);
    SL_TRY_OUT(write_text(&e->file, &text));
    SL_TRY_OUT(write_text(&e->file, &e->o.nodes));
    for (int64_t i = 0; i < e->tensors.count; i++) {
        put_tensor(e, &e->tensors.at[i], &text);
        SL_TRY_OUT(write_text(&e->file, &text));
        if (!e->external)
            SL_TRY_OUT(write_values(e, &e->tensors.at[i], &e->file));
    }
    SL_TRY_OUT(write_text(&e->file, ends));
out:
    sl_text_free(&text);
    return err;
}

static sl_err write_data(struct export *e) {
    static const char zeros[ALIGN];
    int64_t at = 0;
    for (int64_t i = 0; i < e->tensors.count; i++) {
        SL_TRY(sl_outfile_write(&e->data, zeros, (size_t)(e->tensors.at[i].offset - at)));
        SL_TRY(write_values(e, &e->tensors.at[i], &e->data));
        at = e->tensors.at[i].offset + e->tensors.at[i].count * 4;
    }
    return SL_OK;
}

static sl_err write_files(struct export *e, const char *path) {
    struct sl_text ends = {0};
    sl_err err;
    put_ends(e, &ends);
    if (e->external) {
        SL_TRY(sl_outfile_open(&e->data, sl_arena_printf(&e->o.arena, "%s.data", path)));
        SL_TRY(sl_outfile_close(&e->data, write_data(e)));
    }
    err = sl_outfile_open(&e->file, path);
    if (err == SL_OK)
        err = sl_outfile_close(&e->file, write_file(e, &ends));
    sl_text_free(&ends);
    return err;
}

static sl_err build(struct export *e) {
    const struct sl_graph *graph = e->o.graph;
    int64_t bytes = 0;
    if (!result_count(graph))
        return sl_fail(SL_ERR_REFUSED, "the model has no outputs");
    mark(e);
    SL_TRY(name_leaves(e));
    for (int64_t n = 0; n < graph->nodes.count; n++)
        SL_TRY(write_node(e, &graph->nodes.at[n]));
    SL_TRY(name_results(e));
    for (int64_t i = 0; i < e->tensors.count; i++) {
        e->tensors.at[i].offset = bytes;
        bytes += (e->tensors.at[i].count * 4 + ALIGN - 1) / ALIGN * ALIGN;
        e->size_bytes += e->tensors.at[i].count * 4;
    }
    e->external = bytes + (int64_t)e->o.nodes.length > INLINE_MAX;
    return SL_OK;
}

sl_err sl_emit_onnx(const struct sl_graph *graph, const char *path, struct sl_text *summary) {
    struct export e = {.o = {.graph = graph}};
    char bytes[SL_HUMAN_BYTES];
    SL_ASSERT(graph->eval && !graph->differentiated);
    e.o.names = SL_NEW(&e.o.arena, const char *, graph->values.count + 1);
    e.o.needed = SL_NEW(&e.o.arena, bool, graph->values.count + 1);
    sl_err err = build(&e);
    if (err == SL_OK)
        err = write_files(&e, path);
    if (err == SL_OK)
        sl_text_printf(summary, "%s: operator set %d, %lld nodes, %s in %lld tensors%s\n", path,
                       SL_EMIT_OPSET, (long long)e.o.node_count,
                       sl_human_bytes(e.size_bytes, bytes), (long long)e.tensors.count,
                       e.external ? " beside it" : "");
    SL_VEC_FREE(&e.tensors);
    SL_VEC_FREE(&e.o.constant_names);
    sl_map_free(&e.o.used);
    sl_map_free(&e.o.constants);
    sl_text_free(&e.o.nodes);
    sl_text_free(&e.o.attrs);
    sl_arena_free(&e.o.arena);
    return err;
}
