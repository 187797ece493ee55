/* Panels of bf16 for the tiles of AMX, and their product. A tile is a matrix register of 16 rows of
 * 64 bytes; a panel holds the tiles of 32 rows of A or 32 columns of B.
 *
 *   amx_pack_panels   rows of A or columns of B -> panels (pack_amx.c)
 *   amx_multiply      panel of A x panel of B -> 32 x 32 sums (tile_amx.c)
 *
 * Tiles are configured per thread: amx_open before the first product, amx_close after the last. */
#ifndef SL_DEVICE_CPU_PRODUCT_AMX_H
#define SL_DEVICE_CPU_PRODUCT_AMX_H

#include "device/cpu/vec.h"

enum {
    AMX_ROWS = 16,                          /* rows of a tile */
    AMX_SIDE = 32,                          /* rows, columns and k of a step: two tiles each */
    AMX_TILE = 1024,                        /* bytes of a tile */
    AMX_PART = 2 * AMX_TILE,                /* bytes of one part of a step */
    AMX_STEP = SL_ISA_AMX_PARTS * AMX_PART, /* bytes of a step of a panel */
    AMX_WIDE = 8 * AMX_SIDE,                /* rows or columns that are packed together */
    AMX_PACK_STEPS = 4,                     /* steps that one call of a pack_fn packs */
};

/* The source of a packed tile; line r of memory begins at from + r * ld. */
struct sl_amx_source {
    const float *from;
    int64_t ld;
    int64_t count;   /* how many of the 16 rows of A or columns of B exist */
    bool k_in_lanes; /* a line of memory runs along k, else across k */
    bool turn;       /* a row of the tile is a column of memory */
};

/* The source of the next block, which is prefetched while the tiles multiply. */
struct sl_amx_ahead {
    const float *at;        /* NULL: none */
    int64_t ld, rows, wide; /* `wide` is the number of floats of a row */
    int64_t row, column;    /* the place to prefetch next */
};

/* The product of one panel of A and one panel of B: 32 x 32 sums. */
struct sl_amx_block {
    const char *a, *b;
    int64_t steps;
    bool add;          /* adds to `sums` */
    int64_t sums_step; /* floats from one row of the sums to the next */
    float *sums;       /* [32, 32] */
    /* To prefetch: `rows` rows of 32 floats, ldc apart, of c and of `also` (may be NULL). */
    const float *c, *also;
    int64_t ldc, rows;
    const char *panel; /* next panel, to prefetch: `lines` lines of 64 bytes per step */
    int64_t lines;
    /* next block, to prefetch: `ahead_lines` lines of 64 bytes per step */
    struct sl_amx_ahead *ahead;
    int64_t ahead_lines;
};

#define amx_close SL_ISA_NAME(amx_close)
#define amx_multiply SL_ISA_NAME(amx_multiply)
#define amx_open SL_ISA_NAME(amx_open)
#define amx_pack_panels SL_ISA_NAME(amx_pack_panels)

void amx_open(void);
void amx_close(void);
void amx_multiply(const struct sl_amx_block *t, int64_t rows, int64_t cols);
/* Packs kc of k of `count` rows of A or columns of B (at most AMX_WIDE) into panels that are
 * `panel` bytes apart. Adds the sums over k to `sums`, which are vectors of 16; NULL: no sums. */
void amx_pack_panels(const struct sl_amx_source *from, int64_t count, int64_t kc, vf *sums,
                     char *to, int64_t panel);

#endif
