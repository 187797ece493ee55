"""Sluice from Python: plan, verify, simulate, and read runs.

A thin layer over the C library (libsluice.so, ctypes); nothing is compiled and nothing but the
standard library is needed. The library is searched in $SLUICE_LIBRARY, then relative to this
file, then in the library path of the system.

    import sluice
    pipe = sluice.Pipeline.chain(4)
    pipe.costs("F=1us,I=1us,W=1us")
    pipe.schedule("zb-h1", micros=8)
    pipe.simulate()
    print(pipe.text("grid"), pipe.step_ns, [pipe.bubble(w) for w in range(pipe.workers)])
"""

import ctypes
import ctypes.util
import json
import os
import pathlib

__all__ = ["Error", "Refused", "Net", "Pipeline", "Run", "version"]


class Error(Exception):
    """The error message of the library; `code` is the exit status of the program for it."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Refused(Error):
    """A check failed: a schedule does not verify, a plan does not fit."""


def _find():
    name = "libsluice.so.0.2"
    here = pathlib.Path(__file__).resolve().parent
    places = [os.environ.get("SLUICE_LIBRARY")]
    for up in (here, *here.parents[:4]):
        places += [up / name, up / "lib" / name, *up.glob("lib/*/" + name), up / "build/release" / name]
    for place in places:
        if place and pathlib.Path(place).is_file():
            return str(place)
    return ctypes.util.find_library("sluice") or name


_lib = ctypes.CDLL(_find())


class _PlanRequest(ctypes.Structure):
    """struct sl_plan_request"""

    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_char_p) for name in
                ("machine", "planner", "schedule", "optimizer", "dtype")] + [
        ("batch", ctypes.c_int64), ("micros", ctypes.c_int64), ("memory_bytes", ctypes.c_int64),
        ("seconds", ctypes.c_double)]


_handle, _text, _int64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
_out = ctypes.POINTER(ctypes.c_void_p)
for _name, _result, _arguments in [
    ("version", _text, []),
    ("err_message", _text, []),
    ("net_read", ctypes.c_int, [_text, _text, _text, _out]),
    ("net_read_text", ctypes.c_int, [_text, _text, ctypes.c_size_t, _text, _out]),
    ("net_autodiff", ctypes.c_int, [_handle]),
    ("net_stat", ctypes.c_double, [_handle, ctypes.c_int]),
    ("net_print", _text, [_handle]),
    ("net_close", None, [_handle]),
    ("pipeline_plan", ctypes.c_int, [_handle, ctypes.POINTER(_PlanRequest), _out]),
    ("pipeline_chain", ctypes.c_int, [ctypes.c_int, _out]),
    ("pipeline_dag", ctypes.c_int, [_text, _out]),
    ("pipeline_read", ctypes.c_int, [_text, _out]),
    ("pipeline_read_text", ctypes.c_int, [_text, _text, ctypes.c_size_t, _out]),
    ("pipeline_costs", ctypes.c_int, [_handle, _text]),
    ("pipeline_schedule", ctypes.c_int, [_handle, _text, _int64, _int64]),
    ("pipeline_verify", ctypes.c_int, [_handle]),
    ("pipeline_simulate", ctypes.c_int, [_handle, _text]),
    ("pipeline_stat", ctypes.c_double, [_handle, ctypes.c_int, ctypes.c_int]),
    ("pipeline_text", _text, [_handle, _text]),
    ("pipeline_close", None, [_handle]),
]:
    _function = getattr(_lib, "sl_" + _name)
    _function.restype, _function.argtypes = _result, _arguments


def _message():
    return _lib.sl_err_message().decode()


def _check(code):
    if code == 1:
        raise Refused(code, _message())
    if code:
        raise Error(code, _message())


def _bytes(text):
    return None if text is None else os.fsencode(text)


def _open(function, *arguments):
    handle = ctypes.c_void_p()
    _check(function(*arguments, ctypes.byref(handle)))
    return handle


def version():
    """Version of the loaded library."""
    return _lib.sl_version().decode()


class Net:
    """A model with its backward pass."""

    _stats = ("parameters", "states", "forward_flops", "backward_flops", "activation_bytes",
              "nodes", "backward_nodes")

    def __init__(self, handle):
        self._handle = handle
        _check(_lib.sl_net_autodiff(handle))

    @classmethod
    def read(cls, file, models=None, sets=None):
        """A .model file; `sets` overrides sizes: "L=4,C=128"."""
        models = models or pathlib.Path(file).parent
        return cls(_open(_lib.sl_net_read, _bytes(file), _bytes(models), _bytes(sets)))

    @classmethod
    def from_text(cls, text, name="net", sets=None):
        data = text.encode()
        return cls(_open(_lib.sl_net_read_text, _bytes(name), data, len(data), _bytes(sets)))

    def __getattr__(self, name):
        if name in self._stats:
            return _lib.sl_net_stat(self._handle, self._stats.index(name))
        raise AttributeError(name)

    def __str__(self):
        return _lib.sl_net_print(self._handle).decode()

    def __del__(self):
        _lib.sl_net_close(self.__dict__.get("_handle"))


class Pipeline:
    """Stages on workers, a verified schedule, a simulation."""

    _stats = ("stages", "workers", "depth", "actions", "memory_bytes", "step_ns", "end_ns",
              "busy_ns", "bubble", "peak_bytes")

    def __init__(self, handle):
        self._handle = handle

    @classmethod
    def plan(cls, net, **request):
        """Plan a net: machine, planner, schedule, optimizer, dtype, batch, micros, memory_bytes,
        seconds. Raises Refused when nothing fits."""
        values = {k: _bytes(v) if isinstance(v, (str, os.PathLike)) else v
                  for k, v in request.items()}
        unknown = set(values) - {field[0] for field in _PlanRequest._fields_[1:]}
        if unknown:
            raise TypeError(f"plan() knows no {', '.join(sorted(unknown))}")
        return cls(_open(_lib.sl_pipeline_plan, net._handle,
                         ctypes.byref(_PlanRequest(ctypes.sizeof(_PlanRequest), **values))))

    @classmethod
    def chain(cls, stages):
        return cls(_open(_lib.sl_pipeline_chain, stages))

    @classmethod
    def dag(cls, edges):
        """"a>b,a>c,b>d,c>d"."""
        return cls(_open(_lib.sl_pipeline_dag, _bytes(edges)))

    @classmethod
    def read(cls, file):
        """A .plan, .sched or .csv."""
        return cls(_open(_lib.sl_pipeline_read, _bytes(file)))

    @classmethod
    def from_text(cls, text, name):
        """`name` ends in .plan, .sched or .csv."""
        data = text.encode()
        return cls(_open(_lib.sl_pipeline_read_text, _bytes(name), data, len(data)))

    def costs(self, costs):
        _check(_lib.sl_pipeline_costs(self._handle, _bytes(costs)))

    def schedule(self, name=None, micros=0, iterations=1):
        """Build and verify a schedule; default: the one in the plan."""
        _check(_lib.sl_pipeline_schedule(self._handle, _bytes(name), micros, iterations))

    def verify(self):
        """Verify the schedule that was read; raises Refused with the reason."""
        _check(_lib.sl_pipeline_verify(self._handle))

    def simulate(self, links=None):
        _check(_lib.sl_pipeline_simulate(self._handle, _bytes(links)))

    def _stat(self, name, worker=0):
        return _lib.sl_pipeline_stat(self._handle, self._stats.index(name), worker)

    stages = property(lambda self: int(self._stat("stages")))
    workers = property(lambda self: int(self._stat("workers")))
    depth = property(lambda self: int(self._stat("depth")))
    actions = property(lambda self: int(self._stat("actions")))
    step_ns = property(lambda self: int(self._stat("step_ns")))
    end_ns = property(lambda self: int(self._stat("end_ns")))

    def bubble(self, worker):
        """Idle fraction of a worker's time."""
        return self._stat("bubble", worker)

    def busy_ns(self, worker):
        return int(self._stat("busy_ns", worker))

    def memory_bytes(self, worker):
        """Bytes that a worker allocates."""
        return int(self._stat("memory_bytes", worker))

    def peak_bytes(self, worker):
        return int(self._stat("peak_bytes", worker))

    def text(self, format):
        """"plan", "sched", "csv"; after simulate() "grid", "svg", "html", "trace"."""
        text = _lib.sl_pipeline_text(self._handle, _bytes(format))
        if text is None:
            raise Error(2, _message())
        return text.decode()

    def __del__(self):
        _lib.sl_pipeline_close(self.__dict__.get("_handle"))


class Run:
    """A run directory: configuration, log, checkpoints."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        with open(self.path / "config.json", encoding="utf-8") as file:
            self.config = json.load(file)
        self.steps, self.evals, self.staleness = [], [], []
        with open(self.path / "log.jsonl", encoding="utf-8") as file:
            for line in file:
                if not line.endswith("\n"):
                    break  # incomplete: the run was killed or is still writing
                row = json.loads(line)
                if "loss" in row:
                    self.steps.append(row)
                elif "eval_loss" in row:
                    self.evals.append(row)
                elif "rmse_stale" in row:
                    self.staleness.append(row)

    @property
    def losses(self):
        return [row["loss"] for row in self.steps]

    @property
    def checkpoints(self):
        """Steps with a checkpoint, ascending."""
        found = (self.path / "ckpt").glob("*/manifest.json")
        return sorted(json.loads(file.read_text())["step"] for file in found)
