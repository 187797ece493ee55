/* Translates names of passes and numbers of micro-batches that versions of torch write
 * differently. */
#include "interop/torch_csv_cells.h"

#include <stdlib.h>
#include <string.h>

enum { HAS_B = 1, HAS_W = 2 };

static uint8_t *seen_at(const struct sl_torch_file *r, uint8_t *seen,
                        const struct sl_torch_cell *cell) {
    return &seen[(int64_t)cell->stage * r->micros + cell->micro];
}

/* Torch before 2.6 wrote B and W for the halves and BW for the whole. A file uses these names if it
 * has no I and every B has a W. */
static void use_old_names(struct sl_torch_file *r) {
    uint8_t *seen = sl_realloc(NULL, (size_t)r->stages * (size_t)r->micros);
    memset(seen, 0, (size_t)r->stages * (size_t)r->micros);
    bool old = true;
    for (int64_t i = 0; i < r->cells.count; i++) {
        const struct sl_torch_cell *cell = &r->cells.at[i];
        old &= cell->kind != SL_CELL_I;
        if (cell->kind == SL_CELL_B || cell->kind == SL_CELL_W)
            *seen_at(r, seen, cell) |= cell->kind == SL_CELL_B ? HAS_B : HAS_W;
    }
    for (int64_t i = 0; i < (int64_t)r->stages * r->micros; i++)
        old &= seen[i] == 0 || seen[i] == (HAS_B | HAS_W);
    for (int64_t i = 0; i < r->cells.count; i++) {
        struct sl_torch_cell *cell = &r->cells.at[i];
        if (cell->kind == SL_CELL_B && old)
            cell->kind = SL_CELL_I;
        else if (cell->kind == SL_CELL_BW)
            cell->kind = SL_CELL_B;
    }
    free(seen);
}

struct numbers {
    int32_t low, high; /* range of the forwards */
    int64_t forwards;
    int32_t back; /* highest micro-batch of the backwards */
};

/* Schedule1F1B of torch 2.15 numbers the forwards of its last stage from 1, but backwards from 0:
 * counts both from 0. */
static void fix_forwards(struct sl_torch_file *r) {
    struct numbers *of = SL_NEW(r->arena, struct numbers, r->stages);
    int32_t micros = 0, counted_from_1 = -1;
    for (int i = 0; i < r->stages; i++)
        of[i] = (struct numbers){.low = INT32_MAX, .high = -1, .back = -1};
    for (int64_t i = 0; i < r->cells.count; i++) {
        const struct sl_torch_cell *cell = &r->cells.at[i];
        struct numbers *n = &of[cell->stage];
        if (cell->kind == SL_CELL_F) {
            n->forwards++;
            n->low = cell->micro < n->low ? cell->micro : n->low;
            n->high = cell->micro > n->high ? cell->micro : n->high;
        } else if (cell->kind <= SL_CELL_W && cell->micro > n->back) {
            n->back = cell->micro;
            micros = cell->micro >= micros ? cell->micro + 1 : micros;
        }
    }
    const struct numbers *last = &of[r->stages - 1];
    if (last->low == 1 && last->high == micros && last->forwards == micros &&
        last->back == micros - 1 && r->micros == micros + 1)
        counted_from_1 = r->stages - 1;
    for (int64_t i = 0; i < r->cells.count && counted_from_1 >= 0; i++)
        if (r->cells.at[i].kind == SL_CELL_F && r->cells.at[i].stage == counted_from_1)
            r->cells.at[i].micro--;
    if (counted_from_1 >= 0)
        r->micros = micros;
}

void sl_interop_torch_csv_rename(struct sl_torch_file *r) {
    use_old_names(r);
    if (!r->comms)
        fix_forwards(r);
}
