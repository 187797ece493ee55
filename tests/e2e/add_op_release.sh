#!/usr/bin/env bash
# The op of CONTRIBUTING.md compiles without a warning, differentiates, and its gradient is right.
set -euo pipefail
command -v cc >/dev/null || { echo "no compiler here" && exit 77; }
[ -f "$BUILD_DIR/libsluice_internal.a" ] || { echo "no libsluice_internal.a" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$SRC_DIR/CONTRIBUTING.md" >"$work/square.c"
grep -q 'sl_op_square' "$work/square.c" || { echo "FAILED: no op in CONTRIBUTING.md" && exit 1; }
cat >"$work/main.c" <<'C'
#include "graph/model.h"
#include "op/registry.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

extern const struct sl_op sl_op_square;

static const struct sl_op *find(struct sl_str name) {
    return sl_str_is(name, "square") ? &sl_op_square : sl_op_find(name);
}

int main(void) {
    static const char text[] = "input x : float[B, 3]\nparam w[3] ~ normal(1)\n"
                               "loss reduce_sum(square(x * w))\n";
    struct sl_model_options options = {.find_op = find, .nearest_op = sl_op_nearest};
    struct sl_graph *graph = NULL;
    if (sl_graph_model_read("t", text, strlen(text), &options, &graph) != SL_OK ||
        sl_graph_autodiff(graph) != SL_OK) {
        fprintf(stderr, "%s\n", sl_err_message());
        return 1;
    }
    struct sl_ref_run *run = sl_op_ref_open(graph, 1, 1);
    double *x = run->arrays[graph->inputs.at[0].value].f;
    const double *w = run->arrays[graph->params.at[0].value].f;
    for (int i = 0; i < 3; i++)
        x[i] = i + 1.5;
    sl_op_ref_nodes(run, 0, graph->nodes.count);
    const double *dw = run->arrays[graph->grads.at[0].value].f;
    int wrong = 0;
    for (int i = 0; i < 3; i++)
        wrong += fabs(dw[i] - 2 * w[i] * x[i] * x[i]) > 1e-12;
    sl_op_ref_close(run);
    sl_graph_close(graph);
    return wrong;
}
C
cc -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes -Wno-missing-field-initializers -Werror -D_GNU_SOURCE \
    -I"$SRC_DIR/src" -I"$SRC_DIR/include" "$work/square.c" "$work/main.c" -o "$work/run" \
    "$BUILD_DIR/libsluice_internal.a" -lxxhash -lz -lm -lpthread -ldl
"$work/run"
echo "count: 1 op of CONTRIBUTING.md"
