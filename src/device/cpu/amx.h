/* Sizes of the tiles of AMX, and what is packed into them and computed with them. */
#ifndef SL_DEVICE_CPU_AMX_H
#define SL_DEVICE_CPU_AMX_H

#include "device/cpu/gemm_spec.h"

/* Of a float in the tiles: three keep all of it, one is the nearest bf16. */
#ifndef AMX_PARTS
#define AMX_PARTS 3
#endif

enum {
    AMX_ROWS = 16,                   /* of a tile */
    AMX_SIDE = 32,                   /* rows, columns and k of a step: two tiles each */
    AMX_TILE = 1024,                 /* bytes */
    AMX_PART = 2 * AMX_TILE,         /* bytes of one part of a step */
    AMX_STEP = AMX_PARTS * AMX_PART, /* bytes of a step of a panel */
    AMX_WIDE = 8 * AMX_SIDE,         /* rows or columns that are packed together */
    AMX_AT_ONCE = 4,                 /* steps that a pack_fn is asked for */
};

/* What a tile is packed from: x[r] is at `from` + r * ld. */
struct amx_source {
    const float *from;
    int64_t ld;
    int64_t count;   /* rows of A or columns of B that are there, of 16 */
    bool k_in_lanes; /* lines of memory run along k, not across it */
    bool turn;       /* a row of the tile is no line of memory */
};

/* What is asked for while the tiles multiply: the source of the block that comes next. */
struct amx_ahead {
    const float *at;        /* NULL: nothing */
    int64_t ld, rows, wide; /* wide: floats of a row */
    int64_t row, column;    /* next */
};

struct amx_block {
    const char *a, *b;
    int64_t steps;
    bool add;              /* to what is there */
    int64_t sums_step;     /* from row to row */
    float *sums;           /* [32, 32] */
    const float *c, *also; /* asked for: `rows` lines of 32 floats, ldc apart; also: or NULL */
    int64_t ldc, rows;
    const char *panel; /* asked for: `lines` lines of 64 bytes per step */
    int64_t lines;
    struct amx_ahead *ahead; /* asked for: `ahead_lines` lines of 64 bytes per step */
    int64_t ahead_lines;
};

#endif
