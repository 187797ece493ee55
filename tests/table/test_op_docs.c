/* docs/ops.md is what the registry says: one row per op that models may use, with its inputs, its
 * gradient, its names in ONNX and PyTorch and the devices that have a kernel. SL_GOLDEN_UPDATE=1
 * writes the file anew. The kernels for CUDA are read from the tables in src/device/cuda, so that the
 * file is the same on machines without a GPU. */
#include "device/cpu/cpu.h"
#include "op/registry.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

/* The tables at the ends of all .cu files. */
static void read_cuda_tables(struct sl_text *out) {
    const char *folder = SL_TEST_SRC_DIR "/src/device/cuda";
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[1024];
        char *text;
        size_t length;
        if (!strstr(entry->d_name, ".cu"))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        assert_int_equal(sl_file_read(path, 1 << 24, &text, &length), SL_OK);
        const char *table = strstr(text, "const struct sl_cuda_kernel sl_cuda_");
        if (table)
            sl_text_put(out, table);
        free(text);
    }
    closedir(dir);
}

/* {"add", ...}, or a macro that makes rows: UNARY_ROWS(abs) */
static bool has_cuda(const char *tables, const char *op) {
    char row[64], made[64];
    snprintf(row, sizeof row, "{\"%s\",", op);
    snprintf(made, sizeof made, "_ROWS(%s)", op);
    return strstr(tables, row) || strstr(tables, made);
}

static void put_devices(struct sl_text *out, const char *tables, const struct sl_op *op) {
    if (op->plan_only)
        sl_text_put(out, "none: it cannot be trained");
    else if (!op->ref)
        sl_text_put(out, "those of its parts");
    else
        sl_text_printf(out, "reference%s%s", sl_device_cpu_find(op->name) ? ", cpu" : "",
                       has_cuda(tables, op->name) ? ", cuda" : "");
}

static void put_row(struct sl_text *out, const char *tables, int i) {
    const struct sl_op *op = sl_op_rows[i];
    const struct sl_op_names *names = &sl_op_names[i];
    sl_text_printf(out, "| %s | %s | ", op->name, op->inputs);
    for (int a = 0; op->attrs && op->attrs[a].name; a++)
        sl_text_printf(out, "%s%s%s%s", a ? ", " : "", op->attrs[a].name,
                       op->attrs[a].fallback && *op->attrs[a].fallback ? "=" : "",
                       op->attrs[a].fallback ? op->attrs[a].fallback : "");
    sl_text_printf(out, " | %s | %s | %s | %s | ", op->brief,
                   op->grad     ? "yes"
                   : op->expand ? "of its parts"
                                : "none",
                   names->onnx ? names->onnx : "", names->torch ? names->torch : "");
    put_devices(out, tables, op);
    sl_text_put(out, " |\n");
}

static void make(struct sl_text *out) {
    struct sl_text tables = {0};
    int count = 0;
    read_cuda_tables(&tables);
    for (int i = 0; i < sl_op_count; i++)
        count += !sl_op_rows[i]->internal;
    sl_text_printf(
        out,
        "# Operators\n\n"
        "The %d operators of model texts, written from the registry (src/op/registry.c) by the "
        "test `table.op_docs`. Inputs with `?` may be absent, `*` is any number of them; "
        "attributes show their defaults. ONNX and PyTorch name what computes the same, for some "
        "attributes at least; without a name, the operator is composed there.\n\n"
        "| operator | inputs | attributes | result | gradient | ONNX | PyTorch | devices |\n"
        "|---|---|---|---|---|---|---|---|\n",
        count);
    for (int i = 0; i < sl_op_count; i++)
        if (!sl_op_rows[i]->internal)
            put_row(out, tables.at, i);
    sl_text_free(&tables);
}

static void the_page_is_current(void **state) {
    const char *path = SL_TEST_SRC_DIR "/docs/ops.md", *update = getenv("SL_GOLDEN_UPDATE");
    struct sl_text want = {0};
    char *got;
    size_t length;
    (void)state;
    make(&want);
    if (update)
        assert_int_equal(sl_file_write(path, want.at, want.length), SL_OK);
    assert_int_equal(sl_file_read(path, 1 << 24, &got, &length), SL_OK);
    if (strcmp(want.at, got) != 0)
        fail_msg("docs/ops.md is not what the registry says: run table.op_docs with "
                 "SL_GOLDEN_UPDATE=1 and look at the difference");
    sl_text_free(&want);
    free(got);
}

/* An op without a kernel for the CPU could not be trained there. */
static void the_cpu_has_every_op(void **state) {
    struct sl_text tables = {0};
    (void)state;
    read_cuda_tables(&tables);
    for (int i = 0; i < sl_op_count; i++) {
        const struct sl_op *op = sl_op_rows[i];
        if (op->ref && !sl_device_cpu_find(op->name))
            fail_msg("the cpu has no kernel for '%s'", op->name);
        if (op->ref && !has_cuda(tables.at, op->name) && !op->internal)
            print_message("no kernel for cuda: %s\n", op->name);
    }
    sl_text_free(&tables);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_current),
        cmocka_unit_test(the_cpu_has_every_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
