"""h5py, which is imported when it is first used: what reads no file needs none."""
import importlib


class Later:
    """A module that is not imported yet."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        return getattr(importlib.import_module(self.name), name)


h5py = Later("h5py")
