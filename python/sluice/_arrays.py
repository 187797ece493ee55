"""Arrays of other libraries as addresses: NumPy, torch, DLPack, the buffer protocol. No copies."""

import ctypes

from . import _library as c

# code of enum sl_array_type by (kind, bytes): f float, i int, u unsigned, b bool
_TYPES = {("f", 4): 0, ("f", 8): 1, ("u", 1): 2, ("b", 1): 2, ("i", 2): 3, ("u", 2): 4,
          ("i", 4): 5, ("i", 8): 6}
_FORMATS = {"f": ("f", 4), "d": ("f", 8), "B": ("u", 1), "?": ("b", 1), "h": ("i", 2),
            "H": ("u", 2), "i": ("i", 4), "l": ("i", 8), "q": ("i", 8)}


class View:
    """Memory of an array: address, shape, strides in bytes. `owner` keeps it alive."""

    def __init__(self, at, kind, size, shape, strides, owner):
        self.at, self.kind, self.size, self.owner = at, kind, size, owner
        self.shape = tuple(shape)
        dense, step = [], size
        for length in reversed(self.shape):
            dense.append(step)
            step *= length
        self.strides = tuple(strides) if strides is not None else tuple(reversed(dense))
        self.dense = tuple(reversed(dense))


def _numpy_view(array):
    facts = array.__array_interface__
    kind, size = facts["typestr"][1], int(facts["typestr"][2:])
    if facts["typestr"][0] == ">" and size > 1:
        raise TypeError("the array has big-endian numbers; convert it to the native byte order")
    return View(facts["data"][0], kind, size, facts["shape"], facts.get("strides"), array)


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


def _dlpack_view(array):
    if hasattr(array, "detach"):  # torch does not export tensors that require a gradient
        array = array.detach()
    if tuple(array.__dlpack_device__())[0] not in (1, 3):  # CPU, CPU memory of CUDA
        raise TypeError("the array is on another device; copy it to the CPU first")
    capsule = array.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    t = _DLTensor.from_address(get(capsule, b"dltensor"))
    kind = {0: "i", 1: "u", 2: "f", 6: "b"}.get(t.code)
    if kind is None or t.lanes != 1:
        raise TypeError("the type of the array is not supported; convert it to float32 or int64")
    size = t.bits // 8
    shape = [t.shape[i] for i in range(t.ndim)]
    strides = [t.strides[i] * size for i in range(t.ndim)] if t.strides else None
    return View((t.data or 0) + t.byte_offset, kind, size, shape, strides, (array, capsule))


class _Buffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.c_void_p),
                ("internal", ctypes.c_void_p)]


def _buffer_view(array):
    view = memoryview(array)
    if view.format not in _FORMATS:
        raise TypeError(f"numbers of format '{view.format}' are not supported")
    raw = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(raw), 0)
    address = raw.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))  # `view` still holds the memory
    kind, size = _FORMATS[view.format]
    return View(address, kind, size, view.shape, view.strides, view)


def view_of(array):
    """The memory of any array that can be read in place."""
    if hasattr(array, "__array_interface__"):
        return _numpy_view(array)
    if hasattr(array, "__dlpack__"):
        return _dlpack_view(array)
    return _buffer_view(array)


def sample_array(name, array):
    """A struct sl_sample_array and what must stay alive for it."""
    view = view_of(array)
    kind = _TYPES.get((view.kind, view.size))
    if kind is None:
        raise TypeError(f"'{name}': numbers of type {view.kind}{view.size} are not supported; "
                        "convert them to float32 or int64")
    if not view.shape:
        raise ValueError(f"'{name}': an array of samples has at least one dimension")
    if view.strides[1:] != view.dense[1:] and 0 not in view.shape:
        raise ValueError(f"'{name}': the values of a sample are not contiguous; make it so")
    values = 1
    for length in view.shape[1:]:
        values *= length
    stride = view.strides[0] if view.shape[0] > 1 else values * view.size
    if stride < 0:
        raise ValueError(f"'{name}': the samples are in reverse order; copy the array first")
    encoded = c.text(name, "name of an input")
    made = c.SampleArray(encoded, kind, view.at, view.shape[0], values, stride)
    return made, (view, encoded)


def empty(shape):
    """A new float32 array: of NumPy if it is there, else a memoryview of that shape."""
    count = 1
    for length in shape:
        count *= length
    try:
        import numpy
        out = numpy.empty(shape, dtype=numpy.float32)
        return out, out.ctypes.data, count
    except ImportError:
        memory = (ctypes.c_float * max(count, 1))()
        flat = memoryview(memory).cast("B")[:count * 4]
        return flat.cast("f", list(shape) or [1]), ctypes.addressof(memory), count


def floats(name, value, shape):
    """The address of dense float32 values, and what must stay alive."""
    if not (hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")):
        value = memoryview(value)
    view = view_of(value)
    if (view.kind, view.size) != ("f", 4) or (view.strides != view.dense and view.shape):
        try:
            import numpy
            value = numpy.ascontiguousarray(value, dtype=numpy.float32)
            view = view_of(value)
        except ImportError:
            raise TypeError(f"'{name}' takes contiguous float32 values") from None
    if view.shape != tuple(shape):
        raise ValueError(f"'{name}' has shape {tuple(shape)}, the array {view.shape}")
    return view.at, (view, value)
