"""Models and wavelets: arrays, raw files, another spacing; the files that [medium], [initial] and [source.N] read."""
import re
import shutil
from dataclasses import dataclass

import numpy as np

from .config import text_of
from .errors import Error, reason
from .files import written
from .hdf5 import h5py
from .plain import read_plain, si_units


@dataclass
class Model:
    """Unpacks as values, spacing, note."""
    values: np.ndarray  # (nz, ny, nx) float32
    spacing: tuple = (1.0, 1.0, 1.0)  # dx dy dz, m
    note: str = ""  # what was found and assumed of the file that it comes from
    origin: tuple = (0.0, 0.0, 0.0)  # x y z of the first point, m
    azimuth: tuple = None  # where not 90 0: degrees from north, clockwise, of the axes x and y, which turn about
    pivot: tuple = None  # x y, m; None where the model's place is unknown, or `line` says it
    frame: np.ndarray = None  # where the file says places: x y of its first trace, and of a metre along x, and along y
    depth: float = None  # of its first sample, m, where the file says it
    line: np.ndarray = None  # of a crooked 2D line: rows of the distance along it and the x y that lie there, m

    def __iter__(self):
        return iter((self.values, self.spacing, self.note))

    def attributes(self):
        """The attributes of the dataset that write_model writes."""
        result = {"spacing": self.spacing, "origin": self.origin}
        if self.azimuth or self.pivot:
            result |= {"azimuth": self.azimuth or (90, 0), "pivot": self.pivot or self.origin[:2]}
        return result if self.line is None else {**result, "line": self.line}

    def unlike(self, other):
        """In what another model lies elsewhere, as far as both say it, in words; "" where in nothing."""
        shapes, size = [m.values.shape for m in (other, self)], np.array(self.values.shape[::-1]) - 1
        if shapes[0] != shapes[1]:
            return "shape {}, the velocities {}".format(*shapes)
        off = np.abs(np.subtract(self.spacing, other.spacing)) * size  # at the far end, m
        if (off > 0.1 * np.array(self.spacing)).any():
            return "spacing {} m, the velocities {}".format(*(" x ".join(f"{h:g}" for h in m.spacing) for m in (other, self)))
        if None not in (self.depth, other.depth) and abs(self.depth - other.depth) > 0.1 * self.spacing[2]:
            return f"first depth {other.depth:g} m, the velocities {self.depth:g}"
        if self.frame is None or other.frame is None:
            return ""
        for x, y in ((0, 0), (1, 0), (0, 1)):  # corners
            ends = [np.array([1, *(size[:2] * self.spacing[:2] * [x, y])]) @ m.frame for m in (other, self)]
            if np.abs(ends[0] - ends[1]).max() > 0.25 * min(self.spacing[:2]):
                return "lines lie elsewhere, or in another order: corner ({:g}, {:g}) m, the velocities ({:g}, {:g})".format(*ends[0], *ends[1])
        return ""


def volume(values, axes="zyx"):
    """An array whose axes are these, the slowest first, as (nz, ny, nx) float32; axes that are not among them have one point:
    ny = 1 is a 2D run, nx = ny = 1 a 1D run."""
    values, present = np.asarray(values), [a for a in "zyx" if a in axes]
    if len(axes) != values.ndim or len(present) != len(axes) or present not in (["z", "y", "x"], ["z", "x"], ["z"]):
        raise Error(f"axes {axes}: expected an order of zyx or of zx, or z, for an array of shape {values.shape}")
    if values.dtype.kind not in "iuf" or not values.size:
        raise Error(f"expected real numbers, found {values.size} values of type {values.dtype}")
    ordered = values.transpose([axes.index(a) for a in present])
    shape = [ordered.shape[present.index(a)] if a in present else 1 for a in "zyx"]
    return ordered.reshape(shape).astype(np.float32, copy=False)


def spacing_of(given):
    """dx dy dz as three floats."""
    try:
        spacing = tuple(float(h) for h in given)
    except (TypeError, ValueError):
        spacing = ()
    if len(spacing) != 3 or not all(0 < h < np.inf for h in spacing):
        raise Error(f"spacing {given}: expected dx dy dz, three finite numbers > 0")
    return spacing


def from_raw(path, shape=None, axes="zyx", dtype="<f4"):
    """A .npy file, or a raw binary one of this shape (in the order of `axes`, the slowest first), as (nz, ny, nx)."""
    try:
        values = np.load(path) if str(path).endswith(".npy") else np.fromfile(path, dtype)
        if str(path).endswith(".npy"):
            return volume(values, axes)
    except OSError as error:
        raise Error(f"{path}: cannot read: {reason(error)}") from None
    except TypeError:
        raise Error(f"{dtype}: no type that NumPy knows") from None
    except (EOFError, ValueError) as error:
        raise Error(f"{path}: {str(error).splitlines()[0]}") from None
    if shape is None:
        raise Error(f"{path}: a raw file needs a shape")
    if values.size != np.prod(shape):
        raise Error(f"{path}: expected {np.prod(shape)} values of {np.dtype(dtype)}, found {values.size}")
    return volume(values.reshape(shape), axes)


def resample(values, spacing, wanted):
    """Values (nz, ny, nx) of spacing dx dy dz on a grid of another one, which begins at the same point: linear
    interpolation. An axis of one point stays."""
    if np.ndim(values) != 3:
        raise Error(f"expected values of shape (nz, ny, nx), found {np.shape(values)}")
    for axis, old, new in zip((2, 1, 0), spacing_of(spacing), spacing_of(wanted)):
        last = values.shape[axis] - 1
        if last > 0 and new > last * old:
            raise Error(f"spacing {new:g} m: more than the model's {last * old:g} m along {'zyx'[axis]}")
        if old != new and last > 0:
            at = np.minimum(np.arange(int(last * old / new + 1e-6) + 1) * (new / old), last)
            low = np.minimum(at.astype(int), last - 1)
            part = (at - low).astype(np.float32).reshape([-1 if i == axis else 1 for i in range(3)])
            values = (1 - part) * values.take(low, axis) + part * values.take(low + 1, axis)
    return values.astype(np.float32, copy=False)


def dataset_name(path, name):
    """FILE:/dataset as the configuration names it; an Error where it could not, before anything is written."""
    full = f"{path}:/{name}"
    if not str(path) or not name or ":/" in f"/{name}":
        raise Error(f"{full}: no name of a file and of a dataset in it")
    return text_of("medium.velocity", full)


# What [medium] reads, by the names that datasets have, and its units.
QUANTITIES = (("v[ps]?|vel.*|c0?|.*speed.*", "m/s"), ("rho.*|dens.*", "kg/m3"), ("alpha.*|absorption.*", "dB/(MHz^y cm)"))


def units_of(name):
    """{"units": those of a dataset of this name}; {} where the name stands for no quantity: SI."""
    last = name.rsplit("/", 1)[-1]
    return next(({"units": units} for names, units in QUANTITIES if re.fullmatch(names, last, re.IGNORECASE)), {})


def units_in_si(name, attributes):
    """(times, per) to SI of the units among the attributes, which then are SI; an Error where those are none of the
    quantity that `name` stands for."""
    given, own = attributes.get("units"), units_of(name).get("units")
    times, per, units = si_units(given) if isinstance(given, str) and si_units(given) else (1, 1, given)
    if own and units not in (None, "", "1", own):
        raise Error(f"units {given}: expected {own}")
    if units is not None:
        attributes["units"] = units
    return times, per


def planes_of(values, shape, times=1, per=1):
    """The planes as float32, times / per; an Error where they are no finite real numbers of this shape."""
    count = 0
    for count, plane in enumerate(values, 1):
        if np.ma.is_masked(plane):
            raise Error(f"a missing value in plane {count - 1}")
        plane = np.asarray(plane)
        if count > shape[0] or plane.shape != shape[1:] or plane.dtype.kind not in "biuf":
            raise Error(f"plane {count - 1} of {shape[0]}: {plane.dtype} of shape {plane.shape}, expected real numbers, "
                        f"shape {shape[1:]}")
        with np.errstate(over="ignore"):  # checked below
            plane = (plane if times == per else plane.astype(float) * times / per).astype(np.float32, copy=False)
        if not np.isfinite(plane).all():
            raise Error(f"NaN or Inf in plane {count - 1}")
        yield plane
    if count < shape[0]:
        raise Error(f"{count} planes, expected {shape[0]}")


def write_model(path, values, name="vp", shape=None, beside=False, **attributes):
    """Writes a field as float32; returns FILE:/dataset for the configuration.

    `values`: a Model, an array (nz, ny, nx), an h5py.Dataset, or an iterable of the planes of a field of this `shape`.
    `name`: the dataset's. `beside=True` adds it to a file that has no such dataset yet; otherwise the file is replaced.
    `attributes`: spacing (dx, dy, dz) and origin in m, and the units of `values`, which are converted to SI (default:
    those that go with `name`). A Model and a Dataset have their own; a Dataset is decoded by them."""
    if isinstance(values, Model):
        values, attributes = values.values, {**values.attributes(), **attributes}
    elif isinstance(values, h5py.Dataset):
        values, known = read_plain(values, values.file.filename)
        attributes = {**{key: known[key] for key in ("units", "spacing", "origin") if key in known}, **attributes}
    if "spacing" in attributes:
        attributes["spacing"] = spacing_of(attributes["spacing"])
    full = dataset_name(path, name)
    try:
        shape = np.shape(values) if shape is None else tuple(shape)
    except ValueError:  # rows of unequal lengths
        shape = "of unequal rows",
    if len(shape) != 3 or min(shape) < 1:
        raise Error(f"{path}: expected values of shape (nz, ny, nx), found {shape}")
    with written(path) as temporary:
        try:
            scale = units_in_si(name, attributes)
            if beside:
                shutil.copyfile(path, temporary)
            with h5py.File(temporary, "a" if beside else "w") as file:
                if name in file:
                    raise Error("it is there already")
                data = file.create_dataset(name, shape, "<f4")
                data.attrs.update({**units_of(name), **attributes})
                for z, plane in enumerate(planes_of(values, shape, *scale)):
                    data[z] = plane
        except (TypeError, ValueError, AttributeError) as error:
            raise Error(f"{full}: {str(error).splitlines()[0]}") from None
    return full


def are_even(times):
    """Is the interval constant, but for rounding? As the program has it."""
    apart, last = (times[-1] - times[0]) / (len(times) - 1), np.abs(times[[0, -1]]).max()
    return (np.abs(times - times[0] - apart * np.arange(len(times))) <= 1e-3 * apart + 1.2e-7 * last).all()


def through_rows(times, values, at):
    """Values at other times by polynomials through the 8 rows about each; by straight lines where those are so uneven that
    polynomials swing."""
    n = min(8, len(times))
    low = np.clip(np.searchsorted(times, at, "right") - 1, 0, len(times) - 2)
    first = np.clip(low - (n // 2 - 1), 0, len(times) - n)
    rows = first[:, None] + np.arange(n)
    t, weights = times[rows], np.ones(rows.shape)
    for j in range(n):
        for k in range(n):
            if k != j:
                weights[:, j] *= (at - t[:, k]) / (t[:, j] - t[:, k])
    wild, part = np.diff(t).max(axis=1) > 32 * np.diff(t).min(axis=1), (at - times[low]) / (times[low + 1] - times[low])
    weights[wild] = 0
    weights[wild, (low - first)[wild]], weights[wild, (low - first)[wild] + 1] = 1 - part[wild], part[wild]
    return np.stack([(weights * column[rows]).sum(axis=1) for column in values.T], axis=1)


def write_wavelet(path, times, values, name="wavelet", dt=None):
    """Writes a signal, values at ascending times (s), as rows of time and value; returns FILE:/dataset for [source.N]
    wavelet. Values of shape (n, sources) become columns for [sources] signals, the times go into `time` beside them. The
    program takes even times: others are resampled in steps of dt (default: the shortest interval), and so are even ones
    where dt is given."""
    try:
        times, values, step = np.asarray(times, float), np.asarray(values, float), None if dt is None else float(dt)
    except (TypeError, ValueError):
        times, values, step = np.empty(0), np.empty(0), None
    if times.ndim != 1 or len(times) < 2 or values.ndim not in (1, 2) or len(values) != len(times) or not values.size or not (
            np.isfinite(times).all() and np.isfinite(values).all() and (np.diff(times) > 0).all()):
        raise Error(f"{path}: expected two or more finite samples at as many ascending times")
    columns = values.reshape(len(times), -1)
    if step is not None or not are_even(times):
        step = np.diff(times).min() if step is None else step
        count = np.ceil((times[-1] - times[0]) / step - 1e-6) + 1 if 0 < step < np.inf else 0
        if not 2 <= count <= 2**22:
            raise Error(f"{path}: dt = {step}: expected an interval that makes 2 to {2**22} samples")
        even = times[0] + step * np.arange(int(count))
        times, columns = even, through_rows(times, columns, np.minimum(even, times[-1]))
    if values.ndim == 1:
        return write_table(path, np.column_stack([times, columns]), name)
    write_table(path, times, f"{name.rpartition('/')[0]}/time".lstrip("/"))
    return write_table(path, columns, name)


def write_positions(path, positions, name="position"):
    """Writes x y z (m) of any number of points; returns FILE:/dataset for [receivers] positions."""
    try:
        table = np.asarray(positions, np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 2 or table.shape[1] != 3 or not len(table) or not np.isfinite(table).all():
        raise Error(f"{path}: expected finite positions of shape (n, 3), found shape {table.shape}")
    return write_table(path, table, name)


def write_table(path, table, name):
    """Replaces a dataset of a file that may hold others."""
    full = dataset_name(path, name)
    try:
        with h5py.File(path, "a") as file:
            if name in file:
                del file[name]
            file[name] = table
    except (OSError, TypeError, ValueError) as error:
        raise Error(f"{path}: cannot write: {reason(error)}") from None
    return full
