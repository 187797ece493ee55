/* Jobs as text: defaults, values and their refusals, config.json in and out, old keys; and the
 * checker against jobs with one fault each. */
#include "job/job.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static void refused(sl_err err, sl_err code, const char *message) {
    assert_int_equal(err, code);
    if (!strstr(sl_err_message(), message))
        fail_msg("'%s' does not hold '%s'", sl_err_message(), message);
}

static sl_err read_text(struct sl_job *job, const char *text) {
    sl_job_init(job);
    return sl_job_read(job, "config.json", text, strlen(text));
}

static void test_defaults(void **state) {
    (void)state;
    struct sl_job job;
    struct sl_text text = {0};
    sl_job_init(&job);
    assert_int_equal(job.given, 0);
    assert_int_equal(job.batch, 8);
    assert_int_equal(job.steps, 100);
    assert_string_equal(job.device, "cpu");
    assert_string_equal(job.plan, "");
    must(sl_job_check(&job));
    sl_job_write(&job, &text);
    assert_string_equal(text.at, "{}\n");
    sl_text_free(&text);
    sl_job_free(&job);
}

static void test_values(void **state) {
    (void)state;
    struct sl_job job, copy;
    sl_job_init(&job);
    must(sl_job_set(&job, "batch", "12"));
    must(sl_job_set(&job, "lr", "1e-3"));
    must(sl_job_set(&job, "trace", "true"));
    must(sl_job_set(&job, "dtype", "bf16"));
    must(sl_job_set(&job, "sizes", "L=2,C=0.5"));
    must(sl_job_set(&job, "sizes", "L=3"));
    assert_int_equal(job.batch, 12);
    assert_true(job.lr == 1e-3 && job.trace && job.dtype == SL_JOB_BF16);
    assert_string_equal(job.sizes, "L=2,C=0.5,L=3");
    assert_true(sl_job_has(&job, "batch") && !sl_job_has(&job, "micro"));
    sl_job_copy(&copy, &job);
    sl_job_free(&job);
    assert_string_equal(copy.sizes, "L=2,C=0.5,L=3");
    job = copy;
    refused(sl_job_set(&job, "batch", "x"), SL_ERR_USAGE,
            "`batch`: expected a whole number from 1 to 1073741824, found 'x'");
    refused(sl_job_set(&job, "batch", "0"), SL_ERR_USAGE, "found '0'");
    refused(sl_job_set(&job, "steps", "-1"), SL_ERR_USAGE, "at least 0, found '-1'");
    refused(sl_job_set(&job, "clip", "nan"), SL_ERR_USAGE, "`clip`: expected a number");
    refused(sl_job_set(&job, "dtype", "fp8"), SL_ERR_USAGE,
            "`dtype`: expected fp32, tf32, bf16 or fp16, found 'fp8'");
    refused(sl_job_set(&job, "lend", "yes"), SL_ERR_USAGE, "`lend`: expected true or false");
    refused(sl_job_set(&job, "sizes", "L"), SL_ERR_USAGE, "`sizes`: 'L' is not NAME=VALUE");
    refused(sl_job_set(&job, "sizes", "L=x"), SL_ERR_USAGE, "`sizes`: L: expected a number");
    refused(sl_job_set(&job, "batsh", "1"), SL_ERR_USAGE, "did you mean 'batch'?");
    assert_int_equal(job.batch, 12);
    sl_job_free(&job);
}

/* Every field has a text that reads back as the same text. */
static void test_round_trip(void **state) {
    (void)state;
    struct sl_job job, again;
    struct sl_text once = {0}, twice = {0};
    sl_job_init(&job);
    for (const struct sl_job_field *f = sl_job_fields; f->key; f++) {
        static const char *const samples[] = {
            [SL_JOB_INT] = "7",     [SL_JOB_NUMBER] = "0.30000000000000004",
            [SL_JOB_TEXT] = "a\"b", [SL_JOB_FLAG] = "true",
            [SL_JOB_CHOICE] = NULL, [SL_JOB_SIZES] = "L=4,p=0.1,L=5",
        };
        must(sl_job_set(&job, f->key, f->choices ? f->choices[1] : samples[f->kind]));
        assert_true(*f->brief);
    }
    sl_job_write(&job, &once);
    must(read_text(&again, once.at));
    sl_job_write(&again, &twice);
    assert_string_equal(once.at, twice.at);
    assert_non_null(strstr(once.at, "\"clip_scope\": \"stage\""));
    assert_null(strstr(once.at, "\"out\""));
    assert_null(strstr(once.at, "\"L\": 4"));
    sl_text_free(&once);
    sl_text_free(&twice);
    sl_job_free(&job);
    sl_job_free(&again);
}

static sl_err read_toml(struct sl_job *job, const char *text) {
    sl_job_init(job);
    return sl_job_read_toml(job, "job.toml", text, strlen(text));
}

/* Every field as TOML, and every form of a value. */
static void test_toml(void **state) {
    (void)state;
    struct sl_job job, again;
    struct sl_text once = {0}, twice = {0};
    must(read_toml(&job, "# a job\r\nmodel = 'gpt \"nano\"' # with a comment\n"
                         "optimizer=\"adamw:wd=\\u0030.1\\t\\U0001F600\"\n\n"
                         "\"batch\" = 1_000\nlr = +3.5e-4\nclip = .5\nlend = true\nsizes.L = 2\n"
                         "dtype = \"bf16\"\n  [ sizes ]\t# the table\n\"p\" = -0.25\n"));
    assert_string_equal(job.model, "gpt \"nano\"");
    assert_string_equal(job.optimizer, "adamw:wd=0.1\t\xf0\x9f\x98\x80");
    assert_string_equal(job.sizes, "L=2,p=-0.25");
    assert_true(job.batch == 1000 && job.lr == 3.5e-4 && job.clip == 0.5 && job.lend);
    assert_int_equal(job.dtype, SL_JOB_BF16);
    sl_job_free(&job);
    must(read_toml(&job, "seed = 9007199254740993\nsizes = { L = 4, \"C\" = 1_8 }"));
    assert_string_equal(job.sizes, "L=4,C=18");
    assert_int_equal(job.seed, 9007199254740993);
    sl_job_free(&job);

    sl_job_init(&job);
    for (const struct sl_job_field *f = sl_job_fields; f->key; f++) {
        static const char *const samples[] = {
            [SL_JOB_INT] = "7",         [SL_JOB_NUMBER] = "0.30000000000000004",
            [SL_JOB_TEXT] = "a\"b\x7f", [SL_JOB_FLAG] = "true",
            [SL_JOB_CHOICE] = NULL,     [SL_JOB_SIZES] = "L=4,p.q=0.1,L=5",
        };
        must(sl_job_set(&job, f->key, f->choices ? f->choices[1] : samples[f->kind]));
    }
    sl_job_write_toml(&job, &once);
    must(read_toml(&again, once.at));
    sl_job_write_toml(&again, &twice);
    assert_string_equal(once.at, twice.at);
    assert_non_null(strstr(once.at, "\n[sizes]\n\"p.q\" = 0.1\nL = 5\n"));
    assert_null(strstr(once.at, "\nout = "));
    sl_text_free(&once);
    sl_text_free(&twice);
    sl_job_free(&job);
    sl_job_free(&again);
}

static void test_toml_errors(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"batch = 8\n  batsh = 1\n", "job.toml:2:3: unknown field 'batsh'; did you mean 'batch'?"},
        {"batch = \"8\"", "job.toml:1:9: expected a number, found a string"},
        {"model = gpt", "job.toml:1:9: expected a string in quotes, found 'g'"},
        {"lend = 1", "job.toml:1:8: expected true or false, found '1'"},
        {"batch = 0", "job.toml:1:1: `batch`: expected a whole number from 1"},
        {"batch = 8 9", "job.toml:1:11: expected the end of the line, found '9'"},
        {"batch = 0x10", "job.toml:1:9: expected a string, a decimal number"},
        {"batch = 1__0", "job.toml:1:10: '_' must stand between digits"},
        {"batch = 1\nbatch = 1", "job.toml:2:1: `batch` is given twice"},
        {"sizes = {L = 1, L = 2}", "job.toml:1:17: size 'L' is given twice"},
        {"sizes.L = 1\n[sizes]\nL = 2", "job.toml:3:1: size 'L' is given twice"},
        {"sizes = {L = 1", "job.toml:1:15: expected ',', found the end of the file"},
        {"sizes = {L = 1,}", "job.toml:1:16: expected a key, found '}'"},
        {"[model]", "job.toml:1:2: `model` is no table"},
        {"out = \"x\"", "job.toml:1:1: `out` is not part of a file"},
        {"data = [1]", "job.toml:1:8: no field has an array as value"},
        {"data = \"a\nb\"", "job.toml:1:8: this string does not end on its line"},
        {"data = \"\"\"a\"\"\"", "job.toml:1:8: strings of several lines are not supported"},
        {"data = \"\\q\"", "job.toml:1:10: unknown escape"},
        {"data = \"\\ud800\"", "job.toml:1:11: this is no character"},
        {"data = \"\\u00000\"", "job.toml:1:11: this is no character"},
        {"data", "job.toml:1:5: expected '=', found the end of the file"},
        {"= 1", "job.toml:1:1: expected a key, found '='"},
        {"data = \"\x01\"", "a control character must be written as an escape"},
    };
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_job job;
        refused(read_toml(&job, cases[i].text), SL_ERR_INPUT, cases[i].message);
        sl_job_free(&job);
    }
}

static void test_reset(void **state) {
    (void)state;
    struct sl_job job, fresh;
    sl_job_init(&job);
    sl_job_init(&fresh);
    for (const struct sl_job_field *f = sl_job_fields; f->key; f++) {
        struct sl_text a = {0}, b = {0};
        if (f->kind == SL_JOB_INT || f->kind == SL_JOB_NUMBER)
            must(sl_job_set(&job, f->key, "7"));
        else if (f->kind == SL_JOB_TEXT)
            must(sl_job_set(&job, f->key, "x"));
        sl_job_reset(&job, f->key);
        assert_false(sl_job_has(&job, f->key));
        sl_job_write_value(&job, f, &a);
        sl_job_write_value(&fresh, f, &b);
        assert_string_equal(a.at, b.at);
        sl_text_free(&a);
        sl_text_free(&b);
    }
    sl_job_free(&job);
    sl_job_free(&fresh);
}

/* Written by version 0.1.0. */
static void test_old(void **state) {
    (void)state;
    struct sl_job job;
    must(read_text(&job, "{\"model\": \"gpt-nano\", \"sizes\": {\"L\": 2}, \"seed\": "
                         "9007199254740993, \"verdict\": \"all\", \"slack\": 1}"));
    assert_int_equal(job.seed, 9007199254740993);
    assert_int_equal(job.clip_scope, SL_JOB_SCOPE_GLOBAL);
    assert_true(sl_job_has(&job, "clip_scope"));
    sl_job_free(&job);
    must(read_text(&job, "{\"verdict\": \"stage\"}"));
    assert_int_equal(job.clip_scope, SL_JOB_SCOPE_STAGE);
    sl_job_free(&job);
}

static void test_bad_text(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"{\n  \"bath\": 3\n}", "config.json:2:"},
        {"{\"bath\": 3}", "unknown field 'bath'; did you mean 'batch'?"},
        {"{\"batch\": 3, \"batch\": 4}", "the key \"batch\" appears twice"},
        {"{\"verdict\": \"all\", \"clip_scope\": \"stage\"}", "`clip_scope` is given twice"},
        {"{\"batch\": \"3\"}", "config.json:1:"},
        {"{\"batch\": 0}", "`batch`: expected"},
        {"{\"batch\": 1.5}", "`batch`: expected a whole number"},
        {"{\"trace\": 1}", "config.json:1:"},
        {"{\"out\": \"x\"}", "not part of a file"},
        {"{\"sizes\": {\"A=B\": 1}}", "cannot be the name of a size"},
        {"{\"sizes\": {\"A\": \"1\"}}", "config.json:1:"},
        {"{\"clip_scope\": \"all\"}", "expected global or stage"},
        {"[]", "config.json:1:"},
        {"{} {}", "config.json:1:"},
        {"", "config.json:1:1"},
    };
    for (int i = 0; i < SL_COUNT(bad); i++) {
        struct sl_job job;
        refused(read_text(&job, bad[i][0]), SL_ERR_INPUT, bad[i][1]);
        sl_job_free(&job);
    }
}

/* Sabotage: a job that passes, then the same with one fault. */
static void test_check(void **state) {
    (void)state;
    static const struct {
        const char *good, *key, *value, *message;
    } faults[] = {
        {"{}", "schedule", "1f1b", "`schedule` needs a pipeline: set `stages` or `plan`"},
        {"{}", "policy", "spectrain", "`policy` needs a pipeline"},
        {"{}", "workers", "2", "`workers` needs a pipeline"},
        {"{}", "replicas", "2", "`replicas` needs a pipeline"},
        {"{}", "slack", "0", "`slack` needs a pipeline"},
        {"{}", "cost", "x.cost", "`cost` needs a pipeline"},
        {"{\"stages\": 3}", "trace", "true", "and `out`"},
        {"{\"stages\": 3}", "log_staleness", "true", "and `out`"},
        {"{}", "resume", "true", "`resume` needs the run directory: set `out`"},
        {"{}", "device", "cpu,cpu", "several devices need a pipeline"},
        {"{}", "device", "cpx", "did you mean 'cpu'?"},
        {"{\"stages\": 3}", "device", "cpu,", "`device`: unknown device ''"},
        {"{\"stages\": 3}", "plan", "x.plan", "`stages` and `plan` exclude each other"},
        {"{\"plan\": \"x.plan\"}", "cut", "even", "`cut` and `plan` exclude each other"},
        {"{\"plan\": \"x.plan\"}", "workers", "2", "`workers` and `plan` exclude each other"},
        {"{\"plan\": \"x.plan\"}", "replicas", "2", "`replicas` and `plan` exclude each other"},
        {"{\"stages\": 3}", "workers", "4", "at most one per stage (3), found 4"},
        {"{\"stages\": 3}", "schedule", "1f1c", "1f1b"},
        {"{\"stages\": 3}", "policy", "spectrane", "spectrain"},
        {"{}", "optimizer", "adamx", "adam"},
        {"{}", "lr_schedule", "cosin", "cosine"},
        {"{}", "loss_scale", "3", "loss"},
        {"{}", "dtype", "tf32", "does not compute in tf32; set `dtype` to fp32"},
        {"{}", "stall_timeout", "0.5", "`stall_timeout`: expected at least"},
    };
    for (int i = 0; i < SL_COUNT(faults); i++) {
        struct sl_job job;
        must(read_text(&job, faults[i].good));
        must(sl_job_check(&job));
        must(sl_job_set(&job, faults[i].key, faults[i].value));
        if (sl_job_check(&job) == SL_OK)
            fail_msg("%s with %s = %s passes", faults[i].good, faults[i].key, faults[i].value);
        if (!strstr(sl_err_message(), faults[i].message))
            fail_msg("'%s' does not hold '%s'", sl_err_message(), faults[i].message);
        sl_job_free(&job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),    cmocka_unit_test(test_values),
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_toml),
        cmocka_unit_test(test_toml_errors), cmocka_unit_test(test_reset),
        cmocka_unit_test(test_old),         cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
