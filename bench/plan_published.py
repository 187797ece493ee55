"""The published planners themselves on GraphPipe's three models, and `sluice plan` on the same files.

    plan_published.py SLUICE PROGRAMS [--limit S] [--keep DIR]

PROGRAMS holds what their authors published, fetched by whoever runs this (nothing of it is in this repository):
pipedream/ is a checkout of msr-fiddle/pipedream, piper/plan a build of msr-fiddle/piper's algo.cpp with a main that
takes FILE K MEMORY-GIB N BANDWIDTH-GIB and prints objective=X; a program that is not there is left out.

Nodes are layers, which favours the published programs: operators are two to twelve times as many. Times are a roofline of a
V100. A program that takes more than S CPU seconds (default 60) or GIBS of memory is stopped; Piper's refuses graphs with
more than 40,000 downsets. One RESULT line per row, with CPU seconds of both, and of `sluice plan` on the model itself, all its
operators, with as many micro-batches (model_ratio). Ours are medians of five, theirs one run. Exit status 1 when an objective
is worse than a published one. Standard library only."""
import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile

FLOPS, MEMORY_RATE, GIB = 15.7e12, 900e9, 2**30  # of a V100, in fp32
FABRIC = 12.5e9
RATES = 50e9, FABRIC  # inside a host of four, between hosts
GIBS = 12
DATA = "data"  # all branches begin there: PipeDream's program looks at what one source reaches
NOTHING = {"s": 0, "kept": 0, "params": 0, "out": 0}  # seconds of a forward pass; bytes
# model, sizes, devices, samples per device (as in plan.sh), nodes
ROWS = [(model, "", devices, samples, "layers") for devices in (4, 32) for model, samples in
        (("mmt", 16), ("dlrm", 128), ("candle-uno", 256))]
ROWS += [("candle-uno", "branches=%d" % branches, branches, 256, "layers") for branches in (4, 8, 16)]
ROWS += [("candle-uno", "branches=4", 4, 256, "operators")]  # of those, what a published program comes to an end with
MICROS = 16  # micro-batches of a batch


def elements(shape):
    """Of '[B,256,1024]', for one sample."""
    total = 1
    for size in re.findall(r"\d+", shape):
        total *= int(size)
    return total


def layer_of(scope, number, whole):
    if not whole:
        return "op %d" % number
    found = re.match(r"(.*?\.layer\.\d+)", scope)
    return found.group(1) if found else scope or "op %d" % number


def read_model(text, samples, whole):
    """Layers (or operators) {name: costs for so many samples} in an order of the model, and edges {(from, to): bytes}."""
    params, values, crossing, scope = {}, {}, {}, ""
    layers = {DATA: dict(NOTHING)}
    for number, line in enumerate(text.splitlines()):
        if line.startswith("scope"):
            scope = line[5:].strip()
        elif line.startswith("param "):
            name, shape = re.match(r"param ([\w.]+)(\[[\d,]*\])", line).groups()
            params[name] = shape
        elif line.startswith("input "):
            name, shape = re.match(r"input ([\w.]+) : \w+(\[[\w,]*\])", line).groups()
            values[name] = DATA, shape
        op = re.match(r"([\w, ]+?) = (\w+)\(([^#]*)\)\s*# (\[.*\])", line)
        if op:
            outs, kind, inside, shape = op.groups()
            args = [a.strip() for a in inside.split(",")]
            layer = layer_of(scope, number, whole)
            add_op(layers.setdefault(layer, dict(NOTHING)), kind, args, shape, params, values, samples)
            for arg in args:
                source, size = values.get(arg, (layer, ""))
                if source != layer and not (source == DATA and shape == "[]"):  # labels do not travel with the pipeline
                    crossing.setdefault((source, layer), {})[arg] = 4 * samples * elements(size)
            values.update((out.strip(), (layer, shape)) for out in outs.split(","))
    edges = {ends: sum(tensors.values()) for ends, tensors in crossing.items()}
    for (source, _), size in edges.items():
        layers[source]["out"] = max(size, layers[source]["out"]) if source != DATA else layers[source]["out"] + size
    return layers, edges


def add_op(layer, kind, args, shape, params, values, samples):
    """One operator of a layer: roofline of its forward pass."""
    of = [params[a] for a in args if a in params]
    out = samples * elements(shape)
    inputs = samples * sum(elements(values[a][1]) for a in args if a in values)
    weights = 0 if kind == "embed_bag" else sum(map(elements, of))
    flops = 0
    if kind == "matmul":
        flops = 2 * out * int(re.findall(r"\d+", of[0])[-1])
    elif kind == "attention":
        flops = 4 * out * int(re.findall(r"\d+", shape)[0])
    if kind not in ("reshape", "split"):
        layer["s"] += max(flops / FLOPS, 4 * (out + inputs + weights) / MEMORY_RATE)
        layer["kept"] += 4 * out
    layer["params"] += 4 * sum(map(elements, of))


def pipedream_text(layers, edges, _devices):
    ids = {name: "node%d" % number for number, name in enumerate(layers, 1)}
    lines = ["%s -- %s -- forward_compute_time=%.6f, backward_compute_time=%.6f, activation_size=%d, parameter_size=%d"
             % (ids[name], name.replace(" ", "_"), 1e3 * c["s"], 2e3 * c["s"], c["out"], c["params"])
             for name, c in layers.items()]
    return "\n".join(lines + ["\t%s -- %s" % (ids[a], ids[b]) for a, b in edges]) + "\n"


def piper_text(layers, edges, devices):
    ids = {name: number for number, name in enumerate(layers)}
    nodes = []
    for name, c in layers.items():
        free = {"syncTimeFw": {str(ids[a]): 0 for a, b in edges if b == name},
                "syncTimeBw": {str(ids[b]): 0 for a, b in edges if a == name}}
        kept = {"id": "vanilla", "timePerSample": 3 * c["s"], "parameterSize": c["params"],
                "memoryUsageA": c["kept"], "memoryUsageB": 4 * c["params"], **free}
        again = dict(kept, id="activation recomp", timePerSample=4 * c["s"], memoryUsageA=c["out"],
                     memoryUsageB=4 * c["params"] + c["kept"])
        nodes.append({"id": ids[name], "name": name, "TMPCs": {"1": [kept, again]}})
    return json.dumps({"maxDevices": devices, "maxMemoryPerDevice": 16 * GIB, "bandwidth": FABRIC, "mbsInBatch": MICROS,
                       "nodes": nodes, "edges": [{"sourceId": ids[a], "destId": ids[b], "communicationCost": size}
                                                 for (a, b), size in edges.items()]}, indent=1)


def timed(args, limit=None, **options):
    """Output, CPU seconds, and whether the program finished."""
    def limits():
        if limit:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            resource.setrlimit(resource.RLIMIT_AS, (GIBS * GIB, GIBS * GIB))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=limits, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.returncode == 0


def levels_of(devices):
    return [min(4, devices)] + ([devices // 4] if devices > 4 else [])


def outcome(said, pattern, finished, cpu, limit):
    """The objective or None, and the outcome of a program."""
    found = re.findall(pattern, said)
    if finished and found:
        return float(found[-1]), "finished"
    if cpu > 0.9 * limit or "MemoryError" in said or "bad_alloc" in said:
        return None, "stopped"
    if "FAIL" in said and "ideals" in said:
        return None, "refused"
    sys.exit("plan_published: a published program ended with: %s" % said[-400:])


def run_pipedream(programs, path, devices, limit):
    python, levels = os.path.join(programs, "venv", "bin", "python"), levels_of(devices)
    said, cpu, finished = timed(
        [python if os.path.exists(python) else sys.executable, "optimizer_graph_hierarchical.py", "-f", path,
         "-n", *map(str, levels), "-b", *map(str, RATES[:len(levels)]), "--activation_compression_ratio", "1"],
        limit, cwd=os.path.join(programs, "pipedream", "optimizer"))
    return *outcome(said, r"Time per stage in pipeline: ([\d.e+-]+)", finished, cpu, limit), cpu


def run_piper(programs, path, devices, limit):
    said, cpu, finished = timed([os.path.join(programs, "piper", "plan"), path, str(devices), "16", str(MICROS),
                                 repr(FABRIC / GIB)], limit)
    return *outcome(said, r"objective=([\d.e+-]+)", finished, cpu, limit), cpu


def run_sluice(sluice, args):
    """Output and CPU seconds (median of five, one thread)."""
    runs = [timed([sluice, "plan", *args, "--threads", "1", "--json", "--quiet"]) for _ in range(5)]
    if not all(finished for _, _, finished in runs):
        sys.exit("plan_published: sluice plan %s: %s" % (" ".join(args), runs[0][0]))
    return json.loads(runs[0][0]), statistics.median(cpu for _, cpu, _ in runs)


def asked(program, path, devices):
    """The same of sluice: file, cost model, machine."""
    levels = levels_of(devices)
    if program == "pipedream":
        return [path, "--cost-model", COST_MODELS[program], "--levels", ",".join(map(str, levels)), "--all-devices", "--bandwidth",
                ",".join("%gB/s" % rate for rate in RATES[:len(levels)])]
    return [path, "--cost-model", COST_MODELS[program], "--devices", str(devices), "--memory", "16GiB",
            "--bandwidth", "%gB/s" % FABRIC, "--micro", str(MICROS)]


COST_MODELS = {"piper": "piper-tps", "pipedream": "pipedream-stage-time"}
PROGRAMS = [("pipedream", "pipedream/optimizer/optimizer_graph_hierarchical.py", ".graph.txt", pipedream_text, run_pipedream),
            ("piper", "piper/plan", ".json", piper_text, run_piper)]


def times(became, published, ours):
    """The speedup; unknown if the program refused the input."""
    return "-" if became == "refused" else "%.1f" % (published / ours)


def compare(options, row, directory):
    """Print RESULT lines of one model; returns whether no published objective is better."""
    model, sizes, devices, samples, grain = row
    chosen = [model] + (["--set", sizes] if sizes else [])
    text = subprocess.run([options.sluice, "model", *chosen, "--print"], stdout=subprocess.PIPE, text=True, check=True).stdout
    layers, edges = read_model(text, samples * devices // MICROS, grain == "layers")
    whole = run_sluice(options.sluice, chosen + ["--machine", "summit", "--devices", str(devices), "--batch",
                                                 str(samples * devices), "--micro", str(MICROS), "--schedule", "1f1b"])[1]
    good = True
    for program, needed, ending, written, run in PROGRAMS:
        if not os.path.exists(os.path.join(options.programs, needed)):
            continue
        path = os.path.join(directory, "-".join([model, *sizes.split(), str(devices), grain]) + ending)
        with open(path, "w") as file:
            file.write(written(layers, edges, devices))
        objective, became, cpu = run(options.programs, path, devices, options.limit)
        plan, ours = run_sluice(options.sluice, asked(program, path, devices))
        good = good and (objective is None or plan["objective"] <= objective * (1 + 1e-6))
        print("RESULT bench=plan claim=published program=%s model=%s %sdevices=%d %s=%d became=%s published=%s objective=%.9g "
              "lower_bound=%.9g published_s=%.2f cpu_s=%.3f ratio=%s model_cpu_s=%.3f model_ratio=%s"
              % (program, model, "set=%s " % sizes if sizes else "", devices, grain, len(layers), became,
                 "%.9g" % objective if objective is not None else "-", plan["objective"], plan["lower_bound"], cpu, ours,
                 times(became, cpu, ours), whole, times(became, cpu, whole)), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice", type=os.path.abspath)
    parser.add_argument("programs", type=os.path.abspath)
    parser.add_argument("--limit", type=int, default=60, metavar="S")
    parser.add_argument("--keep", metavar="DIR", type=os.path.abspath)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        return 0 if all([compare(options, row, options.keep or scratch) for row in ROWS]) else 1


if __name__ == "__main__":
    sys.exit(main())
