/* Files of Sailor: what is read becomes a plan that its own checker accepts. */
#include "fuzz/meter.h"
#include "fuzz/sailor_files.h"

#include <stdlib.h>

/* A tree of the text comes first: at most 36 bytes for a byte of text. */
enum { TREE_SHARE = 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_sailor s = {0};
    struct sl_sailor_forecast f;
    sl_meter_start();
    sl_err err = sailor_add_all(&s, &arena, (const char *)data, size);
    sl_meter_check(TREE_SHARE * (int64_t)size, 2 * SL_METER_CONSTANT_BYTES);
    if (err == SL_OK)
        err = sl_interop_sailor_forecast(&s, &arena, NULL, &f);
    if (err == SL_OK && sl_plan_check(f.plan) != SL_OK)
        abort();
    sl_interop_sailor_free(&s);
    sl_arena_free(&arena);
    return 0;
}
