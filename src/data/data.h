/* Data sets: sample n of a split is a pure function of (set, seed), so a cursor is two numbers and
 * any worker can fetch any range of any one input.
 *
 *   spec -> sl_data_open -> frozen sl_data -> sl_data_fill(split, first, count, input, dst)
 *
 * `first` is a global number, epoch * samples + position; every epoch of the training split has its
 * own order (counter-based permutation), validation keeps one order. A set is bound to the inputs
 * of one model when it is opened: whatever cannot be filled is refused then, not at step 1000.
 * sl_data_fill allocates nothing and may be called by any number of threads.
 */
#ifndef SL_DATA_DATA_H
#define SL_DATA_DATA_H

#include "base/json.h"
#include "data/tokenizer.h"

enum { SL_DATA_RANK = 6, SL_DATA_IGNORE = -100 };

enum sl_data_dtype { SL_DATA_FLOAT, SL_DATA_INT }; /* dst is float or int32_t */
enum sl_data_split { SL_DATA_TRAIN, SL_DATA_VALID };

/* An input of the model, as the set must fill it. */
struct sl_data_input {
    const char *name;
    enum sl_data_dtype dtype;
    int rank;
    int64_t dim[SL_DATA_RANK]; /* one sample: without B; rank 0 is one element */
    int64_t below;             /* int: values are in [0, below); 0: any */
    bool has_ignore;           /* the loss leaves `ignore` out; otherwise SL_DATA_IGNORE is used */
    int64_t ignore;
};

enum sl_data_objective {
    SL_DATA_AUTO,  /* masked when the model has a segment or padding-mask input, else next */
    SL_DATA_NEXT,  /* targets = the next token */
    SL_DATA_MASKED /* 15 % of the tokens hidden; targets = those, the others ignored (BERT) */
};

enum sl_data_holdout {
    SL_DATA_HOLD_AUTO, /* tokens: the last part; everything else: drawn */
    SL_DATA_HOLD_LAST,
    SL_DATA_HOLD_DRAWN /* by a permutation that does not depend on `seed` */
};

/* What to open. {0} plus source and inputs is a good start. */
struct sl_data_spec {
    /* "synthetic", "PATH", "KIND:PATH", "PATH,PATH,..." (shards, or images and labels); "next:" or
     * "masked:" in front sets the objective. Kinds: sl_data_kind_name. */
    const char *source;
    const char
        *tokenizer; /* NULL: bytes. tokenizer.json, vocab.json beside merges.txt, or folder */
    const struct sl_data_input *inputs;
    int input_count;
    uint64_t seed;
    double validation; /* below 1: fraction of the samples; from 1: number of samples; 0: none */
    enum sl_data_holdout holdout;
    enum sl_data_objective objective;
    bool in_order;             /* do not shuffle the training split */
    int64_t synthetic_samples; /* 0: 2^20 */
    int64_t mask_token;        /* masked: what hides a token; 0: the tokenizer's, or a spare one */
    int threads;               /* for encoding text while opening; 0: all cores */
};

struct sl_data;

SL_MUST_CHECK sl_err sl_data_open(const struct sl_data_spec *spec, struct sl_data **out);
void sl_data_close(struct sl_data *data);

/* The same from memory (borrowed while open): for tests and fuzzing. `spec->source` says "KIND:".
 */
struct sl_data_file {
    const char *name;
    const void *bytes;
    int64_t size_bytes;
};
SL_MUST_CHECK sl_err sl_data_open_memory(const struct sl_data_spec *spec,
                                         const struct sl_data_file *files, int file_count,
                                         struct sl_data **out);

/* Samples of a split; one epoch. */
int64_t sl_data_count(const struct sl_data *data, enum sl_data_split split);

/* Write input `input` (its place in spec->inputs) of samples first..first+count into `dst`
 * [count, dim...]: float or int32_t. Fails when a file cannot be read any more or holds a value
 * that the model does not take. An input in the role of `row` is its place in this call. */
SL_MUST_CHECK sl_err sl_data_fill(const struct sl_data *data, enum sl_data_split split,
                                  int64_t first, int64_t count, int input, void *dst);

/* Items of an int input that are not its ignore value, over the same samples: what the loss divides
 * by. Costs nothing unless the objective is masked. */
SL_MUST_CHECK sl_err sl_data_count_valid(const struct sl_data *data, enum sl_data_split split,
                                         int64_t first, int64_t count, int input, int64_t *valid);

/* Where training stands; saved in checkpoints together with the fingerprint. */
struct sl_data_cursor {
    int64_t epoch, position;
};

enum sl_data_tail {
    SL_DATA_WRAP,   /* a batch may span two epochs */
    SL_DATA_DROP,   /* skip samples at the end of an epoch that do not fill a batch */
    SL_DATA_PARTIAL /* the last batch of an epoch is smaller */
};

struct sl_data_range { /* for sl_data_fill */
    int64_t first, count;
};

/* The next batch of at most `batch` samples; moves the cursor on. */
SL_MUST_CHECK sl_err sl_data_next(const struct sl_data *data, enum sl_data_split split,
                                  enum sl_data_tail tail, int64_t batch,
                                  struct sl_data_cursor *cursor, struct sl_data_range *range);

/* Changes when files, seed, split or objective change: a resumed run must find the same. */
uint64_t sl_data_fingerprint(const struct sl_data *data);

/* The tokenizer of the set, NULL when it has none. */
const struct sl_tokenizer *sl_data_tokenizer(const struct sl_data *data);

/* Memory that the set holds. */
int64_t sl_data_bytes(const struct sl_data *data);

/* Read every sample of both splits once, as sl_data_fill would. */
SL_MUST_CHECK sl_err sl_data_check(const struct sl_data *data);

/* One line for people; an object for programs. */
void sl_data_describe(const struct sl_data *data, struct sl_text *text);
void sl_data_write_json(const struct sl_data *data, struct sl_json_out *json);

/* The kinds, in alphabetical order; NULL past the end. */
const char *sl_data_kind_name(int i, const char **brief);

#endif
