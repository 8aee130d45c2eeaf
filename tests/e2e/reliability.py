#!/usr/bin/env python3
"""Restarts: N steps are k steps and N - k; whose checkpoints they are; what a restart refuses.
reliability.py CASE STENCIL MPIEXEC   |   reliability.py --list
"""
import os
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import Running, case, check, h5py, main, same_bits
from run_files import RESTARTS, ORIGIN, check_same, checkpoints, model, series_of


@case
def restart_bits(program):
    """N steps are k steps, a restart, and N - k steps: fields, series and traces, on other numbers of ranks."""
    for number, (name, changes, kernel, runs) in enumerate(RESTARTS):
        program.fresh()
        model(program)
        config = program.config({"grid.nx": 20, "grid.ny": 14, "grid.nz": 26, "time.steps": 20, "output.every": 3,
                                 "checkpoint.path": "out/c", **changes})
        receivers = "receivers.every" in changes
        program.succeed("-q", config, "output.path=out/ref", f"device.kernel={kernel}")
        for place, (ranks, last, extra) in enumerate(runs):
            chosen = ["--restart", max(checkpoints(program).items())[1] if number % 2 else "auto"] if place else []
            options = [f"time.steps={last}", "checkpoint.every_steps=1" if number == 0 else f"checkpoint.every_steps={last}"]
            result = program.succeed(*chosen, config, *options, *extra, np=ranks)
            check(not place or f"step {runs[place - 1][1]}\n" in result.out, f"{name}: not from the checkpoint: {result}")
        check_same(program, "out/u", "out/ref", receivers, name, [last for _, last, _ in runs])
        print(f"{name}: {' -> '.join(str(ranks) for ranks, _, _ in runs)} ranks")
    other_keys(program)


def other_keys(program):
    """Goes on from the last run of restart_bits with other harmless keys."""
    last = max(checkpoints(program).items())[1]
    program.succeed("-q", "run.ini", "output.path=out/longer", "time.steps=26", "output.every=0", "checkpoint.path=out/none")
    result = program.succeed("--restart", last, "run.ini", "output.path=out/more", "time.steps=26", "output.every=0",
                             "checkpoint.path=out/d", "checkpoint.every_steps=4", "checkpoint.keep=1", np=3)
    check(list(checkpoints(program, "out/d")) == [24], f"keep = 1 kept {checkpoints(program, 'out/d')}: {result}")
    check_same(program, "out/more", "out/longer", True, "another output.path, more steps")
    # Nothing is left to do, or less than nothing: the state is saved once more.
    for steps in (20, 12):
        result = program.succeed("--restart", last, "run.ini", f"time.steps={steps}", "output.path=out/done")
        check(f"nothing is left to do: the checkpoint is of step 20, the run ends at step {steps}\n" in result.out, str(result))
        check(same_bits(program.field(20, "out/done"), program.field(20, "out/ref")), f"time.steps={steps}: other bits")
    # Nor is the last field taken for saved where `every` would have had it saved: the run before had another one, or another path.
    for number, (every, options) in enumerate(((1, ["output.final=off"]), (5, ["parallel.io=server"]), (4, []), (20, []))):
        path = f"out/due{number}"
        printed = program.succeed("-n", "--restart", last, "run.ini", f"output.path={path}", f"output.every={every}", *options, np=2)
        check(f"output: 1 file {path}." in printed.out, f"dry run: {printed}")
        program.succeed("-q", "--restart", last, "run.ini", f"output.path={path}", f"output.every={every}", *options, np=2)
        check(same_bits(program.field(20, path), program.field(20, "out/ref")), f"{path}: other bits")
        check([step for step, _ in series_of(program, path)] == [20], f"{path}: {series_of(program, path)}")
    # A field after no step at all is the last one, too.
    program.succeed("-q", "run.ini", "output.path=out/zero", "time.steps=0", "output.every=1", "checkpoint.path=out/zero")
    check(same_bits(program.field(0, "out/zero"), program.field(0, "out/ref")), "time.steps=0, output.every=1: other bits")
    check("restart from" not in program.run("run.ini", "time.steps=2", "output.path=out/none").out, "restarted unasked")


# --- whose checkpoints they are -----------------------------------------------------------------------------------

SHARED = {"grid.nx": 20, "grid.ny": 14, "grid.nz": 26, "time.steps": 12, "equation.type": "wave", "medium.velocity": 2000,
          "output.path": "out/A", "checkpoint.every_steps": 4}
OTHER = ["output.path=out/B", "medium.velocity=1800", "checkpoint.every_steps=1"]
MOVED = re.compile(r"moved aside (\d+) \w+ of an earlier one to (\S+)\.\*\.h5, the newest of step (\d+), from which --restart auto "
                   "would have continued")


def contents(program):
    """All files in out/ by name, for a later comparison."""
    return {name: (program.folder / name).read_bytes() for name in program.files() if name.startswith("out/")}


def go_on_from(program, config, restart, path, expected, *options):
    """The run ends with the bits of step 20 that it would have had undisturbed."""
    program.succeed("-q", "--restart", restart, config, "time.steps=20", f"output.path={path}", *options)
    check(same_bits(program.field(20, path), expected), f"restart from {restart}: other bits")


@case
def ownership(program):
    """Runs in one folder, with one path, a forgotten --restart, files of others: every checkpoint is kept that is not the run's own."""
    config = program.config(SHARED)
    program.succeed("-q", config, "time.steps=20", "output.path=out/ref", "checkpoint.every_steps=0")
    expected = program.field(20, "out/ref")
    for ranks, io in ((0, "auto"), (3, "server"), (2, "gather")):
        program.remove("out/[ABc].*")
        program.succeed("-q", config, f"parallel.io={io}", np=ranks)
        program.succeed("-q", config, *OTHER, f"parallel.io={io}", np=ranks)  # paths of their own, by default
        check([sorted(checkpoints(program, f"out/{run}.checkpoint")) for run in "AB"] == [[8, 12], [11, 12]],
              f"{io}: {sorted(program.files())}")
        go_on_from(program, config, "auto", "out/A", expected)
        one_path(program, config, expected, ranks, io)


def one_path(program, config, expected, ranks, io):
    """Run A, then B under A's path, then a new start of B: two groups of others, and each can be gone on from."""
    path, options = "checkpoint.path=out/c", {"np": ranks}
    program.succeed("-q", config, path, f"parallel.io={io}", **options)
    before = contents(program)
    program.fail(2, ["absent.h5"], config, path, "initial.u=absent.h5:/u", **options)
    program.succeed("-n", config, path, **options)
    program.succeed("-b", "3", config, path, **options)
    check(contents(program) == before, f"{io}: a run that does not begin has moved files: {sorted(program.files())}")
    for number, newest in ((1, 12), (2, 12)):
        result = program.succeed(config, path, *OTHER, f"parallel.io={io}", **options)
        printed = MOVED.findall(result.out)
        check(printed == [("2", f"out/c.old{number}", str(newest))], f"{io}: start {number} said {printed}: {result}")
    for name in ("out/c.00000008.h5", "out/c.00000012.h5"):
        moved = (program.folder / name.replace("c.", "c.old1.")).read_bytes()
        check(moved == before[name], f"{io}: another {name} was moved aside")
    check([sorted(checkpoints(program, p)) for p in ("out/c", "out/c.old1", "out/c.old2")] == [[11, 12], [8, 12], [11, 12]],
          f"{io}: {sorted(program.files())}")
    program.fail(2, ["out/c.00000012.h5", "[medium] velocity"], "-q", "--restart", "auto", config, path, np=ranks)
    go_on_from(program, config, "out/c.old1.00000012.h5", "out/A", expected, path)
    check({11, 12} <= set(checkpoints(program)), f"{io}: a restart took others' checkpoints: {sorted(program.files())}")
    result = program.succeed("--restart", "auto", config, *OTHER, path, "time.steps=14", f"parallel.io={io}", np=ranks)
    check("step 12\n" in result.out and result.out.count("passed over: out/c.00000") == 2  # A's, of steps 16 and 20
          and "2 other files out/c.*.h5: kept" in result.out, f"{io}: not from the newest of its own: {result}")
    check(sorted(checkpoints(program)) == [13, 14, 16, 20], f"{io}: others' checkpoints are gone: {sorted(program.files())}")


@case
def ownership_text(program):
    """A file that has a checkpoint's name but is none is neither deleted nor replaced."""
    config = program.config({**SHARED, "checkpoint.path": "out/c", "checkpoint.every_steps": 2})
    program.succeed("-q", config, "time.steps=20", "output.path=out/ref", "checkpoint.every_steps=0")
    program.succeed("-q", config, "time.steps=4")
    for step in (3, 6):  # one of a step that the run never saves, one that stands in its way
        (program.folder / f"out/c.{step:08d}.h5").write_text(f"notes {step}")
    result = program.succeed("--restart", "auto", config, "time.steps=20")
    check("step 4\n" in result.out, f"not from step 4: {result}")
    kept = {name: text for name, text in contents(program).items() if text.startswith(b"notes")}
    check(kept == {"out/c.00000003.h5": b"notes 3", "out/c.old1.00000006.h5": b"notes 6"}, f"the texts are {kept}")
    check(sorted(checkpoints(program)) == [3, 18, 20], f"checkpoints {checkpoints(program)}")
    check(same_bits(program.field(20, "out/A"), program.field(20, "out/ref")), "other bits")
    program.succeed("-q", config)
    check((program.folder / "out/c.old2.00000003.h5").read_bytes() == b"notes 3", f"{sorted(program.files())}")


@case
def ownership_at_once(program):
    """Two runs save under one path at the same time, and at the same steps: both can be gone on from their last."""
    config = program.config({**SHARED, "checkpoint.path": "out/c", "checkpoint.every_steps": 1, "time.steps": 150})
    runs = {2000: "A", 1800: "B"}
    for v, name in runs.items():
        program.succeed("-q", config, f"medium.velocity={v}", "time.steps=160", f"output.path=out/ref{name}",
                        "checkpoint.every_steps=0", "checkpoint.path=out/none")
    with Running(program, "-q", config) as first:
        program.succeed("-q", config, "medium.velocity=1800", "output.path=out/B")
        check(first.wait().code == 0, f"the first run: {first.result()}")
    newest = {}
    for name in program.files():
        if re.fullmatch(r"out/c(\.old\d+)?\.00000150\.h5", name):
            with h5py.File(program.folder / name, "r") as file:
                lines = file["fingerprint"][()].decode().splitlines()
                newest[round(float(lines[lines.index("[medium] velocity") + 1]))] = name
    check(set(newest) == set(runs), f"the last checkpoints are {newest}: {sorted(program.files())}")
    for v, name in runs.items():
        program.succeed("-q", "--restart", newest[v], config, f"medium.velocity={v}", "time.steps=160", f"output.path=out/{name}")
        check(same_bits(program.field(160, f"out/{name}"), program.field(160, f"out/ref{name}")), f"{name}: other bits")


# --- refused restarts ---------------------------------------------------------------------------------------------

REFUSED = [
    (["grid.nx=21"], "[grid] nx"), (["grid.nz=27"], "[grid] nz"), (["grid.dy=2.75"], "[grid] dx dy dz"),
    (["grid.origin=0 0 1"], "[grid] origin"), (["equation.space_order=6"], "[equation] space_order"),
    (["time.dt=1e-4"], "[time] dt"), (["medium.velocity=1999"], "[medium] velocity"),
    (["medium.velocity=in.h5:/v"], "[medium]"),
    (["boundary.x_hi=neumann"], "[boundary] x_hi"), (["boundary.width=6"], "[boundary] x_lo"),
    (["source.1.f0=61"], "[source.1]"), (["source.2.amplitude=4"], "[source.2]"),
    (["source.3.position=9 9 9", "source.3.wavelet=ricker", "source.3.f0=50"], "[source.3]"),
    (["receivers.every=4"], "[receivers]"), (["receivers.line=3 4 3.3 34 30 20 8"], "[receivers]"),
]


def damaged(program, good):
    """Files that are no checkpoint of this program: name, words of the message."""
    whole = (program.folder / good).read_bytes()
    middle = len(whole) // 2
    for name, content, words in (
            ("cut.h5", whole[:middle], ["damaged", str(middle)]), ("empty.h5", b"", ["not a checkpoint"]),
            ("flipped.h5", whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1:], ["damaged"]),
            ("grown.h5", whole + b"\0", ["damaged"]), ("noise.h5", os.urandom(5000), ["not a checkpoint"]),
            ("old.h5", b"stencil checkpoint\nformat 2\nwhatever".ljust(600), ["format 2, but this program reads"]),
            ("run.h5", (program.folder / "run.ini").read_bytes(), ["not a checkpoint"])):
        (program.folder / name).write_bytes(content)
        yield name, words
    yield "in.h5", ["not a checkpoint"]
    yield "absent.h5", ["No such file"]
    yield "out", ["directory"]
    yield "no/such/c.h5", ["No such file"]


@case
def restart_refused(program):
    """A checkpoint of another run, and a file that is none, are refused; auto goes back to an older one, or to the start."""
    model(program)
    config = program.config({"grid.nx": 20, "grid.ny": 14, "grid.nz": 26, "time.steps": 8, **RESTARTS[3][1],
                             "checkpoint.path": "out/c", "checkpoint.every_steps": 4})
    result = program.succeed("--restart", "auto", config, "output.path=out/ref")
    check("from the start" in result.out, f"auto without a checkpoint does not say so: {result}")
    good = checkpoints(program)
    check(list(sorted(good)) == [4, 8], f"checkpoints {good}")
    for number, (changes, key) in enumerate(REFUSED):
        ranks = 3 if number % 6 == 0 else 0
        for dry in ([], ["-n"]):
            program.fail(2, [good[8], key], "-q", *dry, "--restart", good[8] if number % 2 else "auto", config, *changes, np=ranks)
    heat = program.config({"grid.nx": 20, "grid.ny": 14, "grid.nz": 26, "equation.type": "heat", **ORIGIN}, "heat.ini")
    program.fail(2, [good[8], "[equation] type", "heat", "wave"], "-q", "--restart", good[8], heat)
    for number, (name, words) in enumerate(damaged(program, good[8])):
        program.fail(2, [name, *words], "-q", "--restart", name, config, np=3 if number == 0 else 0)
    program.fail(2, ["absent.h5"], "--dry-run", "--restart", "absent.h5", config)
    program.succeed("--dry-run", "--restart", good[4], config)
    program.succeed(config, "medium.velocity=in.h5:/v", "checkpoint.path=out/rough", "output.path=out/rough")
    program.fail(2, ["out/rough.00000008.h5", "[medium] velocity"], "-q", "--restart", "auto", config,
                 "medium.velocity=in.h5:/upside_down", "checkpoint.path=out/rough")
    missing_axis(program)
    fall_back(program, config, good)


def missing_axis(program):
    """Nothing of an axis of one point counts. Sources on walls had half their weight in earlier versions: a checkpoint says so."""
    keys = {"grid.nx": 20, "grid.ny": 1, "grid.nz": 26, "equation.type": "wave", "time.steps": 8, "checkpoint.every_steps": 4,
            "boundary.z": "neumann", "source.1.position": "9 1e5 0.25", "source.1.f0": 50, "checkpoint.path": "out/flat"}
    config = program.config(keys, "flat.ini")
    for position, printed in (("9 1e5 0.25", True), ("9 1e5 1", False), ("9 3 24.5", True)):
        program.succeed("-q", config, f"source.1.position={position}")
        state = "out/flat.00000008.h5"
        program.succeed("-q", "-n", "--restart", state, config, f"source.1.position={position}", "grid.dy=77")
        said = b"[source.1] on a neumann face" in (program.folder / state).read_bytes()
        check(said == printed, f"source at {position}: of a neumann face: {said}")


def fall_back(program, config, good):
    """If the newest is damaged, the run goes on from the one before; if all are, from the start."""
    newest = bytearray((program.folder / good[8]).read_bytes())
    newest[len(newest) // 2] ^= 4  # in an array: seen when that is read
    (program.folder / good[8]).write_bytes(newest)
    for broken, printed in (([8], "step 4\n"), ([8, 4], "from the start")):
        if 4 in broken:
            os.truncate(program.folder / good[4], 2000)
        result = program.succeed("--restart", "auto", config, "checkpoint.every_steps=0", np=3 if len(broken) == 1 else 0)
        check(printed in result.out, f"expected '{printed.strip()}': {result}")
        check(result.out.count("\ndt = ") == 1 and "nothing is left" not in result.out, f"says too much: {result}")
        check(all(good[step] in result.out for step in broken) and "passed over" in result.out,
              f"does not say what was passed over: {result}")
        check_same(program, "out/u", "out/ref", True, printed)


if __name__ == "__main__":
    main()
