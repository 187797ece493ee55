/* The harness of op cases: parses shapes and attributes, builds the graph of a case, compares
 * gradients with finite differences. */
#include "op_cases.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>

extern const struct sl_op_group sl_op_cases_basic;
extern const struct sl_op_group sl_op_cases_image;
extern const struct sl_op_group sl_op_cases_index;
extern const struct sl_op_group sl_op_cases_layers;
extern const struct sl_op_group sl_op_cases_pointwise;
extern const struct sl_op_group sl_op_cases_sequence;

const struct sl_op_group *const sl_op_groups[] = {
    &sl_op_cases_basic,  &sl_op_cases_image,     &sl_op_cases_index,
    &sl_op_cases_layers, &sl_op_cases_pointwise, &sl_op_cases_sequence,
};
const int sl_op_group_count = SL_COUNT(sl_op_groups);

enum { SEED = 20241, FIRST_SAMPLE = 5 };

/* ---- texts ---- */

static const char *take_dim(const char *at, struct sl_dim *dim) {
    *dim = (struct sl_dim){1, *at == 'B'};
    if (dim->batch && *++at != '*')
        return at;
    char *end;
    dim->n = strtoll(at + dim->batch, &end, 10);
    return end;
}

sl_err sl_case_shape(const char *text, struct sl_shape *out) {
    const char *at = text + (*text == '[');
    *out = (struct sl_shape){0};
    while (*at && *at != ']') {
        struct sl_dim dim;
        if (out->rank == SL_MAX_RANK)
            return sl_fail(SL_ERR_INPUT, "shape '%s' has too many sizes", text);
        at = take_dim(at, &dim);
        sl_graph_shape_set(out, out->rank++, dim);
        at += *at == ',';
    }
    return SL_OK;
}

static sl_err take_attr(const struct sl_attr_desc *desc, const char *text, union sl_attr *attr) {
    memset(attr, 0, sizeof *attr);
    switch (desc->kind) {
    case SL_ATTR_INT:
    case SL_ATTR_BOOL: return sl_parse_int(text, desc->name, &attr->i);
    case SL_ATTR_FLOAT: return sl_parse_double(text, desc->name, &attr->f);
    case SL_ATTR_SHAPE: return sl_case_shape(text, &attr->shape);
    case SL_ATTR_ENUM:
        attr->i = sl_graph_attr_choice(desc, sl_str(text));
        return attr->i >= 0 ? SL_OK : sl_fail(SL_ERR_INPUT, "no choice '%s'", text);
    case SL_ATTR_INTS:
        for (const char *at = text; *at && attr->ints.count < SL_MAX_RANK;) {
            char *end;
            attr->ints.at[attr->ints.count++] = strtoll(at, &end, 10);
            at = end + (*end == ',');
        }
        return SL_OK;
    }
    return sl_fail(SL_ERR_INPUT, "kind");
}

sl_err sl_case_attrs(const struct sl_op *op, const char *text, union sl_attr attr[SL_MAX_ATTR]) {
    unsigned given = 0;
    for (const char *at = text ? text : ""; *at; at += strspn(at, " ")) {
        char name[32] = "", value[64] = "";
        int used = 0;
        if (sscanf(at, "%31[^=]=%63[^ ]%n", name, value, &used) < 2)
            return sl_fail(SL_ERR_INPUT, "attributes '%s' of %s do not parse", text, op->name);
        at += used;
        int row = sl_graph_op_find_attr(op, sl_str(name));
        if (row < 0)
            return sl_fail(SL_ERR_INPUT, "%s has no attribute '%s'", op->name, name);
        SL_TRY(take_attr(&op->attrs[row], value, &attr[row]));
        given |= 1u << row;
    }
    return sl_graph_op_defaults(op, given, attr);
}

/* ---- values ---- */

double sl_case_float(const struct sl_case_input *in, uint64_t stream, int64_t index,
                     int64_t count) {
    int64_t place = sl_rng_permute(SEED, stream, index, count);
    return (float)(in->low + (in->high - in->low) * ((double)place + 0.3) / (double)count);
}

static int32_t mask_at(int64_t row, int64_t column, int64_t columns, uint64_t stream) {
    int64_t ones = row % 4 == 0   ? 1 + (int64_t)sl_rng_below(SEED, stream, (uint64_t)row, columns)
                   : row % 4 == 1 ? columns
                                  : 0;
    if (row % 4 == 2)
        return (int32_t)sl_rng_below(SEED, stream, (uint64_t)(row * columns + column), 2);
    return column < ones;
}

static void fill(const struct sl_case_input *in, const struct sl_array *array, uint64_t stream) {
    int64_t count = sl_graph_shape_numel(&array->shape, 1);
    int64_t columns = array->shape.rank ? array->shape.dim[array->shape.rank - 1] : 1;
    for (int64_t i = 0; i < count; i++) {
        if (array->f)
            array->f[i] = sl_case_float(in, stream, i, count);
        else if (in->role == SL_CASE_MASK)
            array->i[i] = mask_at(i / columns, i % columns, columns, stream);
        else if (in->role == SL_CASE_SLOTS)
            array->i[i] = i % 5 == 4 ? -1 : (int32_t)sl_rng_permute(SEED, stream, i, count);
        else if (in->role == SL_CASE_RANGES)
            array->i[i] = (const int32_t[]){0, 2, 2, 2, 2, 4}[i % 6];
        else if (in->mark && i % 3 == 1)
            array->i[i] = (int32_t)in->mark;
        else
            array->i[i] = (int32_t)sl_rng_below(SEED, stream, (uint64_t)i, in->below);
    }
}

/* ---- building ---- */

static sl_err add_source(struct sl_graph *graph, const struct sl_case_input *in, int index,
                         int *out) {
    struct sl_shape shape;
    struct sl_init zero = {SL_INIT_CONST, 0, 0};
    char name[32];
    snprintf(name, sizeof name, "in%d", index);
    SL_TRY(sl_case_shape(in->shape, &shape));
    switch (in->role) {
    case SL_CASE_PARAM: return sl_graph_param(graph, name, shape, zero, out);
    case SL_CASE_STATE: return sl_graph_state(graph, name, shape, zero, out);
    case SL_CASE_INT:
    case SL_CASE_SLOTS:
    case SL_CASE_RANGES:
    case SL_CASE_MASK: return sl_graph_input(graph, name, SL_INT, shape, in->below, out);
    case SL_CASE_ABSENT: *out = -1; return SL_OK;
    default: return sl_graph_input(graph, name, SL_FLOAT, shape, 0, out);
    }
}

sl_err sl_case_apply(struct sl_graph *graph, const struct sl_op *op, const struct sl_case_input *in,
                     const char *attrs) {
    int value[SL_CASE_MAX_IN], count = 0, out;
    union sl_attr attr[SL_MAX_ATTR] = {{0}};
    for (; count < SL_CASE_MAX_IN && in[count].role != SL_CASE_END; count++)
        SL_TRY(add_source(graph, &in[count], count, &value[count]));
    SL_TRY(sl_case_attrs(op, attrs, attr));
    struct sl_node_spec spec = {.op = op, .in_count = count, .in = value, .attr = attr};
    return sl_graph_node(graph, &spec, &out);
}

static sl_err add_inputs(struct sl_trial *t) {
    for (int i = 0; i < SL_CASE_MAX_IN && t->the->in[i].role != SL_CASE_END; i++) {
        SL_TRY(add_source(t->graph, &t->the->in[i], i, &t->source[i]));
        t->value[i] = t->source[i];
        t->in_count++;
        if (t->the->in[i].role != SL_CASE_DATA)
            continue;
        char name[32];
        int sum[2] = {t->source[i]};
        snprintf(name, sizeof name, "shift%d", i);
        SL_TRY(sl_graph_param(t->graph, name, (struct sl_shape){0}, (struct sl_init){0}, &sum[1]));
        SL_TRY(sl_graph_apply(t->graph, "add", 2, sum, NULL, &t->value[i]));
    }
    return SL_OK;
}

static sl_err add_losses(struct sl_trial *t, int first_out) {
    int wanted = t->the->outputs ? t->the->outputs : 1;
    for (int i = 0; i < SL_MAX_OUT; i++)
        t->weights[i] = -1;
    for (int i = 0; i < wanted; i++) {
        char name[32];
        struct sl_shape shape = sl_graph_value(t->graph, first_out + i)->shape;
        int pair[2] = {first_out + i}, out;
        if (i == 0 && sl_graph_value(t->graph, first_out)->dtype == SL_INT)
            SL_TRY(sl_graph_apply(t->graph, "to_float", 1, &first_out, NULL, &pair[0]));
        snprintf(name, sizeof name, "weights%d", i);
        SL_TRY(sl_graph_input(t->graph, name, SL_FLOAT, shape, 0, &t->weights[i]));
        pair[1] = t->weights[i];
        SL_TRY(sl_graph_apply(t->graph, "mul", 2, pair, NULL, &out));
        SL_TRY(sl_graph_apply(t->graph, "reduce_sum", 1, &out, NULL, &out));
        SL_TRY(sl_graph_loss(t->graph, name, out, 1.0));
    }
    return SL_OK;
}

/* The value that holds the gradient of an op input; see the drawing in op_cases.h. */
static int find_grad(const struct sl_trial *t, int input) {
    const struct sl_graph *graph = t->graph;
    bool data = t->the->in[input].role == SL_CASE_DATA;
    for (int64_t i = 0; i < graph->grads.count; i++) {
        const struct sl_param_grad *grad = &graph->grads.at[i];
        const struct sl_node *user = &graph->nodes.at[grad->node];
        if (!data && user->in[grad->input] == t->source[input] && grad->node >= t->node)
            return grad->value;
        if (data && user->out[0] == t->value[input]) {
            const struct sl_value *value = sl_graph_value(graph, grad->value);
            bool summed =
                value->kind == SL_VALUE_NODE && graph->nodes.at[value->node].of == grad->node;
            return summed ? graph->nodes.at[value->node].in[0] : grad->value;
        }
    }
    return -1;
}

/* Fill outputs with garbage, as reused memory has: this detects a kernel that adds to an output
 * without clearing it. */
static void poison(struct sl_trial *t) {
    for (int64_t v = 0; v < t->graph->values.count; v++) {
        const struct sl_array *array = &t->run->arrays[v];
        int64_t count = sl_graph_shape_numel(&array->shape, 1);
        if (t->graph->values.at[v].kind != SL_VALUE_NODE)
            continue;
        for (int64_t i = 0; i < count; i++) {
            if (array->f)
                array->f[i] = NAN;
            else
                array->i[i] = -7;
        }
    }
}

static void fill_arrays(struct sl_trial *t) {
    char name[96];
    poison(t);
    for (int i = 0; i < t->in_count; i++) {
        snprintf(name, sizeof name, "%s.%s.in%d", t->the->op, t->the->label, i);
        if (t->source[i] >= 0)
            fill(&t->the->in[i], &t->run->arrays[t->source[i]], sl_rng_stream(name));
    }
    for (int i = 0; i < SL_MAX_OUT; i++) {
        snprintf(name, sizeof name, "%s.%s.dout%d", t->the->op, t->the->label, i);
        if (t->weights[i] >= 0)
            fill(&(struct sl_case_input){.low = -0.7, .high = 1.3}, &t->run->arrays[t->weights[i]],
                 sl_rng_stream(name));
    }
}

sl_err sl_trial_open(struct sl_trial *t, const struct sl_op_case *the, int64_t batch,
                     sl_find_op *find) {
    union sl_attr attr[SL_MAX_ATTR] = {{0}};
    int out;
    *t = (struct sl_trial){.the = the, .op = find(sl_str(the->op))};
    if (!t->op)
        return sl_fail(SL_ERR_INPUT, "no op '%s'", the->op);
    t->graph = sl_graph_open(the->label, find);
    SL_TRY(add_inputs(t));
    SL_TRY(sl_case_attrs(t->op, the->attrs, attr));
    struct sl_node_spec spec = {.op = t->op, .in_count = t->in_count, .in = t->value, .attr = attr};
    t->node = (int)t->graph->nodes.count;
    SL_TRY(sl_graph_node(t->graph, &spec, &out));
    t->out = out;
    t->out_count = t->op->expand ? 1 : t->graph->nodes.at[t->node].out_count;
    int attr_count = sl_graph_op_attr_count(t->op);
    if (attr_count)
        memcpy(t->attr, t->op->expand ? attr : t->graph->nodes.at[t->node].attr,
               sizeof attr[0] * (size_t)attr_count);
    SL_TRY(add_losses(t, out));
    SL_TRY(sl_graph_check(t->graph));
    SL_TRY(sl_graph_autodiff(t->graph));
    for (int i = 0; i < t->in_count; i++)
        t->grad[i] = find_grad(t, i);
    t->run = sl_op_ref_open(t->graph, batch, SEED);
    t->run->first_sample = FIRST_SAMPLE;
    fill_arrays(t);
    return SL_OK;
}

void sl_trial_close(struct sl_trial *t) {
    sl_op_ref_close(t->run);
    sl_graph_close(t->graph);
}

/* ---- running ---- */

double sl_trial_forward(struct sl_trial *t) {
    sl_op_ref_nodes(t->run, 0, t->graph->forward_count);
    return sl_op_ref_loss(t->run);
}

void sl_trial_backward(struct sl_trial *t) {
    sl_op_ref_nodes(t->run, t->graph->forward_count, t->graph->nodes.count);
}

const struct sl_array *sl_trial_array(const struct sl_trial *t, int value) {
    return &t->run->arrays[value];
}

/* The error of central differences with step h is h^2 f'''/6 (about 1e-11 here) plus the rounding
 * of the loss over h (1e-16 x 10 / 1e-5 = 1e-10). The tolerance 1e-7 exceeds both and is far below
 * the effect of a wrong term. */
static double difference(struct sl_trial *t, double *x) {
    const double h = 1e-5, at = *x;
    *x = at + h;
    double up = sl_trial_forward(t);
    *x = at - h;
    double down = sl_trial_forward(t);
    *x = at;
    return (up - down) / (2 * h);
}

static double compare(struct sl_trial *t, int input) {
    const struct sl_array *source = sl_trial_array(t, t->source[input]);
    const double *grad = sl_trial_array(t, t->grad[input])->f;
    double worst = 0, scale = 1e-3; /* lower bound: a zero gradient has no relative error */
    for (int64_t j = 0; j < sl_graph_shape_numel(&source->shape, 1); j++) {
        double want = difference(t, &source->f[j]);
        double off = fabs(want - grad[j]);
        worst = isnan(off) || off > worst ? off : worst;
        scale = fmax(scale, fmax(fabs(want), fabs(grad[j])));
    }
    return worst / scale;
}

sl_err sl_trial_check(struct sl_trial *t, double *worst) {
    sl_trial_forward(t);
    sl_trial_backward(t);
    *worst = 0;
    for (int i = 0; i < t->in_count; i++) {
        if (t->the->in[i].role != SL_CASE_DATA && t->the->in[i].role != SL_CASE_PARAM)
            continue;
        if (t->grad[i] < 0)
            return sl_fail(SL_ERR_REFUSED, "%s.%s: no gradient for input %d", t->the->op,
                           t->the->label, i);
        double error = compare(t, i);
        if (isnan(error) || error > *worst)
            *worst = error;
    }
    return SL_OK;
}

static sl_err check_tag(const struct sl_trial *t, int input, enum sl_graph_pass want) {
    const struct sl_value *value = sl_graph_value(t->graph, t->grad[input]);
    if (value->kind != SL_VALUE_NODE || t->graph->nodes.at[value->node].of != t->node)
        return SL_OK; /* the gradient is another value: no node was emitted */
    if (t->graph->nodes.at[value->node].pass != want)
        return sl_fail(SL_ERR_REFUSED, "%s.%s: the gradient of input %d is not tagged %c",
                       t->the->op, t->the->label, input, "FIW"[want]);
    return SL_OK;
}

sl_err sl_trial_check_tags(const struct sl_trial *t) {
    bool data = false;
    for (int i = 0; i < t->in_count; i++)
        data |= t->the->in[i].role == SL_CASE_DATA;
    for (int i = 0; i < t->in_count; i++) {
        if (t->grad[i] < 0)
            continue;
        if (t->the->in[i].role == SL_CASE_DATA)
            SL_TRY(check_tag(t, i, SL_PASS_I));
        else if (data)
            SL_TRY(check_tag(t, i, SL_PASS_W));
    }
    for (int64_t n = t->graph->forward_count; n < t->graph->nodes.count; n++)
        if (t->graph->nodes.at[n].of < 0 || t->graph->nodes.at[n].pass == SL_PASS_F)
            return sl_fail(SL_ERR_REFUSED, "%s.%s: backward node %lld has no tag", t->the->op,
                           t->the->label, (long long)n);
    return SL_OK;
}
