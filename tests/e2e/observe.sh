#!/usr/bin/env bash
# What observes an asynchronous run does not change it: random runs (mode, policy, optimizer, stages, cut, replicas,
# micro-batches, transport) with random evaluations, checkpoints, logs, threads, SIGKILLs and resumes have the
# weights, the optimizer state and the losses of the undisturbed run on threads, bit for bit. A run of 2bw may go on
# with another number of stages; a finished one may be extended.
# SL_TEST_FULL=1: 200 runs. SL_TEST_SEED: another sequence.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
want=4
[ "${SL_TEST_FULL:-0}" = 1 ] && want=200
RANDOM=${SL_TEST_SEED:-1}
pick() { # NAME VALUES...: sets NAME to one of them
    local -n out=$1
    shift
    local values=("$@")
    # shellcheck disable=SC2034 # NAME is the caller's
    out=${values[RANDOM % $#]}
}
# MPI only where this build has it.
transports=(threads threads threads tcp)
[ ! -e "$BUILD_DIR/libsluice_mpi.so" ] || ! (. "$SRC_DIR/tests/support/mpi.sh") >/dev/null || transports+=(mpi)
[ "${transports[-1]}" != mpi ] || . "$SRC_DIR/tests/support/mpi.sh"
transport=threads
run() { # ARGUMENTS of train: over ranks or on threads
    case $transport in
    threads) "$SLUICE" train "$@" --quiet ;;
    tcp) "$SLUICE" launch -n "$ranks" -- train "$@" --quiet ;;
    mpi) run_ranks "$ranks" "$SLUICE" train "$@" --quiet ;;
    esac
}
losses() { # RUN: step and loss of every step
    sed -n 's/^{"step": *\([0-9]*\).*"loss": *\([^,]*\), *"grad_norm.*/\1 \2/p' "$1/log.jsonl"
}

# The issue: checkpoints and evaluations of 2bw change nothing, and 6 + 6 steps are 12.
issue=(gpt-nano --stages 3 --schedule 2bw --batch 8 --micro 4 --quiet)
"$SLUICE" train "${issue[@]}" --steps 6 --checkpoint-every 0 --out "$work/plain"
"$SLUICE" train "${issue[@]}" --steps 6 --checkpoint-every 3 --out "$work/saved"
"$SLUICE" train "${issue[@]}" --steps 6 --checkpoint-every 0 --eval-every 1 --out "$work/evaluated"
for run in saved evaluated; do
    "$SLUICE" compare "$work/plain" "$work/$run" >"$work/out" || fail "2bw, $run: $(tail -1 "$work/out")"
done
"$SLUICE" train "${issue[@]}" --steps 12 --checkpoint-every 0 --out "$work/twelve"
"$SLUICE" train --resume --out "$work/plain" --steps 12 --quiet
"$SLUICE" compare "$work/plain" "$work/twelve" >"$work/out" || fail "2bw, 6 + 6 steps: $(tail -1 "$work/out")"
# A finished run has drained its pipeline. Modes other than 2bw cannot extend it with the same bits: they refuse.
"$SLUICE" train "${issue[@]/2bw/stash}" --steps 4 --out "$work/stash"
code=0
"$SLUICE" train --resume --out "$work/stash" --steps 8 --quiet 2>"$work/err" || code=$?
[ "$code" = 1 ] || fail "a finished run of stash: status $code"
grep -q -- "--allow-change" "$work/err" || fail "a finished run of stash: no way out named"
"$SLUICE" train --resume --out "$work/stash" --steps 8 --allow-change --quiet 2>"$work/err" || fail "with --allow-change"

# Stages that clip by their own norms would clip differently after another cut.
"$SLUICE" train "${issue[@]}" --steps 4 --clip-scope stage --clip 0.01 --out "$work/own"
code=0
"$SLUICE" train --resume --out "$work/own" --steps 6 --stages 2 --quiet 2>"$work/err" || code=$?
[ "$code" = 1 ] || fail "another number of stages with their own norms: status $code"
grep -q -- "--allow-change" "$work/err" || fail "another number of stages with their own norms: no way out named"

done=0 kills=0 refused=0 moved=0 deaths=0 replicas=1
while [ $done -lt $want ]; do
    rm -rf "$work/whole" "$work/disturbed"
    pick schedule 2bw 2bw stash vsync async paci
    pick policy none none none spectrain 2bw-predict error-feedback xpipe pipemare pipeoptim nesterov-async lr-rescale
    pick optimizer sgd momentum adam adamw nadam muon lion
    pick stages 2 3 4
    pick cut even even branches
    pick micro 1 2 3 5
    pick scope global stage
    pick clip 0 0.5
    pick replicas 1 1 2 3
    pick transport "${transports[@]}"
    pick ranks 2 3
    pick loss none none dynamic:start=1024,every=3
    pick memory "" "" --recompute
    pick model "gpt-nano --set V=37,T=13,P=17,L=3,C=18,H=3,drop=0.1" \
        "gpt-nano --set V=37,T=13,P=17,L=3,C=18,H=3,tied=0" "resnet18 --set cifar=1,S=9,W=3,classes=7" \
        "mmt --set branches=2,T=4,L=2,C=8,H=2,F=8,classes=3"
    steps=$((4 + RANDOM % 12))
    # shellcheck disable=SC2206 # model is words
    options=($model --schedule $schedule --policy $policy --optimizer $optimizer --stages $stages --cut $cut --micro $micro
        --batch $((2 * micro + RANDOM % 2)) --clip-scope $scope --clip $clip --steps $steps --loss-scale $loss $memory)
    [ "$replicas" = 1 ] || options+=(--replicas "$replicas")
    if ! "$SLUICE" train "${options[@]}" --quiet --checkpoint-every 0 --out "$work/whole" >"$work/out" 2>"$work/err"; then
        grep -q "^sluice" "$work/err" || fail "${options[*]}"
        refused=$((refused + 1)) # not a combination
        continue
    fi
    workers=$(sed -n 's/^workers //p' "$work/whole/plan.plan")
    [ "$ranks" -le "$workers" ] || ranks=$workers
    deaths=0
    go=("${options[@]}")
    for ((turn = 0; ; turn++)); do
        observe=(--eval-every $((RANDOM % 4)) --eval-samples 4 --checkpoint-every $((1 + RANDOM % 4)) --keep $((RANDOM % 3)))
        observe+=(--threads $((1 + RANDOM % 2)))
        [ $turn -gt 3 ] || observe+=(--drill "die:$((RANDOM % 2)):$((RANDOM % (stages * micro * steps * 3)))")
        if [ ${#go[@]} = 0 ] && [ "$schedule $policy $replicas $scope" = "2bw none 1 global" ] && [ $((RANDOM % 2)) = 0 ]; then
            observe+=(--stages $((ranks + RANDOM % 3)))
            moved=$((moved + 1))
        fi
        code=0
        run "${go[@]}" "${observe[@]}" --resume --out "$work/disturbed" >"$work/out" 2>"$work/err" || code=$?
        [ $code != 0 ] || break
        if grep -q "the run cannot pause between them" "$work/err"; then # a replica steps much later than others
            refused=$((refused + 1))
            continue 2
        fi
        [ $turn -le 3 ] || fail "${options[*]} (seed ${SL_TEST_SEED:-1}, run $done, $transport $ranks): resume"
        grep -q "would not\|sluice: --" "$work/err" && fail "${options[*]}, $transport $ranks, ${observe[*]}"
        deaths=$((deaths + 1))
        [ ! -e "$work/disturbed/config.json" ] || go=()
    done
    kills=$((kills + deaths))
    "$SLUICE" compare "$work/whole" "$work/disturbed" >"$work/out" ||
        fail "${options[*]}, $transport $ranks, last ${observe[*]}: $(tail -1 "$work/out")"
    diff <(losses "$work/whole") <(losses "$work/disturbed") >"$work/out" ||
        fail "${options[*]}, $transport $ranks: other losses: $(cat "$work/out")"
    done=$((done + 1))
done
echo "count: $done asynchronous runs observed, killed $kills times, moved to other stages $moved times, bit for bit ($refused combinations refused)"
