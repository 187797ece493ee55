/* Imports a file: inputs and initialisers become values, nodes are lowered, a loss is added. */
#include "onnx/import.h"

#include "base/outfile.h"
#include "base/safetensors.h"
#include "onnx/lower.h"
#include "op/registry.h"
#include "rewrite/rewrite.h"

#include <stdlib.h>

enum { NODES_MAX = 4 << 20, FOLDED_MAX = 1 << 26 };

/* ---- inputs ---- */

/* Splits "3*batch" into 3 and "batch": exporters write a size that is a multiple of another one
 * so. */
static const char *multiple_of(const char *param, int64_t *factor) {
    char *end;
    long long n = strtoll(param, &end, 10);
    bool multiple = end != param && *end == '*' && end[1] && n > 0 && n < 1 << 24;
    *factor = multiple ? n : 1;
    return multiple ? end + 1 : param;
}

/* Returns the name of the batch: the symbolic size on the first axis of the first input that has
 * one. */
static const char *batch_name(const struct sl_onnx_lower *l) {
    const struct sl_proto_graph *graph = l->file->graph;
    int64_t factor;
    for (int64_t i = 0; i < graph->in_count; i++)
        if (graph->in[i].rank > 0 && graph->in[i].dim[0].param && *graph->in[i].dim[0].param)
            return multiple_of(graph->in[i].dim[0].param, &factor);
    return NULL;
}

/* Returns the value of NAME in "A=1,NAME=2"; 0: it is not there. */
static sl_err set_size(const char *sets, const char *name, int64_t *out) {
    size_t length = strlen(name);
    *out = 0;
    for (const char *at = sets; at && *at; at += strcspn(at, ","), at += *at == ',') {
        char value[32];
        size_t end = strcspn(at, ",");
        if (end <= length || strncmp(at, name, length) != 0 || at[length] != '=' ||
            end - length - 1 >= sizeof value)
            continue;
        memcpy(value, at + length + 1, end - length - 1);
        value[end - length - 1] = '\0';
        SL_TRY(sl_parse_int(value, name, out));
        if (*out < 1)
            return sl_fail(SL_ERR_USAGE, "--set %s=%s: a size is at least 1", name, value);
    }
    return SL_OK;
}

static sl_err input_shape(const struct sl_onnx_lower *l, const struct sl_proto_info *info,
                          const char *sets, struct sl_shape *out) {
    *out = (struct sl_shape){.rank = info->rank};
    if (info->rank < 0 || info->rank > SL_MAX_RANK)
        return sl_fail(SL_ERR_REFUSED, "%s: input '%s' has no shape of at most %d axes",
                       l->file->path, info->name, SL_MAX_RANK);
    for (int i = 0; i < info->rank; i++) {
        const struct sl_proto_dim *dim = &info->dim[i];
        bool symbolic = dim->param && *dim->param;
        int64_t factor = 1, n = dim->n;
        const char *name = symbolic ? multiple_of(dim->param, &factor) : "";
        bool batch =
            symbolic ? l->batch && strcmp(name, l->batch) == 0 : dim->n < 0 && i == 0 && !l->batch;
        if (batch)
            n = factor;
        else if (symbolic)
            SL_TRY(set_size(sets, dim->param, &n));
        if (n < 1)
            return sl_fail(SL_ERR_REFUSED,
                           "%s: axis %d of input '%s' has no fixed size%s%s%s. Give it with "
                           "--set %s=SIZE, or export with a fixed size",
                           l->file->path, i, info->name, symbolic ? " ('" : "",
                           symbolic ? dim->param : "", symbolic ? "')" : "",
                           symbolic ? dim->param : "NAME");
        sl_graph_shape_set(out, i, (struct sl_dim){n, batch});
    }
    return SL_OK;
}

static sl_err add_input(struct sl_onnx_lower *l, const struct sl_proto_info *info,
                        const char *sets) {
    struct sl_shape shape;
    int id;
    bool whole = sl_proto_type_is_int(info->type);
    SL_TRY(input_shape(l, info, sets, &shape));
    if (!whole && info->type != SL_ONNX_FLOAT)
        return sl_fail(SL_ERR_REFUSED,
                       "%s: input '%s' has type %s; float, whole numbers and bool are supported",
                       l->file->path, info->name, sl_proto_type_name(info->type));
    const char *name = sl_onnx_lower_name(l, info->name);
    SL_TRY(sl_graph_input(l->graph, name, whole ? SL_INT : SL_FLOAT, shape,
                          info->type == SL_ONNX_BOOL ? 2 : 0, &id));
    sl_onnx_lower_add(
        l, (struct sl_onnx_val){
               .name = info->name, .kind = SL_ONNX_TENSOR, .id = id, .type = info->type});
    return SL_OK;
}

/* Adds initialisers. Floating-point tensors are parameters; single numbers are constants. */
static void add_initialisers(struct sl_onnx_lower *l) {
    const struct sl_proto_graph *graph = l->file->graph;
    for (int64_t i = 0; i < graph->tensor_count; i++) {
        const struct sl_proto_tensor *t = &graph->tensors[i];
        sl_onnx_lower_add(
            l, (struct sl_onnx_val){.name = t->name,
                                    .kind = SL_ONNX_KONST,
                                    .konst = sl_onnx_konst_of_tensor(l->arena, t),
                                    .is_param = sl_proto_type_is_float(t->type) && t->count > 1,
                                    .id = -1,
                                    .type = t->type});
    }
}

static sl_err add_inputs(struct sl_onnx_lower *l, const char *sets) {
    const struct sl_proto_graph *graph = l->file->graph;
    for (int64_t i = 0; i < graph->in_count; i++)
        if (!sl_onnx_lower_named(l, graph->in[i].name))
            SL_TRY(add_input(l, &graph->in[i], sets));
    return SL_OK;
}

static struct sl_onnx_stored *stored_named(struct sl_onnx_lower *l, const char *name) {
    for (int64_t i = l->stored_names.count; i < l->stored.count; i++)
        sl_map_put(&l->stored_names, sl_str(l->stored.at[i].name), i);
    int64_t *found = sl_map_find(&l->stored_names, sl_str(name));
    return found ? &l->stored.at[*found] : NULL;
}

/* ---- outputs ---- */

static sl_err add_outputs(struct sl_onnx_lower *l) {
    const struct sl_proto_graph *graph = l->file->graph;
    for (int64_t i = 0; i < graph->out_count; i++) {
        struct sl_onnx_val *val = sl_onnx_lower_named(l, graph->out[i].name);
        int id;
        if (!val)
            return sl_fail(SL_ERR_INPUT, "%s: nothing defines the output '%s'", l->file->path,
                           graph->out[i].name);
        sl_err err = sl_onnx_lower_id(l, val, &id);
        if (err != SL_OK)
            return sl_err_context(err, "%s", l->file->path);
        SL_TRY(sl_graph_output(l->graph, sl_onnx_lower_name(l, graph->out[i].name), id));
    }
    return SL_OK;
}

/* Uses a scalar output as the loss. */
static sl_err own_loss(struct sl_onnx_lower *l) {
    for (int64_t i = 0; i < l->graph->outputs.count; i++) {
        const struct sl_output *output = &l->graph->outputs.at[i];
        const struct sl_value *v = sl_graph_value(l->graph, output->value);
        if (v->shape.rank == 0 && v->dtype == SL_FLOAT && v->kind == SL_VALUE_NODE)
            return sl_graph_loss(l->graph, "loss", output->value, 1);
    }
    return sl_fail(SL_ERR_INPUT,
                   "%s: no output is a scalar, so there is no loss; name one with --loss, for "
                   "example --loss cross_entropy:%s,labels",
                   l->file->path,
                   l->graph->outputs.count ? l->graph->outputs.at[0].name : "logits");
}

static const char *model_name(struct sl_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    char *name = sl_arena_printf(arena, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot && dot != name)
        *dot = '\0';
    for (char *at = name; *at; at++)
        if (!(*at >= '0' && *at <= '9') && !(*at >= 'a' && *at <= 'z') &&
            !(*at >= 'A' && *at <= 'Z') && *at != '.' && *at != '_' && *at != '-')
            *at = '_';
    bool letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || *name == '_';
    return letter ? name : sl_arena_printf(arena, "m%s", name);
}

/* Returns the elements of a stored state, for patterns that depend on them: masks, angles. */
static const double *stored_numbers(void *ctx, const char *name) {
    struct sl_onnx_lower *l = ctx;
    struct sl_onnx_stored *found = stored_named(l, name);
    struct sl_onnx_konst *konst = found ? (struct sl_onnx_konst *)(uintptr_t)found->konst : NULL;
    if (!konst || konst->count > SL_ONNX_KONST_MAX ||
        sl_onnx_konst_load(l->arena, l->file, konst) != SL_OK)
        return NULL;
    if (!konst->f && konst->i) { /* integers are floats in the graph */
        konst->f = SL_NEW(l->arena, double, konst->count + 1);
        for (int64_t i = 0; i < konst->count; i++)
            konst->f[i] = (double)konst->i[i].n;
    }
    return konst->f;
}

static sl_err build(struct sl_onnx_lower *l, const struct sl_onnx_options *options,
                    struct sl_graph **out) {
    l->batch = batch_name(l);
    l->folded_max = options->folded ? options->folded : FOLDED_MAX;
    add_initialisers(l);
    SL_TRY(sl_onnx_name_initialisers(l));
    SL_TRY(add_inputs(l, options->sets));
    SL_TRY(sl_onnx_lower_graph(l, l->file->graph));
    SL_TRY(add_outputs(l));
    if (options->loss)
        SL_TRY(sl_onnx_add_loss(l, options->loss));
    else if (!options->forward)
        SL_TRY(own_loss(l));
    const struct sl_rewrite_constants constants = {l, stored_numbers};
    SL_TRY(sl_rewrite_prune(l->graph, !options->forward, out));
    SL_TRY(sl_rewrite_fuse(out, !options->forward, &constants));
    if (!options->forward)
        return sl_graph_check(*out);
    (*out)->eval = (*out)->checked = true; /* it has only outputs, so there is no loss to check */
    return SL_OK;
}

sl_err sl_onnx_import(const char *path, const struct sl_onnx_options *options,
                      struct sl_onnx_imported *out) {
    struct sl_proto_file *file;
    *out = (struct sl_onnx_imported){0};
    SL_TRY(sl_proto_open(path, &file));
    return sl_onnx_import_file(file, options, out);
}

sl_err sl_onnx_import_file(struct sl_proto_file *file, const struct sl_onnx_options *options,
                           struct sl_onnx_imported *out) {
    struct sl_onnx_lower *l = SL_NEW(&file->arena, struct sl_onnx_lower, 1);
    struct sl_graph *graph = NULL;
    *out = (struct sl_onnx_imported){.lower = l};
    l->arena = &file->arena;
    l->file = file;
    l->graph = sl_graph_open(model_name(l->arena, file->path), sl_op_find);
    l->graph->node_limit = NODES_MAX;
    sl_err err = build(l, options, &graph);
    sl_graph_close(l->graph);
    l->graph = NULL;
    if (err != SL_OK) {
        sl_graph_close(graph);
        sl_onnx_imported_close(out);
        return err;
    }
    graph->name = sl_arena_printf(&graph->arena, "%s", model_name(l->arena, file->path));
    graph->brief = sl_arena_printf(&graph->arena, "imported from ONNX (%s)", file->producer);
    for (char *at = (char *)(uintptr_t)graph->brief; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            *at = '_';
    graph->weights = sl_arena_printf(&graph->arena, "%s", file->path);
    out->graph = graph;
    return SL_OK;
}

void sl_onnx_imported_close(struct sl_onnx_imported *imported) {
    struct sl_onnx_lower *l = imported->lower;
    sl_graph_close(imported->graph);
    *imported = (struct sl_onnx_imported){0};
    if (!l)
        return;
    sl_graph_close(l->graph);
    sl_map_free(&l->names);
    sl_map_free(&l->used_names);
    sl_map_free(&l->stored_names);
    free(l->turned);
    SL_VEC_FREE(&l->vals);
    SL_VEC_FREE(&l->stored);
    sl_proto_close(l->file);
}

/* ---- initial values ---- */

static sl_err read_konst(struct sl_onnx_lower *l, const struct sl_onnx_konst *konst, int64_t from,
                         int64_t count, float *out) {
    if (!konst->f && !konst->i)
        return sl_proto_read_f32(l->file, konst->from, from, count, out);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)sl_onnx_konst_number(konst, from + i);
    return SL_OK;
}

/* Transposes a matrix, and keeps the result until another one is needed. */
static sl_err turn_konst(struct sl_onnx_lower *l, const struct sl_onnx_konst *konst) {
    int64_t rows = konst->dim[0], columns = konst->dim[1];
    if (l->turned_of == konst)
        return SL_OK;
    float *row = sl_realloc(NULL, sizeof *row * (size_t)(columns + 1));
    l->turned_of = NULL;
    l->turned = sl_realloc(l->turned, sizeof *l->turned * (size_t)(konst->count + 1));
    sl_err err = SL_OK;
    for (int64_t i = 0; i < rows && err == SL_OK; i++) {
        err = read_konst(l, konst, i * columns, columns, row);
        for (int64_t k = 0; k < columns; k++)
            l->turned[k * rows + i] = row[k];
    }
    free(row);
    if (err == SL_OK)
        l->turned_of = konst;
    return err;
}

static sl_err read_stored(void *ctx, const char *name, int64_t from, int64_t count, float *out) {
    struct sl_onnx_lower *l = ctx;
    const struct sl_onnx_stored *stored = stored_named(l, name);
    if (!stored)
        return sl_fail(SL_ERR_INPUT, "%s: no initial value of '%s'", l->file->path, name);
    if (!stored->turned)
        return read_konst(l, stored->konst, from, count, out);
    SL_TRY(turn_konst(l, stored->konst));
    memcpy(out, l->turned + from, sizeof *out * (size_t)count);
    return SL_OK;
}

static void close_stored(void *ctx) {
    sl_onnx_imported_close(&(struct sl_onnx_imported){.lower = ctx});
}

void sl_onnx_attach(struct sl_onnx_imported *imported, struct sl_graph *graph) {
    if (imported->graph != graph)
        sl_graph_close(imported->graph);
    graph->stored = (struct sl_stored_values){
        .ctx = imported->lower, .read = read_stored, .close = close_stored};
    *imported = (struct sl_onnx_imported){0};
}

static sl_err write_out(void *ctx, const void *bytes, size_t length) {
    return sl_outfile_write(ctx, bytes, length);
}

static sl_err add_entries(struct sl_st_writer *writer, const struct sl_graph *graph) {
    for (int kind = 0; kind < 2; kind++) {
        int64_t count = kind ? graph->states.count : graph->params.count;
        const struct sl_param *list = kind ? graph->states.at : graph->params.at;
        for (int64_t i = 0; i < count; i++) {
            const struct sl_shape *shape = &sl_graph_value(graph, list[i].value)->shape;
            struct sl_st_tensor tensor = {
                .name = list[i].name, .dtype = SL_ST_F32, .rank = shape->rank};
            memcpy(tensor.dim, shape->dim, sizeof shape->dim);
            if (list[i].init.kind == SL_INIT_STORED)
                SL_TRY(sl_st_writer_add(writer, &tensor));
        }
    }
    return SL_OK;
}

static sl_err put_entries(struct sl_st_writer *writer, struct sl_onnx_lower *l) {
    enum { PIECE = 1 << 16 };
    float *buffer = sl_realloc(NULL, sizeof *buffer * PIECE);
    const struct sl_st_entry *entry;
    sl_err err = SL_OK;
    while (err == SL_OK && (entry = sl_st_writer_next(writer)) != NULL) {
        int64_t count = entry->tensor.size_bytes / 4;
        const char *name = entry->tensor.name;
        for (int64_t from = 0, n; err == SL_OK && from < count; from += n) {
            n = count - from < PIECE ? count - from : PIECE;
            err = read_stored(l, name, from, n, buffer);
            if (err == SL_OK)
                err = sl_st_writer_put(writer, buffer, n * 4);
        }
    }
    free(buffer);
    return err;
}

sl_err sl_onnx_write_weights(const struct sl_onnx_imported *imported, const char *path) {
    struct sl_outfile file;
    struct sl_st_writer writer;
    SL_TRY(sl_outfile_open(&file, path));
    sl_st_writer_open(&writer, (struct sl_st_sink){&file, write_out});
    sl_err err = add_entries(&writer, imported->graph);
    if (err == SL_OK)
        err = sl_st_writer_start(&writer, NULL);
    if (err == SL_OK)
        err = put_entries(&writer, imported->lower);
    sl_st_writer_close(&writer);
    return sl_outfile_close(&file, err);
}
