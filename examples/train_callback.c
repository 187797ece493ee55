/* Trains three stages with 2bw on samples of this program; reads weights, evaluates, resumes.
 *
 *   cc train_callback.c $(pkg-config --cflags --libs sluice) && ./a.out
 */
#include <sluice.h>

#include <stdio.h>
#include <string.h>

static const char model[] = "model wave\ninput x : float[B, 4]\ninput y : float[B, 1]\n"
                            "param w0[16, 4] ~ normal(0.5)\nparam w1[16, 16] ~ normal(0.25)\n"
                            "param w2[1, 16] ~ normal(0.25)\n"
                            "h = tanh(matmul(x, w0, tb = 1))\nh = tanh(matmul(h, w1, tb = 1))\n"
                            "logits = matmul(h, w2, tb = 1)\n"
                            "output logits = logits\nloss mse(logits, y)\n";

/* Sample n is the same whenever the library asks for it. */
static int sample(void *ctx, int64_t n, const char *input, void *out, int64_t values) {
    float *at = out, x[4];
    (void)ctx;
    for (int i = 0; i < 4; i++)
        x[i] = (float)((n * 37 + i * 11) % 23 - 11) / 11;
    if (strcmp(input, "x") == 0)
        memcpy(at, x, (size_t)values * sizeof *x);
    else
        *at = x[0] * x[1] - x[2];
    return 0;
}

/* Runs up to step `until` in directory "wave-run" and copies a weight out. */
static sl_err train(const struct sl_net *net, int64_t until, float weight[16]) {
    static const struct sl_samples samples = {.size = sizeof samples, .count = 256, .fill = sample};
    static const char *const settings[][2] = {
        {"stages", "3"}, {"schedule", "2bw"}, {"batch", "16"},     {"micro", "4"},
        {"lr", "0.01"},  {"steps", "60"},     {"out", "wave-run"}, {"resume", "true"},
    };
    struct sl_evaluation eval = {.size = sizeof eval};
    struct sl_trainer *trainer;
    sl_err err = sl_trainer_new(&trainer);
    for (int i = 0; err == SL_OK && i < 8; i++)
        err = sl_trainer_set(trainer, settings[i][0], settings[i][1]);
    if (err == SL_OK && (err = sl_trainer_use_net(trainer, net)) == SL_OK &&
        (err = sl_trainer_use_samples(trainer, &samples)) == SL_OK &&
        (err = sl_trainer_open(trainer)) == SL_OK &&
        (err = sl_trainer_run(trainer, until - sl_trainer_step(trainer))) == SL_OK &&
        (err = sl_trainer_save(trainer)) == SL_OK &&
        (err = sl_trainer_evaluate(trainer, &eval)) == SL_OK)
        err = sl_trainer_get_tensor(trainer, "w2", weight, 16);
    if (err == SL_OK)
        printf("step %2lld  validation loss %.6f  w2[0] %a\n", (long long)sl_trainer_step(trainer),
               eval.loss, (double)weight[0]);
    sl_trainer_close(trainer);
    return err;
}

int main(void) {
    float weight[16];
    struct sl_net *net;
    sl_err err = sl_net_read_text("wave", model, strlen(model), NULL, &net);
    if (err == SL_OK && (err = train(net, 30, weight)) == SL_OK)
        err = train(net, 60, weight); /* resumes after step 30 */
    if (err != SL_OK)
        fprintf(stderr, "%s: %s\n", sl_err_name(err), sl_err_message());
    sl_net_close(net);
    return (int)err;
}
