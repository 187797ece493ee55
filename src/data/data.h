/* A data set has numbered samples for the inputs of a model. Sample n of a split is a pure
 * function of (set, seed): a cursor is two numbers, and any worker can read any range of one
 * input.
 *
 *   spec -> sl_data_open -> frozen sl_data -> sl_data_fill(split, first, count, input, dst)
 *
 * `first` is a global number, epoch * samples + position. Each epoch of the training split has its
 * own order (counter-based permutation); validation has one order. sl_data_open binds the set to
 * the inputs of one model and refuses inputs that it cannot fill. sl_data_fill does not allocate
 * and is thread-safe. */
#ifndef SL_DATA_DATA_H
#define SL_DATA_DATA_H

#include "base/json.h"
#include "tokenizer/tokenizer.h"

enum { SL_DATA_RANK = 6, SL_DATA_IGNORE = -100 };

enum sl_data_dtype { SL_DATA_FLOAT, SL_DATA_INT }; /* dst is float or int32_t */
enum sl_data_split { SL_DATA_TRAIN, SL_DATA_VALID };

/* An input of the model that the set must fill. */
struct sl_data_input {
    const char *name;
    enum sl_data_dtype dtype;
    int rank;
    int64_t dim[SL_DATA_RANK]; /* sizes of one sample, without B; rank 0: one element */
    int64_t below;             /* int inputs: values are in [0, below); 0: any */
    bool has_ignore;           /* the loss ignores the value `ignore`; false: SL_DATA_IGNORE */
    int64_t ignore;
};

enum sl_data_objective {
    SL_DATA_AUTO,  /* masked if the model has a segment or padding-mask input, else next */
    SL_DATA_NEXT,  /* targets = the next token */
    SL_DATA_MASKED /* 15 % of the tokens masked; targets = those, others ignored (BERT) */
};

enum sl_data_holdout {
    SL_DATA_HOLD_AUTO, /* hold out the last part of tokens; of other kinds draw samples */
    SL_DATA_HOLD_LAST,
    SL_DATA_HOLD_DRAWN /* a permutation that does not depend on `seed` */
};

/* Samples that the caller provides instead of files. The source is then "program". */
struct sl_data_provider {
    void *ctx;
    int64_t count;  /* number of samples, with those for validation */
    uint64_t print; /* hash of the samples, for the fingerprint */
    bool in_order;  /* do not shuffle the training split */
    /* Called once, before fill: sets has[i] for the inputs that it fills; refuses those that do not
     * fit. */
    sl_err (*bind)(void *ctx, const struct sl_data_input *inputs, int count, bool *has);
    /* Writes input `input` of a sample, float or int32_t. Several threads call it at once. */
    sl_err (*fill)(void *ctx, int64_t sample, int input, void *dst);
};

/* Options of sl_data_open. Zero is the default of every field but source and inputs. */
struct sl_data_spec {
    /* "synthetic", "PATH", "KIND:PATH", "PATH,PATH,..." (shards, or images and labels), with
     * "NAME=PATH" for arrays; "next:" or "masked:" in front sets the objective, "packed:" puts several texts of JSON lines into a sample. sl_data_kind_name lists the kinds. */
    const char *source;
    /* tokenizer.json, vocab.json (with merges.txt in the same folder), or a folder; NULL: bytes */
    const char *tokenizer;
    const char *chat_template; /* of messages: chatml, llama3 ...; NULL or "": the tokenizer's */
    const char *images;        /* of pictures: "resize=256,crop=random,flip=1,mean=...,std=..." */
    const char *categories;    /* file of the run with names of categories; NULL: none yet */
    const struct sl_data_input *inputs;
    int input_count;
    uint64_t seed;
    double validation; /* below 1: fraction of the samples; from 1 on: number of samples; 0: none */
    enum sl_data_holdout holdout;
    enum sl_data_objective objective;
    bool in_order;             /* do not shuffle the training split */
    int64_t synthetic_samples; /* 0: 2^20 */
    int64_t mask_token;        /* id of the mask token; 0: the tokenizer's, or an unused id */
    int threads;               /* encode text with this many threads; 0: all cores */
    const struct sl_data_provider *provider; /* stays until close; NULL: none */
};

/* Does this source need spec->provider? */
bool sl_data_is_provided(const char *source);

struct sl_data;

SL_MUST_CHECK sl_err sl_data_open(const struct sl_data_spec *spec, struct sl_data **out);
void sl_data_close(struct sl_data *data);

/* Like sl_data_open, from memory that is borrowed while the set is open; for tests and fuzzing.
 * `spec->source` is "KIND:". */
struct sl_data_file {
    const char *name;
    const void *bytes;
    int64_t size_bytes;
};
SL_MUST_CHECK sl_err sl_data_open_memory(const struct sl_data_spec *spec,
                                         const struct sl_data_file *files, int file_count,
                                         struct sl_data **out);

/* Returns the number of samples of a split (one epoch). */
int64_t sl_data_count(const struct sl_data *data, enum sl_data_split split);

/* Writes input `input` (index in spec->inputs) of samples [first, first + count) into `dst` [count,
 * dim...], float or int32_t. Fails if a file cannot be read or has a value outside the range of the
 * input. An input with the role `row` is the index of the sample in this call. */
SL_MUST_CHECK sl_err sl_data_fill(const struct sl_data *data, enum sl_data_split split,
                                  int64_t first, int64_t count, int input, void *dst);

/* Would sl_data_fill succeed for these samples? Reads them only if open has not checked all values. */
SL_MUST_CHECK sl_err sl_data_verify(const struct sl_data *data, enum sl_data_split split,
                                    int64_t first, int64_t count);
int64_t sl_data_verify_bytes(const struct sl_data *data); /* bytes of memory that it needs */

/* Returns the number of elements of an int input that are not its ignore value, over the same
 * samples: the divisor of the loss. Reads data only if the objective is masked. */
SL_MUST_CHECK sl_err sl_data_count_valid(const struct sl_data *data, enum sl_data_split split,
                                         int64_t first, int64_t count, int input, int64_t *valid);

/* The position of training; checkpoints store it with the fingerprint. */
struct sl_data_cursor {
    int64_t epoch, position;
};

enum sl_data_tail {
    SL_DATA_WRAP,   /* a batch may span two epochs */
    SL_DATA_DROP,   /* skip samples at the end of an epoch that do not fill a batch */
    SL_DATA_PARTIAL /* the last batch of an epoch is smaller */
};

struct sl_data_range { /* a range for sl_data_fill */
    int64_t first, count;
};

/* Returns the next batch of at most `batch` samples; advances the cursor. */
SL_MUST_CHECK sl_err sl_data_next(const struct sl_data *data, enum sl_data_split split,
                                  enum sl_data_tail tail, int64_t batch,
                                  struct sl_data_cursor *cursor, struct sl_data_range *range);

/* Returns a hash of files, seed, split and objective; a resumed run must have the same one. */
uint64_t sl_data_fingerprint(const struct sl_data *data);

/* Appends the names of categories as JSON, for spec->categories; false: the set has none. */
bool sl_data_categories(const struct sl_data *data, struct sl_text *text);

/* Does filling this input take long, so that threads should do it ahead of time? */
bool sl_data_is_costly(const struct sl_data *data, int input);

/* The tokenizer of the set, or NULL. */
const struct sl_tokenizer *sl_data_tokenizer(const struct sl_data *data);

/* Returns the bytes of memory that it holds. */
int64_t sl_data_bytes(const struct sl_data *data);

/* Reads every sample of both splits once with sl_data_fill. */
SL_MUST_CHECK sl_err sl_data_check(const struct sl_data *data);

/* Describes the set in one line of text, or as a JSON object. */
void sl_data_describe(const struct sl_data *data, struct sl_text *text);
void sl_data_write_json(const struct sl_data *data, struct sl_json_out *json);

/* Returns the names of the kinds, in alphabetical order; NULL after the last. */
const char *sl_data_kind_name(int i, const char **brief);

#endif
