/* The manifest of a checkpoint: reading and writing manifest.json. Internal to ckpt.
 *
 * Keys have one fixed order; tensors are sorted by name. The last line holds the XXH3-64 of all
 * bytes before it. Both are compared as text, so every flipped bit is detected. The report of one
 * rank is a manifest of its own shards.
 */
#ifndef SL_CKPT_MANIFEST_H
#define SL_CKPT_MANIFEST_H

#include "ckpt/ckpt.h"

enum { SL_CKPT_MANIFEST_MAX = 256 << 20, SL_CKPT_NOTE_MAX = 16 << 20, SL_CKPT_NOTES = 64 };

struct sl_ckpt_shard {
    uint64_t header_hash;
    int64_t file_bytes;
    int32_t rank;
    enum sl_ckpt_group group;
};

struct sl_ckpt_manifest {
    int64_t step, cursor;
    uint64_t seed, hash;
    int ranks, shard_count, note_count;
    int64_t tensor_count;
    struct sl_ckpt_shard *shards;   /* sorted by group, then rank */
    struct sl_ckpt_tensor *tensors; /* sorted by name */
    struct sl_st_note *notes;
};

enum { SL_CKPT_FILE_NAME = 48 };
const char *sl_ckpt_shard_name(enum sl_ckpt_group group, int rank, int ranks,
                               char out[SL_CKPT_FILE_NAME]);

/* Reads a manifest. `text` is writable and outlives `out`, which points into it. Arrays are in the
 * arena; a count that does not fit the length of the text is refused before memory is allocated. */
SL_MUST_CHECK sl_err sl_ckpt_manifest_read(const char *file, char *text, size_t length,
                                           struct sl_arena *arena, struct sl_ckpt_manifest *out);
/* Writes the manifest and sets manifest->hash. */
void sl_ckpt_manifest_put(struct sl_text *text, struct sl_ckpt_manifest *manifest);

/* Merges the reports of ranks. Step, seed and cursor must agree; names of tensors must be
 * unique. */
SL_MUST_CHECK sl_err sl_ckpt_manifest_merge(const struct sl_ckpt_manifest *parts, int count,
                                            struct sl_arena *arena, struct sl_ckpt_manifest *out);

#endif
