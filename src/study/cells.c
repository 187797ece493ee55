/* Makes the arguments of the cells of a study, and checks a study. */
#include "study/study.h"

#include "base/hash.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static bool named_twice(const struct sl_study *s, const char **what) {
    for (int i = 0; i < s->mode_count; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(s->modes[i].name, s->modes[j].name) == 0) {
                *what = s->modes[i].name;
                return true;
            }
    for (int i = 0; i < s->task_count; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(s->tasks[i].name, s->tasks[j].name) == 0) {
                *what = s->tasks[i].name;
                return true;
            }
    return false;
}

static sl_err check_modes(const struct sl_study *s) {
    for (int i = 0; i < s->mode_count; i++) {
        const struct sl_study_mode *m = &s->modes[i];
        if (m->base < 0)
            return sl_fail(SL_ERR_INPUT,
                           "mode '%s' is compared with '%s', but there is no such mode", m->name,
                           m->against);
        if (s->modes[m->base].base != m->base)
            return sl_fail(SL_ERR_INPUT,
                           "mode '%s' is compared with '%s', which itself is compared with '%s'",
                           m->name, m->against, s->modes[m->base].against);
        if (m->more && !s->modes[m->base].more)
            return sl_fail(SL_ERR_INPUT,
                           "mode '%s' has more seeds than '%s', with which it is compared", m->name,
                           m->against);
    }
    return SL_OK;
}

static sl_err check_task(const struct sl_study *s, const struct sl_study_task *t) {
    bool seen[SL_STUDY_MAX] = {0};
    if (t->stages < 1 || t->steps < 1 || t->batch < 1 || t->micro < 1 || t->evals < 1)
        return sl_fail(SL_ERR_INPUT,
                       "task '%s': stages, steps, batch, micro and evals are 1 or more", t->name);
    if (!t->rate_count || !t->mode_count)
        return sl_fail(SL_ERR_INPUT, "task '%s' needs at least one rate and one mode", t->name);
    for (int i = 0; i < t->rate_count; i++)
        if (!(t->rates[i] > 0 && t->rates[i] <= 1e6))
            return sl_fail(SL_ERR_INPUT, "task '%s': rate %g is not in 0..1e6", t->name,
                           t->rates[i]);
    for (int i = 0; i < t->mode_count; i++) {
        const struct sl_study_mode *m = &s->modes[t->modes[i]];
        if (seen[t->modes[i]])
            return sl_fail(SL_ERR_INPUT, "task '%s' has mode '%s' twice", t->name, m->name);
        seen[t->modes[i]] = true;
        if (m->split && t->batch % t->micro)
            return sl_fail(SL_ERR_INPUT,
                           "task '%s': mode '%s' splits a batch of %lld into %lld unequal parts",
                           t->name, m->name, (long long)t->batch, (long long)t->micro);
    }
    for (int i = 0; i < t->mode_count; i++)
        if (!seen[s->modes[t->modes[i]].base])
            return sl_fail(SL_ERR_INPUT, "task '%s' has mode '%s' but not '%s' to compare it with",
                           t->name, s->modes[t->modes[i]].name, s->modes[t->modes[i]].against);
    return SL_OK;
}

sl_err sl_study_check(const struct sl_study *s) {
    const char *what;
    if (!s->task_count || !s->few)
        return sl_fail(SL_ERR_INPUT, "a study needs at least one task, one mode and one seed");
    if (named_twice(s, &what))
        return sl_fail(SL_ERR_INPUT, "two modes or two tasks are called '%s'", what);
    SL_TRY(check_modes(s));
    for (int i = 0; i < s->task_count; i++)
        SL_TRY(check_task(s, &s->tasks[i]));
    for (int i = 0; i < s->seed_count; i++)
        for (int j = 0; j < i; j++)
            if (s->seeds[i] == s->seeds[j])
                return sl_fail(SL_ERR_INPUT, "seed %lld is given twice", (long long)s->seeds[i]);
    if (!(s->tune_part > 0 && s->tune_part <= 1))
        return sl_fail(SL_ERR_INPUT, "tune: part %g is not in 0..1", s->tune_part);
    if (!(s->tune_drop > 0))
        return sl_fail(SL_ERR_INPUT, "tune: drop %g percent: nothing would be left", s->tune_drop);
    if (!(s->target >= 0 && s->target <= 1000))
        return sl_fail(SL_ERR_INPUT, "target %g is not in 0..1000 percent", s->target);
    return SL_OK;
}

/* ---- arguments ---- */

static int64_t parts(const struct sl_study *s, const struct sl_study_cell *c) {
    return s->modes[c->mode].split ? s->tasks[c->task].micro : 1;
}

int64_t sl_study_steps(const struct sl_study *s, const struct sl_study_how *how,
                       const struct sl_study_cell *c) {
    double steps =
        (double)s->tasks[c->task].steps * how->part * (c->kind == SL_CELL_TUNE ? s->tune_part : 1);
    int64_t whole = c->kind == SL_CELL_TIME ? how->time_steps : (int64_t)(steps + 0.5);
    return (whole > 1 ? whole : 1) * parts(s, c);
}

int64_t sl_study_step_samples(const struct sl_study *s, const struct sl_study_cell *c) {
    return s->tasks[c->task].batch / parts(s, c);
}

struct writer {
    const struct sl_study *study;
    const struct sl_study_how *how;
    int64_t steps;
    struct sl_text line; /* words; a 0 byte follows each */
    int count;
};

static const char *find_let(const struct sl_study_let *lets, int count, struct sl_str name) {
    for (int i = 0; i < count; i++)
        if (sl_str_is(name, lets[i].name))
            return lets[i].text;
    return NULL;
}

/* Replaces {name}, {steps} or {steps/4}. Nothing is replaced inside an inserted text. */
static sl_err put_let(struct writer *w, struct sl_str name) {
    const char *text = find_let(w->how->set, w->how->set_count, name);
    if (!text)
        text = find_let(w->study->lets, w->study->let_count, name);
    if (text) {
        sl_text_put(&w->line, text);
        return SL_OK;
    }
    if (name.length >= 5 && memcmp(name.at, "steps", 5) == 0) {
        char digits[8] = "1";
        int64_t by = 0;
        if (name.length > 6 && name.length < 12 && name.at[5] == '/') {
            memcpy(digits, name.at + 6, name.length - 6);
            digits[name.length - 6] = 0;
        }
        if ((name.length == 5 || name.length > 6) && sl_parse_int(digits, "steps", &by) == SL_OK &&
            by > 0) {
            sl_text_printf(&w->line, "%lld", (long long)(w->steps / by ? w->steps / by : 1));
            return SL_OK;
        }
    }
    return sl_fail(SL_ERR_INPUT, "{%.*s} is not known; 'let %.*s \"...\"' in the study, or --set",
                   (int)name.length, name.at, (int)name.length, name.at);
}

/* Words are separated by blanks. */
static sl_err put_words(struct writer *w, const char *text) {
    while (*text) {
        text += strspn(text, " ");
        if (!*text)
            break;
        while (*text && *text != ' ') {
            size_t plain = strcspn(text, " {");
            sl_text_put_bytes(&w->line, text, plain);
            text += plain;
            if (*text != '{')
                continue;
            size_t length = strcspn(text, "} ");
            if (text[length] != '}')
                return sl_fail(SL_ERR_INPUT, "'%.40s': { without }", text);
            SL_TRY(put_let(w, (struct sl_str){text + 1, length - 1}));
            text += length + 1;
        }
        sl_text_put_bytes(&w->line, "", 1);
        w->count++;
    }
    return SL_OK;
}

static void put_int(struct writer *w, const char *option, int64_t value) {
    sl_text_printf(&w->line, "%s%c%lld", option, 0, (long long)value);
    sl_text_put_bytes(&w->line, "", 1);
    w->count += 2;
}

static sl_err put_all(struct writer *w, const struct sl_study_cell *c) {
    const struct sl_study *s = w->study;
    const struct sl_study_task *t = &s->tasks[c->task];
    int64_t max = c->kind == SL_CELL_RUN ? t->evals : c->kind == SL_CELL_TUNE ? 2 : 1;
    int64_t split = parts(s, c), every = w->steps / (t->evals < max ? t->evals : max);
    SL_TRY(put_words(w, "train"));
    SL_TRY(put_words(w, t->options));
    SL_TRY(put_words(w, s->options));
    SL_TRY(put_words(w, s->modes[c->mode].options));
    if (!t->graph)
        put_int(w, "--stages", t->stages);
    put_int(w, "--batch", t->batch / split);
    put_int(w, "--micro", split > 1 ? 1 : t->micro);
    put_int(w, "--steps", w->steps);
    put_int(w, "--eval-every", every > 1 ? every : 1);
    put_int(w, "--seed", c->seed);
    SL_TRY(put_words(w, "--lr"));
    sl_text_put_double(&w->line, c->rate / sqrt((double)split));
    sl_text_put_bytes(&w->line, "", 1);
    w->count++;
    return SL_OK;
}

sl_err sl_study_words(struct sl_arena *arena, const struct sl_study *study,
                      const struct sl_study_how *how, const struct sl_study_cell *cell,
                      const char *words[SL_STUDY_WORDS], int *count) {
    struct writer w = {.study = study, .how = how, .steps = sl_study_steps(study, how, cell)};
    sl_err err = put_all(&w, cell);
    if (err == SL_OK && w.count > SL_STUDY_WORDS)
        err = sl_fail(SL_ERR_INPUT, "more than %d words", SL_STUDY_WORDS);
    if (err == SL_OK) {
        const char *at = sl_arena_dup(arena, w.line.at, w.line.length);
        for (*count = 0; *count < w.count; at += strlen(at) + 1)
            words[(*count)++] = at;
    }
    sl_text_free(&w.line);
    return err == SL_OK ? SL_OK
                        : sl_err_context(err, "task '%s', mode '%s'", study->tasks[cell->task].name,
                                         study->modes[cell->mode].name);
}

const char *sl_study_cell_name(struct sl_arena *arena, const struct sl_study *study,
                               const struct sl_study_cell *cell, const char *const *words,
                               int count) {
    static const char *const kinds[] = {"", ".tune", ".time"};
    char hash[SL_HASH_TEXT];
    struct sl_hasher *hasher = sl_hasher_open();
    char *mode =
        sl_arena_dup(arena, study->modes[cell->mode].name, strlen(study->modes[cell->mode].name));
    for (int i = 0; i < count; i++)
        sl_hasher_add(hasher, words[i], strlen(words[i]) + 1);
    sl_hash_text(sl_hasher_value(hasher), hash);
    sl_hasher_close(hasher);
    for (char *at = mode; *at; at++)
        *at = (char)(isalnum((unsigned char)*at) ? *at : '-');
    return sl_arena_printf(arena, "%.60s.%.60s.seed%lld%s.%.8s", study->tasks[cell->task].name,
                           mode, (long long)cell->seed, kinds[cell->kind], hash);
}
