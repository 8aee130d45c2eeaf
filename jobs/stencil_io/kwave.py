"""Input files of k-Wave (kspaceFirstOrder3D-OMP and -CUDA) as a configuration and a model."""
from pathlib import Path

import numpy as np

from .errors import Error
from .files import open_hdf5
from .models import dataset_name, write_model, write_positions, write_wavelet

REFUSED = {"nonlinear_flag": "a nonlinear medium", "absorbing_flag": "an absorbing medium", "elastic_flag": "an elastic medium",
           "nonuniform_grid_flag": "a nonuniform grid", "axisymmetric_flag": "axial symmetry",
           "transducer_source_flag": "a transducer", "ux_source_flag": "velocity sources", "uy_source_flag": "velocity sources",
           "uz_source_flag": "velocity sources"}  # nonzero: what the file has that stencil lacks
MOST_SOURCES = 1000  # each is a section of the configuration


class Input:
    """The datasets of an input file; all have three axes, the last of MATLAB's first."""

    def __init__(self, path, file):
        self.path, self.file = path, file

    def array(self, name):
        if name not in self.file:
            raise Error(f"{self.path}: no dataset /{name}: not an input file of k-Wave")
        return self.file[name][...]

    def number(self, name, default=None):
        return default if default is not None and name not in self.file else self.array(name).reshape(-1)[0].item()


def from_kwave(path, prefix):
    """Writes PREFIX.c0.h5, .p0.h5, .source.h5 and .sensor.h5 with what `path` has of sound speed, initial pressure,
    pressure sources and sensor points; returns the configuration (flat, for write_config) that saves to PREFIX.

    Layers of k-Wave's greatest PML size on every axis that has one, the others periodic; grid, steps and dt as they are.
    A pressure source, which k-Wave adds to the density, becomes its time derivative: sample n + 1 of stencil is sample n
    of k-Wave. Refused: media that absorb, are nonlinear or differ in density, sources of velocity or imposed pressure,
    2D files.
    """
    dataset_name(f"{prefix}.source.h5", f"source{MOST_SOURCES}")  # the longest name, before anything is written
    with open_hdf5(path) as file:
        data = Input(path, file)
        size = [data.number(f"N{a}") for a in "xyz"]
        for name, what in REFUSED.items():
            if data.number(name, 0):
                raise Error(f"{path}: {what} ({name}) has no counterpart in stencil")
        if min(size) < 2:
            raise Error(f"{path}: {' x '.join(map(str, size))} points, and only three dimensions can be mapped")
        if np.ptp(data.array("rho0")) > 0:
            raise Error(f"{path}: the density rho0 differs from point to point, and stencil's is constant")
        keys = {f"grid.n{a}": n for a, n in zip("xyz", size)} | {f"grid.d{a}": data.number(f"d{a}") for a in "xyz"}
        keys |= {"time.steps": data.number("Nt"), "time.dt": data.number("dt"), "equation.type": "wave"}
        keys |= {**medium(data, prefix), **layers(data), **sources(data, prefix), **sensor(data, prefix)}
    return {**keys, "output.path": str(prefix)}


def field(data, name, prefix, label, units):
    """A number where the dataset is one, else FILE:/dataset of the model written from it."""
    values = data.array(name)
    if values.size == 1:
        return data.number(name)
    spacing = [data.number(f"d{a}") for a in "xyz"]
    return write_model(f"{prefix}.{label}.h5", values, label, units=units, spacing=spacing)


def medium(data, prefix):
    keys = {"medium.velocity": field(data, "c0", prefix, "c0", "m/s")}
    if data.number("p0_source_flag", 0):
        keys["initial.u"] = field(data, "p0_source_input", prefix, "p0", "Pa")
    return keys


def layers(data):
    """k-Wave's fields are periodic; a perfectly matched layer inside the grid makes a face absorb."""
    sizes = {a: data.number(f"pml_{a}_size", 0) for a in "xyz"}
    keys = {f"boundary.{a}": "absorbing" if n else "periodic" for a, n in sizes.items()}
    return keys | ({"boundary.width": max(sizes.values())} if any(sizes.values()) else {})


def places(data, name):
    """x y z (points, 3) in m of indices that count from 1, x fastest."""
    points = [data.number(f"N{a}") for a in "xyz"]
    index = np.unravel_index(data.array(name).reshape(-1).astype(np.int64) - 1, points, order="F")
    return np.stack(index, axis=-1) * [data.number(f"d{a}") for a in "xyz"]


def sources(data, prefix):
    """Each step of k-Wave adds p_source_input to the density of each of three axes, so 3 c^2 times it to the pressure.
    stencil adds dt^2 c^2 s(t) to the second difference of the pressure: s is 3 / dt^2 times the difference of two samples."""
    if not data.number("p_source_flag", 0):
        return {}
    if not data.number("p_source_mode", 1):
        raise Error(f"{data.path}: imposed pressure (p_source_mode = 0) has no counterpart in stencil")
    where, dt = places(data, "p_source_index"), data.number("dt")
    if len(where) > MOST_SOURCES:
        raise Error(f"{data.path}: a pressure source at {len(where)} points, at most {MOST_SOURCES} can be mapped")
    signal = data.array("p_source_input")
    signal = signal.reshape(-1, len(where) if data.number("p_source_many", 0) else 1)
    force = 3 / dt**2 * np.diff(signal.astype(float), axis=0, prepend=0, append=0)
    path, keys = f"{prefix}.source.h5", {}
    Path(path).unlink(missing_ok=True)
    time = dt * np.arange(len(force))
    names = [write_wavelet(path, time, column, f"source{i}") for i, column in enumerate(force.T, 1)]
    for i, place in enumerate(where):
        keys[f"source.{i + 1}.position"] = place
        keys[f"source.{i + 1}.wavelet"] = names[i if len(names) > 1 else 0]
    return keys


def sensor(data, prefix):
    """Sensor points, or those of boxes given by two corners."""
    if data.number("sensor_mask_type", 0):
        corners = data.array("sensor_mask_corners").reshape(-1, 6).astype(np.int64) - 1
        ranges = [[np.arange(c[i], c[i + 3] + 1) for i in range(3)] for c in corners]
        boxes = [np.stack(np.meshgrid(*box, indexing="ij"), axis=-1).reshape(-1, 3) for box in ranges]
        where = np.concatenate(boxes) * [data.number(f"d{a}") for a in "xyz"]
    elif "sensor_mask_index" in data.file:
        where = places(data, "sensor_mask_index")
    else:
        return {}
    return {"receivers.positions": write_positions(f"{prefix}.sensor.h5", where)}
