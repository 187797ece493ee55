/* IDX images and labels: two bytes say how long the first file is; either may be gzip. */
#include "fuzz/data_common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct sl_data_input inputs[] = {
        {.name = "image", .dtype = SL_DATA_FLOAT, .rank = 3, .dim = {1, 4, 5}},
        {.name = "label", .dtype = SL_DATA_INT, .below = 10},
    };
    if (size < 3)
        return 0;
    size_t first = (size_t)data[0] | (size_t)data[1] << 8;
    first = first < size - 3 ? first : size - 3;
    struct sl_data_file files[2] = {{"images", data + 3, (int64_t)first},
                                    {"labels", data + 3 + first, (int64_t)(size - 3 - first)}};
    struct sl_data_spec spec = {
        .source = "idx:", .inputs = inputs, .input_count = 1 + (data[2] & 1)};
    sl_fuzz_open(&spec, files, data[2] & 2 ? 2 : 1, (int64_t)size * 1032);
    return 0;
}
