/* Arrays of NumPy and archives of them: the first byte chooses the inputs, the rest is the file. */
#include "fuzz/data_common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_data_input inputs[] = {
        {.name = "x", .dtype = SL_DATA_FLOAT, .rank = 1},
        {.name = "label", .dtype = SL_DATA_INT, .below = 10},
        {.name = "tokens", .dtype = SL_DATA_INT, .rank = 1, .dim = {4}, .below = 100},
        {.name = "targets", .dtype = SL_DATA_INT, .rank = 1, .dim = {4}, .below = 100},
    };
    if (!size)
        return 0;
    inputs[0].dim[0] = 1 + data[0] % 6;
    bool tokens = data[0] & 0x80;
    struct sl_data_spec spec = {.source = "npy:",
                                .inputs = tokens ? inputs + 2 : inputs,
                                .input_count = 1 + (data[0] >> 6 & 1)};
    struct sl_data_file file = {"x.npy", data + 1, (int64_t)size - 1};
    bool zip = size > 2 && data[1] == 'P';
    sl_fuzz_open(&spec, &file, 1, (int64_t)size * (zip ? 1032 : 4) + 1024);
    return 0;
}
