/* Finds the SEND and the RECV of a timeline that are one message, with a hash of edge, direction
 * and the two micro-batches. */
#include "sched/timeline.h"

#include <stdlib.h>

struct message { /* key.stage is unused */
    uint64_t key, micros;
    struct sl_moment send, recv; /* lane -1: not found yet */
};

struct sl_matches {
    struct message *at;
    uint64_t mask;
};

static void key_of(const struct sl_action *a, uint64_t *key, uint64_t *micros) {
    bool send = a->kind == SL_SEND;
    uint32_t from = (uint32_t)(send ? a->micro : a->other);
    uint32_t to = (uint32_t)(send ? a->other : a->micro);
    *key = (uint64_t)a->edge << 2 | (a->flags & SL_GRAD ? 2u : 0u) | 1u;
    *micros = (uint64_t)from << 32 | to;
}

static struct message *slot_of(const struct sl_matches *matches, uint64_t key, uint64_t micros) {
    uint64_t hash = (micros ^ key * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    for (uint64_t at = hash ^ hash >> 32;; at++) {
        struct message *m = &matches->at[at & matches->mask];
        if (!m->key || (m->key == key && m->micros == micros))
            return m;
    }
}

struct sl_matches *sl_sched_matches_open(const struct sl_timeline *timeline) {
    int64_t count = 0;
    uint64_t room = 16, key, micros;
    for (int l = 0; l < timeline->lane_count; l++)
        for (int64_t i = 0; i < timeline->lanes[l].count; i++)
            count += timeline->lanes[l].at[i].action.kind == SL_SEND;
    while (room < (uint64_t)count * 3)
        room *= 2;
    struct sl_matches *matches = sl_realloc(NULL, sizeof *matches);
    matches->at = calloc(room, sizeof *matches->at);
    if (!matches->at)
        sl_out_of_memory(room * sizeof *matches->at);
    matches->mask = room - 1;
    for (int l = 0; l < timeline->lane_count; l++)
        for (int64_t i = 0; i < timeline->lanes[l].count; i++) {
            const struct sl_action *a = &timeline->lanes[l].at[i].action;
            if (a->kind != SL_SEND && a->kind != SL_RECV)
                continue;
            key_of(a, &key, &micros);
            struct message *m = slot_of(matches, key, micros);
            if (!m->key && a->kind == SL_RECV && (uint64_t)++count * 3 > 2 * room)
                continue; /* many receives without sends: not a timeline that we wrote; stop
                           * before the table is full */
            if (!m->key)
                *m = (struct message){key, micros, {-1, 0}, {-1, 0}};
            *(a->kind == SL_SEND ? &m->send : &m->recv) = (struct sl_moment){l, i};
        }
    return matches;
}

bool sl_sched_matches_find(const struct sl_matches *matches, const struct sl_action *message,
                           struct sl_moment *send, struct sl_moment *recv) {
    uint64_t key, micros;
    key_of(message, &key, &micros);
    const struct message *m = slot_of(matches, key, micros);
    if (!m->key || m->send.lane < 0 || m->recv.lane < 0)
        return false;
    *send = m->send;
    *recv = m->recv;
    return true;
}

void sl_sched_matches_close(struct sl_matches *matches) {
    free(matches->at);
    free(matches);
}
