/* Device memory that two ranks of one host use, where the sender writes to the receiver's memory
 * itself. A message is then one copy by the sender's device, as between threads, and nothing of it
 * passes through the host.
 *
 *     receiver                                   sender
 *     shares its memory -------- door ---------> enters
 *                       <------- answer -------- (well, or why not)
 *
 * Where it is refused (other hosts, containers that keep processes apart, GPUs that do not reach
 * each other), messages take the way of the transport, through the host.
 */
#include "comm/near.h"

#include "base/arena.h"
#include "base/log.h"
#include "comm/post.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    bool well;
    char door[SL_NEAR_DOOR];
    char why[256];
};

static void judge(struct word *word, sl_err err) {
    word->well = err == SL_OK;
    if (err != SL_OK)
        snprintf(word->why, sizeof word->why, "%s", sl_err_message());
}

static sl_err open_door(struct sl_post *post, const struct sl_near_pair *pair, struct sl_near *near,
                        struct word *word) {
    word->well = true;
    if (!near->area.at)
        judge(word, near->row->share(pair->device, pair->size_bytes, &near->area, near->door));
    memcpy(word->door, near->door, sizeof word->door);
    SL_TRY(sl_post_pass(post, true, word, sizeof *word, pair->from, pair->tag));
    return word->well ? sl_post_pass(post, false, word, sizeof *word, pair->from, pair->tag)
                      : SL_OK;
}

static sl_err enter(struct sl_post *post, const struct sl_near_pair *pair, struct sl_near *near,
                    struct word *word) {
    near->entered = true;
    SL_TRY(sl_post_pass(post, false, word, sizeof *word, pair->to, pair->tag));
    if (!word->well)
        return SL_OK;
    judge(word, near->row->enter(pair->device, word->door, &near->area));
    return sl_post_pass(post, true, word, sizeof *word, pair->to, pair->tag);
}

/* Once each: there may be many. */
static void say(struct sl_post *post, const struct sl_near_pair *pair, const struct word *word,
                const char *name) {
    if (!post->near_said[word->well] && word->well)
        sl_log_note("messages from rank %d to rank %d go by %s", pair->from, pair->to, name);
    else if (!post->near_said[word->well])
        sl_log_note("messages from rank %d to rank %d go through the host: %s", pair->from,
                    pair->to, word->why);
    post->near_said[word->well] = true;
}

sl_err sl_near_open(struct sl_post *post, const struct sl_near_pair *pair, struct sl_near *near) {
    struct word word = {0};
    near->row = post->near ? post->near : sl_near_of(pair->device);
    if (!near->row) /* at the other end neither: it is of the same kind */
        return SL_OK;
    SL_TRY(post->base.rank == pair->to ? open_door(post, pair, near, &word)
                                       : enter(post, pair, near, &word));
    say(post, pair, &word, near->row->name);
    if (!word.well)
        sl_near_close(post, near);
    return SL_OK;
}

/* ---- the end ---- */

struct sl_near_left {
    struct sl_near_left *next;
    const struct sl_near_row *row;
    struct sl_near_area area;
};

void sl_near_close(struct sl_post *post, struct sl_near *near) {
    if (near->area.at && near->entered) {
        near->row->leave(&near->area);
    } else if (near->area.at) {
        struct sl_near_left *left = sl_realloc(NULL, sizeof *left);
        *left = (struct sl_near_left){post->near_left, near->row, near->area};
        post->near_left = left;
    }
    near->area = (struct sl_near_area){0};
}

void sl_near_end(struct sl_post *post) {
    while (post->near_left) {
        struct sl_near_left *left = post->near_left;
        post->near_left = left->next;
        if (!atomic_load(&post->base.gate.failed)) /* else some may be in; the process ends */
            left->row->unshare(&left->area);
        free(left);
    }
}
