/* A checkpoint: the tensors and the position of a run at one step, in a directory. It is independent
 * of the pipeline's layout and checksummed; after a kill at any time, the old or the new one loads.
 *
 *   RUN/ckpt/latest                                  "step-00001000 <hash of its manifest>"
 *   RUN/ckpt/step-00001000/manifest.json             tensor -> shard, shape, dtype, XXH3-64;
 *                                                    its own hash comes last
 *   RUN/ckpt/step-00001000/weights-000-of-002.safetensors   parameters, statistics; global names
 *   RUN/ckpt/step-00001000/state-000-of-002.safetensors     optimizer state, older versions, ...
 *
 * The path of a save and of a load; each call goes down one file:
 *
 *   run/session.c   save()                           run/runner.c   sl_run_runner_load()
 *        |                                                |
 *   saver.c         sl_ckpt_saver_save()                  |
 *        |          copy, writer thread                   |
 *   save.c          sl_ckpt_store_save()             load.c         sl_ckpt_store_load()
 *        |          entries and notes of a store          |         tensors into a store
 *   write.c         sl_ckpt_save()                   read.c         sl_ckpt_stream()
 *                   shards, manifest, latest                        shards, checksums
 *
 * The store (store.h) is the only interface upwards: run/store.c (one worker) and pipe/store.c (a
 * pipeline) fill it; save.c and load.c call its get and put.
 *
 * A shard holds the tensors of one of p writers. A reader finds tensors by name, never by shard, so
 * any number of workers and any cut can load it. Protocol of p writers (docs/design/0003):
 *
 *   rank r:  begin, put..., write    -> report (a small text); files fsynced in .tmp-...
 *   rank 0:  commit(all reports)     -> manifest and directory fsynced, renamed, `latest` renamed
 *   all:     end
 *
 * Between write and commit the caller gathers the reports. If the write of one rank failed, commit
 * must not be called. Until `latest` is renamed, the old checkpoint loads.
 */
#ifndef SL_CKPT_CKPT_H
#define SL_CKPT_CKPT_H

#include "base/safetensors.h"

enum { SL_CKPT_RANK = 6, SL_CKPT_WRITERS = 999 };

enum { SL_CKPT_BUFFER_BYTES = 1 << 20 }; /* a save copies tensors piece by piece */

enum sl_ckpt_group {
    SL_CKPT_WEIGHTS, /* tensors that other programs want: parameters, running statistics */
    SL_CKPT_STATE,   /* tensors that only a resume needs */
    SL_CKPT_GROUPS,
};

/* Names of tensors. A parameter has its own name; "w:exp_avg" is optimizer state or another part of
 * it; "w@1" is its weight one version older than the newest (2bw), with parts "w@1:part". */
const char *sl_ckpt_part_name(struct sl_arena *arena, const char *name, const char *part);
const char *sl_ckpt_version_name(struct sl_arena *arena, const char *name, int age);

/* RUN/ckpt/best names a step whose checkpoint is never pruned: "step-00000040 0.125". read: false
 * if there is no such file. write: call it before the checkpoint is saved. */
bool sl_ckpt_best_read(const char *run, int64_t *step, double *loss);
SL_MUST_CHECK sl_err sl_ckpt_best_write(const char *run, int64_t step, double loss);

/* ---- writing ---- */

struct sl_ckpt_files; /* ckpt/files.h: the file operations; tests replace them */

struct sl_ckpt_options {
    const char *run; /* run directory */
    int64_t step;
    uint64_t seed;  /* of the run */
    int64_t cursor; /* number of samples consumed */
    int rank, ranks;
    int keep;                          /* number of checkpoints to keep, with this one; 0: all */
    const struct sl_ckpt_files *files; /* NULL: those of the system */
};

/* One tensor. Its bytes come from `data`, or, if that is NULL, from read(ctx, from, size, out) in
 * pieces. The bytes must not change until sl_ckpt_write returns. */
struct sl_ckpt_item {
    enum sl_ckpt_group group;
    const char *name;
    enum sl_st_dtype dtype;
    int rank;
    int64_t dim[SL_CKPT_RANK];
    const void *data;
    sl_err (*read)(void *ctx, int64_t from, int64_t size_bytes, void *out);
    void *ctx;
};

struct sl_ckpt_writer;

SL_MUST_CHECK sl_err sl_ckpt_begin(const struct sl_ckpt_options *options,
                                   struct sl_ckpt_writer **out);
SL_MUST_CHECK sl_err sl_ckpt_put(struct sl_ckpt_writer *writer, const struct sl_ckpt_item *item);
/* Adds a text to the checkpoint ("config", any JSON), at most 16 MiB; only rank 0's texts are
 * kept. */
SL_MUST_CHECK sl_err sl_ckpt_note(struct sl_ckpt_writer *writer, const char *key,
                                  const char *value);
/* Writes this rank's shards and fsyncs them; `report` is a text for rank 0. */
SL_MUST_CHECK sl_err sl_ckpt_write(struct sl_ckpt_writer *writer, struct sl_text *report);
/* Rank 0 calls it with the `reports` of all ranks, in any order. After success it removes surplus
 * checkpoints. */
SL_MUST_CHECK sl_err sl_ckpt_commit(struct sl_ckpt_writer *writer, const struct sl_str *reports,
                                    int count);
/* Frees the writer; without a commit it removes this rank's files. Rank 0 calls it last. */
void sl_ckpt_end(struct sl_ckpt_writer *writer, bool committed);

/* Calls write, commit and end for a single writer. */
SL_MUST_CHECK sl_err sl_ckpt_save(struct sl_ckpt_writer *writer);

/* Removes files of killed saves. No other process may write to the run. */
void sl_ckpt_clean(const char *run);

/* ---- reading ---- */

struct sl_ckpt_tensor {
    const char *name;
    uint64_t hash;
    int64_t dim[SL_CKPT_RANK];
    int32_t shard;
    uint8_t dtype, rank; /* dtype: enum sl_st_dtype */
};

struct sl_ckpt;

/* Opens a checkpoint. `path` is a run, its ckpt/ or one step's directory. step < 0: the latest.
 * Checks the manifest's hash, the size and header of every shard, and that shards and manifest name
 * the same tensors. Several threads may read one sl_ckpt. */
SL_MUST_CHECK sl_err sl_ckpt_open(const char *path, int64_t step, struct sl_ckpt **out);
void sl_ckpt_close(struct sl_ckpt *ckpt); /* ckpt may be NULL */
/* Is there a checkpoint (`latest`, or any step)? A damaged one counts. Fails if it cannot find out,
 * for example because the directory cannot be read. */
SL_MUST_CHECK sl_err sl_ckpt_exists(const char *path, bool *out);

const char *sl_ckpt_dir(const struct sl_ckpt *ckpt);
int64_t sl_ckpt_step(const struct sl_ckpt *ckpt);
uint64_t sl_ckpt_seed(const struct sl_ckpt *ckpt);
int64_t sl_ckpt_cursor(const struct sl_ckpt *ckpt);
int sl_ckpt_writers(const struct sl_ckpt *ckpt);
/* hash of the manifest; identifies the checkpoint */
uint64_t sl_ckpt_hash(const struct sl_ckpt *ckpt);
int64_t sl_ckpt_size_bytes(const struct sl_ckpt *ckpt);                     /* bytes of all files */
const char *sl_ckpt_find_note(const struct sl_ckpt *ckpt, const char *key); /* NULL if absent */

/* Tensors are sorted by name, ascending. */
int64_t sl_ckpt_count(const struct sl_ckpt *ckpt);
const struct sl_ckpt_tensor *sl_ckpt_at(const struct sl_ckpt *ckpt, int64_t index);
const struct sl_ckpt_tensor *sl_ckpt_find(const struct sl_ckpt *ckpt, const char *name);
enum sl_ckpt_group sl_ckpt_group_of(const struct sl_ckpt *ckpt,
                                    const struct sl_ckpt_tensor *tensor);
int64_t sl_ckpt_tensor_bytes(const struct sl_ckpt_tensor *tensor);
/* Writes type and shape: "F32 [3,5]". */
const char *sl_ckpt_tensor_text(const struct sl_ckpt_tensor *tensor, char out[SL_ST_TEXT]);

/* read: the whole tensor. read_rows: `count` rows (of the first axis) from `first` on, through a
 * small buffer. Both verify the checksum of the whole tensor. */
SL_MUST_CHECK sl_err sl_ckpt_read(const struct sl_ckpt *ckpt, const struct sl_ckpt_tensor *tensor,
                                  void *out);
SL_MUST_CHECK sl_err sl_ckpt_read_rows(const struct sl_ckpt *ckpt,
                                       const struct sl_ckpt_tensor *tensor, int64_t first,
                                       int64_t count, void *out);
/* Passes the bytes of a tensor to `put`, in order and in pieces; fails at the end if the checksum
 * is wrong. */
SL_MUST_CHECK sl_err sl_ckpt_stream(const struct sl_ckpt *ckpt, const struct sl_ckpt_tensor *tensor,
                                    void *ctx,
                                    sl_err (*put)(void *ctx, const void *bytes, int64_t size));
/* Verifies every checksum, and that the directory has no other file. */
SL_MUST_CHECK sl_err sl_ckpt_verify(const struct sl_ckpt *ckpt);

/* The complete checkpoints of a run, by ascending step. */
struct sl_ckpt_list {
    int count;
    const char **dir; /* full paths */
    int64_t *step;
    int latest; /* index of the one that `latest` names; -1: none */
};
SL_MUST_CHECK sl_err sl_ckpt_list(const char *path, struct sl_arena *arena,
                                  struct sl_ckpt_list *out);

#endif
