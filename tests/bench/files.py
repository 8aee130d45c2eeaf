#!/usr/bin/env python3
"""How fast files are written and read: tables in GiB/s and seconds, medians of turns.

    files.py BUILD [options]        BUILD: a build folder with stencil and tests/bench/bench_files

  table    ranks x mode: a field, a checkpoint, a restart (reading and checking it), a compressed field, beside dd with as many
           writers and beside the stick (bench_files: positioned writes with a checksum, the least that such a file can cost)
  start    the whole program: a run of some steps from the start and from a checkpoint of GIB, from the first process to the last
  shot     a wave in absorbing layers with receivers and saved fields, beside the same loop with nothing saved

Folders: a tmpfs and a disk, say /dev/shm and the current one; files there are deleted. What is compared is measured in turns.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLUMNS = ["stick, write", "field", "checkpoint", "stick, read", "restart", "gzip"]
RATIOS = {"field": "stick, write", "checkpoint": "stick, write", "restart": "stick, read"}


def launch(ranks, *command, **options):
    """Runs it under mpirun and returns its output and its seconds."""
    begin = time.perf_counter()
    done = subprocess.run(["mpirun", "--bind-to", "none", "--oversubscribe", "-np", str(ranks), *map(str, command)],
                          capture_output=True, text=True, **options)
    seconds = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"files.py: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout, seconds


def dd_seconds(file, writers, gib):
    """As many writers of one new file, each of its own part, each with its fsync."""
    file.unlink(missing_ok=True)
    mib = round(gib * 1024) // writers
    begin = time.perf_counter()
    all_of_them = [subprocess.Popen(["dd", "if=/dev/zero", f"of={file}", "bs=1M", f"count={mib}", f"seek={i * mib}",
                                     "conv=notrunc,fsync", "status=none"]) for i in range(writers)]
    if any([one.wait() for one in all_of_them]):
        sys.exit("files.py: dd failed")
    seconds = time.perf_counter() - begin
    file.unlink()
    return seconds


def table_turn(args, folder, found):
    for ranks in args.ranks:
        gib = args.gib
        found.setdefault(("dd", ranks), []).append(dd_seconds(folder / "dd", ranks, gib))
        text, _ = launch(ranks, args.bench, folder, gib, args.gzip, *args.modes)
        for mode, threads, *seconds in map(str.split, text.splitlines()):
            found.setdefault((mode, ranks, int(threads)), []).append([float(s) for s in seconds])


def table_show(args, name, found):
    dd = {key[1]: args.gib / statistics.median(turns) for key, turns in found.items() if key[0] == "dd"}
    print(f"\n{name}: GiB/s, {args.gib:g} GiB, medians of {args.turns}; in brackets % of the stick\n")
    print(f"| ranks x threads, mode | dd | {' | '.join(COLUMNS if args.gzip else COLUMNS[:-1])} |")
    print("|---" * (len(COLUMNS) + 1 + bool(args.gzip)) + "|")
    for key in sorted((key for key in found if key[0] != "dd"), key=lambda key: (key[0], key[1])):
        mode, ranks, threads = key
        turns = dict(zip(COLUMNS, zip(*found[key])))
        cells = [f"{dd[ranks]:.2f}"]
        for column in COLUMNS if args.gzip else COLUMNS[:-1]:
            cell = f"{args.gib / statistics.median(turns[column]):.2f}"
            if column in RATIOS:
                of_stick = statistics.median(s / own for s, own in zip(turns[RATIOS[column]], turns[column]))
                cell += f" ({100 * of_stick:.0f})"
            cells.append(cell)
        who = f"{ranks - 1} + 1" if mode == "server" else ranks
        print(f"| {who} x {threads}, {mode} | {' | '.join(cells)} |")
    server = [(key, turns) for key, turns in found.items() if key[0] == "server"]
    alone = next((turns for key, turns in found.items() if key[:2] == ("gather", 1)), None)
    for key, turns in sorted(server) if alone else []:
        ratios = [statistics.median(one[k] / other[k] for one, other in zip(alone, turns)) for k in (1, 2, 4)]
        print(f"server, {key[1] - 1} + 1 ranks / gather on one rank: field {ratios[0]:.2f}, checkpoint {ratios[1]:.2f}, "
              f"restart {ratios[2]:.2f}")


def table(args):
    for name in args.folders:
        folder = Path(tempfile.mkdtemp(prefix="bench_files.", dir=name))
        found = {}
        try:
            for _ in range(args.turns):
                table_turn(args, folder, found)
        finally:
            shutil.rmtree(folder)
        table_show(args, name, found)
        sys.stdout.flush()


WAVE = """[grid]
nx = 512
ny = 512
nz = {nz}
[time]
steps = {steps}
[equation]
type = wave
[initial]
u = gaussian
width = 8
[output]
path = u
[checkpoint]
path = c
keep = 2
"""


def start(args):
    """From the start to step 3, and from step 1 or 2: the same plan of steps, which takes seconds itself where transports are
    tested. `auto, damaged`: the newest of two is damaged in its last row, so that both are read; in the end it is mended
    again."""
    folder = Path(tempfile.mkdtemp(prefix="bench_files.", dir=args.folders[0]))
    kinds = {"fresh": ["checkpoint.path=other"], "restart FILE": ["--restart", "first.h5"], "auto of 2": ["--restart", "auto"],
             "auto, damaged": ["--restart", "auto"]}
    found = {}

    def run(ranks, *rest):
        return launch(ranks, args.stencil, "-q", "wave.ini", *rest, cwd=folder)[1]

    def two_checkpoints(ranks):
        for file in folder.glob("c.*.h5"):
            file.unlink()
        run(ranks, "time.steps=2", "checkpoint.every_steps=1")
        shutil.copy(folder / "c.00000001.h5", folder / "first.h5")

    def flip(file):
        with open(file, "r+b") as opened:
            opened.seek(-(1 << 20), os.SEEK_END)
            byte = opened.read(1)[0]
            opened.seek(-1, os.SEEK_CUR)
            opened.write(bytes([byte ^ 255]))

    try:
        (folder / "wave.ini").write_text(WAVE.format(nz=round(args.gib * 512), steps=3))
        for ranks in args.ranks:
            two_checkpoints(ranks)
            for _ in range(args.turns):
                for kind, words in kinds.items():
                    if kind == "auto, damaged":
                        flip(folder / "c.00000002.h5")
                    found.setdefault((ranks, kind), []).append(run(ranks, *words))
                flip(folder / "c.00000002.h5")
    finally:
        shutil.rmtree(folder)
    print(f"\n{args.folders[0]}: whole runs, s, medians of {args.turns}, a checkpoint of {args.gib:g} GiB\n")
    print(f"| ranks | {' | '.join(kinds)} |\n{'|---' * (len(kinds) + 1)}|")
    for ranks in args.ranks:
        print(f"| {ranks} | " + " | ".join(f"{statistics.median(found[ranks, kind]):.2f}" for kind in kinds) + " |")


def shot(args):
    """Seconds of the loop (the report's) with traces and fields, with each alone, and with nothing saved."""
    folder = Path(tempfile.mkdtemp(prefix="bench_files.", dir=args.folders[0]))
    n = args.points
    receivers = f"receivers.line=20 20 20 {n - 20} {n - 20} 20 {n * n}"
    kinds = {"nothing": [], "receivers": [receivers, "receivers.every=4"], "fields": [f"output.every={args.every}"],
             "both": [receivers, "receivers.every=4", f"output.every={args.every}"]}
    found = {}
    try:
        (folder / "wave.ini").write_text(WAVE.format(nz=n, steps=args.steps) + "[boundary]\nall = absorbing\n")
        for _ in range(args.turns):
            for kind, words in kinds.items():
                launch(1, args.stencil, "-q", "--report", "report.json", "wave.ini", f"grid.nx={n}", f"grid.ny={n}", *words,
                       cwd=folder)
                report = json.loads((folder / "report.json").read_text())
                found.setdefault(kind, []).append((report["seconds"], report["phases"]["io"] * report["steps"],
                                                   report["phases"]["io_wait"] * report["steps"],
                                                   report["writer"]["rate"] / 2**30))
    finally:
        shutil.rmtree(folder)
    print(f"\n{args.folders[0]}: {n}^3, absorbing, {args.steps} steps, {n * n} receivers every 4 steps, a field every "
          f"{args.every}; medians of {args.turns}\n")
    print("| saved | loop, s | times nothing | io, s | waiting, s | writer, GiB/s |\n|---|---|---|---|---|---|")
    for kind, turns in found.items():
        ratio = statistics.median(one[0] / other[0] for one, other in zip(turns, found["nothing"]))
        seconds, io, wait, rate = map(statistics.median, zip(*turns))
        print(f"| {kind} | {seconds:.3f} | {ratio:.3f} | {io:.3f} | {wait:.3f} | {rate:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("what", nargs="*", default=["table"], help="table, start, shot (default: table)")
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--modes", nargs="+", default=[], help="collective, gather, server (default: all)")
    parser.add_argument("--folders", nargs="+", default=["/dev/shm", "."])
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--gzip", type=int, default=0, help="level of the compressed field (default 0: none)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--points", type=int, default=512, help="of the shot along each axis")
    parser.add_argument("--steps", type=int, default=400, help="of the shot")
    parser.add_argument("--every", type=int, default=200, help="steps between saved fields of the shot")
    args = parser.parse_args()
    args.bench, args.stencil = args.build.resolve() / "tests/bench/bench_files", args.build.resolve() / "stencil"
    for what in args.what:
        {"table": table, "start": start, "shot": shot}[what](args)


if __name__ == "__main__":
    main()
