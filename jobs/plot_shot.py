#!/usr/bin/env python3
"""Prints what jobs/bench_shot.sh measured, and draws it: how long one whole shot takes, and its steps.

  plot_shot.py shot.txt                                  a table
  plot_shot.py shot.txt MORE.txt --out docs/shot.png     a table of each, and bars, a panel for each

A line of such a file is WHO, the seconds of the whole run and those of its steps; the first one is # POINTS STEPS DEVICE.
The fastest turn counts.
"""
import argparse
import sys

NAMES = {"absorbing": "the program", "fixed": "the same, fixed faces"}
STEPS, REST, INK = "#0b6e4f", "#b4b4b4", "#222222"


class Shot:
    """One file: .points (of an edge), .steps, .device, and .best[WHO], the seconds of the whole run and of the steps."""

    def __init__(self, path):
        turns = {}
        with open(path) as file:
            mark, points, steps, self.device = file.readline().strip().split(" ", 3)
            if mark != "#":
                raise ValueError(f"{path} is not of bench_shot.sh")
            for line in file:
                who, whole, of_steps = line.split()
                turns.setdefault(who, []).append((float(whole), float(of_steps)))
        self.points, self.steps = int(points), int(steps)
        self.best = {who: min(runs) for who, runs in turns.items()}

    def gpts(self, who):
        return self.points**3 * self.steps * 1e-9 / self.best[who][1]

    def show(self):
        print(f"{self.points}^3 points, {self.steps} steps, {self.device}")
        print(f"{'':24s}{'whole run, s':>14s}{'steps, s':>10s}{'the rest, s':>13s}{'Gpts/s in the steps':>22s}")
        for who, (whole, steps) in self.best.items():
            print(f"{NAMES.get(who, who):24s}{whole:14.2f}{steps:10.2f}{whole - steps:13.2f}{self.gpts(who):22.3f}")
        ours = self.best["absorbing"]
        for who, (whole, steps) in list(self.best.items())[1:]:
            print(f"the program / {NAMES.get(who, who)}: {steps / ours[1]:.2f} times its speed in the steps, "
                  f"{whole / ours[0]:.2f} in the whole run")


def draw_panel(axes, shot):
    rows = range(len(shot.best))
    for row, (who, (whole, steps)) in enumerate(shot.best.items()):
        axes.barh(row, steps, color=STEPS, height=0.66, zorder=2)
        axes.barh(row, whole - steps, left=steps, color=REST, height=0.66, zorder=2)
        axes.text(whole, row, f" {whole:.2f} s   {shot.gpts(who):.3g} Gpts/s in the steps", va="center", fontsize=9, color=INK)
    axes.set_xlim(0, 1.5 * max(whole for whole, _ in shot.best.values()))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(rows, [NAMES.get(who, who) for who in shot.best], fontsize=9)
    axes.set_title(f"{shot.points}³ points, {shot.steps} steps, {shot.device}", loc="left", fontsize=10, color=INK)
    axes.grid(axis="x", color="0.9", zorder=0)
    axes.tick_params(length=0, labelsize=9)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def draw(shots, out):
    from packages import require
    require("matplotlib")
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    heights = [len(shot.best) + 1.4 for shot in shots]
    figure, axes = plt.subplots(len(shots), 1, squeeze=False, layout="constrained", figsize=(8.2, 0.34 * sum(heights) + 0.9),
                                gridspec_kw={"height_ratios": heights})
    for place, shot in zip(axes[:, 0], shots):
        draw_panel(place, shot)
    axes[-1, 0].set_xlabel("seconds", fontsize=9, color=INK)
    keys = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in (STEPS, REST)]
    figure.legend(keys, ("steps", "start, load, compile, write, exit"), loc="upper right", ncol=2, fontsize=9, frameon=False)
    figure.suptitle("One whole shot: time to solution", x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    figure.savefig(out, dpi=150)
    print(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="shot.txt of jobs/bench_shot.sh")
    parser.add_argument("--out", help="picture to write")
    args = parser.parse_args()
    try:
        shots = [Shot(path) for path in args.files]
        for shot in shots:
            shot.show()
        if args.out:
            draw(shots, args.out)
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"plot_shot.py: error: {error}")


if __name__ == "__main__":
    main()
