#!/usr/bin/env python3
"""Models that torch exports, trained by sluice and by PyTorch.

usage: onnx_models.py SLUICE FOLDER [REGEX]. Run by ./dev bench onnx_models. Every model of
onnx_zoo.py is exported with torch's two exporters and imported; the loss of step 1, the gradients,
ten steps of sgd, and the bits of three stages against one are compared. FOLDER keeps the files.
"""

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
import time
import warnings

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

import onnx_zoo

STEPS = 10
LOSS_ERROR, GRAD_ERROR = 1e-4, 1e-3  # relative; gradients: of the norm of each
torch.set_num_threads(1)


def targets_for(logits, loss):
    kind, _, axis = loss.partition(":")
    if kind == "mse":
        return torch.randn_like(logits)
    shape = list(logits.shape)
    classes = shape.pop(int(axis or -1))
    return torch.randint(0, classes, shape)


def value_of(logits, targets, loss):
    kind, _, axis = loss.partition(":")
    if kind == "mse":
        return F.mse_loss(logits, targets)
    logits = logits.movedim(int(axis or -1), -1)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def randomise(model):
    """Initial values that differ everywhere: zeros, ones and layers that are copies hide faults."""
    with torch.no_grad():
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            if not tensor.is_floating_point():
                continue
            if isinstance(tensor, torch.nn.Parameter):
                tensor.add_(torch.randn_like(tensor) * (0.05 if tensor.dim() < 2 else 0.002))
            if name.endswith("running_mean"):
                tensor.copy_(torch.randn_like(tensor) * 0.1)
            if name.endswith("running_var"):
                tensor.copy_(0.8 + 0.4 * torch.rand_like(tensor))


def export(model, inputs, path, dynamo):
    """Batch normalisations stay nodes: torch folds them into weights otherwise."""
    names, values = list(inputs), tuple(inputs.values())
    norms = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in model.modules())
    if dynamo:
        batch = torch.export.Dim("batch", min=2, max=64)
        torch.onnx.export(model, values, path, dynamo=True, input_names=names,
                          output_names=["out"], external_data=False, verbose=False, optimize=not norms,
                          dynamic_shapes=(tuple({0: batch} for _ in names),) if
                          is_variadic(model) else tuple({0: batch} for _ in names))
    else:
        torch.onnx.export(model, values, path, dynamo=False, input_names=names,
                          output_names=["out"], do_constant_folding=not norms,
                          training=torch.onnx.TrainingMode.PRESERVE if norms else
                          torch.onnx.TrainingMode.EVAL,
                          dynamic_axes={n: {0: "batch"} for n in names + ["out"]})


def is_variadic(model):
    return isinstance(model, (onnx_zoo.Pick, onnx_zoo.Scores))


@contextlib.contextmanager
def silence():
    """No output, not even of C++."""
    sys.stdout.flush()
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        for fd, was in zip((1, 2), kept):
            os.dup2(was, fd)
            os.close(was)
        os.close(nowhere)


def export_quietly(model, inputs, path, dynamo):
    """'' or the reason why torch cannot export it."""
    with warnings.catch_warnings(), silence():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            export(model, inputs, path, dynamo)
            return ""
        except Exception as error:  # any failure of the exporter is a fact of the table
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}" \
                if str(error).strip() else type(error).__name__


def train(model, inputs, targets, loss, rate):
    """Losses of the steps, gradients of the first, weights after the last."""
    values, losses, grads = tuple(inputs.values()), [], {}
    for step in range(STEPS):
        model.zero_grad()
        result = value_of(model(*values), targets, loss)
        result.backward()
        losses.append(result.item())
        for name, p in model.named_parameters():
            if step == 0 and p.grad is not None:
                grads[name] = p.grad.clone()
            if p.grad is not None:
                p.data -= rate * p.grad
    return losses, grads


def rows_file(inputs, targets, path, order):
    tensors = {**inputs, "labels": targets}
    with open(path, "wb") as file:
        for sample in range(onnx_zoo.BATCH):
            for name in order:
                file.write(tensors[name][sample].float().numpy().tobytes())


class Failed(Exception):
    pass


def sluice(*args):
    ran = subprocess.run([SLUICE, *args], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Failed((ran.stderr.strip().splitlines() or ["?"])[0][:400])
    return ran.stdout


def losses_of(run):
    with open(os.path.join(run, "log.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line["loss"] for line in lines if "loss" in line and "step" in line]


def weights_of(run, path):
    sluice("ckpt", "convert", run, "-o", path)
    return load_file(path)


def ours(path, rows, loss, steps, rate, *more):
    kind, _, axis = loss.partition(":")
    run = path + ".run"
    subprocess.run(["rm", "-rf", run], check=True)
    sluice("train", path, "--loss", f"{kind}:out,labels" + (f",axis={axis}" if axis else ""),
           "--data", "f32:" + rows, "--validation", "0", "--batch", str(onnx_zoo.BATCH), "--steps",
           str(steps), "--optimizer", "sgd", "--lr", repr(rate), "--lr-schedule", "constant",
           "--clip", "0", "--seed", "1", "--out", run, *more)
    return run


def input_names(path, loss):
    kind, _, axis = loss.partition(":")
    text = sluice("import", "onnx", path, "--loss",
                  f"{kind}:out,labels" + (f",axis={axis}" if axis else ""))
    return re.findall(r"^input +(\S+)", text, re.M)


def counterpart(name, start, params):
    """torch's parameter for ours, and whether it is transposed: by name, else by value."""
    names = [name] + [n for n in params if n not in taken(name, params)]
    for theirs in names:
        value = params.get(theirs)
        if value is None or "parametrizations" in theirs:
            continue
        if start.shape == value.shape and torch.equal(start, value):
            return theirs, False
        if start.dim() == 2 and start.T.shape == value.shape and torch.equal(start.T, value):
            return theirs, True
    return None, False


def taken(name, params):
    return () if name not in params else tuple(params)


def worst_gradient(before, after, rate, params, grads):
    """The largest error of a gradient, relative to its norm; and how many were compared."""
    total = float(sum(float((g ** 2).sum()) for g in grads.values())) ** 0.5
    worst, at, matched = 0.0, "", 0
    for name, start in before.items():
        theirs, turned = counterpart(name, start, params)
        if theirs not in grads:
            continue
        grad = (start.double() - after[name].double()) / rate
        grad = grad.T if turned else grad
        want = grads[theirs].double()
        error = float((grad - want).norm()) / max(float(want.norm()), 1e-3 * total)
        matched += 1
        if error > worst:
            worst, at = error, theirs
    return worst, at, matched


def judge(path, loss, params, losses, grads, rate):
    rows, far = path + ".f32", 16.0  # a large step shows the gradient in fp32
    one = weights_of(ours(path, rows, loss, 1, 0.0), path + ".w0")
    after = weights_of(ours(path, rows, loss, 1, far), path + ".w1")
    worst, at, matched = worst_gradient(one, after, far, params, grads)
    got = losses_of(ours(path, rows, loss, STEPS, rate))
    first = abs(got[0] - losses[0]) / max(1, abs(losses[0]))
    last = max(abs(a - b) / max(1, abs(b)) for a, b in zip(got, losses))
    three = weights_of(ours(path, rows, loss, STEPS, rate, "--stages", "3", "--micro", "2"),
                       path + ".w3")
    single = weights_of(ours(path, rows, loss, STEPS, rate, "--micro", "2"), path + ".w2")
    same = all(torch.equal(three[n].view(torch.int32), single[n].view(torch.int32)) for n in single)
    return {"loss": first, "grad": worst, "at": at, "matched": matched,
            "of": len(grads), "ten": last, "same": same}


def judge_model(name, folder, dynamo):
    torch.manual_seed(7)
    np.random.seed(7)
    model, inputs, loss = onnx_zoo.ZOO[name]()
    model.eval()
    randomise(model)
    kind = "new" if dynamo else "old"
    path = os.path.join(folder, f"{name}-{kind}.onnx")
    if not os.path.exists(path):
        why = export_quietly(model, inputs, path, dynamo)
        if why:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            return {"export": why}
    torch.manual_seed(8)
    with torch.no_grad():
        targets = targets_for(model(*inputs.values()), loss)
    params = {n: p.detach().clone() for n, p in model.named_parameters()}
    rate = onnx_zoo.RATES.get(name, 1e-2)
    losses, grads = train(model, inputs, targets, loss, rate)
    try:
        rows_file(inputs, targets, path + ".f32", input_names(path, loss))
        return judge(path, loss, params, losses, grads, rate)
    except Failed as error:
        return {"refused": str(error)}


def text_of(result):
    if "export" in result:
        return "torch cannot export it: " + result["export"]
    if "refused" in result:
        return "REFUSED " + result["refused"]
    good = result["loss"] < LOSS_ERROR and result["ten"] < 10 * LOSS_ERROR and \
        result["grad"] < GRAD_ERROR and result["same"]
    return (f"{'ok' if good else 'WRONG'} loss {result['loss']:.1e} gradients {result['grad']:.1e} "
            f"({result['matched']} of {result['of']}{', ' + result['at'] if not good else ''}) "
            f"ten steps {result['ten']:.1e} stages {'equal' if result['same'] else 'DIFFER'}")


def main():
    folder = sys.argv[2]
    wanted = re.compile(sys.argv[3] if len(sys.argv) > 3 else "")
    os.makedirs(folder, exist_ok=True)
    count = {"ok": 0, "WRONG": 0, "REFUSED": 0, "torch": 0}
    for name in onnx_zoo.ZOO:
        for dynamo in (True, False):
            label = f"{name}-{'new' if dynamo else 'old'}"
            if not wanted.search(label):
                continue
            started = time.time()
            text = text_of(judge_model(name, folder, dynamo))
            count[text.split()[0]] += 1
            print(f"{label:22} {text}  [{time.time() - started:.0f} s]", flush=True)
    print(f"{count['ok']} as PyTorch, {count['WRONG']} wrong, {count['REFUSED']} refused, "
          f"{count['torch']} that torch does not export")
    return count["WRONG"] > 0


SLUICE = sys.argv[1]
if __name__ == "__main__":
    sys.exit(main())
