#!/usr/bin/env python3
"""The program run as a user runs it.   end_to_end.py CASE STENCIL MPIEXEC   |   end_to_end.py --list
"""
import json
import math
import os
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import (SOURCE, Running, case, check, h5py, jacobi_step, main, np, read_field,
                     same_bits, skip, write_field)
from run_files import series_of

WEIGHTS = [[0.05, 0.03, 0.02, 0.01], [0.06, -0.02, 0.015, 0.005], [0.07, 0.04, -0.03, 0.02]]  # x, y, z
JACOBI = {"jacobi.center": 0.3, "boundary.value": 0.25,
          **{f"jacobi.{a}": " ".join(map(str, w)) for a, w in zip("xyz", WEIGHTS)}}


@case
def equality(program):
    """Every way to run gives the same bits: those of the formula evaluated in the canonical order."""
    ways = [dict(np=n) for n in (0, 1, 2, 3, 4)]
    ways += [{"np": n, "parallel.overlap": "off"} for n in (1, 3)] + [{"np": n, "parallel.io": "gather"} for n in (1, 4)]
    ways += [{"np": 3, "output.compress": 4}, {"np": 2, "output.compress": 9, "parallel.io": "gather"}]
    ways += [{"np": n, "device.kernel": k, "device.threads": t} for n, k, t in ((1, "reference", 3), (2, "simd", 3),
                                                                              (3, "reference", 1))]
    ways += [{"np": n, "parallel.io": "collective"} for n in (1, 3)]
    for shape, steps, count in (((37, 29, 45), 7, len(ways)), ((16, 9, 70), 3, 9), ((17, 40, 5), 2, 9)):
        expected = predict(program, shape, steps)
        for way in ways[:count]:
            run_one_way(program, shape, steps, way, expected)
        print(f"{shape}: {count} ways agree")


def predict(program, shape, steps):
    """Writes a random input field; returns the fields expected after 0 to `steps` steps."""
    program.fresh()
    u = np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)
    write_field(program.folder / "in.h5", u)
    fields = [u]
    for _ in range(steps):
        fields.append(jacobi_step(fields[-1], 0.3, WEIGHTS, 0.25))
    return fields


def run_one_way(program, shape, steps, way, expected):
    keys = {key: value for key, value in way.items() if key != "np"}
    config = program.config({**dict(zip(("grid.nz", "grid.ny", "grid.nx"), shape)), **JACOBI, "time.steps": steps,
                             "initial.u": "in.h5:/u", "output.every": 2, **keys})
    program.succeed("-q", config, np=way["np"])
    for step in sorted({*range(0, steps, 2), steps}):
        found = program.field(step)
        if not same_bits(found, expected[step]):
            z, y, x = np.argwhere(found != expected[step])[0]
            raise AssertionError(f"{shape} {way}: step {step} first differs at z {z} y {y} x {x}: "
                                 f"{found[z, y, x]} instead of {expected[step][z, y, x]}")
        (program.folder / f"out/u.{step:08d}.hdf").unlink()


@case
def usage_errors(program):
    """Wrong command lines and config files, on any number of ranks; the unit tests see every message."""
    good, no_gpu = program.config(), {"CUDA_VISIBLE_DEVICES": ""}
    for code, words, args in (
            (1, ["config"], []), (1, ["--bogus"], ["--bogus", good]), (1, ["x"], ["-x", good]),
            (1, ["--benchmark", "many"], ["--benchmark", "many", good]), (1, ["--benchmark"], ["--benchmark", "0", good]),
            (2, ["absent.h5"], ["--restart", "absent.h5", good]), (1, ["absent.ini"], ["absent.ini"]),
            (1, ["out"], ["out"]), (1, ["rubbish"], [good, "rubbish"]), (1, ["nosection"], [good, "nosection.x=1"])):
        program.fail(code, words, *args)
        if len(args) < 2:
            program.fail(code, words, *args, np=2)
    for code, words, key, value in (
            (1, ["[grid] nx", "integer", "'abc'"], "grid.nx", "abc"), (1, ["transport", "nccl"], "parallel.transport", "nccl"),
            (1, ["[device] kernel: no kernel of this equation is named 'smid'", "simd"], "device.kernel", "smid"), (1, ["[device] backend", "cuda"], "device.backend", "cuda"),
            (2, ["nofile.h5"], "initial.u", "nofile.h5:/u"), (2, ["/proc"], "output.path", "/proc/u")):
        program.fail(code, words, good, f"{key}={value}", env=no_gpu)
        program.fail(code, words, program.config({key: value}, "bad.ini"), np=3, env=no_gpu)
    # As srun starts processes that its MPI does not join: each is alone, the first says so.
    step = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}
    program.fail(4, ["4 processes were started, but each is alone", "srun --mpi=pmix"], good, env=step)
    other = program.run(good, env={**step, "SLURM_PROCID": "1"})
    check(other.code == 4 and not other.err, str(other))
    program.succeed(good, np=1, env=step)  # an mpirun of one rank in such a step
    folder = program.folder
    for name, text, words in (
            ("syntax.ini", "[grid]\nnx = 20\nthis is not an entry\n", ["syntax.ini:3"]),
            ("bracket.ini", "[grid\nnx = 20\n", ["bracket.ini:1"]),
            ("twice.ini", (folder / good).read_text() + "[time]\nsteps = 9\n", ["twice.ini:", "steps"]),
            ("long.ini", "[grid]\nnx = " + "1" * 70000 + "\n", ["long.ini:2"]),
            ("empty.ini", "", ["[grid]"])):
        (folder / name).write_text(text)
        program.fail(1, words, name)
    (folder / "binary.ini").write_bytes(bytes(range(256)) * 40)
    program.fail(1, ["binary.ini:"], "binary.ini")
    # One rank too many, and one more plane than that needs.
    program.fail(1, ["15", "4", "at most 3"], program.config({"grid.nz": 15}), np=4)
    program.succeed(program.config({"grid.nz": 16}), np=4)


@case
def thin_slabs(program):
    """Every grid with 4 planes a rank, 5 where a z face reflects, is partitioned, with the same bits on any number of ranks."""
    u = np.random.default_rng(7).uniform(-1, 1, (14, 12, 20)).astype(np.float32)
    for nz, ranks, faces, planes in ((14, 3, ("dirichlet", "neumann"), (0, 5, 9)), (9, 2, ("fixed", "neumann"), (0, 4)),
                                     (9, 2, ("dirichlet", "fixed"), (0, 5))):
        program.fresh()
        write_field(program.folder / "in.h5", u[:nz])
        config = program.config({"equation.type": "heat", "medium.diffusivity": 0.5, "grid.nz": nz, "time.steps": 7,
                                 "output.every": 3, "boundary.z_lo": faces[0], "boundary.z_hi": faces[1],
                                 "checkpoint.every_steps": 4, "checkpoint.path": "out/c", "initial.u": "in.h5:/u"})
        program.succeed("-q", config)
        expected = {step: program.field(step) for step in (0, 3, 6, 7)}
        printed = program.succeed("-n", "-v", config, np=ranks).out
        printed = tuple(map(int, re.findall(r"rank \d: planes (\d+) to", printed)))
        check(printed == planes, f"{nz} planes can be partitioned from {printed} on, not {planes}")
        for io, n, begin in (("gather", ranks, []), ("server", ranks + 1, ["time.steps=6"])):
            keys = [f"parallel.io={io}", f"checkpoint.path=out/{io}"]
            program.succeed("-q", config, *keys, *begin, np=n)
            if begin:
                program.succeed("-q", "--restart", "auto", config, *keys, np=n)
            for step, field in expected.items():
                check(same_bits(program.field(step), field), f"{nz} planes on {ranks} ranks, {io}: step {step} differs")
                (program.folder / f"out/u.{step:08d}.hdf").unlink()
    layers = program.config({"equation.type": "wave", "grid.nz": 60, "boundary.z_hi": "absorbing", "boundary.width": 10})
    for ranks, planes in ((2, (0, 38)), (3, (0, 25, 50)), (4, (0, 19, 38, 53))):  # a plane of a layer counts as 2.5
        printed = program.succeed("-n", "-v", layers, np=ranks).out
        printed = tuple(map(int, re.findall(r"rank \d: planes (\d+) to", printed)))
        check(printed == planes, f"60 planes, 10 of them in a layer, can be partitioned from {printed} on, not {planes}")
    out = program.succeed(layers, "grid.nx=240", "grid.ny=240", np=2).out  # one slab fits in the caches, the other does not
    check("measured now" in out, f"all ranks measure kernels where one has a large slab: {out}")
    keys = ["boundary.z_lo=neumann", "boundary.z_hi=dirichlet"]
    program.fail(1, ["nz = 13", "3 ranks only 4", "5 are needed", "at most 2"], program.config({"grid.nz": 13}), *keys, np=3)
    program.fail(1, ["nz = 17", "5 ranks fewer than 4", "at most 3"], program.config({"grid.nz": 17}), *keys, np=5)


@case
def file_errors(program):
    """Wrong input files, and outputs that cannot be written."""
    folder, shape = program.folder, (19, 12, 20)
    u = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    bad = u.copy()
    bad[17, 3, 4] = np.nan
    for name, values in (("good", u), ("swapped", u.T), ("nan", bad)):
        write_field(folder / f"{name}.h5", values)
    whole = (folder / "good.h5").read_bytes()
    (folder / "cut.h5").write_bytes(whole[:len(whole) // 2])
    for name, words in (("swapped", ["/u", 19, 12, 20]), ("nan", ["/u"]), ("cut", [])):  # test_field_errors sees every message
        config = program.config({"initial.u": f"{name}.h5:/u"})
        for args, ranks in (([], 3), ([], 0), (["--dry-run"], 0)):
            program.fail(2, [f"{name}.h5", *words], *args, config, np=ranks)
    wave = {"equation.type": "wave", "initial.u": "good.h5:/u", "initial.previous": "nan.h5:/u"}
    program.fail(2, ["nan.h5", "/u"], "--dry-run", program.config(wave), np=2)
    model = np.abs(u) + 1
    for value in (0, -0.25):
        model[15, 7, 11] = value
        write_field(folder / "model.h5", model)
        for equation, key, kind, zero in (("heat", "diffusivity", "a diffusivity >= 0", 0), ("wave", "velocity", "a velocity > 0", 1)):
            config = program.config({"equation.type": equation, f"medium.{key}": "model.h5:/u"})
            for n in (0, 3):
                if value < zero:
                    program.fail(2, [f"model.h5:/u: expected {kind}, found {value} at (z, y, x) = (15, 7, 11)"], config, np=n)
                else:
                    program.succeed(config, np=n)
    os.mkfifo(folder / "pipe.h5")  # nobody will ever write into it
    for args in ([], ["--dry-run"]):
        program.fail(2, ["pipe.h5", "regular"], *args, program.config({"initial.u": "pipe.h5:/u"}))
    program.succeed(program.config({"initial.u": "good.h5:/u"}), np=2)
    for n in (0, 2):  # a path beyond 256 characters
        long = "/".join(["d" * 60] * 5)
        (folder / long).mkdir(parents=True, exist_ok=True)
        write_field(folder / long / "good.h5", u)
        config = program.config({"initial.u": f"{long}/good.h5:/u", "output.path": f"{long}/u",
                                 "checkpoint.every_steps": 1, "checkpoint.path": f"{long}/c"})
        program.succeed(config, np=n)
        program.fresh()
        write_field(folder / "good.h5", u)
    for name, length in (("output.path", 239), ("checkpoint.path", 238)):  # names of files beyond what folders hold
        for args in ([], ["--dry-run"]):
            program.fail(2, ["too long"], *args, program.config({name: "out/" + "x" * length}))
    for n in (0, 2):
        program.succeed(program.config({"output.path": "out/" + "x" * 150, "parallel.io": "auto"}), np=n)
    for args in ([], ["--dry-run"]):
        program.fail(2, ["out", "directory"], *args, "--report", "out", program.config())
    for ending in ("00000003.hdf", "00000000.hdf", "checkpoint.00000002.h5", "xdmf", "hdf.series", "receivers.h5"):
        (folder / f"out/u.{ending}").mkdir()
        for args in ([], ["-n"]):
            program.fail(2, [f"out/u.{ending}", "directory"], *args, program.config(), "output.every=2", "checkpoint.every_steps=2")
        (folder / f"out/u.{ending}").rmdir()
    program.fresh()
    full = program.config({"grid.nx": 240, "grid.ny": 240, "grid.nz": 240, "time.steps": 1})
    # A field of 53 MiB where no file may grow beyond 48.
    for n, mode in ((0, "gather"), (2, "auto"), (2, "gather")):
        program.fail(2, ["out/u.00000001.hdf"], full, f"parallel.io={mode}", np=n, shell_before="ulimit -f 49152")
    program.fail(2, ["out/u.receivers.h5: cannot write: File too large"], program.config(), "output.final=off",
                 "receivers.line=1 1 1 9 9 9 9000", shell_before="ulimit -f 100")
    # Two planes, or one that is compressed, are too large for memory that ranks share; the file is small.
    wide = program.config({"grid.nx": 1024, "grid.ny": 2100, "grid.nz": 8, "time.steps": 1,
                           "initial.u": "gaussian", "initial.width": 3,
                           "device.kernel": "simd", "output.compress": 1, "parallel.io": "gather"})
    program.succeed(wide)
    expected = program.field(1)
    log = program.succeed(wide, np=2, shell_before="ulimit -f 8000").out
    check("shared: " in log and "room for only 7.81" in log, f"expected that the windows are too large: {log}")
    check(same_bits(program.field(1), expected), "other bits where no memory is shared")


@case
def unstable(program):
    """A dt above the stability bound, given or by cfl, is exit 3 before the first step, on any number of ranks."""
    config = program.config({"equation.type": "wave", "time.steps": 3})
    for n, options, words in ((0, ["time.dt=1"], ["dt = 1 s is above the stability bound"]), (2, ["time.dt=1"], ["dt = 1 s"]),
                              (0, ["time.dt=4e-4"], ["bound of 0.000301904", " s: time.dt=0.0002 time.steps=6 is stable and as long"]),
                              (0, ["time.dt=1e-3", "receivers.points=9 6 9", "receivers.every=5"],
                               ["time.dt=0.00025 time.steps=12 receivers.every=20 is stable"]),
                              (0, ["time.cfl=1.01"], ["[time] cfl = 1.01 makes dt", "which is cfl = 1"]), (3, ["time.cfl=2", "equation.type=heat"], ["cfl = 2"]),
                              (0, ["time.cfl=2", "time.end_time=1e-9"], ["cfl = 2"]), (0, ["-n", "time.cfl=2"], ["cfl = 2"])):
        program.fail(3, words, *options[:options[0] == "-n"], config, *options[options[0] == "-n":], np=n)
    check(not list(program.folder.glob("out/*")), "files were written")
    program.succeed("-q", config, "time.cfl=1")
    program.succeed("-q", config, "time.dt=0.00025", "time.steps=12", "receivers.every=20")
    program.succeed("-q", config, "time.cfl=1.01", "time.allow_unstable=on")
    program.succeed("-q", config, "time.cfl=1.01", "time.dt=1e-5")


@case
def nonfinite(program):
    """A field that overflows ends the run with exit 3, naming step and first bad point, and is not saved."""
    shape, center, weights = (19, 12, 20), 30000.0, [[1e3, 0, 0, 0]] * 3
    changes = {"jacobi.center": center, **{f"jacobi.{a}": "1e3 0 0 0" for a in "xyz"}, "initial.u": "in.h5:/u",
               "output.every": 2, "time.steps": 40}
    u = np.random.default_rng(5).uniform(1e-4, 1e-3, shape).astype(np.float32)
    u[14, 7, 17] = 0.02  # the first to overflow
    write_field(program.folder / "in.h5", u)
    step = 0
    while np.isfinite(u).all():
        u, step = jacobi_step(u, center, weights, 0), step + 1
    check(np.argwhere(~np.isfinite(u)).tolist() == [[14, 7, 17]], "not one point overflows first: change the field")
    config = program.config(changes)
    for n in (0, 1, 3):
        result = program.run(config, "report.check_every=1", np=n)
        check(result.code == 3 and len(result.errors) == 1, f"on {n} ranks: expected one error and exit 3, got {result}")
        numbers = [int(i) for i in re.findall(r"\b\d+\b", result.errors[0])]
        check(numbers == [step, 1, u.size, 17, 7, 14],
              f"expected step {step}, 1 of {u.size} points, x 17, y 7, z 14: {result.errors[0]}")
    # The end of the run and every field to be saved are checked too, whatever check_every is, while the steps go on; and
    # what would be written after such a field is not.
    even = step + step % 2
    for named, changes in ((even, ["report.check_every=1000"]), (even, ["report.check_every=0", "parallel.io=server"]),
                           (step, ["report.check_every=0", "checkpoint.every_steps=1"]),
                           (even, ["report.check_every=0", "checkpoint.every_steps=2", "report.histogram=9"]),
                           (40, ["report.check_every=0", "output.every=0"])):
        result = program.run(config, *changes, np=2)
        check(result.code == 3 and len(result.errors) == 1, f"{changes}: expected one error and exit 3, got {result}")
        check(f" step {named}: " in result.errors[0], f"{changes}: expected step {named}: {result.errors[0]}")
        for path in program.folder.glob("out/u.checkpoint.*"):
            found = int(path.name.split(".")[-2])
            check(found < step, f"{changes}: {path.name}, but the field of step {step} is not finite")
            path.unlink()
    saved = list(program.folder.glob("out/*"))
    check(any(p.suffix == ".hdf" for p in saved), "the finite fields before it were not saved")
    for path in saved:
        check(path.suffix in (".hdf", ".xdmf", ".series"), f"{path.name} was left behind")
        if path.suffix == ".hdf":
            check(np.isfinite(read_field(path, program.path)).all(), f"{path.name} holds non-finite values")


@case
def statistics(program):
    """Saved fields, log and JSON hold the statistics of the field, the same bits on any number of ranks."""
    config = program.config({"grid.nx": 150, "grid.ny": 19, "grid.nz": 23, "output.every": 2, "report.file": "r.json",
                             "report.check_every": 1, "report.histogram": 50})
    seen = []
    for n in (1, 2, 3, 4):
        for extra in ([], ["parallel.io=gather"]):
            out = program.succeed(config, *extra, np=n).out
            seen.append([statistics_of(program, step) for step in (0, 2, 3)])
            check(seen[0] == seen[-1], f"{n} ranks {extra}: {seen[-1]} is not {seen[0]}")
            check([int(i) for i in re.findall(r"step (\d+): min", out)] == [0, 2, 3], f"steps in the log:\n{out}")
    for (numbers, counts, quantiles), step in zip(seen[0], (0, 2, 3)):
        check_statistics(program.field(step), numbers, counts)
        check_quantiles(program.field(step), numbers, counts, quantiles)
    report = json.loads((program.folder / "r.json").read_text())
    numbers, counts, quantiles = seen[0][-1]
    found = tuple(report["statistics"][name] for name in ("min", "max", "sum", "l2"))
    check(found == numbers and report["statistics"]["step"] == 3, f"{report['statistics']} is not {numbers}")
    check(report["histogram"] == {"min": numbers[0], "max": numbers[1], "counts": counts}, "histogram of the report")
    check(report["quantiles"] == quantiles, f"{report['quantiles']} is not {quantiles}")
    words = ", ".join(f"{percent} % {quantiles[name]:.7g}" for name, percent in QUANTILES.items())
    check(f"step 3: quantiles {words}\n" in out, f"not the quantiles {words}:\n{out}")
    lines = [int(i) for i in re.findall(r"^  from +\S+ +(\d+)", out, re.MULTILINE)]
    check(lines == [a + b for a, b in zip(counts[::2], counts[1::2])], f"not the histogram, two bins a line:\n{out}")
    check("step 1: min" in program.succeed(config, "-v", np=2).out, "--verbose does not log every check")
    program.succeed(config, "report.histogram=0")
    with h5py.File(program.folder / "out/u.00000003.hdf", "r") as file:
        check("histogram" not in file and "min" in file.attrs and "q50" not in file.attrs, "histogram = 0 saved one")


@case
def subnormals(program):
    """Numbers below the normal range count as 0 wherever a field is measured: beside the steps or between them."""
    n = 64
    keys = {"grid.nx": n, "grid.ny": n, "grid.nz": n, "initial.u": "gaussian", "initial.width": 3.9, "report.histogram": 7}
    seen = []
    for extra in (["time.steps=0"], ["time.steps=1", "output.every=1"], ["time.steps=1", "output.every=1", "parallel.io=server"]):
        program.succeed(program.config(keys), *extra, np=2)
        seen.append(statistics_of(program, 0))
        check(seen[-1] == seen[0], f"{extra}: {seen[-1]} is not {seen[0]}")
    exact = np.exp(-3 * ((n - 1) / 2 / 3.9)**2 / 2)
    check(0 < exact < np.finfo(np.float32).tiny, f"{exact} in the corners is not subnormal: change the field")
    check(seen[0][0][0] == 0, f"the least value is {seen[0][0][0]}")
    for kind in ("f4", "f8"):  # plain values and converted ones
        write_field(program.folder / "in.h5", np.full((n, n, n), -1e-40, kind))
        out = program.succeed(program.config(keys), "initial.u=in.h5:/u", "time.steps=0", "output.every=3").out
        check(".00000000.hdf," in out and "fields)" not in out, f"step 0 was saved twice: {out}")
        check(not (2 * program.field(0).view(np.uint32)).any(), f"{kind}: a file's subnormal numbers were saved")


QUANTILES = {"q01": 1, "q05": 5, "q50": 50, "q95": 95, "q99": 99}


def statistics_of(program, step):
    with h5py.File(program.folder / f"out/u.{step:08d}.hdf", "r") as file:
        numbers, counts = tuple(file.attrs[name] for name in ("min", "max", "sum", "l2")), file["histogram"]
        check(all(n.dtype == np.float64 for n in numbers) and counts.dtype == np.int64, "types of the statistics")
        check(tuple(counts.attrs["range"]) == numbers[:2], "range of the histogram")
        quantiles = {name: file.attrs[name] for name in QUANTILES}
        check(all(q.dtype == np.float64 for q in quantiles.values()), "types of the quantiles")
        return tuple(map(float, numbers)), counts[...].tolist(), quantiles


def check_quantiles(field, numbers, counts, quantiles):
    """The formula of operations/statistics.h, to the bit; and numpy's quantiles of the values themselves, to within a bin."""
    low, high, width = numbers[0], numbers[1], numbers[1] - numbers[0]
    up_to = np.cumsum(counts)
    for name, percent in QUANTILES.items():
        wanted = field.size * percent / 100
        b = int(np.argmax(up_to >= wanted))
        expected = low + (b + (wanted - (up_to[b] - counts[b])) / counts[b]) / len(counts) * width
        check(quantiles[name] == expected, f"{name} {quantiles[name]} is not {expected}")
        exact = np.quantile(field.astype(np.float64), percent / 100)
        check(abs(quantiles[name] - exact) <= width / len(counts), f"{name} {quantiles[name]}, exactly {exact}")


def check_statistics(field, numbers, counts):
    u = field.astype(np.float64).ravel()
    low, high, total, l2 = numbers
    check((low, high) == (u.min(), u.max()), f"{low} to {high} instead of {u.min()} to {u.max()}")
    check(abs(total - math.fsum(u)) <= 1e-12 * math.fsum(abs(u)), f"sum {total} instead of {math.fsum(u)}")
    check(abs(l2 / math.sqrt(math.fsum(u * u)) - 1) <= 1e-12, f"L2 norm {l2} instead of {math.sqrt(math.fsum(u * u))}")
    bins = np.minimum((u - low) * (len(counts) / (high - low)), len(counts) - 1).astype(int)
    check(sum(counts) == u.size and counts == np.bincount(bins, minlength=len(counts)).tolist(), f"histogram {counts}")


@case
def initial(program):
    """Computed initial fields have the values of their formulas, on any number of ranks."""
    gaussian = {"initial.center": "11 7 20", "initial.width": 3, "initial.amplitude": -2, "grid.dx": 2, "grid.origin": "1 2 3"}
    z, y, x = np.meshgrid(*(np.arange(n) for n in (19, 12, 20)), indexing="ij")
    bump = -2 * np.exp(-((1 + 2 * x - 11) ** 2 + (2 + y - 7) ** 2 + (3 + z - 20) ** 2) / (2 * 3**2))
    far = {**gaussian, "boundary.x": "periodic", "boundary.z": "periodic"}
    around = {width: bump_around(width, 1 + 2 * x - 41, 2 + y - 7, 3 + z + 54) for width in (3, 7.5, 9, 40)}
    seen = []
    for changes, expected in (({"initial.u": "zero"}, 0), ({"initial.u": "-1.5e2"}, -150),
                              ({"initial.u": "gaussian", **gaussian}, bump), ({"initial.u": "random"}, None),
                              *(({"initial.u": "gaussian", **far, "initial.width": width, "initial.center": "41 7 -54"}, u)
                                for width, u in around.items()),
                              ({"initial.u": "random", "initial.seed": 7}, None)):
        config = program.config({**changes, "output.every": 3})
        program.succeed(config)
        start, end = program.field(0), program.field(3)
        for n in (2, 4):
            program.succeed(config, np=n)
            check(same_bits(start, program.field(0)) and same_bits(end, program.field(3)), f"{changes} on {n} ranks")
        if expected is None:
            check(-1 <= start.min() < -0.99 and 0.99 < start.max() <= 1 and abs(start.mean()) < 0.05,
                  f"{changes}: {start.min()} to {start.max()}, mean {start.mean()}")
            check(len(np.unique(start)) > 0.99 * start.size, f"{changes}: repeated values")
        else:
            check(np.allclose(start, expected, rtol=1e-6, atol=1e-30), f"{changes}: not the field expected")
        check(not any(same_bits(start, other) for other in seen), f"{changes}: as another field")
        seen.append(start)
    warn_of_center(program, gaussian)


def bump_around(width, x, y, z):
    """The sum over the images that periods of 40 m along x and 19 m along z make of a gaussian."""
    images = lambda r, period: sum(np.exp(-((r + k * period) / width)**2 / 2) for k in range(-60, 60))
    return -2 * images(x, 40) * np.exp(-(y / width)**2 / 2) * images(z, 19)


def warn_of_center(program, gaussian):
    """A gaussian with its middle outside the grid is a warning; on the grid's face it is none."""
    config = program.config({"initial.u": "gaussian", **gaussian})
    for center, words in (("39 13 21", None), ("39.5 7 20", "x is from 1 to 39"), ("11 1.5 20", "y is from 2 to 13")):
        for args in ([], ["-n"]):
            warned = re.findall(r"^warning: \[initial\] center = (.*)$", program.succeed(*args, config, f"initial.center={center}").out, re.M)
            printed = [f"{center} is outside the grid, where {words}"] if words else []
            check(warned == printed, f"{args} center = {center}: {warned}, not {printed}")


SHOT = {"equation.type": "wave", "initial.u": "zero", "source.1.position": "9 6 9", "source.1.f0": 90, "time.dt": 2e-4,
        "time.steps": 100, "receivers.points": "9 2 9, 15 6 9"}
SLOW = {"source.1.f0": 10, "source.1.t0": 0.1}
SILENT = "nothing can happen: the initial field is 0, and nothing changes it"
MUTE = ("nothing: amplitude or values are 0, the wavelet is over before the run (t0), or the place lies on a dirichlet face, where the field "
        "is 0")
SOURCES = "every source emits " + MUTE
SECOND = {"source.2.position": "9 0 9", "source.2.f0": 90, "boundary.y_lo": "dirichlet"}
RECEIVERS = "every receiver lies on a dirichlet face, where the field is 0"
BETWEEN = {"receivers.points": None, "receivers.line": "3.3 4.4 9.3 14.3 4.4 9.3 12"}  # 512 points each, of 20 x 9 x 9
REMARKS = (  # changes to SHOT, and what the run warns of
    ({"receivers.every": 100}, []), ({"receivers.every": 101}, ["[receivers] every = 101, but the run has 100 steps: traces are one sample, of the beginning"]),
    ({}, []), ({"source.1.amplitude": 0}, [SOURCES, SILENT]),
    ({"source.1.amplitude": 0, "boundary.value": 1}, [SOURCES]), ({"source.1.amplitude": 0, "initial.u": "random"}, [SOURCES]),
    ({"source.1.position": "9 6 18", "boundary.z_hi": "dirichlet"}, [SOURCES, SILENT]),
    ({"source.1.position": "9 6 17.9", "boundary.z_hi": "dirichlet"}, []),
    ({"receivers.points": "9 0 9, 9 0 10", "boundary.y_lo": "dirichlet"}, [RECEIVERS]),
    ({"receivers.points": "9 1 9, 9 0 10", "boundary.y_lo": "dirichlet"}, [
        "1 of 2 receivers lie on a dirichlet face, where the field is 0, first row 1, (x, y, z) = (9, 0, 10) m"]),
    (SECOND, ["1 of 2 sources, first [source.2], emit " + MUTE]), ({**SECOND, "source.1.amplitude": 0}, [SOURCES, SILENT]),
    ({"source.1.t0": 0.04}, ["no wave comes to a receiver: the first one would at about 0.03156 s, the run ends at 0.02 s"]),
    ({"source.1.t0": 0.04, "initial.u": "random"}, []), ({"source.1.t0": 0.04, "time.steps": 200}, []),
    ({"medium.velocity": 150, **SLOW}, [
        "no wave comes to a receiver: the first one would at about 0.02667 s, the run ends at 0.02 s"]),
    ({"medium.velocity": 500, **SLOW, "source.1.position": "1 6 9", "receivers.points": "15 6 9",
      "boundary.x": "periodic"}, []),  # straight it would take 0.028 s
    ({"medium.velocity": 500, **SLOW, "source.1.position": "-39 6 9", "receivers.points": "95 6 9",
      "boundary.x": "periodic"}, []),  # likewise, periods off
    (BETWEEN, ["receivers between points take about 21 % of the time of the steps: with [receivers] interpolation = linear, which is less "
               "exact, or a greater every they take less"]),
    ({**BETWEEN, "receivers.interpolation": "linear"}, []), ({**BETWEEN, "receivers.every": 12}, []),
    ({**BETWEEN, "receivers.line": "3 4 9 14 4 9 12"}, []),
    ({"medium.velocity": 500, **SLOW, "source.1.position": "9 -1e9 9", "grid.ny": 1, "boundary.all": "dirichlet"}, []))


@case
def remarks(program):
    """Runs in which nothing can happen are warned of, dry or not; those in which something can are not."""
    for changes, expected in REMARKS:
        for args in ([], ["-n"]):
            out = program.succeed(*args, program.config({**SHOT, **changes})).out
            warned = re.findall(r"^warning: (.*)$", out, re.M)
            check(warned == expected, f"{args} {changes}: warned {warned}, not {expected}")
    past = program.config({**SHOT, "time.steps": 3000}), "SLURM_JOB_END_TIME = 5 was before the program began: it does not count"
    check(f"warning: {past[1]}\n" in program.succeed(past[0], env={"SLURM_JOB_END_TIME": "5"}).out, "a job that has ended counts")
    config = program.config({**SHOT, "source.1.position": None, "source.1.f0": None, "initial.u": "random"})
    for dt, words in ((3e-4, "kept in traces: dt is too large for all that an initial field may hold: 0.0002868 s would do"),
                      (0.0002868, "removed from signals and traces, whose ends take 10 steps more")):
        out = program.succeed(config, f"time.dt={dt}").out
        check(f"time: dispersion {words}\n" in out, f"dt = {dt}: {out}")
    for equation in ("jacobi", "heat"):
        for initial, expected in (("zero", [SILENT]), ("0", [SILENT]), ("0.5", [])):
            out = program.succeed("-n", program.config({"equation.type": equation, "initial.u": initial})).out
            check(re.findall(r"^warning: (.*)$", out, re.M) == expected, f"{equation}, u = {initial}: {out}")
    # A checkpoint says what the field is.
    quiet = program.config({"initial.u": "random", "checkpoint.every_steps": 3})
    program.succeed("-q", quiet)
    out = program.succeed("-n", "-r", "out/u.checkpoint.00000003.h5", quiet, "initial.u=zero", "time.steps=5").out
    check("warning:" not in out, f"warned of a run that goes on: {out}")


def wave_tables(program):
    """Wavelets of 60 and of 160 Hz, whose spectra end at 150 and 400 Hz, positions, and velocities."""
    def ricker(f, t):
        a = (math.pi * f * (t - 0.0167)) ** 2
        return (1 - 2 * a) * np.exp(-a)
    t, rows = 2e-4 * np.arange(500), np.arange(0, 0.034, 5e-4)
    with h5py.File(program.folder / "w.h5", "w") as file:
        for name, count, f in (("steps", 500, 60), ("short", 167, 60), ("cut", 80, 60), ("fast", 500, 160)):
            file[name] = ricker(f, t[:count])
        for name, f, begin in (("rows", 60, 0), ("late", 60, 0.01), ("fast_rows", 160, 0), ("after", 60, 0.1), ("before", 60, -1)):
            file[name] = np.c_[rows + begin, ricker(f, rows)]
        file["long"], file["between"] = np.c_[t, ricker(60, t)], np.c_[rows / 1e4 + 2.5e-4, ricker(60, rows)]
        file["slow_fast"] = np.stack([10 * ricker(60, t), ricker(160, t), np.random.default_rng(1).uniform(-1e-3, 1e-3, 500), 0 * t], 1)
        file["nine"], file["one"] = file["slow_fast"][:9], ricker(60, t)
        file["slow_only"] = file["slow_fast"][...] * [1, 0.005, 1, 1]
        file["zero"], file["zeros"], file["on_face"] = np.c_[rows, 0 * rows], np.zeros((500, 2)), [[9, 6, 9], [8, 0, 9], [9, 0, 9.0]]
        file["s"] = [[9, 6, 9], [9.5, 5, 9], [12, 3, 9], [4, 4, 4.0]]
        file["p"], ramp = [[9, 2, 9], [15, 6, 9.0]], np.linspace(0, 1, 19 * 12 * 20).reshape(19, 12, 20)
        file["v"], file["slow"], file["q"] = 1.5 + 3 * ramp, 800 + 2200 * ramp, 12 + 200 * ramp


def of_set(name):
    return {"source.1.position": None, "source.1.f0": None, "sources.positions": "w.h5:/s", "sources.signals": f"w.h5:/{name}"}


def of_file(name, **more):
    return {"source.1.wavelet": f"w.h5:/{name}", "source.1.f0": None, **{k.replace("_", "."): v for k, v in more.items()}}


def loss(y, **more):
    return {"medium.absorption": 0.01, "medium.absorption_power": y, **{k.replace("_", ".", 1).replace("__", "_"): v for k, v in more.items()}}


FEW, EARLY, LAYERS, UNITS = "points per wavelength", "arrive early", "lie in absorbing layers", "is it in km/s"
JUMP, FILE = "of its peak", {"receivers.points": None, "receivers.positions": "w.h5:/p"}
WAVES = (  # changes to SHOT, and words of the warning, if any
    ({}, []), ({"source.1.f0": 150}, []), ({"source.1.f0": 160}, ["only 3.75 points per wavelength at 400 Hz"]),
    ({"source.1.f0": 160, "source.1.wavelet": "gaussian"}, []), ({"source.1.f0": 220, "source.1.wavelet": "gaussian"}, [FEW]),
    ({"grid.dy": 2}, ["3.33 points per wavelength at 225 Hz"]),
    ({"medium.velocity": "w.h5:/slow", "time.dt": 1e-4}, [FEW, "at 800 m/s"]),
    ({"grid.ny": 1, "grid.dy": 1e6, "source.1.position": "9 0 9", "receivers.points": "9 0 5"}, []),
    ({"source.1.f0": 160, "source.1.amplitude": 0, "initial.u": "random"}, ["every source emits nothing"]),
    ({"source.1.t0": -0.02, "initial.u": "random"}, ["is over before the run (t0)"]),
    ({"initial.u": "gaussian", "initial.width": 1.6}, ["[initial] width = 1.6 m"]),
    ({"initial.u": "gaussian", "initial.width": 1.7}, []),
    ({"time.steps": 1000}, []), ({"time.steps": 4000}, [EARLY + " in fields, not in traces: ", "by 0.241 radians, 0.000426 s,", "dt = 0.000128 "]),
    ({"time.steps": 4000, "output.final": "off"}, []), ({"time.steps": 4000, "time.dispersion": "kept"}, [EARLY + ": by 0.241"]),
    ({"time.steps": 4000, "time.dt": 1.28e-4}, []),
    ({"boundary.all": "absorbing", "boundary.width": 4}, ["0 of 1 sources and 1 of 2 receivers " + LAYERS]),
    ({"boundary.x": "absorbing", "boundary.width": 4, **FILE}, []),
    ({"boundary.x_hi": "absorbing", "boundary.width": 5, **FILE}, ["1 of 2 receivers " + LAYERS]),
    ({"boundary.z_lo": "absorbing", "boundary.width": 5, "source.1.position": "9 6 4"}, ["1 of 1 sources and 0 of 2"]),
    ({"source.1.t0": 0}, ["[source.1] starts at 100 % " + JUMP, "t0 = 0.01667"]), ({"source.1.t0": 0.011}, []),
    ({"source.1.wavelet": "gaussian", "source.1.t0": 0.005}, [JUMP]),
    ({"medium.velocity": 25000, "time.dt": "auto"}, [UNITS]), ({"medium.velocity": 19000, "time.dt": "auto"}, []),
    ({"medium.velocity": "w.h5:/v", "source.1.f0": 0.1}, ["from 1.5 to 4.5 m/s", UNITS]),
    (of_file("steps"), []), (of_file("long"), []), (of_file("fast"), [FEW + " at 39"]), (of_file("fast_rows", time_steps=168), [FEW]),
    (of_set("slow_fast"), ["points per wavelength at 39", " Hz of [sources] signals, column 1, above"]), (of_set("slow_only"), []),
    (of_file("steps", time_steps=501), ["values for 500 of 501 steps: it is 0 from step 500 (0.1 s) on"]),
    (of_file("short", time_steps=200), ["[source.1] wavelet = w.h5:/short has values for 167 of 200 steps: it is 0 from step 167 "]),
    (of_file("cut"), ["from step 80 (0.016 s) on, after a jump"]),
    (of_file("rows", time_steps=200), ["values for 168 of 200 steps: it is 0 from step 168 (0.0336 s) on"]),
    (of_file("late", time_steps=300), ["it is 0 before step 50 (0.01 s) and from step 218 (0.0436 s) on"]),
    ({"medium.quality": 50, "medium.reference_frequency": 10}, ["strongest at 90 Hz", "from 3.162 to 31.62 Hz only: set"]),
    ({"medium.quality": 50}, []), ({"medium.quality": 50, "medium.mechanisms": 1}, []),  # 47 %, as docs/CONFIG.md says
    ({"medium.quality": "w.h5:/q", "medium.mechanisms": 3}, ["up to 8.9 % off their law from 28.46 to 284.6 Hz: take a narrower"]),
    (loss(2), []), (loss(2, medium_absorption__band="50 600"), ["off their law from 50 to 600 Hz: take mechanisms = 3, a narrower"]),
    (loss(1.5), []), (loss(2.5, medium_absorption__band="60 120"), ["up to 23 % off", "relaxations rise with f^2 at most"]),
    (of_file("zero", initial_u="random"), ["every source emits nothing"]),
    ({**of_set("zeros"), "sources.positions": "w.h5:/p", "initial.u": "random"}, ["every source emits nothing"]),
    ({**of_set("one"), "sources.positions": "w.h5:/on_face", "boundary.y_lo": "dirichlet"}, ["2 of 3 sources, first row 1 of [sources]"]),
    (of_file("steps", time_dt="auto"), ["dt = auto depends on the model", "dt = 0.000"]), (of_file("long", time_dt="auto"), []))


@case
def wave_remarks(program):
    """Probable mistakes with waves get one line of warning, in a dry run too; correct input gets none."""
    wave_tables(program)
    for i, (changes, words) in enumerate(WAVES):
        out = program.succeed(*(["-n"] if i % 8 else []), program.config({**SHOT, **changes})).out
        warned = [w for w in re.findall(r"^warning: (.*)$", out, re.M) if "no wave comes" not in w and "dispersion" not in w]
        check(len(warned) == bool(words) and all(w in "".join(warned) for w in words), f"{changes}: warned {warned}, not {words}")
    for count, y in ((3, 2.5), (1, 2.75)):
        words = [f"mechanisms = {count}: losses are up to", "off their law from 28.46 to 284.6 Hz", "relaxations rise with f^2 at most"]
        program.fail(1, words, *(["-n"] if count > 1 else []), program.config({**SHOT, **loss(y, medium_mechanisms=count)}))
    for name, args in (("after", ["-n"]), ("before", ["-q"]), ("between", ["-n"])):
        words = f"w.h5:/{name}: none of its times falls on a step of the run, from 0 to 0.0198 s"
        program.fail(2, [words], *args, program.config({**SHOT, **of_file(name)}))
    check("Gpts/s" in program.succeed("-b", 5, program.config({**SHOT, **of_file("late")})).out, "a short benchmark was refused")
    # Nor are steps that the run itself does not have: signals end before them, maps begin after them, fields are not read.
    config = program.config({**SHOT, **of_set("slow_fast"), "maps.quantities": "max", "maps.from": 0.09, "maps.until": 0.0995,
                             "time.steps": 500, "initial.previous": "none.h5:/u"})
    for n, args in ((0, ["-b", 3]), (2, ["-b", 600])):
        check("Gpts/s" in program.succeed(*args, config, np=n).out, f"{args}: refused")
    check("estimate: 9 steps" in program.succeed("-n", "--measure", program.config({**SHOT, **of_set("nine"), "time.steps": 9})).out,
          "no estimate of a short run")
    for name, every, words in (("slow_fast", 6, r"every = 6 is too rare for 39\d.* Hz of \[sources\] signals, column 1: 4 would do"),
                               ("slow_fast", 4, "dispersion removed"), ("slow_only", 6, "dispersion removed")):
        out = program.succeed(program.config({**SHOT, **of_set(name), "receivers.every": every}), np=every % 4).out
        check(re.search(words, out), f"{name}, every {every}: {out}")
    for dispersion, words in (("removed", ["in traces: -0.00 % at 90 Hz, -0.01 % at", "in fields: +0.05 % at 90 Hz, +0.33 % at"]), ("kept", [": +0.05 % at 90"])):
        out = program.succeed("-n", program.config({**SHOT, "time.dispersion": dispersion})).out
        found = re.findall(r"^phase velocity along an axis(.*)$", out, re.M)
        check(len(found) == len(words) and all(a.strip().startswith(b) for a, b in zip(found, words)), f"{dispersion}: {out}")
    out = program.succeed("-n", program.config({"equation.type": "heat", "initial.u": "gaussian", "initial.width": 0.5})).out
    check("warning" not in out, f"heat: {out}")


@case
def remembered(program):
    """`kernel = auto` measures on the user's own problem, and remembers for that problem only; what it measured leaves no
    trace in the layers."""
    grid = {"equation.type": "wave", "grid.nx": 170, "grid.ny": 12, "grid.nz": 13, "medium.velocity": 2, "boundary.width": 4}
    velocity = np.random.default_rng(3).uniform(1, 2, (13, 12, 170)).astype("<f4")
    with h5py.File(program.folder / "velocity.h5", "w") as file:
        file["v"] = velocity
    problems = ({}, {"boundary.y": "absorbing"}, {"boundary.y": "absorbing", "boundary.width": 3}, {"boundary.z_lo": "neumann"},
                {"medium.velocity": "velocity.h5:/v"})
    for problem in problems:
        keys = {**grid, **problem}
        program.succeed(program.config({**keys, "device.kernel": "reference"}))
        expected = program.field(3)
        for word in ("measured now", "as remembered in"):
            log = program.succeed(program.config(keys)).out
            check(re.search(rf"^kernel auto: \w+ \({word}", log, re.M), f"{problem}: not '{word}': {log}")
            check(same_bits(program.field(3), expected), f"{problem}, {word}: other bits")


@case
def estimate(program):
    """--dry-run --measure times steps and tells how long all of them take; it writes nothing."""
    points = 64 * 48 * 40
    config = program.config({**SHOT, "initial.u": "random", "grid.nx": 64, "grid.ny": 48, "grid.nz": 40, "time.steps": 70000,
                             "output.every": 10, "checkpoint.every_steps": 5, "time.max_seconds": 0.01})
    before = program.files()
    for ranks, options, steps in ((0, [], 70000), (3, ["parallel.io=server"], 70000), (2, ["time.steps=3", "time.max_seconds=0"], 3),
                                  (0, ["time.steps=0", "time.max_seconds=0"], 0)):
        out = program.succeed("-n", "--measure", config, *options, np=ranks).out
        check("everything is in place" in out and " %  step" not in out, f"{options}: {out}")
        done, seconds, rate = re.search(r"^measured: (\d+) steps in (\S+) s, (\S+) Gpts/s$", out, re.M).groups()
        said, whole = re.search(r"^estimate: (\d+) steps take (\S+) s ", out, re.M).groups()
        each = float(seconds) / int(done)
        check(int(done) >= 10 and int(said) == steps, f"{options}: {done} steps timed, {said} estimated: {out}")
        check(abs(points / each * 1e-9 / float(rate) - 1) < 2e-3, f"{options}: {rate} Gpts/s, but {each} s a step")
        check(abs(float(whole) - each * steps) <= 2e-3 * each * steps, f"{options}: {whole} s for {steps} steps of {each} s")
        check(("[time] max_seconds = 0.01 ends the run before" in out) == (steps == 70000), f"{options}: {out}")
        check(program.files() == before, f"{options} wrote {sorted(program.files() - before)}")
    program.fail(1, ["--measure", "--dry-run"], "--measure", config)


@case
def options(program):
    """--help, --version, --dry-run, --quiet, overrides."""
    for option in ("--help", "--version"):
        once = program.succeed(option).out
        check(program.succeed(option, np=3).out == once, f"{option}: not one of 3 ranks says it")
    config = program.config({"output.every": 2})
    before = program.files()
    out = program.succeed("--dry-run", config, np=3).out
    for word in ("[grid]", "nx = 20", "[output]", "every = 2", "memory", "MiB"):
        check(word in out, f"--dry-run does not say {word}:\n{out}")
    check(re.search(r"3 ranks.*\b6\b.*\b7\b", out), f"--dry-run does not show the partition into 7 + 6 + 6 planes:\n{out}")
    large = program.run("--dry-run", config, "grid.nx=30000", "grid.ny=30000", "grid.nz=400", "output.every=0")
    check("memory per rank: 28" in large.out and "more than this device has" in large.out,
          f"--dry-run of what no machine holds does not say what it needs: {large}")
    check("more than this device has" not in out, f"--dry-run warns of a small grid:\n{out}")
    check(program.files() == before, "--dry-run wrote something")
    program.fail(2, ["no/such"], "-n", config, "output.path=no/such/u")
    place = re.compile(r" \[rank 0, config/config_value\.c:\d+ config_refuse\]$")
    plain = program.fail(1, ["expected"], config, "grid.nx=abc").errors[0]
    check(not place.search(plain), f"an error says where without --verbose: {plain}")
    printed = program.fail(1, ["expected"], "-v", config, "grid.nx=abc").errors[0]
    check(place.sub("", printed) == plain and printed != plain, f"--verbose does not say where: {printed}")
    for quiet in ("-q", "--quiet"):
        result = program.succeed(quiet, config, np=2)
        check(result.out == "", f"{quiet} printed {result.out}")
    program.fresh()
    program.succeed(program.config(), "time.steps=9", "output.path=out/last", "time.steps=2")
    check(program.files() == {"run.ini", "out/last.00000002.hdf", "out/last.xdmf", "out/last.hdf.series"}, f"found {program.files()}")
    for keys, last in ((["time.end_time=4"], 3), (["time.end_time=2"], 2), (["time.end_time=4", "time.steps=0"], 0)):
        out = program.succeed(config, *keys).out  # what comes first
        check(f"out/u.{last:08d}.hdf, " in out, f"{keys} did not end at step {last}: {out}")
    program.succeed("-q", "--report", "a.json", config, "report.file=b.json")
    check({"a.json", "b.json"} & program.files() == {"b.json"}, f"the later of two reports: {program.files()}")
    for name in (config, "./out/../out/u.00000003.hdf"):
        program.fail(1, ["command line: [report] file: expected a file that the run neither"], "--report", name, config)
    program.succeed(config, "output.path=out/c", "checkpoint.every_steps=2")
    saved = (program.folder / "out/c.checkpoint.00000002.h5").rename(program.folder / "kept.h5")
    before = saved.read_bytes()
    program.fail(1, ["command line: [report] file: expected a file other than that of --restart"],
                 "--restart", "kept.h5", "--report", "./kept.h5", config, "output.path=out/d")
    check(saved.read_bytes() == before, "the report replaced the checkpoint of --restart")


@case
def benchmark(program):
    """--benchmark writes no field; the report says the same thing on paper and as JSON, and its numbers agree."""
    config = program.config({"grid.nx": 64, "grid.ny": 48, "grid.nz": 40})
    for n, args, steps in ((0, ["--benchmark", 20], 20), (3, ["-b", 30], 30), (2, [], 3)):
        program.fresh()
        program.config({"grid.nx": 64, "grid.ny": 48, "grid.nz": 40})
        out = program.succeed(*args, "--report", "r.json", config, np=n).out
        fields = {"out/u.00000003.hdf", "out/u.xdmf", "out/u.hdf.series"} if not args else set()
        check(program.files() == {"run.ini", "r.json"} | fields, f"{args} left {program.files()}")
        check("Gpts/s" in out and "GB/s" in out, f"no report on stdout:\n{out}")
        check_report(json.loads((program.folder / "r.json").read_text()), n or 1, steps, 64 * 48 * 40)
    benchmark_keeps_actors(program)
    benchmark_counts_bytes(program)
    for n, io in ((0, "auto"), (3, "server")):
        out = program.succeed("-b", 10**9, "--report", "r.json", config, "time.max_seconds=1.5", f"parallel.io={io}", np=n).out
        steps = json.loads((program.folder / "r.json").read_text())["steps"]
        check(0 < steps < 10**9 and f"the wall time runs out: {steps} of 1000000000 steps are timed" in out, f"{steps} steps: {out}")
    program.succeed(config, "report.file=out/configured.json")
    check("steps" in json.loads((program.folder / "out/configured.json").read_text()), "[report] file is empty")
    program.fail(2, ["no/such"], "--report", "no/such/r.json", config, "output.path=out/v")


def benchmark_counts_bytes(program):
    """Bytes a point that a step must move."""
    write_field(program.folder / "in.h5", np.full((40, 48, 64), 2, np.float32))
    for equation, key, values in (("heat", "diffusivity", {"1": 8, "in.h5:/u": 12}), ("wave", "velocity", {"2": 12, "in.h5:/u": 16})):
        for medium, expected in values.items():
            program.succeed("-qb", 3, "--report", "r.json", "run.ini", f"equation.type={equation}", f"medium.{key}={medium}")
            report = json.loads((program.folder / "r.json").read_text())
            check(report["bytes_per_point"] == expected and np.isclose(report["gbs"], expected * report["gpts"]), f"{equation}, {medium}: {report}")


def benchmark_keeps_actors(program):
    """--benchmark has the source, and the receivers with room for a sample of each step and of the 10 to warm up; it writes
    none."""
    wave = ["equation.type=wave", "medium.velocity=1000"]
    source, line = ["source.1.position=20 20 20", "source.1.f0=10"], ["receivers.line=1 1 1 30 30 30 500"]
    before, taken = program.files(), []
    for actors in ([], source, source + line):
        program.succeed("-b", 20, "--report", "out/r.json", "run.ini", *wave, *actors)
        taken.append(json.loads((program.folder / "out/r.json").read_text())["per_rank"][0]["device_bytes"])
    check(program.files() == before | {"out/r.json"}, f"--benchmark left {program.files()}")
    samples, place = 500 * 31 * 4, 500 * 112
    check(taken[1] > taken[0] and taken[2] - taken[1] == 2 * samples + place,
          f"of the device {taken} bytes without, with a source, and with receivers too")


TRANSPORTS = ("sendrecv", "chunked", "shared")  # of the host


def check_report(report, ranks, steps, points):
    def close(a, b, what):
        check(abs(a - b) <= 0.01 * abs(b), f"{what}: {a} is not {b} in {report}")

    keys = {"gpts", "gbs", "copy_gbs", "fraction_of_copy", "steps", "seconds", "ranks", "backend", "kernel", "transport",
            "grid", "phases", "exposed_comm_fraction"}
    check(keys <= report.keys(), f"missing {keys - report.keys()} in {report}")
    check((report["steps"], report["ranks"]) == (steps, ranks), f"wrong steps or ranks in {report}")
    close(report["gpts"], points * steps / report["seconds"] / 1e9, "gpts")
    close(report["gbs"], 8 * report["gpts"], "gbs")
    close(report["fraction_of_copy"], report["gbs"] / report["copy_gbs"], "fraction_of_copy")
    check(len(report["phases"]) >= 6, f"too few phases in {report}")
    check(all(seconds >= 0 for seconds in report["phases"].values()), f"a negative phase in {report}")
    check(0 <= report["exposed_comm_fraction"] <= 1, f"exposed_comm_fraction in {report}")
    check(str(report["grid"]).replace(" ", "") in ("[64,48,40]", "64x48x40"), f"grid in {report}")
    names = [report[name] for name in ("backend", "kernel", "transport")]
    check(names[0] == "host" and names[1] in ("simd", "simd_cached", "simd_columns") and names[2] in TRANSPORTS, f"names in {report}")


@case
def files(program):
    """The layout and attributes of saved fields, and which are saved."""
    geometry = {"grid.dx": 2.5, "grid.dy": 5, "grid.dz": 7.5, "grid.origin": "10 -20 30"}
    for every, steps, expected in ((0, 3, {3}), (2, 5, {0, 2, 4, 5}), (3, 6, {0, 3, 6}), (9, 4, {0, 4})):
        program.fresh()
        program.succeed(program.config({**geometry, "output.every": every, "time.steps": steps}),
                        "parallel.transport=chunked", np=2)
        names = {f"out/u.{step:08d}.hdf" for step in expected}
        check(program.files() == names | {"run.ini", "out/u.xdmf", "out/u.hdf.series"}, f"every {every}: found {program.files()}")
        check(series_of(program, "out/u") == [(step, step) for step in sorted(expected)], f"every {every}: {series_of(program, 'out/u')}")
    path = program.folder / "out/u.00000004.hdf"
    with h5py.File(path, "r") as file:
        check_attributes(file)
        text = file.attrs["config"]
    # The config in the file repeats the run.
    (program.folder / "again.ini").write_text(text)
    program.succeed("again.ini", "output.path=out/again")
    check(same_bits(program.field(4), program.field(4, "out/again")), "the saved config does not repeat the run")
    program.succeed(program.config({"output.compress": 5}), "initial.u=2.5", "jacobi.center=0.5", np=2)
    with h5py.File(program.folder / "out/u.00000003.hdf", "r") as file:
        check((file["u"].compression, file["u"].compression_opts, file["u"].shuffle) == ("gzip", 5, True), "compression")


@case
def written(program):
    """The log ends with the files written: the first and last field, the newest checkpoint, and whatever else there is."""
    keys = {"equation.type": "wave", "output.every": 2, "time.steps": 5, "receivers.points": "3 4 5", "checkpoint.every_steps": 2,
            "report.file": "out/r.json"}
    names = ["out/u.00000000.hdf to out/u.00000005.hdf (4 fields)", "out/u.xdmf", "out/u.hdf.series", "out/u.receivers.h5",
             "out/u.checkpoint.00000004.h5 (the newest checkpoint)", "out/r.json"]
    for ranks, io in ((0, "gather"), (3, "server")):
        program.fresh()
        out = program.succeed(program.config(keys), f"parallel.io={io}", np=ranks).out
        check(out.splitlines()[-1] == "written: " + ", ".join(names), f"{io}: the log ends otherwise: {out}")
        check(len(program.files()) == 1 + 4 + 2 + 1 + 2 + 1, f"{io}: {sorted(program.files())}")
    out = program.succeed(program.config(), "output.path=out/v").out
    check(out.splitlines()[-1] == "written: out/v.00000003.hdf, out/v.xdmf, out/v.hdf.series", f"the log ends otherwise: {out}")
    check("written:" not in program.succeed("-b", "3", program.config()).out, "a benchmark without a file")


def check_attributes(file):
    found = {name: str(value) for name, value in file.attrs.items()}
    for name, value in (("step", "4"), ("time", "4.0"), ("mpi_ranks", "2"), ("backend", "host"), ("kernel", "simd"),
                        ("transport", "chunked"), ("equation", "jacobi")):
        check(found.get(name) == value, f"attribute {name} is {found.get(name)}, not {value}")
    for name, pattern in (("dt", r"[\d.]+"), ("created_by", "stencil 0[.]"), ("git_hash", r"\w+"), ("command", "run.ini"),
                          ("creation_date", r"20\d\d-\d\d-\d\d"), ("config", r"\[grid\]")):
        check(re.search(pattern, found.get(name, "")), f"attribute {name} is {found.get(name)!r}")


@case
def progress(program):
    """A line every 10 % into a file; one line redrawn in place on a terminal."""
    config = program.config({"time.steps": 200})
    out = program.succeed(config, np=2).out
    percents = [int(p) for p in re.findall(r"(\d+)\s?%", out)]
    check(sorted(set(range(10, 101, 10)) - set(percents)) == [], f"expected a line every 10 %:\n{out}")
    check(sum(p % 10 == 0 for p in percents) <= 12, f"more than a line every 10 %:\n{out}")
    check("\r" not in out and "\x1b" not in out, f"control characters in a file:\n{out!r}")
    check("%" not in re.sub(r"of copy.*|fraction.*", "", program.succeed(config, "report.progress=off").out).split(
        "Gpts/s")[0], "progress = off printed progress")
    whole = program.config({"time.steps": 400, "checkpoint.path": "out/c", "checkpoint.every_steps": 150})
    check_rates(program, program.succeed("--report", "r.json", whole, np=2).out, 400)
    check_rates(program, program.succeed("--report", "r.json", "--restart", "out/c.00000150.h5", whole).out, 400, 150)
    for n in (0, 2):  # mpirun gives its ranks a terminal or a pipe of its own making, whatever it writes to itself
        terminal = run_on_terminal(program, [config, "time.steps=3000"], n)
        check(terminal.code == 0, f"on a terminal: {terminal}")
        terminal = terminal.out
        check("\r" in terminal.replace("\r\n", "\n"), f"no redrawn line on a terminal: {terminal!r}")
        check(re.search(r"100\s?%", terminal) and "Gpts/s" in terminal, f"no last progress line: {terminal!r}")


def check_rates(program, out, steps, first=0):
    """Every line gives the step of the whole run and the rate of this process: the times computed from the rates rise to the
    report's time."""
    report = json.loads((program.folder / "r.json").read_text())
    done = [(int(n), float(rate)) for n, rate in re.findall(rf"step (\d+) of {steps}  (\S+) Gpts/s  elapsed", out)]
    check(len(done) == 10 - 10 * first // steps and done[-1][0] == steps == first + report["steps"], f"lines of {steps} steps: {done}")
    times = [1e-9 * math.prod(report["grid"]) * (n - first) / rate for n, rate in done]
    check(all(a < 1.001 * b for a, b in zip(times, times[1:])), f"rates that mean times of {times} s:\n{out}")
    check(math.isclose(times[-1], report["seconds"], rel_tol=1e-3), f"{times[-1]} s by the rate, {report['seconds']} s reported")


def run_on_terminal(program, args, ranks, columns=132):
    with Running(program, *args, np=ranks, columns=columns) as run:
        return run.wait()


@case
def terminal(program):
    """The progress line fits the terminal, and what follows it, errors too, has a line of its own."""
    endless = program.config({"time.steps": 10**7})
    breaks = program.config({"equation.type": "wave", "time.steps": 10**6, "time.dt": 1, "time.allow_unstable": "on"}, "breaks.ini")
    for n in (0, 2):
        for columns in (40, 66):
            result = run_on_terminal(program, [breaks], n, columns)
            check(result.code == 3, str(result))
            check(re.search(r"\x1b\[K\r\nstencil: error: step \d+: ", result.out), f"the error has no line of its own: {result.out!r}")
            drawn = re.findall(r"\r([^\r\n]*)\x1b\[K", result.out)
            check(drawn and max(map(len, drawn)) == columns - 1, f"not cut to {columns} columns: {drawn}")
        with Running(program, endless, np=n, columns=66) as run:
            run.wait_for(lambda: "%" in run.out(), "progress")
            os.kill(run.process.pid, signal.SIGUSR1)
            out = run.wait().out
        check(re.search(r"\r\nSIGUSR1 received: writing a checkpoint after step \d+ or soon after it\r\n", out), f"{n} ranks: {out!r}")
        check("\r\nstencil: stopped after step" in out, f"{n} ranks: {out!r}")


@case
def spared(program):
    """Open MPI opens no network on one node, and starts no daemon beside a process alone; what the user has set stands."""
    config = program.config({"time.steps": 10 ** 6})
    opened = r"component (\w+) open function successful"
    for n, choice, found, absent in ((0, {}, {"self"}, {"tcp"}), (2, {}, {"self", "tcp"}, {"openib", "ofi", "usnic"}),
                                     (0, {"OMPI_MCA_btl": "self,tcp"}, {"self", "tcp"}, set())):
        result = program.succeed("-n", config, np=n, env={"OMPI_MCA_btl_base_verbose": "20", **choice})
        names = set(re.findall(opened, result.out + result.err))
        if not names:
            skip("not Open MPI, or one that names its parts otherwise")
        check(found <= names and not absent & names, f"{n} ranks, {choice}: {names}")
    with Running(program, config) as run:
        run.wait_until_it_steps()
        children = subprocess.run(["ps", "-o", "comm=", "--ppid", str(run.process.pid)], capture_output=True, text=True, check=False).stdout
        check(not children, f"beside it: {children}")


@case
def lost_output(program):
    """stdout on a full disk, or not open: the run goes on, exit 2. A pipe that is closed: the run goes on, exit 0. So without a
    run."""
    config = program.config({"time.steps": 30})
    full = ["stencil: error: stdout: cannot write: No space left on device"]
    for args, what in (([config], "a run"), (["-n", config], "a dry run"), (["--version"], "--version"), (["--help"], "--help")):
        for target, code, errors in ((">/dev/full", 2, full), ("| true", 0, []), ("<&- >&- 2>&-", 2, [])):
            shell = f'"$@" {target}; exit ${{PIPESTATUS[0]}}'
            done = program.finish(["bash", "-c", shell, "bash", *program.command(args)])
            check(done.code == code and done.err.splitlines() == errors, f"{what} {target}: {done}")
            if what == "a run":
                check(program.field(30) is not None, "no field")
                program.fresh()
                program.config({"time.steps": 30})


@case
def bound_cores(program):
    """A warning where mpirun leaves no rank its cores, and only there: not where ranks divide them unevenly, and
    not where taskset does it. Where it binds a rank on its own account the rank uses all cores all the same."""
    if len(os.sched_getaffinity(0)) < 2:
        skip("one core")
    one = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
    default = ("env", "-u", "OMPI_MCA_hwloc_base_binding_policy")
    core = ["--bind-to", "core"]
    for n, launch, by in ((1, core, ()), (1, (), ()), (3, (), ()), (1, (), one), (1, (), default), (1, (), (*one, *default)),
                          (1, core, default)):
        run = program.run(program.config(), "--verbose", np=n, launch=launch, by=by)
        if n == 1:
            threads = 1 if launch or by[:2] == one[:2] else len(os.sched_getaffinity(0))
            check(f" {threads} thread" in run.out, f"{launch}, {by}: not on {threads} cores: {run}")
        warned = "--bind-to none lets them use all" in run.out + run.err
        check(run.code == 0 and warned == bool(launch), f"{n} ranks, {launch}, {by}: {run}")


@case
def cuda(program):
    """Every CUDA kernel gives the host's bits, each in one of the ways below: test_kernels and test_step try the
    kernels in all sizes, with all rules, on several ranks, in one process; a run of the program takes seconds."""
    program.skip_without_cuda()
    table = (SOURCE / "kernels/kernels.def").read_text()
    kernels = program.kernels_here(re.findall(r'^\{"(\w+)", BACKEND_CUDA', table, re.MULTILINE))
    mirrors = {"boundary.x_lo": "dirichlet", "boundary.x_hi": "neumann"}
    periodic = {"boundary.x": "periodic", "boundary.y": "periodic"}
    grids = [((40, 64, 96), {}), ((37, 29, 45), {}), ((9, 130, 33), {}), ((40, 34, 96), mirrors), ((20, 34, 44), periodic),
             ((20, 9, 43), mirrors)]
    ways = [(0, 0, "on"), (3, 2, "on"), (1, 3, "on"), (4, 0, "on"), (0, 2, "off"), (2, 2, "on"), (3, 0, "on"), (5, 2, "on"),
            (4, 2, "on"), (0, 2, "on")]  # grid, ranks, overlap
    check(2 <= len(kernels) <= len(ways), f"{len(kernels)} CUDA kernels in kernels.def: add a way for each")
    expected = {}
    for number, (grid, n, overlap) in enumerate(ways):
        shape, faces = grids[grid]
        keys = {**dict(zip(("grid.nz", "grid.ny", "grid.nx"), shape)), **JACOBI, **faces, "time.steps": 9}
        if grid not in expected:
            program.succeed(program.config({**keys, "device.kernel": "reference"}))
            expected[grid] = program.field(9)
        kernel = kernels[number % len(kernels)]
        program.succeed(program.config({**keys, "device.backend": "cuda", "device.kernel": kernel}),
                        f"parallel.overlap={overlap}", "output.path=out/gpu", np=n)
        check(same_bits(program.field(9, "out/gpu"), expected[grid]), f"{shape} {kernel} {n} ranks overlap {overlap}")
    print(f"{', '.join(kernels)}: the host's bits")


if __name__ == "__main__":
    main(without_h5py=("cuda",))
