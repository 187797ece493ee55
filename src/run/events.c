/* TensorBoard event files: records of a length, its checksum, a protobuf Event, its checksum.
 *
 *   uint64 length | uint32 masked crc32c(length) | bytes | uint32 masked crc32c(bytes)
 *
 * Event { 1: double wall_time, 2: int64 step, 3: string file_version,
 *         5: Summary { 1: Value { 1: string tag, 2: float simple_value } } }
 */
#include "run/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint32_t crc32c(const unsigned char *bytes, size_t length) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1)));
    }
    return ~crc;
}

static uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

static sl_err put_record(FILE *file, const struct sl_text *event) {
    unsigned char length[8];
    uint64_t size = event->length;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(size >> (8 * i));
    uint32_t sums[2] = {masked(crc32c(length, 8)),
                        masked(crc32c((const unsigned char *)event->at, event->length))};
    bool ok = fwrite(length, 8, 1, file) == 1 && fwrite(&sums[0], 4, 1, file) == 1 &&
              fwrite(event->at, 1, event->length, file) == event->length &&
              fwrite(&sums[1], 4, 1, file) == 1;
    return ok ? SL_OK
              : sl_fail(SL_ERR_SYSTEM, "cannot write TensorBoard events: %s", strerror(errno));
}

static void put_varint(struct sl_text *out, uint64_t value) {
    unsigned char byte;
    do {
        byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        sl_text_put_bytes(out, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_tag(struct sl_text *out, int field, int wire) {
    put_varint(out, (uint64_t)(field << 3 | wire));
}

static void put_bytes(struct sl_text *out, int field, const void *bytes, size_t length) {
    put_tag(out, field, 2);
    put_varint(out, length);
    sl_text_put_bytes(out, bytes, length);
}

static void put_wall_time(struct sl_text *out) {
    double now = (double)time(NULL);
    put_tag(out, 1, 1);
    sl_text_put_bytes(out, &now, sizeof now);
}

/* ---- files of earlier sessions ---- */

/* Reads a varint. False: the bytes end too early. */
static bool take_varint(const unsigned char **at, const unsigned char *end, uint64_t *out) {
    *out = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        unsigned char byte = *(*at)++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* Returns the step of an Event (field 2); -1 if it has none or the bytes are not an Event. */
static int64_t step_of_event(const unsigned char *at, const unsigned char *end) {
    uint64_t key, value;
    while (at < end && take_varint(&at, end, &key)) {
        uint64_t skip = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : 0;
        if ((key & 7) == 0 && !take_varint(&at, end, &value))
            return -1;
        if (key >> 3 == 2 && (key & 7) == 0)
            return (int64_t)value;
        if ((key & 7) == 2 && !take_varint(&at, end, &skip))
            return -1;
        if ((key & 7) == 3 || (key & 7) == 4 || skip > (uint64_t)(end - at))
            return -1;
        at += skip;
    }
    return -1;
}

/* Keeps the records up to `step`. Drops the first incomplete record and all after it. */
static sl_err trim(const char *path, int64_t step) {
    enum { HEAD = 12, TAIL = 4 };
    char *text;
    size_t length, kept = 0, at = 0;
    SL_TRY(sl_file_read(path, INT64_MAX / 2, &text, &length));
    while (length - at >= HEAD + TAIL) {
        const unsigned char *record = (const unsigned char *)text + at;
        uint64_t size = 0;
        for (int i = 0; i < 8; i++)
            size |= (uint64_t)record[i] << (8 * i);
        if (size > length - at - HEAD - TAIL)
            break;
        if (step_of_event(record + HEAD, record + HEAD + size) <= step) {
            memmove(text + kept, record, size + HEAD + TAIL);
            kept += size + HEAD + TAIL;
        }
        at += size + HEAD + TAIL;
    }
    sl_err err = kept == length ? SL_OK : sl_file_write(path, text, kept);
    free(text);
    return err;
}

static sl_err trim_all(const char *run, int64_t step) {
    static const char prefix[] = "events.out.tfevents.";
    DIR *dir = opendir(run);
    struct dirent *entry;
    sl_err err = SL_OK;
    while (dir && err == SL_OK && (entry = readdir(dir)) != NULL) {
        struct sl_text path = {0};
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0)
            continue;
        sl_text_printf(&path, "%s/%s", run, entry->d_name);
        err = trim(path.at, step);
        sl_text_free(&path);
    }
    if (dir)
        closedir(dir);
    return err;
}

sl_err sl_run_events_open(const char *run, int64_t step, FILE **out) {
    SL_TRY(trim_all(run, step));
    struct sl_text path = {0}, event = {0};
    sl_text_printf(&path, "%s/events.out.tfevents.%lld.sluice.%ld", run, (long long)time(NULL),
                   (long)getpid());
    *out = fopen(path.at, "abe");
    sl_err err = SL_OK;
    if (!*out) {
        err = sl_fail(SL_ERR_SYSTEM, "%s: cannot open: %s", path.at, strerror(errno));
    } else {
        put_wall_time(&event);
        put_bytes(&event, 3, "brain.Event:2", 13);
        err = put_record(*out, &event);
    }
    sl_text_free(&path);
    sl_text_free(&event);
    return err;
}

sl_err sl_run_events_scalar(FILE *events, int64_t step, const char *tag, float value) {
    struct sl_text item = {0}, summary = {0}, event = {0};
    put_bytes(&item, 1, tag, strlen(tag));
    put_tag(&item, 2, 5);
    sl_text_put_bytes(&item, &value, sizeof value);
    put_bytes(&summary, 1, item.at, item.length);
    put_wall_time(&event);
    put_tag(&event, 2, 0);
    put_varint(&event, (uint64_t)step);
    put_bytes(&event, 5, summary.at, summary.length);
    sl_err err = put_record(events, &event);
    sl_text_free(&item);
    sl_text_free(&summary);
    sl_text_free(&event);
    return err;
}
