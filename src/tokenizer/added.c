/* Finds added tokens in a text, before or after the normalizer. */
#include "tokenizer/chars.h"
#include "tokenizer/encode.h"

static void build(struct sl_tokenizer *t, bool normalized, struct sl_trie *trie) {
    struct sl_trie_item *item = sl_realloc(NULL, sizeof *item * (size_t)(t->added_count + 1));
    int64_t count = 0;
    for (int64_t i = 0; i < t->added_count; i++)
        if (t->added[i].normalized == normalized && t->added[i].match.length)
            item[count++] = (struct sl_trie_item){t->added[i].match, (int32_t)i};
    if (count)
        sl_tokenizer_trie_build(trie, item, count);
    free(item);
}

void sl_tokenizer_added_index(struct sl_tokenizer *t) {
    struct sl_text text = {0};
    for (int64_t i = 0; i < t->added_count; i++) {
        struct sl_tokenizer_added *added = &t->added[i];
        if (!added->normalized || !t->normalizer.count ||
            !sl_tokenizer_is_utf8(added->content.at, added->content.length))
            continue;
        text.length = 0;
        sl_text_put(&text, "");
        sl_tokenizer_normalize(t, added->content, &text);
        added->match = (struct sl_str){sl_arena_dup(&t->arena, text.at, text.length), text.length};
    }
    sl_text_free(&text);
    build(t, false, &t->raw_added);
    build(t, true, &t->norm_added);
}

static bool word_before(struct sl_str text, size_t at) {
    uint32_t code;
    if (!at)
        return false;
    do
        at--;
    while (((unsigned char)text.at[at] & 0xc0) == 0x80);
    sl_tokenizer_char(text.at + at, &code);
    return sl_tokenizer_is_word(code);
}

static bool word_behind(struct sl_str text, size_t at) {
    uint32_t code;
    if (at >= text.length)
        return false;
    sl_tokenizer_char(text.at + at, &code);
    return sl_tokenizer_is_word(code);
}

static size_t spaces_before(struct sl_str text, size_t at) {
    uint32_t code;
    while (at > 0) {
        size_t last = at - 1;
        while (((unsigned char)text.at[last] & 0xc0) == 0x80)
            last--;
        sl_tokenizer_char(text.at + last, &code);
        if (!sl_tokenizer_is_space(code))
            break;
        at = last;
    }
    return at;
}

static size_t spaces_behind(struct sl_str text, size_t at) {
    uint32_t code;
    while (at < text.length) {
        int n = sl_tokenizer_char(text.at + at, &code);
        if (!sl_tokenizer_is_space(code))
            break;
        at += (size_t)n;
    }
    return at;
}

bool sl_tokenizer_added_next(const struct sl_tokenizer *t, const struct sl_trie *trie,
                             struct sl_tokenizer_finder *f) {
    struct sl_str text = f->text;
    size_t length = 0;
    f->from = f->to;
    while (trie->count && f->at < text.length) {
        if (!trie->root[(unsigned char)text.at[f->at]]) {
            f->at++;
            continue;
        }
        int32_t found = sl_tokenizer_trie_longest(
            trie, 0, (struct sl_str){text.at + f->at, text.length - f->at}, &length);
        if (found < 0) {
            f->at++;
            continue;
        }
        const struct sl_tokenizer_added *added = &t->added[found];
        size_t start = f->at, stop = f->at + length;
        f->at = stop;
        if (added->single_word && (word_before(text, start) || word_behind(text, stop)))
            continue;
        if (added->lstrip)
            start = spaces_before(text, start);
        if (added->rstrip)
            stop = spaces_behind(text, stop);
        f->start = start > f->from ? start : f->from;
        f->to = stop > f->from ? stop : f->from;
        f->id = added->id;
        return true;
    }
    f->start = text.length;
    return false;
}
