/* The kinds of data sets, in alphabetical order. */
#include "data/source.h"

/* One line per kind of data set, in alphabetical order. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sl_data_csv) \
    ROW(sl_data_f32) \
    ROW(sl_data_idx) \
    ROW(sl_data_images) \
    ROW(sl_data_jsonl) \
    ROW(sl_data_llmc) \
    ROW(sl_data_megatron) \
    ROW(sl_data_mix) \
    ROW(sl_data_npy) \
    ROW(sl_data_program) \
    ROW(sl_data_synthetic) \
    ROW(sl_data_text) \
    ROW(sl_data_u16) \
    ROW(sl_data_u32)
/* clang-format on */

#define DECLARE(row) extern const struct sl_data_kind row;
ROWS(DECLARE)
#define POINT(row) &(row),
const struct sl_data_kind *const sl_data_kinds[] = {ROWS(POINT) NULL};

const char *sl_data_kind_name(int i, const char **brief) {
    int count = SL_COUNT(sl_data_kinds) - 1;
    if (i < 0 || i >= count)
        return NULL;
    if (brief)
        *brief = sl_data_kinds[i]->brief;
    return sl_data_kinds[i]->name;
}
