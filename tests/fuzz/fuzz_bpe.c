/* Tokenizers: a tokenizer.json, or vocab.json and merges.txt separated by a zero byte. An accepted
 * tokenizer must encode and decode its own file. */
#include "base/vec.h"
#include "fuzz/data_common.h"
#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct sl_tokenizer *t, const char *text, size_t length) {
    struct sl_tokens ids = {0};
    size_t at = 0;
    sl_tokenizer_encode(t, text, length, false, &ids);
    bool prefixed = false;
    for (int64_t i = 0; i < ids.count; i++) {
        struct sl_str bytes = sl_tokenizer_piece(t, ids.at[i]);
        sl_fuzz_check(ids.at[i] >= 0 && ids.at[i] < sl_tokenizer_vocab(t));
        if (i == 0 && bytes.length && bytes.at[0] == ' ' && text[0] != ' ') {
            prefixed = true; /* add_prefix_space */
            bytes.at++;
            bytes.length--;
        }
        sl_fuzz_check(at + bytes.length <= length);
        sl_fuzz_check(bytes.length == 0 || memcmp(text + at, bytes.at, bytes.length) == 0);
        at += bytes.length;
    }
    sl_fuzz_check(at == length || prefixed);
    SL_VEC_FREE(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    const char *zero = size ? memchr(text, 0, size) : NULL;
    struct sl_str vocab = {text, zero ? (size_t)(zero - text) : size};
    struct sl_str merges = {zero ? zero + 1 : NULL, zero ? size - vocab.length - 1 : 0};
    struct sl_tokenizer *t;
    sl_meter_start();
    sl_err err = sl_tokenizer_read("fuzz", vocab, merges, &t);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err != SL_OK) {
        sl_fuzz_check(sl_err_message()[0] != 0);
        return 0;
    }
    sl_fuzz_check(sl_tokenizer_bytes(t) <= 2 * (int64_t)size + SL_METER_CONSTANT_BYTES);
    round_trip(t, text, size);
    struct sl_tokens ids = {0};
    sl_tokenizer_encode(t, text, size, true, &ids);
    SL_VEC_FREE(&ids);
    sl_tokenizer_close(t);
    return 0;
}
