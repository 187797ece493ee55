/* Plans a model for another machine, draws the schedule, and prints bubbles and memory.
 *
 *   cc plan_only.c $(pkg-config --cflags --libs sluice) && ./a.out
 */
#include <sluice.h>

#include <stdio.h>
#include <string.h>

static const char model[] = "model tower\n"
                            "input x : float[B, 256]\n"
                            "input label : int[B] < 10\n"
                            "fn block(x) {\n"
                            "    param weight[1024, 256] ~ normal(0.05)\n"
                            "    param back[256, 1024] ~ normal(0.05)\n"
                            "    return x + matmul(relu(matmul(x, weight, tb = 1)), back, tb = 1)\n"
                            "}\n"
                            "repeat i in 0 .. 8 as block { x = block(x) }\n"
                            "param head[10, 256] ~ normal(0.05)\n"
                            "loss cross_entropy(matmul(x, head, tb = 1), label)\n";

static int fail(sl_err err) {
    fprintf(stderr, "%s: %s\n", sl_err_name(err), sl_err_message());
    return (int)err;
}

int main(void) {
    struct sl_net *net = NULL;
    struct sl_pipeline *pipeline = NULL;
    struct sl_plan_request request = {.size = sizeof request,
                                      .machine = "1x4:mem=1G,intra=10GB/s",
                                      .schedule = "1f1b",
                                      .batch = 32,
                                      .micros = 8};
    sl_err err = sl_net_read_text("tower", model, strlen(model), NULL, &net);
    if (err == SL_OK)
        err = sl_net_autodiff(net);
    if (err == SL_OK)
        err = sl_pipeline_plan(net, &request, &pipeline);
    if (err == SL_OK)
        err = sl_pipeline_schedule(pipeline, NULL, 0, 1);
    if (err == SL_OK)
        err = sl_pipeline_simulate(pipeline, NULL);
    if (err == SL_OK) {
        int workers = (int)sl_pipeline_stat(pipeline, SL_PIPELINE_WORKERS, 0);
        printf("%s\n", sl_pipeline_text(pipeline, "plan"));
        printf("%s\n", sl_pipeline_text(pipeline, "grid")); /* invalidates the text above */
        for (int w = 0; w < workers; w++)
            printf("worker %d: bubble %.1f %%, %.0f bytes\n", w,
                   100 * sl_pipeline_stat(pipeline, SL_PIPELINE_BUBBLE, w),
                   sl_pipeline_stat(pipeline, SL_PIPELINE_MEMORY_BYTES, w));
    }
    sl_pipeline_close(pipeline);
    sl_net_close(net);
    return err == SL_OK ? 0 : fail(err);
}
