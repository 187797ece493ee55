/* Ops of generation graphs only. They are in no registry: model texts do not have them.
 *
 *   past [B] int     tokens of each sequence before this chunk
 *
 *   decode_rows         x [B,..,T,..] or [..,T,..], past  ->  rows past .. past + N - 1 of an axis
 *   decode_pick         x [B,N,..], last [B]              ->  [B,1,..], row `last`
 *   decode_put          cache, x [B,..,N,..], past        ->  done [B]; x goes to the cache's rows
 *   decode_cache        cache, done                       ->  a view [B,..,T,..] of it
 *   decode_rope         x [B,N,H,D], past                 ->  x rotated as at these positions
 *   decode_attention    q [B,N,H,D], k, v [B,T,K,D], past ->  y, lse: query i sees keys up to past + i
 *
 * Rows from T on are not written, and are read as row T - 1: no visible result depends on them. */
#ifndef SL_DECODE_OPS_H
#define SL_DECODE_OPS_H

#include "graph/op.h"

enum {
    SL_DECODE_AXIS,
    SL_DECODE_LENGTH,
    SL_DECODE_COUNT
}; /* length of decode_rows: N; of decode_put: T */

extern const struct sl_op sl_decode_attention, sl_decode_cache, sl_decode_pick, sl_decode_put,
    sl_decode_rope, sl_decode_rows;

#endif
