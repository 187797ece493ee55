"""Models and pipelines: build, plan, schedule, verify, simulate."""

import ctypes
import os
import pathlib
import re

from . import _library as c


class Net(c.Owner):
    """A model with its backward pass."""

    _close = c.lib.sl_net_close
    _stats = ("parameters", "states", "forward_flops", "backward_flops", "activation_bytes",
              "nodes", "backward_nodes")

    def __init__(self, handle):
        self._handle = handle
        c.check(c.lib.sl_net_autodiff(handle))

    @classmethod
    def read(cls, file, models=None, sets=None):
        """A .model file; `sets` overrides sizes: "L=4,C=128". `models`: where `use` searches."""
        models = models or pathlib.Path(file).parent
        return cls(c.opened(c.lib.sl_net_read, c.text(file, "file"), c.text(models, "models"),
                            c.text(sets, "sets", optional=True)))

    @classmethod
    def from_text(cls, text, name="net", sets=None):
        data = c.text(text, "text")
        return cls(c.opened(c.lib.sl_net_read_text, c.text(name, "name"), data, len(data),
                            c.text(sets, "sets", optional=True)))

    def __getattr__(self, name):
        if name in self._stats:
            return c.lib.sl_net_stat(self._handle, self._stats.index(name))
        raise AttributeError(name)

    def __str__(self):
        text = c.lib.sl_net_print(self._handle)
        if text is None:
            raise c.error(2)
        return text.decode()

    @property
    def inputs(self):
        """Names of the inputs, each with its type: {"x": "float", "label": "int"}."""
        return dict(re.findall(r"^\s*input (\S+) : (int|float)", str(self), re.MULTILINE))


class Pipeline(c.Owner):
    """Stages on workers, a verified schedule, a simulation."""

    _close = c.lib.sl_pipeline_close
    _stats = ("stages", "workers", "depth", "actions", "memory_bytes", "step_ns", "end_ns",
              "busy_ns", "bubble", "peak_bytes")

    def __init__(self, handle):
        self._handle = handle

    @classmethod
    def plan(cls, net, **request):
        """Plan a net: machine, planner, schedule, optimizer, dtype, batch, micros, memory_bytes,
        seconds, cost, recompute, staleness_cost, devices, threads, straight, whole_layers. Raises
        Refused when nothing fits."""
        if not isinstance(net, Net):
            raise TypeError("plan() takes a Net")
        types = dict(c.PlanRequest._fields_[1:])
        unknown = set(request) - set(types)
        if unknown:
            raise TypeError(f"plan() knows no {', '.join(sorted(unknown))}")
        values = {}
        for key, value in request.items():
            if value is None:
                continue
            if types[key] is c.Text:
                values[key] = c.text(value, key)
            elif types[key] is c.Double:
                values[key] = float(value)
            else:
                values[key] = c.integer(int(value) if isinstance(value, bool) else value, key,
                                        8 * ctypes.sizeof(types[key]))
        return cls(c.opened(c.lib.sl_pipeline_plan, net._handle,
                            ctypes.byref(c.PlanRequest(ctypes.sizeof(c.PlanRequest), **values))))

    @classmethod
    def chain(cls, stages):
        return cls(c.opened(c.lib.sl_pipeline_chain, c.integer(stages, "stages", 32)))

    @classmethod
    def dag(cls, edges):
        """"a>b,a>c,b>d,c>d"."""
        return cls(c.opened(c.lib.sl_pipeline_dag, c.text(edges, "edges")))

    @classmethod
    def read(cls, file):
        """A .plan, .sched or .csv."""
        return cls(c.opened(c.lib.sl_pipeline_read, c.text(file, "file")))

    @classmethod
    def from_text(cls, text, name):
        """`name` ends in .plan, .sched or .csv."""
        data = c.text(text, "text")
        return cls(c.opened(c.lib.sl_pipeline_read_text, c.text(name, "name"), data, len(data)))

    def costs(self, costs):
        """Durations of passes: "F=3us,I=2us,W=2us"."""
        c.check(c.lib.sl_pipeline_costs(self._handle, c.text(costs, "costs")))

    def schedule(self, name=None, micros=0, iterations=1):
        """Build and verify a schedule; default: the one in the plan."""
        c.check(c.lib.sl_pipeline_schedule(self._handle, c.text(name, "name", optional=True),
                                           c.integer(micros, "micros"),
                                           c.integer(iterations, "iterations")))

    def verify(self):
        """Verify the schedule that was read; raises Refused with the reason."""
        c.check(c.lib.sl_pipeline_verify(self._handle))

    def simulate(self, links=None):
        c.check(c.lib.sl_pipeline_simulate(self._handle, c.text(links, "links", optional=True)))

    def _stat(self, name, worker=0):
        return c.lib.sl_pipeline_stat(self._handle, self._stats.index(name),
                                      c.integer(worker, "worker", 32))

    def _number(self, name, worker=0):
        value = self._stat(name, worker)
        if value != value:
            raise c.UsageError(2, f"{name} is not known: no such worker, or not simulated yet")
        return int(value)

    stages = property(lambda self: self._number("stages"))
    workers = property(lambda self: self._number("workers"))
    depth = property(lambda self: self._number("depth"))
    actions = property(lambda self: self._number("actions"))
    step_ns = property(lambda self: self._number("step_ns"))
    end_ns = property(lambda self: self._number("end_ns"))

    def bubble(self, worker):
        """Idle fraction of a worker's time."""
        return self._stat("bubble", worker)

    def busy_ns(self, worker):
        return self._number("busy_ns", worker)

    def memory_bytes(self, worker):
        """Bytes that a worker allocates."""
        return self._number("memory_bytes", worker)

    def peak_bytes(self, worker):
        return self._number("peak_bytes", worker)

    def text(self, format):
        """"plan", "sched", "csv"; after simulate() "grid", "svg", "html", "trace"."""
        text = c.lib.sl_pipeline_text(self._handle, c.text(format, "format"))
        if text is None:
            raise c.error(2)
        return text.decode()

    def _repr_html_(self):
        """A notebook shows the simulated timeline."""
        return self.text("svg") if self._stat("step_ns") == self._stat("step_ns") else None


def model_of(model):
    """What names a model: (net, setting). A text with a line break is a model text."""
    if isinstance(model, Net):
        return model, None
    name = os.fsdecode(model)
    if "\n" in name:
        return Net.from_text(name), None
    return None, name


def inputs_of(net, name, sets=None):
    """Inputs of a net, or of the model that a setting names; {} if it cannot be read here."""
    if net is not None:
        return net.inputs
    folder = c.find_models()
    for path in (name, os.path.join(folder, name + ".model") if folder else None):
        if path and path.endswith(".model") and os.path.isfile(path):
            net = Net.read(path, models=folder or None, sets=sets)
            try:
                return net.inputs
            finally:
                net.close()
    return {}
