#!/usr/bin/env bash
# Sabotage: tools/check_rooms.sh accepts a small clean tree and rejects each violation put into it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
checker=$here/../../tools/check_rooms.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
count=0

fresh() {
    rm -rf "$tree/src"
    mkdir -p "$tree"/src/{base,graph,comm,device/cuda,run,pipe,ckpt,cli}
    printf '%s\n' '# room | may include | what' 'base | | a' 'graph | base | b' 'device | base | c' \
        'comm | base device | d' 'ckpt | base | g' 'run | base comm ckpt | e' 'pipe | base run | h' \
        'cli | * | f' >"$tree/src/ROOMS"
    printf '#include "base/a.h"\n#include <stdio.h>\n' >"$tree/src/base/a.c"
    printf '#include <pthread.h>\n#include <stdatomic.h>\n' >"$tree/src/base/par.c"
    for room in comm device run pipe ckpt; do
        printf '#include <pthread.h>\n#include <stdatomic.h>\n' >"$tree/src/$room/threads_ok.c"
    done
    printf 'void a(void) { fprintf(stderr, "x"); }\n' >"$tree/src/base/log.c"
    printf '#include "base/a.h"\n#include "graph/b.h"\n/* getenv(x) exit(1)\n#include "run/x.h"\n*/\n' >"$tree/src/graph/b.c"
    printf 'const char *s = "exit(1) stderr"; // exit(2)\nint my_exit(int x);\n' >>"$tree/src/graph/b.c"
    printf '#include <mpi.h>\n' >"$tree/src/comm/mpi_open.c"
    printf '#include <cuda_runtime.h>\n' >"$tree/src/device/cuda/a.cu"
    printf '#include "graph/b.h"\n#include "sluice.h"\nint x(void) { getenv("A"); exit(1); }\n' >"$tree/src/cli/c.c"
}

reject() { # WHAT FILE LINE
    fresh
    printf '%b\n' "$3" >>"$tree/src/$2"
    count=$((count + 1))
    if out=$("$checker" "$tree"); then
        echo "FAILED: not rejected: $1"
        exit 1
    fi
    case $out in
    *"src/$2:"*) ;;
    *) echo "FAILED: $1: the message does not name the file: $out" && exit 1 ;;
    esac
}

fresh
"$checker" "$tree" || { echo "FAILED: the clean tree was rejected" && exit 1; }

# A page of architecture has the same rows.
mkdir "$tree/docs"
awk -F ' *[|] *' '!/^#/ { print "| " $1 " | " ($2 == "*" ? "all" : $2) " | " $3 " |" }' "$tree/src/ROOMS" >"$tree/docs/ARCHITECTURE.md"
"$checker" "$tree" || { echo "FAILED: the page with the same rows was rejected" && exit 1; }
sed -i 's/| ckpt | base |/| ckpt | base comm |/' "$tree/docs/ARCHITECTURE.md"
"$checker" "$tree" >/dev/null && echo "FAILED: not rejected: a page with another row" && exit 1
rm -r "$tree/docs"
count=$((count + 1))

reject "a room above" base/a.c '#include "graph/b.h"'
reject "run below ckpt" ckpt/w.c '#include "run/x.h"'
reject "pipe below run" run/w.c '#include "pipe/x.h"'
reject "a room aside" graph/b.c '#include "comm/x.h"'
reject "spaces in the directive" graph/b.c '  #  include   "comm/x.h"'
reject "a header too" graph/b.h '#include "run/x.h"'
reject "a subfolder too" device/cuda/k.c '#include "comm/x.h"'
reject "no room" graph/b.c '#include "b.h"'
reject "an unknown room" graph/b.c '#include "nowhere/b.h"'
reject "a relative path" graph/b.c '#include "../run/x.h"'
reject "the umbrella header below cli" graph/b.c '#include "sluice.h"'
reject "a public header of another room" graph/b.c '#include "sluice/comm.h"'
reject "mpi outside comm/mpi" comm/threads.c '#include <mpi.h>'
reject "cuda outside device/cuda" run/w.c '#include <cuda_runtime.h>'
reject "a .cu outside device/cuda" graph/k.cu 'int x;'
reject "threads on the desk" graph/b.c '#include <pthread.h>'
reject "atomics on the desk" base/a.c '#include <stdatomic.h>'
reject "getenv" run/w.c 'char *e(void) { return getenv("X"); }'
reject "exit" run/w.c 'void e(void) { exit(1); }'
reject "exit after a comment" run/w.c '/* a */ void e(void) { exit (1); } /* b'
reject "exit after a string" run/w.c 'char *s = "\\""; void e(void) { _exit(1); }'
reject "stderr" graph/b.c 'void e(void) { fputs("x", stderr); }'
reject "perror" graph/b.c 'void e(void) { perror("x"); }'
reject "assert" graph/b.c 'void e(void) { assert(0); }'

fresh
mkdir "$tree/src/secret" && echo 'int x;' >"$tree/src/secret/s.c"
if "$checker" "$tree" >/dev/null; then echo "FAILED: an unlisted room was accepted" && exit 1; fi
fresh
sed -i 's/^graph | base/graph | base run/' "$tree/src/ROOMS"
if "$checker" "$tree" >/dev/null; then echo "FAILED: a cyclic table was accepted" && exit 1; fi
echo "count: $((count + 2)) violations rejected"
