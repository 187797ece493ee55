#!/usr/bin/env bash
# --loss-scale: powers of two change no bit of an fp32 run, on one worker, in pipelines, asynchronous ones too;
# the scale follows the skip decisions, is in the log, and a resumed run continues with it bit for bit.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
gpt=(gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3,drop=0.1" --batch 6 --micro 3 --clip 0.05 --quiet)
train() { # RUN [OPTIONS]
    "$SLUICE" train "${@:2}" --out "$work/$1" 2>"$work/err" || fail "$1"
}
scales() { sed -n 's/.*"loss_scale": \([0-9]*\),.*/\1/p' "$work/$1/log.jsonl" | tr '\n' ' '; }
same() { # RUN RUN
    "$SLUICE" compare "$work/$1" "$work/$2" >"$work/out" || fail "$2 is not $1: $(cat "$work/out")"
}
dynamic=(--loss-scale "dynamic:start=1024,every=3")

train plain "${gpt[@]}" --steps 8
train fixed "${gpt[@]}" --steps 8 --loss-scale 4096
train scaled "${gpt[@]}" --steps 8 "${dynamic[@]}"
train pipe "${gpt[@]}" --steps 8 "${dynamic[@]}" --stages 3 --schedule zb-h1
for run in fixed scaled pipe; do same plain $run; done
[ -z "$(scales plain)" ] || fail "a scale in the log of a run without"
[ "$(scales fixed)" = "4096 4096 4096 4096 4096 4096 4096 4096 " ] || fail "fixed: $(scales fixed)"
[ "$(scales scaled)" = "1024 1024 1024 2048 2048 2048 4096 4096 " ] || fail "scaled: $(scales scaled)"
[ "$(scales pipe)" = "$(scales scaled)" ] || fail "pipeline: $(scales pipe)"

# Resumed between two changes of the scale: the checkpoint equals that of a run never stopped. The same for
# asynchronous pipelines, whose last scales are in flight. Then from one worker to a pipeline.
for mode in one:none 2bw:none 2bw:2bw-predict stash:none; do
    options=("${gpt[@]}" "${dynamic[@]}" --checkpoint-every 4)
    [ "$mode" = one:none ] || options+=(--stages 3 --schedule "${mode%:*}" --policy "${mode#*:}" --clip-scope global)
    train whole.$mode "${options[@]}" --steps 8
    cp -r "$work/whole.$mode" "$work/parts.$mode"
    rm -r "$work/parts.$mode/ckpt/step-00000008"
    train parts.$mode "${options[@]}" --steps 8 --resume
    [ "$(scales parts.$mode)" = "$(scales whole.$mode)" ] || fail "$mode resumed: $(scales parts.$mode)"
    cut='s/"steps": [0-9]*//' # the notes of the configuration may say so
    for file in "$work/whole.$mode"/ckpt/step-00000008/*; do
        cmp -s "$file" "$work/parts.$mode/ckpt/step-00000008/${file##*/}" ||
            [ "$(sed "$cut" "$file")" = "$(sed "$cut" "$work/parts.$mode/ckpt/step-00000008/${file##*/}")" ] ||
            fail "$mode resumed: ${file##*/} has other bytes"
    done
    grep -q '"loss_scale": "[0-9]* [0-9]*[";]' "$work/whole.$mode/ckpt/step-00000008/manifest.json" ||
        fail "$mode: the checkpoint has no scale"
done
cp -r "$work/whole.one:none" "$work/moved"
train moved "${gpt[@]}" "${dynamic[@]}" --steps 12 --resume --stages 2
train straight "${gpt[@]}" "${dynamic[@]}" --steps 12
same straight moved
[ "$(scales moved)" = "$(scales straight)" ] || fail "from one worker to a pipeline: $(scales moved)"

# An overflow in the backward pass halves the scale; if the loss is finite, the message names the scale.
cat >"$work/steep.model" <<'M'
model steep
input x : float[B, 3]
param w[3] ~ const(1e-38)
loss reduce_sum(scale(w, 5e34) + x * 0)
M
train steep "$work/steep.model" --batch 2 --steps 9 --optimizer sgd --lr 0 --loss-scale dynamic:start=16384,every=3
[ "$(scales steep)" = "16384 8192 4096 2048 2048 2048 4096 2048 2048 " ] || fail "overflow: $(scales steep)"
[ "$(grep -c '"bad": {"what": "scale"}' "$work/steep/log.jsonl")" -eq 4 ] || fail "the reasons in the log"
grep -q "step 1 skipped, its gradient is not finite: the loss was scaled by too much (loss scale 16384)" "$work/err" ||
    fail "the terminal is not told"

refuse() { # STATUS WORDS OPTIONS...
    local rc=0
    "$SLUICE" train "${gpt[@]:0:7}" --steps 1 "${@:3}" 2>"$work/err" || rc=$?
    [ "$rc" -eq "$1" ] || fail "${*:3}: exit $rc, not $1"
    grep -q -- "$2" "$work/err" || fail "${*:3}: not '$2'"
}
refuse 2 "power of two" --loss-scale 1000
refuse 2 "did you mean 'every'" --loss-scale dynamic:evry=3
refuse 1 "clip-scope global" --loss-scale dynamic --stages 2 --schedule stash --clip-scope stage --clip 0
