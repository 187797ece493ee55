/* torch.distributed.pipelining as an opponent that waits for its turns: bench/pipeline_torch.py
 * starts its processes once, sleeps, and runs a few steps whenever it is asked. */
#ifndef SL_BENCH_PIPE_TORCH_H
#define SL_BENCH_PIPE_TORCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct torch {
    const char *schedules; /* "1f1b,interleaved" */
    int64_t steps;         /* of a turn */
    char best[64];         /* schedule */
    FILE *to, *from;       /* NULL: not asked for */
    pid_t process;
};

static inline void torch_open(struct torch *t, const char *python, int64_t stages,
                              int64_t threads) {
    char counts[2][32];
    int to[2], from[2];
    snprintf(counts[0], sizeof counts[0], "%lld", (long long)stages);
    snprintf(counts[1], sizeof counts[1], "%lld", (long long)threads);
    if (pipe(to) != 0 || pipe(from) != 0 || (t->process = fork()) < 0) {
        perror("bench: torch");
        exit(1);
    }
    if (t->process == 0) {
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
}

/* Tokens per second; 0: it cannot run this schedule. */
static inline double torch_turn(struct torch *t, const char *schedule) {
    char line[256], name[64];
    double rate = 0;
    fprintf(t->to, "%s %lld\n", schedule, (long long)t->steps);
    fflush(t->to);
    if (!fgets(line, sizeof line, t->from)) {
        fprintf(stderr, "bench: torch ended\n");
        exit(1);
    }
    printf("# %s", line);
    fflush(stdout);
    return sscanf(line, "torch schedule=%63s tokens_s=%lf", name, &rate) == 2 ? rate : 0;
}

/* Once through all schedules: the fastest is the opponent from now on. */
static inline void torch_choose(struct torch *t) {
    char *list = strdup(t->schedules), *rest = list;
    double best = 0;
    torch_turn(t, "alone"); /* what its workers add up to; no opponent */
    for (char *name; (name = strsep(&rest, ","));) {
        double rate = torch_turn(t, name);
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
}

/* Of a turn of the opponent; 0: there is none. */
static inline double torch_rate(struct torch *t) { return t->to ? torch_turn(t, t->best) : 0; }

static inline void torch_close(struct torch *t) {
    if (!t->to)
        return;
    fclose(t->to);
    fclose(t->from);
    waitpid(t->process, NULL, 0);
}

#endif
