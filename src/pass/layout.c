/* Assigns offsets: greedy by size, first fit, on one timeline.
 *
 * Items that must be in SLOT are placed first. A temporary then takes the first hole, in SLOT while
 * the items there are not live, or in WORK after it:
 *
 *     offset 0 ........... slot_bytes .............. slot_bytes + work_bytes
 *            SLOT (per micro-batch)   WORK (shared) */
#include "pass/build.h"

#include <stdlib.h>

struct placed {
    const struct sl_item **at; /* sorted by offset */
    int count;
};

static bool overlap(const struct sl_item *a, const struct sl_item *c) {
    return a->born <= c->dies && c->born <= a->dies;
}

static int64_t first_fit(const struct placed *placed, const struct sl_item *item, int64_t border) {
    int64_t offset = 0;
    for (int i = 0; i < placed->count; i++) {
        const struct sl_item *other = placed->at[i];
        if (!overlap(item, other))
            continue;
        if (other->offset >= offset + item->size_bytes &&
            (border < 0 || offset >= border || offset + item->size_bytes <= border))
            break;
        int64_t end = other->offset + other->size_bytes;
        offset = end > offset ? end : offset;
    }
    if (border >= 0 && offset < border && offset + item->size_bytes > border)
        return -1; /* it crosses from SLOT into WORK: the caller tries again from the border */
    return offset;
}

static int64_t fit_from(const struct placed *placed, const struct sl_item *item, int64_t start) {
    int64_t offset = start;
    for (int i = 0; i < placed->count; i++) {
        const struct sl_item *other = placed->at[i];
        if (!overlap(item, other) || other->offset + other->size_bytes <= offset)
            continue;
        if (other->offset >= offset + item->size_bytes)
            break;
        offset = other->offset + other->size_bytes;
    }
    return offset;
}

static void insert(struct placed *placed, const struct sl_item *item) {
    int at = placed->count++;
    while (at > 0 && placed->at[at - 1]->offset > item->offset) {
        placed->at[at] = placed->at[at - 1];
        at--;
    }
    placed->at[at] = item;
}

static int compare_size(const void *a, const void *b) {
    const struct sl_item *x = *(struct sl_item *const *)a, *y = *(struct sl_item *const *)b;
    if (x->size_bytes != y->size_bytes)
        return x->size_bytes > y->size_bytes ? -1 : 1;
    return x->order != y->order ? (x->order < y->order ? -1 : 1)
                                : (x->born > y->born) - (x->born < y->born);
}

static int collect(struct sl_build *b, bool slot, struct sl_item **out) {
    int count = 0;
    for (int64_t i = 0; i < b->items.count; i++)
        if (b->items.at[i].into < 0 && b->items.at[i].slot == slot)
            out[count++] = &b->items.at[i];
    if (count)
        qsort(out, (size_t)count, sizeof(struct sl_item *), compare_size);
    return count;
}

static void place_items(struct sl_build *b) {
    struct sl_program *p = b->program;
    struct sl_item **order = SL_NEW(&b->scratch, struct sl_item *, b->items.count);
    struct placed placed = {SL_NEW(&b->scratch, const struct sl_item *, b->items.count), 0};
    int count = collect(b, true, order);
    for (int i = 0; i < count; i++) {
        order[i]->offset = fit_from(&placed, order[i], 0);
        insert(&placed, order[i]);
        int64_t end = order[i]->offset + order[i]->size_bytes;
        p->slot_bytes = end > p->slot_bytes ? end : p->slot_bytes;
        if (order[i]->born < b->forward_end && order[i]->dies >= b->forward_end)
            p->stash_bytes += order[i]->size_bytes;
    }
    count = collect(b, false, order);
    for (int i = 0; i < count; i++) {
        int64_t offset = first_fit(&placed, order[i], p->slot_bytes);
        order[i]->offset = offset >= 0 ? offset : fit_from(&placed, order[i], p->slot_bytes);
        insert(&placed, order[i]);
        int64_t end = order[i]->offset + order[i]->size_bytes - p->slot_bytes;
        p->work_bytes = end > p->work_bytes ? end : p->work_bytes;
    }
}

static const struct sl_item *item_of(const struct sl_build *b, int value, int time) {
    bool second = sl_pass_build_second_item(b, value, time);
    int item = second ? b->item_b[value] : b->item_f[value];
    while (item >= 0 && b->items.at[item].into >= 0)
        item = b->items.at[item].into;
    return item < 0 ? NULL : &b->items.at[item];
}

static void resolve(struct sl_build *b, struct sl_operand *operand, int time) {
    if (operand->value < 0 || operand->space != SL_SPACE_NONE)
        return;
    const struct sl_value *v = sl_graph_value(b->graph, operand->value);
    struct sl_program *p = b->program;
    if (v->kind == SL_VALUE_PARAM || v->kind == SL_VALUE_STATE) {
        bool state = v->kind == SL_VALUE_STATE;
        bool frozen = !state && b->graph->params.at[v->index].frozen;
        const struct sl_program_param *list = state ? p->states : frozen ? p->fixed : p->params;
        int count = state ? p->state_count : frozen ? p->fixed_count : p->param_count;
        operand->space = state ? SL_SPACE_STATE : frozen ? SL_SPACE_FIXED : SL_SPACE_PARAM;
        for (int i = 0; i < count; i++)
            if (list[i].param == v->index)
                operand->offset = list[i].offset;
        return;
    }
    const struct sl_item *item = item_of(b, operand->value, time);
    SL_ASSERT(item);
    bool slot = item->offset < p->slot_bytes;
    operand->space = slot ? SL_SPACE_SLOT : SL_SPACE_WORK;
    operand->offset = (slot ? item->offset : item->offset - p->slot_bytes) + operand->within;
}

void sl_pass_build_layout(struct sl_build *b) {
    place_items(b);
    for (int64_t t = 0; t < b->instrs.count; t++) {
        struct sl_instr *instr = &b->instrs.at[t];
        for (int i = 0; i < instr->in_count; i++)
            resolve(b, &instr->in[i], (int)t);
        for (int i = 0; i < instr->out_count; i++)
            resolve(b, &instr->out[i], (int)t);
    }
}
