/* Device memory between processes: links that go one way, from one sender to one receiver.
 *
 * What is put on a link is done in the order it was put there, beside whatever else the device
 * does. Both ends must put the same sizes on it in the same order; who agrees on that is
 * comm/nccl_link.c.
 */
#ifndef SL_DEVICE_NCCL_LINK_H
#define SL_DEVICE_NCCL_LINK_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SL_NCCL_LINK_ID = 128 };
enum sl_nccl_link_end {
    SL_NCCL_LINK_SENDS,
    SL_NCCL_LINK_RECEIVES,
    SL_NCCL_LINK_LOOP
}; /* loop: one process is both */

struct sl_nccl_link_link;

struct sl_nccl_link_row {
    const char *name;
    /* NULL when usable, else why not. */
    const char *(*missing)(void);
    /* Is this memory of a device? Other memory is not moved. */
    bool (*is_nccl_link)(const void *memory);
    /* One end makes an id and tells the other; both open with it, and wait for each other. The
     * link belongs to the device that this thread used last. */
    sl_err (*make_id)(char id[SL_NCCL_LINK_ID]);
    sl_err (*open)(const char id[SL_NCCL_LINK_ID], enum sl_nccl_link_end end,
                   struct sl_nccl_link_link **out);
    /* abort: the other end may never come; what is under way ends as it is. */
    void (*close)(struct sl_nccl_link_link *link, bool abort);
    sl_err (*send)(struct sl_nccl_link_link *link, const void *bytes, int64_t size_bytes);
    sl_err (*receive)(struct sl_nccl_link_link *link, void *bytes, int64_t size_bytes);
    sl_err (*loop)(struct sl_nccl_link_link *link, void *to, const void *from, int64_t size_bytes);
    /* How many transfers of this link are over, since it was opened; or what went wrong with it. */
    sl_err (*look)(struct sl_nccl_link_link *link, int64_t *over);
};

/* The row of GPUs (NCCL), from the CUDA module; NULL, and why, where there is none. */
const struct sl_nccl_link_row *sl_device_nccl_link_gpus(const char **why);

#endif
