/* For a build without libpng. */
#include "image/image.h"

const bool sl_image_has_png = false;

sl_err sl_image_read_png(const char *name, const unsigned char *bytes, int64_t size_bytes,
                         struct sl_image *out) {
    (void)bytes;
    (void)size_bytes;
    (void)out;
    return sl_fail(SL_ERR_REFUSED, "%s: this program was built without libpng", name);
}
