#!/usr/bin/env bash
# Sabotage: tools/check_names.py accepts a small clean tree and rejects each fault put into it.
set -euo pipefail
command -v python3 >/dev/null || { echo "no python3 here" && exit 77; }
checker=$(cd "$(dirname "$0")/../../tools" && pwd)/check_names.py
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
count=0

fresh() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/src/{base,graph,device/cpu,cli} "$tree/include/sluice" "$tree/tests/golden"
    printf '%s\n' 'base | | a' 'graph | base | b' 'device | base graph | c' 'cli | * | d' >"$tree/src/ROOMS"
    cat >"$tree/src/base/arena.c" <<'C'
#include "base/arena.h"
static int count;
int sl_arena_open(void) { return count; }
const char *sl_version(void) { return "1"; }
C
    printf 'struct sl_arena {\n    int x;\n};\nint sl_arena_open(void);\n' >"$tree/src/base/arena.h"
    cat >"$tree/src/graph/node.c" <<'C'
static const struct {
    int a;
} table[] = {{1}};
const struct sl_node *const sl_graph_rows[] = {0};
static int helper(int x) { return x ? table[0].a : 0; }
int sl_graph_node(int x) { return helper(x); }
C
    printf 'int sl_cpu_open(void) { return 0; }\nint sl_device_share(void) { return 0; }\n' >"$tree/src/device/cpu/cpu.c"
    printf 'int main(void) { return 0; }\n' >"$tree/src/cli/main.c"
    printf 'SL_API const char *sl_version(void);\n' >"$tree/include/sluice/version.h"
    echo sl_version >"$tree/tests/golden/symbols.txt"
}

reject() { # WHAT FILE LINE: the message names the file
    fresh
    printf '%b\n' "$3" >>"$tree/$2"
    expect "$1" "$2"
}
expect() {
    count=$((count + 1))
    if out=$("$checker" "$tree"); then echo "FAILED: not rejected: $1" && exit 1; fi
    case $out in
    *"$2:"*) ;;
    *) echo "FAILED: $1: the message does not name the file: $out" && exit 1 ;;
    esac
}

fresh
"$checker" "$tree" || { echo "FAILED: the clean tree was rejected" && exit 1; }
reject "a function without the prefix" src/graph/node.c 'int node_count(void) { return 0; }'
reject "a function of another component" src/graph/node.c 'int sl_device_count(void) { return 0; }'
reject "no component" src/graph/node.c 'struct sl_node *sl_node_open(void) { return 0; }'
reject "an object" src/graph/node.c 'const int sl_sizes[] = {1, 2};'
reject "an object without a value" src/graph/node.c 'int sl_counter;'
reject "a table of structs" src/graph/node.c 'const struct {\n    int a;\n} sl_table[] = {{1}};'
reject "a head over two lines" src/graph/node.c 'int\nsl_node_sum(int x,\n    int y) {\n    return x + y;\n}'
reject "base named after a component" src/base/arena.c 'int sl_graph_help(void) { return 0; }'
reject "base without sl_" src/base/arena.c 'int help(void) { return 0; }'
reject "a part of a component" src/device/cpu/cpu.c 'int sl_pool_open(void) { return 0; }'
reject "a tag twice" src/graph/node.h 'struct sl_arena {\n    int y;\n};'
reject "a tag twice, in two sources" src/device/cpu/cpu.c 'struct sl_arena { int y; };'
reject "an enum named after another component" src/graph/node.h 'enum sl_device_kind { A };'
reject "declared, not marked" include/sluice/version.h 'int sl_arena_open(void);'
reject "declared, not defined" include/sluice/version.h 'SL_API int sl_nothing(void);'
reject "in the list, not declared" tests/golden/symbols.txt 'sl_arena_open'
echo "count: $count faults rejected"
