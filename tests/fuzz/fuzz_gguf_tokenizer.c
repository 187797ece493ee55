/* tokenizer.json for a GGUF file: keys or an error that says what is wrong, never a crash. */
#include "fuzz/meter.h"
#include "gguf/gguf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_gguf file = {0};
    sl_meter_start();
    sl_err err = sl_gguf_read_tokenizer(&file, "fuzz", (const char *)data, size, 300);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err != SL_OK && !*sl_err_message())
        abort();
    sl_gguf_free(&file);
    return 0;
}
