/* Meter of allocations for fuzz targets: the peak between sl_meter_start and sl_meter_check, from
 * sanitizer hooks. Without sanitizers it counts nothing. */
#ifndef SL_FUZZ_METER_H
#define SL_FUZZ_METER_H

#include <stdint.h>

/* A reader may allocate twice its file size plus this constant. */
enum { SL_METER_CONSTANT_BYTES = 1 << 20 };

void sl_meter_start(void);
/* Stop counting; abort if the peak exceeds the limit. At exit the process prints the largest excess
 * over 2 x size: "stat::most_over_twice_bytes: N". */
void sl_meter_check(int64_t size_bytes, int64_t constant_bytes);

#endif
