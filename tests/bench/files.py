#!/usr/bin/env python3
"""The speed of the program's writes, from its reports: GiB/s of a field, a checkpoint and a compressed field, for ranks
and modes of I/O, beside dd with as many writers. Medians of rounds, which measure all in alternation.

    files.py STENCIL [--ranks N ...] [--folders FOLDER ...] [--gib N] [--rounds N] [--gzip LEVEL]

Folders: a tmpfs and a disk, say /dev/shm and the current one; files there are deleted.
"""
import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WHAT = {"field": ["time.steps=0"], "checkpoint": ["time.steps=1", "checkpoint.every_steps=1", "output.final=off"]}


def run(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"files.py: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")


def dd(folder, writers, gib):
    """GiB/s of as many writers of one new file, each of its own part, each with its fsync."""
    mib, begin = round(gib * 1024) // writers, time.perf_counter()
    every = [subprocess.Popen(["dd", "if=/dev/zero", f"of={folder / 'dd'}", "bs=1M", f"count={mib}", f"seek={i * mib}",
                               "conv=notrunc,fsync", "status=none"]) for i in range(writers)]
    if any([one.wait() for one in every]):
        sys.exit("files.py: dd failed")
    return gib / (time.perf_counter() - begin)


def rate(args, folder, ranks, way, keys):
    (folder / "any.ini").write_text("[grid]\nnx = 512\nny = 512\n[initial]\nu = random\n")
    run("mpirun", "--bind-to", "none", "--oversubscribe", "-np", ranks, args.stencil, "-q", "--report", folder / "r.json", folder / "any.ini",
        f"grid.nz={round(1024 * args.gib)}", f"parallel.io={way}", f"output.path={folder / 'u'}", "device.backend=host", *keys)
    return json.loads((folder / "r.json").read_text())["writer"]["rate"] / 2**30


def measure_round(args, name, found):
    what = {**WHAT, **({f"gzip {args.gzip}": ["time.steps=0", f"output.compress={args.gzip}"]} if args.gzip else {})}
    for ranks in args.ranks:
        for way in ("collective", "gather", *(["server"] if ranks > 1 else [])):
            for column in ("dd", *what):
                folder = Path(tempfile.mkdtemp(prefix="bench_files.", dir=name))  # new files: giving back old ones' pages takes time
                try:
                    speed = dd(folder, ranks, args.gib) if column == "dd" else rate(args, folder, ranks, way, what[column])
                finally:
                    shutil.rmtree(folder)
                found.setdefault((ranks, way), {}).setdefault(column, []).append(speed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stencil", type=Path)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--folders", nargs="+", default=["/dev/shm", "."])
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gzip", type=int, default=0, help="level of a compressed field (default 0: none)")
    args = parser.parse_args()
    args.stencil = args.stencil.resolve()
    for name in args.folders:
        found = {}
        for _ in range(args.rounds):
            measure_round(args, name, found)
        print(f"\n{name}: GiB/s, {args.gib:g} GiB, medians of {args.rounds}\n\n| ranks, io | {' | '.join(next(iter(found.values())))} |")
        print("|---" * (1 + len(next(iter(found.values())))) + "|")
        for (ranks, way), columns in found.items():
            print(f"| {ranks}, {way} | {' | '.join(f'{statistics.median(rounds):.2f}' for rounds in columns.values())} |", flush=True)


if __name__ == "__main__":
    main()
