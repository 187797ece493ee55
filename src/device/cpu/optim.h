/* Optimizer steps, gradient norms and predictions on the CPU: tables per instruction set, and the
 * functions that split them over a pool.
 *
 * The bits are those of optim/rules.h and optim/norm.h. Unlike other kernels, device/cpu/optim is
 * compiled without contraction (a product is not fused with a sum), so that every table gives
 * the same bits. */
#ifndef SL_DEVICE_CPU_OPTIM_H
#define SL_DEVICE_CPU_OPTIM_H

#include "device/cpu/cpu.h"

/* The rule of an elementwise optimizer. */
struct sl_device_cpu_rule {
    const char *name; /* name of the sl_optimizer; a row {0} ends a table */
    void (*step)(const struct sl_step_coef *coef, const struct sl_step_io *io);
    /* out = w - by*Delta; Delta comes from io->delta or from the optimizer's state */
    void (*predict)(const struct sl_step_coef *coef, const struct sl_step_io *io, float by,
                    float *out);
};

struct sl_device_cpu_optim {
    const char *isa;
    bool (*supported)(void);
    const struct sl_device_cpu_rule *rules; /* the last has no name: predicts from io->delta */
    void (*norm_blocks)(const float *x, int64_t count, int64_t first, int64_t blocks, double *out);
};
extern const struct sl_device_cpu_optim
    *const sl_device_cpu_optims[]; /* the best first; ends with NULL */
const struct sl_device_cpu_optim *sl_device_cpu_optim_best(void);

/* Memory that grows on demand, which happens in the first step only. It starts as {0}. */
struct sl_device_cpu_room {
    void *at;
    int64_t size_bytes;
};
void *sl_device_cpu_room_take(struct sl_device_cpu_room *room, int64_t size_bytes);

/* These implement functions of the device's row with a given table. */
void sl_device_cpu_step(const struct sl_device_cpu_optim *optim, struct sl_device_pool *pool,
                        const struct sl_step_item *items, int count,
                        struct sl_device_cpu_room *room);
void sl_device_cpu_predict(const struct sl_device_cpu_optim *optim, struct sl_device_pool *pool,
                           const struct sl_step_item *items, int count, double ahead);
void sl_device_cpu_norm_sq(const struct sl_device_cpu_optim *optim, struct sl_device_pool *pool,
                           const struct sl_norm_item *items, int count,
                           struct sl_device_cpu_room *room);

/* Runs the step of muon, whose products use the matmul kernel. The bits depend on the number of
 * threads. */
void sl_device_cpu_muon(const struct sl_device_cpu_optim *optim, struct sl_device_pool *pool,
                        const struct sl_step_item *item, struct sl_device_cpu_room *room);

#endif
