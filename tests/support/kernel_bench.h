/* One kernel on a bench: a program of one instruction, bound and run through the device's own
 * interface, and judged by a reference in double.
 *
 * Inputs are the reference's values rounded to the dtype; outputs start as NaN.
 */
#ifndef SL_TESTS_KERNEL_BENCH_H
#define SL_TESTS_KERNEL_BENCH_H

#include "device/device.h"
#include "op/common.h"

static const float bench_earlier = 0.625f; /* what an accumulator holds before a run adds to it */
enum { BENCH_PLAIN = -1, BENCH_ADD = -2 }; /* or the number of the input that output 0 lies on */

struct bench {
    struct sl_instr instr;
    struct sl_operand in[SL_INSTR_IN], out[SL_INSTR_OUT];
    struct sl_ref ref; /* inputs as rounded; outputs when there is a reference */
    void *memory[SL_INSTR_IN];
    int64_t bytes; /* of WORK */
    bool backward;
};

/* For messages. */
struct bench_where {
    const char *op, *label;
    struct sl_device *device;
    enum sl_dtype dtype;
    int64_t batch;
};

extern double bench_worst[SL_DTYPES]; /* relative error so far, by dtype */
extern const char *const bench_dtypes[SL_DTYPES];
extern int bench_failures;

void bench_must(sl_err err, const char *what);
double bench_load(const void *memory, enum sl_dtype dtype, int64_t i);

struct sl_array bench_array(struct sl_shape shape, bool is_int);
struct sl_operand bench_operand(struct bench *b, struct sl_shape shape, enum sl_dtype dtype);
void bench_take_input(struct bench *b, int i, const struct sl_array *from, enum sl_dtype dtype);
void bench_close(struct bench *b);

/* Returns WORK after the run; the caller frees it. */
char *bench_run(struct bench *b, struct sl_device *device, enum sl_dtype dtype, int mode);

/* Compares outputs with the reference, output 0 with `before` added. */
void bench_judge(const struct bench *b, const char *work, double before, const char *mode,
                 const struct bench_where *at);

#endif
