"""Rows of docs/reproduce.md, PipeDream-2BW and SpecTrain: name, claim, published number, and a function that returns ours."""
import json
import re
import statistics

ROWS = []
BW, ST, GP = "PipeDream-2BW (Narayanan et al. 2021)", "SpecTrain (Chen et al. 2018)", "GraphPipe (Jeon et al. 2025)"
NO_CLUSTER = "not possible here"


def row(paper, name, claim, published):
    def keep(run):
        ROWS.append({"paper": paper, "name": name, "claim": claim, "published": published, "run": run})
        return run
    return keep


def answer(ours, verdict, reason="", table=None):
    return {"ours": ours, "verdict": verdict, "reason": reason, "table": table}


def near(ours, paper, tolerance=0.1):
    return abs(ours - paper) <= tolerance * paper


def ratio(a, b):
    return a / b if b else float("inf")


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"] + ["| " + " | ".join(str(c) for c in r) + " |" for r in rows]


def spread(values):
    return "%.2f to %.2f times" % (min(values), max(values))


# ---- PipeDream-2BW: p3.16xlarge, mixed precision, untied weights as in the published code ----

CASES = [("gpt-2.2b", "p3.16xlarge", 8, 64), ("gpt-2.2b", "p3.16xlarge", 8, 256),
         ("gpt-3.8b", "p3-x8", 16, 128), ("gpt-3.8b", "p3-x8", 16, 512)]


def largest(run, case, schedule, planner="2bw"):
    """One pipeline, recomputation on, the largest micro-batch that fits and leaves as many micro-batches as stages."""
    model, machine, depth, batch = case
    for size in (64, 32, 16, 8, 4, 2, 1):
        if batch % size or batch // size < depth:
            continue
        plan = run.plan("%s --set tied=0 --machine %s --devices %d --straight --recompute all --batch %d --micro %d "
                        "--dtype fp16 --planner %s %s" % (model, machine, depth, batch, batch // size, planner,
                                                          "--schedule " + schedule if schedule else ""))
        if plan["samples_per_s"]:
            return plan
    return {"samples_per_s": 0.0, "peak_bytes": 0, "micro_size": 0}


def over(run, first, second):
    return [ratio(largest(run, case, first)["samples_per_s"], largest(run, case, second)["samples_per_s"]) for case in CASES]


@row(BW, "2bw-flush", "2BW over a flush, GPT 2.2B on 8 and 3.8B on 64 devices (16 a pipeline)",
     "up to 1.6 times at small batches, 1.15 at the largest")
def _(run):
    r = over(run, "2bw", "1f1b")
    return answer("%s; largest batch %.2f" % (spread(r), r[-1]), "reproduced" if near(max(r), 1.6) and near(r[-1], 1.15) else "same shape",
                  "" if near(r[-1], 1.15) else "a flush with few large micro-batches has a larger bubble here than in the paper")


@row(BW, "2bw-flush-64", "2BW over a flush, GPT 3.8B on 64 devices, each with the best width and depth", "up to 1.6 times, 1.15 at batch 2,048")
def _(run):
    ask = "gpt-3.8b --set tied=0 --machine p3-x8 --dtype fp16 --planner 2bw --batch %d --schedule %s"
    r = [ratio(run.speed(ask % (batch, "2bw")), run.speed(ask % (batch, "1f1b"))) for batch in (512, 2048)]
    return answer("batch 512: %.2f, 2,048: %.2f times" % tuple(r),
                  "reproduced" if near(r[1], 1.15) else "same shape" if min(r) > 1 else "not reproduced",
                  "replicas share a 25 Gb/s port, which bounds both; a global norm takes a second gradient buffer, so that 2BW fits with "
                  "fewer widths and depths than a flush")


@row(BW, "planner-shapes", "widths and depths that the planner chooses: 2.2B on 8 and 64, 3.8B on 64 devices", "(1, 8), (8, 8), (4, 16)")
def _(run):
    shown = []
    for words in ("gpt-2.2b --machine p3.16xlarge --batch 64", "gpt-2.2b --machine p3-x8 --batch 512",
                  "gpt-3.8b --machine p3-x8 --batch 512"):
        plan = run.plan(words + " --set tied=0 --dtype fp16 --planner 2bw --schedule 2bw")
        shown.append((plan["stages"][0]["width"], plan["depth"]))
    same = sum(a == b for a, b in zip(shown, [(1, 8), (8, 8), (4, 16)]))
    return answer(", ".join("(%d, %d)" % s for s in shown), "reproduced" if same == 3 else "same shape" if same else "not reproduced",
                  "" if same == 3 else "batches 64, 512 and 512; the activations of more replicas share a port")


@row(BW, "2bw-gpipe", "2BW over GPipe at equal batch", "up to 3.2 times")
def _(run):
    r = over(run, "2bw", "gpipe")
    return answer(spread(r), "reproduced" if near(max(r), 3.2) else "same shape" if max(r) > 1 else "not reproduced",
                  "our GPipe recomputes and fits with the micro-batches that the paper's had no memory for")


@row(BW, "flush-gpipe", "a flush over GPipe", "2.1 times at small batches, 3 at large ones")
def _(run):
    r = over(run, "1f1b", "gpipe")
    return answer(spread(r), "reproduced" if near(max(r), 3) else "same shape" if min(r) > 1.02 else "not reproduced",
                  "as above; with equal micro-batches both have the same bubble")


def serial(run, case):
    model, machine, depth, batch = case
    return run.speed("%s --set tied=0 --machine %s --devices %d --straight --recompute all --batch %d --dtype fp16 "
                     "--planner model-parallel" % (model, machine, depth, batch))


@row(BW, "flush-serial", "a flush over model parallelism without a pipeline", "4.1 times at small batches, 5.3 at large ones")
def _(run):
    r = [ratio(largest(run, case, "1f1b")["samples_per_s"], serial(run, case)) for case in CASES]
    return answer(spread(r), "reproduced" if near(max(r), 5.3) else "same shape" if max(r) > 2 else "not reproduced",
                  "the larger factors are those of pipelines of 16 stages, the paper's of 8" if max(r) > 6 else "")


@row(BW, "2bw-serial", "2BW over model parallelism without a pipeline", "up to 6.1 times")
def _(run):
    r = [ratio(largest(run, case, "2bw")["samples_per_s"], serial(run, case)) for case in CASES]
    return answer(spread(r), "reproduced" if near(max(r), 6.1) else "same shape" if max(r) > 2 else "not reproduced",
                  "8 stages: at most %.2f; 16 stages gain more" % max(r[:2]))


@row(BW, "tensor-8", "2BW over tensor parallelism, GPT 2.2B, 8 devices", "1.3 times")
def _(run):
    ask = "gpt-2.2b --set tied=0 --machine p3.16xlarge --batch 64 --dtype fp16 "
    r = ratio(run.speed(ask + "--planner 2bw --schedule 2bw"), run.speed(ask + "--tp 8 --dp 1 --pp 1 --schedule 1f1b"))
    return answer("%.1f times" % r, "reproduced" if near(r, 1.3) else "same shape" if r > 1 else "not reproduced",
                  "each of our shards computes embedding and head, and sums are of fp32")


@row(BW, "tensor-64", "2BW over tensor parallelism, GPT 3.8B, 64 devices", "up to 20 times")
def _(run):
    ask = "gpt-3.8b --set tied=0 --machine p3-x8 --batch 512 --dtype fp16 "
    best = run.speed(ask + "--planner 2bw --schedule 2bw")
    r = [ratio(best, run.speed(ask + "--tp %d --dp %d --pp 1 --schedule 1f1b" % d)) for d in ((8, 8), (16, 4), (32, 2))]
    return answer("8, 16, 32 shards: %.1f, %.1f, %.1f times" % tuple(r), "reproduced" if near(max(r), 20) else
                  "same shape" if max(r) > 5 else "not reproduced",
                  "sums over shards cross servers from 16 shards on; which degree the paper used is not known to us")


@row(BW, "not-on-16GB", "data parallelism and PipeDream do not fit on 16 GB, GPT 2.2B", "out of memory")
def _(run):
    ask = "gpt-2.2b --set tied=0 --machine p3.16xlarge --dtype fp16 --batch 64 "
    dp = run.plan(ask + "--planner dp")
    pd = run.plan(ask + "--planner pipedream-dp --schedule stash --straight --recompute none")
    big = run.plan("gpt-3.8b --set tied=0 --machine p3.16xlarge --dtype fp16 --batch 64 --planner pipedream-dp --schedule stash "
                   "--straight --recompute none")
    fits = ["data parallelism" if not dp.get("refused") else "", "PipeDream, 2.2B" if not pd.get("refused") else "",
            "PipeDream, 3.8B" if not big.get("refused") else ""]
    fits = [f for f in fits if f]
    return answer("fits: " + (", ".join(fits) or "none"), "reproduced" if not fits else "same shape",
                  "PipeDream with micro-batches keeps few versions; the paper's steps after every micro-batch" if fits else "")


@row(BW, "28B", "the largest model on 64 x 16 GB", "28.3 billion parameters (2,240 layers of 1,024)")
def _(run):
    plan = run.plan("gpt-1.3b --set L=2240,C=1024,H=16,tied=0 --machine p3-x8 --dtype fp16 --whole-layers --recompute all "
                    "--straight --schedule 2bw --planner 2bw --batch 512 --micro 512")
    return answer("fits" if plan["samples_per_s"] else "does not fit", "reproduced" if plan["samples_per_s"] else "not reproduced",
                  "%.1f GiB on the fullest device, %.1f samples/s" % (plan.get("peak_bytes", 0) / 2**30, plan["samples_per_s"]))


@row(BW, "size-by-depth", "largest models by depth 1, 2, 4, 8, 16, 32, in billion parameters", "1, 2, 4, 5, 10, 15 (read from a figure)")
def _(run):
    found = []
    for depth in (1, 2, 4, 8, 16, 32):
        ask = ("gpt-1.3b --set L=%%d,C=1024,H=16,tied=0 --machine p3-x8 --devices %d --dtype fp16 --whole-layers --recompute all "
               "--straight --schedule 2bw --planner 2bw --batch 64 --micro 64" % depth)
        low, high = 1, 80  # layers a stage
        while high - low > 1:
            middle = (low + high) // 2
            fits = run.plan(ask % (depth * middle), listed=False)["samples_per_s"]
            low, high = (middle, high) if fits else (low, middle)
        run.plan(ask % (depth * low))
        found.append(depth * low * 12 * 1024 * 1024 / 1e9)
    return answer(", ".join("%.1f" % b for b in found), "same shape" if found == sorted(found) else "not reproduced",
                  "proportional to the depth; the paper's heights of bars are read inexactly. Weights of two versions, gradients and Adam's "
                  "state in mixed precision take 20 bytes a parameter here")


@row(BW, "enough-micro-batches", "every pipeline has at least as many micro-batches as stages (batch = b w m, m = g d)", "m >= d")
def _(run):
    shown = []
    for words in ("gpt-2.2b --set tied=0 --machine p3.16xlarge --batch 64 --dtype fp16 --planner 2bw --schedule 2bw",
                  "gpt-3.8b --set tied=0 --machine p3-x8 --batch 512 --dtype fp16 --planner 2bw --schedule 2bw",
                  "gpt-3.8b --set tied=0 --machine p3-x8 --batch 64 --dtype fp16 --planner 2bw --schedule 2bw"):
        plan = run.plan(words)
        shown.append((plan["batch"] // plan["micro_size"] // plan["stages"][0]["width"], plan["depth"]))
    return answer(", ".join("m %d, d %d" % p for p in shown), "reproduced" if all(m >= d for m, d in shown) else "not reproduced")


@row(BW, "recompute-cost", "recomputation costs throughput at equal micro-batch", "up to 33 %")
def _(run):
    ask = "gpt-1.3b --set tied=0 --machine p3.16xlarge --straight --batch 64 --micro 64 --dtype fp16 --schedule 2bw --planner 2bw "
    loss = 100 * (1 - ratio(run.speed(ask + "--recompute all"), run.speed(ask + "--recompute none")))
    return answer("%.0f %%" % loss, "reproduced" if 15 <= loss <= 33 else "same shape",
                  "one more forward pass of three" if loss <= 33 else "")


@row(BW, "recompute-win", "recomputation pays for GPT 2.2B, not for 1.3B, pipelines (1, 8)", "a gain; a loss")
def _(run):
    def gain(model):
        best = {}
        for flag in ("all", "none"):
            best[flag] = max(run.speed("%s --set tied=0 --machine p3.16xlarge --straight --batch 256 --micro %d --dtype fp16 "
                                       "--schedule 2bw --planner 2bw --recompute %s" % (model, m, flag)) for m in (32, 64, 128, 256))
        return best["all"], best["none"]
    big, small = gain("gpt-2.2b"), gain("gpt-1.3b")
    ok = big[0] > big[1], small[0] < small[1]
    return answer("2.2B %.1f with, %.1f without; 1.3B %.1f with, %.1f without" % (big + small),
                  "reproduced" if all(ok) else "same shape" if any(ok) else "not reproduced",
                  "" if all(ok) else "a roofline hardly punishes small micro-batches, so larger ones gain little")


@row(BW, "memory-order", "memory per worker, GPT 2.2B, batch 64", "not pipelined < flush < 2BW < GPipe (out of memory)")
def _(run):
    bytes_of = {}
    for name, schedule in (("not pipelined", "serial"), ("flush", "1f1b"), ("2BW", "2bw"), ("GPipe", "gpipe")):
        plan = run.plan("gpt-2.2b --set tied=0 --machine p3.16xlarge --straight --batch 64 --micro 32 --dtype fp16 "
                        "--recompute none --memory 64GiB --planner even --schedule " + schedule)
        bytes_of[name] = plan.get("peak_bytes", 0) / 2**30
    order = list(bytes_of.values())
    return answer(", ".join("%s %.1f GiB" % i for i in bytes_of.items()),
                  "reproduced" if order == sorted(order) and order[3] > 16 else "same shape" if order[0] < order[1] < order[2] else
                  "not reproduced", "" if order[3] > 16 else "micro-batches of 2, without a limit on memory")


@row(BW, "planner-time", "search time of the planner in closed form", "a fraction of a second")
def _(run):
    ms = [run.plan("%s --set tied=0 --machine %s --batch %d --dtype fp16 --planner 2bw --schedule 2bw" % a)["search_ms"]
          for a in (("gpt-2.2b", "p3.16xlarge", 64), ("gpt-3.8b", "p3-x8", 512))]
    return answer("%s ms" % " and ".join("%.0f" % m for m in ms), "reproduced" if max(ms) < 1000 else "same shape",
                  "8 and 64 devices; the simulation of the best 16 shapes is included")


@row(BW, "throughput-order", "throughput figures: 2BW, flush, GPipe, not pipelined", "in this order in all figures")
def _(run):
    shown, good = [], 0
    for case in CASES:
        s = [largest(run, case, k)["samples_per_s"] for k in ("2bw", "1f1b", "gpipe")] + [serial(run, case)]
        good += all(a >= b * 0.995 for a, b in zip(s, s[1:]))
        shown.append([case[0], case[2], case[3]] + ["%.1f" % v for v in s])
    return answer("in %d of %d" % (good, len(CASES)), "reproduced" if good == len(CASES) else "same shape",
                  "heights of the bars could not be read from the paper",
                  table(["model", "stages", "batch", "2BW", "flush", "GPipe", "not pipelined"], shown))


def stored_difference(run, task, mode, against):
    """(difference in percent, interval) of a row of convergence.md."""
    lines = run.stored("convergence.md")
    begin = lines.index("## " + task)
    for line in lines[begin + 1:]:
        if line.startswith("## "):
            break
        cells = [c.strip() for c in line.strip("|").split("|")]
        if cells[0] == mode:
            found = re.match(r"([+-][0-9.]+) ± ([0-9.]+)", cells[4])
            return float(found[1]), float(found[2])
    raise SystemExit("reproduce: no %s of %s in docs/results/convergence.md" % (mode, task))


STORED = "stored results of `./dev bench converge`: "


@row(BW, "bert-mnli", "BERT 355M, accuracy on MNLI: vanilla, 2BW", "87.77 %, 87.82 %")
def _(run):
    d = stored_difference(run, "gpt-tiny", "2bw", "1f1b")
    return answer("loss %+.2f %% ± %.2f on gpt-tiny" % d, NO_CLUSTER, STORED + "a small model instead; 355M parameters need weeks here")


@row(BW, "bert-race", "BERT 355M, accuracy on RACE: vanilla, 90 % of its iterations, 2BW", "80.06 %, 79.30 %, 79.48 %")
def _(run):
    d = stored_difference(run, "gpt-tiny-adamw", "2bw, adamw", "1f1b, adamw")
    return answer("loss %+.1f %% ± %.1f on gpt-tiny with AdamW" % d, NO_CLUSTER,
                  STORED + "at the rates of this task 2BW with AdamW is far behind; the paper's rate is 1e-4")


@row(BW, "gpt-wikitext", "GPT 355M, perplexity on WikiText-103: vanilla, 2BW", "19.28, 19.56 (20 % of the iterations)")
def _(run):
    d = stored_difference(run, "lstm", "2bw, adamw", "1f1b, adamw")
    return answer("loss %+.2f %% ± %.2f on an LSTM" % d, NO_CLUSTER, STORED + "the direction is the paper's")


# ---- SpecTrain ----

SIX = ["vgg16", "resnet152", "inception-v4", "snn", "transformer-classifier", "residual-lstm"]


@row(ST, "spectrain-speed", "over data parallelism on 4 GPUs, six models", "up to 8.91 times (up to 15.77 in the first version)")
def _(run):
    shown, best = [], {}
    for model in SIX:
        dp = run.plan("%s --machine pcie-4 --batch 128 --planner dp" % model)
        ring = dp["samples_per_s"]
        ways = [1e9 * dp["batch"] / w["step_ns"] for w in dp["all_reduce"]] or [ring]
        pipe = run.speed("%s --machine pcie-4 --batch 128 --planner pipedream-dp --schedule async --straight" % model)
        best[model] = ratio(pipe, ring)
        shown.append([model, "%.0f" % ring, "%.0f" % max(ways), "%.0f" % pipe, "%.2f" % best[model], "%.2f" % ratio(pipe, max(ways))])
    name = max(best, key=best.get)
    return answer("%.2f times (%s); others %.2f to %.2f" % (
        best[name], name, min(best.values()), sorted(best.values())[-2]),
        "reproduced" if near(best[name], 8.91) else "same shape" if best[name] > 2 else "not reproduced",
        "four RTX 2080 Ti on a PCIe switch instead of P40; which model gives the paper's 8.91 is not known to us",
        table(["model", "data parallel", "best way to sum up", "pipeline", "over data parallel", "over the best way"], shown))


@row(ST, "dp-communication", "share of communication in data parallelism, mean over models", "26.7 %")
def _(run):
    share = []
    for model in SIX:
        plan = run.plan("%s --machine pcie-4 --batch 128 --planner dp" % model)
        share += [100 * w["reduce_ns"] / w["step_ns"] for w in plan["all_reduce"] if w["name"] == "ring" and not w["overlapped"]]
    return answer("%.1f %%" % statistics.mean(share), "reproduced" if near(statistics.mean(share), 26.7) else "same shape",
                  "from %.0f to %.0f %%; depends on links and GPUs" % (min(share), max(share)))


@row(ST, "staleness", "without a policy, stage k of N reads weights that are N - k - 1 updates old", "3 2 1 0")
def _(run):
    out = run.text("sched --chain 4 --schedule async --micro 1 --iters 100 --json")
    delays = " ".join(re.findall(r'"delay": (\d+)', out))
    return answer(delays, "reproduced" if delays == "3 2 1 0" else "not reproduced")


@row(ST, "distances", "distances of the predictions on 4 GPUs: forward, backward", "3 2 2 1; 0 0 1 1")
def _(run):
    passes = run.text("sched --chain 4 --schedule async --policy spectrain --micro 1 --iters 60 -o - --quiet")
    ahead = {"F": [0] * 4, "B": [0] * 4}
    for stage, distance, kind in re.findall(r"PREDICT s(\d) v \d+ w \d+ p (\d+) s \d+\n(F|B) ", passes):
        ahead[kind][int(stage)] = max(ahead[kind][int(stage)], int(distance))
    ours = "; ".join(" ".join(map(str, ahead[k])) for k in "FB")
    return answer(ours, "reproduced" if ours == "3 2 2 1; 0 0 1 1" else "not reproduced")


@row(ST, "weight-versions", "versions of weights in memory: SpecTrain, PipeDream, 4 stages", "1 and a prediction; 4 3 2 1")
def _(run):
    ours = [" ".join(re.findall(r'"versions": (\d+)', run.text("sched --chain 4 --micro 1 --iters 100 --json --schedule " + s)))
            for s in ("async --policy spectrain", "stash")]
    return answer("%s; %s" % tuple(ours), "reproduced" if ours[1] == "4 3 2 1" else "not reproduced",
                  "SpecTrain: live weights and the slot of a prediction")


def accuracy_row(name, claim, published, task, mode, against, worse):
    """worse: does the paper lose accuracy here?"""
    @row(ST, name, claim, published)
    def _(run):
        d = stored_difference(run, task, mode, against)
        wide = d[1] > 10
        same = d[0] - d[1] <= 0
        verdict = "not reproduced" if wide or same == worse else "same shape" if worse else "reproduced"
        reason = "; too few seeds for an interval of use" if wide else "; the interval contains 0" if same else ""
        return answer("loss %+.2f %% ± %.2f" % d, verdict, STORED + task + ", " + mode + reason)


accuracy_row("same-accuracy", "SpecTrain learns like data parallelism", "60.14 % and 60.33 % (Transformer)", "gpt-tiny", "spectrain",
             "1f1b", False)
accuracy_row("vanilla-transformer", "vanilla model parallelism loses accuracy, Transformer, 4 GPUs", "81.12 to 77.26 %", "gpt-tiny",
             "vanilla async = paci", "1f1b", True)
accuracy_row("pipedream-transformer", "PipeDream loses accuracy, Transformer, 4 GPUs", "81.12 to 78.11 %", "gpt-tiny", "stash", "1f1b",
             True)
accuracy_row("vanilla-lstm", "vanilla model parallelism loses accuracy, residual LSTM", "81.74 to 79.03 %", "lstm",
             "vanilla async = paci, adamw", "1f1b, adamw", True)
accuracy_row("spectrain-lstm", "SpecTrain recovers it", "81.74 to 81.56 %", "lstm", "spectrain, adamw", "1f1b, adamw",
             False)
accuracy_row("pipedream-lstm", "PipeDream loses accuracy, residual LSTM, 4 GPUs", "81.74 to 78.24 %", "lstm", "stash, adamw", "1f1b, adamw",
             True)
accuracy_row("pipedream-cnn", "PipeDream on a CNN, 4 GPUs", "91.10 to 88.91 % (VGG16)", "convnet", "stash, adamw", "1f1b, adamw",
             True)
accuracy_row("spectrain-cnn", "SpecTrain on a CNN, 4 GPUs", "91.10 to 88.11 % (VGG16)", "convnet", "spectrain, adamw", "1f1b, adamw",
             True)


@row(ST, "lenet-accuracy", "accuracy of SpecTrain equals that of data parallelism, 4 stages", "no loss of accuracy")
def _(run):
    shown = {}
    for line in run.stored("spectrain.md"):
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0] == "0.02" and cells[1].startswith("SpecTrain (default"):
            shown[cells[2]] = [float(n) for n in re.findall(r"[+-]?[0-9.]+", cells[5])]
    mean, half = shown["4"]
    return answer("%+.2f ± %.2f points, 4 stages; %+.2f ± %.2f, 8 stages" % (mean, half, *shown["8"]),
                  "reproduced" if abs(mean) <= 0.5 else "not reproduced",
                  "stored results of `./dev bench spectrain`: lenet, momentum, rate 0.02, 10 seeds; 8 stages need a smaller rate")


@row(ST, "over-model-parallel", "over model parallelism without a pipeline, six models, 4 GPUs",
     "up to 2.18 times over the best earlier model parallelism (first version)")
def _(run):
    r = {}
    for model in SIX:
        ask = "%s --machine pcie-4 --batch 128 --straight " % model
        r[model] = ratio(run.speed(ask + "--planner pipedream-dp --schedule async"), run.speed(ask + "--planner model-parallel"))
    return answer(spread(r.values()), "reproduced" if near(max(r.values()), 2.18) else "same shape" if max(r.values()) > 1.1 else
                  "not reproduced", "which method the paper compared with is not known to us")


@row(ST, "rmse", "the predicted weights are closer to the true ones than the stale ones (RMSE)", "for s = 1, 2, 3; numbers not known to us")
def _(run):
    run.text("train gpt-nano --stages 4 --schedule async --policy spectrain --optimizer momentum --lr 0.02 --lr-schedule cosine:warmup=20 "
             "--batch 8 --micro 1 --steps 120 --clip 0 --log-staleness --out rmse --quiet")
    sums = {}
    for line in run.read("rmse/log.jsonl"):
        entry = json.loads(line)
        if "rmse_stale" in entry and entry["step"] > 40:
            of = sums.setdefault(entry["s"], [0.0, 0.0])
            of[0] += entry["rmse_predicted"]
            of[1] += entry["rmse_stale"]
    shares = {s: of[0] / of[1] for s, of in sorted(sums.items())}
    return answer(", ".join("s = %d: %.2f" % i for i in shares.items()) + " of the stale distance",
                  "reproduced" if len(shares) >= 3 and max(shares.values()) < 1 else "not reproduced",
                  "gpt-nano, 4 stages, steps 41 to 120")
