"""The opponent of bench/pipeline.c: torch.distributed.pipelining over gloo, one process per stage.

The model of bench/models/gpt-pipe.model, size for size: pre-norm GPT, GELU, learned positions, a head
of its own, AdamW, fp32. Prints one line per schedule: `torch schedule=... tokens_s=...`; fill, drain and
the optimizer step are counted. A schedule NAME-bound binds each process to T cores of its own. `alone` is
no pipeline: every process trains its stage, all at once; the slowest counts.

Usage: pipeline_torch.py --stages P --threads T [--steps N] [--schedules 1f1b,interleaved,gpipe,zb-v]
       [--layers 16 --width 512 --vocabulary 512 --tokens 128 --micro-batch 4 --micros 16]
       pipeline_torch.py --serve --stages P --threads T ...   lines `SCHEDULE STEPS` come from stdin; the
       processes are started once and sleep between the lines
"""

import argparse
import os
import socket
import sys
import time
from queue import Empty

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed import pipelining


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(self.ln_1(x)).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Part(nn.Module):
    """Layers first .. last - 1; with the embeddings before the first and the head after the last."""

    def __init__(self, o, first, last):
        super().__init__()
        self.wte = nn.Embedding(o.vocabulary, o.width) if first == 0 else None
        self.wpe = nn.Parameter(0.02 * torch.randn(o.tokens, o.width)) if first == 0 else None
        self.blocks = nn.ModuleList(Block(o.width, o.width // 64) for _ in range(first, last))
        self.ln_f = nn.LayerNorm(o.width) if last == o.layers else None
        self.head = nn.Linear(o.width, o.vocabulary) if last == o.layers else None

    def forward(self, x):
        if self.wte is not None:
            x = self.wte(x) + self.wpe
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.ln_f(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def places(rank, o, schedule):
    """Which parts of the model this rank holds, out of how many."""
    if schedule == "interleaved":
        return [rank, rank + o.stages], 2 * o.stages
    if schedule == "zb-v":
        return [rank, 2 * o.stages - 1 - rank], 2 * o.stages
    return [rank], o.stages


def build(rank, o, schedule):
    indices, count = places(rank, o, schedule)
    borders = [o.layers * i // count for i in range(count + 1)]
    parts = [Part(o, borders[i], borders[i + 1]) for i in indices]
    stages = [pipelining.PipelineStage(p, i, count, torch.device("cpu")) for p, i in zip(parts, indices)]
    kind = {
        "1f1b": pipelining.Schedule1F1B,
        "gpipe": pipelining.ScheduleGPipe,
        "interleaved": pipelining.ScheduleInterleaved1F1B,
        "zb-v": pipelining.ScheduleZBVZeroBubble,
    }[schedule]
    return parts, kind(stages if len(stages) > 1 else stages[0], o.micros, loss_fn=loss_of)


def pipeline_step(rank, o, schedule):
    """A function that trains one step of this rank."""
    parts, pipeline = build(rank, o, schedule)
    optimizer = torch.optim.AdamW([p for part in parts for p in part.parameters()], lr=3e-4)
    batch = o.micro_batch * o.micros
    tokens = torch.randint(0, o.vocabulary, (batch, o.tokens))
    targets = torch.randint(0, o.vocabulary, (batch, o.tokens))
    last = rank == (0 if schedule == "zb-v" else o.stages - 1)

    def step():
        args = [tokens] if rank == 0 else []
        pipeline.step(*args, **({"target": targets, "losses": []} if last else {}))
        optimizer.step()
        optimizer.zero_grad()

    return step


def alone_step(rank, o):
    """One step of a stage without a pipeline: the bound of torch's workers."""
    part = Part(o, o.layers * rank // o.stages, o.layers * (rank + 1) // o.stages)
    optimizer = torch.optim.AdamW(part.parameters(), lr=3e-4)
    shape = (o.micro_batch, o.tokens)
    x = torch.randint(0, o.vocabulary, shape) if rank == 0 else torch.randn(*shape, o.width, requires_grad=True)

    def step():
        for _ in range(o.micros):
            y = part(x)
            y.backward(torch.ones_like(y) / y.numel())
        optimizer.step()
        optimizer.zero_grad()

    return step


def bind(rank, o, own):
    """Bind all threads of this process to its own cores, or to all."""
    cores = sorted(o.cores)
    if own and len(cores) >= o.stages * o.threads:
        cores = cores[rank * o.threads : (rank + 1) * o.threads]
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)


def work(rank, o, port, requests, results):
    """Serve requests of the parent; answer with tokens per second."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(o.threads)
    dist.init_process_group("gloo", rank=rank, world_size=o.stages)
    torch.manual_seed(rank)
    steps = {}
    while (request := requests[rank].get()) is not None:
        schedule, count = request
        name = schedule.removesuffix("-bound")
        if name not in steps:
            steps[name] = alone_step(rank, o) if name == "alone" else pipeline_step(rank, o, name)
            steps[name]()
        bind(rank, o, schedule != name)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(count):
            steps[name]()
        if name != "alone":
            dist.barrier()
        took = time.perf_counter() - start
        dist.barrier()
        results.put(count * o.micro_batch * o.micros * o.tokens / took)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Team:
    """The worker processes: started on first use, restarted after a failure."""

    def __init__(self, o):
        self.o, self.processes = o, None

    def start(self):
        context = mp.get_context("spawn")
        self.requests = [context.SimpleQueue() for _ in range(self.o.stages)]
        self.results = context.Queue()
        args = (self.o, free_port(), self.requests, self.results)
        self.processes = mp.spawn(work, args=args, nprocs=self.o.stages, join=False)

    def ask(self, schedule, steps):
        if not self.processes:
            self.start()
        for queue in self.requests:
            queue.put((schedule, steps))
        rates = []
        try:
            while len(rates) < self.o.stages:
                try:
                    rates.append(self.results.get(timeout=1))
                except Empty:
                    self.processes.join(timeout=0.01)  # raises when one has failed
            print(f"torch schedule={schedule} tokens_s={min(rates):.1f}", flush=True)
        except Exception as e:  # a schedule that this torch cannot run is no opponent
            print(f"torch schedule={schedule} failed: {str(e).splitlines()[-1]}", flush=True)
            self.processes = None

    def stop(self):
        if self.processes:
            for queue in self.requests:
                queue.put(None)
            while not self.processes.join():
                pass


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--stages", type=int, default=2)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--schedules", default="1f1b,interleaved,gpipe,zb-v")
    p.add_argument("--serve", action="store_true")
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--width", type=int, default=512)
    p.add_argument("--vocabulary", type=int, default=512)
    p.add_argument("--tokens", type=int, default=128)
    p.add_argument("--micro-batch", type=int, default=4)
    p.add_argument("--micros", type=int, default=16)
    o = p.parse_args()
    o.cores = os.sched_getaffinity(0)
    precision = torch.get_float32_matmul_precision()
    print(f"torch {torch.__version__}, float32 products: {precision}", file=sys.stderr, flush=True)
    team = Team(o)
    if o.serve:
        for line in sys.stdin:
            schedule, steps = line.split()
            team.ask(schedule, int(steps))
    else:
        for schedule in [*o.schedules.split(","), "alone"]:
            team.ask(schedule, o.steps)
    team.stop()


if __name__ == "__main__":
    main()
