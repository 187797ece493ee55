#!/usr/bin/env python3
"""The rows of bench/kernels.c against PyTorch: ours and torch's in turn, three rounds, the best counts.

usage: kernels_torch.py KERNELS THREADS SECONDS. Run by build/release/bench/kernels --python PYTHON.
One thread is timed by the CPU time it used, as there.
"""
import re
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

program, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
torch.set_num_threads(threads)
torch.set_grad_enabled(False)
torch.manual_seed(1)
aten = torch.ops.aten
clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns


def ours(kernel, shape):
    command = [program, "--threads", str(threads), "--seconds", str(seconds), "--only", kernel]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(re.search(f" shape={re.escape(shape)} .* us=([0-9.]+)", text).group(1))


def theirs(body):
    body()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = clock()
        body()
        best = min(best, clock() - start)
    return best / 1e3


def measure(kernel, shape, body):
    us, torch_us = float("inf"), float("inf")
    for _ in range(3):
        us, torch_us = min(us, ours(kernel, shape)), min(torch_us, theirs(body))
    print(f"RESULT bench=kernels kernel={kernel} shape={shape} threads={threads} us={us:.1f} "
          f"torch_us={torch_us:.1f} ratio={torch_us / us:.2f}", flush=True)


def x(*size):
    return torch.rand(size) * 2 - 0.999


wide, half, small = x(2048, 1536), x(2048, 384), x(128, 1536)
wide2, half2, out = x(2048, 1536), x(2048, 384), torch.empty(2048, 1536)
bias, w384, b384 = x(1536), x(384), x(384)
measure("identity", "2048,1536", lambda: out.copy_(wide))
measure("add", "2048,384x2048,384", lambda: half + half2)
measure("add", "2048,1536x1536", lambda: wide + bias)
measure("mul", "2048,1536x2048,1536", lambda: wide * wide2)
measure("scale", "2048,1536", lambda: wide * 0.5)
measure("relu", "2048,1536", lambda: F.relu(wide))
measure("relu_dx", "2048,1536x2048,1536", lambda: aten.threshold_backward(wide, wide2, 0))
for name, t in ("128,1536", small), ("2048,1536", wide):
    measure("gelu", name, lambda: F.gelu(t, approximate="tanh"))
measure("gelu_dx", "2048,1536x2048,1536",
        lambda: aten.gelu_backward(wide, wide2, approximate="tanh"))
measure("gelu", "2048,1536/erf", lambda: F.gelu(wide))
measure("gelu_dx", "2048,1536x2048,1536/erf", lambda: aten.gelu_backward(wide, wide2))
measure("silu", "2048,1536", lambda: F.silu(wide))
measure("tanh", "2048,1536", lambda: torch.tanh(wide))
measure("sigmoid", "2048,1536", lambda: torch.sigmoid(wide))
measure("exp", "128,1536", lambda: torch.exp(small))
measure("dropout", "B2048,384", lambda: F.dropout(half, 0.1))
scores, scores2 = x(12288, 256), x(12288, 256)
measure("softmax", "12288,256", lambda: torch.softmax(scores, -1))
measure("softmax_dx", "12288,256x12288,256",
        lambda: aten._softmax_backward_data(scores, scores2, -1, torch.float32))
measure("layernorm", "2048,384x384", lambda: F.layer_norm(half, [384], w384, b384))
_, mean, rstd = aten.native_layer_norm(half, [384], w384, b384, 1e-5)


def norm_backward(mask):
    return aten.native_layer_norm_backward(half2, half, [384], mean, rstd, w384, b384, mask)


measure("layernorm_dx", "2048,384x2048,384", lambda: norm_backward([True, False, False]))
measure("layernorm_dw", "2048,384x2048,384", lambda: norm_backward([False, True, False]))
measure("rmsnorm", "2048,384x384", lambda: F.rms_norm(half, [384], w384, 1e-5))
table, index = x(50257, 384), torch.randint(0, 50257, (2048,))
measure("embed", "50257,384xi2048:50257", lambda: F.embedding(index, table))
measure("embed_dw", "2048,384xi2048:50257",
        lambda: aten.embedding_dense_backward(half, index, 50257, -1, False))
for rows, classes in (256, 50257), (2048, 256):
    logits, target = x(rows, classes), torch.randint(0, classes, (rows,))
    measure("cross_entropy", f"{rows},{classes}xi{rows}:{classes}",
            lambda: F.cross_entropy(logits, target))
    if classes > 256:
        leaf = logits.clone().requires_grad_()
        with torch.enable_grad():
            loss = F.cross_entropy(leaf, target)
        measure("cross_entropy_dx", f"{rows},{classes}x{rows},{classes}",
                lambda: torch.autograd.grad(loss, leaf, retain_graph=True))
measure("mse", "2048,1536x2048,1536", lambda: F.mse_loss(wide, wide2))
measure("bce_with_logits", "2048,1536x2048,1536",
        lambda: F.binary_cross_entropy_with_logits(wide, wide2))
for size in (64, 64, 32, 32), (64, 512, 4, 4):
    image, c = x(*size), size[1]
    w, b, m, v = x(c), x(c), x(c), x(c).abs()
    shape = ",".join(map(str, size))
    measure("batchnorm", f"{shape}x{c}", lambda: F.batch_norm(image, m, v, w, b, True))
    if c == 64:
        _, mean, rstd = aten.native_batch_norm(image, w, b, m, v, True, 0.1, 1e-5)
        measure("batchnorm_dx", f"{shape}x{shape}", lambda: aten.native_batch_norm_backward(
            image, image, w, m, v, mean, rstd, True, 1e-5, [True, False, False]))
        measure("sum_to", shape, lambda: image.sum((0, 2, 3)))
    else:
        measure("global_avgpool", shape, lambda: image.mean((2, 3)))
measure("sum_to", "2048,1536", lambda: wide.sum(0))
measure("sum_to", "2048,384", lambda: half.sum(0))
heads = x(8, 256, 6, 64)
measure("transpose", "8,256,6,64", lambda: heads.permute(0, 2, 1, 3).contiguous())
measure("transpose", "2048,1536", lambda: wide.t().contiguous())
qkv = x(2048, 1152)
measure("slice", "2048,1152", lambda: qkv[:, 384:768].contiguous())


def optimizer(name, make):
    parameter = torch.nn.Parameter(x(1536, 2048))
    parameter.grad = x(1536, 2048)
    measure(f"step_{name}", "1536,2048", make([parameter]).step)


optimizer("adamw", lambda p: torch.optim.AdamW(p, fused=True))
optimizer("adam", lambda p: torch.optim.Adam(p, fused=True))
optimizer("sgd", lambda p: torch.optim.SGD(p, lr=0.1, fused=True))
optimizer("momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True))
measure("norm_sq", "1536,2048", lambda: torch.linalg.vector_norm(wide))
