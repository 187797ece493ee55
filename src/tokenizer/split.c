/* The table of pre-tokenizers: they cut the spans of a text, and some rewrite it. */
#include "tokenizer/bytes.h"
#include "tokenizer/chars.h"
#include "tokenizer/own.h"

/* ---- cutting a span at matches ---- */

/* Receives the parts of a span in order and combines them according to the behavior. */
struct cutter {
    struct sl_tokenizer_spans *out;
    enum sl_tokenizer_behavior behavior;
    bool invert, first, has_last, last_match;
    struct sl_tokenizer_span last;
};

static void flush(struct cutter *c) {
    if (c->has_last && c->last.to > c->last.from)
        SL_PUSH(c->out, c->last);
    c->has_last = false;
}

static void cut(struct cutter *c, size_t from, size_t to, bool match) {
    match ^= c->invert;
    bool joins = false;
    if (c->behavior == SL_TOKENIZER_CONTIGUOUS)
        joins = match == c->last_match;
    else if (c->behavior == SL_TOKENIZER_MERGED_WITH_PREVIOUS)
        joins = match && !c->last_match;
    else if (c->behavior == SL_TOKENIZER_MERGED_WITH_NEXT)
        joins = !match && c->last_match;
    c->last_match = match;
    if (joins && c->has_last) {
        c->last.to = to;
        return;
    }
    flush(c);
    if (match && c->behavior == SL_TOKENIZER_REMOVED)
        return;
    c->last = (struct sl_tokenizer_span){from, to, c->first};
    c->first = false;
    c->has_last = true;
}

/* Cuts one span by a step. */
typedef void cut_span(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                      struct sl_tokenizer_span span, struct cutter *c);

static void cut_all(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                    cut_span *one, struct cutter settings) {
    struct sl_tokenizer_spans old = w->spans;
    w->spans = w->old;
    w->spans.count = 0;
    w->old = old;
    for (int64_t i = 0; i < w->old.count; i++) {
        struct cutter c = settings;
        c.out = &w->spans;
        c.first = w->old.at[i].first;
        one(step, w, w->old.at[i], &c);
        flush(&c);
    }
}

static void cut_rest(struct cutter *c, size_t from, size_t to) {
    if (from < to)
        cut(c, from, to, false);
}

/* Cuts at characters for which `is` returns true. */
static void cut_chars(struct sl_tokenizer_work *w, struct sl_tokenizer_span span,
                      bool (*is)(uint32_t), struct cutter *c) {
    size_t last = span.from;
    uint32_t code;
    for (size_t at = span.from; at < span.to;) {
        int n = sl_tokenizer_char(w->text.at + at, &code);
        if (is(code)) {
            cut_rest(c, last, at);
            cut(c, at, at + (size_t)n, true);
            last = at + (size_t)n;
        }
        at += (size_t)n;
    }
    cut_rest(c, last, span.to);
}

static void cut_string(struct sl_tokenizer_work *w, struct sl_tokenizer_span span,
                       struct sl_str pattern, struct cutter *c) {
    size_t last = span.from, at = span.from;
    const char *text = w->text.at;
    while (pattern.length && at + pattern.length <= span.to) {
        const char *found = memchr(text + at, pattern.at[0], span.to - at - (pattern.length - 1));
        if (!found)
            break;
        at = (size_t)(found - text);
        if (memcmp(found, pattern.at, pattern.length) != 0) {
            at++;
            continue;
        }
        cut_rest(c, last, at);
        at += pattern.length;
        cut(c, at - pattern.length, at, true);
        last = at;
    }
    cut_rest(c, last, span.to);
}

static void cut_regex(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                      struct sl_tokenizer_span span, struct cutter *c) {
    struct sl_str text = {w->text.at + span.from, span.to - span.from};
    struct sl_tokenizer_span found;
    size_t last = 0, from = 0;
    while (from <= text.length &&
           sl_tokenizer_regex_find(step->regex, &w->match, text, from, &found)) {
        cut_rest(c, span.from + last, span.from + found.from);
        cut(c, span.from + found.from, span.from + found.to, true);
        last = from = found.to;
        if (found.to == found.from)
            from += from < text.length ? (size_t)sl_tokenizer_char_bytes(text.at[from]) : 1;
    }
    cut_rest(c, span.from + last, span.to);
}

/* Cuts by a hand-written rule, which matches the whole text, word by word. */
static void cut_rule(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                     struct sl_tokenizer_span span, struct cutter *c) {
    for (size_t at = span.from; at < span.to;) {
        size_t n = sl_tokenizer_pretok_word(step->rule, w->text.at + at, span.to - at);
        cut(c, at, at + n, true);
        at += n;
    }
}

/* ---- rewriting ---- */

/* Appends the new text of a span. */
typedef void rewrite_span(const struct sl_tokenizer_step *step, const struct sl_tokenizer_work *w,
                          const struct sl_tokenizer_span *span, struct sl_text *out);

static void rewrite_all(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                        rewrite_span *one) {
    w->spare.length = 0;
    sl_text_put(&w->spare, "");
    for (int64_t i = 0; i < w->spans.count; i++) {
        struct sl_tokenizer_span *span = &w->spans.at[i];
        size_t from = w->spare.length;
        one(step, w, span, &w->spare);
        span->from = from;
        span->to = w->spare.length;
    }
    struct sl_text text = w->text;
    w->text = w->spare;
    w->spare = text;
}

/* ---- ByteLevel ---- */

/* Indices of flags. Flag 1 is trim_offsets, which does not change ids. */
enum { PREFIX_SPACE, USE_REGEX = 2 };

static sl_err read_byte_level(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                              struct sl_tokenizer_step *step) {
    (void)t;
    step->flag[PREFIX_SPACE] = step->flag[USE_REGEX] = true;
    step->rule = SL_PRETOK_GPT2;
    for (int i = 0; i < 3; i++)
        SL_TRY(sl_tokenizer_field_bool(f, i, &step->flag[i]));
    return SL_OK;
}

static void prefix_space(const struct sl_tokenizer_step *step, const struct sl_tokenizer_work *w,
                         const struct sl_tokenizer_span *span, struct sl_text *out) {
    (void)step;
    sl_text_put(out, w->text.at[span->from] == ' ' ? "" : " ");
    sl_text_put_bytes(out, w->text.at + span->from, span->to - span->from);
}

static void map_bytes(const struct sl_tokenizer_step *step, const struct sl_tokenizer_work *w,
                      const struct sl_tokenizer_span *span, struct sl_text *out) {
    (void)step;
    sl_tokenizer_from_bytes(w->text.at + span->from, span->to - span->from, out);
}

static void split_byte_level(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w) {
    bool needs = false;
    for (int64_t i = 0; i < w->spans.count && step->flag[PREFIX_SPACE]; i++)
        needs |= w->text.at[w->spans.at[i].from] != ' ';
    if (needs)
        rewrite_all(step, w, prefix_space);
    if (step->flag[USE_REGEX])
        cut_all(step, w, cut_rule, (struct cutter){.behavior = SL_TOKENIZER_ISOLATED});
    if (!w->t->byte_level)
        rewrite_all(step, w, map_bytes);
}

/* ---- Metaspace ---- */

sl_err sl_tokenizer_metaspace_read(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                                   struct sl_tokenizer_step *step) {
    static const char *const schemes[] = {"always", "first", "never"};
    struct sl_str scheme = SL_STR("always");
    bool prefix = true;
    step->content = SL_STR("\xe2\x96\x81");
    step->flag[0] = true;
    SL_TRY(sl_tokenizer_field_string(f, 0, &t->arena, &step->content));
    SL_TRY(sl_tokenizer_field_bool(f, 1, &prefix));
    SL_TRY(sl_tokenizer_field_string(f, 2, &t->arena, &scheme));
    SL_TRY(sl_tokenizer_field_bool(f, 3, &step->flag[0]));
    if (!step->content.length ||
        step->content.length != (size_t)sl_tokenizer_char_bytes(step->content.at[0]) ||
        !sl_tokenizer_is_utf8(step->content.at, step->content.length))
        return sl_json_fail(&f->at[0], "the replacement must be one character");
    step->number[0] = -1;
    for (int i = 0; i < SL_COUNT(schemes); i++)
        if (sl_str_is(scheme, schemes[i]))
            step->number[0] = i;
    if (step->number[0] < 0)
        return sl_json_fail(&f->at[2],
                            "prepend_scheme '%.*s' is not known; known: always, first, "
                            "never",
                            (int)scheme.length, scheme.at);
    if (!prefix && f->has[2] && step->number[0] != SL_TOKENIZER_NEVER)
        return sl_json_fail(&f->at[1],
                            "add_prefix_space is false, but prepend_scheme is not never");
    if (!prefix)
        step->number[0] = SL_TOKENIZER_NEVER;
    return SL_OK;
}

static void put_metaspace(const struct sl_tokenizer_step *step, const struct sl_tokenizer_work *w,
                          const struct sl_tokenizer_span *span, struct sl_text *out) {
    const char *at = w->text.at + span->from, *end = w->text.at + span->to;
    struct sl_str mark = step->content;
    bool starts =
        *at == ' ' || ((size_t)(end - at) >= mark.length && memcmp(at, mark.at, mark.length) == 0);
    bool wanted = step->number[0] == SL_TOKENIZER_ALWAYS ||
                  (step->number[0] == SL_TOKENIZER_FIRST && span->first);
    if (wanted && !starts)
        sl_text_put_bytes(out, mark.at, mark.length);
    while (at < end) {
        const char *blank = memchr(at, ' ', (size_t)(end - at));
        sl_text_put_bytes(out, at, (size_t)((blank ? blank : end) - at));
        if (!blank)
            break;
        sl_text_put_bytes(out, mark.at, mark.length);
        at = blank + 1;
    }
}

static void cut_metaspace(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                          struct sl_tokenizer_span span, struct cutter *c) {
    cut_string(w, span, step->content, c);
}

static void split_metaspace(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w) {
    rewrite_all(step, w, put_metaspace);
    if (step->flag[0])
        cut_all(step, w, cut_metaspace, (struct cutter){.behavior = SL_TOKENIZER_MERGED_WITH_NEXT});
}

/* ---- classes of characters ---- */

static void cut_whitespace(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                           struct sl_tokenizer_span span, struct cutter *c) {
    (void)step;
    cut_chars(w, span, sl_tokenizer_is_space, c);
}

static void cut_numbers(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                        struct sl_tokenizer_span span, struct cutter *c) {
    (void)step;
    cut_chars(w, span, sl_tokenizer_is_number, c);
}

static void cut_punctuation(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                            struct sl_tokenizer_span span, struct cutter *c) {
    (void)step;
    cut_chars(w, span, sl_tokenizer_is_punctuation, c);
}

static const struct cutter removed = {.behavior = SL_TOKENIZER_REMOVED};
static const struct cutter isolated = {.behavior = SL_TOKENIZER_ISOLATED};

static void split_whitespace(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w) {
    cut_all(step, w, cut_whitespace, removed);
}

static void split_bert(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w) {
    cut_all(step, w, cut_whitespace, removed);
    cut_all(step, w, cut_punctuation, isolated);
}

/* Cuts by \w+|[^\w\s]+ : runs of one class; white space is dropped. */
static void cut_words(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                      struct sl_tokenizer_span span, struct cutter *c) {
    enum { SPACE, WORD, OTHER } class, last = SPACE;
    size_t from = span.from;
    uint32_t code;
    (void)step;
    for (size_t at = span.from; at < span.to;) {
        int n = sl_tokenizer_char(w->text.at + at, &code);
        class = sl_tokenizer_is_word(code) ? WORD : sl_tokenizer_is_space(code) ? SPACE : OTHER;
        if (class != last && at > from)
            cut(c, from, at, last == SPACE);
        from = class != last ? at : from;
        last = class;
        at += (size_t)n;
    }
    if (span.to > from)
        cut(c, from, span.to, last == SPACE);
}

static void split_words(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w) {
    cut_all(step, w, cut_words, removed);
}

static sl_err read_digits(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                          struct sl_tokenizer_step *step) {
    (void)t;
    return sl_tokenizer_field_bool(f, 0, &step->flag[0]);
}

static void split_digits(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w) {
    struct cutter c = {.behavior = step->flag[0] ? SL_TOKENIZER_ISOLATED : SL_TOKENIZER_CONTIGUOUS};
    cut_all(step, w, cut_numbers, c);
}

static sl_err read_punctuation(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                               struct sl_tokenizer_step *step) {
    (void)t;
    step->behavior = SL_TOKENIZER_ISOLATED;
    return sl_tokenizer_field_behavior(f, 0, &step->behavior);
}

static void split_punctuation(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w) {
    cut_all(step, w, cut_punctuation, (struct cutter){.behavior = step->behavior});
}

/* ---- patterns ---- */

static sl_err read_split(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                         struct sl_tokenizer_step *step) {
    for (int i = 0; i < 2; i++)
        if (!f->has[i])
            return sl_tokenizer_field_missing(f, i, &f->at[i]);
    SL_TRY(sl_tokenizer_field_pattern(f, 0, t, step));
    SL_TRY(sl_tokenizer_field_behavior(f, 1, &step->behavior));
    return sl_tokenizer_field_bool(f, 2, &step->flag[0]);
}

static void cut_pattern(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                        struct sl_tokenizer_span span, struct cutter *c) {
    if (step->rule != SL_PRETOK_NONE)
        cut_rule(step, w, span, c);
    else if (step->regex)
        cut_regex(step, w, span, c);
    else
        cut_string(w, span, step->pattern, c);
}

static void split_pattern(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w) {
    cut_all(step, w, cut_pattern,
            (struct cutter){.behavior = step->behavior, .invert = step->flag[0]});
}

static sl_err read_delimiter(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                             struct sl_tokenizer_step *step) {
    step->behavior = SL_TOKENIZER_REMOVED;
    SL_TRY(sl_tokenizer_field_string(f, 0, &t->arena, &step->pattern));
    return step->pattern.length ? SL_OK : sl_tokenizer_field_missing(f, 0, &f->at[0]);
}

static sl_err read_fixed(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                         struct sl_tokenizer_step *step) {
    (void)t;
    step->number[0] = 5;
    SL_TRY(sl_tokenizer_field_int(f, 0, 1 << 20, &step->number[0]));
    return step->number[0] > 0 ? SL_OK : sl_json_fail(&f->at[0], "length must be positive");
}

static void cut_fixed(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w,
                      struct sl_tokenizer_span span, struct cutter *c) {
    for (size_t at = span.from, from = at; at < span.to; from = at) {
        for (int64_t n = 0; n < step->number[0] && at < span.to; n++)
            at += (size_t)sl_tokenizer_char_bytes(w->text.at[at]);
        cut(c, from, at, true);
    }
}

static void split_fixed(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w) {
    cut_all(step, w, cut_fixed, isolated);
}

/* Cuts into runs of one script, with the blanks after them; blanks before the first run are
 * dropped. */
static sl_err read_scripts(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                           struct sl_tokenizer_step *step) {
    static const char names[] =
        "Adlam Ahom AnatolianHieroglyphs Arabic Armenian Avestan Balinese Bamum BassaVah Batak "
        "Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid CanadianAboriginal Carian "
        "CaucasianAlbanian Chakma Cham Cherokee Coptic Cuneiform Cypriot Cyrillic Deseret "
        "Devanagari Duployan EgyptianHieroglyphs Elbasan Ethiopic Georgian Glagolitic Gothic "
        "Grantha Greek Gujarati Gurmukhi Hangul Hanunoo Hatran Hebrew ImperialAramaic Inherited "
        "InscriptionalPahlavi InscriptionalParthian Javanese Kaithi Kannada KayahLi Kharoshthi "
        "Khmer Khojki Khudawadi Lao Latin Lepcha Limbu LinearA LinearB Lisu Lycian Lydian Mahajani "
        "Malayalam Mandaic Manichaean Marchen MeeteiMayek MendeKikakui MeroiticCursive "
        "MeroiticHieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Newa NewTaiLue Nko "
        "Ogham OlChiki OldHungarian OldItalic OldNorthArabian OldPermic OldPersian "
        "OldSouthArabian OldTurkic Oriya Osage Osmanya PahawhHmong Palmyrene PauCinHau PhagsPa "
        "Phoenician PsalterPahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham "
        "SignWriting Sinhala SoraSompeng Sundanese SylotiNagri Syriac Tagalog Tagbanwa TaiLe "
        "TaiTham TaiViet Takri Tamil Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Ugaritic "
        "Vai WarangCiti Yi Common";
    struct sl_text pattern = {0};
    (void)f;
    sl_text_put(&pattern, "[\\p{Han}\\p{Hiragana}\\p{Katakana}\\x{30fc}]"
                          "[\\p{Han}\\p{Hiragana}\\p{Katakana}\\x{30fc} ]*");
    for (const char *at = names; *at; at += strspn(at, " ")) {
        int length = (int)strcspn(at, " ");
        sl_text_printf(&pattern, "|(?! )\\p{%.*s}(?:\\p{%.*s}| )*", length, at, length, at);
        at += length;
    }
    step->behavior = SL_TOKENIZER_REMOVED;
    step->flag[0] = true;
    sl_err err =
        sl_tokenizer_regex_open(t, (struct sl_str){pattern.at, pattern.length}, &step->regex);
    sl_text_free(&pattern);
    return err;
}

static const struct sl_tokenizer_op ops[] = {
    {.name = "BertPreTokenizer", .keys = "", .split = split_bert},
    {.name = "ByteLevel",
     .keys = "add_prefix_space trim_offsets use_regex",
     .read = read_byte_level,
     .split = split_byte_level,
     .maps_bytes = true},
    {.name = "CharDelimiterSplit",
     .keys = "delimiter",
     .read = read_delimiter,
     .split = split_pattern},
    {.name = "Digits", .keys = "individual_digits", .read = read_digits, .split = split_digits},
    {.name = "FixedLength", .keys = "length", .read = read_fixed, .split = split_fixed},
    {.name = "Metaspace",
     .keys = "replacement add_prefix_space prepend_scheme split str_rep",
     .read = sl_tokenizer_metaspace_read,
     .split = split_metaspace},
    {.name = "Punctuation",
     .keys = "behavior",
     .read = read_punctuation,
     .split = split_punctuation},
    {.name = "Sequence", .list = "pretokenizers"},
    {.name = "Split",
     .keys = "pattern behavior invert",
     .read = read_split,
     .split = split_pattern},
    {.name = "UnicodeScripts", .keys = "", .read = read_scripts, .split = split_pattern},
    {.name = "Whitespace", .keys = "", .split = split_words},
    {.name = "WhitespaceSplit", .keys = "", .split = split_whitespace},
    {0},
};

const struct sl_tokenizer_table sl_tokenizer_pretoks = {"pre-tokenizer", ops};

void sl_tokenizer_pretokenize(struct sl_tokenizer_work *w) {
    for (int64_t i = 0; i < w->t->pretok.count; i++)
        w->t->pretok.at[i].op->split(&w->t->pretok.at[i], w);
}
