#!/usr/bin/env python3
"""The gradient of a misfit beside Devito's acoustic example with its checkpoints: the same one, and the time.
  gradient_peer.py STENCIL [--points N] [--steps N] [--threads N] [--rounds N]     (default 128, 400, 2, 2)

N^3 points 10 m apart, order 8, nothing beyond the grid; velocities 2000 to 3000 m/s with random ones about them; a Ricker source
and receivers on points; the residual, to traces with another model, is given to both, 0 at the last two samples, which the
example's checkpoints leave out. Both do the same steps (dispersion kept), so their traces agree, and Devito's derivative with
respect to 1 / v^2 is that of the discrete misfit, too: times -2 / v^3 it is this one's.
Times, best of rounds, from the first forward step to the gradient: Devito's forward operator for the residual, then forward and back
under pyrevolve's default checkpoints, compiled before; this program's forward and way back in default memory, by its report.
Needs numpy, h5py, devito with its examples, and pyrevolve.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

H, F0 = 10.0, 15.0


def models(n):
    z = np.linspace(2000, 3000, n)[:, None, None] + np.random.default_rng(3).uniform(-100, 100, (n, n, n))
    bump = 150 * np.exp(-((np.indices((n, n, n)) - n / 2)**2).sum(0) / (n / 8)**2)
    return [v.astype(np.float32) for v in (z, z + bump)]


def stencil(args, folder, velocity, dt, places, residual=None):
    """Traces and seconds of a run; or gradient and seconds of forward, again, back and sums."""
    with h5py.File(folder / "v.h5", "w") as file:
        file["v"], file["r"] = velocity, places[1]
    (folder / "a.ini").write_text("")
    n = args.points
    keys = {**{f"grid.n{a}": n for a in "xyz"}, **{f"grid.d{a}": H for a in "xyz"}, "equation.type": "wave", "boundary.all": "fixed",
            "medium.velocity": f"{folder}/v.h5:/v", "receivers.positions": f"{folder}/v.h5:/r", "time.dt": repr(dt), "time.steps": args.steps,
            "time.dispersion": "kept", "source.1.position": " ".join(map(str, places[0])), "source.1.f0": F0, "source.1.t0": 2 / F0, "output.final": "off",
            "device.backend": "host", "device.threads": args.threads, "output.path": folder / "o"}
    if residual is not None:
        with h5py.File(folder / "a.h5", "w") as file:
            file["a"] = dt * residual
        keys["gradient.adjoint_source"] = f"{folder}/a.h5:/a"
    subprocess.run([str(p) for p in (args.stencil, "-q", "--report", folder / "r.json", folder / "a.ini", *(f"{k}={v}" for k, v in keys.items()))],
                   check=True)
    report = json.loads((folder / "r.json").read_text())
    if residual is None:
        with h5py.File(folder / "o.receivers.h5") as file:
            return file["u"][:].astype(float), report["seconds"]
    with h5py.File(folder / "o.gradient.h5") as file:
        return file["velocity"][:].astype(float), report["seconds"] + sum(report["gradient"].values())


class Devito:
    """Axes x, y, z; km/s and ms."""

    def __init__(self, args, velocity, places):
        os.environ.update(OMP_NUM_THREADS=str(args.threads), DEVITO_LANGUAGE="openmp", DEVITO_LOGGING="ERROR", DEVITO_ARCH="gcc")
        from examples.seismic import AcquisitionGeometry, Receiver, SeismicModel
        from examples.seismic.acoustic import AcousticWaveSolver
        self.receiver = Receiver
        model = SeismicModel(origin=(0.,) * 3, spacing=(H,) * 3, shape=(args.points,) * 3, space_order=8, vp=velocity.T / 1000, nbl=0, bcs="damp")
        self.dt = float(model.critical_dt)
        geometry = AcquisitionGeometry(model, places[1], places[0], 0.0, (args.steps - 1e-3) * self.dt, src_type="Ricker", f0=F0 / 1000, t0w=2000 / F0)
        self.solver = AcousticWaveSolver(model, geometry, space_order=8)

    def gradient(self, residual):
        """Traces, the derivative with respect to m = 1 / v^2, and seconds."""
        begin = time.perf_counter()
        traces = self.solver.forward(save=False)[0]
        g = self.solver.geometry
        back = self.receiver(name="rec", grid=g.grid, time_range=g.time_axis, coordinates=g.rec_positions)
        back.data[:] = residual
        derivative, _ = self.solver.jacobian_adjoint(back, None, checkpointing=True)
        return np.array(traces.data, float), np.array(derivative.data, float).T, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stencil", type=Path)
    for name, value in (("points", 128), ("steps", 400), ("threads", 2), ("rounds", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    args.stencil = args.stencil.resolve()
    n, off = args.points, lambda a, b: np.linalg.norm(a - b) / np.linalg.norm(b)
    (velocity, true), folder = models(n), Path(tempfile.mkdtemp())
    across = H * np.arange(4, n - 4, 8)
    places = H * np.array([n // 2, n // 2, 6.0]), np.array([(x, y, H * (n // 2)) for x in across for y in across])
    devito = Devito(args, velocity, places)
    dt, best = devito.dt / 1000, {}
    own, residual = (stencil(args, folder, v, dt, places)[0] for v in (velocity, true))
    residual = own - residual
    residual[-2:] = 0
    traces = devito.gradient(residual)[0]  # compiles
    print(f"traces: relative L2 difference {off(traces[:-1], own[:-1]):.1e}; residual {off(own - residual, own):.2f} of them", flush=True)
    for _ in range(args.rounds):
        ours, seconds = stencil(args, folder, velocity, dt, places, residual)
        _, theirs, took = devito.gradient(residual)
        for name, value in (("stencil", seconds), ("Devito", took)):
            best[name] = min(best.get(name, value), value)
            print(f"{name}: {value:.3g} s", flush=True)
    theirs = theirs * dt * -2 / (velocity / 1000.0)**3 / 1000
    print(f"gradients: relative L2 difference {off(ours, theirs):.1e}, after a factor of {(ours * theirs).sum() / (theirs**2).sum():.6f}: "
          f"{off(ours, theirs * (ours * theirs).sum() / (theirs**2).sum()):.1e}")
    print(f"best: stencil {best['stencil']:.3g} s, Devito {best['Devito']:.3g} s: {best['Devito'] / best['stencil']:.2f} times")


if __name__ == "__main__":
    main()
