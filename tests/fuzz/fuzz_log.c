/* log.jsonl of a run: read and drawn, never a crash. */
#include "report/curves.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_text out = {0};
    struct sl_run_page page = {.title = "fuzz"};
    if (sl_record_read(&arena, "fuzz", (const char *)data, size, &page.record) == SL_OK)
        sl_run_page_put(&page, &out);
    sl_text_free(&out);
    sl_arena_free(&arena);
    return 0;
}
