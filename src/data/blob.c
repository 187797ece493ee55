/* Reads bytes by offset, from a file or from memory; decompresses gzip. */
#include "data/blob.h"

#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { EDGE = 4096 };

static sl_err read_fd(const struct sl_blob *blob, int64_t offset, unsigned char *dst,
                      int64_t size_bytes) {
    while (size_bytes > 0) {
        ssize_t got = pread(blob->fd, dst, (size_t)size_bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sl_fail(SL_ERR_SYSTEM, "%s: cannot read at byte %lld: %s", blob->name,
                           (long long)offset, strerror(errno));
        if (got == 0)
            return sl_fail(SL_ERR_SYSTEM,
                           "%s: ends at byte %lld, had %lld bytes when it was opened: somebody "
                           "is writing to it",
                           blob->name, (long long)offset, (long long)blob->size_bytes);
        dst += got;
        offset += got;
        size_bytes -= got;
    }
    return SL_OK;
}

sl_err sl_data_blob_read(const struct sl_blob *blob, int64_t offset, void *dst,
                         int64_t size_bytes) {
    SL_ASSERT(offset >= 0 && size_bytes >= 0 && offset <= blob->size_bytes - size_bytes);
    if (!blob->at)
        return read_fd(blob, offset, dst, size_bytes);
    if (size_bytes)
        memcpy(dst, blob->at + offset, (size_t)size_bytes);
    return SL_OK;
}

static sl_err print_of(struct sl_blob *blob) {
    unsigned char edges[2 * EDGE + 8];
    int64_t part = blob->size_bytes < EDGE ? blob->size_bytes : EDGE;
    SL_TRY(sl_data_blob_read(blob, 0, edges, part));
    SL_TRY(sl_data_blob_read(blob, blob->size_bytes - part, edges + part, part));
    memcpy(edges + 2 * part, &blob->size_bytes, 8);
    blob->print = sl_hash(edges, (size_t)(2 * part + 8));
    return SL_OK;
}

sl_err sl_data_blob_open(struct sl_blob *blob, const char *path) {
    struct stat info;
    sl_err err = SL_OK;
    *blob = (struct sl_blob){.name = path, .fd = -1};
    SL_TRY(sl_file_open(path, &blob->fd));
    if (fstat(blob->fd, &info) != 0)
        SL_TRY_OUT(sl_fail(SL_ERR_SYSTEM, "%s: %s", path, strerror(errno)));
    blob->size_bytes = (int64_t)info.st_size;
    SL_TRY_OUT(print_of(blob));
out:
    if (err != SL_OK)
        sl_data_blob_close(blob);
    return err;
}

void sl_data_blob_borrow(struct sl_blob *blob, const char *name, const void *bytes,
                         int64_t size_bytes) {
    static const unsigned char nothing[1] = {0};
    *blob = (struct sl_blob){
        .name = name, .at = size_bytes ? bytes : nothing, .size_bytes = size_bytes, .fd = -1};
    sl_err err = print_of(blob);
    SL_ASSERT(err == SL_OK);
}

void sl_data_blob_close(struct sl_blob *blob) {
    free(blob->owned);
    if (blob->fd >= 0)
        close(blob->fd);
    *blob = (struct sl_blob){.fd = -1};
}

/* Replaces the file by `memory`. */
static void take_over(struct sl_blob *blob, unsigned char *memory, int64_t size_bytes) {
    free(blob->owned);
    if (blob->fd >= 0)
        close(blob->fd);
    blob->fd = -1;
    blob->at = blob->owned = memory;
    blob->size_bytes = size_bytes;
}

static sl_err take_memory(const struct sl_blob *blob, int64_t size_bytes, unsigned char **out) {
    *out = malloc(size_bytes ? (size_t)size_bytes : 1);
    if (!*out)
        return sl_fail(SL_ERR_SYSTEM, "%s: no memory for its %lld bytes", blob->name,
                       (long long)size_bytes);
    return SL_OK;
}

sl_err sl_data_blob_load(struct sl_blob *blob) {
    unsigned char *memory;
    if (blob->at)
        return SL_OK;
    SL_TRY(take_memory(blob, blob->size_bytes, &memory));
    sl_err err = sl_data_blob_read(blob, 0, memory, blob->size_bytes);
    if (err != SL_OK)
        free(memory);
    else
        take_over(blob, memory, blob->size_bytes);
    return err;
}

/* ---- gzip ---- */

static bool is_gzip(const struct sl_blob *blob) {
    unsigned char magic[3];
    return blob->size_bytes >= 18 && sl_data_blob_read(blob, 0, magic, 3) == SL_OK &&
           magic[0] == 0x1f && magic[1] == 0x8b && magic[2] == 8;
}

struct inflater {
    const struct sl_blob *blob;
    z_stream z;
    int64_t next; /* offset in the file */
    bool done;
    unsigned char in[16384];
};

static sl_err inflate_open(struct inflater *job, const struct sl_blob *blob) {
    *job = (struct inflater){.blob = blob};
    if (inflateInit2(&job->z, 15 + 16) != Z_OK)
        return sl_fail(SL_ERR_SYSTEM, "%s: no memory to decompress", blob->name);
    return SL_OK;
}

/* Decompresses up to `room` bytes into `dst`; *got receives the number written. */
static sl_err inflate_some(struct inflater *job, unsigned char *dst, int64_t room, int64_t *got) {
    *got = 0;
    while (*got < room && !job->done) {
        int64_t left = job->blob->size_bytes - job->next;
        if (job->z.avail_in == 0 && left > 0) {
            int64_t part = left < (int64_t)sizeof job->in ? left : (int64_t)sizeof job->in;
            SL_TRY(sl_data_blob_read(job->blob, job->next, job->in, part));
            job->next += part;
            job->z.next_in = job->in;
            job->z.avail_in = (unsigned)part;
        }
        unsigned want = room - *got > (1 << 30) ? 1u << 30 : (unsigned)(room - *got);
        job->z.next_out = dst + *got;
        job->z.avail_out = want;
        int code = inflate(&job->z, Z_NO_FLUSH);
        *got += want - job->z.avail_out;
        if (code == Z_STREAM_END)
            job->done = true;
        else if (code != Z_OK)
            return sl_fail(SL_ERR_INPUT, "%s: %s gzip data after %lld bytes of content",
                           job->blob->name, code == Z_BUF_ERROR ? "truncated" : "damaged",
                           (long long)job->z.total_out);
    }
    return SL_OK;
}

/* Is the content suspiciously large? Text and pictures shrink by a factor of 2 to 20, sparse digits
 * by 10 to 30, a decompression bomb by 1,000. */
static bool is_bomb(const struct sl_blob *blob, int64_t content_bytes) {
    enum { ratio_max = 200 };
    const int64_t harmless_bytes = (int64_t)256 << 20;
    return content_bytes > harmless_bytes && content_bytes / ratio_max > blob->size_bytes;
}

static sl_err content_size(const struct sl_blob *blob, int64_t *size_bytes) {
    struct inflater job;
    unsigned char chunk[16384];
    int64_t got;
    sl_err err = SL_OK;
    *size_bytes = 0;
    SL_TRY(inflate_open(&job, blob));
    do {
        SL_TRY_OUT(inflate_some(&job, chunk, (int64_t)sizeof chunk, &got));
        *size_bytes += got;
        if (is_bomb(blob, *size_bytes))
            SL_TRY_OUT(sl_fail(SL_ERR_INPUT,
                               "%s: %lld bytes of gzip hold more than %lld bytes of content; "
                               "decompress it with gzip -d if that is right",
                               blob->name, (long long)blob->size_bytes, (long long)*size_bytes));
    } while (!job.done);
out:
    inflateEnd(&job.z);
    return err;
}

sl_err sl_data_blob_inflate(struct sl_blob *blob) {
    struct inflater job;
    unsigned char *memory;
    int64_t size_bytes, got;
    if (!is_gzip(blob))
        return SL_OK;
    SL_TRY(content_size(blob, &size_bytes));
    SL_TRY(take_memory(blob, size_bytes, &memory));
    sl_err err = inflate_open(&job, blob);
    if (err == SL_OK) {
        err = inflate_some(&job, memory, size_bytes, &got);
        inflateEnd(&job.z);
    }
    if (err == SL_OK && got != size_bytes)
        err = sl_fail(SL_ERR_SYSTEM, "%s: changed while it was read", blob->name);
    if (err != SL_OK)
        free(memory);
    else
        take_over(blob, memory, size_bytes);
    return err;
}

int64_t sl_data_blob_head(const struct sl_blob *blob, unsigned char *dst, int64_t size_bytes) {
    struct inflater job;
    int64_t got = 0;
    if (is_gzip(blob)) {
        if (inflate_open(&job, blob) != SL_OK)
            return 0;
        sl_err err = inflate_some(&job, dst, size_bytes, &got);
        (void)err; /* the bytes before the damage are enough; opening reports the error */
        inflateEnd(&job.z);
        return got;
    }
    int64_t part = blob->size_bytes < size_bytes ? blob->size_bytes : size_bytes;
    return sl_data_blob_read(blob, 0, dst, part) == SL_OK ? part : 0;
}

int64_t sl_data_blob_bytes(const struct sl_blob *blob) {
    return blob->owned ? blob->size_bytes : 0;
}

/* ---- streams ---- */

void sl_data_blob_stream(struct sl_data_blob_stream *stream, const struct sl_blob *blob) {
    stream->blob = blob;
    stream->next = 0;
    stream->at = stream->end = 0;
    stream->err = SL_OK;
}

sl_err sl_data_blob_refill(struct sl_data_blob_stream *stream) {
    int64_t left = stream->blob->size_bytes - stream->next;
    int64_t part = left < (int64_t)sizeof stream->buffer ? left : (int64_t)sizeof stream->buffer;
    if (stream->err != SL_OK)
        return stream->err;
    stream->err = sl_data_blob_read(stream->blob, stream->next, stream->buffer, part);
    stream->next += part;
    stream->at = 0;
    stream->end = stream->err == SL_OK ? (int)part : 0;
    return stream->err;
}
