/* Chooses the array of NumPy that an input reads, in this order:
 *
 *   1. an array with the name of the input: IN=FILE, a name in the archive, else the file's name
 *   2. the same, ignoring case and without _train
 *   3. targets: an array that is called y, label, targets ...; other inputs: x, data, inputs, arr_0
 *   4. one remaining input: the one remaining array */
#include "data/npy_set.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool same_name(const char *array, const char *input, int step) {
    size_t length = strlen(array);
    if (step == 0)
        return strcmp(array, input) == 0;
    if (length > 6 && strcasecmp(array + length - 6, "_train") == 0)
        length -= 6;
    return length == strlen(input) && strncasecmp(array, input, length) == 0;
}

/* Does an array of this name hold the targets (target), or the main input? */
static bool name_fits(struct sl_arena *arena, const char *array, bool target) {
    static const char *const mains[] = {"x", "data", "input", "inputs", "features", "arr_0"};
    char *name = sl_arena_dup(arena, array, strlen(array));
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        name[i] = (char)tolower((unsigned char)name[i]);
    if (length > 6 && strcmp(name + length - 6, "_train") == 0)
        name[length - 6] = 0;
    struct sl_data_input input = {.name = name, .dtype = SL_DATA_INT};
    enum sl_data_role role = sl_data_role(&input);
    if (target)
        return role == SL_ROLE_TARGET;
    input.dtype = SL_DATA_FLOAT;
    bool found = role == SL_ROLE_TOKENS || sl_data_role(&input) == SL_ROLE_IMAGE;
    for (int i = 0; i < SL_COUNT(mains); i++)
        found |= strcmp(name, mains[i]) == 0;
    return found;
}

static int64_t only_free(const struct sl_npy_set *set) {
    int64_t found = -1;
    for (int64_t i = 0; i < set->arrays.count; i++)
        if (!set->used[i]) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

static bool wants_data(const struct sl_data_bound *bound) { return !sl_data_is_plain(bound->role); }

static void find_array(struct sl_data *data, struct sl_npy_set *set, int input, int step) {
    const struct sl_data_bound *bound = &data->bound[input];
    int64_t found = -1;
    if (set->source[input].array || bound->role == SL_ROLE_ROW)
        return;
    for (int64_t i = 0; i < set->arrays.count && found < 0; i++) {
        if (set->used[i])
            continue;
        if (step < 2 && same_name(set->arrays.at[i].name, bound->want.name, step))
            found = i;
        if (step == 2 && wants_data(bound) &&
            name_fits(&data->arena, set->arrays.at[i].name, bound->role == SL_ROLE_TARGET))
            found = i;
    }
    if (step == 3 && wants_data(bound))
        found = only_free(set);
    if (found < 0)
        return;
    set->used[found] = true;
    set->source[input].array = &set->arrays.at[found];
}

void sl_data_npy_put_shape(struct sl_text *text, const struct sl_npy *a) {
    sl_text_printf(text, "%s %c%d[", a->name, a->type, a->width);
    for (int i = 0; i < a->rank; i++)
        sl_text_printf(text, "%s%lld", i ? "," : "", (long long)a->dim[i]);
    sl_text_put(text, "]");
}

static sl_err no_array(const struct sl_data *data, const struct sl_npy_set *set, int input,
                       const char *what) {
    char text[SL_DATA_INPUT_TEXT];
    struct sl_text names = {0};
    for (int64_t i = 0; i < set->arrays.count && i < 12; i++) {
        sl_text_put(&names, i ? ", " : "");
        sl_data_npy_put_shape(&names, &set->arrays.at[i]);
    }
    sl_err err = sl_fail(
        SL_ERR_INPUT, "%s: %s input %s of the model; the arrays: %s%s. Name them: NAME=FILE",
        data->blob[0].name, what, sl_data_input_text(&data->bound[input].want, text), names.at,
        set->arrays.count > 12 ? ", ..." : "");
    sl_text_free(&names);
    return err;
}

/* Lists the sizes other than 1, from dimension `from` on. */
static int squeeze(const int64_t *dim, int rank, int64_t *out) {
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (dim[i] != 1)
            out[count++] = dim[i];
    return count;
}

static bool shape_fits(struct sl_npy_source *s, const struct sl_data_bound *bound) {
    int64_t have[SL_NPY_RANK], want[SL_DATA_RANK];
    const struct sl_npy *a = s->array;
    const struct sl_data_input *in = &bound->want;
    if (a->rank < 1)
        return false;
    s->size = a->numel / a->dim[0];
    if (s->size != bound->numel)
        return false;
    int n = squeeze(a->dim + 1, a->rank - 1, have), m = squeeze(in->dim, in->rank, want);
    bool equal = n == m;
    for (int i = 0; i < n && equal; i++)
        equal = have[i] == want[i];
    if (equal || n <= 1 || m <= 1)
        return true;
    s->channels_last = in->rank == 3 && a->rank == 4 && a->dim[1] == in->dim[1] &&
                       a->dim[2] == in->dim[2] && a->dim[3] == in->dim[0];
    return s->channels_last;
}

/* Lets an array [N,T+1] of tokens also provide the targets. */
static bool shift_targets(struct sl_data *data, struct sl_npy_set *set) {
    int tokens = -1, target = -1;
    for (int i = 0; i < data->bound_count; i++) {
        if (data->bound[i].role == SL_ROLE_TOKENS)
            tokens = i;
        if (data->bound[i].role == SL_ROLE_TARGET)
            target = i;
    }
    if (tokens < 0 || target < 0 || set->source[target].array || !set->source[tokens].array)
        return false;
    const struct sl_npy *a = set->source[tokens].array;
    int64_t length = data->bound[tokens].numel;
    if (a->rank != 2 || a->dim[1] != length + 1 || data->bound[target].numel != length)
        return false;
    set->source[tokens].size = set->source[target].size = length + 1;
    set->source[target].array = a;
    set->source[target].skip = 1;
    return true;
}

/* Is the set one array [N] of integers, for a model of tokens? */
bool sl_data_npy_is_text(const struct sl_data *data, const struct sl_npy_set *set) {
    const struct sl_npy *a = &set->arrays.at[0];
    bool tokens = false;
    for (int i = 0; i < data->bound_count; i++)
        tokens |= data->bound[i].role == SL_ROLE_TOKENS && data->bound[i].numel > 1;
    return tokens && set->arrays.count == 1 && a->rank == 1 && (a->type == 'i' || a->type == 'u') &&
           !a->big;
}

static sl_err check_count(struct sl_data *data, const struct sl_npy_set *set, int input) {
    const struct sl_npy *a = set->source[input].array;
    if (data->total && data->total != a->dim[0])
        return no_array(data, set, input, "another number of samples for");
    data->total = a->dim[0];
    return SL_OK;
}

sl_err sl_data_npy_bind(struct sl_data *data, struct sl_npy_set *set) {
    for (int step = 0; step < 4; step++)
        for (int i = 0; i < data->bound_count; i++)
            find_array(data, set, i, step);
    bool shifted = shift_targets(data, set);
    for (int i = 0; i < data->bound_count; i++) {
        const struct sl_data_bound *bound = &data->bound[i];
        struct sl_npy_source *s = &set->source[i];
        if (!s->array) {
            if (wants_data(bound))
                return no_array(data, set, i, "no array for");
            continue;
        }
        bool is_pair = shifted && bound->numel + 1 == s->size;
        if (!is_pair && !shape_fits(s, bound))
            return no_array(data, set, i, "the shape of the samples does not fit");
        SL_TRY(check_count(data, set, i));
    }
    if (!data->total)
        return sl_fail(SL_ERR_INPUT, "%s: no input of the model reads it", data->blob[0].name);
    return SL_OK;
}
