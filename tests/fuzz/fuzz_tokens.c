/* Token files: the first byte chooses llm.c, uint16, uint32, text or float32; the rest is the file.
 */
#include "fuzz/data_common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const sources[] = {"llmc:", "u16:", "u32:", "text:", "masked:text:", "f32:"};
    const struct sl_data_input inputs[] = {
        {.name = "tokens", .dtype = SL_DATA_INT, .rank = 1, .dim = {5}, .below = 60000},
        {.name = "targets", .dtype = SL_DATA_INT, .rank = 1, .dim = {5}},
    };
    if (!size)
        return 0;
    struct sl_data_spec spec = {.source = sources[data[0] % 6], .inputs = inputs, .input_count = 2};
    struct sl_data_file file = {"fuzz", data + 1, (int64_t)size - 1};
    /* Text may be gzip: at most 1032 bytes from one. */
    sl_fuzz_open(&spec, &file, 1, (int64_t)size * (data[0] % 6 >= 3 ? 1032 : 1));
    return 0;
}
