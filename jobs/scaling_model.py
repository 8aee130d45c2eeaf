#!/usr/bin/env python3
"""A model of how slabs in z scale, fitted to measured steps; it predicts larger machines.

  scaling_model.py docs/scaling_h200.json    what is shipped: 1, 2 and 4 GPUs of one node
  scaling_model.py FOLDER                    reports of jobs/scaling.sh; with --save also as one file of that kind

Prints the terms found, measured beside predicted steps, predicted efficiency against one GPU, and how far slabs in z
go. docs/SCALING.md explains the terms, which are in slab_model.py.
"""
import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

from packages import require
from slab_model import (DEPTH, ON_DEVICE, Machine, efficiency, fit, grown, measured_efficiency, predict, reach, read,
                        terms, write)


# --- what is printed ------------------------------------------------------------------------------------------------

def print_parameters(schedule, parameters):
    print(f"\nschedule {schedule}: terms fitted")
    for name, value in parameters.items():
        kind = name.split()[0]
        if kind in ("point", "byte"):
            unit = "Gpts/s" if kind == "point" else "GB/s to each neighbour"
            print(f"  {name:18s} " + (f"{1e-9 / value:8.1f} {unit}" if value else "nothing"))
        else:
            small = kind in ("extra", "second")
            print(f"  {name:18s} " + (f"{1e12 * value:8.2f} ps" if small else f"{1e6 * value:8.2f} us"))


def print_comparison(runs, parameters, machine):
    print(f"  {'':30s} {'transport':9s} {'ranks':>5s} {'Gpts/s':>8s} {'efficiency':>10s} {'exposed':>8s} "
          f"{'ms a step':>9s} {'predicted':>9s} {'error':>8s}")
    for run in runs:
        seconds = predict(parameters, run, machine)
        part, exposed = measured_efficiency(run, runs), "-" if run.exposed is None else f"{100 * run.exposed:.1f} %"
        print(f"  {run!s:30s} {run.transport if run.neighbours else '-':9s} {run.ranks:5d} {run.gpts:8.1f} "
              f"{'-' if math.isnan(part) else f'{100 * part:.1f} %':>10s} {exposed:>8s} {1e3 * run.seconds:9.4f} "
              f"{1e3 * seconds:9.4f} {100 * (seconds / run.seconds - 1):+6.1f} %")


def print_predictions(parameters, cases, counts, ways, transport):
    print(f"\npredicted efficiency against one GPU, %, {transport}; network beside compute / after it")
    print(" " * 30 + "".join(f"{n:>10d}" for n in counts))
    for kind, equation, base in cases:
        line = f"  {kind:6s} {equation} {'x'.join(map(str, base))}".ljust(30)
        for ranks in counts:
            run = grown(equation, base, ranks, kind, transport)
            thin = run.grid[2] // ranks < DEPTH
            both = "too thin" if thin else " / ".join(f"{100 * efficiency(parameters, run, way):.0f}" for way in ways)
            line += f"{both:>10s}"
        print(line)


def print_reach(parameters, cases, ways, transport, most):
    print(f"\nGPUs (of at most {most}) up to which  slabs have {DEPTH} planes   efficiency >= 80 %   >= 50 %")
    for kind, equation, base in cases:
        (fits, first), (_, second) = (reach(parameters, equation, base, kind, transport, way, most) for way in ways)
        both = [f"{first[limit]} / {second[limit]}" for limit in (0.8, 0.5)]
        case = f"  {kind:6s} {equation} {'x'.join(map(str, base))}"
        print(f"{case:37s} {fits:16d} {both[0]:>20s} {both[1]:>11s}")


# --- the plot -------------------------------------------------------------------------------------------------------

def measured_points(runs, kind, equation, base, transport):
    """(GPUs, efficiency) of measured runs."""
    return [(r.ranks, 100 * measured_efficiency(r, runs)) for r in runs if (r.kind, r.equation) == (kind, equation) and
            (r.ranks == 1 or r.transport == transport) and grown(equation, base, r.ranks, kind, "").grid == r.grid]


def label_of(kind, equation, base):
    name = f"{base[0]}³" if len(set(base)) == 1 else " × ".join(map(str, base))
    return f"{equation}, {name}" + {"weak": " a GPU", "cube": " a GPU, as a cube", "strong": ""}[kind]


def draw_case(panel, case, color, runs, parameters, ways, transport, most):
    kind, equation, base = case
    counts = sorted({round(2 ** (i / 8)) for i in range(8 * int(math.log2(most)) + 1)} | {most})
    line = [grown(equation, base, n, kind, transport) for n in counts]
    line = [run for run in line if run.grid[2] // run.ranks >= DEPTH]
    for way, style in zip(ways, ("-", (0, (4, 2)))):
        values = [100 * efficiency(parameters, run, way) for run in line]
        panel.plot([run.ranks for run in line], values, color=color, ls=style, lw=1.8,
                   label=label_of(*case) if way.hidden else None)
    if line[-1].ranks < most:
        panel.plot(line[-1].ranks, values[-1], "x", color=color, ms=9, mew=2)
    points = measured_points(runs, kind, equation, base, transport)
    panel.plot([n for n, _ in points], [e for _, e in points], "o", color=color, mec="black", zorder=3)


def draw(path, runs, parameters, cases, ways, transport, most):
    require("matplotlib")  # not needed for the figures
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.4), sharey=True, layout="constrained")
    for panel, name in zip(panels, ("weak", "strong")):
        shown = [case for case in cases if (case[0] == "strong") == (name == "strong")]
        for number, case in enumerate(shown):
            draw_case(panel, case, f"C{number}", runs, parameters, ways, transport, most)
        ticks = [4 ** i for i in range(int(math.log(most, 4) + 1e-9) + 1)]
        panel.set_xscale("log", base=2)
        panel.set_xticks(ticks, map(str, ticks))
        panel.axvline(ways[0].node, color="0.7", lw=1, ls=":")
        panel.grid(alpha=0.3)
        panel.set_xlabel("GPUs")
        panel.set_title(f"{name} scaling, {transport}", loc="left")
        panel.legend(fontsize=8, loc="center right")
    panels[0].set_ylabel("efficiency against one GPU, %")
    panels[0].set_ylim(0, 105)
    figure.suptitle("circles: measured; lines: model, network beside compute (solid) or after it (dashed); dotted: one "
                    f"node; cross: slabs of {DEPTH} planes", fontsize=9)
    figure.savefig(path, dpi=120)
    print(f"\n{path}")


# --- command line ---------------------------------------------------------------------------------------------------

def size(text):
    numbers = tuple(int(n) for n in text.split("x"))
    if len(numbers) != 3 or min(numbers) < 1:
        raise ValueError
    return numbers


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("source", type=Path, help="list of runs (.json), or folder of reports")
    add("--fit-to", type=int, metavar="N", help="fit runs of at most N ranks only; all are compared")
    add("--transport", default=ON_DEVICE, help="of predictions (default ipc)")
    add("--weak", type=size, default=(768,) * 3, metavar="NXxNYxNZ", help="points of a GPU (default 768x768x768)")
    add("--strong", type=size, nargs="+", default=[(512,) * 3, (2048,) * 3], metavar="NXxNYxNZ",
        help="points in all (default 512x512x512 2048x2048x2048)")
    add("--most", type=int, default=4096, help="GPUs to predict for (default 4096)")
    add("--node", type=int, default=8, help="GPUs of a node (default 8)")
    add("--link", type=float, default=450, help="GB/s of a GPU within a node, each way (default 450)")
    add("--network", type=float, default=50, help="GB/s of a GPU between nodes, each way (default 50)")
    add("--latency", type=float, default=5, help="us, of the network (default 5)")
    add("--plot", type=Path, help="picture to write; needs matplotlib")
    add("--save", type=Path, help="list of runs to write")
    args = parser.parse_args()
    if min(args.node, args.link, args.network) <= 0 or args.latency < 0 or args.most < 1:
        parser.error("node, link, network and most must be positive")
    return args


def main():
    args = arguments()
    machine = Machine(args.node, 1e9 * args.link, 1e9 * args.network, 1e-6 * args.latency)
    ways = machine, replace(machine, hidden=False)
    try:
        runs, fitted = read(args.source), {}
        if args.save:
            write(args.save, runs)
        for schedule in sorted({run.schedule for run in runs}, reverse=True):
            mine = [run for run in runs if run.schedule == schedule]
            known = fitted[schedule] = fit([run for run in mine if run.ranks <= (args.fit_to or run.ranks)])
            print_parameters(schedule, known)
            print_comparison([run for run in mine if not set(terms(run)) - set(known)], known, machine)
        steps = fitted.get("steps", {})
        if f"latency {args.transport}" not in steps:
            raise ValueError(f"{args.source}: no steps with {args.transport} on several ranks to predict from")
        equations = [name.split()[1] for name in steps if name.startswith("point ")]
        cases = [(kind, e, args.weak) for kind in ("weak", "cube") for e in equations]
        cases += [("strong", e, grid) for e in equations for grid in args.strong]
        counts = [n for n in (1, 2, 4, 8, 16, 64, 256, 1024, 4096) if n <= args.most]
        print_predictions(steps, cases, counts, ways, args.transport)
        print_reach(steps, cases, ways, args.transport, args.most)
        if args.plot:
            mine = [run for run in runs if run.schedule == "steps"]
            draw(args.plot, mine, steps, cases, ways, args.transport, args.most)
    except (OSError, KeyError, TypeError, ValueError) as error:
        sys.exit(f"scaling_model.py: error: {error}")


if __name__ == "__main__":
    main()
