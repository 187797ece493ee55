/* Races of pipelines that take turns: they measure differences of a percent on a machine whose
 * speed changes. An opening opens all contenders (memory lies elsewhere each time), then runs
 * rounds; in a round each contender runs once, in rotating order. An opening gives one number per
 * contender, the median of its rounds. The result is the median of the openings with a bootstrap 95
 * % interval. A contender that equals the first shows the noise of the machine.
 *
 * A race may have a goal for its last contender. If time is over and the goal is neither reached
 * nor missed, the race goes on for as long again, up to its limit. Repeated looks at a changing
 * number decide too often, so an early end needs a 99 % interval.
 */
#ifndef SL_BENCH_PIPE_RACE_H
#define SL_BENCH_PIPE_RACE_H

#include "pipe_bench.h"

enum { RACE_MAX = 4, RACE_ROUNDS = 3, RACE_ROUNDS_MAX = 99, RACE_OPENINGS = 2000, RACE_FEWEST = 6 };

struct race {
    int count; /* contenders */
    int64_t steps;
    int rounds;     /* per opening, up to RACE_ROUNDS_MAX; 0: RACE_ROUNDS */
    double seconds; /* new openings begin within this time */
    double limit;   /* maximum while the goal is undecided; 0: as `seconds` */
    double goal;    /* least ratio of the last contender by wall time; 0: none */
    void (*open)(void *ctx, int contender, struct bench *b, struct sl_pipe **pipe);
    void (*ran)(void *ctx, int contender, const struct sl_pipe *pipe); /* after a run; or NULL */
    void *ctx;
    /* Results per opening: throughput over that of contender 0. */
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
        run_steps(pipes[at], race->steps); /* touch the memory */
    }
    for (int r = 0; r < race->rounds; r++) {
        for (int v = 0; v < race->count; v++) { /* rotate the order */
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

/* The end of a RESULT line. goal: the least ratio by wall time; 0: none. */
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
