#!/usr/bin/env python3
"""Input files damaged at random: bytes flipped, taken out, put in, cut off. Each ends as documented: with a run or one line of error.
mutations.py CASE STENCIL MPIEXEC   |   mutations.py --list   STENCIL_MUTATIONS=FIRST-END: only these

To be run with a program built under AddressSanitizer. Exit 0: as specified; 1: not, keeping the file in question.
"""
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import CRASH, case, check, h5py, main, np

FIRST, END = map(int, os.environ.get("STENCIL_MUTATIONS", "0-2200").split("-"))
SHAPE = (8, 7, 6)
RUN = {"grid.nx": SHAPE[2], "grid.ny": SHAPE[1], "grid.nz": SHAPE[0], "time.steps": 1, "equation.type": "wave",
       "source.1.position": "3 3 3", "device.threads": 1, "device.kernel": "simd"}
CHECKPOINT = "saved.00000001.h5"
# What HDF5 1.10.8 does by itself, and a sanitizer ends; without one it crashes later, of which the program tells.
OVERLAP = re.compile(r"memcpy-param-overlap.*?#0 [^\n]*memcpy[^\n]*\n *#1 [^\n]*libhdf5", re.S)


def write_inputs(folder):
    """A model, a wavelet and positions in each of the layouts that HDF5 has. Returns the keys that name each file."""
    rng = np.random.default_rng(7)
    model = rng.uniform(1000, 2000, SHAPE).astype("f4")
    wavelet = np.stack([np.arange(20) * 1e-2, rng.uniform(-1, 1, 20)], axis=1)
    positions = rng.uniform(0, 5, (4, 3))
    layouts = {"plain": {}, "chunks": {"chunks": True, "compression": "gzip", "shuffle": True},
               "checked": {"chunks": True, "fletcher32": True}, "scaled": {"chunks": True, "scaleoffset": 6}}
    files = {}
    for version in ("earliest", "v110"):
        for layout, options in layouts.items():
            name = f"{version}-{layout}.h5"
            with h5py.File(folder / name, "w", libver=(version, "v110")) as file:  # HDF5 1.10 reads no later one
                group = file.create_group("data/inputs")
                for dataset, values, units in (("v", model, "m/s"), ("w", wavelet, "s"), ("p", positions.astype("i4"), "m")):
                    group.create_dataset(dataset, data=values, **options)
                    group[dataset].attrs["units"] = units
                file["link"] = h5py.SoftLink("/data/inputs")
            files[name] = {"medium.velocity": f"{name}:/link/v", "source.1.wavelet": f"{name}:/data/inputs/w",
                           "receivers.positions": f"{name}:/data/inputs/p"}
    with h5py.File(folder / "virtual.h5", "w", libver=("v110", "v110")) as file:
        file["part"] = model
        layout = h5py.VirtualLayout(SHAPE, "f4")
        layout[:] = h5py.VirtualSource(".", "part", SHAPE)
        file.create_virtual_dataset("v", layout)
    files["virtual.h5"] = {"medium.velocity": "virtual.h5:/v"}
    return files


def save_outputs(program):
    """A field and a checkpoint of this program, to begin and to restart from. Returns the keys that name each file."""
    name = program.config({**RUN, "time.steps": 2, "initial.u": "random", "source.1.f0": 50, "output.path": "saved",
                           "checkpoint.path": "saved", "checkpoint.every_steps": 1}, "save.ini")
    program.succeed("-q", name)
    return {"saved.00000002.hdf": {"initial.u": "saved.00000002.hdf:/u"}, CHECKPOINT: {"time.steps": 2}}


def mutate(data, rng):
    """Changes 1 to 8 places, more often where most of HDF5's own records are: at the beginning."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        if not data:
            break
        at = min(int(len(data) * rng.random() ** 2), len(data) - 1)
        kind = rng.choice(("flip", "flip", "byte", "byte", "byte", "word", "insert", "remove", "copy", "cut"))
        size = rng.randint(1, 16)
        if kind == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "byte":
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == "word":
            data[at:at + 8] = rng.choice((0, 1, 2**31, 2**32, 2**63 - 1, 2**64 - 1)).to_bytes(8, "little")
        elif kind == "insert":
            data[at:at] = rng.randbytes(size)
        elif kind == "remove":
            del data[at:at + size]
        elif kind == "copy":
            start = rng.randrange(len(data))
            data[at:at + size] = data[start:start + size]
        elif rng.random() < 0.2:
            del data[max(at, 1):]
    return bytes(data)


def arguments(name):
    return ["--restart", name, f"{name}.ini"] if name == CHECKPOINT else [f"{name}.ini"]


def run_one(program, number, name, valid):
    """Returns what is wrong with how the program takes the mutated file; empty: nothing."""
    (program.folder / name).write_bytes(mutate(valid, random.Random(number)))
    for mode in ("-n", "-q"):
        for _ in range(5):
            try:
                done = subprocess.run(program.command([mode, *arguments(name)]), cwd=program.folder, env=program.environment,
                                      stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
            except subprocess.TimeoutExpired:
                return f"{mode} hung"
            said = done.stderr.decode(errors="replace")
            if "ompi_rte_init failed" not in said:  # as it may where many programs start at once
                break
        if OVERLAP.search(said):
            continue
        harmless = said.replace("WARNING: AddressSanitizer failed to allocate", "")  # it says so and returns NULL, as asked
        errors = [line for line in said.splitlines() if line.startswith("stencil: error: ")]
        if done.returncode not in (0, 1, 2, 3, 4) or CRASH.search(harmless) or len(errors) != (done.returncode != 0):
            return f"{mode}: exit {done.returncode}\n{said}"
    return ""


def take_all(program, numbers):
    kept = Path(tempfile.mkdtemp(prefix="mutations-"))
    files = {**write_inputs(program.folder), **save_outputs(program)}
    valid = {name: (program.folder / name).read_bytes() for name in files}
    failed = []
    for name, keys in files.items():
        program.config({**RUN, **keys, "source.1.wavelet": keys.get("source.1.wavelet", "ricker"),
                        "source.1.f0": None if "source.1.wavelet" in keys else 50}, f"{name}.ini")
        program.succeed("-q", *arguments(name))
    for number in numbers:
        name = list(files)[number % len(files)]
        wrong = run_one(program, number, name, valid[name])
        if wrong:
            shutil.copy(program.folder / name, kept / f"{number}-{name}")
            failed.append(f"{number} ({name}): {wrong[-600:]}")
            print(f"mutation {failed[-1]}", flush=True)
        (program.folder / name).write_bytes(valid[name])
    check(not failed, f"{len(failed)} of {len(numbers)} files, kept in {kept}")
    kept.rmdir()
    print(f"{len(numbers)} files")


@case
def slow_inputs(program):
    take_all(program, range(FIRST, END))


@case
def crashes(program):
    """Those that crashed HDF5 1.10.8, or hung after that."""
    take_all(program, (26, 1093, 2138))


if __name__ == "__main__":
    main()
