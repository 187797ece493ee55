/* What the files of fusion share. */
#ifndef SL_PASS_FUSE_H
#define SL_PASS_FUSE_H

#include "pass/build.h"
#include "pass/fused.h"

bool sl_pass_fuse_is(const struct sl_instr *instr, const char *kernel);
/* Returns true if the instruction reads whole values and overwrites its output. */
bool sl_pass_fuse_plain(const struct sl_instr *instr);
int sl_pass_fuse_phase_end(const struct sl_build *b, int i);
/* Returns the first instruction of this kernel after i, in the phase of i, that reads `value`; or
 * -1. */
int sl_pass_fuse_reader(const struct sl_build *b, int i, const char *kernel, int value);
/* Returns the instruction before i that computes `value`; or -1. */
int sl_pass_fuse_maker(const struct sl_build *b, int i, int value);
/* Returns true if `value` is computed between i and j, so that j cannot move up to i. */
bool sl_pass_fuse_made_between(const struct sl_build *b, int i, int j, int value);

/* Gives an instruction so many operands. New inputs are absent. */
void sl_pass_fuse_operands(struct sl_build *b, struct sl_instr *instr, int in_count, int out_count);
/* Marks the second instruction as done by the first. Plans may still cut between the two. */
void sl_pass_fuse_absorb(struct sl_instr *first, struct sl_instr *second);
/* Does the same, but plans may not cut between the two. */
void sl_pass_fuse_remove(struct sl_build *b, struct sl_instr *first, struct sl_instr *second);

/* fuse_norms.c: fuses the gradient of a layernorm or rmsnorm that begins at instruction i; true if
 * it did. */
bool sl_pass_fuse_norm_grad(struct sl_build *b, int i);
/* fuse_gates.c: fuses activations that are multiplied by another value, in all phases. */
void sl_pass_fuse_gates(struct sl_build *b);

#endif
