/* Branch and bound that chooses the options. All values are relative to the cheapest option of
 * each item: switching item i to option o saves `save` bytes and costs `loss`. */
#include "peers/knapsack.h"

#include "base/sort.h"

#include <math.h>

enum { LOOK_BACK = 64 };

struct turn { /* a switch of one item away from its cheapest option */
    double save, loss;
    int tag;
};

struct row {
    int item;
    double rate, save_max; /* smallest loss per saved byte of its switches; largest save */
    int first, count;      /* its switches in `turns`, by falling save */
};

struct solver {
    struct row *rows;
    struct turn *turns;
    int count, steps;
    int *now, *best;      /* [row] number of the chosen switch, or -1 */
    double *saved, *lost; /* prefix sums of save_max, and of its loss at the best rate */
    double best_loss;     /* loss of the best choice so far, or the limit */
    bool found;
};

void sl_peers_knapsack_clear(struct sl_knapsack *sack) {
    sack->items.count = sack->options.count = 0;
}

void sl_peers_knapsack_item(struct sl_knapsack *sack) {
    SL_PUSH(&sack->items, ((struct sl_peers_knapsack_item){.first = (int)sack->options.count}));
}

void sl_peers_knapsack_option(struct sl_knapsack *sack, double cost, double size, int tag) {
    SL_PUSH(&sack->options, ((struct sl_peers_knapsack_option){cost, size, tag}));
    sack->items.at[sack->items.count - 1].count++;
}

void sl_peers_knapsack_free(struct sl_knapsack *sack) {
    SL_VEC_FREE(&sack->items);
    SL_VEC_FREE(&sack->options);
    sl_arena_free(&sack->scratch);
}

static int compare_turns(const void *a, const void *b) {
    const struct turn *x = a, *y = b;
    if (x->save != y->save)
        return x->save > y->save ? -1 : 1;
    return (x->loss > y->loss) - (x->loss < y->loss);
}

static int compare_rows(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    if (x->rate != y->rate)
        return x->rate < y->rate ? -1 : 1;
    if (x->save_max != y->save_max)
        return x->save_max > y->save_max ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* Returns the cheapest option of an item; of equally cheap ones the smallest. */
static const struct sl_peers_knapsack_option *cheapest(const struct sl_knapsack *sack, int item) {
    const struct sl_peers_knapsack_item *it = &sack->items.at[item];
    const struct sl_peers_knapsack_option *best = &sack->options.at[it->first];
    for (int o = 1; o < it->count; o++) {
        const struct sl_peers_knapsack_option *other = &sack->options.at[it->first + o];
        if (other->cost < best->cost || (other->cost == best->cost && other->size < best->size))
            best = other;
    }
    return best;
}

/* Adds a row with the switches of one item that save something and are not dominated. */
static void add_row(struct solver *solver, const struct sl_knapsack *sack, int item,
                    int *turn_count) {
    const struct sl_peers_knapsack_option *base = cheapest(sack, item);
    struct row row = {.item = item, .first = *turn_count, .rate = INFINITY};
    for (int o = 0; o < sack->items.at[item].count; o++) {
        const struct sl_peers_knapsack_option *option =
            &sack->options.at[sack->items.at[item].first + o];
        if (option->size < base->size)
            solver->turns[(*turn_count)++] =
                (struct turn){base->size - option->size, option->cost - base->cost, option->tag};
    }
    int found = *turn_count - row.first;
    sl_sort(solver->turns + row.first, found, sizeof *solver->turns, compare_turns);
    double loss = INFINITY;
    for (int i = row.first; i < row.first + found; i++) {
        struct turn turn = solver->turns[i];
        if (turn.loss >= loss)
            continue;
        loss = turn.loss;
        solver->turns[row.first + row.count++] = turn;
        row.rate = fmin(row.rate, turn.loss / turn.save);
        row.save_max = fmax(row.save_max, turn.save);
    }
    *turn_count = row.first + row.count;
    if (row.count)
        solver->rows[solver->count++] = row;
}

/* Returns a lower bound on the loss of saving `wanted` bytes with rows from `i` on; INFINITY:
 * impossible. */
static double bound(const struct solver *solver, int i, double wanted) {
    const double *saved = solver->saved, *lost = solver->lost;
    int low = i, high = solver->count;
    if (saved[high] - saved[i] < wanted)
        return INFINITY;
    while (low < high) { /* rows i .. low - 1 save at most `wanted` */
        int mid = (low + high + 1) / 2;
        if (saved[mid] - saved[i] <= wanted)
            low = mid;
        else
            high = mid - 1;
    }
    double rest = wanted - (saved[low] - saved[i]);
    return lost[low] - lost[i] + (low < solver->count ? rest * solver->rows[low].rate : 0);
}

static void add_up(struct solver *solver) {
    for (int r = 0; r < solver->count; r++) {
        const struct row *row = &solver->rows[r];
        solver->saved[r + 1] = solver->saved[r] + row->save_max;
        solver->lost[r + 1] = solver->lost[r] + row->save_max * row->rate;
    }
}

/* Are two sums equal, up to rounding? */
static bool near(double a, double b) { return fabs(a - b) <= 1e-11 * (fabs(a) + fabs(b)); }

static bool same_row(const struct solver *solver, int a, int b) {
    const struct row *x = &solver->rows[a], *y = &solver->rows[b];
    if (x->count != y->count)
        return false;
    for (int i = 0; i < x->count; i++)
        if (!near(solver->turns[x->first + i].save, solver->turns[y->first + i].save) ||
            !near(solver->turns[x->first + i].loss, solver->turns[y->first + i].loss))
            return false;
    return true;
}

/* Returns the first switch of row i to try. Exchange argument: if an earlier row that saves at
 * least as much at no higher loss is not switched, then switching row i is no better than switching
 * that earlier row. Of two equal rows, the later one need not save more. */
static int first_turn(const struct solver *solver, int i) {
    const struct row *row = &solver->rows[i];
    const struct turn *turn = &solver->turns[row->first];
    for (int r = i > LOOK_BACK ? i - LOOK_BACK : 0; r < i && row->count == 1; r++) {
        const struct turn *other = &solver->turns[solver->rows[r].first];
        if (solver->rows[r].count == 1 && solver->now[r] < 0 &&
            other->save >= turn->save * (1 - 1e-11) && other->loss <= turn->loss * (1 + 1e-11))
            return row->count;
    }
    if (i > 0 && same_row(solver, i - 1, i))
        return solver->now[i - 1] < 0 ? row->count : solver->now[i - 1];
    return 0;
}

static void branch(struct solver *solver, int i, double wanted, double loss) {
    if (wanted <= 0) {
        if (loss <= solver->best_loss) {
            solver->best_loss = loss;
            solver->found = true;
            for (int r = 0; r < solver->count; r++)
                solver->best[r] = r < i ? solver->now[r] : -1;
        }
        return;
    }
    double rest = bound(solver, i, wanted);
    if (solver->steps <= 0 || solver->found || !(rest < INFINITY) ||
        loss + rest > solver->best_loss * (1 + 1e-12))
        return;
    solver->steps--;
    const struct row *row = &solver->rows[i];
    for (int turn = first_turn(solver, i); turn < row->count; turn++) {
        solver->now[i] = turn;
        branch(solver, i + 1, wanted - solver->turns[row->first + turn].save,
               loss + solver->turns[row->first + turn].loss);
    }
    solver->now[i] = -1;
    branch(solver, i + 1, wanted, loss);
}

/* Starts from the cheapest options; then builds the rows of switches that can save the excess. */
static struct solver start(struct sl_knapsack *sack, double *cost, double *size) {
    int items = (int)sack->items.count, turns = 0;
    struct solver solver = {.rows = SL_NEW(&sack->scratch, struct row, items + 1),
                            .turns = SL_NEW(&sack->scratch, struct turn, sack->options.count + 1),
                            .now = SL_NEW(&sack->scratch, int, items + 1),
                            .best = SL_NEW(&sack->scratch, int, items + 1),
                            .saved = SL_NEW(&sack->scratch, double, items + 1),
                            .lost = SL_NEW(&sack->scratch, double, items + 1),
                            .steps = SL_KNAPSACK_STEPS};
    for (int i = 0; i < items; i++) {
        const struct sl_peers_knapsack_option *base = cheapest(sack, i);
        *cost += base->cost;
        *size += base->size;
        sack->items.at[i].chosen = base->tag;
        add_row(&solver, sack, i, &turns);
    }
    sl_sort(solver.rows, solver.count, sizeof *solver.rows, compare_rows);
    add_up(&solver);
    return solver;
}

double sl_peers_knapsack_solve(struct sl_knapsack *sack, double room, double enough) {
    struct sl_arena_mark mark = sl_arena_mark(&sack->scratch);
    double cost = 0, size = 0;
    struct solver solver = start(sack, &cost, &size);
    sack->least = cost + (size > room ? bound(&solver, 0, size - room) : 0);
    solver.best_loss = enough - cost;
    if (sack->least <= enough * (1 + 1e-12))
        branch(&solver, 0, size - room, 0);
    if (!solver.found && solver.steps > 0)
        sack->least = fmax(sack->least, enough);
    for (int r = 0; r < solver.count && solver.found; r++)
        if (size > room && solver.best[r] >= 0)
            sack->items.at[solver.rows[r].item].chosen =
                solver.turns[solver.rows[r].first + solver.best[r]].tag;
    sl_arena_release(&sack->scratch, mark);
    return solver.found ? cost + solver.best_loss : INFINITY;
}
