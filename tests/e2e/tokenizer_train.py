"""sluice tokenizer train against the package `tokenizers`: random small corpora and given files.

Usage: tokenizer_train.py SLUICE COUNT FILE...   (in an empty folder)"""
import json
import random
import subprocess
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

sluice, count, files = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
POOLS = ["ab", "abc ", "aab b\n", "abcdefgh \n\t", "АБВгде жз\n", "漢字かな交じり文 。\n", "a1 b2'sé ü\r\n",
         "مرحبا بالعالم ", "\U0001f600\U0001f44d\U0001f3fd ñ a\n", "ไทย ภาษา \u00a0\u2003x", "<|x|>ab "]


def package(paths, vocab, least, special):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train(paths, trainers.BpeTrainer(vocab_size=vocab, min_frequency=least, special_tokens=special, show_progress=False,
                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(t.to_str())


def compare(what, paths, vocab, least, special):
    command = [sluice, "tokenizer", "train", *paths, "--vocab-size", str(vocab), "--min-frequency", str(least), "-o", "own.json"]
    for token in special:
        command += ["--special", token]
    subprocess.run(command, check=True, capture_output=True)
    with open("own.json", encoding="utf-8") as f:
        own = json.load(f)
    theirs = package(paths, vocab, least, special)
    if own != theirs:
        parts = [key for key in theirs["model"] if own["model"][key] != theirs["model"][key]]
        sys.exit(f"FAILED: {what}: vocab {vocab}, least {least}, special {special}: other {parts or 'settings'}")


for seed in range(count):
    rng = random.Random(seed)
    pool = "".join(rng.sample(POOLS, rng.randint(1, 3)))
    paths = []
    for name in ["a.txt", "b.txt"][:rng.randint(1, 2)]:
        with open(name, "w", encoding="utf-8", newline="") as f:
            f.write("".join(rng.choice(pool) for _ in range(rng.choice([0, 20, 200, 2000, 20000]))))
        paths.append(name)
    compare(f"seed {seed}", paths, rng.choice([257, 300, 400, 1000, 5000]), rng.choice([0, 0, 1, 2, 5]),
            rng.choice([[], ["<|endoftext|>"], ["ab", "<s>", "é"], ["<|x|>"]]))
for path in files:
    compare(path, [path], 3000, 0, ["<|endoftext|>"])
print(f"count: {count + len(files)} corpora give the tokenizers of the package")
