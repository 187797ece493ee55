/* 32 x 32 sums of a product on the tiles of AMX, with prefetching of later operands. */
#include "device/cpu/product/amx.h"

#include "device/cpu/sizes.h"

enum { LINE = 64 / 4 }; /* floats of a cache line */

struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Configures eight tiles of 16 rows of 64 bytes. It is not a local variable, because gcc 12
 * declares that ldtilecfg reads 8 of the 64 bytes, and drops the stores to the others. */
static const struct amx_config config = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS},
};

void amx_open(void) { _tile_loadconfig(&config); }

void amx_close(void) { _tile_release(); }

static INLINE void prefetch_ahead(struct sl_amx_ahead *ahead) {
    __builtin_prefetch(ahead->at + ahead->row * ahead->ld + ahead->column, 0, 2);
    ahead->column += LINE;
    if (ahead->column >= ahead->wide) {
        ahead->column = 0;
        ahead->row++;
    }
}

/* Prefetches what belongs to one step: of the results, the next panel and the next block. */
static INLINE void prefetch_next(const struct sl_amx_block *t, int64_t step) {
    int64_t per_step = (t->rows + t->steps - 1) / t->steps;
    for (int64_t i = step * per_step; i < min_i64(t->rows, (step + 1) * per_step); i++) {
        int64_t at = i * t->ldc;
        __builtin_prefetch(t->c + at, 1);
        __builtin_prefetch(t->c + at + LINE, 1);
        __builtin_prefetch(t->c + at + 2 * LINE - 1, 1);
        if (!t->also)
            continue;
        __builtin_prefetch(t->also + at);
        __builtin_prefetch(t->also + at + LINE);
        __builtin_prefetch(t->also + at + 2 * LINE - 1);
    }
    for (int64_t i = 0; i < t->lines; i++)
        __builtin_prefetch(t->panel + (step * t->lines + i) * 64, 0, 2);
    for (int64_t i = 0; i < t->ahead_lines && t->ahead->row < t->ahead->rows; i++)
        prefetch_ahead(t->ahead);
}

/* Tiles 0 to 3 hold sums, 4 and 5 rows of A, 6 and 7 columns of B. */
#define AMX_LOAD_A(from)                                                                           \
    do {                                                                                           \
        _tile_loadd(4, from, 64);                                                                  \
        if (two_a)                                                                                 \
            _tile_loadd(5, (from) + AMX_TILE, 64);                                                 \
    } while (0)
#define AMX_LOAD_B(from)                                                                           \
    do {                                                                                           \
        _tile_loadd(6, from, 64);                                                                  \
        if (two_b)                                                                                 \
            _tile_loadd(7, (from) + AMX_TILE, 64);                                                 \
    } while (0)
#define AMX_MULTIPLY()                                                                             \
    do {                                                                                           \
        _tile_dpbf16ps(0, 4, 6);                                                                   \
        if (two_b)                                                                                 \
            _tile_dpbf16ps(1, 4, 7);                                                               \
        if (two_a)                                                                                 \
            _tile_dpbf16ps(2, 5, 6);                                                               \
        if (two_a && two_b)                                                                        \
            _tile_dpbf16ps(3, 5, 7);                                                               \
    } while (0)
/* These multiply, and load the next operand into each tile as soon as it has been read: two
 * multiplications hide the load. This matters most if another thread shares the core. */
#define AMX_THEN_A(from)                                                                           \
    do {                                                                                           \
        _tile_dpbf16ps(0, 4, 6);                                                                   \
        if (two_b)                                                                                 \
            _tile_dpbf16ps(1, 4, 7);                                                               \
        _tile_loadd(4, from, 64);                                                                  \
        if (two_a)                                                                                 \
            _tile_dpbf16ps(2, 5, 6);                                                               \
        if (two_a && two_b)                                                                        \
            _tile_dpbf16ps(3, 5, 7);                                                               \
        if (two_a)                                                                                 \
            _tile_loadd(5, (from) + AMX_TILE, 64);                                                 \
    } while (0)
#define AMX_THEN_B(from)                                                                           \
    do {                                                                                           \
        _tile_dpbf16ps(0, 4, 6);                                                                   \
        if (two_a)                                                                                 \
            _tile_dpbf16ps(2, 5, 6);                                                               \
        _tile_loadd(6, from, 64);                                                                  \
        if (two_b)                                                                                 \
            _tile_dpbf16ps(1, 4, 7);                                                               \
        if (two_a && two_b)                                                                        \
            _tile_dpbf16ps(3, 5, 7);                                                               \
        if (two_b)                                                                                 \
            _tile_loadd(7, (from) + AMX_TILE, 64);                                                 \
    } while (0)
#define AMX_THEN_BOTH(from_a, from_b)                                                              \
    do {                                                                                           \
        _tile_dpbf16ps(0, 4, 6);                                                                   \
        if (two_b)                                                                                 \
            _tile_dpbf16ps(1, 4, 7);                                                               \
        _tile_loadd(4, from_a, 64);                                                                \
        if (two_a)                                                                                 \
            _tile_dpbf16ps(2, 5, 6);                                                               \
        _tile_loadd(6, from_b, 64);                                                                \
        if (two_a && two_b)                                                                        \
            _tile_dpbf16ps(3, 5, 7);                                                               \
        if (two_a)                                                                                 \
            _tile_loadd(5, (from_a) + AMX_TILE, 64);                                               \
        if (two_b)                                                                                 \
            _tile_loadd(7, (from_b) + AMX_TILE, 64);                                               \
    } while (0)

#define AMX_START(tile, used, from)                                                                \
    do {                                                                                           \
        if (!t->add)                                                                               \
            _tile_zero(tile);                                                                      \
        else if (used)                                                                             \
            _tile_loadd(tile, from, row);                                                          \
    } while (0)

/* All products of the parts of a step but the last one, A0 B0. Small products come first: A0 B2, A0
 * B1, A1 B1, A1 B0, A2 B0. Each loads one factor for the next. */
#if SL_ISA_AMX_PARTS == 1
#define AMX_SMALL_PARTS()
#else
#define AMX_SMALL_PARTS()                                                                          \
    do {                                                                                           \
        AMX_THEN_B(b + AMX_PART);                                                                  \
        AMX_THEN_A(a + AMX_PART);                                                                  \
        AMX_THEN_B(b);                                                                             \
        AMX_THEN_A(a + 2 * AMX_PART);                                                              \
        AMX_THEN_A(a);                                                                             \
    } while (0)
#endif

static INLINE void amx_run_block(const struct sl_amx_block *t, bool two_a, bool two_b) {
    const char *a = t->a, *b = t->b;
    const int64_t row = 4 * t->sums_step;
    float *right = t->sums + AMX_ROWS, *below = t->sums + AMX_ROWS * t->sums_step;
    AMX_START(0, true, t->sums);
    AMX_START(1, two_b, right);
    AMX_START(2, two_a, below);
    AMX_START(3, two_a && two_b, below + AMX_ROWS);
    AMX_LOAD_A(a);
    AMX_LOAD_B(b + SL_ISA_AMX_PARTS * AMX_PART - AMX_PART);
    for (int64_t step = 0;;) {
        prefetch_next(t, step);
        AMX_SMALL_PARTS();
        if (++step >= t->steps)
            break;
        a += AMX_STEP;
        b += AMX_STEP;
        AMX_THEN_BOTH(a, b + SL_ISA_AMX_PARTS * AMX_PART - AMX_PART);
    }
    AMX_MULTIPLY();
    _tile_stored(0, t->sums, row);
    if (two_b)
        _tile_stored(1, right, row);
    if (two_a)
        _tile_stored(2, below, row);
    if (two_a && two_b)
        _tile_stored(3, below + AMX_ROWS, row);
}

void amx_multiply(const struct sl_amx_block *t, int64_t rows, int64_t cols) {
    if (rows > AMX_ROWS && cols > AMX_ROWS)
        amx_run_block(t, true, true);
    else if (rows > AMX_ROWS)
        amx_run_block(t, true, false);
    else if (cols > AMX_ROWS)
        amx_run_block(t, false, true);
    else
        amx_run_block(t, false, false);
}
