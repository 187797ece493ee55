#!/usr/bin/env python3
"""The opponent of `./dev bench learn`: gpt-tiny in PyTorch from the weights that sluice started from,
on the same windows of the same text, in an order of its own. Prints one JSON line with the loss over
the validation windows. The model is the one of the parity tests."""
import argparse
import json
import os
import struct
import sys
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tests/fixtures"))
from make_parity import gpt  # noqa: E402


def load(path):
    with open(path, "rb") as file:
        raw = file.read()
    length = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + at for at in entry["data_offsets"])
            values = torch.frombuffer(bytearray(raw[begin:end]), dtype=torch.float32)
            tensors[name] = values.reshape(entry["shape"]).clone()
    return tensors


def windows(text, t):
    """Windows lie side by side; the last tenth is for validation, as in sluice."""
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    count = (len(data) - 1) // t
    held = int(0.1 * count)
    x, y = data[:count * t].view(count, t), data[1:count * t + 1].view(count, t)
    return (x[:count - held], y[:count - held]), (x[count - held:], y[count - held:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--init", required=True)
    parser.add_argument("--data", required=True)
    for name, value in (("steps", 300), ("batch", 16), ("threads", 2), ("seed", 1), ("layers", 6), ("heads", 6)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    p = load(args.init)
    for value in p.values():
        value.requires_grad_()
    t, c = p["wpe.weight"].shape
    sizes = {"L": args.layers, "H": args.heads, "C": c}
    with open(args.data, "rb") as file:
        (x, y), (vx, vy) = windows(file.read(), t)
    optimizer = torch.optim.AdamW(
        [{"params": [v for v in p.values() if v.ndim >= 2], "weight_decay": 0.1},
         {"params": [v for v in p.values() if v.ndim < 2], "weight_decay": 0.0}],
        lr=args.lr, betas=(0.9, 0.999), fused=True)
    start, order = time.perf_counter(), torch.empty(0, dtype=torch.long)
    for _ in range(args.steps):
        if len(order) < args.batch:
            order = torch.cat([order, torch.randperm(len(x))])
        pick, order = order[:args.batch], order[args.batch:]
        optimizer.zero_grad(set_to_none=True)
        gpt(p, {"tokens": x[pick], "targets": y[pick]}, sizes).backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        optimizer.step()
    total = 0.0
    with torch.no_grad():
        for at in range(0, len(vx), args.batch):
            part = slice(at, at + args.batch)
            loss = gpt(p, {"tokens": vx[part], "targets": vy[part]}, sizes)
            total += loss.item() * len(vx[part])
    print(json.dumps({"eval_loss": total / len(vx), "samples": len(vx),
                      "seconds": time.perf_counter() - start, "version": torch.__version__}))


if __name__ == "__main__":
    main()
