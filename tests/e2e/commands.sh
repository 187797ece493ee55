#!/usr/bin/env bash
# Every command with bad input: wrong arguments; missing, empty, random or truncated files; output that cannot
# be written. The exit status is as documented, one line states the reason, no temporary file remains and no
# old file is damaged.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SLUICE_MODELS=$SRC_DIR/models
mkdir "$work/in" "$work/out"
cd "$work/in"
count=0

# ---- good files to damage ----
"$SLUICE" machine discover -o good.machine --quiet >/dev/null
"$SLUICE" profile mlp --set W=16 --rounds 1 --micro-batch 2 -o good.cost --quiet >/dev/null
"$SLUICE" plan mlp --set W=16 --machine laptop --batch 4 --micro 2 --straight -o good.plan --quiet >/dev/null
"$SLUICE" sched --chain 3 --schedule 1f1b --micro 4 -o good.sched --quiet >/dev/null
"$SLUICE" sched --chain 3 --schedule 1f1b --micro 4 -o good.csv --quiet >/dev/null
"$SLUICE" sim --chain 3 --schedule 1f1b --micro 4 -o good.trace.json --quiet >/dev/null
"$SLUICE" model mlp --set W=16 --print >good.model
"$SLUICE" train mlp --set W=16 --batch 4 --micro 2 --steps 2 --stages 2 --trace --out run --quiet
printf 'sluice-study 1\nstudy x "y"\ntrain "--data synthetic"\nseeds 1\nmode "a" "--schedule 1f1b"\ntask t "mlp" stages 2 steps 2 batch 4 micro 2 evals 1 rates 0.1\n' >good.study
cp "$SRC_DIR/tests/fuzz/corpus/piper/chain.json" good.json
head -c 3000 /dev/urandom >noise
: >empty
for kind in machine cost plan sched csv model study json trace.json; do
    cp noise "noise.$kind"
    cp empty "empty.$kind"
    head -c $(($(wc -c <"good.$kind") * 2 / 3)) "good.$kind" >"cut.$kind"
done
cp -r run norun && rm norun/config.json
cp -r run cutrun && head -c 40 run/config.json >cutrun/config.json

listing() { (cd "$work" && find . -type f ! -name err ! -name said -exec cksum {} + | sort -k3); }
listing >"$work/said"
before=$(listing)

# STATUSES ARGUMENTS...: exits with one of the statuses and a reason; leaves no file.
refuse() {
    local rc=0
    timeout 500 "$SLUICE" "${@:2}" >/dev/null 2>"$work/err" </dev/null || rc=$?
    [[ " ${1//|/ } " == *" $rc "* ]] || fail "${*:2}: exit $rc, not $1: $(cat "$work/err")"
    reason "${*:2}"
}
reason() { # COMMAND
    grep -q '^sluice: .' "$work/err" || fail "$1: says nothing: $(cat "$work/err")"
    if grep -nE 'Sanitizer|runtime error|^ *#[0-9]+ 0x|Segmentation|[Aa]ssert|core dumped|terminate called' "$work/err"; then
        fail "$1: a stack trace"
    fi
    [ "$before" = "$(listing)" ] || fail "$1: leaves or changes files: $(diff <(echo "$before") <(listing))"
    count=$((count + 1))
}
out=$work/out/x

# ---- wrong arguments: 2 ----
commands=$("$SLUICE" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
    refuse 2 "$command" --no-such-option
    [ "$command" = completion ] || [ "$command" = launch ] || refuse 2 "$command" a b c d e f
done
for command in check ckpt compare completion eval export import launch model plan profile report sample sched sim study train verify; do
    refuse 2 "$command"
done
refuse 2 nosuchcommand
refuse 2 train mlp --steps many
refuse 2 train mlp --steps
refuse 2 train mlp --steps -4
refuse 2 train mlp --steps 4 --steps 5
refuse 2 train mlp --micro 0
refuse 2 train mlp --quiet=yes
refuse 2 check mlp
refuse 2 check mlp --stages 2 --steps 0
refuse 2 report good.sched
refuse 2 report good.sched -o "$out.nosuchending"
refuse 2 report run -o "$out.svg"
refuse 2 sim --chain 3 --schedule 1f1b --micro 4 --totals -o "$out.html"
refuse 2 sim good.sched --costs 'Q=3'
refuse 2 sched --chain 3 --micro 4
refuse 2 export good.plan
refuse 2 ckpt convert run
refuse 2 man nosuch
refuse 2 list nosuch
refuse 2 completion tcsh
refuse 2 machine show nosuch
refuse 2 launch -n 0 -- train mlp
refuse 2 plan good.json -o "$out.plan"
refuse 2 profile mlp --micro-batch 1,,2 -o "$out.cost"

# ---- files: 3 ----
for bad in nowhere empty noise cut; do
    refuse 3 model "$bad.model"
    refuse 3 train "$bad.model" --steps 1 --out "$out"
    refuse 3 check "$bad.model" --stages 2
    refuse 3 profile "$bad.model" -o "$out.cost"
    refuse 3 plan "$bad.model" --machine laptop -o "$out.plan"
    refuse 3 plan mlp --machine "./$bad.machine" -o "$out.plan"
    refuse 3 plan mlp --machine laptop --cost "$bad.cost" -o "$out.plan"
    refuse 3 machine check "$bad.machine" -o "$out.machine"
    refuse '1|3' verify "$bad.sched"
    [ "$bad" = cut ] || refuse '1|3' verify "$bad.csv" # fewer cells may be a schedule, too
    refuse 3 sched "$bad.plan" --schedule 1f1b --micro 4 -o "$out.sched"
    refuse '1|3' sim "$bad.sched" -o "$out.html"
    refuse 3 report "$bad.trace.json" -o "$out.html"
    [ "$bad" = cut ] || refuse '1|3' report "$bad.csv" -o "$out.html"
    refuse 3 export "$bad.plan" --to dot -o "$out.dot"
    refuse 3 import piper "$bad.json"
    refuse 3 study "$bad.study" --out "$out"
    refuse 3 train mlp --set W=16 --plan "$bad.plan" --steps 1 --out "$out"
done
for bad in nowhere norun cutrun empty; do
    refuse 3 eval "$bad"
    refuse 3 sample "$bad"
done
for bad in nowhere empty; do
    refuse 3 ckpt ls "$bad"
    refuse 3 ckpt verify "$bad"
    refuse 3 ckpt convert "$bad" -o "$out.safetensors"
    refuse 3 compare run "$bad"
    refuse 3 train mlp --steps 1 --init "$bad"
done
refuse 3 report cutrun -o "$out.html"
refuse 3 train mlp --data nowhere.txt --steps 1
refuse 3 launch -n 2 --quiet -- train nowhere.model --steps 1

# ---- refused: 1 ----
refuse 1 train mlp --out run --steps 2
refuse 1 sched --chain 3 --schedule interleaved --chunks 2 --micro 4 -o "$out.sched"
refuse 1 plan mlp --set W=16 --machine laptop --schedule 1f1b --straight --batch 4 --micro 2 --memory 1KiB -o "$out.plan"
refuse 1 verify good.sched --memory 1

# ---- output that cannot be written: 4 ----
writers=(
    "machine discover -o OUT.machine"
    "profile mlp --set W=16 --rounds 1 --micro-batch 2 -o OUT.cost"
    "plan mlp --set W=16 --machine laptop --batch 4 --straight -o OUT.plan"
    "sched --chain 3 --schedule 1f1b --micro 4 -o OUT.sched"
    "sched --chain 3 --schedule 1f1b --micro 4 -o OUT.csv"
    "sim good.sched -o OUT.html"
    "sim good.sched -o OUT.svg"
    "sim good.sched -o OUT.trace.json"
    "sim good.sched -o OUT.txt"
    "report good.sched -o OUT.html"
    "report run -o OUT.html"
    "export good.plan --to dot -o OUT.dot"
    "ckpt convert run -o OUT.safetensors"
)
for writer in "${writers[@]}"; do
    ending=${writer##*OUT}
    echo old >"$out$ending"
    before=$(listing)
    read -ra words <<<"${writer/OUT/$out}"
    # ulimit -f 0 acts as a full disk. The old file stays.
    rc=0
    said=$( (ulimit -f 0 && exec "$SLUICE" "${words[@]}") 2>&1 >/dev/null </dev/null) || rc=$?
    echo "$said" >"$work/err"
    [ "$rc" = 4 ] || fail "$writer without room: exit $rc: $said"
    reason "$writer without room"
    rm "$out$ending"
    before=$(listing)
    for place in "$work/in/empty/x" "$work/nowhere/x"; do
        read -ra words <<<"${writer/OUT/$place}"
        refuse 4 "${words[@]}"
    done
done
mkdir "$work/pages"
for place in "$work/in/empty" "$work/nowhere"; do refuse 4 man -o "$place"; done
refuse 4 train mlp --set W=16 --steps 1 --out "$work/in/empty/run"
refuse 4 study good.study --out "$work/in/empty/study"
# Standard output is full.
for args in "list models" "version" "--help" "train --help" "model mlp" "sim good.sched" "verify good.sched" "man train" \
    "completion bash" "machine ls" "doctor --quick" "eval run" "ckpt ls run" "compare run run" "export good.plan --to dot"; do
    read -ra words <<<"$args"
    rc=0
    "$SLUICE" "${words[@]}" >/dev/full 2>"$work/err" || rc=$?
    [ "$rc" = 4 ] || fail "$args >/dev/full: exit $rc"
    reason "$args >/dev/full"
done

# ---- a disk that fills up ----
if unshare -rm true 2>/dev/null; then
    mkdir "$work/disk"
    cat >"$work/full.sh" <<'END'
mount -t tmpfs -o size=64k tmpfs "$1" || exit 77
head -c 62000 /dev/zero >"$1/ballast"
rc=0
"$SLUICE" sim --chain 16 --schedule 1f1b --micro 64 -o "$1/x.html" --quiet >/dev/null 2>"$2" || rc=$?
[ "$(ls "$1")" = ballast ] || { ls -la "$1" && exit 1; }
[ "$rc" = 4 ] || exit 2
rc=0
"$SLUICE" ckpt convert run -o "$1/x.safetensors" --quiet >/dev/null 2>"$2" || rc=$?
[ "$(ls "$1")" = ballast ] || { ls -la "$1" && exit 1; }
[ "$rc" = 4 ] || exit 2
END
    rc=0
    unshare -rm bash "$work/full.sh" "$work/disk" "$work/err" >"$work/said" || rc=$?
    [ "$rc" = 77 ] || [ "$rc" = 0 ] || fail "a full disk: $rc $(cat "$work/said" "$work/err")"
    rm -r "$work/disk" "$work/full.sh"
    count=$((count + 2))
fi

# ---- killed while writing: the old or the new file is complete, and no other file remains ----
target=$work/out/big.trace.json
args=(sim --chain 12 --schedule 1f1b --micro 100 --quiet -o "$target")
"$SLUICE" "${args[@]}" >/dev/null
new=$(cksum <"$target")
# Without O_TMPFILE a temporary file may remain.
unnamed=yes
python3 -c 'import os, sys; os.open(sys.argv[1], os.O_TMPFILE | os.O_WRONLY)' "$work/out" 2>/dev/null || unnamed=no
tries=20
[ "$SL_PRESET" = release ] || tries=4
for try in $(seq "$tries"); do
    echo old >"$target"
    "$SLUICE" "${args[@]}" >/dev/null 2>&1 &
    pid=$!
    # Kills at various moments: after a time, or when the file begins to grow.
    sleep "0.0$((try % 10))$((RANDOM % 10))"
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    [ "$(head -c 4 "$target")" = "old" ] || [ "$(cksum <"$target")" = "$new" ] || fail "killed: half a file"
    # A complete file under a temporary name: killed before the rename. Anything else is a failure.
    for file in "$work"/out/*; do
        [ "$file" != "$target" ] || continue
        [ "$(cksum <"$file")" = "$new" ] || [ "$unnamed" = no ] || fail "killed: $file is left"
        rm "$file"
    done
    count=$((count + 1))
done
echo "count: $count bad days of $(wc -w <<<"$commands") commands"
