/* Folders of pictures: ROOT/CLASS/X.jpg. The names of the classes, sorted, are numbered from 0; a run
 * keeps the list, and other data of the run have its numbers. */
#include "base/map.h"
#include "data/folder.h"
#include "image/sample.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 256 << 20 };

struct picture_set {
    struct sl_folder folder;
    struct sl_image_options options;
    int channels, width, height; /* of the input */
};

/* The bytes of a file; the caller frees them. */
static sl_err read_file(const char *path, unsigned char **out, int64_t *size_bytes) {
    struct sl_blob blob;
    SL_TRY(sl_data_blob_open(&blob, path));
    sl_err err = blob.size_bytes <= FILE_BYTES
                     ? sl_data_blob_load(&blob)
                     : sl_fail(SL_ERR_INPUT, "%s: a picture of more than 256 MiB", path);
    *out = blob.owned;
    *size_bytes = blob.size_bytes;
    blob.owned = NULL;
    sl_data_blob_close(&blob);
    return err;
}

static sl_err decode(const struct picture_set *set, int64_t sample, struct sl_image *out) {
    struct sl_text path = {0};
    unsigned char *bytes = NULL;
    int64_t size_bytes;
    sl_text_printf(&path, "%s/%s", set->folder.root, set->folder.picture[sample].path);
    sl_err err = read_file(path.at, &bytes, &size_bytes);
    if (err == SL_OK)
        err = sl_image_decode(path.at, bytes, size_bytes, set->channels, out);
    free(bytes);
    sl_text_free(&path);
    return err;
}

/* ---- binding ---- */

static sl_err bind_image(struct picture_set *set, const struct sl_data_spec *spec,
                         struct sl_data_bound *bound) {
    const struct sl_data_input *want = &bound->want;
    char text[SL_DATA_INPUT_TEXT];
    int channels = want->rank == 2 ? 1 : want->rank == 3 ? (int)want->dim[0] : 0;
    int64_t height = want->rank > 1 ? want->dim[want->rank - 2] : 0,
            width = want->rank > 1 ? want->dim[want->rank - 1] : 0;
    if ((channels != 1 && channels != 3) || height > 16384 || width > 16384 || set->channels)
        return sl_fail(SL_ERR_INPUT,
                       "input %s of the model: a folder of pictures fills one input [B,3,H,W] or "
                       "[B,1,H,W]",
                       sl_data_input_text(want, text));
    bound->role = SL_ROLE_IMAGE;
    set->channels = channels;
    set->height = (int)height;
    set->width = (int)width;
    return sl_image_options_read(spec->images, channels, set->width, set->height, &set->options);
}

static sl_err bind(struct sl_data *data, struct picture_set *set, const struct sl_data_spec *spec) {
    const struct sl_data_list *classes = sl_data_list_find(data, "classes");
    for (int i = 0; i < data->bound_count; i++) {
        struct sl_data_bound *bound = &data->bound[i];
        bool is_float = bound->want.dtype == SL_DATA_FLOAT;
        if (bound->role == SL_ROLE_ROW)
            continue;
        if (is_float && (bound->role == SL_ROLE_IMAGE || bound->role == SL_ROLE_FEATURE))
            SL_TRY(bind_image(set, spec, bound));
        else if (is_float || bound->role != SL_ROLE_TARGET || bound->numel != 1)
            return sl_data_refuse(data, &bound->want);
        else if (bound->want.below && classes->count > bound->want.below)
            return sl_fail(SL_ERR_INPUT,
                           "%s: %lld classes; input '%s' of the model has %lld; try --set "
                           "classes=%lld",
                           set->folder.root, (long long)classes->count, bound->want.name,
                           (long long)bound->want.below, (long long)classes->count);
    }
    if (!set->channels)
        return sl_fail(SL_ERR_INPUT, "%s: the model has no input for pictures", set->folder.root);
    return SL_OK;
}

/* Numbers of the classes in the list of the run. */
static sl_err renumber(struct sl_data *data, struct sl_folder *folder) {
    const struct sl_data_list *known = sl_data_list_find(data, "classes");
    if (!known) {
        sl_data_list_add(data, "classes", folder->name, folder->classes);
        return SL_OK;
    }
    int32_t *number = SL_NEW(&data->arena, int32_t, folder->classes);
    for (int64_t i = 0; i < folder->classes; i++) {
        number[i] = -1;
        for (int64_t k = 0; k < known->count && number[i] < 0; k++)
            if (strcmp(known->value[k], folder->name[i]) == 0)
                number[i] = (int32_t)k;
        if (number[i] < 0)
            return sl_data_list_unknown(known, folder->root, folder->name[i]);
    }
    for (int64_t i = 0; i < folder->count; i++)
        folder->picture[i].label = number[folder->picture[i].label];
    return SL_OK;
}

static uint64_t print_of(const struct sl_data_spec *spec, const struct sl_folder *folder) {
    uint64_t hash = spec->images ? sl_hash(spec->images, strlen(spec->images)) : 1;
    for (int64_t i = 0; i < folder->count; i++) {
        const char *path = folder->picture[i].path;
        uint64_t words[2] = {hash, sl_hash(path, strlen(path))};
        hash = sl_hash(words, sizeof words);
    }
    return hash;
}

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct picture_set *set = SL_NEW(&data->arena, struct picture_set, 1);
    struct sl_image first;
    data->state = set;
    SL_TRY(sl_data_folder_list(data, data->blob[0].name, &set->folder));
    data->total = set->folder.count;
    data->print = print_of(spec, &set->folder);
    SL_TRY(renumber(data, &set->folder));
    SL_TRY(bind(data, set, spec));
    SL_TRY(decode(set, 0, &first)); /* a missing library is found at once */
    sl_image_free(&first);
    return SL_OK;
}

static sl_err fill(const struct sl_data *data, const struct sl_data_ask *ask) {
    const struct picture_set *set = data->state;
    const struct sl_data_bound *bound = &data->bound[ask->input];
    struct sl_image image;
    if (sl_data_fill_plain(bound, ask))
        return SL_OK;
    if (bound->role == SL_ROLE_TARGET) {
        *(int32_t *)ask->dst = set->folder.picture[ask->sample].label;
        return SL_OK;
    }
    struct sl_image_draw draw = {data->seed, ask->draw, ask->vary};
    SL_TRY(decode(set, ask->sample, &image));
    sl_err err = sl_image_sample(&set->options, &image, &draw, set->width, set->height, ask->dst);
    sl_image_free(&image);
    return err;
}

static void describe(const struct sl_data *data, struct sl_json_out *json) {
    static const char *const crops[] = {"centre", "random", "scaled"};
    const struct picture_set *set = data->state;
    sl_json_put_int(json, "pictures", set->folder.count);
    sl_json_put_int(json, "classes", set->folder.classes);
    sl_json_put_int(json, "resize", set->options.resize);
    sl_json_put_string(json, "crop", crops[set->options.crop]);
    sl_json_put_bool(json, "flip", set->options.flip);
}

const struct sl_data_kind sl_data_images = {
    .name = "images",
    .brief = "a folder of PNG and JPEG pictures, in a folder per class",
    .offers = "image [C,H,W] with 1 or 3 channels, label, row",
    .suffixes = "",
    .files_max = 1,
    .folder = true,
    .costly = true,
    .open = open_set,
    .fill = fill,
    .describe = describe,
};
