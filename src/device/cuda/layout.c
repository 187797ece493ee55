/* Images with their channels last.
 *
 * Programs describe images as [B,C,H,W]; tensor cores and sums over pixels want [B,H,W,C]. This
 * file decides, per program, which values are stored that way: those whose users all support the
 * other layout. No other code sees the difference. Images from and to other stages are transposed
 * at the border, so a stage computes the bits of the whole model.
 *
 *   a kernel that needs some operands in the same layout puts them into one class;
 *   a kernel that does not know the layout fixes its operands, and their classes, to [B,C,H,W]
 */
#include "device/cuda/conv_last.h"
#include "device/cuda/cuda.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool is_plain_sum(struct sl_cuda_device *cuda, const struct sl_instr *instr) {
    (void)cuda;
    return instr->in[0].numel == instr->in[1].numel;
}

static bool is_channel_sum(struct sl_cuda_device *cuda, const struct sl_instr *instr) {
    const int64_t *x = instr->in[0].shape.dim, *y = instr->out[0].shape.dim;
    (void)cuda;
    return instr->in[0].shape.rank == 4 && instr->out[0].shape.rank == 4 && y[0] == 1 &&
           y[1] == x[1] && y[2] == 1 && y[3] == 1;
}

/* Does it join or cut channels of images? */
static bool is_channel_range(struct sl_cuda_device *cuda, const struct sl_instr *instr) {
    (void)cuda;
    return instr->in[0].shape.rank == 4 && instr->attr[0].i == 1;
}

static bool is_small(struct sl_cuda_device *cuda, const struct sl_instr *instr) {
    (void)cuda;
    return instr->in[0].numel < INT32_MAX && instr->out[0].numel < INT32_MAX;
}

/* Operands (bit masks) that may have either layout; `alike`: all of them must have the same. */
/* clang-format off */
static const struct known {
    const char *kernel;
    unsigned in, out;
    bool alike;
    bool (*takes)(struct sl_cuda_device *cuda, const struct sl_instr *instr); /* NULL: always */
} known[] = {
    {"add", 3, 1, true, is_plain_sum},
    {"avgpool", 1, 1, true, NULL},
    {"avgpool_dx", 1, 1, true, NULL},
    {"batchnorm", 1, 1, true, NULL},
    {"batchnorm_dw", 3, 0, true, NULL},
    {"batchnorm_dx", 3, 1, true, NULL},
    {"batchnorm_grad", 3, 1, true, NULL},
    {"batchnorm_relu", 33, 1, true, NULL},      /* x and r */
    {"batchnorm_relu_grad", 67, 1, true, NULL}, /* dy, x and z */
    {"concat", UINT_MAX, 1, true, is_channel_range},
    {"conv2d", 1, 1, false, sl_cuda_conv_last_takes},
    {"conv2d_dw", 3, 0, false, sl_cuda_conv_last_takes},
    {"conv2d_dx", 1, 1, false, sl_cuda_conv_last_takes},
    {"global_avgpool", 1, 0, false, NULL},
    {"global_avgpool_dx", 0, 1, false, NULL},
    {"maxpool", 1, 3, true, NULL},
    {"maxpool_dx", 3, 1, true, NULL},
    {"relu", 1, 1, true, NULL},
    {"relu_dx", 3, 1, true, NULL},
    {"slice", 1, 1, true, is_channel_range},
    {"slice_dx", 1, 1, true, is_channel_range},
    {"sum_to", 1, 0, false, is_channel_sum},
    {"upsample", 1, 1, true, is_small},
    {"upsample_dx", 1, 1, true, is_small},
};
/* clang-format on */

struct image {
    int up;     /* another value of the same class, or this one itself (union-find) */
    bool bound; /* fixed to [B,C,H,W]; for a class, the value of its root counts */
    bool written, read;
    struct sl_shape shape;
};

static int first_of(struct image *all, int value) {
    while (all[value].up != value)
        value = all[value].up = all[all[value].up].up;
    return value;
}

static void join(struct image *all, int a, int b) {
    a = first_of(all, a);
    b = first_of(all, b);
    all[a].bound |= all[b].bound;
    all[b].up = a;
}

static void bind_value(struct image *all, int value) { all[first_of(all, value)].bound = true; }

static bool is_image(const struct sl_operand *o) {
    return o->shape.rank == 4 && !o->row && o->shape.dim[1] % 8 == 0 && o->offset % 16 == 0 &&
           (sl_dtype_is_half(o->dtype) || o->dtype == SL_INT) &&
           (o->space == SL_SPACE_SLOT || o->space == SL_SPACE_WORK);
}

static const struct known *find_known(struct sl_cuda_device *cuda, const struct sl_instr *instr) {
    for (int i = 0; i < SL_COUNT(known); i++) {
        if (strcmp(known[i].kernel, instr->kernel) != 0)
            continue;
        return !known[i].takes || known[i].takes(cuda, instr) ? &known[i] : NULL;
    }
    return NULL;
}

/* Adds one operand. `with` is a value of its class, or -1. */
static int see(struct image *all, const struct sl_operand *o, bool knows, int with) {
    if (o->space == SL_SPACE_NONE || o->value < 0)
        return with;
    struct image *image = &all[o->value];
    if (!image->shape.rank)
        image->shape = o->shape;
    if (!knows || !is_image(o) || image->shape.rank != 4 ||
        memcmp(image->shape.dim, o->shape.dim, sizeof(int64_t) * 4) != 0) {
        bind_value(all, o->value);
        return with;
    }
    if (with >= 0)
        join(all, with, o->value);
    return o->value;
}

static bool all_images(const struct sl_operand *o, int count, unsigned bits) {
    for (int i = 0; i < count; i++)
        if ((bits >> i & 1) && !is_image(&o[i]))
            return false;
    return true;
}

static void see_instr(struct sl_cuda_device *cuda, struct image *all,
                      const struct sl_instr *instr) {
    const struct known *k = find_known(cuda, instr);
    if (k && k->alike &&
        !(all_images(instr->in, instr->in_count, k->in) &&
          all_images(instr->out, instr->out_count, k->out)))
        k = NULL;
    int with = -1;
    for (int i = 0; i < instr->in_count; i++) {
        int got = see(all, &instr->in[i], k && k->in >> i & 1, with);
        with = k && k->alike ? got : -1;
        if (instr->in[i].space != SL_SPACE_NONE && instr->in[i].value >= 0)
            all[instr->in[i].value].read = true;
    }
    for (int i = 0; i < instr->out_count; i++) {
        int got = see(all, &instr->out[i], k && k->out >> i & 1, with);
        with = k && k->alike ? got : -1;
        if (instr->out[i].space != SL_SPACE_NONE && instr->out[i].value >= 0)
            all[instr->out[i].value].written = true;
    }
}

static void bind_ports(struct image *all, const struct sl_ports *ports) {
    for (int i = 0; i < ports->count; i++)
        bind_value(all, ports->at[i].operand.value);
}

/* Adds values that come from another stage or go to one. */
static void see_ports(struct image *all, const struct sl_ports *ports, bool come) {
    for (int i = 0; i < ports->count; i++) {
        const struct sl_operand *o = &ports->at[i].operand;
        see(all, o, true, -1);
        all[o->value].written |= come;
        all[o->value].read |= !come;
    }
}

static int max_value(int max, int count, const struct sl_operand *o) {
    for (int i = 0; i < count; i++)
        max = o[i].value > max ? o[i].value : max;
    return max;
}

enum { PORTS = 8, CROSSING = 4 };

/* The first CROSSING lists connect to other stages: forward in, forward out, backward in, backward
 * out. */
static void ports_of(const struct sl_program *p, const struct sl_ports *out[PORTS]) {
    const struct sl_ports *all[PORTS] = {&p->recv_act, &p->send_act, &p->recv_grad, &p->send_grad,
                                         &p->inputs,   &p->seeds,    &p->losses,    &p->outputs};
    memcpy(out, all, sizeof all);
}

static int value_count(const struct sl_program *p, const struct sl_instr *instrs) {
    const struct sl_ports *ports[PORTS];
    int max = -1;
    for (int i = 0; i < p->instr_count; i++) {
        max = max_value(max, instrs[i].in_count, instrs[i].in);
        max = max_value(max, instrs[i].out_count, instrs[i].out);
    }
    ports_of(p, ports);
    for (int i = 0; i < PORTS; i++)
        for (int k = 0; k < ports[i]->count; k++)
            max = max_value(max, 1, &ports[i]->at[k].operand);
    return max + 1;
}

static bool lies_last(struct image *all, const struct sl_operand *o) {
    return o->space != SL_SPACE_NONE && o->value >= 0 && is_image(o) &&
           !all[first_of(all, o->value)].bound;
}

static bool is_read(const struct sl_program *p, const struct sl_instr *instrs, int value,
                    enum sl_phase phase) {
    for (int i = p->begin[phase]; i < p->end[phase]; i++)
        for (int k = 0; k < instrs[i].in_count; k++)
            if (instrs[i].in[k].space != SL_SPACE_NONE && instrs[i].in[k].value == value)
                return true;
    return false;
}

/* ---- what is turned ---- */

/* Adds a transposition, only once if the image goes to two stages. */
static void add_turn(struct sl_cuda_layout *out, struct sl_cuda_turn turn) {
    for (int i = 0; i < out->turn_count; i++)
        if (out->turns[i].image.value == turn.image.value && out->turns[i].phase == turn.phase &&
            out->turns[i].at_end == turn.at_end)
            return;
    out->turns = sl_realloc(out->turns, sizeof *out->turns * (size_t)(out->turn_count + 1));
    out->turns[out->turn_count++] = turn;
}

/* Programs have either I and W or B; a phase that does not exist never runs. An image that was
 * sent forward is transposed back where the backward pass reads it; by then the transfer has
 * ended. A gradient may still be in transit while phase W reads it, so W reads a transposed copy.
 */
static void make_turns(struct image *all, const struct sl_program *p, const struct sl_instr *instrs,
                       struct sl_cuda_layout *out) {
    static const enum sl_phase back[] = {SL_PHASE_I, SL_PHASE_B};
    const struct sl_ports *ports[PORTS];
    ports_of(p, ports);
    for (int which = 0; which < CROSSING; which++)
        for (int i = 0; i < ports[which]->count; i++) {
            const struct sl_operand *o = &ports[which]->at[i].operand;
            bool at_end = which % 2, backward = which >= 2;
            bool again = which == 1 && (is_read(p, instrs, o->value, SL_PHASE_I) ||
                                        is_read(p, instrs, o->value, SL_PHASE_W) ||
                                        is_read(p, instrs, o->value, SL_PHASE_B));
            if (!lies_last(all, o))
                continue;
            if (!backward)
                add_turn(out, (struct sl_cuda_turn){*o, SL_PHASE_F, at_end, !at_end});
            for (int k = 0; k < SL_COUNT(back) && (backward || again); k++)
                add_turn(out, (struct sl_cuda_turn){*o, back[k], backward && at_end,
                                                    !(backward && at_end)});
            if (backward && at_end && is_read(p, instrs, o->value, SL_PHASE_W))
                add_turn(out, (struct sl_cuda_turn){*o, SL_PHASE_W, false, true});
        }
}

static void mark(struct image *all, const struct sl_program *p, const struct sl_instr *instrs,
                 struct sl_cuda_last *last) {
    for (int i = 0; i < p->instr_count; i++) {
        for (int k = 0; k < instrs[i].in_count; k++)
            last[i].in |= (uint32_t)lies_last(all, &instrs[i].in[k]) << k;
        for (int k = 0; k < instrs[i].out_count; k++)
            last[i].out |= (uint32_t)lies_last(all, &instrs[i].out[k]) << k;
    }
}

static void *zeroed(int count, size_t size) {
    void *memory = calloc((size_t)count + 1, size);
    if (!memory)
        sl_out_of_memory(((size_t)count + 1) * size);
    return memory;
}

void sl_cuda_layout_make(struct sl_cuda_device *cuda, const struct sl_program *p,
                         const struct sl_instr *instrs, struct sl_cuda_layout *out) {
    const struct sl_ports *ports[PORTS];
    int count = value_count(p, instrs);
    out->last = zeroed(p->instr_count, sizeof *out->last);
    if (!sl_dtype_is_half(p->dtype))
        return;
    struct image *all = zeroed(count, sizeof *all);
    for (int i = 0; i < count; i++)
        all[i].up = i;
    for (int i = 0; i < p->instr_count; i++)
        see_instr(cuda, all, &instrs[i]);
    ports_of(p, ports);
    for (int i = 0; i < PORTS; i++) {
        if (i < CROSSING)
            see_ports(all, ports[i], i % 2 == 0);
        else
            bind_ports(all, ports[i]);
    }
    for (int i = 0; i < count; i++)
        if (!all[i].written || !all[i].read)
            bind_value(all, i);
    mark(all, p, instrs, out->last);
    make_turns(all, p, instrs, out);
    free(all);
}

void sl_cuda_layout_free(struct sl_cuda_layout *layout) {
    free(layout->last);
    free(layout->turns);
}
