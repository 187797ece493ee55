/* Holes in a program's memory. A value is live from the first to the last instruction that uses it.
 * Values that enter or leave the stage are always live, because transfers run at any time. */
#include "pass/holes.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 };

struct life {
    enum sl_space space;
    int64_t begin, end; /* range of bytes */
    int value, first, last;
};

struct sl_lives {
    const struct sl_program *program;
    struct life *at;
    int count, room;
    bool ordered; /* the phases run in the order of the instructions */
};

static int64_t element_bytes(enum sl_dtype dtype) { return sl_dtype_is_half(dtype) ? 2 : 4; }

/* Returns the lifetime of the tensor that contains the operand. */
static struct life life_of(const struct sl_operand *o, int instr) {
    int64_t count = o->row ? o->numel / o->run * o->row : o->numel;
    int64_t begin = o->offset - o->within;
    return (struct life){o->space, begin, begin + count * element_bytes(o->dtype),
                         o->value, instr, instr};
}

static void add(struct sl_lives *lives, struct life life) {
    if (lives->count == lives->room) {
        lives->room = lives->room ? 2 * lives->room : 256;
        lives->at = sl_realloc(lives->at, sizeof *lives->at * (size_t)lives->room);
    }
    lives->at[lives->count++] = life;
}

static void see(struct sl_lives *lives, const struct sl_operand *o, int first, int last) {
    struct life life = life_of(o, first);
    if (o->space != SL_SPACE_SLOT && o->space != SL_SPACE_WORK)
        return;
    life.last = last;
    add(lives, life);
}

static void see_ports(struct sl_lives *lives, const struct sl_ports *ports) {
    for (int i = 0; i < ports->count; i++)
        see(lives, &ports->at[i].operand, -1, lives->program->instr_count);
}

static int by_value(const void *a, const void *b) {
    const struct life *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->first - y->first;
}

/* Merges all lifetimes of a value into one. */
static void stretch(struct sl_lives *lives) {
    for (int i = 0, next; i < lives->count; i = next) {
        int first = lives->at[i].first, last = lives->at[i].last;
        for (next = i; next < lives->count && lives->at[next].value == lives->at[i].value; next++)
            last = lives->at[next].last > last ? lives->at[next].last : last;
        for (int k = i; k < next; k++) {
            lives->at[k].first = first;
            lives->at[k].last = last;
        }
    }
}

static bool in_order(const struct sl_program *p) {
    for (int phase = SL_PHASE_I; phase < SL_PHASE_COUNT; phase++)
        if (p->begin[phase] < p->end[phase] && p->begin[phase] < p->end[SL_PHASE_F])
            return false;
    return p->begin[SL_PHASE_W] == p->end[SL_PHASE_W] || p->end[SL_PHASE_I] <= p->begin[SL_PHASE_W];
}

struct sl_lives *sl_pass_lives_open(const struct sl_program *p) {
    struct sl_lives *lives = calloc(1, sizeof *lives);
    if (!lives)
        sl_out_of_memory(sizeof *lives);
    lives->program = p;
    lives->ordered = in_order(p);
    for (int i = 0; i < p->instr_count; i++) {
        for (int k = 0; k < p->instrs[i].in_count; k++)
            see(lives, &p->instrs[i].in[k], i, i);
        for (int k = 0; k < p->instrs[i].out_count; k++)
            see(lives, &p->instrs[i].out[k], i, i);
    }
    const struct sl_ports *ports[] = {&p->inputs,    &p->recv_act, &p->send_act, &p->recv_grad,
                                      &p->send_grad, &p->seeds,    &p->losses,   &p->outputs};
    for (int i = 0; i < SL_COUNT(ports); i++)
        see_ports(lives, ports[i]);
    if (lives->count > 0)
        qsort(lives->at, (size_t)lives->count, sizeof *lives->at, by_value);
    stretch(lives);
    return lives;
}

void sl_pass_lives_close(struct sl_lives *lives) {
    if (!lives)
        return;
    free(lives->at);
    free(lives);
}

/* Returns the lowest free offset: skips every live piece that overlaps, until none does. */
static int64_t first_free(const struct sl_lives *lives, enum sl_space space, int instr,
                          int64_t size_bytes) {
    int64_t at = 0;
    for (int i = 0; i < lives->count; i++) {
        const struct life *life = &lives->at[i];
        if (life->space != space || life->first > instr || life->last < instr || life->end <= at ||
            life->begin >= at + size_bytes)
            continue;
        at = (life->end + ALIGN - 1) / ALIGN * ALIGN;
        i = -1; /* starts again, because an earlier piece may overlap the new offset */
    }
    return at;
}

struct sl_hole sl_pass_lives_hole(const struct sl_lives *lives, int instr, int64_t size_bytes) {
    const struct sl_program *p = lives->program;
    const int64_t max[] = {p->slot_bytes, p->work_bytes};
    const enum sl_space spaces[] = {SL_SPACE_SLOT, SL_SPACE_WORK};
    for (int i = 0; i < SL_COUNT(spaces) && lives->ordered; i++) {
        int64_t at = first_free(lives, spaces[i], instr, size_bytes);
        if (at + size_bytes <= max[i])
            return (struct sl_hole){spaces[i], at};
    }
    return (struct sl_hole){SL_SPACE_NONE, 0};
}
