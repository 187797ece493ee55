/* Optimizers as descriptors: state per parameter, update rule, and direction of the last step. The
 * rules here are the reference; kernels are in device/.
 *
 *   "adamw:wd=0.1" --sl_optim_parse--> sl_optim (row + values)
 *        sl_optim_for(optim, shape)  --> sl_optim_param: the row that updates this parameter
 *        sl_optim_coef(param, t, lr) --> sl_step_coef: all scalars of step t, rounded to float once
 *        row->step(coef, io)         --> w, state (and delta) after step t
 *
 * A step is a function of (t, lr, hyper-parameters, w, g, state) and of nothing else; t counts from
 * 1. Everything that depends on t is a scalar, computed here in double by plain arithmetic, so that
 * every device and every host gets the same floats.
 *
 * The bits of an elementwise rule are defined by optim/rules.h: IEEE float operations in the order
 * written there, none fused (no fma), square root and division correctly rounded. A kernel that
 * does the same operations in the same order gives the same bits, in any number of threads or
 * lanes. A rule of whole matrices (muon) is defined up to the order of its sums; each device has its
 * own order. Stages never cut a matrix, so the layout does not change the result.
 *
 * Direction. Delta is what the last step subtracted, before the learning rate and without decoupled
 * weight decay:   w_new = w * shrink - lr * Delta   (shrink = 1 - lr * wd, or 1)
 * so W_pred = W - lr * s * Delta (Guan et al. 2023, PipeOptim, which also omits decoupled decay).
 *   SL_DELTA_STATE  row->delta computes it from state and the coefficients of the last step
 *   SL_DELTA_KEPT   the step must store it (io->delta): one more tensor per parameter, named
 *                   "delta", if and only if a policy needs it
 *
 * Weight decay applies to parameters of rank 2 and more; biases and norms have none (`wd_all=1`
 * decays all). Gradients are multiplied by `scale` first, so clipping needs no extra pass.
 */
#ifndef SL_OPTIM_OPTIM_H
#define SL_OPTIM_OPTIM_H

#include "optim/spec.h"

enum { SL_OPTIM_HYPER = 12, SL_OPTIM_STATE = 2, SL_OPTIM_RANK = 6 };

struct sl_optimizer;

/* An optimizer with its values. */
struct sl_optim {
    const struct sl_optimizer *row;
    double hyper[SL_OPTIM_HYPER]; /* as in row->hyper */
};

/* Facts of a parameter that an optimizer may use. */
struct sl_optim_shape {
    int rank;
    int64_t dim[SL_OPTIM_RANK];
    bool lookup; /* a table that is indexed (embedding): muon leaves it to adamw */
};

/* An optimizer applied to one parameter. */
struct sl_optim_param {
    struct sl_optim optim; /* the row that updates it; muon leaves other ranks than 2 to adamw */
    struct sl_optim_shape shape;
    int64_t count; /* elements */
    bool decays;
};

/* The scalars of one step. Unused ones are 0. */
struct sl_step_coef {
    float scale;        /* gradients are multiplied by it first */
    float lr;           /* */
    float shrink;       /* decoupled decay: 1 - lr*wd, else 1 */
    float l2;           /* coupled decay: g + l2*w, else 0 */
    float beta1, rest1; /* m = beta1*m + rest1*g; rest1 is 1-beta1 or, torch's momentum, 1 */
    float beta2, rest2;
    float fix1, fix2; /* bias correction: m*fix1, sqrt(v)*fix2 */
    float eps;
    float mix_m, mix_g; /* nadam: (mix_g*g + mix_m*m) / (sqrt(v)*fix2 + eps) */
    float gain;         /* muon: 0.2*sqrt(max(rows, cols)) */
    int rounds;         /* muon: Newton-Schulz rounds */
};

/* The tensors of one parameter, or, for elementwise rows, of any range of it. */
struct sl_step_io {
    int64_t count;
    int64_t rows, cols; /* matrix-wise rows only */
    float *w;
    const float *g;
    float *state[SL_OPTIM_STATE];
    float *delta;  /* out: Delta; NULL: not stored */
    void *scratch; /* row->scratch_bytes of it, aligned to 16 */
};

/* The same in double: the textbook rule, the oracle of the tests. */
struct sl_step_ref {
    int64_t t;
    double lr, scale;
    int64_t count, rows, cols;
    double *w;
    const double *g;
    double *state[SL_OPTIM_STATE];
    double *delta;
};

enum sl_delta { SL_DELTA_STATE, SL_DELTA_KEPT };

struct sl_optimizer {
    const char *name, *brief;
    const char *note; /* convention and source, a line or two */
    double lr;        /* default learning rate */
    const struct sl_hyper *hyper;
    int state_count;
    const char *state[SL_OPTIM_STATE]; /* names in checkpoints, torch's if it has them: "exp_avg" */
    bool whole_matrix;    /* a step needs the whole matrix; else any range of elements */
    bool nesterov;        /* elementwise, along beta*m + (1-beta)*g of the new momentum m */
    const char *momentum; /* name of the hyper-parameter beta; NULL: no momentum */
    enum sl_delta delta_from;
    const char *direction; /* Delta as a formula, for people */
    /* Scalars of step t. */
    void (*coef)(const struct sl_optim_param *param, int64_t t, double lr,
                 struct sl_step_coef *out);
    void (*step)(const struct sl_step_coef *coef, const struct sl_step_io *io);
    /* SL_DELTA_STATE: Delta of the last step from io->state, into io->delta. */
    void (*delta)(const struct sl_step_coef *coef, const struct sl_step_io *io);
    void (*ref)(const struct sl_optim_param *param, const struct sl_step_ref *io);
    /* Parameters that the row updates; `fallback` updates the others. NULL: all. */
    bool (*takes)(const struct sl_optim_shape *shape);
    const struct sl_optimizer *fallback;
    int64_t (*scratch_bytes)(const struct sl_optim_shape *shape); /* NULL: none */
};

/* All rows in alphabetical order. */
extern const struct sl_optimizer *const sl_optim_rows[];
extern const int sl_optim_row_count;
const struct sl_optimizer *sl_optim_row_find(struct sl_str name); /* NULL when absent */

/* "adamw:beta2=0.95,wd=0.1"; unknown names and values name the nearest. */
SL_MUST_CHECK sl_err sl_optim_parse(const char *text, struct sl_optim *out);
/* The text that reads back as the same optimizer. */
void sl_optim_put(struct sl_text *text, const struct sl_optim *optim);
/* Value of a hyper-parameter by name; it must exist. */
double sl_optim_value(const struct sl_optim *optim, const char *name);

/* The row of a parameter (see takes), its element count and whether it decays. */
struct sl_optim_param sl_optim_for(const struct sl_optim *optim,
                                   const struct sl_optim_shape *shape);
/* Number of tensors kept per parameter: state, plus "delta" if `delta` and it is not computed from
 * state. */
int sl_optim_tensors(const struct sl_optim_param *param, bool delta);
int64_t sl_optim_scratch_bytes(const struct sl_optim_param *param);

/* Scalars of step t (from 1) at learning rate lr; `scale` multiplies the gradient. */
struct sl_step_coef sl_optim_coef(const struct sl_optim_param *param, int64_t t, double lr,
                                  float scale);

/* W - lr*s*Delta, the one prediction of all policies: out = w - ((lr*s) * delta) in float, lr*s
 * rounded to float once. */
void sl_optim_predict(int64_t count, const float *w, const float *delta, double lr, double s,
                      float *out);

/* beta^t by repeated squaring: the same bits on every host. */
double sl_optim_power(double base, int64_t exponent);

#endif
