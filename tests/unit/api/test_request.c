/* Request structs: the library refuses a wrong size and unknown fields, and reads older structs. */
#include "sluice.h"

#include "api/request.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void refused(sl_err err, const char *message) {
    assert_int_equal(err, SL_ERR_USAGE);
    if (!strstr(sl_err_message(), message))
        fail_msg("'%s' does not contain '%s'", sl_err_message(), message);
}

/* The struct of three versions. */
struct first {
    size_t size;
    int64_t a;
};
struct second {
    size_t size;
    int64_t a, b;
};
struct third {
    size_t size;
    int64_t a, b, c;
};

static sl_err copy(const void *request, struct second *out) {
    return sl_api_request_copy("sl_x_request", request, out, sizeof(struct first), sizeof *out);
}

static void test_copy(void **state) {
    (void)state;
    struct second out;
    struct first old = {sizeof old, 3};
    struct second same = {sizeof same, 5, 7};
    struct third newer = {sizeof newer, 11, 13, 0};
    assert_int_equal(copy(&old, &out), SL_OK);
    assert_true(out.a == 3 && out.b == 0);
    assert_int_equal(copy(&same, &out), SL_OK);
    assert_true(out.a == 5 && out.b == 7);
    assert_int_equal(copy(&newer, &out), SL_OK);
    assert_true(out.a == 11 && out.b == 13);
    newer.c = 1;
    refused(copy(&newer, &out), "Use a newer library");
    refused(copy(&(struct second){0}, &out), "sizeof(struct sl_x_request)");
    refused(copy(&(struct second){sizeof(struct first) - 1, 1, 1}, &out), "size is");
    refused(copy(&(struct second){SIZE_MAX, 1, 1}, &out), "no version has");
    refused(copy(NULL, &out), "NULL");
}

static const char model[] = "model tiny\n"
                            "input x : float[B, 5]\n"
                            "param w[3, 5] ~ normal(0.1)\n"
                            "loss reduce_sum(matmul(x, w, tb = 1))\n";

static int count_steps(void *ctx, const struct sl_train_step *step) {
    assert_int_equal(step->size, sizeof *step);
    ++*(int *)ctx;
    return 0;
}

static void test_public(void **state) {
    (void)state;
    struct sl_net *net;
    struct sl_pipeline *pipeline = NULL;
    double loss;
    int steps = 0;
    assert_int_equal(sl_net_read_text("tiny", model, strlen(model), NULL, &net), SL_OK);
    assert_int_equal(sl_net_autodiff(net), SL_OK);
    refused(sl_pipeline_plan(net, &(struct sl_plan_request){0}, &pipeline), "sl_plan_request");
    assert_null(pipeline);
    refused(sl_train_net(net, &(struct sl_train_request){.steps = 1}, NULL, NULL, &loss),
            "sl_train_request");
    struct sl_train_request train = {.size = sizeof train, .steps = 2, .batch = 3};
    assert_int_equal(sl_train_net(net, &train, count_steps, &steps, &loss), SL_OK);
    assert_int_equal(steps, 2);
    sl_net_close(net);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_public),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
