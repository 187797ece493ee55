/* Resuming: a job takes its fields from the run, and must not change the run's results silently.
 *
 *   RUN/config.json ──> stored job ── given fields ──> merged job ──open──> resolved job
 *                           └───────────── compare field by field ─────────────┘
 *
 * Rank 0 reads the files, because other hosts may not see the directory, and shares the texts. */
#include "ckpt/ckpt.h"
#include "job/model.h"
#include "job/parts.h"
#include "job/schedule.h"
#include "plan/text.h"
#include "sched/order.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_BYTES = 1 << 20, PLAN_BYTES = 1 << 28 };

/* ---- the texts of the run ---- */

static sl_err read_text(const char *run, const char *name, int64_t limit_bytes,
                        struct sl_arena *arena, const char **out) {
    const char *path = sl_arena_printf(arena, "%s/%s", run, name);
    char *text;
    size_t length;
    *out = NULL;
    if (!sl_file_exists(path))
        return SL_OK;
    SL_TRY(sl_file_read(path, limit_bytes, &text, &length));
    *out = sl_arena_dup(arena, text, length);
    free(text);
    return SL_OK;
}

static sl_err read_run(const char *run, struct sl_arena *arena, struct sl_job_stored *out) {
    SL_TRY(sl_ckpt_exists(run, &out->has_checkpoint));
    SL_TRY(read_text(run, "config.json", CONFIG_BYTES, arena, &out->config));
    SL_TRY(read_text(run, "model.model", SL_MODEL_FILE_BYTES, arena, &out->model));
    SL_TRY(read_text(run, "plan.plan", PLAN_BYTES, arena, &out->plan));
    SL_TRY(read_text(run, "schedule.sched", PLAN_BYTES, arena, &out->sched));
    if (!out->config && out->has_checkpoint)
        return sl_fail(SL_ERR_INPUT,
                       "%s has checkpoints but no config.json, so that `resume` cannot compare the "
                       "options; restore it, or start from the weights with `init`",
                       run);
    return SL_OK;
}

static sl_err share_text(struct sl_comm *comm, struct sl_arena *arena, const char **text) {
    int64_t bytes = *text ? (int64_t)strlen(*text) + 1 : 0;
    SL_TRY(sl_comm_merge(comm, &bytes, sizeof bytes));
    if (!bytes)
        return SL_OK;
    char *copy = sl_arena_alloc(arena, bytes); /* zeroed memory */
    if (*text)
        memcpy(copy, *text, (size_t)bytes);
    SL_TRY(sl_comm_merge(comm, copy, bytes));
    *text = copy;
    return SL_OK;
}

static sl_err share_run(struct sl_comm *comm, struct sl_arena *arena, struct sl_job_stored *run) {
    SL_TRY(sl_comm_merge(comm, &run->has_checkpoint, sizeof run->has_checkpoint));
    SL_TRY(share_text(comm, arena, &run->config));
    SL_TRY(share_text(comm, arena, &run->model));
    SL_TRY(share_text(comm, arena, &run->sched));
    return share_text(comm, arena, &run->plan);
}

/* ---- the merged job ---- */

static bool gives_any(const struct sl_job *job, const char *const *keys) {
    for (; *keys; keys++)
        if (sl_job_has(job, *keys))
            return true;
    return false;
}

static void reset_all(struct sl_job *job, const char *const *keys) {
    for (; *keys; keys++)
        sl_job_reset(job, *keys);
}

/* Drops fields of the run that the given ones replace. A plan, or another cut, replaces the whole
 * layout; the run's slack may not fit another layout. */
static void drop_replaced(struct sl_job *merged, const struct sl_job *given) {
    static const char *const all[] = {"plan", "stages", "cut", NULL};
    static const char *const parts[] = {"stages", "cut", "workers", "replicas", "zero1", NULL};
    static const char *const any[] = {"plan",     "stages",          "cut",
                                      "workers",  "replicas",        "zero1",
                                      "schedule", "schedule_module", NULL};
    static const char *const rows[] = {"plan", "schedule", "schedule_module", NULL};
    if (gives_any(given, all))
        reset_all(merged, parts);
    if (gives_any(given, parts))
        sl_job_reset(merged, "plan");
    if (gives_any(given, any))
        sl_job_reset(merged, "slack");
    if (gives_any(given, rows))
        sl_job_reset(merged, "group");
    if (*given->schedule_module && !*given->schedule)
        sl_job_reset(merged, "schedule");
}

static void merge(const struct sl_job_stored *stored, const struct sl_job *given,
                  struct sl_job *out) {
    bool other_model = sl_job_has(given, "model") && strcmp(given->model, stored->job.model) != 0;
    sl_job_copy(out, &stored->job);
    drop_replaced(out, given);
    if (other_model)
        sl_job_reset(out, "sizes");
    for (const struct sl_job_field *f = sl_job_fields; f->key; f++) {
        /* the later sizes have priority */
        if (f->kind == SL_JOB_SIZES && sl_job_has(given, f->key))
            sl_job_resolve(out, f->key, given->sizes);
        else
            sl_job_take(out, given, f->key);
    }
}

sl_err sl_job_remember(struct sl_job_work *work, const struct sl_job_host *host) {
    struct sl_comm *comm = host->comm;
    struct sl_job_stored *stored = SL_NEW(&work->arena, struct sl_job_stored, 1);
    struct sl_job *given = &work->job, merged;
    const char *run = given->out;
    if (!given->resume || !*run)
        return SL_OK;
    if (!comm || comm->rank == 0)
        SL_TRY(read_run(run, &work->arena, stored));
    if (comm)
        SL_TRY(share_run(comm, &work->arena, stored));
    if (!stored->config)
        return SL_OK;
    sl_job_init(&stored->job);
    work->stored = stored; /* sl_job_close frees its job */
    SL_TRY(sl_job_read(&stored->job, sl_arena_printf(&work->arena, "%s/config.json", run),
                       stored->config, strlen(stored->config)));
    stored->use_model = stored->model && !host->graph && !host->model_text &&
                        !sl_job_has(given, "model") && !sl_job_has(given, "sizes") &&
                        !sl_job_has(given, "freeze") && !sl_job_has(given, "lora");
    merge(stored, given, &merged);
    /* a run of version 0.1.0 has its layout only in the plan */
    if (stored->plan && *merged.schedule && !*merged.plan && !merged.stages && !merged.cut)
        sl_job_resolve(&merged, "plan", "plan.plan");
    stored->use_plan = stored->plan && *merged.plan && !sl_job_has(given, "plan");
    stored->use_sched =
        stored->sched && sl_job_schedule_is_file(merged.schedule) && !sl_job_has(given, "schedule");
    sl_job_free(given);
    work->job = merged;
    return SL_OK;
}

/* ---- differences ---- */

/* Plan and schedule of the stored job. NULL: the run had one worker, or has no copy of its plan. */
struct past {
    const struct sl_plan *plan;
    const struct sl_schedule *row;
};

/* Returns the version rule; a job without a pipeline counts as synchronous. -1: the schedule is
 * unknown. */
static int rule_of(const struct sl_job *job, const struct sl_schedule *row) {
    return row ? (int)row->rule : *job->schedule ? -1 : SL_RULE_SYNC;
}

/* Does the schedule add gradients in ascending order? Rows of the registry do; a file may not, if
 * memory is short. */
static bool adds_in_order(const struct sl_plan *plan, const struct sl_schedule *row,
                          int64_t batch) {
    struct sl_arena arena = {0};
    struct sl_schedule_opts opts = {.row = row, .batch = batch};
    const struct sl_sched *sched;
    if (!plan || !sl_schedules_given_passes(row))
        return true;
    bool ordered = sl_schedules_build(&arena, plan, &opts, &sched) == SL_OK &&
                   sl_sched_order_of(sched).gradients;
    sl_arena_free(&arena);
    return ordered;
}

/* Are sums of gradients taken in the order of one worker? */
static bool is_plain(const struct sl_plan *plan, const struct sl_job *job) {
    int64_t full = sl_run_train_full_samples(job->batch, job->micro);
    for (int s = 0; plan && s < plan->stage_count; s++)
        if (plan->stages[s].width > 1 || plan->stages[s].micro_size != full)
            return false;
    return true;
}

/* Is there one norm and one decision for all stages (true), or one for each (false)? */
static bool judges_together(const struct sl_job *job, const struct sl_schedule *row) {
    return rule_of(job, row) == SL_RULE_SYNC || sl_job_is_global(job, row);
}

/* Does the other layout give the same bits? Synchronous schedules and 2bw read versions that do not
 * depend on the layout (docs/design/0001-layout-does-not-change-the-result.md). Exceptions:
 * replicas or stages with different micro-batch sizes change the order of sums, or each stage clips
 * and skips by its own norm. */
static bool layout_keeps(const struct sl_job_work *work, const struct past *past) {
    const struct sl_job *was = &work->stored->job, *now = &work->job;
    int rule = rule_of(was, past->row);
    return rule == rule_of(now, work->pipe.row) && is_plain(past->plan, was) &&
           is_plain(work->plan, now) && adds_in_order(past->plan, past->row, was->batch) &&
           adds_in_order(work->plan, work->pipe.row, now->batch) &&
           judges_together(was, past->row) && judges_together(now, work->pipe.row) &&
           (rule == SL_RULE_SYNC || (rule == SL_RULE_2BW && sl_optim_policy_is_none(now->policy)));
}

static sl_err read_past(struct sl_job_work *work, struct past *out) {
    const struct sl_job_stored *stored = work->stored;
    *out = (struct past){0};
    if (stored->plan && *stored->job.schedule)
        SL_TRY(sl_plan_read(&work->arena, "plan.plan of the run", stored->plan,
                            strlen(stored->plan), &out->plan));
    if (stored->sched && sl_job_schedule_is_file(stored->job.schedule))
        return sl_job_schedule_parse(&work->arena, "schedule.sched of the run", stored->sched,
                                     &out->row);
    if (*stored->job.schedule)
        out->row = sl_schedules_row_find(stored->job.schedule);
    return SL_OK;
}

static void add_difference(struct sl_job_work *work, const struct sl_job_field *field,
                           struct sl_job_difference difference) {
    difference.field = field;
    work->differences[work->difference_count++] = difference;
}

static const char *value_of(struct sl_job_work *work, const struct sl_job *job,
                            const struct sl_job_field *field) {
    struct sl_text text = {0};
    sl_job_write_value(job, field, &text);
    const char *out = sl_arena_dup(&work->arena, text.at, text.length);
    sl_text_free(&text);
    return out;
}

/* Does the plan differ? The content of a plan file may have changed. */
static bool has_other_plan(const struct sl_job_work *work, const struct past *past) {
    const struct sl_plan *now = work->plan;
    return past->plan && now ? !sl_plan_same_layout(past->plan, now)
                             : !now != !*work->stored->job.schedule;
}

/* Does the schedule differ? The content of its file may have changed. */
static bool has_other_sched(const struct sl_job_work *work, const struct past *past) {
    struct sl_text was = {0}, now = {0};
    if (!sl_schedules_given_passes(past->row) || !sl_schedules_given_passes(work->pipe.row))
        return false;
    struct sl_sched a = sl_schedules_given_on(past->row, work->plan);
    struct sl_sched b = sl_schedules_given_on(work->pipe.row, work->plan);
    sl_sched_write(&a, &was);
    sl_sched_write(&b, &now);
    bool other = strcmp(was.at, now.at) != 0;
    sl_text_free(&was);
    sl_text_free(&now);
    return other;
}

static void add_other_file(struct sl_job_work *work, const char *key, bool breaks) {
    add_difference(
        work, sl_job_field_find(key),
        (struct sl_job_difference){.was = "that of the run", .now = "another", .breaks = breaks});
}

/* Compares all fields. A config.json of version 0.1.0 lacks the fields of role SL_JOB_WAY; its
 * layout is only in the plan. */
static void compare_fields(struct sl_job_work *work, const struct past *past) {
    const struct sl_job *was = &work->stored->job, *now = &work->job;
    bool keeps = layout_keeps(work, past), old = !sl_job_has(was, "keep"), cut = false;
    for (const struct sl_job_field *f = sl_job_fields; f->key; f++) {
        if (f->role == SL_JOB_LOCAL || f->change == SL_JOB_GRAPH)
            continue;
        if (old && f->role == SL_JOB_WAY && !sl_job_has(was, f->key))
            continue;
        struct sl_job_difference d = {.was = value_of(work, was, f), .now = value_of(work, now, f)};
        d.breaks = f->change == SL_JOB_BREAKS || (f->change == SL_JOB_LAYOUT && !keeps);
        if (strcmp(d.was, d.now) == 0)
            continue;
        cut |= f->change == SL_JOB_LAYOUT;
        add_difference(work, f, d);
    }
    if (!cut && has_other_plan(work, past))
        add_other_file(work, "plan", !keeps);
    else if (!cut && has_other_sched(work, past))
        add_other_file(work, "schedule", !keeps);
}

static sl_err refuse_breaking(const struct sl_job_work *work) {
    struct sl_text list = {0};
    for (int i = 0; i < work->difference_count; i++) {
        const struct sl_job_difference *d = &work->differences[i];
        if (d->breaks)
            sl_text_printf(&list, "%s`%s` was %s and is %s", list.length ? ", " : "", d->field->key,
                           d->was, d->now);
    }
    if (!list.length || work->job.allow_change)
        return sl_text_free(&list), SL_OK;
    sl_err err = sl_fail(SL_ERR_REFUSED,
                         "%s would not continue with the same bits: %s. Leave that out, or set "
                         "`allow_change`",
                         work->job.out, list.at);
    sl_text_free(&list);
    return err;
}

/* ---- the graph ---- */

/* Writes the first line in which two texts differ, as "line 7 is 'X', not 'Y'". */
static void put_first_difference(const char *was, const char *now, struct sl_text *out) {
    for (int line = 1;; line++) {
        size_t a = strcspn(was, "\n"), b = strcspn(now, "\n");
        if (a != b || memcmp(was, now, a) != 0) {
            sl_text_printf(out, "line %d of model.model is '%.*s', not '%.*s'", line,
                           (int)(a < 80 ? a : 80), was, (int)(b < 80 ? b : 80), now);
            return;
        }
        was += a + (was[a] == '\n');
        now += b + (now[b] == '\n');
    }
}

/* Rewrites the stored text in the form of this version. */
static sl_err rewrite_model(const struct sl_job_work *work, struct sl_text *out) {
    struct sl_graph *graph = NULL;
    sl_err err =
        sl_job_model_read(work->stored->model, "model.model of the run", NULL, &graph, NULL);
    if (err == SL_OK)
        sl_graph_model_write(graph, out);
    sl_graph_close(graph);
    return err;
}

/* Compares two model texts without their first lines, which have name and description. */
static bool same_graph(const char *a, const char *b) {
    a += strcspn(a, "\n");
    b += strcspn(b, "\n");
    return strcmp(a, b) == 0;
}

static sl_err compare_graph(const struct sl_job_work *work) {
    struct sl_text now = {0}, was = {0}, where = {0};
    sl_err err = SL_OK;
    if (!work->stored->model || work->stored->use_model)
        return SL_OK;
    sl_graph_model_write(work->graph, &now);
    if (same_graph(now.at, work->stored->model))
        goto out;
    SL_TRY_OUT(rewrite_model(work, &was));
    if (same_graph(now.at, was.at))
        goto out;
    put_first_difference(was.at, now.at, &where);
    err = sl_fail(SL_ERR_INPUT,
                  "%s was trained with another model: %s; resume with the model and sizes of the "
                  "run, or start from its weights with `init`",
                  work->job.out, where.at);
out:
    sl_text_free(&now);
    sl_text_free(&was);
    sl_text_free(&where);
    return err;
}

sl_err sl_job_compare_stored(struct sl_job_work *work) {
    struct past past;
    int fields = 1;
    if (!work->stored || !work->stored->has_checkpoint)
        return SL_OK;
    SL_TRY(compare_graph(work));
    SL_TRY(read_past(work, &past));
    for (const struct sl_job_field *f = sl_job_fields; f->key; f++)
        fields++;
    work->differences = SL_NEW(&work->arena, struct sl_job_difference, fields);
    compare_fields(work, &past);
    return refuse_breaking(work);
}
