#!/usr/bin/env bash
# Every command of the README's `sh` blocks runs, in order, in one directory; so does the demo, short.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/run"
ln -s "$SLUICE" "$work/bin/sluice"
commands=$(awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on' "$SRC_DIR/README.md")
[ -n "$commands" ] || { echo "FAILED: the README has no commands" && exit 1; }
count=0
while IFS= read -r command; do
    [ -n "$command" ] || continue
    (cd "$work/run" && PATH="$work/bin:$PATH" bash -c "$command") >"$work/out" 2>&1 || {
        cat "$work/out"
        echo "FAILED: $command"
        exit 1
    }
    count=$((count + 1))
done <<<"$commands"
(cd "$SRC_DIR" && SLUICE=$SLUICE bash tools/demo.sh --steps 6 --out "$work/demo") >"$work/out" 2>&1 || {
    tail -20 "$work/out"
    echo "FAILED: the demo"
    exit 1
}
sed -n '/^Written:/,$s/^  \([^ :]*\).*/\1/p' "$work/out" | while IFS= read -r file; do
    [ -s "$file" ] || { echo "FAILED: the demo names $file, which is not there" && exit 1; }
done
# The demo prints every file that it wrote.
(cd "$work/demo" && find . -type f | sed 's|^\./||') | while IFS= read -r file; do
    if [ "${file%%/*}" = "$file" ]; then
        named=$(grep -cxF "  $work/demo/$file" "$work/out" || true)
    else
        named=$(grep -F "  $work/demo/${file%%/*}/: " "$work/out" | tr ' ' '\n' | grep -cxF "${file#*/}" || true)
    fi
    [ "$named" = 1 ] || { echo "FAILED: the demo does not name $file" && exit 1; }
done
[ -s "$work/demo/demo.html" ] || { echo "FAILED: the demo leaves no demo.html" && exit 1; }
grep -q '^equal: ' "$work/out" || { echo "FAILED: the demo's pipeline differs from one worker" && exit 1; }
echo "count: $count commands of the README, and the demo"
