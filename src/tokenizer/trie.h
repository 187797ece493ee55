/* A set of byte strings with values. It finds all members with which a text begins, shortest
 * first.
 *
 * Nodes are numbered in breadth-first order, so the children of a node are adjacent and sorted. */
#ifndef SL_TOKENIZER_TRIE_H
#define SL_TOKENIZER_TRIE_H

#include "base/text.h"

struct sl_trie_node {
    uint32_t child; /* first of its `count` children */
    int32_t value;  /* -1: no member ends here */
    uint16_t count;
    unsigned char label;
};

struct sl_trie {
    struct sl_trie_node *node; /* node[0] is the empty string */
    int64_t count;
    uint32_t root[256]; /* children of node 0; 0: there is none */
};

struct sl_trie_item {
    struct sl_str key; /* not empty */
    int32_t value;     /* of equal keys the highest value is kept */
};

/* Builds the trie; sorts `items`. */
void sl_tokenizer_trie_build(struct sl_trie *trie, struct sl_trie_item *items, int64_t count);
void sl_tokenizer_trie_free(struct sl_trie *trie);

/* Returns the child of a node, or 0. */
static inline uint32_t sl_tokenizer_trie_step(const struct sl_trie *trie, uint32_t node,
                                              unsigned char byte) {
    if (!node)
        return trie->root[byte];
    const struct sl_trie_node *at = &trie->node[node];
    uint32_t low = at->child, high = at->child + at->count;
    while (high - low > 4) {
        uint32_t middle = (low + high) / 2;
        if (trie->node[middle].label <= byte)
            low = middle;
        else
            high = middle;
    }
    for (; low < high; low++)
        if (trie->node[low].label == byte)
            return low;
    return 0;
}

/* Returns the node of a string, or 0 (also for the empty string). */
uint32_t sl_tokenizer_trie_find(const struct sl_trie *trie, struct sl_str key);
/* Finds the longest member at the start of a text; returns its value and sets its length, or
 * returns -1. */
int32_t sl_tokenizer_trie_longest(const struct sl_trie *trie, uint32_t from, struct sl_str text,
                                  size_t *length);

#endif
