/* config.json of a folder of Hugging Face: a flat table of its values, and which of them were used.
 *
 *   {"n_embd": 8, "rope_parameters": {"rope_theta": 1e4}}   ->   n_embd, rope_parameters.rope_theta
 *
 * The reader of an architecture asks for the values that it knows. A value that nobody asked for
 * changes the model in a way that is not implemented, so sl_hf_config_finish refuses it by name,
 * unless it is off (null, false, an empty list) or does not concern the model's function (names of
 * labels, settings of generation). The first error is kept in `err`; later calls do nothing.
 */
#ifndef SL_HF_CONFIG_H
#define SL_HF_CONFIG_H

#include "base/json.h"
#include "base/map.h"
#include "base/vec.h"

enum { SL_HF_CONFIG_BYTES = 8 << 20, SL_HF_CONFIG_VALUES = 200000 };

struct sl_hf_value {
    const char *key;
    enum sl_json_event kind; /* SL_JSON_STRING, NUMBER, BOOL, NULL, ARRAY or OBJECT */
    const char *text;        /* of a string */
    double number;
    bool flag, used;
    int64_t count; /* items of a list or an object */
};

struct sl_hf_config {
    const char *file;
    struct sl_arena arena;
    SL_VEC(struct sl_hf_value) values;
    struct sl_map index;
    const char *under; /* put in front of every key that is asked for: "text_config." */
    sl_err err;
    struct sl_text message;
};

SL_MUST_CHECK sl_err sl_hf_config_read(const char *file, const char *text, size_t length,
                                       struct sl_hf_config *out);
void sl_hf_config_close(struct sl_hf_config *config);

/* The value, which counts as used from now on; NULL: absent or null. */
const struct sl_hf_value *sl_hf_find(struct sl_hf_config *c, const char *key);
bool sl_hf_is_null(struct sl_hf_config *c, const char *key); /* there, and null: none, no default */
int64_t sl_hf_count(struct sl_hf_config *c, const char *key); /* items of a list; 0: absent */

/* Values of one type. `fallback` is for an absent key or null. A value of another type is an
 * error. */
int64_t sl_hf_int(struct sl_hf_config *c, const char *key, int64_t fallback);
double sl_hf_number(struct sl_hf_config *c, const char *key, double fallback);
bool sl_hf_flag(struct sl_hf_config *c, const char *key, bool fallback);
const char *sl_hf_text(struct sl_hf_config *c, const char *key, const char *fallback);
/* A size from 1 to 2^31; must be there. */
int64_t sl_hf_size(struct sl_hf_config *c, const char *key);

/* Refuses the value of `key`: "config.json: `key` is X: <why>". */
void sl_hf_refuse(struct sl_hf_config *c, const char *key, const char *why);
/* Refuses a value other than `only`, which is also the value of an absent key. */
void sl_hf_only_flag(struct sl_hf_config *c, const char *key, bool only, const char *why);
void sl_hf_only_text(struct sl_hf_config *c, const char *key, const char *only, const char *why);

/* The first error, or a value that is not implemented. */
SL_MUST_CHECK sl_err sl_hf_config_finish(struct sl_hf_config *config);

#endif
