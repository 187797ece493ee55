/* Manifest reader of checkpoints. The input is the text before the hash; the target appends the
 * correct hash, so that inputs pass the checksum. Accepted manifests must survive a round trip. */
#include "base/map.h"
#include "ckpt/manifest.h"
#include "fuzz/meter.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Merge it as the report of one writer, and as two equal reports: merged or refused. */
static void merge(const struct sl_ckpt_manifest *manifest, struct sl_arena *arena) {
    const struct sl_ckpt_manifest parts[2] = {*manifest, *manifest};
    struct sl_ckpt_manifest merged;
    struct sl_text text = {0};
    for (int count = 1; count <= 2; count++)
        if (sl_ckpt_manifest_merge(parts, count, arena, &merged) == SL_OK)
            sl_ckpt_manifest_put(&text, &merged);
    sl_text_free(&text);
}

static void check_again(struct sl_ckpt_manifest *manifest) {
    struct sl_text first = {0}, second = {0};
    struct sl_arena arena = {0};
    struct sl_ckpt_manifest again;
    merge(manifest, &arena);
    sl_ckpt_manifest_put(&first, manifest);
    char *copy = sl_arena_dup(&arena, first.at, first.length);
    if (sl_ckpt_manifest_read("again", copy, first.length, &arena, &again) != SL_OK)
        abort();
    sl_ckpt_manifest_put(&second, &again);
    if (first.length != second.length || memcmp(first.at, second.at, first.length) != 0)
        abort();
    sl_text_free(&first);
    sl_text_free(&second);
    sl_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_ckpt_manifest manifest;
    struct sl_text text = {0};
    sl_text_put_bytes(&text, data, size);
    sl_text_printf(&text, "\"hash\": \"%016llx\"}\n", (unsigned long long)sl_hash(data, size));
    sl_meter_start();
    sl_err err = sl_ckpt_manifest_read("fuzz", text.at, text.length, &arena, &manifest);
    sl_meter_check((int64_t)text.length, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK)
        check_again(&manifest);
    sl_arena_free(&arena);
    sl_text_free(&text);
    return 0;
}
