/* The step of muon (optim/muon.c), whose products use the matmul kernel.
 *
 *   scratch of the item   X [k,n]  A [k,k]  B [k,k]  Y [k,n],  k <= n
 *
 * Momentum and update have the bits of optim/rules.h, the norm those of optim/norm.h. The products
 * add in the order of the matmul kernel. */
#include "optim/muon.h"
#include "device/cpu/optim.h"
#include "optim/rules.h"

struct muon {
    const struct sl_step_item *item;
    float *x, *a, *b, *y;
    int64_t k, n;
    float fix;
};

/* Returns the index in X of element i of the parameter. X is the transposed parameter if the
 * parameter has more rows than columns. */
static int64_t place(const struct sl_step_io *io, int64_t i) {
    return io->rows > io->cols ? i % io->cols * io->rows + i / io->cols : i;
}

static void momentum_part(void *ctx, int thread, int threads) {
    const struct muon *m = ctx;
    const struct sl_step_io *io = &m->item->io;
    const struct sl_step_coef *c = &m->item->coef;
    float *state = io->state[0];
    int64_t from, to;
    sl_device_pool_range(io->count, 1024, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++) {
        float g = io->g[i] * c->scale;
        state[i] = sl_rule_mean(c->beta1, c->rest1, state[i], g);
        m->x[place(io, i)] = sl_rule_mean(c->beta2, c->rest2, state[i], g);
    }
}

/* out = by[0]*u + by[1]*v for elements [0, count); `out` may be `u`. */
struct mix {
    float *out;
    const float *u, *v;
    float by[2];
    int64_t count;
};

static void mix_part(void *ctx, int thread, int threads) {
    const struct mix *mix = ctx;
    int64_t from, to;
    sl_device_pool_range(mix->count, 1024, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++)
        mix->out[i] = mix->by[0] * mix->u[i] + mix->by[1] * mix->v[i];
}

static void apply_part(void *ctx, int thread, int threads) {
    const struct muon *m = ctx;
    const struct sl_step_io *io = &m->item->io;
    int64_t from, to;
    sl_device_pool_range(io->count, 1024, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++) {
        float delta = m->item->coef.gain * m->x[place(io, i)];
        io->w[i] = sl_rule_apply(&m->item->coef, io->w[i], delta);
        if (io->delta)
            io->delta[i] = delta;
    }
}

static struct sl_operand matrix(int64_t rows, int64_t cols) {
    return (struct sl_operand){
        .space = SL_SPACE_WORK, .numel = rows * cols, .shape = SL_SHAPE(2, 0, rows, cols)};
}

struct product {
    float *out;
    const float *a, *b;
    int64_t m, k, n;
    bool tb;
};

static void multiply(struct sl_device_pool *pool, struct product p,
                     struct sl_device_cpu_room *room) {
    const struct sl_device_cpu_kernel *kernel = sl_device_cpu_find("matmul");
    const union sl_attr attr[2] = {{.i = 0}, {.i = p.tb}};
    struct sl_operand in[2] = {matrix(p.m, p.k), p.tb ? matrix(p.n, p.k) : matrix(p.k, p.n)};
    struct sl_operand out[1] = {matrix(p.m, p.n)};
    struct sl_instr instr = {
        .kernel = "matmul", .attr = attr, .in_count = 2, .out_count = 1, .in = in, .out = out};
    struct sl_device_cpu_call call = {
        .instr = &instr, .in = {p.a, p.b}, .out = {p.out}, .pool = pool, .samples = 1};
    if (kernel->scratch_bytes)
        call.scratch = sl_device_cpu_room_take(
            room, kernel->scratch_bytes(&instr, sl_device_pool_threads(pool)));
    kernel->run(&call);
}

static void newton_schulz(struct muon *m, struct sl_device_pool *pool,
                          struct sl_device_cpu_room *room) {
    int64_t k = m->k, n = m->n;
    multiply(pool, (struct product){m->a, m->x, m->x, k, n, k, true}, room);
    multiply(pool, (struct product){m->b, m->a, m->a, k, k, k, false}, room);
    struct mix b = {m->b, m->a, m->b, {(float)SL_MUON_B, (float)SL_MUON_C}, k * k};
    sl_device_pool_run(pool, mix_part, &b);
    multiply(pool, (struct product){m->y, m->b, m->x, k, k, n, false}, room);
    struct mix x = {m->x, m->x, m->y, {(float)SL_MUON_A, 1}, k * n};
    sl_device_pool_run(pool, mix_part, &x);
}

void sl_device_cpu_muon(const struct sl_device_cpu_optim *optim, struct sl_device_pool *pool,
                        const struct sl_step_item *item, struct sl_device_cpu_room *room) {
    const struct sl_step_io *io = &item->io;
    struct muon m = {.item = item, .x = io->scratch};
    double sum;
    SL_ASSERT(io->rows * io->cols == io->count && m.x);
    m.k = io->rows < io->cols ? io->rows : io->cols;
    m.n = io->count / m.k;
    m.a = m.x + io->count;
    m.b = m.a + m.k * m.k;
    m.y = m.b + m.k * m.k;
    sl_device_pool_run(pool, momentum_part, &m);
    sl_device_cpu_norm_sq(optim, pool, &(struct sl_norm_item){m.x, io->count, &sum}, 1, room);
    double norm = sqrt(sum);
    float fix = (float)(1 / (norm > SL_MUON_EPS ? norm : SL_MUON_EPS));
    struct mix scale = {m.x, m.x, m.x, {fix, 0}, io->count};
    sl_device_pool_run(pool, mix_part, &scale);
    for (int i = 0; i < item->coef.rounds; i++)
        newton_schulz(&m, pool, room);
    sl_device_pool_run(pool, apply_part, &m);
}
