#!/usr/bin/env python3
"""Draws what stencil saved.

  plot.py slice FILE       a slice of a saved field, or of any HDF5 dataset of shape (nz, ny, nx); plot.py FILE is the same
  plot.py gather FILE      PATH.receivers.h5: time downwards, receivers across; a panel a line; of few receivers curves
  plot.py maps FILE        PATH.maps.hdf: max, min, rms, and amplitude and phase of each frequency
  plot.py animation PATH   the saved series PATH.SSSSSSSS.hdf as a GIF, or as an MP4 where ffmpeg is installed

FILE may be FILE:/dataset; a plain FILE means its dataset /u.
"""
import argparse
import re
import sys
import textwrap
from pathlib import Path

from packages import require

require("h5py", "matplotlib", "numpy")
import matplotlib

matplotlib.use("Agg")
import matplotlib.animation
import matplotlib.pyplot as plt
import numpy as np
import stencil.io as st

AXES = "xyz"
CLIP = {"heat": 100, "wave": 99}  # percent of the values that the colours span
LEVELS = 255  # of colours about 0: an odd number, so that what is nearly 0 has the colour of 0
OVER_MODEL = matplotlib.colors.LinearSegmentedColormap.from_list("over", ["#053061", "#2166ac", "#b2182b", "#67001f"], LEVELS)
SIZE_OVER_MODEL = matplotlib.colors.LinearSegmentedColormap.from_list("size", ["#b2182b", "#67001f"])
SIZES, MAPS = ("max", "rms"), ("max", "min", "rms")  # the former have no sign, of a wave too
FEW = 8  # traces that are drawn as curves
MOST_LINES = 9  # of receivers that are drawn as panels
UNITS = {"m": ((2000, 1000, "km"), (1, 1, "m"), (0, 1e-3, "mm")), "s": ((0.1, 1, "s"), (1e-4, 1e-3, "ms"), (0, 1e-6, "µs")),
         "points": ((0, 1, "points"),)}


def unit_of(span, unit="m"):
    """(size, name) of the unit that suits a span."""
    return next((size, name) for least, size, name in UNITS[unit] if span >= least)


def listed(names, values, unit):
    """x = 1.2, z = 0.3 km; of places on a map, far from 0, with more digits."""
    return ", ".join(f"{n} = {v:.{4 if abs(v) < 100 else 6}g}" for n, v in zip(names, np.divide(values, unit[0]))) + f" {unit[1]}"


def label_of(attributes, name="u"):
    """pressure u; image: sum over the steps; velocity (m/s): what a dataset of these attributes holds"""
    units, printed = attributes.get("units", ""), attributes.get("long_name", "")
    if units == "m/s" or not name or name in printed.split():
        return f"velocity ({units})" if units == "m/s" else printed
    return f"{name}: {printed}" if " " in printed else f"{printed} {name}".strip()


class Shot:
    """Sources as a run's configuration has them, and places as the file of its traces has them. Of a sum over a survey:
    the places of all shots, or none where their files are missing."""

    def __init__(self, config, path):
        self.config, grid = config, config.get("grid", {})
        self.axes = [a for a in AXES if grid.get(f"n{a}") != "1"]  # along one of one point a position may be any number
        survey = bool(config.get("survey", {}).get("shots"))
        self.sections = [config[s] for s in config if re.fullmatch(r"source[.]\d+", s) and not survey]
        self.sources = np.array([list(map(float, s["position"].split())) for s in self.sections]).reshape(-1, 3)
        self.receivers = np.empty((0, 3))
        try:
            run = st.open_run(path) if path else None
            if run and survey:
                self.sources, self.receivers = run.shots.places()
            elif run:
                self.sources, self.receivers = run.receivers.source_position, run.receivers.position
        except (OSError, ValueError):
            pass  # a run without receivers

    def text(self, unit):
        """source at x = 1.2, z = 0.1 km, ricker of 15 Hz"""
        count = len(self.sources)
        if not count:
            return ""
        inside = [AXES.index(a) for a in self.axes]
        where = f"source at {listed(self.axes, self.sources[0][inside], unit)}" if count == 1 else f"{count} sources"
        kinds = {(s.get("wavelet", "ricker"), s.get("f0")) for s in self.sections}
        wavelet, f0 = kinds.pop() if len(kinds) == 1 else ("", None)
        return ", ".join(filter(None, (where, f"{wavelet} of {float(f0):g} Hz" if f0 else "")))

    def layers(self, axis):
        """Where layers at the faces of an axis begin, m; the file may hold a part of the grid."""
        faces, grid = self.config.get("boundary", {}), self.config.get("grid", {})
        kinds = [faces.get(f"{axis}_{end}", faces.get(axis, faces.get("all"))) for end in ("lo", "hi")]
        width, points, spacing = int(faces.get("width", 20)), int(grid.get(f"n{axis}", 1)), float(grid.get(f"d{axis}", 1))
        first = float(grid.get("origin", "0 0 0").split()[AXES.index(axis)])
        ends = first + spacing * width, first + spacing * (points - 1 - width)
        return [at for kind, at in zip(kinds, ends) if kind == "absorbing" and width < points]


class Slice:
    """Points of one plane across `axis`: values (rows, columns) and the coordinates of both, in metres. `over`: the slice of a
    run whose points those are that are taken of a dataset of its whole grid."""

    def __init__(self, name, axis, index, lead=(), over=None):
        field = st.Field(name, lead)
        part = over.part_of(field) if over else (slice(None),) * 3
        points = {a: len(range(n)[p]) for a, n, p in zip("zyx", field.shape, part)}
        axis = axis or min("yzx", key=lambda a: points[a] > 1)  # y, unless another axis has one point: then its plane
        self.axis, self.flat = axis, points[axis] == 1
        self.index = points[axis] // 2 if index is None else index
        if not 0 <= self.index < points[axis]:
            raise st.Error(f"--index {index}: {name} has {points[axis]} points along {axis}")
        self.values = field[tuple(range(n)[p][self.index] if a == axis else p for a, n, p in zip("zyx", field.shape, part))]
        self.columns, self.rows = [a for a in AXES if a != axis]
        self.coordinate = dict(zip(AXES, field.coordinates()))
        self.path, self.spacing = field.path, dict(zip(AXES, field.spacing))
        self.unit = unit_of(max(np.ptp(self.coordinate[a]) for a in (self.columns, self.rows)), "m" if field.measured else "points")
        self.place = "" if self.flat else listed([axis], [self.coordinate[axis][self.index]], self.unit)
        name = field.dataset.rsplit("/", 1)[-1]
        self.title, self.equation = field.path.name, field.attributes.get("equation", "")
        self.kind = "" if name in SIZES else self.equation
        if field.step is not None:
            self.title = f"{'up to ' * (name in MAPS)}step {field.step}" + ("" if self.equation == "jacobi" else f", t = {field.time:.4g} s")
        self.label = label_of(field.attributes, name if name not in MAPS else "")
        self.shot = Shot(field.config, field.path if field.step is not None else None)

    def part_of(self, field):
        """The points of this slice's field in a field of its run's grid, as slices z y x; a field of its own shape is that part."""
        grid = self.shot.config.get("grid", {})
        shape, own = tuple(int(grid.get(f"n{a}", 0)) for a in "zyx"), tuple(len(self.coordinate[a]) for a in "zyx")
        if field.shape not in (shape, own):
            raise st.Error(f"the model has points {field.shape}, the field {own}" + (f" of {shape}" if grid and shape != own else ""))
        if field.shape == own:
            return (slice(None),) * 3
        origin, spacing = map(float, grid["origin"].split()), (float(grid.get(f"d{a}", 1)) for a in AXES)
        first = {a: round((self.coordinate[a][0] - o) / h) for a, o, h in zip(AXES, origin, spacing)}
        every = {a: max(1, round(self.spacing[a] / float(grid.get(f"d{a}", 1)))) for a in AXES}
        return tuple(slice(first[a], first[a] + every[a] * (n - 1) + 1, every[a]) for a, n in zip("zyx", own))

    def full_title(self):
        return "; ".join(filter(None, (self.title, self.place, self.shot.text(self.unit))))

    def extent(self, unit):
        """Edges of the image: half a cell around the outermost points; depth grows downwards."""
        x, y = self.coordinate[self.columns] / unit, self.coordinate[self.rows] / unit
        hx, hy = self.spacing[self.columns] / unit / 2, self.spacing[self.rows] / unit / 2
        left_right, low_high = [x[0] - hx, x[-1] + hx], [y[0] - hy, y[-1] + hy]
        return left_right + (low_high[::-1] if self.rows == "z" else low_high)

    def near(self, places):
        """The places (n, 3) that lie in this picture, as columns and rows."""
        for axis in () if self.unit[1] == "points" else (self.columns, self.rows):
            along, at = self.coordinate[axis], places[:, AXES.index(axis)]
            places = places[(at >= along[0] - self.spacing[axis]) & (at <= along[-1] + self.spacing[axis])]
        if not self.flat:
            across = AXES.index(self.axis)
            places = places[np.abs(places[:, across] - self.coordinate[self.axis][self.index]) <= self.spacing[self.axis]]
        return places[:, [AXES.index(self.columns), AXES.index(self.rows)]].T


def colors_of(equation, arrays, clip, over=False):
    """Colour map and limits that suit all arrays. A wave, or what is drawn `over` a model, is as dark as it is far from 0; the
    strongest 100 - clip percent are cut off."""
    clip = clip or CLIP.get(equation, 99.5)
    finite = np.concatenate([a[np.isfinite(a)] for a in arrays])
    if equation == "wave" or over:
        high = np.percentile(np.abs(finite), clip) if finite.size else 1
        high = high if high > 0 else (np.abs(finite).max() if finite.size else 0) or 1
        size = over and finite.size and finite.min() >= 0
        return {"cmap": plt.get_cmap("Reds" if size else "RdBu_r", LEVELS), "vmin": 0 if size else -high, "vmax": high}
    low, high = np.percentile(finite, [100 - clip, clip]) if finite.size else (0, 1)
    return {"cmap": "inferno" if equation == "heat" else "viridis", "vmin": low, "vmax": high if high > low else low + 1}


def beyond(label, arrays, colors):
    """The label of a colour bar, and which of its ends stand for values beyond it: with the greatest, where it is one."""
    low, high = min(np.nanmin(a) for a in arrays), max(np.nanmax(a) for a in arrays)
    ends = "both" if low < colors["vmin"] and high > colors["vmax"] else "min" if low < colors["vmin"] else (
        "max" if high > colors["vmax"] else "neither")
    return f"{label}\n(from {low:.3g} to {high:.3g})" if ends != "neither" else label, ends


def set_title(figure, args, text):
    """The title, in lines that fit the figure; what ; separates stays together if it can."""
    width = int(11.5 * figure.get_size_inches()[0])
    parts = [part.replace(" ", "\xa0") if len(part) < width else part for part in (args.title or text).split("; ")]
    figure.suptitle("\n".join(textwrap.wrap("; ".join(parts), width)), fontsize="medium")


def figure_of(args, width, height, rows=1, columns=1, layout="constrained", **options):
    return plt.subplots(rows, columns, figsize=args.size or (width, height), squeeze=False, layout=layout, **options)



def draw_panel(axes, piece, colors, model=None):
    """One slice; over a model, its field is the more transparent the nearer to 0 it is."""
    unit, unit_name = piece.unit
    view = {"extent": piece.extent(unit), "origin": "upper" if piece.rows == "z" else "lower", "aspect": "equal",
            "interpolation": "nearest"}
    shown, image = dict(colors), None
    if model is not None:
        low, high = model.values.min(), model.values.max()
        span = high - low or 1
        below = axes.imshow(model.values, cmap="Greys", vmin=low - 0.2 * span, vmax=high + 0.7 * span, **view)
        shown.update(alpha=opacity(piece, colors), cmap=OVER_MODEL if colors["vmin"] else SIZE_OVER_MODEL)
    image = axes.imshow(piece.values, **view, **shown)
    image.below = below if model is not None else None
    draw_shot(axes, piece)
    axes.set(xlabel=f"{piece.columns} ({unit_name})", ylabel=("depth z" if piece.rows == "z" else piece.rows) + f" ({unit_name})")
    return image


def draw_shot(axes, piece):
    """Source, receivers and the inner edges of layers."""
    limits = axes.axis()
    for axis, line in ((piece.columns, axes.axvline), (piece.rows, axes.axhline)):
        for at in piece.shot.layers(axis):
            line(at / piece.unit[0], color="0.35", lw=0.8, ls=(0, (4, 3)))
    for places, style in ((piece.shot.receivers, {"marker": "v", "ms": 3, "color": "#006837", "mew": 0}),
                          (piece.shot.sources, {"marker": "*", "ms": 10, "color": "#ffd700", "mec": "black", "mew": 0.6})):
        shown = piece.near(places) / piece.unit[0]
        if shown.size:  # of nothing, matplotlib would make no layout
            axes.plot(*shown, ls="", clip_on=False, **style)
    axes.axis(limits)


def opacity(piece, colors):
    return np.clip(np.abs(piece.values) / colors["vmax"], 0, 1)**0.8


def draw_profile(axes, pieces, label):
    """The column in the middle of the slice, before and after."""
    for piece, style in zip(pieces, ({"color": "0.6", "lw": 0.8}, {"color": "C3", "lw": 1.8})):
        middle = piece.values.shape[1] // 2
        axes.plot(piece.values[:, middle], piece.coordinate[piece.rows] / piece.unit[0], label=piece.title, **style)
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(3))
    axes.set_title(f"at {listed([piece.columns], [piece.coordinate[piece.columns][middle]], piece.unit)}", fontsize="small")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize="small")  # beneath: inside it would hide something
    axes.grid(alpha=0.3)


def panel_sizes(pieces):
    """Height of the panels (inches) and their widths relative to it."""
    extent = pieces[-1].extent(1)
    ratio = max(np.ptp(extent[:2]) / np.ptp(extent[2:]), 0.5)
    return 3.4 * min(1, 3 / ratio), [ratio] * len(pieces) + ([0.6] if len(pieces) > 1 else [])


def draw_line(pieces, shown, args):
    """Slices of one row or column, of 1D runs for example: curves, depth downwards. `pieces` set the limits."""
    after = shown[-1]
    across = after.values.shape[0] == 1  # else downwards
    figure, ((axes,),) = figure_of(args, *((7, 4) if across else (4.5, 7)))
    along = after.columns if across else after.rows
    for piece in shown:
        place = piece.coordinate[along] / piece.unit[0]
        line, = axes.plot(*((place, piece.values[0]) if across else (piece.values[:, 0], place)), label=piece.title)
    values = np.concatenate([piece.values.ravel() for piece in pieces])
    low, high = (np.nanmin(values), np.nanmax(values)) if np.isfinite(values).any() else (0, 1)
    edge = 0.05 * (high - low or 1)
    names = [f"{along} ({after.unit[1]})", args.label or after.label]
    (axes.set_ylim if across else axes.set_xlim)(low - edge, high + edge)
    axes.set(xlabel=names[not across], ylabel=names[across])
    set_title(figure, args, after.full_title())
    if along == "z" and not across:
        axes.invert_yaxis()
    if len(shown) > 1:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize="small")
    axes.grid(alpha=0.3)
    return figure, line.set_ydata if across else line.set_xdata


def draw_slices(pieces, colors, args, spanned):
    """Panels side by side with one colour bar, which spans `spanned`; returns the figure, the last panel's image and the model."""
    after = pieces[-1]
    model = Slice(args.model, args.axis, args.index, over=after) if args.model else None
    height, widths = panel_sizes(pieces)
    figure, (panels,) = figure_of(args, max(height * sum(widths) + 1.2, 5), height + (2.7 if model else 2), 1, len(widths), "compressed", sharey=True,
                                  gridspec_kw={"width_ratios": widths})
    for axes, piece in zip(panels, pieces):
        image = draw_panel(axes, piece, colors, model)
        axes.label_outer()
    ticks = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(colors["vmin"], colors["vmax"]), colors["cmap"])
    label, extend = beyond(args.label or after.label, [piece.values for piece in spanned], colors)
    bars = [(ticks, label, extend)] + ([(image.below, model.label, "neither")] if model else [])
    for mappable, label, extend in bars:
        bar = figure.colorbar(mappable, ax=list(panels[:len(pieces)]), label=label, location="bottom", shrink=0.6, aspect=40, extend=extend,
                              ticks=matplotlib.ticker.MaxNLocator(3, steps=[1, 2, 5, 10]))
        if mappable is not ticks:  # the greys go on beyond the model's values
            bar.ax.set_xlim(model.values.min(), max(model.values.max(), model.values.min() + 1e-6))
    if len(pieces) > 1:
        draw_profile(panels[-1], pieces, args.label or after.label)
        for axes, piece, width in zip(panels, pieces, widths):
            axes.set_title("\n".join(textwrap.wrap(piece.title, max(int(12 * height * width), 12))), fontsize="small")
        set_title(figure, args, "; ".join(filter(None, (after.equation, after.place, after.shot.text(after.unit)))))
    else:
        set_title(figure, args, after.full_title())
    return figure, image, model


def slice_command(args):
    pieces = [Slice(name, args.axis, args.index) for name in (args.compare, args.file) if name]
    if 1 in pieces[-1].values.shape:
        figure = draw_line(pieces, pieces, args)[0]
    else:
        colors = colors_of(pieces[-1].kind, [piece.values for piece in pieces], args.clip, args.model)
        figure = draw_slices(pieces, colors, args, pieces)[0]
    out = args.out or str(pieces[-1].path.with_suffix(".png"))
    figure.savefig(out, dpi=args.dpi)
    what = "" if pieces[-1].flat else f"slice {pieces[-1].axis} = {pieces[-1].index} of "
    print(f"{out}: {what}{args.file}")


# --- gathers --------------------------------------------------------------------------------------------------------

class Line:
    """Receivers on a line: their numbers, places (m along `axis`, or their numbers), and common coordinates."""

    def __init__(self, order, where, axis, shared=""):
        self.order, self.where, self.axis, self.shared = order, where, axis, shared


def lines_of(position, axes, unit):
    """The receivers as lines along an axis where they are some, as one along another direction, or by number."""
    present = [AXES.index(a) for a in axes]
    span = np.ptp(position, axis=0)
    across = max(present, key=lambda a: span[a])
    rest = [a for a in present if a != across]
    near = np.round(position[:, rest] / (1e-6 * max(span[present].max(), 1e-30)))
    groups = [np.flatnonzero((near == row).all(1)) for row in np.unique(near, axis=0)]
    groups = [members[np.argsort(position[members, across], kind="stable")] for members in groups]
    apart = all((np.diff(position[members, across]) > 0).all() for members in groups)
    if apart and len(groups) <= MOST_LINES and min(map(len, groups)) > 1:
        names = [AXES[a] for a in rest if np.ptp(position[:, a]) > 0]
        return [Line(members, position[members, across], AXES[across], names and
                     listed(names, [position[members[0], AXES.index(a)] for a in names], unit)) for members in groups]
    from_first = position[:, present] - position[0, present]
    along = from_first @ (from_first[-1] / (np.linalg.norm(from_first[-1]) or 1))
    if (np.diff(along) > 0).all() and np.abs(np.linalg.norm(from_first, axis=1) - along).max() < 1e-6 * along.max():
        return [Line(np.arange(len(position)), along, "distance from the first")]
    return [Line(np.arange(len(position)), np.arange(len(position)), "number")]


def draw_gather(axes, line, traces, time, colors, units):
    """Traces (samples, receivers) of a line; of a well with time across and depth downwards."""
    (unit, unit_name), (second, time_name) = units
    where = line.where / (1 if line.axis == "number" else unit)
    half = np.diff(where) / 2
    edges = np.concatenate([[where[0] - half[0]], where[:-1] + half, [where[-1] + half[-1]]]) if len(where) > 1 else where[0] + [-.5, .5]
    shown, well = traces[:, line.order], line.axis == "z"
    time, step = time / second, (time[1] - time[0]) / second / 2
    names = [f"receiver {line.axis}" + ("" if line.axis == "number" else f" ({unit_name})"), f"time ({time_name})"]
    if len(half) and np.ptp(half) > 0.02 * half.max():  # uneven distances
        times = np.concatenate([[time[0] - step], time + step])
        image = axes.pcolormesh(*((times, edges, shown.T) if well else (edges, times, shown)), **colors, rasterized=True)
    else:
        ends = [edges[0], edges[-1]], [time[-1] + step, time[0] - step]
        image = axes.imshow(shown.T if well else shown, aspect="auto", **colors,
                            interpolation="nearest" if line.axis == "number" else "bilinear",  # neighbours may be far apart
                            extent=[*ends[1][::-1], *ends[0][::-1]] if well else [*ends[0], *ends[1]])
    if well:
        names = names[::-1]
        names[1] = names[1].replace("receiver z", "receiver depth z")
    axes.set(xlabel=names[0], ylabel=names[1])
    axes.set_ylim(*sorted(axes.get_ylim(), reverse=True))  # time and depth grow downwards
    axes.set_title(line.shared or "", fontsize="small")
    return image


def draw_curves(traces, position, time, args, run):
    """A panel a trace."""
    shot, label, unit, (second, time_name) = run
    count = traces.shape[1]
    figure, panels = figure_of(args, 7.5, min(1.6 + 1.3 * count, 11), count, 1, sharex=True)
    inside = [AXES.index(a) for a in shot.axes]
    for axes, trace, place in zip(panels[:, 0], traces.T, position):
        axes.plot(time / second, trace, lw=1)
        axes.set_title("receiver at " + listed(shot.axes, place[inside], unit), fontsize="small", loc="left")
        axes.grid(alpha=0.3)
    figure.supylabel(args.label or label, fontsize="medium")
    axes.set(xlabel=f"time ({time_name})", xlim=(time[0] / second, time[-1] / second))
    return figure


def gather_command(args):
    receivers = st.Receivers(args.file)
    traces, position, time = receivers.u, receivers.position, receivers.time
    shot = Shot(st.config.parse_config(receivers.attributes.get("config", "")), args.file)
    equation, count = receivers.attributes.get("equation", "wave"), traces.shape[1]
    unit, second = unit_of(np.ptp(np.concatenate([position, shot.sources]), axis=0)[[AXES.index(a) for a in shot.axes]].max()), unit_of(time[-1], "s")
    curves, label = count <= FEW, args.label or label_of(receivers.attributes)
    gain = args.gain if args.gain is not None else 0 if curves or equation != "wave" else 1
    shown = traces * (np.maximum(time, 0)[:, None] / time[-1])**gain
    if gain:
        label += f" × (t / {time[-1]:.3g} s)" + ("" if gain == 1 else f"^{gain:g}")
    if curves:
        figure = draw_curves(shown, position, time, args, (shot, label, unit, second))
    else:
        lines = lines_of(position, shot.axes, unit)
        colors = colors_of(equation, [shown], args.clip or (96 if equation == "wave" else None))
        colors["cmap"] = plt.get_cmap("gray_r", LEVELS) if equation == "wave" else colors["cmap"]
        figure, (panels,) = figure_of(args, 7.5 if len(lines) == 1 else min(3 + 2.2 * len(lines), 15), 7.2, 1, len(lines), sharey=True)
        for axes, line in zip(panels, lines):
            image = draw_gather(axes, line, shown, time, colors, (unit, second))
            axes.label_outer()
        label, extend = beyond(label, [shown], colors)
        figure.colorbar(image, ax=list(panels), label=label, shrink=0.6, extend=extend)
    kind = "receiver" if count == 1 else "receivers"
    set_title(figure, args, "; ".join(filter(None, (f"{count} {kind}", shot.text(unit)))))
    out = args.out or str(Path(args.file).with_suffix(".png"))
    figure.savefig(out, dpi=args.dpi)
    print(f"{out}: {count} {kind}, {traces.shape[0]} samples, {time[0]:g} to {time[-1]:g} s")


# --- maps, animations -----------------------------------------------------------------------------------------------

def maps_of(args):
    """(name, slice, colours) of every quantity that the file holds."""
    with st.files.open_hdf5(args.file) as file:
        names = [name for name in MAPS if name in file]
        frequencies = file["frequency"][...] if "frequency" in file else range(len(file["dft"]) if "dft" in file else 0)
    found = []
    for name in names:
        piece = Slice(f"{args.file}:/{name}", args.axis, args.index)
        found.append((name, piece, colors_of("wave" if name == "min" else "", [piece.values], args.clip)))
    for number, frequency in enumerate(frequencies if "dft" in names or len(frequencies) else ()):
        said = f"{frequency:g} Hz" if not isinstance(frequencies, range) else f"frequency {number}"
        for name in ("amplitude", "phase"):
            piece = Slice(f"{args.file}:/dft", args.axis, args.index, (number,))
            size, angle = np.abs(piece.values), np.degrees(np.angle(piece.values))
            piece.values = size if name == "amplitude" else np.where(size > 0.01 * size.max(), angle, np.nan)
            colors = ({"cmap": "twilight", "vmin": -180, "vmax": 180} if name == "phase" else colors_of("", [size], args.clip))
            found.append((f"{name}, {said}" + (" (degrees)" if name == "phase" else ""), piece, colors))
    if not found:
        raise st.Error(f"{args.file}: no maps: expected /max, /min, /rms or /dft")
    return found


def maps_command(args):
    maps = maps_of(args)
    said = ", ".join(name for name, *_ in maps)
    columns = min(len(maps), 3 if len(maps) == 3 else 2)
    if columns == 2 and len(maps) % 2:  # amplitude and phase beside each other
        maps.insert(next(i for i, (name, *_) in enumerate(maps) if "," in name), (None, None, None))
    rows = -(-len(maps) // columns)
    line = 1 in maps[0][1].values.shape
    height, (width, *_) = (2.6, [1.6]) if line else panel_sizes([maps[0][1]])
    figure, panels = figure_of(args, max(columns * (height * width + 1.3), 5), rows * (height + 0.7) + 0.8, rows, columns,
                               "constrained" if line else "compressed")
    for axes, (name, piece, colors) in zip(panels.flat, maps):
        if name is None:
            axes.remove()
            continue
        axes.set_title(name, fontsize="small")
        if line:
            along = piece.columns if piece.values.shape[0] == 1 else piece.rows
            axes.plot(piece.coordinate[along] / piece.unit[0], piece.values.ravel())
            axes.set_xlabel(f"{along} ({piece.unit[1]})")
            continue
        label, extend = beyond("", [piece.values], colors)
        figure.colorbar(draw_panel(axes, piece, colors), ax=axes, extend=extend, label=label.strip(), shrink=0.85)
    piece = maps[0][1]
    set_title(figure, args, "; ".join(filter(None, (args.label or "u over time", piece.place,
                                                    piece.shot.text(piece.unit)))))
    out = args.out or str(piece.path.with_suffix(".png"))
    figure.savefig(out, dpi=args.dpi)
    print(f"{out}: {said}")


def animation_command(args):
    files = st.Fields(args.file).paths
    if len(files) < 2:
        raise st.Error(f"{args.file}: expected a series PATH.SSSSSSSS.hdf, found {len(files)} files (set output.every)")
    out = args.out or args.file + ".gif"
    if Path(out).suffix not in (".gif", ".mp4"):
        raise st.Error(f"--out {out}: expected a name that ends in .gif or .mp4")
    if out.endswith(".mp4") and not matplotlib.animation.FFMpegWriter.isAvailable():
        raise st.Error(f"--out {out}: MP4 needs ffmpeg, which is not installed; a name that ends in .gif does not")
    pieces = [Slice(str(path), args.axis, args.index) for path in files]
    colors, model = colors_of(pieces[-1].kind, [piece.values for piece in pieces], args.clip, args.model), None
    if 1 in pieces[0].values.shape:
        figure, set_data = draw_line(pieces, pieces[-1:], args)
    else:
        figure, image, model = draw_slices(pieces[-1:], colors, args, pieces)
        set_data = image.set_data

    def show(number):
        values = pieces[number].values
        set_data(values.ravel() if 1 in values.shape else values)
        if model is not None:
            image.set_alpha(opacity(pieces[number], colors))
        set_title(figure, args, pieces[number].full_title())

    writer = "pillow" if out.endswith(".gif") else "ffmpeg"
    matplotlib.animation.FuncAnimation(figure, show, len(pieces)).save(out, writer=writer, fps=args.fps, dpi=args.dpi)
    print(f"{out}: {len(pieces)} frames")


def parser_of_commands():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, file, clip in (("slice", slice_command, "PATH.SSSSSSSS.hdf, or FILE:/dataset", "as suits the equation"),
                                  ("gather", gather_command, "PATH.receivers.h5", "96 of a wave"),
                                  ("maps", maps_command, "PATH.maps.hdf", "99.5, 99 of min"),
                                  ("animation", animation_command, "PATH, as [output] path says", "as suits the equation")):
        command = commands.add_parser(name, help=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("file", help=file)
        command.add_argument("--out", help="picture to write (default: beside the file)")
        command.add_argument("--title", help="instead of what the file says of itself")
        command.add_argument("--label", help="name and unit of the quantity")
        command.add_argument("--size", nargs=2, type=float, metavar=("WIDTH", "HEIGHT"), help="of the picture, inches")
        dpi = 80 if name == "animation" else 130
        command.add_argument("--dpi", type=float, default=dpi, help=f"pixels an inch (default {dpi})")
        command.add_argument("--clip", type=float, help=f"percent of the values the colours span (default {clip})")
        if name == "gather":
            command.add_argument("--gain", type=float, help="multiply by time to this power (default 1 of a wave's image, else 0)")
            continue
        command.add_argument("--axis", choices=AXES, help="axis the slice is across (default y, or one of a single point)")
        command.add_argument("--index", type=int, help="point along that axis (default: the middle)")
        if name == "maps":
            continue
        command.add_argument("--model", metavar="FILE:/dataset", help="velocity model to draw beneath a wave")
        if name == "slice":
            command.add_argument("--compare", metavar="FILE", help="an earlier field, drawn on the left")
        else:
            command.add_argument("--fps", type=float, default=12, help="frames a second (default 12)")
    return parser


def main():
    arguments = sys.argv[1:]
    if arguments and arguments[0] not in ("slice", "gather", "maps", "animation", "-h", "--help"):
        arguments.insert(0, "slice")
    args = parser_of_commands().parse_args(arguments)
    try:
        if args.clip is not None and not 0 < args.clip <= 100:
            raise st.Error(f"--clip {args.clip:g}: expected more than 0, at most 100")
        for name, numbers in (("size", args.size or ()), ("dpi", (args.dpi,))):
            if not all(0 < number < np.inf for number in numbers):
                raise st.Error(f"--{name} {' '.join(f'{n:g}' for n in numbers)}: expected more than 0")
        args.run(args)
    except (OSError, ValueError) as error:
        sys.exit(f"plot.py: error: {error}")


if __name__ == "__main__":
    main()
