/* Encodes protobuf messages. Numbers have 7 bits per byte, lowest first (the format's "varint"). */
#include "emit/pb.h"

#include <string.h>

enum { VARINT = 0, BYTES = 2, FIXED32 = 5 };

static void put_varint(struct sl_text *text, uint64_t value) {
    unsigned char bytes[10];
    size_t count = 0;
    do {
        bytes[count] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
        count++;
    } while (value);
    sl_text_put_bytes(text, bytes, count);
}

static void put_tag(struct sl_text *text, int field, int kind) {
    put_varint(text, (uint64_t)field << 3 | (uint64_t)kind);
}

void sl_emit_pb_int(struct sl_text *text, int field, int64_t value) {
    put_tag(text, field, VARINT);
    put_varint(text, (uint64_t)value);
}

void sl_emit_pb_float(struct sl_text *text, int field, float value) {
    put_tag(text, field, FIXED32);
    sl_text_put_bytes(text, &value, sizeof value); /* both are little-endian */
}

void sl_emit_pb_open(struct sl_text *text, int field, int64_t length) {
    put_tag(text, field, BYTES);
    put_varint(text, (uint64_t)length);
}

void sl_emit_pb_bytes(struct sl_text *text, int field, const void *at, size_t length) {
    sl_emit_pb_open(text, field, (int64_t)length);
    if (length)
        sl_text_put_bytes(text, at, length);
}

void sl_emit_pb_string(struct sl_text *text, int field, const char *value) {
    sl_emit_pb_bytes(text, field, value, strlen(value));
}

void sl_emit_pb_message(struct sl_text *text, int field, struct sl_text *message) {
    sl_emit_pb_bytes(text, field, message->at, message->length);
    message->length = 0;
}
