#!/usr/bin/env python3
"""How fast files are written and read: a table in GiB/s, medians of turns. Ranks x mode: a field, a checkpoint, a restart
(reading and checking it), a compressed field, beside dd with as many writers and beside the stick (bench_files:
positioned writes with a checksum, the least that such a file can cost).

    files.py BUILD [options]        BUILD: a build folder with tests/bench/bench_files

Folders: a tmpfs and a disk, say /dev/shm and the current one; files there are deleted. What is compared is measured in turns.
"""
import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLUMNS = ["stick, write", "field", "checkpoint", "stick, read", "restart", "gzip"]
RATIOS = {"field": "stick, write", "checkpoint": "stick, write", "restart": "stick, read"}


def launch(ranks, *command):
    """Runs it under mpirun and returns its output."""
    done = subprocess.run(["mpirun", "--bind-to", "none", "--oversubscribe", "-np", str(ranks), *map(str, command)],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"files.py: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


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
        text = launch(ranks, args.bench, folder, gib, args.gzip, *args.modes)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--modes", nargs="+", default=[], help="collective, gather, server (default: all)")
    parser.add_argument("--folders", nargs="+", default=["/dev/shm", "."])
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--gzip", type=int, default=0, help="level of the compressed field (default 0: none)")
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    args.bench = args.build.resolve() / "tests/bench/bench_files"
    table(args)


if __name__ == "__main__":
    main()
