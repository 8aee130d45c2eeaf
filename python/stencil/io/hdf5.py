"""h5py, which is imported when it is first used: what reads no file needs none."""
import importlib

from .errors import Error


class Later:
    """A module that is not imported yet."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        try:
            return getattr(importlib.import_module(self.name), name)
        except ImportError:
            raise Error(f"files need {self.name}, which is not installed: pip install {self.name}", 2) from None


h5py = Later("h5py")
