/* Trains a model from C: on one worker, and as a pipeline of four stages with the same losses.
 *
 *   cc train_net.c $(pkg-config --cflags --libs sluice) && ./a.out
 */
#include <sluice.h>

#include <stdio.h>
#include <string.h>

static const char model[] = "model digits\n"
                            "input x : float[B, 64]\n"
                            "input label : int[B] < 10\n"
                            "fn linear(x, n) {\n"
                            "    param weight[n, dim(x, -1)] ~ normal(0.1)\n"
                            "    param bias[n] ~ zeros\n"
                            "    return matmul(x, weight, bias, tb = 1)\n"
                            "}\n"
                            "h = relu(linear(x, 96) as fc1)\n"
                            "h = relu(linear(h, 96) as fc2)\n"
                            "h = relu(linear(h, 96) as fc3)\n"
                            "loss cross_entropy(linear(h, 10) as fc4, label)\n";

enum { STEPS = 12 };

struct losses {
    double at[STEPS];
    int count;
};

static int keep(void *ctx, const struct sl_train_step *step) {
    struct losses *losses = ctx;
    losses->at[losses->count++] = step->loss;
    printf("step %2lld  loss %.6f  norm %.4f\n", (long long)step->step, step->loss, step->norm);
    return 0;
}

int main(void) {
    struct sl_net *net = NULL;
    struct sl_pipeline *pipeline = NULL;
    struct losses alone = {.count = 0}, piped = {.count = 0};
    struct sl_plan_request plan = {.size = sizeof plan,
                                   .machine = "1x4:mem=1G,intra=10GB/s",
                                   .planner = "even",
                                   .schedule = "1f1b",
                                   .batch = 16,
                                   .micros = 4};
    struct sl_train_request train = {
        .size = sizeof train, .batch = 16, .micros = 4, .steps = STEPS, .seed = 7};
    double loss = 0;
    sl_err err = sl_net_read_text("digits", model, strlen(model), NULL, &net);
    if (err == SL_OK)
        err = sl_net_autodiff(net);
    if (err == SL_OK)
        err = sl_train_net(net, &train, keep, &alone, &loss);
    if (err == SL_OK)
        err = sl_pipeline_plan(net, &plan, &pipeline);
    if (err == SL_OK) {
        printf("as %.0f stages:\n", sl_pipeline_stat(pipeline, SL_PIPELINE_STAGES, 0));
        train.pipeline = pipeline;
        err = sl_train_net(net, &train, keep, &piped, &loss);
    }
    if (err != SL_OK)
        fprintf(stderr, "%s: %s\n", sl_err_name(err), sl_err_message());
    sl_pipeline_close(pipeline);
    sl_net_close(net);
    if (err != SL_OK)
        return (int)err;
    int same = alone.count == STEPS && piped.count == STEPS &&
               memcmp(alone.at, piped.at, sizeof alone.at) == 0;
    printf("%s\n", same ? "the same losses, bit for bit" : "THE LOSSES DIFFER");
    return same ? 0 : 1;
}
