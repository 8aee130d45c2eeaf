"""Acoustic waves by finite differences, in this process: traces of shots over a model, and exact gradients of their
misfit.

    Simulation    a grid, its time and faces; forward() and gradient() of shots over models of it
    Shot ricker   a source, its signal, its receivers
    Error         what goes wrong, as one line
    io            the program's files, and runs of the program under mpirun; needs h5py
    torch         forward() as a function that torch differentiates

docs/PYTHON.md shows examples. Needs NumPy alone; the library is loaded, and a GPU opened, by the first Simulation.
"""
import importlib

from .errors import Error
from .shots import Shot, ricker
from .simulation import Simulation

__all__ = ["Error", "Shot", "Simulation", "io", "ricker", "torch"]


def __getattr__(name):
    if name in ("io", "torch"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
