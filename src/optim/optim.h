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
 * lanes. A rule for whole matrices (muon) does not define the order of its sums; each device has
 * its own order. Stages never cut a matrix, so the layout does not change the result.
 *
 * Direction. Delta is what the last step subtracted, before the learning rate and without decoupled
 * weight decay:   w_new = w * shrink - lr * Delta   (shrink = 1 - lr * wd, or 1)
 * so W_pred = W - lr * s * Delta (Guan et al. 2023, PipeOptim, which also omits decoupled decay).
 *   SL_DELTA_STATE  row->delta computes it from state and the coefficients of the last step
 *   SL_DELTA_KEPT   the step must store it (io->delta): one more tensor per parameter, named
 *                   "delta", if and only if a policy needs it
 *
 * Weight decay applies to parameters of rank 2 and more; biases and norms have none (`wd_all=1`
 * decays all). Gradients are multiplied by `scale` first, so clipping needs no extra pass. */
#ifndef SL_OPTIM_OPTIM_H
#define SL_OPTIM_OPTIM_H

#include "optim/spec.h"

enum { SL_OPTIM_HYPER = 12, SL_OPTIM_STATE = 2, SL_OPTIM_RANK = 6 };

struct sl_optimizer;

/* An optimizer with the values of its hyper-parameters. */
struct sl_optim {
    const struct sl_optimizer *row;
    double hyper[SL_OPTIM_HYPER]; /* in the order of row->hyper */
};

/* What an optimizer may know about a parameter. */
struct sl_optim_shape {
    int rank;
    int64_t dim[SL_OPTIM_RANK];
    bool lookup; /* it is a lookup table (embedding), which muon leaves to adamw */
};

/* An optimizer applied to one parameter. */
struct sl_optim_param {
    /* the row that updates the parameter; muon leaves ranks other than 2 to adamw */
    struct sl_optim optim;
    struct sl_optim_shape shape;
    int64_t count; /* number of elements */
    bool decays;
};

/* The scalars of one step; unused ones are 0. */
struct sl_step_coef {
    float scale;        /* gradients are first multiplied by it */
    float lr;           /* learning rate */
    float shrink;       /* decoupled decay: 1 - lr*wd; else 1 */
    float l2;           /* coupled decay: the gradient is g + l2*w; else 0 */
    float beta1, rest1; /* m = beta1*m + rest1*g; rest1 is 1-beta1 or, for torch's momentum, 1 */
    float beta2, rest2;
    float fix1, fix2; /* bias correction: m*fix1 and sqrt(v)*fix2 */
    float eps;
    float mix_m, mix_g; /* nadam: (mix_g*g + mix_m*m) / (sqrt(v)*fix2 + eps) */
    float gain;         /* muon: 0.2*sqrt(max(rows, cols)) */
    int rounds;         /* muon: number of Newton-Schulz rounds */
};

/* The tensors of one parameter; for elementwise rows, of any range of it. */
struct sl_step_io {
    int64_t count;
    int64_t rows, cols; /* only for rows with whole_matrix */
    float *w;
    const float *g;
    float *state[SL_OPTIM_STATE];
    float *delta;  /* output: Delta; NULL: do not store it */
    void *scratch; /* row->scratch_bytes bytes, aligned to 16 */
};

/* The same in double, for the textbook rule, which is the oracle of the tests. */
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
    const char *note; /* convention and source, in a line or two */
    double lr;        /* default learning rate */
    const struct sl_hyper *hyper;
    int state_count;
    /* names in checkpoints, those of torch if it has them: "exp_avg" */
    const char *state[SL_OPTIM_STATE];
    bool whole_matrix; /* a step needs the whole matrix; false: any range of elements */
    bool nesterov; /* elementwise, and steps along beta*m + (1-beta)*g with the new momentum m */
    const char *momentum; /* name of the hyper-parameter that is beta; NULL: no momentum */
    enum sl_delta delta_from;
    const char *direction; /* formula of Delta, for people */
    /* Computes the scalars of step t. */
    void (*coef)(const struct sl_optim_param *param, int64_t t, double lr,
                 struct sl_step_coef *out);
    void (*step)(const struct sl_step_coef *coef, const struct sl_step_io *io);
    /* SL_DELTA_STATE: computes Delta of the last step from io->state into io->delta. */
    void (*delta)(const struct sl_step_coef *coef, const struct sl_step_io *io);
    void (*ref)(const struct sl_optim_param *param, const struct sl_step_ref *io);
    /* Does the row update this parameter? `fallback` updates the others. NULL: it updates all. */
    bool (*takes)(const struct sl_optim_shape *shape);
    const struct sl_optimizer *fallback;
    int64_t (*scratch_bytes)(const struct sl_optim_shape *shape); /* NULL: needs none */
};

/* All rows in alphabetical order. */
extern const struct sl_optimizer *const sl_optim_rows[];
extern const int sl_optim_row_count;
const struct sl_optimizer *sl_optim_row_find(struct sl_str name); /* NULL if there is none */

/* Parses "adamw:beta2=0.95,wd=0.1". For an unknown name the error suggests the nearest. */
SL_MUST_CHECK sl_err sl_optim_parse(const char *text, struct sl_optim *out);
/* Writes the text that reads back as the same optimizer. */
void sl_optim_put(struct sl_text *text, const struct sl_optim *optim);
/* Returns the value of a hyper-parameter by name; it must exist. */
double sl_optim_value(const struct sl_optim *optim, const char *name);

/* Returns the row that updates a parameter (see `takes`), its element count and whether it
 * decays. */
struct sl_optim_param sl_optim_for(const struct sl_optim *optim,
                                   const struct sl_optim_shape *shape);
/* Returns the number of tensors kept per parameter: state, and one more if `delta` is set and
 * cannot be computed from state. */
int sl_optim_tensors(const struct sl_optim_param *param, bool delta);
int64_t sl_optim_scratch_bytes(const struct sl_optim_param *param);

/* Computes the scalars of step t (from 1) at learning rate lr; `scale` multiplies the gradient. */
struct sl_step_coef sl_optim_coef(const struct sl_optim_param *param, int64_t t, double lr,
                                  float scale);

/* Computes W - lr*s*Delta, the prediction that all policies use: out = w - ((lr*s) * delta) in
 * float, with lr*s rounded to float once. */
void sl_optim_predict(int64_t count, const float *w, const float *delta, double lr, double s,
                      float *out);

/* Returns beta^t by repeated squaring: the same bits on every host. */
double sl_optim_power(double base, int64_t exponent);

#endif
