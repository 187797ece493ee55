/* The products of attention on AMX. Keys, values and queries are packed once; the probabilities of
 * a block are packed where they are computed. Heads use vectors instead if their width is no
 * multiple of a step or if they are too short for tiles. */
#include "device/cpu/product/attention_amx.h"

#include "device/cpu/product/amx.h"

_Static_assert((int)NR == (int)AMX_SIDE && AMX_KEYS % AMX_SIDE == 0,
               "a block of queries is one panel");

static bool amx_attends(const struct sl_attention *z) {
    return z->d % AMX_SIDE == 0 && z->t >= AMX_SIDE && z->s >= AMX_SIDE;
}

/* Bytes of the panels of `count` rows or columns, with kc of k. */
static INLINE int64_t panels_bytes(int64_t count, int64_t kc) {
    return round_up(count, AMX_SIDE) / AMX_SIDE * (round_up(kc, AMX_SIDE) / AMX_SIDE) * AMX_STEP;
}

static int64_t attend_tiles_floats(const struct sl_attention *z) {
    return (2 * panels_bytes(z->s, z->d) + panels_bytes(NR, z->d) + panels_bytes(NR, AMX_KEYS)) / 4;
}

static void attend_tiles_open(const struct sl_attention *z, struct sl_attend_tiles *t,
                              float *memory) {
    t->k = (char *)memory;
    t->v = t->k + panels_bytes(z->s, z->d);
    t->q = t->v + panels_bytes(z->s, z->d);
    t->p = t->q + panels_bytes(NR, z->d);
    amx_open();
}

/* Packs a whole matrix as one side of a product. */
static void amx_pack_side(const struct sl_amx_source *s, int64_t count, int64_t kc, char *to) {
    amx_pack_panels(s, count, kc, NULL, to, panels_bytes(AMX_SIDE, kc));
}

static void amx_pack_keys(const struct sl_attention *z, const struct sl_attend_tiles *t,
                          const float *k, const float *v) {
    amx_pack_side(&(struct sl_amx_source){.from = k, .ld = z->k_step, .k_in_lanes = true}, z->s,
                  z->d, t->k);
    amx_pack_side(&(struct sl_amx_source){.from = v, .ld = z->v_step, .turn = true}, z->d, z->s,
                  t->v);
}

/* Packs queries that are stored as [D, NR]. */
static void amx_pack_queries(const struct sl_attention *z, const struct sl_attend_tiles *t,
                             const float *lanes, int64_t rows) {
    amx_pack_side(&(struct sl_amx_source){.from = lanes, .ld = NR}, rows, z->d, t->q);
}

/* s [keys, NR] = k q'. at[] holds the first key, the number of keys and the number of queries. */
static void amx_scores(const struct sl_attention *z, const struct sl_attend_tiles *t,
                       const int64_t at[3], float *s) {
    int64_t panel = panels_bytes(AMX_SIDE, z->d);
    for (int64_t i = 0; i < at[1]; i += AMX_SIDE) {
        struct sl_amx_block block = {.a = t->k + (at[0] + i) / AMX_SIDE * panel,
                                     .b = t->q,
                                     .steps = z->d / AMX_SIDE,
                                     .sums = s + i * NR,
                                     .sums_step = NR};
        amx_multiply(&block, min_i64(AMX_SIDE, at[1] - i), at[2]);
    }
}

/* o [D, NR] = v' p for the first keys; o += v' p for others. */
static void amx_values(const struct sl_attention *z, const struct sl_attend_tiles *t,
                       const int64_t at[3], const float *p, float *o) {
    int64_t panel = panels_bytes(AMX_SIDE, z->s);
    amx_pack_side(&(struct sl_amx_source){.from = p, .ld = NR}, at[2], at[1], t->p);
    for (int64_t k = 0; k < z->d; k += AMX_SIDE) {
        struct sl_amx_block block = {.a = t->v + k / AMX_SIDE * panel + at[0] / AMX_SIDE * AMX_STEP,
                                     .b = t->p,
                                     .steps = round_up(at[1], AMX_SIDE) / AMX_SIDE,
                                     .add = at[0] > 0,
                                     .sums = o + k * NR,
                                     .sums_step = NR};
        amx_multiply(&block, AMX_SIDE, at[2]);
    }
}

const struct sl_attention_amx SL_ISA_NAME(attention_amx_row) = {
    .suits = amx_attends,
    .floats = attend_tiles_floats,
    .open = attend_tiles_open,
    .close = amx_close,
    .pack_keys = amx_pack_keys,
    .pack_queries = amx_pack_queries,
    .scores = amx_scores,
    .values = amx_values,
};
