"""The C library: where it is, its functions, and its errors as exceptions."""

import ctypes
import ctypes.util
import os
import pathlib

NAME = "libsluice.so.0.2"
_HERE = pathlib.Path(__file__).resolve().parent


class Error(Exception):
    """An error of the library. `code` is the exit status of the program for it; `trail` lists the
    places in the source that it passed, from the one that found it."""

    def __init__(self, code, message, trail=()):
        super().__init__(message)
        self.code = code
        self.trail = list(trail)


class Refused(Error):
    """A check failed: a schedule does not verify, a plan does not fit, a combination is refused."""


class UsageError(Error, ValueError):
    """A wrong argument or order of calls."""


class InputError(Error):
    """A wrong file, model or data."""


class SystemFailure(Error):
    """Memory, disk or device."""


class PeerError(Error):
    """Another worker failed."""


_CLASSES = {1: Refused, 2: UsageError, 3: InputError, 4: SystemFailure, 5: PeerError}


def _places():
    yield os.environ.get("SLUICE_LIBRARY")
    yield _HERE / "lib" / NAME  # a wheel
    for up in _HERE.parents[:5]:  # an installed prefix, a package, a source tree
        yield up / NAME
        yield up / "lib" / NAME
        yield from up.glob("lib/*/" + NAME)
        yield up / "build/release" / NAME


def find_library():
    for place in _places():
        if place and pathlib.Path(place).is_file():
            return str(place)
    return ctypes.util.find_library("sluice") or NAME


def find_models():
    """The directory of the models that come with the library; None if there is none."""
    for up in (_HERE, *_HERE.parents[:5]):
        for folder in (up / "models", up / "share/sluice/models"):
            if (folder / "gpt-nano.model").is_file():
                return str(folder)
    return None


lib = ctypes.CDLL(find_library())

Handle, Text, Int64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
Double, Int = ctypes.c_double, ctypes.c_int
Out = ctypes.POINTER(ctypes.c_void_p)
Floats = ctypes.POINTER(ctypes.c_float)


class PlanRequest(ctypes.Structure):
    """struct sl_plan_request"""

    _fields_ = [
        ("size", ctypes.c_size_t), ("machine", Text), ("planner", Text), ("schedule", Text),
        ("optimizer", Text), ("dtype", Text), ("batch", Int64), ("micros", Int64),
        ("memory_bytes", Int64), ("seconds", Double), ("cost", Text), ("recompute", Text),
        ("staleness_cost", Text), ("devices", Int64), ("threads", Int), ("straight", Int),
        ("whole_layers", Int)]


class SampleArray(ctypes.Structure):
    """struct sl_sample_array"""

    _fields_ = [("input", Text), ("type", Int), ("at", Handle), ("samples", Int64),
                ("values", Int64), ("stride_bytes", Int64)]


Fill = ctypes.CFUNCTYPE(Int, Handle, Int64, Text, Handle, Int64)


class Samples(ctypes.Structure):
    """struct sl_samples"""

    _fields_ = [("size", ctypes.c_size_t), ("count", Int64),
                ("arrays", ctypes.POINTER(SampleArray)), ("array_count", Int), ("in_order", Int),
                ("fill", Fill), ("ctx", Handle), ("fingerprint", ctypes.c_uint64)]


class Event(ctypes.Structure):
    """struct sl_trainer_event"""

    _fields_ = [("size", ctypes.c_size_t), ("kind", Int), ("skipped", Int), ("step", Int64),
                ("samples", Int64), ("dur_ns", Int64), ("loss", Double), ("accuracy", Double),
                ("norm", Double), ("lr", Double), ("text", Text)]


OnEvent = ctypes.CFUNCTYPE(Int, Handle, ctypes.POINTER(Event))
OnGradient = ctypes.CFUNCTYPE(Int, Handle, Text, Floats, Int64)
OnText = ctypes.CFUNCTYPE(Int, Handle, Handle, ctypes.c_size_t)


class Evaluation(ctypes.Structure):
    """struct sl_evaluation"""

    _fields_ = [("size", ctypes.c_size_t), ("step", Int64), ("samples", Int64), ("dur_ns", Int64),
                ("loss", Double), ("accuracy", Double)]


class Tensor(ctypes.Structure):
    """struct sl_tensor"""

    _fields_ = [("size", ctypes.c_size_t), ("name", Text), ("kind", Int), ("rank", Int),
                ("dim", Int64 * 8), ("count", Int64)]


class Writing(ctypes.Structure):
    """struct sl_writing"""

    _fields_ = [("size", ctypes.c_size_t), ("tokens", Int64), ("temperature", Double),
                ("top", Int64), ("seed", Int64)]


_ADDRESS = ctypes.POINTER
FUNCTIONS = [
    ("version", Text, []),
    ("err_message", Text, []),
    ("err_trail", Text, [Int]),
    ("net_read", Int, [Text, Text, Text, Out]),
    ("net_read_text", Int, [Text, Text, ctypes.c_size_t, Text, Out]),
    ("net_autodiff", Int, [Handle]),
    ("net_stat", Double, [Handle, Int]),
    ("net_print", Text, [Handle]),
    ("net_close", None, [Handle]),
    ("pipeline_plan", Int, [Handle, _ADDRESS(PlanRequest), Out]),
    ("pipeline_chain", Int, [Int, Out]),
    ("pipeline_dag", Int, [Text, Out]),
    ("pipeline_read", Int, [Text, Out]),
    ("pipeline_read_text", Int, [Text, Text, ctypes.c_size_t, Out]),
    ("pipeline_costs", Int, [Handle, Text]),
    ("pipeline_schedule", Int, [Handle, Text, Int64, Int64]),
    ("pipeline_verify", Int, [Handle]),
    ("pipeline_simulate", Int, [Handle, Text]),
    ("pipeline_stat", Double, [Handle, Int, Int]),
    ("pipeline_text", Text, [Handle, Text]),
    ("pipeline_close", None, [Handle]),
    ("trainer_new", Int, [Out]),
    ("trainer_close", None, [Handle]),
    ("trainer_set", Int, [Handle, Text, Text]),
    ("trainer_read", Int, [Handle, Text]),
    ("trainer_models", Int, [Handle, Text]),
    ("trainer_use_net", Int, [Handle, Handle]),
    ("trainer_use_pipeline", Int, [Handle, Handle]),
    ("trainer_use_samples", Int, [Handle, _ADDRESS(Samples)]),
    ("trainer_use_mpi", Int, [Handle, Handle]),
    ("trainer_keep_gradients", Int, [Handle]),
    ("trainer_on_event", Int, [Handle, OnEvent, Handle]),
    ("trainer_on_gradient", Int, [Handle, OnGradient, Handle]),
    ("trainer_open", Int, [Handle]),
    ("trainer_get", Text, [Handle, Text]),
    ("trainer_run", Int, [Handle, Int64]),
    ("trainer_cancel", None, [Handle]),
    ("trainer_step", Int64, [Handle]),
    ("trainer_save", Int, [Handle]),
    ("trainer_report", Text, [Handle]),
    ("trainer_evaluate", Int, [Handle, _ADDRESS(Evaluation)]),
    ("trainer_tensor_count", Int64, [Handle]),
    ("trainer_tensor", Int, [Handle, Int64, _ADDRESS(Tensor)]),
    ("trainer_get_tensor", Int, [Handle, Text, Handle, Int64]),
    ("trainer_set_tensor", Int, [Handle, Text, Handle, Int64]),
    ("trainer_predictor", Int, [Handle, Out]),
    ("predictor_open", Int, [Text, _ADDRESS(Text), _ADDRESS(Samples), Out]),
    ("predictor_close", None, [Handle]),
    ("predictor_evaluate", Int, [Handle, Int64, _ADDRESS(Evaluation)]),
    ("predictor_output", Int, [Handle, Int, _ADDRESS(Tensor)]),
    ("predictor_run", Int, [Handle, _ADDRESS(SampleArray), Int, Text, Handle, Int64]),
    ("predictor_write", Int, [Handle, Text, _ADDRESS(Writing), OnText, Handle]),
]
for _name, _result, _arguments in FUNCTIONS:
    _function = getattr(lib, "sl_" + _name)
    _function.restype, _function.argtypes = _result, _arguments


def error(code):
    """The last error of this thread as an exception."""
    trail, place = [], lib.sl_err_trail(0)
    while place is not None:
        trail.append(place.decode())
        place = lib.sl_err_trail(len(trail))
    return _CLASSES.get(code, Error)(code, lib.sl_err_message().decode(errors="replace"), trail)


def check(code):
    if code:
        raise error(code)


def text(value, what, optional=False):
    """A str, bytes or path as bytes. A zero byte would end it early."""
    if value is None and optional:
        return None
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{what}: expected text, not {type(value).__name__}")
    data = os.fsencode(value)
    if b"\0" in data:
        raise ValueError(f"{what}: the text contains a zero byte")
    return data


def integer(value, what, bits=64):
    """An int that the C type holds: ctypes would cut it off."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what}: expected a whole number, not {type(value).__name__}")
    value = value.__index__()
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise OverflowError(f"{what}: {value} needs more than {bits} bits")
    return value


def opened(function, *arguments):
    handle = ctypes.c_void_p()
    check(function(*arguments, ctypes.byref(handle)))
    return handle


class Owner:
    """Base of objects that own a handle of the library: one owner, closed once."""

    _handle = None
    _close = None

    def close(self):
        """Frees it; later calls raise UsageError."""
        handle, self._handle = self._handle, None
        if handle:
            type(self)._close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __del__(self):
        try:
            self.close()
        except Exception:  # the interpreter is ending
            pass

    def __copy__(self):
        raise TypeError(f"a {type(self).__name__} cannot be copied: it owns memory of the library")

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __reduce__(self):
        raise TypeError(f"a {type(self).__name__} cannot be pickled: it owns memory of the library")
