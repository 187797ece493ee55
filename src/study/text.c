/* Study text: one statement per line; modes come before the tasks that name them.
 *
 *     sluice-study 1
 *     study asynchrony "what a delay costs"
 *     let adamw "adamw:beta2=0.99"
 *     train "--clip 0 --lr-schedule cosine:warmup={steps/10}"
 *     seeds 1 2 3 more 4 5 6
 *     tune seed 101 102 part 0.5 drop 3
 *     target 3
 *     mode "1f1b" "--schedule 1f1b --optimizer {adamw}" more
 *     mode "2bw" "--schedule 2bw --optimizer {adamw}" against "1f1b" more
 *     mode "vanilla" "--schedule async --optimizer {adamw}" against "1f1b" split
 *     task gpt "gpt-tiny --data x.txt" stages 8 steps 900 batch 16 micro 8 evals 9 rates 0.001 0.002
 *     task mnist "two-branch.model" stages 4 graph "a>b,a>c,b>d,c>d" steps ... modes "1f1b" "2bw"
 *     claim gpt "2bw" within 0.5 "PipeDream-2BW: the same loss"
 *     note "equal tokens, equal data order"
 */
#include "study/study.h"

#include "base/lex.h"
#include "base/vec.h"

#include <math.h>
#include <string.h>

struct reader {
    struct sl_lex lex;
    struct sl_arena *arena;
    struct sl_study draft;
    int64_t seeds[SL_STUDY_MAX], tune_seeds[SL_STUDY_MAX];
    SL_VEC(struct sl_study_let) lets;
    SL_VEC(struct sl_study_mode) modes;
    SL_VEC(struct sl_study_task) tasks;
    SL_VEC(struct sl_study_claim) claims;
    SL_VEC(const char *) notes;
};

static sl_err take_name(struct reader *r, const char *what, const char **out) {
    struct sl_str name;
    SL_TRY(sl_lex_take_name(&r->lex, what, &name));
    *out = sl_arena_dup(r->arena, name.at, name.length);
    return SL_OK;
}

static sl_err take_string(struct reader *r, const char *what, const char **out) {
    struct sl_pos pos = r->lex.tok.pos;
    struct sl_str text;
    SL_TRY(sl_lex_take_string(&r->lex, what, &text));
    for (size_t i = 0; i < text.length; i++)
        if (text.at[i] == '\\' || (unsigned char)text.at[i] < ' ')
            return sl_lex_fail_at(&r->lex, pos, "%s has an invalid character", what);
    *out = sl_arena_dup(r->arena, text.at, text.length);
    return SL_OK;
}

/* Skips the word if it is the next token; *there says whether it was. */
static sl_err take_word(struct reader *r, const char *word, bool *there) {
    *there = sl_lex_is_name(&r->lex, word);
    return *there ? sl_lex_next(&r->lex) : SL_OK;
}

static sl_err demand_word(struct reader *r, const char *word) {
    char found[64];
    bool there;
    SL_TRY(take_word(r, word, &there));
    return there ? SL_OK
                 : sl_lex_fail(&r->lex, "expected '%s', found %s", word,
                               sl_lex_found(&r->lex, found));
}

static sl_err take_count(struct reader *r, const char *word, int64_t high, int64_t *out) {
    SL_TRY(demand_word(r, word));
    struct sl_pos pos = r->lex.tok.pos;
    SL_TRY(sl_lex_take_int(&r->lex, word, out));
    if (*out < 0 || *out > high)
        return sl_lex_fail_at(&r->lex, pos, "%s %lld is not in 0..%lld", word, (long long)*out,
                              (long long)high);
    return SL_OK;
}

static sl_err full(struct reader *r, int64_t count, const char *what) {
    return count < SL_STUDY_MAX ? SL_OK
                                : sl_lex_fail(&r->lex, "more than %d %s", SL_STUDY_MAX, what);
}

static sl_err read_study(void *reader) {
    struct reader *r = reader;
    SL_TRY(take_name(r, "the name of the study", &r->draft.name));
    return take_string(r, "a description in quotes", &r->draft.brief);
}

static sl_err read_let(void *reader) {
    struct reader *r = reader;
    struct sl_study_let let;
    SL_TRY(full(r, r->lets.count, "let lines"));
    SL_TRY(take_name(r, "a name", &let.name));
    SL_TRY(take_string(r, "a text in quotes", &let.text));
    SL_PUSH(&r->lets, let);
    return SL_OK;
}

static sl_err read_train(void *reader) {
    struct reader *r = reader;
    return take_string(r, "options in quotes", &r->draft.options);
}

static sl_err take_seeds(struct reader *r, int64_t *seeds, int *count) {
    while (r->lex.tok.kind == SL_TOK_INT) {
        SL_TRY(full(r, *count, "seeds"));
        seeds[(*count)++] = r->lex.tok.integer;
        SL_TRY(sl_lex_next(&r->lex));
    }
    return SL_OK;
}

static sl_err read_seeds(void *reader) {
    struct reader *r = reader;
    bool there;
    SL_TRY(take_seeds(r, r->seeds, &r->draft.seed_count));
    r->draft.few = r->draft.seed_count;
    SL_TRY(take_word(r, "more", &there));
    return there ? take_seeds(r, r->seeds, &r->draft.seed_count) : SL_OK;
}

static sl_err read_tune(void *reader) {
    struct reader *r = reader;
    SL_TRY(demand_word(r, "seed"));
    SL_TRY(take_seeds(r, r->tune_seeds, &r->draft.tune_seed_count));
    SL_TRY(demand_word(r, "part"));
    SL_TRY(sl_lex_take_number(&r->lex, "part of the steps", &r->draft.tune_part));
    bool there;
    SL_TRY(take_word(r, "drop", &there));
    return there ? sl_lex_take_number(&r->lex, "percent", &r->draft.tune_drop) : SL_OK;
}

static sl_err read_target(void *reader) {
    struct reader *r = reader;
    return sl_lex_take_number(&r->lex, "percent", &r->draft.target);
}

static sl_err read_mode(void *reader) {
    struct reader *r = reader;
    struct sl_study_mode mode;
    bool there;
    SL_TRY(full(r, r->modes.count, "modes"));
    SL_TRY(take_string(r, "the name of a mode in quotes", &mode.name));
    SL_TRY(take_string(r, "options in quotes", &mode.options));
    mode.against = mode.name;
    SL_TRY(take_word(r, "against", &there));
    if (there)
        SL_TRY(take_string(r, "the mode to compare with, in quotes", &mode.against));
    SL_TRY(take_word(r, "split", &mode.split));
    SL_TRY(take_word(r, "more", &mode.more));
    mode.base = -1;
    SL_PUSH(&r->modes, mode);
    return SL_OK;
}

static sl_err find_mode(struct reader *r, int *out) {
    struct sl_pos pos = r->lex.tok.pos;
    const char *name;
    SL_TRY(take_string(r, "the name of a mode in quotes", &name));
    for (*out = 0; *out < r->modes.count; ++*out)
        if (strcmp(r->modes.at[*out].name, name) == 0)
            return SL_OK;
    return sl_lex_fail_at(&r->lex, pos, "no mode is called '%s'", name);
}

/* Reads the rates, then the modes: those named, or all modes above. */
static sl_err take_lists(struct reader *r, struct sl_study_task *task) {
    double rates[SL_STUDY_MAX];
    int modes[SL_STUDY_MAX];
    bool there;
    SL_TRY(demand_word(r, "rates"));
    while (r->lex.tok.kind == SL_TOK_INT || r->lex.tok.kind == SL_TOK_FLOAT) {
        SL_TRY(full(r, task->rate_count, "rates"));
        SL_TRY(sl_lex_take_number(&r->lex, "a rate", &rates[task->rate_count++]));
    }
    task->rates = sl_vec_freeze(r->arena, rates, task->rate_count, sizeof *rates);
    SL_TRY(take_word(r, "modes", &there));
    if (!there)
        for (; task->mode_count < r->modes.count; task->mode_count++)
            modes[task->mode_count] = task->mode_count;
    while (there && r->lex.tok.kind == SL_TOK_STRING) {
        SL_TRY(full(r, task->mode_count, "modes"));
        SL_TRY(find_mode(r, &modes[task->mode_count++]));
    }
    task->modes = sl_vec_freeze(r->arena, modes, task->mode_count, sizeof *modes);
    return SL_OK;
}

static sl_err read_task(void *reader) {
    struct reader *r = reader;
    struct sl_study_task task = {0};
    int64_t stages;
    bool there;
    SL_TRY(full(r, r->tasks.count, "tasks"));
    SL_TRY(take_name(r, "the name of a task", &task.name));
    SL_TRY(take_string(r, "model and options in quotes", &task.options));
    SL_TRY(take_count(r, "stages", 4096, &stages));
    task.stages = (int)stages;
    SL_TRY(take_word(r, "graph", &there));
    if (there)
        SL_TRY(take_string(r, "edges in quotes", &task.graph));
    SL_TRY(take_word(r, "tied", &task.tied));
    SL_TRY(take_count(r, "steps", 1000000000, &task.steps));
    SL_TRY(take_count(r, "batch", 1000000000, &task.batch));
    SL_TRY(take_count(r, "micro", 1000000, &task.micro));
    SL_TRY(take_count(r, "evals", 1000000, &task.evals));
    SL_TRY(take_lists(r, &task));
    SL_PUSH(&r->tasks, task);
    return SL_OK;
}

static sl_err read_claim(void *reader) {
    struct reader *r = reader;
    struct sl_study_claim claim;
    struct sl_pos pos = r->lex.tok.pos;
    const char *name;
    SL_TRY(full(r, r->claims.count, "claims"));
    SL_TRY(take_name(r, "the name of a task", &name));
    for (claim.task = 0; claim.task < r->tasks.count; claim.task++)
        if (strcmp(r->tasks.at[claim.task].name, name) == 0)
            break;
    if (claim.task == r->tasks.count)
        return sl_lex_fail_at(&r->lex, pos, "no task is called '%s'", name);
    SL_TRY(find_mode(r, &claim.mode));
    SL_TRY(demand_word(r, "within"));
    SL_TRY(sl_lex_take_number(&r->lex, "percent", &claim.within));
    SL_TRY(take_string(r, "the claim in quotes", &claim.text));
    SL_PUSH(&r->claims, claim);
    return SL_OK;
}

static sl_err read_note(void *reader) {
    struct reader *r = reader;
    const char *note;
    SL_TRY(full(r, r->notes.count, "notes"));
    SL_TRY(take_string(r, "a note in quotes", &note));
    SL_PUSH(&r->notes, note);
    return SL_OK;
}

static sl_err read_all(struct reader *r) {
    static const struct sl_lex_line lines[] = {{"study", read_study}, {"let", read_let},
                                               {"train", read_train}, {"seeds", read_seeds},
                                               {"tune", read_tune},   {"target", read_target},
                                               {"mode", read_mode},   {"task", read_task},
                                               {"claim", read_claim}, {"note", read_note}};
    int64_t version;
    char found[64];
    SL_TRY(sl_lex_skip_newlines(&r->lex));
    SL_TRY(demand_word(r, "sluice-study"));
    SL_TRY(sl_lex_take_int(&r->lex, "the version of the format", &version));
    if (version != 1)
        return sl_lex_fail(&r->lex, "format %lld is not known; this program reads 1",
                           (long long)version);
    SL_TRY(sl_lex_take_newline(&r->lex));
    SL_TRY(sl_lex_take_lines(&r->lex, lines, SL_COUNT(lines), r));
    if (r->lex.tok.kind != SL_TOK_END)
        return sl_lex_fail(&r->lex,
                           "expected study, let, train, seeds, tune, target, mode, task, claim or "
                           "note, found %s",
                           sl_lex_found(&r->lex, found));
    return SL_OK;
}

static const struct sl_study *freeze(struct reader *r) {
    struct sl_study *s = SL_NEW(r->arena, struct sl_study, 1);
    *s = r->draft;
    for (int i = 0; i < r->modes.count; i++)
        for (int j = 0; j < r->modes.count; j++)
            if (strcmp(r->modes.at[i].against, r->modes.at[j].name) == 0)
                r->modes.at[i].base = j;
    s->seeds = sl_vec_freeze(r->arena, r->seeds, s->seed_count, sizeof *s->seeds);
    s->tune_seeds = sl_vec_freeze(r->arena, r->tune_seeds, s->tune_seed_count, sizeof *s->seeds);
    s->lets = SL_VEC_FREEZE(&r->lets, r->arena);
    s->modes = SL_VEC_FREEZE(&r->modes, r->arena);
    s->tasks = SL_VEC_FREEZE(&r->tasks, r->arena);
    s->claims = SL_VEC_FREEZE(&r->claims, r->arena);
    s->notes = SL_VEC_FREEZE(&r->notes, r->arena);
    s->let_count = (int)r->lets.count;
    s->mode_count = (int)r->modes.count;
    s->task_count = (int)r->tasks.count;
    s->claim_count = (int)r->claims.count;
    s->note_count = (int)r->notes.count;
    return s;
}

sl_err sl_study_read(struct sl_arena *arena, const char *file, const char *text, size_t length,
                     const struct sl_study **out) {
    struct reader r = {.arena = arena,
                       .draft = {.name = "",
                                 .brief = "",
                                 .options = "",
                                 .target = 3,
                                 .tune_part = 1,
                                 .tune_drop = (double)INFINITY}};
    sl_err err = sl_lex_open(&r.lex, file, text, length, true);
    if (err == SL_OK)
        err = read_all(&r);
    if (err == SL_OK) {
        const struct sl_study *study = freeze(&r);
        err = sl_study_check(study);
        if (err != SL_OK)
            err = sl_err_context(err, "%s", file);
        *out = study;
    }
    SL_VEC_FREE(&r.lets);
    SL_VEC_FREE(&r.modes);
    SL_VEC_FREE(&r.tasks);
    SL_VEC_FREE(&r.claims);
    SL_VEC_FREE(&r.notes);
    return err;
}

/* ---- writing ---- */

static void put_task(const struct sl_study *s, const struct sl_study_task *t, struct sl_text *out) {
    sl_text_printf(out, "task %s \"%s\" stages %d", t->name, t->options, t->stages);
    if (t->graph)
        sl_text_printf(out, " graph \"%s\"", t->graph);
    if (t->tied)
        sl_text_put(out, " tied");
    sl_text_printf(out, " steps %lld batch %lld micro %lld evals %lld rates", (long long)t->steps,
                   (long long)t->batch, (long long)t->micro, (long long)t->evals);
    for (int i = 0; i < t->rate_count; i++) {
        sl_text_put(out, " ");
        sl_text_put_double(out, t->rates[i]);
    }
    sl_text_put(out, " modes");
    for (int i = 0; i < t->mode_count; i++)
        sl_text_printf(out, " \"%s\"", s->modes[t->modes[i]].name);
    sl_text_put(out, "\n");
}

static void put_number(struct sl_text *out, const char *word, double value) {
    sl_text_printf(out, "%s ", word);
    sl_text_put_double(out, value);
}

void sl_study_write(const struct sl_study *s, struct sl_text *out) {
    sl_text_put(out, "sluice-study 1\n");
    if (s->name[0])
        sl_text_printf(out, "study %s \"%s\"\n", s->name, s->brief);
    for (int i = 0; i < s->let_count; i++)
        sl_text_printf(out, "let %s \"%s\"\n", s->lets[i].name, s->lets[i].text);
    sl_text_printf(out, "train \"%s\"\nseeds", s->options);
    for (int i = 0; i < s->seed_count; i++)
        sl_text_printf(out, "%s %lld", i == s->few ? " more" : "", (long long)s->seeds[i]);
    sl_text_put(out, "\n");
    if (s->tune_seed_count) {
        sl_text_put(out, "tune seed");
        for (int i = 0; i < s->tune_seed_count; i++)
            sl_text_printf(out, " %lld", (long long)s->tune_seeds[i]);
        put_number(out, " part", s->tune_part);
        if (isfinite(s->tune_drop))
            put_number(out, " drop", s->tune_drop);
        sl_text_put(out, "\n");
    }
    put_number(out, "target", s->target);
    sl_text_put(out, "\n");
    for (int i = 0; i < s->mode_count; i++) {
        const struct sl_study_mode *m = &s->modes[i];
        sl_text_printf(out, "mode \"%s\" \"%s\"", m->name, m->options);
        if (m->base != i)
            sl_text_printf(out, " against \"%s\"", m->against);
        sl_text_printf(out, "%s%s\n", m->split ? " split" : "", m->more ? " more" : "");
    }
    for (int i = 0; i < s->task_count; i++)
        put_task(s, &s->tasks[i], out);
    for (int i = 0; i < s->claim_count; i++) {
        const struct sl_study_claim *c = &s->claims[i];
        sl_text_printf(out, "claim %s \"%s\"", s->tasks[c->task].name, s->modes[c->mode].name);
        put_number(out, " within", c->within);
        sl_text_printf(out, " \"%s\"\n", c->text);
    }
    for (int i = 0; i < s->note_count; i++)
        sl_text_printf(out, "note \"%s\"\n", s->notes[i]);
}

sl_err sl_study_read_file(struct sl_arena *arena, const char *path, const struct sl_study **out) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, 1 << 24, &text, &length));
    sl_err err = sl_study_read(arena, path, text, length, out);
    free(text);
    return err;
}
