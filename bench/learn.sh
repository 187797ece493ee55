#!/usr/bin/env bash
# Learning: gpt-tiny on a text against the same PyTorch model with the same initial weights and budget
# (goal: validation loss within 1 %), and lenet on MNIST (goal: 97 % of 2,000 held-out digits within two
# minutes). Prints RESULT lines; exit status 1 if a goal is missed.
#
# Usage: ./dev bench learn [--python PATH] [--data TEXT] [--mnist IMAGES] [--steps N] [--batch B]
#                          [--threads T] [--seeds N] [--only gpt|mnist]
# Without --python gpt-tiny is trained but not compared. Missing data is skipped.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
sluice=${SLUICE:-$root/build/release/sluice}
shared=$root/../shared/data
[ -d "$shared" ] || shared=$(git -C "$root" rev-parse --git-common-dir 2>/dev/null)/../../shared/data
python="" data=$shared/tinyshakespeare.txt mnist=$shared/mnist-t10k-images-idx3-ubyte.gz
steps=300 batch=16 threads=2 seeds=1 only=""
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
    --python) python=${2:?--python needs a path} && shift ;;
    --data) data=${2:?--data needs a file} && shift ;;
    --mnist) mnist=${2:?--mnist needs a file} && shift ;;
    --steps) steps=${2:?--steps needs a number} && shift ;;
    --batch) batch=${2:?--batch needs a number} && shift ;;
    --threads) threads=${2:?--threads needs a number} && shift ;;
    --seeds) seeds=${2:?--seeds needs a number} && shift ;;
    --only) only=${2:?--only needs gpt or mnist} && shift ;;
    -h | --help) usage && exit 0 ;;
    *) echo "bench learn: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missed=0

number() { # KEY: from the JSON on standard input
    sed -n "s/.*\"$1\": *\\([0-9.e+-]*\\).*/\\1/p" | head -n 1
}
seconds() { # NANOSECONDS
    awk -v ns="$1" 'BEGIN { printf "%.1f\n", ns / 1e9 }'
}
goal() { # EXPRESSION: yes or no
    awk "BEGIN { print ($1) ? \"yes\" : \"no\" }"
}

mean() { # NUMBERS on standard input
    awk '{ sum += $1 } END { if (NR) printf "%.6f\n", sum / NR; else print "none" }'
}
spread() { # (largest - smallest) / mean, in percent
    awk '{ x = $1 + 0; sum += x; if (NR == 1 || x < low) low = x; if (NR == 1 || x > high) high = x }
        END { printf "%.2f\n", NR ? 100 * NR * (high - low) / sum : 0 }'
}

# The seed determines the order of the samples. The spread is over seeds; the means are compared.
learn_gpt() {
    local windows start took seed met=none torch=none torch_spread=none loss
    windows=$((($(wc -c <"$data") - 1) / 128))
    # One step at rate 0 leaves the initial weights in a checkpoint.
    "$sluice" train gpt-tiny --data "$data" --batch 1 --steps 1 --optimizer sgd --lr 0 --out "$work/init" --quiet
    "$sluice" ckpt convert "$work/init" -o "$work/init.safetensors" --quiet
    : >"$work/ours" && : >"$work/theirs"
    start=$(date +%s%N)
    for ((seed = 1; seed <= seeds; seed++)); do
        "$sluice" train gpt-tiny --data "$data" --init "$work/init" --batch "$batch" --steps "$steps" \
            --optimizer adamw:wd=0.1 --lr 1e-3 --clip 1 --threads "$threads" --seed "$seed" \
            --eval-every "$steps" --eval-samples $((windows / 10)) --quiet --json | number eval_loss >>"$work/ours"
    done
    took=$(seconds $(($(date +%s%N) - start)))
    for ((seed = 1; seed <= seeds; seed++)); do
        [ -z "$python" ] || "$python" "$root/bench/learn.py" --init "$work/init.safetensors" --data "$data" \
            --steps "$steps" --batch "$batch" --threads "$threads" --seed "$seed" >>"$work/theirs"
    done
    loss=$(mean <"$work/ours")
    if [ -n "$python" ]; then
        torch=$(while read -r line; do number eval_loss <<<"$line"; done <"$work/theirs" | tee "$work/torch" | mean)
        torch_spread=$(spread <"$work/torch")
        met=$(goal "$loss <= 1.01 * $torch")
        [ "$met" = yes ] || missed=1
    fi
    echo "RESULT bench=learn model=gpt-tiny steps=$steps batch=$batch seeds=$seeds sluice=$loss torch=$torch" \
        "within_1_percent=$met sluice_spread_percent=$(spread <"$work/ours")" \
        "torch_spread_percent=$torch_spread seconds=$took" \
        "torch_seconds=$(while read -r line; do number seconds <<<"$line"; done <"$work/theirs" |
            awk '{ sum += $1 } END { if (NR) printf "%.1f\n", sum; else print "none" }')"
}

learn_mnist() {
    local start took accuracy met
    start=$(date +%s%N)
    "$sluice" train lenet --data "$mnist" --validation 2000 --batch 50 --steps 600 --lr 2e-3 \
        --lr-schedule cosine:warmup=20 --threads "$threads" --out "$work/lenet" --quiet
    took=$(seconds $(($(date +%s%N) - start)))
    "$sluice" eval "$work/lenet" --samples 2000 --threads "$threads" --json >"$work/lenet.json"
    accuracy=$(number accuracy <"$work/lenet.json")
    met=$(goal "$accuracy >= 0.97 && $took <= 120")
    [ "$met" = yes ] || missed=1
    echo "RESULT bench=learn model=lenet accuracy=$accuracy held_out=$(number samples <"$work/lenet.json")" \
        "seconds=$took at_least_97_percent_in_120_s=$met"
}

if [ "$only" != gpt ]; then
    if [ -f "$mnist" ]; then learn_mnist; else echo "bench learn: no $mnist; MNIST is skipped" >&2; fi
fi
if [ "$only" != mnist ]; then
    if [ -f "$data" ]; then learn_gpt; else echo "bench learn: no $data; gpt-tiny is skipped" >&2; fi
fi
exit $missed
