#!/usr/bin/env python3
"""Reads a run's TensorBoard events as TensorBoard does (framing, masked crc32c, protobuf) and compares
every scalar with log.jsonl."""
import glob
import json
import struct
import sys

TABLE = []
for n in range(256):
    c = n
    for _ in range(8):
        c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
    TABLE.append(c)


def masked(data):
    c = 0xFFFFFFFF
    for b in data:
        c = (c >> 8) ^ TABLE[(c ^ b) & 0xFF]
    c ^= 0xFFFFFFFF
    return (((c >> 15) | (c << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(raw):
    at = 0
    while at < len(raw):
        (length, crc) = struct.unpack_from("<QI", raw, at)
        assert crc == masked(raw[at:at + 8]), "checksum of a length"
        data = raw[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", raw, at + 12 + length)[0] == masked(data), "checksum of a record"
        yield data
        at += 16 + length
    assert at == len(raw), "a torn record"


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(wire)
            if size is None:
                assert wire == 2, "an unknown wire type"
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def scalars(path):
    """(step, tag) -> float32"""
    out, first = {}, True
    with open(path, "rb") as file:
        for event in records(file.read()):
            parts = dict(fields(event))
            if first:
                assert parts[3] == b"brain.Event:2", "the file does not begin with its version"
                first = False
                continue
            for _, value in fields(parts[5]):
                item = dict(fields(value))
                out[parts.get(2, 0), item[1].decode()] = struct.unpack("<f", item[2])[0]
    return out


def main():
    run = sys.argv[1]
    found = {}
    for path in glob.glob(run + "/events.out.tfevents.*"):
        found.update(scalars(path))
    tags = {"loss": "train/loss", "grad_norm": "train/grad_norm", "lr": "train/lr",
            "eval_loss": "eval/loss", "eval_accuracy": "eval/accuracy"}
    wanted = {}
    with open(run + "/log.jsonl", encoding="ascii") as file:
        for line in map(json.loads, file):
            wanted.update({(line["step"], tags[k]): v for k, v in line.items() if k in tags})
    assert wanted and set(found) == set(wanted), (set(found) ^ set(wanted))
    for key, value in wanted.items():
        assert found[key] == struct.unpack("<f", struct.pack("<f", value))[0], (key, found[key], value)
    print("count: %d scalars of TensorBoard are those of the log" % len(wanted))


main()
