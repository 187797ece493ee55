#!/usr/bin/env python3
"""Time of operators against PyTorch on one CPU thread: ratio = torch / ours, above 1 ours is faster.

usage: ops.py ROWS_PROGRAM [OPERATOR]. Run by ./dev bench ops. The rows are those of bench/ops_rows.c; each
is timed in turn with torch, by CPU time, and the best of three rounds counts. A ratio below 0.8 is printed
with the reason in REASONS, or as unexplained (then the exit status is 1).
"""
import re
import subprocess
import sys
import time
import warnings

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.set_grad_enabled(False)
torch.manual_seed(1)
warnings.simplefilter("ignore")


def tensor(text):
    size = [int(n) for n in re.sub("^[a-z]", "", text).split(":")[0].split(",")]
    if text[0] == "i":
        return torch.randint(int(text.split(":")[1]), size)
    return torch.rand(size) * 1.9 + 0.1 if text[0] == "p" else torch.rand(size) * 2 - 1


def grouped(x, w, _):
    return torch.cat([x[512 * e:512 * (e + 1)] @ w[e].T for e in range(4)])


OPS = {
    "abs": torch.abs,
    "adaptive_avgpool": lambda x: F.adaptive_avg_pool2d(x, 7),
    "argmax": lambda x: x.argmax(-1),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "conv2d": lambda x, w: F.conv2d(x, w, padding=1, groups=64),
    "conv_transpose2d": lambda x, w: F.conv_transpose2d(x, w, stride=2),
    "cos": torch.cos,
    "cumsum": lambda x: x.cumsum(-1),
    "div": torch.div,
    "elu": F.elu,
    "equal": torch.eq,
    "erf": torch.erf,
    "flip": lambda x: x.flip(1),
    "gather": lambda x, i: x.gather(1, i),
    "groupnorm": lambda x, w, b: F.group_norm(x, 8, w, b),
    "grouped_matmul": grouped,
    "hardswish": F.hardswish,
    "huber": F.huber_loss,
    "index_select": lambda x, i: x.index_select(0, i),
    "kl": F.kl_div,
    "l1": F.l1_loss,
    "leaky_relu": F.leaky_relu,
    "log": torch.log,
    "log1p": torch.log1p,
    "matmul": torch.matmul,
    "max": torch.maximum,
    "mish": F.mish,
    "neg": torch.neg,
    "nll": F.nll_loss,
    "one_hot": lambda i: F.one_hot(i, 384).float(),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "pow": torch.pow,
    "power": lambda x: x ** 2,
    "reduce_max": lambda x: x.amax(1),
    "reduce_var": lambda x: x.var(1, correction=0),
    "roll": lambda x: x.roll((3, 3), (1, 2)),
    "rsqrt": torch.rsqrt,
    "scatter_add": lambda x, i, s: x.scatter_add(1, i, s),
    "sin": torch.sin,
    "softplus": F.softplus,
    "sqrt": torch.sqrt,
    "topk": lambda x: x.topk(8),
    "where": lambda c, a, b: torch.where(c > 0, a, b),
}

REASONS = {
    "conv2d": "a depthwise convolution runs as one small matrix product per channel",
    "gather": "each index is checked and may be negative; torch checks the range once",
    "pow": "powf of libm, lane by lane, for its accuracy; torch uses vectors",
    "reduce_max": "a NaN is kept by four more operations per vector; torch's vector maximum keeps it",
}


def seconds(body):
    body()
    best, end = float("inf"), time.perf_counter() + 0.1
    while time.perf_counter() < end:
        start = time.thread_time_ns()
        body()
        best = min(best, time.thread_time_ns() - start)
    return best / 1e3


def main():
    program, only = sys.argv[1], sys.argv[2:3]
    text = subprocess.run([program, *only], capture_output=True, text=True, check=True).stdout
    unexplained = 0
    for line in text.splitlines():
        op = re.search(r"op=(\S+)", line).group(1)
        inputs = [tensor(t) for t in re.findall(r" in\d+=(\S+)", line)]
        ours, theirs = float(re.search(r"us=(\S+)", line).group(1)), float("inf")
        for _ in range(2):
            again = subprocess.run([program, op], capture_output=True, text=True, check=True).stdout
            ours = min(ours, float(re.search(r"us=(\S+)", again).group(1)))
            theirs = min(theirs, seconds(lambda: OPS[op](*inputs)))
        ratio, why = theirs / ours, ""
        if ratio < 0.8:
            why = "  # " + REASONS.get(op, "unexplained")
            unexplained += op not in REASONS
        print(f"RESULT bench=ops op={op} us={ours:.1f} torch_us={theirs:.1f} ratio={ratio:.2f}{why}", flush=True)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
