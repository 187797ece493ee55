/* Plain text. Without a tokenizer, bytes are read from the file on demand. With one, opening
 * encodes the text and keeps the tokens packed (2 bytes per token for up to 65,536 ids, else 4).
 * Long texts are split where that does not change the tokens, and encoded in parallel. */
#include "base/par.h"
#include "base/vec.h"
#include "data/source.h"

#include <string.h>

enum { PIECE_BYTES = 1 << 18, PIECES = 16 };

struct piece {
    const struct sl_tokenizer *tokenizer;
    const char *text;
    size_t length;
    struct sl_tokens tokens;
};

struct packer {
    const struct sl_tokenizer *tokenizer;
    int width;
    SL_VEC(unsigned char) out;
    int threads;
};

static void encode_piece(void *ctx, int64_t i) {
    struct piece *piece = (struct piece *)ctx + i;
    piece->tokens.count = 0;
    sl_tokenizer_encode(piece->tokenizer, piece->text, piece->length, SL_TOKENIZER_MATCH,
                        &piece->tokens);
}

static void pack(struct packer *p, const struct sl_tokens *tokens) {
    /* grows by half, which bounds the unused memory */
    int64_t need = p->out.count + tokens->count * p->width;
    if (need > p->out.room) {
        p->out.room = need + need / 2;
        p->out.at = sl_realloc(p->out.at, (size_t)p->out.room);
    }
    for (int64_t i = 0; i < tokens->count; i++)
        for (int b = 0; b < p->width; b++)
            p->out.at[p->out.count++] = (unsigned char)((uint32_t)tokens->at[i] >> (8 * b));
}

static void encode_text(struct packer *p, const char *text, size_t length) {
    struct piece pieces[PIECES] = {{0}};
    size_t at = 0;
    while (at < length) {
        int count = 0;
        for (; count < PIECES && at < length; count++) {
            size_t end = sl_tokenizer_cut(p->tokenizer, text, length,
                                          length - at > PIECE_BYTES ? at + PIECE_BYTES : length);
            pieces[count].tokenizer = p->tokenizer;
            pieces[count].text = text + at;
            pieces[count].length = end - at;
            at = end;
        }
        sl_par_for(count, p->threads, encode_piece, pieces);
        for (int i = 0; i < count; i++)
            pack(p, &pieces[i].tokens);
    }
    for (int i = 0; i < PIECES; i++)
        SL_VEC_FREE(&pieces[i].tokens);
}

static sl_err encode_files(struct sl_data *data, const struct sl_data_spec *spec,
                           struct sl_token_set *set) {
    struct packer p = {.tokenizer = data->tokenizer, .threads = spec->threads};
    sl_err err = SL_OK;
    p.width = sl_tokenizer_vocab(data->tokenizer) <= 65536 ? 2 : 4;
    for (int i = 0; i < data->blob_count; i++) {
        struct sl_blob *blob = &data->blob[i];
        struct sl_token_shard *shard = &set->shard[i];
        SL_TRY_OUT(sl_data_blob_load(blob));
        shard->blob = &set->packed;
        shard->width = p.width;
        shard->offset_bytes = p.out.count;
        encode_text(&p, (const char *)blob->at, (size_t)blob->size_bytes);
        shard->count = (p.out.count - shard->offset_bytes) / p.width;
        uint64_t print = blob->print;
        const char *name = blob->name;
        sl_data_blob_close(blob); /* the text is no longer needed */
        blob->name = name;
        blob->print = print;
    }
    p.out.at = sl_realloc(p.out.at, (size_t)p.out.count);
    set->packed = (struct sl_blob){.name = data->blob[0].name,
                                   .at = p.out.at,
                                   .owned = p.out.at,
                                   .size_bytes = p.out.count,
                                   .fd = -1};
    data->own_bytes = p.out.count;
out:
    if (err != SL_OK)
        SL_VEC_FREE(&p.out);
    return err;
}

/* Refuses JSON lines, which are never trained as raw text. */
static sl_err refuse_lines(const char *name) {
    static const char *const ends[] = {".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz"};
    size_t length = strlen(name);
    for (int i = 0; i < SL_COUNT(ends); i++)
        if (length >= strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0)
            return sl_fail(SL_ERR_INPUT,
                           "%s: JSON lines are not plain text; leave out text: to train on their "
                           "`text` or `messages`",
                           name);
    return SL_OK;
}

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct sl_token_set *set = SL_NEW(&data->arena, struct sl_token_set, 1);
    data->state = set;
    set->packed.fd = -1;
    set->shard_count = data->blob_count;
    set->shard = SL_NEW(&data->arena, struct sl_token_shard, data->blob_count);
    for (int i = 0; i < data->blob_count; i++) {
        struct sl_blob *blob = &data->blob[i];
        SL_TRY(refuse_lines(blob->name));
        SL_TRY(sl_data_blob_inflate(blob));
        if (!blob->size_bytes)
            return sl_fail(SL_ERR_INPUT, "%s: is empty, expected text", blob->name);
        set->shard[i] =
            (struct sl_token_shard){.blob = blob, .count = blob->size_bytes, .width = 1};
    }
    if (spec->tokenizer)
        SL_TRY(encode_files(data, spec, set));
    else if (!data->tokenizer)
        SL_TRY(sl_tokenizer_open(NULL, &data->tokenizer));
    return sl_data_token_set_open(data, spec, set);
}

const struct sl_data_kind sl_data_text = {
    .name = "text",
    .brief = "text: bytes, or the tokens of a tokenizer (gzip too)",
    .offers = "tokens and targets of one length, mask, segments, positions, row",
    .suffixes = ".txt.md.text",
    .ordered = true,
    .files_max = SL_DATA_FILES,
    .open = open_set,
    .fill = sl_data_token_set_fill,
    .late = true,
    .describe = sl_data_token_set_describe,
    .close = sl_data_token_set_close,
};
