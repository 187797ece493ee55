#!/usr/bin/env bash
# The installed Python module with the system's python3: plan, verify, simulate, read a run; results equal
# those of the program.
set -euo pipefail
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3) || { echo "SKIPPED: no python3" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$BUILD_DIR" --prefix "$work/prefix" >"$work/log"
"$SLUICE" train gpt-nano --steps 6 --batch 4 --micro 2 --stages 2 --eval-every 3 --out "$work/run" --quiet
"$SLUICE" sim --chain 4 --schedule zb-h1 --micro 8 --costs 'F=3us,I=2us,W=2us' --json >"$work/sim.json"
"$SLUICE" model gpt-nano --json >"$work/model.json"
cd "$work"
PYTHONPATH=$work/prefix/share/sluice/python SRC_DIR=$SRC_DIR "$python" - <<'PY'
import json, math, os, sluice

src = os.environ["SRC_DIR"]
checks = 0
def check(what, condition):
    global checks
    checks += 1
    assert condition, what

assert sluice.__file__.startswith(os.getcwd()), sluice.__file__
check("version", sluice.version().count(".") == 2)

# simulate: the same numbers as the program
said = json.load(open("sim.json"))
pipe = sluice.Pipeline.chain(4)
check("unknown yet", math.isnan(pipe._stat("step_ns")))
pipe.costs("F=3us,I=2us,W=2us")
pipe.schedule("zb-h1", micros=8)
pipe.simulate()
check("step", pipe.step_ns == said["step_ns"])
check("grid", pipe.text("grid").startswith("0 |F0"))
check("svg", "</svg>" in pipe.text("svg"))
check("bubble", 0 < pipe.bubble(0) < 1 and abs(pipe.bubble(0) - (1 - pipe.busy_ns(0) / pipe.end_ns)) < 1e-12)

# round trip, and verify
again = sluice.Pipeline.from_text(pipe.text("sched"), "again.sched")
again.verify()
again.simulate()
check("same step", again.step_ns == pipe.step_ns)
check("same text", again.text("sched") == pipe.text("sched"))
lines = pipe.text("sched").splitlines(keepends=True)
first = next(i for i, line in enumerate(lines) if line.startswith("SEND"))
broken = sluice.Pipeline.from_text("".join(lines[:first] + lines[first + 1:]), "broken.sched")
try:
    broken.verify()
    check("a schedule without a send is refused", False)
except sluice.Refused as error:
    check("reason", str(error) and error.code == 1)
csv = sluice.Pipeline.from_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "x.csv")
csv.verify()
check("two ranks", csv.workers == 2)
for bad in (lambda: sluice.Pipeline.read("nosuch.plan"), lambda: sluice.Pipeline.chain(0),
            lambda: sluice.Pipeline.from_text("junk", "x.sched"), lambda: csv.text("jpeg"),
            lambda: sluice.Pipeline.chain(3).verify(), lambda: sluice.Pipeline.chain(3).simulate(),
            lambda: sluice.Pipeline.chain(3).schedule("nosuch", micros=2)):
    try:
        bad()
        check("an error is expected", False)
    except sluice.Error as error:
        check("message", str(error))

# plan
net = sluice.Net.read(f"{src}/models/gpt-nano.model")
model = json.load(open("model.json"))
check("parameters", str(int(net.parameters)) in json.dumps(model))
plan = sluice.Pipeline.plan(net, machine="1x4:mem=4G,intra=10GB/s", batch=16, micros=8, schedule="1f1b")
check("fits", 1 <= plan.stages and plan.workers <= 4)
plan.schedule()
plan.simulate()
check("predicted", plan.step_ns > 0 and plan.memory_bytes(0) > 0)
check("plan text", sluice.Pipeline.from_text(plan.text("plan"), "p.plan").text("plan") == plan.text("plan"))
try:
    sluice.Pipeline.plan(net, machine="1x2:mem=4G,intra=10GB/s", memory_bytes=100000)
    check("too little memory is refused", False)
except sluice.Refused:
    checks += 1

# runs
run = sluice.Run("run")
check("steps", [row["step"] for row in run.steps] == list(range(1, 7)))
check("losses", all(2 < loss < 10 for loss in run.losses))
check("evals", [row["step"] for row in run.evals] == [3, 6])
check("checkpoint", run.checkpoints == [6] and run.config["batch"] == 4)
print(f"count: {checks} checks")
PY
