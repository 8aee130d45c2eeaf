#!/usr/bin/env python3
"""Halo transports, as a user chooses them: the same bits from each, refusals, and ranks that die in the middle.

usage: transports.py --list | transports.py CASE STENCIL MPIEXEC
"""
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import Running, case, check, h5py, main, np, read_field, same_bits, send, skip, write_field

HOST = ("sendrecv", "chunked", "shared", "auto")
CUDA = HOST + ("ipc",)
RUNS = {
    "jacobi": {"equation.type": "jacobi"},
    "jacobi periodic": {"equation.type": "jacobi", "boundary.z": "periodic"},
    "wave": {"equation.type": "wave", "medium.velocity": "v.h5:/v", "boundary.all": "absorbing", "boundary.width": 5,
             "boundary.z_lo": "dirichlet", "source.1.position": "14 9 12.5", "source.1.wavelet": "ricker", "source.1.f0": 90,
             "receivers.line": "2 3 1 25 14 26 9"},
    "heat": {"equation.type": "heat", "medium.diffusivity": "v.h5:/v", "boundary.all": "neumann"},
}


def has_nccl(program):
    return re.search(r"nccl .*\[NCCL \d", program.succeed("--version").out) is not None


def gpus(program):
    """GPUs that the program sees."""
    found = re.search(r"cuda: (\d+) device", program.succeed("--version").out)
    return int(found.group(1)) if found else 0


def grid(program):
    points = {"grid.nx": 29, "grid.ny": 18, "grid.nz": 28, "time.steps": 9, "output.every": 4}
    values = 1500 + 700 * np.random.default_rng(3).random((28, 18, 29))
    write_field(program.folder / "v.h5", values.astype("f4"), "v")
    return points


def saved(program):
    return [read_field(path, program.path) for path in sorted((program.folder / "out").glob("u.*.hdf"))]


RING = "jacobi periodic"  # on 4 ranks as well, whose slabs are all boundary; the other runs there would take long
FULL = "wave"  # three fields, absorbing layers, sources and receivers


def compare(program, backend, transports, ways=None):
    """`ways`: combinations of ranks and overlap. test_step tries all in one process, so transports and combinations
    alternate. FULL runs each of them (on the host, where starts are quick, with RING too); one transport runs the
    others."""
    for number, (name, changes) in enumerate(RUNS.items()):
        program.fresh()
        config = {**grid(program), **changes, "device.backend": backend, "device.kernel": "auto"}
        program.succeed(program.config(config), "device.backend=host", np=1)
        expected = saved(program)
        check(len(expected) == 4, f"{len(expected)} fields saved")
        every = ways or [(2, "on"), (3, "off")] + [(4, "on")] * (name == RING)
        all_rounds = name == FULL or name == RING and backend == "host"
        rounds = range(max(len(transports), len(every))) if all_rounds else [-1 - number]
        for transport, (count, overlap) in [(transports[t % len(transports)], every[t % len(every)]) for t in rounds]:
            result = program.succeed("run.ini", f"parallel.transport={transport}", f"parallel.overlap={overlap}", np=count)
            used = re.search(r"transport (\w+), overlap", result.out).group(1)
            check(used == transport or transport == "auto", f"{transport}: the log says {used}")
            for field, theirs in zip(saved(program), expected):
                check(same_bits(field, theirs), f"{name}, {transport}, np {count}, overlap {overlap}: other bits")
        print(f"{name}: the same bits")


@case
def bits(program):
    """Every transport of the host, on any number of ranks, gives the bits of one rank."""
    compare(program, "host", HOST)


def traces(program):
    with h5py.File(program.folder / "out/u.receivers.h5", "r") as file:
        return file["u"][...]


def way(program, *args, **kwargs):
    """Runs with `shared`; returns which of its ways the log names."""
    out = program.succeed("-v", *args, "parallel.transport=shared", **kwargs).out
    return re.search(r"^transport shared: (\w+):", out, re.M).group(1)


# On 2 and 3 ranks slabs of 24 and 16 planes, 8 KiB each; some receivers lie between the slabs of two ranks.
MAPPED = {"grid.nx": 29, "grid.ny": 24, "grid.nz": 48, "time.steps": 9, "output.every": 4, "device.kernel": "simd",
          "receivers.points": "2 3 23.5, 14.25 9.5 23.75, 3 3 15.25, 20.5 8 31.5, 7 7 47, 28 23 47, 5.5 5.5 0"}


@case
def mapped(program):
    """Ranks that see each other's planes: the bits of one rank, receivers between slabs too, and after a restart."""
    for name, changes in RUNS.items():
        program.fresh()
        wave = {"receivers.line": None} if "receivers.line" in changes else {}
        config = program.config({**MAPPED, **changes, **wave, "checkpoint.path": "out/c", "checkpoint.every_steps": 5})
        values = 1500 + 700 * np.random.default_rng(3).random((48, 24, 29))
        write_field(program.folder / "v.h5", values.astype("f4"), "v")
        program.succeed(config, np=1)
        expected, heard = saved(program), traces(program)
        check(len(expected) == 4 and np.abs(heard).max() > 0, f"{len(expected)} fields saved")
        again = ("--restart", "out/c.00000005.h5")
        for count, overlap, restart in ((2, "on", ()), (2, "on", again), (3, "off", ()), (3, "on", again)):
            said = way(program, *restart, config, f"parallel.overlap={overlap}", np=count)
            check(said == "mapped", f"{name}, np {count}: {said}")
            check(all(map(same_bits, saved(program), expected)), f"{name}, np {count}, {restart}: other bits")
            check(same_bits(traces(program), heard), f"{name}, np {count}, {restart}: other traces")
        print(f"{name}: mapped on 2 and 3 ranks, begun anew and after a restart: the same bits")


@case
def copied(program):
    """Where planes cannot be mapped `shared` copies them, says so, and gives the same bits. Slabs so thin that all planes
    are somebody's ghosts, and those long enough to be shared out in blocks of rows, are mapped."""
    for changes, count, how in (({"grid.ny": 23, "boundary.z": "periodic", "grid.nz": 47}, 2, "copied"),
                                ({"grid.ny": 23, "boundary.z": "periodic", "grid.nz": 47}, 3, "copied"),
                                ({"grid.nz": 20}, 3, "mapped"), ({"grid.nx": 1000, "grid.ny": 40}, 2, "mapped")):
        program.fresh()
        config = program.config({**MAPPED, "receivers.points": "2 3 8.5, 1 1 9", **changes})
        program.succeed(config, "device.kernel=simd", np=1)
        expected, heard = saved(program), traces(program)
        said = way(program, config, np=count)
        check(said == how, f"{changes}, np {count}: {said}")
        check(all(map(same_bits, saved(program), expected)), f"{changes}, np {count}: other bits")
        check(same_bits(traces(program), heard), f"{changes}, np {count}: other traces")


@case
def refused(program):
    """A transport that this machine or program cannot do is exit 1 and says why; `auto` says what it skipped."""
    config = program.config({**grid(program), "equation.type": "jacobi"})
    program.fail(1, ["transport = ipc", "GPU"], config, "parallel.transport=ipc", np=2)
    program.fail(1, ["transport = cuda_aware", "GPU"], config, "parallel.transport=cuda_aware", np=2)
    program.fail(1, ["transport = nccl", "GPU"], config, "parallel.transport=nccl", np=2)
    program.fail(1, ["transport = nccl"], config, "parallel.transport=nccl", "--dry-run")
    program.fail(1, ["transport = ipc", "GPU"], config, "parallel.transport=ipc", "--dry-run")
    program.fail(1, ["schedule = persistent", "GPU"], config, "parallel.schedule=persistent", np=2)
    program.fail(1, ["transport", "mpi", "chunked"], config, "parallel.transport=mpi")
    out = program.succeed(config, np=2).out
    check(re.search(r"transport auto: \w+ \(sendrecv .* ms; chunked .* ms; shared .* ms; .*ipc: it needs a GPU", out), out)


def deaths(program, backend, transports, ranks=3):
    """SIGKILL of a rank while all step: the job ends."""
    dice = random.Random(11)
    for transport in transports:
        program.fresh()
        config = program.config({"grid.nx": 64, "grid.ny": 64, "grid.nz": 96, "time.steps": 10**7,
                                 "device.backend": backend, "report.progress": "on"})
        with Running(program, config, f"parallel.transport={transport}", np=ranks) as run:
            run.wait_until_it_steps()
            time.sleep(dice.random())
            send(dice.choice(run.ranks()), signal.SIGKILL)
            result = run.wait()
            check(result.code != 0, f"{transport}: exit {result.code}")
            print(f"{transport}: over after a rank was killed")


@case
def death(program):
    """A rank that dies in the middle of the exchanges, under each transport of the host."""
    deaths(program, "host", HOST[:3])


@case
def cuda(program):
    """On GPUs: every transport gives the host's bits, with one GPU for several ranks, or some each, in any order."""
    program.skip_without_cuda()
    compare(program, "cuda", CUDA)
    persistent(program)
    deaths(program, "cuda", ("shared", "ipc"))


@case
def nccl_library(program):
    """Where libnccl.so.2 is no library, or lacks a function, the program runs and says why nccl cannot be."""
    folder = program.root / "library"
    library, found = folder / "libnccl.so.2", {"LD_LIBRARY_PATH": folder}

    def refuses(reason):
        out = program.succeed("--version", env=found).out
        check(re.search(rf"  nccl .*\[.*libnccl.so.2{reason}\]\n", out), f"--version does not say '{reason}': {out}")
        program.fail(1, ["transport = nccl", reason if gpus(program) else "GPU"],
                     program.config({"device.backend": "auto"}), "parallel.transport=nccl", np=2, env=found)

    folder.mkdir()
    library.write_text("no library\n")
    refuses(": file too short")
    if not shutil.which("cc"):
        skip("there is no C compiler to make a library that lacks functions")
    (folder / "stub.c").write_text("int ncclGetVersion(int *version) { return *version = 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "stub.c"], check=True)
    refuses(" has no ncclGetErrorString")


@case
def nccl(program):
    """With NCCL and a GPU for each rank: the host's bits, a refusal where ranks share a GPU, and a rank that dies."""
    if not has_nccl(program):
        skip("there is no libnccl.so.2")
    most = gpus(program)
    if not most:
        skip("no usable CUDA device")
    config = program.config({**grid(program), "device.backend": "cuda"})
    if most < 7:  # else the ranks' slabs are too thin
        program.fail(1, ["transport = nccl", "share a GPU"], config, "parallel.transport=nccl", np=most + 1)
        out = program.succeed(config, np=most + 1).out
        check(f"{most + 1} ranks of this node share {most} GPU" in out, f"no warning of it: {out}")
    if most < 2:
        skip("NCCL needs a GPU for each rank, and there is one; that it refuses two ranks was seen")
    counts = [n for n in (2, 3, 4) if n <= most]
    compare(program, "cuda", ("nccl",), [(n, overlap) for n in counts for overlap in ("on", "off")])
    out = program.succeed(program.config({**grid(program), "device.backend": "cuda"}), np=2).out
    check(re.search(r"transport auto: \w+ \(.*ipc [\d.e-]+ ms.*nccl: not tried", out) and "share" not in out, f"auto: {out}")
    deaths(program, "cuda", ("nccl",), counts[-1])


def persistent(program):
    """The persistent schedule gives the host's bits on 1 to 7 ranks, and refuses what it cannot do."""
    size = {"grid.nx": 131, "grid.ny": 21, "grid.nz": 37, "time.steps": 9, "output.every": 4, "device.backend": "cuda"}
    receivers = {"receivers.line": "2 3 1 125 14 36 9", "receivers.every": 3}
    wave = {"equation.type": "wave", "medium.velocity": 1800}
    heat = {"equation.type": "heat", "medium.diffusivity": "v.h5:/v", "boundary.x": "periodic", "boundary.y_hi": "neumann",
            "boundary.z_lo": "dirichlet"}
    for changes, counts in (({}, (1, 7)), ({"boundary.z": "periodic"}, (2, 4)),
                            ({**wave, **receivers, "boundary.all": "dirichlet"}, (3,)), (heat, (4,))):
        program.fresh()
        values = 1 + np.random.default_rng(5).random((37, 21, 131))
        write_field(program.folder / "v.h5", values.astype("f4"), "v")
        config = program.config({**size, **changes})
        program.succeed(config, "device.backend=host", np=1)
        expected = saved(program)
        for count in counts:
            program.succeed(config, "parallel.schedule=persistent", np=count)
            for mine, theirs in zip(saved(program), expected):
                check(same_bits(mine, theirs), f"persistent, np {count}, {changes}: other bits")
    absorbing = program.config({**size, **wave, "boundary.all": "absorbing", "boundary.width": 4})
    program.fail(1, ["persistent", "absorbing"], absorbing, "parallel.schedule=persistent")
    program.fail(1, ["persistent", "ipc"], program.config(size), "parallel.schedule=persistent",
                 "parallel.transport=shared", np=2)
    print("persistent: the same bits")


if __name__ == "__main__":
    main()
