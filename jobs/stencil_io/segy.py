"""SEG-Y: traces out, models in. The package segyio reads and writes the files."""
import math

import numpy as np

from .errors import Error, reason
from .files import open_run
from .models import Model, volume

LONGEST, MOST = 32767, 32767  # interval (us) and samples of a trace that any reader of SEG-Y understands
SCALARS = (10000, 1000, 100, 10, 1)  # header coordinates are integers: metres times one of these


def need_segyio():
    try:
        import segyio
    except ImportError:
        raise Error("SEG-Y needs segyio: apt install python3-segyio, or pip install segyio") from None
    return segyio


def resample_time(values, old, new):
    """Samples along axis 0 at interval `new` <= `old`: a sinc of 16 samples under a Kaiser window. Its error is below 1e-4 at
    4 samples a period; a wavelet that the grid resolves has ten times as many."""
    half = 8
    at = np.arange(int((len(values) - 1) * old / new + 1e-6) + 1) * (new / old)
    low = at.astype(int)
    padded = np.pad(values, ((half, half), (0, 0)), mode="edge")
    result = np.zeros((len(at), values.shape[1]))
    for tap in range(1 - half, half + 1):
        distance = at - low - tap
        window = np.i0(8 * np.sqrt(np.clip(1 - (distance / half)**2, 0, None))) / np.i0(8)
        result += (np.sinc(distance) * window)[:, None] * padded[low + tap + half]
    return result.astype(np.float32)


def whole_interval(receivers):
    """(traces, interval in whole microseconds, what was done to them)."""
    exact = 1e6 * receivers.interval
    interval = round(exact)
    if interval < 1 or exact < 1:
        raise Error(f"{receivers.path}: samples every {exact:.4g} us, and SEG-Y counts whole microseconds: set a greater "
                    "receivers.every")
    traces, note = receivers.u, ""
    if interval > LONGEST or abs(exact - interval) * len(traces) > 0.01 * interval:  # the last sample's time would be wrong
        interval = min(math.floor(exact), LONGEST)
        traces, note = resample_time(traces, exact, interval), f", resampled from {exact:.9g} us"
    if len(traces) > MOST:
        raise Error(f"{receivers.path}: {len(traces)} samples a trace, and SEG-Y holds {MOST}: set a greater receivers.every")
    return traces, interval, note


def to_segy(run, path):
    """Writes the traces of `run` (a Run, or its PATH) as a shot gather, IEEE float; returns a line about what it wrote.

    Headers hold source and receiver x and y, depths (z) and offset with a scalar, down to 0.1 mm; of several sources the
    first. SEG-Y counts time in whole microseconds: traces of another interval are resampled to the next shorter one.
    """
    segyio = need_segyio()
    run = open_run(run) if not hasattr(run, "receivers") else run
    traces, interval, note = whole_interval(run.receivers)
    lines = np.ascontiguousarray(traces.T, np.float32)
    sources, position = run.receivers.source_position, run.receivers.position
    if not len(sources):
        raise Error(f"{run.path}: no source, whose position SEG-Y's headers hold")
    largest = np.abs(np.concatenate([sources, position])).max()
    scale = next((s for s in SCALARS if s * largest < 2**31), None)
    if scale is None:
        raise Error(f"{run.path}: a coordinate of {largest:g} m does not fit SEG-Y's headers")
    spec = segyio.spec()
    spec.format, spec.samples, spec.tracecount = 5, np.arange(len(traces)) * interval / 1000, traces.shape[1]
    try:
        with segyio.create(str(path), spec) as file:
            file.text[0] = segyio.tools.create_text_header({
                1: "ACOUSTIC SHOT GATHER BY STENCIL", 2: f"RUN {run.path.name}"[:76],
                3: f"DT {run.receivers.interval:.12g} S{note.upper()}"[:76], 4: f"SOURCES {len(sources)}",
                5: "COORDINATES IN METRES, Z DOWNWARDS AS DEPTH"})
            file.bin.update({segyio.BinField.Interval: interval, segyio.BinField.Samples: len(traces),
                             segyio.BinField.Format: 5, segyio.BinField.Traces: traces.shape[1],
                             segyio.BinField.AuxTraces: 0, segyio.BinField.MeasurementSystem: 1,
                             segyio.BinField.SEGYRevision: 1, segyio.BinField.TraceFlag: 1})
            for number in range(traces.shape[1]):
                file.header[number] = trace_header(segyio.TraceField, number, sources[0], position[number], scale,
                                                   (len(traces), interval))
                file.trace[number] = lines[number]
    except OSError as error:
        raise Error(f"{path}: cannot write: {reason(error)}") from None
    return f"{path}: {traces.shape[1]} traces, {len(traces)} samples of {interval} us{note}"


def trace_header(keys, number, source, receiver, scale, samples):
    """Header of one trace; `samples`: how many, and their interval in us."""
    sx, sy, sz, rx, ry, rz = (int(round(scale * c)) for c in (*source, *receiver))
    scalar = -scale if scale > 1 else 1  # negative: a divisor
    return {keys.TRACE_SEQUENCE_LINE: number + 1, keys.TRACE_SEQUENCE_FILE: number + 1, keys.FieldRecord: 1,
            keys.TraceNumber: number + 1, keys.EnergySourcePoint: 1, keys.TraceIdentificationCode: 1,
            keys.offset: int(round(math.dist(source[:2], receiver[:2]))), keys.ReceiverGroupElevation: -rz,
            keys.SourceDepth: sz, keys.ElevationScalar: scalar, keys.SourceGroupScalar: scalar, keys.SourceX: sx,
            keys.SourceY: sy, keys.GroupX: rx, keys.GroupY: ry, keys.CoordinateUnits: 1,
            keys.TRACE_SAMPLE_COUNT: samples[0], keys.TRACE_SAMPLE_INTERVAL: samples[1]}


# --- models ---------------------------------------------------------------------------------------------------------

def from_segy(path, spacing=None):
    """A model from a volume (inline, crossline, depth), its crosslines along x and inlines along y, or from a 2D line
    (ny = 1). Distances are those of the headers' coordinates and depth interval; `spacing` (dx dy dz, m) replaces them.
    Returns a Model whose note says what was found."""
    segyio = need_segyio()
    try:
        with segyio.open(str(path), ignore_geometry=True) as file:
            keys = segyio.TraceField
            lines = [file.attributes(key)[:] for key in (keys.INLINE_3D, keys.CROSSLINE_3D)]
            places = trace_places(file, keys)
            depth = segyio.tools.dt(file, fallback_dt=0) / 1000  # in a depth file the interval counts millimetres
            traces = file.trace.raw[:]
    except (OSError, RuntimeError, ValueError) as error:
        raise Error(f"{path}: cannot read as SEG-Y: {reason(error)}") from None
    if not np.isfinite(traces).all():
        raise Error(f"{path}: NaN or Inf among the samples")
    counts = [len(np.unique(line)) for line in lines]
    if min(counts) > 1 and len(np.unique(np.stack(lines), axis=1).T) == len(traces) == math.prod(counts):
        order = np.lexsort(lines[::-1]).reshape(counts)  # by inline, then by crossline
        values, found = traces[order], grid_steps(places[order])
        model, kind = volume(values, "yxz"), f"{counts[0]} inlines (y) x {counts[1]} crosslines (x)"
    elif min(counts) == 1:
        model, kind = volume(traces, "xz"), f"a line of {len(traces)} traces (x)"
        found = (grid_steps(places[None])[0], None)
    else:
        raise Error(f"{path}: {len(traces)} traces with {counts[0]} inlines and {counts[1]} crosslines are neither a whole "
                    "volume nor a line")
    dx, dy = found
    steps = tuple(map(float, spacing)) if spacing else (dx, dy or dx, depth)
    unknown = [name for name, step in zip(("dx", "dy", "dz"), steps) if not step]
    if unknown:
        raise Error(f"{path}: its headers do not say {' '.join(unknown)}: give the spacing in m (--spacing DX DY DZ)")
    return Model(model, steps, note=f"{kind} x {traces.shape[1]} depths, {' x '.join(f'{s:g}' for s in steps)} m"
                                    + ("" if spacing else " by its headers"))


def trace_places(file, keys):
    """x and y of the traces, m: of the CDP, or where that is not set of the receiver group."""
    scalar = file.attributes(keys.SourceGroupScalar)[:].astype(float)
    factor = np.where(scalar < 0, -1 / np.where(scalar == 0, 1, scalar), np.where(scalar == 0, 1, scalar))
    for x, y in ((keys.CDP_X, keys.CDP_Y), (keys.GroupX, keys.GroupY)):
        place = np.stack([file.attributes(x)[:], file.attributes(y)[:]], axis=-1) * factor[:, None]
        if np.ptp(place, axis=0).any():
            break
    return place


def grid_steps(places):
    """Mean distances of neighbours along the second and the first axis of places (ny, nx, 2); None where 0 or uneven."""
    found = []
    for axis in (1, 0):
        if places.shape[axis] < 2:
            found.append(None)
            continue
        steps = np.linalg.norm(np.diff(places, axis=axis), axis=-1)
        even = steps.min() > 0.9 * steps.max()
        found.append(float(f"{steps.mean():.6g}") if even and steps.max() > 0 else None)
    return found
