/* Summary of an imported planning problem, as text and as JSON. */
#include "base/json.h"
#include "cost/layers.h"

struct sums {
    double forward, backward, cpu, output_bytes, params_bytes, size_bytes;
    /* of the first option with tensor 1 */
    double option_time, option_params, option_micro, option_fixed;
    int64_t options;
    int tensor_max, backward_layers, inputs, outputs;
};

static struct sums add_up(const struct sl_layers *layers) {
    struct sums sums = {0};
    for (int i = 0; i < layers->count; i++) {
        const struct sl_layer *layer = &layers->at[i];
        sums.forward += layer->forward;
        sums.backward += layer->backward;
        sums.cpu += layer->cpu;
        sums.output_bytes += layer->output_bytes;
        sums.params_bytes += layer->params_bytes;
        sums.size_bytes += layer->size_bytes;
        sums.backward_layers += layer->is_backward;
        sums.inputs += !layer->in_count;
        sums.outputs += !layer->out_count;
        sums.options += layer->option_count;
        for (int o = 0; o < layer->option_count; o++)
            if (layer->options[o].tensor > sums.tensor_max)
                sums.tensor_max = layer->options[o].tensor;
        if (layer->option_count) {
            sums.option_time += layer->options[0].time;
            sums.option_params += layer->options[0].params_bytes;
            sums.option_micro += layer->options[0].micro_bytes;
            sums.option_fixed += layer->options[0].fixed_bytes;
        }
    }
    return sums;
}

static void put_bytes(struct sl_text *out, const char *what, double bytes) {
    char human[SL_HUMAN_BYTES];
    if (bytes > 0)
        sl_text_printf(out, "%-10s %s\n", what,
                       sl_human_bytes(bytes < 9e18 ? (int64_t)bytes : INT64_MAX, human));
}

static void put_time(struct sl_text *out, const char *what, double time) {
    if (time > 0)
        sl_text_printf(out, "%-10s %.6g\n", what, time);
}

void sl_cost_layers_summary(const struct sl_layers *layers, struct sl_text *out) {
    struct sums sums = add_up(layers);
    sl_text_printf(out, "%-10s %s\n", "format", layers->format);
    sl_text_printf(out, "%-10s %d", "layers", layers->count);
    if (sums.backward_layers)
        sl_text_printf(out, " (%d of the backward pass)", sums.backward_layers);
    sl_text_printf(out, ", %d edges, %d inputs, %d outputs\n", layers->edge_count, sums.inputs,
                   sums.outputs);
    if (sums.options)
        sl_text_printf(out, "%-10s %lld, tensor parallel up to %d\n", "options",
                       (long long)sums.options, sums.tensor_max);
    put_time(out, "forward", sums.forward);
    put_time(out, "backward", sums.backward);
    put_time(out, "on a CPU", sums.cpu);
    put_time(out, "time", sums.option_time);
    put_bytes(out, "outputs", sums.output_bytes);
    put_bytes(out, "weights", sums.params_bytes + sums.option_params);
    put_bytes(out, "memory", sums.size_bytes);
    put_bytes(out, "per micro", sums.option_micro);
    put_bytes(out, "fixed", sums.option_fixed);
    if (layers->machine.devices)
        sl_text_printf(out, "%-10s %lld\n", "devices", (long long)layers->machine.devices);
    put_bytes(out, "of memory", layers->machine.memory_bytes);
}

static void put_positive(struct sl_json_out *json, const char *key, double value) {
    if (value > 0)
        sl_json_put_double(json, key, value);
}

void sl_cost_layers_summary_json(const struct sl_layers *layers, struct sl_text *out) {
    struct sums sums = add_up(layers);
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "format", layers->format);
    sl_json_put_int(&json, "layers", layers->count);
    sl_json_put_int(&json, "backward_layers", sums.backward_layers);
    sl_json_put_int(&json, "edges", layers->edge_count);
    sl_json_put_int(&json, "inputs", sums.inputs);
    sl_json_put_int(&json, "outputs", sums.outputs);
    sl_json_put_int(&json, "options", sums.options);
    sl_json_put_int(&json, "tensor_most", sums.tensor_max);
    put_positive(&json, "forward", sums.forward);
    put_positive(&json, "backward", sums.backward);
    put_positive(&json, "cpu", sums.cpu);
    put_positive(&json, "time", sums.option_time);
    put_positive(&json, "output_bytes", sums.output_bytes);
    put_positive(&json, "params_bytes", sums.params_bytes + sums.option_params);
    put_positive(&json, "size_bytes", sums.size_bytes);
    put_positive(&json, "micro_bytes", sums.option_micro);
    put_positive(&json, "fixed_bytes", sums.option_fixed);
    put_positive(&json, "devices", (double)layers->machine.devices);
    put_positive(&json, "cpus", (double)layers->machine.cpus);
    put_positive(&json, "micro", (double)layers->machine.micro);
    put_positive(&json, "memory_bytes", layers->machine.memory_bytes);
    put_positive(&json, "bandwidth", layers->machine.bandwidth);
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}
