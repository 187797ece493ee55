/* PNG and JPEG: the first byte chooses channels and the part, the rest is the file. */
#include "base/err.h"
#include "image/image.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_image image, small;
    if (!size || size > 1 << 16)
        return 0;
    if (sl_image_decode("fuzz", data + 1, (int64_t)size - 1, data[0] & 1 ? 1 : 3, &image) !=
        SL_OK) {
        if (!sl_err_message()[0])
            abort();
        return 0;
    }
    struct sl_image_box box = {image.width / 3, image.height / 3, image.width - image.width / 3,
                               image.height - image.height / 3};
    if (sl_image_resize(&image, &box, 1 + data[0] / 2 % 8, 1 + data[0] / 16, &small) == SL_OK)
        sl_image_free(&small);
    sl_image_free(&image);
    return 0;
}
