/* Saving while training: the checkpoint holds the state at the call, and its bytes equal those of a
 * synchronous save, however late it is written. Errors are returned; the interval adapts to the
 * cost of a save. */
#include "ckpt/files.h"
#include "pipe/pipe.h"
#include "run/session.h"
#include "support/ckpt_tree.h"
#include "support/data_files.h"
#include "support/pipe_case.h"
#include "support/pipe_models.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 7, SAVED = 3, STAGES = 3 };

static bool exists_at(const char *path) {
    bool exists;
    return sl_ckpt_exists(path, &exists) != SL_OK || exists;
}

static struct sl_arena arena;

static const char *fresh_dir(void) { return sl_tree_make(&arena); }

static uint64_t hash_of(const char *run, int64_t step) {
    struct sl_ckpt *ckpt;
    SL_TEST_OK(sl_ckpt_open(run, step, &ckpt));
    SL_TEST_OK(sl_ckpt_verify(ckpt));
    uint64_t hash = sl_ckpt_hash(ckpt); /* of names, shapes, bytes and notes */
    sl_ckpt_close(ckpt);
    return hash;
}

/* A file system that waits for a permit before it creates a checkpoint's directory. */
struct slow_files {
    struct sl_ckpt_files files;
    sem_t permit;
    bool is_full;
};

static int slow_mkdir(void *ctx, const char *path) {
    struct slow_files *slow = ctx;
    if (!strstr(path, "/.tmp-step-"))
        return sl_ckpt_system_files.mkdir(NULL, path);
    sem_wait(&slow->permit);
    if (!slow->is_full)
        return sl_ckpt_system_files.mkdir(NULL, path);
    errno = ENOSPC;
    return -1;
}

static void slow_open(struct slow_files *slow, bool is_full) {
    *slow = (struct slow_files){.files = sl_ckpt_system_files, .is_full = is_full};
    slow->files.ctx = slow;
    slow->files.mkdir = slow_mkdir;
    sem_init(&slow->permit, 0, 0);
}

static struct sl_ckpt_saver *open_saver(const struct sl_runner *runner, struct slow_files *slow,
                                        const char *run) {
    struct sl_ckpt_saver *saver = NULL;
    struct sl_ckpt_saver_config config = {
        .store = runner->row->store(runner->ctx),
        .target = {.run = run, .config = "{}", .files = slow ? &slow->files : NULL}};
    SL_TEST_OK(sl_ckpt_saver_open(&config, &saver));
    return saver;
}

static void step(const struct sl_runner *runner) {
    struct sl_step_report report;
    int64_t ran;
    SL_TEST_OK(runner->row->run(runner->ctx, 1, &report, &ran));
}

static sl_err save(const struct sl_runner *runner, struct sl_ckpt_saver *saver, bool wait) {
    struct sl_ckpt_place place = runner->row->place(runner->ctx);
    return sl_ckpt_saver_save(saver, &place, wait);
}

/* Saves with or without a copy. */
static void write_now(const struct sl_runner *runner, const struct sl_ckpt_copy *copy,
                      const struct sl_ckpt_place *place, const char *run) {
    struct sl_ckpt_store store = runner->row->store(runner->ctx);
    struct sl_ckpt_target target = {.run = run, .config = "{}"};
    SL_TEST_OK(sl_ckpt_store_save(&store, copy, &target, place));
}

/* Save at step SAVED while training goes on to STEPS; then save that step, too. */
static void save_late(const struct sl_runner *runner, const char *run) {
    struct slow_files slow;
    struct sl_save_report report;
    slow_open(&slow, false);
    struct sl_ckpt_saver *saver = open_saver(runner, &slow, run);
    for (int i = 0; i < STEPS; i++) {
        step(runner);
        if (i + 1 == SAVED)
            SL_TEST_OK(save(runner, saver, false));
        SL_TEST_OK(sl_ckpt_saver_poll(saver, false, &report));
        assert_int_equal(report.step, -1);
    }
    assert_false(exists_at(run));
    sem_post(&slow.permit);
    sem_post(&slow.permit);
    SL_TEST_OK(save(runner, saver, true));
    SL_TEST_OK(sl_ckpt_saver_poll(saver, false, &report));
    assert_int_equal(report.step, STEPS);
    sl_ckpt_saver_close(saver);
    sem_destroy(&slow.permit);
}

/* The same saves, synchronously, have the same hashes. */
static void compare_with_still(struct pipe_case *c, const char *run) {
    struct sl_train_config config = pipe_case_config(c, "adamw", 6, 3, STEPS);
    const char *still = fresh_dir();
    struct sl_train *train;
    SL_TEST_OK(sl_run_train_open(&config, &train));
    struct sl_runner runner = sl_run_train_runner(train);
    for (int i = 0; i < STEPS; i++) {
        step(&runner);
        struct sl_ckpt_place place = sl_run_train_place(train);
        if (i + 1 == SAVED || i + 1 == STEPS)
            write_now(&runner, NULL, &place, still);
    }
    assert_true(hash_of(run, SAVED) == hash_of(still, SAVED));
    assert_true(hash_of(run, STEPS) == hash_of(still, STEPS));
    assert_true(hash_of(run, SAVED) != hash_of(run, STEPS));
    sl_run_train_close(train);
    sl_tree_remove(still);
}

static struct sl_pipe *open_pipe(struct pipe_case *c, struct sl_train_config *config) {
    struct sl_pipe *pipe;
    pipe_case_cut(c, config, STAGES, NULL);
    struct sl_pipe_config options = {
        .train = config, .plan = c->plan, .stage_of = c->stage_of, .schedule = "1f1b"};
    SL_TEST_OK(sl_pipe_open(&options, &pipe));
    return pipe;
}

static void one_worker_is_copied(void **state) {
    struct pipe_case c;
    struct sl_train *train;
    (void)state;
    pipe_case_open(&c, pipe_model_image); /* a model with running statistics */
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    SL_TEST_OK(sl_run_train_open(&config, &train));
    struct sl_runner runner = sl_run_train_runner(train);
    const char *run = fresh_dir();
    save_late(&runner, run);
    compare_with_still(&c, run);
    sl_run_train_close(train);
    sl_tree_remove(run);
    pipe_case_close(&c);
}

static void a_pipeline_is_copied(void **state) {
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    struct sl_pipe *pipe = open_pipe(&c, &config);
    struct sl_runner runner = sl_pipe_runner(pipe);
    const char *run = fresh_dir();
    save_late(&runner, run);
    compare_with_still(&c, run);
    sl_pipe_close(pipe);
    sl_tree_remove(run);
    pipe_case_close(&c);
}

/* A step in another thread. */
struct stepping {
    const struct sl_runner *runner;
    atomic_bool ended;
};

static void *step_in_thread(void *arg) {
    struct stepping *s = arg;
    step(s->runner);
    atomic_store(&s->ended, true);
    return NULL;
}

/* Between begin and finish of a copy, a step waits before it writes weights. */
static void save_while_stepping(const struct sl_runner *runner, const char *run) {
    struct stepping s = {.runner = runner};
    struct sl_ckpt_saver *saver = open_saver(runner, NULL, run);
    struct sl_ckpt_copy *copy = sl_ckpt_saver_copy(saver);
    pthread_t thread;
    for (int i = 0; i < SAVED; i++)
        step(runner);
    struct sl_ckpt_place place = runner->row->place(runner->ctx);
    SL_TEST_OK(sl_ckpt_copy_begin(copy, &place));
    assert_int_equal(pthread_create(&thread, NULL, step_in_thread, &s), 0);
    while (!sl_ckpt_copy_waiters(copy) && !atomic_load(&s.ended))
        sched_yield();
    assert_false(atomic_load(&s.ended));
    sl_ckpt_copy_finish(copy);
    pthread_join(thread, NULL);
    assert_true(sl_ckpt_copy_waited_ns(copy) > 0);
    write_now(runner, copy, &place, run);
    for (int i = SAVED + 1; i < STEPS; i++)
        step(runner);
    place = runner->row->place(runner->ctx);
    write_now(runner, NULL, &place, run);
    sl_ckpt_saver_close(saver);
}

static void steps_wait_for_the_copy(void **state) {
    struct pipe_case c;
    struct sl_train *train;
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    const char *run = fresh_dir(), *pipe_run = fresh_dir();
    SL_TEST_OK(sl_run_train_open(&config, &train));
    struct sl_runner runner = sl_run_train_runner(train);
    save_while_stepping(&runner, run);
    compare_with_still(&c, run);
    struct sl_pipe *pipe = open_pipe(&c, &config);
    runner = sl_pipe_runner(pipe);
    save_while_stepping(&runner, pipe_run);
    compare_with_still(&c, pipe_run);
    sl_pipe_close(pipe);
    sl_run_train_close(train);
    sl_tree_remove(run);
    sl_tree_remove(pipe_run);
    pipe_case_close(&c);
}

/* The next call of the saver returns the writer's error, whichever call it is. */
static void errors_come_back(void **state) {
    struct pipe_case c;
    struct sl_train *train;
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    const char *run = fresh_dir();
    SL_TEST_OK(sl_run_train_open(&config, &train));
    struct sl_runner runner = sl_run_train_runner(train);
    for (int how = 0; how < 3; how++) {
        struct slow_files slow;
        struct sl_save_report report;
        struct sl_ckpt_place place = {.step = how};
        slow_open(&slow, true);
        struct sl_ckpt_saver *saver = open_saver(&runner, &slow, run);
        SL_TEST_OK(sl_ckpt_saver_save(saver, &place, false));
        sem_post(&slow.permit);
        place.step = 9;
        sl_err err = how == 2 ? sl_ckpt_saver_poll(saver, true, &report)
                              : sl_ckpt_saver_save(saver, &place, how == 1);
        char want[32];
        snprintf(want, sizeof want, ".tmp-step-0000000%d", how);
        assert_int_equal(err, SL_ERR_SYSTEM);
        assert_non_null(strstr(sl_err_message(), want));
        assert_non_null(strstr(sl_err_message(), strerror(ENOSPC)));
        sl_ckpt_saver_close(saver);
        sem_destroy(&slow.permit);
    }
    sl_run_train_close(train);
    sl_tree_remove(run);
    pipe_case_close(&c);
}

/* ---- sessions ---- */

struct seen {
    int saves;
    int64_t every;
};

static void on_save(void *ctx, const struct sl_save_report *report, int64_t every) {
    struct seen *seen = ctx;
    assert_true(report->stall_ns > 0 && report->write_ns > 0);
    seen->saves++;
    seen->every = every;
}

static struct seen run_session(struct pipe_case *c, const struct sl_session_config *how,
                               const char *schedule, const char *run) {
    struct seen seen = {0};
    struct sl_session_result result;
    struct sl_session_config session = *how;
    struct sl_train_config train = pipe_case_config(c, "adamw", 6, 3, STEPS);
    struct sl_pipe_config pipe = {.train = &train, .schedule = schedule};
    session.run = run;
    session.config = session.model = "{}";
    session.on_save = on_save;
    session.ctx = &seen;
    if (schedule) {
        pipe.plan = c->plan;
        pipe.stage_of = c->stage_of;
    }
    SL_TEST_OK(sl_pipe_session_run(&session, &pipe, &result));
    assert_int_equal(result.step, STEPS);
    return seen;
}

/* Every step is saved, asynchronously and synchronously, on one worker and on three: same files. */
static void sessions_save_the_same(void **state) {
    struct pipe_case c;
    static const char *const schedules[] = {NULL, "1f1b", "zb-h1"};
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    const char *still = fresh_dir();
    run_session(&c, &(struct sl_session_config){.checkpoint_every = 1, .save_stops = true}, NULL,
                still);
    for (int i = 0; i < SL_COUNT(schedules); i++) {
        struct sl_session_config how = {.checkpoint_every = 1};
        const char *run = fresh_dir();
        c.split = i == 2;
        pipe_case_cut(&c, &config, STAGES, NULL);
        struct seen seen = run_session(&c, &how, schedules[i], run);
        assert_int_equal(seen.saves, STEPS);
        for (int64_t step = 1; step <= STEPS; step++)
            assert_true(hash_of(run, step) == hash_of(still, step));
        sl_tree_remove(run);
    }
    sl_tree_remove(still);
    pipe_case_close(&c);
}

/* Automatic interval: a first save, then as the cost allows. An asynchronous pipeline is asked for
 * it a few times a second; this run is shorter. */
static void sessions_find_their_pace(void **state) {
    static const char *const schedules[] = {NULL, "1f1b", "2bw"};
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    pipe_case_cut(&c, &config, STAGES, NULL);
    for (int i = 0; i < 3; i++) {
        const char *run = fresh_dir();
        struct sl_session_config how = {.pace_ns = 1};
        struct seen seen = run_session(&c, &how, schedules[i], run);
        assert_true(seen.saves >= (i < 2 ? 2 : 1) && seen.every >= 1);
        hash_of(run, STEPS);
        sl_tree_remove(run);
    }
    pipe_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_is_copied),    cmocka_unit_test(a_pipeline_is_copied),
        cmocka_unit_test(steps_wait_for_the_copy), cmocka_unit_test(errors_come_back),
        cmocka_unit_test(sessions_save_the_same),  cmocka_unit_test(sessions_find_their_pace),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sl_arena_free(&arena);
    return failed;
}
