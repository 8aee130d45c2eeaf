#!/usr/bin/env python3
"""Guards of a run: the watchdog, the check of disk space, the end of all ranks when one dies, the clock of checkpoints.
guards.py CASE STENCIL MPIEXEC | guards.py --list
"""
import ctypes
import os
import random
import re
import signal
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import SOURCE, Running, alive, case, check, h5py, main, np, same_bits, send, skip, wait_gone

LONG = {"grid.nx": 48, "grid.ny": 48, "grid.nz": 48, "time.steps": 100000000, "equation.type": "wave",
        "report.progress": "off", "checkpoint.path": "out/c"}


def start(run, ranks=3):
    """Until the loop runs; returns the ranks' processes."""
    run.wait_until_it_steps()
    check(len(run.ranks()) == ranks, f"{len(run.ranks())} ranks run")
    return run.ranks()


# --- the watchdog -------------------------------------------------------------------------------------------------

def check_barked(result, rank, limit, about):
    check(result.code == 4, f"{about}: expected exit 4, got {result}")
    said = re.fullmatch(rf"stencil: error: rank (\d+) has not finished step (\d+) after {limit} s \((.+)\)", "".join(result.errors))
    check(said, f"{about}: expected one line of the watchdog, got {result}")
    check(int(said.group(1)) == rank, f"{about}: it was rank {rank}: {result.errors}")
    return int(said.group(2)), said.group(3)


@case
def watchdog(program):
    """A rank that stands still ends the job, and is named; so is one that is stopped while it saves."""
    config = program.config(LONG)
    for rank in range(3):
        # A rank may be stopped just after it has ended a step: then the neighbour that waits for its planes is behind.
        stopped_at_the_end = stopped_rank(program, config, rank) and stopped_rank(program, config, rank)
        check(not stopped_at_the_end, f"rank {rank} stopped: a neighbour was named, twice")
    check(not [name for name in program.files() if name.startswith("out/")], f"left {program.files()}")
    stopped_while_saving(program)


def stopped_rank(program, config, rank):
    """True: the watchdog has named a neighbour, which waits."""
    with Running(program, config, "parallel.watchdog_seconds=2", np=3) as run:
        pids = start(run)
        send(pids[rank], signal.SIGSTOP)
        result = run.wait()
        wait_gone(pids, f"rank {rank} stopped")
    if "waiting in the exchange" in "".join(result.errors):
        return True
    step, why = check_barked(result, rank, 2, f"rank {rank} stopped")
    check(step > 1 and why == "its process does not run", f"rank {rank}: step {step}, {why}")
    print(f"rank {rank} stopped: ended at step {step}", flush=True)
    return False


def stopped_while_saving(program):
    config = program.config({**LONG, "grid.nx": 128, "grid.ny": 128, "grid.nz": 128, "initial.u": "random",
                             "output.compress": 9, "checkpoint.every_steps": 3})
    with Running(program, config, "parallel.watchdog_seconds=1", np=3) as run:
        pids = start(run)
        run.wait_for(lambda: list(program.folder.glob("out/c.*.tmp.*")), "a checkpoint")
        send(pids[0], signal.SIGSTOP)
        check_barked(run.wait(), 0, 1, "stopped while saving")
        wait_gone(pids, "stopped while saving")


class Held:
    """Only the main thread of a process stands still, as if stuck in the device or in MPI; use it in a `with`."""

    SEIZE, INTERRUPT, ALL = 0x4206, 0x4207, 0x40000000  # of ptrace, ptrace, waitpid

    def __init__(self, pid):
        self.pid, ptrace = pid, ctypes.CDLL(None, use_errno=True).ptrace
        ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        if ptrace(self.SEIZE, pid, None, None):
            skip(f"no process may be traced here: {os.strerror(ctypes.get_errno())}")
        ptrace(self.INTERRUPT, pid, None, None)
        os.waitpid(pid, self.ALL)

    def has_ended(self):
        """Call this until it is true: mpirun learns of the end of a traced process only then."""
        try:
            return os.waitpid(self.pid, self.ALL | os.WNOHANG)[0] != 0 and not alive(self.pid)
        except ChildProcessError:
            return True


@case
def slow_watchdog_thread(program):
    """A process whose main thread is stuck while others run: the watchdog names it, not a rank that waits for it."""
    config = program.config({**LONG, "grid.nx": 150, "grid.ny": 150, "grid.nz": 90})
    for number, transport in enumerate(("sendrecv", "chunked", "shared") * 2):
        rank = 1 + number % 2  # not the first, which is named where nothing distinguishes them
        keys = [f"parallel.transport={transport}", f"parallel.overlap={('on', 'off')[number // 3]}"]
        with Running(program, config, "parallel.watchdog_seconds=1", *keys, np=3) as run:
            held = Held(start(run)[rank])
            run.wait_for(held.has_ended, f"end with {keys}", may_end=True)
            _, why = check_barked(run.wait(), rank, 1, f"{keys}, rank {rank} held")
        check(why != "its process does not run", f"{keys}: it ran: {why}")
        print(f"rank {rank} held, {' '.join(keys)}: named, {why}", flush=True)


@case
def slow_watchdog_patience(program):
    """The watchdog does not end a healthy run, slow saves, or a job that is suspended as a whole; turned off, it does nothing."""
    config = program.config({**LONG, "time.steps": 3000, "output.every": 1000, "checkpoint.every_steps": 700})
    program.succeed("-q", config, "parallel.watchdog_seconds=2", np=3)
    program.succeed("-q", config, "output.path=out/ref", "checkpoint.path=out/ref")
    check(same_bits(program.field(3000), program.field(3000, "out/ref")), "other bits with the watchdog")
    program.succeed("-q", "--benchmark", "500", config, "parallel.watchdog_seconds=2", np=2)
    slow_saves(program)
    for seconds, whom in ((0, "one"), (1, "all")):
        stopped_and_continued(program, program.config(LONG), seconds, whom)


def slow_saves(program):
    """24 MB of noise at gzip 9: a save takes twice as long as the watchdog then allows a step."""
    config = program.config({**LONG, "grid.nx": 144, "grid.ny": 144, "grid.nz": 144, "time.steps": 4, "initial.u": "random",
                             "output.every": 2, "output.compress": 9, "checkpoint.every_steps": 2})
    result = program.succeed(config, np=3)
    seconds = [float(s) for s in re.findall(r"^checkpoint out/c\.\d+\.h5 \(([\d.]+) s\)", result.out, re.MULTILINE)]
    check(len(seconds) == 2, f"expected 2 checkpoints: {result}")
    limit = max(min(seconds) / 2, 0.5)
    program.succeed(config, f"parallel.watchdog_seconds={limit}", np=3)
    print(f"saves of {seconds} s under a watchdog of {limit} s: undisturbed", flush=True)


def stopped_and_continued(program, config, watchdog_seconds, whom):
    with Running(program, config, f"parallel.watchdog_seconds={watchdog_seconds}", np=3) as run:
        pids = start(run)
        halted = pids if whom == "all" else pids[1:2]
        for seconds in (3, 1.7, 1.8, 1.9, 2):
            for pid in halted:
                send(pid, signal.SIGSTOP)
            time.sleep(seconds)
            check(run.process.poll() is None, f"{whom} stopped, watchdog {watchdog_seconds} s: ended: {run.result()}")
            for pid in halted:
                send(pid, signal.SIGCONT)
            time.sleep(0.5)
        send(pids[0], signal.SIGUSR1)
        result = run.wait()
    check(result.code == 75, f"{whom} stopped and continued: expected exit 75, got {result}")
    print(f"{whom} stopped for up to 3 s, 5 times, watchdog {watchdog_seconds} s: went on", flush=True)


# --- room on disk -------------------------------------------------------------------------------------------------

# Runs "$@" with a small file system in out/small, and prints the files left in it.
MOUNTED = """mount -t tmpfs -o size=$SIZE none out/small || exit 99
for name in $OLD; do head -c 300000 /dev/zero > out/small/$name; done
"$@"; code=$?
echo "left: $(ls out/small | tr '\\n' ' ')"
exit $code"""


def on_small_disk(program, *args, size, ranks=0, old=""):
    return program.run_with_mounts(MOUNTED, *args, np=ranks, SIZE=size, OLD=old)


FIELD, BESIDE = 40 * 40 * 40 * 4, 9000  # bytes: values; HDF5's own and attributes, at least
ROOM = {"grid.nx": 40, "grid.ny": 40, "grid.nz": 40, "time.steps": 20, "output.path": "out/small/u",
        "checkpoint.path": "out/small/c"}


def check_refused(result, paths, fields, about):
    """Exit 2 before the first step: the message names the size of so many fields, and a little more."""
    check(result.code == 2 and len(result.errors) == 1, f"{about}: expected exit 2 and one error, got {result}")
    said = re.search(r"error: (.*): the run needs (\d+) bytes on disk, (\d+) are available$", result.errors[0])
    check(said and said.group(1) == paths, f"{about}: expected '{paths}' in {result.errors}")
    needed, available = int(said.group(2)), int(said.group(3))
    check(fields * FIELD + BESIDE <= needed < fields * (FIELD + 2 * BESIDE) and available < needed,
          f"{about}: expected {fields} fields, {fields * FIELD} bytes: {result.errors}")
    check(not re.search(r"left: .*\.(hdf|h5|tmp)", result.out), f"{about}: it has written: {result}")
    check("step " not in result.out.replace("steps", ""), f"{about}: noticed only after the first step: {result}")


@case
def room(program):
    """What cannot fit on the disk is refused before the first step; what just fits runs."""
    config = program.config(ROOM)
    (program.folder / "out/small").mkdir()
    program.need_mounts()
    u, c = "out/small/u", "out/small/c"
    for options, paths, fields, ranks in (
            (["output.every=4"], u, 6, 0), (["output.every=6"], u, 5, 3),
            (["checkpoint.every_steps=4"], f"{u} and {c}", 1 + 3, 0),
            (["checkpoint.every_steps=4", "checkpoint.keep=4"], f"{u} and {c}", 1 + 5, 3),
            (["checkpoint.every_steps=20"], f"{u} and {c}", 1 + 1, 0),
            (["checkpoint.every_steps=4", "checkpoint.path=out/c", "output.every=10"], u, 3, 0),
            (["checkpoint.every_seconds=5", "output.path=out/u", "equation.type=wave"], c, 2, 0),
            (["checkpoint.every_steps=4", "output.compress=1"], f"{u} and {c}", 3, 0),
            (["receivers.line=1 1 1 30 30 30 30000"], u, 1 + (30000 * (24 + 8 + 21 * 4)) / FIELD, 0),
            (["receivers.line=1 1 1 30 30 30 30000", "checkpoint.every_steps=10"], f"{u} and {c}",
             1 + 2 + 30000 * (24 + 8 + 21 * 4 + (11 + 21) * 4) / FIELD, 3)):
        about = f"{options} on {ranks} ranks"
        small = on_small_disk(program, *(["-n"] if ranks == 3 else []), config, *options, size=f"{int((fields - 0.3) * 250)}k",
                              ranks=ranks)
        check_refused(small, paths, fields, about)
        large = on_small_disk(program, config, *options, size=f"{int(fields * 250) + 600}k", ranks=ranks)
        check(large.code == 0, f"{about}: refused though it fits: {large}")
    result = on_small_disk(program, config, "grid.nx=8", "grid.ny=8", "grid.nz=8", "time.steps=200", "output.every=1",
                           size="1500k")  # 402 kB of values, 1.8 MB of what describes them
    check(result.code == 2 and "the run needs" in result.err, f"many small fields: expected to be refused: {result}")
    half_known(program, config)


def half_known(program, config):
    """Old files that are replaced make room; what is compressed is not counted."""
    old = " ".join(f"u.{step:08d}.hdf" for step in (0, 4, 8, 12, 16))
    result = on_small_disk(program, config, "output.every=4", size="2300k", old=old)
    check(result.code == 0 and result.out.partition("left:")[2].count(".hdf ") == 6, f"files that are replaced were not counted: {result}")
    result = on_small_disk(program, config, "output.every=4", "initial.u=zero", "output.compress=1", size="600k")
    check(result.code == 0 and "before compression" in result.out, f"compressed: {result}")
    result = on_small_disk(program, "-n", config, "output.every=4", size="4m")
    check("disk: out/small/u: 1.6 MiB needed, 4.0 MiB available" in result.out, f"--dry-run: {result}")


# --- little memory ------------------------------------------------------------------------------------------------

# malloc has nothing left for the list of sources, on all ranks but the first.
NO_SOURCES = """#include <stdlib.h>
#include "config/config.h"
void *__libc_malloc(size_t size);
void *malloc(size_t size) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  return rank && *rank != '0' && size == SOURCES * sizeof(source_config) ? NULL : __libc_malloc(size);
}
"""


@case
def no_memory(program):
    """A rank without memory for the configuration: one line, exit 4, and nothing is freed that is not its own."""
    sources = 7
    lacking = program.preload("no_sources", NO_SOURCES, f"-DSOURCES={sources}", "-I", SOURCE, "-I", SOURCE / "src")
    shot = {f"source.{i + 1}.{key}": value for i in range(sources)
            for key, value in (("position", f"{3 + i} 5 6"), ("f0", 50))}
    config = program.config({"equation.type": "wave", "initial.u": "zero", "receivers.line": "1 1 1 9 9 9 900", **shot})
    program.succeed("-n", config, np=3)
    program.fail(4, ["out of memory", "the configuration"], config, np=3, env=lacking)


@case
def small_stack(program):
    """Threads with stacks of 128 KiB write fields and checkpoints, compressed or not."""
    for compress in (0, 1):
        program.fresh()
        program.succeed("-q", program.config({"time.steps": 9, "output.every": 3, "output.compress": compress,
                                              "checkpoint.every_steps": 2}), shell_before="ulimit -s 128")
        check(len(program.files()) == 9, f"it wrote {program.files()}")  # 4 fields, two lists of them, 2 checkpoints


# --- a rank dies --------------------------------------------------------------------------------------------------

def whole_files(program, about):
    """Whatever has its final name can be read."""
    for path in program.folder.glob("out/*"):
        if re.search(r"\.\d{8,}\.(hdf|h5)$", path.name):
            with h5py.File(path, "r") as file:
                check(np.isfinite(file["u"][...]).all(), f"{about}: {path.name} is not whole")


def temporary(pattern):
    return lambda program, run: list(program.folder.glob(pattern))


def stepping(program, run):
    return run.may_step()


def loading(program, run):
    return re.search(r"^wave:", run.out(), re.M)


BIG = {"grid.nx": 128, "grid.ny": 128, "grid.nz": 128}
# Moments of a run: name, changes that prolong it, a function that finds its beginning.
MOMENTS = [
    ("steps", {"grid.nx": 96, "grid.ny": 96, "grid.nz": 96}, stepping),
    ("an exchange", {"grid.nx": 200, "grid.ny": 200, "grid.nz": 12}, stepping),  # little else to do
    ("a save", {**BIG, "output.every": 2, "output.compress": 9}, temporary("out/u.*.hdf.tmp.*")),
    ("a checkpoint", {**BIG, "checkpoint.every_steps": 2, "output.compress": 9}, temporary("out/c.*.tmp.*")),
    ("loading", {"grid.nx": 300, "grid.ny": 300, "grid.nz": 300}, loading),
]


@case
def deaths(program):
    """SIGKILL or SIGSEGV of any rank at any moment: all ranks end soon, with a short message, and only whole files are left."""
    kill_ranks(program, 5, lambda i: [(signal.SIGKILL, signal.SIGSEGV)[i % 2]])


@case
def slow_deaths(program):
    """The same, several times at each moment."""
    kill_ranks(program, 15, lambda i: [signal.SIGKILL, signal.SIGSEGV, signal.SIGKILL])


def kill_ranks(program, least, numbers):
    """numbers(i): the signals for the i-th of MOMENTS; `least`: how many kills there must be in all."""
    dice, count = random.Random(8), 0
    for i, (name, changes, begun) in enumerate(MOMENTS):
        for number in numbers(i):
            program.fresh()
            config = program.config({**LONG, "initial.u": "random", **changes})
            rank, delay = dice.randrange(3), dice.uniform(0, 0.2)
            about = f"{number.name} of rank {rank} {delay:.2f} s into {name}"
            with Running(program, config, np=3) as run:
                run.wait_for(lambda: begun(program, run) and len(run.ranks()) == 3, name)  # pylint: disable=cell-var-from-loop
                time.sleep(delay)
                pids = run.ranks()
                send(pids[rank], number)
                result = run.wait()
                wait_gone(pids, about)
            check(result.code == 128 + number, f"{about}: {result}")
            check(not result.errors, f"{about}: the others have something to say: {result}")
            check(result.err.count("noticed that process") == 1, f"{about}: mpirun does not say it once: {result}")
            whole_files(program, about)
            count += 1
            print(f"{about}: ended", flush=True)
    check(count >= least, f"the test has become too small: {count} deaths, expected {least}")
    print(f"{count} deaths, after each of which all ranks were gone")


# --- checkpoints by the clock -------------------------------------------------------------------------------------

@case
def clock(program):
    """checkpoint.every_seconds: they come by themselves, on all ranks at the same step, `keep` of them; a restart has the bits."""
    config = program.config({**LONG, "initial.u": "random", "checkpoint.keep": 2})
    with Running(program, config, "checkpoint.every_seconds=0.5", np=3) as run:
        pids = start(run)
        written = lambda: [int(n) for n in re.findall(r"^checkpoint out/c\.(\d+)\.h5", run.out(), re.MULTILINE)]
        run.wait_for(lambda: len(written()) >= 4, "4 checkpoints")
        send(pids[2], signal.SIGUSR1)
        result = run.wait()
    steps = written()
    check(result.code == 75, f"expected exit 75, got {result}")
    check(steps == sorted(set(steps)), f"checkpoints at {steps}")
    left = sorted(p.name for p in program.folder.glob("out/c*"))
    check(left == [f"c.{step:08d}.h5" for step in steps[-2:]], f"written at {steps}, left {left}")
    end = f"time.steps={steps[-2] + 50}"  # from one that the clock has asked for, not the last, of the signal
    program.succeed("-q", "--restart", f"out/{left[0]}", config, end, np=2)
    program.succeed("-q", config, end, "output.path=out/ref")
    check(same_bits(program.field(steps[-2] + 50), program.field(steps[-2] + 50, "out/ref")), "other bits after a restart")
    print(f"checkpoints at steps {steps}")
    result = program.succeed(config, "time.steps=300", "checkpoint.every_seconds=1000", np=2)
    check("checkpoint out" not in result.out, f"a checkpoint before its time: {result}")


if __name__ == "__main__":
    main()
