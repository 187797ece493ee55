"""Exports judged by the other systems' own code: arguments are what to do and folders with exports.

    torchtitan DIR...
        titan.options: its command line reads them; it builds the schedule, from x.csv where the
        options name one; its splitter cuts a small model by them; the stages together have every
        parameter once and give the same logits
    automodel DIR...
        automodel.yaml: its configuration takes the recipe; it builds the schedule; its splitter cuts
        a small Llama by it; the stages together give the same logits
    megatron DIR...
        megatron.options: its layout parser and validation accept them; with SL_MEGATRON=CHECKOUT its
        command line has every option

x.plan is the plan: do both recompute where it does? Exit 77: the package is not installed."""
import glob
import os
import re
import shlex
import sys


def skip(why):
    print("SKIPPED:", why)
    sys.exit(77)


def options(path):
    return shlex.split("".join(line for line in open(path) if not line.startswith("#")))


def value(args, name):
    return args[args.index(name) + 1]


def recomputes(folder):
    return re.search(r"^stage .* recompute\b", open(f"{folder}/x.plan").read(), re.M) is not None


def stand_ins(ranks, stages):
    """The stages of rank 0 without models and messages, for a builder of schedules."""
    from unittest import mock

    from torch.distributed.pipelining.stage import PipelineStage

    local = []
    for index in range(stages // ranks):
        stage = mock.create_autospec(PipelineStage, instance=True)
        stage.group_rank, stage.group_size, stage.submod = 0, ranks, None
        stage.num_stages, stage.stage_index, stage.device = stages, index * ranks, "cpu"
        local.append(stage)
    return local


def check_schedule(schedule, passes):
    """A schedule of torch has every forward pass. GPipe and 1F1B make theirs at run time."""
    order = getattr(schedule, "pipeline_order", {})
    text = " ".join(str(action) for row in order.values() for action in row)
    assert not order or len(re.findall(r"\d+F\d+", text)) == passes, text


def torchtitan(folder):
    try:
        import torch
        from torch import nn
        from torchtitan.config.manager import ConfigManager
        from torchtitan.distributed import activation_checkpoint
        from torchtitan.distributed.pipeline_parallel import _build_pipeline_schedule, _split_module
        from torchtitan.models import llama3
    except ImportError as error:
        skip(f"torchtitan: {error}")
    args = options(f"{folder}/titan.options")
    config = ConfigManager().parse_args(["--module", "llama3", "--config", "llama3_debugmodel"] + args)
    parts = config.parallelism.module_fqns_per_model_part
    assert config.parallelism.pipeline_parallel_degree > 1, config.parallelism
    assert len(parts) % config.parallelism.pipeline_parallel_degree == 0, parts
    local, micro = config.training.local_batch_size, config.parallelism.pipeline_parallel_microbatch_size
    assert local % micro == 0 and local > 0, (local, micro)
    if config.parallelism.pipeline_parallel_schedule_csv:
        config.parallelism.pipeline_parallel_schedule_csv = f"{folder}/x.csv"
    schedule = _build_pipeline_schedule(
        parallelism=config.parallelism, local_batch_size=local, loss_fn=None,
        stages=stand_ins(config.parallelism.pipeline_parallel_degree, len(parts)))
    check_schedule(schedule, local // micro * len(parts))
    assert isinstance(config.activation_checkpoint, activation_checkpoint.FullAC.Config) == recomputes(folder)
    assert recomputes(folder) or config.activation_checkpoint is None, config.activation_checkpoint

    class Causal(nn.Module):
        """Plain attention instead of compiled kernels; [B, L, N, H] in and out."""

        def forward(self, q, k, v, *_, **__):
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return out.transpose(1, 2)

    torch.manual_seed(7)
    whole = llama3.llama3_configs["debugmodel"]("flex").build()
    for name, parameter in whole.named_parameters():
        nn.init.normal_(parameter, std=0.05)
    for layer in (whole.layers.values() if hasattr(whole.layers, "values") else whole.layers):
        layer.attention.inner_attention = Causal()
    tokens = torch.randint(0, 2048, (2, 16))
    positions = torch.arange(16).expand(2, 16)
    stages = [_split_module(whole, names) for names in parts]
    keys = [key for stage in stages for key, _ in stage.named_parameters()]
    assert sorted(keys) == sorted(key for key, _ in whole.named_parameters()), set(
        key for key, _ in whole.named_parameters()) ^ set(keys)
    with torch.no_grad():
        want = whole(tokens, positions=positions)
        have = tokens
        for stage in stages:
            have = stage(have, positions=positions)
    assert want.shape == have.shape == (2, 16, 2048), (want.shape, have.shape)
    assert torch.equal(want, have), (want - have).abs().max()
    from importlib.metadata import version

    print(f"count: {len(parts)} stages of torchtitan {version('torchtitan')} give the logits of the whole model")


def automodel(folder):
    try:
        import torch
        import torch.distributed as dist
        import yaml
        from nemo_automodel.components.distributed.pipelining.config import PipelineConfig
        from nemo_automodel.components.distributed.pipelining.functional import (
            build_pipeline_schedule, split_model_into_stages)
        from nemo_automodel.recipes._dist_utils import parse_distributed_section
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError as error:
        skip(f"automodel: {error}")
    recipe = yaml.safe_load(open(f"{folder}/automodel.yaml"))["distributed"]
    parsed = parse_distributed_section(dict(recipe))
    config, ranks = parsed["pipeline_config"], parsed["pp_size"]
    assert isinstance(config, PipelineConfig) and ranks == 4, recipe
    assert config.pp_batch_size % config.pp_microbatch_size == 0
    assert bool(parsed["activation_checkpointing"]) == recomputes(folder), recipe
    parts = config.module_fqns_per_model_part
    schedule = build_pipeline_schedule(
        f"{folder}/x.csv" if config.pp_schedule_csv else None, config.pp_schedule, config.pp_microbatch_size,
        config.pp_batch_size, stand_ins(ranks, len(parts)), None)
    check_schedule(schedule, config.pp_batch_size // config.pp_microbatch_size * len(parts))

    class Mesh:
        """One rank of a mesh, without the others."""

        def __init__(self, rank):
            self.rank = rank

        def get_local_rank(self):
            return self.rank

        def size(self):
            return ranks

        def get_group(self, axis):
            return dist.group.WORLD

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(7)
    whole = LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=6, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=False, use_cache=False)).eval()
    tokens = torch.randint(0, 64, (2, 16))
    with torch.no_grad():
        want = whole(tokens).logits
    stages = {}
    for rank in range(ranks):
        cut, models = split_model_into_stages(
            whole, Mesh(rank), "pp", config.pp_schedule, torch.device("cpu"),
            module_names_per_stage=config.module_fqns_per_model_part)
        stages.update({stage.stage_index: model for stage, model in zip(cut, models)})
    have = tokens
    keys = [key for stage in stages.values() for key, _ in stage.named_parameters()]
    assert sorted(keys) == sorted(key for key, _ in whole.named_parameters())
    with torch.no_grad():
        for index in range(len(stages)):
            have = stages[index](have)
            have = getattr(have, "logits", have)
    assert torch.equal(want, have), (want - have).abs().max()
    dist.destroy_process_group()
    from importlib.metadata import version

    print(f"count: {len(stages)} stages of nemo-automodel {version('nemo-automodel')} give the logits of the whole model")


def megatron(folder):
    try:
        from megatron.core.package_info import __version__
        from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
    except ImportError as error:
        skip(f"megatron-core: {error}")
    args = options(f"{folder}/megatron.options")
    layout = PipelineParallelLayerLayout(
        value(args, "--pipeline-model-parallel-layout"), int(value(args, "--pipeline-model-parallel-size")))
    layout.validate_layer_layout(int(value(args, "--num-layers")), None)
    assert "--untie-embeddings-and-output-weights" in args, args
    micro, batch = int(value(args, "--micro-batch-size")), int(value(args, "--global-batch-size"))
    assert batch % micro == 0
    print(f"count: megatron-core {__version__} accepts {layout.virtual_pipeline_model_parallel_size} stages per rank")
    source = os.environ.get("SL_MEGATRON")
    if not source:
        return
    # Options are written out, or made from the fields of configuration classes.
    files = glob.glob(f"{source}/megatron/training/*.py") + glob.glob(f"{source}/megatron/training/config/*.py")
    files += [f"{source}/megatron/core/model_parallel_config.py",
              f"{source}/megatron/core/transformer/transformer_config.py"]
    text = "".join(open(path).read() for path in files)
    for option in (a for a in args if a.startswith("--")):
        field = option[2:].replace("-", "_")
        known = f"'{option}'" in text or f'"{option}"' in text or re.search(rf"^    {field}\s*:", text, re.M)
        assert known, f"{option} is not an option of {source}"
    print(f"count: {sum(a.startswith('--') for a in args)} options are in {source}")


for folder in sys.argv[2:]:
    globals()[sys.argv[1]](folder)
