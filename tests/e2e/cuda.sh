#!/usr/bin/env bash
# Training on a GPU against training on the CPU: ten steps of small models, fp32 within 1e-4 and bf16
# within 2 % of the loss; the same bytes twice; synchronous pipelines with the bytes of one stage.
# Skipped without a GPU.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2 && exit 1; }
"$SLUICE" list devices | grep '^  cuda ' | grep -vq '(not here' || exit 77
# shellcheck source=tests/support/small_models.sh
. "$SRC_DIR/tests/support/small_models.sh"

near_the_cpu "fp32:1e-4 tf32:2e-3 bf16:2e-2" --device cuda
for dtype in fp32 bf16; do
    same_bytes $dtype --device cuda
done
echo "ok"
