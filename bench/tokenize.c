/* Encode and decode a text with a tokenizer: the best time of several, and the results.
 *
 * Usage: bench/tokenize TOKENIZER TEXT IDS-OUT TEXT-OUT [TIMES]
 * Prints "encode seconds, decode seconds, ids". tests/fixtures/compare_tokenizers.py runs it in turns
 * with the `tokenizers` package. */
#include "base/clock.h"
#include "base/vec.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static sl_err run(char **argv, int times) {
    struct sl_tokenizer *t;
    struct sl_tokens ids = {0};
    struct sl_text back = {0};
    char *text = NULL;
    size_t length;
    int64_t encode_ns = INT64_MAX, decode_ns = INT64_MAX;
    sl_err err = SL_OK;
    SL_TRY(sl_tokenizer_open(argv[1], &t));
    SL_TRY_OUT(sl_file_read(argv[2], (int64_t)1 << 30, &text, &length));
    for (int i = 0; i < times; i++) {
        ids.count = 0;
        back.length = 0;
        int64_t start = sl_clock_ns();
        sl_tokenizer_encode(t, text, length, SL_TOKENIZER_WHOLE, &ids);
        int64_t middle = sl_clock_ns();
        sl_tokenizer_decode(t, ids.at, ids.count, false, &back);
        encode_ns = least(encode_ns, middle - start);
        decode_ns = least(decode_ns, sl_clock_ns() - middle);
    }
    printf("%.6f %.6f %lld\n", (double)encode_ns / 1e9, (double)decode_ns / 1e9,
           (long long)ids.count);
    SL_TRY_OUT(sl_file_write(argv[3], ids.at, sizeof *ids.at * (size_t)ids.count));
    SL_TRY_OUT(sl_file_write(argv[4], back.at, back.length));
out:
    free(text);
    SL_VEC_FREE(&ids);
    sl_text_free(&back);
    sl_tokenizer_close(t);
    return err;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: bench/tokenize TOKENIZER TEXT IDS-OUT TEXT-OUT [TIMES]\n");
        return 2;
    }
    if (run(argv, argc > 5 ? atoi(argv[5]) : 3) == SL_OK)
        return 0;
    fprintf(stderr, "%s\n", sl_err_message());
    return 3;
}
