/* config.json of Hugging Face: a model text or an error that says what is wrong, never a crash. The
 * same config gives the same text. Exporting it twice changes nothing the second time. */
#include "fuzz/meter.h"
#include "hf/export.h"
#include "hf/folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void export_twice(const char *data, size_t size) {
    struct sl_text once = {0}, twice = {0};
    if (sl_hf_export_config("fuzz", data, size, SL_ST_BF16, &once) == SL_OK) {
        if (sl_hf_export_config("fuzz", once.at, once.length, SL_ST_BF16, &twice) != SL_OK)
            abort();
        if (once.length != twice.length || memcmp(once.at, twice.at, once.length) != 0)
            abort();
    }
    sl_text_free(&once);
    sl_text_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct sl_hf_arch *arch = NULL;
    struct sl_text once = {0}, twice = {0};
    sl_meter_start();
    sl_err err = sl_hf_config_text("fuzz", (const char *)data, size, &arch, &once);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err != SL_OK && !*sl_err_message())
        abort();
    if (err == SL_OK) {
        if (sl_hf_config_text("fuzz", (const char *)data, size, &arch, &twice) != SL_OK)
            abort();
        if (once.length != twice.length || memcmp(once.at, twice.at, once.length) != 0)
            abort();
    }
    sl_text_free(&once);
    sl_text_free(&twice);
    export_twice((const char *)data, size);
    return 0;
}
