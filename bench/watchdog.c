/* The CPU time that watching a run costs (CPU time does not depend on other load); prints RESULT
 * lines.
 *
 *   ./dev bench watchdog [--seconds S]
 *
 *   looks   the watchdog is the thread that waits for the workers: its CPU time in a long run minus
 *           that in a short one (both create threads and schedules)
 *   notes   what a worker records at an action, a wait and its end, in a loop; times the actions
 *           of a step
 *   life    the threads of two ranks over TCP that only send heartbeats
 *
 * Shares are of one core. Looks and heartbeats have a fixed rate per second. Notes are relative to
 * the time of a step whose passes take a fraction of a millisecond, so they weigh more than in real
 * training. Nothing here can be switched off, and the total is too small to see in a comparison of
 * whole steps, so the parts are added. Exit status 1 if the total is a thousandth or more.
 */
#include "pipe_bench.h"

#include "comm/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STAGES = 2, MICROS = 16, SHORT = 4, NOTES = 5000000, RANKS = 2 };

static const double goal = 1e-3;

static void open_pipe(struct bench *b, struct sl_pipe **pipe) {
    open_bench(b, "bench/models/gpt-pipe.model", "V=256,T=64,L=2,C=64,H=4", 1);
    b->train.batch = b->train.micros = MICROS;
    b->train.steps = 1 << 20;
    struct sl_pipe_config config = {.train = &b->train,
                                    .plan = even_plan(b, STAGES, false),
                                    .stage_of = b->stage_of,
                                    .schedule = "1f1b"};
    must(sl_pipe_open(&config, pipe));
}

/* ---- looks ---- */

struct looks {
    double wall, cpu, own; /* seconds: wall time of the run, CPU time of all threads, of the
                            * watchdog */
};

static struct looks run_watched(struct sl_pipe *pipe, int64_t steps) {
    int64_t own = sl_clock_cpu_ns();
    struct cost cost = run_steps(pipe, steps);
    return (struct looks){cost.wall * (double)steps, cost.cpu * (double)steps,
                          (double)(sl_clock_cpu_ns() - own) / 1e9};
}

/* ---- notes ---- */

/* Nanoseconds of all notes around an action that waits once. */
static double note_ns(struct sl_pipe *pipe) {
    struct sl_pipe_worker *w = &pipe->workers[0];
    struct sl_action action = {.kind = SL_FORWARD};
    struct sl_pipe_wait note = {.wait = SL_WAIT_MESSAGE, .peer = 1};
    int64_t start = sl_clock_cpu_ns();
    for (int i = 0; i < NOTES; i++) {
        action.micro = note.peer_micro = i & 1023;
        sl_pipe_status_action(w, &action);
        sl_pipe_status_wait(w, note);
        sl_pipe_status_resume(w);
        sl_pipe_status_done(w, SL_FORWARD, i & 4095);
    }
    double ns = (double)(sl_clock_cpu_ns() - start) / NOTES;
    sl_pipe_status_action(w, NULL);
    return ns;
}

/* Actions of all workers in a step. */
static int64_t actions_of(const struct sl_pipe *pipe) {
    int64_t count = 0;
    for (int w = 0; w < STAGES; w++)
        for (int s = 0; s < SL_SEGMENT_COUNT; s++)
            count += pipe->sched->lists[s][w].count;
    return count; /* one iteration, or more if prologue and epilogue differ */
}

/* ---- signs of life ---- */

struct rank {
    struct sl_comm_job job;
    struct sl_comm *comm;
    double seconds;
    pthread_t thread;
};

static void *rank_main(void *arg) {
    struct rank *r = arg;
    struct timespec idle = {.tv_sec = (time_t)r->seconds,
                            .tv_nsec = (long)(1e9 * (r->seconds - (double)(time_t)r->seconds))};
    must(sl_comm_open(&sl_comm_transport_tcp, &r->job, &r->comm));
    nanosleep(&idle, NULL);
    must(sl_comm_settle(r->comm, SL_OK));
    sl_comm_close(r->comm);
    return NULL;
}

/* CPU seconds of this process while two idle ranks send heartbeats for so long. */
static double live(double seconds) {
    struct rank ranks[RANKS];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int64_t start = sl_clock_process_ns();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, length) != 0 || listen(fd, RANKS) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &length) != 0)
        must(sl_fail(SL_ERR_SYSTEM, "no socket on this host"));
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){.seconds = seconds};
        ranks[i].job = (struct sl_comm_job){.rank = i,
                                            .ranks = RANKS,
                                            .meet_fd = i ? -1 : fd,
                                            .has_key = true,
                                            .timeout_ns = 60000000000};
        snprintf(ranks[i].job.meet, sizeof ranks[i].job.meet, "127.0.0.1:%d", ntohs(at.sin_port));
        if (pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]) != 0)
            must(sl_fail(SL_ERR_SYSTEM, "cannot start a thread"));
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(ranks[i].thread, NULL);
    return (double)(sl_clock_process_ns() - start) / 1e9;
}

int main(int argc, char **argv) {
    int64_t seconds = 20;
    const struct bench_option options[] = {{"--seconds", &seconds, NULL}, {NULL, NULL, NULL}};
    if (!read_options(argc, argv, options) || seconds < 2)
        return 2;
    struct bench b;
    struct sl_pipe *pipe;
    open_pipe(&b, &pipe);
    run_watched(pipe, SHORT); /* touch the memory */
    struct looks few = run_watched(pipe, SHORT);
    int64_t steps = SHORT + (int64_t)((double)(SHORT * seconds) / few.wall);
    struct looks many = run_watched(pipe, steps);
    double wall = many.wall - few.wall, work = many.cpu - few.cpu - (many.own - few.own);
    double looks = (many.own - few.own) / wall;
    printf("RESULT bench=watchdog what=looks run_s=%.1f cpu_us_per_s=%.1f share=%.7f\n", wall,
           1e6 * looks, looks);
    double one = note_ns(pipe), step = work / (double)(steps - SHORT);
    double notes = one * (double)actions_of(pipe) / (1e9 * step);
    printf("RESULT bench=watchdog what=notes ns_per_action=%.2f actions=%lld step_cpu_ms=%.3f "
           "share=%.7f\n",
           one, (long long)actions_of(pipe), 1e3 * step, notes);
    double life = (live((double)seconds / 4 + 1) - live(1)) * 4 / (double)seconds / RANKS;
    printf("RESULT bench=watchdog what=life cpu_us_per_s=%.1f share=%.7f\n", 1e6 * life, life);
    bool reached = looks + notes + life < goal;
    printf("RESULT bench=watchdog what=all share=%.7f goal=%.4f verdict=%s\n", looks + notes + life,
           goal, reached ? "reached" : "missed");
    sl_pipe_close(pipe);
    close_bench(&b);
    return !reached;
}
