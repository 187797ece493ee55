"""An independent evaluation of plans for the published planners' inputs.

    plan_judge.py SLUICE INPUTS [--quick]

Runs `sluice plan FILE --cost-model M ... --json` on every input and computes the objective of the printed
stages again, from the input file and the published formulas alone: nothing of sluice is used but its output.
One RESULT line per row; exit status 1 when an objective is not what the plan is worth, when a plan breaks a
rule of its model, or when it is worse than what was published. Standard library only."""
import copy
import json
import os
import re
import subprocess
import sys

GIB = 2.0**30
FPGA = 17185374208

# model, file, devices, levels, bandwidths, memory, micro-batches, published objective (0: they give up)
ROWS = [("piper", "bert32a100.json", k, None, [25 * GIB], 8 * GIB, 1920, best) for k, best in (
    (8, .16585575), (16, .082962217), (32, .04151545), (64, .02020055), (128, .01012088), (256, .0050810453),
    (512, .0025611278), (1024, .0013031795), (2048, .00070359118))]
ROWS += [("piper", "gnmt.json", k, None, [25 * GIB], memory * GIB, 256, best) for k, memory, best in (
    (2, 2.5, 263.35429), (2, 3.5, 260.22682), (4, 1.2, 137.13099), (4, 2.5, 131.67734), (8, 1.2, 68.565564))]
ROWS += [("dnn-partitioning", name + "_training.json", k, None, [1.0], FPGA, 1, best) for name, k, best in (
    ("LayerGraphs-bert24", 6, 41.7458), ("LayerGraphs-gnmt", 6, 107.004), ("LayerGraphs-inceptionv3", 6, 123.93),
    ("OperatorGraphs-bert_l-3", 3, 65.3031), ("OperatorGraphs-bert_l-6", 3, 72.865))]
PIPEDREAM = [
    ("alexnet", (.034217, .018874, .015099, .009683)), ("vgg16", (.205521, .056530, .067134, .065767)),
    ("squeezenet1_0", (.074414, .018881, .018618, .018065)), ("gnmt", (.025868, .019285, .011081, .008860)),
    ("resnet50", (.162881, .047801, .043208, .031989)), ("resnet18", (0, 0, 0, 0)),
    ("inception_v3", (.227279, .065089)), ("nasnetamobile", (0, 0))]
SETTINGS = [(4, None, [1e9]), (16, None, [1e9]), (16, [4, 4], [1e10, 1.25e9]), (16, [8, 2], [3e10, 3.125e9])]
ROWS += [("pipedream", name + ".graph.txt", *setting, 0, 1, best)
         for name, bests in PIPEDREAM for setting, best in zip(SETTINGS, bests)]
SLOW = ("gnmt.json", "LayerGraphs-gnmt_training.json", "LayerGraphs-inceptionv3_training.json",
        "inception_v3.graph.txt", "nasnetamobile.graph.txt")  # not with --quick: a second and more


class Wrong(Exception):
    pass


def check(holds, what):
    if not holds:
        raise Wrong(what)


def places(stages, nodes):
    """The stage of every node; each is in exactly one."""
    at = {}
    for number, stage in enumerate(stages):
        for node in stage["nodes"]:
            check(str(node) not in at, "node %s is in two stages" % node)
            at[str(node)] = number
    check(set(at) == set(map(str, nodes)), "stages do not hold the nodes of the file")
    return at


def ordered(edges, at):
    for a, b in edges:
        check(at[str(a)] <= at[str(b)], "edge %s -> %s goes backwards" % (a, b))


# ---- Piper: time + bytes over every cut edge, at both ends, + synchronisation of replicas ----
def judge_piper(path, plan, row):
    _, _, devices, _, (bandwidth,), memory, micro, _ = row
    with open(path) as file:
        model = json.load(file)
    nodes = {n["id"]: n for n in model["nodes"]}
    edges = [(e["sourceId"], e["destId"], e["communicationCost"]) for e in model["edges"]]
    at = places(plan["stages"], nodes)
    ordered([e[:2] for e in edges], at)
    worst, behind, used = 0, 0, 0
    for number in range(len(plan["stages"]) - 1, -1, -1):
        stage = plan["stages"][number]
        d, t = stage["d"], stage["t"]
        check(micro % d == 0, "d does not divide the micro-batches")
        behind += d
        used += d * t
        flight = -(-behind // d)
        chosen = {}
        for node in stage["nodes"]:
            offers = {o["id"]: o for o in nodes[node]["TMPCs"].get(str(t), [])}
            check(stage["options"][str(node)] in offers, "node %s has no such option" % node)
            chosen[node] = offers[stage["options"][str(node)]]
        bytes_held = sum(o["memoryUsageA"] * flight + o["memoryUsageB"] for o in chosen.values())
        check(bytes_held <= memory * (1 + 1e-12), "stage %d exceeds the memory" % number)
        moved = 0
        for a, b, cost in edges:
            if at[str(a)] == at[str(b)]:
                continue
            if at[str(b)] == number:
                moved += cost + chosen[b]["syncTimeFw"][str(a)]
            if at[str(a)] == number:
                moved += cost + chosen[a]["syncTimeBw"][str(b)]
        weights = sum(o["parameterSize"] for o in chosen.values())
        time = (sum(o["timePerSample"] for o in chosen.values()) + 2 * moved / bandwidth) / d
        worst = max(worst, time + 4 * (d - 1) / d * weights / (micro * bandwidth))
    check(used <= devices and behind <= micro, "too many devices")
    return worst


# ---- dnn-partitioning: latencies + every tensor that crosses the border of a device, once ----
def judge_dnn(path, plan, row):
    _, _, devices, _, _, memory, _, _ = row
    with open(path) as file:
        model = json.load(file)
    nodes = {n["id"]: n for n in model["nodes"]}
    edges = [(e["sourceId"], e["destId"]) for e in model["edges"]]
    cost = {e["sourceId"]: e["cost"] for e in model["edges"]}
    at = places(plan["stages"], nodes)
    ordered([e for e in edges if not nodes[e[0]]["isBackwardNode"] and not nodes[e[1]]["isBackwardNode"]], at)
    colours = {}
    for key, node in nodes.items():
        if "colorClass" in node:
            check(colours.setdefault(node["colorClass"], at[str(key)]) == at[str(key)], "a colour class is parted")
    worst, used = 0, {"cpu": 0, "accelerator": 0}
    for number, stage in enumerate(plan["stages"]):
        on_cpu = stage["device"] == "cpu"
        used[stage["device"]] += 1
        load = sum(nodes[n]["cpuLatency" if on_cpu else "fpgaLatency"] for n in stage["nodes"])
        if not on_cpu:
            check(all(nodes[n].get("supportedOnFpga", 1) for n in stage["nodes"]), "a node cannot run there")
            check(sum(nodes[n].get("size", 0) for n in stage["nodes"]) <= memory, "stage %d exceeds the memory" % number)
            crossing = {a for a, b in edges if (at[str(a)] == number) != (at[str(b)] == number)}
            load += sum(cost[a] for a in crossing)
        worst = max(worst, load)
    check(used["accelerator"] <= devices and used["cpu"] <= model["maxCPUs"], "too many devices")
    return worst


# ---- PipeDream: the longest of compute with synchronisation, and activations in and out ----
class Profile:
    NODE = re.compile(r"(\S+) -- (.*) -- forward_compute_time=([^,]*), backward_compute_time=([^,]*), "
                      r"activation_size=(\[.*?\]|[^,]*), parameter_size=([^ ]*)")

    def __init__(self, path):
        self.time, self.size, self.weights, names, self.edges = {}, {}, {}, {}, []
        with open(path) as file:
            for line in file:
                if line.startswith("\t"):
                    self.edges.append(tuple(line.strip().split(" -- ")))
                    continue
                key, name, forward, backward, size, weights = self.NODE.match(line).groups()
                names[key] = name
                self.time[key] = (float(forward) + float(backward)) / 1000
                self.size[key] = sum(map(float, size.strip("[]").split("; ")))
                self.weights[key] = float(weights)
        inner, outer = {b for _, b in self.edges}, {a for a, _ in self.edges}
        dropped = {k for k, n in names.items() if (k not in inner and n.startswith("Input")) or
                   (k not in outer and n.startswith("__getitem__"))}
        self.nodes = [k for k in names if k not in dropped]
        self.edges = [(a, b) for a, b in self.edges if a not in dropped and b not in dropped]
        self.readers, before = {}, {}
        for a, b in self.edges:
            self.readers.setdefault(a, set()).add(b)
            before.setdefault(b, set()).add(a)
        self.ancestors = {}
        for node in self.nodes:
            self.walk(node, before)

    def walk(self, node, before):
        stack = [node]  # without recursion: graphs are hundreds of nodes deep
        while stack:
            top = stack[-1]
            open_ones = [b for b in before.get(top, ()) if b not in self.ancestors]
            if open_ones:
                stack += open_ones
                continue
            stack.pop()
            self.ancestors[top] = set().union(*({b} | self.ancestors[b] for b in before.get(top, ())))

    def output(self, done):
        """What leaves a set that holds all that comes before it: its tips, and whatever in front of a tip is also
        read by somebody who is not."""
        counted = set()
        for tip in done:
            if self.readers.get(tip, set()) & done:
                continue
            counted.add(tip)
            front = self.ancestors[tip]
            counted |= {a for a in front if any(b not in front and b != tip for b in self.readers.get(a, ()))}
        return sum(self.size[k] for k in counted)


def pipedream_level(profile, stages, level, levels, bandwidths, done):
    check(sum(s["d"] for s in stages) <= levels[level], "too many machines on level %d" % level)
    worst = 0
    for number, stage in enumerate(stages):
        m = stage["d"]
        into = profile.output(done) if number else 0
        if stage.get("inner"):
            time = pipedream_level(profile, stage["inner"], level - 1, levels, bandwidths, done)
        else:
            time = sum(profile.time[n] for n in stage["nodes"])
            done |= set(stage["nodes"])
        sync = 4 * (m - 1) / m * sum(profile.weights[n] for n in stage["nodes"]) / bandwidths[level]
        if number == 0 and level > 0:
            sync /= levels[level - 1]
        worst = max(worst, (time + sync) / m)
        if number:
            out = profile.output(done) if len(done) < len(profile.nodes) else 0
            worst = max(worst, 2 * max(into, out) / (bandwidths[level] * m))
    return worst


def judge_pipedream(path, plan, row):
    _, _, devices, levels, bandwidths, _, _, _ = row
    profile = Profile(path)
    ordered(profile.edges, places(plan["stages"], profile.nodes))
    levels = levels or [devices]
    return pipedream_level(profile, plan["stages"], len(levels) - 1, levels, bandwidths, set())


COST_MODELS = {"piper": "piper-tps", "dnn-partitioning": "dnn-max-load", "pipedream": "pipedream-stage-time"}  # by format
JUDGES = {"piper": judge_piper, "dnn-partitioning": judge_dnn, "pipedream": judge_pipedream}


def ask(sluice, path, row):
    model, _, devices, levels, bandwidths, memory, micro, _ = row
    args = [sluice, "plan", path, "--cost-model", COST_MODELS[model], "--devices", str(devices), "--micro", str(micro), "--json"]
    if model != "dnn-partitioning":
        args += ["--bandwidth", ",".join("%.0f" % b for b in bandwidths)]
    if memory:
        args += ["--memory", "%d" % memory]
    if levels:
        args += ["--levels", ",".join(map(str, levels))]
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(done.returncode == 0, "exit %d: %s" % (done.returncode, done.stderr.strip()))
    return json.loads(done.stdout)


def accepts(judge, path, plan, row):
    try:
        judge(path, plan, row)
    except Wrong:
        return False
    return True


def is_awake(judge, path, plan, row):
    """Plans with a missing or duplicate node are refused."""
    lost, twice = copy.deepcopy(plan), copy.deepcopy(plan)
    lost["stages"][-1]["nodes"].pop()
    twice["stages"][0]["nodes"].append(plan["stages"][-1]["nodes"][-1])
    return not accepts(judge, path, lost, row) and not accepts(judge, path, twice, row)


def run(sluice, inputs, row):
    model, name, devices, levels, _, _, _, published = row
    path = os.path.join(inputs, model, name)
    plan = ask(sluice, path, row)
    worth = JUDGES[model](path, plan, row)
    check(is_awake(JUDGES[model], path, plan, row), "the judge takes a plan without a node")
    check(abs(plan["objective"] - worth) <= 1e-9 * worth, "says %.12g, is worth %.12g" % (plan["objective"], worth))
    check(plan["lower_bound"] <= worth * (1 + 1e-9), "is better than its own lower bound")
    # published values have at least five digits
    check(not published or worth <= published * (1 + 5e-5), "%.9g is worse than the published %.9g" % (worth, published))
    print("RESULT bench=plan claim=judge model=%s file=%s devices=%d%s objective=%.9g published=%s lower_bound=%.9g "
          "gap=%.4f search_ms=%.1f stages=%d verdict=holds" %
          (model, name, devices, " levels=" + "x".join(map(str, levels)) if levels else "", plan["objective"],
           "%.9g" % published if published else "-", plan["lower_bound"], worth / plan["lower_bound"] - 1,
           plan["search_ms"], len(plan["stages"])), flush=True)


def main():
    sluice, inputs = sys.argv[1:3]
    wrong = 0
    for row in ROWS:
        if "--quick" in sys.argv and (row[2] > 64 or row[3] or row[1] in SLOW):
            continue
        try:
            run(sluice, inputs, row)
        except Wrong as why:
            wrong += 1
            print("RESULT bench=plan claim=judge model=%s file=%s devices=%d verdict=wrong: %s" %
                  (row[0], row[1], row[2], why), flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
