/* Encodes protobuf messages: appends fields to a text. A message is a field of bytes. */
#ifndef SL_EMIT_PB_H
#define SL_EMIT_PB_H

#include "base/text.h"

void sl_emit_pb_int(struct sl_text *text, int field, int64_t value);
void sl_emit_pb_float(struct sl_text *text, int field, float value);
void sl_emit_pb_bytes(struct sl_text *text, int field, const void *at, size_t length);
void sl_emit_pb_string(struct sl_text *text, int field, const char *value);
/* Writes the beginning of a field; its `length` bytes must follow. */
void sl_emit_pb_open(struct sl_text *text, int field, int64_t length);
/* Writes a message as a field, and empties it. */
void sl_emit_pb_message(struct sl_text *text, int field, struct sl_text *message);

#endif
