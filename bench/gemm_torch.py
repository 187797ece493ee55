"""The PyTorch side of bench/gemm.c: reads "case threads" lines, writes seconds."""
import sys
import time

import torch

F = torch.nn.functional
made = {}


def make(name):
    kind, *rest = name.replace("conv2d_dx", "convdx").replace("conv2d_dw", "convdw").split("_")
    if kind == "mm":
        sides, (m, k, n) = rest[0], map(int, rest[1:])
        a = torch.randn(k, m).t() if sides[0] == "T" else torch.randn(m, k)
        b = torch.randn(n, k).t() if sides[1] == "T" else torch.randn(k, n)
        c = torch.empty(m, n)
        return lambda: torch.mm(a, b, out=c)
    v = list(map(int, rest))
    if kind in ("attn", "attnback"):
        b, t, h, d, causal = v
        q, k, w = (torch.randn(b, t, h, d, requires_grad=kind == "attnback") for _ in range(3))

        def run():
            return F.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), w.transpose(1, 2), is_causal=bool(causal)
            ).transpose(1, 2)

        if kind == "attn":
            return run
        y = run()
        dy = torch.randn_like(y)
        return lambda: torch.autograd.grad(y, (q, k, w), dy, retain_graph=True)
    if kind.startswith("conv"):
        b, c, size, o, k, s, p = v
        x, w = torch.randn(b, c, size, size), torch.randn(o, c, k, k)
        y = F.conv2d(x, w, None, s, p)
        if kind == "conv2d":
            return lambda: F.conv2d(x, w, None, s, p)
        dy = torch.randn_like(y)
        mask = [kind == "convdx", kind == "convdw", False]
        return lambda: torch.ops.aten.convolution_backward(
            dy, x, w, None, [s, s], [p, p], [1, 1], False, [0, 0], 1, mask
        )
    if kind == "lstm":
        b, t, i, h = v
        net, x = torch.nn.LSTM(i, h, batch_first=True), torch.randn(b, t, i, requires_grad=True)
        return lambda: net(x)
    raise ValueError(name)


for line in sys.stdin:
    name, threads = line.split()
    torch.set_num_threads(int(threads))
    if name not in made:
        made.clear()
        made[name] = make(name)
    clock = time.process_time if threads == "1" else time.perf_counter
    start = clock()
    made[name]()
    print(clock() - start, flush=True)
