#!/usr/bin/env bash
# Training steps on one GPU against compiled PyTorch: the same model, batch, optimizer and clipping.
# Interleaved: three rounds of 15 steps each, ours in a new process, PyTorch compiled once.
# Prints RESULT lines:
#
#   bench=step model= batch= dtype=bf16 step_ms= ... gib=     sluice, per round (gib: memory used)
#   bench=cuda who=torch_compile ...                          PyTorch, per round, when --python is given
#   bench=cuda model= batch= ratio= ours_ms= torch_ms= ours_gib= torch_gib=
#                                           medians of the rounds; ratio: PyTorch's time over ours
#
# Usage: ./dev bench cuda [--python PATH] [--cases "gpt2:16 resnet50:256 ..."] [--dtype bf16|fp16|tf32|fp32] [--rounds 3] [--table]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bench=${SL_BENCH_STEP:-$root/build/release/bench/step}
models=${SL_BENCH_MODELS:-$root/models}
python="" dtype=bf16 filter=RESULT rounds=3
cases="gpt2:64 gpt2-355m:32 gpt2-774m:16 tinyllama:8 qwen2-0.5b:8 llama3-8b-l8:4 resnet50:256 bert-large:32 mmt:64"
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d'; }
while [ $# -gt 0 ]; do
    case $1 in
    --python) python=${2:?--python needs a path} && shift ;;
    --cases) cases=${2:?--cases needs MODEL:BATCH ...} && shift ;;
    --dtype) dtype=${2:?--dtype needs a name} && shift ;;
    --rounds) rounds=${2:?--rounds needs a number} && shift ;;
    --table) filter="RESULT\|KERNEL" ;;
    -h | --help) usage && exit 0 ;;
    *) echo "bench cuda: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done

model_of() { # the model of a case: shapes without a file of their own are llama's
    case $1 in
    llama3-* | qwen2-*) echo llama ;;
    *) echo "$1" ;;
    esac
}
sets_of() { # the sizes in which the opponent has the model
    case $1 in
    gpt2*) echo V=50304 ;;
    bert-*) echo T=512 ;;
    llama3-8b-l8) echo L=8 ;;
    qwen2-0.5b) echo V=151936,L=24,C=896,H=14,K=2,F=4864,base=1000000.0,tied=1 ;;
    *) echo "" ;;
    esac
}
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }
median() { sort -g | sed -n "$(((rounds + 1) / 2))p"; }

ours() { # MODEL BATCH: one round
    local out
    if ! out=$("$bench" "$models/$(model_of "$1").model" "$(sets_of "$1")" "$2" "$dtype"); then
        echo "$out" >&2
        exit 77
    fi
    grep "$filter" <<<"$out"
}

for case in $cases; do
    model=${case%:*} batch=${case#*:} mine="" theirs=""
    if [ -z "$python" ]; then
        ours "$model" "$batch"
        continue
    fi
    coproc torch { exec "$python" "$root/bench/cuda_torch.py" "$model" "$batch" --rounds "$rounds" --dtype "$dtype" 2>&1; }
    for _ in $(seq "$rounds"); do
        while read -r line <&"${torch[0]}" && [ "$line" != READY ]; do echo "$line" >&2; done
        round=$(ours "$model" "$batch")
        echo "$round"
        echo go >&"${torch[1]}"
        while read -r line <&"${torch[0]}" && [[ $line != RESULT* ]]; do echo "$line" >&2; done
        echo "$line"
        mine+=$(grep RESULT <<<"$round")$'\n' theirs+=$line$'\n'
    done
    # shellcheck disable=SC2154 # of the coproc
    wait "$torch_PID" || true
    a=$(field step_ms <<<"$mine" | median) b=$(field step_ms <<<"$theirs" | median)
    echo "RESULT bench=cuda model=$model batch=$batch ratio=$(awk "BEGIN { printf \"%.3f\", $b / $a }")" \
        "ours_ms=$a torch_ms=$b ours_gib=$(field gib <<<"$mine" | median) torch_gib=$(field gib <<<"$theirs" | median)"
done
