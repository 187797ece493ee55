/* Builds a two-layer perceptron op by op, differentiates it, and reads the same model from text.
 *
 *   cc build_graph.c $(pkg-config --cflags --libs sluice) && ./a.out
 */
#include <sluice.h>

#include <stdio.h>
#include <string.h>

/* Leave with the error's message and its code as exit status. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        sl_err err_ = (call);                                                                      \
        if (err_ != SL_OK) {                                                                       \
            fprintf(stderr, "%s: %s\n", sl_err_name(err_), sl_err_message());                      \
            sl_net_close(net);                                                                     \
            return (int)err_;                                                                      \
        }                                                                                          \
    } while (0)

/* y = x w' + b, with parameters called NAME.weight and NAME.bias */
static sl_err linear(struct sl_net *net, const char *name, int x, const char *weight,
                     const char *bias, int *y) {
    int in[3] = {x, -1, -1};
    sl_err err = sl_net_scope(net, name);
    if (err == SL_OK)
        err = sl_net_param(net, "weight", weight, "normal(0.05)", &in[1]);
    if (err == SL_OK)
        err = sl_net_param(net, "bias", bias, "zeros", &in[2]);
    if (err == SL_OK)
        err = sl_net_op(net, "matmul", in, 3, "tb = 1", y);
    if (err == SL_OK)
        err = sl_net_scope(net, "");
    return err;
}

static const char text[] = "model perceptron\n"
                           "input x : float[B, 784]\n"
                           "input label : int[B] < 10\n"
                           "fn linear(x, n) {\n"
                           "    param weight[n, dim(x, -1)] ~ normal(0.05)\n"
                           "    param bias[n] ~ zeros\n"
                           "    return matmul(x, weight, bias, tb = 1)\n"
                           "}\n"
                           "h = relu(linear(x, 100) as fc1)\n"
                           "loss cross_entropy(linear(h, 10) as fc2, label)\n";

int main(void) {
    struct sl_net *net = NULL;
    int x, label, h, logits, loss, in[2];
    TRY(sl_net_open("perceptron", &net));
    TRY(sl_net_input(net, "x", "float[B, 784]", &x));
    TRY(sl_net_input(net, "label", "int[B] < 10", &label));
    TRY(linear(net, "fc1", x, "[100, 784]", "[100]", &h));
    TRY(sl_net_op(net, "relu", &h, 1, NULL, &h));
    TRY(linear(net, "fc2", h, "[10, 100]", "[10]", &logits));
    in[0] = logits;
    in[1] = label;
    TRY(sl_net_op(net, "cross_entropy", in, 2, "smoothing = 0.1", &loss));
    TRY(sl_net_output(net, "logits", logits));
    TRY(sl_net_loss(net, "loss", loss, 1.0));
    TRY(sl_net_check(net));
    TRY(sl_net_autodiff(net));
    printf("libsluice %s\n%s\n", sl_version(), sl_net_print(net));
    printf("logits %s, %.0f parameters, %.0f flops forward, %.0f backward\n",
           sl_net_shape(net, logits), sl_net_stat(net, SL_NET_PARAMETERS),
           sl_net_stat(net, SL_NET_FORWARD_FLOPS), sl_net_stat(net, SL_NET_BACKWARD_FLOPS));
    double parameters = sl_net_stat(net, SL_NET_PARAMETERS);
    sl_net_close(net);

    TRY(sl_net_read_text("perceptron", text, strlen(text), NULL, &net));
    TRY(sl_net_autodiff(net));
    printf("from text: %.0f parameters\n", sl_net_stat(net, SL_NET_PARAMETERS));
    int same = sl_net_stat(net, SL_NET_PARAMETERS) == parameters;
    sl_net_close(net);

    /* A mistake: the message names the op and the two shapes. */
    TRY(sl_net_open("wrong", &net));
    TRY(sl_net_input(net, "a", "float[B, 3]", &in[0]));
    TRY(sl_net_param(net, "b", "[4, 5]", "zeros", &in[1]));
    sl_err err = sl_net_op(net, "matmul", in, 2, NULL, &h);
    printf("as expected, %s: %s\n", sl_err_name(err), sl_err_message());
    sl_net_close(net);
    return err == SL_ERR_INPUT && same ? 0 : 1;
}
