/* A blob: bytes that are read by offset, from an open file or from memory. Files are read with
 * pread: a file that shrinks or a failing disk is an error, not a signal. Reading is
 * thread-safe. */
#ifndef SL_DATA_BLOB_H
#define SL_DATA_BLOB_H

#include "base/text.h"

struct sl_blob {
    const char *name;        /* name for messages; borrowed */
    const unsigned char *at; /* the bytes in memory, or NULL: read from fd */
    unsigned char *owned;    /* memory to free */
    int64_t size_bytes;
    int fd;
    /* fingerprint: hash of size, first and last 4 KiB of the file as it is stored */
    uint64_t print;
};

SL_MUST_CHECK sl_err sl_data_blob_open(struct sl_blob *blob, const char *path);
void sl_data_blob_borrow(struct sl_blob *blob, const char *name, const void *bytes,
                         int64_t size_bytes);
void sl_data_blob_close(struct sl_blob *blob);

SL_MUST_CHECK sl_err sl_data_blob_read(const struct sl_blob *blob, int64_t offset, void *dst,
                                       int64_t size_bytes);

/* Loads the whole file into memory. */
SL_MUST_CHECK sl_err sl_data_blob_load(struct sl_blob *blob);

/* Replaces a gzip file by its content, in memory; does not change other files. A first
 * decompression only finds the size, because the size in the file cannot be trusted. */
SL_MUST_CHECK sl_err sl_data_blob_inflate(struct sl_blob *blob);

/* Copies up to `size_bytes` bytes from the start, decompressed if gzip. Returns the number
 * copied. */
int64_t sl_data_blob_head(const struct sl_blob *blob, unsigned char *dst, int64_t size_bytes);

/* Returns the bytes of memory that it holds. */
int64_t sl_data_blob_bytes(const struct sl_blob *blob);

/* A buffered byte stream. */
struct sl_data_blob_stream {
    const struct sl_blob *blob;
    int64_t next; /* offset of the first byte after the buffer */
    int at, end;
    sl_err err;
    unsigned char buffer[16384];
};

void sl_data_blob_stream(struct sl_data_blob_stream *stream, const struct sl_blob *blob);
sl_err sl_data_blob_refill(struct sl_data_blob_stream *stream);

/* Returns the next byte; -1 at the end or after an error (stream->err). */
static inline int sl_blob_byte(struct sl_data_blob_stream *stream) {
    if (stream->at == stream->end &&
        (sl_data_blob_refill(stream) != SL_OK || stream->at == stream->end))
        return -1;
    return stream->buffer[stream->at++];
}

/* Read little- and big-endian numbers. */
static inline uint32_t sl_le32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t sl_le64(const unsigned char *p) {
    return (uint64_t)sl_le32(p) | (uint64_t)sl_le32(p + 4) << 32;
}
static inline uint32_t sl_be32(const unsigned char *p) {
    return (uint32_t)p[3] | (uint32_t)p[2] << 8 | (uint32_t)p[1] << 16 | (uint32_t)p[0] << 24;
}

#endif
