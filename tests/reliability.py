#!/usr/bin/env python3
"""Runs that stop, are stopped, are killed, or find their files damaged: nothing is lost, and nothing silently wrong.
reliability.py CASE STENCIL MPIEXEC   |   reliability.py --list

Exit 0: as specified; 1: not, saying how; 77: cannot be checked here, saying why.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import Program, Running, alive, check, h5py, np, read_field, same_bits, send, skip, write_field

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


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
    """Names by step, relative to the working folder."""
    base = program.folder / path
    return {int(p.name.split(".")[-2]): str(p.relative_to(program.folder))
            for p in base.parent.glob(base.name + ".*.h5") if re.fullmatch(r"\d{8,}", p.name.split(".")[-2])}


def temporaries(program):
    return [name for name in program.files() if ".tmp" in name]


def remove_outputs(program):
    shutil.rmtree(program.folder / "out")
    (program.folder / "out").mkdir()


# --- k steps, restart, N - k steps --------------------------------------------------------------------------------

ORIGIN = {"grid.dx": 2, "grid.dy": 2.5, "grid.dz": 1.5}
WAVE = {"equation.type": "wave", **ORIGIN}
SHOT = {"source.1.position": "17.3 14.1 12.2", "source.1.f0": 60, "source.1.t0": 0.004, "receivers.every": 3,
        "source.2.position": "20 10 9", "source.2.wavelet": "in.h5:/s", "source.2.amplitude": 3}
PERIODIC_X = {"boundary.x_lo": "periodic", "boundary.x_hi": "periodic"}


def model(program, shape=(26, 14, 20)):
    """Rough models and a wavelet."""
    rng = np.random.default_rng(11)
    with h5py.File(program.folder / "in.h5", "w") as file:
        file["v"] = rng.uniform(1500, 3000, shape).astype(np.float32)
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
                                 "initial.seed": 5, "checkpoint.path": "out/c", **changes})
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
    program.succeed("-q", "run.ini", "output.path=out/longer", "time.steps=26", "output.every=0")
    result = program.succeed("--restart", last, "run.ini", "output.path=out/more", "time.steps=26", "output.every=0",
                             "checkpoint.path=out/d", "checkpoint.every_steps=4", "checkpoint.keep=1", np=3)
    check(list(checkpoints(program, "out/d")) == [24], f"keep = 1 kept {checkpoints(program, 'out/d')}: {result}")
    check_same(program, "out/more", "out/longer", True, "another output.path, more steps")
    # Nothing is left to do, or less than nothing: the state is saved once more.
    for steps in (20, 12):
        result = program.succeed("--restart", last, "run.ini", f"time.steps={steps}", "output.path=out/done")
        check(same_bits(program.field(20, "out/done"), program.field(20, "out/ref")), f"time.steps={steps}: other bits")
    check("restart" not in program.run("run.ini", "time.steps=2", "output.path=out/none").out, "restarted unasked")


# --- what a restart refuses ---------------------------------------------------------------------------------------

REFUSED = [
    (["grid.nx=21"], "[grid] nx"), (["grid.nz=27"], "[grid] nz"), (["grid.dy=2.25"], "[grid] dx dy dz"),
    (["grid.origin=0 0 1"], "[grid] origin"), (["equation.space_order=6"], "[equation] space_order"),
    (["time.dt=1e-4"], "[time] dt"), (["medium.velocity=1999"], "[medium] velocity"), (["medium.velocity=in.h5:/v"], "[medium]"),
    (["boundary.x_hi=neumann"], "[boundary] x_hi"), (["boundary.width=4"], "[boundary] x_lo"),
    (["source.1.f0=61"], "[source.1]"), (["source.2.amplitude=4"], "[source.2]"),
    (["source.3.position=9 9 9", "source.3.f0=50"], "[source.3]"),
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
        program.fail(2, [good[8], key], "-q", "--restart", good[8] if number % 2 else "auto", config, *changes, np=ranks)
    heat = program.config({"grid.nx": 20, "grid.ny": 14, "grid.nz": 26, "equation.type": "heat", **ORIGIN}, "heat.ini")
    program.fail(2, [good[8], "[equation] type", "heat", "wave"], "-q", "--restart", good[8], heat)
    for number, (name, words) in enumerate(damaged(program, good[8])):
        program.fail(2, [name, *words], "-q", "--restart", name, config, np=3 if number == 0 else 0)
    fall_back(program, config, good)


def fall_back(program, config, good):
    """The newest is damaged: from the one before; all are: from the start."""
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
           "source.1.position": "17.3 14.1 12.2", "source.1.f0": 60, "checkpoint.path": "out/c", "report.progress": "off"}
PATIENT = ["--mca", "odls_base_sigkill_timeout", "3"]  # s that mpirun waits before SIGTERM, and then before SIGKILL


class Leg:
    """How a leg is stopped."""

    def __init__(self, name, code, ranks, number=0, to="mpirun", options=(), env=None, launch=(), within=8):
        self.name, self.code, self.ranks, self.number, self.to = name, code, ranks, number, to
        self.options, self.env, self.launch, self.within = options, env, launch, within

    def run(self, program, config):
        """Runs until it is stopped; returns the step, which its checkpoint must have."""
        known = checkpoints(program)
        env = {k: v() for k, v in (self.env or {}).items()}
        with Running(program, "--restart", "auto", config, *self.options, np=self.ranks, launch=self.launch, env=env) as leg:
            if self.number:
                leg.wait_for(lambda: re.search("from the start|restart from", leg.out()), "the start")
                ready = time.monotonic() + 0.3
                leg.wait_for(lambda: time.monotonic() > ready, "0.3 s of steps")
                begin = time.monotonic()
                send(leg.ranks()[-1] if self.to == "rank" else leg.process.pid, self.number)
            else:
                begin = time.monotonic()
            result = leg.wait(30)
            seconds = time.monotonic() - begin
        check(result.code in self.code, f"{self.name}: expected exit {self.code}, got {result}")
        check(seconds < self.within, f"{self.name}: took {seconds:.1f} s: {result}")
        said = re.search(r"^stencil: stopped after step (\d+) of ", result.err, re.MULTILINE)
        newest = max(checkpoints(program))
        check(newest > max(known, default=0), f"{self.name}: no new checkpoint: {result}")
        if self.to != "mpirun" or not self.ranks:  # mpirun may lose last words when it is told to go
            check(said and int(said.group(1)) == newest, f"{self.name}: expected to hear of step {newest}: {result}")
        check(not known or f"step {max(known)}\n" in result.out, f"{self.name}: not from step {max(known)}: {result}")
        check(not temporaries(program), f"{self.name}: left {temporaries(program)}")
        print(f"{self.name}: exit {result.code} after {seconds:.1f} s, step {newest}", flush=True)
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
    Leg("SIGINT without mpirun", [75], 0, signal.SIGINT, within=2),
    Leg("time.max_seconds = 2.5", [75], 1, options=["time.max_seconds=2.5"], within=5),
]


@case
def signals(program):
    """A run that is stopped again and again, in many ways and on many ranks, ends as if nothing had happened."""
    config = program.config(ENDLESS)
    for leg in QUICK_LEGS:
        last = leg.run(program, config)
    second_signal(program, config, 0)
    finish(program, config, last)


@case
def slow_signals(program):
    """Likewise, with every signal, from every side."""
    config = program.config(ENDLESS)
    in_3_s = {"SLURM_JOB_END_TIME": lambda: str(int(time.time()) + 4)}
    legs = [Leg(f"{number.name} to {'mpirun' if to == 'mpirun' else 'one rank'} of {ranks}{' with patience' if launch else ''}",
                [1, 143, 130] if to == "mpirun" and number != signal.SIGUSR1 else [75], ranks, number, to, launch=launch)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1) for ranks in (1, 3)
            for to, launch in (("mpirun", ()), ("mpirun", PATIENT), ("rank", ()))]
    legs += [Leg(f"{number.name} without mpirun", [75], 0, number, within=2)
             for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]
    legs += [Leg(f"time.max_seconds = 3 on {ranks or 'no'} ranks", [75], ranks, options=["time.max_seconds=3"], within=5.5)
             for ranks in (0, 1, 3)]
    legs += [Leg(f"SLURM_JOB_END_TIME on {ranks} ranks", [75], ranks, env=in_3_s, within=6.5) for ranks in (1, 3)]
    random.Random(3).shuffle(legs)
    for leg in QUICK_LEGS + legs:
        last = leg.run(program, config)
    for ranks in (0, 1, 3):
        second_signal(program, config, ranks)
    slow_steps(program)
    finish(program, config, last)


def second_signal(program, config, ranks):
    """Ends the run at once, even while it writes: no file is new, none half-written under its name."""
    before = checkpoints(program)
    with Running(program, "--restart", "auto", config, "output.every=0", np=ranks,
                 launch=["--mca", "odls_base_sigkill_timeout", "0"]) as leg:
        leg.wait_for(lambda: "restart from" in leg.out(), "the start")
        victim = leg.ranks()[0]
        os.kill(victim, signal.SIGSTOP)  # both come while it can do nothing about the first
        os.kill(victim, signal.SIGTERM)
        os.kill(victim, signal.SIGCONT)
        time.sleep(0.02)
        os.kill(victim, signal.SIGSTOP)
        time.sleep(0.3)  # two within a quarter of a second would count as one
        send(victim, signal.SIGINT)
        begin = time.monotonic()
        send(victim, signal.SIGCONT)
        result = leg.wait(20)
    seconds = time.monotonic() - begin
    check(seconds < 5, f"a second signal on {ranks} ranks: {seconds:.1f} s: {result}")
    for step, name in checkpoints(program).items():
        if step not in before:
            program.succeed("-q", "--restart", name, config, f"time.steps={step}", "output.path=out/look",
                            "checkpoint.path=out/other")
    print(f"a second signal on {ranks} ranks: exit {result.code} after {seconds:.2f} s", flush=True)
