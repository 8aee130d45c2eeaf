#!/usr/bin/env python3
"""The program on the host device beside Devito and YASK on the same machine, in alternating rounds: order 8, float32, N^3
points, the same number of threads. And one rank with all threads beside a rank for each thread.
  host_peers.py STENCIL [N ...] [options]   (default 256 512; --help)
Equations: jacobi; wave, with a velocity field; layers, the wave with layers of 20 points at five faces under a free
surface (of Devito: damping, as its examples have it).

Every contestant tunes itself first: the program chooses kernel and steps a pass, Devito's autotuner (aggressive) the
blocks, YASK's the blocks for each kernel found and each number of steps a block that --yask-steps names, beside blocks
of about their size that divide the grid evenly; the fastest that passes its own test takes part. Rates are without
start-up, tuning and compilation, as each reports them. On a machine that others use, too, the best round says most;
medians are given beside it. YASK's `3axis`, an average of 25 points, needs no weights.
Needs numpy and h5py. Devito (pip install devito) is skipped where this Python does not have it, YASK without --yask
FOLDER, whose bin/ has yask_kernel.iso3dfd*.exe and .3axis*.exe of radius 4 (make stencil=3axis radius=4 mpi=0).
Exit 1 if the program itself could not be measured, or a peer computes something else.
"""
import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

MULTIPLE = 24  # steps of a round: of all passes over memory that advance several
RADIUS, WIDTH, SPACING, VELOCITY = 4, 20, 10.0, (1500.0, 3000.0)
WEIGHTS = (0.04, 0.03, 0.02, 0.01)  # jacobi's, for every axis
CENTER = 0.4
SECOND = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)
DT = 1.8 / (VELOCITY[1] * np.sqrt(3 * (-SECOND[0] + 2 * sum(map(abs, SECOND[1:]))) / SPACING**2))
TUNINGS, TRIALS = 2, 5  # of Devito's tuner; of what tuners found: a machine that others use misleads them


class Skipped(Exception):
    """A contestant does not take part; the message says why."""


def call(command, environment, folder=None):
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False, cwd=folder,
                            env={**os.environ, **environment})
    if result.returncode:
        said = [line for line in (result.stderr.strip() or result.stdout).splitlines() if re.search(r"\w", line)]
        raise Skipped(f"{command[0]} ended with {result.returncode}: {said[0] if said else 'no word'}")
    return result.stdout


class Ours:
    """The program as a user starts it; the ranks' threads go where the system puts them. As in each contestant,
    steps(count) runs that many time steps and returns Gpts/s."""
    environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}

    def __init__(self, args, folder, equation, n, ranks=1):
        self.name, self.folder = "stencil" if ranks == 1 else f"stencil, {ranks} ranks", folder
        launch = [args.mpirun, "-np", ranks] if shutil.which(args.mpirun) else []
        if ranks > 1 and not launch:
            raise Skipped(f"no {args.mpirun}")
        keys = {"equation.type": "jacobi" if equation == "jacobi" else "wave", "device.backend": "host",
                "device.threads": args.threads // ranks, "report.progress": "off", "output.path": folder / "out"}
        keys.update({f"grid.n{axis}": n for axis in "xyz"})
        if equation != "jacobi":
            keys.update({f"grid.d{axis}": SPACING for axis in "xyz"})
            keys["medium.velocity"] = f"{folder / 'velocity.h5'}:/v"
        if equation == "layers":
            keys.update({"boundary.all": "absorbing", "boundary.z_lo": "dirichlet", "boundary.width": WIDTH})
        (folder / "any.ini").write_text("[time]\nsteps = 1\n")
        self.command = [*launch, args.stencil, folder / "any.ini", *(f"{k}={v}" for k, v in keys.items()), *args.set,
                        "--report", folder / "report.json", "--benchmark"]

    def steps(self, count):
        log = call([*self.command, count], {**self.environment, "XDG_CACHE_HOME": str(self.folder)}, self.folder)
        report = json.loads((self.folder / "report.json").read_text())
        a_pass = re.search(r"steps a pass: \d+", log)
        self.settings = f"{report['device']}, {report['kernel']}" + (f", {a_pass.group()}" if a_pass else "")
        return report["gpts"]


def damping(n):
    """1/s times velocity at each point: 0 inside, growing as devito's examples have it towards x, y and the bottom."""
    place = np.arange(n)
    low, high = (np.clip((WIDTH - edge) / WIDTH, 0, 1) for edge in (place, place[::-1]))
    both = np.maximum(low, high)
    depth = np.maximum(high[:, None, None], np.maximum(both[:, None], both))  # z has a free surface on top
    return 1.5 * np.log(1000) / WIDTH * (depth - np.sin(2 * np.pi * depth) / (2 * np.pi)) / SPACING


class Devito:
    """Its generated C. The update is written as its tutorials do."""
    name = "Devito"

    def __init__(self, args, _, equation, n):
        os.environ.setdefault("DEVITO_LOGGING", "ERROR")
        os.environ["OMP_NUM_THREADS"] = str(args.threads)
        try:
            import devito
        except ImportError as error:
            raise Skipped(f"this Python has no devito ({error})") from None
        devito.configuration["language"] = "openmp"
        if "first-touch" in devito.configuration:
            devito.configuration["first-touch"] = True
        self.points, random = n**3, np.random.default_rng(3)
        grid = devito.Grid((n, n, n), extent=(SPACING * (n - 1),) * 3, dtype=np.float32)
        self.u = devito.TimeFunction(name="u", grid=grid, space_order=2 * RADIUS, time_order=1 + (equation != "jacobi"))
        for level in range(self.u.data.shape[0]):
            self.u.data[level] = random.random((n, n, n), dtype=np.float32)
        self.more = {} if equation == "jacobi" else {"dt": np.float32(DT)}
        if equation == "jacobi":
            new = CENTER * self.u + sum(w * sum(self.u.subs(d, d + side * r * d.spacing) for d in grid.dimensions
                                                for side in (-1, 1)) for r, w in enumerate(WEIGHTS, 1))
        else:
            velocity = random.uniform(*VELOCITY, (n, n, n)).astype(np.float32)
            self.square = devito.Function(name="square", grid=grid, space_order=0)
            self.square.data[:] = velocity**2
            new = 2 * self.u - self.u.backward + grid.stepping_dim.spacing**2 * self.square * self.u.laplace
        if equation == "layers":
            damp = devito.Function(name="damp", grid=grid, space_order=0)
            damp.data[:] = damping(n) / velocity
            new = devito.solve(self.u.dt2 / self.square - self.u.laplace + damp * self.u.dt, self.u.forward)
        self.operator = devito.Operator(devito.Eq(self.u.forward, new), name=f"{equation}{n}")
        self.check(equation)
        self.tried = {}
        _, blocks = max((self.tune() for _ in range(TUNINGS)), key=lambda one: one[0])
        self.more.update(blocks)
        self.settings = f"{devito.__version__}, blocks {'x'.join(map(str, blocks.values()))}"

    def tune(self):
        """(Gpts/s, blocks)."""
        self.operator.apply(time_m=0, time_M=4, autotune=("aggressive", "preemptive"), **self.more)
        blocks = {k: v for k, v in self.operator._state["autotuning"][-1]["tuned"].items() if k != "nthreads"}
        rate = max(self.steps(8, **blocks) for _ in range(TRIALS))
        self.tried["x".join(map(str, blocks.values()))] = rate
        return rate, blocks

    def check(self, equation):
        """One step, of a block in the middle, beside the formula in float64."""
        at, inner = (slice(28, 52),) * 3, (slice(RADIUS, -RADIUS),) * 3
        u = self.u.data[0][(slice(28 - RADIUS, 52 + RADIUS),) * 3].astype(np.float64)

        def stencil(center, weights):
            return center * u[inner] + sum(w * np.roll(u, by, axis)[inner] for r, w in enumerate(weights, 1)
                                           for axis in range(3) for by in (-r, r))
        if equation == "jacobi":
            expected = stencil(CENTER, WEIGHTS)
        else:
            change = self.square.data[at] * stencil(3 * SECOND[0], SECOND[1:]) / SPACING**2
            expected = 2 * u[inner] - self.u.data[2][at] + DT**2 * change
        self.operator.apply(time_m=0, time_M=0, autotune="off", **self.more)
        error = np.abs(self.u.data[1][at] - expected).max()
        if not error < 1e-5:
            raise ValueError(f"Devito's {equation} is wrong: {error}")

    def steps(self, count, **blocks):
        summary = self.operator.apply(time_m=0, time_M=count - 1, autotune="off", **self.more, **blocks)
        return 1e-9 * self.points * count / sum(section.time for section in summary.values())


class Yask:
    name = "YASK"

    def __init__(self, args, _, equation, n):
        stencil = {"jacobi": "3axis", "wave": "iso3dfd"}.get(equation)
        if not args.yask or not stencil:
            raise Skipped("no --yask FOLDER" if stencil else "it has no such layers")
        folder = Path(args.yask).resolve()
        kernels = [path for path in sorted(folder.glob(f"bin/yask_kernel.{stencil}*.exe")) if self.runs_here(path)]
        if not kernels:
            raise Skipped(f"no {folder}/bin/yask_kernel.{stencil}*.exe that this machine can run")
        self.environment = {"LD_LIBRARY_PATH": str(folder / "lib"), "OMP_PLACES": "cores",
                            "OMP_NUM_THREADS": str(args.threads)}
        self.common = ["-g", n, "-outer_threads", args.threads, "-sleep", 0, "-num_trials"]
        self.tried, tuned = {}, []
        for kernel, steps in itertools.product(kernels, args.yask_steps):
            log, _ = self.run([kernel, "-bt", steps, "-auto_tune_trial_secs", args.yask_tune, "-trial_time", 0.1])
            blocks = tuple(map(int, re.search(r"applying size t=\d+ \* x=(\d+) \* y=(\d+) \* z=(\d+)", log).groups()))
            # Beside them, blocks of about these sizes, multiples of 8, of which the last is about as wide as the others.
            even = tuple(-(-n // (8 * max(1, round(n / size)))) * 8 for size in blocks)
            tuned += [self.rate(kernel, steps, sizes) for sizes in dict.fromkeys([blocks, even])]
        fastest_first = [command for _, command in sorted(tuned, reverse=True, key=lambda one: one[0])]
        self.command = next(filter(self.is_right, fastest_first), None)
        if not self.command:
            raise Skipped("no setting passes YASK's own test")
        self.settings = " ".join(str(part) for part in (self.command[0].name, *self.command[1:]))

    @staticmethod
    def runs_here(kernel):
        needs = re.search(r"avx512|avx2?", kernel.name)
        return not needs or needs.group().replace("avx512", "avx512f") in Path("/proc/cpuinfo").read_text().split()

    def is_right(self, command):
        """Does the program's own test pass? With four steps a block it does not where the last block is narrow."""
        try:
            self.run([*command, "-validate", "-trial_steps", 8])
            return True
        except Skipped:
            return False

    def run(self, command, trials=1):
        log = call([*command, *self.common, trials], self.environment)
        rate = re.search(r"best-throughput \(num-points/sec\): +(\S+)", log).group(1)
        return log, 1e-9 * float(rate.rstrip("KMGT")) * 1000.0 ** ("KMGT".find(rate[-1]) + 1)

    def rate(self, kernel, steps, blocks):
        """(Gpts/s, command) with these blocks."""
        command = [kernel, "-bt", steps, *(part for axis, size in zip("xyz", blocks) for part in (f"-b{axis}", size)),
                   "-no-pre_auto_tune"]
        _, rate = self.run([*command, "-trial_time", 0.2], TRIALS)
        self.tried[f"{kernel.name} -bt {steps} {'x'.join(map(str, blocks))}"] = rate
        return rate, command

    def steps(self, count):
        return self.run([*self.command, "-trial_steps", count])[1]


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
            one.count = max(1, round(args.seconds * one.steps(MULTIPLE) * 1e9 / n**3 / MULTIPLE)) * MULTIPLE
            found.append(one)
        except Skipped as why:
            skipped.append({"name": key, "equation": equation, "n": n, "why": str(why)})
    return found


def compete(args, folder, equation, n, skipped):
    """Rows of the table, one for each contestant, and ratios of the best rounds."""
    if equation != "jacobi":
        with h5py.File(folder / "velocity.h5", "w") as file:
            file["v"] = np.random.default_rng(5).uniform(*VELOCITY, (n, n, n)).astype(np.float32)
    contestants = gather(args, folder, equation, n, skipped)
    rounds = {one.name: [] for one in contestants}
    for _, one in itertools.product(range(args.rounds), contestants):
        rounds[one.name].append(one.steps(one.count))
    rows = [{"equation": equation, "n": n, "threads": args.threads, "name": one.name, "best": max(rounds[one.name]),
             "median": statistics.median(rounds[one.name]), "rounds": rounds[one.name], "steps": one.count,
             "settings": one.settings, "tried": getattr(one, "tried", {})} for one in contestants]
    best, ratios = {row["name"]: row["best"] for row in rows}, {}
    ours, peers = best.get("stencil"), [best[name] for name in best if not name.startswith("stencil")]
    if ours and peers:
        ratios["stencil / best peer"] = ours / max(peers)
    if ours:
        ratios.update({f"{name} / one": best[name] / ours for name in best if name.endswith(" ranks")})
    return rows, ratios


def show(rows, ratios):
    for row in rows:
        print(f"{row['equation']:6s} {row['n']:4d}^3 {row['threads']:3d} threads  {row['name']:18s} "
              f"best {row['best']:7.3f} median {row['median']:7.3f} Gpts/s  {row['settings']}")
    for what, ratio in ratios.items():
        print(f"{'':24s}{what}: {ratio:.2f}")
    sys.stdout.flush()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stencil", type=Path, help="the program")
    parser.add_argument("sizes", nargs="*", type=int, help="N (default 256 512)")
    parser.add_argument("--equations", default="jacobi,wave")
    parser.add_argument("--only", default="stencil,ranks,devito,yask", help="who takes part")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="that a round shall take")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for the program")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--yask", metavar="FOLDER")
    parser.add_argument("--yask-steps", default="0,2,4", help="steps a block (0: one)")
    parser.add_argument("--yask-tune", type=float, default=0.5, metavar="SECONDS", help="that it tries one size")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    args = parser.parse_args()
    args.stencil, args.sizes = args.stencil.resolve(), args.sizes or [256, 512]
    args.only, args.yask_steps = args.only.split(","), [int(part) for part in args.yask_steps.split(",")]
    if min(args.sizes) < 80 or args.threads < 1 or args.rounds < 1:
        parser.error("sizes are at least 80, threads and rounds at least 1")
    return args


def main():
    args = parse()
    found = {"command": sys.argv, "cores": os.cpu_count(), "rows": [], "ratios": [], "skipped": []}
    with tempfile.TemporaryDirectory() as folder:
        for n, equation in itertools.product(args.sizes, args.equations.split(",")):
            rows, ratios = compete(args, Path(folder), equation, n, found["skipped"])
            show(rows, ratios)
            found["rows"] += rows
            found["ratios"].append({"equation": equation, "n": n, **ratios})
            if args.json:  # what is known so far, in case somebody stops the rest
                Path(args.json).write_text(json.dumps(found, indent=1))
    for one in found["skipped"]:
        print(f"skipped: {one['name']} ({one['equation']} {one['n']}^3): {one['why']}")
    return int(any(one["name"] == "stencil" for one in found["skipped"]))


if __name__ == "__main__":
    sys.exit(main())
