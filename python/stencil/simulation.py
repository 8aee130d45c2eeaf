"""A simulation: shots over models of one grid, and gradients."""
import numbers
import threading

import numpy as np

from .arrays import given
from .checks import integer, number, shown, switch
from .errors import Error
from .keys import DEFAULTS, OF_A_SHOT, OF_FIELDS, gradient_keys, merged, named_keys
from .library import Handle
from .progress import Bar
from .results import Gradient, Results
from .shots import Shot


class Simulation:
    """Shots over models of one grid.

    Simulation(shape=(nz, nx), spacing=10, time=2.0, layers=20)     (nz,), (nz, nx) or (nz, ny, nx); m, s
    Simulation("shot.ini"), Simulation({"grid.nx": 100, ...})       a configuration, see docs/CONFIG.md

    spacing: a number, or dx, dz or dx, dy, dz. dt: the time step; without it the first model fixes it, as it fixes the
    greatest velocity that layers expect. layers: points of absorbing layers at all faces, outside the model
    (outside=False: in it). free_surface: at the top. keys: more keys of the configuration, which win. ranks: runs the
    program under mpirun instead. progress: a bar; by default on a terminal. One thread at a time may use it; several
    simulations may run at once."""

    def __init__(self, config=None, *, shape=None, spacing=None, time=None, dt=None, layers=None, outside=True,
                 free_surface=False, keys=None, ranks=None, progress=None):
        named = named_keys(shape, spacing, time, dt, layers, outside, free_surface)
        texts, arrays = merged({} if one is None else one for one in (config, named, keys))
        self.config = texts
        self._own = chosen(texts, OF_A_SHOT), chosen(arrays, OF_A_SHOT)  # the configuration's own shot
        self._saved = chosen(texts, OF_FIELDS)  # where fields are asked for
        self._keys = {key: text for key, text in texts.items() if key not in self._own[0] and key not in self._saved}
        self._inputs = {key: value for key, value in arrays.items() if key not in self._own[1]}
        self._medium = "medium.diffusivity" if texts.get("equation.type") == "heat" else "medium.velocity"
        self._lock, self._closed, self._held, self._facts = threading.Lock(), False, None, None
        self.progress = None if progress is None else switch(progress, "progress")
        self._ranks = None if ranks is None else integer(ranks, "ranks", 1)
        self._handle({})
        try:
            self._grid = tuple(int(texts[f"grid.n{axis}"]) for axis in "zyx")
            self.spacing = tuple(float(texts.get(f"grid.d{axis}") or 1) for axis in "xyz")
            self.origin = tuple(map(float, (texts.get("grid.origin") or "0 0 0").split()))
        except (KeyError, ValueError):
            raise Error("[grid]: expected the numbers nx, ny, nz (or shape), dx, dy, dz and origin") from None
        self.axes = "zyx" if self._grid[1] > 1 else "zx" if self._grid[2] > 1 else "z"
        self.shape = tuple(n for n, axis in zip(self._grid, "zyx") if axis in self.axes)

    def __repr__(self):
        return f"<Simulation {' x '.join(map(str, self.shape))} ({', '.join(self.axes)})>"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Gives its memory back; it cannot be used any more."""
        self._closed, self._held = True, None

    def _handle(self, more):
        """The library's handle for these keys, too. Keys are fixed when it is opened: where they are others than those
        of the last call, another one of the same dt and layers takes its place."""
        keys = {**DEFAULTS, **self._keys, **more}
        if self._held is None or self._held[0] != keys:
            self._held = None
            self._held = keys, Handle({**self._keys, **more, **self._fixed()})
        return self._held[1]

    def _fixed(self):
        """What the first model has fixed, as keys."""
        if not self._facts:
            return {}
        keys = {"time.dt": repr(self._facts["dt"])}
        if self._facts["boundary_velocity"] > 0:
            keys["boundary.velocity"] = repr(self._facts["boundary_velocity"])
        return keys

    def _fact(self, name):
        if not self._facts:
            raise Error(f"{name} is known after the first model: sim.prepare(velocity), or a run")
        return self._facts[name]

    @property
    def dt(self):
        """The time step, s."""
        return self._fact("dt")

    @property
    def steps(self):
        return self._fact("steps")

    @property
    def boundary_velocity(self):
        """The greatest velocity that the layers expect, m/s; 0: there are none."""
        return self._fact("boundary_velocity")

    @property
    def backend(self):
        """"cuda" or "host"."""
        return self._fact("backend")

    @property
    def times(self):
        """Of the samples of a trace, s."""
        interval = self._fact("interval")
        return np.arange(self.steps // round(interval / self.dt) + 1) * interval

    def _volume(self, value, name):
        """A model: an array, or a number for all points."""
        if isinstance(value, numbers.Real):
            with np.errstate(over="ignore"):  # the library refuses what is infinite
                value = np.full(self._grid, number(value, name), np.float32)
        return given(value, name)

    def _media(self, velocity, initial, **media):
        """The inputs that all shots share."""
        media = {f"medium.{name}": value for name, value in media.items()}
        if velocity is None and not {self._medium} & ({*self._inputs} | {*self._keys}):
            raise Error(f"{self._medium[7:]}: expected an array or a number: the configuration has none")
        values = {self._medium: velocity, "initial.u": initial, **media}
        values = {**self._inputs, **{key: value for key, value in values.items() if value is not None}}
        return {key: self._volume(value, key.partition(".")[2]) for key, value in values.items()}

    def _run(self, what, keys, inputs, shots, misfit=None):
        """One run with these keys, too; then the facts are known."""
        if not self._lock.acquire(blocking=False):
            raise Error("this simulation is at work: one thread at a time may use it")
        bar = Bar(what.name, self.progress)
        try:
            if self._closed:
                raise Error("this simulation is closed")
            if not self._ranks or not self._facts:
                handle = self._handle({} if self._ranks else keys)
                try:
                    handle.run(inputs, [] if self._ranks else shots, what.take, misfit, bar.show)
                finally:  # a run that is stopped has fixed them, too
                    self._facts = handle.describe() or self._facts
            if self._ranks and shots:
                from . import program
                keys = {**self._keys, **keys, **self._fixed()}
                program.run(keys, self._ranks, self.times, inputs, shots, what.take)
        finally:
            bar.end()
            self._lock.release()
        return what

    def prepare(self, velocity=None, *, density=None, quality=None, absorption=None, initial=None):
        """Checks a model without a step. The first one fixes dt and the other facts. Returns this simulation."""
        inputs = self._media(velocity, density=density, quality=quality, absorption=absorption, initial=initial)
        self._run(Results("prepare", None), {}, inputs, [])
        return self

    def _shots(self, shots):
        """A list of ({key: text}, {key: Given}), one a shot."""
        texts, arrays = self._own
        if shots is None:
            return [(dict(texts), {key: given(value, key) for key, value in arrays.items()})]
        shots = [shots] if isinstance(shots, Shot) else shots
        if not isinstance(shots, (list, tuple)) or not shots or not all(isinstance(shot, Shot) for shot in shots):
            raise Error(f"shots: expected a list of st.Shot, found {shown(shots)}")
        found = []
        for shot in shots:
            keys, inputs = shot.parts(self.axes)
            if shot.receivers is None:
                keys.update({key: text for key, text in texts.items() if key.startswith("receivers.")})
                inputs.update({key: given(value, key) for key, value in arrays.items() if key.startswith("receivers.")})
            found.append((keys, inputs))
        return found

    def forward(self, velocity=None, shots=None, *, density=None, quality=None, absorption=None, initial=None,
                fields=False):
        """The traces of each shot, a list of arrays (samples, receivers), float32; sim.times are their times. The list
        has `maps` of each shot, where keys ask for them, and with fields=True `fields` of each, {step: array}: the
        last one, and those that output.every asks for.

        Models: of sim.shape, on the host or a CUDA device (then traces are there, too), or a number; None: the
        configuration's. initial: the field at the start. shots: a list of Shot; None: what the configuration has."""
        inputs = self._media(velocity, density=density, quality=quality, absorption=absorption, initial=initial)
        ready = self._shots(shots)
        for _, arrays in ready:
            for key in [key for key in arrays if key.startswith("gradient.")]:
                del arrays[key]
        keys = {"output.final": "on", **self._saved} if switch(fields, "fields") else {}
        what = self._run(Results("forward", velocity, fields), keys, inputs, ready)
        traces = what.traces(len(ready), self.axes)
        for shot, one in enumerate(traces):
            if one is None and not traces.maps[shot] and not traces.fields[shot]:
                raise Error(f"shot {shot}: it has no receivers, so there are no traces")
        return traces

    def gradient(self, velocity=None, shots=None, *, observed=None, weights=None, misfit=None, missing=None,
                 of=None, memory=None, density=None, quality=None, absorption=None, initial=None):
        """The gradient of a misfit J, summed over the shots: an object with misfit, velocity (of the model's shape)
        and what else `of` names, misfits and traces of each shot, and to_xarray().

        observed: traces of each shot; then J = 1/2 dt sum weights (d - observed)^2, dt being that of samples. weights:
        of each shot of the traces' shape or one a receiver, or one such array for all. missing="nan": NaN in observed
        does not count. misfit: a name of [gradient] misfit; or a function (number of the shot, its traces) -> (J,
        dJ/dtraces), called between forward and way back. of: "velocity", "signals", "initial", "image" (with the
        illumination), or several. memory: a size as "4GB", of what the way back keeps on the device, and on the host.
        A model, shots: as of forward."""
        inputs = self._media(velocity, density=density, quality=quality, absorption=absorption, initial=initial)
        ready, own = self._shots(shots), callable(misfit)
        if own and (observed is not None or weights is not None or missing is not None):
            raise Error("misfit: a function takes the place of observed, weights and missing")
        if own and self._ranks:
            raise Error("misfit: a function needs the simulation in this process: not with ranks")
        seen, weights = each(observed, len(ready), "observed"), each(weights, len(ready), "weights", shared=True)
        for (_, arrays), traces, weight in zip(ready, seen, weights):
            arrays.update({} if traces is None else {"gradient.observed": given(traces, "observed")})
            arrays.update({} if weight is None else {"gradient.weights": given(weight, "weights")})
            if not own and not {"gradient.observed", "gradient.adjoint_source"} & set(arrays):
                raise Error("gradient: needs observed traces, or misfit, a function of (shot, traces)")
        a_number = velocity is None or isinstance(velocity, numbers.Real)
        what = Results("gradient", velocity, shape=self.shape if a_number else inputs[self._medium].shape)
        keys = gradient_keys(of, memory, missing, None if own else misfit)
        self._run(what, keys, inputs, ready, (lambda *found: what.checked(misfit, *found)) if own else None)
        return Gradient(self, what, len(ready))

    def plot(self, values, shot=None, *, ax=None, **options):
        """Draws traces (samples, receivers), or a model, field or gradient of the grid; `shot`: whose receivers these
        are. Returns Matplotlib's axes."""
        from .plots import plot
        return plot(self, values, shot, ax, options)


def chosen(keys, pattern):
    return {key: value for key, value in keys.items() if pattern.fullmatch(key)}


def each(value, count, name, shared=False):
    """An array for each shot: of a list, of an array with an axis more, or the one array."""
    if value is None:
        return [None] * count
    if not isinstance(value, (list, tuple)):
        axes = len(getattr(value, "shape", ()))
        value = [value] * count if axes < 3 and (shared or count == 1) else value if axes == 3 else [value]
    if len(value) != count:
        raise Error(f"{name}: of {len(value)} shots, expected {count}", 2)
    return [value[i] for i in range(count)]
