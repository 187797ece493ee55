/* Writes the weights of an exported folder: safetensors files of limited size, and their index. */
#include "base/half.h"
#include "base/json.h"
#include "base/outfile.h"
#include "hf/export.h"

#include <string.h>

enum { PIECE = 65536, SHARDS = 99999 }; /* elements; files */

struct plan { /* which file has which tensor */
    int64_t *shard_of, *bytes_of;
    int64_t files, total_bytes;
};

static const struct sl_param *tensor_at(const struct sl_graph *graph, int64_t i) {
    int64_t params = graph->params.count;
    return i < params ? &graph->params.at[i] : &graph->states.at[i - params];
}

static int64_t tensor_count(const struct sl_graph *graph) {
    return graph->params.count + graph->states.count;
}

static int64_t numel_at(const struct sl_graph *graph, int64_t i) {
    return sl_graph_shape_numel(&sl_graph_value(graph, tensor_at(graph, i)->value)->shape, 1);
}

/* Divides the tensors into files, in their order. */
static sl_err divide(const struct sl_hf_export *what, struct sl_arena *arena, struct plan *plan) {
    int64_t count = tensor_count(what->graph), used = 0;
    *plan = (struct plan){.shard_of = SL_NEW(arena, int64_t, count + 1),
                          .bytes_of = SL_NEW(arena, int64_t, count + 1)};
    for (int64_t i = 0; i < count; i++) {
        int64_t bytes = numel_at(what->graph, i) * sl_st_dtype_bytes(what->dtype);
        if (plan->files == 0 || (used > 0 && used > what->shard_bytes - bytes)) {
            plan->files++;
            used = 0;
        }
        used += bytes;
        plan->total_bytes += bytes;
        plan->shard_of[i] = plan->files - 1;
        plan->bytes_of[i] = bytes;
    }
    if (plan->files > SHARDS)
        return sl_fail(SL_ERR_USAGE, "files of %lld bytes would be more than %d files",
                       (long long)what->shard_bytes, SHARDS);
    return SL_OK;
}

static const char *file_name(struct sl_arena *arena, const struct plan *plan, int64_t shard) {
    if (plan->files <= 1)
        return "model.safetensors";
    return sl_arena_printf(arena, "model-%05lld-of-%05lld.safetensors", (long long)shard + 1,
                           (long long)plan->files);
}

/* ---- one file ---- */

static sl_err write_output(void *ctx, const void *bytes, size_t length) {
    return sl_outfile_write(ctx, bytes, length);
}

static sl_err put_values(struct sl_st_writer *writer, enum sl_st_dtype dtype, const float *values,
                         int64_t count) {
    uint16_t halves[PIECE];
    if (dtype == SL_ST_F32)
        return sl_st_writer_put(writer, values, count * 4);
    for (int64_t i = 0; i < count; i++)
        halves[i] = dtype == SL_ST_BF16 ? sl_bf16_of(values[i]) : sl_fp16_of(values[i]);
    return sl_st_writer_put(writer, halves, count * 2);
}

static sl_err put_tensor(const struct sl_hf_export *what, int64_t index,
                         struct sl_st_writer *writer) {
    const struct sl_stored_values *stored = &what->graph->stored;
    const char *name = tensor_at(what->graph, index)->name;
    int64_t numel = numel_at(what->graph, index);
    float values[PIECE];
    for (int64_t at = 0; at < numel; at += PIECE) {
        int64_t count = numel - at < PIECE ? numel - at : PIECE;
        SL_TRY(stored->read(stored->ctx, name, at, count, values));
        SL_TRY(put_values(writer, what->dtype, values, count));
    }
    return SL_OK;
}

static sl_err write_tensors(const struct sl_hf_export *what, const struct plan *plan, int64_t shard,
                            struct sl_outfile *output) {
    struct sl_st_writer writer;
    const struct sl_st_entry *entry;
    struct sl_arena arena = {0};
    int64_t count = tensor_count(what->graph), *index = SL_NEW(&arena, int64_t, count + 1), n = 0;
    sl_err err = SL_OK;
    sl_st_writer_open(&writer, (struct sl_st_sink){output, write_output});
    sl_st_writer_note(&writer, "format", "pt");
    for (int64_t i = 0; i < count; i++) {
        const struct sl_param *param = tensor_at(what->graph, i);
        const struct sl_shape *shape = &sl_graph_value(what->graph, param->value)->shape;
        struct sl_st_tensor tensor = {.name = param->name, .dtype = what->dtype};
        if (plan->shard_of[i] != shard)
            continue;
        tensor.rank = shape->rank;
        for (int k = 0; k < shape->rank; k++)
            tensor.dim[k] = shape->dim[k];
        index[n++] = i;
        SL_TRY_OUT(sl_st_writer_add(&writer, &tensor));
    }
    SL_TRY_OUT(sl_st_writer_start(&writer, NULL));
    while ((entry = sl_st_writer_next(&writer)) != NULL)
        SL_TRY_OUT(put_tensor(what, index[entry->number], &writer));
out:
    sl_st_writer_close(&writer);
    sl_arena_free(&arena);
    return err;
}

/* ---- all files ---- */

static sl_err write_index(const struct sl_hf_export *what, const struct plan *plan,
                          struct sl_arena *arena) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_key(&json, "metadata");
    sl_json_open(&json, '{');
    sl_json_put_int(&json, "total_size", plan->total_bytes);
    sl_json_close(&json, '}');
    sl_json_key(&json, "weight_map");
    sl_json_open(&json, '{');
    for (int64_t i = 0; i < tensor_count(what->graph); i++)
        sl_json_put_string(&json, tensor_at(what->graph, i)->name,
                           file_name(arena, plan, plan->shard_of[i]));
    sl_json_close(&json, '}');
    sl_json_close(&json, '}');
    sl_text_put(&text, "\n");
    sl_err err = sl_file_write(sl_arena_printf(arena, "%s/model.safetensors.index.json", what->to),
                               text.at, text.length);
    sl_text_free(&text);
    return err;
}

static sl_err write_files(const struct sl_hf_export *what, const struct plan *plan,
                          struct sl_arena *arena, struct sl_text *names) {
    for (int64_t s = 0; s < plan->files; s++) {
        const char *name = file_name(arena, plan, s);
        struct sl_outfile output;
        SL_TRY(sl_outfile_open(&output, sl_arena_printf(arena, "%s/%s", what->to, name)));
        SL_TRY(sl_outfile_close(&output, write_tensors(what, plan, s, &output)));
        sl_text_printf(names, "%s\n", name);
    }
    if (plan->files <= 1)
        return SL_OK;
    SL_TRY(write_index(what, plan, arena));
    sl_text_put(names, "model.safetensors.index.json\n");
    return SL_OK;
}

sl_err sl_hf_shards_write(const struct sl_hf_export *what, struct sl_hf_shards *out) {
    struct sl_arena arena = {0};
    struct plan plan;
    sl_err err = divide(what, &arena, &plan);
    *out = (struct sl_hf_shards){.tensors = tensor_count(what->graph)};
    if (err == SL_OK)
        err = write_files(what, &plan, &arena, &out->names);
    out->files = plan.files;
    out->bytes = plan.total_bytes;
    sl_arena_free(&arena);
    return err;
}
