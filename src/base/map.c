/* A hash map from text to an integer. */
#include "base/map.h"

#include <stdlib.h>
#include <xxhash.h>

uint64_t sl_hash(const void *bytes, size_t length) { return XXH3_64bits(bytes, length); }

static struct sl_map_slot *slot_of(const struct sl_map *map, struct sl_str key) {
    int64_t mask = map->room - 1;
    int64_t i = (int64_t)(sl_hash(key.at, key.length) & (uint64_t)mask);
    while (map->slots[i].key.at && !sl_str_equal(map->slots[i].key, key))
        i = (i + 1) & mask;
    return &map->slots[i];
}

static void grow(struct sl_map *map) {
    struct sl_map old = *map;
    map->room = old.room ? old.room * 2 : 16;
    size_t size_bytes = sizeof *map->slots * (size_t)map->room;
    map->slots = calloc(1, size_bytes);
    if (!map->slots)
        sl_out_of_memory(size_bytes);
    for (int64_t i = 0; i < old.room; i++)
        if (old.slots[i].key.at)
            *slot_of(map, old.slots[i].key) = old.slots[i];
    free(old.slots);
}

void sl_map_put(struct sl_map *map, struct sl_str key, int64_t value) {
    if ((map->count + 1) * 2 > map->room)
        grow(map);
    struct sl_map_slot *slot = slot_of(map, key);
    if (!slot->key.at)
        map->count++;
    *slot = (struct sl_map_slot){key.at ? key : SL_STR(""), value};
}

int64_t *sl_map_find(const struct sl_map *map, struct sl_str key) {
    if (!map->room)
        return NULL;
    struct sl_map_slot *slot = slot_of(map, key);
    return slot->key.at ? &slot->value : NULL;
}

void sl_map_free(struct sl_map *map) {
    free(map->slots);
    *map = (struct sl_map){0};
}
