/* log.jsonl of a run: read and drawn, never a crash. */
#include "fuzz/meter.h"
#include "report/curves.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_text out = {0};
    struct sl_report_run page = {.title = "fuzz"};
    sl_meter_start();
    sl_err err = sl_report_record_read(&arena, "fuzz", (const char *)data, size, &page.record);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK)
        sl_report_run_page_put(&page, &out);
    sl_text_free(&out);
    sl_arena_free(&arena);
    return 0;
}
