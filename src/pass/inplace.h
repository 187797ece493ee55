/* Which kernels may write their first output over one of their inputs. */
#ifndef SL_PASS_INPLACE_H
#define SL_PASS_INPLACE_H

/* Bit i: output 0 may use the memory of input i, if both have the same number of elements and no
 * later instruction reads that input. The kernels of all devices must support this; tests/table
 * checks it. */
unsigned sl_pass_inplace_inputs(const char *kernel);

#endif
