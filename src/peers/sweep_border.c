/* Lower bound on the devices for the rest if borders of stages have a cost (sweep.h, `border`).
 *
 * Let k devices, each within a limit T, and CPUs with free work F run the downset j. Every stage
 * on a device has at least the work that the other k - 1 devices leave: work(j) - F - (k - 1) T.
 * If that is at least border_from, every stage pays both of its borders. A border with i devices
 * below it has
 *
 *     work(j) - F - (k - i) T  <=  work  <=  i T + F
 *
 * and costs at least as much as the cheapest downset in that window. There are two such borders for
 * every i from 1 to k - 1, and one for i = k (at j, or below it if free work is on top). If
 * these costs plus the work exceed k T, downset j needs at least k + 1 devices. */
#include "peers/sweep.h"

#include <string.h>

/* SLACK: tolerance for rounding. */
#define SLACK 1e-9

static int level_of(int count) { return count > 1 ? 31 - __builtin_clz((unsigned)count) : 0; }

void sl_peers_sweep_border_open(struct sl_sweep *sweep, struct sl_arena *arena) {
    int count = sweep->ideals->count, levels = level_of(count) + 1;
    sweep->need_tight = SL_NEW(arena, int, count);
    sweep->need_alone = SL_NEW(arena, int, count);
    sweep->cheapest = SL_NEW(arena, double, (int64_t)levels *count);
    memcpy(sweep->cheapest, sweep->border, sizeof(double) * (size_t)count);
    for (int l = 1; l < levels; l++) {
        const double *half = sweep->cheapest + (int64_t)(l - 1) * count;
        double *whole = sweep->cheapest + (int64_t)l * count;
        for (int i = 0; i + (1 << l) <= count; i++)
            whole[i] = fmin(half[i], half[i + (1 << (l - 1))]);
    }
}

/* Returns the first downset with at least this much work. */
static int first_with(const struct sl_sweep *sweep, double work) {
    int low = 0, high = sweep->ideals->count;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (sweep->work[mid] < work)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Returns the cheapest border with work from `least` to `max`; INFINITY: there is none. */
static double cheapest(const struct sl_sweep *sweep, double least, double max) {
    double room = SLACK * sweep->work[sweep->ideals->count - 1];
    int first = first_with(sweep, least - room), end = first_with(sweep, max + room);
    if (first >= end)
        return INFINITY;
    int level = level_of(end - first);
    const double *row = sweep->cheapest + (int64_t)level * sweep->ideals->count;
    return fmin(row[first], row[end - (1 << level)]);
}

/* Can k devices run the downset? */
static bool may_take(const struct sl_sweep *sweep, int ideal, int k, double free_work) {
    double limit = sweep->limit, work = sweep->work[ideal] - free_work;
    if (k < 1 || work - (k - 1) * limit < sweep->border_from)
        return true;
    double sum = work + cheapest(sweep, work, sweep->work[ideal]), max = k * limit * (1 + SLACK);
    for (int i = 1; i < k && sum <= max; i++)
        sum += 2 * cheapest(sweep, work - (k - i) * limit, i * limit + free_work);
    return sum <= max;
}

/* Returns the number of devices for all of the work, without free work. */
static int need_alone(const struct sl_sweep *sweep, int ideal) {
    double need = sweep->work[ideal] / sweep->limit - SLACK;
    if (!(need > sweep->need[ideal]))
        return sweep->need[ideal];
    return need < sweep->devices ? (int)ceil(need) : sweep->devices + 1;
}

void sl_peers_sweep_border_needs(struct sl_sweep *sweep) {
    /* number of devices; with more, the ranges of work are too wide to help */
    enum { LOOK_MAX = 64 };
    bool finite = sweep->limit < INFINITY;
    double free_work = finite ? sweep->free_work * sweep->limit : 0;
    for (int i = 0; i < sweep->ideals->count; i++) {
        int need = sweep->need[i], alone = finite ? need_alone(sweep, i) : need;
        sweep->need_tight[i] = need;
        sweep->need_alone[i] = alone;
        if (!finite || alone > LOOK_MAX || alone > sweep->devices)
            continue;
        sweep->need_tight[i] += !may_take(sweep, i, need, free_work);
        sweep->need_alone[i] += !may_take(sweep, i, alone, 0);
    }
}
