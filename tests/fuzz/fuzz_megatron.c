/* Megatron sets: two bytes say how long the .idx is, the rest is .idx and .bin. */
#include "fuzz/data_common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct sl_data_input inputs[] = {
        {.name = "tokens", .dtype = SL_DATA_INT, .rank = 1, .dim = {3}, .below = 300},
        {.name = "targets", .dtype = SL_DATA_INT, .rank = 1, .dim = {3}, .below = 300},
    };
    if (size < 2)
        return 0;
    size_t idx = (size_t)data[0] | (size_t)data[1] << 8;
    idx = idx < size - 2 ? idx : size - 2;
    struct sl_data_spec spec = {.source = "megatron:", .inputs = inputs, .input_count = 2};
    struct sl_data_file files[2] = {{"x.idx", data + 2, (int64_t)idx},
                                    {"x.bin", data + 2 + idx, (int64_t)(size - 2 - idx)}};
    sl_fuzz_open(&spec, files, 2, (int64_t)size);
    return 0;
}
