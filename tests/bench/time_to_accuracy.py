#!/usr/bin/env python3
"""The time that a trace of a given accuracy takes, beside Devito, deepwave and k-Wave on the same machine.
  time_to_accuracy.py STENCIL [--threads N] [--wavelengths N] [--device cuda] [--only NAME]
                                 (default 1 thread, 100, host; NAME: Stencil, Devito, Deepwave or KWave)

2D, one velocity, order 8: a Ricker wavelet of f0 from a source to a receiver many wavelengths of f0 away along an axis, where
the grid's error is greatest, in a domain whose faces send nothing back in time. Each contestant runs on grids of more and more
points per wavelength, each with several time steps; error: relative L2 of the trace to the exact solution, after a factor (and a
shift of at most two steps) that fits it best, as conventions differ. Times are of the steps, best of three in rounds, without
start-up, compilation and transforms of signals and traces in time, which this program and deepwave (its time_dispersion) have.
Contestants that this Python has not are left out. Needs numpy and h5py.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from pathlib import Path

import h5py
import numpy as np

V, F0 = 1500.0, 25.0
LENGTH = V / F0
LIMITS = (0.03, 0.01, 0.003, 0.001)
BOUND = float(2 / np.sqrt(2 * 6.5015873))  # of v dt / h, order 8 in 2D: 2 / sqrt(sum of |weights|)


def ricker(t, integral=False):
    """Peak at 1.5 / f0; or its integral over time."""
    a = (np.pi * F0 * (t - 1.5 / F0))**2
    return (t - 1.5 / F0) * np.exp(-a) if integral else (1 - 2 * a) * np.exp(-a)


def exact(t, r):
    """The integral of s(t - r cosh(q) / v) over q > 0, of many t."""
    q = np.sinh(np.linspace(0, 1, 1500)**2 * 0.9)  # denser where the wave is new
    values = ricker(t[:, None] - r / V * np.cosh(q))
    return (values[:, 1:] + values[:, :-1]) @ np.diff(q) / 2


def error_of(t, trace, r, dt):
    fine = np.linspace(t[0] - 3 * dt, t[-1] + 3 * dt, 8000)
    truth = exact(fine, r)

    def off(shift):
        e = np.interp(t + shift, fine, truth)
        a = (e @ trace) / (trace @ trace)
        return np.linalg.norm(a * trace - e) / np.linalg.norm(e)
    best, reach = 0, 2 * dt
    while reach > 1e-4 * dt:
        best = min(np.linspace(best - reach, best + reach, 41), key=off)
        reach /= 10
    return off(best)


class Case:
    """A grid and a time step: n points in x and z, source and receiver by index."""

    def __init__(self, points, cfl, wavelengths):
        late = 1.03 * wavelengths + 3.4  # so are reflections, also of the waves that steps make faster
        side = 0.5 * np.sqrt(late**2 - wavelengths**2)
        self.h, self.away = LENGTH / points, wavelengths * points
        self.dt = float(cfl * self.h / V)
        self.source = (round(2.2 * points), round(side * points))
        self.nx, self.nz = self.away + 2 * self.source[0], 2 * self.source[1] + 1
        self.receiver = (self.source[0] + self.away, self.source[1])
        self.steps = int((wavelengths * LENGTH / V + 3.2 / F0) / self.dt)
        self.t = self.dt * np.arange(self.steps + 1)


class Stencil:
    name, points, cfls = "stencil", (8, 9, 10, 12, 14, 16, 18, 20), (0.9 * BOUND,)

    def __init__(self, args):
        self.args, self.folder = args, Path(tempfile.mkdtemp())

    def run(self, case):
        (x, z), (rx, _) = case.source, case.receiver
        keys = {"grid.nx": case.nx, "grid.ny": 1, "grid.nz": case.nz, **{f"grid.d{a}": case.h for a in "xyz"}, "time.dt": repr(case.dt),
                "time.steps": case.steps, "equation.type": "wave", "medium.velocity": V, "boundary.all": "dirichlet",
                "source.1.position": f"{x * case.h} 0 {z * case.h}", "source.1.f0": F0, "device.threads": self.args.threads,
                "device.backend": self.args.device, "output.path": self.folder / "o", "output.final": "off",
                "receivers.line": f"{rx * case.h} 0 {z * case.h} {rx * case.h} 0 {z * case.h} 1"}
        (self.folder / "a.ini").write_text("")
        subprocess.run([str(p) for p in (self.args.stencil, "-q", "--report", self.folder / "r.json", self.folder / "a.ini",
                                         *(f"{k}={v}" for k, v in keys.items()))], check=True)
        with h5py.File(self.folder / "o.receivers.h5") as file:
            trace = file["u"][:, 0].astype(float)
        return trace, json.loads((self.folder / "r.json").read_text())["seconds"]


class Devito:
    name, points, cfls = "Devito", (8, 10, 12, 16, 20), (0.9 * BOUND, 0.3, 0.15, 0.08)

    def __init__(self, args):
        os.environ.update(OMP_NUM_THREADS=str(args.threads), DEVITO_LANGUAGE="openmp", DEVITO_LOGGING="ERROR", DEVITO_ARCH="gcc")
        import devito
        self.devito = devito

    def run(self, case):
        d = self.devito
        grid = d.Grid((case.nx, case.nz), extent=((case.nx - 1) * case.h, (case.nz - 1) * case.h), dtype=np.float32)
        u = d.TimeFunction(name="u", grid=grid, time_order=2, space_order=8)
        points = [d.SparseTimeFunction(name=n, grid=grid, npoint=1, nt=case.steps + 2, coordinates=np.array([at]) * case.h)
                  for n, at in (("src", case.source), ("rec", case.receiver))]
        points[0].data[:, 0] = ricker(case.dt * np.arange(case.steps + 2))
        step = d.Eq(u.forward, d.solve(u.dt2 - V**2 * u.laplace, u.forward))
        op = d.Operator([step] + points[0].inject(field=u.forward, expr=points[0] * grid.stepping_dim.spacing**2 * V**2) +
                        points[1].interpolate(expr=u))
        op.apply(time_m=1, time_M=5, dt=np.float32(case.dt))
        u.data[:] = 0
        begin = time.perf_counter()
        op.apply(time_m=1, time_M=case.steps, dt=np.float32(case.dt))
        return points[1].data[:case.steps + 1, 0].astype(float), time.perf_counter() - begin


class Deepwave:
    name, points, cfls = "deepwave", Stencil.points, (0.42,)  # from 0.424 on it makes several steps of one

    def __init__(self, args):
        import deepwave
        import deepwave.time_dispersion
        import torch
        warnings.simplefilter("ignore")  # of faces that reflect, later than the trace, and of few points per wavelength
        torch.set_num_threads(args.threads)
        self.d, self.torch, self.device = deepwave, torch, "cuda" if args.device == "cuda" else "cpu"

    def run(self, case):
        t, place = self.torch, lambda at: self.torch.tensor([[[*at]]], device=self.device)
        v = t.full((case.nx, case.nz), V, device=self.device)
        signal = t.tensor(ricker(case.t), dtype=t.float32, device=self.device)[None, None]
        signal = self.d.time_dispersion.correct_source(signal, case.dt)
        begin = time.perf_counter()
        out = self.d.scalar(v, case.h, case.dt, source_amplitudes=signal, source_locations=place(case.source),
                            receiver_locations=place(case.receiver), accuracy=8, pml_width=0)[-1].cpu()
        took = time.perf_counter() - begin
        return self.d.time_dispersion.correct_receivers(out, case.dt)[0, 0].numpy().astype(float), took


class KWave:
    """Its additive source is the time derivative of what it is given. NumPy's FFTs: its fast programs are no library."""
    name, points, cfls = "k-Wave (NumPy)", (5, 6, 7, 8), (0.3, 0.6)

    def __init__(self, args):
        urllib.request.urlretrieve = lambda url, path: Path(path).touch()  # importing kwave fetches programs that are not run here
        from kwave.kgrid import kWaveGrid
        from kwave.kmedium import kWaveMedium
        from kwave.ksensor import kSensor
        from kwave.ksource import kSource
        from kwave.kspaceFirstOrder import kspaceFirstOrder
        self.parts = kWaveGrid, kWaveMedium, kSensor, kSource, kspaceFirstOrder

    def run(self, case):
        grid_of, medium, sensor_of, source_of, solve = self.parts
        size = [case.nx, case.nz]
        grid, source, sensor = grid_of(size, [case.h] * 2), source_of(), sensor_of()
        grid.setTime(case.steps + 1, case.dt)
        source.p_mask, sensor.mask, sensor.record = np.zeros(size), np.zeros(size), ["p"]
        source.p_mask[case.source], sensor.mask[case.receiver] = 1, 1
        source.p = 1e6 * ricker(case.t, integral=True)[None]
        begin = time.perf_counter()
        trace = solve(grid, medium(sound_speed=V, density=1000), source, sensor, pml_inside=False, pml_size=20, quiet=True)["p"]
        return np.asarray(trace).reshape(-1), time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stencil")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wavelengths", type=int, default=100)
    parser.add_argument("--device", choices=("host", "cuda"), default="host")
    kinds = {kind.__name__: kind for kind in (Stencil, Devito, Deepwave, KWave)}
    parser.add_argument("--only", choices=kinds)
    args = parser.parse_args()
    args.stencil = Path(args.stencil).resolve()
    best = {}
    for kind in [kinds[args.only]] if args.only else kinds.values():
        try:
            solver = kind(args)
        except ImportError as missing:
            print(f"{kind.name}: left out: {missing}")
            continue
        for points in kind.points:
            for cfl in kind.cfls:
                case, seconds = Case(points, cfl, args.wavelengths), []
                for _ in range(3):
                    trace, took = solver.run(case)
                    seconds.append(took)
                    if took > 20:
                        break
                late = case.t > args.wavelengths * LENGTH / V - 0.5 / F0
                off = error_of(case.t[late], trace[:len(case.t)][late], args.wavelengths * LENGTH, case.dt)
                print(f"{kind.name:16} {points:3} points per wavelength, v dt / h {cfl:.3f}: error {100 * off:8.3f} %, {min(seconds):7.3f} s", flush=True)
                for limit in LIMITS:
                    if off <= limit:
                        best[kind.name, limit] = min(best.get((kind.name, limit), np.inf), min(seconds))
    print("\nseconds to an error of at most", *(f"{100 * limit:g} %" for limit in LIMITS), sep="\t")
    for name in dict.fromkeys(name for name, _ in best):
        print(name, *(f"{best[name, limit]:.3g}" if (name, limit) in best else "-" for limit in LIMITS), sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main())
