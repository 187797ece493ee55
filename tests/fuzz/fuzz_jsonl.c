/* JSON lines and chat templates: the first byte chooses template and packing, the rest is the file; a
 * part of it is also read as tokenizer_config.json. */
#include "fuzz/data_common.h"
#include "tokenizer/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { PER_BYTE = 64 };
    struct sl_data_input inputs[] = {
        {.name = "tokens", .dtype = SL_DATA_INT, .rank = 1, .dim = {16}, .below = 256},
        {.name = "targets", .dtype = SL_DATA_INT, .rank = 1, .dim = {16}},
        {.name = "attention_mask", .dtype = SL_DATA_FLOAT, .rank = 1, .dim = {16}},
    };
    struct sl_tokenizer_chat chat;
    if (!size)
        return 0;
    struct sl_data_spec spec = {.source = data[0] & 1 ? "next:packed:jsonl:" : "next:jsonl:",
                                .inputs = inputs,
                                .input_count = 3,
                                .threads = 1,
                                .chat_template = sl_tokenizer_template_name(data[0] / 2 % 8)};
    struct sl_data_file file = {"fuzz.jsonl", data + 1, (int64_t)size - 1};
    sl_fuzz_open(&spec, &file, 1,
                 PER_BYTE * (int64_t)size * (size > 2 && data[1] == 0x1f ? 1032 : 1));
    struct sl_str text = {(const char *)data + 1, size - 1};
    sl_err err = sl_tokenizer_chat_read("fuzz", text, text, NULL, true, &chat);
    sl_fuzz_check(err == SL_OK ? chat.row != NULL : sl_err_message()[0] != 0);
    return 0;
}
