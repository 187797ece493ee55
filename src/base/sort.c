/* Heap sort. */
#include "base/sort.h"

struct heap {
    unsigned char *at;
    size_t item_bytes;
    int (*compare)(const void *a, const void *b);
};

static void swap(const struct heap *heap, int64_t i, int64_t j) {
    unsigned char *a = heap->at + (size_t)i * heap->item_bytes;
    unsigned char *b = heap->at + (size_t)j * heap->item_bytes;
    for (size_t k = 0; k < heap->item_bytes; k++) {
        unsigned char held = a[k];
        a[k] = b[k];
        b[k] = held;
    }
}

static int compare(const struct heap *heap, int64_t i, int64_t j) {
    return heap->compare(heap->at + (size_t)i * heap->item_bytes,
                         heap->at + (size_t)j * heap->item_bytes);
}

static void sift_down(const struct heap *heap, int64_t root, int64_t count) {
    for (int64_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && compare(heap, child, child + 1) < 0)
            child++;
        if (compare(heap, root, child) >= 0)
            return;
        swap(heap, root, child);
    }
}

void sl_sort(void *at, int64_t count, size_t item_bytes,
             int (*compare_items)(const void *a, const void *b)) {
    struct heap heap = {at, item_bytes, compare_items};
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        sift_down(&heap, i, count);
    for (int64_t end = count - 1; end > 0; end--) {
        swap(&heap, 0, end);
        sift_down(&heap, 0, end);
    }
}

static int compare_ints(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void sl_sort_ints(int64_t *at, int64_t count) { sl_sort(at, count, sizeof *at, compare_ints); }
