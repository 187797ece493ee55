/* Saving beside the run: the checkpoint is that of the moment it was asked for, byte for byte that
 * of a save that stops the run, however late it is written; errors come back; the pace holds. */
#include "ckpt/ckpt.h"
#include "run/session.h"
#include "support/ckpt_tree.h"
#include "support/data_files.h"
#include "support/pipe_case.h"
#include "support/pipe_models.h"

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

static struct sl_arena arena;

static const char *fresh_dir(void) { return sl_tree_make(&arena); }

static uint64_t hash_of(const char *run, int64_t step) {
    struct sl_ckpt *ckpt;
    SL_TEST_OK(sl_ckpt_open(run, step, &ckpt));
    SL_TEST_OK(sl_ckpt_verify(ckpt));
    uint64_t hash = sl_ckpt_hash(ckpt); /* of everything: names, shapes, bytes, notes */
    sl_ckpt_close(ckpt);
    return hash;
}

/* A writer that does not begin before it is told to. */
struct late {
    void *run; /* sl_train or sl_pipe */
    sl_err (*write)(void *run, const struct sl_copy *copy, const struct sl_save *save);
    sem_t may;
    bool fails;
};

static sl_err write_late(void *ctx, const struct sl_copy *copy, const struct sl_save *save) {
    struct late *late = ctx;
    sem_wait(&late->may);
    if (late->fails)
        return sl_fail(SL_ERR_SYSTEM, "no room for step %d", (int)save->place.step);
    return late->write(late->run, copy, save);
}

static struct sl_saver *open_saver(struct late *late, struct sl_copy *copy, const char *run) {
    sem_init(&late->may, 0, 0);
    return sl_ckpt_saver_open(&(struct sl_saver_config){
        .copy = copy, .ctx = late, .write = write_late, .run = run, .config = "{}", .keep = 0});
}

static void step_train(void *run) {
    struct sl_step_report report;
    SL_TEST_OK(sl_run_train_step(run, &report));
}

static void step_pipe(void *run) {
    struct sl_step_report report;
    SL_TEST_OK(sl_pipe_run(run, 1, &report));
}

static struct sl_store_place train_place(void *run) { return sl_ckpt_train_place(run); }
static struct sl_store_place pipe_place(void *run) { return sl_pipe_place(run); }

/* Save at step SAVED while the run goes on to STEPS; then save that one, and compare with saves of
 * a run that stood still. */
static void save_late(struct late *late, struct sl_copy *copy, void (*step)(void *run),
                      struct sl_store_place (*place)(void *run), const char *run) {
    struct sl_saver *saver = open_saver(late, copy, run);
    struct sl_save_report report;
    for (int i = 0; i < STEPS; i++) {
        step(late->run);
        if (i + 1 == SAVED)
            SL_TEST_OK(sl_ckpt_saver_save(saver, place(late->run), false));
        SL_TEST_OK(sl_ckpt_saver_poll(saver, false, &report));
        assert_int_equal(report.step, -1);
    }
    assert_false(sl_ckpt_exists(run));
    sem_post(&late->may);
    sem_post(&late->may);
    SL_TEST_OK(sl_ckpt_saver_save(saver, place(late->run), true));
    SL_TEST_OK(sl_ckpt_saver_poll(saver, false, &report));
    assert_int_equal(report.step, STEPS);
    sl_ckpt_saver_close(saver);
    sem_destroy(&late->may);
}

static void compare_with_still(struct pipe_case *c, const char *run) {
    struct sl_train_config config = pipe_case_config(c, "adamw", 6, 3, STEPS);
    const char *still = fresh_dir();
    struct sl_train *train;
    SL_TEST_OK(sl_run_train_open(&config, &train));
    for (int i = 0; i < STEPS; i++) {
        step_train(train);
        struct sl_save save = {.run = still, .config = "{}", .place = sl_ckpt_train_place(train)};
        if (i + 1 == SAVED || i + 1 == STEPS)
            SL_TEST_OK(sl_ckpt_train_write(train, NULL, &save));
    }
    assert_true(hash_of(run, SAVED) == hash_of(still, SAVED));
    assert_true(hash_of(run, STEPS) == hash_of(still, STEPS));
    assert_true(hash_of(run, SAVED) != hash_of(run, STEPS));
    sl_run_train_close(train);
    sl_tree_remove(still);
}

static void one_worker_is_copied(void **state) {
    struct pipe_case c;
    struct sl_train *train;
    struct sl_copy *copy;
    (void)state;
    pipe_case_open(&c, pipe_model_image); /* it has running statistics */
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    SL_TEST_OK(sl_run_train_open(&config, &train));
    SL_TEST_OK(sl_ckpt_train_open_copy(train, &copy));
    const char *run = fresh_dir();
    save_late(&(struct late){.run = train, .write = sl_ckpt_train_write}, copy, step_train,
              train_place, run);
    compare_with_still(&c, run);
    sl_run_train_close(train);
    sl_tree_remove(run);
    pipe_case_close(&c);
}

static void a_pipeline_is_copied(void **state) {
    struct pipe_case c;
    struct sl_pipe *pipe;
    struct sl_copy *copy;
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    pipe_case_cut(&c, &config, STAGES, NULL);
    struct sl_pipe_config options = {
        .train = &config, .plan = c.plan, .stage_of = c.stage_of, .schedule = "1f1b"};
    SL_TEST_OK(sl_pipe_open(&options, &pipe));
    SL_TEST_OK(sl_pipe_open_copy(pipe, &copy));
    const char *run = fresh_dir();
    save_late(&(struct late){.run = pipe, .write = sl_pipe_write}, copy, step_pipe, pipe_place,
              run);
    compare_with_still(&c, run);
    sl_pipe_close(pipe);
    sl_tree_remove(run);
    pipe_case_close(&c);
}

/* A step on its way in another thread. */
struct stepping {
    void *run;
    void (*step)(void *run);
    atomic_bool ended;
};

static void *step_beside(void *arg) {
    struct stepping *s = arg;
    s->step(s->run);
    atomic_store(&s->ended, true);
    return NULL;
}

/* What has begun to be copied stays as it is until it is copied, however early the next step comes:
 * the step waits. */
static void save_while_stepping(struct stepping *s, struct sl_copy *copy,
                                sl_err (*write)(void *, const struct sl_copy *,
                                                const struct sl_save *),
                                struct sl_store_place (*place)(void *run), const char *run) {
    pthread_t thread;
    for (int i = 0; i < SAVED; i++)
        s->step(s->run);
    struct sl_save save = {.run = run, .config = "{}", .place = place(s->run)};
    SL_TEST_OK(sl_ckpt_copy_begin(copy));
    assert_int_equal(pthread_create(&thread, NULL, step_beside, s), 0);
    while (!sl_ckpt_copy_waiters(copy) && !atomic_load(&s->ended))
        sched_yield();
    assert_false(atomic_load(&s->ended));
    sl_ckpt_copy_finish(copy);
    pthread_join(thread, NULL);
    assert_true(sl_ckpt_copy_waited_ns(copy) > 0);
    SL_TEST_OK(write(s->run, copy, &save));
    for (int i = SAVED + 1; i < STEPS; i++)
        s->step(s->run);
    save.place = place(s->run);
    SL_TEST_OK(write(s->run, NULL, &save));
}

static void steps_wait_for_the_copy(void **state) {
    struct pipe_case c;
    struct sl_train *train;
    struct sl_pipe *pipe;
    struct sl_copy *copy;
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    const char *run = fresh_dir(), *pipe_run = fresh_dir();
    SL_TEST_OK(sl_run_train_open(&config, &train));
    SL_TEST_OK(sl_ckpt_train_open_copy(train, &copy));
    save_while_stepping(&(struct stepping){.run = train, .step = step_train}, copy,
                        sl_ckpt_train_write, train_place, run);
    compare_with_still(&c, run);
    sl_ckpt_copy_close(copy);
    pipe_case_cut(&c, &config, STAGES, NULL);
    struct sl_pipe_config options = {
        .train = &config, .plan = c.plan, .stage_of = c.stage_of, .schedule = "1f1b"};
    SL_TEST_OK(sl_pipe_open(&options, &pipe));
    SL_TEST_OK(sl_pipe_open_copy(pipe, &copy));
    save_while_stepping(&(struct stepping){.run = pipe, .step = step_pipe}, copy, sl_pipe_write,
                        pipe_place, pipe_run);
    compare_with_still(&c, pipe_run);
    sl_ckpt_copy_close(copy);
    sl_pipe_close(pipe);
    sl_run_train_close(train);
    sl_tree_remove(run);
    sl_tree_remove(pipe_run);
    pipe_case_close(&c);
}

/* The error of a writer is that of the next thing asked of the saver, whatever that is. */
static void errors_come_back(void **state) {
    struct pipe_case c;
    struct sl_train *train;
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    SL_TEST_OK(sl_run_train_open(&config, &train));
    for (int how = 0; how < 3; how++) {
        struct late late = {.run = train, .write = sl_ckpt_train_write, .fails = true};
        struct sl_save_report report;
        struct sl_copy *copy;
        SL_TEST_OK(sl_ckpt_train_open_copy(train, &copy));
        struct sl_saver *saver = open_saver(&late, copy, "none");
        SL_TEST_OK(sl_ckpt_saver_save(saver, (struct sl_store_place){.step = how}, false));
        sem_post(&late.may);
        sl_err err = how == 0 ? sl_ckpt_saver_save(saver, (struct sl_store_place){.step = 9}, false)
                     : how == 1
                         ? sl_ckpt_saver_save(saver, (struct sl_store_place){.step = 9}, true)
                         : sl_ckpt_saver_poll(saver, true, &report);
        char want[32];
        snprintf(want, sizeof want, "no room for step %d", how);
        assert_int_equal(err, SL_ERR_SYSTEM);
        assert_string_equal(sl_err_message(), want);
        sl_ckpt_saver_close(saver);
        sem_destroy(&late.may);
    }
    sl_run_train_close(train);
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
                               const char *run) {
    struct seen seen = {0};
    struct sl_session_result result;
    struct sl_session_config session = *how;
    session.train = pipe_case_config(c, "adamw", 6, 3, STEPS);
    session.run = run;
    session.config = session.model = "{}";
    session.on_save = on_save;
    session.ctx = &seen;
    if (how->schedule) {
        session.plan = c->plan;
        session.stage_of = c->stage_of;
    }
    SL_TEST_OK(sl_run_session_run(&session, &result));
    assert_int_equal(result.step, STEPS);
    return seen;
}

/* Every step saved, both ways, on one worker and on three: the same files. */
static void sessions_save_the_same(void **state) {
    struct pipe_case c;
    static const char *const schedules[] = {NULL, "1f1b", "zb-h1"};
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    const char *still = fresh_dir();
    run_session(&c, &(struct sl_session_config){.checkpoint_every = 1, .save_stops = true}, still);
    for (int i = 0; i < SL_COUNT(schedules); i++) {
        struct sl_session_config how = {.checkpoint_every = 1, .schedule = schedules[i]};
        const char *run = fresh_dir();
        c.split = i == 2;
        pipe_case_cut(&c, &config, STAGES, NULL);
        struct seen seen = run_session(&c, &how, run);
        assert_int_equal(seen.saves, STEPS);
        for (int64_t step = 1; step <= STEPS; step++)
            assert_true(hash_of(run, step) == hash_of(still, step));
        sl_tree_remove(run);
    }
    sl_tree_remove(still);
    pipe_case_close(&c);
}

/* With a pace: a first save, then as its cost allows; only the last where the schedule would have
 * to drain. */
static void sessions_find_their_pace(void **state) {
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, STEPS);
    pipe_case_cut(&c, &config, STAGES, NULL);
    for (int i = 0; i < 3; i++) {
        const char *run = fresh_dir();
        struct sl_session_config how = {.pace_ns = 1,
                                        .schedule = i == 0   ? NULL
                                                    : i == 1 ? "1f1b"
                                                             : "2bw"};
        struct seen seen = run_session(&c, &how, run);
        if (i < 2)
            assert_true(seen.saves >= 2 && seen.every >= 1);
        else
            assert_true(seen.saves == 1 && seen.every == 0);
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
