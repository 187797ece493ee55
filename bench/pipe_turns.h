/* Processes that take turns on one machine. Cores change their speed by a third within seconds, so
 * runs that are minutes apart cannot be compared. Here one process runs for a second and is stopped
 * (SIGSTOP), then the next runs for a second, and so on. A process does not notice; its running
 * time excludes its stops. So a pipeline of 50 steps fills and drains once, and its opponent runs
 * on the same machine in the same minutes. */
#ifndef SL_BENCH_PIPE_TURNS_H
#define SL_BENCH_PIPE_TURNS_H

#include "base/clock.h"
#include "base/err.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURNS_MAX = 1 << 14, RACERS_MAX = 8 };

/* Shared by a racer and its driver. Times are those of sl_clock_ns. */
struct racer_state {
    atomic_int_least64_t end_ns; /* of its work; 0: not yet */
    atomic_bool finish;          /* print the results and exit */
    atomic_int count;
    struct {
        int64_t from, to; /* of a turn; the last one is open while it runs */
    } turns[TURNS_MAX];
};

struct racer {
    pid_t process; /* also its process group */
    struct racer_state *state;
    int fd;                      /* for answers; -1: none */
    void (*answer)(void *racer); /* an answer can be read */
};

/* Processes to kill when this one ends. */
static pid_t racers_alive[RACERS_MAX];

static inline void racers_kill(int signal_number) {
    for (int i = 0; i < RACERS_MAX; i++)
        if (racers_alive[i])
            kill(-racers_alive[i], SIGKILL);
    _exit(128 + signal_number);
}

static inline void racer_remember(pid_t old, pid_t process) {
    int i = 0;
    while (i < RACERS_MAX && racers_alive[i] != old)
        i++;
    SL_ASSERT(i < RACERS_MAX);
    racers_alive[i] = process;
    signal(SIGINT, racers_kill);
    signal(SIGTERM, racers_kill);
}

static inline void *shared_bytes(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("bench: shared memory");
        exit(1);
    }
    return at;
}

/* In the racer: it is open; waits for its first turn. */
static inline void racer_ready(void) { raise(SIGSTOP); }

/* In the racer: its work is done; returns when all racers are done. */
static inline void racer_done(struct racer_state *state) {
    const struct timespec nap = {.tv_nsec = 1000000};
    atomic_store(&state->end_ns, sl_clock_ns());
    while (!atomic_load(&state->finish))
        nanosleep(&nap, NULL);
}

static inline void await_stop(const struct racer *r) {
    int status;
    if (waitpid(r->process, &status, WUNTRACED) == r->process && WIFSTOPPED(status))
        return;
    fprintf(stderr, "bench: a racer ended before its time\n");
    racers_kill(0);
}

/* Starts a process that calls body(ctx); body opens what it needs and then calls racer_ready. */
static inline void racer_open(struct racer *r, void (*body)(void *ctx), void *ctx) {
    *r = (struct racer){.state = shared_bytes(sizeof *r->state), .fd = -1};
    fflush(stdout);
    r->process = fork();
    if (r->process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        body(ctx);
        fflush(stdout);
        _exit(0);
    }
    if (r->process < 0) {
        perror("bench: fork");
        exit(1);
    }
    setpgid(r->process, r->process);
    racer_remember(0, r->process);
    await_stop(r);
}

/* Running time at a clock time. */
static inline int64_t ran_at(const struct racer_state *state, int64_t time_ns) {
    int64_t sum = 0;
    for (int i = 0; i < state->count && state->turns[i].from < time_ns; i++)
        sum += (state->turns[i].to < time_ns ? state->turns[i].to : time_ns) - state->turns[i].from;
    return sum;
}

static inline int64_t ran_now(const struct racer_state *state) {
    return ran_at(state, sl_clock_ns());
}

/* Runs for so many seconds or until its work is done. */
static inline void racer_turn(struct racer *r, double seconds) {
    struct racer_state *s = r->state;
    int64_t now = sl_clock_ns(), until = now + (int64_t)(seconds * 1e9);
    SL_ASSERT(s->count < TURNS_MAX);
    s->turns[s->count].from = now;
    s->turns[s->count].to = INT64_MAX;
    atomic_fetch_add(&s->count, 1);
    kill(-r->process, SIGCONT);
    while ((now = sl_clock_ns()) < until && !atomic_load(&s->end_ns)) {
        struct pollfd answers = {.fd = r->fd, .events = POLLIN};
        if (poll(&answers, 1, 1) > 0)
            r->answer(r);
    }
    kill(-r->process, SIGSTOP);
    await_stop(r);
    s->turns[s->count - 1].to = sl_clock_ns();
}

/* CPU seconds of all its threads. */
static inline double racer_cpu(const struct racer *r) {
    clockid_t clock;
    struct timespec at = {0};
    if (clock_getcpuclockid(r->process, &clock) == 0)
        clock_gettime(clock, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* finish: let it run to its end; else kill it. */
static inline void racer_close(struct racer *r, bool finish) {
    atomic_store(&r->state->finish, finish);
    kill(-r->process, finish ? SIGCONT : SIGKILL);
    waitpid(r->process, NULL, 0);
    racer_remember(r->process, 0);
    munmap(r->state, sizeof *r->state);
}

#endif
