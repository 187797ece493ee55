#!/usr/bin/env bash
# launch --hosts through a real sshd on the loopback address: the same checkpoint as threads, in a directory that a
# shell would misread; the ranks end with the launcher. Skipped where sshd cannot start.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
sshd=$(command -v sshd || echo /usr/sbin/sshd)
if [ ! -x "$sshd" ] || ! command -v ssh >/dev/null || ! command -v pgrep >/dev/null; then
    echo "skipped: there is no sshd (Debian package openssh-server)"
    exit 77
fi
cd "$work"
port=$((30000 + $$ % 2000))
ssh-keygen -q -t ed25519 -N "" -f host_key && ssh-keygen -q -t ed25519 -N "" -f user_key
cp user_key.pub authorized
cat >sshd_config <<TEXT
Port $port
ListenAddress 127.0.0.1
HostKey $work/host_key
PidFile $work/sshd.pid
AuthorizedKeysFile $work/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
TEXT
[ -d /run/sshd ] || mkdir /run/sshd 2>/dev/null || true
"$sshd" -f "$work/sshd_config" -E "$work/sshd.log" || true
trap 'kill "$(cat "$work/sshd.pid" 2>/dev/null)" 2>/dev/null || true; [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
agent="ssh -F none -p $port -i $work/user_key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
up=no
for _ in $(seq 50); do
    # shellcheck disable=SC2086
    if timeout 10 $agent 127.0.0.1 true 2>err; then
        up=yes
        break
    fi
    sleep 0.1
done
if [ $up = no ]; then
    echo "skipped: sshd does not start or lets nobody in here: $(tail -n 1 err sshd.log 2>/dev/null | tr '\n' ' ')"
    exit 77
fi
model=(gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3" --batch 4 --quiet --stages 2)
here="$work/it's \$(touch nasty); y$(printf 'z%.0s' $(seq 180))"
mkdir "$here"
cd "$here"
"$SLUICE" train "${model[@]}" --steps 3 --out threads
cp "$SLUICE" "$here/this user's sluice" # the name of the program goes through the shell as well
timeout 100 "$here/this user's sluice" launch -n 2 --hosts "127.0.0.1,localhost=127.0.0.1" --agent "$agent" -- train "${model[@]}" \
    --steps 3 --out "over ssh" 2>"$work/err" || fail "launch over ssh"
diff -r threads/ckpt "over ssh/ckpt" || fail "another checkpoint over ssh"
[ -z "$(find "$work" -name nasty)" ] || fail "a shell has read the directory"

"$SLUICE" launch -n 2 --hosts "127.0.0.1,localhost=127.0.0.1" --agent "$agent" --restarts 3 -- train "${model[@]}" --steps 100000000 \
    --checkpoint-every 8 --out killed 2>"$work/err" &
pid=$!
until [ -e killed/ckpt/latest ]; do kill -0 $pid 2>/dev/null || fail "ended before its first checkpoint"; done
mapfile -t ranks < <(pgrep -f -- "100000000 --checkpoint-every 8 --out killed" | grep -vx "$pid")
[ ${#ranks[@]} -ge 2 ] || fail "no ranks"
kill -KILL $pid
wait $pid 2>/dev/null || true
pid=
for _ in $(seq 500); do
    left=0
    for rank in "${ranks[@]}"; do ! kill -0 "$rank" 2>/dev/null || left=$((left + 1)); done
    [ "$left" -gt 0 ] || break
    sleep 0.02
done
[ "$left" -eq 0 ] || fail "$left processes outlive the launcher"
"$SLUICE" ckpt verify killed >/dev/null || fail "damaged"
