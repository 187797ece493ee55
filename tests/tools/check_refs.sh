#!/usr/bin/env bash
# Sabotage: tools/check_refs.py accepts a small clean tree and rejects each dead reference put into it.
# shellcheck disable=SC2016 # back quotes are Markdown
set -euo pipefail
command -v python3 >/dev/null || { echo "no python3 here" && exit 77; }
checker=$(cd "$(dirname "$0")/../../tools" && pwd)/check_refs.py
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
count=0

fresh() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/src/{base,cli} "$tree"/{docs/design,bench,tools} "$tree"/tests/{unit/base,e2e}
    cat >"$tree/src/base/arena.c" <<'C'
/* Arenas: base/arena.h, sl_arena_open; tests/unit/<component>/test_x.c; './dev bench cpu'; unit.base.arena. */
int sl_arena_open(void) { return 0; }
C
    echo '/* See arena.c and docs/guide.md. */' >"$tree/src/base/arena.h"
    printf 'const struct sl_command sl_cli_train = {.name = "train", .options = {{"--steps"}}};\n' >"$tree/src/cli/cmd_train.c"
    printf '#!/bin/sh\n# Times e2e.resume.\n' >"$tree/bench/cpu.sh"
    touch "$tree/tests/unit/base/test_arena.c" "$tree/tests/e2e/resume.sh" "$tree/docs/design/0001-first.md"
    printf 'Usage: ./dev COMMAND\n\n  bench [NAME]  run a bench\nTEXT\n' >"$tree/dev"
    cat >"$tree/docs/guide.md" <<'MD'
# A guide
## One `code` step
See [the step](#one-code-step), [itself](guide.md#a-guide), `src/base/arena.c`, design/0001 and `./dev bench cpu`.
`sluice train --steps 3` and `--steps`; [elsewhere](https://example.org/x.md).
MD
    echo 'foreign.c # another program' >"$tree/tools/refs_foreign.txt"
    echo 'In 0.1 there was `src/old.c`.' >"$tree/CHANGELOG.md"
}

reject() { # WHAT FILE LINE
    fresh
    printf '%s\n' "$3" >>"$tree/$2"
    count=$((count + 1))
    if out=$("$checker" "$tree"); then echo "FAILED: not rejected: $1" && exit 1; fi
    case $out in
    *"$2:"*) ;;
    *) echo "FAILED: $1: the message does not name the file: $out" && exit 1 ;;
    esac
}

fresh
"$checker" "$tree" || { echo "FAILED: the clean tree was rejected" && exit 1; }
reject "a link" docs/guide.md '[x](nowhere.md)'
reject "a link of the CHANGELOG" CHANGELOG.md '[x](nowhere.md)'
reject "an anchor of this file" docs/guide.md '[x](#nowhere)'
reject "an anchor of another file" docs/design/0001-first.md '[x](../guide.md#nowhere)'
reject "a path in a document" docs/guide.md 'Read `src/base/nothing.c`.'
reject "a path in a comment" src/base/arena.c '/* tests/e2e/nothing.sh */'
reject "a path in a script" bench/cpu.sh '# see docs/nothing.md'
reject "a path in a docstring" bench/plot.py '"""Draws docs/nothing.md."""'
reject "a path of a component" src/base/arena.c '/* base/nothing.h */'
reject "a file name" src/base/arena.h '/* as in nothing.c */'
reject "a unit test" docs/guide.md 'The test unit.base.nothing checks it.'
reject "an e2e test" src/base/arena.h '/* e2e.nothing */'
reject "a bench" docs/guide.md 'Run `./dev bench nothing`.'
reject "a command of dev" docs/guide.md 'Run `./dev polish`.'
reject "a command of the program" src/base/arena.c "/* 'sluice polish' */"
reject "an option with its command" docs/guide.md 'Run `sluice train --nothing`.'
reject "an option" docs/guide.md 'The option `--nothing` helps.'
reject "a design note" docs/guide.md 'See design/0007.'
reject "a function" src/base/arena.h '/* calls sl_arena_shut */'
reject "papers.md" src/base/arena.c '/* papers.md, section 3 */'
echo "count: $count dead references rejected"
