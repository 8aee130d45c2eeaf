"""What a run gives."""
import math

import numpy as np

from .arrays import like, numpy_empty, on_host
from .checks import number, shown
from .errors import Error


class Results:
    """Takes what a run gives. Its arrays lie where `model` does."""

    def __init__(self, name, model, fields=False, shape=None):
        self.name, self.fields, self.shape, self.make, self.found = name, fields, shape, like(model), {}

    def take(self, shot, kind, name, step, double, shape):
        """Memory for a result; None: it is not wanted."""
        if kind == "field" and not self.fields or kind == "gradient" and (shot >= 0) != (name in ("signals", "misfit")):
            return None
        memory = (numpy_empty if name == "misfit" else self.make)(shape, double)
        self.found[kind, name, shot, step] = memory.owner
        return memory

    def checked(self, misfit, shot, traces):
        """J and its derivative, of the caller's function."""
        answer = misfit(shot, traces)
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise Error(f"misfit: expected (J, dJ/dtraces), found {shown(answer)}")
        value, derivative = number(answer[0], "misfit: J"), on_host(answer[1], "dJ/dtraces")
        if derivative.shape != traces.shape:
            raise Error(f"misfit: dJ/dtraces has shape {derivative.shape}, the traces {traces.shape}", 2)
        self.found["gradient", "misfit", shot, 0] = value
        return value, derivative

    def of(self, kind, shot):
        return {name: value for (a, name, b, _), value in self.found.items() if (a, b) == (kind, shot)}

    def traces(self, count, axes):
        traces = Traces(self.of("traces", shot).get("u") for shot in range(count))
        traces.maps, traces.fields = [{} for _ in range(count)], [{} for _ in range(count)]
        for (kind, name, shot, step), value in self.found.items():
            if kind == "maps":
                traces.maps[shot][name] = without(value, axes, name == "dft")
            elif kind == "field":
                traces.fields[shot][step] = without(value, axes)
        return traces


def without(value, axes, first=False):
    """An array (nz, ny, nx), or with `first` (frequencies, nz, ny, nx, 2), without the axes that the grid lacks."""
    lacks = [first + "zyx".index(axis) for axis in "zyx" if axis not in axes]
    return value.reshape([n for i, n in enumerate(value.shape) if i not in lacks])


class Traces(list):
    """Of each shot its traces; maps: of each {name: array}; fields: of each {step: array}."""
    maps = fields = ()


class Gradient:
    """misfit: J; misfits: of each shot; traces; velocity and others as `of` has asked; signals: of each shot
    (steps, sources)."""

    def __init__(self, sim, what, count):
        self._sim = sim
        self.misfits = np.array([what.of("gradient", shot)["misfit"] for shot in range(count)])
        self.misfit = math.fsum(self.misfits)
        self.traces = what.traces(count, sim.axes)
        self.signals = [what.of("gradient", shot).get("signals") for shot in range(count)]
        sums, size = what.of("gradient", -1), math.prod(what.shape)
        for name, value in sums.items():
            setattr(self, name, value.reshape(what.shape) if math.prod(value.shape) == size else value)
        self.names = tuple(sums)

    def __repr__(self):
        return f"<Gradient of J = {self.misfit:.6g}: {' '.join(self.names)}>"

    def to_xarray(self):
        """An xarray.Dataset of what has the grid's shape, with z, y and x in m."""
        from .plots import to_xarray
        return to_xarray(self._sim, {name: getattr(self, name) for name in self.names}, {"misfit": self.misfit})
