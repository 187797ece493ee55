#!/usr/bin/env bash
# Do two builds train to the same bits? Trains 40 configurations (models x schedules x policies x transports) with
# both and compares all tensors of the last checkpoint and all losses of log.jsonl.
#
#   ./dev bench same OLD NEW [REGEX]      OLD, NEW: programs. REGEX: only configurations whose name matches
#
# A configuration whose name ends in -resume is stopped by OLD half-way; then both continue copies of that run
# directory. Afterwards NEW reads what OLD wrote: runs (report, eval, ckpt verify), plan, schedule, cost file.
# OLD and NEW must support the options below; old names of options are used where they changed.
#
#   RESULT bench=same case=NAME tensors=same|DIFFER losses=same|DIFFER
#   RESULT bench=same configurations=N different=N files=N unreadable=N
set -euo pipefail
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | grep -v '^set '; }
if [ $# -lt 2 ] || [ ! -x "$1" ] || [ ! -x "$2" ]; then
    usage >&2
    exit 2
fi
old=$(realpath "$1") new=$(realpath "$2") only=${3:-.}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d -p "${SL_BENCH_DIR:-${TMPDIR:-/tmp}}" same.XXXXXX)
trap 'rm -rf "$work"' EXIT
gpt="gpt-nano --set V=37,T=13,P=17,L=4,C=24,H=3,drop=0.1 --batch 16 --micro 8"
llama="llama --set V=61,T=12,L=3,C=32,H=4,K=2,F=48 --batch 4 --micro 4"
residual="residual-lstm --set V=53,T=9,L=3,C=24 --batch 6"
# Four stages on as many workers; two chunks for each of two workers.
four="--stages 4 --schedule" two="--stages 4 --workers 2 --schedule"

# NAME|TRANSPORT AND NUMBER OF RANKS|MODEL AND OPTIONS
configurations() {
    cat <<TEXT
one-gpt-adamw|threads|$gpt
one-gpt-2-threads-resume|threads|$gpt --threads 2
one-mlp-sgd|threads|mlp --batch 12 --micro 3 --optimizer sgd
one-lenet-momentum|threads|lenet --batch 8 --optimizer momentum --lr-schedule cosine:warmup=2
one-resnet-nesterov|threads|resnet18 --set cifar=1,classes=10 --batch 2 --optimizer nesterov
one-lstm-lion|threads|$residual --optimizer lion
one-llama-muon-resume|threads|$llama --optimizer muon
one-unet-adam|threads|u-net --set S=16,L=2,W=4 --batch 2 --optimizer adam
one-classifier-nadam|threads|transformer-classifier --set V=41,T=8,L=2,C=24,H=3,F=32 --batch 4 --optimizer nadam
one-gpt-bf16|threads|$gpt --dtype bf16
one-gpt-recompute-scaled|threads|$gpt --recompute --loss-scale dynamic:start=1024,every=3
gpipe|threads|$gpt $four gpipe
1f1b-resume|threads|$gpt $four 1f1b --eval-every 2 --eval-samples 8
1f1b-replicas|threads|$gpt --stages 2 --replicas 2 --schedule 1f1b
1f1b-plan|threads|$gpt --plan $work/branch.plan
kfkb-lstm|threads|$residual --micro 6 --stages 2 --schedule kfkb
interleaved|threads|$gpt $two interleaved
zb-h1-llama|threads|$llama --stages 3 --schedule zb-h1
zb-h2|threads|$gpt $four zb-h2 --lend
zb-v|threads|$gpt $two zb-v
dualpipe-v|threads|$gpt $two dualpipe-v
chimera|threads|$gpt --stages 4 --workers 4 --schedule chimera
graph-uno|threads|candle-uno --set branches=3,L=2,W=16 --batch 8 --micro 4 --stages 4 --cut branches --schedule graph
zb-graph-mmt|threads|mmt --set branches=2,T=6,L=1,C=16,H=2,F=24 --batch 4 --micro 4 --stages 3 --cut branches --schedule zb-graph
2bw-resume|threads|$gpt $four 2bw
2bw-muon|threads|$llama --stages 3 --schedule 2bw --optimizer muon
stash-resume|threads|$gpt $four stash
vsync|threads|$gpt $four vsync
async|threads|$gpt $four async --verdict stage --clip 0
paci|threads|$gpt $four paci
2bw-predict|threads|$gpt $four 2bw --policy 2bw-predict
2bw-error-feedback|threads|$gpt $four 2bw --policy error-feedback
stash-lr-rescale|threads|$gpt $four stash --policy lr-rescale
stash-nesterov-async|threads|$gpt $four stash --policy nesterov-async --optimizer nadam
async-pipemare|threads|$gpt $four async --policy pipemare
async-spectrain-xpipe|threads|$gpt $four async --policy spectrain
tcp-1f1b|tcp 2|$gpt --stages 2 --schedule 1f1b
tcp-2bw-pipeoptim|tcp 2|$gpt --stages 2 --schedule async --policy pipeoptim
mpi-zb-h1|mpi 2|$gpt --stages 2 --schedule zb-h1
mpi-2bw-resume|mpi 2|$gpt --stages 2 --schedule 2bw
TEXT
}

# train PROGRAM TRANSPORT RUN STEPS OPTIONS...
train() {
    local program=$1 transport=$2 run=$3 steps=$4 start=()
    shift 4
    case $transport in
    tcp*) start=("$program" launch -n "${transport#* }" --program "$program" --) ;;
    mpi*) start=(mpirun --allow-run-as-root --oversubscribe -n "${transport#* }" "$program") ;;
    *) start=("$program") ;;
    esac
    "${start[@]}" train "$@" --models "$root/models" --seed 7 --steps "$steps" --checkpoint-every 0 --keep 0 \
        --quiet --out "$run" >"$work/out" 2>&1 </dev/null || {
        tail -n 3 "$work/out" >&2
        return 1
    }
}

losses() { grep -oE '"(step|loss|eval_loss)": *[-+0-9.e]+' "$1/log.jsonl" || true; }

# Plans, schedules and cost files of OLD.
"$old" plan gpt-nano --set V=37,T=13,P=17,L=4,C=24,H=3,drop=0.1 --models "$root/models" --machine laptop \
    --batch 16 --schedule 1f1b --straight --quiet -o "$work/branch.plan" >"$work/out"
count=0 different=0
while IFS='|' read -r name transport text; do
    [[ $name =~ $only ]] || continue
    case $transport in mpi*) command -v mpirun >/dev/null || { echo "# no mpirun: $name is skipped" && continue; } ;; esac
    read -ra options <<<"$text"
    rm -rf "$work/old" "$work/new" "$work/half"
    tensors=same lost=same count=$((count + 1))
    case $name in
    *-resume)
        train "$old" "$transport" "$work/half" 3 "${options[@]}"
        cp -a "$work/half" "$work/old"
        cp -a "$work/half" "$work/new"
        options+=(--resume)
        ;;
    esac
    train "$old" "$transport" "$work/old" 6 "${options[@]}" || tensors="DIFFER # the old program failed"
    train "$new" "$transport" "$work/new" 6 "${options[@]}" || tensors="DIFFER # the new program failed"
    "$new" compare "$work/old" "$work/new" >"$work/compare" 2>&1 || tensors=DIFFER
    losses "$work/old" >"$work/old.losses"
    losses "$work/new" >"$work/new.losses"
    [ -s "$work/old.losses" ] && cmp -s "$work/old.losses" "$work/new.losses" || lost=DIFFER
    echo "RESULT bench=same case=$name tensors=$tensors losses=$lost"
    if [ "$tensors $lost" != "same same" ]; then
        different=$((different + 1))
        sed 's/^/# /' "$work/compare"
        diff "$work/old.losses" "$work/new.losses" | head -n 6 | sed 's/^/# /' || true
    fi
    rm -rf "$work/kept-$name"
    case $name in one-gpt-adamw | 1f1b-resume | 2bw-resume) mv "$work/old" "$work/kept-$name" ;; esac
done < <(configurations)

files=0 unreadable=0
reads() { # WHAT COMMAND...
    local what=$1
    shift
    files=$((files + 1))
    if ! "$@" >"$work/out" 2>&1; then
        unreadable=$((unreadable + 1))
        echo "RESULT bench=same file=$what unreadable"
        sed 's/^/# /' "$work/out" | tail -n 3
    fi
}
for run in "$work"/kept-*; do
    [ -d "$run" ] || continue
    reads "${run##*/}" "$new" report "$run" -o "$work/page.html"
    reads "${run##*/}" "$new" eval "$run" --samples 8
    reads "${run##*/}" "$new" ckpt verify "$run"
    reads "${run##*/}" "$new" train --resume --out "$run" --models "$root/models" --steps 8 --quiet
done
cd "$work"
"$old" sched --chain 4 --schedule zb-h1 --micro 8 -o zb.sched >out
"$old" sched --chain 4 --schedule 1f1b --micro 8 -o 1f1b.csv >out
"$old" sched --dag 'a>b,a>c,b>d,c>d' --schedule 2bw --micro 4 --iters 5 -o dag.sched >out
"$old" profile mlp --models "$root/models" --micro-batch 1,2 --rounds 2 -o mlp.cost >out
"$old" machine show summit --text >summit.machine
for file in zb.sched 1f1b.csv dag.sched; do
    reads $file "$new" verify $file
done
reads branch.plan "$new" sched branch.plan --json
reads branch.plan "$new" export branch.plan --to json
reads mlp.cost "$new" plan mlp --models "$root/models" --cost mlp.cost --machine laptop --batch 4 --json
reads mlp.cost "$new" train mlp --models "$root/models" --stages 2 --batch 2 --micro 2 --steps 2 --cost mlp.cost
reads summit.machine "$new" machine check summit.machine
echo "RESULT bench=same configurations=$count different=$different files=$files unreadable=$unreadable"
[ $((different + unreadable)) -eq 0 ]
