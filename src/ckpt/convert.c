/* Writes a checkpoint as one safetensors file; lists the checkpoints of a path. */
#include "ckpt/convert.h"

#include "base/outfile.h"
#include "ckpt/files.h"

#include <stdio.h>
#include <string.h>

static sl_err write_output(void *ctx, const void *bytes, size_t length) {
    return sl_outfile_write(ctx, bytes, length);
}

static sl_err put_bytes(void *ctx, const void *bytes, int64_t size) {
    return sl_st_writer_put(ctx, bytes, size);
}

static sl_err declare(const struct sl_ckpt *ckpt, bool state, struct sl_st_writer *writer) {
    char step[32];
    snprintf(step, sizeof step, "%lld", (long long)sl_ckpt_step(ckpt));
    sl_st_writer_note(writer, "format", "pt");
    sl_st_writer_note(writer, "sluice_step", step);
    for (int64_t i = 0; i < sl_ckpt_count(ckpt); i++) {
        const struct sl_ckpt_tensor *from = sl_ckpt_at(ckpt, i);
        struct sl_st_tensor tensor = {
            .name = from->name, .dtype = (enum sl_st_dtype)from->dtype, .rank = from->rank};
        for (int k = 0; k < from->rank; k++)
            tensor.dim[k] = from->dim[k];
        if (state || sl_ckpt_group_of(ckpt, from) == SL_CKPT_WEIGHTS)
            SL_TRY(sl_st_writer_add(writer, &tensor));
    }
    return SL_OK;
}

static sl_err write_tensors(const struct sl_ckpt *ckpt, bool state, struct sl_outfile *output) {
    struct sl_st_writer writer;
    const struct sl_st_entry *entry;
    sl_err err = SL_OK;
    sl_st_writer_open(&writer, (struct sl_st_sink){output, write_output});
    SL_TRY_OUT(declare(ckpt, state, &writer));
    SL_TRY_OUT(sl_st_writer_start(&writer, NULL));
    while ((entry = sl_st_writer_next(&writer)) != NULL)
        SL_TRY_OUT(
            sl_ckpt_stream(ckpt, sl_ckpt_find(ckpt, entry->tensor.name), &writer, put_bytes));
out:
    sl_st_writer_close(&writer);
    return err;
}

sl_err sl_ckpt_convert(const struct sl_ckpt *ckpt, bool state, const char *path) {
    struct sl_outfile output;
    SL_TRY(sl_outfile_open(&output, path));
    return sl_outfile_close(&output, write_tensors(ckpt, state, &output));
}

sl_err sl_ckpt_list_any(const char *path, struct sl_arena *arena, struct sl_ckpt_list *out) {
    /* path is the directory of a single step */
    if (sl_file_exists(sl_arena_printf(arena, "%s/manifest.json", path))) {
        *out =
            (struct sl_ckpt_list){1, SL_NEW(arena, const char *, 1), SL_NEW(arena, int64_t, 1), -1};
        const char *slash = strrchr(path, '/');
        out->dir[0] = path;
        out->step[0] = sl_ckpt_dir_step(slash ? slash + 1 : path);
        return SL_OK;
    }
    SL_TRY(sl_ckpt_list(path, arena, out));
    if (!out->count)
        return sl_fail(SL_ERR_INPUT,
                       "%s: no checkpoint here (expected a run, its ckpt/ or one "
                       "step's directory)",
                       path);
    return SL_OK;
}
