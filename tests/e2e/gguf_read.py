"""Reads files of `sluice export --to gguf` with the package gguf. Arguments: sluice, fixtures, folder."""

import json
import os
import shutil
import subprocess
import sys

import gguf
import numpy
from safetensors.torch import load_file

SLUICE, FIXTURES, WORK = sys.argv[1:]
ARCHS = {"gpt2": "gpt2", "llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
REFUSED_SETTINGS = ("rope_parameters", "sliding_window", "use_sliding_window", "layer_types")
SPLITS = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2", "llama2": None}  # None: with scores


def export(folder, path, *options):
    subprocess.run([SLUICE, "export", folder, "--to", "gguf", path, *options], check=True,
                   stdout=subprocess.DEVNULL)
    return gguf.GGUFReader(path)


def refused(folder, word, *options):
    path = f"{WORK}/no.gguf"
    done = subprocess.run([SLUICE, "export", folder, "--to", "gguf", path, *options], capture_output=True,
                          text=True)
    assert done.returncode == 1 and word in done.stderr, (folder, word, done)
    assert not os.path.exists(path)


def value(reader, key):
    return reader.fields[key].contents()


def near(a, b):
    return abs(a - b) <= 1e-6 * abs(b)


def edit(path, change):
    with open(path) as f:
        text = json.load(f)
    change(text)
    with open(path, "w") as f:
        json.dump(text, f)
    return text


def write_tokenizer(folder, vocab, like):
    with open(f"{FIXTURES}/../tokenizers/{like}.json") as f:
        model = json.load(f)
    tokens = {chr(0x61 + i): i for i in range(vocab - 4)}
    tokens.update({"<0x41>": vocab - 4, "ab": vocab - 3, "bc": vocab - 2})
    text = {"added_tokens": [{"id": vocab - 1, "content": "<|end|>", "special": True}],
            "model": {"type": "BPE", "byte_fallback": model["model"]["byte_fallback"], "unk_token": "a", "vocab": tokens,
                      "merges": ["a b", ["b", "c"]]}}
    text.update(normalizer=model["normalizer"], pre_tokenizer=model["pre_tokenizer"])
    with open(f"{folder}/tokenizer.json", "w") as f:
        json.dump(text, f)


def check_tokenizer(name, reader, config, like):
    words = value(reader, "tokenizer.ggml.tokens")
    kinds = value(reader, "tokenizer.ggml.token_type")
    assert len(words) == len(kinds) == config["vocab_size"], name
    assert words[0] == "a" and words[-4:] == ["<0x41>", "ab", "bc", "<|end|>"], words
    assert kinds[-1] == gguf.TokenType.CONTROL and kinds[-2] == gguf.TokenType.NORMAL, kinds
    assert value(reader, "tokenizer.ggml.eos_token_id") == config["vocab_size"] - 1
    if not SPLITS[like]:
        assert value(reader, "tokenizer.ggml.model") == "llama"
        assert value(reader, "tokenizer.ggml.add_space_prefix")
        assert value(reader, "tokenizer.ggml.unknown_token_id") == 0 and kinds[0] == gguf.TokenType.UNKNOWN
        assert kinds[-4] == gguf.TokenType.BYTE
        assert value(reader, "tokenizer.ggml.scores") == [-float(i) for i in range(len(words))]
        return
    assert value(reader, "tokenizer.ggml.model") == "gpt2" and kinds[-4] == gguf.TokenType.NORMAL
    assert value(reader, "tokenizer.ggml.pre") == SPLITS[like]
    assert value(reader, "tokenizer.ggml.merges") == ["a b", "b c"]


def check_settings(name, reader, config):
    arch = ARCHS[name]
    assert value(reader, "general.architecture") == arch
    gpt2 = arch == "gpt2"
    width = config["n_embd" if gpt2 else "hidden_size"]
    heads = config["n_head" if gpt2 else "num_attention_heads"]
    want = {"block_count": 2, "embedding_length": width, "attention.head_count": heads,
            "vocab_size": config["vocab_size"],
            "context_length": config["n_positions" if gpt2 else "max_position_embeddings"],
            "feed_forward_length": 4 * width if gpt2 else config["intermediate_size"]}
    if gpt2:
        eps = ("attention.layer_norm_epsilon", config["layer_norm_epsilon"])
    else:
        eps = ("attention.layer_norm_rms_epsilon", config["rms_norm_eps"])
        head = config.get("head_dim", width // heads)
        want.update({"attention.head_count_kv": config["num_key_value_heads"], "rope.dimension_count": head,
                     "attention.key_length": head, "attention.value_length": head,
                     "rope.scaling.type": "linear"})
        assert near(value(reader, f"{arch}.rope.freq_base"), 5000)
        assert near(value(reader, f"{arch}.rope.scaling.factor"), 2.5)
    assert near(value(reader, f"{arch}.{eps[0]}"), eps[1])
    got = {key: value(reader, f"{arch}.{key}") for key in want}
    assert got == want, (name, got, want)


def expected_tensors(name, weights, config):
    """Names by the package's own table; rows of q and k of llama in the order of its rotation."""
    arch = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[ARCHS[name]]
    names = gguf.get_tensor_name_map(arch, 2)
    out = {}
    for key, w in weights.items():
        if name == "gpt2" and key.endswith(".weight") and (".c_" in key):
            w = w.T
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(key.split(".")[-2])
        if ARCHS[name] == "llama" and heads:
            h = config[heads]
            w = w.reshape(h, 2, w.shape[0] // h // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
        out[names.get_name(key, try_suffixes=(".weight", ".bias"))] = w
    return out


def check_values(name, reader, expected, dtype):
    got = {t.name: t for t in reader.tensors}
    assert set(got) == set(expected), (name, set(got) ^ set(expected))
    for key, want in expected.items():
        kind = gguf.GGMLQuantizationType[dtype if want.ndim > 1 else "F32"]
        assert got[key].tensor_type == kind, (name, key, got[key].tensor_type)
        assert list(got[key].shape) == list(want.shape)[::-1], (name, key, got[key].shape)
        data = gguf.dequantize(got[key].data, kind).reshape(want.shape)
        if kind == gguf.GGMLQuantizationType.F16:
            want = want.astype("e").astype("f")
        bits = 2 ** -8 if kind == gguf.GGMLQuantizationType.BF16 else 0
        assert (numpy.abs(data - want) <= bits * numpy.abs(want)).all(), (name, key)


def change_config(config):
    for key in REFUSED_SETTINGS:
        config.pop(key, None)
    config["eos_token_id"] = config["vocab_size"] - 1
    if config["model_type"] != "gpt2":
        config.update(sliding_window=None, rope_theta=5000,
                      rope_scaling={"rope_type": "linear", "factor": 2.5})


def check(name, like):
    folder = f"{WORK}/{name}"
    shutil.copytree(f"{FIXTURES}/{name}", folder)
    config = edit(f"{folder}/config.json", change_config)
    write_tokenizer(folder, config["vocab_size"], like)
    weights = {}
    for file in os.listdir(folder):
        if file.startswith("model") and file.endswith(".safetensors"):
            weights.update({k: v.float().numpy() for k, v in load_file(f"{folder}/{file}").items()})
    expected = expected_tensors(name, weights, config)
    for dtype, option in (("F32", "fp32"), ("F16", "fp16"), ("BF16", "bf16")):
        reader = export(folder, f"{folder}/{option}.gguf", "--dtype", option)
        check_values(name, reader, expected, dtype)
    check_settings(name, reader, config)
    check_tokenizer(name, reader, config, like)


def check_refusals():
    refused(f"{FIXTURES}/gemma2", "gemma2")
    refused(f"{FIXTURES}/mistral", "sliding_window")
    refused(f"{FIXTURES}/llama", "rope_type")
    edit(f"{WORK}/mistral/config.json", lambda c: c.pop("sliding_window"))
    refused(f"{WORK}/mistral", "sliding_window")
    edit(f"{WORK}/llama/tokenizer.json", lambda t: t.pop("pre_tokenizer"))
    refused(f"{WORK}/llama", "split")
    edit(f"{WORK}/qwen3/tokenizer.json", lambda t: t["model"]["merges"].reverse())
    refused(f"{WORK}/qwen3", "order")


def main():
    tokenizers = {"gpt2": "gpt2", "llama": "llama3", "mistral": "llama2", "qwen2": "qwen2", "qwen3": "llama2"}
    for name, like in tokenizers.items():
        check(name, like)
    check_refusals()
    print(f"count: {3 * len(tokenizers)} files read by gguf")


main()
