/* Micro-batches are weighted by their valid items: if targets are ignored unevenly, the gradient of
 * a batch does not depend on how it is split. A plain mean of micro-batches would. */
#include "support/data_files.h"
#include "support/pipe_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 8 };

/* The gradient of the first batch in `micros` micro-batches, before any clipping. */
static float *gradient(const struct pipe_case *c, int64_t micros, double *loss, int64_t *count) {
    struct sl_train_config config = pipe_case_config(c, "sgd", BATCH, micros, 1);
    struct sl_step_report report;
    struct sl_train *train = NULL;
    SL_TEST_OK(sl_run_train_open(&config, &train));
    SL_TEST_OK(sl_run_train_step(train, &report));
    int64_t bytes = train->worker->programs[SL_WORKER_FULL]->grad_bytes;
    float *out = sl_realloc(NULL, (size_t)bytes);
    memcpy(out, train->worker->grad[0], (size_t)bytes);
    *loss = report.loss;
    *count = bytes / 4;
    sl_run_train_close(train);
    return out;
}

static double distance(const float *a, const float *b, int64_t count) {
    double apart = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];
        apart += d * d;
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / norm);
}

static bool counts_differ(const struct pipe_case *c, int64_t micros) {
    int input = c->graph->losses.at[0].count_input;
    int64_t first, other, each = BATCH / micros;
    bool differ = false;
    assert_true(input >= 0);
    SL_TEST_OK(sl_data_count_valid(c->data, SL_DATA_TRAIN, 0, each, input, &first));
    for (int64_t j = 1; j < micros; j++) {
        SL_TEST_OK(sl_data_count_valid(c->data, SL_DATA_TRAIN, j * each, each, input, &other));
        differ |= other != first;
    }
    return differ;
}

static void cut(struct pipe_case *opened) {
    struct pipe_case c = *opened;
    double whole_loss, loss;
    int64_t count;
    float *whole = gradient(&c, 1, &whole_loss, &count);
    for (int64_t micros = 2; micros <= BATCH; micros *= 2) {
        float *cut = gradient(&c, micros, &loss, &count);
        assert_true(counts_differ(&c, micros)); /* else nothing is tested */
        assert_true(fabs(loss - whole_loss) < 1e-6 * whole_loss);
        assert_true(distance(cut, whole, count) < 1e-5);
        free(cut);
    }
    free(whole);
}

static void any_cut_gives_the_gradient(void **state) {
    struct pipe_case c;
    (void)state;
    pipe_case_open_zoo(&c, "bert-base", "V=31,T=7,P=7,L=2,C=12,H=2");
    cut(&c);
    pipe_case_close(&c);
}

/* The same if the targets are the first input of the model: input 0 counts as well. */
static void targets_may_come_first(void **state) {
    struct pipe_case c;
    (void)state;
    pipe_case_open(
        &c, "model early\ninput targets : int[B, 7] < 31\ninput tokens : int[B, 7] < 31\n"
            "input mask : int[B, 7] < 2\nparam e[31, 6] ~ normal(0.5)\n"
            "param w[31, 6] ~ normal(0.5)\nparam p[2, 6] ~ normal(0.5)\n"
            "loss cross_entropy(matmul(embed(e, tokens) + embed(p, mask), w, tb = 1), targets)\n");
    assert_int_equal(c.graph->losses.at[0].count_input, 0);
    cut(&c);
    pipe_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_gives_the_gradient),
        cmocka_unit_test(targets_may_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
