#!/usr/bin/env bash
# Sabotage: the configurations of clang-format, clang-tidy and cppcheck find planted bugs and
# accept clean code. Skipped if the linters are not installed.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
for tool in clang-format clang-tidy cppcheck; do
    command -v "$tool" >/dev/null || { echo "no $tool here" && exit 77; }
done
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/src"
cp "$root/.clang-format" "$root/.clang-tidy" "$tree/"
count=0

format() { clang-format --dry-run -Werror --style=file "$1" 2>/dev/null; }
tidy() { clang-tidy --quiet "$1" -- -std=c11 >"$tree/out" 2>/dev/null; }
check() {
    cppcheck --quiet --std=c11 --enable=warning,performance,portability --error-exitcode=1 \
        --suppressions-list="$root/tools/cppcheck.txt" "$1" 2>"$tree/out"
}

judge() { # ok|bad TOOL WHAT; the file on stdin
    cat >"$tree/src/a.c"
    count=$((count + 1))
    local got=ok
    "$2" "$tree/src/a.c" || got=bad
    [ "$got" = "$1" ] || { echo "FAILED: $2: $3: expected $1" && cat "$tree/out" && exit 1; }
}

clean='#include <stdlib.h>

int f(int n);

int f(int n) {
    int *p = malloc(sizeof(*p));
    if (p == NULL)
        return 0;
    *p = n;
    n = *p;
    free(p);
    return n;
}'
: >"$tree/out"
for tool in format tidy check; do
    judge ok "$tool" "clean code" <<<"$clean"
done
judge bad format "indentation" <<<"${clean/    free/  free}"
judge bad tidy "use after free" <<<"${clean/return n;/return *p;}"
judge bad tidy "a sizeof of sizeof" <<<"${clean/sizeof(\*p)/sizeof(sizeof(*p))}"
judge bad check "memory leak" <<<"${clean/    free(p);$'\n'/}"

# The cache of tidy: a passed file does not pass another file, nor a later version of itself.
mkdir -p "$tree/build/release" "$tree/src/base"
cp -r "$root/tools" "$tree/"
buggy=${clean/return n;/return *p;}
for name in a b; do
    echo "$clean" >"$tree/src/base/$name.c"
    printf '  "command": "cc %s -std=c11 -o %s.o -c %s/src/base/%s.c",\n  "file": "%s/src/base/%s.c"\n' \
        -Wno-maybe-uninitialized "$name" "$tree" "$name" "$tree" "$name"
done >"$tree/entries"
{
    echo '['
    echo '{'
    sed -n 1,2p "$tree/entries" | sed "1i\\  \"directory\": \"$tree/build/release\","
    echo '},'
    echo '{'
    sed -n 3,4p "$tree/entries" | sed "1i\\  \"directory\": \"$tree/build/release\","
    echo '}'
    echo ']'
} >"$tree/build/release/compile_commands.json"

lint_tree() { # ok|bad WHAT
    local got=ok
    "$tree/tools/lint.sh" tidy >"$tree/out" 2>&1 || got=bad
    count=$((count + 1))
    [ "$got" = "$1" ] || { echo "FAILED: tidy cache: $2: expected $1" && cat "$tree/out" && exit 1; }
}
lint_tree ok "two clean files"
lint_tree ok "from the cache"
echo "$buggy" >"$tree/src/base/b.c"
lint_tree bad "a bug put into a file that was clean"
lint_tree bad "the bug is still there"
echo "$clean" >"$tree/src/base/b.c"
lint_tree ok "the bug is gone"
echo "count: $count files judged"
