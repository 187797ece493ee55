#!/usr/bin/env bash
# tools/draw_comments.py: one seed draws one list; another seed draws another; every comment is in its file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
draw=$here/../../tools/draw_comments.py
git -C "$here" rev-parse --git-dir >/dev/null 2>&1 || { echo "skipped: no git checkout" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$draw" seed 20 src/base >"$work/a"
"$draw" seed 20 src/base >"$work/b"
"$draw" other 20 src/base >"$work/c"
cmp "$work/a" "$work/b"
if cmp -s "$work/a" "$work/c"; then
    echo "FAILED: both seeds draw the same" && exit 1
fi
count=0
while IFS=: read -r file line; do
    sed -n "${line}p" "$here/../../$file" | grep -q '/\*\|#' || { echo "FAILED: no comment at $file:$line" && exit 1; }
    count=$((count + 1))
done < <(grep -E '^src/base/[a-z0-9_/]+\.[ch]:[0-9]+$' "$work/a")
[ "$count" = 20 ] || { echo "FAILED: $count comments" && exit 1; }
echo "count: $count comments drawn"
