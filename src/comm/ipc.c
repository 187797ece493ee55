/* Device memory shared by two ranks of one host: the sender writes to the receiver's memory. A
 * message is then one copy by the sender's device and does not pass through host memory.
 *
 *     receiver                                   sender
 *     shares its memory -------- door ---------> enters
 *                       <------- answer -------- (accepted, or the reason)
 *
 * If sharing is refused (different hosts, isolated containers, GPUs without peer access), messages
 * use the transport, through host memory.
 */
#include "comm/ipc.h"

#include "base/arena.h"
#include "base/log.h"
#include "comm/post.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    bool well;
    char door[SL_IPC_DOOR];
    char why[256];
};

static void judge(struct word *word, sl_err err) {
    word->well = err == SL_OK;
    if (err != SL_OK)
        snprintf(word->why, sizeof word->why, "%s", sl_err_message());
}

static sl_err open_door(struct sl_post *post, const struct sl_ipc_pair *pair, struct sl_ipc *ipc,
                        struct word *word) {
    word->well = true;
    if (!ipc->area.at)
        judge(word, ipc->row->share(pair->device, pair->size_bytes, &ipc->area, ipc->door));
    memcpy(word->door, ipc->door, sizeof word->door);
    SL_TRY(sl_comm_post_pass(post, true, word, sizeof *word, pair->from, pair->tag));
    return word->well ? sl_comm_post_pass(post, false, word, sizeof *word, pair->from, pair->tag)
                      : SL_OK;
}

static sl_err enter(struct sl_post *post, const struct sl_ipc_pair *pair, struct sl_ipc *ipc,
                    struct word *word) {
    ipc->entered = true;
    SL_TRY(sl_comm_post_pass(post, false, word, sizeof *word, pair->to, pair->tag));
    if (!word->well)
        return SL_OK;
    judge(word, ipc->row->enter(pair->device, word->door, &ipc->area));
    return sl_comm_post_pass(post, true, word, sizeof *word, pair->to, pair->tag);
}

/* Logs how memory is shared, once per result, because there may be many pairs. */
static void say(struct sl_post *post, const struct sl_ipc_pair *pair, const struct word *word,
                const char *name) {
    if (!post->ipc_said[word->well] && word->well)
        sl_log_note("messages from rank %d to rank %d go by %s", pair->from, pair->to, name);
    else if (!post->ipc_said[word->well])
        sl_log_note("messages from rank %d to rank %d go through the host: %s", pair->from,
                    pair->to, word->why);
    post->ipc_said[word->well] = true;
}

sl_err sl_comm_ipc_open(struct sl_post *post, const struct sl_ipc_pair *pair, struct sl_ipc *ipc) {
    struct word word = {0};
    ipc->row = post->ipc ? post->ipc : sl_device_ipc_of(pair->device);
    if (!ipc->row) /* the other end has no row either, because it is of the same kind */
        return SL_OK;
    SL_TRY(post->base.rank == pair->to ? open_door(post, pair, ipc, &word)
                                       : enter(post, pair, ipc, &word));
    say(post, pair, &word, ipc->row->name);
    if (!word.well)
        sl_comm_ipc_close(post, ipc);
    return SL_OK;
}

/* ---- closing ---- */

struct sl_ipc_left {
    struct sl_ipc_left *next;
    const struct sl_ipc_row *row;
    struct sl_ipc_area area;
};

void sl_comm_ipc_close(struct sl_post *post, struct sl_ipc *ipc) {
    if (ipc->area.at && ipc->entered) {
        ipc->row->leave(&ipc->area);
    } else if (ipc->area.at) {
        struct sl_ipc_left *left = sl_realloc(NULL, sizeof *left);
        *left = (struct sl_ipc_left){post->ipc_left, ipc->row, ipc->area};
        post->ipc_left = left;
    }
    ipc->area = (struct sl_ipc_area){0};
}

void sl_comm_ipc_end(struct sl_post *post) {
    while (post->ipc_left) {
        struct sl_ipc_left *left = post->ipc_left;
        post->ipc_left = left->next;
        if (!atomic_load(
                &post->base.gate
                     .failed)) /* after a failure a peer may still use the memory, so it stays
                                * until the process ends */
            left->row->unshare(&left->area);
        free(left);
    }
}
