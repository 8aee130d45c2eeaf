#!/usr/bin/env python3
"""Measures how accurate the program is and writes the figures and pictures of docs/ACCURACY.md and docs/ULTRASOUND.md.

  accuracy_report.py STENCIL MPIEXEC [SECTION ...]     some minutes; without sections all of them

Every section stands between "<!-- measured: NAME -->" and "<!-- end -->" in a page of docs; what is there is replaced.
"""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))  # harness
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import study_absorbing
import study_ultrasound
import study_waves
from analytic import np, slope
from harness import SOURCE, Program
from physics import POINTS
from study_convergence import FAMILIES, in_space, in_time

DOCS = SOURCE / "docs"
COLORS = {2: "#b4b4b4", 4: "#7fb0d8", 6: "#2f7d5f", 8: "#c1440e"}
MARKERS = dict(zip(FAMILIES, "osd^"))
SECTIONS = {}


def section(function):
    SECTIONS[function.__name__] = function
    return function


def table(head, rows):
    head, *rows = ("| " + " | ".join(str(cell) for cell in line) + " |" for line in (head, *rows))
    return "\n".join([head, "|---" * (head.count(" | ") + 1) + "|", *rows])


def save(figure, name):
    figure.savefig(DOCS / name, dpi=130)
    plt.close(figure)


def say(name, value):
    print(f"{name}: {value}", flush=True)
    return value


@section
def space(program):
    rows, resolutions = [], (8, 12, 16, 24, 32)
    figure, panels = plt.subplots(1, 2, figsize=(10.5, 4.8), sharex=True, layout="constrained")
    for axes, equation in zip(panels, ("wave", "heat")):
        for family in FAMILIES:
            cells = []
            for order, points in POINTS.items():
                measured = {p: in_space(program, equation, family, order, p)[0] for p in sorted({*resolutions, *points})}
                cells.append(f"{slope(points, [measured[p] for p in points]):.2f}")
                axes.loglog(resolutions, [measured[p] for p in resolutions], marker=MARKERS[family], ms=5, lw=1,
                            color=COLORS[order], label=f"order {order}" if family == "sine" else None)
            rows.append(say("space", [equation, family, *cells]))
        draw_triangles(axes, equation)
    panels[0].set_ylabel("relative L2 error, time error taken out")
    panels[1].legend(title="space_order", fontsize="small")
    shapes = [plt.Line2D([], [], marker=MARKERS[f], ls="", color="0.3", label=f) for f in FAMILIES]
    panels[0].legend(handles=shapes, fontsize="small", loc="lower left")
    save(figure, "accuracy_space.png")
    head = ["equation", "solution", *(f"order {order}" for order in POINTS)]
    return table(head, rows) + "\n\n![convergence](accuracy_space.png)"


def draw_triangles(axes, equation):
    axes.set(title=equation, xlabel="points per wavelength")
    axes.set_xticks([8, 12, 16, 24, 32], ["8", "12", "16", "24", "32"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    low, high = axes.get_ylim()
    for order, color in COLORS.items():
        line = [line for line in axes.get_lines() if line.get_color() == color][0]
        x, y = np.array([8, 32]), line.get_ydata()[0]
        axes.plot(x, y * (8 / x)**order, color=color, lw=0.8, ls=":")
    axes.set_ylim(low, high)


@section
def time(program):
    rows = [[equation, *(f"{slope([1, 2, 4, 8], [in_time(program, equation, family, 8, halvings) for halvings in range(4)]):.3f}"
                         for family in FAMILIES)] for equation in ("wave", "heat")]
    return table(["equation", *FAMILIES], say("time", rows))


@section
def source(program):
    rows, parts = [], ((0.5, 0.25, 0.7), (0.3, 0.2, 0.6))
    for points in (10, 15, 25):
        program.fresh()  # lower() looks at the last field saved
        on = [study_waves.lower(program, axes, points, 0.9) for axes in (1, 2)] + [study_waves.homogeneous(program, points, 0.9)[1]]
        _, sinc = study_waves.homogeneous(program, points, 0.9, *parts)
        near, linear = study_waves.homogeneous(program, points, 0.9, *parts, how="linear")
        rows.append(say("source", [points, *(f"{100 * error:.2g}" for error in (*on, sinc, linear, near))]))
    return table(["points per wavelength at f0", "1D", "2D", "3D", "off the grid, sinc", "linear", "linear, to the spread source"], rows)


@section
def distance(program):
    rows, distances = [], (10, 30, 100, 200)
    for points in (6, 8, 10, 12, 15, 20):
        for how, cfl in (("removed", 0.9), ("kept", 0.9), ("kept", 0.25))[:3 if points in (10, 20) else 1]:
            off = [study_waves.far(program, points, 1, away=away, cfl=cfl, time__dispersion=how)[3] for away in distances]
            rows.append(say("distance", [points, how, cfl, *(f"{100 * e:{'.0f' if e > 0.995 else '.2g'}}" for e in off)]))
    return table(["points per wavelength at f0", "dispersion", "cfl", "10 wavelengths", *distances[1:]], rows)


@section
def ends(program):
    rows = []
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.4), layout="constrained")
    for steps, every in ((900, 1), (900, 3), (3000, 1), (9000, 1)):
        t, u, exact, last = study_waves.tone(program, steps, every=every)
        off, peak = abs(u - exact)[-last:], abs(exact[-last:]).max()
        turn = lambda x: (x * np.exp(-2j * np.pi * np.arange(last) / last))[-last:].sum()
        rows.append(say("ends", [steps, every, *(f"{100 * x / peak:.2g}" for x in (off.max(), off[-1])), f"{100 * abs(abs(turn(u[-last:]) / turn(exact[-last:])) - 1):.2g}"]))
        if steps == 900 and every == 1:
            left.plot(t[-80:], exact[-80:] / peak, "o", ms=3, color="0.6", label="exact")
            left.plot(t[-80:], u[-80:] / peak, lw=1, color="#c1440e", label="trace")
    left.set(xlabel="time, s", title="the end of a trace of a tone")
    left.legend(fontsize="small")
    changes = np.arange(-20, 21) * 1e-6
    J, slope = study_waves.misfits(program, changes)
    off = say("ends: J off its tangent, of the change over the picture", abs(J - J[20] - slope * changes)[[0, -1]].max() / abs(slope * 4e-5))
    right.plot(changes * 1e6, J, "o", ms=3, color="0.6", label="J")
    right.plot(changes * 1e6, J[20] + slope * changes, lw=1, color="#2f7d5f", label="its tangent, by the gradient")
    right.set(xlabel="velocity, parts in a million from 1.01 times the true one", title="the misfit of such a trace")
    right.legend(fontsize="small")
    save(figure, "accuracy_ends.png")
    return table(["steps", "samples every", "last period: worst sample, %", "last sample", "amplitude"], rows) + "\n\n![ends of traces](accuracy_ends.png)"


@section
def density(program):
    rows = [[f"{ratio}, {velocity}", *(f"{100 * study_waves.density_step(program, ratio, how, points, velocity):.2f}"
                                       for points in (10, 20) for how in ("on", "off"))]
            for ratio, velocity in ((0.5, 1), (2, 1), (5, 1), (10, 1), (2, 1.5), (1, 1.5))]
    return table(["density, velocity times", "10 points, averaging", "off", "20 points, averaging", "off"], say("density", rows))


@section
def interfaces(program):
    ways = [(how, averages) for averages in (False, True) for how in ("on", "off")]
    places, rows = (0, 0.25, 0.5, 0.75), []
    plane = lambda at, layers, *step: [100 * max(study_waves.density_step(program, step[0], how, 10, step[1], place, layer, averages)
                                                 for place in at for layer in layers) for how, averages in ways]
    for name, at, layers in (("on a point", (0,), (None,)), ("1/4 behind one", (0.25,), (None,)),
                             ("layer of 1 to 4 points, from half-way on", (0.5,), (1, 2, 4)),
                             ("layer of 1/2 point, anywhere", places, (0.5,)), ("of 1 to 4 points, anywhere", places, (1, 2, 4))):
        for step in ((2, 1), (10, 1))[:1 if layers in ((None,), (0.5,)) else 2]:
            rows.append(say("interfaces", [name, step[0], *(f"{value:.{1 if value < 9.95 else 0}f} %" for value in plane(at, layers, *step))]))
    for name, inside, degrees in (("tilted by 20 degrees", study_waves.tilted(20), 20), ("by 45 degrees", study_waves.tilted(45), 45),
                                  ("a disc", study_waves.disc, 20)):
        for step in ((2, 1), (5, 1)):
            exact = study_waves.scattered(program, inside, *step, "off", True, degrees, finer=4)
            cells = [" / ".join(f"{100 * np.linalg.norm(a - b) / np.linalg.norm(b):.2g}" for a, b in zip(found, exact)) + " %"
                     for found in (study_waves.scattered(program, inside, *step, *way, degrees) for way in ways)]
            rows.append(say("interfaces", [name, step[0], *cells]))
    return table(["interface", "density times", "points, on", "off", "averages, on", "off"], rows)


@section
def bone(program):
    ways, rows = [(averages, how) for averages in (False, True) for how in ("on", "off")], []
    skull = np.array([4, 1.5, 3.5, 1.5]) * 1e-3
    for points, finer in ((6, 5), (8, 4), (10, 3)):
        random, h = np.random.default_rng(5), study_ultrasound.WAVE / points
        draws = [(random.random(), skull * random.uniform(0.8, 1.25, 4)) for _ in range(8)]
        exact, cells = study_ultrasound.head(program, points, True, "off", finer), []
        for way in ways:
            rms = [100 * np.sqrt(np.mean([study_ultrasound.layered(program, points, *layer, *way)**2 for layer in layers]))
                   for layers in ([(0.5, np.round(skull / h) * h)], draws)]
            found = study_ultrasound.head(program, points, *way)
            rms.append(100 * np.linalg.norm(found - exact) / np.linalg.norm(exact))
            cells.append("; ".join(f"{each:.1f}" for each in rms) + f" ({100 * (found.max() / exact.max() - 1):+.0f})")
        rows.append(say("bone", [points, *cells]))
    return table(["points per wavelength", "values at points, on", "off", "averages, on", "off"], rows)


@section
def ultrasound(program):
    rows = []
    for name, points, options in (("a bowl, a pulse", 6, {}), ("", 8, {}), ("", 10, {}), ("a bowl, a tone", 6, {"tone": True}), ("", 10, {"tone": True}),
                                  ("a piston, a rigid wall", 6, {"curvature": None, "wall": True}), ("", 10, {"curvature": None, "wall": True}),
                                  ("a piston, no wall", 10, {"curvature": None}), ("signals of 20 samples a period", 10, {"samples": 20})):
        focus, axis, _ = study_ultrasound.radiated(program, points, **options)
        rows.append(say("ultrasound", [name or rows[-1][0], points, f"{100 * focus:+.2f} %", f"{100 * axis:.2f} %"]))
    whole, quarter = (study_ultrasound.radiated(program, 6, quarter=cut)[2] for cut in (False, True))
    say("ultrasound: a quarter beside the whole", abs(whole - quarter).max() / whole.max())
    return table(["radiator", "points per wavelength", "error at the greatest amplitude", "rms error along the axis"], rows)


@section
def mirrors(program):
    rows = []
    for boundary, depth in (("dirichlet", 7), ("neumann", 7), ("neumann", 1), ("neumann", 0.3), ("neumann", 0)):
        exact, twice = study_waves.mirror(program, boundary, depth=depth)
        first = f"{100 * exact:.2f} %" if depth == round(depth) else "off the grid"
        rows.append(say("mirrors", [boundary, depth, first, f"{twice:.1e}"]))
    return table(["face", "points below it", "to source and image", "to twice the domain"], rows)


@section
def conserved(program):
    rows = []
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for boundary, color in (("dirichlet", "#c1440e"), ("neumann", "#2f7d5f"), ("periodic", "#7fb0d8")):
        at, values = study_waves.energy(program, boundary, 10000, 20)
        axes.plot(at, values - 1, color=color, lw=1, label=boundary)
        rows.append(say("conserved", [f"energy of the wave, {boundary}", "10,000", f"{np.abs(values - 1).max():.1e}"]))
    axes.set(xlabel="step", ylabel="energy, relative change")
    axes.ticklabel_format(axis="y", scilimits=(0, 0))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    save(figure, "accuracy_energy.png")
    for boundary, spacing in (("periodic", 10), ("neumann", (12.5, 12.5, 10))):
        change = study_waves.mean_of_wave(program, boundary, spacing, 8, 3000)
        rows.append(say("conserved", [f"mean of the wave, {boundary}", "3,000", f"{abs(change):.1e}"]))
    for field, name in ((False, "sum of u, one diffusivity"), (True, "sum of u / alpha, diffusivity field")):
        change = study_waves.heat_content(program, field, 2000)
        rows.append(say("conserved", [f"heat, neumann: {name}", "2,000", f"{abs(change):.1e}"]))
    return table(["quantity", "steps", "largest relative change"], rows) + "\n\n![energy](accuracy_energy.png)"


@section
def reciprocity(program):
    rows = [[boundary, f"{max(found):.1e}"] for boundary in ("dirichlet", "periodic", "absorbing")
            for found in [study_waves.reciprocity(program, boundary)]]
    at_faces = study_waves.reciprocity(program, study_waves.FACES, places=study_waves.AT_FACES)
    rows.append(["fixed, dirichlet, neumann and periodic; 66 pairs on and near all faces", f"{max(at_faces):.1e}"])
    return table(["boundaries (6 pairs where not said)", "largest misfit"], say("reciprocity", rows))


@section
def absorbing(program):
    angles, widths = (0, 15, 30, 45, 60, 70), (5, 10, 20, 30)
    found = {w: [say(f"absorbing {w} points, {a} degrees", study_absorbing.plane_wave(program, a, w)) for a in angles]
             for w in widths}
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    for width, color in zip(widths, ("#4a6fa5", "#b4b4b4", "#c1440e", "#2f7d5f")):
        axes.plot(angles, found[width], marker="o", color=color, label=f"width = {width}")
    axes.plot([0, 60], [-60, -40], ls="", marker="_", ms=18, mew=2, color="0.2", label="specified, width = 20")
    axes.set(xlabel="angle of incidence (degrees)", ylabel="reflection (dB)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    save(figure, "accuracy_absorbing.png")
    rows = [[w, *(f"{value:.1f}" for value in values)] for w, values in found.items()]
    point = say("point source", study_absorbing.point_source(program))
    lengths = (5, 10, 20, 50, 100, 200)
    waves = [[w, *(f"{say(f'wave of {a} points, width {w}', study_absorbing.plane_wave(program, 0, w, a)):.1f}" for a in lengths)]
             for w in widths]
    sigmas = (2, 5, 10, 20, 40, 80)
    pulses = [[w, *(f"{100 * say(f'pulse of {a} points, width {w}', study_absorbing.long_pulse(program, a, w)):.2g} %" for a in sigmas)]
              for w in widths]
    return (table(["width", *(f"{a} degrees" for a in angles)], rows)
            + f"\n\nPoint source, six layers of 20 points: {point:.1f} dB.\n\n![reflection](accuracy_absorbing.png)\n\n"
            + "Wavelengths at 0 degrees:\n\n" + table(["width", *(f"{a} points" for a in lengths)], waves)
            + "\n\nPulses of one sign, gaussians of a standard deviation sigma, 1D: the largest |u| that comes back, of the pulse.\n\n"
            + table(["width", *(f"sigma {a} points" for a in sigmas)], pulses))


@section
def stability(program):
    rows = []
    at = (0, 1, 2, 5, 10, 20, 50)
    for initial, name, options in (("gaussian", "absorbing all round", {}), ("gaussian", "absorbing, free surface on top", {"surface": True}),
                                   ("random", "absorbing all round", {}), ("random", "likewise, density x 10", {"density": 10}),
                                   ("inside", "random but in layers, density x 10", {"density": 10}),
                                   ("inside", "likewise, and absorption", {"density": 10, "loss": True})):
        largest = study_absorbing.decay(program, initial, steps=50000, **options)
        rows.append(say("stability", [initial, name, *(f"{largest[i]:.1e}" for i in at)]))
    return table(["start", "boundaries", *(f"step {1000 * i:,}" for i in at)], rows)


def replace(name, text):
    for path in DOCS.glob("*.md"):
        before = path.read_text()
        after, count = re.subn(f"(<!-- measured: {name} -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{text}\n{m[2]}", before, flags=re.DOTALL)
        if count == 1:
            path.write_text(after)
            return
    sys.exit(f"{DOCS}: no page has a section {name}")


def main():
    if len(sys.argv) < 3 or not {*sys.argv[3:]} <= {*SECTIONS}:
        sys.exit(f"usage: accuracy_report.py STENCIL MPIEXEC [SECTION ...]; sections: {' '.join(SECTIONS)}")
    program = Program(*sys.argv[1:3])
    try:
        for name in sys.argv[3:] or SECTIONS:
            replace(name, SECTIONS[name](program))
            program.fresh()
    finally:
        program.close()


if __name__ == "__main__":
    main()
