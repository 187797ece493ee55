"""Sluice from Python: train, evaluate, predict, plan, verify, simulate, read runs.

A thin layer over the C library (libsluice.so, ctypes); nothing is compiled and nothing but the
standard library is needed; arrays of NumPy and torch are read in place. Calls release the GIL.

    import sluice
    trainer = sluice.train("gpt-nano", data="book.txt", steps=100, batch=16, stages=2)
    print(trainer.losses[-1], trainer.evaluate().loss, list(trainer.weights))
"""

from ._library import (Error, InputError, PeerError, Refused, SystemFailure, UsageError,
                       find_models as _find_models, lib as _lib)
from ._plan import Net, Pipeline
from ._run import Run
from ._train import Evaluation, Event, Predictor, Tensors, Trainer, train

__all__ = ["Error", "Evaluation", "Event", "InputError", "Net", "PeerError", "Pipeline",
           "Predictor", "Refused", "Run", "SystemFailure", "Tensors", "Trainer", "UsageError",
           "models", "train", "version"]


def version() -> str:
    """Version of the loaded library."""
    return _lib.sl_version().decode()


__version__ = version()


def models():
    """The directory of the models that come with the library; None if there is none."""
    return _find_models()
