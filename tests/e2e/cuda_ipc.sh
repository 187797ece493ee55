#!/usr/bin/env bash
# Processes that share one GPU, by CUDA IPC: the conformance suite from device memory to device memory on 2 and 4
# ranks, and pipelines of 2 and 4 processes (1f1b, 2bw, a graph of stages, ties) against one worker on the GPU, bit for
# bit; replicas against threads; a rank that dies is named. Over MPI with shared memory, by messages only, and over TCP
# ('sluice launch'). Skipped without a GPU, without mpirun, or if CUDA IPC is refused (the reason is printed).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2 && exit 1; }
"$SLUICE" list devices | grep '^  cuda ' | grep -vq '(not here' || exit 77
# shellcheck source=tests/support/mpi.sh
. "$SRC_DIR/tests/support/mpi.sh"
export SL_TEST_PATIENCE=${SL_TEST_PATIENCE:-120}
gpt="gpt-tiny --set V=64,T=64,P=64,L=4,C=128,H=2 --batch 8 --micro 4 --steps 4"
mmt="mmt --set branches=4,T=32,L=2,C=64,H=1,F=128,classes=7 --batch 8 --micro 4 --steps 4"

# The path of messages, as printed by rank 0; 77 if CUDA IPC is refused.
uses_ipc() { # LOG NAME
    grep -q 'go by CUDA IPC' "$1" && return 0
    if grep 'go through the host' "$1"; then exit 77; fi
    fail "$2 does not say how its messages go: $(cat "$1")"
}
train() { # NAME "LAUNCHER" "OPTIONS" [COMMAND OF SLUICE BEFORE TRAIN]
    # shellcheck disable=SC2086 # words
    $2 "$SLUICE" ${4:-} train $3 --models "$SRC_DIR/models" --device cuda --out "$work/$1" >"$work/$1.log" 2>&1 ||
        fail "$1: $(cat "$work/$1.log")"
}
same() { # RUN RUN
    "$SLUICE" compare "$work/$1" "$work/$2" >"$work/out" 2>&1 || fail "$2 is not $1: $(cat "$work/out")"
    echo "same: $1 and $2"
}

# 1: two ranks; also finds out whether CUDA IPC works on this host.
train one-1f1b-fp32 "" "$gpt --dtype fp32 --stages 1"
train two-1f1b-fp32 "run_ranks 2" "$gpt --dtype fp32 --stages 2 --schedule 1f1b"
uses_ipc "$work/two-1f1b-fp32.log" two-1f1b-fp32
same one-1f1b-fp32 two-1f1b-fp32

# 2: pipelines of processes; replicas against threads, which sum in the same order.
train one-1f1b "" "$gpt --dtype bf16 --stages 1"
train one-2bw "" "$gpt --dtype bf16 --stages 1 --schedule 2bw"
train one-graph "" "$mmt --dtype bf16 --stages 1"
pipe() { # THE ONE "LAUNCHER" "OPTIONS" [COMMAND OF SLUICE BEFORE TRAIN]
    local name="many-$((++runs))"
    train "$name" "$2" "$3 --dtype bf16" "${4:-}"
    uses_ipc "$work/$name.log" "$name"
    same "one-$1" "$name"
}
runs=0
for ranks in 2 4; do
    replicas="$gpt --stages $((ranks / 2)) --replicas 2"
    train "one-replicas-$ranks" "" "$replicas --dtype bf16"
    pipe "replicas-$ranks" "run_ranks $ranks" "$replicas --transport mpi-p2p"
    pipe graph "run_ranks $ranks" "$mmt --cut branches --schedule 1f1b"
    pipe 2bw "run_ranks $ranks" "$gpt --stages $ranks --schedule 2bw"
    pipe 1f1b "" "$gpt --stages 4 --schedule 1f1b" "launch -n $ranks --"
done
pipe 2bw "" "$gpt --stages 4 --schedule 2bw" "launch -n 2 --"
pipe 1f1b "run_ranks 4" "$gpt --stages 4 --schedule 1f1b --transport mpi-p2p"

# 3: a rank that dies is named, and no rank hangs on the GPU.
status=0
# shellcheck disable=SC2086 # words
timeout 120 "$SLUICE" launch -n 2 -- train ${gpt% *} 1000000 --stages 2 --models "$SRC_DIR/models" --device cuda \
    --drill die:1:300 --out "$work/dies" >"$work/dies.log" 2>&1 || status=$?
[ $status = 5 ] || fail "a rank died: status $status: $(tail -20 "$work/dies.log")"
uses_ipc "$work/dies.log" dies
grep -qE 'rank 1 \(host [^,]+, process [0-9]+\) is lost' "$work/dies.log" || fail "who died is not said: $(tail -20 "$work/dies.log")"

# 4: the conformance suite.
for transport in mpi mpi-p2p; do for ranks in 2 4; do
    SL_TEST_DEVICE=cuda SL_TEST_TRANSPORT=$transport run_ranks "$ranks" "$BUILD_DIR/tests/unit.comm.conformance_mt" \
        >"$work/conformance" 2>&1 || fail "conformance, $transport, $ranks ranks: $(tail -20 "$work/conformance")"
    uses_ipc "$work/conformance" "conformance, $transport"
    grep -m1 '^count:' "$work/conformance" | sed "s/\$/ from GPU to GPU on $ranks ranks ($transport)/"
done; done
echo "ok"
