#!/usr/bin/env bash
# sluice doctor: every finding has a state, a bad one also a command; removed programs are noticed.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v python3 >/dev/null || { echo "SKIPPED: no python3" && exit 77; }

"$SLUICE" doctor --json >"$work/all.json" || fail "exit $?"
"$SLUICE" doctor --quick --json >"$work/quick.json" || fail "--quick: exit $?"
"$SLUICE" doctor --quick >"$work/quick.txt"
grep -q $'\033' "$work/quick.txt" && fail "colours in a file"
grep -q '^  ok       cores ' "$work/quick.txt" || fail "no cores: $(cat "$work/quick.txt")"

# The same machine with an empty PATH, no models, few open files.
mkdir "$work/empty"
rc=0
(ulimit -n 64 && PATH=$work/empty exec "$SLUICE" doctor --json) >"$work/poor.json" || rc=$?
[ "$rc" = 0 ] || fail "without compilers it can still train, but doctor exits $rc"
# mpirun that refuses as Open MPI does for root
cat >"$work/empty/mpirun" <<'SH'
#!/bin/sh
[ "$1" = --version ] && echo "mpirun (Some MPI) 9.9" && exit 0
echo "mpirun refuses to run as root"
exit 1
SH
chmod +x "$work/empty/mpirun"
PATH=$work/empty:/usr/bin:/bin "$SLUICE" doctor --json >"$work/refused.json"

python3 - "$work" <<'PY'
import json, sys

def load(name):
    report = json.load(open(f"{sys.argv[1]}/{name}.json"))
    assert set(report) == {"ok", "checks"}, report
    for c in report["checks"]:
        assert set(c) - {"fix"} == {"group", "name", "state", "needed", "what"}, c
        assert c["state"] in ("ok", "missing", "fails"), c
        assert (c["state"] == "ok") != ("fix" in c), c
        assert c["what"] and c["group"] in ("machine", "ranks", "gpus", "tools"), c
    names = [(c["group"], c["name"]) for c in report["checks"]]
    assert len(names) == len(set(names)), "twice"
    return report, {c["name"]: c for c in report["checks"]}

report, every = load("all")
assert report["ok"]
for name in ("cores", "binding", "memory", "clock", "models", "launch", "MPI module", "CUDA", "cc"):
    assert name in every, name
assert every["launch"]["state"] == "ok", every["launch"]
_, quick = load("quick")
assert "launch" not in quick and "cc" not in quick
_, poor = load("poor")
assert poor["cc"]["state"] == "missing" and poor["cc"]["fix"] == "apt-get install gcc libc6-dev", poor["cc"]
assert poor["xxhash.h"]["state"] == "missing"
assert poor["mpirun"]["state"] == "missing" and poor["open files"]["state"] == "fails"
_, refused = load("refused")
assert refused["MPI flavour"]["what"] == "mpirun (Some MPI) 9.9"
assert refused["mpirun"]["state"] == "fails" and "as root" in refused["mpirun"]["what"], refused["mpirun"]
assert "OMPI_ALLOW_RUN_AS_ROOT=1" in refused["mpirun"]["fix"]
print(f"count: {len(every)} findings here")
PY
