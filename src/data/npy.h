/* Arrays of NumPy (.npy, versions 1 to 3) and archives of them (.npz: zip, stored or deflated, with
 * zip64). Private to data/. An array is a header and its values in a blob:
 *
 *   93 'NUMPY' major minor  u16le or u32le length  {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}
 */
#ifndef SL_DATA_NPY_H
#define SL_DATA_NPY_H

#include "data/blob.h"

#include <stdbool.h>

enum { SL_NPY_RANK = 8, SL_NPY_MAGIC = 6 };

struct sl_npy {
    const char *name;           /* name of the array: the input of the model that it is for */
    const struct sl_blob *blob; /* has the bytes */
    int64_t offset_bytes;       /* offset of the first value */
    char type;                  /* 'f', 'i', 'u' or 'b' */
    int width;                  /* bytes of a value */
    bool big;                   /* big-endian */
    bool fortran;               /* the first index is the fastest one */
    int rank;
    int64_t dim[SL_NPY_RANK], numel;
};

/* Do these bytes begin an array, or an archive? */
bool sl_data_is_npy(const unsigned char *head, int64_t length);
bool sl_data_is_zip(const unsigned char *head, int64_t length);

/* Reads the header of the array in bytes [from, from + size) of a blob; sets all fields but name.
 * Checks that the values fill the range. */
SL_MUST_CHECK sl_err sl_data_npy_read(const struct sl_blob *blob, int64_t from, int64_t size_bytes,
                                      struct sl_npy *out);

/* Return a value: int for types other than 'f'; double and float for any type. */
int64_t sl_data_npy_int(const struct sl_npy *array, const unsigned char *at);
double sl_data_npy_double(const struct sl_npy *array, const unsigned char *at);
float sl_data_npy_float(const struct sl_npy *array, const unsigned char *at);

/* A file in a zip archive. */
struct sl_zip_member {
    struct sl_str name; /* a part of the directory, which the caller holds */
    int method;         /* 0: stored, 8: deflated */
    int64_t stored_bytes, size_bytes, header_at;
    uint32_t crc;
};

/* The directory of an archive, loaded into memory: the caller frees *directory. */
struct sl_zip {
    const struct sl_blob *blob;
    unsigned char *directory;
    int64_t directory_bytes, at; /* at: position of the next member */
    int64_t members, read;
};

SL_MUST_CHECK sl_err sl_data_zip_open(const struct sl_blob *blob, struct sl_zip *out);
void sl_data_zip_close(struct sl_zip *zip);
/* Returns the next member; *found is false after the last. */
SL_MUST_CHECK sl_err sl_data_zip_next(struct sl_zip *zip, struct sl_zip_member *out, bool *found);
/* Finds where the bytes of a member begin in the archive. */
SL_MUST_CHECK sl_err sl_data_zip_place(const struct sl_zip *zip, const struct sl_zip_member *member,
                                       int64_t *from);
/* Returns the content of a deflated member, in memory that the caller frees, after checking its
 * checksum. */
SL_MUST_CHECK sl_err sl_data_zip_inflate(const struct sl_zip *zip,
                                         const struct sl_zip_member *member, unsigned char **out);

#endif
