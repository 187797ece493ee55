/* Finds which initialisers are parameters, and their names in the framework.
 *
 * torch states in the file which tensors are parameters, buffers and constants (its "graph
 * signature"), and for every node the call that became it. Before it writes the file it computes
 * what it can: the transpose of a linear layer's weight gets a number for a name. Calls tell which
 * parameter it was:
 *
 *   MatMul(x, val_57)   %linear = aten.linear(%x, %p_layers_0_weight)   layers.0.weight, transposed
 *
 * For a tensor that torch computed in another way (w[None], as unsqueeze), the file names the
 * tensors that torch read. If one of them is a parameter, the computed tensor is trained in its
 * place; otherwise it is a constant.
 *
 * torch's older exporter writes no signature. There the name of the node shows the parameter:
 * /layers.0/MatMul reads onnx::MatMul_57. */
#include "base/log.h"
#include "onnx/lower.h"

#include <stdlib.h>

enum kind { UNLISTED, PARAMETER, FIXED };

struct entry {
    const char *call_name, *target; /* "p_fc_weight", "fc.weight" */
    enum kind kind;
    bool in_file, claimed;
    bool folded;    /* a tensor of the file was computed from it */
    const char *by; /* the tensor that was found to be its transpose, or NULL */
};

struct names {
    struct sl_onnx_lower *l;
    SL_VEC(struct entry) entries;
    struct sl_map by_call, by_target;
    struct sl_map origin; /* for tensors that torch computed: name -> enum kind */
    int64_t missing;      /* number of parameters that no tensor of the file belongs to */
};

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Reads "p_fc_weight: PARAMETER target='fc.weight'". */
static void read_line(struct names *s, const char *line, size_t length) {
    char *text = sl_arena_dup(s->l->arena, line, length);
    char *colon = strstr(text, ": "), *target = strstr(text, " target='");
    if (!colon || !target || colon > target)
        return;
    char *end = strrchr(target + 9, '\'');
    *colon = *target = '\0';
    if (end)
        *end = '\0';
    struct entry entry = {.call_name = text,
                          .target = target + 9,
                          .kind = strcmp(colon + 2, "PARAMETER") == 0 ? PARAMETER : FIXED};
    sl_map_put(&s->by_call, sl_str(entry.call_name), s->entries.count);
    sl_map_put(&s->by_target, sl_str(entry.target), s->entries.count);
    SL_PUSH(&s->entries, entry);
}

static void read_signature(struct names *s) {
    const struct sl_proto_graph *graph = s->l->file->graph;
    const char *at = "";
    for (int64_t i = 0; i < graph->note_count; i++)
        if (strcmp(graph->notes[i].key, "pkg.torch.export.ExportedProgram.graph_signature") == 0)
            at = graph->notes[i].value;
    while (*at) {
        size_t length = strcspn(at, "\n");
        read_line(s, at, length);
        at += length + (at[length] == '\n');
    }
}

static struct entry *entry_of(struct names *s, struct sl_map *map, struct sl_str name) {
    int64_t *found = sl_map_find(map, name);
    return found ? &s->entries.at[*found] : NULL;
}

/* Returns the origin in "['val_3', 'w']": PARAMETER if one of the names is a parameter; UNLISTED if
 * there are no names. */
static enum kind read_origin(struct names *s, const char *at) {
    enum kind origin = UNLISTED;
    while ((at = strpbrk(at, "'\"")) != NULL) {
        const char *end = strchr(at + 1, *at);
        if (!end)
            break;
        struct sl_str name = {at + 1, (size_t)(end - at - 1)};
        struct entry *entry = entry_of(s, &s->by_target, name);
        origin = origin == PARAMETER ? PARAMETER : FIXED;
        if (entry && entry->kind == PARAMETER) {
            origin = PARAMETER;
            entry->folded = true;
        }
        at = end + 1;
    }
    return origin;
}

static void read_origins(struct names *s) {
    const struct sl_proto_graph *graph = s->l->file->graph;
    for (int64_t i = 0; i < graph->folded_count; i++) {
        struct sl_str name = sl_str(graph->folded[i].key);
        if (sl_onnx_lower_named(s->l, graph->folded[i].key) && !sl_map_find(&s->origin, name))
            sl_map_put(&s->origin, name, read_origin(s, graph->folded[i].value));
    }
}

static enum kind origin_of(const struct names *s, const struct sl_onnx_val *val) {
    int64_t *found = sl_map_find(&s->origin, sl_str(val->name));
    return found ? (enum kind) * found : UNLISTED;
}

static void note_present(struct names *s) {
    const struct sl_proto_graph *graph = s->l->file->graph;
    for (int64_t i = 0; i < graph->tensor_count; i++) {
        struct entry *entry = entry_of(s, &s->by_target, sl_str(graph->tensors[i].name));
        struct sl_onnx_val *val = sl_onnx_lower_named(s->l, graph->tensors[i].name);
        if (!entry || !val)
            continue;
        entry->in_file = true;
        val->is_param = entry->kind == PARAMETER && sl_proto_type_is_float(val->type);
    }
    for (int64_t i = 0; i < s->entries.count; i++)
        s->missing += s->entries.at[i].kind == PARAMETER && !s->entries.at[i].in_file &&
                      !s->entries.at[i].folded;
}

/* ---- tensors that torch computed ---- */

/* Returns the next parameter that a call names, and moves *at behind it; NULL: none. */
static struct entry *next_parameter(struct names *s, const char **at) {
    while (*at && (*at = strstr(*at, "%p_")) != NULL) {
        const char *name = *at + 1;
        size_t length = strcspn(name, ",)] ");
        struct entry *entry = entry_of(s, &s->by_call, (struct sl_str){name, length});
        *at = name + length;
        if (entry)
            return entry;
    }
    return NULL;
}

/* Counts the parameters of a call that the file lacks; *missing becomes one of them. */
static int missing_of(struct names *s, const char *call, struct entry **missing) {
    int count = 0;
    *missing = NULL;
    for (struct entry *entry; (entry = next_parameter(s, &call)) != NULL;)
        if (!entry->in_file && entry != *missing) {
            *missing = entry;
            count++;
        }
    return count;
}

/* Is a the transpose of b? Tensors of one number cannot be distinguished. */
static sl_err is_transpose(struct sl_proto_file *file, const struct sl_proto_tensor *a,
                           const struct sl_proto_tensor *b, bool *out) {
    enum { SAMPLES = 32 };
    float left, right, first = 0;
    bool differ = false, same = true;
    *out = false;
    if (a->rank != 2 || b->rank != 2 || a->dim[0] != b->dim[1] || a->dim[1] != b->dim[0] ||
        a->type != b->type || a->count < 2)
        return SL_OK;
    int64_t columns = a->dim[1], rows = a->dim[0];
    for (int64_t i = 0; i < SAMPLES && same; i++) {
        int64_t at = (a->count - 1) / SAMPLES * i + i % (a->count < SAMPLES ? a->count : SAMPLES);
        at = at < a->count ? at : a->count - 1;
        SL_TRY(sl_proto_read_f32(file, a, at, 1, &left));
        SL_TRY(sl_proto_read_f32(file, b, at % columns * rows + at / columns, 1, &right));
        same = left == right;
        differ = differ || (i && left != first);
        first = i ? first : left;
    }
    if (!same || !differ)
        return SL_OK;
    float *whole = sl_realloc(NULL, sizeof *whole * (size_t)a->count);
    float *row = sl_realloc(NULL, sizeof *row * (size_t)rows);
    sl_err err = sl_proto_read_f32(file, a, 0, a->count, whole);
    for (int64_t c = 0; c < columns && err == SL_OK && same; c++) {
        err = sl_proto_read_f32(file, b, c * rows, rows, row);
        for (int64_t r = 0; r < rows && same; r++)
            same = whole[r * columns + c] == row[r];
    }
    free(whole);
    free(row);
    *out = same;
    return err;
}

static sl_err try_twin(struct names *s, struct sl_onnx_val *val, const char *name) {
    struct sl_onnx_val *other = sl_onnx_lower_named(s->l, name);
    bool twin = false;
    if (val->twin || !other || other == val || other->kind != SL_ONNX_KONST ||
        !other->konst->from || !sl_proto_type_is_float(other->type))
        return SL_OK;
    SL_TRY(is_transpose(s->l->file, val->konst->from, other->konst->from, &twin));
    if (twin) {
        val->twin = other->name;
        other->is_param = true;
    }
    return SL_OK;
}

/* Returns "layers.0.q.weight" for the node /layers.0/q/MatMul; NULL: the node has another kind of
 * name. */
static const char *weight_of_node(struct names *s, const struct sl_proto_node *node) {
    size_t length = strlen(node->name), ending = strlen("/MatMul");
    if (length <= ending + 1 || node->name[0] != '/' ||
        strcmp(node->name + length - ending, "/MatMul") != 0)
        return NULL;
    char *title =
        sl_arena_printf(s->l->arena, "%.*s.weight", (int)(length - ending - 1), node->name + 1);
    for (char *at = title; *at; at++)
        if (*at == '/')
            *at = '.';
    return title;
}

/* For torch's older exporter: /layers.0/q/MatMul reads the transpose of layers.0.q.weight. */
static sl_err by_node_name(struct names *s, const struct sl_proto_node *node,
                           struct sl_onnx_val *val) {
    const struct sl_proto_graph *graph = s->l->file->graph;
    const char *title = weight_of_node(s, node);
    for (int64_t i = 0; i < graph->tensor_count && !val->twin; i++)
        if (strncmp(graph->tensors[i].name, "onnx::", 6) != 0)
            SL_TRY(try_twin(s, val, graph->tensors[i].name));
    if (val->twin || !title || sl_onnx_lower_named(s->l, title))
        return SL_OK;
    val->title = title;
    val->turned = true;
    return SL_OK;
}

/* Finds the parameter for the weight of a product whose name does not tell it. */
static sl_err name_weight(struct names *s, const struct sl_proto_node *node,
                          struct sl_onnx_val *val) {
    struct entry *missing, *present;
    const char *at = node->call;
    if (val->title || val->twin || val->same || val->konst->rank != 2 || origin_of(s, val) == FIXED)
        return SL_OK;
    val->is_param = true;
    if (strncmp(val->name, "onnx::", 6) == 0)
        return by_node_name(s, node, val);
    while ((present = next_parameter(s, &at)) != NULL)
        if (present->in_file)
            SL_TRY(try_twin(s, val, present->target));
    if (val->twin || missing_of(s, node->call, &missing) != 1 ||
        !strstr(node->call, "aten.linear."))
        return SL_OK;
    if (missing->by && strcmp(missing->by, val->name) != 0)
        val->same = missing->by; /* the layer is used again */
    if (missing->claimed)
        return SL_OK;
    missing->by = val->name;
    val->title = missing->target;
    val->turned = missing->claimed = true;
    s->missing -= !missing->folded;
    return SL_OK;
}

/* Decides whether a tensor that torch computed comes from a parameter, or from constants (angles,
 * masks). */
static void judge(struct names *s, const struct sl_proto_node *node, struct sl_onnx_val *val) {
    static const char *const weights[] = {"Conv", "ConvTranspose",      "GRU",    "Gemm",
                                          "LSTM", "LayerNormalization", "MatMul", "RNN"};
    static const char *const angles[] = {"cos", "sin", "unsqueeze", "mul", "_to_copy", "arange"};
    struct entry *missing;
    /* not a weight, because the groups are scaled afterwards */
    if (strcmp(node->op, "InstanceNormalization") == 0)
        return;
    if (origin_of(s, val) != UNLISTED) {
        val->is_param = val->is_param || origin_of(s, val) == PARAMETER;
        return;
    }
    bool param = missing_of(s, node->call, &missing) > 0 || starts(val->name, "embedding") ||
                 (val->konst->rank == 1 && s->missing);
    for (int i = 0; i < SL_COUNT(weights); i++)
        param = param || strcmp(node->op, weights[i]) == 0;
    bool angle = false;
    for (int i = 0; i < SL_COUNT(angles); i++)
        angle = angle || starts(val->name, angles[i]);
    val->is_param = val->is_param || param || (s->missing > 0 && !angle);
}

/* Is it an initialiser that the signature does not list, or one of torch's older exporter? */
static bool is_computed(struct names *s, const struct sl_onnx_val *val) {
    if (!val || val->kind != SL_ONNX_KONST || !val->konst->from ||
        !sl_proto_type_is_float(val->type) ||
        (val->konst->count < 2 && origin_of(s, val) != PARAMETER))
        return false;
    return starts(val->name, "onnx::") ||
           (s->entries.count && !sl_map_find(&s->by_target, sl_str(val->name)));
}

/* torch writes equal tensors once. If the call of a node names a parameter that the file lacks, and
 * not the one that the node reads, this makes a copy under the missing name. */
static void restore_copies(struct names *s) {
    const struct sl_proto_graph *graph = s->l->file->graph;
    for (int64_t n = 0; n < graph->node_count; n++) {
        struct sl_proto_node *node = (struct sl_proto_node *)(uintptr_t)&graph->nodes[n];
        struct entry *missing, *read = NULL;
        int at = -1;
        for (int i = 0; i < node->in_count; i++) {
            struct entry *entry = entry_of(s, &s->by_target, sl_str(node->in[i]));
            if (!entry || !entry->in_file || entry->kind != PARAMETER)
                continue;
            bool named = false;
            const char *call = node->call;
            for (struct entry *other; (other = next_parameter(s, &call)) != NULL;)
                named = named || other == entry;
            if (!named) {
                at = i;
                read = entry;
            }
        }
        if (!read || missing_of(s, node->call, &missing) != 1)
            continue;
        struct sl_onnx_val copy = *sl_onnx_lower_named(s->l, read->target);
        const char **in = SL_NEW(s->l->arena, const char *, node->in_count);
        for (int i = 0; i < node->in_count; i++)
            in[i] = node->in[i];
        in[at] = copy.name = missing->target;
        node->in = in;
        if (missing->claimed)
            continue;
        missing->claimed = true;
        s->missing -= !missing->folded;
        sl_onnx_lower_add(s->l, copy);
    }
}

/* Is it the same module, used again? Its second use has the name q_1, also in the middle of a path:
 * a.q_1.weight. */
static bool is_used_again(const char *first, const char *again) {
    while (*first || *again) {
        size_t length = strcspn(first, "."), more = strcspn(again, ".");
        const char *suffix = again + length;
        if (more < length || strncmp(first, again, length) != 0)
            return false;
        if (more > length &&
            (*suffix != '_' || more - length - 1 != strspn(suffix + 1, "0123456789")))
            return false;
        first += length + (first[length] == '.');
        again += more + (again[more] == '.');
    }
    return true;
}

/* torch's older exporter writes equal tensors once and names the others by Identity, whether they
 * are one parameter or two with equal values. The readers show which: a module that is used again,
 * or another module. */
static void restore_copy(struct names *s, const struct sl_proto_node *identity,
                         const struct sl_proto_node *reader) {
    struct sl_onnx_val *val = sl_onnx_lower_named(s->l, identity->in[0]);
    const char *title = weight_of_node(s, reader);
    if (!val || val->kind != SL_ONNX_KONST || !val->title || !title ||
        sl_onnx_lower_named(s->l, identity->out[0]))
        return;
    struct sl_onnx_val copy = *val;
    copy.name = identity->out[0];
    copy.title = title;
    if (is_used_again(val->title, title))
        copy.same = val->name;
    sl_onnx_lower_add(s->l, copy);
}

static void restore_named_copies(struct names *s) {
    const struct sl_proto_graph *graph = s->l->file->graph;
    struct sl_map copies = {0};
    for (int64_t n = 0; n < graph->node_count; n++) {
        const struct sl_proto_node *node = &graph->nodes[n];
        if (strcmp(node->op, "Identity") == 0 && node->in_count == 1 && node->out_count == 1 &&
            starts(node->out[0], "onnx::"))
            sl_map_put(&copies, sl_str(node->out[0]), n);
        int64_t *from = strcmp(node->op, "MatMul") == 0 && node->in_count == 2
                            ? sl_map_find(&copies, sl_str(node->in[1]))
                            : NULL;
        if (from)
            restore_copy(s, &graph->nodes[*from], node);
    }
    sl_map_free(&copies);
}

static sl_err each_reader(struct names *s, bool products) {
    const struct sl_proto_graph *graph = s->l->file->graph;
    for (int64_t n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n].in_count; i++) {
            const struct sl_proto_node *node = &graph->nodes[n];
            struct sl_onnx_val *val = *node->in[i] ? sl_onnx_lower_named(s->l, node->in[i]) : NULL;
            if (!is_computed(s, val))
                continue;
            if (!products)
                judge(s, node, val);
            else if (i == 1 && strcmp(node->op, "MatMul") == 0)
                SL_TRY(name_weight(s, node, val));
        }
    return SL_OK;
}

/* Notes which tensors are not trained: parameters that the file does not mention, and tensors whose
 * origin it does not state. */
static void note_constants(struct names *s) {
    enum { SHOWN = 8 };
    struct sl_text names = {0};
    int64_t count = 0;
    for (int64_t i = 0; i < s->l->vals.count && s->missing > 0; i++) {
        const struct sl_onnx_val *val = &s->l->vals.at[i];
        if (is_computed(s, val) && !val->is_param && origin_of(s, val) == UNLISTED &&
            count++ < SHOWN)
            sl_text_printf(&names, "%s%s", count > 1 ? ", " : "", val->name);
    }
    if (count)
        sl_log_note("%s: not trained, taken as constants: %s%s (%lld in all); the file does "
                    "not say what torch computed them from. Parameters without a tensor: %lld",
                    s->l->file->path, names.at, count > SHOWN ? ", ..." : "", (long long)count,
                    (long long)s->missing);
    sl_text_free(&names);
}

sl_err sl_onnx_name_initialisers(struct sl_onnx_lower *l) {
    struct names s = {.l = l};
    sl_err err = SL_OK;
    read_signature(&s);
    read_origins(&s);
    note_present(&s);
    for (int64_t i = 0; i < l->vals.count && s.entries.count; i++)
        if (is_computed(&s, &l->vals.at[i]))
            l->vals.at[i].is_param = false;
    SL_TRY_OUT(each_reader(&s, true));
    restore_copies(&s);
    restore_named_copies(&s);
    if (s.entries.count)
        SL_TRY_OUT(each_reader(&s, false));
    note_constants(&s);
out:
    SL_VEC_FREE(&s.entries);
    sl_map_free(&s.by_call);
    sl_map_free(&s.by_target);
    sl_map_free(&s.origin);
    return err;
}
