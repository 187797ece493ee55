/* What the files of fusion share. */
#ifndef SL_PASS_FUSE_H
#define SL_PASS_FUSE_H

#include "pass/build.h"
#include "pass/fused.h"

bool sl_pass_fuse_is(const struct sl_instr *instr, const char *kernel);
/* Does it read whole values and overwrite its output? */
bool sl_pass_fuse_plain(const struct sl_instr *instr);
int sl_pass_fuse_phase_end(const struct sl_build *b, int i);
/* The first instruction of this kernel after i, in the phase of i, that reads `value`; -1: none. */
int sl_pass_fuse_reader(const struct sl_build *b, int i, const char *kernel, int value);
/* The instruction before i that computes `value`; -1: none. */
int sl_pass_fuse_maker(const struct sl_build *b, int i, int value);
/* Is `value` computed between i and j? Then j cannot move up to i. */
bool sl_pass_fuse_made_between(const struct sl_build *b, int i, int j, int value);

/* Gives an instruction so many operands; new inputs are absent. */
void sl_pass_fuse_operands(struct sl_build *b, struct sl_instr *instr, int in_count, int out_count);
/* Mark the second instruction as done by the first. Plans may still cut between the two. */
void sl_pass_fuse_absorb(struct sl_instr *first, struct sl_instr *second);
/* The same; plans may not cut between the two. */
void sl_pass_fuse_remove(struct sl_build *b, struct sl_instr *first, struct sl_instr *second);

/* fuse_norms.c: does instruction i begin the gradient of a layernorm or an rmsnorm that was fused? */
bool sl_pass_fuse_norm_grad(struct sl_build *b, int i);
/* fuse_gates.c: an activation times another value, in all phases. */
void sl_pass_fuse_gates(struct sl_build *b);

#endif
