/* Decodes protobuf into the structs of proto.h. Memory is proportional to the file: protobuf-c
 * holds one copy of the data of tensors, and the structs point into it. */
#define _GNU_SOURCE
#include "proto/proto.h"

#include "proto/onnx.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *sl_proto_missing(void) { return NULL; }

static const char *text_of(const char *text) { return text ? text : ""; }

static struct sl_str str_of(const ProtobufCBinaryData *data) {
    return (struct sl_str){data->data ? (const char *)data->data : "", data->len};
}

/* Returns the path of external data: relative to the file, and inside its directory. */
static sl_err external_path(struct sl_proto_file *file, const char *name, const char *location,
                            const char **out) {
    const char *slash = strrchr(file->path, '/');
    bool leaves = *location == '/' || !*location;
    for (const char *at = location; *at; at++)
        if (strncmp(at, "..", 2) == 0 && (at == location || at[-1] == '/') &&
            (at[2] == '/' || !at[2]))
            leaves = true;
    if (leaves)
        return sl_fail(SL_ERR_INPUT,
                       "%s: tensor '%s': external data '%s' is not a path below the file's "
                       "directory; such files are not followed",
                       file->path, name, location);
    *out = slash ? sl_arena_printf(&file->arena, "%.*s/%s", (int)(slash - file->path), file->path,
                                   location)
                 : location;
    return SL_OK;
}

static sl_err set_external(struct sl_proto_file *file, const SlOnnxPb__Tensor *from,
                           struct sl_proto_tensor *to) {
    for (size_t i = 0; i < from->n_external_data; i++) {
        const char *key = text_of(from->external_data[i]->key);
        const char *value = text_of(from->external_data[i]->value);
        if (strcmp(key, "location") == 0)
            SL_TRY(external_path(file, to->name, value, &to->file));
        if (strcmp(key, "offset") == 0)
            SL_TRY(sl_parse_int(value, "the offset of external data", &to->offset));
        if (strcmp(key, "offset") == 0 && to->offset < 0)
            return sl_fail(SL_ERR_INPUT, "%s: tensor '%s' has a negative offset", file->path,
                           to->name);
    }
    if (!to->file)
        return sl_fail(SL_ERR_INPUT, "%s: tensor '%s' has external data without a location",
                       file->path, to->name);
    return SL_OK;
}

struct field { /* one of the typed lists of a tensor */
    const void *at;
    size_t count;
    int type;
};

/* Returns the list that holds elements of this type, by the format's table. */
static struct field field_of(const SlOnnxPb__Tensor *t, int type) {
    switch (type) {
    case SL_ONNX_FLOAT: return (struct field){t->float_data, t->n_float_data, SL_ONNX_FLOAT};
    case SL_ONNX_DOUBLE: return (struct field){t->double_data, t->n_double_data, SL_ONNX_DOUBLE};
    case SL_ONNX_INT64: return (struct field){t->int64_data, t->n_int64_data, SL_ONNX_INT64};
    case SL_ONNX_UINT32:
    case SL_ONNX_UINT64: return (struct field){t->uint64_data, t->n_uint64_data, SL_ONNX_UINT64};
    default: return (struct field){t->int32_data, t->n_int32_data, SL_ONNX_INT32};
    }
}

static sl_err set_data(struct sl_proto_file *file, const SlOnnxPb__Tensor *from,
                       struct sl_proto_tensor *to) {
    int64_t bytes = sl_proto_type_bytes(to->type);
    struct field field = field_of(from, to->type);
    if (!bytes || from->data_location > 1)
        return SL_OK; /* refused when the tensor is used */
    if (from->data_location == 1)
        return set_external(file, from, to);
    if (from->has_raw_data) {
        if (to->count != (int64_t)from->raw_data.len / bytes || (int64_t)from->raw_data.len % bytes)
            return sl_fail(
                SL_ERR_INPUT, "%s: tensor '%s' has %zu bytes of data, its shape needs %lld of %lld",
                file->path, to->name, from->raw_data.len, (long long)to->count, (long long)bytes);
        to->raw = from->raw_data.data;
        return SL_OK;
    }
    if ((int64_t)field.count != to->count)
        return sl_fail(SL_ERR_INPUT, "%s: tensor '%s' has %zu elements, its shape has %lld",
                       file->path, to->name, field.count, (long long)to->count);
    to->typed = field.at;
    to->typed_type = field.type;
    return SL_OK;
}

static sl_err convert_tensor(struct sl_proto_file *file, const SlOnnxPb__Tensor *from,
                             struct sl_proto_tensor *to) {
    to->name = text_of(from->name);
    to->type = from->data_type;
    to->count = 1;
    if (from->n_dims > SL_ONNX_RANK)
        return sl_fail(SL_ERR_REFUSED, "%s: tensor '%s' has %zu axes, the limit is %d", file->path,
                       to->name, from->n_dims, SL_ONNX_RANK);
    to->rank = (int)from->n_dims;
    for (int i = 0; i < to->rank; i++) {
        to->dim[i] = from->dims[i];
        if (to->dim[i] < 0 || (to->dim[i] && to->count > ((int64_t)1 << 48) / to->dim[i]))
            return sl_fail(SL_ERR_INPUT, "%s: tensor '%s' has size %lld on axis %d", file->path,
                           to->name, (long long)to->dim[i], i);
        to->count *= to->dim[i];
    }
    return set_data(file, from, to);
}

static void convert_info(const SlOnnxPb__ValueInfo *from, struct sl_proto_info *to) {
    const SlOnnxPb__TensorType *type = from->type ? from->type->tensor_type : NULL;
    to->name = text_of(from->name);
    to->type = type ? type->elem_type : SL_ONNX_NONE;
    to->rank =
        type && type->shape && type->shape->n_dim <= SL_ONNX_RANK ? (int)type->shape->n_dim : -1;
    for (int i = 0; i < to->rank; i++) {
        const SlOnnxPb__Dimension *dim = type->shape->dim[i];
        to->dim[i].n = dim->has_dim_value ? dim->dim_value : -1;
        to->dim[i].param = dim->has_dim_value ? NULL : dim->dim_param;
    }
}

static sl_err parse_graph(struct sl_proto_file *file, struct sl_str bytes, int depth,
                          const struct sl_proto_graph **out);

static sl_err convert_attr(struct sl_proto_file *file, const SlOnnxPb__Attribute *from, int depth,
                           struct sl_proto_attr *to) {
    to->name = text_of(from->name);
    to->f = from->f;
    to->i = from->i;
    to->s = str_of(&from->s);
    to->floats = from->floats;
    to->ints = from->ints;
    to->float_count = from->n_floats < INT_MAX ? (int)from->n_floats : INT_MAX;
    to->int_count = from->n_ints < INT_MAX ? (int)from->n_ints : INT_MAX;
    to->string_count = from->n_strings < INT_MAX ? (int)from->n_strings : INT_MAX;
    struct sl_str *strings = SL_NEW(&file->arena, struct sl_str, to->string_count);
    for (int i = 0; i < to->string_count; i++)
        strings[i] = str_of(&from->strings[i]);
    to->strings = strings;
    if (from->t) {
        struct sl_proto_tensor *tensor = SL_NEW(&file->arena, struct sl_proto_tensor, 1);
        SL_TRY(convert_tensor(file, from->t, tensor));
        to->t = tensor;
    }
    return from->has_g ? parse_graph(file, str_of(&from->g), depth + 1, &to->g) : SL_OK;
}

static sl_err convert_node(struct sl_proto_file *file, const SlOnnxPb__Node *from, int depth,
                           struct sl_proto_node *to) {
    to->name = text_of(from->name);
    to->op = text_of(from->op_type);
    to->domain = text_of(from->domain);
    to->call = "";
    for (size_t i = 0; i < from->n_metadata_props; i++)
        if (strcmp(text_of(from->metadata_props[i]->key), "pkg.torch.onnx.fx_node") == 0)
            to->call = text_of(from->metadata_props[i]->value);
    if (strcmp(to->domain, "ai.onnx") == 0)
        to->domain = "";
    if (from->n_input > INT_MAX || from->n_output > INT_MAX || from->n_attribute > INT_MAX)
        return sl_fail(SL_ERR_INPUT, "%s: node '%s' is too large", file->path, to->name);
    to->in_count = (int)from->n_input;
    to->out_count = (int)from->n_output;
    to->attr_count = (int)from->n_attribute;
    to->in = (const char *const *)from->input;
    to->out = (const char *const *)from->output;
    struct sl_proto_attr *attrs = SL_NEW(&file->arena, struct sl_proto_attr, to->attr_count);
    to->attrs = attrs;
    for (int i = 0; i < to->attr_count; i++)
        SL_TRY(convert_attr(file, from->attribute[i], depth, &attrs[i]));
    return SL_OK;
}

/* Converts notes about values that torch computed before it wrote the file, with the names that it
 * read. */
static void convert_folded(struct sl_proto_file *file, const SlOnnxPb__Graph *from,
                           struct sl_proto_graph *to) {
    struct sl_proto_note *folded = SL_NEW(&file->arena, struct sl_proto_note, from->n_value_info);
    to->folded = folded;
    for (size_t i = 0; i < from->n_value_info; i++) {
        const SlOnnxPb__ValueNote *value = from->value_info[i];
        const char *names = NULL;
        for (size_t k = 0; k < value->n_metadata_props; k++)
            if (strcmp(text_of(value->metadata_props[k]->key),
                       "pkg.onnxscript.optimizer.folded_from") == 0)
                names = text_of(value->metadata_props[k]->value);
        if (names)
            folded[to->folded_count++] = (struct sl_proto_note){text_of(value->name), names};
    }
}

static sl_err convert_graph(struct sl_proto_file *file, const SlOnnxPb__Graph *from, int depth,
                            struct sl_proto_graph **out) {
    struct sl_proto_graph *to = SL_NEW(&file->arena, struct sl_proto_graph, 1);
    struct sl_proto_node *nodes = SL_NEW(&file->arena, struct sl_proto_node, from->n_node);
    struct sl_proto_tensor *tensors =
        SL_NEW(&file->arena, struct sl_proto_tensor, from->n_initializer);
    struct sl_proto_info *infos =
        SL_NEW(&file->arena, struct sl_proto_info, from->n_input + from->n_output);
    struct sl_proto_note *notes =
        SL_NEW(&file->arena, struct sl_proto_note, from->n_metadata_props);
    to->name = text_of(from->name);
    to->node_count = (int64_t)from->n_node;
    to->tensor_count = (int64_t)from->n_initializer;
    to->in_count = (int64_t)from->n_input;
    to->out_count = (int64_t)from->n_output;
    to->note_count = (int64_t)from->n_metadata_props;
    to->nodes = nodes;
    to->tensors = tensors;
    to->in = infos;
    to->out = infos + to->in_count;
    to->notes = notes;
    *out = to;
    convert_folded(file, from, to);
    for (int64_t i = 0; i < to->in_count; i++)
        convert_info(from->input[i], &infos[i]);
    for (int64_t i = 0; i < to->out_count; i++)
        convert_info(from->output[i], &infos[to->in_count + i]);
    for (int64_t i = 0; i < to->note_count; i++)
        notes[i] = (struct sl_proto_note){text_of(from->metadata_props[i]->key),
                                          text_of(from->metadata_props[i]->value)};
    for (int64_t i = 0; i < to->tensor_count; i++)
        SL_TRY(convert_tensor(file, from->initializer[i], &tensors[i]));
    for (int64_t i = 0; i < to->node_count; i++)
        SL_TRY(convert_node(file, from->node[i], depth, &nodes[i]));
    return SL_OK;
}

static sl_err not_onnx(const struct sl_proto_file *file) {
    return sl_fail(SL_ERR_INPUT, "%s: not an ONNX file, or cut short: protobuf cannot read it",
                   file->path);
}

static sl_err parse_graph(struct sl_proto_file *file, struct sl_str bytes, int depth,
                          const struct sl_proto_graph **out) {
    struct sl_proto_graph *graph = NULL;
    if (depth > SL_ONNX_DEPTH)
        return sl_fail(SL_ERR_REFUSED, "%s: graphs inside graphs, deeper than %d", file->path,
                       SL_ONNX_DEPTH);
    SlOnnxPb__Graph *message =
        sl_onnx_pb__graph__unpack(NULL, bytes.length, (const uint8_t *)bytes.at);
    if (!message)
        return not_onnx(file);
    SL_PUSH(&file->messages, message);
    SL_TRY(convert_graph(file, message, depth, &graph));
    *out = graph;
    return SL_OK;
}

static struct sl_proto_file *new_file(const char *path) {
    struct sl_proto_file *file = sl_realloc(NULL, sizeof *file);
    *file = (struct sl_proto_file){.open_fd = -1};
    file->path = sl_arena_dup(&file->arena, path, strlen(path));
    return file;
}

static sl_err fill(struct sl_proto_file *file, const void *bytes, size_t length) {
    SlOnnxPb__Model *model = sl_onnx_pb__model__unpack(NULL, length, bytes);
    file->message = model;
    if (!model)
        return not_onnx(file);
    file->producer = sl_arena_printf(&file->arena, "%s %s", text_of(model->producer_name),
                                     text_of(model->producer_version));
    file->ir_version = model->ir_version;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = text_of(model->opset_import[i]->domain);
        if (!*domain || strcmp(domain, "ai.onnx") == 0)
            file->opset = model->opset_import[i]->version;
    }
    if (!model->graph)
        return sl_fail(SL_ERR_INPUT, "%s: not an ONNX model: it has no graph", file->path);
    SL_TRY(convert_graph(file, model->graph, 0, &file->graph));
    return sl_proto_check(file);
}

sl_err sl_proto_parse(const char *path, const void *bytes, size_t length,
                      struct sl_proto_file **out) {
    struct sl_proto_file *file = new_file(path);
    sl_err err = fill(file, bytes, length);
    *out = err == SL_OK ? file : NULL;
    if (err != SL_OK)
        sl_proto_close(file);
    return err;
}

sl_err sl_proto_parse_tensor(const char *path, const void *bytes, size_t length,
                             struct sl_proto_file **out, const struct sl_proto_tensor **tensor) {
    struct sl_proto_file *file = new_file(path);
    struct sl_proto_tensor *to = SL_NEW(&file->arena, struct sl_proto_tensor, 1);
    SlOnnxPb__Tensor *message = sl_onnx_pb__tensor__unpack(NULL, length, bytes);
    sl_err err = message ? convert_tensor(file, message, to) : not_onnx(file);
    *out = file;
    *tensor = to;
    file->graph = NULL;
    if (message)
        SL_PUSH(&file->messages, message);
    if (err != SL_OK) {
        sl_proto_close(file);
        *out = NULL;
    }
    return err;
}

sl_err sl_proto_open(const char *path, struct sl_proto_file **out) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *out = NULL;
    if (fd < 0)
        return sl_fail(sl_file_absence(errno), "%s: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
        close(fd);
        return sl_fail(SL_ERR_INPUT, "%s: not an ONNX file: empty or not a plain file", path);
    }
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return sl_fail(SL_ERR_SYSTEM, "%s: cannot be mapped: %s", path, strerror(errno));
    sl_err err = sl_proto_parse(path, bytes, (size_t)info.st_size, out);
    munmap(bytes, (size_t)info.st_size);
    return err;
}

void sl_proto_close(struct sl_proto_file *file) {
    if (!file)
        return;
    for (int64_t i = 0; i < file->messages.count; i++)
        protobuf_c_message_free_unpacked(file->messages.at[i], NULL);
    if (file->message)
        sl_onnx_pb__model__free_unpacked(file->message, NULL);
    if (file->open_fd >= 0)
        close(file->open_fd);
    SL_VEC_FREE(&file->messages);
    sl_arena_free(&file->arena);
    free(file);
}
