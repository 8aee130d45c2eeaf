#!/usr/bin/env python3
"""Runs that are stopped or killed: nothing is lost, and nothing silently wrong.
stops.py CASE STENCIL MPIEXEC   |   stops.py --list
"""
import os
import random
import re
import signal
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import SOURCE, Running, alive, case, check, h5py, main, np, same_bits, send, wait_gone
from run_files import check_same, checkpoints, temporaries, traces_of

# --- signals and wall time ----------------------------------------------------------------------------------------

# Steps without end: the last run, and the run that they are compared with, get an end when it is known.
ENDLESS = {"grid.nx": 40, "grid.ny": 24, "grid.nz": 30, "time.steps": 3000000, "equation.type": "wave", "initial.u": "random",
           "boundary.all": "absorbing", "boundary.z_lo": "dirichlet", "boundary.y_lo": "neumann", "boundary.width": 5,
           "output.every": 1500, "receivers.points": "3 4 3.5, 20 11 7", "receivers.every": 250,
           "source.1.position": "17.3 14.1 12.2", "source.1.wavelet": "ricker", "source.1.f0": 60,
           "checkpoint.path": "out/c", "report.progress": "off"}
PATIENT = ["--mca", "odls_base_sigkill_timeout", "3"]  # s that mpirun waits before SIGTERM, and then before SIGKILL


class Stop:
    """How a run is stopped."""

    def __init__(self, name, code, ranks, number=0, to="mpirun", options=(), env=None, launch=()):
        self.name, self.code, self.ranks, self.number, self.to = name, code, ranks, number, to
        self.options, self.env, self.launch = options, env, launch

    def run(self, program, config):
        """Runs until it is stopped; returns the step, which its checkpoint must have."""
        known = checkpoints(program)
        env = {k: v() for k, v in (self.env or {}).items()}
        with Running(program, "--restart", "auto", config, *self.options, np=self.ranks, launch=self.launch, env=env) as run:
            if self.number:
                run.wait_for(lambda: re.search("from the start|restart from", run.out()), "the start")
                time.sleep(0.3)
                send(run.ranks()[-1] if self.to == "rank" else run.process.pid, self.number)
            result = run.wait()
        check(result.code in self.code, f"{self.name}: expected exit {self.code}, got {result}")
        said = re.search(r"^stencil: stopped after step (\d+) of ", result.err, re.MULTILINE)
        newest = max(checkpoints(program))
        check(newest > max(known, default=0), f"{self.name}: no new checkpoint: {result}")
        if self.to != "mpirun" or not self.ranks:  # mpirun may lose last words when it must end
            limit = "" if self.number else "the wall time runs out (SLURM_JOB_END_TIME)" if env else "([time] max_seconds)"
            check(said and int(said.group(1)) == newest and limit in result.err, f"{self.name}: expected to hear of step {newest}: {result}")
            check(result.out.splitlines()[-1].endswith(f".{newest:08d}.h5 (the newest checkpoint)"),
                  f"{self.name}: the log ends otherwise: {result}")
        check(not known or f"step {max(known)}\n" in result.out, f"{self.name}: not from the newest of {known}: {result}")
        check(not temporaries(program), f"{self.name}: left {temporaries(program)}")
        print(f"{self.name}: exit {result.code}, step {newest}", flush=True)
        return newest


def finish(program, config, last):
    """The last run, and the run that nobody disturbed."""
    end = f"time.steps={last + 700}"
    program.succeed("-q", "--restart", "auto", config, end, np=2)
    program.succeed("-q", config, end, "output.path=out/ref", "checkpoint.path=out/other")
    check_same(program, "out/u", "out/ref", True, "after all stops")


QUICK_STOPS = [
    Stop("SIGUSR1 to one rank of 3", [75], 3, signal.SIGUSR1, "rank"),
    Stop("SIGTERM to mpirun, 3 ranks, with patience", [1, 143], 3, signal.SIGTERM, launch=PATIENT),
    Stop("SIGINT without mpirun", [75], 0, signal.SIGINT),
    Stop("time.max_seconds = 2", [75], 1, options=["time.max_seconds=2"]),
    Stop("SLURM_JOB_END_TIME without mpirun", [75], 0, options=["time.max_seconds=1000"], env={"SLURM_JOB_END_TIME": lambda: str(int(time.time()) + 3)}),
]


@case
def signals(program):
    """A run that is stopped again and again, in many ways and on many ranks, ends as if nothing had happened."""
    config = program.config(ENDLESS)
    for stop in QUICK_STOPS:
        last = stop.run(program, config)
    finish(program, config, last)
    second_signal(program, 0)


@case
def slow_signals(program):
    """The same with every signal, sent to every process."""
    config = program.config(ENDLESS)
    in_3_s = {"SLURM_JOB_END_TIME": lambda: str(int(time.time()) + 4)}
    stops = [Stop(f"{number.name} to {'mpirun' if to == 'mpirun' else 'one rank'} of {ranks}{' with patience' if launch else ''}",
                [1, 143, 130] if to == "mpirun" and number != signal.SIGUSR1 else [75], ranks, number, to, launch=launch)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1) for ranks in (1, 3)
            for to, launch in (("mpirun", ()), ("mpirun", PATIENT), ("rank", ()))]
    stops += [Stop(f"{number.name} without mpirun", [75], 0, number)
             for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]
    stops += [Stop(f"time.max_seconds = 3 on {ranks or 'no'} ranks", [75], ranks, options=["time.max_seconds=3"])
             for ranks in (0, 1, 3)]
    stops += [Stop(f"SLURM_JOB_END_TIME on {ranks} ranks", [75], ranks, env=in_3_s) for ranks in (1, 3)]
    random.Random(3).shuffle(stops)
    for stop in QUICK_STOPS + stops:
        last = stop.run(program, config)
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
                 env=program.preload("slow_disk", SLOW_DISK)) as run:
        run.wait_until_it_steps()
        send(run.ranks()[-1], signal.SIGUSR1)
        run.wait_for(lambda: temporaries(program), "a checkpoint being written")
        time.sleep(0.3)  # what comes within a quarter of a second is one wish
        send(run.ranks()[-1], signal.SIGTERM)
        result = run.wait()
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
        with Running(program, config, np=ranks) as run:
            run.wait_until_it_steps()
            send(run.ranks()[-1] if to == "last" else run.process.pid, number)
            result = run.wait()
        about, said, (step,) = f"{number.name} to {to} of {ranks}", ANSWER.findall(result.out), checkpoints(program)
        check(result.code == 75 and len(said) == 1, f"{about}: expected exit 75 and one answer: {result}")
        check(said[0][0] == number.name and not said[0][2], f"{about}: {said}")
        check(int(said[0][1]) == step if to == "last" else int(said[0][1]) <= step, f"{about}: {said}, but step {step}")
        check(result.out.index("received:") < result.out.index("checkpoint out/c."), f"{about}: {result}")
    program.fresh()
    config = program.config(ENDLESS)
    for ranks, keys in ((0, ["-b", 10**7]), (0, ["-n", "--measure"]), (2, ["-b", 10**7])):  # nothing to save
        with Running(program, *keys, config, "grid.nx=200", "grid.ny=200", "report.progress=on", np=ranks) as run:
            run.wait_for(lambda: "kernel auto:" in run.out(), "the start")
            send(run.process.pid, signal.SIGUSR1)
            result = run.wait()
        said = re.findall(r"SIGUSR1 received: there is nothing to save, the program ends\n", result.out)
        check(result.code and len(said) == 1 and not checkpoints(program), f"{keys} on {ranks} ranks: {result}")
    with Running(program, config, np=2) as run:  # in the middle of a step, which does not end
        run.wait_until_it_steps()
        ranks = run.ranks()
        send(ranks[1], signal.SIGSTOP)
        send(ranks[0], signal.SIGUSR1)
        run.wait_for(lambda: ANSWER.search(run.out()), "an answer")
        send(ranks[1], signal.SIGCONT)
        check(run.wait().code == 75, str(run.result()))


LATE_SIGNAL = """#include <signal.h>
int PMPI_Finalize(void);
int MPI_Finalize(void) { raise(SIGTERM); return PMPI_Finalize(); }
"""


@case
def answers_no_more(program):
    """A run that has ended says nothing about a signal: mpirun sends one where another rank is the first to exit with 75."""
    result = program.run(program.config(ENDLESS), "time.max_seconds=0.2", env=program.preload("late_signal", LATE_SIGNAL))
    check(result.code == 75 and "received" not in result.out and checkpoints(program), str(result))


# Threads wake 0.2 s late from what they wait for.
LATE_THREADS = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>
int poll(struct pollfd *files, nfds_t count, int most) {
  const int ready = ((int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll"))(files, count, most);
  if (gettid() != getpid()) usleep(200000);
  return ready;
}
"""


@case
def ends(program):
    """A run ends with its own exit code also where MPI's thread still has something to do. One that no mpirun has
    started needs no folder of MPI's, which other runs of its user would share and remove."""
    config, late = program.config({"time.steps": 3}), program.preload("late_threads", LATE_THREADS)
    program.succeed(config, env={"TMPDIR": "/dev/null"})
    for ranks in (1, 2):
        for code, keys in ((0, ()), (1, ("grid.nx=abc",))):
            result = program.run(config, *keys, np=ranks, env=late)
            check(result.code == code and len(result.errors) == code, f"{ranks} ranks, {keys}: {result}")


@case
def answers_under_mpirun(program):
    """mpirun that gets Ctrl-C shows nothing of what its ranks print, and kills them: the answer comes past it, and names
    the signal that it passes on and waits for."""
    config = program.config({"grid.nx": 256, "grid.ny": 256, "grid.nz": 256, "time.steps": 10**6, "device.kernel": "simd"})
    with Running(program, config, np=2, columns=80) as run:
        run.wait_for(lambda: "%" in run.out(), "progress")
        ranks = run.ranks()
        send(run.process.pid, signal.SIGINT)
        run.wait_for(lambda: ANSWER.search(run.out()), "an answer")
        check(all(map(alive, ranks)), f"the ranks were dead already: {run.out()}")
        number, _, words = ANSWER.search(run.out()).groups()
        expected = (r"; mpirun kills its ranks in 1 s, and a checkpoint may take \d\.\d s\. "
                    rf"To stop without that limit: kill -USR1 {run.process.pid}")
        check(number == "SIGTERM" and re.fullmatch(expected, words), f"{number}: {words}")


# --- traces that leave memory -------------------------------------------------------------------------------------

def all_points(program, steps):
    """A run with a receiver on every point, in any order, whose traces do not fit into the memory of 3 ranks."""
    shape = (44, 40, 40)
    places = np.random.default_rng(5).permutation(np.argwhere(np.ones(shape)))
    with h5py.File(program.folder / "points.h5", "w") as file:
        file["p"] = places[:, ::-1].astype(float)
    return {"grid.nx": 40, "grid.ny": 40, "grid.nz": 44, "time.steps": steps, "equation.type": "wave", "initial.u": "random",
            "boundary.all": "dirichlet", "boundary.x": "periodic", "receivers.positions": "points.h5:/p", "time.dispersion": "kept",
            "report.progress": "off", "checkpoint.path": "out/c"}, places


def check_traces(program, about, places, steps, path="out/u"):
    """Are they the fields that were saved, and is nothing left of the way there?"""
    with h5py.File(program.folder / f"{path}.receivers.h5") as file:
        check(file["u"].shape == (steps[-1] + 1, len(places)), f"{about}: shape {file['u'].shape}")
        for step in steps:
            check((file["u"][step] == program.field(step, path)[tuple(places.T)]).all(), f"{about}: other bits at step {step}")
    check(not temporaries(program), f"{about}: left {temporaries(program)}")


def traces_in_order(program, keys):
    """The shots of a 2D survey that step together, each of which has too many; alone, on 2 ranks, they fit."""
    with h5py.File(program.folder / "points.h5", "a") as file:
        file["flat"] = np.random.default_rng(6).random((19200, 3)) * [39, 0, 43]
    flat = program.config({**keys, "grid.ny": 1, "boundary.x": "dirichlet", "time.steps": 1000, "output.final": "off",
                           "initial.u": "zero", "source.1.f0": 0.1, "source.1.wavelet": "ricker", "source.1.position": "20 0 20",
                           "receivers.positions": "points.h5:/flat"})
    (program.folder / "lines.txt").write_text("source.1.amplitude=2\nsource.1.position='9 0 12'\n")
    out = program.succeed(flat, "survey.shots=lines.txt", "checkpoint.path=", "output.path=s2", "survey.at_once=2").out
    check("2 shots together" in out, f"no batch: {out}")
    for shot, changes in ("s2/0001", "source.1.amplitude=2"), ("s2/0002", "source.1.position=9 0 12"):
        program.succeed("-q", flat, changes, "output.path=out/alone", np=2)
        found, expected = traces_of(program, shot)["u"], traces_of(program, "out/alone")["u"]
        check(same_bits(found, expected) and expected.any(), f"{shot} of a batch: other bits")


def mapped(run):
    """Files without a name that the ranks of a run have mapped in its output folder."""
    lines = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in run.ranks())
    return {line.split(maxsplit=5)[4] for line in lines.splitlines() if "receivers.h5.tmp" in line and line.endswith(" (deleted)")}


@case
def traces(program):
    """Traces that do not fit into memory lie in files without a name: whole, on any number of ranks, in every mode; after a kill
    nothing is left of them, and a restart has them from its checkpoint. --dry-run counts their disk; where it has too little room
    a run ends before its first step."""
    keys, places = all_points(program, 800)
    config = program.config({**keys, "output.every": 400})
    for ranks, mode in ((0, "auto"), (3, "collective"), (2, "gather"), (4, "server")):
        program.succeed("-q", config, f"parallel.io={mode}", np=ranks)
        check_traces(program, f"{ranks} ranks, {mode}", places, (0, 400, 800))
    program.remove("out/*")
    with Running(program, config, "checkpoint.every_steps=90", np=2, launch=["--mca", "odls_base_sigkill_timeout", "0"]) as run:
        run.wait_for(lambda: 540 in checkpoints(program), "a checkpoint")
        check(len(mapped(run)) == 2, f"2 ranks have mapped {mapped(run)}")
        program.kill_all()
        run.wait()
    left = [name for name in program.files() if "receivers" in name]
    check(not left, f"after a kill there are {left}")
    with h5py.File(program.folder / f"out/c.{max(checkpoints(program)):08d}.h5") as file:
        check(file["traces"].shape == (len(places), max(checkpoints(program)) + 1), f"a checkpoint has traces of {file['traces'].shape}")
    program.succeed("-q", "--restart", "auto", config, "checkpoint.every_steps=90", "time.steps=700", np=3)
    check_traces(program, "after a kill", places, (0, 400, 700))
    program.succeed("-q", "--restart", "auto", config)
    check_traces(program, "a longer run", places, (0, 400, 800))
    (program.folder / "lines.txt").write_text("initial.seed=1\ninitial.seed=2\ninitial.seed=3\n")
    program.succeed("-q", config, "survey.shots=lines.txt", "checkpoint.path=", "output.path=s", "output.every=150", "time.steps=300", np=2)
    for shot in 1, 2, 3:
        check_traces(program, f"shot {shot} of a survey", places, (0, 150, 300), f"s/{shot:04d}")
    traces_without_room(program, config)
    traces_in_order(program, keys)


def traces_without_room(program, config):
    """Exit 2 before the first step; what --dry-run says is needed has the files in place of memory, too."""
    program.fail(2, ["out/u: a file of 225561600 bytes in place of memory", "File too large"], "-q", config, shell_before="ulimit -f 100000")
    dry = program.succeed("-n", config).out
    need = float(re.search(r"disk: out/u.*?: ([\d.]+) MiB needed", dry)[1])
    check("traces of 215.1 MiB on the disk of this rank" in dry and need > 2 * 215, dry)


# --- kills --------------------------------------------------------------------------------------------------------

# Few enough fields for any disk: what a run is going to write must fit.
KILLED = {**ENDLESS, "grid.nx": 96, "grid.ny": 96, "grid.nz": 96, "time.steps": 200000, "output.every": 200,
          "receivers.every": 2, "checkpoint.every_steps": 4}


class Killer:
    """Kills runs, each of which goes on from the one before, and counts."""

    def __init__(self, program, seed, longest=0.7):
        self.program, self.config, self.random = program, program.config(KILLED), random.Random(seed)
        self.longest = longest  # s that a run lives after it has started
        self.logged = 0  # the newest checkpoint that a run has said it has written
        self.seen, self.counts = set(), dict.fromkeys(("kills", "inside", "start", "rank", "mpirun"), 0)

    def kill_one(self):
        dice, program = self.random, self.program
        ranks = dice.choice((0, 1, 2, 3, 3))
        to, early = dice.choice(("rank", "mpirun")) if ranks else "rank", dice.random() < 0.1
        with Running(program, "--restart", "auto", self.config, f"output.compress={dice.choice((0, 1))}", np=ranks,
                     launch=["--mca", "odls_base_sigkill_timeout", "0"]) as run:
            run.wait_for(lambda: len(run.ranks()) == max(ranks, 1), "its ranks")
            if not early:
                run.wait_for(lambda: re.search("from the start|restart from", run.out()), "the start")
            time.sleep(dice.uniform(0, self.longest))
            everybody = run.ranks() + [run.process.pid]
            send(run.process.pid if to == "mpirun" else dice.choice(run.ranks() or everybody), signal.SIGKILL)
            result = run.wait()
            wait_gone(everybody, f"after a kill of {to}")  # two runs must not write under one path
        check(result.code not in range(5), f"it ended by itself, and was not killed: {result}")
        self.counts["kills"] += 1
        self.counts["start" if early else to] += 1
        self.look_at(result)

    def look_at(self, result):
        """A run began with the newest checkpoint that was whole, and left nothing half-written but temporary files."""
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


if __name__ == "__main__":
    main()
