/* Holes: memory of SLOT or WORK that holds no live value while an instruction runs. A device may
 * use it as scratch of that instruction. Example: in a stage with a loss, the memory of the logits
 * is free during the backward pass of attention.
 */
#ifndef SL_PASS_HOLES_H
#define SL_PASS_HOLES_H

#include "pass/program.h"

struct sl_hole {
    enum sl_space space; /* SLOT or WORK; NONE: no hole is large enough */
    int64_t offset;
};

struct sl_lives; /* the lifetimes of all pieces of a program's memory */

struct sl_lives *sl_pass_lives_open(const struct sl_program *program);
void sl_pass_lives_close(struct sl_lives *lives);
/* Returns the first hole of `size_bytes`, aligned to 256, that is free while instruction `instr`
 * runs. */
struct sl_hole sl_pass_lives_hole(const struct sl_lives *lives, int instr, int64_t size_bytes);

#endif
