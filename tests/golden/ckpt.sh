#!/usr/bin/env bash
# compare and ckpt on the committed checkpoints; output, messages and exit statuses against ckpt.txt.
# SL_REGEN=1 writes ckpt.txt anew. Runs a and c hold the same tensors by one and by three writers; run
# b differs in one weight.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$SRC_DIR"/tests/golden/ckpt/run-? "$work"
cd "$work"

show() {
    local rc=0
    echo "\$ sluice $*"
    "$SLUICE" "$@" 2>&1 || rc=$?
    echo "= $rc"
}
flip() { # FILE OFFSET
    printf '\377' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
session() {
    show compare run-a run-c
    show compare run-a/ckpt run-c/ckpt/step-00000002 --json
    show compare run-a run-b
    show compare run-a run-b --weights --json
    show compare run-a/ckpt/step-00000001 run-a
    show compare run-a run-a --step 7
    show compare run-a nowhere
    show compare run-a
    show compare run-a run-b --wieghts
    show ckpt ls run-a
    show ckpt ls run-c --json
    show ckpt ls .
    show ckpt verify run-a
    show ckpt verify run-b --step 2 --json
    show ckpt verify run-b --step 5
    show ckpt convert run-a
    show ckpt convert run-c -o one.safetensors
    show ckpt convert run-a -o two.safetensors
    cmp one.safetensors two.safetensors && echo "the same file from both layouts"
    show ckpt convert run-a --state -o all.safetensors
    show ckpt convert run-a -o /nowhere/x.safetensors
    show ckpt verfy run-a
    flip run-a/ckpt/step-00000002/weights-000-of-001.safetensors 350
    show ckpt verify run-a
    show compare run-a run-c
    show ckpt convert run-a -o damaged.safetensors
    [ ! -e damaged.safetensors ] && echo "no file is left behind"
    rm run-c/ckpt/step-00000002/weights-001-of-003.safetensors
    show ckpt ls run-c
    flip run-b/ckpt/latest 3
    show ckpt verify run-b
    show compare --help
    show ckpt --help
}
session >"$work/got.txt"
if [ -n "${SL_REGEN:-}" ]; then
    cp "$work/got.txt" "$SRC_DIR/tests/golden/ckpt.txt"
fi
diff -u "$SRC_DIR/tests/golden/ckpt.txt" "$work/got.txt"
echo "count: $(grep -c '^= ' "$work/got.txt") commands"
