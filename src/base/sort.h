/* In-place sort, not stable: no allocation, O(n log n) for every input. Readers of untrusted files
 * need both; qsort of the C library may allocate a copy. */
#ifndef SL_BASE_SORT_H
#define SL_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

void sl_sort(void *at, int64_t count, size_t item_bytes,
             int (*compare)(const void *a, const void *b));
/* Sorts in ascending order. */
void sl_sort_ints(int64_t *at, int64_t count);

#endif
