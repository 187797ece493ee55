/* Holes: memory of a slot or of WORK that nobody needs while an instruction runs. A device may use
 * it as the instruction's scratch; the slab of a stage with a loss, say, has room for logits that
 * are long dead when attention goes backwards.
 */
#ifndef SL_PASS_HOLES_H
#define SL_PASS_HOLES_H

#include "pass/program.h"

struct sl_hole {
    enum sl_space space; /* SLOT or WORK; NONE: none is large enough */
    int64_t offset;
};

struct sl_lives; /* from when to when the program needs each piece of its memory */

struct sl_lives *sl_pass_lives_open(const struct sl_program *program);
void sl_pass_lives_close(struct sl_lives *lives);
/* The first hole of so many bytes, aligned to 256, while the instruction runs. */
struct sl_hole sl_pass_lives_hole(const struct sl_lives *lives, int instr, int64_t size_bytes);

#endif
