/* model.safetensors.index.json: no file outside of its folder, never a crash. */
#include "ckpt/weights.h"
#include "fuzz/meter.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_ckpt_index index;
    sl_meter_start();
    sl_err err = sl_ckpt_index_read("fuzz", (const char *)data, size, &index);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err != SL_OK && !*sl_err_message())
        abort();
    for (int64_t i = 0; err == SL_OK && i < index.count; i++)
        if (strchr(index.files[i], '/') || index.files[i][0] == '.')
            abort();
    sl_ckpt_index_close(&index);
    return 0;
}
