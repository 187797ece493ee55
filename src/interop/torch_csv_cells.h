/* The cells of torch's CSV. Private to torch_csv_*.c. */
#ifndef SL_INTEROP_TORCH_CSV_CELLS_H
#define SL_INTEROP_TORCH_CSV_CELLS_H

#include "base/vec.h"

#include <stdbool.h>

enum sl_cell_kind {
    SL_CELL_F,
    SL_CELL_B,
    SL_CELL_I,
    SL_CELL_W,
    SL_CELL_BW, /* in torch before 2.6 the whole backward; see torch_csv_old.c */
    SL_CELL_SEND_F,
    SL_CELL_SEND_B,
    SL_CELL_RECV_F,
    SL_CELL_RECV_B,
    SL_CELL_WAIT_SEND_F,
    SL_CELL_WAIT_SEND_B,
    SL_CELL_OTHER, /* parameters and reductions, which have no order between ranks */
};

struct sl_torch_cell {
    int32_t stage, micro, rank;
    int line, column;
    enum sl_cell_kind kind;
};

struct sl_torch_file {
    struct sl_arena *arena;
    const char *file, *at, *end, *line_start;
    int line;
    int32_t rank, ranks; /* ranks: number of rows up to the last that is not blank */
    int32_t stages, micros;
    bool comms;
    SL_VEC(struct sl_torch_cell) cells;
    int *rank_of; /* [stage] */
};

/* torch_csv_old.c. Translates names and numbers that versions of torch write differently. */
void sl_interop_torch_csv_rename(struct sl_torch_file *file);

#endif
