/* Speed of opening data sets and filling batches. Usage: ./dev bench data [TEXT [TOKENIZER]].
 * Without TEXT the text is generated. Lines: RESULT bench=data case=... rate=... unit=... */
#include "data/data.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { T = 256, BATCH = 32 };

static sl_err check(sl_err err) {
    if (err != SL_OK)
        printf("failed: %s\n", sl_err_message());
    return err;
}

static void result(const char *name, double rate, const char *unit) {
    printf("RESULT bench=data case=%s rate=%.4g unit=%s\n", name, rate, unit);
}

/* Fill batches of all inputs for about half a second. */
static sl_err time_fill(const char *name, const struct sl_data_spec *spec, const char *unit,
                        double per_sample) {
    struct sl_data *data;
    struct sl_data_cursor cursor = {0, 0};
    struct sl_data_range range;
    int64_t start = sl_clock_ns(), samples = 0, bytes = 4;
    sl_err err = SL_OK;
    SL_TRY(check(sl_data_open(spec, &data)));
    printf("%-24s opened in %.1f ms, holds %lld bytes\n", name,
           (double)(sl_clock_ns() - start) / 1e6, (long long)sl_data_bytes(data));
    for (int i = 0; i < spec->input_count; i++) {
        int64_t numel = 4;
        for (int k = 0; k < spec->inputs[i].rank; k++)
            numel *= spec->inputs[i].dim[k];
        bytes = numel > bytes ? numel : bytes;
    }
    void *dst = malloc((size_t)(bytes * BATCH));
    start = sl_clock_ns();
    while (dst && sl_clock_ns() - start < 500000000) {
        SL_TRY_OUT(check(sl_data_next(data, SL_DATA_TRAIN, SL_DATA_WRAP, BATCH, &cursor, &range)));
        for (int i = 0; i < spec->input_count; i++)
            SL_TRY_OUT(check(sl_data_fill(data, SL_DATA_TRAIN, range.first, range.count, i, dst)));
        samples += range.count;
    }
    result(name, (double)samples * per_sample / ((double)(sl_clock_ns() - start) / 1e9), unit);
out:
    free(dst);
    sl_data_close(data);
    return err;
}

static sl_err time_encode(const char *text, size_t length, const char *tokenizer) {
    struct sl_tokenizer *t;
    struct sl_tokens ids = {0};
    int64_t start = sl_clock_ns();
    SL_TRY(check(sl_tokenizer_open(tokenizer, &t)));
    printf("%-24s opened in %.1f ms, holds %lld bytes\n", sl_tokenizer_name(t),
           (double)(sl_clock_ns() - start) / 1e6, (long long)sl_tokenizer_bytes(t));
    start = sl_clock_ns();
    sl_tokenizer_encode(t, text, length, SL_TOKENIZER_MATCH, &ids);
    double seconds = (double)(sl_clock_ns() - start) / 1e9;
    result("encode-1-thread", (double)length / seconds / 1e6, "MB/s");
    result("bytes-per-token", (double)length / (double)ids.count, "bytes");
    free(ids.at);
    sl_tokenizer_close(t);
    return SL_OK;
}

static sl_err all(const char *path, const char *text, size_t length, const char *tokenizer) {
    const struct sl_data_input tokens[] = {
        {.name = "tokens", .dtype = SL_DATA_INT, .rank = 1, .dim = {T}, .below = 200000},
        {.name = "targets", .dtype = SL_DATA_INT, .rank = 1, .dim = {T}, .below = 200000},
        {.name = "mask", .dtype = SL_DATA_INT, .rank = 1, .dim = {T}, .below = 2},
    };
    const struct sl_data_input image[] = {
        {.name = "image", .dtype = SL_DATA_FLOAT, .rank = 3, .dim = {3, 224, 224}},
        {.name = "label", .dtype = SL_DATA_INT, .below = 1000},
    };
    struct sl_text source = {0};
    sl_err err = SL_OK;
    sl_text_printf(&source, "text:%s", path);
    struct sl_data_spec spec = {.source = source.at, .inputs = tokens, .input_count = 2};
    SL_TRY_OUT(time_fill("bytes", &spec, "tokens/s", T));
    source.length = 0;
    sl_text_printf(&source, "next:u16:%s", path);
    spec.source = source.at;
    if (length % 2 == 0)
        SL_TRY_OUT(time_fill("u16", &spec, "tokens/s", T));
    source.length = 0;
    sl_text_printf(&source, "masked:text:%s", path);
    spec.source = source.at;
    SL_TRY_OUT(time_fill("masked", &spec, "tokens/s", T));
    if (tokenizer) {
        SL_TRY_OUT(time_encode(text, length, tokenizer));
        source.length = 0;
        sl_text_printf(&source, "next:text:%s", path);
        spec.source = source.at;
        spec.tokenizer = tokenizer;
        SL_TRY_OUT(time_fill("bpe", &spec, "tokens/s", T));
    }
    spec = (struct sl_data_spec){.source = "synthetic", .inputs = tokens, .input_count = 2};
    SL_TRY_OUT(time_fill("synthetic-tokens", &spec, "tokens/s", T));
    spec.inputs = image;
    SL_TRY_OUT(time_fill("synthetic-224x224", &spec, "images/s", 1));
out:
    sl_text_free(&source);
    return err;
}

int main(int argc, char **argv) {
    char made[] = "/tmp/sluice-bench-XXXXXX";
    char *text = NULL;
    size_t length;
    const char *path = argc > 1 ? argv[1] : made;
    if (argc < 2) {
        struct sl_text words = {0};
        int fd = mkstemp(made);
        for (int i = 0; i < 400000; i++)
            sl_text_printf(&words, "gate %d opens, ", i % 100003 * 7919 % 100003);
        words.length &= ~(size_t)1;
        sl_err err = fd < 0 ? SL_ERR_SYSTEM : sl_file_write(made, words.at, words.length);
        sl_text_free(&words);
        close(fd);
        if (err != SL_OK)
            return 4;
    }
    sl_err err = check(sl_file_read(path, (int64_t)1 << 34, &text, &length));
    if (err == SL_OK)
        err = all(path, text, length, argc > 2 ? argv[2] : NULL);
    if (argc < 2)
        unlink(made);
    free(text);
    return (int)err;
}
