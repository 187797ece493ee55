/* Optimizer steps under the load of a run. With one weight version all workers step at once; with
 * several, one worker steps while the others compute. */
#include "profile/steps.h"

#include "base/clock.h"
#include "base/sort.h"
#include "plan/bytes.h"

/* The state of a step: one entry per parameter, as in a run. */
struct stepper {
    struct sl_arena arena;
    struct sl_optim_param *params; /* [param] optimizer rows */
    struct sl_step_item *items;
    struct sl_norm_item *norms;
    double *sums;
    void *state[SL_OPTIM_STATE], *scratch, *version;
    bool has_step;
    int64_t t; /* number of steps so far */
};

static sl_err open_stepper(struct sl_body *b, const struct sl_optim *optim, struct stepper *s) {
    const struct sl_program *p = b->program;
    s->params = SL_NEW(&s->arena, struct sl_optim_param, p->param_count);
    s->items = SL_NEW(&s->arena, struct sl_step_item, p->param_count);
    s->norms = SL_NEW(&s->arena, struct sl_norm_item, p->param_count);
    s->sums = SL_NEW(&s->arena, double, p->param_count);
    SL_TRY(sl_profile_body_alloc(b, sl_plan_optim_scratch(p, optim), &s->scratch));
    SL_TRY(sl_profile_body_alloc(b, p->param_bytes, &s->version));
    for (int i = 0; i < sl_plan_optim_slabs(optim); i++)
        SL_TRY(sl_profile_body_alloc(b, p->param_bytes, &s->state[i]));
    for (int i = 0; i < p->param_count; i++) {
        const struct sl_program_param *at = &p->params[i];
        struct sl_optim_shape shape = sl_plan_optim_shape(p->graph, at->param);
        int64_t offset = p->uses[at->first_use].offset;
        float *grad = (float *)(void *)((char *)b->base[SL_SPACE_GRAD] + offset);
        s->params[i] = sl_optim_for(optim, &shape);
        s->norms[i] = (struct sl_norm_item){grad, at->numel, &s->sums[i]};
        s->items[i] = (struct sl_step_item){.param = &s->params[i],
                                            .io = {.count = at->numel,
                                                   .rows = shape.rank > 0 ? shape.dim[0] : 1,
                                                   .g = grad,
                                                   .scratch = s->scratch},
                                            .lr = 1e-9};
        s->items[i].io.cols = at->numel / s->items[i].io.rows;
        for (int k = 0; k < s->params[i].optim.row->state_count; k++)
            s->items[i].io.state[k] = (void *)((char *)s->state[k] + at->offset);
    }
    return SL_OK;
}

static void close_stepper(struct sl_body *b, struct stepper *s) {
    for (int i = 0; i < SL_OPTIM_STATE; i++)
        if (s->state[i])
            b->device->row->free(b->device, s->state[i]);
    if (s->scratch)
        b->device->row->free(b->device, s->scratch);
    if (s->version)
        b->device->row->free(b->device, s->version);
    sl_arena_free(&s->arena);
}

static sl_err compute_norm(struct sl_body *b, struct stepper *s) {
    SL_TRY(b->device->row->norm_sq(b->device, s->norms, b->program->param_count));
    return b->device->row->sync(b->device, SL_STREAM_COMPUTE);
}

/* Makes one step on the weights at `weights`. */
static sl_err update(struct sl_body *b, struct stepper *s, void *weights) {
    int count = b->program->param_count;
    s->t++;
    for (int i = 0; i < count; i++) {
        s->items[i].coef = sl_optim_coef(&s->params[i], s->t, 1e-9, 1);
        s->items[i].io.w = (float *)(void *)((char *)weights + b->program->params[i].offset);
    }
    SL_TRY(b->device->row->step(b->device, s->items, count));
    return b->device->row->sync(b->device, SL_STREAM_COMPUTE);
}

static sl_err run_passes(struct sl_body *b) {
    SL_TRY(sl_profile_body_feed(b, 0, 0));
    SL_TRY(sl_profile_body_pass(b, SL_PHASE_F, 0));
    return sl_profile_body_pass(b, SL_PHASE_B, 0);
}

/* Lets the workers compute their norms one after the other, then step all at once. */
static sl_err step_at_once(struct sl_body *b, struct stepper *s, struct sl_crowd *crowd, int worker,
                           int workers, int64_t *out_ns) {
    SL_TRY(run_passes(b));
    SL_TRY(sl_comm_crowd_meet(crowd));
    for (int w = 0; w < workers; w++) {
        int64_t start = sl_clock_ns();
        if (w == worker && s->has_step)
            SL_TRY(compute_norm(b, s));
        *out_ns = w == worker ? sl_clock_ns() - start : *out_ns;
        SL_TRY(sl_comm_crowd_meet(crowd));
    }
    int64_t start = sl_clock_ns();
    if (s->has_step)
        SL_TRY(update(b, s, b->base[SL_SPACE_PARAM]));
    *out_ns += sl_clock_ns() - start;
    return SL_OK;
}

/* Lets one worker step while the others run passes. */
static sl_err step_between(struct sl_body *b, struct stepper *s, int64_t *out_ns) {
    int64_t start = sl_clock_ns();
    if (s->has_step) {
        SL_TRY(compute_norm(b, s));
        SL_TRY(b->device->row->copy(b->device, SL_STREAM_COMPUTE, s->version,
                                    b->base[SL_SPACE_PARAM], b->program->param_bytes));
        SL_TRY(update(b, s, s->version));
    }
    *out_ns = sl_clock_ns() - start;
    return SL_OK;
}

static double rate(const struct sl_body *b, int64_t *ns, int count) {
    sl_sort_ints(ns, count);
    int64_t median_ns = ns[count / 2];
    return 1e9 * (double)b->program->param_bytes / (double)(median_ns + 1);
}

/* Measures both kinds of steps. The first step of each kind is a warm-up, because it touches new
 * memory. */
static sl_err step_rounds(struct sl_body *b, struct stepper *s, struct sl_crowd *crowd, int worker,
                          int workers, struct sl_step_rates *out) {
    enum { AT_ONCE = 5 };
    int64_t ns[SL_ROUNDS_MAX + 1];
    int rounds = sl_rounds_of(workers);
    for (int round = 0; round <= AT_ONCE; round++)
        SL_TRY(step_at_once(b, s, crowd, worker, workers, &ns[round]));
    out->step = s->has_step ? rate(b, ns + 1, AT_ONCE) : 0;
    for (int round = 0; round < (rounds + 1) * workers; round++) {
        SL_TRY(run_passes(b));
        if (round % workers == worker)
            SL_TRY(step_between(b, s, &ns[round / workers]));
    }
    out->version = s->has_step ? rate(b, ns + 1, rounds) : 0;
    return SL_OK;
}

sl_err sl_profile_steps_measure(struct sl_body *b, const struct sl_optim *optim,
                                struct sl_crowd *crowd, int worker, int workers,
                                struct sl_step_rates *out) {
    struct stepper s = {.has_step = b->program->param_bytes && b->program->grad_bytes};
    *out = (struct sl_step_rates){0};
    sl_err err = open_stepper(b, optim, &s);
    if (err == SL_OK)
        err = step_rounds(b, &s, crowd, worker, workers, out);
    close_stepper(b, &s);
    return err;
}
