#!/usr/bin/env bash
# Traces of PyTorch's profiler become a timeline that `report` draws with its critical path: recorded
# ones of two ranks on gloo, fresh ones where PyTorch is installed, and DeepSeek's published trace of
# DualPipe where SL_DEEPSEEK_TRACE names it (train.json of deepseek-ai/profile-data).
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "import_trace: $*" >&2
    exit 1
}
fixtures=$SRC_DIR/tests/fixtures/kineto
"$SLUICE" import trace "$fixtures/rank-0.json" "$fixtures/rank-1.json" -o "$dir/run.trace.json" >"$dir/out" || fail "import"
grep -q '^critical path: passes .*, messages .*, waiting' "$dir/out" || fail "$(cat "$dir/out")"
# Sixteen passes on each rank: 2 stages x 4 micro-batches x F and B.
[ "$(grep -o '"cat": "[FB]"' "$dir/run.trace.json" | wc -l)" = 32 ] || fail "passes"
[ "$(grep -o '"cat": "SEND"' "$dir/run.trace.json" | wc -l)" = 24 ] || fail "messages"
"$SLUICE" report "$dir/run.trace.json" -o "$dir/run.html" -o "$dir/run.svg" || fail "report"
grep -q '"critical"' "$dir/run.html" || fail "no critical path on the page"
# A trace has no bytes, so the page shows none.
grep -q '"sketch": true' "$dir/run.trace.json" || fail "bytes"
# The order of the files does not matter.
"$SLUICE" import trace "$fixtures/rank-1.json" "$fixtures/rank-0.json" -o "$dir/swapped.trace.json" >/dev/null || fail "swapped"
sed 's/"title": "[^"]*"//' "$dir/run.trace.json" >"$dir/a"
sed 's/"title": "[^"]*"//' "$dir/swapped.trace.json" >"$dir/b"
cmp -s "$dir/a" "$dir/b" || fail "another order of the files"
# What is no trace, and what is no import, are refused.
rc=0
"$SLUICE" import trace "$SRC_DIR/README.md" 2>"$dir/why" || rc=$?
[ $rc = 3 ] || fail "a text: exit $rc"
rc=0
"$SLUICE" import piper "$fixtures/rank-0.json" -o "$dir/x.json" 2>"$dir/why" || rc=$?
[ $rc = 2 ] || fail "-o of piper: exit $rc"

python=${SL_PYTHON:-python3}
if [ "${SL_PRESET:-release}" = release ] && "$python" -c 'import torch.distributed.pipelining' 2>/dev/null; then
    "$python" "$SRC_DIR/tests/fixtures/make_kineto.py" "$dir/gpipe" gpipe 2 1 4 >/dev/null 2>&1 || fail "PyTorch's pipeline"
    "$SLUICE" import trace "$dir"/gpipe/rank-*.json -o "$dir/gpipe.trace.json" >"$dir/out" || fail "gpipe"
    [ "$(grep -o '"cat": "[FB]"' "$dir/gpipe.trace.json" | wc -l)" = 16 ] || fail "passes of gpipe"
    echo "count: 2 ranks of $("$python" -c 'import torch; print("torch", torch.__version__)') traced and imported"
fi
if [ -n "${SL_DEEPSEEK_TRACE:-}" ]; then
    "$SLUICE" import trace "$SL_DEEPSEEK_TRACE" -o "$dir/dualpipe.trace.json" >"$dir/out" || fail "DeepSeek's trace"
    "$SLUICE" report "$dir/dualpipe.trace.json" -o "$dir/dualpipe.html" || fail "report of DeepSeek's trace"
    # Three streams; F, B and W of attention and MLP alternate on the first one.
    [ "$(sed -n 's/.*"workers": \([0-9]*\).*/\1/p' "$dir/dualpipe.trace.json")" = 3 ] || fail "streams"
    for kind in F B W; do
        grep -q "\"cat\": \"$kind\"" "$dir/dualpipe.trace.json" || fail "no $kind"
    done
    echo "count: 1 published trace of DualPipe imported"
fi
