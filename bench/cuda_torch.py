#!/usr/bin/env python3
"""The opponent of `./dev bench cuda`: the same models, batches and optimizer in PyTorch on one GPU.

bf16 or fp16 autocast (fp16 with a GradScaler), or fp32 products (tf32: with rounded factors); fp32 weights, torch.compile, SDPA, fused AdamW,
clipping to norm 1, images channels-last; random data that stays on the GPU. Prints one RESULT line
per round: median milliseconds of a step and peak memory. With --rounds it compiles once and waits for
a line on standard input before each round, so that bench/cuda.sh lets both sides take turns. Never a
dependency of the product.
"""
import argparse
import statistics
import sys

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, c, h, causal, gelu="tanh"):
        super().__init__()
        self.h, self.causal, self.gelu = h, causal, gelu
        self.ln1, self.ln2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(c, dim=2)
        q, k, v = (a.view(b, t, self.h, c // self.h).transpose(1, 2) for a in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate=self.gelu))


class Gpt(nn.Module):
    def __init__(self, v, t, c, h, layers):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(v, c), nn.Parameter(torch.randn(t, c) * 0.02)
        self.blocks = nn.ModuleList(Block(c, h, True) for _ in range(layers))
        self.lnf, self.head = nn.LayerNorm(c), nn.Linear(c, v, bias=False)
        self.head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.lnf(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class BertLayer(nn.Module):
    """models/bert-base.model: norms after the sums, three products for q, k and v, a padding mask."""

    def __init__(self, c, h, f):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.out = (nn.Linear(c, c) for _ in range(4))
        self.up, self.down = nn.Linear(c, f), nn.Linear(f, c)
        self.ln1, self.ln2 = nn.LayerNorm(c, eps=1e-12), nn.LayerNorm(c, eps=1e-12)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = (w(x).view(b, t, self.h, c // self.h).transpose(1, 2) for w in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.ln1(x + self.out(a.transpose(1, 2).reshape(b, t, c)))
        return self.ln2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, v, t, c, h, layers):
        super().__init__()
        self.words, self.kinds = nn.Embedding(v, c), nn.Embedding(2, c)
        self.places = nn.Parameter(torch.randn(t, c) * 0.02)
        self.ln, self.lnh = nn.LayerNorm(c, eps=1e-12), nn.LayerNorm(c, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(c, h, 4 * c) for _ in range(layers))
        self.dense, self.bias = nn.Linear(c, c), nn.Parameter(torch.zeros(v))
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, tokens, segments, mask, targets):
        x = self.ln(self.words(tokens) + self.kinds(segments) + self.places)
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :] != 0)
        h = self.lnh(F.gelu(self.dense(x)))
        logits = F.linear(h, self.words.weight, self.bias)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class LlamaLayer(nn.Module):
    """llama_layer of models/layers.model: rmsnorm, rope, grouped keys, swiglu."""

    def __init__(self, c, h, hk, f):
        super().__init__()
        self.h, self.hk, self.d = h, hk, c // h
        self.n1, self.n2 = nn.RMSNorm(c, eps=1e-5), nn.RMSNorm(c, eps=1e-5)
        self.q, self.out = nn.Linear(c, c, bias=False), nn.Linear(c, c, bias=False)
        self.k, self.v = (nn.Linear(c, hk * self.d, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(c, f, bias=False), nn.Linear(c, f, bias=False)
        self.down = nn.Linear(f, c, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        y = self.n1(x)
        q = turn(self.q(y).view(b, t, self.h, self.d), cos, sin).transpose(1, 2)
        k = turn(self.k(y).view(b, t, self.hk, self.d), cos, sin).transpose(1, 2)
        v = self.v(y).view(b, t, self.hk, self.d).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.h != self.hk)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def turn(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-b, a), dim=-1) * sin).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, v, t, c, h, hk, f, layers, base=10000.0, tied=False):
        super().__init__()
        self.embed = nn.Embedding(v, c)
        self.layers = nn.ModuleList(LlamaLayer(c, h, hk, f) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(c, eps=1e-5), nn.Linear(c, v, bias=False)
        if tied:
            self.head.weight = self.embed.weight
        d = c // h
        angle = torch.arange(t)[:, None] * base ** (-torch.arange(0, d, 2) / d)
        angle = torch.cat((angle, angle), dim=1)[:, None, :]
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class Mmt(nn.Module):
    """models/mmt.model: GraphPipe's multi-modal transformer."""

    def __init__(self, branches, c, h, layers, classes):
        super().__init__()
        self.towers = nn.ModuleList(
            nn.ModuleList(Block(c, h, False, "none") for _ in range(layers)) for _ in range(branches)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(c) for _ in range(branches))
        self.head = nn.Linear(branches * c, classes)

    def forward(self, label, *features):
        ends = []
        for tower, norm, x in zip(self.towers, self.norms, features):
            for block in tower:
                x = block(x)
            ends.append(norm(x))
        return F.cross_entropy(self.head(torch.cat(ends, dim=2).mean(dim=1)), label)


class Bottleneck(nn.Module):
    def __init__(self, inner, n, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inner, n, 1, bias=False), nn.BatchNorm2d(n)
        self.conv2, self.bn2 = nn.Conv2d(n, n, 3, stride, 1, bias=False), nn.BatchNorm2d(n)
        self.conv3, self.bn3 = nn.Conv2d(n, 4 * n, 1, bias=False), nn.BatchNorm2d(4 * n)
        self.short = nn.Identity()
        if inner != 4 * n or stride != 1:
            self.short = nn.Sequential(nn.Conv2d(inner, 4 * n, 1, stride, bias=False), nn.BatchNorm2d(4 * n))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.short(x))


class Resnet50(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, inner = [], 64
        for group, count in enumerate((3, 4, 6, 3)):
            for i in range(count):
                n = 64 << group
                blocks.append(Bottleneck(inner, n, 2 if group and not i else 1))
                inner = 4 * n
        self.conv, self.bn = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(2048, 1000)

    def forward(self, image, label):
        x = F.max_pool2d(F.relu(self.bn(self.conv(image))), 3, 2, 1)
        return F.cross_entropy(self.fc(self.blocks(x).mean(dim=(2, 3))), label)


def ints(below, *shape):
    return torch.randint(below, shape, device="cuda")


def tokens(v, b, t):
    return [ints(v, b, t) for _ in range(2)]


def bert_large(b):
    v, t = 30522, 512
    mask = torch.ones(b, t, dtype=torch.int64, device="cuda")  # as ours: full samples
    return Bert(v, t, 1024, 16, 24), [ints(v, b, t), ints(2, b, t), mask, ints(v, b, t)]


def bert_base(b):
    v, t = 30522, 512
    mask = torch.ones(b, t, dtype=torch.int64, device="cuda")
    return Bert(v, t, 768, 12, 12), [ints(v, b, t), ints(2, b, t), mask, ints(v, b, t)]


def gpt(c, h, layers):
    return lambda b: (Gpt(50304, 1024, c, h, layers), tokens(50304, b, 1024))


def llama(v, t, *sizes, **more):
    return lambda b: (Llama(v, t, *sizes, **more), tokens(v, b, t))


def mmt(b):
    features = [torch.randn(b, 256, 1024, device="cuda") for _ in range(4)]
    return Mmt(4, 1024, 16, 8, 1000), [ints(1000, b), *features]


def resnet50(b):
    image = torch.randn(b, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    return Resnet50().to(memory_format=torch.channels_last), [image, ints(1000, b)]


MODELS = {
    "bert-base": bert_base,
    "bert-large": bert_large,
    "gpt2": gpt(768, 12, 12),
    "gpt2-355m": gpt(1024, 16, 24),
    "gpt2-774m": gpt(1280, 20, 36),
    "gpt2-1.5b": gpt(1600, 25, 48),
    "llama3-8b-l8": llama(128256, 2048, 4096, 32, 8, 14336, 8, base=500000.0),
    "qwen2-0.5b": llama(151936, 2048, 896, 14, 2, 4864, 24, base=1000000.0, tied=True),
    "tinyllama": llama(32000, 2048, 2048, 32, 4, 5632, 22),
    "mmt": mmt,
    "resnet50": resnet50,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("batch", type=int)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--dtype", choices=["fp32", "tf32", "bf16", "fp16"], default="bf16")
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("highest" if args.dtype == "fp32" else "high")
    model, data = MODELS[args.model](args.batch)
    model = model.cuda()
    run = model if args.eager else torch.compile(model)
    optim = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)

    half = torch.float16 if args.dtype == "fp16" else torch.bfloat16
    # the same constant scale as ours: no step is skipped
    scaler = torch.amp.GradScaler("cuda", init_scale=1024, enabled=args.dtype == "fp16")

    def step():
        with torch.autocast("cuda", dtype=half, enabled=args.dtype in ("bf16", "fp16")):
            loss = run(*data)
        scaler.scale(loss).backward()
        scaler.unscale_(optim)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optim)
        scaler.update()
        optim.zero_grad(set_to_none=True)
        return loss

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(args.rounds or 1):
        if args.rounds and not wait():
            break
        times = sorted(timed(step) for _ in range(args.steps))
        print(
            f"RESULT bench=cuda who={'torch' if args.eager else 'torch_compile'} model={args.model} "
            f"batch={args.batch} dtype={args.dtype} step_ms={statistics.median(times):.3f} low_ms={times[0]:.3f} "
            f"high_ms={times[-1]:.3f} gib={torch.cuda.max_memory_allocated() / 2**30:.3f} "
            f"torch={torch.__version__}",
            flush=True,
        )


def wait():
    print("READY", flush=True)
    return sys.stdin.readline() != ""


def timed(step):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    step()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


main()
