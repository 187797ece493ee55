/* Verifies a schedule of another program, PyTorch's pipelining CSV, and shows the message for one that
 * would deadlock.
 *
 *   cc verify_foreign.c $(pkg-config --cflags --libs sluice) && ./a.out [X.csv]
 */
#include <sluice.h>

#include <stdio.h>
#include <string.h>

/* 1F1B on two ranks, and the same with two cells of rank 1 exchanged: B0 before F0. */
static const char good[] = "0F0,0F1,0B0,0F2,0B1,0B2\n"
                           "1F0,1B0,1F1,1B1,1F2,1B2\n";
static const char bad[] = "0F0,0F1,0B0,0F2,0B1,0B2\n"
                          "1B0,1F0,1F1,1B1,1F2,1B2\n";

static sl_err prove(struct sl_pipeline *pipeline) {
    sl_err err = sl_pipeline_verify(pipeline);
    if (err != SL_OK) {
        printf("%s: %s\n", sl_err_name(err), sl_err_message());
        return err;
    }
    printf("verified: %.0f actions on %.0f workers\n",
           sl_pipeline_stat(pipeline, SL_PIPELINE_ACTIONS, 0),
           sl_pipeline_stat(pipeline, SL_PIPELINE_WORKERS, 0));
    err = sl_pipeline_simulate(pipeline, "latency=1ns");
    if (err == SL_OK)
        printf("%s", sl_pipeline_text(pipeline, "grid"));
    return err;
}

static sl_err prove_text(const char *name, const char *text) {
    struct sl_pipeline *pipeline = NULL;
    sl_err err = sl_pipeline_read_text(name, text, strlen(text), &pipeline);
    if (err == SL_OK)
        err = prove(pipeline);
    else
        printf("%s: %s\n", sl_err_name(err), sl_err_message());
    sl_pipeline_close(pipeline);
    return err;
}

int main(int argc, char **argv) {
    struct sl_pipeline *pipeline = NULL;
    if (argc > 1) {
        sl_err err = sl_pipeline_read(argv[1], &pipeline);
        if (err == SL_OK)
            err = prove(pipeline);
        else
            fprintf(stderr, "%s\n", sl_err_message());
        sl_pipeline_close(pipeline);
        return (int)err;
    }
    int as_expected =
        prove_text("good.csv", good) == SL_OK && prove_text("bad.csv", bad) == SL_ERR_REFUSED;
    return as_expected ? 0 : 1;
}
