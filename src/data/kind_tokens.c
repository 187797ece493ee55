/* Token files: those of llm.c (header with magic 20240520: uint16; 20240801: uint32), headerless
 * uint16 as nanoGPT writes it, headerless uint32. */
#include "base/vec.h"
#include "data/source.h"

#include <string.h>

enum {
    LLMC_HEADER_BYTES = 1024, /* 256 int32: magic, version, number of tokens */
    LLMC_GPT2 = 20240520,
    LLMC_LLAMA3 = 20240801,
    LLMC_EVAL = 20240522,
};

static struct sl_token_set *new_set(struct sl_data *data) {
    struct sl_token_set *set = SL_NEW(&data->arena, struct sl_token_set, 1);
    set->packed.fd = -1;
    set->shard_count = data->blob_count;
    set->shard = SL_NEW(&data->arena, struct sl_token_shard, data->blob_count);
    data->state = set;
    return set;
}

static bool llmc_sniff(const unsigned char *head, int64_t length) {
    if (length < 12)
        return false;
    uint32_t magic = sl_le32(head);
    return magic == LLMC_GPT2 || magic == LLMC_LLAMA3 || magic == LLMC_EVAL;
}

static sl_err llmc_shard(const struct sl_blob *blob, struct sl_token_shard *shard) {
    unsigned char head[12];
    if (blob->size_bytes < LLMC_HEADER_BYTES)
        return sl_fail(SL_ERR_INPUT,
                       "%s: %lld bytes; a token file of llm.c starts with 1024 bytes "
                       "of header",
                       blob->name, (long long)blob->size_bytes);
    SL_TRY(sl_data_blob_read(blob, 0, head, (int64_t)sizeof head));
    uint32_t magic = sl_le32(head), version = sl_le32(head + 4), count = sl_le32(head + 8);
    if (magic == LLMC_EVAL)
        return sl_fail(SL_ERR_INPUT,
                       "%s: is an evaluation file of llm.c (multiple choice), expected "
                       "training tokens (magic %d)",
                       blob->name, LLMC_GPT2);
    if (magic != LLMC_GPT2 && magic != LLMC_LLAMA3)
        return sl_fail(SL_ERR_INPUT,
                       "%s: magic %u, a token file of llm.c has %d or %d; without a "
                       "header it is u16:FILE or u32:FILE",
                       blob->name, magic, LLMC_GPT2, LLMC_LLAMA3);
    uint32_t known = magic == LLMC_GPT2 ? 1 : 7;
    if (version != known)
        return sl_fail(SL_ERR_INPUT, "%s: version %u of the llm.c format, only %u is known",
                       blob->name, version, known);
    int width = magic == LLMC_GPT2 ? 2 : 4;
    int64_t want = LLMC_HEADER_BYTES + (int64_t)count * width;
    if (blob->size_bytes != want)
        return sl_fail(SL_ERR_INPUT,
                       "%s: %lld bytes, its header states %u tokens of %d bytes, which "
                       "makes %lld: the file is %s",
                       blob->name, (long long)blob->size_bytes, count, width, (long long)want,
                       blob->size_bytes < want ? "truncated" : "longer than stated");
    *shard = (struct sl_token_shard){
        .blob = blob, .offset_bytes = LLMC_HEADER_BYTES, .count = count, .width = width};
    return SL_OK;
}

static sl_err llmc_open(struct sl_data *data, const struct sl_data_spec *spec) {
    struct sl_token_set *set = new_set(data);
    for (int i = 0; i < data->blob_count; i++)
        SL_TRY(llmc_shard(&data->blob[i], &set->shard[i]));
    return sl_data_token_set_open(data, spec, set);
}

static sl_err raw_open(struct sl_data *data, const struct sl_data_spec *spec, int width) {
    struct sl_token_set *set = new_set(data);
    for (int i = 0; i < data->blob_count; i++) {
        const struct sl_blob *blob = &data->blob[i];
        if (!blob->size_bytes || blob->size_bytes % width)
            return sl_fail(SL_ERR_INPUT, "%s: %lld bytes; expected tokens of %d bytes each%s",
                           blob->name, (long long)blob->size_bytes, width,
                           blob->size_bytes ? ": the file is truncated or of another kind"
                                            : ", the file is empty");
        set->shard[i] = (struct sl_token_shard){
            .blob = blob, .count = blob->size_bytes / width, .width = width};
    }
    return sl_data_token_set_open(data, spec, set);
}

static sl_err u16_open(struct sl_data *data, const struct sl_data_spec *spec) {
    return raw_open(data, spec, 2);
}

static sl_err u32_open(struct sl_data *data, const struct sl_data_spec *spec) {
    return raw_open(data, spec, 4);
}

#define TOKEN_OFFERS "tokens and targets of one length, mask, segments, positions, row"

const struct sl_data_kind sl_data_llmc = {
    .name = "llmc",
    .brief = "token files of llm.c: a header and uint16 (GPT-2) or uint32 (Llama 3)",
    .offers = TOKEN_OFFERS,
    .suffixes = "",
    .ordered = true,
    .files_max = SL_DATA_FILES,
    .sniff = llmc_sniff,
    .open = llmc_open,
    .fill = sl_data_token_set_fill,
    .late = true,
    .describe = sl_data_token_set_describe,
    .close = sl_data_token_set_close,
};

const struct sl_data_kind sl_data_u16 = {
    .name = "u16",
    .brief = "uint16 tokens without a header, as nanoGPT writes them",
    .offers = TOKEN_OFFERS,
    .suffixes = ".bin",
    .ordered = true,
    .files_max = SL_DATA_FILES,
    .open = u16_open,
    .fill = sl_data_token_set_fill,
    .late = true,
    .describe = sl_data_token_set_describe,
    .close = sl_data_token_set_close,
};

const struct sl_data_kind sl_data_u32 = {
    .name = "u32",
    .brief = "uint32 tokens without a header",
    .offers = TOKEN_OFFERS,
    .suffixes = "",
    .ordered = true,
    .files_max = SL_DATA_FILES,
    .open = u32_open,
    .fill = sl_data_token_set_fill,
    .late = true,
    .describe = sl_data_token_set_describe,
    .close = sl_data_token_set_close,
};
