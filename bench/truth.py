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

# model, sizes, samples per step, two numbers of micro-batches
MODELS = [
    ("gpt-nano", "L=6,C=192,H=6,T=128,P=128", 16, (4, 8)),
    ("bert-base", "L=4,C=256,H=4,F=1024,T=128,P=128,V=4000", 16, (4, 8)),
    ("mlp", "W=2048,L=4", 512, (4, 8)),
    ("resnet18", "cifar=1", 16, (4, 8)),
    ("residual-lstm", "V=256,T=64,L=4,C=512,classes=0", 16, (4, 8)),
    ("mmt", "L=2,C=256,H=4,F=1024,T=64", 16, (4, 8)),
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
STALE = ("2bw", "stash")  # without a flush
GOALS = {"time_median": 5.0, "time_p95": 12.0, "memory": 3.0, "memory_under": 1.0}


class Failed(Exception):
    pass


def call(args, timeout=600):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, text=True)
    if done.returncode != 0:
        raise Failed("%s: %s" % (" ".join(args), done.stderr.strip().splitlines()[-1:] or done.returncode))
    return done.stdout


def configurations(options):
    """What is planned and run: dictionaries, in the order of models. With --share 2 every other one, so that
    all schedules, transports and so on are there on every number of workers."""
    for number, (name, sizes, batch, micros) in enumerate(MODELS):
        if options.only and name not in options.only:
            continue
        for shape, p in enumerate(options.workers or [w for w in (2, 4, 8) if w <= options.cores < 8 * w]):
            for at, (schedule, micro, recompute, transport) in enumerate(VARIANTS):
                if (at + number + shape) % options.share:
                    continue
                yield {"model": name, "sizes": sizes, "batch": batch, "workers": p,
                       "threads": max(1, options.cores // p), "schedule": schedule,
                       "micro": micros[micro] if micro >= 0 else 2 * p,
                       "recompute": recompute, "transport": transport}


def key_of(c):
    return "-".join(str(c[k]) for k in ("model", "workers", "schedule", "micro", "recompute"))


def model_args(c):
    return [c["model"]] + (["--set", c["sizes"]] if c["sizes"] else [])


def profile(sluice, group, directory, options):
    """One table per model and number of workers, with all of them busy."""
    c = group[0]
    path = os.path.join(directory, "%s-%d.cost" % (c["model"], c["workers"]))
    sizes = sorted({c["batch"] // g["micro"] for g in group})
    call([sluice, "profile"] + model_args(c) +
         ["--micro-batch", ",".join(map(str, sizes)), "--busy", str(c["workers"]), "--threads", str(c["threads"]),
          "--rounds", str(options.rounds), "-o", path, "--quiet"])
    return path


def predict(sluice, c, cost, directory):
    path = os.path.join(directory, key_of(c) + ".plan")
    plan = json.loads(call(
        [sluice, "plan"] + model_args(c) +
        ["--cost", cost, "--machine", "here", "--devices", str(c["workers"]), "--straight", "--planner", "even",
         "--schedule", c["schedule"], "--recompute", c["recompute"], "--batch", str(c["batch"]),
         "--micro", str(c["micro"]), "-o", path, "--json", "--quiet"]))
    return dict(c, plan=path, predicted_s=plan["step_ns"] * 1e-9, predicted_bytes=plan["process_bytes"],
                stages=len(plan["stages"]))


def steady_step(path, steps):
    """Seconds from step to step in the middle of a run: without a flush single ones are longer and shorter, as
    stages run ahead of each other, and the first and last ones belong to filling and draining."""
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    times = [r["ms"] for r in rows if r.get("event", "step") == "step" and "ms" in r]
    middle = times[steps // 3:2 * steps // 3]
    return 1e-3 * statistics.mean(middle)


def measure(sluice, p, seconds):
    stale = p["schedule"] in STALE
    steps = int(min(200, max(48 if stale else 8, seconds / p["predicted_s"])))
    args = [sluice, "train"] + model_args(p) + \
        ["--plan", p["plan"], "--schedule", p["schedule"], "--batch", str(p["batch"]), "--micro", str(p["micro"]),
         "--threads", str(p["threads"]), "--steps", str(steps), "--json", "--quiet"]
    if p["transport"] == "mpi":
        args = ["mpirun", "-n", str(p["workers"]), "--oversubscribe"] + args
        if os.geteuid() == 0:
            args[1:1] = ["--allow-run-as-root"]
    with tempfile.TemporaryDirectory() as out:
        if stale:  # --slack 0: plans are made without it
            args += ["--slack", "0", "--out", out, "--checkpoint-every", "0"]
        run = json.loads(call(args))
        if stale:
            run["step_s"] = steady_step(os.path.join(out, "log.jsonl"), steps)
    return dict(p, steps=steps, measured_s=run["step_s"], spread=run["step_spread"], measured_bytes=run["peak_bytes"])


def errors(results):
    """Signed, in percent of what was measured: positive when the prediction is too high."""
    for r in results:
        r["time_error"] = 100 * (r["predicted_s"] / r["measured_s"] - 1)
        r["memory_error"] = None
        if r["transport"] == "threads":  # ranks have high-water marks of their own
            r["memory_error"] = 100 * (r["predicted_bytes"] / r["measured_bytes"] - 1)
    return results


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def summary(results):
    step = [abs(r["time_error"]) for r in results]
    memory = [r["memory_error"] for r in results if r["memory_error"] is not None]
    return {"configurations": len(results), "time_median": statistics.median(step), "time_p95": quantile(step, 0.95),
            "time_worst": max(step), "memory": max(map(abs, memory)) if memory else 0.0,
            "memory_under": max(0.0, -min(memory)) if memory else 0.0}


def print_row(r):
    print("RESULT bench=truth model=%s workers=%d threads=%d stages=%d schedule=%s micro=%d recompute=%s transport=%s "
          "predicted_ms=%.3f measured_ms=%.3f spread=%.2f error=%+.1f%% predicted_mib=%.1f measured_mib=%.1f memory_error=%s"
          % (r["model"], r["workers"], r["threads"], r["stages"], r["schedule"], r["micro"], r["recompute"],
             r["transport"], 1e3 * r["predicted_s"], 1e3 * r["measured_s"], r["spread"], r["time_error"],
             r["predicted_bytes"] / 2**20, r["measured_bytes"] / 2**20,
             "-" if r["memory_error"] is None else "%+.1f%%" % r["memory_error"]), flush=True)


def print_summary(results):
    s = summary(results)
    print("RESULT bench=truth " + " ".join("%s=%s" % (k, v if isinstance(v, int) else "%.2f" % v) for k, v in s.items()))
    return all(s[k] <= goal for k, goal in GOALS.items()) and s["configurations"] >= 50


def write_document(results, path):
    s = summary(results)
    cores = max(r["workers"] * r["threads"] for r in results)
    lines = [
        "# Predicted against measured", "",
        "Written by `./dev bench truth --write`. Every row was planned by `sluice plan` from a profile that was taken with",
        "all workers busy, its prediction was in a file before the run began, and no constant is fitted to the runs.",
        "On %d cores; times are medians over the steps of a run, from its first pass until the last worker has updated." % cores,
        "", "%d configurations: error of the step time, median %.1f %%, 95th percentile %.1f %%, worst %.1f %%"
        % (s["configurations"], s["time_median"], s["time_p95"], s["time_worst"]),
        "(wanted: %.0f %% and %.0f %%). Memory (workers that are threads of one process, against its high-water mark) within"
        % (GOALS["time_median"], GOALS["time_p95"]),
        "%.1f %%, at most %.1f %% under (wanted: %.0f %% and %.0f %%)." %
        (s["memory"], s["memory_under"], GOALS["memory"], GOALS["memory_under"]), "",
        "| model | workers x threads | schedule | micro-batches | recompute | transport | predicted ms | measured ms "
        "| error | memory MiB | error |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for r in results:
        lines.append("| %s | %d x %d | %s | %d | %s | %s | %.2f | %.2f | %+.1f %% | %.0f | %s |" % (
            r["model"], r["workers"], r["threads"], r["schedule"], r["micro"], r["recompute"], r["transport"],
            1e3 * r["predicted_s"], 1e3 * r["measured_s"], r["time_error"], r["predicted_bytes"] / 2**20,
            "" if r["memory_error"] is None else "%+.1f %%" % r["memory_error"]))
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def groups(options):
    found = {}
    for c in configurations(options):
        if c["transport"] == "mpi" and not shutil.which("mpirun"):
            continue
        found.setdefault((c["model"], c["workers"]), []).append(c)
    return found.values()


def bench(options, directory):
    sluice, results = os.environ["SLUICE"], []
    told = open(os.path.join(directory, "predictions.jsonl"), "w")
    saw = open(os.path.join(directory, "results.jsonl"), "w")
    begin = time.monotonic()
    for group in groups(options):
        if options.budget and time.monotonic() - begin > options.budget:
            print("bench truth: no time left for %s on %d workers" % (group[0]["model"], group[0]["workers"]))
            continue
        cost = profile(sluice, group, directory, options)
        predictions = [predict(sluice, c, cost, directory) for c in group]
        for p in predictions:
            told.write(json.dumps(p) + "\n")
        told.flush()
        os.fsync(told.fileno())
        for p in predictions:
            try:
                results += errors([measure(sluice, p, options.seconds)])
            except Failed as why:
                print("bench truth: %s failed: %s" % (key_of(p), why), flush=True)
                continue
            print_row(results[-1])
            saw.write(json.dumps(results[-1]) + "\n")
            saw.flush()
    return results


def main():
    parser = argparse.ArgumentParser(prog="./dev bench truth")
    parser.add_argument("--root", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, default=min(2, os.cpu_count()))
    parser.add_argument("--only", action="append")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--workers", type=int, action="append")
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--keep")
    parser.add_argument("--results")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.results:
        with open(options.results) as file:
            results = [json.loads(line) for line in file]
        for row in results:
            print_row(row)
    else:
        directory = options.keep or tempfile.mkdtemp()
        os.makedirs(directory, exist_ok=True)
        try:
            results = bench(options, directory)
        finally:
            if not options.keep:
                shutil.rmtree(directory)
    met = print_summary(results)
    if options.write:
        write_document(results, os.path.join(options.root, "docs", "truth.md"))
    sys.exit(0 if met or options.only else 1)


if __name__ == "__main__":
    main()
