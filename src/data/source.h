/* The parts of a data set: one registry row per kind of file, and shared helpers. Private to data/.
 *
 * A kind opens files into `state` and binds the model's inputs; fill writes one input of one
 * sample. data.c does splits, shuffling, cursors and ranges for all kinds, on sample numbers.
 */
#ifndef SL_DATA_SOURCE_H
#define SL_DATA_SOURCE_H

#include "data/blob.h"
#include "data/data.h"

/* The role of an input, derived from its name (role.c). */
enum sl_data_role {
    SL_ROLE_FEATURE, /* all other names */
    SL_ROLE_TOKENS,
    SL_ROLE_TARGET, /* targets, label, y */
    SL_ROLE_MASK,   /* 1: a token, 0: padding */
    SL_ROLE_SEGMENT,
    SL_ROLE_POSITION,
    SL_ROLE_IMAGE,
    SL_ROLE_ROW,   /* index in the micro-batch */
    SL_ROLE_MATCH, /* 0, 1, 2 ...: index of the matching pair in a sample (clip) */
};

struct sl_data_bound { /* an input of the model with its source in this set */
    struct sl_data_input want;
    enum sl_data_role role;
    int64_t numel;   /* number of elements of one sample */
    int32_t ignore;  /* valid for int inputs */
    bool in_seq;     /* these are tokens or targets of data->seq */
    const int *from; /* tables: [numel] columns */
};

struct sl_data_ask { /* a request for one input of one sample */
    int64_t sample;  /* number in the set before shuffling and splitting: [0, data->total) */
    uint64_t draw;   /* number of the sample in the run; random masking depends on it */
    int64_t row;     /* index in the call */
    int64_t number;  /* global, in its split; before shuffling */
    enum sl_data_split split;
    bool vary; /* random changes of the sample: in training only */
    int input;
    void *dst;
};

struct sl_data_kind {
    const char *name, *brief, *offers; /* offers: names of the inputs that it can fill */
    const char *suffixes;              /* ".csv.tsv", or "" */
    bool ordered;                      /* neighbours overlap or depend: validation = last part */
    int files_max;                     /* 0: none */
    bool folder;                       /* its one file is a folder */
    bool costly;                       /* fill takes long: a run does it ahead of time */
    bool named;                        /* a file may be NAME=PATH: the input that it is for */
    /* Is this file certainly of this kind? `head` is its decompressed start. NULL: unknown. */
    bool (*sniff)(const unsigned char *head, int64_t length);
    /* Adds the files that belong to `path`, in order. NULL: only the file itself belongs to it. */
    void (*expand)(struct sl_data *data, const char *path);
    sl_err (*open)(struct sl_data *data, const struct sl_data_spec *spec);
    sl_err (*fill)(const struct sl_data *data, const struct sl_data_ask *ask);
    bool late;     /* fill may find a bad value that open has not looked for */
    bool provided; /* it needs spec->provider */
    bool ignores;  /* targets of next-token samples may have the ignore value */
    /* adds further JSON keys */
    void (*describe)(const struct sl_data *data, struct sl_json_out *json);
    void (*close)(struct sl_data *data); /* may be NULL */
};

enum { SL_DATA_FILES = 1024 };

struct sl_data_list { /* names of categories; their numbers are their places */
    const char *name; /* "classes", or a column */
    const char **value;
    int64_t count;
};

struct sl_data {
    struct sl_arena arena;
    const struct sl_data_kind *kind;
    struct sl_blob *blob; /* the files, in order */
    int blob_count;
    const char **label; /* [blob_count] NAME of NAME=PATH, or NULL; NULL: no names */
    bool ordered;       /* initially that of the kind, which may change it */
    struct sl_data_bound *bound;
    int bound_count;
    void *state;       /* state of the kind, in the arena */
    int64_t own_bytes; /* memory of the kind outside the arena and the blobs */
    struct sl_tokenizer *tokenizer;
    const struct sl_seq *seq; /* only for sets of token windows, else NULL */

    enum sl_data_objective objective;
    uint64_t seed;
    int64_t total, samples[2]; /* number of samples of the set and of each split */
    bool in_order, drawn;
    struct sl_data_list *list; /* before open: those of the run */
    int list_count;
    struct sl_data_weighted *mix; /* [mix_count] mix.h; items with weights */
    int mix_count;
    struct sl_str mix_prefix;    /* of the source, before the items */
    const struct sl_data *mixed; /* the first set; NULL: no mix */
    bool has_categories;         /* the run has a file of them */
    bool packed;                 /* samples may hold several texts */
    uint64_t print;              /* of samples that are in no file; 0: none */
};

/* The kinds in alphabetical order; the last is NULL (registry.c). */
extern const struct sl_data_kind *const sl_data_kinds[];

/* role.c */
enum sl_data_role sl_data_role(const struct sl_data_input *input);
/* Writes "tokens int[64]" into `out`, for messages; returns it. */
enum { SL_DATA_INPUT_TEXT = 160 };
const char *sl_data_input_text(const struct sl_data_input *input, char out[SL_DATA_INPUT_TEXT]);
/* Fails with SL_ERR_INPUT: the set cannot fill the input; the message lists the inputs that it can
 * fill. */
sl_err sl_data_refuse(const struct sl_data *data, const struct sl_data_input *input);
/* Fails because a value is outside the range of an int input. */
sl_err sl_data_bad_value(const struct sl_data_bound *bound, int64_t value, const char *file);

/* Does an input with this role need no data: mask, segments, positions, row, match? */
bool sl_data_is_plain(enum sl_data_role role);
/* Fills an input whose role needs no data: mask, segments, positions, row. False: it has another
 * role. */
bool sl_data_fill_plain(const struct sl_data_bound *bound, const struct sl_data_ask *ask);

/* seq.c. Next-token and masked objectives over token windows. */
struct sl_seq {
    int64_t length; /* T */
    bool masked;
    int32_t mask_token;
    int64_t draw_below; /* random tokens are in [0, draw_below) */
    uint64_t seed;
};
/* Sets up `seq` for the length and vocabulary of one input of tokens. */
SL_MUST_CHECK sl_err sl_data_seq_open(const struct sl_data *data, const struct sl_data_spec *spec,
                                      const struct sl_data_bound *tokens, struct sl_seq *seq);
/* Like sl_data_seq_open, for sets of tokens only: every input must be tokens, targets or plain. */
SL_MUST_CHECK sl_err sl_data_seq_bind(struct sl_data *data, const struct sl_data_spec *spec,
                                      struct sl_seq *seq);
/* Masks the tokens of a window in ask->dst. Requires seq->masked. */
void sl_data_seq_mask(const struct sl_seq *seq, const struct sl_data_bound *bound,
                      const struct sl_data_ask *ask);
int64_t sl_data_seq_masked_count(const struct sl_seq *seq, uint64_t draw);

/* Token windows (tokens.c), which all kinds of token files use. */
struct sl_token_shard {
    const struct sl_blob *blob;
    int64_t offset_bytes, count; /* count: number of tokens */
    int width;                   /* bytes of a token: 1, 2, 4, 8 */
    bool is_signed;
    int64_t first_window;
};

struct sl_token_set {
    struct sl_seq seq;
    struct sl_token_shard *shard;
    int shard_count;
    int64_t tokens;
    struct sl_blob packed; /* tokens of a text that was encoded while the set was opened */
};

SL_MUST_CHECK sl_err sl_data_token_set_open(struct sl_data *data, const struct sl_data_spec *spec,
                                            struct sl_token_set *set);
sl_err sl_data_token_set_fill(const struct sl_data *data, const struct sl_data_ask *ask);
void sl_data_token_set_describe(const struct sl_data *data, struct sl_json_out *json);
void sl_data_token_set_close(struct sl_data *data);

/* A table in memory (table.c), which csv and f32 use. */
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

/* categories.c: a list, NULL: there is none. Added lists and names are borrowed by the set. */
struct sl_data_list *sl_data_list_find(const struct sl_data *data, const char *name);
struct sl_data_list *sl_data_list_add(struct sl_data *data, const char *name, const char **value,
                                      int64_t count);
/* Fails: a value that the list of the run does not have. */
sl_err sl_data_list_unknown(const struct sl_data_list *list, const char *where, const char *value);
SL_MUST_CHECK sl_err sl_data_categories_open(struct sl_data *data, const char *path);
SL_MUST_CHECK sl_err sl_data_categories_read(struct sl_data *data, const char *name,
                                             const char *text, size_t length);

/* data.c: what a global sample number stands for; row, input and dst are not set. */
struct sl_data_ask sl_data_place(const struct sl_data *data, enum sl_data_split split,
                                 int64_t number);

/* Add a path to open; called by expand. */
void sl_data_add_file(struct sl_data *data, const char *path);

#endif
