/* The table of normalizers. */
#include "tokenizer/bytes.h"
#include "tokenizer/chars.h"
#include "tokenizer/own.h"

#include <utf8proc.h>

/* ---- normal forms ---- */

enum { SEGMENT = 256 };

/* Normalises a segment that begins and ends where no character interacts with its neighbour. */
static void put_form(struct sl_str in, utf8proc_option_t options, struct sl_text *out) {
    utf8proc_int32_t small[SEGMENT], *code = small;
    utf8proc_ssize_t room = SEGMENT, count;
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)in.at;
    utf8proc_ssize_t length = (utf8proc_ssize_t)in.length;
    count = utf8proc_decompose(bytes, length, code, room, options);
    if (count > room) {
        room = count;
        code = sl_realloc(NULL, sizeof *code * (size_t)room);
        count = utf8proc_decompose(bytes, length, code, room, options);
    }
    SL_ASSERT(count >= 0 && count <= room);
    count = utf8proc_normalize_utf32(code, count, options);
    for (utf8proc_ssize_t i = 0; i < count; i++)
        sl_tokenizer_text_put_char(out, (uint32_t)code[i]);
    if (code != small)
        free(code);
}

/* Are all characters below U+0300? NFC does not change these. */
static bool is_composed(struct sl_str in) {
    for (size_t i = 0; i < in.length; i++)
        if ((unsigned char)in.at[i] >= 0xcc)
            return false;
    return true;
}

/* Applies a normal form. Only runs without ASCII, with the ASCII character before each, are
 * examined. */
static bool apply_form(const struct sl_tokenizer_step *step, struct sl_str in,
                       struct sl_text *out) {
    utf8proc_option_t options = (utf8proc_option_t)step->op->form;
    size_t at = sl_tokenizer_ascii_bytes(in.at, in.length), copied = 0;
    if (at == in.length)
        return false;
    while (at < in.length) {
        size_t from = at ? at - 1 : 0, end = at;
        while (end < in.length && (unsigned char)in.at[end] >= 0x80)
            end++;
        struct sl_str run = {in.at + from, end - from};
        if (!(options & UTF8PROC_COMPOSE) || options & UTF8PROC_COMPAT || !is_composed(run)) {
            sl_text_put_bytes(out, in.at + copied, from - copied);
            put_form(run, options, out);
            copied = end;
        }
        at = end + sl_tokenizer_ascii_bytes(in.at + end, in.length - end);
    }
    sl_text_put_bytes(out, in.at + copied, in.length - copied);
    return true;
}

/* ---- characters ---- */

/* Returns the lower case of letters that are newer than the tables of utf8proc 2.8 (Unicode 17). */
static uint32_t newer_lower(uint32_t code) {
    static const struct {
        uint32_t low, high;
        int32_t add;
    } rows[] = {
        {0x1c89, 0x1c89, 1},    {0xa7cb, 0xa7cb, 0x264 - 0xa7cb},
        {0xa7cc, 0xa7cc, 1},    {0xa7ce, 0xa7ce, 1},
        {0xa7d2, 0xa7d2, 1},    {0xa7d4, 0xa7d4, 1},
        {0xa7da, 0xa7da, 1},    {0xa7dc, 0xa7dc, 0x19b - 0xa7dc},
        {0x10d50, 0x10d65, 32}, {0x16ea0, 0x16eb8, 27},
    };
    for (int i = 0; i < SL_COUNT(rows); i++)
        if (code >= rows[i].low && code <= rows[i].high)
            return (uint32_t)((int32_t)code + rows[i].add);
    return code;
}

static void put_lower(struct sl_text *out, uint32_t code) {
    enum { DOTTED_I = 0x130, DOT_ABOVE = 0x307 };
    uint32_t newer = newer_lower(code);
    if (newer != code) {
        sl_tokenizer_text_put_char(out, newer);
    } else if (code == DOTTED_I) {
        sl_text_put(out, "i");
        sl_tokenizer_text_put_char(out, DOT_ABOVE);
    } else {
        sl_tokenizer_text_put_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
    }
}

/* Converts leading ASCII characters to lower case. */
static size_t lower_ascii(struct sl_str in, struct sl_text *out) {
    size_t n = sl_tokenizer_ascii_bytes(in.at, in.length);
    sl_text_put_bytes(out, in.at, n);
    for (char *at = out->at + out->length - n; at < out->at + out->length; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at + 32);
    return n;
}

static bool apply_lower(const struct sl_tokenizer_step *step, struct sl_str in,
                        struct sl_text *out) {
    uint32_t code;
    (void)step;
    for (size_t at = 0; at < in.length;) {
        at += lower_ascii((struct sl_str){in.at + at, in.length - at}, out);
        while (at < in.length && (unsigned char)in.at[at] >= 0x80) {
            at += (size_t)sl_tokenizer_char(in.at + at, &code);
            put_lower(out, code);
        }
    }
    return true;
}

/* Copies the characters that `drop` does not reject. */
static bool filter(struct sl_str in, bool (*drop)(uint32_t), struct sl_text *out) {
    size_t copied = 0;
    uint32_t code;
    for (size_t at = 0; at < in.length;) {
        size_t from = at;
        at += (size_t)sl_tokenizer_char(in.at + at, &code);
        if (code >= 0x80 && drop(code)) {
            sl_text_put_bytes(out, in.at + copied, from - copied);
            copied = at;
        }
    }
    sl_text_put_bytes(out, in.at + copied, in.length - copied);
    return true;
}

static bool apply_strip_accents(const struct sl_tokenizer_step *step, struct sl_str in,
                                struct sl_text *out) {
    (void)step;
    return sl_tokenizer_ascii_bytes(in.at, in.length) < in.length &&
           filter(in, sl_tokenizer_is_mark, out);
}

static bool is_nmt_dropped(uint32_t c) {
    return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
           c == 0x9f;
}

static bool is_nmt_blank(uint32_t c) {
    return c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
           (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xfeff || c == 0xfffd;
}

static bool apply_nmt(const struct sl_tokenizer_step *step, struct sl_str in, struct sl_text *out) {
    uint32_t code;
    (void)step;
    for (size_t at = 0; at < in.length;) {
        size_t n = (size_t)sl_tokenizer_char(in.at + at, &code);
        if (is_nmt_blank(code))
            sl_text_put(out, " ");
        else if (!is_nmt_dropped(code))
            sl_text_put_bytes(out, in.at + at, n);
        at += n;
    }
    return true;
}

static bool apply_byte_level(const struct sl_tokenizer_step *step, struct sl_str in,
                             struct sl_text *out) {
    (void)step;
    sl_tokenizer_from_bytes(in.at, in.length, out);
    return true;
}

/* ---- BERT ---- */

enum { CLEAN, CHINESE, ACCENTS, LOWER }; /* flags */

static bool is_chinese(uint32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static void clean_char(const struct sl_tokenizer_step *step, uint32_t code, struct sl_text *out) {
    bool blank = sl_tokenizer_is_space(code);
    bool line = code == '\t' || code == '\n' || code == '\r';
    if (step->flag[CLEAN] && (!code || code == 0xfffd || (!line && sl_tokenizer_is_other(code))))
        return;
    if (step->flag[CLEAN] && blank)
        code = ' ';
    bool apart = step->flag[CHINESE] && is_chinese(code);
    sl_text_put(out, apart ? " " : "");
    sl_tokenizer_text_put_char(out, code);
    sl_text_put(out, apart ? " " : "");
}

static bool apply_bert(const struct sl_tokenizer_step *step, struct sl_str in,
                       struct sl_text *out) {
    static const struct sl_tokenizer_op nfd = {.form = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE};
    static const struct sl_tokenizer_step decompose = {.op = &nfd};
    struct sl_text a = {0}, b = {0};
    uint32_t code;
    sl_text_put(&a, "");
    for (size_t at = 0; at < in.length;) {
        if (in.at[at] >= ' ' && in.at[at] < 0x7f) {
            size_t from = at;
            while (at < in.length && in.at[at] >= ' ' && in.at[at] < 0x7f)
                at++;
            sl_text_put_bytes(&a, in.at + from, at - from);
            continue;
        }
        at += (size_t)sl_tokenizer_char(in.at + at, &code);
        clean_char(step, code, &a);
    }
    if (step->flag[ACCENTS] && apply_form(&decompose, (struct sl_str){a.at, a.length}, &b)) {
        a.length = 0;
        filter((struct sl_str){b.at, b.length}, sl_tokenizer_is_nonspacing, &a);
    }
    if (step->flag[LOWER])
        apply_lower(step, (struct sl_str){a.at, a.length}, out);
    else
        sl_text_put_bytes(out, a.at, a.length);
    sl_text_free(&a);
    sl_text_free(&b);
    return true;
}

static sl_err read_bert(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                        struct sl_tokenizer_step *step) {
    (void)t;
    step->flag[CLEAN] = step->flag[CHINESE] = step->flag[LOWER] = true;
    SL_TRY(sl_tokenizer_field_bool(f, 0, &step->flag[CLEAN]));
    SL_TRY(sl_tokenizer_field_bool(f, 1, &step->flag[CHINESE]));
    SL_TRY(sl_tokenizer_field_bool(f, 3, &step->flag[LOWER]));
    step->flag[ACCENTS] = step->flag[LOWER];
    return sl_tokenizer_field_bool(f, 2, &step->flag[ACCENTS]);
}

/* ---- replacements ---- */

static sl_err read_replace(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                           struct sl_tokenizer_step *step) {
    if (!f->has[0])
        return sl_tokenizer_field_missing(f, 0, &f->at[0]);
    SL_TRY(sl_tokenizer_field_pattern(f, 0, t, step));
    if (!step->pattern.length)
        return sl_json_fail(&f->at[0], "an empty pattern");
    step->content = SL_STR("");
    SL_TRY(sl_tokenizer_field_string(f, 1, &t->arena, &step->content));
    step->growth = sl_tokenizer_replace_growth(step);
    return SL_OK;
}

int64_t sl_tokenizer_replace_growth(const struct sl_tokenizer_step *step) {
    /* a regular expression may match the empty string between any two bytes */
    int64_t length = (int64_t)step->content.length;
    return step->regex ? length + 1 : length / (int64_t)step->pattern.length + 1;
}

static const char *find_string(const char *at, const char *end, struct sl_str pattern) {
    while ((size_t)(end - at) >= pattern.length) {
        at = memchr(at, pattern.at[0], (size_t)(end - at) - pattern.length + 1);
        if (!at || memcmp(at, pattern.at, pattern.length) == 0)
            return at;
        at++;
    }
    return NULL;
}

static bool replace_regex(const struct sl_tokenizer_step *step, struct sl_str in,
                          struct sl_text *out) {
    struct sl_tokenizer_span found;
    void *match = NULL;
    size_t copied = 0, from = 0;
    while (from <= in.length && sl_tokenizer_regex_find(step->regex, &match, in, from, &found)) {
        sl_text_put_bytes(out, in.at + copied, found.from - copied);
        sl_text_put_bytes(out, step->content.at, step->content.length);
        copied = from = found.to;
        if (found.to == found.from) /* after an empty match, continue after the next character */
            from += from < in.length ? (size_t)sl_tokenizer_char_bytes(in.at[from]) : 1;
    }
    sl_tokenizer_match_close(match);
    sl_text_put_bytes(out, in.at + copied, in.length - copied);
    return true;
}

bool sl_tokenizer_replace(const struct sl_tokenizer_step *step, struct sl_str in,
                          struct sl_text *out) {
    const char *at = in.at, *end = in.at + in.length, *found;
    if (!in.length)
        return false;
    if (step->regex)
        return replace_regex(step, in, out);
    if (!(found = find_string(at, end, step->pattern)))
        return false;
    for (; found; found = find_string(at, end, step->pattern)) {
        sl_text_put_bytes(out, at, (size_t)(found - at));
        sl_text_put_bytes(out, step->content.at, step->content.length);
        at = found + step->pattern.length;
    }
    sl_text_put_bytes(out, at, (size_t)(end - at));
    return true;
}

static sl_err read_prepend(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                           struct sl_tokenizer_step *step) {
    enum { PREPEND_MAX = 64 };
    step->content = SL_STR("");
    SL_TRY(sl_tokenizer_field_string(f, 0, &t->arena, &step->content));
    return step->content.length <= PREPEND_MAX
               ? SL_OK
               : sl_json_fail(&f->at[0], "more than %d bytes in front of a text", PREPEND_MAX);
}

static bool apply_prepend(const struct sl_tokenizer_step *step, struct sl_str in,
                          struct sl_text *out) {
    if (!in.length)
        return false;
    sl_text_put_bytes(out, step->content.at, step->content.length);
    sl_text_put_bytes(out, in.at, in.length);
    return true;
}

static sl_err read_strip(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                         struct sl_tokenizer_step *step) {
    (void)t;
    SL_TRY(sl_tokenizer_field_bool(f, 0, &step->flag[0]));
    return sl_tokenizer_field_bool(f, 1, &step->flag[1]);
}

static bool apply_strip(const struct sl_tokenizer_step *step, struct sl_str in,
                        struct sl_text *out) {
    size_t from = 0, to = in.length;
    uint32_t code;
    while (step->flag[0] && from < to) {
        int n = sl_tokenizer_char(in.at + from, &code);
        if (!sl_tokenizer_is_space(code))
            break;
        from += (size_t)n;
    }
    while (step->flag[1] && to > from) {
        size_t last = to - 1;
        while (((unsigned char)in.at[last] & 0xc0) == 0x80)
            last--;
        sl_tokenizer_char(in.at + last, &code);
        if (!sl_tokenizer_is_space(code))
            break;
        to = last;
    }
    sl_text_put_bytes(out, in.at + from, to - from);
    return true;
}

static sl_err read_precompiled(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                               struct sl_tokenizer_step *step) {
    if (!f->has[0])
        return sl_tokenizer_field_missing(f, 0, &f->at[0]);
    step->growth = 32; /* a few entries are longer, but no text consists of these alone */
    return sl_tokenizer_charsmap_read(t, &f->at[0], &step->charsmap);
}

static bool apply_precompiled(const struct sl_tokenizer_step *step, struct sl_str in,
                              struct sl_text *out) {
    return sl_tokenizer_charsmap_apply(step->charsmap, in, out);
}

static const struct sl_tokenizer_op ops[] = {
    {.name = "BertNormalizer",
     .keys = "clean_text handle_chinese_chars strip_accents lowercase",
     .read = read_bert,
     .normalize = apply_bert},
    {.name = "ByteLevel", .keys = "", .normalize = apply_byte_level},
    {.name = "Lowercase", .keys = "", .normalize = apply_lower},
    {.name = "NFC",
     .keys = "",
     .normalize = apply_form,
     .form = UTF8PROC_STABLE | UTF8PROC_COMPOSE},
    {.name = "NFD",
     .keys = "",
     .normalize = apply_form,
     .form = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
    {.name = "NFKC",
     .keys = "",
     .normalize = apply_form,
     .form = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {.name = "NFKD",
     .keys = "",
     .normalize = apply_form,
     .form = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
    {.name = "Nmt", .keys = "", .normalize = apply_nmt},
    {.name = "Precompiled",
     .keys = "precompiled_charsmap",
     .read = read_precompiled,
     .normalize = apply_precompiled},
    {.name = "Prepend", .keys = "prepend", .read = read_prepend, .normalize = apply_prepend},
    {.name = "Replace",
     .keys = "pattern content",
     .read = read_replace,
     .normalize = sl_tokenizer_replace},
    {.name = "Sequence", .list = "normalizers"},
    {.name = "Strip",
     .keys = "strip_left strip_right",
     .read = read_strip,
     .normalize = apply_strip},
    {.name = "StripAccents", .keys = "", .normalize = apply_strip_accents},
    {0},
};

const struct sl_tokenizer_table sl_tokenizer_normalizers = {"normalizer", ops};

void sl_tokenizer_normalize(const struct sl_tokenizer *t, struct sl_str in, struct sl_text *out) {
    struct sl_text text[2] = {{0}, {0}};
    int turn = 0;
    for (int64_t i = 0; i < t->normalizer.count; i++) {
        const struct sl_tokenizer_step *step = &t->normalizer.at[i];
        text[turn].length = 0;
        sl_text_put(&text[turn], "");
        if (!step->op->normalize(step, in, &text[turn]))
            continue;
        in = (struct sl_str){text[turn].at, text[turn].length};
        turn ^= 1;
    }
    sl_text_put_bytes(out, in.at, in.length);
    sl_text_free(&text[0]);
    sl_text_free(&text[1]);
}
