"""Runs of the program under mpirun in place of the library: arrays go and come back through files of a temporary
folder."""
import tempfile
from pathlib import Path

import numpy as np

from . import io
from .errors import Error
from .io.config import override_words
from .io.hdf5 import h5py

PER_SHOT = "gradient.observed", "gradient.weights"  # [gradient] names their files by the shot
GRADIENTS = "velocity", "density", "quality", "absorption", "initial", "image", "illumination", "signals", "misfit"


def run(keys, ranks, times, inputs, shots, result):
    """In place of library.Handle.run. `times`: of the samples of a trace."""
    with tempfile.TemporaryDirectory(prefix="stencil-") as folder:
        folder = Path(folder)
        keys = {"output.final": "off", **keys, "output.path": str(folder / "out")}
        keys["survey.shots"] = str(folder / "shots.txt")
        for key, given in inputs.items():
            keys[key] = store(folder / "inputs.h5", key, given, volume=True)
        lines = [line_of(folder, i, keys, times, *shot) for i, shot in enumerate(shots)]
        (folder / "shots.txt").write_text("".join(lines))
        found = io.run(keys, ranks=ranks, quiet=True)
        for i in range(len(shots)):
            give(found.shots[f"s{i}"], i, result)
        if (folder / "out.gradient.h5").is_file():
            give_gradient(found.gradient, -1, result)


def line_of(folder, number, keys, times, texts, arrays):
    """The line of a shot; writes its arrays, and names in `keys` the files of its observed traces."""
    words = {"output.name": f"s{number}", **texts}
    for key, given in arrays.items():
        if key in PER_SHOT:
            name = key.partition(".")[2]
            store(folder / f"s{number}.h5", name, given)
            keys[key] = f"{folder}/{{name}}.h5:/{name}"
        else:
            words[key] = store(folder / "shots.h5", f"s{number}/{key}", given)
    if any(key in PER_SHOT for key in arrays):
        with h5py.File(folder / f"s{number}.h5", "a") as file:
            file["position"], file["time"] = places({**keys, **texts}, arrays), times
    return override_words(words) + "\n"


def store(path, name, given, volume=False):
    """FILE:/dataset, which holds the array; a volume with all three axes."""
    if given.device >= 0:
        raise Error(f"{name}: with ranks arrays must lie on the host", 2)
    values = np.asarray(given.owner)
    if volume and values.ndim < 3:
        values = values.reshape(len(values), 1, -1)
    with h5py.File(path, "a") as file:
        file[name] = values
    return f"{path}:/{name}"


def places(keys, arrays):
    """x y z of the receivers."""
    if "receivers.positions" in arrays:
        return arrays["receivers.positions"].owner
    if keys.get("receivers.line"):
        *ends, count = map(float, keys["receivers.line"].split())
        return np.linspace(ends[:3], ends[3:], int(count))
    return np.array([text.split() for text in keys.get("receivers.points", "").split(",")], float)


def give(run, shot, result):
    """The results of a shot, into the memory that result() provides."""
    if Path(f"{run.path}.receivers.h5").is_file():
        copy(run.receivers.u, result, shot, "traces", "u")
    for field in run.fields:
        copy(field.values, result, shot, "field", "u", int(field.step))
    if Path(f"{run.path}.maps.hdf").is_file():
        for name in filter(run.maps.__contains__, ("max", "min", "rms", "dft")):
            found = run.maps[name]
            values = np.stack([field.values for field in found]) if name == "dft" else found.values
            copy(np.stack([values.real, values.imag], -1) if name == "dft" else values, result, shot, "maps", name)
    if Path(f"{run.path}.gradient.h5").is_file():
        give_gradient(run.gradient, shot, result)


def give_gradient(found, shot, result):
    for name in filter(found.__contains__, GRADIENTS):
        values = found[name]
        values = values[0] if name == "misfit" else getattr(values, "values", values)  # of a sum: those of all shots
        copy(values, result, shot, "gradient", name)


def copy(values, result, shot, kind, name, step=0):
    memory = result(shot, kind, name, step, values.dtype == np.float64, values.shape)
    if memory:
        memory.owner[...] = values
