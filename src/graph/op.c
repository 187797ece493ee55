/* Helpers for the op interface: attributes and inputs by name. */
#include "graph/op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sl_err sl_graph_infer_fail(const struct sl_infer *infer, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    sl_vfail(SL_ERR_INPUT, fmt, args);
    va_end(args);
    return sl_err_context(SL_ERR_INPUT, "%s", infer->op->name);
}

int sl_graph_op_attr_count(const struct sl_op *op) {
    int count = 0;
    while (op->attrs && op->attrs[count].name)
        count++;
    return count;
}

int sl_graph_op_find_attr(const struct sl_op *op, struct sl_str name) {
    for (int i = 0; op->attrs && op->attrs[i].name; i++)
        if (sl_str_is(name, op->attrs[i].name))
            return i;
    return -1;
}

int sl_graph_attr_choice(const struct sl_attr_desc *desc, struct sl_str name) {
    int index = 0;
    for (const char *at = desc->choices; at; index++) {
        const char *bar = strchr(at, '|');
        size_t length = bar ? (size_t)(bar - at) : strlen(at);
        if (sl_str_equal(name, (struct sl_str){at, length}))
            return index;
        at = bar ? bar + 1 : NULL;
    }
    return -1;
}

static void parse_default(const struct sl_attr_desc *desc, union sl_attr *attr) {
    memset(attr, 0, sizeof *attr);
    switch (desc->kind) {
    case SL_ATTR_INT:
    case SL_ATTR_BOOL: attr->i = strtoll(desc->fallback, NULL, 10); break;
    case SL_ATTR_FLOAT: attr->f = strtod(desc->fallback, NULL); break;
    case SL_ATTR_ENUM: attr->i = sl_graph_attr_choice(desc, sl_str(desc->fallback)); break;
    case SL_ATTR_INTS:
        for (const char *at = desc->fallback; *at && attr->ints.count < SL_MAX_RANK;) {
            char *end;
            attr->ints.at[attr->ints.count++] = strtoll(at, &end, 10);
            at = *end == ',' ? end + 1 : end;
        }
        break;
    case SL_ATTR_SHAPE: break;
    }
}

sl_err sl_graph_op_defaults(const struct sl_op *op, unsigned given,
                            union sl_attr attr[SL_MAX_ATTR]) {
    for (int i = 0; op->attrs && op->attrs[i].name; i++) {
        if (given >> i & 1)
            continue;
        if (!op->attrs[i].fallback)
            return sl_fail(SL_ERR_INPUT, "%s: attribute '%s' must be given", op->name,
                           op->attrs[i].name);
        parse_default(&op->attrs[i], &attr[i]);
    }
    return SL_OK;
}

static void put_choice(struct sl_text *text, const struct sl_attr_desc *desc, int64_t index) {
    const char *at = desc->choices;
    for (; index > 0; index--)
        at = strchr(at, '|') + 1;
    const char *bar = strchr(at, '|');
    sl_text_printf(text, "\"%.*s\"", bar ? (int)(bar - at) : (int)strlen(at), at);
}

void sl_graph_attr_put_float(struct sl_text *text, double value) {
    size_t start = text->length;
    sl_text_put_double(text, value == 0 ? 0 : value);
    if (fabs(value) > (double)SL_MAX_NUMEL && !strpbrk(text->at + start, ".e"))
        sl_text_put(text, ".0");
}

void sl_graph_attr_put(struct sl_text *text, const struct sl_attr_desc *desc,
                       const union sl_attr *attr) {
    char shape[SL_SHAPE_TEXT];
    switch (desc->kind) {
    case SL_ATTR_INT:
    case SL_ATTR_BOOL: sl_text_printf(text, "%lld", (long long)attr->i); break;
    case SL_ATTR_FLOAT: sl_graph_attr_put_float(text, attr->f); break;
    case SL_ATTR_ENUM: put_choice(text, desc, attr->i); break;
    case SL_ATTR_INTS:
        for (int i = 0; i < attr->ints.count; i++)
            sl_text_printf(text, "%s%lld", i ? "," : "[", (long long)attr->ints.at[i]);
        sl_text_put(text, attr->ints.count ? "]" : "[]");
        break;
    case SL_ATTR_SHAPE: sl_text_put(text, sl_graph_shape_text(&attr->shape, shape)); break;
    }
}

bool sl_graph_attr_equal(const struct sl_attr_desc *desc, const union sl_attr *a,
                         const union sl_attr *b) {
    switch (desc->kind) {
    case SL_ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case SL_ATTR_SHAPE: return sl_graph_shape_equal(&a->shape, &b->shape);
    case SL_ATTR_INTS:
        return a->ints.count == b->ints.count &&
               memcmp(a->ints.at, b->ints.at, sizeof(int64_t) * (size_t)a->ints.count) == 0;
    default: return a->i == b->i;
    }
}

/* Takes the next word of a text such as "x w bias?". */
static bool next_word(const char **at, struct sl_str *word) {
    while (**at == ' ')
        ++*at;
    *word = (struct sl_str){*at, strcspn(*at, " ")};
    *at += word->length;
    return word->length > 0;
}

void sl_graph_op_arity(const struct sl_op *op, int *least, int *max) {
    const char *at = op->inputs;
    struct sl_str word;
    *least = *max = 0;
    while (next_word(&at, &word)) {
        char last = word.at[word.length - 1];
        *least += last != '?';
        *max = last == '*' ? SL_MAX_IN : *max + 1;
    }
}

int sl_graph_op_find_input(const struct sl_op *op, struct sl_str name) {
    const char *at = op->inputs;
    struct sl_str word;
    for (int i = 0; next_word(&at, &word); i++) {
        char last = word.at[word.length - 1];
        word.length -= last == '?' || last == '*';
        if (sl_str_equal(word, name))
            return i;
    }
    return -1;
}

int sl_graph_op_output_count(const struct sl_op *op) {
    const char *at = op->outputs;
    struct sl_str word;
    int count = 0;
    while (next_word(&at, &word))
        count++;
    return count;
}
