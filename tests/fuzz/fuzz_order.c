/* An order of the launcher: any bytes are refused, or written and read again they are the same. */
#include "fuzz/meter.h"
#include "launch/order.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct sl_launch_order order, again;
    struct sl_text text = {0};
    int64_t length;
    sl_meter_start();
    if (size && sl_launch_order_read((const char *)data, (int64_t)size, &order) == SL_OK) {
        sl_launch_order_write(&order, &text);
        char *end = memchr(text.at, '\n', text.length);
        *end = 0;
        if (sl_launch_order_read_head(text.at, &length) != SL_OK ||
            sl_launch_order_read(end + 1, length, &again) != SL_OK || again.argc != order.argc ||
            again.env_count != order.env_count || again.silence_s != order.silence_s ||
            strcmp(again.directory, order.directory) != 0)
            abort();
        sl_text_free(&text);
    }
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    return 0;
}
