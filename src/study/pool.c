/* Runs the cells of a study as processes. */
#define _GNU_SOURCE
#include "study/pool.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS_MAX = 1024, LOG_LIMIT = 1 << 30 };

struct job {
    pid_t pid; /* 0: the slot is free */
    int64_t cell, start_ns;
};

struct run {
    struct sl_study_pool *pool;
    struct sl_study_cell *cells;
    int64_t count, done, fresh, next;
    const char *what;
    struct job jobs[JOBS_MAX];
    int alive;
    int64_t spent_ns; /* time of all runs that have ended */
};

static bool stop_requested(const struct sl_study_pool *p) { return p->stop && *p->stop; }

/* ---- files ---- */

static sl_err make_dir(const char *path) {
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return sl_fail(SL_ERR_SYSTEM, "%s: cannot make the directory: %s", path, strerror(errno));
    return SL_OK;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Locks the directory: one study at a time. Runs inherit the lock, so runs of a killed study end
 * before the next study begins. */
static sl_err lock(struct sl_study_pool *p) {
    const char *path = sl_arena_printf(p->arena, "%s/lock", p->out);
    if (p->locked)
        return SL_OK;
    int fd = open(path, O_RDWR | O_CREAT, 0666); /* stays open to the end of the process */
    if (fd < 0)
        return sl_fail(SL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        sl_log_note("%s: another study uses this directory; waiting for it", p->out);
        if (flock(fd, LOCK_EX) != 0)
            return sl_fail(SL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    }
    p->locked = true;
    return SL_OK;
}

/* Returns the file with the CPU time of a run. */
static const char *cost_file(const struct sl_study_pool *p, const char *dir) {
    return sl_arena_printf(p->arena, "%s/cpu_s", dir);
}

static sl_err load_cost(struct sl_study_pool *p, struct sl_study_cell *cell, const char *dir) {
    const char *path = cost_file(p, dir);
    char *text;
    size_t length;
    if (!sl_file_exists(path))
        return SL_OK;
    SL_TRY(sl_file_read(path, 64, &text, &length));
    sl_err err = sl_parse_double(text, path, &cell->cpu_s);
    free(text);
    return err;
}

static sl_err save_cost(const struct sl_study_pool *p, const char *dir, const struct rusage *used) {
    struct sl_text text = {0};
    sl_text_printf(&text, "%.2f",
                   (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
                       (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1e6);
    sl_err err = sl_file_write(cost_file(p, dir), text.at, text.length);
    sl_text_free(&text);
    return err;
}

/* Reads the log of a cell if its run is finished. */
static sl_err load(struct sl_study_pool *p, struct sl_study_cell *cell, const char *dir) {
    const char *path = sl_arena_printf(p->arena, "%s/log.jsonl", dir);
    const struct sl_record *record;
    char *text;
    size_t length;
    if (!sl_file_exists(path))
        return SL_OK;
    SL_TRY(sl_file_read(path, LOG_LIMIT, &text, &length));
    sl_err err = sl_report_record_read(p->arena, path, text, length, &record);
    free(text);
    SL_TRY(err);
    if (record->eval_count &&
        record->evals[record->eval_count - 1].step >= sl_study_steps(p->study, &p->how, cell))
        cell->record = record;
    return load_cost(p, cell, dir);
}

static const char *dir_of(const struct sl_study_pool *p, const char *name) {
    return sl_arena_printf(p->arena, "%s/cells/%s", p->out, name);
}

/* ---- one run ---- */

/* Starts a run. If there are more threads than cores, each run stays on one core: its threads then
 * run in turn instead of competing with other runs. Results do not depend on it. */
static sl_err start(struct run *r, int slot, int64_t at, const char *const *words, int count,
                    const char *dir) {
    const struct sl_study_pool *p = r->pool;
    const char *const *argv = p->command(p->arena, words, count, dir);
    const char *messages = sl_arena_printf(p->arena, "%s.err", dir);
    int64_t threads = p->jobs * p->study->tasks[r->cells[at].task].stages;
    bool crowded = threads > sysconf(_SC_NPROCESSORS_ONLN);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int log = open(messages, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    struct sl_spawn spawn = {.program = p->program,
                             .argv = argv,
                             .out_fd = null < 0 ? 0 : null,
                             .err_fd = log < 0 ? 0 : log,
                             .cpu = crowded ? slot + 1 : 0,
                             .dies_with_parent = true};
    pid_t pid;
    sl_err err = sl_spawn(&spawn, &pid);
    if (null >= 0)
        close(null);
    if (log >= 0)
        close(log);
    SL_TRY(err);
    r->jobs[slot] = (struct job){.pid = pid, .cell = at, .start_ns = sl_clock_ns()};
    r->alive++;
    return SL_OK;
}

static void show_progress(struct run *r, const struct sl_study_cell *cell) {
    enum { WIDE = 24 };
    const struct sl_study *s = r->pool->study;
    char bar[WIDE + 1] = "", left[SL_HUMAN_BYTES] = "";
    int64_t todo = r->count - r->done;
    for (int i = 0; i < WIDE; i++)
        bar[i] = i < WIDE * r->done / r->count ? '#' : '.';
    if (r->fresh && todo)
        sl_human_ns(r->spent_ns / r->fresh * todo / r->pool->jobs, left);
    sl_log_status(!sl_log_is_terminal(), "%s [%s] %lld/%lld  %s, %s, seed %lld: %.4f%s%s", r->what,
                  bar, (long long)r->done, (long long)r->count, s->tasks[cell->task].name,
                  s->modes[cell->mode].name, (long long)cell->seed,
                  cell->record->evals[cell->record->eval_count - 1].loss, *left ? "  left " : "",
                  left);
}

/* Fails with the last line of the run's messages. */
static sl_err fail_run(const struct run *r, const char *dir, int status) {
    const char *path = sl_arena_printf(r->pool->arena, "%s.err", dir);
    char *text, *line;
    size_t length;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : SL_ERR_PEER;
    SL_TRY(sl_file_read(path, LOG_LIMIT, &text, &length));
    while (length && text[length - 1] == '\n')
        text[--length] = 0;
    line = strrchr(text, '\n');
    sl_fail((sl_err)code, "%s: the run ended with status %d: %s", dir, code,
            line ? line + 1 : text);
    free(text);
    return (sl_err)code;
}

static const char *name_of(const struct run *r, const struct sl_study_cell *cell,
                           const char *words[SL_STUDY_WORDS], int *count, sl_err *err) {
    const struct sl_study_pool *p = r->pool;
    *err = sl_study_words(p->arena, p->study, &p->how, cell, words, count);
    return *err == SL_OK ? dir_of(p, sl_study_cell_name(p->arena, p->study, cell, words, *count))
                         : NULL;
}

static sl_err finish(struct run *r, int slot, int status, const struct rusage *used) {
    struct job *job = &r->jobs[slot];
    struct sl_study_cell *cell = &r->cells[job->cell];
    const char *words[SL_STUDY_WORDS];
    sl_err err;
    int count;
    const char *dir = name_of(r, cell, words, &count, &err);
    SL_TRY(err);
    job->pid = 0;
    r->alive--;
    r->spent_ns += sl_clock_ns() - job->start_ns;
    if (status != 0)
        return fail_run(r, dir, status);
    SL_TRY(save_cost(r->pool, dir, used));
    SL_TRY(load(r->pool, cell, dir));
    if (!cell->record)
        return sl_fail(SL_ERR_SYSTEM, "%s: the run ended before its last evaluation", dir);
    if (!r->pool->keep_weights)
        nftw(sl_arena_printf(r->pool->arena, "%s/ckpt", dir), remove_one, 8, FTW_DEPTH | FTW_PHYS);
    r->done++;
    r->fresh++;
    show_progress(r, cell);
    return SL_OK;
}

/* ---- all runs ---- */

static bool time_is_up(const struct sl_study_pool *p) {
    return p->limit_ns >= 0 && sl_clock_ns() - p->start_ns >= p->limit_ns;
}

/* Starts runs while slots are free; skips finished cells. */
static sl_err fill(struct run *r) {
    while (r->next < r->count && r->alive < r->pool->jobs && !stop_requested(r->pool)) {
        struct sl_study_cell *cell = &r->cells[r->next];
        const char *words[SL_STUDY_WORDS];
        sl_err err;
        int count, slot = 0;
        const char *dir = name_of(r, cell, words, &count, &err);
        SL_TRY(err);
        SL_TRY(load(r->pool, cell, dir));
        if (!cell->record && time_is_up(r->pool)) {
            r->pool->left++;
        } else if (cell->record) {
            r->done++;
        } else {
            while (r->jobs[slot].pid)
                slot++;
            SL_TRY(start(r, slot, r->next, words, count, dir));
        }
        r->next++;
    }
    return SL_OK;
}

static sl_err watch(struct run *r) {
    for (;;) {
        SL_TRY(fill(r));
        if (!r->alive || stop_requested(r->pool))
            return SL_OK;
        int status;
        struct rusage used;
        pid_t pid = wait4(-1, &status, 0, &used); /* a signal interrupts the wait */
        for (int i = 0; pid > 0 && i < r->pool->jobs; i++)
            if (r->jobs[i].pid == pid)
                SL_TRY(finish(r, i, status, &used));
    }
}

sl_err sl_study_pool_run(struct sl_study_pool *pool, struct sl_study_cell *cells, int64_t count,
                         const char *what) {
    static struct run r; /* static, because it is large */
    r = (struct run){.pool = pool, .cells = cells, .count = count, .what = what};
    if (pool->jobs > JOBS_MAX)
        pool->jobs = JOBS_MAX;
    SL_TRY(make_dir(pool->out));
    SL_TRY(make_dir(sl_arena_printf(pool->arena, "%s/cells", pool->out)));
    SL_TRY(lock(pool));
    sl_err err = watch(&r);
    for (int i = 0; i < pool->jobs; i++)
        if (r.jobs[i].pid) {
            kill(r.jobs[i].pid, SIGKILL);
            waitpid(r.jobs[i].pid, NULL, 0);
        }
    if (err == SL_OK && stop_requested(pool))
        err = sl_fail(SL_ERR_SYSTEM,
                      "stopped; %lld of %lld runs are left: the same command continues",
                      (long long)(count - r.done), (long long)count);
    return err;
}
