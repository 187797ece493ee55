#!/usr/bin/env bash
# A fault on one rank (no memory, a full disk, unreadable data, a clock that jumps): all ranks end with the
# same status, the first error is printed, the last checkpoint loads.
set -euo pipefail
preload=$BUILD_DIR/tests/libsl_fault.so
[ -f "$preload" ] || { echo "skipped: no $preload" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    tail -n 5 "$work"/err* 2>/dev/null
    exit 1
}
ranks=3
seq 1 30000 >"$work/text.txt"
gpt=(train gpt-nano --set "V=256,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 8 --micro 4 --stages 3 --quiet)
data=$work/text.txt
port=$((20000 + $$ % 10000)) # below those that systems hand out by themselves
# The next unused port.
next_port() {
    port=$((port + 1))
    while grep -q ":$(printf %04X $port) " /proc/net/tcp /proc/net/tcp6 2>/dev/null; do port=$((port + 1)); done
}
listens() { [ ! -r /proc/net/tcp ] || grep -q "0100007F:$(printf %04X $port) 00000000:0000 0A" /proc/net/tcp; }
# run NAME FAULT ARGUMENTS...: sets status[] of every rank; each rank has its own directory.
run() {
    local r pids=()
    rm -f "$work"/err*
    next_port
    for ((r = 0; r < ranks; r++)); do
        mkdir -p "$work/rank$r"
        cd "$work/rank$r"
        SLUICE_RANK=$r SLUICE_RANKS=$ranks SLUICE_MEET=127.0.0.1:$port SLUICE_KEY=the-key-of-this-test-$$ SL_FAULT="$2" LD_PRELOAD=$preload \
            timeout -k 5 300 "$SLUICE" "${gpt[@]}" "${@:3}" --data "$data" --out "$work/$1" 2>"$work/err.$r" &
        pids[r]=$!
        # The fault counts clock readings: none while the others wait for rank 0.
        while [ $r = 0 ] && ! listens && kill -0 "${pids[0]}" 2>/dev/null; do sleep 0.02; done
    done
    cd "$work"
    status=()
    for ((r = 0; r < ranks; r++)); do
        status[r]=0
        wait "${pids[r]}" || status[r]=$?
    done
}
injected=0
same() { # NAME STATUS MESSAGE: all ranks ended so, and it was said
    local r
    for ((r = 0; r < ranks; r++)); do
        [ "${status[r]}" = "$2" ] || fail "$1: rank $r ended with ${status[r]}, not $2"
    done
    [ -z "$3" ] || grep -q "$3" "$work"/err* || fail "$1: '$3' was not said"
    injected=$((injected + 1))
}

run whole "9 none 0" --steps 12
same whole 0 ""
# A clock that jumps on one rank changes nothing.
for n in 1 200 3000; do
    run "clock$n" "1 clock $n" --steps 12
    same "clock at $n" 0 ""
    diff -r "$work/whole/ckpt" "$work/clock$n/ckpt" || fail "a clock that jumps changed the run"
done
for victim in 0 2; do # the first and the last stage read data
    run "data$victim" "$victim data 400" --steps 100000 --checkpoint-every 4
    same "unreadable data on rank $victim" 4 "text.txt: cannot read at byte"
done
# A process without memory ends at once. It tells the others (status 4), unless the connection thread ended
# it: then they lose it (status 5). All of them end with the same status.
for victim in 0 1 2; do
    run "alloc$victim" "$victim alloc 3000" --steps 100000 --checkpoint-every 4
    [ "${status[victim]}" = 4 ] || [ "${status[victim]}" = 142 ] || fail "no memory on rank $victim: it ended with ${status[victim]}"
    others=$(for ((r = 0; r < ranks; r++)); do [ $r = "$victim" ] || echo "${status[r]}"; done | sort -u)
    [ "$others" = 4 ] || [ "$others" = 5 ] || fail "no memory on rank $victim: the others ended with $others"
    grep -q "memory\|cannot allocate" "$work"/err* || fail "no memory on rank $victim: nobody said so"
    injected=$((injected + 1))
done
# The disk is full while rank 0 writes a checkpoint in the background.
for n in 1 450 900; do # writes; the first checkpoint has about 200
    run "space$n" "0 space $n" --steps 100000 --checkpoint-every 4
    same "full disk at write $n" 4 "No space left on device"
    [ "$n" = 1 ] || "$SLUICE" ckpt verify "$work/space$n" >/dev/null || fail "full disk: the checkpoint does not verify"
done
# A data file is missing on one host.
for ((r = 0; r < ranks; r++)); do cp "$work/text.txt" "$work/rank$r/own.txt"; done
data=own.txt
rm "$work/rank2/own.txt"
run gone "9 none 0" --steps 100000
same "a data file that is gone from rank 2" 3 "rank 2: own.txt"
# The data file shrinks during the run.
cp "$work/text.txt" "$work/small.txt"
data=$work/small.txt
(
    for ((i = 0; i < 6000; i++)); do [ ! -e "$work/shrunk/ckpt/latest" ] || break && sleep 0.05; done
    truncate -s 100 "$data"
) &
run shrunk "9 none 0" --steps 100000 --checkpoint-every 4
same "a data file that shrinks" 4 "somebody is writing to it"
echo "count: $injected faults on one of $ranks ranks, the same end on all"
