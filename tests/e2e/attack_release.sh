#!/usr/bin/env bash
# Somebody without the key of a job: a listener in the place of rank 0, a reflector, a recorded connection sent again,
# silent and flooding connections, another user. Nobody gets in; ranks start nevertheless, nearly as fast.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
if ! command -v python3 >/dev/null; then
    echo "skipped: there is no python3"
    exit 77
fi
cd "$work"
port=$((20000 + $$ % 9000))
attack=(python3 "$SRC_DIR/tests/e2e/attack.py")
model=(gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3" --batch 4 --steps 2 --quiet)
key=0123456789abcdef0123456789abcdef
rank() { # RANK RANKS KEY WHERE ARGUMENTS...
    SLUICE_RANK=$1 SLUICE_RANKS=$2 SLUICE_KEY=$3 SLUICE_MEET=$4 SLUICE_PATIENCE=${patience:-60} \
        timeout 100 "$SLUICE" train "${model[@]}" --stages "$2" "${@:5}" 2>"err$1"
}
now() { date +%s%N; }
ready() { # FILE: the attacker stands
    until grep -q ready "$1" 2>/dev/null; do kill -0 "$pid" || fail "no attacker: $1"; done
}
ports() { port=$((port + 1)) && where=127.0.0.1:$port; }

# 1. Without a key: refused, unless it is asked for. Short keys, files of others and files that others read are no keys.
ports
refused() { # STATUS PATTERN COMMAND...
    local rc=0
    "${@:3}" 2>err >out || rc=$?
    [ $rc -eq "$1" ] || fail "${*:3}: exit $rc, not $1"
    grep -q -e "$2" err || fail "${*:3}: no line '$2'"
}
run=(env SLUICE_RANK=0 SLUICE_RANKS=2 "SLUICE_MEET=$where" SLUICE_PATIENCE=1)
refused 1 "ranks without a secret" "${run[@]}" "$SLUICE" train "${model[@]}" --stages 2
refused 2 "can be guessed" "${run[@]}" SLUICE_KEY=short "$SLUICE" train "${model[@]}" --stages 2
echo $key >keyfile && chmod 640 keyfile
refused 1 "others may use this key" "${run[@]}" SLUICE_KEY_FILE=keyfile "$SLUICE" train "${model[@]}" --stages 2
chmod 600 keyfile && ln -s keyfile keylink
refused 3 "cannot read the key" "${run[@]}" SLUICE_KEY_FILE=keylink "$SLUICE" train "${model[@]}" --stages 2
refused 1 "regular file" "${run[@]}" SLUICE_KEY_FILE=. "$SLUICE" train "${model[@]}" --stages 2
for bad in 127.0.0.1:99999 127.0.0.1:0 127.0.0.1 "::1:7" :7; do
    refused 2 "SLUICE_MEET: " "${run[@]}" SLUICE_KEY=$key SLUICE_MEET="$bad" "$SLUICE" train "${model[@]}" --stages 2
done
both() { # ARGUMENTS...: of rank 0; rank 1 has the variables of `other`
    SLUICE_RANK=1 SLUICE_RANKS=2 SLUICE_MEET="$where" SLUICE_PATIENCE=60 timeout 100 env "${other[@]}" \
        "$SLUICE" train "${model[@]}" --stages 2 "${@:2}" 2>err1 &
    pid=$!
    SLUICE_RANK=0 SLUICE_RANKS=2 SLUICE_MEET="$where" SLUICE_PATIENCE=60 timeout 100 env "$1" \
        "$SLUICE" train "${model[@]}" --stages 2 "${@:2}" 2>err0 || fail "rank 0: $(cat err0)"
    wait $pid || fail "rank 1: $(cat err1)"
    pid=
}
other=(SLUICE_NONE=)
both SLUICE_NONE= --insecure
other=("SLUICE_KEY=$key")
both SLUICE_KEY_FILE=keyfile # the same secret
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then # another user cannot read the key, and his is not accepted
    chmod 755 . && chown 65534 keyfile
    refused 1 "belongs to user 65534" env SLUICE_RANK=0 SLUICE_RANKS=2 "SLUICE_MEET=$where" SLUICE_KEY_FILE=keyfile \
        "$SLUICE" train "${model[@]}" --stages 2
    chown 0 keyfile
    refused 3 "Permission denied" setpriv --reuid 65534 --clear-groups env SLUICE_RANK=1 SLUICE_RANKS=2 "SLUICE_MEET=$where" \
        SLUICE_KEY_FILE=keyfile "$SLUICE" train "${model[@]}" --stages 2
fi

# 2. Another key: nothing connects, both ends say so.
ports
patience=2
rank 1 2 "$key-other" "$where" &
pid=$!
rc=0
rank 0 2 $key "$where" || rc=$?
[ $rc = 5 ] || fail "another key: rank 0 exits $rc"
grep -q "rank 1 did not come.*connections without the key" err0 || fail "rank 0 does not say why"
rc=0
wait $pid || rc=$?
[ $rc = 5 ] || fail "another key: rank 1 exits $rc"
grep -q "does not have the key of this job" err1 || fail "rank 1 does not say why"

# 3. A listener and a reflector in the place of rank 0 learn nothing to connect with; the rank does not accept them.
for mode in listen reflect; do
    ports
    "${attack[@]}" $mode 127.0.0.1 "$port" 5 >told &
    pid=$!
    ready told
    rc=0
    patience=2 rank 1 2 $key "$where" || rc=$?
    [ $rc = 5 ] || fail "$mode: exit $rc"
    grep -q "does not have the key of this job" err1 || fail "$mode: the rank does not say so"
    kill $pid 2>/dev/null || true
    wait $pid || true
    [ $mode = reflect ] || grep -q "after a false proof: 0" told || fail "it goes on talking: $(cat told)"
done

# 4. A recorded connection, sent again to a new job with the same key: no proof in return, and the job starts.
ports
patience=60
relay=$((port + 1)) there=$where
"${attack[@]}" record 127.0.0.1 $relay "$port" seen >told &
spy=$!
until grep -q ready told; do kill -0 $spy; done
rank 1 2 $key 127.0.0.1:$relay &
pid=$!
rank 0 2 $key "$there" || fail "recorded: rank 0"
wait $pid || fail "recorded: rank 1"
wait $spy || true
pid=
port=$relay
size=$(stat -c %s seen)
[ "$size" -gt 300 ] || fail "nothing recorded"
ports
rank 0 2 $key "$where" &
pid=$!
for _ in 1 2 3; do
    until "${attack[@]}" replay 127.0.0.1 "$port" seen $((size - 40)) >told 2>/dev/null; do kill -0 $pid || fail "replay: no rank 0"; done
    grep -q "^out 40" told || fail "replay: $(cat told)"
done
rank 1 2 $key "$where" || fail "after a replay: rank 1: $(cat err1)"
wait $pid || fail "after a replay: rank 0"
pid=

# 5. Silent and flooding connections: the start takes less than two seconds longer.
started() { # ns of a job of three ranks on $where
    local begin other=()
    begin=$(now)
    for r in 2 1; do
        rank $r 3 $key "$where" &
        other+=($!)
    done
    rank 0 3 $key "$where" || fail "rank 0: $(cat err0)"
    for p in "${other[@]}"; do wait "$p" || fail "a rank: $(cat err1 err2)"; done
    took=$(($(now) - begin))
}
model=(gpt-nano --set "V=37,T=13,P=17,L=3,C=18,H=3" --batch 4 --steps 2 --quiet)
ports
started
calm=$took
late=$((calm + 2000000000))
ports
rank 0 3 $key "$where" & # the connections come before the ranks do
first=$!
"${attack[@]}" silent 127.0.0.1 "$port" 300 >told &
pid=$!
ready told
begin=$(now)
rank 2 3 $key "$where" &
second=$!
rank 1 3 $key "$where" || fail "silent: rank 1: $(cat err1)"
wait $second || fail "silent: rank 2"
wait $first || fail "silent: rank 0"
took=$(($(now) - begin))
[ $took -lt $late ] || fail "300 silent connections: $took ns instead of $calm"
kill $pid
wait $pid 2>/dev/null || true
ports
"${attack[@]}" flood 127.0.0.1 "$port" 60 >told &
pid=$!
ready told
started
[ "$took" -lt "$late" ] || fail "a flood: $took ns instead of $calm"
kill $pid
wait $pid 2>/dev/null || true
pid=

# 6. Every address of a name: a stranger on one of them (or nobody) does not matter.
if python3 -c 'import socket; socket.socket(socket.AF_INET6).bind(("::1", 0))' 2>/dev/null; then
    ports
    where="[::1]:$port"
    started
    ports
    if command -v unshare >/dev/null && unshare -m true 2>/dev/null; then
        printf '::1 localhost\n127.0.0.1 localhost\n' >hosts
        cat >both.sh <<'SH'
mount --bind hosts /etc/hosts
python3 "$SRC_DIR/tests/e2e/attack.py" listen ::1 "$2" 20 >told6 & spy=$!
until grep -q ready told6; do kill -0 $spy; done
export SLUICE_RANKS=2 SLUICE_KEY=$1 SLUICE_MEET=localhost:$2
shift 2
SLUICE_RANK=1 "$@" 2>err1 & other=$!
SLUICE_RANK=0 "$@" 2>err0 && wait $other; rc=$?
kill $spy 2>/dev/null
exit $rc
SH
        unshare -m bash both.sh $key "$port" timeout 100 "$SLUICE" train "${model[@]}" --stages 2 || fail "::1 localhost: $(cat err0 err1)"
    fi
fi

# 7. Encryption: the same checkpoint; all ranks or none. What travels is not the text.
if "$SLUICE" launch -n 2 -- train "${model[@]}" --stages 2 --encrypt --out sealed 2>err; then
    "$SLUICE" train "${model[@]}" --stages 2 --out plain
    diff -r plain/ckpt sealed/ckpt || fail "--encrypt: another checkpoint"
    ports
    rank 1 2 $key "$where" --encrypt &
    pid=$!
    rc=0
    rank 0 2 $key "$where" || rc=$?
    [ $rc = 1 ] || fail "--encrypt on one rank: exit $rc"
    grep -q -e "--encrypt" err0 || fail "--encrypt on one rank is not named"
    wait $pid && fail "--encrypt on one rank: accepted"
    pid=
else
    grep -q "built without libsodium\|this build lacks" err || fail "--encrypt"
fi
