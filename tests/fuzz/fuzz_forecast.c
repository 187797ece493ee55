/* forecast.json: read, write, read again: the same text, never a crash. */
#include "fuzz/meter.h"
#include "fuzz/round_trip.h"
#include "report/forecast.h"

SL_FUZZ_ROUND_TRIP(sl_forecast, sl_report_forecast)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    const struct sl_forecast *forecast;
    sl_meter_start();
    sl_err err = sl_report_forecast_read(&arena, "fuzz", (const char *)data, size, &forecast);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK)
        same_again(&arena, forecast);
    sl_arena_free(&arena);
    return 0;
}
