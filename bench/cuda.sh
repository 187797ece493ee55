#!/usr/bin/env bash
# Training steps on one GPU against compiled PyTorch: the same model, batch, optimizer and clipping.
# Prints the time of every kernel and RESULT lines; step_ms is the median of 15 steps:
#
#   bench=step model= batch= dtype=bf16 step_ms= ... gib=     sluice (gib: what the worker planned)
#   bench=cuda who=torch_compile ...                          PyTorch, when --python is given
#   bench=cuda model= batch= ratio=                           PyTorch's time over ours
#
# Usage: ./dev bench cuda [--python PATH] [--cases "gpt2:16 gpt2:32 ..."] [--dtype bf16] [--table]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bench=${SL_BENCH_STEP:-$root/build/release/bench/step}
models=${SL_BENCH_MODELS:-$root/models}
python="" cases="gpt2:16 gpt2:32 gpt2:64 gpt2-355m:32" dtype=bf16 filter=RESULT
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
    --python) python=${2:?--python needs a path} && shift ;;
    --cases) cases=${2:?--cases needs MODEL:BATCH ...} && shift ;;
    --dtype) dtype=${2:?--dtype needs a name} && shift ;;
    --table) filter="RESULT\|KERNEL" ;;
    -h | --help) usage && exit 0 ;;
    *) echo "bench cuda: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done

field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }

for case in $cases; do
    model=${case%:*} batch=${case#*:}
    if ! out=$("$bench" "$models/$model.model" V=50304 "$batch" "$dtype"); then
        echo "$out"
        exit 77
    fi
    grep "$filter" <<<"$out"
    [ -n "$python" ] || continue
    other=$("$python" "$root/bench/cuda_torch.py" "$model" "$batch" | grep RESULT)
    echo "$other"
    ours=$(grep RESULT <<<"$out" | field step_ms) theirs=$(field step_ms <<<"$other")
    echo "RESULT bench=cuda model=$model batch=$batch ratio=$(awk "BEGIN { print $theirs / $ours }")"
done
