"""The model of slabs in z that scaling_model.py fits and asks. docs/SCALING.md explains it.

A step of a rank takes, with s neighbours and halos of H bytes,

  compute   points * t(equation) + launch
  boundary  s * (side + points of a plane * extra)
  halo      latency(transport) + s * H / bandwidth(transport) + (s - 1) * H * second(transport)

one after the other where the host takes part in the exchange. With ipc and in the persistent schedule H overlaps with
compute.
"""
import json
import math
from dataclasses import dataclass, replace

from packages import require

require("numpy")
import numpy as np

DEPTH = 4  # planes of a halo; no slab is thinner
ON_DEVICE = "ipc"  # the transport whose bytes travel during compute


@dataclass(frozen=True)
class Run:
    equation: str
    grid: tuple  # nx, ny, nz of all ranks
    ranks: int
    transport: str = ON_DEVICE
    schedule: str = "steps"
    kind: str = ""  # weak or strong, of a measured one
    seconds: float = 0  # a step, measured
    exposed: float = None  # part of a step in which communication was not hidden, where measured
    device: str = ""

    @property
    def neighbours(self):
        """Of the rank that has the most."""
        return min(self.ranks - 1, 2)

    @property
    def points(self):
        """Of the thickest slab."""
        return self.grid[0] * self.grid[1] * math.ceil(self.grid[2] / self.ranks)

    @property
    def plane(self):
        return self.grid[0] * self.grid[1]

    @property
    def halo(self):
        """Bytes that go to one neighbour: the ghosts of x and y travel too."""
        return 4 * DEPTH * (self.grid[0] + 8) * (self.grid[1] + 8)

    @property
    def gpts(self):
        return 1e-9 * math.prod(self.grid) / self.seconds

    def __str__(self):
        return f"{self.kind:6s} {self.equation} {'x'.join(map(str, self.grid))}"


@dataclass(frozen=True)
class Machine:
    """What cannot be fitted: bytes that travel beside compute leave no trace in the steps, and there is one node."""
    node: int  # GPUs
    link: float  # bytes/s within a node, of a GPU, one direction
    network: float  # likewise between nodes
    latency: float  # s, of the network
    hidden: bool = True  # the network's halos travel beside compute; else after it, through the host


# --- measured runs --------------------------------------------------------------------------------------------------

def read_list(path):
    data = json.loads(path.read_text())
    for r in data["runs"]:
        yield Run(r["equation"], tuple(r["grid"]), r["ranks"], r["transport"], r["schedule"], r["kind"],
                  1e-9 * math.prod(r["grid"]) / r["gpts"], r.get("exposed"), data["device"])


def read_reports(folder):
    for path in sorted(folder.glob("*.json")):
        name = path.stem.split(".")  # as jobs/scaling.sh names them
        if len(name) == 6:
            r = json.loads(path.read_text())
            seconds = r["seconds"] / r["steps"]
            yield Run(name[0], tuple(r["grid"]), r["ranks"], r["transport"], name[3], name[1], seconds,
                      r["exposed_comm_fraction"], r["device"])


def read(path):
    runs = list(read_reports(path) if path.is_dir() else read_list(path))
    if not runs:
        raise ValueError(f"{path}: no reports of jobs/scaling.sh")
    return runs


def write(path, runs):
    """Writes all runs to one file, instead of a folder of reports."""
    lines = [json.dumps({"equation": r.equation, "kind": r.kind, "grid": r.grid, "ranks": r.ranks,
                         "transport": r.transport, "schedule": r.schedule, "gpts": round(r.gpts, 4),
                         **({} if r.exposed is None else {"exposed": round(r.exposed, 4)})}) for r in runs]
    text = ",\n  ".join(lines)
    path.write_text(f'{{\n "device": {json.dumps(runs[0].device)},\n "runs": [\n  {text}\n ]\n}}\n')


def measured_efficiency(run, runs):
    """Against the same kind of run on one rank; NaN where there was none."""
    base = run.grid if run.kind == "strong" else base_of(run)
    key = run.equation, run.kind, run.schedule, base, 1
    alone = [r.gpts for r in runs if (r.equation, r.kind, r.schedule, r.grid, r.ranks) == key]
    return run.gpts / run.ranks / alone[0] if alone else math.nan


# --- the model ------------------------------------------------------------------------------------------------------

def terms(run):
    """What each parameter is multiplied with in the seconds of a step, but for what travels beside compute."""
    found = {f"point {run.equation}": run.points, "launch": 1}
    if run.neighbours:
        found |= {"side": run.neighbours, "extra": run.neighbours * run.plane, f"latency {run.transport}": 1}
        if run.transport != ON_DEVICE:
            found[f"byte {run.transport}"] = run.neighbours * run.halo
            if run.neighbours == 2:
                found[f"second {run.transport}"] = run.halo
    return found


def solve(rows, values):
    """Least squares with no unknown below 0: as long as one is, the lowest is set to 0."""
    scale = np.linalg.norm(rows, axis=0)
    kept = list(range(rows.shape[1]))
    while True:
        found = np.linalg.lstsq(rows[:, kept] / scale[kept], values, rcond=None)[0]
        if min(found) >= 0:
            break
        kept.pop(int(np.argmin(found)))
    result = np.zeros(rows.shape[1])
    result[kept] = found / scale[kept]
    return result


def fit(runs):
    """The parameters that make the relative errors least, for runs of one schedule."""
    names = list(dict.fromkeys(name for run in runs for name in terms(run)))
    rows = np.array([[terms(run).get(name, 0) / run.seconds for name in names] for run in runs])
    return dict(zip(names, map(float, solve(rows, np.ones(len(runs))))))


def predict(parameters, run, machine):
    """Seconds of a step. Where no run had two neighbours, the second is taken to cost what the first does."""
    guess = {name: 0 for name in terms(run) if name.startswith("second")}
    seconds = sum({**guess, **parameters}[name] * factor for name, factor in terms(run).items())
    beyond = run.ranks > machine.node  # then some rank's neighbours are on other nodes: one, or both if it is alone
    network = min(run.neighbours, 2 if machine.node == 1 else 1) * run.halo / machine.network + machine.latency
    link = run.neighbours * run.halo / machine.link if run.transport == ON_DEVICE and machine.node > 1 else 0
    if beyond and not machine.hidden:
        seconds += network
    beside = max(link, network if beyond and machine.hidden else 0)
    return seconds + max(0, beside - parameters[f"point {run.equation}"] * run.points)


def efficiency(parameters, run, machine):
    """Points a second of a GPU, against those of `run`'s base: a single GPU with the same slab or the same grid."""
    alone = replace(run, ranks=1)
    if run.kind != "strong":
        alone = replace(alone, grid=base_of(run))
    rate = [math.prod(r.grid) / r.ranks / predict(parameters, r, machine) for r in (run, alone)]
    return rate[0] / rate[1]


def base_of(run):
    """The grid of one GPU from which a weak run has grown, in z only or (cube) in all directions."""
    if run.kind != "cube":
        return run.grid[0], run.grid[1], run.grid[2] // run.ranks
    return tuple(round(n / run.ranks ** (1 / 3)) for n in run.grid)


def grown(equation, base, ranks, kind, transport):
    factor = {"weak": (1, 1, ranks), "cube": (ranks ** (1 / 3),) * 3, "strong": (1, 1, 1)}[kind]
    return Run(equation, tuple(round(n * f) for n, f in zip(base, factor)), ranks, transport, kind=kind)


def reach(parameters, equation, base, kind, transport, machine, most):
    """The most GPUs with slabs of DEPTH planes, and with efficiencies of 80 and 50 %; of a `most` it may be more."""
    fits, held = 1, {0.8: 1, 0.5: 1}
    for ranks in range(2, most + 1):
        run = grown(equation, base, ranks, kind, transport)
        if run.grid[2] // ranks < DEPTH:
            break
        fits, e = ranks, efficiency(parameters, run, machine)
        held = {limit: ranks if e >= limit else n for limit, n in held.items()}
    return fits, held
