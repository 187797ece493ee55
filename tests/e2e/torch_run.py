"""Runs CSVs in torch: its schedule runtime on gloo, a process per rank. The losses of every step are those of
the same stages in one process, which adds gradients in ascending order of micro-batches.

Usage: torch_run.py FOLDER, with NAME_pP_vV_mM[_comms].csv as `sluice sched` writes them."""

import glob
import logging
import os
import re
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.distributed.pipelining.stage import PipelineStage

STEPS, WIDTH, ROWS = 4, 7, 3


def make_stage(index):
    torch.manual_seed(100 + index)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()).double()


def make_batch(step, micros):
    torch.manual_seed(1000 + step)
    return (torch.randn(micros * ROWS, WIDTH, dtype=torch.float64) for _ in range(2))


def loss_of(output, target):
    return ((output - target) ** 2).mean()


def optimizer_of(modules):
    return torch.optim.SGD([p for m in modules for p in m.parameters()], lr=0.1, momentum=0.9)


def reference(stages, micros):
    modules = [make_stage(s) for s in range(stages)]
    optimizer, losses = optimizer_of(modules), []
    for step in range(STEPS):
        inputs, targets = make_batch(step, micros)
        for x, y in zip(inputs.chunk(micros), targets.chunk(micros)):
            for module in modules:
                x = module(x)
            loss = loss_of(x, y)
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def case_of(path):
    ranks, chunks, micros = map(int, re.search(r"_p(\d+)_v(\d+)_m(\d+)", path).groups())
    rank_of = {}
    with open(path) as file:
        for rank, row in enumerate(file):
            for stage in re.findall(r"(?:^|,)(\d+)F", row):
                rank_of[int(stage)] = rank
    return ranks, ranks * chunks, micros, rank_of


def run_case(path, rank):
    ranks, stages, micros, rank_of = case_of(path)
    mine = [s for s in range(stages) if rank_of[s] == rank]
    modules = [make_stage(s) for s in mine]
    pipeline = [
        PipelineStage(m, s, stages, torch.device("cpu"), group=dist.group.WORLD)
        for m, s in zip(modules, mine)
    ]
    for stage in pipeline: # V layouts
        stage.stage_index_to_group_rank = rank_of
    runtime = _PipelineScheduleRuntime(pipeline, micros, loss_fn=loss_of, scale_grads=False)
    runtime.stage_index_to_group_rank = rank_of
    comms = path.endswith("_comms.csv")
    runtime._load_csv(path, format="compute_comms" if comms else "compute_only")
    optimizer, losses = optimizer_of(modules), []
    for step in range(STEPS):
        inputs, targets = make_batch(step, micros)
        found = []
        runtime.step(
            *([inputs] if 0 in mine else []),
            **({"target": targets, "losses": found} if stages - 1 in mine else {}),
        )
        losses += [loss.item() for loss in found]
        optimizer.step()
        optimizer.zero_grad()
    return losses


def work(rank, ranks, folder, paths):
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store{ranks}", rank=rank, world_size=ranks)
    for path in paths:
        losses = run_case(path, rank)
        if losses:
            _, stages, micros, _ = case_of(path)
            expected = reference(stages, micros)
            assert len(losses) == len(expected) == STEPS * micros, path
            for i, (a, b) in enumerate(zip(losses, expected)):
                assert a == b, (path, f"step {i // micros}", a, b)
        dist.barrier()
    dist.destroy_process_group()


def main():
    paths = sorted(glob.glob(f"{sys.argv[1]}/*.csv"))
    with tempfile.TemporaryDirectory() as folder:
        for ranks in sorted({case_of(path)[0] for path in paths}):
            chosen = [path for path in paths if case_of(path)[0] == ranks]
            mp.spawn(work, (ranks, folder, chosen), nprocs=ranks)
    print(f"count: {len(paths)} CSV files run by torch {torch.__version__}, losses as in one process")


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
