#!/usr/bin/env bash
# Sabotage: tools/check_rows.py accepts a small clean tree and rejects each comparison put into it.
set -euo pipefail
command -v python3 >/dev/null || { echo "no python3 here" && exit 77; }
checker=$(cd "$(dirname "$0")/../../tools" && pwd)/check_rows.py
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
count=0

fresh() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/src/{schedules,optim,op,run}
    cat >"$tree/src/schedules/zb.c" <<'C'
const struct sl_schedule sl_schedules_zb_h1 = {
    .brief = "a",
    .name = "zb-h1",
};
const struct sl_schedule sl_schedules_zb_v = {.name = "zb-v"};
static int own(const char *x) { return strcmp(x, "zb-v"); }
C
    cat >"$tree/src/schedules/async.c" <<'C'
#define ROW(symbol, text, brief) \
    const struct sl_schedule sl_schedules_##symbol = {.name = text}
ROW(2bw, "2bw", "no flush");
C
    cat >"$tree/src/schedules/registry.c" <<'C'
const struct sl_schedule *const rows[] = {&sl_schedules_zb_h1};
static int find(const char *x) { return strncmp(x, "zb-", 3); }
C
    printf 'const struct sl_optimizer sl_optim_muon = {.name = "muon"};\n' >"$tree/src/optim/muon.c"
    printf 'const struct sl_policy sl_optim_none = {.name = "none"};\n' >"$tree/src/optim/none.c"
    printf 'const struct sl_op sl_op_matmul = {.name = "matmul"};\n' >"$tree/src/op/matmul.c"
    cat >"$tree/src/run/run.c" <<'C'
/* strcmp(x, "muon") */
static int f(const char *x) { return strcmp(x, "other") || !find_schedule("zb-v"); }
static int g(const char *x) { return strcmp(x, "none"); } /* not an entry: a word of the model language */
C
}

reject() { # WHAT LINE
    fresh
    printf '%s\n' "$2" >>"$tree/src/run/run.c"
    count=$((count + 1))
    if out=$("$checker" "$tree"); then echo "FAILED: not rejected: $1" && exit 1; fi
    case $out in
    *"src/run/run.c:"*) ;;
    *) echo "FAILED: $1: the message does not name the file: $out" && exit 1 ;;
    esac
}

fresh
"$checker" "$tree" || { echo "FAILED: the clean tree was rejected" && exit 1; }
reject "a schedule" 'int a(const char *x) { return strcmp(x, "zb-h1"); }'
reject "a schedule of a macro" 'int a(const char *x) { return strcmp(x, "2bw"); }'
reject "a prefix" 'int a(const char *x) { return strncmp(x, "zb-", 3); }'
reject "an optimizer" 'int a(struct sl_str x) { return sl_str_is(x, "muon"); }'
reject "an op" 'int a(const struct sl_op *op) { return memcmp(op->name, "matmul", 6); }'
reject "a policy" 'int a(const char *x) { return strstr(x, "none") != 0; }'
reject "over two lines" "$(printf 'int a(const char *x) {\n    return strcmp(x,\n                  "zb-v");\n}')"
reject "a table of names" 'static const struct { const char *name, *to; } map[] = {{"zb-v", "ZBV"}};'
echo "count: $count comparisons rejected"
