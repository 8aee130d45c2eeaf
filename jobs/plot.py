#!/usr/bin/env python3
"""Draws a slice of a field that stencil saved, or of any HDF5 file with a dataset /u of shape (nz, ny, nx).

With --compare FILE that field is drawn beside it, on the same colours, with a profile through both.
"""
import argparse
import sys
from pathlib import Path

import h5py
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

AXES = "xyz"


class Slice:
    """Points of one plane across `axis`: values (rows, columns) and the coordinates of both, in metres."""

    def __init__(self, path, axis, index):
        with h5py.File(path, "r") as file:
            data = file["u"]
            origin, spacing = [0.0] * 3, [1.0] * 3
            if "VTKHDF" in file:
                origin, spacing = file["VTKHDF"].attrs["Origin"], file["VTKHDF"].attrs["Spacing"]
            points = dict(zip("zyx", data.shape))
            self.index = points[axis] // 2 if index is None else index
            if not 0 <= self.index < points[axis]:
                raise ValueError(f"--index {index}: {path} has {points[axis]} points along {axis}")
            self.values = data[tuple(self.index if name == axis else slice(None) for name in "zyx")]
            self.columns, self.rows = [name for name in AXES if name != axis]
            self.coordinate = {a: origin[i] + spacing[i] * np.arange(points[a]) for i, a in enumerate(AXES)}
            self.place = f"{axis} = {self.coordinate[axis][self.index]:g} m"
            self.title = Path(path).name
            if "step" in file.attrs:
                self.title = f"step {file.attrs['step']}, t = {file.attrs['time']:g}"
            self.equation = file.attrs.get("equation", "")
            self.dx, self.dy = (spacing[AXES.index(a)] for a in (self.columns, self.rows))

    def extent(self, unit):
        """Edges of the image: half a cell around the outermost points; depth grows downwards."""
        x, y = self.coordinate[self.columns] / unit, self.coordinate[self.rows] / unit
        hx, hy = self.dx / unit / 2, self.dy / unit / 2
        left_right, low_high = [x[0] - hx, x[-1] + hx], [y[0] - hy, y[-1] + hy]
        return left_right + (low_high[::-1] if self.rows == "z" else low_high)


def draw_panel(axes, piece, unit, unit_name, colors):
    extent = piece.extent(unit)
    image = axes.imshow(piece.values, extent=extent, origin="upper" if piece.rows == "z" else "lower",
                        aspect="equal", interpolation="nearest", **colors)
    axes.set(title=piece.title, xlabel=f"{piece.columns} ({unit_name})",
             ylabel=("depth z" if piece.rows == "z" else piece.rows) + f" ({unit_name})")
    return image


def draw_profile(axes, pieces, unit, unit_name, label):
    """The column in the middle of the slice, before and after."""
    for piece, style in zip(pieces, ({"color": "0.6", "lw": 0.8}, {"color": "C3", "lw": 1.8})):
        middle = piece.values.shape[1] // 2
        axes.plot(piece.values[:, middle], piece.coordinate[piece.rows] / unit, label=piece.title, **style)
    axes.set(xlabel=label, title=f"at {piece.columns} = {piece.coordinate[piece.columns][middle] / unit:g} {unit_name}")
    axes.legend(loc="upper right", fontsize="small", framealpha=0.9)
    axes.grid(alpha=0.3)


def draw(pieces, label, out):
    after = pieces[-1]
    span = max(np.ptp(after.coordinate[a]) for a in (after.columns, after.rows))
    unit, unit_name = (1000, "km") if span >= 2000 else (1, "m")
    finite = np.concatenate([p.values[np.isfinite(p.values)] for p in pieces])
    low, high = np.percentile(finite, [0.5, 99.5]) if finite.size else (0, 1)
    colors = {"cmap": "viridis", "vmin": low, "vmax": high if high > low else low + 1}

    height = 3.4  # of a panel, inches
    ratio = np.ptp(after.extent(1)[:2]) / np.ptp(after.extent(1)[2:])
    widths = [min(max(ratio, 0.5), 3)] * len(pieces) + ([0.6] if len(pieces) > 1 else [])
    figure, panels = plt.subplots(1, len(widths), figsize=(height * sum(widths) + 1.2, height + 1.7), sharey=True,
                                  squeeze=False, layout="constrained", gridspec_kw={"width_ratios": widths})
    panels = panels[0]
    for axes, piece in zip(panels, pieces):
        image = draw_panel(axes, piece, unit, unit_name, colors)
        axes.label_outer()
    figure.colorbar(image, ax=list(panels[:len(pieces)]), label=label, location="bottom", shrink=0.5, aspect=40,
                    extend="both")
    if len(pieces) > 1:
        draw_profile(panels[-1], pieces, unit, unit_name, label)
        figure.suptitle(f"{after.equation}: slice at {after.place}")
    else:
        panels[0].set_title(f"{after.title}, slice at {after.place}")
    figure.savefig(out, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="PATH.SSSSSSSS.hdf")
    parser.add_argument("--axis", choices=AXES, default="y", help="axis the slice is across (default y)")
    parser.add_argument("--index", type=int, help="point along that axis (default: the middle)")
    parser.add_argument("--out", help="picture to write (default: FILE with the ending .png)")
    parser.add_argument("--compare", metavar="FILE", help="an earlier field, drawn on the left")
    parser.add_argument("--label", default="u", help="name and unit of the quantity (default u)")
    args = parser.parse_args()
    out = args.out or str(Path(args.file).with_suffix(".png"))
    try:
        pieces = [Slice(path, args.axis, args.index) for path in (args.compare, args.file) if path]
        draw(pieces, args.label, out)
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"plot.py: error: {error}")
    print(f"{out}: slice {args.axis} = {pieces[-1].index} of {args.file}")


if __name__ == "__main__":
    main()
