"""The work of `./dev bench truth`; see truth.sh. Standard library only."""
import argparse
import contextlib
import functools
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from truth_page import GOALS, percent, summary, write_document

# model, sizes, samples per step, two numbers of micro-batches (doubled for 8 workers, so that every worker has at least
# one): for few cores, for many
FEW, MANY = [
    ("gpt-nano", "L=4,C=192,H=6,T=64,P=64", 16, (4, 8)),
    ("bert-base", "L=2,C=256,H=4,F=1024,T=64,P=64,V=4000", 16, (4, 8)),
    ("mlp", "W=1024,L=4", 512, (4, 8)),
    ("resnet18", "cifar=1", 8, (4, 8)),
    ("residual-lstm", "V=256,T=32,L=4,C=384,classes=0", 16, (4, 8)),
    ("mmt", "L=1,C=256,H=4,F=1024,T=32", 16, (4, 8)),
], [
    ("gpt-nano", "L=8,C=192,H=6,T=64,P=64", 16, (4, 8)),
    ("bert-base", "L=4,C=256,H=4,F=1024,T=64,P=64,V=2000", 16, (4, 8)),
    ("mlp", "W=1536,L=8", 256, (4, 8)),
    ("resnet18", "cifar=1", 8, (4, 8)),
    ("residual-lstm", "V=256,T=32,L=8,C=384,classes=0", 16, (4, 8)),
    ("mmt", "L=2,C=256,H=4,F=1024,T=32", 16, (4, 8)),
]
# schedule, recompute, transport; neighbours differ in most of it. Of the two numbers of micro-batches every model has one on
# every number of workers, the other one on the next: one table serves all rows of a model and a number of workers. zb-h1 is
# where there are two micro-batches per worker.
VARIANTS = [
    ("1f1b", "none", "threads"),
    ("2bw", "none", "threads"),
    ("gpipe", "none", "threads"),
    ("1f1b", "none", "mpi"),
    ("zb-h1", "none", "threads"),
    ("1f1b", "all", "threads"),
    ("2bw", "none", "mpi"),
    ("stash", "none", "threads"),
    ("gpipe", "all", "threads"),
]
ALONE = [("1f1b", "none", "threads"), ("1f1b", "all", "threads")]  # one worker with all the threads
STALE = ("2bw", "stash")  # without a flush
LEAST = 8  # steps of a run with one, of which the first half is warm-up
EDGE = 3  # steps at the end that do not count without a flush: draining takes less than two


class Failed(Exception):
    pass


TROUBLE = (Failed, subprocess.TimeoutExpired, ValueError)  # of one row: it is said, and the others go on


def call(args, timeout=600):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        own = [line for line in said if line.startswith("sluice:")] or said[-1:]  # mpirun says more
        raise Failed("%s: %s" % (" ".join(args), own[0] if own else "exit %d" % done.returncode))
    return done.stdout


def workers_on(cores, options):
    return options.workers or [w for w in (1, 2, 4, 8) if w <= cores < 8 * w]


def configurations(options):
    """The configurations as dictionaries, in the order of models, for all --cores; those after the first use every second
    number of workers. With SHARE 2, every second configuration; all schedules and transports still occur."""
    models = MANY if max(cores for cores, *_ in options.cores) >= 8 else FEW
    for number, (name, sizes, samples, micros) in enumerate(models):
        if options.only and name not in options.only:
            continue
        shapes = [(*which, w) for which in options.cores for w in workers_on(which[0], options)]
        first = len(workers_on(options.cores[0][0], options))
        for shape, (cores, share, start, p) in enumerate(shapes):
            if shape >= first and (number + shape) % 2:
                continue
            times = max(1, p // 4)
            micro = micros[(number // 2 + shape) % 2] * times  # apart from what is left out by number + shape
            for at, (schedule, recompute, transport) in enumerate(VARIANTS if p > 1 else ALONE):
                if (at + number + shape) % share != start or options.transport not in (None, transport):
                    continue
                if transport == "mpi" and not shutil.which("mpirun") or schedule == "zb-h1" and micro < 2 * p:
                    continue
                yield {"model": name, "sizes": sizes, "batch": samples * times, "workers": p,
                       "threads": max(1, cores // p), "schedule": schedule,
                       "micro": micro, "recompute": recompute, "transport": transport}


def key_of(c):
    return "-".join(str(c[k]) for k in ("model", "workers", "threads", "schedule", "micro", "recompute", "transport"))


def model_args(c):
    return [c["model"]] + (["--set", c["sizes"]] if c["sizes"] else [])


def by_table(wanted):
    """Group configurations that share a cost table: model, workers, micro-batch size. Largest groups first, so that an
    exhausted budget loses the fewest rows."""
    groups = {}
    for c in wanted:
        groups.setdefault((c["model"], c["workers"], c["threads"], c["batch"] // c["micro"]), []).append(c)
    return sorted(groups.values(), key=lambda group: -len(group))


def profile(sluice, c, turn, directory, options):
    """Measure a new cost table in every turn, right before the runs: the speed of a shared computer changes."""
    samples = c["batch"] // c["micro"]
    path = os.path.join(directory, "%s-%dx%d-%d-turn%d.cost" % (c["model"], c["workers"], c["threads"], samples, turn))
    if options.bytes:
        return path
    call([sluice, "profile"] + model_args(c) +
         ["--micro-batch", str(samples), "--busy", str(c["workers"]), "--threads", str(c["threads"]),
          "--rounds", str(options.rounds), "--seconds", str(options.profile), "-o", path, "--quiet"])
    return path


def machine_in(directory):
    return os.path.join(directory, "here.machine")


def predict(sluice, c, cost, directory):
    path = os.path.join(directory, key_of(c) + ".plan")
    plan = json.loads(call(
        [sluice, "plan"] + model_args(c) +
        ["--cost", cost, "--machine", machine_in(directory), "--devices", str(c["workers"]), "--straight",
         "--planner", "even", "--schedule", c["schedule"], "--recompute", c["recompute"], "--batch", str(c["batch"]),
         "--micro", str(c["micro"]), "-o", path, "--json", "--quiet"]))
    return dict(c, cost=cost, plan=path, predicted_s=plan["forecast_ns"] * 1e-9, even_s=plan["step_ns"] * 1e-9,
                predicted_bytes=plan["process_bytes"], stages=len(plan["stages"]), ranks=plan["devices"],
                bubble=plan["bubble"], action_ns=[s["action_ns"] for s in plan["stages"]])


def steady_step(path, stale):
    """Seconds of a step in the steady state, which starts after almost a second: in the second
    half. Without a flush single steps are longer and shorter, as stages run ahead of each other, and the last ones belong
    to draining; with one the median counts."""
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    times = [r["ms"] for r in rows if r.get("event", "step") == "step" and "ms" in r]
    late = times[len(times) // 2:]
    return 1e-3 * (statistics.mean(late[:-EDGE]) if stale else statistics.median(late))


def train_args(sluice, p, steps):
    """Train with a small learning rate: stale weights on synthetic data diverge, and subnormal gradients take a CPU ten
    times as long."""
    return [sluice, "train"] + model_args(p) + \
        ["--plan", p["plan"], "--schedule", p["schedule"], "--batch", str(p["batch"]), "--micro", str(p["micro"]),
         "--threads", str(p["threads"]), "--steps", str(steps), "--lr", "1e-6", "--json", "--quiet"]


@functools.lru_cache(maxsize=None)
def mpirun_options():
    """Options against Open MPI's binding, which gives each of two ranks one core; MPICH has no such options."""
    if "Open MPI" not in call(["mpirun", "--version"]):
        return []
    return ["--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])


def run_once(sluice, p, seconds):
    stale = p["schedule"] in STALE
    steps = int(min(400, max(4 * EDGE if stale else LEAST, seconds / p["predicted_s"])))
    args = train_args(sluice, p, steps)
    if p["transport"] == "mpi":  # as many ranks as the plan has workers: there may be fewer stages than asked for
        args = ["mpirun", "-n", str(p["ranks"])] + mpirun_options() + args
    with tempfile.TemporaryDirectory() as out:
        run = json.loads(call(args + ["--out", out, "--checkpoint-every", "0"]))
        run["step_s"] = steady_step(os.path.join(out, "log.jsonl"), stale)
    return dict(run, asked=steps)


def bytes_of(p, run):
    """Predicted and measured bytes. The run itself predicts the memory of ranks."""
    if p["transport"] == "mpi":
        return sum(r["bytes"] for r in run["ranks"]), sum(r["peak_bytes"] for r in run["ranks"])
    return p["predicted_bytes"], run["peak_bytes"]


def traced(sluice, p):
    """Action times in ns of one traced run: [[kind, stage, predicted, median], ...]; kind ALL is the whole step."""
    with tempfile.TemporaryDirectory() as out:
        run = json.loads(call(train_args(sluice, p, 20) + ["--trace", "--out", os.path.join(out, "run"),
                                                           "--checkpoint-every", "0"]))
        with open(os.path.join(out, "run", "timeline.trace.json")) as file:
            spans = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X" and "start_ns" in e.get("args", {})]
    took = {}
    for e in spans:  # one stage a worker
        took.setdefault((e["cat"], e["pid"]), []).append(e["args"]["end_ns"] - e["args"]["start_ns"])
    for (kind, pid), times in took.items():  # without a flush the norm of a step is taken there
        if kind == "REDUCE":
            steps = took[("STEP", pid)]
            steps[:] = [t + sum(times) / len(steps) for t in steps]
    return [[kind, stage, p["action_ns"][stage].get(kind, 0), statistics.median(times)]
            for (kind, stage), times in sorted(took.items()) if kind in ("F", "B", "I", "W", "RECOMPUTE", "STEP")] + \
        [["ALL", 0, 1e9 * p["predicted_s"], 1e9 * run["step_s"]]]


def take_turn(sluice, group, turn, directory, options, told):
    """Profile, plan, store the predictions, run. Returns for each (prediction, run, look), the reason of a failure, or None
    if the time was over."""
    try:
        cost = profile(sluice, group[0], turn, directory, options)
        plans = [predict(sluice, c, cost, directory) for c in group]
    except TROUBLE as why:
        return [why] * len(group)
    write_down(told, *(dict(p, turn=turn) for p in plans))
    return [run_turn(sluice, p, options) for p in plans]


@contextlib.contextmanager
def kept_awake(wanted):
    """Keep every core busy with an idle-priority process: the host of a virtual computer may put two cores that slept on one
    physical core for seconds."""
    loop = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile os.getppid() == %d: os.sched_yield()"
    cores = sorted(os.sched_getaffinity(0)) if wanted else []
    busy = [subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", loop % os.getpid()]) for core in cores]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def is_over(options):
    return options.until and time.monotonic() > options.until


def run_turn(sluice, p, options):
    if is_over(options):
        return None
    try:
        run = run_once(sluice, p, options.seconds)
        return p, run, traced(sluice, p) if options.look and p["transport"] == "threads" else []
    except TROUBLE as why:
        return why


def conclude(turns):
    """Predictions and measurements over turns that were minutes apart; the spread of runs is the noise. Memory is that of the
    turn with the larger error."""
    plans, runs = [t[0] for t in turns], [t[1] for t in turns]
    said, took = max((bytes_of(p, r) for p, r in zip(plans, runs)), key=lambda b: abs(b[0] / b[1] - 1))
    return over_turns(dict(plans[0], steps=runs[0]["asked"], predictions_s=[p["predicted_s"] for p in plans],
                            evens_s=[p["even_s"] for p in plans], runs_s=[r["step_s"] for r in runs],
                            predicted_bytes=said, measured_bytes=took, look=[t[2] for t in turns if t[2]]))


def only_bytes(turns):
    """The same without times; join() uses only the memory of such a row."""
    return dict(conclude(turns), predictions_s=[], evens_s=[], runs_s=[], look=[], bytes_cores=os.cpu_count())


def join(results):
    """Merge rows of several sessions: all turns of one configuration and number of threads. Memory is that of the last one.
    Rows without times (--bytes) are dropped."""
    rows = {}
    for r in results:
        rows.setdefault((key_of(r), r["sizes"], r.get("isa")), []).append(r)
    rows = {key: same for key, same in rows.items() if any(r["runs_s"] for r in same)}
    for same in rows.values():
        first = same[0]
        for more in same[1:]:
            for k in ("predictions_s", "runs_s", "evens_s", "look"):
                first[k] += more[k]
            first.update({k: more[k] for k in ("predicted_bytes", "measured_bytes", "bytes_cores") if k in more})
        over_turns(first)
    return [same[0] for same in rows.values()]


def over_turns(r):
    """Medians over the turns. Errors are signed, in percent of the measured value; positive: the prediction is too high.
    The error of a row is the median of the errors of its turns."""
    times = r["runs_s"]
    r["predicted_s"], r["even_s"] = statistics.median(r["predictions_s"]), statistics.median(r["evens_s"])
    r["measured_s"] = statistics.median(times)
    r["noise"] = 100 * (max(times) - min(times)) / r["measured_s"] if len(times) > 1 else None  # unknown for one run
    r["time_error"] = 100 * (statistics.median(said / took for said, took in zip(r["predictions_s"], times)) - 1)
    r["apart_error"] = 100 * (r["predicted_s"] / r["measured_s"] - 1)
    r["memory_error"] = 100 * (r["predicted_bytes"] / r["measured_bytes"] - 1)
    return r


def print_row(r, only_memory=False):
    times = "predicted_ms=%.3f measured_ms=%.3f noise=%s error=%+.1f%% " % (
        1e3 * r["predicted_s"], 1e3 * r["measured_s"], percent(r["noise"]).replace(" ", ""), r["time_error"])
    print("RESULT bench=truth model=%s workers=%d threads=%d stages=%d schedule=%s micro=%d recompute=%s transport=%s "
          "%spredicted_mib=%.1f measured_mib=%.1f memory_error=%+.1f%%"
          % (r["model"], r["workers"], r["threads"], r["stages"], r["schedule"], r["micro"], r["recompute"],
             r["transport"], "" if only_memory else times, r["predicted_bytes"] / 2**20, r["measured_bytes"] / 2**20,
             r["memory_error"]), flush=True)


def print_summary(results, failed):
    s = dict(summary(results), failed=len(failed))
    print("RESULT bench=truth " + " ".join("%s=%s" % (k, "%.2f" % v if isinstance(v, float) else v) for k, v in s.items()))
    return all(s[k] <= goal for k, goal in GOALS.items()) and s["configurations"] >= 50 and not failed


def write_down(file, *rows):
    file.write("".join(json.dumps(row) + "\n" for row in rows))
    file.flush()
    os.fsync(file.fileno())


def add_turn(group, became, turns, failed):
    for c, outcome in zip(group, became):
        key = key_of(c)
        if outcome is None:
            continue
        if isinstance(outcome, Exception):
            failed[key] = {"failed": key, "why": str(outcome)}
            turns.pop(key, None)
            print("bench truth: %s failed: %s" % (key, outcome), flush=True)
        else:
            turns.setdefault(key, []).append(outcome)


def save(directory, turns, failed, options):
    """Called after every turn, so that an interrupted bench keeps the finished turns."""
    results = [(only_bytes if options.bytes else conclude)(t) for t in turns.values()]
    with open(os.path.join(directory, "results.new"), "w") as saw:
        write_down(saw, *results, *failed.values())
    os.replace(saw.name, os.path.join(directory, "bytes.jsonl" if options.bytes else "results.jsonl"))
    return results


def bench(options, directory):
    """Run all configurations once per turn: a slow minute then affects one turn of a row, not all."""
    sluice, failed, turns, results = os.environ["SLUICE"], {}, {}, []
    told = open(os.path.join(directory, "predictions.jsonl"), "a" if options.bytes else "w")
    groups = by_table(dict(c, isa=options.isa, awake=options.awake) for c in configurations(options))
    options.until = options.budget and time.monotonic() + options.budget
    if not options.bytes:
        call([sluice, "machine", "discover", "-o", machine_in(directory), "--quiet"])
    for turn, group in itertools.product(range(options.runs), groups):
        if is_over(options):
            print("bench truth: time is over in turn %d" % (turn + 1))
            break
        group = [c for c in group if key_of(c) not in failed]
        if group:
            add_turn(group, take_turn(sluice, group, turn, directory, options, told), turns, failed)
            results = save(directory, turns, failed, options)
    for row in results:
        print_row(row, options.bytes)
    return results, list(failed.values())


def cores_of(text):
    cores, share, start = (text + ":1" * (2 - text.count(":"))).split(":")
    return int(cores), int(share), (int(start) - 1) % int(share)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench truth")
    parser.add_argument("--root", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--cores", action="append", type=cores_of, metavar="N[:SHARE[:FROM]]")
    parser.add_argument("--isa")
    parser.add_argument("--only", action="append")
    parser.add_argument("--transport", choices=("threads", "mpi"))
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--profile", type=float, default=1, help="seconds of each")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--awake", action="store_true", help="keep cores busy between runs")
    parser.add_argument("--keep")
    parser.add_argument("--bytes", action="store_true", help="measure memory only, with the cost tables in --keep")
    parser.add_argument("--look", action="store_true")
    parser.add_argument("--results", action="append")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.bytes and not options.keep:
        parser.error("--bytes: the tables that it needs are in --keep DIR")
    if options.bytes:
        options.runs, options.seconds = 1, 0  # as few steps as a run has
    options.cores = options.cores or [cores_of(str(min(2, os.cpu_count())))]
    if options.isa:
        os.environ["SLUICE_ISA"] = options.isa
    if options.results:
        rows = [json.loads(line) for path in options.results for line in open(path)]
        results, failed = join([r for r in rows if "failed" not in r]), [r for r in rows if "failed" in r]
        for row in results:
            print_row(row)
    else:
        directory = options.keep or tempfile.mkdtemp()
        os.makedirs(directory, exist_ok=True)
        try:
            with kept_awake(options.awake):
                results, failed = bench(options, directory)
        finally:
            if not options.keep:
                shutil.rmtree(directory)
    if not results:
        sys.exit("bench truth: no configuration was measured")
    if options.bytes:
        sys.exit(1 if failed else 0)
    met = print_summary(results, failed)
    if options.write:
        write_document(results, failed, os.path.join(options.root, "docs", "results", "forecasts.md"))
    sys.exit(0 if met or options.only else 1)


if __name__ == "__main__":
    main()
