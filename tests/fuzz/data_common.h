/* Shared by the fuzz targets of data readers: open a set from memory, check it, read it. */
#ifndef SL_FUZZ_DATA_COMMON_H
#define SL_FUZZ_DATA_COMMON_H

#include "data/data.h"
#include "fuzz/meter.h"

#include <stdlib.h>
#include <string.h>

static inline void sl_fuzz_check(bool fine) {
    if (!fine)
        abort();
}

/* Open; memory is at most twice the `justified` bytes (for gzip: the largest possible content) plus
 * a constant. Each of the first fifty samples is read or refused. */
static inline void sl_fuzz_open(const struct sl_data_spec *spec, const struct sl_data_file *files,
                                int file_count, int64_t justified) {
    struct sl_data *data;
    sl_meter_start();
    sl_err opened = sl_data_open_memory(spec, files, file_count, &data);
    sl_meter_check(justified, SL_METER_CONSTANT_BYTES);
    if (opened != SL_OK) {
        sl_fuzz_check(sl_err_message()[0] != 0);
        return;
    }
    sl_fuzz_check(sl_data_bytes(data) <= 2 * justified + SL_METER_CONSTANT_BYTES);
    int64_t count = sl_data_count(data, SL_DATA_TRAIN);
    sl_fuzz_check(count > 0);
    for (int input = 0; input < spec->input_count; input++) {
        int64_t numel = 1;
        for (int i = 0; i < spec->inputs[input].rank; i++)
            numel *= spec->inputs[input].dim[i];
        int32_t *values = malloc((size_t)numel * 4);
        for (int64_t n = 0; n < count && n < 50; n++) {
            sl_err err = sl_data_fill(data, SL_DATA_TRAIN, n, 1, input, values);
            for (int64_t i = 0; i < numel && err == SL_OK; i++)
                if (spec->inputs[input].dtype == SL_DATA_INT && spec->inputs[input].below)
                    sl_fuzz_check(values[i] >= 0 && values[i] < spec->inputs[input].below);
        }
        free(values);
    }
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text};
    sl_data_describe(data, &text);
    text.length = 0;
    sl_data_write_json(data, &json);
    sl_text_free(&text);
    sl_data_close(data);
}

#endif
