/* For a build without libjpeg. */
#include "image/image.h"

const bool sl_image_has_jpeg = false;

sl_err sl_image_read_jpeg(const char *name, const unsigned char *bytes, int64_t size_bytes,
                          struct sl_image *out, int *turn) {
    (void)bytes;
    (void)size_bytes;
    (void)out;
    (void)turn;
    return sl_fail(SL_ERR_REFUSED, "%s: this program was built without libjpeg", name);
}
