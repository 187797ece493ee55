/* Reads a safetensors file of fixtures (F32 and I32 only): tensors by name, texts by key. */
#ifndef SL_TESTS_FIXTURE_H
#define SL_TESTS_FIXTURE_H

#include "base/map.h"
#include "base/vec.h"

struct sl_fixture_tensor {
    const char *name;
    int64_t count;
    const float *f; /* one of the two */
    const int32_t *i;
};

struct sl_fixture_text {
    const char *key, *value;
};

struct sl_fixture {
    struct sl_arena arena;
    char *bytes; /* the file */
    size_t length;
    SL_VEC(struct sl_fixture_tensor) tensors;
    SL_VEC(struct sl_fixture_text) texts;
    struct sl_map names; /* -> tensors */
};

SL_MUST_CHECK sl_err sl_fixture_open(struct sl_fixture *fixture, const char *path);
void sl_fixture_close(struct sl_fixture *fixture);
/* NULL when absent. */
const struct sl_fixture_tensor *sl_fixture_find(const struct sl_fixture *fixture, const char *name);
const char *sl_fixture_text(const struct sl_fixture *fixture, const char *key);

#endif
