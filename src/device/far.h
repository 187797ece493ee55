/* Device memory between processes: links that go one way, from one sender to one receiver.
 *
 * What is put on a link is done in the order it was put there, beside whatever else the device
 * does. Both ends must put the same sizes on it in the same order; who agrees on that is
 * comm/far.c.
 */
#ifndef SL_DEVICE_FAR_H
#define SL_DEVICE_FAR_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SL_FAR_ID = 128 };
enum sl_far_end { SL_FAR_SENDS, SL_FAR_RECEIVES, SL_FAR_LOOP }; /* loop: one process is both */

struct sl_far_link;

struct sl_far_row {
    const char *name;
    /* NULL when usable, else why not. */
    const char *(*missing)(void);
    /* Is this memory of a device? Other memory is not moved. */
    bool (*is_far)(const void *memory);
    /* One end makes an id and tells the other; both open with it, and wait for each other. The
     * link belongs to the device that this thread used last. */
    sl_err (*make_id)(char id[SL_FAR_ID]);
    sl_err (*open)(const char id[SL_FAR_ID], enum sl_far_end end, struct sl_far_link **out);
    /* abort: the other end may never come; what is under way ends as it is. */
    void (*close)(struct sl_far_link *link, bool abort);
    sl_err (*send)(struct sl_far_link *link, const void *bytes, int64_t size_bytes);
    sl_err (*receive)(struct sl_far_link *link, void *bytes, int64_t size_bytes);
    sl_err (*loop)(struct sl_far_link *link, void *to, const void *from, int64_t size_bytes);
    /* How many transfers of this link are over, since it was opened; or what went wrong with it. */
    sl_err (*look)(struct sl_far_link *link, int64_t *over);
};

/* The row of GPUs (NCCL), from the CUDA module; NULL, and why, where there is none. */
const struct sl_far_row *sl_far_gpus(const char **why);

#endif
