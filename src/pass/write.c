/* Writes a program as text, for people. */
#include "pass/program.h"

static void put_operand(struct sl_text *text, const struct sl_operand *operand) {
    static const char *const names[] = {"-", "param", "fixed", "grad", "state", "slot", "work"};
    char shape[SL_SHAPE_TEXT];
    sl_text_printf(text, " %s", names[operand->space]);
    if (operand->space != SL_SPACE_NONE)
        sl_text_printf(text, "+%lld%s", (long long)operand->offset,
                       sl_graph_shape_text(&operand->shape, shape));
}

void sl_pass_program_write(const struct sl_program *p, struct sl_text *text) {
    static const char *const tags[] = {"F", "I", "W"};
    sl_text_printf(text,
                   "# program of %s: micro-batch %lld, params %lld, grads %lld, state %lld, slot "
                   "%lld (stash %lld), work %lld bytes\n",
                   p->graph->name, (long long)p->samples, (long long)p->param_bytes,
                   (long long)p->grad_bytes, (long long)p->state_bytes, (long long)p->slot_bytes,
                   (long long)p->stash_bytes, (long long)p->work_bytes);
    for (int i = 0; i < p->instr_count; i++) {
        const struct sl_instr *instr = &p->instrs[i];
        sl_text_printf(text, "%4d %s %s%s:", i, tags[instr->pass], instr->kernel,
                       instr->accumulate ? "+=" : "");
        for (int k = 0; k < instr->out_count; k++)
            put_operand(text, &instr->out[k]);
        sl_text_put(text, " <-");
        for (int k = 0; k < instr->in_count; k++)
            put_operand(text, &instr->in[k]);
        sl_text_put(text, "\n");
    }
}
