/* Roles of inputs by their names; inputs that every set can fill; error messages about inputs. */
#include "data/source.h"

#include <stdio.h>
#include <string.h>

struct named_role {
    const char *name;
    enum sl_data_role role;
};

static const struct named_role roles[] = {
    {"tokens", SL_ROLE_TOKENS},
    {"ids", SL_ROLE_TOKENS},
    {"input_ids", SL_ROLE_TOKENS},
    {"token_ids", SL_ROLE_TOKENS},
    {"text", SL_ROLE_TOKENS},
    {"targets", SL_ROLE_TARGET},
    {"target", SL_ROLE_TARGET},
    {"labels", SL_ROLE_TARGET},
    {"label", SL_ROLE_TARGET},
    {"class", SL_ROLE_TARGET},
    {"y", SL_ROLE_TARGET},
    {"click", SL_ROLE_TARGET},
    {"clicks", SL_ROLE_TARGET},
    {"response", SL_ROLE_TARGET},
    {"growth", SL_ROLE_TARGET},
    {"mask", SL_ROLE_MASK},
    {"pad_mask", SL_ROLE_MASK},
    {"padding_mask", SL_ROLE_MASK},
    {"attention_mask", SL_ROLE_MASK},
    {"segments", SL_ROLE_SEGMENT},
    {"segment", SL_ROLE_SEGMENT},
    {"segment_ids", SL_ROLE_SEGMENT},
    {"token_types", SL_ROLE_SEGMENT},
    {"token_type_ids", SL_ROLE_SEGMENT},
    {"positions", SL_ROLE_POSITION},
    {"position", SL_ROLE_POSITION},
    {"position_ids", SL_ROLE_POSITION},
    {"pos", SL_ROLE_POSITION},
    {"image", SL_ROLE_IMAGE},
    {"images", SL_ROLE_IMAGE},
    {"pixels", SL_ROLE_IMAGE},
    {"row", SL_ROLE_ROW},
    {"rows", SL_ROLE_ROW},
    {"match", SL_ROLE_MATCH},
    {"back", SL_ROLE_MATCH},
};

/* Does the name, or its part after the last '_' or '.', equal `known`? (text_tokens, a.targets) */
static bool name_matches(const char *name, const char *known) {
    size_t a = strlen(name), b = strlen(known);
    if (a < b || strcmp(name + a - b, known) != 0)
        return false;
    return a == b || (b > 2 && (name[a - b - 1] == '_' || name[a - b - 1] == '.'));
}

enum sl_data_role sl_data_role(const struct sl_data_input *input) {
    enum sl_data_role role = SL_ROLE_FEATURE;
    size_t best = 0; /* the longest match counts: pad_mask before mask */
    for (int i = 0; i < SL_COUNT(roles); i++) {
        size_t length = strlen(roles[i].name);
        if (length > best && name_matches(input->name, roles[i].name)) {
            role = roles[i].role;
            best = length;
        }
    }
    bool is_int = input->dtype == SL_DATA_INT;
    if (role == SL_ROLE_FEATURE && strcmp(input->name, "x") == 0 && is_int)
        return SL_ROLE_TOKENS;
    if ((role == SL_ROLE_TOKENS || role == SL_ROLE_SEGMENT || role == SL_ROLE_POSITION ||
         role == SL_ROLE_ROW || role == SL_ROLE_MATCH) &&
        !is_int)
        return SL_ROLE_FEATURE;
    if (role == SL_ROLE_IMAGE && is_int)
        return SL_ROLE_FEATURE;
    return role;
}

const char *sl_data_input_text(const struct sl_data_input *input, char out[SL_DATA_INPUT_TEXT]) {
    size_t used = (size_t)snprintf(out, SL_DATA_INPUT_TEXT, "'%.60s' %s[B", input->name,
                                   input->dtype == SL_DATA_INT ? "int" : "float");
    for (int i = 0; i < input->rank && used < SL_DATA_INPUT_TEXT - 24; i++)
        used += (size_t)snprintf(out + used, SL_DATA_INPUT_TEXT - used, ",%lld",
                                 (long long)input->dim[i]);
    snprintf(out + used, SL_DATA_INPUT_TEXT - used, "]");
    return out;
}

sl_err sl_data_refuse(const struct sl_data *data, const struct sl_data_input *input) {
    char text[SL_DATA_INPUT_TEXT];
    return sl_fail(SL_ERR_INPUT,
                   "input %s of the model: a set of kind %s has nothing for it; it offers %s",
                   sl_data_input_text(input, text), data->kind->name, data->kind->offers);
}

sl_err sl_data_bad_value(const struct sl_data_bound *bound, int64_t value, const char *file) {
    return sl_fail(
        SL_ERR_INPUT,
        "%s: the value %lld is not in [0, %lld), which input '%s' of the model takes; try "
        "a model with a larger size there (`sizes`), or another tokenizer",
        file, (long long)value, (long long)bound->want.below, bound->want.name);
}

bool sl_data_is_plain(enum sl_data_role role) {
    return role == SL_ROLE_MASK || role == SL_ROLE_SEGMENT || role == SL_ROLE_POSITION ||
           role == SL_ROLE_ROW || role == SL_ROLE_MATCH;
}

static void put(const struct sl_data_bound *bound, void *dst, int64_t i, int64_t value) {
    if (bound->want.dtype == SL_DATA_INT)
        ((int32_t *)dst)[i] = (int32_t)value;
    else
        ((float *)dst)[i] = (float)value;
}

bool sl_data_fill_plain(const struct sl_data_bound *bound, const struct sl_data_ask *ask) {
    switch (bound->role) {
    case SL_ROLE_MASK:
    case SL_ROLE_SEGMENT:
    case SL_ROLE_POSITION:
    case SL_ROLE_MATCH:
        for (int64_t i = 0; i < bound->numel; i++)
            put(bound, ask->dst, i,
                bound->role == SL_ROLE_MASK      ? 1
                : bound->role == SL_ROLE_SEGMENT ? 0
                                                 : i);
        return true;
    case SL_ROLE_ROW:
        for (int64_t i = 0; i < bound->numel; i++)
            put(bound, ask->dst, i, ask->row);
        return true;
    default: return false;
    }
}
