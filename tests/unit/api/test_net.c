/* The public interface: what it builds, and what it says to a program that uses it wrongly. */
#include "sluice.h"

#include "base/version.h"

#include <math.h>
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

static void test_build(void **state) {
    (void)state;
    struct sl_net *net;
    int x, w, h, extra, loss;
    must(sl_net_open("a-net", &net));
    must(sl_net_input(net, "x", "float[B, 3, 5]", &x));
    must(sl_net_scope(net, "norm"));
    must(sl_net_param(net, "w", "[5]", "ones", &w));
    must(sl_net_op(net, "layernorm", (int[]){x, w}, 2, "eps = 1e-3", &h));
    must(sl_net_scope(net, ""));
    must(sl_net_op_output(net, h, 2, &extra));
    assert_string_equal(sl_net_shape(net, h), "[B,3,5]");
    assert_string_equal(sl_net_shape(net, extra), "[B,3]");
    assert_string_equal(sl_net_shape(net, 99), "");
    must(sl_net_op(net, "reduce_mean", &h, 1, NULL, &loss));
    must(sl_net_output(net, "h", h));
    must(sl_net_loss(net, "total", loss, 0.5));
    must(sl_net_check(net));
    must(sl_net_autodiff(net));
    assert_true(sl_net_stat(net, SL_NET_PARAMETERS) == 5);
    assert_true(sl_net_stat(net, SL_NET_NODES) == 2);
    assert_true(sl_net_stat(net, SL_NET_BACKWARD_NODES) > 0);
    assert_true(sl_net_stat(net, SL_NET_BACKWARD_FLOPS) > 0);
    assert_true(sl_net_stat(net, SL_NET_ACTIVATION_BYTES) > 0);
    assert_true(sl_net_stat(net, SL_NET_STATES) == 0);
    assert_non_null(strstr(sl_net_print(net), "layernorm(x, norm.w, eps = 0.001)"));

    /* What it prints, it reads. */
    char *text = strdup(sl_net_print(net));
    struct sl_net *again;
    must(sl_net_read_text("again", text, strlen(text), NULL, &again));
    assert_string_equal(sl_net_print(again), text);
    free(text);
    sl_net_close(again);
    sl_net_close(net);
    sl_net_close(NULL);
}

static void test_states_and_optional_inputs(void **state) {
    (void)state;
    struct sl_net *net;
    int in[5], y, q, mask;
    must(sl_net_open("n", &net));
    must(sl_net_input(net, "x", "float[B, 4]", &in[0]));
    must(sl_net_param(net, "w", "[4]", "uniform(-0.5, 0.5)", &in[1]));
    must(sl_net_param(net, "b", "[4]", "const(2)", &in[2]));
    must(sl_net_state(net, "m", "[4]", "zeros", &in[3]));
    must(sl_net_state(net, "v", "[4]", "ones", &in[4]));
    must(sl_net_op(net, "batchnorm", in, 5, NULL, &y));
    assert_true(sl_net_stat(net, SL_NET_STATES) == 8);
    must(sl_net_op(net, "reshape", &y, 1, "shape = [B, 1, 2, 2]", &q));
    must(sl_net_op(net, "attention", (int[]){q, q, q, -1}, 4, "causal = 1", &q));
    must(sl_net_input(net, "mask", "int[B, 1] < 2", &mask));
    must(sl_net_op(net, "attention", (int[]){q, q, q, mask}, 4, "", &q));
    assert_string_equal(sl_net_shape(net, q), "[B,1,2,2]");
    sl_net_close(net);
}

static void test_wrong_use(void **state) {
    (void)state;
    struct sl_net *net;
    int x, y;
    refused(sl_net_open("two words", &net), SL_ERR_USAGE, "cannot be the name");
    refused(sl_net_open(NULL, &net), SL_ERR_USAGE, "cannot be the name");
    must(sl_net_open("n", &net));
    refused(sl_net_input(net, "3x", "float[B]", &x), SL_ERR_USAGE, "name of an input");
    refused(sl_net_input(net, "x", "double[B]", &x), SL_ERR_INPUT, "'int' or 'float'");
    refused(sl_net_input(net, "x", "float[B", &x), SL_ERR_INPUT, "expected ']'");
    refused(sl_net_input(net, "x", "float[-3]", &x), SL_ERR_INPUT, "not positive");
    must(sl_net_input(net, "x", "float[B, 3]", &x));
    refused(sl_net_input(net, "x", "float[B, 3]", &y), SL_ERR_INPUT, "'x' is taken");
    refused(sl_net_input(net, "B", "float[B, 3]", &y), SL_ERR_INPUT, "word of the language");
    refused(sl_net_param(net, "w", "[3]", "gauss(1)", &y), SL_ERR_INPUT, "initialiser");
    refused(sl_net_param(net, "w", "[B]", "zeros", &y), SL_ERR_INPUT, "has B in its shape");
    refused(sl_net_op(net, "rellu", &x, 1, NULL, &y), SL_ERR_INPUT, "did you mean 'relu'?");
    refused(sl_net_op(net, "relu_dx", &x, 1, NULL, &y), SL_ERR_INPUT, "unknown op");
    refused(sl_net_op(net, "relu", (int[]){77}, 1, NULL, &y), SL_ERR_USAGE, "no tensor 77");
    refused(sl_net_op(net, "relu", &x, -1, NULL, &y), SL_ERR_USAGE, "inputs");
    refused(sl_net_op(net, "relu", &x, 1, "p = 3", &y), SL_ERR_INPUT, "no input or attribute 'p'");
    refused(sl_net_op(net, "relu", &x, 1, "))", &y), SL_ERR_INPUT, "expected");
    refused(sl_net_op_output(net, x, 0, &y), SL_ERR_USAGE, "not the result of an op");
    must(sl_net_op(net, "relu", &x, 1, NULL, &y));
    refused(sl_net_op_output(net, y, 1, &y), SL_ERR_USAGE, "there is no 1");
    refused(sl_net_loss(net, "l", y, 1), SL_ERR_INPUT, "float scalar");
    must(sl_net_op(net, "reduce_sum", &y, 1, NULL, &y));
    refused(sl_net_loss(net, "l", y, NAN), SL_ERR_INPUT, "not a number");
    refused(sl_net_loss(net, "l", -1, 1), SL_ERR_USAGE, "no tensor -1");
    refused(sl_net_check(net), SL_ERR_INPUT, "no loss");
    refused(sl_net_autodiff(net), SL_ERR_USAGE, "not checked yet");
    must(sl_net_loss(net, "l", y, 1));
    must(sl_net_output(net, "out", y));
    refused(sl_net_output(net, "out", y), SL_ERR_INPUT, "given twice");
    must(sl_net_check(net));
    must(sl_net_autodiff(net));
    refused(sl_net_autodiff(net), SL_ERR_USAGE, "already");
    refused(sl_net_op(net, "relu", &x, 1, NULL, &y), SL_ERR_USAGE, "read-only");
    refused(sl_net_scope(net, "a"), SL_ERR_USAGE, "read-only");
    sl_net_close(net);
}

static void test_read(void **state) {
    (void)state;
    struct sl_net *net;
    must(sl_net_read(SL_MODELS_SRC_DIR "/gpt2-355m.model", NULL, "L=2,V=11", &net));
    must(sl_net_autodiff(net));
    assert_true(sl_net_stat(net, SL_NET_PARAMETERS) ==
                11 * 1024 + 1024 * 1024 + 2 * (12 * 1024 * 1024 + 13 * 1024) + 2 * 1024);
    sl_net_close(net);
    refused(sl_net_read("/nosuch.model", NULL, NULL, &net), SL_ERR_INPUT, "/nosuch.model");
    assert_null(net);
    refused(sl_net_read_text("t", "use gpt2", 8, NULL, &net), SL_ERR_INPUT, "may not use");
    refused(sl_net_read_text("t", "size L = 1", 10, "M=1", &net), SL_ERR_USAGE, "has no size 'M'");
    refused(sl_net_read_text("t", "size L = 1", 10, "M", &net), SL_ERR_USAGE, "NAME=VALUE");
    assert_string_equal(sl_err_name(SL_ERR_USAGE), "usage error");
    assert_non_null(sl_version());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build),
        cmocka_unit_test(test_states_and_optional_inputs),
        cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
