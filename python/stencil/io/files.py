"""The files that a run has saved. Opening reads names and attributes; values are read on first use."""
import csv
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np

from .config import parse_config
from .errors import Error, reason
from .hdf5 import h5py

OF_A_RUN, OF_A_SURVEY = r"[.](\d{8}[.]hdf|maps[.]hdf|receivers[.]h5|hdf[.]series|xdmf)$", r"/survey[.]csv$"


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
    """The saved fields of PATH, a sequence of Field: those in PATH.hdf.series, which leaves out files of earlier runs;
    without it, all files of that name. steps; times, s."""

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
    """Refuses to overwrite a file that is read."""
    if any(os.path.exists(path) and os.path.exists(out) and os.path.samefile(path, out) for path in files):
        raise Error(f"{out}: it would be written over what is read")


@contextmanager
def written(path):
    """A temporary name to write to, which becomes `path` once all is written; after a failure it is removed."""
    temporary = f"{path}.tmp.{os.getpid()}"
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise Error(f"{path}: cannot write: {reason(error)}") from None
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def grid_of(config):
    """(shape (nz, ny, nx), dx dy dz, x y z of the first point) of a configuration's grid."""
    grid = config.get("grid", {})
    return (tuple(int(grid.get(f"n{a}") or 1) for a in "zyx"), tuple(float(grid.get(f"d{a}") or 1) for a in "xyz"),
            tuple(map(float, (grid.get("origin") or "0 0 0").split())))


def newer(one, other):
    return one.stat().st_mtime_ns > other.stat().st_mtime_ns


class Datasets(Mapping):
    """The datasets of FILE, by name or as attributes, read when they are asked for. Volumes are a Field, /dft a list of
    complex Fields, one a frequency; others are arrays."""

    def __init__(self, path):
        self.path = Path(path)
        with open_hdf5(path) as file:
            self.attributes = attributes_of(file, file)
            self.axes = {name: data.ndim for name, data in file.items() if isinstance(data, h5py.Dataset)}

    def __getitem__(self, name):
        if self.axes[name] == 3:
            return Field(f"{self.path}:/{name}")
        if self.axes[name] == 5:
            return [Field(f"{self.path}:/{name}", (i,)) for i in range(len(self["frequency"]))]
        with open_hdf5(self.path) as file:
            data = file[name]
            return (data.asstr() if h5py.check_string_dtype(data.dtype) else data)[...]

    def __getattr__(self, name):
        if name not in vars(self).get("axes", ()):
            raise AttributeError(f"{self.path} has no dataset /{name}")
        return self[name]

    def __iter__(self):
        return iter(self.axes)

    def __len__(self):
        return len(self.axes)

    def __repr__(self):
        return f"<{self.path}: {' '.join(self)}>"


class Shots(Sequence):
    """The shots of a survey that are done: a sequence of Run, by index or by name, as shots["0007"]. `path`: the
    survey's table; None: no survey. names; numbers: the numbers of their lines, from 1."""

    def __init__(self, path):
        self.path, rows = path, []
        if path:
            with open(path, newline="", encoding="utf-8") as file:
                rows = [row for row in csv.DictReader(file) if row["state"] == "done"]
        self.names, self.numbers = [row["name"] for row in rows], [int(row["number"]) for row in rows]

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[name] for name in self.names[index]]
        if isinstance(index, str) and index not in self.names:
            raise Error(f"{self.path}: no shot {index!r} is done")
        return Run(self.path.with_name(index if isinstance(index, str) else self.names[index]), survey=False)

    def __repr__(self):
        return f"<{len(self)} shots of {self.path}>"

    def places(self):
        """x y z of the sources and of the receivers of all shots, each place once."""
        found = [[np.empty((0, 3))] * 2]
        for name in self.names:
            with open_hdf5(self.path.with_name(f"{name}.receivers.h5")) as file:
                found.append([dataset_of(file, data)[...] for data in ("source_position", "position")])
        return tuple(np.unique(np.concatenate(places), axis=0) for places in zip(*found))


class Run:
    """What the run with `[output] path` = `path` has saved: fields, receivers, maps, gradient, config (in sections),
    report. A survey has shots, each a Run, the gradient summed over them, and the config that they share.

    `survey`: True for a survey, False for a run, None to take the one with the newest files. `config`: the
    configuration, used where no file holds it. `report`: the report's file. warnings: those that stencil.io.run saw."""

    def __init__(self, path, survey=None, config=None, report=""):
        self.path, self.fields, self.shots, self.warnings, self._report = Path(path), Fields(path), Shots(None), [], report
        table, own = self.path / "survey.csv", [*self.fields.paths, *map(self._file, ("receivers.h5", "maps.hdf"))]
        if table.is_file() and (survey or survey is None and not any(one.is_file() and newer(one, table) for one in own)):
            self.fields.paths, self.shots = [], Shots(table)
            if not self.shots and not config:
                raise Error(f"{table}: no shot is done")
        one = self.fields[-1] if self.fields else self.shots[0] if self.shots else None
        if one:
            self.shape, self.spacing, self.origin = one.shape, one.spacing, one.origin
            return
        files = [one for one in map(self._file, ("receivers.h5", "maps.hdf", "gradient.h5")) if one.is_file()]
        if not files and not config:
            raise Error(f"{path}: no run has saved {path}.SSSSSSSS.hdf, {path}.receivers.h5, maps.hdf or gradient.h5, or {table}")
        self.config = parse_config(Datasets(files[0]).attributes.get("config", "")) if files else config
        self.shape, self.spacing, self.origin = grid_of(self.config)

    @cached_property
    def config(self):
        if not self.shots:
            return self.fields[-1].config
        first, *others = (shot.config for shot in self.shots)
        return {name: {key: text for key, text in keys.items() if all(other.get(name, {}).get(key) == text for other in others)}
                for name, keys in first.items()}

    def __repr__(self):
        shots = f"{len(self.shots)} shots " if self.shots else ""
        return f"<Run {self.path}: {shots}{len(self.fields)} fields {self.shape}>"

    def _file(self, end):
        return Path(f"{self.path}.{end}")

    def _own(self, end):
        if self.shots:
            raise Error(f"{self.path}: each shot of a survey has its own {end}: shots[0] is the first")
        return self._file(end)

    @cached_property
    def receivers(self):
        return Receivers(self._own("receivers.h5"))

    @cached_property
    def maps(self):
        """The Datasets of [maps]: max, min, rms, dft."""
        return Datasets(self._own("maps.hdf"))

    @cached_property
    def gradient(self):
        """The Datasets of [gradient]: velocity, initial, image, illumination, signals, misfit; of a survey the sum."""
        return Datasets(self._file("gradient.h5"))

    @cached_property
    def report(self):
        """The performance report. [report] file must have named one; it is looked for there, then beside the fields."""
        name = self._report or self.config.get("report", {}).get("file", "")
        for path in (Path(name), self.path.parent / Path(name).name):
            if name and path.is_file():
                return json.loads(path.read_text())
        raise Error(f"{self.path}: no report: run it with --report FILE.json, or [report] file")


def open_run(path):
    """The run that saved PATH.SSSSSSSS.hdf, PATH.receivers.h5, PATH.maps.hdf, PATH.gradient.h5, or the survey of PATH/survey.csv;
    `path` may be one of these files, or PATH.xdmf, as well."""
    name, survey = str(path), None
    if name.endswith(".gradient.h5") and Path(name).is_file():
        survey = bool(parse_config(Datasets(name).attributes["config"]).get("survey", {}).get("shots"))
    elif re.search(OF_A_SURVEY, name) or re.search(OF_A_RUN, name):
        survey = bool(re.search(OF_A_SURVEY, name))
    return Run(re.sub(f"{OF_A_SURVEY}|{OF_A_RUN}|[.]gradient[.]h5$", "", name), survey)
