/* Listing the pictures of a folder of classes, in the order of torchvision's ImageFolder: by class, by
 * folder, by name. */
#include "data/folder.h"

#include "base/sort.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { DEPTH_MAX = 32 };

struct lister {
    struct sl_data *data;
    const char *root;
    SL_VEC(struct sl_data_picture) pictures;
    SL_VEC(const char *) classes;
};

/* 1: a picture that we read, -1: one of another format, 0: another file. */
static int format_of(const char *name) {
    static const char *const known[] = {"jpg", "jpeg", "png"};
    static const char *const other[] = {"bmp", "gif",  "heic", "pgm", "ppm",
                                        "tif", "tiff", "webp", "avif"};
    const char *end = strrchr(name, '.');
    for (int i = 0; end && i < SL_COUNT(known); i++)
        if (strcasecmp(end + 1, known[i]) == 0)
            return 1;
    for (int i = 0; end && i < SL_COUNT(other); i++)
        if (strcasecmp(end + 1, other[i]) == 0)
            return -1;
    return 0;
}

static bool is_folder(const char *path, const struct dirent *entry) {
    struct stat info;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
        return entry->d_type == DT_DIR;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static sl_err list_below(struct lister *l, const char *path, int depth);

static sl_err add_entry(struct lister *l, const char *folder, const struct dirent *entry,
                        int depth) {
    struct sl_arena *arena = &l->data->arena;
    if (entry->d_name[0] == '.')
        return SL_OK;
    const char *path = *folder ? sl_arena_printf(arena, "%s/%s", folder, entry->d_name)
                               : sl_arena_dup(arena, entry->d_name, strlen(entry->d_name));
    struct sl_text whole = {0};
    sl_text_printf(&whole, "%s/%s", l->root, path);
    bool folders = is_folder(whole.at, entry);
    sl_text_free(&whole);
    if (folders && depth == 0)
        SL_PUSH(&l->classes, path);
    if (folders)
        return depth == 0 ? SL_OK : list_below(l, path, depth + 1);
    int format = format_of(entry->d_name);
    if (format < 0)
        return sl_fail(SL_ERR_INPUT, "%s/%s: only PNG and JPEG are read; convert it", l->root,
                       path);
    struct sl_data_picture picture = {path, (int32_t)l->classes.count - 1};
    if (format > 0 && depth > 0)
        SL_PUSH(&l->pictures, picture);
    return SL_OK;
}

/* `path` is below the root; "" is the root: its folders are the classes. */
static sl_err list_below(struct lister *l, const char *path, int depth) {
    struct sl_text whole = {0};
    sl_err err = SL_OK;
    if (depth > DEPTH_MAX)
        return sl_fail(SL_ERR_INPUT, "%s/%s: folders are nested too deeply (a link in a circle?)",
                       l->root, path);
    sl_text_printf(&whole, "%s%s%s", l->root, *path ? "/" : "", path);
    DIR *dir = opendir(whole.at);
    if (!dir)
        err = sl_fail(sl_file_absence(errno), "%s: %s", whole.at, strerror(errno));
    struct dirent *entry;
    while (dir && err == SL_OK && (entry = readdir(dir)) != NULL)
        err = add_entry(l, path, entry, depth);
    if (dir)
        closedir(dir);
    sl_text_free(&whole);
    return err;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* By folder, then by name. */
static int compare_pictures(const void *a, const void *b) {
    const char *x = ((const struct sl_data_picture *)a)->path,
               *y = ((const struct sl_data_picture *)b)->path;
    size_t p = (size_t)(strrchr(x, '/') - x), q = (size_t)(strrchr(y, '/') - y);
    int order = memcmp(x, y, p < q ? p : q);
    if (!order && p != q)
        return p < q ? -1 : 1;
    return order ? order : strcmp(x + p, y + q);
}

static sl_err list_classes(struct lister *l) {
    SL_VEC(const char *) names = {0};
    sl_err err = SL_OK;
    SL_TRY(list_below(l, "", 0));
    if (!l->classes.count)
        return sl_fail(SL_ERR_INPUT, "%s: has no folders; pictures lie in a folder per class",
                       l->root);
    sl_sort(l->classes.at, l->classes.count, sizeof *l->classes.at, compare_names);
    SL_VEC_RESERVE(&names, l->classes.count);
    for (int64_t i = 0; i < l->classes.count; i++)
        SL_PUSH(&names, l->classes.at[i]);
    l->classes.count = 0;
    for (int64_t i = 0; i < names.count && err == SL_OK; i++) {
        int64_t first = l->pictures.count;
        SL_PUSH(&l->classes, names.at[i]);
        err = list_below(l, names.at[i], 1);
        if (err == SL_OK && l->pictures.count == first)
            err = sl_fail(SL_ERR_INPUT, "%s/%s: has no picture (.jpg, .jpeg, .png)", l->root,
                          names.at[i]);
        if (err == SL_OK)
            sl_sort(l->pictures.at + first, l->pictures.count - first, sizeof *l->pictures.at,
                    compare_pictures);
    }
    SL_VEC_FREE(&names);
    return err;
}

sl_err sl_data_folder_list(struct sl_data *data, const char *root, struct sl_folder *out) {
    struct lister l = {.data = data, .root = root};
    sl_err err = list_classes(&l);
    if (err == SL_OK)
        *out = (struct sl_folder){
            .root = root,
            .name = SL_VEC_FREEZE(&l.classes, &data->arena),
            .classes = l.classes.count,
            .count = l.pictures.count,
            .picture = SL_VEC_FREEZE(&l.pictures, &data->arena),
        };
    SL_VEC_FREE(&l.classes);
    SL_VEC_FREE(&l.pictures);
    return err;
}
