/* Reads and writes the manifest of a checkpoint. */
#include "ckpt/manifest.h"

#include "base/hash.h"
#include "base/json_place.h"
#include "base/sort.h"

#include <stdio.h>
#include <string.h>

enum { VERSION = 1, TAIL = 64 };
/* Least length of the text of a tensor and of a shard. It limits the counts that a file can
 * announce. */
enum { TENSOR_TEXT = 72, SHARD_TEXT = 48 };

static const char *const group_names[SL_CKPT_GROUPS] = {"weights", "state"};

const char *sl_ckpt_shard_name(enum sl_ckpt_group group, int rank, int ranks,
                               char out[SL_CKPT_FILE_NAME]) {
    snprintf(out, SL_CKPT_FILE_NAME, "%s-%03d-of-%03d.safetensors", group_names[group], rank,
             ranks);
    return out;
}

static int by_name(const void *a, const void *b) {
    const struct sl_ckpt_tensor *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->shard > y->shard) - (x->shard < y->shard);
}

static size_t put_tail(char out[TAIL], uint64_t hash) {
    char digits[SL_HASH_TEXT];
    return (size_t)snprintf(out, TAIL, "\"hash\": \"%s\"}\n", sl_hash_text(hash, digits));
}

/* ---- writing ---- */

static void put_shards(struct sl_text *text, const struct sl_ckpt_manifest *manifest) {
    char name[SL_CKPT_FILE_NAME], digits[SL_HASH_TEXT];
    sl_text_printf(text, "\"shard_count\": %d,\n\"shards\": [", manifest->shard_count);
    for (int i = 0; i < manifest->shard_count; i++) {
        const struct sl_ckpt_shard *shard = &manifest->shards[i];
        sl_text_printf(text, "%s{\"file\": \"%s\", \"bytes\": %lld, \"header\": \"%s\"}",
                       i ? ",\n" : "\n",
                       sl_ckpt_shard_name(shard->group, shard->rank, manifest->ranks, name),
                       (long long)shard->file_bytes, sl_hash_text(shard->header_hash, digits));
    }
    sl_text_put(text, "\n],\n");
}

static void put_tensor(struct sl_text *text, const struct sl_ckpt_tensor *tensor) {
    struct sl_json_out json = {.text = text};
    char digits[SL_HASH_TEXT];
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "name", tensor->name);
    sl_json_put_string(&json, "dtype", sl_st_dtype_name((enum sl_st_dtype)tensor->dtype));
    sl_json_key(&json, "shape");
    sl_json_open(&json, '[');
    for (int i = 0; i < tensor->rank; i++)
        sl_json_int(&json, tensor->dim[i]);
    sl_json_close(&json, ']');
    sl_json_put_int(&json, "shard", tensor->shard);
    sl_json_put_string(&json, "hash", sl_hash_text(tensor->hash, digits));
    sl_json_close(&json, '}');
}

void sl_ckpt_manifest_put(struct sl_text *text, struct sl_ckpt_manifest *manifest) {
    struct sl_json_out json = {.text = text};
    char digits[SL_HASH_TEXT], tail[TAIL];
    SL_ASSERT(text->length == 0);
    sl_text_printf(text,
                   "{\"format\": \"sluice-checkpoint\", \"version\": %d,\n\"step\": %lld, "
                   "\"seed\": \"%s\", \"cursor\": %lld, \"ranks\": %d,\n\"notes\": ",
                   VERSION, (long long)manifest->step, sl_hash_text(manifest->seed, digits),
                   (long long)manifest->cursor, manifest->ranks);
    sl_json_open(&json, '{');
    for (int i = 0; i < manifest->note_count; i++)
        sl_json_put_string(&json, manifest->notes[i].key, manifest->notes[i].value);
    sl_json_close(&json, '}');
    sl_text_put(text, ",\n");
    put_shards(text, manifest);
    sl_text_printf(text, "\"tensor_count\": %lld,\n\"tensors\": [",
                   (long long)manifest->tensor_count);
    for (int64_t i = 0; i < manifest->tensor_count; i++) {
        sl_text_put(text, i ? ",\n" : "\n");
        put_tensor(text, &manifest->tensors[i]);
    }
    sl_text_put(text, "\n],\n");
    manifest->hash = sl_hash(text->at, text->length);
    sl_text_put_bytes(text, tail, put_tail(tail, manifest->hash));
}

/* ---- reading ---- */

static sl_err take_key(struct sl_json_in *json, const char *key) {
    SL_TRY(sl_json_take(json, SL_JSON_KEY));
    if (!sl_str_is(json->string, key))
        return sl_json_fail(json, "expected the key '%s'", key);
    return SL_OK;
}

static sl_err take_hash(struct sl_json_in *json, const char *key, uint64_t *out) {
    SL_TRY(take_key(json, key));
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    if (!sl_hash_parse(json->string, out))
        return sl_json_fail(json, "%s: expected 16 digits from 0 to f", key);
    return SL_OK;
}

static sl_err take_count(struct sl_json_in *json, const char *key, int64_t least_text,
                         int64_t *out) {
    SL_TRY(take_key(json, key));
    return sl_json_take_int(json, 0, (json->end - json->at) / least_text, out);
}

static sl_err take_text(struct sl_json_in *json, const char **out) {
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    *out = sl_json_in_place(json);
    return *out ? SL_OK : sl_json_fail(json, "malformed escape");
}

static sl_err read_head(struct sl_json_in *json, struct sl_ckpt_manifest *out) {
    int64_t number;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    SL_TRY(take_key(json, "format"));
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    if (!sl_str_is(json->string, "sluice-checkpoint"))
        return sl_json_fail(json, "not the manifest of a checkpoint");
    SL_TRY(take_key(json, "version"));
    SL_TRY(sl_json_take_int(json, 0, INT32_MAX, &number));
    if (number != VERSION)
        return sl_json_fail(json, "version %lld of the format; this program reads %d",
                            (long long)number, VERSION);
    SL_TRY(take_key(json, "step"));
    SL_TRY(sl_json_take_int(json, 0, SL_ST_BYTES_MAX, &out->step));
    SL_TRY(take_hash(json, "seed", &out->seed));
    SL_TRY(take_key(json, "cursor"));
    SL_TRY(sl_json_take_int(json, 0, SL_ST_BYTES_MAX, &out->cursor));
    SL_TRY(take_key(json, "ranks"));
    SL_TRY(sl_json_take_int(json, 1, SL_CKPT_WRITERS, &number));
    out->ranks = (int)number;
    return SL_OK;
}

static sl_err read_notes(struct sl_json_in *json, struct sl_arena *arena,
                         struct sl_ckpt_manifest *out) {
    out->notes = SL_NEW(arena, struct sl_st_note, SL_CKPT_NOTES);
    SL_TRY(take_key(json, "notes"));
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        struct sl_st_note *note = &out->notes[out->note_count];
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return SL_OK;
        if (out->note_count++ == SL_CKPT_NOTES)
            return sl_json_fail(json, "more than %d notes", SL_CKPT_NOTES);
        note->key = sl_json_in_place(json);
        if (!note->key)
            return sl_json_fail(json, "malformed escape");
        SL_TRY(take_text(json, &note->value));
    }
}

/* Reads the name of a shard. It must be the name that its group and rank imply, so that no other
 * path is opened. */
static sl_err read_shard_name(struct sl_json_in *json, const struct sl_ckpt_manifest *manifest,
                              struct sl_ckpt_shard *out) {
    char name[SL_CKPT_FILE_NAME];
    SL_TRY(take_key(json, "file"));
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    for (int g = 0; g < SL_CKPT_GROUPS; g++) {
        size_t prefix = strlen(group_names[g]) + 1;
        int rank = 0;
        for (size_t i = prefix; i < prefix + 3 && i < json->string.length; i++)
            rank = rank * 10 + (json->string.at[i] - '0');
        if (rank < 0 || rank >= manifest->ranks)
            continue;
        sl_ckpt_shard_name((enum sl_ckpt_group)g, rank, manifest->ranks, name);
        if (sl_str_is(json->string, name)) {
            out->group = (enum sl_ckpt_group)g;
            out->rank = rank;
            return SL_OK;
        }
    }
    return sl_json_fail(json, "'%.*s' is not the name of a shard",
                        (int)(json->string.length < 80 ? json->string.length : 80),
                        json->string.at);
}

static sl_err read_shards(struct sl_json_in *json, struct sl_arena *arena,
                          struct sl_ckpt_manifest *out) {
    int64_t count;
    SL_TRY(take_count(json, "shard_count", SHARD_TEXT, &count));
    if (count > (int64_t)out->ranks * SL_CKPT_GROUPS)
        return sl_json_fail(json, "%lld shards of %d writers", (long long)count, out->ranks);
    out->shard_count = (int)count;
    out->shards = SL_NEW(arena, struct sl_ckpt_shard, count + 1);
    SL_TRY(take_key(json, "shards"));
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    for (int i = 0; i < out->shard_count; i++) {
        struct sl_ckpt_shard *shard = &out->shards[i];
        SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
        SL_TRY(read_shard_name(json, out, shard));
        SL_TRY(take_key(json, "bytes"));
        SL_TRY(sl_json_take_int(json, 8, SL_ST_BYTES_MAX, &shard->file_bytes));
        SL_TRY(take_hash(json, "header", &shard->header_hash));
        SL_TRY(sl_json_take(json, SL_JSON_OBJECT_END));
        if (i && (int)shard[-1].group * SL_CKPT_WRITERS + shard[-1].rank >=
                     (int)shard->group * SL_CKPT_WRITERS + shard->rank)
            return sl_json_fail(json, "shards are out of order");
    }
    return sl_json_take(json, SL_JSON_ARRAY_END);
}

static sl_err read_shape(struct sl_json_in *json, struct sl_ckpt_tensor *out) {
    SL_TRY(take_key(json, "shape"));
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_ARRAY_END)
            break;
        if (json->event != SL_JSON_NUMBER || json->number < 0 ||
            json->number > (double)SL_ST_BYTES_MAX || json->number != (double)(int64_t)json->number)
            return sl_json_fail(json, "a shape holds whole numbers from 0 to 2^53");
        if (out->rank == SL_CKPT_RANK)
            return sl_json_fail(json, "more than %d axes", SL_CKPT_RANK);
        out->dim[out->rank++] = (int64_t)json->number;
    }
    if (sl_st_size_bytes((enum sl_st_dtype)out->dtype, out->rank, out->dim) < 0)
        return sl_json_fail(json, "impossible shape");
    return SL_OK;
}

static sl_err read_tensor(struct sl_json_in *json, const struct sl_ckpt_manifest *manifest,
                          struct sl_ckpt_tensor *out) {
    enum sl_st_dtype dtype;
    int64_t shard;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    SL_TRY(take_key(json, "name"));
    SL_TRY(take_text(json, &out->name));
    if (!sl_st_name_ok(out->name))
        return sl_json_fail(json, "impossible name of a tensor");
    SL_TRY(take_key(json, "dtype"));
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    if (!sl_st_dtype_parse(json->string, &dtype))
        return sl_json_fail(json, "unknown dtype");
    out->dtype = (uint8_t)dtype;
    SL_TRY(read_shape(json, out));
    SL_TRY(take_key(json, "shard"));
    SL_TRY(sl_json_take_int(json, 0, manifest->shard_count - 1, &shard));
    out->shard = (int32_t)shard;
    SL_TRY(take_hash(json, "hash", &out->hash));
    return sl_json_take(json, SL_JSON_OBJECT_END);
}

static sl_err read_tensors(struct sl_json_in *json, struct sl_arena *arena,
                           struct sl_ckpt_manifest *out) {
    SL_TRY(take_count(json, "tensor_count", TENSOR_TEXT, &out->tensor_count));
    out->tensors = SL_NEW(arena, struct sl_ckpt_tensor, out->tensor_count + 1);
    SL_TRY(take_key(json, "tensors"));
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    for (int64_t i = 0; i < out->tensor_count; i++) {
        SL_TRY(read_tensor(json, out, &out->tensors[i]));
        if (i && strcmp(out->tensors[i - 1].name, out->tensors[i].name) >= 0)
            return sl_json_fail(json, "tensor '%s' is out of order or given twice",
                                out->tensors[i].name);
    }
    return sl_json_take(json, SL_JSON_ARRAY_END);
}

sl_err sl_ckpt_manifest_read(const char *file, char *text, size_t length, struct sl_arena *arena,
                             struct sl_ckpt_manifest *out) {
    struct sl_json_in json;
    char tail[TAIL];
    uint64_t unused;
    *out = (struct sl_ckpt_manifest){0};
    size_t tail_length = put_tail(tail, 0);
    if (length <= tail_length || length > SL_CKPT_MANIFEST_MAX)
        return sl_fail(SL_ERR_INPUT, "%s: not the manifest of a checkpoint: %zu bytes", file,
                       length);
    out->hash = sl_hash(text, length - tail_length);
    put_tail(tail, out->hash);
    if (memcmp(text + length - tail_length, tail, tail_length) != 0)
        return sl_fail(SL_ERR_INPUT, "%s: damaged: its checksum does not match", file);
    sl_json_read(&json, file, text, length);
    SL_TRY(read_head(&json, out));
    SL_TRY(read_notes(&json, arena, out));
    SL_TRY(read_shards(&json, arena, out));
    SL_TRY(read_tensors(&json, arena, out));
    SL_TRY(take_hash(&json, "hash", &unused));
    SL_TRY(sl_json_take(&json, SL_JSON_OBJECT_END));
    return sl_json_take(&json, SL_JSON_END);
}

/* ---- merging ---- */

static sl_err check_parts(const struct sl_ckpt_manifest *parts, int count) {
    for (int i = 1; i < count; i++)
        if (parts[i].step != parts[0].step || parts[i].seed != parts[0].seed ||
            parts[i].cursor != parts[0].cursor || parts[i].ranks != parts[0].ranks)
            return sl_fail(SL_ERR_INPUT,
                           "checkpoint of step %lld: a writer reports step %lld, or another seed, "
                           "cursor or number of writers",
                           (long long)parts[0].step, (long long)parts[i].step);
    return SL_OK;
}

static int by_shard(const void *a, const void *b) {
    const struct sl_ckpt_shard *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int32_t place_of(const struct sl_ckpt_manifest *manifest,
                        const struct sl_ckpt_shard *wanted) {
    for (int i = 0; i < manifest->shard_count; i++)
        if (by_shard(&manifest->shards[i], wanted) == 0)
            return i;
    SL_ASSERT(false);
    return -1;
}

static void merge_tensors(const struct sl_ckpt_manifest *parts, int count,
                          struct sl_ckpt_manifest *out) {
    int64_t at = 0;
    for (int i = 0; i < count; i++)
        for (int64_t k = 0; k < parts[i].tensor_count; k++) {
            out->tensors[at] = parts[i].tensors[k];
            out->tensors[at++].shard = place_of(out, &parts[i].shards[parts[i].tensors[k].shard]);
        }
    sl_sort(out->tensors, at, sizeof *out->tensors, by_name);
}

sl_err sl_ckpt_manifest_merge(const struct sl_ckpt_manifest *parts, int count,
                              struct sl_arena *arena, struct sl_ckpt_manifest *out) {
    SL_TRY(check_parts(parts, count));
    *out = parts[0];
    out->shard_count = 0;
    out->tensor_count = 0;
    for (int i = 0; i < count; i++) {
        out->shard_count += parts[i].shard_count;
        out->tensor_count += parts[i].tensor_count;
    }
    out->shards = SL_NEW(arena, struct sl_ckpt_shard, out->shard_count + 1);
    out->tensors = SL_NEW(arena, struct sl_ckpt_tensor, out->tensor_count + 1);
    for (int i = 0, at = 0; i < count; i++)
        for (int k = 0; k < parts[i].shard_count; k++)
            out->shards[at++] = parts[i].shards[k];
    sl_sort(out->shards, out->shard_count, sizeof *out->shards, by_shard);
    for (int i = 1; i < out->shard_count; i++)
        if (by_shard(&out->shards[i - 1], &out->shards[i]) == 0)
            return sl_fail(SL_ERR_INPUT, "checkpoint of step %lld: writer %d reports twice",
                           (long long)out->step, (int)out->shards[i].rank);
    merge_tensors(parts, count, out);
    for (int64_t i = 1; i < out->tensor_count; i++)
        if (strcmp(out->tensors[i - 1].name, out->tensors[i].name) == 0)
            return sl_fail(SL_ERR_INPUT,
                           "checkpoint of step %lld: tensor '%s' was put by writers %d and %d; a "
                           "tensor has one owner",
                           (long long)out->step, out->tensors[i].name,
                           (int)out->shards[out->tensors[i - 1].shard].rank,
                           (int)out->shards[out->tensors[i].shard].rank);
    return SL_OK;
}
