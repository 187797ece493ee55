/* Turns a cell into a job, and simulates the time of its steps. */
#include "base/vec.h"
#include "job/sim.h"
#include "study/run.h"

#include <string.h>

/* Options of 'sluice train' whose field in a job has another name. */
static const struct { const char *option, *key; } renamed[] = {{"set", "sizes"}};

static const char *key_of(struct sl_arena *arena, const char *option) {
    char *key = sl_arena_dup(arena, option, strlen(option));
    for (int i = 0; i < SL_COUNT(renamed); i++)
        if (strcmp(renamed[i].option, option) == 0)
            return renamed[i].key;
    for (char *at = key; *at; at++)
        *at = *at == '-' ? '_' : *at;
    return key;
}

/* Sets the fields that the words name: MODEL, "--option value", "--option=value", "--flag". */
static sl_err set_fields(struct sl_arena *arena, const char *const *words, int count,
                         struct sl_job *job) {
    for (int i = 1; i < count; i++) { /* words[0] is "train" */
        const char *equals = strchr(words[i], '=');
        if (strncmp(words[i], "--", 2) != 0) {
            SL_TRY(sl_job_set(job, "model", words[i]));
            continue;
        }
        size_t length = equals ? (size_t)(equals - words[i]) - 2 : strlen(words[i]) - 2;
        const char *option = sl_arena_dup(arena, words[i] + 2, length), *value = "true";
        const char *key = key_of(arena, option);
        const struct sl_job_field *field = sl_job_field_find(key);
        if (equals)
            value = equals + 1;
        else if (!field || field->kind != SL_JOB_FLAG)
            value = i + 1 < count ? words[++i] : "";
        /* "models" is a search path of the program, not of the job */
        if (strcmp(option, "models") != 0)
            SL_TRY(sl_job_set(job, key, value));
    }
    return SL_OK;
}

sl_err sl_study_job(const struct sl_study *study, const struct sl_study_how *how,
                    const struct sl_study_cell *cell, struct sl_job *out) {
    const char *words[SL_STUDY_WORDS];
    struct sl_arena arena = {0};
    int count;
    sl_err err = sl_study_words(&arena, study, how, cell, words, &count);
    if (err == SL_OK) {
        err = set_fields(&arena, words, count, out);
        if (err != SL_OK)
            err = sl_err_context(err, "task '%s', mode '%s'", study->tasks[cell->task].name,
                                 study->modes[cell->mode].name);
    }
    sl_arena_free(&arena);
    return err;
}

/* ---- simulated step times ---- */

enum { SIMULATED_STEPS = 40 };

static sl_err simulate(struct sl_arena *arena, const struct sl_study_task *task,
                       const struct sl_job *job, int64_t *step_ns) {
    struct sl_job_sim_request request = {
        .sched = {.chain = task->graph ? 0 : task->stages,
                  .dag = task->graph,
                  .schedule = *job->schedule ? job->schedule : "1f1b",
                  .policy = job->policy,
                  .costs = "F=1000,B=2000", /* durations of passes per micro-batch, in ns */
                  .micros = job->micro,
                  .iters = SIMULATED_STEPS,
                  .global_step = sl_job_is_global(job, NULL),
                  .tied = task->tied}};
    struct sl_report_sim sim;
    SL_TRY(sl_job_sim(arena, &request, &sim));
    *step_ns = sim.sim->step_ns;
    return SL_OK;
}

sl_err sl_study_step_times(const struct sl_study *study, const struct sl_study_how *how,
                           double *out) {
    for (int t = 0; t < study->task_count; t++) {
        const struct sl_study_task *task = &study->tasks[t];
        for (int i = 0; i < task->mode_count; i++) {
            struct sl_study_cell cell = {.task = t, .mode = task->modes[i], .rate = task->rates[0]};
            struct sl_arena arena = {0};
            struct sl_job job;
            int64_t step_ns;
            sl_job_init(&job);
            sl_err err = sl_study_job(study, how, &cell, &job);
            if (err == SL_OK && simulate(&arena, task, &job, &step_ns) == SL_OK)
                out[t * study->mode_count + cell.mode] =
                    (double)step_ns * (study->modes[cell.mode].split ? (double)task->micro : 1);
            sl_job_free(&job);
            sl_arena_free(&arena);
            SL_TRY(err);
        }
    }
    return SL_OK;
}
