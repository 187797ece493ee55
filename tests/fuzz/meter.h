/* What a reader allocates, for fuzz targets: the most it had at once between sl_meter_start and
 * sl_meter_check, counted by the hooks of the sanitizers. A build without them counts nothing. */
#ifndef SL_FUZZ_METER_H
#define SL_FUZZ_METER_H

#include <stdint.h>

/* Every reader: at most twice its file, and this. */
enum { SL_METER_CONSTANT_BYTES = 1 << 20 };

void sl_meter_start(void);
/* Stops counting; aborts when there was more. The largest excess over 2 x size is told at the end
 * of the process, with the constant: "stat::most_over_twice_bytes: N". */
void sl_meter_check(int64_t size_bytes, int64_t constant_bytes);

#endif
