#!/usr/bin/env python3
"""Runs that stop, are stopped, are killed, or find their files damaged: nothing is lost, and nothing silently wrong.
reliability.py CASE STENCIL MPIEXEC   |   reliability.py --list

Exit 0: as specified; 1: not, saying how; 77: cannot be checked here, saying why.
"""
import json
import os
import random
import re
import shutil
import signal
import sys
import time
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import SOURCE, Running, alive, case, check, h5py, main, np, read_field, same_bits, send, wait_gone

# --- what a run leaves --------------------------------------------------------------------------------------------

def fields_of(program, path):
    """The saved fields by step."""
    names = (program.folder / path).parent.glob((program.folder / path).name + ".*.hdf")
    return {int(name.name.split(".")[-2]): read_field(name, program.path) for name in names}


def series_of(program, path):
    """Steps and times that the series lists."""
    root = ElementTree.parse(program.folder / f"{path}.xdmf").getroot()
    times = [float(t.get("Value")) for t in root.iter("Time")]
    items = [i.text.strip() for i in root.iter("DataItem") if i.get("Format") == "HDF"]
    steps = [int(re.fullmatch(r".*\.(\d{8,})\.hdf:.*", item).group(1)) for item in items]
    check(len(times) == len(steps), f"{path}.xdmf: {len(times)} times, {len(steps)} fields")
    names = [re.sub(":.*", "", item) for item in items]
    listed = json.loads((program.folder / f"{path}.hdf.series").read_text())["files"]
    check(listed == [{"name": n, "time": t} for n, t in zip(names, times)], f"{path}.hdf.series and .xdmf differ: {listed}")
    return list(zip(steps, times))


def traces_of(program, path):
    with h5py.File(program.folder / f"{path}.receivers.h5", "r") as file:
        return {name: file[name][...] for name in ("u", "time", "position")}


def check_same(program, path, reference, receivers, about, ends=()):
    """What is under `path` is what is under `reference`; legs may have left their last field besides, at `ends`."""
    found, expected = fields_of(program, path), fields_of(program, reference)
    check(set(expected) <= set(found) <= set(expected) | set(ends),
          f"{about}: fields of steps {sorted(found)}, not {sorted(expected)}")
    for step, field in expected.items():
        check(same_bits(found[step], field), f"{about}: other bits at step {step}")
    check(len(np.unique(expected[max(expected)])) > 100, f"{about}: the reference is next to constant")
    series, whole = series_of(program, path), series_of(program, reference)
    check(series == whole, f"{about}: the series is {series}, not {whole}")
    if receivers:
        found, expected = traces_of(program, path), traces_of(program, reference)
        for name, values in expected.items():
            check(same_bits(found[name], values), f"{about}: receivers: other bits in /{name}")
        check(np.isfinite(expected["u"]).all() and expected["u"].any(), f"{about}: nothing was received")


def checkpoints(program, path="out/c"):
    """Checkpoints by step: names relative to the working folder."""
    base = program.folder / path
    return {int(p.name.split(".")[-2]): str(p.relative_to(program.folder))
            for p in base.parent.iterdir() if re.fullmatch(re.escape(base.name) + r"\.\d{8,}\.h5", p.name)}


def temporaries(program):
    return [name for name in program.files() if ".tmp" in name]


# --- k steps, restart, N - k steps --------------------------------------------------------------------------------

ORIGIN = {"grid.dx": 2, "grid.dy": 2.5, "grid.dz": 1.5}
WAVE = {"equation.type": "wave", **ORIGIN}
SHOT = {"source.1.position": "17.3 14.1 12.2", "source.1.wavelet": "ricker", "source.1.f0": 60,
        "source.1.t0": 0.004, "receivers.every": 3,
        "source.2.position": "20 10 9", "source.2.wavelet": "in.h5:/s", "source.2.amplitude": 3}
PERIODIC_X = {"boundary.x_lo": "periodic", "boundary.x_hi": "periodic"}


def model(program, shape=(26, 14, 20)):
    """Rough models and a wavelet."""
    rng = np.random.default_rng(11)
    v = rng.uniform(1500, 3000, shape).astype(np.float32)
    with h5py.File(program.folder / "in.h5", "w") as file:
        file["v"], file["upside_down"] = v, v[::-1]  # the same velocities, elsewhere
        file["alpha"] = rng.uniform(0.5, 2, shape).astype(np.float32)
        file["s"] = rng.uniform(-1, 1, 25).astype(np.float32)


# Name; changes; kernel of the reference; legs: (ranks, steps until then, options besides).
RESTARTS = [
    ("jacobi, fixed", {"boundary.value": 0.5}, "simd",
     [(2, 7, ["output.compress=4"]), (1, 20, ["parallel.io=gather"])]),
    ("heat, a number, neumann and periodic", {"equation.type": "heat", "boundary.all": "neumann", **PERIODIC_X, **ORIGIN},
     "reference", [(1, 8, []), (3, 20, ["output.compress=1"])]),
    ("heat, a field, dirichlet and fixed",
     {"equation.type": "heat", "medium.diffusivity": "in.h5:/alpha", "boundary.all": "dirichlet", "boundary.y_hi": "fixed",
      "boundary.value": 0.25}, "simd", [(4, 7, []), (2, 20, ["device.kernel=reference"])]),
    ("wave, absorbing under a free surface, sources, a line of receivers",
     {**WAVE, **SHOT, "medium.velocity": "2000", "initial.u": "zero", "boundary.all": "absorbing", "boundary.width": 5,
      "boundary.z_lo": "dirichlet", "receivers.line": "3 4 3.3 34 30 20 7"}, "reference",
     [(1, 4, []), (3, 11, ["output.compress=3"]), (2, 20, ["parallel.overlap=off"])]),
    ("wave, a field, absorbing, neumann, fixed and periodic, sources, receivers",
     {**WAVE, **SHOT, "medium.velocity": "in.h5:/v", **PERIODIC_X, "boundary.y_lo": "neumann", "boundary.y_hi": "fixed",
      "boundary.z_lo": "absorbing", "boundary.z_hi": "neumann", "boundary.width": 6,
      "receivers.points": "3 4 3, 20.2 11 7, 33 30 35, 1 1 36.5"}, "simd", [(4, 6, []), (2, 20, ["device.kernel=reference"])]),
]


@case
def restart_bits(program):
    """N steps are k steps, a restart, and N - k steps: fields, series and traces, on other numbers of ranks."""
    for number, (name, changes, kernel, legs) in enumerate(RESTARTS):
        program.fresh()
        model(program)
        config = program.config({"grid.nx": 20, "grid.ny": 14, "grid.nz": 26, "time.steps": 20, "output.every": 3,
                                 "checkpoint.path": "out/c", **changes})
        receivers = "receivers.every" in changes
        program.succeed("-q", config, "output.path=out/ref", f"device.kernel={kernel}")
        for leg, (ranks, last, extra) in enumerate(legs):
            chosen = ["--restart", max(checkpoints(program).items())[1] if number % 2 else "auto"] if leg else []
            options = [f"time.steps={last}", "checkpoint.every_steps=1" if number == 0 else f"checkpoint.every_steps={last}"]
            result = program.succeed(*chosen, config, *options, *extra, np=ranks)
            check(not leg or f"step {legs[leg - 1][1]}\n" in result.out, f"{name}: not from the checkpoint: {result}")
        check_same(program, "out/u", "out/ref", receivers, name, [last for _, last, _ in legs])
        print(f"{name}: {' -> '.join(str(ranks) for ranks, _, _ in legs)} ranks")
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
    check("restart from" not in program.run("run.ini", "time.steps=2", "output.path=out/none").out, "restarted unasked")


# --- whose checkpoints they are -----------------------------------------------------------------------------------

SHARED = {"grid.nx": 20, "grid.ny": 14, "grid.nz": 26, "time.steps": 12, "equation.type": "wave", "medium.velocity": 2000,
          "output.path": "out/A", "checkpoint.every_steps": 4}
OTHER = ["output.path=out/B", "medium.velocity=1800", "checkpoint.every_steps=1"]
MOVED = re.compile(r"moved aside (\d+) \w+ of an earlier one to (\S+)\.\*\.h5, the newest of step (\d+), from which --restart auto "
                   "would have continued")


def contents(program):
    """All files in out/ by name, to see later what is still there."""
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
        for old in program.folder.glob("out/[ABc].*"):
            old.unlink()
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
        told = MOVED.findall(result.out)
        check(told == [("2", f"out/c.old{number}", str(newest))], f"{io}: start {number} said {told}: {result}")
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


# --- what a restart refuses ---------------------------------------------------------------------------------------

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
    fall_back(program, config, good)


def fall_back(program, config, good):
    """If the newest is damaged, the run goes on from the one before; if all are, from the start."""
    for broken, told in (([8], "step 4\n"), ([8, 4], "from the start")):
        for step in broken:
            os.truncate(program.folder / good[step], 2000)
        result = program.succeed("--restart", "auto", config, "checkpoint.every_steps=0", np=3 if len(broken) == 1 else 0)
        check(told in result.out, f"expected '{told.strip()}': {result}")
        check(all(good[step] in result.out for step in broken) and "passed over" in result.out,
              f"does not say what was passed over: {result}")
        check_same(program, "out/u", "out/ref", True, told)


# --- signals and wall time ----------------------------------------------------------------------------------------

# Steps without end: the last leg, and the run that they are compared with, get an end when it is known.
ENDLESS = {"grid.nx": 40, "grid.ny": 24, "grid.nz": 30, "time.steps": 3000000, "equation.type": "wave", "initial.u": "random",
           "boundary.all": "absorbing", "boundary.z_lo": "dirichlet", "boundary.y_lo": "neumann", "boundary.width": 5,
           "output.every": 1500, "receivers.points": "3 4 3.5, 20 11 7", "receivers.every": 250,
           "source.1.position": "17.3 14.1 12.2", "source.1.wavelet": "ricker", "source.1.f0": 60,
           "checkpoint.path": "out/c", "report.progress": "off"}
PATIENT = ["--mca", "odls_base_sigkill_timeout", "3"]  # s that mpirun waits before SIGTERM, and then before SIGKILL


class Leg:
    """How a leg is stopped."""

    def __init__(self, name, code, ranks, number=0, to="mpirun", options=(), env=None, launch=()):
        self.name, self.code, self.ranks, self.number, self.to = name, code, ranks, number, to
        self.options, self.env, self.launch = options, env, launch

    def run(self, program, config):
        """Runs until it is stopped; returns the step, which its checkpoint must have."""
        known = checkpoints(program)
        env = {k: v() for k, v in (self.env or {}).items()}
        with Running(program, "--restart", "auto", config, *self.options, np=self.ranks, launch=self.launch, env=env) as leg:
            if self.number:
                leg.wait_for(lambda: re.search("from the start|restart from", leg.out()), "the start")
                time.sleep(0.3)
                send(leg.ranks()[-1] if self.to == "rank" else leg.process.pid, self.number)
            result = leg.wait()
        check(result.code in self.code, f"{self.name}: expected exit {self.code}, got {result}")
        said = re.search(r"^stencil: stopped after step (\d+) of ", result.err, re.MULTILINE)
        newest = max(checkpoints(program))
        check(newest > max(known, default=0), f"{self.name}: no new checkpoint: {result}")
        if self.to != "mpirun" or not self.ranks:  # mpirun may lose last words when it is told to go
            check(said and int(said.group(1)) == newest, f"{self.name}: expected to hear of step {newest}: {result}")
            check(result.out.splitlines()[-1].endswith(f".{newest:08d}.h5 (the newest checkpoint)"),
                  f"{self.name}: the log ends otherwise: {result}")
        check(not known or f"step {max(known)}\n" in result.out, f"{self.name}: not from the newest of {known}: {result}")
        check(not temporaries(program), f"{self.name}: left {temporaries(program)}")
        print(f"{self.name}: exit {result.code}, step {newest}", flush=True)
        return newest


def finish(program, config, last):
    """The last leg, and the run that nobody disturbed."""
    end = f"time.steps={last + 700}"
    program.succeed("-q", "--restart", "auto", config, end, np=2)
    program.succeed("-q", config, end, "output.path=out/ref", "checkpoint.path=out/other")
    check_same(program, "out/u", "out/ref", True, "after all legs")


QUICK_LEGS = [
    Leg("SIGUSR1 to one rank of 3", [75], 3, signal.SIGUSR1, "rank"),
    Leg("SIGTERM to mpirun, 3 ranks", [1, 143], 3, signal.SIGTERM),
    Leg("SIGINT without mpirun", [75], 0, signal.SIGINT),
    Leg("time.max_seconds = 2", [75], 1, options=["time.max_seconds=2"]),
]


@case
def signals(program):
    """A run that is stopped again and again, in many ways and on many ranks, ends as if nothing had happened."""
    config = program.config(ENDLESS)
    for leg in QUICK_LEGS:
        last = leg.run(program, config)
    finish(program, config, last)
    second_signal(program, 0)


@case
def slow_signals(program):
    """Likewise, with every signal, sent to every process."""
    config = program.config(ENDLESS)
    in_3_s = {"SLURM_JOB_END_TIME": lambda: str(int(time.time()) + 4)}
    legs = [Leg(f"{number.name} to {'mpirun' if to == 'mpirun' else 'one rank'} of {ranks}{' with patience' if launch else ''}",
                [1, 143, 130] if to == "mpirun" and number != signal.SIGUSR1 else [75], ranks, number, to, launch=launch)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1) for ranks in (1, 3)
            for to, launch in (("mpirun", ()), ("mpirun", PATIENT), ("rank", ()))]
    legs += [Leg(f"{number.name} without mpirun", [75], 0, number)
             for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]
    legs += [Leg(f"time.max_seconds = 3 on {ranks or 'no'} ranks", [75], ranks, options=["time.max_seconds=3"])
             for ranks in (0, 1, 3)]
    legs += [Leg(f"SLURM_JOB_END_TIME on {ranks} ranks", [75], ranks, env=in_3_s) for ranks in (1, 3)]
    random.Random(3).shuffle(legs)
    for leg in QUICK_LEGS + legs:
        last = leg.run(program, config)
    finish(program, config, last)
    for ranks in (0, 1, 3):
        second_signal(program, ranks)


# A disk that takes 10 s to make a file durable.
SLOW_DISK = """#include <unistd.h>
int fsync(int file) { sleep(10); return 0; }
"""


def second_signal(program, ranks):
    """Ends the run at once, even while it writes a checkpoint, of which nothing is then left under its name. Steps of
    some ms, without mpirun to keep the host in step with the device: the first signal must still be seen soon."""
    program.fresh()
    config = program.config({"grid.nx": 128, "grid.ny": 128, "grid.nz": 128, "time.steps": 100000, "equation.type": "wave",
                    "checkpoint.path": "out/c", "report.check_every": 0})
    with Running(program, config, np=ranks, launch=["--mca", "odls_base_sigkill_timeout", "0"],
                 env=program.preload("slow_disk", SLOW_DISK)) as leg:
        leg.wait_until_it_steps()
        send(leg.ranks()[-1], signal.SIGUSR1)
        leg.wait_for(lambda: temporaries(program), "a checkpoint being written")
        time.sleep(0.3)  # what comes within a quarter of a second is one wish
        send(leg.ranks()[-1], signal.SIGTERM)
        result = leg.wait()
    check(result.code == (143 if ranks else -signal.SIGTERM), f"a second signal on {ranks} ranks: {result}")
    check(not checkpoints(program) and temporaries(program), f"a second signal left {program.files()}")
    print(f"a second signal on {ranks or 'no'} ranks: ended at once", flush=True)


ANSWER = re.compile(r"^(SIG\w+) received: writing a checkpoint after step (\d+)(?: or soon after it)?(.*?)\r?$", re.MULTILINE)


@case
def restart_script(program):
    """jobs/restart.sbatch where Slurm's squeue does not answer: the run knows of no end, and goes on to its own. The exit code of
    a run is the script's, also where the run ends at the moment of a signal."""
    config = program.config({**ENDLESS, "time.steps": 3000})
    tools = program.root / "tools"
    tools.mkdir()
    for name, body in (("srun", 'exec "$@"'), ("squeue", "exit 1"), ("scontrol", "exit 1"),
                       ("stops", "trap '' USR1\nkill -USR1 $PPID\nexit 75")):
        (tools / name).write_text(f"#!/bin/bash\n{body}\n")
        (tools / name).chmod(0o755)
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "1", "SLURM_SUBMIT_DIR": program.folder}
    script = ["bash", SOURCE / "jobs/restart.sbatch", config]
    result = program.finish(script, env={**environment, "STENCIL": program.path})
    check(result.code == 0 and "stopped" not in result.err, str(result))
    for _ in range(10):
        result = program.finish(script, env={**environment, "STENCIL": tools / "stops"})
        check(result.code == 75 and "back into the queue" in result.out, str(result))


@case
def answers(program):
    """A signal is answered at once, with one line, whichever rank gets it."""
    for ranks, to, number in ((0, "all", signal.SIGINT), (0, "all", signal.SIGTERM), (3, "all", signal.SIGUSR1),
                              (3, "last", signal.SIGUSR1), (3, "last", signal.SIGTERM)):
        program.fresh()
        config = program.config(ENDLESS)
        with Running(program, config, np=ranks) as leg:
            leg.wait_until_it_steps()
            send(leg.ranks()[-1] if to == "last" else leg.process.pid, number)
            result = leg.wait()
        about, said, (step,) = f"{number.name} to {to} of {ranks}", ANSWER.findall(result.out), checkpoints(program)
        check(result.code == 75 and len(said) == 1, f"{about}: expected exit 75 and one answer: {result}")
        check(said[0][0] == number.name and not said[0][2], f"{about}: {said}")
        check(int(said[0][1]) == step if to == "last" else int(said[0][1]) <= step, f"{about}: {said}, but step {step}")
        check(result.out.index("received:") < result.out.index("checkpoint out/c."), f"{about}: {result}")
    program.fresh()
    config = program.config(ENDLESS)
    for ranks, keys in ((0, ["-b", 10**7]), (0, ["-n", "--measure"]), (2, ["-b", 10**7])):  # nothing to save
        with Running(program, *keys, config, "grid.nx=200", "grid.ny=200", "report.progress=on", np=ranks) as leg:
            leg.wait_for(lambda: "kernel auto:" in leg.out(), "the start")
            send(leg.process.pid, signal.SIGUSR1)
            result = leg.wait()
        said = re.findall(r"SIGUSR1 received: there is nothing to save, the program ends\n", result.out)
        check(result.code and len(said) == 1 and not checkpoints(program), f"{keys} on {ranks} ranks: {result}")
    with Running(program, config, np=2) as leg:  # in the middle of a step, which does not end
        leg.wait_until_it_steps()
        ranks = leg.ranks()
        send(ranks[1], signal.SIGSTOP)
        send(ranks[0], signal.SIGUSR1)
        leg.wait_for(lambda: ANSWER.search(leg.out()), "an answer")
        send(ranks[1], signal.SIGCONT)
        check(leg.wait().code == 75, str(leg.result()))


LATE_SIGNAL = """#include <signal.h>
int PMPI_Finalize(void);
int MPI_Finalize(void) { raise(SIGTERM); return PMPI_Finalize(); }
"""


@case
def answers_no_more(program):
    """A run that has ended says nothing about a signal: mpirun sends one where another rank is the first to exit with 75."""
    result = program.run(program.config(ENDLESS), "time.max_seconds=0.2", env=program.preload("late_signal", LATE_SIGNAL))
    check(result.code == 75 and "received" not in result.out and checkpoints(program), str(result))


@case
def answers_under_mpirun(program):
    """mpirun that gets Ctrl-C shows nothing of what its ranks print, and kills them: the answer comes past it, and names
    the signal that it passes on and waits for."""
    config = program.config({"grid.nx": 256, "grid.ny": 256, "grid.nz": 256, "time.steps": 10**6, "device.kernel": "simd"})
    with Running(program, config, np=2, columns=80) as leg:
        leg.wait_for(lambda: "%" in leg.out(), "progress")
        ranks = leg.ranks()
        send(leg.process.pid, signal.SIGINT)
        leg.wait_for(lambda: ANSWER.search(leg.out()), "an answer")
        check(all(map(alive, ranks)), f"the ranks were dead already: {leg.out()}")
        number, _, words = ANSWER.search(leg.out()).groups()
        expected = (r"; mpirun kills its ranks in 1 s, and a checkpoint may take \d\.\d s\. "
                    rf"To stop without that limit: kill -USR1 {leg.process.pid}")
        check(number == "SIGTERM" and re.fullmatch(expected, words), f"{number}: {words}")


# --- kills --------------------------------------------------------------------------------------------------------

# Few enough fields for any disk: what a run is going to write must fit.
KILLED = {**ENDLESS, "grid.nx": 96, "grid.ny": 96, "grid.nz": 96, "time.steps": 200000, "output.every": 200,
          "receivers.every": 2, "checkpoint.every_steps": 4}


class Killer:
    """Kills runs, each of which goes on from the one before, and counts."""

    def __init__(self, program, seed, longest=0.7):
        self.program, self.config, self.random = program, program.config(KILLED), random.Random(seed)
        self.longest = longest  # s that a leg lives after it has started
        self.logged = 0  # the newest checkpoint that a run has said it has written
        self.seen, self.counts = set(), dict.fromkeys(("kills", "inside", "start", "rank", "mpirun"), 0)

    def kill_one(self):
        dice, program = self.random, self.program
        ranks = dice.choice((0, 1, 2, 3, 3))
        to, early = dice.choice(("rank", "mpirun")) if ranks else "rank", dice.random() < 0.1
        with Running(program, "--restart", "auto", self.config, f"output.compress={dice.choice((0, 1))}", np=ranks,
                     launch=["--mca", "odls_base_sigkill_timeout", "0"]) as leg:
            leg.wait_for(lambda: len(leg.ranks()) == max(ranks, 1), "its ranks")
            if not early:
                leg.wait_for(lambda: re.search("from the start|restart from", leg.out()), "the start")
            time.sleep(dice.uniform(0, self.longest))
            everybody = leg.ranks() + [leg.process.pid]
            send(leg.process.pid if to == "mpirun" else dice.choice(leg.ranks() or everybody), signal.SIGKILL)
            result = leg.wait()
            wait_gone(everybody, f"after a kill of {to}")  # two runs must not write under one path
        check(result.code not in range(5), f"it ended by itself, and was not killed: {result}")
        self.counts["kills"] += 1
        self.counts["start" if early else to] += 1
        self.look_at(result)

    def look_at(self, result):
        """A leg began with the newest checkpoint that was whole, and left nothing half-written but temporary files."""
        check("passed over" not in result.out, f"a damaged checkpoint: {result}")
        began = re.search(r"restart from .*, step (\d+)$", result.out, re.MULTILINE)
        if began or "from the start" in result.out:
            step = int(began.group(1)) if began else 0
            check(step >= self.logged, f"from step {step}, but {self.logged} had been written: {result}")
        self.logged = max([self.logged] + [int(n) for n in re.findall(r"^checkpoint out/c\.(\d+)\.h5", result.out, re.M)])
        left = {name for name in temporaries(self.program) if name.startswith("out/c.")} - self.seen
        self.counts["inside"] += bool(left)
        self.seen |= left
        check(len(temporaries(self.program)) < 10, f"temporary files pile up: {temporaries(self.program)}")
        check(len(checkpoints(self.program)) <= 3, f"keep = 2, but {checkpoints(self.program)}")

    def run(self, kills):
        for number in range(kills):
            self.kill_one()
            if number % 20 == 19:
                print(f"{number + 1} kills, {self.counts['inside']} inside a write, step {self.logged}", flush=True)
        while self.logged == 0:
            self.kill_one()
        end = f"time.steps={max(checkpoints(self.program)) + 30}"
        self.look_at(self.program.succeed("--restart", "auto", self.config, end, np=3))
        self.program.succeed("-q", self.config, end, "checkpoint.every_steps=0", "output.path=out/ref")
        check_same(self.program, "out/u", "out/ref", True, "after all kills")
        c = self.counts
        print(f"{c['kills']} kills ({c['rank']} of a rank, {c['mpirun']} of mpirun, {c['start']} while starting), {c['inside']} "
              f"inside a checkpoint write, {self.logged} steps", flush=True)


@case
def kill(program):
    """SIGKILL of a rank or of mpirun at any moment: the next run goes on from the last checkpoint, with the same bits."""
    Killer(program, 5, 0.4).run(7)


@case
def slow_kill(program):
    """200 times."""
    killer = Killer(program, 2)
    killer.run(200)
    check(killer.counts["inside"] >= 40, f"too few kills inside a write: {killer.counts}")


# --- damaged files ------------------------------------------------------------------------------------------------

@case
def slow_flip(program):
    """Flipped bytes and truncations of a checkpoint: refused, or without any effect."""
    model(program)
    config = program.config({"grid.nx": 20, "grid.ny": 14, "grid.nz": 26, "time.steps": 10, **RESTARTS[3][1],
                             "output.every": 0, "checkpoint.path": "out/c", "checkpoint.every_steps": 4})
    program.succeed(config, "output.path=out/ref")
    good = checkpoints(program)
    whole, dice = (program.folder / good[8]).read_bytes(), random.Random(4)
    places = [*range(0, 160, 2), *range(160, 600, 11), *range(len(whole) - 40, len(whole))]
    places += dice.sample(range(600, len(whole) - 40), 420)
    sizes = [0, 1, 18, 19, 100, 511, 512, 513, 519, 520, 1024, 4096, *range(len(whole) - 8, len(whole))]
    sizes += dice.sample(range(4097, len(whole) - 8), 90)
    counts = {"refused": 0, "harmless": 0}
    for number, place in enumerate(places):
        changed = bytearray(whole)
        changed[place] ^= dice.choice([1 << bit for bit in range(8)] + [255])
        counts[try_damaged(program, config, good, bytes(changed), f"byte {place}", number)] += 1
    print(f"{len(places)} flipped bytes of {len(whole)}: {counts}", flush=True)
    check(len(places) >= 500, "the sweep has become too small")
    counts = {"refused": 0, "harmless": 0}
    for number, size in enumerate(sizes):
        counts[try_damaged(program, config, good, whole[:size], f"cut to {size}", number)] += 1
    print(f"{len(sizes)} truncations: {counts}", flush=True)
    check(len(sizes) >= 100, "the sweep has become too small")


def try_damaged(program, config, good, content, what, number):
    (program.folder / good[8]).write_bytes(content)
    automatic, ranks = number % 4 == 1, 3 if number % 16 < 2 else 0
    for old in program.folder.glob("out/u.*"):
        old.unlink()
    result = program.run("--restart", "auto" if automatic else good[8], config, "checkpoint.every_steps=0", np=ranks)
    if result.code == 2 and not automatic:
        check(len(result.errors) == 1 and good[8] in result.errors[0], f"{what}: {result}")
        check(not fields_of(program, "out/u"), f"{what}: refused, but left {program.files()}")
        return "refused"
    check(result.code == 0 and not result.errors, f"{what}: {result}")
    check_same(program, "out/u", "out/ref", True, what)
    fell_back = "step 4\n" in result.out and f"passed over: {good[8]}" in result.out
    check("step 8\n" in result.out or automatic and fell_back, f"{what}: {result}")
    return "refused" if "passed over" in result.out else "harmless"


# --- disks that fill up or go away --------------------------------------------------------------------------------

SMALL = {"grid.nx": 40, "grid.ny": 40, "grid.nz": 40, "time.steps": 60, "equation.type": "wave", "output.path": "out/u",
         "checkpoint.path": "out/small/c", "checkpoint.every_steps": 10, "checkpoint.keep": 5}  # 512 kB each


def check_refusal(program, result, name, about, kept, removable=True):
    """Exit 2 naming the file; the earlier checkpoints are there, nothing else is that could be removed."""
    check(result.code == 2 and len(result.errors) == 1, f"{about}: expected exit 2 and one error, got {result}")
    check(re.search(name, result.errors[0]), f"{about}: expected '{name}' in {result.errors[0]}")
    found = checkpoints(program, "out/small/c")
    check(sorted(found) == kept, f"{about}: checkpoints {found}, not {kept}: {result}")
    check(not removable or not temporaries(program), f"{about}: left {temporaries(program)}")


def go_on(program, config, about):
    """The run goes on from what is left, with the bits of the undisturbed one."""
    newest = max(checkpoints(program, "out/small/c"))
    result = program.succeed("--restart", "auto", config, "checkpoint.every_steps=0", np=2)
    check(f"step {newest}\n" in result.out and "passed over" not in result.out, f"{about}: {result}")
    check(same_bits(program.field(60), program.field(60, "out/ref")), f"{about}: other bits")


@case
def disks(program):
    """Full disks, folders that are read-only or vanish: exit 2; earlier checkpoints stay."""
    config = program.config(SMALL)
    (program.folder / "out/small").mkdir()
    program.succeed("-q", config, "output.path=out/ref", "checkpoint.path=out/ref")
    vanished(program, config)
    if not program.may_mount():
        print("no file systems may be mounted here: a full disk and a read-only one are not checked")
        return
    mounted(program, config)


def vanished(program, config):
    folder, moved = program.folder / "out/small", program.folder / "out/moved"
    program.fail(2, ["[checkpoint] path = out/none/c: "], config, "checkpoint.path=out/none/c", np=2)
    program.fail(2, ["[output] path = out/none/u: "], config, "output.path=out/none/u")
    with Running(program, config, "time.steps=100000", "checkpoint.every_steps=2500", np=3) as leg:
        leg.wait_for(lambda: checkpoints(program, "out/small/c"), "a checkpoint")
        folder.rename(moved)
        result = leg.wait()
    moved.rename(folder)
    for name in temporaries(program):  # what was being written then, nobody could find any more
        (program.folder / name).unlink()
    kept = sorted(checkpoints(program, "out/small/c"))
    check_refusal(program, result, r"out/small/c\.\d+\.h5: ", "a folder that vanishes", kept)
    go_further(program, config, kept[-1], "the folder vanished")


def go_further(program, config, newest, about):
    """The run goes on from its newest checkpoint, wherever that is, with the bits of the undisturbed one."""
    end = f"time.steps={newest + 9}"
    program.succeed("-q", "--restart", "auto", config, end, "checkpoint.every_steps=0")
    program.succeed("-q", config, end, "output.path=out/far", "checkpoint.every_steps=0")
    check(same_bits(program.field(newest + 9), program.field(newest + 9, "out/far")), f"{about}: other bits")
    empty(program)


@case
def slow_limit(program):
    """ulimit -f, much as a quota: a checkpoint of 52 MiB where no file may grow beyond 48, and mpirun's own may."""
    (program.folder / "out/small").mkdir()
    config = program.config({**SMALL, "grid.nx": 190, "grid.ny": 190, "grid.nz": 190, "time.steps": 4,
                             "checkpoint.every_steps": 2})
    program.succeed("-q", config, "time.steps=2")
    for ranks in (0, 2):
        result = program.run("-q", "--restart", "auto", config, np=ranks, shell_before="ulimit -f 49152")
        check_refusal(program, result, r"out/small/c\.00000004\.h5: cannot write: File too large", f"{ranks} ranks", [2])
    program.succeed("-q", "--restart", "auto", config, "output.path=out/v")
    program.succeed("-q", config, "output.path=out/ref", "checkpoint.every_steps=0", np=2)
    check(same_bits(program.field(4, "out/v"), program.field(4, "out/ref")), "after the limit: other bits")


# Runs "$@" with a file system of 1 or 2 MB in out/small, and copies what is left in it out of it; READ_ONLY: after the first
# checkpoint nothing more may be written.
MOUNTED = """mount -t tmpfs -o size=$SIZE none out/small || exit 99
if [ "$READ_ONLY" = before ]; then mount -o remount,ro none out/small || exit 99; fi
"$@" & run=$!
if [ "$READ_ONLY" = later ]; then
  until ls out/small/c.*.h5 > out/ls 2>&1; do sleep 0.02; done
  until mount -o remount,ro none out/small 2> out/ls; do sleep 0.002; done
fi
wait $run; code=$?
mkdir out/kept && cp -p out/small/* out/kept 2> out/ls
exit $code"""


def run_mounted(program, config, *args, size, ranks=0, read_only="", **environment):
    result = program.run_with_mounts(MOUNTED, config, *args, np=ranks, SIZE=size, READ_ONLY=read_only, **environment)
    folder = program.folder / "out/small"
    shutil.rmtree(folder)
    (program.folder / "out/kept").rename(folder)
    return result


# A disk that claims to have room for everything: only writing tells.
LARGE_DISK = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/statvfs.h>
int statvfs(const char *path, struct statvfs *found) {
  int rc = ((int (*)(const char *, struct statvfs *))dlsym(RTLD_NEXT, "statvfs"))(path, found);
  found->f_bavail = found->f_blocks = 1L << 40;
  return rc;
}
"""


def mounted(program, config):
    name = r"out/small/c\.\d+\.h5: cannot write: "
    # By the clock, so that nobody knows before the run how many there will be; three fit.
    result = run_mounted(program, config, "time.steps=1000000", "checkpoint.every_steps=0", "checkpoint.every_seconds=0.1",
                         size="1900k")
    kept = sorted(checkpoints(program, "out/small/c"))
    check(len(kept) == 3, f"full disk: {kept}: {result}")
    check_refusal(program, result, name + ".*bytes are needed", "full disk", kept)
    go_further(program, config, kept[-1], "after the full disk")
    for io in ("collective", "gather", "server"):
        result = run_mounted(program, config, f"parallel.io={io}", size="1900k", ranks=3, **program.preload("large_disk", LARGE_DISK))
        check_refusal(program, result, name + "No space left on device", f"full disk, {io}", kept := sorted(checkpoints(program, "out/small/c")))
        check(kept, f"full disk, {io}: nothing is left: {result}")
        if io != "server":
            empty(program)
    go_on(program, config, "after the full disk")
    empty(program)
    result = run_mounted(program, config, read_only="before", size="4m")
    check_refusal(program, result, r"\[checkpoint\] path = out/small/c: ", "a read-only disk", [])
    check(not fields_of(program, "out/u"), "a read-only disk was noticed only after the first step")
    empty(program)
    result = run_mounted(program, config, "time.steps=100000", read_only="later", size="40m")
    kept = sorted(checkpoints(program, "out/small/c"))
    check(kept, f"a disk that becomes read-only: nothing is left: {result}")
    check_refusal(program, result, name + ".*Read-only", "a disk that becomes read-only", kept, removable=False)
    print(f"full and read-only disks: checked; at step {kept[-1]} the disk became read-only")


def empty(program):
    for old in [*program.folder.glob("out/small/*"), *program.folder.glob("out/u.*")]:
        old.unlink()


if __name__ == "__main__":
    main()
