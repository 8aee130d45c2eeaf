#!/usr/bin/env python3
"""Draws what stencil saved.

  plot.py slice FILE       a slice of a saved field, or of any HDF5 dataset of shape (nz, ny, nx); plot.py FILE is the same
  plot.py gather FILE      PATH.receivers.h5 as a shot gather: time downwards, receivers across
  plot.py animation PATH   the saved series PATH.SSSSSSSS.hdf as a GIF, or as an MP4 where ffmpeg is installed

FILE may be FILE:/dataset; a plain FILE means its dataset /u.
"""
import argparse
import sys
from pathlib import Path

from packages import require

require("h5py", "matplotlib", "numpy")
import matplotlib

matplotlib.use("Agg")
import matplotlib.animation
import matplotlib.pyplot as plt
import numpy as np
import stencil_io as st

AXES = "xyz"
LABELS = {"heat": "temperature u", "wave": "pressure u"}
CLIP = {"heat": 100, "wave": 99}  # percent of the values that the colours span
OVER_MODEL = matplotlib.colors.LinearSegmentedColormap.from_list("over", ["#053061", "#2166ac", "#b2182b", "#67001f"])
DPI = 130


class Slice:
    """Points of one plane across `axis`: values (rows, columns) and the coordinates of both, in metres."""

    def __init__(self, name, axis, index):
        field = st.Field(name)
        points = dict(zip("zyx", field.shape))
        axis = axis or min("yzx", key=lambda a: points[a] > 1)  # y, unless another axis has one point: then its plane
        self.axis, self.flat = axis, points[axis] == 1
        self.index = points[axis] // 2 if index is None else index
        if not 0 <= self.index < points[axis]:
            raise st.Error(f"--index {index}: {name} has {points[axis]} points along {axis}")
        self.values = field[tuple(self.index if a == axis else slice(None) for a in "zyx")]
        self.columns, self.rows = [a for a in AXES if a != axis]
        self.coordinate = dict(zip(AXES, field.coordinates()))
        self.place = "" if self.flat else f"slice at {axis} = {self.coordinate[axis][self.index]:g} m"
        self.title, self.path = field.path.name, field.path
        self.equation = field.attributes.get("equation", "")
        if field.step is not None:
            self.title = f"step {field.step}, t = {field.time:.4g}" + (" s" if self.equation in LABELS else "")
        units = field.attributes.get("units", "")
        self.label = LABELS.get(self.equation, f"velocity ({units})" if units == "m/s" else field.dataset.rsplit("/", 1)[-1])
        self.dx, self.dy = (field.spacing[AXES.index(a)] for a in (self.columns, self.rows))

    def full_title(self):
        return ", ".join(filter(None, (self.title, self.place)))

    def extent(self, unit):
        """Edges of the image: half a cell around the outermost points; depth grows downwards."""
        x, y = self.coordinate[self.columns] / unit, self.coordinate[self.rows] / unit
        hx, hy = self.dx / unit / 2, self.dy / unit / 2
        left_right, low_high = [x[0] - hx, x[-1] + hx], [y[0] - hy, y[-1] + hy]
        return left_right + (low_high[::-1] if self.rows == "z" else low_high)

    def unit(self):
        span = max(np.ptp(self.coordinate[a]) for a in (self.columns, self.rows))
        return (1000, "km") if span >= 2000 else (1, "m") if span >= 1 else (0.001, "mm")


def colors_of(pieces, clip):
    """Colour map and limits that suit all pieces. A wave is as dark as it is far from 0; the strongest 100 - clip percent
    are cut off."""
    clip = clip or CLIP.get(pieces[-1].equation, 99.5)
    finite = np.concatenate([p.values[np.isfinite(p.values)] for p in pieces])
    if pieces[-1].equation == "wave":
        high = np.percentile(np.abs(finite), clip) if finite.size else 1
        high = high if high > 0 else (np.abs(finite).max() if finite.size else 0) or 1
        return {"cmap": "RdBu_r", "vmin": -high, "vmax": high}
    low, high = np.percentile(finite, [100 - clip, clip]) if finite.size else (0, 1)
    cmap = "inferno" if pieces[-1].equation == "heat" else "viridis"
    return {"cmap": cmap, "vmin": low, "vmax": high if high > low else low + 1}


def extend_of(pieces, colors):
    """Which ends of the colour bar stand for values beyond it, as matplotlib calls them."""
    low = any(np.nanmin(p.values) < colors["vmin"] for p in pieces)
    high = any(np.nanmax(p.values) > colors["vmax"] for p in pieces)
    return ("both" if high else "min") if low else "max" if high else "neither"


def draw_panel(axes, piece, unit, unit_name, colors, model=None):
    """One slice; over a model, its field is the more transparent the nearer to 0 it is."""
    view = {"extent": piece.extent(unit), "origin": "upper" if piece.rows == "z" else "lower", "aspect": "equal",
            "interpolation": "nearest"}
    shown = dict(colors)
    if model is not None:
        if model.values.shape != piece.values.shape:
            raise st.Error(f"the model has a slice of {model.values.shape}, the field of {piece.values.shape}")
        low, high = model.values.min(), model.values.max()
        span = high - low or 1
        axes.imshow(model.values, cmap="Greys", vmin=low - 0.2 * span, vmax=high + 0.7 * span, **view)
        shown.update(alpha=opacity(piece, colors), cmap=OVER_MODEL)
    image = axes.imshow(piece.values, **view, **shown)
    axes.set(title=piece.title, xlabel=f"{piece.columns} ({unit_name})",
             ylabel=("depth z" if piece.rows == "z" else piece.rows) + f" ({unit_name})")
    return image


def opacity(piece, colors):
    return np.clip(np.abs(piece.values) / colors["vmax"], 0, 1)**0.8


def draw_profile(axes, pieces, unit, unit_name, label):
    """The column in the middle of the slice, before and after."""
    for piece, style in zip(pieces, ({"color": "0.6", "lw": 0.8}, {"color": "C3", "lw": 1.8})):
        middle = piece.values.shape[1] // 2
        axes.plot(piece.values[:, middle], piece.coordinate[piece.rows] / unit, label=piece.title, **style)
    axes.set(xlabel=label, title=f"at {piece.columns} = {piece.coordinate[piece.columns][middle] / unit:g} {unit_name}")
    axes.legend(loc="best", fontsize="small", framealpha=0.9)
    axes.grid(alpha=0.3)


def panel_sizes(pieces):
    """Height of the panels (inches) and their widths relative to it."""
    extent = pieces[-1].extent(1)
    ratio = max(np.ptp(extent[:2]) / np.ptp(extent[2:]), 0.5)
    return 3.4 * min(1, 3 / ratio), [ratio] * len(pieces) + ([0.6] if len(pieces) > 1 else [])


def draw_line(pieces, shown, args):
    """Slices of one row or column, of 1D runs for example: curves, depth downwards. `pieces` set the limits."""
    after, (unit, unit_name) = shown[-1], shown[-1].unit()
    across = after.values.shape[0] == 1  # else downwards
    figure, axes = plt.subplots(figsize=(7, 4) if across else (4.5, 7), layout="constrained")
    along = after.columns if across else after.rows
    for piece in shown:
        place = piece.coordinate[along] / unit
        line, = axes.plot(*((place, piece.values[0]) if across else (piece.values[:, 0], place)), label=piece.title)
    values = np.concatenate([piece.values.ravel() for piece in pieces])
    low, high = (np.nanmin(values), np.nanmax(values)) if np.isfinite(values).any() else (0, 1)
    edge = 0.05 * (high - low or 1)
    names = [f"{along} ({unit_name})", args.label or after.label]
    (axes.set_ylim if across else axes.set_xlim)(low - edge, high + edge)
    axes.set(title=after.full_title(), xlabel=names[not across], ylabel=names[across])
    if along == "z" and not across:
        axes.invert_yaxis()
    if len(shown) > 1:
        axes.legend()
    axes.grid(alpha=0.3)
    return figure, (line.set_ydata if across else line.set_xdata), axes


def draw_slices(pieces, colors, args):
    """Panels side by side with one colour bar; returns the figure, the image of the last panel and the model, if any."""
    after = pieces[-1]
    (unit, unit_name), label = after.unit(), args.label or after.label
    model = Slice(args.model, args.axis, args.index) if args.model else None
    height, widths = panel_sizes(pieces)
    figure, panels = plt.subplots(1, len(widths), figsize=(height * sum(widths) + 1.2, height + 1.7), sharey=True,
                                  squeeze=False, layout="constrained", gridspec_kw={"width_ratios": widths})
    panels = panels[0]
    for axes, piece in zip(panels, pieces):
        image = draw_panel(axes, piece, unit, unit_name, colors, model)
        axes.label_outer()
    bar = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(colors["vmin"], colors["vmax"]), colors["cmap"])
    figure.colorbar(bar, ax=list(panels[:len(pieces)]), label=label, location="bottom", shrink=0.5, aspect=40,
                    extend=extend_of(pieces, colors))
    if len(pieces) > 1:
        draw_profile(panels[-1], pieces, unit, unit_name, label)
        figure.suptitle(": ".join(filter(None, (after.equation, after.place))))
    else:
        panels[0].set_title(after.full_title())
    return figure, image, model


def slice_command(args):
    pieces = [Slice(name, args.axis, args.index) for name in (args.compare, args.file) if name]
    line = 1 in pieces[-1].values.shape
    figure = draw_line(pieces, pieces, args)[0] if line else draw_slices(pieces, colors_of(pieces, args.clip), args)[0]
    out = args.out or str(pieces[-1].path.with_suffix(".png"))
    figure.savefig(out, dpi=DPI)
    what = "" if pieces[-1].flat else f"slice {pieces[-1].axis} = {pieces[-1].index} of "
    print(f"{out}: {what}{args.file}")


def gather_command(args):
    receivers = st.Receivers(args.file)
    traces, position, time = receivers.u, receivers.position, receivers.time
    grid = st.config.parse_config(receivers.attributes.get("config", "")).get("grid", {})
    there = [grid.get(f"n{a}") != "1" for a in AXES]  # along an axis of one point a position may be any number
    across = int(np.argmax(np.ptp(position, axis=0) * there))
    order = np.argsort(position[:, across], kind="stable")
    shown = traces[:, order] * (np.maximum(time, 0)[:, None] / time[-1])**args.gain
    high = np.percentile(np.abs(shown), args.clip) or np.abs(shown).max() or 1
    where = position[order, across]
    half = np.ptp(where) / max(len(where) - 1, 1) / 2 or 0.5
    figure, axes = plt.subplots(figsize=(7.5, 7.2), layout="constrained")
    image = axes.imshow(shown, cmap="gray_r", vmin=-high, vmax=high, aspect="auto", interpolation="bilinear",
                        extent=[where[0] - half, where[-1] + half, time[-1], time[0]])
    power = "" if args.gain == 1 else f"^{args.gain:g}"
    gain = f" × (t / {time[-1]:.3g} s){power}" if args.gain else ""
    axes.set(xlabel=f"receiver {AXES[across]} (m)", ylabel="time (s)", title=f"shot gather, {len(where)} receivers")
    figure.colorbar(image, label=f"{args.label or 'pressure u'}{gain}", shrink=0.6, extend="both")
    out = args.out or str(Path(args.file).with_suffix(".png"))
    figure.savefig(out, dpi=DPI)
    print(f"{out}: {traces.shape[1]} receivers, {traces.shape[0]} samples, {time[0]:g} to {time[-1]:g} s")


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
    colors, model = colors_of(pieces, args.clip), None
    if 1 in pieces[0].values.shape:
        figure, set_data, axes = draw_line(pieces, pieces[-1:], args)
    else:
        figure, image, model = draw_slices(pieces[-1:], colors, args)
        set_data, axes = image.set_data, image.axes

    def show(number):
        values = pieces[number].values
        set_data(values.ravel() if 1 in values.shape else values)
        if model is not None:
            image.set_alpha(opacity(pieces[number], colors))
        axes.set_title(pieces[number].full_title())

    writer = "pillow" if out.endswith(".gif") else "ffmpeg"
    matplotlib.animation.FuncAnimation(figure, show, len(pieces)).save(out, writer=writer, fps=args.fps, dpi=args.dpi)
    print(f"{out}: {len(pieces)} frames")


def parser_of_commands():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, file, clip in (("slice", slice_command, "PATH.SSSSSSSS.hdf, or FILE:/dataset", None),
                                  ("gather", gather_command, "PATH.receivers.h5", 96),
                                  ("animation", animation_command, "PATH, as [output] path says", None)):
        command = commands.add_parser(name, help=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("file", help=file)
        command.add_argument("--out", help="picture to write (default: beside the file)")
        command.add_argument("--label", help="name and unit of the quantity")
        command.add_argument("--clip", type=float, default=clip,
                             help=f"percent of the values the colours span (default {clip or 'as suits the equation'})")
        if name == "gather":
            command.add_argument("--gain", type=float, default=1, help="multiply by time to this power (default 1)")
            continue
        command.add_argument("--axis", choices=AXES, help="axis the slice is across (default y, or one of a single point)")
        command.add_argument("--index", type=int, help="point along that axis (default: the middle)")
        command.add_argument("--model", metavar="FILE:/dataset", help="velocity model to draw beneath a wave")
        if name == "slice":
            command.add_argument("--compare", metavar="FILE", help="an earlier field, drawn on the left")
        else:
            command.add_argument("--fps", type=float, default=12, help="frames a second (default 12)")
            command.add_argument("--dpi", type=float, default=80, help="pixels an inch (default 80)")
    return parser


def main():
    arguments = sys.argv[1:]
    if arguments and arguments[0] not in ("slice", "gather", "animation", "-h", "--help"):
        arguments.insert(0, "slice")
    args = parser_of_commands().parse_args(arguments)
    try:
        if args.clip is not None and not 0 < args.clip <= 100:
            raise st.Error(f"--clip {args.clip:g}: expected more than 0, at most 100")
        args.run(args)
    except (OSError, ValueError) as error:
        sys.exit(f"plot.py: error: {error}")


if __name__ == "__main__":
    main()
