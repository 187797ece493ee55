/* The products of attention on AMX (gemm_amx.h): keys, values and queries packed once, the
 * probabilities of a block split where they lie. Heads that are not whole steps wide, or too short
 * for tiles, stay with vectors.
 */
#ifndef SL_DEVICE_CPU_ATTENTION_AMX_H
#define SL_DEVICE_CPU_ATTENTION_AMX_H

#include "device/cpu/attention_sizes.h"
#include "device/cpu/gemm_amx.h"

enum { AMX_KEYS = 128 };

struct attend_tiles {
    char *k, *v; /* A: [S, D] and [D, S] */
    char *q, *p; /* B: [D, NR] and [AMX_KEYS, NR] */
};

#ifdef HEAVY_AMX
_Static_assert((int)NR == (int)AMX_SIDE && AMX_KEYS % AMX_SIDE == 0,
               "a block of queries is one panel");

INLINE bool amx_attends(const struct attention *z) {
    return z->d % AMX_SIDE == 0 && z->t >= AMX_SIDE && z->s >= AMX_SIDE;
}
#else
INLINE bool amx_attends(const struct attention *z) { return z->d < 0; }
#endif

/* Bytes of panels of `count` rows or columns and kc of k. */
INLINE int64_t panels_bytes(int64_t count, int64_t kc) {
    return up_to(count, AMX_SIDE) / AMX_SIDE * (up_to(kc, AMX_SIDE) / AMX_SIDE) * AMX_STEP;
}

static int64_t attend_tiles_floats(const struct attention *z) {
    return (2 * panels_bytes(z->s, z->d) + panels_bytes(NR, z->d) + panels_bytes(NR, AMX_KEYS)) / 4;
}

static void attend_tiles_open(const struct attention *z, struct attend_tiles *t, float *room) {
    if (!amx_attends(z))
        return;
    t->k = (char *)room;
    t->v = t->k + panels_bytes(z->s, z->d);
    t->q = t->v + panels_bytes(z->s, z->d);
    t->p = t->q + panels_bytes(NR, z->d);
    amx_open();
}

static void attend_tiles_close(const struct attention *z) {
    if (amx_attends(z))
        amx_close();
}

/* All of a matrix as one side of a product. */
static void amx_pack_side(const struct amx_source *s, int64_t count, int64_t kc, char *to) {
    amx_pack_panels(s, count, kc, NULL, to, panels_bytes(AMX_SIDE, kc));
}

static void amx_pack_keys(const struct attention *z, const struct attend_tiles *t, const float *k,
                          const float *v) {
    amx_pack_side(&(struct amx_source){.from = k, .ld = z->k_step, .k_in_lanes = true}, z->s, z->d,
                  t->k);
    amx_pack_side(&(struct amx_source){.from = v, .ld = z->v_step, .turn = true}, z->d, z->s, t->v);
}

/* From [D, NR]. */
static void amx_pack_queries(const struct attention *z, const struct attend_tiles *t,
                             const float *lanes, int64_t rows) {
    amx_pack_side(&(struct amx_source){.from = lanes, .ld = NR}, rows, z->d, t->q);
}

/* s [keys, NR] = k q'; at: first key, keys, queries */
static void amx_scores(const struct attention *z, const struct attend_tiles *t, const int64_t at[3],
                       float *s) {
    int64_t panel = panels_bytes(AMX_SIDE, z->d);
    for (int64_t i = 0; i < at[1]; i += AMX_SIDE) {
        struct amx_block block = {.a = t->k + (at[0] + i) / AMX_SIDE * panel,
                                  .b = t->q,
                                  .steps = z->d / AMX_SIDE,
                                  .sums = s + i * NR,
                                  .sums_step = NR};
        amx_multiply(&block, least(AMX_SIDE, at[1] - i), at[2]);
    }
}

/* o [D, NR] = or, but for the first keys, += v' p */
static void amx_values(const struct attention *z, const struct attend_tiles *t, const int64_t at[3],
                       const float *p, float *o) {
    int64_t panel = panels_bytes(AMX_SIDE, z->s);
    amx_pack_side(&(struct amx_source){.from = p, .ld = NR}, at[2], at[1], t->p);
    for (int64_t k = 0; k < z->d; k += AMX_SIDE) {
        struct amx_block block = {.a = t->v + k / AMX_SIDE * panel + at[0] / AMX_SIDE * AMX_STEP,
                                  .b = t->p,
                                  .steps = up_to(at[1], AMX_SIDE) / AMX_SIDE,
                                  .add = at[0] > 0,
                                  .sums = o + k * NR,
                                  .sums_step = NR};
        amx_multiply(&block, AMX_SIDE, at[2]);
    }
}

#endif
