/* The products of attention on AMX, for instruction sets that have it. */
#ifndef SL_DEVICE_CPU_PRODUCT_ATTENTION_AMX_H
#define SL_DEVICE_CPU_PRODUCT_ATTENTION_AMX_H

#include "device/cpu/product/attention_heads.h"

enum { AMX_KEYS = 128 }; /* keys in a block of scores */

/* The packed operands of one thread. */
struct sl_attend_tiles {
    char *k, *v; /* left factors (A): [S, D] and [D, S] */
    char *q, *p; /* right factors (B): [D, NR] and [AMX_KEYS, NR] */
};

struct sl_attention_amx {
    bool (*suits)(const struct sl_attention *z);
    /* Number of floats of memory that `open` needs. `open` configures the tiles of this thread;
     * they stay so until `close`. */
    int64_t (*floats)(const struct sl_attention *z);
    void (*open)(const struct sl_attention *z, struct sl_attend_tiles *t, float *memory);
    void (*close)(void);
    void (*pack_keys)(const struct sl_attention *z, const struct sl_attend_tiles *t, const float *k,
                      const float *v);
    /* Packs queries that are stored as [D, NR]. */
    void (*pack_queries)(const struct sl_attention *z, const struct sl_attend_tiles *t,
                         const float *lanes, int64_t rows);
    /* s [keys, NR] = k q'. at[] holds the first key, the number of keys and the number of
     * queries. */
    void (*scores)(const struct sl_attention *z, const struct sl_attend_tiles *t,
                   const int64_t at[3], float *s);
    /* o [D, NR] = v' p for the first keys; o += v' p for others. */
    void (*values)(const struct sl_attention *z, const struct sl_attend_tiles *t,
                   const int64_t at[3], const float *p, float *o);
};

/* NULL if the instruction set has no AMX. */
#if SL_ISA_AMX_PARTS
extern const struct sl_attention_amx SL_ISA_NAME(attention_amx_row);
static const struct sl_attention_amx *const attention_amx = &SL_ISA_NAME(attention_amx_row);
#else
static const struct sl_attention_amx *const attention_amx = NULL;
#endif

#endif
