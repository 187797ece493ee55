#!/usr/bin/env bash
# What the documents show is what the program does: `console` blocks are sessions, `model` blocks are
# models that read, and read back from their flat form.
set -euo pipefail
# shellcheck source=tests/golden/session.bash
. "$SRC_DIR/tests/golden/session.bash"
fail() { echo "FAILED: $*" && exit 1; }
blocks=$(mktemp -d)
sessions=0 models=0
for document in "$SRC_DIR"/*.md "$SRC_DIR"/docs/*.md "$SRC_DIR"/docs/*/*.md; do
    [ -f "$document" ] || continue
    rm -f "$blocks"/*
    awk -v to="$blocks" '
        /^```/ { if (kind) { close(file); kind = ""; next }
                 if ($0 == "```console" || $0 == "```model") {
                     kind = substr($0, 4); file = sprintf("%s/%03d.%s", to, NR, kind) }
                 else if ($0 != "```") kind = "other"; else kind = "plain"
                 next }
        kind == "console" || kind == "model" { print >file }' "$document"
    for block in "$blocks"/*.console; do
        [ -f "$block" ] || continue
        cp "$block" "$blocks/now.session"
        (session "$blocks/now.session" >"$blocks/diff") || {
            cat "$blocks/diff"
            fail "$document, the block before line $(basename "$block" .console)"
        }
        # A rewritten block goes back into its document.
        if [ "${SL_GOLDEN_UPDATE:-0}" = 1 ]; then
            line=$(basename "$block" .console)
            awk -v start="$((10#$line))" -v block="$blocks/now.session" '
                NR == start { print; while ((getline text < block) > 0) print text; skip = 1; next }
                skip && /^```/ { skip = 0 } !skip { print }' "$document" >"$blocks/document"
            if [ "$(grep -c '' "$blocks/document")" != "$(grep -c '' "$document")" ]; then
                cat "$blocks/document" >"$document"
                fail "$document was rewritten and its lines moved; run it again"
            fi
            cat "$blocks/document" >"$document"
        fi
        sessions=$((sessions + 1))
    done
    for block in "$blocks"/*.model; do
        [ -f "$block" ] || continue
        "$SLUICE" model "$block" --print >"$blocks/flat" || fail "$document: $(basename "$block")"
        cp "$blocks/flat" "$blocks/flat.model"
        "$SLUICE" model "$blocks/flat.model" --print | cmp - "$blocks/flat" || fail "$document: flat"
        models=$((models + 1))
    done
done
# Links lead somewhere.
links=0
for document in "$SRC_DIR"/*.md "$SRC_DIR"/docs/*.md "$SRC_DIR"/docs/*/*.md; do
    while IFS= read -r target; do
        [ -e "$(dirname "$document")/$target" ] || fail "$document: there is no $target"
        links=$((links + 1))
    done < <(grep -oE '\]\([^)#: ]+' "$document" | cut -c3- | grep -v '^http' || true)
done
[ "$links" -gt 50 ] || fail "only $links links"
rm -rf "$blocks"
if [ "$sessions" = 0 ] || [ "$models" = 0 ]; then
    fail "nothing found"
fi
echo "count: $sessions sessions, $models models and $links links of the documents"
