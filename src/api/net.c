/* The public interface to models: checks arguments, then calls graph and op.
 *
 * Text arguments become a statement of the model language, so that names, shapes and attributes
 * mean the same in C and in model files.
 */
#include "sluice/net.h"

#include "api/handles.h"
#include "graph/stats.h"
#include "op/registry.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct sl_model_options plain = {.find_op = sl_op_find, .nearest_op = sl_op_nearest};

/* Is it a name as the lexer defines it: letters, digits, '_' and '.', not beginning with a
 * digit? */
static sl_err check_name(const char *name, const char *what, bool dashes) {
    bool good = name && (isalpha((unsigned char)*name) || *name == '_') &&
                strlen(name) < SL_NAME_TEXT / 2 && !strstr(name, "..");
    for (const char *at = name; good && *at; at++)
        good = isalnum((unsigned char)*at) || *at == '_' || *at == '.' || (dashes && *at == '-');
    if (good)
        return SL_OK;
    return sl_fail(SL_ERR_USAGE, "'%s' cannot be the name of %s: use letters, digits, '_' and '.'",
                   name ? name : "(null)", what);
}

/* Checks that the net is open and can still grow. */
static sl_err check_open(const struct sl_net *net, const char *function) {
    SL_TRY(sl_api_check(net, SL_API_IS_NET, function));
    if (net->graph->checked)
        return sl_fail(SL_ERR_USAGE, "the net has been checked and is read-only");
    return SL_OK;
}

static sl_err check_tensor(const struct sl_net *net, int tensor) {
    if (tensor >= 0 && tensor < net->graph->values.count)
        return SL_OK;
    return sl_fail(SL_ERR_USAGE, "there is no tensor %d in this net", tensor);
}

static struct sl_net *new_net(struct sl_graph *graph) {
    struct sl_net *net = sl_api_handle_new(SL_API_IS_NET, sizeof *net);
    net->graph = graph;
    net->scope = "";
    return net;
}

sl_err sl_net_open(const char *name, struct sl_net **out) {
    SL_API_GIVEN(out);
    *out = NULL;
    SL_TRY(check_name(name, "a net", true));
    *out = new_net(sl_graph_open(name, sl_op_find));
    return SL_OK;
}

void sl_net_close(struct sl_net *net) {
    if (!sl_api_handle_end(net, SL_API_IS_NET, __func__))
        return;
    sl_text_free(&net->text);
    sl_graph_close(net->graph);
    free(net);
}

/* ---- reading ---- */

static sl_err read_net(const char *file, const struct sl_str *text,
                       struct sl_model_options *options, const char *sets, struct sl_net **out) {
    struct sl_arena arena = {0};
    struct sl_graph *graph = NULL;
    sl_err err = SL_OK;
    *out = NULL;
    SL_TRY_OUT(sl_graph_model_parse_sets(sets ? sets : "", &arena, options));
    if (text)
        SL_TRY_OUT(sl_graph_model_read(file, text->at, text->length, options, &graph));
    else
        SL_TRY_OUT(sl_graph_model_read_file(file, options, &graph));
    *out = new_net(graph);
out:
    sl_arena_free(&arena);
    return err;
}

sl_err sl_net_read(const char *file, const char *models, const char *sets, struct sl_net **out) {
    const char *const dirs[] = {models, NULL};
    struct sl_model_options options = plain;
    SL_API_GIVEN(out);
    *out = NULL;
    SL_API_GIVEN(file);
    options.find_used = sl_graph_model_find_used;
    options.find_ctx = dirs;
    return read_net(file, NULL, &options, sets, out);
}

sl_err sl_net_read_text(const char *name, const char *text, size_t length, const char *sets,
                        struct sl_net **out) {
    struct sl_model_options options = plain;
    struct sl_str str = {text, length};
    SL_API_GIVEN(out);
    *out = NULL;
    SL_API_GIVEN(name);
    SL_API_GIVEN(text);
    return read_net(name, &str, &options, sets, out);
}

/* ---- building ---- */

/* Runs a statement in the net's scope and frees its text. */
static sl_err extend(struct sl_net *net, struct sl_text *text, struct sl_model_piece piece) {
    piece.text = text->at;
    piece.scope = net->scope;
    sl_err err = sl_graph_model_extend(net->graph, &plain, &piece);
    sl_text_free(text);
    return err;
}

/* Finds the value of a name that was just declared. */
static void find_declared(const struct sl_net *net, const char *name, int *tensor) {
    struct sl_text path = {0};
    sl_text_printf(&path, "%s%s%s", net->scope, *net->scope ? "." : "", name);
    const int64_t *found = sl_map_find(&net->graph->names, sl_str(path.at));
    SL_ASSERT(found);
    *tensor = (int)*found;
    sl_text_free(&path);
}

sl_err sl_net_input(struct sl_net *net, const char *name, const char *type, int *tensor) {
    struct sl_text text = {0};
    SL_TRY(check_open(net, __func__));
    SL_TRY(check_name(name, "an input", false));
    SL_API_GIVEN(type);
    SL_API_GIVEN(tensor);
    sl_text_printf(&text, "input %s : %s", name, type);
    SL_TRY(extend(net, &text, (struct sl_model_piece){0}));
    find_declared(net, name, tensor);
    return SL_OK;
}

static sl_err declare(struct sl_net *net, const char *kind, const char *name, const char *rest[2],
                      int *tensor) {
    struct sl_text text = {0};
    const char *shape = rest[0], *init = rest[1];
    SL_TRY(check_open(net, "sl_net_param or sl_net_state"));
    SL_API_GIVEN(shape);
    SL_API_GIVEN(init);
    SL_API_GIVEN(tensor);
    SL_TRY(check_name(name, "a parameter or state", false));
    sl_text_printf(&text, "%s %s%s ~ %s", kind, name, shape, init);
    SL_TRY(extend(net, &text, (struct sl_model_piece){0}));
    find_declared(net, name, tensor);
    return SL_OK;
}

sl_err sl_net_param(struct sl_net *net, const char *name, const char *shape, const char *init,
                    int *tensor) {
    return declare(net, "param", name, (const char *[]){shape, init}, tensor);
}

sl_err sl_net_state(struct sl_net *net, const char *name, const char *shape, const char *init,
                    int *tensor) {
    return declare(net, "state", name, (const char *[]){shape, init}, tensor);
}

sl_err sl_net_scope(struct sl_net *net, const char *scope) {
    SL_TRY(check_open(net, __func__));
    SL_API_GIVEN(scope);
    if (*scope)
        SL_TRY(check_name(scope, "a scope", false));
    net->scope = sl_arena_dup(&net->graph->arena, scope, strlen(scope));
    return SL_OK;
}

static sl_err check_op(const char *name) {
    const struct sl_op *op = sl_op_find(sl_str(name));
    if (op && !op->internal)
        return SL_OK;
    const char *nearest = sl_op_nearest(name);
    return sl_fail(SL_ERR_INPUT, "unknown op '%s'%s%s%s", name, nearest ? "; did you mean '" : "",
                   nearest ? nearest : "", nearest ? "'?" : "");
}

sl_err sl_net_op(struct sl_net *net, const char *op, const int *inputs, int count,
                 const char *attributes, int *tensor) {
    struct sl_text text = {0};
    SL_TRY(check_open(net, __func__));
    SL_API_GIVEN(op);
    SL_API_GIVEN(tensor);
    if (count > 0)
        SL_API_GIVEN(inputs);
    SL_TRY(check_op(op));
    if (count < 0 || count > SL_MAX_IN)
        return sl_fail(SL_ERR_USAGE, "%s: %d inputs, at most %d are possible", op, count,
                       SL_MAX_IN);
    for (int i = 0; i < count; i++)
        if (inputs[i] != -1)
            SL_TRY(check_tensor(net, inputs[i]));
    sl_text_printf(&text, "_r = %s(", op);
    for (int i = 0; i < count; i++) {
        sl_text_put(&text, i ? ", " : "");
        if (inputs[i] < 0)
            sl_text_put(&text, "none");
        else
            sl_text_printf(&text, "_v%d", i);
    }
    if (attributes && *attributes)
        sl_text_printf(&text, "%s%s", count ? ", " : "", attributes);
    sl_text_put(&text, ")");
    int made = -1;
    struct sl_model_piece piece = {.values = inputs, .value_count = count, .result = &made};
    SL_TRY(extend(net, &text, piece));
    *tensor = made;
    return SL_OK;
}

sl_err sl_net_op_output(const struct sl_net *net, int tensor, int index, int *out) {
    SL_API_OPEN(net, SL_API_IS_NET);
    SL_API_GIVEN(out);
    SL_TRY(check_tensor(net, tensor));
    const struct sl_value *value = sl_graph_value(net->graph, tensor);
    if (value->kind != SL_VALUE_NODE)
        return sl_fail(SL_ERR_USAGE, "tensor %d is not the result of an op", tensor);
    const struct sl_node *node = &net->graph->nodes.at[value->node];
    if (index < 0 || index >= node->out_count)
        return sl_fail(SL_ERR_USAGE, "%s has %d outputs, there is no %d", node->op->name,
                       node->out_count, index);
    *out = node->out[index];
    return SL_OK;
}

sl_err sl_net_output(struct sl_net *net, const char *name, int tensor) {
    SL_TRY(check_open(net, __func__));
    SL_TRY(check_name(name, "an output", false));
    SL_TRY(check_tensor(net, tensor));
    return sl_graph_output(net->graph, name, tensor);
}

sl_err sl_net_loss(struct sl_net *net, const char *name, int tensor, double weight) {
    SL_TRY(check_open(net, __func__));
    SL_TRY(check_name(name, "a loss", false));
    if (isinf(weight))
        return sl_fail(SL_ERR_USAGE, "loss '%s': the weight %g is not finite", name, weight);
    SL_TRY(check_tensor(net, tensor));
    return sl_graph_loss(net->graph, name, tensor, weight);
}

/* ---- queries ---- */

sl_err sl_net_check(struct sl_net *net) {
    SL_TRY(check_open(net, __func__));
    return sl_graph_check(net->graph);
}

sl_err sl_net_autodiff(struct sl_net *net) {
    SL_API_OPEN(net, SL_API_IS_NET);
    if (!net->graph->checked)
        return sl_fail(SL_ERR_USAGE, "the net is not checked yet: call sl_net_check first");
    if (net->graph->differentiated)
        return sl_fail(SL_ERR_USAGE, "the net has a backward pass already");
    return sl_graph_autodiff(net->graph);
}

double sl_net_stat(const struct sl_net *net, enum sl_net_stat stat) {
    struct sl_graph_stats s;
    if (sl_api_check(net, SL_API_IS_NET, __func__) != SL_OK)
        return NAN;
    sl_graph_stats(net->graph, &s);
    switch (stat) {
    case SL_NET_PARAMETERS: return (double)s.parameters;
    case SL_NET_STATES: return (double)s.states;
    case SL_NET_FORWARD_FLOPS: return s.forward_flops;
    case SL_NET_BACKWARD_FLOPS: return s.input_grad_flops + s.weight_grad_flops;
    case SL_NET_ACTIVATION_BYTES: return (double)s.activation_bytes;
    case SL_NET_NODES: return (double)s.forward_nodes;
    case SL_NET_BACKWARD_NODES: return (double)(s.input_grad_nodes + s.weight_grad_nodes);
    }
    (void)sl_fail(SL_ERR_USAGE, "sl_net_stat: there is no statistic %d", (int)stat);
    return NAN;
}

const char *sl_net_shape(struct sl_net *net, int tensor) {
    if (sl_api_check(net, SL_API_IS_NET, __func__) != SL_OK)
        return "";
    if (tensor < 0 || tensor >= net->graph->values.count)
        return "";
    return sl_graph_shape_text(&sl_graph_value(net->graph, tensor)->shape, net->shape);
}

const char *sl_net_print(struct sl_net *net) {
    if (sl_api_check(net, SL_API_IS_NET, __func__) != SL_OK)
        return NULL;
    net->text.length = 0;
    sl_graph_model_write(net->graph, &net->text);
    return net->text.at;
}
