/* Writing a checkpoint.
 *
 *   BEGUN --put, note--> BEGUN --write--> WRITTEN --commit (rank 0)--> COMMITTED --end-->
 *
 * Invariants that make a kill harmless:
 *  1. Nothing outside .tmp-* is touched before every byte of the new checkpoint is on the disk.
 *  2. A directory step-* is complete when it is renamed to that name. It is never written again; to
 *     delete it, it is first renamed to .tmp-*.
 *  3. `latest` is replaced by rename, after the directory it names is durable.
 *  4. The directory that `latest` names is never renamed or deleted. */
#include "base/hash.h"
#include "base/log.h"
#include "ckpt/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = SL_CKPT_BUFFER_BYTES };

struct sl_ckpt_writer {
    struct sl_arena arena;
    struct sl_ckpt_options options;
    const struct sl_ckpt_files *files;
    const char *root, *temporary; /* RUN/ckpt and RUN/ckpt/.tmp-step-... */
    SL_VEC(struct sl_ckpt_item) items;
    struct sl_ckpt_manifest manifest; /* the shards and tensors of this rank */
    void *chunk;                      /* buffer for items that have a read() */
};

const char *sl_ckpt_part_name(struct sl_arena *arena, const char *name, const char *part) {
    return sl_arena_printf(arena, "%s:%s", name, part);
}

const char *sl_ckpt_version_name(struct sl_arena *arena, const char *name, int age) {
    return age ? sl_arena_printf(arena, "%s@%d", name, age) : name;
}

sl_err sl_ckpt_begin(const struct sl_ckpt_options *options, struct sl_ckpt_writer **out) {
    SL_ASSERT(options->rank >= 0 && options->rank < options->ranks && options->step >= 0);
    if (options->ranks > SL_CKPT_WRITERS)
        return sl_fail(SL_ERR_REFUSED, "%d writers of one checkpoint; at most %d", options->ranks,
                       SL_CKPT_WRITERS);
    struct sl_ckpt_writer *writer = sl_realloc(NULL, sizeof *writer);
    *writer = (struct sl_ckpt_writer){.options = *options};
    writer->files = options->files ? options->files : &sl_ckpt_system_files;
    writer->options.run = sl_arena_dup(&writer->arena, options->run, strlen(options->run));
    writer->root = sl_arena_printf(&writer->arena, "%s/ckpt", options->run);
    writer->temporary = sl_arena_printf(&writer->arena, "%s/.tmp-step-%08lld", writer->root,
                                        (long long)options->step);
    writer->manifest = (struct sl_ckpt_manifest){.step = options->step,
                                                 .cursor = options->cursor,
                                                 .seed = options->seed,
                                                 .ranks = options->ranks};
    writer->manifest.notes = SL_NEW(&writer->arena, struct sl_st_note, SL_CKPT_NOTES);
    *out = writer;
    return SL_OK;
}

sl_err sl_ckpt_put(struct sl_ckpt_writer *writer, const struct sl_ckpt_item *item) {
    struct sl_ckpt_item copy = *item;
    SL_ASSERT(item->rank >= 0 && item->rank <= SL_CKPT_RANK && !writer->manifest.shards);
    if (!sl_st_name_ok(item->name))
        return sl_fail(SL_ERR_INPUT, "checkpoint: impossible name of a tensor '%s'", item->name);
    if (sl_st_size_bytes(item->dtype, item->rank, item->dim) < 0)
        return sl_fail(SL_ERR_INPUT, "checkpoint: tensor '%s' has an impossible shape", item->name);
    copy.name = sl_arena_dup(&writer->arena, item->name, strlen(item->name));
    SL_PUSH(&writer->items, copy);
    return SL_OK;
}

sl_err sl_ckpt_note(struct sl_ckpt_writer *writer, const char *key, const char *value) {
    struct sl_ckpt_manifest *manifest = &writer->manifest;
    size_t length = strlen(value);
    if (manifest->note_count == SL_CKPT_NOTES || length > SL_CKPT_NOTE_MAX)
        return sl_fail(SL_ERR_REFUSED,
                       "checkpoint: note '%s' is too long or one too many (%d of %d)", key,
                       manifest->note_count, SL_CKPT_NOTES);
    manifest->notes[manifest->note_count++] =
        (struct sl_st_note){sl_arena_dup(&writer->arena, key, strlen(key)),
                            sl_arena_dup(&writer->arena, value, length)};
    return SL_OK;
}

/* ---- shards ---- */

/* A shard that is being written. */
struct shard_file {
    const struct sl_ckpt_writer *writer;
    const char *path;
    int fd;
    int64_t written;
};

static sl_err sink_write(void *ctx, const void *bytes, size_t length) {
    struct shard_file *file = ctx;
    SL_TRY(sl_ckpt_write_all(file->writer->files, file->fd, file->path, bytes, length));
    file->written += (int64_t)length;
    return SL_OK;
}

static struct sl_st_tensor tensor_of(const struct sl_ckpt_item *item) {
    struct sl_st_tensor out = {.name = item->name, .dtype = item->dtype, .rank = item->rank};
    for (int i = 0; i < item->rank; i++)
        out.dim[i] = item->dim[i];
    return out;
}

/* Writes and hashes the bytes of one item. */
static sl_err write_item(struct sl_ckpt_writer *writer, struct sl_st_writer *st,
                         const struct sl_ckpt_item *item, uint64_t *hash) {
    int64_t left = sl_st_size_bytes(item->dtype, item->rank, item->dim), from = 0;
    struct sl_hasher *hasher = sl_hasher_open();
    sl_err err = SL_OK;
    while (left) {
        int64_t size_bytes = left < CHUNK ? left : CHUNK;
        const void *bytes = item->data ? (const char *)item->data + from : writer->chunk;
        if (!item->data)
            SL_TRY_OUT(item->read(item->ctx, from, size_bytes, writer->chunk));
        sl_hasher_add(hasher, bytes, (size_t)size_bytes);
        SL_TRY_OUT(sl_st_writer_put(st, bytes, size_bytes));
        from += size_bytes;
        left -= size_bytes;
    }
    *hash = sl_hasher_value(hasher);
out:
    sl_hasher_close(hasher);
    return err;
}

static sl_err write_items(struct sl_ckpt_writer *writer, struct sl_st_writer *st,
                          const int64_t *place, uint64_t *hashes) {
    const struct sl_st_entry *entry;
    while ((entry = sl_st_writer_next(st)) != NULL) {
        int64_t i = place[entry->number];
        SL_TRY(write_item(writer, st, &writer->items.at[i], &hashes[i]));
    }
    return SL_OK;
}

/* Writes the header and data of a shard and fsyncs it. The header sorts its tensors; place[k] is
 * the index in writer->items of the k-th tensor that was added. */
static sl_err write_shard(struct sl_ckpt_writer *writer, enum sl_ckpt_group group, uint64_t *hashes,
                          struct sl_ckpt_shard *out) {
    char name[SL_CKPT_FILE_NAME];
    int64_t *place = SL_NEW(&writer->arena, int64_t, writer->items.count + 1), count = 0;
    sl_ckpt_shard_name(group, writer->options.rank, writer->options.ranks, name);
    struct shard_file file = {
        writer, sl_arena_printf(&writer->arena, "%s/%s", writer->temporary, name), -1, 0};
    struct sl_st_writer st;
    struct sl_text header = {0};
    sl_err err = SL_OK;
    sl_st_writer_open(&st, (struct sl_st_sink){&file, sink_write});
    for (int64_t i = 0; i < writer->items.count; i++)
        if (writer->items.at[i].group == group) {
            struct sl_st_tensor tensor = tensor_of(&writer->items.at[i]);
            SL_TRY_OUT(sl_st_writer_add(&st, &tensor));
            place[count++] = i;
        }
    file.fd = writer->files->open(writer->files->ctx, file.path);
    if (file.fd < 0)
        SL_TRY_OUT(sl_fail(SL_ERR_SYSTEM, "%s: cannot create: %s", file.path, strerror(errno)));
    SL_TRY_OUT(sl_st_writer_start(&st, &header));
    SL_TRY_OUT(write_items(writer, &st, place, hashes));
    if (writer->files->fsync(writer->files->ctx, file.fd) != 0)
        SL_TRY_OUT(sl_fail(SL_ERR_SYSTEM, "%s: cannot fsync: %s", file.path, strerror(errno)));
    *out = (struct sl_ckpt_shard){.header_hash = sl_hash(header.at, header.length),
                                  .file_bytes = file.written,
                                  .rank = writer->options.rank,
                                  .group = group};
out:
    if (file.fd >= 0 && writer->files->close(writer->files->ctx, file.fd) != 0 && err == SL_OK)
        err = sl_fail(SL_ERR_SYSTEM, "%s: cannot close: %s", file.path, strerror(errno));
    sl_text_free(&header);
    sl_st_writer_close(&st);
    return err;
}

static bool has_group(const struct sl_ckpt_writer *writer, enum sl_ckpt_group group) {
    for (int64_t i = 0; i < writer->items.count; i++)
        if (writer->items.at[i].group == group)
            return true;
    return false;
}

static void fill_tensors(struct sl_ckpt_writer *writer, const uint64_t *hashes,
                         const int32_t shard_of[SL_CKPT_GROUPS]) {
    struct sl_ckpt_manifest *manifest = &writer->manifest;
    manifest->tensor_count = writer->items.count;
    manifest->tensors = SL_NEW(&writer->arena, struct sl_ckpt_tensor, writer->items.count + 1);
    for (int64_t i = 0; i < writer->items.count; i++) {
        const struct sl_ckpt_item *item = &writer->items.at[i];
        struct sl_ckpt_tensor *tensor = &manifest->tensors[i];
        *tensor = (struct sl_ckpt_tensor){.name = item->name,
                                          .hash = hashes[i],
                                          .shard = shard_of[item->group],
                                          .dtype = (uint8_t)item->dtype,
                                          .rank = (uint8_t)item->rank};
        for (int k = 0; k < item->rank; k++)
            tensor->dim[k] = item->dim[k];
    }
}

sl_err sl_ckpt_write(struct sl_ckpt_writer *writer, struct sl_text *report) {
    struct sl_ckpt_manifest *manifest = &writer->manifest, merged;
    uint64_t *hashes = SL_NEW(&writer->arena, uint64_t, writer->items.count + 1);
    int32_t shard_of[SL_CKPT_GROUPS] = {0};
    SL_ASSERT(!manifest->shards);
    for (int64_t i = 0; i < writer->items.count; i++)
        hashes[i] = sl_hash("", 0); /* tensors without elements keep this hash */
    manifest->shards = SL_NEW(&writer->arena, struct sl_ckpt_shard, SL_CKPT_GROUPS);
    for (int64_t i = 0; i < writer->items.count && !writer->chunk; i++)
        if (!writer->items.at[i].data)
            writer->chunk = sl_arena_alloc(&writer->arena, CHUNK);
    SL_TRY(sl_ckpt_make_dir(writer->files, writer->options.run));
    SL_TRY(sl_ckpt_make_dir(writer->files, writer->root));
    SL_TRY(sl_ckpt_make_dir(writer->files, writer->temporary));
    for (int g = 0; g < SL_CKPT_GROUPS; g++) {
        if (!has_group(writer, (enum sl_ckpt_group)g))
            continue;
        shard_of[g] = manifest->shard_count;
        SL_TRY(write_shard(writer, (enum sl_ckpt_group)g, hashes,
                           &manifest->shards[manifest->shard_count++]));
    }
    fill_tensors(writer, hashes, shard_of);
    /* sorts the tensors and checks their names */
    SL_TRY(sl_ckpt_manifest_merge(manifest, 1, &writer->arena, &merged));
    *manifest = merged;
    sl_ckpt_manifest_put(report, manifest);
    return SL_OK;
}

/* ---- commit ---- */

static sl_err merge_reports(struct sl_ckpt_writer *writer, const struct sl_str *reports, int count,
                            struct sl_ckpt_manifest *out) {
    struct sl_ckpt_manifest *parts = SL_NEW(&writer->arena, struct sl_ckpt_manifest, count + 1);
    if (count != writer->options.ranks)
        return sl_fail(SL_ERR_PEER, "checkpoint of step %lld: %d of %d writers reported",
                       (long long)writer->options.step, count, writer->options.ranks);
    for (int i = 0; i < count; i++) {
        char *copy = sl_arena_dup(&writer->arena, reports[i].at, reports[i].length);
        SL_TRY(sl_ckpt_manifest_read("report of a checkpoint writer", copy, reports[i].length,
                                     &writer->arena, &parts[i]));
    }
    SL_TRY(sl_ckpt_manifest_merge(parts, count, &writer->arena, out));
    if (out->step != writer->manifest.step || out->ranks != writer->manifest.ranks)
        return sl_fail(SL_ERR_PEER, "checkpoint of step %lld: the reports are of step %lld",
                       (long long)writer->options.step, (long long)out->step);
    out->notes = writer->manifest.notes;
    out->note_count = writer->manifest.note_count;
    return SL_OK;
}

/* Removes files that a killed save with another number of writers left behind. */
static sl_err remove_leftovers(struct sl_ckpt_writer *writer,
                               const struct sl_ckpt_manifest *manifest) {
    struct sl_ckpt_names names;
    SL_TRY(sl_ckpt_names(writer->temporary, &writer->arena, &names));
    for (int64_t i = 0; i < names.count; i++) {
        bool known = strcmp(names.at[i], "manifest.json") == 0;
        for (int k = 0; k < manifest->shard_count && !known; k++) {
            char name[SL_CKPT_FILE_NAME];
            known = strcmp(names.at[i],
                           sl_ckpt_shard_name(manifest->shards[k].group, manifest->shards[k].rank,
                                              manifest->ranks, name)) == 0;
        }
        const char *path = sl_arena_printf(&writer->arena, "%s/%s", writer->temporary, names.at[i]);
        if (!known && writer->files->unlink(writer->files->ctx, path) != 0)
            return sl_fail(SL_ERR_SYSTEM, "%s: cannot remove: %s", path, strerror(errno));
    }
    return SL_OK;
}

/* Deletes a directory; renames it first, so that no reader sees a part of it. */
static sl_err discard(struct sl_ckpt_writer *writer, const char *name) {
    const char *from = sl_arena_printf(&writer->arena, "%s/%s", writer->root, name);
    const char *to = sl_arena_printf(&writer->arena, "%s/.tmp-old-%s", writer->root, name);
    sl_ckpt_remove_dir(writer->files, to);
    SL_TRY(sl_ckpt_rename(writer->files, from, to));
    sl_ckpt_remove_dir(writer->files, to);
    return SL_OK;
}

/* Chooses the name of the new checkpoint: step-N, or step-N.k if a directory of that name must stay
 * because `latest` names it, or because a reader without a readable `latest` falls back to it. */
static sl_err choose_name(struct sl_ckpt_writer *writer, const char **out) {
    struct sl_ckpt_latest latest;
    if (sl_ckpt_latest_read(writer->root, &writer->arena, &latest) != SL_OK)
        latest.name = NULL; /* `latest` is damaged and will be replaced */
    for (int k = 0; k < 1000; k++) {
        char suffix[16] = "";
        if (k)
            snprintf(suffix, sizeof suffix, ".%d", k);
        *out = sl_arena_printf(&writer->arena, "step-%08lld%s", (long long)writer->options.step,
                               suffix);
        const char *path = sl_arena_printf(&writer->arena, "%s/%s", writer->root, *out);
        if (!sl_file_exists(path))
            return SL_OK;
        if (latest.name && strcmp(latest.name, *out) != 0)
            return discard(writer, *out); /* left behind by a killed save or a roll-back */
    }
    return sl_fail(SL_ERR_SYSTEM, "%s: no free name for step %lld", writer->root,
                   (long long)writer->options.step);
}

static sl_err publish(struct sl_ckpt_writer *writer, const char *name, uint64_t hash) {
    const char *target = sl_arena_printf(&writer->arena, "%s/%s", writer->root, name);
    const char *latest = sl_arena_printf(&writer->arena, "%s/latest", writer->root);
    const char *fresh = sl_arena_printf(&writer->arena, "%s/.tmp-latest", writer->root);
    struct sl_text text = {0};
    sl_err err = SL_OK;
    SL_TRY(sl_ckpt_sync_dir(writer->files, writer->temporary));
    SL_TRY(sl_ckpt_rename(writer->files, writer->temporary, target));
    SL_TRY(sl_ckpt_sync_dir(writer->files, writer->root));
    SL_TRY(sl_ckpt_sync_dir(writer->files, writer->options.run));
    sl_ckpt_latest_put(&text, name, hash);
    SL_TRY_OUT(sl_ckpt_write_file(writer->files, fresh, &text));
    SL_TRY_OUT(sl_ckpt_rename(writer->files, fresh, latest));
    SL_TRY_OUT(sl_ckpt_sync_dir(writer->files, writer->root));
out:
    sl_text_free(&text);
    return err;
}

/* Removes old checkpoints. Failures are ignored, because the next save tries again. */
static void prune(struct sl_ckpt_writer *writer, const char *kept) {
    struct sl_ckpt_names names;
    int older = 0;
    int64_t best = -1;
    double loss;
    (void)sl_ckpt_best_read(writer->options.run, &best, &loss);
    sl_ckpt_tidy(writer->files, writer->root);
    if (sl_ckpt_names(writer->root, &writer->arena, &names) != SL_OK)
        return;
    for (int64_t i = names.count - 1; i >= 0; i--) {
        int64_t step = sl_ckpt_dir_step(names.at[i]);
        if (step < 0 || step > writer->options.step || strcmp(names.at[i], kept) == 0)
            continue;
        if (step == best && step < writer->options.step)
            continue;
        if (step < writer->options.step)
            older++;
        bool surplus = writer->options.keep > 0 && older >= writer->options.keep;
        if ((surplus || step == writer->options.step) && discard(writer, names.at[i]) != SL_OK)
            sl_log_warn("%s", sl_err_message());
    }
}

sl_err sl_ckpt_commit(struct sl_ckpt_writer *writer, const struct sl_str *reports, int count) {
    struct sl_ckpt_manifest manifest;
    struct sl_text text = {0};
    const char *name = NULL;
    sl_err err = SL_OK;
    SL_ASSERT(writer->options.rank == 0 && writer->manifest.shards);
    SL_TRY(merge_reports(writer, reports, count, &manifest));
    sl_ckpt_manifest_put(&text, &manifest);
    if (text.length > SL_CKPT_MANIFEST_MAX)
        SL_TRY_OUT(sl_fail(SL_ERR_REFUSED, "the manifest of the checkpoint would have %zu bytes",
                           text.length));
    SL_TRY_OUT(sl_ckpt_write_file(
        writer->files, sl_arena_printf(&writer->arena, "%s/manifest.json", writer->temporary),
        &text));
    SL_TRY_OUT(remove_leftovers(writer, &manifest));
    SL_TRY_OUT(choose_name(writer, &name));
    SL_TRY_OUT(publish(writer, name, manifest.hash));
    prune(writer, name);
out:
    sl_text_free(&text);
    return err;
}

static void remove_own_files(struct sl_ckpt_writer *writer) {
    if (writer->options.rank == 0) {
        sl_ckpt_remove_dir(writer->files, writer->temporary);
        return;
    }
    for (int g = 0; g < SL_CKPT_GROUPS; g++) {
        char name[SL_CKPT_FILE_NAME];
        sl_ckpt_shard_name((enum sl_ckpt_group)g, writer->options.rank, writer->options.ranks,
                           name);
        writer->files->unlink(writer->files->ctx,
                              sl_arena_printf(&writer->arena, "%s/%s", writer->temporary, name));
    }
}

void sl_ckpt_end(struct sl_ckpt_writer *writer, bool committed) {
    if (!writer)
        return;
    if (!committed)
        remove_own_files(writer);
    SL_VEC_FREE(&writer->items);
    sl_arena_free(&writer->arena);
    free(writer);
}

sl_err sl_ckpt_save(struct sl_ckpt_writer *writer) {
    struct sl_text report = {0};
    SL_ASSERT(writer->options.ranks == 1);
    sl_err err = sl_ckpt_write(writer, &report);
    if (err == SL_OK) {
        struct sl_str one = {report.at, report.length};
        err = sl_ckpt_commit(writer, &one, 1);
    }
    sl_text_free(&report);
    sl_ckpt_end(writer, err == SL_OK);
    return err;
}
