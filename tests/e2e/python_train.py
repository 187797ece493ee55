"""Tests of the Python package; run by python_train.sh."""
import array
import copy
import math
import os
import pickle
import tempfile
import threading
import unittest

import sluice

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

MODEL = """model small
input x : float[B, 5]
input label : int[B] < 3
param w0[7, 5] ~ normal(0.4)
param w1[3, 7] ~ normal(0.4)
h = relu(matmul(x, w0, tb = 1))
logits = matmul(h, w1, tb = 1)
output logits = logits
loss cross_entropy(logits, label)
"""
SAMPLES = 50
X = [[math.sin(1.7 * n + 2.3 * i) for i in range(5)] for n in range(SAMPLES)]
Y = [int(row[0] > 0) + int(row[1] > 0) for row in X]
SETTINGS = dict(batch=8, micro=4, steps=6, seed=11, lr=0.02, validation=16)


def buffers():
    flat = array.array("f", [v for row in X for v in row])
    return {"x": memoryview(flat).cast("B").cast("f", [SAMPLES, 5]), "label": array.array("q", Y)}


class Dataset:
    def __len__(self):
        return SAMPLES

    def __getitem__(self, n):
        return array.array("f", X[n]), Y[n]


def batches(count=6):
    data = buffers()
    for i in range(count):
        rows = range(8 * i, 8 * i + 8)
        flat = array.array("f", [v for n in rows for v in X[n]])
        yield {"x": memoryview(flat).cast("B").cast("f", [8, 5]), "label": data["label"][8 * i:8 * i + 8]}


def weights(trainer):
    return {name: bytes(memoryview(value).cast("B")) for name, value in trainer.weights.items()}


class Data(unittest.TestCase):
    def test_every_source_gives_the_same_bits(self):
        want = weights(sluice.train(MODEL, buffers(), **SETTINGS))
        sources = [Dataset()]
        if numpy:
            sources.append({"x": numpy.array(X, dtype="f4"), "label": numpy.array(Y)})
            wide = numpy.array([[*row, 9] for row in X], dtype="f4")  # strides, no copy
            sources.append({"x": wide[:, :5], "label": numpy.array(Y, dtype="i2")})
        if torch:
            sources.append({"x": torch.tensor(X), "label": torch.tensor(Y)})
            sources.append({"x": torch.tensor(X, requires_grad=True), "label": torch.tensor(Y)})
        for data in sources:
            self.assertEqual(want, weights(sluice.train(MODEL, data, **SETTINGS)))

    def test_arrays_are_read_in_place(self):
        data = buffers()
        trainer = sluice.Trainer(MODEL, data, **SETTINGS)
        for i in range(SAMPLES):
            for k in range(5):
                data["x"][i, k] = 0.0
        trainer.run()
        self.assertEqual(len(set(trainer.losses[:1])), 1)
        self.assertAlmostEqual(trainer.losses[0], math.log(3), places=5)  # all scores are 0

    def test_streams(self):
        settings = {k: v for k, v in SETTINGS.items() if k != "validation"}
        one = sluice.train(MODEL, batches(), **settings)
        lists = sluice.train(MODEL, list(batches()), stages=2, **settings)
        self.assertEqual(weights(one), weights(lists))
        with tempfile.TemporaryDirectory() as folder:
            first = sluice.Trainer(MODEL, list(batches()), out=folder + "/r", **settings)
            first.run(2)
            first.save()
            first.close()
            second = sluice.train(MODEL, list(batches()), out=folder + "/r", resume=True, **settings)
            self.assertEqual(weights(one), weights(second))
        with self.assertRaisesRegex(ValueError, "ended after 16 samples"):
            sluice.train(MODEL, batches(2), **settings)
        with self.assertRaisesRegex(ValueError, "no validation"):
            sluice.Trainer(MODEL, batches(), **SETTINGS)

    def test_wrong_arrays(self):
        good = buffers()
        with self.assertRaisesRegex(sluice.InputError, "1 values a sample, the input of the model 5"):
            sluice.Trainer(MODEL, {"x": good["label"], "label": good["label"]}, **SETTINGS)
        with self.assertRaisesRegex(sluice.InputError, "'label'"):
            sluice.Trainer(MODEL, {"x": good["x"]}, **SETTINGS)
        with self.assertRaises(TypeError):
            sluice.Trainer(MODEL, 5, **SETTINGS)
        with self.assertRaises(TypeError):
            sluice.Trainer(MODEL, {"x": "text", "label": good["label"]}, **SETTINGS)


class Running(unittest.TestCase):
    def test_steps_events_and_figures(self):
        events = []
        trainer = sluice.Trainer(MODEL, buffers(), stages=2, on_event=lambda e: events.append(e) or e.step == 3,
                                 **SETTINGS)
        self.assertEqual(trainer.run(2), 2)
        self.assertEqual(trainer.run(), 3)  # the callback cancels
        self.assertEqual(trainer.run(), 6)
        self.assertEqual([e.kind for e in events], ["start"] + 6 * ["step"])
        self.assertEqual([e.loss for e in events[1:]], trainer.losses)
        self.assertIn("<svg", trainer._repr_html_())
        self.assertEqual(trainer.config["stages"], 2)
        self.assertGreater(trainer.report()["step_s"], 0)
        evaluation = trainer.evaluate()
        self.assertAlmostEqual(evaluation.perplexity, math.exp(evaluation.loss))

    def test_exceptions_in_callbacks(self):
        def fail(event):
            if event.step == 2:
                raise KeyboardInterrupt
        trainer = sluice.Trainer(MODEL, buffers(), on_event=fail, **SETTINGS)
        with self.assertRaises(KeyboardInterrupt):
            trainer.run()
        self.assertEqual(trainer.step, 2)

        class Broken(Dataset):
            def __getitem__(self, n):
                raise OSError("disk")
        with self.assertRaisesRegex(OSError, "disk") as caught:
            sluice.train(MODEL, Broken(), **SETTINGS)
        self.assertIsInstance(caught.exception.__cause__, sluice.InputError)

    def test_gradients_and_weights(self):
        seen = set()

        def freeze(name, gradient):
            seen.add(name)
            if name == "w0":
                for i in range(len(gradient)):
                    gradient[i] = 0.0
        trainer = sluice.Trainer(MODEL, buffers(), optimizer="sgd", gradients=True, on_gradient=freeze,
                                 **SETTINGS)
        before = weights(trainer)
        trainer.run()
        self.assertEqual(before["w0"], weights(trainer)["w0"])
        self.assertNotEqual(before["w1"], weights(trainer)["w1"])
        self.assertEqual(seen, {"w0", "w1"})
        self.assertEqual(set(trainer.gradients), {"w0", "w1"})
        self.assertEqual(trainer.weights.shape("w0"), (7, 5))
        trainer.weights["w1"] = memoryview(array.array("f", range(21))).cast("B").cast("f", [3, 7])
        self.assertEqual(weights(trainer)["w1"], bytes(array.array("f", range(21))))
        self.assertEqual(set(sluice.train(MODEL, buffers(), **SETTINGS).optimizer_state),
                         {f"{w}:{s}" for w in ("w0", "w1") for s in ("exp_avg", "exp_avg_sq")})
        with self.assertRaises(KeyError):
            trainer.weights["w9"]
        with self.assertRaisesRegex(ValueError, "shape"):
            trainer.weights["w1"] = memoryview(array.array("f", range(3)))

    def test_runs_and_predictors(self):
        with tempfile.TemporaryDirectory() as folder:
            trainer = sluice.train(MODEL, buffers(), out=folder + "/r", **SETTINGS)
            predictor = sluice.Predictor(folder + "/r", buffers())
            ours, theirs = trainer.predict({"x": buffers()["x"]}), predictor.predict({"x": buffers()["x"]})
            self.assertEqual(bytes(memoryview(ours).cast("B")), bytes(memoryview(theirs).cast("B")))
            self.assertEqual(tuple(memoryview(ours).shape), (SAMPLES, 3))
            self.assertGreater(predictor.evaluate(16).loss, 0)
            run = sluice.Run(folder + "/r")
            self.assertEqual(run.losses, trainer.losses)
            self.assertIn("<svg", run.figure())

    def test_text(self):
        book = b"the quick brown fox jumps over the lazy dog. " * 200
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "book.txt")
            with open(path, "wb") as file:
                file.write(book)
            trainer = sluice.train("gpt-nano", path, steps=2, batch=4, sizes={"L": 1})
            self.assertEqual(len(trainer.write("the ", tokens=9, temperature=0).encode(errors="replace")) > 0, True)
            pieces = []
            trainer.write("the ", tokens=50, on_text=lambda piece: pieces.append(piece) or len(pieces) == 3)
            self.assertEqual(len(pieces), 3)
            with self.assertRaises(sluice.Refused):
                sluice.train(MODEL, buffers(), **SETTINGS).write("a")

    def test_two_threads(self):
        results = {}

        def work(stages):
            results[stages] = weights(sluice.train(MODEL, buffers(), stages=stages, **SETTINGS))
        threads = [threading.Thread(target=work, args=(stages,)) for stages in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results[1], results[2])

    def test_the_gil_is_released(self):
        trainer = sluice.Trainer(MODEL, buffers(), **{**SETTINGS, "steps": 1000000})
        thread = threading.Thread(target=trainer.run)
        thread.start()
        while not trainer.losses:  # Python code runs while the library trains
            pass
        trainer.cancel()
        thread.join()
        self.assertGreater(trainer.step, 0)


class Misuse(unittest.TestCase):
    def test_no_copies(self):
        net, pipe = sluice.Net.from_text(MODEL), sluice.Pipeline.chain(2)
        for owner in (net, pipe, sluice.Trainer(MODEL, buffers(), **SETTINGS)):
            for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaises(TypeError):
                    attempt(owner)
            owner.close()
            owner.close()
        with self.assertRaises(sluice.UsageError):
            str(net)
        with self.assertRaises(sluice.UsageError):
            pipe.text("plan")

    def test_arguments(self):
        pipe = sluice.Pipeline.chain(3)
        for call in (lambda: pipe.text(None), lambda: pipe.costs(None), lambda: sluice.Net.read(None),
                     lambda: sluice.Pipeline.read(None), lambda: sluice.Pipeline.dag(5),
                     lambda: sluice.Pipeline.chain("3"), lambda: sluice.Pipeline.chain(True)):
            self.assertRaises(TypeError, call)
        for call in (lambda: sluice.Pipeline.chain(2**32 + 4), lambda: pipe.schedule("1f1b", 2**70),
                     lambda: pipe.bubble(2**31)):
            self.assertRaises(OverflowError, call)
        self.assertRaises(ValueError, pipe.text, "sv\0g")
        self.assertRaises(sluice.UsageError, sluice.Pipeline.chain, -1)
        with self.assertRaisesRegex(sluice.UsageError, "did you mean 'batch'"):
            sluice.Trainer(MODEL, buffers(), batsh=3)
        with self.assertRaisesRegex(sluice.Error, "`lr`"):
            sluice.Trainer(MODEL, buffers(), lr=math.inf)

    def test_errors_have_a_trail(self):
        with self.assertRaises(sluice.InputError) as caught:
            sluice.Net.from_text("model x\ninput")
        self.assertEqual(caught.exception.code, 3)
        self.assertRegex(caught.exception.trail[0], r"^src/graph/\w+\.c:\d+ \w+$")
        self.assertRegex(caught.exception.trail[-1], r"^src/api/net\.c:")


if __name__ == "__main__":
    unittest.main()
