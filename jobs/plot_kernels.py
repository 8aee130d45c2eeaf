#!/usr/bin/env python3
"""Draws what jobs/bench_kernels.sh measured: every CUDA kernel as a fraction of what a plain copy would allow."""
import argparse
import json
import sys

from packages import require

require("matplotlib")
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BYTES = {"jacobi": 8, "heat": 12, "wave": 16}  # a point, at the least
SAID = {"jacobi": "jacobi: u read, u' written", "heat": "heat: diffusivity field read too",
        "wave": "wave: velocity field and u of the step before read too"}
BEST, OTHER, INK, FAINT = "#0b6e4f", "#7fc4a8", "#222222", "#8a8a8a"


def bars_of(equation, run):
    """(label, fraction of copy, Gpts/s, colour) of a panel's bars, the fastest first."""
    found = sorted((r for r in run["results"] if r["equation"] == equation and r["supported"]), key=lambda r: -r["gpts"])
    return [(r["kernel"], r["fraction_of_copy"], r["gpts"], BEST if r is found[0] else OTHER) for r in found]


def draw_panel(axes, equation, bars, right):
    labels, fractions, gpts, colours = zip(*bars)
    rows = range(len(bars))
    axes.barh(rows, [100 * f for f in fractions], color=colours, height=0.74, zorder=2)
    for row, fraction, rate, colour in zip(rows, fractions, gpts, colours):
        axes.text(100 * fraction - 0.8, row, f"{100 * fraction:.0f} %", va="center", ha="right", fontsize=9, zorder=4,
                  color="white" if colour == BEST else INK, fontweight="bold" if colour == BEST else "normal")
        axes.text(right - 0.5, row, f"{rate:.0f}", va="center", ha="right", fontsize=9, color=INK if colour == BEST else FAINT)
    axes.axvline(100, color=INK, lw=1.2, ls=(0, (4, 2)), zorder=3)
    axes.set_yticks(rows, labels, fontsize=9)
    for tick, colour in zip(axes.get_yticklabels(), colours):
        tick.set_color(INK)
        tick.set_fontweight("bold" if colour == BEST else "normal")
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_title(f"{SAID.get(equation, equation)}, {BYTES[equation]} bytes a point", loc="left", fontsize=10, color=INK)
    axes.grid(axis="x", color="0.9", zorder=0)
    axes.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def draw(run, out):
    equations = [e for e in BYTES if any(r["equation"] == e for r in run["results"])]
    panels = [bars_of(e, run) for e in equations]
    right = max(112, 100 * max(bar[1] for bars in panels for bar in bars) + 10)
    heights = [len(bars) + 1.2 for bars in panels]
    figure, axes = plt.subplots(len(panels), 1, sharex=True, squeeze=False, layout="constrained",
                                figsize=(8.2, 0.235 * sum(heights) + 1.3), gridspec_kw={"height_ratios": heights})
    for place, equation, bars in zip(axes[:, 0], equations, panels):
        draw_panel(place, equation, bars, right)
    top, bottom = axes[0, 0], axes[-1, 0]
    top.text(right - 0.5, -0.75, "Gpts/s", ha="right", va="bottom", fontsize=9, color=FAINT)
    top.annotate("copy", (100, 1), (0, 3), xycoords=("data", "axes fraction"), textcoords="offset points", ha="center",
                 fontsize=9, color=INK)
    bottom.set_xlim(0, right)
    bottom.set_xticks(range(0, 101, 20), [f"{tick} %" for tick in range(0, 101, 20)], fontsize=9, color=FAINT)
    bottom.set_xlabel(f"ideal traffic / copy bandwidth of the same run ({run['copy_gbs'] / 1000:.2f} TB/s)", fontsize=9,
                      color=INK)
    figure.get_layout_engine().set(h_pad=0.06)
    figure.suptitle(f"25-point stencil, float32, {' × '.join(map(str, run['grid']))}, one {run['gpu']}", x=0.01, ha="left",
                    fontsize=12, fontweight="bold", color=INK)
    figure.savefig(out, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", help="JSON of bench_kernels")
    parser.add_argument("--out", default="docs/kernels.png", help="picture to write (default docs/kernels.png)")
    args = parser.parse_args()
    try:
        with open(args.kernels) as file:
            run = json.load(file)
        draw(run, args.out)
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"plot_kernels.py: error: {error}")
    print(args.out)


if __name__ == "__main__":
    main()
