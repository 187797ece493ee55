/* Tagged messages between ranks: the part that all transports share. */
#include "comm/post.h"

#include "base/arena.h"
#include "comm/nccl_link.h"

#include <stdlib.h>
#include <string.h>

void sl_comm_post_open(struct sl_post *post) {
    int ranks = post->base.ranks;
    post->next_tag = SL_MERGE_STEPS;
    post->everyone = (struct sl_ranks){.count = ranks, .me = post->base.rank};
    post->everyone.at = sl_realloc(NULL, sizeof(int) * (size_t)ranks);
    for (int r = 0; r < ranks; r++)
        post->everyone.at[r] = r;
}

void sl_comm_post_lock(struct sl_post *post) { post->row->lock(post); }

void sl_comm_post_unlock(struct sl_post *post) { post->row->unlock(post); }

sl_err sl_comm_post_send(struct sl_post *post, struct sl_transfer *op, const void *bytes,
                         int64_t size_bytes, int to, int tag) {
    if (post->nccl_link && sl_comm_nccl_link_owns(post->nccl_link, bytes))
        return sl_comm_nccl_link_send(post->nccl_link, op, bytes, size_bytes, to, tag);
    return post->row->send(post, op, bytes, size_bytes, to, tag);
}

sl_err sl_comm_post_send_sync(struct sl_post *post, struct sl_transfer *op, const void *bytes,
                              int64_t size_bytes, int to, int tag) {
    if (post->nccl_link && sl_comm_nccl_link_owns(post->nccl_link, bytes))
        return sl_comm_nccl_link_send(post->nccl_link, op, bytes, size_bytes, to, tag);
    return post->row->send_sync(post, op, bytes, size_bytes, to, tag);
}

sl_err sl_comm_post_receive(struct sl_post *post, struct sl_transfer *op, void *bytes,
                            int64_t size_bytes, int from, int tag) {
    if (post->nccl_link && sl_comm_nccl_link_owns(post->nccl_link, bytes))
        return sl_comm_nccl_link_receive(post->nccl_link, op, bytes, size_bytes, from, tag);
    return post->row->receive(post, op, bytes, size_bytes, from, tag);
}

bool sl_comm_post_drop(struct sl_post *post, struct sl_transfer *op) {
    bool found = false,
         free = post->nccl_link ? sl_comm_nccl_link_drop(post->nccl_link, op, &found) : true;
    return found ? free : post->row->drop(post, op);
}

sl_err sl_comm_post_take_tags(struct sl_post *post, int64_t count, int *first) {
    if (post->next_tag + count > post->last_tag)
        return sl_fail(SL_ERR_REFUSED,
                       "transport '%s' has %d tags, and channels need more; use fewer "
                       "stages",
                       post->base.row->name, post->last_tag);
    *first = post->next_tag;
    post->next_tag += (int)count;
    return SL_OK;
}

struct wait {
    struct sl_transfer *ops;
    int count;
};

static bool all_done(void *ctx) {
    struct wait *w = ctx;
    for (; w->count > 0; w->count--)
        if (atomic_load_explicit(&w->ops[w->count - 1].busy, memory_order_acquire))
            return false;
    return true;
}

sl_err sl_comm_post_wait(struct sl_post *post, struct sl_transfer *ops, int count) {
    struct wait wait = {ops, count};
    return sl_comm_gate_wait(&post->base.gate, all_done, &wait);
}

struct sl_kept {
    struct sl_kept *next;
    struct sl_transfer op;
    char bytes[];
};

sl_err sl_comm_post_pass(struct sl_post *post, bool sends, void *bytes, int64_t size_bytes,
                         int peer, int tag) {
    struct sl_kept *m = sl_realloc(NULL, sizeof *m + (size_t)size_bytes);
    bool idle = true;
    *m = (struct sl_kept){0};
    if (sends)
        memcpy(m->bytes, bytes, (size_t)size_bytes);
    sl_comm_post_lock(post);
    sl_err err = sends ? sl_comm_post_send(post, &m->op, m->bytes, size_bytes, peer, tag)
                       : sl_comm_post_receive(post, &m->op, m->bytes, size_bytes, peer, tag);
    sl_comm_post_unlock(post);
    if (err == SL_OK)
        err = sl_comm_post_wait(post, &m->op, 1);
    if (err != SL_OK) {
        sl_comm_post_lock(post);
        idle = sl_comm_post_drop(post, &m->op);
        m->next = post->kept;
        post->kept = idle ? m->next : m;
        sl_comm_post_unlock(post);
    } else if (!sends) {
        memcpy(bytes, m->bytes, (size_t)size_bytes);
    }
    if (idle)
        free(m);
    return err;
}

void sl_comm_post_free_kept(struct sl_post *post) {
    while (post->kept) {
        struct sl_kept *m = post->kept;
        post->kept = m->next;
        free(m);
    }
}

static void or_bytes(void *into, const void *from, int64_t size_bytes) {
    unsigned char *a = into;
    const unsigned char *b = from;
    for (int64_t i = 0; i < size_bytes; i++)
        a[i] |= b[i];
}

/* Merges tables by dissemination: in step k a rank sends its table to rank + 2^k and merges the one
 * from rank - 2^k. After log2(ranks) steps it has merged all tables; duplicates do not change an
 * or. */
sl_err sl_comm_post_merge(struct sl_post *post, const struct sl_ranks *ranks, void *bytes,
                          void *scratch, int64_t size_bytes) {
    int tag = ranks->tag, count = ranks->count;
    for (int64_t reach = 1; reach < count; reach *= 2, tag++) {
        struct sl_transfer ops[2] = {{0}, {0}};
        int to = ranks->at[(ranks->me + reach) % count];
        int from = ranks->at[(ranks->me - reach + count) % count];
        sl_comm_post_lock(post);
        sl_err err = sl_comm_post_receive(post, &ops[0], scratch, size_bytes, from, tag);
        if (err == SL_OK)
            err = sl_comm_post_send(post, &ops[1], bytes, size_bytes, to, tag);
        sl_comm_post_unlock(post);
        if (err == SL_OK)
            err = sl_comm_post_wait(post, ops, 2);
        if (err != SL_OK) { /* drops the operations, which are on the stack of this function */
            sl_comm_post_lock(post);
            (void)sl_comm_post_drop(post, &ops[0]);
            (void)sl_comm_post_drop(post, &ops[1]);
            sl_comm_post_unlock(post);
            return err;
        }
        or_bytes(bytes, scratch, size_bytes);
    }
    return SL_OK;
}

sl_err sl_comm_post_merge_all(struct sl_comm *comm, void *bytes, int64_t size_bytes) {
    enum { PIECE = 16 << 20 };
    struct sl_post *post = (struct sl_post *)comm;
    int64_t room = size_bytes < PIECE ? size_bytes : PIECE, at = 0;
    char *scratch = sl_realloc(NULL, (size_t)room + 1);
    sl_err err = SL_OK;
    do {
        int64_t size = size_bytes - at < room ? size_bytes - at : room;
        SL_TRY_OUT(sl_comm_post_merge(post, &post->everyone, (char *)bytes + at, scratch, size));
        at += size;
    } while (at < size_bytes);
out:
    if (err == SL_OK) /* after a failure a message may still be written to it, so it leaks */
        free(scratch);
    return err;
}
