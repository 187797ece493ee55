/* The checker of programs: executes the instructions on a map of memory and proves that every
 * operand still holds its value when it is read. WORK is cleared between phases. */
#include "pass/program.h"

struct tenant {
    enum sl_space space;
    int64_t from, to;
    int value;
};

struct memory {
    const struct sl_program *program;
    SL_VEC(struct tenant) tenants;
};

/* Returns the number of bytes from the first to the last element. */
static int64_t bytes_of(const struct sl_operand *operand) {
    int64_t numel = operand->numel;
    if (operand->row)
        numel = (operand->numel / operand->run - 1) * operand->row + operand->run;
    return numel * sl_pass_dtype_bytes(operand->dtype);
}

static int64_t space_bytes(const struct sl_program *p, enum sl_space space) {
    switch (space) {
    case SL_SPACE_PARAM: return p->param_bytes;
    case SL_SPACE_FIXED: return p->fixed_bytes;
    case SL_SPACE_GRAD: return p->grad_bytes;
    case SL_SPACE_STATE: return p->state_bytes;
    case SL_SPACE_SLOT: return p->slot_bytes;
    case SL_SPACE_WORK: return p->work_bytes;
    default: return 0;
    }
}

static void evict(struct memory *memory, const struct tenant *fresh) {
    int64_t kept = 0;
    for (int64_t i = 0; i < memory->tenants.count; i++) {
        const struct tenant *t = &memory->tenants.at[i];
        bool hit = t->space == fresh->space && t->from < fresh->to && fresh->from < t->to;
        if (!hit)
            memory->tenants.at[kept++] = *t;
    }
    memory->tenants.count = kept;
}

/* Describes the memory of an operand. A part counts as its whole tensor, because other parts may
 * have been written before. */
static struct tenant tenant_of(const struct sl_operand *operand) {
    struct tenant tenant = {operand->space, operand->offset - operand->within, 0, operand->value};
    int64_t bytes = bytes_of(operand);
    if (operand->row)
        bytes = operand->numel / operand->run * operand->row * sl_pass_dtype_bytes(operand->dtype);
    tenant.to = tenant.from + bytes;
    return tenant;
}

static void write_operand(struct memory *memory, const struct sl_operand *operand) {
    struct tenant fresh = tenant_of(operand);
    evict(memory, &fresh);
    SL_PUSH(&memory->tenants, fresh);
}

static bool holds(const struct memory *memory, const struct sl_operand *operand) {
    for (int64_t i = 0; i < memory->tenants.count; i++) {
        const struct tenant *t = &memory->tenants.at[i];
        if (t->space == operand->space && t->from == operand->offset - operand->within &&
            t->value == operand->value)
            return true;
    }
    return false;
}

static sl_err check_bounds(const struct sl_program *p, const struct sl_instr *instr,
                           const struct sl_operand *operand) {
    if (operand->space == SL_SPACE_NONE)
        return SL_OK;
    int64_t end = operand->offset + bytes_of(operand);
    if (operand->offset < 0 || end > space_bytes(p, operand->space))
        return sl_fail(SL_ERR_REFUSED, "program: an operand of '%s' lies outside its memory",
                       instr->kernel);
    return SL_OK;
}

static sl_err check_instr(struct memory *memory, const struct sl_instr *instr) {
    char name[SL_NAME_TEXT];
    for (int i = 0; i < instr->in_count; i++) {
        const struct sl_operand *operand = &instr->in[i];
        SL_TRY(check_bounds(memory->program, instr, operand));
        if ((operand->space == SL_SPACE_SLOT || operand->space == SL_SPACE_WORK) &&
            !holds(memory, operand))
            return sl_fail(SL_ERR_REFUSED, "program: '%s' reads %s after its memory was reused",
                           instr->kernel,
                           sl_graph_value_name(memory->program->graph, operand->value, name));
    }
    for (int i = 0; i < instr->out_count; i++) {
        SL_TRY(check_bounds(memory->program, instr, &instr->out[i]));
        if (instr->out[i].space == SL_SPACE_SLOT || instr->out[i].space == SL_SPACE_WORK)
            write_operand(memory, &instr->out[i]);
    }
    return SL_OK;
}

static void wipe_work(struct memory *memory) {
    struct tenant all = {SL_SPACE_WORK, 0, INT64_MAX, -1};
    evict(memory, &all);
}

static void write_ports(struct memory *memory, const struct sl_ports *ports) {
    for (int i = 0; i < ports->count; i++)
        write_operand(memory, &ports->at[i].operand);
}

static sl_err check_ports(struct memory *memory, const struct sl_ports *ports, const char *what) {
    char name[SL_NAME_TEXT];
    for (int i = 0; i < ports->count; i++)
        if (!holds(memory, &ports->at[i].operand))
            return sl_fail(SL_ERR_REFUSED,
                           "program: the memory of %s %s is reused before it is read", what,
                           sl_graph_value_name(memory->program->graph, ports->at[i].value, name));
    return SL_OK;
}

/* Executes all instructions on the map. late: gradients arrive after the recomputation. */
static sl_err play(const struct sl_program *p, bool late) {
    struct memory memory = {.program = p};
    sl_err err = SL_OK;
    write_ports(&memory, &p->inputs);
    write_ports(&memory, &p->seeds);
    write_ports(&memory, &p->recv_act);
    for (int i = p->begin[SL_PHASE_F]; i < p->end[SL_PHASE_F]; i++)
        SL_TRY_OUT(check_instr(&memory, &p->instrs[i]));
    wipe_work(&memory);
    SL_TRY_OUT(check_ports(&memory, &p->losses, "loss"));
    SL_TRY_OUT(check_ports(&memory, &p->outputs, "output"));
    SL_TRY_OUT(check_ports(&memory, &p->send_act, "activation"));
    if (!late)
        write_ports(&memory, &p->recv_grad);
    for (int i = p->begin[SL_PHASE_R]; i < p->end[SL_PHASE_R]; i++)
        SL_TRY_OUT(check_instr(&memory, &p->instrs[i]));
    if (late)
        write_ports(&memory, &p->recv_grad);
    for (int i = p->end[SL_PHASE_R]; i < p->end[SL_PHASE_I]; i++)
        SL_TRY_OUT(check_instr(&memory, &p->instrs[i]));
    if (p->split)
        wipe_work(&memory);
    SL_TRY_OUT(check_ports(&memory, &p->send_grad, "gradient"));
    for (int i = p->begin[SL_PHASE_W]; i < p->end[SL_PHASE_W]; i++)
        SL_TRY_OUT(check_instr(&memory, &p->instrs[i]));
out:
    SL_VEC_FREE(&memory.tenants);
    return err;
}

sl_err sl_pass_program_check(const struct sl_program *p) {
    SL_TRY(play(p, false));
    return p->recompute ? play(p, true) : SL_OK;
}
