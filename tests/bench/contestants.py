"""The programs that host_peers.py compares."""
import gc
import itertools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np

RADIUS, SPACING, VELOCITY = 4, 10.0, (1500.0, 3000.0)
WEIGHTS = (0.04, 0.03, 0.02, 0.01)  # jacobi's, for every axis
CENTER = 0.4
SECOND = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)
STABLE = 2 / (VELOCITY[1] * np.sqrt(3 * (-SECOND[0] + 2 * sum(map(abs, SECOND[1:]))) / SPACING**2))
DT = 0.9 * STABLE
TUNINGS, TRIALS = 2, 5  # of Devito's tuner; of what tuners found: a machine that others use misleads them


class Skipped(Exception):
    """A contestant does not take part; the message says why."""


class Contestant:
    """steps(count) runs that many time steps and returns Gpts/s."""
    settings, tried = "", {}

    def close(self):
        """Frees what is large."""


def call(command, environment, folder=None):
    command = [str(part) for part in command]
    result = subprocess.run(command, text=True, capture_output=True, check=False, cwd=folder,
                            env={**os.environ, **environment})
    if result.returncode:
        said = [line for line in (result.stderr.strip() or result.stdout).splitlines() if re.search(r"\w", line)]
        raise Skipped(f"{command[0]} ended with {result.returncode}: {said[0] if said else 'no word'}")
    return result.stdout


def star(u, center, weights):
    """The formula, in float64, of the points that have 4 others on every side."""
    inner = slice(RADIUS, -RADIUS)
    u = u.astype(np.float64)
    total = center * u[inner, inner, inner]
    for axis in range(3):
        for r, w in enumerate(weights, 1):
            for by in (-r, r):
                where = [inner] * 3
                where[axis] = slice(RADIUS + by, u.shape[axis] - RADIUS + by)
                total += w * u[tuple(where)]
    return total


class Ours(Contestant):
    """The program as a user starts it; the ranks' threads go where the system puts them."""
    environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}

    def __init__(self, args, folder, equation, n, ranks=1):
        self.name = "stencil" if ranks == 1 else f"stencil, {ranks} ranks"
        self.folder, threads = folder, args.threads // ranks
        launch = [args.mpirun, "-np", ranks] if shutil.which(args.mpirun) else []
        if ranks > 1 and not launch:
            raise Skipped(f"no {args.mpirun}")
        keys = {"equation.type": equation, "device.backend": "host", "device.threads": threads,
                "report.progress": "off", "output.path": folder / "out"}
        keys.update({f"grid.n{axis}": n for axis in "xyz"})
        if equation == "wave":
            keys.update({f"grid.d{axis}": SPACING for axis in "xyz"})
            keys["medium.velocity"] = f"{folder / 'velocity.h5'}:/v"
        (folder / "any.ini").write_text("[time]\nsteps = 1\n")
        self.command = [*launch, args.stencil, folder / "any.ini", *(f"{k}={v}" for k, v in keys.items()), *args.set,
                        "--report", folder / "report.json", "--benchmark"]

    def steps(self, count):
        log = call([*self.command, count], {**self.environment, "XDG_CACHE_HOME": str(self.folder)}, self.folder)
        report = json.loads((self.folder / "report.json").read_text())
        a_pass = re.search(r"steps a pass: \d+", log)
        self.settings = f"{report['device']}, {report['kernel']}" + (f", {a_pass.group()}" if a_pass else "")
        return report["gpts"]


class Devito(Contestant):
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
        self.points = n**3
        grid = devito.Grid((n, n, n), extent=(SPACING * (n - 1),) * 3, dtype=np.float32)
        random = np.random.default_rng(3)
        order = {"jacobi": 1, "wave": 2}[equation]
        self.u = devito.TimeFunction(name="u", grid=grid, space_order=2 * RADIUS, time_order=order)
        for level in range(self.u.data.shape[0]):
            self.u.data[level] = random.random((n, n, n), dtype=np.float32)
        self.more = {}
        if equation == "wave":
            self.square = devito.Function(name="square", grid=grid, space_order=0)
            self.square.data[:] = np.float32(VELOCITY[0] + random.random((n, n, n), dtype=np.float32)
                                             * (VELOCITY[1] - VELOCITY[0]))**2
            new = 2 * self.u - self.u.backward + grid.stepping_dim.spacing**2 * self.square * self.u.laplace
            self.more = {"dt": np.float32(DT)}
        else:
            new = CENTER * self.u + sum(w * sum(self.u.subs(d, d + side * r * d.spacing) for d in grid.dimensions
                                                for side in (-1, 1)) for r, w in enumerate(WEIGHTS, 1))
        self.operator = devito.Operator(devito.Eq(self.u.forward, new), name=f"{equation}{n}")
        self.check(equation)
        self.tried = {}
        tuned = [self.tune() for _ in range(TUNINGS)]
        _, blocks = max(tuned, key=lambda one: one[0])
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
        """One step, of a block in the middle."""
        at, wide = (slice(40, 64),) * 3, (slice(40 - RADIUS, 64 + RADIUS),) * 3
        u = self.u.data[0][wide]
        if equation == "wave":
            lap = star(u, 3 * SECOND[0], SECOND[1:]) / SPACING**2
            expected = 2.0 * self.u.data[0][at] - self.u.data[2][at] + DT**2 * self.square.data[at] * lap
        else:
            expected = star(u, CENTER, WEIGHTS)
        self.operator.apply(time_m=0, time_M=0, autotune="off", **self.more)
        error = np.abs(self.u.data[1][at] - expected).max()
        if not error < 1e-5:
            raise ValueError(f"Devito's {equation} is wrong: {error}")

    def steps(self, count, **blocks):
        summary = self.operator.apply(time_m=0, time_M=count - 1, autotune="off", **self.more, **blocks)
        return 1e-9 * self.points * count / sum(section.time for section in summary.values())

    def close(self):
        self.u = self.square = self.operator = None
        gc.collect()


class Yask(Contestant):
    name = "YASK"
    stencils = {"jacobi": "3axis", "wave": "iso3dfd"}

    def __init__(self, args, _, equation, n):
        if not args.yask:
            raise Skipped("no --yask FOLDER")
        folder = Path(args.yask).resolve()
        pattern = f"yask_kernel.{self.stencils[equation]}*.exe"
        kernels = [path for path in sorted((folder / "bin").glob(pattern)) if self.runs_here(path)]
        if not kernels:
            raise Skipped(f"no {folder}/bin/{pattern} that this machine can run")
        self.environment = {"LD_LIBRARY_PATH": str(folder / "lib"), "OMP_PLACES": "cores",
                            "OMP_NUM_THREADS": str(args.threads)}
        self.common = ["-g", n, "-outer_threads", args.threads, "-sleep", 0, "-num_trials"]
        self.tried = {}
        tuned = []
        for kernel, steps in itertools.product(kernels, args.yask_steps):
            blocks = self.tune(kernel, steps, args.yask_tune)
            tuned += [self.rate(kernel, steps, sizes) for sizes in dict.fromkeys([blocks, self.even(blocks, n)])]
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
        return log, 1e-9 * self.number(log, r"best-throughput \(num-points/sec\): +(\S+)")

    @staticmethod
    def number(log, pattern):
        text = re.search(pattern, log).group(1)
        return float(text.rstrip("KMGT")) * 1000.0 ** ("KMGT".find(text[-1]) + 1)

    def tune(self, kernel, steps, seconds):
        """The blocks that the auto-tuner finds."""
        log, _ = self.run([kernel, "-bt", steps, "-auto_tune_trial_secs", seconds, "-trial_time", 0.1])
        return tuple(map(int, re.search(r"applying size t=\d+ \* x=(\d+) \* y=(\d+) \* z=(\d+)", log).groups()))

    @staticmethod
    def even(blocks, n):
        """Blocks of about these sizes, multiples of 8, of which the last is about as wide as the others."""
        return tuple(-(-n // (8 * max(1, round(n / size)))) * 8 for size in blocks)

    def rate(self, kernel, steps, blocks):
        """(Gpts/s, command) with these blocks."""
        command = [kernel, "-bt", steps, *(part for axis, size in zip("xyz", blocks) for part in (f"-b{axis}", size)),
                   "-no-pre_auto_tune"]
        _, rate = self.run([*command, "-trial_time", 0.2], TRIALS)
        self.tried[f"{kernel.name} -bt {steps} {'x'.join(map(str, blocks))}"] = rate
        return rate, command

    def steps(self, count):
        return self.run([*self.command, "-trial_steps", count])[1]
