/* Builds a trie breadth first from sorted strings: a node is a range of strings with a common
 * prefix. */
#include "tokenizer/trie.h"

#include "base/sort.h"
#include "base/vec.h"

struct range {
    int64_t low, high;
    uint32_t node;
    uint32_t depth;
};

static int compare(const void *a, const void *b) {
    const struct sl_trie_item *x = a, *y = b;
    size_t n = x->key.length < y->key.length ? x->key.length : y->key.length;
    int order = n ? memcmp(x->key.at, y->key.at, n) : 0;
    if (order)
        return order;
    if (x->key.length != y->key.length)
        return x->key.length < y->key.length ? -1 : 1;
    return x->value > y->value ? -1 : x->value < y->value;
}

struct builder {
    struct sl_trie_item *item;
    SL_VEC(struct range) queue;
    SL_VEC(struct sl_trie_node) node;
};

/* Gives a node its value and its children. */
static void expand(struct builder *b, struct range r) {
    if (b->item[r.low].key.length == r.depth) {
        b->node.at[r.node].value = b->item[r.low].value;
        while (r.low < r.high && b->item[r.low].key.length == r.depth)
            r.low++;
    }
    b->node.at[r.node].child = (uint32_t)b->node.count;
    while (r.low < r.high) {
        unsigned char label = (unsigned char)b->item[r.low].key.at[r.depth];
        int64_t end = r.low;
        while (end < r.high && (unsigned char)b->item[end].key.at[r.depth] == label)
            end++;
        struct range child = {r.low, end, (uint32_t)b->node.count, r.depth + 1};
        struct sl_trie_node node = {.value = -1, .label = label};
        SL_PUSH(&b->queue, child);
        SL_PUSH(&b->node, node);
        b->node.at[r.node].count++;
        r.low = end;
    }
}

void sl_tokenizer_trie_build(struct sl_trie *trie, struct sl_trie_item *items, int64_t count) {
    struct builder b = {.item = items};
    struct sl_trie_node root = {.value = -1};
    sl_sort(items, count, sizeof *items, compare);
    SL_PUSH(&b.node, root);
    if (count)
        expand(&b, (struct range){0, count, 0, 0});
    for (int64_t i = 0; i < b.queue.count; i++)
        expand(&b, b.queue.at[i]);
    SL_VEC_FREE(&b.queue);
    trie->count = b.node.count;
    trie->node = sl_realloc(b.node.at, sizeof *b.node.at * (size_t)b.node.count);
    memset(trie->root, 0, sizeof trie->root);
    for (uint32_t i = 0; i < trie->node[0].count; i++)
        trie->root[trie->node[trie->node[0].child + i].label] = trie->node[0].child + i;
}

void sl_tokenizer_trie_free(struct sl_trie *trie) {
    free(trie->node);
    *trie = (struct sl_trie){0};
}

uint32_t sl_tokenizer_trie_find(const struct sl_trie *trie, struct sl_str key) {
    uint32_t node = 0;
    for (size_t i = 0; i < key.length; i++) {
        node = sl_tokenizer_trie_step(trie, node, (unsigned char)key.at[i]);
        if (!node)
            return 0;
    }
    return node;
}

int32_t sl_tokenizer_trie_longest(const struct sl_trie *trie, uint32_t from, struct sl_str text,
                                  size_t *length) {
    int32_t best = -1;
    uint32_t node = from;
    for (size_t i = 0; i < text.length && trie->count; i++) {
        node = sl_tokenizer_trie_step(trie, node, (unsigned char)text.at[i]);
        if (!node)
            break;
        if (trie->node[node].value >= 0) {
            best = trie->node[node].value;
            *length = i + 1;
        }
    }
    return best;
}
