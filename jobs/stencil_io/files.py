"""What a run has saved. Opening reads names and attributes; values are read when they are asked for."""
import json
import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np

from .config import parse_config
from .errors import Error


def open_hdf5(path):
    """An open HDF5 file, to be used in a `with`."""
    if not Path(path).is_file():
        raise Error(f"{path}: no such file")
    try:
        return h5py.File(path, "r")
    except OSError:
        raise Error(f"{path}: not an HDF5 file, or a damaged one") from None


def dataset_of(file, name):
    if not isinstance(file.get(name), h5py.Dataset):
        raise Error(f"{file.filename} has no dataset /{name.lstrip('/')}")
    return file[name]


def plain(value):
    """An attribute as Python's own type."""
    value = value.decode() if isinstance(value, bytes) else value
    return value.item() if np.ndim(value) == 0 and hasattr(value, "item") else value


def attributes_of(file, data):
    """Of a file and one of its datasets, but for HDF5's own, as CLASS and DIMENSION_LIST."""
    return {key: plain(node.attrs[key]) for node in (file, data) for key in node.attrs if not key.isupper()}


class Field:
    """A saved field, or any dataset of shape (nz, ny, nx): `name` is FILE or FILE:/dataset; a plain FILE means its /u.

    shape (nz, ny, nx); spacing and origin: dx dy dz and x y z, m (measured: whether the file says them); attributes: those of
    the file and of the dataset. values: the whole array, float32 as saved; field[z, y, x]: a part. `lead`: indices before z, as
    (1,) for the second frequency of PATH.maps.hdf:/dft, whose pairs are complex values.
    """

    def __init__(self, name, lead=()):
        path, cut, inside = str(name).rpartition(":/")  # the last one, as the program does
        whole = not cut or Path(name).is_file()
        self.name, self.path, self.dataset = str(name), Path(name if whole else path), "u" if whole else inside
        with open_hdf5(self.path) as file:
            data, self.lead = dataset_of(file, self.dataset), tuple(lead)
            self.pairs = bool(lead) and data.shape[-1] == 2 and data.ndim == len(lead) + 4
            self.shape = data.shape[len(lead):data.ndim - self.pairs]
            if len(self.shape) != 3:
                raise Error(f"{name}: expected shape (nz, ny, nx), found {data.shape}")
            self.attributes = attributes_of(file, data)
            image = file["VTKHDF"].attrs if "VTKHDF" in file else {}
            axes = [file[a][...] if a in file and file[a].shape == (n,) else [] for a, n in zip("xyz", self.shape[::-1])]
            said = {"spacing": [a[1] - a[0] if len(a) > 1 else 1 for a in axes], "origin": [a[0] for a in axes]} if all(map(len, axes)) else {}
            self.measured = "Spacing" in image or "spacing" in data.attrs or bool(said)
            self.spacing, self.origin = (tuple(map(float, image.get(key.title(), data.attrs.get(key, said.get(key, default)))))
                                         for key, default in (("spacing", (1, 1, 1)), ("origin", (0, 0, 0))))

    def __getitem__(self, index):
        with open_hdf5(self.path) as file:
            values = file[self.dataset][(*self.lead, *(index if isinstance(index, tuple) else (index,)))]
        return values[..., 0] + 1j * values[..., 1] if self.pairs else values

    def __repr__(self):
        return f"<Field {self.name} {self.shape}>"

    @property
    def values(self):
        return self[...]

    @property
    def step(self):
        return self.attributes.get("step")

    @property
    def time(self):
        return self.attributes.get("time")

    @property
    def config(self):
        """The effective configuration, in sections."""
        return parse_config(self.attributes.get("config", ""))

    def coordinates(self):
        """x, y and z of the points, m."""
        return tuple(self.origin[i] + self.spacing[i] * np.arange(n) for i, n in enumerate(reversed(self.shape)))

    def limits(self):
        """Least and greatest value, read plane by plane."""
        planes = (self[z] for z in range(self.shape[0]))
        low, high = zip(*((plane.min(), plane.max()) for plane in planes))
        return float(min(low)), float(max(high))

    def summary(self):
        """One line: name, points, range of values."""
        (low, high), points = self.limits(), " x ".join(map(str, reversed(self.shape)))
        units = self.attributes.get("units", "1")
        return f"{self.name}: {points} points (x, y, z), {low:.5g} to {high:.5g}" + (f" {units}" if units != "1" else "")


class Fields(Sequence):
    """The saved fields of PATH, a sequence of Field: those that PATH.hdf.series lists, which leaves out files of earlier
    runs; without it, all that bear the name. steps; times, s."""

    def __init__(self, path):
        path = Path(path)
        series = path.with_name(path.name + ".hdf.series")
        if series.exists():
            self.paths = [path.with_name(file["name"]) for file in json.loads(series.read_text())["files"]]
        else:
            self.paths = sorted(path.parent.glob(path.name + "." + 8 * "[0-9]" + ".hdf"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return [Field(path) for path in self.paths[index]] if isinstance(index, slice) else Field(self.paths[index])

    @cached_property
    def times(self):
        return np.array([field.time for field in self])

    @cached_property
    def steps(self):
        return np.array([int(path.name[-12:-4]) for path in self.paths])


class Receivers:
    """The traces of FILE: u (samples, receivers) float32, position (receivers, 3) m, time (samples) s, and
    source_position (sources, 3) m."""

    def __init__(self, path):
        self.path = Path(path)
        with open_hdf5(path) as file:
            self.u, self.position, self.time, self.source_position = (
                dataset_of(file, name)[...] for name in ("u", "position", "time", "source_position"))
            self.attributes = attributes_of(file, file["u"])
        if self.u.size == 0 or len(self.time) < 2:
            raise Error(f"{path}: no traces")

    @property
    def interval(self):
        """Time between samples, s."""
        return float(self.time[-1] - self.time[0]) / (len(self.time) - 1)


def check_kept(out, *files):
    """What is read is not written over."""
    if any(os.path.exists(path) and os.path.exists(out) and os.path.samefile(path, out) for path in files):
        raise Error(f"{out}: it would be written over what is read")


def grid_of(config):
    """(shape (nz, ny, nx), dx dy dz, x y z of the first point) of a configuration's grid."""
    grid = config.get("grid", {})
    return (tuple(int(grid.get(f"n{a}") or 1) for a in "zyx"), tuple(float(grid.get(f"d{a}") or 1) for a in "xyz"),
            tuple(map(float, (grid.get("origin") or "0 0 0").split())))


class Run:
    """What the run with `[output] path` = `path` has saved: fields, receivers, config (in sections), report."""

    def __init__(self, path):
        self.path, self.fields = Path(path), Fields(path)
        if self.fields:
            last = self.fields[-1]
            self.shape, self.spacing, self.origin, self.config = last.shape, last.spacing, last.origin, last.config
        elif Path(f"{path}.receivers.h5").is_file():  # a run may save traces only
            self.config = parse_config(self.receivers.attributes["config"])
            self.shape, self.spacing, self.origin = grid_of(self.config)
        else:
            raise Error(f"{path}: no saved fields {path}.SSSSSSSS.hdf and no {path}.receivers.h5")

    def __repr__(self):
        return f"<Run {self.path}: {len(self.fields)} fields {self.shape}>"

    @cached_property
    def receivers(self):
        return Receivers(f"{self.path}.receivers.h5")

    @cached_property
    def report(self):
        """The performance report. [report] file must have named one; it is looked for there, then beside the fields."""
        name = self.config.get("report", {}).get("file", "")
        for path in (Path(name), self.path.parent / Path(name).name):
            if name and path.is_file():
                return json.loads(path.read_text())
        raise Error(f"{self.path}: no report: run it with --report FILE.json, or [report] file")


def open_run(path):
    """The run that saved PATH.SSSSSSSS.hdf or PATH.receivers.h5; `path` may be one of these files, or PATH.xdmf, as well."""
    return Run(re.sub(r"[.](\d{8}[.]hdf|maps[.]hdf|receivers[.]h5|hdf[.]series|xdmf)$", "", str(path)))
