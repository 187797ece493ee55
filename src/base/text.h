/* Text: slices, a growing buffer, numbers with units, nearest names, whole files. */
#ifndef SL_BASE_TEXT_H
#define SL_BASE_TEXT_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* A slice of memory that belongs to somebody else. It is not terminated. */
struct sl_str {
    const char *at;
    size_t length;
};

#define SL_STR(literal) ((struct sl_str){(literal), sizeof(literal) - 1})

struct sl_str sl_str(const char *text);
bool sl_str_is(struct sl_str str, const char *text);
bool sl_str_equal(struct sl_str a, struct sl_str b);

/* A growing text buffer; starts as {0}; `at` is always terminated after the first write. */
struct sl_text {
    char *at;
    size_t length, room;
};

void sl_text_put(struct sl_text *text, const char *string);
void sl_text_put_bytes(struct sl_text *text, const void *bytes, size_t length);
void sl_text_printf(struct sl_text *text, const char *fmt, ...) SL_PRINTF(2, 3);
void sl_text_free(struct sl_text *text);

/* Appends the shortest decimal number that reads back as the same double. */
void sl_text_put_double(struct sl_text *text, double value);

/* Parse a number that is the whole text. `where` names it in errors ("--micro", "line 3"). */
SL_MUST_CHECK sl_err sl_parse_int(const char *text, const char *where, int64_t *out);
SL_MUST_CHECK sl_err sl_parse_double(const char *text, const char *where, double *out);
/* Parses 16GiB, 16G (= 2^30), 10GB (= 10^9), 4096. The result is in bytes. */
SL_MUST_CHECK sl_err sl_parse_bytes(const char *text, const char *where, int64_t *out);
/* Parses 100GB/s, 10Gb/s (bits), 25GiB/s. The result is in bytes per second. */
SL_MUST_CHECK sl_err sl_parse_bandwidth(const char *text, const char *where, double *out);

/* Writes human-readable text such as 1.5 GiB, 12.3 us or 124.4M into `out` and returns `out`. */
enum { SL_HUMAN_BYTES = 32 };
const char *sl_human_bytes(int64_t bytes, char out[SL_HUMAN_BYTES]);
const char *sl_human_count(double count, char out[SL_HUMAN_BYTES]);
const char *sl_human_ns(int64_t dur_ns, char out[SL_HUMAN_BYTES]);

/* Returns the name with the smallest edit distance to `wanted` among name(ctx, 0..count-1), or NULL
 * if all differ too much to be suggested. */
const char *sl_nearest(const char *wanted, int count, const char *(*name)(const void *ctx, int i),
                       const void *ctx);

/* Opens a regular file to read. Refuses anything else (a directory, a FIFO, a device) at once. */
SL_MUST_CHECK sl_err sl_file_open(const char *path, int *out);

/* Read and write whole files. Reading stops at `limit_bytes`; the caller frees the terminated text
 * with free(). "-" is standard input, which must be text, or standard output. Writing is atomic
 * (base/outfile.h). */
SL_MUST_CHECK sl_err sl_file_read(const char *path, int64_t limit_bytes, char **out,
                                  size_t *length);
SL_MUST_CHECK sl_err sl_file_write(const char *path, const void *bytes, size_t length);
bool sl_file_exists(const char *path);
/* The error for a file that cannot be opened with this errno: SL_ERR_INPUT if the file does not
 * exist, else SL_ERR_SYSTEM. */
sl_err sl_file_absence(int cause);

#endif
