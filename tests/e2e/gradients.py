#!/usr/bin/env python3
"""[gradient]: its bits, its files, its refusals. gradients.py CASE STENCIL MPIEXEC | gradients.py --list
"""
import json
import re
import signal
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import Running, case, check, h5py, main, np, same_bits, send

RUN = {"grid.nx": 22, "grid.ny": 20, "grid.nz": 24, "grid.dx": 10, "grid.dy": 10, "grid.dz": 10, "time.steps": 60,
       "equation.type": "wave", "initial.u": "zero", "time.dt": 1e-3, "medium.velocity": "in.h5:/v", "boundary.all": "absorbing",
       "boundary.width": 5, "boundary.z_lo": "dirichlet", "boundary.y": "neumann", "source.1.f0": 30,
       "source.1.position": "101 93 55", "receivers.line": "40 50 60 170 130 65 6", "receivers.every": 2,
       "output.path": "out/r", "output.final": "off", "gradient.observed": "out/true.receivers.h5:/u"}
SHOTS = [f"source.1.position='{x} 93 {z}' output.name={name}" for x, z, name in
         ((60, 55, "a"), (101, 75, "b"), (130, 95, "c"), (110, 85, "d"))]
OF_SHOTS = ["survey.shots=shots.txt", "gradient.observed=out/true/{name}.receivers.h5:/u", "output.path=out/line"]


def prepare(program, **changes):
    rng = np.random.default_rng(3)
    v = 1500 + 300 * rng.random((24, 20, 22))
    with h5py.File(program.folder / "in.h5", "w") as file:
        file["v"], file["true"] = v.astype("f4"), (v * (1 + 0.02 * rng.standard_normal(v.shape))).astype("f4")
    (program.folder / "shots.txt").write_text("\n".join(SHOTS) + "\n")
    config = program.config({**RUN, **changes})
    program.succeed("-q", config, "gradient.observed=", "medium.velocity=in.h5:/true", "output.path=out/true")
    return config


def gradient(program, name="velocity", path="out/r"):
    with h5py.File(program.folder / f"{path}.gradient.h5", "r") as file:
        return file[name][...]


@case
def bits(program):
    """The same bits for every number of ranks, mode of files, kernel and budget of memory."""
    config = prepare(program)
    program.succeed("-q", config, "gradient.image=on", "gradient.initial=on", "gradient.signals=on")
    names = "velocity", "initial", "image", "illumination", "signals", "misfit"
    expected = {name: gradient(program, name) for name in names}
    check(all(expected[name].any() for name in names), "a gradient is zero everywhere")
    for ranks, options in ((0, ["host_memory=2.6MB"]), (0, ["host_memory=2.1MB"]), (0, ["host_memory=1.6MB"]), (0, ["host_memory=900kB", "file_memory=4MB"]), (2, []), (3, ["host_memory=1.4MB"]),
                           (2, ["host_memory=2MB"]), (4, ["host_memory=1.2MB", "path=out/states"]), (3, ["parallel.io=server"]),
                           (2, ["parallel.io=gather"]), (0, ["device.kernel=reference"]), (0, ["device.threads=1", "host_memory=2.6MB"])):
        options = [o if o.startswith(("parallel", "device")) else f"gradient.{o}" for o in options]
        program.remove("out/r.*")
        result = program.succeed(config, *options, "gradient.image=on", "gradient.initial=on", "gradient.signals=on", np=ranks)
        check(("states every" in result.out) == any("memory" in o for o in options), f"{options}: {result.out}")
        check(("and within" in result.out) == (options == ["gradient.host_memory=1.6MB"]), f"{options}: {result.out}")
        for name in names:
            check(same_bits(gradient(program, name), expected[name]), f"{ranks} ranks, {options}: other bits in /{name}")
    check(not list((program.folder / "out").glob("*states*")), "a file of states is left")


@case
def slow_beyond_memory(program):
    """Traces and observations that do not fit into the memory of one rank, in a file that is read in parts: the bits of two."""
    with h5py.File(program.folder / "points.h5", "w") as file:
        file["p"] = np.random.default_rng(4).random((90000, 3)) * [210, 190, 230]
    config = prepare(program, **{"receivers.line": "", "receivers.positions": "points.h5:/p", "receivers.interpolation": "linear",
                                 "receivers.every": 1, "time.steps": 220})
    with h5py.File(program.folder / "out/true.receivers.h5", "a") as file:
        u = file["u"][...]
        del file["u"]
        file.create_dataset("u", data=u, chunks=(50, 30000), compression=1)
    said = program.succeed("-n", config).out
    check("on the disk of this rank" in said and "on the host of this rank" in program.succeed("-n", config, np=2).out, said)
    program.succeed("-q", config, np=2)
    expected = gradient(program), gradient(program, "misfit")
    program.succeed("-q", config)
    check(expected[0].any() and all(same_bits(a, b) for a, b in zip((gradient(program), gradient(program, "misfit")), expected)), "other bits")


@case
def maps(program):
    """[maps] with [gradient]: each as it is alone; the states that are kept for the adjoint have no maps."""
    config, more = prepare(program), ["maps.quantities=max rms", "maps.dft=30"]
    program.succeed("-q", config, *more, "gradient.observed=", "output.path=out/alone")
    for ranks, option in ((0, "gradient.host_memory=2.6MB"), (3, "parallel.io=server")):
        plain = program.succeed(config, option, np=ranks).out
        expected = gradient(program)
        printed = program.succeed(config, option, *more, np=ranks).out
        check(re.findall("gradient: a ring buffer.*", printed) == re.findall("gradient: a ring buffer.*", plain), f"{printed}")
        check(same_bits(gradient(program), expected) and "out/r.maps.hdf, out/r.gradient.h5" in printed, f"{ranks} ranks: {printed}")
        with h5py.File(program.folder / "out/r.maps.hdf") as a, h5py.File(program.folder / "out/alone.maps.hdf") as b:
            check(all(same_bits(a[name][...], b[name][...]) for name in ("max", "rms", "dft")) and b["max"][...].any(), f"{ranks} ranks: other maps")


@case
def differences(program):
    """Against the program's own misfit of changed velocities; dispersion removed and kept."""
    rng = np.random.default_rng(8)
    config = prepare(program)
    dv = np.zeros((24, 20, 22), "f4")
    dv[6:18, 6:14, 6:16] = rng.random((12, 8, 10)) * 2
    with h5py.File(program.folder / "in.h5", "a") as file:
        v = file["v"][...]
        file["more"], file["less"] = v + dv, v - dv
    for dispersion in "removed", "kept":
        J, option = {}, f"time.dispersion={dispersion}"
        program.succeed("-q", config, option, "gradient.observed=", "medium.velocity=in.h5:/true", "output.path=out/true")
        for name in "more", "less", "v":
            program.succeed("-q", config, option, f"medium.velocity=in.h5:/{name}")
            J[name] = gradient(program, "misfit")[0]
        slope, expected = (gradient(program).astype(float) * dv).sum(), (J["more"] - J["less"]) / 2
        check(abs(slope / expected - 1) < 1e-3, f"{dispersion}: {slope} is not {expected}")


@case
def adjoint_source(program):
    """dJ/d(trace) of the user's own: that of l2 gives the gradient of l2, without a misfit."""
    config = prepare(program)
    program.succeed("-q", config)
    expected = gradient(program)
    with h5py.File(program.folder / "out/r.receivers.h5") as d, h5py.File(program.folder / "out/true.receivers.h5") as o:
        residual = 2e-3 * (d["u"][...].astype(float) - o["u"][...])
    with h5py.File(program.folder / "in.h5", "a") as file:
        file["r"] = residual
    program.succeed("-q", config, "gradient.observed=", "gradient.adjoint_source=in.h5:/r")
    check(abs(gradient(program) - expected).max() < 1e-6 * abs(expected).max(), "another gradient")
    with h5py.File(program.folder / "out/r.gradient.h5") as file:
        check("misfit" not in file, "a misfit that nobody knows")


@case
def weights(program):
    """Weights, of samples or of traces, and NaN where no datum is: J and its gradient are those of the residual that they make, the
    same bits on ranks; --verify-gradient agrees. Layers of a given velocity do not change with the model."""
    rng = np.random.default_rng(9)
    config = prepare(program, **{"boundary.velocity": 1800})
    with h5py.File(program.folder / "out/true.receivers.h5") as file:
        o, each = file["u"][...], file["time"][1]
    w, one, gaps = rng.random(o.shape, "f4"), rng.random(o.shape[1], "f4"), rng.random(o.shape) < 0.2
    program.succeed("-q", config)
    with h5py.File(program.folder / "out/r.receivers.h5") as file:
        r = file["u"][...].astype(float) - o
    with h5py.File(program.folder / "out/true.receivers.h5", "r+") as file:
        file["nan"] = np.where(gaps, np.nan, o)
    with h5py.File(program.folder / "in.h5", "a") as file:
        file["w"], file["one"], file["short"], file["minus"], file["r"] = w, one, one[:-1], w - 0.5, w * ~gaps * r * each
    nan, asked = "gradient.observed=out/true.receivers.h5:/nan", {"w": "gradient.weights=in.h5:/w", "one": "gradient.weights=in.h5:/one"}
    for options, factor in (([asked["w"]], w), ([asked["one"]], one), ([nan, "gradient.missing=nan"], ~gaps), ([nan, "gradient.missing=nan", asked["w"]], w * ~gaps)):
        program.succeed("-q", config, *options)
        J, expected = gradient(program, "misfit")[0], 0.5 * each * (factor * r**2).sum()
        check(abs(J / expected - 1) < 1e-12, f"{options}: J {J} is not {expected}")
    found = gradient(program)
    program.succeed("-q", config, *options, np=3)
    check(same_bits(gradient(program), found) and gradient(program, "misfit")[0] == J, "other bits on 3 ranks")
    program.succeed("-q", config, "gradient.observed=", "gradient.adjoint_source=in.h5:/r")
    check(found.any() and abs(gradient(program) - found).max() < 1e-6 * abs(found).max(), "not the gradient of the weighted residual")
    printed = program.succeed("--verify-gradient", config, *options).out
    check("slope 2 +- 0.05: yes" in printed and printed.count(": yes") == 2, printed)
    (program.folder / "shots.txt").write_text("output.name=w\n")
    program.succeed("-q", config, *options[:2], "survey.shots=shots.txt", "gradient.weights=in.h5:/{name}", "output.path=out/line")
    check(same_bits(gradient(program, path="out/line/w"), found), "another gradient of weights named after a shot")
    for words, *options in (("/short: expected this run's 6 receivers, found 5", "gradient.weights=in.h5:/short"),
                            ("/minus: a weight below 0 or beyond float32 in row 0", "gradient.weights=in.h5:/minus"),
                            ("/v: expected shape (n,) or (n, 6)", "gradient.weights=in.h5:/v"), ("/nan: NaN in row", nan)):
        program.fail(2, [words], "-n", config, *options)
    program.fail(2, [words], "-q", config, *options, np=2)
    given = ["gradient.observed=", "gradient.adjoint_source=in.h5:/r"]
    program.fail(1, ["[gradient] weights: only with observed"], config, *given, asked["w"])
    program.fail(1, ["[gradient] missing: only with observed"], config, *given, "gradient.missing=nan")
    program.fail(1, ["[gradient] weights: only with {name} in a survey"], config, "gradient.weights=in.h5:/{name}")


def fold(gradient, pads):
    """Adds what lies outside to the edge."""
    total = gradient.astype(float)
    for axis, (lo, hi) in enumerate(pads):
        total = np.moveaxis(total, axis, 0)
        inner = total[lo:len(total) - hi].copy()
        inner[0] += total[:lo].sum(0)
        inner[-1] += total[len(total) - hi:].sum(0)
        total = np.moveaxis(inner, 0, axis)
    return total


@case
def outside(program):
    """Layers outside: the bits of a run on a model that is padded by hand, cut to the grid; gradients of media are added to the edge."""
    rng = np.random.default_rng(12)
    flat = {key: value for key, value in {**RUN, **SECTION, "grid.nx": 24}.items() if key != "boundary.y"}
    flat.update({"receivers.line": "0 0 35 230 0 310 9", "source.1.position": "103 0 90"})
    terms = {"medium.density": "in.h5:/rho", "medium.quality": "in.h5:/q", "medium.reference_frequency": 30, "medium.absorption_band": "10 60"}
    whole = {**RUN, "boundary.x_hi": "neumann", "boundary.y_lo": "absorbing", "time.steps": 40, "medium.velocity": "in.h5:/v"}
    for about, keys, pads in (("2D", {**flat, **terms, "medium.velocity": "in.h5:/v", "boundary.z_lo": "absorbing"}, ((5, 5), (0, 0), (5, 5))),
                              ("3D", whole, ((0, 5), (5, 0), (5, 0)))):
        shape = tuple(keys[f"grid.{n}"] for n in ("nz", "ny", "nx"))
        with h5py.File(program.folder / "in.h5", "w") as file:
            for name, least, most in (("v", 1500, 2000), ("rho", 1000, 2500), ("q", 30, 90), ("true", 1500, 2000), ("u", -1, 1)):
                file[name] = rng.uniform(least, most, shape).astype("f4")
                file["padded_" + name] = np.pad(file[name][...], pads, *([] if name == "u" else ["edge"]))
        config = program.config({**keys, "initial.u": "in.h5:/u", "output.final": "on", "output.every": 20, "maps.quantities": "max", "maps.dft": 20,
                                 "boundary.velocity": 2000, "time.dt": 1e-3})
        padded = [f"grid.{n}={size + sum(pad)}" for n, size, pad in zip(("nz", "ny", "nx"), shape, pads)]
        padded += [f"{key}={str(value).replace('/', '/padded_')}" for key, value in keys.items() if str(value).startswith("in.h5")]
        padded += ["grid.origin=%d %d %d" % tuple(-10 * pad[0] for pad in pads[::-1]), "initial.u=in.h5:/padded_u"]
        more = ["gradient.image=on", "gradient.initial=on", "gradient.signals=on", "medium.velocity=in.h5:/v"]
        true = ["-q", config, "gradient.observed=", "output.path=out/true"]
        program.succeed(*true, *padded, "medium.velocity=in.h5:/padded_true")
        program.succeed("-q", config, *more, *padded, "medium.velocity=in.h5:/padded_v")
        cut = tuple(slice(lo, lo + size) for (lo, _), size in zip(pads, shape))
        names = ["r.receivers.h5:u", "r.gradient.h5:signals", *(f"r.{file}:{name}" for file, name in (("00000020.hdf", "u"), (f"{keys['time.steps']:08d}.hdf", "u"),
                 ("maps.hdf", "max"), ("maps.hdf", "dft"), ("gradient.h5", "image"), ("gradient.h5", "initial"), ("gradient.h5", "velocity")))]
        def read():
            found = {}
            for name in names:
                with h5py.File(program.folder / "out" / name.split(":")[0]) as file:
                    found[name] = file[name.split(":")[1]][...]
            return found
        expected = read()
        for np_ in 0, 3:
            program.remove("out/*.*")
            program.succeed(*true, "boundary.outside=on", "medium.velocity=in.h5:/true")
            printed = program.succeed(config, *more, "boundary.outside=on", np=np_).out
            check("points, with the layers outside " + " x ".join(str(size + sum(pad)) for size, pad in zip(shape[::-1], pads[::-1])) in printed, printed)
            for name, values in read().items():
                right = expected[name] if expected[name].ndim == 2 else expected[name][(slice(None),) * (expected[name].ndim == 5) + cut]
                if name.endswith("velocity"):
                    right = fold(expected[name], pads)
                    check(values.shape == shape and abs(values - right).max() < 1e-6 * abs(right).max() > 0, f"{about}, {np_} ranks: /velocity is off by {abs(values - right).max() / abs(right).max()}")
                else:
                    check(same_bits(values, right) and right.any(), f"{about}, {np_} ranks: other bits in {name}")
    steps = ["gradient.observed=", "boundary.outside=on", "checkpoint.every_steps=20"]
    program.succeed("-q", config, *steps, np=2)
    with h5py.File(program.folder / "out/r.00000040.hdf") as file:
        u = file["u"][...]
    program.remove("out/r.00000040*", "out/*.00000040.h5")
    program.succeed("-q", "-r", "auto", config, *steps, np=3)
    with h5py.File(program.folder / "out/r.00000040.hdf") as file:
        check(same_bits(file["u"][...], u), "another field after a restart on other ranks")
    for words, *options in (("[boundary] x_lo", "boundary.outside=off"), ("[boundary] velocity", "boundary.velocity=2100")):
        program.fail(2, [f"a checkpoint of another run: {words}"], "-q", "-r", "out/r.checkpoint.00000020.h5", config, *steps, *options)
    program.fail(1, ["[source.1] position: -5 93 55 is outside the grid, where x is from 0 to 210"], config, *steps, "source.1.position=-5 93 55")


@case
def flat(program):
    """A 2D gradient keeps a row of each plane, and has the same bits for every budget, and with or without an image."""
    steps, (nz, nx), name = 400, (90, 110), "velocity"
    section = {"grid.nx": nx, "grid.ny": 1, "grid.nz": nz, "time.steps": steps, "medium.velocity": "2d.h5:/v", "source.1.position": "101 0 55",
               "receivers.line": "40 0 60 170 0 65 6", "device.backend": "host"}
    v = np.random.default_rng(4).uniform(1500, 2000, (nz, 1, nx)).astype("f4")
    with h5py.File(program.folder / "2d.h5", "w") as file:
        file["v"], file["true"] = v, v * 1.02
    config = program.config({key: value for key, value in {**RUN, **section}.items() if key != "boundary.y"})
    program.succeed("-q", config, "gradient.observed=", "medium.velocity=2d.h5:/true", "output.path=out/true")
    log = program.succeed(config, "gradient.image=on").out
    expected, (ring, mib) = gradient(program), re.search(r"a ring buffer of (\d+) of .*\ngradient: ([0-9.]+) MiB", log).groups()
    check(float(mib) * 2**20 < 1.5 * int(ring) * nx * nz * 4 and expected.any(), log)
    for ranks, option in ((0, "gradient.image=off"), (0, "gradient.host_memory=12MB"), (0, "gradient.host_memory=7MB"), (3, "gradient.host_memory=4MB")):
        result = program.succeed(config, option, np=ranks)
        check(("states every" in result.out) == ("memory" in option), f"{option}: {result.out}")
        check(same_bits(gradient(program, name), expected), f"{ranks} ranks, {option}: other bits")


@case
def sizes(program):
    """The gradient is linear in the residual and scales with the field, however small the one and large the other is.
    What float32 cannot hold is refused; 0 is not."""
    config, names = prepare(program), ("velocity", "initial", "image", "signals")
    program.succeed("-q", config)
    with h5py.File(program.folder / "out/r.receivers.h5") as d, h5py.File(program.folder / "out/true.receivers.h5") as o:
        residual = (2e-3 * (d["u"][...].astype(float) - o["u"][...])).astype("f4").astype(float)
    expected = {}
    more = ["gradient.observed=", "gradient.adjoint_source=in.h5:/r"]
    for field, of in (0, 0), (50, -100), (50, -110), (-50, 90):
        asked = [name for name in names if of > -50 or name in ("velocity", "image")]  # the others do not go with the field
        with h5py.File(program.folder / "in.h5", "a") as file:
            file.pop("r", None)
            file["r"] = np.ldexp(residual, of)
        program.succeed("-q", config, *more, *(f"gradient.{name}=on" for name in asked if name != "velocity"), f"source.1.amplitude={2.0**field!r}", np=2 if field < 0 else 0)
        for name in asked:
            values = np.ldexp(gradient(program, name).astype(float), -of - field * (name in ("velocity", "image")))
            right = expected.setdefault(name, values)
            check(right.any() and abs(values - right).max() < 2e-7 * abs(right).max(), f"2^{field} 2^{of}: /{name}")
    program.remove("out/r.*")
    for ranks in 0, 3:
        program.succeed("-q", config, "gradient.observed=", "medium.velocity=in.h5:/true", "source.1.amplitude=1e-16", "output.path=out/small")
        result = program.run("-q", config, "source.1.amplitude=1e-16", "gradient.observed=out/small.receivers.h5:/u",
                             f"parallel.io={'server' if ranks else 'auto'}", np=ranks)
        check(result.code == 3 and len(result.errors) == 1 and "/velocity is too small for float32: its greatest value is" in result.errors[0], f"{result}")
    check(not list(program.folder.glob("out/*gradient*")), "a gradient was left")
    program.succeed("-q", config, "medium.velocity=in.h5:/true")
    check(not gradient(program).any() and gradient(program, "misfit") == 0, "a gradient of no residual")


@case
def survey(program):
    """The sum over shots has the same bits for any groups, order and interruption; each shot has those of a single
    run."""
    config = prepare(program)
    program.succeed("-q", config, *OF_SHOTS[:1], "gradient.observed=", "medium.velocity=in.h5:/true", "output.path=out/true")
    program.succeed("-q", config, *OF_SHOTS)
    expected, misfit = gradient(program, path="out/line"), gradient(program, "misfit", "out/line")
    shots = {name: gradient(program, path=f"out/line/{name}") for name in "abcd"}
    check(abs(sum(shots[n].astype(float) for n in "abcd") - expected).max() <= 2e-7 * abs(expected).max(), "not the sum")
    check(misfit.all() and len(misfit) == 4, f"misfits {misfit}")
    with h5py.File(program.folder / "out/line.gradient.h5") as file:
        (program.folder / "again.ini").write_text(file.attrs["config"])
    program.succeed("-q", "again.ini", "output.path=out/again", "--report", "report.json")
    check(same_bits(gradient(program, path="out/again"), expected), "the sum's configuration does not repeat the survey")
    report = json.loads((program.folder / "report.json").read_text())
    stepping = (1 - report["overhead_fraction"]) * report["seconds"]
    check(stepping > report["gradient"]["back_seconds"] + report["gradient"]["again_seconds"], f"steps back are idle: {report}")
    program.fail(1, ["shots.txt:2: [gradient] observed: 'out/true/a.receivers.h5:/u' is that of line 1, too"], config, *OF_SHOTS,
                 "gradient.observed=out/true/a.receivers.h5:/u")
    (program.folder / "shots.txt").write_text("\n".join(SHOTS[:1] + [SHOTS[1].replace("=b", "=c")]) + "\n")
    result = program.run(config, *OF_SHOTS, "output.path=out/lost")
    check(result.code == 2 and len(result.errors) == 1 and "this run's source at (x, y, z) = (101, 93, 75) m, found (130, 93, 95)" in result.errors[0], f"{result}")
    program.remove("out/lost/*")
    for ranks in 0, 2:
        program.fail(2, ["shots.txt:2: out/true/c.receivers.h5:/source_position: row 0"], "-n", config, *OF_SHOTS, "output.path=out/lost", np=ranks)
    program.succeed("-q", config, "source.1.position=101 93 75", "gradient.observed=out/true/b.receivers.h5:/u")
    check(same_bits(gradient(program), shots["b"]), "a shot has other bits than its run")
    (program.folder / "shots.txt").write_text("\n".join(SHOTS[::-1]) + "\n")
    for ranks, options in ((2, ["survey.ranks_per_shot=1"]), (4, ["survey.ranks_per_shot=2"]), (3, ["parallel.io=server"])):
        program.remove("out/line/*", "out/line.gradient.h5")
        program.succeed("-q", config, *OF_SHOTS, *options, np=ranks)
        check(same_bits(gradient(program, path="out/line"), expected), f"{ranks} ranks, {options}: another sum")
    program.remove("out/line/*", "out/line.gradient.h5")
    program.succeed("-q", config, *OF_SHOTS, "gradient.signals=on")
    signals = [gradient(program, "signals", f"out/line/{n}").astype(float) for n in "abcd"]
    check(abs(sum(signals) - gradient(program, "signals", "out/line")).max() <= 2e-7 * abs(sum(signals)).max() > 0, "not the sum of signals")
    program.remove("out/line/b.*")
    result = program.succeed(config, *OF_SHOTS, "gradient.signals=on")
    check("3 of 4 shots are done" in result.out and "survey to out/line.old1.gradient.h5" in result.out, f"{result}")
    check(same_bits(gradient(program, path="out/line.old1"), expected), "another sum was moved aside")
    check(same_bits(gradient(program, path="out/line"), expected), "another sum after shots were missing")
    program.remove("out/line.gradient.h5")
    for how in {"compression": 1}, {"dtype": "f8"}:
        with h5py.File(program.folder / "out/line/c.gradient.h5", "r+") as file:
            values = file["velocity"][...]
            del file["velocity"]
            file.create_dataset("velocity", data=values, **how)
        program.fail(2, ["out/line/c.gradient.h5:/velocity: cannot read (its values are not contiguous float32"], "-q", config, *OF_SHOTS,
                     "gradient.signals=on")
        check(not (program.folder / "out/line.gradient.h5").exists(), "a sum of values stored otherwise")
    program.remove("out/line/c.*")
    program.succeed("-q", config, *OF_SHOTS, "gradient.signals=on")
    check(same_bits(gradient(program, path="out/line"), expected), "another sum once a shot was done again")
    for name in "bd":
        with h5py.File(program.folder / f"out/line/{name}.gradient.h5", "r+") as file:
            file["velocity"][12, 9, 11] = 3e38
    program.remove("out/line.gradient.h5")
    result = program.run("-q", config, *OF_SHOTS, "gradient.signals=on")
    check(result.code == 3 and "gradient's /velocity is not finite: Inf at (z, y, x) = (12, 9, 11)" in result.err, f"{result}")
    check(not (program.folder / "out/line.gradient.h5").exists(), "a sum that overflows")
    before = len(list((program.folder / "out").rglob("*.old*")))
    program.succeed("-q", config, *OF_SHOTS, "medium.velocity=in.h5:/true", "output.replace=on")
    check(not gradient(program, path="out/line").any() and len(list((program.folder / "out").rglob("*.old*"))) == before, "not replaced")
    printed = program.succeed(config, *OF_SHOTS, "gradient.observed=", "output.replace=on").out
    left = [n for n in program.files() if n.startswith("out/line") and n.endswith(".gradient.h5") and ".old" not in n]
    check("deleted the gradient of an earlier survey" in printed and not left, f"{left}: {printed}")


SECTION = {"grid.nx": 60, "grid.ny": 1, "grid.nz": 40, "grid.dy": None, "time.steps": 90, "medium.velocity": "2d.h5:/v",
           "source.1.position": "300 0 90", "receivers.line": "20 0 35 560 0 310 9", "boundary.y": None}
LOSSES = ["medium.quality=2d.h5:/q", "medium.reference_frequency=30", "medium.absorption_band=10 60"]
BATCH = {"a": "source.1.position='53 9 100'", "b": "source.1.position='500 0 307' source.1.f0=20", "c": "receivers.line='30 0 35 560 0 310 4'",
         "d": "sources.positions=2d.h5:/at sources.signals=2d.h5:/w", "e": "receivers.interpolation=linear sources.interpolation=linear"}


def saved(program, path):
    """The fields and the maps that a shot has left: after steps 0, 60 and 90."""
    found = {}
    for name in program.folder.glob(f"{path}.*.hdf"):
        with h5py.File(name) as file:
            found.update({(name.suffixes[-2], key): file[key][...] for key in ("u", "max", "rms") if key in file})
    check(len(found) == 5 and all(values.any() for (step, _), values in found.items() if step != ".00000000"), f"{path}: {list(found)}")
    return found


def prepare_batch(program, **more):
    """Gradients of a batch of 2D shots have the bits of single runs on the host, with less memory too. A failure
    affects one shot."""
    rng = np.random.default_rng(5)
    config = program.config({**RUN, **SECTION, **more, "gradient.observed": ""})
    with h5py.File(program.folder / "2d.h5", "w") as file:
        for name, least, most in (("v", 1500, 2500), ("rho", 1000, 2500), ("q", 30, 90), ("true", 1600, 2400), ("u", -1, 1)):
            file[name] = rng.uniform(least, most, (40, 1, 60)).astype("f4")
        file["at"], file["w"], file["bad"] = rng.uniform(50, 300, (5, 3)), rng.uniform(-1, 1, (90, 5)), rng.uniform(-1, 1, 40)
    (program.folder / "shots.txt").write_text("".join(f"{words} output.name={name}\n" for name, words in BATCH.items()))
    survey = ["survey.shots=shots.txt", "gradient.observed=out/true/{name}.receivers.h5:/u", "output.path=out/line"]
    for about, keys, memory in (("plain", ["initial.u=2d.h5:/u", "gradient.initial=on"], 4),
                                ("density", ["medium.density=2d.h5:/rho", "boundary.all=absorbing"], 6),
                                ("losses", ["medium.density=2d.h5:/rho", *LOSSES, "receivers.every=3", "initial.u=2d.h5:/u", "gradient.initial=on"], 8)):
        keys += ["gradient.image=on", "gradient.signals=on", "output.final=on", "output.every=60", "maps.quantities=max rms"]
        names = ["velocity", "image", "illumination", "misfit", "signals", *(["initial"] if "gradient.initial=on" in keys else [])]
        program.remove("out/*.h5", "out/*/*.h5")
        program.succeed("-q", config, *keys, *survey, "gradient.observed=", "medium.velocity=2d.h5:/true", "output.path=out/true")
        expected, others = {}, {}
        for name, words in BATCH.items():
            words = [word.replace("'", "") for word in re.findall(r"(?:[^ ']|'[^']*')+", words)]
            program.succeed("-q", config, *keys, *words, "device.backend=host", f"gradient.observed=out/true/{name}.receivers.h5:/u")
            expected[name] = {field: gradient(program, field) for field in names}
            others[name] = saved(program, "out/r")
            check(all(expected[name][field].any() for field in names), f"{about}, {name}: a gradient is 0 everywhere")
        for ranks, most, options in ((0, 5, []), (0, 3, [f"gradient.{'' if more else 'host_'}memory={memory}MB"]), (0, 2, []), (2, 3, [])):
            program.remove("out/line*.h5", "out/line/*")
            printed = program.succeed(config, *keys, *survey, *options, f"survey.at_once={most}", np=ranks).out
            check(f"{most} shots together" in printed and ("states every" in printed) == bool(options), printed)
            dry = program.succeed("-n", config, *keys, *survey, *options, f"survey.at_once={most}", np=ranks).out
            check(re.findall("gradient: .*|.* shots together.*", dry) == re.findall("gradient: (?:a ring buffer|.*a rank on|that is).*|.* shots together.*", printed), f"{dry}{printed}")
            for name in BATCH:
                for field in names:
                    check(same_bits(gradient(program, field, f"out/line/{name}"), expected[name][field]), f"{about}, {most}: {name}: other bits in /{field}")
                found = saved(program, f"out/line/{name}")
                check(all(same_bits(found[key], others[name][key]) for key in found), f"{about}, {most}: {name}: another field, or map")
            with h5py.File(program.folder / "out/line.gradient.h5") as file:
                check("signals" not in file and file["image"][...].any(), "a sum of signals of 1 source and of 5")
    for name, broken in ("b", "source.1.wavelet=2d.h5:/bad source.1.amplitude=3e38"), ("a", "output.name=none"):
        text = (program.folder / "shots.txt").read_text()
        (program.folder / "shots.txt").write_text(re.sub(f" output.name={name}", f" {broken if name == 'a' else broken + ' output.name=b'}", text))
    program.remove("out/line*.h5", "out/line/*")
    printed = program.run(config, *keys, *survey, "survey.at_once=5")
    check("shot b (shots.txt:2) failed: step" in printed.out and "shot none (shots.txt:1) failed: out/true/none.receivers.h5" in printed.out, f"{printed}")
    check(printed.code == 3 and "gradient: 3 of 5 shots" in printed.out, f"{printed}")
    for name in "cde":
        check(same_bits(gradient(program, path=f"out/line/{name}"), expected[name]["velocity"]), f"{name}: other bits beside shots that failed")
    check({p.name[0] for p in (program.folder / "out/line").glob("*.gradient.h5")} == set("cde"), "a gradient of a shot that failed")
    check(not list((program.folder / "out/line").glob("*.tmp.*")), "files of shots that failed are left")


@case
def unlike_shots(program):
    """Shots that sample more rarely take more steps for the ends of their traces; beside one that keeps dispersion others do not."""
    flat = {"grid.ny": 1, "boundary.y": None, "source.1.position": "101 0 55", "receivers.line": "40 0 60 170 0 65 6"}
    config = program.config({**RUN, **flat, "medium.velocity": 1700, "gradient.observed": None})
    lines = ["receivers.every=2 output.name=a", "receivers.every=5 source.1.position='60 0 90' output.name=b",
             "receivers.every=2 source.1.f0=400 output.name=c"]
    for name, options in (("rare", lines[:2]), ("fast", lines[::2])):
        (program.folder / "shots.txt").write_text("\n".join(options) + "\n")
        program.succeed("-q", config, "survey.shots=shots.txt", "medium.velocity=1750", f"output.path=out/{name}-true")
        for at_once in "auto", "2":
            program.remove(f"out/{name}/*")
            program.succeed("-q", config, "survey.shots=shots.txt", f"survey.at_once={at_once}", f"output.path=out/{name}",
                            f"gradient.observed=out/{name}-true/{{name}}.receivers.h5:/u")
            for line in options:
                shot, changes = line[-1], line.replace("'", "").split(" output")[0]
                program.succeed("-q", config, *re.findall(r"\S+=.*?(?= \w+\.|$)", changes), "output.path=out/r",
                                f"gradient.observed=out/{name}-true/{shot}.receivers.h5:/u")
                check(same_bits(gradient(program), gradient(program, path=f"out/{name}/{shot}")), f"{name} {at_once}: {shot} has other bits than its run")


@case
def batch(program):
    prepare_batch(program)


@case
def batch_cuda(program):
    program.skip_without_cuda()
    prepare_batch(program, **{"device.backend": "cuda"})


@case
def image(program):
    """The image sums u times nu, which a source at the point has as its dJ/ds; it rises through a reflector where velocity does."""
    config, at = prepare(program), "110 90 120"
    more = ["time.dispersion=kept", "receivers.every=1", "receivers.line=", f"receivers.points=40 50 60, {at}", f"source.2.position={at}",
            "source.2.f0=30", "source.2.amplitude=0"]
    program.succeed("-q", config, *more, "gradient.observed=", "medium.velocity=in.h5:/true", "output.path=out/true")
    program.succeed("-q", config, *more, "gradient.image=on", "gradient.signals=on")
    with h5py.File(program.folder / "out/r.receivers.h5") as file:
        u, nu = file["u"][:, 1].astype(float), gradient(program, "signals")[:, 1].astype(float)
    for name, right in ("image", (u[1:] * nu).sum()), ("illumination", (u**2).sum()):
        check(abs(gradient(program, name)[12, 9, 11] / right - 1) < 1e-5, f"/{name}: {gradient(program, name)[12, 9, 11]}, not {right}")
    config = program.config({**RUN, **SECTION, "grid.nx": 81, "grid.nz": 61, "time.steps": 400, "time.dt": 1.5e-3, "boundary.all": "absorbing", "boundary.width": 10,
                             "boundary.z_lo": None, "source.1.f0": 20, "source.1.position": "400 0 110", "receivers.line": "110 0 110 690 0 110 59"})
    for name, step in ("up", 1.2), ("down", 0.8):
        with h5py.File(program.folder / "2d.h5", "w") as file:
            file["v"] = np.full((61, 1, 81), 2000, "f4")
            file["true"] = np.where(np.arange(61)[:, None, None] > 35, step, 1) * file["v"][...]
        program.succeed("-q", config, "gradient.observed=", "medium.velocity=2d.h5:/true", "output.path=out/true")
        program.succeed("-q", config, "gradient.image=on")
        down = np.gradient(gradient(program, "image")[25:46, 0, 40] / gradient(program, "illumination")[25:46, 0, 40])
        check(abs(25 + np.argmax(down * (step - 1)) - 35.5) <= 1, f"velocity goes {name} between 35 and 36: {down}")


@case
def verify(program):
    """--verify-gradient passes here, on any number of ranks, and stores what it found with the gradient of a run."""
    config = prepare(program)
    program.succeed("-q", config)
    expected = gradient(program)
    for ranks, options in ((0, []), (3, ["gradient.host_memory=3MB", "time.dispersion=kept"]), (2, ["medium.velocity=1600"]),
                           (2, ["medium.density=in.h5:/v", "initial.u=gaussian", "medium.averaging=on"])):
        program.remove("out/r.*")
        result = program.succeed("--verify-gradient", config, *options, np=ranks)
        check(result.out.count("verify: ") == 7 and "dot product" in result.out and "nan" not in result.out, f"{options}: {result}")
        with h5py.File(program.folder / "out/r.gradient.h5") as file:
            check("slope 2 +- 0.05: yes" in file.attrs["verified"], f"{options}: {file.attrs['verified']}")
            check(options or same_bits(file["velocity"][...], expected), "another gradient than that of a run")
        check(not (program.folder / "out/r.receivers.h5").exists(), "traces were written")
    weak = ["receivers.line=", "receivers.points=40 50 150, 60 50 100", "receivers.every=1"]
    for steps, options, words in ((6, ["receivers.every=1"], "within 0.001: yes"), (6, weak, "too small for float32"), (15, weak, "within 0.001: yes"),
                                  (40, [], "within 0.001: yes"), (2, weak, "too small for float32")):
        program.remove("out/short.*")
        options = [f"time.steps={steps}", *options]
        program.succeed("-q", config, *options, "gradient.observed=", "medium.velocity=in.h5:/true", "output.path=out/short")
        result = program.succeed("--verify-gradient", config, *options, "gradient.observed=out/short.receivers.h5:/u")
        check(words in result.out, f"{options}: {result}")
    result = program.succeed("--verify-gradient", config, "medium.velocity=in.h5:/true")
    check("the misfit is 0 here" in result.out and "nan" not in result.out, f"{result}")
    for words, *options in ("no wave comes to the receivers", "source.1.position=101 93 0"), ("source_position: row 0", "source.1.position=101 93 65"):
        result = program.succeed("--verify-gradient", config, *options)
        check(words in result.out and "nan" not in result.out, f"{options}: {result}")
    program.fail(1, ["only with [gradient]"], "--verify-gradient", config, "gradient.observed=")
    program.fail(1, ["not with"], "--verify-gradient", "-r", "auto", config)


@case
def refused(program):
    """Observed data of another run, and budgets that are too small, before the first step."""
    config = prepare(program)
    with h5py.File(program.folder / "out/true.receivers.h5") as file, h5py.File(program.folder / "bad.h5", "w") as bad:
        for name, change in (("time", lambda f: f["time"][...] * 1.01), ("position", lambda f: f["position"][...] + [0, 0, 0.1]),
                             ("u", lambda f: f["u"][:-1])):
            for other in "u", "time", "position":
                bad[f"{name}/{other}"] = change(file) if other == name else file[other][...]
        bad["alone/u"] = file["u"][...]
    for where, words in (("time/u", "bad.h5:/time/time: row 1: expected this run's 0.002 s, found 0.00202 s"),
                         ("position/u", "bad.h5:/position/position: row 0: expected this run's receiver at (x, y, z) = (40, 50, 60) m"),
                         ("u/u", "bad.h5:/u/u: expected 31 rows, as this run's traces have, found 30"), ("alone/u", "no dataset /alone/time")):
        for option in "-q", "-n":
            program.fail(2, [words], option, config, f"gradient.observed=bad.h5:/{where}")
    for name, options in ("kept", ["time.dispersion=kept"]), ("two", ["source.2.position=60 93 55", "source.2.f0=30"]), ("field", ["initial.u=gaussian", "source.1.f0=", "source.1.position="]):
        program.succeed("-q", config, "gradient.observed=", *options, f"output.path=out/{name}")
    for name, words, *options in (("true", "source_position: row 0: expected this run's source at (x, y, z) = (101, 93, 65) m, found (101, 93, 55)", "source.1.position=101 93 65"),
                                  ("two", "source_position: expected this run's 1 source, found 2"), ("field", "source_position: expected this run's 1 source, found 0"),
                                  ("kept", "u: traces with dispersion = kept, as the attribute beside them says, but this run's have removed"),
                                  ("true", "u: traces with dispersion = removed, as the attribute beside them says, but this run's have kept", "time.dispersion=kept")):
        for ranks, option, key in ((0, "-q", "adjoint_source"), (0, "-n", "observed"), (3, "-q", "observed"))[:3 if name == "two" else 1]:
            program.fail(2, [f"out/{name}.receivers.h5:/{words}"], option, config, "gradient.observed=", f"gradient.{key}=out/{name}.receivers.h5:/u", *options,
                         f"parallel.io={'server' if ranks else 'auto'}", np=ranks)
    program.succeed("-q", config, "initial.u=gaussian", "source.1.f0=", "source.1.position=", "gradient.observed=out/field.receivers.h5:/u")
    with h5py.File(program.folder / "out/true.receivers.h5", "r+") as file:
        file.attrs["equation"] = "heat"
        program.remove("out/r.*")
    program.fail(2, ["traces with equation = heat, as the attribute beside them says, but this run's have wave"], config)
    with h5py.File(program.folder / "out/true.receivers.h5", "r+") as file:  # nothing that this program says
        file.attrs["equation"], file.attrs["dispersion"] = "acoustic", 3
        file["source_position"][...] += [0, 0.005, -0.005]
    program.succeed("-q", config)
    program.remove("out/r.*")
    check(not program.files() or not (program.folder / "out/r.receivers.h5").exists(), "steps were done")
    with h5py.File(program.folder / "out/true.receivers.h5") as file, h5py.File(program.folder / "big.h5", "w") as big:
        for name, size in (("beyond", 1e39), ("great", 3e38)):
            values = file["u"][...].astype("f8")
            values[12, 3] = size
            big[f"{name}/u"], big[f"{name}/time"], big[f"{name}/position"] = values, file["time"][...], file["position"][...]
    for key in "observed", "adjoint_source":
        change = "gradient.observed=", f"gradient.{key}=big.h5:/beyond/u"
        for np_, option in ((0, "-q"), (0, "-n"), (3, "-q")):
            program.fail(2, ["big.h5:/beyond/u: a value beyond float32 in row 12"], option, config, *change,
                         f"parallel.io={'server' if np_ else 'auto'}", np=np_)
    great = "gradient.observed=", "gradient.adjoint_source=big.h5:/great/u", "source.1.amplitude=1e25"
    for more, what in ((), "/velocity"), (("gradient.signals=on", "source.1.amplitude=1e-9", "source.1.position=118 98 63"), "/signals"):
        result = program.run("-q", config, *great, *more, np=2)
        said = f"the gradient's {what} is not finite"
        check(result.code == 3 and len(result.errors) == 1 and said in result.errors[0], f"{more}: {result}")
    check(not list(program.folder.glob("out/*gradient*")), "a gradient was left")
    program.remove("out/r.*")
    alone = "receivers.line=", "receivers.points=40 50 60"
    program.succeed("-q", config, *alone, "gradient.observed=", "medium.velocity=in.h5:/true", "output.path=out/alone")
    program.succeed("-q", config, *alone, "gradient.observed=out/alone.receivers.h5:/u")
    right = gradient(program)
    with h5py.File(program.folder / "out/alone.receivers.h5", "r+") as file:
        file["flat"] = file["u"][:, 0]
    program.succeed("-q", config, *alone, "gradient.observed=out/alone.receivers.h5:/flat", np=2)
    check(same_bits(gradient(program), right), "one receiver's traces of shape (n,) are others")
    program.remove("out/r.*")
    program.fail(1, ["[gradient] host_memory: a rank has 0.1 MiB, and 0.0 MiB in a file, and needs"], config, "gradient.host_memory=100kB")
    program.fail(1, ["--restart: a gradient needs all steps"], "-r", "x.h5", config)
    result = program.succeed("-n", config, "gradient.host_memory=2.6MB", "-r", "auto")
    check("states every" in result.out and "forward runs in all" in result.out, f"{result}")
    result = program.succeed(config, "time.dt=auto")
    check("dt = 0.001 s, as the observed traces have it" in result.out, f"{result}")


@case
def stops(program):
    """A signal ends forward and adjoint steps with 75 and leaves no gradient; the same command starts again."""
    config = prepare(program)
    long = ["time.steps=20000", "receivers.every=100", "gradient.host_memory=60MB"]
    program.succeed("-q", config, *long, "gradient.observed=", "output.path=out/long")
    for phase in "kernel auto:", "gradient: misfit":
        with Running(program, config, *long, "gradient.observed=out/long.receivers.h5:/u", np=2) as run:
            run.wait_for(lambda: phase in run.out(), phase)
            send(run.ranks()[0], signal.SIGTERM)
            result = run.wait()
        check(result.code == 75 and "checkpoint written" not in result.err, f"{result}")
        check("in the adjoint" in result.err or "misfit" not in phase, f"{result}")  # a signal may come late
        check(not (program.folder / "out/r.gradient.h5").exists(), "a gradient of a run that was stopped")
    program.succeed("-q", "-r", "auto", config)


main()
