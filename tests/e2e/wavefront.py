#!/usr/bin/env python3
"""Kernel `wavefront` as a user runs it: the bits of `reference`, in fields and traces, whatever else is done.
   wavefront.py CASE STENCIL MPIEXEC   |   --list
"""
import json
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import case, check, h5py, main, np, same_bits, write_field

SHAPE = (96, 61, 33)
STEPS = 23  # odd, and not a multiple of a pass
SOURCES = {"source.1.position": "117 86 118", "source.1.wavelet": "ricker", "source.1.f0": 25,
           "source.2.position": "31.7 152.2 455", "source.2.wavelet": "gaussian", "source.2.f0": 30}
WAVE = {"equation.type": "wave", "medium.velocity": "model.h5:/vp", **SOURCES}
RUNS = {"jacobi": {"receivers.every": 3},
        "heat": {"equation.type": "heat", "medium.diffusivity": "model.h5:/vp", "boundary.y": "neumann",
                 "boundary.z": "dirichlet"},
        "heat, y and x periodic": {"equation.type": "heat", "medium.diffusivity": 2, "boundary.y": "periodic",
                                   "boundary.x": "periodic", "receivers.positions": "around.h5:/xyz"},
        "wave, 2D": {**WAVE, "grid.ny": 1, "medium.velocity": 2000, "initial.u": "random", "boundary.x": "periodic",
                     "boundary.z": "neumann"},
        "wave, 1D": {**WAVE, "grid.nx": 1, "grid.ny": 1, "medium.velocity": 2000, "initial.u": "random"},
        "wave, reflecting": {**WAVE, "boundary.all": "neumann", "boundary.z_lo": "dirichlet", "receivers.every": 2},
        "wave, absorbing": {**WAVE, "boundary.all": "absorbing", "boundary.width": 7, "boundary.z_lo": "dirichlet"}}


def prepare(program):
    """Receivers in no order: on every plane and row, between it and the next one, anywhere, several at a place."""
    random = np.random.default_rng(8)
    write_field(program.folder / "model.h5", random.uniform(1500, 3000, SHAPE).astype(np.float32), "vp")
    write_field(program.folder / "in.h5", random.uniform(-1, 1, SHAPE).astype(np.float32))
    last = np.array(SHAPE[::-1]) - 1
    places = random.uniform(0, 1, (700, 3)) * last
    for axis in (1, 2):
        for first, beyond in ((0, 0), (100, 0.4)):
            points = np.arange(last[axis] + 1)
            places[200 * axis + first:200 * axis + first + len(points), axis] = np.minimum(points + beyond, last[axis])
    places[:40] = places[640:680]
    write_field(program.folder / "places.h5", 10 * random.permutation(places), "xyz")
    write_field(program.folder / "around.h5", 10 * random.permutation(places) * [1.03, 1.015, 1], "xyz")  # some beyond the last


def keys_of(changes):
    nz, ny, nx = SHAPE
    return {"grid.nx": nx, "grid.ny": ny, "grid.nz": nz, "time.steps": STEPS, "initial.u": "in.h5:/u",
            **{f"grid.d{axis}": 10 for axis in "xyz"}, "receivers.positions": "places.h5:/xyz", **changes}


def answer(program, keys, *args, ranks=0):
    """(log, [the last field, traces])."""
    log = program.succeed(program.config(keys), *args, np=ranks).out
    with h5py.File(program.folder / "out/u.receivers.h5", "r") as file:
        return log, [program.field(STEPS), file["u"][...]]


def agree(what, found, expected):
    check(all(map(same_bits, found, expected)), f"{what}: other bits")


@case
def bits(program):
    """One to four threads, any number of steps a pass, checks that a pass must end at, a restart from the middle of one."""
    prepare(program)
    cache = program.root / "cache/stencil/kernels.json"
    ways = (3, 2, {}), (1, 3, {"report.check_every": 5}), (4, 4, {}), (2, 6, {"checkpoint.every_steps": 11})
    for number, (name, changes) in enumerate(RUNS.items()):
        _, expected = answer(program, keys_of({**changes, "device.kernel": "reference"}))
        check(all(np.isfinite(a).all() and np.ptp(a) > 0 for a in expected), f"{name}: not a field to test with")
        for threads, steps, more in ways if "absorbing" in name else ways[number % 2::2]:  # test_wavefront tries more of each equation
            keys = keys_of({**changes, "device.kernel": "wavefront", "device.threads": threads, **more})
            cache.unlink(missing_ok=True)
            log, found = answer(program, keys)  # measures and remembers
            check(int(re.search(r"steps a pass: (\d)", log).group(1)) > 1, f"{name}: no wavefront: {log}")
            agree(f"{name} on {threads} threads", found, expected)
            cache.write_text(json.dumps({key: {"interior": str(steps), "boundary": "-"} for key in json.loads(cache.read_text())}))
            restart = ["--restart", "auto"] if "checkpoint.every_steps" in more else []
            if restart:
                (program.folder / f"out/u.checkpoint.{22:08d}.h5").unlink()
            log, found = answer(program, keys, *restart)
            check(f"steps a pass: {min(steps, more.get('report.check_every', 9))} (as rem" in log, f"{steps} steps a pass: {log}")
            agree(f"{name} on {threads} threads, {steps} steps a pass", found, expected)
        print(f"{name}: all ways agree")


@case
def falls_back(program):
    """Where a wavefront is impossible the run takes one step a pass: the log says why, and the bits are the same."""
    prepare(program)
    for why, changes, ranks in (("z is periodic", {"boundary.z": "periodic"}, 0), ("its neighbours' planes", WAVE, 2),
                                ("checked after every step", {**WAVE, "report.check_every": 1}, 0)):
        _, expected = answer(program, keys_of({**changes, "device.kernel": "reference"}))
        log, found = answer(program, keys_of({**changes, "device.kernel": "wavefront"}), ranks=ranks)
        check("kernel wavefront: one step a pass, since" in log and why in log, f"expected '{why}' in: {log}")
        agree(why, found, expected)


@case
def automatic(program):
    """`auto` measures how many steps a pass where fields are large, once, and remembers; the bits are those of `simd`."""
    keys = {"grid.nx": 192, "grid.ny": 160, "grid.nz": 96, "time.steps": 9}
    program.succeed(program.config({**keys, "device.kernel": "simd"}))
    expected = program.field(9)
    for ranks, word in ((0, "measured now"), (0, "as remembered in"), (2, None)):
        log = program.succeed(program.config({**keys, "device.kernel": "auto"}), np=ranks).out
        line = [text for text in log.splitlines() if "steps a pass" in text]
        check(bool(line) == (word is not None) and (word or "") in "".join(line), f"expected '{word}' in: {log}")
        check(same_bits(program.field(9), expected), f"auto on {ranks} ranks: other bits")


if __name__ == "__main__":
    main()
