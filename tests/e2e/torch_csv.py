"""Loads CSVs with torch's own code and compares what it understood with what is in the file."""

import csv
import glob
import logging
import re
import sys
from unittest import mock

from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime, _simulate_comms_compute
from torch.distributed.pipelining.stage import PipelineStage

logging.disable(logging.WARNING)
count = 0
for path in sorted(glob.glob(f"{sys.argv[1]}/*.csv")):
    ranks, chunks, micros = map(int, re.search(r"_p(\d+)_v(\d+)_m(\d+)", path).groups())
    comms = path.endswith("_comms.csv")
    stage = mock.create_autospec(PipelineStage, instance=True)
    stage.group_rank, stage.group_size, stage.submod = 0, ranks, None
    stage.num_stages = ranks * chunks
    runtime = _PipelineScheduleRuntime([stage] * chunks, micros)
    runtime._load_csv(path, format="compute_comms" if comms else "compute_only")
    understood = runtime.pipeline_order_with_comms if comms else runtime.pipeline_order
    with open(path, newline="") as file:
        for rank, row in enumerate(csv.reader(file)):
            assert [str(action) for action in understood[rank]] == row, (path, rank)
    # torch's dry run of the messages; it does not know reductions
    order = {
        rank: [a for a in row if "REDUCE" not in str(a) and "SHARD" not in str(a)]
        for rank, row in runtime.pipeline_order_with_comms.items()
    }
    _simulate_comms_compute(order, lambda s: runtime.stage_index_to_group_rank[s], ranks * chunks)
    count += 1
print(f"count: {count} CSV files read by torch")
