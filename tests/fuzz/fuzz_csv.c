/* CSV tables: the first byte chooses the inputs, the rest is the file. */
#include "fuzz/data_common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_data_input inputs[] = {
        {.name = "x", .dtype = SL_DATA_FLOAT, .rank = 1},
        {.name = "label", .dtype = SL_DATA_INT, .below = 10},
        {.name = "age", .dtype = SL_DATA_FLOAT},
    };
    if (!size)
        return 0;
    inputs[0].dim[0] = 1 + data[0] % 4;
    struct sl_data_spec spec = {
        .source = "csv:", .inputs = inputs, .input_count = 1 + data[0] / 4 % 3};
    struct sl_data_file file = {"fuzz.csv", data + 1, (int64_t)size - 1};
    sl_fuzz_open(&spec, &file, 1, (int64_t)size * (size > 2 && data[1] == 0x1f ? 1032 : 1));
    return 0;
}
