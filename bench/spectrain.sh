#!/usr/bin/env bash
# SpecTrain as published against synchronous training: lenet on MNIST, momentum SGD, a step after every
# micro-batch, no clipping; the same initial weights, samples and steps for one seed. Prints accuracies of
# 1,000 held-out digits and their paired difference with a 95 % interval.
# Usage: ./dev bench spectrain [--seeds N] [--stages "P ..."] [--write]
#   --write   write docs/results/spectrain.md
# The rate is 0.02; at 0.005 deeper pipelines are stable, too.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
sluice=${SLUICE:-$root/build/release/sluice}
shared=$root/../shared/data
[ -d "$shared" ] || shared=$(git -C "$root" rev-parse --git-common-dir 2>/dev/null)/../../shared/data
seeds=10 stages="4 8" write=""
while [ $# -gt 0 ]; do
    case $1 in
    --seeds) seeds=${2:?--seeds needs a number} && shift ;;
    --stages) stages=${2:?--stages needs numbers} && shift ;;
    --write) write=1 ;;
    *) echo "spectrain: unknown option $1" && exit 2 ;;
    esac
    shift
done
data=$shared/mnist-t10k-images-idx3-ubyte.gz
[ -f "$data" ] || { echo "spectrain: ../shared/data with MNIST is missing" && exit 1; }
options=(lenet --data "$data" --batch 32 --micro 1 --steps 400 --optimizer momentum
    --lr-schedule cosine:warmup=40 --clip 0 --validation 1000 --eval-every 400 --eval-samples 1000)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
one() { # NAME SEED ARGUMENTS...
    "$sluice" train "${options[@]}" --seed "$2" "${@:3}" --quiet --out "$work/run" --checkpoint-every 0 2>/dev/null || [ $? = 1 ] # 1: it has diverged
    sed -n 's/.*"eval_accuracy": *\([0-9.e-]*\).*/\1/p' "$work/run/log.jsonl" | tail -n 1 |
        sed "s|^|$1 $2 |" >>"$work/accuracies"
    rm -rf "$work/run"
}
for rate in 0.02 0.005; do
    for seed in $(seq "$seeds"); do
        one "1f1b/any/$rate" "$seed" --lr $rate --stages 4 --schedule 1f1b
        for p in $stages; do
            one "spectrain/$p/$rate" "$seed" --lr $rate --stages "$p" --schedule async --policy spectrain
            one "async/$p/$rate" "$seed" --lr $rate --stages "$p" --schedule async
            one "global/$p/$rate" "$seed" --lr $rate --stages "$p" --schedule async --policy spectrain --clip-scope global
        done
    done
done
python3 - "$work/accuracies" "$seeds" "${write:+$root/docs/results/spectrain.md}" <<'END'
import math, sys
runs = {}
for line in open(sys.argv[1]):
    mode, seed, accuracy = line.split()
    runs.setdefault(mode, {})[int(seed)] = 100 * float(accuracy)
T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262, 11: 2.228,
     12: 2.201, 15: 2.145, 20: 2.093}
NAMES = {"1f1b": "synchronous", "spectrain": "SpecTrain (default: clip scope stage)", "async": "no policy",
         "global": "SpecTrain, clip scope global"}
rows = []
order = lambda m: (-float(m.split("/")[2]), m.split("/")[1] != "any", m.split("/")[1], m)
for mode in sorted(runs, key=order):
    name, stages, rate = mode.split("/")
    base = runs["1f1b/any/" + rate]
    accuracy = [runs[mode][s] for s in sorted(runs[mode])]
    diffs = [runs[mode][s] - base[s] for s in sorted(runs[mode])]
    n, mean = len(diffs), sum(diffs) / len(diffs)
    half = T.get(n, 1.96) * math.sqrt(sum((d - mean) ** 2 for d in diffs) / (n - 1) / n) if n > 1 else math.nan
    rows.append((NAMES[name], stages, rate, n, sum(accuracy) / n, min(accuracy), mean, half))
    print("RESULT bench=spectrain mode=%s stages=%s rate=%s seeds=%d accuracy=%.2f lowest=%.2f diff_points=%.2f ci_points=%.2f"
          % ((name,) + rows[-1][1:]))
if sys.argv[3]:
    out = open(sys.argv[3], "w")
    out.write("""# SpecTrain against synchronous training

*Generated* by `./dev bench spectrain --write`. lenet on the 10,000 digits of the MNIST test set: 9,000 to train, 1,000 held out; 400
steps of 32 samples, a step after every micro-batch (m = 1), momentum SGD, warm-up over 40 steps and half a cosine to zero, no
clipping. For one seed all rows start from the same weights and see the same samples. The difference is paired by seed: mean,
and 95 %% interval (Student, %d seeds). A bare `--schedule async --policy spectrain` has the published delays; `--clip-scope global`
makes steps later ([0016](../design/0016-global-step-without-flush.md)).

| rate | mode | stages | accuracy, %% | lowest, %% | difference, points |
|---|---|---|---|---|---|
""" % rows[0][3])
    for name, stages, rate, n, accuracy, low, mean, half in rows:
        text = "" if name == "synchronous" else "%+.2f ± %.2f" % (mean, half)
        out.write("| %s | %s | %s | %.2f | %.2f | %s |\n" % (rate, name, stages, accuracy, low, text))
    out.close()
END
