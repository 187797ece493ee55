/* An ONNX file in memory: its nodes, tensors and types.
 *
 *   sl_proto_open -> sl_proto_check (always) -> read by the import (onnx) -> sl_proto_close
 *
 * Data of tensors stays where it is: inside the parsed message, or in an external file that is read
 * piece by piece. Only decode_onnx.c knows protobuf; without the library decode_noonnx.c refuses.
 */
#ifndef SL_PROTO_PROTO_H
#define SL_PROTO_PROTO_H

#include "base/text.h"
#include "base/vec.h"

enum sl_proto_type { /* the format's numbers */
                     SL_ONNX_NONE,
                     SL_ONNX_FLOAT,
                     SL_ONNX_UINT8,
                     SL_ONNX_INT8,
                     SL_ONNX_UINT16,
                     SL_ONNX_INT16,
                     SL_ONNX_INT32,
                     SL_ONNX_INT64,
                     SL_ONNX_STRING,
                     SL_ONNX_BOOL,
                     SL_ONNX_FLOAT16,
                     SL_ONNX_DOUBLE,
                     SL_ONNX_UINT32,
                     SL_ONNX_UINT64,
                     SL_ONNX_BFLOAT16 = 16,
                     SL_ONNX_TYPE_COUNT = 17,
};

const char *sl_proto_type_name(int type); /* "float", "int64", "type 23" */
int64_t sl_proto_type_bytes(int type);    /* bytes of one element; 0: a type that we do not read */
bool sl_proto_type_is_float(int type);    /* float, float16, bfloat16, double */
bool sl_proto_type_is_int(int type);      /* integers and bool */

enum { SL_ONNX_RANK = 8, SL_ONNX_DEPTH = 4 /* graphs inside graphs */ };

struct sl_proto_tensor {
    const char *name;
    int type, rank;
    int64_t dim[SL_ONNX_RANK];
    int64_t count;     /* product of dim */
    const void *typed; /* elements as `typed_type`, one per slot, or NULL */
    int typed_type;    /* type of `typed`: float, int32, int64, double, uint64 */
    const void *raw;   /* little-endian elements, or NULL */
    const char *file;  /* path of external data; else NULL */
    int64_t offset;    /* offset in that file */
};

struct sl_proto_graph;

struct sl_proto_attr {
    const char *name;
    float f;
    int64_t i;
    struct sl_str s;
    const struct sl_proto_tensor *t;
    const struct sl_proto_graph *g;
    int float_count, int_count, string_count;
    const float *floats;
    const int64_t *ints;
    const struct sl_str *strings;
};

struct sl_proto_node {
    const char *name, *op, *domain; /* domain "": the ONNX standard */
    int in_count, out_count, attr_count;
    const char *const *in; /* "": absent */
    const char *const *out;
    const struct sl_proto_attr *attrs;
    const char *call; /* the call in torch that became this node; "": the file does not say */
};

struct sl_proto_dim {
    int64_t n;         /* used if param is NULL; -1: unknown */
    const char *param; /* symbolic size, such as "batch" */
};

struct sl_proto_info { /* a graph input or output */
    const char *name;
    int type, rank; /* rank -1: unknown */
    struct sl_proto_dim dim[SL_ONNX_RANK];
};

struct sl_proto_note { /* metadata of the graph, or of the value `key` */
    const char *key, *value;
};

struct sl_proto_graph {
    const char *name;
    int64_t node_count, tensor_count, in_count, out_count, note_count, folded_count;
    const struct sl_proto_node *nodes;
    const struct sl_proto_tensor *tensors; /* the initialisers */
    const struct sl_proto_info *in, *out;
    const struct sl_proto_note *notes;
    /* values that the exporter computed: key, with "['a', 'b']", the names it read */
    const struct sl_proto_note *folded;
};

struct sl_proto_file {
    struct sl_arena arena;
    const char *path, *producer;
    int64_t ir_version, opset;
    struct sl_proto_graph *graph;
    void *message;           /* decode_onnx.c: the parsed message */
    SL_VEC(void *) messages; /* parsed messages of inner graphs */
    int open_fd;             /* external file that was read last; -1: none */
    const char *open_path;
};

/* Returns NULL, or the reason why this build cannot read ONNX. */
const char *sl_proto_missing(void);

/* Reads and checks a file. External data must be in its directory. */
SL_MUST_CHECK sl_err sl_proto_open(const char *path, struct sl_proto_file **out);
/* Reads from memory, for tests and fuzzing; `path` is for messages and external data. */
SL_MUST_CHECK sl_err sl_proto_parse(const char *path, const void *bytes, size_t length,
                                    struct sl_proto_file **out);
void sl_proto_close(struct sl_proto_file *file); /* file may be NULL */
/* Reads a file that holds one tensor (test data of the format's own suite). */
SL_MUST_CHECK sl_err sl_proto_parse_tensor(const char *path, const void *bytes, size_t length,
                                           struct sl_proto_file **out,
                                           const struct sl_proto_tensor **tensor);
/* The checker: names of values are unique and defined before use, sizes agree with the data, the
 * version of the operator set is known. */
SL_MUST_CHECK sl_err sl_proto_check(const struct sl_proto_file *file);

/* Read elements [from, from + count) as double, or integers as int64. */
SL_MUST_CHECK sl_err sl_proto_read_floats(struct sl_proto_file *file,
                                          const struct sl_proto_tensor *tensor, int64_t from,
                                          int64_t count, double *out);
SL_MUST_CHECK sl_err sl_proto_read_ints(struct sl_proto_file *file,
                                        const struct sl_proto_tensor *tensor, int64_t from,
                                        int64_t count, int64_t *out);
/* Reads elements as float32, without conversion if the file has this type. */
SL_MUST_CHECK sl_err sl_proto_read_f32(struct sl_proto_file *file,
                                       const struct sl_proto_tensor *tensor, int64_t from,
                                       int64_t count, float *out);

const struct sl_proto_attr *sl_proto_attr(const struct sl_proto_node *node, const char *name);
int64_t sl_proto_attr_int(const struct sl_proto_node *node, const char *name, int64_t fallback);
/* Returns the number that was meant: 1e-5, not the float nearest to it. */
double sl_proto_decimal(float x);
double sl_proto_attr_float(const struct sl_proto_node *node, const char *name, double fallback);
bool sl_proto_attr_is(const struct sl_proto_node *node, const char *name, const char *value,
                      bool fallback);

#endif
