/* Levenberg-Marquardt for a few unknowns (fit.h). */
#include "cost/fit.h"

#include "base/arena.h"

#include <math.h>
#include <string.h>

/* Change of a logarithm in numeric derivatives. It is larger than the kinks of max(). */
static const double difference = 0.02;

struct work {
    const struct sl_fit *fit;
    const bool *use;
    double *now, *next; /* [rows] residuals */
    double *slope;      /* [count][rows] */
};

static bool counts(const struct work *w, int row) { return !w->use || w->use[row]; }

static double loss_of(const struct work *w, const double *r) {
    double s = w->fit->scale, sum = 0;
    for (int i = 0; i < w->fit->rows; i++)
        if (counts(w, i))
            sum += 2 * s * s * (sqrt(1 + r[i] * r[i] / (s * s)) - 1);
    return sum;
}

static double clamp(const struct sl_fit *fit, int k, double x) {
    return x < fit->low[k] ? fit->low[k] : x > fit->high[k] ? fit->high[k] : x;
}

static sl_err evaluate(const struct work *w, const double *x, double *out) {
    return w->fit->residuals(w->fit->ctx, x, w->use, out);
}

static sl_err differentiate(struct work *w, const double *x) {
    for (int k = 0; k < w->fit->count; k++) {
        double at[SL_FIT_MAX], *slope = w->slope + (int64_t)k * w->fit->rows;
        memcpy(at, x, sizeof at);
        at[k] = x[k] + difference <= w->fit->high[k] ? x[k] + difference : x[k] - difference;
        SL_TRY(evaluate(w, at, slope));
        for (int i = 0; i < w->fit->rows; i++)
            slope[i] = counts(w, i) ? (slope[i] - w->now[i]) / (at[k] - x[k]) : 0;
    }
    return SL_OK;
}

/* Solves linear equations by Gauss elimination with pivots. False: the matrix is singular. */
static bool solve(int n, double a[SL_FIT_MAX][SL_FIT_MAX + 1], double *x) {
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k + 1; i < n; i++)
            best = fabs(a[i][k]) > fabs(a[best][k]) ? i : best;
        if (!(fabs(a[best][k]) > 1e-300))
            return false;
        for (int j = 0; j <= n; j++) {
            double keep = a[k][j];
            a[k][j] = a[best][j];
            a[best][j] = keep;
        }
        for (int i = k + 1; i < n; i++)
            for (int j = n; j >= k; j--)
                a[i][j] -= a[i][k] / a[k][k] * a[k][j];
    }
    for (int k = n - 1; k >= 0; k--) {
        x[k] = a[k][n];
        for (int j = k + 1; j < n; j++)
            x[k] -= a[k][j] * x[j];
        x[k] /= a[k][k];
    }
    return true;
}

/* Computes one step from the normal equations, with the weights of the robust loss. */
static bool propose(const struct work *w, const double *x, double damping, double *out) {
    int n = w->fit->count;
    double a[SL_FIT_MAX][SL_FIT_MAX + 1] = {{0}}, step[SL_FIT_MAX], s = w->fit->scale;
    for (int i = 0; i < w->fit->rows; i++) {
        if (!counts(w, i))
            continue;
        double r = w->now[i], weight = 1 / sqrt(1 + r * r / (s * s));
        for (int k = 0; k < n; k++) {
            double slope = weight * w->slope[(int64_t)k * w->fit->rows + i];
            a[k][n] -= slope * r;
            for (int j = 0; j < n; j++)
                a[k][j] += slope * w->slope[(int64_t)j * w->fit->rows + i];
        }
    }
    for (int k = 0; k < n; k++)
        a[k][k] += damping * a[k][k] + 1e-6; /* so that an unknown without effect does not change */
    if (!solve(n, a, step))
        return false;
    for (int k = 0; k < n; k++)
        out[k] = clamp(w->fit, k, x[k] + (step[k] > 1 ? 1 : step[k] < -1 ? -1 : step[k]));
    return true;
}

static sl_err descend(struct work *w, double *x) {
    double damping = 1e-2, loss, other, at[SL_FIT_MAX] = {0};
    SL_TRY(evaluate(w, x, w->now));
    loss = loss_of(w, w->now);
    for (int round = 0; round < w->fit->rounds; round++) {
        bool better = false;
        SL_TRY(differentiate(w, x));
        for (int attempt = 0; attempt < 6 && !better; attempt++, damping *= 8) {
            if (!propose(w, x, damping, at))
                continue;
            SL_TRY(evaluate(w, at, w->next));
            other = loss_of(w, w->next);
            better = other < loss;
        }
        if (!better)
            return SL_OK;
        double gain = (loss - other) / loss, *swap = w->now;
        memcpy(x, at, sizeof(double) * (size_t)w->fit->count);
        w->now = w->next;
        w->next = swap;
        loss = other;
        damping = damping / 64 > 1e-6 ? damping / 64 : 1e-6;
        if (gain < 1e-4)
            return SL_OK;
    }
    return SL_OK;
}

sl_err sl_cost_fit(const struct sl_fit *fit, const bool *use, double *x) {
    struct sl_arena arena = {0};
    SL_ASSERT(fit->count <= SL_FIT_MAX);
    struct work w = {.fit = fit,
                     .use = use,
                     .now = SL_NEW(&arena, double, fit->rows),
                     .next = SL_NEW(&arena, double, fit->rows),
                     .slope = SL_NEW(&arena, double, (int64_t)fit->rows * fit->count)};
    for (int k = 0; k < fit->count; k++)
        x[k] = clamp(fit, k, x[k]);
    sl_err err = descend(&w, x);
    sl_arena_free(&arena);
    return err;
}
