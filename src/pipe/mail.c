/* Channels whose messages have numbers over the whole schedule. A resumed run reads the messages
 * that were under way from the checkpoint; its channels start empty. */
#include "pipe/box.h"

static bool is_kept(const struct sl_pipe_box *box, int64_t n) {
    return box->kept && n >= box->first && n < box->last;
}

sl_err sl_pipe_mail_receive(struct sl_pipe_box *box, int64_t n, struct sl_message *out) {
    int64_t size = box->channel->spec.size_bytes;
    if (!is_kept(box, n))
        return sl_comm_channel_receive(box->channel, n, out);
    *out = (struct sl_message){.at = box->kept + (n - box->first) * size, .size_bytes = size};
    return SL_OK;
}

sl_err sl_pipe_mail_release(struct sl_pipe_box *box, int64_t n) {
    box->taken = n + 1;
    return is_kept(box, n) ? SL_OK : sl_comm_channel_release(box->channel, n);
}

sl_err sl_pipe_mail_send(struct sl_pipe_box *box, int64_t n, int64_t size_bytes) {
    box->sent = n + 1;
    return sl_comm_channel_send(box->channel, n, size_bytes);
}
