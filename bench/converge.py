"""Convergence of asynchronous modes: trains every mode with several seeds, compares validation losses with the
synchronous mode of the same seed, and writes a table (standard output, table.md) and a page of curves
(converge.html).

A run in Sluice has the bits of its one-process meaning whatever the number of cores, so losses may be measured
anywhere. Times are those of the schedule played by the simulator (F = 1, B = 2, equal stages, no message costs),
and say so.
"""
import argparse
import html
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time

ADAMW = "adamw:beta2=0.99,wd=0.01"
NADAM = "nadam:decoupled=1,wd=0.01,beta2=0.99"

# name: schedule, policy, optimizer (None: the task's), micro-batches per step (0: as many as stages), verdict
MODES = {
    "1f1b": ("1f1b", "none", None, 0, "all"),
    "2bw": ("2bw", "none", None, 0, "all"),
    "2bw-predict": ("2bw", "2bw-predict", None, 0, "all"),
    "2bw+feedback": ("2bw", "error-feedback", None, 0, "all"),
    "stash": ("stash", "none", None, 0, "stage"),
    "stash, one verdict": ("stash", "none", None, 0, "all"),
    "spectrain": ("async", "spectrain", None, 0, "stage"),
    "xpipe": ("async", "xpipe", None, 0, "stage"),
    "pipeoptim": ("async", "pipeoptim", None, 0, "stage"),
    "pipemare": ("async", "pipemare", None, 0, "stage"),
    "nesterov-async": ("stash", "nesterov-async", NADAM, 0, "stage"),
    "paci (async, m = p)": ("paci", "none", None, 0, "stage"),
    "1f1b, m = 1": ("1f1b", "none", None, 1, "all"),
    "async, m = 1": ("async", "none", None, 1, "stage"),
    "spectrain, m = 1": ("async", "spectrain", None, 1, "stage"),
}
FIVE = ["1f1b", "2bw", "2bw-predict", "stash", "spectrain", "paci (async, m = p)"]

# What is trained. `batch` samples per step with m = stages; with m = 1 a step has batch/stages samples, there are
# `stages` times as many steps, and the learning rate is divided by sqrt(stages).
TASKS = {
    "gpt-tiny": dict(model="gpt-tiny", data="tinyshakespeare.txt", stages=8, batch=16, steps=400, lr=5e-4,
                     sets=["T=64,C=96,H=4"], optimizer=ADAMW, modes=list(MODES), evals=8, samples=256),
    "lstm": dict(model="residual-lstm", data="tinyshakespeare.txt", stages=4, batch=16, steps=200, lr=2e-3,
                 sets=["classes=0,V=256,T=48,L=4,C=96"], optimizer=ADAMW, modes=FIVE, evals=10, samples=256),
    "convnet": dict(model="lenet", data="mnist-t10k-images-idx3-ubyte.gz", stages=4, batch=32, steps=600, lr=1e-3,
                    sets=[], optimizer=ADAMW, modes=FIVE, evals=10, samples=1000),
    "two-branch": dict(model="bench/models/two-branch.model", data="mnist-t10k-images-idx3-ubyte.gz", stages=4,
                       batch=32, steps=600, lr=1e-3, sets=[], optimizer=ADAMW, modes=FIVE, evals=10, samples=1000,
                       cut="branches", dag="a>b,a>c,b>d,c>d"),
}

# 97.5 % quantiles of Student's distribution, by degrees of freedom
T95 = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    p.add_argument("--sluice", help="the binary (default: build/release/sluice)")
    p.add_argument("--data", help="folder with the data (default: ../shared/data)")
    p.add_argument("--out", help="folder for runs, table and page (default: build/converge)")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="runs at a time, each on a core of its own")
    p.add_argument("--tasks", default=",".join(TASKS))
    p.add_argument("--steps", type=float, default=1, help="factor on the steps of all tasks")
    p.add_argument("--limit", type=float, default=5400, help="seconds after which no run is started")
    p.add_argument("--small", action="store_true", help="gpt-tiny with 32 tokens, width 96, batch 8: a twelfth of the work")
    p.add_argument("--quick", action="store_true", help="gpt-tiny and the branching model, few steps: minutes")
    args = p.parse_args()
    args.sluice = args.sluice or os.path.join(args.root, "build/release/sluice")
    args.out = args.out or os.path.join(args.root, "build/converge")
    if not args.data:
        args.data = os.path.join(args.root, "../shared/data")
        if not os.path.isdir(args.data):
            args.data = "/".join([args.root, "..", "..", "shared", "data"])
    if args.quick:
        args.steps, args.limit = min(args.steps, 0.15), min(args.limit, 240)
    return args


def command(args, task, mode, seed, out):
    t, (schedule, policy, optimizer, micro, verdict) = TASKS[task], MODES[mode]
    m = micro or t["stages"]
    batch, more = (t["batch"], 1) if m > 1 else (t["batch"] // t["stages"], t["stages"])
    steps = max(4, int(t["steps"] * args.steps)) * more
    every = max(1, steps // t["evals"])
    line = [args.sluice, "train", t["model"], "--data", os.path.join(args.data, t["data"]), "--stages",
            str(t["stages"]), "--schedule", schedule, "--policy", policy, "--verdict", verdict, "--optimizer", optimizer or t["optimizer"],
            "--batch", str(batch), "--micro", str(m), "--steps", str(steps), "--lr", repr(t["lr"] / math.sqrt(more)),
            "--lr-schedule", "cosine:warmup=%d,min=0.1" % max(1, steps // 12), "--clip", "0", "--seed", str(seed),
            "--eval-every", str(every), "--eval-samples", str(t["samples"]), "--out", out, "--models", os.path.join(args.root, "models"), "--quiet"]
    if "cut" in t:
        line += ["--cut", t["cut"]]
    for s in t["sets"]:
        line += ["--set", s]
    return line


def read_curve(out, tokens_per_step):
    curve = []
    with open(os.path.join(out, "log.jsonl")) as log:
        for text in log:
            line = json.loads(text)
            if "eval_loss" in line:
                loss = line["eval_loss"]
                curve.append((line["step"] * tokens_per_step, loss if loss is not None else math.inf))
    return curve


def pin(slot):
    """One core per job: the stages of a run are threads, and a run on one core has the same bits."""
    cores = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, {cores[slot % len(cores)]})


def run_one(args, task, mode, seed, slot):
    name = "%s-%s-%d" % (task, "".join(c if c.isalnum() else "_" for c in mode), seed)
    out = os.path.join(args.out, "runs", name)
    done = os.path.join(args.out, "runs", name + ".json")
    line = command(args, task, mode, seed, out)
    key = " ".join(line[1:]).replace(args.out, "").replace(args.data, "").replace(args.root, "")
    if os.path.exists(done):
        with open(done) as f:
            result = json.load(f)
        if result["key"] == key:
            return result
    shutil.rmtree(out, ignore_errors=True)
    begin = time.time()
    end = subprocess.run(line, cwd=args.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                         preexec_fn=pin(slot))
    if end.returncode != 0:
        raise RuntimeError("%s\n%s" % (" ".join(line), end.stderr))
    samples = TASKS[task]["batch"] / (TASKS[task]["stages"] if MODES[mode][3] == 1 else 1)
    result = dict(key=key, task=task, mode=mode, seed=seed, curve=read_curve(out, samples),
                  seconds=time.time() - begin)
    shutil.rmtree(out, ignore_errors=True)
    with open(done, "w") as f:
        json.dump(result, f)
    return result


def run_all(args):
    """All runs, seeds outermost so that a limit leaves whole seeds; [result]."""
    os.makedirs(os.path.join(args.out, "runs"), exist_ok=True)
    tasks = [t for t in args.tasks.split(",")]
    todo = [(t, m, s) for s in range(1, args.seeds + 1) for t in tasks for m in TASKS[t]["modes"]]
    results, errors, lock, begin = [], [], threading.Lock(), time.time()

    def work(slot):
        while True:
            with lock:
                if not todo or errors or time.time() - begin > args.limit:
                    return
                item = todo.pop(0)
            try:
                result = run_one(args, *item, slot)
            except Exception as e:  # told by the main thread
                with lock:
                    errors.append(e)
                return
            with lock:
                results.append(result)
                print("run %-12s %-20s seed %d: best %.4f last %.4f, %.0f s" % (
                    item[0], item[1], item[2], min(l for _, l in result["curve"]), result["curve"][-1][1],
                    result["seconds"]), file=sys.stderr)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(args.jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    if todo:
        print("converge: the time limit left %d runs out" % len(todo), file=sys.stderr)
    return results


def step_time(args, task, mode):
    """Time of a step in units of a micro-batch's forward, from the simulator, per `batch` samples."""
    t, (schedule, policy, _, micro, verdict) = TASKS[task], MODES[mode]
    m = micro or t["stages"]
    shape = ["--dag", t["dag"]] if "dag" in t else ["--chain", str(t["stages"])]
    line = [args.sluice, "sched", *shape, "--schedule", schedule, "--policy", policy, "--micro",
            str(m), "--iters", "40", "--costs", "F=1000,B=2000", "--json"]
    if policy == "none":
        at = line.index("--policy")
        del line[at:at + 2]
    if verdict == "all" and schedule != "1f1b":
        line.append("--together")
    out = json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return out["step_ns"] / 1000 * (t["stages"] if m == 1 else 1)


def interval(values):
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, math.inf
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1))
    return mean, T95[min(n - 1, len(T95) - 1)] * spread / math.sqrt(n)


def crossing(curve, target):
    """Samples after which the curve has come down to the target, between evaluations by a straight line."""
    last = None
    for x, y in curve:
        if y <= target:
            if last is None or last[1] == y:
                return x
            return last[0] + (x - last[0]) * (last[1] - target) / (last[1] - y)
        last = (x, y)
    return None


def summarise(args, results):
    """Rows of the table: task, mode, last, difference, interval, best, difference, time to target."""
    rows = []
    for task in args.tasks.split(","):
        of = {}
        for r in results:
            if r["task"] == task:
                of.setdefault(r["mode"], {})[r["seed"]] = r["curve"]
        base = of.get("1f1b", {})
        if not base:
            continue
        target = sum(c[-1][1] for c in base.values()) / len(base) * 1.03
        base_time = None
        for mode in TASKS[task]["modes"]:
            ref = of.get("1f1b, m = 1", {}) if MODES[mode][3] == 1 else base
            seeds = sorted(set(of.get(mode, {})) & set(ref))
            if not seeds:
                continue
            last = [of[mode][s][-1][1] for s in seeds]
            best = [min(l for _, l in of[mode][s]) for s in seeds]
            d_last = interval([100 * (a / ref[s][-1][1] - 1) for a, s in zip(last, seeds)])
            d_best = interval([100 * (a / min(l for _, l in ref[s]) - 1) for a, s in zip(best, seeds)])
            at = [crossing(of[mode][s], target) for s in seeds]
            when = None
            if all(a is not None for a in at):
                when = sum(at) / len(at) / TASKS[task]["batch"] * step_time(args, task, mode)
            if mode == "1f1b":
                base_time = when
            rows.append(dict(task=task, mode=mode, seeds=len(seeds), last=sum(last) / len(last), d_last=d_last,
                             best=sum(best) / len(best), d_best=d_best, target=target, when=when,
                             faster=base_time / when if when and base_time else None,
                             curves=[of[mode][s] for s in seeds]))
    return rows


def put_table(rows):
    lines = ["| task | mode | seeds | last loss | difference, % | best loss | difference, % | sooner (simulated) |",
             "|---|---|---|---|---|---|---|---|"]
    for r in rows:
        faster = "%.2fx" % r["faster"] if r["faster"] else "not reached"
        lines.append("| %s | %s | %d | %.4f | %+.2f +- %.2f | %.4f | %+.2f +- %.2f | %s |" % (
            r["task"], r["mode"], r["seeds"], r["last"], *r["d_last"], r["best"], *r["d_best"], faster))
    return "\n".join(lines) + "\n"


COLOURS = ["#111111", "#1f77b4", "#2ca02c", "#17becf", "#9467bd", "#c5b0d5", "#d62728", "#ff7f0e", "#8c564b",
           "#e377c2", "#7f7f7f", "#bcbd22", "#555555", "#ff9896", "#98df8a"]


def mean_curve(curves):
    return [(p[0][0], sum(l for _, l in p) / len(p)) for p in zip(*curves)]


def put_chart(task, rows):
    """One task's mean validation curves as SVG, the later part magnified."""
    width, height, left, top = 760, 420, 60, 20
    curves = [(r["mode"], mean_curve(r["curves"])) for r in rows]
    curves = [(m, [p for p in c if math.isfinite(p[1])]) for m, c in curves]
    end = max(p[0] for _, c in curves for p in c)
    low = min(p[1] for _, c in curves for p in c)
    firsts = [c[len(c) // 3][1] for _, c in curves if c]
    high = max(low * 1.05, min(max(firsts), low * 1.6))
    x = lambda v: left + (width - left - 20) * v / end
    y = lambda v: top + (height - top - 40) * (high - min(v, high)) / (high - low)
    out = ['<svg viewBox="0 0 %d %d" role="img" aria-label="validation loss of %s">' % (width, height, task)]
    for i in range(6):
        value = low + (high - low) * i / 5
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" '
                   'text-anchor="end" font-size="11">%.3f</text>' % (left, width - 20, y(value), y(value), left - 6,
                                                                    y(value) + 4, value))
    out.append('<text x="%d" y="%d" font-size="11" text-anchor="end">%d samples</text>' % (width - 20, height - 8, end))
    for i, (mode, c) in enumerate(curves):
        points = " ".join("%.1f,%.1f" % (x(a), y(b)) for a, b in c)
        dash = ' stroke-dasharray="5 3"' if MODES[mode][3] == 1 else ""
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="%s"%s><title>%s</title></polyline>' % (
            points, COLOURS[list(MODES).index(mode)], 3 if mode == "1f1b" else 1.6, dash, html.escape(mode)))
    out.append("</svg>")
    key = "".join('<span><i style="background:%s"></i>%s</span> ' % (COLOURS[list(MODES).index(m)], html.escape(m))
                  for m, _ in curves)
    return '<h2>%s</h2>%s<p class="key">%s</p>' % (html.escape(task), "".join(out), key)


def put_page(rows):
    body = []
    for task in dict.fromkeys(r["task"] for r in rows):
        body.append(put_chart(task, [r for r in rows if r["task"] == task]))
    cells = "".join("<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(c.strip()) for c in line.split("|")[1:-1])
                    for line in put_table(rows).splitlines()[2:])
    head = "".join("<th>%s</th>" % html.escape(c.strip()) for c in put_table(rows).splitlines()[0].split("|")[1:-1])
    return """<!doctype html><meta charset="utf-8"><title>Sluice: convergence of asynchronous modes</title>
<style>body{font:15px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}svg{width:100%%}
table{border-collapse:collapse;font-size:13px}td,th{border-bottom:1px solid #ddd;padding:3px 8px;text-align:left}
.key span{margin-right:1em;white-space:nowrap}.key i{display:inline-block;width:1.2em;height:4px;margin-right:.3em}</style>
<h1>Convergence of asynchronous modes</h1>
<p>Mean validation loss over seeds; equal tokens, equal hyper-parameters, no clipping. Differences are from the
synchronous run (1f1b) of the same seed, in percent of its loss, with a 95 %% interval; rows with m = 1 are compared with
1f1b at m = 1. "Sooner": time until the loss is within 3 %% of the last synchronous one, by the steps measured here and the step time
that the simulator gives for equal stages, B = 2F, no message costs. Dashed: one micro-batch per step.</p>
%s<h2>Table</h2><table><tr>%s</tr>%s</table>""" % ("".join(body), head, cells)


def main():
    args = arguments()
    if args.small or args.quick:
        TASKS["gpt-tiny"].update(sets=["T=32,C=96,H=4"], batch=8)
    if args.quick:
        args.tasks = "gpt-tiny,two-branch" if args.tasks == ",".join(TASKS) else args.tasks
        TASKS["gpt-tiny"].update(samples=64, evals=4, modes=FIVE)
    for task in args.tasks.split(","):
        data = os.path.join(args.data, TASKS[task]["data"])
        if not os.path.exists(data):
            sys.exit("converge: %s is not there; --data DIR says where" % TASKS[task]["data"])
    rows = summarise(args, run_all(args))
    table = put_table(rows)
    print(table)
    for r in rows:
        print("RESULT bench=converge task=%s mode=%s seeds=%d last=%.4f diff_pct=%.3f ci_pct=%.3f best=%.4f "
              "best_diff_pct=%.3f best_ci_pct=%.3f sooner=%s" % (
                  r["task"], r["mode"].replace(" ", ""), r["seeds"], r["last"], *r["d_last"], r["best"], *r["d_best"],
                  "%.3f" % r["faster"] if r["faster"] else "no"))
    with open(os.path.join(args.out, "table.md"), "w") as f:
        f.write(table)
    with open(os.path.join(args.out, "converge.html"), "w") as f:
        f.write(put_page(rows))
    print("converge: %s" % os.path.join(args.out, "converge.html"), file=sys.stderr)


if __name__ == "__main__":
    main()
