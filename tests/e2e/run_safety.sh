#!/usr/bin/env bash
# A run directory is not damaged or changed silently: two runs with one --out, damaged and missing checkpoints,
# --from-step, directories that cannot be read, hangup, broken output, plans and checkpoints of another model.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
cd "$work"
model=(gpt-nano --set "V=37,T=13,P=17,L=1,C=18,H=3,drop=0.1" --batch 4 --quiet)
train() { "$SLUICE" train "$@" 2>"$work/err"; }
has() { grep -q -e "$1" "$work/err" || fail "no line '$1'"; }
refuse() { # STATUS PATTERN ARGUMENTS...
    local rc=0
    train "${@:3}" >/dev/null || rc=$?
    [ $rc -eq "$1" ] || fail "${*:3}: exit $rc, not $1"
    has "$2"
}
same() { # RUN RUN
    "$SLUICE" compare "$1" "$2" >"$work/compare" || fail "$2 is not $1: $(cat "$work/compare")"
}
start() { # RUN OPTIONS...: until it has logged a step
    env --default-signal "$SLUICE" train "${model[@]}" --steps 100000000 --out "$@" 2>"$work/first" &
    pid=$!
    until [ -s "$1/log.jsonl" ]; do kill -0 $pid || fail "ended: $(cat "$work/first")"; done
}
finish() { # SIGNAL [STATUS]
    local rc=0
    kill "-$1" $pid
    wait $pid || rc=$?
    pid=
    [ $rc -eq "${2:-0}" ] || fail "SIG$1: exit $rc: $(cat "$work/first")"
}
last_step() { tail -n 1 "$1/log.jsonl" | sed 's/.*"step": \([0-9]*\).*/\1/'; }
flip() { # FILE: one byte in its middle
    python3 -c 'import sys; f = open(sys.argv[1], "r+b"); b = bytearray(f.read()); b[len(b) // 2] ^= 4; f.seek(0); f.write(b)' "$1"
}

# 1. Two runs with one --out: the second is refused and names the first, also with --resume.
for every in "" "--checkpoint-every 1"; do
    rm -rf one
    # shellcheck disable=SC2086
    start one $every
    until [ -z "$every" ] || [ -f one/ckpt/latest ]; do kill -0 $pid; done
    refuse 1 "one is in use by process $pid on host " "${model[@]}" --steps 100000000 --out one --resume
    if [ -z "$every" ]; then
        refuse 1 "one is in use by process $pid on host " "${model[@]}" --steps 3 --out one
    else
        refuse 1 "one holds a run already" "${model[@]}" --steps 3 --out one
    fi
    finish TERM
done
[ ! -e one/lock ] || fail "the lock is left behind"
"$SLUICE" ckpt verify one >/dev/null || fail "one is damaged"
# A killed holder does not count.
start two --checkpoint-every 1
until [ -f two/ckpt/latest ]; do kill -0 $pid; done
finish KILL 137
[ -e two/lock ] || fail "a killed run cannot remove its lock"
train --resume --out two --steps $(($(last_step two) + 50)) --quiet || fail "a killed holder"
[ ! -e two/lock ] || fail "the lock of a killed run stays"

# 3. The newest whole checkpoint; the reason is printed.
train "${model[@]}" --steps 6 --checkpoint-every 2 --keep 0 --out base
train "${model[@]}" --steps 8 --checkpoint-every 2 --keep 0 --out whole
damage() { # NAME COMMAND: resume a damaged copy; it ends as if nothing had happened
    rm -rf copy
    cp -r base copy
    (cd copy/ckpt && eval "$2")
    "$SLUICE" train --resume --out copy --steps 8 2>"$work/err" || fail "$1"
    same whole copy
    "$SLUICE" ckpt verify copy >/dev/null || fail "$1: a damaged checkpoint remains"
}
damage "a flipped byte" 'flip step-00000006/weights-000-of-001.safetensors'
has "step-00000006: .*is damaged: its checksum"
has "resumed after step 4"
[ -d copy/ckpt/left-step-00000006 ] || fail "the damaged one is not set aside"
damage "no latest, no manifest" 'rm latest step-00000006/manifest.json'
has "there is no file 'latest'"
has "step-00000006: manifest.json: No such file"
damage "a damaged latest" 'echo nonsense >latest'
has "latest: damaged"
has "resumed after step 6"
damage "latest names nothing" 'mv step-00000006 elsewhere'
has "resumed after step 4"
damage "two damaged ones" 'flip step-00000006/state-000-of-001.safetensors; : >step-00000004/manifest.json'
has "resumed after step 2"
rm -rf copy && cp -r base copy
for step in 2 4 6; do flip copy/ckpt/step-0000000$step/weights-000-of-001.safetensors; done
refuse 3 "no checkpoint is whole" --resume --out copy --steps 8
diff -r base/log.jsonl copy/log.jsonl || fail "the log of a refused run was touched"
# --from-step goes back; later checkpoints are set aside, later lines of the log are written again.
rm -rf copy && cp -r base copy
train --resume --from-step 2 --out copy --steps 8 || fail "--from-step"
has "resumed after step 2"
same whole copy
[ "$(grep -c '"loss"' copy/log.jsonl)" -eq 8 ] || fail "--from-step: the log has other lines"
refuse 3 "no checkpoint of step 3" --resume --from-step 3 --out base --steps 8
refuse 2 "from-step needs --resume" "${model[@]}" --from-step 2 --out base
# launch --restarts uses the same path.
rm -rf copy && cp -r base copy && flip copy/ckpt/step-00000006/weights-000-of-001.safetensors
"$SLUICE" launch -n 2 --restarts 3 -- train --resume --out copy --stages 2 --steps 8 --quiet 2>"$work/err" || fail "launch"
same whole copy

# 4. Doubt is an error: nothing is written.
rm -rf copy && cp -r base copy && rm -r copy/ckpt && echo text >copy/ckpt
cp -r copy before
refuse 3 "ckpt" --resume --out copy --steps 8
refuse 3 "ckpt" "${model[@]}" --out copy --steps 8
diff -r before copy || fail "a run whose ckpt is no directory was touched"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$work"
    rm -rf copy && cp -r base copy && chown -R 65534 copy && chown 0 copy/ckpt && chmod 700 copy/ckpt
    rc=0
    setpriv --reuid 65534 --clear-groups "$SLUICE" train --resume --out copy --steps 8 2>"$work/err" || rc=$?
    [ $rc -ne 0 ] || fail "an unreadable ckpt/ counts as no run"
    has "Permission denied"
    for file in log.jsonl config.json; do diff base/$file copy/$file || fail "an unreadable run was touched"; done
fi

# 5. Hangup saves; output that nobody reads does not end the run.
start hup
finish HUP
[ -f hup/ckpt/latest ] || fail "SIGHUP: nothing was saved"
step=$(last_step hup)
train "${model[@]}" --steps "$step" --out hup_whole
same hup_whole hup
"$SLUICE" train "${model[@]/--quiet/--lend}" --steps 300 --out pipe 2>&1 | head -n 3 >/dev/null || true
[ "$(last_step pipe)" = 300 ] || fail "SIGPIPE ended the run at step $(last_step pipe)"
"$SLUICE" ckpt verify pipe >/dev/null || fail "SIGPIPE: no checkpoint"

# 2. A plan of another model with as many nodes is refused.
printf 'model m\ninput x : float[B,4]\ninput y : float[B,1]\nparam w[4,4] ~ normal(0.3)\nparam v[4,1] ~ normal(0.3)\nloss mse(matmul(relu(matmul(x, w)), v), y)\n' >relu.model
sed 's/relu/tanh/' relu.model >tanh.model
train relu.model --stages 2 --steps 2 --out planned
refuse 1 "the plan is for another model" tanh.model --plan planned/plan.plan --steps 1
train relu.model --plan planned/plan.plan --steps 1 || fail "the model's own plan"
# The graph is compared by the checkpoint too, if model.model is lost.
rm planned/model.model
refuse 3 "its graph differs" tanh.model --resume --out planned --steps 3

# 5. A bad row in mid-run: the steps before it are saved, with one worker and with a pipeline; the row is named.
python3 - <<'P'
import struct, random
random.seed(1)
rows = [[random.random() for _ in range(5)] for _ in range(64)]
def put(name, rows):
    with open(name, "wb") as f:
        for r in rows:
            f.write(struct.pack("5f", *r))
put("good.f32", rows)
rows[40][1] = float("nan")
put("bad.f32", rows)
P
printf 'model m\ninput x : float[B,4]\ninput y : float[B,1]\nparam w[4,4] ~ normal(0.3)\nparam v[4,1] ~ normal(0.3)\nloss mse(matmul(relu(matmul(x, w)), v), y)\n' >rows.model
for layout in "" "--stages 2 --micro 2"; do
    rm -rf nan undisturbed
    # shellcheck disable=SC2206
    options=(rows.model --batch 4 --validation 4 $layout --checkpoint-every 100 --quiet)
    refuse 3 "row 40, value 1 of input 'x' is -\?nan, expected a number (the steps before it are saved)" "${options[@]}" \
        --data bad.f32 --steps 50 --out nan
    step=$(last_step nan)
    has "step $((step + 1)): "
    train "${options[@]}" --data good.f32 --steps "$step" --out undisturbed
    "$SLUICE" ckpt verify nan >/dev/null || fail "a bad row left a damaged checkpoint"
    "$SLUICE" compare nan undisturbed >"$work/compare" || fail "$layout: the saved state is not that of step $step: $(cat "$work/compare")"
done

# A diverged run: status 1, the number of skipped steps in --json; one bad step in the middle is none.
rc=0
train rows.model --validation 4 --batch 4 --lr 1e6 --clip 0 --optimizer sgd --steps 20 --quiet --json --out wild \
    >wild.json || rc=$?
[ $rc -eq 1 ] || fail "a diverged run exits $rc"
has "diverged: its last [0-9]* steps were skipped"
skipped=$(sed -n 's/.*"skipped": \([0-9]*\),/\1/p' wild.json)
[ "$skipped" = "$(grep -c '"skipped": true' wild/log.jsonl)" ] || fail "--json counts '$skipped' skipped steps"
[ "$skipped" -gt 3 ] || fail "$skipped skipped steps"
grep -q '"diverged": true' wild.json || fail "--json does not say diverged"
train rows.model --data good.f32 --validation 4 --batch 4 --steps 20 --quiet --json >calm.json
for line in '"skipped": 0,' '"diverged": false'; do grep -q "$line" calm.json || fail "a calm run: no $line"; done
