/* Pipelines that take turns, so that a difference of a percent shows on a machine whose speed
 * changes: an opening of all contenders (memory lies elsewhere each time), then rounds in which
 * each runs once, in an order that rotates. An opening gives one number per contender, the median
 * of its rounds; the result is the median of the openings, with the 95 % interval of a bootstrap
 * over them. A contender that is the first once more shows what the machine makes of no difference.
 *
 * A race may have a goal for its last contender. Where its time is over and the goal is neither
 * reached nor missed, it goes on for as long again, and so on to its limit. Looking several times
 * at a moving number decides too often; so what ends a race early is a 99 % interval.
 */
#ifndef SL_BENCH_PIPE_RACE_H
#define SL_BENCH_PIPE_RACE_H

#include "pipe_bench.h"

enum { RACE_MAX = 4, RACE_ROUNDS = 3, RACE_ROUNDS_MAX = 99, RACE_OPENINGS = 2000, RACE_FEWEST = 6 };

struct race {
    int count; /* contenders */
    int64_t steps;
    int rounds;     /* of an opening, up to RACE_ROUNDS_MOST; 0: RACE_ROUNDS */
    double seconds; /* openings begin until they are over */
    double limit;   /* or, until the goal is decided, until these are; 0: as `seconds` */
    double goal;    /* least ratio of the last contender by the clock; 0: none */
    void (*open)(void *ctx, int contender, struct bench *b, struct sl_pipe **pipe);
    void (*ran)(void *ctx, int contender, const struct sl_pipe *pipe); /* after a run; or NULL */
    void *ctx;
    /* What came out, of each opening: throughput over that of contender 0. */
    double *wall[RACE_MAX], *cpu[RACE_MAX];
    int64_t openings;
};

static inline void run_opening(struct race *race) {
    struct bench benches[RACE_MAX];
    struct sl_pipe *pipes[RACE_MAX];
    double wall[RACE_MAX][RACE_ROUNDS_MAX], cpu[RACE_MAX][RACE_ROUNDS_MAX];
    struct cost costs[RACE_MAX];
    int64_t turn = race->openings;
    for (int v = 0; v < race->count; v++) {
        int at = (int)((v + turn) % race->count);
        race->open(race->ctx, at, &benches[at], &pipes[at]);
        run_steps(pipes[at], race->steps); /* memory is touched */
    }
    for (int r = 0; r < race->rounds; r++) {
        for (int v = 0; v < race->count; v++) { /* nobody is always first, or behind the same */
            int64_t place = (r + turn) % 2 ? v : race->count - 1 - v;
            int at = (int)((place + r + turn) % race->count);
            costs[at] = run_steps(pipes[at], race->steps);
            if (race->ran)
                race->ran(race->ctx, at, pipes[at]);
        }
        for (int v = 0; v < race->count; v++) {
            wall[v][r] = costs[0].wall / costs[v].wall;
            cpu[v][r] = costs[0].cpu / costs[v].cpu;
        }
    }
    for (int v = 0; v < race->count; v++) {
        race->wall[v][turn] = median_of(wall[v], race->rounds);
        race->cpu[v][turn] = median_of(cpu[v], race->rounds);
        sl_pipe_close(pipes[v]);
        close_bench(&benches[v]);
    }
    race->openings++;
}

static inline bool is_decided(const struct race *race) {
    struct interval wall = interval_with(race->wall[race->count - 1], race->openings, 200);
    return race->goal <= 0 || wall.low >= race->goal || wall.high < race->goal;
}

static inline void run_race(struct race *race, struct sl_arena *arena) {
    int64_t start = sl_clock_ns();
    race->rounds = race->rounds ? race->rounds : RACE_ROUNDS;
    for (int v = 0; v < race->count; v++) {
        race->wall[v] = SL_NEW(arena, double, RACE_OPENINGS);
        race->cpu[v] = SL_NEW(arena, double, RACE_OPENINGS);
    }
    for (double until = race->seconds;; until = 2 * until < race->limit ? 2 * until : race->limit) {
        while (race->openings < RACE_OPENINGS &&
               (race->openings < RACE_FEWEST || (double)(sl_clock_ns() - start) / 1e9 < until))
            run_opening(race);
        if (until >= race->limit || race->openings == RACE_OPENINGS || is_decided(race))
            return;
    }
}

/* The end of a RESULT line. goal: the least ratio by the clock; 0: none. */
static inline void put_ratio(struct race *race, int contender, double goal) {
    struct interval cpu = interval_of(race->cpu[contender], race->openings);
    struct interval wall = interval_of(race->wall[contender], race->openings);
    printf(" openings=%lld rounds=%d cpu_ratio=%.4f cpu_low=%.4f cpu_high=%.4f ratio=%.4f",
           (long long)race->openings, race->rounds, cpu.middle, cpu.low, cpu.high, wall.middle);
    put_interval(wall, goal);
    printf("\n");
    fflush(stdout);
}

#endif
