"""Input files of k-Wave (kspaceFirstOrder3D-OMP and -CUDA) as a configuration and a model."""
import os
import re

import numpy as np

from .errors import Error
from .files import open_hdf5
from .hdf5 import h5py
from .models import dataset_name, volume, write_model, write_positions, write_table

REFUSED = {"nonlinear_flag": "a nonlinear medium", "elastic_flag": "an elastic medium",
           "nonuniform_grid_flag": "a nonuniform grid", "axisymmetric_flag": "axial symmetry",
           "transducer_source_flag": "a transducer", "ux_source_flag": "velocity sources", "uy_source_flag": "velocity sources",
           "uz_source_flag": "velocity sources"}  # nonzero: what the file has that stencil lacks
AXES = {3: "xyz", 2: "xz", 1: "z"}  # stencil's, for k-Wave's x y z, x y and x
NEAR_ONE = 0.05  # k-Wave's own solver gives NaN for some of these powers
SOURCE_UNITS = {"density": "kg/m3 a step", "Pa": "Pa"}  # what p_source_input may hold


class Keys(dict):
    """A configuration (flat) and a note: what was found and assumed of the file that it comes from."""
    note = ""


class Input:
    """The datasets of an input file; all have three axes, the last of MATLAB's first."""

    def __init__(self, path, file):
        self.path, self.file, self.notes = path, file, []
        self.points = [self.number(f"N{a}") for a in "xyz"]
        self.dims = sum(n > 1 for n in self.points)
        if self.points != self.points[:self.dims] + [1] * (3 - self.dims) or not self.dims:
            raise Error(f"{path}: {' x '.join(map(str, self.points))} points: expected several along x, x and y, or all axes")
        self.axes = dict(zip("xyz", AXES[self.dims]))  # of k-Wave: of stencil
        self.steps = [self.number(f"d{a}") for a in self.axes]
        for name in (*(f"d{a}" for a in self.axes), "dt", "Nt"):
            if not self.number(name) > 0:
                raise Error(f"{path}: /{name} is {self.number(name):g}, expected more than 0")

    def array(self, name):
        if name not in self.file:
            raise Error(f"{self.path}: no dataset /{name}: not an input file of k-Wave")
        values = self.file[name][...]
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise Error(f"{self.path}: NaN or Inf in /{name}")
        return values

    def number(self, name, default=None):
        if default is not None and name not in self.file:
            return default
        values = self.array(name)
        if values.size != 1:
            raise Error(f"{self.path}: /{name} has {values.size} values, expected one")
        return values.item()

    def volume(self, name):
        """As (nz, ny, nx) of stencil."""
        values, shape = self.array(name), self.points[:self.dims][::-1]
        if values.size != np.prod(shape):
            raise Error(f"{self.path}: /{name} has {values.size} values, the grid {np.prod(shape)} points")
        return volume(values.reshape(shape), AXES[self.dims][::-1])

    def spacing(self):
        """dx dy dz; 1 along axes that do not exist."""
        return [*(dict.fromkeys("xyz", 1.0) | dict(zip(self.axes.values(), self.steps))).values()]

    def positions(self, index):
        """x y z (points, 3) in m of stencil, of indices (points, axes) from 0."""
        places = np.zeros((len(index), 3))
        for column, axis, h in zip(index.T, self.axes.values(), self.steps):
            places[:, "xyz".index(axis)] = column * h
        return places

    def indices(self, name):
        """(points, axes) from 0, of a dataset of numbers that count from 1, x fastest."""
        number, count = self.array(name).reshape(-1).astype(np.int64), int(np.prod(self.points))
        if not number.size or number.min() < 1 or number.max() > count:
            raise Error(f"{self.path}: /{name} has numbers from {number.min(initial=0)} to {number.max(initial=0)}, the grid 1 to {count}")
        return np.stack(np.unravel_index(number - 1, self.points[:self.dims], order="F"), axis=-1)


def from_kwave(path, prefix, source_in=None):
    """Writes PREFIX.c0.h5, .p0.h5, .source.h5 and .sensor.h5 with what `path` has of sound speed, initial pressure,
    pressure sources and sensor points; returns the configuration (flat, for write_config) that saves to PREFIX, with a note.

    Layers of k-Wave's greatest PML size on every axis that has one, the others periodic; grid, steps and dt as they are. x y
    of a 2D file become x z (ny = 1), x of a 1D file z. A pressure source, which k-Wave adds to the density, becomes its time
    derivative, and an imposed one stays: sample n + 1 of stencil is sample n of k-Wave. `source_in`: what the file's source
    signal counts, "density" (a step) or "Pa"; None: what its writer means. Refused: nonlinear media, sources of
    velocity.
    """
    dataset_name(f"{prefix}.source.h5", "position")  # the longest name, before anything is written
    if source_in not in (None, *SOURCE_UNITS):
        raise Error(f"source in {source_in}: expected one of {' '.join(SOURCE_UNITS)}")
    with open_hdf5(path) as file:
        data = Input(path, file)
        for name, what in REFUSED.items():
            if data.number(name, 0):
                raise Error(f"{path}: {what} ({name}) has no counterpart in stencil")
        size = dict.fromkeys("xyz", 1) | dict(zip(data.axes.values(), data.points))
        keys = {f"grid.n{a}": n for a, n in size.items()} | {f"grid.d{a}": h for a, h in zip(data.axes.values(), data.steps)}
        keys |= {"time.steps": data.number("Nt"), "time.dt": data.number("dt"), "equation.type": "wave"}
        keys |= {**medium(data, prefix), **layers(data), **sources(data, prefix, source_in), **sensor(data, prefix)}
        if data.dims < 3:
            data.notes.insert(0, " and ".join(f"{a} becomes {b}" for a, b in data.axes.items() if a != b))
    result = Keys({**keys, "output.path": str(prefix)})
    result.note = "; ".join(data.notes)
    return result


def strongest(data):
    """Where the spectrum of the pressure source is greatest, Hz; 0: there is none."""
    if not data.number("p_source_flag", 0):
        return 0
    signal = data.array("p_source_input").astype(float)
    columns = data.array("p_source_index").size if data.number("p_source_many", 0) else 1
    power = (np.abs(np.fft.rfft(signal.reshape(-1, columns), 8 * signal.size // columns, axis=0))**2).sum(1)
    return float(power.argmax() / (8 * (signal.size // columns) * data.number("dt")))


def absorbed(path, velocity, alpha, y, omega):
    """Phase velocity and alpha0 at a frequency, of k-Wave's equation of state with losses (Treeby and Cox, J. Acoust. Soc. Am. 127
    (2010), 2741), whose c0 is neither: its wavenumber k solves omega^2 = c0^2 k^2 (1 - i omega tau k^(y-2) - eta k^(y-1))."""
    law = 20 * np.log10(np.e) / 100 * (omega / (2e6 * np.pi))**-y  # from Np/m to alpha0
    a = alpha / law * omega**-y
    tau, eta = -2 * a * velocity**(y - 1), 2 * a * velocity**y * np.tan(np.pi * y / 2)
    k = omega / velocity + 0j
    with np.errstate(all="ignore"):  # checked below
        for _ in range(40):
            before, k = k, omega / velocity / np.sqrt(1 - 1j * omega * tau * k**(y - 2) - eta * k**(y - 1))
    if not (np.abs(k - before) < 1e-6 * np.abs(k)).all():
        raise Error(f"{path}: alpha_power {y:g} with alpha_coeff up to {np.max(alpha):g} dB/(MHz^y cm): k-Wave's equation has no "
                    f"wave of these losses at {omega / 2 / np.pi:.4g} Hz")
    return omega / k.real, -k.imag * law


def number_or_field(data, name):
    return data.volume(name).astype(float) if data.array(name).size > 1 else data.number(name)


def written(data, prefix, values, label, units):
    """A number as it is, a field as FILE:/dataset."""
    if np.ndim(values) == 0:
        return float(values)
    return write_model(f"{prefix}.{label}.h5", np.asarray(values, np.float32), label, units=units, spacing=data.spacing())


def medium(data, prefix):
    """Losses follow k-Wave's law at the strongest frequency of the source, else at that of 8 points per wavelength."""
    velocity, keys = number_or_field(data, "c0"), {}
    if np.ptp(data.array("rho0")) > 0:
        keys["medium.density"] = written(data, prefix, number_or_field(data, "rho0"), "rho0", "kg/m3")
    flag = data.number("absorbing_flag", 0)
    if flag > 2:
        raise Error(f"{data.path}: /absorbing_flag is {flag}, expected 0, 1 (a power law) or 2 (Stokes)")
    alpha = number_or_field(data, "alpha_coeff") if flag else 0
    if np.any(alpha):
        y = float(data.number("alpha_power")) if flag == 1 else 2.0
        if round(abs(y - 1), 4) < NEAR_ONE:
            raise Error(f"{data.path}: alpha_power {y:.6g}: within {NEAR_ONE} of 1 k-Wave's dispersion, of tan(pi alpha_power / 2), "
                        "has no useful value; leave out its losses, and set [medium] absorption and absorption_power")
        reference = strongest(data) or float(np.min(velocity)) / (8 * max(data.steps))
        velocity, alpha = absorbed(data.path, velocity, alpha, y, 2 * np.pi * reference)
        keys |= {"medium.absorption": written(data, prefix, alpha, "alpha_coeff", "dB/(MHz^y cm)"), "medium.absorption_power": y,
                 "medium.reference_frequency": reference}
        data.notes.append(f"losses as at {reference:.4g} Hz, fitted from {reference / 10**.5:.4g} to {reference * 10**.5:.4g} Hz")
    keys["medium.velocity"] = written(data, prefix, velocity, "c0", "m/s")
    if data.number("p0_source_flag", 0):
        keys["initial.u"] = written(data, prefix, number_or_field(data, "p0_source_input"), "p0", "Pa")
    return keys


def layers(data):
    """k-Wave's fields are periodic; a perfectly matched layer inside the grid makes a face absorb, unless it is switched off."""
    sizes = {b: data.number(f"pml_{a}_size", 0) if data.number(f"pml_{a}_alpha", 2) else 0 for a, b in data.axes.items()}
    widest = max(sizes.values())
    if any(n != widest for n in sizes.values() if n):
        data.notes.append(f"layers of {' '.join(map(str, sizes.values()))} points along {' '.join(sizes)}: all have {widest}")
    return {f"boundary.{a}": "absorbing" if n else "periodic" for a, n in sizes.items()} | ({"boundary.width": widest} if widest else {})


def in_pascals(data):
    """Whether the writer left the source in Pa: kspaceFirstOrder(backend="cpp") of k-wave-python from 0.6 on does, and its signals
    are in the order of NumPy's. That release's kspaceFirstOrder3D, as MATLAB, scales it; the files differ in which dataset was
    written first."""
    writer = data.file.attrs.get("created_by", b"")
    version = re.search(r"k-Wave 0[.](\d+)", writer.decode() if isinstance(writer, bytes) else str(writer))
    first = [h5py.h5o.get_info(data.file[name].id).addr for name in ("Nx", "p_source_input")]
    return bool(version) and int(version[1]) >= 6 and first[0] < first[1]


def sources(data, prefix, source_in):
    """Each step of k-Wave adds a density to that of each of the axes, so axes c^2 times it to the pressure; a source in Pa is
    2 dt c / dx of its pressure. stencil adds dt^2 c^2 s(t) to the second difference of the pressure: s is the difference of
    two samples of that over dt^2 c^2. Imposed, the density is the pressure over axes c^2."""
    if not data.number("p_source_flag", 0):
        return {}
    index, dt, impose = data.indices("p_source_index"), data.number("dt"), not data.number("p_source_mode", 1)
    signal, many = data.array("p_source_input").astype(float), data.number("p_source_many", 0)
    if signal.size % (len(index) if many else 1):
        raise Error(f"{data.path}: {signal.size} values of p_source_input for {len(index)} points")
    signal = signal.reshape(-1, len(index) if many else 1)
    if data.number("p0_source_flag", 0):  # k-Wave overwrites the source's first sample, at step 0, with it
        data.notes.append("beside the initial pressure the source begins a step earlier: sample n of a trace is k-Wave's n")
        signal = signal[1:]
        if not len(signal):
            return {}
    native = in_pascals(data)
    if native and many:
        signal = signal[:, np.argsort(np.argsort(np.ravel_multi_index(index.T, data.points[:data.dims])))]
    speed = data.array("c0").reshape(-1)
    if speed.size > 1:
        speed = data.volume("c0").reshape(data.points[:data.dims][::-1])[tuple(index.T[::-1])]
        speed = speed[:1] if np.ptp(speed) == 0 else speed
    pascals = native if source_in is None else source_in == "Pa"
    # of an added source of 1 Pa: MATLAB adds it along every axis by dx, k-wave-python's new solver by each axis's own spacing
    share = 2 / (speed * dt) * np.mean([1 / h for h in (data.steps if native else data.steps[:1])])
    density = data.dims * (speed**2 if impose else 1 / dt**2)
    data.notes.append(f"source signal in {SOURCE_UNITS['Pa' if pascals else 'density']}{', by its writer' if source_in is None else ''}: "
                      f"its greatest is {np.abs(signal).max() * (1 if pascals else (density / (1 if impose else share)).max()):.4g} Pa")
    if impose:
        table = signal * (1 if pascals else density)
        time = dt * np.arange(1, len(table) + 1)  # outside, points are free, as in k-Wave
        if len(time) == 1:
            raise Error(f"{data.path}: /p_source_input imposes one sample; expected two or more")
    else:
        table = (share if pascals else density) * np.diff(signal, axis=0, prepend=0, append=0)
        table = np.pad(table, ((0, max(0, data.number("Nt") - len(table))), (0, 0)))
    path = f"{prefix}.source.h5"
    if os.path.exists(path):
        os.unlink(path)
    keys = {"sources.positions": write_positions(path, data.positions(index)), "sources.signals": write_table(path, table, "signal")}
    if impose:
        write_table(path, time, "time")
        keys["sources.mode"] = "impose"
    return keys


def sensor(data, prefix):
    """Sensor points, or those of boxes given by two corners, box by box, x fastest, as k-Wave writes their samples."""
    if data.number("sensor_mask_type", 0):
        corners = data.array("sensor_mask_corners")
        if corners.size % 6 or not corners.size:
            raise Error(f"{data.path}: /sensor_mask_corners has {corners.size} values, expected six a box")
        corners = corners.reshape(-1, 2, 3).astype(np.int64)
        if (corners < 1).any() or (corners > data.points).any() or (corners[:, 0] > corners[:, 1]).any():
            raise Error(f"{data.path}: /sensor_mask_corners has a box that is none of the grid's, which is "
                        f"{' x '.join(map(str, data.points))} points")
        boxes = [np.stack(np.unravel_index(np.arange(np.prod(high - low + 1)), high - low + 1, order="F"), axis=-1) + low - 1
                 for low, high in corners]
        where = data.positions(np.concatenate(boxes)[:, :data.dims])
    elif "sensor_mask_index" in data.file:
        where = data.positions(data.indices("sensor_mask_index"))
    else:
        return {}
    return {"receivers.positions": write_positions(f"{prefix}.sensor.h5", where)}
