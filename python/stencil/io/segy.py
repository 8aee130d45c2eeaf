"""SEG-Y: traces out, models in."""
import math
import os
import re

import numpy as np

from .errors import Error, reason
from .files import Run, check_kept, grid_of, open_run, written
from .models import Model, spacing_of, volume
from .places import Places, world_of

TEXT, BINARY_END = 3200, 3600  # bytes of the text header, and of it and the binary header
LONGEST, MOST = 32767, 32767  # interval (us) and samples of a trace that any reader of SEG-Y understands
SCALARS = (10000, 1000, 100, 10, 1)  # header coordinates are integers: metres times one of these; so are delays, of ms
FOOT = 0.3048  # m
LOST = "some are missing, or there twice"
KNOTS = 2000  # of a crooked line at most: an attribute of HDF5 holds 64 KiB
# Header fields: first byte (from 1, as the standard counts) and type.
BINARY = {"traces": (3213, "u2"), "auxiliary": (3215, "u2"), "interval": (3217, "u2"), "samples": (3221, "u2"),
          "format": (3225, "i2"), "sorting": (3229, "i2"), "system": (3255, "i2"), "long_samples": (3269, "u4"),
          "long_interval": (3273, "f8"), "order": (3297, "u4"), "revision": (3501, "u1"), "minor": (3502, "u1"),
          "fixed": (3503, "i2"), "texts": (3505, "i2"), "more": (3507, "i4"), "more_short": (3507, "i2"),
          "all_traces": (3513, "u8"), "first": (3521, "u8"), "trailers": (3529, "i4")}
ORDER = 0x1020304  # what "order" holds
TRACE = {"line_trace": (1, "i4"), "file_trace": (5, "i4"), "record": (9, "i4"), "channel": (13, "i4"), "shot": (17, "i4"),
         "cdp": (21, "i4"), "cdp_trace": (25, "i4"), "kind": (29, "i2"), "offset": (37, "i4"), "elevation": (41, "i4"),
         "source_elevation": (45, "i4"), "source_depth": (49, "i4"), "depth_scalar": (69, "i2"), "scalar": (71, "i2"), "source_x": (73, "i4"),
         "source_y": (77, "i4"), "group_x": (81, "i4"), "group_y": (85, "i4"), "angles": (89, "i2"), "delay": (109, "i2"),
         "samples": (115, "u2"), "interval": (117, "u2"), "cdp_x": (181, "i4"), "cdp_y": (185, "i4"), "inline": (189, "i4"),
         "crossline": (193, "i4"), "time_scalar": (215, "i2")}
# Of the first additional header of a trace (revision 2), which bears this name: in the file's unit, all 0: not set.
EXACT_NAME = "SEG00001"
EXACT = {"elevation": 33, "source_elevation": 49, "source_depth": 57, "source_x": 97, "source_y": 105, "group_x": 113,
         "group_y": 121, "cdp_x": 161, "cdp_y": 169}
NUMBERS = ("record", "channel", "shot", "cdp", "cdp_trace", "inline", "crossline")  # fields where lines may be counted
SHORT = ((29, 37), (69, 73), (89, 181))  # bytes of the standard's fields of two bytes; others have four
# 1: IBM's floats.
FORMATS = {1: "u4", 2: "i4", 3: "i2", 5: "f4", 6: "f8", 8: "i1", 9: "i8", 10: "u4", 11: "u2", 12: "u8", 16: "u1"}
# Metres of one count of a model's interval; the delay counts whole m or ft. us: two-way time.
INTERVALS = {"mm": 1e-3, "m": 1, "mft": 1e-3 * FOOT, "ft": FOOT, "us": None}


def layout(fields, order, size, first=1, **more):
    """A NumPy type of `size` bytes with these fields."""
    fields = {**fields, **more}
    return np.dtype({"names": list(fields), "offsets": [byte - first for byte, _ in fields.values()], "itemsize": size,
                     "formats": [order + kind if isinstance(kind, str) else kind for _, kind in fields.values()]})


# --- traces ---------------------------------------------------------------------------------------------------------

def resample_time(values, old, new):
    """Samples along axis 0 at another interval: a sinc of 16 samples under a Kaiser window. At a shorter interval its error is
    below 1e-4 at 4 samples a period, and a wavelet that the grid resolves has ten times as many; a longer one loses what lies
    above half its sampling rate."""
    stretch = max(1, new / old)
    half = math.ceil(8 * stretch)
    at = np.arange(int((len(values) - 1) * old / new + 1e-6) + 1) * (new / old)
    low = at.astype(int)
    padded = np.pad(values, ((half, half), (0, 0)), mode="edge")
    result, total = np.zeros((len(at), values.shape[1])), np.zeros(len(at))
    for tap in range(1 - half, half + 1):
        distance = (at - low - tap) / stretch
        weight = np.sinc(distance) * np.i0(8 * np.sqrt(np.clip(1 - (distance / 8)**2, 0, None))) / np.i0(8)
        result += weight[:, None] * padded[low + tap + half]
        total += weight
    return (result / (total[:, None] if stretch > 1 else 1)).astype(np.float32)


def whole_interval(receivers, wanted):
    """(traces, interval in whole microseconds, what was done to them); `wanted`: s, or None for the traces' own."""
    exact = 1e6 * receivers.interval
    interval = round(exact if wanted is None else 1e6 * wanted)
    if wanted is not None and not (1 <= interval <= LONGEST and abs(interval - 1e6 * wanted) < 1e-3):
        raise Error(f"interval {wanted:g} s: expected whole microseconds, at most {LONGEST}")
    if interval < 1 or exact < 1 and wanted is None:
        raise Error(f"{receivers.path}: samples every {exact:.4g} us, and SEG-Y counts whole microseconds: set a greater "
                    "receivers.every, or an interval (--interval)")
    traces, note = receivers.u, ""
    if interval > LONGEST or abs(exact - interval) * len(traces) > 0.01 * interval:  # the last sample's time would be wrong
        interval = interval if wanted else min(math.floor(exact), LONGEST)
        traces, note = resample_time(traces, exact, interval), f", resampled from {exact:.9g} us"
    if len(traces) > MOST:
        raise Error(f"{receivers.path}: {len(traces)} samples a trace, and SEG-Y holds {MOST}: set a greater receivers.every, or "
                    "an interval (--interval)")
    return traces, interval, note


def text_header(run, receivers, note):
    """40 lines of 80 in EBCDIC."""
    source = run.config.get("source.1", {})
    f0, t0 = (float(source[key]) if key in source else None for key in ("f0", "t0"))
    t0 = 1.5 / f0 if t0 is None and f0 else t0
    lines = {1: "ACOUSTIC SHOT GATHER BY STENCIL", 2: f"RUN {run.path.name}",
             3: f"DT {receivers.interval:.12g} S{note.upper()}", 4: f"SOURCES {len(receivers.source_position)}",
             5: "COORDINATES IN METRES, Z DOWNWARDS AS DEPTH",
             6: f"MODEL {run.config.get('medium', {}).get('velocity', '')}",
             7: f"WAVELET {source.get('wavelet', 'NOT KNOWN')}" + (f", F0 {f0:.9g} HZ" if f0 else ""),
             8: f"T0 {t0:.9g} S: THE WAVELET'S PEAK IS THAT LATE IN THE TRACES; DELAY = -T0" if t0 is not None else "",
             9: "CDP, INLINE, CROSSLINE: MIDPOINTS IN BINS OF HALF THE GRID'S SPACING",
             39: "SEG Y REV1", 40: "END TEXTUAL HEADER"}
    text = "".join(f"C{i:2} {lines.get(i, '')}"[:80].ljust(80) for i in range(1, 41))
    return text.encode("cp037", errors="replace"), t0 or 0


def gather(run, interval, shot):
    """(text header, binary header, traces with headers, what was done to them) of shot number `shot`."""
    receivers = run.receivers
    traces, interval, note = whole_interval(receivers, interval)
    if not len(receivers.source_position):
        raise Error(f"{run.path}: no source, whose position SEG-Y's headers hold")
    text, t0 = text_header(run, receivers, note)
    count = traces.shape[1]
    binary = np.zeros(1, layout(BINARY, ">", BINARY_END - TEXT, TEXT + 1))
    binary["traces"] = count if count <= LONGEST else 0  # 0: not said; read as signed, more would be negative
    for name, value in (("interval", interval), ("samples", len(traces)), ("format", 5), ("sorting", 1), ("system", 1),
                        ("revision", 1), ("fixed", 1)):
        binary[name] = value
    data = np.zeros(count, layout(TRACE, ">", 240 + 4 * len(traces), values=(241, (">f4", len(traces)))))
    data["samples"], data["interval"], data["values"] = len(traces), interval, traces.T
    data["record"] = data["shot"] = shot
    note += delay(data, -1000 * t0)
    where, printed = world_of(run.config)
    where = where or Places()
    midpoints(data, run)
    coordinates(data, where.world(receivers.source_position)[0], where.world(receivers.position), run)
    return text, binary, data, note + printed


def delay(data, exact):
    """Fills in the delay (ms) with the least scalar that makes it exact, else with the closest; returns words for the
    user."""
    fitting = [s for s in (*reversed(SCALARS), 0.1, 0.01, 0.001) if abs(s * exact) < LONGEST]
    if not fitting:
        raise Error(f"a delay of {exact:g} ms does not fit SEG-Y's headers")
    scale = next((s for s in fitting if abs(round(s * exact) - s * exact) < 1e-6), max(fitting))
    data["delay"], data["time_scalar"] = round(scale * exact), -scale if scale > 1 else round(1 / scale)
    written = round(scale * exact) / scale
    off = 1000 * abs(written - exact) / data["interval"][0]
    return f"; delay {written:.9g} ms, exactly {exact:.9g}" if off > 0.01 else ""


def shots_of(run, shot):
    """(numbers, runs) of a Run, or of a PATH; of a survey's those that are done."""
    run = run if isinstance(run, Run) else open_run(run)
    if run.shots:
        if shot is not None:
            raise Error(f"shot {shot}: those of a survey have their own numbers")
        return run.shots.numbers, run.shots
    number = re.search(r"\d+$", run.path.name)
    shot = (int(number[0]) if number else 1) if shot is None else shot
    if not isinstance(shot, (int, np.integer)) or not 0 <= shot < 2**31:
        raise Error(f"shot {shot}: expected a number from 0 to {2**31 - 1}")
    return [shot], [run]


def to_segy(run, path, interval=None, shot=None):
    """Writes the traces of `run` (a Run, its PATH, or that of a survey) as shot gathers, IEEE float, revision 1.0; returns a
    line about them.

    `interval` (s): resample to it. `shot`: its number; else that at the end of the run's name, or 1; of a survey's shots their
    own. Headers hold source and receiver x and y, depths (z) and offset with a scalar, down to 0.1 mm; of several sources the
    first. SEG-Y counts time in whole microseconds: traces of another interval are resampled to the next shorter one.
    """
    (numbers, runs), first, count = shots_of(run, shot), None, 0
    with written(path) as temporary, open(temporary, "wb") as file:
        for number, run in zip(numbers, runs):
            check_kept(path, run.receivers.path)
            text, binary, data, printed = gather(run, interval, number)
            if first is None:
                first, note = binary, printed
                file.write(text + binary.tobytes())
            note = max(note, printed, key=len)
            if any(binary[name] != first[name] for name in ("interval", "samples")):
                raise Error(f"shot {number}: {binary['samples'][0]} samples of {binary['interval'][0]} us, the first shot has "
                            f"{first['samples'][0]} of {first['interval'][0]} us")
            if binary["traces"] != first["traces"]:
                first["traces"] = 0
            data["file_trace"] += count
            count += len(data)
            file.write(data.tobytes())
        file.seek(TEXT)
        file.write(first.tobytes())
    what = f"shot {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} shots"
    return f"{path}: {what}, {count} traces, {first['samples'][0]} samples of {first['interval'][0]} us{note}"


def coordinates(data, source, receivers, run):
    """Fills in places, in metres times a scalar, and numbers of traces."""
    largest = max(np.abs(source).max(), np.abs(receivers).max())
    scale = next((s for s in SCALARS if s * largest < 2**31), None)
    if scale is None:
        raise Error(f"{run.path}: a coordinate of {largest:g} m does not fit SEG-Y's headers")
    data["scalar"] = data["depth_scalar"] = -scale if scale > 1 else 1  # negative: a divisor
    data["angles"] = data["kind"] = data["cdp_trace"] = 1
    middle = (receivers + source) / 2
    for names, values in ((("source_x", "source_y", "source_depth"), np.broadcast_to(source, receivers.shape)),
                          (("group_x", "group_y", "elevation"), receivers * [1, 1, -1]), (("cdp_x", "cdp_y"), middle)):
        for name, column in zip(names, values.T):
            data[name] = np.rint(scale * column)
    data["offset"] = np.rint(np.linalg.norm(receivers[:, :2] - source[:2], axis=1))
    data["line_trace"] = data["file_trace"] = data["channel"] = np.arange(1, len(data) + 1)


def midpoints(data, run):
    """Numbers midpoints by bins of half the grid's spacing, the same for all shots of a grid."""
    source, receivers = run.receivers.source_position[0], run.receivers.position
    shape, spacing, origin = grid_of(run.config)  # saved fields may be a part of it
    crossline, inline = (np.rint(((receivers + source) / 2 - origin)[:, a] * 2 / spacing[a]).astype(int)
                         if shape[2 - a] > 1 else np.zeros(len(receivers), int) for a in (0, 1))
    data["crossline"], data["inline"] = crossline + 1, inline + 1
    data["cdp"] = crossline + inline * (2 * shape[2] - 1) + 1


# --- models ---------------------------------------------------------------------------------------------------------

def read_traces(path, inline_byte, crossline_byte):
    """(headers and values of the traces, binary header, whether little-endian)."""
    binary, order, size = binary_header(path)
    new = (binary["revision"] or binary["minor"]) > 1  # some write the two bytes the other way round
    start, kind = first_trace(path, size, binary, new), np.dtype(order + FORMATS[int(binary["format"])])
    short = binary["more"] >> 16 or binary["revision"] == 2 and binary["minor"]  # revision 2.1: a field follows
    more = int(binary["more_short" if short else "more"]) if new else 0
    if more < 0:
        raise Error(f"{path}: {more} additional headers a trace")
    if size <= start:
        raise Error(f"{path}: its headers are there, but no trace")
    fields = {**TRACE, "inline": number_field(inline_byte), "crossline": number_field(crossline_byte)}
    if more:
        fields |= {"name": (240 + 233, "S8"), **{f"exact_{name}": (240 + byte, "f8") for name, byte in EXACT.items()}}
    heads = 240 * (1 + more)
    first = np.fromfile(path, layout(fields, order, heads), 1, offset=start)
    counts = [int(n) for n in (binary["long_samples"] if new else 0, binary["samples"], *first["samples"])]
    end = size - TEXT * max(0, int(binary["trailers"])) if new else size
    if new and binary["trailers"] < 0 and binary["all_traces"]:  # only how many traces are before them is known
        end = start + int(binary["all_traces"]) * (heads + next(filter(None, counts), 0) * kind.itemsize)
    whole = [n for n in counts if n and start < end <= size and (end - start) % (heads + n * kind.itemsize) == 0]
    if not whole:
        raise Error(f"{path}: {size - start} bytes behind its headers are no whole number of traces of "
                    f"{next(filter(None, counts), 0)} samples: cut off, or of unequal lengths")
    record = layout(fields, order, heads + whole[0] * kind.itemsize, values=(heads + 1, (kind, (whole[0],))))
    traces = np.memmap(path, record, "r", start, (end - start) // record.itemsize)
    said = np.setdiff1d(traces["samples"], 0)
    if len(said) > 1 and traces["samples"][0] == whole[0]:  # else that field means nothing in this file
        raise Error(f"{path}: traces of unequal lengths, {said[0]} to {said[-1]} samples, or more headers than it says")
    return traces, binary, order == "<"


def binary_header(path):
    """(binary header, order of bytes, size of the file)."""
    try:
        size = os.path.getsize(path)
        head = np.fromfile(path, "u1", BINARY_END)
    except OSError as error:
        raise Error(f"{path}: cannot read as SEG-Y: {reason(error)}") from None
    if len(head) < BINARY_END:
        raise Error(f"{path}: cannot read as SEG-Y: {size} bytes are less than its headers")
    both = {order: head[TEXT:].view(layout(BINARY, order, BINARY_END - TEXT, TEXT + 1))[0] for order in "><"}
    if both[">"]["order"] == 0x2010403:
        raise Error(f"{path}: its bytes are swapped in pairs")
    known = [order for order, binary in both.items() if binary["format"] in FORMATS]
    order = ([order for order in known if both[order]["order"] == ORDER] or known or [None])[0]
    if order is None:
        raise Error(f"{path}: cannot read as SEG-Y: no format of samples that is known at bytes 3225-3226")
    return both[order], order, size


def first_trace(path, size, binary, new):
    """The byte where the first trace begins."""
    if new and binary["first"] >= BINARY_END:
        return int(binary["first"])
    start = BINARY_END
    if binary["texts"] >= 0:
        return start + TEXT * int(binary["texts"])
    with open(path, "rb") as file:  # as many as there are until one says that it is the last
        file.seek(start)
        for text in iter(lambda: file.read(TEXT) if start < 1e8 else b"", b""):
            start += TEXT
            if any("((SEG:ENDTEXT))" in "".join(text.decode(code).split()).upper() for code in ("latin-1", "cp037")):
                return start
    if not (binary["revision"] or binary["minor"]):  # which has no such number
        return BINARY_END
    raise Error(f"{path}: none of its further text headers says ((SEG: EndText))")


def number_field(byte):
    if not 1 <= byte <= 237:
        raise Error(f"byte {byte}: expected one of a trace header, 1 to 237")
    return byte, "i2" if any(low <= byte < high for low, high in SHORT) else "i4"


def values_of(traces, binary):
    """Samples as float32 (traces, samples)."""
    values = traces["values"]
    if binary["format"] != 1:
        return values.astype(np.float32)
    result = np.empty(values.shape, np.float32)
    for row, words in zip(result, values):  # IBM: sign, exponent of 16 from -64, 24 bits of a fraction
        sign = np.where(words >> 31, -1.0, 1.0)
        row[:] = sign * np.ldexp((words & 0xffffff).astype(float), 4 * ((words >> 24).astype(int) & 127) - 280)
    return result


def factor(scalar):
    """The factor of a SEG-Y scalar: a negative one divides, 0 is none."""
    scalar = scalar.astype(float)
    return np.where(scalar < 0, -1 / np.where(scalar == 0, 1, scalar), np.where(scalar == 0, 1, scalar))


def coordinate(traces, name, scalar="scalar"):
    """A place or depth of the traces, in the file's unit."""
    plain = factor(traces[scalar]) * traces[name]
    if "name" not in traces.dtype.names:
        return plain
    named = np.isin(traces["name"], [EXACT_NAME.encode(code) for code in ("ascii", "cp037")])
    both = [f"{name[:-1]}{axis}" for axis in "xy"] if name[-2] == "_" else [name]  # of x and y one may be 0
    exact = {one: np.where(named, np.nan_to_num(traces[f"exact_{one}"], posinf=0, neginf=0), 0) for one in both}
    return np.where(named & any(values.any() for values in exact.values()), exact[name], plain)


def places_of(traces):
    """x and y of the traces, in the file's unit, of the CDP, or where that is not set of the receiver group; and the rounding."""
    for names in (("cdp_x", "cdp_y"), ("group_x", "group_y")):
        place = np.stack([coordinate(traces, name) for name in names], axis=-1)
        if np.ptp(place, axis=0).any():
            break
    return place, 0 if "name" in traces.dtype.names and (place % 1).any() else factor(traces["scalar"]).max()


class Grid:
    """The regular grid that fits places (ny, nx, 2) best, over their whole extent since they may be whole metres: origin, dx,
    dy (None where places do not say), azimuth (of x and y; None where they are no grid), square."""

    def __init__(self, places, rounding, unit):
        ny, nx = places.shape[:2]
        number = np.indices((ny, nx)).reshape(2, -1)
        table, flat = np.column_stack([np.ones(ny * nx), number[1], number[0]]), places.reshape(-1, 2)
        fit = np.linalg.lstsq(table, flat - flat[0], rcond=None)[0]
        off = np.linalg.norm(flat - flat[0] - table @ fit, axis=1)
        far, error = off.max(), 4 * np.sqrt((off**2).mean())
        steps, sizes = fit[1:], np.linalg.norm(fit[1:], axis=1)
        said = [size if n > 1 and size > 1e-6 and (rounding <= size or error / n**1.5 < 0.05 * size) else None  # else too coarse
                for n, size in zip((nx, ny), sizes)]
        straight = any(said) and far < 0.2 * min(filter(None, said)) + 0.75 * rounding
        self.origin, self.azimuth, self.square = flat[0], None, True
        self.dx, self.dy = (straight and size and shortest(size, error / n**1.5) for n, size in zip((nx, ny), said))
        if straight and said[0]:
            self.origin = np.array([shortest(c, far) for c in flat[0] + fit[0]])
            axes = steps if said[1] else np.stack([steps[0], steps[0] @ [[0, 1], [-1, 0]]])
            self.azimuth = tuple(round(math.degrees(math.atan2(*axis)), 4) % 360 for axis in axes)
            slack = 0.01 + rounding / (min(sizes[0] * nx, sizes[1] * ny) if said[1] else 1)
            self.square = not said[1] or abs(steps[0] @ steps[1]) < slack * sizes[0] * sizes[1]
        elif ny == 1 and nx > 1:  # a crooked line: distances along it
            along = np.linalg.norm(np.diff(flat, axis=0), axis=1)
            even = along.min() > 0.9 * along.max() - 1.5 * rounding and along.mean() >= rounding
            self.dx = float(f"{along.mean():.6g}") if even else None
        self.dx, self.dy = (size and float(f"{size * unit:.9g}") for size in (self.dx, self.dy))
        self.origin = [float(f"{c * unit:.12g}") for c in self.origin]


def frame(places, spacing):
    """The origin of places (ny, nx, 2) in m, and the steps of a metre along x and along y; None where all places are
    equal."""
    rows = [places[0, 0], *((end - places[0, 0]) / (h * max(1, n - 1)) for end, h, n in
                            ((places[0, -1], spacing[0], places.shape[1]), (places[-1, 0], spacing[1], places.shape[0])))]
    return np.stack(rows) if np.ptp(places, axis=(0, 1)).any() else None


def shortest(value, error):
    """The number of fewest digits within `error`."""
    return next((round(value, d) for d in range(9) if abs(round(value, d) - value) <= error), float(f"{value:.12g}"))


def lines_of(path, traces, places):
    """Order of the traces as (inlines, crosslines), and what they are."""
    numbers = [np.asarray(traces[name]) for name in ("inline", "crossline")]
    counts, n = [len(np.unique(line)) for line in numbers], len(traces)
    there, places_of_lines = len(np.unique(np.stack(numbers), axis=1).T), math.prod(counts)
    if min(counts) > 1 and there == n == places_of_lines:
        return np.lexsort(numbers[::-1]).reshape(counts), f"{counts[0]} inlines (y) x {counts[1]} crosslines (x)"
    named = max(range(2), key=lambda i: counts[i])
    if min(counts) == 1 and counts[named] == n:
        order = np.argsort(numbers[named])
    else:
        order = np.arange(n)
        hint = other_bytes(traces, n)
        if not hint and there == n and min(counts) > 1:
            hint = f": {places_of_lines - n} of {places_of_lines} places have no trace"
        if min(counts) > 1 or max(counts) > 1 or hint or not one_line(places):
            raise Error(f"{path}: {n} traces with {counts[0]} inlines and {counts[1]} crosslines are neither a whole volume nor "
                        f"a line{hint or ': other bytes may hold their numbers (--inline-byte, --crossline-byte)'}")
    return order[None], f"a line of {n} traces (x)"


def uneven(traces, order, places, rounding, spacing):
    """Words for how traces in this order show that some are missing or there twice, or "". Places (0 where not known)
    show it, or, where these do not, numbers. `spacing`: dx dy dz if given, in the unit of places."""
    for axis, name in ((0, "inline"), (1, "crossline")):
        steps = np.linalg.norm(np.diff(places[order].mean(axis=1 - axis), axis=0), axis=1)
        ranked = np.sort(steps)
        usual = len(steps) and (ranked[(len(steps) - 1) // 2] or ranked[len(steps) // 2])
        if usual > 3 * rounding:
            h = spacing[1 - axis] if spacing else usual
            off, far = np.cumsum([0, *(steps - h)]), np.abs(steps - usual)
            if np.ptp(off) > 0.85 * h and far.max() > 0.5 * usual + 1.5 * rounding:  # else it is but rounded coarsely
                k, what = far.argmax(), "traces" if len(order) == 1 else f"{name}s"
                return (f"{what} {k + 1} and {k + 2} are {steps[k]:g} m apart by their coordinates, others {usual:g} m: "
                        f"{LOST}")
            continue
        if len(order) == 1 and len(np.unique(traces[name])) == 1:
            name = "inline" if np.ptp(traces["inline"]) else "cdp"
        apart = np.diff(traces[name][np.moveaxis(order, axis, 0)[:, 0]])
        if len(apart) and np.ptp(apart):
            name, option = ("CDP", "crossline") if name == "cdp" else (name, name)
            return (f"numbers of {name}s are not evenly apart, {apart.min()} to {apart.max()}: {LOST} (other numbers: "
                    f"--{option}-byte)")
    return ""


def one_line(places):
    """Whether places follow each other without turning back."""
    return np.linalg.norm(np.diff(places, axis=0), axis=1).sum() <= 1.5 * np.linalg.norm(np.ptp(places, axis=0))


def other_bytes(traces, n):
    """The two fields, if any, whose numbers make the traces a volume."""
    found = {name: np.unique(traces[name], return_inverse=True) for name in NUMBERS}
    for slow in NUMBERS:
        for fast in NUMBERS:
            (a, i), (b, j) = found[slow], found[fast]
            if min(len(a), len(b)) > 1 and len(a) * len(b) == n == len(np.unique(i * len(b) + j)):
                return f": --inline-byte {TRACE[slow][0]} --crossline-byte {TRACE[fast][0]} would make it {len(a)} x {len(b)}"
    return ""


def one_of(path, name, *candidates):
    """The value that a field has in all traces: of the first candidate that is not zero."""
    for values in candidates:
        found = np.unique(values)
        if len(found) > 1:
            raise Error(f"{path}: {name} differs from trace to trace, {found[0]} to {found[-1]}")
        if found[0]:
            return found[0].item()
    return 0


def to_depth(values, step, first, wanted):
    """(velocities at even depths from 0, dz) of interval velocities (traces, samples) at two-way times `step` (s) apart, from
    `first` on; `wanted`: dz, or None for what the least velocity moves in a sample."""
    dz = wanted or float(f"{values.min() * step / 2:.3g}")
    if not dz > 0:
        raise Error("velocities must be above 0 to turn times into depths")
    moved = (values[:, 1:] + values[:, :-1]).astype(float) * step / 4
    depths = np.cumsum(np.concatenate([values[:, :1] * first / 2, moved], axis=1), axis=1)
    even = dz * np.arange(int(depths[:, -1].max() / dz) + 1)
    return np.stack([np.interp(even, *pair) for pair in zip(depths, values)]).astype(np.float32), dz


def from_segy(path, spacing=None, interval_in=None, inline_byte=189, crossline_byte=193, delay=True):
    """A model from a volume (inline, crossline, depth), its crosslines along x and inlines along y, or from a 2D line
    (ny = 1). Distances, origin and azimuth are those of the headers' coordinates; `spacing` (dx dy dz, m) replaces distances.

    `interval_in`: what the sample interval counts, one of INTERVALS; mm unless said (mft in a file of feet). us: two-way times
    of interval velocities, which become depths. `delay`: whether the delay recording time is where the first sample lies.
    Returns a Model whose note says what was found and assumed."""
    spacing = None if spacing is None else spacing_of(spacing)
    traces, binary, little = read_traces(path, inline_byte, crossline_byte)
    feet = binary["system"] == 2
    unit = interval_in or ("mft" if feet else "mm")
    if unit not in INTERVALS:
        raise Error(f"interval in {unit}: expected one of {' '.join(INTERVALS)}")
    places, rounding = places_of(traces)
    order, kind = lines_of(path, traces, places)
    angles = np.isin(traces["angles"], (2, 3, 4)).any()
    if angles:
        places = 0 * places
    grid = Grid(places[order], rounding, FOOT if feet else 1)
    values = values_of(traces, binary)[order.ravel()]
    if not np.isfinite(values).all():
        raise Error(f"{path}: NaN or Inf among the samples")
    long = float(binary["long_interval"]) if (binary["revision"] or binary["minor"]) > 1 else 0
    interval = long or one_of(path, "the sample interval", traces["interval"], binary["interval"])
    first = one_of(path, "the delay", traces["delay"] * factor(traces["time_scalar"])) if delay else 0
    if unit == "us":
        values, dz = to_depth(values, 1e-6 * interval, 1e-3 * first, spacing and spacing[2]) if interval else (values, 0)
        first, assumed = 0, "times (us, two-way) turned into depths by the model's own velocities"
    else:
        dz = float(f"{interval * INTERVALS[unit]:.9g}")
        first *= FOOT if unit in ("mft", "ft") else 1
        assumed = f"interval {interval:g} taken as {unit} of depth, the first at {first:g} m"
    values = volume(values.reshape(*order.shape, -1), "yxz")
    line = order.shape[0] == 1
    steps = tuple(map(float, spacing)) if spacing else (grid.dx, grid.dx if line else grid.dy, dz)
    unknown = [name for name, step in zip(("dx", "dy", "dz"), steps) if not step]
    places *= FOOT if feet else 1
    gap = uneven(traces, order, places, rounding * (FOOT if feet else 1), spacing) if spacing or unknown else ""
    if gap:
        raise Error(f"{path}: {'' if spacing else 'its headers do not say ' + ' '.join(unknown) + ': '}{gap}")
    if unknown or not (spacing or grid.square):
        why = ("its coordinates are angles" if angles else f"its headers do not say {' '.join(unknown)}" if unknown
               else "its inlines and crosslines are not at right angles")
        raise Error(f"{path}: {why}: give the spacing in m (--spacing DX DY DZ)")
    crooked = line and not grid.azimuth and np.ptp(places, axis=0).any()
    knots = np.unique(np.linspace(0, len(places) - 1, min(len(places), KNOTS)).round().astype(int))
    turned = grid.azimuth and max(abs((a - b + 180) % 360 - 180) for a, b in zip(grid.azimuth, (90, 0))) > 1e-3
    origin = (*grid.origin, first) if grid.azimuth else (0, 0, first)
    note = "; ".join(filter(None, (
        f"{kind} x {values.shape[0]} depths, {' x '.join(f'{s:g}' for s in steps)} m" + ("" if spacing else " by its headers"),
        assumed, "crooked: distances along it" if crooked else "", "little-endian" if little else "",
        "lengths in feet turned into m, velocities not" if feet else "",
        f"x points to azimuth {grid.azimuth[0]:g}, y to {grid.azimuth[1]:g}" if turned else "")))
    return Model(values, steps, note, origin, grid.azimuth if turned else None, origin[:2] if grid.azimuth else None,
                 frame(places[order], steps), first,
                 np.column_stack([steps[0] * knots, places[order[0, knots]]]) if crooked else None)
