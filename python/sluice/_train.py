"""Training: a run under the control of the program."""

import collections.abc
import ctypes
import json
import math
import os

from . import _arrays, _notebook, _plan, _samples
from . import _library as c

_EVENTS = ("start", "step", "evaluation", "checkpoint")
_WEIGHT, _STATISTIC, _OPTIMIZER, _GRADIENT = range(4)


class Event:
    """An event of a run: kind ("start", "step", "evaluation", "checkpoint"), step, loss, accuracy,
    norm, lr, skipped, samples, seconds, text. Unknown numbers are None."""

    __slots__ = ("kind", "step", "loss", "accuracy", "norm", "lr", "skipped", "samples", "seconds",
                 "text")

    def __init__(self, raw):
        def known(value):
            return None if math.isnan(value) else value
        self.kind, self.step = _EVENTS[raw.kind], raw.step
        self.loss, self.accuracy = known(raw.loss), known(raw.accuracy)
        self.norm, self.lr = known(raw.norm), known(raw.lr)
        self.skipped, self.samples = bool(raw.skipped), raw.samples
        self.seconds, self.text = raw.dur_ns * 1e-9, raw.text.decode() if raw.text else ""

    def __repr__(self):
        return f"<{self.kind} of step {self.step}: loss {self.loss}>"


class Evaluation:
    """Loss and accuracy (None: the model has no output `logits`) over some samples."""

    def __init__(self, raw):
        self.step, self.samples, self.loss = raw.step, raw.samples, raw.loss
        self.accuracy = None if math.isnan(raw.accuracy) else raw.accuracy
        self.seconds = raw.dur_ns * 1e-9

    @property
    def perplexity(self):
        return math.exp(self.loss)

    def __repr__(self):
        return f"<evaluation of step {self.step}: loss {self.loss}, accuracy {self.accuracy}>"


class Tensors(collections.abc.MutableMapping):
    """Tensors of a run by name. Reading copies the values out; assigning copies them in."""

    def __init__(self, trainer, kinds, suffix=""):
        self._trainer, self._kinds, self._suffix = trainer, kinds, suffix

    def _shapes(self):
        raw, shapes = c.Tensor(ctypes.sizeof(c.Tensor)), {}
        handle = self._trainer._handle
        for i in range(c.lib.sl_trainer_tensor_count(handle)):
            c.check(c.lib.sl_trainer_tensor(handle, i, ctypes.byref(raw)))
            if raw.kind in self._kinds:
                name = raw.name.decode()
                name = name[:-len(self._suffix)] if self._suffix else name
                shapes[name] = tuple(raw.dim[k] for k in range(raw.rank))
        return shapes

    def shape(self, name):
        return self._shapes()[name]

    def __getitem__(self, name):
        out, at, count = _arrays.empty(self._shapes()[name])
        c.check(c.lib.sl_trainer_get_tensor(self._trainer._handle,
                                            c.text(name + self._suffix, "name"), at, count))
        return out

    def __setitem__(self, name, value):
        shape = self._shapes()[name]
        at, keep = _arrays.floats(name, value, shape)
        count = math.prod(shape)
        c.check(c.lib.sl_trainer_set_tensor(self._trainer._handle,
                                            c.text(name + self._suffix, "name"), at, count))
        del keep

    def __delitem__(self, name):
        raise TypeError("a tensor of a run cannot be removed")

    def __iter__(self):
        return iter(self._shapes())

    def __len__(self):
        return len(self._shapes())


class _Writer(c.Owner):
    """What trainers and predictors share: outputs and text for the current weights."""

    def _predict(self, predictor, inputs, output):
        made = [_arrays.sample_array(name, array) for name, array in inputs.items()]
        if not made:
            raise ValueError("predict() takes the arrays of at least one input")
        raw, index = c.Tensor(ctypes.sizeof(c.Tensor)), 0
        while True:
            c.check(c.lib.sl_predictor_output(predictor, index, ctypes.byref(raw)))
            if output is None or raw.name.decode() == output:
                break
            index += 1
        shape = (made[0][0].samples,) + tuple(raw.dim[k] for k in range(1, raw.rank))
        out, at, count = _arrays.empty(shape)
        arrays = (c.SampleArray * len(made))(*[array for array, _ in made])
        c.check(c.lib.sl_predictor_run(predictor, arrays, len(made), raw.name, at, count))
        return out

    def _write(self, predictor, prompt, tokens, temperature, top, seed, on_text):
        written, failure = [], []

        def keep(_ctx, at, length):
            try:
                piece = ctypes.string_at(at, length)
                written.append(piece)
                return 1 if on_text and on_text(piece.decode(errors="replace")) else 0
            except BaseException as error:
                failure.append(error)
                return 1
        writing = c.Writing(ctypes.sizeof(c.Writing), c.integer(tokens, "tokens"),
                            float(temperature) or -1.0, c.integer(top, "top") or -1,
                            c.integer(seed, "seed"))
        c.check(c.lib.sl_predictor_write(predictor, c.text(prompt, "prompt"),
                                         ctypes.byref(writing), c.OnText(keep), None))
        if failure:
            raise failure[0]
        return b"".join(written).decode(errors="replace")


def _setting(key, value):
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, float):
        return repr(value).encode()
    if isinstance(value, collections.abc.Mapping):  # sizes
        return ",".join(f"{k}={v}" for k, v in value.items()).encode()
    if hasattr(value, "__index__"):
        return str(value.__index__()).encode()
    return c.text(value, key)


class Trainer(_Writer):
    """A training run. `model`: a Net, a model text, a name of 'sluice list models', or the path of
    a model; None with resume=True. `data`: a mapping from inputs to arrays (NumPy, torch, DLPack,
    buffers; read in place), a data set with len() and an index, an iterable of batches, or text as
    --data. Other settings have the names of config.json: batch=16, stages=3, schedule="2bw",
    out="run", resume=True, sizes={"L": 2}, ..."""

    _close = c.lib.sl_trainer_close

    def __init__(self, model=None, data=None, *, plan=None, samples=0, fingerprint=0,
                 gradients=False, on_event=None, on_gradient=None, progress=False, config=None,
                 **settings):
        self.events, self.losses, self._failure, self._predictors = [], [], None, None
        self._source = None
        self._handle = c.opened(c.lib.sl_trainer_new)
        if config is not None:
            c.check(c.lib.sl_trainer_read(self._handle, c.text(config, "config")))
        folder = c.find_models()
        if folder:
            c.check(c.lib.sl_trainer_models(self._handle, c.text(folder, "models")))
        self._use_model(model, settings)
        self._use_data(data, settings, samples, fingerprint)
        if plan is not None:
            c.check(c.lib.sl_trainer_use_pipeline(self._handle, plan._handle))
        if gradients:
            c.check(c.lib.sl_trainer_keep_gradients(self._handle))
        for key, value in settings.items():
            if value is not None:
                c.check(c.lib.sl_trainer_set(self._handle, c.text(key, "name of a setting"),
                                             _setting(key, value)))
        self._bar = _notebook.Progress() if progress else None
        self._set_callbacks(on_event, on_gradient)
        self._call(c.lib.sl_trainer_open)
        self.weights = Tensors(self, (_WEIGHT, _STATISTIC))
        self.optimizer_state = Tensors(self, (_OPTIMIZER,))
        self.gradients = Tensors(self, (_GRADIENT,), ":gradient")

    def _use_model(self, model, settings):
        self._inputs = {}
        if model is None:
            return
        net, name = _plan.model_of(model)
        sizes = settings.get("sizes")
        sets = _setting("sizes", sizes).decode() if sizes is not None else None
        self._inputs = _plan.inputs_of(net, name, sets)
        if net is not None:
            c.check(c.lib.sl_trainer_use_net(self._handle, net._handle))
        else:
            c.check(c.lib.sl_trainer_set(self._handle, b"model", c.text(name, "model")))

    def _use_data(self, data, settings, samples, fingerprint):
        if data is None or isinstance(data, (str, bytes, os.PathLike)):
            if data is not None:
                settings["data"] = data
            return
        integers = {name for name, kind in self._inputs.items() if kind == "int"}
        self._source = _samples.source_of(data, list(self._inputs), integers, fingerprint, samples)
        for key, value in self._source.settings.items():
            if settings.get(key) not in (None, 0):
                raise ValueError(f"a stream of batches has no {key}; give an array or a data set")
            settings[key] = value
        c.check(c.lib.sl_trainer_use_samples(self._handle, ctypes.byref(self._source.struct)))

    def _set_callbacks(self, on_event, on_gradient):
        def hear(_ctx, raw):
            try:
                event = Event(raw.contents)
                if event.kind == "step":
                    self.losses.append(event.loss)
                if event.kind != "step" or on_event is None:
                    self.events.append(event)
                if self._bar:
                    self._bar.show(event, int(self.config["steps"]) if self._bar.unknown else 0)
                return 1 if on_event and on_event(event) else 0
            except BaseException as failure:  # Ctrl-C, too: the step is finished, the run saved
                self._failure = self._failure or failure
                return 1

        def see(_ctx, name, at, count):
            try:
                memory = (ctypes.c_float * count).from_address(ctypes.addressof(at.contents))
                on_gradient(name.decode(), memoryview(memory).cast("B").cast("f"))
                return 0
            except BaseException as failure:
                self._failure = self._failure or failure
                return 1
        self._hear, self._see = c.OnEvent(hear), c.OnGradient(see)
        c.check(c.lib.sl_trainer_on_event(self._handle, self._hear, None))
        if on_gradient:
            c.check(c.lib.sl_trainer_on_gradient(self._handle, self._see, None))

    def _call(self, function, *arguments):
        code = function(self._handle, *arguments)
        error = c.error(code) if code else None
        failure, self._failure = self._failure, None
        if self._source is not None and self._source.failure is not None:
            failure, self._source.failure = self._source.failure, None
        if failure is not None:
            raise failure from error
        if error is not None:
            raise error

    # ---- running ----

    def run(self, steps=0):
        """Run up to `steps` steps; 0: to the end. Returns the number of finished steps."""
        self._call(c.lib.sl_trainer_run, c.integer(steps, "steps"))
        if self._bar:
            self._bar.end()
        return self.step

    def cancel(self):
        """End the current run() after a whole step. Any thread may call it."""
        c.lib.sl_trainer_cancel(self._handle)

    def save(self):
        """Save a checkpoint and wait until it is durable."""
        self._call(c.lib.sl_trainer_save)

    def evaluate(self):
        """Loss and accuracy over `eval_samples` held-out samples. It changes no bit of the run."""
        raw = c.Evaluation(ctypes.sizeof(c.Evaluation))
        self._call(c.lib.sl_trainer_evaluate, ctypes.byref(raw))
        return Evaluation(raw)

    @property
    def step(self):
        """Finished steps."""
        step = c.lib.sl_trainer_step(self._handle)
        if step < 0:
            raise c.error(2)
        return step

    @property
    def config(self):
        """All settings, as in config.json."""
        return _Config(self)

    def report(self):
        """What 'sluice train --json' prints."""
        text = c.lib.sl_trainer_report(self._handle)
        if text is None:
            raise c.error(2)
        return json.loads(text)

    # ---- the current weights ----

    def _predictor(self):
        return c.opened(c.lib.sl_trainer_predictor, self._handle)

    def predict(self, inputs, output=None):
        """An output (default: the first) for arrays of inputs: {"x": array}."""
        predictor = self._predictor()
        try:
            return self._predict(predictor, inputs, output)
        finally:
            c.lib.sl_predictor_close(predictor)

    def write(self, prompt, tokens=200, temperature=0.8, top=40, seed=1, on_text=None):
        """Text of a language model after a prompt. top=0: all tokens."""
        predictor = self._predictor()
        try:
            return self._write(predictor, prompt, tokens, temperature, top, seed, on_text)
        finally:
            c.lib.sl_predictor_close(predictor)

    def _repr_html_(self):
        return _notebook.curve(self.losses)


class _Config(collections.abc.Mapping):
    def __init__(self, trainer):
        self._trainer = trainer

    def __getitem__(self, key):
        text = c.lib.sl_trainer_get(self._trainer._handle, c.text(key, "key"))
        if text is None:
            raise KeyError(key)
        return json.loads(text)

    def __iter__(self):
        return iter(("model", "data", "device", "dtype", "batch", "micro", "steps", "seed",
                     "optimizer", "lr", "lr_schedule", "clip", "schedule", "stages", "out"))

    def __len__(self):
        return len(list(iter(self)))


def train(model=None, data=None, **settings):
    """Train to the end; returns the Trainer with its weights, losses and events."""
    trainer = Trainer(model, data, **settings)
    trainer.run()
    return trainer


class Predictor(_Writer):
    """The newest weights of a run directory. Settings replace those of the run: device="cpu",
    data="file", threads=2. `data`: as of Trainer, for evaluate()."""

    _close = c.lib.sl_predictor_close

    def __init__(self, run, data=None, **settings):
        self._source = None
        if isinstance(data, (str, bytes, os.PathLike)):
            settings["data"] = data
        elif data is not None:
            self._source = _samples.source_of(data, [], set(), 0, 0)
        pairs = [part for key, value in settings.items()
                 for part in (c.text(key, "name of a setting"), _setting(key, value))]
        given = (c.Text * (len(pairs) + 1))(*pairs, None)
        samples = ctypes.byref(self._source.struct) if self._source else None
        self._handle = c.opened(c.lib.sl_predictor_open, c.text(run, "run"), given, samples)

    def evaluate(self, samples=0):
        """Loss and accuracy over held-out samples; 0: 1024."""
        raw = c.Evaluation(ctypes.sizeof(c.Evaluation))
        c.check(c.lib.sl_predictor_evaluate(self._handle, c.integer(samples, "samples"),
                                            ctypes.byref(raw)))
        return Evaluation(raw)

    def predict(self, inputs, output=None):
        """An output (default: the first) for arrays of inputs: {"x": array}."""
        return self._predict(self._handle, inputs, output)

    def write(self, prompt, tokens=200, temperature=0.8, top=40, seed=1, on_text=None):
        """Text of a language model after a prompt. top=0: all tokens."""
        return self._write(self._handle, prompt, tokens, temperature, top, seed, on_text)
