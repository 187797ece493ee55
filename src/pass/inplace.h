/* Which kernels may write their first output over one of their inputs. */
#ifndef SL_PASS_INPLACE_H
#define SL_PASS_INPLACE_H

/* Bit i: output 0 may lie on input i, if both have the same number of elements and nobody reads
 * that input afterwards. Every device's kernels keep to this; tests/table holds them to it. */
unsigned sl_pass_inplace_inputs(const char *kernel);

#endif
