"""A shot: where it is, what it sends, where it is heard."""
from collections.abc import Sequence

import numpy as np

from .arrays import given, on_host
from .checks import number
from .errors import Error


class Ricker:
    """The wavelet a (1 - 2b) exp(-b), b = (pi f0 (t - t0))^2. Called with times, s, it gives its values."""

    def __init__(self, f0, t0=None, amplitude=1.0):
        self.f0 = number(f0, "ricker: f0", 0)
        self.t0 = 1.5 / self.f0 if t0 is None else number(t0, "ricker: t0")
        self.amplitude = number(amplitude, "ricker: amplitude")

    def __call__(self, times):
        b = (np.pi * self.f0 * (np.asarray(times) - self.t0)) ** 2
        return self.amplitude * (1 - 2 * b) * np.exp(-b)

    def __repr__(self):
        return f"ricker({self.f0:g}, t0={self.t0:g}, amplitude={self.amplitude:g})"

    def keys(self):
        return {"wavelet": "ricker", "f0": repr(self.f0), "t0": repr(self.t0), "amplitude": repr(self.amplitude)}


ricker = Ricker


def points(value, name):
    """Positions (n, axes) in m, float64."""
    array = on_host(value, name).astype(np.float64, copy=False)
    array = array.reshape(1, -1) if array.ndim < 2 else array
    if array.ndim != 2 or not array.size or array.shape[1] > 3:
        raise Error(f"{name}: expected one position, or rows of them, found an array of shape {np.shape(value)}", 2)
    if not np.isfinite(array).all():
        raise Error(f"{name}: not a finite number in it", 2)
    return array


def as_xyz(array, axes, name):
    """Positions as x y z: of a grid of `axes`, "zyx", "zx" or "z", a row holds (x, y, z), (x, z), or (z)."""
    if array.shape[1] == 3:
        return np.ascontiguousarray(array)
    if array.shape[1] != len(axes):
        own = ", ".join(sorted(axes))
        raise Error(f"{name}: expected ({own}), found {array.shape[1]} coordinates", 2)
    result = np.zeros((len(array), 3))
    result[:, ["xyz".index(axis) for axis in sorted(axes)]] = array
    return result


class Shot:
    """A source at `position`, m: (x, z), (x, y, z), of a 1D grid z; or several, a row each. `signal`: a ricker(), or
    samples at the steps of the simulation (s(n dt), in the unit of [source.N] amplitude) of shape (steps,), or (steps,
    sources); of several sources also a list of ricker(). `receivers`: rows of positions; None: those of the
    configuration."""

    def __init__(self, position, signal, receivers=None):
        self.position, self.signal = points(position, "position"), signal
        self.receivers = None if receivers is None else points(receivers, "receivers")
        if isinstance(signal, Ricker):
            self.wavelets = [signal] * len(self.position)
        elif isinstance(signal, Sequence) and len(signal) and all(isinstance(one, Ricker) for one in signal):
            self.wavelets = list(signal)
        else:
            self.wavelets = None
            tensor = getattr(signal, "requires_grad", False) is True  # for stencil.torch
            shape = given(signal.detach() if tensor else signal, "signal").shape
            if len(shape) not in (1, 2) or len(shape) == 2 and shape[1] not in (1, len(self.position)):
                wanted = f"(steps,) or (steps, {len(self.position)}), or ricker()"
                raise Error(f"signal: expected {wanted}, found shape {shape}", 2)
        if self.wavelets and len(self.wavelets) != len(self.position):
            raise Error(f"signal: {len(self.wavelets)} wavelets for {len(self.position)} sources", 2)

    def __repr__(self):
        heard = "" if self.receivers is None else f", {len(self.receivers)} receivers"
        more = " ..." if len(self.position) > 3 else ""
        return f"<Shot at {', '.join(map(str, self.position[:3].tolist()))}{more}{heard}>"

    def parts(self, axes):
        """What it has of its own: ({key: value}, {key: array})."""
        position = as_xyz(self.position, axes, "position")
        keys, arrays = {}, {}
        if self.wavelets:
            for i, wavelet in enumerate(self.wavelets, 1):
                keys[f"source.{i}.position"] = " ".join(map(repr, position[i - 1].tolist()))
                keys.update({f"source.{i}.{name}": text for name, text in wavelet.keys().items()})
        else:
            signal = given(self.signal, "signal")
            signal.shape = signal.shape if len(signal.shape) == 2 else (*signal.shape, 1)
            arrays = {"sources.positions": given(position, "position"), "sources.signals": signal}
        if self.receivers is not None:
            arrays["receivers.positions"] = given(as_xyz(self.receivers, axes, "receivers"), "receivers")
        return keys, arrays
