/* The kinds of data sets, in alphabetical order. */
#include "data/source.h"

extern const struct sl_data_kind sl_data_csv, sl_data_f32, sl_data_idx, sl_data_llmc,
    sl_data_megatron, sl_data_synthetic, sl_data_text, sl_data_u16, sl_data_u32;

const struct sl_data_kind *const sl_data_kinds[] = {
    &sl_data_csv,       &sl_data_f32,  &sl_data_idx, &sl_data_llmc, &sl_data_megatron,
    &sl_data_synthetic, &sl_data_text, &sl_data_u16, &sl_data_u32,  NULL,
};

const char *sl_data_kind_name(int i, const char **brief) {
    int count = SL_COUNT(sl_data_kinds) - 1;
    if (i < 0 || i >= count)
        return NULL;
    if (brief)
        *brief = sl_data_kinds[i]->brief;
    return sl_data_kinds[i]->name;
}
