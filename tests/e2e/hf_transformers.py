"""Logits of exported folders: transformers against sluice predict. Arguments: sluice, fixtures, folder.

Each model of the fixtures is trained two steps, exported in fp32 and in bf16, and loaded by transformers.
"""

import os
import subprocess
import sys

import numpy
import torch
import transformers as t
from safetensors.torch import load_file

SLUICE, FIXTURES, WORK = sys.argv[1:]
t.logging.set_verbosity_error()


def sluice(*arguments):
    subprocess.run([SLUICE, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def load(folder, **options):
    config = t.AutoConfig.from_pretrained(folder)
    make = getattr(t, config.architectures[0])
    model, info = make.from_pretrained(folder, attn_implementation="eager", output_loading_info=True,
                                       **options)
    bad = {k: v for k, v in info.items() if k != "error_msgs" and v}
    assert not bad, (folder, bad)
    return model.eval(), config


def inputs_of(config, rows, sets):
    """The inputs of transformers from rows as make_hf.py writes them."""
    if config.model_type == "vit":
        side = config.image_size
        return {"pixel_values": torch.tensor(rows[:, :-1]).reshape(-1, config.num_channels, side, side)}
    length = int(sets.split("=")[1])
    ids = torch.tensor(rows).long()
    columns = [ids[:, i:i + length] for i in range(0, ids.shape[1], length)]
    if config.model_type == "distilbert":
        return dict(input_ids=columns[0], attention_mask=columns[1])
    if config.model_type in ("bert", "roberta"):
        return dict(input_ids=columns[0], token_type_ids=columns[1], attention_mask=columns[2])
    return dict(input_ids=columns[0])


def check(name):
    folder = os.path.join(WORK, name)
    os.mkdir(folder)
    fixture = os.path.join(FIXTURES, name)
    expected = load_file(f"{fixture}/expected.safetensors")
    from safetensors import safe_open
    with safe_open(f"{fixture}/expected.safetensors", "pt") as f:
        sets = f.metadata()["sets"]
    rows = expected["rows"].numpy()
    rows.astype("<f4").tofile(f"{folder}/rows.f32")
    size = ["--set", sets] if sets else []
    sluice("train", fixture, *size, "--data", f"f32:{folder}/rows.f32", "--steps", "2", "--batch", "4",
           "--validation", "0", "--lr", "0.01", "--out", f"{folder}/run")
    sluice("predict", f"{folder}/run", "-o", f"{folder}/logits.npy")
    ours = numpy.load(f"{folder}/logits.npy")
    sluice("export", f"{folder}/run", "--to", "hf", f"{folder}/out", "--shard-size", "2KB")
    sluice("export", f"{folder}/run", "--to", "hf", f"{folder}/half", "--dtype", "bf16")
    model, config = load(f"{folder}/out")
    assert model.dtype == torch.float32, model.dtype
    given = inputs_of(config, rows, sets)
    with torch.no_grad():
        theirs = model(**given).logits.numpy()
    off = numpy.linalg.norm(ours.reshape(theirs.shape) - theirs) / numpy.linalg.norm(theirs)
    assert off < 2e-5, (name, off)
    half, _ = load(f"{folder}/half")
    assert half.dtype == torch.bfloat16, half.dtype
    for (key, a), b in zip(model.state_dict().items(), half.state_dict().values()):
        if a.dtype == torch.float32:
            assert torch.equal(a.to(torch.bfloat16), b.to(torch.bfloat16)), key
    print(f"{name:12} {off:.1e}", flush=True)


def main():
    names = sorted(os.listdir(FIXTURES))
    for name in names:
        check(name)
    print(f"count: {len(names)} exported models as in transformers {t.__version__}")


main()
