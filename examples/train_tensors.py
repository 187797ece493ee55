"""Trains three stages with 2bw on torch tensors (or lists, without torch); evaluates, resumes."""
import sys

import sluice

try:
    from torch import tensor
except ImportError:
    from array import array

    def tensor(rows):
        flat = array("f", [value for row in rows for value in row])
        return memoryview(flat).cast("B").cast("f", [len(rows), len(rows[0])])

MODEL = """model wave
input x : float[B, 4]
input y : float[B, 1]
param w0[16, 4] ~ normal(0.5)
param w1[16, 16] ~ normal(0.25)
param w2[1, 16] ~ normal(0.25)
h = tanh(matmul(x, w0, tb = 1))
h = tanh(matmul(h, w1, tb = 1))
logits = matmul(h, w2, tb = 1)
output logits = logits
loss mse(logits, y)
"""
rows = [[((n * 37 + i * 11) % 23 - 11) / 11 for i in range(4)] for n in range(256)]
data = {"x": tensor(rows), "y": tensor([[r[0] * r[1] - r[2]] for r in rows])}
for until in (30, 60):  # the second one resumes after step 30
    trainer = sluice.Trainer(MODEL, data, stages=3, schedule="2bw", batch=16, micro=4, lr=0.01,
                             steps=60, out=sys.argv[1] if sys.argv[1:] else "wave-run", resume=True)
    trainer.run(until - trainer.step)
    trainer.save()
    print(f"step {trainer.step}  validation loss {trainer.evaluate().loss:.6f}  "
          f"shape of w2 {tuple(trainer.weights.shape('w2'))}")
    trainer.close()
