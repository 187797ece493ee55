/* Reads zip archives: the directory at the end, members that are stored or deflated, 64-bit sizes.
 * Nothing is allocated before the sizes in the directory have been checked against the file. */
#include "data/npy.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    COMMENT_MAX = 65535,
    MEMBERS_MAX = 1 << 16,
    DIRECTORY_MAX = 64 << 20,
    HARMLESS_BYTES = 256 << 20,
    RATIO_MAX = 200,
};

static const uint32_t end_magic = 0x06054b50, end64_magic = 0x06064b50, locator_magic = 0x07064b50,
                      entry_magic = 0x02014b50, local_magic = 0x04034b50;

static unsigned le16(const unsigned char *p) { return (unsigned)p[0] | (unsigned)p[1] << 8; }

bool sl_data_is_zip(const unsigned char *head, int64_t length) {
    return length >= 4 && (sl_le32(head) == local_magic || sl_le32(head) == end_magic);
}

static sl_err damaged(const struct sl_blob *blob, const char *what) {
    return sl_fail(SL_ERR_INPUT, "%s: damaged zip archive: %s", blob->name, what);
}

struct end {
    uint64_t members, size, from; /* of the directory */
};

/* Reads the 64-bit end record; its locator is before the end record. */
static sl_err read_end64(const struct sl_blob *blob, int64_t end_at, struct end *end) {
    unsigned char locator[LOCATOR_BYTES], record[END64_BYTES];
    if (end_at < LOCATOR_BYTES)
        return damaged(blob, "no record of 64-bit sizes");
    SL_TRY(sl_data_blob_read(blob, end_at - LOCATOR_BYTES, locator, LOCATOR_BYTES));
    uint64_t at = sl_le64(locator + 8);
    if (sl_le32(locator) != locator_magic || end_at < END64_BYTES ||
        at > (uint64_t)(end_at - END64_BYTES))
        return damaged(blob, "no record of 64-bit sizes");
    SL_TRY(sl_data_blob_read(blob, (int64_t)at, record, END64_BYTES));
    if (sl_le32(record) != end64_magic)
        return damaged(blob, "no record of 64-bit sizes");
    *end = (struct end){sl_le64(record + 32), sl_le64(record + 40), sl_le64(record + 48)};
    return SL_OK;
}

/* Finds the end record: the last one that, with its comment, ends at the end of the file. */
static sl_err read_end(const struct sl_blob *blob, struct end *end) {
    int64_t most = END_BYTES + COMMENT_MAX;
    int64_t part = blob->size_bytes < most ? blob->size_bytes : most;
    unsigned char *tail = sl_realloc(NULL, (size_t)part + 1);
    sl_err err = sl_data_blob_read(blob, blob->size_bytes - part, tail, part);
    int64_t at = part - END_BYTES;
    while (err == SL_OK && at >= 0 &&
           (sl_le32(tail + at) != end_magic || at + END_BYTES + le16(tail + at + 20) != part))
        at--;
    if (err == SL_OK && at < 0)
        err = damaged(blob, "no directory at its end (truncated?)");
    if (err == SL_OK) {
        const unsigned char *p = tail + at;
        *end = (struct end){le16(p + 10), sl_le32(p + 12), sl_le32(p + 16)};
        if (end->members == 0xffff || end->size == 0xffffffff || end->from == 0xffffffff)
            err = read_end64(blob, blob->size_bytes - part + at, end);
        else if (le16(p + 4) || le16(p + 6))
            err = damaged(blob, "it is one of several volumes");
    }
    free(tail);
    return err;
}

sl_err sl_data_zip_open(const struct sl_blob *blob, struct sl_zip *out) {
    struct end end;
    *out = (struct sl_zip){.blob = blob};
    SL_TRY(read_end(blob, &end));
    uint64_t size = (uint64_t)blob->size_bytes;
    if (end.from > size || end.size > size - end.from)
        return damaged(blob, "its directory is outside of the file");
    if (end.members > MEMBERS_MAX || end.size > DIRECTORY_MAX)
        return sl_fail(SL_ERR_INPUT, "%s: a zip archive of more than %d files is not read",
                       blob->name, MEMBERS_MAX);
    out->members = (int64_t)end.members;
    out->directory_bytes = (int64_t)end.size;
    out->directory = sl_realloc(NULL, (size_t)end.size + 1);
    sl_err err = sl_data_blob_read(blob, (int64_t)end.from, out->directory, out->directory_bytes);
    if (err != SL_OK)
        sl_data_zip_close(out);
    return err;
}

void sl_data_zip_close(struct sl_zip *zip) {
    free(zip->directory);
    zip->directory = NULL;
}

/* Replaces fields that do not fit 32 bits by those of the zip64 field, which are in this order. */
static bool read_extra(const unsigned char *extra, int64_t length, uint64_t *field[3]) {
    for (int64_t at = 0; at + 4 <= length;) {
        int64_t size = le16(extra + at + 2), next = at + 4;
        if (size > length - next)
            return false;
        for (int i = 0; le16(extra + at) == 1 && i < 3; i++) {
            if (*field[i] != 0xffffffff)
                continue;
            if (next + 8 > at + 4 + size)
                return false;
            *field[i] = sl_le64(extra + next);
            next += 8;
        }
        at += 4 + size;
    }
    return true;
}

sl_err sl_data_zip_next(struct sl_zip *zip, struct sl_zip_member *out, bool *found) {
    const unsigned char *p = zip->directory + zip->at;
    int64_t left = zip->directory_bytes - zip->at;
    *found = zip->read < zip->members;
    if (!*found)
        return SL_OK;
    if (left < ENTRY_BYTES || sl_le32(p) != entry_magic)
        return damaged(zip->blob, "its directory ends early");
    int64_t name = le16(p + 28), extra = le16(p + 30), comment = le16(p + 32);
    uint64_t size = sl_le32(p + 24), stored = sl_le32(p + 20), header = sl_le32(p + 42);
    if (name + extra + comment > left - ENTRY_BYTES)
        return damaged(zip->blob, "its directory ends early");
    if (!read_extra(p + ENTRY_BYTES + name, extra, (uint64_t *[]){&size, &stored, &header}))
        return damaged(zip->blob, "sizes of 64 bits are missing");
    uint64_t limit = (uint64_t)zip->blob->size_bytes;
    if (header > limit || stored > limit || size > (uint64_t)INT64_MAX)
        return damaged(zip->blob, "a file in it is larger than the archive");
    if (le16(p + 8) & 1)
        return sl_fail(SL_ERR_INPUT, "%s: is encrypted", zip->blob->name);
    *out = (struct sl_zip_member){
        .name = {(const char *)p + ENTRY_BYTES, (size_t)name},
        .method = (int)le16(p + 10),
        .stored_bytes = (int64_t)stored,
        .size_bytes = (int64_t)size,
        .header_at = (int64_t)header,
        .crc = sl_le32(p + 16),
    };
    zip->at += ENTRY_BYTES + name + extra + comment;
    zip->read++;
    return SL_OK;
}

static sl_err member_fail(const struct sl_zip *zip, const struct sl_zip_member *member,
                          const char *what) {
    return sl_fail(SL_ERR_INPUT, "%s: '%.*s': %s", zip->blob->name, (int)member->name.length,
                   member->name.at, what);
}

sl_err sl_data_zip_place(const struct sl_zip *zip, const struct sl_zip_member *member,
                         int64_t *from) {
    unsigned char head[LOCAL_BYTES];
    const struct sl_blob *blob = zip->blob;
    if (member->method != 0 && member->method != Z_DEFLATED)
        return member_fail(zip, member, "is compressed by another method than deflate");
    if (member->header_at > blob->size_bytes - LOCAL_BYTES)
        return member_fail(zip, member, "lies outside of the archive");
    SL_TRY(sl_data_blob_read(blob, member->header_at, head, LOCAL_BYTES));
    if (sl_le32(head) != local_magic)
        return member_fail(zip, member, "its header is damaged");
    *from = member->header_at + LOCAL_BYTES + le16(head + 26) + le16(head + 28);
    if (*from > blob->size_bytes || member->stored_bytes > blob->size_bytes - *from)
        return member_fail(zip, member, "is truncated");
    if (member->method == 0 && member->stored_bytes != member->size_bytes)
        return member_fail(zip, member, "is stored with two different sizes");
    return SL_OK;
}

/* Inflates into `out` of size_bytes bytes; the stated size must be the true one. */
static sl_err inflate_to(const struct sl_zip *zip, const struct sl_zip_member *member, int64_t from,
                         unsigned char *out) {
    unsigned char in[16384];
    z_stream z = {0};
    int64_t left = member->stored_bytes, done = 0;
    int code = Z_OK;
    sl_err err = SL_OK;
    if (inflateInit2(&z, -15) != Z_OK)
        return sl_fail(SL_ERR_SYSTEM, "%s: no memory to decompress", zip->blob->name);
    while (code == Z_OK && err == SL_OK) {
        if (!z.avail_in && left) {
            int64_t part = left < (int64_t)sizeof in ? left : (int64_t)sizeof in;
            err = sl_data_blob_read(zip->blob, from, in, part);
            z.next_in = in;
            z.avail_in = (unsigned)part;
            from += part;
            left -= part;
        }
        int64_t room = member->size_bytes - done;
        unsigned want = room > 1 << 30 ? 1u << 30 : (unsigned)room;
        z.next_out = out + done;
        z.avail_out = want;
        if (err == SL_OK)
            code = inflate(&z, Z_NO_FLUSH);
        done += want - z.avail_out;
        if (code == Z_OK && want && z.avail_out == want && !z.avail_in && !left)
            code = Z_BUF_ERROR;
    }
    inflateEnd(&z);
    if (err == SL_OK && (code != Z_STREAM_END || done != member->size_bytes))
        err = member_fail(zip, member, "its compressed data are damaged");
    return err;
}

sl_err sl_data_zip_inflate(const struct sl_zip *zip, const struct sl_zip_member *member,
                           unsigned char **out) {
    int64_t from;
    SL_TRY(sl_data_zip_place(zip, member, &from));
    if (member->size_bytes > HARMLESS_BYTES &&
        member->size_bytes / RATIO_MAX > member->stored_bytes)
        return member_fail(zip, member,
                           "holds more than 200 times its compressed size; store it uncompressed "
                           "(numpy.savez) if that is right");
    /* deflate shrinks by a factor of 1032 at most */
    if (member->size_bytes / 1032 > member->stored_bytes)
        return member_fail(zip, member, "states a size that its compressed data cannot have");
    *out = malloc((size_t)member->size_bytes + 1);
    if (!*out)
        return sl_fail(SL_ERR_SYSTEM, "%s: no memory for %lld bytes", zip->blob->name,
                       (long long)member->size_bytes);
    sl_err err = inflate_to(zip, member, from, *out);
    if (err == SL_OK && crc32_z(0, *out, (size_t)member->size_bytes) != member->crc)
        err = member_fail(zip, member, "its checksum is wrong");
    if (err != SL_OK) {
        free(*out);
        *out = NULL;
    }
    return err;
}
