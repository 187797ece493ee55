/* Training of a tokenizer: the first two bytes choose the size and the minimum, the rest is the text. The
 * result is a tokenizer that encodes and decodes the text. */
#include "base/vec.h"
#include "fuzz/data_common.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/train.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct sl_text *json, const char *text, size_t length) {
    struct sl_tokenizer *t;
    struct sl_tokens ids = {0};
    struct sl_text back = {0};
    sl_fuzz_check(sl_tokenizer_read("trained", (struct sl_str){json->at, json->length},
                                    (struct sl_str){0}, &t) == SL_OK);
    sl_tokenizer_encode(t, text, length, SL_TOKENIZER_PLAIN, &ids);
    sl_tokenizer_decode(t, ids.at, ids.count, false, &back);
    sl_fuzz_check(back.length == length && (!length || memcmp(back.at, text, length) == 0));
    sl_tokenizer_close(t);
    SL_VEC_FREE(&ids);
    sl_text_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const special[] = {"<s>"};
    if (size < 2 || size > 1 << 16)
        return 0;
    struct sl_tokenizer_train_config config = {256 + 2 * (int64_t)data[0], data[1] % 4, special, 1};
    struct sl_tokenizer_train *train;
    struct sl_text json = {0};
    const char *text = (const char *)data + 2;
    sl_fuzz_check(sl_tokenizer_train_open(&config, &train) == SL_OK);
    if (sl_tokenizer_train_add(train, "fuzz", text, size - 2) == SL_OK) {
        sl_tokenizer_train_run(train);
        sl_tokenizer_train_write(train, &json);
        round_trip(&json, text, size - 2);
    }
    sl_tokenizer_train_close(train);
    sl_text_free(&json);
    return 0;
}
