#!/usr/bin/env bash
# For every model: what --print writes reads back, and writing that gives the same text; the same for
# the evaluation graph; --json parses as far as a shell can tell; --dot is balanced.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
for name in $("$SLUICE" list models | awk '{ print $1 }'); do
    for mode in "" --eval; do
        # shellcheck disable=SC2086
        "$SLUICE" model "$name" $mode --print >"$work/$name.model" || fail "$name $mode"
        "$SLUICE" model "$work/$name.model" --print >"$work/again" || fail "$name $mode does not read back"
        cmp "$work/$name.model" "$work/again" || fail "$name $mode reads back as another model"
        count=$((count + 1))
    done
    "$SLUICE" model "$name" --json >"$work/json"
    for key in name parameters forward_flops backward_flops activation_bytes nodes; do
        grep -q "\"$key\": " "$work/json" || fail "$name --json has no $key"
    done
    "$SLUICE" model "$name" --dot | awk '/{$/ { open++ } /^}/ { open-- } END { exit open != 0 }' || fail "$name --dot"
done
[ "$count" -ge 54 ] || fail "only $count models"
echo "count: $count models and evaluation graphs read back"
