/* sluice tokenizer: train a tokenizer; write the tokens of a text. */
#include "base/json.h"
#include "base/log.h"
#include "base/vec.h"
#include "cli/command.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_result(const struct sl_tokenizer_train_facts *f, const char *path, bool json,
                       struct sl_text *text) {
    char bytes[SL_HUMAN_BYTES], words[SL_HUMAN_BYTES], different[SL_HUMAN_BYTES];
    if (json) {
        struct sl_json_out out = {.text = text, .indent = 2};
        sl_json_open(&out, '{');
        sl_json_put_string(&out, "written", path);
        sl_json_put_int(&out, "vocab", f->vocab);
        sl_json_put_int(&out, "merges", f->merges);
        sl_json_put_int(&out, "bytes", f->bytes);
        sl_json_put_int(&out, "words", f->words);
        sl_json_put_int(&out, "different_words", f->different);
        sl_json_close(&out, '}');
        sl_text_put(text, "\n");
        return;
    }
    sl_text_printf(text, "%s: %lld tokens, %lld merges, from %s of text (%s words, %s different)\n",
                   path, (long long)f->vocab, (long long)f->merges, sl_human_bytes(f->bytes, bytes),
                   sl_human_count((double)f->words, words),
                   sl_human_count((double)f->different, different));
}

static sl_err train(const struct sl_args *args, const char *path,
                    const struct sl_tokenizer_train_config *config) {
    struct sl_tokenizer_train *train = NULL;
    struct sl_text text = {0}, result = {0};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_tokenizer_train_open(config, &train));
    for (int i = 1; i < args->positional_count; i++)
        SL_TRY_OUT(sl_tokenizer_train_file(train, args->positional[i]));
    sl_tokenizer_train_run(train);
    sl_tokenizer_train_write(train, &text);
    SL_TRY_OUT(sl_file_write(path, text.at, text.length));
    struct sl_tokenizer_train_facts facts = sl_tokenizer_train_facts(train);
    if (facts.vocab != config->vocab)
        sl_log_warn("the vocabulary has %lld tokens, not %lld: %s", (long long)facts.vocab,
                    (long long)config->vocab,
                    facts.vocab > config->vocab
                        ? "special tokens and bytes alone need as many"
                        : "there are no more pairs that are frequent enough");
    put_result(&facts, path, sl_args_has(args, "--json"), &result);
    err = sl_cli_print(&result);
out:
    sl_tokenizer_train_close(train);
    sl_text_free(&text);
    sl_text_free(&result);
    return err;
}

static sl_err run_train(const struct sl_args *args, const char *path) {
    const char *special[SL_ARGS_MAX + 1];
    struct sl_tokenizer_train_config config = {.special = special};
    SL_TRY(sl_args_int(args, "--vocab-size", 1, INT32_MAX, &config.vocab));
    if (!config.vocab)
        return sl_fail(SL_ERR_USAGE, "tokenizer train: --vocab-size N is missing");
    SL_TRY(sl_args_int(args, "--min-frequency", 0, INT64_MAX, &config.min_frequency));
    while ((special[config.special_count] = sl_args_nth(args, "--special", config.special_count)) !=
           NULL)
        config.special_count++;
    return train(args, path, &config);
}

/* ---- encode ---- */

static sl_err write_tokens(FILE *file, const struct sl_tokens *ids, bool wide) {
    for (int64_t i = 0; i < ids->count; i++)
        for (int byte = 0; byte < (wide ? 4 : 2); byte++) /* little-endian */
            if (putc(ids->at[i] >> 8 * byte & 0xff, file) == EOF)
                return sl_fail(SL_ERR_SYSTEM, "the tokens: %s", strerror(errno));
    return SL_OK;
}

static sl_err encode_text(const struct sl_tokenizer *t, struct sl_str text, FILE *file,
                          int64_t *count) {
    enum { PIECE = 1 << 20 };
    struct sl_tokens ids = {0};
    sl_err err = SL_OK;
    for (size_t at = 0, end; at < text.length && err == SL_OK; at = end) {
        end = text.length - at > PIECE ? sl_tokenizer_cut(t, text.at, text.length, at + PIECE)
                                       : text.length;
        ids.count = 0;
        sl_tokenizer_encode(t, text.at + at, end - at, SL_TOKENIZER_MATCH, &ids);
        *count += ids.count;
        err = write_tokens(file, &ids, sl_tokenizer_vocab(t) > 1 << 16);
    }
    SL_VEC_FREE(&ids);
    return err;
}

static sl_err encode_files(const struct sl_args *args, const struct sl_tokenizer *t, FILE *file,
                           int64_t *count) {
    const size_t limit = (size_t)1 << 40;
    for (int i = 1; i < args->positional_count; i++) {
        struct sl_str text = {0};
        char *bytes;
        SL_TRY(sl_file_read(args->positional[i], limit, &bytes, &text.length));
        text.at = bytes;
        sl_err err = encode_text(t, text, file, count);
        free(bytes);
        SL_TRY(err);
    }
    return SL_OK;
}

static sl_err run_encode(const struct sl_args *args, const char *path) {
    const char *from = sl_args_text(args, "--tokenizer", NULL);
    struct sl_tokenizer *t;
    struct sl_text result = {0};
    int64_t count = 0;
    if (!from)
        return sl_fail(SL_ERR_USAGE, "tokenizer encode: --tokenizer PATH is missing");
    SL_TRY(sl_tokenizer_open(from, &t));
    const char *kind = sl_tokenizer_vocab(t) > 1 << 16 ? "u32" : "u16";
    FILE *file = fopen(path, "wb");
    sl_err err = file ? encode_files(args, t, file, &count)
                      : sl_fail(SL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    if (file && fclose(file) && err == SL_OK)
        err = sl_fail(SL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    sl_tokenizer_close(t);
    if (sl_args_has(args, "--json"))
        sl_text_printf(&result, "{\"tokens\": %lld, \"kind\": \"%s\"}\n", (long long)count, kind);
    else
        sl_text_printf(&result, "%s: %lld tokens; use it with --data %s:%s\n", path,
                       (long long)count, kind, path);
    if (err == SL_OK)
        err = sl_cli_print(&result);
    sl_text_free(&result);
    return err;
}

static const struct verb {
    const char *name;
    sl_err (*run)(const struct sl_args *args, const char *path);
} verbs[] = {{"encode", run_encode}, {"train", run_train}};

static sl_err run(const struct sl_args *args) {
    const char *path = sl_args_text(args, "-o", NULL), *wanted = args->positional[0];
    for (int i = 0; i < SL_COUNT(verbs); i++) {
        if (strcmp(verbs[i].name, wanted) != 0)
            continue;
        if (args->positional_count < 2)
            return sl_fail(SL_ERR_USAGE, "tokenizer %s: name at least one file", wanted);
        if (!path)
            return sl_fail(SL_ERR_USAGE, "tokenizer %s: -o FILE is missing", wanted);
        return verbs[i].run(args, path);
    }
    return sl_fail(SL_ERR_USAGE, "tokenizer: unknown verb '%s'; there are encode, train", wanted);
}

static const struct sl_option options[] = {
    {"--vocab-size", "N", "train: tokens, with the special ones and 256 for bytes", false},
    {"--special", "TOKEN", "train: special token, one of the first ids", true},
    {"--min-frequency", "N", "train: do not merge rarer pairs (default 0)", false},
    {"--tokenizer", "PATH", "encode: tokenizer.json, or a folder that has one", false},
    {"-o", "FILE", "train: the tokenizer.json; encode: the tokens", false},
    {0},
};

const struct sl_command sl_cli_cmd_tokenizer = {
    .name = "tokenizer",
    .synopsis = "train FILE... --vocab-size N -o tokenizer.json [--special TOKEN]... [--json]\n"
                "   or: sluice tokenizer encode FILE... --tokenizer PATH -o X.bin [--json]",
    .brief = "train a tokenizer, write the tokens of texts",
    .detail = "train    learn a byte-level BPE from texts in UTF-8, with the words of GPT-2; the\n"
              "         result is that of the package 'tokenizers' (docs/tokenizers.md)\n"
              "encode   write the tokens of texts, 16 bits each (32 if there are more than 65536)\n"
              "\n"
              "  sluice tokenizer train book.txt --vocab-size 8000 --special '<|endoftext|>' "
              "-o tokenizer.json",
    .options = options,
    .min_args = 1,
    .max_args = SL_ARGS_MAX,
    .run = run,
};
