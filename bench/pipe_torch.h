/* torch.distributed.pipelining as an opponent that takes turns (bench/pipe_turns.h).
 * bench/pipeline_torch.py starts its processes once and runs a few steps per request; the next
 * request follows at once. */
#ifndef SL_BENCH_PIPE_TORCH_H
#define SL_BENCH_PIPE_TORCH_H

#include "pipe_turns.h"

#include <string.h>

struct torch {
    struct racer racer;    /* the first member: torch_answer casts to it */
    const char *schedules; /* "1f1b,interleaved" */
    int64_t steps;         /* of a request */
    double tokens;         /* of a step */
    char best[64];         /* schedule */
    FILE *to, *from;       /* NULL: no opponent */
    int64_t done;          /* steps since the restart, */
    int64_t begin_ns, ns;  /* and their begin and duration in running time */
};

static inline void torch_ask(struct torch *t, const char *schedule) {
    fprintf(t->to, "%s %lld\n", schedule, (long long)t->steps);
    fflush(t->to);
}

/* Tokens per second by its own clock, which also counts stopped turns; 0: it cannot run this. */
static inline double torch_read(struct torch *t) {
    char line[256], name[64];
    double rate = 0;
    if (!fgets(line, sizeof line, t->from)) {
        fprintf(stderr, "bench: torch ended\n");
        exit(1);
    }
    if (t->racer.state->count == 0)
        printf("# %s", line);
    fflush(stdout);
    return sscanf(line, "torch schedule=%63s tokens_s=%lf", name, &rate) == 2 ? rate : 0;
}

/* After an answer: sends the next request. */
static inline void torch_answer(void *racer) {
    struct torch *t = racer;
    if (torch_read(t) == 0) {
        fprintf(stderr, "bench: torch failed\n");
        exit(1);
    }
    t->done += t->steps;
    t->ns = ran_now(t->racer.state);
    torch_ask(t, t->best);
}

static inline void torch_open(struct torch *t, const char *python, int64_t stages,
                              int64_t threads) {
    char counts[2][32];
    int to[2], from[2];
    snprintf(counts[0], sizeof counts[0], "%lld", (long long)stages);
    snprintf(counts[1], sizeof counts[1], "%lld", (long long)threads);
    if (pipe(to) != 0 || pipe(from) != 0 || (t->racer.process = fork()) < 0) {
        perror("bench: torch");
        exit(1);
    }
    if (t->racer.process == 0) {
        setpgid(0, 0);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]);
        close(from[0]);
        execlp(python, python, "bench/pipeline_torch.py", "--serve", "--stages", counts[0],
               "--threads", counts[1], (char *)NULL);
        perror(python);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    t->to = fdopen(to[1], "w");
    t->from = fdopen(from[0], "r");
    setpgid(t->racer.process, t->racer.process);
    racer_remember(0, t->racer.process);
    t->racer.state = shared_bytes(sizeof *t->racer.state);
    t->racer.fd = from[0];
    t->racer.answer = torch_answer;
}

/* Runs every schedule once; the fastest becomes the opponent. */
static inline void torch_choose(struct torch *t) {
    char *list = strdup(t->schedules), *rest = list;
    double best = 0;
    if (strchr(t->schedules, ',')) {
        torch_ask(t, "alone"); /* the sum of its workers' speeds; not an opponent */
        torch_read(t);
    }
    for (char *name; (name = strsep(&rest, ","));) {
        torch_ask(t, name);
        double rate = torch_read(t);
        if (rate > best) {
            best = rate;
            snprintf(t->best, sizeof t->best, "%s", name);
        }
    }
    free(list);
    if (best == 0) {
        fprintf(stderr, "bench: torch runs none of %s\n", t->schedules);
        exit(1);
    }
    torch_ask(t, t->best);
    kill(-t->racer.process, SIGSTOP);
    await_stop(&t->racer);
}

/* Steps count from now on. */
static inline void torch_restart(struct torch *t) {
    if (!t->to)
        return;
    int64_t before = t->done;
    for (t->ns = 0; t->done == before;) /* the request in progress is not counted */
        racer_turn(&t->racer, 0.1);
    t->done = 0;
    t->begin_ns = t->ns = ran_now(t->racer.state);
}

/* Tokens per second of the requests that ended since the restart. */
static inline double torch_rate(const struct torch *t) {
    return t->ns > t->begin_ns ? (double)t->done * t->tokens * 1e9 / (double)(t->ns - t->begin_ns)
                               : 0;
}

static inline void torch_close(struct torch *t) {
    if (!t->to)
        return;
    racer_close(&t->racer, false); /* kills all its processes, even within a request */
    fclose(t->to);
    fclose(t->from);
}

#endif
