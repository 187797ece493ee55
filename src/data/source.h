/* Inside a data set: one row per kind of file, and what they share. Private to data/.
 *
 * A kind opens files into `state` and binds the model's inputs; fill writes one input of one
 * sample. Splits, shuffling, cursors and ranges are done once, in data.c, on plain sample numbers.
 */
#ifndef SL_DATA_SOURCE_H
#define SL_DATA_SOURCE_H

#include "data/blob.h"
#include "data/data.h"

/* What an input is, by its name (role.c). */
enum sl_data_role {
    SL_ROLE_FEATURE, /* any other name */
    SL_ROLE_TOKENS,
    SL_ROLE_TARGET, /* targets, label, y */
    SL_ROLE_MASK,   /* 1: a token, 0: padding */
    SL_ROLE_SEGMENT,
    SL_ROLE_POSITION,
    SL_ROLE_IMAGE,
    SL_ROLE_ROW,   /* place in the micro-batch */
    SL_ROLE_MATCH, /* 0, 1, 2 ...: which of the pairs of a sample belong together (clip) */
};

struct sl_data_bound { /* an input of the model and how this set fills it */
    struct sl_data_input want;
    enum sl_data_role role;
    int64_t numel;   /* of one sample */
    int32_t ignore;  /* valid for int inputs */
    bool in_seq;     /* tokens or targets of data->seq */
    const int *from; /* tables: columns; [numel] */
};

struct sl_data_ask { /* one input of one sample */
    int64_t sample;  /* in the set, before shuffling and splitting: [0, data->total) */
    uint64_t draw;   /* its number in the run: what random masking depends on */
    int64_t row;     /* its place in the call */
    int input;
    void *dst;
};

struct sl_data_kind {
    const char *name, *brief, *offers; /* offers: the names of inputs it can fill */
    const char *suffixes;              /* ".csv.tsv", or "" */
    bool ordered;                      /* neighbours overlap or depend: hold out the last part */
    int files_max;                     /* 0: none */
    /* Is this file certainly of this kind? `head` is its start, decompressed. NULL: never. */
    bool (*sniff)(const unsigned char *head, int64_t length);
    /* Add files that belong to `path`, in order (NULL: only the file itself). */
    void (*expand)(struct sl_data *data, const char *path);
    sl_err (*open)(struct sl_data *data, const struct sl_data_spec *spec);
    sl_err (*fill)(const struct sl_data *data, const struct sl_data_ask *ask);
    void (*describe)(const struct sl_data *data, struct sl_json_out *json); /* keys of its own */
    void (*close)(struct sl_data *data);                                    /* may be NULL */
};

enum { SL_DATA_FILES = 1024 };

struct sl_data {
    struct sl_arena arena;
    const struct sl_data_kind *kind;
    struct sl_blob *blob; /* files, in order */
    int blob_count;
    struct sl_data_bound *bound;
    int bound_count;
    void *state;       /* of the kind, in the arena */
    int64_t own_bytes; /* memory of the kind outside the arena and the blobs */
    struct sl_tokenizer *tokenizer;
    const struct sl_seq *seq; /* sets with windows of tokens, else NULL */

    enum sl_data_objective objective;
    uint64_t seed;
    int64_t total, samples[2]; /* all, and of each split */
    bool in_order, drawn;
};

/* The kinds, alphabetical, NULL at the end (registry.c). */
extern const struct sl_data_kind *const sl_data_kinds[];

/* role.c */
enum sl_data_role sl_data_role(const struct sl_data_input *input);
/* "tokens int[64]", for messages; returned. */
enum { SL_DATA_INPUT_TEXT = 160 };
const char *sl_data_input_text(const struct sl_data_input *input, char out[SL_DATA_INPUT_TEXT]);
/* SL_ERR_INPUT: this set has nothing for the input; says what it offers. */
sl_err sl_data_refuse(const struct sl_data *data, const struct sl_data_input *input);
/* A value for an int input is outside of what the model takes. */
sl_err sl_data_bad_value(const struct sl_data_bound *bound, int64_t value, const char *file);

/* Roles that need nothing of the set: mask, segments, positions, row. False: another role. */
bool sl_data_fill_plain(const struct sl_data_bound *bound, const struct sl_data_ask *ask);

/* seq.c: next-token and masked objectives over any source of token windows. */
struct sl_seq {
    int64_t length; /* T */
    bool masked;
    int32_t mask_token;
    int64_t draw_below; /* a random token is below */
    uint64_t seed;
};
/* Set up for the length and vocabulary of one input of tokens. */
SL_MUST_CHECK sl_err sl_data_seq_open(const struct sl_data *data, const struct sl_data_spec *spec,
                                      const struct sl_data_bound *tokens, struct sl_seq *seq);
/* The same for a set that has only tokens: every input must be tokens, targets or plain. */
SL_MUST_CHECK sl_err sl_data_seq_bind(struct sl_data *data, const struct sl_data_spec *spec,
                                      struct sl_seq *seq);
/* dst holds the tokens of a window; hide what the objective hides. Only when seq->masked. */
void sl_data_seq_mask(const struct sl_seq *seq, const struct sl_data_bound *bound,
                      const struct sl_data_ask *ask);
int64_t sl_data_seq_masked_count(const struct sl_seq *seq, uint64_t draw);

/* Rows of src/data that share the fill of token windows (tokens.c). */
struct sl_token_shard {
    const struct sl_blob *blob;
    int64_t offset_bytes, count; /* tokens */
    int width;                   /* bytes of a token: 1, 2, 4, 8 */
    bool is_signed;
    int64_t first_window;
};

struct sl_token_set {
    struct sl_seq seq;
    struct sl_token_shard *shard;
    int shard_count;
    int64_t tokens;
    struct sl_blob packed; /* text encoded while opening */
};

SL_MUST_CHECK sl_err sl_data_token_set_open(struct sl_data *data, const struct sl_data_spec *spec,
                                            struct sl_token_set *set);
sl_err sl_data_token_set_fill(const struct sl_data *data, const struct sl_data_ask *ask);
void sl_data_token_set_describe(const struct sl_data *data, struct sl_json_out *json);
void sl_data_token_set_close(struct sl_data *data);

/* A table in memory (table.c): shared by csv and f32. */
struct sl_table {
    float *at; /* [rows, columns]; freed by sl_data_table_close */
    int64_t rows;
    int columns;
    const char **name; /* [columns] */
};

SL_MUST_CHECK sl_err sl_data_table_bind(struct sl_data *data, struct sl_table *table);
sl_err sl_data_table_fill(const struct sl_data *data, const struct sl_data_ask *ask);
void sl_data_table_describe(const struct sl_data *data, struct sl_json_out *json);
void sl_data_table_close(struct sl_data *data);

/* Add a path to open; for expand. */
void sl_data_add_file(struct sl_data *data, const char *path);

#endif
