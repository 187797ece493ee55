/* Reverse-mode differentiation on the graph: backward nodes are appended, each tagged I or W.
 *
 * Nodes are visited last to first. For each, the gradients of activations are emitted first (tag
 * I), then those of parameters (tag W). A node that both need is emitted once, as I. A value with
 * several readers gets its gradient as a chain of additions, last reader first,
 *
 *     x -> n3, n5, n9        dx = (c9 + c5) + c3
 *
 * so on a chain of stages each stage adds the gradients of its own readers to the received sum.
 * The uses of a parameter are not added here: each use has its own accumulator over
 * micro-batches. */
#include "graph/graph.h"

struct autodiff {
    struct sl_graph *graph;
    bool *needs; /* [values] does it depend on a trained parameter through differentiable ops? */
    bool *param_only; /* [values] does it depend only on parameters? */
    int *acc;         /* [forward values] gradient so far; -1: none */
    int64_t value_count;
};

const struct sl_shape *sl_graph_grad_shape(const struct sl_grad *grad, int value) {
    return &sl_graph_value(grad->graph, value)->shape;
}

int sl_graph_grad_input(const struct sl_grad *grad, int i) {
    return i < grad->graph->nodes.at[grad->node].in_count ? grad->in[i] : -1;
}

int sl_graph_grad_output(const struct sl_grad *grad, int value, int slot) {
    if (value < 0)
        return -1;
    const struct sl_value *v = sl_graph_value(grad->graph, value);
    return grad->graph->nodes.at[v->node].out[slot];
}

static bool same_node(const struct sl_node *node, const struct sl_op *op, int in_count,
                      const int *in, const union sl_attr *attr) {
    if (node->op != op || node->in_count != in_count)
        return false;
    for (int i = 0; i < in_count; i++)
        if (node->in[i] != in[i])
            return false;
    for (int i = 0; op->attrs && op->attrs[i].name; i++)
        if (!sl_graph_attr_equal(&op->attrs[i], &node->attr[i], &attr[i]))
            return false;
    return true;
}

int sl_graph_grad_emit(struct sl_grad *grad, const char *name, int in_count, const int *in,
                       const union sl_attr *given) {
    struct sl_graph *graph = grad->graph;
    const struct sl_op *op = graph->find_op(sl_str(name));
    union sl_attr attr[SL_MAX_ATTR] = {{0}};
    int out;
    if (grad->err != SL_OK)
        return -1;
    SL_ASSERT(op);
    for (int i = 0; given && op->attrs && op->attrs[i].name; i++)
        attr[i] = given[i];
    if (!given)
        grad->err = sl_graph_op_defaults(op, 0, attr);
    if (grad->err != SL_OK)
        return -1;
    for (int64_t n = grad->first_emitted; n < graph->nodes.count; n++)
        if (same_node(&graph->nodes.at[n], op, in_count, in, attr))
            return graph->nodes.at[n].out[0];
    const struct sl_node *of = &graph->nodes.at[grad->node];
    struct sl_node_spec spec = {
        .op = op, .in_count = in_count, .in = in, .attr = attr, .scope = of->scope, .pos = of->pos};
    grad->err = sl_graph_node(graph, &spec, &out);
    return grad->err == SL_OK ? out : -1;
}

/* Assigns all nodes emitted since `from` to forward node `of` and pass `tag`. */
static void tag_since(struct sl_graph *graph, int64_t from, int of, enum sl_graph_pass tag) {
    for (int64_t n = from; n < graph->nodes.count; n++) {
        graph->nodes.at[n].of = of;
        graph->nodes.at[n].pass = tag;
        graph->nodes.at[of].back = true;
    }
}

static sl_err add_to(struct autodiff *ad, struct sl_grad *grad, int value, int contribution) {
    if (ad->acc[value] < 0) {
        ad->acc[value] = contribution;
        return SL_OK;
    }
    int both[2] = {ad->acc[value], contribution};
    ad->acc[value] = sl_graph_grad_emit(grad, "add", 2, both, NULL);
    SL_TRY(grad->err);
    grad->graph->nodes.at[sl_graph_value(grad->graph, ad->acc[value])->node].sums = value;
    return SL_OK;
}

/* Gives a gradient that passes a node unchanged (an addition) a separate view, which belongs to
 * that node. So on a chain of stages it is passed from stage to stage. */
static int own_contribution(struct sl_grad *grad, int contribution) {
    const struct sl_value *c = sl_graph_value(grad->graph, contribution);
    if (c->kind == SL_VALUE_NODE && c->node >= grad->first_emitted)
        return contribution;
    return sl_graph_grad_emit(grad, "identity", 1, &contribution, NULL);
}

/* Computes the gradient of one input of one node. */
static sl_err differentiate_input(struct autodiff *ad, struct sl_grad *grad, int input) {
    struct sl_graph *graph = ad->graph;
    const struct sl_node *node = &graph->nodes.at[grad->node];
    int value = node->in[input];
    int64_t from = graph->nodes.count;
    int contribution = node->op->grad(grad, input);
    SL_TRY(grad->err);
    if (contribution >= 0) {
        if (!sl_graph_shape_equal(sl_graph_grad_shape(grad, contribution),
                                  sl_graph_grad_shape(grad, value))) {
            char want[SL_SHAPE_TEXT], got[SL_SHAPE_TEXT];
            return sl_fail(SL_ERR_INPUT, "gradient of %s input %d has shape %s, expected %s",
                           graph->nodes.at[grad->node].op->name, input,
                           sl_graph_shape_text(sl_graph_grad_shape(grad, contribution), got),
                           sl_graph_shape_text(sl_graph_grad_shape(grad, value), want));
        }
        const struct sl_value *v = sl_graph_value(graph, value);
        graph->nodes.at[grad->node].back = true;
        graph->nodes.at[grad->node].trains |= v->kind == SL_VALUE_PARAM;
        if (v->kind == SL_VALUE_PARAM)
            SL_PUSH(&graph->grads,
                    ((struct sl_param_grad){v->index, grad->node, input, contribution}));
        else
            SL_TRY(add_to(ad, grad, value, own_contribution(grad, contribution)));
    }
    tag_since(graph, from, grad->node, ad->param_only[value] ? SL_PASS_W : SL_PASS_I);
    return SL_OK;
}

/* Refuses gradients of outputs that are only kept for the backward pass: these have none. */
static sl_err refuse_kept(const struct sl_op *op, const int *dout, int count) {
    for (int i = op->grad_outputs ? op->grad_outputs : 1; i < count; i++)
        if (dout[i] >= 0)
            return sl_fail(SL_ERR_INPUT,
                           "a loss depends on output %d of %s (%s), which has no gradient", i,
                           op->name, op->outputs);
    return SL_OK;
}

static sl_err differentiate_node(struct autodiff *ad, int index) {
    struct sl_graph *graph = ad->graph;
    const struct sl_node node = graph->nodes.at[index]; /* a copy, because nodes.at may move */
    int dout[SL_MAX_OUT];
    bool any = false;
    for (int i = 0; i < node.out_count; i++) {
        dout[i] = ad->acc[node.out[i]];
        any |= dout[i] >= 0;
    }
    if (!any || !node.op->grad)
        return SL_OK;
    SL_TRY(refuse_kept(node.op, dout, node.out_count));
    struct sl_grad grad = {
        .graph = graph,
        .node = index,
        .in = node.in,
        .out = node.out,
        .dout = dout,
        .attr = node.attr,
        .first_emitted = (int)graph->nodes.count,
    };
    for (int params = 0; params < 2; params++) {
        for (int i = 0; i < node.in_count; i++) {
            int value = node.in[i];
            if (value < 0 || !ad->needs[value] || ad->param_only[value] != (params == 1))
                continue;
            sl_err err = differentiate_input(ad, &grad, i);
            if (err != SL_OK)
                return sl_err_context(err, "differentiating %s", node.op->name);
        }
    }
    return SL_OK;
}

/* Fills needs and param_only in forward order. */
static void mark_values(struct autodiff *ad) {
    struct sl_graph *graph = ad->graph;
    for (int64_t i = 0; i < graph->params.count; i++) {
        const struct sl_param *param = &graph->params.at[i];
        ad->needs[param->value] = !param->frozen;
        ad->param_only[param->value] = true;
    }
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        bool needs = false, only = node->in_count > 0;
        for (int i = 0; i < node->in_count; i++) {
            if (node->in[i] < 0)
                continue;
            needs |= ad->needs[node->in[i]];
            only &= ad->param_only[node->in[i]];
        }
        for (int i = 0; i < node->out_count; i++) {
            ad->needs[node->out[i]] = needs && node->op->grad;
            ad->param_only[node->out[i]] = only;
        }
    }
}

static sl_err seed_losses(struct autodiff *ad) {
    struct sl_graph *graph = ad->graph;
    for (int64_t i = graph->losses.count - 1; i >= 0; i--) {
        struct sl_loss *loss = &graph->losses.at[i];
        if (ad->acc[loss->value] >= 0)
            return sl_fail(SL_ERR_INPUT, "losses '%s' and another are the same value", loss->name);
        SL_PUSH(&graph->values,
                ((struct sl_value){.kind = SL_VALUE_SEED, .node = -1, .index = (int)i}));
        loss->seed = (int)graph->values.count - 1;
        ad->acc[loss->value] = loss->seed;
    }
    return SL_OK;
}

static int compare_grads(const void *a, const void *b) {
    const struct sl_param_grad *x = a, *y = b;
    if (x->param != y->param)
        return x->param < y->param ? -1 : 1;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->input > y->input) - (x->input < y->input);
}

/* Refuses a model whose parameters are all frozen: that is a mistake. A model without parameters is
 * allowed, because it may be planned. */
static sl_err refuse_all_frozen(const struct sl_graph *graph) {
    int64_t frozen = 0;
    for (int64_t i = 0; i < graph->params.count; i++)
        frozen += graph->params.at[i].frozen;
    if (!frozen || frozen < graph->params.count)
        return SL_OK;
    return sl_fail(SL_ERR_INPUT, "all %lld parameters of %s are frozen: nothing would train",
                   (long long)frozen, graph->name);
}

sl_err sl_graph_autodiff(struct sl_graph *graph) {
    SL_ASSERT(graph->checked && !graph->differentiated);
    SL_TRY(refuse_all_frozen(graph));
    struct sl_arena scratch = {0};
    int64_t values = graph->values.count;
    struct autodiff ad = {
        .graph = graph,
        .needs = SL_NEW(&scratch, bool, values),
        .param_only = SL_NEW(&scratch, bool, values),
        .acc = SL_NEW(&scratch, int, values),
        .value_count = values,
    };
    sl_err err = SL_OK;
    int64_t limit = graph->node_limit;
    graph->forward_count = (int)graph->nodes.count;
    graph->node_limit = INT32_MAX; /* no limit now: the forward graph was within it */
    for (int64_t i = 0; i < values; i++)
        ad.acc[i] = -1;
    mark_values(&ad);
    SL_TRY_OUT(seed_losses(&ad));
    for (int n = graph->forward_count - 1; n >= 0; n--)
        SL_TRY_OUT(differentiate_node(&ad, n));
    if (graph->grads.count)
        qsort(graph->grads.at, (size_t)graph->grads.count, sizeof *graph->grads.at, compare_grads);
    graph->differentiated = true;
out:
    graph->node_limit = limit;
    sl_arena_free(&scratch);
    return err;
}
