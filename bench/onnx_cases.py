"""Writes the node cases of the ONNX backend suite for bench/onnx_case.c.

    python3 onnx_cases.py FOLDER [REGEX]

Needs the packages onnx and numpy. Cases whose tensors are not fp32, int64, int32 or bool are left
out and counted. FOLDER/NAME/fixed.onnx has as constants the inputs of whole numbers, scalars, and floats that
state a shape: the scales of Resize, the values of OneHot.
"""

import os
import re
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests


# Inputs of floats that decide a shape or are two numbers.
STATING = {"OneHot": (2,), "Resize": (1, 2), "Upsample": (1,)}


def tensor(value, info, path):
    with open(path, "wb") as file:
        file.write(value.SerializeToString())


def main():
    folder = sys.argv[1]
    wanted = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
    good = {onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.INT32,
            onnx.TensorProto.BOOL}
    written = left = 0
    for case in load_model_tests(kind="node"):
        if not wanted.search(case.name):
            continue
        model = case.model or onnx.load(os.path.join(case.model_dir, "model.onnx"))
        infos = list(model.graph.input) + list(model.graph.output)
        plain = all(i.type.HasField("tensor_type") and i.type.tensor_type.elem_type in good
                    for i in infos)
        floats = any(i.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for i in infos)
        if not plain or not floats:
            left += 1
            continue
        write(os.path.join(folder, case.name), case, model)
        written += 1
    print(f"{written} cases written, {left} of other types left out")


def write(folder, case, model):
    os.makedirs(os.path.join(folder, "0"), exist_ok=True)
    with open(os.path.join(folder, "tolerance"), "w", encoding="utf-8") as file:
        file.write(f"{case.rtol} {case.atol}\n")
    inputs, outputs = data(case, model)
    for info, value in zip(model.graph.input, inputs):
        tensor(value, info, os.path.join(folder, "0", f"input_{info.name}.pb"))
    for info, value in zip(model.graph.output, outputs):
        tensor(value, info, os.path.join(folder, "0", f"output_{info.name}.pb"))
    # Sizes are those of the data: symbols such as "N" have no meaning in a node case.
    for info, value in zip(model.graph.input, inputs):
        shape = info.type.tensor_type.shape
        del shape.dim[:]
        for size in value.dims:
            shape.dim.add().dim_value = size
    onnx.save(model, os.path.join(folder, "model.onnx"))
    stated = {node.input[i] for node in model.graph.node for i in STATING.get(node.op_type, ())
              if i < len(node.input)}
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    keep = [i for i, info in enumerate(model.graph.input)
            if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
            and not (i > 0 and len(inputs[i].dims) == 0) and info.name not in stated]
    del fixed.graph.input[:]
    for i, info in enumerate(model.graph.input):
        if i in keep:
            fixed.graph.input.add().CopyFrom(info)
        else:
            constant = fixed.graph.initializer.add()
            constant.CopyFrom(inputs[i])
            constant.name = info.name
    onnx.save(fixed, os.path.join(folder, "fixed.onnx"))


def data(case, model):
    if case.data_sets:
        pair = case.data_sets[0]
        return [as_tensor(x) for x in pair[0]], [as_tensor(x) for x in pair[1]]
    found = []
    for kind, infos in (("input", model.graph.input), ("output", model.graph.output)):
        values = []
        for i in range(len(infos)):
            path = os.path.join(case.model_dir, "test_data_set_0", f"{kind}_{i}.pb")
            value = onnx.TensorProto()
            with open(path, "rb") as file:
                value.ParseFromString(file.read())
            values.append(value)
        found.append(values)
    return found


def as_tensor(x):
    return x if isinstance(x, onnx.TensorProto) else numpy_helper.from_array(np.asarray(x))


main()
