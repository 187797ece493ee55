/* Lowers Einsum of one or two tensors: letters become the labels of the op `einsum`. */
#include "onnx/map.h"

struct labels {
    struct sl_ints in[2], out;
    int terms;
};

/* Reads the letters of a term; "..." stands for the remaining axes, counted from the right. */
static sl_err read_term(struct sl_onnx_lower *l, const char *at, size_t length, int rank,
                        struct sl_ints *out) {
    int letters = 0;
    for (size_t i = 0; i < length; i++)
        letters += at[i] != '.' && at[i] != ' ';
    *out = (struct sl_ints){0};
    for (size_t i = 0; i < length; i++) {
        if (at[i] == ' ')
            continue;
        int more = at[i] == '.' ? rank - letters : 1;
        if (more < 0 || out->count + more > SL_MAX_RANK)
            return sl_onnx_lower_refuse(l, "the equation does not fit tensors of %d axes", rank);
        for (int k = 0; k < more; k++)
            out->at[out->count++] = at[i] == '.' ? 1000 + more - 1 - k : at[i];
        i += at[i] == '.' ? 2 : 0;
    }
    return SL_OK;
}

/* Without "->", the result has "..." and the letters that occur once, in alphabetical order. */
static void implicit_out(struct labels *e) {
    for (int64_t label = 1000 + SL_MAX_RANK; label >= 'A'; label--) {
        int seen = 0;
        for (int t = 0; t < e->terms; t++)
            for (int i = 0; i < e->in[t].count; i++)
                seen += e->in[t].at[i] == label;
        if (seen && (seen == 1 || label >= 1000) && e->out.count < SL_MAX_RANK) {
            bool dots = label >= 1000;
            int place = 0;
            while (dots && place < e->out.count && e->out.at[place] >= 1000)
                place++;
            while (!dots && place < e->out.count && e->out.at[place] >= 1000)
                place++;
            for (int i = e->out.count++; i > place; i--)
                e->out.at[i] = e->out.at[i - 1];
            e->out.at[place] = label;
        }
    }
}

static sl_err read_equation(struct sl_onnx_lower *l, const int *ranks, struct labels *e) {
    const struct sl_proto_attr *attr = sl_proto_attr(l->node, "equation");
    const char *text = attr ? sl_arena_dup(l->arena, attr->s.at, attr->s.length) : "";
    const char *arrow = strstr(text, "->"), *at = text, *end = arrow ? arrow : text + strlen(text);
    for (e->terms = 0; e->terms < l->node->in_count; e->terms++) {
        size_t length = strcspn(at, ",");
        length = at + length > end ? (size_t)(end - at) : length;
        SL_TRY(read_term(l, at, length, ranks[e->terms], &e->in[e->terms]));
        if (e->in[e->terms].count != ranks[e->terms])
            return sl_onnx_lower_refuse(l, "the equation '%s' does not fit its inputs", text);
        at += length + (at + length < end);
    }
    if (!arrow) {
        implicit_out(e);
        return SL_OK;
    }
    int dots = 0;
    for (int t = 0; t < e->terms; t++) {
        int own = 0;
        for (int i = 0; i < e->in[t].count; i++)
            own += e->in[t].at[i] >= 1000;
        dots = own > dots ? own : dots;
    }
    int letters = 0;
    for (const char *c = arrow + 2; *c; c++)
        letters += *c != '.' && *c != ' ';
    return read_term(l, arrow + 2, strlen(arrow + 2), letters + (strchr(arrow + 2, '.') ? dots : 0),
                     &e->out);
}

/* One tensor: sums over the letters that the result lacks, then permutes the axes. */
static sl_err one_term(struct sl_onnx_lower *l, struct labels *e, int x, int *out) {
    struct sl_onnx_emit emit;
    int64_t axes[SL_MAX_RANK];
    int perm[SL_MAX_RANK], count = 0, kept = 0;
    struct sl_ints left = {0};
    for (int i = 0; i < e->in[0].count; i++) {
        bool stays = false;
        for (int k = 0; k < i; k++)
            if (e->in[0].at[k] == e->in[0].at[i])
                return sl_onnx_lower_refuse(l, "the diagonal of a tensor is not supported");
        for (int k = 0; k < e->out.count; k++)
            stays = stays || e->out.at[k] == e->in[0].at[i];
        if (stays)
            left.at[left.count++] = e->in[0].at[i];
        else
            axes[count++] = i;
    }
    *out = x;
    if (count) {
        SL_TRY(sl_onnx_emit_open(l, &emit, "reduce_sum"));
        sl_onnx_emit_ints(&emit, "axes", count, axes);
        SL_TRY(sl_onnx_emit(l, &emit, 1, out, out));
    }
    for (int i = 0; i < e->out.count; i++)
        for (int k = 0; k < left.count; k++)
            if (left.at[k] == e->out.at[i])
                perm[kept++] = k;
    if (kept != left.count || e->out.count != left.count)
        return sl_onnx_lower_refuse(l, "the result has letters that no input has");
    return sl_onnx_emit_transpose(l, *out, perm, out);
}

sl_err sl_onnx_map_einsum(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit emit;
    struct labels e = {0};
    int in[2], ranks[2], y;
    if (l->node->in_count < 1 || l->node->in_count > 2)
        return sl_onnx_lower_refuse(l, "%d tensors; one and two are supported", l->node->in_count);
    for (int i = 0; i < l->node->in_count; i++) {
        SL_TRY(sl_onnx_lower_float(l, i, &in[i]));
        ranks[i] = sl_onnx_lower_shape(l, in[i])->rank;
    }
    SL_TRY(read_equation(l, ranks, &e));
    if (e.terms == 1) {
        SL_TRY(one_term(l, &e, in[0], &y));
    } else {
        SL_TRY(sl_onnx_emit_open(l, &emit, row->ours));
        sl_onnx_emit_ints(&emit, "left", e.in[0].count, e.in[0].at);
        sl_onnx_emit_ints(&emit, "right", e.in[1].count, e.in[1].at);
        sl_onnx_emit_ints(&emit, "out", e.out.count, e.out.at);
        SL_TRY(sl_onnx_emit(l, &emit, 2, in, &y));
    }
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}
