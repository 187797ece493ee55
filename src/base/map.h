/* A hash map from text to an integer: open addressing, keys owned by the caller. */
#ifndef SL_BASE_MAP_H
#define SL_BASE_MAP_H

#include "base/text.h"

struct sl_map_slot {
    struct sl_str key; /* at == NULL: the slot is free */
    int64_t value;
};

struct sl_map {
    struct sl_map_slot *slots;
    int64_t room, count; /* room is a power of two */
};

/* Adds or replaces an entry. A map starts as {0}. Keys must outlive the map. */
void sl_map_put(struct sl_map *map, struct sl_str key, int64_t value);
/* Returns a pointer to the value, or NULL if it is absent; valid until the next put. */
int64_t *sl_map_find(const struct sl_map *map, struct sl_str key);
void sl_map_free(struct sl_map *map);

/* 64-bit hash of bytes (XXH3): also the checksum of checkpoints. */
uint64_t sl_hash(const void *bytes, size_t length);

#endif
