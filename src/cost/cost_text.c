/* Cost text: model and device; measured overheads; one line per unit and micro-batch size.
 *
 *     sluice-cost 1
 *     measured "gpt-tiny" on "cpu" threads 1 busy 2
 *     step bandwidth 2.1e9
 *     version bandwidth 6.5e9
 *     link bandwidth 5.2e9 latency 900
 *     action 350
 *     again 910000
 *     cold f 40000 b 90000 after 5000000
 *     tempo 998000 1004000 1120000 1001000
 *     unit "00f1a2b3c4d5e6f7" micro 4 f 120311 i 130870 w 119002 spread 0.02 seen 18 "h.0.mlp"
 */
#include "cost/cost.h"

#include "base/hash.h"
#include "base/lex.h"
#include "base/vec.h"

#include <stdlib.h>

struct reader {
    struct sl_lex lex;
    struct sl_arena *arena;
    struct sl_cost draft;
    SL_VEC(struct sl_cost_row) rows;
    SL_VEC(int32_t) tempo; /* tempo of all workers, one after the other */
};

static sl_err take_word(struct reader *r, const char *word) {
    char found[64];
    if (!sl_lex_is_name(&r->lex, word))
        return sl_lex_fail(&r->lex, "expected '%s', found %s", word, sl_lex_found(&r->lex, found));
    return sl_lex_next(&r->lex);
}

static sl_err take_text(struct reader *r, const char *what, const char **out) {
    struct sl_str text;
    SL_TRY(sl_lex_take_string(&r->lex, what, &text));
    *out = sl_arena_dup(r->arena, text.at, text.length);
    return SL_OK;
}

/* Reads "word INT". */
static sl_err take_field(struct reader *r, const char *word, int64_t *out) {
    SL_TRY(take_word(r, word));
    return sl_lex_take_int(&r->lex, word, out);
}

static sl_err take_small(struct reader *r, const char *word, int *out) {
    int64_t value;
    SL_TRY(take_field(r, word, &value));
    if (value < 1 || value > 1 << 20)
        return sl_lex_fail(&r->lex, "%s is not in 1..%d", word, 1 << 20);
    *out = (int)value;
    return SL_OK;
}

static sl_err read_measured(void *reader) {
    struct reader *r = reader;
    SL_TRY(take_text(r, "the name of a model in quotes", &r->draft.model));
    SL_TRY(take_word(r, "on"));
    SL_TRY(take_text(r, "the name of a device in quotes", &r->draft.device));
    SL_TRY(take_small(r, "threads", &r->draft.threads));
    return take_small(r, "busy", &r->draft.busy);
}

static sl_err read_step(void *reader) {
    struct reader *r = reader;
    SL_TRY(take_word(r, "bandwidth"));
    return sl_lex_take_number(&r->lex, "bytes per second", &r->draft.step_bytes_per_s);
}

static sl_err read_version(void *reader) {
    struct reader *r = reader;
    SL_TRY(take_word(r, "bandwidth"));
    return sl_lex_take_number(&r->lex, "bytes per second", &r->draft.version_bytes_per_s);
}

static sl_err read_link(void *reader) {
    struct reader *r = reader;
    SL_TRY(take_word(r, "bandwidth"));
    SL_TRY(sl_lex_take_number(&r->lex, "bytes per second", &r->draft.link_bytes_per_s));
    return take_field(r, "latency", &r->draft.link_latency_ns);
}

static sl_err read_action(void *reader) {
    struct reader *r = reader;
    return sl_lex_take_int(&r->lex, "nanoseconds", &r->draft.action_ns);
}

static sl_err read_again(void *reader) {
    struct reader *r = reader;
    int64_t value;
    SL_TRY(sl_lex_take_int(&r->lex, "millionths", &value));
    if (value < 0 || value > SL_TEMPO_MAX)
        return sl_lex_fail(&r->lex, "again is in millionths, 0..%d", SL_TEMPO_MAX);
    r->draft.recompute = (int32_t)value;
    return SL_OK;
}

static sl_err read_cold(void *reader) {
    struct reader *r = reader;
    SL_TRY(take_field(r, "f", &r->draft.cold.f_ns));
    SL_TRY(take_field(r, "b", &r->draft.cold.b_ns));
    return take_field(r, "after", &r->draft.cold.after_ns);
}

/* Reads one tempo line per worker; all have the same length. */
static sl_err read_tempo(void *reader) {
    struct reader *r = reader;
    struct sl_tempo *tempo = &r->draft.tempo;
    int passes = 0;
    for (; r->lex.tok.kind == SL_TOK_INT && passes <= SL_TEMPO_PASSES; passes++) {
        int64_t value;
        SL_TRY(sl_lex_take_int(&r->lex, "millionths", &value));
        if (value < 0 || value > SL_TEMPO_MAX)
            return sl_lex_fail(&r->lex, "tempo is in millionths, 0..%d", SL_TEMPO_MAX);
        SL_PUSH(&r->tempo, (int32_t)value);
    }
    if (!passes || passes > SL_TEMPO_PASSES || (tempo->passes && passes != tempo->passes))
        return sl_lex_fail(&r->lex, "tempo has 1 to %d passes, as many for every worker",
                           SL_TEMPO_PASSES);
    if (++tempo->workers > SL_TEMPO_WORKERS)
        return sl_lex_fail(&r->lex, "tempo of more than %d workers", SL_TEMPO_WORKERS);
    tempo->passes = passes;
    return SL_OK;
}

/* Reads a unit. Its signature is sixteen hexadecimal digits in quotes, so that the lexer need not
 * know hexadecimal numbers. */
static sl_err read_unit(void *reader) {
    struct reader *r = reader;
    struct sl_cost_row row = {0};
    struct sl_str hash;
    struct sl_pos pos = r->lex.tok.pos;
    SL_TRY(sl_lex_take_string(&r->lex, "a signature in quotes", &hash));
    if (!sl_hash_parse(hash, &row.signature))
        return sl_lex_fail_at(&r->lex, pos, "a signature is sixteen hexadecimal digits");
    SL_TRY(take_field(r, "micro", &row.micro));
    SL_TRY(take_field(r, "f", &row.f));
    SL_TRY(take_field(r, "i", &row.i));
    SL_TRY(take_field(r, "w", &row.w));
    SL_TRY(take_word(r, "spread"));
    SL_TRY(sl_lex_take_number(&r->lex, "spread", &row.spread));
    SL_TRY(take_field(r, "seen", &row.seen));
    SL_TRY(take_text(r, "a name in quotes", &row.name));
    if (r->rows.count >= SL_COST_ROWS)
        return sl_lex_fail(&r->lex, "more than %d units", SL_COST_ROWS);
    SL_PUSH(&r->rows, row);
    return SL_OK;
}

static sl_err read_lines(struct reader *r) {
    static const struct sl_lex_line lines[] = {
        {"measured", read_measured}, {"step", read_step},     {"version", read_version},
        {"link", read_link},         {"action", read_action}, {"cold", read_cold},
        {"again", read_again},       {"tempo", read_tempo},   {"unit", read_unit}};
    int64_t format;
    SL_TRY(sl_lex_skip_newlines(&r->lex));
    SL_TRY(take_field(r, "sluice-cost", &format));
    if (format != 1)
        return sl_lex_fail(&r->lex, "format %lld is not known; this program reads 1",
                           (long long)format);
    SL_TRY(sl_lex_take_newline(&r->lex));
    SL_TRY(sl_lex_take_lines(&r->lex, lines, SL_COUNT(lines), r));
    char found[64];
    if (r->lex.tok.kind != SL_TOK_END)
        return sl_lex_fail(
            &r->lex,
            "expected measured, step, version, link, action, again, cold, tempo or unit, found "
            "%s",
            sl_lex_found(&r->lex, found));
    return SL_OK;
}

sl_err sl_cost_read(struct sl_arena *arena, const char *file, const char *text, size_t length,
                    const struct sl_cost **out) {
    struct reader r = {.arena = arena};
    sl_err err;
    SL_TRY_OUT(sl_lex_open(&r.lex, file, text, length, true));
    SL_TRY_OUT(read_lines(&r));
    r.draft.rows = r.rows.at;
    r.draft.row_count = (int)r.rows.count;
    r.draft.tempo.millionths = r.tempo.at;
    err = sl_cost_build(arena, &r.draft, out);
    if (err != SL_OK)
        err = sl_err_context(err, "%s", file);
out:
    SL_VEC_FREE(&r.rows);
    SL_VEC_FREE(&r.tempo);
    return err;
}

sl_err sl_cost_file(struct sl_arena *arena, const char *path, const struct sl_cost **out) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, 1 << 28, &text, &length));
    sl_err err = sl_cost_read(arena, path, text, length, out);
    free(text);
    return err;
}

static void put_tempo(const struct sl_tempo *tempo, struct sl_text *out) {
    for (int w = 0; w < tempo->workers; w++) {
        sl_text_put(out, "tempo");
        for (int k = 0; k < tempo->passes; k++)
            sl_text_printf(out, " %d", (int)sl_tempo_at(tempo, w, k));
        sl_text_put(out, "\n");
    }
}

void sl_cost_write(const struct sl_cost *c, struct sl_text *out) {
    char hash[SL_HASH_TEXT];
    sl_text_printf(out, "sluice-cost 1\nmeasured \"%s\" on \"%s\" threads %d busy %d\n", c->model,
                   c->device, c->threads, c->busy);
    sl_text_put(out, "step bandwidth ");
    sl_text_put_double(out, c->step_bytes_per_s);
    if (c->version_bytes_per_s > 0) {
        sl_text_put(out, "\nversion bandwidth ");
        sl_text_put_double(out, c->version_bytes_per_s);
    }
    sl_text_put(out, "\nlink bandwidth ");
    sl_text_put_double(out, c->link_bytes_per_s);
    sl_text_printf(out, " latency %lld\naction %lld\n", (long long)c->link_latency_ns,
                   (long long)c->action_ns);
    if (c->recompute)
        sl_text_printf(out, "again %d\n", (int)c->recompute);
    if (c->cold.after_ns > 0)
        sl_text_printf(out, "cold f %lld b %lld after %lld\n", (long long)c->cold.f_ns,
                       (long long)c->cold.b_ns, (long long)c->cold.after_ns);
    put_tempo(&c->tempo, out);
    for (int i = 0; i < c->row_count; i++) {
        const struct sl_cost_row *row = &c->rows[i];
        sl_text_printf(out, "unit \"%s\" micro %lld f %lld i %lld w %lld spread ",
                       sl_hash_text(row->signature, hash), (long long)row->micro, (long long)row->f,
                       (long long)row->i, (long long)row->w);
        sl_text_put_double(out, row->spread);
        sl_text_printf(out, " seen %lld \"%s\"\n", (long long)row->seen, row->name);
    }
}
