#!/usr/bin/env python3
"""Kernel `wavefront` as a user runs it: the bits of `reference` on one rank, whatever else is done.
   wavefront.py CASE STENCIL MPIEXEC   |   --list

Exit 0: as specified; 1: not, saying how; 77: cannot be checked here, saying why.
"""
import itertools
import json
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import case, check, h5py, main, np, same_bits, write_field

SHAPE = (52, 47, 33)  # tiles of y; slabs of 13 planes on 4 ranks leave room for 3 steps
DEEP = (96, 61, 32)  # slabs of 24 planes on 4 ranks leave room for 6; rows of whole vectors: no images in x in memory
STEPS = 23  # odd, and not a multiple of a pass
PLACES = {"source.1.position": "117 86 118", "source.1.wavelet": "ricker", "source.1.f0": 25,
          "source.2.position": "31.7 152.2 255", "source.2.wavelet": "gaussian", "source.2.f0": 30,
          "source.3.position": "31.7 152.2 131", "source.3.wavelet": "ricker", "source.3.f0": 20,
          "source.4.position": "88 60.5 6", "source.4.wavelet": "ricker", "source.4.f0": 25,
          "receivers.line": "20.5 33 5 150 190.1 430 86", "receivers.every": 7}
WAVE = {"equation.type": "wave", "medium.velocity": "model.h5:/vp", **PLACES}
RUNS = {"jacobi": {},
        "heat": {"equation.type": "heat", "medium.diffusivity": "model.h5:/vp", "boundary.y": "neumann",
                 "boundary.z": "dirichlet"},
        "heat, one diffusivity, z periodic": {"equation.type": "heat", "medium.diffusivity": 2, "boundary.z": "periodic",
                                              "boundary.x": "periodic"},
        "wave, fixed": {**WAVE, "boundary.value": 0.3},
        "wave, reflecting": {**WAVE, "boundary.all": "neumann", "boundary.z_lo": "dirichlet",
                             "boundary.y_hi": "dirichlet"},
        "wave, z and x periodic": {**WAVE, "boundary.x": "periodic", "boundary.y": "neumann", "boundary.z": "periodic",
                                   "source.2.position": "325 455.5 516", "receivers.line": "20.5 33 5 345 460 530 86"},
        "wave, y and z periodic": {**WAVE, "boundary.x": "neumann", "boundary.y": "periodic", "boundary.z": "periodic",
                                   "source.2.position": "31.7 465 516", "receivers.line": "20.5 33 5 320 490 530 86"},
        "wave, 2D": {**WAVE, "grid.ny": 1, "medium.velocity": 2000, "initial.u": "random", "boundary.x": "periodic",
                     "boundary.z": "neumann"},
        "wave, 1D": {**WAVE, "grid.nx": 1, "grid.ny": 1, "medium.velocity": 2000, "initial.u": "random",
                     "boundary.z": "periodic", "receivers.line": "0 0 5 0 0 530 86"},
        "wave, absorbing": {**WAVE, "boundary.all": "absorbing", "boundary.width": 7, "boundary.z_lo": "dirichlet",
                            "boundary.y_lo": "neumann"},
        "jacobi, all periodic": {"boundary.all": "periodic"}}


def keys_of(changes, shape=SHAPE):
    nz, ny, nx = shape
    size = {"grid.nx": nx, "grid.ny": ny, "grid.nz": nz, "time.steps": STEPS, "initial.u": "in.h5:/u"}
    spacing = {f"grid.d{axis}": 10 for axis in "xyz"} if "equation.type" in changes else {}
    return {**size, **spacing, **changes}


def prepare(program, shape=SHAPE):
    random = np.random.default_rng(8)
    write_field(program.folder / "model.h5", random.uniform(1500, 3000, shape).astype(np.float32), "vp")
    write_field(program.folder / "in.h5", random.uniform(-1, 1, shape).astype(np.float32))


def prepare_receivers(program, shape):
    """In no order: on every plane and row, between it and the next one, anywhere, at the sources, several at a place."""
    random = np.random.default_rng(4)
    last = np.array(shape[::-1]) - 1
    places = random.uniform(0, 1, (700, 3)) * last
    planes, rows = np.arange(shape[0]), np.arange(shape[1])
    places[:shape[0], 2] = planes
    places[100:100 + shape[0], 2] = np.minimum(planes + 0.4, last[2])
    places[200:200 + shape[1], 1] = rows
    places[300:300 + shape[1], 1] = np.minimum(rows + 0.7, last[1])
    places[400:440, random.integers(0, 3, 40)] = np.round(places[400:440, random.integers(0, 3, 40)])
    places[440:460] = np.where(random.integers(0, 2, (20, 3)), last, places[440:460])
    places[460:500] = places[:40]
    sources = [[float(x) / 10 for x in text.split()] for key, text in PLACES.items() if key.endswith("position")]
    places[500:500 + len(sources)] = sources
    write_field(program.folder / "places.h5", 10 * random.permutation(places), "xyz")
    write_field(program.folder / "around.h5", 10 * random.permutation(places) * [1.03, 1, 1.01], "xyz")  # some beyond the last


def answer(program, keys, *args, ranks=0):
    """(log, the last field, traces if there are any)."""
    log = program.succeed(program.config(keys), *args, np=ranks).out
    found = [program.field(STEPS)]
    if any(key.startswith("receivers.") for key in keys):
        with h5py.File(program.folder / "out/u.receivers.h5", "r") as file:
            found.append(file["u"][...])
    return log, found


def agree(what, found, expected):
    check(len(found) == len(expected) and all(map(same_bits, found, expected)), f"{what}: other bits")


def steps_a_pass(log):
    return re.search(r"steps a pass: (.*) \(", log).group(1)


MANNERS = itertools.cycle(("plain", "eager", "tall"))  # of passes: the bits are the same
MEASURED = set()  # runs that the file of this case's folder remembers


def answer_in_passes(program, keys, steps, *args, ranks=0):
    """As answer(), with passes of so many steps: the file that remembers measurements says so."""
    run = (ranks, *map(keys.get, ("equation.type", "boundary.y", "boundary.z", "device.threads", "checkpoint.every_steps")))
    if run not in MEASURED:
        elsewhere = {"output.path": "out/short", "checkpoint.path": "out/short", "time.steps": 9}
        program.succeed(program.config({**keys, **elsewhere}), np=ranks)  # measures and remembers; at most 8 steps a pass as well
        MEASURED.add(run)
    cache = program.root / "cache/stencil/kernels.json"
    manner = next(MANNERS)
    names = {"interior": steps, "boundary": manner}
    cache.write_text(json.dumps({key: names for key in json.loads(cache.read_text())}))
    log, found = answer(program, keys, *args, ranks=ranks)
    taken = "plain" if manner == "tall" and keys.get("boundary.y") == "periodic" else manner  # there all tiles have all rows
    check(steps_a_pass(log) == steps and f"({taken}, " in log, f"expected {steps} steps a pass, {taken}: {log}")
    return log, found


@case
def bits(program):
    """1 to 4 ranks, one to three threads, overlap on and off; every boundary it is for; sources; receivers; checks
    and an odd number of steps that a pass must end at."""
    prepare(program)
    for name, changes in RUNS.items():
        keys = keys_of(changes)
        _, expected = answer(program, {**keys, "device.kernel": "reference"})
        check(all(np.isfinite(a).all() and np.ptp(a) > 0 for a in expected), f"{name}: not a field to test with")
        keys = {**keys, "device.kernel": "wavefront"}
        for ranks, more in ((0, {"device.threads": 3}), (0, {"device.threads": 1, "report.check_every": 5}),
                            (2, {"parallel.overlap": "off"}), (3, {"device.threads": 2}), (4, {})):
            if ranks and "absorbing" in keys.values():
                continue  # one step a pass: falls_back
            log, found = answer(program, {**keys, **more}, ranks=ranks)
            steps = steps_a_pass(log)
            check(int(steps) > 1, f"{name}: no wavefront: {log}")
            agree(f"{name} on {ranks} ranks, {more}, {steps} steps a pass", found, expected)
        print(f"{name}: all ways agree")


@case
def restart(program):
    """Goes on from a checkpoint at a step that is no multiple of a pass."""
    prepare(program)
    keys = keys_of({**RUNS["wave, reflecting"], "checkpoint.path": "out/c"})
    _, expected = answer(program, {**keys, "device.kernel": "reference"})
    keys["device.kernel"] = "wavefront"
    program.succeed(program.config({**keys, "checkpoint.every_steps": 11}), np=2)
    (program.folder / f"out/u.{STEPS:08d}.hdf").unlink()
    for ranks in (0, 3):
        log, found = answer(program, {**keys, "checkpoint.every_steps": 11}, "--restart", "auto", ranks=ranks)
        agree(f"restarted on {ranks} ranks", found, expected)
        check("restart" in log, f"did not restart: {log}")


@case
def receivers(program):
    """Many receivers, sampled after every step or every few, inside passes of 3 to 8 steps: the traces of steps one by
    one, on 1 to 4 ranks, with tiles and chunks, from the start and from a checkpoint in the middle."""
    prepare(program, DEEP)
    prepare_receivers(program, DEEP)
    runs = {"jacobi": ({}, (1,)), "wave, reflecting": (RUNS["wave, reflecting"], (1, 2, 3)),
            "wave, z and x periodic": (RUNS["wave, z and x periodic"], (1, 2))}
    ways = ((0, 1, "8"), (0, 4, "7"), (0, 6, "4"), (2, 4, "5"), (3, 2, "8"), (4, 3, "3"), (4, 1, "6"), (2, 3, "2"))
    for name, (changes, intervals) in runs.items():
        changes = {**changes, "receivers.line": None}
        for every in intervals:
            places = "around.h5:/xyz" if "z and x periodic" in name else "places.h5:/xyz"
            keys = keys_of({**changes, "receivers.positions": places, "receivers.every": every,
                            "checkpoint.path": "out/c"}, DEEP)
            if name == "jacobi":
                keys.update({f"grid.d{axis}": 10 for axis in "xyz"})
            _, expected = answer(program, {**keys, "device.kernel": "reference" if every == 3 else "simd"})
            check(expected[1].shape == (STEPS // every + 1, 700) and np.isfinite(expected[1]).all(),
                  f"{name}: not traces to test with")
            all_ways = every == 1 and name == "wave, reflecting"
            for ranks, threads, cut in ways if all_ways else ways[every - 1::3]:
                more = {"device.kernel": "wavefront", "device.threads": threads}
                _, found = answer_in_passes(program, {**keys, **more}, cut, ranks=ranks)
                agree(f"{name}, every {every}: {ranks} ranks, {threads} threads, {cut} steps a pass", found, expected)
            if every != 2:
                continue
            more["checkpoint.every_steps"] = 11
            answer_in_passes(program, {**keys, **more}, "4", ranks=2)
            (program.folder / f"out/u.{STEPS:08d}.hdf").unlink()
            (program.folder / "out/u.receivers.h5").unlink()
            log, found = answer_in_passes(program, {**keys, **more}, "5", "--restart", "auto", ranks=3)
            agree(f"{name}, every {every}, restarted", found, expected)
            check("restart" in log, f"did not restart: {log}")
            for checkpoint in program.folder.glob("out/c.*"):
                checkpoint.unlink()
        print(f"{name}: all ways agree")


@case
def falls_back(program):
    """Where a wavefront is impossible the run takes one step a pass: the log says why, and the bits are the same."""
    prepare(program)
    for why, changes, ranks in (
            ("absorbing layers", {**WAVE, "boundary.all": "absorbing", "boundary.width": 5}, 2),
            ("checked after every step", {**WAVE, "report.check_every": 1}, 0),
            ("52 planes on 8 ranks", {}, 8)):
        keys = keys_of(changes)
        _, expected = answer(program, {**keys, "device.kernel": "reference"})
        log, found = answer(program, {**keys, "device.kernel": "wavefront"}, ranks=ranks)
        check("kernel wavefront: one step a pass, since" in log and why in log, f"expected '{why}' in: {log}")
        agree(why, found, expected)


@case
def automatic(program):
    """`auto` measures how many steps a pass where fields are large, once, and remembers; the bits are those of `simd`."""
    keys = {"grid.nx": 192, "grid.ny": 160, "grid.nz": 96, "time.steps": 9}
    program.succeed(program.config({**keys, "device.kernel": "simd"}))
    expected = program.field(9)
    log = program.succeed("--dry-run", program.config({**keys, "device.kernel": "wavefront"})).out
    check(re.search(r"steps a pass: up to \d+ \(a run measures", log), f"expected no measurement in a dry run: {log}")
    for ranks, word in ((0, "measured now"), (0, "as remembered in"), (2, None)):
        log = program.succeed(program.config({**keys, "device.kernel": "auto"}), np=ranks).out
        check(("steps a pass" in log) == (word is not None) and (word or "") in log, f"expected '{word}' in: {log}")
        check(same_bits(program.field(9), expected), f"auto on {ranks} ranks: other bits")
    check("steps a pass" not in program.succeed(program.config({"device.kernel": "auto"})).out, "measured a small grid")


if __name__ == "__main__":
    main()
