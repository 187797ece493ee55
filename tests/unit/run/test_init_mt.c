/* Initial values depend on seed, name and index only: the same bits for any number of threads, in
 * every weight version, and from sl_op_init_value one at a time. */
#include "base/rng.h"
#include "op/registry.h"
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 11, VERSIONS = 2 };

static struct sl_worker *open_worker(const struct pipe_case *c, struct sl_device *device) {
    struct sl_worker_config config = {
        .graph = c->graph,
        .samples = 2,
        .has_kernel = device->row->has_kernel,
        .slots = 1,
        .versions = VERSIONS,
        .grad_slots = 1,
        .seed = SEED,
    };
    struct sl_worker *worker = NULL;
    if (sl_run_worker_open(device, &config, &worker) != SL_OK)
        fail_msg("%s", sl_err_message());
    return worker;
}

static void check_values(const struct sl_program_param *list, int count,
                         const struct sl_param *table, const void *slab) {
    for (int i = 0; i < count; i++) {
        const struct sl_param *param = &table[list[i].param];
        const float *values = (const float *)(const void *)((const char *)slab + list[i].offset);
        for (int64_t j = 0; j < list[i].numel; j++) {
            float want = (float)sl_op_init_value(&param->init, SEED, sl_rng_stream(param->name), j);
            if (memcmp(&want, &values[j], sizeof want) != 0)
                fail_msg("%s[%lld] is %g, not %g", param->name, (long long)j, (double)values[j],
                         (double)want);
        }
    }
}

static void any_number_of_threads(void **state) {
    struct pipe_case c;
    (void)state;
    /* A tensor of several buffers that ends inside a piece; states; constants. */
    pipe_case_open(&c, "model m\nsize N = 601\ninput x : float[B, N]\ninput y : float[B, N]\n"
                       "param w[N, 997] ~ normal(0.3)\nparam u[997, N] ~ uniform(-2, 3)\n"
                       "param g[N] ~ ones\nparam h[N] ~ zeros\nstate mean[N] ~ zeros\n"
                       "state var[N] ~ ones\n"
                       "loss mse(batchnorm(matmul(matmul(x, w), u), g, h, mean, var), y)\n");
    for (int threads = 1; threads <= 5; threads += 2) {
        struct sl_device_config config = {.threads = threads};
        struct sl_device *device;
        assert_int_equal(sl_device_find("cpu")->open(&config, &device), SL_OK);
        struct sl_worker *w = open_worker(&c, device);
        const struct sl_program *p = w->programs[SL_WORKER_FULL];
        assert_int_equal(p->param_count, 4);
        assert_int_equal(p->state_count, 2);
        for (int v = 0; v < VERSIONS; v++)
            check_values(p->params, p->param_count, c.graph->params.at, w->param[v]);
        check_values(p->states, p->state_count, c.graph->states.at, w->state);
        sl_run_worker_close(w);
        device->row->close(device);
    }
    pipe_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
