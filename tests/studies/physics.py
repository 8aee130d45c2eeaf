#!/usr/bin/env python3
"""Is the physics right? The program against exact solutions and itself.   physics.py CASE STENCIL MPIEXEC   |   --list

accuracy_report.py measures the same
at more points and writes docs/ACCURACY.md.
"""
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))  # harness
from harness import SOURCE, case, check, h5py, main, np, same_bits, write_field

if h5py is not None:
    import study_absorbing
    import study_oracle
    import study_ultrasound
    import study_waves
    from analytic import misfit, slope
    from study_convergence import FAMILIES, in_space, in_time

POINTS = {2: (8, 16), 4: (8, 16), 6: (8, 16), 8: (8, 12)}  # per wavelength; order 8: clear of rounding


def below(what, value, limit):
    print(f"{what}: {value:.3g} (limit {limit:g})")
    check(value < limit, f"{what}: {value:.3g} is not below {limit:g}")


def converges_in_space(program, equation):
    for family in FAMILIES:
        for order, points in POINTS.items():
            errors, predicted = zip(*(in_space(program, equation, family, order, p) for p in points))
            found = slope(points, errors)
            listed = ", ".join(f"{e:.2e}" for e in errors)
            said = f"{equation} {family} order {order}: slope {found:.2f}, errors {listed}"
            print(said)
            check(abs(found - order) <= 0.3, said)
            check(np.allclose(errors, predicted, rtol=0.1, atol=2e-6), f"{said}: the grid's dispersion says {predicted}")


@case
def space_wave(program):
    """Standing sines and cosines, an oblique plane wave, anisotropic spacing: the error falls with the space order."""
    converges_in_space(program, "wave")


@case
def space_heat(program):
    """The same for decaying modes."""
    converges_in_space(program, "heat")


@case
def time(program):
    """Second order for the wave, also from a start at rest and from a given step before; first order for heat."""
    for equation, order in (("wave", 2), ("heat", 1)):
        for family in FAMILIES:
            errors = [in_time(program, equation, family, 8, halvings) for halvings in (0, 2)]
            found = slope([1, 4], errors)
            said = f"{equation} {family}: slope {found:.2f} in dt, errors {', '.join(f'{e:.2e}' for e in errors)}"
            print(said)
            check(abs(found - order) <= 0.1, said)


@case
def source(program):
    """A point source on and off the grid against s(t - r/v) / (4 pi r), 10 points per wavelength of f0."""
    near, exact = study_waves.homogeneous(program, 10, 0.25)
    below("misfit on the grid", exact, 0.01)
    check(near == exact, "on the grid, the two expectations of this test differ")
    between = (0.5, 0.25, 0.7), (0.3, 0.2, 0.6)
    near, exact = study_waves.homogeneous(program, 10, 0.25, *between, how="linear")
    below("misfit off the grid, trilinear spreading accounted for", near, 0.01)
    check(exact > 0.1, f"linear, off the grid, to the point itself: {exact}")
    for ranks in (0, 3):
        _, exact = study_waves.homogeneous(program, 10, 0.25, *between, np_=ranks)
        below(f"sinc, off the grid, {max(ranks, 1)} ranks: misfit to the point itself", exact, 0.01)


@case
def dispersion(program):
    """The dispersion of the time step is removed from traces: over 100 wavelengths in 1D, and from a field at rest.
    Where that is impossible it is kept, and the log says why."""
    for points, every, limit in ((10, 1, 2e-3), (10, 2, 2e-3), (25, 1, 5e-4)):
        found, traces, said, _ = study_waves.far(program, points, every)
        below(f"{points} points per wavelength, every {every}: error of time", found, limit)
        kept, _, says, _ = study_waves.far(program, points, every, time__dispersion="kept")
        check(kept > 0.5 and (said, says) == ("removed", "kept"), f"kept: {kept}, {said}, {says}")
        for ranks in (2, 3):
            check(same_bits(study_waves.far(program, points, every, ranks)[1], traces), f"other bits on {ranks} ranks")
    below("an initial field at rest", study_waves.rest(program, "removed"), 2e-5)
    check(study_waves.rest(program, "kept") > 0.01, "an initial field at rest: nothing to remove")
    for why, changes in (("[receivers] every = 4 is too rare: 2 would do", {"receivers__every": 4}),
                         ("there are sources and an initial field", {"initial__u": "gaussian"}),
                         ("[time] dispersion = kept", {"time__dispersion": "kept", "checkpoint__every_steps": 1000})):
        found, traces, said, _ = study_waves.far(program, 10, 1, **changes)
        check(found > 0.5 and said == "kept", f"{why}: {found}, {said}")
        out = program.run("run.ini").out
        check(why in out, f"the log does not say: {why}: {out}")
    (program.folder / "run.ini").write_text((program.folder / "run.ini").read_text().replace("kept", "removed"))
    point = min(program.folder.glob("out/*.00001000.h5"))
    check("the run before has kept it" in program.succeed("--restart", point, "run.ini").out, "a run that continues one")
    with h5py.File(program.folder / "out/u.receivers.h5", "r") as file:
        check(same_bits(file["u"][...], traces.astype(np.float32)), "a run that continues one: other traces")


@case
def bowl(program):
    """Elements between points: the focus of 400 at 5 points per wavelength; of bowls and pistons at 6, beside theory."""
    for how, least, most in (("sinc", 0.99, 1.01), ("linear", 0.5, 0.93)):
        found = study_waves.bowl(program, how)
        print(f"{how}: {100 * (found - 1):+.2f} % of the focus")
        check(least <= found <= most, f"{how}: {found} of the focus, not {least} to {most}")
    for options, limit in (({}, 0.005), ({"tone": True}, 0.005), ({"curvature": None, "wall": True}, 0.015)):
        focus, axis, _ = study_ultrasound.radiated(program, 6, **options)
        below(f"ultrasound {options}: error of the greatest amplitude on the axis", abs(focus), limit)
        below("rms error along the axis", axis, 0.025)


def same_traces(program, keys, positions, np_=0):
    program.succeed("-q", program.config({**keys, "receivers.positions": positions}), np=np_)
    with h5py.File(program.folder / "out/u.receivers.h5", "r") as file:
        return file["u"][...], file["source_position"][...]


@case
def signals(program):
    """Sources from datasets equal those of as many sections: the same bits on any number of ranks, with times, after a
    restart. The field equals imposed values."""
    shape, steps, count, dt = (28, 20, 24), 60, 40, 0.0015
    random, t = np.random.default_rng(1), np.arange(60) * 0.0015
    places, wave = random.random((count, 3)) * [230, 199, 270], lambda t: np.stack(
        [np.exp(-((t - .03) * 60 * (1 + i / count))**2) * np.sin(200 * t + i) for i in range(count)], 1)
    keys = study_waves.wave_keys(shape, time__steps=steps, time__dt=dt, time__dispersion="kept", boundary__all="dirichlet",
                                 boundary__y="periodic")
    both = {**keys, **study_waves.listed(program, places, wave(t), name="all")}
    with h5py.File(program.folder / "all.h5", "a") as file:
        file["r"], file["on"], file["g/time"], file["g/s"] = random.random((17, 3)) * [230, 190, 270], np.round(
            places, -1), np.linspace(0, .09, 200), wave(np.linspace(0, .09, 200))
        file["long"], file["one"], file["few"] = np.vstack([wave(t), np.ones((5, count))]), wave(t)[:, :1], wave(t)[1:]
    expected, listed_at = same_traces(program, both, "all.h5:/r")
    check((listed_at == places).all() and np.abs(expected).max() > 1, "/source_position, or no waves")
    for ranks in (2, 3, 4):
        check((same_traces(program, both, "all.h5:/r", ranks)[0] == expected).all(), f"other bits on {ranks} ranks")
    named = dict(keys)
    for i, place in enumerate(places):
        write_field(program.folder / f"w{i}.h5", wave(t)[:, i], "w")
        named.update({f"source.{i + 1}.position": " ".join(map(repr, map(float, place))), f"source.{i + 1}.wavelet": f"w{i}.h5:/w"})
    half = study_waves.listed(program, places[7:], wave(t)[:, 7:], name="half")
    for what, other in (("as many sections", named), ("more rows", {**both, "sources.signals": "all.h5:/long"}),
                        ("some of both", {**{k: x for k, x in named.items() if not k.startswith("source.") or
                                             int(k.split(".")[1]) <= 7}, **half})):
        check((same_traces(program, other, "all.h5:/r")[0] == expected).all(), f"{what}: other bits")
    found, _ = same_traces(program, {**both, "sources.signals": "all.h5:/g/s"}, "all.h5:/r")
    below("signals with times", misfit(found, expected), 1e-5)
    first = {**both, "sources.signals": "all.h5:/one"}
    last = {**keys, **study_waves.listed(program, places, np.repeat(wave(t)[:, :1], count, 1), name="same")}
    check((same_traces(program, first, "all.h5:/r")[0] == same_traces(program, last, "all.h5:/r")[0]).all(), "one for all")
    found, _ = same_traces(program, {**both, "sources.strength": "volume"}, "all.h5:/r")
    below("strength = volume, times dx dy dz", misfit(1000 * found.astype(float), expected), 1e-6)
    restarted(program, both, expected)
    exact_signals(program, both, named, expected)
    imposed(program, {**both, "sources.mode": "impose"}, places, wave(t))
    program.fail(2, ["few: expected at least 60 rows"], "-q", program.config({**both, "sources.signals": "all.h5:/few"}))


def exact_signals(program, both, named, kept):
    """Dispersion removed: the oracle's transforms over the signals' own lengths; the same bits of sections, on ranks, after a
    restart, and at the steps that runs of any length share, of signals however long."""
    removed = {"time.dispersion": "removed"}
    expected, _ = same_traces(program, {**both, **removed}, "all.h5:/r")
    check(misfit(expected, kept) > 0.01 and "dispersion removed" in program.succeed("run.ini").out, "nothing is removed")
    with h5py.File(program.folder / "all.h5", "a") as file:
        wave, file["endless"] = file["long"][...], np.random.default_rng(2).standard_normal((12000, 3)).cumsum(0).repeat(14, 1)[:, :40]
        steps = both["time.steps"] + study_oracle.oracle.extra_steps(both["time.steps"])
        for name, own in (("warped", file["s"][...]), ("longer", wave)):
            file[name] = np.pad(study_oracle.oracle.warp(own, kind="source"), ((0, max(0, steps - len(own))), (0, 0)))
    for name, own in (("warped", "s"), ("longer", "long")):
        found, _ = same_traces(program, {**both, **removed, "sources.signals": f"all.h5:/{own}"}, "all.h5:/r")
        raw, _ = same_traces(program, {**both, "sources.signals": f"all.h5:/{name}", "time.steps": steps}, "all.h5:/r")
        below(f"{own}: misfit of the traces to the oracle's", misfit(found, study_oracle.oracle.warp(raw.astype(float))[:len(found)]), 1e-6)
    for ranks in (2, 3):
        check((same_traces(program, {**both, **removed}, "all.h5:/r", ranks)[0] == expected).all(), f"removed, {ranks} ranks: other bits")
    check((same_traces(program, {**named, **removed}, "all.h5:/r")[0] == expected).all(), "removed, sections: other bits")
    with h5py.File(program.folder / "all.h5", "a") as file:
        file["alike"] = file["s"][...][:, np.arange(40) % 3]
    sections = {k: f"w{(int(k.split('.')[1]) - 1) % 3}.h5:/w" if k.endswith(".wavelet") else x for k, x in named.items()}
    alike = [same_traces(program, {**keys, **removed}, "all.h5:/r")[0] for keys in (sections, {**both, "sources.signals": "all.h5:/alike"})]
    check((alike[0] == alike[1]).all() and (alike[0] != expected).any(), "removed, equal columns: other bits than of sections")
    restarted(program, {**both, **removed}, expected)
    for signals, steps in (("g/s", (40, 90)), ("endless", (1000, 1100))):
        fields = []
        for count in steps:
            same_traces(program, {**both, **removed, "sources.signals": f"all.h5:/{signals}", "time.steps": count,
                                  "output.every": steps[0]}, "all.h5:/r")
            fields.append(program.field(steps[0]))
        check(same_bits(*fields) and np.abs(fields[0]).max() > 0, f"{signals}: other bits in a run of other steps")


def restarted(program, keys, expected):
    """From step 30, where only the rows of signals to come may differ; with linear, or other rows, it is refused."""
    keys = {**keys, "receivers.positions": "all.h5:/r", "checkpoint.every_steps": 30, "checkpoint.keep": 9}
    program.succeed("-q", program.config({**keys, "time.steps": 30}))
    point = "out/u.checkpoint.00000030.h5"
    program.succeed("-q", "--restart", point, program.config(keys), np=3)
    with h5py.File(program.folder / "out/u.receivers.h5", "r") as file:
        check((file["u"][...] == expected).all(), "other bits after a restart")
    for name, change in (("[sources] interpolation", {"sources.interpolation": "linear"}),
                         ("[receivers] interpolation", {"receivers.interpolation": "linear"}),
                         ("[sources] signals", {"sources.signals": "all.h5:/one"})):
        program.fail(2, [f"another run: {name}"], "-q", "--restart", point, program.config({**keys, **change}))


def imposed(program, keys, places, wave):
    """At step n the field is row n, at the nearest points, also where y wraps; none is 0 on the held faces."""
    found, _ = same_traces(program, keys, "all.h5:/on")
    free = ((np.round(places[:, ::2], -1) > 0) & (np.round(places[:, ::2], -1) < [230, 270])).all(1)
    check((found[:60, free] == wave.astype(np.float32)[:, free]).all() and free.sum() > 20, "imposed values")
    check((found[:, ~free] == 0).all() and (found[60, free] != 0).any(), "held faces, and what is free after the rows")
    for ranks in (2, 4):
        check((same_traces(program, keys, "all.h5:/on", ranks)[0] == found).all(), f"imposed: other bits on {ranks} ranks")
    twice = study_waves.listed(program, np.vstack([places, places[3] + 0.1]), wave[:, :1], "impose", "twice")
    program.fail(2, ["rows 3 and 40"], "-q", program.config({**keys, **twice}))


@case
def density_step(program):
    """A step of density, or velocity, half-way between points, 10 points per wavelength, reflects as it should where cells are
    averaged, and worse where they are not."""
    for ratio, velocity, limit in ((0.5, 1, 0.012), (2, 1, 0.012), (5, 1, 0.012), (10, 1, 0.03), (2, 1.5, 0.005), (1, 1.5, 0.006)):
        found = study_waves.density_step(program, ratio, velocity=velocity)
        below(f"density x {ratio}, velocity x {velocity}: error of R", found, limit)
        off = study_waves.density_step(program, ratio, "off", velocity=velocity)
        check(off > 1.5 * found, f"without averaging {off:.3f}, with {found:.3f}")
    below("a layer of 2 points", study_waves.density_step(program, 2, thickness=2), 0.006)
    below("1/4 behind a point, averages over cells", study_waves.density_step(program, 2, "off", place=0.25, averages=True), 0.11)
    check(study_waves.density_step(program, 2, "off", place=0.25) > 0.3, "1/4 behind a point, values at points")
    bone = [abs(study_ultrasound.layered(program, 6, 0.5, (4e-3, 1.5e-3, 3.5e-3, 1.5e-3), False, how)).max() for how in ("on", "off")]
    check(bone[0] < 0.015 < 0.05 < bone[1], f"behind layers of bone: errors {bone} with averaging on and off")


@case
def lower_dimensions(program):
    """2D and 1D runs, on one rank and on three, against their Green's functions; jacobi's missing axis."""
    for axes in (2, 1):
        for ranks in (0, 3):
            below(f"{axes}D on {max(ranks, 1)} ranks: misfit", study_waves.lower(program, axes, 10, 0.25, ranks), 0.01)
    field = np.random.default_rng(5).uniform(-1, 1, (9, 1, 12)).astype(np.float32)
    write_field(program.folder / "one.h5", field)
    write_field(program.folder / "four.h5", field.repeat(4, axis=1))
    found = []
    for name, ny in (("one", 1), ("four", 4)):  # equal planes, periodic along y, are what an axis of one point stands for
        program.succeed("-q", program.config({"grid.nx": 12, "grid.ny": ny, "grid.nz": 9, "initial.u": f"{name}.h5:/u",
                        "boundary.value": 0.7, "jacobi.y": "0.05 -0.02 0.03 0.01", "time.steps": 5,
                        "boundary.y": "periodic" if ny > 1 else None}))
        found.append(program.field(5)[:, 0])
    below("jacobi, an axis of one point against four equal planes", np.abs(found[0] - found[1]).max(), 1e-6)


@case
def around(program):
    """Positions on periodic axes count modulo the period."""
    for what, value in zip(("traces", "fields"), study_waves.around(program)):
        below(f"a shot moved across the faces: {what}", value, 1e-6)


@case
def mirrors(program):
    """A free surface (dirichlet) and a rigid wall (neumann) are image sources; on the wall, sources are their own."""
    for boundary in ("dirichlet", "neumann"):
        exact, twice = study_waves.mirror(program, boundary)
        below(f"{boundary}: misfit to source and image", exact, 0.01)
        below(f"{boundary}: misfit to twice the domain with two sources", twice, 2e-5)
    for depth in (0, 0.3, 1):
        _, twice = study_waves.mirror(program, "neumann", depth=depth)
        below(f"neumann, {depth} points below the wall: misfit to twice the domain with two sources", twice, 2e-5)


@case
def energy(program):
    """The discrete energy of a closed lossless box of rough velocities stays what it was for 10,000 steps."""
    for boundary in ("dirichlet", "neumann", "periodic"):
        _, values = study_waves.energy(program, boundary, 10000, 50)
        below(f"{boundary}: energy after 10,000 steps, relative change at most", np.abs(values - 1).max(), 1e-4)


@case
def mean(program):
    """Weights whose sum is 0 only up to rounding would move the mean by some 10 % here."""
    for boundary, spacing, order in (("periodic", 10, 8), ("periodic", (12.5, 12.5, 10), 8), ("periodic", (7, 5, 3), 4),
                                     ("neumann", 0.001, 8)):
        change = study_waves.mean_of_wave(program, boundary, spacing, order, 3000)
        below(f"{boundary}, {spacing} m, order {order}: mean after 3,000 steps, relative change", abs(change), 2e-3)


@case
def heat_content(program):
    """Heat in an insulated box stays what it was."""
    for field in (False, True):
        name = "a diffusivity field" if field else "one diffusivity"
        change = study_waves.heat_content(program, field, 2000)
        below(f"{name}: heat after 2,000 steps, relative change", abs(change), 1e-4)


@case
def reciprocity(program):
    """Source and receiver swapped give the same trace in a rough closed box, on and off the grid and at all faces."""
    below("largest misfit of 6 pairs", max(study_waves.reciprocity(program)), 1e-5)
    found = study_waves.reciprocity(program, study_waves.FACES, 400, study_waves.AT_FACES)
    below(f"largest misfit of {len(found)} pairs at faces of all kinds", max(found), 1e-5)


@case
def absorbing(program):
    """Reflection of 20 points of absorbing layer at 10 points per wavelength."""
    below("normal incidence (dB)", study_absorbing.plane_wave(program, 0), -60)
    below("60 degrees (dB)", study_absorbing.plane_wave(program, 60), -40)
    below("point source, all six faces (dB)", study_absorbing.point_source(program), -40)
    for width in (10, 20):
        for points, limit in ((width // 4, 0.01), (width, 0.01), (2 * width, 0.03)):
            below(f"pulse of one sign, sigma {points} points, width {width}", study_absorbing.long_pulse(program, points, width), limit)


@case
def stability(program):
    """Slow: layers all round, and below a free surface, for 20,000 steps in a rough model; also of density and absorption."""
    for surface in (False, True):
        largest = study_absorbing.decay(program, "gaussian", surface)
        print(f"free surface {surface}: " + " ".join(f"{value:.1e}" for value in largest))
        check(largest[0] > 0.5 and max(largest[1:]) < 1e-3 and max(largest[10:]) < 1e-6, f"it did not leave: {largest}")
    largest = study_absorbing.decay(program, "random", False)
    print("random: " + " ".join(f"{value:.1e}" for value in largest))
    check(max(largest[1:]) < 0.5 and max(largest[10:]) <= min(largest[1:4]), f"it grew: {largest}")
    for loss, flat in ((False, False), (True, False), (False, True), (True, True)):
        about = f"density, absorption {loss}, 2D {flat}"
        largest = study_absorbing.decay(program, "inside", density=10, loss=loss, flat=flat)
        print(f"{about}: " + " ".join(f"{value:.1e}" for value in largest))
        check(1e-3 < largest[1] < 0.8 and max(largest[10:]) < largest[1] / 5, f"{about}: it grew: {largest}")
    largest = study_absorbing.decay(program, "random", density=10)
    print("density, also in layers: " + " ".join(f"{value:.1e}" for value in largest))
    check(max(largest[1:]) < 0.6 and max(largest[10:]) < 0.1, f"density, also in layers: it grew: {largest}")


PLACES = {"source.1.position": "117 86 148", "source.1.wavelet": "ricker", "source.1.f0": 25,
          "source.2.position": "31.7 52.2 223.4", "source.2.wavelet": "gaussian", "source.2.f0": 30,
          "source.3.position": "31.7 52.2 110", "source.3.wavelet": "ricker", "source.3.f0": 20, "source.3.amplitude": -2,
          "receivers.line": "20.5 33 5 150 90.1 430 86"}
WAVE = {"equation.type": "wave", "medium.velocity": "model.h5:/vp", "initial.u": "in.h5:/u"}
PLANE = {"equation.type": "wave", "medium.velocity": 2000, "initial.u": "random", "grid.ny": 1, **PLACES}
SILENT = dict.fromkeys(PLACES)
SETTINGS = ({}, {"parallel.overlap": "off"}, {"device.kernel": "reference", "device.threads": 3})
MIXED = {"boundary.x": "periodic", "boundary.y_lo": "dirichlet", "boundary.y_hi": "neumann", "boundary.z_lo": "dirichlet",
         "boundary.z_hi": "absorbing", "boundary.width": 13}
BITS = {"fixed": {**WAVE, **PLACES, "boundary.all": "fixed", "boundary.value": 0.3},
        "dirichlet": {**WAVE, **PLACES, "boundary.all": "dirichlet"},
        "neumann": {**WAVE, **PLACES, "boundary.all": "neumann"},
        "periodic": {**WAVE, **PLACES, "boundary.all": "periodic", "equation.space_order": 6,
                     "source.2.position": "175.5 125.1 446", "receivers.line": "-20.5 33 5 350 190.1 860 86"},
        "2D": {**PLANE, **MIXED, "boundary.y_lo": None, "boundary.y_hi": None},
        "2D, periodic": {**PLANE, "boundary.all": "periodic", "source.2.position": "175.5 9 446"},
        "2D, heat": {**PLANE, "equation.type": "heat", "boundary.all": "neumann", "medium.velocity": None, **SILENT},
        "1D": {**PLANE, "grid.nx": 1, "boundary.z_lo": "neumann", "boundary.z_hi": "absorbing", "boundary.width": 13},
        "absorbing": {**WAVE, **PLACES, "boundary.all": "absorbing", "boundary.width": 5},
        "mixed": {**WAVE, **PLACES, **MIXED},
        "mixed, one velocity": {**WAVE, **PLACES, **MIXED, "medium.velocity": 2000, "equation.space_order": 4},
        "heat": {"equation.type": "heat", "medium.diffusivity": "model.h5:/vp", "initial.u": "in.h5:/u",
                 "boundary.x": "neumann", "boundary.y": "dirichlet", "boundary.z": "periodic"},
        "heat, one diffusivity": {"equation.type": "heat", "medium.diffusivity": 2, "initial.u": "in.h5:/u",
                                  "boundary.z_lo": "neumann", "boundary.z_hi": "dirichlet", "boundary.y": "periodic"}}


@case
def bits(program):
    """The same bits on 1 to 4 ranks, overlap on and off, any kernel, for every boundary, with sources and receivers on
    and between the planes where slabs meet."""
    shape = (45, 13, 18)  # 23 + 22, 3 x 15, 12 + 3 x 11 planes
    write_field(program.folder / "model.h5", study_waves.rough_model(shape), "vp")
    write_field(program.folder / "in.h5", np.random.default_rng(8).uniform(-1, 1, shape).astype(np.float32))
    for number, (name, changes) in enumerate(BITS.items()):
        expected = run_for_bits(program, shape, changes, {"np": 0})
        # Every number of ranks and every setting for each, and every pair of the two for some.
        ways = [{"np": ranks, **SETTINGS[(number + ranks) % len(SETTINGS)]} for ranks in (2, 3, 4)]
        for way in ways:
            found = run_for_bits(program, shape, changes, way)
            for what, a, b in zip(("field", "traces"), found, expected):
                check(same_bits(a, b), f"{name}, {way}: the {what} differ at {np.argwhere(a != b)[:3].tolist()}")
        check(all(np.isfinite(a).all() and np.ptp(a) > 0 for a in expected), f"{name}: not a field to test with")
        print(f"{name}: {len(ways) + 1} ways agree")


def run_for_bits(program, shape, changes, way):
    """(final field, traces if there are any) after 60 steps."""
    keys = {**study_waves.wave_keys(shape), "medium.velocity": None, "boundary.all": None, "time.steps": 60, **changes}
    keys.update((k, v) for k, v in way.items() if k != "np")
    program.succeed("-q", program.config(keys), np=way["np"])
    if not keys.get("receivers.line"):
        return [program.field(60)]
    with h5py.File(program.folder / "out/u.receivers.h5", "r") as file:
        return [program.field(60), file["u"][...]]


ORACLE = ((8, {"faces": (("dirichlet", "absorbing"), ("absorbing",) * 2, ("absorbing", "neumann")), "width": 7, "at_rest": True}),
          (6, {"faces": (("neumann", "absorbing"), ("periodic",) * 2, ("fixed", "absorbing")), "value": 0.3}),
          (4, {"faces": (("absorbing", "dirichlet"), ("absorbing", "fixed"), ("neumann", "absorbing"))}),
          (2, {"faces": (("fixed", "neumann"), ("dirichlet", "absorbing"), ("periodic",) * 2), "value": -0.2}),
          # Sources on walls, at their edges and within a cell of them; between the last point and the first; 2D; 1D.
          (8, {"faces": (("neumann",) * 2, ("absorbing", "neumann"), ("neumann", "absorbing")),
               "sources": ((0, .5, .01), (.013, .4, .99), (1, 1, 0))}),
          (6, {"faces": (("neumann", "absorbing"), ("periodic",) * 2, ("periodic",) * 2), "sources": ((.4, 1.02, .3), (.5, .2, 1.03))}),
          (8, {"faces": (("neumann", "absorbing"), None, ("absorbing", "neumann")), "shape": (40, 1, 44), "sources": ((.4, .3, .52), (0, .1, 1))}),
          (4, {"faces": (("absorbing", "fixed"), None, ("periodic",) * 2), "shape": (40, 1, 44), "value": 0.1}),
          (8, {"faces": (("dirichlet", "absorbing"), None, None), "shape": (70, 1, 1)}),
          # Sources within 3 points of every kind of face, where some of the sinc's 8 points are beyond it; axes of 5 to 8
          # points; 2D; 1D. linear.
          (8, {"faces": (("dirichlet", "neumann"), ("fixed", "dirichlet"), ("neumann", "fixed")), "value": 0.2,
               "sources": ((.05, .06, .05), (.96, .97, .95), (.01, .98, .03), (.9, .02, .98))}),
          (8, {"faces": (("absorbing", "dirichlet"), ("periodic",) * 2, ("neumann", "absorbing")), "shape": (24, 7, 22),
               "sources": ((.1, .9, .02), (.97, .01, .9), (.93, 1.1, .08))}),
          (6, {"faces": (("neumann", "dirichlet"), ("dirichlet", "neumann"), ("fixed", "fixed")), "shape": (5, 6, 8),
               "sources": ((.4, .31, .52), (.1, .95, .96))}),
          (8, {"faces": (("dirichlet", "absorbing"), None, ("neumann", "dirichlet")), "shape": (40, 1, 44),
               "sources": ((.03, .3, .02), (.4, 1, .97))}),
          (8, {"faces": (("neumann", "dirichlet"), None, None), "shape": (70, 1, 1), "sources": ((.02, 0, 0), (.983, 0, 0))}),
          (4, {"faces": (("neumann", "absorbing"), ("periodic",) * 2, ("fixed", "absorbing")), "b": None, "value": 0.3}),
          # Density, absorption and both.
          (8, {"faces": (("dirichlet", "absorbing"), ("absorbing", "neumann"), ("absorbing",) * 2), "density": 5}),
          (4, {"faces": (("periodic",) * 2, ("neumann", "dirichlet"), ("fixed", "absorbing")), "density": 2, "averaging": "off",
               "loss": ("quality", 20, 2, 0)}),
          (8, {"faces": (("neumann", "absorbing"), ("periodic",) * 2, ("absorbing",) * 2), "loss": ("absorption", 30, 3, 1.1),
               "averaging": "on"}),
          (8, {"faces": (("absorbing", "neumann"), None, ("absorbing",) * 2), "shape": (40, 1, 44), "density": 8,
               "loss": ("absorption", 10, 1, 1.5)}),
          (6, {"faces": (("dirichlet", "absorbing"), None, None), "shape": (70, 1, 1), "density": 3, "loss": ("quality", 30, 3, 0)}))


@case
def oracle(program):
    """The oracle in numpy and float64: fields and traces are its own but for the rounding of float32."""
    for order, options in ORACLE:
        about = f"order {order}, " + " ".join("-".join(faces or ("none",)) for faces in options["faces"])
        field, traces = study_oracle.compare(program, order, **options)
        below(f"{about}: misfit of the field", field, 6e-6)
        below(f"{about}: misfit of the traces", traces, 6e-6)


def run_oracle(program, *options):
    result = program.finish([sys.executable, "-B", SOURCE / "tests/studies/oracle.py", *options], timeout=600,
                            env={"OPENBLAS_NUM_THREADS": "1"})  # its threads wait busily: slow beside other tests
    check(result.code == 0, str(result))
    print(result.out)


D, N, P, F, A = ("dirichlet",) * 2, ("neumann",) * 2, ("periodic",) * 2, ("fixed",) * 2, ("absorbing",) * 2
GRADIENTS = (
    # Every face, layer and order, positions off the grid, rare samples, 2D, 1D.
    (8, {"faces": (("dirichlet", "absorbing"), A, ("absorbing", "neumann")), "width": 7, "also": ("initial", "signals"), "at_rest": True}),
    (6, {"faces": (("neumann", "absorbing"), P, ("fixed", "absorbing")), "value": 0.3, "every": 3, "also": ("initial", "signals")}),
    (2, {"faces": (("fixed", "neumann"), ("dirichlet", "absorbing"), P), "value": -0.2, "every": 5}),
    (8, {"faces": (("absorbing", "dirichlet"), P, ("neumann", "absorbing")), "shape": (24, 7, 22), "every": 2,
         "sources": ((.1, .9, .02), (.97, .01, .9), (.93, 1.1, .08)), "also": ("signals",)}),
    (8, {"faces": (A, A, ("absorbing", "neumann")), "width": 8, "shape": (24, 22, 10)}),
    (8, {"faces": (("dirichlet", "absorbing"), None, ("neumann", "dirichlet")), "shape": (40, 1, 44), "b": None, "also": ("initial",)}),
    # Dispersion removed.
    (4, {"faces": (("absorbing", "dirichlet"), ("absorbing", "fixed"), ("neumann", "absorbing")), "at_rest": True, "removed": True,
         "also": ("signals",)}),
    (8, {"faces": (("dirichlet", "absorbing"), None, None), "shape": (70, 1, 1), "at_rest": True, "removed": True, "every": 2}),
    (6, {"faces": (A, ("dirichlet", "absorbing"), A), "at_rest": True, "removed": True, "rows": 170, "also": ("signals",)}),
    # Density, absorption, both, and averages alone.
    (8, {"faces": (("dirichlet", "absorbing"), ("absorbing", "neumann"), A), "density": 5, "also": ("initial",)}),
    (8, {"faces": (("neumann", "dirichlet"), P, ("absorbing", "fixed")), "density": 3, "averaging": "off", "also": ("initial",)}),
    (8, {"faces": (("neumann", "dirichlet"), ("absorbing", "neumann"), A), "averaging": "on"}),
    (4, {"faces": (P, ("neumann", "dirichlet"), ("fixed", "absorbing")), "density": 2, "loss": ("quality", 20, 2, 0), "also": ("initial",)}),
    (8, {"faces": (("neumann", "absorbing"), P, A), "loss": ("absorption", 30, 3, 1.1), "also": ("initial", "signals")}),
    (8, {"faces": (("absorbing", "neumann"), None, A), "at_rest": True, "shape": (40, 1, 44), "density": 8,
         "loss": ("absorption", 10, 1, 1.5), "every": 2, "removed": True}))


@case
def gradient(program):
    """The exact adjoint of the oracle, in float64, of a random function of the traces; with less memory and on ranks the same bits."""
    for order, options in GRADIENTS:
        about = f"order {order}, " + ", ".join(f"{key} {value}" for key, value in options.items() if key != "also")
        for name, value in study_oracle.compare_gradient(program, order, **options)[0].items():
            below(f"{about}: misfit of d/d{name}", value, 1e-5)
    options = {"faces": (("dirichlet", "absorbing"), A, ("absorbing", "neumann")), "at_rest": True, "density": 5, "loss": ("quality", 20, 2, 0)}
    _, whole = study_oracle.compare_gradient(program, 8, **options)
    for ranks, megabytes in (0, 11), (0, 16), (2, 8), (3, 7), (4, 100):
        program.succeed("-q", "run.ini", f"gradient.host_memory={megabytes}MB", np=ranks)
        with h5py.File(program.folder / "out/u.gradient.h5") as file:
            check(same_bits(file["velocity"][...].astype(np.float64).squeeze(), whole), f"{ranks} ranks, {megabytes} MB: other bits")


@case
def oracle_itself(program):
    """The formulas of the oracle, its planned physics too, do what tests/studies/oracle.md says."""
    run_oracle(program, "--short")


@case
def slow_oracle_itself(program):
    """All of them."""
    run_oracle(program)


@case
def examples(program):
    """The shipped examples run, and the tools draw what they saved."""
    def tool(name, *args):
        result = subprocess.run([sys.executable, SOURCE / f"jobs/{name}.py", *map(str, args)], cwd=program.folder,
                                capture_output=True, text=True)
        check(result.returncode == 0, f"{name}.py {args}: {result.stdout}{result.stderr}")
        return result.stdout

    config = SOURCE / "config"
    small = ["grid.nx=61", "grid.ny=31", "grid.nz=41", "output.path=out/u", "device.backend=host"]
    tool("make_model", "model.h5", 61, 31, 41, "--spacing", 12.5)
    program.succeed("-q", config / "heat.ini", *small, "time.steps=20", np=2)
    program.succeed("-q", config / "wave.ini", *small, "time.steps=40", "output.every=10", np=2)
    tool("plot", "animation", "out/u", "--out", "wave.gif")
    shot = [*small, *(f"grid.d{a}=12.5" for a in "xyz"), "time.end_time=0.4", "boundary.width=8",
            "medium.velocity=model.h5:/vp", "source.1.position=375 187.5 25",
            "receivers.line=25 187.5 12.5 725 187.5 12.5 57"]
    program.succeed("-q", config / "shot.ini", *shot, np=2)
    tool("plot", "gather", "out/u.receivers.h5", "--out", "gather.png")
    tool("make_model", "skull.h5", 65, 65, 101, "--spacing", 1e-3, "--skull")
    skull = ["grid.nx=65", "grid.ny=65", "grid.nz=101", *(f"grid.d{a}=1e-3" for a in "xyz"), "boundary.width=5", "time.end_time=8e-5"]
    program.succeed("-q", config / "skull.ini", *skull, "output.path=out/skull", "device.backend=host", np=2)
    tool("plot", "slice", "out/skull.maps.hdf:/max", "--model", "skull.h5:/vp", "--out", "skull.png")
    with h5py.File(program.folder / "out/skull.maps.hdf", "r") as file:
        behind = file["max"][58:90]
    check(behind.max() > 1e5 and np.abs(np.argwhere(behind == behind.max())[0][1:] - 32).max() <= 2, f"no focus on the axis: {behind.max()}")
    last = max(program.folder.glob("out/u.*.hdf"))
    tool("plot", last, "--axis", "y", "--out", "old.png")
    tool("plot", "slice", last, "--model", "model.h5:/vp", "--out", "slice.png")
    for name in ("wave.gif", "gather.png", "old.png", "slice.png", "skull.png"):
        content = (program.folder / name).read_bytes()
        check(content.startswith((b"GIF8", b"\x89PNG")) and len(content) > 5000, f"{name} is not a picture")


if __name__ == "__main__":
    main()
