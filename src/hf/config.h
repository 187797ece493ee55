/* config.json of a Hugging Face folder, as a flat table of its values with marks for those that
 * were used.
 *
 *   {"n_embd": 8, "rope_parameters": {"rope_theta": 1e4}}   ->   n_embd, rope_parameters.rope_theta
 *
 * The reader of an architecture asks for the values that it knows. A value that no reader used
 * may change the model in a way that is not implemented. So sl_hf_config_finish refuses it by
 * name, unless it is off (null, false, an empty list) or does not concern what the model
 * computes (names of labels, settings of generation). The first error is kept in `err`; later
 * calls do nothing. */
#ifndef SL_HF_CONFIG_H
#define SL_HF_CONFIG_H

#include "base/json.h"
#include "base/map.h"
#include "base/vec.h"

enum { SL_HF_CONFIG_BYTES = 8 << 20, SL_HF_CONFIG_VALUES = 200000 };

struct sl_hf_value {
    const char *key;
    enum sl_json_event kind; /* SL_JSON_STRING, NUMBER, BOOL, NULL, ARRAY or OBJECT */
    const char *text;        /* text of a string */
    double number;
    bool flag, used;
    int64_t count; /* number of items of a list or an object */
};

struct sl_hf_config {
    const char *file;
    struct sl_arena arena;
    SL_VEC(struct sl_hf_value) values;
    struct sl_map index;
    const char *under; /* prefix of every key that is looked up: "text_config." */
    sl_err err;
    struct sl_text message;
};

SL_MUST_CHECK sl_err sl_hf_config_read(const char *file, const char *text, size_t length,
                                       struct sl_hf_config *out);
void sl_hf_config_close(struct sl_hf_config *config);

/* Returns the value, which counts as used from now on; NULL: it is absent or null. */
const struct sl_hf_value *sl_hf_find(struct sl_hf_config *c, const char *key);
/* Returns true if the value is present but null, which means "none", not "default". */
bool sl_hf_is_null(struct sl_hf_config *c, const char *key);
/* Returns the number of items of a list; 0 if it is absent. */
int64_t sl_hf_count(struct sl_hf_config *c, const char *key);

/* Return values of one type. `fallback` is used if the key is absent or null. A value of another
 * type is an error. */
int64_t sl_hf_int(struct sl_hf_config *c, const char *key, int64_t fallback);
double sl_hf_number(struct sl_hf_config *c, const char *key, double fallback);
bool sl_hf_flag(struct sl_hf_config *c, const char *key, bool fallback);
const char *sl_hf_text(struct sl_hf_config *c, const char *key, const char *fallback);
/* Returns a size from 1 to 2^31, which must be present. */
int64_t sl_hf_size(struct sl_hf_config *c, const char *key);

/* Refuses the value of `key`: "config.json: `key` is X: <why>". */
void sl_hf_refuse(struct sl_hf_config *c, const char *key, const char *why);
/* Refuse a value other than `only`, which an absent key has too. */
void sl_hf_only_flag(struct sl_hf_config *c, const char *key, bool only, const char *why);
void sl_hf_only_text(struct sl_hf_config *c, const char *key, const char *only, const char *why);

/* Returns the first error, or an error for a value that is not implemented. */
SL_MUST_CHECK sl_err sl_hf_config_finish(struct sl_hf_config *config);

#endif
