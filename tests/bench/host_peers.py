#!/usr/bin/env python3
"""The program on the host device beside Devito and YASK on the same machine, in alternating turns: jacobi and the wave
with a velocity field, order 8, float32, N^3 points, the same number of threads. And one rank with all threads beside a
rank for each thread.   host_peers.py STENCIL [N ...] [options]   (default 256 512; --help)

Every contestant tunes itself first: the program chooses kernel and steps a pass, Devito's autotuner (aggressive) the
blocks, YASK's the blocks for each kernel found and each number of steps a block that --yask-steps names, beside blocks
of about their size that divide the grid evenly; the fastest that passes its own test takes part. Rates are without
start-up, tuning and compilation, as each reports them. On a machine that others use, too, the best turn says most;
medians are given beside it. YASK's `3axis`, an average of 25 points, needs no weights.
Needs numpy and h5py. Devito (pip install devito) is skipped where this Python does not have it, YASK without --yask
FOLDER, whose bin/ has yask_kernel.iso3dfd*.exe and .3axis*.exe of radius 4 (make stencil=3axis radius=4 mpi=0).
Exit 1 if the program itself could not be measured, or a peer computes something else.
"""
import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
from contestants import VELOCITY, Devito, Ours, Skipped, Yask

MULTIPLE = 24  # steps of a turn: of all passes over memory that advance several


def gather(args, folder, equation, n, skipped):
    """The contestants that are here, tuned."""
    makers = {"stencil": Ours, "devito": Devito, "yask": Yask}
    if args.threads > 1:
        makers["ranks"] = lambda *rest: Ours(*rest, ranks=args.threads)
    found = []
    for key in [key for key in makers if key in args.only]:
        print(f"{equation} {n}: {key} begins", file=sys.stderr, flush=True)
        try:
            one = makers[key](args, folder, equation, n)
            one.count = MULTIPLE
            rate = one.steps(one.count)
            one.count = max(1, round(args.seconds * rate * 1e9 / n**3 / MULTIPLE)) * MULTIPLE
            found.append(one)
        except Skipped as why:
            skipped.append({"name": key, "equation": equation, "n": n, "why": str(why)})
    return found


def compete(args, folder, equation, n, skipped):
    """Rows of the table, one for each contestant."""
    if equation == "wave":
        with h5py.File(folder / "velocity.h5", "w") as file:
            file["v"] = np.random.default_rng(5).uniform(*VELOCITY, (n, n, n)).astype(np.float32)
    contestants = gather(args, folder, equation, n, skipped)
    turns = {one.name: [] for one in contestants}
    for _ in range(args.turns):
        for one in contestants:
            turns[one.name].append(one.steps(one.count))
    rows = [{"equation": equation, "n": n, "threads": args.threads, "name": one.name, "best": max(turns[one.name]),
             "median": statistics.median(turns[one.name]), "turns": turns[one.name], "steps": one.count,
             "settings": one.settings, "tried": getattr(one, "tried", {})} for one in contestants]
    for one in contestants:
        one.close()
    return rows


def ratios(rows):
    """Ratios of the best turns: the program to the better peer, a rank for each thread to one rank."""
    best, found = {row["name"]: row["best"] for row in rows}, {}
    ours = best.get("stencil")
    peers = [best[name] for name in best if not name.startswith("stencil")]
    if ours and peers:
        found["stencil / best peer"] = ours / max(peers)
    if ours:
        found.update({f"{name} / one": best[name] / ours for name in best if name.endswith(" ranks")})
    return found


def show(rows):
    for row in rows:
        print(f"{row['equation']:6s} {row['n']:4d}^3 {row['threads']:3d} threads  {row['name']:18s} "
              f"best {row['best']:7.3f} median {row['median']:7.3f} Gpts/s  {row['settings']}")
    for what, ratio in ratios(rows).items():
        print(f"{'':24s}{what}: {ratio:.2f}")
    sys.stdout.flush()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stencil", type=Path, help="the program")
    parser.add_argument("sizes", nargs="*", type=int, help="N (default 256 512)")
    parser.add_argument("--equations", default="jacobi,wave")
    parser.add_argument("--only", default="stencil,ranks,devito,yask", help="who takes part")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="that a turn shall take")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for the program")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--yask", metavar="FOLDER")
    parser.add_argument("--yask-steps", default="0,2,4", help="steps a block (0: one)")
    parser.add_argument("--yask-tune", type=float, default=0.5, metavar="SECONDS", help="that it tries one size")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    args = parser.parse_args()
    args.stencil, args.sizes = args.stencil.resolve(), args.sizes or [256, 512]
    args.only, args.yask_steps = args.only.split(","), [int(part) for part in args.yask_steps.split(",")]
    if min(args.sizes) < 80 or args.threads < 1 or args.turns < 1:
        parser.error("sizes are at least 80, threads and turns at least 1")
    return args


def main():
    args = parse()
    found = {"command": sys.argv, "cores": os.cpu_count(), "rows": [], "ratios": [], "skipped": []}
    with tempfile.TemporaryDirectory() as folder:
        for n, equation in itertools.product(args.sizes, args.equations.split(",")):
            rows = compete(args, Path(folder), equation, n, found["skipped"])
            show(rows)
            found["rows"] += rows
            found["ratios"].append({"equation": equation, "n": n, **ratios(rows)})
            if args.json:  # what is known so far, in case somebody stops the rest
                Path(args.json).write_text(json.dumps(found, indent=1))
    for one in found["skipped"]:
        print(f"skipped: {one['name']} ({one['equation']} {one['n']}^3): {one['why']}")
    return int(any(one["name"] == "stencil" for one in found["skipped"]))


if __name__ == "__main__":
    sys.exit(main())
