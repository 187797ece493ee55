/* The cost of a measured timeline; prints RESULT lines.
 *
 *   ./dev bench pipeline_trace [--seconds S] [--threads T] [--isa avx512]
 *
 * Throughput with a trace over that without, in turns (bench/pipe_race.h), of two stages in 1f1b.
 * Passes take a fraction of a millisecond, so a trace weighs more than in real training. with=none
 * is the pipeline without a trace once more: if its interval does not contain 1, the machine was
 * too noisy.
 */
#include "pipe_race.h"

enum { STAGES = 2, MICROS = 16, STEPS = 6, VARIANTS = 3 }; /* without, without again, with */

struct options {
    int64_t seconds, threads;
    const char *isa;
};

static void open_variant(void *ctx, int variant, struct bench *b, struct sl_pipe **pipe) {
    const struct options *o = ctx;
    open_bench(b, "bench/models/gpt-pipe.model", "V=256,T=64,L=2,C=64,H=4", (int)o->threads);
    b->train.batch = b->train.micros = MICROS;
    b->train.steps = STEPS;
    struct sl_pipe_config config = {.train = &b->train,
                                    .plan = even_plan(b, STAGES, false),
                                    .stage_of = b->stage_of,
                                    .schedule = "1f1b",
                                    .bind = bind_all(STAGES * o->threads),
                                    .trace = variant == VARIANTS - 1};
    must(sl_pipe_open(&config, pipe));
}

int main(int argc, char **argv) {
    struct options o = {.seconds = 60, .threads = 1, .isa = steady_isa()};
    const struct bench_option options[] = {
        {"--seconds", &o.seconds, NULL},
        {"--threads", &o.threads, NULL},
        {"--isa", NULL, &o.isa},
        {NULL, NULL, NULL},
    };
    if (!read_options(argc, argv, options) || o.threads < 1)
        return 2;
    must(sl_device_cpu_limit(o.isa));
    struct sl_arena arena = {0};
    struct race race = {.count = VARIANTS,
                        .steps = STEPS,
                        .seconds = (double)o.seconds,
                        .open = open_variant,
                        .ctx = &o};
    run_race(&race, &arena);
    for (int v = 1; v < VARIANTS; v++) {
        bool with = v == VARIANTS - 1;
        printf("RESULT bench=pipeline_trace with=%s schedule=1f1b stages=%d threads=%lld isa=%s",
               with ? "trace" : "none", STAGES, (long long)o.threads, o.isa);
        put_ratio(&race, v, with ? 0.99 : 0);
    }
    sl_arena_free(&arena);
    return 0;
}
