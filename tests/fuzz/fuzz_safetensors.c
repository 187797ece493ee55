/* safetensors reader: accepted files must have the guarantees of base/safetensors.h. */
#include "base/safetensors.h"
#include "fuzz/meter.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int64_t check_tensors(const struct sl_st *st) {
    int64_t covered = 0;
    for (int64_t i = 0; i < st->count; i++) {
        struct sl_st_tensor tensor, last;
        sl_st_get(st, i, &tensor);
        if (tensor.offset < st->data_start || tensor.size_bytes > st->file_bytes - tensor.offset ||
            sl_st_size_bytes(tensor.dtype, tensor.rank, tensor.dim) != tensor.size_bytes ||
            !sl_st_name_ok(tensor.name) || sl_st_find(st, tensor.name) != i)
            abort();
        if (i) {
            sl_st_get(st, i - 1, &last);
            if (strcmp(last.name, tensor.name) >= 0)
                abort();
        }
        covered += tensor.size_bytes;
    }
    return covered;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* The last byte is the length of the file beyond the input: headers can describe tensors whose
     * bytes the fuzzer does not generate. */
    struct sl_st st;
    if (size < 1)
        return 0;
    int64_t file_bytes = (int64_t)(size - 1) + ((int64_t)data[size - 1] << (data[size - 1] % 32));
    sl_meter_start();
    sl_err err = sl_st_parse("fuzz", data, size - 1, file_bytes, &st);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err != SL_OK)
        return 0;
    if (check_tensors(&st) != st.file_bytes - st.data_start)
        abort();
    /* Memory is the header and a row of 32 bytes per tensor: within twice the file. */
    if (32 * st.count > (int64_t)st.header_bytes)
        abort();
    (void)sl_st_note(&st, "format");
    sl_st_close(&st);
    return 0;
}
