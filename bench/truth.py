"""The work of `./dev bench truth`; see truth.sh. Standard library only."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# model, sizes, samples per step, two numbers of micro-batches, both for up to 4 workers and twice as many for 8, so that
# every worker has one at least: for few cores, for many
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
# schedule, which of the numbers (-1: two per worker, which zero-bubble schedules need), recompute, transport;
# neighbours differ in most of it
VARIANTS = [
    ("1f1b", 0, "none", "threads"),
    ("2bw", 0, "none", "threads"),
    ("gpipe", 0, "none", "threads"),
    ("1f1b", 0, "none", "mpi"),
    ("zb-h1", -1, "none", "threads"),
    ("1f1b", 0, "all", "threads"),
    ("2bw", 0, "none", "mpi"),
    ("1f1b", 1, "none", "threads"),
    ("stash", 1, "none", "threads"),
    ("gpipe", 1, "all", "threads"),
]
ALONE = [("1f1b", 0, "none", "threads"), ("1f1b", 1, "all", "threads")]  # one worker with all the threads
STALE = ("2bw", "stash")  # without a flush
EDGE = 3  # their steps at either end that do not count: filling and draining takes less than two
GOALS = {"time_median": 5.0, "time_p95": 12.0, "memory": 3.0, "memory_under": 1.0}


class Failed(Exception):
    pass


def call(args, timeout=600):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        own = [line for line in said if line.startswith("sluice:")] or said[-1:]  # mpirun says more
        raise Failed("%s: %s" % (" ".join(args), own[0] if own else "exit %d" % done.returncode))
    return done.stdout


def configurations(options):
    """What is planned and run: dictionaries, in the order of models. With --share 2 every other one, so that
    all schedules, transports and so on are there on every number of workers."""
    for number, (name, sizes, samples, micros) in enumerate(MANY if options.cores >= 8 else FEW):
        if options.only and name not in options.only:
            continue
        for shape, p in enumerate(options.workers or [w for w in (1, 2, 4, 8) if w <= options.cores < 8 * w]):
            times = max(1, p // 4)
            for at, (schedule, micro, recompute, transport) in enumerate(VARIANTS if p > 1 else ALONE):
                if (at + number + shape) % options.share:
                    continue
                if transport == "mpi" and not shutil.which("mpirun"):
                    continue
                yield {"model": name, "sizes": sizes, "batch": samples * times, "workers": p,
                       "threads": max(1, options.cores // p), "schedule": schedule,
                       "micro": micros[micro] * times if micro >= 0 else 2 * p,
                       "recompute": recompute, "transport": transport}


def key_of(c):
    return "-".join(str(c[k]) for k in ("model", "workers", "schedule", "micro", "recompute", "transport"))


def model_args(c):
    return [c["model"]] + (["--set", c["sizes"]] if c["sizes"] else [])


def profile(sluice, c, directory, options):
    """A table of its own for every run, with all workers busy, right before it: a computer that is not alone on its
    host does not have the same speed all day."""
    path = os.path.join(directory, key_of(c) + ".cost")
    call([sluice, "profile"] + model_args(c) +
         ["--micro-batch", str(c["batch"] // c["micro"]), "--busy", str(c["workers"]), "--threads", str(c["threads"]),
          "--rounds", str(options.rounds), "-o", path, "--quiet"])
    return path


def predict(sluice, c, cost, directory):
    path = os.path.join(directory, key_of(c) + ".plan")
    plan = json.loads(call(
        [sluice, "plan"] + model_args(c) +
        ["--cost", cost, "--machine", "here", "--devices", str(c["workers"]), "--straight", "--planner", "even",
         "--schedule", c["schedule"], "--recompute", c["recompute"], "--batch", str(c["batch"]),
         "--micro", str(c["micro"]), "-o", path, "--json", "--quiet"]))
    return dict(c, cost=cost, plan=path, predicted_s=plan["forecast_ns"] * 1e-9, even_s=plan["step_ns"] * 1e-9,
                predicted_bytes=plan["process_bytes"], stages=len(plan["stages"]), ranks=plan["devices"],
                bubble=plan["bubble"], action_ns=[s["action_ns"] for s in plan["stages"]])


def steady_step(path):
    """Seconds from step to step in the middle of a run: without a flush single ones are longer and shorter, as
    stages run ahead of each other, and the first and last ones belong to filling and draining."""
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    times = [r["ms"] for r in rows if r.get("event", "step") == "step" and "ms" in r]
    edge = max(len(times) // 6, EDGE)
    return 1e-3 * statistics.mean(times[edge:-edge])


def train_args(sluice, p, steps):
    """With a learning rate that changes little: stale weights on made-up data soon diverge, gradients become
    subnormal numbers, and a CPU takes ten times as long for those."""
    return [sluice, "train"] + model_args(p) + \
        ["--plan", p["plan"], "--schedule", p["schedule"], "--batch", str(p["batch"]), "--micro", str(p["micro"]),
         "--threads", str(p["threads"]), "--steps", str(steps), "--lr", "1e-6", "--json", "--quiet"]


def run_once(sluice, p, seconds):
    stale = p["schedule"] in STALE
    steps = int(min(200, max(4 * EDGE + 2 if stale else 8, seconds / p["predicted_s"])))
    args = train_args(sluice, p, steps)
    if p["transport"] == "mpi":  # as many ranks as the plan has workers: there may be fewer stages than asked for
        args = ["mpirun", "-n", str(p["ranks"]), "--oversubscribe"] + args
        if os.geteuid() == 0:
            args[1:1] = ["--allow-run-as-root"]
    with tempfile.TemporaryDirectory() as out:
        if stale:
            args += ["--out", out, "--checkpoint-every", "0"]
        run = json.loads(call(args))
        if stale:
            run["step_s"] = steady_step(os.path.join(out, "log.jsonl"))
    return dict(run, asked=steps)


def bytes_of(p, run):
    """Foretold and taken. Ranks have high-water marks and messages of their own: foretold by the run itself."""
    if p["transport"] == "mpi":
        return sum(r["bytes"] for r in run["ranks"]), sum(r["peak_bytes"] for r in run["ranks"])
    return p["predicted_bytes"], run["peak_bytes"]


def traced(sluice, p):
    """Nanoseconds that the actions of one more run take, by kind and stage: [[kind, stage, foretold, median], ...]"""
    with tempfile.TemporaryDirectory() as out:
        call(train_args(sluice, p, 20) + ["--trace", "--out", os.path.join(out, "run"), "--checkpoint-every", "0"])
        with open(os.path.join(out, "run", "timeline.trace.json")) as file:
            spans = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X" and "start_ns" in e.get("args", {})]
    took = {}
    for e in spans:  # one stage a worker
        took.setdefault((e["cat"], e["pid"]), []).append(e["args"]["end_ns"] - e["args"]["start_ns"])
    again = [s.get("RECOMPUTE", 0) if p["recompute"] == "all" else 0 for s in p["action_ns"]]  # it is part of B there
    return [[kind, stage, p["action_ns"][stage].get(kind, 0) + (again[stage] if kind in "BI" else 0),
             statistics.median(times)]
            for (kind, stage), times in sorted(took.items()) if kind in ("F", "B", "I", "W", "STEP")]


def take_turn(sluice, c, directory, options, told):
    """Profile, plan, the prediction to disk, run."""
    p = predict(sluice, c, profile(sluice, c, directory, options), directory)
    write_down(told, p)
    run = run_once(sluice, p, options.seconds)
    look = traced(sluice, p) if options.look and p["transport"] == "threads" else []
    return p, run, look


def conclude(turns):
    """The medians of what was predicted and of what was measured, over turns that were minutes apart; how far the
    runs are apart is the noise. Memory is that of the turn with the larger error."""
    plans, runs = [t[0] for t in turns], [t[1] for t in turns]
    foretold, times = [p["predicted_s"] for p in plans], [r["step_s"] for r in runs]
    said, took = max((bytes_of(p, r) for p, r in zip(plans, runs)), key=lambda b: abs(b[0] / b[1] - 1))
    return errors(dict(plans[0], steps=runs[0]["asked"], predicted_s=statistics.median(foretold), predictions_s=foretold,
                       measured_s=statistics.median(times), runs_s=times,
                       even_s=statistics.median(p["even_s"] for p in plans),
                       noise=100 * (max(times) - min(times)) / statistics.median(times), spread=runs[0]["step_spread"],
                       predicted_bytes=said, measured_bytes=took, look=[t[2] for t in turns if t[2]]))


def errors(r):
    """Signed, in percent of what was measured: positive when the prediction is too high."""
    r["time_error"] = 100 * (r["predicted_s"] / r["measured_s"] - 1)
    r["memory_error"] = 100 * (r["predicted_bytes"] / r["measured_bytes"] - 1)
    return r


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def summary(results):
    step = [abs(r["time_error"]) for r in results]
    memory = [r["memory_error"] for r in results]
    return {"configurations": len(results), "time_median": statistics.median(step), "time_p95": quantile(step, 0.95),
            "time_worst": max(step), "noise_median": statistics.median(r["noise"] for r in results),
            "noise_p95": quantile([r["noise"] for r in results], 0.95), "memory": max(map(abs, memory)),
            "memory_under": max(0.0, -min(memory))}


def print_row(r):
    print("RESULT bench=truth model=%s workers=%d threads=%d stages=%d schedule=%s micro=%d recompute=%s transport=%s "
          "predicted_ms=%.3f measured_ms=%.3f noise=%.1f%% error=%+.1f%% predicted_mib=%.1f measured_mib=%.1f "
          "memory_error=%+.1f%%"
          % (r["model"], r["workers"], r["threads"], r["stages"], r["schedule"], r["micro"], r["recompute"],
             r["transport"], 1e3 * r["predicted_s"], 1e3 * r["measured_s"], r["noise"], r["time_error"],
             r["predicted_bytes"] / 2**20, r["measured_bytes"] / 2**20, r["memory_error"]), flush=True)


def print_summary(results, failed):
    s = dict(summary(results), failed=len(failed))
    print("RESULT bench=truth " + " ".join("%s=%s" % (k, v if isinstance(v, int) else "%.2f" % v) for k, v in s.items()))
    return all(s[k] <= goal for k, goal in GOALS.items()) and s["configurations"] >= 50 and not failed


def breakdown(results):
    """Where errors come from: the same numbers for the rows that share something."""
    asked = [("schedule " + s, lambda r, s=s: r["schedule"] == s) for s in sorted({r["schedule"] for r in results})]
    asked += [("transport " + t, lambda r, t=t: r["transport"] == t) for t in ("threads", "mpi")]
    asked += [("recompute " + t, lambda r, t=t: r["recompute"] == t) for t in ("none", "all")]
    asked += [("%d x %d threads" % shape, lambda r, shape=shape: (r["workers"], r["threads"]) == shape)
              for shape in sorted({(r["workers"], r["threads"]) for r in results})]
    asked += [(m, lambda r, m=m: r["model"] == m) for m, _, _, _ in MANY]
    asked += [("noise below 3 %", lambda r: r["noise"] < 3), ("noise of 3 % and more", lambda r: r["noise"] >= 3)]
    for name, holds in asked:
        rows = [r for r in results if holds(r)]
        if rows:
            signed = [r["time_error"] for r in rows]
            yield (name, len(rows), statistics.median(signed), statistics.median(map(abs, signed)),
                   quantile(list(map(abs, signed)), 0.95), statistics.median(r["noise"] for r in rows))


HOW = """Written by `./dev bench truth --write`. Every run was planned by `sluice plan` from a profile taken with all workers
busy right before it (`sluice profile --busy`), its prediction was on disk before it began, and no constant of the step
time is fitted to runs. %(where)s

- *Predicted* is the plan's `forecast_ns`: the schedule played with every worker as fast, from pass to pass, as the profile
  saw that worker (the `tempo` of its table): a pipeline waits for whoever is slow.
- *Measured* and *predicted* are medians over %(runs)s of the same configuration, each with a profile and a prediction of
  its own; all configurations took their first turn before any took its second. Of each run, the median step, or without a
  flush (2bw, stash) the mean time from step to step in its middle.
  *Noise* is how far these runs are apart, the slowest from the fastest: no single prediction can be better than that.
- *Memory* of threads: what the plan says the process needs, against its high-water mark less that of the empty
  process. 1.5 MiB of it, what a pipeline's process maps beside one worker's, is a constant that was set from runs of
  some of these models (gpt-nano) in other sizes. Of ranks: what each foretells before its first step, against its own
  high-water mark, all ranks together.
- The learning rate is 1e-6: stale weights on made-up data soon diverge, and a CPU takes ten times as long for the
  subnormal numbers that follow; no profile foresees that.
- Errors are in percent of what was measured; positive: the prediction is too high.

"""


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"] + ["| " + " | ".join(r) + " |" for r in rows]


def places(results):
    """Where rows ran: by cores and instructions."""
    count = {}
    for r in results:
        key = (r["workers"] * r["threads"], r.get("isa"))
        count[key] = count.get(key, 0) + 1
    return " ".join("%d rows ran on %d core%s%s." % (
        n, cores, "s" if cores > 1 else "",
        ", with instructions no better than %s (`--isa %s`): the clock of others' load shows less in them" % (isa, isa)
        if isa else "") for (cores, isa), n in sorted(count.items(), key=lambda x: -x[0][0]))


def turns_of(results):
    runs = sorted({len(r["runs_s"]) for r in results})
    text = "%d" % runs[0] if len(runs) == 1 else "%d to %d" % (runs[0], runs[-1])
    return text + (" run" if runs[-1] == 1 else " runs")


def by_action(results):
    """Medians over stages and rows: what actions took in traced runs, against what the table said of them."""
    errors_of = {}
    for r in results:
        for kind, _, said, took in (x for turn in r.get("look", []) for x in turn):
            errors_of.setdefault((r["schedule"], kind), []).append(100 * (said / took - 1) if took else 0.0)
    return [(schedule, kind, str(len(e)), "%+.1f %%" % statistics.median(e),
             "%.1f %%" % statistics.median(map(abs, e))) for (schedule, kind), e in sorted(errors_of.items())]


def write_document(results, failed, path):
    s = summary(results)
    lines = ["# Predicted against measured", ""]
    lines += (HOW % {"where": places(results), "runs": turns_of(results)}).splitlines()
    lines += ["**%d configurations%s: error of the step time, median %.1f %%, 95th percentile %.1f %%, worst %.1f %%**"
              % (s["configurations"], " (%d more failed)" % len(failed) if failed else "", s["time_median"],
                 s["time_p95"], s["time_worst"]),
              "(wanted: %.0f %% and %.0f %%). Noise: median %.1f %%, 95th percentile %.1f %%. Memory: within %.1f %%, at most %.1f %% under"
              % (GOALS["time_median"], GOALS["time_p95"], s["noise_median"], s["noise_p95"], s["memory"],
                 s["memory_under"]),
              "(wanted: %.0f %% and %.0f %%)." % (GOALS["memory"], GOALS["memory_under"]), "", "## Errors by cause", ""]
    lines += table(("rows with", "number", "median, signed", "median", "95th percentile", "noise"),
                   [(n, str(c), "%+.1f %%" % m, "%.1f %%" % a, "%.1f %%" % q, "%.1f %%" % x)
                    for n, c, m, a, q, x in breakdown(results)])
    even = [abs(100 * (r["even_s"] / r["measured_s"] - 1)) for r in results if "even_s" in r]
    if even:
        lines += ["", "Had every pass taken its median (the plan's `step_ns`, which planners compare): median %.1f %%, "
                  "95th percentile %.1f %%, signed %+.1f %%." % (
                      statistics.median(even), quantile(even, 0.95),
                      statistics.median(100 * (r["even_s"] / r["measured_s"] - 1) for r in results if "even_s" in r))]
    if by_action(results):
        lines += ["", "## Actions of traced runs", ""]
        lines += table(("schedule", "action", "stages", "median, signed", "median"), by_action(results))
    lines += ["", "## All rows", ""]
    lines += table(("model", "workers x threads", "schedule", "micro-batches", "recompute", "transport", "predicted ms",
                    "measured ms", "error", "noise", "memory MiB", "error"),
                   [(r["model"], "%d x %d" % (r["workers"], r["threads"]), r["schedule"], str(r["micro"]), r["recompute"],
                     r["transport"], "%.2f" % (1e3 * r["predicted_s"]), "%.2f" % (1e3 * r["measured_s"]),
                     "%+.1f %%" % r["time_error"], "%.1f %%" % r["noise"], "%.0f" % (r["predicted_bytes"] / 2**20),
                     "%+.1f %%" % r["memory_error"]) for r in results])
    if failed:
        lines += ["", "Failed: " + "; ".join("`%s`" % f["failed"] for f in failed) + "."]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def write_down(file, row):
    file.write(json.dumps(row) + "\n")
    file.flush()
    os.fsync(file.fileno())


def bench(options, directory):
    """All configurations once, then all again, and so on: a slow minute is in one turn of a row, not in all of them."""
    sluice, failed, turns = os.environ["SLUICE"], {}, {}
    told = open(os.path.join(directory, "predictions.jsonl"), "w")
    begin, wanted = time.monotonic(), [dict(c, isa=options.isa) for c in configurations(options)]
    for c in wanted * options.runs:
        key = key_of(c)
        if options.budget and time.monotonic() - begin > options.budget:
            print("bench truth: time is over after %d of %d turns" % (sum(map(len, turns.values())),
                                                                      len(wanted) * options.runs))
            break
        if key in failed:
            continue
        try:
            turns.setdefault(key, []).append(take_turn(sluice, c, directory, options, told))
        except (Failed, subprocess.TimeoutExpired, ValueError) as why:  # one row less, and it is said
            failed[key] = {"failed": key, "why": str(why)}
            turns.pop(key)
            print("bench truth: %s failed: %s" % (key, why), flush=True)
    results = [conclude(turns[key]) for key in turns]
    with open(os.path.join(directory, "results.jsonl"), "w") as saw:
        for row in results + list(failed.values()):
            write_down(saw, row)
    for row in results:
        print_row(row)
    return results, list(failed.values())


def main():
    parser = argparse.ArgumentParser(prog="./dev bench truth")
    parser.add_argument("--root", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, default=min(2, os.cpu_count()))
    parser.add_argument("--isa")
    parser.add_argument("--only", action="append")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, action="append")
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--keep")
    parser.add_argument("--look", action="store_true")
    parser.add_argument("--results", action="append")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.isa:
        os.environ["SLUICE_ISA"] = options.isa
    if options.results:
        rows = [json.loads(line) for path in options.results for line in open(path)]
        results, failed = [r for r in rows if "failed" not in r], [r for r in rows if "failed" in r]
        for row in results:
            print_row(row)
    else:
        directory = options.keep or tempfile.mkdtemp()
        os.makedirs(directory, exist_ok=True)
        try:
            results, failed = bench(options, directory)
        finally:
            if not options.keep:
                shutil.rmtree(directory)
    if not results:
        sys.exit("bench truth: no configuration was measured")
    met = print_summary(results, failed)
    if options.write:
        write_document(results, failed, os.path.join(options.root, "docs", "truth.md"))
    sys.exit(0 if met or options.only else 1)


if __name__ == "__main__":
    main()
