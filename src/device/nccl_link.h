/* Transfer of device memory between processes: one-way links from one sender to one receiver.
 *
 * Transfers of a link run in the order of the calls, concurrently with other work of the device.
 * Both ends must enqueue the same sizes in the same order; comm/nccl_link.c ensures that.
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
}; /* loop: one process has both ends */

struct sl_nccl_link_link;

struct sl_nccl_link_row {
    const char *name;
    /* Returns NULL if links are usable, else the reason. */
    const char *(*missing)(void);
    /* Returns true if this is memory of a device; links move no other memory. */
    bool (*is_nccl_link)(const void *memory);
    /* One end makes an id and sends it to the other end. Both then open the link with it; open
     * waits for the other end. The link belongs to the device that this thread used last. */
    sl_err (*make_id)(char id[SL_NCCL_LINK_ID]);
    sl_err (*open)(const char id[SL_NCCL_LINK_ID], enum sl_nccl_link_end end,
                   struct sl_nccl_link_link **out);
    /* With `abort`, closing does not wait for the other end and drops unfinished transfers. */
    void (*close)(struct sl_nccl_link_link *link, bool abort);
    sl_err (*send)(struct sl_nccl_link_link *link, const void *bytes, int64_t size_bytes);
    sl_err (*receive)(struct sl_nccl_link_link *link, void *bytes, int64_t size_bytes);
    sl_err (*loop)(struct sl_nccl_link_link *link, void *to, const void *from, int64_t size_bytes);
    /* Counts the transfers that ended since the link was opened, or returns its error. */
    sl_err (*look)(struct sl_nccl_link_link *link, int64_t *over);
};

/* Returns the row of GPUs (NCCL) of the CUDA module, or NULL and the reason if there is none. */
const struct sl_nccl_link_row *sl_device_nccl_link_gpus(const char **why);

#endif
