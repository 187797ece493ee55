#!/usr/bin/env bash
# Manual pages of all commands and formats: man(1) formats them without a warning and every option of
# the help is in them. Sabotage: the same check finds a faulty page.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
for tool in man groff; do
    command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool here" && exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/man"
export LC_ALL=C.UTF-8 MANWIDTH=200

clean() { # PAGE: formats it into $work/page.txt; false when groff has something to say
    man --warnings=w -l "$1" >"$work/page.txt" 2>"$work/said"
    [ ! -s "$work/said" ]
}
printf '.TH X 1\n.SH NAME\nx \\- y\n.NOSUCH\n' >"$work/bad.1"
clean "$work/bad.1" && fail "a macro that does not exist is not noticed"

"$SLUICE" man -o "$work/man"
commands=$("$SLUICE" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
clean "$work/man/sluice.1" || fail "sluice.1: $(cat "$work/said")"
cp "$work/page.txt" "$work/overview.txt"
for command in $commands; do
    page=$work/man/sluice-$command.1
    clean "$page" || fail "$page: $(cat "$work/said")"
    cmp -s <("$SLUICE" man "$command") "$page" || fail "'sluice man $command' is another page"
    "$SLUICE" "$command" --help | sed -n '/^options:/,$s/^  \(-[^ ]*\).*/\1/p' >"$work/options"
    while read -r option; do
        grep -q -- "^ *$option\( \|\$\)" "$work/page.txt" || fail "$page has no $option"
    done <"$work/options"
    grep -q "^ *sluice.$command(1)" "$work/overview.txt" || fail "sluice(1) does not name $command"
done
rc=0
"$SLUICE" man trian >"$work/said" 2>&1 || rc=$?
grep -q "did you mean 'train'" "$work/said" || rc=0
[ "$rc" = 2 ] || fail "unknown page: $(cat "$work/said")"

formats=0
for document in "$SRC_DIR"/docs/formats*.md; do
    awk -v name=sluice-x -v version=0 -f "$SRC_DIR/tools/md2man.awk" "$document" >"$work/x.5"
    clean "$work/x.5" || fail "$document: $(cat "$work/said")"
    grep -q "$(basename "$document" .md)|" "$SRC_DIR/cmake/SluiceManual.cmake" ||
        fail "$document has no page in cmake/SluiceManual.cmake"
    # Every heading is present.
    sed -n 's/^###* //p' "$document" | tr -d '`*' | while IFS= read -r heading; do
        grep -qF -- "$heading" "$work/page.txt" || fail "$document: no heading '$heading'"
    done
    formats=$((formats + 1))
done
echo "count: $(wc -w <<<"$commands") pages of commands, $formats of formats"
