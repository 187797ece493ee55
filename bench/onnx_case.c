/* Cases of the ONNX backend suite, one folder each (bench/onnx.sh writes them):
 *
 *   CASE/model.onnx          every input is an input
 *   CASE/fixed.onnx          inputs of whole numbers are constants; tried when model.onnx is refused
 *   CASE/0/input_N.pb, output_N.pb, tolerance ("rtol atol")
 *
 * Each case runs in a process of its own, with the reference kernels and on the CPU device. Prints
 * "CASE RESULT message": passed, refused, wrong or crashed.
 */
#include "device/device.h"
#include "onnx/import.h"
#include "op/registry.h"
#include "proto/proto.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum result { PASSED, REFUSED, WRONG };

struct the_case {
    char dir[2048];
    struct sl_proto_file *shape; /* of model.onnx or fixed.onnx: names of inputs and outputs */
    struct sl_graph *graph;
    struct sl_ref_run *run;
    double rtol, atol;
    char why[1024];
};

static sl_err read_tensor(const char *path, struct sl_proto_file **file,
                          const struct sl_proto_tensor **tensor) {
    char *bytes;
    size_t length;
    SL_TRY(sl_file_read(path, (int64_t)1 << 30, &bytes, &length));
    sl_err err = sl_proto_parse_tensor(path, bytes, length, file, tensor);
    free(bytes);
    return err;
}

static double *values_of(struct sl_proto_file *file, const struct sl_proto_tensor *t) {
    double *out = calloc((size_t)t->count + 1, sizeof *out);
    int64_t *whole = calloc((size_t)t->count + 1, sizeof *whole);
    sl_err err = SL_OK;
    if (sl_proto_type_is_float(t->type)) {
        err = sl_proto_read_floats(file, t, 0, t->count, out);
    } else {
        err = sl_proto_read_ints(file, t, 0, t->count, whole);
        for (int64_t i = 0; i < t->count; i++)
            out[i] = (double)whole[i];
    }
    free(whole);
    if (err == SL_OK)
        return out;
    free(out);
    return NULL;
}

static const struct sl_input *input_named(const struct sl_graph *graph, int64_t position) {
    return position < graph->inputs.count ? &graph->inputs.at[position] : NULL;
}

/* The tensors of a case in the order of the file's inputs, without those that are constants. */
static sl_err fill_inputs(struct the_case *c) {
    int64_t next = 0;
    for (int64_t i = 0; i < c->shape->graph->in_count; i++) {
        char path[4096];
        struct sl_proto_file *file;
        const struct sl_proto_tensor *t;
        bool constant = false;
        for (int64_t k = 0; k < c->shape->graph->tensor_count; k++)
            constant |= strcmp(c->shape->graph->tensors[k].name, c->shape->graph->in[i].name) == 0;
        if (constant)
            continue;
        const struct sl_input *input = input_named(c->graph, next++);
        snprintf(path, sizeof path, "%s/0/input_%s.pb", c->dir, c->shape->graph->in[i].name);
        SL_TRY(read_tensor(path, &file, &t));
        double *values = values_of(file, t);
        if (!input || !values)
            return sl_fail(SL_ERR_REFUSED, "input %s has type %s", c->shape->graph->in[i].name,
                           sl_proto_type_name(t->type));
        struct sl_array *array = &c->run->arrays[input->value];
        if (sl_graph_shape_numel(&array->shape, 1) != t->count)
            return sl_fail(SL_ERR_INPUT, "input %s has %lld elements", input->name,
                           (long long)t->count);
        for (int64_t k = 0; k < t->count; k++) {
            if (array->i && fabs(values[k]) > INT32_MAX)
                return sl_fail(SL_ERR_REFUSED, "whole numbers beyond 2^31");
            if (array->f)
                array->f[k] = (double)(float)values[k];
            else
                array->i[k] = (int32_t)values[k];
        }
        free(values);
        sl_proto_close(file);
    }
    return SL_OK;
}

/* Indices out of range stop a program; the readers of data refuse them before. */
static bool close_to(double a, double b, double rtol, double atol) {
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b;
    return fabs(a - b) <= atol + rtol * fabs(b);
}

static bool compare(struct the_case *c, int64_t output, const float *got_f, const int32_t *got_i,
                    const char *with) {
    char path[4096];
    struct sl_proto_file *file;
    const struct sl_proto_tensor *t;
    const struct sl_output *out = &c->graph->outputs.at[output];
    const struct sl_array *array = &c->run->arrays[out->value];
    snprintf(path, sizeof path, "%s/0/output_%s.pb", c->dir, c->shape->graph->out[output].name);
    if (read_tensor(path, &file, &t) != SL_OK) {
        snprintf(c->why, sizeof c->why, "%s", sl_err_message());
        return false;
    }
    double *want = values_of(file, t);
    bool same =
        want && t->rank == array->shape.rank && t->count == sl_graph_shape_numel(&array->shape, 1);
    for (int i = 0; same && i < t->rank; i++)
        same = t->dim[i] == array->shape.dim[i];
    if (!same)
        snprintf(c->why, sizeof c->why, "%s: output %s has another shape or type", with, out->name);
    for (int64_t i = 0; same && i < t->count; i++) {
        double got = got_f      ? (double)got_f[i]
                     : got_i    ? got_i[i]
                     : array->f ? array->f[i]
                                : (double)array->i[i];
        same = close_to(got, want[i], c->rtol, c->atol);
        if (!same)
            snprintf(c->why, sizeof c->why, "%s: output %s[%lld] is %.9g, expected %.9g", with,
                     out->name, (long long)i, got, want[i]);
    }
    free(want);
    sl_proto_close(file);
    return same;
}

/* ---- the CPU device ---- */

struct runner {
    struct sl_device *device;
    struct sl_program *program;
    struct sl_exec *exec;
    void *base[SL_SPACE_COUNT];
};

static sl_err put(const struct runner *r, enum sl_space space, int64_t offset,
                  const struct sl_array *array) {
    int64_t count = sl_graph_shape_numel(&array->shape, 1);
    float *wide = calloc((size_t)count + 1, sizeof *wide);
    for (int64_t i = 0; array->f && i < count; i++)
        wide[i] = (float)array->f[i];
    if (array->i)
        memcpy(wide, array->i, sizeof *array->i * (size_t)count);
    sl_err err = r->device->row->upload(r->device, SL_STREAM_COMPUTE,
                                        (char *)r->base[space] + offset, wide, count * 4);
    free(wide);
    return err;
}

static sl_err run_cpu(struct the_case *c, struct runner *r) {
    const struct sl_device_row *row = sl_device_find("cpu");
    struct sl_program_spec spec = {
        .graph = c->graph, .samples = 1, .has_kernel = row->has_kernel, .dtype = SL_FLOAT};
    SL_TRY(row->open(&(struct sl_device_config){.threads = 1}, &r->device));
    SL_TRY(sl_pass_program_build(&spec, &r->program));
    struct sl_program *p = r->program;
    SL_TRY(row->bind(r->device, p, &r->exec));
    int64_t bytes[SL_SPACE_COUNT] = {[SL_SPACE_PARAM] = p->param_bytes,
                                     [SL_SPACE_STATE] = p->state_bytes,
                                     [SL_SPACE_SLOT] = p->slot_bytes,
                                     [SL_SPACE_WORK] = p->work_bytes};
    for (int s = 0; s < SL_SPACE_COUNT; s++)
        SL_TRY(row->alloc(r->device, bytes[s] + 64, &r->base[s]));
    for (int i = 0; i < p->param_count; i++)
        SL_TRY(put(r, SL_SPACE_PARAM, p->params[i].offset,
                   &c->run->arrays[c->graph->params.at[p->params[i].param].value]));
    for (int i = 0; i < p->state_count; i++)
        SL_TRY(put(r, SL_SPACE_STATE, p->states[i].offset,
                   &c->run->arrays[c->graph->states.at[p->states[i].param].value]));
    for (int i = 0; i < p->inputs.count; i++)
        SL_TRY(put(r, p->inputs.at[i].operand.space, p->inputs.at[i].operand.offset,
                   &c->run->arrays[p->inputs.at[i].value]));
    struct sl_device_args args = {.phase = SL_PHASE_F};
    memcpy(args.base, r->base, sizeof args.base);
    return row->run(r->device, r->exec, &args);
}

static bool compare_cpu(struct the_case *c, struct runner *r) {
    for (int i = 0; i < r->program->outputs.count; i++) {
        const struct sl_program_port *port = &r->program->outputs.at[i];
        int64_t count = port->operand.numel;
        void *got = calloc((size_t)count + 1, 4);
        sl_err err = r->device->row->download(
            r->device, SL_STREAM_COMPUTE, got,
            (char *)r->base[port->operand.space] + port->operand.offset, count * 4);
        bool whole = port->operand.dtype == SL_INT;
        bool same =
            err == SL_OK && compare(c, port->index, whole ? NULL : got, whole ? got : NULL, "cpu");
        free(got);
        if (!same)
            return false;
    }
    return true;
}

/* ---- a case ---- */

static sl_err import(struct the_case *c, const char *name) {
    char path[4096];
    struct sl_onnx_imported imported;
    struct sl_onnx_options options = {.forward = true};
    snprintf(path, sizeof path, "%s/%s.onnx", c->dir, name);
    SL_TRY(sl_proto_open(path, &c->shape));
    SL_TRY(sl_onnx_import(path, &options, &imported));
    c->graph = imported.graph;
    sl_onnx_attach(&imported, c->graph);
    return SL_OK;
}

static enum result refused(struct the_case *c) {
    snprintf(c->why, sizeof c->why, "%s", sl_err_message());
    return REFUSED;
}

static enum result run_case(struct the_case *c) {
    char path[4096];
    if (import(c, "model") != SL_OK && import(c, "fixed") != SL_OK)
        return refused(c);
    snprintf(path, sizeof path, "%s/tolerance", c->dir);
    FILE *file = fopen(path, "r");
    c->rtol = 1e-3;
    c->atol = 1e-7;
    if (file && fscanf(file, "%lf %lf", &c->rtol, &c->atol) != 2)
        return refused(c);
    if (file)
        fclose(file);
    c->run = sl_op_ref_open(c->graph, 1, 1);
    if (fill_inputs(c) != SL_OK)
        return refused(c);
    sl_op_ref_nodes(c->run, 0, c->graph->nodes.count);
    for (int64_t i = 0; i < c->graph->outputs.count; i++)
        if (!compare(c, i, NULL, NULL, "reference"))
            return WRONG;
    struct runner runner = {0};
    if (run_cpu(c, &runner) != SL_OK) {
        snprintf(c->why, sizeof c->why, "cpu: %s", sl_err_message());
        return WRONG;
    }
    return compare_cpu(c, &runner) ? PASSED : WRONG;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"passed", "refused", "wrong"};
    int count[4] = {0};
    for (int i = 1; i < argc; i++) {
        const char *slash = strrchr(argv[i], '/');
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            static struct the_case c;
            snprintf(c.dir, sizeof c.dir, "%s", argv[i]);
            enum result result = run_case(&c);
            printf("%s %s %s\n", slash ? slash + 1 : argv[i], names[result], c.why);
            fflush(stdout);
            _exit((int)result);
        }
        int status = 0;
        waitpid(child, &status, 0);
        int result = WIFEXITED(status) && WEXITSTATUS(status) < 3 ? WEXITSTATUS(status) : 3;
        if (result == 3)
            printf("%s crashed signal %d\n", slash ? slash + 1 : argv[i],
                   WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        count[result]++;
    }
    printf("passed %d, refused by name %d, wrong %d, crashed %d\n", count[0], count[1], count[2],
           count[3]);
    return count[2] || count[3];
}
