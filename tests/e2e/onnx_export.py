"""Files that Sluice exports, in onnxruntime.

usage: onnx_export.py cases FOLDER      the files of table.onnx_export
       onnx_export.py run RUN FILE ...  files against the predictors of their runs, on random inputs
"""

import json
import pathlib
import re
import sys

import numpy as np
import onnx
import onnxruntime


def session(path):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def array(entry):
    return np.array(entry["values"], entry["dtype"]).reshape(entry["shape"])


def cases(folder):
    """Every op case against the results of our reference kernels."""
    count = failed = 0
    for path in sorted(pathlib.Path(folder).glob("*.onnx")):
        want = json.loads(path.with_suffix(".json").read_text())
        try:
            run = session(str(path))
            names = [i.name for i in run.get_inputs()]
            got = run.run(None, {name: array(want["inputs"][name]) for name in names})
        except Exception as error:  # names the case
            print(f"{path.stem}: {error}")
            failed += 1
            continue
        count += 1
        for name, values in zip((o.name for o in run.get_outputs()), got):
            expected = array(want["outputs"][name])
            if values.shape != expected.shape:
                print(f"{path.stem}: {name} has shape {values.shape}, not {expected.shape}")
                failed += 1
                continue
            off = np.abs(values - expected).max() / max(np.abs(expected).max(), 1e-3)
            if not off <= 1e-5:
                print(f"{path.stem}: {name} is off by {off:.2g}")
                failed += 1
    print(f"{count} cases, {failed} failed")
    return failed == 0 and count > 100


SAMPLES = 5


def draw(random, kind, shape, below):
    """Sizes are "B", "B*3" or numbers."""
    sizes = [SAMPLES * int(s[2:] or 1) if s[0] == "B" else int(s) for s in shape.split(",")]
    if kind == "int":
        return random.integers(0, int(below or 3), sizes)
    return random.standard_normal(sizes).astype("float32")


def compare(folder, path):
    """The first output for random inputs; all inputs of the model, those of the file among them."""
    import sluice  # not needed for `cases`

    text = (pathlib.Path(folder) / "model.model").read_text()
    random = np.random.default_rng(1)
    inputs = {name: draw(random, kind, shape, below) for name, kind, shape, below in re.findall(
        r"^input (\S+) : (int|float)\[([^\]]*)\](?: < (\d+))?", text, re.M)}
    here = sluice.Predictor(folder).predict(
        {n: v.astype("int32") if v.dtype == np.int64 else v for n, v in inputs.items()})
    there = session(path)
    names = [i.name for i in there.get_inputs()]
    values = there.run(None, {name: inputs[name] for name in names})[0]
    here = np.array(here).reshape(values.shape)
    off = np.abs(values - here).max() / np.abs(here).max()
    print(f"{path}: {names} off by {off:.2g}")
    return off <= 1e-5


def run(*paths):
    return all([compare(*pair) for pair in zip(paths[::2], paths[1::2])])


if __name__ == "__main__":
    sys.exit(0 if {"cases": cases, "run": run}[sys.argv[1]](*sys.argv[2:]) else 1)
