#!/usr/bin/env python3
"""Builds a corpus of text from Debian packages, with checksums.

    bench/corpus.py OUT [--package NAME]... [--packages FILE] [--deb FILE]... [--folder DIR]...
                        [--vocab-size 32000] [--validation 0.01] [--sluice build/release/sluice]

    packages -> unpack -> text files -> drop repetitions -> split -> train.txt, validation.txt
             -> sluice tokenizer train -> tokenizer.json -> sluice tokenizer encode -> train.bin, validation.bin

A package comes from `apt-get download`, which verifies its checksum, or is a file (--deb). Archives inside it (tar
with gzip, bzip2 or xz; single gzip and xz files) are unpacked in memory, one member at a time. A file counts as text
if it is UTF-8 without control characters. Files that repeat an earlier one, and paragraphs of 200 characters or more
that came before (licences, generated headers), are left out. Documents are ordered and split by the hash of their
text, so the result does not depend on the order of packages; documents of `train.txt` are separated by
<|endoftext|>. manifest.json has SHA-256 of packages and results, and the numbers of documents, bytes and tokens.
"""
import argparse
import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import tempfile

SEPARATOR = "<|endoftext|>"
LEAST, MOST = 500, 8 << 20  # bytes of a document
PARAGRAPH = 200  # characters from which a repeated paragraph is dropped
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
NROFF = re.compile(r"(/man/|\.[1-9]$)")
OPENERS = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def members(name, data):
    """The files in a file: (name, bytes). Damaged archives are left out."""
    stem, end = os.path.splitext(name)
    try:
        if name.endswith((".tar", ".tar.gz", ".tar.xz", ".tar.bz2", ".tgz")):
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                for member in tar:
                    if member.isfile() and member.size <= 64 * MOST:
                        yield from members(member.name, tar.extractfile(member).read())
        elif end in OPENERS:
            yield from members(stem, OPENERS[end](data))
        else:
            yield name, data
    except (tarfile.TarError, OSError, EOFError, lzma.LZMAError, ValueError):
        return


def text_of(name, data):
    """The text of a document, or None."""
    if not LEAST <= len(data) <= MOST or b"\0" in data[:4096]:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if NROFF.search(name):
        text = CONTROL.sub("", text)
    text = text.replace("\r\n", "\n").replace(SEPARATOR, "")
    return None if CONTROL.search(text) else text.strip() + "\n"


class Corpus:
    def __init__(self):
        self.seen, self.paragraphs, self.documents = set(), set(), []
        self.counts = {"files": 0, "not_text": 0, "repeated": 0, "paragraphs_dropped": 0}

    def add(self, name, data):
        for inner, content in members(name, data):
            self.counts["files"] += 1
            text = text_of(inner, content)
            if text is None:
                self.counts["not_text"] += 1
            else:
                self.add_text(text)

    def add_text(self, text):
        digest = hashlib.sha256(" ".join(text.split()).encode()).digest()
        if digest in self.seen:
            self.counts["repeated"] += 1
            return
        self.seen.add(digest)
        self.documents.append((digest, text))

    def finish(self):
        """Documents in the order of their hashes, without the paragraphs of earlier ones."""
        self.documents.sort()
        for digest, text in self.documents:
            kept, own = [], set()
            for part in text.split("\n\n"):
                key = hashlib.sha256(" ".join(part.split()).encode()).digest()[:12] if len(part) >= PARAGRAPH else None
                if key and (key in self.paragraphs or key in own):
                    self.counts["paragraphs_dropped"] += 1
                    continue
                own.add(key)
                kept.append(part)
            self.paragraphs |= own - {None}
            text = "\n\n".join(kept).strip() + "\n"
            if len(text.encode()) >= LEAST:
                yield digest, text


def add_deb(corpus, path):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", path, folder], check=True)
        add_folder(corpus, folder)


def add_folder(corpus, folder):
    for root, dirs, files in os.walk(folder):
        dirs.sort()
        for name in sorted(files):
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    corpus.add(path, f.read())


def download(name, folder):
    os.makedirs(folder, exist_ok=True)
    before = set(os.listdir(folder))
    subprocess.run(["apt-get", "download", "-q", name], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    new = [f for f in os.listdir(folder) if f not in before and f.endswith(".deb")]
    if not new:
        new = [f for f in before if f.startswith(name + "_") and f.endswith(".deb")]
    return os.path.join(folder, sorted(new)[-1])


def run_json(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("out")
    p.add_argument("--package", action="append", default=[])
    p.add_argument("--packages", help="file with a name per line")
    p.add_argument("--deb", action="append", default=[])
    p.add_argument("--folder", action="append", default=[])
    p.add_argument("--vocab-size", type=int, default=32000)
    p.add_argument("--validation", type=float, default=0.01)
    p.add_argument("--sluice", default="build/release/sluice")
    args = p.parse_args()
    names = list(args.package)
    if args.packages:
        with open(args.packages, encoding="utf-8") as f:
            names += [line.strip() for line in f if line.strip() and not line.startswith("#")]
    debs = args.deb + [download(name, os.path.join(args.out, "debs")) for name in names]
    if not debs and not args.folder:
        sys.exit("corpus: name packages, .deb files or folders")
    os.makedirs(args.out, exist_ok=True)
    corpus, sources = Corpus(), []
    for deb in debs:
        add_deb(corpus, deb)
        sources.append({"package": os.path.basename(deb), "sha256": sha256(deb)})
    for folder in args.folder:
        add_folder(corpus, folder)
        sources.append({"folder": folder})

    paths = {part: os.path.join(args.out, part + ".txt") for part in ("train", "validation")}
    counts = {part: {"documents": 0} for part in paths}
    files = {part: open(path, "w", encoding="utf-8", newline="") for part, path in paths.items()}
    for digest, text in corpus.finish():
        held_out = int.from_bytes(digest[-4:], "big") < args.validation * 2**32
        part = "validation" if held_out else "train"
        files[part].write(text + SEPARATOR)
        counts[part]["documents"] += 1
    for file in files.values():
        file.close()

    tokenizer = os.path.join(args.out, "tokenizer.json")
    trained = run_json([args.sluice, "tokenizer", "train", paths["train"], "--vocab-size", str(args.vocab_size), "--special",
                        SEPARATOR, "-o", tokenizer, "--json"])
    for part, path in paths.items():
        tokens = os.path.join(args.out, part + ".bin")
        counts[part].update(run_json([args.sluice, "tokenizer", "encode", path, "--tokenizer", tokenizer, "-o", tokens, "--json"]))
        counts[part].update(bytes=os.path.getsize(path), sha256=sha256(path), tokens_sha256=sha256(tokens))
    manifest = {"sources": sources, "files": corpus.counts, "parts": counts,
                "tokenizer": {"vocab": trained["vocab"], "sha256": sha256(tokenizer)}}
    with open(os.path.join(args.out, "manifest.json"), "w", encoding="utf-8") as f:
        json.dump(manifest, f, indent=2)
        f.write("\n")
    for part, c in counts.items():
        print(f"{part}: {c['documents']} documents, {c['bytes']} bytes, {c['tokens']} tokens")


if __name__ == "__main__":
    main()
