#!/usr/bin/env bash
# Small promises to users, one check each: notes, messages, exit codes, learning rates, the best checkpoint.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
says() { # TEXT COMMAND...: the command's messages contain the text
    local text=$1 out
    shift
    out=$("$@" 2>&1 >/dev/null) || true
    [[ $out == *"$text"* ]] || fail "'$*' does not say '$text': $out"
}
ends() { # STATUS COMMAND...
    local want=$1 status=0
    shift
    "$@" >/dev/null 2>err || status=$?
    [ $status = "$want" ] || fail "status $status of $*: $(cat err)"
}
mlp=(mlp --batch 4 --quiet)

# Nothing is saved without --out, and the program says so.
says "nothing is saved" "$SLUICE" train mlp --steps 1
out=$("$SLUICE" train mlp --steps 1 --out saved 2>&1)
[[ $out != *"nothing is saved"* ]] || fail "it is saved"

# --steps 0 --init converts: weights without training.
says "the weights are saved in copy" "$SLUICE" train mlp --steps 0 --init saved --out copy
"$SLUICE" eval copy --samples 64 --json >a && "$SLUICE" eval saved --samples 64 --json >b
[ "$(grep '"loss"' a)" = "$(grep '"loss"' b)" ] || fail "another loss after the conversion"

# A signal with --requeue-exit is no error.
"$SLUICE" train mlp --steps 1000000 --out q --requeue-exit 85 >/dev/null 2>err & pid=$!
until [ -s q/log.jsonl ]; do sleep 0.05; done
kill -USR1 $pid
status=0
wait $pid || status=$?
[ $status = 85 ] || fail "--requeue-exit: status $status"
! grep -q '^sluice:' err || fail "--requeue-exit prints an error: $(cat err)"

# Another optimizer is named, not another model.
says "--optimizer was" "$SLUICE" train --resume --out saved --steps 2 --optimizer sgd
says "by another optimizer or policy: it has '" "$SLUICE" train --resume --out saved --steps 2 --optimizer sgd --allow-change

# ckpt verify and --init agree about `latest`.
"$SLUICE" train "${mlp[@]}" --steps 4 --checkpoint-every 2 --out two
for change in 'echo junk >' 'rm'; do
    cp -r two other
    eval "$change other/ckpt/latest"
    status=0
    "$SLUICE" ckpt verify other >/dev/null 2>&1 || status=$?
    init=0
    "$SLUICE" train "${mlp[@]}" --steps 1 --init other >/dev/null 2>&1 || init=$?
    [ $((status == 0)) = $((init == 0)) ] || fail "after '$change latest': verify $status, --init $init"
    rm -r other
done

# eval takes all samples, also fewer than a micro-batch.
"$SLUICE" train mlp --batch 8 --validation 1 --steps 1 --quiet --out few
"$SLUICE" eval few | grep -q "samples    1 of 1" || fail "eval of less than a micro-batch"
ends 0 "$SLUICE" eval few --validation 100

# TensorBoard has each point once, also when steps after the checkpoint are repeated.
if command -v python3 >/dev/null; then
    "$SLUICE" train "${mlp[@]}" --steps 6 --checkpoint-every 4 --out tb
    rm -r tb/ckpt/step-00000006
    cp -r two/ckpt/latest tb/ckpt/latest && rm tb/ckpt/latest
    "$SLUICE" train --resume --out tb --steps 8 --quiet
    python3 "$SRC_DIR/tests/e2e/events.py" tb || fail "TensorBoard: duplicate points"
fi

# A directory that is no run.
mkdir empty
says "not a run directory: it has no log.jsonl" "$SLUICE" report empty -o x.html
says "no checkpoint here (expected a run" "$SLUICE" ckpt ls empty
ends 3 "$SLUICE" report empty -o x.html

# Learning rates: their closed forms.
rates() { # SCHEDULE: rates of 10 steps with base 1
    rm -rf lr
    "$SLUICE" train "${mlp[@]}" --steps 10 --lr 1 --optimizer sgd --lr-schedule "$1" --out lr --clip 1e-9
    sed -n 's/.*"lr": \([^,]*\),.*/\1/p' lr/log.jsonl | awk '{ printf "%s%.6g", (NR > 1 ? " " : ""), $1 }'
}
is() { [ "$(rates "$1")" = "$2" ] || fail "$1: $(rates "$1")"; }
is wsd:warmup=2,decay=0.5,min=0.2 "0.5 1 1 1 1 1 0.8 0.6 0.4 0.2"
is step:every=3,gamma=0.5 "1 1 1 0.5 0.5 0.5 0.25 0.25 0.25 0.125"
is polynomial:power=2 "0.81 0.64 0.49 0.36 0.25 0.16 0.09 0.04 0.01 0"
is inverse-sqrt:warmup=4 "0.25 0.5 0.75 1 0.894427 0.816497 0.755929 0.707107 0.666667 0.632456"
is onecycle:up=0.5,start=0.2,min=0.1 "0.276393 0.476393 0.723607 0.923607 1 0.914058 0.689058 0.410942 0.185942 0.1"

# The best checkpoint stays beside the newest ones, and training stops early. At rate 0 no evaluation is better
# than the first one; a resumed run knows that.
best=(mlp --batch 4 --eval-every 2 --eval-samples 16 --checkpoint-every 2 --keep 1 --keep-best)
says "stopped early: no lower validation loss than" "$SLUICE" train "${best[@]}" --steps 40 --lr 0 --patience 4 --out flat
[ "$(ls flat/ckpt)" = "$(printf '%s\n' best latest step-00000002 step-00000010)" ] || fail "flat: $(ls flat/ckpt)"
[[ $(cat flat/ckpt/best) == "step-00000002 "* ]] || fail "the best of flat: $(cat flat/ckpt/best)"
"$SLUICE" train --resume --out flat --quiet
[ "$(ls flat/ckpt)" = "$(printf '%s\n' best latest step-00000002 step-00000012)" ] || fail "flat resumed: $(ls flat/ckpt)"
"$SLUICE" train "${best[@]}" --stages 2 --schedule 2bw --micro 4 --steps 12 --lr 0.01 --patience 4 --out falling --quiet
lowest=$(sed -n 's/.*"step": \([0-9]*\), "eval_loss": \([^,]*\),.*/\2 \1/p' falling/log.jsonl | sort -g | head -n 1 | cut -d' ' -f2)
[[ $(cat falling/ckpt/best) == "step-$(printf %08d "$lowest") "* ]] || fail "the best of falling: $(cat falling/ckpt/best), not $lowest"
says "needs evaluations" "$SLUICE" train mlp --steps 2 --patience 3
[[ $("$SLUICE" train --help) == *"gradient accumulation"* ]] || fail "--micro in the help"
echo "count: 11 comforts"
