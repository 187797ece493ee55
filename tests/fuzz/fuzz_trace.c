/* Trace files: an error, or a timeline that every renderer can draw. */
#include "fuzz/meter.h"
#include "report/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_picture picture, again;
    sl_meter_start();
    sl_err err = sl_report_trace_read(&arena, "fuzz", (const char *)data, size, &picture);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK) {
        struct sl_text text = {0};
        sl_report_grid(&picture, &(struct sl_grid_opts){.max_lanes = 8, .critical = true}, &text);
        if (picture.lane_count < 100) {
            sl_report_svg(&picture, 800, &text);
            sl_report_html(&picture, 1, &text);
            sl_text_free(&text);
            sl_report_trace(&picture, &text);
            SL_ASSERT(sl_report_trace_read(&arena, "again", text.at, text.length, &again) == SL_OK);
            SL_ASSERT(again.arrow_count == picture.arrow_count);
        }
        sl_text_free(&text);
    }
    sl_arena_free(&arena);
    return 0;
}
