#!/usr/bin/env bash
# The `sh` blocks of the tutorials run in order, in one directory per document.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$SLUICE" "$work/bin/sluice"
export PATH=$work/bin:$PATH
export C_INCLUDE_PATH=$SRC_DIR/include # an installation has the headers where cc finds them
count=0
for document in "$SRC_DIR"/docs/tutorials/*.md; do
    name=$(basename "$document" .md)
    mkdir "$work/$name"
    # One script: a block may use files and background jobs of the blocks before.
    awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on' "$document" >"$work/$name.sh"
    [ -s "$work/$name.sh" ] || { echo "FAILED: $document has no commands" && exit 1; }
    (cd "$work/$name" && timeout 300 bash -euo pipefail -x "$work/$name.sh") >"$work/out" 2>&1 </dev/null || {
        tail -n 25 "$work/out"
        echo "FAILED: $document"
        exit 1
    }
    count=$((count + $(grep -c '^ *\(if \)\?sluice' "$work/$name.sh")))
done
echo "count: $count commands of the tutorials"
