/* safetensors: named tensors in one file, readable by Python's `safetensors` and by mmap.
 *
 *     [ n: u64 little-endian ][ n bytes of JSON, padded with blanks ][ data ............ ]
 *                             { "name": {"dtype": "F32", "shape": [3,5],
 *                                        "data_offsets": [begin, end]}, "__metadata__": {...} }
 *
 * sl_st_open and sl_st_parse guarantee: every tensor lies inside the file; the tensors cover the
 * data without gap or overlap; sizes agree with dtype and shape; names are unique and have no
 * control characters. These checks allocate no memory in proportion to a number *in* the file:
 * memory is at most the header's size plus a row of 32 bytes per tensor. Tensors are sorted by
 * name.
 */
#ifndef SL_BASE_SAFETENSORS_H
#define SL_BASE_SAFETENSORS_H

#include "base/text.h"
#include "base/vec.h"

enum sl_st_dtype {
    SL_ST_BOOL,
    SL_ST_U8,
    SL_ST_I8,
    SL_ST_F8_E5M2,
    SL_ST_F8_E4M3,
    SL_ST_I16,
    SL_ST_U16,
    SL_ST_F16,
    SL_ST_BF16,
    SL_ST_I32,
    SL_ST_U32,
    SL_ST_F32,
    SL_ST_I64,
    SL_ST_U64,
    SL_ST_F64,
    SL_ST_DTYPE_COUNT,
};

const char *sl_st_dtype_name(enum sl_st_dtype dtype); /* for example "F32" */
int64_t sl_st_dtype_bytes(enum sl_st_dtype dtype);    /* bytes of one element */
bool sl_st_dtype_parse(struct sl_str name, enum sl_st_dtype *out);

enum { SL_ST_RANK = 8, SL_ST_HEADER_MAX = 100000000 };

/* Largest file and tensor in bytes. Sizes are JSON numbers, which are exact up to 2^53. */
#define SL_ST_BYTES_MAX ((int64_t)1 << 53)

struct sl_st_tensor {
    const char *name;
    enum sl_st_dtype dtype;
    int rank;
    int64_t dim[SL_ST_RANK];
    int64_t offset;     /* of the tensor's first byte, from the start of the file */
    int64_t size_bytes; /* product of dim, times the bytes of one element */
};

/* Bytes of such a tensor, or -1 if a size is negative or the bytes exceed SL_ST_BYTES_MAX. */
int64_t sl_st_size_bytes(enum sl_st_dtype dtype, int rank, const int64_t *dim);
/* Writes dtype and shape, for example "F32 [3,5]". */
enum { SL_ST_TEXT = 200 };
const char *sl_st_shape_text(const struct sl_st_tensor *tensor, char out[SL_ST_TEXT]);

struct sl_st_row; /* a tensor in 32 bytes; defined in safetensors_in.c */

struct sl_st_note { /* an entry of __metadata__ */
    const char *key, *value;
};

struct sl_st {
    const char *path;
    int fd; /* -1: parsed from memory */
    int64_t count, data_start, file_bytes;
    struct sl_st_row *rows; /* sorted by name */
    char *header;           /* text of the header; names point into it */
    size_t header_bytes;
    uint64_t header_hash; /* hash of all bytes before the data */
    SL_VEC(struct sl_st_note) notes;
    struct sl_arena arena;
};

/* Open a file and check its header. */
SL_MUST_CHECK sl_err sl_st_open(const char *path, struct sl_st *out);
/* Check the first `length` bytes of a file that is `file_bytes` long; they must hold the header. */
SL_MUST_CHECK sl_err sl_st_parse(const char *path, const void *bytes, size_t length,
                                 int64_t file_bytes, struct sl_st *out);
void sl_st_close(struct sl_st *st); /* {0} is allowed */

/* Return the i-th tensor in name order, the index of a name or -1, the value of a note or NULL. */
void sl_st_get(const struct sl_st *st, int64_t index, struct sl_st_tensor *out);
int64_t sl_st_find(const struct sl_st *st, const char *name);
const char *sl_st_note(const struct sl_st *st, const char *key);

/* Read `size_bytes` bytes of the tensor, starting at byte `from`. Thread-safe. */
SL_MUST_CHECK sl_err sl_st_read(const struct sl_st *st, const struct sl_st_tensor *tensor,
                                int64_t from, int64_t size_bytes, void *out);

/* Writer: add every tensor, start, then put the bytes in the order of sl_st_writer_next. They are
 * sorted by element size, largest first, so that tensors are aligned without gaps; those of equal
 * size keep the order of sl_st_writer_add. Only the header is kept in memory. */
struct sl_st_sink {
    void *ctx;
    sl_err (*write)(void *ctx, const void *bytes, size_t length);
};

struct sl_st_entry {
    struct sl_st_tensor tensor; /* `offset` counts from the start of the data */
    int64_t number;             /* position in the order of sl_st_writer_add, from 0 */
};

struct sl_st_writer {
    struct sl_st_sink sink;
    SL_VEC(struct sl_st_entry) entries;
    SL_VEC(struct sl_st_note) notes;
    struct sl_arena arena;
    int64_t header_bytes; /* with the eight bytes that state it; 0: not started */
    int64_t at;           /* index of the entry whose bytes come next */
    int64_t missing;      /* bytes of that entry still to be written */
};

void sl_st_writer_open(struct sl_st_writer *writer, struct sl_st_sink sink);
void sl_st_writer_note(struct sl_st_writer *writer, const char *key, const char *value);
/* Adds a tensor; ignores its offset and size_bytes. Refuses bad names, shapes and ranks. */
SL_MUST_CHECK sl_err sl_st_writer_add(struct sl_st_writer *writer,
                                      const struct sl_st_tensor *tensor);
/* Writes the header. `header` (may be NULL) gets its bytes with those of its length. */
SL_MUST_CHECK sl_err sl_st_writer_start(struct sl_st_writer *writer, struct sl_text *header);
/* Returns the entry whose bytes come next; NULL when all are written. */
const struct sl_st_entry *sl_st_writer_next(const struct sl_st_writer *writer);
/* Writes bytes of that entry, in any number of calls. A call may not span two entries. */
SL_MUST_CHECK sl_err sl_st_writer_put(struct sl_st_writer *writer, const void *bytes,
                                      int64_t size_bytes);
void sl_st_writer_close(struct sl_st_writer *writer);

/* True if all readers accept the name: 1 to 1000 bytes of UTF-8, no control characters. */
bool sl_st_name_ok(const char *name);

#endif
