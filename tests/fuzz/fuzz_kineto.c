/* Traces of PyTorch's profiler: an error, or a timeline that every renderer can draw. Two bytes of
 * the input say where a second rank begins. */
#include "fuzz/meter.h"
#include "report/kineto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_picture picture, again;
    const char *text = (const char *)data;
    size_t cut = size > 2 && data[0] == '%' ? data[1] % size : 0;
    struct sl_report_kineto_text texts[] = {{"a", text + cut, size - cut}, {"b", text, cut}};
    sl_meter_start();
    sl_err err = sl_report_kineto_read(&arena, texts, cut ? 2 : 1, &picture);
    /* The shortest event has 40 characters; its ranges, bars, keys and arrows have 320 bytes. */
    sl_meter_check(8 * (int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK) {
        struct sl_text out = {0};
        sl_report_grid(&picture, &(struct sl_grid_opts){.max_lanes = 8, .critical = true}, &out);
        if (picture.lane_count < 100) {
            sl_report_svg(&picture, 800, &out);
            sl_report_html(&picture, 1, &out);
            sl_text_free(&out);
            sl_report_trace(&picture, &out);
            SL_ASSERT(sl_report_trace_read(&arena, "again", out.at, out.length, &again) == SL_OK);
            SL_ASSERT(again.arrow_count == picture.arrow_count);
        }
        sl_text_free(&out);
    }
    sl_arena_free(&arena);
    return 0;
}
