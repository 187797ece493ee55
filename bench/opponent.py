#!/usr/bin/env python3
"""The opponent of `./dev bench cpu`: the same models, batches and optimizer in PyTorch.

Prints JSON lines: median seconds per step over the timed steps, spread, mean CPU time per step,
peak memory. Never a dependency of the product; run by bench/cpu.sh when --python is given.
"""
import argparse
import json
import os
import resource
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, c, h, causal):
        super().__init__()
        self.h, self.causal = h, causal
        self.ln1, self.ln2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(c, dim=2)
        q, k, v = (a.view(b, t, self.h, c // self.h).transpose(1, 2) for a in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, v, t, c, h, layers, causal=True):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(v, c), nn.Parameter(torch.randn(t, c) * 0.02)
        self.blocks = nn.ModuleList(Block(c, h, causal) for _ in range(layers))
        self.lnf, self.head = nn.LayerNorm(c), nn.Linear(c, v, bias=False)
        self.head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.lnf(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class BasicBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.c2, self.b2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.down = None
        if stride != 1 or i != o:
            self.down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)))
        y = self.b2(self.c2(y))
        return F.relu(y + (x if self.down is None else self.down(x)))


class ResNet18(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.c, self.b = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        layers, i = [], 64
        for o, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            layers += [BasicBlock(i, o, stride), BasicBlock(o, o, 1)]
            i = o
        self.layers, self.fc = nn.Sequential(*layers), nn.Linear(512, classes)

    def forward(self, image, label):
        x = self.layers(F.relu(self.b(self.c(image))))
        return F.cross_entropy(self.fc(x.mean((2, 3))), label)


class Mlp(nn.Module):
    def __init__(self, n, width, layers, classes):
        super().__init__()
        sizes = [n] + [width] * layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.out = nn.Linear(width, classes)

    def forward(self, x, label):
        for layer in self.layers:
            x = F.relu(layer(x))
        return F.cross_entropy(self.out(x), label)


class Lstm(nn.Module):
    def __init__(self, v, c, layers):
        super().__init__()
        self.embed = nn.Embedding(v, c)
        self.layers = nn.ModuleList(nn.LSTM(c, c, batch_first=True) for _ in range(layers))
        self.out = nn.Linear(c, v)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(x)[0]
        logits = self.out(x)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def tokens(b, t, v):
    return torch.randint(v, (b, t)), torch.randint(v, (b, t))


MODELS = {
    "gpt-50257": lambda: (Gpt(50257, 256, 384, 6, 6), tokens(8, 256, 50257), 8 * 256),
    "gpt-256": lambda: (Gpt(256, 256, 384, 6, 6), tokens(8, 256, 256), 8 * 256),
    "bert-small": lambda: (Gpt(30522, 128, 512, 8, 4, False), tokens(8, 128, 30522), 8 * 128),
    "resnet18": lambda: (
        ResNet18(10), (torch.randn(64, 3, 32, 32), torch.randint(10, (64,))), 64),
    "mlp": lambda: (Mlp(942, 4096, 4, 10), (torch.randn(64, 942), torch.randint(10, (64,))), 64),
    "lstm": lambda: (Lstm(256, 512, 2), tokens(16, 64, 256), 16 * 64),
}


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Run:
    def __init__(self, args):
        torch.manual_seed(1)
        torch.set_num_threads(args.threads)
        self.args, self.empty_kib = args, peak_kib()
        self.model, self.batch, self.items = MODELS[args.model]()
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
        self.forward = torch.compile(self.model) if args.compile else self.model
        for _ in range(2):
            self.step()
        if args.cpus:  # compiling was free to use them all
            for thread in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(thread), {int(cpu) for cpu in args.cpus.split(",")})

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(*self.batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        loss.item()

    def measure(self, steps):
        times, cpu_start = [], cpu_s()
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        cpu, middle = (cpu_s() - cpu_start) / steps, statistics.median(times)
        print(json.dumps({
            "model": self.args.model, "threads": self.args.threads, "compile": self.args.compile,
            "version": torch.__version__, "step_s": middle,
            "spread": (max(times) - min(times)) / middle, "step_cpu_s": cpu,
            "items_s": self.items / middle,
            "peak_bytes": (peak_kib() - self.empty_kib) * 1024,
        }), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--cpus", default="", help="pin to these CPUs after compilation")
    parser.add_argument("--serve", action="store_true",
                        help="print 'ready', then measure once per line of standard input")
    args = parser.parse_args()
    run = Run(args)
    if not args.serve:
        run.measure(args.steps)
        return
    print("ready", flush=True)
    for _ in sys.stdin:
        run.measure(args.steps)


if __name__ == "__main__":
    main()
