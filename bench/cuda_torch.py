#!/usr/bin/env python3
"""The opponent of `./dev bench cuda`: the same models, batches and optimizer in PyTorch on one GPU.

bf16 autocast, fp32 weights, torch.compile, SDPA, fused AdamW, clipping to norm 1; random data that stays
on the GPU. Prints one RESULT line: median milliseconds of a step and peak memory. Never a dependency of
the product; run by bench/cuda.sh when --python is given.
"""
import argparse
import statistics

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


def tokens(v, b, t):
    return [torch.randint(v, (b, t), device="cuda") for _ in range(2)]


MODELS = {
    "gpt2": lambda b: (Gpt(50304, 1024, 768, 12, 12), tokens(50304, b, 1024)),
    "gpt2-355m": lambda b: (Gpt(50304, 1024, 1024, 16, 24), tokens(50304, b, 1024)),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("batch", type=int)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    model, data = MODELS[args.model](args.batch)
    model = model.cuda()
    run = model if args.eager else torch.compile(model)
    optim = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = run(*data)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        optim.zero_grad(set_to_none=True)
        return loss

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(args.steps):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    times.sort()
    print(
        f"RESULT bench=cuda who={'torch' if args.eager else 'torch_compile'} model={args.model} "
        f"batch={args.batch} step_ms={statistics.median(times):.3f} low_ms={times[0]:.3f} "
        f"high_ms={times[-1]:.3f} gib={torch.cuda.max_memory_allocated() / 2**30:.3f} "
        f"torch={torch.__version__}"
    )


main()
