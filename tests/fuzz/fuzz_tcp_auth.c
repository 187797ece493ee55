/* Input of a connection that nobody has proved yet: any bytes, as a caller and as an answerer. The
 * first byte selects the end. Nothing that a stranger says is ever accepted. */
#include "comm/tcp_auth.h"
#include "fuzz/meter.h"

#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const unsigned char key[SL_COMM_KEY] = "nobody knows it";
    const struct tcp_card own = {.ranks = 2};
    struct tcp_talk talk;
    int ends[2];
    if (size < 1 || size > 10000)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 ||
        sl_comm_tcp_talk_open(&talk, ends[0], data[0] & 1, &own) != SL_OK)
        abort();
    sl_meter_start();
    if (talk.calls && !sl_comm_tcp_talk_call(&talk))
        abort();
    enum tcp_talk_result result = TCP_TALK_MORE;
    for (size_t at = 1; at < size && result == TCP_TALK_MORE;) {
        size_t piece = 1 + (at * 7919 + data[0]) % 61;
        piece = piece < size - at ? piece : size - at;
        if (write(ends[1], data + at, piece) != (ssize_t)piece)
            abort();
        at += piece;
        result = sl_comm_tcp_talk_step(&talk, key);
    }
    if (result == TCP_TALK_DONE)
        abort();
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
