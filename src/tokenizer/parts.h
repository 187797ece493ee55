/* The parts of a tokenizer: its steps, its vocabulary and the state of one encoding. Private to
 * tokenizer/.
 *
 *   text -> added tokens -> normalizer -> added tokens -> pre-tokenizer -> model -> post-processor
 *
 * A file nests Sequences; here the normalizer, the pre-tokenizer and the decoder are flat lists of
 * steps. Each step has a row (`struct sl_tokenizer_op`) in the table of its kind.
 */
#ifndef SL_TOKENIZER_PARTS_H
#define SL_TOKENIZER_PARTS_H

#include "base/json.h"
#include "base/vec.h"
#include "tokenizer/pretok.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/trie.h"

enum { SL_TOKENIZER_KEYS = 12, SL_TOKENIZER_NESTING = 8 };

/* Limits that keep a hostile file from using much memory or time: steps of a component; and the
 * factor by which a normalizer or decoder can make a text longer. */
enum { SL_TOKENIZER_STEPS = 64, SL_TOKENIZER_GROWTH = 4096 };

struct sl_tokenizer_regex;
struct sl_tokenizer_charsmap;

/* What a pre-tokenizer does with the delimiters that it finds. */
enum sl_tokenizer_behavior {
    SL_TOKENIZER_REMOVED,
    SL_TOKENIZER_ISOLATED,
    SL_TOKENIZER_MERGED_WITH_PREVIOUS,
    SL_TOKENIZER_MERGED_WITH_NEXT,
    SL_TOKENIZER_CONTIGUOUS,
};

struct sl_tokenizer_step {
    const struct sl_tokenizer_op *op;
    struct sl_str pattern, content; /* in the arena of the tokenizer */
    const struct sl_tokenizer_regex *regex;
    const struct sl_tokenizer_charsmap *charsmap;
    bool flag[4]; /* meaning: see the row of the step */
    int64_t number[2];
    int64_t growth; /* a text becomes at most this many times longer; 0 counts as 1 */
    enum sl_tokenizer_behavior behavior;
    enum sl_pretok rule; /* a hand-written matcher used instead of `regex` */
};

struct sl_tokenizer_steps {
    struct sl_tokenizer_step *at;
    int64_t count, room;
};

/* ---- reading ---- */

/* The members of an object, indexed by the position of their key in `keys`, a list with blanks. */
struct sl_tokenizer_fields {
    const char *keys;
    const char *type; /* type of the object, for messages */
    bool has[SL_TOKENIZER_KEYS];
    struct sl_json_in at[SL_TOKENIZER_KEYS]; /* positions in front of their values */
};

/* Reads the rest of an object whose '{' has been read. Refuses a key outside `keys`, unless it is
 * `type`, which goes to *type (may be NULL). */
SL_MUST_CHECK sl_err sl_tokenizer_fields_read(struct sl_json_in *json, const char *keys,
                                              struct sl_tokenizer_fields *fields,
                                              struct sl_str *type);
/* Finds the type of an object whose '{' has been read; `json` is a copy. */
SL_MUST_CHECK sl_err sl_tokenizer_find_type(struct sl_json_in json, struct sl_str *type);
/* A missing or null member leaves *out unchanged. */
SL_MUST_CHECK sl_err sl_tokenizer_field_bool(struct sl_tokenizer_fields *f, int i, bool *out);
SL_MUST_CHECK sl_err sl_tokenizer_field_int(struct sl_tokenizer_fields *f, int i, int64_t high,
                                            int64_t *out);
SL_MUST_CHECK sl_err sl_tokenizer_field_string(struct sl_tokenizer_fields *f, int i,
                                               struct sl_arena *arena, struct sl_str *out);
/* Reads {"String": "..."} or {"Regex": "..."}; compiles a regular expression into step->regex. */
SL_MUST_CHECK sl_err sl_tokenizer_field_pattern(struct sl_tokenizer_fields *f, int i,
                                                struct sl_tokenizer *t,
                                                struct sl_tokenizer_step *step);
SL_MUST_CHECK sl_err sl_tokenizer_field_behavior(struct sl_tokenizer_fields *f, int i,
                                                 enum sl_tokenizer_behavior *out);
SL_MUST_CHECK sl_err sl_tokenizer_field_missing(const struct sl_tokenizer_fields *f, int i,
                                                const struct sl_json_in *json);
/* Returns a JSON string with its escapes resolved, in the arena. */
struct sl_str sl_tokenizer_unescape(struct sl_str raw, struct sl_arena *arena);

/* ---- steps ---- */

struct sl_tokenizer_span {
    size_t from, to; /* range in the text of the work */
    bool first;      /* it begins where the input begins */
};

struct sl_tokenizer_spans {
    struct sl_tokenizer_span *at;
    int64_t count, room;
};

/* The text between two steps: `text` is split into `spans`. */
struct sl_tokenizer_work {
    const struct sl_tokenizer *t;
    struct sl_tokens *out;
    const char *input;          /* first byte of the input */
    struct sl_text text, spare; /* text: the text after the normalizer and later steps */
    struct sl_tokenizer_spans spans, old;
    void *match; /* memory of PCRE2 */
    void *cache; /* cache of encode.c, or NULL */
    SL_VEC(int32_t) symbols;
    void *scratch; /* scratch memory of the model */
    int64_t scratch_bytes;
};

/* The parts of a text that is being decoded: `text`, cut at the positions `end`. */
struct sl_tokenizer_strings {
    struct sl_text text;
    SL_VEC(size_t) end;
};

struct sl_tokenizer_op {
    const char *name, *keys;
    sl_err (*read)(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                   struct sl_tokenizer_step *step); /* NULL: the step has no settings */
    const char *list;                               /* key of its members, if it is a Sequence */
    int form;                                       /* normal form, as options of utf8proc */
    bool maps_bytes; /* pre-tokenizer or decoder whose characters stand for bytes */
    /* Normalizer: appends the result to `out`. Returns false, and leaves `out` unchanged, if the
     * text does not change. */
    bool (*normalize)(const struct sl_tokenizer_step *step, struct sl_str in, struct sl_text *out);
    void (*split)(const struct sl_tokenizer_step *step, struct sl_tokenizer_work *w);
    void (*decode)(const struct sl_tokenizer_step *step, const struct sl_tokenizer_strings *in,
                   struct sl_tokenizer_strings *out);
};

/* A table of rows that ends with a row without name; `kind` is its word for messages. */
struct sl_tokenizer_table {
    const char *kind;
    const struct sl_tokenizer_op *ops;
};

extern const struct sl_tokenizer_table sl_tokenizer_normalizers, sl_tokenizer_pretoks,
    sl_tokenizer_decoders;

/* Reads a component, which may be null, and appends its steps. */
SL_MUST_CHECK sl_err sl_tokenizer_steps_read(struct sl_tokenizer *t, struct sl_json_in *json,
                                             const struct sl_tokenizer_table *table,
                                             struct sl_tokenizer_steps *steps);

/* The step Replace, for normalizers and decoders. */
bool sl_tokenizer_replace(const struct sl_tokenizer_step *step, struct sl_str in,
                          struct sl_text *out);
int64_t sl_tokenizer_replace_growth(const struct sl_tokenizer_step *step);
/* Appends the normalised text. */
void sl_tokenizer_normalize(const struct sl_tokenizer *t, struct sl_str in, struct sl_text *out);
/* Metaspace as a pre-tokenizer and as a decoder: content is the mark, number[0] the scheme. */
enum { SL_TOKENIZER_ALWAYS, SL_TOKENIZER_FIRST, SL_TOKENIZER_NEVER };
SL_MUST_CHECK sl_err sl_tokenizer_metaspace_read(struct sl_tokenizer *t,
                                                 struct sl_tokenizer_fields *f,
                                                 struct sl_tokenizer_step *step);
/* Splits the spans by all steps. */
void sl_tokenizer_pretokenize(struct sl_tokenizer_work *w);

void sl_tokenizer_strings_put(struct sl_tokenizer_strings *list, const char *at, size_t length);
void sl_tokenizer_strings_end(struct sl_tokenizer_strings *list);

/* ---- regular expressions (regex.c): the dialect of Oniguruma, on PCRE2 ---- */

SL_MUST_CHECK sl_err sl_tokenizer_regex_open(struct sl_tokenizer *t, struct sl_str pattern,
                                             const struct sl_tokenizer_regex **out);
void sl_tokenizer_regex_close(struct sl_tokenizer_regex *regex);
/* Finds the next match at or after `from`; false: none. Makes `match` on first use. */
bool sl_tokenizer_regex_find(const struct sl_tokenizer_regex *regex, void **match,
                             struct sl_str text, size_t from, struct sl_tokenizer_span *found);
void sl_tokenizer_match_close(void *match);

/* ---- charsmap of SentencePiece (charsmap.c) ---- */

SL_MUST_CHECK sl_err sl_tokenizer_charsmap_read(struct sl_tokenizer *t, struct sl_json_in *json,
                                                const struct sl_tokenizer_charsmap **out);
bool sl_tokenizer_charsmap_apply(const struct sl_tokenizer_charsmap *map, struct sl_str in,
                                 struct sl_text *out);

#endif
