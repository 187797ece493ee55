/* The job of a process from its environment: 'sluice launch', srun, or none. */
#include "comm/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* Names and values in turn; ends with NULL. */
static const char **environment;

static char *lookup(const char *name) {
    for (const char **at = environment; *at; at += 2)
        if (strcmp(*at, name) == 0)
            return (char *)(uintptr_t)at[1];
    return NULL;
}

static struct sl_comm_job read_job(const char **names) {
    struct sl_comm_job job;
    environment = names;
    if (sl_comm_job_read(lookup, &job) != SL_OK)
        fail_msg("%s", sl_err_message());
    return job;
}

static void refuse(const char **names, const char *why) {
    struct sl_comm_job job;
    environment = names;
    assert_int_equal(sl_comm_job_read(lookup, &job), SL_ERR_USAGE);
    if (!strstr(sl_err_message(), why))
        fail_msg("'%s' is not in: %s", why, sl_err_message());
}

static void test_alone(void **state) {
    (void)state;
    struct sl_comm_job job = read_job((const char *[]){NULL});
    assert_int_equal(job.rank, 0);
    assert_int_equal(job.ranks, 1);
    assert_string_equal(job.meet, "");
    assert_false(sl_comm_job_is_step(lookup));
}

static void test_launch(void **state) {
    (void)state;
    struct sl_comm_job job = read_job((const char *[]){
        "SLUICE_RANK", "2", "SLUICE_RANKS", "3", "SLUICE_MEET", "a:7", "SLUICE_KEY",
        "0123456789abcdef", "SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "9", "SLURM_STEP_NODELIST",
        "other", NULL}); /* within somebody's step */
    assert_int_equal(job.rank, 2);
    assert_int_equal(job.ranks, 3);
    assert_string_equal(job.meet, "a:7");
    assert_false(job.many_hosts);
    assert_true(job.has_key && !*job.step);
    refuse((const char *[]){"SLUICE_RANK", "1", "SLUICE_RANKS", "3", NULL}, "SLUICE_MEET");
    refuse((const char *[]){"SLUICE_RANK", "3", "SLUICE_RANKS", "3", "SLUICE_MEET", "a:7", NULL},
           "not between 0 and 2");
}

static void test_step(void **state) {
    (void)state;
    static const struct {
        const char *list;
        const char *first;
    } rows[] = {
        {"node7", "node7"},    {"alpha,beta[1-3]", "alpha"},        {"n[03-05,9]", "n03"},
        {"n[3,5-9],m1", "n3"}, {"r[1-2]c[07-08]-ib,x", "r1c07-ib"}, {"10.0.0.4", "10.0.0.4"},
    };
    for (int i = 0; i < SL_COUNT(rows); i++) {
        char want[64];
        struct sl_comm_job job = read_job((const char *[]){
            "SLURM_JOB_ID", "4711", "SLURM_STEP_ID", "2", "SLURM_PROCID", "5",
            "SLURM_STEP_NUM_TASKS", "8", "SLURM_STEP_NODELIST", rows[i].list, NULL});
        snprintf(want, sizeof want, "%s:", rows[i].first);
        assert_true(sl_comm_job_is_step(lookup));
        assert_int_equal(job.rank, 5);
        assert_int_equal(job.ranks, 8);
        assert_true(job.many_hosts && !job.has_key);
        assert_string_equal(job.step, "slurm-4711.2");
        if (strncmp(job.meet, want, strlen(want)) != 0)
            fail_msg("%s: meets at %s", rows[i].list, job.meet);
    }
}

/* All tasks of a step compute the same address and no key: its numbers are public. Other steps
 * differ; both can be set. */
static void test_steps_apart(void **state) {
    (void)state;
    const char *names[] = {"SLURM_JOB_ID",
                           "4711",
                           "SLURM_STEP_ID",
                           "0",
                           "SLURM_PROCID",
                           "1",
                           "SLURM_STEP_NUM_TASKS",
                           "2",
                           "SLURM_STEP_NODELIST",
                           "n1",
                           NULL,
                           NULL,
                           NULL,
                           NULL,
                           NULL};
    struct sl_comm_job one = read_job(names);
    names[5] = "0";
    struct sl_comm_job same = read_job(names);
    names[3] = "1";
    struct sl_comm_job other = read_job(names);
    assert_string_equal(one.meet, same.meet);
    assert_true(strcmp(one.step, other.step) != 0 && !one.has_key && !other.has_key);
    names[10] = "SLUICE_MEET";
    names[11] = "n9-ib:77";
    names[12] = "SLUICE_KEY";
    names[13] = "a secret of many letters";
    struct sl_comm_job set = read_job(names);
    assert_string_equal(set.meet, "n9-ib:77");
    assert_true(set.has_key);
    names[13] = "short";
    refuse(names, "can be guessed");
}

static void test_step_refused(void **state) {
    (void)state;
    refuse((const char *[]){"SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "2", NULL},
           "names no host");
    refuse((const char *[]){"SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "2", "SLURM_STEP_NODELIST",
                            "n[1-", NULL},
           "names no host");
    refuse((const char *[]){"SLURM_PROCID", "2", "SLURM_STEP_NUM_TASKS", "2", "SLURM_STEP_NODELIST",
                            "n", NULL},
           "SLURM_PROCID");
    environment = (const char *[]){"SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "1", NULL};
    assert_false(sl_comm_job_is_step(lookup)); /* one task is a process like any other */
    environment = (const char *[]){"SLURM_PROCID", "0", "SLURM_NTASKS", "8", NULL};
    assert_false(sl_comm_job_is_step(lookup)); /* a batch script, outside of any step */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone), cmocka_unit_test(test_launch), cmocka_unit_test(test_step),
        cmocka_unit_test(test_steps_apart), cmocka_unit_test(test_step_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
