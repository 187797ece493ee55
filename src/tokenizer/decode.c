/* Decoding: the texts of the tokens pass through the decoders as a list of strings. */
#include "tokenizer/bytes.h"
#include "tokenizer/chars.h"
#include "tokenizer/own.h"

#include <ctype.h>

void sl_tokenizer_strings_put(struct sl_tokenizer_strings *list, const char *at, size_t length) {
    sl_text_put_bytes(&list->text, at, length);
}

void sl_tokenizer_strings_end(struct sl_tokenizer_strings *list) {
    SL_PUSH(&list->end, list->text.length);
}

static struct sl_str string_at(const struct sl_tokenizer_strings *list, int64_t i) {
    size_t from = i ? list->end.at[i - 1] : 0;
    return (struct sl_str){list->text.at + from, list->end.at[i] - from};
}

static void put(struct sl_tokenizer_strings *out, struct sl_str s) {
    sl_tokenizer_strings_put(out, s.at, s.length);
}

/* ---- decoders ---- */

static void decode_byte_level(const struct sl_tokenizer_step *step,
                              const struct sl_tokenizer_strings *in,
                              struct sl_tokenizer_strings *out) {
    struct sl_text bytes = {0};
    (void)step;
    sl_text_put(&bytes, "");
    for (int64_t i = 0; i < in->end.count; i++) {
        struct sl_str s = string_at(in, i);
        size_t from = bytes.length;
        sl_text_put_bytes(&bytes, s.at, s.length);
        if (sl_tokenizer_to_bytes(bytes.at + from, &s.length))
            bytes.length = from + s.length;
    }
    sl_tokenizer_repair(bytes.at, bytes.length, &out->text);
    sl_tokenizer_strings_end(out);
    sl_text_free(&bytes);
}

/* Returns the byte of "<0x41>", or -1. */
static int fallback_byte(struct sl_str s) {
    char hex[3] = {0};
    if (s.length != 6 || memcmp(s.at, "<0x", 3) != 0 || s.at[5] != '>' ||
        !isxdigit((unsigned char)s.at[3]) || !isxdigit((unsigned char)s.at[4]))
        return -1;
    memcpy(hex, s.at + 3, 2);
    return (int)strtol(hex, NULL, 16);
}

static void flush_bytes(struct sl_text *bytes, struct sl_tokenizer_strings *out) {
    if (!bytes->length)
        return;
    bool valid = sl_tokenizer_is_utf8(bytes->at, bytes->length);
    if (valid)
        sl_tokenizer_strings_put(out, bytes->at, bytes->length);
    for (size_t i = 0; i < bytes->length && !valid; i++) {
        sl_tokenizer_strings_put(out, "\xef\xbf\xbd", 3);
        if (i + 1 < bytes->length)
            sl_tokenizer_strings_end(out);
    }
    sl_tokenizer_strings_end(out);
    bytes->length = 0;
}

static void decode_byte_fallback(const struct sl_tokenizer_step *step,
                                 const struct sl_tokenizer_strings *in,
                                 struct sl_tokenizer_strings *out) {
    struct sl_text bytes = {0};
    (void)step;
    for (int64_t i = 0; i < in->end.count; i++) {
        struct sl_str s = string_at(in, i);
        int value = fallback_byte(s);
        if (value >= 0) {
            char byte = (char)value;
            sl_text_put_bytes(&bytes, &byte, 1);
            continue;
        }
        flush_bytes(&bytes, out);
        put(out, s);
        sl_tokenizer_strings_end(out);
    }
    flush_bytes(&bytes, out);
    sl_text_free(&bytes);
}

/* Appends `s` with every `old` replaced. */
static void replace_all(struct sl_str s, struct sl_str old, struct sl_str fresh,
                        struct sl_text *out) {
    struct sl_tokenizer_step step = {.pattern = old, .content = fresh};
    if (!old.length || !sl_tokenizer_replace(&step, s, out))
        sl_text_put_bytes(out, s.at, s.length);
}

/* Removes blanks that WordPiece and CTC leave in front of punctuation. */
static void clean_up(struct sl_text *text, size_t from) {
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    struct sl_text copy = {0};
    bool needs = false;
    for (size_t i = from; i + 1 < text->length; i++)
        needs |= text->at[i] == ' ' && strchr(".?!,'nd", text->at[i + 1]);
    if (!needs)
        return;
    for (int i = 0; i < SL_COUNT(pairs); i++) {
        copy.length = 0;
        replace_all((struct sl_str){text->at + from, text->length - from}, sl_str(pairs[i][0]),
                    sl_str(pairs[i][1]), &copy);
        text->length = from;
        sl_text_put_bytes(text, copy.at, copy.length);
    }
    sl_text_free(&copy);
}

static sl_err read_wordpiece(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                             struct sl_tokenizer_step *step) {
    step->pattern = SL_STR("##");
    step->flag[0] = true;
    SL_TRY(sl_tokenizer_field_string(f, 0, &t->arena, &step->pattern));
    return sl_tokenizer_field_bool(f, 1, &step->flag[0]);
}

static void decode_wordpiece(const struct sl_tokenizer_step *step,
                             const struct sl_tokenizer_strings *in,
                             struct sl_tokenizer_strings *out) {
    struct sl_str prefix = step->pattern;
    for (int64_t i = 0; i < in->end.count; i++) {
        struct sl_str s = string_at(in, i);
        size_t from = out->text.length;
        bool continues = s.length >= prefix.length &&
                         (!prefix.length || memcmp(s.at, prefix.at, prefix.length) == 0);
        if (i > 0 && continues)
            s = (struct sl_str){s.at + prefix.length, s.length - prefix.length};
        else if (i > 0)
            sl_tokenizer_strings_put(out, " ", 1);
        put(out, s);
        if (step->flag[0] && out->text.length > from)
            clean_up(&out->text, from);
        sl_tokenizer_strings_end(out);
    }
}

static void decode_metaspace(const struct sl_tokenizer_step *step,
                             const struct sl_tokenizer_strings *in,
                             struct sl_tokenizer_strings *out) {
    for (int64_t i = 0; i < in->end.count; i++) {
        bool dropped = i == 0 && step->number[0] != SL_TOKENIZER_NEVER;
        replace_all(string_at(in, i), step->content, dropped ? SL_STR("") : SL_STR(" "),
                    &out->text);
        sl_tokenizer_strings_end(out);
    }
}

static sl_err read_suffix(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                          struct sl_tokenizer_step *step) {
    step->pattern = SL_STR("</w>");
    return sl_tokenizer_field_string(f, 0, &t->arena, &step->pattern);
}

static void decode_bpe(const struct sl_tokenizer_step *step, const struct sl_tokenizer_strings *in,
                       struct sl_tokenizer_strings *out) {
    for (int64_t i = 0; i < in->end.count; i++) {
        replace_all(string_at(in, i), step->pattern,
                    i + 1 < in->end.count ? SL_STR(" ") : SL_STR(""), &out->text);
        sl_tokenizer_strings_end(out);
    }
}

static void decode_fuse(const struct sl_tokenizer_step *step, const struct sl_tokenizer_strings *in,
                        struct sl_tokenizer_strings *out) {
    (void)step;
    sl_tokenizer_strings_put(out, in->text.at, in->text.length);
    sl_tokenizer_strings_end(out);
}

static sl_err read_strip(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                         struct sl_tokenizer_step *step) {
    step->content = SL_STR(" ");
    SL_TRY(sl_tokenizer_field_string(f, 0, &t->arena, &step->content));
    SL_TRY(sl_tokenizer_field_int(f, 1, 1 << 20, &step->number[0]));
    return sl_tokenizer_field_int(f, 2, 1 << 20, &step->number[1]);
}

static void decode_strip(const struct sl_tokenizer_step *step,
                         const struct sl_tokenizer_strings *in, struct sl_tokenizer_strings *out) {
    struct sl_str c = step->content;
    for (int64_t i = 0; i < in->end.count; i++) {
        struct sl_str s = string_at(in, i);
        for (int64_t n = 0; n < step->number[0] && c.length && s.length >= c.length &&
                            memcmp(s.at, c.at, c.length) == 0;
             n++)
            s = (struct sl_str){s.at + c.length, s.length - c.length};
        for (int64_t n = 0; n < step->number[1] && c.length && s.length >= c.length &&
                            memcmp(s.at + s.length - c.length, c.at, c.length) == 0;
             n++)
            s.length -= c.length;
        put(out, s);
        sl_tokenizer_strings_end(out);
    }
}

static sl_err read_replace(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                           struct sl_tokenizer_step *step) {
    if (!f->has[0])
        return sl_tokenizer_field_missing(f, 0, &f->at[0]);
    SL_TRY(sl_tokenizer_field_pattern(f, 0, t, step));
    step->content = SL_STR("");
    SL_TRY(sl_tokenizer_field_string(f, 1, &t->arena, &step->content));
    step->growth = step->pattern.length ? sl_tokenizer_replace_growth(step) : 1;
    return SL_OK;
}

static void decode_replace(const struct sl_tokenizer_step *step,
                           const struct sl_tokenizer_strings *in,
                           struct sl_tokenizer_strings *out) {
    for (int64_t i = 0; i < in->end.count; i++) {
        struct sl_str s = string_at(in, i);
        if (!step->pattern.length || !sl_tokenizer_replace(step, s, &out->text))
            put(out, s);
        sl_tokenizer_strings_end(out);
    }
}

static sl_err read_ctc(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                       struct sl_tokenizer_step *step) {
    step->pattern = SL_STR("<pad>");
    step->content = SL_STR("|");
    step->flag[0] = true;
    SL_TRY(sl_tokenizer_field_string(f, 0, &t->arena, &step->pattern));
    SL_TRY(sl_tokenizer_field_string(f, 1, &t->arena, &step->content));
    return sl_tokenizer_field_bool(f, 2, &step->flag[0]);
}

static void decode_ctc(const struct sl_tokenizer_step *step, const struct sl_tokenizer_strings *in,
                       struct sl_tokenizer_strings *out) {
    struct sl_text copy = {0};
    for (int64_t i = 0; i < in->end.count; i++) {
        struct sl_str s = string_at(in, i);
        size_t from = out->text.length;
        if (i > 0 && sl_str_equal(s, string_at(in, i - 1)))
            continue;
        replace_all(s, step->pattern, SL_STR(""), &out->text);
        if (step->flag[0] && out->text.length > from) {
            clean_up(&out->text, from);
            copy.length = 0;
            sl_text_put_bytes(&copy, out->text.at + from, out->text.length - from);
            out->text.length = from;
            replace_all((struct sl_str){copy.at, copy.length}, step->content, SL_STR(" "),
                        &out->text);
        }
        if (out->text.length > from)
            sl_tokenizer_strings_end(out);
    }
    sl_text_free(&copy);
}

static const struct sl_tokenizer_op ops[] = {
    {.name = "BPEDecoder", .keys = "suffix", .read = read_suffix, .decode = decode_bpe},
    {.name = "ByteFallback", .keys = "", .decode = decode_byte_fallback},
    {.name = "ByteLevel",
     .keys = "add_prefix_space trim_offsets use_regex",
     .decode = decode_byte_level,
     .maps_bytes = true},
    {.name = "CTC",
     .keys = "pad_token word_delimiter_token cleanup",
     .read = read_ctc,
     .decode = decode_ctc},
    {.name = "Fuse", .keys = "", .decode = decode_fuse},
    {.name = "Metaspace",
     .keys = "replacement add_prefix_space prepend_scheme split str_rep",
     .read = sl_tokenizer_metaspace_read,
     .decode = decode_metaspace},
    {.name = "Replace", .keys = "pattern content", .read = read_replace, .decode = decode_replace},
    {.name = "Sequence", .list = "decoders"},
    {.name = "Strip", .keys = "content start stop", .read = read_strip, .decode = decode_strip},
    {.name = "WordPiece",
     .keys = "prefix cleanup",
     .read = read_wordpiece,
     .decode = decode_wordpiece},
    {0},
};

const struct sl_tokenizer_table sl_tokenizer_decoders = {"decoder", ops};

/* ---- decoding a whole text ---- */

static void strings_free(struct sl_tokenizer_strings *list) {
    sl_text_free(&list->text);
    SL_VEC_FREE(&list->end);
}

/* Joins the tokens by blanks if there is no decoder. */
static void join(const struct sl_tokenizer *t, const struct sl_tokenizer_strings *list,
                 struct sl_text *out) {
    for (int64_t i = 0; i < list->end.count; i++) {
        struct sl_str s = string_at(list, i);
        sl_text_put(out, i && !t->decoder.count ? " " : "");
        sl_text_put_bytes(out, s.at, s.length);
    }
}

void sl_tokenizer_decode(const struct sl_tokenizer *t, const int32_t *ids, int64_t count,
                         bool skip_special, struct sl_text *out) {
    struct sl_tokenizer_strings list[2] = {{{0}, {0}}, {{0}, {0}}};
    int turn = 0;
    sl_text_put(out, "");
    if (!t->model) {
        for (int64_t i = 0; i < count; i++)
            sl_text_put_bytes(out, sl_tokenizer_piece(t, ids[i]).at, ids[i] >= 0 && ids[i] < 256);
        return;
    }
    sl_text_put(&list[0].text, "");
    for (int64_t i = 0; i < count; i++) {
        bool known = ids[i] >= 0 && ids[i] < t->vocab && t->token[ids[i]].length;
        if (!known || (skip_special && t->is_special[ids[i]]))
            continue;
        sl_tokenizer_token_text(t, ids[i], &list[0].text);
        sl_tokenizer_strings_end(&list[0]);
    }
    for (int64_t i = 0; i < t->decoder.count && list[turn].end.count; i++) {
        struct sl_tokenizer_strings *next = &list[turn ^ 1];
        next->text.length = 0;
        sl_text_put(&next->text, "");
        next->end.count = 0;
        t->decoder.at[i].op->decode(&t->decoder.at[i], &list[turn], next);
        turn ^= 1;
    }
    join(t, &list[turn], out);
    strings_free(&list[0]);
    strings_free(&list[1]);
}

/* ---- pieces ---- */

/* Finds a token that decodes to something, to be put in front of another one. */
static int32_t find_leader(const struct sl_tokenizer *t, int32_t except) {
    int32_t best = -1;
    for (int32_t id = 0; id < t->vocab && id < 4096 && best < 0; id++) {
        struct sl_str s = sl_tokenizer_token_bytes(t, id);
        if (id == except || t->added_of[id] >= 0 || s.length != 1 || !isalnum((unsigned char)*s.at))
            continue;
        best = id;
    }
    return best;
}

static void put_piece(const struct sl_tokenizer *t, const int32_t *leader, int32_t id,
                      struct sl_text *out) {
    struct sl_text alone = {0}, both = {0};
    struct sl_text own = {0};
    int32_t ids[2] = {leader[0] == id ? leader[1] : leader[0], id};
    sl_text_put(&own, "");
    sl_tokenizer_token_text(t, id, &own);
    int value = t->byte_fallback ? fallback_byte((struct sl_str){own.at, own.length}) : -1;
    sl_text_free(&own);
    if (value >= 0) {
        char byte = (char)value;
        sl_text_put_bytes(out, &byte, 1);
        return;
    }
    if (ids[0] >= 0)
        sl_tokenizer_decode(t, ids, 1, false, &alone);
    sl_tokenizer_decode(t, ids[0] >= 0 ? ids : ids + 1, ids[0] >= 0 ? 2 : 1, false, &both);
    size_t skip = alone.length <= both.length &&
                          (!alone.length || memcmp(alone.at, both.at, alone.length) == 0)
                      ? alone.length
                      : 0;
    sl_text_put_bytes(out, both.at + skip, both.length - skip);
    sl_text_free(&alone);
    sl_text_free(&both);
}

void sl_tokenizer_pieces_build(struct sl_tokenizer *t) {
    int32_t leader[2];
    if (t->byte_level && t->decoder.count <= 1)
        return; /* pieces are the tokens as they are stored */
    leader[0] = find_leader(t, -1);
    leader[1] = find_leader(t, leader[0]);
    t->piece_end = sl_realloc(NULL, sizeof *t->piece_end * (size_t)(t->vocab + 1));
    t->piece_end[0] = 0;
    sl_text_put(&t->pieces, "");
    for (int64_t id = 0; id < t->vocab; id++) {
        if (t->token[id].length)
            put_piece(t, leader, (int32_t)id, &t->pieces);
        t->piece_end[id + 1] = (uint32_t)t->pieces.length;
    }
}
