#!/usr/bin/env bash
# Two hosts as network namespaces: ranks over TCP and MPI, also on links of 1 Gbit/s and 100 Mbit/s, equal threads bit
# for bit; both sides report a link that is cut. Skipped if namespaces are not allowed.
set -euo pipefail
# shellcheck source=tests/support/two_hosts.sh
. "$SRC_DIR/tests/support/two_hosts.sh"
work=$(mktemp -d)
a=sl-a-$$ b=sl-b-$$
clean() {
    drop_hosts "$a" "$b"
    rm -rf "$work"
}
trap clean EXIT
fail() {
    echo "FAILED: $*"
    cat "$work"/err* 2>/dev/null | tail -n 20
    exit 1
}
if ! command -v ip >/dev/null || ! make_hosts "$a" "$b" 10.77.0 2>"$work/err"; then
    echo "skipped: network namespaces are not allowed here (or no iproute2)"
    exit 77
fi
write_agents "$work"
gpt=(gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 8 --micro 4 --quiet --stages 2)
# on HOST RANK ARGUMENTS...
on() {
    SLUICE_RANK=$2 SLUICE_RANKS=2 SLUICE_MEET=10.77.0.1:29501 SLUICE_KEY=the-key-of-this-test-$$ \
        "$work/enter-exec" "$1" timeout 300 "$SLUICE" train "${gpt[@]}" "${@:3}" 2>"$work/err.$2"
}
"$SLUICE" train "${gpt[@]}" --steps 4 --out "$work/threads" 2>"$work/err" || fail "threads"
same() { # NAME
    on "$b" 1 --steps 4 --out "$work/$1" &
    on "$a" 0 --steps 4 --out "$work/$1" || fail "$1"
    wait $! || fail "$1: rank 1"
    diff -r "$work/threads/ckpt" "$work/$1/ckpt" || fail "$1: other bytes than threads"
}
same_mpi() { # NAME: mpirun's own agent enters the hosts
    local status=0
    (
        # shellcheck source=tests/support/mpi.sh
        . "$SRC_DIR/tests/support/mpi.sh"
        exec timeout -k 5 300 "$work/enter-exec" "$a" mpirun --host "$a:1,$b:1" -n 2 \
            --mca plm_rsh_agent "$work/enter" --mca oob_tcp_if_include wire --mca btl_tcp_if_include wire \
            "$SLUICE" train "${gpt[@]}" --steps 4 --out "$work/$1"
    ) >"$work/err.mpi" 2>&1 || status=$?
    [ $status != 77 ] || return 0
    [ $status = 0 ] || fail "$1"
    diff -r "$work/threads/ckpt" "$work/$1/ckpt" || fail "$1: other bytes than threads"
}
shape() { # RATE
    for host in "$a" "$b"; do
        ip netns exec "$host" tc qdisc replace dev wire root tbf rate "$1" burst 128kb latency 50ms || return 1
    done
}
same plain
same_mpi mpi
for rate in 1gbit 100mbit; do
    shape $rate 2>"$work/err" || { echo "the link cannot be shaped here (tc tbf): only at full speed" && break; }
    same "tcp-$rate"
done
same_mpi mpi-slow

on "$b" 1 --steps 1000000 --checkpoint-every 8 --out "$work/cut" &
other=$!
on "$a" 0 --steps 1000000 --checkpoint-every 8 --out "$work/cut" &
first=$!
until [ -e "$work/cut/ckpt/latest" ]; do
    kill -0 $first 2>/dev/null || fail "it ended before its first checkpoint"
    sleep 0.05
done
ip -n "$a" link set wire down
status=0
wait $first || status=$?
[ $status = 5 ] || fail "rank 0 of a cut link: status $status"
status=0
wait $other || status=$?
[ $status = 5 ] || fail "rank 1 of a cut link: status $status"
grep -q "rank 1 (host $b, .*) is lost: no sign of life" "$work/err.0" || fail "rank 0 does not name rank 1"
grep -q "rank 0 (host $a, .*) is lost: no sign of life" "$work/err.1" || fail "rank 1 does not name rank 0"
"$SLUICE" ckpt verify "$work/cut" >/dev/null || fail "the checkpoint does not load"

# The launcher over hosts: after the loss of one, the run continues with fewer stages and ends with the same weights.
ip -n "$a" link set wire up
until ip netns exec "$a" "$SLUICE" launch --probe 10.77.0.2:9; do sleep 0.1; done 2>/dev/null
"$SLUICE" launch -n 2 --hosts "$a=10.77.0.1,$b=10.77.0.2" --agent "ip netns exec" --restarts 3 -- train "${gpt[@]:0:7}" --stages 2 \
    --steps 96 --checkpoint-every 8 --out "$work/fewer" 2>"$work/err.fewer" &
job=$!
until [ -e "$work/fewer/ckpt/latest" ]; do
    kill -0 $job 2>/dev/null || fail "launch --hosts ended before its first checkpoint"
    sleep 0.02
done
ip -n "$a" link set wire down
wait $job || fail "launch --hosts did not go on without a host"
if grep -q "is lost" "$work/err.fewer"; then # else it was finished before the cut
    grep -q "host $b is gone" "$work/err.fewer" || fail "the host that is gone is not named"
    grep -q "1 ranks instead of 2: new plan with --stages 1 instead of 2" "$work/err.fewer" || fail "no word of the new plan"
fi
"$SLUICE" train "${gpt[@]}" --steps 96 --out "$work/whole" 2>"$work/err" || fail "undisturbed"
for file in "$work/whole/ckpt/step-00000096"/*.safetensors; do
    cmp "$file" "$work/fewer/ckpt/step-00000096/$(basename "$file")" || fail "other weights after the loss of a host"
done
