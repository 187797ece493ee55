/* Opens a data set: chooses the kind, opens the files, binds the inputs, splits off validation.
 *
 *   source   [next:|masked:] [packed:] [KIND:] [NAME=]PATH[:WEIGHT][,...]   or   synthetic
 */
#include "data/data.h"
#include "data/mix.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEAD_BYTES = 1024 };

/* Upper bound of the elements of a sample. */
static const int64_t numel_max = (int64_t)1 << 40;

struct opening {
    struct sl_data *data;
    const char *paths; /* the source without its prefixes */
};

static const struct sl_data_kind *find_kind(struct sl_str name) {
    for (int i = 0; sl_data_kinds[i]; i++)
        if (sl_str_is(name, sl_data_kinds[i]->name))
            return sl_data_kinds[i];
    return NULL;
}

bool sl_data_is_provided(const char *source) {
    const struct sl_data_kind *kind = find_kind(sl_str(source));
    return kind && kind->provided;
}

static const char *kind_name(const void *ctx, int i) {
    (void)ctx;
    return sl_data_kinds[i]->name;
}

static sl_err unknown_kind(struct sl_str name) {
    struct sl_text names = {0};
    int count = 0;
    for (; sl_data_kinds[count]; count++)
        sl_text_printf(&names, "%s%s", count ? ", " : "", sl_data_kinds[count]->name);
    char *wanted = sl_realloc(NULL, name.length + 1);
    memcpy(wanted, name.at, name.length);
    wanted[name.length] = 0;
    const char *near = sl_nearest(wanted, count, kind_name, NULL);
    sl_err err =
        sl_fail(SL_ERR_INPUT, "'%s' is neither a file nor a kind of data (%s)%s%s%s", wanted,
                names.at, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    free(wanted);
    sl_text_free(&names);
    return err;
}

/* Parses a prefix "word:"; false if there is none. A path may contain a colon, so a prefix has at
 * least two letters or digits. */
static bool take_prefix(const char **source, struct sl_str *word) {
    size_t n = strspn(*source, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (n < 2 || (*source)[n] != ':')
        return false;
    *word = (struct sl_str){*source, n};
    return true;
}

static bool is_path(struct sl_str word) {
    char path[256];
    if (word.length >= sizeof path)
        return false;
    memcpy(path, word.at, word.length);
    path[word.length] = 0;
    return sl_file_exists(path);
}

static sl_err read_source(struct opening *o, const struct sl_data_spec *spec) {
    struct sl_str word;
    const char *source = spec->source;
    if (!source || !*source)
        return sl_fail(SL_ERR_USAGE, "no data given; try a path, KIND:PATH or synthetic");
    while (take_prefix(&source, &word) && !sl_file_exists(source)) {
        const struct sl_data_kind *kind = find_kind(word);
        if (sl_str_is(word, "next") || sl_str_is(word, "masked"))
            o->data->objective = word.at[0] == 'n' ? SL_DATA_NEXT : SL_DATA_MASKED;
        else if (sl_str_is(word, "packed"))
            o->data->packed = true;
        else if (kind && !o->data->kind)
            o->data->kind = kind;
        else if (is_path(word))
            break; /* PATH:WEIGHT */
        else
            return unknown_kind(word);
        source += word.length + 1;
    }
    const struct sl_data_kind *bare = find_kind(sl_str(source));
    /* a kind that needs no files is a whole source */
    if (bare && !bare->files_max && !o->data->kind) {
        o->data->kind = bare;
        source += strlen(source);
    }
    o->paths = source;
    return SL_OK;
}

static bool has_suffix(const char *path, const char *suffixes) {
    size_t length = strlen(path);
    while (*suffixes == '.') {
        size_t n = 1 + strcspn(suffixes + 1, ".");
        if (length > n && strncmp(path + length - n, suffixes, n) == 0)
            return true;
        suffixes += n;
    }
    return false;
}

static bool looks_like_text(const unsigned char *head, int64_t length) {
    for (int64_t i = 0; i < length; i++)
        if (head[i] < 9 || (head[i] > 13 && head[i] < 32) || head[i] == 127)
            return false;
    return length > 0;
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Guess the kind by the start of the file, then by its suffix, then by whether it is text. */
static sl_err guess_kind(const char *path, const struct sl_data_kind **out) {
    unsigned char head[HEAD_BYTES];
    struct sl_blob blob;
    struct sl_text other = {0};
    char *name = NULL;
    if (is_folder(path)) {
        *out = find_kind(SL_STR("images"));
        return SL_OK;
    }
    SL_TRY(sl_data_blob_open(&blob, path));
    int64_t length = sl_data_blob_head(&blob, head, HEAD_BYTES);
    bool empty = blob.size_bytes == 0;
    sl_data_blob_close(&blob);
    *out = NULL;
    if (empty)
        return sl_fail(SL_ERR_INPUT, "%s: is empty", path);
    for (int i = 0; sl_data_kinds[i] && !*out; i++)
        if (sl_data_kinds[i]->sniff && sl_data_kinds[i]->sniff(head, length))
            *out = sl_data_kinds[i];
    size_t stem = strlen(path) - (has_suffix(path, ".gz") ? 3 : 0);
    sl_text_put_bytes(&other, path, stem);
    name = other.at;
    for (int i = 0; sl_data_kinds[i] && !*out; i++)
        if (has_suffix(name, sl_data_kinds[i]->suffixes))
            *out = sl_data_kinds[i];
    if (*out == find_kind(SL_STR("u16")) && stem > 4) { /* X.bin that has an X.idx */
        memcpy(other.at + stem - 4, ".idx", 4);
        if (sl_file_exists(other.at))
            *out = find_kind(SL_STR("megatron"));
    }
    sl_text_free(&other);
    if (!*out && looks_like_text(head, length))
        *out = find_kind(SL_STR("text"));
    if (!*out)
        return sl_fail(SL_ERR_INPUT,
                       "%s: cannot tell what kind of data this is; say KIND:%s (csv, "
                       "f32, idx, images, jsonl, llmc, megatron, npy, text, u16, u32)",
                       path, path);
    return SL_OK;
}

void sl_data_add_file(struct sl_data *data, const char *path) {
    for (int i = 0; i < data->blob_count; i++)
        if (strcmp(data->blob[i].name, path) == 0)
            return;
    if (data->blob_count < SL_DATA_FILES)
        data->blob[data->blob_count++] =
            (struct sl_blob){.name = sl_arena_dup(&data->arena, path, strlen(path)), .fd = -1};
}

/* Splits "NAME=PATH" into the path and *label = NAME. If a file has the whole text as its name,
 * there is no label. */
static const char *take_label(struct sl_data *data, const char *item, const char **label) {
    size_t n = strspn(item, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    *label = NULL;
    if (!n || item[n] != '=' || sl_file_exists(item))
        return item;
    *label = sl_arena_dup(&data->arena, item, n);
    return item + n + 1;
}

/* Adds one item of the list of files. */
static sl_err add_item(struct sl_data *data, const char *item) {
    const char *label, *path = take_label(data, item, &label);
    if (!data->kind)
        SL_TRY(guess_kind(path, &data->kind));
    if (label && !data->kind->named)
        return sl_fail(SL_ERR_INPUT, "%s: files of a set of kind %s have no NAME=", item,
                       data->kind->name);
    int first = data->blob_count;
    if (data->kind->expand)
        data->kind->expand(data, path);
    else
        sl_data_add_file(data, path);
    if (label && data->blob_count == first)
        return sl_fail(SL_ERR_INPUT, "%s: the file is already in the list", item);
    if (label)
        data->label[first] = label;
    return SL_OK;
}

/* "PATH:0.7" -> PATH and 0.7. A file that has the whole name has no weight. */
static bool take_weight(struct sl_data *data, const char *item, struct sl_data_weighted *out) {
    const char *colon = strrchr(item, ':');
    char *end;
    *out = (struct sl_data_weighted){.source = item};
    if (!colon || colon == item || !colon[1] ||
        strspn(colon + 1, "0123456789.eE+-") != strlen(colon + 1) || sl_file_exists(item))
        return false;
    out->weight = strtod(colon + 1, &end);
    out->source = sl_arena_dup(&data->arena, item, (size_t)(colon - item));
    return !*end;
}

/* Items with weights make a mix; all must have one. */
static sl_err find_weights(struct opening *o, const struct sl_data_spec *spec) {
    struct sl_data *data = o->data;
    int count = 0, weighted = 0;
    for (const char *at = o->paths; *at; at++)
        count += *at == ',';
    data->mix = SL_NEW(&data->arena, struct sl_data_weighted, count + 1);
    count = 0;
    for (const char *at = o->paths; *at;) {
        size_t length = strcspn(at, ",");
        const char *item = sl_arena_dup(&data->arena, at, length);
        at += length + (at[length] == ',');
        if (length)
            weighted += take_weight(data, item, &data->mix[count++]);
    }
    if (!weighted)
        return SL_OK;
    for (int i = 0; i < count; i++)
        if (!(data->mix[i].weight > 0) || data->mix[i].weight > 1e9)
            return sl_fail(SL_ERR_INPUT, "%s: needs a weight above 0, as the other files: FILE:0.5",
                           data->mix[i].source);
    if (count > SL_DATA_FILES)
        return sl_fail(SL_ERR_INPUT, "%d files; at most %d have weights", count, SL_DATA_FILES);
    data->mix_count = count;
    data->mix_prefix = (struct sl_str){spec->source, (size_t)(o->paths - spec->source)};
    data->kind = &sl_data_mix;
    o->paths += strlen(o->paths);
    return SL_OK;
}

static sl_err open_files(struct opening *o) {
    struct sl_data *data = o->data;
    const char *at = o->paths;
    if (!*at && data->kind && !data->kind->files_max)
        return SL_OK;
    if (!*at)
        return sl_fail(SL_ERR_INPUT, "%s: no file given", data->kind ? data->kind->name : "data");
    data->blob = SL_NEW(&data->arena, struct sl_blob, SL_DATA_FILES);
    data->label = SL_NEW(&data->arena, const char *, SL_DATA_FILES);
    while (*at) {
        size_t length = strcspn(at, ",");
        const char *path = sl_arena_dup(&data->arena, at, length);
        at += length + (at[length] == ',');
        if (!length)
            continue;
        SL_TRY(add_item(data, path));
    }
    if (!data->blob_count || data->blob_count > data->kind->files_max)
        return sl_fail(SL_ERR_INPUT, "%d files; a set of kind %s has from 1 to %d",
                       data->blob_count, data->kind->name, data->kind->files_max);
    for (int i = 0; i < data->blob_count && !data->kind->folder; i++)
        SL_TRY(sl_data_blob_open(&data->blob[i], data->blob[i].name));
    return SL_OK;
}

static sl_err bind_inputs(struct sl_data *data, const struct sl_data_spec *spec) {
    char text[SL_DATA_INPUT_TEXT];
    data->bound_count = spec->input_count;
    data->bound = SL_NEW(&data->arena, struct sl_data_bound, spec->input_count);
    for (int i = 0; i < spec->input_count; i++) {
        struct sl_data_bound *bound = &data->bound[i];
        bound->want = spec->inputs[i];
        bound->want.name =
            sl_arena_dup(&data->arena, spec->inputs[i].name, strlen(spec->inputs[i].name));
        bound->role = sl_data_role(&bound->want);
        bound->numel = 1;
        bound->ignore = bound->want.has_ignore ? (int32_t)bound->want.ignore : SL_DATA_IGNORE;
        SL_ASSERT(bound->want.rank >= 0 && bound->want.rank <= SL_DATA_RANK);
        SL_ASSERT(bound->want.below >= 0 && bound->want.below <= INT32_MAX);
        for (int k = 0; k < bound->want.rank; k++) {
            int64_t dim = bound->want.dim[k];
            if (dim < 1 || bound->numel > numel_max / dim)
                return sl_fail(SL_ERR_INPUT, "input %s of the model: impossible shape",
                               sl_data_input_text(&bound->want, text));
            bound->numel *= dim;
        }
    }
    return SL_OK;
}

static sl_err split_samples(struct sl_data *data, const struct sl_data_spec *spec) {
    double held = spec->validation;
    if (!(held >= 0) || held > 1e18)
        return sl_fail(SL_ERR_USAGE,
                       "validation = %g: expected a fraction below 1 or a number of "
                       "samples",
                       held);
    int64_t valid = held < 1 ? (int64_t)(held * (double)data->total) : (int64_t)held;
    if (held > 0 && valid == 0)
        valid = 1;
    if (valid >= data->total && valid)
        return sl_fail(SL_ERR_INPUT,
                       "the set has %lld samples; %lld of them for validation leave "
                       "none to train on",
                       (long long)data->total, (long long)valid);
    data->samples[SL_DATA_VALID] = valid;
    data->samples[SL_DATA_TRAIN] = data->total - valid;
    bool last =
        spec->holdout == SL_DATA_HOLD_AUTO ? data->ordered : spec->holdout == SL_DATA_HOLD_LAST;
    data->drawn = valid > 0 && !last;
    return SL_OK;
}

/* Opens the kind, binds the inputs and freezes the set. */
static sl_err finish(struct sl_data *data, const struct sl_data_spec *spec) {
    SL_TRY(bind_inputs(data, spec));
    if (spec->tokenizer && !data->mix_count)
        SL_TRY(sl_tokenizer_open(spec->tokenizer, &data->tokenizer));
    if (data->packed && !data->mix_count && !data->kind->ignores)
        return sl_fail(SL_ERR_INPUT, "packed: is for JSON lines, not for a set of kind %s",
                       data->kind->name);
    data->has_categories |= spec->categories != NULL;
    if (spec->categories && !data->list_count)
        SL_TRY(sl_data_categories_open(data, spec->categories));
    data->ordered = data->kind->ordered;
    SL_TRY(data->kind->open(data, spec));
    SL_ASSERT(data->total > 0);
    SL_TRY(split_samples(data, spec));
    if (data->mix_count)
        sl_data_mix_split(data);
    return SL_OK;
}

static struct sl_data *new_data(const struct sl_data_spec *spec) {
    struct sl_data *data = sl_realloc(NULL, sizeof *data);
    memset(data, 0, sizeof *data);
    data->seed = spec->seed;
    data->in_order = spec->in_order;
    data->objective = spec->objective;
    return data;
}

sl_err sl_data_open(const struct sl_data_spec *spec, struct sl_data **out) {
    return sl_data_open_like(spec, NULL, out);
}

sl_err sl_data_open_like(const struct sl_data_spec *spec, const struct sl_data *first,
                         struct sl_data **out) {
    struct opening o = {.data = new_data(spec)};
    if (first) {
        o.data->list = first->list;
        o.data->list_count = first->list_count;
        o.data->has_categories = first->list_count > 0;
    }
    sl_err err = read_source(&o, spec);
    if (err == SL_OK)
        err = find_weights(&o, spec);
    if (err == SL_OK)
        err = open_files(&o);
    if (err == SL_OK)
        err = finish(o.data, spec);
    if (err != SL_OK)
        sl_data_close(o.data);
    else
        *out = o.data;
    return err;
}

sl_err sl_data_open_memory(const struct sl_data_spec *spec, const struct sl_data_file *files,
                           int file_count, struct sl_data **out) {
    struct opening o = {.data = new_data(spec)};
    struct sl_data *data = o.data;
    sl_err err = read_source(&o, spec);
    if (err == SL_OK && (!data->kind || data->kind->folder || file_count > data->kind->files_max))
        err = sl_fail(SL_ERR_INPUT, "'%s': expected a kind that has %d files", spec->source,
                      file_count);
    if (err == SL_OK) {
        data->blob = SL_NEW(&data->arena, struct sl_blob, file_count);
        data->blob_count = file_count;
        for (int i = 0; i < file_count; i++)
            sl_data_blob_borrow(&data->blob[i], files[i].name, files[i].bytes, files[i].size_bytes);
        err = finish(data, spec);
    }
    if (err != SL_OK)
        sl_data_close(data);
    else
        *out = data;
    return err;
}

void sl_data_close(struct sl_data *data) {
    if (!data)
        return;
    if (data->kind && data->kind->close)
        data->kind->close(data);
    for (int i = 0; i < data->blob_count; i++)
        sl_data_blob_close(&data->blob[i]);
    sl_tokenizer_close(data->tokenizer);
    sl_arena_free(&data->arena);
    free(data);
}
