/* Megatron's indexed sets: X.idx is the index of the sequences in X.bin.
 *
 *   X.idx  "MMIDIDX\0\0" u64 version=1  u8 type  u64 sequences  u64 documents
 *          i32 length[sequences]  i64 offset[sequences]  i64 document[documents]
 *   X.bin  tokens of all sequences, one after another
 *
 * The index is checked and then dropped: windows run over the whole stream, as in Megatron's GPT
 * data set within an epoch. Megatron shuffles documents too; Sluice shuffles windows.
 */
#include "data/source.h"

#include <string.h>

enum { HEADER_BYTES = 9 + 8 + 1 + 8 + 8 };

static const char magic[9] = "MMIDIDX\0"; /* 9 bytes, with the terminator */

struct index {
    const struct sl_blob *idx, *bin;
    int width;
    bool is_signed;
    int64_t sequences, documents;
};

static bool sniff(const unsigned char *head, int64_t length) {
    return length >= 9 && memcmp(head, magic, 9) == 0;
}

/* Returns the length of the path without .bin or .idx. */
static size_t stem_of(const char *path) {
    size_t length = strlen(path);
    if (length > 4 &&
        (strcmp(path + length - 4, ".bin") == 0 || strcmp(path + length - 4, ".idx") == 0))
        return length - 4;
    return length;
}

static void expand(struct sl_data *data, const char *path) {
    int stem = (int)stem_of(path);
    sl_data_add_file(data, sl_arena_printf(&data->arena, "%.*s.idx", stem, path));
    sl_data_add_file(data, sl_arena_printf(&data->arena, "%.*s.bin", stem, path));
}

static sl_err read_type(struct index *index, int code) {
    static const struct {
        int code, width;
        bool is_signed;
    } types[] = {{1, 1, false}, {2, 1, true}, {3, 2, true},
                 {4, 4, true},  {5, 8, true}, {8, 2, false}};
    for (int i = 0; i < SL_COUNT(types); i++)
        if (types[i].code == code) {
            index->width = types[i].width;
            index->is_signed = types[i].is_signed;
            return SL_OK;
        }
    return sl_fail(SL_ERR_INPUT,
                   "%s: type code %d is not a type of tokens (1 u8, 2 i8, 3 i16, 4 "
                   "i32, 5 i64, 8 u16)",
                   index->idx->name, code);
}

static sl_err read_header(struct index *index) {
    const struct sl_blob *idx = index->idx;
    unsigned char head[HEADER_BYTES];
    if (idx->size_bytes < HEADER_BYTES)
        return sl_fail(SL_ERR_INPUT, "%s: %lld bytes; a Megatron index has at least %d", idx->name,
                       (long long)idx->size_bytes, HEADER_BYTES);
    SL_TRY(sl_data_blob_read(idx, 0, head, HEADER_BYTES));
    if (!sniff(head, HEADER_BYTES))
        return sl_fail(SL_ERR_INPUT, "%s: does not start with MMIDIDX: not a Megatron index",
                       idx->name);
    if (sl_le64(head + 9) != 1)
        return sl_fail(SL_ERR_INPUT, "%s: version %llu of the index, only 1 is known", idx->name,
                       (unsigned long long)sl_le64(head + 9));
    SL_TRY(read_type(index, head[17]));
    uint64_t sequences = sl_le64(head + 18), documents = sl_le64(head + 26);
    uint64_t max = (uint64_t)idx->size_bytes;
    /* newer versions may append a mode per sequence */
    bool fits = sequences <= max / 12 && documents <= max / 8 &&
                HEADER_BYTES + sequences * 12 + documents * 8 <= max &&
                max - (HEADER_BYTES + sequences * 12 + documents * 8) <= sequences;
    if (!fits)
        return sl_fail(SL_ERR_INPUT,
                       "%s: %lld bytes do not fit %llu sequences and %llu documents, "
                       "which the header states: truncated?",
                       idx->name, (long long)idx->size_bytes, (unsigned long long)sequences,
                       (unsigned long long)documents);
    index->sequences = (int64_t)sequences;
    index->documents = (int64_t)documents;
    return SL_OK;
}

/* Checks that lengths and offsets cover the .bin file exactly. */
static sl_err check_sequences(const struct index *index, int64_t *tokens) {
    enum { PART = 512 };
    unsigned char length[PART * 4], offset[PART * 8];
    int64_t expected = 0, max = index->bin->size_bytes / index->width;
    for (int64_t at = 0; at < index->sequences; at += PART) {
        int64_t part = index->sequences - at < PART ? index->sequences - at : PART;
        SL_TRY(sl_data_blob_read(index->idx, HEADER_BYTES + at * 4, length, part * 4));
        SL_TRY(sl_data_blob_read(index->idx, HEADER_BYTES + index->sequences * 4 + at * 8, offset,
                                 part * 8));
        for (int64_t i = 0; i < part; i++) {
            int64_t count = (int32_t)sl_le32(length + i * 4);
            if (count < 0 || (int64_t)sl_le64(offset + i * 8) != expected * index->width ||
                count > max - expected)
                return sl_fail(SL_ERR_INPUT,
                               "%s: sequence %lld (%lld tokens at byte %lld) does not follow the "
                               "one before it inside %s of %lld bytes",
                               index->idx->name, (long long)at + i, (long long)count,
                               (long long)sl_le64(offset + i * 8), index->bin->name,
                               (long long)index->bin->size_bytes);
            expected += count;
        }
    }
    if (expected * index->width != index->bin->size_bytes)
        return sl_fail(SL_ERR_INPUT, "%s: %lld bytes, its index states %lld", index->bin->name,
                       (long long)index->bin->size_bytes, (long long)expected * index->width);
    *tokens = expected;
    return SL_OK;
}

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct sl_token_set *set = SL_NEW(&data->arena, struct sl_token_set, 1);
    data->state = set;
    set->packed.fd = -1;
    if (data->blob_count % 2)
        return sl_fail(SL_ERR_INPUT, "a Megatron set is pairs of .idx and .bin");
    set->shard_count = data->blob_count / 2;
    set->shard = SL_NEW(&data->arena, struct sl_token_shard, set->shard_count);
    for (int i = 0; i < set->shard_count; i++) {
        struct index index = {.idx = &data->blob[2 * i], .bin = &data->blob[2 * i + 1], .width = 1};
        int64_t tokens;
        SL_TRY(read_header(&index));
        SL_TRY(check_sequences(&index, &tokens));
        set->shard[i] = (struct sl_token_shard){
            .blob = index.bin, .count = tokens, .width = index.width, .is_signed = index.is_signed};
    }
    return sl_data_token_set_open(data, spec, set);
}

const struct sl_data_kind sl_data_megatron = {
    .name = "megatron",
    .brief = "Megatron-LM's .bin and .idx",
    .offers = "tokens and targets of one length, mask, segments, positions, row",
    .suffixes = ".idx",
    .ordered = true,
    .files_max = SL_DATA_FILES,
    .sniff = sniff,
    .expand = expand,
    .open = open_set,
    .fill = sl_data_token_set_fill,
    .late = true,
    .describe = sl_data_token_set_describe,
    .close = sl_data_token_set_close,
};
