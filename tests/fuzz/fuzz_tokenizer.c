/* Tokenizers: a tokenizer.json, or vocab.json and merges.txt separated by a zero byte. An accepted
 * tokenizer encodes its own file to ids in range and decodes them. */
#include "base/vec.h"
#include "fuzz/data_common.h"
#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct sl_tokenizer *t, enum sl_tokenizer_mode mode, const char *text,
                       size_t length) {
    struct sl_tokens ids = {0};
    struct sl_text back = {0};
    sl_tokenizer_encode(t, text, length, mode, &ids);
    for (int64_t i = 0; i < ids.count; i++) {
        sl_fuzz_check(ids.at[i] >= 0 && ids.at[i] < sl_tokenizer_vocab(t));
        (void)sl_tokenizer_piece(t, ids.at[i]);
    }
    sl_tokenizer_decode(t, ids.at, ids.count, mode == SL_TOKENIZER_PLAIN, &back);
    SL_VEC_FREE(&ids);
    sl_text_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* Tables and expressions: at most so many bytes of memory per byte of a file. */
    enum { PER_BYTE = 32, TEXT_MAX = 2000 };
    const char *text = (const char *)data;
    const char *zero = size ? memchr(text, 0, size) : NULL;
    struct sl_str vocab = {text, zero ? (size_t)(zero - text) : size};
    struct sl_str merges = {zero ? zero + 1 : NULL, zero ? size - vocab.length - 1 : 0};
    struct sl_tokenizer *t;
    sl_meter_start();
    sl_err err = sl_tokenizer_read("fuzz", vocab, merges, &t);
    sl_meter_check(PER_BYTE * (int64_t)size, 8 * (int64_t)SL_METER_CONSTANT_BYTES);
    if (err != SL_OK) {
        sl_fuzz_check(sl_err_message()[0] != 0);
        return 0;
    }
    sl_fuzz_check(sl_tokenizer_bytes(t) <= PER_BYTE * (int64_t)size + SL_METER_CONSTANT_BYTES);
    for (int mode = SL_TOKENIZER_PLAIN; mode <= SL_TOKENIZER_WHOLE; mode++)
        round_trip(t, (enum sl_tokenizer_mode)mode, text, size < TEXT_MAX ? size : TEXT_MAX);
    sl_tokenizer_close(t);
    return 0;
}
