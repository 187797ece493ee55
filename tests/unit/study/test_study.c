/* Studies: text round trip, refusals, the arguments of cells, statistics against hand-computed
 * values, results of claims, names that cannot become markup. */
#include "study/study.h"
#include "support/texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char good[] =
    "sluice-study 1\n"
    "study delays \"what a delay costs\"\n"
    "let adamw \"adamw:beta2=0.99\"\n"
    "train \"--clip 0 --lr-schedule cosine:warmup={steps/10}\"\n"
    "seeds 1 2 more 3\n"
    "tune seed 101 102 part 0.5 drop 25\n"
    "target 3\n"
    "mode \"1f1b\" \"--schedule 1f1b --optimizer {adamw}\" more\n"
    "mode \"2bw\" \"--schedule 2bw --optimizer {adamw}\" against \"1f1b\" more\n"
    "mode \"vanilla\" \"--schedule async\" against \"1f1b\" split\n"
    "task gpt \"gpt-nano --data {data}/x.txt\" stages 3 steps 70 batch 12 micro 4 evals 5 rates "
    "0.001 0.002 modes \"1f1b\" \"2bw\" \"vanilla\"\n"
    "task two \"two-branch\" stages 4 graph \"a>b,a>c,b>d,c>d\" tied steps 31 batch 7 micro 7 "
    "evals 3 "
    "rates 0.01 modes \"1f1b\"\n"
    "claim gpt \"2bw\" within 0.5 \"somebody: the same loss\"\n"
    "note \"equal tokens\"\n";

static sl_err read_text(struct sl_arena *arena, const char *text, const struct sl_study **out) {
    return sl_study_read(arena, "t", text, strlen(text), out);
}

static void round_trip(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_study *s;
    assert_int_equal(read_text(&arena, good, &s), SL_OK);
    sl_study_write(s, &text);
    assert_string_equal(text.at, good);
    assert_int_equal(s->modes[2].base, 0);
    assert_true(s->modes[2].split && !s->modes[2].more && s->modes[1].more);
    assert_true(s->few == 2 && s->seed_count == 3);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static sl_err reads(struct sl_arena *arena, const char *text) {
    const struct sl_study *out;
    return read_text(arena, text, &out);
}

static void sabotage(void **state) {
    (void)state;
    static const struct sabotage rows[] = {
        {"sluice-study 1", "sluice-study 2", "format 2 is not known"},
        {"seeds 1 2", "seeds", "and one seed"},
        {"more 3", "more 1", "seed 1 is given twice"},
        {"seeds 1", "seed 1", "expected study, let"},
        {"{adamw}\" more", "{adamw}\"", "'2bw' has more seeds than '1f1b'"},
        {"part 0.5", "part 0", "part 0 is not in"},
        {"part 0.5", "part 1.5", "part 1.5 is not in"},
        {"drop 25", "drop 0", "drop 0 percent: nothing would be left"},
        {"drop 25", "drop -1", "drop -1 percent"},
        {"drop 25", "drop", "percent"},
        {"drop 25", "leave 25", "leave"},
        {"target 3", "target 3000", "target 3000 is not in"},
        {"against \"1f1b\" split", "against \"gpipe\" split", "there is no such mode"},
        {"against \"1f1b\" split", "against \"2bw\" split", "itself is compared with '1f1b'"},
        {"claim gpt", "mode \"1f1b\" \"\"\nclaim gpt", "tasks are called '1f1b'"},
        {"task two", "task gpt", "tasks are called 'gpt'"},
        {"rates 0.01", "rates", "needs at least one rate"},
        {"rates 0.01", "rates 0", "rate 0 is not in"},
        {"steps 31", "steps 0", "are 1 or more"},
        {"micro 7", "micro 0", "are 1 or more"},
        {"batch 12", "batch 13", "unequal parts"},
        {"modes \"1f1b\"\n", "modes \"1f1\"\n", "no mode is called '1f1'"},
        {"modes \"1f1b\"\n", "modes \"2bw\"\n", "not '1f1b' to compare it with"},
        {"modes \"1f1b\"\n", "modes \"1f1b\" \"1f1b\"\n", "mode '1f1b' twice"},
        {"claim gpt", "claim gtp", "no task is called 'gtp'"},
        {"claim gpt \"2bw\"", "claim gpt \"3bw\"", "no mode is called '3bw'"},
        {"\"equal tokens\"", "\"equal \\\" tokens\"", "invalid character"},
        {"evals 5", "steps 5", "expected 'evals'"},
    };
    sabotage_text(good, rows, SL_COUNT(rows), reads);
}

static void join(const char *const *words, int count, char *out, size_t room) {
    size_t used = 0;
    *out = 0;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? " " : "", words[i]);
}

static void cells(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    const struct sl_study *s;
    const char *words[SL_STUDY_WORDS], *names[3];
    const struct sl_study_let set = {"data", "/d"};
    struct sl_study_how how = {.part = 1, .set = &set, .set_count = 1};
    char text[1024];
    int count;
    assert_int_equal(read_text(&arena, good, &s), SL_OK);
    struct sl_study_cell cell = {.mode = 1, .seed = 2, .rate = 0.002};
    assert_int_equal(sl_study_words(&arena, s, &how, &cell, words, &count), SL_OK);
    join(words, count, text, sizeof text);
    assert_string_equal(text,
                        "train gpt-nano --data /d/x.txt --clip 0 --lr-schedule cosine:warmup=7 "
                        "--schedule 2bw --optimizer adamw:beta2=0.99 --stages 3 --batch 12 --micro "
                        "4 --steps 70 --eval-every 14 --seed 2 --lr 0.002");
    names[0] = sl_study_cell_name(&arena, s, &cell, words, count);
    /* a step after every micro-batch: four times as many, a quarter as large, half the rate */
    cell.mode = 2;
    cell.kind = SL_CELL_TUNE;
    assert_int_equal(sl_study_words(&arena, s, &how, &cell, words, &count), SL_OK);
    join(words, count, text, sizeof text);
    assert_string_equal(text, "train gpt-nano --data /d/x.txt --clip 0 --lr-schedule "
                              "cosine:warmup=14 --schedule async --stages 3 --batch 3 --micro 1 "
                              "--steps 140 --eval-every 70 --seed 2 --lr 0.001");
    assert_int_equal(sl_study_step_samples(s, &cell), 3);
    names[1] = sl_study_cell_name(&arena, s, &cell, words, count);
    how.part = 0.5;
    assert_int_equal(sl_study_words(&arena, s, &how, &cell, words, &count), SL_OK);
    names[2] = sl_study_cell_name(&arena, s, &cell, words, count);
    assert_memory_equal(names[1], "gpt.vanilla.seed2.tune.", 23);
    assert_string_not_equal(names[0], names[1]);
    assert_string_not_equal(names[1], names[2]);
    cell.kind = SL_CELL_TIME; /* steps of the task, one evaluation at the end */
    how.time_steps = 25;
    assert_int_equal(sl_study_words(&arena, s, &how, &cell, words, &count), SL_OK);
    join(words, count, text, sizeof text);
    assert_non_null(strstr(text, "--steps 100 --eval-every 100 "));
    how.set_count = 0; /* {data} has no value */
    assert_int_equal(sl_study_words(&arena, s, &how, &cell, words, &count), SL_ERR_INPUT);
    assert_non_null(strstr(sl_err_message(), "{data} is not known"));
    sl_arena_free(&arena);
}

static void intervals(void **state) {
    (void)state;
    const double three[] = {1, 2, 6};
    struct sl_interval i = sl_study_interval_of(three, 3);
    assert_true(i.mean == 3);
    /* sd = sqrt((4 + 1 + 9) / 2) = sqrt(7), times 4.303 / sqrt(3) */
    assert_true(fabs(i.half - 4.303 * sqrt(7.0 / 3.0)) < 1e-12);
    i = sl_study_interval_of(three, 1);
    assert_true(i.mean == 1 && isinf(i.half));
}

/* Losses of a run: at steps 10, 20, ... of its own. */
static const struct sl_record *record(struct sl_arena *arena, int64_t every, const double *losses,
                                      int count) {
    struct sl_record *r = SL_NEW(arena, struct sl_record, 1);
    struct sl_record_eval *evals = SL_NEW(arena, struct sl_record_eval, count);
    for (int i = 0; i < count; i++)
        evals[i] = (struct sl_record_eval){.step = every * (i + 1), .loss = losses[i]};
    r->evals = evals;
    r->eval_count = count;
    return r;
}

/* Twenty steps, the first two very slow. */
static struct sl_study_cell timed_cell(struct sl_arena *arena, int mode, int64_t samples,
                                       double ms) {
    struct sl_record *r = SL_NEW(arena, struct sl_record, 1);
    *r = *record(arena, 20, (const double[]){1}, 1);
    struct sl_record_step *steps = SL_NEW(arena, struct sl_record_step, 20);
    for (int i = 0; i < 20; i++)
        steps[i] = (struct sl_record_step){
            .step = i + 1, .samples = samples, .ms = i < 2 ? 1000 * ms : ms};
    r->steps = steps;
    r->step_count = 20;
    return (struct sl_study_cell){.kind = SL_CELL_TIME, .mode = mode, .seed = 1, .record = r};
}

static void rows(void **state) {
    (void)state;
    static const double sync[][3] = {{4, 3, 2}, {4, 3, 4}},
                        late[][3] = {{4, 2.5, 2.2}, {4, 3, 4.8}};
    static const double quarter[][3] = {{3, 2, 1}, {5, 4, 3}};
    struct sl_arena arena = {0};
    const struct sl_study *s;
    const struct sl_study_row *r;
    struct sl_study_table table;
    assert_int_equal(read_text(&arena, good, &s), SL_OK);
    double times[2 * 3] = {30, 20, 10};
    struct sl_study_cell c[6];
    for (int i = 0; i < 6; i++) {
        const double *losses = i < 2 ? sync[i] : i < 4 ? late[i - 2] : quarter[i - 4];
        c[i] = (struct sl_study_cell){.mode = i / 2,
                                      .seed = 1 + i % 2,
                                      .rate = 0.001,
                                      .record = record(&arena, i < 4 ? 10 : 40, losses, 3)};
    }
    table = sl_study_table_build(&arena, s, c, 6, times);
    r = table.rows;
    assert_int_equal(table.count, 3);
    assert_true(r[0].last == 3 && r[0].best == 2.5 && r[0].seeds == 2);
    assert_true(r[0].last_diff.mean == 0 && r[0].last_diff.half == 0);
    /* +10 % and +20 %: 15 +- 12.706 * 7.071 / sqrt(2) */
    assert_true(fabs(r[1].last_diff.mean - 15) < 1e-9);
    assert_true(fabs(r[1].last_diff.half - 12.706 * 5) < 1e-9);
    assert_true(fabs(r[1].best_diff.mean - 5) < 1e-9); /* 2.2 to 2, 3 to 3 */
    /* target 3.09: sync after 10 + 10 * 0.91 steps twice; late 10 + 10 * 0.91/1.5 and 10 + 9.1 */
    assert_true(fabs(r[0].target - 3.09) < 1e-12);
    assert_true(fabs(r[0].reached - 19.1) < 1e-9);
    assert_true(fabs(r[1].reached - (10 + 9.1 / 1.5 + 19.1) / 2) < 1e-9);
    assert_true(fabs(r[0].sooner - 1) < 1e-12);
    assert_true(fabs(r[1].sooner - 19.1 * 30 / (r[1].reached * 20)) < 1e-9);
    /* 40 steps of a split mode are 10 of the task: reached at 10, and 20 + 10 * 0.91 */
    assert_true(fabs(r[2].reached - (10 + 29.1) / 2) < 1e-9);
    /* measured: 10 samples in 2 ms without the first tenth, of batches of 12; 3 in 0.5 ms */
    assert_true(!table.timed && isnan(r[1].step_ms) && isnan(r[1].sooner_measured));
    struct sl_study_cell more[9];
    memcpy(more, c, sizeof c);
    more[6] = timed_cell(&arena, 0, 10, 2);
    more[7] = timed_cell(&arena, 1, 3, 0.5);
    more[8] = timed_cell(&arena, 1, 3, 5); /* a disturbed run */
    more[8].seed = 2;
    table = sl_study_table_build(&arena, s, more, 9, times);
    r = table.rows;
    assert_true(table.timed && fabs(r[0].step_ms - 2.4) < 1e-9 && fabs(r[1].step_ms - 2) < 1e-9);
    assert_true(fabs(r[1].sooner_measured - 19.1 * 2.4 / (r[1].reached * 2)) < 1e-9);
    assert_true(r[1].seeds == 2 && isnan(r[2].sooner_measured));
    /* two modes have a third seed; a mode with two seeds is compared on the common two */
    memcpy(more, c, sizeof c);
    for (int i = 6; i < 8; i++)
        more[i] = (struct sl_study_cell){
            .mode = i - 6, .seed = 3, .record = record(&arena, 10, (const double[]){9, 8, 6}, 3)};
    table = sl_study_table_build(&arena, s, more, 8, times);
    r = table.rows;
    assert_true(r[0].seeds == 3 && r[0].last == 4 && r[1].seeds == 3 && r[2].seeds == 2);
    assert_true(fabs(r[1].last_diff.mean - 10) < 1e-9 && fabs(r[1].target - 4.12) < 1e-12);
    assert_true(fabs(r[2].target - 3.09) < 1e-12 && fabs(r[2].reached - (10 + 29.1) / 2) < 1e-9);
    assert_true(fabs(r[2].sooner - 19.1 * 30 / (r[2].reached * 10)) < 1e-9);
    table = sl_study_table_build(&arena, s, c, 6, times);
    /* never reached, and diverged: no number is reported */
    c[2].record = record(&arena, 10, (const double[]){4, NAN, NAN}, 3);
    table = sl_study_table_build(&arena, s, c, 6, times);
    r = table.rows;
    assert_true(isnan(r[1].reached) && isnan(r[1].sooner));
    assert_true(isinf(r[1].last) && r[1].best == (4 + 3) / 2.0);
    assert_int_equal(sl_study_judge(&table, &s->claims[0]), SL_CLAIM_FAILS);
    c[3].record = NULL; /* one seed is left */
    table = sl_study_table_build(&arena, s, c, 6, times);
    r = table.rows;
    assert_int_equal(r[1].seeds, 1);
    assert_int_equal(sl_study_judge(&table, &s->claims[0]), SL_CLAIM_UNKNOWN);
    sl_arena_free(&arena);
}

static void claims(void **state) {
    (void)state;
    const struct sl_study_claim claim = {.task = 1, .mode = 2, .within = 0.5};
    struct sl_study_row row = {.task = 1, .mode = 2, .seeds = 3, .last_diff = {0.2, 0.29}};
    const struct sl_study_table table = {.rows = &row, .count = 1};
    assert_int_equal(sl_study_judge(&table, &claim), SL_CLAIM_HOLDS);
    row.last_diff = (struct sl_interval){0.2, 0.31};
    assert_int_equal(sl_study_judge(&table, &claim), SL_CLAIM_UNDECIDED);
    row.last_diff = (struct sl_interval){2, 1.4};
    assert_int_equal(sl_study_judge(&table, &claim), SL_CLAIM_FAILS);
    row.mode = 1;
    assert_int_equal(sl_study_judge(&table, &claim), SL_CLAIM_UNKNOWN);
}

static struct sl_study_cell tuned(struct sl_arena *arena, int64_t seed, double rate, double loss) {
    return (struct sl_study_cell){
        .kind = SL_CELL_TUNE, .seed = seed, .rate = rate, .record = record(arena, 5, &loss, 1)};
}

/* With 'drop 25', only rates whose loss is at most 25 percent above the best get the next seed. A
 * dropped rate cannot win because it ran fewer, easier seeds. */
static void race(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_study *s;
    assert_int_equal(read_text(&arena, good, &s), SL_OK);
    const double one = 0.001, two = 0.002;
    struct sl_study_cell c[] = {tuned(&arena, 101, one, 1.25), tuned(&arena, 101, two, 1),
                                tuned(&arena, 102, two, 3)};
    assert_true(!sl_study_dropped(s, c, 0, 0, 0, one)); /* no results yet */
    assert_true(!sl_study_dropped(s, c, 2, 0, 0, one) && !sl_study_dropped(s, c, 2, 0, 0, two));
    c[0] = tuned(&arena, 101, one, 1.3125);
    assert_true(sl_study_dropped(s, c, 2, 0, 0, one) && !sl_study_dropped(s, c, 2, 0, 0, two));
    assert_true(!sl_study_dropped(s, c, 2, 0, 1, one)); /* another mode */
    assert_true(sl_study_dropped(s, c, 3, 0, 0, one));  /* stays dropped */
    assert_true(sl_study_best_rate(s, c, 3, 0, 0) == two);
    sl_study_put_tuning(s, c, 3, &text);
    assert_non_null(strstr(text.at, "| 1f1b | 1.3125 (1) | **2.0000** | |\n"));
    assert_non_null(strstr(text.at, "more than 25 % above"));
    c[0] = tuned(&arena, 101, one, NAN);
    c[1] = tuned(&arena, 101, two, NAN); /* all diverged: none is dropped */
    assert_true(!sl_study_dropped(s, c, 2, 0, 0, one) && !sl_study_dropped(s, c, 2, 0, 0, two));
    c[1] = tuned(&arena, 101, two, 7);
    assert_true(sl_study_dropped(s, c, 2, 0, 0, one));
    sl_text_free(&text);
    sl_arena_free(&arena);
}

/* CPU time: an unknown value counts as the mean of its task; timed runs do not count. */
static void costs(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_study *s;
    assert_int_equal(read_text(&arena, good, &s), SL_OK);
    struct sl_study_cell c[] = {tuned(&arena, 101, 1, 1), tuned(&arena, 1, 1, 1),
                                tuned(&arena, 2, 1, 1), tuned(&arena, 3, 1, 1),
                                timed_cell(&arena, 0, 10, 2)};
    sl_study_put_cost(s, c, 5, &text);
    assert_null(text.at); /* no value known */
    c[0].cpu_s = 100;
    c[1].cpu_s = 200;
    c[3].task = 1;
    c[3].cpu_s = 30;
    c[4].cpu_s = 1000;
    sl_study_put_cost(s, c, 5, &text);
    assert_non_null(strstr(text.at, "| gpt | 3 | 2 | 150.0 | 450 |\n"));
    assert_non_null(strstr(text.at, "| two | 1 | 1 | 30.0 | 30 |\n"));
    assert_non_null(strstr(text.at, "4 runs: 480 s, on two cores 4 minutes."));
    sl_text_free(&text);
    sl_arena_free(&arena);
}

/* The best rate of a mode, with diverged and missing runs. */
static void tuning(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_study *s;
    const double losses[] = {3, 2.25, 2.5, NAN, 1.75};
    struct sl_study_cell c[5];
    assert_int_equal(read_text(&arena, good, &s), SL_OK);
    for (int i = 0; i < 5; i++) /* the last is another seed of the second */
        c[i] = (struct sl_study_cell){.mode = i < 4 ? i / 2 : 0,
                                      .rate = i % 2 || i == 4 ? 0.002 : 0.001,
                                      .kind = SL_CELL_TUNE,
                                      .record = record(&arena, 5, &losses[i], 1)};
    assert_true(sl_study_best_rate(s, c, 5, 0, 0) == 0.002);
    assert_true(sl_study_best_rate(s, c, 5, 0, 1) == 0.001);
    assert_true(sl_study_best_rate(s, c, 5, 0, 2) == 0.001); /* the first */
    sl_study_put_tuning(s, c, 5, &text);
    assert_non_null(strstr(text.at, "| 1f1b | 3.0000 (1) | **2.0000** | |\n"));
    assert_non_null(strstr(text.at, "| 2bw | **2.5000** | lost | +25.00 |\n"));
    assert_non_null(strstr(text.at, "| vanilla | | | |\n"));
    assert_null(strstr(text.at, "Tuning of two"));
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static void pages(void **state) {
    (void)state;
    static const double losses[] = {4, 3, 2.5, 2};
    struct sl_arena arena = {0};
    struct sl_text evil = {0}, text = {0}, page = {0};
    const struct sl_study *s;
    const struct sl_study_row *r;
    double times[6] = {0};
    struct sl_study_table table;
    const char *at = strstr(good, "what a delay costs");
    sl_text_put_bytes(&evil, good, (size_t)(at - good));
    sl_text_put(&evil, "<script>bad()</script>");
    sl_text_put(&evil, at + strlen("what a delay costs"));
    assert_int_equal(read_text(&arena, evil.at, &s), SL_OK);
    struct sl_study_cell c[4];
    for (int i = 0; i < 4; i++)
        c[i] = (struct sl_study_cell){
            .mode = i / 2, .seed = 1 + i % 2, .record = record(&arena, 5, losses, 4)};
    table = sl_study_table_build(&arena, s, c, 4, times);
    r = table.rows;
    assert_true(isnan(r[1].sooner)); /* no times are known */
    sl_study_put_table(&table, &text);
    assert_int_equal(times_in(text.at, "| 2bw |"), 1);
    assert_non_null(strstr(text.at, "somebody: the same loss | reproduces |"));
    sl_study_put_page(&table, &page);
    assert_int_equal(times_in(page.at, "<g class=\"curve"), 2);
    assert_int_equal(times_in(page.at, "<script>bad"), 0);
    sl_text_free(&evil);
    sl_text_free(&text);
    sl_text_free(&page);
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip), cmocka_unit_test(sabotage), cmocka_unit_test(cells),
        cmocka_unit_test(intervals),  cmocka_unit_test(rows),     cmocka_unit_test(claims),
        cmocka_unit_test(pages),      cmocka_unit_test(tuning),   cmocka_unit_test(race),
        cmocka_unit_test(costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
