/* struct sl_tokenizer: everything that is frozen after opening. Private to tokenizer/. */
#ifndef SL_TOKENIZER_OWN_H
#define SL_TOKENIZER_OWN_H

#include "tokenizer/parts.h"

enum { SL_TOKENIZER_MEETS_BYTES = 1 << 17 };

struct sl_tokenizer_token {
    uint32_t start, length; /* position in pool; length 0: there is no such token */
};

struct sl_tokenizer_merge {
    int32_t left, right, to; /* token ids; the index in the list is the rank of the merge */
};

struct sl_tokenizer_added {
    int32_t id;
    struct sl_str content, match; /* match: its form in the text, normalised if `normalized` */
    bool single_word, lstrip, rstrip, normalized, special;
};

struct sl_tokenizer_model {
    const char *name, *short_name;
    const char *keys; /* keys of its members; `vocab` is one of them */
    sl_err (*read)(struct sl_tokenizer *t, struct sl_tokenizer_fields *f, struct sl_json_in *json);
    /* Appends the tokens of a span of the text of `w`. */
    void (*encode)(struct sl_tokenizer_work *w, const char *word, size_t length);
};

struct sl_tokenizer {
    char name[48];
    const struct sl_tokenizer_model *model; /* NULL: every token is a byte */
    struct sl_arena arena;
    struct sl_tokenizer_regex *regexes;

    /* Tokens are kept as bytes, so the pre-tokenizer does not map bytes to characters. */
    bool byte_level;
    bool cuts;                        /* sl_tokenizer_cut may cut at a blank */
    int64_t vocab;                    /* ids are in [0, vocab) */
    struct sl_tokenizer_token *token; /* [vocab] */
    char *pool;
    int64_t pool_bytes;
    /* [vocab] it is not a token of the model, or its text does not stand for bytes */
    uint8_t *literal;
    uint32_t *by_bytes; /* hash table with open addressing: id + 1; 0: free */
    int64_t by_bytes_room;
    int32_t char_id[128]; /* token of each ASCII character, or -1; unused if byte_level */
    int32_t byte_id[256]; /* token of each byte (with byte fallback: of <0xNN>), or -1 */
    bool byte_fallback;
    int32_t unk; /* id of the unknown token, or -1 */

    /* for BPE: */
    struct sl_tokenizer_merge *merge;
    int64_t merge_count;
    uint32_t *by_pair; /* hash table like by_bytes: rank + 1 */
    int64_t by_pair_room;
    uint8_t *meets; /* set of hashes of symbol pairs that some merge joins */
    bool whole_words, fuse_unk;
    struct sl_str prefix, suffix; /* of symbols inside a word; of its last symbol */

    /* for WordPiece and Unigram: */
    struct sl_trie trie;
    uint32_t inside; /* WordPiece: the node of the prefix of tokens inside a word */
    bool has_inside;
    int64_t longest_word; /* in characters */
    double *score;        /* [vocab] */
    double unk_score;

    struct sl_tokenizer_steps normalizer, pretok, decoder;
    struct sl_tokenizer_added *added;
    int64_t added_count;
    int32_t *added_of;                    /* [vocab] index in `added`, or -1 */
    struct sl_trie raw_added, norm_added; /* their values are indices in `added` */
    uint8_t *is_special;                  /* [vocab] */
    struct sl_tokens before, after;       /* ids that the post-processor puts around a text */

    struct sl_text pieces; /* texts of the tokens inside a text; empty: as in pool */
    uint32_t *piece_end;   /* [vocab + 1] */
};

extern const struct sl_tokenizer_model sl_tokenizer_bpe, sl_tokenizer_unigram,
    sl_tokenizer_wordpiece, sl_tokenizer_wordlevel;

/* ---- vocabulary (vocab.c) ---- */

/* Returns the token of the model's vocabulary with these bytes, or -1. */
int32_t sl_tokenizer_vocab_find(const struct sl_tokenizer *t, struct sl_str bytes);
struct sl_str sl_tokenizer_token_bytes(const struct sl_tokenizer *t, int64_t id);
/* Appends the text of a token as it is in the file. */
void sl_tokenizer_token_text(const struct sl_tokenizer *t, int32_t id, struct sl_text *out);

struct sl_tokenizer_source { /* the members of a file that contain tokens */
    const char *name;
    struct sl_json_in vocab, merges, added; /* positions in front of their values */
    bool has_vocab, has_merges, has_added, vocab_is_list;
    struct sl_str merges_text; /* content of merges.txt */
};
SL_MUST_CHECK sl_err sl_tokenizer_vocab_read(struct sl_tokenizer *t,
                                             struct sl_tokenizer_source *source);
/* Indexes added tokens too; call it when the normalizer is known. */
void sl_tokenizer_added_index(struct sl_tokenizer *t);
/* Returns the token of a text, which must exist: `what` names it in the error. */
SL_MUST_CHECK sl_err sl_tokenizer_need_token(const struct sl_tokenizer *t,
                                             const struct sl_json_in *json, const char *what,
                                             struct sl_str text, int32_t *out);

/* ---- BPE (merges.c) ---- */

SL_MUST_CHECK sl_err sl_tokenizer_merges_read(struct sl_tokenizer *t,
                                              struct sl_tokenizer_source *source);
/* Returns the index (rank) of the merge of two tokens, or -1. */
int64_t sl_tokenizer_find_merge(const struct sl_tokenizer *t, int32_t left, int32_t right);
/* Can a merge join these neighbours? False: certainly not. */
bool sl_tokenizer_may_meet(const struct sl_tokenizer *t, int32_t left, int32_t right);

/* Opens from the texts of the files (read.c). */
SL_MUST_CHECK sl_err sl_tokenizer_read_files(struct sl_tokenizer *t, const char *name,
                                             struct sl_str vocab, struct sl_str merges);

/* Reads the ids of the post-processor (post.c). */
SL_MUST_CHECK sl_err sl_tokenizer_post_read(struct sl_tokenizer *t, struct sl_json_in *json);

/* Computes t->pieces (decode.c). */
void sl_tokenizer_pieces_build(struct sl_tokenizer *t);

void sl_tokenizer_put_id(struct sl_tokenizer_work *w, int32_t id);
/* Returns scratch memory of at least this size, which is kept between calls. */
void *sl_tokenizer_scratch(struct sl_tokenizer_work *w, size_t size_bytes);

#endif
