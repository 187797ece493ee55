/* Files for tests of data sets. */
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

enum { FILES = 256 };

static char folder[64];
static char *paths[FILES];
static int path_count;

const char *sl_test_folder(void) {
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/sluice-data-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    return folder;
}

void sl_test_folder_remove(void) {
    for (int i = 0; i < path_count; i++) {
        unlink(paths[i]);
        free(paths[i]);
    }
    path_count = 0;
    if (folder[0])
        rmdir(folder);
    folder[0] = 0;
}

static const char *new_path(const char *name) {
    struct sl_text path = {0};
    sl_text_printf(&path, "%s/%s", sl_test_folder(), name);
    for (int i = 0; i < path_count; i++)
        if (strcmp(paths[i], path.at) == 0) {
            sl_text_free(&path);
            return paths[i];
        }
    assert_true(path_count < FILES);
    return paths[path_count++] = path.at;
}

const char *sl_test_file(const char *name, const void *bytes, size_t size_bytes) {
    const char *path = new_path(name);
    SL_TEST_OK(sl_file_write(path, bytes, size_bytes));
    return path;
}

const char *sl_test_text(const char *name, const char *text) {
    return sl_test_file(name, text, strlen(text));
}

const char *sl_test_gzip(const char *name, const void *bytes, size_t size_bytes) {
    const char *path = new_path(name);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)size_bytes), (int)size_bytes);
    assert_int_equal(gzclose(file), Z_OK);
    return path;
}

const char *sl_test_shared(const char *name) {
    static char path[4096];
    const char *src = getenv("SRC_DIR");
    /* A worktree may lie one folder deeper than the project. */
    static const char *const up[] = {"../shared/data", "../../shared/data"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", src ? src : ".", up[i], name);
        if (sl_file_exists(path))
            return path;
    }
    return NULL;
}

struct sl_data_input sl_test_int(const char *name, int64_t length, int64_t below) {
    return (struct sl_data_input){
        .name = name, .dtype = SL_DATA_INT, .rank = length > 0, .dim = {length}, .below = below};
}

struct sl_data_input sl_test_float(const char *name, int64_t a, int64_t b, int64_t c) {
    return (struct sl_data_input){.name = name,
                                  .dtype = SL_DATA_FLOAT,
                                  .rank = (a > 0) + (b > 0) + (c > 0),
                                  .dim = {a, b, c}};
}
