/* For builds without protobuf-c: refuses ONNX files. */
#include "proto/proto.h"

#define REASON                                                                                     \
    "this build has no protobuf-c (Debian: libprotobuf-c-dev, protobuf-c-compiler); install it "   \
    "and build again"

const char *sl_proto_missing(void) { return REASON; }

sl_err sl_proto_open(const char *path, struct sl_proto_file **out) {
    *out = NULL;
    return sl_fail(SL_ERR_REFUSED, "%s: cannot read ONNX: %s", path, REASON);
}

sl_err sl_proto_parse(const char *path, const void *bytes, size_t length,
                      struct sl_proto_file **out) {
    (void)bytes;
    (void)length;
    return sl_proto_open(path, out);
}

sl_err sl_proto_parse_tensor(const char *path, const void *bytes, size_t length,
                             struct sl_proto_file **out, const struct sl_proto_tensor **tensor) {
    (void)bytes;
    (void)length;
    *tensor = NULL;
    return sl_proto_open(path, out);
}

void sl_proto_close(struct sl_proto_file *file) { (void)file; }
