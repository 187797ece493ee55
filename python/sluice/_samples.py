"""Data sets of the caller: arrays, data sets with an index, streams of batches."""

import collections.abc
import ctypes
import threading

from . import _arrays
from . import _library as c

ENDLESS = 1 << 40


def _rows(item, names):
    """A mapping from input to values; a tuple has the inputs in the order of the model."""
    if isinstance(item, collections.abc.Mapping):
        return item
    if isinstance(item, (tuple, list)) and names and len(item) == len(names):
        return dict(zip(names, item))
    raise TypeError("a sample or batch is a mapping from the names of inputs to arrays")


class Source:
    """A struct sl_samples and all that must stay alive for it. `failure`: an exception in the
    callback, which the call that ran it raises again."""

    def __init__(self):
        self.struct = c.Samples(size=ctypes.sizeof(c.Samples))
        self.failure = None
        self.keep = []
        self.settings = {}

    def use(self, fill):
        def guarded(_ctx, sample, name, out, values):
            try:
                fill(sample, name.decode(), out, values)
                return 0
            except BaseException as failure:  # it cannot pass through C
                self.failure = self.failure or failure
                return 1
        self.struct.fill = c.Fill(guarded)


class ArraySource(Source):
    def __init__(self, data, fingerprint):
        super().__init__()
        made = [_arrays.sample_array(name, array) for name, array in data.items()]
        self.keep = [keep for _, keep in made]
        self.list = (c.SampleArray * len(made))(*[array for array, _ in made])
        self.struct.arrays, self.struct.array_count = self.list, len(made)
        self.struct.fingerprint = fingerprint


class _Converter:
    """Writes samples as the model's types: `integers` are the names of int inputs."""

    def __init__(self, integers):
        self.integers = integers

    def put(self, name, array, row, out, values):
        view = _arrays.view_of(array)
        kind = (view.kind, view.size)
        count = 1
        for length in view.shape[1:]:
            count *= length
        if count != values:
            raise ValueError(f"'{name}': {count} values a sample, the model takes {values}")
        if view.strides[1:] != view.dense[1:]:
            raise ValueError(f"'{name}': the values of a sample are not contiguous")
        at = view.at + row * view.strides[0]
        is_int = name in self.integers
        if kind == (("i", 4) if is_int else ("f", 4)):
            ctypes.memmove(out, at, values * 4)
            return
        source = {("f", 4): ctypes.c_float, ("f", 8): ctypes.c_double, ("u", 1): ctypes.c_uint8,
                  ("b", 1): ctypes.c_uint8, ("i", 2): ctypes.c_int16, ("u", 2): ctypes.c_uint16,
                  ("i", 4): ctypes.c_int32, ("i", 8): ctypes.c_int64}.get(kind)
        if source is None:
            raise TypeError(f"'{name}': numbers of type {view.kind}{view.size} are not supported")
        read = (source * values).from_address(at)
        target = ((ctypes.c_int32 if is_int else ctypes.c_float) * values).from_address(out)
        for i in range(values):
            number = read[i]
            if is_int and (number != int(number) or not -2**31 <= number < 2**31):
                raise ValueError(f"'{name}': {number} is not a whole number that the model takes")
            target[i] = int(number) if is_int else number


def _as_batch(value):
    """One sample as an array of one row."""
    if not (hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")):
        try:
            value = memoryview(value)
        except TypeError:
            import array as stdlib
            whole = isinstance(value, int)
            value = memoryview(stdlib.array("q" if whole else "d", [value]))
            return value
    view = _arrays.view_of(value)
    view.shape = (1,) + view.shape
    view.strides = (0,) + view.strides
    view.dense = (0,) + view.dense
    return _Ready(view)


class _Ready:
    def __init__(self, view):
        self._view = view

    @property
    def __array_interface__(self):
        v = self._view
        return {"data": (v.at, True), "typestr": "<" + v.kind + str(v.size), "shape": v.shape,
                "strides": v.strides, "version": 3}


class DatasetSource(Source):
    """A data set with __len__ and __getitem__, as torch's: one sample per index."""

    def __init__(self, data, names, integers, fingerprint):
        super().__init__()
        self.struct.count = len(data)
        self.struct.fingerprint = fingerprint
        self.lock, self.last = threading.Lock(), (None, None)
        converter = _Converter(integers)

        def fill(sample, name, out, values):
            with self.lock:
                if self.last[0] != sample:
                    self.last = (sample, _rows(data[sample], names))
                row = self.last[1]
            converter.put(name, _as_batch(row[name]), 0, out, values)
        self.use(fill)


class StreamSource(Source):
    """Batches from an iterable, in order. A resumed run skips the batches that it has seen."""

    WINDOW = 256  # batches that stay: passes in flight, and steps that are read again

    def __init__(self, data, names, integers, fingerprint, samples):
        super().__init__()
        self.data, self.names = data, names
        self.iterator = iter(data)
        self.again = self.iterator is not data
        self.lock = threading.Lock()
        self.batches, self.end = [], 0  # (first sample, count, mapping)
        self.struct.count = samples or ENDLESS
        self.struct.in_order = 1
        self.struct.fingerprint = fingerprint or 1
        self.settings = {"validation": "0"}
        converter = _Converter(integers)

        def fill(sample, name, out, values):
            with self.lock:
                first, batch = self.find(sample)
            converter.put(name, batch[name], sample - first, out, values)
        self.use(fill)

    def pull(self):
        try:
            batch = next(self.iterator)
        except StopIteration:
            if not self.again or not self.end:
                raise ValueError(f"the stream has ended after {self.end} samples") from None
            self.iterator = iter(self.data)
            batch = next(self.iterator)
        batch = _rows(batch, self.names)
        count = _arrays.view_of(next(iter(batch.values()))).shape[0]
        self.batches.append((self.end, count, batch))
        self.end += count
        if len(self.batches) > self.WINDOW:
            self.batches.pop(0)

    def find(self, sample):
        while sample >= self.end:
            self.pull()
        for first, count, batch in reversed(self.batches):
            if first <= sample < first + count:
                return first, batch
        raise ValueError(f"sample {sample} of the stream has passed already")


def source_of(data, names, integers, fingerprint, samples):
    if isinstance(data, collections.abc.Mapping):
        return ArraySource(data, fingerprint)
    is_list = isinstance(data, (list, tuple))  # of batches
    if not is_list and hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return DatasetSource(data, names, integers, fingerprint)
    if hasattr(data, "__iter__"):
        return StreamSource(data, names, integers, fingerprint, samples)
    raise TypeError("data: expected a mapping of arrays, a data set with an index, an iterable of "
                    "batches, or text that names files")
