#!/usr/bin/env bash
# The end of a launch: a second Ctrl-C and a hangup end the job instead of restarting it; no rank outlives its
# launcher, on this host or behind an agent; commands on other hosts keep any directory and are read by no shell.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
if ! command -v pgrep >/dev/null; then
    echo "skipped: there is no pgrep"
    exit 77
fi
cd "$work"
# Like sshd: the words are joined, a shell in another directory splits them, and the command outlives the agent.
mkdir agent
printf '#!/bin/sh\nshift\ncd /\nsh -c "$*"\nexit $?\n' >agent/ssh
chmod +x agent/ssh
hosts=(--hosts "a=127.0.0.1,b=127.0.0.1" --agent "$work/agent/ssh")
train=(train gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3" --batch 4 --quiet --stages 2 --steps 100000000 --checkpoint-every 8)

# start RUN OPTIONS...: a job with a checkpoint; $pid is its launcher
start() {
    rm -rf "$1"
    env --default-signal "$SLUICE" launch -n 2 "${@:2}" -- "${train[@]}" --out "$1" 2>"$work/err" &
    pid=$!
    until [ -e "$1/ckpt/latest" ]; do
        kill -0 $pid 2>/dev/null || fail "ended before its first checkpoint"
        sleep 0.02
    done
}
gone() { # RUN WHAT: its ranks end soon
    for _ in $(seq 500); do
        pgrep -f -- "--out $1" >/dev/null || return 0
        sleep 0.02
    done
    fail "$2: ranks are left: $(pgrep -af -- "--out $1")"
}
ends() { # STATUS WHAT: of the launcher
    local rc=0
    wait $pid || rc=$?
    pid=
    [ $rc -eq "$1" ] || fail "$2: exit $rc, not $1"
}

for where in local remote; do
    options=(--restarts 3)
    [ $where = local ] || options+=("${hosts[@]}")
    run=$work/run-$where
    # One signal: saved, not restarted. A second Ctrl-C while the ranks cannot answer: killed, not restarted.
    for signal in INT HUP TERM; do
        start "$run" "${options[@]}"
        kill -$signal $pid
        ends 0 "$where: SIG$signal"
        gone "$run" "$where: SIG$signal"
        "$SLUICE" ckpt verify "$run" >/dev/null || fail "$where: SIG$signal: damaged"
    done
    for signal in INT HUP; do
        start "$run" "${options[@]}"
        mapfile -t ranks < <(pgrep -f -- "--stages 2 --steps .*--out $run" | grep -vx "$pid")
        for rank in "${ranks[@]}"; do # the ranks themselves, not the shells of the agents
            [ "$(readlink "/proc/$rank/exe")" != "$(readlink -f "$SLUICE")" ] || kill -STOP "$rank"
        done
        while kill -$signal $pid 2>/dev/null; do sleep 0.05; done # two signals at once may be one
        ends 5 "$where: a second SIG$signal"
        gone "$run" "$where: a second SIG$signal"
        ! grep -q "^sluice: restart" err || fail "$where: a second SIG$signal restarts the job"
        grep -q "again: the ranks are killed" err || fail "$where: no word of the second SIG$signal"
    done
    # The launcher is killed: no rank remains, nobody trains on.
    start "$run" "${options[@]}"
    kill -KILL $pid
    ends 137 "$where: kill -9"
    gone "$run" "$where: kill -9 of the launcher"
    "$SLUICE" train --resume --out "$run" --steps 1 --quiet 2>err || fail "$where: the lock of dead ranks holds"
done

# A silent launcher is gone, too: its host or the network has failed.
mkfifo line
sleep 1000 >line &
pid=$!
fields() { printf 'd%s\0p%s\0s1\0asleep\0a1000\0' "$work" "$(command -v sleep)"; }
rc=0
{ printf 'sluice order 1 %d\n' "$(fields | wc -c)" && fields && timeout 20 cat line; } |
    timeout 20 "$SLUICE" launch --serve 2>err || rc=$?
[ $rc -eq 5 ] || fail "a silent launcher: exit $rc"
grep -q "the launcher is gone" err || fail "a silent launcher is not named"
kill $pid
pid=
rc=0
echo "no order" | "$SLUICE" launch --serve 2>err || rc=$?
[ $rc -eq 3 ] || fail "no order: exit $rc"

# A directory with 200 characters, blanks, quotes and a command in it; no key on any command line.
here="$work/it's \$(touch nasty); x$(printf 'y%.0s' $(seq 200))"
mkdir "$here"
cd "$here"
start run "${hosts[@]}"
for cmdline in /proc/[0-9]*/cmdline; do
    ! grep -qs "SLUICE_KEY" "$cmdline" || fail "a key on a command line: $cmdline"
done
kill -TERM $pid
ends 0 "a long directory"
[ -d "$here/run/ckpt" ] || fail "the run is not in the directory of the launcher"
cd "$work"
for bad in 'a=127.0.0.1;touch nasty' "a=\$(touch nasty)" 'a;touch nasty=127.0.0.1'; do
    rc=0
    timeout 20 "$SLUICE" launch -n 1 --hosts "$bad" --agent "$work/agent/ssh" -- list models >out 2>err || rc=$?
    [ $rc -eq 2 ] || fail "$bad: exit $rc"
done
[ -z "$(find / -xdev -maxdepth 2 -name nasty 2>/dev/null)$(find "$work" -name nasty)" ] || fail "a shell has read a host or directory"
