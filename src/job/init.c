/* Weights to start from, as stored values of a graph: each worker reads the tensors of its stage when
 * it initialises them, and nothing else.
 *
 *   names of the graph ──sl_hf_tensor_name──> names of the file; one form for all tensors
 *
 * Every tensor must be in the file with its shape, and every tensor of the file must be used.
 */
#include "base/log.h"
#include "base/map.h"
#include "ckpt/weights.h"
#include "hf/folder.h"
#include "job/parts.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

enum { LISTED = 8 }; /* number of names in a message */

struct source {
    struct sl_arena arena;
    struct sl_ckpt_weights *weights;
    struct sl_map index;           /* name in the graph -> tensor of the file */
    struct sl_stored_values below; /* stored values of the model's own file */
};

static bool has_value(void *ctx, const char *name) {
    return sl_map_find(&((struct source *)ctx)->index, sl_str(name)) != NULL;
}

static sl_err read_value(void *ctx, const char *name, int64_t from, int64_t count, float *out) {
    struct source *s = ctx;
    const int64_t *index = sl_map_find(&s->index, sl_str(name));
    if (index)
        return sl_ckpt_weights_read(s->weights, *index, from, count, out);
    if (s->below.read)
        return s->below.read(s->below.ctx, name, from, count, out);
    return sl_fail(SL_ERR_INPUT, "tensor '%s' has no initial value: `init` lacks it", name);
}

static void close_source(void *ctx) {
    struct source *s = ctx;
    if (s->below.close)
        s->below.close(s->below.ctx);
    sl_ckpt_weights_close(s->weights);
    sl_map_free(&s->index);
    sl_arena_free(&s->arena);
    free(s);
}

/* ---- names ---- */

static const char *renamed(struct sl_arena *arena, const char *name, const char *end,
                           const char *to) {
    size_t a = strlen(name), b = strlen(end);
    if (a < b || strcmp(name + a - b, end) != 0)
        return NULL;
    return sl_arena_printf(arena, "%.*s%s", (int)(a - b), name, to);
}

/* Finds the tensor of a file; files of 2018 use the names gamma and beta. */
static int64_t find_tensor(struct source *s, const char *name, int form) {
    const char *theirs = sl_hf_tensor_name(&s->arena, name, form);
    int64_t index = sl_ckpt_weights_find(s->weights, theirs);
    if (index >= 0)
        return index;
    const char *old = renamed(&s->arena, theirs, "LayerNorm.weight", "LayerNorm.gamma");
    if (!old)
        old = renamed(&s->arena, theirs, "LayerNorm.bias", "LayerNorm.beta");
    return old ? sl_ckpt_weights_find(s->weights, old) : -1;
}

static const struct sl_param *tensor_at(const struct sl_graph *graph, int64_t i) {
    int64_t params = graph->params.count;
    return i < params ? &graph->params.at[i] : &graph->states.at[i - params];
}

/* Returns the form that finds the most names; the plain form if several find as many. */
static int choose_form(struct source *s, const struct sl_graph *graph) {
    int64_t total = graph->params.count + graph->states.count, most = -1;
    int best = 0;
    for (int form = 0; sl_hf_tensor_name(&s->arena, "", form); form++) {
        int64_t found = 0;
        for (int64_t i = 0; i < total; i++)
            found += find_tensor(s, tensor_at(graph, i)->name, form) >= 0;
        if (found > most) {
            most = found;
            best = form;
        }
        if (found == total)
            break;
    }
    return best;
}

/* ---- comparing ---- */

struct differences {
    struct sl_text missing, unused, misshaped;
    int64_t missing_count, unused_count, misshaped_count;
};

static void add(struct sl_text *list, int64_t *count, const char *text) {
    if (*count < LISTED)
        sl_text_printf(list, "%s%s", *count ? ", " : "", text);
    else if (*count == LISTED)
        sl_text_put(list, ", ...");
    ++*count;
}

static bool same_shape(const struct sl_st_tensor *a, const struct sl_shape *b) {
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < b->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

static void add_misshaped(struct source *s, struct differences *d, const char *name,
                          const struct sl_st_tensor *tensor, const struct sl_shape *shape) {
    char theirs[SL_ST_TEXT], ours[SL_SHAPE_TEXT];
    add(&d->misshaped, &d->misshaped_count,
        sl_arena_printf(&s->arena, "%s is %s instead of %s", name, sl_st_shape_text(tensor, theirs),
                        sl_graph_shape_text(shape, ours)));
}

/* Fills the index with the tensors that fit, and notes the others. */
static void compare(struct source *s, const struct sl_graph *graph, struct differences *d) {
    int64_t total = graph->params.count + graph->states.count,
            count = sl_ckpt_weights_count(s->weights);
    bool *used = SL_NEW(&s->arena, bool, count + 1);
    struct sl_st_tensor tensor;
    int form = choose_form(s, graph);
    for (int64_t i = 0; i < total; i++) {
        const struct sl_param *param = tensor_at(graph, i);
        const struct sl_shape *shape = &sl_graph_value(graph, param->value)->shape;
        int64_t index = find_tensor(s, param->name, form);
        if (index < 0 && sl_tune_is_adapter(param->name))
            continue; /* adapters that the base model's weights lack start from their initial
                       * values */
        if (index < 0) {
            add(&d->missing, &d->missing_count, param->name);
            continue;
        }
        used[index] = true;
        sl_ckpt_weights_at(s->weights, index, &tensor);
        if (same_shape(&tensor, shape))
            sl_map_put(&s->index, sl_str(param->name), index);
        else
            add_misshaped(s, d, param->name, &tensor, shape);
    }
    for (int64_t i = 0; i < count; i++) {
        sl_ckpt_weights_at(s->weights, i, &tensor);
        if (!used[i] && !sl_hf_is_spare(NULL, tensor.name))
            add(&d->unused, &d->unused_count, tensor.name);
    }
}

static void put_list(struct sl_text *text, const char *what, int64_t count,
                     const struct sl_text *list) {
    if (count)
        sl_text_printf(text, "%s%lld %s%s: %s", text->length ? "; " : "", (long long)count,
                       count == 1 ? "tensor " : "tensors ", what, list->at);
}

static sl_err judge(const struct source *s, const char *path, const struct differences *d,
                    bool partial) {
    struct sl_text text = {0};
    put_list(&text, "missing", d->missing_count, &d->missing);
    put_list(&text, "of another shape", d->misshaped_count, &d->misshaped);
    put_list(&text, "unused", d->unused_count, &d->unused);
    sl_err err = SL_OK;
    if (!text.length)
        return SL_OK;
    if (s->index.count == 0)
        err = sl_fail(SL_ERR_INPUT, "%s: no tensor fits the model; %s", path, text.at);
    else if (!partial)
        err =
            sl_fail(SL_ERR_INPUT,
                    "%s does not fit the model: %s. Set `init_partial` to start from the %lld that "
                    "fit",
                    path, text.at, (long long)s->index.count);
    else
        sl_log_note("%s: %lld tensors fit; %s", path, (long long)s->index.count, text.at);
    sl_text_free(&text);
    return err;
}

sl_err sl_job_init_attach(struct sl_graph *graph, const char *path, bool partial) {
    struct source *s = sl_realloc(NULL, sizeof *s);
    struct differences d = {0};
    *s = (struct source){0};
    sl_err err = sl_ckpt_weights_open(path, &s->weights);
    if (err == SL_OK) {
        compare(s, graph, &d);
        err = judge(s, path, &d, partial);
    }
    sl_text_free(&d.missing);
    sl_text_free(&d.unused);
    sl_text_free(&d.misshaped);
    if (err != SL_OK) {
        close_source(s);
        return err;
    }
    s->below = graph->stored;
    graph->stored = (struct sl_stored_values){s, has_value, read_value, close_source};
    return SL_OK;
}
