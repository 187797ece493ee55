#!/usr/bin/env bash
# bf16 activations on the CPU: loss within 2 % of fp32 after ten steps; two runs are bit-identical;
# synchronous pipelines equal one stage.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2 && exit 1; }
# shellcheck source=tests/support/small_models.sh
. "$SRC_DIR/tests/support/small_models.sh"

near_the_cpu "bf16:2e-2"
same_bytes bf16
[ "$(weights fp32 fp32)" != "$(weights one bf16)" ] || fail "bf16 trained the bytes of fp32"
# Replicas are compared with a reference in the dtype of the run.
"$SLUICE" check gpt-tiny --models "$SRC_DIR/models" --set V=64,T=16,P=16,L=2,C=32,H=2 --dtype bf16 --stages 2 \
    --replicas 2 --batch 8 --micro 4 --steps 3 >"$work/out" 2>&1 || fail "replicas: $(cat "$work/out")"
echo "ok"
