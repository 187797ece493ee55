/* Token files: the first byte selects llm.c, uint16, uint32, text, float32 or detection, and the
 * model inputs; the rest is the file. */
#include "fuzz/data_common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const sources[] = {
        "llmc:", "u16:", "u32:", "text:", "masked:text:", "f32:", ""};
    const struct sl_data_input inputs[] = {
        {.name = "tokens", .dtype = SL_DATA_INT, .rank = 1, .dim = {5}, .below = 60000},
        {.name = "targets", .dtype = SL_DATA_INT, .rank = 1, .dim = {5}},
        {.name = "row", .dtype = SL_DATA_INT},
        {.name = "weight", .dtype = SL_DATA_FLOAT, .rank = 1, .dim = {2}},
    };
    if (!size)
        return 0;
    int source = data[0] % 7, count = 2 + data[0] / 7 % 3;
    struct sl_data_spec spec = {.source = sources[source], .inputs = inputs, .input_count = count};
    struct sl_data_file file = {"fuzz", data + 1, (int64_t)size - 1};
    /* Text may be gzip, which expands by at most 1032. */
    sl_fuzz_open(&spec, &file, 1, (int64_t)size * (source >= 3 ? 1032 : 1));
    return 0;
}
