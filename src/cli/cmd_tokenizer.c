/* sluice tokenizer: train a tokenizer. */
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/command.h"
#include "tokenizer/train.h"

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

static sl_err run(const struct sl_args *args) {
    const char *path = sl_args_text(args, "-o", NULL), *special[SL_ARGS_MAX + 1];
    struct sl_tokenizer_train_config config = {.special = special};
    if (strcmp(args->positional[0], "train") != 0)
        return sl_fail(SL_ERR_USAGE, "tokenizer: unknown verb '%s'; there is train",
                       args->positional[0]);
    if (args->positional_count < 2)
        return sl_fail(SL_ERR_USAGE, "tokenizer train: name at least one file");
    if (!path)
        return sl_fail(SL_ERR_USAGE, "tokenizer train: -o FILE is missing");
    SL_TRY(sl_args_int(args, "--vocab-size", 1, INT32_MAX, &config.vocab));
    if (!config.vocab)
        return sl_fail(SL_ERR_USAGE, "tokenizer train: --vocab-size N is missing");
    SL_TRY(sl_args_int(args, "--min-frequency", 0, INT64_MAX, &config.min_frequency));
    while ((special[config.special_count] = sl_args_nth(args, "--special", config.special_count)) !=
           NULL)
        config.special_count++;
    return train(args, path, &config);
}

static const struct sl_option options[] = {
    {"--vocab-size", "N", "tokens, with the special ones and 256 for bytes", false},
    {"--special", "TOKEN", "special token, for example <|endoftext|>; the first ids", true},
    {"--min-frequency", "N", "do not merge rarer pairs (default 0)", false},
    {"-o", "FILE", "the tokenizer.json", false},
    {0},
};

const struct sl_command sl_cli_cmd_tokenizer = {
    .name = "tokenizer",
    .synopsis = "train FILE... --vocab-size N -o tokenizer.json [--special TOKEN]... [--json]",
    .brief = "train a tokenizer",
    .detail = "train    learn a byte-level BPE from texts in UTF-8, with the words of GPT-2; the\n"
              "         result is that of the package 'tokenizers' (docs/tokenizers.md)\n"
              "\n"
              "  sluice tokenizer train book.txt --vocab-size 8000 --special '<|endoftext|>' "
              "-o tokenizer.json",
    .options = options,
    .min_args = 1,
    .max_args = SL_ARGS_MAX,
    .run = run,
};
