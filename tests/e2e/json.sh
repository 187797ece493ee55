#!/usr/bin/env bash
# --json of every command against docs/formats-json.md: every printed key is documented, every documented key
# is printed, and every command has a shape.
set -euo pipefail
command -v python3 >/dev/null || { echo "SKIPPED: no python3" && exit 77; }
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/json"
cd "$work"
export SLUICE_MODELS=$SRC_DIR/models
count=0
# SHAPE STATUS ARGUMENTS...: runs the command and keeps its output.
say() {
    local rc=0
    count=$((count + 1))
    "$SLUICE" "$3" --json "${@:4}" --quiet >"json/$count.json" 2>err || rc=$?
    [ "$rc" = "$2" ] || fail "${*:3}: exit $rc, not $2: $(cat err)"
    echo "$1" >"json/$count.shape"
    echo "${*:3}" >"json/$count.call"
}
tiny=(gpt-nano --set "T=8,C=16,H=2,L=2")
batch=(--batch 4 --micro 2)
for kind in $("$SLUICE" list | awk '{ print $1 }'); do say "list KIND" 0 list "$kind"; done
say "list KIND" 0 list
say "model MODEL" 0 model "${tiny[@]}"
say "model MODEL" 0 model mmt --set "L=1,C=16,H=2,F=16,T=4"
say "machine ls" 0 machine ls
say "machine show | check | discover" 0 machine show summit
say "machine show | check | discover" 0 machine discover -o here.machine
say "machine show | check | discover" 0 machine check here.machine
say "doctor" 0 doctor --quick
say "version" 0 version
say "man COMMAND" 0 man train
say "completion SHELL" 0 completion bash
say "completion words" 0 completion words -- train --opti
echo "a word and a word" >words.txt
say "tokenizer train" 0 tokenizer train words.txt --vocab-size 260 -o tokenizer.json
say "tokenizer encode" 0 tokenizer encode words.txt --tokenizer tokenizer.json -o words.bin

say "profile MODEL" 0 profile "${tiny[@]}" --rounds 1
say "profile MODEL -o X.cost" 0 profile "${tiny[@]}" --rounds 1 --micro-batch 2 -o x.cost
say "plan MODEL" 0 plan "${tiny[@]}" --cost x.cost --machine laptop --batch 4 --micro 2 --straight --schedule 1f1b -o x.plan
say "plan MODEL" 0 plan "${tiny[@]}" --machine laptop --batch 4 --planner dp
say "plan MODEL --fits" 0 plan "${tiny[@]}" --machine laptop --batch 4 --fits
say "plan MODEL --fits" 1 plan "${tiny[@]}" --machine laptop --batch 4 --fits --memory 100KiB --tp 2 --pp 1
say "plan FILE" 0 plan "$SRC_DIR/tests/fuzz/corpus/piper/chain.json" --devices 2 --memory 8GiB --bandwidth 25GiB/s --micro 4
say "plan FILE" 0 plan "$SRC_DIR/tests/fuzz/corpus/pipedream/branch.graph.txt" --levels 2,2 --bandwidth 30GB/s,3GB/s
say "import FORMAT FILE" 0 import piper "$SRC_DIR/tests/fuzz/corpus/piper/chain.json"
say "import FORMAT FILE" 0 import pipedream "$SRC_DIR/tests/fuzz/corpus/pipedream/branch.graph.txt"
say "import FORMAT FILE" 0 import dnn-partitioning "$(find "$SRC_DIR/tests/fuzz/corpus/dnnpart" -type f | sort | head -n 1)"
awk -v work="$work" '/^---$/ { n++; next } { print > (work "/sailor-" (n ? n : "0") ".json") }' "$SRC_DIR/tests/fuzz/corpus/sailor/two-stages.txt"
mv sailor-0.json M.G.json
say "import sailor" 0 import sailor M.G.json sailor-1.json sailor-2.json sailor-3.json
printf '%s\n' "# GPUs,global batch,micro batch,hidden,heads,# layers,sequence,tensor,data par,pipeline,time (ms)" "2,4,2,16,2,2,8,1,1,2,1" \
    "4,8,2,16,2,2,8,1,2,2,2" "16,16,1,16,2,2,8,1,16,1,3" "8,8,1,16,2,2,8,1,8,1,3" >steps.csv
for row in 1 2 3 4 5 6 7 8; do echo "4,8,2,$((16 * row)),2,2,8,1,2,2,2" >>steps.csv; done
for row in 1 2 3; do echo "16,16,1,$((16 * row)),2,2,8,1,16,1,3" >>steps.csv; done
say "calibrate" 0 calibrate --measured steps.csv --machine a100-x128 --folds 2
say "calibrate" 0 calibrate --measured steps.csv --machine a100-x128 --check
say "export X.plan" 0 export x.plan --to dot
say "report" 0 export x.plan --to json -o x.json
say "report" 0 report --chain 2 --schedule 1f1b --micro 2 -o x.html -o x.svg

say "sched | verify" 0 sched --chain 3 --schedule 2bw --micro 4 --iters 3 -o x.sched
say "sched | verify" 0 verify x.sched
say "sim" 0 sim --chain 3 --schedule zb-h1 --micro 4
say "sim" 0 sim --chain 3 --schedule zb-h1 --micro 4 --totals
say "sim MODEL" 0 sim "${tiny[@]}" --machine laptop --tp 2 --pp 2 "${batch[@]}"

cat "$SRC_DIR"/docs/*.md >text.txt
say "train MODEL" 0 train "${tiny[@]}" "${batch[@]}" --data text.txt --steps 3 --eval-every 2 --out one
say "train MODEL" 0 train "${tiny[@]}" "${batch[@]}" --steps 4 --stages 2 --cost x.cost --out two
say "launch" 0 launch -n 2 --quiet -- train "${tiny[@]}" "${batch[@]}" --steps 1 --stages 2
"$SLUICE" launch -n 2 --quiet -- train "${tiny[@]}" "${batch[@]}" --steps 2 --stages 2 --json --quiet >json/ranks.json
echo "train MODEL" | tee json/ranks.shape >json/ranks.call
say "eval RUN" 0 eval one
say "predict RUN -o OUT" 0 predict one --samples 3 --what classes -o one.jsonl
say "export RUN OUTDIR" 0 export "$SRC_DIR/tests/fixtures/hf/gpt2" --to hf folder
say "sample RUN" 0 sample one --tokens 5
say "sample RUN" 0 sample one --tokens 5 --prompt a --prompt b
say "check MODEL" 0 check "${tiny[@]}" "${batch[@]}" --steps 2 --stages 2
say "compare RUN_A RUN_B" 0 compare one one
say "compare RUN_A RUN_B" 1 compare one two
say "ckpt ls" 0 ckpt ls one
say "ckpt verify" 0 ckpt verify one
say "report" 0 ckpt convert one -o one.safetensors
printf '\377' | dd of="$(find two/ckpt -name 'weights-*.safetensors' | head -n 1)" bs=1 seek=700 conv=notrunc status=none
say "ckpt verify" 1 ckpt verify two
rm "$(find two/ckpt -name 'weights-*.safetensors' | head -n 1)"
say "ckpt ls" 0 ckpt ls two
cat >x.study <<'END'
sluice-study 1
study json "one row"
train "--data synthetic --eval-samples 8"
seeds 1
mode "1f1b" "--schedule 1f1b"
task mlp "mlp" stages 2 steps 4 batch 4 micro 2 evals 2 rates 0.01
END
say "study FILE --dry-run" 0 study x.study --dry-run
say "study FILE" 0 study x.study --out study
# Names that are not UTF-8 give valid JSON.
cp -r one $'on\xff\xc3e'
say "eval RUN" 0 eval $'on\xff\xc3e'

for command in $("$SLUICE" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    grep -A1 '^```shape$' "$SRC_DIR/docs/formats-json.md" | grep -qwE "^[a-z |]*\b$command\b.* = .*|^$command( .*)? = .*" ||
        fail "docs/formats-json.md has no shape of $command"
done
# Keys that a run without faults on one kind of device does not print.
cat >json/unseen <<'END'
check MODEL: what
check MODEL: tensor
check MODEL: step
check MODEL: stage
check MODEL: element
check MODEL: pipeline
check MODEL: one_worker
doctor: fix
plan FILE: inner
import FORMAT FILE: cpu
import FORMAT FILE: time
import FORMAT FILE: output_bytes
import FORMAT FILE: size_bytes
import FORMAT FILE: micro_bytes
import FORMAT FILE: fixed_bytes
import FORMAT FILE: devices
import FORMAT FILE: cpus
import FORMAT FILE: micro
import FORMAT FILE: memory_bytes
import FORMAT FILE: bandwidth
study FILE: step_ms
study FILE: sooner_measured
END
shapes() { python3 "$SRC_DIR/tests/e2e/json_shapes.py" "$SRC_DIR/docs/formats-json.md" json; }
shapes
# Sabotage: the check finds an extra key, a missing key, another type of value, and invalid JSON.
spoil() { # SED-SCRIPT WHAT
    cp json/ranks.json kept
    sed "$1" kept >json/ranks.json
    ! cmp -s kept json/ranks.json || fail "nothing to spoil: $2"
    ! shapes >out 2>&1 || fail "$2 passes"
    cp kept json/ranks.json
}
spoil 's/"steps"/"stepz"/' "a key that is not named"
spoil '/"saves"/d' "a key that is missing"
spoil 's/"step": 2/"step": "2"/' "a text for a number"
spoil 's/false/0/' "a number for a truth"
spoil '4,100d' "half of it"
